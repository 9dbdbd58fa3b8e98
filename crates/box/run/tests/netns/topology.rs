//! `client — box — server` in three fresh namespaces, and the program under test in the middle one.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::path::{Path, PathBuf};
use std::process::{Command, ExitStatus, Stdio};
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::mpsc;
use std::time::Duration;

use io::netlink::{Family, Link, Netlink, Table};
use io::{Clock, Host, Namespace, PidFd, SpawnOptions, Tethered, Waiter, lay_cable, sysctl};
use run::{Answer, Config, Question, Status, WatchdogConfig};

/// Longest wait for anything; reached only when a test fails.
pub const PATIENCE: Duration = Duration::from_secs(15);

/// The same for what programs do, which a busy machine leaves to wait: reached only when a test fails.
const PATIENCE_WITH_PROGRAMS: Duration = Duration::from_secs(60);

pub const SIGHUP: i32 = 1;
pub const SIGKILL: i32 = 9;
pub const SIGTERM: i32 = 15;
pub const SIGCONT: i32 = 18;
pub const SIGSTOP: i32 = 19;

/// Addresses of the three machines.
pub const SERVER: [&str; 2] = ["10.2.0.2", "fd02::2"];
pub const BOX_WIRED: [&str; 2] = ["10.2.0.1", "fd02::1"];
pub const BOX_MOBILE: [&str; 2] = ["10.1.0.1", "fd01::1"];

static COUNT: AtomicU32 = AtomicU32::new(0);

pub struct Topology {
    pub client: Host,
    pub middle: Host,
    pub server: Host,
    pub state: PathBuf,
}

impl Topology {
    /// Namespaces joined by virtual cables, with addresses, routes and forwarding.
    pub fn build(what: &str) -> Self {
        let number = COUNT.fetch_add(1, Ordering::Relaxed);
        let tag = format!("ct-run-{what}-{}-{number}", std::process::id());
        let create = |role: &str| {
            Host::create(&format!("{tag}-{role}")).unwrap_or_else(|e| panic!("this test needs root: {e}"))
        };
        let topology = Self {
            client: create("c"),
            middle: create("b"),
            server: create("s"),
            state: state_directory(&tag),
        };
        // No detection of duplicate addresses: the kernel would add routes in its own time.
        for namespace in [&topology.client, &topology.middle, &topology.server] {
            namespace.set("net/ipv6/conf/default/accept_dad", "0").unwrap();
        }
        topology.lay_cables(["w0", "m0"]);
        topology.set("net/ipv4/ip_forward", "1");
        topology.set("net/ipv6/conf/all/forwarding", "1");
        let netlink = topology.netlink();
        // What is sent before a cable is in operation is dropped.
        wait_until("the cables are in operation", || {
            let ends = [(&topology.client, "c0"), (&topology.server, "s0")];
            let outer = ends.iter().all(|(end, name)| end.netlink().unwrap().link(name).unwrap().is_running);
            outer && ["m0", "w0"].iter().all(|name| netlink.link(name).unwrap().is_running)
        });
        // The kernel makes IPv6 addresses usable in its own time.
        wait_until("all addresses are there", || {
            let routes = netlink.routes(Family::V6, Table(255)).unwrap();
            let routes: Vec<String> = routes.iter().map(ToString::to_string).collect();
            ["fd01::1/128", "fd02::1/128"].iter().all(|own| routes.iter().any(|route| route.starts_with(own)))
        });
        topology
    }

    /// Lays the cables of those of the box's interfaces, with all addresses and the hosts' routes.
    pub fn lay_cables<const N: usize>(&self, interfaces: [&str; N]) {
        for interface in interfaces {
            if interface == "m0" {
                let (theirs, own) = (["10.1.0.2/24", "fd01::2/64"], ["10.1.0.1/24", "fd01::1/64"]);
                self.cable(&self.client, "c0", theirs, "m0", own);
                default_routes(&self.client, BOX_MOBILE);
            } else {
                let (theirs, own) = (["10.2.0.2/24", "fd02::2/64"], ["10.2.0.1/24", "fd02::1/64"]);
                self.cable(&self.server, "s0", theirs, "w0", own);
                default_routes(&self.server, BOX_WIRED);
            }
        }
    }

