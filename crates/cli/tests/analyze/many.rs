//! Many captures: series, shards, and what was done is not done again.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::SystemTime;

use datasets::{Manifest, Record};
use serde_json::Value;
use tables::TableReader;

use super::{analyze, text};
use crate::schema::check_against;

/// Simulated captures of `seeds` runs in `folder`; some rotate.
pub fn captures(folder: &Path, seeds: u32, first: u32, radio: &str, rotate: Option<u32>) {
    let scenario = folder.with_extension("toml");
    fs::create_dir_all(folder).expect("a folder");
    let text = format!(
        "name = \"t\"\ntime_limit = \"60 s\"\nwan = {{ delay = \"5 ms\" }}\nradio.down = {{ {radio}, loss = \
         \"1 %\" }}\nradio.up = {{ delay = \"10 ms\" }}\nworkload = {{ size = \"200 KB\" }}\n[[case]]\nname = \
         \"plain\"\naccelerator = {{ enabled = false }}\n"
    );
    fs::write(&scenario, text).expect("written");
    let mut command = Command::new(env!("CARGO_BIN_EXE_cellerator"));
    command.args(["sim", "run"]).arg(&scenario).args(["--seed", &first.to_string()]);
    command.args(["--seeds", &seeds.to_string(), "--captures"]).arg(folder);
    if let Some(bytes) = rotate {
        command.args(["--rotate", &bytes.to_string()]);
    }
    let out = command.output().expect("the program starts");
    assert!(out.status.success(), "{}", String::from_utf8_lossy(&out.stderr));
}

pub const RADIO: &str = "rate = \"8 Mbit/s\", delay = \"20 ms\", queue = \"60 packets\"";

/// Every file of a dataset's tables, by path, with its bytes.
pub fn contents(dataset: &Path) -> BTreeMap<PathBuf, Vec<u8>> {
    let mut files = BTreeMap::new();
    let mut folders = vec![dataset.join("v1")];
    while let Some(folder) = folders.pop() {
        for entry in fs::read_dir(&folder).expect("a folder") {
            let path = entry.expect("an entry").path();
            if path.is_dir() {
                folders.push(path);
            } else {
                let within = path.strip_prefix(dataset).expect("below").to_owned();
                files.insert(within, fs::read(&path).expect("readable"));
            }
        }
    }
    // Records have the same contents, too: the files are where they were.
    files
}

pub fn build(dataset: &Path, input: &Path, more: &[&str]) -> String {
    let (dataset, input) = (dataset.display().to_string(), input.display().to_string());
    let out = analyze(&[&["--parquet", &dataset, &input], more].concat(), &[]);
    assert!(out.status.success(), "{}", text(&out.stderr));
    text(&out.stdout)
}

#[test]
fn any_number_of_shards_gives_the_same_bytes() {
    let folder = tempfile::tempdir().expect("a folder");
    let input = folder.path().join("in");
    captures(&input.join("a"), 4, 1, RADIO, None);
    captures(&input.join("b"), 3, 100, RADIO, Some(8_000));
    let whole = folder.path().join("whole");
    let said = build(&whole, &input, &["--threads", "1"]);
    assert!(said.starts_with("7 series: 7 analyzed (7 flows), 0 unchanged, 0 failed"), "{said}");
    let expected = contents(&whole);
    for table in
        ["v1/series", "v1/table=captures", "v1/table=flows", "v1/table=intervals", "v1/table=samples"]
    {
        assert_eq!(expected.keys().filter(|path| path.starts_with(table)).count(), 7, "{table}");
    }
    for shards in [2, 3, 7] {
        let dataset = folder.path().join(format!("of-{shards}"));
        for number in (1..=shards).rev() {
            let shard = format!("{number}/{shards}");
            // An index of an array may run twice, at the same time.
            let twice: Vec<_> = (0..2)
                .map(|_| {
                    let mut command = Command::new(env!("CARGO_BIN_EXE_cellerator"));
                    command.args(["analyze", "--shard", &shard, "--parquet"]).arg(&dataset).arg(&input);
                    command.stdout(Stdio::null()).stderr(Stdio::null()).spawn().expect("it starts")
                })
                .collect();
            for mut child in twice {
                assert!(child.wait().expect("it ends").success(), "shard {shard}");
            }
        }
        assert!(contents(&dataset) == expected, "{shards} shards give other files than one");
        let said = build(&dataset, &input, &[]);
        assert!(said.starts_with("7 series: 0 analyzed (0 flows), 7 unchanged"), "{said}");
    }
}

