//! Data that a process leaves for the one after it, and what two machines keep of each other: journals,
//! records, lists of what is kept, notes of hand-overs, states.

use engine::{
    Engine, EngineConfig, FlowEnds, FlowRecord, HandoverFlow, ImageError, JournalEntry, Middlebox, Port,
    RECORD_WORDS,
};
use handover::{ForwardingTable, Note, ownership_of};
use io::TcpImage;
use run::{Offer, Question, outside};
use units::{Duration, Instant, SeqNum};

/// Bytes of a slot in a journal.
const SLOT_LEN: usize = 512;
/// The boot of notes.
const BOOT: &str = "fuzz";
/// Packets at one point of time at most.
const BURST_MAX: usize = 4_096;

/// A journal's file: flows are read of whole slots only, and the one that was being handled is one of them.
pub fn journal(bytes: &[u8]) {
    let Some((flows, in_hand)) = outside::journal(bytes) else { return };
    assert!(flows.len() <= bytes.len() / SLOT_LEN, "{} flows in {} bytes", flows.len(), bytes.len());
    if let Some(ends) = in_hand {
        assert!(flows.iter().any(|(flow, ..)| *flow == ends), "a flow in hand that is not there");
    }
    for (_, record, _) in &flows {
        assert!(FlowRecord::of_words(&record.words()) == Some(*record), "written and read");
    }
}

/// An instance's record: what is read is written again the same.
pub fn record(bytes: &[u8]) {
    let Ok(text) = core::str::from_utf8(bytes) else { return };
    if let Some(written) = outside::record(text) {
        assert_eq!(outside::record(&written), Some(written.clone()), "written and read");
    }
}

/// The list of what a watchdog keeps: what is read is written again the same, and is refused in one line where
/// descriptors are missing.
pub fn inventory(bytes: &[u8]) {
    let refused = outside::kept(bytes);
    if let Some(why) = &refused {
        assert!(!why.contains('\n'), "an error is one line: {why}");
    }
    match outside::inventory(bytes) {
        Ok((written, count)) => {
            assert_eq!(outside::inventory(&written), Ok((written.clone(), count)), "written and read");
            assert_eq!(refused.is_none(), count == 0, "{count} descriptors of which none came: {refused:?}");
        }
        Err(_) => assert!(refused.is_some(), "what cannot be read is taken"),
    }
}

/// Offer of a new instance: what is read is written again the same, and each objection is one line.
pub fn offer(bytes: &[u8]) {
    let Ok(offer) = serde_json::from_slice::<Offer>(bytes) else { return };
    let written = serde_json::to_vec(&offer).expect("it has a JSON form");
    assert_eq!(serde_json::from_slice::<Offer>(&written).ok(), Some(offer.clone()), "written and read");
    let objections = outside::objections(&offer);
    assert!(!objections.is_empty(), "nobody objects, though one shares nothing and one has no room");
    assert!(objections.iter().all(|why| !why.contains('\n')), "{objections:?}");
    let question = serde_json::to_string(&Question::Upgrade(offer.clone())).expect("a JSON form");
    assert!(!question.contains('\n'), "a question is one line");
}

/// A line at the control socket: what is read is written again the same, in one line, and what is not understood is
/// refused in one line.
pub fn question(bytes: &[u8]) {
    let Ok(line) = core::str::from_utf8(bytes) else { return };
    match outside::question(line) {
        Ok(question) => {
            let written = serde_json::to_string(&question).expect("it has a JSON form");
            assert!(!written.contains('\n'), "a question is one line: {written}");
            assert_eq!(outside::question(&written), Ok(question), "written and read");
        }
        Err(why) => assert!(!why.contains(char::is_control), "an error is one line: {why}"),
    }
}

/// A note of a hand-over, alone and behind the head of its file: what is read is written again the same, in pieces
/// too; packets are led, and flows of a journal decided, by whatever it says.
pub fn note(bytes: &[u8]) {
    if let Some((peers, mut note)) = outside::note(bytes, BOOT) {
        // As the ledger does, with peers that may not be there.
        note.peers_mut().for_each(|peer| *peer = (usize::from(*peer) < peers.len()).into());
        led(&note);
    }
    let Ok(note) = Note::decode(bytes) else { return };
    let written = note.encode();
    assert_eq!(Note::decode(&written).as_ref(), Ok(&note), "written and read");
    // What an older program has written is written as of this version.
    let is_of_this_version = written.get(..size_of::<u16>()) == bytes.get(..size_of::<u16>());
    assert!(!is_of_this_version || written == bytes, "there are two ways to write it");
    led(&note);
}

