//! The whole link: Mahimahi's semantics by hand, and what must always hold.

use std::sync::Arc;

use proptest::prelude::*;
use units::Rate;

use super::*;
use crate::{
    Aqm, CoDelParams, DelayModel, DualPi2Params, Fades, Harq, LossModel, OutageModel, Policer, RateSteps,
    Summary, Trace,
};

fn ms(n: u64) -> Instant {
    Instant::from_millis(n)
}

fn for_ms(n: u64) -> Duration {
    Duration::from_millis(n)
}

fn trace(lines: &[u64]) -> Capacity {
    Capacity::Trace(Arc::new(Trace::from_opportunities_ms(lines.iter().copied()).unwrap()))
}

fn link(config: &LinkConfig) -> Link<u32> {
    Link::new(config, Instant::ZERO).unwrap()
}

/// Hands in `(arrival µs, size)` packets and returns the departure time of each in µs.
fn departures(config: &LinkConfig, packets: &[(u64, u64)]) -> Vec<Option<u64>> {
    let mut link = link(config);
    for (index, &(us, size)) in packets.iter().enumerate() {
        let _ = link.enqueue(index as u32, Bytes::new(size), Instant::from_micros(us));
    }
    link.take_log().iter().map(|record| record.departure.map(|at| at.as_nanos() / 1000)).collect()
}

fn with_trace(lines: &[u64]) -> LinkConfig {
    LinkConfig { capacity: trace(lines), ..LinkConfig::default() }
}

#[test]
fn one_full_packet_per_opportunity() {
    let got = departures(&with_trace(&[1, 2, 2, 5]), &[(0, 1500); 5]);
    // The fifth uses the first opportunity of the second cycle: 5 + 1 ms.
    assert_eq!(got, [Some(1000), Some(2000), Some(2000), Some(5000), Some(6000)]);
}

#[test]
fn small_packets_share_an_opportunity() {
    // 28 ACKs of 52 bytes are 1456 bytes; the 29th needs 8 bytes of the next opportunity.
    let got = departures(&with_trace(&[1, 4]), &[(0, 52); 29]);
    assert!(got[..28].iter().all(|at| *at == Some(1000)));
    assert_eq!(got[28], Some(4000));
}

#[test]
fn a_packet_may_span_two_opportunities() {
    let got = departures(&with_trace(&[1, 4, 9]), &[(0, 1000), (0, 1000), (0, 1000)]);
    assert_eq!(got, [Some(1000), Some(4000), Some(4000)]);
    let got = departures(&with_trace(&[1, 4, 9]), &[(0, 3001)]);
    assert_eq!(got, [Some(9000)]);
}

#[test]
fn what_an_opportunity_leaves_is_lost_when_the_queue_is_empty() {
    // 100 bytes leave at 1 ms; the other 1400 are gone when the next packet comes at 1.5 ms.
    let got = departures(&with_trace(&[1, 4]), &[(0, 100), (1500, 1500)]);
    assert_eq!(got, [Some(1000), Some(4000)]);
    // In the queue before the opportunity, it shares it and needs 100 bytes of the next.
    let got = departures(&with_trace(&[1, 4, 7]), &[(0, 100), (500, 1500), (600, 1400)]);
    assert_eq!(got, [Some(1000), Some(4000), Some(4000)]);
}

#[test]
fn a_packet_must_be_there_before_the_opportunity() {
    assert_eq!(departures(&with_trace(&[5, 9]), &[(4999, 1500)]), [Some(5000)]);
    assert_eq!(departures(&with_trace(&[5, 9]), &[(5000, 1500)]), [Some(9000)]);
    // An opportunity at time 0 has gone before anything can arrive; in later cycles it counts.
    assert_eq!(departures(&with_trace(&[0, 9]), &[(0, 1500), (0, 1500)]), [Some(9000), Some(9000)]);
}

#[test]
fn long_gaps_and_many_cycles_pass() {
    let got = departures(&with_trace(&[78_000]), &[(0, 1500), (0, 1500), (400_000_000, 1500)]);
    assert_eq!(got, [Some(78_000_000), Some(156_000_000), Some(468_000_000)]);
}

