//! Mahimahi's `LinkQueue`, step by step in its own order, as the reference for [`Link`].

use std::collections::VecDeque;
use std::sync::Arc;

use proptest::prelude::*;
use units::{Bytes, Instant};

use crate::{Capacity, Link, LinkConfig, QueueLimit, Trace};

/// One opportunity after the other, one byte count after the other.
struct Reference {
    schedule_ms: Vec<u64>,
    next: usize,
    base_ms: u64,
    queue: VecDeque<(usize, u64)>,
    in_transit: Option<(usize, u64)>,
    departed: Vec<(usize, u64)>,
    packets_max: usize,
}

impl Reference {
    fn next_ms(&self) -> u64 {
        self.base_ms + self.schedule_ms[self.next]
    }

    /// Runs all opportunities up to and including `now_ns`.
    fn rationalize(&mut self, now_ns: u64) {
        while self.next_ms() * 1_000_000 <= now_ns {
            let ms = self.next_ms();
            self.next = (self.next + 1) % self.schedule_ms.len();
            if self.next == 0 {
                self.base_ms += self.schedule_ms[self.schedule_ms.len() - 1];
            }
            let mut bytes_left = 1500;
            while bytes_left > 0 {
                let Some((id, size)) = self.in_transit.take().or_else(|| self.queue.pop_front()) else {
                    break;
                };
                let amount = size.min(bytes_left);
                bytes_left -= amount;
                if size == amount {
                    self.departed.push((id, ms));
                } else {
                    self.in_transit = Some((id, size - amount));
                }
            }
        }
    }

    fn read_packet(&mut self, id: usize, size: u64, now_ns: u64) {
        self.rationalize(now_ns);
        if self.queue.len() < self.packets_max {
            self.queue.push_back((id, size));
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(512))]

    /// Same packets, same trace: the same packets leave at the same milliseconds.
    #[test]
    fn departures_and_drops_are_mahimahis(
        mut schedule_ms in proptest::collection::vec(0u64..80, 1..60),
        packets in proptest::collection::vec(
            (prop_oneof![Just(0), Just(1_000_000), 0u64..5_000_000], prop_oneof![Just(1500u64), 1u64..=1500]),
            1..150,
        ),
        packets_max in 0usize..20,
    ) {
        schedule_ms.push(80);
        schedule_ms.sort_unstable();
        let trace = Trace::from_opportunities_ms(schedule_ms.iter().copied()).unwrap();
        let config = LinkConfig {
            capacity: Capacity::Trace(Arc::new(trace)),
            queue: QueueLimit::Packets(packets_max as u64),
            ..LinkConfig::default()
        };
        let mut link = Link::new(&config, Instant::ZERO).unwrap();
        let mut reference = Reference {
            schedule_ms,
            next: 0,
            base_ms: 0,
            queue: VecDeque::new(),
            in_transit: None,
            departed: Vec::new(),
            packets_max,
        };
        let mut now_ns = 0;
        for (id, (gap, size)) in packets.into_iter().enumerate() {
            now_ns += gap;
            reference.read_packet(id, size, now_ns);
            let _ = link.enqueue(id, Bytes::new(size), Instant::from_nanos(now_ns));
        }
        reference.rationalize(now_ns + 1_000_000_000_000);
        let departed: Vec<(usize, u64)> = link
            .take_log()
            .iter()
            .filter_map(|record| Some((record.id.0 as usize, record.departure?.as_millis())))
            .collect();
        prop_assert_eq!(departed, reference.departed);
    }
}
