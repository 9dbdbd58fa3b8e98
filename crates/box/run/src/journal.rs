//! [`FlowJournal`]: how each flow stands, in a file of memory that outlives the process.
//!
//! ```text
//!   slot: valid, addresses, ports, numbers, link headers │ which record │ record │ record │
//! ```
//!
//! INVARIANT: each word is written whole. The word that makes a slot valid is written after its addresses
//! and its first record, and cleared before them. A record is written where the one that is valid is not,
//! and the word that says which one is valid after it. So a process that is killed between any two writes
//! leaves slots whose addresses are right, whose record is whole, and whose numbers beside it are each true
//! at some moment: all that the reset of a flow needs. Link headers are written as records are.

use std::fs::{self, File};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, OnceLock};

use engine::{FlowRecord, Journal, JournalEntry, Port, RECORD_VERSION, RECORD_WORDS};
use io::{IoError, SharedWords};
use units::SeqNum;

use crate::event::Event;
use crate::inline::link_headers::{LinkHeader, SharedHeaders};

/// Names of the files in an instance's directory, and where those are who are owed: clients,
/// servers. The names of further shards have the shard's number behind.
const FILES: [(&str, Port); 2] = [("journal", Port::Mobile), ("journal-up", Port::Wired)];

fn file_of(name: &str, shard: usize) -> String {
    if shard == 0 { name.to_owned() } else { format!("{name}.{shard}") }
}

/// The files in an instance's directory, in the order of their shards.
fn files(directory: &Path) -> Vec<(PathBuf, Port)> {
    (0..)
        .map_while(|shard| {
            let both = FILES.map(|(file, receiver)| (directory.join(file_of(file, shard)), receiver));
            both.iter().any(|(file, _)| file.exists()).then_some(both)
        })
        .flatten()
        .collect()
}

/// First word of the file: another version of this program may have written it.
const MAGIC: u32 = 0xce11_0004;

/// Word of the file's first slot: one more than the slot of the flow that is being handled, or zero.
const IN_HAND: usize = 1;

/// Word of the file's first slot: the version of the records in it, or zero where there are none.
const RECORDS_ARE: usize = 2;

/// Words of a slot: 512 bytes, addresses in the first cache line; numbers and link headers in the second;
/// records in those behind.
const SLOT_WORDS: usize = 128;
const SLOTS_AT_FIRST: usize = 1_024;

/// Slots that are added at a time, at most: 4 MiB, which the kernel clears while packets wait.
const SLOTS_ADDED_MAX: usize = 8_192;

// Words of a slot.
const IS_VALID: usize = 0;
const KIND: usize = 1;
const SINK: usize = 2;
const SOURCE: usize = 6;
const PORTS: usize = 10;
const NUMBERS: usize = 16;
/// Word that says which of the records is valid: 0 or 1.
const NEWEST: usize = 30;
/// Word that says which of the places of link headers is valid, 0 or 1, and above that bit how many changes
/// of headers there were when they were written.
const LINKS_NEWEST: usize = 31;
const RECORDS: [usize; 2] = [32, 32 + RECORD_WORDS];
const LINKS: [usize; 2] = [22, RECORDS[1] + RECORD_WORDS];

/// Words of a link header: addresses and tag.
const LINK_WORDS: usize = 4;

const KIND_IPV6: u32 = 1;
const KIND_TIMESTAMPS: u32 = 2;
/// By the side the header leads to, shifted by its number: there is one, and it has a tag.
const KIND_LINK: u32 = 4;
const KIND_TAG: u32 = 16;
const KIND_LINKS: u32 = 0b11 * (KIND_LINK | KIND_TAG);

/// A flow of an instance that ended, and how it stood.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Left {
    /// The flow.
    pub entry: JournalEntry,
    /// Side of its sink.
    pub receiver: Port,
    /// Headers in front of packets that go to the wired side, and to the mobile one, where this machine
    /// bridged.
    pub links: [Option<LinkHeader>; 2],
}

