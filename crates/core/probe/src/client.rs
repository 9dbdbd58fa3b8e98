//! [`Client`]: asks a server for a session and for runs, sends and receives them, and keeps what came
//! even when the server does not.

use std::collections::VecDeque;

use units::{Duration, Instant};

use crate::auth::{Cookie, Key};
use crate::fetch::Fetch;
use crate::log::{EchoSample, Ending, RunLog};
use crate::message::{
    DATA_LEN, Data, Direction, Echo, Limits, Message, MessageError, Pattern, Refusal, RunSpec, RunSummary,
    SessionId, StatusReport,
};
use crate::receiver::{Receiver, ReportTimer, SEARCH_REPORTS, STEADY_REPORTS};
use crate::sender::Sender;

/// First wait for an answer; each further one is half as long again.
const RETRY_FIRST: Duration = Duration::from_millis(300);
const RETRY_MAX: Duration = Duration::from_secs(2);
/// Interval at which a client that waits for its turn asks.
const TURN_EVERY: Duration = Duration::from_millis(300);
/// A run is over when nothing has come for this long after its last packet left.
const QUIET: Duration = Duration::from_secs(1);
/// The same of a run that the client has ended early, after the server has said what it sent.
const QUIET_EARLY: Duration = Duration::from_millis(500);
/// Patience after the user asked to stop.
const STOP_PATIENCE: Duration = Duration::from_secs(3);

/// Settings of a client.
#[derive(Clone, Debug)]
pub struct ClientConfig {
    /// The server's key.
    pub key: Option<Key>,
    /// A random number.
    pub nonce: u64,
    /// Time for which a server may be silent before it is taken for gone.
    pub patience: Duration,
}

/// Reason why there is no session (any more).
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Failure {
    /// The server says no.
    Refused {
        /// Reason of the refusal.
        reason: Refusal,
        /// Number that the reason is about.
        detail: u64,
        /// Version of the server's protocol.
        version: u8,
    },
    /// It never answered.
    Unanswered,
    /// It answered before, and does no longer.
    Gone,
    /// Answers are not signed with the key given here.
    WrongKey,
}

/// Event at a client.
#[derive(Clone, Debug)]
pub enum ClientEvent {
    /// There is a session.
    Connected(Limits),
    /// Others are measured first.
    Waits {
        /// Place in the queue, from 1.
        place: u32,
    },
    /// A run has begun.
    Begun {
        /// Its number.
        run: u32,
    },
    /// A run is over.
    Ended {
        /// Its number.
        run: u32,
        /// Log of the run.
        log: Box<RunLog>,
    },
    /// The server does not want this run.
    Denied {
        /// Its number.
        run: u32,
        /// Reason of the refusal.
        reason: Refusal,
        /// Number that the reason is about.
        detail: u64,
    },
    /// The server's answer to what [`Client::ask`] has asked.
    Answered(Message),
    /// There is no session (any more); runs that were under way have ended before.
    Failed(Failure),
}

#[derive(Clone, Copy, Debug)]
struct Retry {
    at: Instant,
    interval: Duration,
}

impl Retry {
    fn new(now: Instant) -> Self {
        Self { at: now, interval: RETRY_FIRST }
    }

    fn poll(&mut self, now: Instant) -> bool {
        let is_due = self.at <= now;
        if is_due {
            self.at = now + self.interval;
            self.interval = (self.interval * 3 / 2).min(RETRY_MAX);
        }
        is_due
    }
}

#[derive(Debug)]
enum Phase {
    Hello { cookie: Cookie, retry: Retry },
    Open { session: SessionId },
    Over,
}

#[derive(Debug)]
enum Stage {
    Asking(Retry),
    Moving,
    /// All is sent; what is on its way may come.
    Tail,
    Finishing(Retry),
    /// Ended early, and all told: what was on its way may still come.
    Draining(Instant),
    Fetching(Fetch),
}

