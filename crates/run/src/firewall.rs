//! What the machine's packet filter does that matters to us: connection tracking in use, and rules
//! that name our interfaces.
//!
//! Steered TCP passes the forward hook twice, under the names of the TUN devices (H36). A rule by pairs
//! of interfaces no longer matches it, so such rules are found and named.

use std::collections::BTreeMap;
use std::fs;
use std::process::{Command, Stdio};

use serde_json::Value;

/// What was found.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Firewall {
    /// NAT or connection tracking is in use.
    pub tracks_connections: bool,
    /// One line for each rule that names one of our interfaces where TCP passes under other names.
    pub conflicts: Vec<String>,
    /// One line for each thing that could not be examined.
    pub unknown: Vec<String>,
}

/// Prefix of the names of our own nft tables.
pub(crate) const TABLE_PREFIX: &str = "cellerator_";

/// Examines nftables and the older iptables of the calling thread's namespace.
pub(crate) fn examine(wired: &str, mobile: &str) -> Firewall {
    let mut found = Firewall::default();
    if io::features::find_program("nft").is_some() {
        match output("nft", &["-j", "list", "ruleset"]) {
            Ok(json) => match serde_json::from_str(&json) {
                Ok(ruleset) => examine_nft(&ruleset, wired, mobile, &mut found),
                Err(e) => {
                    found.unknown.push(format!("the answer of `nft -j list ruleset` is unreadable: {e}"));
                }
            },
            Err(e) => found.unknown.push(format!("`nft -j list ruleset` failed: {e}")),
        }
    } else if is_tracking_now() {
        found.tracks_connections = true;
        found.unknown.push("nft is missing: the packet filter's rules were not examined".to_owned());
    }
    for (names, save) in
        [("ip_tables_names", "iptables-legacy-save"), ("ip6_tables_names", "ip6tables-legacy-save")]
    {
        let tables = fs::read_to_string(format!("/proc/thread-self/net/{names}")).unwrap_or_default();
        if tables.trim().is_empty() {
            continue;
        }
        match output(save, &[]) {
            Ok(rules) => examine_iptables(&rules, wired, mobile, &mut found),
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

fn examine_nft(ruleset: &Value, wired: &str, mobile: &str, found: &mut Firewall) {
    let objects = ruleset["nftables"].as_array().map(Vec::as_slice).unwrap_or_default();
    // What each chain is hooked to; `None` for a chain that others jump to.
    let mut hooks: BTreeMap<(TableName<'_>, &str), Option<&str>> = BTreeMap::new();
    let mut sets: BTreeMap<(TableName<'_>, &str), &Value> = BTreeMap::new();
    for object in objects {
        let chain = &object["chain"];
        if chain.is_object() {
            hooks.insert((table_of(chain), text(&chain["name"])), chain["hook"].as_str());
            found.tracks_connections |= chain["type"] == "nat";
        }
        for kind in ["set", "map"] {
            let set = &object[kind];
            if set.is_object() {
                sets.insert((table_of(set), text(&set["name"])), set);
            }
        }
        if object["flowtable"].is_object() {
            let name = text(&object["flowtable"]["name"]);
            found.conflicts.push(format!(
                "nft flowtable '{name}' takes forwarded flows past the routing rules: they are not accelerated"
            ));
        }
    }
    for rule in objects.iter().map(|object| &object["rule"]).filter(|rule| rule.is_object()) {
        let table = table_of(rule);
        if table.1.starts_with(TABLE_PREFIX) {
            continue;
        }
        let facts = Facts::of(&rule["expr"], |name| sets.get(&(table, name)).copied());
        found.tracks_connections |= facts.tracks;
        let chain = text(&rule["chain"]);
        let hook = hooks.get(&(table, chain)).copied().flatten();
        let is_forward = match hook {
            Some(hook) => hook == "forward",
            None => hooks.iter().any(|((of, _), hook)| *of == table && *hook == Some("forward")),
        };
        let names_ours =
            facts.matches_interface && facts.words.iter().any(|word| is_either(word, wired, mobile));
        if is_forward && names_ours {
            found.conflicts.push(conflict(&describe(rule), wired, mobile));
        }
        if hook == Some("postrouting") && facts.translates && facts.words.iter().any(|word| word == mobile) {
            found.conflicts.push(format!(
                "{} translates addresses towards {mobile}: TCP there is not tracked, so it is not translated",
                describe(rule)
            ));
        }
    }
}

/// What a rule's expressions contain.
#[derive(Default)]
struct Facts {
    words: Vec<String>,
    matches_interface: bool,
    tracks: bool,
    translates: bool,
}

impl Facts {
    fn of<'a>(expressions: &'a Value, set: impl Fn(&str) -> Option<&'a Value>) -> Self {
        let mut facts = Self::default();
        let mut open = vec![expressions];
        while let Some(value) = open.pop() {
            match value {
                Value::String(word) => {
                    open.extend(word.strip_prefix('@').and_then(&set).map(|set| &set["elem"]));
                    facts.words.push(word.clone());
                }
                Value::Array(items) => open.extend(items),
                Value::Object(fields) => {
                    for (key, value) in fields {
                        facts.tracks |=
                            matches!(key.as_str(), "ct" | "masquerade" | "snat" | "dnat" | "redirect");
                        facts.translates |= matches!(key.as_str(), "masquerade" | "snat");
                        facts.matches_interface |= key == "key"
                            && matches!(value.as_str(), Some("iif" | "oif" | "iifname" | "oifname"));
                        open.push(value);
                    }
                }
                _ => {}
            }
        }
        facts
    }
}

fn text(value: &Value) -> &str {
    value.as_str().unwrap_or_default()
}

fn table_of(object: &Value) -> TableName<'_> {
    (text(&object["family"]), text(&object["table"]))
}

/// True when `word` is one of our interfaces, or a pattern such as `w*` that matches one.
fn is_either(word: &str, wired: &str, mobile: &str) -> bool {
    match word.strip_suffix('*') {
        Some(start) => wired.starts_with(start) || mobile.starts_with(start),
        None => word == wired || word == mobile,
    }
}

/// Names a rule by its place and, if it can be had, its text.
fn describe(rule: &Value) -> String {
    let (family, table) = table_of(rule);
    let (chain, handle) = (text(&rule["chain"]), rule["handle"].as_u64().unwrap_or(0));
    let listing = output("nft", &["-a", "list", "chain", family, table, chain]).unwrap_or_default();
    let suffix = format!("# handle {handle}");
    let line = listing.lines().find_map(|line| line.trim().strip_suffix(&suffix)).unwrap_or("").trim();
    format!("rule '{line}' (nft {family} {table} {chain}, handle {handle})")
}

fn conflict(rule: &str, wired: &str, mobile: &str) -> String {
    format!(
        "{rule} names an interface, but TCP is now forwarded in two steps, {wired} to its TUN and the other \
         TUN to {mobile}, and the same backwards: write it for those names too"
    )
}

fn examine_iptables(saved: &str, wired: &str, mobile: &str, found: &mut Firewall) {
    let mut table = "";
    for line in saved.lines() {
        if let Some(name) = line.strip_prefix('*') {
            table = name;
        }
        let Some(rule) = line.strip_prefix("-A ") else { continue };
        let words: Vec<&str> = rule.split_ascii_whitespace().collect();
        found.tracks_connections |=
            table == "nat" || words.iter().any(|word| matches!(*word, "conntrack" | "state" | "--ctstate"));
        let names_ours = words.windows(2).any(|pair| {
            matches!(pair[0], "-i" | "-o") && is_either(&pair[1].replace('+', "*"), wired, mobile)
        });
        let chain = words.first().copied().unwrap_or_default();
        if table == "filter" && !matches!(chain, "INPUT" | "OUTPUT") && names_ours {
            found.conflicts.push(conflict(&format!("rule '{rule}' (iptables)"), wired, mobile));
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

    fn examined(objects: &[Value]) -> Firewall {
        let mut found = Firewall::default();
        examine_nft(&json!({ "nftables": objects }), "w0", "m0", &mut found);
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
    fn tracking_is_seen_in_nat_chains_and_state_matches() {
        assert!(examined(&[chain("post", Some(("nat", "postrouting")))]).tracks_connections);
        let state =
            json!([{"match": {"op": "in", "left": {"ct": {"key": "state"}}, "right": "established"}}]);
        let forward = chain("forward", Some(("filter", "forward")));
        assert!(examined(&[forward, rule("forward", &state)]).tracks_connections);
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
        examine_iptables(saved, "w0", "m0", &mut found);
        assert_eq!(found.conflicts.len(), 2);
        assert!(found.conflicts[0].contains("-i w0 -o eth9"), "{:?}", found.conflicts);
        assert!(!found.tracks_connections);
        examine_iptables("*nat\n-A POSTROUTING -o w0 -j MASQUERADE\n", "w0", "m0", &mut found);
        assert!(found.tracks_connections);
    }
}
