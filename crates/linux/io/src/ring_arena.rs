//! [`RingArena`]: memory for the rings of held data that outlives the process.
//!
//! One anonymous file is mapped; whoever has its descriptor, a successor say, finds in it what was there when
//! the process ended, however it ended. Blocks are powers of two of pages, split and joined as buddies are
//! (Knowlton 1965):
//!
//! ```text
//!   64 KiB lent:   │ 4 │ 4 │  8    │      16       │              32               │
//!                    └── given back: joins its buddy if that is free, and so on upwards
//! ```
//!
//! The lowest free block is taken, so that what is lent lies close together and large blocks stay whole. What has not been
//! lent for a second or two goes back to the kernel ([`RingArena::release_idle`]).

use std::collections::BTreeSet;
use std::fs::File;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, FromRawFd, OwnedFd};
use std::os::unix::fs::MetadataExt;
use std::ptr::NonNull;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use tcp::RingProvider;
use units::{Duration, Instant};

use crate::error::Context;
use crate::{Clock, IoError};

/// Smallest block: a page, and the smallest ring there is.
const BLOCK_MIN: usize = 4_096;

/// Pages that have not been lent for this time, and for twice this time at most, go back to the kernel.
const IDLE: Duration = Duration::from_secs(1);

/// Longest time that goes by without packets while pages go back, ten times a second, and how many go at a time. A
/// gigabyte takes some five seconds.
const RELEASE_MAX: Duration = Duration::from_millis(5);
const RELEASED_AT_ONCE: u32 = 256;

/// A block that is not lent.
const NOT_LENT: u8 = u8::MAX;

/// Memory for rings in an anonymous file.
///
/// The mapping is never undone, so that its blocks may be lent for as long as the process lives; one process
/// makes one arena for each of its packet loops, once.
pub struct RingArena {
    file: File,
    start: NonNull<u8>,
    len: usize,
    blocks: Mutex<Blocks>,
    /// Memory that was given back and may still be looked for, until [`RingProvider::recycle`].
    given_back: Mutex<Vec<&'static mut [u8]>>,
    /// There is something in it.
    has_given_back: AtomicBool,
    /// False as long as another process may go on with this memory: then nothing here is changed.
    is_ours: AtomicBool,
}

// SAFETY: `start` is only used to make slices of blocks, each of which one caller has at a time, by the book
// of `blocks`, which is behind a lock.
unsafe impl Send for RingArena {}
// SAFETY: as above.
unsafe impl Sync for RingArena {}

impl RingArena {
    /// An arena of `len` bytes, rounded up to whole pages, one at least. Memory is taken as it is first used.
    ///
    /// # Errors
    /// When the kernel has no such file or no room in the address space.
    pub fn new(len: usize) -> Result<Arc<Self>, IoError> {
        let pages = u32::try_from(len.div_ceil(BLOCK_MIN).max(1)).unwrap_or(u32::MAX);
        let len = pages as usize * BLOCK_MIN;
        let file = anonymous_file(len)?;
        let start = map(&file, len)?;
        let (blocks, is_ours) = (Mutex::new(Blocks::new(pages)), AtomicBool::new(true));
        Ok(Arc::new(Self::with(file, start, len, blocks, is_ours)))
    }

    /// The arena that another process has made, of which `file` is the descriptor: none of its blocks is lent
    /// here until it is taken over ([`RingProvider::take_over`]).
    ///
    /// Until [`RingArena::own`] the other process may go on with it: nothing is lent but what is taken over,
    /// and what is given back stays as it is.
    ///
    /// # Errors
    /// It is no file of an arena, or there is no room in the address space.
    pub fn open(file: OwnedFd) -> Result<Arc<Self>, IoError> {
        let file = File::from(file);
        let len = file.metadata().doing(|| "look at another process's held data".to_owned())?.len();
        // SAFETY: takes an open descriptor and a number.
        let seals = unsafe { libc::fcntl(file.as_raw_fd(), libc::F_GET_SEALS) };
        let pages = u32::try_from(len / BLOCK_MIN as u64).unwrap_or(0);
        // One that could get shorter would end this process while it reads.
        let is_arena = seals >= 0 && seals & libc::F_SEAL_SHRINK != 0 && len.is_multiple_of(BLOCK_MIN as u64);
        if !is_arena || pages == 0 {
            let why = std::io::Error::from(std::io::ErrorKind::InvalidData);
            return Err(IoError::system("map another process's held data: it is no memory of ours", why));
        }
        let len = pages as usize * BLOCK_MIN;
        let start = map(&file, len)?;
        let (blocks, is_ours) = (Mutex::new(Blocks::of_another(pages)), AtomicBool::new(false));
        Ok(Arc::new(Self::with(file, start, len, blocks, is_ours)))
    }

