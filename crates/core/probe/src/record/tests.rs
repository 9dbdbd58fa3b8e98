//! Recordings of link models, whose trace and queue are known.

use std::sync::Arc;

use link::{Capacity, DelayModel, Link, LinkConfig, LossModel, Preset, QueueLimit, Trace};
use units::{Bytes, Rate};

use super::*;
use crate::log::Ending;
use crate::message::{Arrival, Pattern, RunSpec, RunSummary};
use crate::receiver::{Receiver, ReportTimer, SEARCH_REPORTS};
use crate::sender::Sender;

const DELAY: Duration = Duration::from_millis(15);
/// The server's clock is ahead by a day, and gains 50 ppm.
const AHEAD: Duration = Duration::from_secs(86_400);
const PPM: u64 = 50;
const BEGIN: Instant = Instant::from_millis(5_000);

fn server(at: Instant) -> Instant {
    at + AHEAD + Duration::from_nanos(at.as_nanos() / 1_000_000 * PPM)
}

fn spec(pattern: Pattern, direction: Direction, rate: Rate, ms: u64) -> RunSpec {
    RunSpec {
        direction,
        pattern,
        rate,
        payload: 1_372,
        overhead: 28,
        length: Duration::from_millis(ms),
        is_echoed: false,
    }
}

/// A run over `link`, from `begin` on; reports take [`DELAY`] back.
fn run(link: &mut Link<(u32, Instant)>, spec: RunSpec, begin: Instant) -> RunLog {
    let is_up = spec.direction == Direction::Up;
    let of_sender = |at: Instant| if is_up { at } else { server(at) };
    let of_receiver = |at: Instant| if is_up { server(at) } else { at };
    let mut sender = Sender::new(&spec, begin);
    let mut receiver = Receiver::new(u64::MAX);
    let mut reports = ReportTimer::new(SEARCH_REPORTS, begin);
    let mut flying: Vec<(Instant, crate::StatusReport)> = Vec::new();
    let mut log = RunLog {
        spec,
        ending: Ending::Whole,
        departures: Vec::new(),
        arrivals: Vec::new(),
        has_arrivals: true,
        echoes: Vec::new(),
        repeated_echoes: 0,
        summary: RunSummary::default(),
        rates: Vec::new(),
    };
    let tail = begin + spec.length + Duration::from_secs(3);
    let mut now = begin;
    while now < tail {
        while let Some(number) = sender.poll(now) {
            if is_up {
                log.departures.push(Some(now));
            }
            let _ = link.enqueue((number, now), spec.packet(), now);
        }
        while let Some(delivery) = link.poll(now) {
            let (number, sent) = delivery.payload;
            if !is_up {
                log.departures.resize((number as usize + 1).max(log.departures.len()), None);
                log.departures[number as usize] = Some(of_sender(sent));
            }
            receiver.on_data(number, sent, delivery.planned);
            log.arrivals.push(Arrival { number, at: of_receiver(delivery.planned) });
        }
        if reports.poll(now).is_some() {
            flying.push((now + DELAY, receiver.report()));
        }
        while flying.first().is_some_and(|(at, _)| *at <= now) {
            sender.on_status(&flying.remove(0).1, now);
        }
        let soon =
            [sender.next_departure(), link.next_deadline(), flying.first().map(|f| f.0), Some(reports.at)];
        now = soon.into_iter().flatten().min().unwrap().max(now);
    }
    sender.summarise(&mut log.summary);
    log
}

/// Small packets every 50 ms for 10 s over an idle path of twice [`DELAY`].
fn echoes() -> Vec<EchoSample> {
    let one = |number: u32| {
        let sent = Instant::from_millis(50 * u64::from(number));
        // Some wait: the least is what counts.
        let wait = Duration::from_micros(u64::from(number % 7) * 400);
        let there = server(sent + DELAY + wait);
        EchoSample { number, sent, received: there, echoed: there, returned: sent + DELAY + wait + DELAY }
    };
    (0..200).map(one).collect()
}

fn link(capacity: Capacity, queue: QueueLimit, loss: LossModel) -> Link<(u32, Instant)> {
    let config = LinkConfig {
        capacity,
        queue,
        delay: DelayModel::Fixed(DELAY),
        loss_after: loss,
        keeps_log: false,
        ..LinkConfig::default()
    };
    Link::new(&config, Instant::ZERO).unwrap()
}

/// Trains for 3 s, then 20 s of saturation.
fn recorded(link: &mut Link<(u32, Instant)>, direction: Direction, rate_max: Rate) -> (Recording, WayRecord) {
    let trains = run(link, spec(Pattern::Trains, direction, Rate::from_kbps(560), 3_000), Instant::ZERO);
    let full =
        run(link, spec(Pattern::Saturate, direction, rate_max, 20_000), BEGIN + Duration::from_secs(2));
    let make = || Recording::of(&[&full], &[&trains], &echoes()).unwrap();
    let way = make().ways().remove(0);
    (make(), way)
}

