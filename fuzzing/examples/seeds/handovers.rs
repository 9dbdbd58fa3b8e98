//! Messages and notes of hand-overs, and rows of operations on two boxes.

use std::net::{IpAddr, SocketAddr};

use engine::{FlowEnds, HandoverFlow, HeldPiece, RECORD_VERSION};
use handover::{Claim, Freeze, Gone, Lack, Message, Name, Note, Refusal, Terms, VERSION};
use units::{Instant, SeqNum};

use crate::Seeds;

fn flow(port: u16) -> FlowEnds {
    let subscriber = IpAddr::from([10, 0, 0, 1]);
    FlowEnds {
        is_downlink: true,
        sink: SocketAddr::new(subscriber, port),
        source: ([192, 0, 2, 1], 443).into(),
    }
}

fn name(nonce: u64) -> Name {
    Name { subscriber: [10, 0, 0, 1].into(), epoch: 5_000, nonce }
}

fn prepare() -> Message {
    let terms = Terms { packet: 1_500, encapsulation: "gtp-u".to_owned() };
    let versions = (VERSION, RECORD_VERSION);
    Message::Prepare { name: name(0), versions, held: 9, flows: vec![flow(1), flow(2)], terms }
}

fn all() -> Vec<(&'static str, Message)> {
    let number = SeqNum::new(7);
    let piece = HeldPiece { flow: flow(1), una: number, start: number, bytes: vec![1, 2, 3] };
    let moved = HandoverFlow { ends: flow(1), record: fuzzing::flow_record(), clock_ms: 3 };
    vec![
        ("prepare", prepare()),
        ("ready", Message::Ready { name: name(9), flows: 2 }),
        ("refused", Message::Refused(name(9), Refusal::Mtu)),
        ("copy", Message::Copy(name(9), piece)),
        ("copied", Message::Copied { name: name(9), flow: flow(1), through: number }),
        ("commit", Message::Commit(name(9), vec![moved])),
        ("committed", Message::Committed(name(9))),
        ("confirm", Message::Confirm(name(9))),
        ("abort", Message::Abort(name(9))),
        ("lacking", Message::Lacking(name(9), vec![Lack { flow: flow(1), through: Some(number) }])),
        ("leaving", Message::Leaving(vec![[10, 0, 0, 1].into(), "2001:db8::".parse().unwrap()])),
        ("left", Message::Left(vec![[10, 0, 0, 1].into()])),
    ]
}

/// One of each.
pub fn messages() -> Seeds {
    all().into_iter().map(|(what, message)| (what.to_owned(), message.encode())).collect()
}

/// One of each.
pub fn notes() -> Seeds {
    let gone = Gone { to: 3, flows: vec![flow(1)] };
    let claim = Claim {
        name: name(9),
        from: 2,
        until: Instant::from_millis(8),
        flows: vec![flow(1)],
        bytes: 3,
        gone: Some(gone.clone()),
    };
    let moved = HandoverFlow { ends: flow(1), record: fuzzing::flow_record(), clock_ms: 3 };
    let freeze = Freeze { name: name(9), to: 5, broken_at: Instant::from_millis(8) };
    let over = Note::Over {
        name: name(9),
        refused: Some(Refusal::Memory),
        gone: Some(gone.clone()),
        until: Instant::from_millis(8),
        shared: Some(gone),
    };
    let all = [
        ("frozen", freeze.note(vec![(moved, vec![1, 2, 3])])),
        ("holding", Note::Holding(claim.clone())),
        ("taking", Note::Taking(claim.clone())),
        ("taken", Note::Taken(claim)),
        ("over", over),
    ];
    all.into_iter().map(|(what, note)| (what.to_owned(), note.encode())).collect()
}

/// A client that moves, one whose box dies, or ends, and the words of a stranger.
pub fn handover() -> Seeds {
    let deliver = [3_u8, 0].repeat(12);
    let moves = [&[0, 0, 4, 0, 8, 2, 0][..], &deliver, &[0x82, 0], &deliver].concat();
    let dies =
        [&[0, 0, 4, 2, 0][..], &[3, 0, 3, 0, 12, 0, 3, 0, 0x8c, 0], &deliver, &[9, 3], &deliver].concat();
    let ends = [&[0, 0, 4, 2, 0][..], &deliver, &[11, 0], &deliver, &[8, 200, 10, 0]].concat();
    let lost =
        [&[0, 0, 4, 2, 0][..], &[7, 0, 8, 100, 7, 0, 9, 2, 7, 0, 3, 0x40], &deliver, &[9, 200]].concat();
    let mut strange = vec![1, 0x80, 4];
    for (_, message) in all() {
        let bytes = message.encode();
        strange.extend([0x8d, 1, bytes.len().min(255) as u8]);
        strange.extend(bytes);
    }
    let seeds = [("moves", moves), ("dies", dies), ("ends", ends), ("lost", lost), ("strange", strange)];
    seeds.map(|(what, bytes)| (what.to_owned(), bytes)).into()
}
