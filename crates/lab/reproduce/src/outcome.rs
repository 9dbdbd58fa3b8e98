//! [`Outcome`]: what an experiment found.

use serde::{Deserialize, Serialize};

use crate::{Facts, Figure, Source, Table};

/// An aim, and what was reached.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Check {
    /// Statement that is to hold.
    pub claim: String,
    /// The bound.
    pub aim: f64,
    /// Value measured; none where nothing was measured, which is a miss.
    pub measured: Option<f64>,
    /// Value that the same scenario files give in virtual time, beside a value from the lab.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub simulated: Option<f64>,
    /// Its own bound, where that is another one: bounds may be made of other runs' figures.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub simulated_aim: Option<f64>,
    /// The bound is the least allowed; otherwise the most.
    pub at_least: bool,
    /// It was reached.
    pub passed: bool,
}

impl Check {
    /// `measured` must not be below `aim`.
    #[must_use]
    pub fn at_least(claim: impl Into<String>, measured: f64, aim: f64) -> Self {
        Self {
            at_least: true,
            passed: measured.is_finite() && measured >= aim,
            ..Self::of(claim, measured, aim)
        }
    }
    /// `measured` must not be above `aim`.
    #[must_use]
    pub fn at_most(claim: impl Into<String>, measured: f64, aim: f64) -> Self {
        Self { passed: measured.is_finite() && measured <= aim, ..Self::of(claim, measured, aim) }
    }
    /// An upper bound that is not reached.
    fn of(claim: impl Into<String>, measured: f64, aim: f64) -> Self {
        let (claim, measured) = (claim.into(), finite(measured));
        Self { claim, aim, measured, simulated: None, simulated_aim: None, at_least: false, passed: false }
    }
    /// Tells whether the simulated value beside the lab's value reaches the aim.
    #[must_use]
    pub fn passes_simulated(&self) -> bool {
        let aim = self.simulated_aim.unwrap_or(self.aim);
        self.simulated.is_some_and(|value| if self.at_least { value >= aim } else { value <= aim })
    }
    /// All numbers and the bound's direction, as in `2.54 (at least 2.53)`, or `2.54 (simulated 2.55;
    /// at least 2.53)`; where the simulation has a bound of its own, as in `2.54 (simulated 2.55, at least 2.50; at
    /// least 2.53)`.
    #[must_use]
    pub fn numbers(&self) -> String {
        let largest = self.measured.unwrap_or(0.0).abs().max(self.aim.abs());
        let digits = if largest < 10.0 { 3 } else { 1 };
        let word = if self.at_least { "at least" } else { "at most" };
        let measured =
            self.measured.map_or("nothing measured".to_owned(), |value| format!("{value:.digits$}"));
        let aim = format!("{word} {:.digits$}", self.aim);
        let own = self.simulated_aim.map(|value| format!("{word} {value:.digits$}"));
        let own = own.filter(|own| *own != aim).map_or(String::new(), |own| format!(", {own}"));
        let simulated =
            self.simulated.map_or(String::new(), |value| format!("simulated {value:.digits$}{own}; "));
        format!("{measured} ({simulated}{aim})")
    }
}

impl Outcome {
    /// Puts what `simulation` found of the same files beside each value, aim and point; it is the same
    /// experiment's, so that all is in the same places.
    pub(crate) fn put_beside(&mut self, simulation: &Self) {
        for (check, simulated) in self.checks.iter_mut().zip(&simulation.checks) {
            check.simulated = simulated.measured.filter(|_| check.claim == simulated.claim);
            check.simulated_aim = check.simulated.and(Some(simulated.aim)).filter(|aim| *aim != check.aim);
        }
        for (table, simulated) in self.tables.iter_mut().zip(&simulation.tables) {
            table.put_beside(simulated);
        }
        for (figure, simulated) in self.figures.iter_mut().zip(&simulation.figures) {
            figure.put_beside(simulated);
        }
    }

