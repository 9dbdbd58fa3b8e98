//! H2, H34, H37: another process goes on in the place of a bridge that died, hangs, or is replaced.

use std::io::IoSlice;
use std::net::{SocketAddr, UdpSocket};
use std::sync::atomic::{AtomicBool, Ordering};

use io::netlink::{InterfaceIndex, LinkChange};
use io::{Clock, FrameSocket, Interest, Namespace, VNET_HEADER_LEN, Waiter};
use run::{Config, InlineFallback};
use units::{Duration, SeqNum};
use wire::{Tcp, TcpFlags, TcpHeaderSpec, Transport};

use crate::crash::{assert_reset, with_debt};
use crate::inline::{HERE, bridges, build};
use crate::raw::syn;
use crate::successor::{Late, no_flow_notices, signal, successor};
use crate::topology::{Connection, PATIENCE, Program, SIGKILL, SIGSTOP, SIGTERM, Topology, wait_until};
use crate::upgrade::{killed_in_the_middle, trickle_while};

/// A bridge that is followed by another process, however long that takes on a loaded machine.
fn build_with_heir(what: &str, fallback: InlineFallback) -> (Topology, Config) {
    let (topology, mut config) = build(what, fallback);
    config.watchdog.successor = vec!["self".to_owned()];
    config.watchdog.recover_within_ms = 10_000;
    (topology, config)
}

fn opened(topology: &Topology, n: usize) -> Connection {
    let mut connection = topology.connect(&topology.server, HERE[n % 2]);
    connection.exchange(b"opening.");
    connection
}

/// Bytes that the running instance holds for flows.
fn held(topology: &Topology) -> u64 {
    topology.status().processor.counter("buffer_bytes_now")
}

/// Ends the process that goes on in the end; nothing is left.
fn end(topology: &Topology, last: u32, program: Program) -> String {
    signal(last, SIGTERM);
    let (_, said) = program.wait();
    wait_until("all is undone", || topology.leftovers().is_empty());
    said
}

/// Numbers as datagrams, which no engine handles, from the client to the server or to all: those to one host pass by the
/// kernel's bridge, if one stands by.
struct Numbered {
    from: UdpSocket,
    to: UdpSocket,
}

const LAST: u32 = u32::MAX;

/// All hosts in the network of [`HERE`].
const TO_ALL: &str = "10.1.0.255";

/// Says at its end, also at that of a failed test, that others are to end.
struct Ending<'a>(&'a AtomicBool);

impl Drop for Ending<'_> {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Relaxed);
    }
}

impl Numbered {
    fn open(topology: &Topology, address: &str) -> Self {
        let open = |namespace: &Namespace| namespace.run(|| UdpSocket::bind("0.0.0.0:0")).unwrap().unwrap();
        let (from, to) = (open(&topology.client), open(&topology.server));
        from.set_broadcast(true).unwrap();
        from.connect((address, to.local_addr().unwrap().port())).unwrap();
        to.set_read_timeout(Some(PATIENCE)).unwrap();
        Self { from, to }
    }

    /// Sends one every `pause` while `body` does its work; gives how many, and what has come. Those that wait are
    /// to be few enough to fit into the server's socket together.
    fn pass(self, pause: Duration, body: impl FnOnce()) -> (u32, Vec<u32>) {
        let is_over = AtomicBool::new(false);
        std::thread::scope(|scope| {
            let sender = scope.spawn(|| {
                let (mut waiter, mut count) = (Waiter::new(Duration::ZERO).unwrap(), 0);
                while !is_over.load(Ordering::Relaxed) {
                    self.from.send(&u32::to_be_bytes(count)).unwrap();
                    waiter.wait(Some(Clock::now() + pause)).unwrap();
                    count += 1;
                }
                self.from.send(&LAST.to_be_bytes()).unwrap();
                count
            });
            let receiver = scope.spawn(|| {
                let mut number = [0; 4];
                let next = || self.to.recv(&mut number).map(|_| u32::from_be_bytes(number)).unwrap();
                std::iter::repeat_with(next).take_while(|number| *number != LAST).collect()
            });
            {
                let _end = Ending(&is_over);
                body();
            }
            (sender.join().unwrap(), receiver.join().unwrap())
        })
    }
}

/// Packets that the queues that all interfaces of the machine share had no room for.
fn dropped_by_machine() -> usize {
    let processors = std::fs::read_to_string("/proc/net/softnet_stat").unwrap();
    let dropped = processors.lines().filter_map(|line| line.split_ascii_whitespace().nth(1));
    dropped.map(|count| usize::from_str_radix(count, 16).unwrap()).sum()
}

