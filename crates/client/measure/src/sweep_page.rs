//! A sweep for people: a table on the terminal, and a page with charts.

use figures::Table;
use figures::chart::{Axis, Chart, Ink, Mark, Point, Series};
use maud::{Markup, html};
use probe::RunFigures;

use crate::document::{Document, Figures};
use crate::overload::{KNEE_DELAY_MS, KNEE_LOSS_PERCENT};
use crate::sweep::{Capacity, DirectionFigures, SweepDocument, SweepFigures};
use crate::verdict::{clock_words, digits, known};

/// More runs of losses than this are shown by their number in each bin.
const STEMS_MAX: usize = 150;
/// Lengths of runs that each have a place of their own.
const PLACES_MAX: u32 = 20;
/// Columns that go first where a terminal is narrow.
pub const MAY_GO: [&str; 5] = ["gap error", "reordered", "variation p95", "goodput", "longest run"];

impl Figures for SweepFigures {
    const SCHEMA: &'static str = crate::sweep::SCHEMA;
    const TITLE: &'static str = "What this path does to UDP";
    const PORT: &'static str = "UDP port";

    fn verdict(document: &Document<Self>) -> String {
        crate::sweep::verdict(document)
    }

    fn summary(document: &Document<Self>, columns: usize) -> String {
        let mut text = String::new();
        for figures in &document.directions {
            let table = table(figures).for_terminal(columns, &MAY_GO);
            text += &format!("\n  {}\n{table}", heading(figures));
            for step in figures.search.iter().chain(&figures.steps) {
                for doubt in &step.figures.doubts {
                    text += &format!("  ? {}: {doubt}\n", name(&step.figures));
                }
            }
        }
        text
    }

    fn body(document: &Document<Self>) -> Markup {
        html! {
            @for figures in &document.directions { (section(figures)) }
            (method(document))
        }
    }
}

fn heading(figures: &DirectionFigures) -> String {
    let capacity = figures.capacity.as_ref().map_or("capacity unknown".to_owned(), |capacity| {
        format!("capacity {} Mbit/s", digits(capacity.mbps))
    });
    let knee =
        figures.knee_mbps.map_or("no knee found".to_owned(), |knee| format!("knee {} Mbit/s", digits(knee)));
    format!("{}: {capacity}, {knee}", figures.direction)
}

fn name(figures: &RunFigures) -> String {
    if figures.is_search { "search".to_owned() } else { format!("{} Mbit/s", digits(figures.rate_mbps)) }
}

fn table(figures: &DirectionFigures) -> Table {
    let number = |value: Option<f64>| known(value, |value| format!("{value:.2}"));
    let offered =
        |run: &&RunFigures| if run.is_search { "search".to_owned() } else { number(run.offered_mbps) };
    let longest = |run: &&RunFigures| run.burst_lengths.keys().last().map_or(0, |length| *length).to_string();
    let runs: Vec<&RunFigures> =
        figures.search.iter().chain(&figures.steps).map(|step| &step.figures).collect();
    Table::of(
        &runs,
        &[
            ("offered", "Mbit/s", &offered),
            ("received", "Mbit/s", &|run| number(run.received_mbps)),
            ("goodput", "Mbit/s", &|run| number(run.goodput_mbps)),
            ("lost", "%", &|run| number(run.loss_percent)),
            ("loss runs", "", &|run| run.bursts.len().to_string()),
            ("longest run", "packets", &longest),
            ("RTT p50", "ms", &|run| number(run.rtt.map(|rtt| rtt.p50_ms))),
            ("RTT p95", "ms", &|run| number(run.rtt.map(|rtt| rtt.p95_ms))),
            ("variation p95", "ms", &|run| number(run.delay_variation.map(|delay| delay.p95_ms))),
            ("reordered", "", &|run| run.reordered.to_string()),
            ("gap error", "p99 µs", &|run| run.timer.gap_error_p99_us.to_string()),
            ("valid", "", &|run| if run.is_valid { "yes" } else { "no" }.to_owned()),
        ],
    )
}

fn section(figures: &DirectionFigures) -> Markup {
    html! {
        h2 { (if figures.direction == "up" { "Up: to the server" } else { "Down: from the server" }) }
        @if let Some(capacity) = &figures.capacity { p { (capacity_words(capacity)) } }
        (table(figures).html(&|_| None, &|field| (field == "no").then_some("different")))
        @for step in figures.search.iter().chain(&figures.steps) {
            @for doubt in &step.figures.doubts {
                p class="finding warning" { (name(&step.figures)) ": " (doubt) }
            }
        }
        @if figures.steps.len() > 1 { (over_rate(figures).figure()) }
        @for step in figures.steps.iter().rev().take(1) {
            (over_time(&step.figures).figure())
            @if !step.figures.burst_lengths.is_empty() { (burst_chart(&step.figures).figure()) }
        }
    }
}

fn capacity_words(capacity: &Capacity) -> String {
    format!(
        "Capacity {} Mbit/s of IP packets: the best whole second ({}), with {} % lost and a one-way delay \
         variation of {} ms (95th percentile) in that run.",
        digits(capacity.mbps),
        if capacity.is_search { "found by the search of RFC 9097" } else { "of a run at a steady rate" },
        known(capacity.loss_percent, digits),
        known(capacity.delay_variation_p95_ms, digits),
    )
}

