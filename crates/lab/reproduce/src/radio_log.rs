//! [`RadioLog`]: what is kept of a radio link's packet log, which has a record of every packet.

use link::PacketRecord;
use serde::{Deserialize, Serialize};
use units::{Duration, Instant};

/// Packets lost on the radio link one behind the other.
#[derive(Clone, Copy, PartialEq, Debug, Serialize, Deserialize)]
pub struct LossEvent {
    /// Time at which the first of them would have left the link, or came to it where it was dropped at once;
    /// seconds from the start.
    pub at_s: f64,
    /// Number of packets.
    pub packets: u32,
}

/// Content of the packet log of one run. The log itself is given up with its run: those of all runs of an
/// experiment would fill the memory.
#[derive(Clone, PartialEq, Debug, Default)]
pub struct RadioLog {
    /// The bursts of losses, in order.
    pub losses: Vec<LossEvent>,
    /// Packets that were lost, counted from 0 in the order in which they came to the link.
    pub lost: Vec<u32>,
    /// Packets that came out at the far end.
    pub delivered: u64,
    /// Time that these took beyond their time in the queue, all together.
    pub beyond_queue: Duration,
}

impl RadioLog {
    /// Log from the records of a link, in the order in which the packets came to it.
    #[must_use]
    pub fn of(records: &[PacketRecord]) -> Self {
        let mut log = Self::default();
        for (number, record) in (0..).zip(records) {
            if record.drop.is_some() {
                log.lose(number, record);
            }
            if let (Some(whole), Some(queue)) = (record.one_way_delay(), record.queueing_delay()) {
                log.delivered += 1;
                log.beyond_queue += whole.saturating_sub(queue);
            }
        }
        log
    }

    fn lose(&mut self, number: u32, record: &PacketRecord) {
        let was_lost = number.checked_sub(1).is_some_and(|before| self.lost.last() == Some(&before));
        match self.losses.last_mut().filter(|_| was_lost) {
            Some(event) => event.packets += 1,
            None => {
                let at = record.departure.unwrap_or(record.arrival);
                let at_s = at.saturating_since(Instant::ZERO).as_secs_f64();
                self.losses.push(LossEvent { at_s, packets: 1 });
            }
        }
        self.lost.push(number);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use link::{DropReason, PacketId};
    use units::Bytes;

    #[test]
    fn losses_one_behind_the_other_are_one_event() {
        let record = |n: u64, is_lost: bool| PacketRecord {
            id: PacketId(n),
            size: Bytes::new(1_500),
            arrival: Instant::from_millis(n * 10),
            service_start: None,
            departure: (!is_lost).then(|| Instant::from_millis(n * 10 + 3)),
            delivered: (!is_lost).then(|| Instant::from_millis(n * 10 + 8)),
            failed_tries: 0,
            drop: is_lost.then_some(DropReason::LossAfter),
        };
        let lost = [false, true, true, false, true, false];
        let records: Vec<PacketRecord> = (0u64..).zip(lost).map(|(n, lost)| record(n, lost)).collect();
        let log = RadioLog::of(&records);
        assert_eq!(log.losses, [LossEvent { at_s: 0.01, packets: 2 }, LossEvent { at_s: 0.04, packets: 1 }]);
        assert_eq!(log.lost, [1, 2, 4]);
        assert_eq!((log.delivered, log.beyond_queue), (3, Duration::from_millis(15)));
    }
}
