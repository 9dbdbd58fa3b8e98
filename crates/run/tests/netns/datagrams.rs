//! H33: what is not TCP, nor an ICMP error about it, never enters the process.

use std::net::UdpSocket;

use crate::topology::{PATIENCE, Program, SERVER, Topology};

const DATAGRAMS: u64 = 300;

#[test]
fn h33_udp_never_enters() {
    let topology = Topology::build("udp");
    let program = Program::start_engine(&topology, &topology.config());
    for address in SERVER {
        let echo = topology.server.run(|| UdpSocket::bind((address, 0))).unwrap().unwrap();
        let to = echo.local_addr().unwrap();
        let any = if address.contains(':') { "[::]:0" } else { "0.0.0.0:0" };
        let client = topology.client.run(|| UdpSocket::bind(any)).unwrap().unwrap();
        client.set_read_timeout(Some(PATIENCE)).unwrap();
        client.connect(to).unwrap();
        let before = topology.steered_packets();
        for number in 0..DATAGRAMS {
            let mut datagram = [0; 1_200];
            datagram[..8].copy_from_slice(&number.to_be_bytes());
            client.send(&datagram).unwrap();
            let mut heard = [0; 1_500];
            let (len, from) = echo.recv_from(&mut heard).unwrap();
            echo.send_to(&heard[..len], from).unwrap();
            assert_eq!(client.recv(&mut heard).unwrap(), datagram.len());
            assert_eq!(heard[..8], datagram[..8]);
        }
        // Neighbours may be looked for meanwhile, which is ICMPv6.
        let steered = topology.steered_packets() - before;
        assert!(steered < DATAGRAMS / 10, "{steered} packets of {} went through the process", 2 * DATAGRAMS);
    }
    program.stop(&topology);
}
