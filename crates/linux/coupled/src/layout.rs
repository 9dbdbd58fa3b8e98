//! Memory that the program in the kernel and this one share, byte by byte: `bpf/coupled.h` in Rust.
//!
//! `tests/arithmetic.rs` compares sizes with those that the compiler gave the program.

use control::coupled::SUBFLOWS_MAX;

/// Reads numbers one after the other.
struct Fields<'a>(&'a [u8]);

impl Fields<'_> {
    /// The next `N` bytes; what is missing is zero.
    fn take<const N: usize>(&mut self) -> [u8; N] {
        let (first, others) = self.0.split_at_checked(N).unwrap_or((&[], &[]));
        self.0 = others;
        first.try_into().unwrap_or([0; N])
    }

    fn u32(&mut self) -> u32 {
        u32::from_ne_bytes(self.take())
    }

    fn u64(&mut self) -> u64 {
        u64::from_ne_bytes(self.take())
    }

    fn subflow(&mut self) -> Subflow {
        Subflow {
            number: self.u64(),
            window: self.u32(),
            srtt_us: self.u32(),
            ssthresh: self.u32(),
            credit: self.u32(),
        }
    }
}

/// `struct subflow`: windows in segments.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Subflow {
    /// Of the socket, from 1; 0: the place is free.
    pub number: u64,
    /// In recovery the one to which it shrinks.
    pub window: u32,
    /// 0: not known yet.
    pub srtt_us: u32,
    /// Slow start ends here.
    pub ssthresh: u32,
    /// Segments acknowledged towards the next of growth.
    pub credit: u32,
}

impl Subflow {
    /// Bytes.
    pub const LEN: usize = 24;

    fn bytes(&self) -> Vec<u8> {
        let mut bytes = self.number.to_ne_bytes().to_vec();
        for field in [self.window, self.srtt_us, self.ssthresh, self.credit] {
            bytes.extend(field.to_ne_bytes());
        }
        bytes
    }
}

/// `struct connection`: its subflows, by place.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Connection {
    /// Events so far.
    pub sequence: u64,
    /// The subflows; those with number 0 are none.
    pub subflows: [Subflow; SUBFLOWS_MAX],
}

impl Connection {
    /// Bytes.
    pub const LEN: usize = 16 + SUBFLOWS_MAX * Subflow::LEN;

    /// From the kernel's memory; what is missing is zero.
    #[must_use]
    pub fn read(bytes: &[u8]) -> Self {
        // Behind the lock.
        let mut fields = Fields(bytes.get(8..).unwrap_or_default());
        Self { sequence: fields.u64(), subflows: std::array::from_fn(|_| fields.subflow()) }
    }
}

/// `enum event_kind`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[allow(missing_docs, reason = "bpf/coupled.h explains them")]
pub enum EventKind {
    Join,
    Leave,
    Ack,
    Loss,
    Timeout,
    Undo,
}

impl EventKind {
    const ALL: [Self; 6] = [Self::Join, Self::Leave, Self::Ack, Self::Loss, Self::Timeout, Self::Undo];

    fn number(self) -> u32 {
        // From 1 on, in this order.
        Self::ALL.iter().zip(1..).find(|(kind, _)| **kind == self).map_or(0, |(_, number)| number)
    }
}

/// `struct event`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Event {
    /// Of the connection.
    pub sequence: u64,
    /// Of the socket.
    pub number: u64,
    /// Of the connection.
    pub token: u32,
    /// Kind of the event.
    pub kind: EventKind,
    /// In the connection.
    pub place: u32,
    /// Segments acknowledged, or the window before a loss that was none.
    pub a: u32,
    /// The window limits the sender.
    pub b: u32,
    /// The kernel's `enum tcp_ca_state`.
    pub state: u32,
    /// State set by the kernel.
    pub before: Subflow,
    /// State set by the program.
    pub after: Subflow,
}

impl Event {
    /// Bytes.
    pub const LEN: usize = 40 + 2 * Subflow::LEN;

    /// From the kernel's memory; none when it is no event.
    #[must_use]
    pub fn read(bytes: &[u8]) -> Option<Self> {
        let mut fields = Fields(bytes.get(..Self::LEN)?);
        let (sequence, number, token) = (fields.u64(), fields.u64(), fields.u32());
        let kind = fields.u32();
        let kind = EventKind::ALL.into_iter().find(|known| known.number() == kind)?;
        Some(Self {
            sequence,
            number,
            token,
            kind,
            place: fields.u32(),
            a: fields.u32(),
            b: fields.u32(),
            state: fields.u32(),
            before: fields.subflow(),
            after: fields.subflow(),
        })
    }
}

/// `struct trial`: one event for the arithmetic alone.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Trial {
    /// An ACK or a loss.
    pub kind: EventKind,
    /// The subflow to which it happens.
    pub place: u32,
    /// Segments acknowledged.
    pub acked: u32,
    /// All subflows, by place.
    pub subflows: [Subflow; SUBFLOWS_MAX],
}

impl Trial {
    /// Bytes.
    pub const LEN: usize = 16 + SUBFLOWS_MAX * Subflow::LEN;

    /// As the kernel has it.
    #[must_use]
    pub fn bytes(&self) -> Vec<u8> {
        let head = [self.kind.number(), self.place, self.acked, 0];
        let mut bytes: Vec<u8> = head.into_iter().flat_map(u32::to_ne_bytes).collect();
        self.subflows.iter().for_each(|one| bytes.extend(one.bytes()));
        bytes
    }

    /// Takes the subflows from the kernel's memory.
    pub fn take_subflows(&mut self, bytes: &[u8]) {
        let mut fields = Fields(bytes.get(16..).unwrap_or_default());
        self.subflows = std::array::from_fn(|_| fields.subflow());
    }
}
