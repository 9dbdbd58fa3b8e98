//! [`Evidence`]: all that was seen, and what it shows.

use std::collections::{BTreeMap, BTreeSet};
use std::net::{IpAddr, SocketAddr};

use probe::{Handshake, SmallTcpEnd, from_digits, option_kind, to_digits};
use units::Duration;
use wire::TcpFlags;

use super::plain::{Answered, Failed, Filled, Get, refusal_words};
use super::raw::{Kind, RawFlow};
use super::{CheckOutcome, Connection, Finding, Piece, SeenByRun};
use crate::seen::{Seen, head, refusal_number, text};
use crate::verdict::digits;
use probe::order::Answer;

/// A handshake that is shorter than what follows by less than this share of it, or by less than this time, is
/// as long: servers need a while for an answer.
const HANDSHAKE_SHARE: f64 = 0.35;
const HANDSHAKE_MS: f64 = 10.0;

/// Header field in the head of each answer of a server.
const X_ANSWER: &[u8] = b"X-Answer: ";

/// The number that a server has given an answer, if it is one of ours.
fn number_of(answer: &[u8]) -> Option<usize> {
    let at = answer.windows(X_ANSWER.len()).position(|window| window == X_ANSWER)?;
    let digits = answer.get(at + X_ANSWER.len()..)?.split(|byte| *byte == b'\r').next()?;
    // Zero is that of one that the server had no room to note.
    std::str::from_utf8(digits).ok()?.parse().ok().filter(|number| *number > 0)
}

/// All that was seen.
#[derive(Debug)]
pub(super) struct Evidence {
    pub(super) raw: Vec<RawFlow>,
    pub(super) gets: Vec<Get>,
    pub(super) filled: Vec<Filled>,
    pub(super) refused: Vec<(u16, Result<(), Failed>)>,
    pub(super) seen: SeenByRun,
    pub(super) delay: Duration,
    pub(super) server: IpAddr,
    pub(super) udp_rtt_ms: Option<f64>,
    /// State of each port.
    pub(super) closed: BTreeMap<u16, &'static str>,
}

/// Outcome of a connection.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Attempt {
    Made,
    Refused,
    Silent,
    Unknown,
}

/// Statement of one test about one port.
struct Said {
    outcome: CheckOutcome,
    verdict: String,
    evidence: String,
}

fn said(outcome: CheckOutcome, verdict: impl Into<String>, evidence: impl Into<String>) -> Said {
    Said { outcome, verdict: verdict.into(), evidence: evidence.into() }
}

fn found(verdict: impl Into<String>, evidence: impl Into<String>) -> Said {
    said(CheckOutcome::Found, verdict, evidence)
}

fn clear(verdict: impl Into<String>, evidence: impl Into<String>) -> Said {
    said(CheckOutcome::Clear, verdict, evidence)
}

fn unknown(evidence: impl Into<String>) -> Said {
    said(CheckOutcome::Unknown, "not known", evidence)
}

fn ms(time: f64) -> String {
    if time < 1_000.0 { format!("{} ms", digits(time)) } else { format!("{:.2} s", time / 1e3) }
}

fn seconds(time: Duration) -> String {
    ms(time.as_millis_f64())
}

/// One end's word of a SYN or SYN/ACK, in digits.
fn handshake(packet: Option<&String>) -> Option<Handshake> {
    Handshake::read(&from_digits(packet?.as_bytes())?)
}

/// Defects of a connection, in words.
fn lack(flow: &RawFlow) -> String {
    match flow.end {
        Some(SmallTcpEnd::NoHandshake) => format!("none of {} SYNs was answered", flow.log.syns),
        Some(SmallTcpEnd::Refused) => "the connection was refused by a reset".to_owned(),
        Some(SmallTcpEnd::Reset) => "the connection was reset".to_owned(),
        Some(SmallTcpEnd::NoAnswer) => "the request was never acknowledged".to_owned(),
        Some(SmallTcpEnd::Finished) => "the server did not see the request".to_owned(),
        Some(SmallTcpEnd::Stopped) => "it took too long".to_owned(),
        None => "interrupted".to_owned(),
    }
}

