//! UDP: what steering costs where it passes by, and what taking turns with an accelerated flow costs.

use std::net::IpAddr;
use std::sync::atomic::{AtomicBool, Ordering};

use io::bpf;
use io::netlink::Netlink;
use units::Duration;

use crate::boxed::BoxProgram;
use crate::comparison::Comparison;
use crate::load::{Datagrams, Pings};
use crate::results::{Metric, Sample};
use crate::stage::{Measure, Meter, Plan, Stage, metric};
use crate::topology::{CLIENT, NetworkOptions, WIRED, subscriber};
use crate::{BenchError, Way};

const WARM_UP: Duration = Duration::from_millis(150);

/// Nobody's flow is accelerated.
const ALONE: &str = "no accelerated flow";

/// The datagrams are for another address of the client than its accelerated flow.
const OTHERS: &str = "an accelerated flow of another device";

/// They are for the same address, and take turns with it.
const TURNS: &str = "an accelerated flow of the same device";

/// Between two messages of the accelerated flow: its device stays in the schedule, and somebody says what has left.
const EVERY: Duration = Duration::from_millis(5);

/// Time during which the kernel's counts of the steering program are watched.
const COUNTED: Duration = Duration::from_millis(200);

pub(crate) struct DatagramsPart;

impl Measure for DatagramsPart {
    fn plan(&self) -> Plan {
        let past = |case: &str| {
            let title = format!("UDP past the engine, {case}: engine on ÷ off");
            Comparison::ratio(title, "kpps", case, Way::Adaptive, Way::Kernel).at_least(0.95)
        };
        let turns = |way: Way, title: &str| {
            Comparison::ratio(
                format!("UDP per processor second of the box: {title} ÷ bare TUN echo"),
                "per_cpu",
                TURNS,
                way,
                Way::Echo,
            )
        };
        let steering = |case: &str| {
            let title = format!("Steering program, per packet, {case}");
            Comparison::alone(title, "steering_ns", case, Way::Adaptive).in_unit(" ns", 0)
        };
        Plan {
            title: "UDP",
            how: "One thread of the server sends datagrams of 1,400 bytes to the client as fast as \
                  it can. The sending, the box's forwarding and the receiving kernel limit the rate \
                  together. Packets that arrive at the client's interface count. UDP to a device \
                  without an accelerated flow is not steered to the engine: there the machine is compared with and \
                  without a running engine. UDP to a device with one takes turns with it: there the \
                  datagrams that get through per second of the box's processor time are compared with \
                  those of a bare echo that all packets to the device come through. The time of the steering \
                  program is what the kernel says of it (`BPF_ENABLE_STATS`).",
            metrics: vec![
                metric_of_rates(),
                metric("read_kpps", "read by the client's program", 1),
                metric("per_cpu", "1,000 datagrams per box second", 0),
                metric("steering_ns", "steering program, ns", 0),
            ],
            ways: vec![Way::Kernel, Way::Adaptive, Way::Echo, Way::Fixed],
            rounds: 20,
            time: Duration::from_millis(600),
            network: NetworkOptions { subscribers: 1, ..NetworkOptions::default() },
            comparisons: vec![
                past(ALONE),
                past(OTHERS),
                steering(ALONE),
                steering(OTHERS),
                turns(Way::Adaptive, "accelerating").at_least(0.6),
                turns(Way::Fixed, "accelerating, `fixed`"),
            ],
        }
    }

    fn measure(&mut self, stage: &mut Stage<'_>, way: Way, round: u32) -> Result<Vec<Sample>, BenchError> {
        let (client, other) = (CLIENT, IpAddr::V4(subscriber(0)));
        let all_to = ["--all-to".to_owned(), client.to_string()];
        let more: Vec<&str> = all_to.iter().filter(|_| way == Way::Echo).map(String::as_str).collect();
        let boxed = stage.start_with(way, &more)?;
        let boxed_ref = boxed.as_ref();
        let mut samples = Vec::new();
        let mut flows = 0;
        if matches!(way, Way::Kernel | Way::Adaptive) {
            samples.push(measured(stage, ALONE, way, boxed_ref, client)?.sample(round));
            let mut pings = Pings::start(&stage.network)?;
            // Once in a while would do for the engine: within this time it need not.
            pings.once()?;
            samples.push(measured(stage, OTHERS, way, boxed_ref, other)?.sample(round));
            flows += 1;
        }
        if way != Way::Kernel {
            let mut pings = Pings::start(&stage.network)?;
            pings.once()?;
            flows += 1;
            let is_over = AtomicBool::new(false);
            let run = std::thread::scope(|scope| {
                let answering = scope.spawn(|| {
                    while !is_over.load(Ordering::Relaxed) {
                        pings.run_every(EVERY, EVERY)?;
                    }
                    Ok::<_, BenchError>(())
                });
                let run = measured(stage, TURNS, way, boxed_ref, client);
                is_over.store(true, Ordering::Relaxed);
                let answered = answering.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic));
                answered.and(run)
            })?;
            samples.push(run.sample(round));
        }
        stage.stop(boxed, flows)?;
        Ok(samples)
    }
}

