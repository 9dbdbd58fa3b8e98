//! Both ends of the transfer, with processors that only count.

use std::net::IpAddr;

use control::Feedback;
use engine::{Middlebox, Port, Transmit, Verdict};
use io::{MappedState, StateFile};
use wire::VirtioNetHeader;

use super::*;
use crate::{FlowTransfer, Inspection, SubscriberHandover};

/// Has flows, or takes some in; or refuses to.
#[derive(Debug, Default)]
struct Flows {
    own: Vec<u8>,
    arriving: Option<Vec<u8>>,
    refuses: bool,
}

impl Middlebox for Flows {
    fn handle_packet(&mut self, _: Port, _: &VirtioNetHeader, _: &mut [u8], _: Instant) -> Verdict {
        Verdict::Forward
    }
    fn handle_timeout(&mut self, _: Instant) {}
    fn poll_transmit(&mut self, _: Instant) -> Option<Transmit<'_>> {
        None
    }
    fn next_deadline(&self) -> Option<Instant> {
        None
    }
    fn handle_feedback(&mut self, _: IpAddr, _: &Feedback) -> bool {
        false
    }
}

impl Processor for Flows {
    type Settings = ();
}

impl Inspection for Flows {}

impl FlowTransfer for Flows {
    fn resume(&mut self, flows: FlowState, _: Instant) -> Result<(), String> {
        if self.refuses {
            return Err("no room".to_owned());
        }
        self.arriving = Some(content(&flows));
        Ok(())
    }

    fn own(&mut self) {
        self.own = self.arriving.take().unwrap();
    }

    fn disown(&mut self) {
        self.arriving = None;
    }

    fn abandon(&mut self) {
        self.own.clear();
    }
}

impl SubscriberHandover for Flows {}

/// A directory of its own, removed when dropped.
struct Scratch(PathBuf);

impl Scratch {
    fn make(what: &str) -> Self {
        let path = std::env::temp_dir().join(format!("ct-run-transfer-{what}-{}", std::process::id()));
        std::fs::create_dir(&path).unwrap();
        Self(path)
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        std::fs::remove_dir_all(&self.0).unwrap();
    }
}

/// A record that nobody takes.
const NOWHERE: &str = "/nonexistent/record";

fn offer() -> Offer {
    Offer {
        socket: PathBuf::new(),
        shards: 2,
        ipv6_prefix_len: 64,
        versions: [IMAGE_VERSION, IMAGE_VERSION],
        memory: 1_000,
        adopts: false,
        process: 0,
    }
}

fn states(of: &[&[u8]]) -> Vec<FlowState> {
    let state = |bytes: &&[u8]| {
        let mut file = StateFile::create().unwrap();
        file.append(bytes).unwrap();
        FlowState { state: file.finish().unwrap(), memory: None }
    };
    of.iter().map(state).collect()
}

fn content(flows: &FlowState) -> Vec<u8> {
    MappedState::open(flows.state.as_fd()).unwrap().to_vec()
}

/// Results at both ends of a transfer of `sent` to `takers`.
fn transfer(
    what: &str,
    sent: Vec<FlowState>,
    takers: &mut [Flows],
) -> (Result<(), String>, Result<(), String>) {
    let scratch = Scratch::make(what);
    let receiver = StateReceiver::open(&scratch.0).unwrap();
    let offer = receiver.offer(1, 64, 0, false);
    let sending = thread::spawn(move || send(&offer, &sent, NOWHERE.as_ref(), || {}));
    let mut handed_on = 0;
    let mut takers = takers.iter_mut().collect::<Vec<_>>();
    let arrived = receiver.take_in(&mut takers, || handed_on += 1);
    let taken = arrived.and_then(|arrived| arrived.commit(&mut takers));
    assert_eq!(handed_on, 1, "before anything is taken over");
    (sending.join().unwrap(), taken)
}

#[test]
fn each_shard_gets_its_own() {
    let large = vec![7; 300_000];
    let mut takers = [Flows::default(), Flows::default()];
    let (sent, taken) = transfer("all", states(&[b"first", &large]), &mut takers);
    assert_eq!((sent, taken), (Ok(()), Ok(())));
    assert_eq!(takers.map(|taker| taker.own), [b"first".to_vec(), large]);
}

#[test]
fn what_one_shard_refuses_stays_where_it_is() {
    let mut takers = [Flows::default(), Flows { refuses: true, ..Flows::default() }];
    let (sent, taken) = transfer("refused", states(&[b"first", b"second"]), &mut takers);
    assert_eq!(taken, Err("no room".to_owned()));
    assert!(sent.is_err(), "still ours");
    assert!(takers.iter().all(|taker| taker.own.is_empty() && taker.arriving.is_none()));
}

#[test]
fn another_number_of_shards_is_refused() {
    let mut takers = [Flows::default()];
    let (sent, taken) = transfer("number", states(&[b"first", b"second"]), &mut takers);
    assert!(sent.is_err() && taken.unwrap_err().contains("flows of 2 shards came for 1"));
}

