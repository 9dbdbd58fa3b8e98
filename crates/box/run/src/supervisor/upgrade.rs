//! Both sides of an upgrade ([`crate::upgrade`]): flows and devices that another instance gets, and those of one that
//! is replaced.

mod adopt;
mod give;

pub(super) use adopt::Adopted;
