//! Modules of a crate form layers: no circle of imports. A module and those below it count as one thing to each other.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

use super::{folders, sources};

/// Modules of a crate with their code: no comments, no tests.
pub fn of(base: &Path) -> BTreeMap<String, String> {
    let mut files = Vec::new();
    sources(base, &mut files);
    let mut found = BTreeMap::new();
    for file in files {
        let path = file.strip_prefix(base).expect("below it").with_extension("");
        let parts: Vec<String> = path.iter().map(|part| part.to_string_lossy().into_owned()).collect();
        if parts.iter().any(|part| part == "tests") || parts[0] == "bin" {
            continue;
        }
        let own: Vec<String> = parts.into_iter().filter(|part| part != "mod" && part != "lib").collect();
        let text = std::fs::read_to_string(&file).expect("readable source");
        let code = text.split("#[cfg(test)]\nmod ").next().unwrap_or_default();
        let lines = code.lines().filter(|line| !line.trim_start().starts_with("//"));
        found.insert(own.join("::"), lines.collect::<Vec<_>>().join(" "));
    }
    found
}

/// Paths of the tree of a `use`: `a::{b, c::{d}}` is `a::b` and `a::c::d`.
fn expand(tree: &str) -> Vec<String> {
    let tree = tree.trim();
    let Some((head, rest)) = tree.split_once('{') else {
        return vec![tree.split(" as ").next().unwrap_or_default().trim().to_owned()];
    };
    let inner = rest.rsplit_once('}').map_or(rest, |(inner, _)| inner);
    let (mut depth, mut start, mut parts) = (0, 0, Vec::new());
    for (at, letter) in inner.char_indices() {
        match letter {
            '{' => depth += 1,
            '}' => depth -= 1,
            ',' if depth == 0 => {
                parts.push(&inner[start..at]);
                start = at + 1;
            }
            _ => {}
        }
    }
    parts.push(&inner[start..]);
    let named = parts.into_iter().filter(|part| !part.trim().is_empty());
    named.flat_map(expand).map(|path| format!("{}{path}", head.trim())).collect()
}

/// The trees of all `use`s, those of `pub use` alone or all.
fn uses(code: &str, only_public: bool) -> Vec<String> {
    let mut found = Vec::new();
    let mut rest = code;
    while let Some(at) = rest.find("use ") {
        let (before, tree) = (&rest[..at], &rest[at + 4..]);
        let end = tree.find(';').unwrap_or(tree.len());
        let is_word = before.ends_with(' ') || before.is_empty() || before.ends_with(')');
        let visibility = before.trim_end();
        let is_public = visibility.ends_with("pub") || (visibility.ends_with(')') && before.contains("pub("));
        if is_word && (is_public || !only_public) {
            found.extend(expand(&tree[..end]));
        }
        rest = &tree[end..];
    }
    found
}

/// The longest beginning of `parts` that is a module, and how many parts that is.
fn owner(parts: &[&str], all: &BTreeMap<String, String>) -> (String, usize) {
    let ends = (1..=parts.len()).rev();
    let found = ends.map(|n| (parts[..n].join("::"), n)).find(|(name, _)| all.contains_key(name));
    found.unwrap_or_default()
}

/// `path` from the root of the crate, named in the module `here`; none when it leads out of the crate.
fn absolute(path: &str, here: &str, all: &BTreeMap<String, String>) -> Option<String> {
    let mut parts: Vec<&str> = path.split("::").map(str::trim).collect();
    let mut base: Vec<&str> = here.split("::").filter(|part| !part.is_empty()).collect();
    match parts[0] {
        "crate" => base.clear(),
        "super" => {
            while parts.first() == Some(&"super") {
                base.pop();
                parts.remove(0);
            }
            base.extend(parts);
            return Some(base.join("::"));
        }
        "self" => {}
        first => {
            let below = [&base[..], &[first]].concat().join("::");
            return all.contains_key(&below).then(|| [&base[..], &parts[..]].concat().join("::"));
        }
    }
    base.extend(&parts[1..]);
    Some(base.join("::"))
}

