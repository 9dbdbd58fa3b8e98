//! Messages of boxes to each other about subscribers that move, what they write down, and two of them with a
//! stranger's words in between.

use std::collections::{BTreeMap, VecDeque};
use std::net::{IpAddr, SocketAddr};
use std::sync::OnceLock;

use ::engine::{Engine, EngineConfig, FlowEnds, FlowRecord, HandoverFlow, Middlebox, Port};
use ::handover::{
    Claim, Config, Copies, Flows, Freeze, Gone, Handover, Loaded, MESSAGE_LEN_MAX, Message, Note, Peer,
    Rights, Survey,
};
use units::{Duration, Instant, SeqNum};
use wire::{TcpFlags, TcpHeaderSpec, VirtioNetHeader};

/// Operations of one input at most.
const OPERATIONS_MAX: usize = 400;

/// Messages on their way at most; further ones are lost.
const UNDER_WAY_MAX: usize = 64;

/// Any bytes are a message or an error; what is read can be written, and reads the same.
pub(crate) fn handover_message(bytes: &[u8]) {
    if let Ok(message) = Message::decode(bytes) {
        assert_eq!(Message::decode(&message.encode()).as_ref(), Ok(&message), "it is read otherwise");
    }
}

/// The same for what is written down.
pub(crate) fn handover_note(bytes: &[u8]) {
    if let Ok(note) = Note::decode(bytes) {
        assert_eq!(Note::decode(&note.encode()), Ok(note), "it is read otherwise");
    }
}

/// State of a flow in an engine right after its handshake.
///
/// # Panics
/// If an engine does not accelerate it.
#[must_use]
pub fn flow_record() -> FlowRecord {
    static RECORD: OnceLock<FlowRecord> = OnceLock::new();
    *RECORD.get_or_init(|| {
        let mut engine = Engine::new(EngineConfig::default()).expect("default settings");
        let client: SocketAddr = ([10, 0, 0, 1], 1).into();
        let server: SocketAddr = ([192, 0, 2, 1], 443).into();
        let [own, other] = [1_000, 2_000].map(SeqNum::new);
        let opening = [
            (Port::Mobile, client, server, own, SeqNum::new(0), TcpFlags::SYN),
            (Port::Wired, server, client, other, own + 1, TcpFlags::SYN | TcpFlags::ACK),
            (Port::Mobile, client, server, own + 1, other + 1, TcpFlags::ACK),
        ];
        let mut now = Instant::from_millis(1_000);
        for (from, src, dst, seq, ack, flags) in opening {
            let mss = flags.contains(TcpFlags::SYN).then_some(1_460);
            let spec = TcpHeaderSpec { window: 60_000, mss, ..TcpHeaderSpec::new(src, dst, seq, ack, flags) };
            let mut packet = vec![0; TcpHeaderSpec::MAX_LEN];
            let len = spec.emit(&mut packet, &[]).expect("a header").len;
            // It passes.
            let _ = engine.handle_packet(from, &VirtioNetHeader::default(), &mut packet[..len], now);
            now += Duration::from_millis(50);
        }
        engine.moved(client.ip(), now).first().expect("an accelerated flow").0.record
    })
}

/// Flows of one box that hold nothing.
#[derive(Default)]
struct Table {
    flows: BTreeMap<FlowEnds, ()>,
    /// Subscribers and flows that were promised and led away: never what is here.
    led: BTreeMap<IpAddr, (Peer, Vec<FlowEnds>)>,
    notes: BTreeMap<IpAddr, Note>,
}

fn client_of(flow: &FlowEnds) -> IpAddr {
    flow.client_and_server().0.ip()
}

impl Table {
    fn of(&self, subscriber: IpAddr) -> Vec<FlowEnds> {
        self.flows.keys().filter(|flow| client_of(flow) == subscriber).copied().collect()
    }

    fn take(&mut self, flows: &[Loaded]) {
        self.flows.extend(flows.iter().map(|(flow, _)| (flow.ends, ())));
    }
}