impl Left {
    /// The client's address and port, and the server's.
    pub fn client_and_server(&self) -> (SocketAddr, SocketAddr) {
        client_and_server(self.receiver, &self.entry)
    }
}

fn client_and_server(receiver: Port, entry: &JournalEntry) -> (SocketAddr, SocketAddr) {
    match receiver {
        Port::Mobile => (entry.sink, entry.source),
        Port::Wired => (entry.source, entry.sink),
    }
}

/// Tells whoever runs the journals that one of them has no room left, once.
#[derive(Clone, Debug, Default)]
pub(crate) struct FullAlarm {
    why: Arc<OnceLock<String>>,
    is_said: bool,
}

impl FullAlarm {
    fn raise(&self, error: &IoError) {
        // The first one tells it all.
        drop(self.why.set(error.to_string()));
    }

    /// True when a journal has no room left.
    pub fn is_raised(&self) -> bool {
        self.why.get().is_some()
    }

    /// The event to be told, the first time that there is one.
    pub fn take(&mut self) -> Option<Event> {
        let why = self.why.get().filter(|_| !self.is_said)?.clone();
        self.is_said = true;
        Some(Event::JournalFull { why })
    }
}

/// The journal of a running instance.
#[derive(Debug)]
pub(crate) struct FlowJournal {
    words: SharedWords,
    /// It could not grow: no further attempt is made.
    is_full: bool,
    alarm: FullAlarm,
    receiver: Port,
    /// Link headers, where this machine bridges.
    headers: Option<SharedHeaders>,
    /// Somebody may go on with the flows.
    wants_records: bool,
    /// It is the journal of an instance before, whose flows go on here.
    continues: bool,
}

impl FlowJournal {
    /// Makes both of a shard in an instance's directory: for the downlink, for the uplink. They
    /// have the flows' link headers in them if `headers` are given, and all that a successor needs if it
    /// `wants_records`. When they cannot grow any more,
    /// `alarm` is raised.
    pub fn create_both(
        directory: &Path,
        shard: usize,
        headers: Option<&SharedHeaders>,
        wants_records: bool,
        alarm: &FullAlarm,
    ) -> Result<[Self; 2], IoError> {
        let len = (1 + SLOTS_AT_FIRST) * SLOT_WORDS;
        let words = |name: &str| SharedWords::create(&directory.join(file_of(name, shard)), len);
        Self::create_in(words, headers, wants_records, alarm)
    }

    /// The same without names, for a process that must go on although there is no room in its directory: the watchdog
    /// is given their descriptors.
    pub fn create_without_names(
        headers: Option<&SharedHeaders>,
        wants_records: bool,
        alarm: &FullAlarm,
    ) -> Result<[Self; 2], IoError> {
        let len = (1 + SLOTS_AT_FIRST) * SLOT_WORDS;
        Self::create_in(|_| SharedWords::create_without_name(len), headers, wants_records, alarm)
    }

    fn create_in(
        words: impl Fn(&str) -> Result<SharedWords, IoError>,
        headers: Option<&SharedHeaders>,
        wants_records: bool,
        alarm: &FullAlarm,
    ) -> Result<[Self; 2], IoError> {
        let create = |(name, receiver)| {
            let words = words(name)?;
            words.words()[0].store(MAGIC, Ordering::Relaxed);
            words.words()[RECORDS_ARE].store(version_of_records(wants_records), Ordering::Relaxed);
            let (headers, alarm) = (headers.cloned(), alarm.clone());
            Ok(Self { words, is_full: false, alarm, receiver, headers, wants_records, continues: false })
        };
        let [down, up] = FILES;
        Ok([create(down)?, create(up)?])
    }

    /// Another descriptor of its file.
    ///
    /// # Errors
    /// When no descriptor is left.
    pub fn share(&self) -> Result<OwnedFd, IoError> {
        self.words.share()
    }

