//! Parse, edit, emit, checksum, cut and merge: the per-packet costs of the data path.

use std::hint::black_box;

use criterion::{Criterion, Throughput, criterion_group, criterion_main};
use units::SeqNum;
use wire::{
    ChecksumState, Merger, SackBlock, TcpEditor, TcpFlags, TcpHeaderSpec, Timestamps, checksum, split,
};

const SEGMENT: usize = 1460;
const SUPER_PACKET: usize = 44 * 1448;

fn spec() -> TcpHeaderSpec {
    TcpHeaderSpec {
        timestamps: Some(Timestamps { value: 1, echo: 2 }),
        ..TcpHeaderSpec::new(
            ([192, 0, 2, 1], 443).into(),
            ([198, 51, 100, 7], 50_000).into(),
            SeqNum::new(1),
            SeqNum::new(2),
            TcpFlags::ACK,
        )
    }
}

fn packet(spec: &TcpHeaderSpec, payload_len: usize) -> Vec<u8> {
    let payload = vec![0x5a; payload_len];
    let mut bytes = vec![0; TcpHeaderSpec::MAX_LEN];
    if let Ok(header) = spec.emit(&mut bytes, &[&payload]) {
        bytes.truncate(header.len);
    }
    bytes.extend_from_slice(&payload);
    bytes
}

fn headers(c: &mut Criterion) {
    let mut bytes = packet(&spec(), SEGMENT);
    let sack = [SackBlock { start: SeqNum::new(3), end: SeqNum::new(4) }; 3].into_iter().collect();
    let acks = packet(&TcpHeaderSpec { sack, ..spec() }, 0);
    c.bench_function("parse/data_1460", |b| b.iter(|| wire::parse(black_box(&bytes))));
    c.bench_function("parse/ack_3_sack_blocks", |b| b.iter(|| wire::parse(black_box(&acks))));
    let Ok(parsed) = wire::parse(&bytes) else { return };
    let Some(tcp) = parsed.tcp() else { return };
    c.bench_function("edit/ack_window_timestamps", |b| {
        b.iter(|| {
            let mut editor = TcpEditor::new(black_box(&mut bytes), tcp, ChecksumState::Complete);
            editor.set_ack(SeqNum::new(black_box(9)));
            editor.set_window(black_box(99));
            editor.set_timestamps(black_box(8), black_box(7))
        });
    });
    c.bench_function("edit/hop_limit", |b| {
        b.iter(|| black_box(wire::set_hop_limit(black_box(&mut bytes), 9)));
    });
    let mut buf = [0; TcpHeaderSpec::MAX_LEN];
    let (plain, full) = (spec(), TcpHeaderSpec { sack, ..spec() });
    c.bench_function("emit/partial", |b| b.iter(|| black_box(&plain).emit_partial(&mut buf, SEGMENT)));
    c.bench_function("emit/ack_3_sack_blocks", |b| b.iter(|| black_box(&full).emit(&mut buf, &[])));
}

fn sums(c: &mut Criterion) {
    for len in [64, SEGMENT, 65_536] {
        let bytes = vec![0x5a; len];
        let mut group = c.benchmark_group("checksum");
        group.throughput(Throughput::Bytes(len as u64));
        group.bench_function(format!("{len}"), |b| b.iter(|| checksum::sum(black_box(&bytes))));
        group.finish();
    }
}

fn gso(c: &mut Criterion) {
    let bytes = packet(&spec(), SUPER_PACKET);
    let Ok(parsed) = wire::parse(&bytes) else { return };
    let mut group = c.benchmark_group("gso");
    group.throughput(Throughput::Bytes(SUPER_PACKET as u64));
    let mut buf = [0; 2_000];
    group.bench_function("split_44", |b| {
        b.iter(|| {
            if let Ok(mut splitter) = split(black_box(&bytes), &parsed, 1448) {
                while let Ok(Some(len)) = splitter.next_into(&mut buf) {
                    black_box(len);
                }
            }
        });
    });
    let mut segments = Vec::new();
    if let Ok(mut splitter) = split(&bytes, &parsed, 1448) {
        while let Ok(Some(len)) = splitter.next_into(&mut buf) {
            segments.push(buf[..len].to_vec());
        }
    }
    let mut big = vec![0; 65_535];
    group.bench_function("parse_and_merge_44", |b| {
        b.iter(|| {
            let mut merger = Merger::new(&mut big);
            for bytes in &segments {
                if let Ok(parsed) = wire::parse(bytes) {
                    black_box(merger.push(bytes, &parsed, ChecksumState::Complete));
                }
            }
            merger.finish()
        });
    });
    group.finish();
}

criterion_group!(benches, headers, sums, gso);
criterion_main!(benches);