/// None has come twice, all have in their order, and none is missing but those that a process died of handling,
/// and as many as a busy machine has dropped.
fn assert_come(sent: u32, came: &[u32], in_hand: usize, dropped: usize) {
    assert!(came.is_sorted_by(|one, next| one < next), "{came:?}");
    let at_least = (sent as usize).saturating_sub(in_hand + dropped);
    assert!(came.len() >= at_least, "{} of {sent}, {dropped} dropped: {came:?}", came.len());
}

/// As long as a successor takes, all frames of which this process has a copy wait: none goes past by the kernel's bridge,
/// none comes twice.
#[test]
fn h02_frames_wait_for_a_successor_that_takes_long() {
    let (topology, mut config) = build_with_heir("brslow", InlineFallback::Bridge);
    let itself = [env!("CARGO_BIN_EXE_tun-echo"), "--engine", &serde_json::to_string(&config).unwrap()];
    let slowly = ["/bin/sh", "-c", "sleep 3; exec \"$@\"", "sh"].into_iter().chain(itself);
    config.watchdog.successor = slowly.map(str::to_owned).collect();
    let mut program = Program::start_ready(&topology, &config);
    let connection = opened(&topology, 0);
    let late = Late::start(connection.client, connection.server, 5_000_000);
    wait_until("it is owed something", || held(&topology) > 1_000_000);
    let mut last = 0;
    let before = dropped_by_machine();
    let (sent, came) = Numbered::open(&topology, TO_ALL).pass(Duration::from_millis(30), || {
        program.signal(SIGKILL);
        last = successor(&mut program);
    });
    assert!(sent > 60, "{sent}");
    assert_come(sent, &came, 1, dropped_by_machine() - before);
    late.finish();
    end(&topology, last, program);
}

#[test]
fn h02_another_process_goes_on_with_a_bridge() {
    for fallback in [InlineFallback::Bridge, InlineFallback::None] {
        let (topology, config) = build_with_heir("brheir", fallback);
        no_flow_notices(&topology, &config, HERE);
    }
}

/// An interface that was made anew has another socket: that one is kept for a successor.
#[test]
fn h02_another_process_goes_on_with_a_bridge_whose_interface_was_made_anew() {
    let (topology, config) = build_with_heir("brnew", InlineFallback::Bridge);
    let mut program = Program::start_ready(&topology, &config);
    let netlink = topology.netlink();
    netlink.delete_link(netlink.index_of("m0").unwrap()).unwrap();
    program.await_line("interface 'm0' is ");
    topology.lay_cables(["m0"]);
    crate::inline::settle_in(&topology);
    program.await_line("joined again");
    let connection = opened(&topology, 0);
    let before = topology.received_packets();
    let late = Late::start(connection.client, connection.server, 5_000_000);
    wait_until("it is under way", || topology.received_packets() > before + 20);
    program.signal(SIGKILL);
    let last = successor(&mut program);
    late.finish();
    end(&topology, last, program);
}

#[test]
fn h02_another_process_goes_on_with_a_bridge_whose_interface_is_down() {
    let (topology, config) = build_with_heir("brdown", InlineFallback::Bridge);
    let mut program = Program::start_ready(&topology, &config);
    let connection = opened(&topology, 0);
    let late = Late::start(connection.client, connection.server, 5_000_000);
    wait_until("it is owed something", || held(&topology) > 1_000_000);
    let netlink = topology.netlink();
    let m0 = netlink.index_of("m0").unwrap();
    let switch = |up| netlink.change_link(m0, &LinkChange { up: Some(up), ..LinkChange::default() }).unwrap();
    switch(false);
    program.await_line("interface 'm0' is down");
    program.signal(SIGKILL);
    let last = successor(&mut program);
    wait_until("it has seen that, too", || topology.status().interfaces[1] == "down");
    switch(true);
    late.finish();
    end(&topology, last, program);
}

#[test]
fn h37_a_bridge_that_hangs_with_debt_is_killed_and_another_process_goes_on() {
    for fallback in [InlineFallback::Bridge, InlineFallback::None] {
        let (topology, config) = build_with_heir("brhang", fallback);
        let mut program = Program::launch_with(&topology, &config, &["--both-ways", "--engine"]);
        program.await_line("ready: ");
        let mut idle = opened(&topology, 1);
        let [down, up] = [opened(&topology, 0), opened(&topology, 1)];
        let late =
            [Late::start(down.client, down.server, 5_000_000), Late::start(up.server, up.client, 5_000_000)];
        wait_until("both are under way", || held(&topology) > 1_000_000);
        program.signal(SIGSTOP);
        program.await_line("hangs and owes flows data: it is killed");
        let last = successor(&mut program);
        late.into_iter().for_each(Late::finish);
        idle.exchange(b"survived");
        let said = end(&topology, last, program);
        assert!(!said.contains("reset"), "{said}");
    }
}

