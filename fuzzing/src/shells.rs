//! Input of the shells: frames of packet sockets, rules of the packet filter, answers of the kernel, lines of
//! a view, orders to a probe's server.

use std::io::BufReader;
use std::net::SocketAddr;

use ::probe::order::{Answer, ORDER_LEN, Order};
use ::probe::{HttpOrder, Key, from_digits, http_order, http_request};
use engine::Port;
use io::VNET_HEADER_LEN;
use io::netlink::outside as netlink_outside;
use run::outside;
use serde::Serialize;
use serde::de::DeserializeOwned;
use top::{Ask, Greeting, Hello, Reply};

/// Longest line of a view, bytes.
const LINE_LEN_MAX: usize = 4_096;
/// A frame's Ethernet header.
const ETHERNET_LEN: usize = 14;

/// A virtio header, a tag or none, and frames: what is split lies in the frame, places move there and back, and what
/// a bridge learns of a flow is one of the frames' addresses, or follows from them.
pub fn frame(bytes: &[u8]) {
    let Some((virtio, rest)) = bytes.split_at_checked(VNET_HEADER_LEN) else { return };
    let virtio = virtio.try_into().expect("as long as that");
    for by in [4, 14] {
        let further = outside::moved(virtio, by);
        // What does not reach the end of a number comes back.
        let place = |header: &[u8], at: usize| u16::from_ne_bytes([header[at], header[at + 1]]);
        if [2, 6].iter().all(|at| place(&virtio, *at) < u16::MAX - 14) {
            assert_eq!(outside::moved(further, -by), virtio, "there and back");
        }
    }
    let learnt = outside::Learnt::new();
    let mut rest = rest;
    while let [kind, len, tail @ ..] = rest {
        let (frame, after) = tail.split_at(usize::from(*len).min(tail.len()));
        rest = after;
        let tag = (kind & 1 != 0).then(|| [0x81, 0, 0, kind >> 4]);
        let Some((addresses, packet)) = outside::frame(frame, tag) else { continue };
        assert_eq!(&frame[..addresses.len()], &addresses, "the addresses of the frame");
        assert_eq!(packet, &frame[ETHERNET_LEN..], "what stands behind the header");
        let to = if kind & 2 == 0 { Port::Mobile } else { Port::Wired };
        let Ok(parsed) = wire::parse_prefix(packet) else { continue };
        let Some(tcp) = parsed.tcp() else { continue };
        let source = SocketAddr::new(parsed.ip.src, tcp.src_port);
        let destination = SocketAddr::new(parsed.ip.dst, tcp.dst_port);
        let flow = if to == Port::Wired { (source, destination) } else { (destination, source) };
        let is_learnt = learnt.learn(flow, to, addresses, tag);
        let known = learnt.get(flow, to);
        if is_learnt {
            // The host's address is another one if it has changed lately, and the sender has not heard of that.
            assert!(known.is_some_and(|(_, of)| of == tag), "it is learnt");
        } else {
            assert!(known.is_none_or(|(_, other)| other != tag), "refused in its own network");
        }
    }
}

/// Rules of the packet filter as the kernel gives them: an end, and lines.
pub fn firewall(bytes: &[u8]) {
    for line in outside::firewall(bytes) {
        assert!(!line.contains('\n'), "{line}");
    }
}

/// A datagram of the kernel through every parser: nothing is larger than what came, and an error is one line. The
/// same bytes as a default route that was written down.
pub fn netlink(bytes: &[u8]) {
    let (understood, error) = netlink_outside::read(bytes, 1);
    let most = bytes.len() / 4;
    assert!(understood.answers <= most && understood.messages <= most, "{understood:?}");
    assert!(understood.attribute_bytes <= bytes.len(), "{understood:?}");
    if let Some(error) = error {
        assert!(!error.contains('\n'), "an error is one line: {error}");
    }
    let digits: String = bytes.iter().map(|byte| format!("{byte:02x}")).collect();
    if let Some(text) = netlink_outside::default_route(&digits) {
        assert_eq!(netlink_outside::default_route(&text), Some(text.clone()), "written and read");
    }
}

/// Lines between a view and the machine that it looks at: none is longer than may be, and what is read is written
/// again the same, in one line.
pub fn top_line(bytes: &[u8]) {
    let mut stream = BufReader::new(bytes);
    let mut read = 0;
    while let Ok(line) = top::read_line(&mut stream) {
        assert!(line.len() <= LINE_LEN_MAX && line.ends_with(b"\n"), "{} bytes", line.len());
        read += line.len();
        written_again::<Ask>(&line);
        written_again::<Hello>(&line);
        written_again::<Greeting>(&line);
    }
    assert!(read <= bytes.len(), "more lines than there are bytes");
    written_again::<Reply>(bytes);
}

fn written_again<T: Serialize + DeserializeOwned>(bytes: &[u8]) {
    let Ok(value) = serde_json::from_slice::<T>(bytes) else { return };
    let written = serde_json::to_vec(&value).expect("it has a JSON form");
    assert!(!written.contains(&b'\n'), "one line");
    let again = serde_json::from_slice::<T>(&written).expect("it is read again");
    assert!(serde_json::to_vec(&again).is_ok_and(|again| again == written), "written and read");
}

/// An order at the beginning of a connection, as bytes and within HTTP: what is read is written again the same, and
/// nobody orders without the key.
pub fn probe_order(bytes: &[u8]) {
    let (Some(key), Some(other)) = (Key::new(b"key"), Key::new(b"other")) else { return };
    if let Some(first) = bytes.first_chunk::<ORDER_LEN>() {
        for key in [None, Some(&key)] {
            ordered(first, key, &other);
        }
        // Signed by who has the key.
        let mut signed = *first;
        let (body, tag) = signed.split_at_mut(ORDER_LEN - 16);
        tag.copy_from_slice(&key.tag(&[body]));
        ordered(&signed, Some(&key), &other);
        signed[ORDER_LEN - 16..].fill(0);
        ordered(&signed, None, &other);
    }
    if let HttpOrder::Whole { digits, .. } = http_order(bytes)
        && let Some(order) = from_digits(digits)
        && let Ok(order) = <[u8; ORDER_LEN]>::try_from(order)
    {
        ordered(&order, None, &other);
    }
    if let [byte, ..] = bytes {
        assert!(Answer::from_byte(*byte).is_none_or(|answer| answer as u8 == *byte));
    }
}

fn ordered(bytes: &[u8; ORDER_LEN], key: Option<&Key>, other: &Key) {
    let Ok(order) = Order::decode(bytes, key) else { return };
    let written = order.encode(key);
    assert_eq!(Order::decode(&written, key).as_ref(), Ok(&order), "written and read");
    assert_eq!(Order::decode(bytes, Some(other)), Err(Answer::WrongKey), "with another key");
    let request = http_request(&written, "h");
    let HttpOrder::Whole { digits, len } = http_order(&request) else { panic!("not read within HTTP") };
    assert_eq!((from_digits(digits), len), (Some(written.to_vec()), request.len()), "within HTTP");
    assert!(!Answer::NoCongestionControl.words(&order).contains('\n'), "one line");
}
