//! Flags of `cellerator run` about other boxes, to which subscribers move with their flows.

use core::str::FromStr;
use std::collections::BTreeMap;
use std::mem::take;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};

use serde::Deserialize;

use super::file::in_plain_words;
use super::value::{Written, many};
use crate::{HandoverConfig, PeerConfig};

/// Other boxes that subscribers go to, and come from.
#[derive(clap::Args, Deserialize)]
#[serde(default, rename_all = "kebab-case")]
#[command(next_help_heading = "Hand-over to other boxes")]
pub(super) struct HandoverArgs {
    /// Listen for other boxes at this address and port (docs/handover.md)
    #[arg(long, value_name = "ADDR:PORT", requires_all = ["handover_certificate", "handover_key", "handover_peer"])]
    handover_listen: Option<SocketAddr>,
    /// The certificate (PEM) that this box shows other boxes
    #[arg(long, value_name = "FILE", requires = "handover_listen")]
    handover_certificate: Option<PathBuf>,
    /// Its key (PEM)
    #[arg(long, value_name = "FILE", requires = "handover_listen")]
    handover_key: Option<PathBuf>,
    /// Another box: what it is called here, where it listens, and the file with its certificate (PEM), as in
    /// `north=192.0.2.7:7320,north.pem`. Without a file it is known by its name, for which an authority vouches.
    /// May be given again
    #[arg(long, value_name = "NAME=ADDR:PORT[,FILE]", requires = "handover_listen")]
    #[serde(deserialize_with = "many")]
    pub(super) handover_peer: Vec<Written<Peer>>,
    /// The subscribers that another box may take from here, as prefixes of their addresses: `north=10.45.0.0/16`.
    /// Without it: any. `north=` is none. May be given again
    #[arg(long, value_name = "NAME=PREFIX[,…]", requires = "handover_listen")]
    #[serde(deserialize_with = "many")]
    pub(super) handover_takes: Vec<Written<Prefixes>>,
    /// The subscribers that another box may give to here, as prefixes of their addresses. Without it: any whose flows
    /// are not here. May be given again
    #[arg(long, value_name = "NAME=PREFIX[,…]", requires = "handover_listen")]
    #[serde(deserialize_with = "many")]
    pub(super) handover_gives: Vec<Written<Prefixes>>,
    /// Certificates (PEM) of those who vouch for the names of other boxes
    #[arg(long, value_name = "FILE", requires = "handover_listen")]
    handover_authorities: Option<PathBuf>,
    /// Encapsulation of packets where they come to this box, in a word (`gtp-u`): subscribers move between boxes with
    /// the same word only. Without it: none
    #[arg(long, value_name = "WORD", requires = "handover_listen")]
    handover_encapsulation: Option<String>,
    /// Other boxes in the table of a file, by their names.
    #[arg(skip)]
    #[serde(rename = "handover.peers")]
    peers: BTreeMap<String, toml::Value>,
}

/// A table `[handover.peers.NAME]`.
#[derive(Deserialize)]
#[serde(deny_unknown_fields, expecting = "a table with `address`")]
struct PeerTable {
    address: String,
    certificate: Option<PathBuf>,
    takes: Option<Vec<String>>,
    gives: Option<Vec<String>>,
}

/// A peer, before its certificate is read.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) struct Peer {
    name: String,
    address: SocketAddr,
    certificate: Option<PathBuf>,
}

/// Prefixes that are said of a peer.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) struct Prefixes {
    peer: String,
    all: Vec<String>,
}

impl Prefixes {
    fn new(peer: &str, all: Vec<String>) -> Result<Self, String> {
        all.iter().try_for_each(|text| text.parse::<handover::Prefix>().map(drop))?;
        Ok(Self { peer: peer.to_owned(), all })
    }
}

impl FromStr for Prefixes {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let form = "it is not NAME=PREFIX or NAME=PREFIX,PREFIX";
        let (peer, all) = text.split_once('=').filter(|(peer, _)| !peer.is_empty()).ok_or(form)?;
        let all = if all.is_empty() { Vec::new() } else { all.split(',').map(str::to_owned).collect() };
        Self::new(peer, all)
    }
}

/// All that is said of a peer; none where nothing is.
fn prefixes_of(said: &[Written<Prefixes>], peer: &str) -> Option<Vec<String>> {
    let mut of_peer = said.iter().map(|Written(said)| said).filter(|said| said.peer == peer).peekable();
    of_peer.peek()?;
    Some(of_peer.flat_map(|said| said.all.iter().cloned()).collect())
}

impl FromStr for Peer {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        const FORM: &str = "it is not NAME=ADDR:PORT or NAME=ADDR:PORT,FILE";
        let (name, rest) = text.split_once('=').ok_or(FORM)?;
        let (address, certificate) =
            rest.split_once(',').map_or((rest, None), |(address, file)| (address, Some(file)));
        if name.is_empty() || certificate == Some("") {
            return Err(FORM.to_owned());
        }
        let (address, certificate) = (address_of(address)?, certificate.map(PathBuf::from));
        Ok(Self { name: name.to_owned(), address, certificate })
    }
}

