//! Whole captures in memory: variants, cuts, damage, order of several files.

#![allow(clippy::unwrap_used, clippy::expect_used)] // Broken test data shall stop the test.

mod made;

use std::io::{Cursor, Read};
use std::sync::Mutex;

use capture::{CaptureError, Format, LinkType, Merged, Reader, Source, decode, decompressed};
use made::{Order, PcapStyle, USUAL, enhanced, ethernet, interface, packet, pcap, rich_pcapng, section};
use proptest::prelude::*;

/// Time in ns, wire length and bytes.
type Frame = (u64, u32, Vec<u8>);

/// Each frame, and how it ended.
fn read(file: &[u8]) -> (Vec<Frame>, Option<CaptureError>) {
    let mut found = Vec::new();
    let mut reader = match Reader::new(file) {
        Ok(reader) => reader,
        Err(error) => return (found, Some(error)),
    };
    loop {
        match reader.advance() {
            Ok(true) => {
                let record = reader.current().expect("a frame after advance");
                found.push((record.time.as_nanos(), record.wire_len, record.bytes.to_vec()));
            }
            Ok(false) => return (found, None),
            Err(error) => return (found, Some(error)),
        }
    }
}

fn frames(fraction_ns: u64) -> Vec<Frame> {
    (0..5_u32)
        .map(|i| {
            let frame = ethernet(&packet(i % 2 == 1, i, 10 * i as usize));
            let time = u64::from(i) * 1_000_000_000 + u64::from(i) * fraction_ns;
            (time, frame.len() as u32 + 7, frame)
        })
        .collect()
}

#[test]
fn every_variant_of_pcap_reads_the_same() {
    for order in [Order::Big, Order::Little] {
        for (nanos, modified, minor) in
            [(false, false, 4), (true, false, 4), (false, true, 4), (false, false, 2), (false, false, 3)]
        {
            let frames = frames(if nanos { 123 } else { 123_000 });
            let file = pcap(&PcapStyle { order, nanos, modified, minor }, 1, &frames);
            let (found, error) = read(&file);
            assert!(error.is_none(), "{error:?}");
            assert_eq!(found, frames, "{order:?} {nanos} {modified} {minor}");
        }
    }
}

#[test]
fn pcapng_with_sections_resolutions_and_unknown_blocks() {
    let file = rich_pcapng();
    let (found, error) = read(&file);
    assert!(error.is_none(), "{error:?}");
    let times: Vec<u64> = found.iter().map(|f| f.0).collect();
    // Nanoseconds; 1.5 s in units of 2^-10 s, five seconds on; a packet without time; microseconds.
    assert_eq!(times, [1_500_000_000, 6_500_000_000, 6_500_000_000, 9_000_001_000]);

    let mut reader = Reader::new(&file[..]).unwrap();
    let mut links = Vec::new();
    while reader.advance().unwrap() {
        let record = reader.current().unwrap();
        links.push((record.interface, record.link));
        assert!(decode(record.link, record.bytes, record.wire_len).is_ok());
    }
    assert_eq!(
        links,
        [1, 101, 1, 1]
            .map(LinkType)
            .into_iter()
            .enumerate()
            .map(|(i, l)| ([0, 1, 2, 2][i], l))
            .collect::<Vec<_>>()
    );
    let health = reader.health();
    assert_eq!(reader.format(), Format::Pcapng);
    assert_eq!((health.sections, health.interfaces, health.dropped), (2, 3, Some(42)));
    assert_eq!((health.packets, health.without_time, health.bad_blocks), (4, 1, 1));
}

