//! [WA] Table I: throughput and link utilisation for three speeds of change.

use super::figure_3::Scheme;
use super::{dropped, mean, packets_per_second, percent, upper_bound};
use crate::case_id::case_ids;
use crate::experiment::built_in;
use crate::{
    Axis, CaseId, Check, Context, Experiment, Facts, Figure, InLab, Mark, Outcome, Paper, Point,
    ReproduceError, Runs, Series, Source, Table,
};

pub(crate) const EXPERIMENT: Experiment = Experiment {
    name: "wa-table-1",
    paper: Paper::Wa,
    part: "Table I",
    prose: built_in!("wa/table-1.md"),
    files: &[built_in!("wa/table-1.toml"), built_in!("wa/table-1-lab.toml")],
    seconds: 10,
    lab: InLab::Takes(142),
    run,
};

case_ids! {
    /// Time for which a rate holds: the first half of the names in `wa/table-1.toml` and
    /// `wa/table-1-collapse.toml`.
    pub(super) enum Holds { S2 = "T = 2 s", Ms200 = "T = 200 ms", Ms20 = "T = 20 ms" }
}
impl Holds {
    /// All, as they stand over an axis of time.
    pub(super) fn shortest_first() -> impl Iterator<Item = Self> {
        PAPER.iter().rev().map(|row| row.0)
    }

    /// T, as the paper's table has it.
    const fn time(self) -> &'static str {
        match self {
            Self::S2 => "2 s",
            Self::Ms200 => "200 ms",
            Self::Ms20 => "20 ms",
        }
    }

    pub(super) const fn seconds(self) -> f64 {
        match self {
            Self::S2 => 2.0,
            Self::Ms200 => 0.2,
            Self::Ms20 => 0.02,
        }
    }
}

/// A row of Table I.
pub(super) type Row = (Holds, f64, f64, f64, f64, f64, f64);

/// Table I: T, upper bound, NewReno and proxy in packets/s, utilisation by NewReno and by the proxy in
/// percent, and the least that the proxy is to reach.
pub(super) const PAPER: [Row; 3] = [
    (Holds::S2, 119.2, 69.5, 118.8, 58.26, 99.70, 99.0),
    (Holds::Ms200, 124.0, 60.0, 115.1, 48.32, 92.82, 92.0),
    (Holds::Ms20, 123.82, 18.6, 115.5, 15.04, 93.29, 93.0),
];
const PROXY: Scheme = Scheme::PerStep;
const OLD: Scheme = Scheme::Old;

fn run(context: &mut Context<'_>) -> Result<Outcome, ReproduceError> {
    let scenario = context.scenario("wa/table-1.toml")?;
    let runs = context.run(&scenario)?;
    let share = |t: Holds, scheme: Scheme| mean(percent(&runs, (t, scheme)));
    let mut checks = Vec::new();
    for (t, .., least) in PAPER {
        checks.push(Check::at_least(
            format!("{}: link used by the proxy, percent", t.label()),
            share(t, PROXY),
            least,
        ));
        let drops = |scheme: Scheme| mean(dropped(&runs, (t, scheme)));
        checks.push(Check::at_most(
            format!("{}: drops, proxy less NewReno", t.label()),
            drops(PROXY) - drops(Scheme::Today).min(drops(OLD)),
            -1.0,
        ));
        let queue = |scheme: Scheme| mean(runs.queue_p95((t, scheme)));
        checks.push(Check::at_least(
            format!("{}: link used by adaptive ÷ the paper's proxy", t.label()),
            share(t, Scheme::Adaptive) / share(t, PROXY),
            0.985,
        ));
        checks.push(Check::at_most(
            format!("{}: queue p95, adaptive ÷ the paper's proxy", t.label()),
            queue(Scheme::Adaptive) / queue(PROXY),
            1.0,
        ));
    }
    Ok(Outcome {
        facts: Facts::of([
            ("proxy_2s", share(Holds::S2, PROXY).into()),
            ("proxy_200ms", share(Holds::Ms200, PROXY).into()),
            ("proxy_20ms", share(Holds::Ms20, PROXY).into()),
            ("reno_2s", share(Holds::S2, OLD).into()),
            ("reno_200ms", share(Holds::Ms200, OLD).into()),
            ("reno_20ms", share(Holds::Ms20, OLD).into()),
        ]),
        tables: vec![paper_table(&runs), schemes(&runs)],
        figures: vec![figure(&runs)],
        checks,
        ..Outcome::default()
    })
}

fn paper_table(runs: &Runs<(Holds, Scheme)>) -> Table {
    let mut table = Table::new("Table I", "T")
        .column(Source::Paper, "upper bound", "packets/s", 1)
        .column(Source::Ours, "upper bound", "packets/s", 1)
        .column(Source::Paper, "NewReno", "packets/s", 1)
        .column(Source::Ours, "NewReno", "packets/s", 1)
        .column(Source::Paper, "proxy", "packets/s", 1)
        .column(Source::Ours, "proxy", "packets/s", 1)
        .column(Source::Paper, "NewReno", "% of the link", 1)
        .column(Source::Ours, "NewReno", "% of the link", 1)
        .column(Source::Paper, "proxy", "% of the link", 1)
        .column(Source::Ours, "proxy", "% of the link", 1);
    for (t, bound, reno, proxy, reno_percent, proxy_percent, _) in PAPER {
        let [old, new] = [OLD, PROXY].map(|scheme| (t, scheme));
        table.row(
            t.time(),
            vec![
                bound.into(),
                upper_bound(runs, old).into(),
                reno.into(),
                packets_per_second(runs, old).into(),
                proxy.into(),
                packets_per_second(runs, new).into(),
                reno_percent.into(),
                percent(runs, old).into(),
                proxy_percent.into(),
                percent(runs, new).into(),
            ],
        );
    }
    table
}

fn schemes(runs: &Runs<(Holds, Scheme)>) -> Table {
    let mut table = Table::new(
        "All schemes: link used (%), packets dropped, queueing delay (ms, 95th percentile)",
        "scheme",
    );
    for (t, ..) in PAPER {
        table = table.column(Source::Ours, t.label(), "%", 1).column(Source::Ours, "dropped", "", 0).column(
            Source::Ours,
            "queue p95",
            "ms",
            0,
        );
    }
    for scheme in Scheme::all() {
        let values = PAPER.iter().flat_map(|(t, ..)| {
            let case = (*t, scheme);
            [percent(runs, case).into(), dropped(runs, case).into(), runs.queue_p95(case).into()]
        });
        table.row(scheme.label(), values.collect());
    }
    table
}

/// A column of the paper's table over T.
pub(super) fn printed(name: &str, value: fn(&Row) -> f64) -> Series {
    let points = PAPER.iter().rev().map(|row| Point::new(row.0.seconds(), value(row))).collect();
    Series::new(name, Source::Paper, Mark::Dotted, points)
}

fn figure(runs: &Runs<(Holds, Scheme)>) -> Figure {
    let ours = |scheme: Scheme, source| {
        let means = Holds::shortest_first().map(|t| (t.seconds(), percent(runs, (t, scheme))));
        Series::of(scheme.label(), source, Mark::Dotted, means)
    };
    Figure::new("link_used", Axis::log("T, seconds")).panel(
        Axis::linear("% of the link"),
        vec![
            printed("NewReno, paper", |row| row.4),
            printed("proxy, paper", |row| row.5),
            ours(OLD, Source::Ours),
            ours(PROXY, Source::Ours),
            ours(Scheme::Adaptive, Source::Adaptive),
        ],
    )
}
