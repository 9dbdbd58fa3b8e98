//! Other settings for a running engine, without a flow noticing.

use crate::EngineConfig;
use crate::one_way::OneWay;

impl OneWay {
    /// Puts `config`, which must be valid, in force.
    pub(crate) fn reconfigure(&mut self, config: EngineConfig) {
        if config.controller != self.config.controller {
            for (_, subscriber) in self.subscribers.iter_mut() {
                subscriber.is_outdated = true;
            }
        }
        self.config = EngineConfig { hash_seed: self.config.hash_seed, ..config };
    }
}
