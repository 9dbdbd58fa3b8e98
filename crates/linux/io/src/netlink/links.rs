//! Links: network interfaces of any kind.

use std::os::fd::{AsFd, AsRawFd};

use netlink_packet_core::{NLM_F_CREATE, NLM_F_EXCL};
use netlink_packet_route::RouteNetlinkMessage;
use netlink_packet_route::link::{
    InfoBridge, InfoData, InfoKind, InfoVeth, LinkAttribute, LinkFlags, LinkInfo, LinkLayerType, LinkMessage,
};

use super::{InterfaceIndex, Netlink};
use crate::{IoError, Namespace};

/// A network interface as it is now.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Link {
    /// Its number in this namespace.
    pub index: InterfaceIndex,
    /// Its name.
    pub name: String,
    /// Kind of the interface (`veth`, `tun`, `bridge`); `None` for hardware.
    pub kind: Option<String>,
    /// The bridge whose port it is.
    pub bridge: Option<InterfaceIndex>,
    /// Switched on by the administrator.
    pub is_up: bool,
    /// Switched on, and the medium is there.
    pub has_carrier: bool,
    /// In operation (RFC 2863 §3.1.14): its queue takes packets. After the medium appears the
    /// kernel takes a moment for this, and drops what is sent before without a word.
    pub is_running: bool,
    /// Largest packet, in bytes.
    pub mtu: u32,
    /// Packets its queue holds.
    pub queue_len_packets: u32,
    /// Bytes before IP in its packets: 14 on Ethernet, 0 where there is nothing; `None` for other media.
    pub header_len: Option<u32>,
    /// Counters since it was made.
    pub stats: LinkStats,
}

/// An interface's counters, as the kernel sees it: `tx` leaves the kernel through the interface.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[allow(missing_docs)] // The names say all.
pub struct LinkStats {
    pub rx_packets: u64,
    pub tx_packets: u64,
    pub rx_bytes: u64,
    pub tx_bytes: u64,
    pub rx_errors: u64,
    pub tx_errors: u64,
    pub rx_dropped: u64,
    /// For a TUN: packets lost because the process did not read them in time.
    pub tx_dropped: u64,
}

/// Changes to an interface; `None` leaves it as it is.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct LinkChange {
    /// Switch it on or off.
    pub up: Option<bool>,
    /// Largest packet, in bytes.
    pub mtu: Option<u32>,
    /// Packets its queue holds.
    pub queue_len_packets: Option<u32>,
    /// A new name.
    pub name: Option<String>,
    /// Multicast at all.
    pub multicast: Option<bool>,
    /// Segments of a super-packet at most, that is sent through it; 1 has the kernel send ordinary packets.
    pub gso_segments_max: Option<u32>,
}

/// One end of a virtual cable.
#[derive(Clone, Copy, Debug)]
pub struct VethEnd<'a> {
    /// The interface's name there.
    pub name: &'a str,
    /// The namespace the end lies in; `None` for that of the netlink socket.
    pub namespace: Option<&'a Namespace>,
}

impl Netlink {
    /// All interfaces, in the order of their numbers.
    ///
    /// # Errors
    /// When the kernel does not answer.
    pub fn links(&self) -> Result<Vec<Link>, IoError> {
        let answers =
            self.dump(RouteNetlinkMessage::GetLink(LinkMessage::default()), || "list interfaces".into())?;
        let mut links: Vec<Link> = answers.into_iter().filter_map(parse).collect();
        links.sort_by_key(|link| link.index);
        Ok(links)
    }

    /// The interface called `name`.
    ///
    /// # Errors
    /// [`IoError::NoInterface`] when there is none.
    pub fn link(&self, name: &str) -> Result<Link, IoError> {
        let mut message = LinkMessage::default();
        message.attributes.push(LinkAttribute::IfName(name.to_owned()));
        self.one_link(message, name)
    }

    /// The interface numbered `index`.
    ///
    /// # Errors
    /// [`IoError::NoInterface`] when there is none.
    pub fn link_by_index(&self, index: InterfaceIndex) -> Result<Link, IoError> {
        let mut message = LinkMessage::default();
        message.header.index = index.get();
        self.one_link(message, &format!("number {}", index.get()))
    }

