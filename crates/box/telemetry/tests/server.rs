//! The server, with a reader that is played here: what a client gets, and what it cannot do.

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::os::unix::net::UnixStream;
use std::sync::mpsc;
use std::thread::{self, JoinHandle};
use std::time::Duration;

use run::Snapshot;
use telemetry::{Answered, TelemetryError};

const PATIENCE: Duration = Duration::from_secs(20);

struct Server {
    at: SocketAddr,
    /// The reader's end.
    reader: UnixStream,
    thread: JoinHandle<Result<(), TelemetryError>>,
}

fn start() -> Server {
    let (reader, other) = UnixStream::pair().unwrap();
    reader.set_read_timeout(Some(PATIENCE)).unwrap();
    let (tell, told) = mpsc::channel();
    let thread = thread::spawn(move || {
        telemetry::serve("127.0.0.1:0".parse().unwrap(), other, |at| tell.send(at).unwrap())
    });
    Server { at: told.recv_timeout(PATIENCE).unwrap(), reader, thread }
}

impl Server {
    /// Plays the reader until it is not asked any more; gives how often it was.
    fn answering(&self, name: &str) -> JoinHandle<usize> {
        let mut reader = self.reader.try_clone().unwrap();
        let snapshot = Some(Snapshot { uptime_ms: 7_000, ..Snapshot::default() });
        let json = serde_json::to_vec(&[Answered { name: name.to_owned(), snapshot }]).unwrap();
        thread::spawn(move || {
            let mut asked = 0;
            while matches!(reader.read(&mut [0]), Ok(1)) {
                asked += 1;
                reader.write_all(&u32::try_from(json.len()).unwrap().to_be_bytes()).unwrap();
                reader.write_all(&json).unwrap();
            }
            asked
        })
    }

    fn connect(&self) -> TcpStream {
        let stream = TcpStream::connect(self.at).unwrap();
        stream.set_read_timeout(Some(PATIENCE)).unwrap();
        stream
    }

    /// Head and body of the answer to one request.
    fn get(&self, method: &str, path: &str, headers: &str) -> (String, String) {
        let mut stream = self.connect();
        let request = format!("{method} {path} HTTP/1.1\r\nHost: x\r\nConnection: close\r\n{headers}\r\n");
        stream.write_all(request.as_bytes()).unwrap();
        let mut answer = String::new();
        stream.read_to_string(&mut answer).unwrap();
        let (head, body) = answer.split_once("\r\n\r\n").unwrap();
        (head.to_lowercase(), body.to_owned())
    }
}

