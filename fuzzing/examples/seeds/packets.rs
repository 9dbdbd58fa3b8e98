//! Packets, super-packets, option lists, texts and sessions.

use std::path::Path;

use link::{LinkDirection, Preset};
use sim::build_packet;
use units::{Duration, SeqNum, WindowScale};
use wire::{SackBlock, TcpFlags, TcpHeaderSpec, Timestamps, VirtioNetHeader};

use crate::Seeds;
use crate::layers;
use crate::made::packet as plain;
use crate::recorded::transfers;

/// Option lists as hosts write them, and as nobody should.
const OPTIONS: &[&[u8]] = &[
    &[],
    &[2, 4, 5, 180, 4, 2, 8, 10, 0, 0, 0, 1, 0, 0, 0, 0, 1, 3, 3, 7],
    &[1, 1, 8, 10, 1, 2, 3, 4, 5, 6, 7, 8],
    &[1, 1, 8, 10, 1, 2, 3, 4, 5, 6, 7, 8, 1, 1, 5, 18, 0, 0, 0, 9, 0, 0, 0, 12, 0, 0, 0, 20, 0, 0, 0, 30],
    &[5, 10, 0, 0, 0, 9, 0, 0, 0, 12],
    &[
        1, 5, 34, 0, 0, 0, 1, 0, 0, 0, 2, 0, 0, 0, 3, 0, 0, 0, 4, 0, 0, 0, 5, 0, 0, 0, 6, 0, 0, 0, 7, 0, 0,
        0, 8,
    ],
    &[30, 12, 0, 129, 1, 2, 3, 4, 5, 6, 7, 8],
    &[19, 18, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16],
    &[29, 4, 1, 2, 34, 10, 1, 2, 3, 4, 5, 6, 7, 8],
    &[254, 4, 0xf9, 0x89, 253, 4, 0xac, 0xce, 172, 2],
    &[3, 3, 200, 2, 3, 1],
    &[8, 10, 1],
];

pub fn tcp_options() -> Seeds {
    let seed = |(i, list): (usize, &&[u8])| (format!("list-{i}"), [&[0x10], *list].concat());
    OPTIONS.iter().enumerate().map(seed).collect()
}

fn icmp(quote: &[u8]) -> Vec<u8> {
    let head = [0x45, 0, 0, (28 + quote.len()) as u8, 0, 1, 0, 0, 64, 1, 0, 0, 192, 0, 2, 1, 192, 0, 2, 2];
    [&head[..], &[3, 4, 0, 0, 0, 0, 5, 0x78], quote].concat()
}

fn udp() -> Vec<u8> {
    let head = [0x45, 0, 0, 36, 0, 1, 0, 0, 64, 17, 0, 0, 192, 0, 2, 1, 192, 0, 2, 2];
    [&head[..], &[0, 53, 0, 99, 0, 16, 0, 0], b"question"].concat()
}

pub fn packet() -> Seeds {
    let mut seeds = vec![
        ("icmp".to_owned(), icmp(&plain(false, 1, 0)[..28])),
        ("udp".to_owned(), udp()),
        ("v4".to_owned(), plain(false, 1, 8)),
        ("v6".to_owned(), plain(true, 1, 8)),
    ];
    for (name, _, frame) in layers::frames().into_iter().filter(|(_, link, _)| *link == 101) {
        seeds.push((name.to_owned(), frame));
    }
    let ends = ("10.0.0.1:1".parse().unwrap(), "10.0.0.2:2".parse().unwrap());
    for (i, list) in OPTIONS.iter().enumerate() {
        let spec = TcpHeaderSpec::new(ends.0, ends.1, SeqNum::new(1), SeqNum::new(2), TcpFlags::ACK);
        seeds.push((format!("options-{i}"), build_packet(&spec, list, &[b"x"]).unwrap()));
    }
    let (_, seen) = transfers().swap_remove(1);
    for (i, one) in seen.iter().take(4).enumerate() {
        seeds.push((format!("seen-{i}"), one.packet.iter().copied().take(90).collect()));
    }
    seeds
}

