//! The parts by hand, and a link for what follows from them.

use super::*;
use crate::bottleneck::{Link, MSS};
use crate::shared_link::SharedLink;

fn ms(ms: u64) -> Duration {
    Duration::from_millis(ms)
}

fn at(ms: u64) -> Instant {
    Instant::from_millis(ms)
}

fn params() -> AdaptiveParams {
    AdaptiveParams { mss: Bytes::new(MSS), ..AdaptiveParams::default() }
}

/// A controller fed by hand with one acknowledgement after another.
struct Feed {
    control: Adaptive,
    now: u64,
    total: u64,
}

impl Feed {
    fn new() -> Self {
        // Half of the largest headroom is what it starts with: here its least.
        let mut control = Adaptive::new(AdaptiveParams { headroom_max: ms(24), ..params() });
        control.on_round_trip(ms(20), at(0));
        Self { control, now: 0, total: 0 }
    }
    fn ack_of(&mut self, bytes: u64, rtt_ms: u64, is_window_limited: bool) {
        self.total += bytes;
        self.control.on_ack(&Ack {
            now: at(self.now),
            delivered: Bytes::new(bytes),
            delivered_total: Bytes::new(self.total),
            rtt: Some(ms(rtt_ms)),
            in_flight: Bytes::new(50_000),
            in_flight_before: Bytes::new(50_000 + bytes),
            is_window_limited,
            ..Ack::default()
        });
    }
    /// `for_ms` of a link that delivers a segment every `gap_ms`, each after `rtt_ms`.
    fn deliver(&mut self, for_ms: u64, gap_ms: u64, rtt_ms: u64, is_window_limited: bool) {
        for _ in 0..for_ms / gap_ms {
            self.now += gap_ms;
            self.ack_of(MSS, rtt_ms, is_window_limited);
        }
    }
    /// 1000 bytes a millisecond, 8 Mbit/s, with a queue of 40 ms that shows that the link is busy,
    /// until d has fallen to its least.
    fn settle(&mut self) {
        self.deliver(6_000, 1, 60, true);
    }
    fn window(&self) -> u64 {
        self.control.control().window.get()
    }
    fn forecast_kbps(&self) -> u64 {
        self.control.forecast().map_or(0, |rate| rate.as_bps() / 1_000)
    }
}

#[test]
fn the_window_is_the_sum_of_the_formula() {
    let mut feed = Feed::new();
    feed.settle();
    assert_eq!(feed.forecast_kbps(), 8_000);
    // A quarter of the floor is more than 12 ms on the scale of this link: 6,000 + (20 + 5) ms of 1
    // byte per µs.
    assert_eq!(feed.control.headroom(), ms(5));
    assert_eq!(feed.window(), 6_000 + 25_000);
}

#[test]
fn what_waits_on_its_way_back_is_no_queue_and_is_in_flight_on_top() {
    let mut feed = Feed::new();
    feed.settle();
    let (window, floor) = (feed.window(), feed.control.floor());
    // The same link; each acknowledgement comes 200 ms later.
    for _ in 0..3_000 {
        feed.now += 1;
        feed.total += MSS;
        feed.control.on_ack(&Ack {
            now: at(feed.now),
            delivered: Bytes::new(MSS),
            delivered_total: Bytes::new(feed.total),
            rtt: Some(ms(260)),
            return_wait: ms(200),
            lasting_return_wait: ms(200),
            in_flight: Bytes::new(250_000),
            in_flight_before: Bytes::new(250_000 + MSS),
            is_window_limited: true,
            ..Ack::default()
        });
    }
    assert_eq!((feed.control.floor(), feed.control.headroom()), (floor, ms(5)));
    assert_eq!(feed.window(), window + 200_000);
    // No wait is longer than the round trip is above the floor, whatever a client's clock says.
    feed.control.on_ack(&Ack {
        now: at(feed.now + 1),
        delivered: Bytes::new(MSS),
        rtt: Some(ms(30)),
        return_wait: ms(5_000),
        lasting_return_wait: ms(5_000),
        ..Ack::default()
    });
    assert_eq!(feed.control.floor(), floor);
    assert!((window + 10_000..window + 10_500).contains(&feed.window()), "{}", feed.window());
}

