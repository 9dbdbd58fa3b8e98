//! [`Console`]: the control sockets of a running instance, and who asks through them.
//!
//! Unix sockets in the instance's directory. One question per connection: a line of JSON there, a line of JSON back.
//! A thread for each does the talking, so that the packet loop only answers what is ready. Who asks for a hand-over is
//! answered at its end, by a thread of its own.
//!
//! | socket | who may connect | what it takes |
//! |---|---|---|
//! | `console` | root, and the accelerator's own user | every question |
//! | `look` | the same, and members of `--look-group` | questions that change nothing |

use std::fs;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::Shutdown;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError, mpsc};
use std::thread::{self, JoinHandle};
use std::time::Duration;

use io::{Caller, IoError};

use crate::event_broadcaster::{EventBroadcaster, Wishes};
use crate::question::{Answer, CONSOLE, LOOK, PATIENCE, Question, line_of, question_of};

/// Of a directory with a socket for a group: everybody may look for names in it that they know.
const ENTERED_BY_ALL: u32 = 0o711;

/// Of the directory above it.
const LISTED_BY_ALL: u32 = 0o055;

/// Longest question.
const QUESTION_LEN_MAX: u64 = 4_096;

/// Time between two attempts to take in a connection that could not be taken in.
const ACCEPT_PAUSE: Duration = Duration::from_millis(100);

/// Questions that wait for the end of what they are about, at most.
const WAITING_MAX: usize = 256;

/// Permission to ask questions through a socket.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Level {
    /// Everything: root, and the user of this process.
    Change,
    /// Questions that change nothing: these, and a group.
    Look { group: Option<u32> },
}

impl Level {
    const fn name(self) -> &'static str {
        match self {
            Self::Change => CONSOLE,
            Self::Look { .. } => LOOK,
        }
    }

    /// Permissions of the socket: who is meant by a group is asked of the kernel.
    const fn mode(self) -> u32 {
        match self {
            Self::Look { group: Some(_) } => 0o666,
            _ => 0o600,
        }
    }

    /// Reason why the caller may not ask a question here, in one line.
    fn objection(self, caller: &Caller, question: &Question) -> Option<String> {
        let is_trusted = caller.uid == 0 || caller.uid == io::effective_user();
        let is_member = |group: u32| caller.groups.contains(&group);
        match self {
            Self::Change if is_trusted => None,
            Self::Change => Some(format!("user {} may change nothing here: ask as root", caller.uid)),
            Self::Look { .. } if !question.only_looks() => {
                Some("the socket 'look' changes nothing: ask through 'console', as root".to_owned())
            }
            Self::Look { group } if is_trusted || group.is_some_and(is_member) => None,
            Self::Look { .. } => {
                Some(format!("user {} may not look: it is in no group of --look-group", caller.uid))
            }
        }
    }
}

/// The instance's end of the socket.
#[derive(Debug)]
pub(crate) struct Console {
    questions: mpsc::Receiver<Asked>,
    /// Readable when there is a question.
    wake: UnixStream,
    /// The same, for whoever looks after each turn.
    is_asked: Arc<AtomicBool>,
    is_closing: Arc<AtomicBool>,
    broadcaster: EventBroadcaster,
    look_group: Option<u32>,
    /// None while there is no room for them.
    sockets: Vec<Socket>,
}

/// One of the sockets, and the thread that serves it.
#[derive(Debug)]
struct Socket {
    path: PathBuf,
    /// Device and number of the socket's file: another one of this name is not ours.
    file: Option<(u64, u64)>,
    /// The listening socket: shut down, it has the thread end.
    listening: UnixStream,
    guest: Guest,
    is_answered: Arc<AtomicBool>,
    thread: Option<JoinHandle<()>>,
}

/// Connection that is being served: cut off at the end, or one that says nothing would keep everything waiting.
type Guest = Arc<Mutex<Option<UnixStream>>>;