    /// A cable from the box to `there`.
    pub fn cable(&self, there: &Namespace, name: &str, own: [&str; 2], here: &str, ours: [&str; 2]) {
        lay_cable([(&self.middle, here, &ours), (there, name, &own)]).unwrap();
    }

    pub fn netlink(&self) -> Netlink {
        self.middle.netlink().unwrap()
    }

    pub fn set(&self, path: &str, value: &str) {
        self.middle.set(path, value).unwrap();
    }

    pub fn config(&self) -> Config {
        Config {
            wired: "w0".to_owned(),
            mobile: "m0".to_owned(),
            // The same on every machine.
            shards: 1,
            // Long enough for a loaded machine, short enough for a test.
            watchdog: WatchdogConfig { hang_after_ms: 1_000, ..WatchdogConfig::default() },
            state_directory: self.state.clone(),
            ..Config::default()
        }
    }

    /// Runs a program in the box and gives its output; it must succeed.
    pub fn exec(&self, program: &str, arguments: &[&str]) -> String {
        let output = self.middle.output(&[&[program], arguments].concat()).unwrap();
        assert!(output.status.success(), "{program} {arguments:?} failed");
        String::from_utf8(output.stdout).unwrap()
    }

    /// What a clean machine must not show: our rules, devices, tables and records.
    pub fn leftovers(&self) -> Vec<String> {
        let netlink = self.netlink();
        let mut found = Vec::new();
        for family in Family::BOTH {
            let rules = netlink.rules(family).unwrap();
            found.extend(rules.iter().filter(|rule| rule.is_own).map(ToString::to_string));
            let tables = netlink.tables_in_use(family).unwrap();
            found.extend(tables.iter().filter(|table| table.0 >= 20_000).map(ToString::to_string));
        }
        let links = netlink.links().unwrap();
        found.extend(links.into_iter().map(|link| link.name).filter(|name| name.starts_with("cell")));
        found.extend(self.bpf_programs());
        let tables = self.exec("nft", &["list", "tables"]);
        found.extend(tables.lines().filter(|line| line.contains("cellerator")).map(str::to_owned));
        if let Ok(entries) = std::fs::read_dir(&self.state) {
            let names = entries.flatten().map(|entry| entry.file_name().to_string_lossy().into_owned());
            found.extend(names.filter(|name| name != "lock"));
        }
        found
    }

    /// True when the kernel knows VLAN devices.
    pub fn has_vlan_devices(&self) -> bool {
        self.middle.ip("link add link w0 name w0.6 type vlan id 6").is_ok()
    }

    /// Our programs at the box's interfaces.
    pub fn bpf_programs(&self) -> Vec<String> {
        let links = self.netlink().links().unwrap();
        let at = |link: &Link| {
            let programs = self.middle.run(|| io::bpf::programs_at(link.index)).unwrap();
            programs.into_iter().map(|program| format!("BPF program {program} at {}", link.name)).collect()
        };
        links.iter().flat_map(|link| -> Vec<String> { at(link) }).collect()
    }

    /// Everything the box has, for comparison.
    pub fn snapshot(&self) -> Vec<String> {
        let netlink = self.netlink();
        let mut all: Vec<String> = netlink.links().unwrap().into_iter().map(|link| link.name).collect();
        for family in Family::BOTH {
            all.extend(netlink.rules(family).unwrap().iter().map(ToString::to_string));
            for table in netlink.tables_in_use(family).unwrap() {
                let routes = netlink.routes(family, table).unwrap();
                all.extend(routes.iter().map(ToString::to_string));
            }
            // The kernel gives interfaces link-local addresses in its own time.
            all.retain(|line| !line.starts_with("fe80:"));
        }
        all.extend(self.bpf_programs());
        all.push(self.exec("nft", &["list", "ruleset"]));
        for path in ["net/ipv4/ip_forward", "net/ipv6/conf/all/forwarding"] {
            all.push(sysctl::read(&self.middle, path).unwrap());
        }
        all
    }

