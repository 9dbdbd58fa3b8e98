//! [`Residual`]: what is left of a chain for packets that go from one interface to another: rules whose conditions on
//! interfaces do not hold are gone, and those conditions are gone from the others.
//!
//! Two passages with the same residual are decided alike, whatever a packet's addresses and ports are. What is not
//! known of a packet stays as it stands in the rule, and is only compared.

use io::netlink::{Action, Chain, Decision, Element, Expression, FilterFamily, Hook, Ruleset, Set};

/// Chains may jump so deep; the kernel allows 16.
const DEPTH_MAX: usize = 32;
/// More lines than this are not made of a chain: then it equals nothing.
const LINES_MAX: usize = 50_000;

/// `NFT_META_…`.
const IIF: u32 = 4;
const OIF: u32 = 5;
const IIFNAME: u32 = 6;
const OIFNAME: u32 = 7;
const IIFTYPE: u32 = 8;
const OIFTYPE: u32 = 9;
const NFPROTO: u32 = 15;
const L4PROTO: u32 = 16;
const IIFGROUP: u32 = 21;
const OIFGROUP: u32 = 22;
/// Length, protocol, priority, mark, owner, tracing, routing class, type, processor, group of processes, chance, and
/// time: what a packet that has been through a process has as one that has not. Whatever is not among them may be the
/// interface's.
const META_OF_PACKET: [u32; 15] = [0, 1, 2, 3, 10, 11, 12, 13, 19, 20, 23, 24, 30, 31, 32];
/// The same of matches of iptables: what they look at is in the packet, or is the connection's, the mark, or the time.
const MATCHES_OF_PACKET: [&str; 43] = [
    "ah",
    "connbytes",
    "connlabel",
    "connlimit",
    "connmark",
    "conntrack",
    "cpu",
    "dccp",
    "dscp",
    "dst",
    "ecn",
    "esp",
    "frag",
    "hashlimit",
    "hbh",
    "helper",
    "hl",
    "icmp",
    "icmp6",
    "ipcomp",
    "iprange",
    "ipv6header",
    "length",
    "limit",
    "mark",
    "mh",
    "multiport",
    "osf",
    "owner",
    "pkttype",
    "quota",
    "recent",
    "rt",
    "sctp",
    "state",
    "statistic",
    "string",
    "tcp",
    "tcpmss",
    "time",
    "tos",
    "ttl",
    "udp",
];
/// `NFT_CT_STATE`, and the state of what is not tracked.
const CT_STATE: u32 = 0;
const UNTRACKED: u32 = 64;
/// `NFTA_FIB_F_IIF` and `NFTA_FIB_F_OIF`.
const FIB_IIF: u32 = 8;
const FIB_OIF: u32 = 16;
/// `ARPHRD_NONE`, of a TUN device.
const TYPE_OF_TUN: u16 = 0xfffe;
const NFPROTO_V4: u8 = 2;
const NFPROTO_V6: u8 = 10;
const NAME_LEN: usize = 16;

/// An interface that packets come in or go out by.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Face<'a> {
    pub name: &'a str,
    /// None for a TUN device of ours, which may not be there yet.
    pub index: Option<u32>,
    /// Of a packet that comes in by it the port is known, too.
    pub is_bridge: bool,
}

/// From where to where.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Passage<'a> {
    pub way_in: Face<'a>,
    pub way_out: Face<'a>,
    /// Connection tracking sees it.
    pub is_tracked: bool,
    pub is_ipv6: bool,
    /// The protocol in the packets, by number.
    pub protocol: u8,
}

/// Effect of a line on the packets that it is about.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Effect {
    Accept,
    /// Drops, rejects, or asks a program.
    Drop,
    /// Changes the packet, its connection or a set, in a way.
    Change(String),
    /// A chain with conditions to leave it begins, or ends.
    Begin,
    End,
    /// It leaves that chain.
    Return,
}

/// Remainder of a rule.
#[derive(Clone, Debug)]
pub(crate) struct Line {
    pub conditions: String,
    pub effect: Effect,
    /// Chain, by its place in the ruleset, and rule; no rule for what the chain does with the rest.
    pub place: (usize, Option<u64>),
}

impl PartialEq for Line {
    /// Compares conditions and effect: the place does not matter.
    fn eq(&self, other: &Self) -> bool {
        (&self.conditions, &self.effect) == (&other.conditions, &other.effect)
    }
}

