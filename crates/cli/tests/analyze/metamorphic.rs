//! The same packets in another form give the same analysis: what must not matter does not.
//!
//! No expected figures: each test changes captures of the lab in a way whose effect is known (most
//! have none, some change one named field) and compares everything that `--json --events` says.

use std::collections::{BTreeMap, BTreeSet};
use std::io::Write as _;

use flate2::{Compression, write::GzEncoder};
use serde_json::Value;

use super::{analyze, text};
use crate::analyze::frames::{self, Frame, Magic, Order, RAW, ethernet, ipv4, pcap, pcapng, udp};

/// Both sides, both versions of IP, loss, time-outs, lost acknowledgements, small windows, many flows; a slow
/// reader, pauses, a policer.
pub const CASES: [&str; 9] = [
    "loss.server",
    "outage.server",
    "acks-lost.client",
    "ipv6.client",
    "short-flows.server",
    "small-window.client",
    "times/slow-reader.client",
    "times/requests.server",
    "times/policer.client",
];

/// What an analysis says of the traffic, without what it says of files.
pub fn found_with(args: &[&str], files: &[Vec<u8>]) -> Value {
    let folder = tempfile::tempdir().expect("a folder");
    let mut args: Vec<String> = args.iter().map(ToString::to_string).collect();
    args.extend(["--json".to_owned(), "--events".to_owned()]);
    for (index, bytes) in files.iter().enumerate() {
        let path = folder.path().join(index.to_string());
        std::fs::write(&path, bytes).expect("written");
        args.push(path.display().to_string());
    }
    let out = analyze(&args.iter().map(String::as_str).collect::<Vec<_>>(), &[]);
    assert!(out.status.success(), "{}", text(&out.stderr));
    let mut document: Value = serde_json::from_slice(&out.stdout).expect("JSON");
    document.as_object_mut().expect("an object").remove("made_by");
    each_flow(&mut document, |flow| {
        let file = flow.as_object_mut().expect("a flow").remove("capture").expect("a file");
        assert!(file.as_u64().is_some_and(|file| file < files.len() as u64), "{file}");
    });
    document
}

pub fn found(file: Vec<u8>) -> Value {
    found_with(&[], &[file])
}

/// Where two values differ first, and how.
fn difference(path: &str, a: &Value, b: &Value) -> Option<String> {
    match (a, b) {
        (Value::Object(one), Value::Object(other)) => {
            let names: BTreeSet<&String> = one.keys().chain(other.keys()).collect();
            names.into_iter().find_map(|name| difference(&format!("{path}/{name}"), &a[name], &b[name]))
        }
        (Value::Array(one), Value::Array(other)) if one.len() == other.len() => one
            .iter()
            .zip(other)
            .enumerate()
            .find_map(|(index, (a, b))| difference(&format!("{path}/{index}"), a, b)),
        _ => (a != b).then(|| format!("{path}: {a} and {b}")),
    }
}

/// Fails unless flows, events, connections of Multipath TCP and pairs are the same.
pub fn assert_same(what: &str, one: &Value, other: &Value) {
    for part in ["flows", "events", "mptcp", "pairs"] {
        assert!(one[part].is_array(), "{part}");
        if let Some(difference) = difference(part, &one[part], &other[part]) {
            panic!("{what}: {difference}");
        }
    }
}

pub fn each_flow(document: &mut Value, change: impl FnMut(&mut Value)) {
    document["flows"].as_array_mut().expect("flows").iter_mut().for_each(change);
}

/// Each case with what is found in it as it is.
fn cases() -> impl Iterator<Item = (&'static str, Vec<Frame>, Value)> {
    CASES.into_iter().map(|name| {
        let frames = frames::read(name);
        let plain = found(pcapng(&frames));
        assert!(!plain["flows"].as_array().expect("flows").is_empty(), "{name}");
        (name, frames, plain)
    })
}

/// Each case with its frames changed one by one.
fn changed(frames: &[Frame], change: impl FnMut(Frame) -> Frame) -> Vec<u8> {
    pcapng(&frames.iter().cloned().map(change).collect::<Vec<_>>())
}

