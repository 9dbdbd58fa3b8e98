//! [MA] Fig 3: losses that do not go with goodput, and the throughput loss of equations (1) and (2).

use figures::stats::Moments;

use crate::case_id::case_ids;
use crate::experiment::built_in;
use crate::{
    Axis, CaseId, Check, Context, Experiment, Facts, Figure, InLab, LossEvent, Mark, Outcome, Paper, Point,
    ReproduceError, Run, Runs, Series, Source, Table, Value, rebinned,
};

pub(crate) const EXPERIMENT: Experiment = Experiment {
    name: "ma-figure-3",
    paper: Paper::Ma,
    part: "Fig 3",
    prose: built_in!("ma/figure-3.md"),
    files: &[
        built_in!("ma/figure-3.toml"),
        built_in!("ma/figure-3-windows.toml"),
        built_in!("ma/figure-3-lab.toml"),
    ],
    seconds: 6,
    lab: InLab::Takes(130),
    run,
};

case_ids! {
    /// The cases of `ma/figure-3.toml`.
    enum Flow {
        Udp = "UDP",
        Reno = "Reno",
        Cubic = "CUBIC",
        Accelerated = "accelerated",
        Adaptive = "adaptive",
    }
}
case_ids! {
    /// The cases of `ma/figure-3-windows.toml`.
    enum Hosts {
        Reno = "Reno",
        Cubic = "CUBIC",
        RenoWithoutSack = "Reno without SACK",
        CubicWithoutSack = "CUBIC without SACK",
    }
}
case_ids! {
    /// Its grid: windows of the client.
    enum Window { Kb17 = "17 KB", Kb64 = "64 KB", Kb256 = "256 KB", Kb512 = "512 KB" }
}

/// §III: throughput loss by (1) and (2), percent. The paper had no accelerated flow here.
const PAPER: [(Flow, Option<f64>); 5] = [
    (Flow::Udp, Some(12.8)),
    (Flow::Reno, Some(91.0)),
    (Flow::Cubic, Some(85.3)),
    (Flow::Accelerated, None),
    (Flow::Adaptive, None),
];
/// The interval of Fig 3, seconds.
const INTERVAL_S: f64 = 0.5;

fn run(context: &mut Context<'_>) -> Result<Outcome, ReproduceError> {
    let scenario = context.scenario("ma/figure-3.toml")?;
    let runs = context.run::<Flow>(&scenario)?;
    // Sixteen more cases are too long where time is real.
    let windows = if context.is_lab() {
        Runs::default()
    } else {
        let windows = context.scenario("ma/figure-3-windows.toml")?;
        context.run(&windows)?
    };
    let loss = |case: Flow, wait: usize| {
        Moments::of(runs.of(case).filter_map(|run| throughput_loss(&goodput(run), &run.radio.losses, wait)))
    };
    let of = |case: Flow| super::mean(loss(case, 0));
    let mut table = Table::new("Average throughput loss L by (1) and (2), intervals of 500 ms", "flow")
        .column(Source::Paper, "L", "%", 1)
        .column(Source::Ours, "L", "%", 1)
        .column(Source::Ours, "L, worst of this and the next interval", "%", 1)
        .column(Source::Ours, "loss events a run", "", 0)
        .column(Source::Ours, "goodput", "Mbit/s", 2)
        .column(Source::Ours, "queue p95", "ms", 0);
    for (case, paper) in PAPER {
        let events = Moments::of(runs.of(case).map(|run| run.radio.losses.len() as f64));
        table.row(
            case.label(),
            vec![
                paper.into(),
                loss(case, 0).into(),
                loss(case, 1).into(),
                events.map(|m| m.mean).into(),
                runs.goodput(case).into(),
                runs.queue_p95(case).map(|m| m.mean).into(),
            ],
        );
    }
    Ok(Outcome {
        facts: Facts::of([
            ("udp", of(Flow::Udp).into()),
            ("reno", of(Flow::Reno).into()),
            ("cubic", of(Flow::Cubic).into()),
            ("adaptive", of(Flow::Adaptive).into()),
        ]),
        tables: vec![table, by_window(&windows)],
        figures: figures(&runs).into_iter().chain([losses(&runs)]).collect(),
        checks: vec![
            Check::at_most("UDP's throughput loss, percent", of(Flow::Udp), 12.8),
            Check::at_least(
                "Reno's throughput loss over UDP's, percentage points",
                of(Flow::Reno) - of(Flow::Udp),
                20.0,
            ),
            Check::at_least(
                "CUBIC's throughput loss over UDP's, percentage points",
                of(Flow::Cubic) - of(Flow::Udp),
                20.0,
            ),
            Check::at_least(
                "Reno's less adaptive's, percentage points",
                of(Flow::Reno) - of(Flow::Adaptive),
                0.0,
            ),
        ],
        ..Outcome::default()
    })
}

