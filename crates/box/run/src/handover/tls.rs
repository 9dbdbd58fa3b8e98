//! TLS 1.3 between boxes: both show a certificate. A peer is known by the very one that it was given with, or, if it
//! was given without, by its name in one that an authority of the settings vouches for. No early data, no resumption.

use std::sync::Arc;

use rustls::client::danger::HandshakeSignatureValid;
use rustls::client::{Resumption, WebPkiServerVerifier, verify_server_name};
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer, ServerName, UnixTime};
use rustls::server::danger::{ClientCertVerified, ClientCertVerifier};
use rustls::server::{ParsedCertificate, WebPkiClientVerifier};
use rustls::{
    ClientConfig, DigitallySignedStruct, DistinguishedName, Error, RootCertStore, ServerConfig,
    SignatureScheme,
};

use super::HandoverConfig;
use crate::pinned::{Pinned, Signatures, certificates_of, tls_provider, unknown};

/// Identity of this box, and the peers that it knows.
#[derive(Clone)]
pub(super) struct Identity {
    pub server: Arc<ServerConfig>,
    chain: Vec<CertificateDer<'static>>,
    key: Arc<PrivateKeyDer<'static>>,
    known: Arc<Known>,
}

impl Identity {
    /// # Errors
    /// One line: what is no certificate or key.
    pub fn new(config: &HandoverConfig) -> Result<Self, String> {
        let chain = certificates_of(&config.certificate)
            .map_err(|error| format!("the certificate for hand-overs is none (PEM): {error}"))?;
        let key = PrivateKeyDer::from_pem_slice(config.key.as_bytes())
            .map_err(|error| format!("the key for hand-overs is none (PEM): {error}"))?;
        let authorities = config.authorities.as_deref().map(Authorities::new).transpose()?;
        let peer = |peer: &super::PeerConfig| KnownBy::new(peer, authorities.is_some());
        let peers = config.peers.iter().map(peer).collect::<Result<Vec<_>, _>>()?;
        let known = Arc::new(Known { peers, authorities, signatures: Signatures::new() });
        let server = ServerConfig::builder_with_provider(tls_provider())
            .with_protocol_versions(&[&rustls::version::TLS13])
            .and_then(|builder| {
                builder
                    .with_client_cert_verifier(Arc::<Known>::clone(&known))
                    .with_single_cert(chain.clone(), key.clone_key())
            })
            .map(|mut server| {
                server.send_tls13_tickets = 0;
                server.max_early_data_size = 0;
                server
            })
            .map_err(|error| format!("the certificate and the key for hand-overs do not fit: {error}"))?;
        Ok(Self { server: Arc::new(server), chain, key: Arc::new(key), known })
    }

    /// Number of peers.
    pub fn peers(&self) -> usize {
        self.known.peers.len()
    }

    /// The number of the peer that has shown this certificate, which was taken.
    pub fn peer_of(&self, shown: &CertificateDer<'_>) -> Option<usize> {
        let pinned = self.known.peers.iter().position(|peer| peer.is(shown));
        pinned.or_else(|| self.known.named(shown))
    }

    /// For connections to the peer of a number.
    ///
    /// # Errors
    /// There is no such peer.
    pub fn client(&self, peer: usize) -> Result<Arc<ClientConfig>, String> {
        let authorities = self.known.authorities.as_ref();
        let known = match self.known.peers.get(peer).ok_or("no such peer")? {
            KnownBy::Certificate(own) => Pinned::new(vec![own.clone()], None),
            KnownBy::Name(name) => {
                let authority = authorities.map(|authorities| Arc::clone(&authorities.servers));
                Pinned::new(Vec::new(), authority).called(name.clone())
            }
        };
        let mut client = ClientConfig::builder_with_provider(tls_provider())
            .with_protocol_versions(&[&rustls::version::TLS13])
            .map_err(|error| error.to_string())?
            .dangerous()
            .with_custom_certificate_verifier(Arc::new(known))
            .with_client_auth_cert(self.chain.clone(), self.key.clone_key())
            .map_err(|error| error.to_string())?;
        client.resumption = Resumption::disabled();
        client.enable_early_data = false;
        Ok(Arc::new(client))
    }
}

