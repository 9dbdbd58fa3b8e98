//! [`compare`]: results of several environments side by side ([EV]: wired, Wi-Fi, cellular, moving).

use figures::Table;
use figures::chart::{Axis, Chart, Ink, Mark, Point, Series};
use figures::stats::quantiles;
use maud::{Markup, html};
use serde::Serialize;
use serde_json::Value;

use crate::maker::Maker;
use crate::verdict::{digits, known, time, way};
use crate::{rtt, sweep, tcp};

/// Name and version of the document; its schema is `schemas/probe-compare.schema.json`.
pub const SCHEMA: &str = "cellerator/probe-compare/1";
/// Points of a distribution.
const POINTS: usize = 200;

/// One environment's result, as it was written.
#[derive(Clone, Debug)]
pub struct Environment {
    /// Name of the environment.
    pub name: String,
    /// A document of `sweep`, `rtt` or `tcp`.
    pub document: Value,
}

/// Round trips of one environment under one load.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct RttRow {
    /// The environment.
    pub environment: String,
    /// `idle`, `down` or `up`.
    pub load: String,
    /// Least round trip.
    pub min_ms: Option<f64>,
    /// Median.
    pub p50_ms: Option<f64>,
    /// 95th percentile.
    pub p95_ms: Option<f64>,
    /// 99th percentile.
    pub p99_ms: Option<f64>,
    /// Packets that did not come back.
    pub loss_percent: Option<f64>,
    /// Pauses of 200 ms and more.
    pub outages: u64,
    /// The distribution: values at equal steps of the share, from the least to the largest.
    pub distribution_ms: Vec<f64>,
}

/// Capacity of one environment in one direction.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct CapacityRow {
    /// The environment.
    pub environment: String,
    /// `up` or `down`.
    pub direction: String,
    /// The most it carried.
    pub capacity_mbps: Option<f64>,
    /// The largest rate with little delay and loss.
    pub knee_mbps: Option<f64>,
    /// Loss at the least rate.
    pub least_loss_percent: Option<f64>,
    /// 95th percentile of the round trip at the largest rate.
    pub loaded_rtt_p95_ms: Option<f64>,
}

/// Results of TCP transfers in one environment in one direction.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct TransferRow {
    /// The environment.
    pub environment: String,
    /// `up` or `down`.
    pub direction: String,
    /// Congestion control and window that were asked for; empty where none was.
    pub settings: String,
    /// Transfers.
    pub runs: u64,
    /// Mean goodput.
    pub bandwidth_mbps: Option<f64>,
    /// Its standard deviation.
    pub bandwidth_deviation_mbps: Option<f64>,
    /// Mean round trip.
    pub rtt_ms: Option<f64>,
    /// Mean share of segments sent again.
    pub loss_percent: Option<f64>,
    /// Mean round trip of the handshake.
    pub handshake_ms: Option<f64>,
    /// Limits of the transfers, and how many transfers each of them limited: `network 6×`.
    pub limited_by: String,
}

/// Environments side by side.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct EnvironmentComparison {
    /// [`SCHEMA`].
    pub schema: &'static str,
    /// Maker of the comparison.
    pub made_by: Maker,
    /// In plain words.
    pub verdict: String,
    /// From documents of `rtt`.
    pub round_trips: Vec<RttRow>,
    /// From documents of `sweep`.
    pub capacities: Vec<CapacityRow>,
    /// From documents of `tcp`.
    pub transfers: Vec<TransferRow>,
}

/// Puts results side by side, in the order given.
///
/// # Errors
/// One that is no result of `probe`, as one line.
pub fn compare(environments: &[Environment], made_by: Maker) -> Result<EnvironmentComparison, String> {
    let mut comparison = EnvironmentComparison {
        schema: SCHEMA,
        made_by,
        verdict: String::new(),
        round_trips: Vec::new(),
        capacities: Vec::new(),
        transfers: Vec::new(),
    };
    for Environment { name, document } in environments {
        match document["schema"].as_str() {
            Some(rtt::SCHEMA) => comparison.round_trips.extend(round_trips(name, document)),
            Some(sweep::SCHEMA) => comparison.capacities.extend(capacities(name, document)),
            Some(tcp::SCHEMA) => comparison.transfers.extend(transfers(name, document)),
            other => {
                return Err(format!(
                    "{name}: its schema is {}, wanted is a result of probe sweep, rtt or tcp (--json)",
                    other.map_or("missing".to_owned(), |schema| format!("'{schema}'"))
                ));
            }
        }
    }
    comparison.verdict = verdict(&comparison);
    Ok(comparison)
}

