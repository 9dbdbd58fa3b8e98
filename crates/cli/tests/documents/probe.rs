//! What docs/probe.md shows of `make bench-probe`.

use figures::Table;
use serde_json::Value;

fn number(value: &Value, digits: usize) -> String {
    value.as_f64().map_or_else(|| "–".to_owned(), |value| format!("{value:.digits$}"))
}

fn list<'a>(results: &'a Value, part: &str) -> &'a [Value] {
    results[part].as_array().map_or(&[], Vec::as_slice)
}

fn table(headings: &[(&'static str, &'static str)], rows: impl Iterator<Item = Vec<String>>) -> String {
    Table { headings: headings.to_vec(), rows: rows.collect() }.markdown()
}

/// What a view of the results shows; none of a view that there is not.
pub fn markdown(results: &Value, view: &str) -> Option<String> {
    let text = match view {
        "sweep" => sweep(results),
        "times" => times(results),
        "3g" | "lte" => paper(&results["papers"][view]),
        "record" => record(results),
        "programs" => programs(results),
        _ => return None,
    };
    Some(format!("\n{text}\n"))
}

/// Each run of a sweep against the link's log.
fn sweep(results: &Value) -> String {
    let rows = list(results, "sweep").iter().map(|run| {
        let both = |name: &str, digits: usize| {
            format!("{} / {}", number(&run[name]["told"], digits), number(&run[name]["truth"], digits))
        };
        vec![
            format!("{} at {} Mbit/s", run["direction"].as_str().unwrap(), number(&run["rate_mbps"], 0)),
            both("lost", 0),
            if run["same_runs"] == true { "the same" } else { "others" }.to_owned(),
            both("goodput_mbps", 3),
            both("variation_p95_ms", 3),
        ]
    });
    let headings = [
        ("probe / link's log", ""),
        ("lost", ""),
        ("runs of losses", ""),
        ("goodput", "Mbit/s"),
        ("variation p95", "ms"),
    ];
    table(&headings, rows)
}

/// How punctual packets leave, and how much too long round trips are.
fn times(results: &Value) -> String {
    let rows = list(results, "gaps").iter().map(|run| {
        let of = |name: &str| number(&run[name], 0);
        vec![
            format!("{} at {} Mbit/s", run["direction"].as_str().unwrap(), of("rate_mbps")),
            of("gap_error_p99_us"),
            of("late_p99_us"),
        ]
    });
    let headings = [("sent", ""), ("gap error p99", "µs"), ("late p99", "µs")];
    let bias = |name: &str| number(&results["round_trip_bias"][name], 3);
    format!(
        "{}\nRound trips are longer than the link's log says by {} ms (least), {} ms (median) and {} ms (p99).\n",
        table(&headings, rows),
        bias("least_ms"),
        bias("median_ms"),
        bias("p99_ms")
    )
}

/// A table of [MA] with ours below it.
fn paper(results: &Value) -> String {
    let rows = results.as_array().map_or(&[][..], Vec::as_slice).iter().map(|row| {
        let of = |name: &str, digits| number(&row[name], digits);
        vec![
            of("sent_mbps", 1),
            of("ma_rtt_ms", 0),
            of("rtt_p50_ms", 0),
            of("ma_lost_percent", 2),
            of("lost_percent", 2),
        ]
    });
    let headings = [
        ("sent", "Mbit/s"),
        ("RTT: [MA]", "ms"),
        ("RTT p50: lab", "ms"),
        ("lost: [MA]", "%"),
        ("lost: lab", "%"),
    ];
    table(&headings, rows)
}

fn record(results: &Value) -> String {
    let rows = ["sim", "lab"].into_iter().flat_map(|program| {
        let cases = list(&results["record"][program], "cases").iter();
        cases.map(move |case| {
            let of = |name: &str, digits| number(&case[name], digits);
            let off = |again: &str, first: &str| {
                let ratio = case[again].as_f64().zip(case[first].as_f64());
                ratio.map_or_else(
                    || "–".to_owned(),
                    |(again, first)| format!("{:+.1}", (again / first - 1.0) * 100.0),
                )
            };
            vec![
                format!("{} in `{program}`", case["case"].as_str().unwrap()),
                of("original_mbps", 2),
                of("recorded_mbps", 2),
                off("recorded_mbps", "original_mbps"),
                of("original_p95_ms", 1),
                of("recorded_p95_ms", 1),
                off("recorded_p95_ms", "original_p95_ms"),
            ]
        })
    });
    let headings = [
        ("flow", ""),
        ("link", "Mbit/s"),
        ("recorded", "Mbit/s"),
        ("differs", "%"),
        ("link, p95 of the wait", "ms"),
        ("recorded, p95", "ms"),
        ("differs", "%"),
    ];
    let sim = &results["record"]["sim"];
    format!(
        "{}\nOf the bytes of the recorded link {} % lie in other bins of 100 ms than on the link, and the round trip \
         is {} ms for {} ms.\n",
        table(&headings, rows),
        number(&serde_json::json!(sim["in_other_bins"].as_f64().map(|share| share * 100.0)), 2),
        number(&sim["round_trip_ms"], 2),
        number(&sim["link_round_trip_ms"], 0)
    )
}

fn programs(results: &Value) -> String {
    let names = ["cellerator", "irtt", "iperf3", "xfr"];
    let rows = list(results, "others");
    let mut figures: Vec<&str> = Vec::new();
    for figure in rows.iter().filter_map(|row| row["figure"].as_str()) {
        if !figures.contains(&figure) {
            figures.push(figure);
        }
    }
    let value = |figure: &str, program: &str| {
        let row = rows.iter().find(|row| row["figure"] == figure && row["program"] == program);
        row.map_or_else(|| "–".to_owned(), |row| number(&row["value"], 3))
    };
    let rows = figures.into_iter().map(|figure| {
        let values = names.map(|program| value(figure, program));
        std::iter::once(figure.to_owned()).chain(values).collect()
    });
    table(&[("figure", ""), (names[0], ""), (names[1], ""), (names[2], ""), (names[3], "")], rows)
}
