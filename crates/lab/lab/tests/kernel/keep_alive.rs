//! Keep-alives go end to end: the living live on, the dead are noticed.

use std::io::{ErrorKind, Read, Write};
use std::net::TcpStream;
use std::process::{Command, Stdio};

use io::SpawnOptions;
use lab::{RADIO, Role, WAN};
use scenario::Family;
use socket2::{SockRef, TcpKeepalive};
use units::{Duration, Rate};

use crate::kernel::counters::counter;
use crate::kernel::testbed::{Radio, Testbed, pause};

fn keep_alive(stream: &TcpStream) {
    let second = std::time::Duration::from_secs(1);
    let settings = TcpKeepalive::new().with_time(second).with_interval(second).with_retries(2);
    SockRef::from(stream).set_tcp_keepalive(&settings).unwrap();
}

fn exchange(client: &mut TcpStream, server: &mut TcpStream) {
    let mut word = [0; 4];
    server.write_all(b"down").unwrap();
    client.read_exact(&mut word).unwrap();
    assert_eq!(&word, b"down");
    client.write_all(b"up..").unwrap();
    server.read_exact(&mut word).unwrap();
    assert_eq!(&word, b"up..");
}

/// Takes a host off its link.
fn unplug(bed: &Testbed, host: Role, device: &str) {
    let mut command = Command::new("ip");
    command.args(["link", "set", device, "down"]).stdin(Stdio::null());
    assert!(bed.host(host).spawn(command, SpawnOptions::default()).unwrap().wait().unwrap().success());
}

#[test]
fn h24_idle_connections_are_kept_alive_and_dead_peers_noticed() {
    for (dead, device) in [(Role::Client, RADIO), (Role::Server, WAN)] {
        let mut bed = Testbed::accelerated("alive", &Radio::steady(Rate::from_mbps(20)), &[]);
        let mut pairs = [Family::Ipv4, Family::Ipv6].map(|family| bed.pair(family));
        for (client, server) in &mut pairs {
            exchange(client, server);
            keep_alive(client);
            keep_alive(server);
        }
        // Longer than it takes to give up a peer that does not answer.
        pause(Duration::from_millis(4_200));
        for host in [Role::Client, Role::Server] {
            assert!(counter(&bed, host, "TcpExt.TCPKeepAlive") >= 4, "{host:?} probed");
        }
        for (client, server) in &mut pairs {
            exchange(client, server);
        }
        unplug(&bed, dead, device);
        for (client, server) in pairs {
            let mut survivor = if dead == Role::Client { server } else { client };
            let error = survivor.read(&mut [0]).unwrap_err();
            assert_eq!(error.kind(), ErrorKind::TimedOut, "{error}");
        }
        let accelerator = bed.accelerator.as_ref().unwrap();
        accelerator.signal(crate::kernel::testbed::SIGTERM);
        let said = bed.accelerator.take().unwrap().wait();
        assert_eq!(said.accelerated_flows(), 2);
        assert_eq!(bed.leftovers(), [""; 0]);
    }
}