/// A question that waits for its answer.
#[derive(Debug)]
pub(crate) struct Asked {
    pub question: Question,
    answer: mpsc::Sender<Reply>,
    /// Set once the connection of the caller must not be cut off any more.
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
    /// Opens the sockets in an instance's directory. Whoever wants to hear what happens is left to `broadcaster`;
    /// members of the group of number `look_group` may look.
    pub fn open(
        directory: &Path,
        broadcaster: EventBroadcaster,
        look_group: Option<u32>,
    ) -> Result<Self, IoError> {
        let failed =
            |error| IoError::system(format!("open the control sockets in {}", directory.display()), error);
        let (mut console, ask, waker) = Self::closed(broadcaster, look_group)?;
        let waiting = Arc::<AtomicUsize>::default();
        for level in [Level::Change, Level::Look { group: look_group }] {
            let queue = QuestionQueue {
                ask: ask.clone(),
                waker: waker.try_clone().map_err(failed)?,
                is_asked: Arc::clone(&console.is_asked),
                is_answered: Arc::default(),
                broadcaster: console.broadcaster.clone(),
                waiting: Arc::clone(&waiting),
                level,
            };
            let opened = Socket::open(directory.join(level.name()), queue, &console.is_closing);
            console.sockets.push(opened.map_err(failed)?);
        }
        if look_group.is_some() {
            let may = |path: &Path, mode| fs::set_permissions(path, fs::Permissions::from_mode(mode));
            may(directory, ENTERED_BY_ALL).map_err(failed)?;
            // Who looks for accelerators lists what is there.
            let all = directory.parent().unwrap_or(directory);
            let mode = fs::metadata(all).map_err(failed)?.permissions().mode();
            if mode & LISTED_BY_ALL != LISTED_BY_ALL {
                may(all, mode & 0o7777 | LISTED_BY_ALL).map_err(failed)?;
            }
        }
        Ok(console)
    }

    /// One that nobody can reach, for a process that must go on without room for a socket.
    ///
    /// # Errors
    /// When no descriptor is left.
    pub fn nowhere(broadcaster: EventBroadcaster, look_group: Option<u32>) -> Result<Self, IoError> {
        let (console, _, waker) = Self::closed(broadcaster, look_group)?;
        // Its end of the pair would be taken for a question.
        std::mem::forget(waker);
        Ok(console)
    }

    /// One without sockets, and what their threads need.
    fn closed(
        broadcaster: EventBroadcaster,
        look_group: Option<u32>,
    ) -> Result<(Self, mpsc::Sender<Asked>, UnixStream), IoError> {
        let failed = |error| IoError::system("open a pair of sockets", error);
        let (wake, waker) = UnixStream::pair().map_err(failed)?;
        wake.set_nonblocking(true).map_err(failed)?;
        waker.set_nonblocking(true).map_err(failed)?;
        let (ask, questions) = mpsc::channel();
        let (is_asked, is_closing) = (Arc::default(), Arc::default());
        let console =
            Self { questions, wake, is_asked, is_closing, broadcaster, look_group, sockets: Vec::new() };
        Ok((console, ask, waker))
    }

    /// The same anew, in a directory that has come back.
    ///
    /// # Errors
    /// As [`Console::open`].
    pub fn again(&self, directory: &Path) -> Result<Self, IoError> {
        Self::open(directory, self.broadcaster.clone(), self.look_group)
    }

    /// True when its sockets are where others look for them.
    pub fn is_there(&self) -> bool {
        !self.sockets.is_empty() && self.sockets.iter().all(Socket::is_there)
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
        self.sockets.iter_mut().for_each(Socket::close);
    }
}

impl Socket {
    /// Opens it, and serves it on a thread of its own.
    fn open(path: PathBuf, mut queue: QuestionQueue, is_closing: &Arc<AtomicBool>) -> std::io::Result<Self> {
        let listener = UnixListener::bind(&path)?;
        let file = place_of(&path);
        let listening = UnixStream::from(OwnedFd::from(listener.try_clone()?));
        // Whatever the umask says.
        fs::set_permissions(&path, fs::Permissions::from_mode(queue.level.mode()))?;
        let (guest, is_over) = (Guest::default(), Arc::clone(is_closing));
        let (served, is_answered) = (Arc::clone(&guest), Arc::clone(&queue.is_answered));
        let thread = thread::Builder::new()
            .name(queue.level.name().to_owned())
            .spawn(move || listen(&listener, &mut queue, (&is_over, &served)))?;
        Ok(Self { path, file, listening, guest, is_answered, thread: Some(thread) })
    }

    /// True when it is where others look for it.
    fn is_there(&self) -> bool {
        self.file.is_some() && place_of(&self.path) == self.file
    }