impl Evidence {
    pub(super) fn new() -> Self {
        Self {
            raw: Vec::new(),
            gets: Vec::new(),
            filled: Vec::new(),
            refused: Vec::new(),
            seen: BTreeMap::new(),
            delay: Duration::ZERO,
            server: [0; 4].into(),
            udp_rtt_ms: None,
            closed: BTreeMap::new(),
        }
    }

    /// All runs that a server may know of.
    pub(super) fn runs(&self) -> Vec<u32> {
        let raw = self.raw.iter().map(|flow| flow.run);
        let plain = self.gets.iter().map(|get| get.run).chain(self.filled.iter().map(|filled| filled.run));
        let mut runs: Vec<u32> = raw.chain(plain).collect();
        runs.sort_unstable();
        runs.dedup();
        runs
    }

    fn ports(&self) -> Vec<u16> {
        let raw = self.raw.iter().map(|flow| flow.port);
        let mut ports: Vec<u16> = raw.chain(self.gets.iter().map(|get| get.port)).collect();
        ports.sort_unstable();
        ports.dedup();
        ports
    }

    fn seen_of(&self, run: u32) -> &[Seen] {
        self.seen.get(&run).map_or(&[], Vec::as_slice)
    }

    fn raw_of(&self, port: u16, kind: Kind) -> Option<&RawFlow> {
        self.raw.iter().find(|flow| (flow.port, flow.kind) == (port, kind))
    }

    fn answered(&self, port: u16) -> impl Iterator<Item = (&Get, &Answered)> {
        let own = self.gets.iter().filter(move |get| get.port == port);
        own.filter_map(|get| Some((get, get.outcome.as_ref().ok()?)))
    }

