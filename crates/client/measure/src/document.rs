//! [`Document`]: what every measurement gives: who measured what, the verdict, and the figures.

use std::ops::Deref;

use maud::{Markup, html};
use serde::Serialize;

use crate::error::MeasureError;
use crate::maker::{Maker, Peer};

/// Figures of a measurement, and what is told of them.
pub trait Figures: Serialize + Sized {
    /// Name and version of the document.
    const SCHEMA: &'static str;
    /// Heading of the page.
    const TITLE: &'static str;
    /// Name of the server's port on the page.
    const PORT: &'static str;

    /// Result in plain words.
    fn verdict(document: &Document<Self>) -> String;

    /// Text for a terminal of so many columns, below the verdict.
    fn summary(document: &Document<Self>, columns: usize) -> String;

    /// Part of the page below the verdict.
    fn body(document: &Document<Self>) -> Markup;
}

/// Result of a measurement.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Document<F> {
    /// Name and version of the document: [`Figures::SCHEMA`].
    pub schema: &'static str,
    /// Maker of the measurement.
    pub made_by: Maker,
    /// Server that was measured against.
    pub server: Peer,
    /// In plain words.
    pub verdict: String,
    /// Reason why it is not the whole; none of one that is.
    pub incomplete: Option<String>,
    /// Figures that were measured.
    #[serde(flatten)]
    pub figures: F,
}

/// A document with the reason why it is not the whole; none of one that is.
pub(crate) type Measured<F> = (Document<F>, Option<MeasureError>);

impl<F> Deref for Document<F> {
    type Target = F;

    fn deref(&self) -> &F {
        &self.figures
    }
}

impl<F: Figures> Document<F> {
    pub(crate) fn of(made_by: Maker, server: Peer, figures: F, failure: Option<MeasureError>) -> Measured<F> {
        let incomplete = failure.as_ref().map(ToString::to_string);
        let verdict = String::new();
        let mut document = Self { schema: F::SCHEMA, made_by, server, verdict, incomplete, figures };
        document.verdict = F::verdict(&document);
        (document, failure)
    }

    /// Text for a terminal of so many columns: the verdict, and what there is beside it.
    #[must_use]
    pub fn summary(&self, columns: usize) -> String {
        figures::wrapped(&self.verdict, columns).join("\n") + "\n" + &F::summary(self, columns)
    }

    /// The whole page: the verdict, how it was measured, and the figures.
    #[must_use]
    pub fn page(&self) -> String {
        let Self { made_by, server, .. } = self;
        let body = html! {
            p class=(if self.incomplete.is_some() { "finding warning" } else { "finding" }) { (self.verdict) }
            p class="soft" {
                "Measured against " (server.host) " (" (server.address) ", " (F::PORT) " " (server.port)
                ") with Cellerator " (made_by.cellerator) ": " code { (made_by.command) }
            }
            (F::body(self))
        };
        figures::page::page(F::TITLE, "", &body)
    }
}

#[cfg(test)]
impl<F: Figures> Document<F> {
    /// A whole document of figures that nobody has measured.
    pub(crate) fn made_up(figures: F) -> Self {
        let made_by = Maker { cellerator: "0".to_owned(), command: "c".to_owned(), started_unix_s: 0 };
        let server =
            Peer { host: "h".to_owned(), address: "192.0.2.1".to_owned(), port: 7_311, ip_version: 4 };
        Self::of(made_by, server, figures, None).0
    }
}
