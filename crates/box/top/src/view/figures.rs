//! Figures as they are shown: three digits and a unit.

use crate::history::Row;

/// A number with three significant digits, in the largest of `units` that leaves one before the
/// point; each is a thousand of the one before.
#[must_use]
pub fn three_digits(value: u64, units: [&str; 4]) -> String {
    let mut rest = value as f64;
    let mut unit = 0;
    // What would be rounded to a thousand is one of the next.
    while rest >= 999.5 && unit + 1 < units.len() {
        rest /= 1_000.0;
        unit += 1;
    }
    let decimals = if unit == 0 || rest >= 99.95 {
        0
    } else if rest >= 9.995 {
        1
    } else {
        2
    };
    format!("{rest:.decimals$} {}", units[unit])
}

/// Text where there is no value.
const NONE: &str = "-";

pub(crate) fn bits_per_s(bps: Option<u64>) -> String {
    bps.map_or(NONE.to_owned(), |bps| three_digits(bps, ["bit/s", "kbit/s", "Mbit/s", "Gbit/s"]))
}

pub(crate) fn micros(us: Option<u64>) -> String {
    us.map_or(NONE.to_owned(), |us| three_digits(us, ["µs", "ms", "s", "ks"]))
}

pub(crate) fn bytes(bytes: u64) -> String {
    three_digits(bytes, ["B", "KB", "MB", "GB"])
}

/// Time in its two largest units.
pub(crate) fn duration_s(s: u64) -> String {
    match s {
        0..60 => format!("{s} s"),
        60..3_600 => format!("{} min {} s", s / 60, s % 60),
        3_600..86_400 => format!("{} h {} min", s / 3_600, s % 3_600 / 60),
        _ => format!("{} d {} h", s / 86_400, s % 86_400 / 3_600),
    }
}

/// Figures of a subscriber, in the order of their columns behind its address.
pub(crate) fn subscriber_figures(row: &Row) -> [String; 6] {
    let line = &row.line;
    [
        bits_per_s(row.delivered_bps),
        micros(line.queueing_us),
        micros(line.srtt_us),
        bits_per_s(row.retransmitted_bps),
        bytes(line.held_bytes),
        line.flows.to_string(),
    ]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn figures_have_three_digits() {
        let digits = |us| micros(Some(us));
        assert_eq!([0, 213, 999, 1_000].map(digits), ["0 µs", "213 µs", "999 µs", "1.00 ms"]);
        assert_eq!([9_996, 99_960, 999_500].map(digits), ["10.0 ms", "100 ms", "1.00 s"]);
        assert_eq!((bits_per_s(None), bytes(1_234)), ("-".to_owned(), "1.23 KB".to_owned()));
        assert_eq!(
            [59, 3_599, 7_260, 90_000].map(duration_s),
            ["59 s", "59 min 59 s", "2 h 1 min", "1 d 1 h"]
        );
    }
}
