//! Tests against a plain vector; memory that grows, is trimmed, given back and refused.

use std::sync::{Arc, Mutex};

use super::*;
use crate::RingProvider;
use proptest::prelude::*;

fn read(buffer: &StreamBuffer, seq: SeqNum, len: usize) -> Vec<u8> {
    let (a, b) = buffer.slices(seq, len);
    [a, b].concat()
}

proptest! {
    /// Compares with a plain vector: whatever is written can be read back at its number, across the wrap.
    #[test]
    fn behaves_like_an_indexed_stream(
        isn: u32,
        ops in proptest::collection::vec((0usize..9_000, 1usize..5_000, 0usize..4_000), 1..40),
    ) {
        let origin = SeqNum::new(isn);
        let mut buffer = StreamBuffer::new(origin);
        let mut model: Vec<Option<u8>> = Vec::new();
        let mut start = 0usize;
        for (i, (ahead, len, advance)) in ops.into_iter().enumerate() {
            let at = start + ahead;
            let bytes: Vec<u8> = (0..len).map(|k| (i * 31 + k) as u8).collect();
            buffer.write(origin + at as u32, &bytes).unwrap();
            if model.len() < at + len { model.resize(at + len, None); }
            for (k, b) in bytes.iter().enumerate() { model[at + k] = Some(*b); }
            start += advance;
            buffer.advance_to(origin + start as u32);
            prop_assert_eq!(buffer.len(), model.len().saturating_sub(start));
            for (pos, byte) in model.iter().enumerate().skip(start) {
                if let Some(byte) = byte {
                    prop_assert_eq!(read(&buffer, origin + pos as u32, 1), vec![*byte]);
                }
            }
        }
    }
}

#[test]
fn what_lies_before_the_start_is_left_out() {
    let mut buffer = StreamBuffer::new(SeqNum::new(100));
    buffer.write(SeqNum::new(97), b"abcdef").unwrap();
    assert_eq!(read(&buffer, SeqNum::new(100), 10), b"def");
    buffer.write(SeqNum::new(50), b"old").unwrap();
    assert_eq!(buffer.len(), 3);
    assert_eq!(read(&buffer, SeqNum::new(99), 1), b"");
}

#[test]
fn a_ring_much_too_large_is_trimmed_while_in_use() {
    let mut buffer = StreamBuffer::new(SeqNum::new(7));
    buffer.write(SeqNum::new(7), &vec![1; 1 << 20]).unwrap();
    buffer.advance_to(SeqNum::new(7 + (1 << 20) - 3));
    buffer.write(SeqNum::new(7 + (1 << 20)), b"abc").unwrap();
    buffer.trim();
    assert_eq!(buffer.capacity(), 1 << 20, "all of it was in use a moment ago");
    buffer.write(SeqNum::new(7 + (1 << 20) + 3), &vec![2; 100_000]).unwrap();
    buffer.trim();
    assert_eq!(buffer.capacity(), 1 << 18);
    assert_eq!(read(&buffer, SeqNum::new(7 + (1 << 20) - 3), 7), [1, 1, 1, b'a', b'b', b'c', 2]);
    assert_eq!(buffer.len(), 100_006);
    buffer.advance_to(SeqNum::new(7 + (1 << 20) + 100_000));
    buffer.trim();
    buffer.trim();
    assert_eq!((buffer.capacity(), buffer.len()), (TRIMMED_MIN, 3));
}

#[test]
fn memory_is_given_back() {
    let mut buffer = StreamBuffer::new(SeqNum::new(0));
    assert_eq!(buffer.capacity(), 0);
    buffer.write(SeqNum::new(0), &[7; 10_000]).unwrap();
    assert_eq!(buffer.capacity(), 16_384);
    buffer.release_if_empty();
    assert_eq!(buffer.capacity(), 16_384);
    buffer.advance_to(SeqNum::new(10_000));
    buffer.release_if_empty();
    assert_eq!(buffer.capacity(), 0);
    buffer.write(SeqNum::new(10_000), b"again").unwrap();
    assert_eq!(read(&buffer, SeqNum::new(10_000), 5), b"again");
}

/// Request made to a [`Checking`] provider.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Event {
    Lent(usize),
    Refused(usize),
    /// Contents of the memory when it came back.
    GivenBack(Vec<u8>),
}

/// Lends memory of at most this many bytes at once, full of rubbish, and notes what happens.
#[derive(Debug)]
struct Checking {
    len_max: usize,
    events: Mutex<Vec<Event>>,
}

impl Checking {
    fn new(len_max: usize) -> Arc<Self> {
        Arc::new(Self { len_max, events: Mutex::default() })
    }
    fn events(&self) -> Vec<Event> {
        std::mem::take(&mut self.events.lock().unwrap())
    }
    fn note(&self, event: Event) {
        self.events.lock().unwrap().push(event);
    }
}

impl RingProvider for Checking {
    fn allocate(&self, len: usize) -> Option<&'static mut [u8]> {
        assert!(len.is_power_of_two());
        let may = len <= self.len_max;
        self.note(if may { Event::Lent(len) } else { Event::Refused(len) });
        may.then(|| vec![0xa5; len].leak())
    }
    fn give_back(&self, memory: &'static mut [u8]) {
        self.note(Event::GivenBack(memory.to_vec()));
        // A reader that still looked at it would see this.
        memory.fill(0x5a);
    }
}

