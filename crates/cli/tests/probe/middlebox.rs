//! What `probe middlebox` says of boxes that are known: this project's accelerator, HAProxy, NAT, nftables,
//! nginx as a cache. Needs root.

use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};

use io::{Clock, INSTANCE_DIRECTORY, SpawnOptions, Waiter};
use lab::{Emulator, Keep, Network, Role, Waking};
use link::{DelayModel, LinkConfig, LossModel};
use scenario::{Client, LinkPlan};
use serde_json::Value;
use tempfile::TempDir;
use units::Duration;

use crate::probe::link::{document, one_at_a_time};
use crate::probe::loopback::{Server, words};
use crate::schema;

const SCHEMA: &str = include_str!("../../../../schemas/probe-middlebox.schema.json");
const SERVER: &str = "10.1.0.2";
/// Labs at the same time: they mostly wait.
const AT_ONCE: usize = 8;
/// What most cells have for a delay.
const DELAY: &str = "1500 ms";

/// What stands in between.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Between {
    /// `cellerator run`.
    Engine,
    /// HAProxy as a transparent proxy.
    HaProxy,
    /// Masquerading by nftables, with connection tracking.
    Nat,
}

#[derive(Clone, Copy, Debug)]
struct Cell {
    between: Between,
    rtt_ms: u64,
    loss_percent: u32,
    /// The path drops three of four of the client's bare acknowledgements.
    is_stretched: bool,
}

/// A child that is killed when dropped.
struct Killed(Child);

impl Drop for Killed {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// Client, box and server in namespaces.
struct Lab {
    // Dropped in this order: processes are in namespaces of the network.
    running: Vec<Killed>,
    _emulator: Emulator,
    network: Network,
    directory: TempDir,
}

impl Lab {
    fn build(name: &str, rtt_ms: u64, loss_percent: u32) -> Self {
        let mut network = Network::create(name, &scenario::Server::default(), &Client::default()).unwrap();
        let devices = network.take_devices().unwrap();
        let ppm = loss_percent * 10_000;
        let link = |seed: u64, is_lossy: bool| LinkConfig {
            delay: DelayModel::Fixed(Duration::from_micros(rtt_ms * 250)),
            loss_before: if is_lossy { LossModel::Bernoulli { ppm } } else { LossModel::None },
            seed,
            ..LinkConfig::default()
        };
        // Seeds differ between cells, and are the same in each run.
        let seed = rtt_ms * 100 + u64::from(loss_percent);
        let plan = LinkPlan {
            wan_down: link(seed, false),
            wan_up: link(seed + 1, false),
            radio_down: link(seed + 2, ppm > 0),
            radio_up: link(seed + 3, ppm > 0),
            feedback: None,
        };
        let emulator = Emulator::start(devices, &plan, Keep::Nothing, Waking::OnTimer, None).unwrap();
        let directory = tempfile::tempdir().unwrap();
        Self { running: Vec::new(), _emulator: emulator, network, directory }
    }

    fn spawn(&self, host: Role, command: Command) -> Child {
        let mut command = command;
        command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
        self.network.namespace(host).spawn(command, SpawnOptions::default()).unwrap()
    }

    fn cellerator(&self, host: Role, arguments: &[&str]) -> Child {
        let mut command = Command::new(env!("CARGO_BIN_EXE_cellerator"));
        command.args(arguments);
        self.spawn(host, command)
    }

    /// Runs a program to its end.
    fn run(&self, host: Role, program: &str, arguments: &[&str]) {
        let mut command = Command::new(program);
        command.args(arguments);
        let output = self.spawn(host, command).wait_with_output().unwrap();
        assert!(output.status.success(), "{program} {arguments:?}: {}", words(&output));
    }

    fn nft(&self, host: Role, rules: &str) {
        self.run(host, "nft", &[rules]);
    }

    /// Starts the server, which says that it listens.
    fn serve(&mut self, ports: &[&str]) {
        let mut child = self.cellerator(Role::Server, &[&["probe", "server"], ports].concat());
        let mut lines = BufReader::new(child.stderr.take().unwrap()).lines();
        assert!(lines.any(|line| line.unwrap().contains("listening at")));
        std::thread::spawn(move || lines.for_each(drop));
        self.running.push(Killed(child));
    }

