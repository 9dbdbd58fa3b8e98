//! Added delay at low load, each direction by itself.

use figures::stats;
use units::Duration;

use crate::comparison::Comparison;
use crate::load::{Ping, Pings};
use crate::results::{Metric, Sample};
use crate::stage::{Measure, Plan, Stage, metric};
use crate::topology::NetworkOptions;
use crate::{BenchError, Way};

pub(super) const WARM_UP: Duration = Duration::from_millis(200);

pub(super) const CASE: &str = "64 bytes each ms";

pub(crate) struct LatencyPart;

impl Measure for LatencyPart {
    fn plan(&self) -> Plan {
        let added = |title: &str, metric, way, to| {
            Comparison::difference(title, metric, CASE, way, to).in_unit(" µs", 1)
        };
        Plan {
            title: "Delay at low load",
            how: "A client sends 64 bytes over one TCP connection and waits for the answer, at most \
                  a thousand times a second. One clock times each direction, from the sender's \
                  write to the end of the receiver's read. The added delay is that of the engine \
                  less that of the bare echo in the same round, both with or both without busy \
                  polling.",
            metrics: metrics().to_vec(),
            ways: vec![Way::Kernel, Way::Echo, Way::Adaptive, Way::EchoBusy, Way::AdaptiveBusy, Way::Haproxy],
            rounds: 7,
            time: Duration::from_millis(1_500),
            network: NetworkOptions::default(),
            comparisons: vec![
                added("Added delay to the client, p50", "down_p50", Way::Adaptive, Way::Echo).at_most(30.0),
                added("Added delay to the server, p50", "up_p50", Way::Adaptive, Way::Echo).at_most(30.0),
                added(
                    "Added delay to the client, p99, busy polling",
                    "down_p99",
                    Way::AdaptiveBusy,
                    Way::EchoBusy,
                )
                .at_most(100.0),
                added(
                    "Added delay to the server, p99, busy polling",
                    "up_p99",
                    Way::AdaptiveBusy,
                    Way::EchoBusy,
                )
                .at_most(100.0),
                added("Added delay to the client, p99", "down_p99", Way::Adaptive, Way::Echo),
                added("Added delay to the server, p99", "up_p99", Way::Adaptive, Way::Echo),
            ],
        }
    }

    fn measure(&mut self, stage: &mut Stage<'_>, way: Way, round: u32) -> Result<Vec<Sample>, BenchError> {
        let boxed = stage.start(way)?;
        let mut pings = Pings::start(&stage.network)?;
        pings.run(WARM_UP)?;
        let times = pings.run(stage.time)?;
        drop(pings);
        stage.pause.wait(Duration::ZERO)?;
        stage.stop(boxed, 1)?;
        Ok(vec![sample(&times, way, round)])
    }
}

/// Metrics of pings.
pub(super) fn metrics() -> [Metric; 4] {
    [
        metric("down_p50", "to the client, p50 µs", 1),
        metric("down_p99", "p99 µs", 1),
        metric("up_p50", "to the server, p50 µs", 1),
        metric("up_p99", "p99 µs", 1),
    ]
}

/// The percentiles of some pings.
pub(super) fn sample(times: &[Ping], way: Way, round: u32) -> Sample {
    let sorted = |of: fn(&Ping) -> u64| {
        let mut times: Vec<u64> = times.iter().map(of).collect();
        times.sort_unstable();
        times
    };
    let (up, down) = (sorted(|ping| ping.up_ns), sorted(|ping| ping.down_ns));
    let values = [
        ("down_p50", percentile_us(&down, 500)),
        ("down_p99", percentile_us(&down, 990)),
        ("up_p50", percentile_us(&up, 500)),
        ("up_p99", percentile_us(&up, 990)),
    ];
    Sample::new(CASE, way, round, values)
}

pub(super) fn percentile_us(sorted_ns: &[u64], per_mille: u32) -> f64 {
    stats::percentile(sorted_ns, per_mille).map_or(f64::NAN, |ns| ns as f64 / 1e3)
}
