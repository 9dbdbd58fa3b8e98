//! [`Processor`]: what the packet loop needs of whatever handles the packets.

use std::fmt;
use std::net::IpAddr;
use std::os::fd::{BorrowedFd, OwnedFd};
use std::sync::mpsc;

use engine::{
    ControlGroup, Journal, JournalEntry, Middlebox, Notice, PassThrough, Port, Transmit, UnknownFlow,
    Verdict, Wants,
};
use handover::{Note, Peer};
use units::{Duration, Instant};
use wire::VirtioNetHeader;

use crate::ab::SharedTally;
use crate::{
    EngineMeters, FlowList, HandoverRequest, Ledger, Outlets, ProcessorStatus, Relayed, SubscriberList,
    SubscriberView,
};

/// State of a processor's flows, as it goes from process to process.
#[derive(Debug)]
pub struct FlowState {
    /// The state, complete ([`io::MappedState`]).
    pub state: OwnedFd,
    /// Memory with the held data that the state only names the place of.
    pub memory: Option<OwnedFd>,
}

/// Figures, flows and subscribers of a processor, and accounts of its flows for others.
pub trait Inspection {
    /// Handshakes that began from the wired side, and from the mobile one.
    fn openings(&self) -> [u64; 2] {
        [0; 2]
    }

    /// Counts of the processor.
    fn status(&self) -> ProcessorStatus {
        ProcessorStatus::default()
    }

    /// Metrics of the processor: copied and not evaluated, since packets wait meanwhile.
    fn meters(&self) -> EngineMeters {
        EngineMeters::default()
    }

    /// Has this noted of flows and subscribers from here on, and nothing else.
    fn set_wants(&mut self, _wants: Wants) {}

    /// Begins an A/B phase in which the subscribers of `group` are passed, or ends it.
    fn set_control_group(&mut self, _group: Option<ControlGroup>) {}

    /// Takes in what was measured of flows since the last time; a few times a second.
    fn gather_measured(&mut self) {}

    /// Gives memory back to the kernel that has been of no use for a while, or some of it; a few times a second.
    fn release_idle_memory(&mut self) {}

    /// Measurements of the A/B phase; they go on until the next one begins.
    fn measured(&mut self) -> SharedTally {
        SharedTally::default()
    }

    /// Takes the oldest notice, if there is one.
    fn take_notice(&mut self) -> Option<Notice> {
        None
    }

    /// Notices that had no room since this was asked last.
    fn take_lost_notices(&mut self) -> u64 {
        0
    }

    /// New flows and data refused so far, because a table or memory was full.
    fn refusals(&self) -> u64 {
        0
    }

    /// Its flows from the `skip`th on, `count` at most.
    fn flows(&self, _skip: usize, _count: usize, _now: Instant) -> FlowList {
        FlowList::default()
    }

    /// Number of its flows.
    fn flow_count(&self) -> usize {
        0
    }

    /// Its subscribers from a place on, in bounded number.
    fn subscribers(&self, _from: u64, _now: Instant) -> SubscriberList {
        SubscriberList::default()
    }

    /// A subscriber, and part of its flows from a place on.
    fn subscriber(&self, _client: IpAddr, _from: u64, _now: Instant) -> SubscriberView {
        SubscriberView::default()
    }

    /// Time that a host may be silent that is owed something.
    fn debt_timeout(&self) -> Duration {
        Duration::ZERO
    }

    /// Memory that it may hold data in, and that it holds, bytes.
    fn memory(&self) -> (u64, u64) {
        (0, 0)
    }
}

/// Flows of a processor that go on in another process, or come from one.
pub trait FlowTransfer {
    /// Notes what it owes to clients in `downlink` and what to servers in `uplink`, if it ever owes anything.
    fn keep_journals(&mut self, _downlink: Box<dyn Journal>, _uplink: Box<dyn Journal>) {}

    /// Goes on with other journals, in which all is noted that is in those before; those are retired then.
    fn change_journals(&mut self, _downlink: Box<dyn Journal>, _uplink: Box<dyn Journal>) {}

    /// Packets may have gone past for a while: hand back every flow there is as soon as nothing is
    /// owed to it.
    fn resynchronise(&mut self, _now: Instant) {}

    /// Prepares to [`FlowTransfer::store`] its flows soon, and drops `done` when it is ready: no packet waits for that.
    fn prepare_to_store(&mut self, _done: mpsc::Sender<()>) {}

    /// Everything it knows of its flows, for another process to go on with; between two turns of the loop.
    ///
    /// # Errors
    /// Reason why that cannot be, in one line.
    fn store(&self) -> Result<FlowState, String> {
        Err("it has no flows that could go elsewhere".to_owned())
    }

