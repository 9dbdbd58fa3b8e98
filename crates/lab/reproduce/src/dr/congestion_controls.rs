//! [DR]: six congestion controls over a deep buffer, with and without DRWA.

use figures::stats::Moments;

use super::{mean, rtt_at_server, rtt_by_queue};
use crate::case_id::case_ids;
use crate::experiment::built_in;
use crate::runs::{least, most};
use crate::{
    Axis, CaseId, Check, Context, Experiment, Facts, Figure, InLab, Looking, Outcome, Paper, ReproduceError,
    Runs, Series, Source, Table,
};

pub(crate) const EXPERIMENT: Experiment = Experiment {
    name: "dr-congestion-controls",
    paper: Paper::Dr,
    part: "Table 1, row 6",
    prose: built_in!("dr/congestion-controls.md"),
    files: &[built_in!("dr/congestion-controls.toml"), built_in!("dr/congestion-controls-lab.toml")],
    seconds: 25,
    lab: InLab::Takes(130),
    run,
};

case_ids! {
    /// The congestion control of the server: the first half of the names in `dr/congestion-controls.toml`.
    enum Control {
        NewReno = "NewReno",
        Vegas = "Vegas",
        Cubic = "CUBIC",
        Bic = "BIC",
        Htcp = "H-TCP",
        Hstcp = "HSTCP",
    }
}

/// Traffic besides: the other half.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Beside {
    Nothing,
    Drwa,
    Adaptive,
}

impl CaseId for (Control, Beside) {
    fn all() -> Vec<Self> {
        let with = [Beside::Nothing, Beside::Drwa, Beside::Adaptive];
        Control::all().into_iter().flat_map(|control| with.map(|beside| (control, beside))).collect()
    }
    fn name(self) -> String {
        let end = match self.1 {
            Beside::Nothing => "",
            Beside::Drwa => ", DRWA",
            Beside::Adaptive => ", adaptive",
        };
        format!("{}{end}", self.0.label())
    }
}

type SixControls = Runs<(Control, Beside)>;

/// Those that wait for losses.
const LOSS_BASED: [Control; 5] =
    [Control::NewReno, Control::Cubic, Control::Bic, Control::Htcp, Control::Hstcp];
/// Both ways, ms.
const PROPAGATION_MS: f64 = 60.0;

fn run(context: &mut Context<'_>) -> Result<Outcome, ReproduceError> {
    let scenario = context.scenario("dr/congestion-controls.toml")?;
    let runs: SixControls = context.watch(&scenario, Looking { flows: true, ..Looking::default() })?;
    let mut table = Table::new("HSPA+ with 2 MB of queue", "congestion control of the server")
        .column(Source::Ours, "alone", "Mbit/s", 2)
        .column(Source::Ours, "mean RTT", "ms", 0)
        .column(Source::Ours, "dropped", "packets", 0)
        .column(Source::Ours, "with DRWA", "Mbit/s", 2)
        .column(Source::Ours, "mean RTT", "ms", 0)
        .column(Source::Adaptive, "goodput", "Mbit/s", 2)
        .column(Source::Adaptive, "mean RTT", "ms", 0);
    for control in Control::all() {
        let [alone, drwa, adaptive] =
            [Beside::Nothing, Beside::Drwa, Beside::Adaptive].map(|beside| (control, beside));
        table.row(
            control.label(),
            vec![
                runs.goodput(alone).into(),
                rtt_at_server(&runs, alone).into(),
                runs.moments(alone, |f| f.radio.dropped_full as f64).into(),
                runs.goodput(drwa).into(),
                rtt_at_server(&runs, drwa).into(),
                runs.goodput(adaptive).into(),
                rtt_by_queue(&runs, adaptive, PROPAGATION_MS).into(),
            ],
        );
    }
    let delay = |case| mean(rtt_at_server(&runs, case));
    let rate = |case| mean(runs.goodput(case));
    let alone = |control: &Control| (*control, Beside::Nothing);
    let drwa = |control: &Control| (*control, Beside::Drwa);
    let adaptive = |control: &Control| (*control, Beside::Adaptive);
    let controls = Control::all();
    let shortest = least(LOSS_BASED.iter().map(|c| delay(alone(c))));
    let reduced = least(LOSS_BASED.iter().map(|c| 1.0 - delay(drwa(c)) / delay(alone(c))));
    let kept = least(controls.iter().map(|c| rate(drwa(c)) / rate(alone(c))));
    let over_drwa = least(controls.iter().map(|c| rate(adaptive(c)) / rate(drwa(c))));
    let kept_by_adaptive = least(controls.iter().map(|c| rate(adaptive(c)) / rate(alone(c))));
    let rtt_by_adaptive = |c: &Control| mean(rtt_by_queue(&runs, adaptive(c), PROPAGATION_MS));
    let shorter = most(LOSS_BASED.iter().map(|c| rtt_by_adaptive(c) / delay(drwa(c))));
    let there: Vec<Control> = controls.iter().copied().filter(|c| delay(alone(c)).is_finite()).collect();
    let longest = most(there.iter().map(rtt_by_adaptive));
    Ok(Outcome {
        facts: Facts::of([
            ("least_rtt", shortest.into()),
            ("vegas_rtt", delay(alone(&Control::Vegas)).into()),
            ("reduced_percent", (reduced * 100.0).into()),
            ("there", there.iter().map(|control| control.label()).collect::<Vec<_>>().join(", ").into()),
            ("kept", kept_by_adaptive.into()),
            ("adaptive_rtt", longest.into()),
        ]),
        tables: vec![table],
        figures: vec![figure(&runs)],
        checks: vec![
            Check::at_least("shortest mean RTT of a loss-based control, ms", shortest, 1_000.0),
            Check::at_most("mean RTT of Vegas ÷ that", delay(alone(&Control::Vegas)) / shortest, 0.2),
            Check::at_least("least reduction of the RTT by DRWA, share (paper 0.24 to 0.49)", reduced, 0.24),
            Check::at_least("least throughput kept with DRWA", kept, 0.97),
            Check::at_least("least goodput of adaptive ÷ the control alone", kept_by_adaptive, 0.97),
            Check::at_least("least goodput of adaptive ÷ DRWA", over_drwa, 0.97),
            Check::at_most("longest RTT of adaptive ÷ DRWA", shorter, 1.0),
        ],
        ..Outcome::default()
    })
}

fn figure(runs: &SixControls) -> Figure {
    let dots = |name: &str, source, rtt: &dyn Fn(Control) -> Option<Moments>| {
        Series::at_places(name, source, Control::all().into_iter().map(rtt))
    };
    Figure::new(
        "rtt",
        Axis::named("congestion control of the server", Control::all().into_iter().map(Control::label)),
    )
    .panel(
        Axis::log("mean RTT, ms"),
        vec![
            dots("alone", Source::Ours, &|control| rtt_at_server(runs, (control, Beside::Nothing))),
            dots("with DRWA", Source::Ours, &|control| rtt_at_server(runs, (control, Beside::Drwa))),
            dots("adaptive", Source::Adaptive, &|control| {
                rtt_by_queue(runs, (control, Beside::Adaptive), PROPAGATION_MS)
            }),
        ],
    )
}
