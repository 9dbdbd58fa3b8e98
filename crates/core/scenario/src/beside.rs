//! [`Beside`]: what the first device does beside the flows of the workload.

use serde::{Deserialize, Serialize};
use units::{Bytes, Duration, Rate};

use crate::choice::CongestionControl;
use crate::family::Family;
use crate::merge::checked;
use crate::quantity::Quantity;

/// Flows of an entry at most.
const FLOWS_MAX: u16 = 16;
/// Entries at most: each has a port of its own.
pub(crate) const ENTRIES_MAX: usize = 16;
/// The calls of one entry have ports so far apart.
const CALLS_APART: u16 = 100;
/// A packet of a call, with its headers.
const CALL_PACKET: u64 = 1_250;
/// Congestion controls that QUIC has, in the lab as in the simulator.
const OF_QUIC: [&str; 3] = ["cubic", "reno", "bbr"];

/// Kind of traffic beside the workload's flows.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "lowercase")]
pub enum BesideKind {
    /// A TCP download that the accelerator passes, of as much as comes.
    Download,
    /// The same by QUIC.
    Quic,
    /// A TCP upload of as much as goes.
    Upload,
    /// A call by UDP, both ways at the same rate.
    Call,
    /// Web pages, each by several new TCP connections.
    Pages,
}

impl BesideKind {
    /// Its name in scenarios.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Download => "download",
            Self::Quic => "quic",
            Self::Upload => "upload",
            Self::Call => "call",
            Self::Pages => "pages",
        }
    }

    /// True for what takes as much as it gets, towards the device.
    #[must_use]
    pub const fn is_download(self) -> bool {
        matches!(self, Self::Download | Self::Quic)
    }
}

/// Flows of the first device beside those of the workload. They share its radio link and its address.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields, remote = "Self")]
pub struct Beside {
    /// Kind of traffic: `download`, `quic`, `upload`, `call` or `pages`.
    pub kind: BesideKind,
    /// Congestion control of the servers of `download` and `quic`. Default: `cubic`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub congestion_control: Option<CongestionControl>,
    /// Number of them at the same time; of `pages` the connections of each. Default: 1, of `pages` 6.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub flows: Option<u16>,
    /// Time at which they begin. Default: together with the workload.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub start: Option<Quantity<Duration>>,
    /// Time at which the client ends them. Default: with the workload's last flow.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub stop: Option<Quantity<Duration>>,
    /// Rate of a `call`: packets of IP in each direction. Default: 1.5 Mbit/s.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub rate: Option<Quantity<Rate>>,
    /// Size of a page of `pages`. Default: 1 MB.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub size: Option<Quantity<Bytes>>,
    /// Time from the start of a page of `pages` to that of the next. Default: 2 s.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub every: Option<Quantity<Duration>>,
}

checked! { Beside }

impl Beside {
    /// An entry that says no more than its kind.
    #[must_use]
    pub const fn new(kind: BesideKind) -> Self {
        Self {
            kind,
            congestion_control: None,
            flows: None,
            start: None,
            stop: None,
            rate: None,
            size: None,
            every: None,
        }
    }

