//! `cellerator lab` as a user runs it. Needs root: every test makes network namespaces of its own.
//!
//! The tests look at order, hashes and bounds, never at exact times.

mod program;

use std::fs;

use program::{Found, Lab, cellerator, leftovers, processes_in, processes_with, start_telling, wait_until};

use crate::schema;

const DELAY_ONLY: &str = "name = \"t\"\nradio.down.delay = \"10 ms\"\nradio.up.delay = \"10 ms\"\n";

#[test]
fn delay_is_never_early() {
    let lab = Lab::new("early", DELAY_ONLY);
    let said = lab.up(&["ping", "-n", "-c", "50", "-i", "0.01", "10.2.0.1"]);
    let round_trips: Vec<f64> = said
        .lines()
        .filter_map(|line| line.split_once("time=")?.1.split_whitespace().next()?.parse().ok())
        .collect();
    assert_eq!(round_trips.len(), 50, "{said}");
    assert!(round_trips.iter().all(|ms| *ms >= 20.0), "{round_trips:?}");
}

#[test]
fn transfers_arrive_whole_and_results_follow_the_schema() {
    let lab = Lab::new(
        "whole",
        r#"
name = "t"
time_limit = "30 s"
wan = { delay = "2 ms", rate = "200 Mbit/s" }
radio.down = { rate = "20 Mbit/s", delay = "5 ms", queue = "40 packets", loss = "0.5 %" }
radio.up = { rate = "20 Mbit/s", delay = "5 ms", slots = "4 ms" }
workload = { size = "600 KB", ping = "20 ms" }
[[case]]
name = "download"
[[case]]
name = "IPv6, three flows"
workload = { family = "ipv6", flows = 3, stagger = "50 ms" }
[[case]]
name = "upload"
workload = { kind = "upload", flows = 2 }
[[case]]
name = "small window"
client.window = "17 KB"
client.expected_window = { min = "16.5 KB", max = "18.5 KB" }
workload.size = "60 KB"
[[case]]
name = "empty file"
workload.size = "0 B"
"#,
    );
    let results = lab.run();
    schema::check(&results);
    let cases = results["scenarios"][0]["cases"].as_array().unwrap();
    assert_eq!(cases.len(), 5);
    for case in cases {
        let figures = &case["figures"];
        assert!(case["problems"].is_null(), "{case}");
        assert_eq!(figures["transfer"]["hashes_equal"], true, "{case}");
        assert_eq!(figures["transfer"]["received_bytes"], figures["transfer"]["expected_bytes"]);
    }
    let figures = |i: usize| &cases[i]["figures"];
    assert!(figures(0)["radio"]["utilisation"].as_f64().unwrap() <= 1.0);
    assert!(figures(0)["ping_ms"]["min"].as_f64().unwrap() >= 14.0);
    assert_eq!(figures(1)["transfer"]["flows"].as_array().unwrap().len(), 3);
    // Half a percent of 1,200 segments is six.
    assert!(figures(1)["radio"]["dropped_loss"].as_u64().unwrap() > 0);
    let resent = &figures(1)["retransmissions"];
    assert!(resent["by_sender"].as_u64().unwrap() >= resent["over_radio"].as_u64().unwrap(), "{resent}");
}

