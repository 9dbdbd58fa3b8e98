//! [WA] Table I, NewReno's column: what it takes to make NewReno collapse.

use super::table_1::{Holds, PAPER, printed};
use super::{mean, percent};
use crate::case_id::case_ids;
use crate::experiment::built_in;
use crate::{
    Axis, CaseId, Check, Context, Experiment, Facts, Figure, InLab, Mark, Outcome, Paper, ReproduceError,
    Runs, Series, Source, Table,
};

pub(crate) const EXPERIMENT: Experiment = Experiment {
    name: "wa-table-1-collapse",
    paper: Paper::Wa,
    part: "Table I",
    prose: built_in!("wa/table-1-collapse.md"),
    files: &[built_in!("wa/table-1-collapse.toml")],
    seconds: 15,
    lab: InLab::Lacks,
    run,
};

case_ids! {
    /// Link and hosts: the other half of the names in `wa/table-1-collapse.toml`.
    enum What {
        Even10 = "even 1 to 2 Mbit/s, 10 ms",
        Even100 = "even 1 to 2 Mbit/s, 100 ms",
        Even200 = "even 1 to 2 Mbit/s, 200 ms",
        Even250Today = "even 1 to 2 Mbit/s, 250 ms, today's hosts",
        Fades10 = "fades, 10 ms",
        Fades200 = "fades, 200 ms",
        Fades200Today = "fades, 200 ms, today's hosts",
        Fades200Held = "fades, 200 ms, rates held",
        OnOff100 = "on and off, 100 ms",
        OnOff100Held = "on and off, 100 ms, rates held",
        FadesProxy = "fades, 200 ms, proxy",
        OnOffProxy = "on and off, 100 ms, proxy",
        OnOffHeldProxy = "on and off, 100 ms, rates held, proxy",
    }
}

impl What {
    const fn is_proxy(self) -> bool {
        matches!(self, Self::FadesProxy | Self::OnOffProxy | Self::OnOffHeldProxy)
    }
}

type Collapse = Runs<(Holds, What)>;

fn run(context: &mut Context<'_>) -> Result<Outcome, ReproduceError> {
    let scenario = context.scenario("wa/table-1-collapse.toml")?;
    let runs: Collapse = context.run(&scenario)?;
    let mut table = Table::new("Link used, percent", "link and hosts");
    for (t, ..) in PAPER {
        table = table.column(Source::Paper, t.label(), "%", 1).column(Source::Ours, t.label(), "%", 1);
    }
    for what in What::all() {
        let values = PAPER.iter().flat_map(|row| {
            let paper = if what.is_proxy() { row.5 } else { row.4 };
            [paper.into(), percent(&runs, (row.0, what)).into()]
        });
        table.row(what.label(), values.collect());
    }
    let s = |t: Holds, what: What| mean(percent(&runs, (t, what)));
    Ok(Outcome {
        facts: Facts::of([
            ("fades_2s", s(Holds::S2, What::Fades200).into()),
            ("fades_200ms", s(Holds::Ms200, What::Fades200).into()),
            ("held_20ms", s(Holds::Ms20, What::OnOff100Held).into()),
            ("held_proxy", s(Holds::Ms20, What::OnOffHeldProxy).into()),
        ]),
        tables: vec![table],
        figures: vec![figure(&runs)],
        checks: vec![
            Check::at_most(
                "T = 2 s, fades over 200 ms: NewReno, percent (paper 58.3)",
                s(Holds::S2, What::Fades200),
                61.0,
            ),
            Check::at_most(
                "T = 200 ms, fades over 200 ms: NewReno, percent (paper 48.3)",
                s(Holds::Ms200, What::Fades200),
                51.0,
            ),
            Check::at_most(
                "T = 20 ms, rates held: NewReno, percent (paper 15.0)",
                s(Holds::Ms20, What::OnOff100Held),
                18.0,
            ),
            Check::at_least("T = 2 s, fades: proxy, percent", s(Holds::S2, What::FadesProxy), 98.0),
            Check::at_least("T = 200 ms, fades: proxy, percent", s(Holds::Ms200, What::FadesProxy), 92.0),
            Check::at_least("T = 20 ms, fades: proxy, percent", s(Holds::Ms20, What::FadesProxy), 93.0),
        ],
        ..Outcome::default()
    })
}

fn figure(runs: &Collapse) -> Figure {
    let ours = |what: What| {
        let means = Holds::shortest_first().map(|t| (t.seconds(), percent(runs, (t, what))));
        Series::of(what.label(), Source::Ours, Mark::Dotted, means)
    };
    Figure::new("link_used", Axis::log("T, seconds")).panel(
        Axis::linear("% of the link"),
        vec![
            printed("NewReno, paper", |row| row.4),
            ours(What::Even10),
            ours(What::Even200),
            ours(What::Fades200),
            ours(What::OnOff100Held),
        ],
    )
}
