//! [`legacy_chains`]: the rules of the older iptables (`linux/netfilter/x_tables.h`), in the shape of nft's.

use std::os::fd::{AsRawFd, FromRawFd, OwnedFd};

use super::Family;
use super::packet_filter::{Action, Base, Chain, Decision, Expression, FilterFamily, FilterRule, Hook};
use crate::IoError;

/// `IPT_SO_GET_INFO` and `IPT_SO_GET_ENTRIES`, of IPv6 too.
const GET_INFO: libc::c_int = 64;
const GET_ENTRIES: libc::c_int = 65;
/// `struct ipt_getinfo`: name, valid hooks, where each begins and ends, number and bytes of entries.
pub(super) const INFO_LEN: usize = 84;
/// `struct ipt_get_entries` begins with name and size, and is aligned to 8 bytes.
const ENTRIES_START: usize = 40;
/// Largest table that is read.
const LEN_MAX: usize = 1 << 28;

/// `NFT_META_IIFNAME` and its like.
const IIFNAME: u32 = 6;
const OIFNAME: u32 = 7;

/// Offsets in an entry.
struct Layout {
    /// The name of the interface that packets come in by; the other one's and both masks follow.
    names: usize,
    protocol: usize,
    flags: usize,
    target: usize,
    elements: usize,
}

const V4: Layout = Layout { names: 16, protocol: 80, flags: 82, target: 88, elements: 112 };
const V6: Layout = Layout { names: 64, protocol: 128, flags: 131, target: 140, elements: 168 };

/// `IPT_F_GOTO`, of IPv6 `IP6T_F_GOTO`.
const GOTO: [u8; 2] = [2, 4];
/// `IPT_INV_VIA_IN`, `IPT_INV_VIA_OUT` and `XT_INV_PROTO`.
const NOT_IN: u8 = 1;
const NOT_OUT: u8 = 2;
const NOT_PROTOCOL: u8 = 0x40;

/// The chains of a table of the calling thread's namespace. None are given where it has none.
///
/// # Errors
/// When the kernel refuses: who may not administrate the network, for one.
pub fn legacy_chains(family: Family, table: &str) -> Result<Vec<Chain>, IoError> {
    let what = || format!("read the rules of iptables' table '{table}'");
    let (domain, level) = match family {
        Family::V4 => (libc::AF_INET, libc::IPPROTO_IP),
        Family::V6 => (libc::AF_INET6, libc::IPPROTO_IPV6),
    };
    // SAFETY: no memory is passed; the result is checked before it is used.
    let socket = unsafe { libc::socket(domain, libc::SOCK_RAW | libc::SOCK_CLOEXEC, libc::IPPROTO_RAW) };
    if socket < 0 {
        return Err(IoError::last(what()));
    }
    // SAFETY: the kernel has just given it to us, nobody else has it.
    let socket = unsafe { OwnedFd::from_raw_fd(socket) };
    let mut info = vec![0; INFO_LEN];
    copy_name(&mut info, table);
    if !ask(&socket, level, GET_INFO, &mut info) {
        let error = std::io::Error::last_os_error();
        let is_absent = matches!(error.raw_os_error(), Some(libc::ENOENT | libc::ENOPROTOOPT));
        return if is_absent { Ok(Vec::new()) } else { Err(IoError::system(what(), error)) };
    }
    let size = word(&info, INFO_LEN - 4).unwrap_or(0) as usize;
    if size > LEN_MAX {
        return Err(IoError::Invalid { what: what(), why: format!("they have {size} bytes") });
    }
    let mut entries = vec![0; ENTRIES_START + size];
    copy_name(&mut entries, table);
    entries[32..36].copy_from_slice(&(size as u32).to_ne_bytes());
    if !ask(&socket, level, GET_ENTRIES, &mut entries) {
        return Err(IoError::last(what()));
    }
    Ok(chains(family, table, &info, entries.get(ENTRIES_START..).unwrap_or_default()))
}

