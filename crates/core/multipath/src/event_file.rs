//! [`EventFile`]: what happens to paths, as lines of text; written by hand or recorded.
//!
//! ```text
//! # time in seconds, what, which path, details
//! 0     path wifi rtt 20ms       a path whose network the simulation plays
//! 0     address wifi 10.1.0.2    (or `none`)
//! 0     connections 1
//! 0     traffic wifi on          data arrives while it is used and alive
//! 4     dies wifi                without a word; `returns wifi`
//! 8     flaps wifi 500ms 12      dies and returns in turn, every 500 ms, until 12 s
//! 9     loses wifi 30            percent of the probes
//! 9     strength wifi -118       dBm
//! 9     nat wifi 203.0.113.9     the address that the server sees
//! 9     replaced wifi            another interface has its name
//! 9     retire wifi              `use wifi` undoes it
//! 20    end
//! ```
//!
//! Recordings have, besides `path wifi` without a round trip, `address`, `connections`, `strength`, `replaced`,
//! `retire` and `use`, what only a kernel can say:
//!
//! ```text
//! 0.12  sample wifi arrived=12 due rtt=20123us subflows=1 alone=0
//! 0.15  answer wifi 7 20123us 203.0.113.9
//! ```

use core::fmt::Write as _;
use std::net::IpAddr;

use units::{Duration, Instant};

use crate::{Event, PathId, PathSample};

/// Paths in one file at most.
const PATHS_MAX: usize = 64;
/// Lines in one file at most: an hour of a recording.
const LINES_MAX: usize = 1_000_000;
/// The latest time, s.
const TIME_MAX_S: u64 = 86_400;

/// Events of a file, in order.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct EventFile {
    /// Names of the paths, by their number.
    pub paths: Vec<String>,
    /// Steps in the order of time.
    pub steps: Vec<Step>,
}

/// Something that happens at a time.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Step {
    /// Time of the step.
    pub at: Instant,
    /// Event of the step.
    pub what: Happening,
}

/// Events that can happen.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Happening {
    /// A path is there; with a round trip its network is played.
    Path(PathId, Option<Duration>),
    /// The machine sees something.
    Seen(Event),
    /// Data arrives on it, or no longer.
    Traffic(PathId, bool),
    /// It dies without a word, or returns.
    Alive(PathId, bool),
    /// Percent of its probes that are lost.
    Loses(PathId, u32),
    /// The server sees another address.
    Nat(PathId, IpAddr),
    /// The simulation is over.
    End,
}

/// Reason why a file cannot be read.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
#[error("line {line}: {problem}")]
pub struct EventFileError {
    /// Number of the line, from 1.
    pub line: usize,
    /// Problem of the line, and what is expected.
    pub problem: String,
}

impl EventFile {
    /// Reads a file.
    ///
    /// # Errors
    /// A line is not one of those above, names a path that is not there, or goes back in time.
    pub fn parse(text: &str) -> Result<Self, EventFileError> {
        let mut file = Self::default();
        let mut last = Instant::ZERO;
        for (i, line) in text.lines().enumerate() {
            let problem = |problem: String| EventFileError { line: i + 1, problem };
            if i >= LINES_MAX {
                return Err(problem(format!("the file has more than {LINES_MAX} lines")));
            }
            let line = line.split('#').next().unwrap_or_default();
            let mut words = line.split_whitespace();
            let Some(time) = words.next() else { continue };
            let at = seconds(time).map_err(problem)?;
            if at < last {
                return Err(problem(format!("`{time}` is before the line above: lines go by time")));
            }
            last = at;
            let words: Vec<&str> = words.collect();
            let steps = file.line(at, &words).map_err(problem)?;
            if file.steps.len() + steps.len() > LINES_MAX {
                return Err(problem(format!("more than {LINES_MAX} things happen up to here")));
            }
            file.steps.extend(steps);
        }
        // Flaps reach into later lines.
        file.steps.sort_by_key(|step| step.at);
        Ok(file)
    }

