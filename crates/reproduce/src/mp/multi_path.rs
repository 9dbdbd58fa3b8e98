//! [MP] what needs several paths: registered, so that nobody looks for it in vain.

use crate::experiment::built_in;
use crate::{Context, Experiment, InLab, Outcome, Paper, ReproduceError, Source, Table};

pub(crate) const EXPERIMENT: Experiment = Experiment {
    name: "mp-multi-path",
    paper: Paper::Mp,
    part: "Figs 3, 4, 7–12",
    prose: built_in!("mp/multi-path.md"),
    files: &[built_in!("mp/table-2.toml")],
    seconds: 0,
    lab: InLab::Lacks,
    run,
};

/// §IV: Mbit/s of Multipath TCP and of the best single path.
const PAPER: [(&str, f64, f64); 6] = [
    ("static, Amherst (8 flows)", 19.59, 18.32),
    ("static, Boston (8 flows)", 16.45, 15.63),
    ("4G zone while driving", 10.48, 7.79),
    ("3G zone while driving", 5.30, 3.47),
    ("campus, intermittent Wi-Fi", 8.96, 7.79),
    ("Boston driving, intermittent Wi-Fi", 16.82, 14.74),
];

fn run(_: &mut Context<'_>) -> Result<Outcome, ReproduceError> {
    let mut table = Table::new("What the paper measured", "scenario")
        .column(Source::Paper, "multi-path", "Mbit/s", 2)
        .column(Source::Paper, "best single path", "Mbit/s", 2)
        .column(Source::Paper, "ratio", "", 2)
        .column(Source::Ours, "multi-path", "", 0);
    for (name, multi, single) in PAPER {
        table.row(name, vec![multi.into(), single.into(), (multi / single).into(), "not built".into()]);
    }
    Ok(Outcome { tables: vec![table], ..Outcome::default() })
}
