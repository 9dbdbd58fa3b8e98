//! [`MultiPath`]: a scenario of several radios between one client and one server.

use std::collections::BTreeMap;

use link::LinkConfig;
use serde::{Deserialize, Serialize};
use units::{Bytes, Duration};

use crate::error::{Error, read};
use crate::family::Family;
use crate::links::{self, ReadTrace};
use crate::quantity::Quantity;
use crate::radio::RadioDirection;

/// Radios of one client at most.
const RADIOS_MAX: usize = 8;

/// A scenario file with several radios.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct MultiPath {
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
    /// Number of runs of each case, each with the next seed. Default: 1.
    #[serde(default = "once")]
    pub repetitions: u32,
    /// Time after which the transfer ends.
    pub time: Quantity<Duration>,
    /// Bytes after which the transfer ends, if that is sooner.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub size: Option<Quantity<Bytes>>,
    /// The client sends, and the server checks. Default: the server sends.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub upload: bool,
    /// IP version. Default: IPv4.
    #[serde(default)]
    pub family: Family,
    /// IP version of further subflows: hosts tell each other addresses of this version only. Default: `family`. Linux
    /// gives a connection that began over IPv4 no subflows over IPv6.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub further_family: Option<Family>,
    /// New connections, each with a request of 1 KB, at these times.
    #[serde(default)]
    pub connects: Vec<Quantity<Duration>>,
    /// Addresses of the server, 1 or 2. Default: 1.
    #[serde(default = "once")]
    pub server_addresses: u32,
    /// The server's congestion control. Default: the kernel's.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub congestion_control: Option<String>,
    /// TCP downloads that are no multi-path ones beside the transfer, over the most preferred radio, from a server
    /// with Reno. Default: none.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub beside: u32,
    /// Sysctls of the server, by path below /proc/sys.
    #[serde(default)]
    pub server_sysctls: BTreeMap<String, String>,
    /// Sysctls of the client.
    #[serde(default)]
    pub client_sysctls: BTreeMap<String, String>,
    /// The radios, the most preferred first.
    #[serde(rename = "radio")]
    pub radios: Vec<RadioPath>,
    /// Cases to compare.
    #[serde(rename = "case")]
    pub cases: Vec<MultiPathCase>,
}

const fn one() -> u64 {
    1
}
const fn once() -> u32 {
    1
}
#[allow(clippy::trivially_copy_pass_by_ref)] // As serde calls it.
const fn is_zero(number: &u32) -> bool {
    *number == 0
}

/// One radio of the client, with an interface and an address of its own.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct RadioPath {
    /// The interface's name, at most ten letters and digits.
    pub name: String,
    /// Direction towards the client.
    pub down: RadioDirection,
    /// Direction from the client.
    pub up: RadioDirection,
    /// A NAT stands before it.
    #[serde(default)]
    pub nat: bool,
    /// MPTCP options are wiped out: of all segments, or of further subflows only.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub strips: Option<Strips>,
    /// Events that happen to it.
    #[serde(default, rename = "event")]
    pub events: Vec<RadioEvent>,
}

/// MPTCP options that a path wipes out.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Strips {
    /// All of them.
    Everything,
    /// Options of further subflows, as [MP] §IV-C saw at port 80.
    Joins,
}

/// Something that happens to a radio.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct RadioEvent {
    /// Time of the event, from the start of the transfer.
    pub at: Quantity<Duration>,
    /// Change of the radio.
    pub does: RadioDoes,
    /// Direction towards the client, for `becomes`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub down: Option<RadioDirection>,
    /// Direction from the client, for `becomes`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub up: Option<RadioDirection>,
    /// Strength in dBm, for `strength`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub dbm: Option<i32>,
}

/// Changes that can happen to a radio.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum RadioDoes {
    /// Everything on it is lost, without a word.
    Dies,
    /// It carries again.
    Returns,
    /// It is another network.
    Becomes,
    /// The client's address there is replaced by another.
    Readdresses,
    /// The NAT takes another external address and forgets its mappings.
    NatMoves,
    /// The strength that the modem tells.
    Strength,
}

/// Case to compare with others.
#[derive(Clone, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct MultiPathCase {
    /// Unique name.
    pub name: String,
    /// The path manager runs at the client.
    pub daemon: bool,
    /// Debian's mptcpd manages the endpoints at the client; left out where it is not installed.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub mptcpd: bool,
    /// Further options of `cellerator multipath run`.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub options: Vec<String>,
    /// Only these radios are there; all otherwise.
    pub only: Vec<String>,
    /// Plain TCP at the client.
    pub single_path: bool,
    /// Plain TCP at the server.
    pub server_single_path: bool,
    /// The congestion control of the server's sockets, the kernel's or a coupled scheme. Default: the scenario's.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub congestion_control: Option<String>,
    /// Further sysctls of the server.
    pub server_sysctls: BTreeMap<String, String>,
    /// The path manager is killed (-9) at this time.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub kill_at: Option<Quantity<Duration>>,
    /// It is started again at this time.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub restart_at: Option<Quantity<Duration>>,
    /// A transfer before, with the same seed, whose metrics the kernel may keep.
    pub warm_up: bool,
}

/// The links of a radio: towards the client and from it.
pub type RadioLinks = [LinkConfig; 2];

impl MultiPath {
    /// Reads the text of the file called `name`.
    ///
    /// # Errors
    /// What is wrong, and where.
    pub fn from_toml(name: &str, text: &str) -> Result<Self, Error> {
        read(name, text, Self::check)
    }