/// Remainder of a chain at a hook.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Residual {
    /// In order; the last one is about everything.
    pub lines: Vec<Line>,
}

impl Residual {
    pub fn of(ruleset: &Ruleset, chain: usize, hook: Hook, passage: Passage<'_>) -> Self {
        let mut walk = Walk { ruleset, passage, hook, lines: Vec::new() };
        let end = walk.chain(chain, "", 0);
        let mut lines = walk.lines;
        let drops = ruleset.chains[chain].base.as_ref().is_some_and(|base| base.drops);
        if end != End::Decided {
            let effect = if drops { Effect::Drop } else { Effect::Accept };
            lines.push(Line { conditions: String::new(), effect, place: (chain, None) });
        }
        // Outside of all chains that were jumped to, to return is what the policy says.
        let mut depth = 0;
        for line in &mut lines {
            match line.effect {
                Effect::Begin => depth += 1,
                Effect::End => depth -= 1,
                Effect::Return if depth == 0 => {
                    line.effect = if drops { Effect::Drop } else { Effect::Accept };
                }
                _ => {}
            }
        }
        // What the last line does anyhow.
        while let [.., before, last] = lines.as_slice()
            && before.effect == last.effect
            && matches!(last.effect, Effect::Accept | Effect::Drop)
        {
            lines.remove(lines.len() - 2);
        }
        Self { lines }
    }

    /// Nothing is dropped or changed.
    pub fn accepts_all(&self) -> bool {
        self.lines
            .iter()
            .all(|line| matches!(line.effect, Effect::Accept | Effect::Begin | Effect::End | Effect::Return))
    }

    /// The first line that drops or changes what `other` would not drop.
    pub fn excess<'a>(&'a self, other: &Self) -> Option<&'a Line> {
        if self == other {
            return None;
        }
        let does = |line: &&Line| matches!(line.effect, Effect::Drop | Effect::Change(_));
        // Who may leave a chain in its middle is not followed.
        let is_plain = |residual: &Self| {
            residual
                .lines
                .iter()
                .all(|line| !matches!(line.effect, Effect::Begin | Effect::End | Effect::Return))
        };
        if !is_plain(self) || !is_plain(other) {
            return self.lines.iter().find(does);
        }
        let mut accepted = Vec::new();
        for line in &self.lines {
            match line.effect {
                Effect::Accept => accepted.push(line.conditions.as_str()),
                Effect::Drop if other.drops(&line.conditions, &accepted) => {}
                _ => return Some(line),
            }
        }
        None
    }

    /// True when it drops all that meets `conditions`, but for what meets any of `accepted`.
    fn drops(&self, conditions: &str, accepted: &[&str]) -> bool {
        for line in &self.lines {
            match line.effect {
                Effect::Drop if line.conditions == conditions => return true,
                Effect::Accept if !accepted.contains(&line.conditions.as_str()) => return false,
                _ => {}
            }
        }
        false
    }

    pub fn has_changes(&self) -> bool {
        self.lines.iter().any(|line| matches!(line.effect, Effect::Change(_)))
    }

    /// Lines that drop, if it does nothing else and lets the rest go on: their order does not matter.
    pub fn drops_only(&self) -> Option<&[Line]> {
        let (last, lines) = self.lines.split_last()?;
        let is_plain = last.effect == Effect::Accept && lines.iter().all(|line| line.effect == Effect::Drop);
        is_plain.then_some(lines)
    }

    /// The first line by which it differs from `other`.
    pub fn difference<'a>(&'a self, other: &'a Self) -> Option<&'a Line> {
        let first = self.lines.iter().zip(&other.lines).find(|(own, others)| own != others);
        match first {
            // The more telling one: that of a rule.
            Some((own, others)) if own.place.1.is_none() => Some(others),
            Some((own, _)) => Some(own),
            None if self.lines.len() == other.lines.len() => None,
            None => self.lines.get(other.lines.len()).or(other.lines.get(self.lines.len())),
        }
    }
}

/// End of a chain for whoever jumped to it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum End {
    /// Every packet is decided about.
    Decided,
    /// Packets come out of it.
    Open,
}

/// Result of an expression.
enum Step {
    Goes,
    Fails,
    /// It is not known: a condition.
    Asks(String),
    Decides(Decision),
    /// A map with decisions, by conditions.
    Chooses(Vec<(String, Decision)>),
    Drops,
    Changes(String),
}

