//! Names of public types, and sentences that say what things are.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

use super::{folders, sources};

/// Public type names that mean the same in every crate.
const EVERYWHERE: [&str; 3] = ["Args", "Event", "Settings"];

/// A name that stands in this many crates or more says too little.
const CRATES_MAX: usize = 4;

/// Words with which no doc comment begins: its first sentence begins with a noun or a verb.
const QUESTIONS: [&str; 8] = ["What", "How", "Where", "Why", "When", "Who", "Whose", "Which"];

/// Files of a crate's `src` without those of tests, with their text before the tests.
fn texts(base: &Path) -> Vec<String> {
    let mut files = Vec::new();
    sources(&base.join("src"), &mut files);
    let is_test = |file: &Path| file.iter().any(|part| part == "tests" || part == "tests.rs");
    let texts = files.iter().filter(|file| !is_test(file.strip_prefix(base).expect("below it")));
    let texts = texts.map(|file| std::fs::read_to_string(file).expect("readable source"));
    texts.map(|text| text.split("#[cfg(test)]\nmod ").next().unwrap_or_default().to_owned()).collect()
}

/// Names of the public types that a line defines.
fn defined(line: &str) -> Option<&str> {
    let line = line.trim_start();
    let line = line.strip_prefix("checked ").unwrap_or(line).strip_prefix("pub ")?;
    let (kind, rest) = line.split_once(' ')?;
    ["struct", "enum", "trait", "type"].contains(&kind).then_some(())?;
    // Of a macro's definition the name is a parameter.
    rest.split(|letter: char| !letter.is_alphanumeric() && letter != '_')
        .next()
        .filter(|name| !name.is_empty())
}

#[test]
fn no_public_type_name_stands_in_four_crates() {
    let mut crates: BTreeMap<String, BTreeSet<String>> = BTreeMap::new();
    for (name, (base, _)) in folders() {
        for text in texts(&base) {
            for defined in text.lines().filter_map(defined) {
                crates.entry(defined.to_owned()).or_default().insert(name.clone());
            }
        }
    }
    assert!(crates.len() > 1_000, "{} types were found", crates.len());
    crates.retain(|name, of| of.len() >= CRATES_MAX && !EVERYWHERE.contains(&name.as_str()));
    assert!(crates.is_empty(), "say what each of them is of, as `PathSample` does: {crates:#?}");
}

/// First lines of a text's doc comments.
fn doc_starts(text: &str) -> impl Iterator<Item = &str> {
    let doc = |line: &str| {
        let line = line.trim_start();
        (line.starts_with("///") || line.starts_with("//!")).then(|| line[3..].trim().len())
    };
    let pairs = std::iter::once("").chain(text.lines()).zip(text.lines());
    pairs.filter(move |(before, line)| doc(line).is_some() && doc(before).is_none()).map(|(_, line)| {
        let line = line.trim_start();
        line[3..].trim()
    })
}

#[test]
fn doc_comments_begin_with_a_noun_or_a_verb() {
    let mut found: Vec<String> = Vec::new();
    for (base, _) in folders().into_values() {
        for text in texts(&base) {
            let is_question = |start: &&str| QUESTIONS.contains(&start.split(' ').next().unwrap_or_default());
            found.extend(doc_starts(&text).filter(is_question).map(str::to_owned));
        }
    }
    assert!(found.is_empty(), "write these sentences anew: {found:#?}");
}
