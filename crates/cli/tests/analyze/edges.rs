//! Series, shards and folders as they should not be: one clear line each, and nothing half left.

use std::fs;
use std::io::Write as _;
use std::path::Path;
use std::process::Command;
use std::sync::atomic::{AtomicBool, Ordering};

use super::{analyze, capture, text};
use crate::analyze::many::{RADIO, build, captures, contents};

/// Runs it on `input`; gives standard output and error.
fn run(dataset: &Path, input: &Path, more: &[&str]) -> (bool, String, String) {
    let [dataset, input] = [dataset, input].map(|path| path.display().to_string());
    let out = analyze(&[&["--parquet", &dataset, &input], more].concat(), &[]);
    (out.status.success(), text(&out.stdout), text(&out.stderr))
}

/// The lines of a failure.
fn complaints(stderr: &str) -> Vec<&str> {
    stderr.lines().filter(|line| line.starts_with("cellerator: ") || line.starts_with("error: ")).collect()
}

/// A pcap file of Ethernet with one packet at a time in seconds that is no TCP.
fn arp(second: u32) -> Vec<u8> {
    let words = [0xa1b2_c3d4, 0x0004_0002, 0, 0, 65_535, 1, second, 0, 42, 42_u32];
    let mut bytes: Vec<u8> = words.iter().flat_map(|word| word.to_le_bytes()).collect();
    bytes.extend([0xff; 6].iter().chain(&[0; 6]).chain(&[0x08, 0x06]).chain(&[0; 28]));
    bytes
}

#[test]
fn nothing_to_do_is_said_and_leaves_no_dataset() {
    let folder = tempfile::tempdir().expect("a folder");
    let (dataset, input) = (folder.path().join("d"), folder.path().join("in"));
    fs::create_dir_all(input.join("below")).expect("a folder");
    fs::write(input.join("below/notes.txt"), "no capture").expect("written");
    let (success, _, said) = run(&dataset, &input, &[]);
    assert!(
        !success && complaints(&said).len() == 1 && said.contains("no captures in this folder"),
        "{said}"
    );
    captures(&input, 1, 1, RADIO, None);
    for wrong in ["0/1", "5/3", "0/0", "1", "-1/2"] {
        let (success, _, said) = run(&dataset, &input, &[&format!("--shard={wrong}")]);
        assert!(!success && complaints(&said).len() == 1 && said.contains("is no shard"), "{wrong}: {said}");
    }
    assert!(!dataset.exists());
    // A job of an array with more jobs than series has nothing to do: no failure.
    let (success, said, _) = run(&dataset, &input, &["--shard", "2/2"]);
    assert!(success && said.starts_with("0 of 1 series: 0 analyzed"), "{said}");
}

#[test]
fn a_damaged_file_of_a_series_is_named() {
    let folder = tempfile::tempdir().expect("a folder");
    let input = folder.path().join("in");
    captures(&input, 1, 1, RADIO, Some(5_000));
    let files = fs::read_dir(&input).expect("a folder").count();
    assert!(files >= 3, "{files}");
    let file = input.join("plain-1.pcapng1");
    let whole = fs::read(&file).expect("readable");

    // It ends in a packet: the rest is analyzed, and that is said.
    fs::write(&file, &whole[..whole.len() - 7]).expect("written");
    let cut = folder.path().join("cut");
    let (success, said, wrong) = run(&cut, &input, &[]);
    assert!(
        success && said.starts_with("1 series: 1 analyzed (1 flows), 0 unchanged, 0 failed"),
        "{said}{wrong}"
    );
    let lines = complaints(&wrong);
    assert!(lines.len() == 1 && lines[0].contains("in/plain-1.pcapng1: "), "{wrong}");

    // It has nothing yet: left out.
    fs::write(&file, "").expect("written");
    let (success, _, wrong) = run(&cut, &input, &[]);
    let lines = complaints(&wrong);
    assert!(success && lines.len() == 1 && lines[0].ends_with("pcapng1: empty, and left out"), "{wrong}");

    // It is none: the series fails, and has no row anywhere.
    fs::write(&file, "no capture").expect("written");
    let none = folder.path().join("none");
    let (success, said, wrong) = run(&none, &input, &[]);
    assert!(!success && said.starts_with("1 series: 0 analyzed (0 flows), 0 unchanged, 1 failed"), "{said}");
    let lines = complaints(&wrong);
    assert!(lines.len() == 1 && lines[0].contains("plain-1.pcapng1: not a capture"), "{wrong}");
    assert!(!none.join("v1").exists() || contents(&none).is_empty());
    // What was there before stays as it was.
    let before = contents(&cut);
    assert!(!run(&cut, &input, &[]).0);
    assert!(contents(&cut) == before);

    // Whole again, it is as if nothing had been.
    fs::write(&file, &whole).expect("written");
    build(&cut, &input, &[]);
    let fresh = folder.path().join("fresh");
    build(&fresh, &input, &[]);
    assert!(tables(&cut) == tables(&fresh));
}