/// Knowledge of each byte of the registers.
#[derive(Clone)]
struct Registers([Option<u8>; 64]);

impl Registers {
    fn get(&self, at: usize, len: usize) -> Option<&[Option<u8>]> {
        self.0.get(at..at.checked_add(len)?)
    }

    fn known(&self, at: usize, len: usize) -> Option<Vec<u8>> {
        self.get(at, len)?.iter().copied().collect()
    }

    fn load(&mut self, at: usize, bytes: &[u8]) {
        for (place, byte) in self.0.iter_mut().skip(at).zip(bytes) {
            *place = Some(*byte);
        }
    }

    fn forget(&mut self, at: usize, len: usize) {
        self.0.iter_mut().skip(at).take(len).for_each(|byte| *byte = None);
    }
}

struct Walk<'a> {
    ruleset: &'a Ruleset,
    passage: Passage<'a>,
    hook: Hook,
    lines: Vec<Line>,
}

impl Walk<'_> {
    fn push(&mut self, conditions: &str, effect: Effect, place: (usize, Option<u64>)) {
        self.lines.push(Line { conditions: conditions.to_owned(), effect, place });
    }

    /// Lines of a chain to which only what meets `outer` comes.
    fn chain(&mut self, number: usize, outer: &str, depth: usize) -> End {
        let ruleset = self.ruleset;
        let Some(chain) = ruleset.chains.get(number).filter(|_| depth < DEPTH_MAX) else { return End::Open };
        for rule in &chain.rules {
            let place = (number, Some(rule.handle));
            if self.lines.len() > LINES_MAX {
                let Passage { way_in, way_out, .. } = self.passage;
                let what = format!("too long @{}>{}", way_in.name, way_out.name);
                self.push(outer, Effect::Change(what), place);
                return End::Open;
            }
            let mut registers = Registers([None; 64]);
            let mut conditions = outer.to_owned();
            for expression in &rule.expressions {
                match self.step(chain, expression, &mut registers) {
                    Step::Goes => {}
                    Step::Fails => break,
                    Step::Asks(condition) => conditions.push_str(&condition),
                    Step::Changes(how) => self.push(&conditions, Effect::Change(how), place),
                    Step::Drops => {
                        self.push(&conditions, Effect::Drop, place);
                        if conditions == outer {
                            return End::Decided;
                        }
                        break;
                    }
                    Step::Chooses(all) => {
                        for (condition, decision) in all {
                            let inner = format!("{conditions}{condition}");
                            // Under a condition no decision is about everything.
                            let end = self.decide(chain, &decision, &inner, place, depth);
                            if matches!(decision, Decision::Goto(_)) && end == End::Open {
                                self.push(&inner, Effect::Return, place);
                            }
                        }
                    }
                    Step::Decides(Decision::Next) => break,
                    Step::Decides(decision) => {
                        let end = self.decide(chain, &decision, &conditions, place, depth);
                        let is_for_all = conditions == outer;
                        match decision {
                            Decision::Return if is_for_all => {
                                // The line says so already.
                                self.lines.pop();
                                return End::Open;
                            }
                            Decision::Goto(_) if is_for_all => return end,
                            Decision::Goto(_) if end == End::Open => {
                                self.push(&conditions, Effect::Return, place);
                                break;
                            }
                            _ if is_for_all && end == End::Decided => return End::Decided,
                            _ => break,
                        }
                    }
                }
            }
        }
        End::Open
    }

    fn decide(
        &mut self,
        from: &Chain,
        decision: &Decision,
        conditions: &str,
        place: (usize, Option<u64>),
        depth: usize,
    ) -> End {
        match decision {
            Decision::Accept => self.push(conditions, Effect::Accept, place),
            Decision::Drop | Decision::Queue => self.push(conditions, Effect::Drop, place),
            Decision::Next => return End::Open,
            Decision::Return => {
                self.push(conditions, Effect::Return, place);
                return End::Open;
            }
            Decision::Jump(name) | Decision::Goto(name) => {
                let is_it = |chain: &Chain| {
                    (chain.family, &chain.table, &chain.name, chain.is_legacy)
                        == (from.family, &from.table, name, from.is_legacy)
                };
                let Some(number) = self.ruleset.chains.iter().position(is_it) else { return End::Open };
                let begin = self.lines.len();
                self.push(conditions, Effect::Begin, place);
                let end = self.chain(number, conditions, depth + 1);
                self.push(conditions, Effect::End, place);
                // Without a way out of it in the middle it is as if its rules stood here.
                let mut inner = 0;
                let leaves = self.lines[begin + 1..].iter().any(|line| {
                    match line.effect {
                        Effect::Begin => inner += 1,
                        Effect::End => inner -= 1,
                        _ => {}
                    }
                    inner == 0 && line.effect == Effect::Return
                });
                if !leaves {
                    self.lines.pop();
                    self.lines.remove(begin);
                }
                return end;
            }
        }
        End::Decided
    }

    fn step(&self, chain: &Chain, expression: &Expression, registers: &mut Registers) -> Step {
        let opaque = |tag: &str| Step::Asks(text(expression, tag));
        let way_out = if self.is_before_routing() { "" } else { self.passage.way_out.name };
        let tag = || format!("@{}>{way_out}", self.passage.way_in.name);
        match &expression.action {
            Action::Meta { key, to } => match self.meta(*key) {
                Some(bytes) => {
                    registers.load(*to, &bytes);
                    Step::Goes
                }
                None => {
                    registers.forget(*to, NAME_LEN);
                    opaque(&if META_OF_PACKET.contains(key) { String::new() } else { tag() })
                }
            },
            Action::Track { key, to } if !self.passage.is_tracked => {
                if *key == CT_STATE {
                    registers.load(*to, &UNTRACKED.to_ne_bytes());
                    Step::Goes
                } else {
                    Step::Fails
                }
            }
            Action::Track { to, .. } => {
                registers.forget(*to, NAME_LEN);
                opaque("")
            }
            // What comes out of a TUN device has no link header.
            Action::Payload { base: 0, .. } if self.passage.way_in.index.is_none() => Step::Fails,
            Action::Payload { base, to, len } => {
                registers.forget(*to, len.next_multiple_of(4));
                opaque(&if *base == 0 { tag() } else { String::new() })
            }
            Action::Routes { flags, to } => {
                registers.forget(*to, NAME_LEN);
                opaque(&if flags & (FIB_IIF | FIB_OIF) != 0 { tag() } else { String::new() })
            }
            Action::Compare { register, how, value } => match registers.known(*register, value.len()) {
                Some(known) => holds(*how, &known, value),
                None => Step::Asks(format!(
                    "{}{}",
                    partly(registers, *register, value.len()),
                    text(expression, "")
                )),
            },
            Action::Mask { from, to, mask, invert } => match registers.known(*from, mask.len()) {
                Some(known) => {
                    let bits = known.iter().zip(mask).zip(invert);
                    let made: Vec<u8> = bits.map(|((byte, mask), invert)| byte & mask ^ invert).collect();
                    registers.load(*to, &made);
                    Step::Goes
                }
                None => {
                    registers.forget(*to, mask.len());
                    opaque("")
                }
            },
            Action::Value { to, value } => {
                registers.load(*to, value);
                Step::Goes
            }
            Action::Look { register, set, to, inverted } => {
                let is_it =
                    |one: &&Set| one.family == chain.family && one.table == chain.table && one.name == *set;
                let found = self.ruleset.sets.iter().find(is_it);
                look(found, expression, registers, (*register, *to, *inverted))
            }
            Action::Decide(decision) => Step::Decides(decision.clone()),
            Action::Match { name, revision, info } => {
                self.xt_match(expression, (name, *revision, info), &tag())
            }
            Action::Target { name } => match name.as_str() {
                "LOG" | "NFLOG" | "TRACE" | "AUDIT" => Step::Goes,
                "REJECT" | "DROP" | "NFQUEUE" | "TARPIT" | "DELUDE" | "STEAL" => Step::Drops,
                _ => Step::Changes(text(expression, "")),
            },
            Action::Change => Step::Changes(text(expression, "")),
            Action::Other => other(expression, registers, &tag()),
        }
    }

    /// Nobody knows yet where it goes.
    fn is_before_routing(&self) -> bool {
        matches!(self.hook, Hook::Prerouting | Hook::Ingress)
    }

    /// Bytes known of a packet beside its bytes.
    fn meta(&self, key: u32) -> Option<Vec<u8>> {
        let Passage { way_in, way_out, is_ipv6, .. } = self.passage;
        let nowhere = Face { name: "", index: Some(0), is_bridge: false };
        let way_out = if self.is_before_routing() { nowhere } else { way_out };
        let face = match key {
            OIF | OIFNAME | OIFTYPE | OIFGROUP => way_out,
            _ => way_in,
        };
        match key {
            IIFNAME | OIFNAME => {
                let mut name = face.name.as_bytes().to_vec();
                name.resize(NAME_LEN, 0);
                Some(name)
            }
            // That of a device of ours is nobody's in any rule.
            IIF | OIF => Some(face.index.unwrap_or(u32::MAX).to_ne_bytes().to_vec()),
            IIFTYPE | OIFTYPE if face.index.is_none() => {
                let mut kind = TYPE_OF_TUN.to_ne_bytes().to_vec();
                kind.resize(4, 0);
                Some(kind)
            }
            IIFGROUP | OIFGROUP if face.index.is_none() => Some(vec![0; 4]),
            NFPROTO => Some(vec![if is_ipv6 { NFPROTO_V6 } else { NFPROTO_V4 }, 0, 0, 0]),
            L4PROTO => Some(vec![self.passage.protocol, 0, 0, 0]),
            _ => None,
        }
    }

    /// Result of a match of iptables; `tag` tells between where the packets go.
    fn xt_match(
        &self,
        expression: &Expression,
        (name, revision, info): (&str, u32, &[u8]),
        tag: &str,
    ) -> Step {
        let state = |at: usize| info.get(at..at + 2).map(|two| u16::from_ne_bytes([two[0], two[1]]));
        match name {
            // It counts, and matches always.
            "comment" | "nfacct" => Step::Goes,
            "mac" | "eui64" if self.passage.way_in.index.is_none() => Step::Fails,
            "physdev" if !self.passage.way_in.is_bridge => {
                // `struct xt_physdev_info`: behind four names which are inverted, and which are looked at. What came by
                // no port of a bridge is what is asked for if all of that is inverted.
                const AT: usize = 64;
                match info.get(AT..AT + 2) {
                    Some(&[inverts, looks]) if looks & !inverts == 0 => Step::Goes,
                    Some(_) => Step::Fails,
                    None => Step::Asks(text(expression, tag)),
                }
            }
            "physdev" => Step::Asks(text(expression, self.passage.way_in.name)),
            "policy" => {
                // `struct xt_policy_info`: behind four elements the directions. Where a packet goes is as ever; by which
                // tunnel it came is lost.
                const FLAGS: usize = 304;
                const IN: u16 = 1;
                let is_of_arrival = state(FLAGS).is_none_or(|flags| flags & IN != 0);
                Step::Asks(text(expression, if is_of_arrival { tag } else { "" }))
            }
            "addrtype" => {
                // Flags of `struct xt_addrtype_info_v1`: addresses of one interface, of the way in or the way out.
                const LIMITED: u8 = 4 | 8;
                let is_limited = revision > 0 && info.get(4).is_none_or(|flags| flags & LIMITED != 0);
                Step::Asks(text(expression, if is_limited { tag } else { "" }))
            }
            "set" => {
                // `struct xt_set_info`: number, dimensions, flags. Of several dimensions one may be an interface.
                let has_one = revision > 0 && info.get(2) == Some(&1);
                Step::Asks(text(expression, if has_one { "" } else { tag }))
            }
            "mac" => Step::Asks(text(expression, self.passage.way_in.name)),
            "conntrack" if !self.passage.is_tracked && revision >= 2 => {
                // `struct xt_conntrack_mtinfo3`: which things are looked at, which are inverted, states.
                const AT: usize = 146;
                const STATE: u16 = 1;
                let (Some(looks), Some(inverts), Some(states)) = (state(AT), state(AT + 2), state(AT + 4))
                else {
                    return Step::Asks(text(expression, ""));
                };
                let has = states & UNTRACKED as u16 != 0;
                let is_inverted = inverts & STATE != 0;
                if looks & STATE != 0 && has != is_inverted { Step::Goes } else { Step::Fails }
            }
            "state" if !self.passage.is_tracked => {
                let states = info.first_chunk().map_or(0, |word| u32::from_ne_bytes(*word));
                if states & UNTRACKED != 0 { Step::Goes } else { Step::Fails }
            }
            "connmark" | "connbytes" | "connlabel" | "helper" | "cluster" if !self.passage.is_tracked => {
                Step::Fails
            }
            _ => Step::Asks(text(expression, if MATCHES_OF_PACKET.contains(&name) { "" } else { tag })),
        }
    }
}

