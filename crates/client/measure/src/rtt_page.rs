//! Round trips for people.

use figures::Table;
use figures::chart::{Axis, Chart, Ink, Mark, Point, Series};
use figures::stats::quantiles;
use maud::{Markup, html};

use crate::rtt::{Phase, RttDocument};

const MAY_GO: [&str; 5] = ["p90", "outages", "variation up", "variation down", "min"];
/// Points of a distribution.
const POINTS: usize = 200;

/// The verdict, and a table with a row for each load.
#[must_use]
pub fn summary(document: &RttDocument, columns: usize) -> String {
    let mut text = figures::wrapped(&document.verdict, columns).join("\n") + "\n";
    let (table, gone) = table(document).fitting(columns, &MAY_GO);
    text += &format!("\n{table}");
    if !gone.is_empty() {
        text += &format!("  the terminal is too narrow for: {}\n", gone.join(", "));
    }
    for phase in &document.phases {
        phase.doubts.iter().for_each(|doubt| text += &format!("  ? {}: {doubt}\n", phase.load));
    }
    if let Some(clock) = &document.clock {
        text += &format!(
            "  the server's clock is ahead by {:.3} to {:.3} ms, and gains {:.0} to {:.0} ppm, most likely {:.1}\n",
            clock.offset_low_ms,
            clock.offset_high_ms,
            clock.drift_low_ppm,
            clock.drift_high_ppm,
            clock.drift_ppm
        );
    }
    text
}

fn table(document: &RttDocument) -> Table {
    let mut table = all_columns(document);
    if document.local_peer.is_none() {
        let last = table.headings.len().saturating_sub(1);
        table.headings.truncate(last);
        table.rows.iter_mut().for_each(|row| row.truncate(last));
    }
    table
}

fn all_columns(document: &RttDocument) -> Table {
    let row = |phase: &Phase| {
        let ms = |value: Option<f64>| value.map_or("–".to_owned(), |value| format!("{value:.2}"));
        let rtt = phase.rtt;
        vec![
            match phase.load_mbps {
                Some(mbps) => format!("{} {mbps:.1} Mbit/s", phase.load),
                None => phase.load.to_owned(),
            },
            ms(rtt.map(|rtt| rtt.min_ms)),
            ms(rtt.map(|rtt| rtt.p50_ms)),
            ms(rtt.map(|rtt| rtt.p90_ms)),
            ms(rtt.map(|rtt| rtt.p95_ms)),
            ms(rtt.map(|rtt| rtt.p99_ms)),
            ms(rtt.map(|rtt| rtt.max_ms)),
            phase.round_trips_per_minute.map_or("–".to_owned(), |n| format!("{n:.0}")),
            ms(phase.loss_percent),
            ms(phase.variation.up.map(|up| up.p95_ms)),
            ms(phase.variation.down.map(|down| down.p95_ms)),
            phase.outages.len().to_string(),
            ms(phase.local.as_ref().and_then(|local| local.rtt).map(|rtt| rtt.p50_ms)),
        ]
    };
    Table {
        headings: vec![
            ("load", ""),
            ("min", "ms"),
            ("median", "ms"),
            ("p90", "ms"),
            ("p95", "ms"),
            ("p99", "ms"),
            ("max", "ms"),
            ("round trips", "per minute"),
            ("lost", "%"),
            ("variation up", "p95 ms"),
            ("variation down", "p95 ms"),
            ("outages", ""),
            ("local peer", "median ms"),
        ],
        rows: document.phases.iter().map(row).collect(),
    }
}

/// The whole page.
#[must_use]
pub fn page(document: &RttDocument) -> String {
    let is_partial = document.incomplete.is_some();
    let head = document.server.page_head(&document.verdict, is_partial, "UDP port", &document.made_by);
    figures::page::page("Round trips, idle and under load", "", &html! { (head) (body(document)) })
}