#[test]
fn datagrams_are_acknowledged_and_a_shaped_server_writes_no_faster() {
    let lab = Lab::new(
        "datagrams",
        r#"
name = "t"
time_limit = "60 s"
radio.down = { rate = "20 Mbit/s", delay = "10 ms", queue = "400 packets" }
radio.up = { rate = "20 Mbit/s", delay = "10 ms" }
[[case]]
name = "datagrams"
workload = { kind = "udp", write_rate = "2 Mbit/s", length = "2 s" }
[[case]]
name = "more than the link carries"
workload = { kind = "udp", write_rate = "40 Mbit/s", length = "2 s" }
[[case]]
name = "shaped"
workload = { write_rate = "2 Mbit/s", size = "500 KB" }
[[case]]
name = "hosts of 2007"
workload = { size = "60 KB" }
client = { sack = false, timestamps = false }
[[case]]
name = "a program that reads late"
workload = { size = "400 KB" }
client = { window = "17 KB", reads_after = "50 ms" }
"#,
    );
    let results = lab.run();
    schema::check(&results);
    let cases = results["scenarios"][0]["cases"].as_array().unwrap();
    let figures = |i: usize| &cases[i]["figures"];
    assert!(cases.iter().all(|case| case["problems"].is_null()), "{cases:?}");
    let udp = &figures(0)["udp"];
    // Two seconds of 2 Mbit/s in pieces of 1472 bytes, rounded up.
    assert_eq!(udp["sent"], 340);
    assert_eq!(udp["received"], 340);
    assert!(udp["rtt_ms"]["min"].as_f64().unwrap() >= 20.0);
    assert_eq!(figures(0)["transfer"]["hashes_equal"], true);
    let lost = figures(1)["udp"]["loss"].as_f64().unwrap();
    assert!((0.2..0.7).contains(&lost), "twice what the link carries: {lost}");
    // 500 KB at 2 Mbit/s take two seconds; the first piece goes at once.
    assert!(figures(2)["transfer"]["seconds"].as_f64().unwrap() >= 1.9);
    assert_eq!(figures(2)["transfer"]["hashes_equal"], true);
    // A hundred pieces of four segments each, not a segment for each byte that the rate allows.
    assert!(figures(2)["retransmissions"]["segments"].as_u64().unwrap() <= 500, "{}", figures(2));
    // Each time it reads it takes a window at most.
    assert!(figures(4)["transfer"]["seconds"].as_f64().unwrap() >= 1.0);
    assert_eq!(figures(4)["transfer"]["hashes_equal"], true);
}

#[test]
fn what_goes_on_beside_a_download_shares_its_link() {
    let lab = Lab::new(
        "beside",
        r#"
name = "t"
time_limit = "4 s"
wan.delay = "5 ms"
radio.down = { rate = "20 Mbit/s", delay = "5 ms", queue = "200 KB" }
radio.up = { rate = "10 Mbit/s", delay = "5 ms", queue = "100 KB" }
accelerator.enabled = true
[workload]
size = "40 MB"
ends_at_limit = true
ping = "100 ms"
beside = [
  { kind = "download", congestion_control = "reno", start = "1 s", stop = "3 s" },
  { kind = "quic", flows = 2, start = "1 s" },
  { kind = "quic", congestion_control = "bbr", start = "1 s" },
  { kind = "upload", start = "1 s" },
  { kind = "call", rate = "500 kbit/s" },
  { kind = "pages", size = "60 KB", flows = 3, every = "1 s" },
]
"#,
    );
    let results = lab.run();
    schema::check(&results);
    let case = &results["scenarios"][0]["cases"][0];
    assert!(case["problems"].is_null(), "{}", case["problems"]);
    let command = case["accelerator_command"].as_str().unwrap();
    assert!(command.contains("--rule 'pass port 443'") && !command.contains("444"), "{command}");
    let beside = case["figures"]["beside"].as_array().unwrap();
    let kinds: Vec<&str> = beside.iter().map(|one| one["kind"].as_str().unwrap()).collect();
    assert_eq!(kinds, ["download", "quic", "quic", "quic", "upload", "call", "pages"]);
    let number =
        |of: &serde_json::Value, key: &str| of[key].as_f64().unwrap_or_else(|| panic!("{key}: {of}"));
    for one in beside {
        assert!(number(one, "goodput_mbps") > 0.05, "{one}");
        assert!(number(one, "own_mbps") > 0.05, "{one}");
    }
    // The link carries no more than it can.
    let down: f64 = beside[..4].iter().chain(&beside[5..]).map(|one| number(one, "received_bytes")).sum();
    assert!(down < 20e6 / 8.0 * 4.5, "{down}");
    let (from, to) = (number(&beside[0], "start_s"), number(&beside[0], "end_s"));
    assert!((0.5..1.5).contains(&from) && (1.9..2.1).contains(&(to - from)), "{from} to {to}");
    assert!(
        number(&beside[5]["delay_ms"], "min") >= 10.0 && number(&beside[5]["delay_up_ms"], "min") >= 10.0
    );
    assert!(number(&beside[6]["response_ms"], "count") >= 1.0, "{}", beside[6]);
    assert!(number(&case["figures"]["ping_ms"], "min") >= 20.0);
}

