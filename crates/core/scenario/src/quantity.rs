//! [`Quantity`]: numbers with a unit as people write them, `"5.6 Mbit/s"`, `"26 ms"`, `"300 packets"`.
//!
//! Parsing is exact: decimal digits are scaled in 128-bit integers, never through floats. Printing
//! chooses the largest unit that needs no rounding, so that text → value → text → value is the
//! identity.

use core::fmt;
use core::str::FromStr;

use serde::{Deserialize, Deserializer, Serialize, Serializer};
use units::{Bytes, Duration, Rate};

/// A kind of quantity: its units and how it is stored.
pub trait Kind: Copy {
    /// Name of the kind in messages, with article: `a rate`.
    const WHAT: &'static str;
    /// An example that parses.
    const EXAMPLE: &'static str;
    /// Units, smallest first: name and how many stored steps one unit has.
    const UNITS: &'static [(&'static str, u64)];
    /// Makes it from stored steps (bits per second, nanoseconds, bytes, …).
    fn from_steps(steps: u64) -> Self;
    /// Gives the stored steps.
    fn steps(self) -> u64;
    /// Refuses values outside the kind's range with a reason.
    ///
    /// # Errors
    /// The reason as a clause: `more than 100 %`.
    fn check(_steps: u64) -> Result<(), &'static str> {
        Ok(())
    }
}

impl Kind for Rate {
    const WHAT: &'static str = "a rate";
    const EXAMPLE: &'static str = "5.6 Mbit/s";
    const UNITS: &'static [(&'static str, u64)] =
        &[("bit/s", 1), ("kbit/s", 1_000), ("Mbit/s", 1_000_000), ("Gbit/s", 1_000_000_000)];
    fn from_steps(steps: u64) -> Self {
        Self::from_bps(steps)
    }
    fn steps(self) -> u64 {
        self.as_bps()
    }
}

impl Kind for Duration {
    const WHAT: &'static str = "a time";
    const EXAMPLE: &'static str = "26 ms";
    const UNITS: &'static [(&'static str, u64)] = &[
        ("ns", 1),
        ("us", 1_000),
        ("µs", 1_000),
        ("ms", 1_000_000),
        ("s", 1_000_000_000),
        ("min", 60_000_000_000),
        ("h", 3_600_000_000_000),
        ("d", 86_400_000_000_000),
    ];
    fn from_steps(steps: u64) -> Self {
        Self::from_nanos(steps)
    }
    fn steps(self) -> u64 {
        self.as_nanos()
    }
}

impl Kind for Bytes {
    const WHAT: &'static str = "an amount of data";
    const EXAMPLE: &'static str = "10 MB";
    const UNITS: &'static [(&'static str, u64)] = &[
        ("B", 1),
        ("KB", 1_000),
        ("KiB", 1 << 10),
        ("MB", 1_000_000),
        ("MiB", 1 << 20),
        ("GB", 1_000_000_000),
        ("GiB", 1 << 30),
    ];
    fn from_steps(steps: u64) -> Self {
        Self::new(steps)
    }
    fn steps(self) -> u64 {
        self.get()
    }
}

/// A probability in parts per million, 0 to 1,000,000, written in percent.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug, Default)]
pub struct Probability {
    ppm: u32,
}

impl Probability {
    /// `ppm` parts per million; more than a million is taken as a million.
    #[must_use]
    pub const fn from_ppm(ppm: u32) -> Self {
        Self { ppm: if ppm > 1_000_000 { 1_000_000 } else { ppm } }
    }
    /// Parts per million.
    #[must_use]
    pub const fn ppm(self) -> u32 {
        self.ppm
    }
}

impl Kind for Probability {
    const WHAT: &'static str = "a probability";
    const EXAMPLE: &'static str = "0.5 %";
    const UNITS: &'static [(&'static str, u64)] = &[("%", 10_000)];
    fn from_steps(steps: u64) -> Self {
        Self::from_ppm(u32::try_from(steps).unwrap_or(u32::MAX))
    }
    fn steps(self) -> u64 {
        u64::from(self.ppm)
    }
    fn check(steps: u64) -> Result<(), &'static str> {
        if steps > 1_000_000 { Err("more than 100 %") } else { Ok(()) }
    }
}

/// A value of kind `T`, read from and written as text with a unit.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct Quantity<T>(pub T);

/// Reason why a quantity was refused: one sentence with the units that are allowed.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct QuantityError(String);

impl<T: Kind> FromStr for Quantity<T> {
    type Err = QuantityError;

