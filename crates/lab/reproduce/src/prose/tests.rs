use super::*;
use crate::{Axis, Figure};

const WHOLE: &str = "\
# A title

## Asked

Is it
so?

## Found

It is {−90, 27}.

## We see

We see {{gain:1}} times
as much of {{what}}.

## We see in the lab

We see {{gain:2}}.

## Figure goodput: Goodput over time

A caption
of {{count:0}} runs.

## Notes

First.

Second, {{gain:0}}.

## Notes of the simulation

Simulated.

## Notes of the lab

In the lab.
";

fn outcome() -> Outcome {
    Outcome {
        facts: Facts::of([("gain", 3.54.into()), ("what", "17 KB".into()), ("count", 10_usize.into())]),
        figures: vec![Figure::new("goodput", Axis::linear("seconds"))],
        ..Outcome::default()
    }
}

fn refused(text: &str) -> String {
    Prose::parse(text).unwrap_err().to_string()
}

/// `WHOLE` with one part of it replaced.
fn with(part: &str, other: &str) -> String {
    assert!(WHOLE.contains(part), "{part}");
    WHOLE.replacen(part, other, 1)
}

#[test]
fn sections_are_read_with_their_lines_joined() {
    let prose = Prose::parse(WHOLE).unwrap();
    assert_eq!((prose.title.as_str(), prose.asked.as_str()), ("A title", "Is it so?"));
    // Single braces are only braces.
    assert_eq!((prose.found.as_str(), prose.not_in_lab), ("It is {−90, 27}.", None));
    let lacking = with("## We see in the lab\n\nWe see {{gain:2}}.", "## Not in the lab\n\nit takes hours");
    assert_eq!(Prose::parse(&lacking).unwrap().not_in_lab.as_deref(), Some("it takes hours"));
}

#[test]
fn what_is_said_differs_between_simulation_and_lab() {
    let prose = Prose::parse(WHOLE).unwrap();
    let (mut simulated, mut lab) = (outcome(), outcome());
    prose.tell(&mut simulated, Ran::Simulated).unwrap();
    assert_eq!(simulated.we_see, "We see 3.5 times as much of 17 KB.");
    assert_eq!(simulated.notes, ["First.", "Second, 4.", "Simulated."]);
    let figure = &simulated.figures[0];
    assert_eq!(
        (figure.title.as_str(), figure.caption.as_str()),
        ("Goodput over time", "A caption of 10 runs.")
    );
    lab.aims_left_out = 2;
    prose.tell(&mut lab, Ran::InLab).unwrap();
    assert_eq!(lab.we_see, "We see 3.54.");
    assert_eq!(lab.notes[..3], ["First.", "Second, 4.", "In the lab."]);
    assert!(lab.notes[3].starts_with("2 aims belong"), "{:?}", lab.notes);
    // Told again, with other values, nothing of the first time is left.
    lab.facts = Facts::of([("gain", 9.0.into()), ("what", "".into()), ("count", 1_usize.into())]);
    prose.tell(&mut lab, Ran::InLab).unwrap();
    assert_eq!((lab.we_see.as_str(), lab.notes.len()), ("We see 9.00.", 4));
}

#[test]
fn without_a_sentence_of_its_own_the_lab_sees_what_the_simulation_sees() {
    let prose = Prose::parse(&with("## We see in the lab\n\nWe see {{gain:2}}.\n", "")).unwrap();
    let mut lab = outcome();
    prose.tell(&mut lab, Ran::InLab).unwrap();
    assert_eq!(lab.we_see, "We see 3.5 times as much of 17 KB.");
}

#[test]
fn a_text_that_is_not_written_as_it_must_be_is_refused_with_its_line() {
    let cases = [
        ("# A title", "A title", "line 1: must be `# Title`"),
        ("# A title\n", "# A title\n\nWords.\n", "line 3: text outside of any section"),
        ("## Found", "## Fuond", "line 8: there is no section `Fuond`"),
        ("## Found", "### Found", "line 8: a heading must begin with `## `"),
        ("## Found", "## Asked", "line 8: this section is there already"),
        ("## Found\n\nIt is {−90, 27}.\n", "", "has no section `Found`"),
        ("## Asked\n\nIs it\nso?\n", "", "has no section `Asked`"),
        ("## We see\n\nWe see {{gain:1}} times\nas much of {{what}}.\n", "", "has no section `We see`"),
        ("Is it\nso?", "Is it?\n\nSo?", "line 3: `Asked` must have one paragraph"),
        (
            "A caption\nof {{count:0}} runs.\n",
            "",
            "line 21: `Figure goodput: Goodput over time` must have one paragraph",
        ),
        (
            "## Figure goodput: Goodput over time",
            "## Figure goodput",
            "line 21: there is no section `Figure goodput`",
        ),
        (
            "It is",
            "It is {{gain:1}}",
            "line 8: `Found` is what the paper says: there is no place for values of ours",
        ),
        ("Second, {{gain:0}}", "Second, {{gain:0", "line 30: `{{` without its `}}`"),
        ("Second, {{gain:0}}", "Second, gain:0}}", "line 30: `}}` without its `{{`"),
        ("{{gain:0}}", "{{gain.0}}", "line 30: `{{gain.0}}` must be `{{name}}` or `{{name:decimals}}`"),
        ("{{gain:0}}", "{{gain:x}}", "line 30: `{{gain:x}}` must be `{{name}}` or `{{name:decimals}}`"),
        ("{{gain:0}}", "{{gain:7}}", "line 30: `{{gain:7}}` must be `{{name}}` or `{{name:decimals}}`"),
        ("{{gain:0}}", "{{}}", "line 30: `{{}}` must be `{{name}}` or `{{name:decimals}}`"),
    ];
    for (part, other, wanted) in cases {
        assert_eq!(refused(&with(part, other)), wanted, "{other}");
    }
    assert_eq!(refused(""), "line 1: must be `# Title`");
    assert_eq!(refused("# "), "line 1: must be `# Title`");
}

