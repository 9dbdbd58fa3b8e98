use probe::{SmallTcpLog, TcpOption, options_bytes};
use units::SeqNum;
use wire::TcpHeaderSpec;

use super::*;
use crate::seen::Watch;

const DELAY: Duration = Duration::from_millis(5_000);

/// A SYN or SYN/ACK from its IP header on.
fn syn(isn: u32, flags: TcpFlags, options: &[(u8, &[u8])]) -> Vec<u8> {
    let options: Vec<TcpOption> =
        options.iter().map(|(kind, body)| TcpOption { kind: *kind, body: body.to_vec() }).collect();
    let options = options_bytes(&options);
    let ends = ["192.0.2.2:40000", "198.51.100.1:80"].map(|end| end.parse().unwrap());
    let spec = TcpHeaderSpec::new(ends[0], ends[1], SeqNum::new(isn), SeqNum::new(0), flags);
    let mut out = vec![0; TcpHeaderSpec::MAX_LEN];
    let header = spec.emit(&mut out, &[&options]).unwrap();
    out.truncate(header.len);
    out.extend(&options);
    out[32] = (((20 + options.len()) / 4) << 4) as u8 | (out[32] & 15);
    out
}

const ALL: [(u8, &[u8]); 4] = [(2, &[5, 0xb4]), (4, &[]), (8, &[0; 8]), (3, &[7])];

fn seen(syn: &[u8]) -> Seen {
    Seen {
        port: 80,
        from: "192.0.2.2:40000".to_owned(),
        syn: Some(to_digits(syn)),
        syn_ack: None,
        request: "GET".to_owned(),
        handshake_ms: Some(20.0),
        waited_ms: None,
        offered_mss: 1_460,
        shift: Some(7),
        has_sack: true,
        has_timestamps: true,
        has_ecn: false,
        has_seen_ecn: false,
        watch: None,
    }
}

fn flow(kind: Kind, run: u32, sent: Vec<u8>) -> RawFlow {
    let answer = (head(run, 1) + &text(run, 1)).into_bytes();
    RawFlow {
        port: 80,
        run,
        kind,
        request: b"GET".to_vec(),
        local: "192.0.2.2:40000".parse().unwrap(),
        end: Some(SmallTcpEnd::Finished),
        log: SmallTcpLog {
            syn: sent,
            syns: 1,
            syn_ack: Some(syn(9, TcpFlags::SYN.with(TcpFlags::ACK), &ALL)),
            received: answer.len() as u64,
            answer,
            data_hop_limits: vec![64],
            ..SmallTcpLog::default()
        },
    }
}

/// Finding about one connection, whose SYN came as `came`.
fn judged(kind: Kind, sent: &[u8], came: Seen, test: &str) -> (CheckOutcome, String) {
    let mut all = Evidence { delay: DELAY, ..Evidence::new() };
    all.raw.push(flow(kind, 1, sent.to_vec()));
    all.seen.insert(1, vec![came]);
    let found = all.findings().into_iter().find(|finding| finding.test == test).unwrap();
    (found.outcome, found.verdict)
}

fn words(outcome: CheckOutcome, verdict: &str) -> (CheckOutcome, String) {
    (outcome, verdict.to_owned())
}

#[test]
fn what_is_acknowledged_before_the_delay_is_split() {
    let of = |pieces: &[(f64, Option<f64>)], seconds: f64| {
        let watch = Watch { seconds, written: 100, pieces: pieces.to_vec(), ..Watch::default() };
        let sent = syn(1, TcpFlags::SYN, &ALL);
        judged(Kind::Split, &sent, Seen { watch: Some(watch), ..seen(&sent) }, "split")
    };
    let split = words(CheckOutcome::Found, "split");
    let whole = words(CheckOutcome::Clear, "not split");
    assert_eq!(of(&[(0.0, Some(5_021.0)), (100.0, None)], 5.1), whole);
    assert_eq!(of(&[(0.0, None), (100.0, Some(4_000.0))], 6.0), split, "the first was lost on the way");
    assert_eq!(of(&[(0.0, None)], 9.0), whole, "the acknowledgement was lost, and none was early");
    assert_eq!(of(&[(0.0, None)], 3.0).0, CheckOutcome::Unknown, "it ended too early");
}

