//! `client — box — server` in three namespaces, and an accelerator in the middle one.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::process::{Command, Stdio};
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::mpsc::{self, Receiver};
use std::thread;
use std::time::Duration;

use io::netlink::Netlink;
use io::{Clock, Host, Namespace, SpawnOptions, Tethered, lay_cable};

pub const PROGRAM: &str = env!("CARGO_BIN_EXE_cellerator");

/// Longest wait for anything; reached only when a test fails.
pub const PATIENCE: Duration = Duration::from_secs(30);

const SIGTERM: i32 = 15;
const SIGKILL: i32 = 9;

static COUNT: AtomicU32 = AtomicU32::new(0);

/// A program that runs, and what it says on standard output, line by line.
pub struct Running {
    pub child: Tethered,
    lines: Receiver<String>,
}

impl Running {
    pub fn start(namespace: &Namespace, arguments: &[&str]) -> Self {
        Self::start_program(PROGRAM, namespace, arguments)
    }

    /// The same of another build of the program.
    pub fn start_program(program: &str, namespace: &Namespace, arguments: &[&str]) -> Self {
        let mut command = Command::new(program);
        command.args(arguments).stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::inherit());
        let options = SpawnOptions { death_signal: Some(SIGKILL), ..SpawnOptions::default() };
        let mut child = Tethered::spawn(namespace, command, options).unwrap();
        let output = BufReader::new(child.stdout.take().unwrap());
        let (tell, lines) = mpsc::channel();
        thread::spawn(move || output.lines().map_while(Result::ok).try_for_each(|line| tell.send(line)));
        Self { child, lines }
    }

    /// The next line that has `text` in it.
    pub fn wait_for(&self, text: &str) -> String {
        loop {
            let line = self.lines.recv_timeout(PATIENCE);
            let line = line.unwrap_or_else(|error| panic!("nothing with '{text}' was said: {error}"));
            if line.contains(text) {
                return line;
            }
        }
    }

    /// The next line that has `text` in it, if one comes within the time.
    pub fn find(&self, text: &str, within: Duration) -> Option<String> {
        let give_up = Clock::now() + units::Duration::from_millis(within.as_millis() as u64);
        loop {
            let left = give_up.saturating_since(Clock::now()).as_millis();
            let line = self.lines.recv_timeout(Duration::from_millis(left)).ok()?;
            if line.contains(text) {
                return Some(line);
            }
        }
    }

    /// Asks it to end, and waits until it has.
    pub fn stop(mut self) {
        let process = io::PidFd::open(self.child.id()).unwrap();
        process.send_signal(SIGTERM).unwrap();
        assert!(self.child.wait().unwrap().success());
    }
}

pub struct Network {
    pub name: String,
    pub client: Host,
    pub middle: Host,
    pub server: Host,
}

impl Network {
    pub fn build(what: &str) -> Self {
        let number = COUNT.fetch_add(1, Ordering::Relaxed);
        let name = format!("ct-telemetry-{what}-{}-{number}", std::process::id());
        let create = |role: &str| {
            Host::create(&format!("{name}-{role}")).unwrap_or_else(|e| panic!("this test needs root: {e}"))
        };
        let network = Self { client: create("c"), middle: create("b"), server: create("s"), name };
        network.cable(&network.client, "c0", "10.1.0.2/24", "m0", "10.1.0.1/24");
        network.cable(&network.server, "s0", "10.2.0.2/24", "w0", "10.2.0.1/24");
        network.middle.set("net/ipv4/ip_forward", "1").unwrap();
        let netlink = network.middle.netlink().unwrap();
        netlink.set_up(netlink.index_of("lo").unwrap()).unwrap();
        wait_until("the cables are in operation", || {
            let is_up = |of: &Netlink, name: &str| of.link(name).unwrap().is_running;
            let ends = [(&network.client, "c0"), (&network.server, "s0")];
            ends.iter().all(|(end, name)| is_up(&end.netlink().unwrap(), name))
                && ["m0", "w0"].iter().all(|name| is_up(&netlink, name))
        });
        network
    }

