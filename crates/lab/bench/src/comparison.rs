//! [`Comparison`]: which two rows make a figure, and what it should be.

use crate::Way;
use crate::results::{Aim, Figure, Sample, Spread};

/// Way of comparing the two values of a round.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Kind {
    Quotient,
    Difference,
    Alone,
}

/// A figure to be computed.
#[derive(Clone, Debug)]
pub(crate) struct Comparison {
    title: String,
    metric: &'static str,
    of: (String, Way),
    to: (String, Way),
    kind: Kind,
    factor: f64,
    unit: &'static str,
    digits: u8,
    aim: Option<Aim>,
}

impl Comparison {
    /// `metric` of `way` divided by that of `to`, in the same case.
    pub fn ratio(title: impl Into<String>, metric: &'static str, case: &str, way: Way, to: Way) -> Self {
        Self {
            title: title.into(),
            metric,
            of: (case.to_owned(), way),
            to: (case.to_owned(), to),
            kind: Kind::Quotient,
            factor: 1.0,
            unit: "",
            digits: 2,
            aim: None,
        }
    }

    /// `metric` of `way` divided by that in another case.
    pub fn between_cases(
        title: impl Into<String>,
        metric: &'static str,
        way: Way,
        of: &str,
        to: &str,
    ) -> Self {
        let of_one = Self::ratio(title, metric, of, way, way);
        Self { to: (to.to_owned(), way), ..of_one }
    }

    /// `metric` of `way` less that of `to`.
    pub fn difference(title: impl Into<String>, metric: &'static str, case: &str, way: Way, to: Way) -> Self {
        Self { kind: Kind::Difference, ..Self::ratio(title, metric, case, way, to) }
    }

    /// `metric` of `way` as it is.
    pub fn alone(title: impl Into<String>, metric: &'static str, case: &str, way: Way) -> Self {
        Self { kind: Kind::Alone, ..Self::ratio(title, metric, case, way, way) }
    }

    /// With a unit, and the digits that mean something.
    pub fn in_unit(self, unit: &'static str, digits: u8) -> Self {
        Self { unit, digits, ..self }
    }

    /// Should be this or more.
    pub fn at_least(self, bound: f64) -> Self {
        Self { aim: Some(Aim::AtLeast(bound)), ..self }
    }

    /// Should be this or less.
    pub fn at_most(self, bound: f64) -> Self {
        Self { aim: Some(Aim::AtMost(bound)), ..self }
    }

    /// The figure that `samples` give; `None` when no round has both values.
    pub fn figure(&self, samples: &[Sample]) -> Option<Figure> {
        let value = |(case, way): &(String, Way), round: u32| {
            let is_it = |s: &&Sample| s.case == *case && s.way == way.name() && s.round == round;
            samples.iter().find(is_it)?.values.get(self.metric).copied()
        };
        let rounds = samples.iter().map(|sample| sample.round).max().unwrap_or(0);
        let pair = |round| {
            let (of, to) = (value(&self.of, round)?, value(&self.to, round)?);
            let compared = match self.kind {
                Kind::Quotient if to == 0.0 => return None,
                Kind::Quotient => of / to,
                Kind::Difference => of - to,
                Kind::Alone => of,
            };
            Some(compared * self.factor)
        };
        let pairs: Vec<f64> = (1..=rounds).filter_map(pair).collect();
        Some(Figure {
            title: self.title.clone(),
            aim: self.aim,
            pairs: pairs.len() as u32,
            value: Spread::of(pairs)?,
            unit: self.unit.to_owned(),
            digits: self.digits,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn samples() -> Vec<Sample> {
        let mut all = Vec::new();
        // The echo itself varies; the third round of the engine failed.
        for (round, echo, engine) in
            [(1, 20.0, Some(10.0)), (2, 24.0, Some(6.0)), (3, 30.0, None), (4, 30.0, Some(10.0))]
        {
            all.push(Sample::new("1 flow", Way::Echo, round, [("rate", echo)]));
            all.extend(engine.map(|value| Sample::new("1 flow", Way::Adaptive, round, [("rate", value)])));
        }
        all
    }

    #[test]
    fn figures_are_taken_within_a_round() {
        let figure = Comparison::ratio("t", "rate", "1 flow", Way::Adaptive, Way::Echo)
            .at_least(0.3)
            .figure(&samples())
            .unwrap();
        assert_eq!(figure.value, Spread { median: 0.333_333, min: 0.25, max: 0.5 });
        assert_eq!((figure.pairs, figure.is_met()), (3, Some(true)));
        let figure = Comparison::difference("t", "rate", "1 flow", Way::Echo, Way::Adaptive)
            .at_most(17.0)
            .figure(&samples())
            .unwrap();
        assert_eq!((figure.value.median, figure.is_met()), (18.0, Some(false)));
        let alone = Comparison::alone("t", "rate", "1 flow", Way::Echo).figure(&samples()).unwrap();
        assert_eq!((alone.pairs, alone.is_met()), (4, None));
    }

    #[test]
    fn a_figure_without_its_peer_is_left_out() {
        assert!(
            Comparison::ratio("t", "rate", "1 flow", Way::Adaptive, Way::Haproxy)
                .figure(&samples())
                .is_none()
        );
        assert!(
            Comparison::between_cases("t", "rate", Way::Echo, "1 flow", "4 flows")
                .figure(&samples())
                .is_none()
        );
    }
}
