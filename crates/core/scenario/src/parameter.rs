//! [`parameter_value`]: values of parameters as people write them.

use control::ParameterValue;
use units::{Bytes, Duration, Rate};

use crate::Quantity;

/// Reads `250`, `true`, `20 ms`, `5 Mbit/s`, `10 KB`, `off` or a name; none for anything else.
#[must_use]
pub fn parameter_value(text: &str) -> Option<ParameterValue> {
    let text = text.trim();
    match text {
        "off" | "none" => return Some(ParameterValue::Off),
        "true" | "yes" => return Some(ParameterValue::Flag(true)),
        "false" | "no" => return Some(ParameterValue::Flag(false)),
        _ => {}
    }
    let count = || text.parse().ok().map(ParameterValue::Count);
    let time = || text.parse::<Quantity<Duration>>().ok().map(|q| ParameterValue::Time(q.0));
    let rate = || text.parse::<Quantity<Rate>>().ok().map(|q| ParameterValue::Rate(q.0));
    let size = || text.parse::<Quantity<Bytes>>().ok().map(|q| ParameterValue::Size(q.0));
    let is_word = text.starts_with(|c: char| c.is_ascii_alphabetic());
    let word = || is_word.then(|| ParameterValue::Word(text.to_owned()));
    count().or_else(time).or_else(rate).or_else(size).or_else(word)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_kind_is_told_by_its_unit() {
        let cases = [
            ("250", ParameterValue::Count(250)),
            ("true", ParameterValue::Flag(true)),
            ("20ms", ParameterValue::Time(Duration::from_millis(20))),
            ("1.5 s", ParameterValue::Time(Duration::from_millis(1_500))),
            ("5 Mbit/s", ParameterValue::Rate(Rate::from_mbps(5))),
            ("10 KB", ParameterValue::Size(Bytes::new(10_000))),
            ("off", ParameterValue::Off),
            ("in-flight", ParameterValue::Word("in-flight".to_owned())),
        ];
        for (text, value) in cases {
            assert_eq!(parameter_value(text), Some(value), "{text}");
        }
        assert_eq!(parameter_value("20 parsecs"), None);
        assert_eq!(parameter_value(""), None);
    }
}
