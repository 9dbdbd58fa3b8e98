//! [`Watcher`]: who looks on while a case runs.

use core::sync::atomic::{AtomicBool, Ordering};

use units::{Bytes, Duration, Instant};

use crate::log::{HEADERS, LoggedPacket};
use crate::{MiddleboxUnderTest, Network};

/// Senders and queue at a point of time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Sample {
    /// Time of the sample.
    pub at: Instant,
    /// Congestion window of the first flow's sender; none before the connection.
    pub window: Option<Bytes>,
    /// Bytes that it has in flight.
    pub in_flight: Option<Bytes>,
    /// The same of the accelerator towards the first client.
    pub accelerator: Option<(Bytes, Bytes)>,
    /// Packets that wait for the first radio link in the direction of the data.
    pub queue_packets: u64,
    /// Their bytes.
    pub queue_bytes: Bytes,
}

/// Observer of a case while it runs.
pub trait Watcher {
    /// Bytes that have arrived so far.
    fn on_progress(&mut self, _received: Bytes) {}
    /// True when nobody wants to know how the run ends: it is given up at the next report of progress.
    fn is_over(&self) -> bool {
        false
    }
    /// True when [`Watcher::on_packet`] is wanted.
    fn wants_packets(&self) -> bool {
        false
    }
    /// Bytes of a packet that [`Watcher::on_packet`] wants; the default holds every header.
    fn packet_len(&self) -> usize {
        HEADERS
    }
    /// A packet passed a host's interface. Told in their order, but late.
    fn on_packet(&mut self, _packet: &LoggedPacket) {}
    /// Interval at which [`Watcher::on_sample`] is wanted, if at all.
    fn every(&self) -> Option<Duration> {
        None
    }
    /// Takes a sample.
    fn on_sample(&mut self, _sample: &Sample) {}
}

/// Wants to know no more than how far a run is.
pub(super) struct Progress<'a> {
    pub tell: &'a mut dyn FnMut(Bytes),
    pub is_over: &'a AtomicBool,
}

impl Watcher for Progress<'_> {
    fn on_progress(&mut self, received: Bytes) {
        (self.tell)(received);
    }

    fn is_over(&self) -> bool {
        self.is_over.load(Ordering::Relaxed)
    }
}

/// The next whole multiple of `every`.
pub(super) fn next_look(now: Instant, every: Duration) -> Instant {
    let every = every.as_nanos().max(1);
    Instant::ZERO + Duration::from_nanos((now.as_nanos() / every + 1) * every)
}

/// Shows `watcher` the network as it is at `at`.
pub(super) fn look<M: MiddleboxUnderTest>(
    network: &mut Network<M>,
    is_upload: bool,
    at: Instant,
    watcher: &mut dyn Watcher,
) {
    hand_on(network, watcher);
    if watcher.every().is_none() {
        return;
    }
    let senders = if is_upload { network.clients() } else { network.servers() };
    let sending = senders.first().and_then(crate::Endpoint::sending);
    let accelerator = network.middlebox().sending();
    let radio = if is_upload { network.radio_up(0) } else { network.radio_down(0) };
    let (queue_packets, queue_bytes) = radio.map_or((0, Bytes::ZERO), |path| {
        let link = path.link_mut();
        (link.queue_packets(at), link.queue_bytes(at))
    });
    watcher.on_sample(&Sample {
        at,
        window: sending.map(|(control, _)| control.window),
        in_flight: sending.map(|(_, in_flight)| in_flight),
        accelerator,
        queue_packets,
        queue_bytes,
    });
}

/// Hands on the packets of the time since the last look.
pub(super) fn hand_on<M: MiddleboxUnderTest>(network: &mut Network<M>, watcher: &mut dyn Watcher) {
    for packet in network.log_mut().take_kept() {
        watcher.on_packet(&packet);
    }
}
