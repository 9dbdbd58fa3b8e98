//! [`NotrackTable`]: keeps connection tracking away from the mobile side, for as long as we live.
//!
//! On a machine with NAT or a stateful firewall a steered flow passes connection tracking twice, once
//! between the wired interface and its TUN and once between the mobile interface and its TUN. The
//! second pass would mix up addresses and see acknowledgements the first one does not know (H36). So
//! the mobile side is not tracked; NAT happens on the wired side alone.
//!
//! The table has an owner (`flags owner`), whose end is its end; nobody else can delete it. `nft` makes it, and the
//! owner's socket is taken from that child then, which ends ([`io::OwnedTable`]): the table lives as long as somebody
//! has the socket, this process, or a watchdog that keeps it for a successor. Where the socket cannot be had (before
//! Linux 5.6) the child goes on to hold the table, as long as somebody has the other end of its standard input.

use std::fs::File;
use std::io::{Read, Write};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::process::CommandExt;
use std::process::{Child, Command, Stdio};

use io::{Clock, IoError, OwnedTable, PidFd, ProcessId, Waiter, features};
use units::Duration;

use crate::RunError;
use crate::record::Record;

const SIGKILL: i32 = 9;

/// Longest time that `nft` may take to install two rules.
const INSTALL_TIME_MAX: Duration = Duration::from_secs(5);

/// Protocols that are steered: TCP, ICMP and ICMPv6, as numbers, because a small system has no /etc/protocols
/// to resolve names by.
const PROTOCOLS: &str = "{ 6, 1, 58 }";

/// Chain with a rule that drops packets from the clients, while rules and table change.
const CLOSED: &str = "closed";
/// Chain that keeps tracking away from them.
const MOBILE: &str = "mobile";

/// The commands that make the table `name`. What comes from the clients is dropped until it is opened.
///
/// `chained` is the wired device of an instance before this one, from which this one takes the
/// clients' packets.
pub(crate) fn commands(name: &str, mobile: &str, mobile_tun: &str, chained: Option<&str>) -> Vec<String> {
    // What is for this machine itself stays tracked: a stateful firewall on it goes on working.
    let of_clients = format!("iifname \"{mobile}\" meta l4proto {PROTOCOLS} fib daddr type != local");
    let mut commands = vec![
        format!("add table inet {name} {{ flags owner; }}"),
        format!("add chain inet {name} {CLOSED}"),
        format!("add chain inet {name} {MOBILE}"),
        format!(
            "add chain inet {name} prerouting {{ type filter hook prerouting priority raw; policy accept; }}"
        ),
        format!("add rule inet {name} {MOBILE} notrack"),
        format!("add rule inet {name} {CLOSED} drop"),
        format!("add rule inet {name} prerouting {of_clients} jump {CLOSED}"),
        format!("add rule inet {name} prerouting {of_clients} jump {MOBILE}"),
        format!(
            "add rule inet {name} prerouting iifname \"{mobile_tun}\" fib daddr oifname \"{mobile}\" notrack"
        ),
    ];
    commands.extend(chained.map(|tun| {
        format!("add rule inet {name} prerouting iifname \"{tun}\" meta l4proto {PROTOCOLS} notrack")
    }));
    commands
}

/// The command that opens the table `name`, once rules steer.
pub(crate) fn opening(name: &str) -> String {
    format!("flush chain inet {name} {CLOSED}")
}

/// Drops what comes from the clients from here on: before rules and a table, by its owner's socket, are taken away.
///
/// # Errors
/// When the kernel refuses.
pub(crate) fn close(table: &OwnedTable) -> Result<(), IoError> {
    table.add_drop(CLOSED)
}

/// The installed table; goes when dropped.
#[derive(Debug)]
pub(crate) struct NotrackTable {
    /// Its name; unknown, and not needed, where a process of before holds it by a child.
    name: String,
    holder: Holder,
    is_left: bool,
}

/// Holder of the table.
#[derive(Debug)]
enum Holder {
    /// Whoever has the owner's socket.
    Socket(OwnedTable),
    Child(Child, ProcessId),
    /// The child of a process that has died, by its standard input.
    Orphan(OwnedFd, ProcessId),
}

impl NotrackTable {
    /// Installs the table `name` in the calling thread's namespace by `commands`.
    pub fn install(name: &str, commands: &[String]) -> Result<Self, RunError> {
        let nft = features::find_program("nft").ok_or(RunError::NftMissing)?;
        let mut command = Command::new(&nft);
        command
            .arg("-i")
            // Interactive nft keeps a history in the home directory.
            .env("HOME", "/nonexistent")
            .process_group(0)
            .stdin(Stdio::piped())
            .stdout(Stdio::null())
            .stderr(Stdio::piped());
        let failed = |e: std::io::Error| RunError::Nft(e.to_string());
        let mut child = command.spawn().map_err(failed)?;
        let id = ProcessId::of(child.id())?;
        let mut script = commands.join("\n");
        script.push('\n');
        let written = child.stdin.as_mut().map_or(Ok(()), |stdin| stdin.write_all(script.as_bytes()));
        let mut table = Self { name: name.to_owned(), holder: Holder::Child(child, id), is_left: false };
        written.map_err(failed)?;
        let rules = commands.iter().filter(|command| command.ends_with(" notrack")).count();
        table.await_rules(name, rules)?;
        if let Ok(socket) = OwnedTable::take_from(id.pid(), name) {
            let mut before = std::mem::replace(&mut table.holder, Holder::Socket(socket));
            before.end();
        }
        Ok(table)
    }

