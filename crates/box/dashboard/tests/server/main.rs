//! The dashboard's server, with a gate that is played here: what a browser gets, and what nobody does.

// In helpers of tests, too, a failure is a failed test.
#![allow(clippy::unwrap_used, clippy::panic)]

mod client;
mod gate;

use std::io::{BufRead, Read, Write};
use std::time::Duration;

use client::{Client, PATIENCE, TOKEN};
use gate::{NAME, Server};
use io::Clock;
use units::Instant;

const PATHS: [(&str, &str); 7] = [
    ("/", "text/html"),
    ("/page.js", "text/javascript"),
    ("/charts.js", "text/javascript"),
    ("/compare.js", "text/javascript"),
    ("/words.js", "text/javascript"),
    ("/page.css", "text/css"),
    ("/x", "text"),
];

fn assert_strict(head: &str, path: &str) {
    for wanted in [
        "content-security-policy: default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self';",
        "frame-ancestors 'none'",
        "form-action 'self'",
        "x-content-type-options: nosniff",
        "x-frame-options: deny",
        "referrer-policy: no-referrer",
        "cache-control: no-store",
    ] {
        assert!(head.contains(wanted), "{path}: {wanted} in {head}");
    }
    assert!(!head.contains("unsafe"), "{head}");
}

fn since(began: Instant) -> Duration {
    Duration::from_nanos(Clock::now().saturating_since(began).as_nanos())
}

/// Lets time go by.
fn pause(time: Duration) {
    let began = Clock::now();
    while since(began) < time {
        std::thread::park_timeout(time / 10);
    }
}

#[test]
fn every_answer_has_strict_headers_and_other_hosts_get_nothing() {
    let server = Server::start(None);
    for (path, kind) in PATHS {
        let (head, body) = server.client().get("GET", path, "localhost:1", "");
        let status = if path == "/x" { "404" } else { "200" };
        assert!(head.starts_with(&format!("http/1.1 {status}")), "{head}");
        assert_strict(&head, path);
        assert!(head.contains(&format!("content-type: {kind}")) && !body.is_empty(), "{head}");
        // Nothing that the policy forbids, and nothing from elsewhere.
        for forbidden in ["onclick", "style=", "innerHTML", "eval("] {
            assert!(!body.contains(forbidden), "{path}: {forbidden}");
        }
        assert!(!body.replace("http://www.w3.org/2000/svg", "").contains("http"), "{path}");
    }
    for path in ["/", "/events", "/subscriber?name=radio&address=10.0.0.7"] {
        let (head, body) = server.client().get("GET", path, "rebound.example.net", "");
        assert!(head.starts_with("http/1.1 421") && !body.contains("<html"), "{head}");
    }
    for path in ["/", "/login"] {
        let (head, _) = server.client().get("POST", path, "localhost", "");
        assert!(head.starts_with("http/1.1 405") && head.contains("allow: get, head"), "{head}");
    }
    assert_eq!(server.client().get("GET", "/access", "localhost", "").1, "open\n");
}

#[test]
fn overviews_come_each_second_with_rates_and_a_gate_that_has_gone_ends_it() {
    let server = Server::start(None);
    let mut events = server.client().events("/events");
    let first = events.next_event();
    assert!(first["accelerators"][0]["totals"]["downlink_goodput_bps"].is_null(), "{first}");
    let second = events.next_event();
    let radio = &second["accelerators"][0];
    assert_eq!(radio["name"], NAME);
    // It plays 1 Mbit/s of its own clock, which is asked at times of its own.
    let goodput = radio["totals"]["downlink_goodput_bps"].as_u64().unwrap();
    assert!((800_000..1_200_000).contains(&goodput), "{radio}");
    let rows = radio["subscribers"].as_array().unwrap();
    assert_eq!((rows.len(), rows[0]["address"].as_str()), (2, Some("10.0.0.7")), "{radio}");
    assert_eq!(radio["ab"]["metrics"][0]["name"], "goodput");
    // The phase under way passes those whom the hash says: the same ones as the accelerator.
    let group = engine::ControlGroup { seed: 7 };
    for row in rows {
        let address = row["address"].as_str().unwrap().parse().unwrap();
        assert_eq!(row["is_control"], group.contains(address), "{row}");
    }
    server.end_gate();
    server.join();
}

