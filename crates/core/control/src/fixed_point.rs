//! Roots, logarithms and powers in integers: the same bits on every machine.

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

/// The square root, rounded down.
pub(crate) fn square_root(value: u128) -> u64 {
    u64::try_from(value.isqrt()).unwrap_or(u64::MAX)
}

/// Fractional bits of [`log2`] and [`exp2`].
pub(crate) const FRACTION_BITS: u32 = 16;

/// Base-2 logarithm in 65,536ths, rounded down; zero for zero.
pub(crate) fn log2(value: u64) -> u64 {
    let Some(whole) = value.checked_ilog2() else { return 0 };
    // The mantissa, 1 to 2 in 2⁻⁶³; squaring it doubles its logarithm.
    let mut mantissa = u128::from(value) << (63 - whole);
    let mut log = u64::from(whole);
    for _ in 0..FRACTION_BITS {
        mantissa = (mantissa * mantissa) >> 63;
        log <<= 1;
        if mantissa >= 1 << 64 {
            mantissa >>= 1;
            log |= 1;
        }
    }
    log
}

/// 2 to the power of `exponent` 65,536ths, in 65,536ths; within 0.01 %. Exponents below 47.
pub(crate) fn exp2(exponent: u64) -> u64 {
    /// 2^(2⁻¹), 2^(2⁻²), … in 2⁻³².
    const FACTORS: [u64; 16] = [
        0x1_6A09_E668,
        0x1_306F_E0A3,
        0x1_172B_83C8,
        0x1_0B55_86D0,
        0x1_059B_0D31,
        0x1_02C9_A3E7,
        0x1_0163_DAA0,
        0x1_00B1_AFA6,
        0x1_0058_C86E,
        0x1_002C_605E,
        0x1_0016_2F39,
        0x1_000B_175F,
        0x1_0005_8BA0,
        0x1_0002_C5CC,
        0x1_0001_62E5,
        0x1_0000_B172,
    ];
    let fraction = exponent & ((1 << FRACTION_BITS) - 1);
    let mut power = 1u128 << 32;
    for (i, factor) in FACTORS.iter().enumerate() {
        if fraction >> (FRACTION_BITS as usize - 1 - i) & 1 == 1 {
            power = (power * u128::from(*factor)) >> 32;
        }
    }
    let whole = (exponent >> FRACTION_BITS).min(46);
    ((power << whole) >> (32 - FRACTION_BITS)) as u64
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn logarithms_by_hand() {
        let one = 1 << FRACTION_BITS;
        assert_eq!((log2(1), log2(2), log2(1_024)), (0, one, 10 * one));
        // log2 10 = 3.321928
        assert_eq!(log2(10), 217_705);
    }

    proptest! {
        #[test]
        fn a_power_undoes_a_logarithm(value in 1u64..1 << 40) {
            let back = exp2(log2(value));
            let error = back.abs_diff(value << FRACTION_BITS);
            prop_assert!(error / 20_000 <= value << 2, "{value} came back as {back} 65536ths");
        }
    }

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
