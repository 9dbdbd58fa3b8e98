//! Tests of what a box that is known, and means harm, can have another one do.

use super::*;

/// Box 1, as box 0 speaks to it; flows, messages and notes are its own.
fn victim() -> (Handover, Table) {
    let mut protocol = Handover::new(Config::default(), 7, 1_000);
    protocol.state_rights(0, gives("10.0.0.0/24"));
    protocol.state_rights(1, gives("10.0.1.0/24"));
    (protocol, Table::default())
}

fn gives(prefix: &str) -> Rights {
    let prefix = vec![prefix.parse().unwrap()];
    Rights { takes: Some(prefix.clone()), gives: Some(prefix) }
}

fn now() -> Instant {
    Instant::from_millis(1_000)
}

fn prepare(subscriber: IpAddr, epoch: u64, flows: Vec<FlowEnds>) -> Message {
    let name = Name { subscriber, epoch, nonce: 0 };
    Message::Prepare { name, versions: (VERSION, RECORD_VERSION), held: 0, flows, terms: Terms::default() }
}

fn of(subscriber: IpAddr, port: u16) -> FlowEnds {
    FlowEnds { sink: SocketAddr::new(subscriber, port), ..flow(port) }
}

fn answers(protocol: &mut Handover) -> Vec<Message> {
    std::iter::from_fn(|| protocol.poll()).map(|(_, message, _)| message).collect()
}

fn refusal(protocol: &mut Handover) -> Refusal {
    match answers(protocol)[..] {
        [Message::Refused(_, why)] => why,
        ref other => panic!("{other:?}"),
    }
}

#[test]
fn a_subscriber_outside_its_prefixes_is_neither_given_nor_taken() {
    let (mut protocol, mut table) = victim();
    let foreign: IpAddr = "10.0.1.7".parse().unwrap();
    protocol.on_message(0, prepare(foreign, 5_000, vec![of(foreign, 1)]), &mut table, now());
    assert_eq!(refusal(&mut protocol), Refusal::Forbidden);
    assert_eq!((table.led, table.written.is_none(), protocol.next_deadline()), (None, true, None));
    let mut own = Table::with(1..4);
    assert_eq!(protocol.begin(foreign, 0, &mut own, now()), Err(Refusal::Forbidden));
    assert_eq!(protocol.begin(who(), 1, &mut own, now()), Err(Refusal::Forbidden));
    assert_eq!(protocol.begin(who(), 0, &mut own, now()), Ok(who()));
}

#[test]
fn flows_that_are_here_are_not_led_away() {
    let (mut protocol, mut table) = victim();
    table.flows.insert(flow(3), ());
    protocol.on_message(0, prepare(who(), 5_000, vec![flow(2), flow(3)]), &mut table, now());
    assert_eq!(refusal(&mut protocol), Refusal::Owned);
    assert_eq!((table.led, table.stay.is_none(), protocol.next_deadline()), (None, true, None));
    // Nor once others of the subscriber are promised.
    protocol.on_message(0, prepare(who(), 5_000, vec![flow(2)]), &mut table, now());
    assert!(matches!(answers(&mut protocol)[..], [Message::Ready { .. }]));
    assert_eq!(table.led_flows, [flow(2)]);
    protocol.on_message(0, prepare(who(), 5_000, vec![flow(2), flow(3)]), &mut table, now());
    assert_eq!(refusal(&mut protocol), Refusal::Owned);
    assert!(table.led.is_none() && table.flows.contains_key(&flow(3)));
}

#[test]
fn what_one_box_has_promised_another_one_cannot_take_over() {
    let (mut protocol, mut table) = victim();
    protocol.state_rights(1, gives("10.0.0.0/16"));
    protocol.on_message(0, prepare(who(), 5_000, vec![flow(1)]), &mut table, now());
    let [Message::Ready { name, .. }] = answers(&mut protocol)[..] else { panic!("it is not taken") };
    protocol.on_message(1, prepare(who(), 9_000, vec![flow(1)]), &mut table, now());
    assert_eq!(refusal(&mut protocol), Refusal::Busy);
    for message in [Message::Abort(name), Message::Confirm(name), Message::Commit(name, Vec::new())] {
        protocol.on_message(1, message, &mut table, now());
    }
    assert_eq!((table.led, protocol.under_way()), (Some(0), 1));
}

