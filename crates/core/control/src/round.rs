//! Rounds: what is in flight when one begins has been delivered when it ends.

use units::{Bytes, Duration};

use crate::Ack;

/// Counts rounds and keeps the smallest round trip of the one under way.
#[derive(Clone, Copy, Debug, Default, stored::Stored)]
pub(crate) struct Rounds {
    /// It ends when more than this has been delivered.
    ends_at: Bytes,
    min_rtt: Option<Duration>,
    samples: u32,
}

/// A round that has ended.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Round {
    /// Smallest round trip in it.
    pub(crate) min_rtt: Option<Duration>,
    /// Round trips measured in it.
    pub(crate) samples: u32,
}

impl Rounds {
    /// Takes in an acknowledgement; the round it ends, if it ends one.
    pub(crate) fn on_ack(&mut self, ack: &Ack) -> Option<Round> {
        if let Some(rtt) = ack.rtt {
            self.min_rtt = Some(self.min_rtt.map_or(rtt, |min| min.min(rtt)));
            self.samples += 1;
        }
        if ack.delivered_total <= self.ends_at {
            return None;
        }
        let ended = Round { min_rtt: self.min_rtt, samples: self.samples };
        *self = Self { ends_at: ack.delivered_total + ack.in_flight, min_rtt: None, samples: 0 };
        Some(ended)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_round_ends_when_what_was_in_flight_is_delivered() {
        let mut rounds = Rounds::default();
        let mut ack = |total, rtt_ms| {
            rounds.on_ack(&Ack {
                delivered_total: Bytes::new(total),
                in_flight: Bytes::new(4_000),
                rtt: Some(Duration::from_millis(rtt_ms)),
                ..Ack::default()
            })
        };
        assert!(ack(1_000, 50).is_some());
        for (total, rtt) in [(2_000, 60), (3_000, 55), (4_000, 70), (5_000, 80)] {
            assert_eq!(ack(total, rtt), None);
        }
        assert_eq!(ack(6_000, 90), Some(Round { min_rtt: Some(Duration::from_millis(55)), samples: 5 }));
    }
}
