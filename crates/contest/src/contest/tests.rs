use std::sync::Arc;

use link::Trace;

use super::*;

/// The paper's controller where the link is faster than the paper's.
const RATE: &str = "accel:rate?r_cap=20Mbit/s";

/// A link of 12 Mbit/s: one full packet in each millisecond.
fn steady() -> TraceSource {
    let trace = Trace::from_opportunities_ms([1]).unwrap();
    TraceSource { name: "steady".to_owned(), down: Arc::new(trace), up: None }
}

fn contest(traces: Vec<TraceSource>, schemes: &[&str], buffer: &str, seconds: u64) -> Contest {
    let settings = Settings {
        length: Duration::from_secs(seconds),
        buffers: vec![buffer.parse().unwrap()],
        seed: 7,
        threads: 2,
        parts: vec![Part::Bulk],
        late: Vec::new(),
        path: PathSettings::default(),
    };
    Contest { settings, traces, schemes: schemes.iter().map(|s| s.parse().unwrap()).collect() }
}

fn hold(contest: &Contest) -> (Vec<TraceFigures>, Vec<Run>) {
    let Document { traces, runs, .. } = contest.hold(&|_| {}).unwrap();
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
    let (_, runs) = hold(&contest(vec![steady()], &[scheme], "150 KB", 10));
    let run = &runs[0];
    assert!(run.utilisation > 0.98, "{}", run.utilisation);
    // 150 KB take 100 ms at 1,500 bytes a millisecond.
    assert!((98.0..102.0).contains(&run.queue_ms.p50) && run.queue_ms.max < 102.5, "{:?}", run.queue_ms);
    assert!((0.4..0.55).contains(&run.loss), "{}", run.loss);
    assert!((135.0..).contains(&run.ping_ms.p50), "{:?}", run.ping_ms);
    assert_eq!(run.waiting, None);
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
    let document = contest.hold(&|_| {}).unwrap();
    assert_eq!((document.short.len(), document.runs.len()), (12, 0));
    for run in &document.short {
        assert!(run.problems.is_empty(), "{run:?}");
        assert_eq!((run.completion_ms.count, run.unfinished), (24, 0), "{run:?}");
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
    let document = contest.hold(&|_| {}).unwrap();
    for run in &document.mixed {
        assert!(run.problems.is_empty(), "{run:?}");
        assert!(run.utilisation > 0.5 && run.fairness > 0.5, "{run:?}");
        let sum: f64 = run.bulk_mbps.iter().sum();
        assert!(sum < 12.0 && run.bulk_mbps.iter().all(|rate| *rate > 0.1), "{run:?}");
        assert!(run.piece_ms.count >= 2 && run.piece_ms.p50 > 333.0, "{run:?}");
    }
    assert_eq!(document.mixed.len(), 2);
}

#[test]
fn parts_and_mistakes() {
    assert_eq!("mixed".parse(), Ok(Part::Mixed));
    assert!("long".parse::<Part>().unwrap_err().to_string().contains("bulk, short, mixed"));
}