/// Nothing is owed, but no frame passes without a process either.
#[test]
fn h37_a_bridge_with_nothing_beside_it_is_succeeded_without_debt_too() {
    let (topology, config) = build_with_heir("brwire", InlineFallback::None);
    let mut program = Program::start_ready(&topology, &config);
    let mut idle = opened(&topology, 0);
    wait_until("nothing is owed", || held(&topology) == 0);
    program.signal(SIGSTOP);
    program.await_line("hangs and the wire is cut without it: it is killed");
    let first = successor(&mut program);
    idle.exchange(b"between.");
    signal(first, SIGKILL);
    let last = successor(&mut program);
    idle.exchange(b"survived");
    opened(&topology, 1).download(1_000_000);
    end(&topology, last, program);
}

#[test]
fn h02_a_bridge_without_debt_leaves_all_to_the_kernels() {
    let (topology, config) = build_with_heir("brplain", InlineFallback::Bridge);
    let program = Program::start_ready(&topology, &config);
    let mut idle = opened(&topology, 0);
    wait_until("nothing is owed", || held(&topology) == 0);
    program.signal(SIGKILL);
    let (_, said) = program.wait();
    assert!(!said.contains("goes on"), "{said}");
    idle.exchange(b"survived");
    assert_eq!(bridges(&topology).len(), 1, "it stays");
    Program::start_ready(&topology, &config).stop(&topology);
}

#[test]
fn h02_without_a_successor_of_a_bridge_flows_with_debt_are_reset() {
    for (successor, said) in [
        ("/bin/false", "its successor has ended"),
        ("exec sleep 60", "its successor has taken longer than 300 ms"),
    ] {
        let (topology, mut config) = build_with_heir("brnoheir", InlineFallback::Bridge);
        config.watchdog.successor = ["/bin/sh", "-c", successor].map(str::to_owned).to_vec();
        config.watchdog.recover_within_ms = 300;
        let mut program = Program::start_ready(&topology, &config);
        let mut idle = opened(&topology, 0);
        let owed = with_debt(&topology, HERE[0]);
        program.signal(SIGKILL);
        program.await_line(said);
        idle.exchange(b"survived");
        assert_reset(owed);
        program.await_line("1 flows reset: 2 of 2 ends are gone");
        program.wait();
        assert_eq!(bridges(&topology).len(), 1, "it stays");
        Program::start_ready(&topology, &config).stop(&topology);
    }
}

/// Ten upgrades one after the other, while downloads, an upload and an idle flow are under way.
#[test]
fn h34_flows_outlive_ten_upgrades_of_a_bridge() {
    for (fallback, to) in
        [(InlineFallback::Bridge, TO_ALL), (InlineFallback::Bridge, HERE[0]), (InlineFallback::None, HERE[0])]
    {
        let (topology, config) = build_with_heir("brupgrade", fallback);
        let named = |name: String, replace| Config { name, replace, ..config.clone() };
        let start = |config: &Config| {
            let mut program = Program::launch_with(&topology, config, &["--both-ways", "--engine"]);
            program.await_line("ready: bridging w0 and m0");
            program
        };
        let mut running = start(&named("number-0".to_owned(), None));
        let standing =
            || bridges(&topology).iter().map(|bridge| bridge.index).collect::<Vec<InterfaceIndex>>();
        let before = standing();
        let mut idle = opened(&topology, 0);
        let under_way: Vec<Connection> = (0..4).map(|n| opened(&topology, n)).collect();
        let Connection { client, server, .. } = opened(&topology, 1);
        let late = Late::start(server, client, 20_000_000);
        let is_over = AtomicBool::new(false);
        std::thread::scope(|scope| {
            for connection in under_way {
                scope.spawn(|| trickle_while(connection, |_| !is_over.load(Ordering::Relaxed)));
            }
            let _end = Ending(&is_over);
            let dropped_before = dropped_by_machine();
            let numbered = Numbered::open(&topology, to);
            let (sent, came) = numbered.pass(Duration::from_millis(5), || {
                for number in 1..=10 {
                    let mut new =
                        start(&named(format!("number-{number}"), Some(format!("number-{}", number - 1))));
                    new.await_line("the replaced one has ended");
                    let (status, said) = std::mem::replace(&mut running, new).wait();
                    assert!(status.success() && said.contains("handed over 12 flows"), "{said}");
                    assert_eq!(standing(), before, "the same one");
                }
            });
            assert_come(sent, &came, 0, dropped_by_machine() - dropped_before);
        });
        late.finish();
        idle.exchange(b"survived");
        opened(&topology, 0).download(300_000);
        let counters = topology.status().processor;
        let wrong = ["unacceptable_acks", "inexact_resets", "bytes_acked_but_lost", "out_of_window"];
        assert_eq!(wrong.map(|name| counters.counter(name)), [0; 4], "{counters:?}");
        running.stop(&topology);
    }
}

