//! Small programs inside the kernel: built instruction by instruction, loaded, and attached to an interface.
//!
//! Those that steer packets are made with an [`Assembler`] while we run, with the numbers of this
//! machine in them: a page of instructions that needs no compiler and nothing to relocate. Of the
//! crates looked at, `rbpf` builds instructions but knows neither labels nor maps. What is longer is
//! written in C, compiled while we are built, and loaded as an [`Object`] by libbpf.

mod assembler;
mod group;
mod map;
mod needs;
mod object;
mod program;
mod subflows;
mod system;

pub use assembler::{Assembler, Condition, Helper, Instruction, Label, Operation, Register, Width};
pub use group::root_group;
pub use map::{HashMap, SharedArray};
pub use needs::require_congestion_control;
pub use object::{Filter, Hook, Hooked, Load, MapView, Object, Registered, relocated, remove_filters};
pub use program::{Attachment, Direction, Program, is_at, is_number, is_tcx_there, programs_at};
pub use subflows::for_new_subflows;
