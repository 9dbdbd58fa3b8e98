//! [`Console`]: the control socket of a running instance, and who asks through it.
//!
//! A Unix socket in the instance's directory, which only root may enter. One question per
//! connection: a line of JSON there, a line of JSON back. A thread does the talking, so that the
//! packet loop only answers what is ready. Who asks for a hand-over is answered at its end, by a thread of its own.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::{IpAddr, Shutdown};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::fs::MetadataExt;
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError, mpsc};
use std::thread::{self, JoinHandle};
use std::time::Duration;

use io::{Instance, IoError, Running};
use serde::{Deserialize, Serialize};

use crate::herald::{Herald, Wishes};
use crate::record::Record;
use crate::{AbReport, FlowList, Offer, Snapshot, Status, SubscriberList, SubscriberView, leftovers};

/// Name of the socket in an instance's directory.
const SOCKET: &str = "console";

/// Longest question.
const QUESTION_LEN_MAX: u64 = 4_096;

/// How long either end may take to say or to take in its line.
const PATIENCE: Duration = Duration::from_secs(10);

/// Time between two attempts to take in a connection that could not be taken in.
const ACCEPT_PAUSE: Duration = Duration::from_millis(100);

/// Questions that wait for the end of what they are about, at most.
const WAITING_MAX: usize = 256;

/// What can be asked of a running instance.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Question {
    /// Counters and levels.
    Status,
    /// What is shown as metrics.
    Metrics,
    /// Tell what happens from here on: the answer is one line, and what was wished follows, a line of JSON each.
    Listen(Wishes),
    /// Flows from the `skip`th on; the answer is a part of bounded size, empty behind the last one.
    Flows {
        /// Flows to leave out.
        skip: usize,
    },
    /// Subscribers from a place on, 0 or where the answer before says: a part of bounded size.
    Subscribers {
        /// The place.
        from: u64,
    },
    /// A subscriber, and part of its flows, from a place on: 0, or where the answer before says.
    Subscriber {
        /// An address of it.
        client: IpAddr,
        /// The place.
        from: u64,
    },
    /// Stop early acknowledgements, deliver what is owed, hand the flows back, and end.
    Drain {
        /// Longest time for it, ms; the instance's own setting if not given.
        time_ms_max: Option<u64>,
    },
    /// Hand a subscriber over to another box, with its flows; the answer comes when that has ended.
    Roam {
        /// An address of it.
        client: IpAddr,
        /// What the other box is called in the settings.
        to: String,
    },
    /// Read the settings anew.
    Reload,
    /// Begin an A/B phase: half of the subscribers are passed from here on, for comparison.
    BeginAb {
        /// How long it lasts, ms.
        time_ms: u64,
        /// Which half; from the clock if not given.
        seed: Option<u32>,
    },
    /// End the A/B phase under way.
    EndAb,
    /// The comparison of the A/B phase that is under way, or was last.
    Ab,
    /// Share with the instance that asks what leads packets here, and go on.
    Share(Offer),
    /// Hand all flows over to the instance that asks, and end.
    HandOver(Offer),
}

/// What a running instance answers.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Answer {
    /// To [`Question::Status`].
    Status(Box<Status>),
    /// To [`Question::Metrics`].
    Metrics(Box<Snapshot>),
    /// To [`Question::Flows`].
    Flows(FlowList),
    /// To [`Question::Subscribers`].
    Subscribers(SubscriberList),
    /// To [`Question::Subscriber`].
    Subscriber(Box<SubscriberView>),
    /// To [`Question::Ab`], [`Question::BeginAb`] and [`Question::EndAb`].
    Ab(Box<AbReport>),
    /// It is done, or begun, with one line of comment.
    Done(String),
    /// It cannot be done; why, in one line.
    Refused(String),
}

/// The instance's end of the socket.
#[derive(Debug)]
pub(crate) struct Console {
    questions: mpsc::Receiver<Asked>,
    /// Readable when there is a question.
    wake: UnixStream,
    /// The same, for whoever looks after each turn.
    is_asked: Arc<AtomicBool>,
    path: PathBuf,
    is_closing: Arc<AtomicBool>,
    guest: Guest,
    is_answered: Arc<AtomicBool>,
    herald: Herald,
    /// None while there is no room for a socket.
    listening: Option<Listening>,
}