    fn put_between(&mut self, between: Between) {
        match between {
            Between::Engine => {
                let arguments = ["run", "--wired", lab::WAN, "--mobile", lab::RADIO];
                let mut child = self.cellerator(Role::Accelerator, &arguments);
                let mut lines = BufReader::new(child.stdout.take().unwrap()).lines();
                assert!(lines.any(|line| line.unwrap().starts_with("ready")), "the accelerator is not ready");
                std::thread::spawn(move || lines.for_each(drop));
                // What it says of each flow must not fill its pipe.
                let errors = BufReader::new(child.stderr.take().unwrap()).lines();
                std::thread::spawn(move || errors.for_each(drop));
                self.running.push(Killed(child));
            }
            Between::HaProxy => self.put_haproxy(),
            Between::Nat => self.nft(
                Role::Accelerator,
                "add table ip t; add chain ip t c { type nat hook postrouting priority 100; }; \
                 add rule ip t c oifname wan0 masquerade",
            ),
        }
    }

    /// The packet filter gives it the clients' connections; it makes its own from the client's address.
    fn put_haproxy(&mut self) {
        const PORT: u16 = 3_129;
        let host = Role::Accelerator;
        for arguments in ["rule add fwmark 1 lookup 3129", "route add local 0.0.0.0/0 dev lo table 3129"] {
            self.run(host, "ip", &arguments.split(' ').collect::<Vec<_>>());
        }
        self.nft(
            host,
            &format!(
                "add table ip t; add chain ip t in {{ type filter hook prerouting priority mangle; }}; \
                 add rule ip t in meta l4proto tcp socket transparent 1 meta mark set 1 accept; \
                 add rule ip t in iifname radio0 meta l4proto tcp tproxy to :{PORT} meta mark set 1 accept"
            ),
        );
        let configuration = format!(
            "defaults\n  mode tcp\n  timeout connect 20s\n  timeout client 60s\n  timeout server 60s\n\
             frontend clients\n  bind 0.0.0.0:{PORT} transparent\n  default_backend servers\n\
             backend servers\n  source 0.0.0.0 usesrc clientip\n  option transparent\n"
        );
        let path = self.directory.path().join("haproxy.cfg");
        std::fs::write(&path, configuration).unwrap();
        let mut command = Command::new(find("haproxy").unwrap());
        command.arg("-db").arg("-f").arg(path);
        self.start_listening(command, PORT);
    }

    /// nginx answers port 80 in the server's stead, and keeps what may be kept.
    fn put_cache(&mut self) {
        let directory = self.directory.path().display();
        let configuration = format!(
            "daemon off; master_process off; pid {directory}/pid; error_log {directory}/log; user root;\n\
             events {{}}\nhttp {{ access_log off;\n\
             client_body_temp_path {directory}; proxy_temp_path {directory};\n\
             fastcgi_temp_path {directory}; uwsgi_temp_path {directory}; scgi_temp_path {directory};\n\
             proxy_cache_path {directory}/cache keys_zone=z:1m;\n\
             server {{ listen 8080; location / {{ proxy_pass http://{SERVER}:80; proxy_cache z; }} }} }}\n"
        );
        let path = self.directory.path().join("nginx.conf");
        std::fs::write(&path, configuration).unwrap();
        self.nft(
            Role::Accelerator,
            "add table ip t; add chain ip t c { type nat hook prerouting priority -100; }; \
             add rule ip t c iifname radio0 tcp dport { 80, 443 } redirect to :8080",
        );
        let mut command = Command::new(find("nginx").unwrap());
        command.arg("-c").arg(path).arg("-p").arg(self.directory.path());
        self.start_listening(command, 8_080);
    }

