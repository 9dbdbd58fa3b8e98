//! Rulesets as the kernel gives them, made by hand.

use io::netlink::{Base, Decision, Element, Expression, FilterRule, Set};

use super::*;

const NAMES: Names<'_> = Names { wired: "w0", mobile: "m0", wired_tun: "cellw0", mobile_tun: "cellm0" };

fn expression(name: &str, raw: &[u8], action: Action) -> Expression {
    Expression { name: name.to_owned(), raw: raw.to_vec(), action }
}

/// `NFT_META_IIFNAME` and `_OIFNAME`.
fn named(key: u32, name: &str) -> [Expression; 2] {
    let mut value = name.as_bytes().to_vec();
    // A pattern has no zero behind it.
    if let Some(start) = name.strip_suffix('*') {
        value = start.as_bytes().to_vec();
    } else {
        value.resize(16, 0);
    }
    [
        expression("meta", &[], Action::Meta { key, to: 0 }),
        expression("cmp", &[], Action::Compare { register: 0, how: 0, value }),
    ]
}

fn iif(name: &str) -> Vec<Expression> {
    named(6, name).into()
}

fn oif(name: &str) -> Vec<Expression> {
    named(7, name).into()
}

/// A condition on the packet's bytes.
fn port(number: u8) -> Vec<Expression> {
    vec![
        expression("payload", &[1], Action::Payload { base: 2, to: 0, len: 2 }),
        expression("cmp", &[number], Action::Compare { register: 0, how: 0, value: vec![0, number] }),
    ]
}

fn state(mask: u8) -> Vec<Expression> {
    let mask = vec![mask, 0, 0, 0];
    vec![
        expression("ct", &[], Action::Track { key: 0, to: 0 }),
        expression("bitwise", &mask, Action::Mask { from: 0, to: 0, mask: mask.clone(), invert: vec![0; 4] }),
        expression("cmp", &[9], Action::Compare { register: 0, how: 1, value: vec![0; 4] }),
    ]
}

fn then(parts: &[Vec<Expression>], decision: Decision) -> Vec<Expression> {
    let mut all = parts.concat();
    all.push(expression("immediate", &[], Action::Decide(decision)));
    all
}

fn chain(name: &str, hook: Option<(Hook, &str)>, drops: bool, rules: Vec<Vec<Expression>>) -> Chain {
    let base = hook.map(|(hook, kind)| Base {
        hook,
        priority: 0,
        devices: Vec::new(),
        kind: kind.to_owned(),
        drops,
    });
    let numbered = rules.into_iter().enumerate();
    let rules = numbered.map(|(at, expressions)| FilterRule { handle: at as u64 + 1, expressions }).collect();
    Chain {
        family: FilterFamily::Inet,
        table: "fw".to_owned(),
        name: name.to_owned(),
        base,
        rules,
        is_legacy: false,
    }
}

fn forward(drops: bool, rules: Vec<Vec<Expression>>) -> Chain {
    chain("forward", Some((Hook::Forward, "filter")), drops, rules)
}

fn judged(chains: Vec<Chain>, sets: Vec<Set>) -> Firewall {
    judged_between(chains, sets, false)
}

/// `is_bridge` is said of the mobile interface.
fn judged_between(chains: Vec<Chain>, sets: Vec<Set>, is_bridge: bool) -> Firewall {
    let ruleset = Ruleset { chains, sets, ..Ruleset::default() };
    let interfaces = [("w0", 2, false), ("m0", 3, is_bridge)].map(|(name, index, is_bridge)| Face {
        name,
        index: Some(index),
        is_bridge,
    });
    judge(&ruleset, NAMES, interfaces, false, &|_| String::new())
}

/// Whether it is against programs, and against rules.
fn against(chains: Vec<Chain>) -> (bool, bool) {
    let found = judged(chains, Vec::new());
    (found.against_tcx.is_some(), found.against_rules.is_some())
}

