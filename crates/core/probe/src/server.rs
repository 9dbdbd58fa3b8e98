//! [`Server`]: answers clients, sends and receives their runs.
//!
//! INVARIANT: to an address that is not proven nothing is sent but an answer to a datagram from it, and
//! that is not longer. What is proven of an address is that a cookie sent there came back.

mod limits;

use core::net::{IpAddr, SocketAddr};
use std::collections::{BTreeMap, VecDeque};

use units::{Duration, Instant};

use crate::auth::{Cookie, CookieJar, Key};
use crate::client_path::ClientPath;
use crate::message::{
    CONTROL_LEN_MAX, DATA_LEN, Data, Direction, Echo, Limits, Message, MessageError, Pattern, RECORDS_MAX,
    Refusal, RunSpec, RunSummary, SessionId, StatusReport, VERSION,
};
use crate::receiver::{Receiver, ReportTimer, SEARCH_REPORTS, STEADY_REPORTS};
use crate::sender::Sender;
use limits::planned_bytes;

/// Nothing is sent to a client that was silent for this long.
const CLIENT_SILENCE_MAX: Duration = Duration::from_secs(5);
/// A session without a datagram for this long is over.
const SESSION_IDLE_MAX: Duration = Duration::from_secs(30);
/// A run that its client does not finish is over this long after its time.
const FINISH_PATIENCE: Duration = Duration::from_secs(20);
/// Arrivals that a server keeps in all, some 100 MB: more than those of a minute at 1 Gbit/s in packets of
/// 1,400 bytes.
pub const ARRIVALS_MAX: usize = 8_000_000;
/// Runs of one session at once: up and down with their round trips.
const RUNS_MAX: usize = 4;
/// Finished runs whose records are kept for a session.
const FINISHED_MAX: usize = 4;
/// Control messages that wait to be sent.
const OUTGOING_MAX: usize = 512;
/// Questions that wait for an answer of the server's surroundings.
const QUESTIONS_MAX: usize = 256;
/// Silent flows of one session, and of all.
const FLOWS_PER_SESSION_MAX: usize = 64;
const FLOWS_MAX: usize = 1_024;
/// Longest silence that is waited for.
const SILENCE_ASKED_MAX: Duration = Duration::from_secs(3 * 3_600);
/// Number of times that the server speaks at the end of a silence, and how far apart: one may be lost.
const SPEAKS: u32 = 3;
const SPEAK_EVERY: Duration = Duration::from_millis(300);
/// An address is asked to prove itself at most this often.
const CONFIRM_EVERY: Duration = Duration::from_millis(100);

/// Settings of a server: what it allows, and whom.
#[derive(Clone, Debug)]
pub struct ServerConfig {
    /// Key that clients must sign with; none for a server that anyone may use.
    pub key: Option<Key>,
    /// Random bytes for cookies and session numbers.
    pub secret: CookieJar,
    /// Limits of a run.
    pub limits: Limits,
    /// Sessions at once.
    pub sessions_max: usize,
    /// Sessions at once of one IPv4 address or IPv6 /64.
    pub sessions_per_client_max: usize,
    /// Sessions that are measured at once; others wait.
    pub measured_max: usize,
    /// Arrivals that are kept of all runs, [`ARRIVALS_MAX`] unless memory is scarce.
    pub arrivals_max: usize,
}

/// Counts of what has happened so far.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ServerCounters {
    /// Sessions accepted.
    pub sessions: u64,
    /// Runs granted.
    pub runs: u64,
    /// Datagrams with a wrong key or none.
    pub wrong_key: u64,
    /// Datagrams of other versions.
    pub other_version: u64,
    /// Datagrams that are none of ours.
    pub malformed: u64,
    /// Hellos refused for want of room.
    pub overloaded: u64,
    /// Addresses that changed within a session.
    pub moves: u64,
}

/// A datagram to send.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Transmit {
    /// Client that it goes to, and the address that it goes from.
    pub path: ClientPath,
    /// The run whose packet it is, for [`Server::on_refused`].
    pub run: Option<(SessionId, u32)>,
}

