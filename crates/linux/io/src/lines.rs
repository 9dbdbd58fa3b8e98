//! Lines of standard error, which several processes share.

use std::fmt::Display;
use std::io::Write;

/// A text as one line: what would end it, or move a terminal's cursor, is a space. Errors quote what came from outside.
#[must_use]
pub fn one_line(text: impl Display) -> String {
    text.to_string().replace(char::is_control, " ")
}

/// Says a line on standard error, in one write: the lines of processes that write to the same place do not
/// mix. `eprintln!` writes each piece of its text by itself.
///
/// A reader who has gone away is no reason to stop.
pub fn say(line: impl Display) {
    drop(std::io::stderr().write_all(format!("{line}\n").as_bytes()));
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_quoted_does_not_end_the_line() {
        assert_eq!(one_line("unknown variant `beg\nab\u{1b}[2J`"), "unknown variant `beg ab [2J`");
    }
}