#[test]
fn the_queue_drops_what_does_not_fit_and_not_what_is_in_service() {
    let mut config = with_trace(&[10, 20]);
    config.queue = QueueLimit::Packets(2);
    let mut link = link(&config);
    assert!(link.enqueue(0, Bytes::new(2000), ms(0)).is_ok());
    assert!(link.enqueue(1, Bytes::new(1500), ms(0)).is_ok());
    let rejected = link.enqueue(2, Bytes::new(1500), ms(0)).unwrap_err();
    assert_eq!((rejected.payload, rejected.reason, rejected.id), (2, DropReason::QueueFull, PacketId(2)));
    // At 10 ms the first is in transit (500 bytes to go), so one place is free again.
    assert_eq!(link.queue_packets(ms(10)), 1);
    assert!(link.enqueue(3, Bytes::new(1500), ms(10)).is_ok());
    assert!(link.enqueue(4, Bytes::new(1500), ms(10)).is_err());
    assert_eq!(link.queue_bytes(ms(10)), Bytes::new(3000));
}

#[test]
fn a_byte_limit_counts_bytes() {
    let mut config = with_trace(&[10]);
    config.queue = QueueLimit::Bytes(Bytes::new(3000));
    let mut link = link(&config);
    assert!(link.enqueue(0, Bytes::new(1500), ms(0)).is_ok());
    assert!(link.enqueue(1, Bytes::new(1501), ms(0)).is_err());
    assert!(link.enqueue(2, Bytes::new(1500), ms(0)).is_ok());
    assert!(link.enqueue(3, Bytes::new(1), ms(0)).is_err());
}

#[test]
fn a_constant_rate_never_drifts() {
    let rate = Rate::from_bps(7_777_777);
    let config = LinkConfig { capacity: Capacity::Constant(rate), ..LinkConfig::default() };
    let mut link = link(&config);
    for _ in 0..10_000 {
        link.enqueue(0, Bytes::new(1499), ms(0)).unwrap();
    }
    let last = link.take_log().pop().and_then(|record| record.departure).unwrap();
    let exact = rate.time_for(Bytes::new(1499 * 10_000));
    assert_eq!(last.as_nanos(), exact.as_nanos());
}

#[test]
fn steps_and_zero_rates_pause_service() -> Result<(), LinkError> {
    let steps = RateSteps::new(&[(for_ms(10), Rate::from_mbps(1)), (for_ms(90), Rate::ZERO)], true)?;
    let config = LinkConfig { capacity: Capacity::Steps(steps), ..LinkConfig::default() };
    // 1250 bytes take the whole first step; 1500 bytes need 2 ms of the next cycle's.
    let got = departures(&config, &[(0, 1250), (0, 1250), (110_000, 1500)]);
    assert_eq!(got, [Some(10_000), Some(110_000), Some(302_000)]);
    let config = LinkConfig { capacity: Capacity::Constant(Rate::ZERO), ..LinkConfig::default() };
    assert_eq!(departures(&config, &[(0, 100)]), [None]);
    // A last step of zero that holds for ever, with outages that never end either.
    let steps = RateSteps::new(&[(for_ms(1), Rate::from_mbps(1)), (for_ms(1), Rate::ZERO)], false)?;
    let outages = OutageModel::Periodic { first: for_ms(5), period: for_ms(10), length: for_ms(1) };
    let config = LinkConfig { capacity: Capacity::Steps(steps), outages, ..LinkConfig::default() };
    assert_eq!(departures(&config, &[(0, 125), (0, 1)]), [Some(1000), None]);
    Ok(())
}

#[test]
fn outages_stop_service_and_cost_capacity() {
    let outages = OutageModel::Scheduled(vec![(for_ms(2), for_ms(3))]);
    let config = LinkConfig { outages: outages.clone(), ..with_trace(&[1, 2, 4, 5, 8]) };
    assert_eq!(departures(&config, &[(0, 1500), (0, 1500)]), [Some(1000), Some(5000)]);
    assert_eq!(link(&config).offered_bytes(ms(0), ms(8)), Bytes::new(3000));

    let capacity = Capacity::Constant(Rate::from_mbps(12));
    let config = LinkConfig { outages, capacity, ..LinkConfig::default() };
    // One packet takes 1 ms: the third would begin at 2 ms.
    let got = departures(&config, &[(0, 1500), (500, 1500), (500, 1500)]);
    assert_eq!(got, [Some(1000), Some(2000), Some(6000)]);
    assert_eq!(link(&config).offered_bytes(ms(0), ms(10)), Bytes::new(7 * 1500));
}