#[test]
fn h34_killed_in_the_middle_of_an_upgrade_of_a_bridge() {
    for fallback in [InlineFallback::Bridge, InlineFallback::None] {
        let (topology, config) = build_with_heir("brreplkill", fallback);
        killed_in_the_middle(&topology, &config, HERE, Duration::from_millis(20));
    }
}

/// Each is refused by one line before anything stops.
#[test]
fn h34_what_a_bridge_cannot_be_replaced_by_leaves_it_as_it_was() {
    let (topology, config) = build_with_heir("brother", InlineFallback::Bridge);
    let old = Program::start_ready(&topology, &Config { name: "old".to_owned(), ..config.clone() });
    let mut idle = opened(&topology, 0);
    let before = topology.snapshot();
    let new = Config { name: "new".to_owned(), replace: Some("old".to_owned()), ..config };
    let mut slower = new.clone();
    slower.watchdog.hang_after_ms = 2_000;
    for (config, why) in [
        (
            Config { inline: Some(InlineFallback::None), ..new.clone() },
            "'old' goes on as before, and this start ends: it has --inline-fallback bridge, the settings say none",
        ),
        (slower, "its program takes it for hung after 1000 ms, the settings say 2000 ms"),
        (
            Config { wired: "m0".to_owned(), mobile: "w0".to_owned(), ..new.clone() },
            "'old' does not bridge m0 and w0 here",
        ),
        (Config { inline: None, ..new }, "'old' does not steer w0 and m0 here"),
    ] {
        let (status, said) = Program::launch_with(&topology, &config, &["--engine"]).wait();
        assert!(!status.success() && said.contains(why), "{said}");
        assert_eq!(said.lines().count(), 1, "{said}");
        assert_eq!(topology.snapshot(), before);
    }
    idle.exchange(b"the-same");
    let said = old.stop(&topology);
    assert!(!said.contains("handed over"), "{said}");
}

/// One end of a flow in a VLAN, without a kernel's TCP.
struct Tagged {
    socket: FrameSocket,
    waiter: Waiter,
    own: [u8; 6],
    other: [u8; 6],
}

/// 802.1Q, priority 1, network 7.
const TAG: [u8; 4] = [0x81, 0x00, 0x20, 0x07];

impl Tagged {
    fn open(namespace: &Namespace, name: &str, own: [u8; 6], other: [u8; 6]) -> Self {
        let index = namespace.netlink().unwrap().index_of(name).unwrap();
        let socket = namespace.run(|| FrameSocket::open(index, name)).unwrap().unwrap();
        let waiter = Waiter::new(Duration::ZERO).unwrap();
        waiter.add(&socket, Interest::Read, 0).unwrap();
        Self { socket, waiter, own, other }
    }

    fn send(&self, spec: &TcpHeaderSpec, payload: &[u8]) {
        let mut header = [0; TcpHeaderSpec::MAX_LEN];
        let len = spec.emit(&mut header, &[payload]).unwrap().len;
        let pieces = [&self.other[..], &self.own, &TAG, &[0x08, 0x00], &header[..len], payload];
        self.socket.send(&[0; VNET_HEADER_LEN], &pieces.map(IoSlice::new)).unwrap();
    }

    /// Forgets what has come so far.
    fn forget(&self) {
        while self.socket.recv(&mut [0; VNET_HEADER_LEN], &mut [0; 64]).unwrap().is_some() {}
    }

