//! [`Handovers`]: subscribers that move between boxes and take their flows along (`docs/handover.md`). The protocol is
//! `handover::Handover`; here are its threads and its wire.
//!
//! ```text
//!   packet loops ── packets of who is elsewhere ──▶ ┌ sender to a peer  ┐ ── TLS ──▶ its listener
//!        ▲ │                                        │                   │
//!    Job │ └ answers ──▶ protocol ────────────────▶└ messages          ┘
//!        └── listener ◀── TLS ── senders of the peers
//! ```
//!
//! Each box sends on connections of its own and reads from those that others make. Queues are bounded: what has no
//! room is lost, as on any link. Data that goes ahead of a hand-over waits for everything else. No packet loop waits
//! for any of it.

use std::collections::BTreeMap;
use std::io::{Read, Write};
use std::net::{IpAddr, SocketAddr};
use std::os::unix::net::UnixStream;
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, AtomicU8, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError, mpsc};
use std::thread;

use engine::{FlowEnds, Port};
use handover::{
    Claim, Copies, Counters, Ended, FlowMoved, Freeze, Gone, Handover, HandoverOutcome, Loaded, Message,
    Note, Peer, Rights, Survey,
};
use io::{Clock, IoError};
use serde::{Deserialize, Serialize};
use units::SeqNum;
use wire::{HandoverOrder, VirtioNetHeader};

use crate::journal::Left;
use crate::{Event, RunError};

pub(crate) mod ledger;
mod peer_listener;
mod peer_sender;
mod places;
mod protocol;
mod tls;

pub use ledger::Ledger;
pub(crate) use ledger::PendingHandovers;
use protocol::Protocol;

/// Frames that wait for a peer at most.
const QUEUE_MAX: usize = 1_024;

/// Packets of a peer that wait for packet loops at most.
const RELAYED_MAX: usize = 2_048;

/// Messages of a peer that wait for the protocol at most.
const MESSAGES_MAX: usize = 64;

/// Jobs that are done between two turns of a packet loop.
pub(crate) const JOBS_MAX: usize = 64;

/// Time that the caller of a hand-over waits for its end: less than the console's patience.
const PATIENCE: std::time::Duration = std::time::Duration::from_secs(8);

/// Flows that are shown one by one when a subscriber has gone.
const SHOWN_MAX: usize = 64;

/// Longest time that the protocol may take to stop for an upgrade: packets wait.
const PAUSED_WITHIN: units::Duration = units::Duration::from_millis(300);

/// Boxes that subscribers may go to and come from.
#[derive(Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct HandoverConfig {
    /// Address and port to listen at.
    pub listen: SocketAddr,
    /// This box's certificate, and those that vouch for it, as PEM.
    pub certificate: String,
    /// Its key, as PEM.
    pub key: String,
    /// Authorities that vouch for peers that are known by their names, as PEM.
    #[serde(default)]
    pub authorities: Option<String>,
    /// Encapsulation of packets here, in a word that all boxes have in common; empty where they are not.
    #[serde(default)]
    pub encapsulation: String,
    /// The other boxes.
    pub peers: Vec<PeerConfig>,
}

/// Another box.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct PeerConfig {
    /// Name of the peer.
    pub name: String,
    /// Address on which it listens.
    pub address: SocketAddr,
    /// The certificate that it shows, as PEM: this very one. Empty where an authority vouches for its name.
    pub certificate: String,
    /// Prefixes of the subscribers that it may take from here; none means all.
    #[serde(default)]
    pub takes: Option<Vec<String>>,
    /// Prefixes of the subscribers that it may give to here; none means all.
    #[serde(default)]
    pub gives: Option<Vec<String>>,
}

impl PeerConfig {
    /// Rights of the peer over subscribers.
    ///
    /// # Errors
    /// One line: what is no prefix.
    pub(crate) fn rights(&self) -> Result<Rights, String> {
        let read = |prefixes: &Option<Vec<String>>| {
            let read =
                |all: &Vec<String>| all.iter().map(|text| text.parse()).collect::<Result<Vec<_>, String>>();
            prefixes.as_ref().map(read).transpose()
        };
        let rights = (|| Ok(Rights { takes: read(&self.takes)?, gives: read(&self.gives)? }))();
        rights.map_err(|why: String| format!("peer '{}': {why}", self.name))
    }

