use units::SeqNum;
use wire::TcpHeaderSpec;

use super::*;

fn at(seq: u32) -> SeqNum {
    SeqNum::new(seq)
}

fn spec(ace: u8) -> TcpHeaderSpec {
    let ends = ["10.0.0.1:80".parse().unwrap(), "10.0.0.2:4000".parse().unwrap()];
    TcpHeaderSpec::new(ends[0], ends[1], at(1), at(1), TcpFlags::ACK.with_ace(ace))
}

fn tcp(ace: u8, payload: &[u8]) -> Tcp {
    let mut packet = vec![0; TcpHeaderSpec::MAX_LEN];
    let header = spec(ace).emit(&mut packet, &[payload]).unwrap();
    packet.truncate(header.len);
    packet.extend_from_slice(payload);
    *wire::parse(&packet).unwrap().tcp().unwrap()
}

/// A download whose client has completed the handshake with `ace`. Both hosts count bytes, or none.
fn flow(ace: u8, with_bytes: bool) -> AccurateEcn {
    let mut flow = AccurateEcn::new(End::Sink, &tcp(ace, &[]), at(1), with_bytes);
    let bytes = EcnByteCounters { ect0: Some(1), ce: Some(0), ect1: Some(1) };
    flow.note(End::Sink, &tcp(ace, &[]), Some(bytes).filter(|_| with_bytes), Age::Older);
    assert!(!flow.note(End::Source, &tcp(5, b"data"), None, Age::Newest), "the server has counted none");
    flow
}

fn told(flow: &mut AccurateEcn, host: End, has_bytes: bool) -> u8 {
    let mut spec = spec(0);
    spec.ecn_byte_counters = has_bytes.then_some([1, 0, 1]);
    flow.tell(host, &mut spec, true);
    spec.flags.ace()
}

#[test]
fn counters_begin_with_five_or_with_the_mark_of_the_syn_ack() {
    for (ace, first) in [(2, 5), (3, 5), (4, 5), (5, 5), (6, 6)] {
        assert_eq!(told(&mut flow(ace, false), End::Source, false), first, "RFC 9768 §3.2.2.1, {ace}");
    }
}

#[test]
fn of_many_marks_five_are_told_at_a_time() {
    let mut flow = flow(2, false);
    flow.take(End::Source, 3, 14, 14_000);
    flow.note_data(14, 14_000);
    assert_eq!(flow.to(End::Source).covers(), Some(5_000));
    let mut all = Vec::new();
    while flow.to(End::Source).covers().is_some() {
        flow.to(End::Source).acknowledge(false);
        all.push(told(&mut flow, End::Source, false));
    }
    flow.to(End::Source).acknowledge(true);
    all.push(told(&mut flow, End::Source, false));
    assert_eq!(all, [(5 + 5) % 8, (5 + 10) % 8, (5 + 14) % 8]);
}

#[test]
fn with_bytes_a_number_changes_only_beside_them() {
    let mut flow = flow(2, true);
    flow.take(End::Source, 3, 1, 1_000);
    assert_eq!(told(&mut flow, End::Source, false), 5);
    assert_eq!(
        flow.bytes_beside(true),
        Some([1, 1_000, 1]),
        "also behind a hole, since there is something new"
    );
    assert_eq!(told(&mut flow, End::Source, true), 6);
    assert_eq!(flow.bytes_beside(true), None, "and then SACK blocks have the room");
    // All of it may be covered by one acknowledgement.
    flow.note_data(40, 40_000);
    assert_eq!(flow.to(End::Source).covers(), None);
}

#[test]
fn what_was_told_without_bytes_is_not_told_again_with_them() {
    let mut flow = flow(2, false);
    flow.take(End::Source, 3, 2, 2_000);
    assert_eq!(told(&mut flow, End::Source, false), 7);
    let bytes = EcnByteCounters { ect0: Some(1), ce: Some(0), ect1: Some(1) };
    flow.note(End::Sink, &tcp(5, b"x"), Some(bytes), Age::Newest);
    assert_eq!(flow.bytes_beside(false), Some([1, 0, 1]));
}

