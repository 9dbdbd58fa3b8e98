//! `--compare BEFORE AFTER`: two datasets, and the effect of what changed between them.

use std::process::ExitCode;

use anyhow::{Result, bail};
use datasets::Flows;

use super::{Args, print};
use crate::output::{self, Words};

/// Runs the comparison.
pub(super) fn compare(args: &Args) -> Result<ExitCode> {
    let [before, after] = args.files.as_slice() else {
        bail!(
            "--compare needs two datasets (--compare BEFORE AFTER), or environments: --group wifi=a.pcap \
             --group lte=b.pcap"
        );
    };
    let sides = [Flows::read(before)?, Flows::read(after)?];
    let names = [before, after].map(|path| path.display().to_string());
    let comparison =
        datasets::compare((&names[0], &sides[0]), (&names[1], &sides[1]), args.samples, args.seed);
    if let Some(path) = &args.html {
        output::save(path, &datasets::page(&comparison))?;
    }
    let text = match args.json {
        true => serde_json::to_string_pretty(&comparison)? + "\n",
        false => {
            let (table, gone) = datasets::table(&comparison)
                .fitting(Words::default().columns(), &["flows", "flows", "difference"]);
            let left_out = match gone.as_slice() {
                [] => "",
                [.., "difference"] => "  (numbers of flows, and differences in units: --json)\n",
                _ => "  (numbers of flows: --json)\n",
            };
            format!("{table}{left_out}{}", datasets::notes(&comparison))
        }
    };
    print(text.as_bytes())?;
    Ok(ExitCode::SUCCESS)
}
