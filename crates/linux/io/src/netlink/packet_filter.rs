//! [`PacketFilter`]: the packet filter's chains and rules of a namespace, as the kernel has them (`linux/netfilter/nf_tables.h`).
//!
//! No program is needed for it: what `nft` shows is read as the kernel says it. The older iptables have an interface
//! of their own, `legacy_filter.rs`, and are given in the same shape.

use std::sync::OnceLock;

use netlink_sys::protocols::NETLINK_NETFILTER;

use super::attributes::{Attributes, Requests, attributes, find};
use crate::error::Context;
use crate::{IoError, bpf};

/// `NFNL_SUBSYS_NFTABLES` and `NFNL_SUBSYS_HOOK`.
const NFTABLES: u16 = 10 << 8;
const HOOKS: u16 = 12 << 8;

const GET_CHAIN: u16 = NFTABLES | 4;
const GET_RULE: u16 = NFTABLES | 7;
const GET_SET: u16 = NFTABLES | 10;
const GET_SET_ELEMENTS: u16 = NFTABLES | 13;
const GET_GENERATION: u16 = NFTABLES | 16;
const GET_FLOWTABLE: u16 = NFTABLES | 23;
const GET_HOOKS: u16 = HOOKS;

/// `NFT_SET_ANONYMOUS`, `NFT_SET_INTERVAL`, `NFT_SET_MAP` and `NFT_SET_CONCAT`.
const ANONYMOUS: u32 = 1;
const INTERVAL: u32 = 4;
const MAP: u32 = 8;
const CONCATENATED: u32 = 0x80;
/// `NFT_DATA_VERDICT`.
const VERDICTS: u32 = 0xffff_ff00;
/// `NFT_SET_ELEM_INTERVAL_END` and `NFT_SET_ELEM_CATCHALL`.
const INTERVAL_END: u32 = 1;
const CATCH_ALL: u32 = 2;

/// Numbers of the types of IPv4, IPv6 and Ethernet addresses and ports in `nft`: sets of them may be large,
/// and never name an interface.
const TYPES_WITHOUT_INTERFACES: [u32; 4] = [7, 8, 9, 13];

/// `NFNL_HOOK_TYPE_BPF`.
const HOOK_OF_PROGRAM: u32 = 2;

/// Attempts to read it whole, while somebody changes it.
const ATTEMPTS: usize = 5;

/// Place where the kernel shows packets to a chain.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Hook {
    /// As they come in through an interface.
    Ingress,
    /// Before they are routed.
    Prerouting,
    /// Hook for packets to this machine.
    Input,
    /// Hook for packets to others.
    Forward,
    /// Hook for packets from this machine.
    Output,
    /// Before they go out.
    Postrouting,
    /// As they go out through an interface.
    Egress,
}

/// Family of the packets that a table sees.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum FilterFamily {
    /// IPv4 and IPv6.
    Inet,
    /// IPv4.
    V4,
    /// ARP.
    Arp,
    /// Of an interface.
    Netdev,
    /// Of a bridge.
    Bridge,
    /// IPv6.
    V6,
}

impl FilterFamily {
    /// As `nft` writes it.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Inet => "inet",
            Self::V4 => "ip",
            Self::Arp => "arp",
            Self::Netdev => "netdev",
            Self::Bridge => "bridge",
            Self::V6 => "ip6",
        }
    }

    const fn of(number: u8) -> Option<Self> {
        match number {
            1 => Some(Self::Inet),
            2 => Some(Self::V4),
            3 => Some(Self::Arp),
            5 => Some(Self::Netdev),
            7 => Some(Self::Bridge),
            10 => Some(Self::V6),
            _ => None,
        }
    }

    const fn number(self) -> u8 {
        match self {
            Self::Inet => 1,
            Self::V4 => 2,
            Self::Arp => 3,
            Self::Netdev => 5,
            Self::Bridge => 7,
            Self::V6 => 10,
        }
    }

    /// Hook of the family that has this number.
    const fn hook(self, number: u32) -> Option<Hook> {
        match (self, number) {
            (Self::Netdev, 0) | (Self::Inet, 5) => Some(Hook::Ingress),
            (Self::Netdev, 1) => Some(Hook::Egress),
            (Self::Netdev | Self::Arp, _) => None,
            (_, 0) => Some(Hook::Prerouting),
            (_, 1) => Some(Hook::Input),
            (_, 2) => Some(Hook::Forward),
            (_, 3) => Some(Hook::Output),
            (_, 4) => Some(Hook::Postrouting),
            _ => None,
        }
    }
}

