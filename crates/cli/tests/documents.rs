//! Figures in documents come from result files below `docs/results`, which commands write: between
//! `<!-- figures: docs/results/NAME.json -->` and `<!-- end of figures -->` stands what the file has, and nothing else.
//!
//! `make docs` runs the commands, then this test with `CELLERATOR_WRITE_DOCS` set, which writes the blocks instead of comparing them.

#![allow(clippy::unwrap_used, clippy::panic)] // In helpers of tests, too, a failure is a failed test.

use std::collections::BTreeSet;
use std::fmt::Write as _;
use std::fs;
use std::path::{Path, PathBuf};

use scenario::results::{Results, Series};

const BEGIN: &str = "<!-- figures: ";
const END: &str = "<!-- end of figures -->";
/// What heads a table of results.
const HEADING: &str = "throughput  link used";

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..").canonicalize().unwrap()
}

/// README.md and the pages right below `docs`.
fn documents() -> Vec<PathBuf> {
    let pages = fs::read_dir(root().join("docs")).unwrap().map(|entry| entry.unwrap().path());
    let mut all: Vec<PathBuf> = pages.filter(|path| path.extension().is_some_and(|e| e == "md")).collect();
    all.push(root().join("README.md"));
    all.sort();
    all
}

fn results(file: &str) -> Results {
    let path = root().join(file);
    let text = fs::read_to_string(&path).unwrap_or_else(|e| panic!("{file}: {e}: `make docs` writes it"));
    serde_json::from_str(&text).unwrap_or_else(|e| panic!("{file}: {e}"))
}

/// The tables and findings of a result file.
fn rendered(results: &Results) -> String {
    let mut text = "```\n".to_owned();
    for (i, result) in results.scenarios.iter().enumerate() {
        let gap = if i > 0 { "\n" } else { "" };
        let _ = write!(text, "{gap}{}\n{}", result.scenario.heading(), report::summary(result));
    }
    text + "```\n"
}

/// `text` with every block as its file has it, and the files it names.
fn with_figures(text: &str, figures: &dyn Fn(&str) -> String) -> (String, BTreeSet<String>) {
    let (mut made, mut files, mut rest) = (String::new(), BTreeSet::new(), text);
    while let Some(at) = rest.find(BEGIN) {
        let (before, block) = rest.split_at(at);
        let (first, after) =
            block.split_once(" -->\n").unwrap_or_else(|| panic!("a block that does not begin"));
        let (_, behind) = after.split_once(END).unwrap_or_else(|| panic!("a block without `{END}`: {first}"));
        let file = first.trim_start_matches(BEGIN);
        let _ = write!(made, "{before}{BEGIN}{file} -->\n{}{END}", figures(file));
        files.insert(file.to_owned());
        rest = behind;
    }
    (made + rest, files)
}

/// The small form of a command's results that documents are made of: all but the figures against time and where they were written.
fn keep(from: &str) {
    let mut results = results(from);
    let name = if results.scenarios.len() > 1 { "demo" } else { results.scenarios[0].scenario.name.as_str() };
    let path = root().join(format!("docs/results/{name}.json"));
    results.made_by.command = format!("cellerator {name}");
    for figures in results.scenarios.iter_mut().flat_map(|s| &mut s.cases).filter_map(|c| c.figures.as_mut())
    {
        figures.series = Series { bin_s: figures.series.bin_s, ..Series::default() };
    }
    fs::create_dir_all(path.parent().unwrap()).unwrap();
    fs::write(&path, serde_json::to_string_pretty(&results).unwrap() + "\n").unwrap();
}

#[test]
fn documents_hold_the_figures_of_their_result_files() {
    let writes = std::env::var_os("CELLERATOR_WRITE_DOCS").is_some();
    if let Some(from) = std::env::var("CELLERATOR_RESULTS").ok().filter(|_| writes) {
        keep(&from);
    }
    let mut used = BTreeSet::new();
    for path in documents() {
        let name = path.strip_prefix(root()).unwrap().display().to_string();
        let text = fs::read_to_string(&path).unwrap();
        let (made, files) = with_figures(&text, &|file| rendered(&results(file)));
        if writes && made != text {
            fs::write(&path, &made).unwrap();
        } else {
            assert!(made == text, "{name} has other figures than {files:?}: `make docs` writes them anew");
        }
        used.extend(files);
        // A table that no result file has.
        let (without, _) = with_figures(&text, &|_| String::new());
        let stray = without.lines().find(|line| line.contains(HEADING));
        assert!(stray.is_none(), "{name}: a table of results outside a block of figures: {stray:?}");
    }
    assert!(used.contains("docs/results/demo.json"), "README.md shows the demo's figures");
    for entry in fs::read_dir(root().join("docs/results")).unwrap() {
        let file = format!("docs/results/{}", entry.unwrap().file_name().to_string_lossy());
        assert!(used.contains(&file), "no document shows {file}");
    }
}

#[test]
fn a_block_with_other_figures_is_found() {
    let text = format!("a\n{BEGIN}x.json -->\nold 4.70\n{END}\nb\n");
    let (made, files) = with_figures(&text, &|file| format!("new of {file}\n"));
    assert_eq!(made, format!("a\n{BEGIN}x.json -->\nnew of x.json\n{END}\nb\n"));
    assert_eq!(files.into_iter().collect::<Vec<_>>(), ["x.json"]);
    assert_eq!(with_figures(&made, &|file| format!("new of {file}\n")).0, made);
}
