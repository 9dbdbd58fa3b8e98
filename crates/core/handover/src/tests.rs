//! Two boxes with plain tables instead of engines, and messages that are handed over one by one.

use std::collections::BTreeMap;
use std::net::SocketAddr;

use engine::{FlowRecord, RECORD_VERSION};

use super::*;

mod attacks;

/// A box whose flows are what they hold. Records are all the same: nothing is held as far as they know.
#[derive(Debug, Default)]
struct Table {
    flows: BTreeMap<FlowEnds, ()>,
    led: Option<Peer>,
    led_flows: Vec<FlowEnds>,
    /// Boxes by way of which packets of its flows came that are handed back.
    handed_back: Vec<Peer>,
    doubted: Vec<FlowEnds>,
    refuses: bool,
    mtu: Option<u32>,
    /// It gives nothing away.
    keeps: bool,
    /// Note that is written down of the only subscriber.
    written: Option<Note>,
    stay: Option<Gone>,
    broken: usize,
}

fn flow(port: u16) -> FlowEnds {
    FlowEnds {
        is_downlink: true,
        sink: SocketAddr::new(who(), port),
        source: "192.0.2.1:443".parse().unwrap(),
    }
}

fn who() -> IpAddr {
    "10.0.0.7".parse().unwrap()
}

impl Table {
    fn with(ports: impl IntoIterator<Item = u16>) -> Self {
        Self { flows: ports.into_iter().map(|port| (flow(port), ())).collect(), ..Self::default() }
    }
}

impl Flows for Table {
    fn survey(&mut self, _: IpAddr) -> Survey {
        Survey { flows: self.flows.keys().copied().collect(), held: 0, packet: 1_500 }
    }
    fn mtu(&mut self, _: IpAddr) -> Option<u32> {
        self.mtu
    }
    fn copies(&mut self, _: IpAddr, _: Vec<(FlowEnds, SeqNum)>, _: u64) -> Copies {
        Copies { pieces: Vec::new(), is_all: true }
    }
    fn give_away(&mut self, freeze: &Freeze, _: Instant) -> Option<Vec<Loaded>> {
        let record = FlowRecord::default();
        let moved = |(ends, ())| (HandoverFlow { ends, record, clock_ms: 0 }, Vec::new());
        if self.keeps {
            return None;
        }
        let loaded: Vec<Loaded> = std::mem::take(&mut self.flows).into_iter().map(moved).collect();
        self.note(&freeze.note(loaded.clone()));
        Some(loaded)
    }
    fn take_in(&mut self, claim: &Claim, flows: Vec<Loaded>, _: Instant) -> bool {
        if !self.refuses {
            self.flows.extend(flows.iter().map(|(flow, _)| (flow.ends, ())));
            self.led = None;
            self.note(&Note::Taken(claim.clone()));
        }
        !self.refuses
    }
    fn take_back(&mut self, flows: &[Loaded], note: &Note, _: Instant) -> bool {
        self.flows.extend(flows.iter().map(|(flow, _)| (flow.ends, ())));
        self.note(note);
        true
    }
    fn lead(&mut self, _: IpAddr, to: Peer, flows: &[FlowEnds]) {
        (self.led, self.led_flows) = (Some(to), flows.to_vec());
    }
    fn announce(&mut self, _: IpAddr, _: Peer, _: &[FlowEnds]) {}
    fn hand_back(&mut self, _: IpAddr, relay: Peer, _: Instant) -> bool {
        self.handed_back.push(relay);
        !self.flows.is_empty()
    }
    fn doubt(&mut self, _: IpAddr, flows: &[FlowEnds], _: Instant) {
        self.doubted.extend(flows);
    }
    fn let_stay(&mut self, _: IpAddr, stay: Option<&Gone>) {
        (self.led, self.stay) = (None, stay.cloned());
    }
    fn forget(&mut self, _: IpAddr) {
        self.written = None;
    }
    fn break_off(&mut self, flows: &[FlowEnds], note: &Note, _: Instant) {
        self.broken += flows.len();
        flows.iter().for_each(|flow| _ = self.flows.remove(flow));
        self.note(note);
    }
    fn break_frozen(&mut self, flows: &[Loaded], note: &Note, _: Instant) {
        self.broken += flows.len();
        self.note(note);
    }
    fn note(&mut self, note: &Note) {
        self.written = Some(note.clone());
    }
}

