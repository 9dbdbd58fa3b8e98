//! What an operator does: drain, reload, look at the status; flows must not notice.

use std::io::Write;
use std::net::TcpStream;
use std::process::{Output, Stdio};

use io::{Clock, SpawnOptions};
use lab::Role;
use serde_json::Value;
use units::{Duration, Rate};

use crate::kernel::content::{Content, read_exactly, read_to_end};
use crate::kernel::counters::counter;
use crate::kernel::server::{Server, request};
use crate::kernel::swarm::{Swarm, Trickle};
use crate::kernel::testbed::{FAMILIES, Radio, SIGKILL, Testbed, pause, wait_until};
use crate::program::program;

const SIGHUP: i32 = 1;

/// Runs `cellerator` in the accelerator's namespace.
pub fn cellerator(bed: &Testbed, arguments: &[&str]) -> Output {
    let mut command = std::process::Command::new(program());
    command.args(arguments).stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let child = bed.host(Role::Accelerator).spawn(command, SpawnOptions::default()).unwrap();
    child.wait_with_output().unwrap()
}

/// What a command that must succeed said, as JSON.
fn json(bed: &Testbed, command: &str) -> Value {
    let name = bed.accelerator.as_ref().unwrap().process().to_string();
    let output = cellerator(bed, &[command, "--json", &name]);
    assert!(output.status.success(), "{output:?}");
    serde_json::from_slice(&output.stdout).unwrap()
}

#[test]
fn h02_a_thousand_transfers_do_not_notice_a_drain() {
    const FLOWS: usize = 1_000;
    let radio = Radio { queue: units::Bytes::new(8_000_000), ..Radio::steady(Rate::from_mbps(200)) };
    let mut bed = Testbed::accelerated("drain", &radio, &["--drain-time", "30 s"]);
    for host in [Role::Client, Role::Server] {
        bed.set(host, "net/core/somaxconn", "4096");
    }
    let accelerator = bed.accelerator.take().unwrap();
    let name = accelerator.process().to_string();
    let swarm = Swarm::connect(&bed, FAMILIES[0], FLOWS);
    let trickle = Trickle { piece_len: 1_000, pieces: 40, interval: Duration::from_millis(100) };
    let said = swarm.trickle(trickle, || {
        let output = cellerator(&bed, &["drain", &name]);
        assert!(output.status.success(), "{output:?}");
        accelerator.wait()
    });
    assert!(said.status.success(), "{said:?}");
    said.assert_no_warning();
    assert_eq!((said.accelerated_flows(), said.passed_flows("draining")), (1_000, 1_000), "{said:?}");
    for host in [Role::Client, Role::Server] {
        assert_eq!(counter(&bed, host, "Tcp.EstabResets"), 0, "{host:?}");
    }
    assert_eq!(bed.leftovers(), [""; 0]);
}

#[test]
fn h02_killed_with_downloads_under_way_both_their_ends_are_reset() {
    let mut bed =
        Testbed::accelerated("crash", &Radio::steady(Rate::from_mbps(8)), &["--recover-within", "0 s"]);
    let servers = FAMILIES.map(|family| Server::start(&bed, family));
    let mut idle: Vec<_> = (0..6).map(|n| bed.connect(servers[n % 2].address)).collect();
    let ask = |stream: &mut TcpStream, seed| {
        let content = Content { seed, len: 20_000 };
        stream.write_all(request(content, true).as_bytes()).unwrap();
        assert_eq!(read_exactly(stream, content.len).unwrap(), content.print());
    };
    idle.iter_mut().for_each(|stream| ask(stream, 40));
    // More than the link carries in the time there is: each is owed something all the time.
    let content = Content { seed: 41, len: 40_000_000 };
    let under_way: Vec<_> = (0..8)
        .map(|n| {
            let mut stream = bed.connect(servers[n % 2].address);
            stream.write_all(request(content, false).as_bytes()).unwrap();
            stream.peek(&mut [0]).unwrap();
            stream
        })
        .collect();
    let accelerator = bed.accelerator.take().unwrap();
    let begin = Clock::now();
    let ended = std::thread::scope(|scope| {
        let readers: Vec<_> = under_way
            .into_iter()
            .map(|mut stream| scope.spawn(move || (read_to_end(&mut stream), Clock::now())))
            .collect();
        pause(Duration::from_millis(500));
        accelerator.signal(SIGKILL);
        readers.into_iter().map(|reader| reader.join().unwrap()).collect::<Vec<_>>()
    });
    for (end, at) in ended {
        let error = end.err().unwrap_or_else(|| panic!("a clean end of what is not whole"));
        assert_eq!(error.kind(), std::io::ErrorKind::ConnectionReset);
        let took = at.saturating_since(begin);
        println!("a client knew after {took}");
        assert!(took < Duration::from_secs(10), "{took}");
    }
    let of_servers: usize =
        servers.iter().map(|server| server.ends(4).iter().filter(|(_, end)| end.is_err()).count()).sum();
    assert_eq!(of_servers, 8, "every server's end knows too");
    let said = accelerator.wait();
    assert!(said.lines.iter().any(|line| line.contains("owed 8 flows")), "{said:?}");
    wait_until("the watchdog has undone everything", || bed.leftovers().is_empty());
    bed.accelerate(&[]);
    idle.iter_mut().for_each(|stream| ask(stream, 42));
    assert_eq!(bed.stop().accelerated_flows(), 0);
}

