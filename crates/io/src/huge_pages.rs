//! Huge pages for large pieces of memory.

/// Least piece for which huge pages are asked: with less, what they waste at both ends is too much of it.
const LEAST: usize = 4 << 20;

/// Asks the kernel to serve the memory from `address` on, `len` bytes long, with huge pages as it
/// is first used.
///
/// Memory that is visited all over then costs fewer misses in the translation of addresses. Only an
/// advice: nothing happens for less than 4 MB, or where the kernel has no transparent huge pages.
/// Source: `madvise(2)`.
pub fn prefer_huge_pages(address: usize, len: usize) {
    // SAFETY: takes no arguments and has no effect.
    let page = usize::try_from(unsafe { libc::sysconf(libc::_SC_PAGESIZE) }).unwrap_or(4_096).max(1);
    let start = address.next_multiple_of(page);
    let whole = address.saturating_add(len).saturating_sub(start) / page * page;
    if len < LEAST || whole == 0 {
        return;
    }
    // SAFETY: MADV_HUGEPAGE changes neither contents nor access of any memory, whatever the range;
    // one that is not mapped is refused.
    unsafe { libc::madvise(std::ptr::without_provenance_mut(start), whole, libc::MADV_HUGEPAGE) };
}
