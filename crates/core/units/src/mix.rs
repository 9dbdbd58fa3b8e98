//! The bit mixer of SplitMix64 (Steele, Lea, Flood: Fast Splittable Pseudorandom Number Generators, OOPSLA 2014).

/// Distance between states of SplitMix64: 2⁶⁴ over the golden ratio, odd.
pub const GOLDEN_GAMMA: u64 = 0x9e37_79b9_7f4a_7c15;

/// Finalizer of SplitMix64: every bit of the result depends on every bit of `x`.
#[must_use]
pub const fn mix64(x: u64) -> u64 {
    let x = (x ^ (x >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    let x = (x ^ (x >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    x ^ (x >> 31)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// First outputs of the reference implementation from seed 1234567.
    #[test]
    fn it_gives_the_numbers_of_splitmix64() {
        let outputs = (1..=3_u64).map(|n| mix64(1_234_567_u64.wrapping_add(n.wrapping_mul(GOLDEN_GAMMA))));
        let expected = [6_457_827_717_110_365_317, 3_203_168_211_198_807_973, 9_817_491_932_198_370_423];
        assert_eq!(outputs.collect::<Vec<_>>(), expected);
    }
}