struct Pair {
    boxes: [(Handover, Table); 2],
    now: Instant,
    /// All messages, as they were delivered.
    said: Vec<Message>,
}

impl Pair {
    /// Box 0 has three flows.
    fn new(config: Config) -> Self {
        let tables = [Table::with(1..4), Table::default()];
        let mut random = 7;
        let boxes = tables.map(|table| {
            random += 1;
            (Handover::new(config, random, 1_000), table)
        });
        Self { boxes, now: Instant::from_millis(1_000), said: Vec::new() }
    }

    fn begin(&mut self, from: usize) -> Result<(), Refusal> {
        let (protocol, table) = &mut self.boxes[from];
        protocol.begin(who(), 1 - from as Peer, table, self.now).map(|_| ())
    }

    fn deliver(&mut self, to: usize, message: Message) {
        let (protocol, table) = &mut self.boxes[to];
        protocol.on_message(1 - to as Peer, message, table, self.now);
    }

    /// Hands all messages over, but those that `drops` says.
    fn talk(&mut self, drops: impl Fn(&Message) -> bool) {
        loop {
            let next = [0, 1].into_iter().find_map(|from| Some((1 - from, self.boxes[from].0.poll()?.1)));
            let Some((to, message)) = next else { return };
            self.said.push(message.clone());
            if !drops(&message) {
                self.deliver(to, message);
            }
            assert!(self.boxes[0].1.flows.is_empty() || self.boxes[1].1.flows.is_empty(), "two owners");
        }
    }

    fn wait(&mut self, time: Duration) {
        self.now += time;
        for (protocol, table) in &mut self.boxes {
            protocol.on_timeout(table, self.now);
        }
    }

    fn counts(&self) -> [usize; 2] {
        [0, 1].map(|which| self.boxes[which].1.flows.len())
    }

    /// A process in the place of one that has died: with its flows, and with what it has written down.
    fn succeed(&mut self, which: usize) {
        let (protocol, table) = &mut self.boxes[which];
        let (config, line) = (protocol.config, protocol.line());
        let mut next = Handover::new(config, 99 + self.said.len() as u64, 1_000);
        let notes: Vec<Note> = table.written.iter().cloned().collect();
        table.flows.retain(|flow, ()| ownership_of(&notes, flow, self.now) == Ownership::Own);
        let mut forwarding = ForwardingTable::new(64);
        notes.iter().for_each(|note| note.lead(&mut forwarding));
        table.led = forwarding.is_led(who()).then_some(1 - which as Peer);
        next.remember_all(line, notes, self.now);
        *protocol = next;
    }

    fn outcomes(&mut self) -> Vec<HandoverOutcome> {
        let ended = self.boxes.iter_mut().flat_map(|(one, _)| std::iter::from_fn(|| one.take_ended()));
        ended.map(|ended| ended.outcome).collect()
    }
}

/// Time until something is said again.
const AGAIN: Duration = Duration::from_secs(2);

#[test]
fn it_goes_and_comes_back_under_higher_numbers() {
    let mut pair = Pair::new(Config::default());
    let mut epochs = Vec::new();
    for turn in 0..4 {
        pair.begin(turn % 2).unwrap();
        pair.talk(|_| false);
        assert_eq!(pair.counts(), if turn % 2 == 0 { [0, 3] } else { [3, 0] });
        assert_eq!(pair.outcomes().len(), 2);
        let Some(Message::Confirm(name)) = pair.said.last() else { panic!("{:?}", pair.said) };
        epochs.push(name.epoch);
        pair.wait(AGAIN);
    }
    assert!(epochs.windows(2).all(|two| two[0] < two[1]), "{epochs:?}");
    assert!(!pair.boxes.iter().any(|(one, _)| one.is_undecided() || one.under_way() > 0));
}

