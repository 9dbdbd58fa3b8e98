//! Both sides of an upgrade ([`crate::upgrade`]): flows and devices that another instance gets, and those of one that
//! is replaced.

mod adopt;
mod flows;

pub(super) use adopt::Adopted;
