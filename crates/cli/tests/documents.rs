//! Figures in documents come from result files below `docs/results`, which commands write: between
//! `<!-- figures: docs/results/NAME.json [VIEW] -->` and `<!-- end of figures -->` stands what the
//! file has, and nothing else. Elsewhere in these documents stands no figure that no result file
//! has, apart from [`ALLOWED`].
//!
//! `make docs`, `make docs-contest` and `make docs-bench` run the commands, then this test with
//! `CELLERATOR_WRITE_DOCS` set, which keeps what documents need of the files named by
//! `CELLERATOR_RESULTS` and writes the blocks and pictures instead of comparing them.

use std::collections::BTreeSet;
use std::fmt::Write as _;
use std::fs;
use std::path::{Path, PathBuf};

use figures::chart::{Chart, Width};
use report::picture_chart;
use scenario::results::{Results, Series};

use crate::schema;

#[path = "documents/datasets.rs"]
mod datasets_page;
mod expected;
mod firewalls;
mod kernels;
mod marking_queues;
mod packet_ways;
mod pages;
mod paths;
mod probe;
mod profile;
mod router;
mod times;

const BEGIN: &str = "<!-- figures: ";
const END: &str = "<!-- end of figures -->";
const PICTURES: &str = "docs/pictures";

/// Documents in which a figure that no result file has is a fault; in the others a table of results
/// outside a block is.
const HELD: [&str; 6] = [
    "README.md",
    "docs/algorithms/adaptive.md",
    "docs/benchmarks-notes.md",
    "docs/contest.md",
    "docs/operation.md",
    "docs/simulation.md",
];

/// Sections of those whose figures are no results of ours: document, heading, and what they are.
const ALLOWED: [(&str, &str, &str); 16] = [
    ("README.md", "What happened in a capture", "what a picture is of"),
    ("docs/algorithms/adaptive.md", "Derivation", "what is computed"),
    ("docs/algorithms/adaptive.md", "Where the constants come from", "parameters"),
    ("docs/algorithms/adaptive.md", "Formulas", "parameters"),
    ("docs/algorithms/adaptive.md", "Why these", "reasons for parameters"),
    ("docs/algorithms/adaptive.md", "Among others", "parameters of cited designs"),
    ("docs/algorithms/adaptive.md", "Measurements", "what was run"),
    ("docs/algorithms/adaptive.md", "Generated links", "what was run"),
    ("docs/algorithms/adaptive.md", "Measured links", "what was run"),
    ("docs/contest.md", "Contests and sweeps", "options and their defaults"),
    ("docs/contest.md", "A contest", "options and their defaults"),
    ("docs/contest.md", "Parts", "what is run"),
    ("docs/contest.md", "Figures", "definitions"),
    ("docs/contest.md", "The limit", "definitions"),
    ("docs/operation.md", "Long and fast paths", "what a header field can express"),
    // Held together by the test `drives_have_the_measured_statistics` of the link crate.
    ("docs/simulation.md", "5G presets", "statistics of cited drives, and of presets fitted to them"),
];

/// What stands behind a number that is a figure.
const UNITS: [&str; 9] = ["%", "‰", "kbit/s", "Mbit/s", "Gbit/s", "ms", "µs", "ns", "s/GB"];

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..").canonicalize().unwrap()
}

/// README.md, CONTRIBUTING.md and the pages below `docs`, by their names.
fn documents() -> Vec<String> {
    let mut all = vec!["README.md".to_owned(), "CONTRIBUTING.md".to_owned()];
    for folder in ["docs", "docs/algorithms", "docs/decisions"] {
        for entry in fs::read_dir(root().join(folder)).unwrap() {
            let name = entry.unwrap().file_name().to_string_lossy().into_owned();
            if Path::new(&name).extension().is_some_and(|e| e == "md") {
                all.push(format!("{folder}/{name}"));
            }
        }
    }
    all.sort();
    all
}

fn read(file: &str) -> String {
    fs::read_to_string(root().join(file)).unwrap_or_else(|e| panic!("{file}: {e}: `make docs` writes it"))
}