    /// Warning about rights that it has because nothing is said of it, and what to say: one line.
    pub(crate) fn caution(&self) -> Option<String> {
        let name = &self.name;
        self.gives.is_none().then(|| {
            format!(
                "the peer '{name}' may give any subscriber to here of whom it names no flow that is here: say which, by \
                 --handover-gives {name}=PREFIX ({name}=0.0.0.0/0,::/0 are all, {name}= is none)"
            )
        })
    }
}

impl std::fmt::Debug for HandoverConfig {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let Self { listen, peers, .. } = self;
        f.debug_struct("HandoverConfig").field("listen", listen).field("peers", peers).finish_non_exhaustive()
    }
}

/// A packet on its way between boxes.
#[derive(Debug)]
pub struct Relayed {
    /// From which side it came.
    pub from: Port,
    /// Its virtio header.
    pub virtio: VirtioNetHeader,
    /// From the IP header on.
    pub packet: Vec<u8>,
}

/// Frame that goes to a peer.
#[derive(Debug)]
pub enum Frame {
    /// Of the protocol, as bytes.
    Message(Vec<u8>),
    /// The same, of data that goes ahead: all others overtake it.
    Ahead(Vec<u8>),
    /// A packet of a subscriber that it has.
    Packet(Relayed),
}

/// Ways to the peers, by their numbers.
pub type Outlets = Vec<mpsc::SyncSender<Frame>>;

/// Request to a packet loop about its subscribers' flows; a loop that does not answer has none.
#[derive(Debug)]
pub enum HandoverRequest {
    /// As [`handover::Flows::survey`].
    Survey(IpAddr, mpsc::Sender<Survey>),
    /// As [`handover::Flows::copies`].
    Copies(IpAddr, Vec<(FlowEnds, SeqNum)>, u64, mpsc::Sender<Copies>),
    /// As [`handover::Flows::mtu`].
    Mtu(mpsc::Sender<Option<u32>>),
    /// As [`handover::Flows::give_away`].
    GiveAway(Freeze, Withdrawable, mpsc::Sender<Option<Vec<Loaded>>>),
    /// As [`handover::Flows::take_in`]; the data comes back, for who asked to drop it.
    TakeIn(Claim, Vec<Loaded>, Withdrawable, mpsc::Sender<(bool, Vec<Loaded>)>),
    /// As [`handover::Flows::take_back`].
    TakeBack(Vec<Loaded>, Note, mpsc::Sender<bool>),
    /// As [`handover::Flows::lead`].
    Lead(IpAddr, Peer, Vec<FlowEnds>),
    /// As [`handover::Flows::announce`].
    Announce(IpAddr, Peer, Vec<FlowEnds>),
    /// As [`handover::Flows::hand_back`].
    HandBack(IpAddr, Peer, mpsc::Sender<bool>),
    /// As [`handover::Flows::doubt`].
    Doubt(Vec<FlowEnds>),
    /// As [`handover::Flows::let_stay`].
    LetStay(IpAddr, Option<Gone>),
    /// As [`handover::Flows::forget`].
    Forget(IpAddr),
    /// As [`handover::Flows::break_off`].
    BreakOff(Vec<FlowEnds>, Note),
    /// As [`handover::Flows::break_frozen`].
    BreakFrozen(Vec<Loaded>, Note),
}

impl HandoverRequest {
    /// Flows that are this box's from here on, or the concern of a hand-over: their packets may not go past it.
    pub(crate) fn flows(&self) -> Vec<FlowEnds> {
        match self {
            Self::TakeIn(_, flows, ..) | Self::TakeBack(flows, ..) | Self::BreakFrozen(flows, _) => {
                flows.iter().map(|(flow, _)| flow.ends).collect()
            }
            Self::Lead(_, _, flows)
            | Self::Announce(_, _, flows)
            | Self::LetStay(_, Some(Gone { flows, .. })) => flows.clone(),
            _ => Vec::new(),
        }
    }
}

/// Whether work is done that its giver may withdraw: either it is begun, or it never is.
#[derive(Clone, Debug, Default)]
pub struct Withdrawable(Arc<AtomicU8>);

impl Withdrawable {
    const BEGUN: u8 = 1;
    const WITHDRAWN: u8 = 2;

