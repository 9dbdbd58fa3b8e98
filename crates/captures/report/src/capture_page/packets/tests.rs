use std::net::SocketAddr;

use proptest::prelude::*;
use units::{Instant, SeqNum};
use wire::{SackBlock, SackBlocks};

use super::*;

/// Content of a packet's record, read by the rules of the module's table as `decode.js` reads it.
#[derive(Debug, Default, PartialEq, Eq, Clone)]
struct Decoded {
    direction: u8,
    time_ns: u64,
    position: u64,
    len: u64,
    ack: Option<u64>,
    window: Option<u64>,
    sacked: Vec<(u64, u64)>,
    karn_ns: Option<u64>,
    stamps_ns: Option<u64>,
    flags: u8,
    kind: u8,
}

struct Source<'a>(&'a [u8]);

impl Source<'_> {
    fn byte(&mut self) -> u8 {
        let byte = self.0[0];
        self.0 = &self.0[1..];
        byte
    }
    fn number(&mut self) -> u64 {
        let mut value = 0;
        for shift in (0..64).step_by(7) {
            let byte = self.byte();
            value |= u64::from(byte & 0x7f) << shift;
            if byte < 0x80 {
                break;
            }
        }
        value
    }
    fn signed(&mut self) -> i64 {
        let raw = self.number();
        (raw >> 1) as i64 ^ -((raw & 1) as i64)
    }
    fn time(&mut self) -> i64 {
        let value = self.signed();
        if value & 1 == 0 { (value >> 1) * 1_000 } else { value >> 1 }
    }
}

fn decode(bytes: &[u8], packets: u32, start_ns: u64) -> (Vec<Decoded>, Vec<(u64, u8)>) {
    let mut source = Source(bytes);
    let mut last = [Last::default(); 2];
    let mut clock = start_ns as i64;
    let mut found = Vec::new();
    for _ in 0..packets {
        let has = source.byte();
        let last = &mut last[usize::from(has & 1)];
        clock += source.time();
        let mut one = Decoded { direction: has & 1, time_ns: clock as u64, flags: 16, ..Decoded::default() };
        one.position = if has & 2 != 0 { last.next.wrapping_add_signed(source.signed()) } else { last.next };
        if has & 4 != 0 {
            last.len = source.number();
        }
        one.len = last.len;
        if has & 8 != 0 {
            last.ack = last.ack.wrapping_add_signed(source.signed());
        }
        if has & 16 != 0 {
            last.window = last.window.wrapping_add_signed(source.signed());
        }
        one.ack = last.ack.checked_sub(1);
        one.window = last.window.checked_sub(1);
        if has & 32 != 0 {
            for _ in 0..source.number() {
                let start = one.ack.unwrap().wrapping_add_signed(source.signed());
                one.sacked.push((start, start + source.number()));
            }
        }
        if has & 64 != 0 {
            let samples = source.byte();
            one.karn_ns = (samples & 1 != 0).then(|| source.time() as u64);
            one.stamps_ns = (samples & 2 != 0).then(|| source.time() as u64);
        }
        if has & 128 != 0 {
            one.flags = source.byte();
            one.kind = source.byte();
        }
        let extra = u64::from(one.flags & 2 != 0) + u64::from(one.flags & 1 != 0);
        if one.flags & 4 == 0 {
            last.next = last.next.max(one.position + one.len + extra);
        }
        found.push(one);
    }
    let needless = (0..source.number()).map(|_| (source.number(), source.byte())).collect();
    assert!(source.0.is_empty(), "bytes are left");
    (found, needless)
}

fn any_packet() -> impl Strategy<Value = (Decoded, u8)> {
    let base = 1_u64 << 32;
    let place =
        (0_u8..2, 0_u64..5_000_000_000, base..base + (1 << 40), prop_oneof![Just(1448_u64), 0_u64..70_000]);
    let answer = (
        prop::option::of(base..base + (1 << 40)),
        prop::option::of(0_u64..1 << 30),
        prop::collection::vec((0_u64..1 << 20, 1_u64..1 << 20), 0..4),
    );
    let rest = (prop::option::of(0_u64..1 << 34), prop::option::of(0_u64..1 << 34), any::<u8>(), 0_u8..11);
    (place, answer, rest).prop_map(
        |((direction, after_us, position, len), (ack, window, blocks), (karn, stamps, flags, kind))| {
            let sacked = match ack {
                Some(ack) => blocks.into_iter().map(|(from, len)| (ack + from, ack + from + len)).collect(),
                None => Vec::new(),
            };
            let time_ns = 1_700_000_000_000_000_000 + after_us * 1_000 + u64::from(kind);
            let (karn_ns, stamps_ns) = (karn, stamps);
            let one = Decoded {
                direction,
                time_ns,
                position,
                len,
                ack,
                window,
                sacked,
                karn_ns,
                stamps_ns,
                flags,
                kind,
            };
            (one, kind)
        },
    )
}

fn kind_of(kind: u8) -> PacketKind {
    let again = |cause| PacketKind::Retransmission { cause, was_acknowledged: false };
    match kind {
        0 => PacketKind::Usual,
        1 => again(Cause::Syn),
        2 => again(Cause::Rto),
        3 => again(Cause::RtoRecovery),
        4 => again(Cause::Fast),
        5 => again(Cause::Tlp),
        6 => again(Cause::Unclear),
        7 => PacketKind::WindowProbe,
        8 => PacketKind::KeepAlive,
        9 => PacketKind::Repaired,
        _ => PacketKind::Reordered,
    }
}

proptest! {
    #[test]
    fn what_goes_in_comes_out(packets in prop::collection::vec(any_packet(), 1..40)) {
        let mut log = PacketLog::default();
        let mut needless = Vec::new();
        for (index, (one, kind)) in packets.iter().enumerate() {
            let mut sack = SackBlocks::new();
            for (start, end) in &one.sacked {
                sack.push(SackBlock { start: SeqNum::new(*start as u32), end: SeqNum::new(*end as u32) });
            }
            let view = PacketView {
                number: index as u64,
                flow: 0,
                capture: 0,
                ends: [SocketAddr::from(([10, 0, 0, 1], 1)), SocketAddr::from(([10, 0, 0, 2], 2))],
                direction: Direction::BOTH[usize::from(one.direction)],
                time: Instant::from_nanos(one.time_ns),
                position: one.position,
                len: one.len,
                flags: TcpFlags::from_bits(u16::from(one.flags)),
                ecn: 0,
                ack: one.ack,
                window: one.window,
                sack: sack.as_slice(),
                is_duplicate_ack: false,
                rtt_karn: one.karn_ns.map(Duration::from_nanos),
                rtt_timestamps: one.stamps_ns.map(Duration::from_nanos),
                kind: kind_of(*kind),
            };
            log.push(&view);
            if (1..=6).contains(kind) {
                log.on_spurious(view.direction, one.time_ns, SpuriousBy::Timestamp);
                needless.push((index as u64, SpuriousBy::Timestamp as u8));
            }
        }
        let log = log.finish();
        let count = log.packets;
        let (found, found_needless) = decode(&log.bytes, count, packets[0].0.time_ns);
        let sent: Vec<Decoded> = packets.into_iter().map(|(one, _)| one).collect();
        prop_assert_eq!(found, sent);
        prop_assert_eq!(found_needless, needless);
    }
}
