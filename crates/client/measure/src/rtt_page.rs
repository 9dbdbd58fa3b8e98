//! Round trips for people.

use figures::chart::{Axis, Chart, Ink, Mark, Point, Series};
use figures::stats::quantiles;
use figures::{Table, TableColumn};
use maud::{Markup, html};
use probe::{DelayFigures, Outage};

use crate::document::{Document, Figures};
use crate::rtt::{Phase, RttDocument, RttFigures};
use crate::verdict::{clock_words, known};

const MAY_GO: [&str; 5] = ["p90", "outages", "variation up", "variation down", "min"];
/// Points of a distribution.
const POINTS: usize = 200;

impl Figures for RttFigures {
    const SCHEMA: &'static str = crate::rtt::SCHEMA;
    const TITLE: &'static str = "Round trips, idle and under load";
    const PORT: &'static str = "UDP port";

    fn verdict(document: &Document<Self>) -> String {
        crate::rtt::verdict(document)
    }

    fn summary(document: &Document<Self>, columns: usize) -> String {
        let mut text = format!("\n{}", table(document).for_terminal(columns, &MAY_GO));
        for phase in &document.phases {
            phase.doubts.iter().for_each(|doubt| text += &format!("  ? {}: {doubt}\n", phase.load));
        }
        if let Some(clock) = &document.clock {
            let (ahead, gained) = clock_words(clock);
            text += &format!("  the server's clock is ahead by {ahead} ms, and gains {gained}\n");
        }
        text
    }

    fn body(document: &Document<Self>) -> Markup {
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
}

fn table(document: &RttDocument) -> Table {
    let ms = |value: Option<f64>| known(value, |value| format!("{value:.2}"));
    let rtt = |phase: &Phase, of: fn(DelayFigures) -> f64| ms(phase.rtt.map(of));
    let load = |phase: &Phase| match phase.load_mbps {
        Some(mbps) => format!("{} {mbps:.1} Mbit/s", phase.load),
        None => phase.load.to_owned(),
    };
    let columns: [TableColumn<'_, Phase>; 13] = [
        ("load", "", &load),
        ("min", "ms", &|phase| rtt(phase, |rtt| rtt.min_ms)),
        ("median", "ms", &|phase| rtt(phase, |rtt| rtt.p50_ms)),
        ("p90", "ms", &|phase| rtt(phase, |rtt| rtt.p90_ms)),
        ("p95", "ms", &|phase| rtt(phase, |rtt| rtt.p95_ms)),
        ("p99", "ms", &|phase| rtt(phase, |rtt| rtt.p99_ms)),
        ("max", "ms", &|phase| rtt(phase, |rtt| rtt.max_ms)),
        ("round trips", "per minute", &|phase| known(phase.round_trips_per_minute, |n| format!("{n:.0}"))),
        ("lost", "%", &|phase| ms(phase.loss_percent)),
        ("variation up", "p95 ms", &|phase| ms(phase.variation.up.map(|up| up.p95_ms))),
        ("variation down", "p95 ms", &|phase| ms(phase.variation.down.map(|down| down.p95_ms))),
        ("outages", "", &|phase| phase.outages.len().to_string()),
        ("local peer", "median ms", &|phase| {
            ms(phase.local.as_ref().and_then(|own| own.rtt).map(|rtt| rtt.p50_ms))
        }),
    ];
    let shown = columns.len() - usize::from(document.local_peer.is_none());
    Table::of(&document.phases, &columns[..shown])
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
    let outages = document.phases.iter().flat_map(|phase| phase.outages.iter().map(|one| (phase.load, *one)));
    let outages: Vec<(&str, Outage)> = outages.collect();
    let table = Table::of(
        &outages,
        &[
            ("load", "", &|(load, _)| (*load).to_owned()),
            ("at", "s", &|(_, outage)| format!("{:.1}", outage.at_s)),
            ("length", "s", &|(_, outage)| format!("{:.2}", outage.seconds)),
            ("packets", "", &|(_, outage)| outage.packets.to_string()),
        ],
    );
    html! {
        @if !outages.is_empty() {
            h2 { "Outages" }
            p { "Times of 200 ms and more of which no packet came back." }
            (table.html(&|_| None, &|_| None))
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
            @let (ahead, gained) = clock_words(clock);
            p {
                "The server's clock is ahead by " (ahead) " ms: an interval as wide as the least round trip, because "
                "the two ways may differ. It gains " (gained) "."
            }
        }
    }
}
