//! Algorithms of other papers, for comparison.

pub(crate) mod bic;
pub(crate) mod c2tcp;
pub(crate) mod copa;
pub(crate) mod highspeed;
pub(crate) mod htcp;
pub(crate) mod sprout;
pub(crate) mod vegas;
pub(crate) mod veno;
pub(crate) mod verus;
pub(crate) mod westwood;
