//! [MP] Figs 1 and 2: throughput over time, with a window in the way and without.

use analysis::DiagnosisKind;
use figures::stats::Moments;

use super::{mean, measured, over_runs};
use crate::case_id::case_ids;
use crate::experiment::built_in;
use crate::runs::most;
use crate::{
    Axis, CaseId, Check, Context, Experiment, Facts, Figure, InLab, Looking, Mark, Outcome, Paper, Point,
    ReproduceError, Runs, Series, Source, Table, rebinned,
};

pub(crate) const EXPERIMENT: Experiment = Experiment {
    name: "mp-figure-1",
    paper: Paper::Mp,
    part: "Figs 1, 2",
    prose: built_in!("mp/figure-1.md"),
    files: &[built_in!("mp/figures-1-2.toml"), built_in!("mp/figures-1-2-lab.toml")],
    seconds: 3,
    lab: InLab::Takes(85),
    run,
};

case_ids! {
    /// The cases of `mp/figures-1-2.toml`.
    enum Network {
        Verizon4g = "Verizon 4G",
        Att4g = "AT&T 4G",
        Att4gFree = "AT&T 4G, buffer × 8",
        Att35g = "AT&T 3.5G",
    }
}

/// §IV-A: mean throughput of the four curves, Mbit/s.
const PAPER: [(Network, f64); 4] = [
    (Network::Verizon4g, 12.01),
    (Network::Att4g, 10.72),
    (Network::Att4gFree, 15.63),
    (Network::Att35g, 6.49),
];
/// §IV-A: highest throughput of Verizon's curve, and the cap that Fig 2 shows for AT&T's.
const PEAK_VERIZON: f64 = 13.54;
const CAP_ATT: f64 = 11.0;
/// The window AT&T's device advertised, bytes.
const WINDOW: f64 = 100_800.0;
/// Bins of the figure, seconds.
const BIN_S: f64 = 1.0;

/// Goodput in bins; the last, which ends with the transfer, is left out.
pub(super) fn curve<C: CaseId>(runs: &Runs<C>, case: C) -> Vec<Point> {
    runs.first(case).map_or(Vec::new(), |figures| {
        let series = &figures.series;
        let bins = rebinned(&series.goodput_mbps, series.bin_s, BIN_S.max(series.bin_s));
        let width = BIN_S.max(series.bin_s);
        let whole = bins.len().saturating_sub(1);
        bins.iter().take(whole).enumerate().map(|(i, y)| Point::new((i as f64 + 0.5) * width, *y)).collect()
    })
}

/// Standard deviation over mean of a curve after its first seconds.
fn roughness(points: &[Point]) -> f64 {
    let values = points.iter().filter(|p| p.x > 5.0).map(|p| p.y);
    Moments::of(values).and_then(|m| Some(m.deviation()? / m.mean)).unwrap_or(f64::NAN)
}

/// The analysis of a capture blames the receive window.
fn is_window_limited(runs: &Runs<Network>, case: Network) -> bool {
    let is_window = |kind: DiagnosisKind| kind == DiagnosisKind::ReceiveWindowLimited;
    runs.of(case).filter_map(measured).any(|m| m.flow.diagnoses.iter().any(|d| is_window(d.kind)))
}

fn run(context: &mut Context<'_>) -> Result<Outcome, ReproduceError> {
    let scenario = context.scenario("mp/figures-1-2.toml")?;
    let runs = context.watch::<Network>(&scenario, Looking { flows: true, ..Looking::default() })?;
    let adaptive = context.run_adaptive(&scenario)?;
    let throughput = |case: Network| mean(over_runs(&runs, case, |m| m.throughput_mbps()));
    let rtt = |case: Network| mean(over_runs(&runs, case, |m| m.rtt_ms()));
    let is_window_limited = |case: Network| is_window_limited(&runs, case);
    let mut table = Table::new("Throughput of a download", "network")
        .column(Source::Paper, "mean", "Mbit/s", 2)
        .column(Source::Ours, "mean", "Mbit/s", 2)
        .column(Source::Ours, "RTT", "ms", 1)
        .column(Source::Ours, "window ÷ RTT", "Mbit/s", 2)
        .column(Source::Ours, "analysis says", "", 0)
        .column(Source::Adaptive, "mean", "Mbit/s", 2);
    for (case, paper) in PAPER {
        let window = runs.first(case).and_then(|f| f.window).map_or(f64::NAN, |w| w.max_bytes as f64);
        let verdict = if is_window_limited(case) { "receive-window limited" } else { "not window limited" };
        table.row(
            case.label(),
            vec![
                paper.into(),
                throughput(case).into(),
                rtt(case).into(),
                (window * 8.0 / rtt(case) / 1e3).into(),
                verdict.into(),
                adaptive.goodput(case).into(),
            ],
        );
    }
    let [verizon, capped, free, _] = PAPER.map(|(case, _)| case);
    let window = runs.first(capped).and_then(|f| f.window).map_or(f64::NAN, |w| w.max_bytes as f64);
    let gain = throughput(free) / throughput(capped);
    let highest = most(curve(&runs, verizon).iter().map(|p| p.y));
    let smooth = roughness(&curve(&runs, capped)) / roughness(&curve(&runs, verizon));
    let least = adaptive.least_goodput_over(&runs);
    Ok(Outcome {
        facts: Facts::of([
            ("capped", throughput(capped).into()),
            ("free", throughput(free).into()),
            ("gain_percent", ((gain - 1.0) * 100.0).into()),
        ]),
        tables: vec![table],
        figures: vec![figure(&runs)],
        checks: vec![
            Check::at_least("window advertised, bytes (paper 100,800)", window, 0.99 * WINDOW),
            Check::at_most("window advertised, bytes (paper 100,800)", window, WINDOW),
            Check::at_least("gain of the large buffer (paper 1.46)", gain, 1.3),
            Check::at_least(
                "small window found by the analysis (1: yes)",
                f64::from(u8::from(is_window_limited(capped))),
                1.0,
            ),
            Check::at_most(
                "large window blamed by the analysis (1: yes)",
                f64::from(u8::from(is_window_limited(free))),
                0.0,
            ),
            Check::at_least("Verizon's highest second, Mbit/s (paper 13.54)", highest, PEAK_VERIZON),
            Check::at_most("unevenness, AT&T under the window ÷ Verizon", smooth, 0.75),
            Check::at_least("least goodput of adaptive ÷ NewReno", least, 0.97),
        ],
        ..Outcome::default()
    })
}

fn figure(runs: &Runs<Network>) -> Figure {
    let end = PAPER.iter().flat_map(|(case, _)| curve(runs, *case)).map(|p| p.x).fold(1.0, f64::max);
    let level = |name: &str, y: f64| Series::level(name, Source::Paper, (0.0, end), y);
    let ours = |case: Network| Series::new(case.label(), Source::Ours, Mark::Line, curve(runs, case));
    Figure::new("throughput", Axis::linear("seconds"))
        .panel(
            Axis::linear("Mbit/s"),
            vec![level("Verizon 4G, paper: peak 13.54", PEAK_VERIZON), ours(Network::Verizon4g)],
        )
        .panel(Axis::linear("Mbit/s"), vec![level("AT&T 4G, paper: cap 11", CAP_ATT), ours(Network::Att4g)])
        .panel(
            Axis::linear("Mbit/s"),
            vec![level("buffer × 8, paper: 15.63", PAPER[2].1), ours(Network::Att4gFree)],
        )
        .panel(
            Axis::linear("Mbit/s"),
            vec![level("AT&T 3.5G, paper: 6.49", PAPER[3].1), ours(Network::Att35g)],
        )
}
