//! Every controller over scripted links: what it decides after each event, as one number per controller and
//! link.
//!
//! A number that changes says that a controller decides differently somewhere. Where that was meant,
//! `CELLERATOR_WRITE_DIGESTS=1` writes them anew, and the change of the file shows which controllers it
//! concerns. Nothing here judges whether a decision is good: the tests of each controller do.

// Helpers of a test are test code too, which the lint cannot know.
#![allow(clippy::unwrap_used, clippy::panic)]

use std::collections::VecDeque;
use std::fmt::Write as _;
use std::path::Path;

use control::{
    Ack, AnyController, Controller as _, ControllerConfig, Feedback, Loss, LossKind, RateSampler, SendStamp,
    Sent,
};
use units::{Bytes, Duration, Instant, Rate};

const MSS: u64 = 1_448;
/// A segment counts as lost when this many later ones have arrived.
const LATER: u64 = 3;
const TIME_OUT: Duration = Duration::from_millis(400);

/// A link and what is sent over it.
#[derive(Clone, Copy)]
struct Link {
    name: &'static str,
    /// Rates in kbit/s, each for `step`, again and again; zero is an outage.
    kbps: &'static [u64],
    step: Duration,
    /// Without a queue.
    round_trip: Duration,
    queue: u64,
    /// One segment in so many is lost; zero for none.
    lost_one_in: u64,
    /// A policer lets a bucket of so many bytes through above its rate of a quarter of the link's.
    bucket: Option<u64>,
    /// The sender pauses for a third of so long each time.
    pauses: Option<Duration>,
    /// Reports of the base station come every 20 ms.
    reports: bool,
    /// The receiver discards one segment in so many, which its window of 100 KB has no room for; zero for none.
    discards_one_in: u64,
    /// One segment in so many is repaired on the link, 8 ms later, and those behind it wait for it; zero for none.
    repaired_one_in: u64,
    /// The handshake's round trip is told beforehand.
    is_told: bool,
    time: Duration,
}

const STEADY: Link = Link {
    name: "steady",
    kbps: &[10_000],
    step: Duration::from_secs(1),
    round_trip: Duration::from_millis(40),
    queue: 400_000,
    lost_one_in: 0,
    bucket: None,
    pauses: None,
    reports: false,
    discards_one_in: 0,
    repaired_one_in: 0,
    is_told: true,
    time: Duration::from_secs(16),
};

const LINKS: [Link; 13] = [
    STEADY,
    Link { name: "small queue", queue: 30_000, ..STEADY },
    Link {
        name: "varying",
        kbps: &[12_000, 3_000, 25_000, 8_000, 1_000, 40_000, 15_000],
        step: Duration::from_millis(470),
        ..STEADY
    },
    Link { name: "random loss", lost_one_in: 150, round_trip: Duration::from_millis(90), ..STEADY },
    Link {
        name: "outages",
        kbps: &[9_000, 9_000, 9_000, 0, 6_000, 20_000],
        step: Duration::from_millis(1_300),
        queue: 2_000_000,
        ..STEADY
    },
    Link { name: "policed", bucket: Some(60_000), queue: 1_000_000, ..STEADY },
    Link { name: "pauses", pauses: Some(Duration::from_millis(900)), lost_one_in: 2_000, ..STEADY },
    Link {
        name: "reports",
        kbps: &[10_000, 2_000, 18_000, 5_000],
        step: Duration::from_millis(1_100),
        reports: true,
        ..STEADY
    },
    Link { name: "tiny", kbps: &[64], queue: 6_000, round_trip: Duration::from_millis(20), ..STEADY },
    Link { name: "application", pauses: Some(Duration::from_millis(70)), is_told: false, ..STEADY },
    Link { name: "discards", discards_one_in: 40, queue: 40_000, ..STEADY },
    Link { name: "repairs", kbps: &[60_000], repaired_one_in: 30, queue: 900_000, ..STEADY },
    Link { name: "not told", is_told: false, round_trip: Duration::from_millis(250), ..STEADY },
];

/// A segment under way.
struct Segment {
    number: u64,
    stamp: SendStamp,
    /// When its acknowledgement comes back; none when it is lost.
    comes: Option<Instant>,
}

struct Run {
    link: Link,
    controller: AnyController,
    sampler: RateSampler,
    now: Instant,
    under_way: VecDeque<Segment>,
    sent: u64,
    newest: u64,
    free_at: Instant,
    repaired_at: Instant,
    tokens: u64,
    tokens_at: Instant,
    may_send_at: Instant,
    next_report: Instant,
    last_ack: Instant,
    min_rtt: Option<Duration>,
    recovers_until: Option<u64>,
    random: u64,
    digest: u64,
}