#[derive(Debug)]
struct ClientRun {
    number: u32,
    spec: RunSpec,
    stage: Stage,
    begun: Instant,
    sender: Option<Sender>,
    receiver: Option<Receiver>,
    reports: Option<ReportTimer>,
    departures: Vec<Option<Instant>>,
    echoes: Vec<EchoSample>,
    /// Marks by number: it has come back.
    has_echo: Vec<bool>,
    repeated_echoes: u32,
    /// Last report of the other end, when it came, and when one last told of more packets.
    far: StatusReport,
    far_number: u32,
    far_at: Instant,
    far_progress: Instant,
    overflowed: u32,
    summary: RunSummary,
    ending: Ending,
    /// The client has ended it, and not its length.
    is_early: bool,
}

/// The client's side of everything.
#[derive(Debug)]
pub struct Client {
    config: ClientConfig,
    phase: Phase,
    runs: Vec<ClientRun>,
    next_run: u32,
    heard: Instant,
    has_heard: bool,
    patience: Duration,
    wrong_keys: u32,
    outgoing: VecDeque<Message>,
    questions: Vec<(Message, Retry)>,
    events: VecDeque<ClientEvent>,
}

impl Client {
    /// A client that asks for a session at `now`.
    #[must_use]
    pub fn new(config: ClientConfig, now: Instant) -> Self {
        let patience = config.patience;
        Self {
            config,
            phase: Phase::Hello { cookie: Cookie::default(), retry: Retry::new(now) },
            runs: Vec::new(),
            next_run: 1,
            heard: now,
            has_heard: false,
            patience,
            wrong_keys: 0,
            outgoing: VecDeque::new(),
            questions: Vec::new(),
            events: VecDeque::new(),
        }
    }

    /// Asks for a run; its number.
    pub fn begin(&mut self, spec: RunSpec, now: Instant) -> u32 {
        if self.runs.is_empty() {
            self.heard = now;
        }
        let number = self.next_run;
        self.next_run += 1;
        self.runs.push(ClientRun {
            number,
            spec,
            stage: Stage::Asking(Retry::new(now)),
            begun: now,
            sender: None,
            receiver: None,
            reports: None,
            departures: Vec::new(),
            echoes: Vec::new(),
            has_echo: Vec::new(),
            repeated_echoes: 0,
            far: StatusReport::default(),
            far_number: 0,
            far_at: now,
            far_progress: now,
            overflowed: 0,
            summary: RunSummary::default(),
            ending: Ending::Whole,
            is_early: false,
        });
        number
    }

    /// Asks something that has one answer, [`ClientEvent::Answered`]: again and again until it comes.
    pub fn ask(&mut self, question: Message, now: Instant) {
        if !self.is_busy() {
            self.heard = now;
        }
        self.questions.push((question, Retry::new(now)));
    }

    /// Ends the runs that are under way, with what they have.
    pub fn stop(&mut self, now: Instant) {
        self.patience = STOP_PATIENCE;
        self.heard = now;
        for run in &mut self.runs {
            run.ending = Ending::Stopped;
            run.end_early(now);
        }
        let asking = |run: &ClientRun| matches!(run.stage, Stage::Asking(_));
        let runs = std::mem::take(&mut self.runs);
        for run in runs {
            if asking(&run) { self.end(run, None) } else { self.runs.push(run) }
        }
    }

    /// Ends one run early, as planned: what was sent so far is all of it.
    pub fn finish(&mut self, run: u32, now: Instant) {
        if let Some(run) = self.runs.iter_mut().find(|other| other.number == run) {
            run.end_early(now);
        }
    }

    /// The server's host says that nobody listens there any more: ends at once what waits for it.
    pub fn lose(&mut self) {
        if !matches!(self.phase, Phase::Over) {
            self.fail(if self.has_heard { Failure::Gone } else { Failure::Unanswered });
        }
    }

    /// Has the server keep the session though no run is under way.
    pub fn keep_alive(&mut self) {
        if let Phase::Open { session } = self.phase {
            self.outgoing.push_back(Message::Status {
                session,
                run: 0,
                number: 0,
                report: StatusReport::default(),
            });
        }
    }

