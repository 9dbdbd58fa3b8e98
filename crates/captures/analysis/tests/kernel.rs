//! A kernel that sends without SACK: why it sent again is found as it counted itself.

use crate::made::Kept;
use analysis::{Analyzer, Config, Direction};
use capture::{Reader, decode, decompressed};

/// A counter of the kernel.
fn counted(name: &str) -> u64 {
    let counters = include_str!("captures/without-sack.toml");
    let line = counters.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(" = "));
    line.unwrap().parse().unwrap()
}

#[test]
fn kinds_without_sack_are_those_of_the_kernel() {
    let file = &include_bytes!("captures/without-sack.pcapng.gz")[..];
    let mut reader = Reader::new(decompressed(file).unwrap()).unwrap();
    let mut analyzer = Analyzer::new(Config::default(), Kept::default());
    while reader.advance().unwrap() {
        let record = reader.current().unwrap();
        let segment = decode(record.link, record.bytes, record.wire_len).unwrap();
        analyzer.handle_segment(0, &segment, record.time);
    }
    let kept = analyzer.finish();
    assert_eq!(kept.flows.len(), 1);
    let flow = &kept.flows[0];
    let way = &flow.directions[flow.client.map(Direction::reverse).unwrap()];
    assert_eq!(flow.directions[Direction::FromFirst].acks.sack_packets, 0, "no SACK at all");
    let found = way.retransmissions;
    assert_eq!(found.data_packets + found.syn + found.fin, counted("RetransSegs"));
    assert_eq!(found.fast, Some(counted("TCPFastRetrans")));
    assert_eq!(found.rto, Some(counted("TCPTimeouts")));
    assert_eq!(found.rto_recovery, Some(counted("TCPSlowStartRetrans")));
    assert_eq!((found.tlp, found.unclear), (Some(0), Some(0)));
    // A recovery entered by duplicate acknowledgements is one reduction of the window.
    assert_eq!(way.sender.window_reductions.unwrap().fast, counted("TCPRenoRecovery"));
}
