//! [`Protocol`]: the thread that drives the protocol, and the flows as it moves them.

use std::collections::{BTreeMap, BTreeSet};
use std::io::Write;
use std::net::IpAddr;
use std::os::unix::net::UnixStream;
use std::sync::atomic::Ordering;
use std::sync::{Arc, PoisonError, mpsc};
use std::time::Duration as StdDuration;

use engine::FlowEnds;
use handover::{
    Claim, Copies, Ended, Flows, Freeze, Gone, Handover, HandoverOutcome, Loaded, Note, Peer, Survey, Urgency,
};
use io::Clock;
use units::{Duration, Instant, SeqNum};

use super::{Board, Frame, HandoverRequest, Hands, Input, Job, Ledger, Outlets, Withdrawable, line_of};

/// Longest time that a packet loop may take to answer.
const PATIENCE: StdDuration = StdDuration::from_secs(2);

/// The protocol is looked at this often at least.
const LOOK: StdDuration = StdDuration::from_secs(1);

/// A box that is there has connected by then.
const CONNECTED_WITHIN: Duration = Duration::from_secs(3);

/// The protocol, and whom it speaks to.
pub(super) struct Protocol {
    pub protocol: Handover,
    pub ledger: Ledger,
    pub hands: Arc<Hands>,
    pub outlets: Outlets,
    pub board: Arc<Board>,
    pub ended: mpsc::Sender<Ended>,
    pub wake: Arc<UnixStream>,
    /// Callers that wait for the end of a hand-over.
    pub asked: BTreeMap<IpAddr, mpsc::Sender<String>>,
    /// Names of the peers.
    pub peers: Vec<String>,
    /// Those that have not been heard since the start: they may have gone before.
    pub unheard: BTreeSet<Peer>,
}

impl Protocol {
    /// Works until nobody can tell it anything.
    pub fn run(mut self, inbox: &mpsc::Receiver<Input>) {
        let hands = Arc::clone(&self.hands);
        let ledger = self.ledger.clone();
        let mut flows = Remote { hands: &hands, ledger: &ledger };
        let heard_by = Clock::now() + CONNECTED_WITHIN;
        loop {
            let wait = self.protocol.next_deadline().map_or(LOOK, |at| {
                StdDuration::from_nanos(at.saturating_since(Clock::now()).as_nanos()).min(LOOK)
            });
            match inbox.recv_timeout(wait) {
                Ok(Input::Message(from, message, _waiting)) => {
                    self.unheard.remove(&from);
                    self.protocol.on_message(from, message, &mut flows, Clock::now());
                }
                Ok(Input::Heard(peer)) => drop(self.unheard.remove(&peer)),
                Ok(Input::Lost(peer)) => self.protocol.on_peer_lost(peer, &mut flows, Clock::now()),
                Ok(Input::Begin(client, to, answer)) => self.begin(client, to, answer, &mut flows),
                // Below.
                Ok(Input::End) => {}
                Ok(Input::Pause(answer, resumed)) => {
                    if answer.send(self.protocol.is_undecided()).is_ok() {
                        // Nothing is ever sent: it ends when the other end is dropped.
                        let _ = resumed.recv();
                    }
                }
                Err(mpsc::RecvTimeoutError::Timeout) => {}
                Err(mpsc::RecvTimeoutError::Disconnected) => return,
            }
            let now = Clock::now();
            if now >= heard_by {
                while let Some(peer) = self.unheard.pop_first() {
                    self.protocol.on_peer_lost(peer, &mut flows, now);
                }
            }
            let is_to_end = self.board.is_to_end.load(Ordering::Acquire);
            if is_to_end {
                self.protocol.end(&mut flows, now);
            }
            if self.protocol.next_deadline().is_some_and(|at| at <= now) {
                self.protocol.on_timeout(&mut flows, now);
            }
            self.tell();
            if is_to_end {
                self.board.is_to_end.store(false, Ordering::Release);
            }
        }
    }

    fn begin(&mut self, client: IpAddr, to: Peer, answer: mpsc::Sender<String>, flows: &mut Remote<'_>) {
        match self.protocol.begin(client, to, flows, Clock::now()) {
            Ok(subscriber) => drop(self.asked.insert(subscriber, answer)),
            Err(handover::Refusal::Forbidden) => {
                let name = self.peers.get(usize::from(to)).map_or("", String::as_str);
                let why = format!("stayed: the settings do not let it go to '{name}' (--handover-takes)");
                drop(answer.send(why));
            }
            Err(handover::Refusal::Flows) => {
                drop(answer.send("stayed: it has no flows here that could move".to_owned()));
            }
            Err(why) => drop(answer.send(format!("stayed: {why}"))),
        }
    }

    /// Sends what the protocol has to say, and shows how it stands. Whoever hears of something finds it counted.
    fn tell(&mut self) {
        *self.board.counters.lock().unwrap_or_else(PoisonError::into_inner) = self.protocol.counters();
        while let Some((to, message, urgency)) = self.protocol.poll() {
            if let Some(outlet) = self.outlets.get(usize::from(to)) {
                let bytes = message.encode();
                // What has no room is said again later.
                drop(outlet.try_send(match urgency {
                    Urgency::Now => Frame::Message(bytes),
                    Urgency::Ahead => Frame::Ahead(bytes),
                }));
            }
        }
        self.board.under_way.store(self.protocol.under_way(), Ordering::Relaxed);
        self.board.is_undecided.store(self.protocol.is_undecided(), Ordering::Release);
        while let Some(ended) = self.protocol.take_ended() {
            if let Some(answer) = self.asked.remove(&ended.subscriber).filter(|_| ended.is_going) {
                drop(answer.send(line_of(&ended)));
            }
            debug_assert!(ended.outcome != HandoverOutcome::Come || !ended.is_going, "who comes does not go");
            // Where the supervisor has gone nobody needs to hear.
            let _ = self.ended.send(ended);
            // A full pipe wakes as well.
            drop((&*self.wake).write(&[0]));
        }
    }
}