    /// What the running instance says of itself.
    pub fn status(&self) -> Status {
        let found = run::choose(run::find(&self.state).unwrap(), None).unwrap();
        match found.ask(&Question::Status).unwrap() {
            Answer::Status(status) => *status,
            other => panic!("{other:?}"),
        }
    }

    /// Number of packets the kernel has handed to the TUN devices.
    pub fn steered_packets(&self) -> u64 {
        let links = self.netlink().links().unwrap();
        links.iter().filter(|link| link.name.starts_with("cell")).map(|link| link.stats.tx_packets).sum()
    }

    /// Number of packets that have come to the box.
    pub fn received_packets(&self) -> u64 {
        let netlink = self.netlink();
        ["w0", "m0"].iter().map(|name| netlink.link(name).unwrap().stats.rx_packets).sum()
    }

    /// Ends whoever goes on in the place of a program that a failed test has killed.
    fn end_successors(&self) {
        is_soon(|| {
            let all = run::find(&self.state).unwrap_or_default();
            for found in &all {
                drop(PidFd::open(found.process).and_then(|process| process.send_signal(SIGTERM)));
            }
            let left = std::fs::read_dir(&self.state).into_iter().flatten().flatten();
            // Notes of hand-overs outlive everybody.
            let stays = |name: &str| name == "lock" || name.starts_with("handover-");
            let left = left.filter(|entry| !entry.file_name().to_str().is_some_and(stays));
            all.is_empty() && left.count() == 0
        });
    }

    /// A connection from the client to a server at `address`, which is in `at`.
    pub fn connect(&self, at: &Namespace, address: &str) -> Connection {
        let any = if address.contains(':') { "::" } else { "0.0.0.0" };
        self.connect_from(any, at, address)
    }

    /// The same from one of the client's addresses.
    pub fn connect_from(&self, from: &str, at: &Namespace, address: &str) -> Connection {
        let listener = at.run(|| TcpListener::bind((address, 0))).unwrap().unwrap();
        let to = listener.local_addr().unwrap();
        let from = SocketAddr::new(from.parse().unwrap(), 0);
        let connect = || {
            let socket = socket2::Socket::new(socket2::Domain::for_address(to), socket2::Type::STREAM, None)?;
            socket.bind(&from.into())?;
            socket.connect_timeout(&to.into(), PATIENCE)?;
            Ok::<TcpStream, std::io::Error>(socket.into())
        };
        let client = self.client.run(connect).unwrap().unwrap();
        let (server, peer) = listener.accept().unwrap();
        for end in [&client, &server] {
            end.set_read_timeout(Some(PATIENCE)).unwrap();
            end.set_write_timeout(Some(PATIENCE)).unwrap();
        }
        Connection { client, server, peer }
    }
}

impl Drop for Topology {
    fn drop(&mut self) {
        if std::thread::panicking() {
            self.end_successors();
        }
        let _ = std::fs::remove_dir_all(&self.state);
    }
}

/// A state directory in memory, where that of an accelerator is as a rule (`/run`). A process whose disk stands still for
/// a second in the midst of what it writes down hangs, and is followed by another one.
pub fn state_directory(name: &str) -> PathBuf {
    Path::new("/dev/shm").join(name)
}

fn default_routes(host: &Host, gateways: [&str; 2]) {
    gateways.iter().for_each(|gateway| host.add_default_route(gateway.parse().unwrap()).unwrap());
}

/// Both ends of a connection.
pub struct Connection {
    pub client: TcpStream,
    pub server: TcpStream,
    pub peer: SocketAddr,
}

impl Connection {
    /// One word there and one back.
    pub fn exchange(&mut self, word: &[u8; 8]) {
        for way in [true, false] {
            let (from, to) =
                if way { (&mut self.client, &mut self.server) } else { (&mut self.server, &mut self.client) };
            from.write_all(word).unwrap();
            let mut got = [0; 8];
            to.read_exact(&mut got).unwrap();
            assert_eq!(&got, word);
        }
    }

