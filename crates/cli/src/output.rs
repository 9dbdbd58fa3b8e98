//! Where documents and words go: `-` is standard output, and then the words for people go to standard error.

use std::fs;
use std::io::{ErrorKind, IsTerminal, Write};
use std::path::Path;

use console::Term;

/// Columns of what is not a terminal, or does not say.
const COLUMNS: usize = 80;

/// True for `-`: standard output.
pub fn is_standard_output(path: &Path) -> bool {
    path.as_os_str() == "-"
}

/// Tables and sentences for people: on standard output, or on standard error where a document goes to standard output.
#[derive(Clone, Copy, Debug, Default)]
pub struct Words {
    is_beside: bool,
}

impl Words {
    /// The words of a command that writes documents to `files`.
    ///
    /// # Errors
    /// When two of them are standard output.
    pub fn beside<'a>(files: impl IntoIterator<Item = Option<&'a Path>>) -> Result<Self, String> {
        let count = files.into_iter().flatten().filter(|path| is_standard_output(path)).count();
        if count > 1 {
            return Err(
                "only one document can go to standard output (`-`): name files for the others".to_owned()
            );
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

    /// How many columns a table may have: the terminal's, or 80.
    pub fn columns(&self) -> usize {
        let is_terminal =
            if self.is_beside { std::io::stderr().is_terminal() } else { std::io::stdout().is_terminal() };
        let term = if self.is_beside { Term::stderr() } else { Term::stdout() };
        let size = term.size_checked().filter(|_| is_terminal);
        size.map_or(COLUMNS, |(_, columns)| usize::from(columns)).max(20)
    }
}

/// Writes a document to `path` and says so, or to standard output for `-`, where whoever stops reading has what they wanted.
///
/// # Errors
/// It cannot be written; why, in one line.
pub fn save(path: &Path, text: &str) -> Result<(), String> {
    if is_standard_output(path) {
        let mut out = std::io::stdout().lock();
        return match out.write_all(text.as_bytes()).and_then(|()| out.flush()) {
            Err(error) if error.kind() != ErrorKind::BrokenPipe => {
                Err(format!("cannot write to standard output: {error}"))
            }
            _ => Ok(()),
        };
    }
    fs::write(path, text).map_err(|e| format!("cannot write {}: {e}", path.display()))?;
    eprintln!("  wrote {}", path.display());
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_document_at_most_goes_to_standard_output() {
        let (out, file) = (Some(Path::new("-")), Some(Path::new("a.json")));
        assert!(!Words::beside([file, None]).unwrap().is_beside);
        assert!(Words::beside([file, out]).unwrap().is_beside);
        assert!(Words::beside([out, out]).unwrap_err().contains("standard output"));
    }
}