#[test]
fn a_commit_is_taken_once() {
    let mut pair = Pair::new(Config::default());
    pair.begin(0).unwrap();
    pair.talk(|_| false);
    let commit = pair.said.iter().find(|one| matches!(one, Message::Commit(..))).cloned().unwrap();
    let ready = pair.said.iter().find(|one| matches!(one, Message::Ready { .. })).cloned().unwrap();
    // It has gone on from there.
    pair.boxes[1].1.flows.clear();
    pair.deliver(1, commit.clone());
    pair.deliver(0, ready);
    pair.talk(|_| false);
    assert_eq!(pair.counts(), [0, 0], "recorded and sent once more it brings nothing to life");
    // Nor in a box that has started anew.
    let other = &mut Pair::new(Config::default()).boxes[1];
    other.0.line ^= 1;
    other.0.on_message(0, commit, &mut other.1, pair.now);
    assert!(other.1.flows.is_empty());
    assert!(matches!(other.0.poll(), Some((0, Message::Refused(_, Refusal::Unknown), _))));
    assert!(other.0.poll().is_none());
}

#[test]
fn what_is_lost_is_said_again() {
    let kinds: [fn(&Message) -> bool; 5] = [
        |one| matches!(one, Message::Prepare { .. }),
        |one| matches!(one, Message::Ready { .. }),
        |one| matches!(one, Message::Commit(..)),
        |one| matches!(one, Message::Committed(_)),
        |one| matches!(one, Message::Confirm(_)),
    ];
    for (number, is_lost) in kinds.into_iter().enumerate() {
        let mut pair = Pair::new(Config::default());
        pair.begin(0).unwrap();
        pair.talk(is_lost);
        pair.wait(AGAIN);
        pair.talk(|_| false);
        assert_eq!(pair.counts(), [0, 3], "message {number}");
        assert!(pair.boxes.iter().all(|(one, _)| one.under_way() == 0), "message {number}");
    }
}

#[test]
fn what_a_box_does_not_take_stays() {
    let refused = |pair: &mut Pair| {
        pair.begin(0).unwrap();
        pair.talk(|_| false);
        assert_eq!((pair.counts(), pair.boxes[1].1.led), ([3, 0], None));
        let [HandoverOutcome::Stayed(why)] = pair.outcomes()[..] else { panic!("it did not stay") };
        assert_eq!(pair.boxes[1].0.counters().refused[why as usize], 1);
        // Their packets go where they are, but from a box that is ending or hears the other one's packets otherwise.
        let stay = pair.boxes[1].1.stay.as_ref().map(|stay| (stay.to, stay.flows.len()));
        let is_reachable = !matches!(why, Refusal::Ending | Refusal::Encapsulation);
        assert_eq!(stay, is_reachable.then_some((0, 3)), "{why:?}");
        why
    };
    let mut full = Pair::new(Config { transfers_max: 1, ..Config::default() });
    full.boxes[1].0.config.transfers_max = 0;
    assert_eq!(refused(&mut full), Refusal::Memory);
    let mut ending = Pair::new(Config::default());
    ending.boxes[1].0.end(&mut Table::default(), ending.now);
    assert_eq!(refused(&mut ending), Refusal::Ending);
    let mut narrow = Pair::new(Config::default());
    narrow.boxes[1].1.mtu = Some(1_499);
    assert_eq!(refused(&mut narrow), Refusal::Mtu);
    narrow.boxes[1].1.mtu = Some(1_500);
    narrow.begin(0).unwrap();
    narrow.talk(|_| false);
    assert_eq!(narrow.counts(), [0, 3], "as long as that is not too long");
    let mut other = Pair::new(Config::default());
    other.boxes[1].0.state_encapsulation("gtp-u");
    assert_eq!(refused(&mut other), Refusal::Encapsulation);
    other.boxes[0].0.state_encapsulation("gtp-u");
    other.begin(0).unwrap();
    other.talk(|_| false);
    assert_eq!(other.counts(), [0, 3]);
    // When all had come already: it is taken back.
    let mut late = Pair::new(Config::default());
    late.boxes[1].1.refuses = true;
    assert_eq!(refused(&mut late), Refusal::Flows);
    // The next time it may be taken, although both remember.
    late.boxes[1].1.refuses = false;
    late.begin(0).unwrap();
    late.talk(|_| false);
    assert_eq!(late.counts(), [0, 3]);
}

