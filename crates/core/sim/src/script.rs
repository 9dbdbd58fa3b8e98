//! [`Script`]: a middlebox alone, driven by packets written by hand.
//!
//! One line is one packet or one expectation. Numbers are relative: those of the client's stream to its ISN,
//! those of the server's to its, both of which wrap soon after the start. A SYN is at 0, data starts at 1.
//!
//! ```text
//! // The client's SYN comes in at the mobile port, and must go out at the wired port unchanged.
//! 0.0   client>  S 0 win 65535 <mss 1460,sackOK,TS val 1000 ecr 0,wscale 7>
//! 0.0   >server  identical
//! 0.0   establish                     // the usual handshake in one line; see below
//! 0.1   server>  . 1:1001(1000) ack 1 win 500 <TS val 5001 ecr 1001>
//! 0.1   >server  . 1 ack 1001 win >=500 <TS val 1001 ecr 5001>
//! +0.01 >client  . 1:1001(1000) ack 1 <TS val 5001 ecr *>
//! 0.2   nothing
//! ```
//!
//! | line | meaning |
//! |---|---|
//! | `T client> P`, `T server> P` | packet P comes in from there at time T (`+d`: d after the line before) |
//! | `T >client P`, `T >server P` | by T, the next packet going there is P; what is not written does not matter |
//! | `T >client .. P` | some packet going there by T is P; those before it are let go |
//! | `T >client none P` | no packet going there by T is P |
//! | `T >client nothing`, `T nothing` | no packet waits that the script has not seen, there or anywhere |
//! | `T >client drain` | lets all packets that went there by T go |
//! | `T establish [nosack] [nots] [noscale] [mss N] [win N]` | a handshake; the client's first window is N |
//! | `T count NAME N` | a counter of the middlebox |
//! | `config KEY VALUE` | a setting, before anything else; `config ip 6` for IPv6 |
//!
//! A packet is `FLAGS SEQ[:END(LEN)] [ack N] [win N] [urg N] [<options>] [words]`. Flags are
//! tcpdump's; PSH is not compared. Options: `mss N`, `wscale N`, `sackOK`, `TS val N ecr N`,
//! `sack A:B C:D`, `acc ECT0 CE ECT1` (byte counters of accurate ECN, RFC 9768 §3.2.3), `opt HEX`; an expected list
//! must be complete. `*` stands for any number. Without `win` the client says 500 and the server 65,535. Words:
//! `badsum`, `fragment`, `fill BYTE`, `gso N`, and `ce`, `ect0`, `ect1`, `notect` for the ECN field, which is compared where it
//! is written.

use std::collections::VecDeque;

use engine::{Middlebox, Port, Verdict};
use units::{Duration, Instant};
use wire::VirtioNetHeader;

use crate::checks::Origin;

mod packet;
mod parse;

use packet::{PacketLine, Stage};

/// Timers and packets at one point of time; more means that some deadline never moves.
const ROUNDS_MAX: usize = 10_000;

/// A script that does not hold, or cannot be read.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{file}:{line}: {text}\n    {problem}")]
pub struct ScriptFailure {
    /// Name of the script.
    pub file: String,
    /// Line, counted from one.
    pub line: usize,
    /// The line.
    pub text: String,
    /// Problem with it.
    pub problem: String,
}

/// Time of a line.
#[derive(Clone, Copy, Debug)]
enum At {
    Absolute(Duration),
    After(Duration),
}

/// Action that a line asks for.
#[derive(Clone, Debug)]
enum Action {
    Inject(Port, PacketLine),
    Expect(Port, Match, PacketLine),
    Identical(Port),
    Nothing(Option<Port>),
    Drain(Port),
    Count(String, u64),
}

/// Packets that an expectation looks at.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Match {
    Next,
    Some,
    None,
}

#[derive(Clone, Debug)]
struct Line {
    number: usize,
    text: String,
    at: At,
    action: Action,
}

/// Packets in and packets expected, in order.
#[derive(Clone, Debug)]
pub struct Script {
    file: String,
    settings: Vec<(String, String)>,
    lines: Vec<Line>,
}

impl Script {
    /// Reads a script; `file` names it in failures.
    ///
    /// # Errors
    /// The first line that cannot be read.
    pub fn parse(file: &str, text: &str) -> Result<Self, ScriptFailure> {
        parse::script(file, text)
    }

    /// The `config` lines: keys and values.
    #[must_use]
    pub fn settings(&self) -> &[(String, String)] {
        &self.settings
    }

    /// Plays the script against `middlebox`; `counter` reads one of its counters by name.
    ///
    /// # Errors
    /// The first line that does not hold, or a packet that no line spoke of.
    pub fn run<M: Middlebox>(
        &self,
        middlebox: M,
        counter: impl Fn(&M, &str) -> Option<u64>,
    ) -> Result<M, ScriptFailure> {
        let is_v6 = self.settings.iter().any(|(key, value)| key == "ip" && value == "6");
        let mut play = Play {
            middlebox,
            stage: Stage::new(is_v6),
            now: Instant::ZERO,
            to_client: VecDeque::new(),
            to_server: VecDeque::new(),
            last_in: Vec::new(),
        };
        for line in &self.lines {
            let at = match line.at {
                At::Absolute(since) => Instant::ZERO + since,
                At::After(time) => play.now + time,
            };
            let held = play.run_until(at).and_then(|()| play.act(&line.action, &counter));
            held.map_err(|problem| self.failure(line.number, &line.text, problem))?;
        }
        let end = self.lines.last().map_or(0, |line| line.number);
        play.expect_nothing(None).map_err(|problem| self.failure(end, "end of the script", problem))?;
        Ok(play.middlebox)
    }