fn address_of(text: &str) -> Result<SocketAddr, String> {
    text.parse().map_err(|_| format!("'{text}' is not ADDR:PORT"))
}

impl HandoverArgs {
    /// Joins the peers of the table to those of flags' names, which go before.
    pub(super) fn join_peers(&mut self) -> Result<(), String> {
        take(&mut self.peers).into_iter().try_for_each(|(name, said)| {
            self.join_peer(&name, said).map_err(|problem| format!("peer '{name}': {problem}"))
        })
    }

    fn join_peer(&mut self, name: &str, said: toml::Value) -> Result<(), String> {
        let PeerTable { address, certificate, takes, gives } =
            PeerTable::deserialize(said).map_err(|error| in_plain_words(error.message()))?;
        let address = address_of(&address)?;
        self.handover_peer.push(Written(Peer { name: name.to_owned(), address, certificate }));
        for (own, said) in [(&mut self.handover_takes, takes), (&mut self.handover_gives, gives)] {
            own.extend(said.map(|all| Prefixes::new(name, all).map(Written)).transpose()?);
        }
        Ok(())
    }

    /// Settings that lack beside those that are given, if any.
    pub(super) fn misfit(&self) -> Option<(&'static [&'static str], String)> {
        let has = [
            self.handover_listen.is_some(),
            self.handover_certificate.is_some(),
            self.handover_key.is_some(),
            !self.handover_peer.is_empty(),
        ];
        let is_meant = has.contains(&true)
            || self.handover_authorities.is_some()
            || self.handover_encapsulation.is_some()
            || !(self.handover_takes.is_empty() && self.handover_gives.is_empty());
        let needs = "a hand-over needs handover-listen, handover-certificate, handover-key and a peer";
        (is_meant && has.contains(&false)).then(|| (&["handover"][..], needs.to_owned()))
    }

    /// The other boxes, if there are any; an error is one line.
    pub(super) fn config(&self) -> Result<Option<HandoverConfig>, String> {
        let (Some(listen), Some(certificate), Some(key)) =
            (self.handover_listen, &self.handover_certificate, &self.handover_key)
        else {
            return Ok(None);
        };
        let peers = self.handover_peer.iter().map(|Written(peer)| {
            let certificate = peer.certificate.as_deref().map(read).transpose()?.unwrap_or_default();
            if peer.certificate.is_none() && self.handover_authorities.is_none() {
                return Err(format!(
                    "--handover-peer {}: give the file with its certificate, or --handover-authorities",
                    peer.name
                ));
            }
            let takes = prefixes_of(&self.handover_takes, &peer.name);
            let gives = prefixes_of(&self.handover_gives, &peer.name);
            Ok(PeerConfig { name: peer.name.clone(), address: peer.address, certificate, takes, gives })
        });
        let peers: Vec<PeerConfig> = peers.collect::<Result<_, String>>()?;
        for (at, peer) in peers.iter().enumerate() {
            if peers.iter().take(at).any(|other| other.name == peer.name) {
                return Err(format!("--handover-peer: there are two peers '{}'", peer.name));
            }
        }
        let flags = [("--handover-takes", &self.handover_takes), ("--handover-gives", &self.handover_gives)];
        for (flag, said) in flags {
            let unknown = said.iter().find(|Written(said)| !peers.iter().any(|peer| peer.name == said.peer));
            if let Some(Written(Prefixes { peer, .. })) = unknown {
                let names: Vec<&str> = peers.iter().map(|peer| peer.name.as_str()).collect();
                return Err(format!("{flag}: no peer '{peer}'; there are: {}", names.join(", ")));
            }
        }
        let authorities = self.handover_authorities.as_deref().map(read).transpose()?;
        let (certificate, key) = (read(certificate)?, read_key(key)?);
        let encapsulation = self.handover_encapsulation.clone().unwrap_or_default();
        Ok(Some(HandoverConfig { listen, certificate, key, authorities, encapsulation, peers }))
    }
}

fn read_key(path: &Path) -> Result<String, String> {
    let key = io::read_secret(path).map_err(|error| format!("--handover-key: {error}"))?;
    String::from_utf8(key).map_err(|_| format!("--handover-key: {} is no key (PEM)", path.display()))
}

fn read(path: &Path) -> Result<String, String> {
    std::fs::read_to_string(path).map_err(|error| format!("cannot read {}: {error}", path.display()))
}

#[cfg(test)]
mod tests {
    use clap::Parser;

    use super::*;

    #[derive(Parser)]
    struct Line {
        #[command(flatten)]
        roaming: HandoverArgs,
    }

    fn parse(words: &[&str]) -> Result<Option<HandoverConfig>, String> {
        let line = Line::try_parse_from(std::iter::once(&"run").chain(words));
        line.map_err(|error| error.to_string())?.roaming.config()
    }

