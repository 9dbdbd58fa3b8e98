//! Settings of one device that the kernel takes by netlink as well as under `/proc/sys`, which a service may not
//! write to (`ProtectKernelTunables` of systemd).

use netlink_sys::protocols::NETLINK_ROUTE;

use super::attributes::{Attributes, Requests};
use super::{InterfaceIndex, Netlink};
use crate::IoError;
use crate::error::Context;

const RTM_SETLINK: u16 = 19;
/// Length of `struct ifinfomsg`, and where the number of the device is in it.
const INFO_LEN: usize = 16;
const INFO_INDEX: std::ops::Range<usize> = 4..8;
const IFLA_AF_SPEC: u16 = 26;
const AF_INET: u16 = libc::AF_INET as u16;
const AF_INET6: u16 = libc::AF_INET6 as u16;
const IFLA_INET_CONF: u16 = 1;
const IFLA_INET6_ADDR_GEN_MODE: u16 = 8;
/// `IPV4_DEVCONF_FORWARDING` and `IPV4_DEVCONF_RP_FILTER`.
const FORWARDING: u16 = 1;
const RP_FILTER: u16 = 8;

/// A setting of a device.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum DeviceSetting {
    Forwarding,
    ReversePathFilter,
    AddressGeneration,
}

impl DeviceSetting {
    /// The setting at a path below `/proc/sys`, and its device; none where netlink does not know it.
    pub fn at(path: &str) -> Option<(Self, &str)> {
        let (family, rest) = path.strip_prefix("net/")?.split_once("/conf/")?;
        let (device, name) = rest.split_once('/')?;
        if matches!(device, "all" | "default") {
            return None;
        }
        let setting = match (family, name) {
            ("ipv4", "forwarding") => Self::Forwarding,
            ("ipv4", "rp_filter") => Self::ReversePathFilter,
            ("ipv6", "addr_gen_mode") => Self::AddressGeneration,
            _ => return None,
        };
        Some((setting, device))
    }

    /// Sets it for the device called `name`, in the calling thread's namespace.
    pub fn write(self, name: &str, value: u32) -> Result<(), IoError> {
        let index = Netlink::open()?.index_of(name)?;
        let requests = Requests::open(NETLINK_ROUTE).doing(|| "open a netlink socket".to_owned())?;
        requests
            .change(RTM_SETLINK, &self.request(index, value))
            .doing(|| format!("set {self:?} of interface '{name}' to {value}"))
    }

    fn request(self, index: InterfaceIndex, value: u32) -> Vec<u8> {
        let none = Attributes::default;
        let by_family = match self {
            Self::Forwarding => {
                none().nested(AF_INET, &none().nested(IFLA_INET_CONF, &none().u32(FORWARDING, value)))
            }
            Self::ReversePathFilter => {
                none().nested(AF_INET, &none().nested(IFLA_INET_CONF, &none().u32(RP_FILTER, value)))
            }
            Self::AddressGeneration => none().nested(
                AF_INET6,
                &none().u8(IFLA_INET6_ADDR_GEN_MODE, u8::try_from(value).unwrap_or(u8::MAX)),
            ),
        };
        let mut message = vec![0; INFO_LEN];
        message[INFO_INDEX].copy_from_slice(&index.get().to_ne_bytes());
        message.extend(none().nested(IFLA_AF_SPEC, &by_family).0);
        message
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn paths_of_single_devices_are_known() {
        assert_eq!(
            DeviceSetting::at("net/ipv4/conf/w0/rp_filter"),
            Some((DeviceSetting::ReversePathFilter, "w0"))
        );
        assert_eq!(
            DeviceSetting::at("net/ipv6/conf/a.6/addr_gen_mode"),
            Some((DeviceSetting::AddressGeneration, "a.6"))
        );
        for other in [
            "net/ipv4/conf/all/rp_filter",
            "net/ipv4/ip_forward",
            "net/ipv6/conf/w0/forwarding",
            "kernel/pid_max",
        ] {
            assert_eq!(DeviceSetting::at(other), None, "{other}");
        }
    }
}