#[test]
fn other_versions_and_older_numbers_are_refused() {
    let mut pair = Pair::new(Config::default());
    let prepare = |epoch, versions| {
        let name = Name { subscriber: who(), epoch, nonce: 0 };
        Message::Prepare { name, versions, held: 0, flows: vec![flow(1)], terms: Terms::default() }
    };
    let now = (VERSION, RECORD_VERSION);
    pair.deliver(1, prepare(5_000, (VERSION, RECORD_VERSION + 1)));
    pair.deliver(1, prepare(5_000, now));
    pair.deliver(1, prepare(5_000, now));
    pair.deliver(1, prepare(4_999, now));
    let said: Vec<Message> = std::iter::from_fn(|| pair.boxes[1].0.poll()).map(|(_, one, _)| one).collect();
    let [
        Message::Refused(_, Refusal::Version),
        Message::Ready { name: a, .. },
        Message::Ready { name: b, .. },
        Message::Refused(_, older),
    ] = said[..]
    else {
        panic!("{said:?}")
    };
    assert_eq!((a, older), (b, Refusal::Epoch));
    assert_ne!(a.nonce, 0);
}

/// Whatever is refused meanwhile, and for whatever reason.
#[test]
fn a_refusal_leaves_what_is_under_way() {
    let strange = |epoch| Message::Prepare {
        name: Name { subscriber: who(), epoch, nonce: 0 },
        versions: (VERSION + 1, RECORD_VERSION),
        held: 0,
        flows: vec![flow(9)],
        terms: Terms::default(),
    };
    let mut pair = Pair::new(Config::default());
    pair.begin(0).unwrap();
    // Frozen at one box, taken by the other, and neither knows that the other one does.
    pair.talk(|message| matches!(message, Message::Committed(_)));
    let written = pair.boxes.each_ref().map(|(_, table)| table.written.clone());
    assert!(matches!(written, [Some(Note::Frozen { .. }), Some(Note::Taken(_))]), "{written:?}");
    for which in [0, 1] {
        pair.deliver(which, strange(u64::MAX));
        while pair.boxes[which].0.poll().is_some() {}
    }
    assert_eq!(pair.boxes.each_ref().map(|(_, table)| table.written.clone()), written);
    pair.wait(AGAIN);
    pair.talk(|_| false);
    assert_eq!((pair.counts(), pair.boxes[1].1.stay.is_none()), ([0, 3], true));
}

#[test]
fn one_that_does_not_answer_gets_nothing() {
    let mut pair = Pair::new(Config::default());
    pair.begin(0).unwrap();
    assert_eq!(pair.begin(0), Err(Refusal::Busy));
    pair.talk(|_| true);
    for _ in 0..4 {
        pair.wait(AGAIN);
        pair.talk(|_| true);
    }
    assert_eq!((pair.counts(), pair.outcomes()), ([3, 0], vec![HandoverOutcome::Unanswered]));
    let mut nobody = Table::default();
    assert_eq!(pair.boxes[0].0.begin(who(), 1, &mut nobody, pair.now), Err(Refusal::Flows));
}

/// The commit is lost, or its answer, and the boxes never hear each other again: who may have it gives it up first.
#[test]
fn nobody_has_it_when_the_wire_is_cut_for_longer_than_the_lease() {
    for is_answer_lost in [false, true] {
        let mut pair = Pair::new(Config::default());
        pair.begin(0).unwrap();
        pair.talk(|one| match one {
            Message::Commit(..) => !is_answer_lost,
            Message::Committed(_) => is_answer_lost,
            _ => false,
        });
        assert!(pair.boxes[0].0.is_undecided());
        let mut broken = Vec::new();
        for second in 0..200 {
            pair.wait(Duration::from_secs(1));
            pair.talk(|_| true);
            let now = [0, 1].map(|which| pair.boxes[which].1.broken);
            if broken.last().is_none_or(|(_, before)| *before != now) {
                broken.push((second, now));
            }
        }
        let ends: Vec<[usize; 2]> = broken.iter().map(|(_, now)| *now).collect();
        // The first box goes on with what it froze, only to reset it, when the other one cannot have it any more.
        let expected = if is_answer_lost { vec![[0, 0], [0, 3], [3, 3]] } else { vec![[0, 0], [3, 0]] };
        assert_eq!(ends, expected, "{broken:?}");
        assert!(pair.boxes.iter().all(|(one, _)| !one.is_undecided()));
    }
}