fn parsed<T: serde::de::DeserializeOwned>(file: &str, text: &str) -> T {
    serde_json::from_str(text).unwrap_or_else(|e| panic!("{file}: {e}"))
}

/// What `block`, a file and maybe a view of it, shows.
fn rendered(block: &str) -> String {
    let (file, view) = block.split_once(' ').unwrap_or((block, ""));
    let text = read(file);
    let document: serde_json::Value = parsed(file, &text);
    match (document["schema"].as_str().unwrap_or_default(), view) {
        ("cellerator/lab-results/1", "") => tables(&parsed(file, &text)),
        ("cellerator/lab-results/1", "paths") => paths::markdown(&parsed(file, &text)),
        ("cellerator/lab-results/1", "flows") => paths::flows(&parsed(file, &text)),
        ("cellerator/lab-results/1", "pictures") => pictures(&parsed(file, &text)),
        ("cellerator/contest/1", "bulk") => contest::bulk_markdown(&parsed(file, &text)),
        ("cellerator/contest/1", "beside") => contest::beside_markdown(&parsed(file, &text)),
        ("cellerator/contest/1", "download") => shown(&expected::download(&document)),
        ("cellerator/contest/1", "radios") => shown(&expected::radios(&congestion_contests())),
        ("cellerator/contest/1", "short") => contest::short_markdown(&parsed(file, &text)),
        ("cellerator/elimination/1", "") => parsed::<contest::Eliminated>(file, &text).markdown(),
        (schema, "") if schema == bench::SCHEMA => parsed::<bench::Results>(file, &text).markdown(),
        (schema, "scale") if schema == bench::SCHEMA => parsed::<bench::Results>(file, &text)
            .scale_markdown()
            .unwrap_or_else(|| panic!("{file}: a part that the calculation stands on is missing")),
        ("cellerator/datasets/1", "") => datasets_page::markdown(&document),
        ("cellerator/congestion-pages/1", "") => pages::markdown(&document),
        ("cellerator/congestion-pages/1", "picture") => shown(&expected::pages(&document)),
        ("cellerator/router/1", "") => router::markdown(&document),
        ("cellerator/kernels/1", "") => kernels::markdown(&document),
        ("cellerator/profile/1", "") => profile::markdown(&document),
        ("cellerator/packet-ways/1", "") => packet_ways::markdown(&document),
        ("cellerator/firewalls/1", "") => firewalls::markdown(&document),
        ("cellerator/check-times/1", "") => times::markdown(&document),
        ("cellerator/marking-queues/1", view) => marking_queues::markdown(&document, view)
            .unwrap_or_else(|| panic!("{file}: no view `{view}` of queues that mark")),
        ("cellerator/probe-bench/1", view) => probe::markdown(&document, view)
            .unwrap_or_else(|| panic!("{file}: no view `{view}` of the probe's benchmark")),
        (schema, "goodputs") if schema == lab::radios::SCHEMA => lab::radios::goodputs(&parsed(file, &text)),
        (schema, "shares") if schema == lab::radios::SCHEMA => lab::radios::shares(&parsed(file, &text)),
        (schema, "") if schema == lab::radios::SCHEMA => lab::radios::markdown(&parsed(file, &text)),
        (schema, view) => panic!("{file}: no view `{view}` of {schema}"),
    }
}

/// The tables of a result file.
fn tables(results: &Results) -> String {
    let mut text = "```\n".to_owned();
    for (i, result) in results.scenarios.iter().enumerate() {
        let gap = if i > 0 { "\n" } else { "" };
        let _ = write!(text, "{gap}{}\n{}", result.scenario.heading(), report::summary(result));
    }
    text + "```\n"
}

/// A picture as it is drawn for the reader's width, and its text.
fn with_text(name: &str, title: &str, text: &str) -> String {
    format!(
        "<picture><source media=\"(max-width: 620px)\" srcset=\"{PICTURES}/{name}-narrow.svg\"><img \
         src=\"{PICTURES}/{name}.svg\" alt=\"{title}\" width=\"860\"></picture>\n\n{}\n",
        figures::wrapped(text, 110).join("\n")
    )
}