fn copy_name(to: &mut [u8], table: &str) {
    for (to, from) in to.iter_mut().take(31).zip(table.bytes()) {
        *to = from;
    }
}

fn ask(socket: &OwnedFd, level: libc::c_int, option: libc::c_int, bytes: &mut [u8]) -> bool {
    let mut len = bytes.len() as libc::socklen_t;
    // SAFETY: the kernel writes at most `len` bytes at the address, which are ours for the duration of the call.
    unsafe {
        libc::getsockopt(socket.as_raw_fd(), level, option, bytes.as_mut_ptr().cast(), &raw mut len) == 0
    }
}

fn word(bytes: &[u8], at: usize) -> Option<u32> {
    Some(u32::from_ne_bytes(bytes.get(at..at + 4)?.try_into().ok()?))
}

fn half(bytes: &[u8], at: usize) -> Option<usize> {
    Some(u16::from_ne_bytes(bytes.get(at..at + 2)?.try_into().ok()?).into())
}

fn text(bytes: &[u8]) -> String {
    let len = bytes.iter().position(|byte| *byte == 0).unwrap_or(bytes.len());
    String::from_utf8_lossy(&bytes[..len]).into_owned()
}

/// The target of an entry: its name, and what it decides where it has none.
fn target<'a>(entry: &'a [u8], layout: &Layout) -> Option<(String, &'a [u8])> {
    let target = entry.get(half(entry, layout.target)?..)?;
    Some((text(target.get(2..31)?), target))
}

pub(super) fn chains(family: Family, table: &str, info: &[u8], entries: &[u8]) -> Vec<Chain> {
    const HOOKS: [Hook; 5] = [Hook::Prerouting, Hook::Input, Hook::Forward, Hook::Output, Hook::Postrouting];
    const NAMES: [&str; 5] = ["PREROUTING", "INPUT", "FORWARD", "OUTPUT", "POSTROUTING"];
    let (layout, of) = match family {
        Family::V4 => (&V4, FilterFamily::V4),
        Family::V6 => (&V6, FilterFamily::V6),
    };
    let valid = word(info, 32).unwrap_or(0);
    let place = |list: usize, hook: usize| {
        (valid & 1 << hook != 0)
            .then(|| word(info, 36 + 20 * list + 4 * hook))
            .flatten()
            .map(|at| at as usize)
    };
    let mut all: Vec<Chain> = Vec::new();
    // Where each chain begins: what others jump to.
    let mut begins: Vec<(usize, String)> = Vec::new();
    let new = |name: &str, base: Option<Base>| Chain {
        family: of,
        table: table.to_owned(),
        name: name.to_owned(),
        base,
        rules: Vec::new(),
        is_legacy: true,
    };
    let mut at = 0;
    while let Some(entry) = entries.get(at..).filter(|rest| rest.len() > layout.elements) {
        let Some(len) = half(entry, layout.target + 2).filter(|len| *len > layout.elements) else { break };
        let Some(entry) = entry.get(..len) else { break };
        let Some((name, target)) = target(entry, layout) else { break };
        for hook in 0..5 {
            if place(0, hook) == Some(at) {
                let policy = place(1, hook).and_then(|at| entries.get(at..));
                let last =
                    policy.and_then(|entry| self::target(entry, layout)).and_then(|(_, of)| word(of, 32));
                let drops = last.map(u32::cast_signed) == Some(-1);
                let kind = if table == "nat" { "nat" } else { "filter" }.to_owned();
                let base = Base { hook: HOOKS[hook], priority: 0, devices: Vec::new(), kind, drops };
                all.push(new(NAMES[hook], Some(base)));
            }
        }
        if name == "ERROR" {
            let name = text(target.get(32..).unwrap_or_default());
            begins.push((at + len, name.clone()));
            all.push(new(&name, None));
        } else if let Some(chain) = all.last_mut() {
            let is_policy = (0..5).any(|hook| place(1, hook) == Some(at));
            if !is_policy {
                let handle = chain.rules.len() as u64 + 1;
                chain.rules.push(rule(entry, layout, family, handle, at + len));
            }
        }
        at += len;
    }
    // What was noted as a place is a chain's name now.
    let name_of = |place: usize| begins.iter().find(|(at, _)| *at == place).map(|(_, name)| name.clone());
    for expression in all.iter_mut().flat_map(|chain| &mut chain.rules).flat_map(|rule| &mut rule.expressions)
    {
        if let Action::Decide(Decision::Jump(name) | Decision::Goto(name)) = &mut expression.action {
            *name = name.parse().ok().and_then(name_of).unwrap_or_default();
        }
    }
    all
}