/// Without records, which have the times of files.
fn tables(dataset: &Path) -> Vec<(std::path::PathBuf, Vec<u8>)> {
    contents(dataset).into_iter().filter(|(path, _)| !path.starts_with("v1/series")).collect()
}

#[test]
fn a_file_that_grows_is_done_again() {
    let folder = tempfile::tempdir().expect("a folder");
    let (input, dataset) = (folder.path().join("in"), folder.path().join("d"));
    fs::create_dir_all(&input).expect("a folder");
    let file = input.join("eth0.pcap");
    let first = capture();
    fs::write(&file, &first).expect("written");
    let packets = &first[24..];
    let is_over = AtomicBool::new(false);
    std::thread::scope(|scope| {
        scope.spawn(|| {
            let mut out = fs::File::options().append(true).open(&file).expect("a file");
            // In pieces that are no packets, and not without end.
            for piece in packets.chunks(33).cycle().take(20_000) {
                out.write_all(piece).expect("written");
                if is_over.load(Ordering::Relaxed) {
                    break;
                }
                std::thread::yield_now();
            }
        });
        for _ in 0..3 {
            let (success, said, wrong) = run(&dataset, &input, &[]);
            assert!(success && said.contains(" 0 failed"), "{said}{wrong}");
        }
        is_over.store(true, Ordering::Relaxed);
    });
    let mut out = fs::File::options().append(true).open(&file).expect("a file");
    out.write_all(packets).expect("written");
    drop(out);
    let said = build(&dataset, &input, &[]);
    assert!(said.starts_with("1 series: 1 analyzed"), "it has grown since: {said}");
    let fresh = folder.path().join("fresh");
    build(&fresh, &input, &[]);
    assert!(contents(&dataset) == contents(&fresh), "the same as of the whole file");
    assert!(build(&dataset, &input, &[]).starts_with("1 series: 0 analyzed (0 flows), 1 unchanged"));
}

#[test]
fn hosts_in_one_folder_stay_apart_and_names_say_nothing_of_time() {
    let folder = tempfile::tempdir().expect("a folder");
    let (rotated, input) = (folder.path().join("rotated"), folder.path().join("in"));
    captures(&rotated, 2, 1, RADIO, Some(5_000));
    fs::create_dir_all(&input).expect("a folder");
    // As of `tcpdump -G`, with clocks that stepped back: the order of names is that of time turned round.
    for host in [1, 2] {
        let mut files: Vec<_> = fs::read_dir(&rotated)
            .expect("a folder")
            .map(|entry| entry.expect("an entry").path())
            .filter(|path| path.to_string_lossy().contains(&format!("plain-{host}.pcapng")))
            .collect();
        files.sort();
        assert!(files.len() >= 3, "{files:?}");
        for (number, file) in files.iter().enumerate() {
            let name = format!("host{host}-2026-11-24_10:{:02}:00.pcapng", 50 - number);
            fs::copy(file, input.join(name)).expect("copied");
        }
    }
    let (dataset, same) = (folder.path().join("d"), folder.path().join("same"));
    let said = build(&dataset, &input, &[]);
    assert!(said.starts_with("2 series: 2 analyzed (2 flows)"), "{said}");
    build(&same, &rotated, &[]);
    // The rows of flows, but for the names of runs and files.
    let rows = |dataset: &Path| {
        let mut rows: Vec<String> = contents(dataset)
            .into_keys()
            .filter(|path| path.starts_with("v1/table=flows"))
            .flat_map(|path| {
                let reader = ::tables::TableReader::open(&dataset.join(path)).expect("a table");
                let file = reader
                    .schema()
                    .columns
                    .iter()
                    .position(|column| column.name == "file")
                    .expect("a column");
                let rows = reader.rows().expect("rows").map(|row| {
                    let mut row = row.expect("a row");
                    row.remove(file);
                    row.split_off(2)
                });
                rows.map(|row| format!("{row:?}")).collect::<Vec<_>>()
            })
            .collect();
        rows.sort();
        rows
    };
    assert_eq!(rows(&dataset), rows(&same), "by the times of their packets");
}

#[test]
fn captures_without_flows_are_a_dataset_without_flows() {
    let folder = tempfile::tempdir().expect("a folder");
    let (dataset, input) = (folder.path().join("d"), folder.path().join("in"));
    fs::create_dir_all(&input).expect("a folder");
    fs::write(input.join("arp.pcap"), arp(1_700_000_000)).expect("written");
    fs::write(input.join("none.pcap"), &arp(0)[..24]).expect("written");
    assert!(
        build(&dataset, &input, &[]).starts_with("2 series: 2 analyzed (0 flows), 0 unchanged, 0 failed")
    );
    assert!(build(&dataset, &input, &[]).starts_with("2 series: 0 analyzed (0 flows), 2 unchanged"));
    let root = dataset.display().to_string();
    let out = analyze(&["--compare", &root, &root], &[]);
    let said = text(&out.stderr);
    assert!(
        !out.status.success() && complaints(&said).len() == 1 && said.contains("no dataset with flows"),
        "{said}"
    );
}

