//! A server under test, and its gate: an accelerator that delivers 1 Mbit/s to one of two subscribers.

use std::io::{BufRead, BufReader, Write};
use std::net::{IpAddr, SocketAddr};
use std::os::unix::net::UnixStream;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, mpsc};
use std::thread::{self, JoinHandle};

use io::Clock;
use run::{
    AbMetric, AbPhase, AbReport, Distribution, Estimate, HalfSnapshot, Snapshot, SubscriberLine,
    SubscriberList, SubscriberView,
};
use telemetry::TelemetryError;
use top::{Ask, Reply, Secrets};

use crate::client::{Client, PATIENCE, close, file};

/// A name that would be markup, if it were taken for it.
pub const NAME: &str = "<b>radio</b>";

/// How often a subscriber was looked at, and how often with its flows.
#[derive(Default)]
pub struct Gate {
    looks: AtomicU64,
    looks_at_flows: AtomicU64,
}

impl Gate {
    pub fn looks(&self) -> (u64, u64) {
        (self.looks.load(Ordering::SeqCst), self.looks_at_flows.load(Ordering::SeqCst))
    }
}

pub struct Server {
    pub at: SocketAddr,
    pub gate: Arc<Gate>,
    has_tls: bool,
    own: UnixStream,
    thread: JoinHandle<Result<(), TelemetryError>>,
}

impl Server {
    pub fn start(token: Option<&str>) -> Self {
        let (own, other) = UnixStream::pair().unwrap();
        let secrets = token.map(|token| {
            let path = tempfile::NamedTempFile::new().unwrap().into_temp_path();
            std::fs::write(&path, token).unwrap();
            close(&path);
            Secrets::read(&file("vouched.pem"), &file("vouched.key"), &path).unwrap()
        });
        let mut first = serde_json::to_vec(&secrets).unwrap();
        first.push(b'\n');
        (&own).write_all(&first).unwrap();
        let gate = Arc::new(Gate::default());
        let (played, way) = (Arc::clone(&gate), own.try_clone().unwrap());
        thread::spawn(move || play(&way, &played));
        let (tell, told) = mpsc::channel();
        let listen = "127.0.0.1:0".parse().unwrap();
        let thread = thread::spawn(move || dashboard::serve(listen, other, |at, _| tell.send(at).unwrap()));
        Self { at: told.recv_timeout(PATIENCE).unwrap(), gate, has_tls: token.is_some(), own, thread }
    }

    pub fn client(&self) -> Client {
        Client::connect(self.at, self.has_tls)
    }

    pub fn end_gate(&self) {
        drop(self.own.shutdown(std::net::Shutdown::Both));
    }

    /// Waits until it has ended, which must be well.
    pub fn join(self) {
        self.thread.join().unwrap().unwrap();
    }
}

/// Answers until nobody asks any more.
fn play(mut way: &UnixStream, gate: &Gate) {
    let began = Clock::now();
    for line in BufReader::new(way).lines().map_while(Result::ok) {
        let question: Ask = serde_json::from_str(&line).unwrap();
        if let Ask::Subscriber { from, .. } = &question {
            gate.looks.fetch_add(1, Ordering::SeqCst);
            gate.looks_at_flows.fetch_add(u64::from(*from < u64::MAX), Ordering::SeqCst);
        }
        let mut answer =
            serde_json::to_vec(&answer(&question, Clock::now().saturating_since(began).as_millis())).unwrap();
        answer.push(b'\n');
        if way.write_all(&answer).is_err() {
            return;
        }
    }
}

fn answer(question: &Ask, ms: u64) -> Reply {
    match question {
        Ask::Names => Reply::Names(vec![NAME.to_owned()]),
        Ask::Metrics { .. } => Reply::Metrics(Box::new(snapshot(ms))),
        Ask::Subscribers { .. } => {
            let subscribers = vec![line([10, 0, 0, 2].into(), 0), line([10, 0, 0, 7].into(), ms * 125)];
            Reply::Subscribers(SubscriberList { subscribers, next: None })
        }
        Ask::Subscriber { client, .. } => {
            let subscriber = Some(line(*client, ms * 125));
            Reply::Subscriber(Box::new(SubscriberView { subscriber, ..SubscriberView::default() }))
        }
        Ask::Ab { .. } => Reply::Ab(Box::new(comparison())),
    }
}

fn snapshot(ms: u64) -> Snapshot {
    let times = |us: u64| Distribution { bounds: vec![1_000], counts: vec![0, ms], sum: us * ms };
    let mut downlink =
        HalfSnapshot { round_trip: times(60_000), queueing: times(20_000), ..HalfSnapshot::default() };
    downlink.counters.insert("bytes_delivered".to_owned(), ms * 125);
    downlink.flows.insert("accelerated".to_owned(), 3);
    let name = NAME.to_owned();
    Snapshot { name, process: 1, uptime_ms: ms, subscribers: 2, downlink, ..Snapshot::default() }
}

fn line(address: IpAddr, delivered_bytes: u64) -> SubscriberLine {
    SubscriberLine {
        address,
        port: None,
        flows: 1,
        idle_ms: 0,
        delivered_bytes,
        retransmitted_bytes: 0,
        in_flight_bytes: 30_000,
        held_bytes: 0,
        srtt_us: Some(60_000),
        queueing_us: Some(20_000),
        rate_bps: Some(2_000_000),
        window_bytes: None,
        opaque: None,
    }
}

fn comparison() -> AbReport {
    let estimate = |value: f64| {
        Some(Estimate { subscribers: 9, value, low: Some(value * 0.9), high: Some(value * 1.1) })
    };
    let phase = AbPhase { is_running: true, seed: 7, planned_ms: 60_000, ..AbPhase::default() };
    let metric = AbMetric {
        name: "goodput".to_owned(),
        direction: "downlink".to_owned(),
        unit: "bit/s".to_owned(),
        control: estimate(2e6),
        accelerated: estimate(4e6),
        change: estimate(2.0),
        control_quantiles: vec![1e6, 2e6, 3e6],
        accelerated_quantiles: vec![3e6, 4e6, 5e6],
    };
    AbReport { phase, metrics: vec![metric], ..AbReport::default() }
}
