//! What an accelerator may do of what root may.

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
    let needed = Capabilities::of(&[Capability::NetAdmin, Capability::NetRaw, Capability::Bpf]);
    let owner = |path: &Path| fs::metadata(path).ok().map(|data| data.uid());
    let is_anothers = owner(state_directory).is_some_and(|uid| owner(Path::new("/proc/self")) != Some(uid));
    let kept = if is_anothers { needed.with(Capability::DacOverride) } else { needed };
    kept.keep_only()
}