use Decision::{Accept, Drop, Goto, Jump, Return};

#[test]
fn a_machine_without_rules_has_no_findings() {
    assert_eq!(judged(Vec::new(), Vec::new()), Firewall::default());
    let input = chain("input", Some((Hook::Input, "filter")), true, vec![then(&[iif("w0")], Accept)]);
    assert_eq!(
        judged(vec![input], Vec::new()),
        Firewall::default(),
        "what is for the machine itself is not forwarded"
    );
}

#[test]
fn rules_that_name_no_interface_apply_as_ever() {
    let rules = vec![then(&[port(22)], Drop), then(&[port(80)], Accept)];
    for drops in [false, true] {
        assert_eq!(against(vec![forward(drops, rules.clone())]), (false, false));
    }
}

#[test]
fn a_drop_between_both_interfaces_would_be_passed_by_in_either_way() {
    let found = judged(vec![forward(false, vec![then(&[iif("m0"), oif("w0"), port(80)], Drop)])], Vec::new());
    for why in [found.against_tcx, found.against_rules] {
        let why = why.unwrap();
        assert!(why.starts_with("rule (nft inet fw forward, handle 1)") && why.contains("cellw0"), "{why}");
    }
}

/// `NFT_META_L4PROTO`.
fn carries(protocol: u8) -> Vec<Expression> {
    vec![
        expression("meta", &[], Action::Meta { key: 16, to: 0 }),
        expression("cmp", &[], Action::Compare { register: 0, how: 0, value: vec![protocol] }),
    ]
}

#[test]
fn a_drop_of_datagrams_is_against_turns_alone() {
    let of_udp = |from: &str, to: &str| {
        let rule = then(&[iif(from), oif(to), carries(17), port(53)], Drop);
        let found = judged(vec![forward(false, vec![rule])], Vec::new());
        let tcp = (found.against_tcx.is_some(), found.against_rules.is_some());
        (tcp, found.against_turns.map(|why| why.is_some()))
    };
    assert_eq!(of_udp("w0", "m0"), ((false, false), [true, true]));
    assert_eq!(of_udp("m0", "w0"), ((false, false), [false, false]), "what clients send goes as ever");
}

#[test]
fn a_drop_by_one_interface_works_where_rules_steer() {
    for interface in ["m0", "w0", "m*"] {
        let by_in = forward(false, vec![then(&[iif(interface), port(80)], Drop)]);
        assert_eq!(against(vec![by_in]), (true, false), "{interface}");
    }
    // What goes out is the same with programs.
    assert_eq!(against(vec![forward(false, vec![then(&[oif("w0"), port(80)], Drop)])]), (false, false));
    let both = vec![then(&[iif("m0"), port(22)], Drop), then(&[oif("w0"), port(80)], Drop)];
    assert_eq!(against(vec![forward(false, both)]), (true, false));
    assert_eq!(against(vec![forward(false, vec![then(&[iif("eth9"), port(80)], Drop)])]), (false, false));
}

#[test]
fn what_is_said_of_the_devices_too_is_no_difference() {
    let pair = |way_in: &str, way_out: &str| then(&[iif(way_in), oif(way_out), port(80)], Drop);
    let by_programs = vec![pair("m0", "w0"), pair("cellw0", "w0")];
    assert_eq!(against(vec![forward(false, by_programs)]), (false, false));
    let accept = |way_in: &str, way_out: &str| then(&[iif(way_in), oif(way_out)], Accept);
    let strict = vec![accept("m0", "w0"), accept("w0", "m0")];
    assert_eq!(against(vec![forward(true, strict.clone())]), (true, true));
    let for_programs = [strict.clone(), vec![accept("cellw0", "w0"), accept("cellm0", "m0")]].concat();
    assert!(!against(vec![forward(true, for_programs)]).0);
    let wired = vec![accept("cellw0", "w0"), accept("w0", "cellw0")];
    let mobile = vec![accept("m0", "cellm0"), accept("cellm0", "m0")];
    assert!(!against(vec![forward(true, [strict, wired, mobile].concat())]).1);
}

