//! [DR] Fig 20: what arrives of what a shaped sender sends.

use figures::stats::Moments;

use super::{mean, rtt_at_server, rtt_by_queue};
use crate::experiment::built_in;
use crate::runs::least;
use crate::{
    Axis, CaseId, Check, Context, Experiment, Facts, Figure, InLab, Looking, Mark, Outcome, Paper, Point,
    ReproduceError, Runs, Series, Source, Table, Value,
};

pub(crate) const EXPERIMENT: Experiment = Experiment {
    name: "dr-figure-20",
    paper: Paper::Dr,
    part: "Fig 20",
    prose: built_in!("dr/figure-20.md"),
    files: &[built_in!("dr/figure-20.toml"), built_in!("dr/figure-20-lab.toml")],
    seconds: 8,
    lab: InLab::Takes(90),
    run,
};

/// Fig 20: kbit/s sent and received.
const PAPER: [(u32, f64); 10] = [
    (8000, 5000.0),
    (6000, 4000.0),
    (4000, 3000.0),
    (2000, 2000.0),
    (1000, 1000.0),
    (800, 500.0),
    (600, 400.0),
    (400, 300.0),
    (200, 200.0),
    (100, 100.0),
];
/// Both ways, ms.
const PROPAGATION_MS: f64 = 60.0;

/// A case of `dr/figure-20.toml`.
#[derive(Clone, Copy)]
pub(super) enum Sender {
    /// Shaped to this rate, kbit/s.
    Shaped(u32),
    Unshaped,
    /// Not shaped, behind the accelerator.
    Adaptive,
}

impl CaseId for Sender {
    fn all() -> Vec<Self> {
        let shaped = PAPER.iter().map(|(kbps, _)| Self::Shaped(*kbps));
        shaped.chain([Self::Unshaped, Self::Adaptive]).collect()
    }
    fn name(self) -> String {
        match self {
            Self::Shaped(kbps) => format!("{kbps} kbit/s"),
            Self::Unshaped => "unshaped".to_owned(),
            Self::Adaptive => "unshaped, adaptive".to_owned(),
        }
    }
}

fn run(context: &mut Context<'_>) -> Result<Outcome, ReproduceError> {
    let scenario = context.scenario("dr/figure-20.toml")?;
    let runs = context.watch::<Sender>(&scenario, Looking { flows: true, ..Looking::default() })?;
    let received = |case: Sender| runs.moments(case, |f| f.transfer.goodput_mbps * 1e3);
    let mut table = Table::new("Shaped and received", "shaped to")
        .column(Source::Paper, "received", "kbit/s", 0)
        .column(Source::Ours, "received", "kbit/s", 0)
        .column(Source::Ours, "mean RTT", "ms", 0);
    for (kbps, paper) in PAPER {
        let case = Sender::Shaped(kbps);
        let values = vec![paper.into(), received(case).into(), rtt_at_server(&runs, case).into()];
        table.row(case.name(), values);
    }
    table.row(
        "not shaped",
        vec![
            Value::default(),
            received(Sender::Unshaped).into(),
            rtt_at_server(&runs, Sender::Unshaped).into(),
        ],
    );
    let adaptive = Sender::Adaptive;
    let queue = rtt_by_queue(&runs, adaptive, PROPAGATION_MS);
    table.row("not shaped, adaptive", vec![Value::default(), received(adaptive).into(), queue.into()]);
    let rate = |case: Sender| mean(received(case));
    let delay = |case: Sender| mean(rtt_at_server(&runs, case));
    let slow = PAPER.iter().map(|(kbps, _)| *kbps).filter(|kbps| *kbps <= 2000);
    let below = least(slow.map(|kbps| rate(Sender::Shaped(kbps)) / f64::from(kbps)));
    Ok(Outcome {
        facts: Facts::of([
            ("rate", rate(Sender::Shaped(8000)).into()),
            ("shortest", delay(Sender::Shaped(2000)).into()),
            ("longest", delay(Sender::Shaped(8000)).into()),
            ("adaptive", rate(adaptive).into()),
            ("adaptive_rtt", mean(queue).into()),
        ]),
        tables: vec![table],
        figures: vec![figure(&runs)],
        checks: vec![
            Check::at_least("received of 8000 kbit/s (paper 5000)", rate(Sender::Shaped(8000)), 4_500.0),
            Check::at_most("received of 8000 kbit/s (paper 5000)", rate(Sender::Shaped(8000)), 5_500.0),
            Check::at_least("least share received of 2000 kbit/s and less", below, 0.97),
            Check::at_least("adaptive ÷ not shaped, received", rate(adaptive) / rate(Sender::Unshaped), 0.97),
            Check::at_most("adaptive ÷ not shaped, mean RTT", mean(queue) / delay(Sender::Unshaped), 0.5),
        ],
        ..Outcome::default()
    })
}

fn figure(runs: &Runs<Sender>) -> Figure {
    let rates = || PAPER.iter().rev();
    let shaped = |value: &dyn Fn(Sender) -> Option<Moments>| {
        let means = rates().map(|(kbps, _)| (f64::from(*kbps), value(Sender::Shaped(*kbps))));
        Series::of("ours", Source::Ours, Mark::Dotted, means)
    };
    let paper = rates().map(|(kbps, y)| Point::new(f64::from(*kbps), *y)).collect();
    let ideal = vec![Point::new(100.0, 100.0), Point::new(5_000.0, 5_000.0), Point::new(8_000.0, 5_000.0)];
    let received = |case: Sender| runs.moments(case, |f| f.transfer.goodput_mbps * 1e3);
    let adaptive = |value: Option<Moments>| {
        Series::level("adaptive, not shaped", Source::Adaptive, (100.0, 8_000.0), mean(value))
    };
    Figure::new("received", Axis::log("shaped to, kbit/s"))
        .panel(
            Axis::log("received, kbit/s"),
            vec![
                Series::new("link", Source::Limit, Mark::Line, ideal),
                Series::new("paper", Source::Paper, Mark::Dotted, paper),
                shaped(&received),
                adaptive(received(Sender::Adaptive)),
            ],
        )
        .panel(
            Axis::log("mean RTT, ms"),
            vec![
                shaped(&|case| rtt_at_server(runs, case)),
                adaptive(rtt_by_queue(runs, Sender::Adaptive, PROPAGATION_MS)),
            ],
        )
}