    /// Both of a shard of the instance whose directory is `before`, which are in `directory` from here on, too:
    /// nothing is written to them as long as that one may go on. None if it writes them differently.
    pub fn continue_both(
        before: &Path,
        directory: &Path,
        shard: usize,
        headers: Option<&SharedHeaders>,
        wants_records: bool,
        alarm: &FullAlarm,
    ) -> Option<[Self; 2]> {
        let open = |(name, receiver)| {
            let words = SharedWords::open(&before.join(file_of(name, shard))).ok()?;
            let word = |at: usize| words.words().get(at).map(|word| word.load(Ordering::Relaxed));
            let is_alike =
                word(0) == Some(MAGIC) && word(RECORDS_ARE) == Some(version_of_records(wants_records));
            let (headers, alarm) = (headers.cloned(), alarm.clone());
            is_alike.then_some(Self {
                words,
                is_full: false,
                alarm,
                receiver,
                headers,
                wants_records,
                continues: true,
            })
        };
        let [down, up] = FILES;
        let both = [open(down)?, open(up)?];
        let files = FILES.map(|(name, _)| file_of(name, shard));
        let is_linked = |file: &String| fs::hard_link(before.join(file), directory.join(file)).is_ok();
        if !files.iter().all(is_linked) {
            // The second one may never have been there.
            files.iter().for_each(|file| drop(fs::remove_file(directory.join(file))));
            return None;
        }
        Some(both)
    }

    /// Writes what the packets of a flow have in front, unless it stands there and has not changed since.
    fn note_links(&self, words: &[AtomicU32], entry: &JournalEntry, is_new: bool) {
        let Some(mut headers) = self.headers.as_ref().map(SharedHeaders::lock) else { return };
        let before = words[LINKS_NEWEST].load(Ordering::Relaxed);
        let changes = headers.changes() << 1;
        if is_new || before & !1 != changes {
            let key = client_and_server(self.receiver, entry);
            let links = Port::BOTH.map(|to| headers.get(key, to));
            write_links(words, links, changes | before & 1 ^ 1);
        }
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
        let slots = (slot as usize + 1).next_power_of_two().min(slot as usize + SLOTS_ADDED_MAX);
        // Rare: each time twice as long. Without room a flow is merely not in the journal.
        let grown = self.words.grow((1 + slots) * SLOT_WORDS);
        self.note_growth(grown);
    }

    fn note_growth(&mut self, grown: Result<(), IoError>) {
        if let Err(error) = grown {
            self.is_full = true;
            self.alarm.raise(&error);
        }
    }
}

impl Journal for FlowJournal {
    fn note(&mut self, slot: u32, entry: &JournalEntry, is_new: bool) {
        if is_new {
            self.make_room(slot);
        }
        let Some(words) = self.slot(slot) else { return };
        if is_new {
            words[IS_VALID].store(0, Ordering::Release);
            write_addresses(words, entry);
        }
        self.note_links(words, entry, is_new);
        let (client_time, server_time) = entry.timestamps.unwrap_or_default();
        let numbers = [
            entry.delivered.get(),
            entry.told.get(),
            entry.sink_next.get(),
            entry.source_ack.get(),
            client_time,
            server_time,
        ];
        for (word, number) in words[NUMBERS..].iter().zip(numbers) {
            word.store(number, Ordering::Relaxed);
        }
        if self.wants_records {
            let newest = words[NEWEST].load(Ordering::Relaxed) & 1 ^ 1;
            let at = RECORDS[newest as usize];
            for (word, value) in words[at..at + RECORD_WORDS].iter().zip(entry.record.words()) {
                word.store(value, Ordering::Relaxed);
            }
            words[NEWEST].store(newest, Ordering::Release);
        }
        if is_new {
            words[IS_VALID].store(1, Ordering::Release);
        }
    }