fn holds(how: u32, known: &[u8], value: &[u8]) -> Step {
    let order = known.cmp(value);
    let is_so = match how {
        0 => order.is_eq(),
        1 => order.is_ne(),
        2 => order.is_lt(),
        3 => order.is_le(),
        4 => order.is_gt(),
        _ => order.is_ge(),
    };
    if is_so { Step::Goes } else { Step::Fails }
}

/// Result of an expression that is none of the known ones; `tag` tells between where the packets go.
fn other(expression: &Expression, registers: &mut Registers, tag: &str) -> Step {
    match expression.name.as_str() {
        "counter" | "log" | "last" => Step::Goes,
        "reject" | "queue" | "synproxy" | "tproxy" => Step::Drops,
        "range" | "limit" | "connlimit" | "quota" | "ip" => Step::Asks(text(expression, "")),
        // A load of something else, to wherever.
        "exthdr" | "rt" | "socket" | "osf" | "numgen" | "hash" | "byteorder" | "bitwise" | "tunnel"
        | "xfrm" | "inner" | "meta" | "ct" | "payload" | "fib" | "lookup" | "cmp" | "immediate" => {
            // What was known may go into it.
            let known = partly(registers, 0, 64);
            *registers = Registers([None; 64]);
            // By which tunnel a packet came is lost.
            let is_of_arrival = ["tunnel", "xfrm"].contains(&expression.name.as_str());
            Step::Asks(known + &text(expression, if is_of_arrival { tag } else { "" }))
        }
        // Through which table flows go past everything is said elsewhere.
        "flow_offload" => Step::Goes,
        _ => Step::Changes(text(expression, "")),
    }
}