#[test]
fn what_was_killed_goes_on_and_what_changed_is_done_again() {
    let folder = tempfile::tempdir().expect("a folder");
    let input = folder.path().join("in");
    captures(&input, 40, 1, RADIO, None);
    let whole = folder.path().join("whole");
    build(&whole, &input, &[]);
    let expected = contents(&whole);

    let dataset = folder.path().join("killed");
    let records = dataset.join("v1").join("series");
    let mut child = Command::new(env!("CARGO_BIN_EXE_cellerator"))
        .args(["analyze", "--threads", "1", "--parquet"])
        .arg(&dataset)
        .arg(&input)
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn()
        .expect("the program starts");
    let count = || fs::read_dir(&records).map_or(0, Iterator::count);
    while count() < 2 && child.try_wait().expect("a child").is_none() {
        std::thread::yield_now();
    }
    child.kill().expect("killed");
    child.wait().expect("it ends");
    let done = fs::read_dir(&records)
        .expect("records")
        .filter(|entry| entry.as_ref().is_ok_and(|e| !e.file_name().to_string_lossy().starts_with('.')))
        .count();
    assert!((1..40).contains(&done), "killed in the middle: {done} of 40");
    let said = build(&dataset, &input, &[]);
    assert!(said.contains(&format!("{} analyzed", 40 - done)), "{done} were there: {said}");
    assert!(contents(&dataset) == expected, "the same files as without a kill, and no others");

    // Another capture in one place: its series is done again, and nothing else.
    let (one, other) = (input.join("plain-3.pcapng"), input.join("plain-5.pcapng"));
    fs::copy(&other, &one).expect("copied");
    let said = build(&dataset, &input, &[]);
    assert!(said.starts_with("40 series: 1 analyzed (1 flows), 39 unchanged"), "{said}");
    assert_eq!(contents(&dataset).len(), expected.len());
    // The same length and the same bytes at both ends, but changed at another time.
    let file = fs::File::options().append(true).open(&one).expect("a file");
    file.set_modified(SystemTime::UNIX_EPOCH).expect("a time");
    let said = build(&dataset, &input, &[]);
    assert!(said.starts_with("40 series: 1 analyzed"), "{said}");
    // A part that was lost is made again.
    let flows =
        contents(&dataset).into_keys().find(|path| path.starts_with("v1/table=flows")).expect("flows");
    fs::remove_file(dataset.join(flows)).expect("removed");
    assert!(build(&dataset, &input, &[]).starts_with("40 series: 1 analyzed"));
    // Other settings are another analysis.
    assert!(build(&dataset, &input, &["--idle", "30"]).starts_with("40 series: 40 analyzed"));
}

#[test]
fn a_rotated_capture_is_one_series() {
    let folder = tempfile::tempdir().expect("a folder");
    let (input, plain) = (folder.path().join("in"), folder.path().join("plain"));
    captures(&input, 1, 1, RADIO, Some(8_000));
    captures(&plain, 1, 1, RADIO, None);
    assert!(fs::read_dir(&input).expect("a folder").count() > 2);
    let flows = |folder_name: &str, input: &Path| -> Vec<Vec<tables::Value>> {
        let dataset = folder.path().join(folder_name);
        assert!(build(&dataset, input, &[]).starts_with("1 series: 1 analyzed (1 flows)"));
        let parts: Vec<PathBuf> =
            contents(&dataset).into_keys().filter(|path| path.starts_with("v1/table=flows")).collect();
        assert_eq!(parts.len(), 1);
        let reader = TableReader::open(&dataset.join(&parts[0])).expect("a table");
        // From the start on: before it are the names of flow and run. The file has another folder.
        let file = reader.schema().position("file").expect("a column");
        let rows = reader.rows().expect("rows").map(|row| {
            let mut row = row.expect("a row");
            let name = row[file].as_text().expect("a name").to_owned();
            assert!(name.starts_with(&input.file_name().expect("a name").to_string_lossy()[..]), "{name}");
            row.remove(file);
            row.split_off(2)
        });
        rows.collect()
    };
    assert_eq!(flows("a", &input), flows("b", &plain), "files of a rotation are as one file");
}