    /// Sends `len` bytes to the client and ends; every byte must arrive in order.
    pub fn download(self, len: usize) {
        let Self { mut client, mut server, .. } = self;
        let sent = pattern(len);
        std::thread::scope(|scope| {
            let sent = &sent;
            let sender = scope.spawn(move || server.write_all(sent));
            let mut got = Vec::new();
            client.read_to_end(&mut got).unwrap();
            sender.join().unwrap().unwrap();
            assert!(got == *sent, "{} of {len} bytes arrived intact", got.len());
        });
    }
}

/// Bytes that do not repeat within any window a transfer could confuse.
pub fn pattern(len: usize) -> Vec<u8> {
    let mut state = 0x9e37_79b9_7f4a_7c15u64;
    let next = || {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        (state >> 24) as u8
    };
    std::iter::repeat_with(next).take(len).collect()
}

/// The program under test, running in the box.
pub struct Program {
    child: Tethered,
    lines: mpsc::Receiver<String>,
    pub said: Vec<String>,
}

impl Program {
    /// Starts it with the engine and waits until it steers or bridges.
    pub fn start_ready(topology: &Topology, config: &Config) -> Self {
        let mut program = Self::launch_with(topology, config, &["--engine"]);
        program.await_line("ready: ");
        program
    }

    /// Starts it with the engine and waits until it steers.
    pub fn start_engine(topology: &Topology, config: &Config) -> Self {
        let mut program = Self::launch_with(topology, config, &["--engine"]);
        program.await_line("steering TCP between");
        program
    }

    /// The same with the uplink accelerated too.
    pub fn start_both_ways(topology: &Topology) -> Self {
        Self::start_both_ways_with(topology, &topology.config())
    }

    /// The same with other settings.
    pub fn start_both_ways_with(topology: &Topology, config: &Config) -> Self {
        let mut program = Self::launch_with(topology, config, &["--both-ways", "--engine"]);
        program.await_line("steering TCP between");
        program
    }

    /// The same with a table of so many flows.
    pub fn start_with_table(topology: &Topology, flows_max: &str) -> Self {
        let arguments = ["--flows-max", flows_max, "--engine"];
        let mut program = Self::launch_with(topology, &topology.config(), &arguments);
        program.await_line("steering TCP between");
        program
    }

    /// Starts it and waits until it steers.
    pub fn start(topology: &Topology, config: &Config) -> Self {
        let mut program = Self::launch(topology, config);
        program.await_line("steering TCP between");
        program
    }

    /// Starts it.
    pub fn launch(topology: &Topology, config: &Config) -> Self {
        Self::launch_with(topology, config, &[])
    }

    /// The same where there is no `nft`.
    pub fn launch_without_nft(topology: &Topology, config: &Config) -> Self {
        let script = "mount --bind /dev/null \"$(command -v nft)\" && exec \"$@\"";
        let mut command = Command::new("unshare");
        command.args(["-m", "sh", "-c", script, "sh", env!("CARGO_BIN_EXE_tun-echo")]);
        Self::launch_command(command, topology, config, &["--engine"])
    }

    /// The same as a service of a manager that listens at `manager`, and wants a sign of life every 2 s.
    pub fn launch_service(topology: &Topology, config: &Config, manager: &Path) -> Self {
        let mut command = Command::new(env!("CARGO_BIN_EXE_tun-echo"));
        command.env("NOTIFY_SOCKET", manager).env("WATCHDOG_USEC", "2000000");
        Self::launch_command(command, topology, config, &["--engine"])
    }

    pub fn launch_with(topology: &Topology, config: &Config, arguments: &[&str]) -> Self {
        let command = Command::new(env!("CARGO_BIN_EXE_tun-echo"));
        Self::launch_command(command, topology, config, arguments)
    }

    fn launch_command(
        mut command: Command,
        topology: &Topology,
        config: &Config,
        arguments: &[&str],
    ) -> Self {
        command.args(arguments).arg(serde_json::to_string(config).unwrap()).stderr(Stdio::piped());
        let options = SpawnOptions { death_signal: None, own_process_group: true };
        let mut child = Tethered::spawn(&topology.middle, command, options).unwrap();
        let stderr = BufReader::new(child.stderr.take().unwrap());
        let (send, lines) = mpsc::channel();
        // Ends with the last process that has the other end of the pipe.
        std::thread::spawn(move || stderr.lines().map_while(Result::ok).all(|line| send.send(line).is_ok()));
        Self { child, lines, said: Vec::new() }
    }

