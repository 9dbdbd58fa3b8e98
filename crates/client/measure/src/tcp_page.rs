//! TCP transfers for people.

use figures::Table;
use figures::chart::{Axis, Chart, Ink, Mark, Point, Series};
use maud::{Markup, html};

use crate::tcp::{Spread, TcpDocument, TcpRun};

/// The verdict, the table of [MP], and a table of what limited each transfer.
#[must_use]
pub fn summary(document: &TcpDocument, columns: usize) -> String {
    let mut text = figures::wrapped(&document.verdict, columns).join("\n") + "\n";
    let (table, gone) = rows(document).fitting(columns, &["runs", "loss", "limited by"]);
    text += &format!("\n{table}");
    if !gone.is_empty() {
        text += &format!("  the terminal is too narrow for: {}\n", gone.join(", "));
    }
    let whole = transfers(document, |run| run.limit.why.clone());
    // Where the reasons do not fit, what they are reasons for does; the page has them.
    let short = || transfers(document, |run| run.limit.by.to_owned());
    if !document.runs.is_empty() {
        text += &format!("\n{}", if whole.width() <= columns { whole } else { short() });
    }
    text
}

/// Table of the limits of the transfers.
fn transfers(document: &TcpDocument, by: impl Fn(&TcpRun) -> String) -> Table {
    let row = |run: &TcpRun| vec![name(run), format!("{:.2}", run.goodput_mbps), by(run)];
    Table {
        headings: vec![("transfer", ""), ("bandwidth", "Mbit/s"), ("limited by", "")],
        rows: document.runs.iter().map(row).collect(),
    }
}

fn rows(document: &TcpDocument) -> Table {
    let mut table = all_columns(document);
    // Where nothing was asked for there is nothing to tell apart.
    if document.rows.iter().all(|row| row.settings.words().is_empty()) {
        table.headings.remove(1);
        table.rows.iter_mut().for_each(|row| drop(row.remove(1)));
    }
    table
}

fn all_columns(document: &TcpDocument) -> Table {
    let spread = |spread: Option<Spread>| match spread {
        Some(Spread { mean, deviation: Some(deviation) }) => format!("{mean:.2} ±{deviation:.2}"),
        Some(Spread { mean, .. }) => format!("{mean:.2}"),
        None => "–".to_owned(),
    };
    let rows = document.rows.iter().map(|row| {
        vec![
            row.settings.direction.to_owned(),
            row.settings.words(),
            row.runs.to_string(),
            spread(row.bandwidth_mbps),
            spread(row.rtt_ms),
            spread(row.loss_percent),
            spread(row.handshake_ms),
            row.limited_by.clone(),
        ]
    });
    Table {
        headings: vec![
            ("way", ""),
            ("with", ""),
            ("runs", ""),
            ("bandwidth", "Mbit/s"),
            ("RTT", "ms"),
            ("loss", "%"),
            ("3WHS RTT", "ms"),
            ("limited by", ""),
        ],
        rows: rows.collect(),
    }
}

/// The whole page.
#[must_use]
pub fn page(document: &TcpDocument) -> String {
    let is_partial = document.incomplete.is_some();
    let head = document.server.page_head(&document.verdict, is_partial, "port", &document.made_by);
    figures::page::page("What this path does to TCP", "", &html! { (head) (body(document)) })
}

/// Part of the page below the verdict.
pub(crate) fn body(document: &TcpDocument) -> Markup {
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
