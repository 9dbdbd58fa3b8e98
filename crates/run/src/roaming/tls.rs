//! TLS 1.3 between boxes: both show a certificate, and each takes those very ones that it was given. No early data,
//! no resumption.

use std::sync::Arc;

use rustls::client::Resumption;
use rustls::client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier};
use rustls::crypto::{CryptoProvider, verify_tls12_signature, verify_tls13_signature};
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer, ServerName, UnixTime};
use rustls::server::danger::{ClientCertVerified, ClientCertVerifier};
use rustls::{
    CertificateError, ClientConfig, DigitallySignedStruct, DistinguishedName, Error, ServerConfig,
    SignatureScheme,
};

use super::RoamingConfig;

/// Who this box is, and whom it knows.
#[derive(Clone)]
pub(super) struct Identity {
    pub server: Arc<ServerConfig>,
    chain: Vec<CertificateDer<'static>>,
    key: Arc<PrivateKeyDer<'static>>,
    /// Certificates of the peers, in their order.
    pub peers: Arc<Vec<CertificateDer<'static>>>,
}

impl Identity {
    /// # Errors
    /// One line: what is no certificate or key.
    pub fn new(config: &RoamingConfig) -> Result<Self, String> {
        let chain = certificates(&config.certificate)
            .map_err(|error| format!("the certificate for hand-overs is none (PEM): {error}"))?;
        let key = PrivateKeyDer::from_pem_slice(config.key.as_bytes())
            .map_err(|error| format!("the key for hand-overs is none (PEM): {error}"))?;
        let peer = |peer: &super::PeerConfig| {
            let all = certificates(&peer.certificate)
                .map_err(|error| format!("the certificate of peer '{}' is none (PEM): {error}", peer.name))?;
            all.into_iter().next().ok_or_else(|| format!("peer '{}' has no certificate", peer.name))
        };
        let peers = Arc::new(config.peers.iter().map(peer).collect::<Result<Vec<_>, _>>()?);
        let known = Known { certificates: Arc::clone(&peers), provider: provider() };
        let server = ServerConfig::builder_with_provider(provider())
            .with_protocol_versions(&[&rustls::version::TLS13])
            .and_then(|builder| {
                builder
                    .with_client_cert_verifier(Arc::new(known))
                    .with_single_cert(chain.clone(), key.clone_key())
            })
            .map(|mut server| {
                server.send_tls13_tickets = 0;
                server.max_early_data_size = 0;
                server
            })
            .map_err(|error| format!("the certificate and the key for hand-overs do not fit: {error}"))?;
        Ok(Self { server: Arc::new(server), chain, key: Arc::new(key), peers })
    }

    /// For connections to the peer of a number.
    ///
    /// # Errors
    /// There is no such peer.
    pub fn client(&self, peer: usize) -> Result<Arc<ClientConfig>, String> {
        let certificate = self.peers.get(peer).ok_or("no such peer")?.clone();
        let known = Known { certificates: Arc::new(vec![certificate]), provider: provider() };
        let mut client = ClientConfig::builder_with_provider(provider())
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

fn certificates(text: &str) -> Result<Vec<CertificateDer<'static>>, String> {
    let all = CertificateDer::pem_slice_iter(text.as_bytes()).collect::<Result<Vec<_>, _>>();
    let all = all.map_err(|error| error.to_string())?;
    if all.is_empty() { Err("nothing in it".to_owned()) } else { Ok(all) }
}

fn provider() -> Arc<CryptoProvider> {
    Arc::new(rustls::crypto::ring::default_provider())
}

/// Takes the very certificates that it was given.
#[derive(Debug)]
struct Known {
    certificates: Arc<Vec<CertificateDer<'static>>>,
    provider: Arc<CryptoProvider>,
}

impl Known {
    fn check(&self, certificate: &CertificateDer<'_>) -> Result<(), Error> {
        let is_known = self.certificates.iter().any(|own| own == certificate);
        is_known.then_some(()).ok_or(Error::InvalidCertificate(CertificateError::UnknownIssuer))
    }

    fn signed(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signed: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        let algorithms = &self.provider.signature_verification_algorithms;
        verify_tls13_signature(message, certificate, signed, algorithms)
    }
}

impl ServerCertVerifier for Known {
    fn verify_server_cert(
        &self,
        end_entity: &CertificateDer<'_>,
        _: &[CertificateDer<'_>],
        _: &ServerName<'_>,
        _: &[u8],
        _: UnixTime,
    ) -> Result<ServerCertVerified, Error> {
        self.check(end_entity).map(|()| ServerCertVerified::assertion())
    }

    fn verify_tls12_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signed: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        let algorithms = &self.provider.signature_verification_algorithms;
        verify_tls12_signature(message, certificate, signed, algorithms)
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signed: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        self.signed(message, certificate, signed)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.provider.signature_verification_algorithms.supported_schemes()
    }
}

impl ClientCertVerifier for Known {
    fn root_hint_subjects(&self) -> &[DistinguishedName] {
        &[]
    }

    fn verify_client_cert(
        &self,
        end_entity: &CertificateDer<'_>,
        _: &[CertificateDer<'_>],
        _: UnixTime,
    ) -> Result<ClientCertVerified, Error> {
        self.check(end_entity).map(|()| ClientCertVerified::assertion())
    }

    fn verify_tls12_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signed: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        let algorithms = &self.provider.signature_verification_algorithms;
        verify_tls12_signature(message, certificate, signed, algorithms)
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signed: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        self.signed(message, certificate, signed)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.provider.signature_verification_algorithms.supported_schemes()
    }
}
