//! Congestion controls compared, as Markdown for documents.

use figures::stats::Moments;
use figures::{Table, distinct};

use scenario::multi_path_results::{MultiPathResult, MultiPathResults, MultiPathRun};

/// Goodput of each case on each scenario's links; scenarios with a TCP beside are left out.
#[must_use]
pub fn goodputs(results: &MultiPathResults) -> String {
    let alone: Vec<_> = results.scenarios.iter().filter(|one| one.scenario.beside == 0).collect();
    let cases = distinct(alone.iter().flat_map(|one| &one.scenario.cases).map(|case| case.name.as_str()));
    let row = |result: &&MultiPathResult| {
        let doubtful = result.runs.iter().filter(|run| run.distrusted.is_some()).count();
        let mut row = vec![result.scenario.title.clone(), runs(result)];
        row.extend(cases.iter().map(|case| told(result.moments(case, |run| Some(run.goodput_mbps)), 2)));
        row.push(doubtful.to_string());
        row
    };
    let mut headings = vec!["links".to_owned(), "runs of each".to_owned()];
    headings.extend(cases.iter().map(|case| format!("{case}, Mbit/s")));
    headings.push("doubtful runs".to_owned());
    // Headings are those of the scenarios, which a `Table` cannot have.
    let line = |cells: &[String]| format!("| {} |\n", cells.join(" | "));
    let rule = format!("|---|{}\n", "---:|".repeat(headings.len() - 1));
    alone.iter().map(row).fold(line(&headings) + &rule, |text, cells| text + &line(&cells))
}

/// Shares of each case beside TCPs, and for each byte of one of them.
#[must_use]
pub fn shares(results: &MultiPathResults) -> String {
    let mut rows = Vec::new();
    for result in results.scenarios.iter().filter(|one| one.scenario.beside > 0) {
        for case in &result.scenario.cases {
            let moments =
                |value: fn(&MultiPathRun) -> Option<f64>| told(result.moments(&case.name, value), 2);
            let doubtful = result.of(&case.name).filter(|run| run.distrusted.is_some());
            rows.push(vec![
                result.scenario.title.clone(),
                case.name.clone(),
                result.of(&case.name).count().to_string(),
                moments(|run| Some(run.goodput_mbps)),
                moments(|run| Moments::of(run.beside_mbps.iter().copied()).map(|m| m.mean)),
                moments(MultiPathRun::share),
                doubtful.count().to_string(),
            ]);
        }
    }
    let headings = vec![
        ("bottleneck", ""),
        ("connection", ""),
        ("runs", ""),
        ("it took", "Mbit/s"),
        ("a TCP beside it", "Mbit/s"),
        ("share of a TCP", ""),
        ("doubtful runs", ""),
    ];
    Table { headings, rows }.markdown()
}

/// Number of runs of each case.
fn runs(result: &MultiPathResult) -> String {
    let of = |case: &scenario::MultiPathCase| result.of(&case.name).count();
    let all: Vec<usize> = result.scenario.cases.iter().map(of).collect();
    let (least, most) = (all.iter().min().copied().unwrap_or(0), all.iter().max().copied().unwrap_or(0));
    if least == most { most.to_string() } else { format!("{least}–{most}") }
}

/// Mean and deviation; a dash without a run.
fn told(moments: Option<Moments>, digits: usize) -> String {
    moments.map_or("–".to_owned(), |moments| {
        let deviation = moments.deviation().map_or(String::new(), |d| format!(" ± {d:.digits$}"));
        format!("{:.digits$}{deviation}", moments.mean)
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::radios::SCHEMA;
    use scenario::MultiPath;

    fn results(beside: u32) -> MultiPathResults {
        let text = format!(
            "name = 'a'\ntitle = 'A'\ntime = '5 s'\nbeside = {beside}\n[[radio]]\nname = 'wifi0'\n\
             down = {{ rate = '10 Mbit/s' }}\nup = {{ rate = '2 Mbit/s' }}\n[[case]]\nname = 'lia'\n\
             congestion_control = 'lia'\n[[case]]\nname = 'bbr'\n"
        );
        let run = |goodput_mbps: f64| MultiPathRun {
            case: "lia".to_owned(),
            goodput_mbps,
            beside_mbps: (0..beside).map(|i| f64::from(i) + 1.0).collect(),
            ..MultiPathRun::default()
        };
        let scenario = MultiPath::from_toml("a.toml", &text).unwrap();
        let result = MultiPathResult { scenario, runs: [3.0, 5.0].map(run).to_vec() };
        let made_by = scenario::results::MadeBy::default();
        MultiPathResults { schema: SCHEMA.to_owned(), made_by, scenarios: vec![result] }
    }

    #[test]
    fn a_row_has_every_case_and_a_share_is_of_one_tcp() {
        let alone = goodputs(&results(0));
        assert!(alone.contains("| A | 0–2 | 4.00 ± 1.41 | – | 0 |"), "{alone}");
        assert!(!goodputs(&results(2)).contains("| A |"));
        let shared = shares(&results(2));
        // TCPs of 1 and 2 Mbit/s: 3/1.5 and 5/1.5.
        assert!(shared.contains("| A | lia | 2 | 4.00 ± 1.41 | 1.50 ± 0.00 | 2.67 ± 0.94 | 0 |"), "{shared}");
        assert!(!shares(&results(0)).contains("| A |"));
    }
}
