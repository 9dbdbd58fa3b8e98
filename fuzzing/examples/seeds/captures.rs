//! Captures: recorded transfers in the formats and behind the headers that are read.

use engine::Port;

use crate::Seeds;
use crate::layers;
use crate::made::{self, Order, PcapStyle, USUAL, enhanced, ethernet, interface, pcap as pcap_file, section};
use crate::recorded::{Seen, transfers};

/// Bytes kept of each packet: all headers, and some payload.
const SNAP: usize = 78;
/// Packets kept of each transfer: the fuzzer repeats things by itself.
const PACKETS_MAX: usize = 60;

type Frame = (u64, u32, Vec<u8>);

/// The frames seen at one port, as Ethernet, clipped.
fn frames(seen: &[Seen], side: Port) -> Vec<Frame> {
    let at_side = seen.iter().filter(|one| one.side == side).take(PACKETS_MAX);
    at_side
        .map(|one| {
            let frame = ethernet(&one.packet);
            let kept = frame[..frame.len().min(SNAP)].to_vec();
            (1_700_000_000_000_000_000 + one.at.as_nanos(), frame.len() as u32, kept)
        })
        .collect()
}

/// One small capture of a plain transfer's beginning.
fn beginning(count: usize) -> Vec<Frame> {
    let (_, seen) = transfers().swap_remove(0);
    frames(&seen, Port::Mobile).into_iter().take(count).collect()
}

pub fn pcap() -> Seeds {
    let mut seeds = Seeds::new();
    for (order, order_name) in [(Order::Big, "big"), (Order::Little, "little")] {
        for (nanos, modified, minor) in
            [(false, false, 4), (true, false, 4), (false, true, 4), (false, false, 2), (false, false, 3)]
        {
            let style = PcapStyle { order, nanos, modified, minor };
            let name = format!("{order_name}-{nanos}-{modified}-2.{minor}");
            seeds.push((name, pcap_file(&style, 1, &beginning(4))));
        }
    }
    let whole = pcap_file(&USUAL, 1, &beginning(6));
    seeds.push(("cut".to_owned(), whole[..whole.len() - 9].to_vec()));
    seeds.push(("empty".to_owned(), pcap_file(&USUAL, 1, &[])));
    seeds.extend(snoop());
    seeds
}

/// snoop files: whole, cut, of another version and link, with a record that is longer than it says.
fn snoop() -> Seeds {
    let whole = made::snoop(4, &beginning(4));
    let changed = |at: usize, value: u8| {
        let mut file = whole.clone();
        file[at] = value;
        file
    };
    vec![
        ("snoop-version".to_owned(), changed(11, 4)),
        ("snoop-fddi".to_owned(), changed(15, 8)),
        ("snoop-length".to_owned(), changed(16 + 11, 30)),
        ("snoop-cut".to_owned(), whole[..whole.len() - 9].to_vec()),
        ("snoop".to_owned(), whole),
    ]
}

fn as_pcapng(order: Order, frames: &[Frame]) -> Vec<u8> {
    let mut file = [section(order), interface(order, 1, &[(9, vec![9])])].concat();
    for (time, _, frame) in frames {
        file.extend(enhanced(order, 0, *time, frame));
    }
    file
}

pub fn pcapng() -> Seeds {
    let big = as_pcapng(Order::Big, &beginning(4));
    vec![
        ("rich".to_owned(), made::rich_pcapng()),
        ("little".to_owned(), as_pcapng(Order::Little, &beginning(4))),
        ("cut".to_owned(), big[..big.len() - 5].to_vec()),
        ("big".to_owned(), big),
    ]
}

pub fn packed() -> Seeds {
    use std::io::Write as _;
    let plain = pcap_file(&USUAL, 1, &beginning(5));
    let mut gz = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::best());
    gz.write_all(&plain).unwrap();
    let gz = gz.finish().unwrap();
    let zstd = ruzstd::encoding::compress_to_vec(&plain[..], ruzstd::encoding::CompressionLevel::Fastest);
    vec![
        ("gzip".to_owned(), gz.clone()),
        ("gzip-members".to_owned(), [&gz[..], &gz].concat()),
        ("gzip-cut".to_owned(), gz[..gz.len() / 2].to_vec()),
        ("zstd-frames".to_owned(), [&zstd[..], &zstd].concat()),
        ("zstd".to_owned(), zstd),
        ("plain".to_owned(), plain),
    ]
}

pub fn analyzer() -> Seeds {
    let mut seeds = Seeds::new();
    for (name, seen) in transfers() {
        for (side, place) in [(Port::Mobile, "mobile"), (Port::Wired, "wired")] {
            let frames = frames(&seen, side);
            seeds.push((format!("{name}-{place}"), pcap_file(&USUAL, 1, &frames)));
        }
    }
    let (_, seen) = transfers().swap_remove(3);
    seeds.push(("pcapng".to_owned(), as_pcapng(Order::Little, &frames(&seen, Port::Wired))));
    // Every link and tunnel, one frame each, grouped by the link type of the file.
    for (name, link, frame) in layers::frames() {
        let one = vec![(1_700_000_000_000_000_000, frame.len() as u32, frame)];
        seeds.push((format!("layer-{name}"), pcap_file(&USUAL, u32::from(link), &one)));
    }
    seeds
}