    fn wants_records(&self) -> bool {
        self.wants_records
    }

    fn continues(&mut self) -> bool {
        // It may have grown meanwhile.
        self.continues && self.words.refresh().is_ok()
    }

    fn begin(&mut self, slot: u32) {
        self.words.words()[IN_HAND].store(slot + 1, Ordering::Relaxed);
    }

    fn end(&mut self) {
        self.words.words()[IN_HAND].store(0, Ordering::Release);
    }

    fn forget(&mut self, slot: u32) {
        if let Some(words) = self.slot(slot) {
            words[IS_VALID].store(0, Ordering::Release);
        }
    }

    fn retire(&mut self) {
        self.words.words()[0].store(0, Ordering::Release);
    }
}

fn version_of_records(wants_records: bool) -> u32 {
    if wants_records { RECORD_VERSION } else { 0 }
}

fn write_addresses(words: &[AtomicU32], entry: &JournalEntry) {
    let mut kind = if entry.timestamps.is_some() { KIND_TIMESTAMPS } else { 0 };
    for (at, address) in [(SINK, entry.sink.ip()), (SOURCE, entry.source.ip())] {
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
    let ports = u32::from(entry.sink.port()) << 16 | u32::from(entry.source.port());
    words[PORTS].store(ports, Ordering::Relaxed);
    words[KIND].store(kind, Ordering::Relaxed);
}

/// Writes link headers where the valid ones are not; `newest` makes them valid.
fn write_links(words: &[AtomicU32], links: [Option<LinkHeader>; 2], newest: u32) {
    let mut kind = words[KIND].load(Ordering::Relaxed) & !KIND_LINKS;
    for (side, link) in links.iter().enumerate() {
        let Some(link) = link else { continue };
        let tag = link.tag.unwrap_or_default();
        kind |= (KIND_LINK | if link.tag.is_some() { KIND_TAG } else { 0 }) << side;
        let bytes = link.addresses.as_chunks::<4>().0.iter().chain([&tag]);
        for (word, bytes) in words[LINKS[newest as usize & 1] + side * LINK_WORDS..].iter().zip(bytes) {
            word.store(u32::from_ne_bytes(*bytes), Ordering::Relaxed);
        }
    }
    words[LINKS_NEWEST].store(newest, Ordering::Release);
    words[KIND].store(kind, Ordering::Release);
}

/// The journals of an instance: they can be read as long as somebody has their descriptors, whatever becomes of their
/// names.
#[derive(Debug, Default)]
pub(crate) struct Journals {
    directory: PathBuf,
    /// Of each shard: downlink, uplink.
    open: Vec<[File; 2]>,
}

impl Journals {
    /// Those in an instance's directory.
    pub fn of(directory: &Path) -> Self {
        Self { directory: directory.to_owned(), open: Vec::new() }
    }

    /// The same, with descriptors of them: two of each shard. Where such a file has been retired, the one of its name
    /// is read.
    pub fn with(directory: &Path, descriptors: Vec<OwnedFd>) -> Self {
        let mut files = descriptors.into_iter().map(File::from);
        let open = std::iter::from_fn(|| Some([files.next()?, files.next()?])).collect();
        Self { directory: directory.to_owned(), open }
    }

    /// Those descriptors.
    pub fn descriptors(&self) -> impl Iterator<Item = BorrowedFd<'_>> {
        self.open.iter().flatten().map(AsFd::as_fd)
    }

    /// For how many shards there are some.
    pub fn shards(&self) -> usize {
        self.open.len()
    }

    /// Forgets them: their flows are dealt with. Who has descriptors of them finds none either.
    pub fn discard(&self) {
        for file in self.open.iter().flatten() {
            // Where that fails, somebody asks hosts that are gone.
            drop(file.write_all_at(&[0; size_of::<u32>()], 0));
        }
        discard(&self.directory);
    }

    /// True when each of them has a name where others look for it.
    pub fn are_named(&self) -> bool {
        let is_named =
            |shard| FILES.iter().all(|(name, _)| self.directory.join(file_of(name, shard)).exists());
        (0..self.shards()).all(is_named)
    }

    /// The flows of the instance, once that has ended. None when there is no journal, or one of another version.
    pub fn read(&self) -> Vec<Left> {
        let is_named =
            |shard: &usize| FILES.iter().any(|(name, _)| self.directory.join(file_of(name, *shard)).exists());
        let shards = (0..).take_while(|shard| *shard < self.open.len() || is_named(shard));
        shards.flat_map(|shard| self.read_shard(shard)).collect()
    }

    /// The same of one shard.
    pub fn read_shard(&self, shard: usize) -> Vec<Left> {
        let read = |at: usize| left_in(&self.words(shard, at).unwrap_or_default(), FILES[at].1);
        [0, 1].into_iter().flat_map(read).collect()
    }

    /// The same, but only those that were owed something.
    pub fn read_owed(&self) -> Vec<Left> {
        let mut left = self.read();
        left.retain(|flow| flow.entry.owes());
        left
    }

    /// The flows of a shard that were being handled when its process ended: they may be what it died of, if it died by
    /// itself.
    pub fn read_in_hand(&self, shard: usize) -> Vec<(SocketAddr, SocketAddr)> {
        [0, 1].into_iter().filter_map(|at| in_hand(&self.words(shard, at)?)).collect()
    }

    /// The words of a file, if it is one of ours.
    fn words(&self, shard: usize, at: usize) -> Option<Vec<u32>> {
        let opened = self.open.get(shard).and_then(|files| read_words(&files[at]));
        opened.or_else(|| read_words(&File::open(self.directory.join(file_of(FILES[at].0, shard))).ok()?))
    }
}

