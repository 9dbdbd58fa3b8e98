//! `docs/SUMMARY.md` has every page, and every link leads somewhere.

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};

use crate::book::root;

/// README.md, and the pages below `docs`.
fn pages() -> Vec<PathBuf> {
    let mut all: Vec<PathBuf> = ["README.md", "ARCHITECTURE.md", "CONTRIBUTING.md", "SECURITY.md"]
        .map(|name| root().join(name))
        .into();
    for folder in ["docs", "docs/algorithms", "docs/decisions"] {
        let entries = fs::read_dir(root().join(folder)).unwrap();
        all.extend(
            entries.map(|entry| entry.unwrap().path()).filter(|path| path.extension() == Some("md".as_ref())),
        );
    }
    all
}

/// Lines outside blocks of code, with their numbers.
fn prose(text: &str) -> impl Iterator<Item = (usize, &str)> {
    let mut is_code = false;
    text.lines().enumerate().filter_map(move |(number, line)| {
        let is_fence = line.trim_start().starts_with("```");
        is_code ^= is_fence;
        (!is_code && !is_fence).then_some((number + 1, line))
    })
}

/// What the links of a line lead to.
fn targets(line: &str) -> Vec<String> {
    // What stands between backquotes is code, but for the words of a link.
    line.match_indices("](")
        .filter_map(|(at, _)| {
            let rest = &line[at + 2..];
            rest.find(')').map(|end| rest[..end].to_owned())
        })
        .collect()
}

/// The anchor that a heading gets: letters, digits, `-` and `_`, spaces as `-`.
fn anchor(heading: &str) -> String {
    let plain = heading.trim_start_matches('#').trim().to_lowercase();
    let kept = plain.chars().filter(|c| c.is_alphanumeric() || " -_".contains(*c));
    kept.map(|c| if c == ' ' { '-' } else { c }).collect()
}

/// Those of headings, and those that a page sets itself.
fn anchors(text: &str) -> BTreeSet<String> {
    let headings = prose(text).filter(|(_, line)| line.starts_with('#')).map(|(_, line)| anchor(line));
    let set = text.split("id=\"").skip(1).filter_map(|rest| rest.split('"').next()).map(str::to_owned);
    headings.chain(set).collect()
}

fn dead_links(page: &Path, text: &str) -> Vec<String> {
    let mut dead = Vec::new();
    for (number, line) in prose(text) {
        for target in targets(line) {
            if target.contains("://") || target.starts_with("mailto:") {
                continue;
            }
            let (file, place) = target.split_once('#').unwrap_or((&target, ""));
            let path = if file.is_empty() { page.to_owned() } else { page.parent().unwrap().join(file) };
            let is_there = path.exists()
                && (place.is_empty()
                    || fs::read_to_string(&path).is_ok_and(|text| anchors(&text).contains(place)));
            if !is_there {
                dead.push(format!("{}:{number}: {target}", page.display()));
            }
        }
    }
    dead
}

#[test]
fn no_link_leads_nowhere() {
    let dead: Vec<String> =
        pages().iter().flat_map(|page| dead_links(page, &fs::read_to_string(page).unwrap())).collect();
    assert!(dead.is_empty(), "links that lead nowhere:\n{}", dead.join("\n"));
    let found = dead_links(
        &root().join("README.md"),
        "[a](nowhere.md) [b](#nowhere)\n```\n[c](no)\n```\n[d](docs#x)\n",
    );
    assert_eq!(found.len(), 3, "{found:?}");
    assert_eq!(anchor("## `--pdf`: one sheet, A4"), "--pdf-one-sheet-a4");
}

#[test]
fn the_book_has_every_page_once() {
    let docs = root().join("docs");
    let summary = fs::read_to_string(docs.join("SUMMARY.md")).unwrap();
    let linked: Vec<PathBuf> = summary.lines().flat_map(targets).map(|target| docs.join(target)).collect();
    let unique: BTreeSet<&PathBuf> = linked.iter().collect();
    assert_eq!(unique.len(), linked.len(), "a page is in the book twice");
    let missing: Vec<PathBuf> = pages()
        .into_iter()
        .filter(|page| page.starts_with(&docs) && !page.ends_with("SUMMARY.md") && !unique.contains(page))
        .collect();
    assert!(missing.is_empty(), "docs/SUMMARY.md lacks {missing:?}");
    for start in ["start-operator.md", "start-vps.md", "start-researcher.md"] {
        let text = fs::read_to_string(docs.join(start)).unwrap();
        // Without blocks of figures: what pictures say depends on results.
        let own = text
            .split("<!-- figures: ")
            .map(|part| part.rsplit("<!-- end of figures -->").next().unwrap_or(""));
        let lines: usize = own.map(|part| part.trim().lines().count()).sum();
        assert!(lines <= 70, "{start} is more than a page: {lines} lines");
        assert!(text.contains("QUIC"), "{start} does not say that QUIC is not accelerated");
    }
}

/// Values of an attribute in HTML.
fn values<'a>(html: &'a str, attribute: &str) -> Vec<&'a str> {
    let begin = format!(" {attribute}=\"");
    html.split(&begin).skip(1).filter_map(|rest| rest.split('"').next()).collect()
}

/// Every page that mdbook has made, below a folder.
fn made(folder: &Path) -> Vec<PathBuf> {
    let entries = fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path());
    let (folders, files): (Vec<PathBuf>, Vec<PathBuf>) = entries.partition(|path| path.is_dir());
    let pages = files.into_iter().filter(|path| path.extension() == Some("html".as_ref()));
    pages.chain(folders.iter().flat_map(|folder| made(folder))).collect()
}

#[test]
#[ignore = "needs the book: make book-test"]
fn no_link_of_the_built_book_leads_nowhere() {
    let book = root().join("target/book");
    let pages = made(&book);
    assert!(pages.len() > 40, "{pages:?}");
    let mut dead = Vec::new();
    // The page for what is not there has links for every depth; the print page has all pages in one.
    for page in pages.iter().filter(|page| !page.ends_with("404.html") && !page.ends_with("print.html")) {
        let text = fs::read_to_string(page).unwrap();
        let links = ["href", "src", "srcset"].map(|attribute| values(&text, attribute)).concat();
        for link in links.into_iter().filter(|link| !link.contains("://") && !link.starts_with("data:")) {
            let (file, place) = link.split_once('#').unwrap_or((link, ""));
            let path = if file.is_empty() { page.clone() } else { page.parent().unwrap().join(file) };
            let is_there = path.is_file()
                && (place.is_empty()
                    || fs::read_to_string(&path).is_ok_and(|text| values(&text, "id").contains(&place)));
            if !is_there {
                dead.push(format!("{}: {link}", page.display()));
            }
        }
    }
    assert!(dead.is_empty(), "links that lead nowhere:\n{}", dead.join("\n"));
}