/// Means by which a peer is known.
#[derive(Clone, Debug)]
enum KnownBy {
    /// By this very certificate.
    Certificate(CertificateDer<'static>),
    /// By this name in one that an authority vouches for.
    Name(ServerName<'static>),
}

impl KnownBy {
    fn new(peer: &super::PeerConfig, has_authorities: bool) -> Result<Self, String> {
        let name = &peer.name;
        if peer.certificate.is_empty() {
            if !has_authorities {
                return Err(format!(
                    "peer '{name}' has no certificate, and there are no authorities to know it by its name"
                ));
            }
            let known = ServerName::try_from(name.clone()).ok();
            let known = known.filter(|known| matches!(known, ServerName::DnsName(_)));
            let known =
                known.ok_or_else(|| format!("peer '{name}': that is no name for a certificate (DNS)"))?;
            return Ok(Self::Name(known));
        }
        let all = certificates_of(&peer.certificate)
            .map_err(|error| format!("the certificate of peer '{name}' is none (PEM): {error}"))?;
        let first = all.into_iter().next().ok_or_else(|| format!("peer '{name}' has no certificate"))?;
        Ok(Self::Certificate(first))
    }

    /// True for its very certificate.
    fn is(&self, shown: &CertificateDer<'_>) -> bool {
        matches!(self, Self::Certificate(own) if own == shown)
    }

    fn name(&self) -> Option<&ServerName<'static>> {
        match self {
            Self::Certificate(_) => None,
            Self::Name(name) => Some(name),
        }
    }
}

/// Authorities that vouch for peers.
#[derive(Clone, Debug)]
struct Authorities {
    servers: Arc<WebPkiServerVerifier>,
    clients: Arc<dyn ClientCertVerifier>,
}

impl Authorities {
    fn new(text: &str) -> Result<Self, String> {
        let none = |error: String| format!("the authorities for hand-overs are none (PEM): {error}");
        let mut roots = RootCertStore::empty();
        for certificate in certificates_of(text).map_err(none)? {
            roots.add(certificate).map_err(|error| none(error.to_string()))?;
        }
        let roots = Arc::new(roots);
        let servers = WebPkiServerVerifier::builder_with_provider(Arc::clone(&roots), tls_provider()).build();
        let clients = WebPkiClientVerifier::builder_with_provider(roots, tls_provider()).build();
        Ok(Self {
            servers: servers.map_err(|error| none(error.to_string()))?,
            clients: clients.map_err(|error| none(error.to_string()))?,
        })
    }
}

/// Takes the certificates of the peers.
#[derive(Debug)]
struct Known {
    peers: Vec<KnownBy>,
    authorities: Option<Authorities>,
    signatures: Signatures,
}

impl Known {
    fn is_pinned(&self, shown: &CertificateDer<'_>) -> bool {
        self.peers.iter().any(|peer| peer.is(shown))
    }

    /// The peer whose name is in a certificate, whoever vouches for that.
    fn named(&self, shown: &CertificateDer<'_>) -> Option<usize> {
        let parsed = ParsedCertificate::try_from(shown).ok()?;
        let has = |peer: &KnownBy| peer.name().is_some_and(|name| verify_server_name(&parsed, name).is_ok());
        self.peers.iter().position(has)
    }
}

impl ClientCertVerifier for Known {
    fn root_hint_subjects(&self) -> &[DistinguishedName] {
        &[]
    }

    fn verify_client_cert(
        &self,
        end_entity: &CertificateDer<'_>,
        intermediates: &[CertificateDer<'_>],
        now: UnixTime,
    ) -> Result<ClientCertVerified, Error> {
        if self.is_pinned(end_entity) {
            return Ok(ClientCertVerified::assertion());
        }
        let Some(authorities) = &self.authorities else { return Err(unknown()) };
        let verified = authorities.clients.verify_client_cert(end_entity, intermediates, now)?;
        self.named(end_entity).map(|_| verified).ok_or_else(unknown)
    }

    fn verify_tls12_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signed: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        self.signatures.verify_tls12(message, certificate, signed)
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signed: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        self.signatures.verify_tls13(message, certificate, signed)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.signatures.schemes()
    }
}

#[cfg(test)]
mod tests {
    use rustls::{ClientConnection, ServerConnection};

    use super::*;
    use crate::{HandoverConfig, PeerConfig};

    const AUTHORITY: &str = include_str!("../../tests/netns/certificates/authority.pem");
    const NORTH: [&str; 2] = [
        include_str!("../../tests/netns/certificates/north.pem"),
        include_str!("../../tests/netns/certificates/north.key"),
    ];
    const SOUTH: [&str; 2] = [
        include_str!("../../tests/netns/certificates/south.pem"),
        include_str!("../../tests/netns/certificates/south.key"),
    ];
    const STRANGER: [&str; 2] = [
        include_str!("../../tests/netns/certificates/stranger.pem"),
        include_str!("../../tests/netns/certificates/stranger.key"),
    ];

