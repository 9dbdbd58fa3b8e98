//! The window by hand, and servers behind one queue for what follows from it.

use std::cmp::Reverse;
use std::collections::{BinaryHeap, VecDeque};

use proptest::prelude::*;

use super::*;
use crate::{Drwa, DrwaParams};

const MSS: u32 = 1_448;
const ISN: u32 = 0xffff_0000;

fn agreed(server: u8) -> Agreed {
    Agreed {
        remote_isn: SeqNum::new(ISN),
        syn_window: 64_240,
        scale: WindowScale::new(7),
        mss: 1_460,
        timestamps: true,
        remote: [server; 16],
    }
}

fn at(ms: u64) -> Instant {
    Instant::ZERO + Duration::from_secs(1_000) + Duration::from_millis(ms)
}

/// What the application's window would allow: 8 MB.
const OWN: u16 = 65_535;

/// One connection, with a server that answers each acknowledgement after `rtt_ms`.
struct Steps {
    drwa: ReceiverDrwa,
    path: SharedPath,
    now_ms: u64,
    next: SeqNum,
    clock: u32,
}

impl Steps {
    fn new(params: ReceiverParams) -> Self {
        Self::agreeing(params, agreed(1))
    }

    fn agreeing(params: ReceiverParams, agreed: Agreed) -> Self {
        let mut path = SharedPath::default();
        let drwa = ReceiverDrwa::new(params, agreed, None, at(0), &mut path);
        Self { drwa, path, now_ms: 0, next: SeqNum::new(ISN) + 1, clock: 0 }
    }

    fn ack(&mut self) -> u16 {
        self.clock += 1;
        let timestamp = Some(self.clock);
        let ack = AckOut { ack: self.next, window: OWN, timestamp, has_payload: false };
        self.drwa.on_ack(&ack, at(self.now_ms), &mut self.path)
    }

    /// `bytes` come `rtt_ms` after the last acknowledgement and are acknowledged; the window then.
    fn round(&mut self, bytes: u32, rtt_ms: u64) -> u64 {
        self.now_ms += rtt_ms;
        let data = DataIn { seq: self.next, len: bytes, echo: Some(self.clock) };
        self.drwa.on_data(&data, at(self.now_ms));
        self.next += bytes;
        self.ack();
        self.drwa.window.unwrap_or(0)
    }
}

proptest! {
    /// Fed the same rounds, it has the same window as the box's.
    #[test]
    fn with_the_papers_parameters_it_is_the_papers_window(
        rounds in proptest::collection::vec((1_000u32..2_000_000, 10u64..900), 1..60),
    ) {
        // Round trips that look like pauses are none of the other's.
        let mut last = 900;
        let mut ours = Steps::new(ReceiverParams::paper());
        ours.ack();
        let mut theirs = Drwa::new(DrwaParams::paper(), Bytes::from(MSS));
        theirs.on_delivered(Bytes::ZERO, at(0));
        let mut total = 0;
        for (bytes, rtt_ms) in rounds {
            let rtt_ms = rtt_ms.min(2 * last);
            last = rtt_ms;
            total += u64::from(bytes);
            theirs.on_rtt(Duration::from_millis(rtt_ms));
            let window = ours.round(bytes, rtt_ms);
            theirs.on_delivered(Bytes::new(total), at(ours.now_ms));
            prop_assert_eq!(window, theirs.window().get());
        }
    }

    /// The right edge never moves back, whatever happens, and is never beyond the kernel's.
    #[test]
    fn the_kernels_window_is_never_exceeded(
        steps in proptest::collection::vec((0u32..100_000, 1u64..3_000, any::<u16>(), any::<bool>()), 1..200),
    ) {
        let mut run = Steps::new(ReceiverParams::default());
        let mut edge = run.drwa.edge();
        for (bytes, ms, own, has_payload) in steps {
            run.now_ms += ms;
            if bytes > 0 {
                run.drwa.on_data(&DataIn { seq: run.next, len: bytes, echo: Some(run.clock) }, at(run.now_ms));
            }
            run.next += bytes;
            run.clock += ms as u32;
            let ack = AckOut { ack: run.next, window: own, timestamp: Some(run.clock), has_payload };
            let field = run.drwa.on_ack(&ack, at(run.now_ms), &mut run.path);
            prop_assert!(field <= own);
            let told = run.next + (u32::from(field) << 7);
            // Where it falls short of what was promised, the kernel's own does.
            prop_assert!(!told.is_before(edge) || field == own);
            edge = run.drwa.edge();
        }
    }
}

#[test]
fn at_least_two_segments_are_allowed() {
    let mut run = Steps::new(ReceiverParams::paper());
    run.ack();
    for _ in 0..100 {
        run.round(1, 100);
    }
    assert_eq!(run.drwa.window, Some(2 * u64::from(MSS)));
}