/// Attachment of a chain to a hook.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Base {
    /// Hook.
    pub hook: Hook,
    /// Less comes first.
    pub priority: i32,
    /// At which interfaces; all where it is empty.
    pub devices: Vec<String>,
    /// `filter`, `nat` or `route`.
    pub kind: String,
    /// True if packets are dropped that no rule decides on.
    pub drops: bool,
}

/// A chain with its rules.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Chain {
    /// Its table's.
    pub family: FilterFamily,
    /// Its table.
    pub table: String,
    /// Its name in the table.
    pub name: String,
    /// None for one that others jump to.
    pub base: Option<Base>,
    /// In order.
    pub rules: Vec<FilterRule>,
    /// It is one of the older iptables.
    pub is_legacy: bool,
}

/// A rule.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct FilterRule {
    /// By which `nft -a` names it; of the older iptables its number in the chain.
    pub handle: u64,
    /// In order.
    pub expressions: Vec<Expression>,
}

/// Part of a rule.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Expression {
    /// The kernel's name of what it does.
    pub name: String,
    /// Its attributes, as they are.
    pub raw: Vec<u8>,
    /// Action of the expression.
    pub action: Action,
}

/// Action of an expression. Registers are places in 64 bytes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Action {
    /// Loads what is known of the packet beside its bytes.
    Meta {
        /// `NFT_META_…`.
        key: u32,
        /// Register written.
        to: usize,
    },
    /// Loads what connection tracking knows.
    Track {
        /// `NFT_CT_…`.
        key: u32,
        /// Register written.
        to: usize,
    },
    /// Loads bytes of the packet.
    Payload {
        /// `NFT_PAYLOAD_…`: 0 for the link header.
        base: u32,
        /// Register written.
        to: usize,
        /// Number of bytes.
        len: usize,
    },
    /// Asks the routes.
    Routes {
        /// `NFTA_FIB_F_…`: whether interfaces are part of the question.
        flags: u32,
        /// Register written.
        to: usize,
    },
    /// The rule goes on if a register compares so.
    Compare {
        /// The register.
        register: usize,
        /// `NFT_CMP_…`.
        how: u32,
        /// With what.
        value: Vec<u8>,
    },
    /// Masks bits, and inverts some.
    Mask {
        /// The register.
        from: usize,
        /// Register written.
        to: usize,
        /// Bits that stay.
        mask: Vec<u8>,
        /// Bits that are inverted then.
        invert: Vec<u8>,
    },
    /// The rule goes on if a set contains what is in registers; a map's value is loaded.
    Look {
        /// The first register.
        register: usize,
        /// The set's name.
        set: String,
        /// Register written, for a map.
        to: Option<usize>,
        /// It goes on if the set does not.
        inverted: bool,
    },
    /// Loads a value.
    Value {
        /// Register written.
        to: usize,
        /// Value written.
        value: Vec<u8>,
    },
    /// Decides.
    Decide(Decision),
    /// Match in the terms of iptables.
    Match {
        /// Its name.
        name: String,
        /// Version of what follows.
        revision: u32,
        /// Data of the match.
        info: Vec<u8>,
    },
    /// Target in the terms of iptables.
    Target {
        /// Its name.
        name: String,
    },
    /// Changes something of the packet or its connection: what is loaded by the same name is not.
    Change,
    /// Anything else.
    Other,
}

