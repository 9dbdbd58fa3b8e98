//! `cellerator probe` over the loopback device: documents, messages, exit codes. Needs no root.

use std::io::{BufRead, BufReader, Lines};
use std::process::{Child, ChildStderr, Command, Output, Stdio};

use serde_json::Value;
use tempfile::TempPath;

use crate::schema;

const SWEEP: &str = include_str!("../../../../schemas/probe-sweep.schema.json");
const TCP: &str = include_str!("../../../../schemas/probe-tcp.schema.json");
const COMPARE: &str = include_str!("../../../../schemas/probe-compare.schema.json");
const TIMEOUT: &str = include_str!("../../../../schemas/probe-timeout.schema.json");
const RTT: &str = include_str!("../../../../schemas/probe-rtt.schema.json");

pub struct Server {
    child: Child,
    pub port: String,
}

impl Server {
    pub fn start(arguments: &[&str]) -> Self {
        let mut child = Command::new(env!("CARGO_BIN_EXE_cellerator"))
            .args(["probe", "server", "--listen", "127.0.0.1:0"])
            .args(arguments)
            .stderr(Stdio::piped())
            .spawn()
            .unwrap();
        let mut lines = BufReader::new(child.stderr.take().unwrap()).lines();
        let line = lines.by_ref().map(Result::unwrap).find(|line| line.contains("listening at")).unwrap();
        let port = line.split(':').nth(1).unwrap().split(' ').next().unwrap().to_owned();
        // What it says later must not fill its pipe.
        std::thread::spawn(move || lines.for_each(drop));
        Self { child, port }
    }

    pub fn kill(&mut self) {
        self.child.kill().unwrap();
    }

    pub fn client(&self, arguments: &[&str]) -> Command {
        let mut command = Command::new(env!("CARGO_BIN_EXE_cellerator"));
        let (kind, rest) = arguments.split_first().unwrap();
        command.args(["probe", kind, "127.0.0.1", "--port", &self.port]).args(rest);
        command.stdout(Stdio::piped()).stderr(Stdio::piped());
        command
    }

