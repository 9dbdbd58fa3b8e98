//! [`DrwaPrograms`]: the two BPF programs of one interface, with their maps.

use std::collections::BTreeMap;
use std::net::IpAddr;

use control::receiver::ReceiverParams;
use io::IoError;
use io::bpf::{Hook, Hooked, MapView, Object, TcDirection};
use io::netlink::InterfaceIndex;
use units::Duration;

use crate::layout::{
    Connection, Counters, KEY_LEN, Peer, SELECTION_LEN, SELECTIONS_MAX, Settings, Shared, octets,
};
use crate::selection::Selection;

/// `bpf/drwa.bpf.c`, compiled; nothing loads it where there is none.
#[cfg(not(feature = "bpf"))]
static ELF: &[u8] = &[];
/// `bpf/drwa.bpf.c`, compiled.
#[cfg(feature = "bpf")]
static ELF: &[u8] = include_bytes!(concat!(env!("OUT_DIR"), "/drwa.bpf.o"));

/// Settings of a program.
#[derive(Clone, Debug)]
pub struct Setup {
    /// The algorithm's parameters.
    pub params: ReceiverParams,
    /// Bytes of link header before IP: 14 on Ethernet, 0 where packets have none.
    pub link_header_len: u32,
    /// Connections it is for; none: all.
    pub selections: Vec<Selection>,
    /// The time is what [`DrwaPrograms::set_time`] says.
    pub is_test: bool,
}

impl Setup {
    fn bytes(&self) -> Vec<u8> {
        let micros = |time: Option<Duration>| time.map_or(0, |time| time.as_nanos() / 1_000);
        let params = &self.params;
        let settings = Settings {
            alpha_permille: u64::from(params.alpha_permille.min(1_000)),
            lambda_permille: u64::from(params.lambda_permille),
            initial_window: params.initial_window.get(),
            re_baseline_us: micros(params.re_baseline),
            retry_us: micros(params.retry),
            link_header_len: self.link_header_len,
            is_free_without_queue: params.is_free_without_queue.into(),
            shares: params.shares.into(),
            without_timestamps: params.without_timestamps.into(),
            selections: self.selections.len().min(SELECTIONS_MAX) as u32,
            is_test: self.is_test.into(),
        };
        let mut bytes = settings.bytes();
        bytes.extend(self.selections.iter().take(SELECTIONS_MAX).flat_map(Selection::bytes));
        bytes.resize(Settings::LEN + SELECTIONS_MAX * SELECTION_LEN, 0);
        bytes
    }
}

/// One end of a connection and the other.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Ends {
    /// This host's address and port.
    pub local: (IpAddr, u16),
    /// The other's.
    pub remote: (IpAddr, u16),
}

impl Ends {
    /// From `struct key`.
    #[must_use]
    pub fn read(key: &[u8]) -> Option<Self> {
        let address = |bytes: &[u8]| -> Option<IpAddr> {
            match key.get(36..KEY_LEN)? {
                family if family == 4u32.to_ne_bytes() => {
                    let four: [u8; 4] = bytes.get(..4)?.try_into().ok()?;
                    Some(four.into())
                }
                _ => {
                    let all: [u8; 16] = bytes.try_into().ok()?;
                    Some(all.into())
                }
            }
        };
        let port = |at: usize| Some(u16::from_be_bytes(key.get(at..at + 2)?.try_into().ok()?));
        Some(Self {
            local: (address(key.get(..16)?)?, port(32)?),
            remote: (address(key.get(16..32)?)?, port(34)?),
        })
    }

    /// `struct key`.
    #[must_use]
    pub fn key(&self) -> Vec<u8> {
        let mut key = Vec::with_capacity(KEY_LEN);
        key.extend(octets(self.local.0));
        key.extend(octets(self.remote.0));
        key.extend(self.local.1.to_be_bytes());
        key.extend(self.remote.1.to_be_bytes());
        key.extend(if self.local.0.is_ipv4() { 4u32 } else { 6 }.to_ne_bytes());
        key
    }
}

/// View of the maps of a program, from any process.
#[derive(Debug)]
pub struct View {
    connections: MapView,
    counts: MapView,
}

