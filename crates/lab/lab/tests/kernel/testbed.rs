//! [`Testbed`]: server, accelerator and client in namespaces, joined by emulated links, with
//! `cellerator run`.

use std::io::{BufRead, BufReader};
use std::net::{IpAddr, SocketAddr, TcpListener, TcpStream};
use std::path::Path;
use std::process::{Command, ExitStatus, Stdio};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, mpsc};

use io::netlink::Family as NetFamily;
use io::{Clock, Namespace, PidFd, SpawnOptions, Tethered, Waiter};
use lab::{Emulation, Emulator, Instance, Keep, Network, RADIO, Role, WAN, Waking, server_address};
use link::{Capacity, DelayModel, Harq, LinkConfig, LinkDirection, LossModel, Preset, QueueLimit};
use scenario::{Client, Family, LinkPlan, Server};
use socket2::{Domain, Protocol, SockAddr, Socket, Type};
use units::{Bytes, Duration, Rate};

use crate::program::program;

/// No single wait of a test is longer.
pub const PATIENCE: std::time::Duration = std::time::Duration::from_secs(30);

pub const SIGKILL: i32 = 9;
pub const SIGTERM: i32 = 15;

/// Both address families.
pub const FAMILIES: [Family; 2] = [Family::Ipv4, Family::Ipv6];

/// One lab at a time.
static TURN: Mutex<()> = Mutex::new(());

/// A radio link; the WAN before it is clean.
#[derive(Clone, Debug)]
pub struct Radio {
    pub down: Capacity,
    pub up: Capacity,
    /// One way, each direction.
    pub delay: Duration,
    /// The same of the wired segment.
    pub wan_delay: Duration,
    pub loss_down: LossModel,
    pub loss_up: LossModel,
    /// Repairs on the way down, in order.
    pub repairs: Option<Harq>,
    pub queue: Bytes,
}

impl Radio {
    /// A constant rate both ways, without loss.
    pub fn steady(rate: Rate) -> Self {
        Self {
            down: Capacity::Constant(rate),
            up: Capacity::Constant(rate),
            delay: Duration::from_millis(5),
            wan_delay: Duration::from_millis(5),
            loss_down: LossModel::None,
            loss_up: LossModel::None,
            repairs: None,
            queue: Bytes::new(2_000_000),
        }
    }

    /// A synthetic 5G link with bursts of loss.
    pub fn lossy_5g(seed: u64) -> Self {
        let trace = |direction| {
            let trace = Preset::Nr5g.generate(direction, Duration::from_secs(60), seed).unwrap();
            Capacity::Trace(Arc::new(trace))
        };
        Self {
            down: trace(LinkDirection::Down),
            up: trace(LinkDirection::Up),
            loss_down: burst_loss(1_500),
            loss_up: LossModel::Bernoulli { ppm: 1_000 },
            ..Self::steady(Rate::from_mbps(1))
        }
    }

    fn plan(&self, seed: u64) -> LinkPlan {
        let wan = |seed| LinkConfig {
            delay: DelayModel::Fixed(self.wan_delay),
            queue: QueueLimit::Packets(5_000),
            seed,
            keeps_log: false,
            ..LinkConfig::default()
        };
        let radio = |capacity: &Capacity, loss_before, seed| LinkConfig {
            capacity: capacity.clone(),
            queue: QueueLimit::Bytes(self.queue),
            delay: DelayModel::Fixed(self.delay),
            loss_before,
            seed,
            keeps_log: false,
            ..LinkConfig::default()
        };
        LinkPlan {
            wan_down: wan(seed),
            wan_up: wan(seed + 1),
            radio_down: LinkConfig { harq: self.repairs, ..radio(&self.down, self.loss_down, seed + 2) },
            radio_up: radio(&self.up, self.loss_up, seed + 3),
            feedback: None,
        }
    }
}

/// Loss in bursts of on average two packets, begun by so many packets of a million: twice that rate in all.
pub fn burst_loss(to_bad_ppm: u32) -> LossModel {
    LossModel::GilbertElliott { to_bad_ppm, to_good_ppm: 400_000, good_loss_ppm: 0, bad_loss_ppm: 800_000 }
}

