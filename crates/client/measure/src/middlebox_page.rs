//! Page about middleboxes on the path, for people.

use std::collections::BTreeMap;

use figures::Table;
use figures::chart::{Axis, Chart, Ink, Mark, Point, Series};
use maud::{Markup, html};

use crate::middlebox::verdict::{groups, question};
use crate::middlebox::{CheckOutcome, Connection, MiddleboxDocument, NOT_ASKED};

/// The verdict, a line for each test, and the evidence of what was found.
#[must_use]
pub fn summary(document: &MiddleboxDocument, columns: usize) -> String {
    let wrapped = |text: &str, indent: &str| {
        figures::wrapped(text, columns.saturating_sub(indent.len()))
            .iter()
            .map(|line| format!("{indent}{line}\n"))
            .collect::<String>()
    };
    let mut text = wrapped(&document.verdict, "");
    let all = groups(&document.findings);
    let rows = all
        .iter()
        .map(|group| vec![question(group.test).to_owned(), group.verdict.to_owned(), group.ports()]);
    let table = Table { headings: vec![("test", ""), ("result", ""), ("ports", "")], rows: rows.collect() };
    if !all.is_empty() {
        text += &format!("\n{table}");
    }
    for group in all.iter().filter(|group| group.outcome != CheckOutcome::Clear) {
        if let Some(finding) = group.findings.first() {
            let what = question(group.test).trim_end_matches('?');
            let told = format!("{what}, port {}: {}", finding.port, finding.evidence);
            text += &format!("\n{}", wrapped(&told, "  "));
        }
    }
    for (why, ports) in untested(document).iter().filter(|(why, _)| **why != NOT_ASKED) {
        text += &wrapped(&format!("not tested: port {ports}: {why}"), "  ");
    }
    for lack in &document.not_done {
        text += &wrapped(&format!("not done: {}: {}", lack.what, lack.why), "  ");
    }
    text
}

/// Reasons why ports were not tested, and which.
fn untested(document: &MiddleboxDocument) -> BTreeMap<&str, String> {
    let mut by_reason: BTreeMap<&str, Vec<String>> = BTreeMap::new();
    for port in &document.ports {
        if let Some(why) = &port.untested {
            by_reason.entry(why).or_default().push(port.port.to_string());
        }
    }
    by_reason.into_iter().map(|(why, ports)| (why, ports.join(", "))).collect()
}

/// The whole page.
#[must_use]
pub fn page(document: &MiddleboxDocument) -> String {
    let is_warning = document.incomplete.is_some();
    let head = document.server.page_head(&document.verdict, is_warning, "port", &document.made_by);
    let title = "What stands between this machine and the server";
    figures::page::page(title, "", &html! { (head) (body(document)) })
}

/// Part of the page below the verdict.
pub(crate) fn body(document: &MiddleboxDocument) -> Markup {
    let all = groups(&document.findings);
    let look = |field: &str| (field == "found").then_some("different");
    let rows = all.iter().map(|group| {
        let outcome = match group.outcome {
            CheckOutcome::Found => "found",
            CheckOutcome::Clear => "clear",
            CheckOutcome::Unknown => "unknown",
        };
        vec![question(group.test).to_owned(), group.verdict.to_owned(), group.ports(), outcome.to_owned()]
    });
    let table = Table {
        headings: vec![("test", ""), ("result", ""), ("ports", ""), ("outcome", "")],
        rows: rows.collect(),
    };
    let untested = untested(document);
    html! {
        (table.html(&|_| None, &look))
        @if document.connections.iter().any(|connection| !connection.pieces.is_empty()) {
            h2 { "When the server's data was acknowledged" }
            p {
                "Each point is a piece of data that the server sent. This machine acknowledged nothing "
                "before "
                (document.delay_s) " s: a point below that line was acknowledged by something in between."
            }
            (chart(document).figure())
        }
        @if !untested.is_empty() || !document.not_done.is_empty() {
            h2 { "What was not tested" }
            ul {
                @for (why, ports) in &untested { li { "Port " (ports) ": " (why) "." } }
                @for lack in &document.not_done { li { (lack.what) ": " (lack.why) "." } }
            }
        }
        h2 { "Evidence" }
        @for group in &all {
            h3 { (question(group.test).trim_end_matches('?')) ": " (group.verdict) }
            ul {
                @for finding in &group.findings { li { "Port " (finding.port) ": " (finding.evidence) "." } }
            }
        }
        (method())
    }
}

fn chart(document: &MiddleboxDocument) -> Chart {
    let with_pieces: Vec<&Connection> =
        document.connections.iter().filter(|connection| !connection.pieces.is_empty()).collect();
    let last = with_pieces.iter().flat_map(|connection| &connection.pieces).map(|piece| piece.at_ms);
    let last_s = last.max_by(f64::total_cmp).unwrap_or(0.0) / 1e3;
    let limit =
        [Point::new(0.0, document.delay_s * 1e3), Point::new(last_s.max(0.1), document.delay_s * 1e3)];
    let mut series = vec![Series::new("this machine's delay", Ink::Limit, Mark::Line, limit)];
    for (number, connection) in with_pieces.iter().enumerate() {
        let points = connection
            .pieces
            .iter()
            .filter_map(|piece| Some(Point::new(piece.at_ms / 1e3, piece.acknowledged_after_ms?)));
        let name = format!("port {}", connection.port);
        series.push(Series::new(&name, Ink::Colour(number), Mark::Dots, points));
    }
    Chart::new("Pieces of data by the time at which each was sent", Axis::exact("sent, s"))
        .panel(Axis::log("acknowledged after, ms"), series)
}

fn method() -> Markup {
    html! {
        h2 { "How it was measured" }
        p {
            "Split: this machine delays every acknowledgement of data. The server sends small pieces and sees when "
            "each is acknowledged. What is acknowledged sooner than the delay was acknowledged by something else. "
            "Beside it, a connection reads nothing: what the server has acknowledgements for and this machine has "
            "not got is held by something else."
        }
        p {
            "Options: a connection for each, whose SYN this machine writes itself. The server's kernel keeps the SYN "
            "as it came, and the two are compared."
        }
        p {
            "Cache: the same request three times; the server counts those that reach it. Handshake: the least time "
            "to a SYN/ACK against the least time to an answer. A port where nobody listens must be refused by a reset."
        }
    }
}