    /// Starts a program in the box, and waits until it listens.
    fn start_listening(&mut self, command: Command, port: u16) {
        let mut child = self.spawn(Role::Accelerator, command);
        let mut waiter = Waiter::new(Duration::ZERO).unwrap();
        let give_up = Clock::now() + Duration::from_secs(20);
        let local = format!(":{port:04X} 00000000:0000 0A");
        let sockets = format!("/proc/{}/net/tcp", child.id());
        while !std::fs::read_to_string(&sockets).unwrap_or_default().contains(&local) {
            assert!(
                child.try_wait().unwrap().is_none() && Clock::now() < give_up,
                "port {port} does not listen"
            );
            waiter.wait(Some(Clock::now() + Duration::from_millis(20))).unwrap();
        }
        self.running.push(Killed(child));
    }

    fn measure(&self, arguments: &[&str]) -> Value {
        let fixed = ["probe", "middlebox", SERVER, "--json", "-", "--patience", "30 s"];
        let output =
            self.cellerator(Role::Client, &[&fixed[..], arguments].concat()).wait_with_output().unwrap();
        document(&output)
    }
}

/// Debian has some programs where only root's PATH leads.
fn find(program: &str) -> Option<PathBuf> {
    let path = std::env::var_os("PATH").unwrap_or_default();
    let places = std::env::split_paths(&path).chain(["/usr/sbin".into(), "/usr/local/sbin".into()]);
    places.map(|place| place.join(program)).find(|program| program.is_file())
}

/// So that what a killed test has left behind goes at the next start of a lab.
fn register(names: &[String]) -> io::Instance {
    let registered = io::Instance::register(Path::new(INSTANCE_DIRECTORY), "lab")
        .unwrap_or_else(|e| panic!("this test needs root and a TUN device: {e}"));
    let namespaces = names.iter().flat_map(|name| Role::ALL.map(|host| Network::namespace_name(name, host)));
    let record = serde_json::json!({
        "name": names[0], "title": "a test", "namespaces": namespaces.collect::<Vec<_>>()
    });
    registered.record(&record.to_string()).unwrap();
    registered
}

/// The program as one who may not open raw sockets runs it.
fn without_raw_sockets() -> Command {
    let mut command = Command::new("setpriv");
    command.args(["--bounding-set", "-net_raw", "--inh-caps", "-net_raw", env!("CARGO_BIN_EXE_cellerator")]);
    command
}

fn name(number: usize) -> String {
    format!("middlebox-{}-{number}", std::process::id())
}

/// Runs something in a lab of its own.
fn in_lab<T>(rtt_ms: u64, act: impl FnOnce(&mut Lab) -> T) -> T {
    let _turn = one_at_a_time();
    let _registered = register(&[name(0)]);
    act(&mut Lab::build(&name(0), rtt_ms, 0))
}

fn finding<'a>(document: &'a Value, test: &str, port: u16) -> &'a Value {
    let all = document["findings"].as_array().unwrap();
    let found = all.iter().find(|finding| finding["test"] == test && finding["port"] == port);
    found.unwrap_or_else(|| panic!("no {test} of port {port}: {document:#}"))
}

/// What a cell must be told to be, and what it was, when that differs.
fn cell(cell: &Cell, number: usize) -> Result<String, String> {
    let mut lab = Lab::build(&name(number), cell.rtt_ms, cell.loss_percent);
    lab.serve(&[]);
    lab.put_between(cell.between);
    if cell.is_stretched {
        // In front of the box: whatever it is, it sees one of four.
        lab.nft(
            Role::Client,
            "add table ip s; add chain ip s c { type filter hook output priority 0; }; \
             add rule ip s c meta length 40-79 tcp flags & (syn|ack|psh|rst|fin) == ack \
             numgen inc mod 4 != 0 drop",
        );
    }
    let document = lab.measure(&["--tests", "split", "--delay", DELAY]);
    let found = finding(&document, "split", 7_311);
    let wanted = if cell.between == Between::Nat { "clear" } else { "found" };
    let told = format!("{cell:?}: {}: {}", found["verdict"], found["evidence"]);
    if found["outcome"] == wanted { Ok(told) } else { Err(told) }
}

