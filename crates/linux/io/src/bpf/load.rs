//! [`Load`]: how a compiled object is loaded; [`Hook`]: what holds its programs.

use std::path::Path;

/// Priority of our filters among those of an interface: behind nearly all others.
pub const FILTER_PRIORITY: u16 = 49_000;

/// `TCP_CA_NAME_MAX`: bytes of a congestion control's name, with the zero behind it.
pub(super) const NAME_LEN: usize = 16;

/// Kind of hook that holds a program at an interface.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Hook {
    /// A link where the kernel has tcx, else a filter.
    #[default]
    Any,
    /// A link: it ends with the process.
    Link,
    /// A filter of a clsact qdisc: it stays when the process dies.
    Filter,
}

/// Settings for loading an object.
#[derive(Clone, Copy, Debug, Default)]
pub struct Load<'a> {
    /// Name in messages.
    pub name: &'a str,
    /// The compiled object.
    pub elf: &'a [u8],
    /// The start of its constants (`.rodata.settings`).
    pub constants: &'a [u8],
    /// Programs that are loaded only when they are named here (`SEC("?…")`).
    pub also: &'a [&'a str],
    /// A congestion control: its map, and the name to give it, at most 15 bytes.
    pub congestion_control: Option<(&'a str, &'a str)>,
    /// BTF by which to relocate, in place of the running kernel's.
    pub btf: Option<&'a Path>,
}