#[test]
fn the_cases_have_something_to_get_wrong() {
    let mut events = BTreeSet::new();
    for (_, _, plain) in cases() {
        for event in plain["events"].as_array().expect("events") {
            events.insert(format!("{} {}", event["event"], event["cause"]).replace('"', ""));
        }
    }
    let wanted = ["retransmission fast", "retransmission rto", "retransmission tlp", "repaired null"];
    assert!(wanted.iter().all(|wanted| events.contains(*wanted)), "{events:?}");
    // And the comparison sees a packet that is missing.
    let frames = frames::read("loss.server");
    let (whole, less) = (found(pcapng(&frames)), found(pcapng(&[&frames[..200], &frames[201..]].concat())));
    assert!(difference("", &whole["flows"], &less["flows"]).is_some());
}

#[test]
fn file_formats_and_byte_orders() {
    for (name, frames, plain) in cases() {
        for order in [Order::Big, Order::Little] {
            let nanos = found(pcap(&frames, Magic::Nanos, order));
            assert_same(&format!("{name}: pcap, {order:?}"), &plain, &nanos);
        }
        assert_same(&format!("{name}: sections"), &plain, &found(frames::many_sections(&frames)));
        // Microseconds say less: compared with the same times rounded.
        let rounded: Vec<Frame> =
            frames.into_iter().map(|frame| Frame { time: frame.time / 1_000 * 1_000, ..frame }).collect();
        let plain = found(pcapng(&rounded));
        for magic in [Magic::Micros, Magic::Modified] {
            for order in [Order::Big, Order::Little] {
                let micros = found(pcap(&rounded, magic, order));
                assert_same(&format!("{name}: {magic:?}, {order:?}"), &plain, &micros);
            }
        }
    }
}

#[test]
fn compression() {
    for (name, frames, plain) in cases() {
        let file = pcapng(&frames);
        // Two members, as `cat a.gz b.gz` makes.
        let (head, tail) = file.split_at(file.len() / 3);
        let members = [head, tail].map(|part| {
            let mut encoder = GzEncoder::new(Vec::new(), Compression::fast());
            encoder.write_all(part).expect("memory");
            encoder.finish().expect("memory")
        });
        assert_same(&format!("{name}: gzip"), &plain, &found(members.concat()));
        assert_same(&format!("{name}: Zstandard"), &plain, &found(frames::zstd(&file)));
    }
}

#[test]
fn headers_are_enough() {
    for (name, frames, plain) in cases() {
        let data = frames.iter().filter(|frame| frame.wire as usize > frame.header_len()).count();
        let cut = |frame: Frame| Frame { bytes: frame.bytes[..frame.header_len()].to_vec(), ..frame };
        let found = found(changed(&frames, cut));
        assert_same(name, &plain, &found);
        assert_eq!(found["captures"][0]["clipped"], data, "{name}");
    }
}

/// Each link header and tunnel: link type, and what is in front of a packet of `len` bytes whose
/// EtherType is `kind`.
fn wrappings(kind: u16, len: u32) -> Vec<(&'static str, bool, u16, Vec<u8>)> {
    let k = kind.to_be_bytes();
    let (v6, ip) = (kind == 0x86dd, if kind == 0x86dd { 41 } else { 4 });
    let on_ethernet = |outer: Vec<u8>| [ethernet(0x0800), outer].concat();
    let frame = [ethernet(kind)].concat();
    let pppoe_len = (len as u16 + 2).to_be_bytes();
    let ppp = if v6 { [0, 0x57] } else { [0, 0x21] };
    let gtp_len = (len as u16).to_be_bytes();
    vec![
        ("Ethernet", false, 1, ethernet(kind)),
        ("VLAN", false, 1, [&ethernet(0x8100)[..], &[0, 7], &k].concat()),
        ("QinQ", false, 1, [&ethernet(0x88a8)[..], &[0, 7, 0x81, 0, 0, 8], &k].concat()),
        ("MPLS", false, 1, [&ethernet(0x8847)[..], &[0, 1, 0, 64, 0, 2, 1, 64]].concat()),
        ("PPPoE", false, 1, [&ethernet(0x8864)[..], &[0x11, 0, 0, 1], &pppoe_len, &ppp].concat()),
        ("SLL", false, 113, [&[0, 0, 0, 1, 0, 6, 2, 2, 2, 2, 2, 2, 0, 0][..], &k].concat()),
        ("SLL2", false, 276, [&k[..], &[0; 18]].concat()),
        ("NULL", false, 0, vec![if v6 { 30 } else { 2 }, 0, 0, 0]),
        ("IP in IP", true, 1, on_ethernet(ipv4(ip, len))),
        ("GRE", true, 1, on_ethernet([&ipv4(47, len + 4)[..], &[0, 0], &k].concat())),
        (
            "ERSPAN II",
            true,
            1,
            on_ethernet([&ipv4(47, len + 30)[..], &[0x10, 0, 0x88, 0xbe], &[0; 12], &frame].concat()),
        ),
        (
            "VXLAN",
            true,
            1,
            on_ethernet([&udp(4789, len + 22)[..], &[8, 0, 0, 0, 0, 0, 5, 0], &frame].concat()),
        ),
        (
            "Geneve",
            true,
            1,
            on_ethernet([&udp(6081, len + 22)[..], &[0, 0, 0x65, 0x58, 0, 0, 5, 0], &frame].concat()),
        ),
        (
            "GTP-U",
            true,
            1,
            on_ethernet([&udp(2152, len + 8)[..], &[0x30, 255], &gtp_len, &[0, 0, 0, 9]].concat()),
        ),
    ]
}