/// Goes through cells, some at a time.
fn go_through(cells: &[Cell]) {
    let _turn = one_at_a_time();
    let _registered = register(&(0..cells.len()).map(name).collect::<Vec<_>>());
    let (next, wrong) = (AtomicUsize::new(0), Mutex::new(Vec::new()));
    std::thread::scope(|scope| {
        for _ in 0..AT_ONCE {
            scope.spawn(|| {
                loop {
                    let number = next.fetch_add(1, Ordering::SeqCst);
                    let Some(one) = cells.get(number) else { return };
                    match cell(one, number) {
                        Ok(told) => eprintln!("{told}"),
                        Err(told) => wrong.lock().unwrap().push(told),
                    }
                }
            });
        }
    });
    let wrong = wrong.into_inner().unwrap();
    assert!(wrong.is_empty(), "{} of {} cells are wrong:\n{}", wrong.len(), cells.len(), wrong.join("\n"));
}

fn cells(rtts_ms: &[u64], losses_percent: &[u32], is_wanted: impl Fn(&Cell) -> bool) -> Vec<Cell> {
    let mut all = Vec::new();
    for between in [Between::Engine, Between::HaProxy, Between::Nat] {
        for (rtt_ms, loss_percent) in
            rtts_ms.iter().flat_map(|rtt| losses_percent.iter().map(|loss| (*rtt, *loss)))
        {
            all.extend([false, true].map(|is_stretched| Cell {
                between,
                rtt_ms,
                loss_percent,
                is_stretched,
            }));
        }
    }
    all.retain(is_wanted);
    all
}

#[test]
fn split_connections_are_told_from_those_that_are_not() {
    let has_haproxy = find("haproxy").is_some();
    if !has_haproxy {
        eprintln!("without HAProxy, which is not installed: apt-get install --no-install-recommends haproxy");
    }
    // Of the corners of the matrix those that differ most; `make middlebox` has them all.
    let is_wanted = |cell: &Cell| {
        cell.is_stretched == (cell.loss_percent == 5) && (has_haproxy || cell.between != Between::HaProxy)
    };
    go_through(&cells(&[20, 600], &[0, 5], is_wanted));
}

#[test]
#[ignore = "takes minutes, and needs HAProxy: make middlebox"]
fn split_connections_are_told_in_every_cell_of_the_matrix() {
    assert!(find("haproxy").is_some(), "HAProxy is missing: apt-get install --no-install-recommends haproxy");
    go_through(&cells(&[20, 100, 600], &[0, 1, 5], |_| true));
}

#[test]
fn a_path_without_a_middlebox_is_clear_and_everything_follows_the_schema() {
    let (found, six) = in_lab(20, |lab| {
        lab.serve(&["--ports", "80,5201"]);
        lab.run(Role::Server, "sysctl", &["-qw", "net.ipv4.tcp_ecn=1"]);
        let found = lab.measure(&["--delay", DELAY]);
        let arguments = ["probe", "middlebox", "fd00:1::2", "--delay", DELAY, "--ports", "80", "--json", "-"];
        (found, document(&lab.cellerator(Role::Client, &arguments).wait_with_output().unwrap()))
    });
    assert_eq!((&six["server"]["ip_version"], six["connections"].as_array().unwrap().len()), (&6.into(), 20));
    let is_clear = |finding: &Value| finding["outcome"] == "clear";
    assert!(six["findings"].as_array().unwrap().iter().all(is_clear), "{:#}", six["findings"]);
    schema::check_against(&found, SCHEMA);
    assert!(found["incomplete"].is_null());
    let outcomes = found["findings"].as_array().unwrap().iter();
    let not_clear: Vec<&Value> = outcomes.filter(|finding| finding["outcome"] != "clear").collect();
    assert!(not_clear.is_empty(), "{not_clear:#?}");
    // The main one, two that were asked for, and one at random.
    for test in ["split", "mp-join", "payload", "ecn", "cache", "handshake"] {
        let all = found["findings"].as_array().unwrap().iter();
        assert_eq!(all.filter(|finding| finding["test"] == test).count(), 4, "{test}");
    }
    assert!(finding(&found, "ecn", 80)["evidence"].as_str().unwrap().contains("ECT(0) of a packet came"));
    let refused = found["findings"].as_array().unwrap().iter();
    // The one that the server holds: of others it tells nobody.
    assert_eq!(refused.filter(|finding| finding["test"] == "refused-port").count(), 1);
    let verdict = found["verdict"].as_str().unwrap();
    assert_eq!(
        verdict,
        "Connections are whole, not split, at all 4 ports; nothing else that was tested is changed on the way."
    );
}

