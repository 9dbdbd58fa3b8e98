//! [`DebtJournal`]: what is owed to clients, in a file of memory that outlives the process.
//!
//! INVARIANT: each word is written whole, and the word that makes a slot valid is written after its addresses and
//! cleared before them. So a process that is killed between any two writes leaves slots whose addresses are right
//! and whose numbers are each true at some moment: all that the recovery needs.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU32, Ordering};

use engine::{Journal, JournalEntry};
use io::{IoError, SharedWords};
use units::SeqNum;

/// Names of the files in an instance's directory: what clients are owed, what servers are. Those of further shards
/// have the shard's number behind.
const FILES: [&str; 2] = ["journal", "journal-up"];

fn file_of(name: &str, shard: usize) -> String {
    if shard == 0 { name.to_owned() } else { format!("{name}.{shard}") }
}

/// The files in an instance's directory, in the order of their shards.
fn files(directory: &Path) -> Vec<PathBuf> {
    (0..)
        .map_while(|shard| {
            let both = FILES.map(|file| directory.join(file_of(file, shard)));
            both.iter().any(|file| file.exists()).then_some(both)
        })
        .flatten()
        .collect()
}

/// First word of the file: another version of this program may have written it.
const MAGIC: u32 = 0xce11_0001;

/// Words of a slot: 128 bytes, addresses in the first cache line and numbers in the second.
const SLOT_WORDS: usize = 32;
const SLOTS_AT_FIRST: usize = 1_024;

// Words of a slot.
const IS_VALID: usize = 0;
const KIND: usize = 1;
const CLIENT: usize = 2;
const SERVER: usize = 6;
const PORTS: usize = 10;
const NUMBERS: usize = 16;

const KIND_IPV6: u32 = 1;
const KIND_TIMESTAMPS: u32 = 2;

/// The journal of a running instance.
#[derive(Debug)]
pub(crate) struct DebtJournal {
    words: SharedWords,
    /// It could not grow: no further attempt is made.
    is_full: bool,
}

impl DebtJournal {
    /// Makes both of a shard in an instance's directory: for the downlink, for the uplink.
    pub fn create_both(directory: &Path, shard: usize) -> Result<[Self; 2], IoError> {
        let [down, up] = FILES.map(|file| directory.join(file_of(file, shard)));
        Ok([Self::create(&down)?, Self::create(&up)?])
    }

    fn create(file: &Path) -> Result<Self, IoError> {
        let words = SharedWords::create(file, (1 + SLOTS_AT_FIRST) * SLOT_WORDS)?;
        words.words()[0].store(MAGIC, Ordering::Relaxed);
        Ok(Self { words, is_full: false })
    }

    /// A slot's words; the first slot's place holds the file's mark.
    fn slot(&self, slot: u32) -> Option<&[AtomicU32]> {
        let at = (slot as usize + 1) * SLOT_WORDS;
        self.words.words().get(at..at + SLOT_WORDS)
    }

    fn make_room(&mut self, slot: u32) {
        if self.is_full || self.slot(slot).is_some() {
            return;
        }
        let slots = (slot as usize + 1).next_power_of_two();
        // Rare: each time twice as long. Without room a flow is merely not in the journal.
        self.is_full = self.words.grow((1 + slots) * SLOT_WORDS).is_err();
    }
}

impl Journal for DebtJournal {
    fn owe(&mut self, slot: u32, entry: &JournalEntry, is_new: bool) {
        if is_new {
            self.make_room(slot);
        }
        let Some(words) = self.slot(slot) else { return };
        if is_new {
            words[IS_VALID].store(0, Ordering::Release);
            write_addresses(words, entry);
        }
        let (client_time, server_time) = entry.timestamps.unwrap_or_default();
        let numbers = [
            entry.delivered.get(),
            entry.told.get(),
            entry.client_next.get(),
            entry.server_ack.get(),
            client_time,
            server_time,
        ];
        for (word, number) in words[NUMBERS..].iter().zip(numbers) {
            word.store(number, Ordering::Relaxed);
        }
        if is_new {
            words[IS_VALID].store(1, Ordering::Release);
        }
    }

    fn settle(&mut self, slot: u32) {
        if let Some(words) = self.slot(slot) {
            words[IS_VALID].store(0, Ordering::Release);
        }
    }
}

