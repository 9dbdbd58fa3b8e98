//! What a kernel must have for congestion controls in BPF; each lack is one line.

use std::path::Path;

use libbpf_rs::btf::Btf;
use libbpf_rs::btf::types::{Func, Struct};

use crate::IoError;

/// The running kernel's types.
const KERNEL_BTF: &str = "/sys/kernel/btf/vmlinux";

/// Checks that the kernel whose BTF is at `btf`, by default the running one, takes congestion controls in BPF for the
/// subflows of MPTCP.
///
/// # Errors
/// One line that says what is missing and what to do.
pub fn require_congestion_control(btf: Option<&Path>) -> Result<(), IoError> {
    let path = btf.unwrap_or(Path::new(KERNEL_BTF));
    let missing =
        |what: &str, remedy: &str| Err(IoError::Missing { what: what.to_owned(), remedy: remedy.to_owned() });
    if !path.exists() {
        return missing(
            &path.display().to_string(),
            "the kernel does not describe its types; it needs CONFIG_DEBUG_INFO_BTF",
        );
    }
    let btf = Btf::from_path(path).map_err(|error| IoError::Invalid {
        what: format!("read the kernel's types in {}", path.display()),
        why: format!("{error:#}"),
    })?;
    let has_struct = |name: &str| btf.type_by_name::<Struct<'_>>(name).is_some();
    if !has_struct("bpf_struct_ops_tcp_congestion_ops") {
        return missing(
            "struct_ops for congestion controls",
            "the kernel needs CONFIG_BPF_SYSCALL and CONFIG_BPF_JIT, and to be Linux 5.6 or later",
        );
    }
    if btf.type_by_name::<Func<'_>>("bpf_rdonly_cast").is_none() || !has_struct("bpf_struct_ops_link") {
        return missing(
            "struct_ops that ends with its owner",
            "the kernel is older than Linux 6.4, on which a killed program would leave its congestion control",
        );
    }
    if !has_struct("mptcp_sock") {
        return missing("MPTCP", "the kernel needs CONFIG_MPTCP");
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_kernel_without_btf_is_one_line() {
        let error = require_congestion_control(Some(Path::new("/no/such/btf"))).unwrap_err().to_string();
        assert!(error.contains("CONFIG_DEBUG_INFO_BTF") && error.lines().count() == 1, "{error}");
    }

    #[test]
    fn what_is_no_btf_is_one_line() {
        let error = require_congestion_control(Some(Path::new("/etc/hostname"))).unwrap_err().to_string();
        assert!(error.contains("/etc/hostname") && error.lines().count() == 1, "{error}");
    }
}
