//! A subscriber moves from one box to another and takes its flows along (\[EV\], after I-TCP): the protocol as a
//! state machine. It makes no system call and reads no clock; `run` and `sim` drive the same one.
//!
//! ```text
//!   A, which has it                                      B
//!     Asking    ── Prepare ────────────────────────────▶
//!               ◀──────────────────────────── Ready ───  Holding
//!     Copying   ── Copy, Copy, … ──────────────────────▶   (A goes on to deliver)
//!     Frozen    ── Copy of what is new, Commit ────────▶
//!               ◀──────────────────────── Committed ───  Owning, until it is known that A knows
//!     (over)    ── Confirm ────────────────────────────▶ (over)
//! ```
//!
//! At any time one box at most has the subscriber's flows in its engine: A until it is frozen, B from the moment
//! at which it takes the commit. What is said may be lost, delayed, doubled or reordered: it is said again until
//! it is answered. While both wait for each other, nobody has the flows. [`Config::lease`] bounds that: B gives
//! them up ([`Flows::break_off`]) so long after it was ready unless it has heard that A knows; A does so a quarter
//! later, by when B has none of them any more.
//!
//! Each box writes down what it must not forget ([`Note`]), before anything that follows from it can be seen. So a
//! process that comes after it goes on ([`Handover::remember_all`]).
//!
//! `docs/handover.md` has all states.

use std::collections::{BTreeMap, VecDeque};
use std::net::IpAddr;

use engine::{FlowEnds, HandoverFlow};
use units::{Duration, GOLDEN_GAMMA, Instant, SeqNum, mix64};

mod allowance;
mod coming;
mod copies;
mod forwarding;
mod going;
mod leaving;
mod message;
mod note;
mod past;
mod rights;
mod trips;

use allowance::Allowance;
use coming::{Asked, Coming};
pub use copies::{Copies, Survey};
pub use forwarding::{Admission, ForwardingTable, Gone, NextHop};
use going::Going;
use leaving::Leaving;
pub use message::{Lack, MESSAGE_LEN_MAX, Message, Name, Refusal, Terms, VERSION};
pub use note::{Claim, Freeze, Note, Ownership, ownership_of};
use past::Past;
use rights::subscriber_of;
pub use rights::{Prefix, Rights};
use trips::{Again, Trips};

/// A box that is known, by its place in the settings.
pub type Peer = u16;

/// A flow with the data that it holds.
pub type Loaded = (HandoverFlow, Vec<u8>);

/// The engine's part: the flows of one box, as the protocol moves them.
pub trait Flows {
    /// Flows of a subscriber that could go elsewhere.
    fn survey(&mut self, subscriber: IpAddr) -> Survey;

    /// Data that they hold behind the numbers in `sent`, where they have one; about `len_max` bytes at most.
    fn copies(&mut self, subscriber: IpAddr, sent: Vec<(FlowEnds, SeqNum)>, len_max: u64) -> Copies;

    /// The longest packet that may leave to a subscriber and to its servers, bytes with the IP header; none where that
    /// is not known.
    fn mtu(&mut self, subscriber: IpAddr) -> Option<u32>;

    /// Takes all flows of a subscriber out, once [`Note::Frozen`] is written down. Packets of those that are given
    /// go to the other box from here on; all others of the subscriber pass, new ones too. None where that cannot
    /// be: then all is as before.
    fn give_away(&mut self, freeze: &Freeze, now: Instant) -> Option<Vec<Loaded>>;

    /// Goes on with all of these flows, or, if one of them cannot go on, with none: false then. The subscriber is
    /// here: its packets go nowhere else. [`Note::Taking`] is written down before the first of them is in the
    /// engine, [`Note::Taken`] after the last, and no packet is handled in between.
    fn take_in(&mut self, claim: &Claim, flows: Vec<Loaded>, now: Instant) -> bool;

    /// Goes on with flows that were frozen here, and writes `note` down then. The hosts of those that cannot go on
    /// are reset if they are owed something: false if there is one.
    fn take_back(&mut self, flows: &[Loaded], note: &Note, now: Instant) -> bool;

