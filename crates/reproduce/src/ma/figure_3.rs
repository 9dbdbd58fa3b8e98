//! [MA] Fig 3: losses that do not go with goodput, and the throughput loss of equations (1) and (2).

use crate::experiment::scenario_file;
use crate::{
    Axis, Check, Context, Experiment, Figure, InLab, LossEvent, Mark, Moments, Outcome, Paper, Point,
    ReproduceError, Run, Runs, Series, Source, Table, Value, rebinned,
};

pub(crate) const EXPERIMENT: Experiment = Experiment {
    name: "ma-figure-3",
    paper: Paper::Ma,
    part: "Fig 3",
    title: "What a loss does to goodput",
    asked: "Do losses on a 3G link go with less bandwidth, and what do Reno and CUBIC make of them?",
    found: "They do not: UDP's goodput falls by 12.8 % in an interval with a loss, while Reno's falls by 91 % and CUBIC's by 85.3 %.",
    files: &[
        scenario_file!("ma/figure-3.toml"),
        scenario_file!("ma/figure-3-windows.toml"),
        scenario_file!("ma/figure-3-lab.toml"),
    ],
    seconds: 6,
    lab: InLab::Takes(130),
    run,
};

/// §III: throughput loss by (1) and (2), percent. The paper had no accelerated flow here.
const PAPER: [(&str, Option<f64>); 5] = [
    ("UDP", Some(12.8)),
    ("Reno", Some(91.0)),
    ("CUBIC", Some(85.3)),
    ("accelerated", None),
    ("adaptive", None),
];
/// Windows of the client that are tried too, as the scenario writes them.
const WINDOWS: [&str; 4] = ["17 KB", "64 KB", "256 KB", "512 KB"];
/// The interval of Fig 3, seconds.
const INTERVAL_S: f64 = 0.5;

fn run(context: &mut Context<'_>) -> Result<Outcome, ReproduceError> {
    let scenario = context.scenario("ma/figure-3.toml")?;
    let runs = context.run(&scenario)?;
    // Sixteen more cases are too long where time is real.
    let windows = if context.is_lab() {
        Runs::default()
    } else {
        let windows = context.scenario("ma/figure-3-windows.toml")?;
        context.run(&windows)?
    };
    let loss = |case: &str, wait: usize| {
        Moments::of(runs.of(case).filter_map(|run| throughput_loss(&goodput(run), &run.radio.losses, wait)))
    };
    let of = |case: &str| super::mean(loss(case, 0));
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
            case,
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
        we_see: format!(
            "We see the same order: a throughput loss of {:.0} % for UDP, {:.0} % for Reno and {:.0} % for CUBIC; behind the accelerator with `adaptive` it is {:.0} %.",
            of("UDP"),
            of("Reno"),
            of("CUBIC"),
            of("adaptive")
        ),
        tables: vec![table, by_window(&windows)],
        figures: figures(&runs).into_iter().chain([losses(&runs)]).collect(),
        notes: notes(),
        checks: vec![
            Check::at_most("UDP's throughput loss, percent", of("UDP"), 12.8),
            Check::at_least(
                "Reno's throughput loss over UDP's, percentage points",
                of("Reno") - of("UDP"),
                20.0,
            ),
            Check::at_least(
                "CUBIC's throughput loss over UDP's, percentage points",
                of("CUBIC") - of("UDP"),
                20.0,
            ),
            Check::at_least("Reno's less adaptive's, percentage points", of("Reno") - of("adaptive"), 0.0),
        ],
    })
}

fn notes() -> Vec<String> {
    vec![
        "The goodput of TCP is what its application reads in order. A hole stops that until its repair has come, a round trip later: with 256 KB in flight that \
         is about half a second, and shows in one interval or in two. The paper names neither its windows nor how its intervals lie; its 91 % and 85.3 % mean \
         intervals in which hardly anything was read, which is a round trip well over 500 ms, or time-outs. The third column comes nearer: the worse \
         of the interval with the loss and the one after."
            .to_owned(),
        "Other windows and hosts are no nearer, as the second table shows: under small windows a hole is repaired within an interval; without SACK several intervals are lost, but not to 91 %; 512 KB \
         overflow the queue, so that losses are TCP's own. What is missing lies in how the paper's loss events and intervals lie to each other, which it does not say."
            .to_owned(),
    ]
}