#[test]
fn who_ends_before_it_commits_has_nothing() {
    let scratch = Scratch::make("ends");
    let receiver = StateReceiver::open(&scratch.0).unwrap();
    let offer = receiver.offer(1, 64, 0, false);
    let sending = thread::spawn(move || send(&offer, &states(&[b"first"]), NOWHERE.as_ref(), || {}));
    let stream = receiver.accept().unwrap();
    assert_eq!(content(&receive(&stream).unwrap()[0]), b"first");
    drop(stream);
    assert!(sending.join().unwrap().is_err());
}

#[test]
fn who_commits_too_late_has_nothing() {
    let scratch = Scratch::make("late");
    let receiver = StateReceiver::open(&scratch.0).unwrap();
    let offer = receiver.offer(1, 64, 0, false);
    let mut beats = 0;
    let sending =
        thread::spawn(move || (send(&offer, &states(&[b"first"]), NOWHERE.as_ref(), || beats += 1), beats));
    let mut stream = receiver.accept().unwrap();
    let (sent, beats) = sending.join().unwrap();
    assert!(sent.is_err());
    assert!(beats >= 10, "it showed that it was alive: {beats}");
    receive(&stream).unwrap();
    assert!(stream.write_all(&[COMMIT]).is_err(), "and hears that it has nothing");
}

/// Results at both ends where the record says whose the flows are. `is_there`: the old one has it still.
fn transfer_by_record(
    what: &str,
    is_there: bool,
    has_journal: bool,
) -> (Result<(), String>, Result<(), String>, Vec<u8>) {
    let scratch = Scratch::make(what);
    let (old, new) = (Instance::register(&scratch.0, "old"), Instance::register(&scratch.0, "new"));
    let (old, new) = (old.unwrap(), new.unwrap());
    old.record("what was set up").unwrap();
    let record = old.path().join(io::RECORD);
    let receiver = StateReceiver::open(new.path()).unwrap();
    // Nobody is killed here.
    let offer = Offer { process: 0, ..receiver.offer(1, 64, 0, true) };
    let sending = thread::spawn({
        let record = record.clone();
        move || send(&offer, &states(&[b"first"]), &record, || {})
    });
    let mut taker = Flows::default();
    let arrived = receiver.take_in(&mut [&mut taker], || {}).unwrap();
    let wanted = if is_there { record } else { NOWHERE.into() };
    let taken = arrived.commit_by_record(&mut [&mut taker], &wanted, &new, has_journal);
    let sent = sending.join().unwrap();
    assert_eq!(new.path().join(io::RECORD).exists(), taken.is_ok());
    (sent, taken, taker.own)
}

#[test]
fn who_has_the_record_has_the_flows() {
    for (what, has_journal) in [("record", false), ("record-journal", true)] {
        let (sent, taken, flows) = transfer_by_record(what, true, has_journal);
        assert_eq!((sent, taken, flows), (Ok(()), Ok(()), b"first".to_vec()));
    }
}

#[test]
fn who_finds_no_record_has_nothing() {
    for (what, has_journal) in [("norecord", false), ("norecord-journal", true)] {
        let (sent, taken, flows) = transfer_by_record(what, false, has_journal);
        assert!(sent.is_err() && taken.unwrap_err().contains("did not wait") && flows.is_empty());
    }
}

#[test]
fn nobody_at_the_door() {
    let offer = Offer { socket: "/nonexistent/transfer".into(), ..offer() };
    let error = send(&offer, &states(&[b"x"]), NOWHERE.as_ref(), || {}).unwrap_err();
    assert!(error.contains("/nonexistent/transfer"), "{error}");
}

#[test]
fn what_does_not_fit_is_said_beforehand() {
    let holder = Holder {
        shards: 2,
        ipv6_prefix_len: 64,
        held: 1_000,
        is_ending: false,
        is_undecided: false,
        is_passed: false,
        is_shared: false,
    };
    let offer = offer();
    assert_eq!(holder.objection(&offer), None);
    let why = |holder: Holder, offer: Offer| holder.objection(&offer).unwrap();
    assert!(why(Holder { is_ending: true, ..holder }, offer.clone()).contains("ending"));
    assert!(why(Holder { is_passed: true, ..holder }, offer.clone()).contains("go past"));
    assert!(why(holder, Offer { shards: 3, ..offer.clone() }).contains("2 shards, the new one 3"));
    assert!(why(holder, Offer { ipv6_prefix_len: 56, ..offer.clone() }).contains("of 56"));
    assert!(why(holder, Offer { versions: [IMAGE_VERSION + 1; 2], ..offer.clone() }).contains("version"));
    assert!(why(holder, Offer { memory: 999, ..offer.clone() }).contains("may hold 999"));
    let adopts = Offer { adopts: true, ..offer };
    assert!(why(holder, adopts.clone()).contains("has changed meanwhile"));
    assert_eq!(Holder { is_shared: true, ..holder }.objection(&adopts), None);
}
