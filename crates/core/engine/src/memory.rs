//! The tricks of memory and time: they know places, bytes and moments, and no rule of any protocol.
//! [`buffer_pool`] passes on memory of stream buffers and senders, and looks only at whether they use it.

pub(crate) mod ahead;
pub(crate) mod buffer_pool;
pub(crate) mod half_open;
pub(crate) mod index;
pub(crate) mod slab;
pub(crate) mod timer;