    /// Checks what serde cannot see: another kind's keys, numbers out of range, an end before the start.
    fn check(&self) -> Result<(), String> {
        let is_pages = self.kind == BesideKind::Pages;
        let keys = [
            (
                "congestion_control",
                self.congestion_control.is_some(),
                self.kind.is_download(),
                "download, quic",
            ),
            ("rate", self.rate.is_some(), self.kind == BesideKind::Call, "call"),
            ("size", self.size.is_some(), is_pages, "pages"),
            ("every", self.every.is_some(), is_pages, "pages"),
        ];
        if let Some((key, _, _, of)) =
            keys.into_iter().find(|(_, is_given, is_known, _)| *is_given && !is_known)
        {
            return Err(format!("beside of kind `{}` has no `{key}`: that is of {of}", self.kind.name()));
        }
        if self.kind == BesideKind::Quic && !OF_QUIC.contains(&self.congestion_control().in_scenarios()) {
            let name = self.congestion_control().in_scenarios();
            return Err(format!(
                "QUIC has no congestion control `{name}`: use one of {}",
                OF_QUIC.join(", ")
            ));
        }
        if self.flows.is_some_and(|flows| !(1..=FLOWS_MAX).contains(&flows)) {
            return Err(format!("`flows` beside the workload must be 1 to {FLOWS_MAX}"));
        }
        if self.stop.is_some_and(|stop| stop.0 <= self.start()) {
            return Err("`stop` must come after `start`".to_owned());
        }
        if self.rate.is_some_and(|rate| rate.0.is_zero()) || self.every.is_some_and(|every| every.0.is_zero())
        {
            return Err("`rate` and `every` must be more than nothing".to_owned());
        }
        Ok(())
    }

    /// Congestion control of its servers, CUBIC unless given.
    #[must_use]
    pub fn congestion_control(&self) -> CongestionControl {
        self.congestion_control.unwrap_or_default()
    }
    /// Flows at the same time; of `pages` the connections of each.
    #[must_use]
    pub fn flows(&self) -> u16 {
        self.flows.unwrap_or(if self.kind == BesideKind::Pages { 6 } else { 1 })
    }
    /// Time at which it begins.
    #[must_use]
    pub fn start(&self) -> Duration {
        self.start.map_or(Duration::ZERO, |start| start.0)
    }
    /// Time at which it ends, at most `length` after the workload has begun.
    #[must_use]
    pub fn stop_within(&self, length: Duration) -> Duration {
        self.stop.map_or(length, |stop| stop.0.min(length))
    }
    /// Packets of a call, with their IP and UDP headers, over time: 1.5 Mbit/s unless given.
    #[must_use]
    pub fn rate(&self) -> Rate {
        self.rate.map_or(Rate::from_kbps(1_500), |rate| rate.0)
    }
    /// Size of a page, 1 MB unless given.
    #[must_use]
    pub fn size(&self) -> Bytes {
        self.size.map_or(Bytes::new(1_000_000), |size| size.0)
    }
    /// Size of what each connection of a page fetches, at least a byte.
    #[must_use]
    pub fn piece(&self) -> Bytes {
        Bytes::new(self.size().get().div_ceil(u64::from(self.flows())).max(1))
    }
    /// Time from the start of a page to that of the next, 2 s unless given.
    #[must_use]
    pub fn every(&self) -> Duration {
        self.every.map_or(Duration::from_secs(2), |every| every.0)
    }

    /// Times at which the pages begin, as far as they are before `length`.
    pub fn page_starts(&self, length: Duration) -> impl Iterator<Item = Duration> + use<> {
        let (start, every, stop) = (self.start(), self.every(), self.stop_within(length));
        (0u64..).map(move |n| start + every * n).take_while(move |at| *at < stop)
    }

    /// The server's port of the entry `index` of a workload.
    #[must_use]
    pub fn port(&self, index: usize) -> u16 {
        let index = index.min(ENTRIES_MAX) as u16;
        match self.kind {
            BesideKind::Download | BesideKind::Quic => PASSED_PORT + index,
            BesideKind::Upload | BesideKind::Call | BesideKind::Pages => OTHER_PORT + index,
        }
    }

    /// The ports of server and client of the `number`th call of the entry `index`.
    #[must_use]
    pub fn call_port(&self, index: usize, number: u16) -> u16 {
        self.port(index) + CALLS_APART * number.min(FLOWS_MAX)
    }

    /// Payload of a call's packets, which have 1,250 bytes in all, and its rate.
    #[must_use]
    pub fn call(&self, family: Family) -> (Bytes, Rate) {
        let headers = if family == Family::Ipv4 { 28 } else { 48 };
        let payload = Bytes::new(CALL_PACKET - headers);
        (payload, self.rate().mul_ratio(payload.get(), CALL_PACKET))
    }

