//! The committed captures as frames that can be changed and written again in other ways.

use std::fs::File;
use std::net::{IpAddr, SocketAddr};
use std::path::Path;

use capture::{LinkType, PcapngWriter, Reader, Record, decompressed};
use units::Instant;

/// One frame of a capture.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Frame {
    /// Nanoseconds since 1970.
    pub time: u64,
    pub link: u16,
    /// Length on the wire, bytes.
    pub wire: u32,
    pub bytes: Vec<u8>,
}

/// Raw IP.
pub const RAW: u16 = 101;

/// The frames of `tests/captures/NAME.pcapng.gz`.
pub fn read(name: &str) -> Vec<Frame> {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/captures").join(format!("{name}.pcapng.gz"));
    let file = decompressed(File::open(&path).expect("a capture")).expect("gzip");
    let mut reader = Reader::new(file).expect("a capture");
    let mut frames = Vec::new();
    while reader.advance().expect("whole") {
        let record = reader.current().expect("a frame");
        let (time, link, wire) = (record.time.as_nanos(), record.link.0, record.wire_len);
        assert_eq!(link, RAW, "{name}");
        frames.push(Frame { time, link, wire, bytes: record.bytes.to_vec() });
    }
    assert!(frames.len() > 100, "{name}");
    frames
}

/// As pcapng, little-endian, in nanoseconds.
pub fn pcapng(frames: &[Frame]) -> Vec<u8> {
    let mut file = Vec::new();
    let mut writer = PcapngWriter::new(&mut file).expect("memory");
    for frame in frames {
        let record = Record {
            time: Instant::from_nanos(frame.time),
            interface: 0,
            link: LinkType(frame.link),
            wire_len: frame.wire,
            bytes: &frame.bytes,
        };
        writer.packet(&record, "").expect("memory");
    }
    writer.finish().expect("memory");
    file
}

