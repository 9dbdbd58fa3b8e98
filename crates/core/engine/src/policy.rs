//! [`Policy`]: which flows are accelerated, and in which direction.

use core::fmt;
use core::net::{IpAddr, SocketAddr};
use core::ops::RangeInclusive;
use core::str::FromStr;

/// Treatment of the flows that a [`Rule`] matches.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Action {
    /// They pass untouched.
    Pass,
    /// Acceleration of what the server sends.
    Downlink,
    /// Acceleration of what the client sends.
    Uplink,
    /// Both are.
    Both,
    /// Neither: only the window the client advertises is lowered, so that the server keeps the
    /// radio queue short (\[DR\]).
    Drwa,
}

impl Action {
    /// The name used in rules.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Pass => "pass",
            Self::Downlink => "downlink",
            Self::Uplink => "uplink",
            Self::Both => "both",
            Self::Drwa => "drwa",
        }
    }

    /// True when what the server sends is to be accelerated.
    #[must_use]
    pub const fn includes_downlink(self) -> bool {
        matches!(self, Self::Downlink | Self::Both)
    }

    /// True when what the client sends is to be accelerated.
    #[must_use]
    pub const fn includes_uplink(self) -> bool {
        matches!(self, Self::Uplink | Self::Both)
    }
}

/// An address prefix, as `10.0.0.0/8` or `2001:db8::/32`; an address alone stands for itself.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Prefix {
    address: IpAddr,
    len: u8,
}

impl Prefix {
    /// True when `address` lies in the prefix; never across IP versions.
    #[must_use]
    pub fn contains(&self, address: IpAddr) -> bool {
        match (self.address, address) {
            (IpAddr::V4(own), IpAddr::V4(other)) => {
                let mask = u32::MAX.checked_shl(32 - u32::from(self.len)).unwrap_or(0);
                (own.to_bits() ^ other.to_bits()) & mask == 0
            }
            (IpAddr::V6(own), IpAddr::V6(other)) => {
                let mask = u128::MAX.checked_shl(128 - u32::from(self.len)).unwrap_or(0);
                (own.to_bits() ^ other.to_bits()) & mask == 0
            }
            _ => false,
        }
    }
}

/// A rule that cannot be read.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
pub enum PolicyError {
    /// The first word is no action.
    #[error("`{0}` is no action: a rule begins with pass, downlink, uplink, both or drwa")]
    Action(String),
    /// A word that names nothing to match.
    #[error("`{0}` names nothing to match: use port, client or server, each followed by its value")]
    Criterion(String),
    /// A criterion without a value.
    #[error("`{0}` needs a value")]
    Missing(String),
    /// Not a port or a range of ports.
    #[error("`{0}` is no port: use 443 or 8000-8999")]
    Port(String),
    /// Not an address or a prefix.
    #[error("`{0}` is no address or prefix: use 10.1.2.3, 10.0.0.0/8 or 2001:db8::/32")]
    Prefix(String),
}

impl FromStr for Prefix {
    type Err = PolicyError;

    fn from_str(text: &str) -> Result<Self, PolicyError> {
        let wrong = || PolicyError::Prefix(text.to_owned());
        let (address, len) = text.split_once('/').map_or((text, None), |(a, l)| (a, Some(l)));
        let address: IpAddr = address.parse().map_err(|_| wrong())?;
        let most = if address.is_ipv4() { 32 } else { 128 };
        let len = len.map_or(Ok(most), str::parse).map_err(|_| wrong())?;
        if len > most { Err(wrong()) } else { Ok(Self { address, len }) }
    }
}

impl fmt::Display for Prefix {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}", self.address, self.len)
    }
}

/// One rule: what matches all of its criteria is treated so.
///
/// Text form: `pass port 22`, `both server 192.0.2.0/24 port 443`, `pass client 10.0.0.9`.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Rule {
    /// Treatment of the flows that it matches.
    pub action: Action,
    /// The client's address, if it matters.
    pub client: Option<Prefix>,
    /// The server's address, if it matters.
    pub server: Option<Prefix>,
    /// The server's port, if it matters.
    pub port: Option<RangeInclusive<u16>>,
}

impl Rule {
    fn matches(&self, client: SocketAddr, server: SocketAddr) -> bool {
        self.client.is_none_or(|prefix| prefix.contains(client.ip()))
            && self.server.is_none_or(|prefix| prefix.contains(server.ip()))
            && self.port.as_ref().is_none_or(|ports| ports.contains(&server.port()))
    }
}

impl FromStr for Rule {
    type Err = PolicyError;

