//! The parsers of what this crate reads and others may have written, from bytes: for fuzz targets. Nothing here is
//! for programs.

use std::net::SocketAddr;

use engine::{FlowRecord, Port};
use handover::Note;
use io::VnetHeader;
use io::netlink::{self, Family, Ruleset};
use units::Instant;

use crate::firewall::{self, Face, Names};
use crate::handover::ledger;
use crate::inherited_resources::Inventory;
use crate::inline::frame;
use crate::inline::link_headers::{self, SharedHeaders};
use crate::record::Record;
use crate::upgrade::transfer::Holder;
use crate::{Offer, journal};

/// A flow by its sink and its source.
pub type Ends = (SocketAddr, SocketAddr);

/// Link headers towards either side: addresses, and a VLAN tag.
pub type Links = [Option<([u8; 12], Option<[u8; 4]>)>; 2];

/// A journal's flows with their records and link headers, and the one that was being handled.
pub type Journal = (Vec<(Ends, FlowRecord, Links)>, Option<Ends>);

/// The flows in the bytes of a journal's file with their records and link headers, and the one that was being
/// handled.
#[must_use]
pub fn journal(bytes: &[u8]) -> Option<Journal> {
    let words = journal::words_of(bytes)?;
    let flows = journal::left_in(&words, Port::Mobile).into_iter().map(|left| {
        let links = left.links.map(|link| link.map(|link| (link.addresses, link.tag)));
        ((left.entry.sink, left.entry.source), left.entry.record, links)
    });
    Some((flows.collect(), journal::in_hand(&words)))
}

/// An instance's record, written again.
#[must_use]
pub fn record(text: &str) -> Option<String> {
    let record = Record::parse(text)?;
    let rules: Vec<io::netlink::Rule> = record.rules.iter().map(Into::into).collect();
    // Undone by name, and named in errors.
    let _ = (
        crate::reset_orphans::Passage::of_record(&record),
        rules.iter().map(ToString::to_string).collect::<Vec<_>>(),
    );
    Some(record.to_text())
}

/// Inventory that a watchdog keeps, written again, with the number of descriptors that have to come beside it.
///
/// # Errors
/// Fault of the text.
pub fn inventory(text: &[u8]) -> Result<(Vec<u8>, usize), String> {
    let mut inventory: Inventory = serde_json::from_slice(text).map_err(|error| error.to_string())?;
    let written = serde_json::to_vec(&inventory).map_err(|error| error.to_string())?;
    let count = inventory.descriptors();
    inventory.note_death();
    Ok((written, count))
}

/// The same without any descriptor: refused in one line unless it says that there are none.
#[must_use]
pub fn kept(text: &[u8]) -> Option<String> {
    crate::inherited_resources::InheritedResources::parse(text, Vec::new())
        .err()
        .map(|error| error.to_string())
}

/// The question that a line at the control socket is.
///
/// # Errors
/// Text of the answer in its place.
pub fn question(line: &str) -> Result<crate::Question, String> {
    crate::question::question_of(line)
}

/// Reasons why flows do not go to the maker of an offer, for holders of every kind.
#[must_use]
pub fn objections(offer: &Offer) -> Vec<String> {
    let holder = Holder {
        shards: 1,
        ipv6_prefix_len: 64,
        held: 1,
        is_ending: false,
        is_undecided: false,
        is_passed: false,
        is_shared: true,
    };
    let holders = [
        holder,
        Holder { shards: 2, ..holder },
        Holder { shards: offer.shards, held: u64::MAX, ..holder },
        Holder { shards: offer.shards, is_shared: false, ..holder },
    ];
    holders.iter().filter_map(|holder| holder.objection(offer)).collect()
}

/// A hand-over's note with the names of its peers, of the boot `boot`.
#[must_use]
pub fn note(bytes: &[u8], boot: &str) -> Option<(Vec<String>, Note)> {
    ledger::parse(bytes, boot)
}

/// A frame's addresses and the packet in it, where it is IP.
#[must_use]
pub fn frame(frame: &[u8], tag: Option<[u8; 4]>) -> Option<([u8; 12], &[u8])> {
    frame::split(frame, tag).map(|(header, packet)| (header.addresses, packet))
}

/// Virtio header whose places are moved by `by` bytes.
#[must_use]
pub fn moved(virtio: VnetHeader, by: i16) -> VnetHeader {
    frame::moved(virtio, by)
}

/// Headers in front of flows' packets, as a bridge learns them from frames.
#[derive(Debug)]
pub struct Learnt(SharedHeaders);

impl Learnt {
    /// Nothing yet.
    #[must_use]
    pub fn new() -> Self {
        Self(SharedHeaders::new(7))
    }

    /// Learns of a frame with these addresses that goes to `to`; false when the flow is another network's.
    pub fn learn(&self, flow: Ends, to: Port, addresses: [u8; 12], tag: Option<[u8; 4]>) -> bool {
        let (mut headers, header) = (self.0.lock(), link_headers::LinkHeader { addresses, tag });
        let is_its = headers.see(flow, to, header) != link_headers::Seen::Elsewhere;
        if is_its {
            headers.learn(flow, to, header, Instant::ZERO);
        }
        is_its
    }

    /// Header in front of packets of a flow that go to `to`.
    #[must_use]
    pub fn get(&self, flow: Ends, to: Port) -> Option<([u8; 12], Option<[u8; 4]>)> {
        self.0.lock().get(flow, to).map(|header| (header.addresses, header.tag))
    }
}

impl Default for Learnt {
    fn default() -> Self {
        Self::new()
    }
}

/// Findings about rules as the kernel gives those of nft, and of those of the older iptables of both families.
#[must_use]
pub fn firewall(bytes: &[u8]) -> Vec<String> {
    let names = Names { wired: "w0", mobile: "m0", wired_tun: "cellw0", mobile_tun: "cellm0" };
    let interfaces =
        [("w0", 2), ("m0", 3)].map(|(name, index)| Face { name, index: Some(index), is_bridge: index == 3 });
    let legacy = Family::BOTH.map(|family| netlink::outside::legacy(family, bytes));
    let [v4, v6] = legacy.map(|chains| Ruleset { chains, ..Ruleset::default() });
    let all = [netlink::outside::ruleset(bytes), v4, v6];
    let found =
        all.iter().map(|ruleset| firewall::judge(ruleset, names, interfaces, false, &|_| String::new()));
    found
        .flat_map(|found| found.against_tcx.into_iter().chain(found.against_rules).chain(found.cautions))
        .collect()
}
