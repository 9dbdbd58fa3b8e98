//! Plays every script of `tests/packet` against the engine.
//!
//! `CELLERATOR_SCRIPT=part_of_name` plays only those whose name contains it.

use std::path::Path;

use control::{ControllerConfig, FixedParams};
use engine::{Engine, EngineConfig, PassReason, WindowPolicy};
use sim::Script;
use units::{Bytes, Duration, Rate};

/// The engine of a script: a fixed rate that is far above what any script sends, unless it says otherwise.
fn engine(settings: &[(String, String)]) -> Result<Engine, String> {
    let mut rate = Rate::from_mbps(1_000);
    let mut config = EngineConfig::default();
    let mut window = Bytes::MAX;
    for (key, value) in settings {
        let number = value.parse::<u64>();
        let number = || number.clone().map_err(|_| format!("config {key}: `{value}` is not a number"));
        match key.as_str() {
            "ip" => {}
            "policy" if value == "opportunistic" => config.window_policy = WindowPolicy::Opportunistic,
            "policy" if value == "honour" => config.window_policy = WindowPolicy::Honour,
            "rate_kbps" => rate = Rate::from_kbps(number()?),
            "accelerate" => config.accelerate = value == "true",
            "window_floor" => config.window_floor = Bytes::new(number()?),
            "window_max" => config.window_max = Bytes::new(number()?),
            "waiting_target" => config.waiting_target = Some(Bytes::new(number()?)),
            "in_flight_max" => window = Bytes::new(number()?),
            "flows_max" => config.flows_max = number()? as usize,
            "subscriber_flows_max" => config.subscriber_flows_max = number()? as u32,
            "buffer_max" => config.buffer_max = Bytes::new(number()?),
            "rtt_min_ms" => config.rtt_min = Duration::from_millis(number()?),
            "rule" => config.policy.rules.push(value.parse::<engine::Rule>().map_err(|e| e.to_string())?),
            "debt_timeout_s" => config.debt_timeout = Duration::from_secs(number()?),
            _ => return Err(format!("config {key} {value}: no such setting")),
        }
    }
    config.controller = ControllerConfig::Fixed(FixedParams { rate, window, ..FixedParams::default() });
    Engine::new(config).map_err(|e| e.to_string())
}

fn counter(engine: &Engine, name: &str) -> Option<u64> {
    let stats = engine.stats();
    if let Some(reason) = name.strip_prefix("passed:") {
        let reason = PassReason::ALL.into_iter().find(|r| r.name() == reason)?;
        return Some(stats.passed_for(reason));
    }
    Some(match name {
        "flows_now" => stats.flows_now,
        "flows_accelerated" => stats.flows_accelerated,
        "flows_windowed" => stats.flows_windowed,
        "windows_lowered" => stats.windows_lowered,
        "bytes_acked_but_lost" => stats.bytes_acked_but_lost,
        "bad_checksums" => stats.bad_checksums,
        "paws_rejected" => stats.paws_rejected,
        "inexact_resets" => stats.inexact_resets,
        "unacceptable_acks" => stats.unacceptable_acks,
        "timeouts_undone" => stats.timeouts_undone,
        "out_of_window" => stats.out_of_window,
        "memory_refused" => stats.memory_refused,
        "fell_back_to_honour" => stats.fell_back_to_honour,
        "unknown_flow" => stats.unknown_flow,
        "fragments" => stats.fragments,
        "uplink_accelerated" => engine.uplink_stats().map_or(0, |stats| stats.flows_accelerated),
        "acks_consumed" => stats.acks_consumed,
        "debt" => engine.debt().get(),
        _ => return None,
    })
}

fn play(path: &Path) -> Result<(), String> {
    let text = std::fs::read_to_string(path).map_err(|e| format!("{}: {e}", path.display()))?;
    let name = path.file_name().map_or_else(String::new, |name| name.to_string_lossy().into_owned());
    let script = Script::parse(&name, &text).map_err(|e| e.to_string())?;
    let engine = engine(script.settings()).map_err(|e| format!("{name}: {e}"))?;
    script.run(engine, counter).map(|_| ()).map_err(|e| e.to_string())
}

#[test]
fn every_script_holds() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/packet");
    let only = std::env::var("CELLERATOR_SCRIPT").unwrap_or_default();
    let mut paths: Vec<_> = std::fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path()).collect();
    paths.retain(|path| {
        path.extension().is_some_and(|e| e == "pkt") && path.to_string_lossy().contains(&only)
    });
    paths.sort();
    assert!(!paths.is_empty(), "no scripts found");
    let failures: Vec<String> = paths.iter().filter_map(|path| play(path).err()).collect();
    assert!(
        failures.is_empty(),
        "{} of {} scripts fail\n\n{}\n",
        failures.len(),
        paths.len(),
        failures.join("\n\n")
    );
}