#[test]
fn a_varying_trace_comes_out_as_it_went_in_both_ways() {
    let trace =
        Arc::new(Preset::Lte4g.generate(link::LinkDirection::Down, Duration::from_secs(40), 3).unwrap());
    for direction in [Direction::Down, Direction::Up] {
        let capacity = Capacity::Trace(Arc::clone(&trace));
        let mut link = link(capacity, QueueLimit::Bytes(Bytes::new(300_000)), LossModel::None);
        let (recording, way) = recorded(&mut link, direction, Rate::from_mbps(300));
        // The clocks' drift is known to a part of a ppm.
        let off = recording.round_trip().as_nanos().abs_diff((DELAY * 2).as_nanos());
        assert!(off < 10_000, "{}", recording.round_trip());
        assert!(way.unsaturated_share < 0.02, "{}", way.unsaturated_share);
        let again = Trace::from_opportunities_ms(way.opportunities_ms.clone()).unwrap();
        // It ends where the sender did.
        let begin = Duration::from_secs(27) - Duration::from_millis((way.seconds * 1e3) as u64);
        // Opportunity for opportunity, but for the first and the last.
        let own: Vec<(u64, u64)> = again.busy_ms().collect();
        let all: Vec<(u64, u64)> = trace.busy_ms().collect();
        let shifts = (begin.as_millis() - 30)..(begin.as_millis() + 30);
        let same =
            |shift: u64| own.iter().filter(|(ms, n)| all.binary_search(&(ms + shift, *n)).is_ok()).count();
        let most = shifts.map(same).max().unwrap();
        assert!(most + 2 >= own.len(), "{most} of {}", own.len());
        let mean = trace.offered_bytes(begin, Duration::from_secs(27)).get() as f64 * 8e-6 / way.seconds;
        assert!((way.mean_mbps / mean - 1.0).abs() < 0.005, "{} for {mean}", way.mean_mbps);
        let buffer = way.buffer.unwrap();
        assert_eq!(buffer.kind, BufferKind::Plateau, "{buffer:?}");
        assert!(buffer.low_bytes <= 300_000 && 300_000 <= buffer.high_bytes.unwrap(), "{buffer:?}");
        assert!(buffer.bytes.abs_diff(300_000) <= 3_000, "{buffer:?}");
        assert_eq!(way.loss.lost, 0);
    }
}

#[test]
fn losses_at_random_are_told_from_a_full_queue() {
    let loss = LossModel::Bernoulli { ppm: 20_000 };
    let mut link = link(Capacity::Constant(Rate::from_mbps(8)), QueueLimit::Packets(60), loss);
    let (_, way) = recorded(&mut link, Direction::Down, Rate::from_mbps(100));
    let buffer = way.buffer.unwrap();
    assert_eq!(buffer.kind, BufferKind::Plateau);
    assert!(buffer.low_bytes <= 60 * 1_400 && 60 * 1_400 <= buffer.high_bytes.unwrap(), "{buffer:?}");
    let light = way.light.unwrap();
    assert!(light.loss.of >= 150 && light.loss.lost > 0, "{:?}", light.loss);
    // What was lost behind the queue had its opportunity.
    let truth = 8.0;
    assert!((way.mean_mbps / truth - 1.0).abs() < 0.03, "{}", way.mean_mbps);
}

#[test]
fn a_queue_that_never_overflows_is_at_least_so_large() {
    let mut link = link(Capacity::Constant(Rate::from_mbps(8)), QueueLimit::Unlimited, LossModel::None);
    let (_, way) = recorded(&mut link, Direction::Up, Rate::from_mbps(12));
    let buffer = way.buffer.unwrap();
    assert_eq!((buffer.kind, buffer.high_bytes), (BufferKind::Unfilled, None));
    assert!(buffer.bytes > 1_000_000, "{buffer:?}");
    assert!((way.mean_mbps - 8.0).abs() < 0.05, "{}", way.mean_mbps);
}

#[test]
fn a_rate_below_the_links_is_told() {
    let mut link = link(Capacity::Constant(Rate::from_mbps(50)), QueueLimit::Unlimited, LossModel::None);
    let (_, way) = recorded(&mut link, Direction::Down, Rate::from_mbps(20));
    assert!(way.unsaturated_share > 0.95, "{}", way.unsaturated_share);
}

#[test]
fn trains_tell_how_an_idle_link_answers() {
    let mut link = link(Capacity::Constant(Rate::from_mbps(14)), QueueLimit::Unlimited, LossModel::None);
    let (_, way) = recorded(&mut link, Direction::Down, Rate::from_mbps(20));
    let light = way.light.unwrap();
    // A packet of 1400 bytes takes 0.8 ms, ten of them 8 ms.
    assert_eq!(
        (light.train_packets, light.loss, light.trains.len()),
        (10, Share { lost: 0, of: 150, moments: 0 }, 15)
    );
    assert!((light.wait.unwrap().p50_ms - 0.8).abs() < 0.01, "{:?}", light.wait);
    assert!((light.spread.unwrap().p50_ms - 7.2).abs() < 0.01, "{:?}", light.spread);
    let gaps: Vec<f64> = light.trains[0].after_ms.iter().map(|after| after.unwrap()).collect();
    assert!(gaps.windows(2).all(|pair| (pair[1] - pair[0] - 0.8).abs() < 0.01), "{gaps:?}");
}
