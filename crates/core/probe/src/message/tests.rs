use proptest::collection::vec;
use proptest::prelude::*;

use super::*;
use crate::auth::Key;

fn key() -> Key {
    Key::new(b"key").unwrap()
}

fn some_spec() -> impl Strategy<Value = RunSpec> {
    (any::<(bool, u8, bool)>(), any::<u64>(), any::<u16>(), any::<u16>(), any::<u32>()).prop_map(
        |(flags, bps, payload, overhead, ms)| RunSpec {
            direction: if flags.0 { Direction::Up } else { Direction::Down },
            pattern: [Pattern::Steady, Pattern::Search, Pattern::Saturate, Pattern::Trains]
                [usize::from(flags.1 % 4)],
            is_echoed: flags.2,
            rate: Rate::from_bps(bps),
            payload,
            overhead,
            length: Duration::from_millis(ms.into()),
        },
    )
}

/// Times as they are told: whole µs.
fn some_arrivals() -> impl Strategy<Value = Vec<Arrival>> {
    let one = (any::<u32>(), 0u64..1 << 50)
        .prop_map(|(number, us)| Arrival { number, at: Instant::from_micros(us) });
    vec(one, 0..40)
}

fn some_message() -> impl Strategy<Value = Message> {
    let data = any::<(u64, u32, u32, u64)>().prop_map(|(session, run, number, ns)| Data {
        session,
        run,
        number,
        sent: Instant::from_nanos(ns),
    });
    let reason = (0..REFUSALS.len()).prop_map(|at| REFUSALS[at]);
    prop_oneof![
        any::<(u64, Cookie)>().prop_map(|(nonce, cookie)| Message::Hello { nonce, cookie }),
        any::<u64>().prop_map(|nonce| Message::Hello { nonce, cookie: Cookie::default() }),
        any::<(u64, Cookie)>().prop_map(|(nonce, cookie)| Message::Challenge { nonce, cookie }),
        any::<(u64, u64, u64, u32, u64)>().prop_map(|(nonce, session, bps, ms, volume)| Message::Accept {
            nonce,
            session,
            limits: Limits {
                rate_max: Rate::from_bps(bps),
                time_max: Duration::from_millis(ms.into()),
                volume_max: Bytes::new(volume)
            },
        }),
        (any::<(u64, u64, u8)>(), reason.clone()).prop_map(|((about, detail, version), reason)| {
            Message::Refuse { about, reason, detail, version }
        }),
        (any::<(u64, u32)>(), some_spec()).prop_map(|((session, run), spec)| Message::Ask {
            session,
            run,
            spec
        }),
        any::<(u64, u32)>().prop_map(|(session, run)| Message::Grant { session, run }),
        any::<(u64, u32, u32)>().prop_map(|(session, run, place)| Message::Wait { session, run, place }),
        (any::<(u64, u32, u64)>(), reason).prop_map(|((session, run, detail), reason)| Message::Deny {
            session,
            run,
            reason,
            detail
        }),
        any::<(u64, u32, u32, [u32; 5])>().prop_map(|(session, run, number, f)| Message::Status {
            session,
            run,
            number,
            report: StatusReport { received: f[0], next: f[1], recent: f[2], errors: f[3], delay_us: f[4] },
        }),
        any::<(u64, u32)>().prop_map(|(session, run)| Message::Finish { session, run }),
        (any::<u64>(), vec(1u16.., 0..PORTS_MAX))
            .prop_map(|(session, ports)| Message::AskPorts { session, ports }),
        (any::<u64>(), vec((any::<u16>(), 0..PORT_STATES.len()), 0..PORTS_MAX)).prop_map(
            |(session, ports)| {
                let port = |(number, state): (u16, usize)| Port { number, state: PORT_STATES[state] };
                Message::Ports { session, ports: ports.into_iter().map(port).collect() }
            }
        ),
        any::<(u64, u32, u32)>().prop_map(|(session, run, from)| Message::AskSeen { session, run, from }),
        (any::<(u64, u32, u32, u32)>(), vec(any::<u8>(), 0..SEEN_MAX))
            .prop_map(|((session, run, from, len), bytes)| Message::Seen { session, run, from, len, bytes }),
        any::<(u64, u32, [u32; 8], u16)>().prop_map(|(session, run, f, moves)| Message::Summary {
            session,
            run,
            summary: RunSummary {
                sent: f[0],
                refused: f[1],
                received: f[2],
                overflowed: f[3],
                moves,
                timer: TimerFigures {
                    late_p50_us: f[4],
                    late_p99_us: f[5],
                    late_max_us: f[6],
                    gap_error_p99_us: f[7],
                },
            },
        }),
        any::<(u64, u32, u32)>().prop_map(|(session, run, from)| Message::Fetch { session, run, from }),
        (any::<(u64, u32, u32)>(), some_arrivals()).prop_map(|((session, run, from), arrivals)| {
            Message::Records { session, run, from, arrivals }
        }),
        any::<(u64, Cookie)>().prop_map(|(session, cookie)| Message::Confirm { session, cookie }),
        any::<(u64, Cookie)>().prop_map(|(session, cookie)| Message::Confirmed { session, cookie }),
        any::<u64>().prop_map(|session| Message::Bye { session }),
        any::<(u64, u32, u32, Cookie)>().prop_map(|(session, flow, ms, cookie)| Message::Idle {
            session,
            flow,
            after: Duration::from_millis(ms.into()),
            cookie
        }),
        any::<(u64, u32)>().prop_map(|(session, flow)| Message::Held { session, flow }),
        any::<(u64, u32)>().prop_map(|(session, flow)| Message::Speak { session, flow }),
        data.clone().prop_map(Message::Data),
        data.clone().prop_map(Message::Ping),
        any::<(u64, u64)>()
            .prop_map(|(number, ns)| Message::Locate { number, sent: Instant::from_nanos(ns) }),
        any::<(u64, u64, [u8; 16], u16)>().prop_map(|(number, ns, ip, port)| {
            let ip = std::net::Ipv6Addr::from(ip);
            // IPv4 is written as a mapped address.
            let ip = ip.to_ipv4_mapped().map_or(ip.into(), std::net::IpAddr::V4);
            Message::Located { number, sent: Instant::from_nanos(ns), address: (ip, port).into() }
        }),
        (data.clone(), any::<(u64, u64)>()).prop_map(|(data, (received, echoed))| Message::Pong(Echo {
            data,
            received: Instant::from_nanos(received),
            echoed: Instant::from_nanos(echoed),
        })),
        (data, any::<(u64, u64)>()).prop_map(|(data, (received, echoed))| Message::Echo(Echo {
            data,
            received: Instant::from_nanos(received),
            echoed: Instant::from_nanos(echoed),
        })),
    ]
}

