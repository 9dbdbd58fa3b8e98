//! [`InheritedResources`]: what the watchdog keeps of the process that it watches, so that a successor can go on with
//! its flows when it dies.
//!
//! ```text
//!   process ── Inventory, descriptors ──▶ watchdog ── the same ──▶ successor ── taken ──▶ watchdog
//!              queues, links, maps,       (death)                   has the flows         lets go
//!              owner of the nft table, held data
//! ```
//!
//! As long as the watchdog has them, packets wait in the queues of the devices, programs or rules go on
//! steering into those, and held data is there. It writes the heartbeat meanwhile, without which the programs
//! would let packets pass. The successor makes no devices and attaches nothing: what steered into the queues of
//! the dead one steers into its own.
//!
//! The queues of a bridge are its sockets: frames wait in them, and the program before the kernel's bridge, if
//! one stands by, goes on keeping them from it.

use std::net::SocketAddr;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::net::UnixStream;
use std::sync::atomic::Ordering;

use io::bpf::SharedArray;
use io::{Clock, FrameSocket, IoError, TunQueue};
use serde::{Deserialize, Serialize};
use units::Duration;

use crate::lasting::{Lasting, LastingPrograms};
use crate::record::Record;
use crate::steering::program::HEARTBEAT_WORD;

/// Said by the successor: it has the flows.
pub(crate) const TAKEN: u8 = b't';

/// Longest list of what there is, as text.
const TEXT_LEN_MAX: usize = 64 * 1024;

/// Deaths within this time count together.
const DEATHS_WITHIN: Duration = Duration::from_secs(60);

/// Resources that are kept, in the order of their descriptors.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Inventory {
    /// The process that is watched.
    pub process: u32,
    /// Of each, two queues: wired, mobile.
    pub shards: usize,
    /// Super-packets come out of the queues.
    pub gso: bool,
    /// The devices of the queues: wired, mobile.
    pub tuns: [String; 2],
    /// Programs at work: at the wired interface, at the mobile one.
    pub links: usize,
    /// Words of the array with the heartbeat; none where there are no programs. It is followed by the map of
    /// passed flows, but of a bridge.
    pub shared_words: usize,
    /// It bridges: the queues are sockets at its two interfaces.
    #[serde(default)]
    pub is_bridge: bool,
    /// There is an nft table.
    #[serde(rename = "has_lifeline")]
    pub has_table_owner: bool,
    /// Of each shard, whether its held data can be found.
    pub has_memory: Vec<bool>,
    /// Longest time that packets may wait for a successor, ms.
    pub within_ms: u64,
    /// Times at which processes of this line have died within a minute, ms by the clock.
    pub deaths_ms: Vec<u64>,
    /// Fate of all that have died.
    #[serde(default)]
    pub history: History,
    /// Number of those within a minute after which nobody goes on.
    pub deaths_max: usize,
    /// Longest time that it takes for its end, ms: somebody has asked for that, and who goes on ends too.
    #[serde(default)]
    pub ends_within_ms: Option<u64>,
    /// Time without a heartbeat after which the programs let packets pass, ms.
    #[serde(default)]
    pub hang_after_ms: u64,
    /// Reports of base stations come in by a socket.
    #[serde(default)]
    pub has_reports: bool,
    /// Held data, bytes.
    #[serde(default)]
    pub held: u64,
    /// Flows, as a processor counts them.
    #[serde(default)]
    pub flows: u64,
    /// Record of what the process has set up; none where another one has that, or nobody keeps it.
    #[serde(default)]
    pub record: Option<Record>,
    /// Number of shards that have journals, two each.
    #[serde(default)]
    pub journals: usize,
    /// The process hung, and was killed for it.
    #[serde(default)]
    pub has_hung: bool,
    /// Flows, by sink and source, that were being handled at the last death, if it was one by itself.
    pub suspects: Vec<(SocketAddr, SocketAddr)>,
    /// Program and arguments of a successor; the record of the dead one is appended.
    pub successor: Vec<String>,
}

impl Inventory {
    /// True when another process can go on with what is kept.
    pub fn has_successor(&self) -> bool {
        self.shards > 0 && !self.successor.is_empty()
    }