    /// Whether the text of a scenario file means several radios: it has `[[radio]]`s.
    #[must_use]
    pub fn is_meant(text: &str) -> bool {
        text.parse::<toml::Table>().is_ok_and(|file| file.get("radio").is_some_and(toml::Value::is_array))
    }

    fn check(&self) -> Result<(), String> {
        if self.radios.is_empty() || self.radios.len() > RADIOS_MAX {
            return Err(format!("give 1 to {RADIOS_MAX} radios"));
        }
        if !(1..=2).contains(&self.server_addresses) {
            return Err("`server_addresses` is 1 or 2".to_owned());
        }
        for (i, radio) in self.radios.iter().enumerate() {
            let is_plain = radio.name.chars().all(|c| c.is_ascii_alphanumeric());
            if radio.name.is_empty() || radio.name.len() > 10 || !is_plain {
                return Err(format!("radio `{}`: 1 to 10 letters and digits", radio.name));
            }
            if self.radios[..i].iter().any(|other| other.name == radio.name) {
                return Err(format!("two radios are called `{}`", radio.name));
            }
            for event in &radio.events {
                let has_links = event.down.is_some() && event.up.is_some();
                if (event.does == RadioDoes::Becomes) != has_links {
                    return Err(format!(
                        "radio `{}`: `becomes`, and only it, has `down` and `up`",
                        radio.name
                    ));
                }
                if (event.does == RadioDoes::Strength) != event.dbm.is_some() {
                    return Err(format!("radio `{}`: `strength`, and only it, has `dbm`", radio.name));
                }
            }
        }
        for (i, case) in self.cases.iter().enumerate() {
            if case.name.is_empty() || self.cases[..i].iter().any(|other| other.name == case.name) {
                return Err(format!("cases need names of their own: `{}`", case.name));
            }
            if self.upload && case.congestion_control.is_some() {
                return Err(format!(
                    "case `{}`: `congestion_control` is the server's, and the client sends",
                    case.name
                ));
            }
            if case.mptcpd && case.daemon {
                return Err(format!("case `{}`: `daemon` or `mptcpd`, not both", case.name));
            }
            if let Some(name) = case.only.iter().find(|n| self.radios.iter().all(|r| r.name != **n)) {
                return Err(format!("case `{}`: no radio is called `{name}`", case.name));
            }
        }
        if self.upload && self.beside > 0 {
            return Err("`beside` is for downloads".to_owned());
        }
        if self.cases.is_empty() { Err("give at least one [[case]]".to_owned()) } else { Ok(()) }
    }

    /// The links of radio `number` with `down` and `up`, which are its own or those of an event.
    ///
    /// # Errors
    /// When a trace cannot be built, or a setting is out of range.
    pub fn links(
        &self,
        (down, up): (&RadioDirection, &RadioDirection),
        (number, seed): (usize, u64),
        trace: ReadTrace<'_>,
    ) -> Result<RadioLinks, Error> {
        let of = |link: u64| seed.wrapping_mul(64).wrapping_add(number as u64 * 2 + link);
        links::both(&format!("radio {number}"), (down, up), [of(0), of(1)], trace)
    }

    /// The radios of a case, with their numbers.
    #[must_use]
    pub fn radios_of(&self, case: &MultiPathCase) -> Vec<(usize, &RadioPath)> {
        let is_there = |radio: &RadioPath| case.only.is_empty() || case.only.contains(&radio.name);
        self.radios.iter().enumerate().filter(|(_, radio)| is_there(radio)).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const TEXT: &str = "name = 'a'\ntitle = 'A'\ntime = '5 s'\n[[radio]]\nname = 'wifi0'\ndown = { rate = '10 Mbit/s' }\n\
                        up = { rate = '2 Mbit/s' }\n[[radio.event]]\nat = '1 s'\ndoes = 'dies'\n[[case]]\nname = 'k'\n";

    #[test]
    fn a_file_is_read_and_its_links_are_made() {
        assert!(MultiPath::is_meant(TEXT) && !MultiPath::is_meant("[radio.down]\nrate = '1 Mbit/s'"));
        let file = MultiPath::from_toml("a.toml", TEXT).unwrap();
        let radio = &file.radios[0];
        let [down, _] =
            file.links((&radio.down, &radio.up), (0, 1), &mut |_| Err("no traces".to_owned())).unwrap();
        let [other, _] =
            file.links((&radio.down, &radio.up), (1, 1), &mut |_| Err("no traces".to_owned())).unwrap();
        assert_ne!(down.seed, other.seed, "each radio has luck of its own");
        assert_eq!(file.radios_of(&file.cases[0]).len(), 1);
    }

    #[test]
    fn what_is_wrong_is_said() {
        for (from, to, word) in [
            ("name = 'wifi0'", "name = 'wi fi'", "letters and digits"),
            ("does = 'dies'", "does = 'becomes'", "`becomes`"),
            ("does = 'dies'", "does = 'strength'", "`dbm`"),
            ("does = 'dies'", "does = 'explodes'", "explodes"),
            ("[[case]]\nname = 'k'", "", "case"),
            ("name = 'k'", "name = 'k'\nonly = ['x']", "`x`"),
            ("time = '5 s'", "time = '5 s'\nupload = true\nbeside = 1", "`beside`"),
            ("name = 'k'", "name = 'k'\ndaemon = true\nmptcpd = true", "not both"),
        ] {
            let error = MultiPath::from_toml("a.toml", &TEXT.replace(from, to)).unwrap_err().to_string();
            assert!(error.contains(word), "{error}");
        }
    }
}