/// Metric of datagrams that arrive.
pub(super) fn metric_of_rates() -> Metric {
    metric("kpps", "1,000 datagrams/s", 1)
}

/// Datagrams of a way in a case.
struct Measured {
    case: &'static str,
    way: Way,
    kpps: f64,
    read_kpps: f64,
    /// Thousands that arrive per second of the box's processor time.
    per_cpu: Option<f64>,
    /// Of the steering program, per packet.
    steering_ns: Option<f64>,
}

impl Measured {
    fn sample(self, round: u32) -> Sample {
        let optional = [("per_cpu", self.per_cpu), ("steering_ns", self.steering_ns)];
        let values = [("kpps", self.kpps), ("read_kpps", self.read_kpps)];
        let optional = optional.into_iter().filter_map(|(name, value)| Some((name, value?)));
        Sample::new(self.case, self.way, round, values.into_iter().chain(optional))
    }
}

/// Datagrams to an address of the client that arrive at its interface, thousands a second.
pub(super) fn rate(stage: &mut Stage<'_>, way: Way, client: IpAddr) -> Result<f64, BenchError> {
    Ok(measured(stage, ALONE, way, None, client)?.kpps)
}

/// Datagrams to an address of the client.
fn measured(
    stage: &mut Stage<'_>,
    case: &'static str,
    way: Way,
    boxed: Option<&BoxProgram>,
    client: IpAddr,
) -> Result<Measured, BenchError> {
    let load = Datagrams::start(&stage.network, client)?;
    stage.pause.wait(WARM_UP)?;
    let begin = (Meter::read(boxed), stage.network.client_packets()?, load.read());
    stage.pause.wait(stage.time)?;
    let end = (Meter::read(boxed), stage.network.client_packets()?, load.read());
    let steering_ns = if boxed.is_some() && case != TURNS { steering_ns(stage)? } else { None };
    drop(load);
    if end.1 == begin.1 {
        return Err(BenchError::Nothing(way.name().to_owned()));
    }
    let spent = end.0.since(begin.0);
    let arrived = (end.1 - begin.1) as f64 / 1e3;
    let per_cpu = spent.box_cpu_s.filter(|cpu_s| *cpu_s > 0.0 && case == TURNS).map(|cpu_s| arrived / cpu_s);
    let read_kpps = (end.2 - begin.2) as f64 / 1e3 / spent.seconds;
    Ok(Measured { case, way, kpps: arrived / spent.seconds, read_kpps, per_cpu, steering_ns })
}

/// Time that a program at the wired interface takes for a packet; `None` where there is none.
fn steering_ns(stage: &mut Stage<'_>) -> Result<Option<f64>, BenchError> {
    let costs = |stage: &Stage<'_>| {
        stage.network.middle.run(|| Ok::<_, BenchError>(bpf::costs_at(Netlink::open()?.index_of(WIRED)?)))?
    };
    let _measured = bpf::measure_run_time()?;
    let first = costs(stage)?;
    stage.pause.wait(COUNTED)?;
    let second = costs(stage)?;
    let sum = |all: &[bpf::ProgramCost]| {
        all.iter().fold((0, 0), |(runs, ns), cost| (runs + cost.runs, ns + cost.time.as_nanos()))
    };
    let ((runs_before, ns_before), (runs, ns)) = (sum(&first), sum(&second));
    Ok((runs > runs_before).then(|| (ns - ns_before) as f64 / (runs - runs_before) as f64))
}
