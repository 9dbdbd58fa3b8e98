//! [`Comparison`]: environments against each other, as [EV] and [MP] tabulate them.
//!
//! An environment is a name for some captures; each capture is a sample (a run). Rates of a flow are of the
//! direction with most data.

use std::fmt::Write as _;

use analysis::{DirectionReport, End, FlowReport};
use figures::stats::{Moments, mann_whitney, median_interval};
use serde::Serialize;

/// A flow with fewer data packets tells nothing about a path's throughput and loss.
const BULK_PACKETS: u64 = 10;

/// Counts of one capture, as in [EV] Tables 1 and 2.
#[derive(Clone, Debug, Default, Serialize)]
pub struct CaptureCounts {
    /// The capture.
    pub file: String,
    /// TCP packets.
    pub packets: u64,
    /// Retransmitted packets: data, SYN and FIN.
    pub retransmitted: u64,
    /// Packets lost: retransmissions that were needed, and losses before the capture point.
    pub lost: u64,
    /// Packets out of order: they filled holes, late or repairing.
    pub out_of_order: u64,
    /// Connections.
    pub connections: u64,
    /// Of these, reset by either end.
    pub reset: u64,
    /// Recalculations of windows: congestion windows reduced, and windows that a receiver advertised anew.
    pub recalculations: u64,
    /// The run's flow with most data, as [MP] measures it; none without data.
    pub run: Option<Run>,
    /// Bytes of that flow.
    #[serde(skip)]
    run_bytes: u64,
}

impl CaptureCounts {
    fn add(&mut self, direction: &DirectionReport) {
        let r = &direction.retransmissions;
        let again = r.data_packets + r.syn + r.fin;
        self.packets += direction.volume.packets;
        self.retransmitted += again;
        self.lost += again.saturating_sub(r.spurious) + direction.loss.before_capture;
        self.out_of_order += direction.loss.hole_fills;
        let reduced = direction.sender.window_reductions.map_or(0, |w| w.fast + w.time_outs + w.ecn);
        self.recalculations += reduced + direction.window.updates;
    }
}

/// One transfer, by [MP]'s definitions.
#[derive(Clone, Copy, Debug, Serialize)]
pub struct Run {
    /// Bytes over elapsed time, Mbit/s.
    pub throughput_mbps: f64,
    /// Mean RTT of segments sent once, milliseconds.
    pub rtt_ms: Option<f64>,
    /// Retransmitted data packets over data packets, percent.
    pub loss_percent: Option<f64>,
    /// RTT of the handshake, milliseconds.
    pub handshake_ms: Option<f64>,
}

/// All samples of one environment, and values of its flows.
#[derive(Clone, Debug, Default, Serialize)]
pub struct Environment {
    /// Its name.
    pub name: String,
    /// Its captures.
    pub samples: Vec<CaptureCounts>,
    /// Throughput while data flowed, Mbit/s, of flows with data enough.
    pub throughput_mbps: Vec<f64>,
    /// Median RTT of each flow, milliseconds.
    pub rtt_ms: Vec<f64>,
    /// Handshakes, milliseconds.
    pub handshake_ms: Vec<f64>,
    /// Retransmitted data packets, percent, of flows with data enough.
    pub loss_percent: Vec<f64>,
}

impl Environment {
    /// An environment without captures.
    #[must_use]
    pub fn new(name: String) -> Self {
        Self { name, ..Self::default() }
    }

    /// The next capture's flows follow.
    pub fn begin(&mut self, file: String) {
        self.samples.push(CaptureCounts { file, ..CaptureCounts::default() });
    }

