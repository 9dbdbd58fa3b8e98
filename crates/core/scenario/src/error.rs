//! [`Error`]: what is wrong with a scenario, where, and what is allowed.

use core::ops::Range;

use serde::de::DeserializeOwned;

/// Reason why a scenario cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// A key or value that cannot be read.
    #[error("{file}:{line}: {message}\n{excerpt}")]
    File {
        /// The file as named by the caller.
        file: String,
        /// Line, from 1.
        line: usize,
        /// Message that says what is wrong and what is allowed.
        message: String,
        /// The line with the offending text marked.
        excerpt: String,
    },
    /// Keys that cannot stand together.
    #[error("{file}: {message}")]
    Meaning {
        /// The file as named by the caller.
        file: String,
        /// Message that says what is wrong and what is allowed.
        message: String,
    },
    /// A case that the scenario does not have.
    #[error("no case is named `{name}`; there are {names}")]
    NoCase {
        /// The name asked for.
        name: String,
        /// Names that there are.
        names: String,
    },
    /// A trace that cannot be read or built.
    #[error("trace {name}: {message}")]
    Trace {
        /// File name or preset.
        name: String,
        /// Message that says what is wrong.
        message: String,
    },
    /// A link that the settings cannot describe.
    #[error("link {name}: {message}")]
    Link {
        /// Name of the link.
        name: String,
        /// Message that says what is wrong.
        message: String,
    },
}

/// Serde's words for Rust types, and what they are in a file.
const WORDS: [(&str, &str); 5] = [
    ("unknown field", "unknown key"),
    ("missing field", "missing key"),
    ("unknown variant", "unknown value"),
    ("expected u64", "expected a whole number"),
    ("expected u32", "expected a whole number"),
];

/// Turns a TOML error into one with file, line and excerpt.
pub(crate) fn locate(file: &str, text: &str, error: &toml::de::Error) -> Error {
    let message = WORDS.iter().fold(error.message().trim().to_owned(), |m, (from, to)| m.replace(from, to));
    let Some(span) = error.span() else {
        return Error::Meaning { file: file.to_owned(), message };
    };
    let (line, excerpt) = excerpt(text, &span);
    Error::File { file: file.to_owned(), line, message, excerpt }
}

/// Reads the text of the file called `file`, and checks it: `check` says in words what serde cannot see.
pub(crate) fn read<T: DeserializeOwned>(
    file: &str,
    text: &str,
    check: impl FnOnce(&T) -> Result<(), String>,
) -> Result<T, Error> {
    let read: T = toml::from_str(text).map_err(|error| locate(file, text, &error))?;
    check(&read).map_err(|message| Error::Meaning { file: file.to_owned(), message })?;
    Ok(read)
}

/// The line number of `span`'s start, and that line with the span marked below.
fn excerpt(text: &str, span: &Range<usize>) -> (usize, String) {
    let start = (0..=span.start.min(text.len())).rev().find(|&i| text.is_char_boundary(i)).unwrap_or(0);
    let line_start = text[..start].rfind('\n').map_or(0, |i| i + 1);
    let number = text[..line_start].matches('\n').count() + 1;
    let line = text[line_start..].lines().next().unwrap_or("");
    let before = text[line_start..start].chars().count();
    let length =
        span.end.saturating_sub(span.start).min(line.len().saturating_sub(start - line_start)).max(1);
    let width = number.to_string().len();
    let marks = "^".repeat(length);
    (number, format!("{number} | {line}\n{:width$} | {:before$}{marks}", "", ""))
}
