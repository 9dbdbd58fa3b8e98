//! [`LiveState`]: asks for what pages show, and for nothing while there are none.
//!
//! ```text
//!   page ─ Seat ─▶ wanted ─▶ thread: what is due? ─ question ─▶ gate
//!   page ◀─ watch ◀───────── overview each second, a watched subscriber each 100 ms
//! ```
//!
//! However many pages look, each thing is asked for once.

use std::collections::BTreeMap;
use std::os::unix::net::UnixStream;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread;
use std::time::Duration as StdDuration;

use bytes::Bytes;
use io::Clock;
use telemetry::TelemetryError;
use telemetry::http::End;
use tokio::sync::watch;
use units::{Duration, Instant};

use crate::line::Line;
use crate::overview::Overviews;
use crate::subscriber::{Key, Watched, Watching};

/// Time between two overviews, and between two looks at a subscriber.
const OVERVIEW_EVERY: Duration = Duration::from_secs(1);
const LOOK_EVERY: Duration = Duration::from_millis(100);

/// Subscribers that are looked at ten times a second, at a time.
const WATCHED_MAX: usize = 4;

/// Longest time that an answer of the gate may take.
const PATIENCE: StdDuration = StdDuration::from_secs(20);

/// State that pages and the thread that asks share.
pub(crate) struct LiveState {
    wanted: Mutex<Wanted>,
    changed: Condvar,
    /// The last overview, as JSON.
    overview: watch::Sender<Bytes>,
}

#[derive(Default)]
struct Wanted {
    /// Pages that show the overview.
    lookers: usize,
    /// Subscribers that pages show, and how many do.
    watched: BTreeMap<Key, (usize, Arc<Watched>)>,
}

impl LiveState {
    /// Starts to ask at `gate`; `end` is dropped when that has gone.
    ///
    /// # Errors
    /// There is no thread to be had.
    pub fn start(gate: UnixStream, end: End) -> Result<Arc<Self>, TelemetryError> {
        let doing = || TelemetryError::doing("use the way to the other process");
        gate.set_read_timeout(Some(PATIENCE)).map_err(doing())?;
        gate.set_write_timeout(Some(PATIENCE)).map_err(doing())?;
        let (overview, _) = watch::channel(Bytes::new());
        let live = Arc::new(Self { wanted: Mutex::default(), changed: Condvar::new(), overview });
        let own = Arc::clone(&live);
        let ask = move || {
            own.work(Line::new(gate));
            drop(end);
        };
        thread::Builder::new().name("live".to_owned()).spawn(ask).map_err(doing())?;
        Ok(live)
    }

    fn wanted(&self) -> MutexGuard<'_, Wanted> {
        self.wanted.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// A page that shows the overview, for as long as it keeps what it gets; and where the overviews come.
    pub fn look(self: &Arc<Self>) -> (Seat, watch::Receiver<Bytes>) {
        let mut wanted = self.wanted();
        let mut events = self.overview.subscribe();
        if wanted.lookers > 0 {
            // The last one is fresh.
            events.mark_changed();
        }
        wanted.lookers += 1;
        self.changed.notify_one();
        (Seat { live: Arc::clone(self), key: None }, events)
    }

    /// The same for a subscriber; none when too many others are looked at.
    pub fn watch(self: &Arc<Self>, key: Key) -> Option<(Seat, Arc<Watched>)> {
        let mut wanted = self.wanted();
        let is_new = !wanted.watched.contains_key(&key);
        if is_new && wanted.watched.len() >= WATCHED_MAX {
            return None;
        }
        let (pages, watched) = wanted.watched.entry(key.clone()).or_default();
        *pages += 1;
        let watched = Arc::clone(watched);
        self.changed.notify_one();
        Some((Seat { live: Arc::clone(self), key: Some(key) }, watched))
    }

    /// Waits until it is time for something; gives what is looked at.
    fn wait(&self, next_overview: Instant, next_look: Instant) -> (bool, BTreeMap<Key, Arc<Watched>>) {
        let mut wanted = self.wanted();
        loop {
            let overview = (wanted.lookers > 0).then_some(next_overview);
            let look = (!wanted.watched.is_empty()).then_some(next_look);
            let now = Clock::now();
            let is_due = |at: Option<Instant>| at.is_some_and(|at| at <= now);
            if is_due(overview) || is_due(look) {
                let watched = if is_due(look) { wanted.watched.clone() } else { BTreeMap::new() };
                let watched = watched.into_iter().map(|(key, (_, watched))| (key, watched));
                return (is_due(overview), watched.collect());
            }
            let next = [overview, look].into_iter().flatten().min();
            let time = next.map_or(Duration::from_secs(3_600), |at| at.saturating_since(now));
            let time = StdDuration::from_nanos(time.as_nanos());
            wanted = self.changed.wait_timeout(wanted, time).unwrap_or_else(PoisonError::into_inner).0;
        }
    }

    /// Asks until the gate has gone.
    fn work(&self, mut gate: Line) {
        let mut overviews = Overviews::default();
        let mut watching: BTreeMap<Key, Watching> = BTreeMap::new();
        let (mut next_overview, mut next_look) = (Instant::ZERO, Instant::ZERO);
        loop {
            let (is_overview_due, watched) = self.wait(next_overview, next_look);
            let now = Clock::now();
            if !watched.is_empty() {
                next_look = after(next_look, LOOK_EVERY, now);
                watching.retain(|key, _| watched.contains_key(key));
                for (key, shown) in &watched {
                    let own = watching.entry(key.clone()).or_default();
                    if own.look(&mut gate, key, shown).is_err() {
                        return;
                    }
                }
            }
            if is_overview_due {
                if now.saturating_since(next_overview) > OVERVIEW_EVERY * 3 {
                    // Nobody has looked for a while: rates begin anew.
                    overviews = Overviews::default();
                }
                next_overview = after(next_overview, OVERVIEW_EVERY, now);
                match overviews.take(&mut gate) {
                    Ok(overview) => drop(self.overview.send_replace(overview)),
                    Err(_) => return,
                }
            }
        }
    }
}

/// Next time of something that was due at `due`: missed times are not made up for.
fn after(due: Instant, every: Duration, now: Instant) -> Instant {
    let next = due + every;
    if next > now { next } else { now + every }
}

/// A page that looks.
pub(crate) struct Seat {
    live: Arc<LiveState>,
    /// The subscriber; none for the overview.
    key: Option<Key>,
}

impl Drop for Seat {
    fn drop(&mut self) {
        let mut wanted = self.live.wanted();
        match &self.key {
            None => wanted.lookers -= 1,
            Some(key) => {
                if let Some((pages, _)) = wanted.watched.get_mut(key) {
                    *pages -= 1;
                    if *pages == 0 {
                        wanted.watched.remove(key);
                    }
                }
            }
        }
    }
}