#[test]
fn an_outage_over_every_opportunity_ends_the_search() {
    let outages = OutageModel::Periodic { first: for_ms(499), period: for_ms(500), length: for_ms(2) };
    let config = LinkConfig { outages, ..with_trace(&[500]) };
    assert_eq!(departures(&config, &[(0, 1500), (0, 1500)]), [None, None]);
}

#[test]
fn uplink_slots_bunch_packets() {
    let slots = SlotConfig { period: for_ms(10), offset: for_ms(3) };
    let config = LinkConfig { uplink_slots: Some(slots), ..LinkConfig::default() };
    let got = departures(&config, &[(0, 52), (1000, 52), (3000, 52), (3001, 52), (13_500, 52)]);
    assert_eq!(got, [3000, 3000, 3000, 13_000, 23_000].map(Some));
}

#[test]
fn harq_holds_back_what_comes_behind() {
    let harq = Harq { block_error_ppm: 300_000, retry_time: for_ms(8), tries_max: 2, per_slot: false };
    let capacity = Capacity::Constant(Rate::from_mbps(12));
    let mut link = link(&LinkConfig { harq: Some(harq), capacity, ..LinkConfig::default() });
    for id in 0..2000 {
        link.enqueue(id, Bytes::new(1500), ms(0)).unwrap();
    }
    let mut released = Instant::ZERO;
    let (mut held_back, mut lost) = (0, 0);
    for record in link.take_log() {
        let departure = record.departure.unwrap();
        let repaired = departure + for_ms(8) * u64::from(record.failed_tries);
        held_back += u32::from(repaired < released);
        released = released.max(repaired);
        match record.drop {
            None => assert_eq!(record.delivered, Some(released)),
            Some(reason) => {
                lost += 1;
                assert_eq!((reason, record.failed_tries), (DropReason::HarqFailed, 2));
            }
        }
    }
    assert!(held_back > 500, "{held_back}");
    assert!((120..240).contains(&lost), "{lost}");
}

#[test]
fn a_jittered_delay_is_never_early_and_keeps_order() {
    let delay = DelayModel::Uniform { min: for_ms(10), max: for_ms(50) };
    let capacity = Capacity::Constant(Rate::from_mbps(12));
    let mut link = link(&LinkConfig { delay, capacity, ..LinkConfig::default() });
    for id in 0..500 {
        link.enqueue(id, Bytes::new(1500), ms(0)).unwrap();
    }
    let mut expected = 0;
    while let Some(deadline) = link.next_deadline() {
        assert_eq!(link.poll(deadline - Duration::from_nanos(1)), None);
        while let Some(delivery) = link.poll(deadline) {
            assert_eq!((delivery.payload, delivery.planned), (expected, deadline));
            assert!(delivery.planned.saturating_since(delivery.record.departure.unwrap()) >= for_ms(10));
            expected += 1;
        }
    }
    assert_eq!(expected, 500);
}

#[test]
fn loss_before_takes_no_capacity_and_loss_after_does() {
    let all = LossModel::Bernoulli { ppm: 1_000_000 };
    let mut before = link(&LinkConfig { loss_before: all, ..with_trace(&[5]) });
    assert_eq!(before.enqueue(7, Bytes::new(100), ms(0)).unwrap_err().reason, DropReason::LossBefore);
    assert_eq!(before.next_deadline(), None);
    let mut after = link(&LinkConfig { loss_after: all, ..with_trace(&[5]) });
    after.enqueue(7, Bytes::new(100), ms(0)).unwrap();
    assert_eq!(after.next_deadline(), Some(ms(5)));
    assert_eq!(after.poll(ms(5)), None);
    assert_eq!(after.counters().loss_after.packets, 1);
    assert_eq!(after.counters().held, Tally::default());
}

