//! [`Broken`]: hosts of flows that were broken off while something was owed.
//!
//! A host that was told that its data is delivered sends none of it again. So a reset that is lost on its way would
//! leave it waiting for ever, where without us it would have sent again and been reset again. It is asked until it says
//! that it is gone, as after the death of a process; one that is not is reset with the number that it says (RFC 5961 §3).
//!
//! ```text
//!   reset ─▶ a question ─▶ RST: it is gone
//!        ▲               ─▶ ACK n ─▶ reset with n
//!        └──────────────── nothing: again after 1 s, 2 s, … 64 s
//! ```

use std::collections::{BTreeMap, BTreeSet};

use units::{Duration, Instant};
use wire::{EmittedHeader, TcpFlags, TcpHeaderSpec, Timestamps};

use super::Half;
use crate::direction::End;
use crate::flow::Flow;
use crate::key::FlowKey;
use crate::pass::PassReason;
use crate::relay::emit::{HeaderBuffer, question, with_template};
use crate::relay::survivor::Survivor;
use crate::segment::Segment;

/// Hosts that are asked at a time; no others are.
const HOSTS_MAX: usize = 1_024;

/// Time until a host that does not answer is asked again, at first; twice that after each of the first times.
const FIRST_PAUSE: Duration = Duration::from_secs(1);
const DOUBLED_MAX: u8 = 6;

/// Number of times that a host is asked: over about eight minutes.
const TRIES_MAX: u8 = 12;

/// Distance from its last number within which a host may be: what is further away is another connection's.
const REACH: u32 = 1 << 26;

/// A flow, and whether it is its sink that is meant.
type Name = (FlowKey, bool);

/// Hosts that are asked whether they are gone.
#[derive(Clone, Debug, Default)]
pub(super) struct Broken {
    hosts: BTreeMap<Name, Survivor>,
    /// Time at which each is due.
    due: BTreeSet<(Instant, Name)>,
}

impl Broken {
    fn put(&mut self, name: Name, survivor: Survivor) {
        self.forget(&name);
        if self.hosts.len() < HOSTS_MAX {
            self.due.insert((survivor.due, name));
            self.hosts.insert(name, survivor);
        }
    }

    fn forget(&mut self, name: &Name) -> Option<Survivor> {
        let survivor = self.hosts.remove(name)?;
        self.due.remove(&(survivor.due, *name));
        Some(survivor)
    }

    /// Time at which somebody is to be asked or reset next.
    pub(super) fn next_due(&self) -> Option<Instant> {
        self.due.first().map(|(at, _)| *at)
    }

    /// All of them.
    pub(super) fn list(&self) -> Vec<(Name, Survivor)> {
        self.hosts.iter().map(|(name, survivor)| (*name, *survivor)).collect()
    }

    /// Hosts of a list.
    pub(super) fn of(list: Vec<(Name, Survivor)>) -> Self {
        let mut broken = Self::default();
        list.into_iter().for_each(|(name, survivor)| broken.put(name, survivor));
        broken
    }

    /// Takes in a segment of no flow in the table; true where it answers a question.
    fn hear(&mut self, key: FlowKey, segment: &Segment<'_>) -> bool {
        if self.hosts.is_empty() || !segment.is_intact() {
            return false;
        }
        if segment.opens() {
            for is_sink in [false, true] {
                self.forget(&(key, is_sink));
            }
            return false;
        }
        let name = (key, segment.from == End::Sink);
        let tcp = segment.tcp;
        let Some(known) = self.hosts.get(&name) else { return false };
        if segment.has(TcpFlags::RST) {
            return self.forget(&name).is_some();
        }
        let is_near = tcp.ack.distance_from(known.seq).unsigned_abs() < REACH;
        if !segment.has(TcpFlags::ACK) || !is_near {
            return false;
        }
        if let Some(survivor) = self.forget(&name) {
            let due = Instant::ZERO;
            self.put(name, Survivor { seq: tcp.ack, is_heard: true, due, ..survivor });
        }
        true
    }

    /// Makes the next reset or question that is due.
    fn make(&mut self, now: Instant, buf: &mut HeaderBuffer) -> Option<(End, EmittedHeader)> {
        let (_, name) = self.due.first().copied().filter(|(at, _)| *at <= now)?;
        let mut survivor = self.forget(&name)?;
        let (key, to) = (name.0, if name.1 { End::Sink } else { End::Source });
        let (from, host) = match to {
            End::Sink => (key.source(), key.sink()),
            End::Source => (key.sink(), key.source()),
        };
        let is_reset = std::mem::take(&mut survivor.is_heard);
        let flags = if is_reset { TcpFlags::RST.with(TcpFlags::ACK) } else { TcpFlags::ACK };
        let mut spec = TcpHeaderSpec::new(from, host, survivor.seq, survivor.ack, flags);
        spec.timestamps = survivor.timestamps.map(|(value, echo)| Timestamps { value, echo });
        let spec = with_template(spec, &mut survivor.ip, 1);
        let spec = if is_reset { spec } else { question(spec, survivor.seq) };
        let made = spec.emit_partial(buf, 0);
        let pause = FIRST_PAUSE * (1 << survivor.tries.min(DOUBLED_MAX));
        survivor.tries += 1;
        survivor.due = now + pause;
        if survivor.tries < TRIES_MAX {
            self.put(name, survivor);
        }
        made.ok().map(|made| (to, made))
    }
}

impl Half {
    /// A flow leaves the table: who may not hear of it is asked, where something was owed.
    pub(super) fn note_broken(&mut self, flow: &Flow, reason: Option<PassReason>) {
        let Some(relay) = flow.phase.relay().filter(|relay| relay.debt() > 0) else { return };
        let hosts: &[End] = match reason {
            Some(PassReason::Reset) => &[End::Source],
            Some(PassReason::ClientGone) => &[End::Source, End::Sink],
            _ => &[],
        };
        for &host in hosts {
            self.conflicts.broken.put((flow.key, host == End::Sink), relay.survivor(host));
        }
    }

    /// Takes in a segment of no flow in the table; true where it only answers a question.
    pub(super) fn hear_broken(&mut self, key: FlowKey, segment: &Segment<'_>) -> bool {
        self.conflicts.broken.hear(key, segment)
    }

    /// Makes the next question to a host, or a reset for one whose flow was broken off.
    pub(super) fn make_question(&mut self, now: Instant) -> Option<(End, EmittedHeader)> {
        while let Some((to, spec)) = self.outgoing.questions.pop_front() {
            if let Ok(made) = spec.emit_partial(&mut self.outgoing.header, 0) {
                return Some((to, made));
            }
        }
        self.conflicts.broken.make(now, &mut self.outgoing.header)
    }
}