/// Either box dies after each message, and another process goes on with its notes: nothing is broken.
#[test]
fn who_comes_after_one_that_died_goes_on() {
    for which in [0, 1] {
        for after in 0..8 {
            let mut pair = Pair::new(Config::default());
            pair.begin(0).unwrap();
            let mut heard = 0;
            while let Some((to, message)) =
                [0, 1].into_iter().find_map(|from| Some((1 - from, pair.boxes[from].0.poll()?.1)))
            {
                pair.said.push(message.clone());
                pair.deliver(to, message);
                heard += 1;
                if heard == after {
                    pair.succeed(which);
                }
            }
            for _ in 0..6 {
                pair.wait(AGAIN);
                pair.talk(|_| false);
            }
            let case = format!("box {which} after {after} messages: {:?}", pair.said);
            assert_eq!(pair.counts().iter().sum::<usize>(), 3, "{case}");
            assert!(pair.boxes.iter().all(|(one, _)| !one.is_undecided()), "{case}");
            assert!(pair.boxes.iter().all(|(_, table)| table.broken == 0), "{case}");
        }
    }
}

/// The other box has broken it off, and nobody was there to hear that.
#[test]
fn who_comes_after_one_that_has_promised_to_take_it_asks_whether_it_comes() {
    let mut pair = Pair::new(Config::default());
    pair.begin(0).unwrap();
    pair.talk(|one| !matches!(one, Message::Prepare { .. }));
    for _ in 0..4 {
        pair.wait(AGAIN);
        pair.talk(|_| true);
    }
    assert_eq!((pair.counts(), pair.outcomes()), ([3, 0], vec![HandoverOutcome::Unanswered]));
    assert_eq!(pair.boxes[1].0.under_way(), 1);
    pair.succeed(1);
    pair.talk(|_| false);
    assert_eq!([0, 1].map(|which| pair.boxes[which].0.under_way()), [0, 0], "{:?}", pair.said.last());
    assert_eq!(pair.counts(), [3, 0]);
}

#[test]
fn a_successor_of_who_has_given_up_does_not_say_that_it_never_had_it() {
    let mut pair = Pair::new(Config::default());
    pair.begin(0).unwrap();
    pair.talk(|one| matches!(one, Message::Committed(_)));
    pair.boxes[0].0.going.values_mut().for_each(|going| going.freeze_until(Instant::FAR_FUTURE));
    for _ in 0..130 {
        pair.wait(Duration::from_secs(1));
        pair.talk(|_| true);
    }
    assert_eq!((pair.boxes[1].1.broken, pair.boxes[0].1.broken), (3, 0));
    pair.succeed(1);
    pair.wait(AGAIN);
    pair.talk(|_| false);
    assert_eq!((pair.counts(), pair.boxes[0].1.broken), ([0, 0], 3), "{:?}", pair.said.last());
}

#[test]
fn what_cannot_be_frozen_stays() {
    let mut pair = Pair::new(Config::default());
    pair.boxes[0].1.keeps = true;
    pair.begin(0).unwrap();
    pair.talk(|_| false);
    assert_eq!((pair.counts(), pair.outcomes()), ([3, 0], vec![HandoverOutcome::Unfrozen]));
    let other = &pair.boxes[1].1;
    let stay = other.stay.as_ref().map(|stay| (stay.to, &stay.flows[..]));
    assert_eq!((other.led, stay), (None, Some((0, &[flow(1), flow(2), flow(3)][..]))));
    // A process in its place knows it, too.
    let mut forwarding = ForwardingTable::new(64);
    other.written.as_ref().unwrap().lead(&mut forwarding);
    let ways = [1, 4].map(|port| forwarding.next_hop(flow(port).client_and_server()));
    assert_eq!(ways, [crate::NextHop::To(0), crate::NextHop::Here]);
}
