//! [`Accelerator`]: the engine as the packet loop's processor.

use std::fmt;
use std::net::{IpAddr, SocketAddr};

use control::Feedback;
use engine::{ConfigError, Engine, EngineConfig, Journal, MemoryAdvice, Middlebox, Port, Transmit, Verdict};
use units::{Bytes, Instant};
use wire::VirtioNetHeader;

use crate::{FlowList, Processor, ProcessorStatus, status};

/// Settings as they are read anew.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Reread {
    /// The engine's: they hold for new flows.
    pub engine: EngineConfig,
    /// Changed ones that cannot hold before the next start, as `mobile = eth2`.
    pub at_next_start: Vec<String>,
}

/// Reads the settings anew; an error is one line.
pub type ReadSettings = Box<dyn FnMut() -> Result<Reread, String> + Send>;

/// The engine, and where its settings come from.
pub struct Accelerator {
    engine: Engine,
    /// The settings of all shards together, and how many there are: the engine has its share.
    whole: EngineConfig,
    shards: usize,
    read_settings: Option<ReadSettings>,
    /// What was read last and has to wait.
    at_next_start: Vec<String>,
    /// Waits until the uplink is accelerated.
    uplink_journal: Option<Box<dyn Journal>>,
}

impl fmt::Debug for Accelerator {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Accelerator").field("engine", &self.engine).finish_non_exhaustive()
    }
}

impl Accelerator {
    /// One for each of `shards` shards, which together keep to the limits of `config`; the first
    /// one reads the settings anew, if anyone is to.
    ///
    /// # Errors
    /// A setting that makes no sense.
    pub fn for_shards(
        config: &EngineConfig,
        shards: usize,
        read: Option<ReadSettings>,
    ) -> Result<Vec<Self>, ConfigError> {
        config.validate()?;
        let mut read = read;
        let make = |_| {
            let mut engine = Engine::new(share_of(config, shards))?;
            engine
                .set_memory_advice(MemoryAdvice { on_piece: io::prefer_huge_pages, prefetch: io::prefetch });
            let read_settings = read.take();
            let whole = config.clone();
            Ok(Self { engine, whole, shards, read_settings, at_next_start: Vec::new(), uplink_journal: None })
        };
        (0..shards).map(make).collect()
    }

    fn start_uplink_journal(&mut self) {
        if self.engine.uplink_stats().is_some()
            && let Some(journal) = self.uplink_journal.take()
        {
            self.engine.set_uplink_journal(journal);
        }
    }
}

/// What one of `shards` shards may take of what there is once. Limits of a subscriber are its own:
/// it is in one shard.
fn share_of(config: &EngineConfig, shards: usize) -> EngineConfig {
    let shards = shards.max(1);
    EngineConfig {
        flows_max: config.flows_max.div_ceil(shards),
        half_open_max: config.half_open_max.div_ceil(shards),
        buffer_max: Bytes::new(config.buffer_max.get().div_ceil(shards as u64)),
        ..config.clone()
    }
}

impl Middlebox for Accelerator {
    fn handle_packet(
        &mut self,
        from: Port,
        virtio: &VirtioNetHeader,
        packet: &mut [u8],
        now: Instant,
    ) -> Verdict {
        self.engine.handle_packet(from, virtio, packet, now)
    }

    fn handle_timeout(&mut self, now: Instant) {
        self.engine.handle_timeout(now);
    }

    fn poll_transmit(&mut self, now: Instant) -> Option<Transmit<'_>> {
        self.engine.poll_transmit(now)
    }

    fn next_deadline(&self) -> Option<Instant> {
        self.engine.next_deadline()
    }

    fn handle_feedback(&mut self, client: IpAddr, feedback: &Feedback) -> bool {
        self.engine.handle_feedback(client, feedback)
    }
}

impl Processor for Accelerator {
    type Settings = EngineConfig;