#[derive(Debug)]
enum Role {
    Sends(Sender),
    /// `overflowed`: packets of the run, or about its time, for which there was no room here.
    Receives {
        receiver: Receiver,
        reports: ReportTimer,
        overflowed: u32,
    },
}

impl Role {
    /// Summary of the run in a session that has moved so often; drops what only a run under way needs.
    fn end_with(&mut self, moves: u16) -> RunSummary {
        let mut summary = RunSummary { moves, ..RunSummary::default() };
        match self {
            Self::Sends(sender) => {
                sender.summarise(&mut summary);
                sender.end();
            }
            Self::Receives { receiver, overflowed, .. } => {
                receiver.summarise(&mut summary);
                summary.overflowed = *overflowed;
                receiver.end();
            }
        }
        summary
    }
}

#[derive(Debug)]
struct Run {
    number: u32,
    spec: RunSpec,
    role: Role,
    /// Set at the first Finish, and from then on the same.
    summary: Option<RunSummary>,
    give_up: Instant,
}

impl Run {
    fn is_over(&self) -> bool {
        self.summary.is_some()
    }
}

/// A new address that has not proven itself.
#[derive(Debug)]
struct Candidate {
    path: ClientPath,
    asked: Instant,
}

#[derive(Debug)]
struct Session {
    id: SessionId,
    nonce: u64,
    /// Proven by a cookie.
    path: ClientPath,
    candidate: Option<Candidate>,
    moves: u16,
    heard: Instant,
    runs: Vec<Run>,
    /// Time at which the first run of its turn was granted.
    turn: Instant,
}

impl Session {
    fn is_measured(&self) -> bool {
        self.runs.iter().any(|run| !run.is_over())
    }

    fn run(&mut self, number: u32) -> Option<&mut Run> {
        self.runs.iter_mut().find(|run| run.number == number)
    }
}

/// A flow that is silent until the server speaks.
#[derive(Debug)]
struct Flow {
    /// Proven by a cookie.
    to: ClientPath,
    at: Instant,
    left: u32,
}

/// Question of a client that the server's surroundings can answer: the holder of its TCP sockets does so
/// with [`Server::answer`].
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Question {
    /// Question about the TCP ports that are the server's own; the answer is [`Message::Ports`].
    Ports {
        /// Session that asks.
        session: SessionId,
    },
    /// Question about what was seen of a TCP run; the answer is [`Message::Seen`].
    Seen {
        /// Session that asks.
        session: SessionId,
        /// The run.
        run: u32,
        /// First byte of the report that is wanted.
        from: u32,
    },
}

/// The server's side of everything.
#[derive(Debug)]
pub struct Server {
    config: ServerConfig,
    sessions: Vec<Session>,
    waiting: VecDeque<(SessionId, Instant)>,
    flows: BTreeMap<(SessionId, u32), Flow>,
    volumes: BTreeMap<IpAddr, (Instant, u64)>,
    outgoing: VecDeque<(ClientPath, Vec<u8>)>,
    questions: VecDeque<Question>,
    /// Answers to [`Data`] and pings, which tell when they leave.
    echoes: VecDeque<(ClientPath, Message)>,
    counters: ServerCounters,
    count: u64,
    /// Arrivals that are kept, those of sessions that have ended since they were counted too.
    kept: usize,
}

/// One client, for limits: an IPv4 address, or the /64 of an IPv6 one.
#[must_use]
pub fn client_of(address: SocketAddr) -> IpAddr {
    match address.ip().to_canonical() {
        IpAddr::V6(ip) => {
            let [a, b, c, d, ..] = ip.segments();
            IpAddr::V6([a, b, c, d, 0, 0, 0, 0].into())
        }
        ip => ip,
    }
}

impl Server {
    /// A server without sessions.
    #[must_use]
    pub fn new(config: ServerConfig) -> Self {
        Self {
            config,
            sessions: Vec::new(),
            waiting: VecDeque::new(),
            flows: BTreeMap::new(),
            volumes: BTreeMap::new(),
            outgoing: VecDeque::new(),
            echoes: VecDeque::new(),
            questions: VecDeque::new(),
            counters: ServerCounters::default(),
            count: 0,
            kept: 0,
        }
    }

