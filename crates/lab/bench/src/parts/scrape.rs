//! Cost of looking: many flows, while somebody asks for metrics once a second, while somebody looks at a
//! subscriber ten times a second, and while nobody does.

use std::io::{Read, Write};
use std::net::{Ipv4Addr, Shutdown, TcpStream};
use std::process::{Command, Stdio};
use std::thread::{self, JoinHandle};
use std::time::Duration as Span;

use io::{Clock, OwnedChild, SpawnOptions};
use units::Duration;

use super::{count_text, flows};
use crate::boxed::BoxProgram;
use crate::comparison::Comparison;
use crate::error::Context;
use crate::load::Held;
use crate::results::Sample;
use crate::stage::{Measure, Plan, Stage, metric};
use crate::topology::{NetworkOptions, subscriber};
use crate::{BenchError, Way};

const FLOWS: u32 = 100_000;

const SUBSCRIBERS: u32 = 1_000;

/// Time of sending before counting begins.
const WARM_UP: Duration = Duration::from_millis(2_000);

/// Interval at which Prometheus asks, in the shortest setting that is of use.
const EVERY: Duration = Duration::from_millis(1_000);

/// Looks a second that a page has to get, of ten.
const LOOKS_MIN: f64 = 8.0;

/// Longest time that an answer may take.
const PATIENCE: Span = Span::from_secs(5);

/// Port on which `cellerator metrics` and `cellerator dashboard` listen, in the namespace of the box.
const METRICS_PORT: u16 = 9_469;
const PAGE_PORT: u16 = 9_470;

/// Whether it is asked in each stretch of a round: what drifts on the machine, in a line or in a parabola, is
/// the same for both.
const STRETCHES: [bool; 8] = [false, true, true, false, true, false, false, true];

/// Program or page that looks.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Looker {
    Prometheus,
    Page,
}

impl Looker {
    /// The case in which it looks, and the one in which it does not.
    fn case(self, does: bool) -> String {
        let what = match (self, does) {
            (Self::Prometheus, true) => "scraped once a second",
            (Self::Prometheus, false) => "not scraped",
            (Self::Page, true) => "a subscriber looked at ten times a second",
            (Self::Page, false) => "not looked at",
        };
        format!("{}, {what}", count_text(FLOWS, "flow"))
    }
}

pub(crate) struct ScrapePart;

impl Measure for ScrapePart {
    fn plan(&self) -> Plan {
        let throughput = |title: &str, looker: Looker| {
            let (with, without) = (looker.case(true), looker.case(false));
            Comparison::between_cases(title, "gbps", Way::Adaptive, &with, &without).in_unit("", 3)
        };
        let alone = |title: &str, metric, looker: Looker| {
            Comparison::alone(title, metric, &looker.case(true), Way::Adaptive)
        };
        Plan {
            title: "What looking costs",
            how: "100,000 flows of 1,000 client addresses send as fast as they can, and the client's \
                  processes count what they read. `cellerator metrics` and `cellerator dashboard` run beside the \
                  box all the time. Each round has eight stretches in a row. In four of them somebody asks for \
                  metrics over HTTP, at the begin and once a second. Eight more follow; in four of them a page \
                  of the dashboard shows one of the subscribers, ten samples a second, and its flows. *Answer* is \
                  the time until the whole text has come, on processors that are all busy. *Wait* is how long \
                  packets of the box waited for the metrics, as the answer itself says. *Share* is the \
                  processor time of the packet loops for answers of any kind, of all shards together, over the time.",
            metrics: vec![
                metric("gbps", "Gbit/s", 3),
                metric("answer_ms", "answer, ms", 1),
                metric("wait_us", "wait, µs", 1),
                metric("answers_per_s", "answers per s", 1),
                metric("share_permille", "share, ‰ of the time", 3),
            ],
            ways: vec![Way::Adaptive],
            rounds: 5,
            time: Duration::from_millis(2_000),
            network: NetworkOptions { subscribers: SUBSCRIBERS, ..NetworkOptions::default() },
            comparisons: vec![
                throughput("Throughput, scraped ÷ not scraped", Looker::Prometheus),
                // A thousandth of a second is 0.1 % of the packet loop at one answer a second.
                alone("Packets wait for metrics", "wait_us", Looker::Prometheus)
                    .in_unit(" µs", 1)
                    .at_most(1_000.0),
                alone("Packet loops' time for a scrape a second", "share_permille", Looker::Prometheus)
                    .in_unit(" ‰ of the time", 3)
                    .at_most(1.0),
                throughput("Throughput, a subscriber looked at ÷ not", Looker::Page),
                alone("Packet loops' time for ten looks a second", "share_permille", Looker::Page)
                    .in_unit(" ‰ of the time", 3)
                    .at_most(1.0),
            ],
        }
    }