/// Fate of a packet.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Decision {
    /// It is dropped.
    Drop,
    /// It goes on behind the hook's chain.
    Accept,
    /// A program is asked.
    Queue,
    /// The next rule.
    Next,
    /// A chain, and back.
    Jump(String),
    /// A chain, and not back.
    Goto(String),
    /// Back to the chain before.
    Return,
}

/// A set or map.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Set {
    /// Its table's.
    pub family: FilterFamily,
    /// Its table.
    pub table: String,
    /// Its name in the table.
    pub name: String,
    /// Its elements are the beginnings and ends of intervals.
    pub is_interval: bool,
    /// Its keys have several parts, each of which may be a range.
    pub is_concatenated: bool,
    /// None where they are of no interest: addresses, ports.
    pub elements: Option<Vec<Element>>,
}

/// An element of a set.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct Element {
    /// The key, or the first one.
    pub key: Vec<u8>,
    /// An interval ends before this key.
    pub is_end: bool,
    /// For whatever no other element is for.
    pub is_rest: bool,
    /// The last key of a range.
    pub last: Option<Vec<u8>>,
    /// Decision in a map for the element.
    pub decision: Option<Decision>,
    /// Value in a map for the element.
    pub value: Option<Vec<u8>>,
}

/// A program of somebody's at a hook.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct HookProgram {
    /// Of which packets.
    pub family: FilterFamily,
    /// Hook.
    pub hook: Hook,
    /// Name of the program.
    pub name: String,
}

/// Chains and sets of a namespace.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Ruleset {
    /// With their rules.
    pub chains: Vec<Chain>,
    /// With their elements.
    pub sets: Vec<Set>,
    /// Tables through which flows go past everything, by name.
    pub flowtables: Vec<String>,
    /// BPF programs at the hooks of what is forwarded.
    pub programs: Vec<HookProgram>,
}

impl Ruleset {
    fn add_rule(&mut self, answer: &[u8]) {
        let Some((family, table, name, rule)) = rule(answer) else { return };
        let is_it = |chain: &&mut Chain| chain.family == family && chain.table == table && chain.name == name;
        if let Some(chain) = self.chains.iter_mut().find(is_it) {
            chain.rules.push(rule);
        }
    }

    /// Takes in what the kernel says of a chain, a rule, a set or its elements: for the fuzz target.
    pub(super) fn take(&mut self, kind: u16, body: &[u8]) {
        match kind & 0xff {
            3 => self.chains.extend(chain(body)),
            6 => self.add_rule(body),
            9 => self.sets.extend(set(body).map(|(set, _)| set)),
            12 => {
                let all = attributes(body.get(4..).unwrap_or_default());
                let name = text_in(&all, 2);
                if let Some(set) = self.sets.iter_mut().find(|set| Some(&set.name) == name.as_ref()) {
                    set.elements.get_or_insert_default().extend(elements_in(body));
                }
            }
            _ => {}
        }
    }
}

/// A connection to the packet filter of one namespace.
#[derive(Debug)]
pub struct PacketFilter {
    requests: Requests,
}

impl PacketFilter {
    /// Connects, in the calling thread's namespace.
    ///
    /// # Errors
    /// When the kernel has no netfilter, or no netlink socket left to give.
    pub fn open() -> Result<Self, IoError> {
        let requests = Requests::open(NETLINK_NETFILTER).doing(|| "open a netfilter socket".to_owned())?;
        Ok(Self { requests })
    }

    /// A number that changes with every change of nft's rules; none where the kernel has no nft.
    ///
    /// # Errors
    /// When the kernel does not answer.
    pub fn generation(&self) -> Result<Option<u32>, IoError> {
        match self.requests.get(GET_GENERATION, &header(0)) {
            Ok(answers) => Ok(answers.first().and_then(|answer| be32_in(&attributes(answer.get(4..)?), 1))),
            Err(error) if is_without(&error) => Ok(None),
            Err(error) => Err(error).doing(|| "ask for the packet filter's generation".to_owned()),
        }
    }

