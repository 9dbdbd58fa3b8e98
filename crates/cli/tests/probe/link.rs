//! [`Bed`]: a probe's client and server in namespaces, joined by emulated links that keep a log.

use std::io::{BufRead, BufReader};
use std::process::{Child, Command, Output, Stdio};
use std::sync::{Mutex, MutexGuard, PoisonError};

use io::SpawnOptions;
use lab::{Emulation, Emulator, Instance, Keep, Network, Role, Waking};
use link::{Capacity, DelayModel, LinkConfig, LossModel, QueueLimit};
use scenario::{Client, LinkPlan, Server};
use units::{Bytes, Duration, Rate};

/// One lab at a time: two would share the processors that the emulator needs to be punctual.
static TURN: Mutex<()> = Mutex::new(());

/// Waits for the turn of a lab.
pub fn one_at_a_time() -> MutexGuard<'static, ()> {
    TURN.lock().unwrap_or_else(PoisonError::into_inner)
}

/// A radio link, the same both ways; the wired segment before it has only delay.
#[derive(Clone, Copy, Debug)]
pub struct Radio {
    pub rate: Rate,
    pub queue: Bytes,
    pub loss: LossModel,
}

/// One way, of the radio link and of the wired segment.
pub const DELAYS: [Duration; 2] = [Duration::from_millis(10), Duration::from_millis(5)];

/// A radio link that has only its delay.
pub fn air(seed: u64) -> LinkConfig {
    LinkConfig { delay: DelayModel::Fixed(DELAYS[0]), seed, ..LinkConfig::default() }
}

pub struct Bed {
    // Dropped in this order: the server is in a namespace of the network.
    server: Option<Child>,
    emulator: Option<Emulator>,
    network: Network,
    _instance: Instance,
    _turn: MutexGuard<'static, ()>,
}

/// Has a program on a host go before what else this machine computes: a host that waits for a processor is no host of a
/// path. Not before the threads that send and answer in real time, of other tests too.
pub fn give_own_machine(child: &Child) {
    // Without the privilege it is as any other program.
    drop(Command::new("renice").args(["-n", "-10", "-p", &child.id().to_string()]).output());
}

impl Bed {
    pub fn build(what: &str, radio: &Radio) -> Self {
        let air = |seed| LinkConfig {
            capacity: Capacity::Constant(radio.rate),
            queue: QueueLimit::Bytes(radio.queue),
            loss_before: radio.loss,
            ..air(seed)
        };
        Self::of_air(what, [air(3), air(4)])
    }

    /// With these links, down and up; they have their delay from [`air`].
    pub fn of_air(what: &str, [radio_down, radio_up]: [LinkConfig; 2]) -> Self {
        let turn = one_at_a_time();
        let name = format!("probe-{what}-{}", std::process::id());
        let instance = Instance::register(Some(&name), "a test")
            .unwrap_or_else(|e| panic!("this test needs root and a TUN device: {e}"));
        let mut network = Network::create(&name, &Server::default(), &Client::default()).unwrap();
        let devices = network.take_devices().unwrap();
        let wan = |seed| LinkConfig { delay: DelayModel::Fixed(DELAYS[1]), seed, ..LinkConfig::default() };
        let plan = LinkPlan { wan_down: wan(1), wan_up: wan(2), radio_down, radio_up, feedback: None };
        let emulator = Emulator::start(devices, &plan, Keep::EveryLink, Waking::Early, None).unwrap();
        let mut bed =
            Self { server: None, emulator: Some(emulator), network, _instance: instance, _turn: turn };
        bed.serve(env!("CARGO_BIN_EXE_cellerator"), &["probe", "server"]);
        bed
    }

    /// Starts a program on a host; none where it is not installed.
    pub fn start(&self, host: Role, program: &str, arguments: &[&str]) -> Option<Child> {
        let mut command = Command::new(program);
        command.args(arguments).stdout(Stdio::piped()).stderr(Stdio::piped());
        let child = self.network.namespace(host).spawn(command, SpawnOptions::default()).ok()?;
        give_own_machine(&child);
        Some(child)
    }

    /// Has another server take the place of the one that runs; waits until it listens.
    pub fn serve(&mut self, program: &str, arguments: &[&str]) {
        self.stop_server();
        let mut server = self.start(Role::Server, program, arguments).unwrap();
        let mut lines = BufReader::new(server.stderr.take().unwrap()).lines().map(Result::unwrap);
        assert!(lines.any(|line| line.contains("listening at")), "{program} {arguments:?}");
        std::thread::spawn(move || lines.for_each(drop));
        self.server = Some(server);
    }

    fn stop_server(&mut self) {
        if let Some(server) = &mut self.server {
            let _ = server.kill();
            let _ = server.wait();
        }
    }

    /// Starts a measurement.
    pub fn client(&self, arguments: &[&str]) -> Child {
        let program = env!("CARGO_BIN_EXE_cellerator");
        self.start(Role::Client, program, &[&["probe"], arguments].concat()).unwrap()
    }

    /// Makes a measurement; its document.
    pub fn measure(&self, arguments: &[&str]) -> serde_json::Value {
        document(&self.client(&[arguments, &["--json", "-"]].concat()).wait_with_output().unwrap())
    }

    /// Runs a program on a host.
    pub fn run(&self, host: Role, program: &str, arguments: &[&str]) {
        let mut command = Command::new(program);
        command.args(arguments);
        let mut child = self.network.namespace(host).spawn(command, SpawnOptions::default()).unwrap();
        assert!(child.wait().unwrap().success(), "{program} {arguments:?}");
    }

    /// Does something on a host.
    pub fn on<T: Send>(&self, host: Role, job: impl FnOnce() -> T + Send) -> T {
        self.network.namespace(host).run(job).unwrap()
    }

    /// Ends the links, and gives their log.
    pub fn end(mut self) -> Emulation {
        self.emulator.take().unwrap().finish().unwrap()
    }
}

impl Drop for Bed {
    fn drop(&mut self) {
        self.stop_server();
    }
}

pub fn document(output: &Output) -> serde_json::Value {
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{said}");
    serde_json::from_slice(&output.stdout).unwrap_or_else(|e| panic!("{e}: {said}"))
}
