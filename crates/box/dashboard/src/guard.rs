//! [`Guard`]: who may look from elsewhere: whoever has shown the token, once, in the body of a form.
//!
//! ```text
//!   POST /login, token ─ is it the token? ─▶ a session of 256 random bits, in a cookie that scripts cannot read
//!                           no: later, 401
//! ```
//!
//! The token is in no address, no cookie and no log. A session is known to this process alone and ends with it.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use http_body_util::{BodyExt, Limited};
use hyper::Request;
use hyper::body::Incoming;
use hyper::header::{AUTHORIZATION, COOKIE, HeaderMap};
use io::Clock;
use rustls::crypto::SecureRandom;
use telemetry::TelemetryError;
use tokio::time::{sleep, timeout};
use top::Secrets;
use units::Instant;

/// Duration of a session, and number of sessions: of more, the oldest ends.
const SESSION_TIME: units::Duration = units::Duration::from_secs(12 * 3_600);
const SESSIONS_MAX: usize = 64;

/// Bits of a session's name, in bytes.
const NAME_LEN: usize = 32;

/// Longest form, bytes, and how long it may take to come.
const FORM_LEN_MAX: usize = 4 * 1024;
const FORM_TIME_MAX: Duration = Duration::from_secs(5);

/// Delay of the answer to a wrong token.
const WRONG_TOKEN_PAUSE: Duration = Duration::from_millis(500);

/// The cookie: its prefix has browsers take it over TLS alone, and from this very host.
const COOKIE_NAME: &str = "__Host-cellerator";

/// Role of the bearer of a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Bearer {
    /// One who may look.
    Known,
    /// One who has shown nothing.
    Unknown,
    /// One who has shown a wrong token.
    Wrong,
}

/// Looks at tokens and sessions.
pub(crate) struct Guard {
    secrets: Secrets,
    random: &'static dyn SecureRandom,
    sessions: Mutex<Vec<Session>>,
}

struct Session {
    name: String,
    until: Instant,
}

impl Guard {
    pub fn new(secrets: Secrets) -> Arc<Self> {
        let random = rustls::crypto::ring::default_provider().secure_random;
        Arc::new(Self { secrets, random, sessions: Mutex::default() })
    }

    fn sessions(&self) -> MutexGuard<'_, Vec<Session>> {
        self.sessions.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Bearer of a request with these headers. A program may show the token itself, as `Authorization: Bearer`.
    pub async fn bearer(&self, headers: &HeaderMap) -> Bearer {
        if let Some(token) = headers.get(AUTHORIZATION) {
            let token = token.to_str().ok().and_then(|text| text.strip_prefix("Bearer "));
            return self.look_at(token.unwrap_or_default()).await;
        }
        let name = session_in(headers);
        if name.is_some_and(|name| self.is_session(name)) { Bearer::Known } else { Bearer::Unknown }
    }

    async fn look_at(&self, token: &str) -> Bearer {
        if self.secrets.is_token(token) {
            return Bearer::Known;
        }
        sleep(WRONG_TOKEN_PAUSE).await;
        Bearer::Wrong
    }

    fn is_session(&self, name: &str) -> bool {
        let now = Clock::now();
        let mut sessions = self.sessions();
        sessions.retain(|session| session.until > now);
        // All of them, and all of their letters: the time says nothing of any.
        sessions.iter().fold(false, |is_one, session| is_one | is_same(&session.name, name))
    }

    /// Looks at a form with the token in it; the cookie of a new session if it is the one.
    ///
    /// # Errors
    /// Fault of the request, as the role of its bearer.
    pub async fn log_in(&self, request: Request<Incoming>) -> Result<String, Bearer> {
        let form = timeout(FORM_TIME_MAX, Limited::new(request.into_body(), FORM_LEN_MAX).collect()).await;
        let Ok(Ok(form)) = form else { return Err(Bearer::Unknown) };
        let form = form.to_bytes();
        let token = form_urlencoded::parse(&form).find(|(name, _)| name == "token");
        match self.look_at(token.map(|(_, token)| token).unwrap_or_default().trim()).await {
            Bearer::Known => self.begin().map_err(|_| Bearer::Unknown),
            other => Err(other),
        }
    }

