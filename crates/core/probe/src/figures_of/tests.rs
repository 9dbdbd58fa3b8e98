use proptest::prelude::*;
use units::Rate;

use super::*;
use crate::message::{RunSpec, RunSummary};

fn log(sent: u32, arrivals: Vec<Arrival>) -> RunLog {
    RunLog {
        spec: RunSpec {
            direction: Direction::Up,
            pattern: Pattern::Steady,
            rate: Rate::from_mbps(8),
            payload: 972,
            overhead: 28,
            length: Duration::from_millis(sent.into()),
            is_echoed: false,
        },
        ending: Ending::Whole,
        departures: (0..sent).map(|n| Some(Instant::from_millis(n.into()))).collect(),
        arrivals,
        has_arrivals: true,
        echoes: Vec::new(),
        repeated_echoes: 0,
        summary: RunSummary { sent, ..RunSummary::default() },
        rates: Vec::new(),
    }
}

/// Time by which the server's clock is ahead.
const AHEAD_MS: u64 = 1_000_000;

fn at(number: u32, ms: u64) -> Arrival {
    Arrival { number, at: Instant::from_millis(AHEAD_MS + ms) }
}

fn echo(number: u32, sent_ms: u64, rtt_ms: u64) -> EchoSample {
    let there = Instant::from_millis(AHEAD_MS + sent_ms + rtt_ms / 2);
    EchoSample {
        number,
        sent: Instant::from_millis(sent_ms),
        received: there,
        echoed: there,
        returned: Instant::from_millis(sent_ms + rtt_ms),
    }
}

#[test]
fn a_run_without_losses_is_what_was_asked_for() {
    let figures =
        RunFigures::of(&log(5_000, (0..5_000).map(|n| at(n, 40 + u64::from(n))).collect()), &[], None);
    assert_eq!((figures.lost, figures.repeated, figures.reordered), (Some(0), 0, 0));
    let [offered, received] = [figures.offered_mbps, figures.received_mbps].map(Option::unwrap);
    assert!((offered - 8.0).abs() < 1e-9 && (received - 8.0).abs() < 1e-9);
    assert!((figures.goodput_mbps.unwrap() - 7.776).abs() < 1e-9);
    assert_eq!(figures.best_second_mbps, Some(8.0));
    assert!(figures.is_valid && figures.bursts.is_empty() && figures.loss_events.is_empty());
    assert_eq!(figures.delay_variation.unwrap().max_ms, 0.0);
    assert_eq!(figures.series.goodput_mbps.len(), 10);
}

#[test]
fn losses_are_told_in_runs_with_what_they_did_to_the_goodput() {
    // The third 500 ms loses 250 packets in a row, and one by itself; the last two packets are lost too.
    let kept = |n: &u32| !(1_100..1_350).contains(n) && *n != 1_400 && *n < 2_998;
    let arrivals = (0..3_000).filter(kept).map(|n| at(n, u64::from(n))).collect();
    let figures = RunFigures::of(&log(3_000, arrivals), &[], None);
    assert_eq!(figures.lost, Some(253));
    let lengths: Vec<(u32, u32)> = figures.bursts.iter().map(|b| (b.first, b.packets)).collect();
    assert_eq!(lengths, [(1_100, 250), (1_400, 1), (2_998, 2)]);
    assert_eq!(figures.burst_lengths, BTreeMap::from([(1, 1), (2, 1), (250, 1)]));
    let [event] = &figures.loss_events[..] else { panic!("{:?}", figures.loss_events) };
    assert_eq!((event.bin, event.packets), (2, 251));
    assert!((event.drop - 251.0 / 500.0).abs() < 1e-9 && figures.mean_drop == Some(event.drop));
}

#[test]
fn late_and_repeated_packets_are_told_apart() {
    let order = [0, 1, 4, 2, 2, 5, 3, 6];
    let arrivals = order.iter().zip(0..).map(|(n, ms)| at(*n, ms)).collect();
    let figures = RunFigures::of(&log(7, arrivals), &[], None);
    assert_eq!((figures.lost, figures.repeated, figures.reordered), (Some(0), 1, 2));
    // Packet 3 came after 4, 2 and 5: RFC 4737 §4.2.1 counts from the first larger one.
    assert_eq!(figures.reordering_extent_max, 3);
}

