//! `cellerator metrics`: real values, and a server without any rights.

use std::collections::BTreeMap;
use std::fs;
use std::os::unix::fs::MetadataExt;
use std::process::{Command, Stdio};
use std::thread;
use std::time::Duration;

use io::SpawnOptions;

use crate::network::{Network, PATIENCE, PROGRAM, Running, wait_until};

const SIGKILL: i32 = 9;

/// `cellerator metrics` of a network's accelerator, and where it serves.
fn serve(network: &Network) -> (Running, String) {
    let running = Running::start(&network.middle, &["metrics", &network.name, "--listen", "127.0.0.1:0"]);
    let line = running.wait_for("metrics at http://");
    let at = line.trim_start_matches("metrics at http://").trim_end_matches("/metrics").to_owned();
    (running, at)
}

/// The value of the series that begins so.
fn value(text: &str, series: &str) -> f64 {
    let line = text.lines().find(|line| line.starts_with(series));
    line.and_then(|line| line.rsplit(' ').next()?.parse().ok())
        .unwrap_or_else(|| panic!("no {series} in {text}"))
}

fn server_of(running: &Running) -> u32 {
    let path = format!("/proc/{0}/task/{0}/children", running.child.id());
    fs::read_to_string(path).unwrap().trim().parse().expect("it has one child")
}

#[test]
fn an_address_that_is_not_this_machines_is_an_error_of_one_line() {
    let network = Network::build("elsewhere");
    let mut command = Command::new(PROGRAM);
    // RFC 5737: nobody has it.
    command.args(["metrics", "--listen", "192.0.2.1:9469"]).stdin(Stdio::null());
    command.stdout(Stdio::piped()).stderr(Stdio::piped());
    let child = network.middle.spawn(command, SpawnOptions::default()).unwrap();
    let output = child.wait_with_output().unwrap();
    let said = String::from_utf8(output.stderr).unwrap();
    assert_eq!(output.status.code(), Some(1), "{said}");
    assert!(said.contains("cannot listen at 192.0.2.1:9469") && said.lines().count() == 1, "{said}");
}