    /// True when it may be done: then it is.
    #[must_use]
    pub fn begin(&self) -> bool {
        self.0.compare_exchange(0, Self::BEGUN, Ordering::AcqRel, Ordering::Acquire).is_ok()
    }

    /// True when it is not begun: then it never is.
    #[must_use]
    pub fn withdraw(&self) -> bool {
        self.0.compare_exchange(0, Self::WITHDRAWN, Ordering::AcqRel, Ordering::Acquire).is_ok()
    }
}

/// Work for a packet loop.
#[derive(Debug)]
pub(crate) enum Job {
    Handover(HandoverRequest),
    /// A packet that a peer has sent on; the counter goes down when it is taken.
    Relayed(Peer, Relayed, Arc<AtomicUsize>),
}

/// Gives work to a packet loop.
pub(crate) type Hand = Box<dyn Fn(Job) + Send + Sync>;

/// Ways to the packet loops, and the choice of the loop for a client.
pub(crate) struct Hands {
    pub all: Vec<Hand>,
    pub shard_of: Box<dyn Fn(IpAddr) -> usize + Send + Sync>,
    /// Packets of each peer that wait.
    waiting: Vec<Arc<AtomicUsize>>,
}

impl Hands {
    fn give(&self, client: IpAddr, job: Job) {
        if let Some(hand) = self.all.get((self.shard_of)(client)) {
            hand(job);
        }
    }

    /// Hands a peer's packet to the loop of its client, if there is room. Nothing but TCP is sent on between boxes.
    fn relay(&self, by: Peer, relayed: Relayed) {
        let Some(waiting) = self.waiting.get(usize::from(by)) else { return };
        let Some(parsed) = wire::parse(&relayed.packet).ok().filter(|parsed| parsed.tcp().is_some()) else {
            return;
        };
        let client = if relayed.from == Port::Mobile { parsed.ip.src } else { parsed.ip.dst };
        if waiting.fetch_add(1, Ordering::Relaxed) < RELAYED_MAX {
            self.give(client, Job::Relayed(by, relayed, Arc::clone(waiting)));
        } else {
            waiting.fetch_sub(1, Ordering::Relaxed);
        }
    }
}

/// State of the protocol as others see it.
#[derive(Debug, Default)]
struct Board {
    counters: Mutex<Counters>,
    under_way: AtomicUsize,
    is_undecided: AtomicBool,
    /// The protocol has yet to hear that nothing is to be handed over any more.
    is_to_end: AtomicBool,
    connected: Vec<AtomicBool>,
}

/// Input of the protocol.
enum Input {
    /// The last one is dropped when it is handled: the peer may say more then.
    Message(Peer, Message, places::Waiting),
    /// A peer has made a connection.
    Heard(Peer),
    /// A peer has no connection to here any more.
    Lost(Peer),
    Begin(IpAddr, Peer, mpsc::Sender<String>),
    End,
    /// Do nothing until the second one is dropped; say at the first whether all is decided.
    Pause(mpsc::Sender<bool>, mpsc::Receiver<()>),
}

/// Before the packet loops work: they have to know the ways to the peers.
pub(crate) struct Prepared {
    config: HandoverConfig,
    rights: Vec<Rights>,
    ipv6_prefix_len: u8,
    outlets: Outlets,
    queues: Vec<mpsc::Receiver<Frame>>,
    tls: tls::Identity,
    ledger: Ledger,
}

impl Prepared {
    /// Creates the protocol; its notes are in `directory`.
    ///
    /// # Errors
    /// Certificates or key are none, or the directory cannot be made.
    pub fn new(config: &HandoverConfig, ipv6_prefix_len: u8, directory: PathBuf) -> Result<Self, RunError> {
        let rights = config.peers.iter().map(PeerConfig::rights).collect::<Result<_, _>>();
        let rights = rights.map_err(RunError::Settings)?;
        let tls = tls::Identity::new(config).map_err(RunError::Settings)?;
        let (outlets, queues) = config.peers.iter().map(|_| mpsc::sync_channel(QUEUE_MAX)).unzip();
        let names = config.peers.iter().map(|peer| peer.name.clone()).collect();
        let ledger = Ledger::open(directory, names)?;
        Ok(Self { config: config.clone(), rights, ipv6_prefix_len, outlets, queues, tls, ledger })
    }

    pub fn ledger(&self) -> Ledger {
        self.ledger.clone()
    }

