//! [WA] Figs 3 and 4: what a rate that changes every 10 s costs NewReno.

use super::{OLD, RUN_S, dropped, figure_4, mean, percent};
use crate::experiment::scenario_file;
use crate::{
    Axis, Check, Context, Experiment, Figure, Host, InLab, Looking, Mark, Outcome, Paper, Point,
    ReproduceError, Run, Runs, Series, Source, Table,
};
use units::{Bytes, Duration, Instant};

pub(crate) const EXPERIMENT: Experiment = Experiment {
    name: "wa-figure-3",
    paper: Paper::Wa,
    part: "Figs 3, 4",
    title: "384 and 38.4 kbit/s in turn",
    asked: "What does NewReno make of a link whose rate falls to a tenth and comes back every 10 s?",
    found: "85 % of it: a window that fits one rate overflows the queue or times out at the other, and climbs too slowly.",
    files: &[
        scenario_file!("wa/figure-3.toml"),
        scenario_file!("wa/figure-3-delays.toml"),
        scenario_file!("wa/figure-3-lab.toml"),
    ],
    seconds: 3,
    lab: InLab::Takes(182),
    run,
};

/// §III: kbit/s the link could carry and what NewReno got.
const IDEAL_KBPS: f64 = 222.7;
const PAPER_KBPS: f64 = 190.4;
const PAPER_PERCENT: f64 = 100.0 * PAPER_KBPS / IDEAL_KBPS;

const TODAY: &str = "NewReno of today";
const PROXIES: [&str; 3] = ["proxy, (18) per step", "proxy, (18) in flight", "proxy, predictive"];
const ADAPTIVE: &str = "adaptive";
const DELAYS_MS: [u32; 7] = [1, 10, 50, 100, 200, 300, 400];

fn run(context: &mut Context<'_>) -> Result<Outcome, ReproduceError> {
    // Captures of kernels hold pieces of many segments, which the radio link does not see as such.
    let packets_of = (!context.is_lab()).then_some(Host::Server);
    let every = Some(Duration::from_millis(100));
    let looking = Looking { every, packets_of, radio: true, ..Looking::default() };
    let scenario = context.scenario("wa/figure-3.toml")?;
    let runs = context.watch(&scenario, looking)?;
    // Seven delays of 150 s are too long where time is real.
    let sweep = if context.is_lab() {
        Runs::default()
    } else {
        let sweep = context.scenario("wa/figure-3-delays.toml")?;
        context.run(&sweep)?
    };
    let share = |case: &str| mean(percent(&runs, case));
    let best = |case: &str| mean(runs.queue_p95(case));
    let only_there = |text: String| if context.is_lab() { String::new() } else { text };
    let today = only_there(format!(", {:.1} % with today's", share(TODAY)));
    let short = only_there("; over 10 ms both kinds of hosts fill the link".to_owned());
    Ok(Outcome {
        we_see: format!(
            "We see {:.1} % with hosts of that time over a wired delay of 200 ms{today}, and {:.1} % with the proxy{short}.",
            share(OLD),
            share(PROXIES[0])
        ),
        tables: vec![table(&runs), delays(&sweep)],
        figures: [figure(&runs)].into_iter().chain(figure_4::figure(&runs)).collect(),
        notes: vec![
            "The paper gives no delays, and they decide: the queue of 20 packets holds 0.6 s of the high rate, so a path of tens of milliseconds is \
             filled by any window. 85 % is what hosts of that time get over 200 ms one way."
                .to_owned(),
            "Hosts of that time: no SACK, so that one hole is repaired per round trip, and no timestamps. At the end of a low phase the queue holds \
             6 s, and a time-out learnt there waits that long in the next fast phase. Spurious time-outs at the falls, as in the paper's Fig 4, are seen too."
                .to_owned(),
        ],
        checks: vec![
            Check::at_least("link used by NewReno of 2007, percent (paper 84 to 86)", share(OLD), 84.0),
            Check::at_most("link used by NewReno of 2007, percent (paper 84 to 86)", share(OLD), 87.5),
            Check::at_least("link used by the proxy, percent", share(PROXIES[0]), 97.0),
            Check::at_least("adaptive ÷ NewReno of 2007, link used", share(ADAPTIVE) / share(OLD), 1.0),
            Check::at_most("adaptive ÷ NewReno of 2007, queueing delay p95", best(ADAPTIVE) / best(OLD), 1.0),
        ],
    })
}

