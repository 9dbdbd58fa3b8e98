//! `multipath`: an event file through the path manager's state machine.

use std::collections::BTreeSet;
use std::net::IpAddr;

use multipath::{Action, Event, EventFile, Happening, PathId, Paths, Settings, rules, simulate};
use units::{Duration, Instant};

/// Longer files are read and not run: a machine probes for a day.
const STEPS_MAX: usize = 400;
/// Deadlines between two lines that are waited for.
const DEADLINES_MAX: usize = 40;
/// Most actions that one call may ask for, for each path.
const ACTIONS_MAX: usize = 64;
/// Longer than this the network is not played.
const PLAYED_MAX: Instant = Instant::from_millis(20_000);

/// Any text is read or refused with a line's number. What is recorded is read again. The machine only makes
/// transitions that its table has, adds and removes each endpoint once, never removes the last one, never demotes
/// the routes of every path, and comes to rest.
pub(crate) fn multipath(bytes: &[u8]) {
    let text = String::from_utf8_lossy(bytes);
    let file = match EventFile::parse(&text) {
        Ok(file) => file,
        Err(error) => {
            let said = error.to_string();
            assert!(said.starts_with("line ") && !said.contains('\n'), "an error is one line: {said}");
            return;
        }
    };
    if file.steps.len() > STEPS_MAX || file.paths.len() > 6 {
        return;
    }
    let mut watch = Watch::new(&file);
    for step in &file.steps {
        watch.wait_until(step.at);
        if let Happening::Seen(event) = &step.what {
            written_and_read(&file, event, step.at);
            watch.paths.handle(*event, step.at);
            watch.drain(step.at);
        }
    }
    let end = file.steps.iter().find(|s| s.what == Happening::End).or(file.steps.last()).map(|s| s.at);
    if end.is_some_and(|end| end <= PLAYED_MAX) {
        let outcome = simulate(&file, Settings::default());
        for times in &outcome.time_in_state_ms {
            let sum: u64 = times.values().sum();
            assert!(sum <= outcome.end_ms, "{sum} ms in states of {} ms", outcome.end_ms);
        }
    }
}

fn written_and_read(file: &EventFile, event: &Event, at: Instant) {
    let at = Instant::from_micros(at.as_nanos() / 1_000);
    let names: Vec<&str> = file.paths.iter().map(String::as_str).collect();
    let line = EventFile::recorded(&names, event, at, Instant::ZERO);
    let paths: String = names.iter().map(|name| format!("0 path {name}\n")).collect();
    let again = EventFile::parse(&format!("{paths}{line}\n")).unwrap_or_else(|e| panic!("{line}: {e}"));
    let Some(Happening::Seen(read)) = again.steps.last().map(|step| step.what.clone()) else {
        panic!("{line} is read as something else");
    };
    let coarse = |event: &Event| match event {
        // Recordings have microseconds.
        Event::Answer(id, number, rtt, seen) => {
            Event::Answer(*id, *number, Duration::from_micros(rtt.as_micros()), *seen)
        }
        other => *other,
    };
    assert_eq!(read, coarse(event), "{line}");
}

/// The machine, and what it has asked for.
struct Watch {
    paths: Paths,
    endpoints: BTreeSet<(PathId, IpAddr)>,
    demoted: BTreeSet<PathId>,
    now: Instant,
}

impl Watch {
    fn new(file: &EventFile) -> Self {
        let mut paths = Paths::new(Settings::default());
        for name in &file.paths {
            paths.add(name, Instant::ZERO);
        }
        Self { paths, endpoints: BTreeSet::new(), demoted: BTreeSet::new(), now: Instant::ZERO }
    }

    fn wait_until(&mut self, at: Instant) {
        for _ in 0..DEADLINES_MAX {
            let Some(next) = self.paths.next_deadline(self.now).filter(|next| *next < at) else { break };
            self.now = next.max(self.now + Duration::from_nanos(1));
            self.drain(self.now);
        }
        self.now = self.now.max(at);
        self.drain(self.now);
    }

    fn drain(&mut self, now: Instant) {
        let had_endpoint = !self.endpoints.is_empty();
        let limit = ACTIONS_MAX * (self.paths.iter().count() + 1);
        for count in 0.. {
            let Some(action) = self.paths.poll(now) else { break };
            assert!(count < limit, "it never comes to rest at {now}");
            self.act(action);
        }
        while let Some(change) = self.paths.poll_change() {
            let rule = rules::rule(change.from, change.cause, change.to);
            assert!(rule.is_some(), "{} {} {} is no rule", change.from, change.cause, change.to);
        }
        assert!(!had_endpoint || !self.endpoints.is_empty(), "the last endpoint is gone");
        let passing: Vec<PathId> =
            self.paths.iter().filter(|(_, path)| path.state().passes()).map(|(id, _)| id).collect();
        assert!(
            passing.is_empty() || passing.iter().any(|id| !self.demoted.contains(id)),
            "every path's routes are demoted"
        );
    }

    fn act(&mut self, action: Action) {
        match action {
            Action::Probe(..) => {}
            Action::AddEndpoint(id, address, _) => {
                assert!(self.endpoints.insert((id, address)), "{address} is added twice");
            }
            Action::RemoveEndpoint(id, address) => {
                assert!(self.endpoints.remove(&(id, address)), "{address} is removed and was not there");
            }
            Action::SetBackup(id, address, _) => {
                assert!(self.endpoints.contains(&(id, address)), "{address} is set and is not there");
            }
            Action::DemoteRoutes(id) => assert!(self.demoted.insert(id), "demoted twice"),
            Action::RestoreRoutes(id) => assert!(self.demoted.remove(&id), "restored and was not demoted"),
        }
    }
}