#[test]
fn times_follow_the_grain_of_the_link() {
    let mut feed = Feed::new();
    // An acknowledgement each millisecond: bins of an eighth of the round trip; D as long as it.
    feed.settle();
    assert_eq!(feed.control.offer.length(), ms(20) / 8);
    assert_eq!(feed.control.delay_max(ms(20)), ms(20));
    // One each 6 ms: bins of 12, and D as much shorter than 100 ms as they are than 30.
    feed.deliver(5_000, 6, 60, true);
    assert_eq!(feed.control.offer.length().as_millis(), 11);
    assert_eq!(feed.control.delay_max(ms(20)).as_millis(), 39);
    // One each 50 ms: what the parameters say.
    feed.deliver(10_000, 50, 60, true);
    assert_eq!((feed.control.offer.length(), feed.control.delay_max(ms(20))), (ms(30), ms(100)));
}

#[test]
fn the_forecast_provides_for_the_good_moments() {
    let mut feed = Feed::new();
    for _ in 0..8 {
        feed.deliver(30, 1, 60, true);
        feed.deliver(60, 10, 60, true);
    }
    // A third of the time 8 Mbit/s, two thirds 0.8: 3.2 on the whole.
    assert!(feed.forecast_kbps() > 5_000, "{} kbit/s", feed.forecast_kbps());
}

#[test]
fn h15_bunched_acks_give_the_forecast_of_smooth_ones() {
    let mut smooth = Feed::new();
    smooth.deliver(3_000, 1, 60, true);
    let mut bunched = Feed::new();
    for _ in 0..60 {
        bunched.now += 50;
        for _ in 0..50 {
            bunched.ack_of(MSS, 60, true);
        }
    }
    let (smooth, bunched) = (smooth.forecast_kbps(), bunched.forecast_kbps());
    assert!(bunched.abs_diff(smooth) * 10 < smooth, "{bunched} against {smooth} kbit/s");
}

#[test]
fn an_outage_is_not_an_offer_of_nothing() {
    let mut feed = Feed::new();
    feed.deliver(2_000, 1, 60, true);
    let before = feed.forecast_kbps();
    feed.now += 5_000;
    feed.deliver(30, 1, 5_060, true);
    assert!(feed.forecast_kbps() * 10 > before * 9, "{} of {before} kbit/s", feed.forecast_kbps());
}

#[test]
fn a_link_become_slow_is_not_made_to_queue_for_long() {
    let mut feed = Feed::new();
    feed.deliver(2_000, 1, 60, true);
    // An eighth of the rate: after four bins the recent mean bounds the window.
    feed.deliver(160, 8, 100, true);
    let at_once = feed.window();
    // (20 + 100) ms at 1 Mbit/s and twice the constant part, and no more.
    assert!(at_once <= 15_000 + 12_000 + 3_000, "{at_once} bytes");
    feed.deliver(1_000, 8, 60, true);
    assert!(feed.window() < 6_000 + 5_000, "{} bytes", feed.window());
}

#[test]
fn an_empty_queue_raises_the_headroom_and_a_standing_one_lowers_it() {
    let mut feed = Feed::new();
    feed.settle();
    let least = feed.control.headroom();
    feed.deliver(50, 1, 21, true);
    let raised = feed.control.headroom();
    // 80 ms a second for 0.05 s, less φ.
    assert!(raised > least + ms(3) && raised < least + ms(5), "{raised} after {least}");
    feed.deliver(300, 1, 60, true);
    // Down by φ of that: 50 times as slow.
    assert!(feed.control.headroom() < raised && feed.control.headroom() > raised - ms(1));
    for _ in 0..50 {
        feed.deliver(40, 1, 21, true);
        feed.deliver(10, 1, 60, true);
    }
    // The floor is more than 24 ms on the scale of this link.
    assert!(feed.control.headroom() > ms(19) && feed.control.headroom() <= ms(20));
}