    /// Says good-bye: the server forgets the session.
    pub fn close(&mut self) {
        if let Phase::Open { session } = self.phase {
            self.outgoing.push_back(Message::Bye { session });
        }
        self.phase = Phase::Over;
    }

    /// The session; none before there is one.
    #[must_use]
    pub fn session(&self) -> Option<SessionId> {
        match self.phase {
            Phase::Open { session } => Some(session),
            _ => None,
        }
    }

    /// True while a run is asked for or under way, or a question has no answer.
    #[must_use]
    pub fn is_busy(&self) -> bool {
        !self.runs.is_empty() || !self.questions.is_empty()
    }

    /// Time for which the server has been silent.
    #[must_use]
    pub fn silence(&self, now: Instant) -> Duration {
        now.saturating_since(self.heard)
    }

    /// Packets sent or received so far in a run, and how many are planned of a steady one.
    #[must_use]
    pub fn progress(&self, run: u32) -> Option<(u64, u64)> {
        let run = self.runs.iter().find(|other| other.number == run)?;
        let done = match (&run.sender, &run.receiver) {
            (Some(sender), _) => sender.sent(),
            (_, Some(receiver)) => receiver.distinct(),
            _ => 0,
        };
        Some((done.into(), run.spec.packets()))
    }

    /// Next event, in order.
    pub fn poll_event(&mut self) -> Option<ClientEvent> {
        self.events.pop_front()
    }

    /// Notes that this machine has dropped `datagrams` datagrams more for want of room.
    pub fn on_overflow(&mut self, datagrams: u32) {
        for run in self.runs.iter_mut().filter(|run| run.receiver.is_some()) {
            run.overflowed = run.overflowed.saturating_add(datagrams);
        }
    }

    /// The system did not take the packet of this run.
    pub fn on_refused(&mut self, run: u32) {
        let run = self.runs.iter_mut().find(|other| other.number == run);
        if let Some(sender) = run.and_then(|run| run.sender.as_mut()) {
            sender.on_refused();
        }
    }

    /// A datagram came from the server at `at`; `now` is not before.
    pub fn handle_datagram(&mut self, bytes: &[u8], at: Instant, now: Instant) {
        let message = match Message::decode(bytes, self.config.key.as_ref()) {
            Ok(message) => message,
            Err(MessageError::WrongKey) => {
                self.wrong_keys += 1;
                return;
            }
            Err(_) => return,
        };
        match (&self.phase, message) {
            (Phase::Hello { .. }, message) => self.on_greeting(&message, now),
            (Phase::Open { session }, Message::Refuse { about, reason, detail, version })
                if about == *session =>
            {
                self.fail(Failure::Refused { reason, detail, version });
            }
            (Phase::Open { session }, message) if message.session() == Some(*session) => {
                let session = *session;
                (self.heard, self.has_heard) = (now, true);
                self.on_message(session, message, at, now);
            }
            _ => {}
        }
    }

    fn on_greeting(&mut self, message: &Message, now: Instant) {
        let own = self.config.nonce;
        match *message {
            Message::Challenge { nonce, cookie } if nonce == own => {
                (self.heard, self.has_heard) = (now, true);
                self.phase = Phase::Hello { cookie, retry: Retry::new(now) };
            }
            Message::Accept { nonce, session, limits } if nonce == own => {
                (self.heard, self.has_heard) = (now, true);
                self.phase = Phase::Open { session };
                self.events.push_back(ClientEvent::Connected(limits));
            }
            Message::Refuse { about, reason: Refusal::Cookie, .. } if about == own => {
                self.phase = Phase::Hello { cookie: Cookie::default(), retry: Retry::new(now) };
            }
            Message::Refuse { about, reason, detail, version } if about == own => {
                self.fail(Failure::Refused { reason, detail, version });
            }
            _ => {}
        }
    }