fn encoded(message: &Message, key: Option<&Key>) -> Vec<u8> {
    let mut out = Vec::new();
    message.encode(key, &mut out);
    out
}

proptest! {
    #[test]
    fn messages_are_read_as_written(message in some_message()) {
        for key in [None, Some(&key())] {
            let bytes = encoded(&message, key);
            prop_assert!(bytes.len() <= CONTROL_LEN_MAX);
            prop_assert_eq!(Message::decode(&bytes, key), Ok(message.clone()));
        }
    }

    #[test]
    fn what_is_cut_or_longer_or_changed_is_refused(message in some_message(), at: prop::sample::Index, bit in 0u8..8) {
        let key = key();
        let bytes = encoded(&message, Some(&key));
        prop_assert!(Message::decode(&bytes[..at.index(bytes.len())], Some(&key)).is_err());
        if message.is_signed() {
            let mut changed = bytes.clone();
            changed[at.index(bytes.len())] ^= 1 << bit;
            // A Refuse is none of the signed, and is believed for a nonce that nobody else knows.
            let read = Message::decode(&changed, Some(&key));
            let is_refusal = matches!(read, Ok(Message::Refuse { .. }));
            prop_assert!(read.is_err() || is_refusal);
            prop_assert_eq!(Message::decode(&bytes, None), Err(MessageError::WrongKey));
            prop_assert_eq!(Message::decode(&encoded(&message, None), Some(&key)), Err(MessageError::WrongKey));
            let other = Key::new(b"other").unwrap();
            prop_assert_eq!(Message::decode(&encoded(&message, Some(&other)), Some(&key)), Err(MessageError::WrongKey));
        }
    }

    #[test]
    fn any_bytes_are_read_without_a_panic(bytes in vec(any::<u8>(), 0..100), kind in 0u8..24) {
        let _ = Message::decode(&bytes, None);
        let mut ours = vec![0xce, 0x12, VERSION, kind];
        ours.extend(bytes);
        let _ = Message::decode(&ours, None);
        let _ = Message::hello_nonce(&ours);
    }
}

