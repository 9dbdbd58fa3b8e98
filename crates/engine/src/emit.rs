//! Packets of the engine's own making: their headers, from what each side has sent so far.

use tcp::Transmission;
use wire::{BuildError, EmittedHeader, TcpFlags, TcpHeaderSpec, Timestamps};

use crate::EngineConfig;
use crate::accelerated::{Accelerated, IpTemplate};
use crate::path::Path;
use crate::table::FlowKey;

/// Room for any IP and TCP header.
pub(crate) type HeaderBuffer = [u8; TcpHeaderSpec::MAX_LEN];

/// SACK blocks that fit beside timestamps, and without them (RFC 2018 §3).
const BLOCKS_WITH_TIMESTAMPS: usize = 3;
const BLOCKS_ALONE: usize = 4;

/// An acknowledgement for the server, in the client's name.
pub(crate) fn ack_for_server(
    key: &FlowKey,
    flow: &mut Accelerated,
    path: &Path,
    config: &EngineConfig,
    buf: &mut HeaderBuffer,
) -> Result<EmittedHeader, BuildError> {
    let window = flow.offer_window(config, path);
    let ack = flow.acknowledge();
    let room = if flow.has_timestamps { BLOCKS_WITH_TIMESTAMPS } else { BLOCKS_ALONE };
    let flags = if flow.echo_congestion { TcpFlags::ACK.with(TcpFlags::ECE) } else { TcpFlags::ACK };
    let mut spec = from_client(key, flow, flags);
    spec.ack = ack;
    spec.window = window;
    spec.sack = flow.receiver.sack_blocks(room);
    if flow.has_timestamps {
        let echo = flow.receiver.ts_recent().unwrap_or(0);
        spec.timestamps = Some(Timestamps { value: flow.client.tsval, echo });
    }
    spec.emit_partial(buf, 0)
}

/// A reset for the server, in the client's name, with the number the server expects next (RFC 5961 §3).
pub(crate) fn reset_for_server(
    key: &FlowKey,
    flow: &mut Accelerated,
    buf: &mut HeaderBuffer,
) -> Result<EmittedHeader, BuildError> {
    let mut spec = from_client(key, flow, TcpFlags::RST.with(TcpFlags::ACK));
    spec.seq = flow.server.ack;
    spec.ack = flow.receiver.ack_number();
    spec.emit_partial(buf, 0)
}

fn from_client(key: &FlowKey, flow: &mut Accelerated, flags: TcpFlags) -> TcpHeaderSpec {
    let spec = TcpHeaderSpec::new(key.client(), key.server(), flow.client.nxt, flow.receiver.next(), flags);
    with_template(spec, &mut flow.client.ip, 1)
}

/// The IP fields of one side's latest packet, for a packet of `segments` segments in its name.
fn with_template(spec: TcpHeaderSpec, ip: &mut IpTemplate, segments: u16) -> TcpHeaderSpec {
    TcpHeaderSpec {
        hop_limit: ip.hop_limit,
        traffic_class: ip.traffic_class,
        flow_label: ip.flow_label,
        dont_fragment: ip.dont_fragment,
        id: ip.next_id(segments),
        ..spec
    }
}

/// The server's latest acknowledgement, for the client, when no data is about to carry it.
pub(crate) fn ack_for_client(
    key: &FlowKey,
    flow: &mut Accelerated,
    buf: &mut HeaderBuffer,
) -> Result<EmittedHeader, BuildError> {
    let mut spec = from_server(key, flow, TcpFlags::ACK, 1);
    spec.seq = flow.sender.nxt();
    spec.emit_partial(buf, 0)
}

/// A reset for the client, in the server's name, with the number the client expects next (H4).
pub(crate) fn reset_for_client(
    key: &FlowKey,
    flow: &mut Accelerated,
    buf: &mut HeaderBuffer,
) -> Result<EmittedHeader, BuildError> {
    let mut spec = from_server(key, flow, TcpFlags::RST.with(TcpFlags::ACK), 1);
    spec.seq = flow.sender.una();
    spec.emit_partial(buf, 0)
}

/// Data, a FIN or a probe for the client.
pub(crate) fn transmission(
    key: &FlowKey,
    flow: &mut Accelerated,
    transmission: &Transmission,
    buf: &mut HeaderBuffer,
) -> Result<EmittedHeader, BuildError> {
    let end = transmission.seq + transmission.len;
    let mut flags = TcpFlags::ACK;
    let pushed = transmission.seq.is_before(flow.server.push_end) && !flow.server.push_end.is_after(end);
    let empties = end == flow.receiver.next();
    if transmission.len > 0 && (pushed || empties) {
        flags = flags.with(TcpFlags::PSH);
    }
    if transmission.fin {
        flags = flags.with(TcpFlags::FIN);
    }
    let segments = transmission.len.div_ceil(flow.sender.mss().max(1)).max(1);
    let mut spec = from_server(key, flow, flags, segments.min(u32::from(u16::MAX)) as u16);
    spec.seq = transmission.seq;
    if let Some(urgent_end) = flow.server.urgent_end.filter(|end| transmission.seq.is_before(*end)) {
        spec.flags = spec.flags.with(TcpFlags::URG);
        spec.urgent = urgent_end.since(transmission.seq).min(u32::from(u16::MAX)) as u16;
    }
    spec.emit_partial(buf, transmission.len as usize)
}

fn from_server(key: &FlowKey, flow: &mut Accelerated, flags: TcpFlags, segments: u16) -> TcpHeaderSpec {
    let flags = if flow.server.ece { flags.with(TcpFlags::ECE) } else { flags };
    let timestamps = Timestamps { value: flow.server.tsval, echo: flow.server.tsecr };
    let spec = TcpHeaderSpec {
        window: flow.server.window,
        timestamps: flow.has_timestamps.then_some(timestamps),
        ..TcpHeaderSpec::new(key.server(), key.client(), flow.sender.nxt(), flow.server.ack, flags)
    };
    with_template(spec, &mut flow.server.ip, segments)
}
