//! Summary of an instance that has ended: what passed, what was done, what was lost.

use engine::PassReason;
use units::Bytes;

use crate::{Amount, Ended, Event, EventSink};

impl Ended {
    /// Tells what was counted.
    pub fn tell(&self, events: &mut dyn EventSink) {
        for (from, side) in ["servers", "clients"].into_iter().zip(self.counters.sides) {
            let (packets, bytes) = (side.received_packets, amount(side.received_bytes));
            events.on_event(&Event::Received { from, packets, bytes });
        }
        self.tell_flows(events);
        self.tell_losses(events);
    }

    /// Tells what was done for flows, and which were passed.
    fn tell_flows(&self, events: &mut dyn EventSink) {
        for (what, prefix) in [("accelerated", ""), ("uplink accelerated", "uplink_")] {
            let of = |name: &str| self.processor.counters.get(&format!("{prefix}{name}")).copied();
            let Some(flows) = of("flows_accelerated") else { continue };
            let [delivered, again] =
                ["bytes_delivered", "bytes_retransmitted"].map(|name| amount(of(name).unwrap_or(0)));
            events.on_event(&Event::Delivered { what, flows, delivered, again });
        }
        let counted = |name: &str| self.processor.counter(name);
        if counted("flows_windowed") > 0 {
            let (flows, acks) = (counted("flows_windowed"), counted("windows_lowered"));
            events.on_event(&Event::WindowsLowered { flows, acks });
        }
        if counted("fell_back_to_honour") > 0 {
            events.on_event(&Event::FellBack { flows: counted("fell_back_to_honour") });
        }
        for reason in PassReason::ALL {
            if let Some(flows) = self.processor.passed.get(reason.name()).copied() {
                events.on_event(&Event::Passed { flows, reason: reason.to_string() });
            }
        }
    }

    fn tell_losses(&self, events: &mut dyn EventSink) {
        for (hosts, other, prefix) in [("servers", "client", ""), ("clients", "server", "uplink_")] {
            let lost = self.processor.counter(&format!("{prefix}bytes_acked_but_lost"));
            if lost > 0 {
                events.on_event(&Event::Lost { bytes: amount(lost), hosts, other });
            }
        }
        let drops: u64 = self.queue_drops.iter().sum();
        let refused: u64 = self.counters.sides.iter().map(|side| side.refused_packets).sum();
        if drops + refused > 0 {
            events.on_event(&Event::Dropped { drops, refused });
        }
    }
}

const fn amount(bytes: u64) -> Amount {
    Amount(Bytes::new(bytes))
}
