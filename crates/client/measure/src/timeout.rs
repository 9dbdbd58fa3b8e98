//! [`timeout`]: how long a path keeps idle UDP and TCP bindings ([MP]).
//!
//! All silences are tried at once, each on a flow of its own, and the server speaks at the end of each.

use std::io::Read;
use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;

use io::{Clock, DatagramSocket, Interest, IoError, Waiter};
use probe::{IdleEnd, IdleFlow, Key, SessionId};
use serde::Serialize;
use serde_json::Value;
use units::Duration;

use crate::document::{Document, Measured};
use crate::error::MeasureError;
use crate::maker::Maker;
use crate::session::{Session, Watcher, is_from};
use crate::tcp::ask;
use crate::tcp_socket::connect;
use crate::verdict::time;
use probe::order::{Order, What};

/// Name and version of the document; its schema is `schemas/probe-timeout.schema.json`.
pub const SCHEMA: &str = "cellerator/probe-timeout/1";
/// The session is kept by a word this often.
const KEEP_EVERY: Duration = Duration::from_secs(10);
/// Time by which the server's word may come later than expected over TCP.
const GRACE: Duration = Duration::from_secs(5);
const TURN: Duration = Duration::from_millis(200);
const DATAGRAM_MAX: usize = 2_048;
/// Of the longest silence that lived, per cent: how often to send something.
const KEEP_ALIVE_PERCENT: u64 = 80;

/// Plan of the measurement.
#[derive(Clone, Debug)]
pub struct TimeoutPlan {
    /// Silences to try.
    pub silences: Vec<Duration>,
    /// Over UDP.
    pub has_udp: bool,
    /// Over TCP.
    pub has_tcp: bool,
    /// The server's key.
    pub key: Option<Key>,
    /// Results that are known already of each protocol: it is not tried again.
    pub known: Vec<(&'static str, Silence)>,
}

impl TimeoutPlan {
    /// Plan for what `document`, a result that is not the whole, has not learned yet.
    ///
    /// # Errors
    /// When it is no such result, or nothing is left, as one line.
    pub fn resumed(document: &Value, key: Option<Key>) -> Result<Self, String> {
        if document["schema"].as_str() != Some(SCHEMA) {
            return Err("it is no result of probe timeout (--json)".to_owned());
        }
        let mut plan = Self { silences: Vec::new(), has_udp: false, has_tcp: false, key, known: Vec::new() };
        let mut is_left = false;
        for bindings in document["bindings"].as_array().into_iter().flatten() {
            let protocol = match bindings["protocol"].as_str() {
                Some("udp") => "udp",
                Some("tcp") => "tcp",
                _ => return Err("it names a protocol that is neither udp nor tcp".to_owned()),
            };
            plan.has_udp |= protocol == "udp";
            plan.has_tcp |= protocol == "tcp";
            for silence in bindings["silences"].as_array().into_iter().flatten() {
                let seconds = silence["seconds"].as_f64().filter(|seconds| (0.0..1e6).contains(seconds));
                let seconds = seconds.ok_or("it has a silence without a length")?;
                plan.silences.push(Duration::from_millis((seconds * 1e3).round() as u64));
                match silence["lived"].as_bool() {
                    Some(lived) => {
                        plan.known.push((protocol, Silence { seconds, lived: Some(lived), why: None }));
                    }
                    None => is_left = true,
                }
            }
        }
        if is_left { Ok(plan) } else { Err("nothing is left in it to be learned".to_owned()) }
    }

    /// The silences that `protocol` has to try.
    fn left(&self, protocol: &str) -> Vec<Duration> {
        let is_known = |silence: &Duration| {
            let same = |known: &Silence| (known.seconds - silence.as_secs_f64()).abs() < 5e-4;
            self.known.iter().any(|(own, known)| *own == protocol && same(known))
        };
        let mut left: Vec<Duration> =
            self.silences.iter().filter(|silence| !is_known(silence)).copied().collect();
        left.sort_unstable();
        left.dedup();
        left
    }
}

/// One flow.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Silence {
    /// For how long it was silent.
    pub seconds: f64,
    /// True when the server's word came through at its end; none where that was not learned.
    pub lived: Option<bool>,
    /// Reason why it was not learned.
    pub why: Option<String>,
}

