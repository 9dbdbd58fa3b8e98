//! [DR] Fig 20: what arrives of what a shaped sender sends.

use super::{mean, rtt_at_server, rtt_by_queue};
use crate::experiment::scenario_file;
use crate::{
    Axis, Check, Context, Experiment, Figure, InLab, Looking, Mark, Outcome, Paper, Point, ReproduceError,
    Runs, Series, Source, Table, Value,
};

pub(crate) const EXPERIMENT: Experiment = Experiment {
    name: "dr-figure-20",
    paper: Paper::Dr,
    part: "Fig 20",
    title: "A sender shaped to a rate",
    asked: "Would shaping the sender do instead, so that it never sends more than the link carries?",
    found: "Only with the right rate, which is hard to know beforehand where the link varies: too low wastes the link, too high fills the queue.",
    files: &[scenario_file!("dr/figure-20.toml"), scenario_file!("dr/figure-20-lab.toml")],
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

fn case(kbps: u32) -> String {
    format!("{kbps} kbit/s")
}

fn run(context: &mut Context<'_>) -> Result<Outcome, ReproduceError> {
    let scenario = context.scenario("dr/figure-20.toml")?;
    let runs = context.watch(&scenario, Looking { flows: true, ..Looking::default() })?;
    let received = |case: &str| runs.moments(case, |f| f.transfer.goodput_mbps * 1e3);
    let mut table = Table::new("Shaped and received", "shaped to")
        .column(Source::Paper, "received", "kbit/s", 0)
        .column(Source::Ours, "received", "kbit/s", 0)
        .column(Source::Ours, "mean RTT", "ms", 0);
    for (kbps, paper) in PAPER {
        let name = case(kbps);
        table.row(&name, vec![paper.into(), received(&name).into(), rtt_at_server(&runs, &name).into()]);
    }
    table.row(
        "not shaped",
        vec![Value::default(), received("unshaped").into(), rtt_at_server(&runs, "unshaped").into()],
    );
    let adaptive = "unshaped, adaptive";
    let queue = rtt_by_queue(&runs, adaptive, PROPAGATION_MS);
    table.row("not shaped, adaptive", vec![Value::default(), received(adaptive).into(), queue.into()]);
    let rate = |name: &str| mean(received(name));
    let delay = |name: &str| mean(rtt_at_server(&runs, name));
    let below: f64 = PAPER
        .iter()
        .filter(|(kbps, _)| *kbps <= 2000)
        .map(|(kbps, _)| rate(&case(*kbps)) / f64::from(*kbps))
        .fold(f64::NAN, f64::min);
    Ok(Outcome {
        we_see: format!(
            "We see {:.0} kbit/s of 8000 and everything of 2000 and less; between them the RTT goes from {:.0} to {:.0} ms, and `adaptive`, told no rate, gets {:.0} kbit/s at {:.0} ms.",
            rate(&case(8000)), delay(&case(2000)), delay(&case(8000)), rate(adaptive), mean(queue)
        ),
        tables: vec![table],
        figures: vec![figure(&runs)],
        notes: vec![
            "The paper's points were measured one after the other over a link that varied meanwhile: 800 kbit/s gave 500 and 1000 gave 1000. Over one and the same link, as here, a sender \
             below the capacity is delivered whole. So our curve is the upper edge of the paper's points."
                .to_owned(),
            "Shaped is the application: it writes a piece every 20 ms. TCP sends what it is given, and catches up after a weak moment.".to_owned(),
        ],
        checks: vec![
            Check::at_least("received of 8000 kbit/s (paper 5000)", rate(&case(8000)), 4_500.0),
            Check::at_most("received of 8000 kbit/s (paper 5000)", rate(&case(8000)), 5_500.0),
            Check::at_least("least share received of 2000 kbit/s and less", below, 0.97),
            Check::at_least("adaptive ÷ not shaped, received", rate(adaptive) / rate("unshaped"), 0.97),
            Check::at_most("adaptive ÷ not shaped, mean RTT", mean(queue) / delay("unshaped"), 0.5),
        ],
    })
}

fn figure(runs: &Runs) -> Figure {
    let shaped = |value: &dyn Fn(&str) -> Option<crate::Moments>| {
        PAPER
            .iter()
            .rev()
            .filter_map(|(kbps, _)| Some(Point::of(f64::from(*kbps), value(&case(*kbps))?)))
            .collect()
    };
    let paper = PAPER.iter().rev().map(|(kbps, y)| Point::new(f64::from(*kbps), *y)).collect();
    let ideal = vec![Point::new(100.0, 100.0), Point::new(5_000.0, 5_000.0), Point::new(8_000.0, 5_000.0)];
    let received = |name: &str| runs.moments(name, |f| f.transfer.goodput_mbps * 1e3);
    let level = |y: f64, source, name: &str| {
        Series::new(name, source, Mark::Line, vec![Point::new(100.0, y), Point::new(8_000.0, y)])
    };
    let adaptive = "unshaped, adaptive";
    Figure::new(
        "Fig 20: received over shaped",
        "Above what arrives, below what it costs in RTT.",
        Axis::log("shaped to, kbit/s"),
    )
    .panel(
        Axis::log("received, kbit/s"),
        vec![
            Series::new("link", Source::Limit, Mark::Line, ideal),
            Series::new("paper", Source::Paper, Mark::Dotted, paper),
            Series::new("ours", Source::Ours, Mark::Dotted, shaped(&received)),
            level(mean(received(adaptive)), Source::Adaptive, "adaptive, not shaped"),
        ],
    )
    .panel(
        Axis::log("mean RTT, ms"),
        vec![
            Series::new("ours", Source::Ours, Mark::Dotted, shaped(&|name| rtt_at_server(runs, name))),
            level(
                mean(rtt_by_queue(runs, adaptive, PROPAGATION_MS)),
                Source::Adaptive,
                "adaptive, not shaped",
            ),
        ],
    )
}
