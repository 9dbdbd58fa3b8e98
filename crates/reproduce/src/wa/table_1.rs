//! [WA] Table I: throughput and link utilisation for three speeds of change.

use super::{OLD, dropped, mean, packets_per_second, percent, upper_bound};
use crate::experiment::scenario_file;
use crate::{
    Axis, Check, Context, Experiment, Figure, InLab, Mark, Outcome, Paper, Point, ReproduceError, Runs,
    Series, Source, Table,
};

pub(crate) const EXPERIMENT: Experiment = Experiment {
    name: "wa-table-1",
    paper: Paper::Wa,
    part: "Table I",
    title: "A rate drawn anew every T",
    asked: "How much of a link whose rate is drawn anew every T does the proxy use, and how much NewReno?",
    found: "The proxy 93 to 99.7 %, NewReno 58 % down to 15 %, the less the faster the rate changes.",
    files: &[scenario_file!("wa/table-1.toml"), scenario_file!("wa/table-1-lab.toml")],
    seconds: 10,
    lab: InLab::Takes(142),
    run,
};

/// A row of Table I.
type Row = (&'static str, f64, f64, f64, f64, f64, f64);

/// Table I: T, upper bound, NewReno and proxy in packets/s, utilisation by NewReno and by the proxy in percent, and the
/// least that the proxy is to reach.
pub(super) const PAPER: [Row; 3] = [
    ("2 s", 119.2, 69.5, 118.8, 58.26, 99.70, 99.0),
    ("200 ms", 124.0, 60.0, 115.1, 48.32, 92.82, 92.0),
    ("20 ms", 123.82, 18.6, 115.5, 15.04, 93.29, 93.0),
];
const TODAY: &str = "NewReno of today";
const PROXY: &str = "proxy, (18) per step";
const SCHEMES: [&str; 6] = [OLD, TODAY, PROXY, "proxy, (18) in flight", "proxy, predictive", "adaptive"];

fn case(t: &str, scheme: &str) -> String {
    format!("T = {t}, {scheme}")
}

fn run(context: &mut Context<'_>) -> Result<Outcome, ReproduceError> {
    let scenario = context.scenario("wa/table-1.toml")?;
    let runs = context.run(&scenario)?;
    let share = |t: &str, scheme: &str| mean(percent(&runs, &case(t, scheme)));
    let mut checks = Vec::new();
    for (t, .., least) in PAPER {
        checks.push(Check::at_least(
            format!("T = {t}: link used by the proxy, percent"),
            share(t, PROXY),
            least,
        ));
        let drops = |scheme: &str| mean(dropped(&runs, &case(t, scheme)));
        checks.push(Check::at_most(
            format!("T = {t}: drops, proxy less NewReno"),
            drops(PROXY) - drops(TODAY).min(drops(OLD)),
            -1.0,
        ));
        let queue = |scheme: &str| mean(runs.queue_p95(&case(t, scheme)));
        checks.push(Check::at_least(
            format!("T = {t}: link used by adaptive ÷ the paper's proxy"),
            share(t, "adaptive") / share(t, PROXY),
            0.985,
        ));
        checks.push(Check::at_most(
            format!("T = {t}: queue p95, adaptive ÷ the paper's proxy"),
            queue("adaptive") / queue(PROXY),
            1.0,
        ));
    }
    Ok(Outcome {
        we_see: format!(
            "We see the proxy at {:.1}, {:.1} and {:.1} % without a drop; NewReno uses {:.1}, {:.1} and {:.1} % on this link, and does not collapse: `wa-table-1-collapse` shows what it takes.",
            share("2 s", PROXY), share("200 ms", PROXY), share("20 ms", PROXY),
            share("2 s", OLD), share("200 ms", OLD), share("20 ms", OLD)
        ),
        tables: vec![paper_table(&runs), schemes(&runs)],
        figures: vec![figure(&runs)],
        notes: vec![
            "Rates from 1 to 2 Mbit/s fit the paper's upper bounds, and its proxy; over such a link with tens of milliseconds of delay no NewReno collapses, \
             because 20 packets are more than what the path holds."
                .to_owned(),
            "`adaptive` gets no reports from the base station: it is told what acknowledgements tell. It is compared with the proxy, which is told everything.".to_owned(),
        ],
        checks,
    })
}

fn paper_table(runs: &Runs) -> Table {
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
        let [old, new] = [OLD, PROXY].map(|scheme| case(t, scheme));
        table.row(
            t,
            vec![
                bound.into(),
                upper_bound(runs, &old).into(),
                reno.into(),
                packets_per_second(runs, &old).into(),
                proxy.into(),
                packets_per_second(runs, &new).into(),
                reno_percent.into(),
                percent(runs, &old).into(),
                proxy_percent.into(),
                percent(runs, &new).into(),
            ],
        );
    }
    table
}

fn schemes(runs: &Runs) -> Table {
    let mut table = Table::new(
        "All schemes: link used (%), packets dropped, queueing delay (ms, 95th percentile)",
        "scheme",
    );
    for (t, ..) in PAPER {
        table = table
            .column(Source::Ours, &format!("T = {t}"), "%", 1)
            .column(Source::Ours, "dropped", "", 0)
            .column(Source::Ours, "queue p95", "ms", 0);
    }
    for scheme in SCHEMES {
        let values = PAPER.iter().flat_map(|(t, ..)| {
            let case = case(t, scheme);
            [percent(runs, &case).into(), dropped(runs, &case).into(), runs.queue_p95(&case).into()]
        });
        table.row(scheme, values.collect());
    }
    table
}

fn figure(runs: &Runs) -> Figure {
    let seconds = |t: &str| {
        if t == "2 s" {
            2.0
        } else if t == "200 ms" {
            0.2
        } else {
            0.02
        }
    };
    let ours = |scheme: &str, source| {
        let at = |(t, ..): &Row| Some(Point::of(seconds(t), percent(runs, &case(t, scheme))?));
        Series::new(scheme, source, Mark::Dotted, PAPER.iter().rev().filter_map(at).collect())
    };
    let paper = |name: &str, value: fn(&Row) -> f64| {
        let points = PAPER.iter().rev().map(|row| Point::new(seconds(row.0), value(row))).collect();
        Series::new(name, Source::Paper, Mark::Dotted, points)
    };
    Figure::new(
        "Link used, over how long a rate holds",
        "The paper's values dashed. With what the paper leaves open chosen plainly the proxy is where it was, and NewReno does not collapse.",
        Axis::log("T, seconds"),
    )
    .panel(
        Axis::linear("% of the link"),
        vec![
            paper("NewReno, paper", |row| row.4),
            paper("proxy, paper", |row| row.5),
            ours(OLD, Source::Ours),
            ours(PROXY, Source::Ours),
            ours("adaptive", Source::Adaptive),
        ],
    )
}
