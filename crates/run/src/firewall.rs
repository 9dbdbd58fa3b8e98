//! What the machine's packet filter does that matters to us: connection tracking in use, and rules
//! that name our interfaces.
//!
//! Steered TCP passes the forward hook under the names of the TUN devices, twice where rules steer
//! it (H36). A rule by pairs of interfaces no longer matches it, so such rules are found and named.
//! What tcx redirects comes past no hook before the TUN device, so rules about what comes in are
//! found too.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::io::ErrorKind;
use std::process::{Command, Stdio};

use serde_json::Value;

/// What was found.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Firewall {
    /// NAT or connection tracking is in use.
    pub tracks_connections: bool,
    /// The first rule found about packets that come in, before they are routed.
    pub at_arrival: Option<String>,
    /// One line for each rule that names one of our interfaces where TCP passes under other names.
    pub conflicts: Vec<String>,
    /// One line for each thing that could not be examined.
    pub unknown: Vec<String>,
}

/// Prefix of the names of our own nft tables.
pub(crate) const TABLE_PREFIX: &str = "cellerator_";

/// The interfaces on both sides and their TUN devices.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Names<'a> {
    pub wired: &'a str,
    pub mobile: &'a str,
    pub wired_tun: &'a str,
    pub mobile_tun: &'a str,
}

/// Examines nftables and the older iptables of the calling thread's namespace.
pub(crate) fn examine(names: Names<'_>) -> Firewall {
    let mut found = Firewall::default();
    if io::features::find_program("nft").is_some() {
        match output("nft", &["-j", "list", "ruleset"]) {
            Ok(json) => match serde_json::from_str(&json) {
                Ok(ruleset) => examine_nft(&ruleset, names, &list_chain, &mut found),
                Err(e) => {
                    let why = format!("the answer of `nft -j list ruleset` is unreadable: {e}");
                    found.unknown.push(io::one_line(why));
                }
            },
            Err(e) => found.unknown.push(format!("`nft -j list ruleset` failed: {e}")),
        }
    } else if is_tracking_now() {
        found.tracks_connections = true;
        found.unknown.push("nft is missing: the packet filter's rules were not examined".to_owned());
    }
    for (list, save) in
        [("ip_tables_names", "iptables-legacy-save"), ("ip6_tables_names", "ip6tables-legacy-save")]
    {
        let tables = match fs::read_to_string(format!("/proc/thread-self/net/{list}")) {
            // Only root may see it: a service's own user must take it for in use.
            Err(error) if error.kind() == ErrorKind::PermissionDenied => {
                found.tracks_connections = true;
                found
                    .unknown
                    .push(format!("the rules of `{save}` are for root to see, and were not examined"));
                continue;
            }
            tables => tables.unwrap_or_default(),
        };
        if tables.trim().is_empty() {
            continue;
        }
        match output(save, &[]) {
            Ok(rules) => examine_iptables(&rules, names, &mut found),
            Err(e) => found.unknown.push(format!("`{save}` failed, its rules were not examined: {e}")),
        }
    }
    found
}

/// True when the kernel tracks connections of this namespace right now.
fn is_tracking_now() -> bool {
    let count = io::sysctl::read_here("net/netfilter/nf_conntrack_count");
    count.is_ok_and(|count| count != "0")
}

fn output(program: &str, arguments: &[&str]) -> Result<String, String> {
    let path = io::features::find_program(program).ok_or("the program is missing")?;
    let output = Command::new(path)
        .args(arguments)
        .stdin(Stdio::null())
        .output()
        .map_err(|error| error.to_string())?;
    if output.status.success() {
        Ok(String::from_utf8_lossy(&output.stdout).into_owned())
    } else {
        Err(String::from_utf8_lossy(&output.stderr).trim().replace('\n', "; "))
    }
}

/// A chain's table: family and name.
type TableName<'a> = (&'a str, &'a str);