const START: Instant = Instant::from_millis(1_000);

impl Run {
    fn new(config: ControllerConfig, link: Link) -> Self {
        let mut controller = config.build();
        if link.is_told {
            controller.on_round_trip(link.round_trip, START);
        }
        Self {
            link,
            controller,
            sampler: RateSampler::new(),
            now: START,
            under_way: VecDeque::new(),
            sent: 0,
            newest: 0,
            free_at: START,
            repaired_at: START,
            tokens: link.bucket.unwrap_or(0),
            tokens_at: START,
            may_send_at: START,
            next_report: START,
            last_ack: START,
            min_rtt: None,
            recovers_until: None,
            random: 1,
            digest: 0xcbf2_9ce4_8422_2325,
        }
    }

    fn draw(&mut self) -> u64 {
        self.random =
            self.random.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        self.random >> 33
    }

    fn note(&mut self) {
        let control = self.controller.control();
        for word in [control.window.get(), control.pacing_rate.as_bps(), control.send_quantum.get()] {
            self.digest = (self.digest ^ word).wrapping_mul(0x0100_0000_01b3).rotate_left(23);
        }
    }

    fn in_flight(&self) -> u64 {
        self.under_way.len() as u64 * MSS
    }

    /// The rate at `at`, in kbit/s.
    fn kbps(&self, at: Instant) -> u64 {
        let steps = at.saturating_since(START).as_nanos() / self.link.step.as_nanos();
        self.link.kbps[(steps % self.link.kbps.len() as u64) as usize]
    }

    fn is_pausing(&self) -> bool {
        self.link.pauses.is_some_and(|every| {
            let within = self.now.saturating_since(START).as_nanos() % every.as_nanos();
            within > every.as_nanos() * 2 / 3
        })
    }

    /// When a segment that leaves now comes to the other end, if it does.
    fn arrival(&mut self) -> Option<Instant> {
        if self.link.lost_one_in > 0 && self.draw().is_multiple_of(self.link.lost_one_in) {
            return None;
        }
        if let Some(bucket) = self.link.bucket {
            let earned =
                Rate::from_kbps(self.link.kbps[0] / 4).bytes_in(self.now.saturating_since(self.tokens_at));
            if earned > Bytes::ZERO {
                self.tokens = (self.tokens + earned.get()).min(bucket);
                self.tokens_at = self.now;
            }
            self.tokens = self.tokens.checked_sub(MSS)?;
        }
        let mut at = self.free_at.max(self.now);
        while self.kbps(at) == 0 {
            at += Duration::from_millis(10);
        }
        let waits = at.saturating_since(self.now);
        let rate = Rate::from_kbps(self.kbps(at));
        if rate.bytes_in(waits).get() > self.link.queue {
            return None;
        }
        self.free_at = at + rate.time_for(Bytes::new(MSS));
        if self.link.repaired_one_in > 0 && self.draw().is_multiple_of(self.link.repaired_one_in) {
            self.repaired_at = self.free_at + Duration::from_millis(8);
        }
        Some(self.free_at.max(self.repaired_at) + self.link.round_trip)
    }

    fn send(&mut self) {
        let is_app_limited = self.is_pausing();
        let in_flight = Bytes::new(self.in_flight());
        let stamp = self.sampler.on_send(self.under_way.is_empty(), self.now);
        let comes = self.arrival();
        self.under_way.push_back(Segment { number: self.sent, stamp, comes });
        self.sent += 1;
        let control = self.controller.control();
        self.may_send_at = self.may_send_at.max(self.now) + control.pacing_rate.time_for(Bytes::new(MSS));
        let in_flight = in_flight + Bytes::new(MSS);
        self.controller.on_send(&Sent { now: self.now, bytes: Bytes::new(MSS), in_flight, is_app_limited });
        self.note();
    }

    fn acknowledge(&mut self, index: usize) {
        let in_flight_before = Bytes::new(self.in_flight());
        let Some(segment) = self.under_way.remove(index) else { return };
        self.newest = self.newest.max(segment.number);
        self.last_ack = self.now;
        let rtt = self.now.saturating_since(segment.stamp.sent_at);
        self.min_rtt = Some(self.min_rtt.map_or(rtt, |min| min.min(rtt)));
        let delivered = Bytes::new(MSS);
        let rate = self.sampler.on_delivered(delivered, Some(&segment.stamp), self.min_rtt, self.now);
        let lost = self.detect();
        if self.recovers_until.is_some_and(|until| segment.number >= until) {
            self.recovers_until = None;
        }
        let window = self.controller.control().window;
        let is_discarded =
            self.link.discards_one_in > 0 && self.draw().is_multiple_of(self.link.discards_one_in);
        self.controller.on_ack(&Ack {
            now: self.now,
            delivered,
            discarded: if is_discarded { delivered } else { Bytes::ZERO },
            peer_window: if self.link.discards_one_in > 0 { Bytes::new(100_000) } else { Bytes::MAX },
            delivered_total: self.sampler.delivered(),
            rtt: Some(rtt),
            return_wait: Duration::ZERO,
            lasting_return_wait: Duration::ZERO,
            min_rtt: self.min_rtt,
            rate,
            in_flight: Bytes::new(self.in_flight()),
            in_flight_before,
            others: Bytes::ZERO,
            lost: Bytes::new(lost),
            is_recovering: self.recovers_until.is_some(),
            is_window_limited: in_flight_before + Bytes::new(2 * MSS) > window,
            mark: None,
        });
        self.note();
    }