    /// All of nft's chains, rules and sets, and the BPF programs at hooks.
    ///
    /// # Errors
    /// When the kernel does not answer, or the rules change all the time.
    pub fn read(&self) -> Result<Ruleset, IoError> {
        for _ in 0..ATTEMPTS {
            let before = self.generation()?;
            if before.is_none() {
                return Ok(Ruleset { programs: self.programs(), ..Ruleset::default() });
            }
            let read = self.read_once();
            if self.generation()? == before {
                return read.doing(|| "read the packet filter's rules".to_owned());
            }
        }
        Err(IoError::Invalid {
            what: "the packet filter's rules".to_owned(),
            why: "somebody changes them all the time, they cannot be read whole".to_owned(),
        })
    }

    fn read_once(&self) -> std::io::Result<Ruleset> {
        let mut ruleset = Ruleset::default();
        for answer in self.requests.dump(GET_CHAIN, &header(0))? {
            ruleset.chains.extend(chain(&answer));
        }
        for answer in self.requests.dump(GET_RULE, &header(0))? {
            ruleset.add_rule(&answer);
        }
        for answer in self.requests.dump(GET_SET, &header(0))? {
            let Some((mut set, is_wanted)) = set(&answer) else { continue };
            if is_wanted {
                set.elements = Some(self.elements(&set)?);
            }
            ruleset.sets.push(set);
        }
        for answer in self.requests.dump(GET_FLOWTABLE, &header(0)).or_else(without)? {
            let all = attributes(answer.get(4..).unwrap_or_default());
            ruleset.flowtables.extend(text_in(&all, 2));
        }
        ruleset.programs = self.programs();
        Ok(ruleset)
    }

    fn elements(&self, set: &Set) -> std::io::Result<Vec<Element>> {
        let mut body = header(set.family.number());
        body.extend(Attributes::default().text(1, &set.table).text(2, &set.name).0);
        let mut elements = Vec::new();
        for answer in self.requests.dump(GET_SET_ELEMENTS, &body)? {
            elements.extend(elements_in(&answer));
        }
        // The kernel gives them in an order of its own.
        elements.sort();
        Ok(elements)
    }

    /// BPF programs at hooks. A kernel without `CONFIG_NETFILTER_NETLINK_HOOK` tells of them only who may ask for BPF
    /// programs (`CAP_SYS_ADMIN`); to others what [`look_for_hook_programs`] saw.
    #[must_use]
    pub fn programs(&self) -> Vec<HookProgram> {
        let mut programs = Vec::new();
        for family in [FilterFamily::V4, FilterFamily::V6] {
            for number in [0_u32, 2, 4] {
                let mut body = header(family.number());
                body.extend(Attributes::default().bytes(1, &number.to_be_bytes()).0);
                let answers = match self.requests.dump(GET_HOOKS, &body) {
                    Err(error) if error.raw_os_error() == Some(libc::EINVAL) => return programs_of_list(),
                    answers => answers.unwrap_or_default(),
                };
                let Some(hook) = family.hook(number) else { continue };
                let names = answers.iter().filter_map(|answer| program(answer));
                programs.extend(names.map(|name| HookProgram { family, hook, name }));
            }
        }
        programs
    }
}

/// Programs that [`look_for_hook_programs`] has found.
static SEEN: OnceLock<Vec<HookProgram>> = OnceLock::new();

/// Looks for BPF programs at hooks of the calling thread's network namespace before this process gives up the right to
/// list them (`CAP_SYS_ADMIN`): a kernel without `CONFIG_NETFILTER_NETLINK_HOOK` has no other way. Those that come later
/// are not seen there.
pub fn look_for_hook_programs() {
    SEEN.get_or_init(|| listed_programs().unwrap_or_default());
}

/// BPF programs at hooks, by the list of all of the machine; those seen before where it is not for us any more.
fn programs_of_list() -> Vec<HookProgram> {
    listed_programs().unwrap_or_else(|| SEEN.get().cloned().unwrap_or_default())
}

