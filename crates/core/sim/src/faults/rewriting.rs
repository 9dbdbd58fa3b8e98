//! Changes that other middleboxes make to packets: numbers, options and addresses, with right checksums.

use units::Duration;
use wire::{ChecksumState, TcpEditor, TcpFlags};

use super::FaultConfig;
use crate::build::refresh_lengths_and_checksums;
use crate::ip_header::is_intact;

/// Options overwritten with NOPs in SYNs.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub struct Strips {
    /// Maximum segment size.
    pub mss: bool,
    /// Window scale.
    pub window_scale: bool,
    /// SACK permitted.
    pub sack: bool,
    /// Timestamps.
    pub timestamps: bool,
}

impl Strips {
    fn takes(self, kind: u8) -> bool {
        match kind {
            2 => self.mss,
            3 => self.window_scale,
            4 => self.sack,
            8 => self.timestamps,
            _ => false,
        }
    }
}

/// A NAT that gives a client's packets another source from some time on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Rebinding {
    /// Time from which on it holds, since the start of the run.
    pub at: Duration,
    /// Added to the port.
    pub port_shift: u16,
    /// Added to the last byte of the address.
    pub address_shift: u8,
}

/// Rewrites a packet; false when it is lost because its address means nothing any more.
pub(super) fn rewrite(config: &FaultConfig, packet: &mut [u8], since: Duration) -> bool {
    shift_numbers(config, packet);
    if config.strips != Strips::default() {
        strip(config.strips, packet);
    }
    if let Some(rebinding) = config.rebinds_source.filter(|r| r.at <= since) {
        readdress(packet, End::Source, rebinding.port_shift, rebinding.address_shift);
    }
    if let Some(rebinding) = config.rebinds_destination.filter(|r| r.at <= since) {
        let (port, address) = (rebinding.port_shift.wrapping_neg(), rebinding.address_shift.wrapping_neg());
        return readdress(packet, End::Destination, port, address);
    }
    true
}

fn shift_numbers(config: &FaultConfig, packet: &mut [u8]) {
    if config.seq_shift == 0 && config.ack_shift == 0 {
        return;
    }
    let Ok(parsed) = wire::parse(packet) else { return };
    let Some(tcp) = parsed.tcp() else { return };
    let mut edit = TcpEditor::new(packet, tcp, ChecksumState::Complete);
    edit.set_seq(tcp.seq + config.seq_shift);
    if tcp.flags.contains(TcpFlags::ACK) {
        edit.set_ack(tcp.ack + config.ack_shift);
    }
}

fn strip(strips: Strips, packet: &mut [u8]) {
    let Ok(parsed) = wire::parse(packet) else { return };
    let Some(tcp) = parsed.tcp().filter(|tcp| tcp.flags.contains(TcpFlags::SYN)) else { return };
    if !wire::tcp_checksum_is_valid(packet, &parsed) {
        return;
    }
    let (mut at, end) = (tcp.offset + 20, tcp.payload_offset);
    while at < end {
        let len = match packet[at] {
            0 => break,
            1 => 1,
            _ => packet.get(at + 1).map_or(0, |len| usize::from(*len)).max(2),
        };
        if strips.takes(packet[at]) {
            packet[at..(at + len).min(end)].fill(1);
        }
        at += len;
    }
    refresh_lengths_and_checksums(packet);
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum End {
    Source,
    Destination,
}

/// False when the packet is for an address that was never given: the old one.
fn readdress(packet: &mut [u8], end: End, port_shift: u16, address_shift: u8) -> bool {
    let Ok(parsed) = wire::parse(packet) else { return true };
    let Some(tcp) = parsed.tcp() else { return true };
    // What is broken already stays so.
    if !is_intact(packet, &parsed) {
        return true;
    }
    let (address, port) = match (parsed.ip.src.is_ipv4(), end) {
        (true, End::Source) => (15, tcp.offset),
        (true, End::Destination) => (19, tcp.offset + 2),
        (false, End::Source) => (23, tcp.offset),
        (false, End::Destination) => (39, tcp.offset + 2),
    };
    // Ports of clients lie at 40,000 and above, new ones at 20,000 and above: the two never meet.
    let old = u16::from_be_bytes([packet[port], packet[port + 1]]);
    if end == End::Destination && old >= CLIENT_PORTS {
        return false;
    }
    packet[port..port + 2].copy_from_slice(&old.wrapping_add(port_shift).to_be_bytes());
    packet[address] = packet[address].wrapping_add(address_shift);
    refresh_lengths_and_checksums(packet);
    true
}

/// First port of clients before a rebinding.
const CLIENT_PORTS: u16 = 40_000;
