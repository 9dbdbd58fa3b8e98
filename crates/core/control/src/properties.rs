//! Properties of every controller, whatever happens to it: no panic, no overflow, and always a way on.

use proptest::prelude::*;
use units::{Bytes, Duration, Instant, Rate};

use crate::{Ack, Controller as _, ControllerConfig, Feedback, Loss, LossKind, RateSample, Sent};

/// Bytes that 10 Gbit/s bring in 10 s: more is in flight nowhere.
const IN_FLIGHT_MAX: u64 = 12_500_000_000;
/// The longest round trip.
const RTT_MAX_US: u64 = 10_000_000;

/// Something that happens to a controller.
#[derive(Clone, Debug)]
enum Event {
    /// Bytes, a round trip in µs, a rate in kbit/s, bytes in flight after it.
    Ack {
        delivered: u64,
        rtt_us: Option<u64>,
        kbps: u64,
        in_flight: u64,
        is_recovering: bool,
        is_limited: bool,
    },
    Loss {
        bytes: u64,
        in_flight: u64,
        is_timeout: bool,
        is_new: bool,
    },
    Send {
        bytes: u64,
        in_flight: u64,
        is_app_limited: bool,
    },
    Feedback {
        kbps: u64,
        queue: u64,
        age_us: u64,
    },
    RoundTrip {
        rtt_us: u64,
    },
    Undo,
}

fn amounts() -> impl Strategy<Value = u64> {
    prop_oneof![4 => 1u64..3_000, 2 => 0u64..1_000_000, 1 => 0u64..=IN_FLIGHT_MAX]
}

fn rates() -> impl Strategy<Value = u64> {
    prop_oneof![3 => 100u64..50_000, 1 => 0u64..=10_000_000]
}

fn round_trips() -> impl Strategy<Value = u64> {
    prop_oneof![5 => 1_000u64..400_000, 1 => 0u64..=RTT_MAX_US]
}

fn events() -> impl Strategy<Value = Event> {
    let ack =
        (amounts(), proptest::option::of(round_trips()), rates(), amounts(), any::<bool>(), any::<bool>());
    prop_oneof![
        8 => ack.prop_map(|(delivered, rtt_us, kbps, in_flight, is_recovering, is_limited)| {
            Event::Ack { delivered, rtt_us, kbps, in_flight, is_recovering, is_limited }
        }),
        2 => (amounts(), amounts(), any::<bool>(), any::<bool>())
            .prop_map(|(bytes, in_flight, is_timeout, is_new)| Event::Loss { bytes, in_flight, is_timeout, is_new }),
        4 => (1u64..65_536, amounts(), any::<bool>())
            .prop_map(|(bytes, in_flight, is_app_limited)| Event::Send { bytes, in_flight, is_app_limited }),
        1 => (rates(), amounts(), round_trips())
            .prop_map(|(kbps, queue, age_us)| Event::Feedback { kbps, queue, age_us }),
        1 => round_trips().prop_map(|rtt_us| Event::RoundTrip { rtt_us }),
        1 => Just(Event::Undo),
    ]
}

/// Steps of the clock: mostly small, sometimes long, and back where `is_monotone` is not set.
fn steps() -> impl Strategy<Value = i64> {
    prop_oneof![6 => 0i64..5_000, 2 => 0i64..200_000, 1 => 0i64..20_000_000, 1 => -500_000i64..0]
}