fn over_rate(figures: &DirectionFigures) -> Chart {
    let points = |of: &dyn Fn(&RunFigures) -> Option<f64>| -> Vec<Point> {
        figures
            .steps
            .iter()
            .filter_map(|step| Some(Point::new(step.figures.offered_mbps?, of(&step.figures)?)))
            .collect()
    };
    let line = |name: &str, ink: usize, of: &dyn Fn(&RunFigures) -> Option<f64>| {
        Series::new(name, Ink::Colour(ink), Mark::Dotted, points(of))
    };
    Chart::new(
        &format!("What comes of what is sent {}", figures.direction),
        Axis::linear("sent, Mbit/s of IP packets"),
    )
    .panel(Axis::linear("received, Mbit/s"), vec![line("received", 0, &|f| f.received_mbps)])
    .panel(Axis::linear("lost, %"), vec![line("lost", 1, &|f| f.loss_percent)])
    .panel(
        Axis::linear("round trip, ms"),
        vec![
            line("round trip, median", 2, &|f| f.rtt.map(|rtt| rtt.p50_ms)),
            line("round trip, 95th percentile", 3, &|f| f.rtt.map(|rtt| rtt.p95_ms)),
        ],
    )
}

/// [MA] Figs 3 and 4: goodput beside losses, and beside the round trip.
fn over_time(figures: &RunFigures) -> Chart {
    let width = figures.series.bin_ms as f64 / 1e3;
    // The last bin is not whole: it would look like a fall.
    let whole = figures.series.goodput_mbps.len().saturating_sub(1);
    let goodput = figures.series.goodput_mbps.iter().take(whole).map(|rate| Some(*rate));
    let mut chart = Chart::new(
        &format!("Over time, {} at {}", figures.direction, name(figures)),
        Axis::exact("s after the first arrival"),
    )
    .panel(
        Axis::linear("goodput in 500 ms, Mbit/s"),
        vec![Series::of_bins("goodput", Ink::Colour(0), Mark::Steps, width, goodput)],
    );
    if figures.bursts.len() > STEMS_MAX {
        let lost = figures.series.lost.iter().take(whole).map(|lost| Some(f64::from(*lost)));
        let series = vec![Series::of_bins("packets lost", Ink::Colour(1), Mark::Steps, width, lost)];
        chart = chart.panel(Axis::linear("packets lost in 500 ms"), series);
    } else if !figures.bursts.is_empty() {
        let lost = figures.bursts.iter().map(|burst| Point::new(burst.at_s, f64::from(burst.packets)));
        let series = vec![Series::new("packets lost in a row", Ink::Colour(1), Mark::Stems, lost)];
        chart = chart.panel(Axis::linear("packets lost in a row"), series);
    }
    let rtt = figures.series.rtt_ms.iter().take(whole).copied();
    chart = chart.panel(
        Axis::linear("mean round trip in 500 ms, ms"),
        vec![Series::of_bins("round trip", Ink::Colour(2), Mark::Line, width, rtt)],
    );
    let mut notes = Vec::new();
    if let Some(drop) = figures.mean_drop {
        let percent = drop.abs() * 100.0;
        notes.push(if drop < 0.0 {
            format!("Goodput is {percent:.0} % higher on average in 500 ms with losses than in those before")
        } else {
            format!("A loss event costs {percent:.0} % of the goodput on average")
        });
    }
    if let Some(correlation) = figures.correlation {
        notes.push(format!("goodput and round trip correlate by {:.2}", correlation.coefficient));
    }
    chart.note = notes.join("; ");
    chart
}

fn burst_chart(figures: &RunFigures) -> Chart {
    let bars = figures.burst_lengths.iter().map(|(length, n)| Point::new(f64::from(*length), f64::from(*n)));
    let longest = figures.burst_lengths.keys().last().copied().unwrap_or(0);
    let label = "packets lost in a row";
    let lengths = match longest {
        0..=PLACES_MAX => Axis::places(label, (1..=longest).map(|length| length.to_string())),
        // One long outage leaves the short runs as they are.
        _ => Axis::log(label),
    };
    Chart::new(&format!("Losses come in runs, {} at {}", figures.direction, name(figures)), lengths)
        .panel(Axis::linear("how often"), vec![Series::new("", Ink::Colour(1), Mark::Stems, bars)])
}

fn method(document: &SweepDocument) -> Markup {
    html! {
        h2 { "How it was measured" }
        p {
            "Each packet leaves at its own time, at even distances. Sent, received and lost packets are counted by "
            "their numbers; rates are those of IP packets, goodput is UDP payload. The round trip is that of small "
            "packets, 50 a second, that go up and come back beside the load. The one-way delay variation is a "
            "packet's delay less the least of its run, without the drift of the clocks. The capacity is the best "
            "whole second (RFC 9097). The knee is the largest rate up to which the 95th percentile of the variation "
            "stays below " (KNEE_DELAY_MS) " ms and no more than " (KNEE_LOSS_PERCENT) " % is lost. “Search” is the run "
            "that looked for the capacity, with a rate that rises and falls. “Longest run” is of packets lost in a row. "
            "“Gap error” is by how much the distance of two packets differed from the planned one when they left, 99th "
            "percentile. A run that is not valid says why, and does not count for the capacity."
        }
        @if let Some(clock) = &document.clock {
            @let (ahead, gained) = clock_words(clock);
            p {
                "The server's clock is ahead by " (ahead) " ms: nothing better can be known without knowing how the "
                "two ways differ. It gains " (gained) "."
            }
        }
    }
}
