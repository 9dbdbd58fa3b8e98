//! [`live`]: the view in a terminal, until the user goes.

use std::io::{self, ErrorKind};
use std::sync::mpsc::{self, RecvTimeoutError};
use std::thread;
use std::time::Duration as StdDuration;

use ::io::{Clock, Interest, Signals, Waiter};
use ratatui::crossterm::event::{self, Event};
use units::Duration;

use crate::{App, Focus, Sample, Sampler, Source, TopError, draw};

/// Interval of the checks for samples and signals while no key comes.
const LOOK_EVERY: Duration = Duration::from_millis(50);

/// Settings of the live view.
#[derive(Clone, Debug)]
pub struct Live {
    /// Place of the accelerators, as the screen says it.
    pub place: String,
    /// Time between samples.
    pub interval: Duration,
    /// False for a terminal without colours.
    pub has_colour: bool,
    /// The accelerator to begin with.
    pub name: Option<String>,
}

/// Shows what `source` says, until the user goes. The terminal is left as it was found, also by a panic.
///
/// # Errors
/// Nobody can be asked at the start, or the terminal fails.
pub fn live<S: Source + Send + 'static>(source: S, settings: &Live) -> Result<(), TopError> {
    let failed = |error: ::io::IoError| TopError::Accelerator(error.to_string());
    let signals = Signals::terminating().map_err(failed)?;
    let mut sampler = Sampler::new(source);
    let focus = Focus { name: settings.name.clone(), client: None };
    // Before the screen: who cannot ask says why in one line.
    let first = sampler.sample(&focus)?;
    let mut app = App::new(settings.place.clone(), settings.has_colour);
    app.add(first);
    let (tell, told) = mpsc::channel();
    let (found, samples) = mpsc::channel();
    let interval = StdDuration::from_nanos(settings.interval.as_nanos());
    let doing = || TopError::doing("show the view");
    let sampler = thread::Builder::new()
        .name("sampler".to_owned())
        .spawn(move || sample(&mut sampler, focus, interval, &told, &found))
        .map_err(doing())?;
    let mut terminal = ratatui::try_init().map_err(doing())?;
    let _restored = Restored;
    let mut keys = Waiter::new(Duration::ZERO).map_err(failed)?;
    keys.add(&io::stdin(), Interest::Read, 0).map_err(failed)?;
    let mut focus = app.focus();
    while !app.is_over && signals.take().is_none() {
        if sampler.is_finished() {
            // It has panicked, and said why; the terminal is the user's again already.
            return Err(TopError::Accelerator("the view has failed".to_owned()));
        }
        terminal.draw(|frame| draw(frame, &app)).map_err(doing())?;
        // A terminal that has gone away is for ever ready to read, and the library would read it for ever.
        let ready = keys.wait(Some(Clock::now() + LOOK_EVERY)).map_err(failed)?;
        if ready.iter().any(|ready| ready.failed) {
            return Ok(());
        }
        if event::poll(StdDuration::ZERO).map_err(doing())? {
            match event::read().map_err(doing())? {
                Event::Key(key) => app.on_key(key),
                // It is drawn anew anyway.
                _ => continue,
            }
        }
        if app.focus() != focus {
            focus = app.focus();
            // Whoever has gone says so by its samples.
            drop(tell.send(focus.clone()));
        }
        for sample in samples.try_iter() {
            match sample {
                Ok(sample) if sample.client == app.focus().client => app.add(sample),
                Ok(_) => {}
                Err(trouble) => app.trouble = Some(trouble),
            }
        }
    }
    Ok(())
}

/// Leaves the terminal as it was found.
struct Restored;

impl Drop for Restored {
    fn drop(&mut self) {
        // A terminal that has gone away needs nothing.
        match ratatui::try_restore() {
            Err(error) if error.kind() != ErrorKind::BrokenPipe => {
                ::io::say(format_args!("top: the terminal was not left as it was: {error}"));
            }
            _ => {}
        }
    }
}

/// Takes samples, one in each interval and one at once when something else is looked at, until the view ends.
fn sample<S: Source>(
    sampler: &mut Sampler<S>,
    mut focus: Focus,
    interval: StdDuration,
    told: &mpsc::Receiver<Focus>,
    found: &mpsc::Sender<Result<Sample, String>>,
) {
    loop {
        match told.recv_timeout(interval) {
            Ok(new) => focus = new,
            Err(RecvTimeoutError::Timeout) => {}
            Err(RecvTimeoutError::Disconnected) => return,
        }
        let sample = sampler.sample(&focus).map_err(|error| error.to_string());
        if found.send(sample).is_err() {
            return;
        }
    }
}

/// For callers: whether standard output is a terminal.
#[must_use]
pub fn is_terminal() -> bool {
    io::IsTerminal::is_terminal(&io::stdout()) && io::IsTerminal::is_terminal(&io::stdin())
}
