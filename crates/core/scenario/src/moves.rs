//! [`Moves`]: a scenario of subscribers that move between two base stations, behind each of which a box stands.

use link::LinkConfig;
use serde::{Deserialize, Serialize};
use units::{Bytes, Duration};

use crate::error::{Error, read};
use crate::links::{self, ReadTrace};
use crate::multi_path::RadioLinks;
use crate::quantity::Quantity;
use crate::radio::RadioDirection;

/// Subscribers of a scenario at most: their addresses differ in one byte.
const SUBSCRIBERS_MAX: u32 = 200;

/// A scenario file of subscribers that move.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Moves {
    /// Short name, for file names.
    pub name: String,
    /// One line for headings.
    pub title: String,
    /// Description of what it models and why, in sentences.
    #[serde(default)]
    pub description: String,
    /// Seed of everything random. Default: 1.
    #[serde(default = "one")]
    pub seed: u64,
    /// Time after which the transfers end.
    pub time: Quantity<Duration>,
    /// Time from one move of a subscriber to its next. The first moves are spread over as long.
    pub every: Quantity<Duration>,
    /// Time of the radio's hand-over, in which nothing is delivered to a subscriber, nor from it.
    pub gap: Quantity<Duration>,
    /// Base stations forward to each other, with this one-way delay, what they hold or still get for a subscriber that
    /// has left; what its modem holds goes over the new one. Default: that is lost.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub forwarding: Option<Quantity<Duration>>,
    /// One-way delay between servers and boxes.
    pub wan: Quantity<Duration>,
    /// Each subscriber's own link at either base station, towards it.
    pub down: RadioDirection,
    /// Link from it.
    pub up: RadioDirection,
    /// Subscribers that move and download.
    #[serde(default)]
    pub bulk: u32,
    /// Subscribers that move and ask again and again.
    #[serde(default)]
    pub exchanges: u32,
    /// Subscribers that move and upload.
    #[serde(default)]
    pub uploads: u32,
    /// Size of an answer.
    pub answer: Quantity<Bytes>,
    /// Time from an answer to the next question.
    pub think: Quantity<Duration>,
    /// Congestion control of hosts and proxies. Default: the machine's.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub congestion_control: Option<String>,
    /// Cases to compare.
    #[serde(rename = "case")]
    pub cases: Vec<MovesCase>,
}

/// Case to compare with others.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct MovesCase {
    /// Unique name.
    pub name: String,
    /// Round trip between the boxes.
    pub between: Quantity<Duration>,
    /// Treatment of a subscriber's flows.
    pub scheme: MoveScheme,
    /// The base stations forward nothing, whatever the file says. Default: false.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub loses: bool,
    /// Another congestion control than the file's.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub congestion_control: Option<String>,
}

/// Treatment of the flows of a subscriber that moves.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum MoveScheme {
    /// The box hands them over, with `cellerator handover`.
    Handover,
    /// Both boxes have given them back to their hosts before the first move, and pass them.
    Plain,
    /// A split proxy at each base station ends the client's connections, and nothing of them moves.
    Split,
    /// I-TCP's scheme: the split proxies hand the state of their connections on; what they hold is for the senders to
    /// send again.
    Indirect,
}

/// Traffic of a subscriber.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Traffic {
    /// Downloads without an end.
    Bulk,
    /// Asks, and asks again after the answer.
    Exchanges,
    /// Uploads without an end.
    Upload,
}

impl Traffic {
    /// Word for it.
    #[must_use]
    pub const fn word(self) -> &'static str {
        match self {
            Self::Bulk => "bulk download",
            Self::Exchanges => "request/response",
            Self::Upload => "upload",
        }
    }
}

/// One subscriber.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Subscriber {
    /// Traffic of the subscriber.
    pub traffic: Traffic,
    /// Time of its first move, from the start of the transfers; none: it stays where it is.
    pub first_move: Option<Duration>,
}

const fn one() -> u64 {
    1
}

impl Moves {
    /// Reads the text of the file called `name`.
    ///
    /// # Errors
    /// What is wrong, and where.
    pub fn from_toml(name: &str, text: &str) -> Result<Self, Error> {
        read(name, text, Self::check)
    }

