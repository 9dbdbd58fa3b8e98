//! [`Path`]: what is known of one path.

use std::collections::VecDeque;
use std::net::IpAddr;

use serde::{Deserialize, Serialize};
use units::{Duration, Instant};

use crate::endpoints::Endpoint;
use crate::{Cause, Settings, State};

/// Probes whose fate is kept.
const HISTORY: usize = 20;
/// Time without an answer after which a probe is forgotten as lost.
const FORGOTTEN_AFTER: Duration = Duration::from_secs(2);
/// The longest gap between arrivals that counts as usual.
const GAP_MAX: Duration = Duration::from_millis(250);
/// Time in [`State::Down`] after which probes become rare.
const PATIENT_FOR: Duration = Duration::from_secs(60);
/// Time between probes then.
const PROBE_RARE: Duration = Duration::from_secs(1);

/// One path: an interface with one of its addresses.
#[derive(Clone, Debug)]
pub struct Path {
    pub(crate) name: String,
    pub(crate) state: State,
    pub(crate) cause: Cause,
    pub(crate) since: Instant,
    /// The usable address, as the system says.
    pub(crate) address: Option<IpAddr>,
    /// The address that is probed and used.
    pub(crate) used: Option<IpAddr>,
    pub(crate) endpoints: Vec<Endpoint>,
    pub(crate) are_routes_demoted: bool,
    pub(crate) is_retired: bool,
    /// It died as backup with nothing on it: its subflows may stay.
    pub(crate) is_parked: bool,
    pub(crate) arrivals: Arrivals,
    pub(crate) probes: Probes,
    pub(crate) radio: Radio,
    pub(crate) flapping: Flapping,
    pub(crate) renewal: Renewal,
}

/// Arrivals on a path, and what is due there.
#[derive(Clone, Debug, Default)]
pub(crate) struct Arrivals {
    pub subflows: u32,
    pub alone: u32,
    pub is_due: bool,
    /// Time of the last arrival.
    pub last: Instant,
    /// Silence before this does not count.
    excused: Instant,
    gap_usual: Duration,
}

/// Probes of a path, and what their answers say.
#[derive(Clone, Debug, Default)]
pub(crate) struct Probes {
    rtt_min: Option<Duration>,
    srtt: Option<Duration>,
    rtt_deviation: Duration,
    /// Number and time of probes without an answer, oldest first.
    outstanding: VecDeque<(u64, Instant)>,
    sent: u64,
    pub next: Option<Instant>,
    /// Lost in a row and no longer outstanding.
    lost_before: u32,
    pub answered_in_row: u32,
    answered_last: Option<u64>,
    /// Fate of the last probes: true for lost.
    history: VecDeque<bool>,
    pub seen_as: Option<IpAddr>,
}

/// Strength of a path's radio.
#[derive(Clone, Debug, Default)]
pub(crate) struct Radio {
    dbm: Option<i32>,
    pub is_weak: bool,
    strong_since: Option<Instant>,
}

/// Deaths of a path, and the wait that they cost it.
#[derive(Clone, Debug, Default)]
pub(crate) struct Flapping {
    flaps: u32,
    last_down: Option<Instant>,
    pub hold_until: Instant,
}

/// Need of new subflows.
#[derive(Clone, Debug, Default)]
pub(crate) struct Renewal {
    /// Time since which the path is dead and kept, as the last one.
    pub kept_since: Option<Instant>,
    /// Its subflows may sit out a back-off, or are stranded: to be made anew.
    pub is_wanted: bool,
    /// The same, whatever arrives.
    pub is_moved: bool,
}

/// A path as others may see it.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct Observed {
    /// Interface.
    pub name: String,
    /// State.
    pub state: State,
    /// Reason why it is in that state.
    pub cause: Cause,
    /// Start of that state, in the same time as all that was given.
    pub since_ms: u64,
    /// Its address.
    pub address: Option<IpAddr>,
    /// The address that the server sees.
    pub seen_as: Option<IpAddr>,
    /// Endpoints asked for: address, and whether as backup.
    pub endpoints: Vec<(IpAddr, bool)>,
    /// Established subflows from that address.
    pub subflows: u32,
    /// Smoothed round trip of probes, µs.
    pub rtt_us: Option<u64>,
    /// Least round trip, µs.
    pub rtt_min_us: Option<u64>,
    /// Lost probes of the last 20.
    pub probes_lost: u32,
    /// Radio strength, dBm.
    pub strength_dbm: Option<i32>,
    /// Its routes have been demoted.
    pub are_routes_demoted: bool,
    /// The administrator wants it unused.
    pub is_retired: bool,
    /// It is dead, and kept as there is no other.
    pub is_last: bool,
    /// Time that it must still wait after flapping, ms.
    pub hold_ms: u64,
}

