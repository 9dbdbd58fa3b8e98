//! Hops for people.

use figures::Table;
use figures::chart::{Axis, Chart, Ink, Mark, Point, Series};
use maud::{Markup, html};

use crate::document::{Document, Figures};
use crate::hops::{Hop, HopPhase, HopsDocument, HopsFigures};
use crate::verdict::{digits, known};

impl Figures for HopsFigures {
    const SCHEMA: &'static str = crate::hops::SCHEMA;
    const TITLE: &'static str = "Where on the way packets wait";
    const PORT: &'static str = "UDP port";

    fn verdict(document: &Document<Self>) -> String {
        crate::hops::verdict(document)
    }

    fn summary(document: &Document<Self>, columns: usize) -> String {
        let may_go = ["answers", "idle p95", "down p95", "up p95"];
        let mut text = format!("\n{}", table(document).for_terminal(columns, &may_go));
        for phase in &document.phases {
            phase.doubts.iter().for_each(|doubt| text += &format!("  ? {}: {doubt}\n", phase.load));
        }
        text
    }

    fn body(document: &Document<Self>) -> Markup {
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
        let answers = (sent > 0).then(|| came as f64 * 100.0 / sent as f64);
        let answers = known(answers, |percent| format!("{percent:.0}"));
        let mut fields = vec![hop.hop.to_string(), name(hop, document), answers];
        for load in &loads {
            let rtt = of(document, load, hop).and_then(|phase| phase.rtt);
            fields.extend([rtt.map(|rtt| rtt.p50_ms), rtt.map(|rtt| rtt.p95_ms)].map(|ms| known(ms, digits)));
        }
        fields
    };
    Table { headings, rows: document.hops.iter().map(row).collect() }
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