/// A token bucket lets all of a burst through, then its rate, and after a pause a burst again.
#[test]
fn a_policer_lets_its_rate_through_and_takes_no_room() {
    // A byte in a millisecond.
    let policer = Policer { rate: Rate::from_bps(8_000), burst: Bytes::new(100) };
    let mut link = link(&LinkConfig { policer: Some(policer), ..LinkConfig::default() });
    let mut at = |time: u64, size: u64| {
        let taken = link.enqueue(0, Bytes::new(size), ms(time));
        taken.map_err(|rejected| rejected.reason).map(|_| ())
    };
    assert_eq!(at(0, 60), Ok(()));
    assert_eq!(at(0, 41), Err(DropReason::LossBefore), "40 are left");
    assert_eq!(at(0, 40), Ok(()), "what was dropped took nothing");
    assert_eq!(at(49, 50), Err(DropReason::LossBefore));
    assert_eq!(at(50, 50), Ok(()));
    assert_eq!(at(1_000, 101), Err(DropReason::LossBefore), "the bucket holds no more than a burst");
    assert_eq!(at(1_000, 100), Ok(()));
    assert_eq!(link.counters().loss_before.packets, 3);
    let (from, until) = (1_000, 11_000);
    let through = (from..until).filter(|time| link.enqueue(0, Bytes::new(7), ms(*time)).is_ok()).count();
    assert_eq!(through as u64, (until - from - 1) / 7);
}

/// A packet that waits is lost by when it leaves, not by when it came; it has used its capacity.
#[test]
fn a_fade_loses_what_leaves_within_it() {
    let when = OutageModel::Scheduled(vec![(for_ms(6), for_ms(3))]);
    let fades = Some(Fades { when, loss_ppm: 1_000_000 });
    let mut link = link(&LinkConfig { fades, ..with_trace(&[5, 6, 8, 9]) });
    for number in 0..4 {
        link.enqueue(number, Bytes::new(1_500), ms(0)).unwrap();
    }
    let out: Vec<_> =
        core::iter::from_fn(|| link.poll(ms(20))).map(|out| (out.payload, out.planned)).collect();
    assert_eq!(out, [(0, ms(5)), (3, ms(9))]);
    assert_eq!((link.counters().faded.packets, link.counters().held), (2, Tally::default()));
    let log = link.take_log();
    assert_eq!((log[1].drop, log[1].departure), (Some(DropReason::Fade), Some(ms(6))));
    let summary = Summary::from_records(&log, Bytes::new(6_000), ms(0), ms(20));
    assert_eq!((summary.faded, summary.delivered_packets), (2, 2));
}

#[test]
fn wrong_settings_are_named() {
    let slots = SlotConfig { period: for_ms(0), offset: for_ms(0) };
    let config = LinkConfig { uplink_slots: Some(slots), ..LinkConfig::default() };
    let error = Link::<u32>::new(&config, Instant::ZERO).unwrap_err();
    assert_eq!(error.to_string(), "link setting `uplink_slots.period`: must be above zero");
}

fn any_capacity() -> impl Strategy<Value = Capacity> {
    let steps = proptest::collection::vec((1u64..50, prop_oneof![Just(0), 100_000u64..20_000_000]), 1..5);
    prop_oneof![
        Just(Capacity::Unlimited),
        prop_oneof![Just(0), 100_000u64..50_000_000].prop_map(|bps| Capacity::Constant(Rate::from_bps(bps))),
        (steps, any::<bool>()).prop_map(|(list, repeats)| {
            let list: Vec<_> = list.into_iter().map(|(ms, bps)| (for_ms(ms), Rate::from_bps(bps))).collect();
            Capacity::Steps(RateSteps::new(&list, repeats).unwrap())
        }),
        proptest::collection::vec(0u64..60, 1..40).prop_map(|mut lines| {
            lines.push(1);
            lines.sort_unstable();
            trace(&lines)
        }),
    ]
}