#[test]
fn a_thousand_files_need_no_thousand_descriptors() {
    let folder = tempfile::tempdir().expect("a folder");
    let (dataset, input) = (folder.path().join("d"), folder.path().join("in"));
    fs::create_dir_all(&input).expect("a folder");
    for number in 0..1_000_u32 {
        fs::write(input.join(format!("ring.pcap{}", number * 7 % 1_000)), arp(1_700_000_000 + number))
            .expect("written");
        fs::write(input.join(format!("host{number}.pcap")), arp(1_700_000_000)).expect("written");
    }
    let script = "ulimit -n 64; exec \"$0\" analyze --parquet \"$1\" \"$2\"";
    let mut command = Command::new("sh");
    command.args(["-c", script, env!("CARGO_BIN_EXE_cellerator")]).arg(&dataset).arg(&input);
    let out = command.output().expect("sh runs");
    let said = text(&out.stdout);
    assert!(said.starts_with("1001 series: 1001 analyzed (0 flows)"), "{said}{}", text(&out.stderr));
    assert!(build(&dataset, &input, &[]).starts_with("1001 series: 0 analyzed (0 flows), 1001 unchanged"));
}

#[test]
fn a_full_disk_is_said_once_and_leaves_whole_series_only() {
    let folder = tempfile::tempdir().expect("a folder");
    let (input, disk) = (folder.path().join("in"), folder.path().join("disk"));
    captures(&input, 30, 1, RADIO, None);
    let expected = folder.path().join("expected");
    build(&expected, &input, &["--threads", "2"]);
    let expected = contents(&expected);
    let bytes: usize = expected.values().map(Vec::len).sum();
    fs::create_dir_all(&disk).expect("a folder");
    // In a namespace of mounts of its own: a disk with room for a third, then for all.
    let script = "mount -t tmpfs -o size=$3 tmpfs \"$1\" || exit 99
        \"$0\" analyze --parquet \"$1/d\" --threads 2 \"$2\" && exit 98
        cp -r \"$1\" \"$4\" || exit 97
        mount -o remount,size=100m \"$1\" || exit 96
        \"$0\" analyze --parquet \"$1/d\" \"$2\" && cp -r \"$1\" \"$5\"";
    let [before, after] = ["before", "after"].map(|name| folder.path().join(name));
    let mut command = Command::new("unshare");
    command.args(["--mount", "sh", "-c", script, env!("CARGO_BIN_EXE_cellerator")]).args([&disk, &input]);
    let out = command.arg((bytes / 3).to_string()).args([&before, &after]).output().expect("unshare runs");
    let wrong = text(&out.stderr);
    assert!(out.status.success(), "{}: {wrong}", out.status);
    let lines = complaints(&wrong);
    assert!(lines.len() == 1 && lines[0].contains("No space left"), "{wrong}");
    let found = contents(&before.join("d"));
    let records = found.keys().filter(|path| path.starts_with("v1/series")).count();
    assert!(
        lines[0].ends_with(&format!("{records} of 30 series are done, and are not done again")),
        "{wrong}"
    );
    assert!((1..30).contains(&records), "{records}");
    for (path, bytes) in &found {
        assert!(expected.get(path) == Some(bytes), "{} is no whole file of the dataset", path.display());
    }
    // Every table has the series that have records, and no other.
    for table in ["captures", "flows", "samples"] {
        let parts = found.keys().filter(|path| path.starts_with(format!("v1/table={table}"))).count();
        assert_eq!(parts, records, "{table}");
    }
    let said = text(&out.stdout);
    assert!(said.contains(&format!("30 series: {} analyzed", 30 - records)), "{said}");
    assert!(contents(&after.join("d")) == expected, "as if there had been room");
}

#[test]
fn what_a_killed_program_published_of_a_series_goes_with_the_next() {
    let folder = tempfile::tempdir().expect("a folder");
    let (input, dataset) = (folder.path().join("in"), folder.path().join("d"));
    captures(&input, 1, 1, RADIO, None);
    build(&dataset, &input, &[]);
    let expected = contents(&dataset);
    // A kill between the names of parts and the record, and a capture of another day since.
    let flows = expected.keys().find(|path| path.starts_with("v1/table=flows")).expect("flows");
    let other = Path::new("v1/table=flows/env=none/date=2020-01-01").join(flows.file_name().expect("a name"));
    fs::create_dir_all(dataset.join(&other).parent().expect("a folder")).expect("made");
    fs::copy(dataset.join(flows), dataset.join(&other)).expect("copied");
    let unfinished =
        dataset.join(flows.parent().expect("a folder")).join(".part-x.parquet.host.1-1.unfinished");
    fs::write(&unfinished, "of another machine").expect("written");
    let records = dataset.join("v1/series");
    fs::remove_dir_all(&records).expect("removed");
    build(&dataset, &input, &[]);
    fs::remove_file(&unfinished).expect("another machine's is left alone");
    assert!(contents(&dataset) == expected, "other files than without a kill");
}