    fn with(file: File, start: NonNull<u8>, len: usize, blocks: Mutex<Blocks>, is_ours: AtomicBool) -> Self {
        let (given_back, has_given_back) = (Mutex::default(), AtomicBool::new(false));
        Self { file, start, len, blocks, given_back, has_given_back, is_ours }
    }

    /// Takes a block back, which may be lent again from here on.
    fn take_back(&self, memory: &mut [u8]) {
        let (Some(offset), Some(order)) = (self.offset_of(memory), order_of(memory.len())) else { return };
        let page = (offset / BLOCK_MIN) as u32;
        // Of what is no block of ours, or only a part of one, nothing is known: it stays lent.
        if offset % BLOCK_MIN != 0 || !self.blocks().is_lent(page, order) {
            return;
        }
        self.blocks().take_back(page, order);
    }

    /// Gives memory back to the kernel that has not been lent for a while, or some of it: this is to be called several
    /// times a second, by who lends.
    pub fn release_idle(&self) {
        if !self.is_ours() {
            return;
        }
        let now = Clock::now();
        let mut blocks = self.blocks();
        blocks.age(now);
        let mut from = 0;
        while let Some((page, count)) = blocks.take_idle(from, RELEASED_AT_ONCE) {
            self.release(page, count);
            from = page + count;
            if Clock::now() >= now + RELEASE_MAX {
                break;
            }
        }
    }

    /// From here on this process has the memory, and no other one. What was not taken over is free.
    pub fn own(&self) {
        self.blocks().settle();
        self.is_ours.store(true, Ordering::Release);
    }

    /// True when `file` is the descriptor of this arena's memory.
    ///
    /// # Errors
    /// When the kernel does not say.
    pub fn is_of(&self, file: &impl AsFd) -> Result<bool, IoError> {
        let identity = |fd: BorrowedFd<'_>| -> std::io::Result<(u64, u64)> {
            let metadata = File::from(fd.try_clone_to_owned()?).metadata()?;
            Ok((metadata.dev(), metadata.ino()))
        };
        let both = identity(self.as_fd()).and_then(|own| Ok((own, identity(file.as_fd())?)));
        both.map(|(own, other)| own == other).doing(|| "look at another process's held data".to_owned())
    }

    fn is_ours(&self) -> bool {
        self.is_ours.load(Ordering::Acquire)
    }

    /// Bytes that are not lent.
    #[must_use]
    pub fn free(&self) -> usize {
        self.blocks().free_pages() * BLOCK_MIN
    }

    /// Offset of `memory` in the file, if it is of this arena.
    #[must_use]
    pub fn offset_of(&self, memory: &[u8]) -> Option<usize> {
        let offset = memory.as_ptr().addr().checked_sub(self.start.as_ptr().addr())?;
        (offset < self.len && memory.len() <= self.len - offset).then_some(offset)
    }

    /// The block of `len` bytes from `page` on, which the book has just lent to who asks for it.
    fn lent(&self, page: u32, len: usize) -> &'static mut [u8] {
        // SAFETY: the block lies in the mapping, which is never undone. By the book nobody else has any of
        // it: it was free, and becomes free only when this slice, as a whole, comes back.
        unsafe { std::slice::from_raw_parts_mut(self.start.as_ptr().add(page as usize * BLOCK_MIN), len) }
    }

    fn blocks(&self) -> MutexGuard<'_, Blocks> {
        // The book is right after each of its changes, so a thread that died in between has not spoilt it.
        self.blocks.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Gives pages back to the kernel; their content is gone. Nobody has them, and the book is locked; or who has them does
    /// not need what is in them.
    fn release(&self, page: u32, count: u32) {
        let (offset, len) = (page as usize * BLOCK_MIN, count as usize * BLOCK_MIN);
        // SAFETY: the range is of our mapping, page-aligned, and nobody reads or writes it now. Failing, it keeps
        // its pages.
        unsafe { libc::madvise(self.start.as_ptr().add(offset).cast(), len, libc::MADV_REMOVE) };
    }
}