#[test]
fn a_strict_stateful_filter_drops_what_is_not_tracked_unless_that_is_accepted() {
    // Established and related; new connections from a network.
    let rules = vec![then(&[state(6)], Accept), then(&[port(1)], Accept)];
    let found = judged(vec![forward(true, rules.clone())], Vec::new());
    assert!(found.tracks_connections);
    let why = found.against_rules.unwrap();
    assert!(
        why.contains("`iifname m0 oifname cellm0`") && why.contains("`iifname cellm0 oifname m0`"),
        "{why}"
    );
    let mobile = [("m0", "cellm0"), ("cellm0", "m0")].map(|(a, b)| then(&[iif(a), oif(b)], Accept));
    assert!(!against(vec![forward(true, [rules.clone(), mobile.to_vec()].concat())]).1);
    // The same with a last rule in place of the policy.
    let mut last = rules;
    last.push(then(&[], Drop));
    assert!(against(vec![forward(false, last)]).1);
    // What is invalid is dropped: what is not tracked is not invalid.
    assert!(!against(vec![forward(false, vec![then(&[state(1)], Drop)])]).1);
}

/// A match of iptables.
fn matches(name: &str, revision: u32, info: &[u8]) -> Vec<Expression> {
    let action = Action::Match { name: name.to_owned(), revision, info: info.to_vec() };
    vec![expression("match", info, action)]
}

/// Loads an `NFT_META_…` and compares it with an unknown value.
fn meta(key: u32) -> Vec<Expression> {
    let compare = Action::Compare { register: 0, how: 0, value: vec![7; 4] };
    vec![expression("meta", &[key as u8], Action::Meta { key, to: 0 }), expression("cmp", &[7], compare)]
}

#[test]
fn a_drop_by_how_a_packet_came_is_against_both() {
    let dropped = |part: Vec<Expression>| against(vec![forward(false, vec![then(&[part], Drop)])]);
    // Port of a bridge, IPsec, group, kind and VRF of the interface.
    for key in [17, 18, 21, 25, 26, 28, 29, 33, 34] {
        assert!(dropped(meta(key)).0, "meta {key}");
    }
    // Mark, type of packet, processor, time.
    for key in [3, 19, 20, 30, 31, 32] {
        assert_eq!(dropped(meta(key)), (false, false), "meta {key}");
    }
    let policy = |flags: u8| matches("policy", 0, &[vec![0; 304], vec![flags, 0, 1, 0]].concat());
    assert!(dropped(policy(1)).0, "by which tunnel it came");
    assert_eq!(dropped(policy(2)), (false, false), "by which it leaves");
    for unknown in ["devgroup", "rpfilter", "bpf", "something new"] {
        assert_eq!(dropped(matches(unknown, 0, &[])), (true, true), "{unknown}");
    }
    for known in ["tcp", "multiport", "connlimit", "mark"] {
        assert_eq!(dropped(matches(known, 0, &[1])), (false, false), "{known}");
    }
    // Addresses, and addresses with an interface.
    assert_eq!(dropped(matches("set", 1, &[0, 0, 1, 1])), (false, false));
    assert_eq!(dropped(matches("set", 1, &[0, 0, 2, 1])), (true, true));
    // Local addresses, and those of the way in.
    assert_eq!(dropped(matches("addrtype", 1, &[0, 0, 4, 0, 0, 0, 0, 0])), (false, false));
    assert_eq!(dropped(matches("addrtype", 1, &[0, 0, 4, 0, 4, 0, 0, 0])), (true, true));
}