    /// Counts of what has happened so far.
    #[must_use]
    pub fn counters(&self) -> ServerCounters {
        self.counters
    }

    /// Sessions that are there.
    #[must_use]
    pub fn session_count(&self) -> usize {
        self.sessions.len()
    }

    /// The sessions that are there; true for those whose turn it is.
    pub fn sessions(&self) -> impl Iterator<Item = (SessionId, bool)> {
        self.sessions.iter().map(|session| (session.id, session.is_measured()))
    }

    /// The next question for the server's surroundings.
    pub fn poll_question(&mut self) -> Option<Question> {
        self.questions.pop_front()
    }

    /// Answers a question of a session that is still there.
    pub fn answer(&mut self, message: &Message) {
        let to = self.sessions.iter().find(|session| message.session() == Some(session.id));
        if let Some(to) = to.map(|session| session.path) {
            self.say(to, message);
        }
    }

    fn question(&mut self, question: Question) {
        if self.questions.len() < QUESTIONS_MAX {
            self.questions.push_back(question);
        }
    }

    /// Notes that the receiver's system has dropped `datagrams` datagrams more for want of room.
    pub fn on_overflow(&mut self, datagrams: u32) {
        for run in self.sessions.iter_mut().flat_map(|session| &mut session.runs).filter(|run| !run.is_over())
        {
            if let Role::Receives { overflowed, .. } = &mut run.role {
                *overflowed = overflowed.saturating_add(datagrams);
            }
        }
    }

    /// The system did not take the packet of this run.
    pub fn on_refused(&mut self, (session, run): (SessionId, u32)) {
        let run = self.sessions.iter_mut().find(|s| s.id == session).and_then(|s| s.run(run));
        if let Some(Run { role: Role::Sends(sender), .. }) = run {
            sender.on_refused();
        }
    }

    /// A datagram came from `from` at `at`; `now` is not before.
    pub fn handle_datagram(&mut self, bytes: &[u8], from: impl Into<ClientPath>, at: Instant, now: Instant) {
        let from = from.into();
        match Message::decode(bytes, self.config.key.as_ref()) {
            Ok(Message::Hello { nonce, cookie }) => self.on_hello(nonce, &cookie, from, now),
            // Nothing is kept of who asks, and the answer is shorter than the question.
            Ok(Message::Locate { number, sent }) => {
                self.say(from, &Message::Located { number, sent, address: from.client });
            }
            Ok(message) => self.on_message(&message, bytes.len(), from, at, now),
            Err(MessageError::Version(version)) => {
                self.counters.other_version += 1;
                if let Some(about) = Message::hello_nonce(bytes) {
                    let detail = u64::from(version);
                    self.say(
                        from,
                        &Message::Refuse { about, reason: Refusal::Version, detail, version: VERSION },
                    );
                }
            }
            Err(MessageError::WrongKey) => {
                self.counters.wrong_key += 1;
                if let Some(about) = Message::hello_nonce(bytes) {
                    self.refuse(from, about, Refusal::WrongKey, 0);
                }
            }
            Err(MessageError::Malformed) => self.counters.malformed += 1,
        }
    }

    fn refuse(&mut self, to: ClientPath, about: u64, reason: Refusal, detail: u64) {
        self.say(to, &Message::Refuse { about, reason, detail, version: VERSION });
    }

    fn say(&mut self, to: ClientPath, message: &Message) {
        if self.outgoing.len() < OUTGOING_MAX {
            let mut bytes = Vec::with_capacity(CONTROL_LEN_MAX);
            message.encode(self.config.key.as_ref(), &mut bytes);
            self.outgoing.push_back((to, bytes));
        }
    }