    /// Number of descriptors; as many as can be counted where there are more.
    pub(crate) fn descriptors(&self) -> usize {
        let memories = self.has_memory.iter().filter(|has| **has).count();
        let maps = usize::from(self.has_shared()) + usize::from(self.has_passed());
        let sockets = usize::from(self.has_table_owner) + usize::from(self.has_reports);
        let pairs = self.shards.saturating_add(self.journals).saturating_mul(2);
        pairs.saturating_add(self.links).saturating_add(maps + sockets + memories)
    }

    fn has_shared(&self) -> bool {
        self.shared_words > 0
    }

    fn has_passed(&self) -> bool {
        self.has_shared() && !self.is_bridge
    }

    /// The same with what is lasting of an attachment; its descriptors.
    pub fn note<'a>(&mut self, lasting: &Lasting<'a>) -> Vec<BorrowedFd<'a>> {
        self.is_bridge = lasting.tuns.is_none();
        self.tuns = lasting.tuns.clone().unwrap_or_default();
        let mut descriptors = Vec::new();
        if let Some(LastingPrograms { links, passed, shared: (shared, words) }) = &lasting.programs {
            (self.links, self.shared_words) = (links.len(), *words);
            descriptors.extend(links.iter().chain([shared]).chain(passed).copied());
        }
        self.has_table_owner = lasting.table_owner.is_some();
        descriptors.extend(lasting.table_owner);
        descriptors
    }

    /// Notes a death now; false when there were too many for another start.
    pub fn note_death(&mut self) -> bool {
        let now = Clock::now().as_millis();
        let is_last = is_last(&self.deaths_ms, self.deaths_max);
        self.deaths_ms.retain(|at| now.saturating_sub(*at) < DEATHS_WITHIN.as_millis());
        self.deaths_ms.push(now);
        self.history.deaths = self.history.deaths.saturating_add(1);
        self.history.last_death_ms = now;
        !is_last
    }
}

/// The deaths in a line of processes, each of which went on with the flows of the one before.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct History {
    /// Number of deaths.
    pub deaths: u64,
    /// Time of the last one, ms by the clock.
    pub last_death_ms: u64,
    /// Flows that another process went on with.
    pub recovered: u64,
    /// Flows that were owed something, and were reset.
    pub lost: u64,
    /// Upgrades: a process took another one's place with its devices.
    #[serde(default, rename = "hand_overs")]
    pub upgrades: u64,
}

/// True when nobody would go on after another death now, given the deaths at `deaths_ms` by the clock.
pub(crate) fn is_last(deaths_ms: &[u64], deaths_max: usize) -> bool {
    let now = Clock::now().as_millis();
    let recent = deaths_ms.iter().filter(|at| now.saturating_sub(**at) < DEATHS_WITHIN.as_millis());
    recent.count() + 1 >= deaths_max
}

/// The descriptors with their list.
#[derive(Debug)]
pub(crate) struct InheritedResources {
    pub inventory: Inventory,
    pub queues: Vec<OwnedFd>,
    pub links: Vec<OwnedFd>,
    pub shared: Option<SharedArray>,
    pub passed: Option<OwnedFd>,
    pub table_owner: Option<OwnedFd>,
    pub reports: Option<OwnedFd>,
    pub journals: Vec<OwnedFd>,
    pub memories: Vec<OwnedFd>,
}

impl InheritedResources {
    /// Those that came beside `text`.
    ///
    /// # Errors
    /// When they are not what the text says.
    pub fn parse(text: &[u8], descriptors: Vec<OwnedFd>) -> Result<Self, IoError> {
        let senseless = |why: String| IoError::Invalid {
            what: "what is kept for a successor".to_owned(),
            why: io::one_line(why),
        };
        let inventory: Inventory =
            serde_json::from_slice(text).map_err(|error| senseless(error.to_string()))?;
        if inventory.descriptors() != descriptors.len() {
            let (wanted, came) = (inventory.descriptors(), descriptors.len());
            return Err(senseless(format!("{came} descriptors came in place of {wanted}")));
        }
        let mut descriptors = descriptors.into_iter();
        let mut take = |n: usize| descriptors.by_ref().take(n).collect::<Vec<_>>();
        let (queues, links) = (take(2 * inventory.shards), take(inventory.links));
        let words = inventory.shared_words;
        let shared = take(usize::from(inventory.has_shared())).pop();
        let shared = shared.map(|fd| SharedArray::open(fd, words)).transpose()?;
        let passed = take(usize::from(inventory.has_passed())).pop();
        let table_owner = take(usize::from(inventory.has_table_owner)).pop();
        let reports = take(usize::from(inventory.has_reports)).pop();
        let journals = take(2 * inventory.journals);
        let memories = descriptors.collect();
        Ok(Self { inventory, queues, links, shared, passed, table_owner, reports, journals, memories })
    }

