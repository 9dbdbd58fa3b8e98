//! A third host that knows the addresses and ports of a flow, and sweeps its numbers: no byte of it arrives,
//! and no flow ends or hangs (RFC 5961 §5). Plain forwarding between two kernels lets nothing of this
//! through.

use std::net::SocketAddr;

use units::SeqNum;
use wire::{TcpFlags, TcpHeaderSpec, Timestamps};

use crate::accelerated::verdict;
use crate::raw::Raw;
use crate::topology::{Program, SERVER, Topology};

/// Less than the window of a new flow: each sweep hits it.
const STRIDE: usize = 200_000;

/// What a sweep is made of: flags, bytes of data, and a time.
const KINDS: [(TcpFlags, usize, Option<u32>); 4] = [
    (TcpFlags::PSH, 104, None),
    (TcpFlags::ACK.with(TcpFlags::PSH), 104, None),
    (TcpFlags::FIN, 0, None),
    (TcpFlags::ACK, 0, Some(0x7000_0000)),
];

/// Sends segments of a kind with all numbers, and zero for the acknowledgement.
fn sweep(raw: &Raw, src: SocketAddr, dst: SocketAddr, (flags, len, tsval): (TcpFlags, usize, Option<u32>)) {
    let payload = vec![0x58; len];
    for number in (0..u64::from(u32::MAX)).step_by(STRIDE) {
        let spec = TcpHeaderSpec::new(src, dst, SeqNum::new(number as u32), SeqNum::new(0), flags);
        let timestamps = tsval.map(|value| Timestamps { value, echo: 0 });
        while !raw.send(&TcpHeaderSpec { window: 0xffff, timestamps, ..spec }, &payload) {
            std::thread::yield_now();
        }
    }
}

#[test]
fn a_blind_host_reaches_nobody() {
    let topology = Topology::build("blind");
    let program = Program::start_engine(&topology, &topology.config());
    let wired = Raw::open(&topology.server, "s0");
    let mobile = Raw::open(&topology.client, "c0");
    for address in SERVER {
        let mut connection = topology.connect(&topology.server, address);
        let client = connection.client.local_addr().unwrap();
        let server = connection.client.peer_addr().unwrap();
        connection.exchange(b"opening.");
        for kind in KINDS {
            sweep(&wired, server, client, kind);
            sweep(&mobile, client, server, kind);
            connection.exchange(b"goes-on.");
        }
        connection.download(300_000);
    }
    let said = program.stop(&topology);
    assert_eq!(verdict(&said), (2, 0), "{said}");
}