    fn on_hello(&mut self, nonce: u64, cookie: &Cookie, from: ClientPath, now: Instant) {
        if *cookie == Cookie::default() {
            let cookie = self.config.secret.cookie(from.client, nonce, now);
            return self.say(from, &Message::Challenge { nonce, cookie });
        }
        if !self.config.secret.is_mine(cookie, from.client, nonce, now) {
            return self.refuse(from, nonce, Refusal::Cookie, 0);
        }
        let limits = self.config.limits;
        if let Some(session) = self.sessions.iter().find(|s| s.nonce == nonce && s.path.client == from.client)
        {
            let accept = Message::Accept { nonce, session: session.id, limits };
            return self.say(from, &accept);
        }
        let same =
            self.sessions.iter().filter(|s| client_of(s.path.client) == client_of(from.client)).count();
        let (all, per_client) = (self.config.sessions_max, self.config.sessions_per_client_max);
        if same >= per_client || self.sessions.len() >= all {
            self.counters.overloaded += 1;
            let (reason, most) =
                if same >= per_client { (Refusal::TooMany, per_client) } else { (Refusal::Overloaded, all) };
            return self.refuse(from, nonce, reason, most as u64);
        }
        self.count += 1;
        self.counters.sessions += 1;
        let id = self.config.secret.unguessable(from.client, nonce, self.count);
        self.sessions.push(Session {
            id,
            nonce,
            path: from,
            candidate: None,
            moves: 0,
            heard: now,
            runs: Vec::new(),
            turn: now,
        });
        self.say(from, &Message::Accept { nonce, session: id, limits });
    }

    fn on_message(&mut self, message: &Message, len: usize, from: ClientPath, at: Instant, now: Instant) {
        let Some(id) = message.session() else { return };
        let Some(session) = self.sessions.iter_mut().find(|session| session.id == id) else {
            // As long as what came at most, and never in answer to data: its sender hears it at its next
            // question.
            let is_question = matches!(
                message,
                Message::Ask { .. }
                    | Message::Finish { .. }
                    | Message::Fetch { .. }
                    | Message::AskPorts { .. }
                    | Message::AskSeen { .. }
            );
            if is_question && len >= 21 {
                self.refuse(from, id, Refusal::NoSession, 0);
            }
            return;
        };
        session.heard = now;
        if let Message::Ping(data) = message {
            // From another port of the address that is proven; the answer is as long as the question.
            if session.path.client.ip() == from.client.ip() && self.echoes.len() < OUTGOING_MAX {
                self.echoes.push_back((from, Message::Pong(Echo { data: *data, received: at, echoed: at })));
            }
            return;
        }
        if let Message::Idle { flow, after, cookie, .. } = message {
            return self.on_idle((id, *flow), *after, cookie, from, now);
        }
        if session.path.client != from.client {
            self.on_moved(id, message, len, from, now);
        }
        match message {
            Message::Data(data) => self.on_data(data, from, at),
            Message::Ask { run, spec, .. } => self.on_ask(id, *run, spec, now),
            Message::Status { run, report, .. } => self.on_status(id, *run, report, now),
            Message::Finish { run, .. } => self.on_finish(id, *run),
            Message::Fetch { run, from, .. } => self.on_fetch(id, *run, *from),
            Message::AskPorts { .. } => self.question(Question::Ports { session: id }),
            Message::AskSeen { run, from, .. } => {
                self.question(Question::Seen { session: id, run: *run, from: *from });
            }
            Message::Bye { .. } => self.sessions.retain(|session| session.id != id),
            _ => {}
        }
    }

    fn on_idle(
        &mut self,
        flow: (SessionId, u32),
        after: Duration,
        cookie: &Cookie,
        from: ClientPath,
        now: Instant,
    ) {
        let session = flow.0;
        if !self.config.secret.is_mine(cookie, from.client, session, now) {
            let cookie = self.config.secret.cookie(from.client, session, now);
            return self.say(from, &Message::Confirm { session, cookie });
        }
        let own = self.flows.range((session, 0)..=(session, u32::MAX)).count();
        let is_full = own >= FLOWS_PER_SESSION_MAX || self.flows.len() >= FLOWS_MAX;
        if after > SILENCE_ASKED_MAX || is_full && !self.flows.contains_key(&flow) {
            let reason = if is_full { Refusal::Overloaded } else { Refusal::Time };
            let detail = if is_full { FLOWS_MAX as u64 } else { SILENCE_ASKED_MAX.as_millis() };
            return self.say(from, &Message::Deny { session, run: flow.1, reason, detail });
        }
        self.flows.insert(flow, Flow { to: from, at: now + after, left: SPEAKS });
        self.say(from, &Message::Held { session, flow: flow.1 });
    }

