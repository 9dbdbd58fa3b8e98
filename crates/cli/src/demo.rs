//! `cellerator demo`.

use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{self, RecvTimeoutError};

use anyhow::{Result, bail};
use io::Signals;
use lab::{LabError, Runner};
use scenario::results::{Picture, Results, ScenarioResult};
use scenario::{Kind, Quantity, Scenario, Workload};
use units::{Bytes, Duration, Rate};

use crate::error_line;
use crate::outcome::{self, Files};
use crate::progress::Display;

/// The parts, built in so that the program stands alone.
const PARTS: [(&str, &str); 4] = [
    ("demo-small-window.toml", include_str!("../../../scenarios/demo-small-window.toml")),
    ("demo-lte-drive.toml", include_str!("../../../scenarios/demo-lte-drive.toml")),
    ("demo-5g-drive.toml", include_str!("../../../scenarios/demo-5g-drive.toml")),
    ("demo-phone.toml", include_str!("../../../scenarios/demo-phone.toml")),
];
/// Measurements from which the picture of random loss is drawn: too many runs for real time.
const LOSS: (&str, &str) = ("demo-loss.toml", include_str!("../../../scenarios/demo-loss.toml"));
/// The parts that the other pictures are drawn from.
const LTE: &str = "lte-drive";
const FIVE_G: &str = "5g-drive";
const PHONE: &str = "phone";
/// Interval of the checks whether the user has ended a simulation.
const TURN: std::time::Duration = std::time::Duration::from_millis(50);

/// Arguments of `cellerator demo`.
#[derive(clap::Args)]
pub struct Args {
    /// Directory for report.html, results.json and captures
    #[arg(long, value_name = "DIR", default_value = "out/demo")]
    out: PathBuf,
}

/// Runs `cellerator demo`; an error is one clear line: what, where, what to do.
pub fn main(args: &Args) -> Result<ExitCode> {
    let scenarios = PARTS.iter().map(read).collect::<Result<Vec<_>, _>>()?;
    let loss = read(&LOSS)?;
    println!("Real downloads over an emulated cellular link; about four minutes.\n");
    let (html, json) = (args.out.join("report.html"), args.out.join("results.json"));
    let captures = args.out.join("captures");
    let files = Files {
        json: Some(&json),
        html: Some(&html),
        title: "Cellerator: downloads over 3G, LTE and 5G",
        captures: Some(&captures),
        pictures: Some(&|runner, results| pictures(runner, results, &loss)),
    };
    outcome::run(&scenarios, None, Path::new("."), None, &files)
}

fn read((file, text): &(&str, &str)) -> Result<Scenario> {
    Ok(Scenario::from_toml(file, text)?)
}

/// Throughput against random loss, simulated; the ping during a download, beside that of the idle
/// link; a phone that does everything at once; a drive on 5G.
fn pictures(runner: &Runner<'_>, results: &Results, loss: &Scenario) -> Result<Vec<Picture>, LabError> {
    let part = |name: &str| results.scenarios.iter().find(|result| result.scenario.name == name);
    let simulated = simulated(loss, runner.signals)?;
    let mut pictures = vec![report::loss_picture(&simulated, "sim")];
    if let Some(drive) = part(LTE) {
        pictures.push(report::ping_picture(drive, &idle(runner, drive)?, "lab"));
    }
    pictures.push(part(PHONE).and_then(|phone| report::phone_picture(phone, "lab")));
    pictures.push(part(FIVE_G).and_then(|drive| report::drive_picture(drive, "lab")));
    Ok(pictures.into_iter().flatten().collect())
}

/// The link of `drive` for as long as its longest download took, with pings and next to nothing else.
fn idle(runner: &Runner<'_>, drive: &ScenarioResult) -> Result<ScenarioResult, LabError> {
    let seconds = drive.cases.iter().filter_map(|case| Some(case.figures.as_ref()?.transfer.seconds));
    let length = Duration::from_millis((seconds.fold(1.0, f64::max) * 1e3) as u64);
    let mut scenario = drive.scenario.clone();
    let ping = scenario.workload.ping;
    scenario.name += "-idle";
    scenario.title = Some("The idle link".to_owned());
    scenario.cases.clear();
    scenario.workload = Workload {
        kind: Some(Kind::Udp),
        write_rate: Some(Quantity(Rate::from_kbps(1))),
        datagram: Some(Quantity(Bytes::new(125))),
        length: Some(Quantity(length)),
        ping,
        ..Workload::default()
    };
    let mut display = Display::new(scenario.heading());
    runner.run(&scenario, None, &mut |step| display.show(&step))
}

/// Every case of `scenario` in virtual time, until the user ends it.
fn simulated(scenario: &Scenario, signals: &Signals) -> Result<ScenarioResult, LabError> {
    eprintln!("{} (simulated)", scenario.heading());
    let is_over = AtomicBool::new(false);
    let result = std::thread::scope(|scope| {
        let (send, ended) = mpsc::channel();
        // Who waits outlives it.
        scope.spawn(|| drop({ send }.send(crate::sim::simulated(scenario, &is_over))));
        loop {
            match ended.recv_timeout(TURN) {
                Ok(result) => return result,
                Err(RecvTimeoutError::Timeout) => {
                    is_over.fetch_or(signals.take().is_some(), Ordering::Relaxed)
                }
                Err(RecvTimeoutError::Disconnected) => bail!("the simulation ended early"),
            };
        }
    });
    result.map_err(|error| LabError::Which(error_line(&error)))?.ok_or(LabError::Interrupted)
}
