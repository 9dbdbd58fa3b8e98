//! Reuse, exhaustion, joining; and that a ring which grows is whole in the file at any time.

use std::os::unix::fs::FileExt;

use proptest::prelude::*;
use tcp::{Ring, StreamBuffer};
use units::SeqNum;

use super::*;

const KIB: usize = 1_024;

#[test]
fn what_is_given_back_is_lent_again_and_what_is_used_up_refused() {
    let arena = RingArena::new(64 * KIB).unwrap();
    let ring = Ring::of_provider(arena.clone());
    let mut rings: Vec<Ring> = (0..16).map(|_| ring.another(4 * KIB).unwrap()).collect();
    assert_eq!(arena.free(), 0);
    assert!(ring.another(4 * KIB).is_err(), "refused, and no panic");
    // Two that are no buddies make no larger one; with its buddy it does.
    drop((rings.remove(2), rings.remove(0)));
    assert_eq!(arena.free(), 0, "somebody may still look for what is in them");
    arena.recycle();
    assert_eq!(arena.free(), 8 * KIB);
    assert!(ring.another(8 * KIB).is_err());
    drop(rings.remove(0));
    arena.recycle();
    assert!(ring.another(8 * KIB).is_ok());
    drop(rings);
    arena.recycle();
    assert_eq!(arena.free(), 64 * KIB);
    assert!(ring.another(64 * KIB).is_ok(), "all is one again");
    assert!(ring.another(128 * KIB).is_err(), "more than there is");
}

#[test]
fn an_arena_of_any_length_is_used_to_the_end() {
    let arena = RingArena::new(100 * KIB + 1).unwrap();
    assert_eq!(arena.free(), 104 * KIB, "whole pages");
    let ring = Ring::of_provider(arena.clone());
    let rings = [64, 32, 8].map(|kib| ring.another(kib * KIB).unwrap());
    assert_eq!(arena.free(), 0);
    drop(rings);
    arena.recycle();
    assert!(ring.another(64 * KIB).is_ok());
    assert_eq!(RingArena::new(0).unwrap().free(), 4 * KIB);
}

#[test]
fn what_is_no_block_is_neither_lent_nor_taken() {
    let arena = RingArena::new(64 * KIB).unwrap();
    for len in [0, 1, 2_048, 4_097, 12 * KIB] {
        assert!(arena.allocate(len).is_none(), "{len}");
    }
    arena.give_back(vec![0; 4 * KIB].leak());
    let (half, rest) = arena.allocate(16 * KIB).unwrap().split_at_mut(8 * KIB);
    arena.give_back(half);
    arena.recycle();
    assert_eq!(arena.free(), 48 * KIB, "of half a block the other half is still used");
    rest.fill(1);
    assert_eq!(arena.free(), 48 * KIB);
}

/// Bytes of memory that the arena's file has.
fn used(arena: &RingArena) -> u64 {
    arena.file.metadata().unwrap().blocks() * 512
}

/// Has the time go by after which pages are idle, without waiting for it, and all idle ones released.
fn pass_time(arena: &RingArena) {
    for _ in 0..2 {
        arena.blocks().aged_at = Instant::ZERO;
        arena.blocks().age(Clock::now());
    }
    while arena.blocks().take_idle(0, 1).is_some_and(|(page, count)| {
        arena.release(page, count);
        true
    }) {}
}

#[test]
fn memory_that_is_not_lent_for_a_while_goes_back_to_the_kernel() {
    let arena = RingArena::new(64 << 20).unwrap();
    let lend = |len: usize| {
        let memory = arena.allocate(len).unwrap();
        memory.fill(1);
        memory
    };
    let large: Vec<_> = (0..6).map(|_| lend(1 << 20)).collect();
    let small: Vec<_> = (0..100).map(|_| lend(8 * KIB)).collect();
    let all = used(&arena);
    assert_eq!(all, (6 << 20) + 100 * 8 * KIB as u64);
    pass_time(&arena);
    assert_eq!(used(&arena), all, "it is lent");
    small.into_iter().for_each(|memory| arena.give_back(memory));
    large.into_iter().skip(1).for_each(|memory| arena.give_back(memory));
    pass_time(&arena);
    assert_eq!(used(&arena), all, "somebody may still look for what is in them");
    arena.recycle();
    arena.release_idle();
    assert_eq!(used(&arena), all, "it may be used again soon");
    let again = lend(1 << 20);
    assert_eq!(used(&arena), all, "as this one");
    pass_time(&arena);
    assert_eq!(used(&arena), 2 << 20, "what is lent");
    assert!(again.iter().all(|byte| *byte == 1));
    arena.give_back(again);
    arena.recycle();
    pass_time(&arena);
    assert_eq!(used(&arena), 1 << 20);
    lend(1 << 20);
    assert_eq!(used(&arena), 2 << 20);
}

