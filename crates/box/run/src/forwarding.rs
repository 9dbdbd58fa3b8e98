//! IP forwarding: checked, and switched on when asked to.

use io::netlink::Family;
use io::{IoError, sysctl};

use crate::record::RecordedSysctl;

/// The setting that must be 1 for packets of a family that come in through `interface` to be forwarded.
fn decisive(family: Family, interface: &str) -> String {
    match family {
        Family::V4 => format!("net/ipv4/conf/{interface}/forwarding"),
        // IPv6 forwards for all interfaces or for none.
        Family::V6 => "net/ipv6/conf/all/forwarding".to_owned(),
    }
}

/// The setting that switches forwarding on for the whole namespace.
const fn switch(family: Family) -> &'static str {
    match family {
        Family::V4 => "net/ipv4/ip_forward",
        Family::V6 => "net/ipv6/conf/all/forwarding",
    }
}

/// True when packets of `family` that come in through each of `interfaces` are forwarded.
pub(crate) fn is_on(family: Family, interfaces: [&str; 2]) -> Result<bool, IoError> {
    for interface in interfaces {
        if sysctl::read_here(&decisive(family, interface))? == "0" {
            return Ok(false);
        }
    }
    Ok(true)
}

/// True unless forwarding is on for everything but this interface, which asked by a BPF program counts.
///
/// For IPv6 the kernel forwards if `all` says so, whatever the interface's own setting, and a
/// program is told by the latter.
pub(crate) fn is_consistent(interface: &str) -> bool {
    let is_on = |of: &str| {
        sysctl::read_here(&format!("net/ipv6/conf/{of}/forwarding")).is_ok_and(|value| value != "0")
    };
    !is_on("all") || is_on(interface)
}

/// Change of the setting that switches forwarding on.
pub(crate) fn change(family: Family) -> Result<RecordedSysctl, IoError> {
    let path = switch(family).to_owned();
    Ok(RecordedSysctl { before: sysctl::read_here(&path)?, during: "1".to_owned(), path })
}

/// The one of `settings` that has switched it on.
pub(crate) fn change_in(settings: &[RecordedSysctl], family: Family) -> Option<RecordedSysctl> {
    settings.iter().find(|setting| setting.path == switch(family)).cloned()
}

/// One line for the user whose machine does not forward.
pub(crate) fn advice(family: Family) -> String {
    let name = match family {
        Family::V4 => "IPv4",
        Family::V6 => "IPv6",
    };
    let dotted = switch(family).replace('/', ".");
    format!("{name} forwarding is off, so no {name} passes: `sysctl -w {dotted}=1`, or use --set-forwarding")
}