    fn look_ahead<'a>(&mut self, from: Port, packets: impl Iterator<Item = &'a [u8]> + Clone) {
        self.engine.look_ahead(packets.map(|packet| (from, packet)));
    }

    fn take_unknown_flow(&mut self) -> Option<(SocketAddr, SocketAddr)> {
        self.engine.take_unknown_flow()
    }

    fn keep_journals(&mut self, downlink: Box<dyn Journal>, uplink: Box<dyn Journal>) {
        self.engine.set_journal(downlink);
        self.uplink_journal = Some(uplink);
        self.start_uplink_journal();
    }

    fn set_mtu(&mut self, to: Port, mtu: u32, now: Instant) {
        self.engine.set_mtu(to, mtu, now);
    }

    fn refuse_super_packets(&mut self) {
        self.whole.super_packets = false;
        // Nothing that was valid stops being so.
        drop(self.engine.reconfigure(&share_of(&self.whole, self.shards)));
    }

    fn has_settings(&self) -> bool {
        self.read_settings.is_some()
    }

    fn read_settings(&mut self) -> Result<EngineConfig, String> {
        let read = self.read_settings.as_mut().ok_or("it was started without a settings file")?()?;
        self.at_next_start = read.at_next_start;
        Ok(read.engine)
    }

    fn apply(&mut self, settings: &EngineConfig) -> Result<String, String> {
        let unseeded = |config: &EngineConfig| EngineConfig { hash_seed: 0, ..config.clone() };
        // That concerns the devices, which stay as they are.
        let settings = &EngineConfig { super_packets: self.whole.super_packets, ..settings.clone() };
        let is_same = unseeded(settings) == unseeded(&self.whole);
        settings.validate().map_err(|error| error.to_string())?;
        let share = share_of(settings, self.shards);
        self.engine.reconfigure(&share).map_err(|error| error.to_string())?;
        self.whole = settings.clone();
        self.start_uplink_journal();
        let waiting = std::mem::take(&mut self.at_next_start).join(", ");
        Ok(match (is_same, waiting.is_empty()) {
            (true, true) => "no setting has changed".to_owned(),
            (false, true) => "new settings hold for new flows".to_owned(),
            (true, false) => format!("{waiting}: at the next start, not before"),
            (false, false) => {
                format!("new settings hold for new flows; {waiting}: at the next start, not before")
            }
        })
    }

    fn status(&self) -> ProcessorStatus {
        status::of_engine(&self.engine)
    }

    fn flows(&self, skip: usize, count: usize, now: Instant) -> FlowList {
        status::flows_of_engine(&self.engine, skip, count, now)
    }

    fn flow_count(&self) -> usize {
        let stats = [Some(self.engine.stats()), self.engine.uplink_stats()];
        stats.into_iter().flatten().map(|stats| stats.flows_now as usize).sum()
    }

    fn resynchronise(&mut self, now: Instant) {
        self.engine.resynchronise(now);
    }

    fn begin_drain(&mut self, now: Instant) {
        self.engine.drain(now);
    }

    fn is_drained(&self) -> bool {
        self.engine.is_empty()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn shards_keep_to_the_limits_together() {
        let config = EngineConfig { flows_max: 101, ..EngineConfig::default() };
        let shares: Vec<EngineConfig> = Accelerator::for_shards(&config, 4, None)
            .unwrap()
            .iter()
            .map(|shard| shard.engine.config().clone())
            .collect();
        assert_eq!(shares.len(), 4);
        for share in shares {
            assert_eq!((share.flows_max, share.half_open_max), (26, 2_500));
            assert_eq!(share.buffer_max, Bytes::from_mib(256));
            assert_eq!(share.subscriber_buffer_max, config.subscriber_buffer_max);
        }
        let none = EngineConfig { flows_max: 0, ..config };
        assert!(Accelerator::for_shards(&none, 4, None).is_err());
    }

    #[test]
    fn settings_are_divided_too_when_they_change() {
        let config = EngineConfig { flows_max: 100, ..EngineConfig::default() };
        let mut shards = Accelerator::for_shards(&config, 2, None).unwrap();
        let shard = &mut shards[1];
        assert_eq!(shard.apply(&config).unwrap(), "no setting has changed");
        let more = EngineConfig { flows_max: 300, ..config };
        assert!(shard.apply(&more).unwrap().contains("new settings"));
        assert_eq!(shard.engine.config().flows_max, 150);
        shard.refuse_super_packets();
        assert!(!shard.engine.config().super_packets);
        assert_eq!(shard.apply(&more).unwrap(), "no setting has changed", "the devices are the same");
        assert!(!shard.engine.config().super_packets);
        assert!(shard.apply(&EngineConfig { flows_max: 0, ..more }).is_err());
        assert!(shard.read_settings().unwrap_err().contains("without a settings file"));
    }

    #[test]
    fn what_has_to_wait_for_the_next_start_is_said() {
        let engine = EngineConfig::default();
        let reread = Reread { engine: engine.clone(), at_next_start: vec!["mobile = eth9".to_owned()] };
        let mut shards =
            Accelerator::for_shards(&engine, 1, Some(Box::new(move || Ok(reread.clone())))).unwrap();
        let settings = shards[0].read_settings().unwrap();
        assert_eq!(shards[0].apply(&settings).unwrap(), "mobile = eth9: at the next start, not before");
        assert_eq!(shards[0].apply(&settings).unwrap(), "no setting has changed", "said once");
    }
}
