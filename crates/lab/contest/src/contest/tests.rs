use std::sync::Arc;
use std::sync::atomic::AtomicUsize;

use link::Trace;
use scenario::{Probability, Quantity};

use super::*;
use crate::{Air, RadioSettings};

static NEVER: AtomicBool = AtomicBool::new(false);

/// The paper's controller where the link is faster than the paper's.
const RATE: &str = "accel:rate?r_cap=20Mbit/s";

/// A link of 12 Mbit/s: one full packet in each millisecond.
fn steady() -> TraceSource {
    let trace = Trace::from_opportunities_ms([1]).unwrap();
    TraceSource { name: "steady".to_owned(), down: Arc::new(trace), up: None, is_drawn: false }
}

fn contest(traces: Vec<TraceSource>, schemes: &[&str], buffer: &str, seconds: u64) -> Contest {
    let settings = Settings {
        length: Duration::from_secs(seconds),
        buffers: vec![buffer.parse().unwrap()],
        seeds: vec![7],
        threads: 2,
        parts: vec![Part::Bulk],
        late: Vec::new(),
        path: PathSettings::default(),
    };
    let traces = traces.into_iter().map(|trace| vec![trace]).collect();
    Contest { settings, traces, schemes: schemes.iter().map(|s| s.parse().unwrap()).collect() }
}

fn hold(contest: &Contest) -> (Vec<TraceFigures>, Vec<Run>) {
    let Document { traces, runs, .. } = contest.hold(&|_| {}, &NEVER).unwrap();
    let problems: Vec<&String> = runs.iter().flat_map(|run| &run.problems).collect();
    assert!(problems.is_empty(), "{problems:?}");
    (traces, runs)
}

#[test]
fn a_sender_below_the_links_rate_gets_its_share_and_no_queue() {
    let (traces, runs) = hold(&contest(vec![steady()], &["accel:fixed?rate=6Mbit/s"], "4MB", 10));
    // 9,999 opportunities before the tenth second ends.
    assert_eq!((traces[0].mean_mbps, traces[0].bdp_bytes), (11.9988, 59_994));
    assert!(traces[0].offset_p95_ms <= 1.0);
    // 40 ms of path and at most a millisecond's wait for the next opportunity.
    assert!((40.0..42.0).contains(&traces[0].idle_ping_ms.p50), "{:?}", traces[0]);
    let run = &runs[0];
    // Half the link, less the handshake, plus the ping.
    assert!((0.495..0.51).contains(&run.utilisation), "{}", run.utilisation);
    assert!(run.queue_ms.p95 < 2.5 && run.loss == 0.0, "{run:?}");
    assert!((40.0..50.0).contains(&run.ping_ms.p50), "{:?}", run.ping_ms);
    assert_eq!((run.ping_ms.count, run.pings_unanswered), (100, 0));
    // What the server sends beyond 6 Mbit/s waits in the accelerator.
    assert!(run.waiting.is_some_and(|w| w.mean_bytes > 100_000.0 && w.max_bytes <= 2_100_000), "{run:?}");
}

#[test]
fn a_sender_above_the_links_rate_fills_the_queue() {
    let scheme = "direct:fixed?rate=24Mbit/s&window=15MB";
    let (traces, runs) = hold(&contest(vec![steady()], &[scheme], "150 KB", 10));
    let run = &runs[0];
    assert!(run.utilisation > 0.98, "{}", run.utilisation);
    // 150 KB take 100 ms at 1,500 bytes a millisecond.
    assert!((98.0..102.0).contains(&run.queue_ms.p50) && run.queue_ms.max < 102.5, "{:?}", run.queue_ms);
    assert!((0.4..0.55).contains(&run.loss), "{}", run.loss);
    assert!((135.0..).contains(&run.ping_ms.p50), "{:?}", run.ping_ms);
    assert_eq!(run.waiting, None);
    // The whole run in bins, each as full as the link; half of the packets waited at most as long as the
    // median.
    let series = run.series.as_ref().unwrap();
    assert_eq!(
        (series.bin_ms, series.throughput_mbps.len(), traces[0].capacity_mbps.len()),
        (100.0, 100, 100)
    );
    assert!(series.throughput_mbps[5..].iter().all(|rate| (11.0..12.5).contains(rate)), "{series:?}");
    assert_eq!((run.queue_quantiles_ms.len(), run.queue_quantiles_ms[50]), (101, run.queue_ms.p50));
}

