//! Text files of people: traces, scenarios, packet scripts.

use std::sync::Arc;

use control::{ControllerConfig, FixedParams};
use engine::PassThrough;
use engine::{Engine, EngineConfig};
use link::{Capacity, CsvColumns, Link, LinkConfig, RateUnit, Trace, TraceStats};
use scenario::{Quantity, Scenario};
use sim::Script;
use units::{Bytes, Duration, Instant, Rate};

/// Longest text that is tried, bytes: longer ones only repeat.
const TEXT_MAX: usize = 16 * 1024;

fn text(bytes: &[u8]) -> Option<&str> {
    core::str::from_utf8(bytes.get(..bytes.len().min(TEXT_MAX))?).ok()
}

/// Trace files in each format: an error names the file, a trace survives being written and read
/// again, its figures fit each other, and a link can run on it.
pub fn trace(bytes: &[u8]) {
    let Some(text) = text(bytes) else { return };
    check_trace(Trace::parse_mahimahi(text, "fuzz"));
    if !is_moderate(text) {
        return;
    }
    check_trace(Trace::parse_rates(text, "fuzz"));
    // Dates may lie a month apart: only few bits a second keep that short.
    for (time, unit) in [(None, RateUnit::Kbps), (Some("1".to_owned()), RateUnit::Bps)] {
        let columns = CsvColumns { time, rate: "2".to_owned(), unit };
        check_trace(Trace::parse_csv(text, "fuzz", &columns));
    }
}

/// False when rates and times are so large that the trace, though allowed, would be too: the fuzzer
/// has no time for it.
fn is_moderate(text: &str) -> bool {
    let numbers = text.split(|c: char| !(c.is_ascii_alphanumeric() || matches!(c, '.' | '-' | '+')));
    numbers.filter_map(|n| n.parse::<f64>().ok()).all(|n| n.abs() <= 60.0 || n.abs() > 1e13)
}

fn check_trace(read: Result<Trace, link::LinkError>) {
    let trace = match read {
        Ok(trace) => trace,
        Err(error) => {
            let shown = error.to_string();
            assert!(shown.starts_with("fuzz") && !shown.contains('\n'), "an error is one line: {shown}");
            return;
        }
    };
    let mut written = Vec::new();
    trace.write_mahimahi(&mut written).expect("a Vec takes everything");
    let again = Trace::parse_mahimahi(core::str::from_utf8(&written).expect("digits"), "again");
    assert_eq!(again.as_ref(), Ok(&trace), "written and read again");
    assert_eq!(trace.busy_ms().map(|(_, count)| count).sum::<u64>(), trace.opportunities());
    if trace.period() > Duration::from_secs(24 * 3_600) {
        return;
    }
    let stats = TraceStats::of(&trace);
    assert_eq!(stats.opportunities, trace.opportunities());
    assert!(stats.mean_mbps.is_finite() && stats.seconds > 0.0, "{stats:?}");
    let capacity = Capacity::Trace(Arc::new(trace));
    run_link(&LinkConfig { capacity, ..LinkConfig::default() });
}

/// Packets through a link: everything comes out in order, not before it went in, or is counted as lost.
fn run_link(config: &LinkConfig) {
    let Ok(mut link) = Link::new(config, Instant::ZERO) else { return };
    for number in 0..12_u64 {
        let _ = link.enqueue(number, Bytes::new(40 + number * 131), Instant::from_millis(number * 3));
    }
    let (mut now, mut last) = (Instant::from_millis(40), None);
    for _ in 0..200 {
        while let Some(delivery) = link.poll(now) {
            assert!(delivery.planned <= now && last.is_none_or(|last| last < delivery.payload), "order");
            last = Some(delivery.payload);
        }
        let Some(next) = link.next_deadline() else { break };
        assert!(next > now, "a deadline that is due stays after poll()");
        now = next;
    }
    let c = link.counters();
    let out = c.delivered.packets + c.dropped_packets() + c.held.packets;
    assert_eq!(c.offered.packets, out, "packets are missing");
}

/// Scenario files: an error names the file; what is read can be written and read again, and its links run.
pub fn scenario(bytes: &[u8]) {
    let Some(text) = text(bytes) else { return };
    let scenario = match Scenario::from_toml("fuzz", text) {
        Ok(scenario) => scenario,
        Err(error) => {
            assert!(error.to_string().starts_with("fuzz"), "an error names the file: {error}");
            return;
        }
    };
    let written = scenario_text(&scenario);
    let again = Scenario::from_toml("again", &written).expect("what was written can be read");
    assert_eq!(again, scenario, "written and read again");
    for mut case in scenario.resolved() {
        for direction in [&mut case.radio.down, &mut case.radio.up].into_iter().flatten() {
            // A minute of a synthetic trace takes longer than the fuzzer has.
            let shorter = direction.trace_length.map_or(Duration::MAX, |q| q.0).min(Duration::from_secs(2));
            direction.trace_length = Some(Quantity(shorter));
        }
        let mut read = |name: &str| match name.len() % 3 {
            0 => Err("no such file".to_owned()),
            1 => Ok("1\n2\n2\n7\n".to_owned()),
            _ => Ok("nonsense".to_owned()),
        };
        if let Ok(plan) = case.links(scenario.seed, &mut read) {
            for (_, config) in plan.named() {
                run_link(config);
            }
        }
    }
}

fn scenario_text(scenario: &Scenario) -> String {
    serde_json::to_value(scenario).expect("a scenario is data");
    toml::to_string(scenario).expect("a scenario can be written")
}

/// Packet scripts: an error names file and line; any script that can be read plays to its end, or
/// to a line that does not hold, against a router and against the engine.
pub fn script(bytes: &[u8]) {
    let Some(text) = text(bytes) else { return };
    let script = match Script::parse("fuzz", text) {
        Ok(script) => script,
        Err(failure) => {
            assert!(failure.line > 0 && failure.to_string().starts_with("fuzz:"), "{failure}");
            return;
        }
    };
    let _ = script.run(PassThrough, |_, _| Some(0));
    let rate = Rate::from_mbps(1_000);
    let controller = ControllerConfig::Fixed(FixedParams { rate, ..FixedParams::default() });
    let engine =
        Engine::new(EngineConfig { controller, ..EngineConfig::default() }).expect("a valid setting");
    let _ = script.run(engine, |engine, _| Some(engine.debt().get()));
}