    /// Adds a flow to the last sample.
    pub fn push(&mut self, flow: &FlowReport) {
        let data = &flow.directions[flow.main_direction()];
        let is_bulk = data.volume.data_packets >= BULK_PACKETS;
        self.throughput_mbps.extend(data.throughput.active_bps.filter(|_| is_bulk).map(|bps| bps / 1e6));
        self.rtt_ms.extend(data.rtt.karn.map(|rtt| rtt.p50_ms));
        self.handshake_ms.extend(flow.handshake.total_ms);
        self.loss_percent.extend(data.loss.rate.filter(|_| is_bulk).map(|rate| rate * 100.0));
        let Some(sample) = self.samples.last_mut() else { return };
        sample.connections += 1;
        sample.reset += u64::from(matches!(flow.end, End::ResetByFirst | End::ResetBySecond));
        for direction in &flow.directions {
            sample.add(direction);
        }
        if let Some(run) = run_of(data, flow).filter(|_| data.volume.unique_bytes > sample.run_bytes) {
            (sample.run, sample.run_bytes) = (Some(run), data.volume.unique_bytes);
        }
    }

    fn sum(&self, read: impl Fn(&CaptureCounts) -> u64) -> u64 {
        self.samples.iter().map(read).sum()
    }
}

fn run_of(data: &DirectionReport, flow: &FlowReport) -> Option<Run> {
    Some(Run {
        throughput_mbps: data.throughput.elapsed_bps? / 1e6,
        rtt_ms: data.rtt.karn.map(|rtt| rtt.mean_ms),
        loss_percent: data.loss.rate.map(|rate| rate * 100.0),
        handshake_ms: flow.handshake.total_ms,
    })
}

/// All tables as text.
#[must_use]
pub fn comparison(environments: &[Environment]) -> String {
    let mut text = String::new();
    samples(&mut text, environments);
    totals(&mut text, environments);
    figures(&mut text, environments);
    runs(&mut text, environments);
    text
}

fn percent(part: u64, whole: u64) -> String {
    if whole == 0 { "-".to_owned() } else { format!("{:.3}", 100.0 * part as f64 / whole as f64) }
}

/// [EV] Table 1, with what Table 2 sums up.
fn samples(text: &mut String, environments: &[Environment]) {
    let _ = writeln!(
        text,
        "Samples: packets retransmitted, lost, out of order; windows recalculated; connections reset ([EV] \
         Table 1)\n"
    );
    let _ = writeln!(
        text,
        "{:<20} {:>6} {:>9} {:>8} {:>8} {:>8} {:>8} {:>6} {:>6}  file",
        "environment", "sample", "packets", "resent %", "lost %", "order", "recalc", "conns", "reset"
    );
    for environment in environments {
        for (index, s) in environment.samples.iter().enumerate() {
            let _ = writeln!(
                text,
                "{:<20} {:>6} {:>9} {:>8} {:>8} {:>8} {:>8} {:>6} {:>6}  {}",
                environment.name,
                index + 1,
                s.packets,
                percent(s.retransmitted, s.packets),
                percent(s.lost, s.packets),
                s.out_of_order,
                s.recalculations,
                s.connections,
                s.reset,
                s.file
            );
        }
    }
    text.push('\n');
}

/// [EV] Table 2.
fn totals(text: &mut String, environments: &[Environment]) {
    let _ = writeln!(text, "Environments ([EV] Table 2)\n");
    let _ = writeln!(
        text,
        "{:<20} {:>7} {:>10} {:>10} {:>13} {:>17} {:>18}",
        "environment",
        "samples",
        "resent %",
        "lost %",
        "out of order",
        "reset % of conns",
        "reset % of packets"
    );
    for e in environments {
        let packets = e.sum(|s| s.packets);
        let _ = writeln!(
            text,
            "{:<20} {:>7} {:>10} {:>10} {:>13} {:>17} {:>18}",
            e.name,
            e.samples.len(),
            percent(e.sum(|s| s.retransmitted), packets),
            percent(e.sum(|s| s.lost), packets),
            e.sum(|s| s.out_of_order),
            percent(e.sum(|s| s.reset), e.sum(|s| s.connections)),
            percent(e.sum(|s| s.reset), packets)
        );
    }
    text.push('\n');
}

