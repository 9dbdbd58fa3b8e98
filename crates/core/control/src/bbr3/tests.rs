use super::*;
use crate::bottleneck::{Link, MSS};

fn bbr() -> Bbr3 {
    Bbr3::new(Bbr3Params { mss: Bytes::new(MSS), ..Bbr3Params::default() })
}

/// 10 Mbit/s, 40 ms, 50 segments of BDP.
fn link(queue: u64) -> Link<Bbr3> {
    Link::new(bbr(), Rate::from_mbps(10), 40, queue)
}

#[test]
fn it_finds_rate_and_round_trip_and_drains_its_queue() {
    let mut link = link(1_000_000);
    link.run_until(2_000);
    assert!(link.bbr.is_in_cycle(), "{:?}", link.bbr.cycle.phase);
    let estimate = link.bbr.bandwidth().as_bps();
    assert!((9_700_000..=10_400_000).contains(&estimate), "{estimate}");
    link.largest_queue_ms = 0;
    let utilisation = link.utilisation_until(4_500);
    assert!(utilisation >= 97, "{utilisation} %");
    assert!(link.largest_queue_ms < 60, "{} ms", link.largest_queue_ms);
}

#[test]
fn startup_ends_by_loss_where_the_queue_is_short() {
    let mut link = link(15_000);
    while matches!(link.bbr.cycle.phase, Phase::Startup) && link.now < Instant::from_millis(3_000) {
        link.step();
    }
    assert!(link.now < Instant::from_millis(1_000), "left Startup after {}", link.now);
    assert!(link.bbr.is_pipe_full);
}

#[test]
fn a_short_queue_is_used_without_losing_much() {
    let mut link = link(25_000);
    link.run_until(3_000);
    let (delivered, lost) = (link.sampler.delivered().get(), link.bbr.lost);
    let utilisation = link.utilisation_until(20_000);
    let lost = link.bbr.lost - lost;
    let delivered = link.sampler.delivered().get() - delivered;
    assert!(utilisation >= 85, "{utilisation} %");
    // Version 1 loses a few per cent here; the bound keeps probes below 2 %.
    assert!(lost * 100 < delivered * 2, "{lost} of {delivered} bytes");
}

#[test]
fn it_probes_every_two_to_three_seconds_and_no_oftener() {
    let mut link = link(1_000_000);
    link.run_until(3_000);
    let (mut probes, mut was_up) = (0, false);
    while link.now < Instant::from_millis(23_000) {
        link.step();
        let is_up = link.bbr.cycle.phase == Phase::Up;
        probes += u32::from(is_up && !was_up);
        was_up = is_up;
    }
    // Twenty seconds; Reno's pace of a BDP of 50 rounds of 41 ms is two seconds.
    assert!((6..=12).contains(&probes), "{probes}");
}

#[test]
fn the_round_trip_is_probed_every_five_seconds_with_half_a_bdp() {
    let mut link = link(1_000_000);
    link.run_until(3_000);
    let (mut probes, mut was_probing, mut smallest) = (0, false, u64::MAX);
    while link.now < Instant::from_millis(23_000) {
        link.step();
        let is_probing = matches!(link.bbr.cycle.phase, Phase::ProbeRtt(Some(_)));
        probes += u32::from(is_probing && !was_probing);
        was_probing = is_probing;
        if is_probing {
            smallest = smallest.min(link.in_flight);
        }
    }
    assert!((3..=4).contains(&probes), "{probes}");
    assert!((20 * MSS..=27 * MSS).contains(&smallest), "{smallest}");
}

#[test]
fn a_faster_link_is_found_by_the_next_probes() {
    let mut link = link(1_000_000);
    link.run_until(3_000);
    link.rate = Rate::from_mbps(20);
    link.run_until(13_000);
    assert!(link.bbr.bandwidth() > Rate::from_mbps(18), "{}", link.bbr.bandwidth());
}

#[test]
fn a_slower_link_is_believed_after_two_probes() {
    let mut link = link(1_000_000);
    link.run_until(3_000);
    link.rate = Rate::from_mbps(5);
    link.run_until(13_000);
    let estimate = link.bbr.bandwidth();
    assert!(estimate < Rate::from_kbps(5_400), "{estimate}");
}

#[test]
fn losses_while_cruising_cut_rate_and_volume_until_the_next_probe() {
    let mut link = link(1_000_000);
    link.run_until(3_000);
    while link.bbr.cycle.phase != Phase::Cruise {
        link.step();
    }
    let before = link.bbr.bandwidth();
    link.rate = Rate::from_mbps(5);
    link.queue_max = 10_000;
    while link.bbr.bounds.short_rate().is_none() && link.now < Instant::from_millis(9_000) {
        link.step();
    }
    assert!(link.bbr.bandwidth() < before, "{before} to {}", link.bbr.bandwidth());
    while link.bbr.cycle.phase != Phase::Refill {
        link.step();
    }
    assert_eq!(link.bbr.bounds.short_rate(), None);
}

#[test]
fn a_probe_that_loses_too_much_sets_the_bound_and_ends() {
    let mut link = link(25_000);
    while link.bbr.bounds.long.is_none() && link.now < Instant::from_millis(20_000) {
        link.step();
    }
    let long = link.bbr.bounds.long.expect("a bound");
    // 50 segments of BDP and 25 of queue.
    assert!((35 * MSS..=110 * MSS).contains(&long), "{long}");
    assert_ne!(link.bbr.cycle.phase, Phase::Up);
}

#[test]
fn cruising_leaves_room_below_the_bound() {
    let mut link = link(1_000_000);
    link.run_until(3_000);
    while link.bbr.cycle.phase != Phase::Cruise {
        link.step();
    }
    assert!(link.bbr.control().window.get() > 90 * MSS, "two BDPs and more without a bound");
    link.bbr.bounds.long = Some(80 * MSS);
    link.take_ack();
    assert_eq!(link.bbr.cycle.phase, Phase::Cruise);
    assert_eq!(link.bbr.control().window.get(), 68 * MSS);
}

#[test]
fn a_time_out_leaves_one_segment_and_the_model() {
    let mut link = link(1_000_000);
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
    assert_eq!(link.bbr.max_rate(), estimate);
    link.bbr.on_undo(link.now);
    assert!(link.bbr.control().window.get() > 50 * MSS);
}

#[test]
fn the_handshake_sets_the_first_pace() {
    let mut bbr = bbr();
    let rtt = Some(Duration::from_millis(100));
    bbr.on_ack(&Ack { now: Instant::from_millis(100), rtt, min_rtt: rtt, ..Ack::default() });
    // Ten segments per 100 ms, 2.77 times.
    assert_eq!(bbr.control().pacing_rate, Rate::from_kbps(2_216));
}

#[test]
fn the_same_seed_gives_the_same_probes() {
    let run = |seed| {
        let params = Bbr3Params { mss: Bytes::new(MSS), seed, ..Bbr3Params::default() };
        let mut link = Link::new(Bbr3::new(params), Rate::from_mbps(10), 40, 1_000_000);
        link.run_until(8_000);
        (link.sampler.delivered(), link.bbr.cycle.wait)
    };
    assert_eq!(run(3), run(3));
    assert_ne!(run(3).1, run(4).1);
}