/// An expression as it stands, to be compared.
fn text(expression: &Expression, tag: &str) -> String {
    let mut text = format!("[{} ", expression.name);
    for byte in &expression.raw {
        text.push_str(&format!("{byte:02x}"));
    }
    text + tag + "]"
}

/// Text of what is known of registers of which not all is.
fn partly(registers: &Registers, at: usize, len: usize) -> String {
    let bytes = registers.get(at, len).unwrap_or_default();
    if bytes.iter().all(Option::is_none) {
        return String::new();
    }
    let of = |byte: &Option<u8>| byte.map_or_else(|| "..".to_owned(), |byte| format!("{byte:02x}"));
    format!("[known {}]", bytes.iter().map(of).collect::<String>())
}

/// Looks something up: `place` is the register, where a map's value goes, and whether it is to be absent.
fn look(
    set: Option<&Set>,
    expression: &Expression,
    registers: &mut Registers,
    (register, to, inverted): (usize, Option<usize>, bool),
) -> Step {
    let elements = set.and_then(|set| set.elements.as_ref().map(|elements| (set, elements)));
    let Some((set, elements)) = elements else {
        if let Some(to) = to {
            registers.forget(to, 64);
        }
        return Step::Asks(text(expression, ""));
    };
    let len = elements.iter().map(|element| element.key.len()).max().unwrap_or(0);
    let known = registers.get(register, len).unwrap_or_default().to_vec();
    if len > 0 && known.iter().all(Option::is_some) {
        let key: Vec<u8> = known.iter().flatten().copied().collect();
        let found = find(set, elements, &key);
        return match (found, to) {
            (found, None) if found.is_some() != inverted => Step::Goes,
            (None, _) | (_, None) => Step::Fails,
            (Some(element), Some(to)) => match (&element.decision, &element.value) {
                (Some(decision), _) => Step::Decides(decision.clone()),
                (None, Some(value)) => {
                    registers.load(to, value);
                    Step::Goes
                }
                (None, None) => {
                    registers.forget(to, 64);
                    Step::Goes
                }
            },
        };
    }
    let (left, partly) = (possible(set, elements, &known), PartlyKnown { known: &known });
    let Some(to) = to else {
        if left.is_empty() {
            return if inverted { Step::Goes } else { Step::Fails };
        }
        return Step::Asks(format!("[in {} {register} {}]", u8::from(inverted), partly.text_of(&left)));
    };
    if left.iter().any(|element| element.decision.is_some()) {
        let choice = |element: &&Element| {
            Some((format!("[is {register} {}]", partly.describe(element)), element.decision.clone()?))
        };
        let mut all: Vec<(String, Decision)> = left.iter().filter_map(choice).collect();
        all.sort();
        return Step::Chooses(all);
    }
    registers.forget(to, 64);
    Step::Asks(format!("[map {register} {}]", partly.text_of(&left)))
}