#[test]
fn data_running_short_teaches_nothing() {
    let mut feed = Feed::new();
    feed.deliver(2_000, 1, 60, true);
    let (window, headroom) = (feed.window(), feed.control.headroom());
    // A tenth of the rate, because there is no more to send.
    feed.deliver(5_000, 10, 20, false);
    assert_eq!(feed.window(), window);
    assert_eq!(feed.control.headroom(), headroom);
    // Rates above what was thought possible are believed all the same.
    for _ in 0..500 {
        feed.now += 1;
        feed.ack_of(2 * MSS, 20, false);
    }
    assert!(feed.forecast_kbps() > 15_000);
}

#[test]
fn a_known_subscriber_starts_with_its_window_and_is_forgotten_in_the_end() {
    let send = |feed: &mut Feed| {
        let now = at(feed.now);
        feed.control.on_send(&Sent {
            now,
            bytes: Bytes::new(MSS),
            in_flight: Bytes::ZERO,
            is_app_limited: false,
        });
    };
    let mut feed = Feed::new();
    feed.deliver(2_000, 1, 60, true);
    let window = feed.window();
    feed.now += 30_000;
    send(&mut feed);
    assert_eq!(feed.window(), window);
    // Idle time is not counted into the first bin.
    feed.deliver(40, 1, 60, true);
    assert_eq!(feed.forecast_kbps(), 8_000);
    feed.now += 61_000;
    send(&mut feed);
    assert_eq!(feed.window(), 32 * 1_024);
    assert_eq!(feed.control.forecast(), None);
}

/// A loss of `lost` bytes, the first of a recovery or not.
fn lose(feed: &mut Feed, lost: u64, kind: LossKind, is_new_event: bool) {
    let (lost, in_flight) = (Bytes::new(lost), Bytes::ZERO);
    feed.control.on_loss(&Loss { now: at(feed.now), lost, kind, is_new_event, in_flight });
}

#[test]
fn after_a_timeout_little_is_sent_until_something_is_heard() {
    let mut feed = Feed::new();
    feed.settle();
    let window = feed.window();
    lose(&mut feed, window, LossKind::Timeout, true);
    assert_eq!(feed.window(), silence::SILENT_SEGMENTS * MSS);
    // What waits in the queue of an outage looks lost as soon as a repair has arrived.
    lose(&mut feed, window, LossKind::Fast, false);
    lose(&mut feed, MSS, LossKind::Timeout, false);
    assert_eq!(feed.window(), silence::SILENT_SEGMENTS * MSS);
    // What is heard then lets go twice as much, until the window is what it was.
    feed.now += 1_000;
    feed.ack_of(MSS, 60, true);
    assert_eq!(feed.window(), 3 * MSS);
    feed.ack_of(window / 4, 60, true);
    assert!(feed.window() < window);
    feed.ack_of(window / 2, 60, true);
    assert!(feed.window() >= window, "{} of {window} bytes", feed.window());
}

#[test]
fn after_a_timeout_more_is_sent_where_the_radio_loses_data() {
    let mut feed = Feed::new();
    feed.deliver(2_000, 1, 60, true);
    lose(&mut feed, MSS, LossKind::Fast, true);
    feed.deliver(500, 1, 60, true);
    let window = feed.window();
    lose(&mut feed, window, LossKind::Timeout, true);
    assert_eq!(feed.window(), silence::RETRY_SEGMENTS * MSS);
    feed.ack_of(MSS, 60, true);
    // Ten seconds on, that loss says nothing any more.
    feed.deliver(12_000, 1, 60, true);
    let window = feed.window();
    lose(&mut feed, window, LossKind::Timeout, true);
    assert_eq!(feed.window(), silence::SILENT_SEGMENTS * MSS);
}

#[test]
fn what_is_kept_per_subscriber_stays_small() {
    assert!(size_of::<Adaptive>() <= 1_304, "{} bytes", size_of::<Adaptive>());
}