#[test]
fn nothing_depends_on_the_number_of_threads() {
    let trace =
        || vec![TraceSource::open("4g-lte-drive", Duration::ZERO, Duration::from_secs(5), 3).unwrap()];
    let schemes = ["direct:cubic", "split:bbr", "accel:rate", "accel:window-adaptation"];
    let one = contest(trace(), &schemes, "2bdp", 5);
    let mut other = one.clone();
    other.settings.threads = 7;
    let (first, second) = (hold(&one), hold(&other));
    assert_eq!(first, second);
    assert_eq!(first.1.len(), schemes.len());
    let hashes: std::collections::BTreeSet<&str> = first.1.iter().map(|run| run.log_hash.as_str()).collect();
    assert_eq!(hashes.len(), schemes.len(), "each scheme sends other packets");
}

#[test]
fn short_downloads_take_what_arithmetic_says() {
    let mut contest = contest(vec![steady()], &["direct:cubic", RATE], "4MB", 20);
    contest.settings.parts = vec![Part::Short];
    let document = contest.hold(&|_| {}, &NEVER).unwrap();
    assert_eq!((document.short.len(), document.runs.len()), (12, 0));
    for run in &document.short {
        assert!(run.problems.is_empty(), "{run:?}");
        assert_eq!((run.completion_ms.count, run.unfinished), (24, 0), "{run:?}");
        assert_eq!(run.bound_ms.count, 24);
        assert!(run.over_bound >= 0.999 && run.over_bound < 2.5, "nothing is sooner than possible: {run:?}");
        // Handshake and request take 80 ms, 12 Mbit/s carry 1.5 KB a millisecond.
        let least = 80.0 + run.size_bytes as f64 / 1_500.0;
        assert!(run.completion_ms.p50 >= least - 1.0 && run.completion_ms.p50 < least + 400.0, "{run:?}");
    }
    let time = |scheme: &str, client: &str| {
        let is_it =
            |run: &&ShortRun| run.scheme == scheme && run.client == client && run.size_bytes == 100_000;
        document.short.iter().find(is_it).unwrap().completion_ms.p50
    };
    // 100 KB without slow start's round trips of 40 ms.
    assert!(time(RATE, "known") <= time("direct:cubic", "known"));
    assert_eq!(time("direct:cubic", "known"), time("direct:cubic", "new"));
}

#[test]
fn four_flows_share_the_link() {
    let mut contest = contest(vec![steady()], &["direct:cubic", RATE], "2bdp", 12);
    contest.settings.parts = vec![Part::Mixed];
    let document = contest.hold(&|_| {}, &NEVER).unwrap();
    for run in &document.mixed {
        assert!(run.problems.is_empty(), "{run:?}");
        assert!(run.utilisation > 0.5 && run.fairness > 0.5, "{run:?}");
        let sum: f64 = run.bulk_mbps.iter().sum();
        assert!(sum < 12.0 && run.bulk_mbps.iter().all(|rate| *rate > 0.1), "{run:?}");
        assert!(run.piece_ms.count >= 2 && run.piece_ms.p50 > 333.0, "{run:?}");
        // 150 packets a second for ten seconds; 20 ms of path, and the queue towards the client only.
        assert_eq!(((1.0 - run.call_loss) * 1_500.0).round() as u64, run.call_ms.count, "{run:?}");
        assert!(run.call_ms.count > 750, "a full queue drops some of them: {run:?}");
        assert!(run.call_ms.p50 >= 20.0 && run.call_up_ms.p95 < 24.0 && run.call_up_loss == 0.0, "{run:?}");
    }
    assert_eq!(document.mixed.len(), 2);
}