/// 6,000 bytes that lie across the wrap of a ring of 8 KiB.
fn wrapped(provider: &Arc<Checking>) -> (StreamBuffer, Vec<u8>) {
    let origin = SeqNum::new(0);
    let mut buffer = StreamBuffer::with_ring(origin, Ring::of_provider(provider.clone()));
    let bytes: Vec<u8> = (0..8_000 + 3_000u32).map(|i| (i % 251) as u8).collect();
    buffer.write(origin, &bytes[..8_000]).unwrap();
    buffer.advance_to(origin + 5_000);
    buffer.write(origin + 8_000, &bytes[8_000..]).unwrap();
    (buffer, bytes[5_000..].to_vec())
}

/// INVARIANT of [`StreamBuffer`]: one ring is whole at any point of time.
#[test]
fn a_ring_that_grows_is_whole_before_the_old_one_is_given_back() {
    let provider = Checking::new(1 << 20);
    let (mut buffer, kept) = wrapped(&provider);
    assert_eq!(provider.events(), [Event::Lent(8_192)]);
    let old = buffer.ring.bytes().to_vec();
    buffer.reserve(SeqNum::new(5_000 + 9_000)).unwrap();
    // The old one comes back last, with all that it held: until then it was the whole one.
    assert_eq!(provider.events(), [Event::Lent(16_384), Event::GivenBack(old.clone())]);
    assert_eq!([&old[5_000..8_192], &old[..2_808]].concat(), kept);
    assert_eq!(read(&buffer, SeqNum::new(5_000), 20_000), kept, "and the new one has it all");
    drop(buffer);
    assert!(matches!(&provider.events()[..], [Event::GivenBack(memory)] if memory.starts_with(&kept)));
}

#[test]
fn a_ring_that_is_refused_changes_nothing() {
    let provider = Checking::new(8_192);
    let (mut buffer, kept) = wrapped(&provider);
    provider.events();
    assert_eq!(buffer.write(SeqNum::new(11_000), &[1; 5_000]), Err(NoMemory));
    assert_eq!(buffer.reserve(SeqNum::new(40_000)), Err(NoMemory));
    assert_eq!(provider.events(), [Event::Refused(16_384), Event::Refused(65_536)]);
    assert_eq!((buffer.len(), read(&buffer, SeqNum::new(5_000), 20_000)), (6_000, kept));
    buffer.write(SeqNum::new(11_000), b"what fits").unwrap();
    assert_eq!(read(&buffer, SeqNum::new(11_000), 9), b"what fits");
}

#[test]
fn trimming_needs_memory_too() {
    let provider = Checking::new(1 << 20);
    let mut buffer = StreamBuffer::with_ring(SeqNum::new(0), Ring::of_provider(provider.clone()));
    buffer.write(SeqNum::new(0), &vec![7; 1 << 20]).unwrap();
    buffer.advance_to(SeqNum::new((1 << 20) - 10));
    let events = provider.events();
    assert_eq!(events, [Event::Lent(1 << 20)]);
    buffer.trim();
    buffer.trim();
    let events = provider.events();
    assert!(matches!(events[..], [Event::Lent(TRIMMED_MIN), Event::GivenBack(_)]), "{}", events.len());
    assert_eq!(read(&buffer, SeqNum::new((1 << 20) - 10), 10), [7; 10]);
}

#[test]
fn memory_that_is_passed_on_is_not_given_back() {
    let provider = Checking::new(1 << 20);
    let (mut one, _) = wrapped(&provider);
    assert!(one.take_ring().is_empty(), "it is in use");
    one.advance_to(SeqNum::new(11_000));
    let ring = one.take_ring();
    assert_eq!((ring.len(), one.capacity()), (8_192, 0));
    let mut other = StreamBuffer::new(SeqNum::new(0));
    assert!(!ring.is_of_origin(&Ring::on_heap()) && ring.is_of_origin(&Ring::of_provider(provider.clone())));
    other.adopt(ring);
    other.write(SeqNum::new(0), b"abc").unwrap();
    assert_eq!(provider.events(), [Event::Lent(8_192)]);
    one.write(SeqNum::new(11_000), b"abc").unwrap();
    assert_eq!(provider.events(), [Event::Lent(4_096)], "an emptied buffer asks where it asked before");
    drop((one, other));
    assert_eq!(provider.events().len(), 2, "both are given back");
}

#[test]
fn what_is_not_kept_is_left_out_at_either_end() {
    let mut buffer = StreamBuffer::new(SeqNum::new(0));
    assert!(buffer.is_empty());
    buffer.write(SeqNum::new(0), b"abcdef").unwrap();
    buffer.advance_to(SeqNum::new(2));
    assert!(!buffer.is_empty());
    assert_eq!(read(&buffer, SeqNum::new(4), 100), b"ef");
    assert_eq!(read(&buffer, SeqNum::new(6), 1), b"");
}

#[test]
fn rings_of_the_heap_are_of_one_origin() {
    let [empty, full] = [Ring::on_heap(), Ring::on_heap().another(4_096).unwrap()];
    assert!(empty.is_of_origin(&full) && full.is_of_origin(&empty));
    assert!(format!("{full:?}").contains("4096"), "{full:?}");
}
