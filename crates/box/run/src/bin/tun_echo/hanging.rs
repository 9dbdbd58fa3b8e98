//! [`Hanging`]: a processor that hangs when it is told to, for tests of what happens then.

use std::net::IpAddr;
use std::os::fd::BorrowedFd;
use std::path::PathBuf;
use std::sync::mpsc;

use control::Feedback;
use engine::{Journal, Middlebox, Port, Transmit, UnknownFlow, Verdict};
use io::{Clock, Waiter};
use run::{FlowList, FlowState, FlowTransfer, Inspection, Processor, ProcessorStatus, SubscriberHandover};
use units::{Duration, Instant};
use wire::VirtioNetHeader;

/// Ends the packet that hangs its shard.
const WORD: &[u8] = b"hang-now";

/// Another processor, but a packet that ends in [`WORD`] hangs it until a file is there, and its end takes a time,
/// as that of one with very many flows does.
#[derive(Debug)]
pub struct Hanging<P> {
    pub inner: P,
    pub until: PathBuf,
    pub end_takes: Duration,
}

impl<P> Drop for Hanging<P> {
    fn drop(&mut self) {
        let Ok(mut waiter) = Waiter::new(Duration::ZERO) else { return };
        let end = Clock::now() + self.end_takes;
        while Clock::now() < end {
            drop(waiter.wait(Some(end)));
        }
    }
}

impl<P> Hanging<P> {
    fn hang(&self) {
        let Ok(mut waiter) = Waiter::new(Duration::ZERO) else { return };
        while !self.until.exists() {
            drop(waiter.wait(Some(Clock::now() + Duration::from_millis(10))));
        }
    }
}

impl<P: Processor> Middlebox for Hanging<P> {
    fn handle_packet(
        &mut self,
        from: Port,
        virtio: &VirtioNetHeader,
        packet: &mut [u8],
        now: Instant,
    ) -> Verdict {
        if packet.ends_with(WORD) {
            self.hang();
        }
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

    fn handle_feedback(&mut self, client: IpAddr, feedback: &Feedback) -> bool {
        self.inner.handle_feedback(client, feedback)
    }
}

impl<P: Processor> Processor for Hanging<P> {
    type Settings = P::Settings;

    fn take_unknown_flow(&mut self) -> Option<UnknownFlow> {
        self.inner.take_unknown_flow()
    }

    fn take_news(&mut self) -> bool {
        self.inner.take_news()
    }

    fn take_wanted_subscriber(&mut self) -> Option<(IpAddr, bool)> {
        self.inner.take_wanted_subscriber()
    }

    fn set_mtu(&mut self, to: Port, mtu: u32, now: Instant) {
        self.inner.set_mtu(to, mtu, now);
    }

    fn begin_drain(&mut self, now: Instant) {
        self.inner.begin_drain(now);
    }

    fn is_drained(&self) -> bool {
        self.inner.is_drained()
    }
}

impl<P: Processor> Inspection for Hanging<P> {
    fn memory(&self) -> (u64, u64) {
        self.inner.memory()
    }

    fn status(&self) -> ProcessorStatus {
        self.inner.status()
    }

    fn flows(&self, skip: usize, count: usize, now: Instant) -> FlowList {
        self.inner.flows(skip, count, now)
    }

    fn flow_count(&self) -> usize {
        self.inner.flow_count()
    }
}

impl<P: Processor> FlowTransfer for Hanging<P> {
    fn keep_journals(&mut self, downlink: Box<dyn Journal>, uplink: Box<dyn Journal>) {
        self.inner.keep_journals(downlink, uplink);
    }

    fn change_journals(&mut self, downlink: Box<dyn Journal>, uplink: Box<dyn Journal>) {
        self.inner.change_journals(downlink, uplink);
    }

    fn prepare_to_store(&mut self, done: mpsc::Sender<()>) {
        self.inner.prepare_to_store(done);
    }

    fn store(&self) -> Result<FlowState, String> {
        self.inner.store()
    }

    fn expect_flows(&mut self, flows: usize, memory: Option<BorrowedFd<'_>>) {
        self.inner.expect_flows(flows, memory);
    }

    fn resume(&mut self, flows: FlowState, now: Instant) -> Result<(), String> {
        self.inner.resume(flows, now)
    }

    fn own(&mut self) {
        self.inner.own();
    }

    fn disown(&mut self) {
        self.inner.disown();
    }

    fn abandon(&mut self) {
        self.inner.abandon();
    }

    fn part(&mut self) {
        self.inner.part();
    }

    fn resynchronise(&mut self, now: Instant) {
        self.inner.resynchronise(now);
    }
}

impl<P: Processor> SubscriberHandover for Hanging<P> {}
