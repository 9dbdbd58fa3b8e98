//! Reads that cannot panic: outside the bytes everything is zero.

/// Order of the bytes of a number.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Endian {
    Big,
    Little,
}

impl Endian {
    #[inline]
    pub(crate) fn u16_at(self, bytes: &[u8], at: usize) -> u16 {
        let raw = chunk::<2>(bytes, at);
        match self {
            Self::Big => u16::from_be_bytes(raw),
            Self::Little => u16::from_le_bytes(raw),
        }
    }

    #[inline]
    pub(crate) fn u32_at(self, bytes: &[u8], at: usize) -> u32 {
        let raw = chunk::<4>(bytes, at);
        match self {
            Self::Big => u32::from_be_bytes(raw),
            Self::Little => u32::from_le_bytes(raw),
        }
    }

    #[inline]
    pub(crate) fn u64_at(self, bytes: &[u8], at: usize) -> u64 {
        let raw = chunk::<8>(bytes, at);
        match self {
            Self::Big => u64::from_be_bytes(raw),
            Self::Little => u64::from_le_bytes(raw),
        }
    }
}

#[inline]
fn chunk<const N: usize>(bytes: &[u8], at: usize) -> [u8; N] {
    bytes.get(at..).and_then(<[u8]>::first_chunk::<N>).copied().unwrap_or([0; N])
}

/// A big-endian number of two bytes, if both are there.
#[inline]
pub(crate) fn be16(bytes: &[u8], at: usize) -> Option<u16> {
    bytes.get(at..)?.first_chunk::<2>().map(|b| u16::from_be_bytes(*b))
}

/// A big-endian number of four bytes, if all are there.
#[inline]
pub(crate) fn be32(bytes: &[u8], at: usize) -> Option<u32> {
    bytes.get(at..)?.first_chunk::<4>().map(|b| u32::from_be_bytes(*b))
}
