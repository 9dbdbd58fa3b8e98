//! Many flows at once through the box: time per packet and memory.

use units::Duration;

use crate::boxed::BoxProgram;
use crate::comparison::Comparison;
use crate::load::Held;
use crate::machine::ticks;
use crate::results::Sample;
use crate::stage::{Measure, Meter, Plan, Stage, metric};
use crate::topology::NetworkOptions;
use crate::{BenchError, Way};

const FLOWS: [u32; 2] = [1_000, 100_000];

/// Addresses of clients.
const SUBSCRIBERS: u32 = 1_000;

/// Segments that all servers together send in a second: the box is awake and far from its limit.
const PER_S: u32 = 24_000;

const SEGMENT_LEN: usize = 1_400;

/// Buffer of a socket: 200,000 of them must fit into memory.
pub(super) const BUFFER: usize = 16 * 1024;

/// Memory needed for 100,000 flows, most of it the kernel's for 200,000 sockets.
const MEMORY_NEEDED: u64 = 4 << 30;

/// After this long buffers that are not used have been given back.
const REST: Duration = Duration::from_millis(1_500);

pub(crate) struct FlowsPart;

impl Measure for FlowsPart {
    fn plan(&self) -> Plan {
        let against_1000 = |title: &str, metric| {
            Comparison::between_cases(title, metric, Way::Adaptive, "100,000 flows", "1,000 flows")
        };
        Plan {
            title: "Many flows at once",
            how: "These are real TCP flows of 1,000 client addresses, opened through the box. \
                  Several processes on either side hold them (16,000 flows each). The servers send \
                  segments of 1,400 bytes on one flow after the other, 24,000 a second in all, for \
                  any number of flows. So no packet finds the state of its flow in a cache. \
                  *Packet* is a packet read from or written to a TUN device. *Box* is the processor \
                  time of the program with the kernel's work in its name: forwarding, and the TCP \
                  of the receiving end, which has as many sockets. *Program* is its own code. \
                  Memory is that of the program less that before the first flow. *Idle* flows are \
                  open and have carried nothing. *Used* flows have carried data; their memory \
                  includes what the allocator keeps of their buffers. With kernel forwarding, flows \
                  are opened as fast as the ends alone can.",
            metrics: vec![
                metric("box_us", "box, µs per packet", 2),
                metric("program_us", "program, µs per packet", 2),
                metric("bytes_per_flow", "bytes per idle flow", 0),
                metric("bytes_per_used_flow", "used", 0),
                metric("opened_per_s", "flows opened per s", 0),
            ],
            ways: vec![Way::Kernel, Way::Adaptive],
            rounds: 5,
            time: Duration::from_millis(3_600),
            network: NetworkOptions { subscribers: SUBSCRIBERS, ..NetworkOptions::default() },
            comparisons: vec![
                against_1000("Time per packet of the box, 100,000 flows ÷ 1,000", "box_us").at_most(1.4),
                against_1000("Time per packet of the program, 100,000 flows ÷ 1,000", "program_us"),
                Comparison::ratio(
                    "Flows opened per second, 100,000 flows: accelerating ÷ kernel forwarding",
                    "opened_per_s",
                    "100,000 flows",
                    Way::Adaptive,
                    Way::Kernel,
                ),
                Comparison::alone(
                    "Memory per idle flow of 100,000",
                    "bytes_per_flow",
                    "100,000 flows",
                    Way::Adaptive,
                )
                .in_unit(" B", 0)
                .at_most(768.0),
            ],
        }
    }

    fn measure(&mut self, stage: &mut Stage<'_>, way: Way, round: u32) -> Result<Vec<Sample>, BenchError> {
        if available_memory().is_some_and(|bytes| bytes < MEMORY_NEEDED) {
            let why = "100,000 flows need 4 GiB of memory for their sockets".to_owned();
            return Err(BenchError::Missing { what: "this part".to_owned(), why });
        }
        FLOWS.into_iter().map(|flows| measure(stage, way, round, flows)).collect()
    }
}

fn measure(stage: &mut Stage<'_>, way: Way, round: u32, flows: u32) -> Result<Sample, BenchError> {
    let boxed = stage.start(way)?;
    let resident = || boxed.as_ref().map(BoxProgram::pid).and_then(io::resident_bytes_of);
    let memory_before = resident();
    let begin = io::Clock::now();
    let mut held = Held::open(stage, flows, SUBSCRIBERS.min(flows), BUFFER)?;
    let opening = io::Clock::now().saturating_since(begin);
    let memory = || {
        let bytes = resident()?.saturating_sub(memory_before?);
        Some(bytes as f64 / f64::from(flows))
    };
    let bytes_per_flow = memory();
    held.pulse(PER_S, SEGMENT_LEN)?;
    stage.pause.wait(Duration::from_millis(500))?;
    let begin = Load::read(boxed.as_ref())?;
    stage.pause.wait(stage.time)?;
    let end = Load::read(boxed.as_ref())?;
    held.quiet()?;
    stage.pause.wait(REST)?;
    let bytes_per_used_flow = memory();
    drop(held);
    stage.stop(boxed, u64::from(flows))?;
    let packets = (end.packets - begin.packets) as f64;
    let values = [("opened_per_s", f64::from(flows) / opening.as_secs_f64())];
    let mut sample = Sample::new(super::count_text(flows, "flow"), way, round, values);
    sample.add("bytes_per_flow", bytes_per_flow);
    sample.add("bytes_per_used_flow", bytes_per_used_flow);
    let spent = end.meter.since(begin.meter);
    sample.add("box_us", spent.box_cpu_s.map(|cpu| cpu * 1e6 / packets));
    // The kernel knows the whole exactly, and the shares of the program and of itself by what its
    // ticks have seen.
    let share = end.user_share(&begin);
    sample.add("program_us", spent.box_cpu_s.zip(share).map(|(cpu, share)| cpu * share * 1e6 / packets));
    Ok(sample)
}

/// Counters of the box at one moment.
struct Load {
    meter: Meter,
    packets: u64,
    user_system_s: Option<(f64, f64)>,
}

impl Load {
    fn read(boxed: Option<&BoxProgram>) -> Result<Self, BenchError> {
        let status = boxed.map(BoxProgram::status).transpose()?;
        let sides = status.iter().flat_map(|status| &status.sides);
        let packets = sides.map(|side| side.received_packets + side.sent_packets).sum();
        let user_system_s = boxed.map(BoxProgram::pid).and_then(ticks);
        Ok(Self { meter: Meter::read(boxed), packets, user_system_s })
    }

    fn user_share(&self, begin: &Self) -> Option<f64> {
        let ((u1, s1), (u0, s0)) = (self.user_system_s?, begin.user_system_s?);
        let (user, system) = (u1 - u0, s1 - s0);
        (user + system > 0.0).then(|| user / (user + system))
    }
}

/// `MemAvailable`, bytes.
fn available_memory() -> Option<u64> {
    let text = std::fs::read_to_string("/proc/meminfo").ok()?;
    let line = text.lines().find_map(|line| line.strip_prefix("MemAvailable:"))?;
    Some(line.split_ascii_whitespace().next()?.parse::<u64>().ok()? * 1_024)
}