/// Examines a ruleset as `nft -j` writes it; `list` gives the text of a chain by family, table and name.
pub(crate) fn examine_nft(
    ruleset: &Value,
    names: Names<'_>,
    list: &dyn Fn([&str; 3]) -> String,
    found: &mut Firewall,
) {
    let objects = ruleset["nftables"].as_array().map(Vec::as_slice).unwrap_or_default();
    // Tables whose forward hook drops what no rule accepts.
    let mut strict: BTreeSet<TableName<'_>> = BTreeSet::new();
    // What each chain is hooked to; `None` for a chain that others jump to.
    let mut hooks: BTreeMap<(TableName<'_>, &str), Option<&str>> = BTreeMap::new();
    let mut sets: BTreeMap<(TableName<'_>, &str), &Value> = BTreeMap::new();
    for object in objects {
        let chain = &object["chain"];
        if chain.is_object() {
            hooks.insert((table_of(chain), text(&chain["name"])), chain["hook"].as_str());
            found.tracks_connections |= chain["type"] == "nat";
            if chain["hook"] == "forward" && chain["policy"] == "drop" {
                strict.insert(table_of(chain));
            }
        }
        for kind in ["set", "map"] {
            let set = &object[kind];
            if set.is_object() {
                sets.insert((table_of(set), text(&set["name"])), set);
            }
        }
        if object["flowtable"].is_object() {
            let name = io::one_line(text(&object["flowtable"]["name"]));
            found.conflicts.push(format!(
                "nft flowtable '{name}' takes forwarded flows past the routing rules: they are not \
                 accelerated"
            ));
            found.at_arrival.get_or_insert_with(|| format!("nft flowtable '{name}'"));
        }
    }
    let rules = objects.iter().map(|object| &object["rule"]).filter(|rule| rule.is_object());
    let foreign: Vec<&Value> = rules.filter(|rule| !table_of(rule).1.starts_with(TABLE_PREFIX)).collect();
    let hook_of = |rule| hooks.get(&(table_of(rule), text(&rule["chain"]))).copied().flatten();
    // A chain without a hook may be jumped to from any other of its table.
    let is_forward = |rule| match hook_of(rule) {
        Some(hook) => hook == "forward",
        None => hooks.iter().any(|((of, _), hook)| *of == table_of(rule) && *hook == Some("forward")),
    };
    strict.extend(
        foreign.iter().filter(|rule| is_forward(rule) && is_final_drop(rule)).map(|rule| table_of(rule)),
    );
    for rule in foreign {
        let table = table_of(rule);
        let facts = Facts::of(&rule["expr"], |name| sets.get(&(table, name)).copied());
        found.tracks_connections |= facts.tracks;
        if found.at_arrival.is_none() && matches!(hook_of(rule), Some("prerouting" | "ingress")) {
            found.at_arrival = Some(describe(rule, list));
        }
        let is_forward = is_forward(rule);
        if is_forward && facts.names_either(names) {
            found.conflicts.push(names_interface(&describe(rule, list), names));
        } else if is_forward && facts.accepts_by_state && strict.contains(&table) {
            found.conflicts.push(needs_state(&describe(rule, list), names));
        }
        if hook_of(rule) == Some("postrouting")
            && facts.translates
            && facts.words.iter().any(|word| word == names.mobile)
        {
            found.conflicts.push(format!(
                "{} translates addresses towards {}: TCP there is not tracked, so it is not translated",
                describe(rule, list),
                names.mobile
            ));
        }
    }
}

/// True for a rule that drops or rejects whatever comes to it.
fn is_final_drop(rule: &Value) -> bool {
    let expressions = rule["expr"].as_array().map(Vec::as_slice).unwrap_or_default();
    let is_any = |keys: &[&str], value: &Value| keys.iter().any(|key| value.get(key).is_some());
    expressions.iter().any(|value| is_any(&["drop", "reject"], value))
        && expressions.iter().all(|value| is_any(&["drop", "reject", "counter", "log"], value))
}

/// What a rule's expressions contain.
#[derive(Default)]
struct Facts {
    words: Vec<String>,
    matches_interface: bool,
    tracks: bool,
    accepts_by_state: bool,
    translates: bool,
}

impl Facts {
    fn of<'a>(expressions: &'a Value, set: impl Fn(&str) -> Option<&'a Value>) -> Self {
        let mut facts = Self::default();
        let mut open = vec![expressions];
        // A set is looked into once: its elements may name it again.
        let mut seen = BTreeSet::new();
        let mut accepts = false;
        while let Some(value) = open.pop() {
            match value {
                Value::String(word) => {
                    let name = word.strip_prefix('@').filter(|name| seen.insert(*name));
                    open.extend(name.and_then(&set).map(|set| &set["elem"]));
                    facts.words.push(word.clone());
                }
                Value::Array(items) => open.extend(items),
                Value::Object(fields) => {
                    for (key, value) in fields {
                        facts.tracks |= is_tracking(key, value);
                        facts.translates |= matches!(key.as_str(), "masquerade" | "snat");
                        facts.matches_interface |= key == "key"
                            && matches!(value.as_str(), Some("iif" | "oif" | "iifname" | "oifname"));
                        accepts |= key == "accept";
                        open.push(value);
                    }
                }
                _ => {}
            }
        }
        let knows_untracked = facts.words.iter().any(|word| word == "untracked");
        facts.accepts_by_state = facts.tracks && accepts && !knows_untracked;
        facts
    }

    fn names_either(&self, names: Names<'_>) -> bool {
        self.matches_interface && self.words.iter().any(|word| is_either(word, names))
    }
}

/// True for an expression that needs connection tracking. `xt` wraps what `iptables` made.
fn is_tracking(key: &str, value: &Value) -> bool {
    match key {
        "ct" | "masquerade" | "snat" | "dnat" | "redirect" => true,
        "xt" => match value["name"].as_str() {
            Some(name) => ["conntrack", "state", "connmark", "masquerade", "snat", "dnat", "redirect"]
                .contains(&name.to_ascii_lowercase().as_str()),
            // Older versions of nft do not say what it is.
            None => true,
        },
        _ => false,
    }
}

fn text(value: &Value) -> &str {
    value.as_str().unwrap_or_default()
}

fn table_of(object: &Value) -> TableName<'_> {
    (text(&object["family"]), text(&object["table"]))
}

