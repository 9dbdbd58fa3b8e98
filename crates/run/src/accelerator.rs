//! [`Accelerator`]: the engine as the packet loop's processor.

use std::fmt;
use std::net::{IpAddr, SocketAddr};

use control::Feedback;
use engine::{Engine, EngineConfig, Journal, Port};
use io::{VNET_HEADER_LEN, VnetHeader};
use units::Instant;
use wire::VirtioNetHeader;

use crate::{FlowList, Processor, ProcessorStatus, Side, Transmit, Verdict, status};

/// Reads the engine's settings anew; an error is one line.
pub type ReadSettings = Box<dyn FnMut() -> Result<EngineConfig, String>>;

/// The engine, and where its settings come from.
pub struct Accelerator {
    engine: Engine,
    read_settings: Option<ReadSettings>,
    /// Waits until the uplink is accelerated.
    uplink_journal: Option<Box<dyn Journal>>,
}

impl fmt::Debug for Accelerator {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Accelerator").field("engine", &self.engine).finish_non_exhaustive()
    }
}

impl Accelerator {
    /// A processor around `engine`.
    #[must_use]
    pub fn new(engine: Engine) -> Self {
        Self { engine, read_settings: None, uplink_journal: None }
    }

    fn start_uplink_journal(&mut self) {
        if self.engine.uplink_stats().is_some()
            && let Some(journal) = self.uplink_journal.take()
        {
            self.engine.set_uplink_journal(journal);
        }
    }

    /// Has `read` give the settings when they are to be read anew.
    #[must_use]
    pub fn with_settings(self, read: ReadSettings) -> Self {
        Self { read_settings: Some(read), ..self }
    }

    /// The engine's counters.
    #[must_use]
    pub fn stats(&self) -> &engine::Stats {
        self.engine.stats()
    }

    /// Those of the uplink, where it is accelerated.
    #[must_use]
    pub fn uplink_stats(&self) -> Option<&engine::Stats> {
        self.engine.uplink_stats()
    }
}

const fn port_of(side: Side) -> Port {
    match side {
        Side::Wired => Port::Wired,
        Side::Mobile => Port::Mobile,
    }
}

const fn side_of(port: Port) -> Side {
    match port {
        Port::Wired => Side::Wired,
        Port::Mobile => Side::Mobile,
    }
}

impl Processor for Accelerator {
    fn handle_packet(
        &mut self,
        from: Side,
        virtio: &mut VnetHeader,
        packet: &mut [u8],
        now: Instant,
    ) -> Verdict {
        let Ok(parsed) = VirtioNetHeader::parse(virtio) else { return Verdict::Forward };
        match self.engine.handle_packet(port_of(from), &parsed, packet, now) {
            engine::Verdict::Forward => Verdict::Forward,
            engine::Verdict::Consumed => Verdict::Consumed,
        }
    }

    fn take_stranger(&mut self) -> Option<(SocketAddr, SocketAddr)> {
        self.engine.take_stranger()
    }

    fn handle_timeout(&mut self, now: Instant) {
        self.engine.handle_timeout(now);
    }

    fn poll_transmit(&mut self, now: Instant) -> Option<Transmit<'_>> {
        self.engine.poll_transmit(now).map(|made| {
            let virtio: [u8; VNET_HEADER_LEN] = made.virtio.to_bytes();
            Transmit { to: side_of(made.to), virtio, header: made.header, payload: made.payload }
        })
    }

    fn next_deadline(&self) -> Option<Instant> {
        self.engine.next_deadline()
    }

    fn handle_feedback(&mut self, client: IpAddr, feedback: &Feedback) -> bool {
        self.engine.handle_feedback(client, feedback)
    }

    fn keep_journals(&mut self, downlink: Box<dyn Journal>, uplink: Box<dyn Journal>) {
        self.engine.set_journal(downlink);
        self.uplink_journal = Some(uplink);
        self.start_uplink_journal();
    }

    fn has_settings(&self) -> bool {
        self.read_settings.is_some()
    }

    fn reload(&mut self) -> Result<String, String> {
        let read = self.read_settings.as_mut().ok_or("it was started without a settings file")?;
        let config = read()?;
        let is_same = EngineConfig { hash_seed: 0, ..config.clone() }
            == EngineConfig { hash_seed: 0, ..self.engine.config().clone() };
        self.engine.reconfigure(&config).map_err(|error| error.to_string())?;
        self.start_uplink_journal();
        Ok(if is_same { "no setting has changed" } else { "new settings hold for new flows" }.to_owned())
    }

    fn status(&self) -> ProcessorStatus {
        status::of_engine(&self.engine)
    }

    fn flows(&self, skip: usize, count: usize, now: Instant) -> FlowList {
        status::flows_of_engine(&self.engine, skip, count, now)
    }

    fn begin_drain(&mut self, now: Instant) {
        self.engine.drain(now);
    }

    fn is_drained(&self) -> bool {
        self.engine.is_empty()
    }
}
