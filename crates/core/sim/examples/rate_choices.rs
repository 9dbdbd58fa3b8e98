//! Choices that [MA] leaves open about `rate`, each varied by itself: utilisation and queueing delay of a long
//! download, and the time a megabyte takes.
//!
//! `cargo run --release -p cellerator-sim --example rate_choices`

use std::error::Error;
use std::sync::Arc;

use control::{ControllerConfig, ParameterValue, RateParams};
use engine::{Engine, EngineConfig};
use link::{Capacity, DelayModel, LinkConfig, LinkDirection, Preset, QueueLimit};
use sim::{Application, LineUp, LogMode, Network, NetworkConfig, PathConfig, RadioConfig};
use units::{Bytes, Duration, Instant, Rate};

/// Length of the long download's run.
const LENGTH: Duration = Duration::from_secs(60);
const SEEDS: u64 = 2;
/// The short download.
const SHORT: u64 = 1_000_000;

/// A parameter of `rate` and the values to try, the default among them.
type Choice = (&'static str, Vec<ParameterValue>);

fn choices() -> Vec<Choice> {
    use ParameterValue::{Count, Flag, Off, Time};
    let ms = |n| Time(Duration::from_millis(n));
    vec![
        ("start_permille", vec![Count(100), Count(250), Count(500), Count(1_000)]),
        ("raise_permille", vec![Count(0), Count(500), Count(1_000), Count(2_000), Count(4_000)]),
        ("rtt_window", vec![Off, ms(20), ms(50), ms(100), ms(200)]),
        ("rtt_permille", vec![Count(125), Count(500), Count(1_000)]),
        ("beta_waits_for_r", vec![Flag(false), Flag(true)]),
        ("is_over_base", vec![Flag(false), Flag(true)]),
        ("k_segments", vec![Count(25), Count(50), Count(125), Count(250), Count(500)]),
        ("r_cap_memory", vec![Off, ms(2_000), ms(10_000)]),
    ]
}

fn network(preset: Preset, seed: u64, bytes: u64) -> Result<NetworkConfig, Box<dyn Error>> {
    let radio = |trace| PathConfig {
        link: LinkConfig {
            capacity: Capacity::Trace(Arc::new(trace)),
            delay: DelayModel::Fixed(Duration::from_millis(20)),
            queue: QueueLimit::Bytes(Bytes::new(2_000_000)),
            ..LinkConfig::default()
        },
        ..PathConfig::default()
    };
    let wan = PathConfig::constant(Rate::from_mbps(1_000), Duration::from_millis(10), Bytes::from_mib(4));
    let trace = |direction| preset.generate(direction, LENGTH + Duration::from_secs(30), seed);
    let radio =
        RadioConfig { down: radio(trace(LinkDirection::Down)?), up: radio(trace(LinkDirection::Up)?) };
    let line_up = LineUp::server(Application::bulk(bytes)).client(Application::sink()).with(|config| {
        (config.wan_down, config.wan_up) = (wan.clone(), wan);
        config.radios = vec![radio];
        config.log = LogMode::Hash;
        config.checks.debt_max = Bytes::new(3_000_000);
    });
    Ok(line_up.config().clone())
}

/// Utilisation in per cent, p95 of the queueing delay in ms, seconds of the short download.
fn measure(preset: Preset, params: RateParams) -> Result<[f64; 3], Box<dyn Error>> {
    let settings = EngineConfig { controller: ControllerConfig::Rate(params), ..EngineConfig::default() };
    let (mut delivered, mut offered, mut delays, mut short) = (0, 0, Vec::new(), 0.0);
    for seed in 1..=SEEDS {
        let mut long = Network::new(&network(preset, seed, 2_000_000_000)?, Engine::new(settings.clone())?)?;
        let end = Instant::ZERO + LENGTH;
        while long.now() < end && !long.run_until(end)? {
            long.wait_until(end);
        }
        let radio = long.radio_down(0).ok_or("no radio link")?.link_mut();
        let gone = radio.take_log().into_iter().filter(|r| r.departure.is_some_and(|at| at <= end));
        for record in gone {
            delivered += record.size.get();
            delays.extend(record.queueing_delay());
        }
        offered += radio.offered_bytes(Instant::ZERO, end).get();
        let mut one = Network::new(&network(preset, seed, SHORT)?, Engine::new(settings.clone())?)?;
        short += one.run()?.ended_at.saturating_since(Instant::ZERO).as_secs_f64();
    }
    delays.sort_unstable();
    let p95 = delays.get(delays.len() * 95 / 100).map_or(0.0, |delay| delay.as_millis_f64());
    Ok([100.0 * delivered as f64 / offered as f64, p95, short / SEEDS as f64])
}

fn main() -> Result<(), Box<dyn Error>> {
    let links = [(Preset::Hspa3g, 5_600), (Preset::Lte4g, 100_000), (Preset::LteDrive4g, 100_000)];
    for has_cap in [false, true] {
        println!("\n{} in-flight cap\n", if has_cap { "With the" } else { "Without the" });
        println!("| | {} |", links.map(|(preset, _)| preset.name()).join(" | "));
        println!("|---|{}", "---|".repeat(links.len()));
        for (name, values) in choices() {
            for value in values {
                let cells = links.map(|(preset, r_cap)| -> Result<String, Box<dyn Error>> {
                    let base = if has_cap { RateParams::default() } else { RateParams::paper() };
                    let mut config =
                        ControllerConfig::Rate(RateParams { r_cap: Rate::from_kbps(r_cap), ..base });
                    config.set(name, value.clone())?;
                    let ControllerConfig::Rate(params) = config else { return Err("not rate".into()) };
                    let [used, p95, short] = measure(preset, params)?;
                    Ok(format!("{used:.0} · {p95:.0} · {short:.1}"))
                });
                let cells = cells.into_iter().collect::<Result<Vec<_>, _>>()?;
                println!("| `{name}` {} | {} |", text(&value), cells.join(" | "));
            }
        }
    }
    Ok(())
}

fn text(value: &ParameterValue) -> String {
    match value {
        ParameterValue::Count(n) => n.to_string(),
        ParameterValue::Flag(flag) => flag.to_string(),
        ParameterValue::Time(time) => format!("{} ms", time.as_millis()),
        ParameterValue::Off => "off".to_owned(),
        other => format!("{other:?}"),
    }
}
