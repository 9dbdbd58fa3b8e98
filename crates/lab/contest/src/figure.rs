//! [`Study`]: one scheme on one link, looked at closely: the simulated figure of its page in
//! `docs/algorithms`.

use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use engine::{Engine, FlowState, PassThrough};
use figures::chart::{Axis, Chart, Ink, Mark, Panel, Range, Series};
use link::{PacketRecord, Trace};
use sim::{MiddleboxUnderTest, Network, SimError};
use units::{Bytes, Duration, Instant, Rate};

use crate::line_up::{FlowPlan, LineUp};
use crate::{ContestError, PathSettings, Scheme, TraceSource, Treatment};

/// Interval at which windows and data in flight are looked at.
const SAMPLE_EVERY: Duration = Duration::from_millis(50);
/// Throughput and delay are those of so long.
const BIN: Duration = Duration::from_millis(100);
/// Data of the flow beyond what the link can carry.
const SURPLUS: Bytes = Bytes::from_mib(64);

/// One bulk download of one scheme.
#[derive(Clone, Debug)]
pub struct Study {
    /// Scheme of the sender.
    pub scheme: Scheme,
    /// Capacity of the radio link over time.
    pub trace: TraceSource,
    /// Its drop-tail queue.
    pub queue: Bytes,
    /// Duration of the run.
    pub length: Duration,
    /// Of all random choices.
    pub seed: u64,
}

impl TraceSource {
    /// 24 Mbit/s, from 10 s on 6 Mbit/s, from 20 s on 24 Mbit/s again, each half minute.
    ///
    /// # Errors
    /// None in practice: the trace is always the same.
    pub fn steps() -> Result<Self, ContestError> {
        let fast = |from: u64| (from + 1..=from + 10_000).flat_map(|ms| [ms, ms]);
        let slow = (10_001..=20_000).filter(|ms| ms % 2 == 0);
        let trace = Trace::from_opportunities_ms(fast(0).chain(slow).chain(fast(20_000)));
        let trace =
            trace.map_err(|e| ContestError::Trace { name: STEPS.to_owned(), problem: e.to_string() })?;
        Ok(Self { name: STEPS.to_owned(), down: Arc::new(trace), up: None, is_drawn: false })
    }
}

const STEPS: &str = "24, 6 and 24 Mbit/s";

/// Limits of the sender of the radio segment, and its use of them.
#[derive(Clone, Copy, Default, Debug)]
struct Sample {
    window: Option<Bytes>,
    pacing: Option<Rate>,
    in_flight: Option<Bytes>,
}

/// A middlebox that can say what it limits the radio segment to.
trait Limiting: MiddleboxUnderTest {
    /// Nothing where it does not send by itself.
    fn limits(&self) -> Sample;
}

impl Limiting for PassThrough {
    fn limits(&self) -> Sample {
        Sample::default()
    }
}

impl Limiting for Engine {
    fn limits(&self) -> Sample {
        let Some(flow) = self.flow_reports(0).find(|flow| flow.state != FlowState::Observing) else {
            return Sample::default();
        };
        if flow.state == FlowState::Windowed {
            return Sample {
                window: Some(flow.client_window),
                in_flight: Some(flow.in_flight),
                pacing: None,
            };
        }
        Sample {
            window: flow.subscriber_window.filter(|window| *window != Bytes::MAX),
            pacing: flow.subscriber_rate.filter(|rate| *rate != Rate::MAX),
            in_flight: Some(flow.in_flight),
        }
    }
}

impl Study {
    /// Runs it; `command` is what the reader can make it again with.
    ///
    /// # Errors
    /// The run cannot be made, or broke a rule.
    pub fn run(&self, command: &str) -> Result<Chart, ContestError> {
        let offered = self.trace.down.offered_bytes(Duration::ZERO, self.length);
        let path = PathSettings::default();
        let line_up = LineUp {
            trace: &self.trace,
            queue: self.queue,
            scheme: &self.scheme,
            path: &path,
            seed: self.seed,
            is_over: &AtomicBool::new(false),
        };
        let network = line_up.network(&[FlowPlan::download((offered + SURPLUS).get(), Instant::ZERO)]);
        let recorded = match line_up.engine() {
            None => Network::new(&network, PassThrough).and_then(|network| self.record(network)),
            Some(config) => Engine::new(config)
                .map_err(SimError::from)
                .and_then(|engine| Network::new(&network, engine))
                .and_then(|network| self.record(network)),
        };
        let recorded = recorded.map_err(|source| ContestError::Sim {
            run: format!("{} on {}", self.scheme, self.trace.name),
            source,
        })?;
        Ok(self.draw(&recorded, command))
    }

