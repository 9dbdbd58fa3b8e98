use std::collections::{BTreeMap, BTreeSet};
use std::io::Write;
use std::process::{Command, Stdio};

use engine::{Engine, EngineConfig, Policy};
use run::{EngineMeters, RecoveryStatus};

use super::*;

/// Most series of an instance with eight shards.
const SERIES_MAX: usize = 300;

/// A snapshot with everything in it that there can be: both directions, reports, a bypass, eight shards.
fn full() -> Snapshot {
    let policy = Policy { default: engine::Action::Both, ..Policy::default() };
    let engine = Engine::new(EngineConfig { policy, ..EngineConfig::default() }).unwrap();
    let mut snapshot = Snapshot::of_engines(&vec![EngineMeters::of(&engine); 8]);
    snapshot.name = "radio".to_owned();
    snapshot.version = "1.2.3".to_owned();
    snapshot.steering = "tcx".to_owned();
    snapshot.resident_bytes = 7 << 20;
    snapshot.feedback_age_ms = Some(1_500);
    snapshot.recovery = RecoveryStatus { is_ready: true, deaths: 2, ..RecoveryStatus::default() };
    let others = ["kernel_refusals", "bypass_flows", "bypass_flows_ended", "bypass_packets"];
    let reports = REPORTS.iter().map(|(counter, _)| *counter);
    snapshot.others = others.into_iter().chain(reports).map(|name| (name.to_owned(), 3)).collect();
    snapshot.passed_bytes = [("unknown".to_owned(), 5), ("mptcp".to_owned(), 6)].into();
    for half in [Some(&mut snapshot.downlink), snapshot.uplink.as_mut()].into_iter().flatten() {
        (half.round_trip.counts[4], half.round_trip.counts[12], half.round_trip.sum) = (3, 2, 18_000_000);
    }
    snapshot
}

fn answered(snapshot: Option<Snapshot>) -> Vec<Answered> {
    vec![Answered { name: "radio".to_owned(), snapshot }]
}

/// A sample: name, labels as written, value.
fn samples(text: &str) -> Vec<(String, String, f64)> {
    let lines = text.lines().filter(|line| !line.starts_with('#'));
    let sample = |line: &str| {
        let (series, value) = line.rsplit_once(' ').unwrap();
        let (name, labels) = series.split_once('{').unwrap_or((series, "}"));
        (name.to_owned(), labels.trim_end_matches('}').to_owned(), value.parse().unwrap())
    };
    lines.map(sample).collect()
}

/// Problems of `text` by the conventions of Prometheus, as `promtool check metrics` would find it.
fn lint(text: &str) -> Vec<String> {
    let mut wrong = Vec::new();
    let (mut kinds, mut helps) = (BTreeMap::new(), BTreeSet::new());
    for line in text.lines().filter_map(|line| line.strip_prefix("# ")) {
        let mut words = line.splitn(3, ' ');
        match (words.next(), words.next(), words.next()) {
            (Some("TYPE"), Some(name), Some(kind)) => {
                if kinds.insert(name.to_owned(), kind.to_owned()).is_some() {
                    wrong.push(format!("{name} has two types"));
                }
            }
            (Some("HELP"), Some(name), Some(help)) if !help.trim().is_empty() => {
                helps.insert(name.to_owned());
            }
            _ => wrong.push(format!("'{line}' says nothing")),
        }
    }
    let is_lower = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '_';
    for (name, kind) in &kinds {
        let mut is_wrong = |what: &str, is: bool| {
            if is {
                wrong.push(format!("{name}: {what}"));
            }
        };
        is_wrong("no help", !helps.contains(name));
        is_wrong("another prefix", !name.starts_with("cellerator_"));
        is_wrong("not in lower case with underscores", !name.chars().all(is_lower) || name.contains("__"));
        is_wrong(
            "a counter ends in _total, and nothing else",
            (kind == "counter") != name.ends_with("_total"),
        );
        let others = ["milliseconds", "ms", "us", "ns", "minutes", "kilobytes", "bits", "percent", kind];
        is_wrong("not in base units", name.split('_').any(|word| others.contains(&word)));
        let suffixes = ["_count", "_sum", "_bucket"];
        is_wrong("a suffix of histograms", suffixes.iter().any(|suffix| name.ends_with(suffix)));
    }
    let mut seen = BTreeSet::new();
    for (name, labels, value) in samples(text) {
        let family = ["_bucket", "_sum", "_count"]
            .iter()
            .find_map(|end| {
                name.strip_suffix(end).filter(|stem| kinds.get(*stem).is_some_and(|k| k == "histogram"))
            })
            .unwrap_or(&name);
        if !kinds.contains_key(family) {
            wrong.push(format!("{name} has no type"));
        }
        if !seen.insert((name.clone(), labels.clone())) {
            wrong.push(format!("{name}{{{labels}}} is there twice"));
        }
        if !value.is_finite() || value < 0.0 {
            wrong.push(format!("{name}{{{labels}}} is {value}"));
        }
    }
    wrong
}

