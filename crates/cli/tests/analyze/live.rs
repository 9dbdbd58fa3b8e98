//! `cellerator capture` in a network namespace of its own.

use std::process::Command;

use capture::Reader;

use super::text;

#[test]
fn packets_of_an_interface_go_into_a_file() {
    let folder = tempfile::tempdir().expect("a folder");
    let file = folder.path().join("live.pcapng");
    // Two echo requests and their answers; the capture starts first and ends with the fourth packet.
    let script = format!(
        "ip link set lo up; (for i in 1 2 3 4 5 6 7 8; do ping -c 1 -W 1 127.0.0.1 >/dev/null; sleep 0.2; \
         done) & exec {} capture lo --packets 4 --seconds 20 --snaplen 60 --analyze --write {}",
        env!("CARGO_BIN_EXE_cellerator"),
        file.display()
    );
    let out = Command::new("unshare").args(["--net", "sh", "-c", &script]).output().expect("unshare runs");
    assert!(out.status.success(), "{}", text(&out.stderr));
    assert!(text(&out.stderr).contains("4 packets of lo, 0 dropped"), "{}", text(&out.stderr));
    assert!(text(&out.stdout).contains("4 packets, 0 of TCP"), "{}", text(&out.stdout));
    let bytes = std::fs::read(file).expect("a file");
    let mut reader = Reader::new(&bytes[..]).expect("a capture");
    let mut lengths = Vec::new();
    while reader.advance().expect("whole") {
        let record = reader.current().expect("a packet");
        lengths.push((record.bytes.len(), record.wire_len));
    }
    assert_eq!(lengths, [(60, 98); 4]);
    assert_eq!(reader.health().dropped, Some(0));
}
