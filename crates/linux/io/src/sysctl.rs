//! Kernel settings under `/proc/sys`; those under `net/` belong to one network namespace.

use std::fs;
use std::path::Path;

use crate::error::Context;
use crate::netlink::DeviceSetting;
use crate::{IoError, Namespace};

/// Reads a setting as the calling thread's namespace has it, without the final line feed.
///
/// `path` is relative to `/proc/sys`, with slashes: `net/ipv4/ip_forward`.
///
/// # Errors
/// When there is no such setting.
pub fn read_here(path: &str) -> Result<String, IoError> {
    let text = fs::read_to_string(format!("/proc/sys/{path}")).doing(|| format!("read the sysctl {path}"))?;
    Ok(text.trim_end().to_owned())
}

/// Writes a setting of the calling thread's namespace; by netlink where it takes it, since a service may be kept
/// from writing to `/proc/sys`.
///
/// # Errors
/// When there is no such setting, the value is refused, or the privilege is missing.
pub fn write_here(path: &str, value: &str) -> Result<(), IoError> {
    let file = Path::new("/proc/sys").join(path);
    // A device without IPv6 has no such file.
    if let (Some((setting, device)), Ok(value), true) =
        (DeviceSetting::at(path), value.parse(), file.exists())
    {
        return setting.write(device, value);
    }
    fs::write(file, value).doing(|| format!("set the sysctl {path} to '{value}'"))
}

/// Reads a setting of `namespace`.
///
/// # Errors
/// As [`read_here`], or when the namespace cannot be entered.
pub fn read(namespace: &Namespace, path: &str) -> Result<String, IoError> {
    namespace.run(|| read_here(path))?
}

/// Writes a setting of `namespace`.
///
/// # Errors
/// As [`write_here`], or when the namespace cannot be entered.
pub fn write(namespace: &Namespace, path: &str, value: &str) -> Result<(), IoError> {
    namespace.run(|| write_here(path, value))?
}