#[test]
fn both_formats_are_served_and_nothing_else() {
    let server = start();
    let reader = server.answering("radio");
    let (head, body) = server.get("GET", "/metrics", "");
    assert!(head.starts_with("http/1.1 200") && head.contains("text/plain; version=0.0.4"), "{head}");
    assert!(body.contains(r#"cellerator_up{accelerator="radio"} 1.0"#), "{body}");
    assert!(body.contains("# TYPE cellerator_deaths_total counter") && !body.contains("# UNIT"));
    let (head, body) =
        server.get("GET", "/metrics", "Accept: application/openmetrics-text; version=1.0.0\r\n");
    assert!(head.contains("content-type: application/openmetrics-text; version=1.0.0"), "{head}");
    assert!(body.contains("# TYPE cellerator_deaths counter") && body.ends_with("# EOF\n"), "{body}");
    let (head, body) = server.get("HEAD", "/metrics", "");
    assert!(head.starts_with("http/1.1 200") && body.is_empty());
    assert!(server.get("GET", "/metrics/../etc/passwd", "").0.starts_with("http/1.1 404"));
    assert!(server.get("POST", "/metrics", "Content-Length: 0\r\n").0.starts_with("http/1.1 405"));
    assert!(server.get("GET", "/", "").1.contains("/metrics"));
    drop(reader);
}

#[test]
fn many_scrapes_at_once_are_one_question() {
    let server = start();
    let reader = server.answering("radio");
    for _ in 0..5 {
        let answers: Vec<_> = thread::scope(|scope| {
            let all: Vec<_> = (0..20).map(|_| scope.spawn(|| server.get("GET", "/metrics", "").0)).collect();
            all.into_iter().map(|one| one.join().unwrap()).collect()
        });
        assert!(answers.iter().all(|head| head.starts_with("http/1.1 200")), "{answers:?}");
    }
    server.reader.shutdown(std::net::Shutdown::Both).unwrap();
    let asked = reader.join().unwrap();
    assert!(asked < 50, "{asked} questions for a hundred scrapes");
}

#[test]
fn who_takes_all_places_or_speaks_no_http_does_not_last() {
    let server = start();
    let reader = server.answering("radio");
    // More connections than there are places, which say nothing; those without a place are closed at once.
    let mut idle: Vec<TcpStream> = (0..40).map(|_| server.connect()).collect();
    let closed = |stream: &mut TcpStream| {
        stream.set_read_timeout(Some(Duration::from_millis(200))).unwrap();
        matches!(stream.read(&mut [0]), Ok(0)) || stream.take_error().unwrap().is_some()
    };
    assert!(idle.iter_mut().rev().take(8).all(closed), "those beyond the limit are closed");
    // The others are closed when their time for a request is over.
    for stream in idle.iter_mut().take(32) {
        stream.set_read_timeout(Some(PATIENCE)).unwrap();
        let mut rest = Vec::new();
        // Closed, with or without a word.
        drop(stream.read_to_end(&mut rest));
    }
    assert!(server.get("GET", "/metrics", "").0.starts_with("http/1.1 200"), "there is room again");
    let mut foreign = server.connect();
    foreign.write_all(&[b'x'; 64 * 1024]).unwrap_or(());
    let mut answer = Vec::new();
    drop(foreign.read_to_end(&mut answer));
    assert!(server.get("GET", "/metrics", "").0.starts_with("http/1.1 200"));
    drop(reader);
}

#[test]
fn a_client_that_goes_leaves_no_half_answer() {
    let server = start();
    let mut reader = server.reader.try_clone().unwrap();
    let mut client = server.connect();
    client.write_all(b"GET /metrics HTTP/1.1\r\nHost: x\r\n\r\n").unwrap();
    reader.read_exact(&mut [0]).unwrap();
    let json = serde_json::to_vec(&[Answered { name: "first".to_owned(), snapshot: None }]).unwrap();
    let mut answer = u32::try_from(json.len()).unwrap().to_be_bytes().to_vec();
    answer.extend(json);
    let (one, other) = answer.split_at(9);
    reader.write_all(one).unwrap();
    drop(client);
    thread::scope(|scope| {
        let next = scope.spawn(|| server.get("GET", "/metrics", "").1);
        reader.write_all(other).unwrap();
        // Shown again, or asked for anew: whole in any case.
        reader.set_read_timeout(Some(Duration::from_secs(2))).unwrap();
        if reader.read_exact(&mut [0]).is_ok() {
            reader.write_all(&answer).unwrap();
        }
        assert!(next.join().unwrap().contains(r#"cellerator_up{accelerator="first"} 0"#));
    });
}

#[test]
fn it_ends_with_the_reader_and_says_what_it_does_not_understand() {
    let server = start();
    drop(server.reader.shutdown(std::net::Shutdown::Both));
    assert!(server.get("GET", "/metrics", "").0.starts_with("http/1.1 503"));
    assert!(server.thread.join().unwrap().is_ok(), "the reader has gone: that is the end");
    let server = start();
    let mut reader = server.reader.try_clone().unwrap();
    let foreign = thread::spawn(move || {
        reader.read_exact(&mut [0]).unwrap();
        reader.write_all(&[0, 0, 0, 2, b'{', b'x']).unwrap();
    });
    assert!(server.get("GET", "/metrics", "").0.starts_with("http/1.1 503"));
    foreign.join().unwrap();
    assert!(matches!(server.thread.join().unwrap(), Err(TelemetryError::Foreign(_))));
}
