//! [`Row`]: a flow's line in the page's table.

use analysis::{Diagnosis, Direction, DirectionReport, FlowReport, SampleSummary, TimeCause};
use serde::Serialize;

/// One flow; names are short because there are thousands.
#[derive(Clone, Debug, Serialize)]
pub(super) struct Row<'a> {
    id: u64,
    point: u16,
    a: String,
    b: String,
    client: Option<Direction>,
    /// Seconds after the capture's first packet.
    t: f64,
    /// Duration, seconds.
    d: f64,
    end: analysis::End,
    at: Option<analysis::Vantage>,
    /// Handshake, milliseconds.
    hs: Option<f64>,
    dir: [Way; 2],
    /// Nanoseconds of each cause, the direction they are about, and the sentence.
    time: [u64; TimeCause::ALL.len()],
    time_of: Direction,
    why: Option<String>,
    found: &'a [Diagnosis],
    /// Place of its packets in the data: offset and length in characters, number of packets, packets left
    /// out; none if it is not drawn.
    pub(super) data: Option<[u64; 4]>,
}

/// One direction of a [`Row`].
#[derive(Clone, Copy, Debug, Serialize)]
struct Way {
    pk: u64,
    by: u64,
    bps: Option<f64>,
    /// Repeated data packets, SYN and FIN; time-outs with what followed, fast, probes, unneeded.
    re: [Option<u64>; 5],
    loss: Option<f64>,
    /// Lost before the capture point, late.
    before: u64,
    late: u64,
    rtt: Option<[f64; 4]>,
    zero_ms: f64,
}

impl<'a> Row<'a> {
    pub(super) fn of(flow: &'a FlowReport, origin_ns: u64) -> Self {
        Self {
            id: flow.id,
            point: flow.point,
            a: flow.first.to_string(),
            b: flow.second.to_string(),
            client: flow.client,
            t: flow.start_ns.saturating_sub(origin_ns) as f64 / 1e9,
            d: flow.duration_s,
            end: flow.end,
            at: flow.vantage,
            hs: flow.handshake.total_ms,
            dir: flow.directions.as_array().each_ref().map(way),
            time: TimeCause::ALL.map(|cause| flow.budget.of(cause)),
            time_of: flow.budget.direction,
            why: flow.budget.slow_because(),
            found: &flow.diagnoses,
            data: None,
        }
    }
}

fn way(direction: &DirectionReport) -> Way {
    let r = &direction.retransmissions;
    let times = |rtt: SampleSummary| [rtt.min_ms, rtt.p50_ms, rtt.p95_ms, rtt.max_ms];
    Way {
        pk: direction.volume.packets,
        by: direction.volume.unique_bytes,
        bps: direction.throughput.active_bps,
        re: [
            Some(r.data_packets + r.syn + r.fin),
            r.rto.zip(r.rto_recovery).map(|(first, following)| first + following),
            r.fast,
            r.tlp,
            Some(r.spurious),
        ],
        loss: direction.loss.rate,
        before: direction.loss.before_capture,
        late: direction.loss.reordered,
        rtt: direction.rtt.karn.map(times),
        zero_ms: direction.window.zero_ms,
    }
}