fn shown(picture: &expected::Picture) -> String {
    with_text(picture.name, &picture.chart.title, &picture.text)
}

/// The demo's pictures.
fn pictures(results: &Results) -> String {
    let one = |picture: &scenario::results::Picture| with_text(&picture.name, &picture.title, &picture.text);
    results.pictures.iter().map(one).collect::<Vec<_>>().join("\n")
}

fn congestion_contests() -> [serde_json::Value; 3] {
    [40, 100, 200].map(|rtt| {
        let file = format!("docs/results/congestion-{rtt}.json");
        parsed(&file, &read(&file))
    })
}

/// The files of all pictures: name and contents.
fn picture_files() -> Vec<(String, String)> {
    let results: Results = parsed("docs/results/demo.json", &read("docs/results/demo.json"));
    let of_demo = results.pictures.iter().map(|picture| {
        let chart = Chart { made_by: results.made_by.command.clone(), ..picture_chart(picture) };
        (picture.name.clone(), chart)
    });
    let contests = congestion_contests();
    let of_pages = parsed("docs/results/congestion-pages.json", &read("docs/results/congestion-pages.json"));
    let of_congestion =
        [expected::download(&contests[1]), expected::radios(&contests), expected::pages(&of_pages)]
            .map(|picture| (picture.name.to_owned(), picture.chart));
    let both = [("", Width::Wide), ("-narrow", Width::Narrow)];
    let files = of_demo.chain(of_congestion).flat_map(|(name, chart)| {
        both.map(|(suffix, width)| (format!("{PICTURES}/{name}{suffix}.svg"), chart.file(width)))
    });
    files.collect()
}

/// Links of `text`, which begin at the root, as the document `name` must have them.
fn from_place_of(name: &str, text: &str) -> String {
    let Some((folder, _)) = name.rsplit_once('/') else { return text.to_owned() };
    let up = "../".repeat(folder.matches('/').count());
    ["](", "src=\"", "srcset=\""].iter().fold(text.to_owned(), |text, before| {
        text.replace(&format!("{before}docs/"), &format!("{before}{up}"))
    })
}

const KERNELS_SCHEMA: &str = include_str!("../../../schemas/kernels.schema.json");

#[test]
fn the_kernels_results_follow_their_schema() {
    schema::check_against(
        &parsed("docs/results/kernels.json", &read("docs/results/kernels.json")),
        KERNELS_SCHEMA,
    );
}

const FIREWALLS_SCHEMA: &str = include_str!("../../../schemas/firewalls.schema.json");

#[test]
fn the_firewalls_results_follow_their_schema() {
    schema::check_against(
        &parsed("docs/results/firewalls.json", &read("docs/results/firewalls.json")),
        FIREWALLS_SCHEMA,
    );
}

#[test]
fn the_pages_results_follow_their_schema() {
    schema::check_against(
        &parsed("docs/results/congestion-pages.json", &read("docs/results/congestion-pages.json")),
        pages::SCHEMA,
    );
}

#[test]
fn the_demo_s_results_follow_their_schema() {
    schema::check(&parsed("docs/results/demo.json", &read("docs/results/demo.json")));
}

/// `text` with every block as its file has it, and the blocks.
fn with_figures(text: &str, figures: &dyn Fn(&str) -> String) -> (String, BTreeSet<String>) {
    let (mut made, mut blocks, mut rest) = (String::new(), BTreeSet::new(), text);
    while let Some(at) = rest.find(BEGIN) {
        let (before, block) = rest.split_at(at);
        let (first, after) =
            block.split_once(" -->\n").unwrap_or_else(|| panic!("a block that does not begin"));
        let (_, behind) = after.split_once(END).unwrap_or_else(|| panic!("a block without `{END}`: {first}"));
        let block = first.trim_start_matches(BEGIN);
        let _ = write!(made, "{before}{BEGIN}{block} -->\n{}{END}", figures(block));
        blocks.insert(block.to_owned());
        rest = behind;
    }
    (made + rest, blocks)
}