    /// Has packets of these flows go to `to`, who has them for the time being: they may not go past this box any more.
    /// All other flows of the subscriber are this box's, as before. Once they are here, `to` may send packets of them
    /// on. They take the place of those that were named before.
    fn lead(&mut self, subscriber: IpAddr, to: Peer, flows: &[FlowEnds]);

    /// Lets `to` send packets of these flows to here from here on: it was told that they are here. Their packets may
    /// not go past this box any more.
    fn announce(&mut self, subscriber: IpAddr, to: Peer, flows: &[FlowEnds]);

    /// Packets of flows that are here, and that come by way of `relay`, go past this box from here on, or may have
    /// done so already: these flows are handed back as soon as nothing is owed to them. True while one of them is
    /// here.
    fn hand_back(&mut self, subscriber: IpAddr, relay: Peer, now: Instant) -> bool;

    /// Packets of these flows may have gone past this box before they came: they are handed back as soon as nothing
    /// is owed to them.
    fn doubt(&mut self, subscriber: IpAddr, flows: &[FlowEnds], now: Instant);

    /// The subscriber does not come. Packets of those flows that stay where they are go there, should routing lead
    /// them here: past this box they would break what the other one delivers. All others are this box's.
    fn let_stay(&mut self, subscriber: IpAddr, stay: Option<&Gone>);

    /// Forgets that a subscriber has gone, and where, and what is written down of it.
    fn forget(&mut self, subscriber: IpAddr);

    /// Ends flows that are here, and writes `note` down then: the hosts of those that are owed something are reset.
    fn break_off(&mut self, flows: &[FlowEnds], note: &Note, now: Instant);

    /// The same with flows that were frozen here.
    fn break_frozen(&mut self, flows: &[Loaded], note: &Note, now: Instant);

    /// Writes down how a hand-over stands, in place of what is written down of the subscriber.
    fn note(&mut self, note: &Note);
}

/// Limits and times.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Config {
    /// Least time without an answer after which something is said again: it takes longer where round trips
    /// do, and twice as long each further time, up to 8 times this or the first time.
    pub retry: Duration,
    /// Longest time that a box is asked.
    pub asking_max: Duration,
    /// Longest time that data is copied while it goes on to change.
    pub copying_max: Duration,
    /// Time for which nobody may know who has a subscriber: `debt_timeout`.
    pub lease: Duration,
    /// Data under way to a box at a time while it is copied, bytes.
    pub window: u32,
    /// Data that may be here of subscribers that come, bytes.
    pub memory_max: u64,
    /// Hand-overs under way at a time, either way.
    pub transfers_max: usize,
    /// Time for which it is remembered who has gone and where: longer than all of it can take.
    pub linger: Duration,
}

impl Default for Config {
    fn default() -> Self {
        Self {
            retry: Duration::from_millis(250),
            asking_max: Duration::from_secs(3),
            copying_max: Duration::from_secs(2),
            lease: Duration::from_secs(120),
            window: 1 << 20,
            memory_max: 256 << 20,
            transfers_max: 1_024,
            linger: Duration::from_secs(180),
        }
    }
}

/// Urgency of a message: what it may wait for on its way.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Urgency {
    /// Message that waits for nothing.
    Now,
    /// It goes ahead of time: what is urgent overtakes it. Among each other these keep their order.
    Ahead,
}

/// Outcome of a hand-over, or its state.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum HandoverOutcome {
    /// The other box has it, and says so.
    Gone,
    /// This box has it, and the other one knows.
    Come,
    /// It stayed where it was.
    Stayed(Refusal),
    /// The other box did not answer, and it stayed.
    Unanswered,
    /// Its flows could not be taken out, and it stayed.
    Unfrozen,
    /// Nobody could know who had it: flows that owed something were reset.
    Broken,
}

/// Data that moved of a flow.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct FlowMoved {
    /// Ends of the flow.
    pub ends: FlowEnds,
    /// Data that it held when it left, bytes.
    pub held: u64,
    /// Bytes of its state: what the commit has of it.
    pub record: u64,
}

