//! Memory that the program in the kernel and this one share, byte by byte: `bpf/congestion.h` and `bpf/law.h` in Rust.
//!
//! `tests/arithmetic.rs` compares sizes with those that the compiler gave the program.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};

use control::server::{AckEvent, Bound, Law, Member, Peers, SLOTS, SharedPath, Shares};

/// Reads numbers one after the other; what is missing is zero.
struct Fields<'a>(&'a [u8]);

impl Fields<'_> {
    fn take<const N: usize>(&mut self) -> [u8; N] {
        let (first, others) = self.0.split_at_checked(N).unwrap_or((&[], &[]));
        self.0 = others;
        first.try_into().unwrap_or([0; N])
    }

    fn u16(&mut self) -> u16 {
        u16::from_ne_bytes(self.take())
    }

    fn u32(&mut self) -> u32 {
        u32::from_ne_bytes(self.take())
    }

    fn u64(&mut self) -> u64 {
        u64::from_ne_bytes(self.take())
    }

    fn ack(&mut self) -> AckEvent {
        AckEvent {
            now_us: self.u64(),
            delivered: self.u64(),
            lost: self.u64(),
            rtt_us: self.u64(),
            in_flight_before: self.u64(),
            is_limited: self.u64() != 0,
        }
    }
}

/// Bytes of `struct shares`, `peers`, `path` and `member`.
const SHARES_LEN: usize = 4 * 8;
const PEERS_LEN: usize = SHARES_LEN + 3 * 8;
const PATH_LEN: usize = 3 * 8 + SHARES_LEN + 4 * 8 + 2 * SLOTS * 4;
const MEMBER_LEN: usize = 17 * 8 + SHARES_LEN + 2 * 8;

/// Writes both directions from the list of fields, in the order of the structure in C: numbers, and what it contains.
macro_rules! structure {
    ($type:ident, $write:ident, $read:ident: $($field:ident $(by $inner:ident $reader:ident)?),+) => {
        fn $write(value: &$type, bytes: &mut Vec<u8>) {
            $(structure!(@write value.$field, bytes $(, $inner)?);)+
        }

        fn $read(fields: &mut Fields<'_>) -> $type {
            let mut value = $type::default();
            $(value.$field = structure!(@read fields $(, $reader)?);)+
            value
        }
    };
    (@write $value:expr, $bytes:ident) => { $bytes.extend($value.to_ne_bytes()) };
    (@write $value:expr, $bytes:ident, $inner:ident) => { $inner(&$value, $bytes) };
    (@read $fields:ident) => { $fields.u64() };
    (@read $fields:ident, $reader:ident) => { $reader($fields) };
}

structure!(Shares, write_shares, read_shares: count, forecast, recent, headroom_ns);
structure!(Peers, write_peers, read_peers:
    others by write_shares read_shares, floor_us, drain_from_us, drain_until_us);
structure!(SharedPath, write_path, read_path:
    leader, led_us, group, members by write_shares read_shares, drain_from_us, drain_until_us, floor_us, rate,
    slots by write_slots read_slots, means_us by write_slots read_slots);
structure!(Member, write_member, read_member:
    number, leader, group, is_drained, slot, sum_us, samples, ended_slot, ended_us, earlier_slot, earlier_us, own_eighths,
    leaders_eighths, apart, spread, compared, is_joined, given by write_shares read_shares, is_fresh, bins_told);

fn write_slots(slots: &[u32; SLOTS], bytes: &mut Vec<u8>) {
    slots.iter().for_each(|slot| bytes.extend(slot.to_ne_bytes()));
}

fn read_slots(fields: &mut Fields<'_>) -> [u32; SLOTS] {
    std::array::from_fn(|_| fields.u32())
}

/// Bytes of `struct ack_event`.
const ACK_LEN: usize = 48;

fn ack_bytes(ack: &AckEvent) -> impl Iterator<Item = u8> {
    let fields =
        [ack.now_us, ack.delivered, ack.lost, ack.rtt_us, ack.in_flight_before, u64::from(ack.is_limited)];
    fields.into_iter().flat_map(u64::to_ne_bytes)
}

/// Writes both directions from the list of fields, in the order of `struct law`.
macro_rules! law {
    ($($wide:ident)+ ; $($narrow:ident)+ ; $($ring:ident)+) => {
        /// `struct law` as the kernel has it.
        #[must_use]
        pub fn law_bytes(law: &Law) -> Vec<u8> {
            let mut bytes = Vec::with_capacity(LAW_LEN);
            $(bytes.extend(law.$wide.to_ne_bytes());)+
            $(bytes.extend(law.$narrow.to_ne_bytes());)+
            $(law.$ring.iter().for_each(|one| bytes.extend(one.to_ne_bytes()));)+
            bytes
        }

        fn read_law(fields: &mut Fields<'_>) -> Law {
            let mut law = Law::new(1);
            $(law.$wide = fields.u64();)+
            $(law.$narrow = fields.u32();)+
            $(law.$ring = std::array::from_fn(|_| fields.u32());)+
            law
        }
    };
}

