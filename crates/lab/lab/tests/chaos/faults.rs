//! [`Fault`]: what an operator, a cable or a machine does to the box.

use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

use io::Clock;
use rand::RngExt;
use rand_xoshiro::Xoshiro256PlusPlus;
use units::Duration;

use crate::chaos::accelerator::{Accelerator, Options, SIGCONT, SIGHUP, SIGKILL, SIGSTOP, SIGTERM, Way};
use crate::chaos::network::{Network, Side, output};

/// One kind of trouble.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fault {
    KillBox,
    KillWatchdog,
    KillBoth,
    Drain,
    Terminate,
    Replace,
    Hangup,
    Stop,
    /// Others keep its only processor busy.
    Starve,
    /// Its control group is frozen.
    Freeze,
    /// Several processes want its place at once.
    ReplaceMany,
    /// Its part of the state directory is deleted, and half of the time it is killed at once.
    DeleteState,
    /// The state directory's file system is full, and it is killed.
    FillState,
    /// Whatever may hold its nft table.
    KillNft,
    /// A packet filter that would be passed by comes up, and goes.
    Filter,
    DownUp,
    Remake,
    Renumber,
    Mtu,
    /// Of the box's end of a cable alone: what is too long for it is lost without a word, whatever
    /// stands there.
    MtuOfBox,
}

impl Fault {
    /// Those that no transfer may suffer from.
    pub const ALL: [Self; 19] = [
        Self::KillBox,
        Self::KillWatchdog,
        Self::KillBoth,
        Self::Drain,
        Self::Terminate,
        Self::Replace,
        Self::Hangup,
        Self::Stop,
        Self::Starve,
        Self::Freeze,
        Self::ReplaceMany,
        Self::DeleteState,
        Self::FillState,
        Self::KillNft,
        Self::Filter,
        Self::DownUp,
        Self::Remake,
        Self::Renumber,
        Self::Mtu,
    ];

    pub const fn name(self) -> &'static str {
        match self {
            Self::KillBox => "kill-box",
            Self::KillWatchdog => "kill-watchdog",
            Self::KillBoth => "kill-both",
            Self::Drain => "drain",
            Self::Terminate => "terminate",
            Self::Replace => "replace",
            Self::Hangup => "hangup",
            Self::Stop => "stop",
            Self::Starve => "starve",
            Self::Freeze => "freeze",
            Self::ReplaceMany => "replace-many",
            Self::DeleteState => "delete-state",
            Self::FillState => "fill-state",
            Self::KillNft => "kill-nft",
            Self::Filter => "filter",
            Self::DownUp => "down-up",
            Self::Remake => "remake",
            Self::Renumber => "renumber",
            Self::Mtu => "mtu",
            Self::MtuOfBox => "mtu-of-box",
        }
    }

    pub fn from_name(name: &str) -> Option<Self> {
        Self::ALL.into_iter().chain([Self::MtuOfBox]).find(|fault| fault.name() == name)
    }

    /// It happens to the network, so it can happen without a box too.
    pub const fn is_of_network(self) -> bool {
        matches!(self, Self::DownUp | Self::Remake | Self::Renumber | Self::Mtu | Self::MtuOfBox)
    }

    /// What was owed died with the box: such flows are reset.
    pub const fn may_reset(self) -> bool {
        matches!(
            self,
            Self::KillBox | Self::KillBoth | Self::Stop | Self::Freeze | Self::DeleteState | Self::FillState
        )
    }

    /// False where it means nothing.
    pub const fn fits(self, way: Way) -> bool {
        match self {
            Self::Renumber | Self::Filter => !matches!(way, Way::Inline),
            Self::KillNft => matches!(way, Way::Rules),
            _ => true,
        }
    }
}

/// What there is to be troubled.
pub struct Scene<'a> {
    pub network: &'a mut Network,
    pub options: &'a Options,
    pub accelerator: &'a mut Option<Accelerator>,
    pub random: &'a mut Xoshiro256PlusPlus,
    /// Starts so far.
    pub starts: &'a mut u32,
    /// Longest time for which a cable or the process is away.
    pub outage_ms_max: u64,
}