/// A stream that stands still has memory for what is kept alone, however that lies in its ring.
#[test]
fn what_stands_still_takes_no_more_than_its_content() {
    let arena = RingArena::new(4 << 20).unwrap();
    let ring = Ring::of_provider(arena.clone());
    for before in [200_000, 400_000] {
        let mut buffer = StreamBuffer::with_ring(SeqNum::new(0), ring.without_memory());
        let stream: Vec<u8> = (0..before + 300_000).map(|i| (i % 251) as u8).collect();
        let (mut at, len) = (SeqNum::new(0), stream.len());
        for part in stream.chunks(10_000) {
            buffer.write(at, part).unwrap();
            at += part.len() as u32;
            // No more than 300,000 bytes are kept.
            buffer.advance_to(at - 300_000);
        }
        arena.recycle();
        pass_time(&arena);
        assert_eq!((buffer.len(), buffer.capacity()), (300_000, 512 * KIB));
        let moving = used(&arena);
        buffer.trim();
        assert_eq!(used(&arena), moving, "it has moved");
        buffer.trim();
        let still = used(&arena);
        assert!((300_000..300_000 + 3 * 4 * KIB as u64).contains(&still), "{moving} B, then {still} B");
        let (first, second) = buffer.slices(buffer.start(), 300_000);
        assert!([first, second].concat() == stream[len - 300_000..]);
        // It goes on.
        buffer.write(at, &[7; 100_000]).unwrap();
        assert!(buffer.slices(at, 100_000).0.iter().all(|byte| *byte == 7));
        drop(buffer);
        arena.recycle();
        pass_time(&arena);
        assert_eq!(used(&arena), 0);
    }
}

/// Of memory that another process had, also that goes back which it had not lent any more.
#[test]
fn memory_of_another_process_that_nobody_takes_over_goes_back() {
    let arena = RingArena::new(1 << 20).unwrap();
    let blocks = [16, 32, 64].map(|kib| arena.allocate(kib * KIB).unwrap());
    let place = arena.offset_of(blocks[1]).unwrap() as u64;
    blocks.into_iter().for_each(|memory| memory.fill(7));
    let successor = RingArena::open(arena.as_fd().try_clone_to_owned().unwrap()).unwrap();
    let taken = successor.take_over(place, 32 * KIB).unwrap();
    successor.release_idle();
    assert_eq!(used(&arena), 112 * KIB as u64, "it may be the other one's still");
    successor.own();
    pass_time(&successor);
    assert_eq!(used(&arena), 32 * KIB as u64);
    assert!(taken.iter().all(|byte| *byte == 7));
}

/// Looks into the file when a ring comes back, as a successor would if the process ended there.
#[derive(Debug)]
struct Watching {
    arena: Arc<RingArena>,
    /// Place of the ring that was lent last, and its length.
    newest: Mutex<(usize, usize)>,
    /// Bytes that it held whenever another one came back.
    seen: Mutex<Vec<Vec<u8>>>,
}

impl RingProvider for Watching {
    fn allocate(&self, len: usize) -> Option<&'static mut [u8]> {
        let memory = self.arena.allocate(len)?;
        *self.newest.lock().unwrap() = (self.arena.offset_of(memory).unwrap(), len);
        Some(memory)
    }
    fn give_back(&self, memory: &'static mut [u8]) {
        let (offset, len) = *self.newest.lock().unwrap();
        let mut bytes = vec![0; len];
        self.arena.file.read_exact_at(&mut bytes, offset as u64).unwrap();
        self.seen.lock().unwrap().push(bytes);
        self.arena.give_back(memory);
    }
}

/// INVARIANT of [`StreamBuffer`]: one ring is whole at any point of time.
#[test]
fn when_an_old_ring_is_given_back_the_new_one_is_whole_in_the_file() {
    let arena = RingArena::new(1 << 20).unwrap();
    let watching = Arc::new(Watching { arena, newest: Mutex::default(), seen: Mutex::default() });
    let mut buffer = StreamBuffer::with_ring(SeqNum::new(0), Ring::of_provider(watching.clone()));
    let stream: Vec<u8> = (0..100_000u32).map(|i| (i % 251) as u8).collect();
    for (index, part) in stream.chunks(1_000).enumerate() {
        buffer.write(SeqNum::new(1_000 * index as u32), part).unwrap();
    }
    let seen = watching.seen.lock().unwrap().clone();
    // 4, 8, 16, 32 and 64 KiB came back, when the next larger one held what they had held.
    let lens: Vec<usize> = seen.iter().map(|bytes| bytes.len() / KIB).collect();
    assert_eq!(lens, [8, 16, 32, 64, 128]);
    for bytes in seen {
        let held = bytes.len() / 2 / 1_000 * 1_000;
        assert!(bytes[..held] == stream[..held], "{} KiB", bytes.len() / KIB);
    }
    drop(buffer);
    watching.arena.recycle();
    assert_eq!(watching.arena.free(), 1 << 20);
}

