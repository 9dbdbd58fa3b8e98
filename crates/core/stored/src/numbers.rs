//! Numbers, truth values and addresses.

use std::marker::PhantomData;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};

use crate::{Reader, Stored, StoredError, Writer};

macro_rules! number {
    ($($type:ident $({ $($more:item)* })?),+) => {$(
        impl Stored for $type {
            $($($more)*)?
            #[inline]
            fn store(&self, out: &mut Writer) {
                out.bytes(&self.to_le_bytes());
            }
            #[inline]
            fn restore(from: &mut Reader<'_>) -> Result<Self, StoredError> {
                from.array(stringify!($type)).map(Self::from_le_bytes)
            }
            fn restore_array<const N: usize>(from: &mut Reader<'_>) -> Result<[Self; N], StoredError> {
                let bytes = from.bytes(N * size_of::<Self>(), stringify!($type))?;
                let (numbers, _) = bytes.as_chunks();
                // There are as many as that.
                Ok(std::array::from_fn(|at| numbers.get(at).map_or(0, |bytes| Self::from_le_bytes(*bytes))))
            }
        }
    )+};
}

number!(
    u8 {
        fn store_all(values: &[Self], out: &mut Writer) {
            out.bytes(values);
        }
        fn restore_list(len: usize, from: &mut Reader<'_>) -> Result<Vec<Self>, StoredError> {
            from.bytes(len, "bytes").map(<[Self]>::to_vec)
        }
    },
    u16,
    u32,
    u64,
    u128,
    i8,
    i16,
    i32,
    i64,
    i128
);

impl Stored for usize {
    #[inline]
    fn store(&self, out: &mut Writer) {
        (*self as u64).store(out);
    }
    #[inline]
    fn restore(from: &mut Reader<'_>) -> Result<Self, StoredError> {
        let at = from.at();
        Self::try_from(from.value::<u64>()?).map_err(|_| Reader::senseless(at, "usize"))
    }
}

impl Stored for bool {
    #[inline]
    fn store(&self, out: &mut Writer) {
        u8::from(*self).store(out);
    }
    #[inline]
    fn restore(from: &mut Reader<'_>) -> Result<Self, StoredError> {
        let at = from.at();
        match from.value::<u8>()? {
            0 => Ok(false),
            1 => Ok(true),
            _ => Err(Reader::senseless(at, "bool")),
        }
    }
}

impl Stored for IpAddr {
    fn store(&self, out: &mut Writer) {
        match self {
            Self::V4(address) => {
                4u8.store(out);
                out.bytes(&address.octets());
            }
            Self::V6(address) => {
                6u8.store(out);
                out.bytes(&address.octets());
            }
        }
    }
    fn restore(from: &mut Reader<'_>) -> Result<Self, StoredError> {
        let at = from.at();
        match from.value::<u8>()? {
            4 => Ok(Self::V4(Ipv4Addr::from(from.value::<[u8; 4]>()?))),
            6 => Ok(Self::V6(Ipv6Addr::from(from.value::<[u8; 16]>()?))),
            _ => Err(Reader::senseless(at, "IpAddr")),
        }
    }
}

impl Stored for SocketAddr {
    /// Address and port: what else an IPv6 one may have says something about one machine only.
    fn store(&self, out: &mut Writer) {
        (self.ip(), self.port()).store(out);
    }
    fn restore(from: &mut Reader<'_>) -> Result<Self, StoredError> {
        from.value::<(IpAddr, u16)>().map(Self::from)
    }
}

impl<T> Stored for PhantomData<T> {
    fn store(&self, _: &mut Writer) {}
    fn restore(_: &mut Reader<'_>) -> Result<Self, StoredError> {
        Ok(Self)
    }
}
