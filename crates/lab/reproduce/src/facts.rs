//! [`Facts`]: values by name, for the text about an experiment.

use std::collections::BTreeMap;

use figures::stats::Moments;
use serde::{Deserialize, Serialize};

use crate::prose::ProseError;

/// Text in place of a number that was not measured.
const NOTHING: &str = "(nothing measured)";

/// A value that a text has a place for.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(untagged)]
pub enum Fact {
    /// A number; none where nothing was measured.
    Number(Option<f64>),
    /// Words.
    Text(String),
    /// Numbers in a row.
    Numbers(Vec<Option<f64>>),
}

/// Values by name, for the text about an experiment.
#[derive(Clone, PartialEq, Debug, Default, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(transparent)]
pub struct Facts(BTreeMap<String, Fact>);

impl Facts {
    /// The facts of these names.
    pub(crate) fn of<const N: usize>(facts: [(&str, Fact); N]) -> Self {
        Self(facts.into_iter().map(|(name, fact)| (name.to_owned(), fact)).collect())
    }

    /// Their names.
    pub(crate) fn names(&self) -> impl Iterator<Item = &str> {
        self.0.keys().map(String::as_str)
    }

    /// The fact as text: numbers with `decimals`, which text must not have.
    pub(crate) fn show(&self, name: &str, decimals: Option<usize>) -> Result<String, ProseError> {
        let wrong = |problem| Err(ProseError::Kind { name: name.to_owned(), problem });
        let fact = self.0.get(name).ok_or_else(|| ProseError::Unknown(name.to_owned()))?;
        let number = |value: &Option<f64>, decimals: usize| {
            value.map_or_else(|| NOTHING.to_owned(), |value| format!("{value:.decimals$}"))
        };
        match (fact, decimals) {
            (Fact::Text(text), None) => Ok(text.clone()),
            (Fact::Number(value), Some(decimals)) => Ok(number(value, decimals)),
            (Fact::Numbers(values), Some(decimals)) => {
                Ok(values.iter().map(|value| number(value, decimals)).collect::<Vec<_>>().join(", "))
            }
            (Fact::Text(_), Some(_)) => wrong("is text: it has no decimals"),
            (Fact::Number(_) | Fact::Numbers(_), None) => wrong("is a number: say its decimals, as in `:2`"),
        }
    }
}

impl From<f64> for Fact {
    fn from(value: f64) -> Self {
        Self::Number(Some(value).filter(|value| value.is_finite()))
    }
}
impl From<usize> for Fact {
    fn from(count: usize) -> Self {
        Self::from(count as f64)
    }
}
impl From<Option<Moments>> for Fact {
    fn from(moments: Option<Moments>) -> Self {
        moments.map_or(Self::Number(None), |moments| moments.mean.into())
    }
}
impl From<Vec<f64>> for Fact {
    fn from(values: Vec<f64>) -> Self {
        Self::Numbers(values.into_iter().map(|value| Some(value).filter(|v| v.is_finite())).collect())
    }
}
impl From<String> for Fact {
    fn from(text: String) -> Self {
        Self::Text(text)
    }
}
impl From<&str> for Fact {
    fn from(text: &str) -> Self {
        Self::Text(text.to_owned())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn facts() -> Facts {
        Facts::of([
            ("gain", 3.535.into()),
            ("count", 10_usize.into()),
            ("none", f64::NAN.into()),
            ("shares", vec![0.934, f64::INFINITY, 0.9].into()),
            ("rates", "1.45 (CUBIC)".into()),
            ("empty", Fact::from(None::<Moments>)),
        ])
    }

    #[test]
    fn numbers_are_shown_with_the_decimals_of_their_place() {
        let facts = facts();
        let show = |name, decimals| facts.show(name, Some(decimals)).unwrap();
        assert_eq!(
            (show("gain", 2), show("gain", 0), show("count", 0)),
            ("3.54".into(), "4".into(), "10".into())
        );
        assert_eq!(show("none", 1), NOTHING);
        assert_eq!(show("empty", 1), NOTHING);
        assert_eq!(show("shares", 2), format!("0.93, {NOTHING}, 0.90"));
        assert_eq!(facts.show("rates", None).unwrap(), "1.45 (CUBIC)");
    }

    #[test]
    fn a_name_or_kind_that_does_not_fit_is_said_in_one_line() {
        let facts = facts();
        let said = |name: &str, decimals| facts.show(name, decimals).unwrap_err().to_string();
        assert_eq!(said("gian", Some(1)), "`{{gian}}` has no value: the experiment has no fact of that name");
        assert_eq!(said("gain", None), "`{{gain}}` is a number: say its decimals, as in `:2`");
        assert_eq!(said("shares", None), "`{{shares}}` is a number: say its decimals, as in `:2`");
        assert_eq!(said("rates", Some(2)), "`{{rates}}` is text: it has no decimals");
    }

    #[test]
    fn what_is_stored_is_read_back() {
        let text = serde_json::to_string(&facts()).unwrap();
        assert!(text.contains(r#""none":null"#) && text.contains(r#""shares":[0.934,null,0.9]"#), "{text}");
        assert_eq!(serde_json::from_str::<Facts>(&text).unwrap(), facts());
    }
}
