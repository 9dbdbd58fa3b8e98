//! Sweeps `window-adaptation` over a trace with late reports: utilisation against queueing delay.
//!
//! `cargo run --release -p cellerator-sim --example window_adaptation_sweep TRACE [SECONDS] [KEY=N,N…]…`
//!
//! TRACE is a file in Mahimahi format or the name of a preset. Keys, each with the values to try:
//! `delay`, `period` (of the reports, ms), `loss`, `noise` (percent), `law` (0 per step, 1 in
//! flight, 2 predictive), `target`, `memory`, `forecast` (ms), `observer`, `idle` (thousandths),
//! `q0` (packets), `gain` (thousandths).

use std::error::Error;
use std::sync::Arc;

use control::{ControllerConfig, Law, WindowAdaptationParams};
use engine::{Engine, EngineConfig};
use link::{BaseStationConfig, Capacity, DelayModel, LinkConfig, LinkDirection, Preset, QueueLimit, Trace};
use sim::{Application, LineUp, LogMode, Network, NetworkConfig, PathConfig, RadioConfig};
use units::{Bytes, Duration, Instant, Rate};

/// One key and the values to try.
type Axis = (String, Vec<u64>);

const KEYS: [(&str, u64); 12] = [
    ("delay", 20),
    ("period", 10),
    ("loss", 0),
    ("noise", 0),
    ("law", 2),
    ("target", 0),
    ("memory", 0),
    ("forecast", 0),
    ("observer", 0),
    ("idle", 28),
    ("q0", 15),
    ("gain", 1_000),
];

fn axes(words: &[String]) -> Result<Vec<Axis>, Box<dyn Error>> {
    let mut axes: Vec<Axis> = KEYS.iter().map(|(key, value)| ((*key).to_owned(), vec![*value])).collect();
    for word in words {
        let (key, values) = word.split_once('=').ok_or_else(|| format!("`{word}` is no KEY=N,N…"))?;
        let axis =
            axes.iter_mut().find(|(known, _)| known == key).ok_or_else(|| format!("no key `{key}`"))?;
        axis.1 = values.split(',').map(str::parse).collect::<Result<_, _>>()?;
    }
    Ok(axes)
}

/// Every combination of the axes' values.
fn points(axes: &[Axis]) -> Vec<Vec<u64>> {
    axes.iter().fold(vec![Vec::new()], |points, (_, values)| {
        let extend = |point: &Vec<u64>| {
            let point = point.clone();
            values.iter().map(move |&value| [point.clone(), vec![value]].concat()).collect::<Vec<_>>()
        };
        points.iter().flat_map(extend).collect()
    })
}

fn params(at: impl Fn(&str) -> u64) -> WindowAdaptationParams {
    let default = WindowAdaptationParams::default();
    let ms = |key: &str, default: Duration| match at(key) {
        0 => default,
        ms => Duration::from_millis(ms),
    };
    WindowAdaptationParams {
        law: [Law::PerStep, Law::InFlight, Law::Predictive][at("law").min(2) as usize],
        tau: Duration::from_millis(at("period")),
        q0: Bytes::new(at("q0") * 1_500),
        gain_permille: at("gain") as u32,
        target: ms("target", default.target),
        idle_permille: at("idle") as u32,
        target_memory: ms("memory", default.target_memory),
        forecast_memory: ms("forecast", default.forecast_memory),
        observer_permille: if at("observer") == 0 {
            default.observer_permille
        } else {
            at("observer") as u32
        },
        ..default
    }
}

fn network(trace: &Arc<Trace>, at: impl Fn(&str) -> u64) -> NetworkConfig {
    let ms = Duration::from_millis;
    let radio = |capacity, queue| PathConfig {
        link: LinkConfig { capacity, delay: DelayModel::Fixed(ms(10)), queue, ..LinkConfig::default() },
        ..PathConfig::default()
    };
    let wan = PathConfig::constant(Rate::from_mbps(1_000), ms(10), Bytes::from_mib(4));
    let down = radio(Capacity::Trace(trace.clone()), QueueLimit::Bytes(Bytes::new(4_000_000)));
    let up = radio(Capacity::Unlimited, QueueLimit::Unlimited);
    let line_up = LineUp::server(Application::bulk(2_000_000_000)).client(Application::sink()).with(|c| {
        (c.wan_down, c.wan_up) = (wan.clone(), wan);
        c.radios = vec![RadioConfig { down, up }];
        c.log = LogMode::Hash;
        c.checks.debt_max = Bytes::new(8_000_000);
        c.feedback = Some(BaseStationConfig {
            period: ms(at("period")),
            delay: ms(at("delay")),
            loss_ppm: at("loss") as u32 * 10_000,
            bandwidth_noise_ppm: at("noise") as u32 * 10_000,
            queue_noise: Bytes::new(at("noise") * 150),
            ..BaseStationConfig::default()
        });
    });
    line_up.config().clone()
}

/// Utilisation, and mean and 95th percentile of the queueing delay in ms.
fn run(
    config: &NetworkConfig,
    params: WindowAdaptationParams,
    seconds: u64,
) -> Result<[f64; 3], Box<dyn Error>> {
    let settings =
        EngineConfig { controller: ControllerConfig::WindowAdaptation(params), ..EngineConfig::default() };
    let mut network = Network::new(config, Engine::new(settings)?)?;
    let end = Instant::ZERO + Duration::from_secs(seconds);
    network.run_until(end)?;
    let link = network.radio_down(0).ok_or("no radio")?.link_mut();
    let log = link.take_log();
    let served = log.iter().filter(|r| r.departure.is_some_and(|at| at <= end));
    let delivered: u64 = served.clone().map(|r| r.size.get()).sum();
    let mut delays: Vec<f64> =
        served.filter_map(|r| r.queueing_delay()).map(Duration::as_millis_f64).collect();
    delays.sort_by(f64::total_cmp);
    let p95 = delays.get(delays.len() * 95 / 100).copied().unwrap_or(0.0);
    let mean = delays.iter().sum::<f64>() / delays.len().max(1) as f64;
    Ok([delivered as f64 / link.offered_bytes(Instant::ZERO, end).get() as f64, mean, p95])
}

fn main() -> Result<(), Box<dyn Error>> {
    let words: Vec<String> = std::env::args().skip(1).collect();
    let (name, rest) = words.split_first().ok_or("which trace?")?;
    let (seconds, rest) = match rest.split_first() {
        Some((first, rest)) if !first.contains('=') => (first.parse()?, rest),
        _ => (60, rest),
    };
    let trace = match Preset::from_name(name) {
        Some(preset) => preset.generate(LinkDirection::Down, Duration::from_secs(seconds), 1)?,
        None => Trace::parse_mahimahi(&std::fs::read_to_string(name)?, name)?,
    };
    let (trace, axes) = (Arc::new(trace), axes(rest)?);
    for point in points(&axes) {
        let at = |key: &str| {
            axes.iter().position(|(known, _)| known == key).and_then(|i| point.get(i)).copied().unwrap_or(0)
        };
        let varied = axes.iter().zip(&point).filter(|((_, values), _)| values.len() > 1);
        let label: Vec<String> = varied.map(|((key, _), value)| format!("{key} {value:>4}")).collect();
        let [utilisation, mean, p95] = run(&network(&trace, at), params(at), seconds)?;
        println!("{}  util {utilisation:.3} mean {mean:6.1} p95 {p95:6.1} ms", label.join("  "));
    }
    Ok(())
}
