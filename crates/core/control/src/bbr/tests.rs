use super::*;
use crate::bottleneck::{Link, MSS};

fn bbr() -> Bbr {
    Bbr::new(BbrParams { mss: Bytes::new(MSS), ..BbrParams::default() })
}

fn link() -> Link<Bbr> {
    Link::new(bbr(), Rate::from_mbps(10), 40, 1_000_000)
}

#[test]
fn startup_doubles_the_rate_every_round() {
    let mut link = link();
    link.run_until(220);
    // Ten segments in the first 40 ms are 2 Mbit/s; each round doubles it, and shows in the next.
    assert!(link.bbr.bandwidth() > Rate::from_kbps(9_500), "{}", link.bbr.bandwidth());
    assert_eq!(link.bbr.mode, Mode::Startup);
}

#[test]
fn it_finds_rate_and_round_trip_and_drains_its_queue() {
    let mut link = link();
    link.run_until(2_000);
    assert!(matches!(link.bbr.mode, Mode::ProbeBw { .. }), "{:?}", link.bbr.mode);
    let estimate = link.bbr.bandwidth().as_bps();
    assert!((9_800_000..=10_300_000).contains(&estimate), "{estimate}");
    assert!(link.bbr.model.min_rtt().expect("a round trip") < Duration::from_millis(43));
    link.largest_queue_ms = 0;
    let utilisation = link.utilisation_until(9_000);
    assert!(utilisation >= 98, "{utilisation} %");
    assert!(link.largest_queue_ms < 25, "probing adds a quarter of a BDP: {} ms", link.largest_queue_ms);
}

#[test]
fn loss_is_no_signal() {
    let mut link = Link::new(bbr(), Rate::from_mbps(10), 40, 20_000);
    link.run_until(2_000);
    let utilisation = link.utilisation_until(9_000);
    assert!(utilisation >= 90, "{utilisation} % with two fifths of a BDP of queue");
}

#[test]
fn the_round_trip_is_probed_every_ten_seconds() {
    let mut link = link();
    link.run_until(9_900);
    let mut emptied = false;
    let mut probing_ms = 0;
    while link.now < Instant::from_millis(11_500) {
        let before = link.now;
        link.step();
        if matches!(link.bbr.mode, Mode::ProbeRtt(_)) {
            probing_ms += link.now.saturating_since(before).as_micros();
            emptied |= link.in_flight <= SEGMENTS_MIN * MSS;
            assert!(link.bbr.control().window.get() <= SEGMENTS_MIN * MSS);
        }
    }
    assert!(emptied);
    assert!((200_000..400_000).contains(&probing_ms), "{probing_ms} µs");
    assert!(matches!(link.bbr.mode, Mode::ProbeBw { .. }));
    // What was delivered meanwhile did not lower the estimate.
    assert!(link.bbr.bandwidth() > Rate::from_kbps(9_700), "{}", link.bbr.bandwidth());
}

#[test]
fn a_faster_link_is_found_in_a_few_cycles() {
    let mut link = link();
    link.run_until(3_000);
    link.rate = Rate::from_mbps(20);
    link.run_until(6_000);
    assert!(link.bbr.bandwidth() > Rate::from_mbps(19), "{}", link.bbr.bandwidth());
}

#[test]
fn a_slower_link_is_believed_after_ten_rounds() {
    let mut link = link();
    link.run_until(3_000);
    link.rate = Rate::from_mbps(5);
    link.run_until(7_000);
    let estimate = link.bbr.bandwidth();
    assert!(estimate < Rate::from_kbps(5_300), "{estimate}");
}