    /// The session speaks from another address: a NAT has forgotten its binding, or the client has moved.
    fn on_moved(&mut self, id: SessionId, message: &Message, len: usize, from: ClientPath, now: Instant) {
        let secret = self.config.secret.clone();
        let Some(session) = self.sessions.iter_mut().find(|session| session.id == id) else { return };
        if let Message::Confirmed { cookie, .. } = message {
            if secret.is_mine(cookie, from.client, id, now) {
                (session.path, session.candidate) = (from, None);
                session.moves = session.moves.saturating_add(1);
                self.counters.moves += 1;
            }
            return;
        }
        let is_asked = |candidate: &Candidate| {
            candidate.path.client == from.client && now.saturating_since(candidate.asked) < CONFIRM_EVERY
        };
        if session.candidate.as_ref().is_some_and(is_asked) || len < DATA_LEN {
            return;
        }
        session.candidate = Some(Candidate { path: from, asked: now });
        let cookie = secret.cookie(from.client, id, now);
        self.say(from, &Message::Confirm { session: id, cookie });
    }

    fn on_data(&mut self, data: &Data, from: ClientPath, at: Instant) {
        let is_full = self.kept >= self.config.arrivals_max && self.is_received(data);
        let has_room = !is_full || self.make_room(data.session);
        let Some(session) = self.sessions.iter_mut().find(|session| session.id == data.session) else {
            return;
        };
        let path = session.path;
        let Some(run) = session.run(data.run).filter(|run| !run.is_over()) else { return };
        let Role::Receives { receiver, overflowed, .. } = &mut run.role else { return };
        if !has_room {
            *overflowed = overflowed.saturating_add(1);
            return;
        }
        let kept = receiver.kept();
        receiver.on_data(data.number, data.sent, at);
        self.kept += receiver.kept() - kept;
        if run.spec.is_echoed && from.client == path.client && self.echoes.len() < OUTGOING_MAX {
            let echo = Message::Echo(Echo { data: *data, received: at, echoed: at });
            self.echoes.push_back((path, echo));
        }
    }

    /// True for a packet of a run under way.
    fn is_received(&self, data: &Data) -> bool {
        let mut runs =
            self.sessions.iter().filter(|session| session.id == data.session).flat_map(|s| &s.runs);
        runs.any(|run| run.number == data.run && !run.is_over() && matches!(run.role, Role::Receives { .. }))
    }

    /// Makes room for an arrival of a session: the runs that are over go first, its own before others', the
    /// oldest before others. False where all that is kept is of runs under way.
    fn make_room(&mut self, id: SessionId) -> bool {
        loop {
            let kept = |run: &Run| match &run.role {
                Role::Receives { receiver, .. } => receiver.kept(),
                Role::Sends(_) => 0,
            };
            self.kept = self.sessions.iter().flat_map(|session| &session.runs).map(kept).sum();
            if self.kept < self.config.arrivals_max {
                return true;
            }
            let over = self.sessions.iter().flat_map(|session| {
                let runs = session.runs.iter().filter(|run| run.is_over() && kept(run) > 0);
                runs.map(|run| (session.id != id, run.give_up, session.id, run.number))
            });
            let Some((_, _, of, number)) = over.min() else { return false };
            if let Some(session) = self.sessions.iter_mut().find(|session| session.id == of) {
                session.runs.retain(|run| run.number != number);
            }
        }
    }

