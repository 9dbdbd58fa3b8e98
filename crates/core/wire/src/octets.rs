//! Big-endian reads and writes that cannot panic.

/// Two bytes at `at`; zero when they lie outside (callers have checked the length once).
#[inline]
pub(crate) fn u16_at(bytes: &[u8], at: usize) -> u16 {
    match bytes.get(at..).and_then(<[u8]>::first_chunk::<2>) {
        Some(b) => u16::from_be_bytes(*b),
        None => 0,
    }
}

/// Four bytes at `at`; zero when they lie outside.
#[inline]
pub(crate) fn u32_at(bytes: &[u8], at: usize) -> u32 {
    match bytes.get(at..).and_then(<[u8]>::first_chunk::<4>) {
        Some(b) => u32::from_be_bytes(*b),
        None => 0,
    }
}

/// Writes `value` at `at`; false, with nothing written, when it lies outside.
#[inline]
pub(crate) fn put(bytes: &mut [u8], at: usize, value: &[u8]) -> bool {
    match bytes.get_mut(at..).and_then(|b| b.get_mut(..value.len())) {
        Some(place) => {
            place.copy_from_slice(value);
            true
        }
        None => false,
    }
}