    fn measure(&mut self, stage: &mut Stage<'_>, way: Way, round: u32) -> Result<Vec<Sample>, BenchError> {
        // Of its own: others may run on this machine.
        let name = format!("bench-{}-{round}", std::process::id());
        let boxed = stage.start_with(way, &["--name", &name])?;
        let boxed = boxed.ok_or_else(|| BenchError::Nothing(way.name().to_owned()))?;
        let mut held = Held::open(stage, FLOWS, SUBSCRIBERS, flows::BUFFER)?;
        let metrics = Server::start(stage, ["metrics", &name], METRICS_PORT)?;
        let page = Server::start(stage, ["dashboard", &name], PAGE_PORT)?;
        held.blast()?;
        stage.pause.wait(WARM_UP)?;
        let mut samples = Vec::new();
        for looker in [Looker::Prometheus, Looker::Page] {
            let mut sums = [Sum::default(), Sum::default()];
            for does in STRETCHES {
                let sum = &mut sums[usize::from(does)];
                let looks = (does && looker == Looker::Page).then(|| page.look(stage, &name)).transpose()?;
                let (begin, before) = (Clock::now(), held.received()?);
                let told = AnswerCounts::of(&boxed)?;
                let end = begin + stage.time;
                let mut next = if does && looker == Looker::Prometheus { begin } else { end };
                while next < end {
                    let asked = Clock::now();
                    sum.waits_s.push(metrics.scrape(stage)?);
                    sum.answers_s.push(Clock::now().saturating_since(asked).as_secs_f64());
                    next += EVERY;
                    stage.pause.wait(next.min(end).saturating_since(Clock::now()))?;
                }
                stage.pause.wait(end.saturating_since(Clock::now()))?;
                let now = AnswerCounts::of(&boxed)?;
                sum.bytes += held.received()?.saturating_sub(before);
                sum.seconds += Clock::now().saturating_since(begin).as_secs_f64();
                // The first of the two readings is counted in the second.
                sum.answers += now.answers.saturating_sub(told.answers + 1);
                sum.answering_ns += now.answering_ns.saturating_sub(told.answering_ns);
                drop(looks);
            }
            let [alone, with] = sums;
            if alone.bytes == 0 || with.bytes == 0 {
                return Err(BenchError::Nothing(way.name().to_owned()));
            }
            if looker == Looker::Page && (with.answers as f64) < LOOKS_MIN * with.seconds {
                return Err(BenchError::Load(format!(
                    "a page had {} looks in {} s",
                    with.answers, with.seconds
                )));
            }
            samples.push(alone.sample(looker.case(false), way, round));
            samples.push(with.sample(looker.case(true), way, round));
        }
        drop((held, metrics, page));
        boxed.stop_after(u64::from(FLOWS), &mut stage.pause)?;
        Ok(samples)
    }
}

/// Counts of the box's answers so far.
struct AnswerCounts {
    answers: u64,
    answering_ns: u64,
}

impl AnswerCounts {
    fn of(boxed: &BoxProgram) -> Result<Self, BenchError> {
        let snapshot = boxed.snapshot()?;
        Ok(Self { answers: snapshot.answers, answering_ns: snapshot.answering_ns })
    }
}

/// Sums over the stretches of a kind.
#[derive(Default)]
struct Sum {
    bytes: u64,
    seconds: f64,
    answers: u64,
    answering_ns: u64,
    answers_s: Vec<f64>,
    waits_s: Vec<f64>,
}

impl Sum {
    fn sample(&self, case: String, way: Way, round: u32) -> Sample {
        let values = [
            ("gbps", self.bytes as f64 * 8.0 / 1e9 / self.seconds),
            ("answers_per_s", self.answers as f64 / self.seconds),
            ("share_permille", self.answering_ns as f64 / 1e6 / self.seconds),
        ];
        let mut sample = Sample::new(case, way, round, values);
        let mean =
            |times: &[f64]| (!times.is_empty()).then(|| times.iter().sum::<f64>() / times.len() as f64);
        sample.add("answer_ms", mean(&self.answers_s).map(|s| 1e3 * s));
        sample.add("wait_us", mean(&self.waits_s).map(|s| 1e6 * s));
        sample
    }
}

/// `cellerator metrics` or `cellerator dashboard` in the namespace of the box; gone when dropped.
struct Server {
    _child: OwnedChild,
    port: u16,
}