    fn record<M: Limiting>(&self, mut network: Network<M>) -> Result<Recorded, SimError> {
        let end = Instant::ZERO + self.length;
        let mut samples = Vec::new();
        let mut at = Instant::ZERO;
        while at < end {
            at += SAMPLE_EVERY;
            if network.run_until(at)? {
                break;
            }
            network.wait_until(at);
            samples.push(self.sample(&network));
        }
        let capacity = (0..self.length.as_nanos() / BIN.as_nanos()).map(|bin| {
            let from = BIN * bin;
            Rate::from_transfer(self.trace.down.offered_bytes(from, from + BIN), BIN)
        });
        let capacity = capacity.collect();
        let records = network.radio_down(0).map(|radio| radio.link_mut().take_log()).unwrap_or_default();
        Ok(Recorded { samples, records, capacity })
    }

    fn sample<M: Limiting>(&self, network: &Network<M>) -> Sample {
        let of_box = network.middlebox().limits();
        let of_server = network.servers().first().and_then(|server| server.sending());
        match (self.scheme.treatment, of_server) {
            (Treatment::Accelerated | Treatment::Split, _) | (_, None) => of_box,
            (treatment, Some((control, in_flight))) => Sample {
                window: if treatment == Treatment::Drwa {
                    of_box.window
                } else {
                    Some(control.window).filter(|window| *window != Bytes::MAX)
                },
                pacing: Some(control.pacing_rate).filter(|rate| *rate != Rate::MAX),
                in_flight: Some(in_flight),
            },
        }
    }

    fn draw(&self, recorded: &Recorded, command: &str) -> Chart {
        let bins = recorded.bins(self.length);
        let line = |name: &str, step: Duration, values: Vec<Option<f64>>| {
            Series::of_bins(name, Ink::Colour(0), Mark::Line, step.as_secs_f64(), values)
        };
        let sampled = |name: &str, value: &dyn Fn(&Sample) -> Option<f64>| {
            line(name, SAMPLE_EVERY, recorded.samples.iter().map(value).collect())
        };
        let binned = |name: &str, value: &dyn Fn(&Bin) -> Option<f64>| {
            line(name, BIN, bins.iter().map(value).collect())
        };
        let kilobytes = |bytes: Bytes| bytes.get() as f64 / 1_000.0;
        let delivered = |bin: &Bin| Rate::from_transfer(Bytes::new(bin.delivered), BIN).as_mbps_f64();
        let capacity = recorded.capacity.iter().map(|rate| Some(rate.as_mbps_f64()));
        let capacity = Series::of_bins("capacity", Ink::Limit, Mark::Ground, BIN.as_secs_f64(), capacity);
        let window_name =
            if self.scheme.treatment == Treatment::Drwa { "window told to the server" } else { "window" };
        let rates = vec![
            binned("delivered", &|bin| Some(delivered(bin))),
            sampled("pacing rate", &|s| s.pacing.map(Rate::as_mbps_f64)),
        ];
        let amounts = vec![
            sampled("in flight", &|s| s.in_flight.map(kilobytes)),
            sampled(window_name, &|s| s.window.map(kilobytes)),
        ];
        let delays = vec![
            binned("queueing delay, mean of 0.1 s", &Bin::mean_ms),
            binned("longest", &|bin| (bin.packets > 0).then(|| bin.longest.as_millis_f64())),
        ];
        let rate_top = largest(&capacity) * ABOVE_CAPACITY;
        Chart {
            title: self.scheme.to_string(),
            note: format!(
                "One simulated download, {}. Radio link: {}; queue: {}; empty path: 40 ms",
                sent_by(self.scheme.treatment),
                self.trace.name,
                self.queue
            ),
            made_by: command.to_owned(),
            x: Axis::exact("time, s").over(Range::Between(0.0, self.length.as_secs_f64())),
            panels: vec![
                panel("Rate, Mbit/s", rates, Some(capacity), rate_top),
                panel("Data, KB", amounts, None, f64::INFINITY),
                panel("Delay, ms", delays, None, f64::INFINITY),
            ],
            ..Chart::default()
        }
    }
}

/// Room above the link's capacity, as a factor of it.
const ABOVE_CAPACITY: f64 = 1.25;
/// A line that leaves the first so far below leaves the panel.
const ABOVE_FIRST: f64 = 2.0;

fn largest(series: &Series) -> f64 {
    series.points.iter().map(|point| point.y).fold(0.0, f64::max)
}

