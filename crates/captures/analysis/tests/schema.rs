//! The JSON is as its schema says: types, required and unknown keys, constants, references.

use crate::made::{MSS, Tape, With};
use analysis::{
    CaptureFile, DocumentWriter, Findings, FlowReport, InterfaceCount, MadeBy, MptcpAnalyzer, MptcpReport,
    Pair, PairFinder, Sink, Skipped,
};
use capture::{LinkType, Mapping, MptcpOptions, decode};
use serde_json::Value;
use units::Instant;
use wire::{TcpFlags, TcpHeaderSpec};

fn schema() -> Value {
    serde_json::from_str(include_str!("../../../../schemas/analysis.schema.json")).unwrap()
}

fn check(value: &Value, schema: &Value, root: &Value, at: &str, wrong: &mut Vec<String>) {
    if let Some(reference) = schema["$ref"].as_str() {
        return check(value, &root["$defs"][reference.trim_start_matches("#/$defs/")], root, at, wrong);
    }
    if let Some(several) = schema["anyOf"].as_array() {
        let fits = |one: &&Value| {
            let mut found = Vec::new();
            check(value, one, root, at, &mut found);
            found.is_empty()
        };
        if several.iter().find(fits).is_none() {
            wrong.push(format!("{at} fits none"));
        }
        return;
    }
    let is_of = |name: &Value| match name.as_str() {
        Some("object") => value.is_object(),
        Some("array") => value.is_array(),
        Some("string") => value.is_string(),
        Some("boolean") => value.is_boolean(),
        Some("number") => value.is_number(),
        Some("integer") => value.is_i64() || value.is_u64(),
        Some("null") => value.is_null(),
        _ => false,
    };
    let types = schema["type"].as_array().map_or_else(|| vec![schema["type"].clone()], Clone::clone);
    if !types.iter().any(is_of) {
        wrong.push(format!("{at}: {value} is none of {types:?}"));
    }
    if schema.get("const").is_some_and(|wanted| wanted != value)
        || schema["enum"].as_array().is_some_and(|allowed| !allowed.contains(value))
    {
        wrong.push(format!("{at}: {value}"));
    }
    for key in schema["required"].as_array().into_iter().flatten().filter_map(Value::as_str) {
        if value.get(key).is_none() {
            wrong.push(format!("{at} lacks {key}"));
        }
    }
    for (key, inner) in value.as_object().into_iter().flatten() {
        match schema["properties"].get(key) {
            Some(schema) => check(inner, schema, root, &format!("{at}.{key}"), wrong),
            None => wrong.push(format!("{at} has unknown key {key}")),
        }
    }
    for (index, item) in value.as_array().into_iter().flatten().enumerate() {
        check(item, &schema["items"], root, &format!("{at}[{index}]"), wrong);
    }
}

fn document(wants_events: bool) -> Value {
    let mut tape = Tape::opened();
    for n in [0, 1, 2, 3, 3, 5, 4] {
        tape.data(50_000 + u64::from(n), n);
    }
    tape.ack(90_000, 4, &[(3, 4)]);
    tape.data(700_000, 4);
    tape.send(800_000, 1, 1, 1 + 4 * MSS, 0, &With { window: Some(0), ..With::default() });
    tape.send(900_000, 0, 1 + 6 * MSS, 1, 1, &With::default());
    tape.send(950_000, 1, 1, 1 + 4 * MSS, 0, &With { flags: TcpFlags::RST, ..With::default() });
    let kept = tape.analyze();
    let mut skipped = Skipped::default();
    skipped.count(capture::Skip::NotIp);
    let capture = CaptureFile {
        file: "made.pcap".to_owned(),
        packets: 12,
        clipped: 0,
        time_steps_back: 0,
        sorted: 0,
        bad_blocks: 0,
        dropped: Some(3),
        problem: None,
        skipped,
        segments: 11,
        datagrams: 0,
        interfaces: vec![InterfaceCount { interface: 1, packets: 12, segments: 11 }],
    };
    let made_by = MadeBy { cellerator: "0".to_owned(), command: "test".to_owned() };
    let mut writer = DocumentWriter::new(Vec::new(), &made_by, wants_events);
    kept.events.iter().for_each(|event| writer.on_event(event));
    for flow in [kept.flows.clone(), kept.flows].concat() {
        writer.on_flow(&flow);
    }
    let findings =
        Findings { captures: vec![capture], mptcp: multipath(), pairs: pairs(), udp: crate::quic::report() };
    serde_json::from_slice(&writer.finish(&findings).unwrap()).unwrap()
}