    fn one_link(&self, message: LinkMessage, name: &str) -> Result<Link, IoError> {
        let missing = || IoError::NoInterface { name: name.to_owned() };
        let answers =
            self.get(RouteNetlinkMessage::GetLink(message), || format!("ask for the interface '{name}'"));
        match answers {
            Ok(answers) => answers.into_iter().find_map(parse).ok_or_else(missing),
            // A name of more than 15 characters is "out of range" to the kernel.
            Err(e) if e.is_not_there() || matches!(e.raw_os_error(), Some(libc::ERANGE | libc::EINVAL)) => {
                Err(missing())
            }
            Err(e) => Err(e),
        }
    }

    /// The number of the interface called `name`.
    ///
    /// # Errors
    /// [`IoError::NoInterface`] when there is none.
    pub fn index_of(&self, name: &str) -> Result<InterfaceIndex, IoError> {
        Ok(self.link(name)?.index)
    }

    /// Changes an interface.
    ///
    /// # Errors
    /// When it is not there, a value is out of range, or the privilege is missing.
    pub fn change_link(&self, index: InterfaceIndex, change: &LinkChange) -> Result<(), IoError> {
        let mut message = LinkMessage::default();
        message.header.index = index.get();
        for (flag, wanted) in [(LinkFlags::Up, change.up), (LinkFlags::Multicast, change.multicast)] {
            if let Some(wanted) = wanted {
                message.header.change_mask |= flag;
                message.header.flags.set(flag, wanted);
            }
        }
        message.attributes.extend(change.mtu.map(LinkAttribute::Mtu));
        message.attributes.extend(change.queue_len_packets.map(LinkAttribute::TxQueueLen));
        message.attributes.extend(change.gso_segments_max.map(LinkAttribute::GsoMaxSegs));
        message.attributes.extend(change.name.clone().map(LinkAttribute::IfName));
        self.change(RouteNetlinkMessage::SetLink(message), 0, || {
            format!("change interface number {} ({change:?})", index.get())
        })
    }

    /// Switches an interface on.
    ///
    /// # Errors
    /// As [`Netlink::change_link`].
    pub fn set_up(&self, index: InterfaceIndex) -> Result<(), IoError> {
        self.change_link(index, &LinkChange { up: Some(true), ..LinkChange::default() })
    }

    /// Moves an interface to another namespace, where it is off and has no addresses.
    ///
    /// # Errors
    /// When it may not be moved or its name is taken there.
    pub fn move_link(&self, index: InterfaceIndex, to: &Namespace) -> Result<(), IoError> {
        let mut message = LinkMessage::default();
        message.header.index = index.get();
        message.attributes.push(LinkAttribute::NetNsFd(to.as_fd().as_raw_fd()));
        self.change(RouteNetlinkMessage::SetLink(message), 0, || {
            format!("move interface number {} to namespace '{}'", index.get(), to.name())
        })
    }

    /// Removes an interface; both ends of a virtual cable go together.
    ///
    /// # Errors
    /// When it is not there or is hardware.
    pub fn delete_link(&self, index: InterfaceIndex) -> Result<(), IoError> {
        let mut message = LinkMessage::default();
        message.header.index = index.get();
        self.change(RouteNetlinkMessage::DelLink(message), 0, || {
            format!("delete interface number {}", index.get())
        })
    }

    /// Makes a bridge that hides nothing: no spanning tree, no multicast snooping, and what is
    /// meant for bridges passes (IEEE 802.1D §7.12.6), but for the three addresses that the kernel
    /// never lets pass. It is off.
    ///
    /// # Errors
    /// When the name is taken or the privilege is missing.
    pub fn create_bridge(&self, name: &str) -> Result<(), IoError> {
        /// All reserved group addresses but those of spanning tree, pause frames and LACP.
        const GROUPS: u16 = 0xfff8;
        let data =
            InfoData::Bridge(vec![InfoBridge::MulticastSnooping(false), InfoBridge::GroupFwdMask(GROUPS)]);
        let mut message = LinkMessage::default();
        message.attributes.push(LinkAttribute::IfName(name.to_owned()));
        let info = vec![LinkInfo::Kind(InfoKind::Bridge), LinkInfo::Data(data)];
        message.attributes.push(LinkAttribute::LinkInfo(info));
        self.change(RouteNetlinkMessage::NewLink(message), NLM_F_CREATE | NLM_F_EXCL, || {
            format!("create the bridge '{name}'")
        })
    }