/// Goodput in intervals.
fn goodput(run: &Run) -> Vec<f64> {
    run.result.figures.as_ref().map_or(Vec::new(), |figures| {
        rebinned(&figures.series.goodput_mbps, figures.series.bin_s, INTERVAL_S)
    })
}

/// [MA] (1) averaged by (2), in percent: `l = (r_{h−1} − r_h) / r_{h−1}` of each loss event's interval h, or the largest of that
/// and `wait` more intervals. None without an event; events in the first interval or behind an empty one have no `l`.
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
fn by_window(runs: &Runs) -> Table {
    let mut table = Table::new("L with other windows and hosts, percent", "window");
    for case in ["Reno", "CUBIC"] {
        table = table.column(Source::Paper, case, "%", 1);
        for hosts in ["", " without SACK"] {
            let heading = format!("{case}{hosts}");
            table = table.column(Source::Ours, &heading, "%", 1).column(Source::Ours, "worse of two", "%", 1);
        }
    }
    for window in WINDOWS {
        let mut values = Vec::new();
        for (case, paper) in [("Reno", 91.0), ("CUBIC", 85.3)] {
            values.push(Value::from(paper));
            for hosts in ["", " without SACK"] {
                let name = format!("{case}{hosts}, {window}");
                let of = |wait| {
                    let runs = runs.of(&name);
                    Moments::of(
                        runs.filter_map(|run| throughput_loss(&goodput(run), &run.radio.losses, wait)),
                    )
                };
                values.extend([of(0).into(), of(1).into()]);
            }
        }
        table.row(window, values);
    }
    table
}

/// L of every flow beside the paper's.
fn losses(runs: &Runs) -> Figure {
    let series = |name: &str, source, value: &dyn Fn(&Run) -> Option<f64>| {
        let place = |(i, (case, _)): (usize, &(&str, _))| {
            Some(Point::of(i as f64 + 1.0, Moments::of(runs.of(case).filter_map(value))?))
        };
        Series::new(name, source, Mark::Dots, PAPER.iter().enumerate().filter_map(place).collect())
    };
    let printed = PAPER.iter().enumerate().filter_map(|(i, (_, y))| Some(Point::new(i as f64 + 1.0, (*y)?)));
    let by = |wait: usize| move |run: &Run| throughput_loss(&goodput(run), &run.radio.losses, wait);
    Figure::new(
        "Average throughput loss L",
        "By equations (1) and (2); bars are standard deviations over the runs. The paper had no accelerated flow here.",
        Axis::named("flow", PAPER.map(|(case, _)| case)),
    )
    .panel(
        Axis::linear_from("L, %", -20.0),
        vec![
            Series::new("paper", Source::Paper, Mark::Dots, printed.collect()),
            series("ours, fixed intervals", Source::Ours, &by(0)),
            series("the worse of two", Source::Ours, &by(1)),
        ],
    )
}

fn figures(runs: &Runs) -> Vec<Figure> {
    let one = |case: &'static str, name: &str| {
        let run = runs.of(case).next()?;
        let bins: Vec<Option<f64>> = goodput(run).into_iter().map(Some).collect();
        let bursts = run.radio.losses.iter().map(|e| Point::new(e.at_s, f64::from(e.packets))).collect();
        let goodput = Series::over_time("goodput", Source::Ours, INTERVAL_S, &bins);
        let losses = Series::new("packets lost in a row", Source::Ours, Mark::Stems, bursts);
        let figure = Figure::new(
            &format!("Goodput and losses of {name}"),
            "Above: goodput in intervals of 500 ms. Below: every loss event, as high as the packets lost in a row.",
            Axis::linear("seconds"),
        );
        Some(figure.panel(Axis::linear("Mbit/s"), vec![goodput]).panel(Axis::linear("packets"), vec![losses]))
    };
    [one("UDP", "UDP at 3.2 Mbit/s"), one("CUBIC", "CUBIC")].into_iter().flatten().collect()
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