#[test]
fn a_cut_file_gives_what_lies_before_and_says_where() {
    for file in [pcap(&USUAL, 1, &frames(1_000)), rich_pcapng()] {
        let (whole, _) = read(&file);
        let mut longest = 0;
        for len in 0..file.len() {
            let (found, error) = read(&file[..len]);
            assert!(whole.starts_with(&found), "cut at {len}");
            assert!(found.len() >= longest, "cut at {len}");
            longest = found.len();
            match error {
                Some(CaptureError::Cut { at, needed, have, .. }) => {
                    assert!(at + have == len as u64 && needed > have, "cut at {len}: {at} {needed} {have}");
                }
                Some(CaptureError::NotACapture { magic }) => {
                    assert!(found.is_empty() && magic.len() <= 4 && len < 24);
                }
                Some(CaptureError::Empty) => assert_eq!(len, 0),
                // Between two records, or in pcapng's magic.
                None | Some(CaptureError::Broken { .. }) => {}
                Some(other) => panic!("cut at {len}: {other}"),
            }
        }
    }
}

#[test]
fn an_impossible_length_names_its_place() {
    let mut file = pcap(&USUAL, 1, &frames(1_000));
    let second = 24 + 16 + frames(0)[0].2.len();
    file[second + 8..second + 12].copy_from_slice(&0xffff_ffff_u32.to_le_bytes());
    let (found, error) = read(&file);
    assert_eq!(found.len(), 1);
    let error = error.unwrap().to_string();
    assert!(
        error.contains(&format!("broken at byte {}", second + 8)) && error.contains("4294967295"),
        "{error}"
    );
}

fn gzip(bytes: &[u8]) -> Vec<u8> {
    let mut packed = Vec::new();
    flate2::read::GzEncoder::new(bytes, flate2::Compression::fast()).read_to_end(&mut packed).unwrap();
    packed
}

fn zstd(bytes: &[u8]) -> Vec<u8> {
    ruzstd::encoding::compress_to_vec(bytes, ruzstd::encoding::CompressionLevel::Fastest)
}

#[test]
fn packed_files_read_like_plain_ones() {
    let file = pcap(&USUAL, 1, &frames(1_000));
    let (head, tail) = file.split_at(100);
    let packed =
        [gzip(&file), zstd(&file), [gzip(head), gzip(tail)].concat(), [zstd(head), zstd(tail)].concat()];
    for packed in packed {
        let mut plain = Vec::new();
        decompressed(Cursor::new(packed.clone())).unwrap().read_to_end(&mut plain).unwrap();
        assert_eq!(plain, file);
        // A packed file that is cut gives an error of reading, never a panic.
        for len in 0..packed.len() {
            let Ok(stream) = decompressed(Cursor::new(packed[..len].to_vec())) else { continue };
            if let Ok(mut reader) = Reader::new(stream) {
                while reader.advance().is_ok_and(|more| more) {}
            }
        }
    }
}