#[test]
fn a_download_shows_in_the_metrics() {
    const LEN: usize = 5_000_000;
    let network = Network::build("values");
    let accelerator = network.accelerate(&["--shards", "2"]);
    let (metrics, at) = serve(&network);
    network.download(LEN);
    let mut text = String::new();
    wait_until("all is delivered", || {
        text = network.get(&at, "text/plain");
        value(&text, "cellerator_goodput_bytes_total") >= LEN as f64
    });
    assert_eq!(value(&text, "cellerator_up"), 1.0);
    let mobile = format!(r#"cellerator_sent_bytes_total{{accelerator="{}",side="mobile"}}"#, network.name);
    let data = value(&text, "cellerator_data_bytes_total");
    // Headers of at least 52 bytes for segments of at most 1448.
    assert!(data >= LEN as f64 * 1_500.0 / 1_448.0 && value(&text, &mobile) >= data, "{text}");
    assert!(value(&text, "cellerator_data_packets_total") >= (LEN / 1_448) as f64);
    assert!(value(&text, "cellerator_flows_accelerated_total") >= 1.0);
    assert!(value(&text, "cellerator_round_trip_seconds_count") > 0.0);
    assert!(value(&text, "cellerator_packet_time_seconds_count") > 0.0);
    let waited = value(&text, "cellerator_scrape_wait_seconds");
    eprintln!("packets waited {:.1} µs for the answer", waited * 1e6);
    assert!(waited > 0.0);
    assert!(text.contains(r#"shard="1""#) && !text.contains("10.1.0.2"), "{text}");
    let open = network.get(&at, "application/openmetrics-text;version=1.0.0");
    assert!(open.ends_with("# EOF\n"), "{open}");
    // The way to be asked is gone with the accelerator: it is down, and the server goes on.
    accelerator.stop();
    wait_until("it is seen to be down", || value(&network.get(&at, ""), "cellerator_up") == 0.0);
    metrics.stop_all();
}

impl Running {
    /// Ends `cellerator metrics`, whose server ends with it.
    fn stop_all(self) {
        let server = server_of(&self);
        drop(self);
        wait_until("the server has ended", || !fs::exists(format!("/proc/{server}")).unwrap());
    }
}

#[test]
fn the_server_has_no_rights_and_its_death_is_nobodys_harm() {
    let network = Network::build("rights");
    let accelerator = network.accelerate(&[]);
    let (mut metrics, at) = serve(&network);
    let server = server_of(&metrics);
    let status = fs::read_to_string(format!("/proc/{server}/status")).unwrap();
    let field = |name: &str| {
        let line = status.lines().find(|line| line.starts_with(name)).unwrap();
        line.split_once(':').unwrap().1.split_whitespace().map(str::to_owned).collect::<Vec<_>>()
    };
    assert!(field("Uid").iter().chain(&field("Gid")).all(|id| id == "65534"), "{status}");
    assert!(field("Groups").is_empty() && field("CapEff") == ["0000000000000000"], "{status}");
    assert_eq!(field("CapPrm"), ["0000000000000000"], "{status}");
    assert_eq!(field("NoNewPrivs"), ["1"], "{status}");
    // What it knows is root's to look at: it cannot be dumped, nor traced by others of its user.
    let owner = |path: String| fs::metadata(path).unwrap().uid();
    assert_eq!(owner(format!("/proc/{server}/environ")), 0);
    let reader = fs::read_to_string(format!("/proc/{}/status", metrics.child.id())).unwrap();
    let rights = |name: &str| reader.lines().find(|line| line.starts_with(name)).unwrap().to_owned();
    assert_eq!(
        [rights("CapEff"), rights("CapBnd")],
        ["CapEff:\t0000000000000000", "CapBnd:\t0000000000000000"]
    );
    assert_eq!(rights("NoNewPrivs"), "NoNewPrivs:\t1");
    assert!(network.get(&at, "").contains("cellerator_up"));
    io::PidFd::open(server).unwrap().send_signal(SIGKILL).unwrap();
    assert!(!metrics.child.wait().unwrap().success(), "it says that its server has died");
    network.download(100_000);
    accelerator.stop();
}

#[test]
fn an_upgrade_shows_and_only_the_new_process_is_there() {
    let network = Network::build("upgrade");
    let mut old = network.accelerate(&[]);
    let (metrics, at) = serve(&network);
    assert_eq!(value(&network.get(&at, ""), "cellerator_hand_overs_total"), 0.0);
    let new = network.accelerate(&["--replace", &network.name]);
    wait_until("the upgrade is counted", || {
        let text = network.get(&at, "");
        let ups = text.lines().filter(|line| line.starts_with("cellerator_up{")).count();
        assert!(ups <= 1, "two of one name: {text}");
        text.contains("cellerator_hand_overs_total{") && value(&text, "cellerator_hand_overs_total") == 1.0
    });
    assert!(old.child.wait().unwrap().success());
    metrics.stop_all();
    new.stop();
}

/// Counters that begin at zero with the process that takes another one's place; all others go on. The page on metrics
/// says so.
const BEGUN_ANEW: [&str; 11] = [
    "cellerator_flows_opened_total",
    "cellerator_data_packets_total",
    "cellerator_data_bytes_total",
    "cellerator_received_packets_total",
    "cellerator_received_bytes_total",
    "cellerator_sent_packets_total",
    "cellerator_sent_bytes_total",
    "cellerator_round_trip_seconds_count",
    "cellerator_queueing_delay_seconds_count",
    "cellerator_packet_time_seconds_count",
    "cellerator_shard_packets_total",
];

/// Of those, ones that may be zero before: nothing was lost, or nobody has asked yet.
const MAYBE_BEGUN_ANEW: [&str; 6] = [
    "cellerator_flows_ended_total",
    "cellerator_retransmitted_packets_total",
    "cellerator_retransmitted_bytes_total",
    "cellerator_duplicates_reported_total",
    "cellerator_answers_total",
    "cellerator_answering_seconds_total",
];

/// Sums of all counters over their labels.
fn counters(text: &str) -> BTreeMap<String, f64> {
    let mut sums = BTreeMap::new();
    for line in text.lines().filter(|line| !line.starts_with('#')) {
        let name = line.split(['{', ' ']).next().unwrap();
        if name.ends_with("_total") || name.ends_with("_count") {
            *sums.entry(name.to_owned()).or_default() +=
                line.rsplit(' ').next().unwrap().parse::<f64>().unwrap();
        }
    }
    sums
}

#[test]
fn at_an_upgrade_counters_go_on_but_for_those_of_which_the_page_says_otherwise() {
    let network = Network::build("counters");
    let mut old = network.accelerate(&[]);
    let (metrics, at) = serve(&network);
    network.download(5_000_000);
    let mut text = network.get(&at, "");
    wait_until("the download is over", || {
        // An answer is given again for half a second: two alike say that nothing is under way.
        let before = std::mem::replace(&mut text, network.get(&at, ""));
        thread::park_timeout(Duration::from_millis(600));
        value(&text, "cellerator_goodput_bytes_total") >= 5e6
            && value(&text, "cellerator_received_packets_total")
                == value(&before, "cellerator_received_packets_total")
    });
    let before = counters(&text);
    let new = network.accelerate(&["--replace", &network.name]);
    assert!(old.child.wait().unwrap().success());
    wait_until("the new process is asked", || {
        text = network.get(&at, "");
        text.contains("cellerator_hand_overs_total{") && value(&text, "cellerator_hand_overs_total") == 1.0
    });
    let after = counters(&text);
    let has_fallen = |(name, old): &(&String, &f64)| after[*name] < **old;
    let fallen = before.iter().filter(has_fallen).map(|(name, _)| name.as_str());
    let begun_anew: Vec<&str> = fallen.filter(|name| !MAYBE_BEGUN_ANEW.contains(name)).collect();
    let mut expected = BEGUN_ANEW;
    expected.sort_unstable();
    assert_eq!(begun_anew, expected, "{before:?} {after:?}");
    metrics.stop_all();
    new.stop();
}

/// A Prometheus as Debian has it, with the rules that are shipped.
#[test]
#[ignore = "needs Debian's package prometheus: make prometheus"]
fn prometheus_scrapes_it() {
    let network = Network::build("prometheus");
    let accelerator = network.accelerate(&[]);
    let (metrics, at) = serve(&network);
    let directory = tempfile::tempdir().unwrap();
    let root = concat!(env!("CARGO_MANIFEST_DIR"), "/../../contrib/prometheus");
    let settings = fs::read_to_string(format!("{root}/prometheus.yml")).unwrap();
    let settings = settings
        .replace("127.0.0.1:9469", &at)
        .replace("15s", "1s")
        .replace("cellerator.rules.yml", &format!("{root}/cellerator.rules.yml"));
    let file = directory.path().join("prometheus.yml");
    fs::write(&file, settings).unwrap();
    let mut command = Command::new("prometheus");
    command.arg(format!("--config.file={}", file.display()));
    command.arg(format!("--storage.tsdb.path={}", directory.path().join("data").display()));
    command.args(["--web.listen-address=127.0.0.1:9090", "--log.level=error"]);
    let options = io::SpawnOptions { death_signal: Some(SIGKILL), ..io::SpawnOptions::default() };
    let mut prometheus =
        network.middle.spawn(command, options).expect("tools/install-deps --optional prometheus");
    network.download(1_000_000);
    let query = |query: &str| {
        let mut command = Command::new("curl");
        command.args(["--silent", "--max-time", "5", "--get", "http://127.0.0.1:9090/api/v1/query"]);
        command.args(["--data-urlencode", &format!("query={query}")]).stdout(std::process::Stdio::piped());
        let output = network.middle.spawn(command, io::SpawnOptions::default()).unwrap().wait_with_output();
        serde_json::from_slice::<serde_json::Value>(&output.unwrap().stdout).unwrap_or_default()
    };
    let has = |answer: &serde_json::Value, wanted: f64| {
        let value =
            answer["data"]["result"][0]["value"][1].as_str().and_then(|value| value.parse::<f64>().ok());
        value.is_some_and(|value| value >= wanted)
    };
    wait_until("Prometheus has the download", || has(&query("cellerator_goodput_bytes_total"), 1e6));
    assert!(has(&query("up"), 1.0) && has(&query("cellerator_up"), 1.0), "{PATIENCE:?}");
    wait_until("it has recorded by the rules", || has(&query("cellerator:goodput_bits:rate5m"), 0.0));
    let metadata = query("count({__name__=~\"cellerator_.*\"})");
    let series: f64 = metadata["data"]["result"][0]["value"][1].as_str().unwrap().parse().unwrap();
    assert!((100.0..300.0).contains(&series), "{series} series");
    prometheus.kill().unwrap();
    prometheus.wait().unwrap();
    metrics.stop_all();
    accelerator.stop();
}
