//! The file of `cellerator run --config`: the flags' names and values, as TOML.
//!
//! A file is turned into flags and put before those of the command line, which win. So there is one list of
//! settings, one way to read a value, and one set of messages.

use std::path::Path;

use clap::{ArgAction, Command};

/// Flags that make no sense in a file.
const NOT_IN_A_FILE: [&str; 5] = ["config", "watchdog", "dry-run", "replace", "help"];

/// Reads `path` as flags of `command`.
///
/// # Errors
/// One line: the file, the place in it, what to do.
pub fn flags(path: &Path, command: &Command) -> Result<Vec<String>, String> {
    let text = std::fs::read_to_string(path)
        .map_err(|error| format!("cannot read the settings file {}: {error}", path.display()))?;
    parse(&text, command).map_err(|problem| format!("{}: {problem}", path.display()))
}

/// The line of `path`, from 1, with the setting whose flag `problem` names first.
pub fn line_of(path: &Path, problem: &str) -> Option<usize> {
    let text = std::fs::read_to_string(path).ok()?;
    let (_, flag) = problem.split_once("'--")?;
    line_in(&text, flag.split([' ', '\'', '=']).next()?)
}

/// The line, from 1, that sets `name`.
fn line_in(text: &str, name: &str) -> Option<usize> {
    let is_of =
        |line: &str| line.split_once('=').is_some_and(|(key, _)| key.trim().trim_matches('"') == name);
    text.lines().position(is_of).map(|line| line + 1)
}

fn parse(text: &str, command: &Command) -> Result<Vec<String>, String> {
    let table: toml::Table = text.parse().map_err(|error: toml::de::Error| {
        let line = error.span().map_or(1, |span| 1 + text[..span.start].matches('\n').count());
        format!("line {line}: {}", error.message())
    })?;
    let mut flags = Vec::new();
    for (name, value) in &table {
        let argument = command.get_arguments().find(|argument| argument.get_long() == Some(name));
        let Some(argument) = argument.filter(|_| !NOT_IN_A_FILE.contains(&name.as_str())) else {
            let line = line_in(text, name).map_or(String::new(), |line| format!("line {line}: "));
            let like = name.trim_start_matches('-').replace('_', "-");
            let is_there = command.get_arguments().any(|argument| argument.get_long() == Some(&like));
            let hint = if is_there && like != *name {
                format!("did you mean '{like}'?")
            } else {
                "`cellerator run --help` lists them, without '--'".to_owned()
            };
            return Err(format!("{line}unknown setting '{name}': {hint}"));
        };
        let is_switch = matches!(argument.get_action(), ArgAction::SetTrue);
        match (is_switch, value) {
            (true, toml::Value::Boolean(true)) => flags.push(format!("--{name}")),
            (true, toml::Value::Boolean(false)) => {}
            (true, _) => return Err(format!("setting '{name}': is true or false, without quotes")),
            (false, toml::Value::String(text)) => flags.push(format!("--{name}={text}")),
            (false, toml::Value::Integer(number)) => flags.push(format!("--{name}={number}")),
            (false, toml::Value::Array(items)) => {
                for item in items {
                    let text = item.as_str().ok_or_else(|| format!("setting '{name}': a list of texts"))?;
                    flags.push(format!("--{name}={text}"));
                }
            }
            (false, _) => return Err(format!("setting '{name}': is a text in quotes, such as \"5 s\"")),
        }
    }
    Ok(flags)
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::Arg;

    fn read(text: &str) -> Result<Vec<String>, String> {
        let command = Command::new("run")
            .arg(Arg::new("wired").long("wired"))
            .arg(Arg::new("ports").long("ports").action(ArgAction::Append))
            .arg(Arg::new("no-gso").long("no-gso").action(ArgAction::SetTrue))
            .arg(Arg::new("config").long("config"));
        parse(text, &command)
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
