//! Growth of cost: throughput, processor time and memory against flows, subscribers and loss.

use units::Duration;

use super::{count_text, flows};
use crate::boxed::BoxProgram;
use crate::comparison::Comparison;
use crate::load::Held;
use crate::results::Sample;
use crate::stage::{Measure, Meter, Plan, Stage, metric};
use crate::tool::Rules;
use crate::topology::{HOST_INTERFACE, NetworkOptions};
use crate::{BenchError, Way};

const FLOWS: [u32; 6] = [1, 10, 100, 1_000, 10_000, 100_000];

/// Flows while subscribers vary.
const FLOWS_OF_SUBSCRIBERS: u32 = 1_000;

const SUBSCRIBERS: [u32; 4] = [1, 10, 100, 1_000];

/// Flows, of one subscriber each, while loss varies.
const FLOWS_OF_LOSS: u32 = 10;

/// Flows, of one subscriber each, while processors vary.
const FLOWS_OF_SHARDS: u32 = 16;

/// In thousandths.
const LOSS: [u32; 6] = [0, 1, 5, 10, 20, 50];

const WARM_UP: Duration = Duration::from_millis(700);

/// Number of flows above which sockets hold less.
const MANY: u32 = 1_000;

pub(crate) struct GrowthPart;

impl Measure for GrowthPart {
    fn plan(&self) -> Plan {
        Plan {
            title: "How cost grows",
            how: "All flows send as fast as they can, and the client's processes count what they \
                  read. Flows: they belong to at most 1,000 client addresses, and processes of \
                  16,000 flows hold them on either side; from 10,000 flows on, sockets hold 16 KiB \
                  each. Subscribers: 1,000 flows of the given number of addresses. Shards: 16 flows \
                  of 16 addresses, with the given number of threads in the box. Loss: ten flows of \
                  ten addresses. The client's packet filter drops incoming packets at random, each \
                  of up to 64 KB as a whole, so the loss is a share of packets and not of segments. \
                  *Box* is the processor time of the program per Gbit carried, with the kernel's \
                  work in its name; 1 is one processor at 1 Gbit/s.",
            metrics: vec![
                metric("gbps", "Gbit/s", 2),
                metric("box_s_per_gbit", "box, processors per Gbit/s", 4),
                metric("memory_mb", "memory of the program, MB", 1),
            ],
            ways: vec![Way::Kernel, Way::Echo, Way::Adaptive],
            rounds: 1,
            time: Duration::from_millis(1_000),
            network: NetworkOptions { subscribers: 1_000, ..NetworkOptions::default() },
            comparisons: vec![
                Comparison::between_cases(
                    "Throughput, accelerating, 10,000 flows ÷ 1 flow",
                    "gbps",
                    Way::Adaptive,
                    "10,000 flows",
                    "1 flow",
                ),
                Comparison::between_cases(
                    "Throughput, kernel forwarding, 10,000 flows ÷ 1 flow",
                    "gbps",
                    Way::Kernel,
                    "10,000 flows",
                    "1 flow",
                ),
                Comparison::between_cases(
                    "Throughput, accelerating, 1 % loss ÷ none",
                    "gbps",
                    Way::Adaptive,
                    "1 % loss",
                    "0 % loss",
                ),
                Comparison::ratio(
                    "Throughput, 1 % loss, accelerating ÷ bare TUN echo",
                    "gbps",
                    "1 % loss",
                    Way::Adaptive,
                    Way::Echo,
                ),
            ],
        }
    }

