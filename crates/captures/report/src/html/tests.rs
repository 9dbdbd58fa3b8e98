use super::*;
use crate::fixture::case_with;
use scenario::Scenario;
use scenario::results::{MadeBy, SCHEMA, Series, Transfer};

fn results() -> Results {
    let text = "name = \"t\"\ntitle = \"R&D <link>\"\n[[case]]\nname = \"<b>bold</b>\"\n[[case]]\nname = \"skipped\"\n";
    let scenario = Scenario::from_toml("t.toml", text).unwrap();
    let mut cases: Vec<CaseResult> =
        scenario.resolved().into_iter().map(|settings| case_with(settings, None)).collect();
    cases[1].skipped = Some("there is no accelerator".to_owned());
    cases[0].figures = Some(Figures {
        transfer: Transfer {
            hashes_equal: false,
            received_bytes: 1_000_000,
            seconds: 2.0,
            ..Transfer::default()
        },
        series: Series {
            bin_s: 0.5,
            capacity_mbps: vec![5.0, 0.0, 5.0, f64::NAN],
            delivered_mbps: vec![4.0, 0.0, 5.0, 1.0],
            queue_delay_ms: vec![Some(2.0), None, Some(900.0), None],
            queue_delay_max_ms: vec![Some(3.0), None, Some(1_000.0), None],
            goodput_mbps: vec![4.0, 0.0, 4.0, 1.0],
        },
        ..Figures::default()
    });
    cases[0].problems = vec!["flow 1 failed: no route".to_owned()];
    cases[0].doubts = vec!["do not trust its throughput: late".to_owned()];
    let made_by = MadeBy { command: "cellerator lab run 'a & b.toml'".to_owned(), ..MadeBy::default() };
    Results {
        schema: SCHEMA.to_owned(),
        made_by,
        scenarios: vec![ScenarioResult { scenario, cases }],
        pictures: Vec::new(),
        interrupted: None,
    }
}

#[test]
fn the_page_stands_alone_and_escapes_what_it_shows() {
    let page = page("T", &results());
    // The SVG name space is a name, not an address that is fetched.
    let addresses = page.replace("http://www.w3.org/2000/svg", "");
    for outside in ["http:", "https:", "<script", "<link", "@import", "url("] {
        assert!(!addresses.contains(outside), "{outside}");
    }
    assert!(page.contains("R&amp;D &lt;link&gt;") && !page.contains("<b>bold"), "escaped");
    assert!(page.contains("<li>&lt;b&gt;bold&lt;/b&gt;: flow 1 failed: no route.</li>"));
    assert!(page.contains("<li>&lt;b&gt;bold&lt;/b&gt;: do not trust its throughput: late.</li>"));
    assert!(page.contains("<li>skipped: there is no accelerator.</li>"));
    assert!(page.contains("DIFFERENT (0 of 1 equal)"));
    assert!(page.contains("cellerator lab run 'a &amp; b.toml'"));
}

#[test]
fn every_element_is_closed_and_every_number_is_one() {
    let page = page("T", &results());
    for tag in [
        "section",
        "table",
        "tr",
        "td",
        "th",
        "div",
        "figure",
        "figcaption",
        "svg",
        "p",
        "pre",
        "span",
        "text",
    ] {
        let opened = page.matches(&format!("<{tag}>")).count() + page.matches(&format!("<{tag} ")).count();
        assert_eq!(opened, page.matches(&format!("</{tag}>")).count(), "{tag}");
    }
    let paths = page.split(" d=\"").skip(1).filter_map(|rest| rest.split('"').next());
    assert!(paths.clone().count() > 10);
    paths.for_each(|path| assert!(!path.contains("NaN") && !path.contains("inf"), "{path}"));
}

#[test]
fn a_page_of_what_was_ended_early_says_so() {
    let interrupted = Some(scenario::results::Interrupted { finished: 1, of: 4 });
    let page = page("T", &Results { interrupted, ..results() });
    assert!(page.contains("interrupted after 1 of 4 runs"));
}
