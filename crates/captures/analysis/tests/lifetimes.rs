//! When flows begin and end: silence, closing, ports that are used again, and the memory they leave.

use crate::made::{Kept, MSS, Packet, Tape, With, analyze_with};
use analysis::{Analyzer, Config, End, FlowReport};
use units::Duration;
use wire::TcpFlags;

const FIN: With<'_> = With { flags: TcpFlags::FIN, sack: &[], window: None, stamps: None, missing: 0 };

/// A connection of `segments` segments from port `port` that begins at `us`, with a sequence number of that
/// time.
fn connection(port: u16, us: u64, segments: u32) -> Vec<Packet> {
    let mut tape = Tape::new();
    tape.ends[0].set_port(port);
    tape.isn = tape.isn.map(|isn| isn.wrapping_add(us as u32));
    let mut tape = tape.open();
    for n in 0..segments {
        tape.data(50_000 + u64::from(n) * 1_000, n);
        tape.ack(90_000 + u64::from(n) * 1_000, n + 1, &[]);
    }
    tape.packets.sort_by_key(|packet| packet.0);
    let end = 90_000 + u64::from(segments) * 1_000;
    tape.send(end, 0, 1 + segments * MSS, 1, 0, &FIN);
    tape.send(end + 40_000, 1, 1, 2 + segments * MSS, 0, &FIN);
    tape.send(end + 40_010, 0, 2 + segments * MSS, 2, 0, &With::default());
    tape.packets.iter().map(|(at, spec, len)| (at + us, *spec, *len)).collect()
}

fn config(idle_s: u64, linger_s: u64) -> Config {
    let (idle, linger) = (Duration::from_secs(idle_s), Duration::from_secs(linger_s));
    Config { idle, linger, ..Config::default() }
}

fn sorted(mut packets: Vec<Packet>) -> Vec<Packet> {
    packets.sort_by_key(|packet| packet.0);
    packets
}

#[test]
fn a_silence_longer_than_idle_ends_a_flow_and_a_shorter_one_does_not() {
    let mut tape = Tape::opened();
    tape.data(50_000, 0);
    tape.data(60_050_000, 1);
    let flows = |idle_s| analyze_with(&tape.packets, config(idle_s, 10)).flows;
    assert_eq!(flows(61).len(), 1);
    let two = flows(59);
    assert_eq!(two.len(), 2);
    assert_eq!((two[0].end, two[1].end), (End::Open, End::Open));
    assert_eq!((two[0].client.is_some(), two[1].client.is_some()), (true, false), "its SYN was the other's");
}

#[test]
fn a_closed_flow_takes_late_segments_while_it_lingers() {
    let mut packets = connection(1_000, 0, 1);
    let (last_us, last, _) = *packets.last().unwrap();
    packets.push((last_us + 5_000_000, last, 0));
    let count = |linger_s| analyze_with(&packets, config(900, linger_s)).flows.len();
    assert_eq!((count(6), count(4)), (1, 2));
}

#[test]
fn a_port_used_again_is_another_flow() {
    let mut packets = connection(1_000, 0, 3);
    packets.extend(connection(1_000, 2_000_000, 5));
    let flows = analyze_with(&packets, config(900, 10)).flows;
    let bytes: Vec<u64> =
        flows.iter().map(|flow| flow.directions.as_array()[0].volume.unique_bytes).collect();
    assert_eq!(bytes, [3_000, 5_000]);
    assert!(flows.iter().all(|flow| flow.end == End::Closed));
}

/// What a flow is but for its number.
fn figures(flow: &FlowReport) -> String {
    let mut value = serde_json::to_value(flow).unwrap();
    value.as_object_mut().unwrap().remove("id");
    value.to_string()
}

#[test]
fn memory_of_ended_flows_leaves_nothing_behind_in_the_next() {
    // Many flows one after the other: places and buffers are used again.
    let many: Vec<Packet> = (0..300)
        .flat_map(|n| connection(2_000 + n, u64::from(n) * 20_000_000, 1 + u32::from(n) % 7))
        .collect();
    let kept = analyze_with(&sorted(many), config(900, 1));
    assert_eq!(kept.flows.len(), 300);
    for (n, flow) in kept.flows.iter().enumerate() {
        let n = n as u16;
        let alone = connection(2_000 + n, u64::from(n) * 20_000_000, 1 + u32::from(n) % 7);
        assert_eq!(figures(flow), figures(&analyze_with(&alone, config(900, 1)).flows[0]), "flow {n}");
    }
}

#[test]
fn no_more_closed_flows_linger_than_there_is_room_for() {
    // 6,000 flows that close at once and would linger for an hour: the first have ended before the last
    // begins.
    let mut analyzer = Analyzer::new(config(3_600, 3_600), Kept::default());
    let mut count = 0;
    for n in 0..6_000_u64 {
        for packet in connection(2_000 + (n % 60_000) as u16, n * 200_000, 1) {
            crate::made::hand_in(&mut analyzer, &packet);
            count += 1;
        }
    }
    let kept = analyzer.finish();
    assert_eq!(kept.flows.len(), 6_000);
    let packets: u64 =
        kept.flows.iter().flat_map(|flow| flow.directions.iter()).map(|data| data.volume.packets).sum();
    assert_eq!(packets, count, "each packet is in one flow");
    // Flows that end with the capture come in the order of their numbers; those that had to go came before.
    let ended_early = kept.flows.windows(2).filter(|pair| pair[0].id > pair[1].id).count();
    assert!(ended_early > 0, "none had to go");
}