#[test]
fn without_timestamps_a_window_of_data_is_a_round_trip() {
    let params = ReceiverParams { without_timestamps: true, ..ReceiverParams::paper() };
    let mut run = Steps::new(params);
    run.ack();
    // 64,240 bytes were allowed with the SYN, 65,536 since: the first byte beyond tells.
    run.round(60_000, 50);
    assert_eq!(run.drwa.rtt_est_us, None);
    run.round(10_000, 50);
    assert_eq!((run.drwa.rtt_est_us, run.drwa.samples), (Some(100_000), 1));
}

#[test]
fn a_server_that_pauses_is_not_far_away() {
    let mut run = Steps::new(ReceiverParams::default());
    run.ack();
    for _ in 0..20 {
        run.round(50_000, 60);
    }
    let window = run.drwa.window;
    run.round(50_000, 5_000);
    assert_eq!((run.drwa.rtt_est_us, run.drwa.window), (Some(60_000), window));
    run.round(50_000, 60);
    assert_eq!(run.drwa.rtt_est_us, Some(60_000));
}

#[test]
fn what_carries_data_is_no_question() {
    let mut run = Steps::new(ReceiverParams::default());
    run.clock = 7;
    let request = AckOut { ack: run.next, window: OWN, timestamp: Some(7), has_payload: true };
    run.drwa.on_ack(&request, at(0), &mut run.path);
    assert_eq!(run.drwa.mark, None);
    run.ack();
    assert_eq!(run.drwa.mark.map(|mark| mark.told), Some(8));
}

/// A server that sends what the window allows, from `start_ms` on; doubling from ten segments.
struct Flow {
    start_ms: u64,
    base_ms: u64,
    server: u8,
    /// A static window instead of DRWA.
    window: Option<u64>,
    drwa: Option<ReceiverDrwa>,
    acked: u64,
    sent: u64,
    edge: u64,
    cwnd: u64,
    cwnd_max: u64,
    received: u64,
    received_at_mark: u64,
}

impl Flow {
    fn new(start_ms: u64, base_ms: u64, server: u8, window: Option<u64>) -> Self {
        Self {
            start_ms,
            base_ms,
            server,
            window,
            drwa: None,
            acked: 0,
            sent: 0,
            edge: 64_240,
            cwnd: 10 * u64::from(MSS),
            cwnd_max: u64::MAX,
            received: 0,
            received_at_mark: 0,
        }
    }
}

#[derive(PartialEq, Eq, PartialOrd, Ord, Debug)]
enum What {
    Syn { flow: usize },
    Request { flow: usize },
    Departs,
    Data { flow: usize, end: u64, echo: u32, is_syn: bool },
    Ack { flow: usize, ack: u64, edge: u64, value: u32 },
}

/// Servers behind one queue that never drops.
struct Queue {
    rate_bytes_per_s: u64,
    flows: Vec<Flow>,
    path: SharedPath,
    params: ReceiverParams,
    events: BinaryHeap<Reverse<(u64, u64, What)>>,
    waiting: VecDeque<(usize, u64, u32, bool)>,
    number: u64,
    now_us: u64,
    /// Waiting times of data after the mark, µs: sum and count.
    waits: (u64, u64),
}

impl Queue {
    fn new(params: ReceiverParams, rate_bytes_per_s: u64, flows: Vec<Flow>) -> Self {
        let mut queue = Self {
            rate_bytes_per_s,
            flows,
            path: SharedPath::default(),
            params,
            events: BinaryHeap::new(),
            waiting: VecDeque::new(),
            number: 0,
            now_us: 1_000_000_000,
            waits: (0, 0),
        };
        for flow in 0..queue.flows.len() {
            let start_us = queue.flows[flow].start_ms * 1_000;
            queue.push(start_us, What::Syn { flow });
        }
        queue
    }

    fn push(&mut self, after_us: u64, what: What) {
        self.number += 1;
        self.events.push(Reverse((self.now_us + after_us, self.number, what)));
    }

    fn enqueue(&mut self, flow: usize, end: u64, echo: u32, is_syn: bool) {
        self.waiting.push_back((flow, end, echo, is_syn));
        if self.waiting.len() == 1 {
            self.depart_later();
        }
    }

    fn depart_later(&mut self) {
        let bytes = 1_500;
        self.push(bytes * 1_000_000 / self.rate_bytes_per_s, What::Departs);
    }

    fn instant(&self) -> Instant {
        Instant::ZERO + Duration::from_nanos(self.now_us * 1_000)
    }