    fn from_str(text: &str) -> Result<Self, PolicyError> {
        let mut words = text.split_whitespace();
        let action = match words.next().unwrap_or_default() {
            "pass" => Action::Pass,
            "downlink" => Action::Downlink,
            "uplink" => Action::Uplink,
            "both" => Action::Both,
            "drwa" => Action::Drwa,
            other => return Err(PolicyError::Action(other.to_owned())),
        };
        let mut rule = Self { action, client: None, server: None, port: None };
        while let Some(word) = words.next() {
            let mut value = || words.next().ok_or_else(|| PolicyError::Missing(word.to_owned()));
            match word {
                "client" => rule.client = Some(value()?.parse()?),
                "server" => rule.server = Some(value()?.parse()?),
                "port" => rule.port = Some(ports(value()?)?),
                other => return Err(PolicyError::Criterion(other.to_owned())),
            }
        }
        Ok(rule)
    }
}

impl fmt::Display for Rule {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.action.name())?;
        if let Some(client) = &self.client {
            write!(f, " client {client}")?;
        }
        if let Some(server) = &self.server {
            write!(f, " server {server}")?;
        }
        match &self.port {
            Some(ports) if ports.start() == ports.end() => write!(f, " port {}", ports.start()),
            Some(ports) => write!(f, " port {}-{}", ports.start(), ports.end()),
            None => Ok(()),
        }
    }
}

fn ports(text: &str) -> Result<RangeInclusive<u16>, PolicyError> {
    let (from, to) = text.split_once('-').unwrap_or((text, text));
    match (from.parse(), to.parse()) {
        (Ok(from), Ok(to)) if from <= to => Ok(from..=to),
        _ => Err(PolicyError::Port(text.to_owned())),
    }
}

/// Policy that says which flows are accelerated: the first rule that matches decides, else the default.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Policy {
    /// Rules, in order.
    pub rules: Vec<Rule>,
    /// Action for flows that no rule matches. Default [`Action::Downlink`].
    pub default: Action,
}

impl Default for Policy {
    fn default() -> Self {
        Self { rules: Vec::new(), default: Action::Downlink }
    }
}

impl Policy {
    /// Treatment of a flow.
    #[must_use]
    pub fn action(&self, client: SocketAddr, server: SocketAddr) -> Action {
        self.rules.iter().find(|rule| rule.matches(client, server)).map_or(self.default, |rule| rule.action)
    }

    /// True when some flow may be accelerated in the uplink.
    #[must_use]
    pub fn includes_uplink(&self) -> bool {
        self.default.includes_uplink() || self.rules.iter().any(|rule| rule.action.includes_uplink())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn action(policy: &Policy, client: &str, server: &str) -> Action {
        policy.action(client.parse().unwrap(), server.parse().unwrap())
    }

    #[test]
    fn the_first_rule_that_matches_decides() {
        let rules = ["pass port 22", "both server 192.0.2.0/24 port 8000-8999", "pass client 2001:db8::/32"];
        let rules = rules.iter().map(|rule| rule.parse().unwrap()).collect();
        let policy = Policy { rules, ..Policy::default() };
        assert_eq!(action(&policy, "10.0.0.1:5", "192.0.2.1:22"), Action::Pass);
        assert_eq!(action(&policy, "10.0.0.1:5", "192.0.2.1:8080"), Action::Both);
        assert_eq!(action(&policy, "10.0.0.1:5", "192.0.3.1:8080"), Action::Downlink);
        assert_eq!(action(&policy, "[2001:db8::5]:5", "[2001:db9::1]:443"), Action::Pass);
        assert_eq!(action(&policy, "[2001:db9::5]:5", "[2001:db8::1]:443"), Action::Downlink);
        assert!(policy.includes_uplink());
        assert!(!Policy::default().includes_uplink());
    }

    #[test]
    fn prefixes_of_every_length_match_what_they_should() {
        let all: Prefix = "0.0.0.0/0".parse().unwrap();
        assert!(all.contains("255.1.2.3".parse().unwrap()) && !all.contains("::1".parse().unwrap()));
        let one: Prefix = "10.1.2.3".parse().unwrap();
        assert!(one.contains("10.1.2.3".parse().unwrap()) && !one.contains("10.1.2.2".parse().unwrap()));
        let six: Prefix = "::/0".parse().unwrap();
        assert!(six.contains("ffff::".parse().unwrap()));
    }

    #[test]
    fn a_rule_reads_back_as_it_is_written_and_nonsense_is_named() {
        for text in [
            "pass port 22",
            "drwa server 10.0.0.1/32 port 80",
            "both client 10.0.0.0/8 server ::1/128 port 1-65535",
            "uplink",
        ] {
            assert_eq!(text.parse::<Rule>().unwrap().to_string(), text);
        }
        for (text, part) in [
            ("", "no action"),
            ("drop port 1", "`drop` is no action"),
            ("pass ports 22", "`ports` names nothing"),
            ("pass port", "`port` needs a value"),
            ("pass port 9-1", "`9-1` is no port"),
            ("pass port 70000", "`70000` is no port"),
            ("pass client 10.0.0.0/33", "`10.0.0.0/33` is no address"),
            ("pass server example.org", "`example.org` is no address"),
        ] {
            let error = text.parse::<Rule>().unwrap_err().to_string();
            assert!(error.contains(part), "{text}: {error}");
        }
    }
}