/// Part of the page below the verdict.
pub(crate) fn body(document: &RttDocument) -> Markup {
    html! {
        (table(document).html(&|_| None, &|_| None))
        @for phase in &document.phases {
            @for doubt in &phase.doubts { p class="finding warning" { (phase.load) ": " (doubt) } }
        }
        @let (time, shares) = (over_time(document), distribution(document));
        (time.figure()) (shares.figure())
        (outage_table(document))
        (method(document))
    }
}

fn over_time(document: &RttDocument) -> Chart {
    let series = document.phases.iter().enumerate().map(|(at, phase)| {
        let width = phase.bin_ms as f64 / 1e3;
        Series::of_bins(phase.load, Ink::Colour(at), Mark::Line, width, phase.median_ms.iter().copied())
    });
    Chart::new("Round trip over time", Axis::exact("s after the first packet"))
        .panel(Axis::linear("median in 200 ms, ms"), series.collect())
}

fn distribution(document: &RttDocument) -> Chart {
    let series = document.phases.iter().enumerate().map(|(at, phase)| {
        let mut sorted: Vec<f64> = phase.samples.iter().map(|sample| sample.1).collect();
        sorted.sort_unstable_by(f64::total_cmp);
        let values = quantiles(&sorted, POINTS);
        let last = values.len().saturating_sub(1).max(1) as f64;
        let points = values.into_iter().enumerate().map(|(i, ms)| Point::new(ms, i as f64 / last * 100.0));
        Series::new(phase.load, Ink::Colour(at), Mark::Line, points)
    });
    Chart::new("Distribution of the round trips", Axis::log("round trip, ms"))
        .panel(Axis::linear("share at or below, %"), series.collect())
}

fn outage_table(document: &RttDocument) -> Markup {
    let rows = document.phases.iter().flat_map(|phase| {
        phase.outages.iter().map(|outage| {
            vec![
                phase.load.to_owned(),
                format!("{:.1}", outage.at_s),
                format!("{:.2}", outage.seconds),
                outage.packets.to_string(),
            ]
        })
    });
    let rows: Vec<Vec<String>> = rows.collect();
    html! {
        @if !rows.is_empty() {
            h2 { "Outages" }
            p { "Times of 200 ms and more of which no packet came back." }
            (Table {
                headings: vec![("load", ""), ("at", "s"), ("length", "s"), ("packets", "")],
                rows,
            }.html(&|_| None, &|_| None))
        }
    }
}

/// Description of the load: above the capacity, unless something bounded it.
fn load_words(document: &RttDocument) -> &'static str {
    let loaded = || document.phases.iter().filter(|phase| phase.load != "idle");
    match (loaded().next().is_some(), loaded().all(Phase::is_filled)) {
        (false, _) => "The path was not loaded.",
        (true, true) => {
            "A load is UDP at a steady rate above what the path carries, so that its queue is full."
        }
        (true, false) => {
            "A load is UDP at a steady rate. Where all of it arrived, it was not more than the path carries \
             (--load, or a --rate-max of either end, kept it so low), and its queue was not full."
        }
    }
}

fn method(document: &RttDocument) -> Markup {
    html! {
        h2 { "How it was measured" }
        p {
            "A small UDP packet left every " (document.every_ms) " ms and was sent back at once; the time the server "
            "needed is not in the round trip. Round trips per minute are 60 s over the mean. The variation of one way "
            "is its delay less the least, without the drift of the clocks. " (load_words(document))
        }
        @if let Some(peer) = &document.local_peer {
            p {
                "Beside it, " (peer.host) " (" (peer.address) ") on the local network was pinged every 20 ms, through the "
                "same Wi-Fi or cable: what it takes too is not the operator's."
            }
        }
        @if let Some(clock) = &document.clock {
            p {
                "The server's clock is ahead by " (format!("{:.3}", clock.offset_low_ms)) " to "
                (format!("{:.3}", clock.offset_high_ms)) " ms: an interval as wide as the least round trip, because "
                "the two ways may differ. It gains " (format!("{:.0}", clock.drift_low_ppm)) " to "
                (format!("{:.0}", clock.drift_high_ppm)) " ppm, most likely " (format!("{:.1}", clock.drift_ppm)) "."
            }
        }
    }
}