/// Elements that may contain a key of which only some bytes are known.
fn possible<'a>(set: &Set, elements: &'a [Element], known: &[Option<u8>]) -> Vec<&'a Element> {
    // Of a key of several parts some may be known: only what fits them is left, without them.
    let is_possible = |element: &&Element| {
        let last = element.last.as_ref().unwrap_or(&element.key);
        let parts = known.iter().zip(&element.key).zip(last);
        // Each part is compared for itself; where a range differs in some byte only its first differing bytes count.
        let words = parts.collect::<Vec<_>>();
        words.chunks(4).all(|part| {
            let known: Option<Vec<u8>> = part.iter().map(|((known, _), _)| **known).collect();
            let Some(known) = known else { return true };
            let first: Vec<u8> = part.iter().map(|((_, first), _)| **first).collect();
            let last: Vec<u8> = part.iter().map(|(_, last)| **last).collect();
            !set.is_concatenated || first != last || known == first
        })
    };
    let is_plain = set.is_concatenated || known.iter().all(Option::is_none) || !set.is_interval;
    let fits = |element: &&Element| {
        if set.is_concatenated || set.is_interval {
            return is_possible(element);
        }
        known.iter().zip(&element.key).all(|(known, byte)| known.is_none_or(|known| known == *byte))
    };
    elements.iter().filter(|element| element.is_rest || !is_plain || fits(element)).collect()
}