    /// Sentence on the number of aims that the lab left out; none where it has them all.
    pub(crate) fn left_out(&self) -> Option<String> {
        let aims = match self.aims_left_out {
            0 => return None,
            1 => "1 aim belongs".to_owned(),
            several => format!("{several} aims belong"),
        };
        Some(format!(
            "{aims} to cases that only the simulator runs, or that are left out here for their length."
        ))
    }

    /// Drops what nothing was measured for, because it needs the simulator: aims, empty curves and
    /// panels, and rows and columns of tables without a value of ours. How many aims went is noted.
    pub(crate) fn keep_measured(&mut self) {
        let all = self.checks.len();
        self.checks.retain(|check| check.measured.is_some());
        self.aims_left_out = all - self.checks.len();
        for figure in &mut self.figures {
            for panel in &mut figure.panels {
                for series in &mut panel.series {
                    series.points.retain(|point| point.x.is_finite() && point.y.is_finite());
                }
                panel.series.retain(|series| !series.points.is_empty());
            }
            figure.panels.retain(|panel| panel.series.iter().any(|series| series.source != Source::Paper));
        }
        self.figures.retain(|figure| !figure.panels.is_empty());
        for table in &mut self.tables {
            table.keep_measured();
        }
        self.tables.retain(|table| !table.rows.is_empty());
    }
}

fn finite(value: f64) -> Option<f64> {
    value.is_finite().then_some(value)
}

