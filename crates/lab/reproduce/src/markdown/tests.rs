use scenario::results::MadeBy;

use super::*;
use crate::document::SCHEMA;
use crate::record::UsedScenario;
use crate::{Axis, Check, Column, Mark, Outcome, Panel, Point, Row, Series, Source, Value, all, chosen};

fn column(source: Source, heading: &str, unit: &str) -> Column {
    Column { source, heading: heading.to_owned(), unit: unit.to_owned(), digits: 1 }
}

fn outcome() -> Outcome {
    let values = [5.0, 5.4].map(Value::from).to_vec();
    let series =
        Series::new("ours", Source::Ours, Mark::Line, vec![Point::new(0.0, 1.0), Point::new(1.0, 2.0)]);
    let panel = Panel { y: Axis::linear("Mbit/s"), series: vec![series] };
    let figure = Figure::titled("Goodput", "A caption.", Axis::linear("seconds"));
    Outcome {
        we_see: "We see it.".to_owned(),
        tables: vec![Table {
            title: "Goodput of the download".to_owned(),
            rows_are: "case|es".to_owned(),
            columns: vec![column(Source::Paper, "goodput", "Mbit/s"), column(Source::Ours, "a|b", "")],
            rows: vec![Row { label: "one|two".to_owned(), values }],
        }],
        figures: vec![Figure { panels: vec![panel], ..figure }],
        notes: vec!["A note of `code` & more.".to_owned()],
        checks: vec![Check::at_least("faster", 3.0, 2.0), Check::at_most("shorter <", 5.0, 4.0)],
        ..Outcome::default()
    }
}

fn run(case: &str) -> RunRecord {
    RunRecord {
        scenario: "a-scenario".to_owned(),
        case: case.to_owned(),
        seed: 7,
        goodput_mbps: Some(5.0),
        simulated_goodput_mbps: Some(4.0),
        utilisation: None,
        queue_p95_ms: Some(20.0),
        log_hash: None,
        late_p99_us: Some(99.0),
        late_p50_us: Some(10.0),
        late_max_us: None,
        distrusted: None,
        repeated: None,
        skipped: None,
        problems: Vec::new(),
    }
}

fn result(experiment: &str, runner: &str) -> Reproduction {
    let used = UsedScenario {
        file: "experiments/a.toml".to_owned(),
        hash: "0".to_owned(),
        seed: 3,
        description: "A link\nof two lines.".to_owned(),
        text: "name = \"a\" # <".to_owned(),
    };
    let programs = vec!["a 1".to_owned(), "b 2".to_owned()];
    let made_by =
        MadeBy { cellerator: "1.2.3".to_owned(), runner: runner.to_owned(), programs, ..MadeBy::default() };
    Reproduction {
        schema: SCHEMA.to_owned(),
        experiment: experiment.to_owned(),
        made_by,
        program: "p".to_owned(),
        processor: None,
        took_s: (runner == "lab").then_some(150),
        scenarios: vec![used],
        links: vec![Figure::titled("The link", "What it does.", Axis::linear("seconds"))],
        outcome: outcome(),
        runs: vec![run("plain")],
    }
}

fn page(results: &[Reproduction]) -> Document {
    markdown(&all(), results, "pictures", None).unwrap()
}

/// The line that begins so.
fn line<'a>(text: &'a str, start: &str) -> &'a str {
    text.lines()
        .find(|line| line.starts_with(start))
        .unwrap_or_else(|| panic!("no line `{start}…` in {text}"))
}