fn items<'a>(document: &'a Value, name: &str) -> impl Iterator<Item = &'a Value> {
    document[name].as_array().into_iter().flatten()
}

fn word(value: &Value) -> String {
    value.as_str().unwrap_or_default().to_owned()
}

fn round_trips(name: &str, document: &Value) -> Vec<RttRow> {
    let row = |phase: &Value| {
        let mut samples: Vec<f64> = items(phase, "samples").filter_map(|sample| sample[1].as_f64()).collect();
        samples.sort_unstable_by(f64::total_cmp);
        let rtt = &phase["rtt"];
        RttRow {
            environment: name.to_owned(),
            load: word(&phase["load"]),
            min_ms: rtt["min_ms"].as_f64(),
            p50_ms: rtt["p50_ms"].as_f64(),
            p95_ms: rtt["p95_ms"].as_f64(),
            p99_ms: rtt["p99_ms"].as_f64(),
            loss_percent: phase["loss_percent"].as_f64(),
            outages: items(phase, "outages").count() as u64,
            distribution_ms: quantiles(&samples, POINTS),
        }
    };
    items(document, "phases").map(row).collect()
}

fn capacities(name: &str, document: &Value) -> Vec<CapacityRow> {
    let row = |way: &Value| CapacityRow {
        environment: name.to_owned(),
        direction: word(&way["direction"]),
        capacity_mbps: way["capacity"]["mbps"].as_f64(),
        knee_mbps: way["knee_mbps"].as_f64(),
        least_loss_percent: items(way, "steps").next().and_then(|step| step["loss_percent"].as_f64()),
        loaded_rtt_p95_ms: items(way, "steps").last().and_then(|step| step["rtt"]["p95_ms"].as_f64()),
    };
    items(document, "directions").map(row).collect()
}

fn transfers(name: &str, document: &Value) -> Vec<TransferRow> {
    let row = |row: &Value| TransferRow {
        environment: name.to_owned(),
        direction: word(&row["direction"]),
        settings: settings(row),
        runs: row["runs"].as_u64().unwrap_or(0),
        bandwidth_mbps: row["bandwidth_mbps"]["mean"].as_f64(),
        bandwidth_deviation_mbps: row["bandwidth_mbps"]["deviation"].as_f64(),
        rtt_ms: row["rtt_ms"]["mean"].as_f64(),
        loss_percent: row["loss_percent"]["mean"].as_f64(),
        handshake_ms: row["handshake_ms"]["mean"].as_f64(),
        limited_by: word(&row["limited_by"]),
    };
    items(document, "rows").map(row).collect()
}

/// As [`tcp::TcpSettings::words`] has it.
fn settings(row: &Value) -> String {
    let kb = row["window_bytes"].as_f64().map(|bytes| format!("{} KB", digits(bytes / 1e3)));
    let words: Vec<String> =
        row["congestion_control"].as_str().map(str::to_owned).into_iter().chain(kb).collect();
    words.join(", ")
}

fn number(value: Option<f64>) -> String {
    known(value, |value| format!("{value:.2}"))
}

/// Titles and tables of what there is.
fn tables(comparison: &EnvironmentComparison) -> Vec<(&'static str, Table)> {
    let way = |row: &TransferRow| match row.settings.as_str() {
        "" => row.direction.clone(),
        settings => format!("{} ({settings})", row.direction),
    };
    let round_trips = Table::of(
        &comparison.round_trips,
        &[
            ("environment", "", &|row| row.environment.clone()),
            ("load", "", &|row| row.load.clone()),
            ("min", "ms", &|row| number(row.min_ms)),
            ("median", "ms", &|row| number(row.p50_ms)),
            ("p95", "ms", &|row| number(row.p95_ms)),
            ("p99", "ms", &|row| number(row.p99_ms)),
            ("lost", "%", &|row| number(row.loss_percent)),
            ("outages", "", &|row| row.outages.to_string()),
        ],
    );
    let capacities = Table::of(
        &comparison.capacities,
        &[
            ("environment", "", &|row| row.environment.clone()),
            ("way", "", &|row| row.direction.clone()),
            ("capacity", "Mbit/s", &|row| number(row.capacity_mbps)),
            ("knee", "Mbit/s", &|row| number(row.knee_mbps)),
            ("lost at least rate", "%", &|row| number(row.least_loss_percent)),
            ("RTT p95 at largest", "ms", &|row| number(row.loaded_rtt_p95_ms)),
        ],
    );
    let transfers = Table::of(
        &comparison.transfers,
        &[
            ("environment", "", &|row| row.environment.clone()),
            ("way", "", &way),
            ("runs", "", &|row| row.runs.to_string()),
            ("bandwidth", "Mbit/s", &|row| number(row.bandwidth_mbps)),
            ("std", "Mbit/s", &|row| number(row.bandwidth_deviation_mbps)),
            ("RTT", "ms", &|row| number(row.rtt_ms)),
            ("loss", "%", &|row| number(row.loss_percent)),
            ("3WHS RTT", "ms", &|row| number(row.handshake_ms)),
            ("limited by", "", &|row| row.limited_by.clone()),
        ],
    );
    let all = [("Round trips", round_trips), ("UDP at several rates", capacities), ("TCP", transfers)];
    all.into_iter().filter(|(_, table)| !table.rows.is_empty()).collect()
}