#[test]
fn link_headers_and_tunnels() {
    for (name, frames, plain) in cases() {
        let kind = if name.starts_with("ipv6") { 0x86dd } else { 0x0800 };
        for (index, (wrapping, is_tunnel, ..)) in wrappings(kind, 0).into_iter().enumerate() {
            let wrap = |frame: Frame| {
                let (_, _, link, header) = wrappings(kind, frame.wire).swap_remove(index);
                frame.behind(link, &header)
            };
            let mut found = found(changed(&frames, wrap));
            each_flow(&mut found, |flow| {
                assert_eq!(flow["is_tunnelled"], is_tunnel, "{name}: {wrapping}");
                flow["is_tunnelled"] = false.into();
            });
            assert_same(&format!("{name}: {wrapping}"), &plain, &found);
        }
    }
}

#[test]
fn sequence_numbers_that_wrap() {
    for (name, frames, plain) in cases() {
        // Both ends of each connection pass zero within their first data.
        let mut moves = BTreeMap::new();
        for frame in &frames {
            if let Some(number) = frame.initial_number() {
                let before_zero = if moves.len() % 2 == 0 { 40 } else { 20_000_u32 };
                moves.entry(frame.ends()).or_insert(before_zero.wrapping_neg().wrapping_sub(number));
            }
        }
        let moved = |frame: Frame| {
            let [from, to] = frame.ends();
            let of = |ends| moves.get(&ends).copied().unwrap_or(0);
            frame.with_numbers_moved(of([from, to]), of([to, from]))
        };
        assert_same(name, &plain, &found(changed(&frames, moved)));
    }
}

#[test]
fn addresses_and_ports_exchanged() {
    for (name, frames, mut plain) in cases() {
        each_flow(&mut plain, |flow| {
            for what in ["", "_address", "_port"] {
                let [first, second] = ["first", "second"].map(|end| format!("{end}{what}"));
                let kept = flow[&first].take();
                flow[&first] = flow[&second].take();
                flow[&second] = kept;
            }
        });
        assert_same(name, &plain, &found(changed(&frames, Frame::with_ends_swapped)));
    }
}

/// Adds `by` to all absolute times.
fn later(value: &mut Value, by: i64) {
    match value {
        Value::Object(fields) => {
            for (name, inner) in fields {
                match name.as_str() {
                    "start_ns" | "time_ns" | "sent_ns" => {
                        let time = inner.as_u64().expect("a time").checked_add_signed(by).expect("a time");
                        *inner = time.into();
                    }
                    _ => later(inner, by),
                }
            }
        }
        Value::Array(values) => values.iter_mut().for_each(|inner| later(inner, by)),
        _ => {}
    }
}

