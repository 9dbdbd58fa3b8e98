//! Accurate ECN (RFC 9768): the ACE field, [`TcpFlags::ace`], and the option, [`EcnByteCounters`].

use crate::options::{KIND_ACCURATE_ECN_0, KIND_ACCURATE_ECN_1};
use crate::tcp::{Tcp, TcpFlags};

/// Byte counters of accurate ECN, of 24 bits each: payload that has arrived marked ECT(0), CE and ECT(1)
/// (RFC 9768 §3.2.3). An option may leave out those at its end.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub struct EcnByteCounters {
    /// Bytes marked ECT(0), modulo 2^24.
    pub ect0: Option<u32>,
    /// Bytes marked CE.
    pub ce: Option<u32>,
    /// Bytes marked ECT(1).
    pub ect1: Option<u32>,
}

impl EcnByteCounters {
    /// Largest value of a counter.
    pub const MAX: u32 = 0xff_ffff;

    /// Counters in the order of the kind of their option; those that are not there as `None`.
    pub(crate) fn of_option(kind: u8, body: &[u8]) -> Self {
        let mut fields =
            body.chunks_exact(3).map(|field| u32::from_be_bytes([0, field[0], field[1], field[2]]));
        let [first, ce, last] = [fields.next(), fields.next(), fields.next()];
        let (ect0, ect1) = if kind == KIND_ACCURATE_ECN_0 { (first, last) } else { (last, first) };
        Self { ect0, ce, ect1 }
    }

    /// ECT(0), CE and ECT(1) in the order of an option of that kind.
    pub(crate) const fn in_order_of([ect0, ce, ect1]: [u32; 3], kind: u8) -> [u32; 3] {
        if kind == KIND_ACCURATE_ECN_1 { [ect1, ce, ect0] } else { [ect0, ce, ect1] }
    }
}

impl TcpFlags {
    /// The flags AE, CWR and ECE as a number: the ACE field, CE packets modulo 8 (RFC 9768 §3.2.1).
    #[inline]
    #[must_use]
    pub const fn ace(self) -> u8 {
        (self.bits() >> 6 & 7) as u8
    }

    /// These flags with another ACE field; of `ace` the low three bits count.
    #[inline]
    #[must_use]
    pub const fn with_ace(self, ace: u8) -> Self {
        Self::from_bits(self.bits() & !(7 << 6) | (ace as u16 & 7) << 6)
    }
}

impl Tcp {
    /// Counters in its option of accurate ECN, if `packet`, from which this was read, has one.
    #[must_use]
    pub fn ecn_byte_counters(&self, packet: &[u8]) -> Option<EcnByteCounters> {
        let range = self.options.accurate_ecn_place.range()?;
        let option = packet.get(self.offset..)?.get(range)?;
        let (&kind, rest) = option.split_first()?;
        Some(EcnByteCounters::of_option(kind, rest.get(1..)?))
    }
}