pub struct Testbed {
    // Dropped in this order: the accelerator undoes its rules while its namespace is whole.
    pub accelerator: Option<Accelerator>,
    emulator: Option<Emulator>,
    network: Network,
    instance: Instance,
    _turn: MutexGuard<'static, ()>,
}

impl Testbed {
    /// Builds the network and lets packets move; nothing accelerates.
    pub fn build(what: &str, radio: &Radio) -> Self {
        Self::build_with(what, radio, &Server::default())
    }

    /// The same with these settings of the server.
    pub fn build_with(what: &str, radio: &Radio, server: &Server) -> Self {
        let turn = TURN.lock().unwrap_or_else(PoisonError::into_inner);
        let name = format!("kernel-{what}-{}", std::process::id());
        let instance = Instance::register(Some(&name), "a test")
            .unwrap_or_else(|e| panic!("this test needs root and a TUN device: {e}"));
        let mut network = Network::create(&name, server, &Client::default()).unwrap();
        let devices = network.take_devices().unwrap();
        let emulator =
            Emulator::start(devices, &radio.plan(7), Keep::Nothing, Waking::OnTimer, None).unwrap();
        let bed = Self { accelerator: None, emulator: Some(emulator), network, instance, _turn: turn };
        // Buffers must not shape what is tested: a server may always have several megabytes under way.
        bed.set(Role::Server, "net/ipv4/tcp_wmem", "4096 262144 8388608");
        bed
    }

    /// Builds the network and starts `cellerator run` in it.
    pub fn accelerated(what: &str, radio: &Radio, options: &[&str]) -> Self {
        let mut bed = Self::build(what, radio);
        bed.accelerate(options);
        bed
    }

    /// Starts `cellerator run`; its TCP goes through it from here on.
    pub fn accelerate(&mut self, options: &[&str]) {
        self.accelerator = Some(Accelerator::start(self.host(Role::Accelerator), options));
    }

    pub fn host(&self, host: Role) -> &Namespace {
        self.network.namespace(host)
    }

    pub fn set(&self, host: Role, path: &str, value: &str) {
        io::sysctl::write(self.host(host), path, value).unwrap();
    }

    /// A directory that goes with the lab.
    pub fn directory(&self) -> &Path {
        self.instance.directory()
    }

    /// A socket on `host`, of a protocol or TCP.
    pub fn socket(&self, host: Role, address: &SocketAddr, protocol: Option<Protocol>) -> Socket {
        let make = || Socket::new(Domain::for_address(*address), Type::STREAM, protocol);
        self.host(host).run(make).unwrap().unwrap()
    }

    /// A listener of the server.
    pub fn listen(&self, family: Family) -> TcpListener {
        self.listen_as(family, None)
    }

    /// A listener of the server, of a protocol or TCP.
    pub fn listen_as(&self, family: Family, protocol: Option<Protocol>) -> TcpListener {
        let address = SocketAddr::from((server_address(family), 0));
        let socket = self.socket(Role::Server, &address, protocol);
        socket.bind(&address.into()).unwrap();
        socket.listen(128).unwrap();
        socket.into()
    }

    /// A connection from the client to `to`, with limits on how long its calls may take.
    pub fn connect(&self, to: SocketAddr) -> TcpStream {
        let socket = self.socket(Role::Client, &to, None);
        socket.connect_timeout(&SockAddr::from(to), PATIENCE).unwrap();
        patient(socket.into())
    }

    /// A connection from the client, both ends: client, server.
    pub fn pair(&self, family: Family) -> (TcpStream, TcpStream) {
        let listener = self.listen(family);
        let client = self.connect(listener.local_addr().unwrap());
        let (server, peer) = listener.accept().unwrap();
        assert_eq!(peer, client.local_addr().unwrap(), "the server sees the client's own address and port");
        (client, patient(server))
    }

    /// Stops the accelerator; it must end well and leave nothing. Gives what it said.
    pub fn stop(&mut self) -> Said {
        let accelerator = self.accelerator.take().unwrap();
        accelerator.signal(SIGTERM);
        let said = accelerator.wait();
        assert!(said.status.success(), "{said:?}");
        assert_eq!(self.leftovers(), [""; 0]);
        said
    }

    /// Stops the emulator and gives what it counted.
    pub fn emulation(&mut self) -> Emulation {
        self.emulator.take().unwrap().finish().unwrap()
    }

