//! Bits that flip and ends that go missing.

use crate::Random;
use crate::build::refresh_lengths_and_checksums;

fn flip(packet: &mut [u8], from: usize, to: usize, random: &mut Random) {
    let at = from + random.below(to.saturating_sub(from) as u64) as usize;
    let bit = 1 << random.below(8);
    if let Some(byte) = packet.get_mut(at) {
        *byte ^= bit;
    }
}

/// True for a segment that no longer fits its checksum: a second flip might make it fit again, and
/// no host could tell.
fn is_broken(packet: &[u8]) -> bool {
    wire::parse(packet)
        .is_ok_and(|parsed| parsed.tcp().is_some() && !wire::tcp_checksum_is_valid(packet, &parsed))
}

pub(super) fn flip_in_second_half(packet: &mut [u8], random: &mut Random) -> &'static str {
    if is_broken(packet) {
        return "corrupted already";
    }
    flip(packet, packet.len() / 2, packet.len(), random);
    "corrupted"
}

/// Offsets at which the TCP header and the payload begin.
fn borders(packet: &[u8]) -> Option<(usize, usize)> {
    let parsed = wire::parse(packet).ok()?;
    parsed.tcp().map(|tcp| (tcp.offset, tcp.payload_offset))
}

pub(super) fn flip_in_headers(packet: &mut [u8], random: &mut Random) -> &'static str {
    if is_broken(packet) {
        return "corrupted already";
    }
    let end = borders(packet).map_or(packet.len(), |(_, payload)| payload);
    flip(packet, 0, end, random);
    "corrupted in its header"
}

pub(super) fn tamper_with_payload(packet: &mut [u8], random: &mut Random) -> &'static str {
    match borders(packet) {
        Some((_, payload)) if payload < packet.len() => {
            flip(packet, payload, packet.len(), random);
            refresh_lengths_and_checksums(packet);
            "tampered with"
        }
        _ => "nothing to tamper with",
    }
}

pub(super) fn tamper_with_header(packet: &mut [u8], random: &mut Random) -> &'static str {
    let Some((tcp, payload)) = borders(packet) else { return "nothing to tamper with" };
    flip(packet, tcp, payload, random);
    refresh_lengths_and_checksums(packet);
    "tampered with in its header"
}

pub(super) fn truncate(packet: &mut Vec<u8>, random: &mut Random) -> &'static str {
    let len = 1 + random.below(packet.len().saturating_sub(1).max(1) as u64) as usize;
    packet.truncate(len);
    if random.one_in(2) {
        return "cut short";
    }
    // A length field that fits, as from a device that cuts on purpose; the TCP checksum still tells.
    match packet.first().map(|b| b >> 4) {
        Some(4) if len >= 20 => {
            packet[2..4].copy_from_slice(&(len as u16).to_be_bytes());
            packet[10..12].fill(0);
            let checksum = !wire::checksum::sum(&packet[..20]);
            packet[10..12].copy_from_slice(&checksum.to_be_bytes());
        }
        Some(6) if len >= 40 => packet[4..6].copy_from_slice(&((len - 40) as u16).to_be_bytes()),
        _ => {}
    }
    "cut short, with its length"
}