/// Silences of one protocol.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Bindings {
    /// `udp` or `tcp`.
    pub protocol: &'static str,
    /// The longest below which all lived.
    pub lived_s: Option<f64>,
    /// The shortest that died.
    pub died_s: Option<f64>,
    /// Send something at least this often, s: 80 % of the longest that lived.
    pub keep_alive_s: Option<f64>,
    /// By rising length.
    pub silences: Vec<Silence>,
}

/// Result of the measurement.
pub type TimeoutDocument = Document<TimeoutFigures>;

/// Figures of the measurement.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct TimeoutFigures {
    /// One for each protocol that was tried.
    pub bindings: Vec<Bindings>,
}

struct Job {
    to: SocketAddr,
    session: SessionId,
    silences: Vec<Duration>,
    key: Option<Key>,
    is_stopped: Arc<AtomicBool>,
}

/// Tries all silences of `plan` at once.
///
/// # Errors
/// Of the system only.
pub fn timeout(
    session: &mut Session<'_>,
    plan: &TimeoutPlan,
    made_by: Maker,
    watcher: &mut dyn Watcher,
) -> Result<Measured<TimeoutFigures>, IoError> {
    let is_stopped = Arc::new(AtomicBool::new(false));
    let wanted = [("udp", plan.has_udp), ("tcp", plan.has_tcp)];
    let tried = wanted.iter().filter(|(_, is_wanted)| *is_wanted);
    let longest = tried.filter_map(|(protocol, _)| plan.left(protocol).pop()).max().unwrap_or(Duration::ZERO);
    watcher.say(&format!("silent for up to {longest}"));
    let mut threads: Vec<(&'static str, JoinHandle<Vec<Silence>>)> = Vec::new();
    if let Some(id) = session.id() {
        let job = |protocol: &str| Job {
            to: session.server(),
            session: id,
            silences: plan.left(protocol),
            key: plan.key.clone(),
            is_stopped: Arc::clone(&is_stopped),
        };
        if plan.has_udp {
            let job = job("udp");
            threads.push(("udp", std::thread::spawn(move || udp(&job))));
        }
        if plan.has_tcp {
            let job = job("tcp");
            threads.push(("tcp", std::thread::spawn(move || tcp(&job))));
        }
    }
    let mut keep_at = Clock::now();
    while !session.is_stopped() && threads.iter().any(|(_, thread)| !thread.is_finished()) {
        if Clock::now() >= keep_at {
            keep_at = Clock::now() + KEEP_EVERY;
            session.keep_alive();
        }
        session.rest(TURN)?;
    }
    is_stopped.store(true, Ordering::SeqCst);
    let ended = threads.into_iter().map(|(protocol, thread)| (protocol, thread.join().unwrap_or_default()));
    let mut ended: Vec<(&'static str, Vec<Silence>)> = ended.collect();
    let mut failure = session.is_stopped().then_some(MeasureError::Interrupted);
    if ended.iter().any(|(_, silences)| silences.iter().any(|silence| silence.lived == Some(false)))
        && let Some(lost) = session.hear()?
    {
        doubt(&mut ended, &lost.to_string());
        failure.get_or_insert(lost);
    }
    let bindings = ended.into_iter().map(|(protocol, silences)| {
        let known = plan.known.iter().filter(|(own, _)| *own == protocol).map(|(_, known)| known.clone());
        bindings(protocol, known.chain(silences).collect())
    });
    let figures = TimeoutFigures { bindings: bindings.collect() };
    Ok(Document::of(made_by, session.peer(), figures, failure))
}

fn silence(after: Duration, lived: Result<bool, String>) -> Silence {
    Silence { seconds: after.as_secs_f64(), lived: lived.as_ref().ok().copied(), why: lived.err() }
}

/// The server is gone: that no word came after the last that did may be its doing, and not the path's.
fn doubt(ended: &mut [(&'static str, Vec<Silence>)], why: &str) {
    let all = ended.iter().flat_map(|(_, silences)| silences);
    let heard = all.filter(|silence| silence.lived == Some(true)).map(|silence| silence.seconds);
    let heard = heard.fold(0.0, f64::max);
    for silence in ended.iter_mut().flat_map(|(_, silences)| silences) {
        if silence.lived == Some(false) && silence.seconds > heard {
            (silence.lived, silence.why) = (None, Some(why.to_owned()));
        }
    }
}

fn bindings(protocol: &'static str, mut silences: Vec<Silence>) -> Bindings {
    silences.sort_unstable_by(|a, b| a.seconds.total_cmp(&b.seconds));
    let died_s = silences.iter().find(|silence| silence.lived == Some(false)).map(|silence| silence.seconds);
    let below = silences.iter().filter(|silence| died_s.is_none_or(|died| silence.seconds < died));
    let lived_s =
        below.filter(|silence| silence.lived == Some(true)).map(|silence| silence.seconds).next_back();
    let keep_alive_s = lived_s.map(|lived| lived * KEEP_ALIVE_PERCENT as f64 / 100.0);
    Bindings { protocol, lived_s, died_s, keep_alive_s, silences }
}

/// All flows in one thread, each with a socket of its own.
fn udp(job: &Job) -> Vec<Silence> {
    let all = |why: &str| job.silences.iter().map(|after| silence(*after, Err(why.to_owned()))).collect();
    match udp_flows(job) {
        Ok(silences) => silences,
        Err(error) => all(&error.to_string()),
    }
}

fn udp_flows(job: &Job) -> Result<Vec<Silence>, IoError> {
    let any: IpAddr = if job.to.is_ipv4() { [0; 4].into() } else { [0_u16; 8].into() };
    let mut waiter = Waiter::new(Duration::ZERO)?;
    let mut flows = Vec::new();
    for (number, after) in (0_u32..).zip(&job.silences) {
        let socket = DatagramSocket::bind(SocketAddr::new(any, 0))?;
        waiter.add(&socket, Interest::Read, number.into())?;
        flows.push((socket, IdleFlow::new(job.session, number, *after, Clock::now())));
    }
    let (mut buffer, mut out, key) = (vec![0; DATAGRAM_MAX], Vec::new(), job.key.as_ref());
    while !job.is_stopped.load(Ordering::SeqCst) && flows.iter().any(|(_, flow)| flow.end().is_none()) {
        for (socket, flow) in &mut flows {
            // What ICMP says is what a path without the binding says.
            while let Ok(Some(received)) = socket.recv(&mut buffer) {
                let bytes = buffer.get(..received.len).unwrap_or(&buffer);
                if is_from(received.from, job.to) {
                    flow.handle_datagram(bytes, key, Clock::now());
                }
            }
            while flow.poll_transmit(key, Clock::now(), &mut out) {
                let _ = socket.send_to(&out, job.to);
            }
        }
        let next = flows.iter().filter_map(|(_, flow)| flow.next_deadline()).min();
        let turn = Clock::now() + TURN;
        waiter.wait(Some(next.map_or(turn, |next| next.min(turn))))?;
    }
    let told = |flow: &IdleFlow| match flow.end() {
        Some(IdleEnd::Lived) => Ok(true),
        Some(IdleEnd::Died) => Ok(false),
        Some(IdleEnd::Unanswered) => Err("no answer when it began".to_owned()),
        Some(IdleEnd::Refused(reason)) => Err(crate::refusal(reason, 0, probe::VERSION)),
        None => Err("interrupted".to_owned()),
    };
    Ok(flows.iter().map(|(_, flow)| silence(flow.after(), told(flow))).collect())
}

/// A thread for each connection.
fn tcp(job: &Job) -> Vec<Silence> {
    std::thread::scope(|scope| {
        let threads: Vec<_> = (0_u32..)
            .zip(&job.silences)
            .map(|(number, after)| (*after, scope.spawn(move || connection(job, number, *after))))
            .collect();
        let failed = || Err("a thread has failed".to_owned());
        threads
            .into_iter()
            .map(|(after, thread)| silence(after, thread.join().unwrap_or_else(|_| failed())))
            .collect()
    })
}

/// True when the server's byte came at the end of the silence.
fn connection(job: &Job, number: u32, after: Duration) -> Result<bool, String> {
    let words = |error: IoError| error.to_string();
    let mut stream = connect(job.to, 0).map_err(words)?;
    let order = Order {
        what: What::Idle,
        session: job.session,
        run: number,
        length: after,
        window: 0,
        congestion_control: String::new(),
    };
    ask(&stream, &order, job.key.as_ref())?;
    stream.set_nonblocking(true).map_err(|error| error.to_string())?;
    let mut waiter = Waiter::new(Duration::ZERO).map_err(words)?;
    waiter.add(&stream, Interest::Read, 0).map_err(words)?;
    let end = Clock::now() + after + GRACE;
    while Clock::now() < end {
        if job.is_stopped.load(Ordering::SeqCst) {
            return Err("interrupted".to_owned());
        }
        let turn = end.min(Clock::now() + TURN);
        if !waiter.wait(Some(turn)).map_err(words)?.is_empty() {
            // An end or a reset instead of the byte is none.
            return Ok(stream.read(&mut [0]).is_ok_and(|count| count == 1));
        }
    }
    Ok(false)
}

pub(crate) fn verdict(document: &TimeoutDocument) -> String {
    let mut text = String::new();
    for bindings in &document.bindings {
        let name = bindings.protocol.to_uppercase();
        let seconds = |s: f64| time(s * 1e3);
        text += &match (bindings.lived_s, bindings.died_s) {
            (Some(lived), Some(died)) => format!(
                "{name}: the path forgets an idle flow after {} to {}; send something every {}. ",
                seconds(lived),
                seconds(died),
                seconds(bindings.keep_alive_s.unwrap_or(lived))
            ),
            (Some(lived), None) => format!(
                "{name}: an idle flow still works after {}, the longest silence that was tried. ",
                seconds(lived)
            ),
            (None, Some(died)) => format!(
                "{name}: the path forgets an idle flow before {}, the shortest silence that was tried. ",
                seconds(died)
            ),
            (None, None) => format!("{name}: nothing was learned. "),
        };
    }
    if let Some(why) = &document.incomplete {
        text += &format!("Not complete: {why}.");
    }
    text.trim().to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_time_out_lies_between_what_lived_and_what_died() {
        let of = |lived: &[Result<bool, String>]| {
            let silences =
                lived.iter().zip(1..).map(|(lived, s)| silence(Duration::from_secs(s), lived.clone()));
            let found = bindings("udp", silences.rev_sorted());
            (found.lived_s, found.died_s)
        };
        assert_eq!(of(&[Ok(true), Ok(true), Ok(false), Ok(false)]), (Some(2.0), Some(3.0)));
        assert_eq!(of(&[Ok(true), Ok(true)]), (Some(2.0), None));
        assert_eq!(of(&[Ok(false), Ok(true)]), (None, Some(1.0)), "what lived beyond proves nothing");
        assert_eq!(of(&[Ok(true), Err("?".to_owned()), Ok(false)]), (Some(1.0), Some(3.0)));
    }

    #[test]
    fn what_a_server_that_is_gone_did_not_say_is_not_the_paths_doing() {
        let of = |lived: &[bool]| -> Vec<Silence> {
            lived.iter().zip(1..).map(|(lived, s)| silence(Duration::from_secs(s), Ok(*lived))).collect()
        };
        // Over TCP there was a word after 3 s, so UDP's 2 s were the path's doing; later ones are not known.
        let mut ended = [("udp", of(&[true, false, false, false])), ("tcp", of(&[true, true, true, false]))];
        doubt(&mut ended, "gone");
        let lived = |at: usize| ended[at].1.iter().map(|silence| silence.lived).collect::<Vec<_>>();
        assert_eq!(lived(0), [Some(true), Some(false), Some(false), None]);
        assert_eq!(lived(1), [Some(true), Some(true), Some(true), None]);
        assert_eq!(ended[0].1[3].why.as_deref(), Some("gone"));
    }

    #[test]
    fn what_is_known_is_not_tried_again() {
        let silence =
            |seconds: f64, lived: Option<bool>| serde_json::json!({"seconds": seconds, "lived": lived});
        let document = serde_json::json!({"schema": SCHEMA, "bindings": [
            {"protocol": "udp", "silences": [silence(0.5, Some(true)), silence(60.0, None)]},
            {"protocol": "tcp", "silences": [silence(0.5, None), silence(60.0, Some(false))]},
        ]});
        let plan = TimeoutPlan::resumed(&document, None).unwrap();
        assert_eq!(plan.left("udp"), [Duration::from_secs(60)]);
        assert_eq!(plan.left("tcp"), [Duration::from_millis(500)]);
        let error = |document: &Value| TimeoutPlan::resumed(document, None).unwrap_err();
        assert!(error(&serde_json::json!([])).starts_with("it is no result"));
        let whole = serde_json::json!({"schema": SCHEMA, "bindings": [
            {"protocol": "udp", "silences": [silence(0.5, Some(true))]}]});
        assert_eq!(error(&whole), "nothing is left in it to be learned");
    }

    /// The order in which they come does not matter.
    trait RevSorted {
        fn rev_sorted(self) -> Vec<Silence>;
    }

    impl<I: Iterator<Item = Silence>> RevSorted for I {
        fn rev_sorted(self) -> Vec<Silence> {
            let mut all: Vec<Silence> = self.collect();
            all.reverse();
            all
        }
    }
}
