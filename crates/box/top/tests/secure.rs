//! A view on another machine: TLS, the token, and what is said when something is wrong.

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::os::unix::fs::PermissionsExt;
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::sync::mpsc;
use std::thread;

use tempfile::{NamedTempFile, TempPath};
use top::{Ask, Gate, PROTOCOL, Remote, Reply, Secrets, Source, TopError};

const TOKEN: &str = "0123456789abcdef0123456789abcdef";

/// Closes a file with a secret to others, as its reader wants it.
fn close(path: &Path) {
    std::fs::set_permissions(path, std::fs::Permissions::from_mode(0o600)).unwrap();
}

fn file(name: &str) -> PathBuf {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/tls").join(name);
    if name.ends_with(".key") {
        close(&path);
    }
    path
}

/// A file with a token, gone with the value.
fn token_file(token: &str) -> TempPath {
    let path = NamedTempFile::new().unwrap().into_temp_path();
    std::fs::write(&path, format!("{token}\n")).unwrap();
    close(&path);
    path
}

/// Gate and server with these keys, over a machine without accelerators; both end with the test's process.
fn serve(name: &str) -> SocketAddr {
    let token = token_file(TOKEN);
    let (certificate, key) = (file(&format!("{name}.pem")), file(&format!("{name}.key")));
    let secrets = Secrets::read(&certificate, &key, &token).unwrap();
    let (own, other) = UnixStream::pair().unwrap();
    let nothing = Path::new("/nowhere");
    thread::spawn(move || Gate::new(nothing, Vec::new()).answer(&own, Some(&secrets)).unwrap());
    let (tell, told) = mpsc::channel();
    let listen = "127.0.0.1:0".parse().unwrap();
    thread::spawn(move || top::serve(listen, other, |at| tell.send(at).unwrap()).unwrap());
    told.recv().unwrap()
}

fn ask(at: &str, certificate: &str, token: &str) -> Result<Reply, TopError> {
    Remote::new(at, &file(certificate), token.to_owned())?.ask(&Ask::Names)
}

/// What is said, on one line.
fn said(result: Result<Reply, TopError>) -> String {
    let line = result.unwrap_err().to_string();
    assert!(!line.contains('\n'), "{line}");
    line
}

#[test]
fn with_the_certificate_and_the_token_questions_are_answered() {
    let at = serve("box").to_string();
    let mut remote = Remote::new(&at, &file("box.pem"), TOKEN.to_owned()).unwrap();
    for _ in 0..3 {
        assert_eq!(remote.ask(&Ask::Names).unwrap(), Reply::Names(Vec::new()));
    }
    let told = remote.ask(&Ask::Metrics { name: "radio".to_owned() }).unwrap();
    assert_eq!(told, Reply::Refused("'radio' does not run".to_owned()));
}

#[test]
fn an_authority_vouches_for_the_names_in_the_certificate_alone() {
    let at = serve("vouched");
    assert!(ask(&at.to_string(), "authority.pem", TOKEN).is_ok());
    assert!(ask(&format!("localhost:{}", at.port()), "authority.pem", TOKEN).is_ok());
    // The very certificate is trusted under any name.
    assert!(ask(&at.to_string(), "vouched.pem", TOKEN).is_ok());
    let at = serve("box").to_string();
    for other in ["authority.pem", "vouched.pem"] {
        let line = said(ask(&at, other, TOKEN));
        assert!(line.contains("shows a certificate that --certificate does not know"), "{line}");
    }
}

#[test]
fn a_wrong_token_is_refused_and_nothing_is_told() {
    let at = serve("box").to_string();
    for wrong in
        ["", "0123456789abcdef", "0123456789abcdef0123456789abcdeF", "0123456789abcdef0123456789abcdef0"]
    {
        assert_eq!(said(ask(&at, "box.pem", wrong)), format!("{at} refuses the token"));
    }
}