#[test]
fn names_follow_the_conventions() {
    let text = text_format(&exposition(&answered(Some(full()))));
    assert_eq!(lint(&text), Vec::<String>::new());
    // The judge itself finds what is wrong.
    for bad in [
        "# HELP cellerator_a x\n# TYPE cellerator_a counter\ncellerator_a 1\n",
        "# HELP cellerator_a_ms x\n# TYPE cellerator_a_ms gauge\ncellerator_a_ms 1\n",
        "# TYPE cellerator_a gauge\ncellerator_a 1\n",
        "# HELP cellerator_a x\n# TYPE cellerator_a gauge\ncellerator_a 1\ncellerator_a 1\n",
        "cellerator_a 1\n",
        "# HELP other_a x\n# TYPE other_a gauge\nother_a 1\n",
    ] {
        assert!(!lint(bad).is_empty(), "{bad}");
    }
}

#[test]
fn every_family_is_shown_and_none_has_a_series_per_flow_or_subscriber() {
    let text = text_format(&exposition(&answered(Some(full()))));
    let samples = samples(&text);
    for family in FAMILIES {
        let name = family.name();
        let ends = ["", "_bucket"].map(|end| format!("{name}{end}"));
        let mut own = samples.iter().filter(|(of, ..)| ends.contains(of)).peekable();
        assert!(own.peek().is_some(), "{name} is not there");
        for (_, labels, _) in own {
            let names: Vec<&str> = labels.split(',').map(|label| label.split('=').next().unwrap()).collect();
            let mut wanted = vec!["accelerator"];
            wanted.extend(family.labels());
            assert_eq!(names.into_iter().filter(|name| *name != "le").collect::<Vec<_>>(), wanted, "{name}");
        }
    }
    assert!(samples.len() < SERIES_MAX, "{} series with eight shards", samples.len());
    let of_shards = samples.iter().filter(|(_, labels, _)| labels.contains("shard=")).count();
    assert_eq!(of_shards, 8 * 3);
}

#[test]
fn a_histogram_is_cumulative_and_in_seconds() {
    let text = exposition(&answered(Some(full())));
    let of = |end: &str| {
        let name = format!("cellerator_round_trip_seconds{end}");
        samples(&text).into_iter().filter(move |(own, labels, _)| *own == name && labels.contains("downlink"))
    };
    let buckets: Vec<f64> = of("_bucket").map(|(_, _, value)| value).collect();
    assert_eq!(buckets.len(), 13);
    assert_eq!((buckets[3], buckets[4], buckets[12]), (0.0, 3.0, 5.0));
    assert!(of("_bucket").any(|(_, labels, value)| labels.contains(r#"le="0.02""#) && value == 3.0));
    assert!(of("_bucket").any(|(_, labels, value)| labels.contains(r#"le="+Inf""#) && value == 5.0));
    assert_eq!((of("_count").next().unwrap().2, of("_sum").next().unwrap().2), (5.0, 18.0));
}

#[test]
fn one_that_does_not_answer_is_down_and_has_nothing_else() {
    let text = exposition(&answered(None));
    let samples = samples(&text);
    assert_eq!(samples, [("cellerator_up".to_owned(), r#"accelerator="radio""#.to_owned(), 0.0)]);
    assert!(text.ends_with("# EOF\n"), "OpenMetrics ends so");
}

#[test]
fn a_name_cannot_break_out_of_its_label() {
    let answer = Answered { name: "a\"} evil 1\n".to_owned(), snapshot: Some(Snapshot::default()) };
    let text = exposition(&[answer]);
    assert!(text.contains(r#"accelerator="a\"} evil 1\n""#), "{text}");
}

#[test]
fn promtool_finds_nothing_wrong() {
    let promtool = Command::new("promtool").args(["check", "metrics"]).stdin(Stdio::piped()).spawn();
    let Ok(mut promtool) = promtool else {
        eprintln!("promtool is not installed (Debian's package prometheus has it): left out");
        return;
    };
    let text = text_format(&exposition(&answered(Some(full()))));
    promtool.stdin.take().unwrap().write_all(text.as_bytes()).unwrap();
    assert!(promtool.wait().unwrap().success());
}
