//! Bulk throughput: a few TCP flows as fast as they go.

use io::netlink::LinkChange;
use units::Duration;

use crate::boxed::BoxProgram;
use crate::comparison::Comparison;
use crate::load::Bulk;
use crate::results::{Metric, Sample};
use crate::stage::{Measure, Meter, Plan, Stage, metric};
use crate::topology::{HOST_INTERFACE, Network, NetworkOptions};
use crate::{BenchError, Way};

/// Flows side by side, one case each.
const FLOWS: [usize; 3] = [1, 4, 16];

/// Payload of a full segment: 1,500 bytes less IP and TCP headers with timestamps.
const SEGMENT_LEN: f64 = 1_448.0;

/// Value of `gso_max_segs` as the kernel makes an interface.
const SEGMENTS_MAX: u32 = 65_535;

/// Time of sending before counting begins: slow start is over, buffers have grown.
pub(super) const WARM_UP: Duration = Duration::from_millis(500);

pub(crate) struct BulkPart;

pub(super) fn flows_text(flows: usize) -> String {
    if flows == 1 { "1 flow".to_owned() } else { format!("{flows} flows") }
}

impl Measure for BulkPart {
    fn plan(&self) -> Plan {
        let mut comparisons = Vec::new();
        for flows in FLOWS {
            let case = &flows_text(flows);
            let ratio = |title: &str, way, to| {
                Comparison::ratio(format!("Throughput, {case}: {title}"), "gbps", case, way, to)
            };
            comparisons.push(ratio("accelerating ÷ bare TUN echo", Way::Adaptive, Way::Echo).at_least(0.6));
            let recorded = ratio("with ÷ without records for a successor", Way::Adaptive, Way::AdaptiveAlone);
            comparisons.push(recorded.at_least(0.95));
            comparisons.push(ratio("`fixed` ÷ bare TUN echo", Way::Fixed, Way::Echo));
            comparisons.push(ratio("`rate` ÷ bare TUN echo", Way::Rate, Way::Echo));
            comparisons.push(ratio("passing ÷ bare TUN echo", Way::Pass, Way::Echo));
            comparisons.push(ratio("passing ÷ kernel forwarding", Way::Pass, Way::Kernel));
            let copying = ratio("accelerating ÷ HAProxy without splice", Way::Adaptive, Way::Haproxy);
            let splicing = ratio("accelerating ÷ HAProxy with splice", Way::Adaptive, Way::HaproxySplice);
            comparisons.extend([copying, splicing].map(|ratio| ratio.at_least(1.2)));
            comparisons.push(ratio("bare TUN echo ÷ HAProxy with splice", Way::Echo, Way::HaproxySplice));
        }
        Plan {
            title: "Bulk throughput",
            how: "The server sends TCP flows of zeros to the client as fast as it can, with CUBIC. \
                  What the client's program reads counts, after a warm-up of 0.5 s. Server, box and \
                  client share the processors. So a way that costs the box more also leaves less to \
                  the ends. *Box* is the processor time of the program in the box, user and system, \
                  with the packets that the kernel forwards in its name. *Machine* is the processor \
                  time of everything.",
            metrics: metrics()
                .into_iter()
                .chain([bytes_per_write(), metric("sent_again", "segments sent again", 0)])
                .collect(),
            ways: vec![
                Way::Kernel,
                Way::Echo,
                Way::Pass,
                Way::Adaptive,
                Way::AdaptiveAlone,
                Way::Fixed,
                Way::Rate,
                Way::Haproxy,
                Way::HaproxySplice,
            ],
            rounds: 5,
            time: Duration::from_millis(1_500),
            network: NetworkOptions::default(),
            comparisons,
        }
    }

    fn measure(&mut self, stage: &mut Stage<'_>, way: Way, round: u32) -> Result<Vec<Sample>, BenchError> {
        let mut boxed = stage.start(way)?;
        let mut samples = Vec::new();
        for flows in FLOWS {
            let transfer = transfer(stage, boxed.as_ref(), way, flows)?;
            samples.push(transfer.sample(flows_text(flows), way, round));
            if let Some(boxed) = &mut boxed {
                boxed.check()?;
            }
        }
        stage.stop(boxed, FLOWS.iter().sum::<usize>() as u64)?;
        Ok(samples)
    }
}

/// Metrics of transfers.
pub(super) fn metrics() -> [Metric; 3] {
    [
        metric("gbps", "Gbit/s", 2),
        metric("box_s_per_gb", "box, s/GB", 3),
        metric("machine_s_per_gb", "machine, s/GB", 3),
    ]
}

/// Bytes that the program hands to the kernel at once.
pub(super) fn bytes_per_write() -> Metric {
    metric("bytes_per_write", "bytes per write towards the client", 0)
}

/// Figures of one transfer.
pub(super) struct Transfer {
    bytes: f64,
    seconds: f64,
    box_cpu_s: Option<f64>,
    machine_cpu_s: f64,
    sent_again: f64,
    bytes_per_write: Option<f64>,
}