#[test]
fn facts_and_places_figures_and_sections_must_be_the_same() {
    let prose = Prose::parse(WHOLE).unwrap();
    prose.check(&outcome()).unwrap();
    let said = |facts: Facts, figures: &[&str]| {
        let figures = figures.iter().map(|name| Figure::new(name, Axis::linear("x"))).collect();
        prose.check(&Outcome { facts, figures, ..Outcome::default() }).unwrap_err().to_string()
    };
    let all = || outcome().facts;
    let more = Facts::of([
        ("gain", 1.0.into()),
        ("what", "".into()),
        ("count", 1.0.into()),
        ("idle", 1.0.into()),
        ("spare", 1.0.into()),
    ]);
    assert_eq!(said(more, &["goodput"]), "has no place for `idle`, `spare`");
    let fewer = Facts::of([("gain", 1.0.into()), ("count", 1.0.into())]);
    assert!(said(fewer, &["goodput"]).starts_with("`{{what}}` has no value"));
    let other = Facts::of([("gain", "3".into()), ("what", "".into()), ("count", 1.0.into())]);
    assert_eq!(said(other, &["goodput"]), "`{{gain}}` is text: it has no decimals");
    assert_eq!(said(all(), &["goodput", "queue"]), "has no section `Figure queue: …`");
    assert_eq!(said(all(), &[]), "has a section for a figure `goodput`, which the experiment does not draw");
}

#[test]
fn a_place_that_only_the_lab_has_is_checked_too() {
    let prose = Prose::parse(&with("We see {{gain:2}}.", "We see {{lab:2}}.")).unwrap();
    assert!(prose.check(&outcome()).unwrap_err().to_string().starts_with("`{{lab}}` has no value"));
}

/// A line of a page that the text may have become.
fn fits(text: &Text, line: &str) -> bool {
    let (mut rest, mut is_open) = (line, false);
    for piece in &text.0 {
        let Piece::Words(words) = piece else {
            is_open = true;
            continue;
        };
        let at = rest.find(words.as_str()).filter(|at| is_open || *at == 0);
        let Some(at) = at else { return false };
        (rest, is_open) = (&rest[at + words.len()..], false);
    }
    is_open || rest.is_empty()
}

#[test]
fn a_text_fits_a_line_with_any_values_in_its_places() {
    let text = Text::parse("We see {{gain:1}} and {{more:0}} %.", 1).unwrap();
    assert!(fits(&text, "We see 3.5 and 17 %."));
    for other in ["We see 3.5 and 17 %. More.", "Well, we see 3.5 and 17 %.", "We see 3.5 or 17 %."] {
        assert!(!fits(&text, other), "{other}");
    }
}

/// Finds texts that were changed without their page; `cellerator reproduce --pages` makes the page again.
#[test]
fn the_pages_of_the_repository_say_what_the_texts_say() {
    let pages = [
        (include_str!("../../../../../docs/reproduction.md"), Ran::Simulated),
        (include_str!("../../../../../docs/reproduction-lab.md"), Ran::InLab),
    ];
    for (page, ran) in pages {
        let mut count = 0;
        for experiment in crate::all() {
            let Some((_, section)) = page.split_once(&format!("<a id=\"{}\"></a>", experiment.name)) else {
                continue;
            };
            count += 1;
            let section = section.split("<a id=").next().unwrap_or_default();
            let prose = experiment.prose().unwrap();
            let of_lab = prose.we_see_in_lab.as_ref().filter(|_| ran == Ran::InLab);
            let we_see = of_lab.unwrap_or(&prose.we_see);
            let before = format!("{} {} ", prose.asked, prose.found);
            let mut lines = section.lines().filter_map(|line| line.strip_prefix(before.as_str()));
            assert!(lines.any(|line| fits(we_see, line)), "{}: {before}… {we_see:?}", experiment.name);
            let others = if ran == Ran::InLab { &prose.notes_of_lab } else { &prose.notes_of_simulation };
            for note in prose.notes.iter().chain(others) {
                assert!(section.lines().any(|line| fits(note, line)), "{}: {note:?}", experiment.name);
            }
        }
        let of_place = |e: &&&crate::Experiment| ran == Ran::Simulated || e.lab.seconds().is_some();
        assert_eq!(count, crate::all().iter().filter(of_place).count(), "{ran:?}");
    }
    assert!(pages[0].0.starts_with(include_str!("../../../../../experiments/head.md")));
    assert!(pages[1].0.starts_with(include_str!("../../../../../experiments/head-lab.md")));
}