    fn cable(&self, there: &Namespace, name: &str, own: &str, here: &str, ours: &str) {
        lay_cable([(&self.middle, here, &[ours]), (there, name, &[own])]).unwrap();
        let gateway = ours.split('/').next().unwrap();
        there.add_default_route(gateway.parse().unwrap()).unwrap();
    }

    /// An accelerator of this network's name.
    pub fn accelerate(&self, options: &[&str]) -> Running {
        self.accelerate_by(PROGRAM, options)
    }

    /// The same of another build of the program.
    pub fn accelerate_by(&self, program: &str, options: &[&str]) -> Running {
        let fixed = ["run", "--wired", "w0", "--mobile", "m0", "--name", &self.name];
        let running = Running::start_program(program, &self.middle, &[&fixed[..], options].concat());
        running.wait_for("ready:");
        running
    }

    /// A download of so many bytes from a port of the server's own choice, which ends in good order.
    pub fn download(&self, len: usize) -> (SocketAddr, SocketAddr) {
        let (mut client, mut server) = self.connect();
        let ends = (client.local_addr().unwrap(), client.peer_addr().unwrap());
        let sender = thread::spawn(move || server.write_all(&vec![7; len]));
        let mut got = Vec::new();
        client.read_to_end(&mut got).unwrap();
        sender.join().unwrap().unwrap();
        assert_eq!(got.len(), len);
        ends
    }

    /// One of so many bytes and some more, which the client does not read: it resets the connection, and the flow
    /// is forgotten at once.
    pub fn abort(&self, len: usize, more: usize) -> (SocketAddr, SocketAddr) {
        let (mut client, mut server) = self.connect();
        let ends = (client.local_addr().unwrap(), client.peer_addr().unwrap());
        let sender = thread::spawn(move || {
            server.write_all(&vec![7; len + more]).unwrap();
            // It hears of the reset.
            assert!(!matches!(server.read(&mut [0; 1]), Ok(1)));
        });
        client.read_exact(&mut vec![0; len]).unwrap();
        // Something unread has arrived.
        assert_eq!(client.peek(&mut [0]).unwrap(), 1);
        drop(client);
        sender.join().unwrap();
        ends
    }

    /// A connection: the client's end and the server's.
    pub fn connect(&self) -> (TcpStream, TcpStream) {
        let listener = self.server.run(|| TcpListener::bind(("10.2.0.2", 0))).unwrap().unwrap();
        let to = listener.local_addr().unwrap();
        let client = self.client.run(|| TcpStream::connect_timeout(&to, PATIENCE)).unwrap().unwrap();
        let (server, _) = listener.accept().unwrap();
        for end in [&client, &server] {
            end.set_read_timeout(Some(PATIENCE)).unwrap();
            end.set_write_timeout(Some(PATIENCE)).unwrap();
        }
        (client, server)
    }

    /// What an HTTP server in the box answers.
    pub fn get(&self, at: &str, accept: &str) -> String {
        let mut stream = self.middle.run(|| TcpStream::connect(at)).unwrap().unwrap();
        stream.set_read_timeout(Some(PATIENCE)).unwrap();
        let request =
            format!("GET /metrics HTTP/1.1\r\nHost: x\r\nAccept: {accept}\r\nConnection: close\r\n\r\n");
        stream.write_all(request.as_bytes()).unwrap();
        let mut answer = String::new();
        stream.read_to_string(&mut answer).unwrap();
        answer.split_once("\r\n\r\n").unwrap().1.to_owned()
    }
}

pub fn wait_until(what: &str, mut is_so: impl FnMut() -> bool) {
    let give_up = Clock::now() + units::Duration::from_secs(PATIENCE.as_secs());
    while !is_so() {
        assert!(Clock::now() < give_up, "it never came about that {what}");
        thread::park_timeout(Duration::from_millis(20));
    }
}
