//! [`ControlProgram`]: the BPF program, loaded, and registered as a congestion control.

use io::IoError;
use io::bpf::{CongestionControl, Load, MapView, congestion_controls};
use units::Instant;

use crate::layout::{Event, Shown, Trial, is_forgotten};

/// `bpf/congestion.bpf.c`, compiled; nothing loads it where there is none.
#[cfg(not(feature = "bpf"))]
static ELF: &[u8] = &[];
/// `bpf/congestion.bpf.c`, compiled.
#[cfg(feature = "bpf")]
static ELF: &[u8] = include_bytes!(concat!(env!("OUT_DIR"), "/congestion.bpf.o"));
/// The congestion controls in it, by the arguments of the kernel's `cong_control`.
const CONTROLS: [(usize, &str); 2] = [(4, "adaptive_four"), (2, "adaptive_two")];
/// Program in it that handles a trial.
const TRIAL: &str = "adaptive_trial";

/// The name by which the kernel knows it.
pub const KERNEL_NAME: &str = "adaptive";

/// Settings of a program.
#[derive(Clone, Debug)]
pub struct Setup {
    /// The congestion control's name in the kernel; at most 15 bytes.
    pub name: String,
    /// It writes down what happens ([`ControlProgram::events`]), and handles trials.
    pub is_test: bool,
}

impl Setup {
    /// By its usual name.
    #[must_use]
    pub fn usual() -> Self {
        Self { name: KERNEL_NAME.to_owned(), is_test: false }
    }

    /// By a name that no other process of this machine takes: the registry is the whole kernel's.
    #[must_use]
    pub fn private() -> Self {
        Self { name: format!("ca_{}", std::process::id()), is_test: false }
    }
}

/// The program.
#[derive(Debug)]
pub struct ControlProgram(CongestionControl);

impl ControlProgram {
    /// Has the kernel verify and translate it.
    ///
    /// # Errors
    /// When the privilege is missing, the kernel has no congestion controls in BPF, or its verifier refuses: with
    /// its log ([`IoError::log`]).
    pub fn load(setup: &Setup) -> Result<Self, IoError> {
        io::bpf::require_objects("load a congestion control")?;
        io::features::require(io::features::Feature::Bpf)?;
        let arguments = congestion_controls(None)?.control_arguments;
        let control = CONTROLS.into_iter().find(|(count, _)| *count == arguments).map(|(_, control)| control);
        let control = control.ok_or_else(|| IoError::Missing {
            what: "a congestion control for this kernel".to_owned(),
            remedy: format!("its cong_control takes {arguments} arguments, and 2 or 4 are known"),
        })?;
        let constants = [u32::from(setup.is_test), 0].map(u32::to_ne_bytes).concat();
        let also: &[&str] = if setup.is_test { &[TRIAL] } else { &[] };
        let load = Load { name: "congestion", elf: ELF, constants: &constants, also, ..Load::default() };
        CongestionControl::load(&load, control, &setup.name).map(Self)
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

    /// The connections that use it, to read.
    ///
    /// # Errors
    /// When the kernel refuses.
    pub fn connections(&self) -> Result<MapView, IoError> {
        self.0.map("connections")
    }

    /// Takes away what is known of destinations without connections that were not heard of for a minute.
    ///
    /// # Errors
    /// When the kernel refuses.
    pub fn sweep(&self, now: Instant) -> Result<(), IoError> {
        let paths = self.0.map("paths")?;
        for (key, value) in paths.elements() {
            // A connection that comes in between begins the path anew.
            if is_forgotten(&value, now.as_nanos() / 1_000) {
                paths.remove(&key)?;
            }
        }
        Ok(())
    }

    /// Destinations of which something is known.
    ///
    /// # Errors
    /// When the kernel refuses.
    pub fn paths(&self) -> Result<usize, IoError> {
        Ok(self.0.map("paths")?.elements().len())
    }

    /// Events since the last call, by connection and in order; and how many events found no room so far. Of a
    /// program for tests.
    ///
    /// # Errors
    /// When the kernel refuses.
    pub fn events(&self) -> Result<(Vec<Event>, u64), IoError> {
        let mut found = Vec::new();
        let lost = self.0.drain_events(|bytes| found.extend(Event::read(bytes)))?;
        found.sort_by_key(|event| (event.number, event.sequence));
        Ok((found, lost))
    }

    /// Lets the program's arithmetic handle one event. Of a program for tests.
    ///
    /// # Errors
    /// When the kernel refuses.
    pub fn attempt(&self, trial: &mut Trial) -> Result<(), IoError> {
        let handled = self.0.attempt(TRIAL, &trial.bytes())?;
        trial.take(&handled);
        Ok(())
    }

    /// Bytes of what is shown of a connection and of a trial, as the compiler laid them out.
    ///
    /// # Errors
    /// When the kernel refuses.
    pub fn value_lens(&self) -> Result<[u32; 2], IoError> {
        Ok([self.connections()?.value_len()?, self.0.map("trials")?.value_len()?])
    }
}

/// The connections in a map, by number.
pub(crate) fn shown(view: &MapView) -> Vec<(u64, Shown)> {
    let read = |(key, value): (Vec<u8>, Vec<u8>)| {
        Some((u64::from_ne_bytes(key.try_into().ok()?), Shown::read(&value)))
    };
    let mut all: Vec<_> = view.elements().into_iter().filter_map(read).collect();
    all.sort_by_key(|(number, _)| *number);
    all
}