#[test]
fn settings_are_read_anew_and_no_flow_notices() {
    let mut bed = Testbed::build("reload", &Radio::steady(Rate::from_mbps(50)));
    let file = bed.directory().join("settings.toml");
    let path = file.display().to_string();
    let write = |rate: &str| {
        let text = format!("controller = \"fixed\"\nrate = \"{rate}\"\nin-flight-cap = \"none\"\n");
        std::fs::write(&file, text).unwrap();
    };
    write("8 Mbit/s");
    bed.accelerate(&["--config", &path]);
    let name = bed.accelerator.as_ref().unwrap().process().to_string();
    let rate = |bed: &Testbed| json(bed, "flows")["flows"][0]["subscriber_rate_bps"].as_u64();
    let servers = FAMILIES.map(|family| Server::start(&bed, family));
    let content = Content { seed: 31, len: 3_000_000 };
    let start = |bed: &Testbed, server: &Server| {
        let mut stream = bed.connect(server.address);
        stream.write_all(request(content, false).as_bytes()).unwrap();
        stream.peek(&mut [0]).unwrap();
        stream
    };
    let mut streams = vec![start(&bed, &servers[0])];
    assert_eq!(rate(&bed), Some(8_000_000));

    // By command; the rate is the subscriber's, whose next flow brings it.
    write("30 Mbit/s");
    let output = cellerator(&bed, &["reload", &name]);
    assert!(output.status.success(), "{output:?}");
    streams.push(start(&bed, &servers[0]));
    assert_eq!(rate(&bed), Some(30_000_000));

    // What makes no sense changes nothing, and is said in one line.
    write("fast");
    let output = cellerator(&bed, &["reload", &name]);
    let problem = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(!output.status.success() && problem.lines().count() == 1, "{output:?}");
    assert!(problem.contains(&path) && problem.contains("all is as before"), "{problem}");
    streams.push(start(&bed, &servers[0]));
    assert_eq!(rate(&bed), Some(30_000_000));

    // By signal.
    write("20 Mbit/s");
    bed.accelerator.as_ref().unwrap().signal(SIGHUP);
    bed.accelerator.as_mut().unwrap().await_line("reloaded");
    streams.push(start(&bed, &servers[0]));
    assert_eq!(rate(&bed), Some(20_000_000));

    for mut stream in streams {
        assert_eq!(read_to_end(&mut stream).unwrap(), content.print());
    }
    assert!(servers[0].ends(4).iter().all(|(_, end)| end.is_ok()));
    assert_eq!(bed.stop().accelerated_flows(), 4);
}

#[test]
fn status_and_flows_tell_what_happens() {
    let mut bed = Testbed::accelerated("status", &Radio::steady(Rate::from_mbps(8)), &["--name", "here"]);
    let server = Server::start(&bed, FAMILIES[1]);
    let mut stream = bed.connect(server.address);
    let content = Content { seed: 32, len: 2_000_000 };
    stream.write_all(request(content, false).as_bytes()).unwrap();
    stream.peek(&mut [0]).unwrap();

    let status = json(&bed, "status");
    assert_eq!((status["name"].as_str(), status["is_draining"].as_bool()), (Some("here"), Some(false)));
    assert_eq!(status["counters"]["flows_now"].as_u64(), Some(1));
    assert!(status["debt_bytes"].as_u64() > Some(0) && status["resident_bytes"].as_u64() > Some(0));
    let list = json(&bed, "flows");
    let [flow] = list["flows"].as_array().unwrap().as_slice() else { panic!("{list}") };
    assert_eq!(flow["client"].as_str(), Some(stream.local_addr().unwrap().to_string().as_str()));
    assert_eq!(flow["server"].as_str(), Some(server.address.to_string().as_str()));
    assert_eq!(flow["state"].as_str(), Some("accelerated"));
    assert!(flow["debt_bytes"].as_u64() > Some(0) && flow["srtt_us"].as_u64() > Some(10_000), "{flow}");
    assert_eq!(read_to_end(&mut stream).unwrap(), content.print());
    drop(stream);

    // One that is passed is shown with its reason.
    let refused = std::net::SocketAddr::new(server.address.ip(), 9);
    let connect = || std::net::TcpStream::connect(refused).is_err();
    assert!(bed.host(Role::Client).run(connect).unwrap());
    let passed = json(&bed, "flows")["passed"][0].clone();
    assert_eq!(passed["server"].as_str(), Some(refused.to_string().as_str()));
    assert_eq!(passed["reason"].as_str(), Some("reset"));
    assert_eq!(json(&bed, "status")["passed"]["reset"].as_u64(), Some(1));

    for command in ["status", "flows"] {
        let name = bed.accelerator.as_ref().unwrap().process().to_string();
        let output = cellerator(&bed, &[command, &name]);
        assert!(output.status.success() && !output.stdout.is_empty(), "{output:?}");
    }
    let output = cellerator(&bed, &["status", "nobody"]);
    let problem = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(!output.status.success() && problem.contains("no accelerator 'nobody'"), "{problem}");
    bed.stop();
}