    /// What a machine without an accelerator must not show: its rules, routes, devices, tables and records.
    pub fn leftovers(&self) -> Vec<String> {
        let namespace = self.host(Role::Accelerator);
        let netlink = namespace.netlink().unwrap();
        let mut found = Vec::new();
        for family in NetFamily::BOTH {
            let rules = netlink.rules(family).unwrap();
            found.extend(rules.iter().filter(|rule| rule.is_own).map(ToString::to_string));
            let tables = netlink.tables_in_use(family).unwrap();
            found.extend(tables.iter().filter(|table| table.0 >= 1_000).map(ToString::to_string));
        }
        let links = netlink.links().unwrap().into_iter().map(|link| link.name);
        found.extend(links.filter(|name| ![WAN, RADIO, "lo"].contains(&name.as_str())));
        let mut command = Command::new("nft");
        command.args(["list", "tables"]).stdout(Stdio::piped());
        let tables = namespace.spawn(command, SpawnOptions::default()).unwrap().wait_with_output().unwrap();
        found.extend(String::from_utf8_lossy(&tables.stdout).lines().map(str::to_owned));
        // The number of its file may have been another one's.
        let own = format!("\"namespace_cookie\":{},", namespace.cookie().unwrap());
        let entries = std::fs::read_dir(io::INSTANCE_DIRECTORY).unwrap().flatten();
        let records = entries.map(|entry| entry.path()).filter(|path| {
            let is_run = path.file_name().is_some_and(|name| name.to_string_lossy().starts_with("run-"));
            is_run && std::fs::read_to_string(path.join("record")).is_ok_and(|text| text.contains(&own))
        });
        found.extend(records.map(|path| path.display().to_string()));
        found
    }
}

/// Limits how long reads and writes may take.
pub fn patient(stream: TcpStream) -> TcpStream {
    stream.set_read_timeout(Some(PATIENCE)).unwrap();
    stream.set_write_timeout(Some(PATIENCE)).unwrap();
    stream
}

/// An address of the server's network that no host has: what is sent there vanishes.
pub fn unassigned(family: Family) -> IpAddr {
    match server_address(family) {
        IpAddr::V4(own) => IpAddr::V4((u32::from(own) + 75).into()),
        IpAddr::V6(own) => IpAddr::V6((u128::from(own) + 75).into()),
    }
}

/// A running `cellerator run`; killed when dropped.
pub struct Accelerator {
    child: Tethered,
    lines: Mutex<mpsc::Receiver<String>>,
    said: Vec<String>,
}

/// How it ended, and everything it said.
#[derive(Debug)]
pub struct Said {
    pub status: ExitStatus,
    pub lines: Vec<String>,
}

impl Said {
    fn number_before(&self, line: &str, word: &str) -> u64 {
        let line = self.lines.iter().find(|said| said.starts_with(line));
        let before = line.and_then(|said| said.split(word).next()).unwrap_or_default();
        before.split_ascii_whitespace().last().and_then(|number| number.parse().ok()).unwrap_or(0)
    }

    /// Flows it accelerated.
    pub fn accelerated_flows(&self) -> u64 {
        self.number_before("accelerated:", " flows")
    }

    /// Flows whose client's window it lowered.
    pub fn windowed_flows(&self) -> u64 {
        self.number_before("windows lowered:", " flows")
    }

    /// Flows whose uplink it accelerated.
    pub fn accelerated_uplinks(&self) -> u64 {
        self.number_before("uplink accelerated:", " flows")
    }

    /// Bytes it sent to clients more than once.
    pub fn sent_again(&self) -> Bytes {
        let line = self.lines.iter().find(|line| line.starts_with("accelerated:")).unwrap();
        let amount = line.trim_end_matches(" sent again").rsplit(", ").next().unwrap();
        amount.parse::<scenario::Quantity<Bytes>>().unwrap().0
    }

    /// Flows it passed for `reason`.
    pub fn passed_flows(&self, reason: &str) -> u64 {
        let end = format!(" flows, {reason}");
        let line = self.lines.iter().find(|said| said.ends_with(&end));
        line.and_then(|said| said.strip_suffix(&end)?.split(' ').next_back()?.parse().ok()).unwrap_or(0)
    }

