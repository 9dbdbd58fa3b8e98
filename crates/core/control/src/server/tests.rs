//! The law over a link in virtual time, and each of its events.

use std::collections::VecDeque;

use super::floor::DRAIN_SAMPLES;
use super::*;

const MSS: u64 = 1_448;

/// A link behind a path: segments wait for their turn, or are lost where the queue is full.
struct Link {
    law: Law,
    rate: u64,
    one_way_us: u64,
    queue_max: u64,
    /// Segments in the queue and behind it: when each is acknowledged, and when it was sent; 0: it is lost.
    coming: VecDeque<(u64, u64)>,
    in_flight: u64,
    free_at: u64,
    now: u64,
    delivered: u64,
    lost: u64,
    waits: Vec<u64>,
    /// A policer ahead of the link: bytes per second, bytes of its bucket, tokens, and when they were counted.
    policer: Option<(u64, u64, u64, u64)>,
    /// Segments of which one is lost on the way; 0: none is.
    losses: u64,
    sent: u64,
}

impl Link {
    fn new(rate_mbps: u64, round_trip_ms: u64, queue_max: u64) -> Self {
        let mut law = Law::new(MSS);
        law.on_handshake(round_trip_ms * 1_000, 1);
        Self {
            law,
            rate: rate_mbps * 125_000,
            one_way_us: round_trip_ms * 1_000,
            queue_max,
            coming: VecDeque::new(),
            in_flight: 0,
            free_at: 0,
            now: 1,
            delivered: 0,
            lost: 0,
            waits: Vec::new(),
            policer: None,
            losses: 0,
            sent: 0,
        }
    }

    fn fill(&mut self) {
        while self.in_flight + MSS <= self.law.window {
            let waits = self.free_at.saturating_sub(self.now);
            let is_lost =
                bytes_in(self.rate, waits) > self.queue_max || self.is_policed() || self.is_unlucky();
            if !is_lost {
                self.free_at = self.free_at.max(self.now) + MSS * 1_000_000 / self.rate;
                self.waits.push(waits);
            }
            let at = self.free_at.max(self.now) + self.one_way_us;
            self.coming.push_back((at, if is_lost { 0 } else { self.now }));
            self.in_flight += MSS;
        }
    }

    fn is_unlucky(&mut self) -> bool {
        self.sent += 1;
        self.losses > 0 && self.sent.is_multiple_of(self.losses)
    }

    fn is_policed(&mut self) -> bool {
        let Some((rate, burst, tokens, at)) = &mut self.policer else { return false };
        *tokens = (*tokens + bytes_in(*rate, self.now - *at)).min(*burst);
        *at = self.now;
        let is_policed = *tokens < MSS;
        *tokens -= if is_policed { 0 } else { MSS };
        is_policed
    }

    fn run(&mut self, ms: u64) {
        let until = self.now + ms * 1_000;
        self.fill();
        let mut missing = 0;
        while let Some((at, sent)) = self.coming.front().copied().filter(|(at, _)| *at <= until) {
            self.coming.pop_front();
            self.now = at;
            let before = self.in_flight;
            self.in_flight -= MSS;
            if sent == 0 {
                missing += MSS;
                self.lost += MSS;
                continue;
            }
            self.delivered += MSS;
            self.law.on_ack(&AckEvent {
                now_us: at,
                delivered: MSS,
                lost: std::mem::take(&mut missing),
                rtt_us: at - sent,
                in_flight_before: before,
                is_limited: before + MSS > self.law.window,
            });
            self.fill();
        }
        self.now = until;
    }

    /// Share of the link in the next milliseconds, per cent, and the longest wait, ms.
    fn measure(&mut self, ms: u64) -> (u64, u64) {
        self.delivered = 0;
        self.waits.clear();
        self.run(ms);
        let longest = self.waits.iter().max().copied().unwrap_or(0);
        (self.delivered * 100_000 / (self.rate * ms), longest / 1_000)
    }
}

