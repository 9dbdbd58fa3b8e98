//! What is shipped beside the program: rules, the dashboard, and the page of the metrics.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::process::Command;

use serde_json::Value;
use telemetry::{FAMILIES, MetricKind};

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).ancestors().nth(3).unwrap().to_owned()
}

fn read(path: &str) -> String {
    std::fs::read_to_string(root().join(path)).unwrap_or_else(|error| panic!("{path}: {error}"))
}

/// Names in `text` that begin like ours; names of recording rules have colons.
fn named(text: &str) -> BTreeSet<String> {
    let is_part = |c: char| c.is_ascii_alphanumeric() || c == '_' || c == ':';
    let words = text.split(|c| !is_part(c)).filter(|word| word.starts_with("cellerator"));
    words.filter(|word| word.contains(['_', ':'])).map(str::to_owned).collect()
}

/// All names that a query may have.
fn known() -> BTreeSet<String> {
    let names = FAMILIES.iter().flat_map(|family| {
        let name = family.name();
        match family.kind {
            MetricKind::Histogram => {
                ["bucket", "sum", "count"].iter().map(|end| format!("{name}_{end}")).collect()
            }
            _ => vec![name],
        }
    });
    names.collect()
}

fn recorded(rules: &str) -> BTreeSet<String> {
    let of = |line: &str| line.trim().strip_prefix("- record: ").map(str::to_owned);
    rules.lines().filter_map(of).collect()
}

#[test]
fn rules_name_metrics_that_there_are() {
    let rules = read("contrib/prometheus/cellerator.rules.yml");
    let all: BTreeSet<String> = known().into_iter().chain(recorded(&rules)).collect();
    let unknown: Vec<String> = named(&rules).into_iter().filter(|name| !all.contains(name)).collect();
    assert_eq!(unknown, Vec::<String>::new());
    assert!(named(&rules).len() > 15 && recorded(&rules).len() >= 6);
}

#[test]
fn the_dashboard_is_whole_and_names_metrics_that_there_are() {
    let text = read("contrib/grafana/cellerator.json");
    let dashboard: Value = serde_json::from_str(&text).unwrap();
    let (known, mut seen) = (known(), BTreeSet::new());
    let panels = dashboard["panels"].as_array().unwrap();
    let mut ids = BTreeSet::new();
    for panel in panels {
        assert!(ids.insert(panel["id"].as_u64().unwrap()), "an id is there twice");
        assert!(panel["gridPos"]["x"].as_u64().unwrap() + panel["gridPos"]["w"].as_u64().unwrap() <= 24);
        if panel["type"] == "row" {
            continue;
        }
        let targets = panel["targets"].as_array().unwrap();
        assert!(!targets.is_empty() && panel["description"].as_str().is_some_and(|text| !text.is_empty()));
        for target in targets {
            let query = target["expr"].as_str().unwrap();
            let open = |c| query.matches(c).count();
            assert_eq!((open('('), open('{'), open('[')), (open(')'), open('}'), open(']')), "{query}");
            let names = named(query);
            assert!(!names.is_empty() && names.is_subset(&known), "{query}");
            seen.extend(names);
        }
    }
    assert!(seen.len() > 20, "{seen:?}");
}

/// The list of docs/metrics.md, from the code.
fn page() -> String {
    let mut rows = String::from("| name | kind | labels | meaning |\n|---|---|---|---|\n");
    for family in FAMILIES {
        let labels: Vec<String> = family.labels().iter().map(|label| format!("`{label}`")).collect();
        let (name, kind, help) = (family.name(), family.kind.name(), family.help);
        rows.push_str(&format!("| `{name}` | {kind} | {} | {help} |\n", labels.join(", ")));
    }
    rows
}

#[test]
fn the_page_lists_the_metrics_that_there_are() {
    const BEGIN: &str = "<!-- metrics -->\n";
    const END: &str = "<!-- end of metrics -->";
    let path = root().join("docs/metrics.md");
    let text = std::fs::read_to_string(&path).unwrap();
    let (before, rest) = text.split_once(BEGIN).expect("the list begins");
    let (list, after) = rest.split_once(END).expect("the list ends");
    if std::env::var_os("CELLERATOR_WRITE_DOCS").is_some() {
        std::fs::write(&path, format!("{before}{BEGIN}{}{END}{after}", page())).unwrap();
    } else {
        assert!(list == page(), "CELLERATOR_WRITE_DOCS=1 writes the list anew:\n{}", page());
    }
}

/// Has promtool look at something in contrib/prometheus, if it is installed.
fn promtool(arguments: &[&str]) {
    let mut command = Command::new("promtool");
    match command.args(arguments).current_dir(root().join("contrib/prometheus")).output() {
        Ok(output) => {
            let said = String::from_utf8_lossy(&[output.stdout, output.stderr].concat()).into_owned();
            assert!(output.status.success(), "promtool {arguments:?}: {said}");
        }
        Err(_) => eprintln!("promtool is not installed (Debian's package prometheus has it): left out"),
    }
}

#[test]
fn promtool_takes_rules_and_settings_and_the_alerts_are_right() {
    promtool(&["check", "rules", "cellerator.rules.yml"]);
    promtool(&["check", "config", "prometheus.yml"]);
    promtool(&["test", "rules", "cellerator.rules.test.yml"]);
}
