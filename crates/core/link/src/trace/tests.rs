//! Reading, writing and summing traces.

use super::*;

fn ms(n: u64) -> Duration {
    Duration::from_millis(n)
}

#[test]
fn reads_and_writes_mahimahi() -> Result<(), LinkError> {
    let text = "0\n3\n3\n7\n";
    let trace = Trace::parse_mahimahi(text, "t")?;
    assert_eq!(trace.period(), ms(7));
    assert_eq!(trace.opportunities(), 4);
    assert_eq!(trace.busy_ms().collect::<Vec<_>>(), [(0, 1), (3, 2), (7, 1)]);
    let mut out = Vec::new();
    trace.write_mahimahi(&mut out).unwrap();
    assert_eq!(out, text.as_bytes());
    assert_eq!(Trace::parse_mahimahi("0\r\n3\r\n3\r\n7\r\n\n", "t")?, trace);
    Ok(())
}

#[test]
fn a_trace_that_begins_later_offers_the_same_later() -> Result<(), LinkError> {
    let trace = Trace::from_opportunities_ms([0, 3, 3, 5, 9, 12])?;
    let later = |from| trace.begun_at(ms(from)).busy_ms().collect::<Vec<_>>();
    assert_eq!(later(0), [(0, 1), (3, 2), (5, 1), (9, 1), (12, 1)]);
    assert_eq!(later(4), [(4, 1), (7, 2), (10, 2), (12, 1)], "from 5 on: 9, 12 and 0, 3, 3, 5");
    assert_eq!(later(10), later(0), "from the end on, which is the begin");
    assert_eq!(later(12 + 4), later(4));
    for from in 1..12 {
        let begin = ms(trace.busy_ms().map(|(ms, _)| ms).find(|ms| *ms >= from).unwrap());
        let moved = trace.begun_at(ms(from));
        assert_eq!((moved.period(), moved.opportunities()), (trace.period(), trace.opportunities()));
        for length in 1..30 {
            let of = |trace: &Trace, from: Duration| trace.offered_bytes(from + ms(1), from + ms(1 + length));
            assert_eq!(of(&moved, Duration::ZERO), of(&trace, begin), "{from} {length}");
        }
    }
    Ok(())
}

#[test]
fn errors_name_the_line_and_what_is_wrong() {
    let message = |text: &str| Trace::parse_mahimahi(text, "a.down").unwrap_err().to_string();
    assert_eq!(message("1\nx\n"), "a.down:2: `x` is not a time in whole milliseconds (Mahimahi format)");
    assert_eq!(message("5\n4\n"), "a.down:2: time 4 ms is before the previous line's 5 ms");
    assert_eq!(message("1\n\n4\n"), "a.down:2: empty line; expected a time in milliseconds");
    assert_eq!(message(""), "a.down: no delivery opportunity in the trace");
    assert_eq!(message("0\n0\n"), "a.down: the last time is 0 ms; a trace must last at least 1 ms");
    for long in ["18446744073709551615\n", "2592000001\n"] {
        assert!(message(long).contains("above the limit of 30 days"), "{}", message(long));
    }
}

/// Compares the closed formula with a plain list over several cycles.
#[test]
fn offered_bytes_equals_counting() -> Result<(), LinkError> {
    let lines = [0, 2, 2, 5, 9];
    let trace = Trace::from_opportunities_ms(lines)?;
    let all: Vec<u64> = (0..5).flat_map(|cycle| lines.map(|line| cycle * 9 + line)).collect();
    for from in 0..30 {
        for to in from..40 {
            let counted = all.iter().filter(|t| (from..to).contains(*t)).count() as u64;
            assert_eq!(trace.offered_bytes(ms(from), ms(to)), Bytes::new(counted * 1500), "[{from}, {to})");
        }
    }
    Ok(())
}