#[test]
fn a_steady_link_is_busy_and_its_queue_is_short() {
    for (rate, round_trip) in [(1, 60), (10, 40), (100, 20), (100, 200)] {
        let mut link = Link::new(rate, round_trip, 1 << 30);
        link.run(10_000);
        let (used, waited) = link.measure(9_000);
        // K alone is 48 ms of 1 Mbit/s.
        let most = round_trip.max(48) / 2 + 60;
        assert!(used >= 97 && waited <= most, "{rate} Mbit/s, {round_trip} ms: {used} %, {waited} ms");
    }
}

#[test]
fn a_link_that_becomes_slower_is_followed_by_the_last_moments() {
    let mut link = Link::new(20, 40, 1 << 30);
    link.run(5_000);
    assert_eq!(link.law.bound, Bound::Forecast.number());
    link.rate /= 4;
    link.run(100);
    assert_eq!(link.law.bound, Bound::Patience.number());
    link.run(5_000);
    let (used, waited) = link.measure(3_000);
    assert!(used >= 97 && waited < 100, "{used} %, {waited} ms");
}

#[test]
fn a_buffer_that_is_full_bounds_the_window() {
    // A quarter of 250 KB, which the path holds.
    let mut link = Link::new(100, 20, 62_000);
    link.run(3_000);
    link.lost = 0;
    let (used, _) = link.measure(10_000);
    assert!(used >= 90, "{used} %");
    assert!(link.lost * 100 < link.delivered, "{} of {} bytes lost", link.lost, link.delivered);
}

#[test]
fn a_floor_that_was_never_seen_is_measured() {
    let mut link = Link::new(10, 40, 1 << 30);
    // It is taken for twice of what it is.
    link.law = Law::new(MSS);
    link.law.on_handshake(80_000, 1);
    link.run(30_000);
    assert!(link.law.floor_us <= 42_000, "{}", link.law.floor_us);
}

#[test]
fn after_a_time_out_little_is_in_flight_until_something_is_heard() {
    let mut link = Link::new(10, 40, 1 << 30);
    link.run(3_000);
    let before = link.law.window;
    link.law.on_timeout(link.now);
    assert_eq!((link.law.window, link.law.bound), (MSS, Bound::TimeOut.number()));
    let ack = AckEvent { delivered: MSS, ..AckEvent::default() };
    link.law.on_ack(&AckEvent { now_us: link.now + 1, ..ack });
    assert_eq!(link.law.window, 3 * MSS);
    for n in 0..before / MSS {
        link.law.on_ack(&AckEvent { now_us: link.now + 2 + n, ..ack });
    }
    assert_eq!(link.law.allowed, 0, "it is over");
    // A radio that has lost data of late is asked with more.
    link.law.on_ack(&AckEvent { now_us: link.now + 900, lost: MSS, ..ack });
    link.law.on_timeout(link.now + 1_000);
    assert_eq!(link.law.window.min(32 * MSS), link.law.window);
    assert!(link.law.window > MSS, "{}", link.law.window);
}

#[test]
fn the_link_of_a_connection_that_was_idle_for_long_is_forgotten_but_for_its_floor() {
    let mut link = Link::new(10, 40, 1 << 30);
    link.run(3_000);
    assert!(link.law.forecast > 0);
    link.law.on_idle(link.now + 59_000_000);
    assert!(link.law.forecast > 0);
    link.law.on_idle(link.now + 61_000_000);
    assert_eq!((link.law.forecast, link.law.window), (0, MSS * INITIAL_SEGMENTS));
    assert_eq!(link.law.floor_us, 40_000);
}

#[test]
fn the_forecast_is_seven_tenths_of_the_quantile_and_three_of_the_largest() {
    let mut law = Law::new(MSS);
    for rate in 1..=11_u32 {
        law.bins[law.bins_written as usize] = rate * 100;
        law.bins_written += 1;
        law.compute_forecast();
        assert_eq!(law.forecast > 0, rate >= 3);
    }
    // Of 100, 200 … 1,100 the 0.7 quantile is 800.
    assert_eq!(law.forecast, (800 * 7 + 1_100 * 3) * RATE_UNIT / 10);
    assert_eq!(law.recent(), 950 * RATE_UNIT);
}