#[test]
fn a_subscriber_is_looked_at_ten_times_a_second_and_only_while_a_page_is_there() {
    let server = Server::start(None);
    let mut events = server.client().events("/subscriber?name=%3Cb%3Eradio%3C%2Fb%3E&address=10.0.0.7");
    let began = Clock::now();
    let mut points = Vec::new();
    let mut details = 0;
    while points.len() < 30 {
        let event = events.next_event();
        details += usize::from(event["detail"].is_object());
        points.extend(event["points"].as_array().unwrap().iter().cloned());
    }
    let took = since(began);
    assert!(took > Duration::from_millis(2_500), "30 in {took:?}");
    let at = |n: usize| points[n]["at_ms"].as_u64().unwrap();
    let mean_ms = (at(29) - at(0)) as f64 / 29.0;
    assert!((90.0..200.0).contains(&mean_ms), "one each {mean_ms} ms");
    assert!(details >= 3, "flows come twice a second: {details}");
    assert!(
        points[20]["delivered_bps"].as_u64().unwrap() > 0 && points[20]["srtt_us"] == 60_000,
        "{}",
        points[20]
    );
    // A second page gets what is known so far at once.
    let mut other = server.client().events("/subscriber?name=%3Cb%3Eradio%3C%2Fb%3E&address=10.0.0.7");
    assert!(other.next_event()["points"].as_array().unwrap().len() >= 30);
    // Most looks leave the table of flows alone.
    let (all, with_flows) = server.gate.looks();
    assert!(with_flows * 3 < all, "{with_flows} of {all}");
    drop((events, other));
    pause(Duration::from_millis(700));
    let (before, _) = server.gate.looks();
    pause(Duration::from_millis(500));
    assert_eq!(server.gate.looks().0, before, "nobody looks any more");
}

#[test]
fn no_more_than_four_subscribers_are_looked_at_and_a_query_has_to_make_sense() {
    let server = Server::start(None);
    let path = |last: u8| format!("/subscriber?name=radio&address=10.0.0.{last}");
    let held: Vec<_> = (1..=4).map(|last| server.client().events(&path(last))).collect();
    let (head, _) = server.client().get("GET", &path(5), "localhost", "");
    assert!(head.starts_with("http/1.1 503"), "{head}");
    for path in ["/subscriber", "/subscriber?name=radio", "/subscriber?name=radio&address=ten"] {
        assert!(server.client().get("GET", path, "localhost", "").0.starts_with("http/1.1 400"), "{path}");
    }
    drop(held);
}

#[test]
fn with_a_token_nothing_is_shown_before_it_and_the_page_says_so() {
    let server = Server::start(Some(TOKEN));
    for (path, _) in PATHS.into_iter().chain([("/events", ""), ("/access", "")]) {
        let (head, body) = server.client().get("GET", path, "box.example.net", "");
        if path == "/page.css" {
            assert!(head.starts_with("http/1.1 200"), "{head}");
            continue;
        }
        assert!(
            head.starts_with("http/1.1 401") && head.contains("www-authenticate: bearer"),
            "{path}: {head}"
        );
        assert_strict(&head, path);
        assert!(!body.contains("charts.js"), "{body}");
        assert_eq!(path == "/", body.contains("type=\"password\""), "{path}: {body}");
    }
}

#[test]
fn the_token_begins_a_session_and_a_wrong_one_is_refused_later() {
    let server = Server::start(Some(TOKEN));
    let form = |token: &str| format!("token={token}");
    for wrong in ["", "0123456789abcdef", &TOKEN[1..], &format!("{TOKEN}0"), &TOKEN.to_uppercase()] {
        let began = Clock::now();
        let (head, body) = server.client().post("/login", &form(wrong), "");
        assert!(head.starts_with("http/1.1 401") && body.contains("The token is refused"), "{wrong}: {head}");
        assert!(!head.contains("set-cookie") && since(began) >= Duration::from_millis(400));
    }
    let (head, _) = server.client().post("/login", &form(TOKEN), "");
    assert!(head.starts_with("http/1.1 303") && head.contains("location: /\r"), "{head}");
    let cookie = head.lines().find_map(|line| line.strip_prefix("set-cookie: ")).unwrap().to_owned();
    for wanted in ["; path=/", "; secure", "; httponly", "; samesite=strict"] {
        assert!(cookie.contains(wanted), "{cookie}");
    }
    assert!(cookie.starts_with("__host-cellerator=") && !cookie.contains(TOKEN), "{cookie}");
    // Heads are read as lower case, which the name of the cookie is not; its value is.
    let session = cookie.split(';').next().unwrap().replace("__host", "__Host");
    let with = format!("Cookie: other=1; {session}\r\n");
    let (head, body) = server.client().get("GET", "/", "box", &with);
    assert!(head.starts_with("http/1.1 200") && body.contains("charts.js"), "{head}");
    assert_eq!(server.client().get("GET", "/access", "box", &with).1, "token\n");
    let wrong = with.replace("or=", "or=0");
    assert!(server.client().get("GET", "/", "box", &wrong).0.starts_with("http/1.1 401"));
    // A form of another site ends nothing.
    let foreign = format!("{with}Sec-Fetch-Site: cross-site\r\n");
    assert!(server.client().post("/logout", "", &foreign).0.starts_with("http/1.1 403"));
    assert!(server.client().get("GET", "/", "box", &with).0.starts_with("http/1.1 200"));
    assert!(server.client().post("/logout", "", &with).0.starts_with("http/1.1 303"));
    assert!(server.client().get("GET", "/", "box", &with).0.starts_with("http/1.1 401"), "it has ended");
}