#[test]
fn goodput_and_round_trip_are_correlated_by_bins() {
    // Twice the packets in every other bin, with round trips of 20 and 60 ms.
    let arrivals: Vec<Arrival> =
        (0..6_000).filter(|n| n / 500 % 2 == 0 || n % 2 == 0).map(|n| at(n, n.into())).collect();
    let echoes: Vec<EchoSample> =
        (0..600).map(|n| echo(n, u64::from(n) * 10, if n / 50 % 2 == 0 { 60 } else { 20 })).collect();
    let figures = RunFigures::of(&log(6_000, arrivals), &echoes, None);
    let correlation = figures.correlation.unwrap();
    assert!(correlation.coefficient > 0.99 && correlation.bins == 11, "{correlation:?}");
    assert_eq!((figures.rtt.unwrap().min_ms, figures.rtt.unwrap().max_ms), (20.0, 60.0));
}

#[test]
fn round_trips_stand_where_they_came_to_the_receiver() {
    // All leave within the first 500 ms, and are in the queue for two seconds.
    let echoes: Vec<EchoSample> = (0..40).map(|n| echo(n, u64::from(n) * 10, 4_000)).collect();
    for direction in [Direction::Up, Direction::Down] {
        let ahead = if direction == Direction::Up { AHEAD_MS } else { 0 };
        let arrivals =
            (0..5_000).map(|number| Arrival { number, at: Instant::from_millis(ahead + u64::from(number)) });
        let mut log = log(5_000, arrivals.collect());
        log.spec.direction = direction;
        let series = RunFigures::of(&log, &echoes, None).series;
        let bins: Vec<usize> = (0..10).filter(|bin| series.rtt_ms[*bin].is_some()).collect();
        // Half of the way up, all of it down.
        assert_eq!(bins, if direction == Direction::Up { [4] } else { [8] }, "{direction:?}");
    }
}

#[test]
fn what_cannot_be_is_doubted() {
    let whole = || log(1_000, (0..1_000).map(|n| at(n, n.into())).collect());
    let doubts = |change: &dyn Fn(&mut RunLog)| {
        let mut log = whole();
        change(&mut log);
        RunFigures::of(&log, &[], None).doubts
    };
    assert!(doubts(&|_| {}).is_empty());
    assert!(matches!(doubts(&|l| l.summary.timer.late_p99_us = 1_001)[..], [Doubt::Late(_)]));
    assert!(matches!(doubts(&|l| l.spec.rate = Rate::from_mbps(9))[..], [Doubt::Rate(..)]));
    assert!(matches!(doubts(&|l| l.summary.refused = 1)[..], [Doubt::Refused(1)]));
    assert!(matches!(doubts(&|l| l.summary.overflowed = 2)[..], [Doubt::Overflowed(2)]));
    assert!(matches!(doubts(&|l| l.ending = Ending::Stopped)[..], [Doubt::Ended(_)]));
    assert!(matches!(doubts(&|l| l.arrivals.push(at(1_000, 2_000)))[..], [Doubt::Invented(1)]));
    let faster =
        |l: &mut RunLog| l.arrivals.iter_mut().for_each(|a| a.at = at(0, u64::from(a.number) / 2).at);
    assert!(matches!(doubts(&faster)[..], [Doubt::TooFast(..)]));
    let cut = doubts(&|l| (l.has_arrivals, l.arrivals) = (false, Vec::new()));
    assert!(matches!(cut[..], [Doubt::NoArrivals]), "{cut:?}");
}

#[test]
fn outages_are_pauses_of_200_ms_and_more() {
    let mut run = log(1_000, Vec::new());
    run.departures = (0..1_000).map(|n| Some(Instant::from_millis(n * 20))).collect();
    let came = |n: &u32| !(100..105).contains(n) && !(200..300).contains(n) && *n < 980;
    run.echoes = (0..1_000).filter(came).map(|n| echo(n, u64::from(n) * 20, 50)).collect();
    let found = outages(&run);
    assert_eq!(
        found,
        [Outage { at_s: 4.0, seconds: 2.0, packets: 100 }, Outage { at_s: 19.6, seconds: 0.38, packets: 20 }]
    );
}

proptest! {
    /// Any arrivals at all: counts add up, nothing panics.
    #[test]
    fn counts_add_up(numbers in prop::collection::vec((0u32..60, 0u64..5_000), 0..120), sent in 60u32..80) {
        let log = log(sent, numbers.iter().map(|(n, ms)| at(*n, *ms)).collect());
        let figures = RunFigures::of(&log, &[], None);
        let received = figures.received.unwrap();
        prop_assert_eq!(received + figures.lost.unwrap(), sent);
        prop_assert_eq!(received + figures.repeated, numbers.len() as u32);
        prop_assert_eq!(figures.bursts.iter().map(|b| b.packets).sum::<u32>(), figures.lost.unwrap());
        prop_assert_eq!(figures.burst_lengths.iter().map(|(len, n)| len * n).sum::<u32>(), figures.lost.unwrap());
        prop_assert_eq!(figures.series.lost.iter().sum::<u32>(), if numbers.is_empty() { 0 } else { figures.lost.unwrap() });
    }
}
