//! The outputs beside table and JSON: one reading gives them all.

use capture::Reader;
use serde_json::Value;
use tables::TableReader;

use super::{analyze, capture, text};

#[test]
fn one_reading_gives_every_output() {
    let folder = tempfile::tempdir().expect("a folder");
    let file = |name: &str| folder.path().join(name).display().to_string();
    std::fs::write(folder.path().join("in.pcap"), capture()).expect("written");
    let (csv, jsonl, trace, graphs, annotated) =
        (file("f.csv"), file("f.jsonl"), file("t.json"), file("graphs"), file("a.pcapng"));
    let mut args = vec!["--csv", &csv, "--jsonl", &jsonl, "--perfetto", &trace];
    let input = file("in.pcap");
    args.extend(["--graphs", "SR", "--graphs-to", &graphs, "--annotate", &annotated, &input]);
    let out = analyze(&args, &[]);
    assert!(out.status.success() && text(&out.stdout).contains("1 flow"), "{}", text(&out.stderr));
    let read = |path: &str| std::fs::read_to_string(path).expect("written");

    let table = read(&csv);
    let lines: Vec<Vec<&str>> = table.lines().map(|line| line.split(',').collect()).collect();
    // What was found, the last column, may have commas within quotes.
    let column = lines[0].iter().position(|name| *name == "a2b_retransmissions_rto").expect("a column");
    assert_eq!((lines.len(), lines[1].get(column)), (2, Some(&"1")));
    let ends = [input.as_str(), "10.0.0.1", "1000", "10.0.0.2", "80"];
    assert_eq!(lines[1][..5], ends, "file, address and port in columns of their own");

    let flow: Value = serde_json::from_str(read(&jsonl).trim()).expect("one line of JSON");
    assert_eq!((&flow["schema"], &flow["id"]), (&"cellerator/analysis/1".into(), &0.into()));
    assert_eq!((&flow["file"], &flow["second_address"]), (&input.as_str().into(), &"10.0.0.2".into()));
    assert_eq!((&flow["first_port"], &flow["capture"]), (&1_000.into(), &0.into()));

    let trace: Value = serde_json::from_str(&read(&trace)).expect("JSON");
    let events = trace["traceEvents"].as_array().expect("events");
    assert!(
        events.iter().any(|event| event["name"] == "retransmission: rto" && event["tid"] == 1),
        "{trace}"
    );
    assert!(events.iter().any(|event| event["name"] == "in flight 1>2" && event["args"]["value"] == 2000.0));

    let drawn = read(&format!("{graphs}/a2b_tsg.xpl"));
    assert!(drawn.starts_with("timeval unsigned\ntitle\n") && drawn.ends_with("go\n"), "{drawn}");
    assert!(drawn.contains("white\nline 0.050000 1 0.050000 1001\n"), "a segment: {drawn}");
    assert!(drawn.contains("red\natext 0.390000 2001\nR RTO\n"), "a retransmission: {drawn}");
    assert!(drawn.contains("green\nline 0.090000 1001 0.430000 1001\n"), "acknowledgements: {drawn}");
    assert!(!std::path::Path::new(&format!("{graphs}/a2b_tput.xpl")).exists(), "only what was asked for");

    let annotated = std::fs::read(annotated).expect("written");
    let mut reader = Reader::new(&annotated[..]).expect("a capture");
    let mut packets = 0;
    while reader.advance().expect("whole") {
        packets += 1;
    }
    assert_eq!(packets, 8);
    let said = String::from_utf8_lossy(&annotated);
    assert_eq!(said.matches("cellerator: flow 0: retransmission: time-out").count(), 1);
    assert!(
        analyze(&["--csv", "-", &input], &[])
            .stdout
            .starts_with(b"file,first_address,first_port,second_address,second_port,id,point,capture,first,")
    );
}

#[test]
fn gnuplot_gets_columns_and_a_script() {
    let folder = tempfile::tempdir().expect("a folder");
    let graphs = folder.path().display().to_string();
    let out = analyze(&["--graphs", "N", "--gnuplot", "--graphs-to", &graphs, "-"], &capture());
    assert!(out.status.success(), "{}", text(&out.stderr));
    let script = std::fs::read_to_string(folder.path().join("a2b_owin.gp")).expect("a script");
    assert!(script.contains("\"a2b_owin_average.dat\""), "{script}");
    let columns = std::fs::read_to_string(folder.path().join("a2b_owin_average.dat")).expect("columns");
    assert!(columns.contains("0.050100 2000\n"), "{columns}");
    let out = analyze(&["--graphs", "Q", "-"], &capture());
    assert!(!out.status.success() && text(&out.stderr).contains("'Q' is no graph"), "{}", text(&out.stderr));
}