/// True when `word` is one of our interfaces, or a pattern such as `w*` that matches one.
fn is_either(word: &str, names: Names<'_>) -> bool {
    match word.strip_suffix('*') {
        Some(start) => names.wired.starts_with(start) || names.mobile.starts_with(start),
        None => word == names.wired || word == names.mobile,
    }
}

/// The rules of a chain with their numbers, as people write them; empty where they cannot be had.
fn list_chain([family, table, chain]: [&str; 3]) -> String {
    output("nft", &["-a", "list", "chain", family, table, chain]).unwrap_or_default()
}

/// Names a rule by its place and, if it can be had, its text.
fn describe(rule: &Value, list: &dyn Fn([&str; 3]) -> String) -> String {
    let (family, table) = table_of(rule);
    let (chain, handle) = (text(&rule["chain"]), rule["handle"].as_u64().unwrap_or(0));
    let listing = list([family, table, chain]);
    let suffix = format!("# handle {handle}");
    let line = listing.lines().find_map(|line| line.trim().strip_suffix(&suffix)).unwrap_or("").trim();
    io::one_line(format!("rule '{line}' (nft {family} {table} {chain}, handle {handle})"))
}

fn names_interface(rule: &str, Names { wired, mobile, wired_tun, mobile_tun }: Names<'_>) -> String {
    format!(
        "{rule} names an interface, but TCP is now forwarded from {wired_tun} to {wired} and from \
         {mobile_tun} to {mobile}, and where rules steer it from {mobile} to {mobile_tun} and from {wired} \
         to {wired_tun} before that: write it for those pairs too"
    )
}

fn needs_state(rule: &str, Names { mobile, mobile_tun, .. }: Names<'_>) -> String {
    format!(
        "{rule} accepts by connection state, but TCP between {mobile} and {mobile_tun} is not tracked: \
         accept `iifname {mobile_tun} oifname {mobile}` and `iifname {mobile} oifname {mobile_tun}` too"
    )
}

