//! Rows of events to controllers.

use ::control::{Ack, Controller as _, ControllerConfig, Feedback, Loss, LossKind, RateSample, Sent};
use units::{Bytes, Duration, Instant, Rate};

/// Bytes of one event.
const EVENT: usize = 12;

/// The first byte chooses the controller, every twelve bytes after it are an event: no panic, no overflow with
/// 10 Gbit/s and 10 s, whatever the clock does, and always a window and a piece that may leave.
pub fn control(bytes: &[u8]) {
    let Some((first, events)) = bytes.split_first() else { return };
    let name = ControllerConfig::NAMES[usize::from(*first) % ControllerConfig::NAMES.len()];
    let mut controller = ControllerConfig::named(name).expect("listed").build();
    let (mut now_us, mut total) = (1_000_000u64, Bytes::ZERO);
    for event in events.chunks_exact(EVENT) {
        let word = |at: usize| u64::from(u16::from_le_bytes([event[at], event[at + 1]]));
        let kind = event[0];
        // Up to 65 ms at a time; with one bit set back instead, with another up to a minute.
        let step = word(2) * if kind & 0x40 == 0 { 1 } else { 1_000 };
        now_us = if kind & 0x80 == 0 { now_us + step } else { now_us.saturating_sub(step) };
        let now = Instant::from_nanos(now_us * 1_000);
        // Up to what 10 Gbit/s bring in 10 s.
        let amount = |at: usize| Bytes::new(word(at).pow(2) * 3);
        let (rtt, rate) = (Duration::from_micros(word(4) * 153), Rate::from_kbps(word(6) * 153));
        let is_limited = kind & 0x20 != 0;
        match kind & 0x07 {
            0..=2 => {
                let delivered = amount(8);
                total = Bytes::new(total.get().saturating_add(delivered.get()));
                let in_flight = amount(10);
                controller.on_ack(&Ack {
                    now,
                    delivered,
                    peer_window: Bytes::MAX,
                    delivered_total: total,
                    rtt: Some(rtt),
                    return_wait: Duration::from_micros(word(2) * 153),
                    lasting_return_wait: Duration::from_micros(word(10) * 15),
                    min_rtt: Some(rtt),
                    rate: Some(RateSample { rate, delivered, interval: rtt, is_app_limited: !is_limited }),
                    in_flight,
                    in_flight_before: in_flight + delivered,
                    others: Bytes::ZERO,
                    is_recovering: kind & 0x10 != 0,
                    is_window_limited: is_limited,
                    ..Ack::default()
                });
            }
            3 | 4 => controller.on_loss(&Loss {
                now,
                lost: amount(8),
                kind: if kind & 0x10 == 0 { LossKind::Fast } else { LossKind::Timeout },
                is_new_event: is_limited,
                in_flight: amount(10),
            }),
            5 => controller.on_send(&Sent {
                now,
                bytes: Bytes::new(word(8).max(1)),
                in_flight: amount(10),
                is_app_limited: is_limited,
            }),
            6 => controller.on_feedback(&Feedback::new(now, rtt, rate, amount(8))),
            _ if is_limited => controller.on_undo(now),
            _ => controller.on_round_trip(rtt, now),
        }
        let control = controller.control();
        assert!(control.window > Bytes::ZERO && control.send_quantum > Bytes::ZERO, "{name}: {control:?}");
    }
}