fn any_loss() -> impl Strategy<Value = LossModel> {
    prop_oneof![
        Just(LossModel::None),
        (0u32..200_000).prop_map(|ppm| LossModel::Bernoulli { ppm }),
        (0u32..100_000, 1u32..1_000_000).prop_map(|(to_bad_ppm, to_good_ppm)| {
            LossModel::GilbertElliott { to_bad_ppm, to_good_ppm, good_loss_ppm: 0, bad_loss_ppm: 700_000 }
        }),
    ]
}

fn any_delay() -> impl Strategy<Value = DelayModel> {
    let ms = || (0u64..40).prop_map(for_ms);
    prop_oneof![
        ms().prop_map(DelayModel::Fixed),
        (ms(), ms()).prop_map(|(a, b)| DelayModel::Uniform { min: a.min(b), max: a.max(b) }),
        (ms(), ms()).prop_map(|(mean, deviation)| DelayModel::Normal { mean, deviation }),
        proptest::collection::vec(((1u64..30).prop_map(for_ms), ms()), 1..4).prop_map(DelayModel::Steps),
    ]
}

fn any_outages() -> impl Strategy<Value = OutageModel> {
    prop_oneof![
        Just(OutageModel::None),
        (0u64..50, 1u64..40).prop_map(|(first, length)| OutageModel::Periodic {
            first: for_ms(first),
            period: for_ms(length + 17),
            length: for_ms(length),
        }),
        (1u64..80, 1u64..40).prop_map(|(gap, length)| OutageModel::Random {
            gap_mean: for_ms(gap),
            length_mean: for_ms(length),
        }),
    ]
}

fn any_fades() -> impl Strategy<Value = Fades> {
    (any_outages(), 0u32..=1_000_000).prop_map(|(when, loss_ppm)| Fades { when, loss_ppm })
}

fn any_config() -> impl Strategy<Value = LinkConfig> {
    let queue = prop_oneof![
        Just(QueueLimit::Unlimited),
        (0u64..20_000).prop_map(|n| QueueLimit::Bytes(Bytes::new(n))),
        (0u64..12).prop_map(QueueLimit::Packets),
    ];
    let harq = proptest::option::of((0u32..500_000, 0u64..20, 1u8..5).prop_map(|(ppm, time, tries)| Harq {
        block_error_ppm: ppm,
        retry_time: for_ms(time),
        tries_max: tries,
        per_slot: ppm % 2 == 0,
    }));
    let slots = proptest::option::of(
        (1u64..20, 0u64..20)
            .prop_map(|(period, offset)| SlotConfig { period: for_ms(period), offset: for_ms(offset) }),
    );
    let policer = proptest::option::of(
        (1u64..20_000, 1u64..20_000)
            .prop_map(|(kbps, burst)| Policer { rate: Rate::from_kbps(kbps), burst: Bytes::new(burst) }),
    );
    let losses = (any_loss(), any_loss(), proptest::option::of(any_fades()), policer);
    (any_capacity(), queue, any_delay(), losses, any_outages(), harq, slots, any::<u64>()).prop_map(
        |(
            capacity,
            queue,
            delay,
            (loss_before, loss_after, fades, policer),
            outages,
            harq,
            uplink_slots,
            seed,
        )| {
            LinkConfig {
                capacity,
                queue,
                aqm: None,
                delay,
                policer,
                loss_before,
                loss_after,
                fades,
                outages,
                harq,
                uplink_slots,
                tdd: None,
                grants: None,
                seed,
                keeps_log: true,
            }
        },
    )
}

/// Gaps in ns and sizes of the packets handed in; gaps of zero and whole milliseconds are common.
fn any_packets() -> impl Strategy<Value = Vec<(u64, u64)>> {
    let gap = prop_oneof![Just(0), Just(1_000_000), 0u64..3_000_000];
    let size = prop_oneof![Just(1500u64), Just(52), 0u64..4000];
    proptest::collection::vec((gap, size), 1..120)
}

type Out = Vec<(u32, Instant)>;

