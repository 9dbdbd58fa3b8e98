//! Runs that are looked at, and hosts of other times.

use scenario::Scenario;
use sim::{CaseOutcome, CaseRun, LogMode, LoggedPacket, Sample, Watcher};
use units::{Bytes, Duration};

const LINK: &str = r#"
name = "watched"
time_limit = "20 s"
wan.delay = "10 ms"
wan.rate = "100 Mbit/s"
server.congestion_control = "reno"
workload.size = "4 MB"
[radio.down]
rate = "8 Mbit/s"
delay = "20 ms"
queue = "400 KB"
[radio.up]
delay = "20 ms"
"#;

/// Runs `LINK` with `more`, before `watcher`.
fn run(more: &str, watcher: Option<&mut Notes>) -> CaseOutcome {
    let scenario = Scenario::from_toml("watched", &format!("{LINK}{more}")).unwrap();
    let case = scenario.resolved().remove(0);
    let plan = case.links(scenario.seed, &mut |_| Err(String::new())).unwrap();
    let run = CaseRun::new(&case, &plan, None, (scenario.seed, scenario.time_limit.0), LogMode::Hash);
    let outcome = match watcher {
        Some(watcher) => run.watch(watcher).unwrap(),
        None => run.run(&mut |_| {}).unwrap(),
    };
    assert!(outcome.problems.is_empty(), "{:?}", outcome.problems);
    outcome
}

#[derive(Default)]
struct Notes {
    packets: Vec<LoggedPacket>,
    samples: Vec<Sample>,
    received: Bytes,
}

impl Watcher for Notes {
    fn on_progress(&mut self, received: Bytes) {
        self.received = received;
    }
    fn wants_packets(&self) -> bool {
        true
    }
    fn on_packet(&mut self, packet: &LoggedPacket) {
        self.packets.push(packet.clone());
    }
    fn every(&self) -> Option<Duration> {
        Some(Duration::from_millis(10))
    }
    fn on_sample(&mut self, sample: &Sample) {
        self.samples.push(*sample);
    }
}

#[test]
fn looking_on_changes_nothing_and_shows_everything() {
    let mut notes = Notes::default();
    let plain = run("", None);
    let watched = run("", Some(&mut notes));
    assert_eq!(plain.simulation.log_hash, watched.simulation.log_hash);
    assert!(notes.packets.windows(2).all(|pair| pair[0].at <= pair[1].at));
    let sent =
        notes.packets.iter().filter(|p| p.point == sim::TapPoint::ServerOut && p.wire_len == 1_500).count();
    assert_eq!(sent as u64, watched.figures.retransmissions.segments - 1, "all but the last are full");
    assert!(
        notes
            .samples
            .windows(2)
            .all(|pair| pair[1].at.saturating_since(pair[0].at) == Duration::from_millis(10))
    );
    let queue = notes.samples.iter().map(|s| s.queue_bytes).max().unwrap();
    assert!(queue > Bytes::new(300_000) && queue <= Bytes::new(400_000), "{queue}");
    let window = notes.samples.iter().filter_map(|s| s.window).max().unwrap();
    assert!(window > Bytes::new(440_000), "{window}");
    assert!(notes.samples.iter().all(|s| s.accelerator.is_none()));
    assert!(notes.received > Bytes::new(3_000_000));
}

#[test]
fn a_dynamic_receive_window_keeps_the_queue_short() {
    let case = "[[case]]\nname = \"x\"\nclient.tcp_rmem = \"4096 131072 6291456\"\n";
    let large = run(case, None);
    for variant in ["paper", "additions"] {
        let own = run(&format!("{case}client.drwa = \"{variant}\"\n"), None);
        let (long, short) = (large.figures.radio.queue_delay_ms.p95, own.figures.radio.queue_delay_ms.p95);
        // λ = 3: two round trips of 60 ms wait, besides the segments of a delayed acknowledgement.
        assert!(long > 300.0 && short < 190.0, "{variant}: {long} {short}");
        let rates = (large.figures.transfer.goodput_mbps, own.figures.transfer.goodput_mbps);
        assert!(rates.1 > 0.9 * rates.0, "{variant}: {rates:?}");
    }
}

#[test]
fn hosts_without_sack_and_timestamps_repair_a_burst_slowly_but_wholly() {
    let small = "radio.down.queue = \"30 packets\"\n";
    let today = run(&small.replace("radio.down.queue", "[[case]]\nname = \"x\"\nradio.down.queue"), None);
    let old = "[[case]]\nname = \"x\"\nclient.sack = false\nclient.timestamps = false\n";
    let old = run(&format!("{old}{small}"), None);
    let goodput = |outcome: &CaseOutcome| outcome.figures.transfer.goodput_mbps;
    assert!(old.figures.transfer.hashes_equal && goodput(&old) > 0.2 * goodput(&today));
    assert!(goodput(&old) < goodput(&today), "{} {}", goodput(&old), goodput(&today));
}