/// Medians over flows with their intervals, and whether an environment differs from the first.
fn figures(text: &mut String, environments: &[Environment]) {
    let _ = writeln!(
        text,
        "Flows: median with its 95 % confidence interval (order statistics), 5 and 95 %; p: Mann-Whitney \
         against the first\n"
    );
    let _ = writeln!(
        text,
        "{:<24} {:<20} {:>6} {:>10} {:>23} {:>10} {:>10} {:>8}",
        "figure", "environment", "n", "median", "95 % interval", "5 %", "95 %", "p"
    );
    type Read = fn(&Environment) -> &[f64];
    let all: [(&str, Read); 4] = [
        ("throughput, Mbit/s", |e| &e.throughput_mbps),
        ("RTT, ms", |e| &e.rtt_ms),
        ("handshake, ms", |e| &e.handshake_ms),
        ("retransmitted, %", |e| &e.loss_percent),
    ];
    for (name, read) in all {
        for (index, environment) in environments.iter().enumerate() {
            let values = read(environment);
            let Some(found) = median_interval(values) else { continue };
            let p = environments.first().filter(|_| index > 0).and_then(|f| mann_whitney(read(f), values));
            let range = found
                .interval
                .map_or_else(|| "too few".to_owned(), |(low, high)| format!("{low:.3} to {high:.3}"));
            let _ = writeln!(
                text,
                "{name:<24} {:<20} {:>6} {:>10.3} {range:>23} {:>10.3} {:>10.3} {:>8}",
                environment.name,
                values.len(),
                found.median,
                found.p5,
                found.p95,
                p.map_or_else(|| "-".to_owned(), |p| format!("{p:.4}"))
            );
        }
    }
    text.push('\n');
}

/// [MP] Tables II to IV: mean and standard deviation over runs.
fn runs(text: &mut String, environments: &[Environment]) {
    let _ = writeln!(
        text,
        "Runs: each capture's flow with most data, mean (standard deviation) ([MP] Tables II to IV)\n"
    );
    let _ = writeln!(
        text,
        "{:<20} {:>5} {:>22} {:>22} {:>20} {:>22}",
        "environment", "runs", "throughput Mbit/s", "RTT ms", "loss %", "handshake RTT ms"
    );
    for e in environments {
        let runs: Vec<Run> = e.samples.iter().filter_map(|sample| sample.run).collect();
        let column = |read: fn(&Run) -> Option<f64>| {
            Moments::of(runs.iter().filter_map(read)).map_or_else(|| "-".to_owned(), |of| paper_style(&of))
        };
        let _ = writeln!(
            text,
            "{:<20} {:>5} {:>22} {:>22} {:>20} {:>22}",
            e.name,
            runs.len(),
            column(|run| Some(run.throughput_mbps)),
            column(|run| run.rtt_ms),
            column(|run| run.loss_percent),
            column(|run| run.handshake_ms)
        );
    }
}

/// As [MP] prints it: the deviation in brackets.
fn paper_style(moments: &Moments) -> String {
    let deviation = moments.deviation().map_or_else(|| "-".to_owned(), |deviation| format!("{deviation:.3}"));
    format!("{:.3} ({deviation})", moments.mean)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tables_name_every_environment_and_the_paper_they_follow() {
        let mut wifi = Environment::new("wifi".to_owned());
        wifi.begin("a.pcap".to_owned());
        wifi.samples[0] = CaptureCounts {
            packets: 1_000,
            retransmitted: 10,
            lost: 8,
            connections: 4,
            reset: 1,
            ..CaptureCounts::default()
        };
        let run =
            Run { throughput_mbps: 10.0, rtt_ms: Some(40.0), loss_percent: Some(1.0), handshake_ms: None };
        wifi.samples[0].run = Some(run);
        wifi.throughput_mbps = (1..=20).map(f64::from).collect();
        let mut lte = wifi.clone();
        lte.name = "lte".to_owned();
        lte.throughput_mbps = (101..=120).map(f64::from).collect();
        let text = comparison(&[wifi, lte]);
        assert!(text.contains("[EV] Table 1") && text.contains("[MP] Tables II to IV"), "{text}");
        assert!(text.contains("1.000    0.800"), "retransmitted and lost in percent: {text}");
        let line = text.lines().find(|line| line.starts_with("throughput") && line.contains("lte")).unwrap();
        assert!(line.contains("110.500") && line.contains("0.0000"), "{line}");
        assert!(text.lines().any(|line| line.starts_with("lte") && line.contains("10.000 (-)")), "{text}");
    }
}
