//! [`Inheritance`]: the sockets and the fallback of a bridge, as they go from process to process.
//!
//! The new process reads frames from the very sockets of the old one: what waits in them is not lost, and no
//! frame comes twice. The kernel's bridge goes on standing by behind the same program, with the same heartbeat.
//! Only one process reads the sockets at any time: the one whose record it is.

use io::netlink::{Link, Netlink};
use io::{FrameSocket, NamespaceId, bpf};
use units::Duration;

use super::fallback::Fallback;
use crate::inherited_resources::{InheritedResources, Inventory};
use crate::record::Record;
use crate::{Config, InlineFallback, RunError};

/// Resources that a bridge builds on.
#[derive(Debug)]
pub(super) struct Inheritance {
    pub record: Record,
    /// Wired, mobile.
    pub sockets: [FrameSocket; 2],
    pub fallback: Option<Fallback>,
}

impl Inheritance {
    /// Resources that another process has, as `record` says, between `links`: it is that one's until it is owned.
    ///
    /// # Errors
    /// When something is not as it was any more, or `config` wants it otherwise.
    pub fn of(
        config: &Config,
        netlink: &Netlink,
        kept: &mut InheritedResources,
        record: Record,
        links: &[Link; 2],
    ) -> Result<Self, RunError> {
        let no = |why: String| RunError::Settings(why);
        let names = [record.wired.as_str(), record.mobile.as_str()];
        if names != [config.wired.as_str(), config.mobile.as_str()]
            || !record.namespace.is(&NamespaceId::here()?)
        {
            return Err(no(format!("it has bridged {} and {}, elsewhere", names[0], names[1])));
        }
        if let Some(difference) = difference(config, &kept.inventory, &record) {
            return Err(no(difference));
        }
        let sockets = kept.take_sockets(names).ok_or_else(|| no("it has not two sockets".to_owned()))?;
        for (socket, link) in sockets.iter().zip(links) {
            if !socket.is_at(link.index)? {
                return Err(no(format!("{} was made anew, and it has not followed", link.name)));
            }
        }
        let fallback = match &record.bridge {
            Some(bridge) => {
                let hang_after = Duration::from_millis(kept.inventory.hang_after_ms);
                let found = find_fallback(bridge, netlink, kept, hang_after, links)?;
                Some(found.ok_or_else(|| no(format!("{bridge} does not stand by any more")))?)
            }
            None => None,
        };
        let record = Record { name: config.instance_name(), ..record };
        Ok(Self { record, sockets, fallback })
    }
}

/// The fallback `bridge` with what is kept of it, if it stands by still.
fn find_fallback(
    bridge: &str,
    netlink: &Netlink,
    kept: &mut InheritedResources,
    hang_after: Duration,
    links: &[Link; 2],
) -> Result<Option<Fallback>, RunError> {
    let index = match netlink.index_of(bridge) {
        Err(error) if error.is_not_there() => return Ok(None),
        found => found?,
    };
    let is_guarded = |link: &Link| kept.links.iter().any(|program| bpf::is_at(program, link.index));
    let stands_by = links.iter().all(|link| link.bridge == Some(index) && is_guarded(link));
    let heartbeat = kept.shared.take().filter(|_| stands_by);
    let links = std::mem::take(&mut kept.links);
    Ok(heartbeat.and_then(|heartbeat| Fallback::inherit(index, heartbeat, hang_after, links)))
}

/// Difference between `config` and the instance that has `kept`; none if there is none.
fn difference(config: &Config, kept: &Inventory, record: &Record) -> Option<String> {
    let name = |has_bridge: bool| if has_bridge { "bridge" } else { "none" };
    let (has_bridge, wants_bridge) = (record.bridge.is_some(), config.inline == Some(InlineFallback::Bridge));
    let hang_after_ms = config.hang_after().as_millis();
    if !kept.is_bridge {
        return Some("it steers, the settings say --inline".to_owned());
    }
    if has_bridge != wants_bridge {
        let (has, wanted) = (name(has_bridge), name(wants_bridge));
        return Some(format!("it has --inline-fallback {has}, the settings say {wanted}"));
    }
    (has_bridge && hang_after_ms != kept.hang_after_ms).then(|| {
        let has = kept.hang_after_ms;
        format!("its program takes it for hung after {has} ms, the settings say {hang_after_ms} ms")
    })
}