impl Path {
    pub(crate) fn new(name: &str, now: Instant) -> Self {
        Self {
            name: name.to_owned(),
            state: State::Absent,
            cause: Cause::Vanished,
            since: now,
            address: None,
            used: None,
            endpoints: Vec::new(),
            are_routes_demoted: false,
            is_retired: false,
            is_parked: false,
            arrivals: Arrivals { last: now, excused: now, ..Arrivals::default() },
            probes: Probes::default(),
            radio: Radio::default(),
            flapping: Flapping { hold_until: now, ..Flapping::default() },
            renewal: Renewal::default(),
        }
    }

    /// State that others may see at `now`.
    #[must_use]
    pub fn observed(&self, now: Instant) -> Observed {
        Observed {
            name: self.name.clone(),
            state: self.state,
            cause: self.cause,
            since_ms: self.since.saturating_since(Instant::ZERO).as_millis(),
            address: self.used.or(self.address),
            seen_as: self.probes.seen_as,
            endpoints: self.endpoints.iter().map(|e| (e.address, e.is_backup)).collect(),
            subflows: self.arrivals.subflows,
            rtt_us: self.probes.srtt.map(Duration::as_micros),
            rtt_min_us: self.probes.rtt_min.map(Duration::as_micros),
            probes_lost: self.probes.losses(),
            strength_dbm: self.radio.dbm,
            are_routes_demoted: self.are_routes_demoted,
            is_retired: self.is_retired,
            is_last: self.renewal.kept_since.is_some(),
            hold_ms: self.flapping.hold_until.saturating_since(now).as_millis(),
        }
    }

    /// Its state.
    #[must_use]
    pub fn state(&self) -> State {
        self.state
    }

    /// Its interface.
    #[must_use]
    pub fn name(&self) -> &str {
        &self.name
    }

    /// The endpoint for the address in use.
    pub(crate) fn endpoint(&mut self) -> Option<&mut Endpoint> {
        let used = self.used?;
        self.endpoints.iter_mut().find(|e| e.address == used && e.is_wanted)
    }

    /// True when connections can live on this path alone.
    pub(crate) fn carries(&self, connections: u32) -> bool {
        let has_endpoint = self.endpoints.iter().any(|e| e.is_wanted && Some(e.address) == self.used);
        self.state.passes()
            && has_endpoint
            && !self.is_retired
            && (self.arrivals.subflows > 0 || connections == 0)
    }

    // What arrives.

    /// Something arrived at `at`, which may be before what is known.
    pub(crate) fn on_arrival(&mut self, at: Instant) {
        let gap = at.saturating_since(self.arrivals.last).min(GAP_MAX);
        if self.arrivals.is_due {
            self.arrivals.gap_usual = (self.arrivals.gap_usual * 7 + gap) / 8;
        }
        self.arrivals.last = self.arrivals.last.max(at);
        self.probes.lost_before = 0;
    }

    // Probes.

    pub(crate) fn probe_every(&self, settings: &Settings, now: Instant) -> Option<Duration> {
        Some(match self.state {
            State::Absent => return None,
            State::Up | State::Degraded => settings.probe_idle,
            State::Suspect if self.renewal.kept_since.is_some() => settings.probe_down,
            State::Suspect => settings.probe_suspect,
            State::Down if self.is_retired => settings.probe_idle,
            State::Down if self.probes.answered_in_row > 0 && now >= self.flapping.hold_until => {
                settings.probe_suspect
            }
            State::Down if now.saturating_since(self.since) > PATIENT_FOR => PROBE_RARE,
            State::Down => settings.probe_down,
        })
    }

    /// Counts a probe that leaves at `now`; its number.
    pub(crate) fn send_probe(&mut self, settings: &Settings, now: Instant) -> Option<u64> {
        let every = self.probe_every(settings, now)?;
        self.probes.next = Some(now + every);
        let number = self.probes.sent;
        self.probes.sent += 1;
        self.probes.outstanding.push_back((number, now));
        Some(number)
    }