fn listed_programs() -> Option<Vec<HookProgram>> {
    let at_hook = |program: bpf::NetfilterProgram| {
        let all = [FilterFamily::V4, FilterFamily::V6];
        let family = all.into_iter().find(|family| u32::from(family.number()) == program.family)?;
        let hook = family.hook(program.hook)?;
        let is_passed = matches!(hook, Hook::Prerouting | Hook::Forward | Hook::Postrouting);
        is_passed.then_some(HookProgram { family, hook, name: program.name })
    };
    Some(bpf::netfilter_programs()?.into_iter().filter_map(at_hook).collect())
}

/// Netfilter's header: the family, and nothing more.
fn header(family: u8) -> Vec<u8> {
    vec![family, 0, 0, 0]
}

fn is_without(error: &std::io::Error) -> bool {
    matches!(error.raw_os_error(), Some(libc::EINVAL | libc::EOPNOTSUPP | libc::ENOENT | libc::ECONNREFUSED))
}

/// Empty list for objects of a kind that an older kernel does not know.
fn without(error: std::io::Error) -> std::io::Result<Vec<Vec<u8>>> {
    if is_without(&error) { Ok(Vec::new()) } else { Err(error) }
}

type All<'a> = [(u16, &'a [u8])];

fn be32(value: &[u8]) -> Option<u32> {
    Some(u32::from_be_bytes(value.get(..4)?.try_into().ok()?))
}

fn be32_in(all: &All<'_>, kind: u16) -> Option<u32> {
    find(all, kind).and_then(be32)
}

fn text_of(value: &[u8]) -> String {
    String::from_utf8_lossy(value).trim_end_matches('\0').to_owned()
}

fn text_in(all: &All<'_>, kind: u16) -> Option<String> {
    find(all, kind).map(text_of)
}

fn nested<'a>(all: &All<'a>, kind: u16) -> Vec<(u16, &'a [u8])> {
    attributes(find(all, kind).unwrap_or_default())
}

pub(super) fn chain(answer: &[u8]) -> Option<Chain> {
    let family = FilterFamily::of(*answer.first()?)?;
    let all = attributes(answer.get(4..)?);
    let base = find(&all, 4).and_then(|hook| {
        let hook = attributes(hook);
        let mut devices: Vec<String> = text_in(&hook, 3).into_iter().collect();
        devices.extend(nested(&hook, 4).iter().map(|(_, name)| text_of(name)));
        devices.dedup();
        Some(Base {
            hook: family.hook(be32_in(&hook, 1)?)?,
            priority: be32_in(&hook, 2)?.cast_signed(),
            devices,
            kind: text_in(&all, 7).unwrap_or_default(),
            drops: be32_in(&all, 5) == Some(0),
        })
    });
    let (table, name) = (text_in(&all, 1)?, text_in(&all, 3)?);
    Some(Chain { family, table, name, base, rules: Vec::new(), is_legacy: false })
}

/// A rule with family, table and chain.
pub(super) fn rule(answer: &[u8]) -> Option<(FilterFamily, String, String, FilterRule)> {
    let family = FilterFamily::of(*answer.first()?)?;
    let all = attributes(answer.get(4..)?);
    let handle = u64::from_be_bytes(find(&all, 3)?.get(..8)?.try_into().ok()?);
    let list = nested(&all, 4);
    let expressions = list.iter().filter_map(|(_, bytes)| expression(bytes)).collect();
    Some((family, text_in(&all, 1)?, text_in(&all, 2)?, FilterRule { handle, expressions }))
}

/// Place at which a register begins in the 64 bytes that there are.
fn register(all: &All<'_>, kind: u16) -> Option<usize> {
    match be32_in(all, kind)? as usize {
        number @ 1..=4 => Some((number - 1) * 16),
        number @ 8..=23 => Some((number - 8) * 4),
        _ => None,
    }
}