#[test]
fn an_interrupted_lab_leaves_nothing() {
    for signal in ["-INT", "-TERM"] {
        let lab = Lab::new("interrupted", DELAY_ONLY);
        let mut running = lab.start(&["lab", "up", lab.scenario(), "--name", lab.name()]);
        wait_until("the lab is listed", || cellerator(&["lab", "list"]).contains(lab.name()));
        // A command that somebody else has started in it does not stay either.
        let asleep = format!("10{}", lab.name().len() + running.pid() as usize);
        let mut inside = lab.start(&["lab", "exec", "server", "--name", lab.name(), "--", "sleep", &asleep]);
        wait_until("the command runs", || {
            processes_with(&format!("sleep\0{asleep}")).iter().any(|line| line.starts_with("sleep"))
        });
        running.signal(signal);
        assert!(running.wait().success());
        assert_eq!(inside.wait().code(), Some(143));
        assert_eq!(leftovers(lab.name()), Vec::<String>::new());
    }
}

#[test]
fn an_interrupted_run_writes_what_was_finished_and_leaves_nothing() {
    let cases = "[[case]]\nname = \"short\"\nworkload.size = \"10 KB\"\n\
                 [[case]]\nname = \"long\"\nradio.down.rate = \"100 kbit/s\"\nworkload.size = \"10 MB\"\n";
    let lab = Lab::new("unfinished", &format!("{DELAY_ONLY}{cases}"));
    let path = |name: &str| std::path::Path::new(lab.scenario()).with_file_name(name);
    let (json, told) = (path("results.json"), path("told"));
    let arguments = ["lab", "run", lab.scenario(), "--name", lab.name(), "--json", json.to_str().unwrap()];
    let mut running = start_telling(&arguments, &told);
    wait_until("the second case runs", || fs::read_to_string(&told).unwrap().contains("[2/2] long"));
    running.signal("-INT");
    assert_eq!(running.wait().code(), Some(130));
    let results: serde_json::Value = serde_json::from_str(&fs::read_to_string(&json).unwrap()).unwrap();
    schema::check(&results);
    assert_eq!(results["interrupted"], serde_json::json!({ "finished": 1, "of": 2 }));
    let case = &results["scenarios"][0]["cases"][0];
    assert_eq!(
        (&case["name"], &case["figures"]["transfer"]["hashes_equal"]),
        (&"short".into(), &true.into())
    );
    let told = fs::read_to_string(&told).unwrap();
    assert!(told.contains("interrupted after 1 of 2 runs; what was finished is in"), "{told}");
    assert_eq!(leftovers(lab.name()), [""; 0]);
}

#[test]
fn the_sender_has_cubic_whatever_the_host_is_set_to() {
    // A new namespace takes over the setting of the first one: the route has to say it.
    let lab = Lab::new("cubic", DELAY_ONLY);
    let routes = cellerator(&[
        "lab",
        "up",
        lab.scenario(),
        "--name",
        lab.name(),
        "--on",
        "server",
        "--",
        "ip",
        "route",
        "show",
        "default",
    ]);
    assert!(routes.contains("congctl cubic"), "{routes}");
}

#[test]
fn a_killed_transfer_leaves_no_process_and_the_next_start_cleans_up() {
    let slow = format!("{DELAY_ONLY}radio.down.rate = \"100 kbit/s\"\nworkload.size = \"10 MB\"\n");
    let lab = Lab::new("killed", &slow.replace("radio.down.delay", "radio.down.jitter"));
    let mut running = lab.start(&["lab", "run", lab.scenario(), "--name", lab.name()]);
    let directory = format!("lab-{}/nginx.conf", running.pid());
    wait_until("nginx serves", || !processes_with(&directory).is_empty());
    running.signal("-KILL");
    running.wait();
    wait_until("nginx is gone", || processes_with(&directory).is_empty());
    let is_named = |line: &str| line.starts_with(lab.name()) && line.contains("left behind");
    // The start of another test may have removed it.
    wait_until("what it left is named, or gone", || {
        cellerator(&["lab", "list"]).lines().any(is_named) || leftovers(lab.name()).is_empty()
    });
    cellerator(&["lab", "clean"]);
    // Any start of a lab cleans up, and this one passes over what the start of another test is just removing.
    wait_until("what it left is gone", || leftovers(lab.name()).is_empty());
}

