//! Packets that a capture has twice, and packets that it has merged: neither is lost, nor changes a figure.

use serde_json::Value;

use crate::analyze::frames::{self, Frame, ethernet, ipv4, pcapng};
use crate::analyze::metamorphic::{CASES, assert_same, each_flow, found, found_with};

/// Frames in the order of time.
fn in_order(mut frames: Vec<Frame>) -> Vec<u8> {
    frames.sort_by_key(|frame| frame.time);
    pcapng(&frames)
}

/// Behind Ethernet with a VLAN.
fn in_vlan(frame: &Frame, number: u8) -> Frame {
    let kind = if frame.bytes[0] >> 4 == 4 { [8, 0] } else { [0x86, 0xdd] };
    frame.behind(1, &[&ethernet(0x8100)[..], &[0, number], &kind].concat())
}

fn on_ethernet(frame: &Frame) -> Frame {
    frame.behind(1, &ethernet(if frame.bytes[0] >> 4 == 4 { 0x0800 } else { 0x86dd }))
}

fn in_tunnel(frame: &Frame) -> Frame {
    let protocol = if frame.bytes[0] >> 4 == 4 { 4 } else { 41 };
    frame.behind(frame.link, &ipv4(protocol, frame.wire))
}

/// A packet as it is seen first, and its copy.
type Twice = fn(&Frame) -> [Frame; 2];

/// Ways to have every packet twice, and by how many nanoseconds the copy is later.
const WAYS: [(&str, u64, Twice); 6] = [
    ("another interface", 5_000, |frame| [frame.clone(), on_ethernet(frame)]),
    ("a router's other side", 3_000_000, |frame| {
        [on_ethernet(frame), on_ethernet(&frame.clone().after_a_hop())]
    }),
    ("a hub's port", 3_000, |frame| [frame.clone(), frame.clone()]),
    ("a tunnel", 4_000, |frame| [frame.clone(), in_tunnel(frame)]),
    ("two VLANs", 7_000, |frame| [in_vlan(frame, 10), in_vlan(frame, 20)]),
    ("a long queue", 9_000_000, |frame| [frame.clone(), on_ethernet(frame)]),
];

fn sum(document: &Value, field: &str) -> u64 {
    let flows = document["flows"].as_array().expect("flows").iter();
    flows
        .flat_map(|flow| flow["directions"].as_array().expect("two"))
        .filter_map(|way| way[field].as_u64())
        .sum()
}

#[test]
fn every_packet_twice_changes_the_count_of_duplicates_alone() {
    for name in CASES {
        let frames = frames::read(name);
        let plain = found(pcapng(&frames));
        assert_eq!(sum(&plain, "duplicates"), 0, "{name}: nothing here is there twice");
        for (way, later, twice) in WAYS {
            let both = frames.iter().flat_map(|frame| {
                let [first, mut second] = twice(frame);
                second.time += later;
                [first, second]
            });
            let mut found = found(in_order(both.collect()));
            assert_eq!(sum(&found, "duplicates"), sum(&plain, "packets"), "{name}: {way}");
            each_flow(&mut found, |flow| {
                for direction in flow["directions"].as_array_mut().expect("two") {
                    direction["duplicates"] = 0.into();
                }
            });
            assert_same(&format!("{name}: {way}"), &plain, &found);
        }
    }
}

#[test]
fn copies_that_are_missing_change_nothing_either() {
    for name in CASES {
        let frames = frames::read(name);
        let plain = found(pcapng(&frames));
        // Every third copy was lost behind the first place.
        let some = frames.iter().enumerate().flat_map(|(index, frame)| {
            let [first, mut second] = WAYS[1].2(frame);
            second.time += 3_000_000;
            [Some(first), (index % 3 > 0).then_some(second)].into_iter().flatten()
        });
        let mut found = found(in_order(some.collect()));
        assert_eq!(sum(&found, "duplicates"), sum(&plain, "packets") - frames.len().div_ceil(3) as u64);
        each_flow(&mut found, |flow| {
            for direction in flow["directions"].as_array_mut().expect("two") {
                direction["duplicates"] = 0.into();
            }
        });
        assert_same(name, &plain, &found);
    }
}