    pub fn pid(&self) -> u32 {
        self.child.id()
    }

    /// Lets it vanish if it has ended; true then.
    pub fn reap(&mut self) -> bool {
        matches!(self.child.try_wait(), Ok(Some(_)))
    }

    pub fn signal(&self, signal: i32) {
        PidFd::open(self.pid()).unwrap().send_signal(signal).unwrap();
    }

    /// True once it is ready; false if it has ended instead.
    pub fn is_ready(&mut self) -> bool {
        while let Ok(line) = self.lines.recv_timeout(PATIENCE_WITH_PROGRAMS) {
            self.said.push(line);
            if self.said.last().is_some_and(|line| line.contains("ready: ")) {
                return true;
            }
            if self.child.try_wait().unwrap().is_some() {
                return false;
            }
        }
        false
    }

    pub fn await_line(&mut self, wanted: &str) -> String {
        loop {
            match self.lines.recv_timeout(PATIENCE_WITH_PROGRAMS) {
                Ok(line) => {
                    self.said.push(line.clone());
                    if line.contains(wanted) {
                        return line;
                    }
                }
                Err(_) => panic!("'{wanted}' was never said, but: {:#?}", self.said),
            }
        }
    }

    /// True when it says `wanted` within so many milliseconds.
    pub fn says_within(&mut self, wanted: &str, ms: u64) -> bool {
        let give_up = Clock::now() + units::Duration::from_millis(ms);
        loop {
            let left = Duration::from_nanos(give_up.saturating_since(Clock::now()).as_nanos());
            let Ok(line) = self.lines.recv_timeout(left) else { return false };
            self.said.push(line);
            if self.said.last().is_some_and(|line| line.contains(wanted)) {
                return true;
            }
        }
    }

    /// Waits for its end; gives its status and everything it said.
    pub fn wait(mut self) -> (ExitStatus, String) {
        wait_until("the program has ended", || self.child.try_wait().unwrap().is_some());
        let status = self.child.wait().unwrap();
        while let Ok(line) = self.lines.recv_timeout(Duration::from_millis(500)) {
            self.said.push(line);
        }
        // A test that has killed it looks at who goes on in its place.
        self.child.let_go();
        (status, self.said.join("\n"))
    }

    /// Asks it to stop; it must end well and leave nothing.
    pub fn stop(self, topology: &Topology) -> String {
        self.signal(SIGTERM);
        let (status, said) = self.wait();
        assert!(status.success(), "{said}");
        assert_eq!(topology.leftovers(), [""; 0], "{said}");
        said
    }

    /// The watchdog's process number: the child that is not nft.
    pub fn watchdog(&self) -> Option<u32> {
        let path = format!("/proc/{0}/task/{0}/children", self.pid());
        let children = std::fs::read_to_string(path).unwrap_or_default();
        children.split_ascii_whitespace().filter_map(|pid| pid.parse().ok()).find(|pid: &u32| {
            let arguments = std::fs::read(format!("/proc/{pid}/cmdline")).unwrap_or_default();
            String::from_utf8_lossy(&arguments).contains("--watchdog")
        })
    }
}

/// Waits until `condition` holds; fails when it does not within a minute.
pub fn wait_until(what: &str, condition: impl FnMut() -> bool) {
    assert!(is_soon(condition), "it never came that {what}");
}

/// Waits until `condition` holds; false when it does not within a minute.
pub fn is_soon(mut condition: impl FnMut() -> bool) -> bool {
    let patience = units::Duration::from_nanos(PATIENCE_WITH_PROGRAMS.as_nanos() as u64);
    let give_up = Clock::now() + patience;
    let mut waiter = Waiter::new(units::Duration::ZERO).unwrap();
    while !condition() {
        if Clock::now() >= give_up {
            return false;
        }
        waiter.wait(Some(Clock::now() + units::Duration::from_millis(10))).unwrap();
    }
    true
}

/// No watchdog.
pub fn unwatched() -> WatchdogConfig {
    WatchdogConfig { is_wanted: false, ..WatchdogConfig::default() }
}