    /// Lets the programs go on as if the process lived.
    pub fn beat(&self) {
        let words = self.shared.as_ref().map_or(&[][..], SharedArray::words);
        if let Some(word) = words.get(HEARTBEAT_WORD) {
            word.store(Clock::now().as_nanos(), Ordering::Relaxed);
        }
    }

    /// Lets the programs go on as if the process had shown that it is alive; false when it was silent for
    /// `hang_after`: then they have let packets pass already, and go on to do so, and the process sees by the
    /// age of the last sign of life that they did.
    pub fn beat_in_time(&self, hang_after: Duration) -> bool {
        let words = self.shared.as_ref().map_or(&[][..], SharedArray::words);
        let Some(word) = words.get(HEARTBEAT_WORD) else { return true };
        let before = word.load(Ordering::Relaxed);
        let is_in_time = |now: u64| now.saturating_sub(before) < hang_after.as_nanos();
        let now = Clock::now().as_nanos();
        if !is_in_time(now) {
            return false;
        }
        // The process may have done so itself by this time.
        let is_ours = word.compare_exchange(before, now, Ordering::Relaxed, Ordering::Relaxed).is_ok();
        if is_ours && !is_in_time(Clock::now().as_nanos()) {
            // This one had no processor in between: what is written says too much.
            _ = word.compare_exchange(now, 0, Ordering::Relaxed, Ordering::Relaxed);
            return false;
        }
        true
    }

    /// True when no packet has gone past the queues since the process died: programs let them pass after
    /// `hang_after` without a heartbeat, and without programs nothing does.
    pub fn is_fresh(&self, hang_after: Duration) -> bool {
        let words = self.shared.as_ref().map_or(&[][..], SharedArray::words);
        let last = words.get(HEARTBEAT_WORD).map(|word| word.load(Ordering::Relaxed));
        last.is_none_or(|last| Clock::now().as_nanos().saturating_sub(last) < (hang_after * 3 / 4).as_nanos())
    }

    /// Sends copies of them to `stream`.
    ///
    /// # Errors
    /// When nobody is there.
    pub fn send(&self, stream: &UnixStream) -> Result<(), IoError> {
        let shared = self.shared.as_ref().map(AsFd::as_fd);
        let sockets = self.table_owner.iter().chain(&self.reports);
        let others = shared.into_iter().chain(self.passed.iter().chain(sockets).map(AsFd::as_fd));
        let all = self.queues.iter().chain(&self.links).map(AsFd::as_fd).chain(others);
        let all = all.chain(self.journals.iter().map(AsFd::as_fd));
        let all: Vec<_> = all.chain(self.memories.iter().map(AsFd::as_fd)).collect();
        send(stream, &[], &self.inventory, &all)
    }

    /// Receives what was sent so.
    ///
    /// # Errors
    /// When it does not come whole.
    pub fn receive(stream: &UnixStream) -> Result<Self, IoError> {
        let mut text = vec![0; TEXT_LEN_MAX];
        let (mut len, mut all) = (0, Vec::new());
        while !text[..len].ends_with(b"\n") && len < text.len() {
            let (more, descriptors) = io::receive_with_descriptors(stream, &mut text[len..])?;
            all.extend(descriptors);
            if more == 0 {
                break;
            }
            len += more;
        }
        Self::parse(&text[..len], all)
    }

    /// The queues of each shard, of the wired and of the mobile device: packets wait in them.
    pub fn take_queues(&mut self) -> Vec<[TunQueue; 2]> {
        let [wired, mobile] = self.inventory.tuns.clone();
        let mut queues = std::mem::take(&mut self.queues).into_iter();
        let pairs = std::iter::from_fn(|| Some([queues.next()?, queues.next()?]));
        pairs.map(|[a, b]| [TunQueue::adopt(a, &wired), TunQueue::adopt(b, &mobile)]).collect()
    }

