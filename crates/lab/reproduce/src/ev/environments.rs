//! [EV] Figs 6 to 8 and Tables 1 and 2: one video in five environments.

use figures::stats::{self, Moments};
use report::Environment;

use crate::case_id::case_ids;
use crate::experiment::built_in;
use crate::runs::{most, sorted};
use crate::{
    Axis, CaseId, Check, Context, Experiment, Facts, Figure, Host, InLab, Looking, Mark, Outcome, Paper,
    Point, ReproduceError, Runs, SeenPacket, Series, Source, Table,
};

pub(crate) const EXPERIMENT: Experiment = Experiment {
    name: "ev-environments",
    paper: Paper::Ev,
    part: "Figs 6–8, Tables 1, 2",
    prose: built_in!("ev/environments.md"),
    files: &[built_in!("ev/environments.toml")],
    seconds: 8,
    lab: InLab::Lacks,
    run,
};

case_ids! {
    /// The cases of `ev/environments.toml`.
    enum Place {
        Wired = "PC wired",
        Wifi = "PC Wi-Fi",
        Phone = "phone Wi-Fi",
        Cellular = "cellular",
        Train = "cellular, train",
    }
}

const WIRED: Place = Place::Wired;
const WIFI: Place = Place::Wifi;
const PHONE: Place = Place::Phone;
const CELLULAR: Place = Place::Cellular;
const TRAIN: Place = Place::Train;

/// Tables 1 and 2 and Fig 8: retransmitted packets of each sample, lost packets and resets in percent,
/// packets out of order over all samples, and the highest packets per second that Fig 8 shows.
struct Row {
    place: Place,
    retransmitted: &'static [f64],
    lost: f64,
    out_of_order: f64,
    resets: f64,
    peak: Option<f64>,
}

const PAPER: [Row; 5] = [
    Row {
        place: CELLULAR,
        retransmitted: &[0.85, 0.7, 1.2],
        lost: 0.387,
        out_of_order: 4.0,
        resets: 0.601,
        peak: Some(200.0),
    },
    Row {
        place: TRAIN,
        retransmitted: &[3.9, 3.1, 2.7],
        lost: 0.39,
        out_of_order: 8.0,
        resets: 0.806,
        peak: Some(75.0),
    },
    Row {
        place: PHONE,
        retransmitted: &[0.4, 0.2],
        lost: 0.215,
        out_of_order: 17.0,
        resets: 0.111,
        peak: None,
    },
    Row { place: WIFI, retransmitted: &[0.0], lost: 0.096, out_of_order: 1.0, resets: 0.128, peak: None },
    Row {
        place: WIRED,
        retransmitted: &[0.0],
        lost: 0.195,
        out_of_order: 0.0,
        resets: 0.07,
        peak: Some(2250.0),
    },
];
/// §4: packets of a sample.
const PACKETS: u64 = 20_000;
/// §5.1: throughput below which about 70 % of the packets on the train are, and under 10 % of the
/// others. The paper writes bytes per second.
const SLOW_KBPS: f64 = 10.0;
/// Seconds of Fig 8 that are drawn.
const SHOWN_FAST_S: usize = 60;
const SHOWN_SLOW_S: usize = 200;
/// Data packets that a throughput is reckoned over, as tcptrace's.
const OVER: usize = 10;

/// Results of a capture of one environment.
struct Measured {
    place: Place,
    environment: Environment,
    /// KB/s over the last ten data packets, at each of them.
    throughput: Vec<f64>,
    /// Round trips by timestamps, ms.
    rtt: Vec<f64>,
    /// Packets in each second of the first sample.
    per_second: Vec<f64>,
    /// Seconds that each sample took.
    seconds: Vec<f64>,
}

fn measure(runs: &Runs<Place>, place: Place) -> Measured {
    let mut measured = Measured {
        place,
        environment: Environment::new(place.name()),
        throughput: Vec::new(),
        rtt: Vec::new(),
        per_second: Vec::new(),
        seconds: Vec::new(),
    };
    for run in runs.of(place) {
        measured.environment.begin(format!("seed {}", run.result.seed));
        for flow in &run.seen.at_client {
            measured.environment.push(flow);
        }
        let packets = &run.seen.packets;
        measured.throughput.extend(throughputs(packets));
        measured.rtt.extend(packets.iter().filter(|p| p.is_down).filter_map(|p| p.rtt_by_timestamps_ms));
        let span = packets.first().zip(packets.last()).map(|(first, last)| last.at_s - first.at_s);
        measured.seconds.extend(span);
        if measured.per_second.is_empty() {
            measured.per_second = per_second(packets);
        }
    }
    measured
}

