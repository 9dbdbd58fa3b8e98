//! Super-packets: merged on the way into the middlebox, cut on the way out.

use engine::Port;
use wire::{ChecksumState, GsoType, MergeOutcome, Merger, VirtioNetHeader};

use crate::Violation;
use crate::checks::Origin;

/// Largest packet IP can express.
const SUPER_PACKET_MAX: usize = 65_535;

/// Merges packets that came together as a TUN device with GRO would.
pub(crate) fn merge(packets: Vec<Vec<u8>>) -> Vec<(VirtioNetHeader, Vec<u8>)> {
    let mut out = Vec::with_capacity(packets.len());
    if packets.len() < 2 {
        // The usual case, and the buffer below is large.
        out.extend(packets.into_iter().map(|packet| (VirtioNetHeader::default(), packet)));
        return out;
    }
    let mut buffer = vec![0; SUPER_PACKET_MAX];
    let mut merger = Merger::new(&mut buffer);
    for packet in packets {
        let Ok(parsed) = wire::parse(&packet) else {
            finish(&mut merger, &mut out);
            out.push((VirtioNetHeader::default(), packet));
            continue;
        };
        let mut outcome = merger.push(&packet, &parsed, ChecksumState::Complete);
        if outcome == MergeOutcome::Refused {
            finish(&mut merger, &mut out);
            outcome = merger.push(&packet, &parsed, ChecksumState::Complete);
        }
        match outcome {
            MergeOutcome::Taken => {}
            MergeOutcome::TakenAsLast => finish(&mut merger, &mut out),
            MergeOutcome::Refused => out.push((VirtioNetHeader::default(), packet)),
        }
    }
    finish(&mut merger, &mut out);
    out
}

fn finish(merger: &mut Merger<'_>, out: &mut Vec<(VirtioNetHeader, Vec<u8>)>) {
    if let Some(merged) = merger.finish() {
        out.push((merged.header, merger.buffer()[..merged.len].to_vec()));
    }
}

/// The packets that go onto the wire for one that left the middlebox, checksums complete. One that was
/// forwarded is cut by the middlebox's caller, where a kernel would lose flags; its own by the kernel.
pub(crate) fn cut(
    to: Port,
    origin: Origin,
    virtio: &VirtioNetHeader,
    mut packet: Vec<u8>,
) -> Result<Vec<Vec<u8>>, Violation> {
    let wrong = |rule, packet: String| Violation::Packet { to, rule, packet };
    let parsed = wire::parse(&packet).map_err(|e| wrong("it is no IP packet", e.to_string()))?;
    if !virtio.fits(&packet, &parsed) {
        return Err(wrong("its virtio header does not fit", format!("{virtio:?} {parsed}")));
    }
    if parsed.ip.total_len != packet.len() {
        return Err(wrong("its length field is not its length", parsed.to_string()));
    }
    if virtio.gso_type == GsoType::None {
        wire::complete_checksum(&mut packet, virtio)
            .map_err(|e| wrong("its checksum cannot be completed", format!("{e}: {parsed}")))?;
        return Ok(vec![packet]);
    }
    let mut splitter = wire::split(&packet, &parsed, virtio.gso_size)
        .map_err(|e| wrong("it cannot be cut", format!("{e}: {parsed}")))?;
    if origin == Origin::Forwarded && virtio.has_cwr_everywhere(&packet) {
        splitter = splitter.keeping_cwr();
    }
    let mut out = Vec::with_capacity(splitter.remaining());
    while let Some(len) = splitter.next_len() {
        let mut segment = vec![0; len];
        splitter.next_into(&mut segment).map_err(|e| wrong("it cannot be cut", e.to_string()))?;
        out.push(segment);
    }
    Ok(out)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::build_packet;
    use units::SeqNum;
    use wire::{TcpFlags, TcpHeaderSpec};

    #[test]
    fn what_is_merged_comes_out_of_the_cut_as_it_was() {
        let (src, dst) = ("10.0.0.1:1".parse().unwrap(), "10.0.0.2:2".parse().unwrap());
        let mut packets = Vec::new();
        for i in 0..5u32 {
            let mut spec =
                TcpHeaderSpec::new(src, dst, SeqNum::new(i * 1_000), SeqNum::new(7), TcpFlags::ACK);
            spec.id = 40 + i as u16;
            packets.push(build_packet(&spec, &[], &[&[i as u8; 1_000]]).unwrap());
        }
        let merged = merge(packets.clone());
        assert_eq!(merged.len(), 1);
        let cut_again: Vec<Vec<u8>> = merged
            .into_iter()
            .flat_map(|(virtio, packet)| cut(Port::Wired, Origin::Made, &virtio, packet).unwrap())
            .collect();
        assert_eq!(cut_again, packets);
    }
}