struct Memory(&'static str, Vec<u8>);

impl Source for Memory {
    fn name(&self) -> String {
        self.0.to_owned()
    }
    fn open(&self) -> std::io::Result<Box<dyn Read + Send>> {
        decompressed(Cursor::new(self.1.clone()))
    }
}

#[test]
fn several_files_come_in_the_order_of_time() {
    let all = frames(1_000);
    let of = |picked: &[usize]| pcap(&USUAL, 1, &picked.iter().map(|i| all[*i].clone()).collect::<Vec<_>>());
    let mut cut = of(&[2]);
    cut.extend([1, 2, 3]);
    let sources = vec![
        Memory("late", of(&[3, 4])),
        Memory("even", of(&[0, 4])),
        Memory("no capture", b"hello".to_vec()),
        Memory("odd", gzip(&of(&[1]))),
        Memory("cut", cut),
        Memory("empty", of(&[])),
    ];
    let mut merged = Merged::new(sources);
    let mut order = Vec::new();
    while merged.advance() {
        let (source, record) = merged.current().unwrap();
        order.push((source, record.time.as_nanos() / 1_000_000_000));
    }
    assert_eq!(order, [(1, 0), (3, 1), (4, 2), (0, 3), (0, 4), (1, 4)]);
    // One file spans all; the others follow each other beside it.
    assert_eq!([0, 1, 3, 4].map(|source| merged.point(source)), [1, 0, 1, 1]);
    let problems: Vec<&str> = merged.problems().iter().map(|p| p.name.as_str()).collect();
    assert_eq!(problems, ["no capture", "cut"]);
    assert_eq!(merged.healths().iter().map(|h| h.packets).sum::<u64>(), 6);
}

#[test]
fn interfaces_of_one_file_come_in_the_order_of_time() {
    let o = Order::Little;
    let frame = ethernet(&packet(false, 1, 10));
    let head = [section(o), interface(o, 1, &[]), interface(o, 1, &[])].concat();
    let order_of = |frames: &[(u32, u64)]| {
        let bodies: Vec<u8> = frames.iter().flat_map(|(on, us)| enhanced(o, *on, *us, &frame)).collect();
        let mut merged = Merged::new(vec![Memory("two", [head.clone(), bodies].concat())]);
        let mut found = Vec::new();
        while merged.advance() {
            let (_, record) = merged.current().unwrap();
            found.push((record.interface, record.time.as_nanos() / 1_000));
        }
        assert_eq!(merged.healths()[0].packets, frames.len() as u64);
        found
    };
    // Buffers emptied in turn, and frames of the same time.
    let second = [(1, 20), (1, 40), (1, 50), (0, 10), (0, 30), (0, 40), (1, 60), (0, 70), (0, 2_000_000)];
    let sorted = [(0, 10), (1, 20), (0, 30), (1, 40), (0, 40), (1, 50), (1, 60), (0, 70), (0, 2_000_000)];
    assert_eq!(order_of(&second), sorted);
    // A clock that was set back: within an interface, and by more than buffers explain, the file's
    // order stays.
    let set_back = [(0, 500_000), (0, 400_000), (1, 450_000), (0, 9_000_000), (1, 7_000_000), (0, 9_500_000)];
    let kept = [(1, 450_000), (0, 500_000), (0, 400_000), (0, 9_000_000), (1, 7_000_000), (0, 9_500_000)];
    assert_eq!(order_of(&set_back), kept);
    // More than is held at a time.
    let place = |i: u64| ((i % 100 / 50) as u32, i / 100 * 100 + i % 50 * 2 + i % 100 / 50);
    let many: Vec<(u32, u64)> = (0..50_000).map(place).collect();
    let found = order_of(&many);
    assert!(found.len() == many.len() && found.is_sorted_by_key(|(_, us)| *us));
}

#[test]
fn standard_input_is_read_once() {
    let file = pcap(&USUAL, 1, &frames(1_000));
    let mut merged = Merged::new(vec![Mutex::new(Some(Cursor::new(file)))]);
    let mut count = 0;
    while merged.advance() {
        count += 1;
    }
    assert_eq!((count, merged.problems().len()), (5, 0));
}

proptest! {
    #[test]
    fn arbitrary_bytes_never_panic(kind in 0_usize..8, body in prop::collection::vec(any::<u8>(), 0..400)) {
        let heads: [&[u8]; 8] = [
            &[], &[0xd4, 0xc3, 0xb2, 0xa1, 2, 0, 4, 0], &[0xa1, 0xb2, 0x3c, 0x4d, 0, 2, 0, 3],
            &[0x0a, 0x0d, 0x0d, 0x0a, 28, 0, 0, 0, 0x4d, 0x3c, 0x2b, 0x1a], &[0x1f, 0x8b, 8, 0],
            &[0x28, 0xb5, 0x2f, 0xfd], &[0x34, 0xcd, 0xb2, 0xa1], &[0x0a, 0x0d, 0x0d, 0x0a],
        ];
        let file = [heads[kind], &body].concat();
        if let Ok(stream) = decompressed(Cursor::new(file)) && let Ok(mut reader) = Reader::new(stream) {
            while reader.advance().is_ok_and(|more| more) {
                let record = reader.current().expect("a frame");
                let _ = decode(record.link, record.bytes, record.wire_len);
            }
        }
    }

    #[test]
    fn damaged_files_never_panic(at in 0_usize..600, value: u8, ng: bool) {
        let mut file = if ng { rich_pcapng() } else { pcap(&USUAL, 1, &frames(1_000)) };
        let at = at % file.len();
        file[at] = value;
        let (found, _) = read(&file);
        prop_assert!(found.len() <= 6);
    }
}
