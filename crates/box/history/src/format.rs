//! Times, sizes and rates as reports write them.

/// Text where there is nothing to say.
pub(crate) const NONE: &str = "–";

/// A time since 1970, ms.
pub(crate) fn clock(ms: u64) -> String {
    figures::date_and_time(ms / 1_000)
}

/// A length of time.
pub(crate) fn span(ms: u64) -> String {
    match ms / 1_000 {
        s if s < 120 => format!("{s} s"),
        s if s < 7_200 => format!("{} min", s / 60),
        s => format!("{:.1} h", s as f64 / 3_600.0),
    }
}

/// A number of bytes with its unit.
pub(crate) fn bytes(bytes: u64) -> String {
    let units = ["B", "KB", "MB", "GB", "TB"];
    let (mut value, mut unit) = (bytes as f64, 0);
    while value >= 999.5 && unit + 1 < units.len() {
        value /= 1e3;
        unit += 1;
    }
    digits(value) + " " + units[unit]
}

/// A number with three digits.
fn digits(value: f64) -> String {
    let decimals = match value {
        v if v >= 99.95 || v == 0.0 => 0,
        v if v >= 9.995 => 1,
        _ => 2,
    };
    format!("{value:.decimals$}")
}

/// A rate in Mbit/s.
pub(crate) fn mbits(bps: f64) -> String {
    digits(bps / 1e6)
}

/// A value, or [`NONE`].
pub(crate) fn or_none(value: Option<f64>, show: impl Fn(f64) -> String) -> String {
    value.map_or(NONE.to_owned(), show)
}

/// An upper bound of a class.
pub(crate) fn at_most(ms: Option<f64>) -> String {
    or_none(ms, |ms| format!("≤ {ms:.0}"))
}

/// A share of one.
pub(crate) fn percent(share: Option<f64>) -> String {
    or_none(share, |share| digits(share * 100.0))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_and_sizes_have_their_units() {
        assert_eq!(clock(1_700_000_000_000), "2023-11-14 22:13 UTC");
        assert_eq!([span(59_000), span(3_600_000), span(9_000_000)], ["59 s", "60 min", "2.5 h"]);
        assert_eq!([bytes(999), bytes(30_000_000)], ["999 B", "30.0 MB"]);
    }
}
