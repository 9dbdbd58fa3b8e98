//! The file of `cellerator run --config`: the flags' names and values, as TOML.

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::path::Path;

use clap::error::ErrorKind;
use clap::{Arg, ArgAction, Command, CommandFactory};
use toml::{Spanned, Value};

use super::Line;

/// Flags that make no sense in a file.
const NOT_IN_A_FILE: [&str; 7] =
    ["config", "watchdog", "recover", "dry-run", "replace", "background", "help"];

/// A setting of a file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct FileSetting {
    /// The flags that say the same.
    pub flags: Vec<String>,
    /// Where it stands, from 1.
    pub line: usize,
}

impl FileSetting {
    /// What is wrong with it beside the flags `given`, which are right, if anything.
    pub fn problem(&self, given: &[OsString]) -> Option<String> {
        let words = std::iter::once(OsString::from("run"))
            .chain(self.flags.iter().map(OsString::from))
            .chain(given.iter().cloned());
        let error = Line::command_for_update().try_get_matches_from(words).err()?;
        // Another setting may say what it needs.
        (error.kind() != ErrorKind::MissingRequiredArgument).then(|| first_line(&error))
    }
}

/// What an error says, without the usage that follows.
pub(super) fn first_line(error: &clap::Error) -> String {
    let text = error.to_string();
    text.lines().next().unwrap_or_default().trim_start_matches("error: ").to_owned()
}

/// Reads the settings in the file at `path`, in the order of their names.
///
/// # Errors
/// One line: the file, the place in it, what to do.
pub(super) fn read(path: &Path) -> Result<Vec<FileSetting>, String> {
    let text = std::fs::read_to_string(path)
        .map_err(|error| format!("cannot read the settings file {}: {error}", path.display()))?;
    parse(&text, &Line::command()).map_err(|problem| format!("{}: {problem}", path.display()))
}

fn parse(text: &str, command: &Command) -> Result<Vec<FileSetting>, String> {
    let line_at = |byte: usize| 1 + text.get(..byte).unwrap_or_default().matches('\n').count();
    let table: BTreeMap<Spanned<String>, Value> = toml::from_str(text).map_err(|error| {
        format!("line {}: {}", error.span().map_or(1, |span| line_at(span.start)), error.message())
    })?;
    let settings = table.iter().map(|(name, value)| {
        let line = line_at(name.span().start);
        let name = name.get_ref();
        let argument = command.get_arguments().find(|argument| argument.get_long() == Some(name));
        match argument.filter(|_| !NOT_IN_A_FILE.contains(&name.as_str())) {
            Some(argument) => Ok(FileSetting { flags: flags(name, argument, value)?, line }),
            None => Err(format!("line {line}: unknown setting '{name}': {}", hint(name, command))),
        }
    });
    settings.collect()
}

/// What may have been meant by a name that there is not.
fn hint(name: &str, command: &Command) -> String {
    let like = name.trim_start_matches('-').replace('_', "-");
    let is_there = command.get_arguments().any(|argument| argument.get_long() == Some(&like));
    if is_there && like != *name {
        format!("did you mean '{like}'?")
    } else {
        "`cellerator run --help` lists them, without '--'".to_owned()
    }
}

/// The flags that say the same as a setting.
fn flags(name: &str, argument: &Arg, value: &Value) -> Result<Vec<String>, String> {
    let is_switch = matches!(argument.get_action(), ArgAction::SetTrue);
    Ok(match (is_switch, value) {
        (true, Value::Boolean(true)) => vec![format!("--{name}")],
        (true, Value::Boolean(false)) => Vec::new(),
        (true, _) => return Err(format!("setting '{name}': is true or false, without quotes")),
        (false, Value::String(text)) => vec![format!("--{name}={text}")],
        (false, Value::Integer(number)) => vec![format!("--{name}={number}")],
        (false, Value::Array(items)) => {
            let texts = items
                .iter()
                .map(|item| item.as_str().ok_or_else(|| format!("setting '{name}': a list of texts")));
            let texts = texts.collect::<Result<Vec<_>, _>>()?;
            if argument.get_num_args().is_some_and(|count| count.min_values() > 1) {
                // All of them are the values of one flag.
                std::iter::once(format!("--{name}")).chain(texts.into_iter().map(str::to_owned)).collect()
            } else {
                texts.iter().map(|text| format!("--{name}={text}")).collect()
            }
        }
        (false, _) => return Err(format!("setting '{name}': is a text in quotes, such as \"5 s\"")),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(text: &str) -> Result<Vec<String>, String> {
        let command = Command::new("run")
            .arg(Arg::new("wired").long("wired"))
            .arg(Arg::new("ports").long("ports").action(ArgAction::Append))
            .arg(Arg::new("no-gso").long("no-gso").action(ArgAction::SetTrue))
            .arg(Arg::new("config").long("config"));
        let settings = parse(text, &command)?;
        Ok(settings.into_iter().flat_map(|setting| setting.flags).collect())
    }

    #[test]
    fn settings_become_flags() {
        let flags = read("wired = \"w0\"\nno-gso = true\nports = [\"80\", \"443\"]\n").unwrap();
        let mut wanted = ["--no-gso", "--ports=80", "--ports=443", "--wired=w0"];
        wanted.sort_unstable();
        let mut flags: Vec<&str> = flags.iter().map(String::as_str).collect();
        flags.sort_unstable();
        assert_eq!(flags, wanted);
        assert!(read("no-gso = false").unwrap().is_empty());
    }

    #[test]
    fn what_is_wrong_is_named() {
        let wrong = |text, part: &str| {
            let problem = read(text).unwrap_err();
            assert!(problem.contains(part) && problem.lines().count() == 1, "{problem}");
        };
        wrong("wired = \"w0\"\nmobile == 1", "line 2");
        wrong("wired = \"w0\"\nwire = \"w0\"", "line 2: unknown setting 'wire'");
        wrong("no_gso = true", "line 1: unknown setting 'no_gso': did you mean 'no-gso'?");
        wrong("config = \"x\"", "unknown setting 'config'");
        wrong("no-gso = \"yes\"", "'no-gso': is true or false");
        wrong("wired = 1.5", "'wired': is a text in quotes");
    }
}