#[test]
fn what_cannot_be_written_or_read_twice_is_said() {
    let folder = tempfile::tempdir().expect("a folder");
    let input = folder.path().join("in.pcap");
    std::fs::write(&input, capture()).expect("written");
    let out = analyze(&["--html", "/nowhere/at/all.html", &input.display().to_string()], &[]);
    assert!(
        !out.status.success() && text(&out.stderr).contains("cannot be written"),
        "{}",
        text(&out.stderr)
    );
    let annotated = folder.path().join("a.pcapng").display().to_string();
    let out = analyze(&["--annotate", &annotated, "-"], &capture());
    assert!(!out.status.success() && text(&out.stderr).contains("name files"), "{}", text(&out.stderr));
}

#[test]
fn environments_are_compared() {
    let folder = tempfile::tempdir().expect("a folder");
    for name in ["a1.pcap", "a2.pcap", "b.pcap"] {
        std::fs::write(folder.path().join(name), capture()).expect("written");
    }
    let group = |name: &str, files: &str| format!("{name}={}", folder.path().join(files).display());
    let (wifi, lte) = (group("wifi", "a*.pcap"), group("lte", "b.pcap"));
    let html = folder.path().join("r.html").display().to_string();
    let out = analyze(&["--group", &wifi, "--group", &lte, "--compare", "--html", &html], &[]);
    let shown = text(&out.stdout);
    assert!(out.status.success(), "{}", text(&out.stderr));
    // One of eight packets was sent again.
    assert_eq!(
        shown.lines().filter(|line| line.starts_with("wifi") && line.contains("12.500")).count(),
        3,
        "{shown}"
    );
    assert!(shown.lines().any(|line| line.starts_with("lte") && line.contains("33.333 (-)")), "{shown}");
    assert!(std::fs::metadata(&html).expect("a page").len() > 10_000);
    let json = analyze(&["--group", &wifi, "--group", &lte, "--compare", "--json"], &[]);
    let document: Value = serde_json::from_slice(&json.stdout).expect("JSON");
    let wifi_found = &document["environments"][0];
    assert_eq!(
        (&wifi_found["name"], &wifi_found["samples"][1]["retransmitted"]),
        (&"wifi".into(), &1.into())
    );
    assert_eq!(wifi_found["samples"][0]["recalculations"], 1, "one time-out");
    let out = analyze(&["--group", "nothing", "--compare"], &[]);
    assert!(!out.status.success() && text(&out.stderr).contains("NAME=FILES"), "{}", text(&out.stderr));
}

/// The one part of a table, with its path below the dataset.
fn part(root: &std::path::Path, table: &str, env: &str) -> (String, TableReader) {
    let dates = root.join(format!("v1/table={table}/env={env}"));
    let mut entries =
        std::fs::read_dir(&dates).unwrap_or_else(|error| panic!("{}: {error}", dates.display()));
    let folder = entries.next().expect("a date").expect("an entry").path();
    assert!(entries.next().is_none(), "one date in {}", dates.display());
    let files: Vec<_> = std::fs::read_dir(&folder)
        .unwrap_or_else(|error| panic!("{}: {error}", folder.display()))
        .map(|entry| entry.expect("an entry").file_name().to_string_lossy().into_owned())
        .collect();
    assert_eq!(files.len(), 1, "{files:?}");
    (files[0].clone(), TableReader::open(&folder.join(&files[0])).expect("a table"))
}

/// A column's values.
fn column(table: &TableReader, name: &str) -> Vec<tables::Value> {
    let at = table.schema().position(name).unwrap_or_else(|| panic!("no column {name}"));
    table.rows().expect("rows").map(|row| row.expect("a row").swap_remove(at)).collect()
}