/// The verdict, and the tables.
#[must_use]
pub fn summary(comparison: &EnvironmentComparison, columns: usize) -> String {
    let mut text = figures::wrapped(&comparison.verdict, columns).join("\n") + "\n";
    for (title, table) in tables(comparison) {
        let may_go = ["runs", "std", "min", "outages", "limited by", "loss", "RTT p95 at largest"];
        text += &format!("\n  {title}\n{}", table.for_terminal(columns, &may_go));
    }
    text
}

/// The whole page.
#[must_use]
pub fn page(comparison: &EnvironmentComparison) -> String {
    let body = html! {
        p class="finding" { (comparison.verdict) }
        p class="soft" {
            "Cellerator " (comparison.made_by.cellerator) ": " code { (comparison.made_by.command) }
        }
        @for (title, table) in tables(comparison) {
            h2 { (title) }
            (table.html(&|_| None, &|_| None))
            @if title == "Round trips" { (distributions(comparison)) }
        }
        h2 { "What the words mean" }
        p {
            "Idle is a path that carries nothing else; down and up are loaded from and to the server. Outages are times "
            "of 200 ms and more of which no packet came back. The capacity is the best whole second of UDP. The knee is "
            "the largest rate at which packets hardly wait and hardly any is lost. “Lost at least rate” is what the "
            "path loses when it has little to do, “RTT p95 at largest” the round trip that 95 % stay below at the "
            "largest rate that was tried. Bandwidth of TCP is a mean with its standard deviation (std); 3WHS RTT is "
            "the round trip of the handshake."
        }
    };
    figures::page::page("Environments side by side", "", &body)
}

/// A distribution function for each load, with a line for each environment.
fn distributions(comparison: &EnvironmentComparison) -> Markup {
    let line = |place: usize, row: &RttRow| {
        let last = row.distribution_ms.len().saturating_sub(1).max(1) as f64;
        let points = row.distribution_ms.iter().enumerate();
        let points = points.map(|(i, ms)| Point::new(*ms, i as f64 / last * 100.0));
        Series::new(&row.environment, Ink::Colour(place), Mark::Line, points)
    };
    let chart = |load: &str| {
        let rows: Vec<&RttRow> = comparison.round_trips.iter().filter(|row| row.load == load).collect();
        let series: Vec<Series> = rows.iter().enumerate().map(|(place, row)| line(place, row)).collect();
        (!series.is_empty()).then(|| {
            let title = match load {
                "idle" => "Round trips, idle".to_owned(),
                load => format!("Round trips, loaded {load}"),
            };
            Chart::new(&title, Axis::log("round trip, ms"))
                .panel(Axis::linear("share at or below, %"), series)
        })
    };
    html! {
        @for chart in ["idle", "down", "up"].into_iter().filter_map(chart) { (chart.figure()) }
    }
}