    /// Makes an interface a port of `bridge`.
    ///
    /// # Errors
    /// When it is a port of another one, or cannot be one.
    pub fn set_bridge(&self, index: InterfaceIndex, bridge: InterfaceIndex) -> Result<(), IoError> {
        let mut message = LinkMessage::default();
        message.header.index = index.get();
        message.attributes.push(LinkAttribute::Controller(bridge.get()));
        self.change(RouteNetlinkMessage::SetLink(message), 0, || {
            format!("make interface number {} a port of a bridge", index.get())
        })
    }

    /// Lays a virtual cable; both ends are off and without addresses.
    ///
    /// # Errors
    /// When a name is taken or the privilege is missing.
    pub fn create_veth(&self, a: VethEnd<'_>, b: VethEnd<'_>) -> Result<(), IoError> {
        let mut message = end_message(a);
        let peer = LinkInfo::Data(InfoData::Veth(InfoVeth::Peer(end_message(b))));
        message.attributes.push(LinkAttribute::LinkInfo(vec![LinkInfo::Kind(InfoKind::Veth), peer]));
        self.change(RouteNetlinkMessage::NewLink(message), NLM_F_CREATE | NLM_F_EXCL, || {
            format!("create the virtual cable '{}' to '{}'", a.name, b.name)
        })
    }
}

fn end_message(end: VethEnd<'_>) -> LinkMessage {
    let mut message = LinkMessage::default();
    message.attributes.push(LinkAttribute::IfName(end.name.to_owned()));
    message
        .attributes
        .extend(end.namespace.map(|namespace| LinkAttribute::NetNsFd(namespace.as_fd().as_raw_fd())));
    message
}

pub(super) fn parse(answer: RouteNetlinkMessage) -> Option<Link> {
    let RouteNetlinkMessage::NewLink(message) = answer else { return None };
    let flags = message.header.flags;
    let mut link = Link {
        index: InterfaceIndex(message.header.index),
        name: String::new(),
        kind: None,
        bridge: None,
        is_up: flags.contains(LinkFlags::Up),
        has_carrier: flags.contains(LinkFlags::LowerUp),
        is_running: flags.contains(LinkFlags::Running),
        mtu: 0,
        queue_len_packets: 0,
        header_len: match message.header.link_layer_type {
            LinkLayerType::Ether | LinkLayerType::Loopback => Some(14),
            // TUN, WireGuard, and modems without Ethernet.
            LinkLayerType::None | LinkLayerType::Rawip => Some(0),
            _ => None,
        },
        stats: LinkStats::default(),
    };
    for attribute in message.attributes {
        match attribute {
            LinkAttribute::IfName(name) => link.name = name,
            LinkAttribute::Mtu(mtu) => link.mtu = mtu,
            LinkAttribute::Controller(index) => link.bridge = Some(InterfaceIndex(index)),
            LinkAttribute::TxQueueLen(len) => link.queue_len_packets = len,
            LinkAttribute::LinkInfo(infos) => {
                link.kind = infos.into_iter().find_map(|info| match info {
                    LinkInfo::Kind(kind) => Some(kind.to_string()),
                    _ => None,
                });
            }
            LinkAttribute::Stats64(s) => {
                link.stats = LinkStats {
                    rx_packets: s.rx_packets,
                    tx_packets: s.tx_packets,
                    rx_bytes: s.rx_bytes,
                    tx_bytes: s.tx_bytes,
                    rx_errors: s.rx_errors,
                    tx_errors: s.tx_errors,
                    rx_dropped: s.rx_dropped,
                    tx_dropped: s.tx_dropped,
                };
            }
            _ => {}
        }
    }
    Some(link)
}
