//! Queueing disciplines: what else handles packets at an interface.

use netlink_packet_core::{NLM_F_CREATE, NLM_F_REPLACE};
use netlink_packet_route::RouteNetlinkMessage;
use netlink_packet_route::tc::{TcAttribute, TcHandle, TcMessage};

use super::{InterfaceIndex, Netlink};
use crate::IoError;
use crate::bpf::TcDirection;

/// `TC_H_CLSACT`.
const CLSACT: u16 = 0xffff;

/// `TC_H_MIN_INGRESS`, `TC_H_MIN_EGRESS`.
const fn hook_of(direction: TcDirection) -> u16 {
    match direction {
        TcDirection::In => 0xfff2,
        TcDirection::Out => 0xfff3,
    }
}

/// Those for what comes in, as `tc qdisc` calls them.
const INGRESS: [&str; 2] = ["ingress", "clsact"];

impl Netlink {
    /// The kind of the interface's queueing discipline for what comes in, if it has one.
    ///
    /// # Errors
    /// When the kernel does not answer.
    pub fn ingress_discipline(&self, interface: InterfaceIndex) -> Result<Option<String>, IoError> {
        let kinds = self.disciplines(interface, |_| true)?;
        Ok(kinds.into_iter().find(|kind| INGRESS.contains(&kind.as_str())))
    }

    /// The kind of the interface's queueing discipline for what goes out, if it has one.
    ///
    /// # Errors
    /// When the kernel does not answer.
    pub fn root_discipline(&self, interface: InterfaceIndex) -> Result<Option<String>, IoError> {
        Ok(self.disciplines(interface, |parent| parent == TcHandle::ROOT)?.pop())
    }

    /// Gives the interface a queueing discipline for what goes out, with the defaults of its kind. One that is down keeps
    /// it when it comes up; otherwise the kernel gives it that of `net.core.default_qdisc`.
    ///
    /// # Errors
    /// When the kernel has no such kind, or the privilege is missing.
    pub fn set_root_discipline(&self, interface: InterfaceIndex, kind: &str) -> Result<(), IoError> {
        let mut message = TcMessage::default();
        message.header.index = interface.get().cast_signed();
        message.header.parent = TcHandle::ROOT;
        message.attributes.push(TcAttribute::Kind(kind.to_owned()));
        self.change(RouteNetlinkMessage::NewQueueDiscipline(message), NLM_F_CREATE | NLM_F_REPLACE, || {
            format!("give interface {} the queueing discipline {kind}", interface.get())
        })
    }

    /// Kinds of the interface's queueing disciplines below those parents.
    fn disciplines(
        &self,
        interface: InterfaceIndex,
        is_wanted: impl Fn(TcHandle) -> bool,
    ) -> Result<Vec<String>, IoError> {
        let request = RouteNetlinkMessage::GetQueueDiscipline(TcMessage::default());
        let answers = self.dump(request, || "list queueing disciplines".to_owned())?;
        let is_here = |message: &TcMessage| message.header.index.cast_unsigned() == interface.get();
        let kinds = answers.into_iter().filter_map(|answer| match answer {
            RouteNetlinkMessage::NewQueueDiscipline(message)
                if is_here(&message) && is_wanted(message.header.parent) =>
            {
                message.attributes.into_iter().find_map(|attribute| match attribute {
                    TcAttribute::Kind(kind) => Some(kind),
                    _ => None,
                })
            }
            _ => None,
        });
        Ok(kinds.collect())
    }

    /// Priorities of the filters of the interface's clsact qdisc, in order: a filter that decides leaves nothing to those
    /// behind it. For what comes in, or for what goes out.
    ///
    /// # Errors
    /// When the kernel does not answer.
    pub fn filter_priorities(
        &self,
        interface: InterfaceIndex,
        direction: TcDirection,
    ) -> Result<Vec<u16>, IoError> {
        let mut message = TcMessage::default();
        message.header.index = interface.get().cast_signed();
        message.header.parent = TcHandle { major: CLSACT, minor: hook_of(direction) };
        let request = RouteNetlinkMessage::GetTrafficFilter(message);
        let answers = self.dump(request, || format!("list filters of interface {}", interface.get()))?;
        let mut priorities: Vec<u16> = answers
            .into_iter()
            .filter_map(|answer| match answer {
                // The upper half; the lower one is the protocol.
                RouteNetlinkMessage::NewTrafficFilter(message) => Some((message.header.info >> 16) as u16),
                _ => None,
            })
            .collect();
        priorities.sort_unstable();
        priorities.dedup();
        Ok(priorities)
    }
}
