//! `tun-echo CONFIG`: the steering and packet loop of `cellerator run` around a processor that passes
//! everything. CONFIG is JSON with the fields of `run::Config`. `tun-echo --dry-run CONFIG` changes nothing.

use std::path::Path;
use std::process::ExitCode;

use run::{Config, PassThrough};
use units::Duration;

fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let arguments: Vec<&str> = arguments.iter().map(String::as_str).collect();
    let result = match arguments.as_slice() {
        ["--watchdog", record, hang_after_ms] => watch(record, hang_after_ms),
        ["--dry-run", config] => parse(config).and_then(|config| {
            let plan = run::dry_run(&config).map_err(|error| error.to_string())?;
            plan.commands().iter().for_each(|line| println!("{line}"));
            plan.warnings().iter().for_each(|line| println!("warning: {line}"));
            Ok(())
        }),
        [config] => parse(config).and_then(|config| echo(&config)),
        _ => Err("usage: tun-echo [--dry-run] '{\"wired\": …, \"mobile\": …}'".to_owned()),
    };
    match result {
        Ok(()) => ExitCode::SUCCESS,
        Err(message) => {
            eprintln!("tun-echo: {message}");
            ExitCode::FAILURE
        }
    }
}

fn parse(config: &str) -> Result<Config, String> {
    let mut config: Config = serde_json::from_str(config).map_err(|error| error.to_string())?;
    config.watchdog_command = ["/proc/self/exe", "--watchdog"].map(str::to_owned).to_vec();
    Ok(config)
}

fn echo(config: &Config) -> Result<(), String> {
    let ended = run::run(config, &mut PassThrough, &mut |line| eprintln!("{line}"));
    let ended = ended.map_err(|error| error.to_string())?;
    eprintln!("{ended:?}");
    Ok(())
}

fn watch(record: &str, hang_after_ms: &str) -> Result<(), String> {
    let hang_after_ms = hang_after_ms.parse().map_err(|_| format!("'{hang_after_ms}' is not a number"))?;
    run::watch(Path::new(record), Duration::from_millis(hang_after_ms)).map_err(|error| error.to_string())
}
