//! [`serve`]: a page about running accelerators, live, from a process that can do nothing else.
//!
//! ```text
//!   browser ◀─ page, scripts, style ─ server (nobody) ─ a question ─▶ gate ─ control socket ─▶ run
//!           ◀─ server-sent events ───                 ◀─ JSON ──────
//! ```
//!
//! At addresses of this machine alone without any ado; requests that name another host are refused there: a page from
//! elsewhere, whose name somebody makes point here, is not to read them. At other addresses with TLS and a token
//! ([`crate::guard`]).

use std::io::{BufRead, Read};
use std::net::{IpAddr, SocketAddr};
use std::os::unix::net::UnixStream;
use std::sync::Arc;

use bytes::Bytes;
use http_body_util::{Either, Full};
use hyper::body::Incoming;
use hyper::header::{
    ALLOW, CONTENT_TYPE, HOST, HeaderName, HeaderValue, LOCATION, SET_COOKIE, WWW_AUTHENTICATE,
};
use hyper::{Method, Request, Response, StatusCode};
use telemetry::TelemetryError;
use telemetry::http::{self, Endpoint, Place, Site};
use top::Secrets;

use crate::feed::{Feed, View};
use crate::guard::{Bearer, Guard, is_of_this_site};
use crate::live_state::LiveState;
use crate::subscriber::Had;

/// Longest line of secrets, bytes.
const SECRETS_LEN_MAX: u64 = 1 << 20;

/// Headers of every answer to browsers.
const HEADERS: [(&str, &str); 8] = [
    (
        "content-security-policy",
        "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; base-uri 'none'; \
         form-action 'self'; frame-ancestors 'none'",
    ),
    ("x-content-type-options", "nosniff"),
    ("x-frame-options", "DENY"),
    ("referrer-policy", "no-referrer"),
    ("cross-origin-opener-policy", "same-origin"),
    ("cross-origin-resource-policy", "same-origin"),
    ("permissions-policy", "camera=(), geolocation=(), microphone=()"),
    ("cache-control", "no-store"),
];

const HTML: &str = "text/html; charset=utf-8";
const TEXT: &str = "text/plain; charset=utf-8";
const SCRIPT: &str = "text/javascript; charset=utf-8";

/// Files of the page: path, type, text.
const FILES: [(&str, &str, &str); 5] = [
    ("/", HTML, include_str!("page/page.html")),
    ("/page.js", SCRIPT, include_str!("page/page.js")),
    ("/charts.js", SCRIPT, include_str!("page/charts.js")),
    ("/compare.js", SCRIPT, include_str!("page/compare.js")),
    ("/words.js", SCRIPT, include_str!("page/words.js")),
];

/// Style sheet for everybody: nothing of it is secret.
const STYLE: (&str, &str) = ("text/css; charset=utf-8", include_str!("page/page.css"));

/// The form that asks for the token, and what stands for `TITLE` and `SAID` in it.
const LOGIN: &str = include_str!("page/login.html");
const ASKED: [&str; 2] = ["token", "<p>This page is for those who know the token.</p>"];
const REFUSED: [&str; 2] =
    ["refused", "<p class=\"refused\" role=\"alert\">The token is refused: it is another one.</p>"];

/// Whether the page may be served at `listen` without TLS and a token.
///
/// # Errors
/// It is not an address of this machine alone.
pub fn check_address(listen: SocketAddr, has_token: bool) -> Result<(), TelemetryError> {
    if has_token || listen.ip().is_loopback() {
        return Ok(());
    }
    let why = "beyond this machine it needs encryption and a token: --certificate, --key and --token-file";
    Err(TelemetryError::doing(format!("listen at {listen}"))(std::io::Error::other(why)))
}