impl FlowMoved {
    fn of((flow, held): &Loaded) -> Self {
        let record = stored::to_bytes(flow).len() as u64;
        Self { ends: flow.ends, held: held.len() as u64, record }
    }
}

/// A hand-over that has ended.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Ended {
    /// Subscriber that moved.
    pub subscriber: IpAddr,
    /// Box that it went to, or came from.
    pub peer: Peer,
    /// True where it left.
    pub is_going: bool,
    /// Outcome of the hand-over.
    pub outcome: HandoverOutcome,
    /// Flows that moved.
    pub flows: usize,
    /// Bytes of held data that were sent, or taken.
    pub bytes: u64,
    /// Each flow that moved; none where it came.
    pub each: Vec<FlowMoved>,
    /// Time that each phase took: asking, copying, frozen; all zero where it came.
    pub phases: [Duration; 3],
}

/// Counts of hand-overs.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub struct Counters {
    /// Subscribers that went.
    pub gone: u64,
    /// Subscribers that came.
    pub come: u64,
    /// Hand-overs that this box began and that ended where they began.
    pub stayed: u64,
    /// Subscribers that this box did not take, by [`Refusal`].
    pub refused: [u64; Refusal::ALL.len()],
    /// Hand-overs of which nobody could know the outcome.
    pub broken: u64,
    /// Flows that went, and that came.
    pub flows: [u64; 2],
    /// Bytes of held data that were sent, and taken.
    pub bytes: [u64; 2],
}

/// The hand-overs of one box.
#[derive(Debug)]
pub struct Handover {
    config: Config,
    /// Nonces follow from it.
    random: u64,
    /// Number that all processes of this box share that know its notes: upper half of its nonces.
    line: u32,
    /// Time by which the wall clock is ahead of the other one, ms.
    wall_ms: u64,
    /// Encapsulation of packets here.
    encapsulation: String,
    /// Bits of an IPv6 address that make a subscriber.
    ipv6_prefix_len: u8,
    /// Rights of other boxes to move subscribers.
    rights: BTreeMap<Peer, Rights>,
    allowances: BTreeMap<Peer, Allowance>,
    going: BTreeMap<IpAddr, Going>,
    coming: BTreeMap<IpAddr, Coming>,
    past: BTreeMap<IpAddr, Past>,
    outbox: VecDeque<(Peer, Message, Urgency)>,
    /// Round trips to the boxes.
    trips: BTreeMap<Peer, Trips>,
    ended: VecDeque<Ended>,
    counters: Counters,
    is_ending: bool,
    /// Boxes that are told of this one's end.
    leaving: BTreeMap<Peer, Leaving>,
}

/// Prefix that is a subscriber by default: a /64 of IPv6.
const IPV6_PREFIX_LEN: u8 = 64;

impl Handover {
    /// One without any. `random` must be another one for each process: nobody may guess or repeat it. `wall_ms` is
    /// what the wall clock is ahead of the clock that the others are called with: epochs grow with it, so a box
    /// that has started anew goes on above those that it has forgotten.
    #[must_use]
    pub fn new(config: Config, random: u64, wall_ms: u64) -> Self {
        // Who has given one up remembers it for as long as the other box may ask.
        let linger = config.linger.max(config.lease * 2);
        let mut new = Self {
            config: Config { linger, ..config },
            random,
            line: 0,
            wall_ms,
            encapsulation: String::new(),
            ipv6_prefix_len: IPV6_PREFIX_LEN,
            rights: BTreeMap::new(),
            allowances: BTreeMap::new(),
            going: BTreeMap::new(),
            coming: BTreeMap::new(),
            past: BTreeMap::new(),
            outbox: VecDeque::new(),
            trips: BTreeMap::new(),
            ended: VecDeque::new(),
            counters: Counters::default(),
            is_ending: false,
            leaving: BTreeMap::new(),
        };
        new.line = (new.draw() >> 32) as u32;
        new
    }

    /// Says how packets are encapsulated here: subscribers come only from boxes of which the same is said.
    pub fn state_encapsulation(&mut self, word: &str) {
        word.clone_into(&mut self.encapsulation);
    }

