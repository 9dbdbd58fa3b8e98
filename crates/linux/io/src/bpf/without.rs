//! In place of `object.rs` and `needs.rs` in a program that was built without the feature `bpf`: what loads an object
//! says so, and no value of the types that follow from one can be made.

use std::os::fd::AsFd;
use std::path::Path;

use super::load::{Hook, Load};
use super::program::Attachment;
use super::require_objects;
use super::system::TcDirection;
use crate::IoError;
use crate::netlink::InterfaceIndex;

/// The line of who wants to do `what`.
fn refused<T>(what: &str) -> Result<T, IoError> {
    Err(IoError::WithoutObjects { what: what.to_owned() })
}

/// No program is ever attached.
#[derive(Debug)]
pub enum Hooked {}

impl Hooked {
    /// Kind of hook that holds the program.
    #[must_use]
    pub fn kind(&self) -> &'static str {
        match *self {}
    }
}

/// No object is ever loaded.
#[derive(Debug)]
pub enum Object {}

impl Object {
    /// Loads nothing.
    ///
    /// # Errors
    /// Always.
    pub fn load(name: &str, _: &[u8], _: &[u8]) -> Result<Self, IoError> {
        refused(&format!("load the BPF programs '{name}'"))
    }

    /// Loads nothing.
    ///
    /// # Errors
    /// Always.
    pub fn load_with(load: &Load<'_>) -> Result<Self, IoError> {
        Self::load(load.name, load.elf, load.constants)
    }

    /// Registers the congestion control in a map.
    ///
    /// # Errors
    /// Never called.
    pub fn register(&mut self, _: &str) -> Result<Registered, IoError> {
        match *self {}
    }

    /// Sets a program to work.
    ///
    /// # Errors
    /// Never called.
    pub fn attach(&self, _: &str, _: InterfaceIndex, _: TcDirection, _: Hook) -> Result<Hooked, IoError> {
        match *self {}
    }

    /// Sets a program to work on a control group.
    ///
    /// # Errors
    /// Never called.
    pub fn attach_to_group(&self, _: &str, _: &impl AsFd) -> Result<Attachment, IoError> {
        match *self {}
    }

    /// A map.
    ///
    /// # Errors
    /// Never called.
    pub fn map(&self, _: &str) -> Result<MapView, IoError> {
        match *self {}
    }

    /// Lets a program handle a frame.
    ///
    /// # Errors
    /// Never called.
    pub fn test(&self, _: &str, _: &[u8]) -> Result<Vec<u8>, IoError> {
        match *self {}
    }
}

/// No congestion control is ever registered.
#[derive(Debug)]
pub enum Registered {}

/// No map is ever looked at.
#[derive(Debug)]
pub enum MapView {}

impl MapView {
    /// Looks at nothing.
    ///
    /// # Errors
    /// Always.
    pub fn by_id(id: u32) -> Result<Self, IoError> {
        refused(&format!("read the BPF map '{id}'"))
    }

    /// Bytes of a value.
    ///
    /// # Errors
    /// Never called.
    pub fn value_len(&self) -> Result<u32, IoError> {
        match *self {}
    }

    /// Its number.
    ///
    /// # Errors
    /// Never called.
    pub fn id(&self) -> Result<u32, IoError> {
        match *self {}
    }

    /// The value of a key.
    ///
    /// # Errors
    /// Never called.
    pub fn get(&self, _: &[u8]) -> Result<Option<Vec<u8>>, IoError> {
        match *self {}
    }

    /// Writes the value of a key.
    ///
    /// # Errors
    /// Never called.
    pub fn set(&self, _: &[u8], _: &[u8]) -> Result<(), IoError> {
        match *self {}
    }

    /// Takes an element away.
    ///
    /// # Errors
    /// Never called.
    pub fn remove(&self, _: &[u8]) -> Result<(), IoError> {
        match *self {}
    }

    /// Hands over what was written to a ring.
    ///
    /// # Errors
    /// Never called.
    pub fn drain(&self, _: impl FnMut(&[u8])) -> Result<(), IoError> {
        match *self {}
    }

    /// All elements.
    #[must_use]
    pub fn elements(&self) -> Vec<(Vec<u8>, Vec<u8>)> {
        match *self {}
    }
}

/// Relocates nothing.
///
/// # Errors
/// Always.
pub fn relocated(load: &Load<'_>) -> Result<Vec<(String, Vec<u64>)>, IoError> {
    refused(&format!("relocate the BPF programs '{}'", load.name))
}

/// Removes nothing.
///
/// # Errors
/// Always.
pub fn remove_filters(interface: InterfaceIndex, _: bool) -> Result<(), IoError> {
    refused(&format!("remove the BPF programs of interface {}", interface.get()))
}

/// A congestion control in BPF is nothing for this program, whatever the kernel can do.
///
/// # Errors
/// Always.
pub fn require_congestion_control(_: Option<&Path>) -> Result<(), IoError> {
    require_objects("load a congestion control in BPF")
}

/// No kernel was looked at.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct CongestionControls {
    /// It has MPTCP.
    pub has_mptcp: bool,
    /// Arguments of `cong_control`.
    pub control_arguments: usize,
}

/// The same.
///
/// # Errors
/// Always.
pub fn congestion_controls(_: Option<&Path>) -> Result<CongestionControls, IoError> {
    refused("load a congestion control in BPF")
}