    /// Fails when it lost anything it had acknowledged, or packets in a queue, or hung.
    pub fn assert_no_warning(&self) {
        let warned = self.lines.iter().any(|line| line.contains("warning"));
        assert!(!warned, "{:#?}", self.lines);
    }
}

impl Accelerator {
    fn start(namespace: &Namespace, options: &[&str]) -> Self {
        let mut command = Command::new(program());
        command.args(["run", "--wired", WAN, "--mobile", RADIO]);
        // Slow machines hang for a second now and then; that is not what is tested here.
        command.args(["--hang-after", "5 s"]).args(options);
        command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
        let spawn = SpawnOptions { death_signal: Some(SIGKILL), own_process_group: true };
        let mut child = Tethered::spawn(namespace, command, spawn).unwrap();
        let (send, lines) = mpsc::channel();
        forward_lines(child.stdout.take().unwrap(), send.clone());
        forward_lines(child.stderr.take().unwrap(), send);
        let mut accelerator = Self { child, lines: Mutex::new(lines), said: Vec::new() };
        while !accelerator.said.last().is_some_and(|line| line.starts_with("ready")) {
            match accelerator.lines.get_mut().unwrap().recv_timeout(PATIENCE) {
                Ok(line) => accelerator.said.push(line),
                Err(_) => panic!("`cellerator run` was not ready: {:#?}", accelerator.said),
            }
        }
        accelerator
    }

    pub fn process(&self) -> u32 {
        self.child.id()
    }

    /// The same as [`as_machine_of_its_own`] for its packet loop.
    pub fn be_machine_of_its_own(&self) {
        let _ = io::sched::set_realtime_priority_of(self.process(), OWN_MACHINE_PRIORITY);
    }

    /// Waits until it says a line that contains `wanted`.
    pub fn await_line(&mut self, wanted: &str) -> String {
        loop {
            match self.lines.get_mut().unwrap().recv_timeout(PATIENCE) {
                Ok(line) => self.said.push(line),
                Err(_) => panic!("'{wanted}' was never said, but: {:#?}", self.said),
            }
            if let Some(line) = self.said.last().filter(|line| line.contains(wanted)) {
                return line.clone();
            }
        }
    }

    pub fn signal(&self, signal: i32) {
        PidFd::open(self.child.id()).unwrap().send_signal(signal).unwrap();
    }

    /// Waits for its end.
    pub fn wait(mut self) -> Said {
        wait_until("the accelerator has ended", || self.child.try_wait().unwrap().is_some());
        let status = self.child.wait().unwrap();
        // Ends with the last process that has the other end of the pipe: the watchdog, soon.
        while let Ok(line) = self.lines.get_mut().unwrap().recv_timeout(PATIENCE) {
            self.said.push(line);
        }
        // A test that has killed it looks at who goes on in its place.
        self.child.let_go();
        Said { status, lines: std::mem::take(&mut self.said) }
    }
}

fn forward_lines(from: impl std::io::Read + Send + 'static, to: mpsc::Sender<String>) {
    std::thread::spawn(move || {
        BufReader::new(from).lines().map_while(Result::ok).all(|line| to.send(line).is_ok())
    });
}

/// Waits until `condition` holds; fails when it does not within [`PATIENCE`].
pub fn wait_until(what: &str, mut condition: impl FnMut() -> bool) {
    let give_up = Clock::now() + Duration::from_nanos(PATIENCE.as_nanos() as u64);
    while !condition() {
        assert!(Clock::now() < give_up, "it never came that {what}");
        pause(Duration::from_millis(10));
    }
}

/// Priority of what a machine of its own would do, below the emulator's.
const OWN_MACHINE_PRIORITY: u8 = 10;

/// Has this thread go before ordinary ones, as the lab's clients do: a host is a machine of its own. One that waits for a
/// processor neither reads nor sends, and then no queue stands that a test could look at.
pub fn as_machine_of_its_own() {
    // Without the privilege it is as any other program.
    let _ = io::sched::set_realtime_priority(OWN_MACHINE_PRIORITY);
}

/// Lets time pass.
pub fn pause(time: Duration) {
    Waiter::new(Duration::ZERO).unwrap().wait(Some(Clock::now() + time)).unwrap();
}