    /// Waits for a segment that `is_wanted`; it comes from the other end, to this one, in their network.
    fn see(&mut self, is_wanted: impl Fn(&Tcp, &[u8]) -> bool) -> Tcp {
        let give_up = Clock::now() + Duration::from_nanos(PATIENCE.as_nanos() as u64);
        let (mut virtio, mut frame) = ([0; VNET_HEADER_LEN], [0; 4_000]);
        loop {
            let Some(received) = self.socket.recv(&mut virtio, &mut frame).unwrap() else {
                assert!(Clock::now() < give_up, "no such segment came");
                self.waiter.wait(Some(give_up)).unwrap();
                continue;
            };
            if frame[12..14] != [0x08, 0x00] {
                continue;
            }
            let packet = &frame[14..received.len];
            let Ok(parsed) = wire::parse_prefix(packet) else { continue };
            let Transport::Tcp(tcp) = parsed.transport else { continue };
            let len = usize::from(u16::from_be_bytes([packet[2], packet[3]]));
            let payload = &packet[len - tcp.payload_len..len];
            if is_wanted(&tcp, payload) {
                assert_eq!((&frame[..6], &frame[6..12]), (&self.own[..], &self.other[..]));
                assert_eq!(received.tag, Some(TAG));
                return tcp;
            }
        }
    }
}

/// A bridge's successor, after a death or an upgrade, sends frames as those of the flow were, though none has come
/// since.
#[test]
fn h13_addresses_and_tags_go_along_with_a_flow() {
    for is_killed in [true, false] {
        let (topology, config) = build_with_heir("brtag", InlineFallback::None);
        let mut program =
            Program::start_ready(&topology, &Config { name: "old".to_owned(), ..config.clone() });
        let macs = [[2, 0, 0, 0, 0, 0x0c], [2, 0, 0, 0, 0, 0x05]];
        let mut client = Tagged::open(&topology.client, "c0", macs[0], macs[1]);
        let mut server = Tagged::open(&topology.server, "s0", macs[1], macs[0]);
        let [c, s]: [SocketAddr; 2] =
            ["10.7.0.2:40000", "10.7.0.9:80"].map(|address| address.parse().unwrap());
        let (seq, ack) = (SeqNum::new(1_001), SeqNum::new(5_001));
        client.send(&syn(c, s, 1_000), &[]);
        server.see(|tcp, _| tcp.flags == TcpFlags::SYN);
        server.send(
            &TcpHeaderSpec { ack: seq, flags: TcpFlags::SYN.with(TcpFlags::ACK), ..syn(s, c, 5_000) },
            &[],
        );
        let answer = client.see(|tcp, _| tcp.flags.contains(TcpFlags::SYN));
        let stamps = |from_client: bool, value| {
            let echo = if from_client { answer.options.timestamps.unwrap().value } else { 1_000 };
            Some(wire::Timestamps { value, echo })
        };
        let of_client = TcpHeaderSpec {
            window: 60_000,
            timestamps: stamps(true, 1_001),
            ..TcpHeaderSpec::new(c, s, seq, ack, TcpFlags::ACK)
        };
        client.send(&of_client, &[]);
        server.see(|tcp, _| tcp.seq == seq);
        let of_server = TcpHeaderSpec {
            window: 60_000,
            timestamps: stamps(false, 1_001),
            ..TcpHeaderSpec::new(s, c, ack, seq, TcpFlags::ACK)
        };
        let data = [0x5a; 1_000];
        server.send(&of_server, &data);
        client.see(|_, payload| payload == data);
        server.see(|tcp, _| tcp.ack == ack + 1_000);
        // It is owed these bytes. Neither end says anything from here on.
        let last = if is_killed {
            program.signal(SIGKILL);
            successor(&mut program)
        } else {
            let config = Config { name: "new".to_owned(), replace: Some("old".to_owned()), ..config };
            let new = Program::start_ready(&topology, &config);
            program.await_line("handed over 1 flows");
            std::mem::replace(&mut program, new).wait();
            program.pid()
        };
        // The first process may have sent it again, too.
        client.forget();
        client.see(|tcp, payload| payload == data && tcp.seq == ack);
        client.send(&TcpHeaderSpec { ack: ack + 1_000, timestamps: stamps(true, 1_002), ..of_client }, &[]);
        server
            .send(&TcpHeaderSpec { seq: ack + 1_000, timestamps: stamps(false, 1_002), ..of_server }, &data);
        server.see(|tcp, _| tcp.ack == ack + 2_000);
        client.see(|tcp, payload| payload == data && tcp.seq == ack + 1_000);
        client.send(&TcpHeaderSpec { ack: ack + 2_000, timestamps: stamps(true, 1_003), ..of_client }, &[]);
        end(&topology, last, program);
    }
}