    /// The accelerator's rule for the entry `index`, if its TCP is to pass.
    #[must_use]
    pub fn rule(&self, index: usize) -> Option<String> {
        (self.kind == BesideKind::Download).then(|| format!("pass port {}", self.port(index)))
    }
}

/// Servers whose flows pass have this port and the next ones.
const PASSED_PORT: u16 = 443;
/// Servers of all else: not those that the workload's flows ask.
const OTHER_PORT: u16 = 5_100;

#[cfg(test)]
mod tests {
    use crate::{Beside, BesideKind, Scenario};
    use units::Duration;

    fn read(beside: &str) -> Result<Scenario, String> {
        let text = format!("name = \"t\"\n[[workload.beside]]\n{beside}\n");
        Scenario::from_toml("t.toml", &text).map_err(|error| error.to_string())
    }

    #[test]
    fn entries_are_read_as_they_are_written() {
        let text = "kind = \"download\"\ncongestion_control = \"bbr\"\nflows = 2\nstart = \"2 s\"\nstop = \"9 s\"\n\
                    [[workload.beside]]\nkind = \"quic\"\n[[workload.beside]]\nkind = \"pages\"\nevery = \"3 s\"";
        let scenario = read(text).unwrap();
        let case = scenario.resolved().remove(0);
        let beside = case.workload.beside();
        assert_eq!(beside.len(), 3);
        assert_eq!((beside[0].flows(), beside[0].congestion_control().name()), (2, "bbr"));
        assert_eq!((beside[1].flows(), beside[1].congestion_control().name()), (1, "cubic"));
        let starts: Vec<Duration> = beside[2].page_starts(Duration::from_secs(7)).collect();
        assert_eq!(starts, [0, 3, 6].map(Duration::from_secs));
        // What passes has a rule; UDP needs none, and pages are accelerated.
        assert_eq!(case.run_arguments(), ["--rule", "pass port 443"]);
        let again = Scenario::from_toml("t", &toml::to_string(&scenario).unwrap()).unwrap();
        assert_eq!(again, scenario);
    }

    #[test]
    fn a_case_replaces_all_of_them() {
        let text = "kind = \"call\"\n[[case]]\nname = \"a\"\n[[case]]\nname = \"b\"\nworkload.beside = []\n";
        let cases = read(text).unwrap().resolved();
        assert_eq!(cases[0].workload.beside(), [Beside::new(BesideKind::Call)]);
        assert!(cases[1].workload.beside().is_empty());
    }

    #[test]
    fn what_makes_no_sense_is_named() {
        for (text, said) in [
            ("kind = \"video\"", "unknown value `video`"),
            ("flows = 1", "`kind`"),
            ("kind = \"call\"\ncongestion_control = \"bbr\"", "kind `call` has no `congestion_control`"),
            ("kind = \"download\"\nsize = \"1 MB\"", "kind `download` has no `size`: that is of pages"),
            ("kind = \"quic\"\ncongestion_control = \"vegas\"", "use one of cubic, reno, bbr"),
            ("kind = \"quic\"\nflows = 0", "1 to 16"),
            ("kind = \"quic\"\nstart = \"3 s\"\nstop = \"3 s\"", "`stop` must come after `start`"),
            ("kind = \"pages\"\nevery = \"0 s\"", "more than nothing"),
            ("kind = \"quic\"\nsped = 3", "unknown key `sped`"),
        ] {
            let error = read(text).unwrap_err();
            assert!(error.contains(said), "{text}: {error}");
        }
        let many = "kind = \"quic\"\n[[workload.beside]]\n".repeat(16) + "kind = \"quic\"";
        assert!(read(&many).unwrap_err().contains("at most 16"), "{}", read(&many).unwrap_err());
    }
}