    fn config(own: [&str; 2], authorities: Option<&str>, peers: &[(&str, &str)]) -> HandoverConfig {
        let [certificate, key] = own.map(str::to_owned);
        let peer = |&(name, certificate): &(&str, &str)| PeerConfig {
            name: name.to_owned(),
            address: "192.0.2.1:7320".parse().unwrap(),
            certificate: certificate.to_owned(),
            takes: None,
            gives: None,
        };
        let listen = "192.0.2.1:7320".parse().unwrap();
        let authorities = authorities.map(str::to_owned);
        let (peers, encapsulation) = (peers.iter().map(peer).collect(), String::new());
        HandoverConfig { listen, certificate, key, authorities, encapsulation, peers }
    }

    /// The number that the second one knows the first one by, if both take each other.
    fn meet(client: &HandoverConfig, server: &HandoverConfig) -> Result<Option<usize>, Error> {
        let [client, server] = [client, server].map(|config| Identity::new(config).unwrap());
        let name = ServerName::try_from("192.0.2.1").unwrap();
        let mut a = ClientConnection::new(client.client(0).unwrap(), name)?;
        let mut b = ServerConnection::new(Arc::clone(&server.server))?;
        for _ in 0..4 {
            let (mut up, mut down) = (Vec::new(), Vec::new());
            while a.wants_write() {
                a.write_tls(&mut up).unwrap();
            }
            b.read_tls(&mut &up[..]).unwrap();
            b.process_new_packets()?;
            while b.wants_write() {
                b.write_tls(&mut down).unwrap();
            }
            a.read_tls(&mut &down[..]).unwrap();
            a.process_new_packets()?;
        }
        assert!(!a.is_handshaking() && !b.is_handshaking());
        let shown = b.peer_certificates().and_then(<[_]>::first);
        Ok(shown.and_then(|shown| server.peer_of(shown)))
    }

    #[test]
    fn a_peer_is_known_by_its_certificate_or_by_its_name() {
        let authority = Some(AUTHORITY);
        let north = |peers: &[(&str, &str)]| config(NORTH, authority, peers);
        let south = |peers: &[(&str, &str)]| config(SOUTH, authority, peers);
        let both = [("other", STRANGER[0]), ("north", "")];
        assert_eq!(meet(&north(&[("south", "")]), &south(&both)), Ok(Some(1)), "by their names");
        let pinned = config(SOUTH, None, &[("x", NORTH[0])]);
        assert_eq!(meet(&north(&[("y", SOUTH[0])]), &pinned), Ok(Some(0)), "whatever they are called");
        assert_eq!(meet(&north(&[("south", "")]), &pinned), Ok(Some(0)), "one so, one so");
        assert!(meet(&north(&[("east", "")]), &south(&both)).is_err(), "another name is expected");
        assert!(
            meet(&north(&[("south", "")]), &south(&[("east", "")])).is_err(),
            "another is expected there"
        );
        let stranger = config(STRANGER, authority, &[("south", "")]);
        assert!(meet(&stranger, &south(&[("north", "")])).is_err(), "nobody vouches for it");
        let other = config(STRANGER, Some(STRANGER[0]), &[("south", "")]);
        assert!(meet(&north(&[("south", "")]), &config(SOUTH, Some(STRANGER[0]), &both)).is_err());
        assert!(Identity::new(&other).is_ok());
    }

    #[test]
    fn what_is_wrong_with_a_peer_is_said() {
        let wrong = |config: &HandoverConfig, part: &str| {
            let error = Identity::new(config).err().unwrap();
            assert!(error.contains(part), "{error}");
        };
        wrong(&config(NORTH, None, &[("south", "")]), "there are no authorities");
        wrong(&config(NORTH, Some("text"), &[("south", "")]), "the authorities for hand-overs are none");
        wrong(&config(NORTH, Some(AUTHORITY), &[("not a name", "")]), "no name for a certificate");
        wrong(&config(NORTH, None, &[("south", "text")]), "the certificate of peer 'south' is none");
        wrong(&config([NORTH[0], SOUTH[1]], None, &[("south", SOUTH[0])]), "do not fit");
    }
}
