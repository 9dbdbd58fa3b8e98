//! Figures of a direction of a flow in each tenth of a second.

use analysis::{Direction, PacketKind, PacketView};
use foldhash::fast::FixedState;
use hashbrown::HashMap;
use tables::Value;
use units::Duration;

use super::ends::Ends;
use super::micros;

/// Length of an interval; they begin at whole multiples since 1970, so that flows can be added up.
const LENGTH: Duration = Duration::from_millis(100);

#[derive(Clone, Copy, Debug, Default)]
struct Interval {
    /// Since 1970.
    number: u64,
    packets: u64,
    data_packets: u64,
    payload_bytes: u64,
    retransmitted_packets: u64,
    retransmitted_bytes: u64,
    repaired: u64,
    reordered: u64,
    duplicate_acks: u64,
    acked_bytes: u64,
    window_min: Option<u64>,
    rtt: Option<Rtt>,
}

/// Round-trip times by Karn's rule that packets of this direction gave.
#[derive(Clone, Copy, Debug)]
struct Rtt {
    n: u64,
    sum: Duration,
    min: Duration,
    max: Duration,
}

/// The directions' intervals in progress.
#[derive(Debug, Default)]
pub(super) struct Intervals {
    by_direction: HashMap<(u64, Direction), (Interval, Option<u64>), FixedState>,
}

impl Intervals {
    /// Counts a packet; gives the row of its direction's interval before, if that has ended.
    pub(super) fn push(&mut self, packet: &PacketView<'_>, flow_id: i64, ends: &Ends) -> Option<Vec<Value>> {
        let number = packet.time.as_nanos() / LENGTH.as_nanos();
        let (interval, last_ack) = self.by_direction.entry((packet.flow, packet.direction)).or_default();
        let mut row = None;
        if interval.number != number {
            if interval.packets > 0 {
                row = Some(interval.row(flow_id, ends, packet.direction));
            }
            *interval = Interval { number, ..Interval::default() };
        }
        interval.count(packet);
        if let Some(ack) = packet.ack {
            interval.acked_bytes += last_ack.map_or(0, |last| ack.saturating_sub(last));
            *last_ack = Some(last_ack.map_or(ack, |last| last.max(ack)));
        }
        row
    }

    /// The rows of a flow that has ended.
    pub(super) fn end(&mut self, flow: u64, flow_id: i64, ends: &Ends) -> Vec<Vec<Value>> {
        let ended = |direction| {
            let (interval, _) = self.by_direction.remove(&(flow, direction))?;
            (interval.packets > 0).then(|| interval.row(flow_id, ends, direction))
        };
        Direction::BOTH.into_iter().filter_map(ended).collect()
    }
}

impl Interval {
    fn count(&mut self, packet: &PacketView<'_>) {
        self.packets += 1;
        self.data_packets += u64::from(packet.len > 0);
        self.payload_bytes += packet.len;
        self.duplicate_acks += u64::from(packet.is_duplicate_ack);
        match packet.kind {
            PacketKind::Retransmission { .. } if packet.len > 0 => {
                self.retransmitted_packets += 1;
                self.retransmitted_bytes += packet.len;
            }
            PacketKind::Repaired => self.repaired += 1,
            PacketKind::Reordered => self.reordered += 1,
            _ => {}
        }
        if let Some(window) = packet.window {
            self.window_min = Some(self.window_min.map_or(window, |min| min.min(window)));
        }
        if let Some(rtt) = packet.rtt_karn {
            let before = self.rtt.unwrap_or(Rtt { n: 0, sum: Duration::ZERO, min: rtt, max: rtt });
            self.rtt = Some(Rtt {
                n: before.n + 1,
                sum: before.sum + rtt,
                min: before.min.min(rtt),
                max: before.max.max(rtt),
            });
        }
    }

    fn row(&self, flow_id: i64, ends: &Ends, direction: Direction) -> Vec<Value> {
        let start_ns = self.number * LENGTH.as_nanos();
        let mut row = vec![flow_id.into()];
        ends.append_to(&mut row);
        row.extend([
            u8::from(direction).into(),
            micros(start_ns),
            self.packets.into(),
            self.data_packets.into(),
            self.payload_bytes.into(),
            self.retransmitted_packets.into(),
            self.retransmitted_bytes.into(),
            self.repaired.into(),
            self.reordered.into(),
            self.duplicate_acks.into(),
            self.acked_bytes.into(),
            self.window_min.into(),
            self.rtt.map_or(0, |rtt| rtt.n).into(),
            self.rtt.map(|rtt| rtt.min.as_millis_f64()).into(),
            self.rtt.map(|rtt| rtt.sum.as_millis_f64() / rtt.n as f64).into(),
            self.rtt.map(|rtt| rtt.max.as_millis_f64()).into(),
        ]);
        row
    }
}
