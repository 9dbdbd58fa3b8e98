//! Words that the verdicts of the measurements have in common.

use probe::ClockEstimate;

/// A direction, in words.
pub(crate) fn way(direction: &str) -> &'static str {
    if direction == "up" { "Upload" } else { "Download" }
}

/// That the client's address has changed, as often as it did.
pub(crate) fn moved(moves: u16) -> String {
    match moves {
        0 => String::new(),
        1 => ". The client's address changed once on the way: a NAT has forgotten it".to_owned(),
        _ => format!(". The client's address changed {moves} times on the way: a NAT forgets it"),
    }
}

/// Three digits, no more.
pub(crate) fn digits(value: f64) -> String {
    match value.abs() {
        0.0 => "0".to_owned(),
        v if v < 0.995 => format!("{value:.2}"),
        v if v < 99.5 => format!("{value:.1}"),
        _ => format!("{value:.0}"),
    }
}

/// Text where there is no value.
pub(crate) const NONE: &str = "–";

/// A value, or [`NONE`].
pub(crate) fn known<T>(value: Option<T>, show: impl FnOnce(T) -> String) -> String {
    value.map_or(NONE.to_owned(), show)
}

/// By how much the server's clock is ahead, ms, and what it gains.
pub(crate) fn clock_words(clock: &ClockEstimate) -> (String, String) {
    let ClockEstimate { offset_low_ms, offset_high_ms, drift_low_ppm, drift_high_ppm, drift_ppm, .. } = clock;
    (
        format!("{offset_low_ms:.3} to {offset_high_ms:.3}"),
        format!("{drift_low_ppm:.0} to {drift_high_ppm:.0} ppm, most likely {drift_ppm:.1}"),
    )
}

/// A time with as many digits as count.
pub(crate) fn time(ms: f64) -> String {
    match ms {
        0.0..9.95 => format!("{} ms", digits(ms)),
        9.95..1_000.0 => format!("{ms:.0} ms"),
        _ => format!("{:.1} s", ms / 1e3),
    }
}

/// Sentences, and why they are not all; without any, what `nothing` says: that there is nothing, and why where no
/// other reason is known.
pub(crate) fn told(sentences: &str, incomplete: Option<&str>, nothing: [&str; 2]) -> String {
    let [nothing, unknown] = nothing;
    match (incomplete, sentences.trim()) {
        (Some(why), "") => format!("{nothing}: {why}."),
        (Some(why), told) => format!("{told} Not complete: {why}."),
        (None, "") => format!("{nothing}{unknown}."),
        (None, told) => told.to_owned(),
    }
}

/// Clauses as one sentence.
pub(crate) fn sentence(clauses: &[String]) -> String {
    let text = clauses.join("; ");
    let mut letters = text.chars();
    let first = letters.next().map(|letter| letter.to_uppercase().to_string()).unwrap_or_default();
    format!("{first}{}.", letters.as_str())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_as_long_as_they_are_good() {
        let all = [0.0, 0.034, 0.5, 4.06, 23.44, 812.0].map(digits);
        assert_eq!(all, ["0", "0.03", "0.50", "4.1", "23.4", "812"]);
        assert_eq!([time(0.07), time(41.2), time(1_466.0)], ["0.07 ms", "41 ms", "1.5 s"]);
    }
}