/// The promise against reflection: what is sent to an address that is not proven is not longer than
/// what came from it.
#[test]
fn answers_to_a_hello_are_no_longer_than_it() {
    let hello = encoded(&Message::Hello { nonce: 1, cookie: Cookie::default() }, None);
    assert_eq!(hello.len(), HELLO_LEN);
    let signed = encoded(&Message::Hello { nonce: 1, cookie: [1; 16] }, Some(&key()));
    assert_eq!(signed.len(), HELLO_LEN);
    let challenge = encoded(&Message::Challenge { nonce: 1, cookie: [1; 16] }, None);
    let refuse = Message::Refuse { about: 1, reason: Refusal::Overloaded, detail: 64, version: VERSION };
    assert!(challenge.len() <= HELLO_LEN && encoded(&refuse, None).len() <= HELLO_LEN);
    let confirm = encoded(&Message::Confirm { session: 1, cookie: [1; 16] }, Some(&key()));
    assert!(confirm.len() <= DATA_LEN, "{}", confirm.len());
    let idle = Message::Idle { session: 1, flow: 1, after: Duration::ZERO, cookie: Cookie::default() };
    for key in [None, Some(&key())] {
        let confirm = Message::Confirm { session: 1, cookie: [1; 16] };
        assert!(encoded(&confirm, key).len() <= encoded(&idle, key).len());
    }
}

#[test]
fn another_version_is_told_from_garbage_and_its_refusal_is_read() {
    let mut hello = encoded(&Message::Hello { nonce: 77, cookie: Cookie::default() }, None);
    hello[2] = 9;
    assert_eq!(Message::decode(&hello, None), Err(MessageError::Version(9)));
    assert_eq!(Message::hello_nonce(&hello), Some(77));
    assert_eq!(Message::hello_nonce(&hello[..40]), None, "too short to be answered");
    let refuse = Message::Refuse { about: 77, reason: Refusal::Version, detail: 9, version: 9 };
    assert_eq!(Message::decode(&encoded(&refuse, None), None), Ok(refuse));
    assert_eq!(Message::decode(b"hello", None), Err(MessageError::Malformed));
}

#[test]
fn records_that_do_not_fit_are_left_for_the_next_message() {
    let far = |n: u32| Arrival {
        number: n.wrapping_mul(0x9e37_79b9),
        at: Instant::from_micros(u64::from(n % 7) << 50),
    };
    let arrivals: Vec<Arrival> = (0..RECORDS_MAX).map(far).collect();
    let bytes =
        encoded(&Message::Records { session: 1, run: 1, from: 0, arrivals: arrivals.clone() }, Some(&key()));
    assert!(bytes.len() <= CONTROL_LEN_MAX);
    let Ok(Message::Records { arrivals: read, .. }) = Message::decode(&bytes, Some(&key())) else { panic!() };
    assert!(!read.is_empty() && read.len() < arrivals.len());
    assert_eq!(read, arrivals[..read.len()]);
    // Records as they are: 2 to 4 bytes each.
    let near: Vec<Arrival> = (0..256)
        .map(|n| Arrival { number: n, at: Instant::from_micros(5_000_000_000 + 900 * u64::from(n)) })
        .collect();
    let bytes = encoded(&Message::Records { session: 1, run: 1, from: 0, arrivals: near }, None);
    assert!(bytes.len() < 800, "{}", bytes.len());
}

#[test]
fn packets_of_a_run_are_counted_exactly() {
    let spec = RunSpec {
        direction: Direction::Up,
        pattern: Pattern::Steady,
        rate: Rate::from_mbps(8),
        payload: 972,
        overhead: 28,
        length: Duration::from_secs(1),
        is_echoed: false,
    };
    assert_eq!((spec.packet().get(), spec.packets()), (1_000, 1_000));
    assert_eq!(RunSpec { rate: Rate::from_bps(1), ..spec }.packets(), 1, "the first leaves at once");
}

#[test]
fn where_one_is_seen_is_told_in_fewer_bytes_than_were_asked() {
    let (number, sent) = (7, Instant::from_nanos(9));
    let (mut asked, mut told) = (Vec::new(), Vec::new());
    for key in [None, Some(&key())] {
        Message::Locate { number, sent }.encode(key, &mut asked);
        let address = ([192, 0, 2, 1], 4711).into();
        Message::Located { number, sent, address }.encode(key, &mut told);
        assert!(asked.len() == HELLO_LEN && told.len() < asked.len(), "{} {}", asked.len(), told.len());
        assert_eq!(Message::decode(&told, key), Ok(Message::Located { number, sent, address }));
        assert!(Message::decode(&asked[..40], key).is_err(), "cut");
    }
}