    /// Says how many bits of an IPv6 address make a subscriber; 64 if nothing is said. Subscribers move between boxes
    /// with the same number only.
    pub fn state_ipv6_prefix_len(&mut self, bits: u8) {
        self.ipv6_prefix_len = bits;
    }

    /// Says which subscribers a box may take and give; every one if nothing is said.
    pub fn state_rights(&mut self, peer: Peer, rights: Rights) {
        self.rights.insert(peer, rights);
    }

    /// Number that a process in this one's place is to be told beside the notes ([`Handover::remember_all`]).
    #[must_use]
    pub fn line(&self) -> u32 {
        self.line
    }

    /// Goes on with what processes before this one have written down: all that they have, of `line`.
    pub fn remember_all(&mut self, line: u32, notes: Vec<Note>, now: Instant) {
        self.line = line;
        for note in notes {
            let name = note.name();
            match note {
                Note::Frozen { to, broken_at, flows, .. } => {
                    let again = Again::at_once(&self.config, now);
                    self.going
                        .insert(name.subscriber, Going::frozen_before(name, to, broken_at, flows, again));
                }
                // What was not taken whole was not taken: its data is to come again.
                Note::Holding(claim) | Note::Taking(claim) => {
                    let past = Past {
                        gone: claim.gone.clone(),
                        ..Past::new(Name { epoch: 0, nonce: 0, ..name }, claim.until + self.config.linger)
                    };
                    self.remember(past);
                    let coming = Coming::promised_before(claim);
                    // The other box may have broken it off meanwhile, and says so then.
                    self.say(coming.from(), coming.ready());
                    self.coming.insert(name.subscriber, coming);
                }
                Note::Taken(claim) => {
                    self.coming.insert(
                        name.subscriber,
                        Coming::taken_before(claim, Again::at_once(&self.config, now)),
                    );
                }
                Note::Over { refused, gone, until, shared, .. } => {
                    self.remember(Past { refused, gone, shared, ..Past::new(name, until) });
                }
            }
        }
    }

    /// Counts of hand-overs so far.
    #[must_use]
    pub fn counters(&self) -> Counters {
        self.counters
    }

    /// Hand-overs under way.
    #[must_use]
    pub fn under_way(&self) -> usize {
        self.going.len() + self.coming.len()
    }

    /// The next message to send.
    pub fn poll(&mut self) -> Option<(Peer, Message, Urgency)> {
        self.outbox.pop_front()
    }

    /// A hand-over that has ended.
    pub fn take_ended(&mut self) -> Option<Ended> {
        self.ended.pop_front()
    }

    /// Takes no subscriber in any more, and hands none over. What is frozen goes on until it is known who has it.
    pub fn end(&mut self, flows: &mut impl Flows, now: Instant) {
        self.is_ending = true;
        let all: Vec<IpAddr> = self.going.keys().copied().collect();
        all.into_iter().for_each(|subscriber| {
            self.keep(subscriber, HandoverOutcome::Stayed(Refusal::Ending), flows, now);
        });
        let all: Vec<IpAddr> = self.coming.keys().copied().collect();
        all.into_iter().for_each(|subscriber| self.decline(subscriber, Refusal::Ending, flows, now));
        self.say_leaving(now);
    }

    /// A box has gone, or cannot be heard any more: packets that it has sent on so far may go past both from here on.
    pub fn on_peer_lost(&mut self, peer: Peer, flows: &mut impl Flows, now: Instant) {
        for subscriber in self.shared_with(peer) {
            // It is handed back by and by.
            let _ = flows.hand_back(subscriber, peer, now);
        }
    }

    /// True while it is not known who has a subscriber, or while one that ends has yet to be told that nothing relies
    /// on it.
    #[must_use]
    pub fn is_undecided(&self) -> bool {
        let is_owning = self.coming.values().any(Coming::is_owning);
        is_owning || self.going.values().any(Going::is_frozen) || !self.leaving.is_empty()
    }

