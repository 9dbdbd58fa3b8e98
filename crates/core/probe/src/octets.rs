//! Reading and writing of big-endian numbers, of numbers of variable length, and of what is made of them.

use units::{Bytes, Duration, Instant, Rate};

use crate::auth::Cookie;

/// Reads from the front of bytes; none where there are too few.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Read<'a>(pub &'a [u8]);

impl<'a> Read<'a> {
    pub(crate) fn take(&mut self, len: usize) -> Option<&'a [u8]> {
        let (taken, rest) = self.0.split_at_checked(len)?;
        self.0 = rest;
        Some(taken)
    }

    pub(crate) fn array<const N: usize>(&mut self) -> Option<[u8; N]> {
        self.take(N)?.try_into().ok()
    }

    /// Seven bits a byte, the lowest first; the last byte is below 128. The shortest form only.
    pub(crate) fn varint(&mut self) -> Option<u64> {
        let mut value = 0_u64;
        for shift in (0..64).step_by(7) {
            let [byte] = self.array()?;
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

/// Part of a message: how it is written, and read.
pub(crate) trait Field: Sized {
    fn put(&self, out: &mut Vec<u8>);

    /// None where the bytes are too few, or no such value.
    fn take(r: &mut Read<'_>) -> Option<Self>;
}

macro_rules! numbers {
    ($($number:ty),*) => {$(
        impl Field for $number {
            fn put(&self, out: &mut Vec<u8>) {
                Write::put(out, &self.to_be_bytes());
            }

            fn take(r: &mut Read<'_>) -> Option<Self> {
                r.array().map(Self::from_be_bytes)
            }
        }
    )*};
}

numbers!(u8, u16, u32, u64);

/// Writes a value as a number of type `$number`, which `$to` gives and `$from` takes.
macro_rules! as_number {
    ($($kind:ty: $number:ty, $to:expr, $from:expr;)*) => {$(
        impl Field for $kind {
            fn put(&self, out: &mut Vec<u8>) {
                let number: $number = $to(*self);
                number.put(out);
            }

            fn take(r: &mut Read<'_>) -> Option<Self> {
                <$number>::take(r).map($from)
            }
        }
    )*};
}

as_number! {
    Instant: u64, Instant::as_nanos, Instant::from_nanos;
    // Whole milliseconds.
    Duration: u32, |time: Duration| u32::try_from(time.as_millis()).unwrap_or(u32::MAX),
        |ms| Duration::from_millis(ms.into());
    Rate: u64, Rate::as_bps, Rate::from_bps;
    Bytes: u64, Bytes::get, Bytes::new;
}

impl Field for Cookie {
    fn put(&self, out: &mut Vec<u8>) {
        Write::put(out, self);
    }

    fn take(r: &mut Read<'_>) -> Option<Self> {
        r.array()
    }
}

/// Writes structs as their fields, in this order.
macro_rules! fields {
    ($($name:ident { $($field:ident),* })*) => {$(
        impl Field for $name {
            fn put(&self, out: &mut Vec<u8>) {
                $(self.$field.put(out);)*
            }

            fn take(r: &mut Read<'_>) -> Option<Self> {
                Some(Self { $($field: Field::take(r)?),* })
            }
        }
    )*};
}

pub(crate) use fields;

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