/// An accelerator that dies while it owes data has a successor, which its watchdog has started and which is nobody's
/// child.
#[test]
fn the_successor_of_a_killed_accelerator_ends_with_the_lab() {
    let slow = format!("{DELAY_ONLY}radio.down.rate = \"100 kbit/s\"\nworkload.size = \"10 MB\"\n");
    for signal in ["-INT", "-TERM", "-KILL"] {
        let lab = Lab::new("heirs", &format!("{slow}accelerator.enabled = true\n"));
        let mut running = lab.start(&["lab", "run", lab.scenario(), "--name", lab.name()]);
        let namespace = format!("cellab-{}-accelerator", lab.name());
        wait_until("the accelerator owes data", || {
            let accelerator = processes_in(&namespace).into_iter().find(|found| found.has("run\0--wired"));
            let status = accelerator.map(|found| cellerator(&["status", "--json", &found.pid().to_string()]));
            let status = serde_json::from_str::<serde_json::Value>(&status.unwrap_or_default());
            status.is_ok_and(|status| status["debt_bytes"].as_u64().is_some_and(|debt| debt > 50_000))
        });
        let first = processes_in(&namespace);
        let accelerator = first.iter().find(|found| found.has("run\0--wired")).unwrap();
        // So that it does not notice.
        running.signal("-STOP");
        accelerator.kill();
        wait_until("a successor goes on", || {
            let now = processes_in(&namespace);
            now.iter().any(|found| found.has("--recover")) && now.iter().any(|found| found.has("--watchdog"))
        });
        let heirs = processes_in(&namespace);
        running.signal(signal);
        running.signal("-CONT");
        running.wait();
        let all = || first.iter().chain(&heirs);
        if signal == "-KILL" {
            wait_until("all have ended", || !all().any(Found::is_alive));
            cellerator(&["lab", "clean"]);
        }
        assert_eq!(
            all().filter(|found| found.is_alive()).count(),
            0,
            "{signal}: {:?}",
            all().collect::<Vec<_>>()
        );
        wait_until("what it left is gone", || signal != "-KILL" || leftovers(lab.name()).is_empty());
        assert_eq!(leftovers(lab.name()), [""; 0]);
        for found in all() {
            assert!(!found.directory().exists(), "{signal}: {found:?}");
        }
    }
}

#[test]
fn labs_run_side_by_side() {
    let (one, two) = (Lab::new("one", DELAY_ONLY), Lab::new("two", DELAY_ONLY));
    let mut running = [&one, &two].map(|lab| lab.start(&["lab", "up", lab.scenario(), "--name", lab.name()]));
    for lab in [&one, &two] {
        wait_until("the lab is listed", || cellerator(&["lab", "list"]).contains(lab.name()));
        let exec = |command: &[&str]| {
            let arguments = ["lab", "exec", "client", "--name", lab.name(), "--"];
            cellerator(&[&arguments, command].concat())
        };
        wait_until("packets move", || {
            exec(&["ping", "-n", "-c", "1", "-W", "1", "10.1.0.2"]).contains("1 received")
        });
        assert!(exec(&["cat", "/proc/sys/net/ipv4/tcp_no_metrics_save"]).starts_with('1'));
    }
    let ambiguous = cellerator(&["lab", "exec", "client", "--", "true"]);
    assert!(ambiguous.contains("--name") && ambiguous.contains(one.name()), "{ambiguous}");
    for running in &mut running {
        running.signal("-INT");
        assert!(running.wait().success());
    }
}

#[test]
fn a_wrong_scenario_is_one_clear_message() {
    let lab = Lab::new("wrong", "name = \"t\"\nradio.down.rate = \"5 Mbps\"\n");
    let said = cellerator(&["lab", "run", lab.scenario()]);
    assert!(said.contains(":2: `5 Mbps` is not a rate: unknown unit"), "{said}");
    let said = cellerator(&["lab", "up", "--preset", "6g"]);
    assert!(said.contains("unknown preset `6g`, expected one of `3g-hspa`"), "{said}");
}