#[test]
fn nothing_overflows_at_the_ends_of_the_ranges() {
    let mut law = Law::new(u64::MAX);
    law.on_handshake(u64::MAX / 2, 1);
    for n in 1..500 {
        law.on_ack(&AckEvent {
            now_us: n * 40_000_000,
            delivered: u64::from(u32::MAX) * 4,
            lost: u64::from(u32::MAX) * 4,
            rtt_us: u64::MAX / 2,
            in_flight_before: u64::MAX / 4,
            is_limited: n % 3 > 0,
        });
        assert!(law.window > 0 && law.pacing_rate > 0);
    }
}

#[test]
fn behind_a_policer_little_is_lost() {
    let mut link = Link::new(100, 40, 1 << 30);
    link.policer = Some((20 * 125_000, 64 << 10, 64 << 10, 1));
    link.run(30_000);
    assert_eq!(link.law.bound, Bound::Policer.number());
    link.lost = 0;
    let (used, _) = link.measure(20_000);
    let lost = link.lost * 1_000 / link.delivered;
    assert!(
        used >= 19 && lost <= 10,
        "{used} % of the link, of which 20 are let pass; {lost} of a thousand lost"
    );
    // Without it the link is soon used again.
    link.policer = None;
    link.run(60_000);
    let (used, _) = link.measure(5_000);
    assert!(used >= 90, "{used} %");
}

#[test]
fn random_loss_is_no_policer() {
    let mut link = Link::new(100, 40, 1 << 30);
    link.losses = 20;
    link.run(5_000);
    let (used, _) = link.measure(30_000);
    assert!(used >= 93 && link.law.bound != Bound::Policer.number(), "{used} %");
}

fn ack_at(ms: u64, delivered: u64, lost: u64, rtt_us: u64) -> AckEvent {
    AckEvent { now_us: ms * 1_000, delivered, lost, rtt_us, in_flight_before: 100 * MSS, is_limited: true }
}

#[test]
fn half_a_window_less_tells_whose_queue_it_is() {
    let drained = |smallest_us| {
        let mut law = Law::new(MSS);
        law.on_handshake(40_000, 1);
        (law.age_max_us, law.drain_from_us, law.drain_until_us) = (FLOOR_AGE_DOUBTED_US, 2, 3);
        (law.drain_rtt_us, law.drain_samples, law.drain_smallest_us) =
            (1_000_000, DRAIN_SAMPLES, smallest_us);
        law.update_floor(2_000_000, true, 4);
        (law.floor_us, law.age_max_us, law.others_queue)
    };
    assert_eq!(drained(990_000), (40_000 * 2 + 5_000, 0, 1), "of others: their queue is there to stay");
    assert_eq!(drained(800_000), (40_000 * 3 / 2 + 5_000, FLOOR_AGE_DOUBTED_US, 0));
    assert_eq!(drained(50_000), (50_000, FLOOR_AGE_US, 0));
}

#[test]
fn an_empty_queue_is_nobodys() {
    let mut law = Law::new(MSS);
    law.on_handshake(40_000, 1);
    (law.drain_from_us, law.drain_until_us, law.drain_rtt_us) = (2, 3, 43_000);
    (law.drain_samples, law.drain_smallest_us, law.age_max_us) =
        (DRAIN_SAMPLES, 42_000, FLOOR_AGE_DOUBTED_US);
    law.update_floor(43_000, true, 4);
    assert_eq!((law.others_queue, law.age_max_us), (0, FLOOR_AGE_US));
    // The queue of others is gone when a round trip is as short as the floor.
    law.others_queue = 1;
    law.update_floor(45_000, true, 5);
    assert_eq!(law.others_queue, 1);
    law.update_floor(42_500, true, 6);
    assert_eq!(law.others_queue, 0);
}

