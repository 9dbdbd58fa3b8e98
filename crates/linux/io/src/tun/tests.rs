//! Each test works in a fresh network namespace of its own; they need root.

use std::io::{IoSlice, Read, Write};
use std::net::{TcpListener, TcpStream, UdpSocket};
use std::sync::atomic::{AtomicBool, Ordering};

use super::*;
use crate::Namespace;
use crate::netlink::Family;
use crate::netns::test_host;
use crate::{Clock, Interest, Waiter};

/// A device in `ns`, up, with addresses 10.8.0.1/24 and fd08::1/64.
fn device(ns: &Namespace, framing: Framing) -> Tun {
    let config = TunConfig { name: "ct%d".to_owned(), framing, ..TunConfig::default() };
    let tun = ns.run(|| Tun::create(&config)).unwrap().unwrap();
    tun.set_up().unwrap();
    for address in ["10.8.0.1/24", "fd08::1/64"] {
        tun.netlink().add_address(tun.index(), address.parse().unwrap()).unwrap();
    }
    tun
}

/// Swaps source and destination address, which leaves every checksum right.
fn swap_addresses(packet: &mut [u8]) {
    let (at, len) = if packet[0] >> 4 == 4 { (12, 4) } else { (8, 16) };
    let (source, destination) = packet[at..at + 2 * len].split_at_mut(len);
    source.swap_with_slice(destination);
}

/// Sends everything back with addresses swapped until told to stop; gives the longest packet's length.
fn echo(tun: &Tun, stop: &AtomicBool) -> usize {
    let mut waiter = Waiter::new(units::Duration::ZERO).unwrap();
    waiter.add(tun, Interest::Read, 0).unwrap();
    let (mut header, mut packet, mut longest) = ([0; VNET_HEADER_LEN], vec![0; PACKET_LEN_MAX], 0);
    while !stop.load(Ordering::Relaxed) {
        waiter.wait(Some(Clock::now() + units::Duration::from_millis(10))).unwrap();
        while let Some(len) = tun.recv_split(&mut header, &mut packet).unwrap() {
            longest = longest.max(len);
            swap_addresses(&mut packet[..len]);
            let (head, body) = packet[..len].split_at(20);
            tun.send_vectored(&header, &[IoSlice::new(head), IoSlice::new(body)]).unwrap();
        }
    }
    longest
}

/// Sends 4 MB from this namespace through the device and back into it; gives the longest packet's length.
fn transfer(framing: Framing, own: &str, other: &str) -> usize {
    let ns = test_host("tun-echo");
    let tun = device(&ns, framing);
    let stop = AtomicBool::new(false);
    let sent: Vec<u8> = (0..4_000_000u32).map(|i| (i.wrapping_mul(i) >> 7) as u8).collect();
    let sent = &sent;
    std::thread::scope(|scope| {
        let echo = scope.spawn(|| echo(&tun, &stop));
        let listener = ns.run(|| TcpListener::bind(format!("{own}:0"))).unwrap().unwrap();
        let port = listener.local_addr().unwrap().port();
        let mut client = ns.run(|| TcpStream::connect(format!("{other}:{port}"))).unwrap().unwrap();
        let (mut server, _) = listener.accept().unwrap();
        let send = scope
            .spawn(move || client.write_all(sent).and_then(|()| client.shutdown(std::net::Shutdown::Write)));
        let mut got = Vec::new();
        server.read_to_end(&mut got).unwrap();
        assert!(got == *sent, "{} of {} bytes arrived intact", got.len(), sent.len());
        send.join().unwrap().unwrap();
        stop.store(true, Ordering::Relaxed);
        echo.join().unwrap()
    })
}

#[test]
fn super_packets_pass_whole_with_gso() {
    for (own, other) in [("10.8.0.1", "10.8.0.2"), ("[fd08::1]", "[fd08::2]")] {
        let longest = transfer(Framing::SuperPackets, own, other);
        assert!(longest > 1_500, "longest packet was {longest} bytes");
    }
}

#[test]
fn packets_fit_the_wire_without_gso() {
    for framing in [Framing::Bare, Framing::Header] {
        let longest = transfer(framing, "10.8.0.1", "10.8.0.2");
        assert!(longest <= 1_500, "{framing:?}: longest packet was {longest} bytes");
    }
}

