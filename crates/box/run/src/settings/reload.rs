//! The settings file read anew: what holds for new flows, and what has to wait for the next start.

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::path::{Path, PathBuf};

use toml::{Table, Value};

use super::acceleration::EngineArgs;
use super::{Settings, file};
use crate::{ReadSettings, Reread};

/// Reads the file at `path` anew, below the flags `given`.
pub(super) fn reading(path: PathBuf, given: Vec<OsString>) -> Result<ReadSettings, String> {
    let of_machine = |path: &Path, given: &[OsString]| {
        let file = file::read(path).map_err(|error| format!("run: {error}"))?;
        Ok::<_, String>(of_machine(file.table, given))
    };
    let at_start = of_machine(&path, &given)?;
    Ok(Box::new(move || {
        let engine = Settings::with_file(&path, &given)?.engine.config()?;
        Ok(Reread { engine, at_next_start: waiting(&at_start, &of_machine(&path, &given)?) })
    }))
}

/// Settings of a file beside the engine's, but for those that a flag overrides: names and values, as people read them.
fn of_machine(table: Table, given: &[OsString]) -> BTreeMap<String, String> {
    let engine = <EngineArgs as clap::Args>::augment_args(clap::Command::new("run"));
    let is_given = |name: &str| {
        given.iter().any(|given| {
            let given = given.to_string_lossy();
            given.strip_prefix("--").and_then(|flag| flag.split('=').next()) == Some(name)
        })
    };
    let is_of_engine = |name: &str| engine.get_arguments().any(|argument| argument.get_long() == Some(name));
    let said = table
        .into_iter()
        .filter(|(name, value)| *value != Value::Boolean(false) && !is_given(name) && !is_of_engine(name));
    said.map(|(name, value)| {
        let text = match value {
            Value::Boolean(_) => String::new(),
            Value::String(text) => format!(" = {text}"),
            value => format!(" = {value}"),
        };
        (name, text)
    })
    .collect()
}

/// The settings that differ between two readings of a file.
fn waiting(before: &BTreeMap<String, String>, after: &BTreeMap<String, String>) -> Vec<String> {
    let new = after.iter().filter(|(name, value)| before.get(*name) != Some(*value));
    let gone = before.keys().filter(|name| !after.contains_key(*name));
    let new = new.map(|(name, value)| format!("{name}{value}"));
    new.chain(gone.map(|name| format!("without {name}"))).collect()
}
