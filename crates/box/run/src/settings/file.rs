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

/// The table of hand-overs to other boxes.
const HANDOVER: &str = "handover";

/// Keys of the hand-over section, but for its peers: `listen` is `--handover-listen`.
const OF_HANDOVER: [&str; 5] = ["listen", "certificate", "key", "authorities", "encapsulation"];

/// Keys of a peer.
const OF_PEER: [&str; 4] = ["address", "certificate", "takes", "gives"];

/// A setting of a file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct FileSetting {
    /// The flags that say the same.
    pub flags: Vec<String>,
    /// Line in the file, from 1.
    pub line: usize,
}

impl FileSetting {
    /// Problem with it beside the flags `given`, which are right, if anything.
    pub fn problem(&self, given: &[OsString]) -> Option<String> {
        let words = std::iter::once(OsString::from("run"))
            .chain(self.flags.iter().map(OsString::from))
            .chain(given.iter().cloned());
        let error = Line::command_for_update().try_get_matches_from(words).err()?;
        // Another setting may say what it needs.
        (error.kind() != ErrorKind::MissingRequiredArgument).then(|| first_line(&error))
    }
}

/// Text of an error, in one line, without the usage that follows: what is possible stands in further lines of it.
pub(super) fn first_line(error: &clap::Error) -> String {
    let text = in_plain_words(&error.to_string());
    let said: Vec<&str> =
        text.lines().map_while(|line| Some(line.trim()).filter(|line| !line.is_empty())).collect();
    said.join(" ").trim_start_matches("error: ").to_owned()
}

/// Texts of the standard library for a text that is no number, and their plain versions.
const NO_NUMBERS: [(&str, &str); 6] = [
    ("invalid digit found in string", "write a whole number, such as 2"),
    ("cannot parse integer from empty string", "write a whole number, such as 2"),
    ("number too large to fit in target type", "the number is too large"),
    ("number too small to fit in target type", "the number is too small"),
    ("invalid float literal", "write a number, such as 2.5"),
    ("cannot parse float from empty string", "write a number, such as 2.5"),
];

/// An error's text where numbers that are none are spoken of in plain words.
#[must_use]
pub fn in_plain_words(text: &str) -> String {
    NO_NUMBERS.iter().fold(text.to_owned(), |text, (said, meant)| text.replace(said, meant))
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
        if let (HANDOVER, Value::Table(table)) = (name.as_str(), value) {
            let flags = handover_flags(table).map_err(|problem| format!("line {line}: {problem}"))?;
            return Ok(FileSetting { flags, line });
        }
        let argument = command.get_arguments().find(|argument| argument.get_long() == Some(name));
        match argument.filter(|_| !NOT_IN_A_FILE.contains(&name.as_str())) {
            Some(argument) => Ok(FileSetting { flags: flags(name, argument, value)?, line }),
            None => Err(format!("line {line}: unknown setting '{name}': {}", hint(name, command))),
        }
    });
    settings.collect()
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

/// The flags that say the same as the table of hand-overs.
fn handover_flags(table: &toml::Table) -> Result<Vec<String>, String> {
    let text = |name: &str, value: &Value| match value {
        Value::String(text) => Ok(text.clone()),
        _ => Err(format!("setting '{name}' of [{HANDOVER}]: is a text in quotes")),
    };
    let mut flags = Vec::new();
    for (name, value) in table {
        match (name.as_str(), value) {
            ("peers", Value::Table(peers)) => {
                for (peer, value) in peers {
                    let said = match value {
                        Value::Table(said) => said,
                        _ => return Err(format!("peer '{peer}': is a table with 'address'")),
                    };
                    let unknown = said.keys().find(|key| !OF_PEER.contains(&key.as_str()));
                    if let Some(unknown) = unknown {
                        return Err(format!(
                            "peer '{peer}': unknown setting '{unknown}': there are {}",
                            OF_PEER.join(", ")
                        ));
                    }
                    let address =
                        said.get("address").ok_or_else(|| format!("peer '{peer}': no 'address'"))?;
                    let mut flag = format!("--handover-peer={peer}={}", text("address", address)?);
                    if let Some(file) = said.get("certificate") {
                        flag = format!("{flag},{}", text("certificate", file)?);
                    }
                    flags.push(flag);
                    for name in ["takes", "gives"] {
                        let Some(value) = said.get(name) else { continue };
                        let all = value.as_array().and_then(|all| all.iter().map(Value::as_str).collect());
                        let all: Vec<&str> = all.ok_or_else(|| {
                            format!(
                                "peer '{peer}': '{name}' is a list of prefixes, such as [\"10.45.0.0/16\"]"
                            )
                        })?;
                        flags.push(format!("--handover-{name}={peer}={}", all.join(",")));
                    }
                }
            }
            ("peers", _) => {
                return Err(format!("setting 'peers' of [{HANDOVER}]: is a table of peers by their names"));
            }
            (name, value) if OF_HANDOVER.contains(&name) => {
                flags.push(format!("--handover-{name}={}", text(name, value)?));
            }
            (name, _) => {
                return Err(format!(
                    "unknown setting '{name}' of [{HANDOVER}]: there are {} and peers",
                    OF_HANDOVER.join(", ")
                ));
            }
        }
    }
    Ok(flags)
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
    fn a_table_of_hand_overs_becomes_flags() {
        let text = "wired = \"w0\"\n[handover]\nlisten = \"192.0.2.1:7320\"\nauthorities = \"ca.pem\"\n\
                    [handover.peers.north]\naddress = \"192.0.2.7:7320\"\ncertificate = \"north.pem\"\n\
                    takes = [\"10.45.0.0/16\", \"2001:db8::/32\"]\ngives = []\n\
                    [handover.peers.east]\naddress = \"192.0.2.8:7320\"\n";
        let mut flags = read(text).unwrap();
        flags.sort_unstable();
        let wanted = [
            "--handover-authorities=ca.pem",
            "--handover-gives=north=",
            "--handover-listen=192.0.2.1:7320",
            "--handover-peer=east=192.0.2.8:7320",
            "--handover-peer=north=192.0.2.7:7320,north.pem",
            "--handover-takes=north=10.45.0.0/16,2001:db8::/32",
            "--wired=w0",
        ];
        assert_eq!(flags, wanted);
        for (text, part) in [
            ("[handover]\nlisten = 1", "line 1: setting 'listen' of [handover]: is a text"),
            ("\n[handover]\nport = 1", "line 2: unknown setting 'port' of [handover]"),
            ("[handover]\npeers = []", "'peers' of [handover]: is a table"),
            ("[handover.peers]\nnorth = 1", "peer 'north': is a table"),
            ("[handover.peers.north]\nkey = \"a\"", "peer 'north': unknown setting 'key'"),
            ("[handover.peers.north]\ncertificate = \"a\"", "peer 'north': no 'address'"),
            ("[handover.peers.north]\naddress = \"a\"\ntakes = \"a\"", "'takes' is a list of prefixes"),
            ("[handover.peers.north]\naddress = \"a\"\ngives = [1]", "'gives' is a list of prefixes"),
        ] {
            let problem = read(text).unwrap_err();
            assert!(problem.contains(part) && problem.lines().count() == 1, "{problem}");
        }
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
