//! A bulk flow with a ping beside it, and the ping alone.

use std::sync::atomic::{AtomicBool, Ordering};

use engine::{Engine, PassThrough};
use link::{PacketRecord, Percentiles, Summary};
use sim::{MiddleboxUnderTest, Network, NetworkConfig, SimError};
use units::{Bytes, Duration, Instant};

use crate::Treatment;
use crate::line_up::{FlowPlan, LineUp, PING_EVERY, PING_LEN};
use crate::results::{Delays, Run, Waiting};
use crate::series;

/// Interval at which the data in the accelerator is looked at.
const SAMPLE_EVERY: Duration = Duration::from_millis(10);
/// Time after the run for which pings of its time are waited for.
const PATIENCE: Duration = Duration::from_secs(30);
/// Data of the bulk flow beyond what the link can carry.
pub(crate) const SURPLUS: Bytes = Bytes::from_mib(64);

pub(crate) const PING: usize = 0;
const BULK: usize = 1;

/// A middlebox whose waiting data can be seen.
pub(crate) trait Observed: MiddleboxUnderTest {
    /// Bytes acknowledged to servers and not yet sent on; none when it holds none by nature.
    fn waiting(&self) -> Option<u64>;
}

impl Observed for PassThrough {
    fn waiting(&self) -> Option<u64> {
        None
    }
}

impl Observed for Engine {
    fn waiting(&self) -> Option<u64> {
        Some(self.flow_reports(0).map(|flow| flow.debt.get().saturating_sub(flow.in_flight.get())).sum())
    }
}

/// Runs the bulk flow for `length` and fills in what was measured.
pub(crate) fn bulk(line_up: &LineUp<'_>, length: Duration, run: Run) -> Result<Run, SimError> {
    let offered = line_up.trace.down.offered_bytes(Duration::ZERO, length + PATIENCE);
    let flows = [pings(length), FlowPlan::download((offered + SURPLUS).get(), Instant::ZERO)];
    let network = line_up.network(&flows);
    match line_up.engine() {
        None => bulk_through(PassThrough, (&network, line_up.is_over), length, run),
        Some(config) => {
            let mut run = bulk_through(Engine::new(config)?, (&network, line_up.is_over), length, run)?;
            if line_up.scheme.treatment == Treatment::Drwa {
                // It holds nothing by nature, and splits nothing by intention.
                run.waiting = None;
                run.problems.retain(|problem| problem != PASSED);
            }
            Ok(run)
        }
    }
}

/// Problem of a run in which the accelerator was to split the bulk flow.
const PASSED: &str = "the accelerator let the bulk flow pass";

/// Round trips of the ping alone.
pub(crate) fn idle_ping(line_up: &LineUp<'_>, length: Duration) -> Result<Delays, SimError> {
    let network = line_up.network(&[pings(length)]);
    let mut watched = Watched::new(PassThrough, &network, line_up.is_over)?;
    watched.run(length);
    Ok(watched.pings())
}

/// The pings of a run.
pub(crate) fn pings(length: Duration) -> FlowPlan {
    let count = length.as_nanos() / PING_EVERY.as_nanos();
    FlowPlan::requests(u32::try_from(count).unwrap_or(u32::MAX).max(1), PING_EVERY, PING_LEN)
}

fn bulk_through<M: Observed>(
    middlebox: M,
    (network, is_over): (&NetworkConfig, &AtomicBool),
    length: Duration,
    mut run: Run,
) -> Result<Run, SimError> {
    let mut watched = Watched::new(middlebox, network, is_over)?;
    watched.run(length);
    let is_accelerated = watched.network.is_accelerated(BULK);
    if watched.samples > 0 && !is_accelerated {
        watched.problems.push(PASSED.to_owned());
    }
    run.ping_ms = watched.pings();
    run.pings_unanswered = watched.unanswered();
    run.waiting = (watched.samples > 0).then(|| Waiting {
        mean_bytes: watched.waiting_sum as f64 / watched.samples as f64,
        max_bytes: watched.waiting_max,
    });
    run.log_hash = format!("{:016x}", watched.network.outcome().log_hash);
    let (records, summary) = watched.radio_records(length);
    run.series = Some(series::of_run(&records, length));
    run.queue_quantiles_ms = series::quantiles(&records, length);
    run.set_radio(&summary);
    run.problems = watched.problems;
    Ok(run)
}