fn decision(bytes: &[u8]) -> Option<Decision> {
    const QUEUE: i32 = 3;
    let all = attributes(bytes);
    let chain = || text_in(&all, 2).unwrap_or_default();
    Some(match be32_in(&all, 1)?.cast_signed() {
        0 => Decision::Drop,
        1 => Decision::Accept,
        -3 => Decision::Jump(chain()),
        -4 => Decision::Goto(chain()),
        -5 => Decision::Return,
        code if code >= 0 && code & 0xff == QUEUE => Decision::Queue,
        _ => Decision::Next,
    })
}

fn expression(bytes: &[u8]) -> Option<Expression> {
    let all = attributes(bytes);
    let name = text_in(&all, 1)?;
    let raw = find(&all, 2).unwrap_or_default();
    let action = action(&name, &attributes(raw)).unwrap_or(Action::Other);
    Some(Expression { name, raw: raw.to_vec(), action })
}

fn action(name: &str, all: &All<'_>) -> Option<Action> {
    let value = |kind| nested(all, kind).iter().find(|(kind, _)| *kind == 1).map(|(_, value)| value.to_vec());
    Some(match name {
        "meta" if find(all, 3).is_none() => Action::Meta { key: be32_in(all, 2)?, to: register(all, 1)? },
        "ct" if find(all, 4).is_none() => Action::Track { key: be32_in(all, 2)?, to: register(all, 1)? },
        "payload" if find(all, 5).is_none() => {
            Action::Payload { base: be32_in(all, 2)?, to: register(all, 1)?, len: be32_in(all, 4)? as usize }
        }
        "meta" | "ct" | "payload" => Action::Change,
        "exthdr" if find(all, 7).is_some() => Action::Change,
        "fib" => Action::Routes { flags: be32_in(all, 3)?, to: register(all, 1)? },
        "cmp" => Action::Compare { register: register(all, 1)?, how: be32_in(all, 2)?, value: value(3)? },
        "bitwise" if be32_in(all, 6).unwrap_or(0) == 0 => Action::Mask {
            from: register(all, 1)?,
            to: register(all, 2)?,
            mask: value(4)?,
            invert: value(5)?,
        },
        "lookup" => Action::Look {
            register: register(all, 2)?,
            set: text_in(all, 1)?,
            to: find(all, 3).map(|_| register(all, 3).unwrap_or(usize::MAX)),
            inverted: be32_in(all, 5).unwrap_or(0) & 1 != 0,
        },
        "immediate" => {
            let data = nested(all, 2);
            match find(&data, 2) {
                Some(verdict) => Action::Decide(decision(verdict)?),
                None => Action::Value { to: register(all, 1)?, value: find(&data, 1)?.to_vec() },
            }
        }
        "match" => Action::Match {
            name: text_in(all, 1)?,
            revision: be32_in(all, 2).unwrap_or(0),
            info: find(all, 3).unwrap_or_default().to_vec(),
        },
        "target" => Action::Target { name: text_in(all, 1)? },
        _ => return None,
    })
}

/// A set without its elements; true with it if they are of interest.
pub(super) fn set(answer: &[u8]) -> Option<(Set, bool)> {
    let family = FilterFamily::of(*answer.first()?)?;
    let all = attributes(answer.get(4..)?);
    let flags = be32_in(&all, 3).unwrap_or(0);
    let has_verdicts = flags & MAP != 0 && be32_in(&all, 6) == Some(VERDICTS);
    let is_simple = TYPES_WITHOUT_INTERFACES.contains(&be32_in(&all, 4).unwrap_or(0));
    let set = Set {
        family,
        table: text_in(&all, 1)?,
        name: text_in(&all, 2)?,
        is_interval: flags & INTERVAL != 0,
        is_concatenated: flags & CONCATENATED != 0,
        elements: None,
    };
    Some((set, has_verdicts || !is_simple || flags & ANONYMOUS != 0))
}

fn elements_in(answer: &[u8]) -> Vec<Element> {
    let all = attributes(answer.get(4..).unwrap_or_default());
    nested(&all, 3).iter().map(|(_, bytes)| element(bytes)).collect()
}