/// Removes what is counted in bins of the clock's 100 ms.
fn without_bins(document: &mut Value) {
    each_flow(document, |flow| {
        for direction in flow["directions"].as_array_mut().expect("directions") {
            for name in ["throughput_p50_bps", "throughput_p95_bps"] {
                direction[name].take();
            }
            if let Some(lost) = direction.pointer_mut("/window_reductions/throughput_loss") {
                lost.take();
            }
        }
        let diagnoses = flow["diagnoses"].as_array_mut().expect("diagnoses");
        diagnoses.retain(|one| one["kind"] != "loss_without_rate_change");
    });
}

#[test]
fn another_day() {
    const BIN: i64 = 100_000_000;
    for (name, frames, plain) in cases() {
        let start = frames[0].time as i64;
        let moved = |by: i64| {
            let at = |frame: Frame| {
                let time = frame.time.checked_add_signed(by).expect("a time");
                Frame { time, ..frame }
            };
            let mut expected = plain.clone();
            later(&mut expected, by);
            (expected, found(changed(&frames, at)))
        };
        // To the start of 1970, and to a year with more than 32 bits of seconds.
        for by in [-start / BIN * BIN, 3_000_000_000 * 1_000_000_000] {
            let (expected, found) = moved(by);
            assert_same(&format!("{name}: {by} ns"), &expected, &found);
        }
        // To the first nanosecond there is, across midnight, and by a bit.
        for by in [-start, 86_399_999_999_999 - start % 86_400_000_000_000, 12_345_678] {
            let (mut expected, mut found) = moved(by);
            [&mut expected, &mut found].into_iter().for_each(without_bins);
            assert_same(&format!("{name}: {by} ns"), &expected, &found);
        }
    }
}

#[test]
fn rotated_files_in_any_order() {
    for (name, frames, plain) in cases() {
        for count in [2, 5, 17] {
            let files: Vec<Vec<u8>> = frames
                .chunks(frames.len().div_ceil(count))
                .enumerate()
                .map(|(index, part)| match index % 2 {
                    0 => pcapng(part),
                    _ => pcap(part, Magic::Nanos, Order::Big),
                })
                .collect();
            assert_eq!(files.len(), count);
            assert_same(&format!("{name}: {count} files"), &plain, &found_with(&[], &files));
            let backwards: Vec<Vec<u8>> = files.into_iter().rev().collect();
            assert_same(&format!("{name}: {count} files backwards"), &plain, &found_with(&[], &backwards));
        }
    }
}

#[test]
fn files_of_one_point_that_overlap() {
    for (name, frames, plain) in cases() {
        let client = frames[0].ends()[0].ip();
        let (up, down): (Vec<Frame>, Vec<Frame>) =
            frames.iter().cloned().partition(|frame| frame.ends()[0].ip() == client);
        // A file per direction, in either order; then files that got packets in turn.
        for parts in [[&up, &down], [&down, &up]] {
            let files = parts.map(|part| pcapng(part));
            assert_same(&format!("{name}: directions"), &plain, &found_with(&["--one-point"], &files));
        }
        let turns =
            [0, 1, 2].map(|turn| pcapng(&frames.iter().skip(turn).step_by(3).cloned().collect::<Vec<_>>()));
        assert_same(&format!("{name}: in turn"), &plain, &found_with(&["--one-point"], &turns));
    }
}

#[test]
fn a_file_that_ends_within_a_packet() {
    for (name, frames, _) in cases() {
        let kept = &frames[..frames.len() * 2 / 3];
        let whole = found(pcap(kept, Magic::Nanos, Order::Little));
        let with_next = pcap(&frames[..kept.len() + 1], Magic::Nanos, Order::Little);
        for missing in [1, frames[kept.len()].bytes.len(), frames[kept.len()].bytes.len() + 15] {
            let cut = found(with_next[..with_next.len() - missing].to_vec());
            assert_same(&format!("{name}: {missing} bytes missing"), &whole, &cut);
            assert!(cut["captures"][0]["problem"].is_string() && whole["captures"][0]["problem"].is_null());
        }
    }
}