    /// Warnings about rights that peers have because nothing is said of them.
    pub fn cautions(&self) -> Vec<String> {
        self.config.peers.iter().filter_map(PeerConfig::caution).collect()
    }

    pub fn outlets(&self) -> Outlets {
        self.outlets.clone()
    }
}

/// The supervisor's end.
pub(crate) struct Handovers {
    config: HandoverConfig,
    told: mpsc::SyncSender<Input>,
    board: Arc<Board>,
    ended: mpsc::Receiver<Ended>,
    /// Work for shard 0.
    jobs: mpsc::Receiver<Job>,
    /// Readable when there is any, or a hand-over has ended.
    woken: UnixStream,
    wake: Arc<UnixStream>,
    ledger: Ledger,
}

/// The protocol does nothing: until this is dropped, or for ever ([`Paused::for_good`]).
pub(crate) struct Paused {
    pub is_undecided: bool,
    resume: mpsc::Sender<()>,
}

impl Paused {
    pub fn for_good(self) {
        std::mem::forget(self.resume);
    }
}

impl Handovers {
    /// Starts the threads. `hands` are those of the shards behind the first. It goes on with `notes`.
    pub fn start(
        prepared: Prepared,
        hands: Vec<Hand>,
        shard_of: Box<dyn Fn(IpAddr) -> usize + Send + Sync>,
        lease: units::Duration,
        memory_max: u64,
        notes: Vec<Note>,
    ) -> Result<Self, IoError> {
        let failed = |error| IoError::system("start what hands subscribers over", error);
        let Prepared { config, rights, ipv6_prefix_len, outlets, queues, tls, ledger } = prepared;
        let (woken, wake) = UnixStream::pair().map_err(failed)?;
        woken.set_nonblocking(true).map_err(failed)?;
        wake.set_nonblocking(true).map_err(failed)?;
        let wake = Arc::new(wake);
        let (give, jobs) = mpsc::channel();
        let own_wake = Arc::clone(&wake);
        let own: Hand = Box::new(move |job| {
            drop(give.send(job));
            // A full pipe wakes as well.
            drop((&*own_wake).write(&[0]));
        });
        let all = std::iter::once(own).chain(hands).collect();
        let waiting = config.peers.iter().map(|_| Arc::default()).collect();
        let hands = Arc::new(Hands { all, shard_of, waiting });
        let connected = config.peers.iter().map(|_| AtomicBool::new(false)).collect();
        let board = Arc::new(Board { connected, ..Board::default() });
        let (told, inbox) = mpsc::sync_channel(QUEUE_MAX + config.peers.len() * MESSAGES_MAX);
        let (tell_ended, ended) = mpsc::channel();
        for ((number, peer), queue) in config.peers.iter().enumerate().zip(queues) {
            let peer_sender = peer_sender::PeerSender::new(peer, &tls, number, Arc::clone(&board))
                .map_err(|error| IoError::system("make a way to a peer", std::io::Error::other(error)))?;
            let name = format!("to-{}", peer.name);
            thread::Builder::new().name(name).spawn(move || peer_sender.run(&queue)).map_err(failed)?;
        }
        let addresses = config.peers.iter().map(|peer| peer.address.ip()).collect();
        let listener = peer_listener::PeerListener {
            tls,
            told: told.clone(),
            hands: Arc::clone(&hands),
            places: places::Places::new(addresses),
        };
        let listen = config.listen;
        thread::Builder::new()
            .name("listener".to_owned())
            .spawn(move || listener.run(listen))
            .map_err(failed)?;
        let protocol = handover::Config { lease, memory_max, ..handover::Config::default() };
        let random = getrandom::u64().map_err(|error| failed(error.into()))?;
        let wall_ms = Clock::wall_nanos() / 1_000_000;
        let wall_ms = wall_ms.saturating_sub(Clock::now().as_millis());
        let mut protocol = Handover::new(protocol, random, wall_ms);
        protocol.state_encapsulation(&config.encapsulation);
        protocol.state_ipv6_prefix_len(ipv6_prefix_len);
        for (number, rights) in rights.into_iter().enumerate() {
            protocol.state_rights(number as Peer, rights);
        }
        let line = ledger.line(protocol.line()).map_err(failed)?;
        protocol.remember_all(line, notes, Clock::now());
        let protocol = Protocol {
            protocol,
            ledger: ledger.clone(),
            hands,
            outlets,
            board: Arc::clone(&board),
            ended: tell_ended,
            wake: Arc::clone(&wake),
            asked: BTreeMap::new(),
            peers: config.peers.iter().map(|peer| peer.name.clone()).collect(),
            unheard: (0..config.peers.len() as Peer).collect(),
        };
        thread::Builder::new()
            .name("handover".to_owned())
            .spawn(move || protocol.run(&inbox))
            .map_err(failed)?;
        Ok(Self { config, told, board, ended, jobs, woken, wake, ledger })
    }

