//! [`Outcome`]: what an experiment found.

use serde::{Deserialize, Serialize};

use crate::{Figure, Table};

/// An aim, and what was reached.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub struct Check {
    /// What is to be so.
    pub claim: String,
    /// The bound.
    pub aim: f64,
    /// What came out; none where nothing was measured, which is a miss.
    pub measured: Option<f64>,
    /// The bound is the least allowed; otherwise the most.
    pub at_least: bool,
    /// It was reached.
    pub passed: bool,
}

impl Check {
    /// `measured` must not be below `aim`.
    #[must_use]
    pub fn at_least(claim: impl Into<String>, measured: f64, aim: f64) -> Self {
        let claim = claim.into();
        Self { claim, aim, measured: finite(measured), at_least: true, passed: measured >= aim }
    }
    /// `measured` must not be above `aim`.
    #[must_use]
    pub fn at_most(claim: impl Into<String>, measured: f64, aim: f64) -> Self {
        let claim = claim.into();
        Self { claim, aim, measured: finite(measured), at_least: false, passed: measured <= aim }
    }
    /// Both numbers and the bound's direction, as in `2.54 (at least 2.53)`.
    #[must_use]
    pub fn numbers(&self) -> String {
        let largest = self.measured.unwrap_or(0.0).abs().max(self.aim.abs());
        let digits = if largest < 10.0 { 3 } else { 1 };
        let word = if self.at_least { "at least" } else { "at most" };
        let measured =
            self.measured.map_or("nothing measured".to_owned(), |value| format!("{value:.digits$}"));
        format!("{measured} ({word} {:.digits$})", self.aim)
    }
}

fn finite(value: f64) -> Option<f64> {
    value.is_finite().then_some(value)
}

/// What an experiment found.
#[derive(Clone, PartialEq, Debug, Default, Serialize, Deserialize)]
pub struct Outcome {
    /// What we see, a sentence with figures from the runs.
    pub we_see: String,
    /// Tables.
    pub tables: Vec<Table>,
    /// Figures.
    pub figures: Vec<Figure>,
    /// How the link was fitted, where we differ from the paper, and why; a paragraph each.
    pub notes: Vec<String>,
    /// Aims.
    pub checks: Vec<Check>,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_bound_itself_is_inside_and_no_number_is_a_miss() {
        assert!(Check::at_least("a", 2.0, 2.0).passed && Check::at_most("a", 2.0, 2.0).passed);
        assert!(!Check::at_least("a", f64::NAN, 2.0).passed && !Check::at_most("a", f64::NAN, 2.0).passed);
        let text = serde_json::to_string(&Check::at_least("a", f64::NAN, 2.0)).unwrap();
        assert_eq!(serde_json::from_str::<Check>(&text).unwrap().measured, None);
        assert_eq!(Check::at_least("a", 1.5, 2.0).numbers(), "1.500 (at least 2.000)");
    }
}
