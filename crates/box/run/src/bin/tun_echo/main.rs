//! `tun-echo CONFIG`: the steering and packet loop of `cellerator run` around a processor that passes
//! everything. CONFIG is JSON with the fields of `run::Config`. `tun-echo --dry-run CONFIG` changes nothing;
//! `tun-echo [--both-ways | --flows-max N | --hang-until FILE | --slow-end MS] --engine CONFIG` has the engine in
//! the same place, for a link without a limit; with `--hang-until` a packet that ends in `hang-now`
//! hangs its shard until FILE is there; with `--slow-end` the state of the flows takes so long to be given back.
//! Where `watchdog.successor` is `self`, this program with the same
//! arguments is.

mod hanging;

use std::path::{Path, PathBuf};
use std::process::ExitCode;

use control::{ControllerConfig, RateParams};
use engine::{Action, EngineConfig, PassThrough, Policy};
use hanging::Hanging;
use run::{Accelerator, Config, Event, Processor, RunError};
use units::{Duration, Rate};

fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let words: Vec<&str> = arguments.iter().map(String::as_str).collect();
    let (words, recover) = match words.as_slice() {
        [words @ .., "--recover", record] => (words, Some(PathBuf::from(record))),
        words => (words, None),
    };
    let parse = |config: &str| {
        let mut config = parse(config)?;
        run::keep_needed_privileges(&config.state_directory).map_err(|error| error.to_string())?;
        config.recover.clone_from(&recover);
        if config.watchdog.successor == ["self"] {
            let words = words.iter().map(|word| (*word).to_owned());
            config.watchdog.successor = std::iter::once("/proc/self/exe".to_owned()).chain(words).collect();
        }
        Ok::<_, String>(config)
    };
    let result = match words {
        ["--watchdog", record, hang_after_ms] => watch(record, hang_after_ms),
        ["--dry-run", config] => parse(config).and_then(|config| {
            run::dry_run(&config, &mut |event: &Event| println!("{}", event.line()))
                .map_err(|error| error.to_string())
        }),
        ["--engine", config] => parse(config).and_then(|config| accelerate(&config, EngineConfig::default())),
        ["--both-ways", "--engine", config] => {
            let policy = Policy { default: Action::Both, ..Policy::default() };
            parse(config)
                .and_then(|config| accelerate(&config, EngineConfig { policy, ..EngineConfig::default() }))
        }
        ["--flows-max", flows_max, "--engine", config] => {
            let flows_max = flows_max.parse().map_err(|_| format!("'{flows_max}' is not a number"));
            let engine = |flows_max| EngineConfig { flows_max, ..EngineConfig::default() };
            flows_max.and_then(|flows_max| accelerate(&parse(config)?, engine(flows_max)))
        }
        ["--hang-until", file, "--engine", config] => parse(config).and_then(|config| {
            let until = PathBuf::from(file);
            accelerate_by(&config, EngineConfig::default(), |inner| {
                Hanging { inner, until: until.clone(), end_takes: Duration::ZERO }
            })
        }),
        ["--slow-end", ms, "--engine", config] => parse(config).and_then(|config| {
            let ms = ms.parse().map_err(|_| format!("'{ms}' is not a number"))?;
            accelerate_by(&config, EngineConfig::default(), |inner| {
                Hanging { inner, until: PathBuf::new(), end_takes: Duration::from_millis(ms) }
            })
        }),
        [config] => parse(config).and_then(|config| echo(&config)),
        _ => Err("usage: tun-echo [--dry-run | [--both-ways | --flows-max N | --hang-until FILE | --slow-end MS] --engine] '{\"wired\": …, \"mobile\": …}'"
            .to_owned()),
    };
    match result {
        Ok(()) => ExitCode::SUCCESS,
        Err(message) => {
            io::say(format_args!("tun-echo: {message}"));
            ExitCode::FAILURE
        }
    }
}

fn parse(config: &str) -> Result<Config, String> {
    let mut config: Config = serde_json::from_str(config).map_err(|error| error.to_string())?;
    if config.watchdog.command == Config::default().watchdog.command {
        config.watchdog.command = ["/proc/self/exe", "--watchdog"].map(str::to_owned).to_vec();
    }
    Ok(config)
}

fn echo(config: &Config) -> Result<(), String> {
    let make = |shards| Ok(vec![PassThrough; shards]);
    let ended = run::run(config, make, &mut |event: &Event| io::say(event.line()));
    let ended = ended.map_err(|error| error.to_string())?;
    io::say(format_args!("{ended:?}"));
    Ok(())
}

fn accelerate(config: &Config, engine: EngineConfig) -> Result<(), String> {
    accelerate_by(config, engine, |accelerator| accelerator)
}

fn accelerate_by<P: Processor + Send + 'static>(
    config: &Config,
    engine: EngineConfig,
    wrap: impl Fn(Accelerator) -> P,
) -> Result<(), String> {
    let controller =
        ControllerConfig::Rate(RateParams { r_cap: Rate::from_mbps(1_000), ..RateParams::default() });
    let (schedule_passed, echo_markers) = (config.schedules, config.echo_markers);
    let engine = EngineConfig { controller, schedule_passed, echo_markers, ..engine };
    let make = |shards| {
        let made = Accelerator::for_shards(&engine, shards, None);
        let made = made.map_err(|error| RunError::Settings(error.to_string()))?;
        Ok(made.into_iter().map(&wrap).collect())
    };
    let ended = run::run(config, make, &mut |event: &Event| io::say(event.line()));
    let ended = ended.map_err(|error| error.to_string())?;
    let counted = |name| ended.processor.counter(name);
    io::say(format_args!("{:?} {:?} {:?}", ended.why, ended.counters, ended.queue_drops));
    io::say(format_args!(
        "accelerated {} flows, {} B lost",
        counted("flows_accelerated"),
        counted("bytes_acked_but_lost")
    ));
    Ok(())
}

fn watch(record: &str, hang_after_ms: &str) -> Result<(), String> {
    let hang_after_ms = hang_after_ms.parse().map_err(|_| format!("'{hang_after_ms}' is not a number"))?;
    let watched = run::watch(Path::new(record), Duration::from_millis(hang_after_ms));
    watched.map(drop).map_err(|error| error.to_string())
}
