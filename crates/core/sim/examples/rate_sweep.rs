//! Sweeps the `rate` controller's in-flight cap over synthetic links: utilisation against queueing delay.
//!
//! `cargo run --release -p cellerator-sim --example rate_sweep [SECONDS]`

use std::error::Error;
use std::sync::Arc;

use control::{ControllerConfig, RateParams};
use engine::{Engine, EngineConfig, PassThrough};
use link::{Capacity, DelayModel, LinkConfig, LinkDirection, Preset, QueueLimit};
use sim::{Application, LineUp, LogMode, Network, NetworkConfig, PathConfig, RadioConfig};
use units::{Bytes, Duration, Instant, Rate};

fn config(preset: Preset, seed: u64, bytes: u64) -> Result<NetworkConfig, Box<dyn Error>> {
    let radio = |trace| PathConfig {
        link: LinkConfig {
            capacity: Capacity::Trace(Arc::new(trace)),
            delay: DelayModel::Fixed(Duration::from_millis(20)),
            queue: QueueLimit::Bytes(Bytes::new(2_000_000)),
            keeps_log: true,
            ..LinkConfig::default()
        },
        ..PathConfig::default()
    };
    let length = Duration::from_secs(300);
    let wan = PathConfig::constant(Rate::from_mbps(1_000), Duration::from_millis(10), Bytes::from_mib(4));
    let radio = RadioConfig {
        down: radio(preset.generate(LinkDirection::Down, length, seed)?),
        up: radio(preset.generate(LinkDirection::Up, length, seed)?),
    };
    let line_up = LineUp::server(Application::bulk(bytes)).client(Application::sink()).with(|config| {
        (config.wan_down, config.wan_up) = (wan.clone(), wan);
        config.radios = vec![radio];
        config.log = LogMode::Hash;
        config.checks.debt_max = Bytes::new(3_000_000);
    });
    Ok(line_up.config().clone())
}

struct Figures {
    utilisation: f64,
    p50_ms: f64,
    p95_ms: f64,
    seconds: f64,
}

fn run<M: sim::MiddleboxUnderTest>(config: &NetworkConfig, middlebox: M) -> Result<Figures, sim::SimError> {
    let mut network = Network::new(config, middlebox)?;
    let outcome = network.run()?;
    let Some(radio) = network.radio_down(0) else { return Err(sim::SimError::NoRadio { flow: 0 }) };
    let link = radio.link_mut();
    let log = link.take_log();
    let first = log.iter().filter_map(|r| r.departure).min().unwrap_or(Instant::ZERO);
    let last = log.iter().filter_map(|r| r.departure).max().unwrap_or(Instant::ZERO);
    let offered = link.offered_bytes(first, last).get() as f64;
    let delivered: u64 = log.iter().filter(|r| r.departure.is_some()).map(|r| r.size.get()).sum();
    let mut delays: Vec<f64> =
        log.iter().filter_map(|r| r.queueing_delay()).map(Duration::as_millis_f64).collect();
    delays.sort_by(f64::total_cmp);
    let at = |p: usize| delays.get(delays.len() * p / 100).copied().unwrap_or(0.0);
    Ok(Figures {
        utilisation: delivered as f64 / offered,
        p50_ms: at(50),
        p95_ms: at(95),
        seconds: outcome.ended_at.saturating_since(Instant::ZERO).as_secs_f64(),
    })
}

fn main() -> Result<(), Box<dyn Error>> {
    let megabytes: u64 = std::env::args().nth(1).and_then(|a| a.parse().ok()).unwrap_or(30);
    let caps = [None, Some(60), Some(80), Some(100), Some(120), Some(150), Some(200), Some(300)];
    let windows_ms = [200, 500, 1_000, 2_000];
    for preset in [Preset::LteDrive4g, Preset::Lte4g, Preset::Hspa3g] {
        for seed in 1..=3 {
            let config = config(preset, seed, megabytes * 1_000_000)?;
            match run(&config, PassThrough) {
                Ok(f) => println!(
                    "{preset:?} seed {seed}  direct NewReno   util {:.3} p50 {:7.1} p95 {:7.1} ms  {:.1} s",
                    f.utilisation, f.p50_ms, f.p95_ms, f.seconds
                ),
                Err(e) => println!("{preset:?} seed {seed} direct: {e}"),
            }
            for window_ms in windows_ms {
                for cap in caps {
                    let params = RateParams {
                        r_cap: Rate::from_mbps(100),
                        in_flight_cap: cap.map(Duration::from_millis),
                        rate_window: Duration::from_millis(window_ms),
                        ..RateParams::default()
                    };
                    let settings = EngineConfig {
                        controller: ControllerConfig::Rate(params),
                        ..EngineConfig::default()
                    };
                    let Ok(engine) = Engine::new(settings) else { continue };
                    match run(&config, engine) {
                        Ok(f) => println!(
                            "{preset:?} seed {seed}  cap {cap:>9?} window {window_ms:4}  util {:.3} p50 \
                             {:7.1} p95 {:7.1} ms  {:.1} s",
                            f.utilisation, f.p50_ms, f.p95_ms, f.seconds
                        ),
                        Err(e) => println!("{preset:?} seed {seed} cap {cap:?}: {e}"),
                    }
                }
            }
        }
    }
    Ok(())
}
