//! [MP] Tables II and IV: bandwidth, RTT, loss and handshake of one path, standing still and on the move.

use figures::stats::Moments;

use super::{mean, over_runs};
use crate::experiment::built_in;
use crate::runs::most;
use crate::{
    Axis, CaseId, Check, Context, Experiment, Facts, Figure, InLab, Looking, Outcome, Paper, ReproduceError,
    Runs, Series, Source, Table, Value,
};

pub(crate) const TABLE_2: Experiment = Experiment {
    name: "mp-table-2",
    paper: Paper::Mp,
    part: "Table II",
    prose: built_in!("mp/table-2.md"),
    files: &[built_in!("mp/table-2.toml")],
    seconds: 40,
    lab: InLab::Lacks,
    run: |context| tables::<2>(context, "mp/table-2.toml", "Table II"),
};

pub(crate) const TABLE_4: Experiment = Experiment {
    name: "mp-table-4",
    paper: Paper::Mp,
    part: "Table IV",
    prose: built_in!("mp/table-4.md"),
    files: &[built_in!("mp/table-4.toml")],
    seconds: 30,
    lab: InLab::Lacks,
    run: |context| tables::<4>(context, "mp/table-4.toml", "Table IV"),
};

/// A case of `mp/table-2.toml` or `mp/table-4.toml`: a row of Table II or IV.
#[derive(Clone, Copy)]
struct Row<const TABLE: u8>(&'static Network);

impl<const TABLE: u8> CaseId for Row<TABLE> {
    fn all() -> Vec<Self> {
        let paper: &'static [Network] = if TABLE == 2 { &PAPER_2 } else { &PAPER_4 };
        paper.iter().map(Self).collect()
    }
    fn name(self) -> String {
        self.0.0.to_owned()
    }
}

/// A row of the paper: mean and standard deviation of bandwidth (Mbit/s), RTT (ms), loss (%) and 3WHS
/// RTT (ms).
pub(super) type Network = (&'static str, [(f64, f64); 4]);

/// Table II.
pub(super) const PAPER_2: [Network; 10] = [
    ("Verizon 4G, Boston", [(7.15, 2.93), (141.62, 91.83), (0.20, 0.08), (67.72, 8.66)]),
    ("AT&T 4G, Boston", [(10.72, 1.10), (65.84, 14.94), (0.03, 0.03), (38.80, 0.42)]),
    ("AT&T 4G, Boston, buffer × 8", [(15.63, 1.04), (124.64, 50.51), (0.05, 0.03), (40.57, 2.72)]),
    ("Sprint 4G, Boston", [(2.72, 0.45), (166.22, 55.52), (0.26, 0.07), (158.16, 102.75)]),
    ("RCN Wi-Fi", [(10.72, 0.15), (46.97, 22.80), (0.20, 0.01), (13.33, 1.66)]),
    ("Verizon 4G, Amherst", [(12.01, 2.78), (77.31, 21.43), (0.13, 0.09), (76.39, 13.43)]),
    ("AT&T 3.5G, Amherst", [(6.49, 1.13), (115.32, 31.06), (0.14, 0.05), (170.18, 115.34)]),
    ("Sprint 3G, Amherst", [(1.19, 0.24), (348.02, 151.28), (0.27, 0.13), (107.03, 39.35)]),
    ("UMass Wi-Fi", [(18.32, 0.87), (39.92, 16.82), (0.25, 0.08), (2.75, 1.10)]),
    ("Verizon 3G, Sunderland", [(1.85, 0.30), (362.37, 135.28), (0.10, 0.32), (153.27, 217.08)]),
];

/// Table IV.
const PAPER_4: [Network; 7] = [
    ("Verizon 4G, Boston", [(9.43, 0.90), (107.80, 63.07), (0.30, 0.23), (74.95, 13.07)]),
    ("AT&T 4G, Boston", [(14.74, 1.32), (67.06, 26.10), (0.08, 0.06), (41.12, 3.44)]),
    ("Sprint 4G, Boston", [(4.81, 0.45), (154.43, 92.37), (0.35, 0.22), (154.93, 83.10)]),
    ("Verizon 4G, Amherst", [(7.79, 1.79), (104.90, 49.57), (0.13, 0.04), (69.58, 9.30)]),
    ("AT&T 3.5G, Western MA", [(3.47, 1.13), (158.46, 98.29), (0.11, 0.03), (244.31, 66.87)]),
    ("Verizon 3G, Sunderland", [(0.85, 0.12), (695.10, 349.90), (0.21, 0.03), (189.10, 174.35)]),
    ("Sprint 3G, Amherst", [(0.31, 0.07), (673.73, 333.07), (0.66, 0.27), (510.23, 79.58)]),
];

fn tables<const TABLE: u8>(
    context: &mut Context<'_>,
    file: &str,
    part: &str,
) -> Result<Outcome, ReproduceError> {
    let paper = Row::<TABLE>::all();
    let scenario = context.scenario(file)?;
    let runs = context.watch::<Row<TABLE>>(&scenario, Looking { flows: true, ..Looking::default() })?;
    let adaptive = context.run_adaptive(&scenario)?;
    let worst = |measure: &dyn Fn(Row<TABLE>) -> f64, column: usize| {
        most(paper.iter().map(|row| (measure(*row) / row.0.1[column].0 - 1.0).abs()))
    };
    let bandwidth = |row: Row<TABLE>| mean(over_runs(&runs, row, |m| m.throughput_mbps()));
    let rtt = |row: Row<TABLE>| mean(over_runs(&runs, row, |m| m.rtt_ms()));
    let handshake = |row: Row<TABLE>| mean(over_runs(&runs, row, |m| m.handshake_ms()));
    let loss = |row: Row<TABLE>| mean(over_runs(&runs, row, |m| m.loss_percent()));
    // One packet of a run stands for none, so that the factor is finite.
    let least_percent = 100.0 / 70_000.0;
    let factor = |row: Row<TABLE>| (loss(row).max(least_percent) / row.0.1[2].0).ln().abs().exp();
    let in_factor = most(paper.iter().map(|row| factor(*row)));
    let least = adaptive.least_goodput_over(&runs);
    let queue = |runs: &Runs<Row<TABLE>>, row| mean(runs.queue_p95(row));
    let shorter = paper.iter().filter(|row| queue(&adaptive, **row) <= queue(&runs, **row)).count();
    let (b, r) = (worst(&bandwidth, 0), worst(&rtt, 1));
    Ok(Outcome {
        facts: Facts::of([
            ("bandwidth_percent", (b * 100.0).into()),
            ("rtt_percent", (r * 100.0).into()),
            ("least", least.into()),
            ("shorter", shorter.into()),
            ("links", paper.len().into()),
        ]),
        tables: vec![table(part, &runs), other(&runs, &adaptive)],
        figures: vec![figure(&runs, &adaptive)],
        checks: vec![
            Check::at_most("farthest bandwidth from the paper's, share", b, 0.1),
            Check::at_most("farthest mean RTT from the paper's, share", r, 0.15),
            Check::at_most("farthest loss from the paper's, factor", in_factor, 2.0),
            Check::at_most("farthest handshake from the paper's, share", worst(&handshake, 3), 0.15),
            Check::at_least("least goodput of adaptive ÷ NewReno", least, 0.97),
            Check::at_least(
                "links with a shorter queue p95 under adaptive, share",
                shorter as f64 / paper.len() as f64,
                1.0,
            ),
        ],
        ..Outcome::default()
    })
}

fn table<const TABLE: u8>(part: &str, runs: &Runs<Row<TABLE>>) -> Table {
    let mut table = Table::new(part, "network");
    for (name, unit, digits) in
        [("bandwidth", "Mbit/s", 2), ("RTT", "ms", 1), ("loss", "%", 2), ("3WHS RTT", "ms", 1)]
    {
        table = table.column(Source::Paper, name, unit, digits).column(Source::Ours, name, unit, digits);
    }
    for row in Row::all() {
        let (name, values) = row.0;
        let ours = [
            over_runs(runs, row, |m| m.throughput_mbps()),
            over_runs(runs, row, |m| m.rtt_ms()),
            over_runs(runs, row, |m| m.loss_percent()),
            over_runs(runs, row, |m| m.handshake_ms()),
        ];
        let pairs = values.iter().zip(ours).flat_map(|((mean, deviation), ours)| {
            [Value { mean: Some(*mean), deviation: Some(*deviation), ..Value::default() }, ours.into()]
        });
        table.row(*name, pairs.collect());
    }
    table
}

fn other<const TABLE: u8>(runs: &Runs<Row<TABLE>>, adaptive: &Runs<Row<TABLE>>) -> Table {
    let mut table = Table::new("RTT within a run, and the accelerator on the same links", "network")
        .column(Source::Paper, "deviation of RTT", "ms", 1)
        .column(Source::Ours, "deviation of RTT", "ms", 1)
        .column(Source::Ours, "largest RTT", "ms", 0)
        .column(Source::Ours, "queue p95", "ms", 0)
        .column(Source::Adaptive, "queue p95", "ms", 0)
        .column(Source::Ours, "goodput", "Mbit/s", 2)
        .column(Source::Adaptive, "goodput", "Mbit/s", 2);
    for row in Row::all() {
        let (name, values) = row.0;
        let queue = |runs: &Runs<Row<TABLE>>| runs.queue_p95(row);
        table.row(
            *name,
            vec![
                values[1].1.into(),
                over_runs(runs, row, |m| m.rtt_deviation_ms()).into(),
                over_runs(runs, row, |m| Some(m.data.rtt.karn?.max_ms)).into(),
                queue(runs).into(),
                queue(adaptive).into(),
                runs.goodput(row).into(),
                adaptive.goodput(row).into(),
            ],
        );
    }
    table
}

fn figure<const TABLE: u8>(runs: &Runs<Row<TABLE>>, adaptive: &Runs<Row<TABLE>>) -> Figure {
    let paper = Row::<TABLE>::all();
    let series = |name: &str, source, value: &dyn Fn(Row<TABLE>) -> Option<Moments>| {
        Series::at_places(name, source, Row::all().into_iter().map(value))
    };
    // Printed deviations are drawn like those of our runs.
    let printed = |(mean, deviation): (f64, f64)| Some(Moments::told(mean, deviation));
    Figure::new("bandwidth", Axis::named("network", paper.iter().map(|row| row.0.0)))
        .panel(
            Axis::log("Mbit/s"),
            vec![
                series("paper", Source::Paper, &|row| printed(row.0.1[0])),
                series("ours", Source::Ours, &|row| over_runs(runs, row, |m| m.throughput_mbps())),
                series("adaptive", Source::Adaptive, &|row| adaptive.goodput(row)),
            ],
        )
        .panel(
            Axis::log("mean RTT, ms"),
            vec![
                series("paper", Source::Paper, &|row| printed(row.0.1[1])),
                series("ours", Source::Ours, &|row| over_runs(runs, row, |m| m.rtt_ms())),
                series("adaptive", Source::Adaptive, &|row| {
                    let v = row.0.1;
                    let base = v[3].0.min(0.6 * v[1].0);
                    adaptive.moments(row, |f| base + f.radio.queue_delay_ms.mean)
                }),
            ],
        )
}