#[test]
fn who_is_not_there_or_speaks_no_tls_is_named() {
    let free = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().to_string();
    let line = said(ask(&free, "box.pem", TOKEN));
    assert!(line.starts_with(&format!("cannot reach {free}: Connection refused")), "{line}");
    // A server of something else.
    let plain = TcpListener::bind("127.0.0.1:0").unwrap();
    let at = plain.local_addr().unwrap().to_string();
    let thread = thread::spawn(move || {
        let (mut stream, _) = plain.accept().unwrap();
        stream.write_all(b"HTTP/1.1 400 Bad Request\r\n\r\n").unwrap();
        // Until the other end has gone, lest it hears a reset first.
        drop(stream.read_to_end(&mut Vec::new()));
    });
    let line = said(ask(&at, "box.pem", TOKEN));
    assert!(line.contains("does not speak TLS"), "{line}");
    thread.join().unwrap();
    for wrong in ["box", "box:", "box:x", ":1"] {
        let line = said(ask(wrong, "box.pem", TOKEN));
        assert!(line.contains("name HOST:PORT"), "{wrong}: {line}");
    }
}

#[test]
fn who_speaks_no_tls_to_the_server_hears_nothing_and_harms_nobody() {
    let at = serve("box");
    let mut plain = TcpStream::connect(at).unwrap();
    plain.write_all(b"GET / HTTP/1.1\r\n\r\n").unwrap();
    let mut heard = Vec::new();
    plain.read_to_end(&mut heard).unwrap();
    // An alert of TLS at most: 7 bytes.
    assert!(heard.len() <= 7, "{heard:?}");
    assert!(ask(&at.to_string(), "box.pem", TOKEN).is_ok());
}

#[test]
fn no_more_than_some_connect_at_a_time_and_the_silent_ones_go() {
    let at = serve("box");
    let silent: Vec<TcpStream> = (0..32).map(|_| TcpStream::connect(at).unwrap()).collect();
    // These have all places as soon as they are taken in, which is before what comes behind them.
    let mut turned_away = TcpStream::connect(at).unwrap();
    assert_eq!(turned_away.read(&mut [0]).unwrap(), 0);
    let line = said(ask(&at.to_string(), "box.pem", TOKEN));
    assert!(line.contains(&at.to_string()), "{line}");
    for mut stream in silent {
        // Within five seconds, however long this one waits.
        assert!(matches!(stream.read(&mut [0]), Ok(0) | Err(_)));
    }
    assert!(ask(&at.to_string(), "box.pem", TOKEN).is_ok());
}

#[test]
fn another_protocol_is_said_with_both_versions() {
    assert_eq!(PROTOCOL, 1, "the hello below says another one");
    let at = serve("box").to_string();
    let mut remote = Remote::new(&at, &file("box.pem"), TOKEN.to_owned()).unwrap().with_protocol(2);
    let line = said(remote.ask(&Ask::Names));
    let version = env!("CARGO_PKG_VERSION");
    assert_eq!(
        line,
        format!(
            "{at} is of version {version} and speaks protocol 1; this is version {version}, protocol 2: use the same \
             version on both machines"
        )
    );
}

#[test]
fn files_that_are_not_what_they_should_be_are_named() {
    let short = token_file("short");
    let said = |certificate: &str, key: &str, token: &Path| {
        Secrets::read(&file(certificate), &file(key), token).unwrap_err().to_string()
    };
    assert!(said("box.pem", "box.key", &short).contains("a token has 16 characters or more"));
    assert!(said("none.pem", "box.key", &short).contains("none.pem"));
    std::fs::set_permissions(&short, std::fs::Permissions::from_mode(0o644)).unwrap();
    let open = said("box.pem", "box.key", &short);
    assert!(open.contains("its mode is 0644") && open.contains("chmod 600"), "{open}");
    let token = token_file(TOKEN);
    assert!(said("box.pem", "vouched.key", &token).contains("are no certificate and its key"));
    assert!(said("box.key", "box.key", &token).contains("are no certificate and its key"));
    let no_certificate = Remote::new("box:1", &file("box.key"), TOKEN.to_owned()).unwrap_err();
    assert!(no_certificate.to_string().contains("has no certificate (PEM)"), "{no_certificate}");
}