    fn line(&mut self, at: Instant, words: &[&str]) -> Result<Vec<Step>, String> {
        let one = |what: Happening| Ok(vec![Step { at, what }]);
        match words {
            ["path", name, rest @ ..] => {
                if self.paths.len() >= PATHS_MAX || self.paths.iter().any(|p| p == name) {
                    return Err(format!("path `{name}` is there already, or there are over {PATHS_MAX}"));
                }
                self.paths.push((*name).to_owned());
                let rtt = match rest {
                    [] => None,
                    ["rtt", time] => Some(duration(time)?),
                    _ => return Err("expected `path NAME` or `path NAME rtt TIME`".to_owned()),
                };
                let id = self.path(name)?;
                one(Happening::Path(id, rtt))
            }
            ["connections", count] => one(Happening::Seen(Event::Connections(number(count)?))),
            ["address", name, "none"] => one(Happening::Seen(Event::Address(self.path(name)?, None))),
            ["address", name, ip] => {
                one(Happening::Seen(Event::Address(self.path(name)?, Some(address(ip)?))))
            }
            ["strength", name, dbm] => {
                one(Happening::Seen(Event::Strength(self.path(name)?, number(dbm.trim_end_matches("dBm"))?)))
            }
            ["replaced", name] => one(Happening::Seen(Event::Replaced(self.path(name)?))),
            ["retire", name] => one(Happening::Seen(Event::Retire(self.path(name)?, true))),
            ["use", name] => one(Happening::Seen(Event::Retire(self.path(name)?, false))),
            ["traffic", name, "on"] => one(Happening::Traffic(self.path(name)?, true)),
            ["traffic", name, "off"] => one(Happening::Traffic(self.path(name)?, false)),
            ["dies", name] => one(Happening::Alive(self.path(name)?, false)),
            ["returns", name] => one(Happening::Alive(self.path(name)?, true)),
            ["flaps", name, every, until] => flaps(self.path(name)?, at, duration(every)?, seconds(until)?),
            ["loses", name, percent] => {
                let percent: u32 = number(percent.trim_end_matches('%'))?;
                if percent > 100 {
                    return Err(format!("`{percent}` percent are more than all"));
                }
                one(Happening::Loses(self.path(name)?, percent))
            }
            ["nat", name, ip] => one(Happening::Nat(self.path(name)?, address(ip)?)),
            ["sample", name, rest @ ..] => {
                one(Happening::Seen(Event::Sample(self.path(name)?, sample(rest)?)))
            }
            ["answer", name, probe, rtt, rest @ ..] => {
                let seen_as = rest.first().map(|ip| address(ip)).transpose()?;
                let event = Event::Answer(self.path(name)?, number(probe)?, duration(rtt)?, seen_as);
                one(Happening::Seen(event))
            }
            ["end"] => one(Happening::End),
            _ => Err(format!(
                "`{}` is not known here: expected path, address, connections, traffic, dies, returns, flaps, \
                 loses, strength, nat, replaced, retire, use, sample, answer or end, with what belongs to it",
                words.join(" ")
            )),
        }
    }

    fn path(&self, name: &str) -> Result<PathId, String> {
        let found = self.paths.iter().position(|path| path == name);
        let number = found.and_then(|at| u16::try_from(at).ok());
        number.map(PathId).ok_or_else(|| format!("no path is called `{name}`: begin with `0 path {name}`"))
    }