#[test]
fn programs_show_the_token_in_a_header() {
    let server = Server::start(Some(TOKEN));
    let bearer = |token: &str| format!("Authorization: Bearer {token}\r\n");
    assert!(server.client().get("GET", "/", "box", &bearer(TOKEN)).0.starts_with("http/1.1 200"));
    let (head, body) = server.client().get("GET", "/events", "box", &bearer("another token, as long as it"));
    assert!(head.starts_with("http/1.1 401") && body == "the token is refused\n", "{head}");
    assert!(
        server.client().get("GET", "/", "box", "Authorization: Basic eDp5\r\n").0.starts_with("http/1.1 401")
    );
}

#[test]
fn forms_that_are_too_long_or_come_too_slowly_are_given_up() {
    let server = Server::start(Some(TOKEN));
    let long = format!("x={}&token={TOKEN}", "y".repeat(8_000));
    let (head, _) = server.client().post("/login", &long, "");
    assert!(head.starts_with("http/1.1 401") && !head.contains("set-cookie"), "{head}");
    let Client::Tls(mut stream) = server.client() else { panic!() };
    stream.write_all(b"POST /login HTTP/1.1\r\nHost: x\r\nContent-Length: 100\r\n\r\ntoken=").unwrap();
    let began = Clock::now();
    let mut answer = Vec::new();
    drop(stream.read_to_end(&mut answer));
    assert!(answer.starts_with(b"HTTP/1.1 401") && since(began) < PATIENCE / 2);
}

#[test]
fn who_speaks_no_tls_hears_nothing_and_harms_nobody() {
    let server = Server::start(Some(TOKEN));
    let mut plain = std::net::TcpStream::connect(server.at).unwrap();
    plain.set_read_timeout(Some(PATIENCE)).unwrap();
    plain.write_all(b"GET / HTTP/1.1\r\nHost: localhost\r\n\r\n").unwrap();
    let mut heard = Vec::new();
    drop(plain.read_to_end(&mut heard));
    // An alert of TLS at most: 7 bytes.
    assert!(heard.len() <= 7, "{heard:?}");
    assert!(server.client().get("GET", "/page.css", "box", "").0.starts_with("http/1.1 200"));
}

#[test]
fn requests_are_bounded_and_the_silent_ones_go() {
    let server = Server::start(None);
    let long = format!("X: {}\r\n", "y".repeat(100_000));
    let mut stream = server.client();
    // It may be cut off before all of it has been written.
    drop(write!(stream, "GET / HTTP/1.1\r\nHost: localhost\r\n{long}\r\n"));
    let mut answer = String::new();
    drop(stream.read_to_string(&mut answer));
    assert!(!answer.contains("200 OK"), "{answer}");
    let silent: Vec<_> = (0..32).map(|_| std::net::TcpStream::connect(server.at).unwrap()).collect();
    // These have all places: what comes behind them is closed.
    let mut turned_away = std::net::TcpStream::connect(server.at).unwrap();
    turned_away.set_read_timeout(Some(PATIENCE)).unwrap();
    assert!(matches!(turned_away.read(&mut [0]), Ok(0) | Err(_)));
    for mut stream in silent {
        stream.set_read_timeout(Some(PATIENCE)).unwrap();
        assert!(!matches!(stream.read(&mut [0; 512]), Ok(n) if n > 400));
    }
    assert!(server.client().get("GET", "/", "localhost", "").0.starts_with("http/1.1 200"));
}

#[test]
fn events_go_through_tls_as_well() {
    let server = Server::start(Some(TOKEN));
    let mut stream = server.client();
    write!(stream, "GET /events HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer {TOKEN}\r\n\r\n").unwrap();
    let mut lines = std::io::BufReader::new(stream).lines().map_while(Result::ok);
    assert!(lines.any(|line| line.starts_with("data: {\"accelerators\"")));
}
