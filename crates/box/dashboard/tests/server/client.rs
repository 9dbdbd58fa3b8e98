//! A client of the server's, over TLS or plainly.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, ServerName};
use rustls::{ClientConfig, ClientConnection, RootCertStore, StreamOwned};
use serde_json::Value;

/// Longest wait for anything; reached only when a test fails.
pub const PATIENCE: Duration = Duration::from_secs(60);

pub const TOKEN: &str = "0123456789abcdef0123456789abcdef";

pub enum Client {
    Plain(TcpStream),
    Tls(Box<StreamOwned<ClientConnection, TcpStream>>),
}

/// The keys of the tests of `top`.
/// Closes a file with a secret to others, as its reader wants it.
pub fn close(path: &Path) {
    std::fs::set_permissions(path, std::fs::Permissions::from_mode(0o600)).unwrap();
}

pub fn file(name: &str) -> std::path::PathBuf {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../top/tests/tls").join(name);
    if name.ends_with(".key") {
        close(&path);
    }
    path
}

impl Client {
    pub fn connect(at: SocketAddr, has_tls: bool) -> Self {
        let stream = TcpStream::connect(at).unwrap();
        stream.set_read_timeout(Some(PATIENCE)).unwrap();
        if !has_tls {
            return Self::Plain(stream);
        }
        let mut roots = RootCertStore::empty();
        roots.add(CertificateDer::from_pem_file(file("authority.pem")).unwrap()).unwrap();
        let provider = Arc::new(rustls::crypto::ring::default_provider());
        let config = ClientConfig::builder_with_provider(provider)
            .with_protocol_versions(&[&rustls::version::TLS13])
            .unwrap()
            .with_root_certificates(roots)
            .with_no_client_auth();
        let connection = ClientConnection::new(Arc::new(config), ServerName::from(at.ip())).unwrap();
        Self::Tls(Box::new(StreamOwned::new(connection, stream)))
    }

    /// Asks, and gives head (in lower case) and body.
    pub fn get(mut self, method: &str, path: &str, host: &str, more: &str) -> (String, String) {
        let head = format!("{method} {path} HTTP/1.1\r\nHost: {host}\r\nConnection: close\r\n{more}\r\n");
        self.write_all(head.as_bytes()).unwrap();
        self.answer()
    }

    /// Sends a form.
    pub fn post(mut self, path: &str, form: &str, more: &str) -> (String, String) {
        let head = format!(
            "POST {path} HTTP/1.1\r\nHost: x\r\nConnection: close\r\nContent-Length: {}\r\n\
             Content-Type: application/x-www-form-urlencoded\r\n{more}\r\n{form}",
            form.len()
        );
        self.write_all(head.as_bytes()).unwrap();
        self.answer()
    }

    fn answer(mut self) -> (String, String) {
        let mut text = Vec::new();
        // TLS may end without saying so.
        drop(self.read_to_end(&mut text));
        let text = String::from_utf8(text).unwrap();
        let (head, body) = text.split_once("\r\n\r\n").unwrap();
        (head.to_ascii_lowercase() + "\r\n", body.to_owned())
    }

    /// Server-sent events of a path.
    pub fn events(mut self, path: &str) -> Events {
        write!(self, "GET {path} HTTP/1.1\r\nHost: localhost\r\n\r\n").unwrap();
        let mut stream = BufReader::new(self);
        let mut head = String::new();
        stream.read_line(&mut head).unwrap();
        assert!(head.starts_with("HTTP/1.1 200"), "{head}");
        Events(stream)
    }
}

impl Read for Client {
    fn read(&mut self, buffer: &mut [u8]) -> std::io::Result<usize> {
        match self {
            Self::Plain(stream) => stream.read(buffer),
            Self::Tls(stream) => stream.read(buffer),
        }
    }
}

impl Write for Client {
    fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
        match self {
            Self::Plain(stream) => stream.write(bytes),
            Self::Tls(stream) => stream.write(bytes),
        }
    }

    fn flush(&mut self) -> std::io::Result<()> {
        match self {
            Self::Plain(stream) => stream.flush(),
            Self::Tls(stream) => stream.flush(),
        }
    }
}

pub struct Events(BufReader<Client>);

impl Events {
    pub fn next_event(&mut self) -> Value {
        loop {
            let mut line = String::new();
            assert!(self.0.read_line(&mut line).unwrap() > 0, "the events have ended");
            if let Some(json) = line.strip_prefix("data: ") {
                return serde_json::from_str(json).unwrap();
            }
        }
    }
}
