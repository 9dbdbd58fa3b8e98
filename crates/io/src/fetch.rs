//! Fetching memory ahead of its use.

/// Bytes that the processor fetches at once.
const LINE: usize = 64;

/// Tells the processor to fetch lines of 64 bytes into its caches: those of `address` and behind that `lines` has a bit
/// for.
///
/// Only an advice: it changes no memory and cannot fail, whatever the address, and nothing waits for it. Does nothing on
/// processors other than x86-64.
#[inline]
pub fn fetch_lines(address: usize, mut lines: u64) {
    while lines != 0 {
        let line = lines.trailing_zeros() as usize;
        lines &= lines - 1;
        fetch_line(address.wrapping_add(line * LINE));
    }
}

#[cfg(target_arch = "x86_64")]
#[inline]
fn fetch_line(address: usize) {
    use std::arch::x86_64::{_MM_HINT_T0, _mm_prefetch};
    // SAFETY: a prefetch neither reads nor writes as the program sees it, and faults at no address.
    unsafe { _mm_prefetch::<_MM_HINT_T0>(std::ptr::without_provenance(address)) };
}

#[cfg(not(target_arch = "x86_64"))]
#[inline]
fn fetch_line(_address: usize) {}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn any_address_will_do() {
        let memory = [7_u8; 4 * LINE];
        fetch_lines(memory.as_ptr() as usize, 0b1111);
        fetch_lines(0, 1);
        fetch_lines(usize::MAX, u64::MAX);
        assert_eq!(memory, [7; 4 * LINE]);
    }
}