/// KB/s over the last [`OVER`] data packets from the server, at each of them.
fn throughputs(packets: &[SeenPacket]) -> Vec<f64> {
    let data: Vec<&SeenPacket> = packets.iter().filter(|p| p.is_down && p.payload > 0).collect();
    let rate = |window: &[&SeenPacket]| {
        let (first, last) = window.first().zip(window.last())?;
        let bytes: u64 = window.iter().skip(1).map(|p| p.payload).sum();
        let time = last.at_s - first.at_s;
        (time > 0.0).then(|| bytes as f64 / time / 1e3)
    };
    data.windows(OVER + 1).filter_map(rate).collect()
}

/// Packets of both directions in each second.
fn per_second(packets: &[SeenPacket]) -> Vec<f64> {
    let mut counts = Vec::new();
    for packet in packets {
        let second = packet.at_s as usize;
        if counts.len() <= second {
            counts.resize(second + 1, 0.0);
        }
        counts[second] += 1.0;
    }
    counts
}

fn share_below(values: &[f64], limit: f64) -> f64 {
    100.0 * values.iter().filter(|v| **v < limit).count() as f64 / values.len().max(1) as f64
}

fn median(values: &[f64]) -> f64 {
    stats::median(&sorted(values.iter().copied())).unwrap_or(f64::NAN)
}

fn run(context: &mut Context<'_>) -> Result<Outcome, ReproduceError> {
    let scenario = context.scenario("ev/environments.toml")?;
    let looking = Looking {
        flows: true,
        packets_of: Some(Host::Client),
        packets_max: Some(PACKETS),
        ..Looking::default()
    };
    let runs = context.watch(&scenario, looking)?;
    let adaptive = context.run_adaptive(&scenario)?;
    let all: Vec<Measured> = PAPER.iter().map(|row| measure(&runs, row.place)).collect();
    let least = adaptive.least_goodput_over(&runs);
    let longest = adaptive.longest_queue_over(&runs);
    Ok(Outcome {
        facts: facts(&all),
        tables: vec![table_1(&all), table_2(&all), others(&all, &runs, &adaptive)],
        figures: figures(&all),
        checks: checks(&all, least, longest),
        ..Outcome::default()
    })
}

/// A figure of the captures of one environment; no number where it was not run.
fn at(all: &[Measured], place: Place, value: impl Fn(&Measured) -> f64) -> f64 {
    all.iter().find(|measured| measured.place == place).map_or(f64::NAN, value)
}

fn resent(all: &[Measured], place: Place) -> f64 {
    at(all, place, |m| mean(&resent_percent(m)))
}

fn slow(all: &[Measured], place: Place) -> f64 {
    at(all, place, |m| share_below(&m.throughput, SLOW_KBPS))
}

fn facts(all: &[Measured]) -> Facts {
    Facts::of([
        ("train_resent", resent(all, TRAIN).into()),
        ("cell_resent", resent(all, CELLULAR).into()),
        ("phone_resent", resent(all, PHONE).into()),
        ("pc_resent", resent(all, WIRED).into()),
        ("minutes", at(all, TRAIN, |m| mean(&m.seconds) / 60.0).into()),
        ("train_slow", slow(all, TRAIN).into()),
        ("cell_slow", slow(all, CELLULAR).into()),
    ])
}