impl Transfer {
    pub fn sample(&self, case: String, way: Way, round: u32) -> Sample {
        let gigabytes = self.bytes / 1e9;
        let values = [
            ("gbps", self.bytes * 8.0 / 1e9 / self.seconds),
            ("machine_s_per_gb", self.machine_cpu_s / gigabytes),
            ("sent_again", self.sent_again),
        ];
        let mut sample = Sample::new(case, way, round, values);
        sample.add("bytes_per_write", self.bytes_per_write);
        sample.add("box_s_per_gb", self.box_cpu_s.map(|seconds| seconds / gigabytes));
        sample
    }

    /// Figures of packets of ordinary size.
    pub fn sample_of_packets(&self, case: impl Into<String>, way: Way, round: u32) -> Sample {
        let packets = self.bytes / SEGMENT_LEN;
        let mut sample = Sample::new(case, way, round, [("kpps", packets / 1e3 / self.seconds)]);
        sample.add("kpps_per_core", self.box_cpu_s.map(|cpu| packets / 1e3 / cpu));
        sample.add("box_us_per_packet", self.box_cpu_s.map(|cpu| cpu * 1e6 / packets));
        sample.add("bytes_per_write", self.bytes_per_write);
        sample
    }
}

/// `flows` bulk flows for the stage's time.
pub(super) fn transfer(
    stage: &mut Stage<'_>,
    boxed: Option<&BoxProgram>,
    way: Way,
    flows: usize,
) -> Result<Transfer, BenchError> {
    let load = Bulk::start(&stage.network, flows, &mut stage.pause)?;
    stage.pause.wait(WARM_UP)?;
    let writes_begin = writes(boxed);
    let begin = (Meter::read(boxed), load.received(), sent_again(stage)?);
    stage.pause.wait(stage.time)?;
    let end = (Meter::read(boxed), load.received(), sent_again(stage)?);
    let written = writes(boxed).zip(writes_begin).map(|(end, begin)| end.saturating_sub(begin));
    drop(load);
    if end.1 == begin.1 {
        return Err(BenchError::Nothing(way.name().to_owned()));
    }
    let spent = end.0.since(begin.0);
    Ok(Transfer {
        bytes: (end.1 - begin.1) as f64,
        seconds: spent.seconds,
        box_cpu_s: spent.box_cpu_s,
        machine_cpu_s: spent.machine_cpu_s,
        sent_again: end.2.saturating_sub(begin.2) as f64,
        bytes_per_write: written.filter(|n| *n > 0).map(|n| (end.1 - begin.1) as f64 / n as f64),
    })
}

/// The same with packets of ordinary size: the server's interface takes no super-packets meanwhile.
pub(super) fn transfer_of_packets(
    stage: &mut Stage<'_>,
    boxed: Option<&BoxProgram>,
    way: Way,
    flows: usize,
) -> Result<Transfer, BenchError> {
    merge_segments(&stage.network, 1)?;
    let transfer = transfer(stage, boxed, way, flows)?;
    merge_segments(&stage.network, SEGMENTS_MAX)?;
    Ok(transfer)
}

/// Limits super-packets of the server's interface to this number of segments.
fn merge_segments(network: &Network, segments: u32) -> Result<(), BenchError> {
    let server = network.server.netlink()?;
    let change = LinkChange { gso_segments_max: Some(segments), ..LinkChange::default() };
    Ok(server.change_link(server.index_of(HOST_INTERFACE)?, &change)?)
}

/// Packets that the program in the box has sent to the client, if it is one that can tell.
fn writes(boxed: Option<&BoxProgram>) -> Option<u64> {
    let status = boxed.filter(|boxed| boxed.can_tell())?.status().ok()?;
    status.sides.get(1).map(|mobile| mobile.sent_packets)
}

/// Segments that the server has sent more than once.
fn sent_again(stage: &Stage<'_>) -> Result<u64, BenchError> {
    let read = || std::fs::read_to_string("/proc/thread-self/net/snmp").unwrap_or_default();
    Ok(retransmitted(&stage.network.server.run(read)?).unwrap_or(0))
}

/// `RetransSegs` of the two `Tcp:` lines, names and values.
fn retransmitted(snmp: &str) -> Option<u64> {
    let mut lines = snmp.lines().filter(|line| line.starts_with("Tcp:"));
    let column = lines.next()?.split_ascii_whitespace().position(|name| name == "RetransSegs")?;
    lines.next()?.split_ascii_whitespace().nth(column)?.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn retransmissions_are_found_by_name() {
        let snmp = "Ip: A B\nIp: 1 2\nTcp: InSegs OutSegs RetransSegs InErrs\nTcp: 5 6 7 8\n";
        assert_eq!(retransmitted(snmp), Some(7));
        assert_eq!(retransmitted("Tcp: InSegs\nTcp: 1\n"), None);
    }
}
