//! [`netfilter_programs`]: BPF programs at hooks of netfilter's, where netlink does not tell.

use std::os::fd::{AsFd, OwnedFd};

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
    let Some(program) = accepting() else { return true };
    // Closed at once, it goes.
    system::attach_to_netfilter(program.as_fd(), link).is_err()
}

/// A program that accepts every packet.
fn accepting() -> Option<OwnedFd> {
    /// `NF_ACCEPT`.
    const ACCEPT: i32 = 1;
    let mut code = Assembler::new();
    code.set(Register::R0, ACCEPT);
    code.exit();
    system::load(system::NETFILTER, &code.finish().ok()?, "cell_probe").ok()
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicBool, Ordering};

    use super::*;
    use crate::netns::test_host;

    /// IPv4, at the forward hook.
    fn at(priority: i32) -> NetfilterLink {
        NetfilterLink { program: 0, family: 2, hook: 2, priority }
    }

    /// The kernel answers `EAGAIN` for a link that is being made, and lists it already.
    #[test]
    fn a_program_is_seen_while_others_come_and_go() {
        let host = test_host("nflinks");
        host.run(|| {
            let program = accepting();
            let Some(link) = program.and_then(|p| system::attach_to_netfilter(p.as_fd(), at(4_777)).ok())
            else {
                println!("this kernel has no BPF programs at netfilter's hooks");
                return;
            };
            let is_over = AtomicBool::new(false);
            std::thread::scope(|scope| {
                for number in 0..4 {
                    let is_over = &is_over;
                    scope.spawn(move || {
                        let program = accepting().unwrap();
                        while !is_over.load(Ordering::Relaxed) {
                            // Where `is_here` looks just then there is no room.
                            drop(system::attach_to_netfilter(program.as_fd(), at(4_800 + number)));
                        }
                    });
                }
                let is_seen = |_| {
                    let programs = netfilter_programs();
                    let links = system::netfilter_links();
                    programs.is_some() && links.is_ok_and(|all| all.iter().any(|link| link.priority == 4_777))
                };
                let unseen = (0..300).filter(|n| !is_seen(*n)).count();
                is_over.store(true, Ordering::Relaxed);
                assert_eq!(unseen, 0);
            });
            drop(link);
        })
        .unwrap();
    }
}
