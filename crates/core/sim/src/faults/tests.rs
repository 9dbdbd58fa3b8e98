use units::{SeqNum, WindowScale};
use wire::{TcpFlags, TcpHeaderSpec, Timestamps};

use super::*;
use crate::build_packet;

const SERVER: &str = "10.9.0.1:80";
const CLIENT: &str = "10.0.0.2:40000";

fn spec() -> TcpHeaderSpec {
    let numbers = (SeqNum::new(0xffff_fff0), SeqNum::new(5_000));
    TcpHeaderSpec::new(SERVER.parse().unwrap(), CLIENT.parse().unwrap(), numbers.0, numbers.1, TcpFlags::ACK)
}

fn data() -> Vec<u8> {
    build_packet(&spec(), &[], &[&[7; 1_000]]).unwrap()
}

fn judged(config: &FaultConfig, packet: Vec<u8>, at: Duration) -> FaultOutcome {
    Injector::new(config, Instant::ZERO).handle_packet(packet, Instant::ZERO + at).0
}

fn entered(config: &FaultConfig, packet: Vec<u8>) -> Vec<u8> {
    match judged(config, packet, Duration::from_secs(1)) {
        FaultOutcome::Forward(packet) => packet,
        other => panic!("{other:?}"),
    }
}

fn is_intact(packet: &[u8]) -> bool {
    wire::ipv4_checksum_is_valid(packet)
        && wire::parse(packet).is_ok_and(|parsed| wire::tcp_checksum_is_valid(packet, &parsed))
}

#[test]
fn damage_is_noticed_by_checksums_and_tampering_is_not() {
    for seed in 0..200 {
        let damaged = |fault| entered(&FaultConfig { seed, ..FaultConfig::once(0, fault) }, data());
        for fault in [Fault::Corrupt, Fault::Truncate] {
            assert!(!is_intact(&damaged(fault)), "{fault:?} {seed}");
        }
        assert!(data() != damaged(Fault::CorruptHeader));
        let tampered = damaged(Fault::Tamper);
        assert!(is_intact(&tampered) && tampered[40..] != data()[40..]);
        let tampered = damaged(Fault::TamperHeader);
        assert!(tampered[40..] == data()[40..]);
    }
}

#[test]
fn numbers_are_shifted_and_sack_blocks_are_not() {
    let mut spec = spec();
    let block = wire::SackBlock { start: SeqNum::new(10), end: SeqNum::new(20) };
    spec.sack.push(block);
    let packet = build_packet(&spec, &[], &[]).unwrap();
    let shifted = entered(&FaultConfig { seq_shift: 100, ack_shift: 7, ..FaultConfig::default() }, packet);
    let parsed = wire::parse(&shifted).unwrap();
    let tcp = parsed.tcp().unwrap();
    assert_eq!((tcp.seq.get(), tcp.ack.get()), (84, 5_007));
    assert!(tcp.options.sack.iter().eq([&block]) && is_intact(&shifted));
}

#[test]
fn options_are_taken_out_of_syns_only() {
    let mut spec = TcpHeaderSpec { flags: TcpFlags::SYN, ..spec() };
    (spec.mss, spec.sack_permitted, spec.window_scale) = (Some(1_400), true, Some(WindowScale::new(7)));
    spec.timestamps = Some(Timestamps { value: 1, echo: 0 });
    let strips = Strips { sack: true, timestamps: true, ..Strips::default() };
    let config = FaultConfig { strips, ..FaultConfig::default() };
    let left = entered(&config, build_packet(&spec, &[], &[]).unwrap());
    let options = wire::parse(&left).unwrap().tcp().unwrap().options;
    assert!(is_intact(&left) && !options.malformed);
    assert_eq!((options.mss, options.sack_permitted, options.timestamps), (Some(1_400), false, None));
    assert!(options.window_scale.is_some());
    assert_eq!(entered(&config, data()), data());
}

#[test]
fn a_long_packet_is_lost_or_answered() {
    let mtu =
        |bytes, sends_icmp| FaultConfig { mtu: Some(Mtu { bytes, sends_icmp }), ..FaultConfig::default() };
    assert_eq!(judged(&mtu(1_039, false), data(), Duration::ZERO), FaultOutcome::Drop);
    assert!(matches!(judged(&mtu(1_039, true), data(), Duration::ZERO), FaultOutcome::Reply(_)));
    assert_eq!(entered(&mtu(1_040, true), data()), data());
}

#[test]
fn blackouts_lose_and_stalls_delay_what_comes_in_their_time() {
    let second = Duration::from_secs(1);
    let span = Span { from: second, length: second };
    let blackout = FaultConfig { blackouts: vec![span], ..FaultConfig::default() };
    let stall = FaultConfig { stalls: vec![span], ..FaultConfig::default() };
    assert_eq!(judged(&blackout, data(), second), FaultOutcome::Drop);
    assert_eq!(judged(&blackout, data(), second * 2), FaultOutcome::Forward(data()));
    let late = FaultOutcome::Delay(data(), Instant::ZERO + second * 2);
    assert_eq!(judged(&stall, data(), second + Duration::from_millis(1)), late);
    assert_eq!(judged(&stall, data(), Duration::ZERO), FaultOutcome::Forward(data()));
}

#[test]
fn a_burst_takes_a_run_of_packets() {
    let config = FaultConfig { burst_ppm: 20_000, burst_max: 9, seed: 4, ..FaultConfig::default() };
    let mut injector = Injector::new(&config, Instant::ZERO);
    let lost: Vec<bool> =
        (0..5_000).map(|_| injector.handle_packet(data(), Instant::ZERO).0 == FaultOutcome::Drop).collect();
    let count = lost.iter().filter(|lost| **lost).count();
    let runs = lost.windows(2).filter(|pair| !pair[0] && pair[1]).count();
    assert!((300..700).contains(&count) && count / runs >= 4, "{count} in {runs} runs");
}

#[test]
fn a_rebound_client_is_known_by_its_new_address_only() {
    let rebinding = Rebinding { at: Duration::from_secs(1), port_shift: 45_000, address_shift: 9 };
    let up = FaultConfig { rebinds_source: Some(rebinding), ..FaultConfig::default() };
    let down = FaultConfig { rebinds_destination: Some(rebinding), ..FaultConfig::default() };
    let mut spec = spec();
    core::mem::swap(&mut spec.src, &mut spec.dst);
    let packet = build_packet(&spec, &[], &[]).unwrap();
    let rebound = entered(&up, packet.clone());
    let parsed = wire::parse(&rebound).unwrap();
    assert_eq!((parsed.ip.src.to_string(), parsed.tcp().unwrap().src_port), ("10.0.0.11".to_owned(), 19_464));
    assert!(is_intact(&rebound));
    assert_eq!(judged(&up, packet.clone(), Duration::ZERO), FaultOutcome::Forward(packet));
    // Back: what is for the new address arrives as for the old one, what is for the old one does not.
    let mut back = self::spec();
    back.dst = "10.0.0.11:19464".parse().unwrap();
    let back = entered(&down, build_packet(&back, &[], &[]).unwrap());
    assert_eq!(wire::parse(&back).unwrap().ip.dst.to_string(), "10.0.0.2");
    assert_eq!(judged(&down, data(), Duration::from_secs(1)), FaultOutcome::Drop);
}