/// What pcap's first word says.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[repr(u32)]
pub enum Magic {
    Micros = 0xa1b2_c3d4,
    Nanos = 0xa1b2_3c4d,
    /// Kuznetzov's: eight more bytes in each record's header.
    Modified = 0xa1b2_cd34,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Order {
    Big,
    Little,
}

impl Order {
    fn words(self, words: &[u32]) -> Vec<u8> {
        let bytes = |word: &u32| if self == Self::Big { word.to_be_bytes() } else { word.to_le_bytes() };
        words.iter().flat_map(bytes).collect()
    }
    fn halves(self, halves: &[u16]) -> Vec<u8> {
        let bytes = |half: &u16| if self == Self::Big { half.to_be_bytes() } else { half.to_le_bytes() };
        halves.iter().flat_map(bytes).collect()
    }
}

/// As pcap.
pub fn pcap(frames: &[Frame], magic: Magic, order: Order) -> Vec<u8> {
    let mut file = order.words(&[magic as u32]);
    file.extend(order.halves(&[2, 4]));
    file.extend(order.words(&[0, 0, 65_535, u32::from(frames[0].link)]));
    let unit = if magic == Magic::Nanos { 1 } else { 1_000 };
    for frame in frames {
        let fraction = frame.time % 1_000_000_000 / unit;
        let seconds = u32::try_from(frame.time / 1_000_000_000).expect("32 bits of seconds");
        file.extend(order.words(&[seconds, fraction as u32, frame.bytes.len() as u32, frame.wire]));
        if magic == Magic::Modified {
            file.extend([0; 8]);
        }
        file.extend(&frame.bytes);
    }
    file
}

/// As pcapng in several sections of both byte orders, with two interfaces in turn: in nanoseconds,
/// in picoseconds from an offset; and blocks that nobody knows.
pub fn many_sections(frames: &[Frame]) -> Vec<u8> {
    const OFFSET: u64 = 1_795_000_000;
    let mut file = Vec::new();
    for (index, part) in frames.chunks(97).enumerate() {
        let order = if index % 2 == 0 { Order::Big } else { Order::Little };
        let mut block = |kind: u32, body: &[u8]| {
            let padded = body.len().next_multiple_of(4);
            let len = order.words(&[padded as u32 + 12]);
            file.extend(
                [&order.words(&[kind])[..], &len, body, &vec![0; padded - body.len()], &len].concat(),
            );
        };
        let head = [order.words(&[0x1a2b_3c4d]), order.halves(&[1, 0]), vec![0xff; 8]].concat();
        block(0x0a0d_0d0a, &head);
        let option = |code: u16, value: &[u8]| {
            let padding = vec![0; value.len().next_multiple_of(4) - value.len()];
            [&order.halves(&[code, value.len() as u16])[..], value, &padding].concat()
        };
        let offset = match order {
            Order::Big => OFFSET.to_be_bytes(),
            Order::Little => OFFSET.to_le_bytes(),
        };
        let described = |options: Vec<Vec<u8>>| {
            let link = order.halves(&[part[0].link, 0]);
            [link, order.words(&[65_535]), options.concat(), vec![0; 4]].concat()
        };
        block(1, &described(vec![option(2, b"eth0"), option(9, &[9])]));
        block(1, &described(vec![option(9, &[12]), option(14, &offset)]));
        block(0x0bad_cafe, b"unknown");
        for (number, frame) in part.iter().enumerate() {
            let (interface, stamp) = match number % 2 {
                0 => (0, frame.time),
                _ => (1, (frame.time - OFFSET * 1_000_000_000) * 1_000),
            };
            let len = frame.bytes.len() as u32;
            let words = [interface, (stamp >> 32) as u32, stamp as u32, len, frame.wire];
            block(6, &[order.words(&words), frame.bytes.clone()].concat());
        }
    }
    file
}

/// `bytes` as a Zstandard frame of blocks that are not compressed (RFC 8878 §3.1).
pub fn zstd(bytes: &[u8]) -> Vec<u8> {
    // No content size, no checksum, a window of 128 KiB.
    let mut file = vec![0x28, 0xb5, 0x2f, 0xfd, 0, 7 << 3];
    let last = bytes.chunks(100_000).count() - 1;
    for (index, block) in bytes.chunks(100_000).enumerate() {
        let header = (block.len() as u32) << 3 | u32::from(index == last);
        file.extend(&header.to_le_bytes()[..3]);
        file.extend(block);
    }
    file
}

/// Where things are in a raw IP packet of TCP.
struct Places {
    /// Both addresses, the source's first.
    addresses: usize,
    address_len: usize,
    tcp: usize,
}

fn places(packet: &[u8]) -> Places {
    match packet[0] >> 4 {
        4 => Places { addresses: 12, address_len: 4, tcp: usize::from(packet[0] & 15) * 4 },
        _ => Places { addresses: 8, address_len: 16, tcp: 40 },
    }
}

impl Frame {
    /// Length of IP and TCP headers.
    pub fn header_len(&self) -> usize {
        let tcp = places(&self.bytes).tcp;
        tcp + usize::from(self.bytes[tcp + 12] >> 4) * 4
    }

    /// Sender and receiver.
    pub fn ends(&self) -> [SocketAddr; 2] {
        let at = places(&self.bytes);
        [0, 1].map(|end| {
            let address = &self.bytes[at.addresses + end * at.address_len..][..at.address_len];
            let address: IpAddr = match at.address_len {
                4 => <[u8; 4]>::try_from(address).expect("four").into(),
                _ => <[u8; 16]>::try_from(address).expect("sixteen").into(),
            };
            let port = &self.bytes[at.tcp + end * 2..][..2];
            SocketAddr::new(address, u16::from_be_bytes([port[0], port[1]]))
        })
    }

    /// Puts `number` into the second byte of both addresses: other machines.
    pub fn on_network(mut self, number: u8) -> Self {
        let at = places(&self.bytes);
        for end in 0..2 {
            self.bytes[at.addresses + end * at.address_len + 1] ^= number;
        }
        self
    }

    /// As if each end had the other's address and port.
    pub fn with_ends_swapped(mut self) -> Self {
        let at = places(&self.bytes);
        let (source, destination) = self.bytes[at.addresses..].split_at_mut(at.address_len);
        source.swap_with_slice(&mut destination[..at.address_len]);
        self.bytes.swap(at.tcp, at.tcp + 2);
        self.bytes.swap(at.tcp + 1, at.tcp + 3);
        self
    }

    /// Sequence number, if this is a SYN.
    pub fn initial_number(&self) -> Option<u32> {
        let tcp = places(&self.bytes).tcp;
        let is_syn = self.bytes[tcp + 13] & 2 != 0;
        is_syn.then(|| word(&self.bytes, tcp + 4))
    }