/// The small form of a command's results that documents are made of: without figures against time,
/// which only pages show, and where they were written.
fn keep(from: &str) {
    let text = fs::read_to_string(from).unwrap_or_else(|e| panic!("{from}: {e}"));
    let name = Path::new(from).file_stem().unwrap().to_string_lossy().into_owned();
    let schema = parsed::<serde_json::Value>(from, &text)["schema"].as_str().unwrap().to_owned();
    let (name, json) = match schema.as_str() {
        "cellerator/lab-results/1" => {
            let mut results = without_series(parsed(from, &text));
            // The demo's have pictures, and are written to results.json.
            let (name, command) = if results.pictures.is_empty() {
                let of_congestion = name.starts_with("congestion-");
                (name, if of_congestion { "make docs-congestion-paths" } else { "make docs-beside-lab" })
            } else {
                ("demo".to_owned(), "cellerator demo")
            };
            results.made_by.command = command.to_owned();
            (name, serde_json::to_string_pretty(&results).unwrap())
        }
        "cellerator/contest/1" => {
            let all: contest::Document = parsed(from, &text);
            let mut document = all.clone().without_plots();
            if name == "congestion-100" {
                keep_download(&all, &mut document);
            }
            (name, serde_json::to_string_pretty(&document).unwrap())
        }
        "cellerator/elimination/1" => {
            let command = "make docs-terms TRACES=FOLDER".to_owned();
            let eliminated = contest::Eliminated { command, ..parsed(from, &text) };
            (name, serde_json::to_string_pretty(&eliminated).unwrap())
        }
        schema if schema == bench::SCHEMA => ("bench".to_owned(), text.trim_end().to_owned()),
        "cellerator/datasets/1" => ("datasets".to_owned(), text.trim_end().to_owned()),
        "cellerator/marking-queues/1" => ("marking-queues".to_owned(), text.trim_end().to_owned()),
        "cellerator/congestion-pages/1" => ("congestion-pages".to_owned(), text.trim_end().to_owned()),
        "cellerator/router/1" => ("router".to_owned(), text.trim_end().to_owned()),
        "cellerator/firewalls/1" => ("firewalls".to_owned(), text.trim_end().to_owned()),
        "cellerator/kernels/1" => ("kernels".to_owned(), text.trim_end().to_owned()),
        "cellerator/packet-ways/1" => ("packet-ways".to_owned(), text.trim_end().to_owned()),
        "cellerator/check-times/1" => ("check-times".to_owned(), text.trim_end().to_owned()),
        "cellerator/probe-bench/1" => ("probe".to_owned(), text.trim_end().to_owned()),
        schema if schema == lab::radios::SCHEMA => {
            let mut results = lab::radios::without_series(parsed(from, &text));
            results.made_by.command = format!("make docs-{name}");
            (name, serde_json::to_string_pretty(&results).unwrap())
        }
        other => panic!("{from}: documents are not made of {other}"),
    };
    let path = root().join(format!("docs/results/{name}.json"));
    fs::create_dir_all(path.parent().unwrap()).unwrap();
    fs::write(&path, json + "\n").unwrap();
}

/// Keeps of `all` what the picture of a download shows.
fn keep_download(all: &contest::Document, document: &mut contest::Document) {
    for (trace, from) in document.traces.iter_mut().zip(&all.traces) {
        if trace.trace == expected::DOWNLOAD {
            trace.capacity_mbps.clone_from(&from.capacity_mbps);
        }
    }
    for (run, from) in document.runs.iter_mut().zip(&all.runs) {
        if expected::is_drawn(&run.trace, &run.scheme) {
            run.series.clone_from(&from.series);
        }
    }
}

