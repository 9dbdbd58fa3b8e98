//! Time-outs for people.

use figures::Table;
use maud::{Markup, html};

use crate::timeout::{Bindings, TimeoutDocument};
use crate::verdict::digits;

fn table(bindings: &Bindings) -> Table {
    let rows = bindings.silences.iter().map(|silence| {
        let word = match (silence.lived, &silence.why) {
            (Some(true), _) => "lived".to_owned(),
            (Some(false), _) => "died".to_owned(),
            (None, why) => format!("not known: {}", why.as_deref().unwrap_or("–")),
        };
        vec![digits(silence.seconds), word]
    });
    Table { headings: vec![("silent for", "s"), ("after it, the flow", "")], rows: rows.collect() }
}

/// The verdict, and a table for each protocol.
#[must_use]
pub fn summary(document: &TimeoutDocument, columns: usize) -> String {
    let mut text = figures::wrapped(&document.verdict, columns).join("\n") + "\n";
    for bindings in &document.bindings {
        text += &format!("\n  {}\n{}", bindings.protocol, table(bindings));
    }
    text
}

/// The whole page.
#[must_use]
pub fn page(document: &TimeoutDocument) -> String {
    let is_partial = document.incomplete.is_some();
    let head = document.server.page_head(&document.verdict, is_partial, "port", &document.made_by);
    figures::page::page("How long this path keeps idle flows", "", &html! { (head) (body(document)) })
}

/// Part of the page below the verdict.
pub(crate) fn body(document: &TimeoutDocument) -> Markup {
    html! {
        @for bindings in &document.bindings {
            h2 { (bindings.protocol.to_uppercase()) }
            (table(bindings).html(&|_| None, &|field| match field {
                "lived" => Some("equal"),
                "died" => Some("different"),
                field if field.starts_with("not known") => Some("less"),
                _ => None,
            }))
        }
        h2 { "How it was measured" }
        p {
            "A NAT or a firewall on the way remembers each flow, and forgets one that is silent for too long: then it "
            "has died, and what the server sends does not come any more. Each silence had a flow of its own, all at "
            "once. Nothing went over a flow until its time was over; then the server spoke first, because a packet "
            "of the client would have made the flow known again. Who needs a connection to stay must send "
            "something more often than the shortest silence that died; the verdict names a time with a margin."
        }
    }
}
