//! An older build of the program and this one take each other's place, and read each other's records. The older one is
//! named by `CELLERATOR_BEFORE`: `make upgrade-test` builds it.

use std::io::{Read, Write};
use std::net::{Shutdown, TcpStream};
use std::process::{Command, Stdio};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;
use std::{env, thread};

use io::SpawnOptions;
use serde_json::Value;

use crate::network::{Network, PROGRAM, Running, wait_until};

const PIECE: usize = 40_000;
const FLOWS: usize = 6;
const SIGKILL: i32 = 9;

fn before() -> String {
    env::var("CELLERATOR_BEFORE").expect("CELLERATOR_BEFORE names an older build: make upgrade-test")
}

/// A download that goes on until `is_over`: every byte arrives, in order.
fn trickle((mut client, mut server): (TcpStream, TcpStream), is_over: &AtomicBool) {
    thread::scope(|scope| {
        let serving = scope.spawn(move || {
            let mut pieces = 0_usize;
            while !is_over.load(Ordering::Relaxed) {
                server.write_all(&[pieces as u8; PIECE]).unwrap();
                thread::park_timeout(Duration::from_millis(20));
                pieces += 1;
            }
            server.shutdown(Shutdown::Write).unwrap();
            pieces
        });
        let mut got = Vec::new();
        client.read_to_end(&mut got).unwrap();
        let pieces = serving.join().unwrap();
        assert_eq!(got.len(), PIECE * pieces);
        assert!(got.chunks(PIECE).enumerate().all(|(n, piece)| piece.iter().all(|&byte| byte == n as u8)));
    });
}

/// The answer of `program status --json` about the accelerator of the network.
fn status(network: &Network, program: &str) -> Value {
    let mut command = Command::new(program);
    command.args(["status", &network.name, "--json"]).stdout(Stdio::piped());
    let output = network.middle.spawn(command, SpawnOptions::default()).unwrap().wait_with_output().unwrap();
    let text = String::from_utf8(output.stdout).unwrap();
    let value: Value = serde_json::from_str(&text).unwrap_or_else(|error| panic!("{error}: {text}"));
    value.as_array().map_or(value.clone(), |all| all[0].clone())
}

/// Flows that the accelerator has, by its shards.
fn flows_now(status: &Value) -> u64 {
    status["shards"].as_array().unwrap().iter().map(|shard| shard["flows_now"].as_u64().unwrap()).sum()
}

/// Ends all transfers, when the test fails too.
struct Over<'a>(&'a AtomicBool);

impl Drop for Over<'_> {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Relaxed);
    }
}

/// Reasons for which flows have left, but for their ends.
fn handed_back(status: &Value) -> Vec<String> {
    let passed = status["passed"].as_object().cloned().unwrap_or_default();
    passed.keys().filter(|reason| !["closed", "idle"].contains(&reason.as_str())).cloned().collect()
}

#[test]
#[ignore = "needs an older build of the program: make upgrade-test"]
fn an_older_build_and_this_one_take_each_others_place_with_flows() {
    let before = before();
    for steering in ["tcx", "rules"] {
        let network = Network::build("versions");
        let start = |program: &str, more: &[&str]| {
            let options = [&["--direction", "downlink", "--steering", steering], more].concat();
            network.accelerate_by(program, &options)
        };
        let mut running = start(&before, &[]);
        let (mut idle, mut idle_server) = network.connect();
        idle_server.write_all(b"idle").unwrap();
        idle.read_exact(&mut [0; 4]).unwrap();
        let is_over = AtomicBool::new(false);
        thread::scope(|scope| {
            for _ in 0..FLOWS {
                let connection = network.connect();
                scope.spawn(|| trickle(connection, &is_over));
            }
            let over = Over(&is_over);
            wait_until("all are accelerated", || flows_now(&status(&network, &before)) == FLOWS as u64 + 1);
            for program in [PROGRAM, &before, PROGRAM, PROGRAM, &before] {
                let mut next = start(program, &["--replace", &network.name]);
                std::mem::swap(&mut running, &mut next);
                next.wait_for(&format!("handed over {} flows", FLOWS + 1));
                assert!(next.child.wait().unwrap().success());
                for asker in [PROGRAM, &before] {
                    let status = status(&network, asker);
                    assert_eq!(status["process"].as_u64(), Some(running.child.id().into()), "{status}");
                    assert_eq!(flows_now(&status), FLOWS as u64 + 1, "{status}");
                    assert_eq!(handed_back(&status), [""; 0], "{status}");
                }
            }
            drop(over);
        });
        idle_server.write_all(b"more").unwrap();
        idle.read_exact(&mut [0; 4]).unwrap();
        running.stop();
    }
}

/// What a killed process of one build has left is undone by the other one, by its record.
#[test]
#[ignore = "needs an older build of the program: make upgrade-test"]
fn what_an_older_build_leaves_behind_is_removed_by_this_one_and_the_other_way() {
    let before = before();
    for (killed, next) in [(before.as_str(), PROGRAM), (PROGRAM, before.as_str())] {
        for steering in ["tcx", "rules"] {
            let network = Network::build("leftovers");
            let options = ["--steering", steering, "--recover-within", "0 ms"];
            let mut old = network.accelerate_by(killed, &options);
            network.download(100_000);
            kill_all(&mut old);
            let new = network.accelerate_by(next, &options);
            network.download(100_000);
            assert_eq!(handed_back(&status(&network, PROGRAM)), [""; 0]);
            new.stop();
            let links = network.middle.netlink().unwrap().links().unwrap();
            let mut names: Vec<_> = links.into_iter().map(|link| link.name).collect();
            names.sort();
            assert_eq!(names, ["lo", "m0", "w0"], "{killed} then {next} by {steering}");
        }
    }
}

/// Kills a process and its watchdog at once.
fn kill_all(running: &mut Running) {
    let id = running.child.id();
    let children = std::fs::read_to_string(format!("/proc/{id}/task/{id}/children")).unwrap();
    let all = children.split_whitespace().map(|child| child.parse().unwrap()).chain([id]);
    let processes: Vec<_> = all.map(|id: u32| io::PidFd::open(id).unwrap()).collect();
    for process in &processes {
        process.send_signal(SIGKILL).unwrap();
    }
    running.child.wait().unwrap();
}