#[test]
fn ports_of_a_bridge_are_known_only_before_a_device() {
    // Which are inverted, which are looked at: the way in, and whether it was bridged.
    let physdev =
        |inverts: u8, looks: u8| matches("physdev", 0, &[vec![0; 64], vec![inverts, looks, 0, 0]].concat());
    let judged = |inverts, looks, is_bridge| {
        let chains = vec![forward(false, vec![then(&[physdev(inverts, looks), port(80)], Drop)])];
        let found = judged_between(chains, Vec::new(), is_bridge);
        (found.against_tcx.is_some(), found.against_rules.is_some())
    };
    assert_eq!(judged(0, 1, true), (true, false), "rules have it looked at before the device");
    assert_eq!(judged(0, 1, false), (false, false), "it never matches");
    assert_eq!(judged(0, 4, false), (false, false));
    assert_eq!(judged(4, 4, false), (false, false), "it always matches");
}

#[test]
fn on_the_mobile_side_what_is_dropped_anyhow_may_be_dropped_too() {
    let mobile = [("m0", "cellm0"), ("cellm0", "m0")].map(|(a, b)| then(&[iif(a), oif(b)], Accept));
    let (known, bad) = (then(&[state(6)], Accept), then(&[port(9)], Drop));
    let strict = |rules: Vec<Vec<Expression>>| against(vec![forward(true, rules)]).1;
    let last = [mobile.to_vec(), vec![then(&[port(1)], Accept)]].concat();
    // Dropped before all else, and after what is known: only there a known connection may be one of it.
    assert!(!strict([vec![bad.clone(), known.clone()], last.clone()].concat()));
    assert!(strict([vec![known.clone(), bad.clone()], last.clone()].concat()));
    assert!(!strict([vec![known], last, vec![bad]].concat()), "behind what accepts it all");
}

#[test]
fn chains_are_followed_to_where_interfaces_are_named() {
    let named = chain("named", None, false, vec![then(&[oif("w0"), port(80)], Drop)]);
    for jump in [Jump("named".to_owned()), Goto("named".to_owned())] {
        let base = forward(false, vec![then(&[iif("m0")], jump)]);
        assert_eq!(against(vec![base, named.clone()]), (true, true));
    }
    let leave =
        chain("leave", None, false, vec![then(&[iif("m0"), oif("w0"), port(80)], Return), then(&[], Drop)]);
    let base = forward(false, vec![then(&[], Jump("leave".to_owned()))]);
    assert_eq!(against(vec![base, leave]), (true, true));
    let unknown = chain("plain", None, false, vec![then(&[port(80)], Return), then(&[], Drop)]);
    assert_eq!(
        against(vec![forward(false, vec![then(&[], Jump("plain".to_owned()))]), unknown]),
        (false, false)
    );
}

#[test]
fn sets_and_maps_of_interfaces_are_looked_into() {
    let key = |name: &str| {
        let mut key = name.as_bytes().to_vec();
        key.resize(16, 0);
        key
    };
    let set = |elements: Vec<Element>| Set {
        family: FilterFamily::Inet,
        table: "fw".to_owned(),
        name: "lan".to_owned(),
        is_interval: false,
        is_concatenated: false,
        elements: Some(elements),
    };
    let element = |name: &str, decision| Element { key: key(name), decision, ..Element::default() };
    let look = |to, inverted| {
        let meta = expression("meta", &[], Action::Meta { key: 6, to: 0 });
        let set = "lan".to_owned();
        vec![meta, expression("lookup", &[], Action::Look { register: 0, set, to, inverted })]
    };
    let rules = vec![then(&[look(None, false), port(80)], Drop)];
    for (elements, differs) in [(vec!["m0"], true), (vec!["eth9"], false), (vec!["cellw0", "m0"], false)] {
        let all = elements.iter().map(|name| element(name, None)).collect();
        let found = judged(vec![forward(false, rules.clone())], vec![set(all)]);
        assert_eq!(found.against_tcx.is_some(), differs, "{elements:?}");
    }
    let all_but = judged(
        vec![forward(false, vec![then(&[look(None, true), port(80)], Drop)])],
        vec![set(vec![element("m0", None)])],
    );
    assert!(all_but.against_tcx.is_some());
    let map = vec![element("m0", Some(Jump("blocked".to_owned())))];
    let blocked = chain("blocked", None, false, vec![then(&[port(80)], Drop)]);
    let found = judged(vec![forward(false, vec![look(Some(0), false)]), blocked], vec![set(map)]);
    assert!(found.against_tcx.is_some());
}

