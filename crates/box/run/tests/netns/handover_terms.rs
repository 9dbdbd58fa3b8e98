//! What a box takes a client on, and who may order a client to move.

use std::net::UdpSocket;

use io::Clock;
use run::{Answer, Config, FeedbackConfig};
use wire::{FeedbackKey, HandoverOrder};

use crate::handover::{CLIENT, Sites, counter, hand_over, shell};
use crate::topology::wait_until;

/// The packets of its flows do not fit through the other box: the client stays, and is told why.
#[test]
fn a_box_whose_devices_take_shorter_packets_gets_no_client() {
    let sites = Sites::build("mtu");
    shell(&sites.b.middle, "ip link set m0 mtu 1400");
    let [a, b] = sites.start();
    let mut connection = sites.connect();
    connection.exchange(b"first---");
    let Answer::Refused(why) = hand_over(&sites.a, "b") else { panic!("it goes where its packets do not") };
    assert!(why.contains("shorter packets"), "{why}");
    assert_eq!([&sites.a, &sites.b].map(|at| counter(at, "handover_refused_mtu")), [0, 1]);
    connection.exchange(b"goes on-");
    assert_eq!(counter(&sites.a, "handover_stayed"), 1);
    // Routing leads it there all the same: packets of its flow go on to the box that has it, what begins now does not.
    sites.route_over(true);
    for _ in 0..20 {
        connection.exchange(b"by there");
    }
    sites.connect().exchange(b"newly---");
    let accelerated = [&sites.a, &sites.b].map(|at| counter(at, "flows_accelerated"));
    assert_eq!(accelerated, [1, 1], "each box has its own");
    drop(connection);
    let said = a.stop(&sites.a);
    assert!(said.contains("has not moved to or from b") && said.contains("(MTU)"), "{said}");
    b.stop(&sites.b);
}

#[test]
fn a_box_where_packets_are_encapsulated_otherwise_gets_no_client() {
    let sites = Sites::build("capsule");
    let [a, mut b] = sites.configs();
    if let Some(handover) = b.handover.as_mut() {
        "gtp-u".clone_into(&mut handover.encapsulation);
    }
    let [a, b] = sites.start_with([a, b]);
    let mut connection = sites.connect();
    connection.exchange(b"first---");
    let Answer::Refused(why) = hand_over(&sites.a, "b") else { panic!("it goes where packets differ") };
    assert!(why.contains("encapsulated otherwise"), "{why}");
    assert_eq!(counter(&sites.b, "handover_refused_encapsulation"), 1);
    connection.exchange(b"goes on-");
    drop(connection);
    a.stop(&sites.a);
    b.stop(&sites.b);
}

/// Orders come as datagrams: one that is signed is obeyed, one that is not, or another time, is not.
#[test]
fn a_signed_order_moves_a_client_between_two_processes() {
    const KEY: &[u8] = b"a key that both have";
    let sites = Sites::build("order");
    let [a, b] = sites.configs();
    let listen = "10.5.0.1:7310".parse().unwrap();
    let feedback = Some(FeedbackConfig { listen, key: Some(KEY.to_vec()), delay_us: 0 });
    let [mut a, b] = sites.start_with([Config { feedback, ..a }, b]);
    let mut connection = sites.connect();
    connection.exchange(b"first---");
    let socket = sites.b.middle.run(|| UdpSocket::bind("10.5.0.2:0")).unwrap().unwrap();
    let send = |key: &[u8], sequence: u64, peer: &str| {
        let order = HandoverOrder {
            sender: 7,
            sequence,
            time_us: Clock::wall_nanos() / 1_000,
            subscriber: CLIENT.parse().unwrap(),
            peer: peer.to_owned(),
        };
        let bytes = order.encode(&FeedbackKey::new(key).unwrap()).unwrap();
        socket.send_to(&bytes, listen).unwrap();
    };
    let counted = |name: &str| wait_until(name, || counter(&sites.a, name) == 1);
    send(b"another key", 1, "b");
    counted("handover_orders_wrong_key");
    send(KEY, 2, "c");
    counted("handover_orders_unknown_peer");
    assert_eq!(counter(&sites.a, "handover_gone"), 0);
    send(KEY, 3, "b");
    a.await_line("has moved to b");
    counted("handover_orders_begun");
    send(KEY, 3, "b");
    counted("handover_orders_old_sequence");
    sites.route_over(true);
    connection.exchange(b"it moved");
    assert_eq!([&sites.a, &sites.b].map(|at| counter(at, "handover_come")), [0, 1]);
    drop(connection);
    a.stop(&sites.a);
    b.stop(&sites.b);
}
