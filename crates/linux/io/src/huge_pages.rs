//! Huge pages for large pieces of memory, and memory that is there before it is used.

/// Least piece for which huge pages are asked: with less, what they waste at both ends is too much of it.
const LEAST: usize = 4 << 20;

/// Asks the kernel to serve the memory from `address` on, `len` bytes long, with huge pages as it
/// is first used. The address is an exposed one (`expose_provenance`).
///
/// Memory that is visited all over then costs fewer misses in the translation of addresses. Only an
/// advice: nothing happens for less than 4 MB, or where the kernel has no transparent huge pages.
/// Source: `madvise(2)`.
pub fn prefer_huge_pages(address: usize, len: usize) {
    if len >= LEAST {
        // SAFETY: MADV_HUGEPAGE changes neither contents nor access of any memory, whatever the range;
        // one that is not mapped is refused.
        unsafe { advise(address, len, libc::MADV_HUGEPAGE) };
    }
}

/// Has the kernel provide the memory from `address` on, `len` bytes long, that is about to be written to: it
/// does so page by page otherwise, when each is first used.
///
/// The address is an exposed one (`expose_provenance`). Only an advice: nothing happens before Linux 5.14. Source: `madvise(2)`.
pub fn populate(address: usize, len: usize) {
    // SAFETY: MADV_POPULATE_WRITE provides pages as a write to each would, and changes no contents; a range
    // that is not mapped, or not for writing, is refused.
    unsafe { advise(address, len, libc::MADV_POPULATE_WRITE) };
}

/// Gives an advice for the whole pages from `address` on, `len` bytes long.
///
/// # Safety
/// The advice changes neither contents nor access of any memory, whatever the range.
unsafe fn advise(address: usize, len: usize, advice: libc::c_int) {
    // SAFETY: takes no arguments and has no effect.
    let page = usize::try_from(unsafe { libc::sysconf(libc::_SC_PAGESIZE) }).unwrap_or(4_096).max(1);
    let start = address.next_multiple_of(page);
    let whole = address.saturating_add(len).saturating_sub(start) / page * page;
    if whole > 0 {
        // SAFETY: the caller answers for the advice.
        unsafe { libc::madvise(std::ptr::with_exposed_provenance_mut(start), whole, advice) };
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn memory_is_there_before_it_is_used_and_keeps_what_it_holds() {
        const LEN: usize = 1 << 20;
        let mut memory: Vec<u8> = Vec::with_capacity(LEN);
        memory.extend([7; 10]);
        let address = memory.as_mut_ptr().expose_provenance();
        populate(address, LEN);
        let mut pages = vec![0; LEN / 4_096];
        let start = address.next_multiple_of(4_096);
        // SAFETY: whole pages within memory that is ours, and a byte for each.
        let seen = unsafe {
            libc::mincore(
                std::ptr::with_exposed_provenance_mut(start),
                (pages.len() - 1) * 4_096,
                pages.as_mut_ptr(),
            )
        };
        assert_eq!(seen, 0);
        assert!(pages[..pages.len() - 1].iter().all(|page| page & 1 == 1), "{pages:?}");
        assert_eq!(memory, [7; 10]);
        populate(0, usize::MAX);
        prefer_huge_pages(0, usize::MAX);
    }
}
