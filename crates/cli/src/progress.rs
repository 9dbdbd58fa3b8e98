//! Progress on standard error: a line that moves on a terminal, plain lines now and then elsewhere.

use std::io::IsTerminal;
use std::sync::Mutex;

use indicatif::{ProgressBar, ProgressStyle};
use io::Clock;
use lab::Progress;
use scenario::results::CaseResult;
use units::{Bytes, Duration, Instant};

/// Interval between lines that do not move.
const LINE_EVERY: Duration = Duration::from_secs(10);

/// Line that tells how far something is; it goes with the value.
pub struct Line {
    /// Bar that moves, on a terminal alone.
    bar: Option<ProgressBar>,
    /// Time of the last line that does not move.
    printed: Mutex<Option<Instant>>,
}

impl Line {
    /// A line of words alone.
    pub fn of_words() -> Self {
        Self::new("  {wide_msg}", 0)
    }

    /// A line with a bar of so many bytes. `what` is said of it where it moves.
    pub fn of_bytes(all: Bytes, what: &str) -> Self {
        let style = "  {msg}  {wide_bar:.cyan/dim} {decimal_bytes} of {decimal_total_bytes}, {elapsed}";
        Self::new(style, all.get()).named(what)
    }

    /// A line with a bar.
    pub fn of_parts(what: &str) -> Self {
        Self::new("  {msg}  {wide_bar:.cyan/dim} {elapsed}", 1).named(what)
    }

    fn new(style: &str, all: u64) -> Self {
        let bar = std::io::stderr().is_terminal().then(|| {
            let style = ProgressStyle::with_template(style);
            let style = style.unwrap_or_else(|_| ProgressStyle::default_bar());
            let bar = ProgressBar::new(all).with_style(style);
            bar.enable_steady_tick(std::time::Duration::from_millis(200));
            bar
        });
        Self { bar, printed: Mutex::new(None) }
    }

    fn named(self, what: &str) -> Self {
        self.bar.iter().for_each(|bar| bar.set_message(what.to_owned()));
        self
    }

    /// Says where it does not move what it is of.
    #[must_use]
    pub fn announced(self, what: &str) -> Self {
        if self.bar.is_none() {
            eprintln!("  {what} …");
        }
        self
    }

    /// Says `text` in place of what was said before; where nothing moves, if that was some time ago.
    pub fn say(&self, text: String) {
        if let Some(bar) = &self.bar {
            bar.set_message(text);
            return;
        }
        let Ok(mut printed) = self.printed.lock() else { return };
        let now = Clock::now();
        if printed.is_none_or(|at| now.saturating_since(at) >= LINE_EVERY) {
            eprintln!("  {text}");
            *printed = Some(now);
        }
    }

    /// Moves the bar by so much.
    pub fn add(&self, more: u64) {
        self.bar.iter().for_each(|bar| bar.inc(more));
    }

    /// Moves the bar to its place of `all`.
    pub fn reach(&self, place: u64, all: u64) {
        let Some(bar) = &self.bar else { return };
        if bar.length() != Some(all) {
            bar.set_length(all);
        }
        bar.set_position(place);
    }
}

impl Drop for Line {
    fn drop(&mut self) {
        self.bar.iter().for_each(ProgressBar::finish_and_clear);
    }
}

/// The [`Progress`] of runs in a lab.
pub struct Display(Option<Line>);

impl Display {
    /// A display under the heading of a scenario.
    pub fn new(heading: &str) -> Self {
        eprintln!("{heading}");
        Self(None)
    }

    /// Shows one step.
    pub fn show(&mut self, progress: &Progress<'_>) {
        match (progress, &self.0) {
            (Progress::Begins { case, run, runs }, _) => {
                let what = format!("[{run}/{runs}] {case}");
                self.0 = Some(Line::of_bytes(Bytes::new(1), &what).announced(&what));
            }
            (Progress::Moves { received, expected }, Some(line)) => {
                line.reach(received.get(), expected.get());
            }
            (Progress::Ends(result), _) => {
                self.0 = None;
                tell(result);
            }
            _ => {}
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
            let bytes = Bytes::new(f.transfer.received_bytes);
            let (rate, time) = (f.transfer.goodput_mbps, f.transfer.seconds);
            let sender = result.sender();
            format!("{}: {bytes} in {time:.1} s, {rate:.2} Mbit/s (sender: {sender})", result.name)
        }
        (None, Some(why)) => format!("{}: not run, {why}", result.name),
        (None, None) => format!("{}: not run", result.name),
    }
}
