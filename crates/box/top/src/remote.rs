//! [`Remote`]: the accelerators of another machine.

use std::io::{BufRead, BufReader, ErrorKind, Read};
use std::net::{TcpStream, ToSocketAddrs};
use std::path::Path;
use std::sync::Arc;

use rustls::pki_types::ServerName;
use rustls::{ClientConfig, ClientConnection, StreamOwned};
use serde::de::DeserializeOwned;
use units::Duration;

use crate::gate::write_line;
use crate::question::{Greeting, Hello};
use crate::timed::Timed;
use crate::{Ask, PROTOCOL, Reply, Source, TopError, tls};

/// Longest time to connect, to greet, and for an answer.
const PATIENCE: Duration = Duration::from_secs(10);
const CONNECT_TIME_MAX: std::time::Duration = std::time::Duration::from_secs(5);

/// Longest answer, bytes.
const ANSWER_LEN_MAX: u64 = 8 << 20;

type Stream = BufReader<StreamOwned<ClientConnection, Timed>>;

/// Asks `cellerator top --serve` on another machine; connects anew after a connection has failed.
pub struct Remote {
    /// `HOST:PORT`, as it was given.
    at: String,
    token: String,
    config: Arc<ClientConfig>,
    protocol: u32,
    stream: Option<Stream>,
}

impl Remote {
    /// One that asks at `HOST:PORT`, and trusts who shows a certificate of this file.
    ///
    /// # Errors
    /// The file is not what it should be, or `at` is not an address.
    pub fn new(at: &str, certificate: &Path, token: String) -> Result<Self, TopError> {
        host_of(at)?;
        let config = tls::client_config(certificate)?;
        Ok(Self { at: at.to_owned(), token, config, protocol: PROTOCOL, stream: None })
    }

    /// Says that it speaks another protocol, as another version would.
    #[must_use]
    pub fn with_protocol(self, protocol: u32) -> Self {
        Self { protocol, ..self }
    }

    fn connect(&self) -> Result<Stream, TopError> {
        let at = &self.at;
        let reach = || TopError::doing(format!("reach {at}"));
        let mut last = std::io::Error::other("the name has no address");
        let socket = at.to_socket_addrs().map_err(reach())?.find_map(|address| {
            TcpStream::connect_timeout(&address, CONNECT_TIME_MAX).map_err(|error| last = error).ok()
        });
        let socket = match socket {
            Some(socket) => Timed::new(socket, PATIENCE),
            None => return Err(reach()(last)),
        };
        let connection = ClientConnection::new(Arc::clone(&self.config), host_of(at)?)
            .map_err(|error| TopError::Refused(format!("{at}: {error}")))?;
        let mut tls = StreamOwned::new(connection, socket);
        while tls.conn.is_handshaking() {
            tls.conn.complete_io(&mut tls.sock).map_err(|error| self.no_handshake(error))?;
        }
        let mut stream = BufReader::new(tls);
        let (version, token) = (env!("CARGO_PKG_VERSION").to_owned(), self.token.clone());
        let doing = || TopError::doing(format!("greet {at}"));
        write_line(stream.get_mut(), &Hello { protocol: self.protocol, version, token }).map_err(doing())?;
        match hear(&mut stream).map_err(doing())? {
            Greeting::Welcome => Ok(stream),
            Greeting::WrongToken => Err(TopError::Refused(format!("{at} refuses the token"))),
            Greeting::OtherProtocol { protocol, version } => Err(TopError::Refused(format!(
                "{at} is of version {version} and speaks protocol {protocol}; this is version {}, protocol {}: \
                 use the same version on both machines",
                env!("CARGO_PKG_VERSION"),
                self.protocol
            ))),
        }
    }

    /// Error for a handshake that failed.
    fn no_handshake(&self, error: std::io::Error) -> TopError {
        let at = &self.at;
        let tls = error.get_ref().and_then(|inner| inner.downcast_ref::<rustls::Error>());
        match tls {
            Some(rustls::Error::InvalidCertificate(why)) => TopError::Refused(format!(
                "{at} shows a certificate that --certificate does not know ({why:?})"
            )),
            Some(rustls::Error::InvalidMessage(_)) => {
                TopError::Refused(format!("{at} does not speak TLS: is `cellerator top --serve` there?"))
            }
            Some(other) => TopError::Refused(format!("{at}: {other}")),
            None if error.kind() == ErrorKind::UnexpectedEof => {
                TopError::Refused(format!("{at} hangs up: it is no `cellerator top --serve`, or has no room"))
            }
            None => TopError::doing(format!("talk to {at}"))(error),
        }
    }
}

impl std::fmt::Debug for Remote {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Remote").field("at", &self.at).finish_non_exhaustive()
    }
}

/// The host of `HOST:PORT`.
fn host_of(at: &str) -> Result<ServerName<'static>, TopError> {
    let host = at.rsplit_once(':').filter(|(_, port)| port.parse::<u16>().is_ok()).map(|(host, _)| host);
    let bare = host.map(|host| host.trim_start_matches('[').trim_end_matches(']'));
    bare.and_then(|host| ServerName::try_from(host.to_owned()).ok())
        .ok_or_else(|| TopError::Setting(format!("--connect {at}: name HOST:PORT, as box.example.net:9471")))
}

fn hear<T: DeserializeOwned>(stream: &mut Stream) -> std::io::Result<T> {
    let mut line = Vec::new();
    stream.take(ANSWER_LEN_MAX).read_until(b'\n', &mut line)?;
    if !line.ends_with(b"\n") {
        return Err(ErrorKind::UnexpectedEof.into());
    }
    Ok(serde_json::from_slice(&line)?)
}

impl Source for Remote {
    fn ask(&mut self, question: &Ask) -> Result<Reply, TopError> {
        let mut stream = match self.stream.take() {
            Some(stream) => stream,
            None => self.connect()?,
        };
        stream.get_mut().sock.allow(PATIENCE);
        let told = write_line(stream.get_mut(), question).and_then(|()| hear(&mut stream));
        let told = told.map_err(TopError::doing(format!("ask {}", self.at)))?;
        self.stream = Some(stream);
        Ok(told)
    }
}