    /// Reads `12.5 kbit/s`; the space before the unit may be left out.
    fn from_str(text: &str) -> Result<Self, QuantityError> {
        let trimmed = text.trim();
        let split = trimmed.find(|c: char| !(c.is_ascii_digit() || c == '.')).unwrap_or(trimmed.len());
        let (number, unit) = (&trimmed[..split], trimmed[split..].trim());
        let Some(&(_, scale)) = T::UNITS.iter().find(|(name, _)| *name == unit) else {
            return Err(refuse::<T>(text, if unit.is_empty() { "no unit" } else { "unknown unit" }));
        };
        let steps = scaled(number, scale).map_err(|why| refuse::<T>(text, why))?;
        T::check(steps).map_err(|why| refuse::<T>(text, why))?;
        Ok(Self(T::from_steps(steps)))
    }
}

/// `number` (decimal digits, at most one point) times `scale`, rounded down.
fn scaled(number: &str, scale: u64) -> Result<u64, &'static str> {
    let (whole, fraction) = number.split_once('.').unwrap_or((number, ""));
    let no_digits = whole.is_empty() && fraction.is_empty();
    if no_digits || fraction.contains('.') {
        return Err("not a number");
    }
    let digits = |s: &str| if s.is_empty() { Some(0) } else { s.parse::<u128>().ok() };
    let too_large = "too large";
    let whole = digits(whole).ok_or(too_large)?;
    // More than 18 decimals are below every unit's step.
    let fraction = &fraction[..fraction.len().min(18)];
    let places = u32::try_from(fraction.len()).map_err(|_| too_large)?;
    let fraction = digits(fraction).ok_or(too_large)? * u128::from(scale) / 10u128.pow(places);
    let steps =
        whole.checked_mul(u128::from(scale)).and_then(|w| w.checked_add(fraction)).ok_or(too_large)?;
    u64::try_from(steps).map_err(|_| too_large)
}

fn refuse<T: Kind>(text: &str, why: &str) -> QuantityError {
    let units: Vec<&str> = T::UNITS.iter().map(|(name, _)| *name).collect();
    QuantityError(format!(
        "`{text}` is not {}: {why}; write it like \"{}\" (units: {})",
        T::WHAT,
        T::EXAMPLE,
        units.join(", ")
    ))
}

impl<T: Kind> fmt::Display for Quantity<T> {
    /// Prints in the largest unit that gives at most three exact decimals: `5.6 Mbit/s`.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let steps = self.0.steps();
        let exact = |scale: u64| (u128::from(steps) * 1_000).is_multiple_of(u128::from(scale));
        let decimal = |name: &str| !name.ends_with("iB") && !["us", "min", "h", "d"].contains(&name);
        let fits = |&&(name, scale): &&(&str, u64)| decimal(name) && steps >= scale && exact(scale);
        let Some(&(unit, scale)) = T::UNITS.iter().rev().find(fits).or(T::UNITS.first()) else {
            return write!(f, "{steps}");
        };
        let (mut whole, mut rest) = (steps / scale, u128::from(steps % scale));
        write!(f, "{whole}")?;
        if rest > 0 {
            f.write_str(".")?;
        }
        // Scales are 2^a·5^b, so the digits end.
        while rest > 0 {
            rest *= 10;
            whole = u64::try_from(rest / u128::from(scale)).unwrap_or(0);
            rest %= u128::from(scale);
            write!(f, "{whole}")?;
        }
        write!(f, " {unit}")
    }
}

impl<T: Kind> fmt::Debug for Quantity<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

impl<T: Kind> Serialize for Quantity<T> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

impl<'de, T: Kind> Deserialize<'de> for Quantity<T> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        text::deserialize(deserializer, |t| t.parse(), |t| refuse::<T>(t, "no unit"))
    }
}

/// Limit of a queue, in bytes or packets.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum QueueLimit {
    /// Limit in bytes of IP packets.
    Bytes(Bytes),
    /// Limit in packets.
    Packets(u32),
}

impl FromStr for QueueLimit {
    type Err = QuantityError;

    /// Reads `300 packets` or `256 KB`.
    fn from_str(text: &str) -> Result<Self, QuantityError> {
        let refused = || {
            QuantityError(format!(
                "`{text}` is not a queue limit: write it like \"300 packets\" or \"256 KB\" (units: \
                 packets, B, KB, KiB, MB, MiB, GB, GiB)"
            ))
        };
        if let Some(number) = text.trim().strip_suffix("packets") {
            return number.trim().parse().map(Self::Packets).map_err(|_| refused());
        }
        text.parse::<Quantity<Bytes>>().map(|q| Self::Bytes(q.0)).map_err(|_| refused())
    }
}

impl fmt::Display for QueueLimit {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Bytes(n) => Quantity(*n).fmt(f),
            Self::Packets(n) => write!(f, "{n} packets"),
        }
    }
}