impl Scene<'_> {
    pub fn pause(&mut self, ms: std::ops::Range<u64>) {
        crate::chaos::pause_ms(self.random.random_range(ms));
    }

    fn side(&mut self) -> Side {
        Side::BOTH[self.random.random_range(0..2)]
    }

    pub fn start(&mut self, replace: Option<&str>) -> Result<(), String> {
        *self.starts += 1;
        // Names are the machine's, and this test may run more than once at a time.
        let name = format!("chaos-{}-{}", std::process::id(), self.starts);
        let new = Accelerator::start(&self.network.middle, self.options, &name, replace)?;
        *self.accelerator = Some(new);
        Ok(())
    }

    /// Has the trouble happen, and be over.
    pub fn suffer(&mut self, fault: Fault) -> Result<(), String> {
        match fault {
            Fault::DownUp => {
                let side = self.side();
                self.network.set_down(side);
                self.pause(20..self.outage_ms_max);
                self.network.set_up(side);
            }
            Fault::Remake => {
                let side = self.side();
                self.network.cut_cable(side);
                self.pause(20..self.outage_ms_max);
                self.network.lay_cable(side);
                if self.accelerator.is_none() && self.options.way == Way::Inline {
                    self.network.join(side);
                }
            }
            Fault::Renumber => {
                let side = self.side();
                self.network.renumber(side);
            }
            Fault::Mtu | Fault::MtuOfBox => {
                let side = self.side();
                let mtu = [1_280, 1_400, 1_500, 2_000, 4_000, 9_000][self.random.random_range(0..6)];
                self.network.set_mtu(side, mtu, fault == Fault::Mtu);
            }
            _ => return self.suffer_in_box(fault),
        }
        Ok(())
    }

    fn suffer_in_box(&mut self, fault: Fault) -> Result<(), String> {
        let Some(mut old) = self.accelerator.take() else { return Ok(()) };
        let (name, watchdog) = (old.name().to_owned(), old.watchdog());
        let is_to_live = match fault {
            Fault::KillWatchdog => {
                drop(watchdog.as_ref().map(|dog| dog.send_signal(SIGKILL)));
                true
            }
            Fault::Hangup => {
                old.signal(SIGHUP);
                true
            }
            Fault::Stop | Fault::Freeze => {
                old.forget_lines();
                let frozen = if fault == Fault::Freeze { Frozen::of(old.process()) } else { None };
                if frozen.is_none() {
                    old.signal(SIGSTOP);
                }
                // Long enough for packets to go past in most cases.
                self.pause(500..1_500 + self.outage_ms_max);
                if frozen.is_none() {
                    old.signal(SIGCONT);
                }
                drop(frozen);
                // A hang with debt was made a death.
                if old.is_being_killed() {
                    old.await_end()?;
                }
                if old.check() != Ok(true) {
                    if old.is_succeeded(watchdog.as_ref())? {
                        *self.accelerator = Some(old);
                        return Ok(());
                    }
                    return self.start(None);
                }
                true
            }
            Fault::Starve => {
                let starved = Starved::of(old.process());
                self.pause(500..1_500 + self.outage_ms_max);
                drop(starved);
                true
            }
            Fault::KillNft => {
                kill_nft(&self.network.middle);
                true
            }
            Fault::Filter => {
                let said = output(&self.network.middle, "nft", &[FILTER]);
                if !said.is_empty() {
                    return Err(format!("nft: {said}"));
                }
                old.await_line("cellerator: warning: stands by")?;
                self.pause(0..1_500);
                output(&self.network.middle, "nft", &["delete table inet chaos"]);
                old.await_line("ready: ")?;
                true
            }
            Fault::DeleteState => {
                let directory = Path::new(io::INSTANCE_DIRECTORY).join(format!("run-{}", old.process()));
                drop(std::fs::remove_dir_all(directory));
                self.random.random_bool(0.5)
            }
            _ => false,
        };
        if is_to_live {
            *self.accelerator = Some(old);
            return Ok(());
        }
        let full = (fault == Fault::FillState).then(Full::fill);
        match fault {
            Fault::Replace => {
                self.start(Some(&name))?;
                return old.await_end();
            }
            Fault::ReplaceMany => return self.replace_by_many(old),
            Fault::Drain => {
                let said = old.command(&self.network.middle, "drain", &[]);
                if !said.is_empty() {
                    crate::chaos::log(&format!("drain: {}", said.trim_end()));
                }
            }
            Fault::Terminate => old.signal(SIGTERM),
            // The watchdog is held first: killed first, the process has another one within a
            // millisecond, and killed last, it may have a successor go on.
            Fault::KillBoth => {
                drop(watchdog.as_ref().map(|dog| dog.send_signal(SIGSTOP)));
                old.signal(SIGKILL);
                drop(watchdog.as_ref().map(|dog| dog.send_signal(SIGKILL)));
            }
            _ => old.signal(SIGKILL),
        }
        old.await_end()?;
        let is_death = matches!(fault, Fault::KillBox | Fault::DeleteState | Fault::FillState);
        if is_death && old.is_succeeded(watchdog.as_ref())? {
            *self.accelerator = Some(old);
            return Ok(());
        }
        drop(full);
        self.pause(0..500);
        self.start(None)
    }

    /// Three want the place of `old` at once, with its name: in the end one has it.
    fn replace_by_many(&mut self, old: Accelerator) -> Result<(), String> {
        let (middle, options, name) = (&self.network.middle, self.options, old.name().to_owned());
        let begin = |_| Accelerator::begin(middle, options, &name, Some(&name));
        let begun = (0..3).map(begin).collect::<Result<Vec<_>, _>>()?;
        // One that is refused ends by itself.
        let started = begun.into_iter().filter_map(|one| one.when_ready().ok());
        let mut all: Vec<_> = std::iter::once(old).chain(started).collect();
        let give_up = Clock::now() + PATIENCE;
        while all.len() > 1 && Clock::now() < give_up {
            crate::chaos::pause_ms(20);
            all.retain_mut(Accelerator::runs);
        }
        let left = all.len();
        *self.accelerator = all.pop();
        if left == 1 { Ok(()) } else { Err(format!("{left} run in place of one")) }
    }
}

