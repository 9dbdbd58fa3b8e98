//! TCP transfers for people.

use figures::chart::{Axis, Chart, Ink, Mark, Point, Series};
use figures::{Table, TableColumn};
use maud::{Markup, html};

use crate::document::{Document, Figures};
use crate::tcp::{Spread, TcpDocument, TcpFigures, TcpRow, TcpRun};
use crate::verdict::known;

impl Figures for TcpFigures {
    const SCHEMA: &'static str = crate::tcp::SCHEMA;
    const TITLE: &'static str = "What this path does to TCP";
    const PORT: &'static str = "port";

    fn verdict(document: &Document<Self>) -> String {
        crate::tcp::verdict(document)
    }

    fn summary(document: &Document<Self>, columns: usize) -> String {
        let table = rows(document).for_terminal(columns, &["runs", "loss", "limited by"]);
        let mut text = format!("\n{table}");
        let whole = transfers(document, &|run| run.limit.why.clone());
        // Where the reasons do not fit, what they are reasons for does; the page has them.
        let short = || transfers(document, &|run| run.limit.by.to_owned());
        if !document.runs.is_empty() {
            text += &format!("\n{}", if whole.width() <= columns { whole } else { short() });
        }
        text
    }

    fn body(document: &Document<Self>) -> Markup {
        html! {
            (rows(document).html(&|_| None, &|_| None))
            @for run in &document.runs {
                h2 { (heading(run)) }
                p { "Limited by " (run.limit.why) "." }
                (chart(run).figure())
            }
            (method())
        }
    }
}

/// Table of the limits of the transfers.
fn transfers(document: &TcpDocument, by: &dyn Fn(&TcpRun) -> String) -> Table {
    let mbps = |run: &TcpRun| format!("{:.2}", run.goodput_mbps);
    let columns: [TableColumn<'_, TcpRun>; 3] =
        [("transfer", "", &name), ("bandwidth", "Mbit/s", &mbps), ("limited by", "", by)];
    Table::of(&document.runs, &columns)
}

fn rows(document: &TcpDocument) -> Table {
    let spread = |spread: Option<Spread>| {
        known(spread, |Spread { mean, deviation }| match deviation {
            Some(deviation) => format!("{mean:.2} ±{deviation:.2}"),
            None => format!("{mean:.2}"),
        })
    };
    let columns: [TableColumn<'_, TcpRow>; 8] = [
        ("way", "", &|row| row.settings.direction.to_owned()),
        ("with", "", &|row| row.settings.words()),
        ("runs", "", &|row| row.runs.to_string()),
        ("bandwidth", "Mbit/s", &|row| spread(row.bandwidth_mbps)),
        ("RTT", "ms", &|row| spread(row.rtt_ms)),
        ("loss", "%", &|row| spread(row.loss_percent)),
        ("3WHS RTT", "ms", &|row| spread(row.handshake_ms)),
        ("limited by", "", &|row| row.limited_by.clone()),
    ];
    // Where nothing was asked for there is nothing to tell apart.
    let has_settings = document.rows.iter().any(|row| !row.settings.words().is_empty());
    let shown = columns.into_iter().filter(|(name, ..)| has_settings || *name != "with");
    Table::of(&document.rows, &shown.collect::<Vec<_>>())
}

/// Way, settings and number of a transfer.
fn name(run: &TcpRun) -> String {
    let (direction, words) = (run.settings.direction, run.settings.words());
    let with = if words.is_empty() { String::new() } else { format!(" ({words})") };
    format!("{direction}{with} {}", run.repetition)
}

fn heading(run: &TcpRun) -> String {
    format!("{}: {:.2} Mbit/s", name(run), run.goodput_mbps)
}

fn chart(run: &TcpRun) -> Chart {
    let of = |get: &dyn Fn(&crate::TcpSample) -> f64| -> Vec<Point> {
        run.samples.iter().map(|sample| Point::new(sample.at_s, get(sample))).collect()
    };
    let mss = f64::from(run.mss);
    let goodput = run.goodput_100ms_mbps.iter().map(|rate| Some(*rate));
    Chart::new(&format!("Over time: {}", name(run)), Axis::exact("s after the begin of the transfer"))
        .panel(
            Axis::linear("goodput in 100 ms, Mbit/s"),
            vec![Series::of_bins("goodput", Ink::Colour(0), Mark::Steps, 0.1, goodput)],
        )
        .panel(
            Axis::linear("windows, KB"),
            vec![
                Series::new(
                    "congestion window",
                    Ink::Colour(1),
                    Mark::Line,
                    of(&|s| f64::from(s.cwnd) * mss / 1e3),
                ),
                Series::new(
                    "receiver's window",
                    Ink::Colour(2),
                    Mark::Line,
                    of(&|s| f64::from(s.rwnd_bytes) / 1e3),
                ),
            ],
        )
        .panel(
            Axis::linear("smoothed round trip, ms"),
            vec![Series::new("round trip", Ink::Colour(3), Mark::Line, of(&|s| s.srtt_ms))],
        )
        .panel(
            Axis::linear("segments sent again"),
            vec![Series::new("sent again", Ink::Colour(4), Mark::Line, of(&|s| f64::from(s.retransmitted)))],
        )
}

fn method() -> Markup {
    html! {
        h2 { "How it was measured" }
        p {
            "Each transfer sends for a set time. Bandwidth is what the receiver got, from its first byte on. The round "
            "trip is the mean of the sender's smoothed one, every 100 ms. Loss is segments sent again over all data "
            "segments. 3WHS RTT is that of the handshake, from SYN to SYN/ACK at the client. Each figure of the table is "
            "the mean over the runs ± their standard deviation. What limited a transfer is what its sender's "
            "kernel says: for how long it had data to send, and for how much of that the receiver's window or its own "
            "buffer was in the way (TCP_INFO)."
        }
    }
}