    fn close(&mut self) {
        if let Some(guest) = self.guest.lock().unwrap_or_else(PoisonError::into_inner).as_ref() {
            // An answer that was given is still brought: that to a drain which had nothing to do
            // ends us at once.
            let is_answered = self.is_answered.load(Ordering::SeqCst);
            let how = if is_answered { Shutdown::Read } else { Shutdown::Both };
            // It may have gone by itself.
            drop(guest.shutdown(how));
        }
        let is_there = self.is_there();
        // It waits for a connection no longer.
        drop(self.listening.shutdown(Shutdown::Both));
        if let Some(thread) = self.thread.take() {
            drop(thread.join());
        }
        if is_there {
            drop(fs::remove_file(&self.path));
        }
    }
}

/// Device and number of a file.
fn place_of(path: &Path) -> Option<(u64, u64)> {
    let file = fs::symlink_metadata(path).ok()?;
    Some((file.dev(), file.ino()))
}

/// Queue in which the thread that does the talking hands questions in.
#[derive(Debug)]
struct QuestionQueue {
    ask: mpsc::Sender<Asked>,
    waker: UnixStream,
    is_asked: Arc<AtomicBool>,
    is_answered: Arc<AtomicBool>,
    broadcaster: EventBroadcaster,
    /// Threads that answer later.
    waiting: Arc<AtomicUsize>,
    /// Level of permission of those who ask here.
    level: Level,
}

/// Serves one connection after the other.
fn listen(listener: &UnixListener, queue: &mut QuestionQueue, (is_over, guest): (&AtomicBool, &Guest)) {
    for stream in listener.incoming() {
        let is_admitted = || {
            let mut guest = guest.lock().unwrap_or_else(PoisonError::into_inner);
            queue.is_answered.store(false, Ordering::SeqCst);
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
                drop(serve(stream, queue));
                guest.lock().unwrap_or_else(PoisonError::into_inner).take();
            }
            // No descriptor is left, as a rule: who knocks goes on knocking.
            Err(_) => thread::park_timeout(ACCEPT_PAUSE),
        }
    }
}

fn serve(mut stream: &UnixStream, queue: &mut QuestionQueue) -> std::io::Result<()> {
    stream.set_read_timeout(Some(PATIENCE))?;
    stream.set_write_timeout(Some(PATIENCE))?;
    let mut line = String::new();
    BufReader::new(stream.take(QUESTION_LEN_MAX)).read_line(&mut line)?;
    let objection = |question: &Question| match Caller::of(stream) {
        Ok(caller) => queue.level.objection(&caller, question),
        Err(error) => Some(format!("the kernel does not say who asks: {error}")),
    };
    let question = question_of(&line);
    let objection = question.as_ref().ok().and_then(objection);
    let answer = match question {
        Ok(_) if objection.is_some() => Answer::Refused(objection.unwrap_or_default()),
        Ok(Question::Listen(wishes)) => return queue.start_listening(stream, wishes),
        Ok(question @ Question::MoveSubscriber { .. }) => return queue.answer_later(stream, question),
        Ok(question) => queue.reply_to(question)(),
        Err(why) => Answer::Refused(why),
    };
    stream.write_all(line_of(&answer)?.as_bytes())
}

