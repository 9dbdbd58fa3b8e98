//! [`print`]: a page as PDF, by the browser of this machine.
//!
//! No crate lays out the pages' HTML and CSS; a second layout of our own for one sheet would be another page to keep.

use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use io::{Clock, Waiter};
use units::Duration;

use crate::HistoryError;

/// Programs that print, by what they are called.
const PRINTERS: [&str; 4] = ["chromium", "chromium-browser", "google-chrome", "google-chrome-stable"];

/// Longest time that printing may take.
const PATIENCE: Duration = Duration::from_secs(60);
const LOOK_EVERY: Duration = Duration::from_millis(50);

/// The first of the printers in the folders of `path`, which is as the variable PATH.
#[must_use]
pub fn printer(path: &std::ffi::OsStr) -> Option<PathBuf> {
    let folders: Vec<PathBuf> = std::env::split_paths(path).collect();
    PRINTERS
        .iter()
        .flat_map(|name| folders.iter().map(move |folder| folder.join(name)))
        .find(|file| file.is_file())
}

/// Prints `html` to `to`, with the browser `printer`.
///
/// # Errors
/// It cannot be started, takes too long, or makes no PDF.
pub fn print(printer: &Path, html: &str, to: &Path) -> Result<(), HistoryError> {
    let fail = |what: String| HistoryError::Print(format!("{}: {what}", printer.display()));
    let name = format!("cellerator-report-{}-{}", std::process::id(), Clock::wall_nanos());
    let folder = std::env::temp_dir().join(name);
    // It must not exist: nobody else has put anything there.
    std::fs::create_dir(&folder).map_err(HistoryError::file("make", &folder))?;
    let result = print_in(&folder, printer, html, to, &fail);
    // What is left behind harms nothing.
    drop(std::fs::remove_dir_all(&folder));
    result
}

fn print_in(
    folder: &Path,
    printer: &Path,
    html: &str,
    to: &Path,
    fail: &dyn Fn(String) -> HistoryError,
) -> Result<(), HistoryError> {
    let (page, pdf) = (folder.join("page.html"), folder.join("page.pdf"));
    std::fs::write(&page, html).map_err(HistoryError::file("write", &page))?;
    let mut command = Command::new(printer);
    command.args([
        "--headless",
        "--disable-gpu",
        "--disable-extensions",
        "--no-first-run",
        "--no-pdf-header-footer",
    ]);
    // Its sandbox does not work as root; the page is ours, and has no script.
    if telemetry::is_root() {
        command.arg("--no-sandbox");
    }
    command.arg(format!("--user-data-dir={}", folder.join("profile").display()));
    command.arg(format!("--print-to-pdf={}", pdf.display())).arg(format!("file://{}", page.display()));
    command.env("HOME", folder).stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
    let mut child = command.spawn().map_err(|error| fail(format!("cannot be started: {error}")))?;
    let give_up = Clock::now() + PATIENCE;
    let mut waiter = Waiter::new(Duration::ZERO).map_err(|error| fail(error.to_string()))?;
    let ended = loop {
        if let Some(ended) = child.try_wait().map_err(|error| fail(error.to_string()))? {
            break ended;
        }
        if Clock::now() >= give_up {
            drop(child.kill());
            drop(child.wait());
            return Err(fail("it did not print within a minute".to_owned()));
        }
        waiter.wait(Some(Clock::now() + LOOK_EVERY)).map_err(|error| fail(error.to_string()))?;
    };
    let made = std::fs::read(&pdf).unwrap_or_default();
    if !made.starts_with(b"%PDF-") {
        return Err(fail(format!("it made no PDF ({ended})")));
    }
    std::fs::write(to, made).map_err(HistoryError::file("write", to))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_no_printer_is_said_and_nothing_is_written() {
        assert_eq!(printer("/nowhere:/nowhere/else".as_ref()), None);
        let folder = tempfile::tempdir().unwrap();
        let to = folder.path().join("report.pdf");
        let error = print(Path::new("/bin/true"), "<p>", &to).unwrap_err().to_string();
        assert!(error.contains("it made no PDF"), "{error}");
        assert!(!to.exists());
        let error = print(Path::new("/nowhere/browser"), "<p>", &to).unwrap_err().to_string();
        assert!(error.contains("cannot be started"), "{error}");
    }
}
