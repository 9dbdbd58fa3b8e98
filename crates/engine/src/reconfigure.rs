//! Other settings for a running engine, without a flow noticing.

use crate::engine::Engine;
use crate::{ConfigError, EngineConfig};

impl Engine {
    /// Puts `config` in force.
    ///
    /// What a flow agreed on when it was taken over (window policy, longest retransmission time-out) stays with it;
    /// limits and time-outs hold for all from here on, and a lower limit ends no flow. A subscriber gets the new
    /// controller with its next new flow: its flows share one radio queue, so there is one controller for all of
    /// them. The seed of the hash stays, because the table is built with it.
    ///
    /// # Errors
    /// A setting that makes no sense; then everything stays as it was.
    pub fn reconfigure(&mut self, config: &EngineConfig) -> Result<(), ConfigError> {
        config.validate()?;
        if config.controller != self.config.controller {
            for (_, subscriber) in &mut self.subscribers {
                subscriber.is_outdated = true;
            }
        }
        self.config = EngineConfig { hash_seed: self.config.hash_seed, ..config.clone() };
        Ok(())
    }
}
