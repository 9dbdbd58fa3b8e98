//! The experiments of [MP], multi-path TCP over cellular networks: what one path shows.

mod earlier_runs;
mod figure_1;
mod figure_5;
mod figure_6;
mod multi_path;
mod tables;

use analysis::{Direction, DirectionReport, FlowReport};

use figures::stats::Moments;

use crate::runs::mean;
use crate::{CaseId, Experiment, Run, Runs};

pub(crate) use earlier_runs::earlier_runs;
pub(crate) use multi_path::read as read_multi_path;

/// All of them, in the order of the paper.
pub(crate) const EXPERIMENTS: &[&Experiment] = &[
    &figure_1::EXPERIMENT,
    &tables::TABLE_2,
    &figure_5::EXPERIMENT,
    &figure_6::EXPERIMENT,
    &tables::TABLE_4,
    &multi_path::EXPERIMENT,
];

/// Figures of a run by a capture at the server, by the definitions of §III-A.
struct Measured<'a> {
    flow: &'a FlowReport,
    data: &'a DirectionReport,
}

/// The first flow of a run in a capture at the server; none in the lab.
fn measured(run: &Run) -> Option<Measured<'_>> {
    let flow = run.seen.at_server.first()?;
    // The client opens the connection: what it gets comes from the second end.
    Some(Measured { flow, data: &flow.directions[Direction::FromSecond] })
}

impl Measured<'_> {
    /// Bytes over the time elapsed, Mbit/s.
    fn throughput_mbps(&self) -> Option<f64> {
        Some(self.data.throughput.elapsed_bps? / 1e6)
    }
    /// Mean RTT of data that was sent once, ms.
    fn rtt_ms(&self) -> Option<f64> {
        Some(self.data.rtt.karn?.mean_ms)
    }
    /// Standard deviation of the same.
    fn rtt_deviation_ms(&self) -> Option<f64> {
        self.data.rtt.karn?.deviation_ms
    }
    /// Retransmitted data packets over data packets, percent.
    fn loss_percent(&self) -> Option<f64> {
        Some(self.data.loss.rate? * 100.0)
    }
    /// SYN to SYN-ACK to ACK, ms.
    fn handshake_ms(&self) -> Option<f64> {
        self.flow.handshake.total_ms
    }
}

/// A figure of the captures of a case's repetitions.
fn over_runs<C: CaseId>(
    runs: &Runs<C>,
    case: C,
    value: impl Fn(&Measured<'_>) -> Option<f64>,
) -> Option<Moments> {
    Moments::of(runs.of(case).filter_map(|run| value(&measured(run)?)))
}

#[cfg(test)]
mod tests;
