//! [`Vault`]: what outlives an engine whose process dies: the records of its flows, and held data.
//!
//! It plays the shared memory of a process. From the moment at which the process dies nothing is written
//! down and nothing is given back, whatever the engine still does; bytes that it puts into memory are there.
//! What is given back and may be used again is overwritten with garbage: a process that looks for it finds no
//! data.

use std::collections::BTreeMap;
use std::fmt;
use std::net::IpAddr;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use engine::{Journal, JournalEntry, Port, RingProvider};

/// Byte that fills memory that nobody needs any more.
const GARBAGE: u8 = 0xa5;

/// Memory that no vault uses, by its size: it is never given back to the system, since a ring is for ever.
static SPARE: Mutex<BTreeMap<usize, Vec<&'static mut [u8]>>> = Mutex::new(BTreeMap::new());

/// Memory of a process, for the next one.
#[derive(Clone, Default)]
pub struct Vault(Arc<Mutex<Content>>);

#[derive(Default)]
struct Content {
    /// Records by direction and slot.
    records: [BTreeMap<u32, JournalEntry>; 2],
    /// Notes beside the flows, by the address they are about.
    papers: BTreeMap<IpAddr, Vec<u8>>,
    /// Given back, but a record may speak of it still; by its place.
    given_back: Vec<&'static mut [u8]>,
    /// Memory that a dead process left, by its place.
    left: BTreeMap<u64, &'static mut [u8]>,
    /// Records that may still be written before the process dies.
    writes_left: Option<u64>,
    is_dead: bool,
    /// It was dead before all was written that its last step had to write.
    lacks_records: bool,
}

impl Content {
    /// True while the process lives; it dies when all is written that still may be.
    fn may_write(&mut self) -> bool {
        if let Some(left) = self.writes_left.as_mut() {
            self.is_dead |= *left == 0;
            *left = left.saturating_sub(1);
        }
        self.lacks_records |= self.is_dead;
        !self.is_dead
    }
}

impl Drop for Content {
    fn drop(&mut self) {
        let left = std::mem::take(&mut self.left).into_values();
        self.given_back.drain(..).chain(left).for_each(spare);
    }
}

impl Vault {
    /// The process dies when it is about to write one record more than `records`.
    pub(crate) fn die_after(&self, records: u64) {
        self.content().writes_left = Some(records);
    }

    /// It is dead; true when it had written down all that it had to.
    pub(crate) fn die(&self) -> bool {
        let mut content = self.content();
        content.is_dead = true;
        !content.lacks_records
    }

    /// A new process begins with what the one before has left: its records.
    pub(crate) fn begin_anew(&self) -> Vec<(Port, JournalEntry)> {
        let mut content = self.content();
        let Content { records, given_back, left, writes_left, is_dead, lacks_records, .. } = &mut *content;
        left.extend(given_back.drain(..).map(|memory| (place(memory), memory)));
        (*writes_left, *is_dead, *lacks_records) = (None, false, false);
        let [down, up] = std::mem::take(records);
        let of = |port, records: BTreeMap<u32, JournalEntry>| records.into_values().map(move |e| (port, e));
        of(Port::Mobile, down).chain(of(Port::Wired, up)).collect()
    }

    /// Clears what the process before has left: it is of no use any more.
    pub(crate) fn clear(&self) {
        std::mem::take(&mut self.content().left).into_values().for_each(spare);
    }

    /// Writes something down, or crosses it out.
    pub(crate) fn write_down(&self, about: IpAddr, text: Option<Vec<u8>>) {
        let content = &mut *self.content();
        if content.may_write() {
            match text {
                Some(text) => _ = content.papers.insert(about, text),
                None => _ = content.papers.remove(&about),
            }
        }
    }

    /// All that is written down.
    pub(crate) fn papers(&self) -> Vec<Vec<u8>> {
        self.content().papers.values().cloned().collect()
    }

    /// A journal that writes into it, of flows whose sinks are at `receiver`.
    pub(crate) fn journal(&self, receiver: Port) -> Box<dyn Journal> {
        Box::new(Records { vault: self.clone(), direction: usize::from(receiver == Port::Wired) })
    }

    fn content(&self) -> MutexGuard<'_, Content> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn place(memory: &[u8]) -> u64 {
    memory.as_ptr().addr() as u64
}

fn spare(memory: &'static mut [u8]) {
    memory.fill(GARBAGE);
    let mut all = SPARE.lock().unwrap_or_else(PoisonError::into_inner);
    all.entry(memory.len()).or_default().push(memory);
}

impl RingProvider for Vault {
    fn allocate(&self, len: usize) -> Option<&'static mut [u8]> {
        let spare = SPARE.lock().unwrap_or_else(PoisonError::into_inner).get_mut(&len).and_then(Vec::pop);
        Some(spare.unwrap_or_else(|| Box::leak(vec![GARBAGE; len].into_boxed_slice())))
    }

    fn give_back(&self, memory: &'static mut [u8]) {
        let mut content = self.content();
        if content.is_dead {
            content.left.insert(place(memory), memory);
        } else {
            content.given_back.push(memory);
        }
    }

    fn recycle(&self) {
        let mut content = self.content();
        if !content.is_dead {
            content.given_back.drain(..).for_each(spare);
        }
    }

    fn place_of(&self, memory: &[u8]) -> Option<u64> {
        Some(place(memory))
    }

    fn take_over(&self, place: u64, len: usize) -> Option<&'static mut [u8]> {
        let mut content = self.content();
        let is_there = content.left.get(&place).is_some_and(|memory| memory.len() == len);
        if is_there { content.left.remove(&place) } else { None }
    }
}

impl fmt::Debug for Vault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("vault")
    }
}

#[derive(Debug)]
struct Records {
    vault: Vault,
    direction: usize,
}

impl Records {
    fn write(&self, act: impl FnOnce(&mut BTreeMap<u32, JournalEntry>)) {
        let content = &mut *self.vault.content();
        if content.may_write() {
            act(&mut content.records[self.direction]);
        }
    }
}

impl Journal for Records {
    fn note(&mut self, slot: u32, entry: &JournalEntry, _is_new: bool) {
        self.write(|records| _ = records.insert(slot, *entry));
    }

    fn forget(&mut self, slot: u32) {
        self.write(|records| _ = records.remove(&slot));
    }
}