#[test]
fn what_nftables_does_to_options_is_found() {
    let found = in_lab(20, |lab| {
        lab.serve(&["--ports", "80"]);
        lab.nft(
            Role::Accelerator,
            "add table ip t; add chain ip t c { type filter hook forward priority 0; }; \
             add rule ip t c tcp flags syn tcp option maxseg size set 1200; \
             add rule ip t c tcp flags syn reset tcp option sack-perm; \
             add rule ip t c tcp flags syn reset tcp option 254; \
             add rule ip t c tcp option 253 exists drop; \
             add rule ip t c tcp dport 80 tcp option mptcp subtype 1 reset tcp option mptcp; \
             add rule ip t c tcp flags & (syn|ack|ecn|cwr) == syn|ecn|cwr tcp flags set syn; \
             add chain ip t n { type nat hook postrouting priority 100; }; \
             add rule ip t n oifname wan0 masquerade",
        );
        lab.measure(&["--tests", "options,refused", "--ports", "80"])
    });
    let of = |test: &str, port: u16| {
        let finding = finding(&found, test, port);
        (finding["outcome"].as_str().unwrap().to_owned(), finding["verdict"].as_str().unwrap().to_owned())
    };
    let is = |outcome: &str, verdict: &str| (outcome.to_owned(), verdict.to_owned());
    for port in [80, 7_311] {
        assert_eq!(of("mss", port), is("found", "1460 becomes 1200"));
        assert_eq!(of("sack", port), is("found", "removed"));
        assert_eq!(of("experiment-254", port), is("found", "removed"));
        assert_eq!(of("experiment-253", port), is("found", "connections with it fail"));
        assert_eq!(of("ecn", port), is("found", "flags of the SYN are altered"));
        for test in ["timestamps", "window-scale", "mp-capable", "fast-open", "sequence-numbers", "payload"] {
            assert_eq!(of(test, port).0, "clear", "{test}");
        }
        assert_eq!(of("address", port), is("found", "the address is translated"));
    }
    // [MP] met this at one carrier: additional flows lose MPTCP at port 80, and only there.
    assert_eq!(of("mp-join", 80), is("found", "removed"));
    assert_eq!(of("mp-join", 7_311), is("clear", "kept"));
    // Of eight that are changed one sentence names some; the table has all.
    let verdict = found["verdict"].as_str().unwrap();
    assert!(verdict.contains("hanged on the way: ") && verdict.contains(", and 5 more"), "{verdict}");
    assert!(verdict.ends_with('.') && !verdict.contains(". ") && verdict.len() < 250, "{verdict}");
}

#[test]
fn a_caching_proxy_of_port_80_is_found_and_nothing_at_other_ports() {
    let (found, plain) = in_lab(60, |lab| {
        lab.serve(&["--ports", "80"]);
        lab.put_cache();
        let found = lab.measure(&["--delay", DELAY, "--ports", "80,443"]);
        let mut command = without_raw_sockets();
        command.args(["probe", "middlebox", SERVER, "--ports", "80", "--json", "-"]);
        (found, document(&lab.spawn(Role::Client, command).wait_with_output().unwrap()))
    });
    // The server does not say whether somebody listens at port 443 of its host.
    let ports = found["ports"].as_array().unwrap();
    let asked_in_vain = ports.iter().find(|port| port["port"] == 443).unwrap();
    assert_eq!(asked_in_vain["state"], "not the server's");
    // What a user who is not root sees.
    for test in ["split", "cache", "handshake", "mss"] {
        let outcomes = [80, 7_311].map(|port| finding(&plain, test, port)["outcome"].as_str().unwrap());
        assert_eq!(outcomes, [if test == "mss" { "clear" } else { "found" }, "clear"], "{test}");
    }
    let outcome = |test: &str, port: u16| finding(&found, test, port)["outcome"].as_str().unwrap().to_owned();
    for test in ["split", "cache", "handshake", "sequence-numbers", "payload", "address"] {
        assert_eq!((outcome(test, 80).as_str(), outcome(test, 7_311).as_str()), ("found", "clear"), "{test}");
    }
    let verdict = found["verdict"].as_str().unwrap();
    assert!(verdict.starts_with("Connections are split at port 80: "), "{verdict}");
}

