//! [WA] Table I, NewReno's column: what it takes to make NewReno collapse.

use super::table_1::PAPER;
use super::{mean, percent};
use crate::experiment::scenario_file;
use crate::{
    Axis, Check, Context, Experiment, Figure, InLab, Mark, Outcome, Paper, Point, ReproduceError, Runs,
    Series, Source, Table,
};

pub(crate) const EXPERIMENT: Experiment = Experiment {
    name: "wa-table-1-collapse",
    paper: Paper::Wa,
    part: "Table I",
    title: "What makes NewReno collapse",
    asked: "Why does NewReno use 58, 48 and 15 % of the link in Table I?",
    found: "The paper says: the window does not catch up with the bandwidth; it does not say over which delays, nor how the rates are distributed.",
    files: &[scenario_file!("wa/table-1-collapse.toml")],
    seconds: 15,
    lab: InLab::Lacks("39 cases of 150 s, three times each, take five hours where time is real"),
    run,
};

const RENO: [&str; 10] = [
    "even 1 to 2 Mbit/s, 10 ms",
    "even 1 to 2 Mbit/s, 100 ms",
    "even 1 to 2 Mbit/s, 200 ms",
    "even 1 to 2 Mbit/s, 250 ms, today's hosts",
    "fades, 10 ms",
    "fades, 200 ms",
    "fades, 200 ms, today's hosts",
    "fades, 200 ms, rates held",
    "on and off, 100 ms",
    "on and off, 100 ms, rates held",
];
const PROXY: [&str; 3] =
    ["fades, 200 ms, proxy", "on and off, 100 ms, proxy", "on and off, 100 ms, rates held, proxy"];

fn share(runs: &Runs, t: &str, what: &str) -> f64 {
    mean(percent(runs, &format!("T = {t}, {what}")))
}

fn run(context: &mut Context<'_>) -> Result<Outcome, ReproduceError> {
    let scenario = context.scenario("wa/table-1-collapse.toml")?;
    let runs = context.run(&scenario)?;
    let mut table = Table::new("Link used, percent", "link and hosts");
    for (t, ..) in PAPER {
        let heading = format!("T = {t}");
        table = table.column(Source::Paper, &heading, "%", 1).column(Source::Ours, &heading, "%", 1);
    }
    for what in RENO.into_iter().chain(PROXY) {
        let values = PAPER.iter().flat_map(|row| {
            let paper = if PROXY.contains(&what) { row.5 } else { row.4 };
            [paper.into(), percent(&runs, &format!("T = {}, {what}", row.0)).into()]
        });
        table.row(what, values.collect());
    }
    let s = |t: &str, what: &str| share(&runs, t, what);
    Ok(Outcome {
        we_see: format!(
            "We see the first two columns with a path of 200 ms and rates that fade ({:.0} and {:.0} %), and the third only where a packet keeps the rate it began with, as in ns-2 ({:.0} %): then the link is held up by packets that began in a fade, and the proxy cannot fill it either ({:.0} %).",
            s("2 s", "fades, 200 ms"),
            s("200 ms", "fades, 200 ms"),
            s("20 ms", "on and off, 100 ms, rates held"),
            s("20 ms", PROXY[2])
        ),
        tables: vec![table],
        figures: vec![figure(&runs)],
        notes: vec![
            "Old hosts are not the reason alone: without SACK and timestamps NewReno loses 10 to 20 points over long paths, and nothing over short ones.".to_owned(),
            "What a saw-tooth over a buffer smaller than the path leaves unused grows with the delay; fades add drops, because the queue of 20 packets fills in \
             100 ms. Both together give the paper's 58 and 48 %."
                .to_owned(),
            "Rates that change every 20 ms are averaged by the queue, so a true link is used better than at 200 ms, not worse. 15 % needs another cause. A link of \
             ns-2 computes a packet's transmission time when it begins: at 38.4 kbit/s 0.3 s, though the rate lasts 20 ms. With such a link a quarter of bad draws takes nearly \
             all the time, whoever sends; the paper's 93 % of its proxy must then have been reached over another model of the link, or been counted otherwise. We cannot \
             tell which."
                .to_owned(),
        ],
        checks: vec![
            Check::at_most("T = 2 s, fades over 200 ms: NewReno, percent (paper 58.3)", s("2 s", "fades, 200 ms"), 61.0),
            Check::at_most("T = 200 ms, fades over 200 ms: NewReno, percent (paper 48.3)", s("200 ms", "fades, 200 ms"), 51.0),
            Check::at_most("T = 20 ms, rates held: NewReno, percent (paper 15.0)", s("20 ms", "on and off, 100 ms, rates held"), 18.0),
            Check::at_least("T = 2 s, fades: proxy, percent", s("2 s", PROXY[0]), 98.0),
            Check::at_least("T = 200 ms, fades: proxy, percent", s("200 ms", PROXY[0]), 92.0),
            Check::at_least("T = 20 ms, fades: proxy, percent", s("20 ms", PROXY[0]), 93.0),
        ],
    })
}

fn figure(runs: &Runs) -> Figure {
    let seconds = [("20 ms", 0.02), ("200 ms", 0.2), ("2 s", 2.0)];
    let ours = |what: &str| {
        let at = |(t, x): (&str, f64)| Some(Point::of(x, percent(runs, &format!("T = {t}, {what}"))?));
        Series::new(what, Source::Ours, Mark::Dotted, seconds.into_iter().filter_map(at).collect())
    };
    let paper = PAPER.iter().rev().zip(seconds).map(|(row, (_, x))| Point::new(x, row.4)).collect();
    Figure::new(
        "NewReno's share of the link, over how long a rate holds",
        "From top to bottom: short path; long path; long path with fades; rates held until a packet is through.",
        Axis::log("T, seconds"),
    )
    .panel(
        Axis::linear("% of the link"),
        vec![
            Series::new("NewReno, paper", Source::Paper, Mark::Dotted, paper),
            ours("even 1 to 2 Mbit/s, 10 ms"),
            ours("even 1 to 2 Mbit/s, 200 ms"),
            ours("fades, 200 ms"),
            ours("on and off, 100 ms, rates held"),
        ],
    )
}
