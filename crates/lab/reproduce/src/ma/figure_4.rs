//! [MA] Fig 4: goodput and round-trip time of UDP go together.

use figures::stats::Moments;
use scenario::results::Figures;

use crate::case_id::case_ids;
use crate::experiment::built_in;
use crate::{
    Axis, Check, Context, Experiment, Facts, Figure, InLab, Mark, Outcome, Paper, ReproduceError, Runs,
    Series, Source, Table, Value, rebinned,
};

pub(crate) const EXPERIMENT: Experiment = Experiment {
    name: "ma-figure-4",
    paper: Paper::Ma,
    part: "Fig 4",
    prose: built_in!("ma/figure-4.md"),
    files: &[built_in!("ma/figure-4.toml"), built_in!("ma/figure-4-lab.toml")],
    seconds: 3,
    lab: InLab::Takes(62),
    run,
};

case_ids! {
    /// The cases of `ma/figure-4.toml`.
    enum Flow { Udp = "UDP", UdpHeld = "UDP, 3 s", UdpShortQueue = "UDP, 3 s, 200 KB", Adaptive = "adaptive" }
}

/// Table 1 has the round trip at this rate, ms.
const PAPER_RTT_MS: f64 = 287.0;
/// Intervals of the figure, seconds.
const INTERVAL_S: f64 = 0.5;
/// Largest number of intervals by which round-trip times are looked at later: two seconds.
const LATEST: usize = 4;
/// Cases with datagrams, and what is said of them.
const UDP_CASES: [(Flow, &str); 3] = [
    (Flow::Udp, "Table 1's link"),
    (Flow::UdpHeld, "bandwidth that holds for 3 s, not 1 s"),
    (Flow::UdpShortQueue, "that, and a queue of 200 KB, not 340 KB"),
];

fn run(context: &mut Context<'_>) -> Result<Outcome, ReproduceError> {
    let scenario = context.scenario("ma/figure-4.toml")?;
    let runs = context.run::<Flow>(&scenario)?;
    let correlation =
        |value: fn(&Figures) -> Option<f64>| Moments::of(runs.figures(Flow::Udp).filter_map(value));
    let plain = correlation(|figures| correlation_of(figures, false));
    let growth = correlation(|figures| correlation_of(figures, true));
    let rtt =
        runs.moments(Flow::Udp, |f| f.udp.as_ref().and_then(|u| u.rtt_ms).map_or(f64::NAN, |rtt| rtt.mean));
    let mut table = Table::new("UDP at 4 Mbit/s, and a download with `adaptive` on the same link", "flow")
        .column(Source::Paper, "RTT", "ms", 0)
        .column(Source::Ours, "RTT", "ms", 0)
        .column(Source::Ours, "goodput", "Mbit/s", 2)
        .column(Source::Ours, "queue p95", "ms", 0)
        .column(Source::Ours, "correlation of goodput and RTT", "", 2)
        .column(Source::Ours, "of goodput and the RTT's growth", "", 2);
    let (goodput, queue) =
        (|case| runs.goodput(case).into(), |case| runs.queue_p95(case).map(|m| m.mean).into());
    table.row(
        "UDP",
        vec![
            PAPER_RTT_MS.into(),
            rtt.into(),
            goodput(Flow::Udp),
            queue(Flow::Udp),
            plain.into(),
            growth.into(),
        ],
    );
    table.row(
        "adaptive",
        vec![Value::default(), Value::default(), goodput(Flow::Adaptive), queue(Flow::Adaptive)],
    );
    let (plain, growth) = (super::mean(plain), super::mean(growth));
    let full = Moments::of(runs.figures(UDP_CASES[2].0).filter_map(|figures| correlation_of(figures, false)));
    let full = super::mean(full);
    let later = super::mean(Moments::of(runs.figures(Flow::Udp).filter_map(strongest_within)));
    Ok(Outcome {
        facts: Facts::of([("plain", plain.into()), ("later", later.into()), ("growth", growth.into())]),
        tables: vec![table, delayed(&runs)],
        figures: vec![figure(&runs), by_delay(&runs)],
        checks: vec![
            Check::at_most("correlation of goodput and round-trip time is negative", plain, 0.0),
            Check::at_most("the same over a bandwidth that holds for 3 s and a queue of 200 KB", full, -0.5),
            Check::at_most("correlation of goodput and the round trip's growth", growth, -0.5),
        ],
        ..Outcome::default()
    })
}

/// Correlation of goodput and the round-trip time `later` intervals later.
fn correlation_later(figures: &Figures, later: usize) -> Option<f64> {
    let pairs = pairs(figures);
    let moved = pairs.iter().zip(pairs.iter().skip(later)).map(|(now, then)| (now.0, then.1));
    pearson(&moved.collect::<Vec<_>>())
}

/// The strongest of these, up to [`LATEST`]: the least, for they are negative.
fn strongest_within(figures: &Figures) -> Option<f64> {
    (0..=LATEST).filter_map(|later| correlation_later(figures, later)).reduce(f64::min)
}

