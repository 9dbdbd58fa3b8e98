//! The file of `cellerator run --config`: the flags' names and values, as TOML.

use std::collections::BTreeMap;
use std::path::Path;

use clap::{Command, CommandFactory};
use serde::Deserialize;
use toml::{Spanned, Table, Value};

use super::{Line, Settings};

/// Flags that make no sense in a file.
const NOT_IN_A_FILE: [&str; 7] =
    ["config", "watchdog", "recover", "dry-run", "replace", "background", "help"];

/// The table of hand-overs to other boxes.
const HANDOVER: &str = "handover";

/// Keys of that table, but for its peers: `listen` is `handover-listen`.
const OF_HANDOVER: [&str; 5] = ["listen", "certificate", "key", "authorities", "encapsulation"];

/// A settings file whose names are all known.
pub(super) struct File {
    /// Content of the file.
    pub table: Table,
    /// Line of each name, from 1.
    lines: BTreeMap<String, usize>,
}

impl File {
    /// Settings of the file, above the defaults.
    ///
    /// # Errors
    /// One line: the place in it, what to do.
    pub fn settings(&self) -> Result<Settings, String> {
        for (name, value) in &self.table {
            // Alone, so that the line is known.
            let one = Table::from_iter([(name.clone(), value.clone())]);
            let line = || self.line_of(&[name]);
            settings_of(one).map_err(|problem| format!("{}: setting '{name}': {problem}", line()))?;
        }
        settings_of(self.table.clone())
    }

    /// The line of the first of its settings whose name begins with one of `names`, in words.
    pub fn line_of(&self, names: &[&str]) -> String {
        let mut lines = self.lines.iter().filter(|(name, _)| names.iter().any(|one| name.starts_with(one)));
        lines.next().map_or_else(String::new, |(_, line)| format!(", line {line}"))
    }
}

fn settings_of(table: Table) -> Result<Settings, String> {
    let mut settings = Settings::deserialize(table).map_err(|error| in_plain_words(error.message()))?;
    settings.handover.join_peers()?;
    Ok(settings)
}

/// Text of an error, in one line, without the usage that follows: what is possible stands in further lines of it.
pub(super) fn first_line(error: &clap::Error) -> String {
    let text = in_plain_words(&error.to_string());
    let said: Vec<&str> =
        text.lines().map_while(|line| Some(line.trim()).filter(|line| !line.is_empty())).collect();
    said.join(" ").trim_start_matches("error: ").to_owned()
}

/// Messages of libraries about a text that is no number and a value of another kind, for people.
const PLAIN: [(&str, &str); 15] = [
    ("invalid digit found in string", "write a whole number, such as 2"),
    ("cannot parse integer from empty string", "write a whole number, such as 2"),
    ("number too large to fit in target type", "the number is too large"),
    ("number too small to fit in target type", "the number is too small"),
    ("invalid float literal", "write a number, such as 2.5"),
    ("cannot parse float from empty string", "write a number, such as 2.5"),
    ("invalid socket address syntax", "write ADDR:PORT, such as 192.0.2.1:7310"),
    ("unknown variant", "invalid value"),
    ("unknown field", "unknown setting"),
    ("missing field", "there is no"),
    ("expected a boolean", "write true or false, without quotes"),
    ("expected a string", "write a text in quotes"),
    ("expected string or map", "write a text in quotes"),
    ("expected a sequence", "write a list, such as [\"a\", \"b\"]"),
    ("expected a map", "write a table"),
];

/// An error's text in plain words where it speaks of numbers or kinds of values.
#[must_use]
pub fn in_plain_words(text: &str) -> String {
    PLAIN.iter().fold(text.to_owned(), |text, (said, meant)| text.replace(said, meant))
}

/// Reads the file at `path`.
///
/// # Errors
/// One line: the file, the place in it, what to do.
pub(super) fn read(path: &Path) -> Result<File, String> {
    let text = std::fs::read_to_string(path)
        .map_err(|error| format!("cannot read the settings file {}: {error}", path.display()))?;
    parse(&text, &Line::command()).map_err(|problem| format!("{}, {problem}", path.display()))
}