law! {
    window pacing_rate mss limited_us
    bin_us bin_started_us bin_bytes bin_is_limited forecast average
    last_ack_us gaps_us gap_squares
    floor_us confirmed_us age_max_us drain_from_us drain_until_us drain_smallest_us drain_rtt_us
    headroom_ns start_window queueing_since_us allowed lost_us
    acknowledged pending long_delivered long_lost short_delivered short_lost size rises_us
    longest longest_before longest_since_us
    police_state police_since_us police_delivered police_lost police_before_ppm police_again_us
    police_rate police_parts police_waited_us police_samples
    others others_forecast others_recent others_headroom_ns ;
    bound others_queue drain_samples bins_written marks_written acks ;
    bins mark_us mark_bytes met
}

/// Bytes of `struct law`.
pub const LAW_LEN: usize = 50 * 8 + 6 * 4 + (32 + 16 + 16 + 8) * 4;

/// `enum event_kind`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum EventKind {
    /// A connection begins: with the round trip of its handshake, and the window to begin with as what is delivered.
    Begin,
    /// It was idle until then.
    Idle,
    /// A retransmission time-out.
    Timeout,
    /// An acknowledgement.
    Ack,
    /// Other members of the path have said something.
    Peers,
}

impl EventKind {
    /// All of them, from number 1 on.
    pub const ALL: [Self; 5] = [Self::Begin, Self::Idle, Self::Timeout, Self::Ack, Self::Peers];

    fn number(self) -> u64 {
        self as u64 + 1
    }
}

/// Has the reference handle an event.
pub fn handle(law: &mut Law, kind: EventKind, mss: u64, ack: &AckEvent, peers: &Peers) {
    match kind {
        EventKind::Begin => {
            *law = Law::new(mss);
            law.on_handshake(ack.rtt_us, ack.now_us);
            if ack.delivered > 0 {
                law.on_hint(ack.delivered);
            }
        }
        EventKind::Idle => law.on_idle(ack.now_us),
        EventKind::Timeout => law.on_timeout(ack.now_us),
        EventKind::Ack => law.on_ack(ack),
        EventKind::Peers => law.on_peers(peers, ack.now_us),
    }
}

/// `struct event`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Event {
    /// Of the connection, from 1.
    pub number: u64,
    /// Of the event, from 1.
    pub sequence: u64,
    /// Kind of the event.
    pub kind: EventKind,
    /// Payload of a segment, bytes.
    pub mss: u64,
    /// Acknowledgement that was heard; of other kinds the moment alone, or also the round trip.
    pub ack: AckEvent,
    /// State of the other members of the path.
    pub peers: Peers,
    /// The law's window after it, bytes.
    pub window: u64,
    /// The law's rate after it, bytes per second.
    pub pacing_rate: u64,
    /// The kernel's window after it, segments.
    pub cwnd: u64,
}

impl Event {
    /// Bytes.
    pub const LEN: usize = 7 * 8 + ACK_LEN + PEERS_LEN;

    /// From the kernel's memory; none when it is no event.
    #[must_use]
    pub fn read(bytes: &[u8]) -> Option<Self> {
        let mut fields = Fields(bytes.get(..Self::LEN)?);
        let (number, sequence, kind) = (fields.u64(), fields.u64(), fields.u64());
        Some(Self {
            number,
            sequence,
            kind: EventKind::ALL.into_iter().find(|known| known.number() == kind)?,
            mss: fields.u64(),
            ack: fields.ack(),
            peers: read_peers(&mut fields),
            window: fields.u64(),
            pacing_rate: fields.u64(),
            cwnd: fields.u64(),
        })
    }
}

/// `struct shown`: a connection as the status has it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Shown {
    /// The other end.
    pub remote: SocketAddr,
    /// This end's port.
    pub local_port: u16,
    /// Connections of the same path besides with which it shares what is known.
    pub others: u16,
    /// Bound of the window; none of a number that is unknown.
    pub bound: Option<Bound>,
    /// Smoothed round trip, µs.
    pub rtt_us: u32,
    /// Time at which it was shown, µs on the kernel's monotonic clock.
    pub at_us: u64,
    /// Bytes.
    pub window: u64,
    /// Delivered of late, bytes per second.
    pub average: u64,
    /// Expected, bytes per second.
    pub forecast: u64,
    /// Smallest round trip, µs.
    pub floor_us: u64,
    /// Segments delivered so far.
    pub delivered: u64,
}

impl Shown {
    /// Bytes.
    pub const LEN: usize = 80;

