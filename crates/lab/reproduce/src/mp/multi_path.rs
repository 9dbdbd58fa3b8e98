//! [MP] what needs several paths: Figs 3, 4, 7 to 12 and the table of ratios, with kernel MPTCP in the lab.

use figures::stats::Moments;
use lab::radios::{MultiPathResult, MultiPathRun, throughput};
use scenario::{MultiPath, MultiPathCase};

use crate::experiment::built_in;
use crate::runs::{least, most};
use crate::{
    Axis, BuiltIn, Check, Context, Experiment, Facts, Figure, InLab, Mark, Outcome, Paper, Point,
    ReproduceError, Series, Source, Table,
};

pub(crate) const EXPERIMENT: Experiment = Experiment {
    name: "mp-multi-path",
    paper: Paper::Mp,
    part: "Figs 3, 4, 7–12",
    prose: built_in!("mp/multi-path.md"),
    files: &[built_in!("mp/table-2.toml")],
    seconds: 0,
    lab: InLab::Takes(4_300),
    run,
};

/// Names of the cases that are compared.
const SINGLE: &str = "best single path";
const KERNEL: &str = "kernel";
const DAEMON: &str = "daemon";

/// A setting of §IV: its file, and Mbit/s of Multipath TCP and of the best single path as printed.
struct Setting {
    name: &'static str,
    file: BuiltIn,
    multi: f64,
    single: f64,
}

const SETTINGS: [Setting; 6] = [
    Setting {
        name: "static, Amherst (8 flows)",
        file: built_in!("mp/multi/static-amherst.toml"),
        multi: 19.59,
        single: 18.32,
    },
    Setting {
        name: "static, Boston (8 flows)",
        file: built_in!("mp/multi/static-boston.toml"),
        multi: 16.45,
        single: 15.63,
    },
    Setting {
        name: "4G zone while driving",
        file: built_in!("mp/multi/drive-4g.toml"),
        multi: 10.48,
        single: 7.79,
    },
    Setting {
        name: "3G zone while driving",
        file: built_in!("mp/multi/drive-3g.toml"),
        multi: 5.30,
        single: 3.47,
    },
    Setting {
        name: "campus, intermittent Wi-Fi",
        file: built_in!("mp/multi/campus.toml"),
        multi: 8.96,
        single: 7.79,
    },
    Setting {
        name: "Boston driving, intermittent Wi-Fi",
        file: built_in!("mp/multi/boston-drive.toml"),
        multi: 16.82,
        single: 14.74,
    },
];

/// Figures of throughput over time: name, file, and the cases that are drawn.
const CURVES: [(&str, BuiltIn, &[&str]); 5] = [
    ("ssthresh", built_in!("mp/multi/ssthresh.toml"), &["cached", "not cached"]),
    ("verizon", built_in!("mp/multi/verizon-handover.toml"), &[KERNEL, DAEMON]),
    ("sprint", built_in!("mp/multi/sprint-handover.toml"), &[KERNEL, DAEMON]),
    ("att", built_in!("mp/multi/att-handover.toml"), &[KERNEL, DAEMON]),
    ("to-4g", built_in!("mp/multi/to-4g.toml"), &[KERNEL, DAEMON]),
];
/// Figs 11 and 12 are two of the settings.
const DRIVES: [(&str, usize); 2] = [("campus", 4), ("boston", 5)];
/// Width of a bin in a figure, s.
const BIN_S: f64 = 0.5;