fn write_addresses(words: &[AtomicU32], entry: &JournalEntry) {
    let mut kind = if entry.timestamps.is_some() { KIND_TIMESTAMPS } else { 0 };
    for (at, address) in [(CLIENT, entry.client.ip()), (SERVER, entry.server.ip())] {
        let bits = match address {
            IpAddr::V4(v4) => u128::from(v4.to_bits()),
            IpAddr::V6(v6) => {
                kind |= KIND_IPV6;
                v6.to_bits()
            }
        };
        for (i, word) in words[at..at + 4].iter().enumerate() {
            word.store((bits >> (32 * i)) as u32, Ordering::Relaxed);
        }
    }
    let ports = u32::from(entry.client.port()) << 16 | u32::from(entry.server.port());
    words[PORTS].store(ports, Ordering::Relaxed);
    words[KIND].store(kind, Ordering::Relaxed);
}

/// The entries in an instance's directory: what it owed when it ended. None when there is no journal, or one of
/// another version. In those of the uplink `client` is the server: it is the one that is owed.
pub(crate) fn read(directory: &Path) -> Vec<JournalEntry> {
    files(directory).iter().flat_map(|file| read_one(file)).collect()
}

fn read_one(file: &Path) -> Vec<JournalEntry> {
    let bytes = std::fs::read(file).unwrap_or_default();
    let words: Vec<u32> = bytes.as_chunks::<4>().0.iter().map(|bytes| u32::from_ne_bytes(*bytes)).collect();
    let mut slots = words.chunks_exact(SLOT_WORDS);
    if slots.next().is_none_or(|first| first[0] != MAGIC) {
        return Vec::new();
    }
    slots.filter(|words| words[IS_VALID] == 1).map(parse).collect()
}

/// Forgets them: their flows are dealt with.
pub(crate) fn discard(directory: &Path) {
    for file in files(directory) {
        // It goes with the directory otherwise.
        drop(std::fs::remove_file(file));
    }
}

fn parse(words: &[u32]) -> JournalEntry {
    let address = |at: usize| {
        let bits = (0..4).fold(0, |bits, i| bits | u128::from(words[at + i]) << (32 * i));
        if words[KIND] & KIND_IPV6 == 0 {
            IpAddr::V4(Ipv4Addr::from_bits(bits as u32))
        } else {
            IpAddr::V6(Ipv6Addr::from_bits(bits))
        }
    };
    let number = |n: usize| SeqNum::new(words[NUMBERS + n]);
    JournalEntry {
        client: SocketAddr::new(address(CLIENT), (words[PORTS] >> 16) as u16),
        server: SocketAddr::new(address(SERVER), words[PORTS] as u16),
        delivered: number(0),
        told: number(1),
        client_next: number(2),
        server_ack: number(3),
        timestamps: (words[KIND] & KIND_TIMESTAMPS != 0).then_some((words[NUMBERS + 4], words[NUMBERS + 5])),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn entry(n: u32) -> JournalEntry {
        let [client, server] = if n.is_multiple_of(2) {
            ["10.1.0.2:40000", "10.2.0.2:80"]
        } else {
            ["[fd01::2]:40000", "[fd02::2]:443"]
        };
        JournalEntry {
            client: client.parse().unwrap(),
            server: server.parse().unwrap(),
            delivered: SeqNum::new(u32::MAX - n),
            told: SeqNum::new(10),
            client_next: SeqNum::new(n),
            server_ack: SeqNum::new(n),
            timestamps: n.is_multiple_of(3).then_some((1, n)),
        }
    }

    #[test]
    fn what_is_owed_survives_and_what_is_settled_does_not() {
        let directory = std::env::temp_dir().join(format!("ct-run-journal-{}", std::process::id()));
        std::fs::create_dir(&directory).unwrap();
        assert!(read(&directory).is_empty(), "there is none");
        let [mut journal, mut uplink] = DebtJournal::create_both(&directory, 0).unwrap();
        assert!(read(&directory).is_empty());
        for slot in [0, 1, 2, 5_000] {
            journal.owe(slot, &entry(slot), true);
        }
        let newer = JournalEntry { delivered: SeqNum::new(3), ..entry(1) };
        journal.owe(1, &newer, false);
        journal.settle(2);
        assert_eq!(read(&directory), [entry(0), newer, entry(5_000)]);
        journal.owe(2, &entry(3), true);
        assert_eq!(read(&directory)[2], entry(3), "the slot is used again");
        uplink.owe(0, &entry(4), true);
        let [mut other_shard, _] = DebtJournal::create_both(&directory, 1).unwrap();
        other_shard.owe(0, &entry(5), true);
        drop((journal, uplink, other_shard));
        assert_eq!(read(&directory)[4..], [entry(4), entry(5)]);
        std::fs::write(directory.join(FILES[0]), [7; 4_096]).unwrap();
        assert_eq!(read(&directory), [entry(4), entry(5)], "the first is not ours");
        discard(&directory);
        assert!(read(&directory).is_empty());
        std::fs::remove_dir_all(directory).unwrap();
    }
}