    /// Has the next probe leave no later than the state wants.
    pub(crate) fn hasten_probe(&mut self, settings: &Settings, now: Instant) {
        let Some(every) = self.probe_every(settings, now) else {
            self.probes.next = None;
            return;
        };
        let latest = now + every;
        self.probes.next = Some(self.probes.next.map_or(now, |at| at.min(latest)));
    }

    /// Forgets what is too old to be answered.
    pub(crate) fn forget_old_probes(&mut self, now: Instant) {
        while let Some((_, sent)) = self.probes.outstanding.front() {
            if now.saturating_since(*sent) < FORGOTTEN_AFTER {
                break;
            }
            let is_silent = *sent >= self.arrivals.last;
            self.probes.outstanding.pop_front();
            self.probes.note(true);
            if is_silent {
                self.probes.lost_before = self.probes.lost_before.saturating_add(1);
                self.probes.answered_in_row = 0;
            }
        }
    }

    /// Has silence up to `now` not count.
    pub(crate) fn excuse(&mut self, now: Instant) {
        self.arrivals.excused = now;
    }

    /// True when an endpoint with this address is asked for.
    #[must_use]
    pub fn has_endpoint(&self, address: IpAddr) -> bool {
        self.endpoints.iter().any(|endpoint| endpoint.address == address)
    }

    /// Forgets the fate of probes: a path that was dead is not weak.
    pub(crate) fn forget_losses(&mut self) {
        self.probes.history.clear();
    }

    /// Starts anew, for an address of which nothing is known.
    pub(crate) fn forget(&mut self, now: Instant) {
        self.arrivals = Arrivals { last: now, excused: self.arrivals.excused, ..Arrivals::default() };
        let Probes { sent, answered_last, .. } = self.probes;
        self.probes = Probes { sent, answered_last, ..Probes::default() };
        self.renewal = Renewal::default();
    }

    /// Time for which nothing may arrive that is due.
    pub(crate) fn quiet_after(&self, settings: &Settings) -> Duration {
        settings.quiet_min.max(self.probes.two_rtt()).max(self.arrivals.gap_usual * 3)
    }

    /// Time that an answer may take before it is late.
    ///
    /// While data is due, a full queue shows as arrivals, so that the least round trip counts. Without, the
    /// queue of others counts too.
    pub(crate) fn late_after(&self, settings: &Settings) -> Duration {
        let usual = self.probes.srtt.map_or(Duration::ZERO, |srtt| srtt + self.probes.rtt_deviation * 4);
        let usual = if self.arrivals.is_due { self.arrivals.gap_usual * 3 } else { usual };
        settings.quiet_min.max(self.probes.two_rtt()).max(usual)
    }

    /// Time that an answer may take before the probe is lost.
    pub(crate) fn lost_after(&self, settings: &Settings) -> Duration {
        let late = self.late_after(settings);
        settings.timeout_min.max(self.probes.two_rtt() + settings.timeout_slack).max(late)
    }

    /// Time from which on the silence after a probe counts: an arrival shows that the path lived.
    fn silent_from(&self, sent: Instant) -> Instant {
        sent.max(self.arrivals.last).max(self.arrivals.excused)
    }

    pub(crate) fn quiet_at(&self, settings: &Settings) -> Option<Instant> {
        self.arrivals
            .is_due
            .then(|| self.arrivals.last.max(self.arrivals.excused) + self.quiet_after(settings))
    }

    pub(crate) fn late_at(&self, settings: &Settings) -> Option<Instant> {
        let (_, sent) = self.probes.outstanding.front()?;
        Some(self.silent_from(*sent) + self.late_after(settings))
    }

    /// Probes lost in a row.
    pub(crate) fn lost_in_row(&self, settings: &Settings, now: Instant) -> u32 {
        let after = self.lost_after(settings);
        let expired =
            self.probes.outstanding.iter().filter(|(_, sent)| now >= self.silent_from(*sent) + after);
        self.probes.lost_before.saturating_add(u32::try_from(expired.count()).unwrap_or(u32::MAX))
    }