impl Server {
    fn start(stage: &mut Stage<'_>, arguments: [&str; 2], port: u16) -> Result<Self, BenchError> {
        let netlink = stage.network.middle.netlink()?;
        netlink.set_up(netlink.index_of("lo")?)?;
        let mut command = Command::new(stage.program);
        command.args(arguments).args(["--listen", &format!("127.0.0.1:{port}")]);
        command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
        let options = SpawnOptions { death_signal: Some(libc::SIGTERM), ..SpawnOptions::default() };
        let server = Self { _child: stage.network.middle.spawn(command, options)?.into(), port };
        let give_up = Clock::now() + Duration::from_secs(PATIENCE.as_secs());
        loop {
            match server.ask(stage, "/", "close") {
                Ok(_) => return Ok(server),
                Err(error) if Clock::now() >= give_up => return Err(error),
                Err(_) => stage.pause.wait(Duration::from_millis(20))?,
            }
        }
    }

    /// Asks for a path.
    fn ask(&self, stage: &Stage<'_>, path: &str, connection: &str) -> Result<TcpStream, BenchError> {
        let ask = || -> std::io::Result<TcpStream> {
            let mut stream = TcpStream::connect((Ipv4Addr::LOCALHOST, self.port))?;
            stream.set_read_timeout(Some(PATIENCE))?;
            let accept = "application/openmetrics-text; version=1.0.0, */*";
            let head = format!(
                "GET {path} HTTP/1.1\r\nHost: 127.0.0.1\r\nAccept: {accept}\r\nConnection: {connection}\r\n\r\n"
            );
            stream.write_all(head.as_bytes())?;
            Ok(stream)
        };
        stage.network.middle.run(ask)?.doing(|| format!("ask for {path} at port {}", self.port))
    }

    /// Asks for metrics as Prometheus does, and takes the whole answer in. Returns how long packets waited for it, in
    /// seconds.
    fn scrape(&self, stage: &Stage<'_>) -> Result<f64, BenchError> {
        let doing = || "ask for metrics".to_owned();
        let mut answer = String::new();
        self.ask(stage, "/metrics", "close")?.read_to_string(&mut answer).doing(doing)?;
        wait_in(&answer).ok_or_else(|| std::io::Error::other(answer)).doing(doing)
    }

    /// Looks at the first subscriber, as its page does, until it is dropped.
    fn look(&self, stage: &Stage<'_>, name: &str) -> Result<Looks, BenchError> {
        let path = format!("/subscriber?name={name}&address={}", subscriber(0));
        let stream = self.ask(stage, &path, "keep-alive")?;
        let mut reading = stream.try_clone().doing(|| "look at a subscriber".to_owned())?;
        let reader = thread::spawn(move || {
            let mut block = [0; 16_384];
            while matches!(reading.read(&mut block), Ok(len) if len > 0) {}
        });
        Ok(Looks { stream, reader: Some(reader) })
    }
}

/// A page that shows a subscriber.
struct Looks {
    stream: TcpStream,
    reader: Option<JoinHandle<()>>,
}

impl Drop for Looks {
    fn drop(&mut self) {
        drop(self.stream.shutdown(Shutdown::Both));
        drop(self.reader.take().map(JoinHandle::join));
    }
}

/// Time that packets waited, in seconds, by an answer that has the accelerator's metrics to their end.
fn wait_in(answer: &str) -> Option<f64> {
    let (metrics, _) = answer.split_once("# EOF")?;
    let line = metrics.lines().find(|line| line.starts_with("cellerator_scrape_wait_seconds{"))?;
    line.rsplit(' ').next()?.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_answer_without_an_accelerator_or_an_end_is_none() {
        let wait = "cellerator_scrape_wait_seconds{accelerator=\"a\"} 0.00000975\n";
        let whole = format!("HTTP/1.1 200 OK\r\n\r\n# TYPE x gauge\n{wait}# EOF\n");
        assert_eq!(wait_in(&whole), Some(9.75e-6));
        assert_eq!(wait_in("HTTP/1.1 200 OK\r\n\r\n# EOF\n"), None);
        assert_eq!(wait_in(&format!("HTTP/1.1 200 OK\r\n\r\n\n{wait}")), None);
    }

    #[test]
    fn drift_is_the_same_for_both_kinds() {
        let moment = |kind, order| {
            let places = STRETCHES.iter().enumerate().filter(|(_, is_asked)| **is_asked == kind);
            places.map(|(at, _)| at.pow(order)).sum::<usize>()
        };
        for order in 0..3 {
            assert_eq!(moment(true, order), moment(false, order));
        }
    }
}
