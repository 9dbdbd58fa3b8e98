//! [`Host`]: a machine of a lab or of a test, what runs there, and cables between machines.

use std::io::{ErrorKind, Write};
use std::net::IpAddr;
use std::ops::Deref;
use std::process::{Command, Output, Stdio};

use super::{Namespace, SpawnOptions};
use crate::error::Context;
use crate::netlink::{Cidr, Family, Route, VethEnd};
use crate::{IoError, sysctl};

/// A machine of a lab or of a test: a network namespace whose name goes when it is dropped.
#[derive(Debug)]
pub struct Host(Namespace);

impl Host {
    /// Makes one; only `lo`, switched off, is in it.
    ///
    /// # Errors
    /// As [`Namespace::create`].
    pub fn create(name: &str) -> Result<Self, IoError> {
        Namespace::create(name).map(Self)
    }
}

impl Deref for Host {
    type Target = Namespace;

    fn deref(&self) -> &Namespace {
        &self.0
    }
}

impl Drop for Host {
    fn drop(&mut self) {
        // A name already taken away by someone else is gone as wanted.
        let _ = Namespace::remove(self.0.name());
    }
}

impl Namespace {
    /// Sets a kernel setting, as [`sysctl::write`].
    ///
    /// # Errors
    /// As there.
    pub fn set(&self, path: &str, value: &str) -> Result<(), IoError> {
        sysctl::write(self, path, value)
    }

    /// Runs a program to its end, without input: its name and arguments.
    ///
    /// # Errors
    /// When it cannot be started.
    pub fn output(&self, words: &[&str]) -> Result<Output, IoError> {
        self.output_of(words, "")
    }

    /// The same with `input`, of which it may leave some.
    ///
    /// # Errors
    /// As there.
    pub fn output_of(&self, words: &[&str], input: &str) -> Result<Output, IoError> {
        let (program, arguments) = words.split_first().unwrap_or((&"true", &[]));
        let mut command = Command::new(program);
        command.args(arguments).stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
        let mut child = self.spawn(command, SpawnOptions::default())?;
        if let Some(mut stdin) = child.stdin.take() {
            match stdin.write_all(input.as_bytes()) {
                Err(error) if error.kind() != ErrorKind::BrokenPipe => {
                    return Err(error).doing(|| format!("write to '{program}'"));
                }
                _ => {}
            }
        }
        child.wait_with_output().doing(|| format!("wait for '{program}'"))
    }

    /// Has `ip -batch` do some lines, such as `link set lo up`.
    ///
    /// # Errors
    /// With what it said, when one of them fails; those behind it are not done then.
    pub fn ip(&self, lines: &str) -> Result<(), IoError> {
        let output = self.output_of(&["ip", "-batch", "-"], &format!("{lines}\n"))?;
        if output.status.success() {
            return Ok(());
        }
        let why = String::from_utf8_lossy(&output.stderr).trim().to_owned();
        let what = format!("set up the network of namespace '{}' by ip", self.name());
        Err(IoError::Refused { what, why, log: lines.to_owned() })
    }

    /// Adds a default route.
    ///
    /// # Errors
    /// When there is one, or the gateway cannot be reached.
    pub fn add_default_route(&self, gateway: IpAddr) -> Result<(), IoError> {
        self.netlink()?.add_route(&Route::via(Cidr::everything(Family::of(gateway)), gateway))
    }
}

/// An end of a cable: where it is, the interface's name there, and its addresses, such as `10.0.0.1/24`.
pub type CableEnd<'a> = (&'a Namespace, &'a str, &'a [&'a str]);

/// Lays a cable, a pair of `veth` interfaces: both ends are up and have their addresses.
///
/// # Errors
/// When a name is taken, an address is none, or the privilege is missing.
pub fn lay_cable(ends: [CableEnd<'_>; 2]) -> Result<(), IoError> {
    let [(near, name, _), (far, far_name, _)] = ends;
    let far_end = VethEnd { name: far_name, namespace: Some(far) };
    near.netlink()?.create_veth(VethEnd { name, namespace: None }, far_end)?;
    for (namespace, name, addresses) in ends {
        let netlink = namespace.netlink()?;
        let index = netlink.index_of(name)?;
        netlink.set_up(index)?;
        addresses.iter().try_for_each(|address| netlink.add_address(index, address.parse()?))?;
    }
    Ok(())
}