/// A connection seen 20 ms and one clock step apart.
fn pairs() -> Vec<Pair> {
    let mut finder = PairFinder::default();
    for (point, shift_us, answer_us) in [(0, 0, 40_000), (1, 1_020_000, 0)] {
        let mut tape = Tape::new();
        let syn = With { flags: TcpFlags::SYN, ..With::default() };
        tape.send(shift_us, 0, 0, 0, 0, &syn);
        tape.send(shift_us + answer_us + 10, 1, 0, 1, 0, &syn);
        tape.send(shift_us + 40_020, 0, 1, 1, 0, &With::default());
        for n in 0..3 - u32::from(point) {
            tape.data(shift_us + 50_000, n);
        }
        finder.push(&FlowReport { point, ..tape.flow() });
    }
    let found = finder.finish();
    assert_eq!(found.len(), 1);
    assert!((found[0].clock_offset_ms - 1_000.0).abs() < 0.1, "{found:?}");
    assert!((found[0].path_rtt_ms - 40.0).abs() < 0.1, "{found:?}");
    assert_eq!((found[0].lost_to_server, found[0].lost_to_client), (Some(1), Some(0)));
    found
}

/// A connection of two subflows that carry the same bytes.
fn multipath() -> Vec<MptcpReport> {
    let mut analyzer = MptcpAnalyzer::default();
    for (ms, port) in [(0, 1), (5, 2)] {
        let mut tape = Tape::new();
        tape.ends[0].set_port(port);
        tape.data(0, 0);
        let mut header = [0; TcpHeaderSpec::MAX_LEN];
        let (_, spec, len) = &tape.packets[0];
        let emitted = spec.emit_partial(&mut header, *len as usize).unwrap();
        let frame = &header[..emitted.len];
        let segment = decode(LinkType::RAW, frame, emitted.total_len as u32).unwrap();
        let mapping = Mapping { data_sequence: 7, is_wide: true, subflow_sequence: 1, len: 1_000 };
        let options = MptcpOptions {
            capable: (port == 1).then_some(1),
            sender_key: (port == 1).then_some(0),
            join_token: (port == 2).then_some(0xaf55_70f5),
            mapping: Some(mapping),
            ..MptcpOptions::default()
        };
        analyzer.handle(0, &segment, &options, Instant::from_millis(ms));
    }
    let found = analyzer.finish();
    assert_eq!((found.len(), found[0].subflows.len()), (1, 2), "joined by the token: {found:?}");
    // The token is that of the client's key: the second subflow was opened by the server.
    assert_eq!(found[0].directions[0].bytes, 1_000);
    assert_eq!(found[0].directions[1].bytes, 1_000);
    found
}

#[test]
fn the_results_are_as_their_schema_says() {
    let schema = schema();
    let problems = |value: &Value| {
        let mut wrong = Vec::new();
        check(value, &schema, &schema, "results", &mut wrong);
        wrong
    };
    assert_eq!(problems(&document(false)), [""; 0]);
    let mut value = document(true);
    assert_eq!(problems(&value), [""; 0]);
    assert_eq!(value["flows"].as_array().map(Vec::len), Some(2));
    assert_eq!(value["quic"].as_array().map(Vec::len), Some(2));
    assert!(value["quic"][0]["inferred"]["moves"].as_array().is_some_and(|moves| !moves.is_empty()));
    assert!(value["udp"]["other"]["ports"].as_array().is_some_and(|ports| !ports.is_empty()));
    assert!(value["events"].as_array().is_some_and(|events| events.len() >= 5));
    value["flows"][0]["vantage"] = "nowhere".into();
    value["flows"][0]["directions"][0]["packets"] = "many".into();
    value["more"] = 1.into();
    value.as_object_mut().unwrap().remove("captures");
    assert_eq!(problems(&value).len(), 4);
}
