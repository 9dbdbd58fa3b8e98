//! `cellerator export flows --ipfix`: to a collector that is played here, and to those that Debian has.

use std::io::Read;
use std::net::{TcpListener, UdpSocket};
use std::process::{Command, Stdio};

use crate::network::{Network, PATIENCE, Running, wait_until};

/// Fields of the first record of template 256 in a message: octets and packets from the client, then from the server.
fn counts(message: &[u8]) -> Option<[u64; 4]> {
    let mut sets = &message[16..];
    while sets.len() > 4 {
        let (id, len) = (u16::from_be_bytes([sets[0], sets[1]]), u16::from_be_bytes([sets[2], sets[3]]));
        let (set, rest) = sets.split_at(usize::from(len));
        if id == 256 {
            let numbers = &set[4 + 30..4 + 62];
            let mut all = numbers.chunks_exact(8).map(|bytes| u64::from_be_bytes(bytes.try_into().unwrap()));
            return Some([all.next()?, all.next()?, all.next()?, all.next()?]);
        }
        sets = rest;
    }
    None
}

/// What acceleration adds to the first record of template 256 in a message: sent again, time-outs, least and last
/// round trip, direction.
fn added(message: &[u8]) -> Option<[u64; 5]> {
    let mut sets = &message[16..];
    while sets.len() > 4 {
        let (id, len) = (u16::from_be_bytes([sets[0], sets[1]]), u16::from_be_bytes([sets[2], sets[3]]));
        let (set, rest) = sets.split_at(usize::from(len));
        if id == 256 {
            let numbers = &set[4 + 62..4 + 94];
            let mut all = numbers.chunks_exact(8).map(|bytes| u64::from_be_bytes(bytes.try_into().unwrap()));
            return Some([all.next()?, all.next()?, all.next()?, all.next()?, u64::from(set[4 + 94])]);
        }
        sets = rest;
    }
    None
}

#[test]
fn records_reach_a_collector_over_udp_and_tcp() {
    let network = Network::build("ipfix");
    let accelerator = network.accelerate(&[]);
    let udp = network.middle.run(|| UdpSocket::bind("127.0.0.1:0")).unwrap().unwrap();
    udp.set_read_timeout(Some(PATIENCE)).unwrap();
    let tcp = network.middle.run(|| TcpListener::bind("127.0.0.1:0")).unwrap().unwrap();
    let address = [udp.local_addr().unwrap(), tcp.local_addr().unwrap()].map(|at| at.to_string());
    let export = |at: &str, more: &[&str]| {
        let fixed = ["export", "flows", &network.name, "--ipfix", at, "--domain", "7"];
        Running::start(&network.middle, &[&fixed[..], more].concat())
    };
    let exports = [export(&address[0], &["--enterprise", "9"]), export(&address[1], &["--tcp"])];
    let (mut stream, _) = tcp.accept().unwrap();
    stream.set_nonblocking(true).unwrap();
    udp.set_nonblocking(true).unwrap();
    let mut buffer = [0; 2_000];
    let (mut datagram, mut streamed) = (Vec::new(), Vec::new());
    wait_until("both have a record of a whole flow", || {
        network.abort(100_000, 1_000);
        let is_whole = |message: &[u8]| {
            counts(message).is_some_and(|[out, _, into, packets]| out > 0 && into > 100_000 && packets > 0)
        };
        while let Ok(len) = udp.recv(&mut buffer) {
            if is_whole(&buffer[..len]) {
                datagram = buffer[..len].to_vec();
            }
        }
        while let Ok(len @ 1..) = stream.read(&mut buffer) {
            streamed.extend_from_slice(&buffer[..len]);
        }
        !datagram.is_empty() && streamed.len() > 300
    });
    assert_eq!((&datagram[..2], &datagram[12..16]), (&[0, 10][..], &[0, 0, 0, 7][..]));
    let [repaired, timeouts, least, last, direction] = added(&datagram).unwrap();
    assert!(repaired < 100_000 && timeouts < 100 && direction == 0, "{repaired} {timeouts} {direction}");
    // The network has no delay of its own: a round trip is less than a second, and more than nothing.
    assert!((1..1_000_000).contains(&least) && (least..1_000_000).contains(&last), "{least} {last} us");
    // The first message of a connection has the templates.
    assert_eq!((&streamed[..2], &streamed[12..20]), (&[0, 10][..], &[0, 0, 0, 7, 0, 2, 0, 124][..]));
    for export in exports {
        export.stop();
    }
    accelerator.stop();
}

/// nfdump's collector reads what is sent.
#[test]
#[ignore = "needs Debian's package nfdump: make collectors"]
fn nfdump_reads_the_records() {
    let network = Network::build("nfdump");
    let accelerator = network.accelerate(&[]);
    let directory = tempfile::tempdir().unwrap();
    let folder = directory.path().to_str().unwrap();
    let mut command = Command::new("nfcapd");
    command
        .args(["-b", "127.0.0.1", "-p", "4739", "-w", folder, "-t", "2"])
        .stdout(Stdio::null())
        .stderr(Stdio::null());
    let options = io::SpawnOptions { death_signal: Some(9), ..io::SpawnOptions::default() };
    let mut collector = network.middle.spawn(command, options).expect("tools/install-deps --optional nfdump");
    let export = Running::start(
        &network.middle,
        &["export", "flows", &network.name, "--ipfix", "127.0.0.1:4739", "--enterprise", "9"],
    );
    let mut said = String::new();
    wait_until("nfdump has a flow of the download", || {
        let (client, server) = network.abort(100_000, 1_000);
        let output = Command::new("nfdump").args(["-R", folder, "-o", "csv", "-q"]).output().unwrap();
        said = String::from_utf8_lossy(&output.stdout).into_owned();
        said.contains(&client.ip().to_string()) && said.contains(&server.ip().to_string())
    });
    assert!(said.contains("TCP"), "{said}");
    export.stop();
    collector.kill().unwrap();
    collector.wait().unwrap();
    accelerator.stop();
}

/// The command of the page on metrics makes a Parquet file of the lines.
#[test]
#[ignore = "needs DuckDB's command, of PyPI: make collectors"]
fn lines_become_parquet_with_one_command() {
    let network = Network::build("parquet");
    let accelerator = network.accelerate(&[]);
    let directory = tempfile::tempdir().unwrap();
    let lines = directory.path().join("flows.jsonl");
    let export = Running::start(
        &network.middle,
        &["export", "flows", &network.name, "--json", lines.to_str().unwrap()],
    );
    let count = || std::fs::read_to_string(&lines).unwrap_or_default().lines().count();
    wait_until("there are records of two flows", || {
        network.abort(100_000, 1_000);
        count() >= 2
    });
    export.stop();
    let page =
        std::fs::read_to_string(concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/metrics.md")).unwrap();
    let command = page.lines().find(|line| line.starts_with("duckdb -c ")).unwrap();
    let run = |line: &str| {
        let mut command = Command::new("bash");
        let output = command.args(["-euc", line]).current_dir(&directory).output().unwrap();
        assert!(output.status.success(), "{line}: {}", String::from_utf8_lossy(&output.stderr));
        String::from_utf8(output.stdout).unwrap()
    };
    run(command);
    let said = run("duckdb -csv -noheader -c \"SELECT count(*), min(delivered_bytes) FROM 'flows.parquet'\"");
    let (flows, least) = said.trim().split_once(',').unwrap();
    assert_eq!(flows.parse::<usize>().unwrap(), count());
    assert!(least.parse::<u64>().unwrap() >= 100_000, "{said}");
    accelerator.stop();
}