fn parse(text: &str, command: &Command) -> Result<File, String> {
    let line_at = |byte: usize| 1 + text.get(..byte).unwrap_or_default().matches('\n').count();
    let said: BTreeMap<Spanned<String>, Value> = toml::from_str(text).map_err(|error| {
        format!("line {}: {}", error.span().map_or(1, |span| line_at(span.start)), error.message())
    })?;
    let is_known = |name: &str| {
        let is_flag = command.get_arguments().any(|argument| argument.get_long() == Some(name));
        is_flag && !NOT_IN_A_FILE.contains(&name)
    };
    let mut file = File { table: Table::new(), lines: BTreeMap::new() };
    for (name, value) in said {
        let (line, name) = (line_at(name.span().start), name.into_inner());
        let of_handover = |of: &str| match of {
            "peers" => Ok(format!("{HANDOVER}.peers")),
            of if OF_HANDOVER.contains(&of) => Ok(format!("{HANDOVER}-{of}")),
            _ => Err(format!(
                "line {line}: unknown setting '{of}' of [{HANDOVER}]: there are {} and peers",
                OF_HANDOVER.join(", ")
            )),
        };
        let settings = match value {
            Value::Table(said) if name == HANDOVER => {
                said.into_iter().map(|(of, value)| Ok((of_handover(&of)?, value))).collect()
            }
            value if is_known(&name) => Ok(vec![(name, value)]),
            _ => Err(format!("line {line}: unknown setting '{name}': {}", hint(&name, command))),
        };
        for (name, value) in settings? {
            file.lines.insert(name.clone(), line);
            file.table.insert(name, value);
        }
    }
    Ok(file)
}

/// Suggestion for a name that there is not.
fn hint(name: &str, command: &Command) -> String {
    let like = name.trim_start_matches('-').replace('_', "-");
    let is_there = command.get_arguments().any(|argument| argument.get_long() == Some(&like));
    if is_there && like != *name {
        format!("did you mean '{like}'?")
    } else {
        "`cellerator run --help` lists them, without '--'".to_owned()
    }
}

#[cfg(test)]
mod tests {
    use engine::EngineConfig;

    use super::*;

    fn read(text: &str) -> Result<Settings, String> {
        parse(text, &Line::command())?.settings()
    }

    #[test]
    fn what_is_wrong_is_named() {
        let wrong = |text: &str, part: &str| {
            let problem = read(text).err().unwrap();
            assert!(problem.contains(part) && problem.lines().count() == 1, "{problem}");
        };
        wrong("wired = \"w0\"\nmobile == 1", "line 2");
        wrong("wired = \"w0\"\nwire = \"w0\"", "line 2: unknown setting 'wire'");
        wrong("no_gso = true", "line 1: unknown setting 'no_gso': did you mean 'no-gso'?");
        wrong("config = \"x\"", "unknown setting 'config'");
        wrong("handover = 1", "unknown setting 'handover'");
        wrong(
            "no-gso = \"yes\"",
            "line 1: setting 'no-gso': invalid type: string \"yes\", write true or false",
        );
        wrong("wired = 1.5", "'wired': invalid type: floating point `1.5`, write a text in quotes");
        wrong("steering = 3", "'steering': invalid type: integer `3`, write a text in quotes");
        wrong("\n[handover]\nlisten = 1", "line 2: setting 'handover-listen': invalid type: integer `1`");
        wrong(
            "\n[handover]\nport = 1",
            "line 2: unknown setting 'port' of [handover]: there are listen, certificate",
        );
        wrong("[handover]\npeers = []", "setting 'handover.peers': invalid type: sequence, write a table");
        wrong(
            "[handover.peers]\nnorth = 1",
            "peer 'north': invalid type: integer `1`, expected a table with `address`",
        );
        wrong("[handover.peers.north]\nkey = \"a\"", "peer 'north': unknown setting `key`");
        wrong("[handover.peers.north]\ncertificate = \"a\"", "peer 'north': there is no `address`");
        wrong("[handover.peers.north]\naddress = \"a\"", "peer 'north': 'a' is not ADDR:PORT");
        let peer = "[handover.peers.north]\naddress = \"192.0.2.7:7320\"\n";
        wrong(
            &format!("{peer}takes = \"a\""),
            "peer 'north': invalid type: string \"a\", write a list, such as [\"a\", \"b\"]",
        );
        wrong(&format!("{peer}gives = [\"10.0.0.1/8\"]"), "peer 'north': '10.0.0.1/8' has bits behind");
    }

    #[test]
    fn numbers_may_stand_in_quotes_and_one_text_is_a_list() {
        let same = |one: &str, other: &str| {
            let config =
                |text: &str| EngineConfig { hash_seed: 0, ..read(text).unwrap().engine.config().unwrap() };
            assert_eq!(config(one), config(other));
        };
        same("flows-max = 10", "flows-max = \"10\"");
        same("drwa-lambda = 4", "drwa-lambda = \"4.0\"");
        same("rule = \"pass port 22\"", "rule = [\"pass port 22\"]");
        same("no-schedule = false", "");
    }
}
