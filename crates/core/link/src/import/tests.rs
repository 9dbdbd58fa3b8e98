//! Other formats in and out.

use proptest::prelude::*;

use super::*;

fn ms(n: u64) -> Duration {
    Duration::from_millis(n)
}

fn columns(time: Option<&str>, rate: &str, unit: RateUnit) -> CsvColumns {
    CsvColumns { time: time.map(str::to_owned), rate: rate.to_owned(), unit }
}

#[test]
fn both_formats_are_told_apart() -> Result<(), LinkError> {
    assert_eq!(Trace::parse("5\n7\n7\n", "a")?.opportunities(), 3);
    assert_eq!(Trace::parse("# time rate\n0 12\n1 12\n", "a")?.mean_rate().as_bps(), 12_000_000);
    Ok(())
}

#[test]
fn rates_become_opportunities() -> Result<(), LinkError> {
    // 12 Mbit/s is one per ms, 6 Mbit/s one every 2 ms, silence keeps the length.
    let steps = [(ms(2), Rate::from_mbps(12)), (ms(4), Rate::from_mbps(6)), (ms(4), Rate::ZERO)];
    let trace = Trace::from_rates(&steps, "t")?;
    assert_eq!(trace.busy_ms().collect::<Vec<_>>(), [(1, 1), (2, 1), (4, 1), (6, 1), (10, 1)]);
    Ok(())
}

#[test]
fn reads_seconds_and_mbps() -> Result<(), LinkError> {
    let trace = Trace::parse_rates("# t r\n5.0\t12\n5.002,6\n5.004 0\n", "t")?;
    assert_eq!(trace.busy_ms().collect::<Vec<_>>(), [(1, 1), (2, 1), (4, 1), (6, 1)]);
    Ok(())
}

#[test]
fn reads_csv_with_dates_and_units() -> Result<(), LinkError> {
    let text =
        "Time;\"DL;rate\"\n2019.12.31_23.59.59;12000\n2020-01-01T00:00:00;4000\n2020-01-01T00:00:00;8000\n";
    let trace = Trace::parse_csv(text, "t", &columns(Some("Time"), "DL;rate", RateUnit::Kbps))?;
    assert_eq!(trace.period(), ms(2000));
    assert_eq!(trace.offered_bytes(ms(0), ms(1001)), Bytes::new(1_500_000));
    assert_eq!(trace.offered_bytes(ms(1001), ms(2001)), Bytes::new(750_000));
    // By number, without a time column: one second a row.
    let trace = Trace::parse_csv("a,b\n1,12\n2,12\n", "t", &columns(None, "2", RateUnit::Mbps))?;
    assert_eq!((trace.period(), trace.opportunities()), (ms(2000), 2000));
    Ok(())
}

#[test]
fn errors_name_line_column_and_value() {
    let rates = |text: &str| Trace::parse_rates(text, "r.txt").unwrap_err().to_string();
    assert_eq!(rates("1 2\n3\n"), "r.txt:2: expected two fields: seconds and Mbit/s");
    assert_eq!(rates("1 2\n2 fast\n"), "r.txt:2: `fast` is not a rate in Mbit/s");
    assert_eq!(rates("1 2\n2 -1\n"), "r.txt:2: `-1` is not a rate in Mbit/s");
    assert_eq!(rates("2 2\n1 2\n"), "r.txt:2: time goes back");
    assert_eq!(rates("1 0\n2 0\n"), "r.txt: the rates never carry as much as one packet");
    assert!(rates("1 NaN\n").contains("not a rate"));
    let csv = |text: &str| {
        Trace::parse_csv(text, "c.csv", &columns(Some("t"), "r", RateUnit::Mbps)).unwrap_err().to_string()
    };
    assert_eq!(csv("t,x\n1,2\n"), "c.csv:1: no column `r`; there are: t, x");
    assert_eq!(csv("t,r\n1,2\n2\n"), "c.csv:3: 1 fields; column 2 is missing");
    assert_eq!(csv("t,r\nnoon,2\n"), "c.csv:2: `noon` is not a time in seconds, nor a date");
}

#[test]
fn dates_know_leap_years() {
    let at = |text| parse_date(text).map(Duration::as_secs);
    assert_eq!(at("1970-01-01 00:00:00"), Some(0));
    assert_eq!(at("2000-02-29 12:00:00"), Some(951_825_600));
    assert_eq!(at("2026/03/01 00:00:00"), Some(1_772_323_200));
    assert_eq!(parse_date("1970-01-01 00:00:01.25"), Some(ms(1250)));
    assert_eq!(at("1970-13-01 00:00:00"), None);
}

#[test]
fn writes_bins() -> Result<(), LinkError> {
    let trace = Trace::from_opportunities_ms([1, 2, 150, 200])?;
    let mut out = Vec::new();
    trace.write_csv(&mut out, 100).unwrap();
    assert_eq!(String::from_utf8_lossy(&out), "seconds,mbps\n0.000,0.240000\n0.100,0.240000\n");
    Ok(())
}

proptest! {
    /// Rates in, trace out: the volume is right to one packet at every step's end.
    #[test]
    fn volume_is_kept(list in proptest::collection::vec((1u64..500, 0u64..50_000_000), 1..20)) {
        let mut steps: Vec<_> = list.into_iter().map(|(t, bps)| (ms(t), Rate::from_bps(bps))).collect();
        steps.push((ms(10), Rate::from_mbps(12)));
        let trace = Trace::from_rates(&steps, "t").unwrap();
        let (mut end, mut expected) = (Duration::ZERO, 0);
        for (time, rate) in steps {
            end += time;
            expected += crate::capacity::units_in(rate, time);
            let got = units_of(trace.offered_bytes(Duration::ZERO, end + ms(1)));
            prop_assert!(got.abs_diff(expected) <= units_of(OPPORTUNITY) * 2 + u128::from(rate.as_bps()) * 1_000_000);
        }
    }

    /// Mahimahi's format survives a round trip, and no text makes a parser panic.
    #[test]
    fn round_trip_and_any_text(mut lines in proptest::collection::vec(0u64..10_000, 1..200), text in ".{0,200}") {
        lines.push(10_000);
        lines.sort_unstable();
        let trace = Trace::from_opportunities_ms(lines).unwrap();
        let mut out = Vec::new();
        trace.write_mahimahi(&mut out).unwrap();
        prop_assert_eq!(Trace::parse_mahimahi(&String::from_utf8_lossy(&out), "t").unwrap(), trace);
        let _ = Trace::parse_mahimahi(&text, "t");
        let _ = Trace::parse_rates(&text, "t");
        let _ = Trace::parse_csv(&text, "t", &columns(Some("1"), "2", RateUnit::Mbps));
        let _ = parse_date(&text);
    }
}
