//! QUIC beside a case's own flows: real connections, by the crate `quinn`.

use std::net::{SocketAddr, UdpSocket};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;

use control::ControllerConfig;
use quinn::congestion::{BbrConfig, ControllerFactory, CubicConfig, NewRenoConfig};
use quinn::crypto::rustls::{QuicClientConfig, QuicServerConfig};
use quinn::{
    ClientConfig, Connection, Endpoint, EndpointConfig, Incoming, RecvStream, ServerConfig, TokioRuntime,
    TransportConfig, VarInt,
};
use rustls::client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier};
use rustls::crypto::verify_tls13_signature_with_raw_key;
use rustls::pki_types::{
    CertificateDer, PrivateKeyDer, PrivatePkcs8KeyDer, ServerName, SubjectPublicKeyInfoDer, UnixTime,
};
use rustls::server::AlwaysResolvesServerRawPublicKeys;
use rustls::sign::CertifiedKey;
use rustls::{CertificateError, DigitallySignedStruct, SignatureScheme};
use scenario::CongestionControl;
use tokio::runtime::{Builder, Runtime};
use tokio::time::timeout;

use super::{Arrived, PATIENCE, Seen, TURN, Times};
use crate::LabError;

/// The name by which the server is asked for.
const NAME: &str = "server";
/// The protocol both ends speak (RFC 7301).
const ALPN: &[u8] = b"cellerator-lab";
/// Bytes that a client takes before it has read them: more than any queue here holds, so that the congestion control
/// alone says how much is under way.
const WINDOW: u32 = 16 << 20;
const BLOCK: usize = 1 << 16;
/// Time to wait for the last packets of a connection.
const GOOD_BYE: std::time::Duration = std::time::Duration::from_millis(200);

/// A server of QUIC that writes to each client until it goes; ended when dropped.
#[derive(Debug)]
pub(super) struct Server {
    is_over: Arc<AtomicBool>,
    serving: Option<JoinHandle<()>>,
    identity: Identity,
    address: SocketAddr,
}

impl Server {
    /// Serves at `socket`, with a key made for it.
    ///
    /// # Errors
    /// When no key or no thread can be made.
    pub(super) fn start(socket: UdpSocket, control: CongestionControl) -> Result<Self, LabError> {
        let (key, identity) = key().map_err(failed)?;
        let mut crypto = rustls::ServerConfig::builder_with_provider(provider())
            .with_protocol_versions(&[&rustls::version::TLS13])
            .map_err(failed)?
            .with_no_client_auth()
            .with_cert_resolver(Arc::new(AlwaysResolvesServerRawPublicKeys::new(key)));
        crypto.alpn_protocols = vec![ALPN.to_vec()];
        let mut config =
            ServerConfig::with_crypto(Arc::new(QuicServerConfig::try_from(crypto).map_err(failed)?));
        config.transport_config(Arc::new(transport(control)));
        let (address, runtime) = (socket.local_addr().map_err(failed)?, runtime().map_err(failed)?);
        let is_over = Arc::<AtomicBool>::default();
        let ends = Arc::clone(&is_over);
        let serving = std::thread::spawn(move || {
            // A socket that cannot be used shows at the client.
            let _ = runtime.block_on(serve(socket, config, &ends));
        });
        Ok(Self { is_over, serving: Some(serving), identity, address })
    }

    /// Address of the server.
    pub(super) fn address(&self) -> SocketAddr {
        self.address
    }

    /// Identity by which clients know it.
    pub(super) fn identity(&self) -> Identity {
        self.identity.clone()
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        self.is_over.store(true, Ordering::Relaxed);
        // One that has panicked has ended too.
        let _ = self.serving.take().map(JoinHandle::join);
    }
}