/// Goodput in intervals.
fn goodput(run: &Run) -> Vec<f64> {
    run.result.figures.as_ref().map_or(Vec::new(), |figures| {
        rebinned(&figures.series.goodput_mbps, figures.series.bin_s, INTERVAL_S)
    })
}

/// [MA] (1) averaged by (2), in percent: `l = (r_{h−1} − r_h) / r_{h−1}` of each loss event's interval
/// h, or the largest of that and `wait` more intervals. None without an event; events in the first
/// interval or behind an empty one have no `l`.
fn throughput_loss(goodput: &[f64], events: &[LossEvent], wait: usize) -> Option<f64> {
    let of = |event: &LossEvent| {
        let h = (event.at_s / INTERVAL_S) as usize;
        let before = goodput.get(h.checked_sub(1)?).copied().filter(|before| *before > 0.0)?;
        let after = goodput.get(h..(h + wait + 1).min(goodput.len()))?;
        let lowest = after.iter().copied().reduce(f64::min)?;
        Some((before - lowest) / before * 100.0)
    };
    Moments::of(events.iter().filter_map(of)).map(|m| m.mean)
}

/// L over the client's window, by fixed intervals and by the worse of two.
fn by_window(runs: &Runs<(Hosts, Window)>) -> Table {
    let mut table = Table::new("L with other windows and hosts, percent", "window");
    let pairs =
        [(91.0, [Hosts::Reno, Hosts::RenoWithoutSack]), (85.3, [Hosts::Cubic, Hosts::CubicWithoutSack])];
    for (_, hosts) in pairs {
        table = table.column(Source::Paper, hosts[0].label(), "%", 1);
        for host in hosts {
            let name = host.label();
            table = table.column(Source::Ours, name, "%", 1).column(Source::Ours, "worse of two", "%", 1);
        }
    }
    for window in Window::all() {
        let mut values = Vec::new();
        for (paper, hosts) in pairs {
            values.push(Value::from(paper));
            for host in hosts {
                let of = |wait| {
                    let runs = runs.of((host, window));
                    Moments::of(
                        runs.filter_map(|run| throughput_loss(&goodput(run), &run.radio.losses, wait)),
                    )
                };
                values.extend([of(0).into(), of(1).into()]);
            }
        }
        table.row(window.label(), values);
    }
    table
}

/// L of every flow beside the paper's.
fn losses(runs: &Runs<Flow>) -> Figure {
    let series = |name: &str, source, value: &dyn Fn(&Run) -> Option<f64>| {
        Series::at_places(name, source, PAPER.map(|(case, _)| Moments::of(runs.of(case).filter_map(value))))
    };
    let by = |wait: usize| move |run: &Run| throughput_loss(&goodput(run), &run.radio.losses, wait);
    Figure::new("loss", Axis::named("flow", PAPER.map(|(case, _)| case.label()))).panel(
        Axis::linear_from("L, %", -20.0),
        vec![
            Series::at_places("paper", Source::Paper, PAPER.map(|(_, percent)| Moments::of(percent))),
            series("ours, fixed intervals", Source::Ours, &by(0)),
            series("the worse of two", Source::Ours, &by(1)),
        ],
    )
}

fn figures(runs: &Runs<Flow>) -> Vec<Figure> {
    let one = |case: Flow, name: &str| {
        let run = || runs.of(case).next();
        let bins: Vec<Option<f64>> = run().map_or(Vec::new(), goodput).into_iter().map(Some).collect();
        let events = run().into_iter().flat_map(|run| &run.radio.losses);
        let bursts = events.map(|e| Point::new(e.at_s, f64::from(e.packets))).collect();
        let goodput = Series::over_time("goodput", Source::Ours, INTERVAL_S, &bins);
        let losses = Series::new("packets lost in a row", Source::Ours, Mark::Stems, bursts);
        Figure::new(name, Axis::linear("seconds"))
            .panel(Axis::linear("Mbit/s"), vec![goodput])
            .panel(Axis::linear("packets"), vec![losses])
    };
    vec![one(Flow::Udp, "udp"), one(Flow::Cubic, "cubic")]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn throughput_loss_is_that_of_equations_1_and_2() {
        let event = |at_s| LossEvent { at_s, packets: 1 };
        let goodput = [4.0, 4.0, 1.0, 0.0, 2.0];
        let close = |found: Option<f64>, wanted: f64| (found.unwrap() - wanted).abs() < 1e-9;
        // A fall from 4 to 1 is 75 %; none in the second interval.
        assert!(close(throughput_loss(&goodput, &[event(1.1)], 0), 75.0));
        assert!(close(throughput_loss(&goodput, &[event(0.6), event(1.1)], 0), 37.5));
        assert!(close(throughput_loss(&goodput, &[event(1.1)], 1), 100.0));
        // In the first interval, behind an empty one, and behind the end there is nothing to compare with.
        assert_eq!(throughput_loss(&goodput, &[event(0.1), event(2.1), event(9.0)], 0), None);
    }
}