fn without_series(mut results: Results) -> Results {
    // Its version; what a machine's own build is called says nothing to readers.
    let length = results.made_by.kernel.find('-').unwrap_or(results.made_by.kernel.len());
    results.made_by.kernel.truncate(length);
    for figures in results.scenarios.iter_mut().flat_map(|s| &mut s.cases).filter_map(|c| c.figures.as_mut())
    {
        figures.series = Series { bin_s: figures.series.bin_s, ..Series::default() };
        figures.pings.clear();
    }
    results
}

/// A figure in a document, and where it stands.
#[derive(Debug, PartialEq)]
struct Stray {
    heading: String,
    line: usize,
    figure: String,
}

/// Numbers with a unit of results, and rows of tables with numbers, outside blocks, code and links.
fn strays(text: &str) -> Vec<Stray> {
    let (mut found, mut heading) = (Vec::new(), String::new());
    let (mut is_code, mut is_block) = (false, false);
    for (number, line) in text.lines().enumerate() {
        match line {
            line if line.starts_with("```") => is_code = !is_code,
            _ if is_code => {}
            line if line.starts_with(BEGIN) => is_block = true,
            line if line.starts_with(END) => is_block = false,
            _ if is_block => {}
            line if line.starts_with('#') => heading = line.trim_start_matches(['#', ' ']).to_owned(),
            line => found.extend(figures_of(line).into_iter().map(|figure| Stray {
                heading: heading.clone(),
                line: number + 1,
                figure,
            })),
        }
    }
    found
}

fn figures_of(line: &str) -> Vec<String> {
    // What stands between backquotes is code.
    let told: String = line.split('`').step_by(2).collect::<Vec<_>>().join(" ");
    let words: Vec<&str> = told
        .split(|c: char| c.is_whitespace() || c == '|')
        .map(|word| word.trim_matches(|c| "*()[],.;:".contains(c)))
        .filter(|word| !word.is_empty())
        .collect();
    let is_number = |word: &str| {
        word.starts_with(|c: char| c.is_ascii_digit())
            && word.chars().all(|c| c.is_ascii_digit() || ".,–±·×".contains(c))
    };
    let is_unit = |number: &str, word: &str| UNITS.contains(&word) || (word == "s" && number.contains('.'));
    let pairs = words.windows(2).filter(|pair| is_number(pair[0]) && is_unit(pair[0], pair[1]));
    let mut found: Vec<String> = pairs.map(|pair| pair.join(" ")).collect();
    found
        .extend(words.iter().filter(|w| w.strip_suffix('%').is_some_and(is_number)).map(|w| (*w).to_owned()));
    let cells = told.starts_with('|').then(|| told.trim_matches('|').split('|').skip(1));
    let is_figure =
        |cell: &str| cell.trim_matches(['*', ' ', '−', '≈']).starts_with(|c: char| c.is_ascii_digit());
    found.extend(
        cells.into_iter().flatten().find(|cell| is_figure(cell)).map(|cell| format!("| {} |", cell.trim())),
    );
    found
}

#[test]
fn documents_hold_the_figures_of_their_result_files() {
    let writes = std::env::var_os("CELLERATOR_WRITE_DOCS").is_some();
    if let Some(from) = std::env::var("CELLERATOR_RESULTS").ok().filter(|_| writes) {
        from.split_whitespace().for_each(keep);
    }
    let mut used = BTreeSet::new();
    for name in documents() {
        let text = read(&name);
        let (made, blocks) = with_figures(&text, &|block| from_place_of(&name, &rendered(block)));
        if writes && made != text {
            fs::write(root().join(&name), &made).unwrap();
        } else {
            assert!(made == text, "{name} has other figures than {blocks:?}: `make docs` writes them anew");
        }
        used.extend(blocks.into_iter().map(|block| block.split(' ').next().unwrap_or_default().to_owned()));
    }
    for (name, svg) in picture_files() {
        if writes {
            fs::create_dir_all(root().join(PICTURES)).unwrap();
            fs::write(root().join(&name), &svg).unwrap();
        }
        assert!(
            read(&name) == svg,
            "{name} is not what its result file has: `make docs-pictures` draws it anew"
        );
    }
    for entry in fs::read_dir(root().join("docs/results")).unwrap() {
        let file = format!("docs/results/{}", entry.unwrap().file_name().to_string_lossy());
        assert!(used.contains(&file), "no document shows {file}");
    }
    assert!(used.contains("docs/results/demo.json"), "README.md shows the demo's figures");
}