#[test]
fn what_is_acknowledged_and_has_not_come_is_split_too() {
    let of = |acked: u64, received: Result<u64, Failed>| {
        let mut all = Evidence { delay: DELAY, ..Evidence::new() };
        let watch = Watch { acked, ..Watch::default() };
        all.filled.push(Filled { port: 80, run: 1, received });
        all.gets.push(Get { port: 80, run: 2, request: Vec::new(), outcome: Err(Failed::Stopped) });
        all.seen.insert(1, vec![Seen { watch: Some(watch), ..seen(&syn(1, TcpFlags::SYN, &ALL)) }]);
        let found = all.findings().into_iter().find(|finding| finding.test == "split").unwrap();
        found.outcome
    };
    assert_eq!(of(90_000, Ok(2_304)), CheckOutcome::Found);
    assert_eq!(of(2_304, Ok(2_304)), CheckOutcome::Clear);
    assert_eq!(of(2_304, Err(Failed::Stopped)), CheckOutcome::Unknown);
}

#[test]
fn options_and_numbers_are_compared() {
    let sent = syn(1, TcpFlags::SYN, &ALL);
    let of = |came: &[u8], test: &str| judged(Kind::Plain, &sent, seen(came), test);
    for test in ["mss", "window-scale", "sack", "timestamps", "sequence-numbers"] {
        assert_eq!(of(&sent, test).0, CheckOutcome::Clear, "{test}");
    }
    let clamped = syn(77, TcpFlags::SYN, &[(2, &[5, 0]), (8, &[0; 8])]);
    assert_eq!(of(&clamped, "mss"), words(CheckOutcome::Found, "1460 becomes 1280"));
    assert_eq!(of(&clamped, "window-scale"), words(CheckOutcome::Found, "removed"));
    assert_eq!(of(&clamped, "sack"), words(CheckOutcome::Found, "removed"));
    assert_eq!(of(&clamped, "timestamps").0, CheckOutcome::Clear);
    assert_eq!(of(&clamped, "sequence-numbers"), words(CheckOutcome::Found, "rewritten"));
    // What the server sent, and this end did not get.
    let back = Seen { syn_ack: Some(to_digits(&syn(8, TcpFlags::SYN, &ALL[..3]))), ..seen(&sent) };
    assert_eq!(judged(Kind::Plain, &sent, back.clone(), "window-scale"), words(CheckOutcome::Found, "added"));
    assert_eq!(judged(Kind::Plain, &sent, back, "sequence-numbers"), words(CheckOutcome::Found, "rewritten"));
    let with = syn(1, TcpFlags::SYN, &[&ALL[..], &[(30, &[1, 1])]].concat());
    let of = |came: &[u8]| judged(Kind::MpCapable, &with, seen(came), "mp-capable");
    assert_eq!(of(&with), words(CheckOutcome::Clear, "kept"));
    assert_eq!(of(&sent), words(CheckOutcome::Found, "removed"));
    assert_eq!(of(&syn(1, TcpFlags::SYN, &[(30, &[0, 1])])), words(CheckOutcome::Found, "altered"));
}

#[test]
fn flags_and_marks_of_ecn_are_compared() {
    let ecn = TcpFlags::SYN.with(TcpFlags::ECE).with(TcpFlags::CWR);
    let (sent, bare) = (syn(1, ecn, &ALL), syn(1, TcpFlags::SYN, &ALL));
    let of = |came: Seen| judged(Kind::Ecn, &sent, came, "ecn");
    assert_eq!(of(seen(&sent)), words(CheckOutcome::Clear, "kept"));
    assert_eq!(of(seen(&bare)), words(CheckOutcome::Found, "flags of the SYN are altered"));
    assert_eq!(
        of(Seen { has_ecn: true, ..seen(&sent) }),
        words(CheckOutcome::Found, "marks of packets are removed")
    );
    assert_eq!(of(Seen { has_ecn: true, has_seen_ecn: true, ..seen(&sent) }).0, CheckOutcome::Clear);
}

