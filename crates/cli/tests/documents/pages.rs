//! The figures of `make docs-congestion-pages` as Markdown.

use std::fmt::Write as _;

use figures::stats::percentile;
use serde_json::Value;

use crate::schema;

pub const SCHEMA: &str = include_str!("../../../../schemas/congestion-pages.schema.json");

const CONTROLS: [&str; 3] = ["cubic", "bbr", "adaptive"];

fn word<'a>(value: &'a Value, name: &str) -> &'a str {
    value[name].as_str().unwrap()
}

fn number(value: &Value, name: &str) -> f64 {
    value[name].as_f64().unwrap()
}

/// The median of what `adaptive` took over what BBR took at the same moment of the trace.
fn at_the_same_moment(kind: &Value) -> f64 {
    let times = |control: &str| -> Vec<f64> {
        let all = kind["controls"][control]["times_ms"].as_array().unwrap();
        all.iter().map(|time| time.as_f64().unwrap()).collect()
    };
    let mut ratios: Vec<f64> =
        times("adaptive").iter().zip(times("bbr")).map(|(own, other)| own / other).collect();
    ratios.sort_by(f64::total_cmp);
    percentile(&ratios, 500).unwrap()
}

/// A row for each trace and kind of fetch: 50th and 95th percentile by control, and those of `adaptive` over BBR's.
pub fn markdown(document: &Value) -> String {
    let page = &document["page"];
    let mut text = format!(
        "{}, Linux {}, nginx {}, curl {}, h2load {}; {} with {} processors. A page has {} objects, {:.2} MB in all, {:.0} \
         to {:.0} KB, the median {:.0}. Each cell has the 50th and the 95th percentile of {} times, in ms.\n\n\
         | trace | what | cubic | bbr | adaptive | adaptive ÷ bbr | at the same moment |\n|---|---|---|---|---|---|---|\n",
        word(document, "program"),
        word(document, "kernel"),
        word(document, "nginx"),
        word(document, "curl"),
        word(document, "h2load"),
        word(document, "machine"),
        document["processors"],
        page["objects"],
        number(page, "bytes") / 1e6,
        number(page, "smallest_bytes") / 1e3,
        number(page, "largest_bytes") / 1e3,
        number(page, "median_bytes") / 1e3,
        document["repetitions"],
    );
    for trace in document["traces"].as_array().unwrap() {
        for kind in trace["kinds"].as_array().unwrap() {
            let of = |control: &str, name: &str| number(&kind["controls"][control], name);
            let _ = write!(text, "| {} | {} |", word(trace, "trace"), word(kind, "kind"));
            for control in CONTROLS {
                let _ = write!(text, " {:.0} · {:.0} |", of(control, "p50_ms"), of(control, "p95_ms"));
            }
            let ratio = |name| of("adaptive", name) / of("bbr", name);
            let _ = writeln!(
                text,
                " {:.2} · {:.2} | {:.2} |",
                ratio("p50_ms"),
                ratio("p95_ms"),
                at_the_same_moment(kind)
            );
        }
    }
    text
}

#[test]
fn a_row_has_percentiles_and_what_they_are_to_bbrs() {
    let of = |p50: f64, p95: f64| serde_json::json!({ "p50_ms": p50, "p95_ms": p95, "times_ms": [p50, p95] });
    let document = serde_json::json!({
        "schema": "cellerator/congestion-pages/1", "program": "cellerator 1", "kernel": "6.1", "machine": "m",
        "processors": 2, "nginx": "1.2", "curl": "8.0", "h2load": "1.5", "repetitions": 2,
        "page": { "objects": 3, "bytes": 60_000, "median_bytes": 15_000, "smallest_bytes": 2_000, "largest_bytes": 43_000 },
        "percentiles": "nearest rank",
        "traces": [{
            "trace": "4g-lte", "lasted_s": 3, "failed": [],
            "resent_segments": { "cubic": 1, "bbr": 2, "adaptive": 3 },
            "late_us": { "cubic": { "mean": 1.0, "p99": 2.0 }, "bbr": null, "adaptive": { "mean": 1.0, "p99": 2.0 } },
            "kinds": [{
                "kind": "page, HTTP/2",
                "controls": { "cubic": of(300.0, 700.0), "bbr": of(400.0, 500.0), "adaptive": of(380.0, 600.0) },
            }],
        }],
    });
    schema::check_against(&document, SCHEMA);
    let made = markdown(&document);
    assert!(made.contains("A page has 3 objects, 0.06 MB in all, 2 to 43 KB, the median 15."), "{made}");
    assert!(
        made.ends_with(
            "| 4g-lte | page, HTTP/2 | 300 · 700 | 400 · 500 | 380 · 600 | 0.95 · 1.20 | 0.95 |\n"
        ),
        "{made}"
    );
}
