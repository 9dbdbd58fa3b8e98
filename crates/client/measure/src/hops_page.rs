//! Hops for people.

use figures::Table;
use figures::chart::{Axis, Chart, Ink, Mark, Point, Series};
use maud::{Markup, html};

use crate::hops::{Hop, HopPhase, HopsDocument};
use crate::verdict::digits;

/// The verdict, and a table with a row for each hop.
#[must_use]
pub fn summary(document: &HopsDocument, columns: usize) -> String {
    let mut text = figures::wrapped(&document.verdict, columns).join("\n") + "\n";
    let (table, gone) = table(document).fitting(columns, &["answers", "idle p95", "down p95", "up p95"]);
    text += &format!("\n{table}");
    if !gone.is_empty() {
        text += &format!("  the terminal is too narrow for: {}\n", gone.join(", "));
    }
    for phase in &document.phases {
        phase.doubts.iter().for_each(|doubt| text += &format!("  ? {}: {doubt}\n", phase.load));
    }
    text
}

fn name(hop: &Hop, document: &HopsDocument) -> String {
    match (hop.is_server, hop.addresses.as_slice()) {
        (true, _) => format!("{} (the server)", document.server.address),
        (false, []) => "does not answer".to_owned(),
        (false, all) => all.join(", "),
    }
}

fn of<'a>(document: &'a HopsDocument, load: &str, hop: &Hop) -> Option<&'a HopPhase> {
    let phase = document.phases.iter().find(|phase| phase.load == load)?;
    phase.hops.iter().find(|row| row.hop == hop.hop)
}

fn table(document: &HopsDocument) -> Table {
    let loads: Vec<&'static str> = document.phases.iter().map(|phase| phase.load).collect();
    let mut headings = vec![("hop", ""), ("router", ""), ("answers", "%")];
    for load in &loads {
        headings.extend(match *load {
            "idle" => [("idle median", "ms"), ("idle p95", "ms")],
            "down" => [("down median", "ms"), ("down p95", "ms")],
            _ => [("up median", "ms"), ("up p95", "ms")],
        });
    }
    let row = |hop: &Hop| {
        let phases: Vec<&HopPhase> = loads.iter().filter_map(|load| of(document, load, hop)).collect();
        let (sent, came) = phases.iter().fold((0, 0), |(s, a), phase| (s + phase.sent, a + phase.answered));
        let answers =
            if sent == 0 { "–".to_owned() } else { format!("{:.0}", came as f64 * 100.0 / sent as f64) };
        let number = |value: Option<f64>| value.map_or("–".to_owned(), digits);
        let mut fields = vec![hop.hop.to_string(), name(hop, document), answers];
        for load in &loads {
            let rtt = of(document, load, hop).and_then(|phase| phase.rtt);
            fields.extend([number(rtt.map(|rtt| rtt.p50_ms)), number(rtt.map(|rtt| rtt.p95_ms))]);
        }
        fields
    };
    Table { headings, rows: document.hops.iter().map(row).collect() }
}

/// The whole page.
#[must_use]
pub fn page(document: &HopsDocument) -> String {
    let is_partial = document.incomplete.is_some();
    let head = document.server.page_head(&document.verdict, is_partial, "UDP port", &document.made_by);
    figures::page::page("Where on the way packets wait", "", &html! { (head) (body(document)) })
}

/// Part of the page below the verdict.
pub(crate) fn body(document: &HopsDocument) -> Markup {
    html! {
        (table(document).html(&|_| None, &|field| (field == "does not answer").then_some("less")))
        @for phase in &document.phases {
            @for doubt in &phase.doubts { p class="finding warning" { (phase.load) ": " (doubt) } }
        }
        @if document.phases.iter().any(|phase| phase.hops.iter().any(|hop| hop.rtt.is_some())) {
            (chart(document).figure())
        }
        (method())
    }
}

fn chart(document: &HopsDocument) -> Chart {
    let series = document.phases.iter().enumerate().map(|(at, phase)| {
        let points =
            phase.hops.iter().filter_map(|hop| Some(Point::new(f64::from(hop.hop), hop.rtt?.p50_ms)));
        let name = if phase.load == "idle" { "idle".to_owned() } else { format!("loaded {}", phase.load) };
        Series::new(&name, Ink::Colour(at), Mark::Dotted, points)
    });
    let hops = document.hops.iter().map(|hop| match hop.is_server {
        true => format!("{} (server)", hop.hop),
        false => hop.hop.to_string(),
    });
    Chart::new("Round trip to each hop", Axis::places("hop", hops))
        .panel(Axis::linear("median round trip, ms"), series.collect())
}

fn method() -> Markup {
    html! {
        h2 { "How it was measured" }
        p {
            "Small UDP packets live for one hop, for two, and so on. The router at which one runs out says so by ICMP, "
            "which needs no root; the server answers the last ones. The time that a load adds to a hop is waiting "
            "somewhere before it. A router may be slow to answer and still fast to forward, so only what all later hops "
            "have too counts. Many routers answer only about one packet in a second: answers that lack are no loss."
        }
    }
}