/// The flows of all packet loops, and what is written down.
struct Remote<'a> {
    hands: &'a Hands,
    ledger: &'a Ledger,
}

impl Remote<'_> {
    fn ask<T: Default>(&self, client: IpAddr, request: impl FnOnce(mpsc::Sender<T>) -> HandoverRequest) -> T {
        let (answer, answered) = mpsc::channel();
        self.hands.give(client, Job::Handover(request(answer)));
        answered.recv_timeout(PATIENCE).unwrap_or_default()
    }

    /// The same for work that changes whose flows are: it is done and answered for, or never done.
    fn have_done<T: Default>(
        &self,
        client: IpAddr,
        request: impl FnOnce(Withdrawable, mpsc::Sender<T>) -> HandoverRequest,
    ) -> T {
        let ((answer, answered), work) = (mpsc::channel(), Withdrawable::default());
        self.hands.give(client, Job::Handover(request(work.clone(), answer)));
        match answered.recv_timeout(PATIENCE) {
            Ok(done) => done,
            Err(_) if work.withdraw() => T::default(),
            // It is being done.
            Err(_) => answered.recv().unwrap_or_default(),
        }
    }

    fn give(&self, client: IpAddr, request: HandoverRequest) {
        self.hands.give(client, Job::Handover(request));
    }
}

impl Flows for Remote<'_> {
    fn survey(&mut self, subscriber: IpAddr) -> Survey {
        self.ask(subscriber, |answer| HandoverRequest::Survey(subscriber, answer))
    }

    fn copies(&mut self, subscriber: IpAddr, sent: Vec<(FlowEnds, SeqNum)>, len_max: u64) -> Copies {
        self.ask(subscriber, |answer| HandoverRequest::Copies(subscriber, sent, len_max, answer))
    }

    fn mtu(&mut self, subscriber: IpAddr) -> Option<u32> {
        self.ask(subscriber, HandoverRequest::Mtu)
    }

    fn give_away(&mut self, freeze: &Freeze, _: Instant) -> Option<Vec<Loaded>> {
        self.have_done(freeze.name.subscriber, |work, answer| {
            HandoverRequest::GiveAway(*freeze, work, answer)
        })
    }

    fn take_in(&mut self, claim: &Claim, flows: Vec<Loaded>, _: Instant) -> bool {
        let subscriber = claim.name.subscriber;
        let request = |work, answer| HandoverRequest::TakeIn(claim.clone(), flows, work, answer);
        let (is_taken, flows) = self.have_done(subscriber, request);
        // Here, and not where packets wait.
        drop::<Vec<Loaded>>(flows);
        is_taken
    }

    fn take_back(&mut self, flows: &[Loaded], note: &Note, _: Instant) -> bool {
        let subscriber = note.name().subscriber;
        let (answer, answered) = mpsc::channel();
        self.give(subscriber, HandoverRequest::TakeBack(flows.to_vec(), note.clone(), answer));
        // It is done however long it takes.
        answered.recv_timeout(PATIENCE).unwrap_or(true)
    }

    fn lead(&mut self, subscriber: IpAddr, to: Peer, flows: &[FlowEnds]) {
        self.give(subscriber, HandoverRequest::Lead(subscriber, to, flows.to_vec()));
    }

    fn announce(&mut self, subscriber: IpAddr, to: Peer, flows: &[FlowEnds]) {
        self.give(subscriber, HandoverRequest::Announce(subscriber, to, flows.to_vec()));
    }

    fn hand_back(&mut self, subscriber: IpAddr, relay: Peer, _: Instant) -> bool {
        self.ask(subscriber, |answer| HandoverRequest::HandBack(subscriber, relay, answer))
    }

    fn doubt(&mut self, subscriber: IpAddr, flows: &[FlowEnds], _: Instant) {
        self.give(subscriber, HandoverRequest::Doubt(flows.to_vec()));
    }

    fn let_stay(&mut self, subscriber: IpAddr, stay: Option<&Gone>) {
        self.give(subscriber, HandoverRequest::LetStay(subscriber, stay.cloned()));
    }

    fn forget(&mut self, subscriber: IpAddr) {
        self.give(subscriber, HandoverRequest::Forget(subscriber));
        self.ledger.erase(subscriber);
    }

    fn break_off(&mut self, flows: &[FlowEnds], note: &Note, _: Instant) {
        self.give(note.name().subscriber, HandoverRequest::BreakOff(flows.to_vec(), note.clone()));
    }

    fn break_frozen(&mut self, flows: &[Loaded], note: &Note, _: Instant) {
        self.give(note.name().subscriber, HandoverRequest::BreakFrozen(flows.to_vec(), note.clone()));
    }

    fn note(&mut self, note: &Note) {
        if self.ledger.write(note).is_err() {
            // What was written before is not so any more.
            self.ledger.erase(note.name().subscriber);
        }
    }
}