    /// Takes in what another box says.
    pub fn on_message(&mut self, from: Peer, message: Message, flows: &mut impl Flows, now: Instant) {
        match message {
            Message::Prepare { name, versions, held, flows: theirs, terms } => {
                let asked = Asked { from, name, versions, held, flows: theirs, terms };
                self.on_prepare(asked, flows, now);
            }
            Message::Copy(name, piece) => self.on_copy(from, name, &piece, flows, now),
            Message::Commit(name, moved) => self.on_commit(from, name, moved, flows, now),
            Message::Confirm(name) => self.on_confirm(from, name, flows, now),
            Message::Abort(name) => self.on_abort(from, name, flows, now),
            Message::Ready { name, flows: count } => self.on_ready(from, name, count, flows, now),
            Message::Copied { name, flow, through } => {
                self.on_copied(from, name, (flow, through), flows, now);
            }
            Message::Committed(name) => self.on_committed(from, name, flows, now),
            Message::Lacking(name, lacking) => self.on_lacking(from, name, &lacking, now),
            Message::Refused(name, why) => self.on_refused(from, name, why, flows, now),
            Message::Leaving(subscribers) => self.on_leaving(from, &subscribers, flows, now),
            Message::Left(subscribers) => self.on_left(from, &subscribers, now),
        }
    }

    /// Time at which [`Handover::on_timeout`] wants to be called.
    #[must_use]
    pub fn next_deadline(&self) -> Option<Instant> {
        let going = self.going.values().map(Going::due);
        let coming = self.coming.values().map(Coming::due);
        let past = self.past.values().map(|past| past.forgotten_at);
        let leaving = self.leaving.values().map(Leaving::due);
        going.chain(coming).chain(past).chain(leaving).min()
    }

    /// Acts on every deadline up to `now`.
    pub fn on_timeout(&mut self, flows: &mut impl Flows, now: Instant) {
        let due = |at: Instant| at <= now;
        let going: Vec<IpAddr> =
            self.going.iter().filter(|(_, one)| due(one.due())).map(|(&who, _)| who).collect();
        going.into_iter().for_each(|subscriber| self.on_going_due(subscriber, flows, now));
        let coming: Vec<IpAddr> =
            self.coming.iter().filter(|(_, one)| due(one.due())).map(|(&who, _)| who).collect();
        coming.into_iter().for_each(|subscriber| self.on_coming_due(subscriber, flows, now));
        self.forget_past(flows, now);
        self.on_leaving_due(now);
    }

    fn say(&mut self, to: Peer, message: Message) {
        self.outbox.push_back((to, message, Urgency::Now));
    }

    fn note_trip(&mut self, to: Peer, trip: Duration) {
        self.trips.entry(to).or_default().note(trip);
    }

    /// Time at which what is said to a box now is said again.
    fn again(&self, to: Peer, now: Instant) -> Again {
        Again::after(self.trips.get(&to).copied().unwrap_or_default(), &self.config, now)
    }

    /// The highest epoch that is known of a subscriber.
    fn epoch_of(&self, subscriber: IpAddr) -> u64 {
        let coming = self.coming.get(&subscriber).map(|coming| coming.name().epoch);
        let past = self.past.get(&subscriber).map(|past| past.name.epoch);
        coming.max(past).unwrap_or(0)
    }

    /// The next epoch of a subscriber that this box has.
    fn next_epoch(&self, subscriber: IpAddr, now: Instant) -> u64 {
        self.epoch_of(subscriber).saturating_add(1).max(self.wall_ms.saturating_add(now.as_millis()))
    }

    /// True when a hand-over was promised by this process, or one before it whose notes it has.
    fn is_of_line(&self, name: &Name) -> bool {
        name.nonce != 0 && (name.nonce >> 32) as u32 == self.line
    }

    /// A nonce.
    fn draw_nonce(&mut self) -> u64 {
        u64::from(self.line) << 32 | (self.draw() & 0xffff_ffff).max(1)
    }

    /// A number that was not there before (SplitMix64).
    fn draw(&mut self) -> u64 {
        self.random = self.random.wrapping_add(GOLDEN_GAMMA);
        mix64(self.random).max(1)
    }
}

#[cfg(test)]
mod tests;
