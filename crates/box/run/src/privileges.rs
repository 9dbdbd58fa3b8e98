//! Privileges of an accelerator, out of those that root has.

use std::fs;
use std::os::unix::fs::MetadataExt;
use std::path::Path;

use io::{Capabilities, Capability, IoError};

/// Niceness of an accelerator that is started with the ordinary one: what it forwards does not wait for what else the
/// machine computes, as what the kernel forwards does not.
pub const NICENESS: i32 = -10;

/// Gives this process its niceness, and all that it starts. To be called before privileges are given up, and before there
/// are other threads.
///
/// # Errors
/// When the one that is `wanted` takes a privilege that is lacking. Without that it goes on as it is.
pub fn take_niceness(wanted: Option<i32>) -> Result<(), IoError> {
    match wanted {
        Some(wanted) => io::sched::set_niceness(wanted),
        None if io::sched::niceness() == 0 => {
            // A container may not allow it.
            drop(io::sched::set_niceness(NICENESS));
            Ok(())
        }
        None => Ok(()),
    }
}

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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_ordinary_process_goes_first_and_another_one_stays_as_it_is() {
        std::thread::spawn(|| {
            let niceness = io::sched::niceness;
            let (begun, may) = (niceness(), io::sched::set_niceness(niceness() - 1).is_ok());
            if may {
                io::sched::set_niceness(begun).unwrap();
            }
            take_niceness(None).unwrap();
            assert_eq!(niceness(), if begun == 0 && may { NICENESS } else { begun });
            take_niceness(Some(7)).unwrap();
            take_niceness(None).unwrap();
            assert_eq!(niceness(), 7);
        })
        .join()
        .unwrap();
    }
}
