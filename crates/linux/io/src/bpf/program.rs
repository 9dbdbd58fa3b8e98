//! [`Program`]: verified and translated by the kernel; [`Attachment`]: at work on an interface.

use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

use units::Duration;

use super::system::TcDirection;
use super::{Instruction, system};
use crate::IoError;
use crate::netlink::InterfaceIndex;

/// A loaded program; it goes with the value, once it is attached nowhere.
#[derive(Debug)]
pub struct Program {
    fd: OwnedFd,
    name: String,
}

/// A program at work; it ends with the value, and with the last process that has a descriptor of it, however
/// that ends.
#[derive(Debug)]
pub struct Attachment {
    link: OwnedFd,
    is_left: bool,
}

impl Attachment {
    /// Takes what this process has attached.
    pub(crate) fn new(link: OwnedFd) -> Self {
        Self { link, is_left: false }
    }

    /// Takes what another process has attached, of which `link` is the descriptor: it is that one's until
    /// [`Attachment::own`].
    #[must_use]
    pub fn adopt(link: OwnedFd) -> Self {
        Self { link, is_left: true }
    }

    /// From here on it ends with this value.
    pub fn own(&mut self) {
        self.is_left = false;
    }

    /// Leaves the program at work for whoever has the link, too.
    pub fn leave(mut self) {
        self.is_left = true;
    }
}

impl AsFd for Attachment {
    /// The link: whoever has it, too, keeps the program at work when this process dies.
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.link.as_fd()
    }
}

impl Drop for Attachment {
    fn drop(&mut self) {
        if !self.is_left {
            // An interface that is gone has ended it already.
            drop(system::detach(self.link.as_fd()));
        }
    }
}

impl Program {
    /// Has the kernel verify and translate a program (`BPF_PROG_TYPE_SCHED_CLS`). Its name has 15
    /// characters at most.
    ///
    /// # Errors
    /// When the privilege is missing, or the verifier refuses it: then with the last line of what it said.
    pub fn load(name: &str, instructions: &[Instruction]) -> Result<Self, IoError> {
        Self::load_kind(system::TRAFFIC_CONTROL, name, instructions)
    }

    /// The same for a program that looks at packets for a device or a socket
    /// (`BPF_PROG_TYPE_SOCKET_FILTER`), as for [`crate::Tun::set_queue_chooser`].
    ///
    /// # Errors
    /// As [`Program::load`].
    pub fn load_filter(name: &str, instructions: &[Instruction]) -> Result<Self, IoError> {
        Self::load_kind(system::SOCKET_FILTER, name, instructions)
    }

    /// The same for a program that the kernel calls at events of a TCP socket (`BPF_PROG_TYPE_SOCK_OPS`), for
    /// [`Program::attach_to_group`].
    ///
    /// # Errors
    /// As [`Program::load`].
    pub fn load_socket_operations(name: &str, instructions: &[Instruction]) -> Result<Self, IoError> {
        Self::load_kind(system::SOCKET_OPERATIONS, name, instructions)
    }

    fn load_kind(kind: u32, name: &str, instructions: &[Instruction]) -> Result<Self, IoError> {
        match system::load(kind, instructions, name) {
            Ok(fd) => Ok(Self { fd, name: name.to_owned() }),
            Err((error, log)) => Err(refusal(name, error, &log)),
        }
    }

    /// Sets it to work on what comes in through `interface`, behind programs that are there (tcx,
    /// Linux 6.6 and later). The interface is one of the calling thread's network namespace.
    ///
    /// # Errors
    /// When the kernel has no tcx, or the interface is gone.
    pub fn attach(&self, interface: InterfaceIndex) -> Result<Attachment, IoError> {
        let what = || format!("attach the BPF program '{}' to interface {}", self.name, interface.get());
        match system::attach(self.fd.as_fd(), interface.get(), TcDirection::In) {
            Ok(link) => Ok(Attachment::new(link)),
            Err(error) if error.raw_os_error() == Some(libc::EINVAL) => Err(without_tcx()),
            Err(error) => Err(explained(what(), error)),
        }
    }
}

impl Program {
    /// Sets it to work on the TCP sockets of all processes of a control group (version 2, such as
    /// [`super::root_group`]) and of those below it, in every network namespace.
    ///
    /// # Errors
    /// When it is no control group, or the kernel refuses.
    pub fn attach_to_group(&self, group: &impl AsFd) -> Result<Attachment, IoError> {
        let what = || format!("attach the BPF program '{}' to a control group", self.name);
        let link = system::attach_to_group(self.fd.as_fd(), group.as_fd());
        Ok(Attachment::new(link.map_err(|error| explained(what(), error))?))
    }
}