/// Serves the page at `listen` with what the gate tells, whose first line are the secrets or `null`, until the gate
/// has gone. `ready` is told where, and whether it is TLS that is spoken there.
///
/// # Errors
/// The address is no loopback one and there are no secrets, it cannot be listened at, or the gate speaks otherwise.
pub fn serve(
    listen: SocketAddr,
    gate: UnixStream,
    ready: impl FnOnce(SocketAddr, bool),
) -> Result<(), TelemetryError> {
    let secrets = first_line(&gate)?;
    check_address(listen, secrets.is_some())?;
    let tls = secrets.as_ref().map(Secrets::config).transpose().map_err(TelemetryError::Setting)?;
    let tls = tls.map(|config| {
        let mut config = rustls::ServerConfig::clone(&config);
        config.alpn_protocols = vec![b"http/1.1".to_vec()];
        Arc::new(config)
    });
    let has_tls = tls.is_some();
    http::serve(
        Endpoint { listen, tls },
        |at| ready(at, has_tls),
        |end| Ok(Live { live: LiveState::start(gate, end)?, guard: secrets.map(Guard::new) }),
    )
}

/// The secrets, which come before anything is asked.
fn first_line(gate: &UnixStream) -> Result<Option<Secrets>, TelemetryError> {
    let mut line = Vec::new();
    let hear = TelemetryError::doing("hear the process beside this one");
    // Nothing comes behind it until something is asked.
    let read = std::io::BufReader::new(gate).take(SECRETS_LEN_MAX).read_until(b'\n', &mut line);
    read.map_err(hear)?;
    serde_json::from_slice(&line).map_err(TelemetryError::Foreign)
}

/// The page, and what it shows.
#[derive(Clone)]
struct Live {
    live: Arc<LiveState>,
    /// Beyond this machine.
    guard: Option<Arc<Guard>>,
}

type Answer = Response<Either<Full<Bytes>, Feed>>;

impl Site for Live {
    type Body = Either<Full<Bytes>, Feed>;

    async fn answer(self, request: Request<Incoming>, place: Place) -> Answer {
        let path = request.uri().path().to_owned();
        let Some(guard) = self.guard.clone() else {
            let host = request.headers().get(HOST).and_then(|host| host.to_str().ok());
            if !host.is_some_and(is_this_machine) {
                return whole(StatusCode::MISDIRECTED_REQUEST, TEXT, "another host is meant\n");
            }
            return self.show(&request, &path, place);
        };
        if *request.method() == Method::POST && matches!(path.as_str(), "/login" | "/logout") {
            return post(&guard, request, &path).await;
        }
        if path == "/page.css" {
            return self.show(&request, &path, place);
        }
        match guard.bearer(request.headers()).await {
            Bearer::Known => self.show(&request, &path, place),
            bearer => unknown(&path, bearer),
        }
    }
}

/// Begins a session, or ends it.
async fn post(guard: &Guard, request: Request<Incoming>, path: &str) -> Answer {
    if !is_of_this_site(request.headers()) {
        return whole(StatusCode::FORBIDDEN, TEXT, "a page of another site sends this\n");
    }
    let cookie = if path == "/login" {
        match guard.log_in(request).await {
            Ok(cookie) => cookie,
            Err(bearer) => return unknown("/", bearer),
        }
    } else {
        guard.log_out(request.headers())
    };
    let mut answer = whole(StatusCode::SEE_OTHER, TEXT, "see /\n");
    answer.headers_mut().insert(LOCATION, HeaderValue::from_static("/"));
    if let Ok(cookie) = HeaderValue::from_str(&cookie) {
        answer.headers_mut().insert(SET_COOKIE, cookie);
    }
    answer
}

/// Answer to those who may not look.
fn unknown(path: &str, bearer: Bearer) -> Answer {
    let is_wrong = matches!(bearer, Bearer::Wrong);
    let mut answer = match path {
        "/" => whole(StatusCode::UNAUTHORIZED, HTML, form(if is_wrong { REFUSED } else { ASKED })),
        _ if is_wrong => whole(StatusCode::UNAUTHORIZED, TEXT, "the token is refused\n"),
        _ => whole(StatusCode::UNAUTHORIZED, TEXT, "this needs the token\n"),
    };
    let realm = HeaderValue::from_static("Bearer realm=\"cellerator\"");
    answer.headers_mut().insert(WWW_AUTHENTICATE, realm);
    answer
}

/// The form with a title, and what is said above it.
fn form([title, said]: [&str; 2]) -> String {
    LOGIN.replace("TITLE", title).replace("SAID", said)
}