impl QuestionQueue {
    /// Hands a connection to the broadcaster.
    fn start_listening(&self, mut stream: &UnixStream, wishes: Wishes) -> std::io::Result<()> {
        // A listener may be slow: that is its own affair from here on.
        if !self.broadcaster.has_room() {
            let refused = Answer::Refused("as many listen already as may".to_owned());
            return stream.write_all(line_of(&refused)?.as_bytes());
        }
        stream.set_write_timeout(None)?;
        stream.write_all(line_of(&Answer::Done("listening".to_owned()))?.as_bytes())?;
        self.broadcaster.add(stream.try_clone()?, wishes);
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::instances::Found;
    use io::Clock;
    use units::Duration;

    #[test]
    fn who_was_answered_hears_it_although_that_is_the_end() {
        let folder = tempfile::tempdir().unwrap();
        let directory = folder.path();
        for _ in 0..100 {
            let console = Console::open(directory, EventBroadcaster::start().unwrap(), None).unwrap();
            let found = Found { name: "old".to_owned(), process: 1, directory: directory.to_owned() };
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
    }

    #[test]
    fn who_may_look_changes_nothing_and_others_do_not_look() {
        let all = tempfile::tempdir().unwrap();
        let directory = all.path().join("run-1");
        fs::create_dir(&directory).unwrap();
        let mode = |path: &Path| fs::metadata(path).unwrap().permissions().mode() & 0o777;
        fs::set_permissions(&directory, fs::Permissions::from_mode(0o700)).unwrap();
        let console = Console::open(&directory, EventBroadcaster::start().unwrap(), None).unwrap();
        let modes = [&directory, &directory.join(CONSOLE), &directory.join(LOOK)].map(|path| mode(path));
        assert_eq!(modes, [0o700, 0o600, 0o600], "without a group");
        drop(console);
        let console = Console::open(&directory, EventBroadcaster::start().unwrap(), Some(4_711)).unwrap();
        let modes = [&directory, &directory.join(CONSOLE), &directory.join(LOOK)].map(|path| mode(path));
        assert_eq!((modes, mode(all.path())), ([0o711, 0o600, 0o666], 0o755));
        // Through the socket for looks, also as root.
        let mut guest = UnixStream::connect(directory.join(LOOK)).unwrap();
        guest.write_all(b"\"reload\"\n").unwrap();
        let mut line = String::new();
        BufReader::new(&guest).read_line(&mut line).unwrap();
        assert!(line.contains("refused") && line.contains("'console'"), "{line}");
        assert!(console.take().is_none(), "the packet loop is not asked");
        let found = Found { name: "new".to_owned(), process: 1, directory: directory.clone() };
        let asking = thread::spawn(move || found.ask(&Question::Ab));
        let asked = loop {
            match console.take() {
                Some(asked) => break asked,
                None => thread::yield_now(),
            }
        };
        asked.answer(Box::new(|| Answer::Done("seen".to_owned())));
        assert_eq!(asking.join().unwrap().unwrap(), Answer::Done("seen".to_owned()));
    }

    #[test]
    fn users_and_groups_have_what_is_theirs() {
        let caller = |uid, groups: &[u32]| Caller { process: 1, uid, groups: groups.to_vec() };
        let own = io::effective_user();
        let (member, stranger) = (caller(own + 5, &[9, 4_711]), caller(own + 5, &[9]));
        let look = Level::Look { group: Some(4_711) };
        for (level, caller, question, may) in [
            (Level::Change, &caller(0, &[]), Question::Reload, true),
            (Level::Change, &caller(own, &[]), Question::Reload, true),
            (Level::Change, &member, Question::Reload, false),
            (Level::Change, &member, Question::Status, false),
            (look, &member, Question::Status, true),
            (look, &member, Question::Reload, false),
            (look, &caller(0, &[]), Question::Reload, false),
            (look, &stranger, Question::Status, false),
            (Level::Look { group: None }, &member, Question::Status, false),
            (Level::Look { group: None }, &caller(0, &[]), Question::Status, true),
        ] {
            let objection = level.objection(caller, &question);
            assert_eq!(objection.is_none(), may, "{level:?} {caller:?} {question:?}: {objection:?}");
        }
    }

    /// An older program has one socket, by the same name.
    #[test]
    fn an_older_program_is_asked_by_its_only_socket() {
        let folder = tempfile::tempdir().unwrap();
        let listener = UnixListener::bind(folder.path().join(CONSOLE)).unwrap();
        let found = Found { name: "old".to_owned(), process: 1, directory: folder.path().to_owned() };
        let asking = thread::spawn(move || found.ask(&Question::Status));
        let (mut stream, _) = listener.accept().unwrap();
        stream.write_all(b"{\"done\":\"so\"}\n").unwrap();
        assert_eq!(asking.join().unwrap().unwrap(), Answer::Done("so".to_owned()));
    }

    #[test]
    fn who_says_nothing_does_not_keep_the_end_waiting() {
        let folder = tempfile::tempdir().unwrap();
        let console = Console::open(folder.path(), EventBroadcaster::start().unwrap(), None).unwrap();
        let mut guest = UnixStream::connect(folder.path().join(CONSOLE)).unwrap();
        guest.write_all(b"\"stat").unwrap();
        let began = Clock::now();
        drop(console);
        let took = Clock::now().saturating_since(began);
        assert!(took < Duration::from_secs(5), "{took}");
        assert_eq!(guest.read(&mut [0; 1]).unwrap_or(0), 0, "it is cut off, without an answer");
    }
}
