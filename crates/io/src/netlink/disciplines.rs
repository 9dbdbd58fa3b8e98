//! Queueing disciplines: what else handles packets at an interface.

use netlink_packet_route::RouteNetlinkMessage;
use netlink_packet_route::tc::{TcAttribute, TcMessage};

use super::{InterfaceIndex, Netlink};
use crate::IoError;

/// Those for what comes in, as `tc qdisc` calls them.
const INGRESS: [&str; 2] = ["ingress", "clsact"];

impl Netlink {
    /// The kind of the interface's queueing discipline for what comes in, if it has one.
    ///
    /// # Errors
    /// When the kernel does not answer.
    pub fn ingress_discipline(&self, interface: InterfaceIndex) -> Result<Option<String>, IoError> {
        let request = RouteNetlinkMessage::GetQueueDiscipline(TcMessage::default());
        let answers = self.dump(request, || "list queueing disciplines".to_owned())?;
        let is_here = |message: &TcMessage| message.header.index.cast_unsigned() == interface.get();
        let kinds = answers.into_iter().filter_map(|answer| match answer {
            RouteNetlinkMessage::NewQueueDiscipline(message) if is_here(&message) => {
                message.attributes.into_iter().find_map(|attribute| match attribute {
                    TcAttribute::Kind(kind) => Some(kind),
                    _ => None,
                })
            }
            _ => None,
        });
        Ok(kinds.into_iter().find(|kind| INGRESS.contains(&kind.as_str())))
    }
}
