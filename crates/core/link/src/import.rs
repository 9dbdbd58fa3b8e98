//! Traces from and to other formats: `seconds Mbit/s` lines and CSV.

use std::io::Write;

use units::{Bytes, Duration, Rate};

use crate::capacity::units_of;
use crate::trace::{LENGTH_MAX, TraceBuilder};
use crate::{LinkError, OPPORTUNITY, Trace, bin_rates_mbps};

/// Unit of a column of rates.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub enum RateUnit {
    /// bit/s.
    Bps,
    /// 1,000 bit/s.
    Kbps,
    /// 1,000,000 bit/s.
    #[default]
    Mbps,
    /// 1,000,000,000 bit/s.
    Gbps,
}

impl RateUnit {
    fn factor(self) -> f64 {
        match self {
            Self::Bps => 1.0,
            Self::Kbps => 1e3,
            Self::Mbps => 1e6,
            Self::Gbps => 1e9,
        }
    }
}

/// Columns of a CSV file to read. A column is named by its heading or its number from 1.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CsvColumns {
    /// Seconds, or a date with time of day; without it the rows are one second apart.
    pub time: Option<String>,
    /// The rate.
    pub rate: String,
    /// The rate's unit.
    pub unit: RateUnit,
}

/// Highest rate that is read.
const RATE_BPS_MAX: f64 = 1e12;
/// Most opportunities that are made from rates.
const OPPORTUNITIES_MAX: u128 = 500_000_000;

impl Trace {
    /// A trace that follows rates, each held for its time: an opportunity at the first whole
    /// millisecond by which the rates have carried another [`OPPORTUNITY`]. A last one at the end
    /// keeps the length when the end is silent. `file` names the source in messages.
    ///
    /// # Errors
    ///
    /// [`LinkError::Trace`] when nothing is ever carried or the trace would be too large.
    pub fn from_rates(steps: &[(Duration, Rate)], file: &str) -> Result<Self, LinkError> {
        let each = units_of(OPPORTUNITY);
        let length = steps.iter().fold(Duration::ZERO, |sum, (time, _)| sum + *time);
        if length > LENGTH_MAX {
            return Err(LinkError::trace(file, format!("lasts {length}, above the limit of 30 days")));
        }
        let total: u128 = steps.iter().map(|(time, rate)| crate::capacity::units_in(*rate, *time)).sum();
        if total < each {
            return Err(LinkError::trace(file, "the rates never carry as much as one packet"));
        }
        if total / each > OPPORTUNITIES_MAX {
            return Err(LinkError::trace(
                file,
                "more than 500 million packets; is the unit of the rate right?",
            ));
        }
        let mut builder = TraceBuilder::new(file);
        let mut count = 0;
        let (mut start, mut carry, mut last_ms) = (Duration::ZERO, 0u128, 0);
        for &(time, rate) in steps {
            let sum = carry + crate::capacity::units_in(rate, time);
            for k in 1..=sum / each {
                let ns = (k * each - carry).div_ceil(u128::from(rate.as_bps()));
                let at = start + Duration::from_nanos(u64::try_from(ns).unwrap_or(u64::MAX));
                last_ms = at.as_nanos().div_ceil(1_000_000);
                count += 1;
                builder.push(count, last_ms)?;
            }
            carry = sum % each;
            start += time;
        }
        let end_ms = length.as_nanos().div_ceil(1_000_000);
        if end_ms > last_ms {
            builder.push(count + 1, end_ms)?;
        }
        builder.finish()
    }

    /// Reads Mahimahi's format, or lines of `seconds Mbit/s`: the first line with anything in it,
    /// comments apart, has one field or two.
    ///
    /// # Errors
    ///
    /// Those of [`Trace::parse_mahimahi`] and [`Trace::parse_rates`].
    pub fn parse(text: &str, file: &str) -> Result<Self, LinkError> {
        let first = text.lines().map(str::trim).find(|line| !line.is_empty() && !line.starts_with('#'));
        let is_rates = first.is_some_and(|line| line.contains(|c: char| c.is_whitespace() || c == ','));
        if is_rates { Self::parse_rates(text, file) } else { Self::parse_mahimahi(text, file) }
    }