    /// The sockets of a bridge at `interfaces`, wired and mobile: frames wait in them.
    pub fn take_sockets(&mut self, interfaces: [&str; 2]) -> Option<[FrameSocket; 2]> {
        let queues: [OwnedFd; 2] = std::mem::take(&mut self.queues).try_into().ok()?;
        let [wired, mobile] = queues;
        Some([FrameSocket::adopt(wired, interfaces[0]), FrameSocket::adopt(mobile, interfaces[1])])
    }

    /// The held data of each shard.
    pub fn take_memories(&mut self) -> Vec<Option<OwnedFd>> {
        let mut memories = std::mem::take(&mut self.memories).into_iter();
        self.inventory.has_memory.iter().map(|has| if *has { memories.next() } else { None }).collect()
    }
}

/// Sends a list and its descriptors, behind `words`.
///
/// # Errors
/// When nobody is there.
pub(crate) fn send(
    stream: &UnixStream,
    words: &[u8],
    inventory: &Inventory,
    descriptors: &[BorrowedFd<'_>],
) -> Result<(), IoError> {
    // Strings and numbers always have a JSON form.
    let text = serde_json::to_vec(inventory).unwrap_or_default();
    io::send_with_descriptors(stream, &[words, &text, b"\n"].concat(), descriptors)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_beyond_counting_are_refused_or_stay() {
        let half = Inventory { shards: usize::MAX / 2 + 1, links: 7, ..Inventory::default() };
        assert_eq!(half.descriptors(), usize::MAX);
        let why = InheritedResources::parse(&serde_json::to_vec(&half).unwrap(), Vec::new()).unwrap_err();
        assert!(why.to_string().contains("0 descriptors came"), "{why}");
        let history = History { deaths: u64::MAX, ..History::default() };
        let mut last = Inventory { history, ..Inventory::default() };
        last.note_death();
        assert_eq!(last.history.deaths, u64::MAX);
    }

    #[test]
    fn what_is_kept_of_a_bridge_comes_as_it_was() {
        let map = SharedArray::create("cell_test", 1).unwrap();
        let file = |n: u8| {
            let mut file = io::StateFile::create().unwrap();
            file.append(&[n]).unwrap();
            file.finish().unwrap()
        };
        let files: Vec<OwnedFd> = (0..5).map(file).collect();
        let [wired, mobile, links @ .., memory] = files.as_slice() else { panic!("five files") };
        let mut inventory = Inventory { shards: 1, has_memory: vec![true], ..Inventory::default() };
        let programs = LastingPrograms {
            links: links.iter().map(AsFd::as_fd).collect(),
            passed: None,
            shared: (map.as_fd(), 1),
        };
        let noted = inventory.note(&Lasting { tuns: None, programs: Some(programs), table_owner: None });
        let all: Vec<_> =
            [wired.as_fd(), mobile.as_fd()].into_iter().chain(noted).chain([memory.as_fd()]).collect();
        let (own, theirs) = UnixStream::pair().unwrap();
        send(&own, &[], &inventory, &all).unwrap();
        let mut kept = InheritedResources::receive(&theirs).unwrap();
        assert!(kept.inventory.is_bridge && kept.passed.is_none() && kept.shared.is_some());
        assert!(!kept.is_fresh(Duration::from_millis(100)), "it has never beaten");
        kept.beat();
        assert!(map.words()[HEARTBEAT_WORD].load(Ordering::Relaxed) > 0, "the same heart");
        assert!(kept.is_fresh(Duration::from_secs(60)));
        assert_eq!((kept.links.len(), kept.take_memories().iter().flatten().count()), (2, 1));
        assert!(kept.beat_in_time(Duration::from_secs(60)));
        map.words()[HEARTBEAT_WORD].store(1, Ordering::Relaxed);
        assert!(!kept.beat_in_time(Duration::from_millis(100)), "packets have gone past");
        assert_eq!(map.words()[HEARTBEAT_WORD].load(Ordering::Relaxed), 1, "which can be seen");
        let sockets = kept.take_sockets(["w0", "m0"]).unwrap();
        assert_eq!(sockets.each_ref().map(FrameSocket::name), ["w0", "m0"]);
        assert!(kept.take_sockets(["w0", "m0"]).is_none(), "taken");
    }
}