/// A rule about what nobody sends.
const FILTER: &str = "add table inet chaos; add chain inet chaos forward { type filter hook forward priority 0; }; add \
     rule inet chaos forward iifname m0 oifname w0 tcp dport 9 drop";

/// How long several that want one's place may take.
const PATIENCE: Duration = Duration::from_secs(60);

/// A process whose only processor others keep busy, and that comes after them; until dropped.
struct Starved {
    process: String,
    busy: Vec<Child>,
}

impl Starved {
    fn of(process: u32) -> Self {
        let words = ["-c", "0", "sh", "-c", "while :; do :; done"];
        let busy = (0..2).map(|_| Command::new("taskset").args(words).spawn().unwrap()).collect();
        let starved = Self { process: process.to_string(), busy };
        starved.schedule("0", "--idle");
        starved
    }

    /// It may have ended.
    fn schedule(&self, processors: &str, policy: &str) {
        for (program, arguments) in
            [("taskset", ["-a", "-c", "-p", processors]), ("chrt", ["--all-tasks", policy, "--pid", "0"])]
        {
            let mut command = Command::new(program);
            command.args(arguments).arg(&self.process).stdout(Stdio::null()).stderr(Stdio::null());
            drop(command.status());
        }
    }
}

impl Drop for Starved {
    fn drop(&mut self) {
        self.busy.iter_mut().for_each(|child| drop((child.kill(), child.wait())));
        let all = format!("0-{}", std::thread::available_parallelism().map_or(0, |count| count.get() - 1));
        self.schedule(&all, "--other");
    }
}

/// A control group whose process is frozen until it is dropped.
struct Frozen(PathBuf);

impl Frozen {
    /// None where the kernel has no such groups of the first version.
    fn of(process: u32) -> Option<Self> {
        let path = Path::new("/sys/fs/cgroup/freezer").join(format!("chaos-{}", std::process::id()));
        std::fs::create_dir_all(&path).ok()?;
        let frozen = Self(path);
        std::fs::write(frozen.0.join("cgroup.procs"), process.to_string()).ok()?;
        std::fs::write(frozen.0.join("freezer.state"), "FROZEN").ok()?;
        Some(frozen)
    }
}

impl Drop for Frozen {
    fn drop(&mut self) {
        drop(std::fs::write(self.0.join("freezer.state"), "THAWED"));
        let members = std::fs::read_to_string(self.0.join("cgroup.procs")).unwrap_or_default();
        for member in members.lines() {
            drop(std::fs::write("/sys/fs/cgroup/freezer/cgroup.procs", member));
        }
        // One that is about to end is in it still; the next freeze uses it again.
        drop(std::fs::remove_dir(&self.0));
    }
}

/// The state directory's file system, full until this is dropped; as it was where that is too large.
struct Full(PathBuf);

impl Full {
    fn fill() -> Self {
        let path = Path::new(io::INSTANCE_DIRECTORY).join(format!("fill-{}", std::process::id()));
        let filled = std::fs::File::create(&path)
            .and_then(|mut file| (0..FILL_MIB_MAX).try_for_each(|_| file.write_all(&vec![0; 1 << 20])));
        if filled.is_ok() {
            crate::chaos::log("the state directory is in a large file system, and is not filled");
        }
        Self(path)
    }
}

impl Drop for Full {
    fn drop(&mut self) {
        drop(std::fs::remove_file(&self.0));
    }
}

/// A file system that is to be filled has less room.
const FILL_MIB_MAX: usize = 128;

fn kill_nft(middle: &io::Namespace) {
    let own = middle.run(|| std::fs::read_link("/proc/thread-self/ns/net")).unwrap().unwrap();
    let all = std::fs::read_dir("/proc").unwrap().flatten();
    let numbers = all.filter_map(|entry| entry.file_name().to_str()?.parse::<u32>().ok());
    let is_nft =
        |pid: &u32| std::fs::read_to_string(format!("/proc/{pid}/comm")).is_ok_and(|name| name == "nft\n");
    let is_here = |pid: &u32| std::fs::read_link(format!("/proc/{pid}/ns/net")).is_ok_and(|net| net == own);
    for pid in numbers.filter(is_nft).filter(is_here) {
        drop(io::PidFd::open(pid).and_then(|process| process.send_signal(SIGKILL)));
    }
}