/// A network under observation.
pub(crate) struct Watched<'a, M> {
    is_over: &'a AtomicBool,
    network: Network<M>,
    waiting_sum: u64,
    waiting_max: u64,
    samples: u64,
    pub(crate) problems: Vec<String>,
}

impl<'a, M: Observed> Watched<'a, M> {
    pub(crate) fn new(
        middlebox: M,
        config: &NetworkConfig,
        is_over: &'a AtomicBool,
    ) -> Result<Self, SimError> {
        let network = Network::new(config, middlebox)?;
        Ok(Self { is_over, network, waiting_sum: 0, waiting_max: 0, samples: 0, problems: Vec::new() })
    }

    /// Runs for `length`, and on until every ping has its answer, or the user wants no more.
    pub(crate) fn run(&mut self, length: Duration) {
        let end = Instant::ZERO + length;
        let mut at = Instant::ZERO;
        while !self.is_over.load(Ordering::Relaxed)
            && (at < end || (self.unanswered() > 0 && at < end + PATIENCE))
        {
            at += SAMPLE_EVERY;
            match self.network.run_until(at) {
                Ok(true) => return,
                Ok(false) => self.network.wait_until(at),
                Err(error) => {
                    self.problems.push(format!("a rule was broken: {error}"));
                    return;
                }
            }
            if at <= end {
                self.sample();
            }
        }
    }

    fn sample(&mut self) {
        if let Some(waiting) = self.network.middlebox().waiting() {
            self.samples += 1;
            self.waiting_sum += waiting;
            self.waiting_max = self.waiting_max.max(waiting);
        }
    }

    /// Summary of the radio link in the time of the run.
    pub(crate) fn radio(&mut self, length: Duration) -> Summary {
        self.radio_records(length).1
    }

    /// The same with its packets.
    fn radio_records(&mut self, length: Duration) -> (Vec<PacketRecord>, Summary) {
        let (from, to) = (Instant::ZERO, Instant::ZERO + length);
        let link = self.network.radio_down(0).map(sim::Path::link_mut);
        let (records, offered) =
            link.map_or((Vec::new(), Bytes::ZERO), |link| (link.take_log(), link.offered_bytes(from, to)));
        let summary = Summary::from_records(&records, offered, from, to);
        (records, summary)
    }

    /// Times from requests to the ends of their responses.
    pub(crate) fn response_times(&self, flow: usize) -> &[Duration] {
        self.network.clients().get(flow).map_or(&[], |client| client.response_times())
    }

    /// Log of the call's ends.
    pub(crate) fn datagrams(&self) -> Option<&sim::DatagramLog> {
        self.network.datagrams()
    }

    /// Bytes that the client of a flow had read by `at`, as its marks of progress tell.
    pub(crate) fn read_by(&self, flow: usize, at: Instant) -> u64 {
        let marks = self.network.clients().get(flow).map_or(&[][..], |client| client.progress().marks);
        let count = marks.partition_point(|(when, _)| *when <= at);
        count.checked_sub(1).map_or(0, |last| marks[last].1)
    }

    fn pings(&self) -> Delays {
        Percentiles::of(self.response_times(PING).to_vec()).into()
    }

    fn unanswered(&self) -> u64 {
        let asked = self.network.clients().get(PING).map_or(0, |client| client.config().app.writes.len());
        asked.saturating_sub(self.response_times(PING).len()) as u64
    }
}