/// Tells `controller` of `event` at `now`; `total` is what has been delivered by then.
fn tell(controller: &mut crate::AnyController, event: &Event, total: &mut u64, now: Instant) {
    let bytes = Bytes::new;
    match *event {
        Event::Ack { delivered, rtt_us, kbps, in_flight, is_recovering, is_limited } => {
            *total = total.saturating_add(delivered);
            let rtt = rtt_us.map(Duration::from_micros);
            let rate = Some(RateSample {
                rate: Rate::from_kbps(kbps),
                delivered: bytes(delivered),
                interval: rtt.unwrap_or(Duration::from_millis(40)),
                is_app_limited: !is_limited,
            });
            controller.on_ack(&Ack {
                now,
                delivered: bytes(delivered),
                peer_window: Bytes::MAX,
                delivered_total: bytes(*total),
                rtt,
                min_rtt: rtt,
                rate,
                in_flight: bytes(in_flight),
                in_flight_before: bytes(in_flight.saturating_add(delivered)),
                is_recovering,
                is_window_limited: is_limited,
                ..Ack::default()
            });
        }
        Event::Loss { bytes: lost, in_flight, is_timeout, is_new } => controller.on_loss(&Loss {
            now,
            lost: bytes(lost),
            kind: if is_timeout { LossKind::Timeout } else { LossKind::Fast },
            is_new_event: is_new,
            in_flight: bytes(in_flight),
        }),
        Event::Send { bytes: sent, in_flight, is_app_limited } => {
            controller.on_send(&Sent {
                now,
                bytes: bytes(sent),
                in_flight: bytes(in_flight),
                is_app_limited,
            });
        }
        Event::Feedback { kbps, queue, age_us } => controller.on_feedback(&Feedback::new(
            now,
            Duration::from_micros(age_us),
            Rate::from_kbps(kbps),
            bytes(queue),
        )),
        Event::RoundTrip { rtt_us } => controller.on_round_trip(Duration::from_micros(rtt_us), now),
        Event::Undo => controller.on_undo(now),
    }
}

proptest! {
    /// 10 Gbit/s, 10 s and a clock that goes back: every controller goes on, lets a piece leave, and does not
    /// ask for silence.
    #[test]
    fn no_controller_panics_or_stops(script in proptest::collection::vec((steps(), events()), 1..120)) {
        for name in ControllerConfig::NAMES {
            let mut controller = ControllerConfig::named(name).expect("listed").build();
            let (mut now_us, mut total) = (1_000_000i64, 0);
            for (step_us, event) in &script {
                now_us = (now_us + step_us).max(0);
                tell(&mut controller, event, &mut total, Instant::from_nanos(now_us as u64 * 1_000));
                let control = controller.control();
                prop_assert!(control.send_quantum > Bytes::ZERO, "{}: no piece may leave after {:?}", name, event);
                prop_assert!(control.window > Bytes::ZERO, "{}: no window after {:?}", name, event);
            }
        }
    }

    /// The same events, the same decisions.
    #[test]
    fn every_controller_is_deterministic(script in proptest::collection::vec((steps(), events()), 1..60)) {
        for name in ControllerConfig::NAMES {
            let run = || {
                let mut controller = ControllerConfig::named(name).expect("listed").build();
                let (mut now_us, mut total) = (1_000_000i64, 0);
                let mut decisions = Vec::new();
                for (step_us, event) in &script {
                    now_us += step_us.max(&0);
                    tell(&mut controller, event, &mut total, Instant::from_nanos(now_us as u64 * 1_000));
                    decisions.push(controller.control());
                }
                decisions
            };
            prop_assert_eq!(run(), run(), "{}", name);
        }
    }

    /// Stored as bytes and restored at any moment, a controller goes on as if it had not been.
    #[test]
    fn every_controller_outlives_its_process(
        script in proptest::collection::vec((steps(), events()), 1..60),
        moment in any::<prop::sample::Index>(),
    ) {
        for name in ControllerConfig::NAMES {
            let run = |moves_at: usize| {
                let mut controller = ControllerConfig::named(name).expect("listed").build();
                let (mut now_us, mut total) = (1_000_000i64, 0);
                let mut decisions = Vec::new();
                for (number, (step_us, event)) in script.iter().enumerate() {
                    if number == moves_at {
                        let bytes = stored::to_bytes(&controller);
                        controller = stored::from_bytes(u16::MAX, &bytes).expect("just stored");
                    }
                    now_us = (now_us + step_us).max(0);
                    tell(&mut controller, event, &mut total, Instant::from_nanos(now_us as u64 * 1_000));
                    decisions.push(controller.control());
                }
                decisions
            };
            prop_assert_eq!(run(moment.index(script.len())), run(usize::MAX), "{}", name);
        }
    }
}
