//! [DR]: six congestion controls over a deep buffer, with and without DRWA.

use super::{mean, rtt_at_server, rtt_by_queue};
use crate::experiment::scenario_file;
use crate::{
    Axis, Check, Context, Experiment, Figure, InLab, Looking, Mark, Outcome, Paper, Point, ReproduceError,
    Runs, Series, Source, Table,
};

pub(crate) const EXPERIMENT: Experiment = Experiment {
    name: "dr-congestion-controls",
    paper: Paper::Dr,
    part: "Table 1, row 6",
    title: "Six congestion controls over a deep buffer",
    asked: "Does any congestion control of a server keep the queue of a base station short?",
    found: "None that waits for losses: the buffers are too deep for that, and only Vegas, which goes by delay, resists.",
    files: &[
        scenario_file!("dr/congestion-controls.toml"),
        scenario_file!("dr/congestion-controls-lab.toml"),
    ],
    seconds: 25,
    lab: InLab::Takes(85),
    run,
};

const CONTROLS: [&str; 6] = ["NewReno", "Vegas", "CUBIC", "BIC", "H-TCP", "HSTCP"];
/// Those that wait for losses.
const LOSS_BASED: [&str; 5] = ["NewReno", "CUBIC", "BIC", "H-TCP", "HSTCP"];
/// Both ways, ms.
const PROPAGATION_MS: f64 = 60.0;

fn run(context: &mut Context<'_>) -> Result<Outcome, ReproduceError> {
    let scenario = context.scenario("dr/congestion-controls.toml")?;
    let runs = context.watch(&scenario, Looking { flows: true, ..Looking::default() })?;
    let mut table = Table::new("HSPA+ with 2 MB of queue", "congestion control of the server")
        .column(Source::Ours, "alone", "Mbit/s", 2)
        .column(Source::Ours, "mean RTT", "ms", 0)
        .column(Source::Ours, "dropped", "packets", 0)
        .column(Source::Ours, "with DRWA", "Mbit/s", 2)
        .column(Source::Ours, "mean RTT", "ms", 0)
        .column(Source::Adaptive, "goodput", "Mbit/s", 2)
        .column(Source::Adaptive, "mean RTT", "ms", 0);
    for control in CONTROLS {
        let (drwa, adaptive) = (format!("{control}, DRWA"), format!("{control}, adaptive"));
        table.row(
            control,
            vec![
                runs.goodput(control).into(),
                rtt_at_server(&runs, control).into(),
                runs.moments(control, |f| f.radio.dropped_full as f64).into(),
                runs.goodput(&drwa).into(),
                rtt_at_server(&runs, &drwa).into(),
                runs.goodput(&adaptive).into(),
                rtt_by_queue(&runs, &adaptive, PROPAGATION_MS).into(),
            ],
        );
    }
    let delay = |case: &str| mean(rtt_at_server(&runs, case));
    let rate = |case: &str| mean(runs.goodput(case));
    let least = LOSS_BASED.iter().map(|c| delay(c)).fold(f64::NAN, f64::min);
    let with = |control: &str, scheme: &str| format!("{control}, {scheme}");
    let reduced =
        LOSS_BASED.iter().map(|c| 1.0 - delay(&with(c, "DRWA")) / delay(c)).fold(f64::NAN, f64::min);
    let kept = CONTROLS.iter().map(|c| rate(&with(c, "DRWA")) / rate(c)).fold(f64::NAN, f64::min);
    let adaptive =
        CONTROLS.iter().map(|c| rate(&with(c, "adaptive")) / rate(&with(c, "DRWA"))).fold(f64::NAN, f64::min);
    let shorter = LOSS_BASED
        .iter()
        .map(|c| mean(rtt_by_queue(&runs, &with(c, "adaptive"), PROPAGATION_MS)) / delay(&with(c, "DRWA")))
        .fold(f64::NAN, f64::max);
    let own = |control: &&str| rate(&with(control, "adaptive")) / rate(control);
    let kept_by_adaptive = CONTROLS.iter().map(own).fold(f64::NAN, f64::min);
    let there: Vec<&str> = CONTROLS.into_iter().filter(|c| delay(c).is_finite()).collect();
    let we_see = if context.is_lab() {
        format!(
            "We see {least:.0} ms of RTT and more with the controls that this kernel has ({}); behind the accelerator with `adaptive` at least {:.2} of their goodput at {:.0} ms.",
            there.join(", "),
            kept_by_adaptive,
            there
                .iter()
                .map(|c| mean(rtt_by_queue(&runs, &with(c, "adaptive"), PROPAGATION_MS)))
                .fold(f64::NAN, f64::max)
        )
    } else {
        format!(
            "We see {least:.0} ms and more of RTT with every control that waits for losses and {:.0} ms with Vegas; DRWA at the client takes at least {:.0} % off without a change at the server.",
            delay("Vegas"),
            reduced * 100.0
        )
    };
    Ok(Outcome {
        we_see,
        tables: vec![table],
        figures: vec![figure(&runs)],
        notes: vec![
            "The values of the paper's figure are not in the text at hand; its finding is. Vegas is fair game only where it is alone: a queue that others keep full takes its share away.".to_owned(),
            "The accelerator shields the radio link from the server's control altogether: the six rows of `adaptive` are alike.".to_owned(),
        ],
        checks: vec![
            Check::at_least("shortest mean RTT of a loss-based control, ms", least, 1_000.0),
            Check::at_most("mean RTT of Vegas ÷ that", delay("Vegas") / least, 0.2),
            Check::at_least("least reduction of the RTT by DRWA, share (paper 0.24 to 0.49)", reduced, 0.24),
            Check::at_least("least throughput kept with DRWA", kept, 0.97),
            Check::at_least("least goodput of adaptive ÷ the control alone", kept_by_adaptive, 0.97),
            Check::at_least("least goodput of adaptive ÷ DRWA", adaptive, 0.97),
            Check::at_most("longest RTT of adaptive ÷ DRWA", shorter, 1.0),
        ],
    })
}

fn figure(runs: &Runs) -> Figure {
    let at = |name: &dyn Fn(&str) -> String| -> Vec<Point> {
        let point = |(i, c): (usize, &&str)| Some(Point::of(i as f64 + 1.0, rtt_at_server(runs, &name(c))?));
        CONTROLS.iter().enumerate().filter_map(point).collect()
    };
    let adaptive = CONTROLS.iter().enumerate().filter_map(|(i, c)| {
        let rtt = rtt_by_queue(runs, &format!("{c}, adaptive"), PROPAGATION_MS)?;
        Some(Point::of(i as f64 + 1.0, rtt))
    });
    Figure::new(
        "Mean RTT by congestion control",
        "Bars are standard deviations over the runs. The paper's figure is a picture, and its text has no numbers.",
        Axis::named("congestion control of the server", CONTROLS),
    )
    .panel(
        Axis::log("mean RTT, ms"),
        vec![
            Series::new("alone", Source::Ours, Mark::Dots, at(&str::to_owned)),
            Series::new("with DRWA", Source::Ours, Mark::Dots, at(&|c| format!("{c}, DRWA"))),
            Series::new("adaptive", Source::Adaptive, Mark::Dots, adaptive.collect()),
        ],
    )
}
