//! `cellerator demo`.

use std::path::{Path, PathBuf};
use std::process::ExitCode;

use scenario::Scenario;

use crate::outcome::{self, Files};

/// The parts, built in so that the program stands alone.
const PARTS: [(&str, &str); 3] = [
    ("demo-small-window.toml", include_str!("../../../scenarios/demo-small-window.toml")),
    ("demo-lte-drive.toml", include_str!("../../../scenarios/demo-lte-drive.toml")),
    ("demo-5g-drive.toml", include_str!("../../../scenarios/demo-5g-drive.toml")),
];

/// Arguments of `cellerator demo`.
#[derive(clap::Args)]
pub struct Args {
    /// Directory for report.html, results.json and captures
    #[arg(long, value_name = "DIR", default_value = "out/demo")]
    out: PathBuf,
}

/// Runs `cellerator demo`; an error is one clear line: what, where, what to do.
pub fn main(args: &Args) -> Result<ExitCode, String> {
    let scenarios = PARTS
        .iter()
        .map(|(file, text)| Scenario::from_toml(file, text))
        .collect::<Result<Vec<_>, _>>()
        .map_err(|e| e.to_string())?;
    println!("Real downloads over an emulated cellular link; about two minutes.\n");
    let (html, json) = (args.out.join("report.html"), args.out.join("results.json"));
    let captures = args.out.join("captures");
    let files = Files {
        json: Some(&json),
        html: Some(&html),
        title: "Cellerator: downloads over 3G, LTE and 5G",
        captures: Some(&captures),
    };
    outcome::run(&scenarios, None, Path::new("."), None, &files)
}
