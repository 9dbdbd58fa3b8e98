//! Keys, certificates and tokens: TLS 1.3, a certificate that the view has been given, and a shared token.

use std::path::Path;
use std::sync::Arc;

use run::{Pinned, certificates_of, tls_provider};
use rustls::client::WebPkiServerVerifier;
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use rustls::{ClientConfig, RootCertStore, ServerConfig};
use serde::{Deserialize, Serialize};

use crate::TopError;

/// Shortest token: 64 bits and more, whichever way it is written.
const TOKEN_LEN_MIN: usize = 16;

/// Secrets of the server: what it shows and asks for. Read by whoever may, and handed to the process that serves.
#[derive(Clone, Serialize, Deserialize)]
pub struct Secrets {
    certificate: String,
    key: String,
    token: String,
}

impl std::fmt::Debug for Secrets {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Secrets").finish_non_exhaustive()
    }
}

impl Secrets {
    /// Reads certificate (with those that vouch for it behind it) and key, both as PEM, and the token.
    ///
    /// # Errors
    /// A file cannot be read, or is not what it should be.
    pub fn read(certificate: &Path, key: &Path, token: &Path) -> Result<Self, TopError> {
        let secrets =
            Self { certificate: read(certificate)?, key: read_secret(key)?, token: read_token(token)? };
        secrets.config().map_err(|error| {
            let (certificate, key) = (certificate.display(), key.display());
            TopError::Setting(format!("{certificate} and {key} are no certificate and its key: {error}"))
        })?;
        Ok(secrets)
    }

    /// True for the same token; the time for it does not depend on where they differ.
    #[must_use]
    pub fn is_token(&self, other: &str) -> bool {
        let (own, other) = (self.token.as_bytes(), other.as_bytes());
        let differences = own.iter().zip(other).fold(0, |sum, (a, b)| sum | (a ^ b));
        own.len() == other.len() && differences == 0
    }

    /// TLS settings of a server.
    ///
    /// # Errors
    /// These are no certificate and its key.
    pub fn config(&self) -> Result<Arc<ServerConfig>, String> {
        let text = |error: &dyn std::fmt::Display| error.to_string();
        let chain = CertificateDer::pem_slice_iter(self.certificate.as_bytes())
            .collect::<Result<Vec<_>, _>>()
            .map_err(|error| text(&error))?;
        let key = PrivateKeyDer::from_pem_slice(self.key.as_bytes()).map_err(|error| text(&error))?;
        let config = ServerConfig::builder_with_provider(tls_provider())
            .with_protocol_versions(&[&rustls::version::TLS13])
            .and_then(|config| config.with_no_client_auth().with_single_cert(chain, key));
        config.map(Arc::new).map_err(|error| text(&error))
    }
}

/// Reads a token: the first line of a file.
///
/// # Errors
/// It cannot be read, or the token is too short to be none that can be guessed.
pub fn read_token(path: &Path) -> Result<String, TopError> {
    let text = read_secret(path)?;
    let token = text.lines().next().unwrap_or_default().trim();
    if token.len() < TOKEN_LEN_MIN {
        let path = path.display();
        return Err(TopError::Setting(format!(
            "{path}: a token has {TOKEN_LEN_MIN} characters or more: make one with `openssl rand -hex 32`"
        )));
    }
    Ok(token.to_owned())
}

fn read_secret(path: &Path) -> Result<String, TopError> {
    let bytes = io::read_secret(path).map_err(|error| TopError::Setting(error.to_string()))?;
    String::from_utf8(bytes).map_err(|_| TopError::Setting(format!("{} is no text", path.display())))
}

fn read(path: &Path) -> Result<String, TopError> {
    std::fs::read_to_string(path).map_err(TopError::doing(format!("read {}", path.display())))
}

/// The view's side: who shows a certificate in the file, or one that such a one vouches for, is trusted.
pub(crate) fn client_config(certificate: &Path) -> Result<Arc<ClientConfig>, TopError> {
    let path = certificate.display();
    let text = read(certificate)?;
    let certificates = certificates_of(&text)
        .map_err(|error| TopError::Setting(format!("{path} has no certificate (PEM): {error}")))?;
    let mut roots = RootCertStore::empty();
    roots.add_parsable_certificates(certificates.clone());
    // Without any that may vouch for others only the same certificate will do.
    let authority = WebPkiServerVerifier::builder_with_provider(Arc::new(roots), tls_provider()).build().ok();
    let verifier = Arc::new(Pinned::new(certificates, authority));
    let config = ClientConfig::builder_with_provider(tls_provider())
        .with_protocol_versions(&[&rustls::version::TLS13])
        .map_err(|error| TopError::Setting(error.to_string()))?
        .dangerous()
        .with_custom_certificate_verifier(verifier)
        .with_no_client_auth();
    Ok(Arc::new(config))
}