    /// By test, then by port.
    pub(super) fn findings(&self) -> Vec<Finding> {
        type Test = fn(&Evidence, u16) -> Option<Said>;
        let tests: [(&'static str, Test); 20] = [
            ("reachable", |all, port| Some(all.reachable(port))),
            ("split", Self::split),
            ("handshake", Self::handshake),
            ("cache", Self::cache),
            ("time-to-live", Self::time_to_live),
            ("address", Self::address),
            ("sequence-numbers", Self::sequence_numbers),
            ("payload", Self::payload),
            ("mss", |all, port| all.number(port, option_kind::MSS)),
            ("window-scale", |all, port| all.number(port, option_kind::WINDOW_SCALE)),
            ("sack", |all, port| all.flag(port, option_kind::SACK_PERMITTED)),
            ("timestamps", |all, port| all.flag(port, option_kind::TIMESTAMPS)),
            ("mp-capable", |all, port| all.option(port, Kind::MpCapable)),
            ("mp-join", |all, port| all.option(port, Kind::MpJoin)),
            ("fast-open", |all, port| all.option(port, Kind::FastOpen)),
            ("unknown-option", |all, port| all.option(port, Kind::Unknown)),
            ("experiment-253", |all, port| all.option(port, Kind::Experiment1)),
            ("experiment-254", |all, port| all.option(port, Kind::Experiment2)),
            ("ecn", |all, port| all.ecn(port, Kind::Ecn)),
            ("accecn", |all, port| all.ecn(port, Kind::AccEcn)),
        ];
        let mut findings = Vec::new();
        let ports = self.ports();
        for (test, judge) in tests {
            // Of a port that is blocked there is nothing else to tell.
            for port in ports.iter().filter(|port| test == "reachable" || !self.is_blocked(**port)) {
                findings.extend(judge(self, *port).map(|said| finding(test, *port, said)));
            }
        }
        let closed = self.refused.iter();
        findings.extend(
            closed.map(|(port, came)| finding("refused-port", *port, self.refused_port(*port, came))),
        );
        findings
    }

    /// Outcomes of the connections to a port.
    fn attempts(&self, port: u16) -> impl Iterator<Item = Attempt> {
        let raw = self.raw.iter().filter(move |flow| flow.port == port).map(|flow| match flow.end {
            Some(SmallTcpEnd::NoHandshake) => Attempt::Silent,
            Some(SmallTcpEnd::Refused) => Attempt::Refused,
            Some(SmallTcpEnd::Finished) => Attempt::Made,
            _ if flow.log.handshake.is_some() => Attempt::Made,
            _ => Attempt::Unknown,
        });
        let plain = self.gets.iter().filter(move |get| get.port == port).map(|get| match &get.outcome {
            Ok(_) | Err(Failed::Unanswered(_)) => Attempt::Made,
            Err(Failed::Refused) => Attempt::Refused,
            Err(Failed::Silent) => Attempt::Silent,
            Err(Failed::Stopped) => Attempt::Unknown,
        });
        raw.chain(plain)
    }

    /// True when the server listens there, and no connection comes about.
    fn is_blocked(&self, port: u16) -> bool {
        let has = |wanted: Attempt| self.attempts(port).any(|attempt| attempt == wanted);
        !has(Attempt::Made) && (has(Attempt::Refused) || has(Attempt::Silent))
    }

    /// Does a connection come about at all? The server says that it listens there.
    fn reachable(&self, port: u16) -> Said {
        let count = |wanted: Attempt| self.attempts(port).filter(|attempt| *attempt == wanted).count();
        let [made, refused, silent] = [Attempt::Made, Attempt::Refused, Attempt::Silent].map(count);
        let told = format!(
            "the server listens there; of {} connections {made} came about, {refused} were refused by a reset, \
             {silent} got no answer to their SYNs",
            made + refused + silent
        );
        match (self.is_blocked(port), refused, made) {
            (true, 0, _) => found("blocked: no answer comes", told),
            (true, _, _) => found("blocked: refused by a reset", told),
            (false, _, 0) => unknown("interrupted"),
            (false, _, _) => clear("let through", told),
        }
    }

    /// Is data acknowledged that the client has not acknowledged?
    fn split(&self, port: u16) -> Option<Said> {
        let by_delay = self.raw_of(port, Kind::Split).map(|flow| self.by_delay(flow));
        let by_window = self.filled.iter().find(|filled| filled.port == port).map(|own| self.by_window(own));
        match (by_delay, by_window) {
            (Some(delay), Some(window)) => {
                let (first, second) = if window.outcome == CheckOutcome::Found
                    && delay.outcome != CheckOutcome::Found
                    || delay.outcome == CheckOutcome::Unknown
                {
                    (window, delay)
                } else {
                    (delay, window)
                };
                Some(Said { evidence: format!("{}; {}", first.evidence, second.evidence), ..first })
            }
            (one, other) => one.or(other),
        }
    }

    /// [MP] after Wei et al.: early is what the server has sooner than the client's delay.
    fn by_delay(&self, flow: &RawFlow) -> Said {
        let delay_ms = self.delay.as_millis_f64();
        let Some(watch) = self.seen_of(flow.run).iter().rev().find_map(|seen| seen.watch.as_ref()) else {
            let refused = refusal_number(&flow.log.answer).and_then(Answer::from_byte);
            let why = refused.map_or_else(|| lack(flow), refusal_words);
            return unknown(format!("delayed acknowledgements: {why}"));
        };
        let least = watch.pieces.iter().filter_map(|(_, after)| *after).min_by(f64::total_cmp);
        let minimum = match least {
            Some(least) => format!("{} after it was sent", ms(least)),
            None => format!("not in {}", ms(watch.seconds * 1e3)),
        };
        let told = format!(
            "this client acknowledged nothing before {}; the server had its first acknowledgement of data \
             {minimum} (its least round trip, the handshake among it: {})",
            seconds(self.delay),
            ms(watch.rtt_min_ms)
        );
        let is_early = least.is_some_and(|least| least < delay_ms);
        let has_come = flow.log.received > 0;
        let has_waited = least.is_some() || watch.seconds * 1e3 >= delay_ms;
        if is_early {
            found("split", told)
        } else if has_come && has_waited {
            clear("not split", told)
        } else {
            unknown(format!("{told}; {}", if has_come { "it ended too early" } else { "no data came" }))
        }
    }

    /// Compares the data that the server knows to be acknowledged with the data that this machine has got.
    fn by_window(&self, filled: &Filled) -> Said {
        let watch = self.seen_of(filled.run).iter().rev().find_map(|seen| seen.watch.as_ref());
        let (Ok(received), Some(watch)) = (&filled.received, watch) else {
            return unknown(format!(
                "a connection that reads nothing: {}",
                failure(filled.received.as_ref().err())
            ));
        };
        let told = format!(
            "of a connection that reads nothing, the server has acknowledgements for {} bytes when this \
             machine has {}",
            watch.acked, received
        );
        if watch.acked > *received {
            found("split", told)
        } else if watch.acked == 0 {
            unknown(told)
        } else {
            clear("not split as far as the window shows", told)
        }
    }

    /// Time to an answer without that for which the request lay at the server: its kernel makes handshakes, and its
    /// program answers, which may have to wait for a processor. `number` is that of the answer among the run's, from 1.
    fn without_wait(&self, run: u32, number: usize, answered: Duration) -> Duration {
        let seen = self.seen_of(run).get(number.saturating_sub(1));
        let waited_ms = seen.and_then(|seen| seen.waited_ms).unwrap_or(0.0);
        answered.saturating_sub(Duration::from_micros((waited_ms * 1e3) as u64))
    }

    /// The least handshake against the least time to an answer, and to an answer over UDP.
    fn handshake(&self, port: u16) -> Option<Said> {
        let raw = self.raw.iter().filter(|flow| flow.port == port);
        let raw = raw.map(|flow| {
            let answered = flow.log.answered.map(|time| self.without_wait(flow.run, 1, time));
            (flow.log.handshake, answered)
        });
        // What is asked again may come from a cache, which is another test's matter: with a number that was there before.
        let first = self.gets.iter().find(|get| get.port == port).and_then(|get| get.outcome.as_ref().ok());
        let mut numbers = BTreeSet::new();
        let plain = self.answered(port).map(|(get, got)| {
            let is_first = first.is_some_and(|first| std::ptr::eq(first, got));
            let number = number_of(&got.answer);
            let is_new = number.is_some_and(|number| numbers.insert(number));
            let answered = || self.without_wait(get.run, number.unwrap_or(1), got.answered);
            (Some(got.handshake), (is_first || is_new).then(answered))
        });
        let all: Vec<_> = raw.chain(plain).collect();
        let least = |times: &mut dyn Iterator<Item = Duration>| times.min().map(|time| time.as_millis_f64());
        let shake = least(&mut all.iter().filter_map(|(shake, _)| *shake))?;
        let answer = least(&mut all.iter().filter_map(|(_, answer)| *answer))?;
        let udp = self.udp_rtt_ms.map_or(String::new(), |udp| format!(", a round trip of UDP {}", ms(udp)));
        let told = format!(
            "the handshake takes {}, an answer {} without the server's own time{udp}",
            ms(shake),
            ms(answer)
        );
        let longer = answer.max(self.udp_rtt_ms.unwrap_or(0.0));
        Some(if longer - shake > HANDSHAKE_MS.max(shake * HANDSHAKE_SHARE) {
            found("answered nearer than the server", told)
        } else {
            clear("by the server", told)
        })
    }

    /// Did each of the same requests reach the server?
    fn cache(&self, port: u16) -> Option<Said> {
        let run = self.gets.iter().find(|get| get.port == port)?.run;
        let answered = self.answered(port).count();
        let reached = self.seen_of(run).len();
        if answered == 0 {
            let why =
                self.gets.iter().find(|get| get.port == port).and_then(|get| get.outcome.as_ref().err());
            return Some(unknown(format!("no request was answered: {}", failure(why))));
        }
        if reached == 0 && !self.seen.contains_key(&run) {
            return Some(unknown("the server's report did not come"));
        }
        let told = format!("of {answered} equal requests that were answered, {reached} reached the server");
        // A cache gives again what the server has once answered.
        let is_ours = |got: &Answered| got.answer.windows(X_ANSWER.len()).any(|window| window == X_ANSWER);
        Some(if reached >= answered {
            clear("none", told)
        } else if self.answered(port).all(|(_, got)| is_ours(got)) {
            found("answered from a cache", told)
        } else {
            found("answered by somebody else", told)
        })
    }

    /// Time to live of the SYN/ACK against that of data.
    fn time_to_live(&self, port: u16) -> Option<Said> {
        let own = self.raw.iter().filter(|flow| flow.port == port && !flow.log.data_hop_limits.is_empty());
        let limits = own.filter_map(|flow| {
            let syn_ack = Handshake::read(flow.log.syn_ack.as_deref()?)?.hop_limit;
            Some((syn_ack, flow.log.data_hop_limits.clone()))
        });
        let limits: Vec<(u8, Vec<u8>)> = limits.collect();
        let (first, _) = limits.first()?;
        let differs = limits.iter().find(|(syn_ack, data)| data.iter().any(|limit| limit != syn_ack));
        Some(match differs {
            Some((syn_ack, data)) => found(
                "handshake and data come from different places",
                format!("the SYN/ACK came with {syn_ack}, data of the same connection with {}", list(data)),
            ),
            None => clear(
                "the same",
                format!("SYN/ACK and data came with {first} in {} connections", limits.len()),
            ),
        })
    }

    /// The client's address as the server sees it.
    fn address(&self, port: u16) -> Option<Said> {
        let raw = self.raw.iter().filter(|flow| flow.port == port).map(|flow| (flow.run, flow.local));
        let plain = self.answered(port).map(|(get, got)| (get.run, got.local));
        let (seen, own) =
            raw.chain(plain).find_map(|(run, own)| Some((self.seen_of(run).first()?.from.clone(), own)))?;
        let there: SocketAddr = seen.parse().ok()?;
        Some(if there == own {
            clear("the same", format!("the server sees {there}, as this machine has it"))
        } else if there.ip() == own.ip() {
            found("the port is translated", format!("this machine has {own}, the server sees {there}"))
        } else {
            found("the address is translated", format!("this machine has {own}, the server sees {there}"))
        })
    }

    /// Of raw connections: the SYN as it left and as it came, and the same of the SYN/ACK where it is known.
    fn shakes(&self, flow: &RawFlow) -> Option<Shakes> {
        let seen = self.seen_of(flow.run).last()?;
        Some(Shakes {
            sent: Handshake::read(&flow.log.syn)?,
            received: handshake(seen.syn.as_ref())?,
            back_sent: handshake(seen.syn_ack.as_ref()),
            back_received: flow.log.syn_ack.as_deref().and_then(Handshake::read),
            seen: seen.clone(),
        })
    }

    /// The same of the first plain connection, or of what the system's own TCP did.
    fn plain_shakes(&self, port: u16) -> Option<Shakes> {
        let raw = self.raw_of(port, Kind::Plain).and_then(|flow| self.shakes(flow));
        raw.or_else(|| self.shakes(self.raw_of(port, Kind::Split)?))
    }

    fn sequence_numbers(&self, port: u16) -> Option<Said> {
        let shakes = self.plain_shakes(port)?;
        let (sent, received) = (shakes.sent.isn, shakes.received.isn);
        let back = shakes.back_sent.as_ref().zip(shakes.back_received.as_ref());
        let back_differs = back.filter(|(sent, received)| sent.isn != received.isn);
        Some(match (sent == received, back_differs) {
            (false, _) => found("rewritten", format!("the SYN left with {sent} and came with {received}")),
            (true, Some((sent, received))) => found(
                "rewritten",
                format!("the SYN/ACK left with {} and came with {}", sent.isn, received.isn),
            ),
            (true, None) if back.is_some() => clear("kept", format!("the SYN's {sent}, and the SYN/ACK's")),
            (true, None) => {
                let why = "the server did not see its own SYN/ACK: to read packets it needs CAP_NET_RAW, so start \
                           it as root";
                clear("kept", format!("the SYN's {sent}; {why}"))
            }
        })
    }

    /// Are request and answer what they were?
    fn payload(&self, port: u16) -> Option<Said> {
        let raw = self.raw.iter().filter(|flow| flow.port == port && flow.kind != Kind::Split);
        let raw = raw.filter(|flow| flow.end == Some(SmallTcpEnd::Finished));
        let raw = raw.map(|flow| (flow.run, &flow.request, &flow.log.answer));
        let plain = self.answered(port).map(|(get, got)| (get.run, &get.request, &got.answer));
        let mut compared = 0;
        for (run, request, answer) in raw.chain(plain) {
            let Some(seen) = self.seen_of(run).first() else { continue };
            compared += 1;
            if seen.request.as_bytes() != request {
                let told = difference(&String::from_utf8_lossy(request), &seen.request);
                return Some(found("requests are altered", told));
            }
            let answer = String::from_utf8_lossy(answer);
            let is_any =
                (1..=self.seen_of(run).len()).any(|count| answer == head(run, count) + &text(run, count));
            if !is_any {
                let count = answer.split("X-Answer: ").nth(1).and_then(|rest| rest.split('\r').next());
                let count = count.and_then(|count| count.parse().ok()).unwrap_or(1);
                let told = difference(&(head(run, count) + &text(run, count)), &answer);
                return Some(found("answers are altered", told));
            }
        }
        (compared > 0)
            .then(|| clear("kept", format!("{compared} requests and answers are those that were sent")))
    }

    /// An option with a value: MSS, window scale.
    fn number(&self, port: u16, kind: u8) -> Option<Said> {
        let value = |shake: &Handshake| -> Option<u32> {
            if kind == option_kind::MSS {
                shake.mss().map(u32::from)
            } else {
                shake.window_scale().map(u32::from)
            }
        };
        let (up, down) = match self.plain_shakes(port) {
            Some(shakes) => {
                let server = if kind == option_kind::MSS {
                    Some(shakes.seen.offered_mss)
                } else {
                    shakes.seen.shift.map(u32::from)
                };
                let back_sent = shakes.back_sent.as_ref().map_or(server, value);
                let down = shakes.back_received.as_ref().map(|back| (back_sent, value(back)));
                ((value(&shakes.sent), value(&shakes.received)), down)
            }
            None => (self.system_number(port, kind, &value)?, None),
        };
        let words = |value: Option<u32>| value.map_or("none".to_owned(), |value| value.to_string());
        let part = |way: &str, (sent, received): (Option<u32>, Option<u32>)| {
            format!("towards the {way} {} was sent and {} came", words(sent), words(received))
        };
        // What was never sent back is no finding: the server answers only what it was asked.
        let down = down.filter(|(sent, received)| sent.is_some() || received.is_some());
        let told = [Some(part("server", up)), down.map(|down| part("client", down))];
        let told = told.into_iter().flatten().collect::<Vec<_>>().join("; ");
        let change = [Some(up), down].into_iter().flatten().find(|(sent, received)| sent != received);
        Some(match change {
            Some((Some(_), None)) => found("removed", told),
            Some((None, Some(_))) => found("added", told),
            Some((sent, received)) => found(format!("{} becomes {}", words(sent), words(received)), told),
            None => clear(format!("kept ({})", words(up.0)), told),
        })
    }

    /// The same of the SYN of the system's own TCP.
    fn system_number(
        &self,
        port: u16,
        kind: u8,
        value: &dyn Fn(&Handshake) -> Option<u32>,
    ) -> Option<(Option<u32>, Option<u32>)> {
        let (get, got) = self.answered(port).next()?;
        let syn = handshake(self.seen_of(get.run).first()?.syn.as_ref())?;
        let own = if kind == option_kind::MSS {
            Some(got.info.offered_mss)
        } else {
            // What was not negotiated may have been offered: only the system's settings tell.
            let shift = u32::from(got.info.own_shift);
            if got.info.has_window_scale {
                Some(shift)
            } else {
                is_set("tcp_window_scaling").then_some(value(&syn).unwrap_or(shift))
            }
        };
        Some((own, value(&syn)))
    }

    /// An option without a value, or whose value the ends do not share.
    fn flag(&self, port: u16, kind: u8) -> Option<Said> {
        let has = |shake: &Handshake| shake.option(kind).is_some();
        let (up, down) = match self.plain_shakes(port) {
            Some(shakes) => {
                let seen = &shakes.seen;
                let server =
                    if kind == option_kind::TIMESTAMPS { seen.has_timestamps } else { seen.has_sack };
                let back_sent = shakes.back_sent.as_ref().map_or(server, has);
                let down = shakes.back_received.as_ref().map(|back| (back_sent, has(back)));
                ((has(&shakes.sent), has(&shakes.received)), down)
            }
            None => {
                let (get, _) = self.answered(port).next()?;
                let syn = handshake(self.seen_of(get.run).first()?.syn.as_ref())?;
                let setting = if kind == option_kind::TIMESTAMPS { "tcp_timestamps" } else { "tcp_sack" };
                ((is_set(setting), has(&syn)), None)
            }
        };
        let word = |has: bool| if has { "with" } else { "without" };
        let part = |what: &str, (sent, received): (bool, bool)| {
            format!("the {what} left {} it and came {} it", word(sent), word(received))
        };
        let told = [Some(part("SYN", up)), down.map(|down| part("SYN/ACK", down))];
        let told = told.into_iter().flatten().collect::<Vec<_>>().join("; ");
        let change = [Some(up), down].into_iter().flatten().find(|(sent, received)| sent != received);
        Some(match change {
            Some((true, _)) => found("removed", told),
            Some((false, _)) => found("added", told),
            None => clear(if up.0 { "kept" } else { "not sent" }, told),
        })
    }

    /// An option of a connection of its own.
    fn option(&self, port: u16, kind: Kind) -> Option<Said> {
        let flow = self.raw_of(port, kind)?;
        let Some(shakes) = self.shakes(flow) else { return Some(self.broken(flow)) };
        let option = kind.option()?;
        let words = |body: Option<&[u8]>| match body {
            Some([]) => "empty".to_owned(),
            Some(body) => to_digits(body),
            None => "absent".to_owned(),
        };
        let (sent, received) = (shakes.sent.option(option), shakes.received.option(option));
        let told = format!(
            "option {option} ({}) of the SYN: it left {}, and came {}",
            kind.name(),
            words(sent),
            words(received)
        );
        Some(match received {
            None => found("removed", told),
            received if received != sent => found("altered", told),
            _ => clear("kept", told),
        })
    }

    /// A connection with something of its own that did not work.
    fn broken(&self, flow: &RawFlow) -> Said {
        let why = lack(flow);
        let plain = self.raw_of(flow.port, Kind::Plain);
        let works = plain.is_some_and(|plain| plain.end == Some(SmallTcpEnd::Finished));
        match flow.end {
            Some(end) if works && end != SmallTcpEnd::Finished && end != SmallTcpEnd::Stopped => {
                found("connections with it fail", format!("{why}, where a connection without it works"))
            }
            _ => unknown(why),
        }
    }

    /// ECN, or AccECN: flags of the SYN, and of the SYN/ACK, and the mark of a packet.
    fn ecn(&self, port: u16, kind: Kind) -> Option<Said> {
        let flow = self.raw_of(port, kind)?;
        let Some(shakes) = self.shakes(flow) else { return Some(self.broken(flow)) };
        let all = TcpFlags::ECE.with(TcpFlags::CWR).with(TcpFlags::AE);
        let of = |shake: &Handshake| TcpFlags::from_bits(shake.flags.bits() & all.bits());
        let words = |flags: TcpFlags| {
            let names = [(TcpFlags::AE, "AE"), (TcpFlags::CWR, "CWR"), (TcpFlags::ECE, "ECE")];
            let set: Vec<&str> =
                names.iter().filter(|(flag, _)| flags.contains(*flag)).map(|(_, name)| *name).collect();
            if set.is_empty() { "none".to_owned() } else { set.join(" ") }
        };
        let (sent, received) = (of(&shakes.sent), of(&shakes.received));
        let mut told = format!("flags of the SYN: {} left, {} came", words(sent), words(received));
        if sent != received {
            return Some(found("flags of the SYN are altered", told));
        }
        let back = shakes.back_sent.as_ref().zip(shakes.back_received.as_ref());
        if let Some((sent, received)) = back.map(|(sent, received)| (of(sent), of(received))) {
            told += &format!("; of the SYN/ACK: {} left, {} came", words(sent), words(received));
            if sent != received {
                return Some(found("flags of the SYN/ACK are altered", told));
            }
        }
        if kind == Kind::Ecn && shakes.seen.has_ecn {
            let word = if shakes.seen.has_seen_ecn { "came" } else { "did not come" };
            told += &format!("; the mark ECT(0) of a packet {word}");
            if !shakes.seen.has_seen_ecn {
                return Some(found("marks of packets are removed", told));
            }
        } else if kind == Kind::Ecn {
            told += "; the server does not use ECN, so marks of packets were not tested";
        }
        Some(clear("kept", told))
    }

    fn refused_port(&self, port: u16, came: &Result<(), Failed>) -> Said {
        let is_held = self.closed.get(&port).is_some_and(|state| *state == "refused");
        let who =
            if is_held { "the server holds this port and does not listen" } else { "nobody listens there" };
        match came {
            Ok(()) => found("answered by somebody else", format!("{who}, and a connection was made")),
            Err(Failed::Refused) => clear("refused, as it should be", format!("{who}: a reset came")),
            Err(Failed::Silent) => {
                unknown(format!("{who}; no answer came: a firewall drops what goes there"))
            }
            Err(failed) => unknown(failure(Some(failed))),
        }
    }

    /// Raw connections for the document.
    pub(super) fn connections(&self) -> Vec<Connection> {
        let mut all: Vec<Connection> = self.raw.iter().map(|flow| self.connection(flow)).collect();
        all.sort_by_key(|connection| (connection.port, connection.kind));
        all
    }

    fn connection(&self, flow: &RawFlow) -> Connection {
        let seen = self.seen_of(flow.run).last();
        let pieces = seen.and_then(|seen| seen.watch.as_ref()).map_or(&[][..], |watch| &watch.pieces);
        Connection {
            port: flow.port,
            kind: flow.kind.name(),
            end: match flow.end {
                Some(SmallTcpEnd::Finished) => "finished",
                Some(SmallTcpEnd::Refused) => "refused",
                // The server ends the test with delayed acknowledgements so.
                Some(SmallTcpEnd::Reset) => "reset",
                Some(SmallTcpEnd::NoHandshake) => "no SYN was answered",
                Some(SmallTcpEnd::NoAnswer) => "the request was not acknowledged",
                Some(SmallTcpEnd::Stopped) => "took too long",
                None => "interrupted",
            },
            syns: flow.log.syns,
            handshake_ms: flow.log.handshake.map(|time| time.as_millis_f64()),
            answered_ms: flow.log.answered.map(|time| time.as_millis_f64()),
            received_bytes: flow.log.received,
            syn_sent: to_digits(&flow.log.syn),
            syn_received: seen.and_then(|seen| seen.syn.clone()),
            syn_ack_sent: seen.and_then(|seen| seen.syn_ack.clone()),
            syn_ack_received: flow.log.syn_ack.as_deref().map(headers),
            pieces: pieces
                .iter()
                .map(|(at_ms, after)| Piece { at_ms: *at_ms, acknowledged_after_ms: *after })
                .collect(),
        }
    }
}

/// Both SYNs and both SYN/ACKs of a connection.
struct Shakes {
    sent: Handshake,
    received: Handshake,
    back_sent: Option<Handshake>,
    back_received: Option<Handshake>,
    seen: Seen,
}

fn headers(packet: &[u8]) -> String {
    to_digits(packet)
}

fn finding(test: &'static str, port: u16, said: Said) -> Finding {
    Finding { port, test, outcome: said.outcome, verdict: said.verdict, evidence: said.evidence }
}

fn list(numbers: &[u8]) -> String {
    numbers.iter().map(u8::to_string).collect::<Vec<_>>().join(" and ")
}

fn failure(failed: Option<&Failed>) -> String {
    match failed {
        Some(Failed::Refused) => "the connection was refused".to_owned(),
        Some(Failed::Silent) => "no answer to its SYNs".to_owned(),
        Some(Failed::Unanswered(why)) => format!("no answer: {why}"),
        Some(Failed::Stopped) => "interrupted".to_owned(),
        None => "the server's report did not come".to_owned(),
    }
}

/// True when this machine's TCP offers something.
fn is_set(setting: &str) -> bool {
    let value = std::fs::read_to_string(format!("/proc/sys/net/ipv4/{setting}"));
    value.is_ok_and(|value| value.trim() != "0")
}

/// The first line in which two texts differ.
fn difference(sent: &str, came: &str) -> String {
    let cut = |line: Option<&str>| {
        line.map_or("nothing".to_owned(), |line| format!("'{}'", line.chars().take(60).collect::<String>()))
    };
    let (mut a, mut b) = (sent.lines(), came.lines());
    let mut number = 0;
    loop {
        number += 1;
        match (a.next(), b.next()) {
            (None, None) => return "the ends of lines differ".to_owned(),
            (one, other) if one != other => {
                return format!("line {number}: {} was sent, {} came", cut(one), cut(other));
            }
            _ => {}
        }
    }
}

#[cfg(test)]
mod tests;