    /// Takes segments for lost that later ones have overtaken; tells the controller, and how many bytes.
    fn detect(&mut self) -> u64 {
        let newest = self.newest;
        let before = self.under_way.len();
        self.under_way.retain(|segment| segment.comes.is_some() || segment.number + LATER > newest);
        let lost = (before - self.under_way.len()) as u64 * MSS;
        if lost > 0 {
            self.lose(lost, LossKind::Fast);
        }
        lost
    }

    fn lose(&mut self, lost: u64, kind: LossKind) {
        let is_new_event = self.recovers_until.is_none();
        if is_new_event {
            self.recovers_until = Some(self.sent);
        }
        let in_flight = Bytes::new(self.in_flight());
        self.controller.on_loss(&Loss {
            now: self.now,
            lost: Bytes::new(lost),
            kind,
            is_new_event,
            in_flight,
        });
        self.note();
    }

    fn time_out(&mut self) {
        let lost = self.in_flight();
        self.under_way.clear();
        self.last_ack = self.now;
        self.lose(lost, LossKind::Timeout);
        if self.draw().is_multiple_of(2) {
            self.controller.on_undo(self.now);
            self.note();
        }
    }

    fn report(&mut self) {
        let rate = Rate::from_kbps(self.kbps(self.now));
        let queue = rate.bytes_in(self.free_at.saturating_since(self.now));
        self.controller.on_feedback(&Feedback::new(self.now, Duration::from_millis(8), rate, queue));
        self.next_report = self.now + Duration::from_millis(20);
        self.note();
    }

    /// The number after all of it.
    fn digest(mut self) -> u64 {
        let end = START + self.link.time;
        while self.now < end {
            let first = (0..self.under_way.len())
                .filter_map(|index| Some((self.under_way.get(index)?.comes?, index)))
                .min();
            let window = self.controller.control().window.get();
            let may_send = !self.is_pausing() && self.in_flight() + MSS <= window.max(MSS);
            if self.is_pausing() {
                self.sampler.mark_app_limited(Bytes::new(self.in_flight()));
            }
            let send_at = if may_send { self.may_send_at.max(self.now) } else { Instant::FAR_FUTURE };
            let ack_at = first.map_or(Instant::FAR_FUTURE, |(at, _)| at.max(self.now));
            let expires_at = if self.under_way.is_empty() {
                Instant::FAR_FUTURE
            } else {
                (self.last_ack + TIME_OUT).max(self.now)
            };
            let report_at =
                if self.link.reports { self.next_report.max(self.now) } else { Instant::FAR_FUTURE };
            // A pause ends without an event.
            let looks_at = self.now + Duration::from_millis(10);
            let next = send_at.min(ack_at).min(expires_at).min(report_at).min(looks_at);
            self.now = next;
            if next == report_at {
                self.report();
            } else if next == ack_at {
                if let Some((_, index)) = first {
                    self.acknowledge(index);
                }
            } else if next == send_at {
                if self.under_way.is_empty() {
                    self.last_ack = self.now;
                }
                self.send();
            } else if next == expires_at {
                self.time_out();
            }
        }
        self.digest
    }
}

#[test]
fn every_controller_decides_as_it_did() {
    let mut text = String::new();
    for name in ControllerConfig::NAMES {
        for link in LINKS {
            let config = ControllerConfig::named(name).unwrap().with_mss(Bytes::new(MSS));
            let digest = Run::new(config, link).digest();
            writeln!(text, "{name}, {}: {digest:016x}", link.name).unwrap();
        }
    }
    let file = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/digest.txt");
    if std::env::var_os("CELLERATOR_WRITE_DIGESTS").is_some() {
        std::fs::write(&file, &text).unwrap();
    }
    let expected = std::fs::read_to_string(&file).unwrap();
    let changed: Vec<_> = text.lines().filter(|line| !expected.lines().any(|other| other == *line)).collect();
    assert!(changed.is_empty(), "decided differently: {changed:#?}");
}
