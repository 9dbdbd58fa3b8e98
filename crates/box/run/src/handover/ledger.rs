//! [`Ledger`]: what is written down of hand-overs ([`handover::Note`]), in files that outlive the process.
//!
//! ```text
//!   STATE/handover-NAMESPACE-NAME/ ─ line        what the nonces of its processes begin with
//!                                  ├ 10.45.0.2   a line of JSON (boot, names of peers), and the note
//!                                  └ …
//! ```
//!
//! A file is written whole under another name, which it changes then: who reads it later finds it as it was before,
//! or after.
//! Its times are by the machine's clock, so a note of another boot is none.

use std::fs;
use std::io::{BufWriter, Read, Write};
use std::net::IpAddr;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use engine::FlowEnds;
use handover::{Note, Ownership, Peer, ownership_of};
use io::{Clock, IoError, NamespaceId, create_private, create_private_directory, put_in_place};
use serde::{Deserialize, Serialize};
use units::Duration;

use crate::journal::Left;

/// File of the line.
const LINE: &str = "line";

/// Prefix of names of files that are not whole.
const NEW: &str = "new.";

/// Length below which notes are written together, bytes.
const BUFFER_LEN: usize = 16 * 1024;

/// The number of a peer that the settings do not name any more.
const NOBODY: Peer = Peer::MAX;

/// Header of a note.
#[derive(Serialize, Deserialize)]
struct Head {
    boot: String,
    peers: Vec<String>,
}

/// The notes of an instance, by its name.
#[derive(Clone, Debug)]
pub struct Ledger {
    directory: Arc<Path>,
    /// Names of the peers, by their numbers.
    peers: Arc<[String]>,
    boot: Arc<str>,
    /// The longest time for which a step of a hand-over has kept a packet loop, ns.
    kept_ns: Arc<AtomicU64>,
    /// Packets that came from other boxes before their flows.
    early: Arc<AtomicU64>,
    /// Packets that other boxes have sent on although they have no part in their flows.
    refused: Arc<AtomicU64>,
    /// Flows that this box cannot take back: their hosts are to be reset.
    lost: Arc<Mutex<Vec<Left>>>,
}

impl Ledger {
    /// Path of the notes of an instance.
    pub(crate) fn path(state: &Path, namespace: NamespaceId, name: &str) -> PathBuf {
        let number = namespace.cookie.unwrap_or(namespace.inode);
        state.join(format!("handover-{number}-{name}"))
    }

    /// Opens it, or begins one.
    ///
    /// # Errors
    /// The directory cannot be made.
    pub(crate) fn open(directory: PathBuf, peers: Vec<String>) -> Result<Self, IoError> {
        let failed = |error| IoError::system(format!("make {}", directory.display()), error);
        if let Some(parent) = directory.parent() {
            fs::create_dir_all(parent).map_err(failed)?;
        }
        // Notes have subscribers' data.
        create_private_directory(&directory).map_err(failed)?;
        let (kept_ns, early, refused, lost) = <(Arc<_>, Arc<_>, Arc<_>, Arc<_>)>::default();
        Ok(Self {
            directory: directory.into(),
            peers: peers.into(),
            boot: boot().into(),
            kept_ns,
            early,
            refused,
            lost,
        })
    }

    /// Notes flows that nobody goes on with.
    pub(crate) fn give_up(&self, flows: Vec<Left>) {
        self.lost.lock().unwrap_or_else(PoisonError::into_inner).extend(flows);
    }

    /// Takes those that were noted.
    pub(crate) fn take_lost(&self) -> Vec<Left> {
        std::mem::take(&mut *self.lost.lock().unwrap_or_else(PoisonError::into_inner))
    }

    /// Notes for how long a step of a hand-over has kept a packet loop.
    pub(crate) fn note_kept(&self, time: Duration) {
        self.kept_ns.fetch_max(time.as_nanos(), Ordering::Relaxed);
    }

    /// Notes that a packet has come before its flow.
    pub(crate) fn note_early(&self) {
        self.early.fetch_add(1, Ordering::Relaxed);
    }

    /// Number of such packets there were.
    pub(crate) fn early(&self) -> u64 {
        self.early.load(Ordering::Relaxed)
    }

    /// Notes that a box has sent a packet on that is none of its concern.
    pub(crate) fn note_refused(&self) {
        self.refused.fetch_add(1, Ordering::Relaxed);
    }

    /// Number of such packets there were.
    pub(crate) fn refused(&self) -> u64 {
        self.refused.load(Ordering::Relaxed)
    }

    /// The longest such time.
    pub(crate) fn kept_max(&self) -> Duration {
        Duration::from_nanos(self.kept_ns.load(Ordering::Relaxed))
    }

    /// Writes a note in place of what is there about its subscriber.
    pub(crate) fn write(&self, note: &Note) -> std::io::Result<()> {
        let head = Head { boot: self.boot.to_string(), peers: self.peers.to_vec() };
        let mut head = serde_json::to_vec(&head)?;
        head.push(b'\n');
        self.put(&note.name().subscriber.to_string(), |file| {
            file.write_all(&head)?;
            // Data that flows hold is written from where it lies: a packet loop may wait for this.
            let mut file = BufWriter::with_capacity(BUFFER_LEN, file);
            note.encode_to(&mut |piece| file.write_all(piece))?;
            file.flush()
        })
    }

