//! [`serve`]: a page about running accelerators, live, from a process that can do nothing else.
//!
//! ```text
//!   browser ◀─ page, script, style ─ server (nobody) ─ a byte ─▶ reader ─ control socket ─▶ run
//!           ◀─ server-sent events ───                ◀─ JSON ──
//! ```
//!
//! At loopback only. Requests that name another host are refused: a page from elsewhere, whose name somebody
//! makes point here, is not to read them.

use std::convert::Infallible;
use std::net::{IpAddr, SocketAddr};
use std::os::unix::net::UnixStream;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use bytes::Bytes;
use http_body_util::{Either, Full};
use hyper::body::{Body, Frame, Incoming};
use hyper::header::{ALLOW, CONTENT_TYPE, HOST, HeaderName, HeaderValue};
use hyper::{Method, Request, Response, StatusCode};
use tokio::sync::{Mutex, mpsc};
use tokio::time::timeout;

use crate::TelemetryError;
use crate::http::{self, End, Place, Reader, Site};

/// Time between two events.
const EVENT_EVERY: Duration = Duration::from_secs(1);

/// What every answer says to browsers.
const HEADERS: [(&str, &str); 6] = [
    (
        "content-security-policy",
        "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; base-uri 'none'; \
         form-action 'none'; frame-ancestors 'none'",
    ),
    ("x-content-type-options", "nosniff"),
    ("x-frame-options", "DENY"),
    ("referrer-policy", "no-referrer"),
    ("cross-origin-resource-policy", "same-origin"),
    ("cache-control", "no-store"),
];

/// What the page is made of: path, type, text.
const FILES: [(&str, &str, &str); 3] = [
    ("/", "text/html; charset=utf-8", include_str!("dashboard/page.html")),
    ("/page.js", "text/javascript; charset=utf-8", include_str!("dashboard/page.js")),
    ("/page.css", "text/css; charset=utf-8", include_str!("dashboard/page.css")),
];

/// Whether the page may be served at `listen`.
///
/// # Errors
/// It is not an address of this machine alone.
pub fn check_dashboard_address(listen: SocketAddr) -> Result<(), TelemetryError> {
    if listen.ip().is_loopback() {
        return Ok(());
    }
    let why = "the dashboard has no encryption: an address of this machine alone, such as 127.0.0.1";
    Err(TelemetryError::doing(format!("listen at {listen}"))(std::io::Error::other(why)))
}

/// Serves the page at `listen`, with what `reader` gives, until the reader has gone. `ready` is told where.
///
/// # Errors
/// The address is not a loopback one or cannot be listened at.
pub fn serve_dashboard(
    listen: SocketAddr,
    reader: UnixStream,
    ready: impl FnOnce(SocketAddr),
) -> Result<(), TelemetryError> {
    check_dashboard_address(listen)?;
    http::serve(listen, reader, ready, |reader, end| {
        Live(Arc::new(Mutex::new(Source { reader, end: Some(end) })))
    })
}

/// The page, and what it shows.
#[derive(Clone)]
struct Live(Arc<Mutex<Source>>);

/// Where all that is shown comes from: one question at a time.
struct Source {
    reader: Reader,
    /// Dropped when the reader has gone, which is well.
    end: Option<End>,
}

type Answer = Response<Either<Full<Bytes>, Feed>>;

impl Site for Live {
    type Body = Either<Full<Bytes>, Feed>;

    async fn answer(self, request: Request<Incoming>, place: Place) -> Answer {
        let host = request.headers().get(HOST).and_then(|host| host.to_str().ok());
        if !host.is_some_and(is_this_machine) {
            return whole(StatusCode::MISDIRECTED_REQUEST, "text/plain", "another host is meant\n");
        }
        if !matches!(*request.method(), Method::GET | Method::HEAD) {
            let mut refused = whole(StatusCode::METHOD_NOT_ALLOWED, "text/plain", "GET, or HEAD\n");
            refused.headers_mut().insert(ALLOW, HeaderValue::from_static("GET, HEAD"));
            return refused;
        }
        let path = request.uri().path();
        if let Some((_, kind, text)) = FILES.iter().find(|(own, _, _)| *own == path) {
            return whole(StatusCode::OK, kind, text);
        }
        if path != "/events" {
            return whole(StatusCode::NOT_FOUND, "text/plain", "there is no such page\n");
        }
        let (send, events) = mpsc::channel(1);
        if *request.method() == Method::GET {
            tokio::spawn(tell(self, send, place));
        }
        with_headers(StatusCode::OK, "text/event-stream", Either::Right(Feed(events)))
    }
}

/// Sends what there is, again and again, to a page that takes it in.
async fn tell(live: Live, events: mpsc::Sender<Bytes>, _place: Place) {
    loop {
        let Some(json) = live.0.lock().await.ask().await else { return };
        let event = [b"data: ", json.as_slice(), b"\n\n"].concat();
        if events.send(event.into()).await.is_err() {
            break;
        }
        // The next one after a while, unless the page has gone.
        if timeout(EVENT_EVERY, events.closed()).await.is_ok() {
            break;
        }
    }
}

/// Events as they come.
struct Feed(mpsc::Receiver<Bytes>);

impl Body for Feed {
    type Data = Bytes;
    type Error = Infallible;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Infallible>>> {
        self.0.poll_recv(context).map(|event| event.map(|event| Ok(Frame::data(event))))
    }
}

impl Source {
    /// A line of JSON; none when the reader has gone.
    async fn ask(&mut self) -> Option<Vec<u8>> {
        let answer = self.reader.ask().await.ok();
        if answer.is_none() {
            self.end = None;
        }
        answer
    }
}

/// True for a host, with or without a port, that can only be this machine.
fn is_this_machine(host: &str) -> bool {
    let name = match host.strip_prefix('[') {
        Some(rest) => rest.split_once(']').map_or("", |(name, _)| name),
        None => host.split_once(':').map_or(host, |(name, _)| name),
    };
    name.eq_ignore_ascii_case("localhost") || name.parse().is_ok_and(|ip: IpAddr| ip.is_loopback())
}

fn whole(status: StatusCode, kind: &'static str, text: &'static str) -> Answer {
    with_headers(status, kind, Either::Left(Full::new(Bytes::from_static(text.as_bytes()))))
}

fn with_headers(status: StatusCode, kind: &'static str, body: Either<Full<Bytes>, Feed>) -> Answer {
    let mut response = Response::new(body);
    *response.status_mut() = status;
    response.headers_mut().insert(CONTENT_TYPE, HeaderValue::from_static(kind));
    for (name, value) in HEADERS {
        response.headers_mut().insert(HeaderName::from_static(name), HeaderValue::from_static(value));
    }
    response
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_names_of_this_machine_are_answered() {
        for own in ["localhost", "LOCALHOST:9470", "127.0.0.1", "127.8.8.8:1", "[::1]:9470", "[::1]"] {
            assert!(is_this_machine(own), "{own}");
        }
        for other in ["", "example.net", "127.0.0.1.example.net:80", "10.0.0.1:9470", "[fd00::1]:1", "[::1"] {
            assert!(!is_this_machine(other), "{other}");
        }
    }
}