#[test]
fn marks_and_translation_need_the_name_on_the_wired_side() {
    let mark = |way_in: &str| {
        let mut rule = iif(way_in);
        rule.push(expression("meta", &[7], Action::Change));
        rule
    };
    let pre = |rules| chain("pre", Some((Hook::Prerouting, "filter")), false, rules);
    assert_eq!(against(vec![pre(vec![mark("m0")])]), (true, true));
    assert_eq!(against(vec![pre(vec![mark("eth9")])]), (false, false));
    let masquerade = |way_out: &str| {
        let mut rule = oif(way_out);
        rule.push(expression("masq", &[], Action::Other));
        chain("post", Some((Hook::Postrouting, "nat")), false, vec![rule])
    };
    let found = judged(vec![masquerade("w0")], Vec::new());
    assert!(
        found.tracks_connections && found.against_rules.is_none() && found.cautions.is_empty(),
        "{found:?}"
    );
    let found = judged(vec![masquerade("m0")], Vec::new());
    assert!(found.cautions[0].contains("towards m0"), "{found:?}");
}

#[test]
fn what_looks_at_what_comes_in_is_against_programs_alone() {
    let base = Base {
        hook: Hook::Ingress,
        priority: 0,
        devices: vec!["m0".to_owned()],
        kind: "filter".to_owned(),
        drops: false,
    };
    let mut ingress = chain("in", None, false, vec![then(&[port(80)], Drop)]);
    (ingress.family, ingress.base) = (FilterFamily::Netdev, Some(base));
    assert_eq!(against(vec![ingress.clone()]), (true, false));
    ingress.base.as_mut().unwrap().devices = vec!["eth9".to_owned()];
    assert_eq!(against(vec![ingress]), (false, false));
}

#[test]
fn reverse_paths_and_mac_addresses_are_of_an_interface() {
    let routes = |flags| {
        vec![
            expression("fib", &[flags], Action::Routes { flags: flags.into(), to: 0 }),
            expression("cmp", &[1], Action::Compare { register: 0, how: 0, value: vec![0; 4] }),
        ]
    };
    let pre = |rule| chain("pre", Some((Hook::Prerouting, "filter")), false, vec![then(&[rule], Drop)]);
    assert_eq!(against(vec![pre(routes(1 | 8))]), (true, true));
    assert_eq!(against(vec![pre(routes(2))]), (false, false));
    let ether = vec![
        expression("payload", &[], Action::Payload { base: 0, to: 0, len: 6 }),
        expression("cmp", &[], Action::Compare { register: 0, how: 0, value: vec![2; 6] }),
    ];
    // Behind a device of ours there are none; before it, where rules steer, there are.
    assert!(against(vec![pre(ether)]).0);
}

#[test]
fn xtables_matches_of_state_are_read() {
    let conntrack = |states: u16| {
        let mut info = vec![0; 160];
        info[146..148].copy_from_slice(&1_u16.to_ne_bytes());
        info[150..152].copy_from_slice(&states.to_ne_bytes());
        vec![expression(
            "match",
            &info.clone(),
            Action::Match { name: "conntrack".to_owned(), revision: 3, info },
        )]
    };
    // Established and related; with untracked.
    assert!(against(vec![forward(true, vec![then(&[conntrack(6)], Accept)])]).1);
    let found = judged(vec![forward(true, vec![then(&[conntrack(6 | 64)], Accept)])], Vec::new());
    assert!(found.tracks_connections);
}