/// The same over links that lose more, and whose bandwidth stays low for longer.
fn delayed(runs: &Runs<Flow>) -> Table {
    let mut table = Table::new("What makes goodput and round-trip time go together", "UDP at 4 Mbit/s over")
        .column(Source::Ours, "RTT", "ms", 0)
        .column(Source::Ours, "lost", "%", 1)
        .column(Source::Ours, "correlation, same half second", "", 2)
        .column(Source::Ours, "strongest within 2 s", "", 2);
    for (case, label) in UDP_CASES {
        let of = |value: &dyn Fn(&Figures) -> Option<f64>| {
            Moments::of(runs.figures(case).filter_map(value)).into()
        };
        let values = vec![
            of(&|f| Some(f.udp.as_ref()?.rtt_ms?.mean)),
            of(&|f| Some(f.udp.as_ref()?.loss * 100.0)),
            of(&|f| correlation_of(f, false)),
            of(&strongest_within),
        ];
        table.row(label, values);
    }
    table
}

/// Correlation over how much later the round-trip time is taken.
fn by_delay(runs: &Runs<Flow>) -> Figure {
    let curve = |(case, label): (Flow, &str)| {
        let of = |later| Moments::of(runs.figures(case).filter_map(|f| correlation_later(f, later)));
        let means = (0..=2 * LATEST).map(|later| (later as f64 * INTERVAL_S, of(later)));
        Series::of(label, Source::Ours, Mark::Dotted, means)
    };
    Figure::new("later", Axis::linear("the round-trip time is so much later, seconds"))
        .panel(Axis::linear_from("correlation", -1.0), UDP_CASES.into_iter().map(curve).collect())
}

/// Goodput and round-trip time of the intervals that have both.
fn pairs(figures: &Figures) -> Vec<(f64, f64)> {
    let Some(udp) = &figures.udp else { return Vec::new() };
    let bin = figures.series.bin_s;
    let known: Vec<f64> = udp.rtt_series_ms.iter().map(|rtt| rtt.unwrap_or(f64::NAN)).collect();
    let goodput = rebinned(&figures.series.goodput_mbps, bin, INTERVAL_S);
    let both = goodput.into_iter().zip(rebinned(&known, bin, INTERVAL_S));
    both.filter(|(_, rtt)| rtt.is_finite()).collect()
}

fn correlation_of(figures: &Figures, of_growth: bool) -> Option<f64> {
    let pairs = pairs(figures);
    if !of_growth {
        return pearson(&pairs);
    }
    let grown = pairs.windows(2).map(|two| (two[1].0, two[1].1 - two[0].1)).collect::<Vec<_>>();
    pearson(&grown)
}

/// Pearson's coefficient; none for fewer than three pairs, or where one of both never changes.
fn pearson(pairs: &[(f64, f64)]) -> Option<f64> {
    let count = pairs.len() as f64;
    let mean = |value: fn(&(f64, f64)) -> f64| pairs.iter().map(value).sum::<f64>() / count;
    let (x, y) = (mean(|p| p.0), mean(|p| p.1));
    let sum = |value: &dyn Fn(f64, f64) -> f64| pairs.iter().map(|p| value(p.0 - x, p.1 - y)).sum::<f64>();
    let spread = sum(&|dx, _| dx * dx) * sum(&|_, dy| dy * dy);
    (pairs.len() > 2 && spread > 0.0).then(|| sum(&|dx, dy| dx * dy) / spread.sqrt())
}

fn figure(runs: &Runs<Flow>) -> Figure {
    let pairs = runs.first(Flow::Udp).map_or(Vec::new(), pairs);
    let (goodput, rtt): (Vec<_>, Vec<_>) = pairs.into_iter().unzip();
    let curve = |name, values: Vec<f64>| {
        let values: Vec<Option<f64>> = values.into_iter().map(Some).collect();
        vec![Series::over_time(name, Source::Ours, INTERVAL_S, &values)]
    };
    let end = rtt.len() as f64 * INTERVAL_S;
    let mut rtt_and_mean = curve("round-trip time", rtt);
    let name = "mean in Table 1 of the paper: 287";
    rtt_and_mean.push(Series::level(name, Source::Paper, (0.0, end), PAPER_RTT_MS));
    Figure::new("udp", Axis::linear("seconds"))
        .panel(Axis::linear("Mbit/s"), curve("goodput", goodput))
        .panel(Axis::linear("RTT, ms"), rtt_and_mean)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn correlation_of_lines_and_of_what_never_changes() {
        let close = |pairs: &[(f64, f64)], wanted: f64| (pearson(pairs).unwrap() - wanted).abs() < 1e-9;
        assert!(close(&[(1.0, 2.0), (2.0, 4.0), (3.0, 6.0)], 1.0));
        assert!(close(&[(1.0, 6.0), (2.0, 4.0), (3.0, 2.0)], -1.0));
        assert!(close(&[(1.0, 0.0), (2.0, 1.0), (3.0, 0.0)], 0.0));
        assert_eq!(pearson(&[(1.0, 5.0), (2.0, 5.0), (3.0, 5.0)]), None);
        assert_eq!(pearson(&[(1.0, 5.0), (2.0, 6.0)]), None);
    }
}