/// Elements as text, without the bytes of their keys that are known.
struct PartlyKnown<'a> {
    known: &'a [Option<u8>],
}

impl PartlyKnown<'_> {
    fn hex(&self, bytes: &[u8]) -> String {
        let of = |(at, byte): (usize, &u8)| {
            if self.known.get(at).is_some_and(Option::is_some) {
                String::new()
            } else {
                format!("{byte:02x}")
            }
        };
        bytes.iter().enumerate().map(of).collect()
    }

    fn describe(&self, element: &Element) -> String {
        let last = element.last.as_deref().map(|last| self.hex(last)).unwrap_or_default();
        let value = element.value.as_deref().map(|value| format!("{value:?}")).unwrap_or_default();
        let (is_end, is_rest) = (u8::from(element.is_end), u8::from(element.is_rest));
        format!("{}-{last}{is_end}{is_rest}{value}", self.hex(&element.key))
    }

    fn text_of(&self, elements: &[&Element]) -> String {
        let mut all: Vec<String> = elements.iter().map(|element| self.describe(element)).collect();
        all.sort();
        all.join(" ")
    }
}

/// The element that contains `key`.
fn find<'a>(set: &Set, elements: &'a [Element], key: &[u8]) -> Option<&'a Element> {
    let rest = elements.iter().find(|element| element.is_rest);
    let ordinary = elements.iter().filter(|element| !element.is_rest);
    if set.is_concatenated && set.is_interval {
        let fits = |element: &&Element| {
            let last = element.last.as_ref().unwrap_or(&element.key);
            let mut words = key.chunks(4).zip(element.key.chunks(4).zip(last.chunks(4)));
            words.all(|(word, (first, last))| first <= word && word <= last)
        };
        return { ordinary }.find(fits).or(rest);
    }
    if set.is_interval {
        // They are in order; of an end and a beginning at the same place the beginning counts.
        let before = ordinary.filter(|element| element.key.as_slice() <= key);
        let last = before.max_by_key(|element| (&element.key, !element.is_end));
        return last.filter(|element| !element.is_end).or(rest);
    }
    { ordinary }.find(|element| element.key == key).or(rest)
}

/// Whether a chain of this family is shown such packets at all.
pub(crate) fn sees(family: FilterFamily, is_ipv6: bool) -> bool {
    match family {
        FilterFamily::Inet | FilterFamily::Netdev => true,
        FilterFamily::V4 => !is_ipv6,
        FilterFamily::V6 => is_ipv6,
        FilterFamily::Arp | FilterFamily::Bridge => false,
    }
}
