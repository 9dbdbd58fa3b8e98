use proptest::prelude::*;
use wire::{Packet, tcp_checksum_is_valid};

use super::*;
use crate::syn::{Handshake, TcpOption, option_kind, options_bytes};

const ISN: SeqNum = SeqNum::new(u32::MAX - 3);
const SERVER_ISN: SeqNum = SeqNum::new(u32::MAX - 100);
const DELAY: Duration = Duration::from_millis(5_000);
const RETRY: Duration = Duration::from_millis(1_000);

fn ends() -> (SocketAddr, SocketAddr) {
    ("192.0.2.2:40000".parse().unwrap(), "198.51.100.1:80".parse().unwrap())
}

fn client(ack_delay: Duration) -> SmallTcp {
    let (local, remote) = ends();
    let option = |kind, body: &[u8]| TcpOption { kind, body: body.to_vec() };
    let options = [option(option_kind::MSS, &[5, 0xb4]), option(option_kind::TIMESTAMPS, &[0; 8])];
    let spec = SmallTcpSpec {
        local,
        remote,
        isn: ISN,
        options: options_bytes(&options),
        timestamp: Some(7),
        flags: TcpFlags::ECE,
        ecn: 2,
        request: b"GET".to_vec(),
        ack_delay,
        retry: RETRY,
        keep: 1_000,
        enough: u64::MAX,
    };
    SmallTcp::new(spec, at(0))
}

fn at(ms: u64) -> Instant {
    Instant::from_millis(10_000 + ms)
}

/// A packet of the server: its number after the SYN/ACK's, and its timestamp.
fn packet(offset: u32, ack: SeqNum, flags: TcpFlags, payload: &[u8], timestamp: u32) -> Vec<u8> {
    let (local, remote) = ends();
    let seq = if flags.contains(TcpFlags::SYN) { SERVER_ISN } else { SERVER_ISN + 1 + offset };
    let mut spec = TcpHeaderSpec::new(remote, local, seq, ack, flags);
    spec.timestamps = Some(Timestamps { value: timestamp, echo: 0 });
    spec.hop_limit = if flags.contains(TcpFlags::SYN) { 63 } else { 62 };
    let mut out = vec![0; TcpHeaderSpec::MAX_LEN];
    let header = spec.emit(&mut out, &[payload]).unwrap();
    out.truncate(header.len);
    out.extend(payload);
    out
}

/// All that it sends at a time.
fn sent(tcp: &mut SmallTcp, ms: u64) -> Vec<(Packet, Vec<u8>)> {
    let (mut all, mut out) = (Vec::new(), Vec::new());
    while tcp.poll_transmit(at(ms), &mut out) {
        let parsed = wire::parse(&out).unwrap();
        assert!(tcp_checksum_is_valid(&out, &parsed), "{parsed:?}");
        all.push((parsed, out.clone()));
    }
    all
}

fn hear(tcp: &mut SmallTcp, packet: &[u8], ms: u64) {
    tcp.handle_packet(packet, at(ms), at(ms));
}

/// A connection that is open after 20 ms, its request acknowledged after 40.
fn open(delay: Duration) -> SmallTcp {
    let mut tcp = client(delay);
    assert_eq!(sent(&mut tcp, 0).len(), 1);
    hear(&mut tcp, &packet(0, ISN + 1, TcpFlags::SYN.with(TcpFlags::ACK), &[], 100), 20);
    let both = sent(&mut tcp, 20);
    let told: Vec<(SeqNum, SeqNum, usize)> = both
        .iter()
        .map(|(packet, _)| {
            let tcp = packet.tcp().unwrap();
            (tcp.seq, tcp.ack, tcp.payload_len)
        })
        .collect();
    assert_eq!(told, [(ISN + 1, SERVER_ISN + 1, 0), (ISN + 1, SERVER_ISN + 1, 3)]);
    assert_eq!((both[0].0.ip.ecn(), both[1].0.ip.ecn()), (0, 2), "marks are for data");
    hear(&mut tcp, &packet(0, ISN + 4, TcpFlags::ACK, &[], 101), 40);
    tcp
}

