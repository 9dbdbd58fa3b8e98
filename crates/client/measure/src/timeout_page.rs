//! Time-outs for people.

use figures::Table;
use maud::{Markup, html};

use crate::document::{Document, Figures};
use crate::timeout::{Bindings, Silence, TimeoutFigures};
use crate::verdict::{NONE, digits};

fn table(bindings: &Bindings) -> Table {
    let became = |silence: &Silence| match (silence.lived, &silence.why) {
        (Some(true), _) => "lived".to_owned(),
        (Some(false), _) => "died".to_owned(),
        (None, why) => format!("not known: {}", why.as_deref().unwrap_or(NONE)),
    };
    let silent = |silence: &Silence| digits(silence.seconds);
    Table::of(&bindings.silences, &[("silent for", "s", &silent), ("after it, the flow", "", &became)])
}

impl Figures for TimeoutFigures {
    const SCHEMA: &'static str = crate::timeout::SCHEMA;
    const TITLE: &'static str = "How long this path keeps idle flows";
    const PORT: &'static str = "port";

    fn verdict(document: &Document<Self>) -> String {
        crate::timeout::verdict(document)
    }

    fn summary(document: &Document<Self>, _: usize) -> String {
        let mut text = String::new();
        for bindings in &document.bindings {
            text += &format!("\n  {}\n{}", bindings.protocol, table(bindings));
        }
        text
    }

    fn body(document: &Document<Self>) -> Markup {
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
}
