//! Integer roots.

/// The cube root, rounded down.
pub(crate) fn cube_root(value: u128) -> u64 {
    // The root of a value of n bits has at most ⌈n ÷ 3⌉ bits.
    let (mut low, mut high) = (0u128, 1u128 << (128 - value.leading_zeros()).div_ceil(3));
    while low + 1 < high {
        let middle = low.midpoint(high);
        if middle.pow(3) <= value {
            low = middle;
        } else {
            high = middle;
        }
    }
    let root = if high.checked_pow(3).is_some_and(|cube| cube <= value) { high } else { low };
    u64::try_from(root).unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn small_roots_by_hand() {
        let roots: Vec<u64> = [0, 1, 7, 8, 26, 27, 63, 64, 1_000_000].map(cube_root).to_vec();
        assert_eq!(roots, [0, 1, 1, 2, 2, 3, 3, 4, 100]);
    }

    proptest! {
        #[test]
        fn the_cube_encloses_the_value(value in 0u128..1 << 120) {
            let root = u128::from(cube_root(value));
            prop_assert!(root.pow(3) <= value && (root + 1).pow(3) > value);
        }
    }
}
