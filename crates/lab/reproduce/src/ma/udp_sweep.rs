//! [MA] Tables 1 and 4: round-trip time and loss of UDP at set rates, over 3G and over LTE.

use figures::stats::Moments;

use super::mean;
use crate::case_id::case_ids;
use crate::experiment::built_in;
use crate::runs::most;
use crate::{
    Axis, CaseId, Check, Context, Experiment, Facts, Figure, InLab, Mark, Outcome, Paper, Point,
    ReproduceError, Series, Source, Table,
};

pub(crate) const TABLE_1: Experiment = Experiment {
    name: "ma-table-1",
    paper: Paper::Ma,
    part: "Table 1",
    prose: built_in!("ma/table-1.md"),
    files: &[built_in!("ma/table-1.toml"), built_in!("ma/table-1-lab.toml")],
    seconds: 6,
    lab: InLab::Takes(125),
    run: table_1,
};

pub(crate) const TABLE_4: Experiment = Experiment {
    name: "ma-table-4",
    paper: Paper::Ma,
    part: "Table 4",
    prose: built_in!("ma/table-4.md"),
    files: &[built_in!("ma/table-4.toml"), built_in!("ma/table-4-lab.toml")],
    seconds: 40,
    lab: InLab::Takes(95),
    run: table_4,
};

case_ids! {
    /// The cases of `ma/table-1.toml` and `ma/table-4.toml`.
    enum Flow { Udp = "UDP", Adaptive = "adaptive" }
}