    fn check(&self) -> Result<(), String> {
        let movers = self.bulk.saturating_add(self.exchanges).saturating_add(self.uploads);
        if !(1..=SUBSCRIBERS_MAX).contains(&movers) {
            return Err(format!("`bulk`, `exchanges` and `uploads` are 1 to {SUBSCRIBERS_MAX} together"));
        }
        if self.every.0 <= self.gap.0 || self.every.0.is_zero() {
            return Err("`every` is longer than `gap`".to_owned());
        }
        if self.time.0 <= self.every.0 {
            return Err("`time` is longer than `every`".to_owned());
        }
        for (i, case) in self.cases.iter().enumerate() {
            let name = self.congestion_control_of(case).unwrap_or("cubic");
            if name.is_empty() || !name.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'_') {
                return Err(format!("`congestion_control` is a name such as cubic: `{name}`"));
            }
            if case.name.is_empty() || self.cases[..i].iter().any(|other| other.name == case.name) {
                return Err(format!("cases need names of their own: `{}`", case.name));
            }
        }
        if self.cases.is_empty() { Err("give at least one [[case]]".to_owned()) } else { Ok(()) }
    }

    /// The congestion control of hosts and proxies in a case; none: the machine's.
    #[must_use]
    pub fn congestion_control_of<'a>(&'a self, case: &'a MovesCase) -> Option<&'a str> {
        case.congestion_control.as_deref().or(self.congestion_control.as_deref())
    }

    /// All subscribers: those that move, their first moves evenly over one period, and after them one that does not
    /// for each kind of traffic.
    #[must_use]
    pub fn subscribers(&self) -> Vec<Subscriber> {
        let kinds = [
            (Traffic::Bulk, self.bulk),
            (Traffic::Exchanges, self.exchanges),
            (Traffic::Upload, self.uploads),
        ];
        let of_kind = |(traffic, count): (Traffic, u32)| std::iter::repeat_n(traffic, count as usize);
        let movers: Vec<Traffic> = kinds.into_iter().flat_map(of_kind).collect();
        let every = self.every.0;
        let first = |i: usize| every / 2 + every * i as u64 / movers.len() as u64;
        let moving =
            |(i, traffic): (usize, &Traffic)| Subscriber { traffic: *traffic, first_move: Some(first(i)) };
        let mut all: Vec<Subscriber> = movers.iter().enumerate().map(moving).collect();
        let standing = kinds.into_iter().filter(|(_, count)| *count > 0);
        all.extend(standing.map(|(traffic, _)| Subscriber { traffic, first_move: None }));
        all
    }

    /// The links of subscriber `number` at base station `station`: towards it and from it.
    ///
    /// # Errors
    /// When a trace cannot be built, or a setting is out of range.
    pub fn links(&self, number: usize, station: usize, trace: ReadTrace<'_>) -> Result<RadioLinks, Error> {
        let of =
            |link: u64| self.seed.wrapping_mul(1_024).wrapping_add((number * 4 + station * 2) as u64 + link);
        let made = links::both("radio", (&self.down, &self.up), [of(0), of(1)], trace)?;
        Ok(made.map(|config| LinkConfig { keeps_log: false, ..config }))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const TEXT: &str = "name = 'm'\ntitle = 'M'\ntime = '20 s'\nevery = '4 s'\ngap = '50 ms'\nwan = '10 ms'\nbulk = 3\n\
                        uploads = 1\nanswer = '20 KB'\nthink = '100 ms'\n[down]\nrate = '4 Mbit/s'\n[up]\n\
                        rate = '1 Mbit/s'\n[[case]]\nname = 'a'\nbetween = '20 ms'\nscheme = 'handover'\n";

    #[test]
    fn movers_take_turns_and_one_of_each_kind_stays() {
        let file = Moves::from_toml("m.toml", TEXT).unwrap();
        let all = file.subscribers();
        let firsts: Vec<Option<u64>> =
            all.iter().map(|one| one.first_move.map(|at| at.as_millis())).collect();
        assert_eq!(firsts, [Some(2_000), Some(3_000), Some(4_000), Some(5_000), None, None]);
        let kinds: Vec<Traffic> = all.iter().map(|one| one.traffic).collect();
        let (bulk, upload) = (Traffic::Bulk, Traffic::Upload);
        assert_eq!(kinds, [bulk, bulk, bulk, upload, bulk, upload]);
    }

    #[test]
    fn every_link_has_luck_of_its_own() {
        let file = Moves::from_toml("m.toml", TEXT).unwrap();
        let mut seeds = Vec::new();
        for (number, station) in [(0, 0), (0, 1), (1, 0), (1, 1)] {
            let links = file.links(number, station, &mut |_| Err("no traces".to_owned())).unwrap();
            seeds.extend(links.map(|link| link.seed));
        }
        let all = seeds.len();
        seeds.sort_unstable();
        seeds.dedup();
        assert_eq!(seeds.len(), all);
    }

    #[test]
    fn what_is_wrong_is_said() {
        for (from, to, word) in [
            ("bulk = 3\nuploads = 1", "", "1 to 200"),
            ("gap = '50 ms'", "gap = '4 s'", "longer than `gap`"),
            ("time = '20 s'", "time = '4 s'", "longer than `every`"),
            ("scheme = 'handover'", "scheme = 'magic'", "magic"),
            ("name = 'a'", "name = ''", "names of their own"),
            ("name = 'a'", "name = 'a'\ncongestion_control = 'a b'", "a name such as cubic: `a b`"),
        ] {
            let error = Moves::from_toml("m.toml", &TEXT.replace(from, to)).unwrap_err().to_string();
            assert!(error.contains(word), "{error}");
        }
    }
}