    /// Prepares to go on with about `flows` flows of another process, whose held data is in `memory`: no packet
    /// waits yet.
    fn expect_flows(&mut self, _flows: usize, _memory: Option<BorrowedFd<'_>>) {}

    /// Goes on with the flows of another process; it must not have had any. Until [`FlowTransfer::own`] the
    /// other one may still keep them: nothing of theirs is changed.
    ///
    /// # Errors
    /// Reason why that cannot be, in one line; then it has none, as before.
    fn resume(&mut self, _flows: FlowState, _now: Instant) -> Result<(), String> {
        Err("it has no use for flows of another process".to_owned())
    }

    /// The flows that [`FlowTransfer::resume`] took in are its own from here on.
    fn own(&mut self) {}

    /// They stay the other process's.
    fn disown(&mut self) {}

    /// Its own flows are another process's from here on: it forgets them without a trace, and lets everything pass.
    fn abandon(&mut self) {}

    /// Its flows are another process's from here on, and so is the journal: it has none any more, and ends.
    fn part(&mut self) {}

    /// Memory with its held data, which outlives this process if somebody else has it; none if it has no such.
    fn held_data(&self) -> Option<OwnedFd> {
        None
    }

    /// Goes on with flows of a process that has died: where their sinks are, and what was noted of them last.
    /// `memory` has their held data. It must not have had any flow. Gives the places in `left` of those that
    /// cannot go on. [`FlowTransfer::own`] comes next, or [`FlowTransfer::disown`].
    ///
    /// # Errors
    /// Reason why none can, in one line.
    fn recover(
        &mut self,
        _left: &[(Port, JournalEntry)],
        _memory: Option<OwnedFd>,
        _now: Instant,
    ) -> Result<Vec<usize>, String> {
        Err("it has no use for flows of another process".to_owned())
    }
}

/// Subscribers of a processor that move between boxes.
pub trait SubscriberHandover {
    /// Packets of subscribers that are elsewhere go out by these from here on; `ipv6_prefix_len` bits make a
    /// subscriber.
    fn set_outlets(&mut self, _outlets: Outlets, _ipv6_prefix_len: u8, _ledger: Ledger) {}

    /// Takes in the notes of subscribers that are elsewhere, or may be.
    fn remember(&mut self, _notes: &[Note]) {}

    /// Moves flows of a subscriber, or shows them. Who does not answer has none.
    fn handle_handover_request(&mut self, _request: HandoverRequest, _now: Instant) {}

    /// Takes in a packet that the box `by` has sent on, which is not sent on again.
    fn handle_relayed(
        &mut self,
        _by: Peer,
        _from: Port,
        _virtio: &VirtioNetHeader,
        _packet: &mut [u8],
        _now: Instant,
    ) -> Verdict {
        Verdict::Consumed
    }

    /// A packet that another box has sent on too early, and that can be handled now ([`SubscriberHandover::handle_relayed`]);
    /// asked for after each [`SubscriberHandover::handle_handover_request`].
    fn take_early(&mut self) -> Option<(Peer, Relayed)> {
        None
    }
}

/// A middlebox that can be supervised: told of devices and settings, asked for figures, and stopped
/// without breaking a flow.
pub trait Processor: Middlebox + Inspection + FlowTransfer + SubscriberHandover {
    /// Settings that can be put in force while it works.
    type Settings: Clone + Send + fmt::Debug;

    /// Is shown packets that are about to be handled, one after the other.
    fn look_ahead<'a>(&mut self, _from: Port, _packets: impl Iterator<Item = &'a [u8]> + Clone) {}

    /// The flow of the packet handled last, if it was forwarded, its flow is none of ours,
    /// and none of its packets is going to be before its ports are opened anew.
    fn take_unknown_flow(&mut self) -> Option<UnknownFlow> {
        None
    }

    /// True when the packet handled last is surely of the host that it names; told once.
    fn take_news(&mut self) -> bool {
        false
    }

    /// A subscriber, by its address or the first of its prefix, all of whose traffic is to come here from now on
    /// (true), or no longer.
    fn take_wanted_subscriber(&mut self) -> Option<(IpAddr, bool)> {
        None
    }

    /// Packets to a side may be `mtu` bytes long from here on: so its interface says.
    fn set_mtu(&mut self, _to: Port, _mtu: u32, _now: Instant) {}

    /// Limits packets that it sends to the length of the path's packets from here on.
    fn refuse_super_packets(&mut self) {}

    /// Forwards passed packets at once from here on, and does not take turns.
    fn refuse_to_schedule(&mut self) {}

    /// Reads its settings anew from wherever they came from.
    ///
    /// # Errors
    /// Reason why that is not possible, in one line.
    fn read_settings(&mut self) -> Result<Self::Settings, String> {
        Err("there are no settings to read anew".to_owned())
    }

    /// Puts settings in force; gives one line on what holds.
    ///
    /// # Errors
    /// Reason of the failure, in one line; then everything stays as it was.
    fn apply(&mut self, _settings: &Self::Settings) -> Result<String, String> {
        Err("there are no settings to put in force".to_owned())
    }

    /// The accelerator is to stop: take nothing new over and deliver what is owed.
    fn begin_drain(&mut self, _now: Instant) {}

    /// True when nothing is owed to anybody.
    fn is_drained(&self) -> bool {
        true
    }
}

impl Inspection for PassThrough {}
impl FlowTransfer for PassThrough {}
impl SubscriberHandover for PassThrough {}

/// The bare path.
impl Processor for PassThrough {
    type Settings = ();
}

/// The same, and all that is sent to one subscriber comes to it.
#[derive(Clone, Copy, Debug)]
pub(crate) struct BarePath {
    /// Address of the subscriber, as long as it has not been said.
    pub wanted: Option<IpAddr>,
}

impl Middlebox for BarePath {
    fn handle_packet(
        &mut self,
        from: Port,
        virtio: &VirtioNetHeader,
        packet: &mut [u8],
        now: Instant,
    ) -> Verdict {
        PassThrough.handle_packet(from, virtio, packet, now)
    }

    fn handle_timeout(&mut self, _: Instant) {}

    fn poll_transmit(&mut self, _: Instant) -> Option<Transmit<'_>> {
        None
    }

    fn next_deadline(&self) -> Option<Instant> {
        None
    }
}

impl Inspection for BarePath {}
impl FlowTransfer for BarePath {}
impl SubscriberHandover for BarePath {}

impl Processor for BarePath {
    type Settings = ();

    fn take_wanted_subscriber(&mut self) -> Option<(IpAddr, bool)> {
        Some((self.wanted.take()?, true))
    }
}
