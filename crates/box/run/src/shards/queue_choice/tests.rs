use std::net::UdpSocket;

use io::netlink::{Cidr, Family, Route, Table};
use io::{Host, RawSocket, TunConfig, TunQueue};

use super::*;

const SHARDS: usize = 3;
const PREFIX_LEN: u8 = 64;

#[test]
fn subscribers_are_spread_and_hosts_of_a_prefix_are_not() {
    let mut counts = [0; 8];
    for n in 0..8_000u32 {
        let client = IpAddr::from((0x0a00_0000 + n).to_be_bytes());
        counts[shard_of(client, PREFIX_LEN, counts.len())] += 1;
    }
    assert!(counts.iter().all(|count| (850..1_150).contains(count)), "{counts:?}");
    let shard = |text: &str| shard_of(text.parse().unwrap(), PREFIX_LEN, 64);
    assert_eq!(shard("2001:db8:0:1::1"), shard("2001:db8:0:1:ffff::2"));
    assert!((2..10).any(|n| shard(&format!("2001:db8:0:{n}::1")) != shard("2001:db8:0:1::1")));
}

/// A device with a queue per shard, up, through which everything is reached; it comes from `from`.
fn device(place: &Host, from: Port) -> Vec<TunQueue> {
    let config = TunConfig { name: "ct%d".to_owned(), multi_queue: true, ..TunConfig::default() };
    let tun = place.run(|| Tun::create(&config)).unwrap().unwrap();
    let mut queues: Vec<TunQueue> =
        (1..SHARDS).map(|_| place.run(|| tun.open_queue()).unwrap().unwrap()).collect();
    install(&tun, from, PREFIX_LEN).unwrap();
    tun.set_up().unwrap();
    for address in ["10.8.0.1/24", "fd08::1/64"] {
        tun.netlink().add_address(tun.index(), address.parse::<Cidr>().unwrap()).unwrap();
    }
    for family in Family::BOTH {
        let route = Route::default_via_device(family, tun.index(), Table::MAIN);
        tun.netlink().add_route(&route).unwrap();
    }
    queues.insert(0, tun.into_queue());
    queues
}

/// The shards whose queues hold a packet of `len` bytes; takes everything out.
fn shards_with(queues: &[TunQueue], len: usize) -> Vec<usize> {
    let (mut header, mut packet) = ([0; 10], [0; 2_000]);
    let mut found = Vec::new();
    for (shard, queue) in queues.iter().enumerate() {
        while let Some(got) = queue.recv_split(&mut header, &mut packet).unwrap() {
            if got == len {
                found.push(shard);
            }
        }
    }
    found
}

fn place(what: &str) -> Host {
    Host::create(&format!("ct-run-shard-{what}-{}", std::process::id())).unwrap()
}

#[test]
fn the_kernel_chooses_the_shard_of_the_destination() {
    let place = place("dst");
    let queues = device(&place, Port::Wired);
    let sockets =
        ["10.8.0.1:0", "[fd08::1]:0"].map(|own| place.run(|| UdpSocket::bind(own)).unwrap().unwrap());
    for n in 1..40 {
        for (client, socket, header) in [
            (format!("10.9.{n}.{}", 3 * n), &sockets[0], 28),
            (format!("2001:db8:{n}:7::{n}"), &sockets[1], 48),
        ] {
            let client: IpAddr = client.parse().unwrap();
            socket.send_to(b"x", (client, 9)).unwrap();
            assert_eq!(shards_with(&queues, header + 1), [shard_of(client, PREFIX_LEN, SHARDS)], "{client}");
        }
    }
}

/// An IPv4 packet with `payload` from one address to another.
fn ipv4(protocol: u8, from: [u8; 4], to: [u8; 4], payload: &[u8]) -> Vec<u8> {
    let mut packet = vec![0x45, 0, 0, 0, 0, 0, 0, 0, 64, protocol, 0, 0];
    packet.extend(from);
    packet.extend(to);
    packet.extend(payload);
    let len = (packet.len() as u16).to_be_bytes();
    packet[2..4].copy_from_slice(&len);
    packet
}

#[test]
fn the_kernel_chooses_the_shard_of_the_source_and_of_what_an_error_quotes() {
    let place = place("src");
    let queues = device(&place, Port::Mobile);
    let sender = place.run(RawSocket::open).unwrap().unwrap();
    let (server, router) = ([10, 2, 0, 2], [10, 7, 7, 7]);
    let to = IpAddr::from(server);
    for n in 1u8..40 {
        let client = [10, 9, n, n.wrapping_mul(5)];
        let shard = shard_of(IpAddr::from(client), PREFIX_LEN, SHARDS);
        assert!(sender.send(&ipv4(protocol::TCP, client, server, &[0; 20]), to));
        assert_eq!(shards_with(&queues, 40), [shard], "a segment of {client:?}");
        // "Too big", by a router on the way to the client.
        let mut error = vec![3, 4, 0, 0, 0, 0, 5, 0];
        error.extend(&ipv4(protocol::TCP, server, client, &[0; 8]));
        assert!(sender.send(&ipv4(protocol::ICMP, router, server, &error), to));
        assert_eq!(shards_with(&queues, 56), [shard], "an error about {client:?}");
        // An echo request quotes nothing.
        assert!(sender.send(&ipv4(protocol::ICMP, client, server, &[8, 0, 0, 0, 0, 0, 0, 0]), to));
        assert_eq!(shards_with(&queues, 28), [shard], "an echo request of {client:?}");
    }
}
