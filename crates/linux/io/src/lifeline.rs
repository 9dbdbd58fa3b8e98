//! [`Tethered`]: a program that ends with whoever has started it, and with it all that go on in its place.
//!
//! `PR_SET_PDEATHSIG` reaches the child alone. An accelerator that is killed has a watchdog that may start a
//! successor: nobody's child. So whoever must not leave anything behind holds one end of a pair of sockets, and
//! the program, its watchdog and each successor inherit the other one:
//!
//! ```text
//!   lab ──── own end ════ other end ──── cellerator run, its watchdog, a successor, …
//!        closed: all of them end                          all closed: all have ended
//! ```
//!
//! The kernel closes the end of a process that was killed.

use std::ops::{Deref, DerefMut};
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, FromRawFd, OwnedFd, RawFd};
use std::os::unix::net::UnixStream;
use std::os::unix::process::CommandExt;
use std::process::{Child, Command};

use units::Duration;

use crate::error::Context;
use crate::{Clock, Interest, IoError, Namespace, SpawnOptions, Waiter};

/// Variable in which a tethered program finds the number of its descriptor.
const VARIABLE: &str = "CELLERATOR_LIFELINE";

/// Longest time that all of them may take to end once they are told, or killed.
const END_TIME_MAX: Duration = Duration::from_secs(5);

/// Waits until the other end of a pair of sockets has gone, with the process that had it: a death signal does not
/// reach a child of another user whose parent has no right to send it one. Returns at once where that cannot be
/// waited for.
pub fn await_hang_up(end: BorrowedFd<'_>) {
    loop {
        // No events: of a hang-up it is told anyway.
        let mut event = libc::pollfd { fd: end.as_raw_fd(), events: 0, revents: 0 };
        // SAFETY: one structure, which outlives the call.
        let count = unsafe { libc::poll(&raw mut event, 1, -1) };
        let is_interrupted =
            count < 0 && std::io::Error::last_os_error().kind() == std::io::ErrorKind::Interrupted;
        if !is_interrupted {
            return;
        }
    }
}

/// A child that is killed when this is dropped. All that have inherited its end of the line are told to end
/// then, or when this process dies, and a drop waits for them.
#[derive(Debug)]
pub struct Tethered {
    child: Child,
    own: UnixStream,
    /// Outcome, once the line was cut.
    have_ended: Option<bool>,
}

impl Tethered {
    /// Starts `command` in `namespace` as [`Namespace::spawn`] does.
    ///
    /// # Errors
    /// As that, or when no descriptor is left.
    pub fn spawn(
        namespace: &Namespace,
        mut command: Command,
        options: SpawnOptions,
    ) -> Result<Self, IoError> {
        let own = attach(&mut command)?;
        // With the command goes this process's copy of the other end.
        let child = namespace.spawn(command, options)?;
        Ok(Self { child, own, have_ended: None })
    }

    /// Has the child, and all that go on in its place, end at once; true when they have.
    pub fn end(mut self) -> bool {
        self.cut(END_TIME_MAX)
    }

    /// Leaves whoever goes on in the child's place alone until this process ends, once the child has ended.
    pub fn let_go(self) {
        // The kernel cuts the line then.
        std::mem::forget(self);
    }

    fn cut(&mut self, patience: Duration) -> bool {
        if let Some(have_ended) = self.have_ended {
            return have_ended;
        }
        // First of all: a watchdog that sees the child die knows then that nobody is to go on.
        drop(self.own.shutdown(std::net::Shutdown::Write));
        // It may have ended.
        drop(self.child.kill());
        drop(self.child.wait());
        let await_all = || {
            let mut waiter = Waiter::new(Duration::ZERO)?;
            waiter.add(&self.own, Interest::Read, 0)?;
            Ok::<_, IoError>(!waiter.wait(Some(Clock::now() + patience))?.is_empty())
        };
        *self.have_ended.insert(await_all().unwrap_or(false))
    }
}

impl Deref for Tethered {
    type Target = Child;

    fn deref(&self) -> &Child {
        &self.child
    }
}

impl DerefMut for Tethered {
    fn deref_mut(&mut self) -> &mut Child {
        &mut self.child
    }
}

impl Drop for Tethered {
    fn drop(&mut self) {
        self.cut(END_TIME_MAX);
    }
}

/// Has `command` inherit one end of a pair of sockets; gives the other one.
fn attach(command: &mut Command) -> Result<UnixStream, IoError> {
    let (own, theirs) = UnixStream::pair().doing(|| "create a socket pair".to_owned())?;
    pass(OwnedFd::from(theirs), command);
    Ok(own)
}