    /// Watch this for work.
    pub fn woken(&self) -> &UnixStream {
        &self.woken
    }

    /// Says that there is more work.
    pub fn wake_again(&self) {
        // A full pipe wakes as well.
        drop((&*self.wake).write(&[0]));
    }

    /// Takes what woke the waiter.
    pub fn hear(&self) {
        let mut sink = [0; 64];
        while matches!((&self.woken).read(&mut sink), Ok(len) if len > 0) {}
    }

    /// Work for shard 0.
    pub fn take_job(&self) -> Option<Job> {
        self.jobs.try_recv().ok()
    }

    /// Flows whose hosts are to be reset: nobody can go on with them.
    pub fn take_lost(&self) -> Vec<Left> {
        self.ledger.take_lost()
    }

    /// A hand-over that has ended.
    pub fn take_ended(&self) -> Option<Ended> {
        self.ended.try_recv().ok()
    }

    /// Name of a peer.
    pub fn name_of(&self, peer: Peer) -> String {
        self.config.peers.get(usize::from(peer)).map_or_else(String::new, |peer| peer.name.clone())
    }

    /// Begins to hand a subscriber over. The answer waits for the end, so it is not for the packet loop.
    ///
    /// # Errors
    /// One line: there is no such peer.
    pub fn begin(
        &self,
        client: IpAddr,
        to: &str,
    ) -> Result<Box<dyn FnOnce() -> Result<String, String> + Send>, String> {
        let names: Vec<&str> = self.config.peers.iter().map(|peer| peer.name.as_str()).collect();
        let Some(peer) = names.iter().position(|name| *name == to) else {
            return Err(format!("no peer '{to}'; there are: {}", names.join(", ")));
        };
        let (told, (answer, answered)) = (self.told.clone(), mpsc::channel());
        Ok(Box::new(move || {
            told.try_send(Input::Begin(client, peer as Peer, answer)).map_err(|_| "it is busy".to_owned())?;
            let said = answered.recv_timeout(PATIENCE);
            let said =
                said.map_err(|_| "it is still under way: `cellerator status` shows its end".to_owned())?;
            said.strip_prefix("stayed: ").map_or(Ok(said.clone()), |why| Err(why.to_owned()))
        }))
    }

    /// Begins to hand a subscriber over, as ordered; false when there is no such peer. What becomes of it is an
    /// event.
    pub fn obey(&self, order: &HandoverOrder) -> bool {
        let peer = self.config.peers.iter().position(|peer| peer.name == order.peer);
        let Some(peer) = peer else { return false };
        // Nobody waits for the answer.
        let (answer, _) = mpsc::channel();
        self.told.try_send(Input::Begin(order.subscriber, peer as Peer, answer)).is_ok()
    }

    /// Nothing is handed over or taken any more.
    pub fn end(&self) {
        self.board.is_to_end.store(true, Ordering::Release);
        // A protocol that has this much to do looks by itself.
        drop(self.told.try_send(Input::End));
    }

    /// Has the protocol stop; `work` does what it asks for meanwhile. None when it is too busy to answer.
    pub fn pause(&self, mut work: impl FnMut(Job)) -> Option<Paused> {
        let ((answer, answered), (resume, resumed)) = (mpsc::channel(), mpsc::channel());
        self.told.try_send(Input::Pause(answer, resumed)).ok()?;
        let give_up = Clock::now() + PAUSED_WITHIN;
        while Clock::now() < give_up {
            match answered.recv_timeout(std::time::Duration::from_micros(200)) {
                Ok(is_undecided) => return Some(Paused { is_undecided, resume }),
                Err(mpsc::RecvTimeoutError::Timeout) => {}
                Err(mpsc::RecvTimeoutError::Disconnected) => return None,
            }
            while let Some(job) = self.take_job() {
                work(job);
            }
        }
        None
    }