/// A panel of the lines that have a value, up to `top` at most.
fn panel(label: &str, mut lines: Vec<Series>, ground: Option<Series>, top: f64) -> Panel {
    lines.retain(|line| line.points.iter().any(|point| point.y.is_finite()));
    for (number, line) in lines.iter_mut().enumerate() {
        line.ink = Ink::Colour(number);
    }
    let first = lines.first().map_or(0.0, largest);
    let others = lines.iter().skip(1).map(largest).fold(0.0, f64::max);
    let top = if top.is_finite() { top } else { first.max(others.min(first * ABOVE_FIRST)) };
    let series = ground.into_iter().chain(lines).collect();
    Panel { y: Axis::linear(label).over(Range::Between(0.0, top)), series }
}

const fn sent_by(treatment: Treatment) -> &'static str {
    match treatment {
        Treatment::Direct | Treatment::Kernel => "without accelerator",
        Treatment::Accelerated => "sent by the accelerator",
        Treatment::Split => "split TCP",
        Treatment::Drwa => "window lowered",
    }
}

/// Observations of a run.
struct Recorded {
    samples: Vec<Sample>,
    records: Vec<PacketRecord>,
    capacity: Vec<Rate>,
}

/// The packets that left the radio queue in one bin.
#[derive(Clone, Copy, Default)]
struct Bin {
    delivered: u64,
    packets: u64,
    waited: Duration,
    longest: Duration,
}

impl Bin {
    fn mean_ms(&self) -> Option<f64> {
        (self.packets > 0).then(|| self.waited.as_millis_f64() / self.packets as f64)
    }
}

impl Recorded {
    fn bins(&self, length: Duration) -> Vec<Bin> {
        let mut bins = vec![Bin::default(); (length.as_nanos() / BIN.as_nanos()) as usize];
        for record in &self.records {
            let Some((departure, waited)) = record.departure.zip(record.queueing_delay()) else { continue };
            let index = departure.saturating_since(Instant::ZERO).as_nanos() / BIN.as_nanos();
            let Some(bin) = bins.get_mut(index as usize) else { continue };
            bin.delivered += record.size.get();
            bin.packets += 1;
            bin.waited += waited;
            bin.longest = bin.longest.max(waited);
        }
        bins
    }
}

#[cfg(test)]
mod tests {
    use figures::chart::Width;

    use super::*;

    fn study(scheme: &str) -> Chart {
        let study = Study {
            scheme: scheme.parse().unwrap(),
            trace: TraceSource::steps().unwrap(),
            queue: Bytes::new(2_000_000),
            length: Duration::from_secs(4),
            seed: 1,
        };
        study.run("again").unwrap()
    }

    #[test]
    fn the_steps_are_what_they_say() {
        let trace = TraceSource::steps().unwrap().down;
        let rate = |from| {
            let from = Duration::from_secs(from);
            Rate::from_transfer(trace.offered_bytes(from, from + BIN), BIN).as_mbps_f64()
        };
        assert_eq!((rate(1), rate(15), rate(25), rate(31)), (24.0, 6.0, 24.0, 24.0));
    }

    #[test]
    fn every_treatment_shows_what_it_limits() {
        let names = |chart: &Chart, panel: usize| -> Vec<String> {
            chart.panels[panel].series.iter().map(|series| series.name.clone()).collect()
        };
        let (direct, paced, lowered) = (study("direct:cubic"), study("accel:rate"), study("drwa:cubic"));
        assert_eq!(names(&direct, 0), ["capacity", "delivered"]);
        assert_eq!(names(&direct, 1), ["in flight", "window"]);
        assert_eq!(names(&paced, 0), ["capacity", "delivered", "pacing rate"]);
        assert_eq!(names(&lowered, 1), ["in flight", "window told to the server"]);
        for chart in [direct, paced, lowered] {
            let delivered: f64 = chart.panels[0].series[1].points.iter().map(|point| point.y).sum();
            let length = chart.file(Width::Wide).len();
            assert!(delivered > 100.0 && length < 120_000, "{}: {length}", chart.title);
        }
        assert_eq!(study("split:bbr").json(), study("split:bbr").json());
    }

    #[test]
    fn a_line_far_above_the_first_does_not_flatten_it() {
        let line = |value| Series::of_bins("", Ink::Plain, Mark::Line, 1.0, [Some(value)]);
        let range = |lines| panel("", lines, None, f64::INFINITY).y.range;
        assert_eq!(range(vec![line(10.0), line(9_000.0)]), Range::Between(0.0, 20.0));
        assert_eq!(range(vec![line(10.0), line(15.0)]), Range::Between(0.0, 15.0));
        assert!(panel("", vec![line(f64::NAN)], None, 1.0).series.is_empty());
    }
}