#[test]
fn flows_of_others_do_not_come_along() {
    let record = FlowRecord::default();
    let moved = |ends| HandoverFlow { ends, record, clock_ms: 0 };
    let foreign: IpAddr = "10.0.0.8".parse().unwrap();
    let (mut protocol, mut table) = victim();
    // Neither in the question, nor ...
    protocol.on_message(0, prepare(who(), 5_000, vec![flow(1), of(foreign, 1)]), &mut table, now());
    assert_eq!(refusal(&mut protocol), Refusal::Subscriber);
    // ... with its data, nor ...
    protocol.on_message(0, prepare(who(), 5_000, vec![flow(1)]), &mut table, now());
    let [Message::Ready { name, .. }] = answers(&mut protocol)[..] else { panic!("it is not taken") };
    let piece = engine::HeldPiece {
        flow: of(foreign, 1),
        una: SeqNum::new(1),
        start: SeqNum::new(1),
        bytes: vec![7; 100],
    };
    protocol.on_message(0, Message::Copy(name, piece), &mut table, now());
    assert!(answers(&mut protocol).is_empty());
    // ... at the end.
    protocol.on_message(
        0,
        Message::Commit(name, vec![moved(flow(1)), moved(of(foreign, 1))]),
        &mut table,
        now(),
    );
    assert_eq!(refusal(&mut protocol), Refusal::Subscriber);
    assert!(table.flows.is_empty() && table.led.is_none());
}

#[test]
fn a_part_of_a_prefix_is_no_subscriber() {
    let (mut protocol, mut table) = victim();
    let prefix = Rights { gives: Some(vec!["2001:db8::/32".parse().unwrap()]), ..Rights::default() };
    protocol.state_rights(0, prefix);
    let [first, other]: [IpAddr; 2] = ["2001:db8::", "2001:db8::1"].map(|text| text.parse().unwrap());
    protocol.on_message(0, prepare(other, 5_000, vec![of(other, 1)]), &mut table, now());
    assert_eq!(refusal(&mut protocol), Refusal::Subscriber, "it would have two names");
    protocol.on_message(0, prepare(first, 5_000, vec![of(other, 1)]), &mut table, now());
    assert!(matches!(answers(&mut protocol)[..], [Message::Ready { .. }]));
    let mut own = Table::with(1..2);
    assert_eq!(
        protocol.begin("2001:db8:1::5".parse().unwrap(), 0, &mut own, now()),
        Ok("2001:db8:1::".parse().unwrap())
    );
}

/// Questions without end, each refused for another reason, or taken and broken off: what is remembered is bounded.
#[test]
fn questions_that_are_refused_leave_next_to_nothing() {
    let subscriber = |n: u32| IpAddr::from((u32::from_be_bytes([10, 0, 0, 0]) + n).to_be_bytes());
    let wide = || Rights { gives: Some(vec!["10.0.0.0/8".parse().unwrap()]), ..Rights::default() };
    type Twist = fn(&mut Handover, &mut Table, &mut Message);
    let twists: [(&str, bool, Twist); 6] = [
        ("forbidden", true, |protocol, _, _| protocol.state_rights(0, gives("192.0.2.0/24"))),
        ("version", true, |_, _, message| {
            if let Message::Prepare { versions, .. } = message {
                versions.0 += 1;
            }
        }),
        ("epoch", true, |_, _, message| {
            if let Message::Prepare { name, .. } = message {
                name.epoch = u64::MAX;
            }
        }),
        ("ending", true, |protocol, table, _| protocol.end(table, now())),
        ("MTU", false, |_, table, message| {
            table.mtu = Some(500);
            if let Message::Prepare { terms, .. } = message {
                terms.packet = 1_500;
            }
        }),
        ("memory", false, |_, _, message| {
            if let Message::Prepare { held, .. } = message {
                *held = u64::MAX;
            }
        }),
    ];
    for (what, is_nothing, twist) in twists {
        let (mut protocol, mut table) = victim();
        protocol.state_rights(0, wide());
        let mut at = now();
        let mut flows_named = 0;
        for n in 1..=20_000 {
            let flows: Vec<FlowEnds> = (1..40).map(|port| of(subscriber(n), port)).collect();
            flows_named += flows.len();
            let mut message = prepare(subscriber(n), 5_000, flows);
            twist(&mut protocol, &mut table, &mut message);
            protocol.on_message(0, message, &mut table, at);
            assert!(matches!(answers(&mut protocol)[..], [Message::Refused(..)]), "{what}");
            at += Duration::from_millis(1);
        }
        let remembered: usize = protocol
            .past
            .values()
            .filter_map(|past| past.gone.as_ref())
            .map(|gone| gone.flows.len() + 16)
            .sum();
        assert!(
            remembered <= 131_072 && remembered < flows_named,
            "{what}: {remembered} of {flows_named} flows"
        );
        assert!(!is_nothing || protocol.past.is_empty(), "{what}: {} are remembered", protocol.past.len());
    }
}