#[test]
fn documents_hold_no_figure_that_no_result_file_has() {
    let mut faults = Vec::new();
    let mut needed = BTreeSet::new();
    for name in HELD {
        let text = read(name);
        // What a block of the same document shows may be told in its words.
        let (_, blocks) = with_figures(&text, &|_| String::new());
        let shown: String = blocks.iter().map(|block| rendered(block)).collect();
        for stray in strays(&text) {
            let section =
                ALLOWED.iter().find(|(document, heading, _)| *document == name && *heading == stray.heading);
            needed.extend(section.map(|(document, heading, _)| (*document, *heading)));
            if section.is_none() && !shown.contains(&stray.figure) {
                faults.push(format!("{name}:{}: {}", stray.line, stray.figure));
            }
        }
    }
    assert!(
        faults.is_empty(),
        "figures that no result file has; take them out, or show a result file's in a block:\n{}",
        faults.join("\n")
    );
    for (document, heading, _) in ALLOWED {
        assert!(
            needed.contains(&(document, heading)),
            "nothing in {document}, {heading}, needs to be allowed"
        );
    }
}

/// Pages of one's own that a command writes as a whole, or that tell of what others have measured.
#[test]
fn tables_of_results_stand_in_blocks() {
    for name in documents() {
        let (without, _) = with_figures(&read(&name), &|_| String::new());
        let stray = without.lines().find(|line| line.contains("throughput  link used"));
        assert!(stray.is_none(), "{name}: a table of results outside a block of figures: {stray:?}");
    }
}

#[test]
fn a_block_with_other_figures_is_found() {
    let text = format!("a\n{BEGIN}x.json bulk -->\nold 4.70\n{END}\nb\n");
    let (made, blocks) = with_figures(&text, &|block| format!("new of {block}\n"));
    assert_eq!(made, format!("a\n{BEGIN}x.json bulk -->\nnew of x.json bulk\n{END}\nb\n"));
    assert_eq!(blocks.into_iter().collect::<Vec<_>>(), ["x.json bulk"]);
    assert_eq!(with_figures(&made, &|block| format!("new of {block}\n")).0, made);
}

#[test]
fn links_of_blocks_lead_from_where_the_document_is() {
    let text = "src=\"docs/pictures/a.svg\" srcset=\"docs/pictures/b.svg\" [c](docs/d.md#e)";
    assert_eq!(from_place_of("README.md", text), text);
    assert_eq!(
        from_place_of("docs/f.md", text),
        "src=\"pictures/a.svg\" srcset=\"pictures/b.svg\" [c](d.md#e)"
    );
    assert_eq!(
        from_place_of("docs/g/h.md", text),
        "src=\"../pictures/a.svg\" srcset=\"../pictures/b.svg\" [c](../d.md#e)"
    );
}

#[test]
fn figures_outside_blocks_are_found() {
    let text = format!(
        "# A\nIt does 41.2 Mbit/s, and `5 ms` is code.\n```\n7 ms\n```\n## B\n| a | **0.63** | x |\n\
         |---|---|---|\n| a 3 | b | c |\n\
         98% of it in 0.21 s, after 3 s.\n{BEGIN}x -->\n9 ms\n{END}\n"
    );
    let found: Vec<(String, usize, String)> =
        strays(&text).into_iter().map(|stray| (stray.heading, stray.line, stray.figure)).collect();
    let expected = [("A", 2, "41.2 Mbit/s"), ("B", 7, "| **0.63** |"), ("B", 10, "0.21 s"), ("B", 10, "98%")];
    let expected = expected.map(|(heading, line, figure)| (heading.to_owned(), line, figure.to_owned()));
    assert_eq!(found, expected);
}
