//! Memory that the program in the kernel and this one share, byte by byte: `bpf/drwa.h` in Rust.
//!
//! `tests/segments.rs` compares sizes with those that the compiler gave the program.

use std::net::IpAddr;

/// Reads one structure from the kernel's memory, field after field.
macro_rules! words {
    ($(#[$attribute:meta])* $name:ident { $($(#[$doc:meta])* $field:ident: $kind:ty),* $(,)? }) => {
        $(#[$attribute])*
        #[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
        #[allow(missing_docs, reason = "bpf/drwa.h explains them")]
        pub struct $name { $($(#[$doc])* pub $field: $kind),* }

        impl $name {
            /// Bytes.
            pub const LEN: usize = 0 $(+ size_of::<$kind>())*;

            /// From the kernel's memory; what is missing is zero.
            #[must_use]
            pub fn read(bytes: &[u8]) -> Self {
                let mut rest = bytes;
                Self { $($field: <$kind>::from_ne_bytes(take(&mut rest))),* }
            }

            /// As the kernel has it.
            #[must_use]
            pub fn bytes(&self) -> Vec<u8> {
                let mut bytes = Vec::with_capacity(Self::LEN);
                $(bytes.extend(self.$field.to_ne_bytes());)*
                bytes
            }
        }
    };
}

fn take<const N: usize>(rest: &mut &[u8]) -> [u8; N] {
    let (first, others) = rest.split_at_checked(N).unwrap_or((&[], &[]));
    *rest = others;
    first.try_into().unwrap_or([0; N])
}

words!(
    /// `struct connection`.
    Connection {
        flags: u32,
        mss: u32,
        local_scale: u32,
        local_isn: u32,
        remote_isn: u32,
        syns: u32,
        syn_us: u64,
        opened_us: u64,
        taken: u64,
        best: u64,
        data_us: u64,
        bytes: u64,
        samples: u64,
        pauses: u32,
        in_ended: u32,
        mark: u64,
        first: u64,
        delivered: u64,
        began_us: u64,
        began_delivered: u64,
        cwnd_est: u64,
        rtt_est_us: u64,
        rtt_min_us: u64,
        window: u64,
        unexplained_us: u64,
        explained_rtt_us: u64,
        explained_cwnd: u64,
        above_rtt_us: u64,
        above_cwnd: u64,
        above_bytes: u64,
        probe_rtt_us: u64,
        probe_least_us: u64,
        probe_rounds: u64,
        before_us: u64,
        retry_us: u64,
        lowered: u64,
        acks: u64,
        edge: u32,
        acked: u32,
        tsval: u32,
        round: u32,
        pauses_known: u32,
        slot: u32,
        own_window: u32,
        told_window: u32,
        out_ended: u32,
        tick_us: u32,
    }
);

words!(
    /// `struct shared`.
    Shared {
        now_number: u32,
        now_connections: u32,
        now_bytes: u64,
        now_queue_us: u64,
        before_number: u32,
        before_connections: u32,
        before_bytes: u64,
        before_queue_us: u64,
        queue_until_us: u64,
        data_us: u64,
    }
);

words!(
    /// `struct peer`.
    Peer { rtt_min_us: u64, confirmed_us: u64 }
);

words!(
    /// `struct counters`.
    Counters {
        connections: u64,
        late: u64,
        mptcp: u64,
        unselected: u64,
        segments_out: u64,
        windows_lowered: u64,
        bytes_in: u64,
        rounds: u64,
    }
);

words!(
    /// `struct settings`, without its selections, which follow.
    Settings {
        alpha_permille: u64,
        lambda_permille: u64,
        initial_window: u64,
        re_baseline_us: u64,
        retry_us: u64,
        link_header_len: u32,
        is_free_without_queue: u32,
        shares: u32,
        without_timestamps: u32,
        selections: u32,
        is_test: u32,
    }
);

/// Bits of [`Connection::flags`].
pub mod flag {
    /// Both SYNs were seen, and an ACK sent: the window is managed.
    pub const SHAKEN: u32 = 1 << 8;
    /// First seen after its SYN.
    pub const LATE: u32 = 1 << 9;
    /// Not chosen by the settings.
    pub const UNSELECTED: u32 = 1 << 10;
    /// Multipath TCP.
    pub const MPTCP: u32 = 1 << 11;
}

/// Bytes of `struct key`.
pub const KEY_LEN: usize = 40;
/// Bytes of `struct selection`.
pub const SELECTION_LEN: usize = 32;
/// Selections that fit.
pub const SELECTIONS_MAX: usize = 16;

/// An address as the programs keep it: IPv4 in the first four bytes.
#[must_use]
pub fn octets(address: IpAddr) -> [u8; 16] {
    match address {
        IpAddr::V6(address) => address.octets(),
        IpAddr::V4(address) => {
            let [a, b, c, d] = address.octets();
            [a, b, c, d, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0]
        }
    }
}