/// The links are the same but for what a seed draws.
#[test]
fn seeds_draw_traces_and_losses_and_are_summarised() {
    let mut contest = contest(vec![steady()], &["direct:cubic"], "4MB", 5);
    contest.settings.seeds = vec![1, 2, 3];
    contest.settings.path.radio.loss =
        RadioSettings::losing("0.5 %".parse::<Quantity<Probability>>().unwrap().0);
    let document = contest.hold(&|_| {}, &NEVER).unwrap();
    assert_eq!((document.runs.len(), document.traces.len(), document.summaries.len()), (3, 1, 1));
    assert!(document.runs.iter().all(|run| (0.002..0.01).contains(&run.radio_loss)), "{:?}", document.runs);
    assert!(document.runs[0].log_hash != document.runs[1].log_hash);
    let of = document.summaries[0].utilisation;
    let mean = document.runs.iter().map(|run| run.utilisation).sum::<f64>() / 3.0;
    assert!((of.mean - mean).abs() < 1e-12 && of.ci95.unwrap() > 0.0, "{of:?}");
    let text = crate::tables(&document, 80);
    assert!(text.contains("±") && text.lines().all(|line| line.chars().count() <= 80), "{text}");

    contest.traces =
        vec![TraceSource::open_all("4g-lte", Duration::ZERO, Duration::from_secs(5), &[1, 2, 3]).unwrap()];
    let document = contest.hold(&|_| {}, &NEVER).unwrap();
    let means: Vec<f64> = document.traces.iter().map(|trace| trace.offset_p95_ms).collect();
    assert!(document.traces.len() == 3 && means[0] != means[1] && means[1] != means[2], "{means:?}");
}

#[test]
fn sixteen_downloads_share_the_link() {
    let mut contest = contest(vec![steady()], &["direct:cubic", "accel:adaptive"], "2bdp", 10);
    contest.settings.parts = vec![Part::Flows(16)];
    let document = contest.hold(&|_| {}, &NEVER).unwrap();
    assert_eq!(document.flows.len(), 2);
    for run in &document.flows {
        assert!(run.problems.is_empty() && run.flows == 16, "{run:?}");
        assert!(run.utilisation > 0.6 && (1.0 / 16.0..=1.0).contains(&run.fairness), "{run:?}");
        assert!(run.slowest_mbps <= run.fastest_mbps && run.fastest_mbps < 12.0, "{run:?}");
    }
}

/// The idle ping takes as long; what is inside the bins bunches what is sent, and keeps the capacity.
#[test]
fn slots_repairs_and_grants_are_inside_the_bins() {
    let mut contest = contest(vec![steady()], &["direct:fixed?rate=6Mbit/s&window=15MB"], "4MB", 10);
    let flat = contest.hold(&|_| {}, &NEVER).unwrap();
    contest.settings.path.radio.air = Air::Slots;
    let slots = contest.hold(&|_| {}, &NEVER).unwrap();
    let (idle, before) = (slots.traces[0].idle_ping_ms, flat.traces[0].idle_ping_ms);
    assert!((idle.p50 - before.p50).abs() < 4.0 && idle.p95 > before.p95 + 1.0, "{idle:?} {before:?}");
    let (run, before) = (&slots.runs[0], &flat.runs[0]);
    assert!(
        (run.utilisation - before.utilisation).abs() < 0.01,
        "{} {}",
        run.utilisation,
        before.utilisation
    );
    assert!(run.queue_ms.mean > before.queue_ms.mean && run.queue_ms.p95 < before.queue_ms.p95 + 3.0);
    assert!(run.problems.is_empty() && run.radio_loss < 1e-4, "{run:?}");
}

#[test]
fn an_interruption_leaves_what_was_finished() {
    let mut contest = contest(vec![steady()], &["direct:cubic", "direct:bbr", RATE], "4MB", 2);
    contest.settings.threads = 1;
    let (is_over, ended) = (AtomicBool::new(false), AtomicUsize::new(0));
    // After the idle ping and the first run.
    let progress = |_: &str| {
        if ended.fetch_add(1, Ordering::Relaxed) == 1 {
            is_over.store(true, Ordering::Relaxed);
        }
    };
    let document = contest.hold(&progress, &is_over).unwrap();
    assert_eq!(document.interrupted, Some(Interrupted { finished: 2, of: 4 }));
    assert_eq!((document.runs.len(), document.runs[0].scheme.as_str()), (1, "direct:cubic"));
    let told = "interrupted after 2 of 4 runs";
    assert!(crate::tables(&document, 80).contains(told) && crate::page(&document).contains(told));
}

#[test]
fn parts_and_mistakes() {
    assert_eq!("mixed".parse(), Ok(Part::Mixed));
    assert_eq!("flows=16".parse(), Ok(Part::Flows(16)));
    assert!("flows=1".parse::<Part>().is_err() && "flows=257".parse::<Part>().is_err());
    assert!("long".parse::<Part>().unwrap_err().to_string().contains("bulk, short, mixed, flows=N"));
}
