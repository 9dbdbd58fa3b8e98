//! [`Desk`]: the thread that drives the protocol, and the flows as it moves them.

use std::collections::BTreeMap;
use std::io::Write;
use std::net::IpAddr;
use std::os::unix::net::UnixStream;
use std::sync::atomic::Ordering;
use std::sync::{Arc, PoisonError, mpsc};
use std::time::Duration as StdDuration;

use engine::{FlowEnds, HeldPiece};
use handover::{Ended, Flows, Handover, Loaded, Outcome, Peer};
use io::Clock;
use units::{Instant, SeqNum};

use super::{Board, Frame, Hands, Job, Outlets, Roam, Told, line_of};

/// How long a packet loop may take to answer.
const PATIENCE: StdDuration = StdDuration::from_secs(2);

/// The protocol is looked at this often at least.
const LOOK: StdDuration = StdDuration::from_secs(1);

/// The protocol, and whom it speaks to.
pub(super) struct Desk {
    pub protocol: Handover,
    pub hands: Arc<Hands>,
    pub outlets: Outlets,
    pub board: Arc<Board>,
    pub ended: mpsc::Sender<Ended>,
    pub wake: Arc<UnixStream>,
    /// Who waits for the end of a hand-over.
    pub asked: BTreeMap<IpAddr, mpsc::Sender<String>>,
}

impl Desk {
    /// Works until nobody can tell it anything.
    pub fn run(mut self, inbox: &mpsc::Receiver<Told>) {
        let hands = Arc::clone(&self.hands);
        let mut flows = Remote(&hands);
        loop {
            let wait = self.protocol.next_deadline().map_or(LOOK, |at| {
                StdDuration::from_nanos(at.saturating_since(Clock::now()).as_nanos()).min(LOOK)
            });
            match inbox.recv_timeout(wait) {
                Ok(Told::Message(from, message)) => {
                    self.protocol.on_message(from, message, &mut flows, Clock::now());
                }
                Ok(Told::Begin(client, to, answer)) => self.begin(client, to, answer, &mut flows),
                Ok(Told::End) => self.protocol.end(&mut flows, Clock::now()),
                Err(mpsc::RecvTimeoutError::Timeout) => {}
                Err(mpsc::RecvTimeoutError::Disconnected) => return,
            }
            let now = Clock::now();
            if self.protocol.next_deadline().is_some_and(|at| at <= now) {
                self.protocol.on_timeout(&mut flows, now);
            }
            self.tell();
        }
    }

    fn begin(&mut self, client: IpAddr, to: Peer, answer: mpsc::Sender<String>, flows: &mut Remote<'_>) {
        match self.protocol.begin(client, to, flows, Clock::now()) {
            Ok(()) => drop(self.asked.insert(client, answer)),
            Err(handover::Refusal::Flows) => {
                drop(answer.send("stayed: it has no flows here that could move".to_owned()));
            }
            Err(why) => drop(answer.send(format!("stayed: {why}"))),
        }
    }

    /// Sends what the protocol has to say, and shows how it stands.
    fn tell(&mut self) {
        while let Some((to, message)) = self.protocol.poll() {
            if let Some(outlet) = self.outlets.get(usize::from(to)) {
                // What has no room is said again later.
                drop(outlet.try_send(Frame::Message(message.encode())));
            }
        }
        *self.board.counters.lock().unwrap_or_else(PoisonError::into_inner) = self.protocol.counters();
        self.board.under_way.store(self.protocol.under_way(), Ordering::Relaxed);
        self.board.is_undecided.store(self.protocol.is_undecided(), Ordering::Release);
        while let Some(ended) = self.protocol.take_ended() {
            if let Some(answer) = self.asked.remove(&ended.subscriber).filter(|_| ended.is_going) {
                drop(answer.send(line_of(&ended)));
            }
            debug_assert!(ended.outcome != Outcome::Come || !ended.is_going, "who comes does not go");
            // Where the supervisor has gone nobody needs to hear.
            let _ = self.ended.send(ended);
            // A full pipe wakes as well.
            drop((&*self.wake).write(&[0]));
        }
    }
}

/// The flows of all packet loops.
struct Remote<'a>(&'a Hands);

impl Remote<'_> {
    fn ask<T: Default>(&self, client: IpAddr, request: impl FnOnce(mpsc::Sender<T>) -> Roam) -> T {
        let (answer, answered) = mpsc::channel();
        self.0.give(client, Job::Roam(request(answer)));
        answered.recv_timeout(PATIENCE).unwrap_or_default()
    }
}

impl Flows for Remote<'_> {
    fn delivering(&mut self, subscriber: IpAddr) -> Vec<FlowEnds> {
        self.ask(subscriber, |answer| Roam::Delivering(subscriber, answer))
    }

    fn held(&mut self, flow: &FlowEnds, from: Option<SeqNum>, len_max: usize) -> Option<HeldPiece> {
        let client = flow.client_and_server().0.ip();
        self.ask(client, |answer| Roam::Held(*flow, from, len_max, answer))
    }

    fn give_away(&mut self, subscriber: IpAddr, to: Peer, _: Instant) -> Vec<Loaded> {
        self.ask(subscriber, |answer| Roam::GiveAway(subscriber, to, answer))
    }

    fn take_in(&mut self, subscriber: IpAddr, flows: &[Loaded], _: Instant) -> bool {
        self.ask(subscriber, |answer| Roam::TakeIn(subscriber, flows.to_vec(), answer))
    }

    fn lead(&mut self, subscriber: IpAddr, to: Option<Peer>) {
        self.0.give(subscriber, Job::Roam(Roam::Lead(subscriber, to)));
    }

    fn forget(&mut self, subscriber: IpAddr) {
        self.0.give(subscriber, Job::Roam(Roam::Forget(subscriber)));
    }

    fn break_off(&mut self, flows: &[FlowEnds], _: Instant) {
        if let Some(client) = flows.first().map(|flow| flow.client_and_server().0.ip()) {
            self.0.give(client, Job::Roam(Roam::BreakOff(flows.to_vec())));
        }
    }
}