    /// A new session's cookie.
    fn begin(&self) -> Result<String, TelemetryError> {
        let mut bits = [0; NAME_LEN];
        self.random
            .fill(&mut bits)
            .map_err(|_| TelemetryError::Setting("this machine has no random numbers".to_owned()))?;
        let name: String = bits.iter().map(|byte| format!("{byte:02x}")).collect();
        let mut sessions = self.sessions();
        if sessions.len() >= SESSIONS_MAX {
            sessions.remove(0);
        }
        sessions.push(Session { name: name.clone(), until: Clock::now() + SESSION_TIME });
        Ok(cookie(&name, SESSION_TIME.as_millis() / 1_000))
    }

    /// Ends the session of a request, if it has one; the cookie that takes it from the browser.
    pub fn log_out(&self, headers: &HeaderMap) -> String {
        if let Some(name) = session_in(headers) {
            self.sessions().retain(|session| !is_same(&session.name, name));
        }
        cookie("", 0)
    }
}

fn cookie(name: &str, seconds: u64) -> String {
    format!("{COOKIE_NAME}={name}; Path=/; Max-Age={seconds}; Secure; HttpOnly; SameSite=Strict")
}

/// The session that a request names.
fn session_in(headers: &HeaderMap) -> Option<&str> {
    let cookies = headers.get_all(COOKIE).iter().filter_map(|cookies| cookies.to_str().ok());
    let mut all = cookies.flat_map(|cookies| cookies.split(';'));
    all.find_map(|cookie| cookie.trim().strip_prefix(COOKIE_NAME)?.strip_prefix('='))
}

/// True for the same text; the time for it does not depend on where they differ.
fn is_same(own: &str, other: &str) -> bool {
    let pairs = own.bytes().zip(other.bytes());
    pairs.fold(0, |sum, (a, b)| sum | (a ^ b)) == 0 && own.len() == other.len()
}

/// True for a request that a page of this server makes, or a program: browsers say where others come from.
pub(crate) fn is_of_this_site(headers: &HeaderMap) -> bool {
    let site = headers.get("sec-fetch-site").map(|site| site.as_bytes());
    matches!(site, None | Some(b"same-origin" | b"none"))
}

#[cfg(test)]
mod tests {
    use hyper::header::HeaderValue;

    use super::*;

    fn with(name: &'static str, value: &str) -> HeaderMap {
        let mut headers = HeaderMap::new();
        headers.insert(name, HeaderValue::from_str(value).unwrap());
        headers
    }

    #[test]
    fn a_session_is_found_among_other_cookies_and_nothing_else_is_one() {
        let headers = with("cookie", "a=b; __Host-cellerator=0123; __Host-cellerator2=9");
        assert_eq!(session_in(&headers), Some("0123"));
        for other in ["", "cellerator=0123", "__Host-celleratorx=1", "x__Host-cellerator=1"] {
            assert_eq!(session_in(&with("cookie", other)), None, "{other}");
        }
    }

    #[test]
    fn the_same_text_is_the_same_and_no_other_one() {
        assert!(is_same("", "") && is_same("ab", "ab"));
        for (own, other) in [("ab", "ac"), ("ab", "a"), ("a", "ab"), ("", "a"), ("ab", "")] {
            assert!(!is_same(own, other), "{own} {other}");
        }
    }

    #[test]
    fn forms_of_other_sites_are_told_apart() {
        for (site, is_own) in
            [("same-origin", true), ("none", true), ("cross-site", false), ("same-site", false)]
        {
            assert_eq!(is_of_this_site(&with("sec-fetch-site", site)), is_own, "{site}");
        }
        assert!(is_of_this_site(&HeaderMap::new()), "programs say nothing");
    }
}
