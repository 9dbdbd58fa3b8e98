//! [`Written`]: values as flags and files write them.

use core::fmt::Display;
use core::str::FromStr;

use serde::de::{DeserializeOwned, Error};
use serde::{Deserialize, Deserializer};
use toml::Value;

/// A value that is read from its text. In a file a whole number needs no quotes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Written<T>(pub T);

impl<T: FromStr> FromStr for Written<T> {
    type Err = T::Err;

    fn from_str(text: &str) -> Result<Self, T::Err> {
        text.parse().map(Self)
    }
}

impl<'de, T: FromStr<Err: Display>> Deserialize<'de> for Written<T> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let text = text(deserializer)?;
        text.parse().map_err(|error| D::Error::custom(format!("invalid value '{text}': {error}")))
    }
}

/// The text of a value of a file.
pub(super) fn text<'de, D: Deserializer<'de>>(deserializer: D) -> Result<String, D::Error> {
    match Value::deserialize(deserializer)? {
        Value::String(text) => Ok(text),
        Value::Integer(number) => Ok(number.to_string()),
        _ => Err(D::Error::custom("is a text in quotes, such as \"5 s\"")),
    }
}

/// The values of a list, or one that stands alone.
pub(super) fn many<'de, T: DeserializeOwned, D: Deserializer<'de>>(
    deserializer: D,
) -> Result<Vec<T>, D::Error> {
    let items = match Value::deserialize(deserializer)? {
        Value::Array(items) => items,
        one => vec![one],
    };
    let items = items.into_iter().map(T::deserialize).collect::<Result<_, toml::de::Error>>();
    items.map_err(|error| D::Error::custom(error.message()))
}

/// A whole number from `MIN` to `MAX`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Within<const MIN: u32, const MAX: u32>(pub u32);

impl<const MIN: u32, const MAX: u32> FromStr for Within<MIN, MAX> {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let number: i64 = text.parse().map_err(|error: core::num::ParseIntError| error.to_string())?;
        let within = u32::try_from(number).ok().filter(|number| (MIN..=MAX).contains(number));
        within.map(Self).ok_or_else(|| format!("{number} is not in {MIN}..={MAX}"))
    }
}