#[test]
fn a_full_queue_counts_its_drops() {
    let ns = test_host("tun-drop");
    let tun = device(&ns, Framing::SuperPackets);
    tun.netlink()
        .change_link(tun.index(), &LinkChange { queue_len_packets: Some(5), ..LinkChange::default() })
        .unwrap();
    // The queue of a TUN is sized by the setting in force; nothing reads it here.
    let socket = ns.run(|| UdpSocket::bind("10.8.0.1:0")).unwrap().unwrap();
    for _ in 0..50 {
        let _ = socket.send_to(b"x", "10.8.0.2:9");
    }
    assert!(tun.stats().unwrap().tx_dropped >= 40, "{:?}", tun.stats().unwrap());
    let mut buffer = [0; 2_000];
    assert!(tun.recv(&mut buffer).unwrap().is_some_and(|len| len == tun.header_len() + 20 + 8 + 1));
}

#[test]
fn a_router_s_device_is_silent() {
    let ns = test_host("tun-quiet");
    for path in ["net/ipv4/ip_forward", "net/ipv6/conf/all/forwarding", "net/ipv6/conf/default/forwarding"] {
        crate::sysctl::write(&ns, path, "1").unwrap();
    }
    let config = TunConfig { name: "ct%d".to_owned(), ..TunConfig::default() };
    let tun = ns.run(|| Tun::create(&config)).unwrap().unwrap();
    tun.set_up().unwrap();
    let mut waiter = Waiter::new(units::Duration::ZERO).unwrap();
    waiter.add(&tun, Interest::Read, 0).unwrap();
    // Multicast listener reports came within half a second of switching the device on.
    let ready = waiter.wait(Some(Clock::now() + units::Duration::from_millis(1_000))).unwrap();
    assert!(ready.is_empty(), "{:x?}", {
        let mut packet = [0; 90];
        tun.recv(&mut packet).map(|_| packet)
    });
}

#[test]
fn a_device_vanishes_with_its_handle() {
    let ns = test_host("tun-drop2");
    let tun = device(&ns, Framing::SuperPackets);
    let name = tun.name().to_owned();
    assert!(name.starts_with("ct"));
    assert!(tun.offloads().checksum && tun.offloads().tcp);
    assert!(tun.recv(&mut [0; 100]).unwrap().is_none(), "no router solicitations");
    let netlink = ns.netlink().unwrap();
    let link = netlink.link(&name).unwrap();
    assert_eq!((link.queue_len_packets, link.mtu, link.is_up), (10_000, 1_500, true));
    drop(tun);
    assert!(netlink.link(&name).unwrap_err().is_not_there());
    assert!(netlink.routes(Family::V4, crate::netlink::Table::MAIN).unwrap().is_empty());
}

#[test]
fn a_device_that_is_there_is_not_shared() {
    const EBUSY: i32 = 16;
    let ns = test_host("tun-excl");
    let create = |multi_queue, framing| {
        let config = TunConfig { name: "ct0".to_owned(), multi_queue, framing, ..TunConfig::default() };
        ns.run(|| Tun::create(&config)).unwrap()
    };
    for (is_first, is_second) in [(false, false), (true, true), (true, false), (false, true)] {
        let first = create(is_first, Framing::SuperPackets).unwrap();
        for framing in [Framing::SuperPackets, Framing::Bare] {
            let error = create(is_second, framing).unwrap_err();
            assert_eq!(error.raw_os_error(), Some(EBUSY), "{error}");
        }
        let further = ns.run(|| first.open_queue()).unwrap();
        assert_eq!(further.is_ok(), is_first, "its owner alone opens further queues");
    }
    create(true, Framing::SuperPackets).expect("its name is free again");
}

#[test]
fn errors_say_what_and_why() {
    let ns = test_host("tun-err");
    let tun = device(&ns, Framing::SuperPackets);
    let config = |name: &str| TunConfig { name: name.to_owned(), ..TunConfig::default() };
    let taken = ns.run(|| Tun::create(&config(tun.name()))).unwrap().unwrap_err();
    assert!(taken.to_string().contains(tun.name()), "{taken}");
    let long = Tun::create(&config("sixteen-letters!")).unwrap_err();
    assert!(long.to_string().contains("1 to 15"), "{long}");
    let bad = tun.send_vectored(&[0xff; VNET_HEADER_LEN], &[IoSlice::new(&[0x45; 40])]).unwrap_err();
    assert!(!bad.is_device_gone(), "{bad}");
    let pieces = [IoSlice::new(b"x"); PIECES_MAX + 1];
    assert!(matches!(tun.send_vectored(&[0; VNET_HEADER_LEN], &pieces), Err(IoError::Invalid { .. })));
    tun.netlink().delete_link(tun.index()).unwrap();
    assert!(tun.send(&[0; 50]).unwrap_err().is_device_gone());
    assert!(tun.recv(&mut [0; 50]).unwrap_err().is_device_gone());
}