fn element(bytes: &[u8]) -> Element {
    let all = attributes(bytes);
    let value = |kind| find(&nested(&all, kind), 1).map(<[u8]>::to_vec);
    let flags = be32_in(&all, 3).unwrap_or(0);
    Element {
        key: value(1).unwrap_or_default(),
        is_end: flags & INTERVAL_END != 0,
        is_rest: flags & CATCH_ALL != 0,
        last: value(10),
        decision: find(&nested(&all, 2), 2).and_then(decision),
        value: value(2),
    }
}

/// The BPF program at a hook, by its number, if it is one.
fn program(answer: &[u8]) -> Option<String> {
    let all = attributes(answer.get(4..)?);
    let about = nested(&all, 6);
    (be32_in(&about, 2)? == HOOK_OF_PROGRAM).then_some(())?;
    let number = be32_in(&nested(&about, 1), 1)?;
    Some(format!("number {number}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn data(value: &[u8]) -> Attributes {
        Attributes::default().bytes(1, value)
    }

    #[test]
    fn a_rule_is_read_as_the_kernel_writes_it() {
        let load = Attributes::default().bytes(1, &1_u32.to_be_bytes()).bytes(2, &6_u32.to_be_bytes());
        let compare = Attributes::default()
            .bytes(1, &1_u32.to_be_bytes())
            .bytes(2, &0_u32.to_be_bytes())
            .nested(3, &data(b"m0\0"));
        let verdict = Attributes::default().bytes(1, &(-3_i32).to_be_bytes()).text(2, "lan");
        let verdict = Attributes::default().nested(2, &Attributes::default().nested(2, &verdict));
        let one = |name: &str, inside: &Attributes| Attributes::default().text(1, name).nested(2, inside);
        let list = Attributes::default()
            .nested(1, &one("meta", &load))
            .nested(1, &one("cmp", &compare))
            .nested(1, &one("immediate", &verdict));
        let rule_attributes = Attributes::default()
            .text(1, "fw")
            .text(2, "forward")
            .bytes(3, &9_u64.to_be_bytes())
            .nested(4, &list);
        let answer = [header(1), rule_attributes.0].concat();
        let (family, table, chain, rule) = rule(&answer).unwrap();
        assert_eq!(
            (family, table.as_str(), chain.as_str(), rule.handle),
            (FilterFamily::Inet, "fw", "forward", 9)
        );
        let actions: Vec<Action> = rule.expressions.into_iter().map(|one| one.action).collect();
        assert_eq!(
            actions,
            [
                Action::Meta { key: 6, to: 0 },
                Action::Compare { register: 0, how: 0, value: b"m0\0".to_vec() },
                Action::Decide(Decision::Jump("lan".to_owned())),
            ]
        );
    }

    #[test]
    fn a_chain_has_its_hook_and_what_it_does_with_the_rest() {
        let hook = Attributes::default().bytes(1, &2_u32.to_be_bytes()).bytes(2, &(-5_i32).to_be_bytes());
        let attributes = Attributes::default()
            .text(1, "fw")
            .text(3, "forward")
            .nested(4, &hook)
            .bytes(5, &0_u32.to_be_bytes())
            .text(7, "filter");
        let chain = chain(&[header(10), attributes.0].concat()).unwrap();
        let base = chain.base.unwrap();
        assert_eq!((base.hook, base.priority, base.drops), (Hook::Forward, -5, true));
        assert_eq!((chain.family.name(), base.kind.as_str()), ("ip6", "filter"));
    }

    proptest::proptest! {
        #[test]
        fn any_bytes_are_read(bytes in proptest::collection::vec(0_u8..=255, 0..120)) {
            drop(chain(&bytes));
            drop(rule(&bytes));
            drop(set(&bytes));
            drop(element(&bytes));
            drop(expression(&bytes));
            drop(program(&bytes));
        }
    }
}