/// The flow that was being handled, by sink and source.
pub(crate) fn in_hand(words: &[u32]) -> Option<(SocketAddr, SocketAddr)> {
    let slot = words.get(IN_HAND)?.checked_sub(1)? as usize;
    let words = words.get((slot + 1) * SLOT_WORDS..(slot + 2) * SLOT_WORDS)?;
    (words[IS_VALID] == 1).then(|| parse(words)).map(|entry| (entry.sink, entry.source))
}

/// The words of a file, if it is one of ours.
fn read_words(file: &File) -> Option<Vec<u32>> {
    let mut bytes = vec![0; file.metadata().ok()?.len() as usize];
    // Others have the same descriptor, with its place.
    file.read_exact_at(&mut bytes, 0).ok()?;
    words_of(&bytes)
}

/// The same of the bytes of a file.
pub(crate) fn words_of(bytes: &[u8]) -> Option<Vec<u32>> {
    let words: Vec<u32> = bytes.as_chunks::<4>().0.iter().map(|bytes| u32::from_ne_bytes(*bytes)).collect();
    (words.first() == Some(&MAGIC)).then_some(words)
}

/// The flows in the words of a file.
pub(crate) fn left_in(words: &[u32], receiver: Port) -> Vec<Left> {
    let valid = words.chunks_exact(SLOT_WORDS).skip(1).filter(|words| words[IS_VALID] == 1);
    valid
        .map(|words| Left { entry: parse(words), receiver, links: [0, 1].map(|side| link(words, side)) })
        .collect()
}

fn link(words: &[u32], side: usize) -> Option<LinkHeader> {
    let has = |kind: u32| words[KIND] & kind << side != 0;
    has(KIND_LINK).then(|| {
        let mut link = LinkHeader::default();
        let at = LINKS[words[LINKS_NEWEST] as usize & 1] + side * LINK_WORDS;
        for (bytes, word) in link.addresses.as_chunks_mut::<4>().0.iter_mut().zip(&words[at..]) {
            *bytes = word.to_ne_bytes();
        }
        link.tag = has(KIND_TAG).then(|| words[at + LINK_WORDS - 1].to_ne_bytes());
        link
    })
}