    /// Deletes the notes, which are of no use any more, if all is decided.
    pub fn close(self) {
        self.ledger.close();
    }

    /// True while it is not known who has a subscriber.
    pub fn is_undecided(&self) -> bool {
        // In this order: the protocol says first how it stands.
        self.board.is_to_end.load(Ordering::Acquire) || self.board.is_undecided.load(Ordering::Acquire)
    }

    /// Counts, by the names that `cellerator status` shows.
    pub fn named(&self) -> Vec<(String, u64)> {
        let counters = *self.board.counters.lock().unwrap_or_else(PoisonError::into_inner);
        let connected = self.board.connected.iter().filter(|one| one.load(Ordering::Relaxed)).count();
        let mut all = vec![
            ("handover_peers".to_owned(), self.config.peers.len() as u64),
            ("handover_peers_connected".to_owned(), connected as u64),
            ("handover_under_way".to_owned(), self.board.under_way.load(Ordering::Relaxed) as u64),
            ("handover_gone".to_owned(), counters.gone),
            ("handover_come".to_owned(), counters.come),
            ("handover_stayed".to_owned(), counters.stayed),
            ("handover_broken".to_owned(), counters.broken),
            ("handover_flows_gone".to_owned(), counters.flows[0]),
            ("handover_flows_come".to_owned(), counters.flows[1]),
            ("handover_bytes_sent".to_owned(), counters.bytes[0]),
            ("handover_bytes_taken".to_owned(), counters.bytes[1]),
            ("handover_packets_early".to_owned(), self.ledger.early()),
            ("handover_packets_refused".to_owned(), self.ledger.refused()),
            ("handover_loop_kept_us_max".to_owned(), self.ledger.kept_max().as_micros()),
        ];
        let refused = handover::Refusal::ALL.iter().zip(counters.refused);
        all.extend(refused.map(|(why, count)| (format!("handover_refused_{}", why.name()), count)));
        all
    }
}

/// Outcome of a hand-over, in a line; it begins with `stayed: ` if it stayed.
fn line_of(ended: &Ended) -> String {
    let [asking, copying, frozen] = ended.phases;
    match ended.outcome {
        HandoverOutcome::Gone | HandoverOutcome::Come => {
            let mut text = format!(
                "{} flows moved, with {} bytes of held data; asked for {asking}, copied for {copying}, nobody's for \
                 {frozen}",
                ended.flows, ended.bytes
            );
            for flow in ended.each.iter().take(SHOWN_MAX) {
                let FlowMoved { ends: FlowEnds { source, sink, .. }, held, record } = flow;
                let line = format!("\n  {source} to {sink}: {held} bytes of data, {record} of its record");
                text.push_str(&line);
            }
            if let Some(more) = ended.each.len().checked_sub(SHOWN_MAX).filter(|more| *more > 0) {
                let line = format!("\n  and {more} more");
                text.push_str(&line);
            }
            text
        }
        HandoverOutcome::Stayed(why) => format!("stayed: the other box: {why}"),
        HandoverOutcome::Unanswered => "stayed: the other box does not answer".to_owned(),
        HandoverOutcome::Unfrozen => "stayed: its flows could not be written down, or taken out".to_owned(),
        HandoverOutcome::Broken => "stayed: nobody could know who had it: its flows are reset".to_owned(),
    }
}

/// Event about the end of a hand-over.
pub(crate) fn event_of(ended: &Ended, peer: String) -> Event {
    let client = ended.subscriber.to_string();
    let way = if ended.is_going { "to" } else { "from" };
    match ended.outcome {
        HandoverOutcome::Gone | HandoverOutcome::Come => Event::SubscriberMoved {
            client,
            peer,
            way,
            moved: ended.flows as u64,
            held: ended.bytes,
            records: ended.each.iter().map(|flow| flow.record).sum(),
            most: ended.each.iter().map(|flow| flow.held).max().unwrap_or(0),
            frozen_us: ended.phases[2].as_micros(),
        },
        HandoverOutcome::Stayed(_)
        | HandoverOutcome::Unanswered
        | HandoverOutcome::Unfrozen
        | HandoverOutcome::Broken => {
            let why = line_of(ended);
            let why = why.strip_prefix("stayed: ").unwrap_or(&why).to_owned();
            Event::SubscriberNotMoved { client, peer, why }
        }
    }
}