/// `least` and `longest` are the worst of what `adaptive` has of CUBIC's goodput and of its queue.
fn checks(all: &[Measured], least: f64, longest: f64) -> Vec<Check> {
    let resent = |place| resent(all, place);
    let slow = |place| slow(all, place);
    let highest = |place| at(all, place, |m| most(m.per_second.iter().copied()));
    vec![
        Check::at_least(
            "retransmitted on the train ÷ in the cell (paper 3.5)",
            resent(TRAIN) / resent(CELLULAR),
            2.0,
        ),
        Check::at_least(
            "retransmitted in the cell ÷ in the phone's Wi-Fi (paper 3)",
            resent(CELLULAR) / resent(PHONE),
            1.5,
        ),
        Check::at_most("retransmitted on the wired PC, percent (paper 0)", resent(WIRED), 0.05),
        Check::at_least("packets under 10 KB/s on the train, percent (paper about 70)", slow(TRAIN), 70.0),
        Check::at_most("packets under 10 KB/s in the cell, percent (paper under 10)", slow(CELLULAR), 10.0),
        Check::at_most("median RTT on the PC, ms (paper 0 to 10)", at(all, WIRED, |m| median(&m.rtt)), 20.0),
        Check::at_least("highest packets/s, PC ÷ cell (paper 11)", highest(WIRED) / highest(CELLULAR), 8.0),
        Check::at_least(
            "highest packets/s, cell ÷ train (paper 2.7)",
            highest(CELLULAR) / highest(TRAIN),
            2.0,
        ),
        Check::at_least("least goodput of adaptive ÷ CUBIC", least, 0.97),
        Check::at_most("longest queue p95 of adaptive ÷ CUBIC", longest, 1.05),
    ]
}

fn mean(values: &[f64]) -> f64 {
    stats::mean(values.iter().copied()).unwrap_or(f64::NAN)
}

fn percent(part: u64, whole: u64) -> f64 {
    100.0 * part as f64 / whole.max(1) as f64
}

fn resent_percent(measured: &Measured) -> Vec<f64> {
    measured.environment.samples.iter().map(|s| percent(s.retransmitted, s.packets)).collect()
}

fn table_1(all: &[Measured]) -> Table {
    let mut table = Table::new("Table 1: retransmitted packets, percent", "environment");
    for sample in 1..=3 {
        let heading = format!("sample {sample}");
        table = table.column(Source::Paper, &heading, "%", 2).column(Source::Ours, &heading, "%", 2);
    }
    for (row, measured) in PAPER.iter().zip(all) {
        let ours = resent_percent(measured);
        let pair = |i: usize| [row.retransmitted.get(i).copied().into(), ours.get(i).copied().into()];
        table.row(row.place.label(), (0..3).flat_map(pair).collect());
    }
    table
}

fn table_2(all: &[Measured]) -> Table {
    let mut table = Table::new("Table 2: lost packets, out of order, resets", "environment")
        .column(Source::Paper, "lost", "%", 3)
        .column(Source::Ours, "lost", "%", 3)
        .column(Source::Paper, "out of order", "packets", 0)
        .column(Source::Ours, "filled holes", "packets", 0)
        .column(Source::Paper, "resets", "%", 3)
        .column(Source::Ours, "resets", "%", 3);
    for (row, measured) in PAPER.iter().zip(all) {
        let sum = |read: fn(&report::CaptureCounts) -> u64| {
            measured.environment.samples.iter().map(read).sum::<u64>()
        };
        let packets = sum(|s| s.packets);
        table.row(
            row.place.label(),
            vec![
                row.lost.into(),
                percent(sum(|s| s.lost), packets).into(),
                row.out_of_order.into(),
                (sum(|s| s.out_of_order) as f64).into(),
                row.resets.into(),
                percent(sum(|s| s.reset), sum(|s| s.connections)).into(),
            ],
        );
    }
    table
}

fn others(all: &[Measured], runs: &Runs<Place>, adaptive: &Runs<Place>) -> Table {
    let mut table = Table::new("Speed, and the accelerator on the same links", "environment")
        .column(Source::Paper, "highest", "packets/s", 0)
        .column(Source::Ours, "highest", "packets/s", 0)
        .column(Source::Ours, "median RTT", "ms", 1)
        .column(Source::Ours, "under 10 KB/s", "% of packets", 1)
        .column(Source::Ours, "20,000 packets take", "s", 0)
        .column(Source::Ours, "goodput", "Mbit/s", 2)
        .column(Source::Adaptive, "goodput", "Mbit/s", 2)
        .column(Source::Ours, "queue p95", "ms", 0)
        .column(Source::Adaptive, "queue p95", "ms", 0);
    for (row, measured) in PAPER.iter().zip(all) {
        table.row(
            row.place.label(),
            vec![
                row.peak.into(),
                most(measured.per_second.iter().copied()).into(),
                median(&measured.rtt).into(),
                share_below(&measured.throughput, SLOW_KBPS).into(),
                Moments::of(measured.seconds.iter().copied()).into(),
                runs.goodput(row.place).into(),
                adaptive.goodput(row.place).into(),
                runs.queue_p95(row.place).into(),
                adaptive.queue_p95(row.place).into(),
            ],
        );
    }
    table
}

