//! Reports of base stations on their way to the controllers. \[WA\] §IV-A.

use std::net::IpAddr;

use control::Feedback;

use super::Half;
use crate::config::Sharing;
use crate::key::{SharingKey, subscriber_key};

impl Half {
    /// Hands a report to those it is about; false when there are none.
    pub(crate) fn handle_feedback(&mut self, client: IpAddr, feedback: &Feedback) -> bool {
        let address = subscriber_key(client, self.config.ipv6_prefix_len);
        let prefix_len = self.config.ipv6_prefix_len;
        if let Some(id) = self.clients.index.get(&SharingKey::Address(address), &self.subscribers) {
            self.inform(id, feedback);
            return true;
        }
        if self.config.sharing == Sharing::Subscriber {
            return false;
        }
        let is_meant = |key: &SharingKey| match key {
            SharingKey::Flow(flow) => subscriber_key(flow.sink().ip(), prefix_len) == address,
            SharingKey::Address(_) => false,
        };
        let meant: Vec<u32> =
            self.subscribers.iter().filter(|(_, s)| is_meant(&s.key)).map(|(id, _)| id).collect();
        for &id in &meant {
            self.inform(id, feedback);
        }
        !meant.is_empty()
    }

    fn inform(&mut self, id: u32, feedback: &Feedback) {
        self.open_path(id);
        let Some(path) = self.path_of_mut(id) else { return };
        path.on_feedback(feedback);
        // It may have opened the window, or shortened the pause, that its flows wait for.
        self.wake(id);
    }
}

#[cfg(test)]
mod tests {
    use units::{Bytes, Duration, Instant, Rate};

    use super::*;
    use crate::EngineConfig;
    use crate::direction::Direction;
    use crate::half::tests::Bench;

    fn report() -> Feedback {
        Feedback::new(Instant::from_millis(5), Duration::ZERO, Rate::from_mbps(8), Bytes::ZERO)
    }

    #[test]
    fn reports_reach_subscribers_that_are_known() {
        for sharing in [Sharing::Subscriber, Sharing::Flow] {
            let config = EngineConfig { sharing, ..EngineConfig::default() };
            let mut bench = Bench::established(config);
            assert!(bench.engine.handle_feedback("10.0.0.1".parse().unwrap(), &report()));
            assert!(!bench.engine.handle_feedback("10.0.0.2".parse().unwrap(), &report()));
        }
        let mut empty = Half::new(Direction::Downlink, EngineConfig::default()).unwrap();
        assert!(!empty.handle_feedback("2001:db8::1".parse().unwrap(), &report()));
    }
}