fn verdict(comparison: &EnvironmentComparison) -> String {
    let joined = |parts: Vec<String>| parts.join(", ");
    let mut sentences = Vec::new();
    let idle = comparison.round_trips.iter().filter(|row| row.load == "idle");
    let trips = idle.filter_map(|row| Some(format!("{} ({})", time(row.p50_ms?), row.environment)));
    let trips: Vec<String> = trips.collect();
    if !trips.is_empty() {
        sentences.push(format!("Idle, an answer takes {}.", joined(trips)));
    }
    for direction in ["down", "up"] {
        let rows = comparison.capacities.iter().filter(|row| row.direction == direction);
        let carried =
            rows.filter_map(|row| Some(format!("{} ({})", digits(row.capacity_mbps?), row.environment)));
        let carried: Vec<String> = carried.collect();
        if !carried.is_empty() {
            sentences.push(format!("{} capacity in Mbit/s: {}.", way(direction), joined(carried)));
        }
        let rows = comparison.transfers.iter().filter(|row| row.direction == direction);
        let got = rows.filter_map(|row| {
            let settings =
                if row.settings.is_empty() { String::new() } else { format!(", {}", row.settings) };
            Some(format!("{} ({}{settings})", digits(row.bandwidth_mbps?), row.environment))
        });
        let got: Vec<String> = got.collect();
        if !got.is_empty() {
            sentences.push(format!("{} by TCP in Mbit/s: {}.", way(direction), joined(got)));
        }
    }
    if sentences.is_empty() { "There is nothing to compare.".to_owned() } else { sentences.join(" ") }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn maker() -> Maker {
        Maker { cellerator: "0".to_owned(), command: "c".to_owned(), started_unix_s: 0 }
    }

    fn rtt_of(name: &str, median: f64) -> Environment {
        let samples: Vec<(f64, f64)> =
            (0..100).map(|n| (f64::from(n) / 10.0, median + f64::from(n - 50))).collect();
        let phase = json!({
            "load": "idle", "loss_percent": 1.5, "outages": [{}, {}], "samples": samples,
            "rtt": {"min_ms": median - 50.0, "p50_ms": median, "p95_ms": median + 45.0, "p99_ms": median + 49.0},
        });
        Environment { name: name.to_owned(), document: json!({"schema": rtt::SCHEMA, "phases": [phase]}) }
    }

    #[test]
    fn environments_stand_side_by_side_in_the_order_given() {
        let comparison = compare(&[rtt_of("wired", 60.0), rtt_of("moving <1>", 240.0)], maker()).unwrap();
        let row = &comparison.round_trips[1];
        assert_eq!((row.environment.as_str(), row.p50_ms, row.outages), ("moving <1>", Some(240.0), 2));
        assert_eq!((row.distribution_ms[0], row.distribution_ms.len()), (190.0, 100));
        assert!(comparison.verdict.starts_with("Idle, an answer takes 60 ms (wired), 240 ms (moving <1>)"));
        let text = summary(&comparison, 80);
        assert!(text.contains("moving <1>") && text.lines().all(|line| line.chars().count() <= 80), "{text}");
        let page = page(&comparison);
        assert!(page.contains("moving &lt;1&gt;") && page.contains("Round trips, idle"));
    }

    #[test]
    fn sweeps_and_transfers_have_their_own_tables() {
        let sweep = json!({"schema": sweep::SCHEMA, "directions": [{
            "direction": "down", "capacity": {"mbps": 19.5}, "knee_mbps": null,
            "steps": [{"loss_percent": 0.1, "rtt": {"p95_ms": 30.0}}, {"loss_percent": 20, "rtt": null}],
        }]});
        let tcp = json!({"schema": tcp::SCHEMA, "rows": [{
            "direction": "up", "runs": 6, "bandwidth_mbps": {"mean": 4.5, "deviation": null}, "limited_by": "network 6×",
        }]});
        let named = |document| Environment { name: "a".to_owned(), document };
        let comparison = compare(&[named(sweep), named(tcp)], maker()).unwrap();
        let capacity = &comparison.capacities[0];
        assert_eq!(
            (capacity.capacity_mbps, capacity.knee_mbps, capacity.loaded_rtt_p95_ms),
            (Some(19.5), None, None)
        );
        let transfer = &comparison.transfers[0];
        assert_eq!((transfer.bandwidth_mbps, transfer.rtt_ms, transfer.runs), (Some(4.5), None, 6));
        assert!(summary(&comparison, 80).contains("UDP at several rates"));
    }

    #[test]
    fn what_is_no_result_is_named() {
        let other = Environment { name: "x.json".to_owned(), document: json!({"schema": "y/1"}) };
        assert!(compare(&[other], maker()).unwrap_err().starts_with("x.json: its schema is 'y/1'"));
        let none = Environment { name: "x.json".to_owned(), document: json!([1]) };
        assert!(compare(&[none], maker()).unwrap_err().contains("missing"));
    }
}