impl Flows for Table {
    fn survey(&mut self, subscriber: IpAddr) -> Survey {
        Survey { flows: self.of(subscriber), held: 0, packet: 1_500 }
    }
    fn copies(&mut self, _: IpAddr, _: Vec<(FlowEnds, SeqNum)>, _: u64) -> Copies {
        Copies { pieces: Vec::new(), is_all: true }
    }
    fn mtu(&mut self, _: IpAddr) -> Option<u32> {
        Some(1_500)
    }
    fn give_away(&mut self, freeze: &Freeze, _: Instant) -> Option<Vec<Loaded>> {
        let all = self.of(freeze.name.subscriber);
        let record = flow_record();
        let moved = |ends: &FlowEnds| (HandoverFlow { ends: *ends, record, clock_ms: 0 }, Vec::new());
        let loaded: Vec<Loaded> = all.iter().map(moved).collect();
        self.note(&freeze.note(loaded.clone()));
        all.iter().for_each(|flow| _ = self.flows.remove(flow));
        Some(loaded)
    }
    fn take_in(&mut self, claim: &Claim, flows: Vec<Loaded>, _: Instant) -> bool {
        let subscriber = claim.name.subscriber;
        assert!(flows.iter().all(|(flow, _)| client_of(&flow.ends) == subscriber), "a flow of another one");
        if flows.iter().any(|(flow, _)| self.flows.contains_key(&flow.ends)) {
            return false;
        }
        self.take(&flows);
        self.led.remove(&subscriber);
        self.note(&Note::Taken(claim.clone()));
        true
    }
    fn take_back(&mut self, flows: &[Loaded], note: &Note, _: Instant) -> bool {
        self.take(flows);
        self.note(note);
        true
    }
    fn lead(&mut self, subscriber: IpAddr, to: Peer, flows: &[FlowEnds]) {
        assert!(flows.iter().all(|flow| !self.flows.contains_key(flow)), "a flow that is here is led away");
        assert!(flows.iter().all(|flow| client_of(flow) == subscriber), "a flow of another one is led away");
        self.led.insert(subscriber, (to, flows.to_vec()));
    }
    fn announce(&mut self, subscriber: IpAddr, _: Peer, flows: &[FlowEnds]) {
        assert!(flows.iter().all(|flow| client_of(flow) == subscriber), "a flow of another one");
    }
    fn hand_back(&mut self, subscriber: IpAddr, _: Peer, _: Instant) -> bool {
        self.of(subscriber).iter().for_each(|flow| _ = self.flows.remove(flow));
        false
    }
    fn doubt(&mut self, _: IpAddr, flows: &[FlowEnds], _: Instant) {
        flows.iter().for_each(|flow| _ = self.flows.remove(flow));
    }
    fn let_stay(&mut self, subscriber: IpAddr, _: Option<&Gone>) {
        self.led.remove(&subscriber);
    }
    fn forget(&mut self, subscriber: IpAddr) {
        self.notes.remove(&subscriber);
    }
    fn break_off(&mut self, flows: &[FlowEnds], note: &Note, _: Instant) {
        flows.iter().for_each(|flow| _ = self.flows.remove(flow));
        self.note(note);
    }
    fn break_frozen(&mut self, _: &[Loaded], note: &Note, _: Instant) {
        self.note(note);
    }
    fn note(&mut self, note: &Note) {
        assert_eq!(Note::decode(&note.encode()).as_ref(), Ok(note), "what is written down is read otherwise");
        self.notes.insert(note.name().subscriber, note.clone());
    }
}

/// Two boxes, each other's peer 0; peer 1 of both is a stranger's.
struct Pair {
    boxes: [(Handover, Table); 2],
    /// To whom, and what.
    wire: VecDeque<(usize, Message)>,
    now: Instant,
    config: Config,
    /// Somebody has said what was not so.
    is_tampered: bool,
    heirs: u64,
}

impl Pair {
    fn new(is_bounded: bool) -> Self {
        let config = Config { transfers_max: 8, memory_max: 1 << 20, ..Config::default() };
        let make = |random| {
            let mut protocol = Handover::new(config, random, 1_000);
            let prefix = "10.0.0.0/30".parse().expect("a prefix");
            let rights = if is_bounded {
                Rights { takes: None, gives: Some(vec![prefix]) }
            } else {
                Rights::default()
            };
            protocol.state_rights(0, Rights::default());
            protocol.state_rights(1, rights);
            (protocol, Table::default())
        };
        let (wire, now) = (VecDeque::new(), Instant::from_millis(1_000));
        Self { boxes: [make(7), make(8)], wire, now, config, is_tampered: false, heirs: 0 }
    }

    fn hear(&mut self, which: usize) {
        while let Some((to, message, _)) = self.boxes[which].0.poll() {
            let bytes = message.encode();
            assert!(bytes.len() <= MESSAGE_LEN_MAX, "a message of {} bytes", bytes.len());
            assert_eq!(Message::decode(&bytes).as_ref(), Ok(&message), "it is read otherwise");
            if to == 0 && self.wire.len() < UNDER_WAY_MAX {
                self.wire.push_back((1 - which, message));
            }
        }
        while self.boxes[which].0.take_ended().is_some() {}
        self.check(which);
    }

    fn check(&self, which: usize) {
        let (protocol, _) = &self.boxes[which];
        assert!(protocol.under_way() <= self.config.transfers_max, "{} are under way", protocol.under_way());
        let [(_, a), (_, b)] = &self.boxes;
        let twice = a.flows.keys().find(|flow| b.flows.contains_key(flow));
        assert!(self.is_tampered || twice.is_none(), "{twice:?} has two owners");
    }

