//! Frames, rules of the packet filter, answers of the kernel, lines of a view, orders to a probe's server.

use probe::http_request;
use probe::order::{Order, What};
use top::{Ask, Greeting, Hello, PROTOCOL, Reply};
use units::Duration;

use crate::Seeds;
use crate::layers;
use crate::made::{ethernet, packet};

pub fn frame() -> Seeds {
    let row = |virtio: [u8; 10], frames: &[(u8, Vec<u8>)]| {
        let frames = frames.iter().flat_map(|(kind, frame)| {
            let frame = &frame[..frame.len().min(255)];
            [&[*kind, frame.len() as u8], frame].concat()
        });
        virtio.into_iter().chain(frames).collect::<Vec<u8>>()
    };
    let (v4, v6) = (ethernet(&packet(false, 1, 4)), ethernet(&packet(true, 1, 4)));
    let moved = [&[9; 12], &v4[12..]].concat();
    let others: Vec<(u8, Vec<u8>)> = layers::frames()
        .into_iter()
        .filter(|(name, link, _)| *link == 1 && ["vlan", "snap", "gre", "fragment"].contains(name))
        .map(|(_, _, frame)| (0, frame))
        .collect();
    vec![
        ("flow".to_owned(), row([0; 10], &[(0, v4.clone()), (2, v4.clone()), (0, moved.clone()), (1, v4)])),
        ("v6".to_owned(), row([1, 1, 54, 0, 5, 5, 34, 0, 16, 0], &[(0x71, v6.clone()), (0x73, v6)])),
        ("moves".to_owned(), row([1, 0, 0, 0, 0, 0, 34, 0, 16, 0], &[(2, moved.clone()), (0, moved)])),
        ("others".to_owned(), row([0; 10], &others)),
    ]
}