/// A box that promises without end, and breaks off or never goes on, leaves room for the others.
#[test]
fn one_box_does_not_take_the_place_of_all() {
    let (mut protocol, mut table) = victim();
    protocol.state_rights(0, Rights::default());
    protocol.state_rights(1, Rights::default());
    let subscriber = |n: u32| IpAddr::from((u32::from_be_bytes([10, 0, 0, 0]) + n).to_be_bytes());
    let mut ready = 0;
    for n in 1..=5_000 {
        let Message::Prepare { name, versions, flows, terms, .. } =
            prepare(subscriber(n), 5_000, vec![of(subscriber(n), 1)])
        else {
            unreachable!()
        };
        let message = Message::Prepare { name, versions, held: 10 << 20, flows, terms };
        protocol.on_message(0, message, &mut table, now());
        ready += answers(&mut protocol).iter().filter(|one| matches!(one, Message::Ready { .. })).count();
    }
    assert!((5..=13).contains(&ready), "half of the memory is promised: {ready}");
    let other: IpAddr = "10.99.0.1".parse().unwrap();
    protocol.on_message(1, prepare(other, 5_000, vec![of(other, 1)]), &mut table, now());
    assert!(matches!(answers(&mut protocol)[..], [Message::Ready { .. }]), "another box has its turn");
}

/// Data in the smallest pieces takes as much memory as it is counted for.
#[test]
fn pieces_of_a_byte_are_bounded() {
    let (mut protocol, mut table) = victim();
    protocol.on_message(0, prepare(who(), 5_000, vec![flow(1)]), &mut table, now());
    let [Message::Ready { name, .. }] = answers(&mut protocol)[..] else { panic!("it is not taken") };
    for n in 0..20_000 {
        let start = SeqNum::new(1) + 2 * n;
        let piece = engine::HeldPiece { flow: flow(1), una: SeqNum::new(1), start, bytes: vec![7] };
        protocol.on_message(0, Message::Copy(name, piece), &mut table, now());
        answers(&mut protocol);
    }
    let held = protocol.coming.values().map(coming::Coming::memory).sum::<u64>();
    assert!(held <= 8_192 * 97, "{held}");
}

#[test]
fn numbers_at_the_end_of_their_range_do_no_harm() {
    let (mut protocol, mut table) = victim();
    protocol.on_message(0, prepare(who(), u64::MAX / 2, vec![flow(1)]), &mut table, now());
    let [Message::Ready { name, .. }] = answers(&mut protocol)[..] else { panic!("it is not taken") };
    protocol.on_message(0, Message::Abort(name), &mut table, now());
    table.flows.insert(flow(4), ());
    assert_eq!(protocol.begin(who(), 0, &mut table, now()), Ok(who()));
    let [Message::Prepare { name, .. }] = &answers(&mut protocol)[..] else { panic!("it does not ask") };
    assert_eq!(name.epoch, u64::MAX / 2 + 1);
}

