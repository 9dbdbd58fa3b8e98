//! Each rule is shown to find what it is for.

use units::WindowScale;
use wire::{SackBlock, TcpHeaderSpec, Timestamps};

use super::*;
use crate::build_packet;

const CLIENT: &str = "10.0.0.2:4000";
const SERVER: &str = "10.9.0.1:80";

struct Hand {
    checks: Checks,
}

impl Hand {
    /// State after a handshake: client ISN 100, server ISN 0xffff_ff00, MSS 1000, timestamps and SACK.
    fn new() -> Self {
        let ends = [(CLIENT.parse().unwrap(), SERVER.parse().unwrap())];
        let config = CheckConfig { debt_max: Bytes::new(5_000), ..CheckConfig::default() };
        let mut hand = Self { checks: Checks::new(config, ends.into_iter()) };
        let syn = |mut spec: TcpHeaderSpec| {
            spec.mss = Some(1_000);
            spec.sack_permitted = true;
            spec.window_scale = Some(WindowScale::new(7));
            spec
        };
        hand.arrive(Port::Mobile, syn(hand.up(0, 0, TcpFlags::SYN, 10)), 0);
        hand.arrive(Port::Wired, syn(hand.down(0, 1, TcpFlags::SYN | TcpFlags::ACK, 50)), 0);
        hand.arrive(Port::Mobile, hand.up(1, 1, TcpFlags::ACK, 11), 0);
        hand
    }
    fn up(&self, seq: u32, ack: u32, flags: TcpFlags, ts: u32) -> TcpHeaderSpec {
        let (c, s) = (CLIENT.parse().unwrap(), SERVER.parse().unwrap());
        let numbers = (SeqNum::new(100) + seq, SeqNum::new(0xffff_ff00) + ack);
        let mut spec = TcpHeaderSpec::new(c, s, numbers.0, numbers.1, flags);
        spec.timestamps = Some(Timestamps { value: ts, echo: 0 });
        spec
    }
    fn down(&self, seq: u32, ack: u32, flags: TcpFlags, ts: u32) -> TcpHeaderSpec {
        let up = self.up(ack, seq, flags, ts);
        TcpHeaderSpec { src: up.dst, dst: up.src, seq: up.ack, ack: up.seq, ..up }
    }
    fn arrive(&mut self, from: Port, spec: TcpHeaderSpec, len: usize) {
        let bytes = build_packet(&spec, &[], &[&vec![0; len]]).unwrap();
        self.checks.on_arrival(from, &wire::parse(&bytes).unwrap());
    }
    /// The rule that a packet of the middlebox's own breaks.
    fn made(&mut self, to: Port, spec: TcpHeaderSpec, len: usize) -> Option<&'static str> {
        let bytes = build_packet(&spec, &[], &[&vec![0; len]]).unwrap();
        match self.checks.on_departure(to, Origin::Made, &bytes, &wire::parse(&bytes).unwrap(), Instant::ZERO)
        {
            Ok(()) => None,
            Err(Violation::Packet { rule, .. }) => Some(rule),
            Err(Violation::Debt { .. }) => Some("debt"),
            Err(other) => panic!("{other}"),
        }
    }
}

const ACK: TcpFlags = TcpFlags::ACK;

#[test]
fn acknowledging_what_has_not_arrived_is_found() {
    let mut hand = Hand::new();
    hand.arrive(Port::Wired, hand.down(1, 1, ACK, 51), 900);
    hand.arrive(Port::Wired, hand.down(1_801, 1, ACK, 51), 900);
    assert_eq!(hand.made(Port::Wired, hand.up(1, 901, ACK, 11), 0), None);
    let rule = hand.made(Port::Wired, hand.up(1, 902, ACK, 11), 0);
    assert_eq!(rule, Some("it acknowledges what the middlebox does not have"));
    let mut sacks = hand.up(1, 901, ACK, 11);
    let at = |n: u32| SeqNum::new(0xffff_ff00) + n;
    sacks.sack.push(SackBlock { start: at(1_801), end: at(2_702) });
    assert_eq!(hand.made(Port::Wired, sacks, 0), Some("it SACKs what the middlebox does not have"));
    hand.arrive(Port::Wired, hand.down(901, 1, ACK, 51), 900);
    assert_eq!(hand.made(Port::Wired, hand.up(1, 2_701, ACK, 11), 0), None);
}

#[test]
fn a_fin_acknowledged_before_the_client_did_is_found() {
    let mut hand = Hand::new();
    hand.arrive(Port::Wired, hand.down(1, 1, ACK | TcpFlags::FIN, 51), 900);
    assert_eq!(hand.made(Port::Wired, hand.up(1, 901, ACK, 11), 0), None);
    let rule = hand.made(Port::Wired, hand.up(1, 902, ACK, 11), 0);
    assert_eq!(rule, Some("it acknowledges an end of stream the other host has not acknowledged"));
    hand.arrive(Port::Mobile, hand.up(1, 902, ACK, 12), 0);
    assert_eq!(hand.made(Port::Wired, hand.up(1, 902, ACK, 12), 0), None);
}

#[test]
fn debt_beyond_the_limit_is_found() {
    let mut hand = Hand::new();
    for i in 0..7 {
        hand.arrive(Port::Wired, hand.down(1 + i * 900, 1, ACK, 51), 900);
    }
    assert_eq!(hand.made(Port::Wired, hand.up(1, 4_501, ACK, 11), 0), None);
    assert_eq!(hand.made(Port::Wired, hand.up(1, 6_301, ACK, 11), 0), Some("debt"));
}

#[test]
fn timestamps_that_go_back_are_found_per_direction() {
    let mut hand = Hand::new();
    hand.arrive(Port::Wired, hand.down(1, 1, ACK, 60), 900);
    assert_eq!(hand.made(Port::Mobile, hand.down(1, 1, ACK, 60), 900), None);
    assert_eq!(hand.made(Port::Wired, hand.up(1, 901, ACK, 11), 0), None);
    let rule = Some("its TSval is older than one sent before in this direction");
    assert_eq!(hand.made(Port::Mobile, hand.down(901, 1, ACK, 59), 0), rule);
    assert_eq!(hand.made(Port::Wired, hand.up(1, 901, ACK, 10), 0), rule);
}

#[test]
fn numbers_and_options_beyond_what_was_agreed_are_found() {
    let mut hand = Hand::new();
    hand.arrive(Port::Wired, hand.down(1, 1, ACK, 51), 900);
    assert_eq!(hand.made(Port::Mobile, hand.down(1, 1, ACK, 51), 500), None);
    let rule = hand.made(Port::Mobile, hand.down(901, 1, ACK, 51), 0);
    assert_eq!(rule, Some("without data, it carries a number beyond what was sent to the receiving host"));
    let rule = hand.made(Port::Mobile, hand.down(1, 1, ACK, 51), 901);
    assert_eq!(rule, Some("it carries data the middlebox does not have"));
    hand.arrive(Port::Wired, hand.down(901, 1, ACK, 51), 900);
    let rule = hand.made(Port::Mobile, hand.down(1, 1, ACK, 51), 989);
    assert_eq!(rule, Some("it is longer than the receiver's MSS"));
    let bare = TcpHeaderSpec { timestamps: None, ..hand.down(1, 1, ACK, 51) };
    assert_eq!(hand.made(Port::Mobile, bare, 100), Some("timestamps are not as negotiated"));
    let syn = hand.down(0, 1, TcpFlags::SYN | ACK, 52);
    assert_eq!(hand.made(Port::Mobile, syn, 0), Some("a SYN of the middlebox's own making"));
}