    fn send(&mut self, flow: usize, echo: u32) {
        loop {
            let f = &mut self.flows[flow];
            let limit = f.edge.min(f.acked + f.cwnd);
            if f.sent + u64::from(MSS) > limit {
                return;
            }
            f.sent += u64::from(MSS);
            let end = f.sent;
            self.enqueue(flow, end, echo, false);
        }
    }

    fn acknowledge(&mut self, flow: usize) {
        let now = self.instant();
        let value = (self.now_us / 1_000) as u32;
        let f = &mut self.flows[flow];
        let received = f.received;
        let seq = SeqNum::new(ISN) + 1 + received as u32;
        let window = match (&mut f.drwa, f.window) {
            (Some(drwa), _) => {
                let ack = AckOut { ack: seq, window: OWN, timestamp: Some(value), has_payload: false };
                u64::from(drwa.on_ack(&ack, now, &mut self.path)) << 7
            }
            (None, window) => window.unwrap_or(u64::MAX / 2),
        };
        let base_us = f.base_ms * 1_000;
        self.push(base_us, What::Ack { flow, ack: received, edge: received + window, value });
    }

    fn step(&mut self) {
        let Some(Reverse((time, _, what))) = self.events.pop() else { return };
        self.now_us = time;
        match what {
            What::Syn { flow } => {
                let base_us = self.flows[flow].base_ms * 1_000;
                self.push(base_us, What::Request { flow });
            }
            // The SYN-ACK waits in the queue as everything does.
            What::Request { flow } => self.enqueue(flow, 0, 0, true),
            What::Departs => {
                if let Some((flow, end, echo, is_syn)) = self.waiting.pop_front() {
                    self.push(0, What::Data { flow, end, echo, is_syn });
                }
                if !self.waiting.is_empty() {
                    self.depart_later();
                }
            }
            What::Data { flow, is_syn: true, .. } => {
                let started_us = 1_000_000_000 + self.flows[flow].start_ms * 1_000;
                let handshake = Duration::from_nanos((self.now_us - started_us) * 1_000);
                if self.flows[flow].window.is_none() {
                    let agreed = agreed(self.flows[flow].server);
                    let now = self.instant();
                    let drwa = ReceiverDrwa::new(self.params, agreed, Some(handshake), now, &mut self.path);
                    self.flows[flow].drwa = Some(drwa);
                }
                self.acknowledge(flow);
            }
            What::Data { flow, end, echo, .. } => {
                let now = self.instant();
                let f = &mut self.flows[flow];
                let seq = SeqNum::new(ISN) + 1 + f.received as u32;
                if let Some(drwa) = &mut f.drwa {
                    drwa.on_data(&DataIn { seq, len: MSS, echo: Some(echo) }, now);
                }
                f.received = end;
                let rtt_us = u64::from((self.now_us / 1_000) as u32 - echo) * 1_000;
                self.waits = (self.waits.0 + rtt_us, self.waits.1 + 1);
                self.acknowledge(flow);
            }
            What::Ack { flow, ack, edge, value } => {
                let f = &mut self.flows[flow];
                f.cwnd = (f.cwnd + ack - f.acked).min(f.cwnd_max);
                (f.acked, f.edge) = (ack, f.edge.max(edge));
                self.send(flow, value);
            }
        }
    }

    fn run_until(&mut self, ms: u64) {
        while self.events.peek().is_some_and(|Reverse((time, ..))| *time < 1_000_000_000 + ms * 1_000) {
            self.step();
        }
        self.now_us = 1_000_000_000 + ms * 1_000;
    }

    /// Rates in kbit/s of each flow from `from_ms` to `until_ms`, and the mean round trip in ms.
    fn rates(&mut self, from_ms: u64, until_ms: u64) -> (Vec<u64>, u64) {
        self.run_until(from_ms);
        for flow in &mut self.flows {
            flow.received_at_mark = flow.received;
        }
        self.waits = (0, 0);
        self.run_until(until_ms);
        let of = |flow: &Flow| (flow.received - flow.received_at_mark) * 8 / (until_ms - from_ms);
        (self.flows.iter().map(of).collect(), self.waits.0 / self.waits.1.max(1) / 1_000)
    }
}

const RATE: u64 = 1_250_000;

/// The largest and the smallest, of 1000 of the mean.
fn spread(rates: &[u64]) -> (u64, u64) {
    let mean = rates.iter().sum::<u64>() / rates.len() as u64;
    let of = |rate: Option<&u64>| rate.map_or(0, |rate| rate * 1_000 / mean);
    (of(rates.iter().min()), of(rates.iter().max()))
}

/// Three that start ten seconds apart, at as many servers as there are numbers.
fn three(params: ReceiverParams, servers: [u8; 3]) -> (Vec<u64>, u64) {
    let flow = |(n, server): (u64, u8)| Flow::new(n * 10_000, 60, server, None);
    let flows = (0..).zip(servers).map(flow).collect();
    Queue::new(params, RATE, flows).rates(30_000, 60_000)
}