pub(crate) fn examine_iptables(saved: &str, names: Names<'_>, found: &mut Firewall) {
    let mut table = "";
    let is_strict =
        saved.lines().any(|line| line.starts_with(":FORWARD DROP") || line == "-A FORWARD -j DROP");
    for line in saved.lines() {
        if let Some(name) = line.strip_prefix('*') {
            table = name;
        }
        let Some(rule) = line.strip_prefix("-A ") else { continue };
        let words: Vec<&str> = rule.split_ascii_whitespace().collect();
        let by_state = words.iter().any(|word| matches!(*word, "conntrack" | "state" | "--ctstate"));
        found.tracks_connections |= table == "nat" || by_state;
        let names_ours = words
            .windows(2)
            .any(|pair| matches!(pair[0], "-i" | "-o") && is_either(&pair[1].replace('+', "*"), names));
        let chain = words.first().copied().unwrap_or_default();
        if chain == "PREROUTING" {
            found.at_arrival.get_or_insert_with(|| format!("rule '-A {rule}' (iptables {table})"));
        }
        if table != "filter" || matches!(chain, "INPUT" | "OUTPUT") {
            continue;
        }
        let described = format!("rule '{rule}' (iptables)");
        if names_ours {
            found.conflicts.push(names_interface(&described, names));
        } else if by_state && is_strict && rule.ends_with("ACCEPT") && !rule.contains("UNTRACKED") {
            found.conflicts.push(needs_state(&described, names));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn chain(name: &str, kind: Option<(&str, &str)>) -> Value {
        let mut chain = json!({"family": "inet", "table": "fw", "name": name});
        if let Some((kind, hook)) = kind {
            chain["type"] = kind.into();
            chain["hook"] = hook.into();
        }
        json!({ "chain": chain })
    }

    fn rule(chain: &str, expr: &Value) -> Value {
        json!({"rule": {"family": "inet", "table": "fw", "chain": chain, "handle": 9, "expr": expr}})
    }

    fn interface(key: &str, right: &Value) -> Value {
        json!({"match": {"op": "==", "left": {"meta": {"key": key}}, "right": right}})
    }

    const NAMES: Names<'_> = Names { wired: "w0", mobile: "m0", wired_tun: "cellw0", mobile_tun: "cellm0" };

    fn examined(objects: &[Value]) -> Firewall {
        let mut found = Firewall::default();
        examine_nft(&json!({ "nftables": objects }), NAMES, &|_| String::new(), &mut found);
        found
    }

    #[test]
    fn a_machine_without_rules_has_no_findings() {
        assert_eq!(examined(&[]), Firewall::default());
        let input = [
            chain("input", Some(("filter", "input"))),
            rule("input", &json!([interface("iifname", &json!("w0")), {"accept": null}])),
        ];
        assert_eq!(examined(&input), Firewall::default(), "what is for the machine itself is not forwarded");
    }

    #[test]
    fn forward_rules_that_name_interfaces_are_found() {
        let forward = chain("forward", Some(("filter", "forward")));
        for right in [json!("w0"), json!({"set": ["eth9", "m0"]}), json!("w*"), json!("@lan")] {
            let set = json!({"set": {"family": "inet", "table": "fw", "name": "lan", "elem": ["m0"]}});
            for name in ["forward", "jumped"] {
                let expr = json!([interface("oifname", &right), {"accept": null}]);
                let found =
                    examined(&[forward.clone(), chain("jumped", None), set.clone(), rule(name, &expr)]);
                assert_eq!(found.conflicts.len(), 1, "{right} in {name}");
                assert!(found.conflicts[0].contains("handle 9"), "{:?}", found.conflicts);
            }
        }
        let other = rule("forward", &json!([interface("iifname", &json!("eth9")), {"accept": null}]));
        assert!(examined(&[forward, other]).conflicts.is_empty());
    }

    #[test]
    fn a_set_that_names_itself_is_looked_into_once() {
        let set = |name: &str, elem: Value| json!({"set": {"family": "inet", "table": "fw", "name": name, "elem": elem}});
        let expr = json!([interface("oifname", &json!("@lan")), {"accept": null}]);
        let found = examined(&[
            chain("forward", Some(("filter", "forward"))),
            set("lan", json!(["eth9", "@more"])),
            set("more", json!(["@lan", "@more", "m0"])),
            rule("forward", &expr),
        ]);
        assert_eq!(found.conflicts.len(), 1, "{:?}", found.conflicts);
    }

    #[test]
    fn tracking_is_seen_in_nat_chains_and_state_matches() {
        assert!(examined(&[chain("post", Some(("nat", "postrouting")))]).tracks_connections);
        let state =
            json!([{"match": {"op": "in", "left": {"ct": {"key": "state"}}, "right": "established"}}]);
        let forward = chain("forward", Some(("filter", "forward")));
        assert!(examined(&[forward.clone(), rule("forward", &state)]).tracks_connections);
        for (xt, is_tracking) in
            [(json!({"name": "conntrack"}), true), (Value::Null, true), (json!({"name": "comment"}), false)]
        {
            let found = examined(&[forward.clone(), rule("forward", &json!([{ "xt": xt }]))]);
            assert_eq!(found.tracks_connections, is_tracking, "{xt}");
        }
    }

    #[test]
    fn a_strict_stateful_filter_is_told_of_untracked_tcp() {
        let open = chain("forward", Some(("filter", "forward")));
        let mut strict = open.clone();
        strict["chain"]["policy"] = "drop".into();
        let accept = |states: Value| {
            let state = json!({"match": {"op": "in", "left": {"ct": {"key": "state"}}, "right": states}});
            rule("forward", &json!([state, {"accept": null}]))
        };
        let known = json!(["established", "related"]);
        let found = examined(&[strict.clone(), accept(known.clone())]);
        assert!(found.conflicts[0].contains("iifname cellm0 oifname m0"), "{:?}", found.conflicts);
        let last = rule("forward", &json!([{"counter": null}, {"reject": null}]));
        assert_eq!(examined(&[open.clone(), accept(known.clone()), last]).conflicts.len(), 1);
        assert!(examined(&[open, accept(known)]).conflicts.is_empty());
        assert!(examined(&[strict, accept(json!(["established", "untracked"]))]).conflicts.is_empty());
    }

    #[test]
    fn translation_towards_the_clients_is_a_conflict() {
        let post = chain("post", Some(("nat", "postrouting")));
        let masquerade =
            |to: &str| rule("post", &json!([interface("oifname", &json!(to)), {"masquerade": null}]));
        assert!(examined(&[post.clone(), masquerade("w0")]).conflicts.is_empty());
        let found = examined(&[post, masquerade("m0")]);
        assert!(found.conflicts[0].contains("towards m0"), "{:?}", found.conflicts);
    }

    #[test]
    fn legacy_rules_are_read_too() {
        let mut found = Firewall::default();
        let saved = "*filter\n-A INPUT -i w0 -j ACCEPT\n-A FORWARD -i w0 -o eth9 -j ACCEPT\n-A FORWARD -i m+ -j DROP\nCOMMIT\n";
        examine_iptables(saved, NAMES, &mut found);
        assert_eq!(found.conflicts.len(), 2);
        assert!(found.conflicts[0].contains("-i w0 -o eth9"), "{:?}", found.conflicts);
        assert!(!found.tracks_connections);
        examine_iptables("*nat\n-A POSTROUTING -o w0 -j MASQUERADE\n", NAMES, &mut found);
        assert!(found.tracks_connections);
        let mut found = Firewall::default();
        let saved = "*filter\n:FORWARD DROP [0:0]\n-A FORWARD -m conntrack --ctstate ESTABLISHED -j ACCEPT\n";
        examine_iptables(saved, NAMES, &mut found);
        assert!(found.tracks_connections && found.conflicts[0].contains("by connection state"));
    }
}
