//! Frames: the Ethernet header apart from the IP packet.

use std::io::IoSlice;

use io::{FrameSocket, IoError, VnetHeader};

use super::link_headers::LinkHeader;

/// Addresses and type.
pub(crate) const ETHERNET_LEN: usize = 14;
pub(super) const ADDRESSES_LEN: usize = 12;
const IPV4: [u8; 2] = [0x08, 0x00];
const IPV6: [u8; 2] = [0x86, 0xdd];

// Where 16-bit numbers of the virtio header stand that count from the start of the frame.
const HEADER_LEN: usize = 2;
const CHECKSUM_START: usize = 6;
const FLAGS: usize = 0;
/// `VIRTIO_NET_HDR_F_NEEDS_CSUM`; what else there is is for receivers.
const NEEDS_CHECKSUM: u8 = 1;

/// The Ethernet type of an IP packet.
pub(crate) const fn kind_of(is_ipv4: bool) -> [u8; 2] {
    if is_ipv4 { IPV4 } else { IPV6 }
}

/// The link header of a frame that carries IP, and what stands behind it, padding too; `tag` came
/// beside the frame.
pub(crate) fn split(frame: &[u8], tag: Option<[u8; 4]>) -> Option<(LinkHeader, &[u8])> {
    let (ethernet, packet) = frame.split_at_checked(ETHERNET_LEN)?;
    let (addresses, kind) = ethernet.split_at_checked(ADDRESSES_LEN)?;
    let is_ip = match packet.first()? >> 4 {
        4 => kind == IPV4,
        6 => kind == IPV6,
        _ => false,
    };
    is_ip.then_some(())?;
    Some((LinkHeader { addresses: addresses.try_into().ok()?, tag }, packet))
}

/// Moves the places that it names by `by` bytes, forwards or back.
pub(crate) fn moved(mut virtio: VnetHeader, by: i16) -> VnetHeader {
    for at in [HEADER_LEN, CHECKSUM_START] {
        let place = u16::from_ne_bytes([virtio[at], virtio[at + 1]]);
        let is_used = at == HEADER_LEN || virtio[FLAGS] & NEEDS_CHECKSUM != 0;
        if place != 0 && is_used {
            virtio[at..at + 2].copy_from_slice(&place.saturating_add_signed(by).to_ne_bytes());
        }
    }
    virtio
}

/// Writes a frame whose first piece is its addresses, with its tag behind those. False when the
/// kernel refused it, or the interface is down or gone: it is lost then.
pub(crate) fn write(
    socket: &FrameSocket,
    mut virtio: VnetHeader,
    tag: Option<[u8; 4]>,
    [addresses, rest @ ..]: [&[u8]; 4],
) -> Result<bool, IoError> {
    let tag = tag.as_ref().map_or(&[][..], |tag| &tag[..]);
    virtio[FLAGS] &= NEEDS_CHECKSUM;
    let virtio = moved(virtio, tag.len() as i16);
    let pieces = [addresses, tag, rest[0], rest[1], rest[2]].map(IoSlice::new);
    Ok(socket.send(&virtio, &pieces).is_ok())
}

#[cfg(test)]
mod tests {
    use io::VNET_HEADER_LEN;

    use super::*;

    #[test]
    fn places_move_with_what_stands_in_front() {
        let mut virtio: VnetHeader = [0; VNET_HEADER_LEN];
        assert_eq!(moved(virtio, 14), virtio, "nothing is left undone");
        virtio[FLAGS] = NEEDS_CHECKSUM;
        virtio[HEADER_LEN..HEADER_LEN + 2].copy_from_slice(&40u16.to_ne_bytes());
        virtio[CHECKSUM_START..CHECKSUM_START + 2].copy_from_slice(&20u16.to_ne_bytes());
        let further = moved(virtio, 14);
        assert_eq!(further[HEADER_LEN..HEADER_LEN + 2], 54u16.to_ne_bytes());
        assert_eq!(further[CHECKSUM_START..CHECKSUM_START + 2], 34u16.to_ne_bytes());
        assert_eq!(moved(further, -14), virtio);
    }

    #[test]
    fn only_ip_by_type_and_version_is_ip() {
        let frame = |kind: [u8; 2], first: u8| [&[1; ADDRESSES_LEN][..], &kind, &[first, 0, 9]].concat();
        let tag = Some([0x81, 0, 0, 7]);
        for (kind, first, is_ip) in
            [(IPV4, 0x45, true), (IPV6, 0x60, true), (IPV4, 0x60, false), ([8, 6], 0x45, false)]
        {
            let frame = frame(kind, first);
            let found = split(&frame, tag);
            let wanted = LinkHeader { addresses: [1; ADDRESSES_LEN], tag };
            assert_eq!(found, is_ip.then_some((wanted, &[first, 0, 9][..])));
        }
        assert_eq!(split(&[0; ETHERNET_LEN], None), None);
        assert_eq!(split(&[], None), None);
    }
}
