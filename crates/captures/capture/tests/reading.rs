//! Whole captures in memory: variants, cuts, damage, order of several files.

use std::io::{Cursor, Read};
use std::sync::Mutex;

use crate::made::{
    Order, PcapStyle, USUAL, enhanced, ethernet, interface, packet, pcap, rich_pcapng, section, snoop,
};
use capture::{CaptureError, CaptureSource, Format, LinkType, Merged, Reader, decode, decompressed};
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
    for file in [pcap(&USUAL, 1, &frames(1_000)), rich_pcapng(), snoop(4, &frames(1_000))] {
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

#[test]
fn snoop_reads_as_pcap() {
    let frames = frames(123_000);
    for kind in [0, 4] {
        let file = snoop(kind, &frames);
        let mut reader = Reader::new(&file[..]).unwrap();
        let mut found = Vec::new();
        while reader.advance().unwrap() {
            let record = reader.current().unwrap();
            assert_eq!(record.link, LinkType::ETHERNET);
            found.push((record.time.as_nanos(), record.wire_len, record.bytes.to_vec()));
        }
        assert_eq!((found, reader.format()), (frames.clone(), Format::Snoop));
        let health = reader.health();
        assert_eq!(
            (health.packets, health.clipped, health.dropped),
            (5, 5, Some(4)),
            "losses are running sums"
        );
    }
    let links = [(2, 6), (8, 10), (9, u16::MAX)];
    for (kind, link) in links {
        let file = snoop(kind, &frames);
        let mut reader = Reader::new(&file[..]).unwrap();
        assert!(reader.advance().unwrap());
        assert_eq!(reader.current().unwrap().link, LinkType(link));
    }
    // Another version, and records that say less than their header, and more than they hold.
    for (at, value, place) in [(11, 3, 8), (16 + 11, 20, 24), (16 + 7, 255, 24), (16 + 8, 200, 24)] {
        let mut file = snoop(4, &frames);
        file[at] = value;
        let (found, error) = read(&file);
        let error = error.unwrap().to_string();
        assert!(found.is_empty() && error.contains(&format!("broken at byte {place}:")), "{at}: {error}");
    }
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

impl CaptureSource for Memory {
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

/// Times of frames as they come out of a pcap file, and how many were put in order.
fn in_order(micros: &[u64]) -> (Vec<u64>, u64) {
    let frame = ethernet(&packet(false, 1, 10));
    let len = frame.len() as u32;
    let frames: Vec<(u64, u32, Vec<u8>)> = micros.iter().map(|us| (us * 1_000, len, frame.clone())).collect();
    let mut merged = Merged::new(vec![Memory("one", pcap(&USUAL, 1, &frames))]);
    let mut found = Vec::new();
    while merged.advance() {
        found.push(merged.current().unwrap().1.time.as_nanos() / 1_000);
    }
    assert_eq!((found.len(), merged.healths()[0].packets), (micros.len(), micros.len() as u64));
    (found, merged.sorted()[0])
}

#[test]
fn frames_of_one_interface_are_sorted_within_a_bound() {
    // Two queues of a network card, emptied in turn every 40 ms: each is in order.
    let queues = |rounds: u64, step: u64| -> Vec<u64> {
        let of =
            |round: u64| (0..40_000).step_by(step as usize).map(move |us| 1_000_000 + round * 40_000 + us);
        (0..rounds).flat_map(|round| of(round).chain(of(round).map(|us| us + 300))).collect()
    };
    let mut wanted = queues(5, 1_000);
    assert_eq!(wanted.len(), 400);
    let (found, sorted) = in_order(&wanted);
    wanted.sort_unstable();
    assert_eq!(found, wanted);
    // Of each second half all but the last lie behind the last of the first.
    assert_eq!(sorted, 5 * 39);
    // More than the bound: a clock that was set back. The file's order stays.
    let set_back = [1_000_000, 1_010_000, 850_000, 860_000, 870_000, 1_020_000];
    assert_eq!(in_order(&set_back), (set_back.to_vec(), 0));
    // Short captures one behind the other: what is late there is late against its own beginning alone.
    let joined: Vec<u64> = (0..50).flat_map(|_| [0, 40_000, 90_000, 390_000, 430_000]).collect();
    assert_eq!(in_order(&joined), (joined, 0));
    // In order, nothing is touched; nor is there anything to count.
    let plain: Vec<u64> = (0..30_000).map(|i| i * 50).collect();
    assert_eq!(in_order(&plain), (plain, 0));
}

#[test]
fn what_comes_out_of_order_late_in_a_file_is_sorted_from_there_on() {
    let mut late: Vec<u64> = (0..20_000).map(|i| 1_000_000 + i * 100).collect();
    for at in (15_000..15_100).step_by(2) {
        late.swap(at, at + 1);
    }
    let (found, sorted) = in_order(&late);
    let steps = found.windows(2).filter(|pair| pair[1] < pair[0]).count();
    assert_eq!((steps, sorted), (1, 49), "only the first was given before it was known");
    let mut all = found;
    all.sort_unstable();
    late.sort_unstable();
    assert_eq!(all, late);
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
    fn arbitrary_bytes_never_panic(kind in 0_usize..9, body in prop::collection::vec(any::<u8>(), 0..400)) {
        let heads: [&[u8]; 9] = [
            &[], &[0xd4, 0xc3, 0xb2, 0xa1, 2, 0, 4, 0], &[0xa1, 0xb2, 0x3c, 0x4d, 0, 2, 0, 3],
            &[0x0a, 0x0d, 0x0d, 0x0a, 28, 0, 0, 0, 0x4d, 0x3c, 0x2b, 0x1a], &[0x1f, 0x8b, 8, 0],
            &[0x28, 0xb5, 0x2f, 0xfd], &[0x34, 0xcd, 0xb2, 0xa1], &[0x0a, 0x0d, 0x0d, 0x0a], b"snoop\0\0\0\0\0\0\x02\0\0\0\x04",
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
    fn damaged_files_never_panic(at in 0_usize..600, value: u8, kind in 0_usize..3) {
        let mut file = match kind {
            0 => rich_pcapng(),
            1 => pcap(&USUAL, 1, &frames(1_000)),
            _ => snoop(4, &frames(1_000)),
        };
        let at = at % file.len();
        file[at] = value;
        let (found, _) = read(&file);
        prop_assert!(found.len() <= 6);
    }
}
