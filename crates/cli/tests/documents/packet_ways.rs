//! The figures of `make packet-ways` as Markdown.

use std::fmt::Write as _;

use serde_json::Value;

/// A column: its figure in the file, its heading, what it is divided by to be shown, and decimals.
type Column = (&'static str, &'static str, f64, usize);

const RATIOS: [(&str, &str); 6] = [
    ("flood_received_per_s", "packets/s"),
    ("flood_forwarder_ns", "forwarder, per packet"),
    ("steady_path_ns", "path, per packet"),
    ("bulk_gbps", "bulk, Gbit/s"),
    ("bulk_forwarder_s_per_gb", "bulk, forwarder"),
    ("trip_p50_us", "round trip, p50"),
];

const PACKETS: [Column; 5] = [
    ("flood_received_per_s", "1,000 packets/s", 1e3, 0),
    ("flood_forwarder_ns", "forwarder, ns/packet", 1.0, 0),
    ("flood_machine_ns", "machine, ns/packet", 1.0, 0),
    ("steady_forwarder_ns", "steady: forwarder, ns/packet", 1.0, 0),
    ("steady_path_ns", "steady: path, ns/packet", 1.0, 0),
];

const OTHERS: [Column; 5] = [
    ("bulk_gbps", "bulk, Gbit/s", 1.0, 1),
    ("bulk_forwarder_s_per_gb", "bulk: forwarder, s/GB", 1.0, 2),
    ("trip_p50_us", "round trip, p50, µs", 1.0, 0),
    ("trip_p99_us", "round trip, p99, µs", 1.0, 0),
    ("idle_us_per_s", "idle: forwarder, µs per s", 1.0, 0),
];

fn words<'a>(value: &'a Value, name: &str) -> &'a str {
    value[name].as_str().unwrap()
}

/// Median and range.
fn spread(value: &Value, unit: f64, decimals: usize) -> String {
    let [median, min, max] = ["median", "min", "max"].map(|name| value[name].as_f64().unwrap() / unit);
    format!("{median:.decimals$} ({min:.decimals$}–{max:.decimals$})")
}

fn table(text: &mut String, headings: &[&str], ways: &[Value], cells: &dyn Fn(&Value) -> Vec<String>) {
    let _ = writeln!(text, "| way | {} |\n|---|{}", headings.join(" | "), "---:|".repeat(headings.len()));
    for way in ways {
        let _ = writeln!(text, "| `{}` | {} |", words(way, "way"), cells(way).join(" | "));
    }
    text.push('\n');
}

fn medians(text: &mut String, columns: &[Column], ways: &[Value]) {
    let headings: Vec<&str> = columns.iter().map(|(_, heading, _, _)| *heading).collect();
    table(text, &headings, ways, &|way| {
        let cell = |(name, _, unit, decimals): &Column| {
            // The kernel forwards without a program.
            let is_none = name.contains("forwarder") || name.starts_with("idle");
            if is_none && words(way, "way") == "kernel" {
                return "–".to_owned();
            }
            spread(&way["figures"][*name], *unit, *decimals)
        };
        columns.iter().map(cell).collect()
    });
}

/// The tables of a result of `tools/packet-ways/measure`.
pub fn markdown(document: &Value) -> String {
    let ways: Vec<Value> = document["ways"].as_array().unwrap().clone();
    let mut text = format!(
        "{}, {} processors, Linux {}, {}; {} rounds, made by `{}`.\nMedians, with the least and the most of all rounds.\n\nRatios to `tun` in the same round. More is better for packets/s and Gbit/s, less for the others.\n\n",
        words(document, "machine"),
        document["processors"],
        words(document, "kernel"),
        words(document, "date"),
        document["rounds"],
        words(document, "command"),
    );
    table(&mut text, &RATIOS.map(|(_, heading)| heading), &ways, &|way| {
        let ratio = |(name, _): &(&str, &str)| {
            let ratio = &way["figures"][*name]["ratio"];
            let is_none = ratio.is_null() || (words(way, "way") == "kernel" && name.contains("forwarder"));
            if is_none { "–".to_owned() } else { spread(ratio, 1.0, 2) }
        };
        RATIOS.iter().map(ratio).collect()
    });
    text += "Packets that do not merge, as fast as the sender can, and at a steady rate:\n\n";
    medians(&mut text, &PACKETS, &ways);
    text += "Bulk, round trips, and nothing to do:\n\n";
    medians(&mut text, &OTHERS, &ways);
    for left_out in document["left_out"].as_array().unwrap() {
        let _ = writeln!(text, "Not measured: `{}`: {}.\n", words(left_out, "way"), words(left_out, "why"));
    }
    text.truncate(text.trim_end().len());
    text + "\n"
}

#[test]
fn ratios_and_medians_stand_beside_their_ways_and_what_is_left_out_below() {
    let figures = |ratio: f64| {
        let names = RATIOS.iter().map(|(name, _)| *name);
        let names = names.chain(PACKETS.iter().chain(&OTHERS).map(|(name, ..)| *name));
        let one = |value: f64| serde_json::json!({ "median": value, "min": value / 2.0, "max": value * 2.0 });
        let figure = |name: &str| {
            let mut figure = one(2000.0);
            figure["ratio"] = one(ratio);
            (name.to_owned(), figure)
        };
        Value::Object(names.map(figure).collect())
    };
    let document = serde_json::json!({
        "machine": "A", "processors": 2, "kernel": "6.18", "date": "2026-01-02", "rounds": 5, "command": "make x",
        "ways": [{ "way": "kernel", "figures": figures(0.5) }, { "way": "tun", "figures": figures(1.0) }],
        "left_out": [{ "way": "b", "why": "no c" }],
    });
    let text = markdown(&document);
    assert!(text.contains("| `tun` | 1.00 (0.50–2.00) | 1.00 (0.50–2.00) |"), "{text}");
    assert!(text.contains("| `kernel` | 0.50 (0.25–1.00) | – | 0.50 (0.25–1.00) |"), "{text}");
    assert!(text.contains("| `tun` | 2 (1–4) | 2000 (1000–4000) |"), "{text}");
    assert!(text.ends_with("\nNot measured: `b`: no c.\n"), "{text}");
}
