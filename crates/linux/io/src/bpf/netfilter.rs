//! [`netfilter_programs`]: BPF programs at hooks of netfilter's, where netlink does not tell.

use std::os::fd::AsFd;

use super::program::NUMBER;
use super::system::{self, NetfilterLink};
use super::{Assembler, Register};

/// A BPF program at a hook of netfilter's.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct NetfilterProgram {
    /// `NFPROTO_…`.
    pub family: u32,
    /// `NF_INET_…`.
    pub hook: u32,
    pub name: String,
}

/// Those in the calling thread's network namespace; none where links may not be asked for (`CAP_SYS_ADMIN`).
pub(crate) fn netfilter_programs() -> Option<Vec<NetfilterProgram>> {
    let name = |id| system::program_info(id).map_or_else(|_| format!("{NUMBER}{id}"), |info| info.name);
    let here = system::netfilter_links().ok()?.into_iter().filter(|link| is_here(*link));
    let programs =
        here.map(|link| NetfilterProgram { family: link.family, hook: link.hook, name: name(link.program) });
    Some(programs.collect())
}

/// False if the link is another network namespace's. The kernel says so of none; but it attaches no program at a hook and
/// priority that something has already, so one that accepts everything has no room where this one is. Where a chain of
/// this namespace has the same priority there is none either: then a program of another one counts, too.
fn is_here(link: NetfilterLink) -> bool {
    /// `NF_ACCEPT`.
    const ACCEPT: i32 = 1;
    let mut code = Assembler::new();
    code.set(Register::R0, ACCEPT);
    code.exit();
    let Ok(code) = code.finish() else { return true };
    let Ok(program) = system::load(system::NETFILTER, &code, "cell_probe") else { return true };
    // Closed at once, it goes.
    system::attach_to_netfilter(program.as_fd(), link).is_err()
}