#[test]
fn a_connection_captured_at_both_ends_has_the_ends_of_both_flows() {
    let folder = tempfile::tempdir().expect("a folder");
    let captures = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/captures");
    let file = |side: &str| captures.join(format!("loss.{side}.pcapng.gz")).display().to_string();
    let (client, server) = (file("client"), file("server"));
    let out = analyze(&["--parquet", &folder.path().display().to_string(), &server, &client], &[]);
    assert!(out.status.success(), "{}", text(&out.stderr));
    let (_, pairs) = part(folder.path(), "pairs", "none");
    let of = |name: &str| column(&pairs, name);
    assert_eq!((of("file"), of("server_flow_file")), (vec![client.into()], vec![server.into()]));
    // They are those of the flows that the row names.
    let (_, flows) = part(folder.path(), "flows", "none");
    let ids = column(&flows, "flow_id");
    for (prefix, id) in [("", "client_flow_id"), ("server_flow_", "server_flow_id")] {
        let row = ids.iter().position(|flow| *flow == of(id)[0]).expect("its flow");
        for name in ["file", "first_address", "first_port", "second_address", "second_port"] {
            assert_eq!(
                of(&format!("{prefix}{name}")),
                [column(&flows, name).swap_remove(row)],
                "{prefix}{name}"
            );
        }
    }
    assert_eq!(of("second_port"), [80.into()]);
}

#[test]
fn a_dataset_holds_what_the_json_says() {
    let folder = tempfile::tempdir().expect("a folder");
    let input = folder.path().join("in.pcap");
    std::fs::write(&input, capture()).expect("written");
    let (root, input) = (folder.path().join("data"), input.display().to_string());
    let write = || {
        let out = analyze(&["--parquet", &root.display().to_string(), "--env", "lte drive", &input], &[]);
        assert!(out.status.success(), "{}", text(&out.stderr));
    };
    write();
    let env = "lte%20drive";
    let (name, flows) = part(&root, "flows", env);
    assert_eq!(flows.note("cellerator.schema"), Some("cellerator/analysis/1"));
    assert_eq!(column(&flows, "first"), ["10.0.0.1:1000".into()]);
    assert_eq!(column(&flows, "file"), [input.as_str().into()]);
    assert_eq!(column(&flows, "second_address"), ["10.0.0.2".into()]);
    assert_eq!(column(&flows, "second_port"), [80.into()]);
    assert_eq!(column(&flows, "a2b_retransmissions_rto"), [1.into()]);
    assert_eq!(column(&flows, "a2b_window_scale"), [tables::Value::Null], "what is not known is not zero");
    let milliseconds = flows.schema().columns.iter().find(|column| column.name == "a2b_rtt_karn_min_ms");
    assert_eq!(milliseconds.and_then(|column| column.unit.as_deref()), Some("ms"));
    let id = column(&flows, "flow_id");

    let (_, events) = part(&root, "events", env);
    assert_eq!(
        (column(&events, "event"), column(&events, "cause")),
        (vec!["retransmission".into()], vec!["rto".into()])
    );
    assert_eq!(column(&events, "flow_id"), id);
    let (_, intervals) = part(&root, "intervals", env);
    let sum = |name: &str| -> i64 { column(&intervals, name).iter().filter_map(tables::Value::as_int).sum() };
    assert_eq!((sum("packets"), sum("payload_bytes"), sum("retransmitted_packets")), (8, 3_000, 1));
    assert_eq!(sum("acked_bytes"), 2_000, "what the SYN took is the first acknowledged");
    let (_, samples) = part(&root, "samples", env);
    assert_eq!(column(&samples, "karn_ms").first(), Some(&tables::Value::Float(40.0)));
    let (_, captures) = part(&root, "captures", env);
    assert_eq!(
        (column(&captures, "packets"), column(&captures, "problem")),
        (vec![8.into()], vec![tables::Value::Null])
    );
    assert!(!root.join("v1/table=mptcp").exists(), "no rows, no part");

    // Again: the same parts, not more; under another name too.
    write();
    std::fs::rename(&input, folder.path().join("other.pcap")).expect("renamed");
    let other = folder.path().join("other.pcap").display().to_string();
    let out = analyze(
        &["--group", &format!("lte drive={other}"), "--compare", "--parquet", &root.display().to_string()],
        &[],
    );
    assert!(out.status.success(), "{}", text(&out.stderr));
    let (again, flows) = part(&root, "flows", env);
    assert_eq!((again, column(&flows, "flow_id")), (name, id));
}
