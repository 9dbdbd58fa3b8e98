//! [`Pinned`]: whose certificate is trusted in TLS 1.3: this very one, or one that somebody vouches for.

use std::sync::Arc;

use rustls::client::WebPkiServerVerifier;
use rustls::client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier};
use rustls::crypto::{CryptoProvider, verify_tls12_signature, verify_tls13_signature};
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, ServerName, UnixTime};
use rustls::{CertificateError, DigitallySignedStruct, Error, SignatureScheme};

/// The one provider of cryptography.
#[must_use]
pub fn tls_provider() -> Arc<CryptoProvider> {
    Arc::new(rustls::crypto::ring::default_provider())
}

/// The certificates in a text (PEM).
///
/// # Errors
/// One line: it is damaged, or has none.
pub fn certificates_of(text: &str) -> Result<Vec<CertificateDer<'static>>, String> {
    let all = CertificateDer::pem_slice_iter(text.as_bytes()).collect::<Result<Vec<_>, _>>();
    let all = all.map_err(|error| error.to_string())?;
    if all.is_empty() { Err("nothing in it".to_owned()) } else { Ok(all) }
}

/// Error for a certificate that nobody vouches for.
pub(crate) fn unknown() -> Error {
    Error::InvalidCertificate(CertificateError::UnknownIssuer)
}

/// Checks signatures, whoever has made them.
#[derive(Clone, Debug)]
pub(crate) struct Signatures(Arc<CryptoProvider>);

impl Signatures {
    pub fn new() -> Self {
        Self(tls_provider())
    }

    pub fn verify_tls12(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signed: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        verify_tls12_signature(message, certificate, signed, &self.0.signature_verification_algorithms)
    }

    pub fn verify_tls13(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signed: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        verify_tls13_signature(message, certificate, signed, &self.0.signature_verification_algorithms)
    }

    pub fn schemes(&self) -> Vec<SignatureScheme> {
        self.0.signature_verification_algorithms.supported_schemes()
    }
}

/// A server that shows one of these very certificates is trusted, whatever it is called, and one that somebody vouches
/// for.
#[derive(Debug)]
pub struct Pinned {
    certificates: Vec<CertificateDer<'static>>,
    authority: Option<Arc<WebPkiServerVerifier>>,
    /// Name of the peer, if not as the connection's name says.
    name: Option<ServerName<'static>>,
    signatures: Signatures,
}

impl Pinned {
    /// With those certificates, and who vouches for others.
    #[must_use]
    pub fn new(
        certificates: Vec<CertificateDer<'static>>,
        authority: Option<Arc<WebPkiServerVerifier>>,
    ) -> Self {
        Self { certificates, authority, name: None, signatures: Signatures::new() }
    }

    /// A certificate for this name is expected, wherever the connection leads.
    #[must_use]
    pub fn called(self, name: ServerName<'static>) -> Self {
        Self { name: Some(name), ..self }
    }
}

impl ServerCertVerifier for Pinned {
    fn verify_server_cert(
        &self,
        end_entity: &CertificateDer<'_>,
        intermediates: &[CertificateDer<'_>],
        server_name: &ServerName<'_>,
        ocsp_response: &[u8],
        now: UnixTime,
    ) -> Result<ServerCertVerified, Error> {
        if self.certificates.iter().any(|own| own == end_entity) {
            return Ok(ServerCertVerified::assertion());
        }
        let authority = self.authority.as_ref().ok_or_else(unknown)?;
        let name = self.name.as_ref().unwrap_or(server_name);
        authority.verify_server_cert(end_entity, intermediates, name, ocsp_response, now)
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
