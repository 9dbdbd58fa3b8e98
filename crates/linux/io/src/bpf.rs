//! Small programs inside the kernel: built instruction by instruction, loaded, and attached to an interface.
//!
//! Those that steer packets are made with an [`Assembler`] while we run, with the numbers of this
//! machine in them: a page of instructions that needs no compiler and nothing to relocate. Of the
//! crates looked at, `rbpf` builds instructions but knows neither labels nor maps. What is longer is
//! written in C, compiled while we are built, and loaded as an [`Object`] by libbpf. A program built without the feature
//! `bpf` needs neither clang nor libbpf: what would load an object says so there ([`require_objects`]).

mod assembler;
mod congestion_control;
mod group;
mod load;
mod map;
#[cfg(feature = "bpf")]
mod needs;
mod netfilter;
#[cfg(feature = "bpf")]
mod object;
mod program;
mod subflows;
mod system;
#[cfg(not(feature = "bpf"))]
mod without;

pub use assembler::{Assembler, Condition, Helper, Instruction, Label, Operation, Register, Width};
pub use congestion_control::{CongestionControl, choose_congestion_control};
pub use group::root_group;
pub use load::{FILTER_PRIORITY, Hook, Load};
pub use map::{HashMap, SharedArray};
#[cfg(feature = "bpf")]
pub use needs::{CongestionControls, congestion_controls, require_congestion_control};
pub(crate) use netfilter::{NetfilterProgram, netfilter_programs};
#[cfg(feature = "bpf")]
pub use object::{Filter, Hooked, MapView, Object, Registered, relocated, remove_filters};
pub use program::{
    Attachment, Program, ProgramCost, costs_at, is_at, is_number, is_tcx_there, measure_run_time, programs_at,
};
pub use subflows::{Selection, for_new_connections, for_new_subflows};
pub use system::TcDirection;
#[cfg(not(feature = "bpf"))]
pub use without::{
    CongestionControls, Hooked, MapView, Object, Registered, congestion_controls, relocated, remove_filters,
    require_congestion_control,
};

use crate::IoError;

/// Compiled objects can be loaded: this was built with the feature `bpf`.
pub const HAS_OBJECTS: bool = cfg!(feature = "bpf");

/// Checks that this was built with compiled objects, for an attempt to do `what`, which begins with a verb.
///
/// # Errors
/// One line that says how to build it.
pub fn require_objects(what: &str) -> Result<(), IoError> {
    if HAS_OBJECTS { Ok(()) } else { Err(IoError::WithoutObjects { what: what.to_owned() }) }
}
