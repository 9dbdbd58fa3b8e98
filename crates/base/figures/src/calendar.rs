//! Days and times in UTC, by the Gregorian calendar.

/// The day of a time in seconds since 1970: `2026-03-01`.
#[must_use]
pub fn date(unix_s: u64) -> String {
    // Days since 0000-03-01: years that begin in March have their leap day last.
    let days = unix_s / 86_400 + 719_468;
    let (era, day_of_era) = (days / 146_097, days % 146_097);
    let year_of_era = (day_of_era - day_of_era / 1_460 + day_of_era / 36_524 - day_of_era / 146_096) / 365;
    let day_of_year = day_of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
    let month_from_march = (5 * day_of_year + 2) / 153;
    let day = day_of_year - (153 * month_from_march + 2) / 5 + 1;
    let month = if month_from_march < 10 { month_from_march + 3 } else { month_from_march - 9 };
    let year = era * 400 + year_of_era + u64::from(month <= 2);
    format!("{year:04}-{month:02}-{day:02}")
}

/// The same with the time of day: `2026-03-01 14:05 UTC`.
#[must_use]
pub fn date_and_time(unix_s: u64) -> String {
    format!("{} {:02}:{:02} UTC", date(unix_s), unix_s % 86_400 / 3_600, unix_s % 3_600 / 60)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn dates_are_those_of_the_calendar() {
        for (unix_s, day) in [
            (0, "1970-01-01"),
            (951_782_399, "2000-02-28"),
            (951_782_400, "2000-02-29"),
            (951_868_800, "2000-03-01"),
            (1_735_689_599, "2024-12-31"),
            (1_735_689_600, "2025-01-01"),
            (4_107_542_400, "2100-03-01"),
        ] {
            assert_eq!(date(unix_s), day);
        }
        assert_eq!(date_and_time(0), "1970-01-01 00:00 UTC");
        assert_eq!(date_and_time(1_709_215_500), "2024-02-29 14:05 UTC");
        assert_eq!(date_and_time(1_798_761_599), "2026-12-31 23:59 UTC");
    }
}