    /// From the kernel's memory.
    #[must_use]
    pub fn read(bytes: &[u8]) -> Self {
        let mut fields = Fields(bytes);
        let address: [u8; 16] = fields.take();
        let (remote_port, local_port, is_ipv6) = (fields.u16(), fields.u16(), fields.u16() != 0);
        let others = fields.u16();
        let mapped = Ipv6Addr::from(address);
        let address = match (is_ipv6, mapped.to_ipv4_mapped()) {
            (false, _) => IpAddr::from(Ipv4Addr::new(address[0], address[1], address[2], address[3])),
            (true, Some(inner)) => inner.into(),
            (true, None) => mapped.into(),
        };
        let bound = fields.u32();
        Self {
            remote: SocketAddr::new(address, remote_port),
            local_port,
            others,
            bound: Bound::ALL.into_iter().find(|known| known.number() == bound),
            rtt_us: fields.u32(),
            at_us: fields.u64(),
            window: fields.u64(),
            average: fields.u64(),
            forecast: fields.u64(),
            floor_us: fields.u64(),
            delivered: fields.u64(),
        }
    }
}

/// True of a `struct shared_path` that counts no connection and was not heard of in the minute before `now_us`.
#[must_use]
pub fn is_forgotten(bytes: &[u8], now_us: u64) -> bool {
    let mut fields = Fields(bytes);
    let path = read_path(&mut fields);
    let (_number, connections) = (fields.u64(), fields.u64());
    connections == 0 && path.is_old(now_us)
}

/// Kind of a trial of the arithmetic alone, `enum trial_kind` besides [`EventKind`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TrialKind {
    /// An event of a connection.
    Event(EventKind),
    /// A member exchanges with its path, after an acknowledgement.
    Exchange,
    /// A member leaves its path.
    Leave,
    /// A connection begins with the window that its path hints at.
    Hint,
}

impl TrialKind {
    fn number(self) -> u64 {
        match self {
            Self::Event(kind) => kind.number(),
            Self::Exchange => 6,
            Self::Leave => 7,
            Self::Hint => 8,
        }
    }
}

/// `struct trial`: one event for the arithmetic alone.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Trial {
    /// Kind of the trial.
    pub kind: TrialKind,
    /// Payload of a segment, bytes, of one that begins.
    pub mss: u64,
    /// Acknowledgement that is heard.
    pub ack: AckEvent,
    /// The states to which it happens.
    pub law: Law,
    /// State that the connection keeps for its path.
    pub member: Member,
    /// The path.
    pub path: SharedPath,
    /// State of the others, of [`EventKind::Peers`]; written by [`TrialKind::Exchange`].
    pub peers: Peers,
    /// There was something to exchange.
    pub is_due: bool,
}

impl Trial {
    /// Bytes.
    pub const LEN: usize = 16 + ACK_LEN + LAW_LEN + MEMBER_LEN + PATH_LEN + PEERS_LEN + 8;

    /// Of a connection that begins.
    #[must_use]
    pub fn begin(mss: u64, ack: AckEvent) -> Self {
        Self {
            kind: TrialKind::Event(EventKind::Begin),
            mss,
            ack,
            law: Law::new(mss),
            member: Member::new(1),
            path: SharedPath::default(),
            peers: Peers::default(),
            is_due: false,
        }
    }

    /// As the kernel has it.
    #[must_use]
    pub fn bytes(&self) -> Vec<u8> {
        let mut bytes: Vec<u8> =
            [self.kind.number(), self.mss].into_iter().flat_map(u64::to_ne_bytes).collect();
        bytes.extend(ack_bytes(&self.ack));
        bytes.extend(law_bytes(&self.law));
        write_member(&self.member, &mut bytes);
        write_path(&self.path, &mut bytes);
        write_peers(&self.peers, &mut bytes);
        bytes.extend(u64::from(self.is_due).to_ne_bytes());
        bytes
    }

    /// Takes the states from the kernel's memory.
    pub fn take(&mut self, bytes: &[u8]) {
        let mut fields = Fields(bytes.get(16..).unwrap_or_default());
        self.ack = fields.ack();
        self.law = read_law(&mut fields);
        self.member = read_member(&mut fields);
        self.path = read_path(&mut fields);
        self.peers = read_peers(&mut fields);
        self.is_due = fields.u64() != 0;
    }

    /// The same by the reference.
    pub fn handle(&mut self) {
        let (ack, now_us) = (self.ack, self.ack.now_us);
        match self.kind {
            TrialKind::Event(kind) => handle(&mut self.law, kind, self.mss, &ack, &self.peers),
            TrialKind::Exchange => {
                self.is_due = self.member.on_ack(&self.law, ack.rtt_us, now_us);
                let (peers, is_new) = self.member.exchange(&self.law, &mut self.path, now_us);
                self.peers = peers;
                if is_new {
                    self.law.on_peers(&peers, now_us);
                }
            }
            TrialKind::Leave => self.member.leave(&mut self.path),
            TrialKind::Hint => {
                self.ack.delivered = self.path.start_window(self.mss, now_us);
                self.law.on_hint(self.ack.delivered);
            }
        }
    }
}