    fn put(
        &self,
        name: &str,
        write: impl FnOnce(&mut fs::File) -> std::io::Result<()>,
    ) -> std::io::Result<()> {
        let new = self.directory.join(format!("{NEW}{name}"));
        let mut file = create_private(&new)?;
        write(&mut file)?;
        // A packet loop waits for this, and nothing is to outlive the machine.
        put_in_place(&new, &self.directory.join(name))
    }

    /// Crosses out what is there about a subscriber.
    pub(crate) fn erase(&self, subscriber: IpAddr) {
        // There may be nothing.
        drop(fs::remove_file(self.directory.join(subscriber.to_string())));
    }

    /// The line, which is `fresh` from here on if there is none yet.
    pub(crate) fn line(&self, fresh: u32) -> std::io::Result<u32> {
        let mut text = String::new();
        let file = fs::File::open(self.directory.join(LINE));
        let known = file.and_then(|mut file| file.read_to_string(&mut text)).ok();
        let known = known.and_then(|_| text.trim().split_once(' ')).filter(|(boot, _)| **boot == *self.boot);
        if let Some(line) = known.and_then(|(_, line)| line.parse().ok()) {
            return Ok(line);
        }
        self.put(LINE, |file| writeln!(file, "{} {fresh}", self.boot))?;
        Ok(fresh)
    }

    /// Takes over what is written down in another directory.
    pub(crate) fn take_over(&self, before: &Path) {
        let Ok(all) = fs::read_dir(before) else { return };
        for entry in all.flatten() {
            // What cannot be moved is forgotten, as if it had never been written.
            drop(fs::rename(entry.path(), self.directory.join(entry.file_name())));
        }
        drop(fs::remove_dir(before));
    }

    /// All notes, with the peers' numbers of now.
    pub(crate) fn read(&self) -> Vec<Note> {
        read(&self.directory, &self.boot)
            .into_iter()
            .map(|(peers, mut note)| {
                note.peers_mut().for_each(|peer| {
                    let name = peers.get(usize::from(*peer));
                    let number = self.peers.iter().position(|known| Some(known) == name);
                    *peer = number.map_or(NOBODY, |number| number as Peer);
                });
                note
            })
            .collect()
    }

    /// Removes what an instance has noted, whatever it is: nobody asks any more.
    pub(crate) fn forget(state: &Path, namespace: NamespaceId, name: &str) {
        // There is none without other boxes.
        drop(fs::remove_dir_all(Self::path(state, namespace, name)));
    }

    /// Removes it if nothing in it is undecided: nobody asks any more.
    pub(crate) fn close(self) {
        let is_decided = |note: &Note| matches!(note, Note::Over { .. } | Note::Holding(_));
        if self.read().iter().all(is_decided) {
            drop(fs::remove_dir_all(&self.directory));
        }
    }
}

/// Statements of the notes in a directory about flows of a journal.
pub(crate) struct PendingHandovers(Vec<Note>);

impl PendingHandovers {
    /// By the notes of an instance; none where it has none.
    pub fn read(state: &Path, namespace: NamespaceId, name: &str) -> Self {
        let notes = read(&Ledger::path(state, namespace, name), &boot());
        Self(notes.into_iter().map(|(_, note)| note).collect())
    }

    /// True when somebody must go on with them: flows are nobody's, or another box's whose packets come here, or
    /// have come from one, which sends on the packets that still come to it; or it may still ask.
    pub fn are_awaited(&self) -> bool {
        let now = Clock::now();
        self.0.iter().any(|note| match note {
            Note::Over { until, .. } => *until > now,
            Note::Frozen { .. } | Note::Holding(_) | Note::Taking(_) | Note::Taken(_) => true,
        })
    }

    /// Ownership of a flow of its journal.
    pub fn of(&self, left: &Left) -> Ownership {
        let (sink, source) = (left.entry.sink, left.entry.source);
        let flow = FlowEnds { is_downlink: left.receiver == engine::Port::Mobile, sink, source };
        ownership_of(&self.0, &flow, Clock::now())
    }
}

/// Notes of this boot, each with the names of its peers.
fn read(directory: &Path, boot: &str) -> Vec<(Vec<String>, Note)> {
    let Ok(all) = fs::read_dir(directory) else { return Vec::new() };
    let paths = all.filter_map(|entry| Some(entry.ok()?.path()));
    let named = |path: &PathBuf| {
        let name = path.file_name().and_then(|name| name.to_str()).unwrap_or(LINE);
        name != LINE && !name.starts_with(NEW)
    };
    let note = |path: PathBuf| parse(&fs::read(path).ok()?, boot);
    let mut all: Vec<_> = paths.filter(named).filter_map(note).collect();
    all.sort_by_key(|(_, note)| note.name());
    all
}

