//! Memory asked for before its turn: with many flows in progress most of the time goes into fetching their state.

/// Asks the processor for memory, by address and length, that will be needed soon.
pub type Fetch = fn(usize, usize);

/// Fetches a value that will be needed soon.
#[inline]
pub(crate) fn fetch_value<T: ?Sized>(fetch: Fetch, value: &T) {
    fetch(std::ptr::from_ref(value).addr(), size_of_val(value));
}

/// Fetches `first`, `last`, and what lies between them.
#[inline]
pub(crate) fn fetch_span<A, B>(fetch: Fetch, first: &A, last: &B) {
    let (begin, end) = (std::ptr::from_ref(first).addr(), std::ptr::from_ref(last).addr() + size_of::<B>());
    fetch(begin, end.saturating_sub(begin));
}
