//! Limits of a client: a run within the limits, a volume in each hour, and its turn.

use core::net::IpAddr;

use units::{Bytes, Duration, Instant};

use super::{CLIENT_SILENCE_MAX, Server, Session, client_of};
use crate::message::{DATA_LEN, PAYLOAD_MAX, Refusal, RunSpec, SessionId};

/// A client that waits for its turn and does not ask for this long has lost its place.
const WAITING_IDLE_MAX: Duration = Duration::from_secs(3);
/// Runs that are asked for so soon after a turn's first belong to it; later ones queue where others wait.
const JOIN_MAX: Duration = Duration::from_secs(2);
/// Clients whose volume is remembered.
const VOLUMES_MAX: usize = 4_096;
/// Time for which a volume counts.
const HOUR: Duration = Duration::from_secs(3_600);

/// The most a run can bring, both ways of what is echoed.
pub(super) fn planned_bytes(spec: &RunSpec) -> u64 {
    Bytes::get(spec.rate.bytes_in(spec.length))
}

impl Server {
    /// Notes that a session has moved `bytes` that are not of a run here: over TCP.
    pub fn on_volume(&mut self, session: SessionId, bytes: u64, now: Instant) {
        if let Some(session) = self.sessions.iter().find(|other| other.id == session) {
            let client = client_of(session.path.client);
            self.charge(client, bytes, now);
        }
    }

    /// Bytes that a session's client may still move in this hour.
    #[must_use]
    pub fn volume_left(&self, session: SessionId, now: Instant) -> u64 {
        let client = self.sessions.iter().find(|other| other.id == session).map(|s| client_of(s.path.client));
        let used = client.map_or(0, |client| self.used(client, now));
        self.config.limits.volume_max.get().saturating_sub(used)
    }

    fn used(&self, client: IpAddr, now: Instant) -> u64 {
        let used = self.volumes.get(&client).filter(|(since, _)| now.saturating_since(*since) < HOUR);
        used.map_or(0, |(_, bytes)| *bytes)
    }

    /// Gives back what was asked for and not moved.
    pub(super) fn refund(&mut self, client: IpAddr, bytes: u64) {
        if let Some((_, used)) = self.volumes.get_mut(&client) {
            *used = used.saturating_sub(bytes);
        }
    }

    pub(super) fn refusal(&self, spec: &RunSpec, client: IpAddr, now: Instant) -> Option<(Refusal, u64)> {
        let limits = &self.config.limits;
        let is_senseless = usize::from(spec.payload) < DATA_LEN
            || spec.payload > PAYLOAD_MAX
            || spec.overhead > 200
            || spec.rate.is_zero()
            || spec.length.is_zero();
        let used = self.used(client, now);
        if is_senseless {
            Some((Refusal::Senseless, 0))
        } else if spec.rate > limits.rate_max {
            Some((Refusal::Rate, limits.rate_max.as_bps()))
        } else if spec.length > limits.time_max {
            Some((Refusal::Time, limits.time_max.as_millis()))
        } else if used.saturating_add(planned_bytes(spec)) > limits.volume_max.get() {
            Some((Refusal::Volume, limits.volume_max.get()))
        } else {
            None
        }
    }

    pub(super) fn charge(&mut self, client: IpAddr, bytes: u64, now: Instant) {
        self.volumes.retain(|_, (since, _)| now.saturating_since(*since) < HOUR);
        if self.volumes.len() >= VOLUMES_MAX && !self.volumes.contains_key(&client) {
            let oldest = self.volumes.iter().min_by_key(|(_, (since, _))| *since).map(|(ip, _)| *ip);
            oldest.map(|ip| self.volumes.remove(&ip));
        }
        let (_, used) = self.volumes.entry(client).or_insert((now, 0));
        *used = used.saturating_add(bytes);
    }

    /// The place of a session in the queue, from 1; none when it has its turn. A session that is measured,
    /// since `turn`, may have more runs beside those under way, but not keep others from their turn with them.
    pub(super) fn place_of(&mut self, id: SessionId, turn: Option<Instant>, now: Instant) -> Option<u32> {
        self.waiting.retain(|(other, asked)| *other == id || now.saturating_since(*asked) < WAITING_IDLE_MAX);
        let has_others = self.waiting.iter().any(|(other, _)| *other != id);
        if turn.is_some_and(|turn| !has_others || now.saturating_since(turn) < JOIN_MAX) {
            return None;
        }
        // Who has fallen silent does not keep others waiting.
        let is_there = |session: &&Session| now.saturating_since(session.heard) <= CLIENT_SILENCE_MAX;
        let measured = self.sessions.iter().filter(is_there).filter(|session| session.is_measured()).count();
        let free = self.config.measured_max.max(1).saturating_sub(measured);
        let at = match self.waiting.iter().position(|(other, _)| *other == id) {
            Some(at) => at,
            None if free > self.waiting.len() => return None,
            None => {
                self.waiting.push_back((id, now));
                self.waiting.len() - 1
            }
        };
        if let Some((_, asked)) = self.waiting.get_mut(at) {
            *asked = now;
        }
        (at >= free).then(|| u32::try_from(at + 1).unwrap_or(u32::MAX))
    }
}