#[test]
fn a_loss_beside_others_takes_a_part_of_the_window_once_a_round_trip() {
    let mut law = Law::new(MSS);
    law.on_handshake(40_000, 1);
    for ms in (50..2_000).step_by(10) {
        law.on_ack(&ack_at(ms, 10 * MSS, 0, 50_000));
    }
    (law.others_queue, law.start_window) = (1, 0);
    law.update();
    let before = law.window;
    law.on_ack(&ack_at(2_000, 10 * MSS, MSS, 50_000));
    assert_eq!((law.size, law.ceiling()), (before * 7 / 10, before * 7 / 10));
    law.on_ack(&ack_at(2_010, 10 * MSS, MSS, 50_000));
    assert_eq!(law.size, before * 7 / 10);
    law.on_ack(&ack_at(2_055, 10 * MSS, 0, 50_000));
    assert!(law.size > before * 7 / 10 + MSS && law.size < before, "{} of {before}", law.size);
    // A loss of a radio alone says nothing of a buffer.
    law.others_queue = 0;
    law.on_ack(&ack_at(2_060, MSS, MSS, 50_000));
    assert_eq!(law.size, 0);
}

/// Two connections and what they tell their path; the second's delays are those of the first, or its own.
fn pair(rtts: impl Fn(u64, u64) -> u64) -> ([Law; 2], [Member; 2], SharedPath) {
    let mut laws = [Law::new(MSS); 2];
    let mut members = [Member::new(1), Member::new(2)];
    let mut path = SharedPath::default();
    for ms in (1..6_000).step_by(5) {
        for number in 0..2 {
            let (law, member, now_us) = (&mut laws[number], &mut members[number], ms * 1_000 + number as u64);
            let rtt_us = rtts(number as u64, ms);
            // The first has three quarters of the link.
            let delivered = MSS * if number == 0 { 30 } else { 10 };
            let in_flight_before = law.window;
            law.on_ack(&AckEvent { now_us, delivered, lost: 0, rtt_us, in_flight_before, is_limited: true });
            member.is_drained = 0;
            if member.on_ack(law, rtt_us, now_us) {
                let (peers, is_new) = member.exchange(law, &mut path, now_us);
                if is_new {
                    law.on_peers(&peers, now_us);
                }
            }
        }
    }
    (laws, members, path)
}

#[test]
fn connections_whose_delays_are_the_same_share_what_they_know() {
    let wave = |ms: u64, period: u64| 40_000 + (ms * 37 / period % 100) * 500;
    let (laws, members, path) = pair(|_, ms| wave(ms, 700));
    assert!(members.iter().all(|member| member.is_joined == 1), "{members:?}");
    assert_eq!(path.members.count, 2);
    let [first, second] = laws.map(|law| law.window);
    assert!(first.abs_diff(second) * 50 < first, "{first} and {second} bytes");
    // Radios of their own behind one address.
    let (laws, members, _) = pair(|number, ms| wave(ms + number * 260, 700 + number * 410));
    assert_eq!((members[1].is_joined, laws[1].others), (0, 0), "{members:?}");
    let [first, second] = laws.map(|law| law.window);
    assert!(first > second * 2, "{first} and {second} bytes");
}

#[test]
fn who_leaves_takes_what_it_gave_and_a_known_path_is_a_start() {
    let wave = |ms: u64| 40_000 + (ms * 37 / 700 % 100) * 500;
    let (_, mut members, mut path) = pair(|_, ms| wave(ms));
    let now_us = 6_001_000;
    assert!(path.start_window(MSS, now_us) > MSS * INITIAL_SEGMENTS);
    assert_eq!(path.start_window(MSS, now_us + 61_000_000), MSS * INITIAL_SEGMENTS, "it is forgotten");
    for member in &mut members {
        member.leave(&mut path);
    }
    assert_eq!((path.members, path.leader), (Shares::default(), 0));
}