    /// An event as a line of a recording; `start` is its time zero.
    #[must_use]
    pub fn recorded(paths: &[&str], event: &Event, at: Instant, start: Instant) -> String {
        let us = at.saturating_since(start).as_micros();
        let mut line = format!("{}.{:06} ", us / 1_000_000, us % 1_000_000);
        let name = |id: PathId| paths.get(usize::from(id.0)).copied().unwrap_or("?");
        // Writing to a string cannot fail.
        let _ = match event {
            Event::Address(id, Some(ip)) => write!(line, "address {} {ip}", name(*id)),
            Event::Address(id, None) => write!(line, "address {} none", name(*id)),
            Event::Connections(count) => write!(line, "connections {count}"),
            Event::Strength(id, dbm) => write!(line, "strength {} {dbm}", name(*id)),
            Event::Replaced(id) => write!(line, "replaced {}", name(*id)),
            Event::Retire(id, true) => write!(line, "retire {}", name(*id)),
            Event::Retire(id, false) => write!(line, "use {}", name(*id)),
            Event::Answer(id, number, rtt, seen_as) => {
                let seen_as = seen_as.map(|ip| format!(" {ip}")).unwrap_or_default();
                write!(line, "answer {} {number} {}us{seen_as}", name(*id), rtt.as_micros())
            }
            Event::Sample(id, s) => {
                let due = if s.is_due { " due" } else { "" };
                let rtt = s.rtt_min_us.map(|us| format!(" rtt={us}us")).unwrap_or_default();
                let ago =
                    if s.arrived_us_ago > 0 { format!(" ago={}us", s.arrived_us_ago) } else { String::new() };
                write!(
                    line,
                    "sample {} arrived={}{ago}{due}{rtt} subflows={} alone={}",
                    name(*id),
                    s.arrived,
                    s.subflows,
                    s.alone
                )
            }
        };
        line
    }
}

fn flaps(path: PathId, from: Instant, every: Duration, until: Instant) -> Result<Vec<Step>, String> {
    if every < Duration::from_millis(1) {
        return Err("a path flaps every millisecond at most".to_owned());
    }
    let mut steps = Vec::new();
    let mut at = from;
    while at < until && steps.len() < LINES_MAX {
        steps.push(Step { at, what: Happening::Alive(path, steps.len() % 2 == 1) });
        at += every;
    }
    steps.push(Step { at: until.max(from), what: Happening::Alive(path, true) });
    Ok(steps)
}

fn sample(words: &[&str]) -> Result<PathSample, String> {
    let mut sample = PathSample::default();
    for word in words {
        match word.split_once('=') {
            None if *word == "due" => sample.is_due = true,
            Some(("arrived", count)) => sample.arrived = number(count)?,
            Some(("ago", time)) => sample.arrived_us_ago = duration(time)?.as_micros(),
            Some(("rtt", time)) => sample.rtt_min_us = Some(duration(time)?.as_micros()),
            Some(("subflows", count)) => sample.subflows = number(count)?,
            Some(("alone", count)) => sample.alone = number(count)?,
            _ => {
                return Err(format!(
                    "`{word}`: a sample has arrived=, ago=, due, rtt=, subflows= and alone="
                ));
            }
        }
    }
    Ok(sample)
}

fn number<T: core::str::FromStr>(text: &str) -> Result<T, String> {
    text.parse().map_err(|_| format!("`{text}` is no number that fits here"))
}

fn address(text: &str) -> Result<IpAddr, String> {
    text.parse().map_err(|_| format!("`{text}` is no IP address"))
}

/// A time such as `20ms`, `1.5s` or `250us`, at most a day.
fn duration(text: &str) -> Result<Duration, String> {
    let unit = text.trim_start_matches(|c: char| c.is_ascii_digit() || c == '.');
    let digits = &text[..text.len() - unit.len()];
    let ns = match unit {
        "us" | "µs" => 1_000,
        "ms" => 1_000_000,
        "s" => 1_000_000_000,
        _ => return Err(format!("`{text}`: expected a time such as 20ms, 1.5s or 250us")),
    };
    decimal(digits, ns).map(Duration::from_nanos).ok_or_else(|| format!("`{text}` is no time, or over a day"))
}

fn seconds(text: &str) -> Result<Instant, String> {
    let ns = decimal(text.trim_end_matches('s'), 1_000_000_000);
    ns.map(Instant::from_nanos).ok_or_else(|| format!("`{text}` is no time in seconds, or over a day"))
}