#[test]
fn packets_a_little_out_of_order_are_sorted() {
    for (name, frames, plain) in cases() {
        // As two queues of a network card, emptied in turn every 30 ms; the sender chooses the queue.
        let client = frames[0].ends()[0].ip();
        let queue = |frame: &Frame| frame.ends()[0].ip() == client;
        let mut queued = frames.clone();
        queued.sort_by_key(|frame| (frame.time / 30_000_000, queue(frame)));
        let steps = queued.windows(2).filter(|pair| pair[1].time < pair[0].time).count();
        assert!(steps > 0, "{name}");
        let found = found(pcap(&queued, Magic::Nanos, Order::Little));
        assert_same(&format!("{name}: queues"), &plain, &found);
        let file = &found["captures"][0];
        assert_eq!(file["time_steps_back"], steps, "{name}");
        assert!(file["sorted"].as_u64().is_some_and(|sorted| sorted >= steps as u64), "{name}: {file}");
        assert_eq!(plain["captures"][0]["sorted"], 0, "{name}");
    }
}

#[test]
fn other_traffic_between() {
    for (name, frames, plain) in cases() {
        let kind = if name.starts_with("ipv6") { 0x86dd } else { 0x0800 };
        let mut mixed: Vec<Frame> = Vec::new();
        let mut added = 0;
        for (index, frame) in frames.iter().enumerate() {
            let quoted =
                [ethernet(0x0800), ipv4(1, frame.bytes.len() as u32 + 8), vec![3, 4, 0, 0, 0, 0, 5, 0]];
            let noise = match index % 5 {
                // The segment itself, as an ICMP message quotes it.
                0 => [quoted.concat(), frame.bytes.clone()].concat(),
                1 => [ethernet(0x0806), vec![1; 28]].concat(),
                2 => [ethernet(0x0800), udp(53, 30), vec![0x11; 30]].concat(),
                3 => [ethernet(0x88cc), vec![2; 60]].concat(),
                _ => vec![],
            };
            if !noise.is_empty() {
                added += 1;
                mixed.push(Frame { time: frame.time, link: 1, wire: noise.len() as u32, bytes: noise });
            }
            mixed.push(frame.behind(1, &ethernet(kind)));
        }
        let found = found(pcapng(&mixed));
        assert_same(name, &plain, &found);
        let skipped = found["captures"][0]["skipped"].as_object().expect("counts");
        assert_eq!(skipped.values().filter_map(Value::as_u64).sum::<u64>(), added, "{name}: {skipped:?}");
    }
}

/// Flows and events by the names of their ends, without numbers.
fn by_ends(document: &Value) -> BTreeMap<String, (Value, Vec<Value>)> {
    let flows = document["flows"].as_array().expect("flows");
    let mut all = BTreeMap::new();
    for flow in flows {
        let events = document["events"].as_array().expect("events").iter();
        let own = events.filter(|event| event["flow"] == flow["id"]).map(|event| {
            let mut event = event.clone();
            event["flow"].take();
            event
        });
        let (name, own) = (format!("{} {}", flow["first"], flow["second"]), own.collect());
        let mut flow = flow.clone();
        flow["id"].take();
        assert!(all.insert(name, (flow, own)).is_none(), "two flows of the same ends");
    }
    all
}

#[test]
fn captures_of_different_flows_together() {
    let mut all: Vec<Frame> = Vec::new();
    let mut expected = BTreeMap::new();
    for (index, name) in CASES.into_iter().enumerate() {
        let frames = frames::read(name);
        // At the same time, between other machines.
        let start = frames[0].time;
        let moved: Vec<Frame> = frames
            .into_iter()
            .map(|frame| Frame { time: frame.time - start + 1_700_000_000_000_000_000, ..frame })
            .map(|frame| frame.on_network(16 << (index % 4) | index as u8))
            .collect();
        expected.extend(by_ends(&found(pcapng(&moved))));
        all.extend(moved);
    }
    all.sort_by_key(|frame| frame.time);
    assert!(all.iter().all(|frame| frame.link == RAW) && expected.len() >= CASES.len());
    for threads in ["1", "2", "5"] {
        let together = by_ends(&found_with(&["--threads", threads], &[pcapng(&all)]));
        assert!(together.keys().eq(expected.keys()), "{:?}", together.keys());
        for (ends, (flow, events)) in &expected {
            let (other, other_events) = &together[ends];
            assert_eq!(difference(ends, flow, other), None, "{threads} threads");
            assert_eq!(events, other_events, "{ends}");
        }
    }
}