#[test]
fn without_root_the_rest_is_done_and_what_is_missing_is_said() {
    // Half a second of delay is above what the loopback device takes.
    let server = Server::start(&[]);
    let output = without_raw_sockets()
        .args(["probe", "middlebox", "127.0.0.1", "--port", &server.port, "--delay", "500 ms", "--json", "-"])
        .output()
        .unwrap();
    let found = document(&output);
    schema::check_against(&found, SCHEMA);
    let lacks = found["not_done"].as_array().unwrap();
    assert_eq!(lacks.len(), 1, "{lacks:?}");
    assert!(lacks[0]["why"].as_str().unwrap().contains("CAP_NET_RAW: run as root"));
    let port: u16 = server.port.parse().unwrap();
    for test in ["split", "cache", "mss", "sack", "timestamps", "window-scale", "handshake", "payload"] {
        assert_eq!(finding(&found, test, port)["outcome"], "clear", "{test}");
    }
    assert!(found["connections"].as_array().unwrap().is_empty());
}

#[test]
fn failures_are_one_line_and_what_was_learned_is_kept() {
    let server = Server::start(&[]);
    let output = server.measure(&["middlebox", "--delay", "1 us"]);
    assert!(words(&output).contains("is too short: at least 1 ms"), "{}", words(&output));
    let output = in_lab(100, |lab| {
        lab.serve(&[]);
        let arguments = ["probe", "middlebox", SERVER, "--delay", "80 ms"];
        lab.cellerator(Role::Client, &arguments).wait_with_output().unwrap()
    });
    // The longest round trip of a busy machine may be any length above the path's.
    let last = words(&output).lines().last().unwrap().to_owned();
    let (_, longest) = last
        .split_once("--delay 80.000 ms is not above the path's round trip, which is up to ")
        .unwrap_or_else(|| panic!("{last}"));
    let longest: f64 = longest.split_once(" ms:").unwrap().0.parse().unwrap();
    assert!((100.0..80_000.0).contains(&longest), "{last}");

    let begun = |server: &Server| {
        let mut client = server.client(&["middlebox", "--delay", "20 s", "--json", "-"]).spawn().unwrap();
        let mut lines = BufReader::new(client.stderr.take().unwrap()).lines();
        assert!(lines.any(|line| line.unwrap().contains("connections to")));
        let mut clock = Command::new("sleep").arg("3").spawn().unwrap();
        clock.wait().unwrap();
        (client, lines)
    };
    // The server goes in the middle of the delay.
    let mut gone = Server::start(&[]);
    let (client, lines) = begun(&gone);
    gone.kill();
    let last = lines.map(Result::unwrap).last().unwrap();
    assert!(last.contains("does not answer any more; what was measured until then is kept"), "{last}");
    let kept: Value = serde_json::from_slice(&client.wait_with_output().unwrap().stdout).unwrap();
    schema::check_against(&kept, SCHEMA);
    let port: u16 = gone.port.parse().unwrap();
    assert_eq!(finding(&kept, "handshake", port)["outcome"], "clear", "what needs no report");
    assert_eq!(finding(&kept, "split", port)["outcome"], "unknown");

    // Ctrl-C does.
    let (client, lines) = begun(&server);
    Command::new("kill").args(["-INT", &client.id().to_string()]).status().unwrap();
    lines.for_each(drop);
    let output = client.wait_with_output().unwrap();
    assert_eq!(output.status.code(), Some(130));
    let kept: Value = serde_json::from_slice(&output.stdout).unwrap();
    schema::check_against(&kept, SCHEMA);
    assert_eq!(kept["incomplete"], "interrupted");
    let port: u16 = server.port.parse().unwrap();
    assert_eq!(finding(&kept, "cache", port)["outcome"], "clear");
    assert_eq!(finding(&kept, "mp-capable", port)["outcome"], "clear");
}