/// A decimal number times `scale`, rounded down; none above a day of ns.
fn decimal(text: &str, scale: u64) -> Option<u64> {
    let (whole, part) = text.split_once('.').unwrap_or((text, ""));
    if (whole.is_empty() && part.is_empty()) || part.len() > 9 {
        return None;
    }
    let is_digits = |s: &str| s.chars().all(|c| c.is_ascii_digit());
    if !is_digits(whole) || !is_digits(part) {
        return None;
    }
    let mut total = if whole.is_empty() { 0 } else { whole.parse::<u64>().ok()?.checked_mul(scale)? };
    let mut unit = scale;
    for digit in part.bytes() {
        unit /= 10;
        total = total.checked_add(unit * u64::from(digit - b'0'))?;
    }
    (total <= TIME_MAX_S * 1_000_000_000).then_some(total)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn lines_are_read_and_wrong_ones_are_named() {
        let file = EventFile::parse("# hi\n0 path wifi rtt 20ms\n0.5 dies wifi # oh\n1 end\n").unwrap();
        assert_eq!(file.paths, ["wifi"]);
        assert_eq!(file.steps[0].what, Happening::Path(PathId(0), Some(Duration::from_millis(20))));
        assert_eq!(file.steps[1].at, Instant::from_millis(500));
        for (text, word) in [
            ("x path wifi", "time in seconds"),
            ("0 dies lte", "`lte`"),
            ("1 path a\n0 path b", "before the line above"),
            ("0 path a\n0 sample a due=1", "`due=1`"),
            ("0 path a rtt 20", "20ms"),
            ("0 path a\n0 loses a 101", "more than all"),
            ("0 path a\n0 frobs a", "not known here"),
        ] {
            let error = EventFile::parse(text).unwrap_err().to_string();
            assert!(error.contains(word), "{error}");
        }
    }

    #[test]
    fn what_flaps_for_hours_in_many_lines_is_too_much() {
        let flaps = "0 flaps a 1ms 600\n".repeat(3);
        let error = EventFile::parse(&format!("0 path a rtt 1ms\n{flaps}")).unwrap_err();
        assert!(error.line == 3 && error.problem.contains("1000000"), "{error}");
    }

    #[test]
    fn a_path_flaps_until_it_stays() {
        let file = EventFile::parse("0 path a rtt 1ms\n1 flaps a 500ms 2.2\n").unwrap();
        let alive: Vec<(u64, bool)> = file
            .steps
            .iter()
            .filter_map(|s| match s.what {
                Happening::Alive(_, is) => Some((s.at.as_nanos() / 1_000_000, is)),
                _ => None,
            })
            .collect();
        assert_eq!(alive, [(1000, false), (1500, true), (2000, false), (2200, true)]);
    }

    proptest! {
        #[test]
        fn any_text_is_read_or_refused(text in "[ -~\n]{0,200}") {
            drop(EventFile::parse(&text));
        }

        #[test]
        fn what_is_recorded_is_read_again(
            arrived in 0_u64..1000, arrived_us_ago in 0_u64..20_000, is_due: bool, rtt in proptest::option::of(0_u64..1_000_000),
            subflows in 0_u32..9, alone in 0_u32..3, number in 0_u64..1000, us in 0_u64..9_000_000_000,
        ) {
            let sample = PathSample { arrived, arrived_us_ago, is_due, rtt_min_us: rtt, subflows, alone };
            let id = PathId(0);
            let events = [
                Event::Sample(id, sample),
                Event::Answer(id, number, Duration::from_micros(us % 5_000_000), Some([1, 2, 3, 4].into())),
                Event::Address(id, None),
                Event::Address(id, Some([1, 2, 3, 4].into())),
                Event::Connections(subflows),
                Event::Strength(id, -101),
                Event::Retire(id, is_due),
                Event::Replaced(id),
            ];
            for event in events {
                let line = EventFile::recorded(&["a"], &event, Instant::from_micros(us), Instant::ZERO);
                let file = EventFile::parse(&format!("0 path a\n{line}\n")).unwrap();
                prop_assert_eq!(&file.steps[1], &Step { at: Instant::from_micros(us), what: Happening::Seen(event) });
            }
        }
    }
}
