//! Lines of standard error, which several processes share.

use std::fmt::Display;
use std::io::Write;

/// Says a line on standard error, in one write: the lines of processes that write to the same place do not
/// mix. `eprintln!` writes each piece of its text by itself.
///
/// A reader who has gone away is no reason to stop.
pub fn say(line: impl Display) {
    drop(std::io::stderr().write_all(format!("{line}\n").as_bytes()));
}