impl Serialize for QueueLimit {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

impl<'de> Deserialize<'de> for QueueLimit {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        text::deserialize(
            deserializer,
            |t| t.parse(),
            |t| QuantityError(format!("`{t}` has no unit: write it like \"{t} packets\" or \"{t} KB\"")),
        )
    }
}

/// Reading a text value so that a bare number gets a message about its missing unit.
mod text {
    use super::QuantityError;
    use core::fmt;
    use serde::de::{Deserializer, Error, Visitor};

    struct Text<P, N>(P, N);

    pub(super) fn deserialize<'de, D, V, P, N>(deserializer: D, parse: P, bare: N) -> Result<V, D::Error>
    where
        D: Deserializer<'de>,
        P: Fn(&str) -> Result<V, QuantityError>,
        N: Fn(&str) -> QuantityError,
    {
        deserializer.deserialize_any(Text(parse, bare))
    }

    impl<'de, V, P, N> Visitor<'de> for Text<P, N>
    where
        P: Fn(&str) -> Result<V, QuantityError>,
        N: Fn(&str) -> QuantityError,
    {
        type Value = V;
        fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
            f.write_str("a text with a number and a unit")
        }
        fn visit_str<E: Error>(self, text: &str) -> Result<V, E> {
            (self.0)(text).map_err(E::custom)
        }
        fn visit_i64<E: Error>(self, n: i64) -> Result<V, E> {
            Err(E::custom((self.1)(&n.to_string())))
        }
        fn visit_u64<E: Error>(self, n: u64) -> Result<V, E> {
            Err(E::custom((self.1)(&n.to_string())))
        }
        fn visit_f64<E: Error>(self, n: f64) -> Result<V, E> {
            Err(E::custom((self.1)(&n.to_string())))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn rate(text: &str) -> Result<u64, String> {
        text.parse::<Quantity<Rate>>().map(|q| q.0.as_bps()).map_err(|e| e.to_string())
    }

    #[test]
    fn reads_what_people_write() {
        assert_eq!(rate("5.6 Mbit/s"), Ok(5_600_000));
        assert_eq!(rate("38.4kbit/s"), Ok(38_400));
        assert_eq!(rate(".5 Gbit/s"), Ok(500_000_000));
        assert_eq!("26 ms".parse::<Quantity<Duration>>().unwrap().0, Duration::from_millis(26));
        let ms = |text: &str| text.parse::<Quantity<Duration>>().map(|time| time.0.as_millis()).ok();
        assert_eq!([ms("1h"), ms("2 d"), ms("90 s")], [Some(3_600_000), Some(172_800_000), Some(90_000)]);
        assert_eq!(["soon", "-1h", "1000000 d"].map(ms), [None; 3]);
        assert_eq!(Quantity(Duration::from_secs(3_600)).to_string(), "3600 s");
        assert_eq!("17 KiB".parse::<Quantity<Bytes>>().unwrap().0, Bytes::from_kib(17));
        assert_eq!("300 packets".parse(), Ok(QueueLimit::Packets(300)));
        assert_eq!("0.5 %".parse::<Quantity<Probability>>().unwrap().0.ppm(), 5_000);
    }

    #[test]
    fn refuses_with_the_units_allowed() {
        assert_eq!(
            rate("5.6 Mb").unwrap_err(),
            "`5.6 Mb` is not a rate: unknown unit; write it like \"5.6 Mbit/s\" (units: bit/s, kbit/s, \
             Mbit/s, Gbit/s)"
        );
        assert!(rate("5.6").unwrap_err().contains("no unit"));
        assert!(rate("1.2.3 bit/s").unwrap_err().contains("not a number"));
        assert!(rate("-1 bit/s").is_err());
        assert!(rate("99999999999999999999 Gbit/s").unwrap_err().contains("too large"));
        assert!(
            "101 %".parse::<Quantity<Probability>>().unwrap_err().to_string().contains("more than 100 %")
        );
        assert!("3 MB/s".parse::<QueueLimit>().is_err());
    }

    proptest! {
        #[test]
        fn text_round_trips(steps: u64) {
            let rate = Quantity(Rate::from_bps(steps));
            prop_assert_eq!(rate.to_string().parse(), Ok(rate));
            let time = Quantity(Duration::from_nanos(steps));
            prop_assert_eq!(time.to_string().parse(), Ok(time));
            let bytes = Quantity(Bytes::new(steps));
            prop_assert_eq!(bytes.to_string().parse(), Ok(bytes));
        }

        #[test]
        fn never_panics(text in ".{0,24}") {
            let _ = text.parse::<Quantity<Rate>>();
            let _ = text.parse::<Quantity<Probability>>();
            let _ = text.parse::<QueueLimit>();
        }
    }
}