#[test]
fn scattered_losses_change_nothing() {
    let mut feed = Feed::new();
    feed.settle();
    let window = feed.window();
    for _ in 0..100 {
        // One segment in twenty.
        let (lost, in_flight) = (Bytes::new(MSS), Bytes::new(30_000));
        let now = at(feed.now);
        feed.control.on_loss(&Loss { now, lost, kind: LossKind::Fast, is_new_event: true, in_flight });
        feed.deliver(20, 1, 60, true);
    }
    assert_eq!(feed.window(), window);
}

#[test]
fn reports_of_the_base_station_fill_the_bins() {
    let mut feed = Feed::new();
    feed.deliver(500, 1, 60, true);
    for step in 0..40 {
        let now = at(500 + step * 10);
        feed.control.on_feedback(&Feedback::new(now, ms(5), Rate::from_kbps(16_832), Bytes::ZERO));
    }
    // 16.832 Mbit/s of packets of 1,052 bytes are 16 Mbit/s of payload.
    assert!((15_900..=16_100).contains(&feed.forecast_kbps()), "{} kbit/s", feed.forecast_kbps());
    // While they come, acknowledgements are not counted; when they stop, they are again.
    feed.now = 890;
    feed.deliver(100, 1, 60, true);
    assert!(feed.forecast_kbps() > 15_000);
    feed.deliver(2_000, 1, 60, true);
    assert_eq!(feed.forecast_kbps(), 8_000);
}

#[test]
fn a_steady_link_is_kept_busy_with_a_short_queue() {
    for (mbps, rtt) in [(1, 60), (5, 20), (20, 40), (100, 30), (400, 15), (10, 600)] {
        let rate = Rate::from_mbps(mbps);
        let mut link = Link::new(Adaptive::new(params()), rate, rtt, 4_000_000);
        link.run_until(5_000 + 10 * rtt);
        link.largest_queue_ms = 0;
        let busy = link.utilisation_until(45_000);
        assert!(busy >= 95, "{mbps} Mbit/s, {rtt} ms: {busy} % busy");
        // K, the larger of 12 ms and a quarter of the round trip, and what the end of a drain sends at once.
        let longest = rate.time_for(Bytes::new(9_000)).as_millis() + 12.max(rtt / 4) + 8 + rtt / 2;
        let queue = link.largest_queue_ms;
        assert!(queue <= longest, "{mbps} Mbit/s, {rtt} ms: {queue} ms of {longest} queued");
    }
}

#[test]
fn h17_a_path_become_longer_is_found_out() {
    let mut link = Link::new(Adaptive::new(params()), Rate::from_mbps(10), 20, 4_000_000);
    link.run_until(3_000);
    link.round_trip = ms(90);
    link.run_until(60_000);
    let floor = link.bbr.floor().expect("known").as_millis();
    assert!((88..=96).contains(&floor), "a floor of {floor} ms");
    let busy = link.utilisation_until(80_000);
    assert!(busy >= 97, "{busy} % busy");
}

#[test]
fn h17_a_floor_learnt_in_a_queue_is_found_out() {
    let mut link = Link::new(Adaptive::new(params()), Rate::from_mbps(10), 20, 4_000_000);
    link.bbr.on_round_trip(ms(20), at(0));
    link.run_until(2_000);
    // Nobody may rest on a queue of its own: the window does not creep over minutes.
    let before = link.bbr.control().window.get();
    link.run_until(120_000);
    let after = link.bbr.control().window.get();
    assert!(after <= before + before / 10, "{before} bytes became {after}");
}

#[test]
fn a_new_subscriber_is_up_to_speed_in_a_few_round_trips() {
    let mut link = Link::new(Adaptive::new(params()), Rate::from_mbps(100), 40, 4_000_000);
    link.run_until(400);
    let busy = link.utilisation_until(1_000);
    assert!(busy >= 95, "{busy} % busy");
}

