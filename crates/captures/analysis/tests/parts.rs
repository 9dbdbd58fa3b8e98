//! An analysis in parts gives what one alone gives, bit for bit and in the same order.

use crate::made::{Packet, Tape, With};
use analysis::{
    Analyzer, Config, DocumentWriter, FindingMerger, Findings, MadeBy, Part, SegmentRecord, part_of,
};
use capture::{LinkType, decode};
use proptest::prelude::*;
use units::Instant;
use wire::{TcpFlags, TcpHeaderSpec};

/// Connections between many ends that overlap in time: some closed, some reset, some open, ports used again.
fn traffic(flows: u32) -> Vec<Packet> {
    let mut packets = Vec::new();
    for flow in 0..flows {
        let mut tape = Tape::new();
        tape.ends[0] = format!("10.0.{}.{}:{}", flow % 7, flow % 50, 1_000 + flow % 90).parse().unwrap();
        tape.isn[0] = flow.wrapping_mul(2_654_435_761);
        let mut tape = tape.open();
        for n in 0..6 {
            tape.data(50_000 + u64::from(n) * 1_000, n);
        }
        tape.ack(90_000, 3, &[(4, 6)]);
        tape.data(97_000, 3);
        tape.ack(137_000, 6, &[]);
        match flow % 3 {
            0 => {
                let fin = With { flags: TcpFlags::FIN, ..With::default() };
                tape.send(140_000, 0, 6_001, 1, 0, &fin);
                tape.send(180_000, 1, 1, 6_002, 0, &fin);
                tape.send(180_010, 0, 6_002, 2, 0, &With::default());
            }
            1 => tape.send(140_000, 1, 1, 6_001, 0, &With { flags: TcpFlags::RST, ..With::default() }),
            _ => {}
        }
        let start = u64::from(flow) * 7_000;
        packets.extend(tape.packets.into_iter().map(|(us, spec, len)| (us + start, spec, len)));
    }
    packets.sort_by_key(|packet| packet.0);
    packets
}

fn records(packets: &[Packet]) -> Vec<SegmentRecord> {
    let passage = |(number, (us, spec, len)): (usize, &Packet)| {
        let mut header = [0; TcpHeaderSpec::MAX_LEN];
        let emitted = spec.emit_partial(&mut header, *len as usize).unwrap();
        let segment = decode(LinkType::RAW, &header[..emitted.len], emitted.total_len as u32).unwrap();
        SegmentRecord::of(number as u64, 0, &segment, Instant::from_micros(*us))
    };
    packets.iter().enumerate().map(passage).collect()
}

fn document() -> DocumentWriter<Vec<u8>> {
    let made_by = MadeBy { cellerator: "0".to_owned(), command: "test".to_owned() };
    DocumentWriter::new(Vec::new(), &made_by, true)
}

fn alone(config: Config, records: &[SegmentRecord]) -> Vec<u8> {
    let mut analyzer = Analyzer::new(config, document());
    analyzer.handle_records(records);
    analyzer.finish().finish(&Findings::default()).unwrap()
}

fn in_parts(config: Config, records: &[SegmentRecord], count: usize, round: usize) -> Vec<u8> {
    let mut parts: Vec<Part> = (0..count).map(|_| Part::new(config)).collect();
    let mut gather = FindingMerger::new(config, document());
    for round in records.chunks(round) {
        let mut found = Vec::new();
        // The last first: the order in which parts answer does not matter.
        for (index, part) in parts.iter_mut().enumerate().rev() {
            let own: Vec<SegmentRecord> =
                round.iter().filter(|one| part_of(one, count) == index).copied().collect();
            found.extend(part.handle(&own));
        }
        gather.take(&mut found);
    }
    let mut found: Vec<_> = parts.into_iter().rev().flat_map(Part::finish).collect();
    gather.take(&mut found);
    gather.finish().finish(&Findings::default()).unwrap()
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(24))]
    #[test]
    fn parts_give_what_one_gives(
        flows in 1_u32..700,
        count in 1_usize..17,
        round in 1_usize..3_000,
        first_flow in 0_u64..3,
    ) {
        let records = records(&traffic(flows));
        let config = Config { first_flow, ..Config::default() };
        let whole = alone(config, &records);
        prop_assert!(whole == in_parts(config, &records, count, round), "{count} parts, rounds of {round}");
        let value: serde_json::Value = serde_json::from_slice(&whole).unwrap();
        let mut ids: Vec<u64> = value["flows"].as_array().unwrap().iter().map(|f| f["id"].as_u64().unwrap()).collect();
        ids.sort_unstable();
        prop_assert!(ids.iter().copied().eq(first_flow..first_flow + u64::from(flows)), "numbered one by one");
    }
}