/// Where a thread waits for connections.
#[derive(Debug)]
struct Listening {
    /// The listening socket: shut down, it has the thread end.
    socket: UnixStream,
    /// Device and number of the socket's file: another one of this name is not ours.
    file: Option<(u64, u64)>,
    thread: JoinHandle<()>,
}

/// Who is being served: cut off at the end, or one that says nothing would keep everything waiting.
type Guest = Arc<Mutex<Option<UnixStream>>>;

/// A question that waits for its answer.
#[derive(Debug)]
pub(crate) struct Asked {
    pub question: Question,
    answer: mpsc::Sender<Reply>,
    /// Who asked is not to be cut off any more.
    is_answered: Arc<AtomicBool>,
}

/// An answer, finished by the thread that does the talking: it may wait where the packet loop may not.
pub(crate) type Reply = Box<dyn FnOnce() -> Answer + Send>;

impl Asked {
    /// Answers; nobody minds if who asked has gone.
    pub fn answer(self, reply: Reply) {
        self.is_answered.store(true, Ordering::SeqCst);
        drop(self.answer.send(reply));
    }
}

impl Console {
    /// Opens the socket in an instance's directory.
    /// Whoever wants to hear what happens is handed over to `herald`.
    pub fn open(directory: &Path, herald: Herald) -> Result<Self, IoError> {
        let path = directory.join(SOCKET);
        let failed = |error| IoError::system(format!("open the control socket {}", path.display()), error);
        let listener = UnixListener::bind(&path).map_err(failed)?;
        let file = place_of(&path);
        let socket = UnixStream::from(OwnedFd::from(listener.try_clone().map_err(failed)?));
        let (mut console, mut desk) = Self::closed(path.clone(), herald)?;
        let (is_over, served) = (Arc::clone(&console.is_closing), Arc::clone(&console.guest));
        let thread = thread::Builder::new()
            .name("console".to_owned())
            .spawn(move || listen(&listener, &mut desk, (&is_over, &served)))
            .map_err(failed)?;
        console.listening = Some(Listening { socket, file, thread });
        Ok(console)
    }

    /// One that nobody can reach, for a process that must go on without room for a socket.
    ///
    /// # Errors
    /// When no descriptor is left.
    pub fn nowhere(herald: Herald) -> Result<Self, IoError> {
        let (console, desk) = Self::closed(PathBuf::new(), herald)?;
        // Its end of the pair would be taken for a question.
        std::mem::forget(desk.waker);
        Ok(console)
    }

    /// One whose thread is still to be started, with what that thread needs.
    fn closed(path: PathBuf, herald: Herald) -> Result<(Self, Desk), IoError> {
        let failed = |error| IoError::system("open a pair of sockets", error);
        let (wake, waker) = UnixStream::pair().map_err(failed)?;
        wake.set_nonblocking(true).map_err(failed)?;
        waker.set_nonblocking(true).map_err(failed)?;
        let (ask, questions) = mpsc::channel();
        let is_asked = Arc::new(AtomicBool::new(false));
        let is_answered = Arc::new(AtomicBool::new(false));
        let desk = Desk {
            ask,
            waker,
            is_asked: Arc::clone(&is_asked),
            is_answered: Arc::clone(&is_answered),
            herald: herald.clone(),
            waiting: Arc::default(),
        };
        let (is_closing, guest) = (Arc::default(), Guest::default());
        let console =
            Self { questions, wake, is_asked, path, is_closing, guest, is_answered, herald, listening: None };
        Ok((console, desk))
    }

    /// True when its socket is where others look for it.
    pub fn is_there(&self) -> bool {
        let listening = self.listening.as_ref();
        listening.is_some_and(|listening| listening.file.is_some() && place_of(&self.path) == listening.file)
    }

    /// Where it is told what happens.
    pub fn herald(&self) -> Herald {
        self.herald.clone()
    }

    /// True when a question has come: as cheap as a look can be, for a loop that does not wait.
    pub fn is_asked(&self) -> bool {
        self.is_asked.load(Ordering::Relaxed)
    }

    /// The next question, if there is one.
    pub fn take(&self) -> Option<Asked> {
        let mut sink = [0; 16];
        while matches!((&self.wake).read(&mut sink), Ok(n) if n > 0) {}
        // Before the question is taken: one that comes in between is looked for again.
        self.is_asked.store(false, Ordering::SeqCst);
        self.questions.try_recv().ok()
    }
}

