//! The tricks of memory and time: they know places and bytes, and nothing of what these mean.

pub(crate) mod ahead;
pub(crate) mod index;
pub(crate) mod slab;
pub(crate) mod spare;
pub(crate) mod timer;