impl RingProvider for RingArena {
    fn allocate(&self, len: usize) -> Option<&'static mut [u8]> {
        let order = order_of(len).filter(|_| self.is_ours())?;
        let page = self.blocks().lend(order)?;
        Some(self.lent(page, len))
    }

    fn forget(&self, memory: &mut [u8]) {
        let Some(offset) = self.offset_of(memory).filter(|_| self.is_ours()) else { return };
        // Whole pages alone.
        let (first, end) = (offset.div_ceil(BLOCK_MIN), (offset + memory.len()) / BLOCK_MIN);
        if first < end {
            self.release(first as u32, (end - first) as u32);
        }
    }

    fn place_of(&self, memory: &[u8]) -> Option<u64> {
        self.offset_of(memory).map(|offset| offset as u64)
    }

    fn take_over(&self, place: u64, len: usize) -> Option<&'static mut [u8]> {
        let order = order_of(len)?;
        let page = u32::try_from(place / BLOCK_MIN as u64)
            .ok()
            .filter(|_| place.is_multiple_of(BLOCK_MIN as u64))?;
        self.blocks().lend_at(page, order).then(|| self.lent(page, len))
    }

    fn give_back(&self, memory: &'static mut [u8]) {
        if !self.is_ours() {
            return;
        }
        self.given_back.lock().unwrap_or_else(PoisonError::into_inner).push(memory);
        self.has_given_back.store(true, Ordering::Relaxed);
    }

    fn recycle(&self) {
        // Mostly there is nothing. One thread gives back and recycles; another one sees it the next time.
        if !self.has_given_back.load(Ordering::Relaxed) {
            return;
        }
        self.has_given_back.store(false, Ordering::Relaxed);
        let mut given_back = self.given_back.lock().unwrap_or_else(PoisonError::into_inner);
        given_back.drain(..).for_each(|memory| self.take_back(memory));
    }
}

impl AsFd for RingArena {
    /// The file, for who is to have the memory after this process. Until then only this process may write to
    /// it.
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.file.as_fd()
    }
}

impl std::fmt::Debug for RingArena {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "arena of {} B", self.len)
    }
}

/// A file in memory of `len` bytes that nobody can make shorter or longer.
fn anonymous_file(len: usize) -> Result<File, IoError> {
    let flags = libc::MFD_CLOEXEC | libc::MFD_ALLOW_SEALING;
    // SAFETY: takes a string that ends with zero, and numbers.
    let fd = unsafe { libc::memfd_create(c"cellerator-rings".as_ptr(), flags) };
    if fd < 0 {
        return Err(IoError::last("make a file in memory for held data"));
    }
    // SAFETY: a descriptor just made, that nobody else has.
    let file = unsafe { File::from_raw_fd(fd) };
    file.set_len(len as u64).doing(|| format!("make room for {len} bytes of held data"))?;
    let seals = libc::F_SEAL_SHRINK | libc::F_SEAL_GROW | libc::F_SEAL_SEAL;
    // SAFETY: takes an open descriptor and numbers.
    if unsafe { libc::fcntl(file.as_raw_fd(), libc::F_ADD_SEALS, seals) } < 0 {
        return Err(IoError::last("fix the length of a file in memory"));
    }
    Ok(file)
}

fn map(file: &File, len: usize) -> Result<NonNull<u8>, IoError> {
    let access = libc::PROT_READ | libc::PROT_WRITE;
    // SAFETY: a new mapping at a place of the kernel's choice, of a file that is so long and cannot get
    // shorter.
    let start =
        unsafe { libc::mmap(std::ptr::null_mut(), len, access, libc::MAP_SHARED, file.as_raw_fd(), 0) };
    match NonNull::new(start.cast::<u8>()) {
        Some(start) if start.as_ptr().cast() != libc::MAP_FAILED => Ok(start),
        _ => Err(IoError::last(format!("map {len} bytes for held data into memory"))),
    }
}

