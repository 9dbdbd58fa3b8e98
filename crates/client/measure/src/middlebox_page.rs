//! Page about middleboxes on the path, for people.

use std::collections::BTreeMap;

use figures::chart::{Axis, Chart, Ink, Mark, Point, Series};
use figures::{Table, TableColumn};
use maud::{Markup, html};

use crate::document::{Document, Figures};
use crate::middlebox::verdict::{Group, groups, question};
use crate::middlebox::{CheckOutcome, Connection, MiddleboxDocument, MiddleboxFigures, NOT_ASKED};

/// Columns of what was found, on terminal and page.
fn columns<'a>() -> [TableColumn<'a, Group<'a>>; 3] {
    [
        ("test", "", &|group| question(group.test).to_owned()),
        ("result", "", &|group| group.verdict.to_owned()),
        ("ports", "", &|group| group.ports()),
    ]
}

impl Figures for MiddleboxFigures {
    const SCHEMA: &'static str = crate::middlebox::SCHEMA;
    const TITLE: &'static str = "What stands between this machine and the server";
    const PORT: &'static str = "port";

    fn verdict(document: &Document<Self>) -> String {
        crate::middlebox::verdict::verdict(document)
    }

    fn summary(document: &Document<Self>, width: usize) -> String {
        let wrapped = |text: &str, indent: &str| {
            figures::wrapped(text, width.saturating_sub(indent.len()))
                .iter()
                .map(|line| format!("{indent}{line}\n"))
                .collect::<String>()
        };
        let mut text = String::new();
        let all = groups(&document.findings);
        if !all.is_empty() {
            text += &format!("\n{}", Table::of(&all, &columns()));
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

    fn body(document: &Document<Self>) -> Markup {
        let all = groups(&document.findings);
        let look = |field: &str| (field == "found").then_some("different");
        let outcome = |group: &Group<'_>| {
            match group.outcome {
                CheckOutcome::Found => "found",
                CheckOutcome::Clear => "clear",
                CheckOutcome::Unknown => "unknown",
            }
            .to_owned()
        };
        let [test, result, ports] = columns();
        let table = Table::of(&all, &[test, result, ports, ("outcome", "", &outcome)]);
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