    #[test]
    fn without_flags_there_are_no_peers_and_half_of_them_are_refused() {
        assert_eq!(parse(&[]), Ok(None));
        assert!(parse(&["--handover-listen", "192.0.2.1:7320"]).unwrap_err().contains("--handover-key"));
        assert!(parse(&["--handover-key", "key.pem"]).unwrap_err().contains("--handover-listen"));
    }

    #[test]
    fn a_peer_has_a_name_an_address_and_a_certificate() {
        let peer: Peer = "north=192.0.2.7:7320,north.pem".parse().unwrap();
        assert_eq!((peer.name.as_str(), peer.address.port()), ("north", 7_320));
        for wrong in
            ["north", "north=192.0.2.7", "=192.0.2.7:7320,a", "north=192.0.2.7,a", "north=1.2.3.4:5,"]
        {
            assert!(wrong.parse::<Peer>().is_err(), "{wrong}");
        }
        let file = tempfile::NamedTempFile::new().unwrap().into_temp_path();
        std::fs::write(&file, "text").unwrap();
        std::fs::set_permissions(&file, std::os::unix::fs::PermissionsExt::from_mode(0o600)).unwrap();
        let path = file.to_str().unwrap();
        let peer = format!("north=192.0.2.7:7320,{path}");
        let all =
            ["--handover-listen", "0.0.0.0:7320", "--handover-certificate", path, "--handover-key", path];
        let all: Vec<&str> = all.into_iter().chain(["--handover-peer", &peer]).collect();
        let config = parse(&all).unwrap().unwrap();
        assert_eq!((config.key.as_str(), config.peers[0].certificate.as_str()), ("text", "text"));
        assert!(!format!("{config:?}").contains("key"), "keys are not shown");
        assert_eq!(config.encapsulation, "");
        let tunnelled = [&all[..], &["--handover-encapsulation", "gtp-u"]].concat();
        assert_eq!(parse(&tunnelled).unwrap().unwrap().encapsulation, "gtp-u");
        assert_eq!((&config.peers[0].takes, &config.peers[0].gives), (&None, &None), "nothing is said");
        let caution = config.peers[0].caution().unwrap();
        assert!(
            caution.contains("--handover-gives north=PREFIX") && caution.lines().count() == 1,
            "{caution}"
        );
        let bounded = |words: &[&str]| {
            let all: Vec<&str> = all.iter().chain(words).copied().collect();
            parse(&all).map(|config| config.unwrap().peers.remove(0))
        };
        let words =
            ["--handover-takes=north=10.45.0.0/16,2001:db8::/32", "--handover-takes=north=10.46.0.0/16"];
        let limited = bounded(&[words[0], words[1], "--handover-gives=north="]).unwrap();
        let texts = |all: &[&str]| Some(all.iter().map(|&text| text.to_owned()).collect::<Vec<_>>());
        assert_eq!(limited.takes, texts(&["10.45.0.0/16", "2001:db8::/32", "10.46.0.0/16"]));
        assert_eq!(
            (&limited.gives, limited.rights().unwrap().gives),
            (&texts(&[]), Some(Vec::new())),
            "none"
        );
        assert_eq!(limited.caution(), None);
        for (word, part) in [
            ("--handover-gives=south=10.45.0.0/16", "no peer 'south'; there are: north"),
            ("--handover-gives=north=10.45.0.1/16", "'10.45.0.0/16' is meant"),
            ("--handover-gives=north=10.45.0.0/16,", "is no prefix"),
            ("--handover-gives=10.45.0.0/16", "not NAME=PREFIX"),
            ("--handover-gives==10.45.0.0/16", "not NAME=PREFIX"),
        ] {
            let problem = bounded(&[word]).unwrap_err();
            assert!(problem.contains(part), "{problem}");
        }
        let named = ["--handover-peer", "south=192.0.2.8:7320"];
        let named: Vec<&str> = all.iter().copied().chain(named).collect();
        assert!(parse(&named).unwrap_err().contains("--handover-authorities"));
        let vouched: Vec<&str> = named.iter().copied().chain(["--handover-authorities", path]).collect();
        let config = parse(&vouched).unwrap().unwrap();
        assert_eq!((config.authorities.as_deref(), config.peers[1].certificate.as_str()), (Some("text"), ""));
        let twice: Vec<&str> = all.iter().copied().chain(["--handover-peer", &peer]).collect();
        assert!(parse(&twice).unwrap_err().contains("two peers"));
        std::fs::set_permissions(&file, std::os::unix::fs::PermissionsExt::from_mode(0o644)).unwrap();
        let open = parse(&all).unwrap_err();
        assert!(open.contains("--handover-key") && open.contains("its mode is 0644"), "{open}");
        std::fs::remove_file(&file).unwrap();
        assert!(parse(&all).unwrap_err().contains("cannot read"));
    }
}