    pub fn measure(&self, arguments: &[&str]) -> Output {
        self.client(arguments).output().unwrap()
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

pub fn words(output: &Output) -> String {
    String::from_utf8_lossy(&output.stderr).into_owned()
}

pub fn document(output: &Output) -> Value {
    assert!(!output.stdout.is_empty(), "{}", words(output));
    serde_json::from_slice(&output.stdout).unwrap()
}

pub fn file(name: &str) -> TempPath {
    tempfile::Builder::new().suffix(name).tempfile().unwrap().into_temp_path()
}

#[test]
fn documents_follow_their_schemas_and_pages_begin_with_the_verdict() {
    let server = Server::start(&[]);
    let page = file("sweep.html");
    let arguments = ["sweep", "--rates", "1 Mbit/s,4 Mbit/s", "--time", "500 ms", "--json", "-", "--html"];
    let output = server.measure(&[&arguments[..], &[page.to_str().unwrap()]].concat());
    assert!(output.status.success(), "{}", words(&output));
    let sweep = document(&output);
    schema::check_against(&sweep, SWEEP);
    for way in sweep["directions"].as_array().unwrap() {
        for step in way["steps"].as_array().unwrap() {
            assert_eq!((&step["lost"], &step["sent"]), (&0.into(), &step["received"]), "{step}");
            assert!(step["echoes_returned"].as_u64().unwrap() > 20);
        }
    }
    let html = std::fs::read_to_string(&page).unwrap();
    let verdict = sweep["verdict"].as_str().unwrap();
    let body = html.split_once("</h1>").unwrap().1;
    assert!(body.starts_with("<p class=\"finding\">Download: "), "{verdict}");

    let rtt = document(&server.measure(&["rtt", "--load", "4 Mbit/s", "--time", "500 ms", "--json", "-"]));
    schema::check_against(&rtt, RTT);
    let kept = [("rtt.json", &rtt), ("sweep.json", &sweep)].map(|(name, document)| {
        let path = file(name);
        std::fs::write(&path, document.to_string()).unwrap();
        path
    });
    let named = format!("wired={}", kept[0].display());
    let compare = Command::new(env!("CARGO_BIN_EXE_cellerator"))
        .args(["probe", "compare", &named, kept[1].to_str().unwrap(), "--json", "-"])
        .output()
        .unwrap();
    let comparison = document(&compare);
    schema::check_against(&comparison, COMPARE);
    let environments = comparison["round_trips"].as_array().unwrap().iter().map(|row| &row["environment"]);
    assert_eq!(environments.collect::<Vec<_>>(), ["wired"; 3]);
    assert_eq!(comparison["capacities"].as_array().unwrap().len(), 2);
    let loads: Vec<&str> =
        rtt["phases"].as_array().unwrap().iter().map(|phase| phase["load"].as_str().unwrap()).collect();
    assert_eq!(loads, ["idle", "down", "up"]);
    assert!(rtt["verdict"].as_str().unwrap().starts_with("Idle, an answer takes "));
}

#[test]
fn tcp_transfers_have_the_table_of_the_paper() {
    let server = Server::start(&["--rate-max", "50 Mbit/s"]);
    let tcp = document(&server.measure(&["tcp", "--time", "500 ms", "--repetitions", "2", "--json", "-"]));
    schema::check_against(&tcp, TCP);
    let rows = tcp["rows"].as_array().unwrap();
    assert_eq!(rows.iter().map(|row| &row["runs"]).collect::<Vec<_>>(), [2, 2]);
    // The server sends no faster than it allows others to; its kernel paces by frames.
    for run in tcp["runs"].as_array().unwrap().iter().filter(|run| run["direction"] == "down") {
        let goodput = run["goodput_mbps"].as_f64().unwrap();
        assert!(goodput < 60.0, "{goodput}");
        assert!(run["samples"].as_array().unwrap().len() >= 3 && run["bytes"].as_u64().unwrap() > 100_000);
    }
    let output = server.measure(&["tcp", "--cc", "none_such", "--ways", "down"]);
    assert!(
        words(&output).contains("the server has no congestion control 'none_such'"),
        "{}",
        words(&output)
    );
}

#[test]
fn a_search_measures_shares_of_what_it_found() {
    let server = Server::start(&["--rate-max", "30 Mbit/s"]);
    let arguments = ["sweep", "--ways", "up", "--search-time", "2 s", "--time", "200 ms", "--json", "-"];
    let sweep = document(&server.measure(&arguments));
    schema::check_against(&sweep, SWEEP);
    let way = &sweep["directions"][0];
    assert_eq!(way["search"]["is_search"], true);
    assert!(way["steps"].as_array().unwrap().len() >= 5);
}

#[test]
fn what_is_wrong_is_one_line() {
    let key = file("key");
    std::fs::write(&key, "secret\n").unwrap();
    std::fs::set_permissions(&key, std::os::unix::fs::PermissionsExt::from_mode(0o600)).unwrap();
    let path = key.to_str().unwrap();
    let server = Server::start(&["--key-file", path, "--sessions", "1", "--rate-max", "2 Mbit/s"]);
    let refused = |output: &Output, why: &str| {
        let said = words(output);
        assert_eq!(output.status.code(), Some(1), "{said}");
        let last = said.lines().last().unwrap();
        assert!(last.starts_with("cellerator: ") && last.contains(why), "{said}");
    };
    refused(&server.measure(&["rtt", "--idle"]), "wrong key");
    let keyed = |arguments: &[&'static str]| -> Vec<&str> { [arguments, &["--key-file", path]].concat() };
    // A good-bye that is lost is none: the only session there may be goes with it.
    let output = server.measure(&keyed(&["sweep", "--rates", "3 Mbit/s"]));
    refused(&output, "allows at most 2.000 Mbit/s in a run");
    let mut first = server.client(&keyed(&["rtt", "--idle", "--time", "2 s"])).spawn().unwrap();
    let mut lines = BufReader::new(first.stderr.take().unwrap()).lines();
    assert!(lines.next().unwrap().unwrap().contains("idle"));
    refused(&server.measure(&keyed(&["rtt", "--idle"])), "overloaded");
    lines.for_each(drop);
    assert!(first.wait().unwrap().success());

    let nobody = Server { child: Command::new("true").spawn().unwrap(), port: "9".to_owned() };
    refused(&nobody.measure(&["rtt", "--idle"]), "nothing listens at 127.0.0.1 port 9");

    let taken = Command::new(env!("CARGO_BIN_EXE_cellerator"))
        .args(["probe", "server", "--listen", &format!("127.0.0.1:{}", server.port)])
        .output()
        .unwrap();
    refused(&taken, "another program has the port");
    let foreign = Command::new(env!("CARGO_BIN_EXE_cellerator"))
        .args(["probe", "server", "--listen", "192.0.2.1:7311"])
        .output()
        .unwrap();
    refused(&foreign, "with an address of this machine");
    let unknown = Command::new(env!("CARGO_BIN_EXE_cellerator"))
        .args(["probe", "rtt", "no-such-host.invalid", "--idle"])
        .output()
        .unwrap();
    refused(&unknown, "cannot find no-such-host.invalid");
}

#[test]
fn a_busy_server_measures_one_after_the_other() {
    let server = Server::start(&[]);
    let sweep = ["sweep", "--rates", "2 Mbit/s", "--ways", "up", "--time", "1 s", "--json", "-"];
    let clients: Vec<Child> = (0..2).map(|_| server.client(&sweep).spawn().unwrap()).collect();
    let outputs: Vec<Output> = clients.into_iter().map(|client| client.wait_with_output().unwrap()).collect();
    assert!(outputs.iter().all(|output| document(output)["incomplete"].is_null()));
    let waited = outputs.iter().filter(|output| words(output).contains("place 1 in its queue")).count();
    // A run that is made again takes a place of its own.
    let is_again = |output: &Output| {
        document(output)["directions"][0]["spoiled"].as_array().is_some_and(|runs| !runs.is_empty())
    };
    assert!(waited == 1 || waited == 2 && outputs.iter().any(is_again), "{waited}");
}

/// A measurement that has begun: its client, and what it says from then on.
fn begun(server: &Server, arguments: &[&str], says: &str) -> (Child, Lines<BufReader<ChildStderr>>) {
    let mut client = server.client(arguments).spawn().unwrap();
    let mut lines = BufReader::new(client.stderr.take().unwrap()).lines();
    let first = lines.next().unwrap().unwrap();
    assert!(first.contains(says), "{first}");
    // A second and a half of data.
    Command::new("sleep").arg("1.5").status().unwrap();
    (client, lines)
}

/// Kills the server; what the client keeps.
fn without_server(mut server: Server, client: Child, lines: Lines<BufReader<ChildStderr>>) -> Value {
    server.kill();
    let output = client.wait_with_output().unwrap();
    let last = lines.map(Result::unwrap).last().unwrap();
    assert!(last.contains("does not answer any more; what was measured until then is kept"), "{last}");
    assert_eq!(output.status.code(), Some(1));
    let kept = document(&output);
    assert!(kept["incomplete"].as_str().unwrap().contains("does not answer any more"), "{kept}");
    kept
}

const SWEPT: [&str; 9] =
    ["sweep", "--rates", "2 Mbit/s,3 Mbit/s", "--ways", "down", "--time", "20 s", "--json", "-"];

#[test]
fn what_was_measured_is_kept_when_the_server_disappears() {
    // With patience, and as soon as its host says that nobody listens, which is sooner.
    for patience in [&["--patience", "1 s"][..], &[]] {
        let server = Server::start(&[]);
        let (client, lines) = begun(&server, &[&SWEPT[..], patience].concat(), "down at 2.000 Mbit/s");
        let kept = without_server(server, client, lines);
        schema::check_against(&kept, SWEEP);
        let steps = kept["directions"][0]["steps"].as_array().unwrap();
        assert_eq!(steps.len(), 1);
        assert!(steps[0]["received"].as_u64().unwrap() > 100);
        assert_eq!(steps[0]["is_valid"], false);
    }

    // Who receives knows what came; who sends knows of it by acknowledgements. What limits a busy machine's own
    // loopback is the machine's affair.
    for (way, is_known) in [("down", false), ("up", true)] {
        let server = Server::start(&["--rate-max", "50 Mbit/s"]);
        let arguments = ["tcp", "--ways", way, "--time", "20 s", "--repetitions", "2", "--json", "-"];
        let (client, lines) = begun(&server, &arguments, &format!("{way} 1/2"));
        let kept = without_server(server, client, lines);
        schema::check_against(&kept, TCP);
        let runs = kept["runs"].as_array().unwrap();
        assert_eq!(runs.len(), 1, "{way}");
        assert!(runs[0]["bytes"].as_u64().unwrap() > 1_000_000, "{way}: {}", runs[0]["bytes"]);
        assert_eq!(runs[0]["limit"]["by"] != "not known", is_known, "{way}: {}", runs[0]["limit"]);
        // It ended with the server, not after its 20 s.
        let seconds = runs[0]["seconds"].as_f64().unwrap();
        assert!((1.0..15.0).contains(&seconds), "{way}: {seconds} s");
    }
}

#[test]
fn a_server_that_disappears_is_not_taken_for_a_path_that_forgets() {
    let server = Server::start(&[]);
    let arguments = ["timeout", "--silences", "500 ms,4 s", "--json", "-"];
    let (client, lines) = begun(&server, &arguments, "silent for up to 4.000 s");
    let kept = without_server(server, client, lines);
    schema::check_against(&kept, TIMEOUT);
    for bindings in kept["bindings"].as_array().unwrap() {
        assert_eq!((&bindings["lived_s"], &bindings["died_s"]), (&0.5.into(), &Value::Null), "{bindings}");
        let silence = &bindings["silences"][1];
        assert_eq!(silence["lived"], Value::Null);
        assert!(silence["why"].as_str().unwrap().contains("does not answer any more"), "{silence}");
    }
}

#[test]
fn what_was_measured_is_kept_when_the_user_ends_it() {
    let server = Server::start(&[]);
    let (client, lines) = begun(&server, &SWEPT, "down at 2.000 Mbit/s");
    let mut kill = Command::new("kill").args(["-INT", &client.id().to_string()]).spawn().unwrap();
    kill.wait().unwrap();
    let output = client.wait_with_output().unwrap();
    assert!(lines.map(Result::unwrap).last().unwrap().contains("interrupted"));
    assert_eq!(output.status.code(), Some(130));
    let kept = document(&output);
    assert_eq!(kept["incomplete"], "interrupted");
    assert!(kept["directions"][0]["steps"][0]["received"].as_u64().unwrap() > 100);
}

#[test]
fn tcp_tries_each_window_and_stays_within_the_volume() {
    let server = Server::start(&["--rate-max", "50 Mbit/s"]);
    let arguments =
        ["tcp", "--ways", "down", "--time", "300 ms", "--repetitions", "2", "--window", "20 KB,200 KB"];
    let tcp = document(&server.measure(&[&arguments[..], &["--json", "-"]].concat()));
    schema::check_against(&tcp, TCP);
    let rows = tcp["rows"].as_array().unwrap();
    let windows: Vec<u64> = rows.iter().map(|row| row["window_bytes"].as_u64().unwrap()).collect();
    assert_eq!(windows, [20_000, 200_000]);
    assert_eq!(rows.iter().map(|row| &row["runs"]).collect::<Vec<_>>(), [2, 2]);
    drop(server);

    // 300 ms at 50 Mbit/s are about 1.9 MB.
    let server = Server::start(&["--rate-max", "50 Mbit/s", "--volume-max", "3 MB"]);
    let output =
        server.measure(&["tcp", "--ways", "down", "--time", "300 ms", "--repetitions", "4", "--json", "-"]);
    let tcp = document(&output);
    let bytes: u64 = tcp["runs"].as_array().unwrap().iter().map(|run| run["bytes"].as_u64().unwrap()).sum();
    assert!((1_500_000..4_500_000).contains(&bytes), "{bytes}");
    assert!(words(&output).contains("hour"), "{}", words(&output));
}