/// `behind` is where the next entry stands.
fn rule(entry: &[u8], layout: &Layout, family: Family, handle: u64, behind: usize) -> FilterRule {
    let mut expressions = Vec::new();
    let mut push = |name: &str, raw: &[u8], action: Action| {
        expressions.push(Expression { name: name.to_owned(), raw: raw.to_vec(), action });
    };
    let (flags, inverted) = (entry[layout.flags], entry[layout.flags + 1]);
    for (side, key, not) in [(0, IIFNAME, NOT_IN), (1, OIFNAME, NOT_OUT)] {
        let name = &entry[layout.names + 16 * side..][..16];
        let mask = &entry[layout.names + 32 + 16 * side..][..16];
        let len = mask.iter().take_while(|byte| **byte != 0).count();
        if len > 0 {
            let how = u32::from(inverted & not != 0);
            push("meta", &[], Action::Meta { key, to: 0 });
            push("cmp", &[], Action::Compare { register: 0, how, value: name[..len].to_vec() });
        }
    }
    let protocol = half(entry, layout.protocol).unwrap_or(0) as u16;
    if protocol != 0 {
        const L4PROTO: u32 = 16;
        let how = u32::from(inverted & NOT_PROTOCOL != 0);
        push("meta", &[], Action::Meta { key: L4PROTO, to: 0 });
        push("cmp", &[], Action::Compare { register: 0, how, value: vec![protocol.min(255) as u8] });
    }
    let others = inverted & !(NOT_IN | NOT_OUT | NOT_PROTOCOL);
    let addresses = [&entry[..layout.names], &[others]].concat();
    if addresses.iter().any(|byte| *byte != 0) {
        push("ip", &addresses, Action::Other);
    }
    let target_at = half(entry, layout.target).unwrap_or(0);
    let mut at = layout.elements;
    while at < target_at {
        let Some(len) = half(entry, at).filter(|len| *len >= 32) else { break };
        let Some(one) = entry.get(at..at + len) else { break };
        let (name, info) = (text(&one[2..31]), one[32..].to_vec());
        push("match", one, Action::Match { name, revision: one[31].into(), info });
        at += len;
    }
    let is_goto = flags & GOTO[usize::from(family == Family::V6)] != 0;
    if let Some((name, target)) = target(entry, layout) {
        let code = word(target, 32).unwrap_or(0).cast_signed();
        let action = match (name.as_str(), code) {
            ("", -1) => Action::Decide(Decision::Drop),
            ("", -2) => Action::Decide(Decision::Accept),
            ("", -4) => Action::Decide(Decision::Queue),
            ("", -5) => Action::Decide(Decision::Return),
            // A rule without a target goes on behind itself.
            ("", to) if to as usize == behind => Action::Decide(Decision::Next),
            ("", to) if to >= 0 => {
                let place = to.to_string();
                Action::Decide(if is_goto { Decision::Goto(place) } else { Decision::Jump(place) })
            }
            ("", _) => Action::Decide(Decision::Next),
            _ => Action::Target { name },
        };
        push("target", target, action);
    }
    FilterRule { handle, expressions }
}
