//! Reading and writing of big-endian numbers, and of numbers of variable length.

/// Reads from the front of bytes; none where there are too few.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Read<'a>(pub &'a [u8]);

impl<'a> Read<'a> {
    pub(crate) fn take(&mut self, len: usize) -> Option<&'a [u8]> {
        let (taken, rest) = self.0.split_at_checked(len)?;
        self.0 = rest;
        Some(taken)
    }

    fn array<const N: usize>(&mut self) -> Option<[u8; N]> {
        self.take(N)?.try_into().ok()
    }

    pub(crate) fn u8(&mut self) -> Option<u8> {
        self.array::<1>().map(|[byte]| byte)
    }

    pub(crate) fn u16(&mut self) -> Option<u16> {
        self.array().map(u16::from_be_bytes)
    }

    pub(crate) fn u32(&mut self) -> Option<u32> {
        self.array().map(u32::from_be_bytes)
    }

    pub(crate) fn u64(&mut self) -> Option<u64> {
        self.array().map(u64::from_be_bytes)
    }

    /// Seven bits a byte, the lowest first; the last byte is below 128. The shortest form only.
    pub(crate) fn varint(&mut self) -> Option<u64> {
        let mut value = 0_u64;
        for shift in (0..64).step_by(7) {
            let byte = self.u8()?;
            let bits = u64::from(byte & 0x7f);
            if shift == 63 && bits > 1 {
                return None;
            }
            value |= bits << shift;
            if byte & 0x80 == 0 {
                return (byte != 0 || shift == 0).then_some(value);
            }
        }
        None
    }

    /// The same for numbers with a sign: 0, −1, 1, −2, … are 0, 1, 2, 3, …
    pub(crate) fn signed(&mut self) -> Option<i64> {
        let value = self.varint()?;
        Some((value >> 1).cast_signed() ^ -(value & 1).cast_signed())
    }
}

/// Appends to a buffer.
pub(crate) trait Write {
    fn put(&mut self, bytes: &[u8]);

    fn varint(&mut self, mut value: u64) {
        while value >= 0x80 {
            self.put(&[value as u8 | 0x80]);
            value >>= 7;
        }
        self.put(&[value as u8]);
    }

    fn signed(&mut self, value: i64) {
        self.varint((value << 1 ^ value >> 63).cast_unsigned());
    }
}

impl Write for Vec<u8> {
    fn put(&mut self, bytes: &[u8]) {
        self.extend_from_slice(bytes);
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn numbers_of_variable_length_are_read_as_written(a: u64, shift in 0u32..64, b: i64) {
            let (a, b) = (a >> shift, b >> shift);
            let mut bytes = Vec::new();
            bytes.varint(a);
            bytes.signed(b);
            let mut read = Read(&bytes);
            prop_assert_eq!((read.varint(), read.signed(), read.0.len()), (Some(a), Some(b), 0));
        }
    }

    #[test]
    fn longer_forms_are_refused() {
        assert_eq!(Read(&[0x80, 0]).varint(), None, "zero in two bytes");
        assert_eq!(Read(&[0xff; 10]).varint(), None, "more than 64 bits");
        assert_eq!(Read(&[0x80]).varint(), None, "cut");
    }
}