    fn on_status(&mut self, id: SessionId, run: u32, report: &StatusReport, now: Instant) {
        let run = self.sessions.iter_mut().find(|session| session.id == id).and_then(|s| s.run(run));
        if let Some(Run { role: Role::Sends(sender), .. }) = run {
            sender.on_status(report, now);
        }
    }

    fn on_ask(&mut self, id: SessionId, number: u32, spec: &RunSpec, now: Instant) {
        let Some(session) = self.sessions.iter().find(|session| session.id == id) else { return };
        let path = session.path;
        if session.runs.iter().any(|run| run.number == number) {
            return self.say(path, &Message::Grant { session: id, run: number });
        }
        let turn = session.is_measured().then_some(session.turn);
        let client = client_of(path.client);
        if let Some((reason, detail)) = self.refusal(spec, client, now) {
            return self.say(path, &Message::Deny { session: id, run: number, reason, detail });
        }
        let active = session.runs.iter().filter(|run| !run.is_over()).count();
        if active >= RUNS_MAX {
            let deny =
                Message::Deny { session: id, run: number, reason: Refusal::TooMany, detail: RUNS_MAX as u64 };
            return self.say(path, &deny);
        }
        if let Some(place) = self.place_of(id, turn, now) {
            return self.say(path, &Message::Wait { session: id, run: number, place });
        }
        self.waiting.retain(|(other, _)| *other != id);
        self.charge(client, planned_bytes(spec), now);
        self.counters.runs += 1;
        if let Some(session) = self.sessions.iter_mut().find(|session| session.id == id) {
            session.turn = turn.unwrap_or(now);
            session.runs.push(new_run(number, spec, now));
            let finished = session.runs.iter().filter(|run| run.is_over()).count();
            if finished > FINISHED_MAX
                && let Some(oldest) = session.runs.iter().position(Run::is_over)
            {
                session.runs.remove(oldest);
            }
        }
        self.say(path, &Message::Grant { session: id, run: number });
    }

    fn on_finish(&mut self, id: SessionId, number: u32) {
        let Some(session) = self.sessions.iter_mut().find(|session| session.id == id) else { return };
        let (path, moves) = (session.path, session.moves);
        let Some(run) = session.run(number) else {
            return self.refuse(path, id, Refusal::NoSession, 0);
        };
        let is_first = run.summary.is_none();
        let summary = *run.summary.get_or_insert_with(|| run.role.end_with(moves));
        let moved = run.spec.packet().get().saturating_mul(summary.sent.max(summary.received).into());
        let unused = planned_bytes(&run.spec).saturating_sub(moved);
        if is_first {
            self.refund(client_of(path.client), unused);
        }
        self.say(path, &Message::Summary { session: id, run: number, summary });
    }

    fn on_fetch(&mut self, id: SessionId, number: u32, from: u32) {
        let Some(session) = self.sessions.iter_mut().find(|session| session.id == id) else { return };
        let path = session.path;
        let Some(run) = session.run(number) else {
            return self.refuse(path, id, Refusal::NoSession, 0);
        };
        let Role::Receives { receiver, .. } = &run.role else { return };
        let arrivals = receiver.arrivals(from, RECORDS_MAX);
        self.say(path, &Message::Records { session: id, run: number, from, arrivals });
    }

