//! [`Wireless`]: signal strength of Wi-Fi interfaces (nl80211).

use super::InterfaceIndex;
use super::attributes::{Attributes, attributes, find};
use super::generic::GenericFamily;
use crate::IoError;

const GET_STATION: u8 = 17;
const ATTR_IFINDEX: u16 = 3;
const ATTR_STA_INFO: u16 = 21;
const STA_INFO_SIGNAL: u16 = 7;

/// The kernel's wireless configuration.
#[derive(Debug)]
pub struct Wireless {
    family: GenericFamily,
}

impl Wireless {
    /// Connects; `None` when this kernel has no wireless interfaces.
    ///
    /// # Errors
    /// When the system has no netlink socket left to give.
    pub fn open() -> Result<Option<Self>, IoError> {
        Ok(GenericFamily::open("nl80211", 0)?.map(|family| Self { family }))
    }

    /// Strength of the access point's signal, dBm; none when the interface has none.
    #[must_use]
    pub fn signal_dbm(&self, interface: InterfaceIndex) -> Option<i32> {
        let request = Attributes::default().u32(ATTR_IFINDEX, interface.get());
        let answers = self.family.dump(GET_STATION, &request).ok()?;
        answers.iter().find_map(|answer| signal(answer))
    }
}

pub(super) fn signal(answer: &[u8]) -> Option<i32> {
    let station = attributes(find(&attributes(answer), ATTR_STA_INFO)?);
    let byte = *find(&station, STA_INFO_SIGNAL)?.first()?;
    Some(i32::from(byte.cast_signed()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_signal_is_a_byte_with_a_sign() {
        let station = Attributes::default().u8(STA_INFO_SIGNAL, (-67_i8).cast_unsigned());
        let answer = Attributes::default().u32(ATTR_IFINDEX, 3).nested(ATTR_STA_INFO, &station).0;
        assert_eq!(signal(&answer), Some(-67));
        assert_eq!(signal(&answer[..8]), None);
    }
}