impl View {
    /// The maps with these numbers.
    ///
    /// # Errors
    /// When they are gone, or the privilege is missing.
    pub fn by_ids(connections: u32, counts: u32) -> Result<Self, IoError> {
        Ok(Self { connections: MapView::by_id(connections)?, counts: MapView::by_id(counts)? })
    }

    /// Numbers of the maps: connections, counters.
    ///
    /// # Errors
    /// When the kernel does not say.
    pub fn ids(&self) -> Result<(u32, u32), IoError> {
        Ok((self.connections.id()?, self.counts.id()?))
    }

    /// All connections that it has seen and not forgotten, in order of their ends.
    #[must_use]
    pub fn connections(&self) -> BTreeMap<Ends, Connection> {
        let read = |(key, value): (Vec<u8>, Vec<u8>)| Some((Ends::read(&key)?, Connection::read(&value)));
        self.connections.elements().into_iter().filter_map(read).collect()
    }

    /// Counters of the program.
    ///
    /// # Errors
    /// When the kernel refuses.
    pub fn counters(&self) -> Result<Counters, IoError> {
        Ok(Counters::read(&self.counts.get(&FIRST)?.unwrap_or_default()))
    }
}

/// The only element of an array.
const FIRST: [u8; 4] = [0; 4];

/// Both programs, loaded.
#[derive(Debug)]
pub struct DrwaPrograms {
    object: Object,
}

impl DrwaPrograms {
    /// Has the kernel verify and translate them.
    ///
    /// # Errors
    /// When the privilege is missing, or the kernel is older than Linux 5.12.
    pub fn load(setup: &Setup) -> Result<Self, IoError> {
        Ok(Self { object: Object::load("drwa", ELF, &setup.bytes())? })
    }

    /// Sets them to work on an interface; they end with the attachments. What comes in first: so no handshake is
    /// half seen.
    ///
    /// # Errors
    /// When the interface is gone.
    pub fn attach(&self, interface: InterfaceIndex, hook: Hook) -> Result<[Hooked; 2], IoError> {
        Ok([
            self.object.attach("drwa_in", interface, TcDirection::In, hook)?,
            self.object.attach("drwa_out", interface, TcDirection::Out, hook)?,
        ])
    }

    /// View of the maps of the programs.
    ///
    /// # Errors
    /// When the kernel refuses.
    pub fn view(&self) -> Result<View, IoError> {
        Ok(View { connections: self.object.map("connections")?, counts: self.object.map("counts")? })
    }

    /// A frame as the programs leave it that comes in or goes out (`BPF_PROG_TEST_RUN`).
    ///
    /// # Errors
    /// When the kernel refuses the frame.
    pub fn test(&self, direction: TcDirection, frame: &[u8]) -> Result<Vec<u8>, IoError> {
        let program = if direction == TcDirection::In { "drwa_in" } else { "drwa_out" };
        self.object.test(program, frame)
    }

    /// Sets the time of a [`Setup`] for tests.
    ///
    /// # Errors
    /// When the kernel refuses.
    pub fn set_time(&self, now_us: u64) -> Result<(), IoError> {
        self.object.map(".bss")?.set(&FIRST, &now_us.to_ne_bytes())
    }

    /// Knowledge that the connections of the interface share.
    ///
    /// # Errors
    /// When the kernel refuses.
    pub fn shared(&self) -> Result<(Shared, BTreeMap<[u8; 16], Peer>), IoError> {
        let shared = Shared::read(&self.object.map("shared_state")?.get(&FIRST)?.unwrap_or_default());
        let read = |(key, value): (Vec<u8>, Vec<u8>)| Some((key.try_into().ok()?, Peer::read(&value)));
        Ok((shared, self.object.map("peers")?.elements().into_iter().filter_map(read).collect()))
    }

    /// Bytes of the values of both maps, as the compiler laid them out.
    ///
    /// # Errors
    /// When the kernel refuses.
    pub fn value_lens(&self) -> Result<[u32; 4], IoError> {
        let len = |name| self.object.map(name)?.value_len();
        Ok([len("connections")?, len("shared_state")?, len("peers")?, len("counts")?])
    }
}