    /// The next datagram, written to `out`; none when there is none at `now`.
    pub fn poll_transmit(&mut self, now: Instant, out: &mut Vec<u8>) -> Option<Transmit> {
        if let Some((path, mut answer)) = self.echoes.pop_front() {
            if let Message::Echo(echo) | Message::Pong(echo) = &mut answer {
                echo.echoed = now;
            }
            answer.encode(None, out);
            return Some(Transmit { path, run: None });
        }
        if let Some((path, bytes)) = self.outgoing.pop_front() {
            *out = bytes;
            return Some(Transmit { path, run: None });
        }
        self.expire(now);
        let due = self.flows.iter_mut().find(|(_, flow)| flow.at <= now);
        if let Some(((session, number), flow)) = due {
            let (key, path) = ((*session, *number), flow.to);
            (flow.at, flow.left) = (now + SPEAK_EVERY, flow.left - 1);
            if flow.left == 0 {
                self.flows.remove(&key);
            }
            let speak = Message::Speak { session: key.0, flow: key.1 };
            speak.encode(self.config.key.as_ref(), out);
            return Some(Transmit { path, run: None });
        }
        let key = self.config.key.as_ref();
        for session in &mut self.sessions {
            let (id, path) = (session.id, session.path);
            let is_silent = now.saturating_since(session.heard) > CLIENT_SILENCE_MAX;
            for run in session.runs.iter_mut().filter(|run| !run.is_over() && !is_silent) {
                let number = run.number;
                match &mut run.role {
                    Role::Sends(sender) => {
                        let Some(packet) = sender.poll(now) else { continue };
                        let data = Data { session: id, run: number, number: packet, sent: now };
                        Message::Data(data).encode(None, out);
                        out.resize(usize::from(run.spec.payload).max(DATA_LEN), 0);
                        return Some(Transmit { path, run: Some((id, number)) });
                    }
                    Role::Receives { receiver, reports, .. } => {
                        let Some(report_number) = reports.poll(now) else { continue };
                        let report = receiver.report();
                        let status =
                            Message::Status { session: id, run: number, number: report_number, report };
                        status.encode(key, out);
                        return Some(Transmit { path, run: None });
                    }
                }
            }
        }
        None
    }

    /// Forgets sessions that are silent, and ends runs that their clients do not end.
    fn expire(&mut self, now: Instant) {
        self.sessions.retain(|session| now.saturating_since(session.heard) < SESSION_IDLE_MAX);
        let sessions = &self.sessions;
        self.flows.retain(|(id, _), _| sessions.iter().any(|session| session.id == *id));
        for session in &mut self.sessions {
            for run in session.runs.iter_mut().filter(|run| !run.is_over() && run.give_up <= now) {
                run.summary = Some(run.role.end_with(session.moves));
            }
        }
    }

    /// True while a path is saturated from here: packets need not leave at their exact times.
    #[must_use]
    pub fn is_saturating(&self) -> bool {
        let mut runs = self.sessions.iter().flat_map(|session| &session.runs).filter(|run| !run.is_over());
        runs.any(|run| matches!(run.role, Role::Sends(_)) && run.spec.pattern == Pattern::Saturate)
    }

    /// Time at which [`Server::poll_transmit`] has something to do next; none when it waits for clients only.
    #[must_use]
    pub fn next_deadline(&self) -> Option<Instant> {
        if !self.outgoing.is_empty() || !self.echoes.is_empty() {
            return Some(Instant::ZERO);
        }
        let of_run = |run: &Run| {
            let own = match &run.role {
                Role::Sends(sender) => sender.next_departure(),
                Role::Receives { reports, .. } => Some(reports.at),
            };
            own.map_or(run.give_up, |own| own.min(run.give_up))
        };
        let of_session = |session: &Session| {
            let silent_at = session.heard + CLIENT_SILENCE_MAX;
            let active = session.runs.iter().filter(|run| !run.is_over()).map(of_run).min();
            let idle = session.heard + SESSION_IDLE_MAX;
            // What a silent client's run has to send waits until it is heard, or until its session ends.
            active.filter(|at| *at <= silent_at).map_or(idle, |at| at.min(idle))
        };
        let flows = self.flows.values().map(|flow| flow.at);
        self.sessions.iter().map(of_session).chain(flows).min()
    }
}

fn new_run(number: u32, spec: &RunSpec, now: Instant) -> Run {
    let role = match spec.direction {
        Direction::Down => Role::Sends(Sender::new(spec, now)),
        Direction::Up => {
            let every = if spec.pattern.is_adapted() { SEARCH_REPORTS } else { STEADY_REPORTS };
            let (receiver, reports) = (Receiver::new(spec.packets()), ReportTimer::new(every, now));
            Role::Receives { receiver, reports, overflowed: 0 }
        }
    };
    Run { number, spec: *spec, role, summary: None, give_up: now + spec.length + FINISH_PATIENCE }
}
