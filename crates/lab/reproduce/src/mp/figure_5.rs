//! [MP] Fig 5: an RTT that rises to 200 ms and falls at a loss.

use figures::stats;

use super::{mean, over_runs};
use crate::case_id::case_ids;
use crate::experiment::built_in;
use crate::runs::most;
use crate::{
    Axis, Check, Context, Experiment, Facts, Figure, Host, InLab, Looking, Mark, Outcome, Paper, Point,
    ReproduceError, Runs, SeenPacket, Series, Source, Table,
};

pub(crate) const EXPERIMENT: Experiment = Experiment {
    name: "mp-figure-5",
    paper: Paper::Mp,
    part: "Fig 5",
    prose: built_in!("mp/figure-5.md"),
    files: &[built_in!("mp/figure-5.toml"), built_in!("mp/figure-5-lab.toml")],
    seconds: 3,
    lab: InLab::Takes(105),
    run,
};

case_ids! {
    /// The cases of `mp/figure-5.toml`.
    enum Network { Verizon4g = "Verizon 4G", Att4g = "AT&T 4G" }
}

const VERIZON: Network = Network::Verizon4g;
const ATT: Network = Network::Att4g;
/// §IV-A: largest RTT, that of the handshake, and what their mean is, ms.
const PAPER_MAX_MS: f64 = 200.0;
const PAPER_HANDSHAKE_MS: f64 = 40.57;
const PAPER_MEAN_MS: f64 = 120.285;
/// A loss is answered within so long; round trips before it are looked at for as long, seconds.
const AROUND_S: f64 = 1.5;
/// Round trips are drawn as means over so long, seconds: single ones jump by the slots of the uplink.
const DRAWN_S: f64 = 0.25;

fn packets(runs: &Runs<Network>, case: Network) -> impl Iterator<Item = &SeenPacket> {
    runs.of(case).take(1).flat_map(|run| &run.seen.packets)
}

fn rtts(runs: &Runs<Network>, case: Network) -> Vec<Point> {
    packets(runs, case).filter_map(|p| Some(Point::new(p.at_s, p.rtt_ms?))).collect()
}

/// Times at which the sender began to repair, losses close to each other once.
fn losses(runs: &Runs<Network>, case: Network) -> Vec<f64> {
    let mut at: Vec<f64> = Vec::new();
    for packet in packets(runs, case).filter(|p| p.is_down && p.is_retransmission) {
        if at.last().is_none_or(|last| packet.at_s - last > AROUND_S) {
            at.push(packet.at_s);
        }
    }
    at
}

/// Mean over the losses of: the largest round trip shortly before it, and the smallest shortly after it.
fn around_losses(rtts: &[Point], losses: &[f64]) -> Option<(f64, f64)> {
    let extreme = |from: f64, to: f64, pick: fn(f64, f64) -> f64| {
        rtts.iter().filter(|p| p.x >= from && p.x < to).map(|p| p.y).reduce(pick)
    };
    let pairs: Vec<(f64, f64)> = losses
        .iter()
        .filter_map(|at| {
            Some((extreme(at - AROUND_S, *at, f64::max)?, extreme(*at, at + AROUND_S, f64::min)?))
        })
        .collect();
    let count = pairs.len() as f64;
    let sum = pairs.iter().fold((0.0, 0.0), |(a, b), (high, low)| (a + high, b + low));
    (count > 0.0).then(|| (sum.0 / count, sum.1 / count))
}

/// Means of the points in intervals of `width`, at their middles; intervals without points are left out.
fn averaged(points: &[Point], width: f64) -> Vec<Point> {
    let same = |a: &Point, b: &Point| (a.x / width).floor() == (b.x / width).floor();
    let mean = |chunk: &[Point]| {
        let first = chunk.first()?;
        let y = stats::mean(chunk.iter().map(|p| p.y))?;
        Some(Point::new(((first.x / width).floor() + 0.5) * width, y))
    };
    points.chunk_by(same).filter_map(mean).collect()
}

