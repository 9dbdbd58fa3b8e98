//! The dashboard's server, with a reader that is played here: what a browser gets, and what nobody does; and the
//! page in a real browser, where there is one.

// In helpers of tests, too, a failure is a failed test.
#![allow(clippy::unwrap_used, clippy::panic)]

use std::io::{BufRead, BufReader, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::os::unix::net::UnixStream;
use std::process::{Command, Stdio};
use std::sync::mpsc;
use std::thread::{self, JoinHandle};
use std::time::Duration;

use run::{Distribution, FlowLine, HalfSnapshot, Snapshot};
use telemetry::{Overview, Subscriber, TelemetryError};

const PATIENCE: Duration = Duration::from_secs(60);

/// A name that would be markup, if it were taken for it.
const NAME: &str = "<b>radio</b>";

struct Server {
    at: SocketAddr,
    /// The reader's end.
    reader: UnixStream,
    thread: JoinHandle<Result<(), TelemetryError>>,
}

fn start() -> Server {
    let (reader, other) = UnixStream::pair().unwrap();
    let (tell, told) = mpsc::channel();
    let thread = thread::spawn(move || {
        telemetry::serve_dashboard("127.0.0.1:0".parse().unwrap(), other, |at| tell.send(at).unwrap())
    });
    Server { at: told.recv_timeout(PATIENCE).unwrap(), reader, thread }
}

/// An accelerator that has delivered 1 Mbit more with each second.
fn overview(second: u64) -> Overview {
    let times = |us: u64| Distribution { bounds: vec![1_000], counts: vec![0, second], sum: us * second };
    let mut downlink =
        HalfSnapshot { round_trip: times(60_000), queueing: times(20_000), ..HalfSnapshot::default() };
    downlink.counters.insert("bytes_delivered".to_owned(), second * 125_000);
    downlink.flows.insert("accelerated".to_owned(), 3);
    let snapshot = Snapshot {
        name: NAME.to_owned(),
        uptime_ms: second * 1_000,
        subscribers: 2,
        downlink,
        ..Snapshot::default()
    };
    let flow = FlowLine {
        client: "10.0.0.7:5".parse().unwrap(),
        server: "192.0.2.1:443".parse().unwrap(),
        direction: "downlink".to_owned(),
        state: "accelerated".to_owned(),
        debt_bytes: 0,
        held_bytes: 0,
        in_flight_bytes: 30_000,
        srtt_us: Some(61_000),
        client_window_bytes: 0,
        subscriber_rate_bps: None,
        idle_ms: 0,
    };
    let subscriber = Subscriber {
        address: "10.0.0.7".to_owned(),
        flows: 1,
        in_flight_bytes: 30_000,
        srtt_us: Some(61_000),
        some_flows: vec![flow],
        ..Subscriber::default()
    };
    Overview { name: NAME.to_owned(), snapshot: Some(snapshot), ab: None, subscribers: vec![subscriber] }
}

impl Server {
    /// Plays the reader until it is not asked any more, or has answered so often.
    fn answering(&self, times: u64) -> JoinHandle<u64> {
        let mut reader = self.reader.try_clone().unwrap();
        thread::spawn(move || {
            let mut asked = 0;
            while asked < times && matches!(reader.read(&mut [0]), Ok(1)) {
                asked += 1;
                let json = serde_json::to_vec(&[overview(asked)]).unwrap();
                reader.write_all(&u32::try_from(json.len()).unwrap().to_be_bytes()).unwrap();
                reader.write_all(&json).unwrap();
            }
            drop(reader.shutdown(std::net::Shutdown::Both));
            asked
        })
    }

    fn ask(&self, method: &str, path: &str, host: &str) -> BufReader<TcpStream> {
        let mut stream = TcpStream::connect(self.at).unwrap();
        stream.set_read_timeout(Some(PATIENCE)).unwrap();
        let request = format!("{method} {path} HTTP/1.1\r\nHost: {host}\r\nConnection: close\r\n\r\n");
        stream.write_all(request.as_bytes()).unwrap();
        BufReader::new(stream)
    }

    fn get(&self, method: &str, path: &str, host: &str) -> (String, String) {
        let mut text = String::new();
        self.ask(method, path, host).read_to_string(&mut text).unwrap();
        let (head, body) = text.split_once("\r\n\r\n").unwrap();
        (head.to_ascii_lowercase(), body.to_owned())
    }

    fn end(self) {
        drop(self.reader.shutdown(std::net::Shutdown::Both));
        // Whoever is asked for next sees that the reader has gone.
        let mut rest = String::new();
        drop(self.ask("GET", "/events", "localhost").read_to_string(&mut rest));
        self.thread.join().unwrap().unwrap();
    }
}

#[test]
fn every_answer_has_strict_headers_and_other_hosts_get_nothing() {
    let server = start();
    let paths =
        [("/", "text/html"), ("/page.js", "text/javascript"), ("/page.css", "text/css"), ("/x", "text")];
    for (path, kind) in paths {
        let (head, body) = server.get("GET", path, "localhost:1");
        let status = if path == "/x" { "404" } else { "200" };
        assert!(head.starts_with(&format!("http/1.1 {status}")), "{head}");
        for wanted in [
            "content-security-policy: default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self';",
            "frame-ancestors 'none'",
            "x-content-type-options: nosniff",
            "referrer-policy: no-referrer",
            "cache-control: no-store",
            &format!("content-type: {kind}"),
        ] {
            assert!(head.contains(wanted), "{wanted} in {head}");
        }
        assert!(!head.contains("unsafe-inline") && !body.is_empty());
        // Nothing that the policy forbids, and nothing from elsewhere.
        assert!(
            !body.contains("onclick") && !body.contains("style=") && !body.contains("innerHTML"),
            "{path}"
        );
        assert!(!body.replace("http://www.w3.org/2000/svg", "").contains("http"), "{path}");
    }
    for path in ["/", "/events"] {
        let (head, body) = server.get("GET", path, "rebound.example.net");
        assert!(head.starts_with("http/1.1 421") && !body.contains("<html"), "{head}");
    }
    let (head, _) = server.get("POST", "/", "localhost");
    assert!(head.starts_with("http/1.1 405") && head.contains("allow: get, head"), "{head}");
    server.end();
}

#[test]
fn events_come_one_after_the_other_until_the_reader_goes() {
    let server = start();
    let asked = server.answering(3);
    let mut seconds = Vec::new();
    for line in server.ask("GET", "/events", "127.0.0.1").lines() {
        let Ok(line) = line else { break };
        if let Some(json) = line.strip_prefix("data: ") {
            let all: Vec<Overview> = serde_json::from_str(json).unwrap();
            seconds.push(all[0].snapshot.as_ref().unwrap().uptime_ms / 1_000);
        }
    }
    assert_eq!((seconds, asked.join().unwrap()), (vec![1, 2, 3], 3));
    server.thread.join().unwrap().unwrap();
}

#[test]
fn it_listens_at_loopback_only() {
    let (_reader, other) = UnixStream::pair().unwrap();
    let refused = telemetry::serve_dashboard("0.0.0.0:0".parse().unwrap(), other, |_| panic!("it listens"));
    let refused = refused.unwrap_err().to_string();
    assert!(refused.contains("this machine alone"), "{refused}");
}

/// The page's document after some seconds of its own time, as a browser has it.
fn browse(server: &Server, fragment: &str) -> Option<String> {
    let profile =
        std::env::temp_dir().join(format!("ct-dashboard-{}-{}", std::process::id(), server.at.port()));
    let mut browser = Command::new("chromium");
    browser.args([
        "--headless",
        "--no-sandbox",
        "--disable-gpu",
        "--dump-dom",
        "--virtual-time-budget=20000",
    ]);
    browser.arg(format!("--user-data-dir={}", profile.display()));
    browser.arg(format!("http://{}/{fragment}", server.at)).stdin(Stdio::null());
    let output = match browser.output() {
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => {
            eprintln!("skipped: chromium is not installed (apt-get install chromium)");
            return None;
        }
        output => output.unwrap(),
    };
    drop(std::fs::remove_dir_all(profile));
    assert!(output.status.success(), "{output:?}");
    Some(String::from_utf8(output.stdout).unwrap())
}

#[test]
fn a_browser_shows_rates_subscribers_and_one_of_them() {
    for fragment in ["", "#10.0.0.7"] {
        let server = start();
        let asked = server.answering(3);
        let Some(page) = browse(&server, fragment) else { return server.end() };
        assert_eq!(asked.join().unwrap(), 3, "it stays connected");
        // 1 Mbit in a second, and the means of the times since the event before.
        for wanted in ["1.00 Mbit/s", "20.0 ms", "60.0 ms", "No A/B phase"] {
            assert!(
                page.contains(wanted) || wanted == "1.00 Mbit/s" && page.contains("1 Mbit/s"),
                "{wanted}: {page}"
            );
        }
        assert!(page.contains("href=\"#10.0.0.7\"") && page.contains("<path d=\"M"), "{page}");
        assert!(page.contains("&lt;b&gt;radio") && !page.contains("<b>radio"), "a name is no markup: {page}");
        let is_open = page.contains("<section id=\"one\">");
        assert_eq!((is_open, page.contains("192.0.2.1:443")), (!fragment.is_empty(), !fragment.is_empty()));
        server.thread.join().unwrap().unwrap();
    }
}
