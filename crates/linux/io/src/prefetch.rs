//! Memory asked for ahead of its use.

/// Bytes that come together.
const LINE: usize = 64;

/// Asks the processor for the memory from `address` on, `len` bytes long, without waiting for it.
///
/// Only an advice: any address is allowed, and nothing happens on processors other than x86-64 and AArch64.
#[inline]
pub fn prefetch(address: usize, len: usize) {
    let end = address.saturating_add(len);
    for line in (address / LINE * LINE..end).step_by(LINE) {
        prefetch_line(line);
    }
}

#[cfg(target_arch = "x86_64")]
#[inline]
fn prefetch_line(address: usize) {
    use std::arch::x86_64::{_MM_HINT_T0, _mm_prefetch};
    // SAFETY: PREFETCHT0 changes nothing that can be seen and never faults, whatever the address.
    unsafe { _mm_prefetch::<_MM_HINT_T0>(std::ptr::without_provenance(address)) };
}

#[cfg(target_arch = "aarch64")]
#[inline]
fn prefetch_line(address: usize) {
    // SAFETY: PRFM changes nothing that can be seen and never faults, whatever the address.
    unsafe {
        std::arch::asm!("prfm pldl1keep, [{0}]", in(reg) address, options(nostack, preserves_flags, readonly))
    };
}

#[cfg(not(any(target_arch = "x86_64", target_arch = "aarch64")))]
#[inline]
fn prefetch_line(_address: usize) {}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn any_address_will_do() {
        let here = [7u8; 300];
        prefetch(here.as_ptr().addr(), here.len());
        for (address, len) in [(0, 0), (0, 1_000), (usize::MAX, 1), (usize::MAX - 100, 1_000), (12_345, 64)] {
            prefetch(address, len);
        }
        assert_eq!(here, [7; 300]);
    }
}