#[test]
fn a_small_buffer_bounds_the_window() {
    // 20 Mbit/s, 40 ms: 100 KB on the way, and a buffer of 10 KB, which the window would overflow for ever.
    let mut link = Link::new(Adaptive::new(params()), Rate::from_mbps(20), 40, 10_000);
    link.run_until(10_000);
    let lost_before = link.all_lost;
    let busy = link.utilisation_until(40_000);
    let lost = link.all_lost - lost_before;
    assert!(busy >= 95, "{busy} % busy");
    let sent = link.rate.bytes_in(ms(30_000)).get();
    assert!(lost * 100 < sent, "{lost} of {sent} bytes lost");
}

#[test]
fn what_little_was_carried_of_late_does_not_hold_back_what_comes() {
    let mut control = Adaptive::new(params());
    control.on_round_trip(Duration::from_micros(200), at(1));
    let mut now = at(1_000);
    let ack = |control: &mut Adaptive, now: Instant, bytes: u64, in_flight_before: u64, is_window_limited| {
        control.on_ack(&Ack {
            now,
            delivered: Bytes::new(bytes),
            rtt: Some(Duration::from_micros(if is_window_limited { 30_000 } else { 200 })),
            in_flight_before: Bytes::new(in_flight_before),
            is_window_limited,
            ..Ack::default()
        });
    };
    // A second of a link that carries next to nothing, which is then the forecast.
    for _ in 0..60 {
        ack(&mut control, now, 10, 6_000, true);
        now += ms(40);
    }
    assert!(control.forecast().is_some_and(|rate| rate < Rate::from_kbps(10)));
    // Then one that carries each segment at once, for a sender with data.
    now += ms(2_000);
    let (begin, mut sent) = (now, 0);
    while sent < 100 {
        let in_flight = Bytes::ZERO;
        control.on_send(&Sent { now, bytes: Bytes::new(MSS), in_flight, is_app_limited: false });
        let pause = control.control().pacing_rate.time_for(Bytes::new(MSS)).min(ms(10_000));
        ack(&mut control, now + Duration::from_micros(200), MSS, MSS, false);
        now += pause.max(Duration::from_micros(200));
        sent += 1;
    }
    let time = now.saturating_since(begin);
    assert!(time < ms(1_000), "{time:?} for a hundred segments");
}

#[test]
fn what_another_place_knew_bounds_a_start_and_nothing_that_was_learnt_here() {
    let known = |ms: u64, kbps| Known {
        round_trip: Some(Duration::from_millis(ms)),
        rate: Some(Rate::from_kbps(kbps)),
    };
    let begun = |kbps| {
        let mut control = Adaptive::new(params());
        control.on_known(&known(40, kbps), at(0));
        (control.floor(), control.control().window.get())
    };
    let initial = params().initial_window.get();
    // 0.4 Mbit/s for the path and half of the largest headroom, and K.
    assert_eq!(begun(400), (Some(ms(40)), 50 * 64 + 6_000));
    // However fast it was there: it may be slow here.
    assert_eq!(begun(500_000), (Some(ms(40)), initial));
    let mut feed = Feed::new();
    feed.settle();
    let before = (feed.window(), feed.forecast_kbps(), feed.control.floor());
    feed.control.on_known(&known(90, 100), at(6_001));
    assert_eq!((feed.window(), feed.forecast_kbps(), feed.control.floor()), before);
}

#[test]
fn a_start_by_what_was_known_elsewhere_finds_a_link_ten_times_faster_or_slower() {
    for (known_kbps, link_kbps) in
        [(500, 5_000), (5_000, 500), (2_000, 2_000), (2_000, 100_000), (100_000, 500)]
    {
        let mut control = Adaptive::new(params());
        let known = Known { round_trip: Some(ms(40)), rate: Some(Rate::from_kbps(known_kbps)) };
        control.on_known(&known, at(0));
        let mut link = SharedLink::new(&[(0, link_kbps)], 40, 10_000_000).with_boxed(Box::new(control), 0);
        link.run_until(2_000);
        link.forget();
        link.run_until(6_000);
        let (used, wait) = (link.utilisation(), link.wait(950).as_millis());
        assert!(used >= 95 && wait <= 200, "{known_kbps} to {link_kbps} kbit/s: {used} %, p95 {wait} ms");
    }
}