#[test]
fn a_connection_that_fails_with_an_option_only_is_found() {
    let sent = syn(1, TcpFlags::SYN, &ALL);
    let of = |plain: SmallTcpEnd| {
        let mut all = Evidence::new();
        all.raw.push(RawFlow { end: Some(plain), ..flow(Kind::Plain, 1, sent.clone()) });
        all.raw
            .push(RawFlow { end: Some(SmallTcpEnd::NoHandshake), ..flow(Kind::FastOpen, 2, sent.clone()) });
        all.findings().into_iter().find(|finding| finding.test == "fast-open").map(|finding| finding.outcome)
    };
    assert_eq!(of(SmallTcpEnd::Finished), Some(CheckOutcome::Found));
    // Where no connection comes about the port is blocked, and its options say nothing.
    assert_eq!(of(SmallTcpEnd::NoHandshake), None);
}

fn got(run: u32, count: usize, handshake_ms: u64, answered_ms: u64) -> Get {
    let answered = Answered {
        local: "192.0.2.2:40000".parse().unwrap(),
        handshake: Duration::from_millis(handshake_ms),
        answered: Duration::from_millis(answered_ms),
        answer: (head(run, count) + &text(run, count)).into_bytes(),
        info: io::TcpInfo::default(),
    };
    Get { port: 80, run, request: b"GET".to_vec(), outcome: Ok(answered) }
}

#[test]
fn caches_near_handshakes_and_altered_texts_are_found() {
    let judge = |gets: Vec<Get>, reached: usize, test: &str| {
        let mut all = Evidence::new();
        all.gets = gets;
        all.seen.insert(1, vec![seen(&syn(1, TcpFlags::SYN, &ALL)); reached]);
        let found = all.findings().into_iter().find(|finding| finding.test == test).unwrap();
        (found.outcome, found.evidence)
    };
    let twice = || vec![got(1, 1, 20, 21), got(1, 2, 20, 22)];
    assert_eq!(judge(twice(), 2, "cache").0, CheckOutcome::Clear);
    assert_eq!(judge(vec![got(1, 1, 20, 21); 2], 1, "cache").0, CheckOutcome::Found);
    assert_eq!(judge(twice(), 2, "handshake").0, CheckOutcome::Clear);
    assert_eq!(judge(vec![got(1, 1, 20, 90)], 1, "handshake").0, CheckOutcome::Found);
    let late = || got(1, 1, 20, 90);
    assert_eq!(judge(vec![late(), got(1, 2, 20, 22)], 2, "handshake").0, CheckOutcome::Clear, "once late");
    assert_eq!(judge(vec![late(), got(1, 1, 20, 5)], 1, "handshake").0, CheckOutcome::Found, "from a cache");
    let of_busy_server = |waited_ms: f64| {
        let mut all = Evidence::new();
        all.gets = vec![got(1, 1, 20, 90)];
        all.seen.insert(1, vec![Seen { waited_ms: Some(waited_ms), ..seen(&syn(1, TcpFlags::SYN, &ALL)) }]);
        let found = all.findings().into_iter().find(|finding| finding.test == "handshake").unwrap();
        (found.outcome, found.evidence)
    };
    let evidence = "the handshake takes 20.0 ms, an answer 22.0 ms without the server's own time".to_owned();
    assert_eq!(of_busy_server(68.0), (CheckOutcome::Clear, evidence));
    assert_eq!(of_busy_server(8.0).0, CheckOutcome::Found, "its program took only a part of that");
    assert_eq!(judge(twice(), 2, "payload").0, CheckOutcome::Clear);
    let mut altered = got(1, 1, 20, 21);
    if let Ok(answered) = &mut altered.outcome {
        answered.answer = head(1, 1).replace("text/plain", "text/html").into_bytes();
    }
    let (outcome, evidence) = judge(vec![altered], 1, "payload");
    assert_eq!(outcome, CheckOutcome::Found);
    assert!(evidence.starts_with("line 2: 'Content-Type: text/plain' was sent"), "{evidence}");
}

#[test]
fn who_answers_where_nobody_listens_is_found() {
    let mut all = Evidence::new();
    all.closed = BTreeMap::from([(1, "refused"), (2, "free"), (3, "free")]);
    all.refused = vec![(1, Err(Failed::Refused)), (2, Ok(())), (3, Err(Failed::Silent))];
    let outcomes: Vec<CheckOutcome> = all.findings().iter().map(|finding| finding.outcome).collect();
    assert_eq!(outcomes, [CheckOutcome::Clear, CheckOutcome::Found, CheckOutcome::Unknown]);
}