    /// Reads lines of `seconds Mbit/s`; a rate holds until the next line's time, the last one as long
    /// as the one before it. Times begin anywhere and rise. Lines that begin with `#` are comments.
    ///
    /// # Errors
    ///
    /// [`LinkError::TraceLine`] names the line and what is wrong with it.
    pub fn parse_rates(text: &str, file: &str) -> Result<Self, LinkError> {
        let mut points = Vec::new();
        for (index, line) in text.lines().enumerate() {
            let number = index + 1;
            let line = line.trim();
            if line.is_empty() || line.starts_with('#') {
                continue;
            }
            let mut fields = line.split(|c: char| c.is_whitespace() || c == ',').filter(|f| !f.is_empty());
            let (Some(time), Some(rate), None) = (fields.next(), fields.next(), fields.next()) else {
                return Err(LinkError::line(file, number, "expected two fields: seconds and Mbit/s"));
            };
            let time = parse_seconds(time).ok_or_else(|| not_a(file, number, time, "time in seconds"))?;
            let rate = parse_rate(rate, RateUnit::Mbps)
                .ok_or_else(|| not_a(file, number, rate, "rate in Mbit/s"))?;
            points.push(Point { line: number, time, rate });
        }
        Self::from_points(&points, file)
    }

    /// Reads a CSV file with a line of headings, separated by comma, semicolon or tab.
    ///
    /// Rows with the same time count as their mean.
    ///
    /// # Errors
    ///
    /// [`LinkError::TraceLine`] names the line and what is wrong; an unknown column is named with
    /// those there are.
    pub fn parse_csv(text: &str, file: &str, columns: &CsvColumns) -> Result<Self, LinkError> {
        let mut lines = text.lines().enumerate();
        let Some((_, heading)) = lines.next() else {
            return Err(LinkError::trace(file, "empty file; expected a line of column headings"));
        };
        let heading = heading.trim_start_matches('\u{feff}');
        let separator = [',', ';', '\t'].into_iter().find(|c| heading.contains(*c)).unwrap_or(',');
        let names = split_csv(heading, separator);
        let rate_at = find_column(&names, &columns.rate, file)?;
        let time_at = columns.time.as_ref().map(|name| find_column(&names, name, file)).transpose()?;
        let mut points = Vec::new();
        for (index, line) in lines.filter(|(_, line)| !line.trim().is_empty()) {
            let number = index + 1;
            let fields = split_csv(line, separator);
            let field = |at: usize| {
                fields.get(at).map(|field| field.trim()).ok_or_else(|| {
                    let problem = format!("{} fields; column {} is missing", fields.len(), at + 1);
                    LinkError::line(file, number, problem)
                })
            };
            let rate = field(rate_at)?;
            let rate = parse_rate(rate, columns.unit).ok_or_else(|| not_a(file, number, rate, "rate"))?;
            let time = match time_at {
                None => Duration::from_secs(points.len() as u64),
                Some(at) => {
                    let time = field(at)?;
                    let seconds = parse_seconds(time).or_else(|| parse_date(time));
                    seconds.ok_or_else(|| not_a(file, number, time, "time in seconds, nor a date"))?
                }
            };
            points.push(Point { line: number, time, rate });
        }
        Self::from_points(&points, file)
    }

    /// Each rate holds until the next point; points at the same time count as their mean.
    fn from_points(points: &[Point], file: &str) -> Result<Self, LinkError> {
        let mut merged: Vec<(Duration, u128, u128)> = Vec::with_capacity(points.len());
        for point in points {
            match merged.last_mut() {
                Some((time, _, _)) if point.time < *time => {
                    return Err(LinkError::line(file, point.line, "time goes back"));
                }
                Some((time, sum, count)) if point.time == *time => {
                    *sum += u128::from(point.rate.as_bps());
                    *count += 1;
                }
                _ => merged.push((point.time, u128::from(point.rate.as_bps()), 1)),
            }
        }
        let mut steps = Vec::with_capacity(merged.len());
        let mut length = Duration::from_secs(1);
        for (index, (time, sum, count)) in merged.iter().enumerate() {
            if let Some((next, _, _)) = merged.get(index + 1) {
                length = *next - *time;
            }
            steps.push((length, Rate::from_bps(u64::try_from(sum / count).unwrap_or(u64::MAX))));
        }
        Self::from_rates(&steps, file)
    }

    /// Writes lines of `seconds Mbit/s` over bins of `width_ms`; a last bin cut short is left out.
    ///
    /// # Errors
    ///
    /// Those of `out`.
    pub fn write_rates(&self, out: &mut dyn Write, width_ms: u64) -> std::io::Result<()> {
        self.write_bins(out, width_ms, ' ')
    }

