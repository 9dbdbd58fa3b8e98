//! Requirements of congestion controls in BPF on the kernel; each lack is one line.

use std::path::Path;

use libbpf_rs::ReferencesType as _;
use libbpf_rs::btf::types::{Func, FuncProto, Ptr, Struct};
use libbpf_rs::btf::{Btf, BtfType};

use crate::IoError;

/// The running kernel's types.
const KERNEL_BTF: &str = "/sys/kernel/btf/vmlinux";

/// Abilities of a kernel for congestion controls in BPF.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct CongestionControls {
    /// It has MPTCP.
    pub has_mptcp: bool,
    /// Arguments of `cong_control` in `struct tcp_congestion_ops`: 2, and 4 since Linux 6.10.
    pub control_arguments: usize,
}

/// Checks that the kernel whose BTF is at `btf`, by default the running one, takes congestion controls in BPF for the
/// subflows of MPTCP.
///
/// # Errors
/// One line that says what is missing and what to do.
pub fn require_congestion_control(btf: Option<&Path>) -> Result<(), IoError> {
    if !congestion_controls(btf)?.has_mptcp {
        return Err(missing("MPTCP", "the kernel needs CONFIG_MPTCP"));
    }
    Ok(())
}

fn missing(what: &str, remedy: &str) -> IoError {
    IoError::Missing { what: what.to_owned(), remedy: remedy.to_owned() }
}

/// Abilities of the kernel whose BTF is at `btf`, by default the running one, for congestion controls in BPF.
///
/// # Errors
/// One line that says what is missing and what to do, where it takes none that end with their owner.
pub fn congestion_controls(btf: Option<&Path>) -> Result<CongestionControls, IoError> {
    let path = btf.unwrap_or(Path::new(KERNEL_BTF));
    if !path.exists() {
        return Err(missing(
            &path.display().to_string(),
            "the kernel does not describe its types; it needs CONFIG_DEBUG_INFO_BTF",
        ));
    }
    let btf = Btf::from_path(path).map_err(|error| IoError::Invalid {
        what: format!("read the kernel's types in {}", path.display()),
        why: format!("{error:#}"),
    })?;
    let has_struct = |name: &str| btf.type_by_name::<Struct<'_>>(name).is_some();
    if !has_struct("bpf_struct_ops_tcp_congestion_ops") {
        return Err(missing(
            "struct_ops for congestion controls",
            "the kernel needs CONFIG_BPF_SYSCALL and CONFIG_BPF_JIT, and to be Linux 5.6 or later",
        ));
    }
    if btf.type_by_name::<Func<'_>>("bpf_rdonly_cast").is_none() || !has_struct("bpf_struct_ops_link") {
        return Err(missing(
            "struct_ops that ends with its owner",
            "the kernel is older than Linux 6.4, on which a killed program would leave its congestion control",
        ));
    }
    Ok(CongestionControls {
        has_mptcp: has_struct("mptcp_sock"),
        control_arguments: control_arguments(&btf).unwrap_or_default(),
    })
}

/// Of `cong_control`.
fn control_arguments(btf: &Btf<'_>) -> Option<usize> {
    let operations = btf.type_by_name::<Struct<'_>>("tcp_congestion_ops")?;
    let member = operations.iter().find(|member| member.name.is_some_and(|name| name == "cong_control"))?;
    let pointer = Ptr::try_from(btf.type_by_id::<BtfType<'_>>(member.ty)?).ok()?;
    let function = FuncProto::try_from(pointer.referenced_type()).ok()?;
    Some(function.iter().count())
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