/// Their grids: the rate in this row of Table 1 or 4.
#[derive(Clone, Copy)]
struct Rate<const TABLE: u8>(&'static Printed);

impl<const TABLE: u8> Rate<TABLE> {
    const PAPER: &'static [Printed] = if TABLE == 1 { &PAPER_1 } else { &PAPER_4 };
}

impl<const TABLE: u8> CaseId for Rate<TABLE> {
    fn all() -> Vec<Self> {
        Self::PAPER.iter().map(Self).collect()
    }
    fn name(self) -> String {
        self.0.1.to_owned()
    }
}

/// A row of the paper: rate in Mbit/s, as the scenario writes it, round-trip time in ms, loss in percent.
type Printed = (f64, &'static str, f64, f64);

/// [MA] Table 1.
const PAPER_1: [Printed; 8] = [
    (0.8, "0.8 Mbit/s", 62.0, 0.02),
    (1.6, "1.6 Mbit/s", 69.0, 0.01),
    (2.4, "2.4 Mbit/s", 68.0, 0.32),
    (3.2, "3.2 Mbit/s", 84.0, 0.14),
    (4.0, "4.0 Mbit/s", 287.0, 1.9),
    (4.8, "4.8 Mbit/s", 792.0, 27.1),
    (5.6, "5.6 Mbit/s", 753.0, 26.5),
    (6.4, "6.4 Mbit/s", 679.0, 35.4),
];

/// [MA] Table 4.
const PAPER_4: [Printed; 8] = [
    (1.6, "1.6 Mbit/s", 25.0, 0.01),
    (4.0, "4 Mbit/s", 34.0, 0.01),
    (8.0, "8 Mbit/s", 38.0, 0.8),
    (16.0, "16 Mbit/s", 51.0, 3.7),
    (28.0, "28 Mbit/s", 66.0, 5.5),
    (36.0, "36 Mbit/s", 171.0, 10.7),
    (40.0, "40 Mbit/s", 964.0, 11.8),
    (80.0, "80 Mbit/s", 1466.0, 34.8),
];

fn table_1(context: &mut Context<'_>) -> Result<Outcome, ReproduceError> {
    Ok(Sweep::run::<1>(context, "ma/table-1.toml")?.outcome((3.2, 4.0)))
}

fn table_4(context: &mut Context<'_>) -> Result<Outcome, ReproduceError> {
    Ok(Sweep::run::<4>(context, "ma/table-4.toml")?.outcome((28.0, 40.0)))
}

/// The round trip that the paper prints for a rate, ms; the rates of both tables differ in how they are
/// written.
#[cfg(test)]
pub(super) fn paper_rtt(table: &str, rate: &str) -> Option<f64> {
    let paper = if table == "ma-table-1" { &PAPER_1 } else { &PAPER_4 };
    paper.iter().find(|row| row.1 == rate).map(|row| row.2)
}

/// Round-trip times and losses found, beside the paper's.
struct Sweep {
    paper: &'static [Printed],
    rtt: Vec<Option<Moments>>,
    loss: Vec<Option<Moments>>,
    delivered: Vec<Option<Moments>>,
    adaptive: Vec<Option<Moments>>,
    adaptive_queue: Vec<Option<Moments>>,
}

impl Sweep {
    fn run<const TABLE: u8>(context: &mut Context<'_>, file: &str) -> Result<Self, ReproduceError> {
        let scenario = context.scenario(file)?;
        let runs = context.run::<(Flow, Rate<TABLE>)>(&scenario)?;
        let of = |value: &dyn Fn(Rate<TABLE>) -> Option<Moments>| -> Vec<Option<Moments>> {
            Rate::all().into_iter().map(value).collect()
        };
        let udp = |rate| (Flow::Udp, rate);
        let adaptive = |rate| (Flow::Adaptive, rate);
        Ok(Self {
            paper: Rate::<TABLE>::PAPER,
            rtt: of(&|rate| {
                runs.moments(udp(rate), |f| {
                    f.udp.as_ref().and_then(|udp| udp.rtt_ms).map_or(f64::NAN, |rtt| rtt.mean)
                })
            }),
            loss: of(&|rate| {
                runs.moments(udp(rate), |f| f.udp.as_ref().map_or(f64::NAN, |udp| udp.loss * 100.0))
            }),
            delivered: of(&|rate| runs.goodput(udp(rate))),
            adaptive: of(&|rate| runs.goodput(adaptive(rate))),
            adaptive_queue: of(&|rate| runs.queue_p95(adaptive(rate))),
        })
    }

    fn at(&self, values: &[Option<Moments>], rate: f64) -> f64 {
        let row = self.paper.iter().position(|row| (row.0 - rate).abs() < 1e-9);
        row.and_then(|row| values.get(row)).map_or(f64::NAN, |value| mean(*value))
    }

    /// `knee` has the last rate at which the paper's link is not full, and the first at which it is.
    fn outcome(&self, (below, full): (f64, f64)) -> Outcome {
        let last = self.paper.last().map_or(0.0, |row| row.0);
        let (rtt_below, rtt_last) = (self.at(&self.rtt, below), self.at(&self.rtt, last));
        let ratios = self.paper.iter().zip(&self.rtt).map(|(row, rtt)| mean(*rtt) / row.2);
        let worst = most(ratios.map(|ratio| ratio.max(1.0 / ratio)));
        Outcome {
            facts: Facts::of([
                ("below", rtt_below.into()),
                ("full", self.at(&self.rtt, full).into()),
                ("last", rtt_last.into()),
                ("lost", self.at(&self.loss, last).into()),
            ]),
            tables: vec![self.table()],
            figures: vec![self.figure()],
            checks: vec![
                Check::at_most("largest factor between our round trip and the paper's", worst, 2.0),
                Check::at_least("round trip of the full link over the one before", rtt_last / rtt_below, 5.0),
                Check::at_least(
                    "adaptive over UDP, delivered at the highest rate",
                    self.at(&self.adaptive, last) / self.at(&self.delivered, last),
                    0.95,
                ),
            ],
            ..Outcome::default()
        }
    }

    fn table(&self) -> Table {
        let mut table = Table::new("Average round-trip time and loss", "sent, Mbit/s")
            .column(Source::Paper, "RTT", "ms", 0)
            .column(Source::Ours, "RTT", "ms", 0)
            .column(Source::Paper, "loss", "%", 2)
            .column(Source::Ours, "loss", "%", 2)
            .column(Source::Ours, "delivered", "Mbit/s", 2)
            .column(Source::Adaptive, "delivered", "Mbit/s", 2)
            .column(Source::Adaptive, "queue p95", "ms", 0);
        for (i, row) in self.paper.iter().enumerate() {
            let of = |values: &[Option<Moments>]| values.get(i).copied().flatten().map(|m| m.mean);
            let values = vec![
                row.2.into(),
                of(&self.rtt).into(),
                row.3.into(),
                of(&self.loss).into(),
                of(&self.delivered).into(),
                of(&self.adaptive).into(),
                of(&self.adaptive_queue).into(),
            ];
            table.row(format!("{}", row.0), values);
        }
        table
    }

    fn figure(&self) -> Figure {
        let printed =
            |value: fn(&Printed) -> f64| self.paper.iter().map(|r| Point::new(r.0, value(r))).collect();
        let found = |values: &[Option<Moments>]| {
            let means = self.paper.iter().zip(values).map(|(row, value)| (row.0, *value));
            Series::of("ours", Source::Ours, Mark::Dotted, means)
        };
        let both = |paper, ours| vec![Series::new("paper", Source::Paper, Mark::Dotted, paper), ours];
        Figure::new("udp", Axis::linear("sent, Mbit/s"))
            .panel(Axis::log("RTT, ms"), both(printed(|row| row.2), found(&self.rtt)))
            .panel(Axis::linear("loss, %"), both(printed(|row| row.3), found(&self.loss)))
    }
}