    fn on_message(&mut self, session: SessionId, message: Message, at: Instant, now: Instant) {
        match message {
            Message::Grant { run, .. } => self.on_grant(run, now),
            Message::Wait { run, place, .. } => {
                let asking = self.runs.iter_mut().find(|other| other.number == run);
                if let Some(ClientRun { stage: Stage::Asking(retry), .. }) = asking {
                    *retry = Retry { at: now + TURN_EVERY, interval: TURN_EVERY };
                    self.events.push_back(ClientEvent::Waits { place });
                }
            }
            Message::Deny { run, reason, detail, .. } => {
                let count = self.runs.len();
                self.runs.retain(|other| other.number != run || !matches!(other.stage, Stage::Asking(_)));
                if self.runs.len() < count {
                    self.events.push_back(ClientEvent::Denied { run, reason, detail });
                }
            }
            Message::Status { run, number, report, .. } => {
                if let Some(run) = self.runs.iter_mut().find(|other| other.number == run) {
                    run.on_status(number, &report, now);
                }
            }
            Message::Data(data) => {
                self.on_grant(data.run, now);
                if let Some(run) = self.runs.iter_mut().find(|other| other.number == data.run) {
                    run.on_data(&data, at);
                }
            }
            Message::Echo(echo) => {
                if let Some(run) = self.runs.iter_mut().find(|other| other.number == echo.data.run) {
                    run.on_echo(&echo, at);
                }
            }
            Message::Summary { run, summary, .. } => self.on_summary(run, &summary, now),
            Message::Records { run, from, arrivals, .. } => self.on_records(run, from, arrivals, now),
            Message::Ports { .. } | Message::Seen { .. } => {
                let count = self.questions.len();
                self.questions.retain(|(question, _)| !is_answer(question, &message));
                if self.questions.len() < count {
                    self.events.push_back(ClientEvent::Answered(message));
                }
            }
            Message::Confirm { cookie, .. } => {
                self.outgoing.push_back(Message::Confirmed { session, cookie });
            }
            _ => {}
        }
    }

    fn on_grant(&mut self, number: u32, now: Instant) {
        let Some(run) = self.runs.iter_mut().find(|run| run.number == number) else { return };
        if matches!(run.stage, Stage::Asking(_)) {
            run.move_from(now);
            self.events.push_back(ClientEvent::Begun { run: number });
        }
    }

    fn on_summary(&mut self, number: u32, theirs: &RunSummary, now: Instant) {
        let Some(at) = self.runs.iter().position(|run| run.number == number) else { return };
        let Some(run) = self.runs.get_mut(at).filter(|run| matches!(run.stage, Stage::Finishing(_))) else {
            return;
        };
        run.join(theirs);
        if run.spec.direction == Direction::Up && theirs.received > 0 {
            // A receiver keeps no more than each packet twice.
            let most = u32::try_from(run.spec.packets().saturating_mul(2)).unwrap_or(u32::MAX);
            run.stage = Stage::Fetching(Fetch::new(theirs.received.min(most), now));
        } else if run.is_early && run.is_lacking() {
            run.stage = Stage::Draining(now);
        } else {
            let run = self.runs.remove(at);
            self.end(run, Some(Vec::new()));
        }
    }

    fn on_records(&mut self, number: u32, from: u32, arrivals: Vec<crate::Arrival>, now: Instant) {
        let Some(at) = self.runs.iter().position(|run| run.number == number) else { return };
        let Some(ClientRun { stage: Stage::Fetching(fetch), .. }) = self.runs.get_mut(at) else { return };
        fetch.on_records(from, arrivals, now);
        if fetch.is_done() {
            let arrivals = fetch.arrivals();
            let run = self.runs.remove(at);
            self.end(run, Some(arrivals));
        }
    }

