//! Servers behind one queue that never drops: what follows from the windows.

use std::cmp::Reverse;
use std::collections::{BinaryHeap, VecDeque};

use super::tests::{ISN, MSS, OWN, agreed};
use super::*;

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
    /// Bytes that the server has to send.
    len: u64,
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
            len: u64::MAX / 2,
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
            let limit = f.edge.min(f.acked + f.cwnd).min(f.len);
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
                    drwa.on_data(&DataIn { seq, len: MSS, echo: Some(echo) }, now, &mut self.path);
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

impl Queue {
    /// Runs until the last flow has all of its data.
    fn run_to_its_end(&mut self) {
        while self.flows.last().is_some_and(|flow| flow.received < flow.len) {
            self.step();
        }
    }

    /// Another connection, whose SYN is sent in `after_ms`.
    fn open(&mut self, after_ms: u64, mut flow: Flow) {
        // SYNs are sent at whole milliseconds.
        self.now_us = self.now_us.next_multiple_of(1_000);
        flow.start_ms = self.now_us / 1_000 - 1_000_000 + after_ms;
        self.flows.push(flow);
        let flow = self.flows.len() - 1;
        self.push(after_ms * 1_000, What::Syn { flow });
    }

    /// RTT_min of the last flow, µs.
    fn rtt_min_us(&self) -> u64 {
        self.flows.last().and_then(|flow| flow.drwa.as_ref()?.rtt_min_us).unwrap_or(0)
    }
}

/// A download of 5 MB from a server `base_ms` away.
fn download(server: u8, base_ms: u64) -> Flow {
    Flow { len: 3_453 * u64::from(MSS), ..Flow::new(0, base_ms, server, None) }
}

/// A round trip of an empty path of 60 ms: with the departure of one packet, and what TSvals round.
const EMPTY_US: std::ops::RangeInclusive<u64> = 59_000..=62_200;

/// Most bytes that a server has under way: all that the window allows, or 40 ms of queue, less than the
/// empty path.
const UNDER_WAY: [u64; 2] = [u64::MAX, 83 * MSS as u64];

#[test]
fn one_after_another_sees_no_queue() {
    for (cwnd_max, pause_ms) in
        UNDER_WAY.into_iter().flat_map(|cwnd| [0, 100, 1_000, 30_000].map(|p| (cwnd, p)))
    {
        let mut queue = Queue::new(ReceiverParams::default(), RATE, Vec::new());
        for server in 1..=4 {
            queue.open(pause_ms, Flow { cwnd_max, ..download(server, 60) });
            let begins_us = 1_000_000_000 + queue.flows.last().unwrap().start_ms * 1_000;
            queue.run_to_its_end();
            let case = format!("{server} after {pause_ms} ms, {cwnd_max}");
            assert!(EMPTY_US.contains(&queue.rtt_min_us()), "{case}: {} us", queue.rtt_min_us());
            let took_ms = (queue.now_us - begins_us) / 1_000;
            assert!(took_ms < 4_700, "{case}: 4 s of data took {took_ms} ms");
        }
    }
}