impl Live {
    /// Shows somebody who may look what is asked for.
    fn show(&self, request: &Request<Incoming>, path: &str, place: Place) -> Answer {
        if !matches!(*request.method(), Method::GET | Method::HEAD) {
            let mut refused = whole(StatusCode::METHOD_NOT_ALLOWED, TEXT, "GET, or HEAD\n");
            refused.headers_mut().insert(ALLOW, HeaderValue::from_static("GET, HEAD"));
            return refused;
        }
        if let Some((_, kind, text)) = FILES.iter().find(|(own, _, _)| *own == path) {
            return whole(StatusCode::OK, kind, *text);
        }
        match path {
            "/page.css" => whole(StatusCode::OK, STYLE.0, STYLE.1),
            // Whether scripts may offer to end the session.
            "/access" if self.guard.is_some() => whole(StatusCode::OK, TEXT, "token\n"),
            "/access" => whole(StatusCode::OK, TEXT, "open\n"),
            "/events" | "/subscriber" if *request.method() == Method::HEAD => {
                whole(StatusCode::OK, "text/event-stream", "")
            }
            "/events" => {
                let (seat, events) = self.live.look();
                events_of(Feed::new(View::Overview(events), seat, place))
            }
            "/subscriber" => self.subscriber(request.uri().query().unwrap_or_default(), place),
            _ => whole(StatusCode::NOT_FOUND, TEXT, "there is no such page\n"),
        }
    }

    /// Events of the subscriber that a query names.
    fn subscriber(&self, query: &str, place: Place) -> Answer {
        let field = |wanted: &str| {
            let mut pairs = form_urlencoded::parse(query.as_bytes());
            pairs.find(|(name, _)| name == wanted).map(|(_, value)| value.into_owned())
        };
        let address = field("address").and_then(|address| address.parse::<IpAddr>().ok());
        let (Some(name), Some(address)) = (field("name"), address) else {
            return whole(StatusCode::BAD_REQUEST, TEXT, "name an accelerator and a subscriber's address\n");
        };
        let Some((seat, watched)) = self.live.watch((name, address)) else {
            let text = "as many subscribers are looked at already as may\n";
            return whole(StatusCode::SERVICE_UNAVAILABLE, TEXT, text);
        };
        let news = watched.news();
        events_of(Feed::new(View::Subscriber(watched, news, Had::default()), seat, place))
    }
}

fn events_of(feed: Feed) -> Answer {
    with_headers(StatusCode::OK, "text/event-stream", Either::Right(feed))
}

/// True for a host, with or without a port, that can only be this machine.
fn is_this_machine(host: &str) -> bool {
    let name = match host.strip_prefix('[') {
        Some(rest) => rest.split_once(']').map_or("", |(name, _)| name),
        None => host.split_once(':').map_or(host, |(name, _)| name),
    };
    name.eq_ignore_ascii_case("localhost") || name.parse().is_ok_and(|ip: IpAddr| ip.is_loopback())
}

fn whole(status: StatusCode, kind: &'static str, text: impl Into<Bytes>) -> Answer {
    with_headers(status, kind, Either::Left(Full::new(text.into())))
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

    #[test]
    fn the_form_says_whether_a_token_was_refused() {
        let [asked, refused] = [ASKED, REFUSED].map(form);
        assert!(asked.contains("<title>Cellerator: token</title>") && !asked.contains("refused"), "{asked}");
        assert!(refused.contains("<title>Cellerator: refused</title>") && refused.contains("role=\"alert\""));
        for page in [asked, refused] {
            assert!(page.contains("action=\"login\"") && !page.contains("SAID") && !page.contains("TITLE"));
        }
    }

    #[test]
    fn beyond_this_machine_there_is_a_token_or_nothing() {
        let at = |text: &str| text.parse().unwrap();
        assert!(
            check_address(at("127.0.0.1:1"), false).is_ok() && check_address(at("[::1]:1"), false).is_ok()
        );
        let refused = check_address(at("0.0.0.0:1"), false).unwrap_err().to_string();
        assert!(refused.contains("--certificate, --key and --token-file"), "{refused}");
        assert!(check_address(at("0.0.0.0:1"), true).is_ok());
    }
}