impl AsFd for Console {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.wake.as_fd()
    }
}

impl Drop for Console {
    fn drop(&mut self) {
        self.is_closing.store(true, Ordering::SeqCst);
        // Whoever waits for an answer is told that there will be none.
        let (_, nobody) = mpsc::channel();
        self.questions = nobody;
        if let Some(guest) = self.guest.lock().unwrap_or_else(PoisonError::into_inner).as_ref() {
            // An answer that was given is still brought: that to a drain which had nothing to do
            // ends us at once.
            let is_answered = self.is_answered.load(Ordering::SeqCst);
            let how = if is_answered { Shutdown::Read } else { Shutdown::Both };
            // It may have gone by itself.
            drop(guest.shutdown(how));
        }
        let is_there = self.is_there();
        let Some(Listening { socket, thread, .. }) = self.listening.take() else { return };
        // It waits for a connection no longer.
        drop(socket.shutdown(Shutdown::Both));
        drop(thread.join());
        if is_there {
            drop(std::fs::remove_file(&self.path));
        }
    }
}

/// Device and number of a file.
fn place_of(path: &Path) -> Option<(u64, u64)> {
    let file = std::fs::symlink_metadata(path).ok()?;
    Some((file.dev(), file.ino()))
}

/// Where the thread that does the talking hands questions in.
#[derive(Debug)]
struct Desk {
    ask: mpsc::Sender<Asked>,
    waker: UnixStream,
    is_asked: Arc<AtomicBool>,
    is_answered: Arc<AtomicBool>,
    herald: Herald,
    /// Threads that answer later.
    waiting: Arc<AtomicUsize>,
}

/// Serves one connection after the other.
fn listen(listener: &UnixListener, desk: &mut Desk, (is_over, guest): (&AtomicBool, &Guest)) {
    for stream in listener.incoming() {
        let is_admitted = || {
            let mut guest = guest.lock().unwrap_or_else(PoisonError::into_inner);
            desk.is_answered.store(false, Ordering::SeqCst);
            *guest = stream.as_ref().ok().and_then(|stream| stream.try_clone().ok());
            // Looked at with the lock held: whoever comes in is either cut off by the end, or sees it.
            !is_over.load(Ordering::SeqCst)
        };
        if !is_admitted() {
            return;
        }
        match &stream {
            // Who asked and has gone has lost nothing but the answer.
            Ok(stream) => {
                drop(serve(stream, desk));
                guest.lock().unwrap_or_else(PoisonError::into_inner).take();
            }
            // No descriptor is left, as a rule: who knocks goes on knocking.
            Err(_) => thread::park_timeout(ACCEPT_PAUSE),
        }
    }
}

fn serve(mut stream: &UnixStream, desk: &mut Desk) -> std::io::Result<()> {
    stream.set_read_timeout(Some(PATIENCE))?;
    stream.set_write_timeout(Some(PATIENCE))?;
    let mut line = String::new();
    BufReader::new(stream.take(QUESTION_LEN_MAX)).read_line(&mut line)?;
    let answer = match question_of(&line) {
        Ok(Question::Listen(wishes)) => return desk.hand_over(stream, wishes),
        Ok(question @ Question::Roam { .. }) => return desk.answer_later(stream, question),
        Ok(question) => desk.reply_to(question)(),
        Err(why) => Answer::Refused(why),
    };
    stream.write_all(line_of(&answer)?.as_bytes())
}

/// The question that a line is.
///
/// # Errors
/// Why it is none, in one line.
pub(crate) fn question_of(line: &str) -> Result<Question, String> {
    serde_json::from_str(line)
        .map_err(|error| io::one_line(format!("the question is not understood: {error}")))
}

fn line_of(answer: &Answer) -> std::io::Result<String> {
    let mut text = serde_json::to_string(answer)?;
    text.push('\n');
    Ok(text)
}

impl Desk {
    /// Has the herald go on with a connection.
    fn hand_over(&self, mut stream: &UnixStream, wishes: Wishes) -> std::io::Result<()> {
        // A listener may be slow: that is its own affair from here on.
        if !self.herald.has_room() {
            let refused = Answer::Refused("as many listen already as may".to_owned());
            return stream.write_all(line_of(&refused)?.as_bytes());
        }
        stream.set_write_timeout(None)?;
        stream.write_all(line_of(&Answer::Done("listening".to_owned()))?.as_bytes())?;
        self.herald.add(stream.try_clone()?, wishes);
        Ok(())
    }