    fn measure(&mut self, stage: &mut Stage<'_>, way: Way, round: u32) -> Result<Vec<Sample>, BenchError> {
        let mut samples = Vec::new();
        for flows in FLOWS {
            let sample = run(stage, way, flows, flows.min(1_000))?;
            samples.push(sample.named(count_text(flows, "flow"), way, round));
        }
        for subscribers in SUBSCRIBERS {
            let sample = run(stage, way, FLOWS_OF_SUBSCRIBERS, subscribers)?;
            samples.push(sample.named(count_text(subscribers, "subscriber"), way, round));
        }
        for shards in shard_counts(io::sched::cpu_count() as u32) {
            let more = ["--shards".to_owned(), shards.to_string()];
            let sample = run_with(stage, way, &more, FLOWS_OF_SHARDS, FLOWS_OF_SHARDS)?;
            samples.push(sample.named(count_text(shards, "shard"), way, round));
        }
        for thousandths in LOSS {
            let loss = loss(stage, thousandths)?;
            let sample = run(stage, way, FLOWS_OF_LOSS, FLOWS_OF_LOSS);
            drop(loss);
            samples.push(sample?.named(format!("{} % loss", f64::from(thousandths) / 10.0), way, round));
        }
        Ok(samples)
    }
}

/// Figures of one run.
struct Grown {
    gbps: f64,
    box_s_per_gbit: Option<f64>,
    memory: Option<u64>,
}

impl Grown {
    fn named(&self, case: String, way: Way, round: u32) -> Sample {
        let mut sample = Sample::new(case, way, round, [("gbps", self.gbps)]);
        sample.add("box_s_per_gbit", self.box_s_per_gbit);
        sample.add("memory_mb", self.memory.map(|bytes| bytes as f64 / 1e6));
        sample
    }
}

/// One, two, four and so on, up to all processors.
fn shard_counts(processors: u32) -> Vec<u32> {
    let doubled = std::iter::successors(Some(1u32), |count| count.checked_mul(2));
    let mut counts: Vec<u32> = doubled.take_while(|count| *count < processors).collect();
    counts.push(processors);
    counts
}

/// As fast as `flows` flows of `subscribers` addresses go.
fn run(stage: &mut Stage<'_>, way: Way, flows: u32, subscribers: u32) -> Result<Grown, BenchError> {
    run_with(stage, way, &[], flows, subscribers)
}

/// The same with further arguments of the program in the box.
fn run_with(
    stage: &mut Stage<'_>,
    way: Way,
    more: &[String],
    flows: u32,
    subscribers: u32,
) -> Result<Grown, BenchError> {
    let more: Vec<&str> = more.iter().map(String::as_str).collect();
    let boxed = stage.start_with(way, &more)?;
    let buffer = if flows > MANY { flows::BUFFER } else { 0 };
    let mut held = Held::open(stage, flows, subscribers, buffer)?;
    held.blast()?;
    stage.pause.wait(WARM_UP)?;
    let begin = (Meter::read(boxed.as_ref()), held.received()?);
    stage.pause.wait(stage.time)?;
    let end = (Meter::read(boxed.as_ref()), held.received()?);
    let memory = boxed.as_ref().map(BoxProgram::pid).and_then(io::resident_bytes_of);
    drop(held);
    stage.stop(boxed, u64::from(flows))?;
    if end.1 == begin.1 {
        return Err(BenchError::Nothing(way.name().to_owned()));
    }
    let spent = end.0.since(begin.0);
    let gigabits = (end.1 - begin.1) as f64 * 8.0 / 1e9;
    Ok(Grown {
        gbps: gigabits / spent.seconds,
        box_s_per_gbit: spent.box_cpu_s.map(|seconds| seconds / gigabits),
        memory,
    })
}

/// A rule of the client's packet filter that drops some of what comes in; none without loss.
fn loss(stage: &Stage<'_>, thousandths: u32) -> Result<Option<Rules>, BenchError> {
    let chain = format!(
        " chain in {{\n  type filter hook prerouting priority raw;\n  iifname \
         \"{HOST_INTERFACE}\" numgen random mod 1000 < {thousandths} drop\n }}\n"
    );
    (thousandths > 0).then(|| Rules::load(&stage.network.client, "loss", &chain)).transpose()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn shards_double_up_to_all_processors() {
        assert_eq!(shard_counts(1), [1]);
        assert_eq!(shard_counts(2), [1, 2]);
        assert_eq!(shard_counts(12), [1, 2, 4, 8, 12]);
    }
}
