//! Times, sizes and rates as reports write them.

/// Text where there is nothing to say.
pub(crate) const NONE: &str = "–";

/// A time since 1970, ms, in the Gregorian calendar.
pub(crate) fn clock(ms: u64) -> String {
    let minutes = ms / 60_000;
    let (day, minute) = (minutes / 1_440, minutes % 1_440);
    let (year, month, date) = civil(day as i64);
    format!("{year}-{month:02}-{date:02} {:02}:{:02} UTC", minute / 60, minute % 60)
}

/// Year, month and day of a day since 1970-01-01 in the Gregorian calendar, counted in years that begin in March,
/// whose leap day is the last one.
fn civil(day: i64) -> (i64, i64, i64) {
    let day = day + 719_468;
    let era = day.div_euclid(146_097);
    let of_era = day.rem_euclid(146_097);
    let year = (of_era - of_era / 1_460 + of_era / 36_524 - of_era / 146_096) / 365;
    let of_year = of_era - (365 * year + year / 4 - year / 100);
    let month = (5 * of_year + 2) / 153;
    let date = of_year - (153 * month + 2) / 5 + 1;
    let month = if month < 10 { month + 3 } else { month - 9 };
    (era * 400 + year + i64::from(month <= 2), month, date)
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
    fn dates_are_those_of_the_calendar() {
        let day = |day: i64| civil(day);
        assert_eq!([day(0), day(11_016), day(11_017)], [(1970, 1, 1), (2000, 2, 29), (2000, 3, 1)]);
        assert_eq!(clock(1_700_000_000_000), "2023-11-14 22:13 UTC");
        assert_eq!([span(59_000), span(3_600_000), span(9_000_000)], ["59 s", "60 min", "2.5 h"]);
        assert_eq!([bytes(999), bytes(30_000_000)], ["999 B", "30.0 MB"]);
    }
}