fn run(context: &mut Context<'_>) -> Result<Outcome, ReproduceError> {
    let scenario = context.scenario("mp/figure-5.toml")?;
    let looking = Looking { flows: true, packets_of: Some(Host::Server), ..Looking::default() };
    let runs = context.watch(&scenario, looking)?;
    let adaptive = context.run_adaptive(&scenario)?;
    let points = rtts(&runs, ATT);
    let events = losses(&runs, ATT);
    let (before, after) = around_losses(&points, &events).unwrap_or((f64::NAN, f64::NAN));
    let largest = most(points.iter().map(|p| p.y));
    let average = mean(over_runs(&runs, ATT, |m| m.rtt_ms()));
    let mut table = Table::new("RTT of AT&T's 4G, at the server", "figure")
        .column(Source::Paper, "value", "ms", 1)
        .column(Source::Ours, "value", "ms", 1);
    table.row(
        "handshake",
        vec![PAPER_HANDSHAKE_MS.into(), over_runs(&runs, ATT, |m| m.handshake_ms()).into()],
    );
    table.row("largest", vec![PAPER_MAX_MS.into(), largest.into()]);
    table.row("mean", vec![PAPER_MEAN_MS.into(), average.into()]);
    table.row("before a loss", vec![PAPER_MAX_MS.into(), before.into()]);
    table.row("after it", vec![40.0.into(), after.into()]);
    let queue = |runs: &Runs<Network>| mean(runs.moments(ATT, |f| f.radio.queue_delay_ms.mean));
    let goodput = |runs: &Runs<Network>| mean(runs.goodput(ATT));
    Ok(Outcome {
        facts: Facts::of([
            ("before", before.into()),
            ("losses", events.len().into()),
            ("after", after.into()),
            ("average", average.into()),
            ("share", (goodput(&adaptive) / goodput(&runs)).into()),
            ("adaptive_queue", queue(&adaptive).into()),
            ("queue", queue(&runs).into()),
        ]),
        tables: vec![table],
        figures: vec![figure(&runs, &points, &events)],
        checks: vec![
            Check::at_least("largest RTT, ms (paper 200)", largest, 180.0),
            Check::at_most("largest RTT, ms (paper 200)", largest, 220.0),
            Check::at_most("RTT after a loss ÷ before it (paper 0.2)", after / before, 0.6),
            Check::at_most(
                "mean RTT, farthest from the paper's 120.3 ms, share",
                (average / PAPER_MEAN_MS - 1.0).abs(),
                0.2,
            ),
            Check::at_least("goodput of adaptive ÷ NewReno", goodput(&adaptive) / goodput(&runs), 0.97),
            Check::at_most("mean queue of adaptive ÷ NewReno", queue(&adaptive) / queue(&runs), 1.0),
        ],
        ..Outcome::default()
    })
}

fn figure(runs: &Runs<Network>, att: &[Point], events: &[f64]) -> Figure {
    let end = att.last().map_or(1.0, |p| p.x);
    let stems = |events: &[f64], top: f64| events.iter().map(|at| Point::new(*at, top)).collect::<Vec<_>>();
    let dots =
        |name: &str, points: &[Point]| Series::new(name, Source::Ours, Mark::Line, averaged(points, DRAWN_S));
    let lost = |points| Series::new("loss repaired", Source::Limit, Mark::Stems, points);
    Figure::new("rtt", Axis::linear("seconds"))
        .panel(
            Axis::linear("AT&T 4G, ms"),
            vec![
                lost(stems(events, PAPER_MAX_MS)),
                Series::level("paper: largest", Source::Paper, (0.0, end), PAPER_MAX_MS),
                dots("AT&T 4G", att),
            ],
        )
        .panel(
            Axis::linear("Verizon 4G, ms"),
            vec![lost(stems(&losses(runs, VERIZON), 120.0)), dots("Verizon 4G", &rtts(runs, VERIZON))],
        )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_saw_tooth_is_measured_around_its_losses() {
        let tooth: Vec<Point> =
            (0..300).map(|i| Point::new(f64::from(i) * 0.1, 40.0 + f64::from(i % 100))).collect();
        let (before, after) = around_losses(&tooth, &[10.0, 20.0]).unwrap();
        assert!((before - 139.0).abs() < 1e-9 && (after - 40.0).abs() < 1e-9, "{before} {after}");
        assert_eq!(around_losses(&tooth, &[]), None);
        let means = averaged(&tooth, 1.0);
        assert_eq!(means.len(), 30);
        assert!((means[0].x - 0.5).abs() < 1e-9 && (means[0].y - 44.5).abs() < 1.0, "{:?}", means[0]);
    }
}