/// Forgets them: their flows are dealt with.
pub(crate) fn discard(directory: &Path) {
    for (file, _) in files(directory) {
        // It goes with the directory otherwise.
        drop(std::fs::remove_file(file));
    }
}

/// The valid record of a slot; none when it is damaged, or of another version.
fn record(words: &[u32]) -> Option<FlowRecord> {
    let at = *RECORDS.get(words[NEWEST] as usize)?;
    FlowRecord::of_words(words.get(at..at + RECORD_WORDS)?.first_chunk()?)
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
        sink: SocketAddr::new(address(SINK), (words[PORTS] >> 16) as u16),
        source: SocketAddr::new(address(SOURCE), words[PORTS] as u16),
        delivered: number(0),
        told: number(1),
        sink_next: number(2),
        source_ack: number(3),
        timestamps: (words[KIND] & KIND_TIMESTAMPS != 0).then_some((words[NUMBERS + 4], words[NUMBERS + 5])),
        record: record(words).unwrap_or_default(),
    }
}

#[cfg(test)]
mod tests {
    use units::Instant;

    use super::*;

    fn entry(n: u32) -> JournalEntry {
        let [sink, source] = if n.is_multiple_of(2) {
            ["10.1.0.2:40000", "10.2.0.2:80"]
        } else {
            ["[fd01::2]:40000", "[fd02::2]:443"]
        };
        JournalEntry {
            sink: sink.parse().unwrap(),
            source: source.parse().unwrap(),
            delivered: SeqNum::new(u32::MAX - n),
            told: SeqNum::new(10),
            sink_next: SeqNum::new(n),
            source_ack: SeqNum::new(n),
            timestamps: n.is_multiple_of(3).then_some((1, n)),
            record: FlowRecord::default(),
        }
    }

    fn owed(entry: JournalEntry, receiver: Port) -> Left {
        Left { entry, receiver, links: [None; 2] }
    }

    #[test]
    fn what_is_owed_survives_and_what_is_settled_does_not() {
        let scratch = tempfile::tempdir().unwrap();
        let directory = scratch.path();
        let down = |n| owed(entry(n), Port::Mobile);
        assert!(Journals::of(directory).read().is_empty(), "there is none");
        let [mut journal, mut uplink] =
            FlowJournal::create_both(directory, 0, None, true, &FullAlarm::default()).unwrap();
        assert!(Journals::of(directory).read().is_empty());
        for slot in [0, 1, 2, 5_000] {
            journal.note(slot, &entry(slot), true);
        }
        let newer = JournalEntry { delivered: SeqNum::new(3), ..entry(1) };
        journal.note(1, &newer, false);
        journal.forget(2);
        assert_eq!(Journals::of(directory).read(), [down(0), owed(newer, Port::Mobile), down(5_000)]);
        journal.note(2, &entry(3), true);
        assert_eq!(Journals::of(directory).read()[2], down(3), "the slot is used again");
        uplink.note(0, &entry(4), true);
        let [mut other_shard, _] =
            FlowJournal::create_both(directory, 1, None, true, &FullAlarm::default()).unwrap();
        other_shard.note(0, &entry(5), true);
        drop((journal, uplink, other_shard));
        let last = [owed(entry(4), Port::Wired), down(5)];
        assert_eq!(Journals::of(directory).read()[4..], last);
        std::fs::write(directory.join(FILES[0].0), [7; 4_096]).unwrap();
        assert_eq!(Journals::of(directory).read(), last, "the first is not ours");
        discard(directory);
        assert!(Journals::of(directory).read().is_empty());
    }