/// Has `command` inherit `line`, which is closed here with the command.
fn pass(line: OwnedFd, command: &mut Command) {
    command.env(VARIABLE, line.as_raw_fd().to_string());
    let inherit = move || set_close_on_exec(line.as_raw_fd(), false);
    // SAFETY: `inherit` runs between fork and exec and makes a system call only.
    unsafe { command.pre_exec(inherit) };
}

fn set_close_on_exec(descriptor: RawFd, is_wanted: bool) -> std::io::Result<()> {
    let flags = if is_wanted { libc::FD_CLOEXEC } else { 0 };
    // SAFETY: F_SETFD takes a number and flags, no pointers, and fails for a descriptor that is not open.
    match unsafe { libc::fcntl(descriptor, libc::F_SETFD, flags) } {
        0 => Ok(()),
        _ => Err(std::io::Error::last_os_error()),
    }
}

/// The line that this process was started on.
#[derive(Debug)]
pub struct Lifeline(UnixStream);

impl Lifeline {
    /// The one that this process has inherited, if any. From then on no program inherits it that it was not
    /// [passed](Self::pass_on) to: one that lives longer than this process, and knows nothing of the line, would
    /// be waited for.
    #[must_use]
    pub fn inherited() -> Option<Self> {
        let number: RawFd = std::env::var(VARIABLE).ok()?.parse().ok().filter(|number| *number > 2)?;
        // SAFETY: F_DUPFD_CLOEXEC takes a number and no pointers, and fails for one that is not open.
        let copy = unsafe { libc::fcntl(number, libc::F_DUPFD_CLOEXEC, 3) };
        // SAFETY: the kernel has just opened it for this process, and nobody else knows of it.
        let stream = (copy >= 0).then(|| UnixStream::from(unsafe { OwnedFd::from_raw_fd(copy) }))?;
        // Another file under that number is none.
        stream.local_addr().ok()?;
        set_close_on_exec(number, true).ok()?;
        Some(Self(stream))
    }

    /// Has `command` inherit the line of this process, if there is one.
    pub fn pass_on(command: &mut Command) {
        if let Some(line) = Self::inherited() {
            pass(OwnedFd::from(line.0), command);
        }
    }

    /// True once nobody holds the other end any more.
    #[must_use]
    pub fn is_cut(&self) -> bool {
        let mut event = libc::pollfd { fd: self.0.as_raw_fd(), events: libc::POLLIN, revents: 0 };
        // SAFETY: one live pollfd, and no time to wait.
        unsafe { libc::poll(&raw mut event, 1, 0) > 0 }
    }
}

/// Readable once the line is cut.
impl AsFd for Lifeline {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.0.as_fd()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::PidFd;
    use crate::netns::test_host;

    fn start(namespace: &Namespace, script: &str) -> Tethered {
        let mut command = Command::new("bash");
        command.args(["-c", script]);
        Tethered::spawn(namespace, command, SpawnOptions::default()).unwrap()
    }

    #[test]
    fn whoever_goes_on_in_a_childs_place_ends_with_the_line() {
        let namespace = test_host("line");
        // The shell ends, and what it has started waits for the end of the line.
        let mut child = start(&namespace, r#"{ read -r _ <&"$CELLERATOR_LIFELINE"; } &"#);
        child.wait().unwrap();
        let (patience, before) = (Duration::from_millis(100), Clock::now());
        let mut waiter = Waiter::new(Duration::ZERO).unwrap();
        waiter.add(&child.own, Interest::Read, 0).unwrap();
        assert!(waiter.wait(Some(before + patience)).unwrap().is_empty(), "it lives on");
        assert!(child.end());
        // One that does not look at the line is waited for in vain, and not for ever.
        let mut child = start(&namespace, "sleep 1 &");
        child.wait().unwrap();
        assert!(!child.cut(patience));
    }

    #[test]
    fn a_child_that_hangs_is_killed() {
        let namespace = test_host("tether");
        let child = start(&namespace, "kill -STOP $$");
        let process = PidFd::open(child.id()).unwrap();
        drop(child);
        assert!(process.send_signal(0).unwrap_err().is_not_there());
    }

    #[test]
    fn a_line_is_cut_when_its_holder_lets_go() {
        let mut command = Command::new("true");
        let own = attach(&mut command).unwrap();
        let number = command.get_envs().find(|(name, _)| *name == VARIABLE).unwrap().1.unwrap();
        let number: i32 = number.to_str().unwrap().parse().unwrap();
        // SAFETY: the command holds the descriptor.
        let theirs = unsafe { BorrowedFd::borrow_raw(number) }.try_clone_to_owned().unwrap();
        let line = Lifeline(UnixStream::from(theirs));
        assert!(!line.is_cut());
        drop(own);
        assert!(line.is_cut());
        assert!(Lifeline::inherited().is_none(), "this process was not started on one");
    }
}