fn run(context: &mut Context<'_>) -> Result<Outcome, ReproduceError> {
    let mut results = Vec::new();
    for setting in &SETTINGS {
        results.push(context.multi_path(&setting.file)?);
    }
    let mut curves = Vec::new();
    for (name, file, cases) in &CURVES {
        curves.push((*name, context.multi_path(file)?, *cases));
    }
    let mut figures: Vec<Figure> =
        curves.iter().map(|(name, result, cases)| figure(name, result.as_ref(), cases)).collect();
    for (name, at) in DRIVES {
        figures.push(figure(name, results[at].as_ref(), &[KERNEL, DAEMON]));
    }
    let ratio = |at: usize, case: &str| {
        let result = results[at].as_ref();
        goodput(result, case) / goodput(result, SINGLE)
    };
    let ratios: Vec<f64> = (0..SETTINGS.len()).map(|at| ratio(at, DAEMON)).collect();
    let of_curve = |at: usize, case: &str| goodput(curves[at].1.as_ref(), case);
    let mut checks: Vec<Check> = SETTINGS
        .iter()
        .zip(&ratios)
        .map(|(setting, ratio)| {
            Check::at_least(format!("{}: multi-path ÷ best single path", setting.name), *ratio, 1.0)
        })
        .collect();
    let handovers = [(1, "Verizon"), (2, "Sprint"), (3, "AT&T")];
    checks.extend(handovers.map(|(at, name)| {
        let claim = format!("{name}'s hand-over: with the path manager ÷ without");
        Check::at_least(claim, of_curve(at, DAEMON) / of_curve(at, KERNEL), 0.97)
    }));
    let outcome = Outcome {
        facts: Facts::of([
            ("least", least(ratios.iter().copied()).into()),
            ("most", most(ratios.iter().copied()).into()),
            ("cached", of_curve(0, "cached").into()),
            ("uncached", of_curve(0, "not cached").into()),
            ("sprint", reuse_s(curves[2].1.as_ref(), DAEMON).into()),
        ]),
        tables: vec![table(&results), hand_overs(&curves)],
        figures,
        checks,
        ..Outcome::default()
    };
    if context.simulates() {
        // The simulated hosts have one path each: there is nothing of ours to show.
        let (tables, figures, checks) = (vec![printed()], Vec::new(), Vec::new());
        return Ok(Outcome { tables, figures, checks, ..outcome });
    }
    Ok(outcome)
}

/// Table as the paper printed it, where nothing runs.
fn printed() -> Table {
    let mut table = Table::new("What the paper measured", "scenario")
        .column(Source::Paper, "multi-path", "Mbit/s", 2)
        .column(Source::Paper, "best single path", "Mbit/s", 2)
        .column(Source::Paper, "ratio", "", 2);
    for s in &SETTINGS {
        table.row(s.name, vec![s.multi.into(), s.single.into(), (s.multi / s.single).into()]);
    }
    table
}

fn table(results: &[Option<MultiPathResult>]) -> Table {
    let mut table = Table::new("Several paths against the best one", "scenario")
        .column(Source::Paper, "best single path", "Mbit/s", 2)
        .column(Source::Ours, "best single path", "Mbit/s", 2)
        .column(Source::Paper, "multi-path", "Mbit/s", 2)
        .column(Source::Ours, "multi-path", "Mbit/s", 2)
        .column(Source::Adaptive, "multi-path with path manager", "Mbit/s", 2)
        .column(Source::Paper, "ratio", "", 2)
        .column(Source::Ours, "ratio", "", 2)
        .column(Source::Adaptive, "ratio with path manager", "", 2);
    for (s, result) in SETTINGS.iter().zip(results) {
        let result = result.as_ref();
        let [single, kernel, daemon] = [SINGLE, KERNEL, DAEMON].map(|case| goodput(result, case));
        let [of_single, of_kernel, of_daemon] = [SINGLE, KERNEL, DAEMON].map(|case| goodputs(result, case));
        let values = vec![
            s.single.into(),
            of_single.into(),
            s.multi.into(),
            of_kernel.into(),
            of_daemon.into(),
            (s.multi / s.single).into(),
            (kernel / single).into(),
            (daemon / single).into(),
        ];
        table.row(s.name, values);
    }
    table
}