    fn wait(&mut self, time: Duration) {
        self.now += time;
        for which in [0, 1] {
            let (protocol, table) = &mut self.boxes[which];
            protocol.on_timeout(table, self.now);
            let next = protocol.next_deadline();
            assert!(next.is_none_or(|at| at > self.now), "it never comes to rest: {next:?} at {}", self.now);
            self.hear(which);
        }
    }

    fn tell(&mut self, which: usize, from: Peer, message: Message) {
        let (protocol, table) = &mut self.boxes[which];
        protocol.on_message(from, message, table, self.now);
        self.hear(which);
    }

    /// A process in the place of one that has died, with what is written down.
    fn succeed(&mut self, which: usize) {
        self.heirs += 1;
        let (protocol, table) = &mut self.boxes[which];
        let line = protocol.line();
        let notes: Vec<Note> = table.notes.values().cloned().collect();
        let now = self.now;
        table
            .flows
            .retain(|flow, ()| ::handover::ownership_of(&notes, flow, now) == ::handover::Ownership::Own);
        let mut next = Handover::new(self.config, 100 + self.heirs, 1_000);
        next.remember_all(line, notes, now);
        *protocol = next;
    }

    /// One operation: two bytes, and what follows of a message.
    fn act<'a>(&mut self, bytes: &'a [u8]) -> Option<&'a [u8]> {
        let (&[kind, value], rest) = bytes.split_first_chunk::<2>()?;
        let which = usize::from(kind >> 7);
        let subscriber = IpAddr::from([10, 0, 0, 1 + (value & 3)]);
        let server: SocketAddr = ([192, 0, 2, 1], 443).into();
        let flow =
            FlowEnds { is_downlink: true, sink: (subscriber, u16::from(value >> 2)).into(), source: server };
        match kind & 0x0f {
            0 | 1 => {
                let is_there = self.boxes.iter().any(|(_, table)| table.flows.contains_key(&flow));
                let is_frozen = self.boxes.iter().any(|(one, _)| one.under_way() > 0);
                if !is_there && !is_frozen {
                    self.boxes[which].1.flows.insert(flow, ());
                }
            }
            2 => {
                let (protocol, table) = &mut self.boxes[which];
                // It may be refused.
                let _ = protocol.begin(subscriber, 0, table, self.now);
                self.hear(which);
            }
            3..=6 => {
                let at = usize::from(value) % self.wire.len().max(1);
                if let Some((to, message)) = self.wire.remove(at) {
                    if value & 0x40 != 0 {
                        self.wire.push_back((to, message.clone()));
                    }
                    self.tell(to, 0, message);
                }
            }
            7 => drop(self.wire.pop_front()),
            8 => self.wait(Duration::from_millis(u64::from(value) * 10)),
            9 => self.wait(Duration::from_secs(u64::from(value))),
            10 => {
                let (protocol, table) = &mut self.boxes[which];
                protocol.on_peer_lost(Peer::from(value & 1), table, self.now);
                self.hear(which);
            }
            11 if value == 0 => {
                let (protocol, table) = &mut self.boxes[which];
                protocol.end(table, self.now);
                self.hear(which);
            }
            12 => self.succeed(which),
            // A stranger, or the other box itself, says anything.
            _ => {
                let (len, rest) = rest.split_first()?;
                let (message, rest) = rest.split_at(usize::from(*len).min(rest.len()));
                if let Ok(message) = Message::decode(message) {
                    self.is_tampered = true;
                    self.tell(which, Peer::from(value & 1), message);
                }
                return Some(rest);
            }
        }
        Some(rest)
    }
}

/// Rows of operations on two boxes: flows, hand-overs, messages that are late, lost or doubled, time, deaths, ends, and
/// messages of anyone. Nothing panics, all comes to rest, no flow has two owners as long as nobody lies, and nothing that
/// is here is led away whoever lies. In the end all is decided and forgotten.
pub(crate) fn handover(bytes: &[u8]) {
    let Some((first, mut rest)) = bytes.split_first() else { return };
    let mut pair = Pair::new(first & 1 == 1);
    for _ in 0..OPERATIONS_MAX {
        let Some(next) = pair.act(rest) else { break };
        rest = next;
    }
    for _ in 0..600 {
        while let Some((to, message)) = pair.wire.pop_front() {
            pair.tell(to, 0, message);
        }
        pair.wait(Duration::from_secs(1));
    }
    pair.wait(Duration::from_secs(600));
    for (protocol, table) in &pair.boxes {
        assert_eq!((protocol.under_way(), protocol.is_undecided()), (0, false), "it is not decided");
        assert!(protocol.next_deadline().is_none(), "something is remembered for ever");
        assert!(table.notes.is_empty() && table.led.is_empty(), "something is written down for ever");
    }
}