/// Of which order a block of `len` bytes is: 2^order pages.
fn order_of(len: usize) -> Option<u8> {
    let is_block = len.is_power_of_two() && len >= BLOCK_MIN;
    is_block.then(|| (len / BLOCK_MIN).ilog2() as u8)
}

/// The first page from `from` on, and before `end`, whose bit is as said; `end` if there is none.
fn first_page(pages: impl Fn(usize) -> u64, from: u32, end: u32, is_set: bool) -> u32 {
    let flip = if is_set { 0 } else { u64::MAX };
    let mut mask = u64::MAX << (from % u64::BITS);
    for word in (from / u64::BITS) as usize..end.div_ceil(u64::BITS) as usize {
        let hits = (pages(word) ^ flip) & std::mem::replace(&mut mask, u64::MAX);
        if hits != 0 {
            return (word as u32 * u64::BITS + hits.trailing_zeros()).min(end);
        }
    }
    end
}

/// A bit for each page.
#[derive(Debug)]
struct Pages(Vec<u64>);

impl Pages {
    fn none(count: u32) -> Self {
        Self(vec![0; count.div_ceil(u64::BITS) as usize])
    }

    fn word(&self, index: usize) -> u64 {
        self.0.get(index).copied().unwrap_or(0)
    }

    /// The words of `count` pages from `page` on, each with the bits that stand for them.
    fn words(&mut self, page: u32, count: u32) -> impl Iterator<Item = (&mut u64, u64)> {
        let end = page + count;
        let first = page / u64::BITS;
        let words = self.0.get_mut(first as usize..end.div_ceil(u64::BITS) as usize).unwrap_or_default();
        words.iter_mut().zip(first..).map(move |(word, index)| {
            let start = index * u64::BITS;
            let (low, high) = (page.saturating_sub(start), (end - start).min(u64::BITS));
            (word, u64::MAX << low & u64::MAX >> (u64::BITS - high))
        })
    }

    fn set(&mut self, page: u32, count: u32) {
        self.words(page, count).for_each(|(word, mask)| *word |= mask);
    }

    fn clear(&mut self, page: u32, count: u32) {
        self.words(page, count).for_each(|(word, mask)| *word &= !mask);
    }

    fn has_any(&mut self, page: u32, count: u32) -> bool {
        self.words(page, count).any(|(word, mask)| *word & mask != 0)
    }
}

/// The book of blocks, each named by its first page.
///
/// INVARIANT: free and lent blocks cover the pages without overlap, each aligned to its own size. Of memory that
/// another process has lent, the free ones are found once all is taken over ([`Blocks::settle`]).
#[derive(Debug)]
struct Blocks {
    /// By their order.
    free: Vec<BTreeSet<u32>>,
    /// By their first page, the order of a block that is lent.
    lent: Vec<u8>,
    /// All pages that are lent.
    taken: Pages,
    /// Blocks are taken over still: what is free is found afterwards. The packets wait meanwhile, and splitting what is
    /// free for each block would take several times as long.
    is_taken_over: bool,
    /// Pages that may have memory.
    resident: Pages,
    /// Pages given back since [`Blocks::aged_at`], and in the [`IDLE`] before.
    given_back: [Pages; 2],
    aged_at: Instant,
}

impl Blocks {
    fn new(pages: u32) -> Self {
        let mut free = vec![BTreeSet::new(); pages.ilog2() as usize + 1];
        let mut page = 0;
        // The largest first: what is left is always a multiple of the next smaller one.
        for (order, blocks) in free.iter_mut().enumerate().rev() {
            if pages - page >= 1 << order {
                blocks.insert(page);
                page += 1 << order;
            }
        }
        Self::with(free, pages)
    }

    /// Blocks of which another process has lent some: those are lent at their places next.
    fn of_another(pages: u32) -> Self {
        let free = vec![BTreeSet::new(); pages.ilog2() as usize + 1];
        let mut blocks = Self { is_taken_over: true, ..Self::with(free, pages) };
        blocks.resident.set(0, pages);
        blocks
    }

    fn with(free: Vec<BTreeSet<u32>>, pages: u32) -> Self {
        let none = || Pages::none(pages);
        Self {
            free,
            lent: vec![NOT_LENT; pages as usize],
            taken: none(),
            is_taken_over: false,
            resident: none(),
            given_back: [none(), none()],
            aged_at: Instant::ZERO,
        }
    }