#[test]
fn a_section_has_what_was_asked_found_seen_aimed_at_and_made() {
    let page = page(&[result("ma-figure-2", "sim")]);
    let prose = chosen(&["ma-figure-2".to_owned()]).unwrap()[0].prose().unwrap();
    let title = line(&page.text, "## Fig 2: ");
    assert_eq!(title, format!("## Fig 2: {}", prose.title));
    let sentences = format!("{} {} We see it.", prose.asked, prose.found);
    assert!(page.text.contains(&sentences), "{sentences}");
    assert_eq!(line(&page.text, "- ✓"), "- ✓ faster: 3.000 (at least 2.000)");
    assert_eq!(line(&page.text, "- ✗"), "- ✗ shorter <: 5.000 (at most 4.000)");
    assert!(page.text.contains("    cellerator reproduce ma-figure-2\n"));
    assert!(page.text.contains("\nThe link: A link of two lines.\n"));
    assert!(page.text.contains("\nScenario: `experiments/a.toml` (seed 3).\n"));
    assert!(page.text.contains("\nA note of `code` & more.\n"));
    assert!(page.text.contains("Made by Cellerator 1.2.3."));
}

#[test]
fn fields_of_a_table_cannot_end_early() {
    let page = page(&[result("ma-figure-2", "sim")]);
    assert_eq!(line(&page.text, "| case"), "| case\\|es | goodput, paper, Mbit/s | a\\|b, ours |");
    assert_eq!(line(&page.text, "| one"), "| one\\|two | 5.0 | 5.4 |");
    assert_eq!(line(&page.text, "|---|---:|"), "|---|---:|---:|");
}

#[test]
fn pictures_are_named_by_experiment_and_number() {
    let page = page(&[result("ma-figure-2", "sim")]);
    let names: Vec<&str> = page.pictures.iter().map(|(name, _)| name.as_str()).collect();
    let both = |stem: &str| [format!("{stem}.svg"), format!("{stem}-narrow.svg")];
    assert_eq!(names, [both("ma-figure-2-1"), both("ma-figure-2-link")].concat());
    for (name, svg) in &page.pictures {
        assert!(page.text.contains(&format!("\"pictures/{name}\"")), "{name}");
        assert!(svg.starts_with("<svg") && svg.contains("cellerator reproduce ma-figure-2"), "{name}");
    }
    let shown = "src=\"pictures/ma-figure-2-1.svg\" alt=\"Goodput\" width=\"860\"></picture>\n\nA caption.\n";
    assert!(page.text.contains(shown));
}

#[test]
fn the_overview_counts_aims_and_says_where_none_are_set() {
    let mut none = result("mp-multi-path", "sim");
    none.outcome.checks.clear();
    let page = page(&[result("ma-figure-2", "sim"), none]);
    assert!(line(&page.text, "| [ma-figure-2](#ma-figure-2)").ends_with("| [MA] Fig 2 | sim | 1 of 2 |"));
    assert!(line(&page.text, "| [mp-multi-path]").ends_with("| sim | none set |"));
    // Papers are headings, each once, in their order.
    let papers: Vec<&str> = page.text.lines().filter(|line| line.starts_with("# [")).collect();
    assert!(
        matches!(papers[..], [ma, mp] if ma.starts_with("# [MA]") && mp.starts_with("# [MP]")),
        "{papers:?}"
    );
}

#[test]
fn each_page_has_its_own_results() {
    let both = [result("ma-figure-2", "sim"), result("ma-figure-3", "lab")];
    let simulated = page(&both);
    assert!(simulated.text.contains("id=\"ma-figure-2\"") && !simulated.text.contains("id=\"ma-figure-3\""));
    let lab = lab_markdown(&all(), &both, "pictures", None).unwrap();
    assert!(!lab.text.contains("id=\"ma-figure-2\"") && lab.text.contains("id=\"ma-figure-3\""));
    assert_eq!(lab.pictures[0].0, "ma-figure-3-lab-1.svg");
    assert!(lab.text.contains("    cellerator reproduce ma-figure-3 --lab\n"));
}

#[test]
fn what_went_wrong_in_a_run_stands_below_its_experiment() {
    let mut wrong = result("ma-figure-2", "sim");
    wrong.runs[0].problems = vec!["flow 1 failed: reset".to_owned()];
    wrong.runs[0].distrusted = Some("it was late".to_owned());
    let page = page(&[wrong]);
    assert!(page.text.contains("a-scenario, case plain, seed 7: flow 1 failed: reset.\n"));
    assert!(page.text.contains("a-scenario, case plain, seed 7: it was late.\n"));
}

