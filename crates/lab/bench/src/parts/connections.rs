//! Short connections per second.

use units::Duration;

use crate::comparison::Comparison;
use crate::load::Connections;
use crate::results::Sample;
use crate::stage::{Measure, Meter, Plan, Stage, metric};
use crate::topology::NetworkOptions;
use crate::{BenchError, Way};

/// Addresses of clients, used in turn.
const SUBSCRIBERS: u32 = 256;

const WARM_UP: Duration = Duration::from_millis(300);

const CASE: &str = "1 KB";

pub(crate) struct ConnectionsPart;

impl Measure for ConnectionsPart {
    fn plan(&self) -> Plan {
        let ratio = |title: &str, way, to| Comparison::ratio(title, "per_s", CASE, way, to);
        Plan {
            title: "New connections",
            how: "Clients of 256 addresses connect, 64 at a time. The server sends 1,000 bytes and \
                  closes; the client reads to the end and closes. Client and server are one thread \
                  each, and share the processors with the box. HAProxy has a thread for each \
                  processor; the engine has one thread on a machine with two processors. \
                  *Accelerated* is the share of connections that the engine took over.",
            metrics: vec![
                metric("per_s", "connections/s", 0),
                metric("box_us", "box, µs per connection", 1),
                metric("failed", "failed", 0),
                metric("accelerated", "accelerated, %", 1),
            ],
            ways: vec![Way::Kernel, Way::Echo, Way::Adaptive, Way::AdaptiveShards, Way::Haproxy],
            rounds: 5,
            time: Duration::from_millis(2_000),
            network: NetworkOptions { subscribers: SUBSCRIBERS, ..NetworkOptions::default() },
            comparisons: vec![
                ratio("New connections per second: accelerating ÷ HAProxy", Way::Adaptive, Way::Haproxy)
                    .at_least(1.0),
                ratio(
                    "New connections per second: accelerating with a shard per processor ÷ HAProxy",
                    Way::AdaptiveShards,
                    Way::Haproxy,
                ),
                ratio("New connections per second: accelerating ÷ bare TUN echo", Way::Adaptive, Way::Echo),
            ],
        }
    }

    fn measure(&mut self, stage: &mut Stage<'_>, way: Way, round: u32) -> Result<Vec<Sample>, BenchError> {
        let boxed = stage.start(way)?;
        let load = Connections::start(&stage.network, SUBSCRIBERS)?;
        stage.pause.wait(WARM_UP)?;
        let begin = (Meter::read(boxed.as_ref()), load.counts());
        stage.pause.wait(stage.time)?;
        let end = (Meter::read(boxed.as_ref()), load.counts());
        let all = load.stop();
        let done = (end.1.0 - begin.1.0) as f64;
        if done == 0.0 {
            return Err(BenchError::Nothing(way.name().to_owned()));
        }
        let spent = end.0.since(begin.0);
        let values = [("per_s", done / spent.seconds), ("failed", (end.1.1 - begin.1.1) as f64)];
        let mut sample = Sample::new(CASE, way, round, values);
        sample.add("box_us", spent.box_cpu_s.map(|cpu| cpu * 1e6 / done));
        if let Some(boxed) = boxed {
            let accelerated = boxed.stop(&mut stage.pause)?.filter(|_| way.accelerates());
            // Those begun after the count was taken may be among them.
            sample
                .add("accelerated", accelerated.map(|flows| (flows as f64 / all as f64 * 100.0).min(100.0)));
        }
        Ok(vec![sample])
    }
}