/// A server's public key, by which its clients know it: nobody has to vouch for it.
#[derive(Clone, Debug)]
pub(super) struct Identity(SubjectPublicKeyInfoDer<'static>);

/// A new key, and what is known of it.
fn key() -> Result<(Arc<CertifiedKey>, Identity), String> {
    let random = ring::rand::SystemRandom::new();
    let pair = ring::signature::Ed25519KeyPair::generate_pkcs8(&random).map_err(|error| error.to_string())?;
    let key = PrivateKeyDer::from(PrivatePkcs8KeyDer::from(pair.as_ref().to_vec()));
    let key = provider().key_provider.load_private_key(key).map_err(|error| error.to_string())?;
    let public = key.public_key().ok_or("the key has no public part")?.into_owned();
    let shown = CertificateDer::from(public.to_vec());
    Ok((Arc::new(CertifiedKey::new(vec![shown], key)), Identity(public)))
}

impl ServerCertVerifier for Identity {
    fn verify_server_cert(
        &self,
        shown: &CertificateDer<'_>,
        _intermediates: &[CertificateDer<'_>],
        _name: &ServerName<'_>,
        _ocsp_response: &[u8],
        _now: UnixTime,
    ) -> Result<ServerCertVerified, rustls::Error> {
        if shown.as_ref() == self.0.as_ref() {
            return Ok(ServerCertVerified::assertion());
        }
        Err(rustls::Error::InvalidCertificate(CertificateError::UnknownIssuer))
    }

    fn verify_tls12_signature(
        &self,
        _message: &[u8],
        _shown: &CertificateDer<'_>,
        _signed: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        Err(rustls::Error::General("QUIC has TLS 1.3".to_owned()))
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        shown: &CertificateDer<'_>,
        signed: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        let key = SubjectPublicKeyInfoDer::from(shown.as_ref());
        let algorithms = provider().signature_verification_algorithms;
        verify_tls13_signature_with_raw_key(message, &key, signed, &algorithms)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        provider().signature_verification_algorithms.supported_schemes()
    }

    fn requires_raw_public_keys(&self) -> bool {
        true
    }
}

fn failed(error: impl std::fmt::Display) -> LabError {
    LabError::Program { program: "QUIC".to_owned(), message: error.to_string() }
}

fn provider() -> Arc<rustls::crypto::CryptoProvider> {
    Arc::new(rustls::crypto::ring::default_provider())
}

fn runtime() -> std::io::Result<Runtime> {
    Builder::new_current_thread().enable_all().build()
}

/// The settings of both ends; all else is as the crate has it: an acknowledgement for every second packet, and after
/// 25 ms at the latest.
fn transport(control: CongestionControl) -> TransportConfig {
    let factory: Arc<dyn ControllerFactory + Send + Sync> = match control.config() {
        ControllerConfig::Bbr(_) => Arc::new(BbrConfig::default()),
        ControllerConfig::NewReno(_) => Arc::new(NewRenoConfig::default()),
        _ => Arc::new(CubicConfig::default()),
    };
    let mut transport = TransportConfig::default();
    transport
        .congestion_controller_factory(factory)
        .stream_receive_window(VarInt::from_u32(WINDOW))
        .send_window(2 * u64::from(WINDOW));
    transport
}

async fn serve(socket: UdpSocket, config: ServerConfig, is_over: &AtomicBool) -> std::io::Result<()> {
    let endpoint = Endpoint::new(EndpointConfig::default(), Some(config), socket, Arc::new(TokioRuntime))?;
    while !is_over.load(Ordering::Relaxed) {
        if let Ok(Some(incoming)) = timeout(TURN, endpoint.accept()).await {
            tokio::spawn(write(incoming));
        }
    }
    endpoint.close(VarInt::from_u32(0), b"");
    // A client that is gone does not answer.
    let _ = timeout(GOOD_BYE, endpoint.wait_idle()).await;
    Ok(())
}

/// Writes to a client until it goes.
async fn write(incoming: Incoming) {
    let Ok(connection) = incoming.await else { return };
    let Ok(mut stream) = connection.open_uni().await else { return };
    let block = vec![0x5a; BLOCK];
    while stream.write_all(&block).await.is_ok() {}
}

/// Downloads through `socket` until it is over.
pub(super) fn download(socket: UdpSocket, to: SocketAddr, identity: &Identity, times: &Times) -> Seen {
    let mut seen = Seen::default();
    if times.wait_for(times.begins) {
        let ran = runtime().map_err(|error| error.to_string());
        let ran =
            ran.and_then(|runtime| runtime.block_on(read(socket, to, identity, (times, &mut seen.arrived))));
        seen.error = ran.err().filter(|_| !times.is_over());
    }
    seen
}

fn client_config(identity: &Identity) -> Result<ClientConfig, String> {
    let mut crypto = rustls::ClientConfig::builder_with_provider(provider())
        .with_protocol_versions(&[&rustls::version::TLS13])
        .map_err(|error| error.to_string())?
        .dangerous()
        .with_custom_certificate_verifier(Arc::new(identity.clone()))
        .with_no_client_auth();
    crypto.alpn_protocols = vec![ALPN.to_vec()];
    let crypto = QuicClientConfig::try_from(crypto).map_err(|error| error.to_string())?;
    let mut config = ClientConfig::new(Arc::new(crypto));
    config.transport_config(Arc::new(transport(CongestionControl::default())));
    Ok(config)
}

async fn read(
    socket: UdpSocket,
    to: SocketAddr,
    identity: &Identity,
    (times, arrived): (&Times, &mut Arrived),
) -> Result<(), String> {
    let config = client_config(identity)?;
    let endpoint = Endpoint::new(EndpointConfig::default(), None, socket, Arc::new(TokioRuntime))
        .map_err(|error| error.to_string())?;
    let connecting = endpoint.connect_with(config, to, NAME).map_err(|error| error.to_string())?;
    let connection = timeout(PATIENCE, connecting).await.map_err(|_| format!("{to} does not answer"))?;
    let connection = connection.map_err(|error| error.to_string())?;
    let ran = follow(&connection, times, arrived).await;
    connection.close(VarInt::from_u32(0), b"");
    // A server that is gone does not answer.
    let _ = timeout(GOOD_BYE, endpoint.wait_idle()).await;
    ran
}

/// Reads what the server writes until it is over.
async fn follow(connection: &Connection, times: &Times, arrived: &mut Arrived) -> Result<(), String> {
    let mut stream: Option<RecvStream> = None;
    while !times.is_over() {
        match &mut stream {
            None => {
                if let Ok(opened) = timeout(TURN, connection.accept_uni()).await {
                    stream = Some(opened.map_err(|error| error.to_string())?);
                }
            }
            Some(stream) => match timeout(TURN, stream.read_chunk(BLOCK, true)).await {
                Ok(Ok(Some(chunk))) => arrived.add(chunk.bytes.len()),
                Ok(Ok(None)) => return Err("the server closed".to_owned()),
                Ok(Err(error)) => return Err(error.to_string()),
                Err(_) => {}
            },
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use io::Clock;
    use units::Duration;

    fn socket() -> UdpSocket {
        UdpSocket::bind("127.0.0.1:0").unwrap()
    }

    /// Downloads for `ms` from a server of this congestion control, known by its own key or another.
    fn downloaded(control: &str, is_known: bool, ms: u64) -> Seen {
        let control = CongestionControl::named(control).unwrap();
        let server = Server::start(socket(), control).unwrap();
        let identity = if is_known { server.identity() } else { key().unwrap().1 };
        let begins = Clock::now();
        let times = Times { begins, stops: begins + Duration::from_millis(ms), is_over: Arc::default() };
        download(socket(), server.address(), &identity, &times)
    }

    #[test]
    fn a_client_downloads_until_its_time_is_over_whatever_the_congestion_control() {
        for control in ["cubic", "reno", "bbr"] {
            let seen = downloaded(control, true, 700);
            assert_eq!(seen.error, None, "{control}");
            assert!(seen.arrived.bytes > 100_000, "{control}: {}", seen.arrived.bytes);
            assert!(seen.arrived.marks.is_sorted() && seen.arrived.marks.len() > 3, "{control}");
        }
    }

    #[test]
    fn another_server_is_refused() {
        let seen = downloaded("cubic", false, 5_000);
        assert_eq!(seen.arrived.bytes, 0);
        assert!(seen.error.unwrap().contains("certificate"), "no reason");
    }
}