#[test]
fn the_syn_is_the_one_that_was_asked_for() {
    let mut tcp = client(DELAY);
    let (_, syn) = sent(&mut tcp, 0).remove(0);
    let shake = Handshake::read(&syn).unwrap();
    assert_eq!((shake.isn, shake.mss(), shake.hop_limit, shake.ecn), (ISN, Some(1_460), 64, 0));
    assert_eq!(shake.flags, TcpFlags::SYN.with(TcpFlags::ECE));
    assert_eq!(shake.option(option_kind::TIMESTAMPS).unwrap()[..4], (7 + 10_000_u32).to_be_bytes());
    // It is sent again, and then given up.
    let mut count = 1;
    for ms in (0..20_000).step_by(100) {
        count += sent(&mut tcp, ms).len();
    }
    assert_eq!((count, tcp.end()), (7, Some(SmallTcpEnd::NoHandshake)));
    assert_eq!(tcp.into_log().syn, syn);
}

#[test]
fn resets_are_told_apart() {
    let mut tcp = client(DELAY);
    sent(&mut tcp, 0);
    hear(&mut tcp, &packet(0, ISN + 9, TcpFlags::RST.with(TcpFlags::ACK), &[], 0), 5);
    assert_eq!(tcp.end(), None, "not of this SYN");
    hear(&mut tcp, &packet(0, ISN + 1, TcpFlags::RST.with(TcpFlags::ACK), &[], 0), 5);
    assert_eq!(tcp.end(), Some(SmallTcpEnd::Refused));
    let mut tcp = open(DELAY);
    hear(&mut tcp, &packet(0, ISN + 4, TcpFlags::RST, &[], 0), 50);
    assert_eq!((tcp.end(), tcp.next_deadline()), (Some(SmallTcpEnd::Reset), None));
}

#[test]
fn an_answer_is_put_in_order_and_ended_with_a_reset() {
    let mut tcp = open(Duration::ZERO);
    hear(&mut tcp, &packet(5, ISN + 4, TcpFlags::FIN.with(TcpFlags::ACK), b" world", 102), 50);
    hear(&mut tcp, &packet(0, ISN + 4, TcpFlags::ACK, b"hello", 102), 60);
    hear(&mut tcp, &packet(0, ISN + 4, TcpFlags::ACK, b"hello", 102), 61);
    let out = sent(&mut tcp, 61);
    assert!(out.last().unwrap().0.tcp().unwrap().flags.contains(TcpFlags::RST));
    assert_eq!(tcp.end(), Some(SmallTcpEnd::Finished));
    let log = tcp.into_log();
    assert_eq!((log.answer.as_slice(), log.received), (&b"hello world"[..], 11));
    assert_eq!(log.handshake, Some(Duration::from_millis(20)));
    assert_eq!(
        (log.acknowledged, log.answered),
        (Some(Duration::from_millis(20)), Some(Duration::from_millis(30)))
    );
    assert_eq!((log.data_hop_limits, log.syn_ack.unwrap()[8]), (vec![62], 63));
}

#[test]
fn a_request_that_is_lost_is_sent_again_and_measures_nothing() {
    let mut tcp = client(DELAY);
    sent(&mut tcp, 0);
    hear(&mut tcp, &packet(0, ISN + 1, TcpFlags::SYN.with(TcpFlags::ACK), &[], 100), 20);
    sent(&mut tcp, 20);
    // The server does not know that its SYN/ACK came, either.
    hear(&mut tcp, &packet(0, ISN + 1, TcpFlags::SYN.with(TcpFlags::ACK), &[], 100), 900);
    let again = sent(&mut tcp, 900);
    assert_eq!((again.len(), again[0].0.tcp().unwrap().seq), (1, ISN + 4));
    assert_eq!(sent(&mut tcp, 1_020).len(), 1);
    hear(&mut tcp, &packet(0, ISN + 4, TcpFlags::ACK, b"hello", 102), 1_040);
    assert_eq!(sent(&mut tcp, 1_040).len(), 0);
    tcp.stop();
    assert!(sent(&mut tcp, 1_041)[0].0.tcp().unwrap().flags.contains(TcpFlags::RST));
    let log = tcp.into_log();
    assert_eq!((log.answered, log.acknowledged, log.received), (None, None, 5));
}