/// Runs `packets` through a link, polling at every deadline or only at the end.
fn run(
    config: &LinkConfig,
    packets: &[(u64, u64)],
    polls_often: bool,
) -> (Out, Vec<PacketRecord>, Link<u32>) {
    let mut link = Link::new(config, Instant::from_nanos(5)).unwrap();
    let mut now = Instant::from_nanos(5);
    let mut out = Vec::new();
    for (index, &(gap, size)) in packets.iter().enumerate() {
        now += Duration::from_nanos(gap);
        if polls_often {
            while let Some(deadline) = link.next_deadline().filter(|deadline| *deadline <= now) {
                while let Some(delivery) = link.poll(deadline) {
                    out.push((delivery.payload, delivery.planned));
                }
            }
        }
        let _ = link.enqueue(index as u32, Bytes::new(size), now);
    }
    while let Some(deadline) = link.next_deadline() {
        let at = if polls_often { deadline } else { Instant::from_nanos(u64::MAX - 1) };
        while let Some(delivery) = link.poll(at) {
            out.push((delivery.payload, delivery.planned));
        }
    }
    let log = link.take_log();
    (out, log, link)
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(256))]

    #[test]
    fn result_does_not_depend_on_polling(config in any_config(), packets in any_packets()) {
        let (out_often, log_often, link_often) = run(&config, &packets, true);
        let (out_rarely, log_rarely, link_rarely) = run(&config, &packets, false);
        prop_assert_eq!(out_often, out_rarely);
        prop_assert_eq!(log_often, log_rarely);
        prop_assert_eq!(link_often.counters(), link_rarely.counters());
    }

    #[test]
    fn in_order_never_early_and_nothing_lost_from_the_books(config in any_config(), packets in any_packets()) {
        let (out, log, link) = run(&config, &packets, true);
        prop_assert!(out.windows(2).all(|pair| pair[0].0 < pair[1].0 && pair[0].1 <= pair[1].1));
        for record in &log {
            if let (Some(start), Some(departure)) = (record.service_start, record.departure) {
                prop_assert!(record.arrival <= start && start <= departure);
                prop_assert!(record.delivered.is_none_or(|at| at >= departure));
            }
            prop_assert!(record.delivered.is_none() || record.drop.is_none());
        }
        let counters = link.counters();
        prop_assert_eq!(counters.offered.packets, packets.len() as u64);
        prop_assert_eq!(
            counters.offered.packets,
            counters.delivered.packets + counters.dropped_packets() + counters.held.packets
        );
        prop_assert_eq!(counters.delivered.packets, out.len() as u64);
        let logged = log.iter().filter(|record| record.delivered.is_some()).count();
        prop_assert_eq!(logged, out.len());
    }

    /// Deliveries in any interval never exceed what was offered up to its end.
    #[test]
    fn no_more_leaves_than_is_offered(config in any_config(), packets in any_packets()) {
        let config = LinkConfig { uplink_slots: None, ..config };
        let (_, log, link) = run(&config, &packets, false);
        let mut served = 0;
        for record in &log {
            let Some(departure) = record.departure else { continue };
            served += record.size.get();
            let until = departure + Duration::from_nanos(1);
            prop_assert!(Bytes::new(served) <= link.offered_bytes(link.start(), until));
        }
    }

    #[test]
    fn same_seed_same_run(config in any_config(), packets in any_packets()) {
        prop_assert_eq!(run(&config, &packets, true).1, run(&config, &packets, true).1);
    }
}

/// Fates of packets of 1,500 bytes that come twice as fast as 12 Mbit/s for a second, with this ECN field,
/// where somebody looks each `look_us`: when they came out and whether they were marked, and the counters.
fn overloaded(aqm: Aqm, ecn: Ecn, look_us: u64) -> (Vec<(u64, bool)>, Counters) {
    let capacity = Capacity::Constant(Rate::from_mbps(12));
    let mut link = link(&LinkConfig { capacity, aqm: Some(aqm), ..LinkConfig::default() });
    let mut out = Vec::new();
    let mut looked = 0;
    for n in 0..2_000 {
        let now = n * 500;
        while looked < now {
            looked = now.min(looked + look_us);
            while let Some(delivery) = link.poll(Instant::from_micros(looked)) {
                out.push((delivery.planned.as_nanos(), delivery.is_marked));
            }
        }
        let _ = link.enqueue_as(ecn, n as u32, Bytes::new(1_500), Instant::from_micros(now));
    }
    while let Some(at) = link.next_deadline() {
        while let Some(delivery) = link.poll(at) {
            out.push((delivery.planned.as_nanos(), delivery.is_marked));
        }
    }
    (out, *link.counters())
}