    /// Answers on a thread of its own: the answer waits for what it is about, and others ask meanwhile.
    fn answer_later(&mut self, mut stream: &UnixStream, question: Question) -> std::io::Result<()> {
        let mut answered = stream.try_clone()?;
        if self.waiting.fetch_add(1, Ordering::SeqCst) >= WAITING_MAX {
            self.waiting.fetch_sub(1, Ordering::SeqCst);
            let refused = Answer::Refused(format!("{WAITING_MAX} wait for such answers already"));
            return stream.write_all(line_of(&refused)?.as_bytes());
        }
        let (reply, waiting) = (self.reply_to(question), Arc::clone(&self.waiting));
        let work = move || {
            let line = line_of(&reply());
            waiting.fetch_sub(1, Ordering::SeqCst);
            // Who asked and has gone has lost nothing but the answer.
            drop(line.and_then(|line| answered.write_all(line.as_bytes())));
        };
        let begun = thread::Builder::new().name("answer".to_owned()).spawn(work);
        if begun.is_err() {
            self.waiting.fetch_sub(1, Ordering::SeqCst);
        }
        begun.map(drop)
    }

    /// Has the packet loop say what answers.
    fn reply_to(&mut self, question: Question) -> Reply {
        let (answer, receive) = mpsc::channel();
        let is_answered = Arc::clone(&self.is_answered);
        let asked = self.ask.send(Asked { question, answer, is_answered });
        self.is_asked.store(true, Ordering::SeqCst);
        // A full pipe wakes as well.
        drop(self.waker.write(&[0]));
        let reply = asked.ok().and_then(|()| receive.recv_timeout(PATIENCE).ok());
        reply.unwrap_or_else(|| {
            Box::new(|| Answer::Refused("it does not answer: it is ending, or hangs".to_owned()))
        })
    }
}

/// A running instance, as others find it.
#[derive(Debug)]
pub struct Found {
    /// Its name.
    pub name: String,
    /// Its process.
    pub process: u32,
    directory: PathBuf,
}

/// The running instances below `state_directory`, in order of their processes.
///
/// # Errors
/// When the directory exists and cannot be read.
pub fn find(state_directory: &Path) -> Result<Vec<Found>, IoError> {
    let running = Instance::running(state_directory, leftovers::KIND)?;
    let found = running.into_iter().map(|Running { owner, path }| {
        let record = std::fs::read_to_string(path.join("record")).ok();
        let name = record.and_then(|text| Record::parse(&text)).map(|record| record.name);
        Found { name: name.unwrap_or_default(), process: owner.pid(), directory: path }
    });
    Ok(found.collect())
}

/// The instance among `all` that `name` means: a name, or a process number.
///
/// # Errors
/// When none or more than one is meant; says which there are.
pub fn choose(all: Vec<Found>, name: Option<&str>) -> Result<Found, String> {
    let names: Vec<String> = all.iter().map(|f| format!("{} (process {})", f.name, f.process)).collect();
    let there_are = match names.as_slice() {
        [] => "no accelerator is running, or this user may not see it".to_owned(),
        names => format!("running: {}", names.join(", ")),
    };
    let is_meant =
        |found: &Found| name.is_none_or(|name| found.name == name || found.process.to_string() == name);
    let mut meant: Vec<Found> = all.into_iter().filter(is_meant).collect();
    match (meant.len(), name) {
        (1, _) => Ok(meant.remove(0)),
        (0, Some(name)) => Err(format!("no accelerator '{name}'; {there_are}")),
        (0, None) => Err(there_are),
        // Names are given by people: the same twice is possible.
        (_, _) => Err(format!("say which one, by name or process; {there_are}")),
    }
}

impl Found {
    /// Where it keeps its files.
    pub(crate) fn directory(&self) -> &Path {
        &self.directory
    }

    /// What it has set up.
    pub(crate) fn record(&self) -> Option<Record> {
        Record::parse(&std::fs::read_to_string(self.directory.join("record")).ok()?)
    }

