//! The settings file read anew: what holds for new flows, and what has to wait for the next start.

use std::ffi::OsString;
use std::path::{Path, PathBuf};

use super::acceleration::EngineArgs;
use super::{Settings, file};
use crate::{ReadSettings, Reread};

/// Reads the file at `path` anew, below the flags `given`.
pub(super) fn reading(path: PathBuf, given: Vec<OsString>) -> Result<ReadSettings, String> {
    let flags = |path: &Path| {
        let settings = file::read(path).map_err(|error| format!("run: {error}"))?;
        Ok::<Vec<String>, String>(settings.into_iter().flat_map(|setting| setting.flags).collect())
    };
    let at_start = flags(&path)?;
    Ok(Box::new(move || {
        let engine = Settings::with_file(&path, &given)?.engine.config()?;
        Ok(Reread { engine, at_next_start: waiting(&at_start, &flags(&path)?, &given) })
    }))
}

/// The settings that differ between two readings of a file, are not the engine's, and that no flag overrides.
fn waiting(before: &[String], after: &[String], given: &[OsString]) -> Vec<String> {
    let engine = <EngineArgs as clap::Args>::augment_args(clap::Command::new("run"));
    let name_of = |flag: &str| {
        let flag = flag.trim_start_matches("--");
        flag.split_once('=').map_or(flag, |(name, _)| name).to_owned()
    };
    let is_of_machine = |flag: &&String| {
        let name = name_of(flag);
        let is_given = given.iter().any(|given| name_of(&given.to_string_lossy()) == name);
        !is_given && !engine.get_arguments().any(|argument| argument.get_long() == Some(&name))
    };
    let new = after.iter().filter(|flag| !before.contains(flag)).filter(is_of_machine);
    let mut lines: Vec<String> =
        new.map(|flag| flag.trim_start_matches("--").replacen('=', " = ", 1)).collect();
    let names: Vec<String> = after.iter().map(|flag| name_of(flag)).collect();
    let gone = before.iter().filter(is_of_machine).map(|flag| name_of(flag));
    lines.extend(gone.filter(|name| !names.contains(name)).map(|name| format!("without {name}")));
    lines
}