#[test]
fn the_first_round_of_a_recovery_conserves_packets() {
    let mut link = link();
    link.run_until(2_000);
    let before = link.bbr.cwnd;
    let loss = Loss {
        now: link.now,
        lost: Bytes::new(3 * MSS),
        kind: LossKind::Fast,
        is_new_event: true,
        in_flight: Bytes::new(20 * MSS),
    };
    link.bbr.on_loss(&loss);
    let ack = |is_recovering| Ack {
        now: link.now,
        delivered: Bytes::new(MSS),
        delivered_total: link.sampler.delivered(),
        in_flight: Bytes::new(20 * MSS),
        in_flight_before: Bytes::new(21 * MSS),
        is_recovering,
        ..Ack::default()
    };
    link.bbr.on_ack(&ack(true));
    assert_eq!(link.bbr.cwnd, 21 * MSS, "in flight and what was acknowledged");
    link.bbr.on_ack(&ack(false));
    assert!(link.bbr.cwnd + 2 * MSS >= before, "{} restored to {before}", link.bbr.cwnd);
}

#[test]
fn a_time_out_leaves_one_segment_and_the_model() {
    let mut link = link();
    link.run_until(2_000);
    let estimate = link.bbr.bandwidth();
    link.bbr.on_loss(&Loss {
        now: link.now,
        lost: Bytes::new(link.in_flight),
        kind: LossKind::Timeout,
        is_new_event: true,
        in_flight: Bytes::ZERO,
    });
    assert_eq!(link.bbr.control().window.get(), MSS);
    assert_eq!(link.bbr.bandwidth(), estimate);
    link.bbr.on_undo(link.now);
    assert!(link.bbr.control().window.get() > 50 * MSS);
}

#[test]
fn the_handshake_sets_the_first_pace() {
    let mut bbr = Bbr::new(BbrParams { mss: Bytes::new(MSS), ..BbrParams::default() });
    let rtt = Some(Duration::from_millis(100));
    bbr.on_ack(&Ack { now: Instant::from_millis(100), rtt, min_rtt: rtt, ..Ack::default() });
    // Ten segments per 100 ms, 2.89 times, less one per cent.
    let kbps = bbr.control().pacing_rate.as_bps() / 1_000;
    assert!((2_280..2_300).contains(&kbps), "{kbps} kbit/s");
    assert_eq!(bbr.model.min_rtt(), rtt);
}

#[test]
fn bursts_are_a_millisecond_and_at_least_two_segments() {
    let mut bbr = Bbr::new(BbrParams { mss: Bytes::new(MSS), ..BbrParams::default() });
    for (rate, segments) in [(1_000, 1), (1_300, 2), (10_000, 2), (100_000, 12), (1_000_000, 65)] {
        bbr.pacing_rate = Rate::from_kbps(rate);
        assert_eq!(bbr.control().send_quantum.get(), segments * MSS, "{rate} kbit/s");
    }
}

#[test]
fn the_cycle_never_begins_by_draining() {
    let mut bbr = Bbr::new(BbrParams::default());
    let mut seen = [0; CYCLE.len()];
    for _ in 0..700 {
        bbr.enter_probe_bw(Instant::ZERO);
        if let Mode::ProbeBw { phase, .. } = bbr.mode {
            seen[phase] += 1;
        }
    }
    assert_eq!(seen[1], 0);
    assert!(seen.iter().enumerate().all(|(phase, n)| phase == 1 || *n > 50), "{seen:?}");
}

#[test]
fn idleness_neither_probes_nor_bursts() {
    let mut link = link();
    link.run_until(2_000);
    link.coming.clear();
    link.in_flight = 0;
    link.now += Duration::from_secs(15);
    let (now, bytes) = (link.now, Bytes::new(MSS));
    link.bbr.on_send(&Sent { now, bytes, in_flight: Bytes::ZERO, is_app_limited: true });
    assert_eq!(link.bbr.pacing_rate, paced(link.bbr.bandwidth(), ONE));
    link.bbr.on_ack(&Ack {
        now: now + Duration::from_millis(60),
        delivered: bytes,
        delivered_total: link.sampler.delivered() + bytes,
        rtt: Some(Duration::from_millis(60)),
        ..Ack::default()
    });
    assert!(matches!(link.bbr.mode, Mode::ProbeBw { .. }), "an expired round trip is renewed, not probed");
}