/// Neighbours that bring new data in order merged, as far as `most` bytes.
fn merged(frames: &[Frame]) -> Vec<Frame> {
    let mut out: Vec<Frame> = Vec::new();
    let mut edges = std::collections::BTreeMap::new();
    for frame in frames {
        let (_, seq, end) = frame.span();
        let is_news = edges.get(&frame.ends()).is_none_or(|edge| seq == *edge);
        if end.wrapping_sub(*edges.get(&frame.ends()).unwrap_or(&seq)) < 1 << 31 {
            edges.insert(frame.ends(), end);
        }
        // A SYN takes a number.
        if frame.initial_number().is_some() {
            edges.insert(frame.ends(), end.wrapping_add(1));
        }
        match out.last().filter(|_| is_news).and_then(|last| last.merged_with(frame)) {
            Some(both) => *out.last_mut().expect("one") = both,
            None => out.push(frame.clone()),
        }
    }
    out
}

#[test]
fn merged_segments_change_no_loss_rate() {
    for name in ["loss.server", "ipv6.server", "small-queue.server", "outage.server", "loss.client"] {
        let frames = frames::read(name);
        let merged = merged(&frames);
        assert!(merged.len() * 10 < frames.len() * 9, "{name}: {} of {}", merged.len(), frames.len());
        let (plain, found) = (found(pcapng(&frames)), found(pcapng(&merged)));
        let flows = |document: &Value| document["flows"].as_array().expect("flows").clone();
        for (plain, found) in flows(&plain).iter().zip(flows(&found)) {
            for way in 0..2 {
                let [plain, found] = [plain, &found].map(|flow| &flow["directions"][way]);
                assert_eq!(plain["loss"]["rate"], found["loss"]["rate"], "{name}");
                assert_eq!(
                    plain["loss"]["rate_before_capture"], found["loss"]["rate_before_capture"],
                    "{name}"
                );
                assert_eq!(plain["data_segments"], found["data_segments"], "{name}");
                let resent = |way: &Value| way["retransmissions"]["data_segments"].clone();
                assert_eq!(resent(plain), resent(found), "{name}");
            }
        }
    }
}

/// A box takes 3 ms in either direction, and loses every 20th packet of the server's data.
#[test]
fn the_two_interfaces_of_a_box_are_two_capture_points() {
    let frames = frames::read("loss.server");
    let server = frames.iter().find(|frame| frame.initial_number().is_some()).expect("a SYN").ends()[1];
    let mut both = Vec::new();
    let mut lost = 0;
    for (index, frame) in frames.iter().enumerate() {
        let mut beside_client = on_ethernet(frame);
        let from_server = frame.ends()[0] == server;
        beside_client.time = if from_server { frame.time + 3_000_000 } else { frame.time - 3_000_000 };
        // Raw IP on the server's side, Ethernet on the client's.
        both.push(frame.clone());
        match from_server && frame.wire > 1_000 && index % 20 == 0 {
            true => lost += 1,
            false => both.push(beside_client),
        }
    }
    assert!(lost > 5, "{lost}");
    let (plain, one) = (found(pcapng(&frames)), found(in_order(both.clone())));
    assert_eq!(one["flows"].as_array().map(Vec::len), plain["flows"].as_array().map(Vec::len), "copies");
    let found = found_with(&["--by-interface"], &[in_order(both)]);
    let count = |value: &Value| value.as_array().map_or(0, Vec::len);
    assert_eq!(count(&found["flows"]), 2 * count(&plain["flows"]));
    let pairs = found["pairs"].as_array().expect("pairs");
    assert_eq!(pairs.len(), count(&plain["flows"]));
    let about = |value: &Value, wanted: f64| (value.as_f64().expect("a number") - wanted).abs() < 0.01;
    assert!(
        pairs.iter().all(|pair| about(&pair["path_rtt_ms"], 6.0) && about(&pair["clock_offset_ms"], 0.0))
    );
    let sum = |field: &str| pairs.iter().filter_map(|pair| pair[field].as_u64()).sum::<u64>();
    assert_eq!((sum("lost_to_client"), sum("lost_to_server")), (lost, 0));
    let counts: Vec<u64> = found["captures"][0]["interfaces"]
        .as_array()
        .expect("two interfaces")
        .iter()
        .filter_map(|one| one["segments"].as_u64())
        .collect();
    assert_eq!(counts.iter().sum::<u64>(), 2 * frames.len() as u64 - lost);
    assert_eq!(counts.len(), 2);
}
