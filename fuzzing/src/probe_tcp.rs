//! Input of `probe middlebox`: HTTP requests with orders, SYNs as they came, and segments to its own TCP.

use std::net::SocketAddr;

use ::probe::{
    Handshake, HttpOrder, SmallTcp, SmallTcpSpec, from_digits, http_order, http_request, options_bytes,
    to_digits,
};
use units::{Duration, Instant, SeqNum};
use wire::{TcpFlags, TcpHeaderSpec, Timestamps, tcp_checksum_is_valid};

const ISN: SeqNum = SeqNum::new(7);
const SERVER_ISN: SeqNum = SeqNum::new(u32::MAX - 200);
const PIECES: usize = 256;
const DELAY: Duration = Duration::from_millis(500);

/// The bytes as a request, as a packet with a SYN, and as a row of segments: what is read is written again the
/// same, and no data is acknowledged before its time.
pub fn probe_tcp(bytes: &[u8]) {
    if let HttpOrder::Whole { digits, len } = http_order(bytes) {
        assert!(len <= bytes.len(), "a request that is longer than what there is");
        if let Some(order) = from_digits(digits) {
            let again = http_request(&order, "h");
            let HttpOrder::Whole { digits: same, .. } = http_order(&again) else { panic!("not read again") };
            assert_eq!(from_digits(same), Some(order), "written and read");
            assert_eq!(
                to_digits(&from_digits(digits).unwrap_or_default()).into_bytes(),
                digits.to_ascii_lowercase()
            );
        }
    }
    if let Some(shake) = Handshake::read(bytes) {
        assert!(options_bytes(&shake.options).len() <= 40, "more options than a header has room for");
    }
    segments(bytes);
}

/// Each segment begins with its flags, its place, its length, and how long after the one before it comes.
fn segments(bytes: &[u8]) {
    let local = SocketAddr::from(([192, 0, 2, 1], 40_000));
    let remote = SocketAddr::from(([192, 0, 2, 2], 80));
    let mut now = Instant::from_millis(1_000);
    let spec = SmallTcpSpec {
        local,
        remote,
        isn: ISN,
        options: vec![8, 10, 0, 0, 0, 0, 0, 0, 0, 0, 1, 1],
        timestamp: Some(1),
        flags: TcpFlags::NONE,
        ecn: 0,
        request: b"GET".to_vec(),
        ack_delay: DELAY,
        retry: Duration::from_millis(1_000),
        keep: 4_096,
        enough: u64::MAX,
    };
    let mut tcp = SmallTcp::new(spec, now);
    let mut came: [Option<Instant>; PIECES + 64] = [None; PIECES + 64];
    let mut rest = bytes;
    while let [flags, place, len, pause, tail @ ..] = rest {
        let (payload, after) = tail.split_at(usize::from(len % 64).min(tail.len()));
        let end = now + Duration::from_millis(u64::from(*pause) * 8);
        while now <= end {
            speak(&mut tcp, now, &came);
            now += Duration::from_millis(50);
        }
        let flags = TcpFlags::from_bits(u16::from(*flags));
        let is_syn = flags.contains(TcpFlags::SYN);
        let seq = if is_syn { SERVER_ISN } else { SERVER_ISN + 1 + u32::from(*place) };
        let ack = if is_syn || flags.contains(TcpFlags::RST) { ISN + 1 } else { ISN + 4 };
        let mut header = TcpHeaderSpec::new(remote, local, seq, ack, flags);
        header.timestamps = Some(Timestamps { value: u32::from(*pause), echo: 0 });
        let mut packet = vec![0; TcpHeaderSpec::MAX_LEN];
        let Ok(emitted) = header.emit(&mut packet, &[payload]) else { return };
        packet.truncate(emitted.len);
        packet.extend(payload);
        // A FIN is acknowledged like a byte.
        let count = payload.len() + usize::from(flags.contains(TcpFlags::FIN));
        if !is_syn {
            came.iter_mut().skip((*place).into()).take(count).for_each(|at| *at = at.or(Some(now)));
        }
        tcp.handle_packet(&packet, now, now);
        tcp.handle_packet(payload, now, now);
        rest = after;
    }
    speak(&mut tcp, now, &came);
}

/// Lets it say what it has to say.
fn speak(tcp: &mut SmallTcp, now: Instant, came: &[Option<Instant>]) {
    let mut out = Vec::new();
    for count in 0.. {
        assert!(count < 100, "it does not stop talking");
        if !tcp.poll_transmit(now, &mut out) {
            break;
        }
        let parsed = wire::parse(&out).expect("a packet of its own");
        assert!(tcp_checksum_is_valid(&out, &parsed), "a wrong checksum");
        let Some(own) = parsed.tcp().filter(|own| !own.flags.contains(TcpFlags::SYN)) else { continue };
        let acked = own.ack.since(SERVER_ISN + 1) as usize;
        let is_early = |at: &Option<Instant>| at.is_none_or(|at| now < at + DELAY);
        assert!(!came.iter().take(acked).any(is_early), "acknowledged before its time");
    }
}