    fn failure(&self, line: usize, text: &str, problem: String) -> ScriptFailure {
        ScriptFailure { file: self.file.clone(), line, text: text.to_owned(), problem }
    }
}

/// A script being played.
struct Play<M> {
    middlebox: M,
    stage: Stage,
    now: Instant,
    to_client: VecDeque<(Instant, Vec<u8>)>,
    to_server: VecDeque<(Instant, Vec<u8>)>,
    /// The packet put in last.
    last_in: Vec<u8>,
}

impl<M: Middlebox> Play<M> {
    fn queue(&mut self, to: Port) -> &mut VecDeque<(Instant, Vec<u8>)> {
        match to {
            Port::Mobile => &mut self.to_client,
            Port::Wired => &mut self.to_server,
        }
    }

    fn run_until(&mut self, at: Instant) -> Result<(), String> {
        if at < self.now {
            return Err(format!("its time lies before that of the line above, {}", self.now));
        }
        for _ in 0..ROUNDS_MAX {
            match self.middlebox.next_deadline() {
                Some(due) if due <= at => {
                    self.now = due.max(self.now);
                    self.middlebox.handle_timeout(self.now);
                    self.collect()?;
                }
                _ => {
                    self.now = at;
                    return Ok(());
                }
            }
        }
        Err("a deadline of the middlebox never moves".to_owned())
    }

    /// Takes what the middlebox wants to send now.
    fn collect(&mut self) -> Result<(), String> {
        for _ in 0..ROUNDS_MAX {
            let Some(made) = self.middlebox.poll_transmit(self.now) else { return Ok(()) };
            let (to, virtio, packet) = (made.to, made.virtio, made.to_vec());
            self.leave(to, Origin::Made, &virtio, packet)?;
        }
        Err("the middlebox never stops sending".to_owned())
    }

    fn leave(
        &mut self,
        to: Port,
        origin: Origin,
        virtio: &VirtioNetHeader,
        packet: Vec<u8>,
    ) -> Result<(), String> {
        let now = self.now;
        let packets =
            crate::merging::cut(to, origin, virtio, packet).map_err(|violation| violation.to_string())?;
        self.queue(to).extend(packets.into_iter().map(|packet| (now, packet)));
        Ok(())
    }

    fn act(&mut self, action: &Action, counter: &impl Fn(&M, &str) -> Option<u64>) -> Result<(), String> {
        match action {
            Action::Inject(from, packet) => self.inject(*from, packet),
            Action::Expect(to, how, packet) => self.expect(*to, *how, packet),
            Action::Identical(to) => self.expect_identical(*to),
            Action::Nothing(to) => self.expect_nothing(*to),
            Action::Drain(to) => {
                self.queue(*to).clear();
                Ok(())
            }
            Action::Count(name, wanted) => match counter(&self.middlebox, name) {
                Some(count) if count == *wanted => Ok(()),
                Some(count) => Err(format!("`{name}` is {count}")),
                None => Err(format!("there is no counter `{name}`")),
            },
        }
    }

    fn inject(&mut self, from: Port, line: &PacketLine) -> Result<(), String> {
        let (virtio, mut packet): (VirtioNetHeader, _) = self.stage.build(from, line)?;
        self.last_in.clone_from(&packet);
        if self.middlebox.handle_packet(from, &virtio, &mut packet, self.now) == Verdict::Forward {
            let is_as_it_was = packet == self.last_in;
            let to = from.opposite();
            if is_as_it_was && virtio == VirtioNetHeader::default() {
                let now = self.now;
                self.queue(to).push_back((now, packet));
            } else {
                self.leave(to, Origin::Forwarded, &virtio, packet)?;
            }
        }
        self.collect()
    }

    fn expect(&mut self, to: Port, how: Match, wanted: &PacketLine) -> Result<(), String> {
        let stage = self.stage;
        let queue = self.queue(to);
        let mut differences = Vec::new();
        let mut found = None;
        for (index, (_, packet)) in queue.iter().enumerate() {
            match stage.difference(to, wanted, packet) {
                None => {
                    found = Some(index);
                    break;
                }
                Some(difference) => differences.push(difference),
            }
            if how == Match::Next {
                break;
            }
        }
        match (how, found) {
            (Match::None, None) => Ok(()),
            (Match::None, Some(_)) => Err(format!("there is such a packet\n{}", stage.list(to, queue))),
            (_, Some(index)) => {
                queue.drain(..=index);
                Ok(())
            }
            (Match::Next, None) => {
                let first = differences.first().map_or("no packet came", String::as_str);
                Err(format!("{first}\n{}", stage.list(to, queue)))
            }
            (Match::Some, None) => Err(format!("no packet is like this\n{}", stage.list(to, queue))),
        }
    }

    /// The packet put in last comes out, byte for byte.
    fn expect_identical(&mut self, to: Port) -> Result<(), String> {
        let stage = self.stage;
        let last = self.last_in.clone();
        let queue = self.queue(to);
        match queue.front() {
            Some((_, packet)) if *packet == last => {
                queue.pop_front();
                Ok(())
            }
            Some(_) => {
                let list = stage.list(to, queue);
                Err(format!("not identical to {}\n{list}", stage.show(to, &last)))
            }
            None => Err("no packet came".to_owned()),
        }
    }

    fn expect_nothing(&mut self, to: Option<Port>) -> Result<(), String> {
        let stage = self.stage;
        for side in [Port::Mobile, Port::Wired] {
            let queue = self.queue(side);
            if to.is_none_or(|to| to == side) && !queue.is_empty() {
                return Err(format!("packets that no line speaks of\n{}", stage.list(side, queue)));
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests;
