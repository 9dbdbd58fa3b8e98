//! Journals, records, lists of what is kept, notes, states, questions.

use std::net::SocketAddr;
use std::path::Path;

use engine::{
    Engine, EngineConfig, FlowEnds, FlowRecord, HandoverFlow, JournalEntry, RECORD_VERSION, RECORD_WORDS,
};
use handover::{Claim, Freeze, Gone, Name, Note, Refusal};
use io::TcpImage;
use run::{Offer, Question, Wishes};
use units::Instant;

use crate::Seeds;

const SLOT_WORDS: usize = 128;
const MAGIC: u32 = 0xce11_0004;

/// Flows in the middle of simulated transfers, from the states that the tests keep; the states themselves.
fn simulated() -> (Vec<(HandoverFlow, Vec<u8>)>, Seeds) {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../crates/core/sim/tests/images");
    let (mut flows, mut images) = (Vec::new(), Seeds::new());
    for seed in [55, 191, 217] {
        let name = format!("version-2-seed-{seed}");
        let bytes = std::fs::read(folder.join(&name).with_extension("bin")).unwrap();
        let mut engine = Engine::new(EngineConfig::default()).unwrap();
        engine.resume(&bytes).unwrap();
        let clients: Vec<_> = engine.flow_reports(0).map(|report| report.client.ip()).collect();
        let now = engine.flow_reports(0).map(|report| report.last_activity).max().unwrap_or(Instant::ZERO);
        for client in clients {
            flows.extend(engine.moved(client, now));
        }
        images.push((name, bytes));
    }
    flows.dedup_by_key(|(flow, _)| flow.ends);
    (flows, images)
}

/// A journal's file with a slot for each flow, of which the last one was being handled.
fn journal_of(flows: &[(HandoverFlow, Vec<u8>)], kinds: u32) -> Vec<u8> {
    let mut words = vec![0; SLOT_WORDS];
    (words[0], words[1], words[2]) = (MAGIC, flows.len() as u32, RECORD_VERSION);
    for (flow, _) in flows {
        let entry = JournalEntry::of_moved(flow);
        let mut slot = vec![0; SLOT_WORDS];
        let is_ipv6 = entry.sink.is_ipv6();
        (slot[0], slot[1]) = (1, kinds | u32::from(is_ipv6));
        for (at, address) in [(2, entry.sink), (6, entry.source)] {
            let bits = match address {
                SocketAddr::V4(v4) => u128::from(v4.ip().to_bits()),
                SocketAddr::V6(v6) => v6.ip().to_bits(),
            };
            (0..4).for_each(|i| slot[at + i] = (bits >> (32 * i)) as u32);
        }
        slot[10] = u32::from(entry.sink.port()) << 16 | u32::from(entry.source.port());
        let numbers = [entry.delivered, entry.told, entry.sink_next, entry.source_ack];
        slot[16..20].copy_from_slice(&numbers.map(units::SeqNum::get));
        slot[22..30].fill(0x0202_0202);
        slot[32..32 + RECORD_WORDS].copy_from_slice(&flow.record.words());
        words.extend(slot);
    }
    words.into_iter().flat_map(u32::to_ne_bytes).collect()
}

pub fn journal() -> Seeds {
    let (flows, _) = simulated();
    let whole = journal_of(&flows[..flows.len().min(3)], 2);
    vec![
        ("bridged".to_owned(), journal_of(&flows[..1], 0b1_0110)),
        ("cut".to_owned(), whole[..whole.len() - 100].to_vec()),
        ("whole".to_owned(), whole),
        ("empty".to_owned(), journal_of(&[], 0)),
    ]
}

/// A byte for the family and the direction, the record's words, what it holds.
pub fn flow_record() -> Seeds {
    let (flows, _) = simulated();
    let seed = |(number, (flow, held)): (usize, &(HandoverFlow, Vec<u8>))| {
        let kind = u8::from(!flow.ends.is_downlink) | u8::from(flow.ends.sink.is_ipv6()) << 1;
        let words = flow.record.words().into_iter().flat_map(u32::to_le_bytes);
        let bytes = [kind].into_iter().chain(words).chain(held.iter().copied().take(2_000));
        (format!("flow-{number}"), bytes.collect())
    };
    flows.iter().enumerate().take(8).map(seed).collect()
}