fn led(note: &Note) {
    let mut elsewhere = ForwardingTable::new(64);
    note.lead(&mut elsewhere);
    let (sink, source) = (([10, 0, 0, 1], 1).into(), ([192, 0, 2, 1], 443).into());
    let flow = FlowEnds { is_downlink: true, sink, source };
    let _ = (ownership_of([note], &flow, Instant::ZERO), elsewhere.next_hop(flow.client_and_server()));
}

/// States as bytes: an engine's, a TCP connection's. An error or a value, which is written again and read the same.
pub fn image(bytes: &[u8]) {
    let mut engine = new_engine();
    match engine.resume(bytes) {
        Ok(()) => {
            let written = engine.store();
            let mut next = new_engine();
            assert_eq!(next.resume(&written), Ok(()), "written and read");
            assert!(next.store() == written, "written, read and written");
        }
        Err(error) => {
            assert!(!error.to_string().contains('\n'), "an error is one line: {error}");
            assert_ne!(error, ImageError::NotEmpty);
        }
    }
    if let Ok(image) = stored::from_bytes::<TcpImage>(1, bytes) {
        assert!(stored::to_bytes(&image) == bytes, "written and read");
    }
}

fn new_engine() -> Engine {
    Engine::new(EngineConfig::default()).expect("the usual settings")
}

/// A flow's record and what it holds, as another box or a journal may say it: it is refused, or the engine goes on
/// with the flow, stops sending, and makes whole packets.
pub fn flow_record(bytes: &[u8]) {
    let [kind, rest @ ..] = bytes else { return };
    let (words, held) = rest.split_at(rest.len().min(RECORD_WORDS * 4));
    let mut record = [0; RECORD_WORDS];
    let numbers = words.as_chunks::<4>().0.iter().map(|bytes| u32::from_le_bytes(*bytes));
    record.iter_mut().zip(numbers).for_each(|(to, from)| *to = from);
    let record = FlowRecord::of_any_words(&record);
    let (is_downlink, is_ipv6) = (kind & 1 == 0, kind & 2 != 0);
    let address = |last: u8| match is_ipv6 {
        true => core::net::IpAddr::from([0xfd00, 0, 0, 0, 0, 0, 0, last.into()]),
        false => core::net::IpAddr::from([10, 0, 0, last]),
    };
    let (sink, source) = ((address(1), 40_000).into(), (address(2), 443).into());
    let ends = FlowEnds { is_downlink, sink, source };
    let now = Instant::from_millis(1_000_000);
    let moved = HandoverFlow { ends, record, clock_ms: 999_990 };
    if stored::from_bytes::<HandoverFlow>(1, &stored::to_bytes(&moved)).is_ok() {
        let mut engine = new_engine();
        if engine.take_in(&moved, held, now).is_ok() {
            go_on(engine, now);
        }
    }
    let mut engine = new_engine();
    let entry = JournalEntry {
        // What stands beside the record in a journal is true at some other moment.
        delivered: SeqNum::new(u32::from(*kind) << 24),
        ..JournalEntry::of_moved(&moved)
    };
    let receiver = if is_downlink { Port::Mobile } else { Port::Wired };
    if engine.recover(receiver, &entry, now).is_ok() {
        go_on(engine, now);
    }
}

/// Lets time pass until nothing more happens, or for an hour.
fn go_on(mut engine: Engine, begin: Instant) {
    let mut now = begin;
    while now < begin + Duration::from_secs(3_600) {
        let mut packets = 0;
        loop {
            let before = packets;
            engine.handle_timeout(now);
            while let Some(transmit) = engine.poll_transmit(now) {
                let packet = transmit.to_vec();
                let parsed = wire::parse(&packet).expect("a packet that it made");
                assert_eq!(parsed.ip.total_len, packet.len(), "its length");
                packets += 1;
                assert!(packets < BURST_MAX, "it does not stop sending");
            }
            if packets == before {
                break;
            }
        }
        let Some(next) = engine.next_deadline() else { break };
        assert!(next > now, "a deadline that is due stays");
        now = next;
    }
    drop(engine.store());
}
