//! [`echo`]: the path of `cellerator run` without the engine.

use std::net::IpAddr;

use engine::{Middlebox, PassThrough, Port, Transmit, Verdict};
use run::{Config, EventSink, Processor, RunError};
use units::Instant;
use wire::VirtioNetHeader;

/// A processor that passes everything, and has all that is sent to one subscriber come to it.
#[derive(Debug)]
struct Echo {
    inner: PassThrough,
    /// Who that is, as long as it has not been said.
    wanted: Option<IpAddr>,
}

impl Middlebox for Echo {
    fn handle_packet(
        &mut self,
        from: Port,
        virtio: &VirtioNetHeader,
        packet: &mut [u8],
        now: Instant,
    ) -> Verdict {
        self.inner.handle_packet(from, virtio, packet, now)
    }

    fn handle_timeout(&mut self, now: Instant) {
        self.inner.handle_timeout(now);
    }

    fn poll_transmit(&mut self, now: Instant) -> Option<Transmit<'_>> {
        self.inner.poll_transmit(now)
    }

    fn next_deadline(&self) -> Option<Instant> {
        self.inner.next_deadline()
    }
}

impl Processor for Echo {
    type Settings = ();

    fn take_wanted_subscriber(&mut self) -> Option<(IpAddr, bool)> {
        Some((self.wanted.take()?, true))
    }
}

/// Steers TCP as `config` says, and everything to `subscriber`, through a processor that passes everything, until a
/// signal comes. What is no TCP comes once TCP has.
///
/// # Errors
/// As [`run::run`].
pub fn echo(config: &Config, subscriber: Option<IpAddr>, events: &mut dyn EventSink) -> Result<(), RunError> {
    let make = |shards| Ok((0..shards).map(|_| Echo { inner: PassThrough, wanted: subscriber }).collect());
    run::run(config, make, events).map(drop)
}