pub fn note() -> Seeds {
    let (simulated, _) = simulated();
    let name = Name { subscriber: [10, 0, 0, 1].into(), epoch: 7, nonce: 9 };
    let flow = |port: u16| FlowEnds {
        is_downlink: true,
        sink: ([10, 0, 0, 1], port).into(),
        source: ([192, 0, 2, 1], 443).into(),
    };
    let gone = Gone { to: 1, flows: vec![flow(1), flow(2)] };
    let until = Instant::from_millis(8);
    let claim = Claim { name, from: 2, until, flows: vec![flow(1)], bytes: 3, gone: Some(gone.clone()) };
    let freeze = Freeze { name, to: 5, broken_at: until };
    let moved = HandoverFlow { ends: flow(1), record: FlowRecord::default(), clock_ms: 3 };
    let real = simulated.into_iter().take(1).map(|(flow, held)| (flow, held[..held.len().min(100)].to_vec()));
    let notes = [
        ("frozen", freeze.note(real.collect())),
        ("frozen-default", freeze.note(vec![(moved, vec![1, 2, 3])])),
        ("holding", Note::Holding(claim.clone())),
        ("taking", Note::Taking(claim.clone())),
        ("taken", Note::Taken(Claim { gone: None, ..claim })),
        ("over", Note::Over { name, refused: Some(Refusal::Memory), gone: Some(gone), until, shared: None }),
    ];
    let head = br#"{"boot":"fuzz","peers":["north","south"]}"#;
    let mut seeds = Seeds::new();
    for (name, note) in notes {
        let bytes = note.encode();
        seeds.push((format!("{name}-file"), [&head[..], b"\n", &bytes].concat()));
        seeds.push((name.to_owned(), bytes));
    }
    seeds
}

pub fn image() -> Seeds {
    let (_, mut seeds) = simulated();
    let mut empty = Engine::new(EngineConfig::default()).unwrap();
    empty.prepare_for(4);
    seeds.push(("empty".to_owned(), empty.store()));
    let ends: SocketAddr = ([10, 0, 0, 1], 443).into();
    let connection = |len: usize| [stored::to_bytes(&ends), stored::to_bytes(&ends), vec![0; len]].concat();
    let is_one = |bytes: &Vec<u8>| stored::from_bytes::<TcpImage>(1, bytes).is_ok();
    seeds.push(("connection".to_owned(), (0..200).map(connection).find(is_one).unwrap()));
    seeds
}

fn json(name: &str, value: &impl serde::Serialize) -> (String, Vec<u8>) {
    (name.to_owned(), serde_json::to_vec(value).unwrap())
}

fn an_offer() -> Offer {
    Offer {
        socket: "/run/cellerator/x/transfer".into(),
        shards: 1,
        ipv6_prefix_len: 64,
        versions: [1, 2],
        memory: 1 << 30,
        adopts: true,
        process: 12,
    }
}

pub fn offer() -> Seeds {
    let other = Offer { shards: 4, ipv6_prefix_len: 56, versions: [9, 10], memory: 0, ..an_offer() };
    let old = br#"{"socket":"a","shards":2,"ipv6_prefix_len":64,"versions":[1,1],"memory":7}"#;
    vec![json("usual", &an_offer()), json("other", &other), ("old".to_owned(), old.to_vec())]
}

pub fn question() -> Seeds {
    let client = [10, 0, 0, 1].into();
    vec![
        json("status", &Question::Status),
        json("metrics", &Question::Metrics),
        json("listen", &Question::Listen(Wishes { events: true, ..Wishes::default() })),
        json("flows", &Question::Flows { skip: 3 }),
        json("subscribers", &Question::Subscribers { from: 9 }),
        json("subscriber", &Question::Subscriber { client, from: 0 }),
        json("drain", &Question::Drain { time_ms_max: Some(500) }),
        json("roam", &Question::MoveSubscriber { client, to: "north".to_owned() }),
        json("reload", &Question::Reload),
        json("begin-ab", &Question::BeginAb { time_ms: 1, seed: None }),
        json("share", &Question::Share(an_offer())),
        json("hand-over", &Question::Upgrade(an_offer())),
    ]
}

pub fn record() -> Seeds {
    let whole = br#"{"namespace":7,"cookie":3,"rules":[{"ipv6":true,"interface":"w0","priority":206,"table":20600,"protocol":6}],"sysctls":[{"path":"a/b","before":"0","during":"1"}],"nft":"12:34","bridge":"cellbr0","is_inline":true,"wired":"w0","mobile":"m0","name":"w0-m0","tuns":["cellw0","cellm0"]}"#;
    let old = br#"{"namespace":7,"rules":[{"ipv6":false,"interface":"","priority":0,"table":254}],"sysctls":[],"nft":null}"#;
    vec![("whole".to_owned(), whole.to_vec()), ("old".to_owned(), old.to_vec())]
}

pub fn inventory() -> Seeds {
    let text = |shards: u64, links: u64, words: u64| {
        format!(
            r#"{{"process":12,"shards":{shards},"gso":true,"tuns":["cellw0","cellm0"],"links":{links},"shared_words":{words},"is_bridge":false,"has_lifeline":false,"has_memory":[],"within_ms":500,"deaths_ms":[5],"history":{{"deaths":1,"last_death_ms":5,"recovered":2,"lost":0}},"deaths_max":3,"hang_after_ms":2000,"has_reports":false,"held":7,"flows":1,"suspects":[["10.0.0.1:1","[fd00::1]:443"]],"successor":["a","b"]}}"#
        )
    };
    vec![
        ("usual".to_owned(), text(1, 2, 40).into()),
        ("none".to_owned(), text(0, 0, 0).into()),
        ("half-of-all".to_owned(), text(u64::MAX / 2 + 1, 0, 0).into()),
    ]
}