#[test]
fn data_that_comes_again_is_acknowledged_again() {
    let mut tcp = open(DELAY);
    hear(&mut tcp, &packet(0, ISN + 4, TcpFlags::ACK, b"hello", 200), 100);
    hear(&mut tcp, &packet(0, ISN + 4, TcpFlags::ACK, b"hello", 300), 400);
    assert_eq!(sent(&mut tcp, 5_099).len(), 0);
    let ack = sent(&mut tcp, 5_100).remove(0).0;
    assert_eq!(ack.tcp().unwrap().ack, SERVER_ISN + 6);
    assert_eq!(ack.tcp().unwrap().options.timestamps.unwrap().echo, 200, "not the younger one");
    // The acknowledgement was lost.
    hear(&mut tcp, &packet(0, ISN + 4, TcpFlags::ACK, b"hello", 400), 6_000);
    assert_eq!(sent(&mut tcp, 10_999).len(), 0);
    assert_eq!(sent(&mut tcp, 11_000).len(), 1);
}

proptest! {
    /// The test of splitting rests on it: whatever comes in whatever order, nothing is acknowledged, and no
    /// timestamp echoed, before it is as old as the delay.
    #[test]
    fn nothing_is_acknowledged_before_its_time(
        arrivals in prop::collection::vec((0u32..20, 0u64..300, any::<bool>()), 1..80),
        ack_delay in 0u64..2_000,
    ) {
        let ack_delay = Duration::from_millis(ack_delay);
        let mut tcp = open(ack_delay);
        let mut came: Vec<Option<u64>> = vec![None; 20];
        let mut now = 50;
        for (piece, pause, has_syn_ack) in arrivals {
            let end = now + pause;
            while now <= end {
                for (out, _) in sent(&mut tcp, now) {
                    let out = out.tcp().unwrap();
                    let acked = out.ack.since(SERVER_ISN + 1) / 10;
                    for at in came.iter().take(acked as usize) {
                        prop_assert!(at.is_some_and(|at| now >= at + ack_delay.as_millis()), "{now} {acked}");
                    }
                    let echo = u64::from(out.options.timestamps.unwrap().echo);
                    prop_assert!(echo == 100 || now >= echo - 1_000 + ack_delay.as_millis());
                }
                now += 1;
            }
            if has_syn_ack {
                hear(&mut tcp, &packet(0, ISN + 1, TcpFlags::SYN.with(TcpFlags::ACK), &[], 5_000), now);
            }
            came[piece as usize].get_or_insert(now);
            hear(&mut tcp, &packet(piece * 10, ISN + 4, TcpFlags::ACK, &[b'x'; 10], 1_000 + now as u32), now);
        }
    }

    #[test]
    fn any_bytes_are_taken(
            bytes in prop::collection::vec(any::<u8>(), 0..200),
            flags: u16,
            seq: u32,
            ack: u32,
        ) {
        let mut tcp = open(DELAY);
        hear(&mut tcp, &bytes, 50);
        let mut out = packet(0, SeqNum::new(ack), TcpFlags::from_bits(flags & 0x1ff), &bytes, 0);
        out[24..28].copy_from_slice(&seq.to_be_bytes());
        hear(&mut tcp, &out, 51);
        let _ = sent(&mut tcp, 6_000);
    }
}