    /// Lets in what comes from the clients: rules steer it now.
    ///
    /// # Errors
    /// When the kernel refuses.
    pub fn open(&mut self) -> Result<(), RunError> {
        match &self.holder {
            Holder::Socket(table) => Ok(table.empty(&[CLOSED])?),
            _ => self.say(&opening(&self.name)),
        }
    }

    /// Drops what comes from the clients until rules and table are gone: if only one of both were, addresses would not
    /// be translated, and servers would reset the connections. It is sent again within milliseconds.
    ///
    /// # Errors
    /// When the kernel refuses.
    pub fn close(&mut self) -> Result<(), RunError> {
        match &self.holder {
            Holder::Socket(table) => Ok(close(table)?),
            _ => self.say(&format!("add rule inet {} {CLOSED} drop", self.name)),
        }
    }

    /// No rule steers any more: what comes from the clients is tracked again. What is still in the devices is not.
    ///
    /// # Errors
    /// When the kernel refuses.
    pub fn release(&mut self) -> Result<(), RunError> {
        let name = &self.name;
        match &self.holder {
            Holder::Socket(table) => Ok(table.empty(&[MOBILE, CLOSED])?),
            // A line is done as a whole.
            _ => self.say(&format!("flush chain inet {name} {MOBILE}; flush chain inet {name} {CLOSED}")),
        }
    }

    /// Tells the child that holds it.
    fn say(&mut self, command: &str) -> Result<(), RunError> {
        let line = format!("{command}\n");
        let failed = |error: std::io::Error| RunError::Nft(error.to_string());
        match &mut self.holder {
            Holder::Socket(_) => Ok(()),
            Holder::Child(child, _) => {
                child.stdin.as_mut().map_or(Ok(()), |stdin| stdin.write_all(line.as_bytes())).map_err(failed)
            }
            Holder::Orphan(table_owner, _) => {
                let copy = table_owner.try_clone().map_err(failed)?;
                File::from(copy).write_all(line.as_bytes()).map_err(failed)
            }
        }
    }

    /// The table that another process has installed and `record` tells of, as long as `table_owner` is there.
    pub fn adopt(record: &Record, table_owner: OwnedFd) -> Option<Self> {
        let holder = match &record.table {
            Some(name) => Holder::Socket(OwnedTable::adopt(table_owner, name)),
            None => Holder::Orphan(table_owner, record.nft.as_deref()?.parse().ok()?),
        };
        let name = record.table.clone().unwrap_or_default();
        Some(Self { name, holder, is_left: false })
    }

    /// Whoever has it keeps the table.
    pub fn table_owner(&self) -> Option<BorrowedFd<'_>> {
        match &self.holder {
            Holder::Socket(table) => Some(table.as_fd()),
            Holder::Child(child, _) => child.stdin.as_ref().map(AsFd::as_fd),
            Holder::Orphan(table_owner, _) => Some(table_owner.as_fd()),
        }
    }

    /// Leaves the table to whoever has its owner, too.
    pub fn leave(mut self) {
        self.is_left = true;
    }

    /// Writes down how it is found and taken away.
    pub fn note(&self, record: &mut Record) {
        (record.table, record.nft) = match &self.holder {
            Holder::Socket(table) => (Some(table.name().to_owned()), None),
            Holder::Child(_, id) | Holder::Orphan(_, id) => (None, Some(id.to_string())),
        };
    }

    /// True while it is there, as far as others cannot take it away.
    pub fn is_there(&self) -> bool {
        match &self.holder {
            Holder::Socket(_) => true,
            Holder::Child(_, id) | Holder::Orphan(_, id) => id.is_alive(),
        }
    }

    fn await_rules(&mut self, name: &str, rules: usize) -> Result<(), RunError> {
        let mut waiter = Waiter::new(Duration::ZERO)?;
        let give_up = Clock::now() + INSTALL_TIME_MAX;
        while Clock::now() < give_up && self.is_there() {
            if rule_count(name) == rules {
                return Ok(());
            }
            waiter.wait(Some(Clock::now() + Duration::from_millis(5)))?;
        }
        Err(RunError::Nft(self.complaint()))
    }

    /// Ends the child and gives what it complained about.
    fn complaint(&mut self) -> String {
        self.is_left = true;
        let mut text = String::new();
        if let Holder::Child(child, _) = &mut self.holder {
            drop(child.kill());
            if let Some(stderr) = child.stderr.as_mut() {
                // What cannot be read is not reported; the error is one line either way.
                drop(stderr.read_to_string(&mut text));
            }
            drop(child.wait());
        }
        text.lines().next().map_or_else(|| "no answer".to_owned(), str::to_owned)
    }
}

impl Holder {
    /// Takes the table away, or ends the child that has made it.
    fn end(&mut self) {
        // Fails only for what has ended already.
        match self {
            Self::Socket(table) => drop(table.delete()),
            Self::Child(child, _) => {
                drop(child.kill());
                drop(child.wait());
            }
            Self::Orphan(_, id) if id.is_alive() => {
                drop(PidFd::open(id.pid()).and_then(|holder| holder.send_signal(SIGKILL)));
            }
            Self::Orphan(..) => {}
        }
    }
}

impl Drop for NotrackTable {
    fn drop(&mut self) {
        if !self.is_left {
            self.holder.end();
        }
    }
}

/// Number of rules in the table `name`; 0 when there is no such table.
fn rule_count(name: &str) -> usize {
    let Some(nft) = features::find_program("nft") else { return 0 };
    let listing = Command::new(nft).args(["list", "table", "inet", name]).stdin(Stdio::null()).output();
    listing.map_or(0, |output| {
        String::from_utf8_lossy(&output.stdout).lines().filter(|line| line.ends_with("notrack")).count()
    })
}