type Curve = (&'static str, Option<MultiPathResult>, &'static [&'static str]);

fn hand_overs(curves: &[Curve]) -> Table {
    let mut table = Table::new("Hand-overs", "hand-over")
        .column(Source::Ours, "goodput", "Mbit/s", 2)
        .column(Source::Adaptive, "goodput", "Mbit/s", 2)
        .column(Source::Ours, "longest stall", "s", 2)
        .column(Source::Adaptive, "longest stall", "s", 2)
        .column(Source::Ours, "used again after", "s", 2)
        .column(Source::Adaptive, "used again after", "s", 2);
    let names =
        ["Verizon 4G to 3G, 10 s", "Sprint 4G to 3G, NAT", "AT&T 4G to 3.5G, 5 s", "AT&T 3.5G to 4G, 1 s"];
    for (name, (_, result, _)) in names.into_iter().zip(&curves[1..]) {
        let result = result.as_ref();
        let stall = |case: &str| moments(result, case, |run| Some(run.longest_stall_ms / 1e3));
        let values = vec![
            goodputs(result, KERNEL).into(),
            goodputs(result, DAEMON).into(),
            stall(KERNEL).into(),
            stall(DAEMON).into(),
            reuse_s(result, KERNEL).into(),
            reuse_s(result, DAEMON).into(),
        ];
        table.row(name, values);
    }
    table
}

fn moments(
    result: Option<&MultiPathResult>,
    case: &str,
    value: impl Fn(&MultiPathRun) -> Option<f64>,
) -> Option<Moments> {
    result.and_then(|result| result.moments(case, value))
}

fn mean(result: Option<&MultiPathResult>, case: &str, value: impl Fn(&MultiPathRun) -> Option<f64>) -> f64 {
    moments(result, case, value).map_or(f64::NAN, |moments| moments.mean)
}

fn goodputs(result: Option<&MultiPathResult>, case: &str) -> Option<Moments> {
    moments(result, case, |run| Some(run.goodput_mbps))
}

fn goodput(result: Option<&MultiPathResult>, case: &str) -> f64 {
    mean(result, case, |run| Some(run.goodput_mbps))
}

/// Time between the return of a radio and its next use, s; of those runs in which it was.
fn reuse_s(result: Option<&MultiPathResult>, case: &str) -> f64 {
    mean(result, case, |run| run.reuses.iter().find_map(|reuse| reuse.after_ms).map(|ms| ms / 1e3))
}

/// Throughput of each flow over time in the first run of each case, a panel per case.
fn figure(name: &str, result: Option<&MultiPathResult>, cases: &[&str]) -> Figure {
    let mut figure = Figure::new(name, Axis::linear("seconds"));
    for case in cases {
        let run = result.and_then(|result| result.of(case).next());
        let flows = run.map(|run| run.flows.clone()).unwrap_or_default();
        let series = flows.iter().map(|(flow, bins)| {
            let points: Vec<Point> =
                throughput(bins, BIN_S).into_iter().map(|p| Point::new(p.x, p.y)).collect();
            Series::new(flow, Source::Ours, Mark::Line, points)
        });
        figure = figure.panel(Axis::linear(&format!("{case}, Mbit/s")), series.collect());
    }
    figure
}

/// A file, checked: what is looked up is there.
pub(crate) fn read(file: &BuiltIn, text: &str) -> Result<MultiPath, ReproduceError> {
    let scenario = MultiPath::from_toml(file.path, text)?;
    let has = |name: &str| scenario.cases.iter().any(|case: &MultiPathCase| case.name == name);
    if (has(KERNEL) && has(DAEMON)) || (has("cached") && has("not cached")) {
        return Ok(scenario);
    }
    let problem = format!("needs the cases `{KERNEL}` and `{DAEMON}`, or `cached` and `not cached`");
    Err(ReproduceError::meaning(file.path, problem))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_file_can_be_read_and_its_links_made() {
        let files = SETTINGS.iter().map(|s| &s.file).chain(CURVES.iter().map(|(_, file, _)| file));
        for file in files {
            let scenario = read(file, file.text).unwrap();
            for (i, radio) in scenario.radios.iter().enumerate() {
                let own = (&radio.down, &radio.up);
                let becomes = radio.events.iter().filter_map(|e| Some((e.down.as_ref()?, e.up.as_ref()?)));
                for links in std::iter::once(own).chain(becomes) {
                    scenario.links(links, (i, 1), &mut |name| Err(format!("{name}: no traces"))).unwrap();
                }
            }
        }
    }

    #[test]
    fn the_papers_ratios_are_those_of_its_text() {
        let ratios = SETTINGS.map(|s| (s.multi / s.single * 100.0).round() as i64);
        assert_eq!(ratios, [107, 105, 135, 153, 115, 114]);
    }
}