/// Who names whom, through what modules show of others.
pub fn graph(all: &BTreeMap<String, String>) -> BTreeMap<String, BTreeSet<String>> {
    let mut shown: BTreeMap<(String, String), String> = BTreeMap::new();
    for (module, code) in all {
        for path in uses(code, true).iter().filter_map(|path| absolute(path, module, all)) {
            let parts: Vec<&str> = path.split("::").collect();
            let name = parts[parts.len() - 1].to_owned();
            shown.insert((module.clone(), name), owner(&parts[..parts.len() - 1], all).0);
        }
    }
    let named = |module: &String, code: &String| {
        let mut paths = uses(code, false);
        for start in ["crate::", "super::"] {
            paths.extend(code.match_indices(start).map(|(at, _)| {
                let is_path = |c: char| c.is_alphanumeric() || c == '_' || c == ':';
                let rest = &code[at..];
                rest[..rest.find(|c| !is_path(c)).unwrap_or(rest.len())].trim_end_matches(':').to_owned()
            }));
        }
        let mut found = BTreeSet::new();
        for path in paths.iter().filter_map(|path| absolute(path, module, all)) {
            let parts: Vec<&str> = path.split("::").collect();
            let (mut at, depth) = owner(&parts, all);
            let name = parts.get(depth).map_or("", |name| name);
            while let Some(next) = shown.get(&(at.clone(), name.to_owned())).filter(|next| **next != at) {
                at.clone_from(next);
            }
            if !at.is_empty() && at != *module {
                found.insert(at);
            }
        }
        found
    };
    let inner = all.iter().filter(|(module, _)| !module.is_empty());
    inner.map(|(module, code)| (module.clone(), named(module, code))).collect()
}

/// What is left when modules that name none of the others, or that none of the others names, are taken away, again and
/// again; a module and those below it apart.
fn circles(mut graph: BTreeMap<String, BTreeSet<String>>) -> BTreeMap<String, BTreeSet<String>> {
    let is_below = |a: &str, b: &str| a.strip_prefix(b).is_some_and(|rest| rest.starts_with("::"));
    for (module, names) in &mut graph {
        names.retain(|name| !is_below(name, module) && !is_below(module, name));
    }
    loop {
        let before = graph.len();
        let named: BTreeSet<String> = graph.values().flatten().cloned().collect();
        graph.retain(|module, _| named.contains(module));
        let there: BTreeSet<String> = graph.keys().cloned().collect();
        graph.values_mut().for_each(|names| names.retain(|name| there.contains(name)));
        graph.retain(|_, names| !names.is_empty());
        if graph.len() == before {
            return graph;
        }
    }
}

#[test]
fn modules_import_each_other_in_no_circle() {
    let mut wrong = Vec::new();
    let mut looked_at = 0;
    for (name, (folder, _)) in folders() {
        let modules = of(&folder.join("src"));
        looked_at += modules.len();
        let circles = circles(graph(&modules));
        wrong.extend(circles.iter().map(|(module, names)| format!("{name}: {module} imports {names:?}")));
    }
    assert!(looked_at > 900, "{looked_at} modules");
    assert!(wrong.is_empty(), "circles of imports: {wrong:#?}");
}

#[test]
fn a_circle_is_found_wherever_it_passes() {
    let found = |modules: &[(&str, &str)]| {
        let all = modules.iter().map(|(name, code)| ((*name).to_owned(), (*code).to_owned())).collect();
        circles(graph(&all)).into_keys().collect::<Vec<_>>()
    };
    let root = ("", "pub use a::{A, c::C};");
    assert_eq!(found(&[root, ("a", "use crate::b::{self, B};"), ("b", "fn f() -> crate::A {}")]), ["a", "b"]);
    assert_eq!(found(&[root, ("a", "use crate::b::B;"), ("b", "use super::x::X;"), ("x", "")]), [""; 0]);
    let through_child = [root, ("a", "use crate::b::B;"), ("a::c", "use super::A;"), ("b", "use crate::C;")];
    assert_eq!(found(&through_child), [""; 0], "a module and those below it are one thing to each other");
    let siblings = [("", ""), ("a", ""), ("a::b", "use super::c::C;"), ("a::c", "use crate::a::{b::B};")];
    assert_eq!(found(&siblings), ["a::b", "a::c"]);
}

#[test]
fn paths_are_found_wherever_they_stand() {
    let text =
        "use crate::path::{Path, turns::Turn}; use super::deadlines::arm; fn f(x: crate::flow::Flow) {}";
    let modules = ["path", "path::turns", "half", "half::deadlines", "flow"]
        .map(|name| (name.to_owned(), String::new()));
    let mut all = BTreeMap::from(modules);
    all.insert("half::output".to_owned(), text.to_owned());
    let expected = ["flow", "half::deadlines", "path", "path::turns"].map(str::to_owned);
    assert_eq!(graph(&all)["half::output"], BTreeSet::from(expected));
}