pub fn super_packet() -> Seeds {
    let mut seeds = Seeds::new();
    for (v6, name) in [(false, "v4"), (true, "v6")] {
        let packet = plain(v6, 1, 400);
        let parsed = wire::parse(&packet).unwrap();
        let tcp = parsed.tcp().unwrap();
        let gso = VirtioNetHeader::for_tcp_gso(parsed.ip.version, tcp.offset, tcp.payload_offset, 100);
        let seed = |virtio: VirtioNetHeader, mss: u16| {
            [&virtio.to_bytes()[..], &mss.to_be_bytes(), &packet].concat()
        };
        seeds.push((format!("gso-{name}"), seed(gso, 150)));
        seeds.push((format!("plain-{name}"), seed(VirtioNetHeader::default(), 64)));
        seeds.push((format!("partial-{name}"), seed(VirtioNetHeader::for_partial_checksum(tcp.offset), 399)));
    }
    let mut spec = TcpHeaderSpec::new(
        "10.0.0.1:1".parse().unwrap(),
        "10.0.0.2:2".parse().unwrap(),
        SeqNum::new(u32::MAX),
        SeqNum::new(2),
        TcpFlags::ACK | TcpFlags::PSH | TcpFlags::FIN | TcpFlags::CWR | TcpFlags::URG,
    );
    spec.urgent = 120;
    spec.timestamps = Some(Timestamps { value: 1, echo: 2 });
    let packet = build_packet(&spec, &[], &[&[7; 300]]).unwrap();
    seeds.push(("flags".to_owned(), [&[0; 10][..], &[0, 100], &packet].concat()));
    seeds.push(("udp".to_owned(), [&[0, 5, 0, 0, 4, 0, 0, 0, 0, 0][..], &[0, 3], &udp()].concat()));
    spec.window_scale = Some(WindowScale::new(3));
    spec.sack.push(SackBlock { start: SeqNum::new(5), end: SeqNum::new(9) });
    spec.flags = TcpFlags::SYN;
    let packet = build_packet(&spec, &[], &[b"fast open"]).unwrap();
    seeds.push(("syn".to_owned(), [&[0; 10][..], &[0, 100], &packet].concat()));
    seeds
}

pub fn trace() -> Seeds {
    let mut seeds = Seeds::new();
    for (preset, name) in [(Preset::Evdo3g, "evdo"), (Preset::Lte4g, "lte")] {
        let trace = preset.generate(LinkDirection::Down, Duration::from_secs(1), 7).unwrap();
        let (mut mahimahi, mut rates, mut csv) = (Vec::new(), Vec::new(), Vec::new());
        trace.write_mahimahi(&mut mahimahi).unwrap();
        trace.write_rates(&mut rates, 50).unwrap();
        trace.write_csv(&mut csv, 50).unwrap();
        mahimahi.truncate(400);
        seeds.push((format!("{name}-mahimahi"), mahimahi));
        seeds.push((format!("{name}-rates"), rates));
        seeds.push((format!("{name}-csv"), csv));
    }
    let texts = [
        ("dates", "when;rate\n2024-02-29 23:59:59.5;3\n2024-03-01 00:00:01;0\n"),
        ("quotes", "\u{feff}\"a,b\",mbps\n\"0\",1e1\n1.5,0.25\n"),
        ("comments", "# seconds Mbit/s\n0 1.5\n\n0.5,3\r\n2 0\n"),
        ("long", "1\n18446744073709\n"),
        ("zero", "0\n0\n1\n"),
    ];
    seeds.extend(texts.map(|(name, text)| (name.to_owned(), text.as_bytes().to_vec())));
    seeds
}

/// Files of the repository, as they are.
fn files(folder: &str, ending: &str) -> Seeds {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("..").join(folder);
    let mut seeds = Seeds::new();
    for entry in std::fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        if path.extension().is_some_and(|e| e == ending) {
            let name = path.file_stem().unwrap().to_string_lossy().into_owned();
            seeds.push((name, std::fs::read(path).unwrap()));
        }
    }
    seeds.sort();
    seeds
}