/// Experiments that have ended are kept, the one that was interrupted or killed is run again; its
/// result has the paper's value, what was simulated and what the lab gave.
#[test]
fn a_reproduction_goes_on_where_it_was_stopped() {
    let folder = tempfile::tempdir().unwrap();
    let folder = folder.path();
    let path = |name: &str| folder.join(name).to_str().unwrap().to_owned();
    for paper in ["ma", "dr"] {
        fs::create_dir_all(folder.join("own").join(paper)).unwrap();
    }
    let figure_2 = include_str!("../../../experiments/ma/figure-2-lab.toml").replace("\"6 MB\"", "\"60 KB\"");
    fs::write(path("own/ma/figure-2-lab.toml"), figure_2).unwrap();
    let text = include_str!("../../../experiments/dr/figure-20-lab.toml");
    let (head, _) = text.split_once("[[case]]").unwrap();
    let cases = "[[case]]\nname = \"8000 kbit/s\"\nworkload.write_rate = \"8000 kbit/s\"\n[[case]]\nname = \"unshaped\"\n";
    let figure_20 = |first: &str, second: &str| {
        // The second case goes on for as long as it takes to be stopped.
        let limit = |text: &str, limit: &str| {
            text.replace("time_limit = \"12 s\"", &format!("time_limit = \"{limit}\""))
        };
        let size = format!("size = \"{second}\"");
        limit(head, "60 s").replace("size = \"20 MB\"", &size)
            + &cases.replace(
                "\n[[case]]\nname = \"unshaped\"",
                &format!("\nworkload.size = \"{first}\"\n[[case]]\nname = \"unshaped\""),
            )
    };
    fs::write(path("own/dr/figure-20-lab.toml"), figure_20("20 KB", "40 MB")).unwrap();
    let (out, own, told) = (path("out"), path("own"), folder.join("told"));
    let arguments = [
        "reproduce",
        "ma-figure-2",
        "dr-figure-20",
        "--lab",
        "--out",
        &out,
        "--experiments",
        &own,
        "--resume",
    ];
    for (signal, attempt) in [("-INT", 1), ("-KILL", 2)] {
        let mut running = start_telling(&arguments, &told);
        let so_far = || fs::read_to_string(&told).unwrap();
        wait_until("the second experiment is in its second run", || so_far().contains("1 of 2 runs"));
        running.signal(signal);
        assert!(!running.wait().success());
        assert_eq!(so_far().contains("ma-figure-2 is there already"), attempt > 1, "{}", so_far());
        if signal == "-INT" {
            let line = "interrupted after 1 of 2 experiments, in dr-figure-20; --resume goes on";
            assert!(so_far().contains(line), "{}", so_far());
            assert_eq!(leftovers(&format!("cellab-{}-", running.pid())), [""; 0]);
        }
    }
    fs::write(path("own/dr/figure-20-lab.toml"), figure_20("20 KB", "40 KB")).unwrap();
    let said = cellerator(&arguments);
    assert!(said.contains("ma-figure-2 is there already"), "{said}");
    let again = cellerator(&arguments);
    assert!(again.contains("dr-figure-20 is there already"), "{again}");
    for name in ["ma-figure-2", "dr-figure-20"] {
        let stored = fs::read_to_string(path(&format!("out/{name}.lab.json"))).unwrap();
        let document: serde_json::Value = serde_json::from_str(&stored).unwrap();
        schema::check_against(&document, include_str!("../../../schemas/reproduction.schema.json"));
        assert!(
            document["runs"].as_array().unwrap().iter().all(|run| run["late_p99_us"].is_number()),
            "{stored}"
        );
    }
    let page = fs::read_to_string(path("out/reproduction-lab.md")).unwrap();
    for part in [
        "| goodput, paper, Mbit/s | goodput, simulated, Mbit/s | goodput, kernel, Mbit/s |",
        "late p50, µs",
        "(seed 1)",
    ] {
        assert!(page.contains(part), "{part}: {page}");
    }
}
