//! UDP, which never enters the engine: what its steering costs others.

use units::Duration;

use crate::comparison::Comparison;
use crate::load::Datagrams;
use crate::results::{Metric, Sample};
use crate::stage::{Measure, Meter, Plan, Stage, metric};
use crate::topology::NetworkOptions;
use crate::{BenchError, Way};

const WARM_UP: Duration = Duration::from_millis(150);

const CASE: &str = "1,400 bytes";

pub(crate) struct DatagramsPart;

impl Measure for DatagramsPart {
    fn plan(&self) -> Plan {
        let ratio = |title: &str, metric| Comparison::ratio(title, metric, CASE, Way::Adaptive, Way::Kernel);
        Plan {
            title: "UDP past the engine",
            how: "One thread of the server sends datagrams of 1,400 bytes to the client as fast as \
                  it can. The sending, the box's forwarding and the receiving kernel limit the rate \
                  together. Packets that arrive at the client's interface count. UDP is not steered \
                  to the engine, so this compares the machine with and without a running engine.",
            metrics: vec![metric_of_rates(), metric("read_kpps", "read by the client's program", 1)],
            ways: vec![Way::Kernel, Way::Adaptive],
            rounds: 20,
            time: Duration::from_millis(600),
            network: NetworkOptions::default(),
            comparisons: vec![ratio("UDP through the box: engine on ÷ off", "kpps").at_least(0.95)],
        }
    }

    fn measure(&mut self, stage: &mut Stage<'_>, way: Way, round: u32) -> Result<Vec<Sample>, BenchError> {
        let boxed = stage.start(way)?;
        let [kpps, read_kpps] = rates(stage, way)?;
        stage.stop(boxed, 0)?;
        let values = [("kpps", kpps), ("read_kpps", read_kpps)];
        Ok(vec![Sample::new(CASE, way, round, values)])
    }
}

/// What is said of datagrams that arrive.
pub(super) fn metric_of_rates() -> Metric {
    metric("kpps", "1,000 datagrams/s", 1)
}

/// Datagrams that arrive at the client's interface, and those its program reads, thousands a second.
pub(super) fn rates(stage: &mut Stage<'_>, way: Way) -> Result<[f64; 2], BenchError> {
    let load = Datagrams::start(&stage.network)?;
    stage.pause.wait(WARM_UP)?;
    let begin = (Meter::read(None), stage.network.client_packets()?, load.read());
    stage.pause.wait(stage.time)?;
    let end = (Meter::read(None), stage.network.client_packets()?, load.read());
    drop(load);
    if end.1 == begin.1 {
        return Err(BenchError::Nothing(way.name().to_owned()));
    }
    let seconds = end.0.since(begin.0).seconds;
    let per_s = |count: u64| count as f64 / 1e3 / seconds;
    Ok([per_s(end.1 - begin.1), per_s(end.2 - begin.2)])
}
