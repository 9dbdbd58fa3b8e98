//! Timestamps of TCP (RFC 7323), compared on their circle.

use units::Duration;

/// Time for which a timestamp can be compared with a later one: a clock that counts microseconds
/// has gone half its circle then.
///
/// RFC 7323 §5.5 says 24 days, for clocks that count milliseconds; Linux takes this time for all
/// (`TCP_PAWS_WRAP`).
pub(crate) const COMPARABLE_FOR: Duration = Duration::from_secs((1 << 31) / 1_000_000);

/// The later of two timestamps (RFC 7323 §5.2).
pub(crate) const fn later_of(a: u32, b: u32) -> u32 {
    if (b.wrapping_sub(a) as i32) > 0 { b } else { a }
}

/// True when `a` comes before `b` (RFC 7323 §5.2).
pub(crate) const fn is_earlier(a: u32, b: u32) -> bool {
    (a.wrapping_sub(b) as i32) < 0
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn order_holds_across_the_wrap() {
        assert_eq!((later_of(3, 5), later_of(5, 3), later_of(7, 7)), (5, 5, 7));
        assert_eq!((later_of(u32::MAX, 2), later_of(2, u32::MAX)), (2, 2));
        assert!(is_earlier(u32::MAX, 0) && !is_earlier(0, u32::MAX) && !is_earlier(4, 4));
    }
}
