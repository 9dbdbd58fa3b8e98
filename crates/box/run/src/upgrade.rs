//! Upgrade: another process takes a running one's place, and no flow notices (H34).

pub(crate) mod predecessor;
pub(crate) mod transfer;