impl AsFd for Program {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.fd.as_fd()
    }
}

/// Reason why the kernel refused a program: its last message about it.
fn refusal(name: &str, error: std::io::Error, log: &str) -> IoError {
    let what = format!("load the BPF program '{name}'");
    // The verifier ends with a count of what it looked at.
    let mut lines = log.lines().filter(|line| !line.starts_with("processed ") && !line.trim().is_empty());
    match lines.next_back() {
        Some(line) => IoError::Invalid { what, why: format!("{error}; the verifier says: {}", line.trim()) },
        None => explained(what, error),
    }
}

pub(super) fn explained(what: String, error: std::io::Error) -> IoError {
    match error.raw_os_error() {
        Some(libc::EPERM) => IoError::NotPrivileged { what, capability: "CAP_BPF and CAP_NET_ADMIN" },
        Some(libc::ENOSYS) => IoError::Missing {
            what: "bpf(2)".to_owned(),
            remedy: "the kernel was built without CONFIG_BPF_SYSCALL".to_owned(),
        },
        _ => IoError::system(what, error),
    }
}

fn without_tcx() -> IoError {
    IoError::Missing {
        what: "tcx".to_owned(),
        remedy: "Linux 6.6 or later with CONFIG_NET_XGRESS has it".to_owned(),
    }
}

/// Checks that programs can be attached to what comes in through `interface`; changes nothing.
///
/// # Errors
/// One line that says what is missing.
pub fn is_tcx_there(interface: InterfaceIndex) -> Result<(), IoError> {
    crate::features::require(crate::features::Feature::Bpf)?;
    match system::query(interface.get()) {
        Ok(_) => Ok(()),
        Err(error) if error.raw_os_error() == Some(libc::EINVAL) => Err(without_tcx()),
        Err(error) => Err(explained(format!("ask for BPF programs of interface {}", interface.get()), error)),
    }
}

/// True when the program behind `link`, of this process or another one, is at `interface` (tcx).
#[must_use]
pub fn is_at(link: &impl AsFd, interface: InterfaceIndex) -> bool {
    system::interface_of(link.as_fd()).is_ok_and(|index| index == interface.get())
}

/// The names of the programs at work on what comes in through `interface`; none where the kernel
/// has no such thing. Who may not ask for a name (`CAP_SYS_ADMIN`) gets a number in its place ([`is_number`]).
#[must_use]
pub fn programs_at(interface: InterfaceIndex) -> Vec<String> {
    let ids = system::query(interface.get()).unwrap_or_default();
    let name = |id| match system::program_info(id) {
        Err(error) if error.raw_os_error() == Some(libc::EPERM) => Some(format!("{NUMBER}{id}")),
        // One that has gone since has no name any more.
        told => told.ok().map(|info| info.name),
    };
    ids.into_iter().filter_map(name).collect()
}

/// Has the kernel measure how long all programs of the machine run ([`costs_at`]), until what is given goes: also when
/// this process is killed.
///
/// # Errors
/// Without the privilege (`CAP_SYS_ADMIN`), or before Linux 5.8.
pub fn measure_run_time() -> Result<OwnedFd, IoError> {
    system::measure_run_time()
        .map_err(|error| explained("have the run time of BPF programs measured".to_owned(), error))
}

/// Cost of a program while the kernel measured that ([`measure_run_time`]).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ProgramCost {
    /// Its name.
    pub name: String,
    /// Number of runs.
    pub runs: u64,
    /// Processor time of all these runs.
    pub time: Duration,
}

/// Costs of the programs at work on what comes in through `interface`; none where the kernel has no such
/// thing, or does not tell.
#[must_use]
pub fn costs_at(interface: InterfaceIndex) -> Vec<ProgramCost> {
    let ids = system::query(interface.get()).unwrap_or_default();
    let told = ids.into_iter().filter_map(|id| system::program_info(id).ok());
    told.map(|info| ProgramCost { name: info.name, runs: info.runs, time: Duration::from_nanos(info.run_ns) })
        .collect()
}

/// True for what [`programs_at`] gives in place of a name. A name has no spaces.
#[must_use]
pub fn is_number(name: &str) -> bool {
    name.starts_with(NUMBER)
}

pub(super) const NUMBER: &str = "number ";
