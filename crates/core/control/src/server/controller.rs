//! [`AdaptiveServer`]: the [`Law`] as a controller, for simulated servers.

use units::{Bytes, Duration, Instant, Rate};

use super::{AckEvent, Law, Member, SharedPath};
use crate::{Ack, Control, Controller, Loss, LossKind, MSS_DEFAULT, Sent, quantum_for};

/// Parameters of [`AdaptiveServer`].
#[derive(Clone, Copy, PartialEq, Eq, Debug, stored::Stored)]
pub struct AdaptiveServerParams {
    /// Segment size. Default [`MSS_DEFAULT`].
    pub mss: Bytes,
}

impl Default for AdaptiveServerParams {
    fn default() -> Self {
        Self { mss: MSS_DEFAULT }
    }
}

/// `adaptive` as a server's congestion control.
#[derive(Clone, Debug, stored::Stored)]
pub struct AdaptiveServer {
    law: Law,
    /// Lost since the last acknowledgement.
    lost: Bytes,
    member: Member,
    /// There is something to tell the other connections of the path.
    is_due: bool,
}

impl AdaptiveServer {
    /// Controller for a connection of whose path nothing is known.
    #[must_use]
    pub fn new(params: AdaptiveServerParams) -> Self {
        Self { law: Law::new(params.mss.get()), lost: Bytes::ZERO, member: Member::default(), is_due: true }
    }

    /// Tells the other connections of its path what it knows, and hears what they say. `number` is its own among them,
    /// from 1 on.
    pub fn exchange<'a>(&mut self, path: impl FnOnce() -> &'a mut SharedPath, number: u64, now: Instant) {
        if !core::mem::take(&mut self.is_due) {
            return;
        }
        let (path, now_us) = (path(), clock_us(now));
        if self.member.number == 0 {
            self.member = Member::new(number);
            self.law.on_hint(path.start_window(self.law.mss, now_us));
        }
        let (peers, is_new) = self.member.exchange(&self.law, path, now_us);
        if is_new {
            self.law.on_peers(&peers, now_us);
        }
    }
}

/// The law's clock: zero is no moment.
fn clock_us(now: Instant) -> u64 {
    now.as_nanos() / 1_000 + 1
}

fn whole_us(time: Duration) -> u64 {
    (time.as_nanos() / 1_000).max(1)
}

impl Controller for AdaptiveServer {
    fn name(&self) -> &'static str {
        "adaptive-server"
    }

    fn on_send(&mut self, sent: &Sent) {
        if sent.in_flight == Bytes::ZERO {
            self.law.on_idle(clock_us(sent.now));
        }
    }

    fn on_round_trip(&mut self, rtt: Duration, now: Instant) {
        self.law.on_handshake(whole_us(rtt), clock_us(now));
    }

    fn round_trip(&self) -> Option<Duration> {
        (self.law.floor_us > 0).then(|| Duration::from_micros(self.law.floor_us))
    }

    fn on_ack(&mut self, ack: &Ack) {
        if ack.delivered == Bytes::ZERO {
            if let Some(rtt) = ack.rtt {
                self.on_round_trip(rtt, ack.now);
            }
            return;
        }
        self.law.on_ack(&AckEvent {
            now_us: clock_us(ack.now),
            delivered: ack.delivered.get(),
            lost: core::mem::take(&mut self.lost).get(),
            rtt_us: ack.rtt.map_or(0, whole_us),
            in_flight_before: ack.in_flight_before.get(),
            is_limited: ack.is_window_limited,
        });
        self.member.is_drained = u64::from(ack.in_flight == Bytes::ZERO);
        let rtt_us = ack.rtt.map_or(0, whole_us);
        self.is_due |= self.member.on_ack(&self.law, rtt_us, clock_us(ack.now));
    }

    fn on_loss(&mut self, loss: &Loss) {
        match loss.kind {
            LossKind::Fast => self.lost += loss.lost,
            LossKind::Timeout => {
                self.law.on_timeout(clock_us(loss.now));
                self.is_due = true;
            }
        }
    }

    fn control(&self) -> Control {
        let rate = Rate::from_bps(self.law.pacing_rate.saturating_mul(8));
        let mss = Bytes::new(self.law.mss);
        Control {
            window: Bytes::new(self.law.window),
            pacing_rate: rate,
            send_quantum: quantum_for(rate, mss),
        }
    }
}
