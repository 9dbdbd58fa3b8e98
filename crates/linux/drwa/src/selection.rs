//! [`Selection`]: which connections are meant, as `PREFIX`, `PREFIX:PORTS` or `:PORTS`.

use std::fmt;
use std::net::IpAddr;
use std::str::FromStr;

use crate::layout::{SELECTION_LEN, octets};

/// Connections with a server in a network, and a port of the server in a range.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Selection {
    /// The network and its bits; `None`: any address.
    pub network: Option<(IpAddr, u8)>,
    /// Both ends of the range belong to it.
    pub ports: (u16, u16),
}

impl Selection {
    /// `struct selection`.
    #[must_use]
    pub fn bytes(&self) -> Vec<u8> {
        let (network, family, bits) = match self.network {
            None => ([0; 16], 0u32, 0),
            Some((address, bits)) => (octets(address), if address.is_ipv4() { 4 } else { 6 }, bits),
        };
        let mut bytes = Vec::with_capacity(SELECTION_LEN);
        bytes.extend(network);
        bytes.extend(family.to_ne_bytes());
        bytes.extend(u32::from(bits).to_ne_bytes());
        bytes.extend(self.ports.0.to_ne_bytes());
        bytes.extend(self.ports.1.to_ne_bytes());
        bytes.extend([0; 4]);
        bytes
    }
}

impl FromStr for Selection {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let wrong =
            || format!("'{text}' is none of 192.0.2.0/24, 192.0.2.7:443, [2001:db8::/32]:80-90, :443");
        let (network, ports) = match text.strip_prefix('[') {
            Some(rest) => {
                let (network, ports) = rest.split_once(']').ok_or_else(wrong)?;
                (
                    network,
                    if ports.is_empty() { None } else { Some(ports.strip_prefix(':').ok_or_else(wrong)?) },
                )
            }
            // More than one colon: an IPv6 address without ports.
            None if text.matches(':').count() > 1 => (text, None),
            None => text.split_once(':').map_or((text, None), |(network, ports)| (network, Some(ports))),
        };
        let ports = match ports {
            None => (0, u16::MAX),
            Some(ports) => {
                let (first, last) = ports.split_once('-').unwrap_or((ports, ports));
                let read = |port: &str| port.parse::<u16>().map_err(|_| wrong());
                (read(first)?, read(last)?)
            }
        };
        if ports.0 > ports.1 {
            return Err(format!("'{text}': the range of ports ends before it begins"));
        }
        let network = if network.is_empty() { None } else { Some(read_network(network).ok_or_else(wrong)?) };
        if network.is_none() && ports == (0, u16::MAX) {
            return Err(wrong());
        }
        Ok(Self { network, ports })
    }
}

fn read_network(text: &str) -> Option<(IpAddr, u8)> {
    let (address, bits) = text.split_once('/').map_or((text, None), |(a, bits)| (a, Some(bits)));
    let address: IpAddr = address.parse().ok()?;
    let most = if address.is_ipv4() { 32 } else { 128 };
    let bits = bits.map_or(Some(most), |bits| bits.parse().ok())?;
    (bits <= most).then_some((address, bits))
}

impl fmt::Display for Selection {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.network {
            None => {}
            Some((address @ IpAddr::V6(_), bits)) => write!(f, "[{address}/{bits}]")?,
            Some((address, bits)) => write!(f, "{address}/{bits}")?,
        }
        match self.ports {
            (0, u16::MAX) => Ok(()),
            (first, last) if first == last => write!(f, ":{first}"),
            (first, last) => write!(f, ":{first}-{last}"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_written_is_read() {
        for (text, shown) in [
            ("192.0.2.0/24", "192.0.2.0/24"),
            ("192.0.2.7:443", "192.0.2.7/32:443"),
            ("[2001:db8::/32]:80-90", "[2001:db8::/32]:80-90"),
            ("2001:db8::1", "[2001:db8::1/128]"),
            (":443", ":443"),
        ] {
            let read: Selection = text.parse().unwrap();
            assert_eq!(read.to_string(), shown);
            assert_eq!(read.to_string().parse(), Ok(read));
            assert_eq!(read.bytes().len(), SELECTION_LEN);
        }
    }

    #[test]
    fn what_is_wrong_is_named() {
        for text in ["", ":", "192.0.2.0/33", "192.0.2.0:x", ":90-80", "[2001:db8::/32", "[::1]80", "server"]
        {
            let said = text.parse::<Selection>().unwrap_err();
            assert!(said.contains(&format!("'{text}'")), "{said}");
        }
    }
}
