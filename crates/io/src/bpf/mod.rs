//! Small programs inside the kernel: built instruction by instruction, loaded, and attached to an interface.
//!
//! Programs are made with an [`Assembler`] while we run, with the numbers of this machine in them;
//! so neither building nor running needs a compiler for them, and there is nothing to relocate. Of
//! the crates looked at, `rbpf` builds instructions but knows neither labels nor maps, and `aya`
//! loads only what a compiler made.

mod assembler;
mod map;
mod program;
mod system;

pub use assembler::{Assembler, Condition, Helper, Instruction, Label, Operation, Register, Width};
pub use map::{HashMap, SharedArray};
pub use program::{Attachment, Program, is_tcx_there, programs_at};
