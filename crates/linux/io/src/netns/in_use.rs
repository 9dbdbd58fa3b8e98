//! [`namespaces_in_use`]: which network namespaces there are.

use std::collections::BTreeSet;
use std::fs;
use std::os::unix::fs::MetadataExt;
use std::path::Path;

use crate::IoError;
use crate::error::Context;

/// The [numbers](super::Namespace::id) of all network namespaces that a thread is in, a mount keeps or a descriptor
/// holds, as far as `/proc` shows: as root, all of this machine. A record of any other is of one that has gone.
///
/// # Errors
/// When `/proc` is not there.
pub fn namespaces_in_use() -> Result<BTreeSet<u64>, IoError> {
    let mut found = BTreeSet::new();
    for entry in fs::read_dir("/proc").doing(|| "list /proc".to_owned())?.flatten() {
        let is_process = entry.file_name().to_str().is_some_and(|name| name.parse::<u32>().is_ok());
        // One that ends meanwhile shows less, and then holds nothing.
        if is_process {
            of_process(&entry.path(), &mut found);
        }
    }
    Ok(found)
}

fn of_process(process: &Path, found: &mut BTreeSet<u64>) {
    let each = |folder: &str| fs::read_dir(process.join(folder)).into_iter().flatten().flatten();
    let device = fs::metadata("/proc/self/ns/net").ok().map(|own| own.dev());
    for thread in each("task") {
        found.extend(fs::metadata(thread.path().join("ns/net")).map(|namespace| namespace.ino()));
    }
    for descriptor in each("fd") {
        // One that was opened by a name shows that name; it is of the same file system as all namespaces.
        let held = fs::metadata(descriptor.path()).ok().filter(|held| Some(held.dev()) == device);
        found.extend(held.map(|namespace| namespace.ino()));
    }
    let mounts = fs::read_to_string(process.join("mountinfo")).unwrap_or_default();
    // The fourth field is what of the file system is mounted (proc_pid_mountinfo(5)).
    found.extend(mounts.lines().filter_map(|line| number(line.split(' ').nth(3)?)));
}

/// Of `net:[4026531840]`.
fn number(text: &str) -> Option<u64> {
    text.strip_prefix("net:[")?.strip_suffix(']')?.parse().ok()
}