    /// Asks it.
    ///
    /// # Errors
    /// When it has ended, hangs, or is of a version that speaks otherwise.
    pub fn ask(&self, question: &Question) -> Result<Answer, IoError> {
        self.ask_within(question, PATIENCE + PATIENCE)
    }

    /// Asks it, and waits so long for the answer.
    ///
    /// # Errors
    /// As [`Found::ask`].
    pub fn ask_within(&self, question: &Question, patience: Duration) -> Result<Answer, IoError> {
        let failed = |error| {
            IoError::system(format!("ask the accelerator '{}' (process {})", self.name, self.process), error)
        };
        let ask = || {
            let mut stream = UnixStream::connect(self.directory.join(SOCKET))?;
            stream.set_read_timeout(Some(patience))?;
            stream.set_write_timeout(Some(patience))?;
            let mut text = serde_json::to_string(question)?;
            text.push('\n');
            stream.write_all(text.as_bytes())?;
            let mut line = String::new();
            BufReader::new(&stream).read_line(&mut line)?;
            Ok(serde_json::from_str(&line)?)
        };
        ask().map_err(failed)
    }

    /// Listens to it: lines of JSON, until it ends. A read gives up after `patience`, and may be tried again.
    ///
    /// # Errors
    /// As [`Found::ask`].
    pub fn listen(&self, wishes: Wishes, patience: Duration) -> Result<BufReader<UnixStream>, IoError> {
        let failed = |error| {
            IoError::system(
                format!("listen to the accelerator '{}' (process {})", self.name, self.process),
                error,
            )
        };
        let listen = || {
            let mut stream = UnixStream::connect(self.directory.join(SOCKET))?;
            stream.set_read_timeout(Some(PATIENCE))?;
            stream.set_write_timeout(Some(PATIENCE))?;
            let mut text = serde_json::to_string(&Question::Listen(wishes))?;
            text.push('\n');
            stream.write_all(text.as_bytes())?;
            let mut stream = BufReader::new(stream);
            let mut line = String::new();
            stream.read_line(&mut line)?;
            match serde_json::from_str(&line)? {
                Answer::Done(_) => {}
                Answer::Refused(why) => return Err(std::io::Error::other(why)),
                _ => return Err(std::io::Error::other("it is of another version")),
            }
            stream.get_ref().set_read_timeout(Some(patience))?;
            Ok(stream)
        };
        listen().map_err(failed)
    }

    /// True while it runs.
    #[must_use]
    pub fn is_there(&self) -> bool {
        self.directory.exists()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use io::Clock;
    use units::Duration;

    #[test]
    fn who_was_answered_hears_it_although_that_is_the_end() {
        let directory = std::env::temp_dir().join(format!("ct-run-answered-{}", std::process::id()));
        std::fs::create_dir(&directory).unwrap();
        for _ in 0..100 {
            let console = Console::open(&directory, Herald::start().unwrap()).unwrap();
            let found = Found { name: "old".to_owned(), process: 1, directory: directory.clone() };
            let asking = thread::spawn(move || found.ask(&Question::Drain { time_ms_max: None }));
            let asked = loop {
                match console.take() {
                    Some(asked) => break asked,
                    None => thread::yield_now(),
                }
            };
            asked.answer(Box::new(|| Answer::Done("draining".to_owned())));
            drop(console);
            let answer = asking.join().unwrap().unwrap();
            assert!(matches!(answer, Answer::Done(_)), "{answer:?}");
        }
        std::fs::remove_dir_all(&directory).unwrap();
    }

    #[test]
    fn who_says_nothing_does_not_keep_the_end_waiting() {
        let directory = std::env::temp_dir().join(format!("ct-run-console-{}", std::process::id()));
        std::fs::create_dir(&directory).unwrap();
        let console = Console::open(&directory, Herald::start().unwrap()).unwrap();
        let mut guest = UnixStream::connect(directory.join(SOCKET)).unwrap();
        guest.write_all(b"\"stat").unwrap();
        let began = Clock::now();
        drop(console);
        let took = Clock::now().saturating_since(began);
        std::fs::remove_dir_all(&directory).unwrap();
        assert!(took < Duration::from_secs(5), "{took}");
        assert_eq!(guest.read(&mut [0; 1]).unwrap_or(0), 0, "it is cut off, without an answer");
    }
}