#[test]
fn an_interruption_is_said_on_top() {
    let results = [result("ma-figure-2", "sim")];
    let page = markdown(&all(), &results, "p", Some("This was interrupted.")).unwrap();
    assert!(page.text.find("**This was interrupted.**").unwrap() < page.text.find("| experiment |").unwrap());
    let html = crate::html(&all(), &results, Some("This was <interrupted>.")).unwrap();
    assert!(html.contains("<p class=\"finding warning\">This was &lt;interrupted&gt;.</p>"));
}

#[test]
fn the_lab_page_states_agreement_lateness_doubts_and_what_is_missing() {
    let mut lab = result("ma-figure-2", "lab");
    let mut doubtful = run("doubtful");
    doubtful.distrusted = Some("late|ness".to_owned());
    doubtful.simulated_goodput_mbps = Some(5.0);
    doubtful.late_p99_us = Some(140.0);
    let mut skipped = run("not there");
    skipped.skipped = Some("only the simulator has `fades`".to_owned());
    lab.runs.extend([doubtful, skipped]);
    lab.outcome.checks[0].simulated = Some(2.5);
    let page = lab_markdown(&all(), &[lab], "p", None).unwrap();
    let overview = line(&page.text, "| [ma-figure-2](#ma-figure-2)");
    assert!(overview.ends_with("| 1 of 2 | 1 of 2 | 1.25, 1.00, 1.25 | 2 | 140 | 1 |"), "{overview}");
    assert_eq!(
        line(&page.text, "| a-scenario | plain"),
        "| a-scenario | plain | 7 | 4.00 | 5.00 | 20 | 10 | 99 | – | yes |"
    );
    assert!(line(&page.text, "| a-scenario | doubtful").ends_with("| no: late\\|ness |"));
    assert!(page.text.contains("\nNot run (not there): only the simulator has `fades`.\n"));
    assert!(page.text.contains("- ✓ faster: 3.000 (simulated 2.500; at least 2.000)"));
    assert!(page.text.contains("with a 1 and b 2; it took 3 min."));
    // What the lab lacks is there with its reason, what was not run yet without one.
    let lacking = line(&page.text, "| [mp-figure-6](reproduction.md#mp-figure-6)");
    assert!(lacking.ends_with("take half an hour where time is real |"), "{lacking}");
    assert_eq!(line(&page.text, "| ma-figure-3"), "| ma-figure-3 | [MA] Fig 3 | not run yet |");
}

#[test]
fn other_makers_are_named() {
    let mut other = result("ma-figure-3", "lab");
    other.made_by.kernel = "6.1".to_owned();
    let page = lab_markdown(&all(), &[result("ma-figure-2", "lab"), other], "p", None).unwrap();
    assert!(page.text.contains("`ma-figure-3` was made by Cellerator 1.2.3 on Linux 6.1, 0 processors.\n"));
}

#[test]
fn the_html_page_escapes_marks_and_colours() {
    let mut lab = result("ma-figure-2", "lab");
    lab.outcome.checks.pop();
    let html = crate::html(&all(), &[result("ma-figure-2", "sim"), lab], None).unwrap();
    assert!(html.contains("<span class=\"mark miss\">✗</span> shorter &lt;: 5.000"), "escaped");
    assert!(html.contains("A note of <code>code</code> &amp; more."));
    assert!(
        html.contains("<td class=\"miss\">1 of 2</td>") && html.contains("<td class=\"pass\">1 of 1</td>")
    );
    assert!(html.contains("<pre>name = &quot;a&quot; # &lt;</pre>") || html.contains("# &lt;</pre>"));
    assert_eq!(html.matches("<section id=\"ma-figure-2\">").count(), 1, "one section for both");
    assert!(html.contains("With kernel TCP, in real time"));
    assert!(html.contains("<td class=\"paper\">5.0</td><td class=\"ours\">5.4</td>"));
}

#[test]
fn times_are_for_people() {
    assert_eq!((in_words(99), in_words(100), in_words(121)), ("99 s".into(), "2 min".into(), "3 min".into()));
}
