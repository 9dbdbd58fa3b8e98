//! [`SchemeProgram`]: the BPF program of one scheme, loaded, and registered as a congestion control.

use std::collections::BTreeMap;
use std::path::Path;

use control::coupled::Scheme;
use io::IoError;
use io::bpf::{CongestionControl, Load, MapView, require_congestion_control};

use crate::layout::{Connection, Event, Trial};

/// `bpf/coupled.bpf.c`, compiled; nothing loads it where there is none.
#[cfg(not(feature = "bpf"))]
static ELF: &[u8] = &[];
/// `bpf/coupled.bpf.c`, compiled.
#[cfg(feature = "bpf")]
static ELF: &[u8] = include_bytes!(concat!(env!("OUT_DIR"), "/coupled.bpf.o"));
/// Program in it that handles a trial.
const TRIAL: &str = "coupled_trial";

/// The name by which the kernel knows a scheme; at most 15 bytes.
#[must_use]
pub const fn kernel_name(scheme: Scheme) -> &'static str {
    match scheme {
        Scheme::Lia => "lia",
        Scheme::CoupledIncrease => "coupled_inc",
        Scheme::FullyCoupled => "fully_coupled",
        Scheme::CoupledDecrease => "coupled_dec",
        Scheme::Balia => "balia",
    }
}

/// Settings of a program.
#[derive(Clone, Debug)]
pub struct Setup {
    /// Scheme by which subflows are coupled.
    pub scheme: Scheme,
    /// The congestion control's name in the kernel; at most 15 bytes.
    pub name: String,
    /// It writes down what happens ([`SchemeProgram::events`]), and handles trials.
    pub is_test: bool,
}

impl Setup {
    /// `scheme` by its usual name.
    #[must_use]
    pub fn new(scheme: Scheme) -> Self {
        Self { scheme, name: kernel_name(scheme).to_owned(), is_test: false }
    }

    /// `scheme` by a name that no other process of this machine takes: the registry is the whole kernel's.
    #[must_use]
    pub fn private(scheme: Scheme) -> Self {
        let name = format!("c{}_{}", scheme.number(), std::process::id());
        Self { scheme, name, is_test: false }
    }
}

/// A scheme's program.
#[derive(Debug)]
pub struct SchemeProgram(CongestionControl);

impl SchemeProgram {
    /// Has the kernel verify and translate it.
    ///
    /// # Errors
    /// When the privilege is missing, the kernel has no congestion controls in BPF, or its verifier refuses: with
    /// its log ([`IoError::log`]).
    pub fn load(setup: &Setup) -> Result<Self, IoError> {
        io::bpf::require_objects("couple subflows")?;
        io::features::require(io::features::Feature::Bpf)?;
        require_congestion_control(None)?;
        let constants = [setup.scheme.number(), u32::from(setup.is_test)].map(u32::to_ne_bytes).concat();
        let also: &[&str] = if setup.is_test { &[TRIAL] } else { &[] };
        let load = Load { name: "coupled", elf: ELF, constants: &constants, also, ..Load::default() };
        CongestionControl::load(&load, "coupled", &setup.name).map(Self)
    }

    /// The instructions of each of its programs, relocated by the BTF in a file, or by the running kernel's.
    ///
    /// # Errors
    /// When it cannot be relocated by that, or the privilege is missing.
    pub fn relocated(btf: Option<&Path>) -> Result<Vec<(String, Vec<u64>)>, IoError> {
        let constants = [0; 8];
        io::bpf::relocated(&Load { name: "coupled", elf: ELF, constants: &constants, btf, ..Load::default() })
    }

    /// Registers it with the kernel, for all network namespaces, until the value goes.
    ///
    /// # Errors
    /// When one of that name is there ([`IoError::is_already_there`]).
    pub fn register(&mut self) -> Result<(), IoError> {
        self.0.register()
    }

    /// The congestion control's name.
    #[must_use]
    pub fn name(&self) -> &str {
        self.0.name()
    }

    /// The connections, to read.
    ///
    /// # Errors
    /// When the kernel refuses.
    pub fn connections(&self) -> Result<MapView, IoError> {
        self.0.map("connections")
    }

    /// Events since the last call, in the order of each connection's numbers; and how many events found no
    /// room so far. Of a program for tests.
    ///
    /// # Errors
    /// When the kernel refuses.
    pub fn events(&self) -> Result<(Vec<Event>, u64), IoError> {
        let mut found = Vec::new();
        let lost = self.0.drain_events(|bytes| found.extend(Event::read(bytes)))?;
        found.sort_by_key(|event| (event.token, event.sequence));
        Ok((found, lost))
    }

    /// Lets the program's arithmetic handle one event. Of a program for tests.
    ///
    /// # Errors
    /// When the kernel refuses.
    pub fn attempt(&self, trial: &mut Trial) -> Result<(), IoError> {
        let handled = self.0.attempt(TRIAL, &trial.bytes())?;
        trial.take_subflows(&handled);
        Ok(())
    }

    /// Bytes of a connection and of a trial, as the compiler laid them out.
    ///
    /// # Errors
    /// When the kernel refuses.
    pub fn value_lens(&self) -> Result<[u32; 2], IoError> {
        Ok([self.0.map("connections")?.value_len()?, self.0.map("trials")?.value_len()?])
    }
}

/// The connections in a map, by token.
pub(crate) fn connections(view: &MapView) -> BTreeMap<u32, Connection> {
    let read = |(key, value): (Vec<u8>, Vec<u8>)| {
        Some((u32::from_ne_bytes(key.try_into().ok()?), Connection::read(&value)))
    };
    view.elements().into_iter().filter_map(read).collect()
}