/// A box that has taken a subscriber is told by the one before, which ends, or notices that it has gone.
#[test]
fn who_relied_on_a_box_that_ends_is_told_and_waited_for() {
    let mut pair = Pair::new(Config::default());
    pair.begin(0).unwrap();
    pair.talk(|_| false);
    assert_eq!(pair.counts(), [0, 3]);
    let end = |pair: &mut Pair| {
        let (protocol, table) = &mut pair.boxes[0];
        protocol.end(table, pair.now);
    };
    end(&mut pair);
    assert!(pair.boxes[0].0.is_undecided(), "it does not end before it has said so");
    pair.talk(|one| matches!(one, Message::Leaving(_)));
    assert!(pair.boxes[0].0.is_undecided(), "that was lost");
    pair.wait(AGAIN);
    pair.talk(|_| false);
    assert_eq!(pair.boxes[1].1.handed_back, [0]);
    assert!(pair.boxes[0].0.is_undecided(), "flows are there still");
    // They are handed back by and by.
    pair.boxes[1].1.flows.clear();
    pair.wait(AGAIN);
    pair.talk(|_| false);
    assert!(!pair.boxes[0].0.is_undecided(), "{:?}", pair.said.last());
    assert_eq!(pair.boxes[1].1.handed_back, [0, 0]);
    // One that does not answer is not waited for.
    let mut pair = Pair::new(Config::default());
    pair.begin(0).unwrap();
    pair.talk(|_| false);
    end(&mut pair);
    for _ in 0..3 {
        pair.talk(|_| true);
        pair.wait(AGAIN);
    }
    assert!(!pair.boxes[0].0.is_undecided());
}

#[test]
fn who_relied_on_a_box_that_is_heard_no_more_is_handed_back() {
    let mut pair = Pair::new(Config::default());
    pair.begin(0).unwrap();
    pair.talk(|_| false);
    for (which, expected) in [(0, vec![]), (1, vec![0])] {
        let (protocol, table) = &mut pair.boxes[which];
        protocol.on_peer_lost(1 - which as Peer, table, pair.now);
        assert_eq!(table.handed_back, expected, "box {which}");
    }
    // A process in its place knows it, too.
    pair.succeed(1);
    let (protocol, table) = &mut pair.boxes[1];
    protocol.on_peer_lost(0, table, pair.now);
    assert_eq!(table.handed_back, [0, 0]);
}

/// Flows that begin after the question are named before anything is frozen: their packets would go past.
#[test]
fn flows_that_are_new_are_named_first_and_those_that_nobody_named_are_doubted() {
    let mut pair = Pair::new(Config::default());
    pair.begin(0).unwrap();
    let Some((_, asked, _)) = pair.boxes[0].0.poll() else { panic!("it does not ask") };
    pair.deliver(1, asked);
    pair.boxes[0].1.flows.insert(flow(9), ());
    pair.talk(|one| matches!(one, Message::Prepare { .. }));
    assert_eq!(pair.counts(), [4, 0], "the other box does not know it: nothing is frozen");
    pair.wait(AGAIN);
    pair.talk(|_| false);
    assert_eq!((pair.counts(), pair.boxes[1].1.doubted.len()), ([0, 4], 0));
    // If the other box never hears of it, the subscriber stays.
    let mut pair = Pair::new(Config::default());
    pair.begin(0).unwrap();
    let Some((_, asked, _)) = pair.boxes[0].0.poll() else { panic!("it does not ask") };
    pair.deliver(1, asked);
    pair.boxes[0].1.flows.insert(flow(9), ());
    for _ in 0..6 {
        pair.talk(|one| matches!(one, Message::Prepare { .. }));
        pair.wait(AGAIN);
    }
    assert_eq!((pair.counts(), pair.outcomes()), ([4, 0], vec![HandoverOutcome::Unanswered]));
    // One that nobody has named all the same.
    let (mut protocol, mut table) = victim();
    protocol.on_message(0, prepare(who(), 5_000, vec![flow(1)]), &mut table, now());
    let [Message::Ready { name, .. }] = answers(&mut protocol)[..] else { panic!("it is not taken") };
    let moved = |port| HandoverFlow { ends: flow(port), record: FlowRecord::default(), clock_ms: 0 };
    protocol.on_message(0, Message::Commit(name, vec![moved(1), moved(2)]), &mut table, now());
    assert_eq!((table.flows.len(), &table.doubted[..]), (2, &[flow(2)][..]));
}

