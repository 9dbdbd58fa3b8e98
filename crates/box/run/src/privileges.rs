//! Privileges of an accelerator, out of those that root has.

use std::fs;
use std::os::unix::fs::MetadataExt;
use std::path::Path;

use io::{Capabilities, Capability, IoError};

/// Gives up everything that the accelerator does not need, for this process and for all that it starts: it keeps
/// `CAP_NET_ADMIN`, `CAP_NET_RAW` and `CAP_BPF`. To be called before there are other threads.
///
/// Root keeps `CAP_DAC_OVERRIDE`, too, where `state_directory` is another user's, as that of a service.
///
/// # Errors
/// When the kernel refuses.
pub fn keep_needed_privileges(state_directory: &Path) -> Result<(), IoError> {
    io::netlink::look_for_hook_programs();
    let needed = Capabilities::of(&[Capability::NetAdmin, Capability::NetRaw, Capability::Bpf]);
    let is_anothers = owner(state_directory).is_some_and(|uid| uid != io::effective_user());
    let kept = if is_anothers { needed.with(Capability::DacOverride) } else { needed };
    kept.keep_only()
}

/// Gives up everything that a process does not need which asks accelerators, for this process and for all that it
/// starts: it keeps nothing, or `CAP_DAC_OVERRIDE` where `state_directory` is another user's, or nobody's yet. To be
/// called before there are other threads.
///
/// # Errors
/// When the kernel refuses.
pub fn keep_privileges_to_ask(state_directory: &Path) -> Result<(), IoError> {
    let is_own = owner(state_directory) == Some(io::effective_user());
    let kept = if is_own { Capabilities::default() } else { Capabilities::of(&[Capability::DacOverride]) };
    kept.keep_only()?;
    io::forgo_privileges()
}

fn owner(path: &Path) -> Option<u32> {
    fs::metadata(path).ok().map(|data| data.uid())
}