#[test]
fn a_managed_queue_marks_what_can_be_marked_and_drops_the_rest_whoever_looks_how_often() {
    for aqm in [Aqm::CoDel(CoDelParams::default()), Aqm::DualPi2(DualPi2Params::default())] {
        let (out, counters) = overloaded(aqm, Ecn::NotEct, 100);
        assert!(counters.managed.packets > 0 && counters.marked.packets == 0, "{counters:?}");
        assert_eq!(out.len() as u64 + counters.managed.packets, 2_000);
        assert_eq!(counters.held, Tally::default());
        // What is dropped takes no capacity: a packet leaves each millisecond.
        let gaps = out.windows(2).map(|pair| pair[1].0 - pair[0].0);
        assert!(gaps.into_iter().all(|gap| gap == 1_000_000));
        assert_eq!(overloaded(aqm, Ecn::NotEct, 3_700), (out, counters));

        let (out, counters) = overloaded(aqm, Ecn::Ect0, 100);
        let marked = out.iter().filter(|(_, is_marked)| *is_marked).count() as u64;
        assert!(marked > 0 && marked == counters.marked.packets, "{counters:?}");
        // PI² drops them, too, once it cannot hold the queue by marks.
        assert_eq!(out.len() as u64 + counters.managed.packets, 2_000);
        assert_eq!(overloaded(aqm, Ecn::Ect0, 1_100), (out, counters));
    }
}

#[test]
fn a_managed_queue_that_is_short_serves_as_any_other() {
    let packets = [(0, 1500), (1000, 900), (2500, 1500), (2600, 40), (9000, 1500)];
    for capacity in [Capacity::Constant(Rate::from_mbps(12)), trace(&[1, 2, 2, 5])] {
        let plain = LinkConfig { capacity, ..LinkConfig::default() };
        let managed = LinkConfig { aqm: Some(Aqm::CoDel(CoDelParams::default())), ..plain.clone() };
        let mut link = link(&managed);
        let mut out = Vec::new();
        for (us, size) in packets {
            let _ = link.enqueue(0, Bytes::new(size), Instant::from_micros(us));
        }
        while let Some(at) = link.next_deadline() {
            while let Some(delivery) = link.poll(at) {
                out.push(delivery.record.departure.map(|at| at.as_nanos() / 1000));
            }
        }
        assert_eq!(out, departures(&plain, &packets));
    }
}

#[test]
fn scalable_packets_pass_classic_ones_by_and_are_marked_after_a_millisecond() {
    let capacity = Capacity::Constant(Rate::from_mbps(12));
    let aqm = Some(Aqm::DualPi2(DualPi2Params::default()));
    let mut link = link(&LinkConfig { capacity, aqm, ..LinkConfig::default() });
    for n in 0..10 {
        let ecn = if n < 6 { Ecn::Ect0 } else { Ecn::Ect1 };
        link.enqueue_as(ecn, n, Bytes::new(1_500), ms(0)).unwrap();
    }
    let mut out = Vec::new();
    while let Some(at) = link.next_deadline() {
        out.extend(core::iter::from_fn(|| link.poll(at)).map(|d| (d.payload, d.is_marked)));
    }
    // The first classic one was in service already. The last scalable one is alone.
    let first: Vec<_> = out[..6].iter().map(|(n, _)| *n).collect();
    assert_eq!(first[0], 0);
    assert!(first[1..].iter().filter(|n| **n >= 6).count() >= 3, "{first:?}");
    let marked: Vec<_> = out.iter().filter(|(_, is_marked)| *is_marked).map(|(n, _)| *n).collect();
    assert!(!marked.is_empty() && marked.iter().all(|n| (6..9).contains(n)), "{marked:?}");
}