    /// True for a suspect path that is dead: enough probes are lost in a row.
    ///
    /// While data is due, its silence speaks too: of the probes since the suspicion the first is lost, and as many
    /// are late.
    pub(crate) fn is_dead(&self, settings: &Settings, now: Instant) -> bool {
        let enough = settings.losses_to_down;
        if self.lost_in_row(settings, now) >= enough {
            return true;
        }
        let (late, lost) = (self.late_after(settings), self.lost_after(settings));
        let silent_for = |sent: &Instant| now.saturating_since(self.silent_from(*sent));
        let asked: Vec<Duration> = self
            .probes
            .outstanding
            .iter()
            .map(|(_, sent)| sent)
            .filter(|sent| **sent >= self.since)
            .map(silent_for)
            .collect();
        let is_silent = asked.first().is_some_and(|time| *time >= lost);
        self.arrivals.is_due
            && is_silent
            && asked.iter().filter(|time| **time >= late).count() >= enough as usize
    }

    /// Time at which the next outstanding probe is late, or lost.
    pub(crate) fn next_loss(&self, settings: &Settings, now: Instant) -> Option<Instant> {
        let after = [self.late_after(settings), self.lost_after(settings)];
        let of = |(_, sent): &(u64, Instant)| after.map(|time| self.silent_from(*sent) + time);
        self.probes.outstanding.iter().flat_map(of).filter(|at| *at > now).min()
    }

    // Weakness.

    pub(crate) fn is_weak(&self, settings: &Settings) -> bool {
        self.radio.is_weak || self.probes.losses() >= settings.weak_losses
    }

    /// Time since which it is strong enough to be used again; notes it.
    pub(crate) fn strong_since(&mut self, settings: &Settings, now: Instant) -> Option<Instant> {
        let is_strong = !self.radio.is_weak && self.probes.losses() * 2 <= settings.weak_losses;
        self.radio.strong_since = if is_strong { self.radio.strong_since.or(Some(now)) } else { None };
        self.radio.strong_since
    }
}

impl Probes {
    pub(crate) fn on_answer(&mut self, number: u64, rtt: Duration) -> bool {
        let Some(at) = self.outstanding.iter().position(|(n, _)| *n == number) else { return false };
        // Answers keep their order: those before are lost.
        self.outstanding.drain(..=at);
        for _ in 0..at {
            self.note(true);
        }
        self.note(false);
        let is_next = at == 0 && self.answered_last.is_some_and(|last| last + 1 == number);
        self.answered_in_row = if is_next { self.answered_in_row.saturating_add(1) } else { 1 };
        self.answered_last = Some(number);
        self.rtt_min = Some(self.rtt_min.map_or(rtt, |least| least.min(rtt)));
        // RFC 6298 §2.
        match self.srtt {
            None => (self.srtt, self.rtt_deviation) = (Some(rtt), rtt / 2),
            Some(srtt) => {
                let error = if rtt > srtt { rtt - srtt } else { srtt - rtt };
                self.rtt_deviation = (self.rtt_deviation * 3 + error) / 4;
                self.srtt = Some((srtt * 7 + rtt) / 8);
            }
        }
        true
    }

    pub(crate) fn on_subflow_rtt(&mut self, rtt_min: Duration) {
        self.rtt_min = Some(self.rtt_min.map_or(rtt_min, |least| least.min(rtt_min)));
    }

    fn note(&mut self, is_lost: bool) {
        if self.history.len() == HISTORY {
            self.history.pop_front();
        }
        self.history.push_back(is_lost);
    }

    pub(crate) fn losses(&self) -> u32 {
        u32::try_from(self.history.iter().filter(|lost| **lost).count()).unwrap_or(u32::MAX)
    }

    fn two_rtt(&self) -> Duration {
        self.rtt_min.unwrap_or(Duration::ZERO) * 2
    }
}

impl Radio {
    pub(crate) fn on_strength(&mut self, dbm: i32, settings: &Settings) {
        self.dbm = Some(dbm);
        if dbm < settings.weak_dbm {
            self.is_weak = true;
        } else if dbm >= settings.weak_dbm.saturating_add(settings.strong_margin_db) {
            self.is_weak = false;
        }
    }
}

impl Flapping {
    /// Notes that it died at `now`; it has to wait if it dies often.
    pub(crate) fn on_death(&mut self, settings: &Settings, now: Instant) {
        let quiet_for = self.last_down.map(|at| now.saturating_since(at.max(self.hold_until)));
        if quiet_for.is_none_or(|time| time > settings.flap_window) {
            self.flaps = 0;
        }
        self.flaps = self.flaps.saturating_add(1);
        self.last_down = Some(now);
        if self.flaps > settings.flaps_free {
            let doublings = (self.flaps - settings.flaps_free - 1).min(16);
            self.hold_until = now + (settings.flap_hold * (1 << doublings)).min(settings.flap_hold_max);
        }
    }
}