#[test]
fn a_mark_that_is_passed_on_is_the_sinks_once_it_counts_it() {
    let mut flow = flow(2, false);
    flow.take(End::Source, 3, 2, 2_000);
    assert!(!flow.has_mark_for_sink(), "the server does not know yet");
    assert_eq!(told(&mut flow, End::Source, false), 7);
    flow.pass_mark_on(at(100));
    flow.pass_mark_on(at(100));
    assert!(!flow.has_mark_for_sink());
    assert!(flow.note(End::Sink, &tcp(7, b"x"), None, Age::Newest));
    assert_eq!(told(&mut flow, End::Source, false), 7, "what the server is told stays");
    assert_eq!((flow.to_source.ace, flow.to_source.taken), (7, 0), "and is the client's own");
    // Copies that the network made are not the server's marks.
    assert!(flow.note(End::Sink, &tcp(0, b"x"), None, Age::Newest));
    assert_eq!((flow.to_source.taken, told(&mut flow, End::Source, false)), (-1, 7));
    flow.take(End::Source, 3, 1, 1_000);
    assert_eq!(told(&mut flow, End::Source, false), 0);
    assert!(!flow.has_mark_for_sink(), "the client has that one already");
}

#[test]
fn a_sink_that_counts_no_marks_is_left_alone() {
    let mut flow = flow(2, false);
    flow.take(End::Source, 3, 1, 1_000);
    told(&mut flow, End::Source, false);
    let mut passed_on = 0;
    while flow.has_mark_for_sink() {
        passed_on += 1;
        flow.pass_mark_on(at(100 * passed_on));
        flow.on_progress(at(100 * passed_on));
        assert!(!flow.has_mark_for_sink(), "it waits for what was sent later");
        flow.on_progress(at(100 * passed_on + 1));
    }
    assert_eq!(passed_on, u32::from(FAILURES_MAX));
    assert_eq!(told(&mut flow, End::Source, false), 6);
}

/// Marks on our own data to the sink, and bytes of it, are not the source's business.
#[test]
fn what_the_sink_counts_of_our_data_is_taken_off() {
    let mut flow = flow(2, false);
    flow.is_sink_ect = true;
    let counters = |ect0, ce| Some(EcnByteCounters { ect0: Some(ect0), ce: Some(ce), ect1: Some(1) });
    // One mark of the source's was taken here. The sink tells of two on our data, with bytes for the first time.
    flow.take(End::Source, 3, 1, 1_000);
    assert_eq!(told(&mut flow, End::Source, false), 6);
    assert!(flow.note(End::Sink, &tcp(7, &[]), counters(5_001, 2_000), Age::Newest));
    assert_eq!((flow.take_sink_marks(), flow.take_sink_marks()), (2, 0));
    assert_eq!(told(&mut flow, End::Source, true), 6);
    assert_eq!(flow.bytes_beside(false), Some([1, 0, 1]), "what was told without bytes is told");
    // Of four more one reached us marked, in a packet that went on.
    flow.note_other(3);
    assert!(flow.note(End::Sink, &tcp(3, &[]), counters(9_001, 5_000), Age::Newest));
    assert_eq!(flow.take_sink_marks(), 3);
    assert_eq!(told(&mut flow, End::Source, true), 7);
    assert_eq!(flow.bytes_beside(false), Some([1, 0, 1]));
    assert!(!flow.has_mark_for_sink(), "it has counted more than enough");
}

#[test]
fn a_successor_tells_the_same() {
    let mut flow = flow(6, true);
    flow.take(End::Source, 3, 1, 1_000);
    flow.take(End::Sink, 3, 2, 0);
    for host in [End::Source, End::Sink] {
        let ace = told(&mut flow, host, true);
        let mut successor = AccurateEcn::of_word(flow.word(), at(1));
        assert_eq!(told(&mut successor, host, false), ace);
        assert!(flow.word() < 1 << 12);
        // What bytes were counted is not known, and none are told.
        let bytes = EcnByteCounters { ect0: Some(9), ce: Some(9), ect1: Some(9) };
        successor.note(host.opposite(), &tcp(ace, b"x"), Some(bytes), Age::Newest);
        assert_eq!((successor.bytes_beside(false), successor.bytes_for_sink()), (None, None));
    }
}

/// Of packets with the same acknowledgement and time nobody knows which was sent first, but by their counters.
#[test]
fn of_packets_that_say_nothing_else_the_one_that_is_ahead_counts() {
    let mut flow = flow(2, false);
    assert!(flow.note(End::Source, &tcp(6, &[]), None, Age::AsNew));
    assert_eq!(told(&mut flow, End::Sink, false), 6);
    assert!(!flow.note(End::Source, &tcp(5, &[]), None, Age::AsNew), "it came late");
    assert!(!flow.note(End::Source, &tcp(7, &[]), None, Age::Older));
    assert_eq!(told(&mut flow, End::Sink, false), 6);
}