/// The note in the bytes of a file, with the names of its peers; none of another boot.
pub(crate) fn parse(bytes: &[u8], boot: &str) -> Option<(Vec<String>, Note)> {
    let end = bytes.iter().position(|byte| *byte == b'\n')?;
    let head: Head = serde_json::from_slice(&bytes[..end]).ok()?;
    (head.boot == boot).then_some(())?;
    Some((head.peers, Note::decode(&bytes[end + 1..]).ok()?))
}

/// The machine's boot; empty where it does not say.
fn boot() -> String {
    fs::read_to_string("/proc/sys/kernel/random/boot_id").unwrap_or_default().trim().to_owned()
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt;

    use handover::{Gone, Name};
    use units::Instant;

    use super::*;

    #[test]
    fn notes_outlive_who_wrote_them_and_know_peers_by_name() {
        let folder = tempfile::tempdir().unwrap();
        let directory = folder.path().join("notes");
        let open = |peers: &[&str]| {
            let peers = peers.iter().map(|&name| name.to_owned()).collect();
            Ledger::open(directory.clone(), peers).unwrap()
        };
        let name = |last: u8| Name { subscriber: [10, 0, 0, last].into(), epoch: 1, nonce: 2 };
        let over = |last, to| Note::Over {
            name: name(last),
            refused: None,
            gone: Some(Gone { to, flows: Vec::new() }),
            until: Instant::FAR_FUTURE,
            shared: None,
        };
        let ledger = open(&["north", "south"]);
        assert_eq!((ledger.line(7).unwrap(), ledger.line(8).unwrap()), (7, 7));
        ledger.write(&over(1, 1)).unwrap();
        ledger.write(&over(1, 0)).unwrap();
        ledger.write(&over(2, 1)).unwrap();
        ledger.write(&over(3, 1)).unwrap();
        ledger.erase(name(3).subscriber);
        std::fs::write(directory.join("new.10.0.0.9"), "half").unwrap();
        std::fs::write(directory.join("10.0.0.8"), "damaged").unwrap();
        assert_eq!(ledger.read(), [over(1, 0), over(2, 1)]);
        let mode = |path: &Path| fs::metadata(path).unwrap().permissions().mode() & 0o777;
        assert_eq!(mode(&directory), 0o700);
        assert_eq!(
            ["10.0.0.1", "line"].map(|name| mode(&directory.join(name))),
            [0o600; 2],
            "subscribers' data"
        );
        let other = open(&["south"]);
        assert_eq!(other.read(), [over(1, NOBODY), over(2, 0)], "as the settings are now");
        assert_eq!(other.line(9).unwrap(), 7);
        let later = Ledger { boot: "another".into(), ..open(&["north", "south"]) };
        assert!(later.read().is_empty(), "times mean nothing");
        assert_eq!([later.line(9).unwrap(), ledger.line(11).unwrap()], [9, 11], "nor do nonces");
        let elsewhere = directory.with_extension("new");
        let new = Ledger::open(elsewhere.clone(), vec!["north".to_owned()]).unwrap();
        new.take_over(&directory);
        assert_eq!((new.read(), directory.exists()), (vec![over(1, 0), over(2, NOBODY)], false));
        new.close();
        assert!(!elsewhere.exists());
        drop(ledger);
    }

    /// Time that this thread has had a processor, ns.
    fn worked() -> u64 {
        let said = fs::read_to_string("/proc/thread-self/schedstat").unwrap();
        said.split_ascii_whitespace().next().unwrap().parse().unwrap()
    }

    #[test]
    #[ignore = "a measurement: make long-test"]
    fn a_note_of_much_data_is_written_without_another_copy_of_it() {
        let folder = tempfile::tempdir().unwrap();
        let ledger = Ledger::open(folder.path().to_owned(), vec!["north".to_owned()]).unwrap();
        let subscriber = [10, 0, 0, 1].into();
        let moved = |port| {
            let sink = std::net::SocketAddr::new(subscriber, port);
            let ends = FlowEnds { is_downlink: true, sink, source: ([192, 0, 2, 1], 443).into() };
            engine::HandoverFlow { ends, record: engine::FlowRecord::default(), clock_ms: 0 }
        };
        let flows = (0..48).map(|port| (moved(port), vec![7; 480_000])).collect();
        let name = Name { subscriber, epoch: 1, nonce: 2 };
        let note = Note::Frozen { name, to: 0, broken_at: Instant::FAR_FUTURE, flows };
        let timed = |work: &dyn Fn()| {
            (0..9)
                .map(|_| {
                    let before = worked();
                    work();
                    worked() - before
                })
                .min()
                .unwrap()
        };
        let copied = timed(&|| ledger.put("copied", |file| file.write_all(&note.encode())).unwrap());
        let written = timed(&|| ledger.write(&note).unwrap());
        let Note::Frozen { flows, .. } = &note else { unreachable!() };
        let taken_out = timed(&|| drop(flows.clone()));
        println!(
            "23 MB: {} µs with a copy, {} without; to take them out of an engine about {}",
            copied / 1_000,
            written / 1_000,
            taken_out / 1_000
        );
        assert!(written < copied, "{written} and {copied} ns");
    }
}