/// Its SYN leaves before the last byte of the one before has come. Where its answer came into a queue that was
/// draining already, more is taken off than it has waited, as nobody can tell yet: a third of it is left at least.
#[test]
fn one_that_begins_in_the_end_of_another_knows_the_path() {
    for cwnd_max in UNDER_WAY {
        for at_ms in (3_900..4_600).step_by(2) {
            let mut queue = Queue::new(ReceiverParams::default(), RATE, Vec::new());
            queue.open(0, Flow { cwnd_max, ..download(1, 60) });
            queue.run_to_its_end();
            let end_ms = queue.now_us / 1_000 - 1_000_000;
            let mut queue = Queue::new(ReceiverParams::default(), RATE, Vec::new());
            queue.open(0, Flow { cwnd_max, ..download(1, 60) });
            queue.run_until(at_ms);
            queue.open(0, Flow { cwnd_max, ..download(2, 60) });
            queue.run_to_its_end();
            // It takes 60 ms to come to the queue. That is 120 ms at most, and believed for a quarter more.
            let is_draining = (at_ms + 30..=at_ms + 180).contains(&end_ms);
            let least_us = if is_draining { 20_000 } else { *EMPTY_US.start() };
            let rtt_min_us = queue.rtt_min_us();
            let case = format!("{cwnd_max}: {at_ms} of {end_ms} ms: {rtt_min_us} us");
            assert!((least_us..=*EMPTY_US.end()).contains(&rtt_min_us), "{case}");
        }
    }
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

/// The rate it had fills the longer round trip: it need not grow its way back, round trip by round trip.
#[test]
fn what_others_have_taken_is_back_in_seconds() {
    for rate in [RATE / 10, RATE / 2, RATE, 10 * RATE] {
        for queue_ms in [400, 1_000] {
            let window = rate * queue_ms / 1_000;
            let flows = vec![Flow::new(0, 60, 1, None), Flow::new(10_000, 60, 2, Some(window))];
            let mut queue = Queue::new(ReceiverParams::default(), rate, flows);
            // Two seconds of doubt, two rounds of trial, and what their ends wait for; then two to fill.
            let from_ms = 10_000 + 2_000 + 7 * queue_ms;
            let (rates, rtt_ms) = queue.rates(from_ms, from_ms + 4 * queue_ms);
            let case = format!("{rate} B/s, {queue_ms} ms: {rates:?} kbit/s, {rtt_ms} ms");
            assert!(rates[0] * 2 > rates[1] && rates[0] < rates[1] * 2, "{case}");
        }
    }
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

/// A hand-over from LTE to 3G, while 60 ms are remembered of the server.
#[test]
fn a_path_that_has_become_longer_is_seen_by_the_next() {
    for base_ms in [90, 120, 150, 170, 185, 200, 220, 240, 300, 600] {
        let mut queue = Queue::new(ReceiverParams::default(), RATE, Vec::new());
        queue.open(0, download(1, 60));
        queue.run_to_its_end();
        queue.open(1_000, Flow::new(0, base_ms, 1, None));
        let now_ms = queue.now_us / 1_000 - 1_000_000;
        let (rates, _) = queue.rates(now_ms + 10_000, now_ms + 30_000);
        let base_us = base_ms * 1_000;
        assert!(
            (base_us - 1_000..base_us + 2_200).contains(&queue.rtt_min_us()),
            "{base_ms}: {}",
            queue.rtt_min_us()
        );
        assert!(rates[1] > 9_500, "{base_ms} ms: {rates:?}");
    }
}

/// Paths become so much longer that round trips are not explained any more, or so little that windows do not
/// shrink, or so that they shrink slowly (from λ times, 180 ms).
#[test]
fn a_path_that_becomes_longer_under_way_is_learned() {
    let lengths = [
        (90, 9_500),
        (120, 9_500),
        (150, 9_500),
        (170, 9_500),
        (182, 9_000),
        (185, 7_500),
        (190, 8_500),
        (200, 9_200),
        (210, 9_200),
        (220, 9_200),
        (230, 9_200),
        (240, 9_000),
        (300, 9_000),
        (600, 8_000),
    ];
    for (base_ms, least) in lengths {
        for servers in [&[1][..], &[1, 1, 1], &[1, 2, 3]] {
            let flows = servers.iter().map(|server| Flow::new(0, 60, *server, None)).collect();
            let mut queue = Queue::new(ReceiverParams::default(), RATE, flows);
            queue.run_until(10_000);
            for flow in &mut queue.flows {
                flow.base_ms = base_ms;
            }
            let (rates, _) = queue.rates(20_000, 70_000);
            assert!(rates.iter().sum::<u64>() > least, "{base_ms} ms: {rates:?}");
        }
    }
}

/// A queue that grows because the capacity falls is the connections' own, however slowly it drains.
#[test]
fn a_capacity_that_falls_is_no_longer_path() {
    for (fall_ms, parts, most_ms) in [
        (100, 2, 200),
        (2_000, 2, 200),
        (10_000, 2, 200),
        (20_000, 4, 200),
        (2_000, 4, 220),
        (5_000, 10, 300),
    ] {
        for servers in [&[1][..], &[1, 1, 1]] {
            let flows = servers.iter().map(|server| Flow::new(0, 60, *server, None)).collect();
            let mut queue = Queue::new(ReceiverParams::default(), RATE, flows);
            queue.run_until(10_000);
            for step in 1..=fall_ms / 100 {
                queue.rate_bytes_per_s = RATE - RATE * (parts - 1) / parts * step * 100 / fall_ms;
                queue.run_until(10_000 + step * 100);
            }
            let (rates, rtt_ms) = queue.rates(15_000 + fall_ms, 35_000 + fall_ms);
            let case = format!("1/{parts} in {fall_ms} ms, {servers:?}: {rates:?} kbit/s, {rtt_ms} ms");
            // Of three, one may take the others for a longer path, for as long as until it tries again.
            let is_late = servers.len() > 1 && fall_ms == 20_000;
            assert!(rtt_ms < if is_late { 420 } else { most_ms }, "{case}");
            assert!(rates.iter().sum::<u64>() > 9_500 / parts, "{case}");
        }
    }
}

#[test]
fn servers_at_different_distances_share() {
    for (near_ms, far_ms) in [(20, 60), (20, 200), (60, 300)] {
        for (near_at_ms, far_at_ms) in [(0, 0), (0, 10_000), (10_000, 0)] {
            let rates = |params| {
                let flows =
                    vec![Flow::new(near_at_ms, near_ms, 1, None), Flow::new(far_at_ms, far_ms, 2, None)];
                Queue::new(params, RATE, flows).rates(20_000, 80_000).0
            };
            let (ours, papers) = (rates(ReceiverParams::default()), rates(ReceiverParams::paper()));
            let case =
                format!("{near_ms} ms from {near_at_ms}, {far_ms} ms from {far_at_ms}: {ours:?}, {papers:?}");
            assert!(ours.iter().sum::<u64>() > 9_500, "{case}");
            assert!(spread(&ours).0 > 750 && spread(&ours).0 > spread(&papers).0, "{case}");
        }
    }
}