#[test]
fn a_manifest_says_what_belongs_together() {
    let folder = tempfile::tempdir().expect("a folder");
    let input = folder.path().join("in");
    captures(&input, 3, 1, RADIO, None);
    let (file, dataset) = (folder.path().join("m.json").display().to_string(), folder.path().join("d"));
    let input_text = input.display().to_string();
    let out = analyze(&["--write-manifest", &file, "--env", "lte", &input_text], &[]);
    assert!(out.status.success(), "{}", text(&out.stderr));
    let written = fs::read_to_string(&file).expect("a manifest");
    let document: Value = serde_json::from_str(&written).expect("JSON");
    check_against(&document, include_str!("../../../../schemas/manifest.schema.json"));
    assert_eq!(document["series"][0]["files"][0], "in/plain-1.pcapng", "relative to the manifest");
    // By hand: the first two are one series.
    let mut manifest: Manifest = serde_json::from_str(&written).expect("a manifest");
    let second = manifest.series.remove(1);
    manifest.series[0].files.extend(second.files);
    manifest.series[0].name = "both".to_owned();
    fs::write(&file, serde_json::to_string(&manifest).expect("JSON")).expect("written");
    let out = analyze(&["--manifest", &file, "--parquet", &dataset.display().to_string()], &[]);
    assert!(text(&out.stdout).starts_with("2 series: 2 analyzed (3 flows)"), "{}", text(&out.stderr));
    let files = contents(&dataset);
    assert!(files.keys().any(|path| path.starts_with("v1/table=flows/env=lte/date=2026-01-01")), "{files:?}");
    let record = files.iter().find(|(path, _)| path.starts_with("v1/series")).expect("a record").1;
    let document: Value = serde_json::from_slice(record).expect("JSON");
    check_against(&document, include_str!("../../../../schemas/series.schema.json"));
    let record: Record = serde_json::from_slice(record).expect("a record");
    assert!(record.parts.iter().all(|part| dataset.join(part).is_file()) && !record.parts.is_empty());

    fs::write(&file, "{}").expect("written");
    let out = analyze(&["--manifest", &file, "--parquet", &dataset.display().to_string()], &[]);
    assert!(!out.status.success() && text(&out.stderr).contains("no manifest"), "{}", text(&out.stderr));
}

#[test]
fn a_name_that_another_capture_has_and_a_broken_file_are_said() {
    let folder = tempfile::tempdir().expect("a folder");
    let (first, second) = (folder.path().join("x/in"), folder.path().join("y/in"));
    captures(&first, 1, 1, RADIO, None);
    captures(&second, 1, 1, RADIO, None);
    let dataset = folder.path().join("d");
    build(&dataset, &first, &[]);
    let before = contents(&dataset);
    let [root, other] = [&dataset, &second].map(|path| path.display().to_string());
    let out = analyze(&["--parquet", &root, &other], &[]);
    assert!(!out.status.success(), "{}", text(&out.stdout));
    assert!(text(&out.stderr).contains("another series of this name"), "{}", text(&out.stderr));
    assert!(contents(&dataset) == before, "nothing was overwritten");
    // The others are done although one cannot be read.
    fs::write(first.join("broken.pcap"), "no capture").expect("written");
    let out = analyze(&["--parquet", &root, &first.display().to_string()], &[]);
    assert!(!out.status.success());
    assert!(text(&out.stdout).starts_with("2 series: 0 analyzed (0 flows), 1 unchanged, 1 failed"));
    assert!(text(&out.stderr).contains("broken"), "{}", text(&out.stderr));
}

#[test]
fn the_effect_of_a_change_is_found() {
    let folder = tempfile::tempdir().expect("a folder");
    let sides =
        [("before", RADIO), ("after", "rate = \"8 Mbit/s\", delay = \"5 ms\", queue = \"15 packets\"")];
    let mut args = vec!["--compare".to_owned()];
    for (name, radio) in sides {
        let input = folder.path().join(format!("in-{name}"));
        captures(&input, 12, 1, radio, None);
        build(&folder.path().join(name), &input, &[]);
        args.push(folder.path().join(name).display().to_string());
    }
    let html = folder.path().join("effect.html").display().to_string();
    args.extend(["--samples", "500", "--html", &html].map(str::to_owned));
    let args: Vec<&str> = args.iter().map(String::as_str).collect();
    let out = analyze(&args, &[]);
    let shown = text(&out.stdout);
    assert!(out.status.success(), "{}", text(&out.stderr));
    let row = shown.lines().find(|line| line.contains("RTT, median")).expect("a row");
    assert!(row.trim_end().ends_with("better"), "the delay went down by 15 ms at least: {shown}");
    let json = analyze(&[&args[..], &["--json"]].concat(), &[]);
    let document: Value = serde_json::from_slice(&json.stdout).expect("JSON");
    check_against(&document, include_str!("../../../../schemas/dataset-comparison.schema.json"));
    assert_eq!(document["subscribers_in_both"], 12);
    let rtt = &document["effects"][1];
    assert!(rtt["difference_interval"][1].as_f64().is_some_and(|high| high < -10.0), "{rtt}");
    assert_eq!(json.stdout, analyze(&[&args[..], &["--json"]].concat(), &[]).stdout, "the seed decides");
    let page = fs::read_to_string(&html).expect("a page");
    assert!(page.contains("<svg") && page.contains("RTT, median"));
    let out = analyze(&["--compare", args[1]], &[]);
    assert!(text(&out.stderr).contains("two datasets"), "{}", text(&out.stderr));
    let out = analyze(&["--compare", args[1], &folder.path().display().to_string()], &[]);
    assert!(text(&out.stderr).contains("no dataset"), "{}", text(&out.stderr));
}