    /// Notes what is free: all that was not lent yet.
    fn settle(&mut self) {
        if !std::mem::take(&mut self.is_taken_over) {
            return;
        }
        let pages = self.lent.len() as u32;
        let mut free = vec![Vec::new(); self.free.len()];
        let mut page = 0;
        while page < pages {
            page = first_page(|word| self.taken.word(word), page, pages, false);
            let end = first_page(|word| self.taken.word(word), page, pages, true);
            while page < end {
                // The largest block that begins here and lies between those that are lent.
                let order = page.trailing_zeros().min((end - page).ilog2());
                if let Some(blocks) = free.get_mut(order as usize) {
                    blocks.push(page);
                }
                page += 1 << order;
            }
        }
        self.free = free.into_iter().map(BTreeSet::from_iter).collect();
    }

    /// Notes that time passes.
    fn age(&mut self, now: Instant) {
        if now.saturating_since(self.aged_at) >= IDLE {
            self.aged_at = now;
            let [new, old] = &mut self.given_back;
            std::mem::swap(new, old);
            new.0.fill(0);
        }
    }

    /// The first pages from `from` on that may have memory and have not been lent for a while, `count_max` at most: they
    /// have none from here on.
    fn take_idle(&mut self, from: u32, count_max: u32) -> Option<(u32, u32)> {
        let Self { taken, resident, given_back: [new, old], .. } = self;
        let is_idle = |word| resident.word(word) & !(taken.word(word) | new.word(word) | old.word(word));
        let pages = self.lent.len() as u32;
        let page = first_page(is_idle, from, pages, true);
        let end = first_page(is_idle, page, pages.min(page.saturating_add(count_max)), false);
        (page < end).then(|| {
            resident.clear(page, end - page);
            (page, end - page)
        })
    }

    fn free_pages(&self) -> usize {
        if self.is_taken_over {
            let lent: u32 = self.taken.0.iter().map(|pages| pages.count_ones()).sum();
            return self.lent.len() - lent as usize;
        }
        self.free.iter().enumerate().map(|(order, blocks)| blocks.len() << order).sum()
    }

    fn is_lent(&self, page: u32, order: u8) -> bool {
        self.lent.get(page as usize) == Some(&order)
    }

    /// The lowest free block of the least order that suffices, what is too much of it split off.
    fn lend(&mut self, order: u8) -> Option<u32> {
        let from = self.free.iter().skip(order.into()).position(|blocks| !blocks.is_empty())?;
        let mut split = usize::from(order) + from;
        let page = self.free.get_mut(split)?.pop_first()?;
        while split > order.into() {
            split -= 1;
            self.free.get_mut(split)?.insert(page + (1 << split));
        }
        *self.lent.get_mut(page as usize)? = order;
        self.taken.set(page, 1 << order);
        self.resident.set(page, 1 << order);
        Some(page)
    }

    /// Lends the block of `order` that begins at `page`, as another process has; false when any of it is lent.
    fn lend_at(&mut self, page: u32, order: u8) -> bool {
        if !self.is_taken_over || usize::from(order) >= self.free.len() {
            return false;
        }
        let count = 1 << order;
        let is_inside =
            page.is_multiple_of(count) && u64::from(page) + u64::from(count) <= self.lent.len() as u64;
        if !is_inside || self.taken.has_any(page, count) {
            return false;
        }
        let Some(lent) = self.lent.get_mut(page as usize) else { return false };
        self.taken.set(page, count);
        *lent = order;
        true
    }

    /// Takes back a block that is lent, and joins it with its buddies.
    fn take_back(&mut self, mut page: u32, order: u8) {
        let Some(lent) = self.lent.get_mut(page as usize).filter(|lent| **lent == order) else { return };
        *lent = NOT_LENT;
        self.taken.clear(page, 1 << order);
        self.given_back[0].set(page, 1 << order);
        let mut order = usize::from(order);
        while self.free.get_mut(order).is_some_and(|blocks| blocks.remove(&(page ^ 1 << order))) {
            page &= !(1 << order);
            order += 1;
        }
        if let Some(blocks) = self.free.get_mut(order) {
            blocks.insert(page);
        }
    }
}

#[cfg(test)]
mod tests;