    /// Adds `own` to the sequence numbers of its sender and `peer` to those of the other end, also
    /// in SACK blocks.
    pub fn with_numbers_moved(mut self, own: u32, peer: u32) -> Self {
        let (tcp, end) = (places(&self.bytes).tcp, self.header_len());
        add(&mut self.bytes, tcp + 4, own);
        if self.bytes[tcp + 13] & 0x10 != 0 {
            add(&mut self.bytes, tcp + 8, peer);
        }
        let mut at = tcp + 20;
        while at < end && self.bytes[at] != 0 {
            let len = if self.bytes[at] == 1 { 1 } else { usize::from(self.bytes[at + 1]) };
            if self.bytes[at] == 5 {
                (at + 2..at + len).step_by(4).for_each(|edge| add(&mut self.bytes, edge, peer));
            }
            at += len;
        }
        self
    }

    /// Behind `header`, in a capture of link type `link`.
    pub fn behind(&self, link: u16, header: &[u8]) -> Self {
        let bytes = [header, &self.bytes].concat();
        Self { time: self.time, link, wire: self.wire + header.len() as u32, bytes }
    }
}

fn word(bytes: &[u8], at: usize) -> u32 {
    u32::from_be_bytes(bytes[at..at + 4].try_into().expect("four bytes"))
}

fn add(bytes: &mut [u8], at: usize, what: u32) {
    let sum = word(bytes, at).wrapping_add(what);
    bytes[at..at + 4].copy_from_slice(&sum.to_be_bytes());
}

/// An IPv4 header in front of `len` bytes of `protocol`.
pub fn ipv4(protocol: u8, len: u32) -> Vec<u8> {
    let total = u16::try_from(len + 20).expect("an IPv4 packet").to_be_bytes();
    let mut header = vec![0x45, 0, total[0], total[1], 0, 9, 0, 0, 64, protocol, 0, 0];
    header.extend([192, 0, 2, 1, 192, 0, 2, 2]);
    header
}

/// A UDP header in front of `len` bytes, after its IPv4 header.
pub fn udp(port: u16, len: u32) -> Vec<u8> {
    let mut header = ipv4(17, len + 8);
    for half in [40_000, port, len as u16 + 8, 0] {
        header.extend(half.to_be_bytes());
    }
    header
}

/// An Ethernet header, or with `kind` what comes last in one.
pub fn ethernet(kind: u16) -> Vec<u8> {
    [&[2; 12][..], &kind.to_be_bytes()].concat()
}

impl Frame {
    /// Payload bytes, sequence number and number after it.
    pub fn span(&self) -> (u32, u32, u32) {
        let at = places(&self.bytes);
        let len = self.wire - self.header_len() as u32;
        let seq = word(&self.bytes, at.tcp + 4);
        (len, seq, seq.wrapping_add(len))
    }

    /// Flags, window and options as GRO compares them: acknowledgement, window and timestamps.
    fn standing(&self) -> (u32, &[u8], &[u8]) {
        let at = places(&self.bytes);
        let fixed = at.tcp + 20;
        (
            word(&self.bytes, at.tcp + 8),
            &self.bytes[at.tcp + 14..at.tcp + 16],
            &self.bytes[fixed..self.header_len()],
        )
    }

    /// With `next` in one packet, as GRO and TSO have them; none if they do not merge them.
    pub fn merged_with(&self, next: &Self) -> Option<Self> {
        let at = places(&self.bytes);
        let is_plain = |frame: &Self| frame.bytes[at.tcp + 13] & !0x18 == 0;
        let ((len, _, end), (next_len, next_seq, _)) = (self.span(), next.span());
        let fits = len > 0 && next_len > 0 && next_seq == end && self.wire + next_len <= 65_000;
        if !fits
            || self.ends() != next.ends()
            || self.standing() != next.standing()
            || !is_plain(self)
            || !is_plain(next)
        {
            return None;
        }
        let mut merged = self.clone();
        merged.wire += next_len;
        let (field, total) = if at.address_len == 4 { (2, merged.wire) } else { (4, merged.wire - 40) };
        merged.bytes[field..field + 2].copy_from_slice(&(total as u16).to_be_bytes());
        Some(merged)
    }

    /// One hop further.
    pub fn after_a_hop(mut self) -> Self {
        let hops = if places(&self.bytes).address_len == 4 { 8 } else { 7 };
        self.bytes[hops] -= 1;
        self
    }
}
