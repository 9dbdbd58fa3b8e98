//! Flags of `cellerator run` about other boxes, to which subscribers move with their flows.

use std::net::SocketAddr;
use std::path::{Path, PathBuf};

use crate::{PeerConfig, RoamingConfig};

/// Where subscribers go to, and come from.
#[derive(clap::Args)]
#[command(next_help_heading = "Hand-over to other boxes")]
pub(super) struct RoamingArgs {
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
    /// `north=192.0.2.7:7320,north.pem`. May be given again
    #[arg(long, value_name = "NAME=ADDR:PORT,FILE", requires = "handover_listen", value_parser = parse_peer)]
    handover_peer: Vec<Peer>,
}

/// A peer, before its certificate is read.
#[derive(Clone, PartialEq, Eq, Debug)]
struct Peer {
    name: String,
    address: SocketAddr,
    certificate: PathBuf,
}

fn parse_peer(text: &str) -> Result<Peer, String> {
    let parts = text.split_once('=').and_then(|(name, rest)| Some((name, rest.split_once(',')?)));
    let (name, (address, certificate)) = parts.ok_or("it is not NAME=ADDR:PORT,FILE")?;
    if name.is_empty() || certificate.is_empty() {
        return Err("it is not NAME=ADDR:PORT,FILE".to_owned());
    }
    let address = address.parse().map_err(|_| format!("'{address}' is not ADDR:PORT"))?;
    Ok(Peer { name: name.to_owned(), address, certificate: PathBuf::from(certificate) })
}

impl RoamingArgs {
    /// The other boxes, if there are any; an error is one line.
    pub(super) fn config(&self) -> Result<Option<RoamingConfig>, String> {
        let Some(listen) = self.handover_listen else { return Ok(None) };
        let (Some(certificate), Some(key)) = (&self.handover_certificate, &self.handover_key) else {
            return Err("--handover-listen needs --handover-certificate and --handover-key".to_owned());
        };
        let peers = self.handover_peer.iter().map(|peer| {
            let certificate = read(&peer.certificate)?;
            Ok(PeerConfig { name: peer.name.clone(), address: peer.address, certificate })
        });
        let peers: Vec<PeerConfig> = peers.collect::<Result<_, String>>()?;
        for (at, peer) in peers.iter().enumerate() {
            if peers.iter().take(at).any(|other| other.name == peer.name) {
                return Err(format!("--handover-peer: there are two peers '{}'", peer.name));
            }
        }
        Ok(Some(RoamingConfig { listen, certificate: read(certificate)?, key: read(key)?, peers }))
    }
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
        roaming: RoamingArgs,
    }

    fn parse(words: &[&str]) -> Result<Option<RoamingConfig>, String> {
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
        let peer = parse_peer("north=192.0.2.7:7320,north.pem").unwrap();
        assert_eq!((peer.name.as_str(), peer.address.port()), ("north", 7_320));
        for wrong in
            ["north", "north=192.0.2.7:7320", "=192.0.2.7:7320,a", "north=192.0.2.7,a", "north=1.2.3.4:5,"]
        {
            assert!(parse_peer(wrong).is_err(), "{wrong}");
        }
        let file = std::env::temp_dir().join(format!("cellerator-peer-{}", std::process::id()));
        std::fs::write(&file, "text").unwrap();
        let path = file.to_str().unwrap();
        let peer = format!("north=192.0.2.7:7320,{path}");
        let all =
            ["--handover-listen", "0.0.0.0:7320", "--handover-certificate", path, "--handover-key", path];
        let all: Vec<&str> = all.into_iter().chain(["--handover-peer", &peer]).collect();
        let config = parse(&all).unwrap().unwrap();
        assert_eq!((config.key.as_str(), config.peers[0].certificate.as_str()), ("text", "text"));
        assert!(!format!("{config:?}").contains("key"), "keys are not shown");
        let twice: Vec<&str> = all.iter().copied().chain(["--handover-peer", &peer]).collect();
        assert!(parse(&twice).unwrap_err().contains("two peers"));
        std::fs::remove_file(&file).unwrap();
        assert!(parse(&all).unwrap_err().contains("cannot read"));
    }
}
