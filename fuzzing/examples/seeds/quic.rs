//! Rows of datagrams as the target `quic` reads them.

use super::Seeds;

const CLIENT_TO_SERVER: u8 = 1;
const SERVER_TO_CLIENT: u8 = 1 << 2;
const MOVED_TO_SERVER: u8 = 2;
const SERVER_TO_MOVED: u8 = 2 << 2;
/// Powers of two of microseconds: 16 ms, 262 ms, half a millisecond.
const MS_16: u8 = 14;
const MS_262: u8 = 18;
const MS_HALF: u8 = 9;

const CLIENT_ID: &[u8] = &[0xc1; 5];
const SERVER_ID: &[u8] = &[0x51; 8];

/// A row of datagrams.
#[derive(Default)]
struct Row {
    bytes: Vec<u8>,
    /// Makes packets that differ.
    count: u8,
}

impl Row {
    fn send(&mut self, who: u8, gap: u8, payload_len: u16, captured: &[u8]) {
        let [high, low] = payload_len.to_be_bytes();
        self.bytes.extend([who, gap, high, low, captured.len() as u8]);
        self.bytes.extend(captured);
    }

    /// A packet with a long header, of `len` bytes on the wire.
    fn long(&mut self, who: u8, gap: u8, first: u8, version: u32, [to, from]: [&[u8]; 2], len: u16) {
        self.count += 1;
        let mut bytes = vec![first];
        bytes.extend(version.to_be_bytes());
        for id in [to, from] {
            bytes.push(id.len() as u8);
            bytes.extend(id);
        }
        let is_initial = first & 0x30 == if version == 1 { 0 } else { 0x10 };
        if is_initial {
            bytes.push(0);
        }
        let left = len - bytes.len() as u16 - 2;
        bytes.extend((0x4000 | left).to_be_bytes());
        bytes.extend([self.count; 20]);
        self.send(who, gap, len, &bytes);
    }

    fn short(&mut self, who: u8, gap: u8, id: &[u8], spin: bool, len: u16) {
        self.count = self.count.wrapping_add(1);
        let mut bytes = vec![0x40 | u8::from(spin) << 5 | self.count & 0x1f];
        bytes.extend(id);
        bytes.extend([self.count; 24]);
        self.send(who, gap, len, &bytes);
    }

    fn opened(version: u32) -> Self {
        let kind = |number: u8| 0xc0 | (if version == 1 { number } else { (number + 1) & 3 }) << 4;
        let mut row = Self::default();
        row.long(CLIENT_TO_SERVER, 0, kind(0), version, [&[9; 8], CLIENT_ID], 1_200);
        row.long(SERVER_TO_CLIENT, MS_16, kind(0), version, [CLIENT_ID, SERVER_ID], 1_200);
        row.long(CLIENT_TO_SERVER, MS_16, kind(2), version, [SERVER_ID, CLIENT_ID], 200);
        row
    }
}

pub(super) fn quic() -> Seeds {
    let opened = [("version-1", 1), ("version-2", 0x6b33_43cf)]
        .map(|(name, version)| (name.to_owned(), Row::opened(version).bytes));
    let mut seeds: Seeds = opened.into();
    let mut spins = Row::opened(1);
    for n in 0..60_u32 {
        spins.short(CLIENT_TO_SERVER, MS_HALF, SERVER_ID, n / 12 % 2 == 1, 50);
        spins.short(SERVER_TO_CLIENT, MS_HALF, CLIENT_ID, n.saturating_sub(8) / 12 % 2 == 1, 1_200);
    }
    seeds.push(("spins".to_owned(), spins.bytes));
    let mut moves = Row::opened(1);
    moves.short(SERVER_TO_CLIENT, MS_HALF, CLIENT_ID, false, 900);
    moves.short(SERVER_TO_MOVED, MS_262, CLIENT_ID, false, 900);
    moves.short(MOVED_TO_SERVER, MS_16, SERVER_ID, false, 60);
    moves.short(SERVER_TO_CLIENT, MS_HALF, CLIENT_ID, false, 900);
    moves.short(SERVER_TO_MOVED, MS_16, CLIENT_ID, false, 900);
    seeds.push(("moves".to_owned(), moves.bytes));
    let mut negotiated = Row::default();
    negotiated.long(CLIENT_TO_SERVER, 0, 0xc0, 0x1a2a_3a4a, [&[9; 8], CLIENT_ID], 1_200);
    let mut versions = vec![0x80, 0, 0, 0, 0, 5];
    versions.extend(CLIENT_ID);
    versions.push(8);
    versions.extend([9; 8]);
    versions.extend([0, 0, 0, 1]);
    negotiated.send(SERVER_TO_CLIENT, MS_16, versions.len() as u16, &versions);
    negotiated.bytes.extend(Row::opened(1).bytes);
    seeds.push(("negotiates".to_owned(), negotiated.bytes));
    let mut guessed = Row::default();
    for _ in 0..20 {
        guessed.short(CLIENT_TO_SERVER, MS_HALF, &[7; 8], true, 70);
    }
    seeds.push(("short-headers-alone".to_owned(), guessed.bytes));
    let mut other = Row::default();
    other.send(3, 0, 40, &[0x16, 0xfe, 0xfd, 0, 0]);
    other.send(3 << 2 | 1, MS_16, 40, &[0; 40]);
    seeds.push(("other".to_owned(), other.bytes));
    seeds
}