    /// Words that only a killed process leaves: a record is written, and not yet the word that makes it valid.
    #[test]
    fn h02_a_record_that_is_half_written_is_not_read_and_a_damaged_one_is_none() {
        let scratch = tempfile::tempdir().unwrap();
        let [mut journal, _] =
            FlowJournal::create_both(scratch.path(), 0, None, true, &FullAlarm::default()).unwrap();
        let first = entry(0);
        journal.note(3, &first, true);
        journal.begin(3);
        assert_eq!(Journals::of(scratch.path()).read_in_hand(0), [(first.sink, first.source)]);
        let words = journal.slot(3).unwrap();
        let newest = words[NEWEST].load(Ordering::Relaxed);
        let next = RECORDS[(newest ^ 1) as usize];
        words[next..next + RECORD_WORDS / 2].iter().for_each(|word| word.store(7, Ordering::Relaxed));
        assert_eq!(Journals::of(scratch.path()).read()[0].entry.record, first.record, "the one before");
        words[NEWEST].store(newest ^ 1, Ordering::Relaxed);
        assert_eq!(record(&words.iter().map(|word| word.load(Ordering::Relaxed)).collect::<Vec<_>>()), None);
        journal.end();
        assert!(Journals::of(scratch.path()).read_in_hand(0).is_empty());
    }

    #[test]
    fn h34_who_continues_a_journal_writes_where_the_one_before_has_written() {
        let (before, after) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
        let alarm = FullAlarm::default();
        let [mut old, mut old_up] = FlowJournal::create_both(before.path(), 0, None, true, &alarm).unwrap();
        let first = owed(entry(0), Port::Mobile);
        old.note(0, &first.entry, true);
        let continued = |wants_records| {
            FlowJournal::continue_both(before.path(), after.path(), 0, None, wants_records, &alarm)
        };
        assert!(continued(false).is_none() && !after.path().join("journal").exists(), "without records");
        let [mut new, _] = continued(true).unwrap();
        assert!(!old.continues() && !old_up.continues());
        let later = SLOTS_AT_FIRST as u32 + 5;
        old.note(later, &entry(2), true);
        assert_eq!(
            Journals::of(after.path()).read(),
            [first, owed(entry(2), Port::Mobile)],
            "as the other one has it"
        );
        drop((old, old_up));
        discard(before.path());
        assert!(new.continues());
        let newer = JournalEntry { delivered: SeqNum::new(3), ..entry(2) };
        new.note(later, &newer, false);
        new.note(1, &entry(1), true);
        assert_eq!(
            Journals::of(after.path()).read(),
            [entry(0), entry(1), newer].map(|entry| owed(entry, Port::Mobile))
        );
        std::fs::write(before.path().join("journal"), [7; 4_096]).unwrap();
        discard(after.path());
        assert!(continued(true).is_none() && !after.path().join("journal").exists(), "it is not ours");
    }

    #[test]
    fn a_full_journal_is_told_of_once_and_keeps_what_it_has() {
        let scratch = tempfile::tempdir().unwrap();
        let mut alarm = FullAlarm::default();
        let [mut down, mut up] = FlowJournal::create_both(scratch.path(), 0, None, true, &alarm).unwrap();
        down.note(0, &entry(0), true);
        assert_eq!(alarm.take(), None);
        for journal in [&mut down, &mut up] {
            let error = std::io::Error::from(std::io::ErrorKind::StorageFull);
            journal.note_growth(Err(IoError::system("reserve 9 bytes for a journal", error)));
        }
        let line = alarm.take().unwrap().line();
        assert!(line.starts_with("warning: the journal is full (cannot reserve 9 bytes"), "{line}");
        assert_eq!(alarm.take(), None, "said once");
        down.note(1, &entry(2), true);
        down.note(SLOTS_AT_FIRST as u32, &entry(3), true);
        assert_eq!(
            Journals::of(scratch.path()).read(),
            [0, 2].map(|n| owed(entry(n), Port::Mobile)),
            "no attempt to grow"
        );
    }