    fn end(&mut self, mut run: ClientRun, fetched: Option<Vec<crate::Arrival>>) {
        let arrivals = match (&run.receiver, fetched) {
            (Some(receiver), _) => Some(receiver.arrivals(0, u32::MAX)),
            (None, fetched) => fetched,
        };
        if let Some(sender) = &run.sender {
            sender.summarise(&mut run.summary);
        }
        if let Some(receiver) = &run.receiver {
            receiver.summarise(&mut run.summary);
            run.summary.overflowed = run.overflowed;
        }
        let log = RunLog {
            spec: run.spec,
            ending: run.ending,
            departures: run.departures,
            has_arrivals: arrivals.is_some(),
            arrivals: arrivals.unwrap_or_default(),
            echoes: run.echoes,
            repeated_echoes: run.repeated_echoes,
            summary: run.summary,
            rates: run.sender.map(|sender| sender.rates().to_vec()).unwrap_or_default(),
        };
        self.events.push_back(ClientEvent::Ended { run: run.number, log: Box::new(log) });
    }

    fn fail(&mut self, failure: Failure) {
        for mut run in std::mem::take(&mut self.runs) {
            if run.ending == Ending::Whole {
                run.ending = Ending::ServerGone;
            }
            self.end(run, None);
        }
        self.questions.clear();
        self.phase = Phase::Over;
        self.events.push_back(ClientEvent::Failed(failure));
    }

    /// Lets time pass: ends what has waited for too long.
    fn turn(&mut self, now: Instant) {
        if matches!(self.phase, Phase::Over) && self.is_busy() {
            // Asked for after the end of the session.
            return self.fail(Failure::Gone);
        }
        let waits = matches!(self.phase, Phase::Hello { .. }) || self.is_busy();
        if waits && !matches!(self.phase, Phase::Over) && self.silence(now) > self.patience {
            let failure = match (self.has_heard, self.wrong_keys) {
                (_, 1..) if matches!(self.phase, Phase::Hello { .. }) => Failure::WrongKey,
                (false, _) => Failure::Unanswered,
                (true, _) => Failure::Gone,
            };
            return self.fail(failure);
        }
        self.runs.iter_mut().for_each(|run| run.turn(now));
        while let Some(at) = self.runs.iter().position(|run| run.is_drained(now)) {
            let run = self.runs.remove(at);
            self.end(run, Some(Vec::new()));
        }
    }

    /// The next datagram for the server, written to `out`; none when there is none at `now`. What is given
    /// back is the run whose packet it is, for [`Client::on_refused`].
    pub fn poll_transmit(&mut self, now: Instant, out: &mut Vec<u8>) -> Option<Option<u32>> {
        self.turn(now);
        let key = self.config.key.as_ref();
        if let Some(message) = self.outgoing.pop_front() {
            message.encode(key, out);
            return Some(None);
        }
        let session = match &mut self.phase {
            Phase::Hello { cookie, retry } => {
                let nonce = self.config.nonce;
                return retry
                    .poll(now)
                    .then(|| Message::Hello { nonce, cookie: *cookie }.encode(key, out))
                    .map(|()| None);
            }
            Phase::Open { session } => *session,
            Phase::Over => return None,
        };
        let due = self.questions.iter_mut().find_map(|(question, retry)| retry.poll(now).then_some(question));
        if let Some(question) = due {
            question.encode(key, out);
            return Some(None);
        }
        for run in &mut self.runs {
            if let Some(message) = run.poll_control(session, now) {
                message.encode(key, out);
                return Some(None);
            }
        }
        for run in &mut self.runs {
            let Some(sender) = run.sender.as_mut().filter(|_| matches!(run.stage, Stage::Moving)) else {
                continue;
            };
            if let Some(packet) = sender.poll(now) {
                run.departures.push(Some(now));
                let data = Data { session, run: run.number, number: packet, sent: now };
                Message::Data(data).encode(None, out);
                out.resize(usize::from(run.spec.payload).max(DATA_LEN), 0);
                return Some(Some(run.number));
            }
        }
        None
    }

