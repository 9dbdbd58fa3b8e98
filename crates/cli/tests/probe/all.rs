//! `probe all`, a local peer, and what goes on after an interruption, over the loopback device.

use std::io::{BufRead, BufReader};
use std::process::Command;

use crate::probe::loopback::{Server, document, file, words};
use crate::schema;

const ALL: &str = include_str!("../../../../schemas/probe-all.schema.json");
const RTT: &str = include_str!("../../../../schemas/probe-rtt.schema.json");
const SWEEP: &str = include_str!("../../../../schemas/probe-sweep.schema.json");
const TCP: &str = include_str!("../../../../schemas/probe-tcp.schema.json");
const HOPS: &str = include_str!("../../../../schemas/probe-hops.schema.json");
const MIDDLEBOX: &str = include_str!("../../../../schemas/probe-middlebox.schema.json");
const TIMEOUT: &str = include_str!("../../../../schemas/probe-timeout.schema.json");

const SHORT: [&str; 10] = [
    "--time",
    "400 ms",
    "--search-time",
    "1200 ms",
    "--rate-max",
    "20 Mbit/s",
    "--silences",
    "500 ms",
    "--repetitions",
    "1",
];

/// Sends Ctrl-C to a program.
fn interrupt(id: u32) {
    let mut kill = Command::new("kill").args(["-INT", &id.to_string()]).spawn().unwrap();
    kill.wait().unwrap();
}

#[test]
fn all_parts_stand_in_one_document_and_one_page() {
    let (server, local) = (Server::start(&[]), Server::start(&[]));
    let page = file("all.html");
    let peer = format!("127.0.0.1:{}", local.port);
    let more = ["--local-peer", &peer, "--json", "-", "--html", page.to_str().unwrap()];
    let output = server.measure(&[&["all"], &SHORT[..], &more].concat());
    let said = words(&output);
    assert!(output.status.success(), "{said}");
    let all = document(&output);
    schema::check_against(&all, ALL);
    let parts = all["parts"].as_array().unwrap();
    let wanted = [
        ("rtt", RTT),
        ("sweep", SWEEP),
        ("tcp", TCP),
        ("middlebox", MIDDLEBOX),
        ("hops", HOPS),
        ("timeout", TIMEOUT),
    ];
    assert_eq!(parts.len(), wanted.len());
    for (part, (name, schema)) in parts.iter().zip(wanted) {
        assert_eq!((&part["name"], &part["error"]), (&name.into(), &serde_json::Value::Null), "{part}");
        schema::check_against(&part["document"], schema);
        assert!(said.contains(&format!(" {name}: about ")), "{said}");
    }
    let idle = &parts[0]["document"]["phases"][0];
    assert!(idle["local"]["answered"].as_u64().unwrap() >= 15, "{}", idle["local"]);
    assert_eq!(parts[0]["document"]["local_peer"]["port"].to_string(), local.port);
    let verdict = all["verdict"].as_str().unwrap();
    assert!(verdict.starts_with("Down, TCP gets ") && verdict.matches(". ").count() == 0, "{verdict}");
    let of_rtt = parts[0]["verdict"].as_str().unwrap();
    assert!(of_rtt.contains("Of the idle "), "{of_rtt}");
    let html = std::fs::read_to_string(&page).unwrap();
    let body = html.split_once("</h1>").unwrap().1;
    assert!(body.starts_with("<p class=\"finding\">Down, TCP gets "), "{}", &body[..80]);
    assert_eq!(body.matches("<h2>").count(), wanted.len());
}

#[test]
fn a_part_that_is_refused_is_told_and_the_rest_goes_on() {
    // So little may be moved that the search for the capacity is refused, and round trips are not.
    let server = Server::start(&["--volume-max", "100 KB"]);
    let parts = ["--parts", "sweep,hops", "--json", "-", "--ways", "down"];
    let output = server.measure(&[&["all"], &SHORT[..], &parts].concat());
    let said = words(&output);
    let all = document(&output);
    let sweep = all["parts"][0]["error"].as_str().unwrap();
    assert!(sweep.contains("allows 100.000 kB per hour") || sweep.contains("per hour and client"), "{sweep}");
    assert!(said.contains("sweep: ") && said.contains("; the rest goes on"), "{said}");
    assert_eq!(all["parts"][1]["document"]["phases"][0]["load"], "idle", "{all}");
}

#[test]
fn what_was_measured_before_an_interruption_is_kept() {
    let server = Server::start(&[]);
    let arguments = ["all", "--parts", "rtt,tcp", "--time", "1 s", "--search-time", "1 s", "--ways", "down"];
    let mut client = server
        .client(&[&arguments[..], &["--rate-max", "10 Mbit/s", "--json", "-"]].concat())
        .spawn()
        .unwrap();
    let mut lines = BufReader::new(client.stderr.take().unwrap()).lines().map(Result::unwrap);
    assert!(lines.any(|line| line.contains("2/2 tcp: about ")), "the second part begins");
    interrupt(client.id());
    let output = client.wait_with_output().unwrap();
    assert!(lines.last().unwrap().contains("interrupted"));
    assert_eq!(output.status.code(), Some(130));
    let all = document(&output);
    schema::check_against(&all, ALL);
    assert_eq!(
        (&all["incomplete"], &all["parts"][0]["error"]),
        (&"interrupted".into(), &serde_json::Value::Null)
    );
}

#[test]
fn silences_that_were_not_learned_are_tried_when_resumed() {
    let server = Server::start(&[]);
    let path = file("timeout.json");
    let to = path.to_str().unwrap();
    let mut client = server.client(&["timeout", "--silences", "500 ms,4 s", "--json", to]).spawn().unwrap();
    let mut clock = Command::new("sleep").arg("2").spawn().unwrap();
    clock.wait().unwrap();
    interrupt(client.id());
    assert_eq!(client.wait().unwrap().code(), Some(130));
    let partial: serde_json::Value = serde_json::from_str(&std::fs::read_to_string(&path).unwrap()).unwrap();
    let lived =
        |document: &serde_json::Value, at: usize| document["bindings"][at]["silences"][1]["lived"].clone();
    assert_eq!((lived(&partial, 0), lived(&partial, 1)), (serde_json::Value::Null, serde_json::Value::Null));
    let output = server.measure(&["timeout", "--resume", to, "--json", "-"]);
    let whole = document(&output);
    schema::check_against(&whole, TIMEOUT);
    for binding in whole["bindings"].as_array().unwrap() {
        assert_eq!((&binding["lived_s"], &binding["died_s"]), (&4.0.into(), &serde_json::Value::Null));
        assert_eq!(binding["silences"].as_array().unwrap().len(), 2);
    }
    std::fs::write(&path, whole.to_string()).unwrap();
    let again = server.measure(&["timeout", "--resume", to]);
    assert!(words(&again).contains("nothing is left in it to be learned"), "{}", words(&again));
}