/// Outcome of an experiment. Texts come from its prose and its facts.
#[derive(Clone, PartialEq, Debug, Default, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Outcome {
    /// Text of our observation, with figures from the runs.
    pub we_see: String,
    /// Values that its text has places for, by name: a number, null where nothing was measured, a list of
    /// them, or words.
    #[serde(default)]
    pub facts: Facts,
    /// Tables.
    pub tables: Vec<Table>,
    /// Figures.
    pub figures: Vec<Figure>,
    /// Notes on the fit of the link, on differences from the paper, and on the reasons; a paragraph each.
    pub notes: Vec<String>,
    /// Aims.
    pub checks: Vec<Check>,
    /// Aims in the lab that nothing was measured for.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub aims_left_out: usize,
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde passes a reference")]
fn is_zero(count: &usize) -> bool {
    *count == 0
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_nothing_was_measured_for_is_dropped() {
        let mut table =
            Table::new("t", "rate").column(Source::Paper, "p", "", 0).column(Source::Ours, "o", "", 0);
        table.row("run", vec![1.0.into(), 2.0.into()]);
        table.row("not run", vec![1.0.into()]);
        let series = |source, y: &[f64]| {
            let points = y.iter().map(|y| crate::Point::new(0.0, *y)).collect();
            crate::Series::new("s", source, crate::Mark::Line, points)
        };
        let axis = || crate::Axis::linear("y");
        let figure = Figure::new("f", axis())
            .panel(axis(), vec![series(Source::Paper, &[1.0]), series(Source::Ours, &[1.0])])
            .panel(axis(), vec![series(Source::Paper, &[1.0]), series(Source::Ours, &[])]);
        let mut outcome = Outcome {
            checks: vec![Check::at_least("a", 1.0, 0.0), Check::at_least("b", f64::NAN, 0.0)],
            figures: vec![figure],
            tables: vec![table],
            ..Outcome::default()
        };
        outcome.keep_measured();
        assert_eq!((outcome.checks.len(), outcome.figures[0].panels.len()), (1, 1));
        assert_eq!(outcome.tables[0].rows.len(), 1);
        assert_eq!(outcome.aims_left_out, 1);
        assert!(outcome.left_out().unwrap().starts_with("1 aim belongs"));
    }

    #[test]
    fn what_was_simulated_is_named_beside_the_labs_value() {
        let of = |measured: f64| Outcome {
            checks: vec![Check::at_least("a", measured, 2.0)],
            ..Outcome::default()
        };
        let mut lab = of(2.5);
        lab.put_beside(&of(1.5));
        let check = &lab.checks[0];
        assert_eq!(check.numbers(), "2.500 (simulated 1.500; at least 2.000)");
        assert!(check.passed && !check.passes_simulated());
    }

    #[test]
    fn what_was_simulated_is_held_against_its_own_bound() {
        let of = |measured: f64, aim: f64| Outcome {
            checks: vec![Check::at_least("a", measured, aim)],
            ..Outcome::default()
        };
        let mut lab = of(1.9, 1.8);
        lab.put_beside(&of(2.1, 2.2));
        let check = &lab.checks[0];
        assert_eq!(check.numbers(), "1.900 (simulated 2.100, at least 2.200; at least 1.800)");
        assert!(check.passed && !check.passes_simulated());
    }

    #[test]
    fn a_bound_itself_is_inside_and_no_number_is_a_miss() {
        assert!(Check::at_least("a", 2.0, 2.0).passed && Check::at_most("a", 2.0, 2.0).passed);
        assert!(!Check::at_least("a", f64::NAN, 2.0).passed && !Check::at_most("a", f64::NAN, 2.0).passed);
        // The least of no values at all is no number either.
        assert!(!Check::at_least("a", f64::INFINITY, 2.0).passed);
        let text = serde_json::to_string(&Check::at_least("a", f64::NAN, 2.0)).unwrap();
        assert_eq!(serde_json::from_str::<Check>(&text).unwrap().measured, None);
        assert_eq!(Check::at_least("a", 1.5, 2.0).numbers(), "1.500 (at least 2.000)");
    }

    #[test]
    fn digits_follow_the_larger_of_both_numbers() {
        assert_eq!(Check::at_most("a", 9.9, 9.0).numbers(), "9.900 (at most 9.000)");
        assert_eq!(Check::at_most("a", 10.0, 9.0).numbers(), "10.0 (at most 9.0)");
        assert_eq!(Check::at_most("a", -2.6, 12.8).numbers(), "-2.6 (at most 12.8)");
        assert_eq!(Check::at_least("a", f64::NAN, 2.0).numbers(), "nothing measured (at least 2.000)");
    }

    #[test]
    fn what_was_simulated_is_held_against_the_same_bound_in_its_direction() {
        let passes =
            |check: Check, simulated: f64| Check { simulated: Some(simulated), ..check }.passes_simulated();
        let (least, most) = (Check::at_least("a", 0.0, 2.0), Check::at_most("a", 0.0, 2.0));
        assert!(passes(least.clone(), 2.0) && !passes(least.clone(), 1.9));
        assert!(passes(most.clone(), 2.0) && !passes(most, 2.1));
        assert!(!least.passes_simulated(), "nothing was simulated");
    }

    /// Aims are the same by their claims, not by their places alone.
    #[test]
    fn another_claims_value_is_not_put_beside() {
        let of =
            |claim: &str| Outcome { checks: vec![Check::at_least(claim, 1.0, 2.0)], ..Outcome::default() };
        let mut lab = of("a");
        lab.put_beside(&of("b"));
        assert_eq!(lab.checks[0].simulated, None);
        lab.put_beside(&of("a"));
        assert_eq!(lab.checks[0].simulated, Some(1.0));
    }

    #[test]
    fn points_that_are_no_numbers_are_dropped_with_what_they_leave_empty() {
        let points = vec![crate::Point::new(0.0, f64::NAN), crate::Point::new(1.0, 2.0)];
        let series = |points| crate::Series::new("s", Source::Ours, crate::Mark::Line, points);
        let axis = || crate::Axis::linear("y");
        let kept = Figure::new("kept", axis()).panel(axis(), vec![series(points.clone())]);
        let gone = Figure::new("gone", axis()).panel(axis(), vec![series(points[..1].to_vec())]);
        let mut outcome = Outcome { figures: vec![gone, kept], ..Outcome::default() };
        outcome.keep_measured();
        assert_eq!(outcome.figures.len(), 1);
        assert_eq!((outcome.figures[0].name.as_str(), outcome.aims_left_out), ("kept", 0));
        assert_eq!(outcome.figures[0].panels[0].series[0].points, points[1..]);
    }
}
