//! [MA] Fig 4: goodput and round-trip time of UDP go together.

use scenario::results::Figures;

use crate::experiment::scenario_file;
use crate::{
    Axis, Check, Context, Experiment, Figure, Moments, Outcome, Paper, ReproduceError, Runs, Series, Source,
    Table, Value, rebinned,
};

pub(crate) const EXPERIMENT: Experiment = Experiment {
    name: "ma-figure-4",
    paper: Paper::Ma,
    part: "Fig 4",
    title: "Goodput and round-trip time",
    asked: "Can the round-trip time say how much bandwidth there is, when losses cannot?",
    found: "Yes: goodput and round-trip time of UDP at 4 Mbit/s are highly correlated.",
    files: &[scenario_file!("ma/figure-4.toml"), scenario_file!("ma/figure-4-lab.toml")],
    seconds: 3,
    lab_seconds: Some(130),
    run,
};

/// Intervals of the figure, seconds.
const INTERVAL_S: f64 = 0.5;

fn run(context: &mut Context<'_>) -> Result<Outcome, ReproduceError> {
    let scenario = context.scenario("ma/figure-4.toml")?;
    let runs = context.run(&scenario)?;
    let correlation = |value: fn(&Figures) -> Option<f64>| Moments::of(runs.figures("UDP").filter_map(value));
    let plain = correlation(|figures| correlation_of(figures, false));
    let growth = correlation(|figures| correlation_of(figures, true));
    let rtt = runs.moments("UDP", |f| f.udp.as_ref().and_then(|u| u.rtt_ms).map_or(f64::NAN, |rtt| rtt.mean));
    let mut table = Table::new("UDP at 4 Mbit/s, and a download with `adaptive` on the same link", "flow")
        .column(Source::Paper, "RTT", "ms", 0)
        .column(Source::Ours, "RTT", "ms", 0)
        .column(Source::Ours, "goodput", "Mbit/s", 2)
        .column(Source::Ours, "queue p95", "ms", 0)
        .column(Source::Ours, "correlation of goodput and RTT", "", 2)
        .column(Source::Ours, "of goodput and the RTT's growth", "", 2);
    let (goodput, queue) =
        (|case| runs.goodput(case).into(), |case| runs.queue_p95(case).map(|m| m.mean).into());
    // Table 1 has the round trip at this rate.
    table.row(
        "UDP",
        vec![287.0.into(), rtt.into(), goodput("UDP"), queue("UDP"), plain.into(), growth.into()],
    );
    table.row("adaptive", vec![Value::default(), Value::default(), goodput("adaptive"), queue("adaptive")]);
    let (plain, growth) = (super::mean(plain), super::mean(growth));
    Ok(Outcome {
        we_see: format!(
            "We see a correlation of {plain:.2} between goodput and round-trip time, and of {growth:.2} between goodput and the round trip's growth in the same \
             half second: when the bandwidth falls, the queue and with it the round trip rises."
        ),
        tables: vec![table],
        figures: figure(&runs).into_iter().collect(),
        notes: vec![
            "The paper gives no coefficient. A queue adds up what is missing: while bandwidth is short the round trip grows, and it stays high until there was more than \
             was sent. So its growth follows the goodput closer than its height does."
                .to_owned(),
        ],
        checks: vec![
            Check::at_most("correlation of goodput and round-trip time is negative", plain, 0.0),
            Check::at_most("correlation of goodput and the round trip's growth", growth, -0.5),
        ],
    })
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

fn figure(runs: &Runs) -> Option<Figure> {
    let (goodput, rtt): (Vec<_>, Vec<_>) = pairs(runs.first("UDP")?).into_iter().unzip();
    let curve = |name, values: Vec<f64>| {
        let values: Vec<Option<f64>> = values.into_iter().map(Some).collect();
        vec![Series::over_time(name, Source::Ours, INTERVAL_S, &values)]
    };
    Some(
        Figure::new(
            "Goodput and round-trip time of UDP at 4 Mbit/s",
            "Intervals of 500 ms: the goodput as its receiver sees it, the round trip as its sender does.",
            Axis::linear("seconds"),
        )
        .panel(Axis::linear("Mbit/s"), curve("goodput", goodput))
        .panel(Axis::linear("RTT, ms"), curve("round-trip time", rtt)),
    )
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