    /// Writes CSV with the headings `seconds` and `mbps` over bins of `width_ms`.
    ///
    /// # Errors
    ///
    /// Those of `out`.
    pub fn write_csv(&self, out: &mut dyn Write, width_ms: u64) -> std::io::Result<()> {
        writeln!(out, "seconds,mbps")?;
        self.write_bins(out, width_ms, ',')
    }

    fn write_bins(&self, out: &mut dyn Write, width_ms: u64, separator: char) -> std::io::Result<()> {
        for (index, rate) in bin_rates_mbps(self, width_ms).into_iter().enumerate() {
            let ms = index as u64 * width_ms.max(1);
            writeln!(out, "{}.{:03}{separator}{rate:.6}", ms / 1000, ms % 1000)?;
        }
        Ok(())
    }

    /// Bytes of one period.
    #[must_use]
    pub fn total_bytes(&self) -> Bytes {
        Bytes::new(self.opportunities().saturating_mul(OPPORTUNITY.get()))
    }
}

struct Point {
    line: usize,
    time: Duration,
    rate: Rate,
}

fn not_a(file: &str, line: usize, field: &str, what: &str) -> LinkError {
    let shown: String = field.chars().take(40).collect();
    LinkError::line(file, line, format!("`{shown}` is not a {what}"))
}

/// Seconds with a fraction, to the nanosecond.
fn parse_seconds(field: &str) -> Option<Duration> {
    let seconds = field.parse::<f64>().ok().filter(|s| (0.0..=9e9).contains(s))?;
    Some(Duration::from_nanos(libm::round(seconds * 1e9) as u64))
}

fn parse_rate(field: &str, unit: RateUnit) -> Option<Rate> {
    let bps = field.parse::<f64>().ok()? * unit.factor();
    (0.0..=RATE_BPS_MAX).contains(&bps).then(|| Rate::from_bps(libm::round(bps) as u64))
}

/// Year, month, day, hour, minute, second and perhaps a fraction, with any separators.
fn parse_date(field: &str) -> Option<Duration> {
    let groups: Vec<&str> = field.split(|c: char| !c.is_ascii_digit()).filter(|g| !g.is_empty()).collect();
    let &[year, month, day, hour, minute, second, ref rest @ ..] = groups.as_slice() else { return None };
    let number = |group: &str, range: core::ops::RangeInclusive<u64>| {
        group.parse::<u64>().ok().filter(|n| range.contains(n))
    };
    let (year, month, day) = (number(year, 1970..=2200)?, number(month, 1..=12)?, number(day, 1..=31)?);
    // Days since 1970-01-01, counted in years that begin in March so that the leap day comes last.
    let (march_year, march_month) = if month > 2 { (year, month - 3) } else { (year - 1, month + 9) };
    let leap_days = march_year / 4 - march_year / 100 + march_year / 400;
    let days = march_year * 365 + leap_days + (march_month * 153 + 2) / 5 + day - 1 - 719_468;
    let seconds =
        days * 86_400 + number(hour, 0..=23)? * 3600 + number(minute, 0..=59)? * 60 + number(second, 0..=60)?;
    let fraction = match rest.first() {
        None => 0.0,
        Some(digits) => format!("0.{digits}").parse::<f64>().ok()?,
    };
    Some(Duration::from_secs(seconds) + Duration::from_nanos(libm::round(fraction * 1e9) as u64))
}

/// Splits a CSV line; double quotes keep separators together.
fn split_csv(line: &str, separator: char) -> Vec<String> {
    let mut fields = vec![String::new()];
    let mut is_quoted = false;
    for c in line.trim_end_matches('\r').chars() {
        if c == '"' {
            is_quoted = !is_quoted;
        } else if c == separator && !is_quoted {
            fields.push(String::new());
        } else if let Some(field) = fields.last_mut() {
            field.push(c);
        }
    }
    fields
}

fn find_column(names: &[String], wanted: &str, file: &str) -> Result<usize, LinkError> {
    let by_name = names.iter().position(|name| name.trim() == wanted);
    let by_number = || wanted.parse::<usize>().ok().filter(|n| (1..=names.len()).contains(n)).map(|n| n - 1);
    by_name.or_else(by_number).ok_or_else(|| {
        let known = names.iter().map(|name| name.trim()).collect::<Vec<_>>().join(", ");
        LinkError::line(file, 1, format!("no column `{wanted}`; there are: {known}"))
    })
}

#[cfg(test)]
mod tests;
