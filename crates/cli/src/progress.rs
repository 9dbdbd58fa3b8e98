//! Progress of a run: a moving bar on a terminal, plain lines elsewhere.

use std::io::IsTerminal;
use std::time::Duration;

use indicatif::{ProgressBar, ProgressStyle};
use lab::Progress;
use scenario::results::CaseResult;

/// Shows [`Progress`] on standard error.
pub struct Display {
    bar: Option<ProgressBar>,
    expected: Option<u64>,
}

impl Display {
    /// A display under the heading of a scenario.
    pub fn new(heading: &str) -> Self {
        eprintln!("{heading}");
        Self { bar: None, expected: None }
    }

    /// Shows one step.
    pub fn show(&mut self, progress: &Progress<'_>) {
        match progress {
            Progress::Begins { case, run, runs } => self.begin(&format!("[{run}/{runs}] {case}")),
            Progress::Moves { received, expected } => {
                if let Some(bar) = &self.bar {
                    if self.expected != Some(expected.get()) {
                        bar.set_length(expected.get());
                        self.expected = Some(expected.get());
                    }
                    bar.set_position(received.get());
                }
            }
            Progress::Radio(_) => {}
            Progress::Ends(result) => self.end(result),
        }
    }

    fn begin(&mut self, what: &str) {
        self.expected = None;
        if !std::io::stderr().is_terminal() {
            eprintln!("  {what} …");
            return;
        }
        let style = "  {msg}  {wide_bar:.cyan/dim} {decimal_bytes} of {decimal_total_bytes}, {elapsed}";
        let bar = ProgressBar::new(1).with_message(what.to_owned());
        bar.set_style(ProgressStyle::with_template(style).unwrap_or_else(|_| ProgressStyle::default_bar()));
        bar.enable_steady_tick(Duration::from_millis(200));
        self.bar = Some(bar);
    }

    fn end(&mut self, result: &CaseResult) {
        if let Some(bar) = self.bar.take() {
            bar.finish_and_clear();
        }
        tell(result);
    }
}

impl Drop for Display {
    fn drop(&mut self) {
        if let Some(bar) = self.bar.take() {
            bar.finish_and_clear();
        }
    }
}

/// Says how a case has ended, and what was wrong with it.
pub fn tell(result: &CaseResult) {
    let mark = match (&result.skipped, result.problems.is_empty(), result.doubts.is_empty()) {
        (Some(_), ..) => "–",
        (None, false, _) => "✗",
        (None, true, false) => "?",
        (None, true, true) => "✓",
    };
    eprintln!("  {mark} {}", outcome(result));
    for line in result.problems.iter().chain(&result.doubts) {
        eprintln!("    {line}");
    }
}

/// One line about a case that has ended.
fn outcome(result: &CaseResult) -> String {
    match (&result.figures, &result.skipped) {
        (Some(f), _) => {
            let bytes = units::Bytes::new(f.transfer.received_bytes);
            let (rate, time) = (f.transfer.goodput_mbps, f.transfer.seconds);
            let sender = result.sender();
            format!("{}: {bytes} in {time:.1} s, {rate:.2} Mbit/s (sender: {sender})", result.name)
        }
        (None, Some(why)) => format!("{}: not run, {why}", result.name),
        (None, None) => format!("{}: not run", result.name),
    }
}