#[test]
fn alone_it_fills_the_link_and_keeps_three_round_trips() {
    for params in [ReceiverParams::paper(), ReceiverParams::default()] {
        let (rates, rtt_ms) = Queue::new(params, RATE, vec![Flow::new(0, 60, 1, None)]).rates(5_000, 30_000);
        assert!(rates[0] > 9_500, "{rates:?}");
        assert!((170..190).contains(&rtt_ms), "{rtt_ms}");
        let fixed = vec![Flow::new(0, 60, 1, Some(1_000_000))];
        let (rates, rtt_ms) = Queue::new(params, RATE, fixed).rates(5_000, 30_000);
        assert!(rates[0] > 9_500 && rtt_ms > 800, "a static window of 1 MB: {rates:?}, {rtt_ms}");
    }
}

#[test]
fn unequal_windows_become_equal() {
    let (rates, _) = three(ReceiverParams::paper(), [1, 1, 1]);
    assert!(spread(&rates).0 < 50 && spread(&rates).1 > 2_000, "the paper's: {rates:?}");
    let (rates, rtt_ms) = three(ReceiverParams::default(), [1, 1, 1]);
    assert!(spread(&rates).0 > 950 && spread(&rates).1 < 1_050, "{rates:?}");
    assert!((170..200).contains(&rtt_ms), "{rtt_ms}");
}

#[test]
fn a_late_one_knows_the_path() {
    // Other servers: nothing is known of them but the queue before them.
    let (rates, rtt_ms) = three(ReceiverParams::default(), [1, 2, 3]);
    assert!(spread(&rates).0 > 750 && spread(&rates).1 < 1_200, "{rates:?}");
    assert!((170..230).contains(&rtt_ms), "{rtt_ms}");
}

/// Twice as far as the queue explains, or not as far as the queue alone: that one has left.
#[test]
fn a_queue_that_has_left_is_not_taken_off_the_handshake() {
    let mut path = SharedPath::default();
    let ms = Duration::from_millis;
    let mut first = ReceiverDrwa::new(ReceiverParams::default(), agreed(1), Some(ms(40)), at(0), &mut path);
    let mut next = SeqNum::new(ISN) + 1;
    for step in 0..10u32 {
        let now = at(u64::from(step) * 120);
        let echo = Some(step);
        first.on_data(&DataIn { seq: next, len: 50_000, echo }, now);
        next += 50_000;
        let ack = AckOut { ack: next, window: OWN, timestamp: Some(step + 1), has_payload: false };
        first.on_ack(&ack, now, &mut path);
    }
    assert_eq!((first.rtt_est_us, first.rtt_min_us), (Some(120_000), Some(40_000)));
    let mut rtt_min = |server: u8, handshake: u64| {
        let drwa = ReceiverDrwa::new(
            ReceiverParams::default(),
            agreed(server),
            Some(ms(handshake)),
            at(1_200),
            &mut path,
        );
        drwa.rtt_min_us
    };
    assert_eq!(rtt_min(2, 160), Some(80_000), "the queue of 80 ms is there");
    assert_eq!(rtt_min(3, 90), Some(30_000), "a third of the handshake at least");
    assert_eq!(rtt_min(4, 40), Some(40_000), "it has left");
    assert_eq!(rtt_min(1, 160), Some(40_000), "known of the server");
}

#[test]
fn a_queue_of_others_is_given_in_to() {
    let against = |params| {
        let flows = vec![Flow::new(0, 60, 1, None), Flow::new(10_000, 60, 2, Some(500_000))];
        Queue::new(params, RATE, flows).rates(40_000, 90_000).0
    };
    let rates = against(ReceiverParams::paper());
    assert!(rates[0] * 50 < rates[1], "the paper's: {rates:?}");
    let rates = against(ReceiverParams::default());
    assert!(rates[0] * 10 > rates[1] * 7 && rates[0] * 7 < rates[1] * 10, "{rates:?}");
}

#[test]
fn a_large_one_among_small_ones_is_not_starved() {
    let mut flows = vec![Flow::new(0, 60, 1, None)];
    // Their servers say little: three segments per round trip.
    for n in 0..8 {
        let mut small = Flow::new(2_000 + n * 100, 60, 1, None);
        small.cwnd_max = 3 * u64::from(MSS);
        flows.push(small);
    }
    let (rates, _) = Queue::new(ReceiverParams::default(), RATE, flows).rates(10_000, 40_000);
    assert!(rates.iter().sum::<u64>() > 9_500, "{rates:?}");
}
