//! The same with the engine in the middle.

use std::io::{ErrorKind, Read, Write};
use std::net::{Shutdown, TcpStream};

use run::Config;

use crate::nat::masquerade;
use crate::topology::{BOX_WIRED, PATIENCE, Program, SERVER, SIGKILL, SIGTERM, Topology, wait_until};

/// Its last words: flows accelerated, and bytes lost that the server was told are delivered.
pub fn verdict(said: &str) -> (u64, u64) {
    let line = said.lines().find(|line| line.starts_with("accelerated")).unwrap_or_else(|| panic!("{said}"));
    let mut numbers = line.split_ascii_whitespace().filter_map(|word| word.parse().ok());
    (numbers.next().unwrap(), numbers.next().unwrap())
}

#[test]
fn downloads_are_accelerated_intact() {
    let topology = Topology::build("engine");
    let program = Program::start_engine(&topology, &topology.config());
    for address in SERVER {
        let connection = topology.connect(&topology.server, address);
        let client = connection.client.local_addr().unwrap();
        assert_eq!(connection.peer, client, "the server sees the client's own address");
        connection.download(20_000_000);
    }
    let said = program.stop(&topology);
    assert_eq!(verdict(&said), (2, 0), "{said}");
}

#[test]
fn downloads_are_accelerated_intact_without_super_packets() {
    let topology = Topology::build("engnogso");
    let program = Program::start_engine(&topology, &Config { gso: false, ..topology.config() });
    for address in SERVER {
        topology.connect(&topology.server, address).download(10_000_000);
    }
    for link in topology.netlink().links().unwrap() {
        if link.name.starts_with("cell") {
            let stats = link.stats;
            assert!(stats.rx_packets > 0 && stats.rx_bytes <= 1_500 * stats.rx_packets, "{link:?}");
            assert!(stats.tx_packets > 0 && stats.tx_bytes <= 1_500 * stats.tx_packets, "{link:?}");
        }
    }
    let said = program.stop(&topology);
    assert_eq!(verdict(&said), (2, 0), "{said}");
}

#[test]
fn downloads_are_accelerated_behind_masquerade() {
    let topology = Topology::build("engnat");
    masquerade(&topology);
    let program = Program::start_engine(&topology, &topology.config());
    for (address, own) in SERVER.into_iter().zip(BOX_WIRED) {
        let connection = topology.connect(&topology.server, address);
        assert_eq!(connection.peer.ip().to_string(), own);
        connection.download(10_000_000);
    }
    let said = program.stop(&topology);
    assert_eq!(verdict(&said), (2, 0), "{said}");
}

#[test]
fn asked_to_stop_it_delivers_what_it_owes_and_hands_back() {
    let topology = Topology::build("drain");
    let program = Program::start_engine(&topology, &topology.config());
    let connection = topology.connect(&topology.server, SERVER[0]);
    let process = io::PidFd::open(program.pid()).unwrap();
    std::thread::scope(|scope| {
        scope.spawn(|| {
            wait_until("the download is under way", || topology.steered_packets() > 300);
            process.send_signal(SIGTERM).unwrap();
        });
        connection.download(100_000_000);
    });
    let (status, said) = program.wait();
    assert!(status.success(), "{said}");
    assert_eq!(verdict(&said), (1, 0), "{said}");
    assert_eq!(topology.leftovers(), [""; 0]);
}

#[test]
fn idle_connections_are_handed_back_on_stop() {
    let topology = Topology::build("handback");
    let program = Program::start_engine(&topology, &topology.config());
    let mut connections = SERVER.map(|address| topology.connect(&topology.server, address));
    connections.iter_mut().for_each(|connection| connection.exchange(b"idle-now"));
    let said = program.stop(&topology);
    assert_eq!(verdict(&said), (2, 0), "{said}");
    connections.iter_mut().for_each(|connection| connection.exchange(b"plain---"));
}

#[test]
fn killed_it_leaves_an_idle_accelerated_connection_working() {
    let topology = Topology::build("engkill");
    let program = Program::start_engine(&topology, &topology.config());
    let mut connections = SERVER.map(|address| topology.connect(&topology.server, address));
    connections.iter_mut().for_each(|connection| connection.exchange(b"idle-now"));
    program.signal(SIGKILL);
    program.wait();
    connections.iter_mut().for_each(|connection| connection.exchange(b"survived"));
    wait_until("the watchdog has undone everything", || topology.leftovers().is_empty());
    for connection in connections {
        connection.download(1_000_000);
    }
}

#[test]
fn h03_a_refused_connection_is_refused() {
    let topology = Topology::build("refuse");
    let program = Program::start_engine(&topology, &topology.config());
    for address in SERVER {
        let to = format!("{address}:9").parse().or_else(|_| format!("[{address}]:9").parse()).unwrap();
        let refused = topology.client.run(|| TcpStream::connect_timeout(&to, PATIENCE)).unwrap().unwrap_err();
        assert_eq!(refused.kind(), ErrorKind::ConnectionRefused);
    }
    let said = program.stop(&topology);
    assert_eq!(verdict(&said), (0, 0), "{said}");
}

#[test]
fn an_upload_with_half_close_is_answered() {
    let topology = Topology::build("half");
    let program = Program::start_engine(&topology, &topology.config());
    let connection = topology.connect(&topology.server, SERVER[0]);
    let (mut client, mut server) = (connection.client, connection.server);
    let length = std::thread::scope(|scope| {
        let upload = scope.spawn(move || {
            client.write_all(&vec![7; 5_000_000]).unwrap();
            client.shutdown(Shutdown::Write).unwrap();
            let mut answer = Vec::new();
            client.read_to_end(&mut answer).unwrap();
            answer.len()
        });
        let mut got = Vec::new();
        server.read_to_end(&mut got).unwrap();
        assert!(got.len() == 5_000_000 && got.iter().all(|byte| *byte == 7));
        server.write_all(&[8; 70_000]).unwrap();
        drop(server);
        upload.join().unwrap()
    });
    assert_eq!(length, 70_000);
    let said = program.stop(&topology);
    assert_eq!(verdict(&said), (1, 0), "{said}");
}