/// Recorded answers of a kernel about rules: of nft as messages, of iptables-legacy as `getsockopt(2)` gives it.
pub fn firewall() -> Seeds {
    let nft = include_bytes!("../../../fuzz/corpus/firewall/ruleset");
    let legacy = include_bytes!("../../../fuzz/corpus/firewall/iptables");
    vec![
        ("ruleset".to_owned(), nft.to_vec()),
        ("iptables".to_owned(), legacy.to_vec()),
        ("empty".to_owned(), br#"{"nftables":[]}"#.to_vec()),
    ]
}

/// A message with a header, the first in its datagram being the answer to request 1.
fn message(kind: u16, flags: u16, body: &[u8]) -> Vec<u8> {
    let len = (16 + body.len()) as u32;
    let header =
        [&len.to_ne_bytes()[..], &kind.to_ne_bytes(), &flags.to_ne_bytes(), &1_u32.to_ne_bytes(), &[0; 4]];
    let mut bytes = [&header.concat(), body].concat();
    bytes.resize(bytes.len().next_multiple_of(4), 0);
    bytes
}

fn attribute(kind: u16, value: &[u8]) -> Vec<u8> {
    let len = (4 + value.len()) as u16;
    let mut bytes = [&len.to_ne_bytes()[..], &kind.to_ne_bytes(), value].concat();
    bytes.resize(bytes.len().next_multiple_of(4), 0);
    bytes
}

/// Messages of `rtnetlink(7)`, `sock_diag(7)` and MPTCP's family, as the kernel lays them out.
pub fn netlink() -> Seeds {
    let number = |value: u32| value.to_ne_bytes();
    let kind = attribute(18, &attribute(1, b"veth\0"));
    let stats = attribute(23, &[7; 24 * 8]);
    let link = [
        &[0, 0, 1, 0, 7, 0, 0, 0, 0x43, 0, 1, 0, 0, 0, 0, 0][..],
        &attribute(3, b"w0\0"),
        &attribute(4, &number(1_500)),
        &attribute(10, &number(3)),
        &attribute(13, &number(1_000)),
        &kind,
        &stats,
    ]
    .concat();
    let address =
        [&[2, 24, 0, 0, 1, 0, 0, 0][..], &attribute(1, &[10, 0, 0, 1]), &attribute(2, &[10, 0, 0, 1])]
            .concat();
    let route = [
        &[2, 0, 0, 0, 254, 3, 0, 1, 0, 0, 0, 0][..],
        &attribute(15, &number(254)),
        &attribute(6, &number(100)),
        &attribute(8, &attribute(2, &number(1_400))),
        &attribute(5, &[10, 0, 0, 2]),
        &attribute(4, &number(1)),
    ]
    .concat();
    let rule = [
        &[2, 0, 0, 0, 254, 0, 0, 1, 0, 0, 0, 0][..],
        &attribute(3, b"w0\0"),
        &attribute(6, &number(206)),
        &attribute(15, &number(20_600)),
        &attribute(21, &[206]),
        &attribute(22, &[6]),
    ]
    .concat();
    let refusal =
        [&(-17_i32).to_ne_bytes()[..], &message(16, 1, &[]), &attribute(1, b"File exists\0")].concat();
    let mptcp = [&attribute(2, &number(9))[..], &attribute(11, &number(0x0c))].concat();
    let info = attribute(2, &[3; 232]);
    let socket =
        [&[2, 1, 0, 0, 0x9c, 0x40, 1, 0xbb][..], &[1; 64], &info, &attribute(19, &attribute(3, &mptcp))]
            .concat();
    let endpoint =
        attribute(1, &[attribute(1, &[2, 0]), attribute(2, &[3]), attribute(3, &[10, 0, 0, 1])].concat());
    let generic = |command: u8| {
        message(0x20, 0, &[&[command, 1, 0, 0], &endpoint[..], &attribute(1, &number(9))].concat())
    };
    let done = message(3, 2, &[0; 4]);
    vec![
        ("link".to_owned(), [message(16, 2, &link), done.clone()].concat()),
        ("address".to_owned(), [message(20, 2, &address), done.clone()].concat()),
        ("route".to_owned(), message(24, 2, &route)),
        ("rule".to_owned(), [message(32, 2, &rule), done].concat()),
        ("refusal".to_owned(), message(2, 0x200, &refusal)),
        ("socket".to_owned(), message(20, 2, &socket)),
        ("endpoint".to_owned(), [generic(3), generic(1)].concat()),
    ]
}

pub fn top_line() -> Seeds {
    let name = || "w0-m0".to_owned();
    let client = [10, 0, 0, 1].into();
    let lines = [
        serde_json::to_string(&Hello { protocol: PROTOCOL, version: "1".to_owned(), token: "t".to_owned() }),
        serde_json::to_string(&Ask::Names),
        serde_json::to_string(&Ask::Metrics { name: name() }),
        serde_json::to_string(&Ask::Subscribers { name: name(), from: 3 }),
        serde_json::to_string(&Ask::Subscriber { name: name(), client, from: 0 }),
        serde_json::to_string(&Ask::Ab { name: name() }),
    ];
    let talk: String = lines.into_iter().map(|line| line.unwrap() + "\n").collect();
    let seed = |name: &str, text: serde_json::Result<Vec<u8>>| (name.to_owned(), text.unwrap());
    vec![
        ("talk".to_owned(), talk.into_bytes()),
        ("long".to_owned(), [&[b' '; 4_095][..], b"\n", &[b' '; 4_097]].concat()),
        seed("other", serde_json::to_vec(&Greeting::OtherProtocol { protocol: 2, version: "2".to_owned() })),
        seed("names", serde_json::to_vec(&Reply::Names(vec![name()]))),
        seed("metrics", serde_json::to_vec(&Reply::Metrics(Box::default()))),
        seed("subscribers", serde_json::to_vec(&Reply::Subscribers(run::SubscriberList::default()))),
        seed("refused", serde_json::to_vec(&Reply::Refused("why".to_owned()))),
    ]
}

pub fn probe_order() -> Seeds {
    let all = [What::Down, What::Up, What::Report, What::Idle, What::Look, What::Split, What::Fill];
    let mut seeds = Seeds::new();
    for what in all {
        let order = Order {
            what,
            session: 7,
            run: 1,
            length: Duration::from_secs(5),
            window: 17_664,
            congestion_control: if what == What::Down { "cubic".to_owned() } else { String::new() },
        };
        let bytes = order.encode(None);
        if what.is_within_http() {
            seeds.push((format!("http-{what:?}"), http_request(&bytes, "h")));
        }
        seeds.push((format!("{what:?}"), bytes.to_vec()));
    }
    seeds
}