fn table(runs: &Runs) -> Table {
    let mut table = Table::new("150 s of 384 and 38.4 kbit/s in turn", "scheme")
        .column(Source::Paper, "received", "kbit/s", 1)
        .column(Source::Paper, "link used", "%", 1)
        .column(Source::Ours, "carried", "kbit/s", 1)
        .column(Source::Ours, "link used", "%", 1)
        .column(Source::Ours, "queue p95", "ms", 0)
        .column(Source::Ours, "dropped", "packets", 0);
    for case in [OLD, TODAY].into_iter().chain(PROXIES).chain([ADAPTIVE]) {
        let is_paper = case == OLD;
        table.row(
            case,
            vec![
                is_paper.then_some(PAPER_KBPS).into(),
                is_paper.then_some(PAPER_PERCENT).into(),
                runs.moments(case, |f| f.radio.delivered_bytes as f64 * 8.0 / f.transfer.seconds / 1e3)
                    .into(),
                percent(runs, case).into(),
                runs.queue_p95(case).into(),
                dropped(runs, case).into(),
            ],
        );
    }
    table
}

fn delays(sweep: &Runs) -> Table {
    let mut table = Table::new("Link used over other wired delays", "one way")
        .column(Source::Paper, "NewReno", "%", 1)
        .column(Source::Ours, "2007", "%", 1)
        .column(Source::Ours, "today", "%", 1);
    for ms in DELAYS_MS {
        let [old, today] = ["2007", "today"].map(|hosts| percent(sweep, &format!("{ms} ms, {hosts}")).into());
        table.row(format!("{ms} ms"), vec![PAPER_PERCENT.into(), old, today]);
    }
    table
}

/// Points of a run's samples in packets of the paper.
pub(super) fn samples(
    run: Option<&Run>,
    seconds: (f64, f64),
    value: impl Fn(&sim::Sample) -> Option<Bytes>,
) -> Vec<Point> {
    let at = |sample: &sim::Sample| {
        let x = sample.at.saturating_since(Instant::ZERO).as_secs_f64();
        let inside = x >= seconds.0 && x <= seconds.1;
        value(sample).filter(|_| inside).map(|bytes| Point::new(x, bytes.get() as f64 / super::PACKET))
    };
    run.map_or(Vec::new(), |run| run.seen.samples.iter().filter_map(at).collect())
}

/// What the radio link could carry, as ground.
pub(super) fn capacity(run: Option<&Run>, seconds: (f64, f64), unit: f64) -> Series {
    let series = run.and_then(|run| run.result.figures.as_ref()).map(|figures| &figures.series);
    let points = series.map_or(Vec::new(), |series| {
        let at = |(i, mbps): (usize, &f64)| Point::new(i as f64 * series.bin_s, mbps * unit);
        series
            .capacity_mbps
            .iter()
            .enumerate()
            .map(at)
            .filter(|p| p.x >= seconds.0 && p.x <= seconds.1)
            .collect()
    });
    Series::new("capacity", Source::Limit, Mark::Ground, points)
}

fn figure(runs: &Runs) -> Figure {
    let run = |case: &str| runs.runs.iter().find(|run| run.result.name == case);
    let all = (0.0, RUN_S);
    let line = |name: &str, source, points| Series::new(name, source, Mark::Line, points);
    let queue = |case: &str| samples(run(case), all, |sample| Some(sample.queue_bytes));
    Figure::new(
        "Fig 3: bandwidth, congestion window, queue",
        "As the paper's Fig 3: its (a), (b) and (c), and below the queue under the proxy, which holds 15 packets at both rates.",
        Axis::linear("seconds"),
    )
    .panel(Axis::linear("kbit/s"), vec![capacity(run(OLD), all, 1e3)])
    .panel(
        Axis::linear("window, packets"),
        vec![line("NewReno of 2007", Source::Ours, samples(run(OLD), all, |s| s.window))],
    )
    .panel(
        Axis::linear("queue, packets"),
        vec![
            line("NewReno of 2007", Source::Ours, queue(OLD)),
            line("limit", Source::Limit, vec![Point::new(0.0, 20.0), Point::new(RUN_S, 20.0)]),
        ],
    )
    .panel(
        Axis::linear("queue, packets"),
        vec![line(PROXIES[0], Source::Ours, queue(PROXIES[0])), line(ADAPTIVE, Source::Adaptive, queue(ADAPTIVE))],
    )
}