fn figures(all: &[Measured]) -> Vec<Figure> {
    let of = |place: Place| all.iter().find(|m| m.place == place);
    let curve = |place: Place, read: fn(&Measured) -> &[f64]| {
        let values = of(place).into_iter().flat_map(read);
        Series::distribution(place.label(), &sorted(values.copied()))
    };
    let five = |read: fn(&Measured) -> &[f64]| {
        [WIRED, WIFI, PHONE, CELLULAR, TRAIN].map(|place| curve(place, read)).to_vec()
    };
    let two = |read: fn(&Measured) -> &[f64]| [CELLULAR, TRAIN].map(|place| curve(place, read)).to_vec();
    let known =
        |name: &str, x: f64, y: f64| Series::new(name, Source::Paper, Mark::Dots, vec![Point::new(x, y)]);
    let mut slow = two(|m| &m.throughput);
    // In the order of the curves that they belong to, which gives them their colours.
    slow.push(known("paper: under 10 % at rest", SLOW_KBPS, 10.0));
    slow.push(known("paper: 70 % moving", SLOW_KBPS, 70.0));
    let throughput = Figure::new("throughput", Axis::log("KB/s"))
        .panel(Axis::linear("% of packets"), five(|m| &m.throughput))
        .panel(Axis::linear("% of packets"), slow);
    let mut on_the_pc = five(|m| &m.rtt);
    on_the_pc.push(known("paper: all of the PC within 10 ms", 10.0, 100.0));
    let rtt = Figure::new("rtt", Axis::log("ms"))
        .panel(Axis::linear("% of round trips"), on_the_pc)
        .panel(Axis::linear("% of round trips"), two(|m| &m.rtt));
    let seconds = |place: Place, most: usize| {
        let counts = of(place).map_or(&[][..], |m| &m.per_second[..]);
        counts.iter().take(most).enumerate().map(|(i, y)| Point::new(i as f64, *y)).collect::<Vec<_>>()
    };
    let peak = |name: &str, y: f64, end: f64| Series::level(name, Source::Paper, (0.0, end), y);
    let io = |place: Place, most| Series::new(place.label(), Source::Ours, Mark::Line, seconds(place, most));
    let graph = |name: &str, series| {
        Figure::new(name, Axis::linear("seconds")).panel(Axis::linear("packets/s"), series)
    };
    let fast = graph(
        "fast",
        vec![
            io(WIRED, SHOWN_FAST_S),
            io(WIFI, SHOWN_FAST_S),
            io(PHONE, SHOWN_FAST_S),
            peak("PC, paper: 2250", 2250.0, SHOWN_FAST_S as f64),
        ],
    );
    let slow = graph(
        "slow",
        vec![
            io(CELLULAR, SHOWN_SLOW_S),
            io(TRAIN, SHOWN_SLOW_S),
            peak("cellular, paper: 200", 200.0, SHOWN_SLOW_S as f64),
            peak("train, paper: 75", 75.0, SHOWN_SLOW_S as f64),
        ],
    );
    vec![throughput, rtt, fast, slow]
}

#[cfg(test)]
mod tests {
    use super::*;

    fn packet(at_s: f64, payload: u64) -> SeenPacket {
        SeenPacket {
            at_s,
            is_down: true,
            position: 0,
            payload,
            ack: None,
            rtt_ms: None,
            rtt_by_timestamps_ms: None,
            is_retransmission: false,
        }
    }

    #[test]
    fn throughput_and_packets_per_second_of_an_even_stream() {
        let packets: Vec<SeenPacket> = (0..100).map(|i| packet(f64::from(i) * 0.1, 1_000)).collect();
        assert!(throughputs(&packets).iter().all(|kb| (kb - 10.0).abs() < 1e-6));
        assert_eq!(throughputs(&packets).len(), 100 - OVER);
        assert_eq!(per_second(&packets).len(), 10);
        let of = [1.0, 2.0, 3.0, 4.0];
        assert!((median(&of) - 2.5).abs() < 1e-9 && (share_below(&of, 2.5) - 50.0).abs() < 1e-9);
        assert!(median(&[]).is_nan());
    }
}