    #[test]
    fn h13_link_headers_survive_by_the_side_they_lead_to() {
        let scratch = tempfile::tempdir().unwrap();
        let header = |n: u8, tag| LinkHeader { addresses: [n; 12], tag };
        let (plain, tagged) = (header(1, None), header(2, Some([0x81, 0, 0x20, 7])));
        let headers = SharedHeaders::new(1);
        for to in Port::BOTH {
            headers.lock().learn((entry(0).sink, entry(0).source), to, plain, Instant::ZERO);
        }
        let [mut journal, mut uplink] =
            FlowJournal::create_both(scratch.path(), 0, Some(&headers), true, &FullAlarm::default()).unwrap();
        journal.note(0, &entry(0), true);
        headers.lock().learn((entry(1).sink, entry(1).source), Port::Mobile, tagged, Instant::ZERO);
        journal.note(1, &entry(1), true);
        let up = JournalEntry { sink: entry(0).source, source: entry(0).sink, ..entry(0) };
        uplink.note(0, &up, true);
        let both = [Some(plain), Some(plain)];
        let wanted = [
            Left { links: both, ..owed(entry(0), Port::Mobile) },
            Left { links: [None, Some(tagged)], ..owed(entry(1), Port::Mobile) },
            Left { links: both, ..owed(up, Port::Wired) },
        ];
        assert_eq!(Journals::of(scratch.path()).read(), wanted);
        // A router has taken another one's place: the next packet of the flow is noted with its address.
        let other = header(3, None);
        headers.lock().learn((entry(0).sink, entry(0).source), Port::Wired, other, Instant::ZERO);
        journal.note(0, &entry(0), false);
        let now = Journals::of(scratch.path()).read();
        assert_eq!((now[0].links, now[2].links), ([Some(other); 2], both));
        let words = journal.slot(0).unwrap();
        let newest = words[LINKS_NEWEST].load(Ordering::Relaxed);
        words[LINKS[newest as usize & 1 ^ 1]].store(7, Ordering::Relaxed);
        assert_eq!(Journals::of(scratch.path()).read()[0].links, now[0].links, "half written, and not valid");
    }

    #[test]
    fn who_has_their_descriptors_reads_journals_whose_names_are_gone() {
        let scratch = tempfile::tempdir().unwrap();
        let create =
            || FlowJournal::create_both(scratch.path(), 0, None, true, &FullAlarm::default()).unwrap();
        let share = |journals: &[FlowJournal; 2]| journals.iter().map(|one| one.share().unwrap()).collect();
        let mut old = create();
        let journals = Journals::with(scratch.path(), share(&old));
        old[0].note(3, &entry(2), true);
        old[0].begin(3);
        discard(scratch.path());
        let wanted = [owed(entry(2), Port::Mobile)];
        assert_eq!(journals.read(), wanted);
        assert_eq!(journals.read_in_hand(0), [(entry(2).sink, entry(2).source)]);
        assert!(Journals::of(scratch.path()).read().is_empty());
        // Others have all entries: those are read by their names.
        let mut new = create();
        let other = JournalEntry { delivered: SeqNum::new(3), ..entry(2) };
        new[0].note(3, &other, true);
        assert_eq!(journals.read(), wanted, "as long as it is not retired");
        old.iter_mut().for_each(Journal::retire);
        assert_eq!(journals.read(), [owed(other, Port::Mobile)]);
        journals.discard();
        // Without a name there are only descriptors.
        let mut nameless = FlowJournal::create_without_names(None, true, &FullAlarm::default()).unwrap();
        nameless[1].note(5_000, &entry(4), true);
        let journals = Journals::with(scratch.path(), share(&nameless));
        assert_eq!((journals.read(), journals.shards()), (vec![owed(entry(4), Port::Wired)], 1));
        journals.discard();
        assert!(journals.read().is_empty(), "for all who have descriptors");
    }
}
