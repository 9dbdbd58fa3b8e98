//! Whether metrics cost throughput: many flows, while somebody asks for metrics once a second and while nobody does.

use std::io::{Read, Write};
use std::net::{Ipv4Addr, TcpStream};
use std::process::{Child, Command, Stdio};
use std::time::Duration as Span;

use io::{Clock, SpawnOptions};
use units::Duration;

use super::{count_text, flows};
use crate::comparison::Comparison;
use crate::error::Context;
use crate::load::Held;
use crate::results::Sample;
use crate::stage::{Measure, Plan, Stage, metric};
use crate::topology::NetworkOptions;
use crate::{BenchError, Way};

const FLOWS: u32 = 10_000;

const SUBSCRIBERS: u32 = 1_000;

/// What is sent before counting begins.
const WARM_UP: Duration = Duration::from_millis(2_000);

/// How often Prometheus asks, in the shortest setting that is of use.
const EVERY: Duration = Duration::from_millis(1_000);

/// How long an answer may take.
const PATIENCE: Span = Span::from_secs(5);

/// Where `cellerator metrics` listens, in the namespace of the box.
const PORT: u16 = 9_469;

/// Whether it is asked in each stretch of a round: what drifts on the machine, in a line or in a parabola, is
/// the same for both.
const STRETCHES: [bool; 8] = [false, true, true, false, true, false, false, true];

pub(crate) struct ScrapePart;

impl Measure for ScrapePart {
    fn plan(&self) -> Plan {
        let (asked, alone) = (case(true), case(false));
        Plan {
            title: "Metrics",
            how: "10,000 flows of 1,000 client addresses send as fast as they can, and the client's \
                  processes count what they read. `cellerator metrics` runs beside the box all the time. Each \
                  round has eight stretches in a row. In four of them somebody asks for metrics over HTTP, \
                  at the begin and once a second. *Answer* is the time until the whole text has come, on \
                  processors that are all busy. *Wait* is how long packets of the box waited for an answer, \
                  as the answer itself says.",
            metrics: vec![
                metric("gbps", "Gbit/s", 3),
                metric("answer_ms", "answer, ms", 1),
                metric("wait_us", "wait, µs", 1),
            ],
            ways: vec![Way::Adaptive],
            rounds: 5,
            time: Duration::from_millis(2_000),
            network: NetworkOptions { subscribers: SUBSCRIBERS, ..NetworkOptions::default() },
            comparisons: vec![
                Comparison::between_cases(
                    "Throughput, scraped ÷ not scraped",
                    "gbps",
                    Way::Adaptive,
                    &asked,
                    &alone,
                )
                .in_unit("", 3),
                // A thousandth of a second is 0.1 % of the packet loop at one answer a second.
                Comparison::alone("Packets wait for an answer", "wait_us", &asked, Way::Adaptive)
                    .in_unit(" µs", 1)
                    .at_most(1_000.0),
            ],
        }
    }

    fn measure(&mut self, stage: &mut Stage<'_>, way: Way, round: u32) -> Result<Vec<Sample>, BenchError> {
        let boxed = stage.start(way)?;
        let mut held = Held::open(stage, FLOWS, SUBSCRIBERS, flows::BUFFER)?;
        let server = Server::start(stage)?;
        held.blast()?;
        stage.pause.wait(WARM_UP)?;
        let mut sums = [Sum::default(), Sum::default()];
        for is_asked in STRETCHES {
            let sum = &mut sums[usize::from(is_asked)];
            let (begin, before) = (Clock::now(), held.received()?);
            let end = begin + stage.time;
            let mut next = if is_asked { begin } else { end };
            while next < end {
                let asked = Clock::now();
                sum.waits_s.push(server.ask(stage)?);
                sum.answers_s.push(Clock::now().saturating_since(asked).as_secs_f64());
                next += EVERY;
                stage.pause.wait(next.min(end).saturating_since(Clock::now()))?;
            }
            stage.pause.wait(end.saturating_since(Clock::now()))?;
            sum.bytes += held.received()?.saturating_sub(before);
            sum.seconds += Clock::now().saturating_since(begin).as_secs_f64();
        }
        drop((held, server));
        stage.stop(boxed, u64::from(FLOWS))?;
        let [alone, asked] = sums;
        if alone.bytes == 0 || asked.bytes == 0 {
            return Err(BenchError::Nothing(way.name().to_owned()));
        }
        Ok(vec![alone.sample(case(false), way, round), asked.sample(case(true), way, round)])
    }
}

fn case(is_asked: bool) -> String {
    let flows = count_text(FLOWS, "flow");
    if is_asked { format!("{flows}, scraped once a second") } else { format!("{flows}, not scraped") }
}

/// What the stretches of a kind came to.
#[derive(Default)]
struct Sum {
    bytes: u64,
    seconds: f64,
    answers_s: Vec<f64>,
    waits_s: Vec<f64>,
}

impl Sum {
    fn sample(&self, case: String, way: Way, round: u32) -> Sample {
        let mut sample =
            Sample::new(case, way, round, [("gbps", self.bytes as f64 * 8.0 / 1e9 / self.seconds)]);
        let mean =
            |times: &[f64]| (!times.is_empty()).then(|| times.iter().sum::<f64>() / times.len() as f64);
        sample.add("answer_ms", mean(&self.answers_s).map(|s| 1e3 * s));
        sample.add("wait_us", mean(&self.waits_s).map(|s| 1e6 * s));
        sample
    }
}

/// `cellerator metrics` in the namespace of the box; gone when dropped.
struct Server(Child);

impl Server {
    fn start(stage: &mut Stage<'_>) -> Result<Self, BenchError> {
        let netlink = stage.network.middle.netlink()?;
        netlink.set_up(netlink.index_of("lo")?)?;
        let mut command = Command::new(stage.program);
        command.args(["metrics", "--listen", &format!("127.0.0.1:{PORT}")]);
        command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
        let options = SpawnOptions { death_signal: Some(libc::SIGTERM), ..SpawnOptions::default() };
        let server = Self(stage.network.middle.spawn(command, options)?);
        let give_up = Clock::now() + Duration::from_secs(PATIENCE.as_secs());
        while let Err(error) = server.ask(stage) {
            if Clock::now() >= give_up {
                return Err(error);
            }
            stage.pause.wait(Duration::from_millis(20))?;
        }
        Ok(server)
    }

    /// Asks as Prometheus does, and takes the whole answer in. Returns how long packets waited for it, in
    /// seconds.
    fn ask(&self, stage: &Stage<'_>) -> Result<f64, BenchError> {
        let ask = || -> std::io::Result<String> {
            let mut stream = TcpStream::connect((Ipv4Addr::LOCALHOST, PORT))?;
            stream.set_read_timeout(Some(PATIENCE))?;
            let accept = "application/openmetrics-text; version=1.0.0";
            let head = format!(
                "GET /metrics HTTP/1.1\r\nHost: box\r\nAccept: {accept}\r\nConnection: close\r\n\r\n"
            );
            stream.write_all(head.as_bytes())?;
            let mut answer = String::new();
            stream.read_to_string(&mut answer)?;
            Ok(answer)
        };
        let doing = || "ask for metrics".to_owned();
        let answer = stage.network.middle.run(ask)?.doing(doing)?;
        wait_in(&answer).ok_or_else(|| std::io::Error::other(answer)).doing(doing)
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        drop(self.0.kill());
        drop(self.0.wait());
    }
}

/// How long packets waited, in seconds, by an answer that has the accelerator's metrics to their end.
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
