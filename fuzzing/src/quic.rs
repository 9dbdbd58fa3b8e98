//! QUIC flows of any datagrams.

use std::net::SocketAddr;

use analysis::{QuicAnalyzer, QuicFlowReport, SampleSummary, UdpReport};
use capture::{LinkType, datagram};
use units::{Duration, Instant};

/// The hosts that send each other datagrams: two servers, and two clients of one host.
const ENDS: [([u8; 4], u16); 4] =
    [([10, 0, 0, 1], 443), ([10, 0, 0, 2], 50_000), ([10, 0, 0, 2], 50_001), ([10, 0, 0, 3], 4_433)];
/// Datagrams taken at most.
const DATAGRAMS_MAX: usize = 2_000;

/// One datagram of an input: who sends it to whom, with which ECN field, milliseconds after the one before, bytes on
/// the wire, and what was captured of them.
struct Input<'a> {
    ends: [SocketAddr; 2],
    ecn: u8,
    gap: Duration,
    payload_len: usize,
    captured: &'a [u8],
}

/// Reads the next one: a byte for ends and ECN, one for time, two for bytes on the wire, one for captured bytes, and
/// these.
fn next<'a>(bytes: &mut &'a [u8]) -> Option<Input<'a>> {
    let ([who, gap, high, low, count], rest) = bytes.split_first_chunk::<5>()?;
    let (captured, rest) = rest.split_at(usize::from(*count).min(rest.len()));
    *bytes = rest;
    let end = |number: u8| SocketAddr::from(ENDS[usize::from(number & 3)]);
    Some(Input {
        ends: [end(*who), end(who >> 2)],
        ecn: who >> 4 & 3,
        // From microseconds to minutes.
        gap: Duration::from_micros(1 << (gap & 31).min(27) | u64::from(gap >> 5)),
        payload_len: usize::from(u16::from_be_bytes([*high, *low]) & 0x3fff).max(captured.len()),
        captured,
    })
}

/// The packet as far as it was captured, and its length.
fn frame(input: &Input<'_>) -> (Vec<u8>, usize) {
    let [source, destination] = input.ends;
    let octets = |end: SocketAddr| match end.ip() {
        std::net::IpAddr::V4(ip) => ip.octets(),
        std::net::IpAddr::V6(_) => [0; 4],
    };
    let len = |headers: usize| ((input.payload_len + headers) as u16).to_be_bytes();
    let mut bytes = vec![0x45, input.ecn];
    bytes.extend(len(28));
    bytes.extend([0, 0, 0x40, 0, 64, 17, 0, 0]);
    bytes.extend(octets(source));
    bytes.extend(octets(destination));
    bytes.extend(source.port().to_be_bytes());
    bytes.extend(destination.port().to_be_bytes());
    bytes.extend(len(8));
    bytes.extend([0, 0]);
    bytes.extend(input.captured);
    (bytes, input.payload_len + 28)
}

fn analyze(mut bytes: &[u8]) -> (u64, UdpReport) {
    let mut analyzer = QuicAnalyzer::new(Duration::from_secs(60));
    let (mut now, mut taken) = (Instant::from_nanos(0), 0);
    while let Some(input) = next(&mut bytes) {
        now += input.gap;
        let (frame, wire_len) = frame(&input);
        let found = datagram(LinkType::RAW, &frame, wire_len as u32).expect("a datagram was made");
        assert_eq!(found.payload(&frame), input.captured);
        analyzer.handle(0, 0, &found, &frame, now);
        taken += 1;
        if taken == DATAGRAMS_MAX as u64 {
            break;
        }
    }
    (taken, analyzer.finish())
}

fn check_times(summary: Option<SampleSummary>) {
    if let Some(times) = summary {
        assert!(times.n > 0 && times.min_ms >= 0.0, "{times:?}");
        assert!(
            times.min_ms <= times.p50_ms && times.p50_ms <= times.p95_ms && times.p95_ms <= times.max_ms,
            "{times:?}"
        );
    }
}

/// Figures of one flow that must fit each other.
fn check_flow(flow: &QuicFlowReport) {
    assert!(flow.duration_s >= 0.0 && flow.duration_s.is_finite());
    assert!(flow.connection_id_bytes.iter().flatten().all(|len| *len <= 20));
    for (way, bins) in flow.directions.iter().zip(&flow.course.bytes) {
        assert!(way.ip_bytes >= way.payload_bytes && way.ect + way.ce <= way.datagrams);
        assert!(way.payload_max <= way.payload_bytes);
        assert!(bins.len() <= 128 && bins.iter().sum::<u64>() <= way.payload_bytes);
        assert!(way.active_bps.is_none_or(|bps| bps.is_finite() && bps >= 0.0));
    }
    assert!(flow.pauses.longest_ms <= flow.pauses.total_ms);
    let found = &flow.inferred;
    assert!(found.connections >= 1 && found.moves.len() <= 8);
    assert!(found.connections == 1 || found.spin.is_none() && found.handshake.total_ms.is_none());
    if let Some(spin) = &found.spin {
        assert!(spin.edges + spin.refused <= spin.packets);
        assert!(spin.rtt.is_none() || spin.state == analysis::SpinState::Spinning, "{spin:?}");
        check_times(spin.rtt);
        spin.answers.iter().for_each(|answers| check_times(*answers));
    }
    if let Some(flowlets) = &found.flowlets {
        let count: u64 = flowlets.answers.iter().flatten().map(|answers| answers.n).sum();
        assert!(count <= flow.pauses.count, "more answers than pauses");
        flowlets.answers.iter().for_each(|answers| check_times(*answers));
    }
}

/// Every datagram is in a flow or in other UDP, all figures fit each other, and the same comes out again.
pub fn quic(bytes: &[u8]) {
    let (taken, found) = analyze(bytes);
    assert_eq!(found.datagrams, taken);
    found.quic.iter().for_each(check_flow);
    let ways = found.quic.iter().flat_map(|flow| flow.directions.as_array());
    let of_quic: u64 = ways.map(|way| way.datagrams + way.duplicates).sum();
    assert_eq!(of_quic + found.other.datagrams, taken, "a datagram is missing or counts twice");
    let by_port: u64 = found.other.ports.iter().map(|of| of.datagrams).sum();
    assert_eq!(by_port, found.other.datagrams, "there are fewer than ten ports here");
    let text = |found: &UdpReport| {
        let value = serde_json::to_string(&(found, &found.quic));
        value.expect("a report is JSON")
    };
    assert_eq!(text(&found), text(&analyze(bytes).1), "not the same again");
}