proptest! {
    /// Whatever is lent and given back: nothing overlaps, and in the end all is one again.
    #[test]
    fn blocks_never_overlap(pages in 1u32..300, ops in proptest::collection::vec((0u8..7, 0usize..20), 1..200)) {
        let mut blocks = Blocks::new(pages);
        let all = blocks.free.clone();
        let mut lent: Vec<(u32, u8)> = Vec::new();
        for (order, index) in ops {
            if index < 10 {
                let room = blocks.free.iter().skip(order.into()).any(|free| !free.is_empty());
                let block = blocks.lend(order);
                prop_assert_eq!(block.is_some(), room);
                lent.extend(block.map(|page| (page, order)));
            } else if index < lent.len() {
                let (page, order) = lent.swap_remove(index);
                blocks.take_back(page, order);
            }
            let mut owners = vec![0; pages as usize];
            let free = blocks.free.iter().enumerate();
            let free = free.flat_map(|(order, set)| set.iter().map(move |&page| (page, order as u8)));
            for (page, order) in free.chain(lent.iter().copied()) {
                prop_assert_eq!(page % (1 << order), 0);
                (page..page + (1 << order)).for_each(|page| owners[page as usize] += 1);
            }
            prop_assert!(owners.iter().all(|&n| n == 1));
        }
        // Whoever has the same memory next finds each block at its place, and nothing else.
        let mut next = Blocks::of_another(pages);
        for &(page, order) in lent.iter().rev() {
            prop_assert!(next.lend_at(page, order));
            prop_assert!(!next.lend_at(page, order), "it is lent already");
            prop_assert!(!next.lend_at(page, order + 1), "a part of it is");
        }
        prop_assert!(!next.lend_at(pages, 0) && !next.lend_at(0, 9) && !next.lend_at(0, 60), "beyond the end");
        prop_assert_eq!(next.free_pages(), blocks.free_pages());
        next.settle();
        prop_assert_eq!(&next.free, &blocks.free);
        prop_assert_eq!(&next.lent, &blocks.lent);
        lent.into_iter().for_each(|(page, order)| blocks.take_back(page, order));
        prop_assert_eq!(blocks.free, all);
    }
}

/// A buffer that is stored, and restored by who has the file next: the bytes stay where they are.
#[test]
fn held_data_stays_where_it_is_when_another_process_goes_on() {
    let arena = RingArena::new(1 << 20).unwrap();
    let mut buffer = StreamBuffer::with_ring(SeqNum::new(5), Ring::of_provider(arena.clone()));
    buffer.write(SeqNum::new(5), &[7; 9_000]).unwrap();
    buffer.advance_to(SeqNum::new(4_005));
    let image = stored::to_bytes(&buffer);
    assert!(image.len() < 100, "no byte of it is copied: {}", image.len());
    let next = RingArena::open(arena.as_fd().try_clone_to_owned().unwrap()).unwrap();
    let origin = Ring::of_provider(next.clone());
    let restore = || stored::Reader::new(1, &image).within(&origin).value::<StreamBuffer>();
    let restored = restore().unwrap();
    assert_eq!(
        (restored.start(), restored.len(), restored.capacity()),
        (SeqNum::new(4_005), 5_000, 16 * KIB)
    );
    assert_eq!(restored.slices(SeqNum::new(4_005), 6_000), (&[7; 5_000][..], &[][..]));
    assert_eq!(next.free(), arena.free());
    assert!(restore().is_err(), "it is taken over already");
    // As long as the other process may go on, all stays as it is.
    assert!(origin.another(4 * KIB).is_err());
    drop(restored);
    assert_eq!(buffer.slices(SeqNum::new(4_005), 6_000), (&[7; 5_000][..], &[][..]));
    let next = RingArena::open(arena.as_fd().try_clone_to_owned().unwrap()).unwrap();
    let origin = Ring::of_provider(next.clone());
    let restored = stored::Reader::new(1, &image).within(&origin).value::<StreamBuffer>().unwrap();
    next.own();
    std::mem::forget(buffer);
    assert!(origin.another(4 * KIB).is_ok());
    drop(restored);
    next.recycle();
    assert_eq!(next.free(), 1 << 20);
}

#[test]
fn only_an_arena_is_opened() {
    let error = |file: &std::path::Path| {
        let file = File::open(file).unwrap();
        RingArena::open(file.into()).unwrap_err().to_string()
    };
    assert!(error("/dev/null".as_ref()).contains("no memory of ours"));
    assert!(error(&std::env::current_exe().unwrap()).contains("no memory of ours"));
}
