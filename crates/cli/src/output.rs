//! Outputs for documents and words: `-` is standard output, and then the words for people go to standard error.

use std::ffi::OsString;
use std::fs;
use std::io::{ErrorKind, IsTerminal, Write};
use std::path::Path;

use anyhow::{Context, Result, bail};
use console::Term;

/// A network namespace in words.
pub fn namespace(is_here: bool, name: Option<&str>, id: u64) -> String {
    match (is_here, name) {
        (true, _) => "this network namespace".to_owned(),
        (false, Some(name)) => format!("network namespace '{name}'"),
        (false, None) => format!("network namespace {id}, which has no name here"),
    }
}

/// Columns of what is not a terminal, or does not say.
const COLUMNS: usize = 80;

/// The arguments without the `-` of `--json -` where `--json` is a switch, whose document goes to
/// standard output anyway. Where `-` could be the only input it stays, and is standard input.
pub fn without_dash(mut arguments: Vec<OsString>) -> Vec<OsString> {
    let word = |at: usize| arguments.get(at).and_then(|word| word.to_str()).unwrap_or_default();
    let path = (word(1), word(2));
    let has_input = match path {
        ("status" | "top" | "flows" | "doctor", _) => false,
        ("analyze", _) | ("trace", "info") => true,
        _ => return arguments,
    };
    let dash = (2..arguments.len()).find(|at| word(at - 1) == "--json" && word(*at) == "-");
    let Some(dash) = dash else { return arguments };
    let inputs_begin = if path.0 == "trace" { 3 } else { 2 };
    // Another input: a word that is no flag and stands behind none, or `-` once more.
    let is_other = |at: usize| {
        let (before, own) = (word(at - 1), word(at));
        let is_free = at == inputs_begin || !before.starts_with("--") || before == "--json";
        at != dash && is_free && (!own.starts_with('-') || own == "-")
    };
    if !has_input || (inputs_begin..arguments.len()).any(is_other) {
        arguments.remove(dash);
    }
    arguments
}

/// True for `-`: standard output.
pub fn is_standard_output(path: &Path) -> bool {
    path.as_os_str() == "-"
}

/// Tables and sentences for people: on standard output, or on standard error where a document goes
/// to standard output.
#[derive(Clone, Copy, Debug, Default)]
pub struct Words {
    is_beside: bool,
}

impl Words {
    /// The words of a command that writes documents to `files`.
    ///
    /// # Errors
    /// When two of them are standard output.
    pub fn beside<'a>(files: impl IntoIterator<Item = Option<&'a Path>>) -> Result<Self> {
        let count = files.into_iter().flatten().filter(|path| is_standard_output(path)).count();
        if count > 1 {
            bail!("only one document can go to standard output (`-`): name files for the others");
        }
        Ok(Self { is_beside: count == 1 })
    }

    /// Says `text` and ends the line. A reader who has gone away is no reason to lose what comes after.
    pub fn say(&self, text: &str) {
        if self.is_beside {
            drop(writeln!(std::io::stderr(), "{text}"));
        } else {
            drop(writeln!(std::io::stdout(), "{text}"));
        }
    }

    /// Number of columns that a table may have: the terminal's, or 80.
    pub fn columns(&self) -> usize {
        let is_terminal =
            if self.is_beside { std::io::stderr().is_terminal() } else { std::io::stdout().is_terminal() };
        let term = if self.is_beside { Term::stderr() } else { Term::stdout() };
        let size = term.size_checked().filter(|_| is_terminal);
        size.map_or(COLUMNS, |(_, columns)| usize::from(columns)).max(20)
    }
}

/// Writes a document to `path` and says so, or to standard output for `-`, where whoever stops
/// reading has what they wanted.
///
/// # Errors
/// It cannot be written; why, in one line.
pub fn save(path: &Path, text: &str) -> Result<()> {
    if is_standard_output(path) {
        let mut out = std::io::stdout().lock();
        return match out.write_all(text.as_bytes()).and_then(|()| out.flush()) {
            Err(error) if error.kind() == ErrorKind::BrokenPipe => Ok(()),
            written => written.context("cannot write to standard output"),
        };
    }
    fs::write(path, text).with_context(|| format!("cannot write {}", path.display()))?;
    eprintln!("  wrote {}", path.display());
    Ok(())
}

/// Lines of the verifier's log that are shown without --verbose: its verdict stands at the end.
const LOG_LINES: usize = 20;

/// Prints the log of the verifier of BPF programs, if the verifier refused.
pub fn show_log(log: Option<&str>, is_whole: bool) {
    let Some(log) = log else { return };
    let lines: Vec<&str> = log.lines().collect();
    let hidden = if is_whole { 0 } else { lines.len().saturating_sub(LOG_LINES) };
    if hidden > 0 {
        eprintln!("  … {hidden} lines before these: --verbose shows them");
    }
    lines[hidden..].iter().for_each(|line| eprintln!("  {line}"));
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_document_at_most_goes_to_standard_output() {
        let (out, file) = (Some(Path::new("-")), Some(Path::new("a.json")));
        assert!(!Words::beside([file, None]).unwrap().is_beside);
        assert!(Words::beside([file, out]).unwrap().is_beside);
        assert!(Words::beside([out, out]).unwrap_err().to_string().contains("standard output"));
    }

    #[test]
    fn a_switch_takes_the_dash_that_others_need() {
        let without = |line: &str| {
            let words = without_dash(line.split(' ').map(OsString::from).collect());
            words.iter().map(|word| word.to_str().unwrap()).collect::<Vec<_>>().join(" ")
        };
        assert_eq!(without("cellerator status --json -"), "cellerator status --json");
        assert_eq!(without("cellerator flows --json - box"), "cellerator flows --json box");
        assert_eq!(without("cellerator analyze a.pcap --json -"), "cellerator analyze a.pcap --json");
        assert_eq!(without("cellerator analyze --json - a.pcap"), "cellerator analyze --json a.pcap");
        assert_eq!(without("cellerator trace info --json - a.trace"), "cellerator trace info --json a.trace");
        // Standard input, and the document goes to standard output all the same.
        assert_eq!(without("cellerator analyze --json -"), "cellerator analyze --json -");
        assert_eq!(without("cellerator analyze --top 3 --json -"), "cellerator analyze --top 3 --json -");
        // Here it names where the document goes.
        assert_eq!(without("cellerator sim run a.toml --json -"), "cellerator sim run a.toml --json -");
    }
}