/// Of three boxes a subscriber has gone from the first to the second, and on to the third: whatever the two before
/// say then, made up or once more, the third one keeps it, and gives its packets to nobody.
#[test]
fn who_had_a_subscriber_before_has_no_word_in_it_any_more() {
    let tables = [Table::with(1..4), Table::default(), Table::default()];
    let mut boxes: Vec<(Handover, Table)> = (7..)
        .zip(tables)
        .map(|(random, table)| (Handover::new(Config::default(), random, 1_000), table))
        .collect();
    let mut said: Vec<(usize, usize, Message)> = Vec::new();
    let mut at = now();
    let mut talk = |boxes: &mut Vec<(Handover, Table)>, at: Instant| {
        while let Some((from, (to, message, _))) = (0..3).find_map(|from| Some((from, boxes[from].0.poll()?)))
        {
            said.push((from, to as usize, message.clone()));
            let (protocol, table) = &mut boxes[to as usize];
            protocol.on_message(from as Peer, message, table, at);
            let owners = boxes.iter().filter(|(_, table)| !table.flows.is_empty()).count();
            assert!(owners <= 1, "two owners after {:?}", said.last());
        }
        said.clone()
    };
    for (from, to) in [(0, 1), (1, 2)] {
        let (protocol, table) = &mut boxes[from];
        assert_eq!(protocol.begin(who(), to, table, at), Ok(who()));
        talk(&mut boxes, at);
        at += Duration::from_secs(2);
    }
    let counts = |boxes: &[(Handover, Table)]| [0, 1, 2].map(|which: usize| boxes[which].1.flows.len());
    assert_eq!(counts(&boxes), [0, 0, 3]);
    let named = |message: &Message| match message {
        Message::Ready { name, .. } | Message::Commit(name, _) | Message::Confirm(name) => Some(*name),
        _ => None,
    };
    let names: Vec<Name> = talk(&mut boxes, at).iter().filter_map(|(_, _, message)| named(message)).collect();
    let record = FlowRecord::default();
    let moved: Vec<HandoverFlow> =
        (1..4).map(|port| HandoverFlow { ends: flow(port), record, clock_ms: 0 }).collect();
    let highest = names.iter().map(|name| name.epoch).max().unwrap();
    let made_up = Name { subscriber: who(), epoch: highest + 5_000, nonce: 1 };
    for from in [0, 1] {
        let flows = vec![flow(1), flow(2), flow(3)];
        let mut words = vec![prepare(who(), highest + 5_000, flows), Message::Leaving(vec![who()])];
        for name in names.iter().copied().chain([made_up]) {
            words.extend([
                Message::Ready { name, flows: 3 },
                Message::Commit(name, moved.clone()),
                Message::Committed(name),
                Message::Confirm(name),
                Message::Abort(name),
                Message::Refused(name, Refusal::Never),
            ]);
        }
        for word in words {
            let (protocol, table) = &mut boxes[2];
            protocol.on_message(from, word.clone(), table, at);
            while protocol.poll().is_some() {}
            assert_eq!((table.flows.len(), table.led, table.broken), (3, None, 0), "{word:?} of box {from}");
            assert_eq!((protocol.under_way(), protocol.is_undecided()), (0, false), "{word:?} of box {from}");
        }
    }
    // What the first one has once asked of the second is refused: it is older than what that one knows.
    let asked = talk(&mut boxes, at).into_iter().find(|(from, ..)| *from == 0).map(|(_, _, message)| message);
    let (protocol, table) = &mut boxes[1];
    protocol.on_message(0, asked.unwrap(), table, at);
    assert_eq!((refusal(protocol), table.led), (Refusal::Epoch, None));
}