    /// True while a path is saturated from here: packets need not leave at their exact times.
    #[must_use]
    pub fn is_saturating(&self) -> bool {
        self.runs.iter().any(|run| run.sender.is_some() && run.spec.pattern == Pattern::Saturate)
    }

    /// Time at which [`Client::poll_transmit`] has something to do next.
    #[must_use]
    pub fn next_deadline(&self) -> Option<Instant> {
        if !self.outgoing.is_empty() {
            return Some(Instant::ZERO);
        }
        let give_up = self.heard + self.patience + Duration::from_millis(1);
        match &self.phase {
            Phase::Hello { retry, .. } => Some(retry.at.min(give_up)),
            Phase::Open { .. } if self.is_busy() => {
                let questions = self.questions.iter().map(|(_, retry)| retry.at);
                let runs = self.runs.iter().filter_map(ClientRun::next_deadline);
                Some(runs.chain(questions).fold(give_up, Instant::min))
            }
            Phase::Open { .. } => None,
            Phase::Over => None,
        }
    }
}

fn is_answer(question: &Message, answer: &Message) -> bool {
    match (question, answer) {
        (Message::AskPorts { .. }, Message::Ports { .. }) => true,
        (Message::AskSeen { run, from, .. }, Message::Seen { run: of, from: at, .. }) => {
            (run, from) == (of, at)
        }
        _ => false,
    }
}

impl ClientRun {
    fn move_from(&mut self, now: Instant) {
        (self.begun, self.far_at, self.far_progress) = (now, now, now);
        self.stage = Stage::Moving;
        match self.spec.direction {
            Direction::Up => self.sender = Some(Sender::new(&self.spec, now)),
            Direction::Down => {
                let every = if self.spec.pattern.is_adapted() { SEARCH_REPORTS } else { STEADY_REPORTS };
                self.receiver = Some(Receiver::new(self.spec.packets()));
                self.reports = Some(ReportTimer::new(every, now));
            }
        }
    }

    fn on_data(&mut self, data: &Data, at: Instant) {
        let Some(receiver) = &mut self.receiver else { return };
        let is_expected = match self.stage {
            Stage::Moving | Stage::Tail | Stage::Draining(_) => true,
            Stage::Finishing(_) => self.is_early,
            _ => false,
        };
        if !is_expected || u64::from(data.number) >= self.spec.packets() {
            return;
        }
        receiver.on_data(data.number, data.sent, at);
        let at = data.number as usize;
        if self.departures.len() <= at {
            self.departures.resize(at + 1, None);
        }
        if let Some(departure) = self.departures.get_mut(at) {
            *departure = Some(data.sent);
        }
    }

    fn on_echo(&mut self, echo: &Echo, at: Instant) {
        let number = echo.data.number;
        // What says another time than it left at is none of ours.
        if self.departures.get(number as usize).copied().flatten() == Some(echo.data.sent) {
            if self.has_echo.len() < self.departures.len() {
                self.has_echo.resize(self.departures.len(), false);
            }
            // The path may double packets: the first counts.
            let has_echo = self.has_echo.get_mut(number as usize);
            if has_echo.is_some_and(|has_echo| std::mem::replace(has_echo, true)) {
                self.repeated_echoes = self.repeated_echoes.saturating_add(1);
                return;
            }
            self.echoes.push(EchoSample {
                number,
                sent: echo.data.sent,
                received: echo.received,
                echoed: echo.echoed,
                returned: at,
            });
        }
    }

    fn on_status(&mut self, number: u32, report: &StatusReport, now: Instant) {
        if number <= self.far_number {
            return;
        }
        if report.received > self.far.received {
            self.far_progress = now;
        }
        (self.far, self.far_number, self.far_at) = (*report, number, now);
        if let Some(sender) = &mut self.sender {
            sender.on_status(report, now);
        }
    }

    /// No more is sent; what is on its way may still come.
    fn end_early(&mut self, now: Instant) {
        match self.stage {
            Stage::Moving if self.sender.is_some() => {
                self.stage = Stage::Tail;
                self.far_progress = now;
            }
            Stage::Moving | Stage::Tail if self.sender.is_none() => {
                self.stage = Stage::Finishing(Retry::new(now));
            }
            _ => return,
        }
        self.is_early = true;
    }