pub fn scenario() -> Seeds {
    let mut seeds = files("scenarios", "toml");
    let texts = [
        (
            "everything",
            "name = \"x\"\nseed = 3\nrepetitions = 2\ntime_limit = \"9 s\"\n[wan]\ndelay = \"10 ms\"\n\
             rate = \"50 Mbit/s\"\nqueue = \"64 KiB\"\nloss = \"0.1 %\"\n[radio.down]\nsteps = [{ rate = \
             \"1 Mbit/s\", lasting = \"1 s\" }, { rate = \"0 bit/s\", lasting = \"20 ms\" }]\njitter = \"2 \
             ms\"\nburst_loss = { enter = \"1 %\", leave = \"20 %\", loss = \"50 %\" }\noutages = [{ at = \
             \"1 s\", lasting = \"500 ms\" }]\nharq = { block_error = \"10 %\", retry = \"8 ms\", tries = 4 \
             }\n[radio.up]\ntrace = \"file\"\nslots = \"5 ms\"\n\
             [[case]]\nname = \"a\"\n[[case]]\nname = \"b\"\nradio.down.rate = \"3 Mbit/s\"\n",
        ),
        (
            "preset",
            "name = \"p\"\n[radio.down]\npreset = \"lte-drive\"\ntrace_length = \"1 s\"\nqueue = 20\n",
        ),
        ("wrong", "name = \"w\"\nsede = 1\n"),
    ];
    seeds.extend(texts.map(|(name, text)| (name.to_owned(), text.as_bytes().to_vec())));
    seeds
}

pub fn script() -> Seeds {
    files("crates/core/sim/tests/packet", "pkt")
}

/// Sessions with the engine: four bytes of settings, then operations.
pub fn engine() -> Seeds {
    let open = [5, 0, 0, 7];
    let data = [6, 0, 0, 100, 1];
    let (ack, wait, deadline) = ([11, 0], [0, 0xa0], [2]);
    let download = [&data[..], &deadline, &deadline, &wait, &ack].concat();
    let session = |settings: [u8; 4], parts: &[&[u8]]| [&settings[..], &parts.concat()].concat();
    let usual = [0, 6, 0x47, 0];
    let fins = [&[16, 0, 0][..], &deadline, &ack, &[16, 0, 1], &deadline, &ack].concat();
    let lose =
        [&[15, 0, 2][..], &data, &data, &data, &data, &deadline, &deadline, &deadline, &wait, &ack].concat();
    let v6 = [&[5, 3, 0, 7][..], &[6, 3, 0, 200, 0], &deadline, &[11, 3], &[16, 3, 0], &deadline, &[11, 3]]
        .concat();
    let hole = [&[9, 0, 0, 30][..], &data, &deadline, &[10, 0, 0, 160, 30], &deadline, &ack].concat();
    let upload = [6, 0, 1, 90, 0];
    let odd = [20, 0, 0, 0x10, 0, 0, 100, 0, 200, 0, 0, 1, 5, 24, 0, 0, 7];
    let repairs = [&deadline[..]; 8].concat();
    vec![
        ("download".to_owned(), session(usual, &[&open, &download, &download, &download, &fins])),
        (
            "loss".to_owned(),
            session([1, 6, 0x47, 0], &[&open, &download, &lose, &repairs, &ack, &download, &fins]),
        ),
        (
            "opportunistic".to_owned(),
            session([0x80, 4, 0x47, 0], &[&open, &lose, &repairs, &ack, &lose, &ack, &fins]),
        ),
        ("new-reno".to_owned(), session([2, 6, 0xc7, 0], &[&open, &lose, &repairs, &ack, &download, &fins])),
        ("hole".to_owned(), session(usual, &[&open, &hole, &download, &hole, &fins])),
        ("upload".to_owned(), session(usual, &[&open, &upload, &download, &upload, &deadline, &fins])),
        ("ipv6".to_owned(), session(usual, &[&v6, &open, &download])),
        (
            "zero-window".to_owned(),
            session(usual, &[&open, &[14, 0, 1, 0, 0], &data, &repairs, &[14, 0, 1, 0, 2], &ack]),
        ),
        (
            "reset".to_owned(),
            session(usual, &[&open, &data, &[17, 0, 0, 0], &deadline, &ack, &open, &data, &[17, 0, 1, 0]]),
        ),
        (
            "drain".to_owned(),
            session(usual, &[&open, &data, &data, &[4, 1], &repairs, &ack, &deadline, &ack]),
        ),
        ("gone".to_owned(), session(usual, &[&open, &data, &repairs, &repairs, &repairs])),
        ("odd".to_owned(), session(usual, &[&open, &odd, &download, &odd, &deadline, &odd])),
        (
            "small".to_owned(),
            session([0, 0, 0, 7], &[&open, &[5, 1, 2, 7], &[5, 2, 0xf5, 7], &download, &lose, &fins]),
        ),
    ]
}