    /// True while fewer packets have come than the server has sent.
    fn is_lacking(&self) -> bool {
        self.receiver.as_ref().is_some_and(|receiver| receiver.distinct() < self.summary.sent)
    }

    /// True when a run that was ended early has all, or nothing more has come for a while.
    fn is_drained(&self, now: Instant) -> bool {
        let Stage::Draining(since) = self.stage else { return false };
        !self.is_lacking() || now >= self.drained_at(since)
    }

    fn drained_at(&self, since: Instant) -> Instant {
        let last = self.receiver.as_ref().and_then(Receiver::last);
        last.map_or(since, |last| last.max(since)) + QUIET_EARLY
    }

    /// Takes over what the server knows and this end does not.
    fn join(&mut self, theirs: &RunSummary) {
        self.summary = *theirs;
    }

    fn turn(&mut self, now: Instant) {
        if matches!(self.stage, Stage::Moving) {
            let is_done = match &self.sender {
                Some(sender) => sender.is_done(),
                None => now >= self.begun + self.spec.length,
            };
            if is_done {
                self.stage = Stage::Tail;
                self.far_progress = now;
            }
        }
        if matches!(self.stage, Stage::Tail) && self.is_quiet(now) {
            self.stage = Stage::Finishing(Retry::new(now));
        }
    }

    /// True when no more of the run is to be expected.
    fn is_quiet(&self, now: Instant) -> bool {
        match (&self.sender, &self.receiver) {
            (Some(sender), _) => {
                let is_all = self.far.received >= sender.sent();
                is_all || self.far_at.saturating_since(self.far_progress) >= QUIET
            }
            (None, Some(receiver)) => {
                let is_all = u64::from(receiver.distinct()) >= self.spec.packets();
                let end = self.begun + self.spec.length;
                let last = receiver.last().map_or(end, |last| last.max(end));
                is_all || now.saturating_since(last) >= QUIET
            }
            (None, None) => true,
        }
    }

    fn poll_control(&mut self, session: SessionId, now: Instant) -> Option<Message> {
        let run = self.number;
        match &mut self.stage {
            Stage::Asking(retry) => retry.poll(now).then_some(Message::Ask { session, run, spec: self.spec }),
            Stage::Moving | Stage::Tail => {
                let (receiver, reports) = (self.receiver.as_mut()?, self.reports.as_mut()?);
                let number = reports.poll(now)?;
                Some(Message::Status { session, run, number, report: receiver.report() })
            }
            Stage::Finishing(retry) => retry.poll(now).then_some(Message::Finish { session, run }),
            Stage::Draining(_) => None,
            Stage::Fetching(fetch) => fetch.poll(now).map(|from| Message::Fetch { session, run, from }),
        }
    }

    fn next_deadline(&self) -> Option<Instant> {
        match &self.stage {
            Stage::Asking(retry) | Stage::Finishing(retry) => Some(retry.at),
            Stage::Draining(since) => Some(self.drained_at(*since)),
            Stage::Fetching(fetch) => fetch.next_deadline(),
            Stage::Moving | Stage::Tail => {
                let report = self.reports.as_ref().map(|reports| reports.at);
                let departure = self
                    .sender
                    .as_ref()
                    .filter(|_| matches!(self.stage, Stage::Moving))
                    // A sender that is done is noticed at the next turn.
                    .map(|sender| sender.next_departure().unwrap_or(Instant::ZERO));
                let end = self.receiver.as_ref().map(|receiver| {
                    let end = self.begun + self.spec.length;
                    let last = receiver.last().map_or(end, |last| last.max(end));
                    if matches!(self.stage, Stage::Moving) { end } else { last + QUIET }
                });
                [report, departure, end].into_iter().flatten().min()
            }
        }
    }
}
