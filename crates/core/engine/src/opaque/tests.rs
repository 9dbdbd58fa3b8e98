use std::net::{IpAddr, Ipv4Addr};

use control::RateSampler;
use units::{Duration, Instant, SeqNum};
use wire::VirtioNetHeader;

use super::key::OpaqueKey;
use super::queues::{Queues, Waiting};
use super::under_way::{Numbered, UnderWay};
use super::{Class, Opaque};

fn at(ms: u64) -> Instant {
    Instant::from_millis(10_000 + ms)
}

/// A UDP datagram of `len` bytes from a port to the client, with an ECN field.
pub(super) fn datagram(port: u16, len: usize, ecn: u8) -> Vec<u8> {
    let mut packet = vec![0x45, ecn];
    packet.extend((len as u16).to_be_bytes());
    packet.extend([0, 0, 0x40, 0, 64, 17, 0, 0, 192, 0, 2, 1, 10, 0, 0, 7]);
    packet.extend(port.to_be_bytes());
    packet.extend([0x1f, 0x90]);
    packet.extend((len as u16 - 20).to_be_bytes());
    packet.resize(len, 0);
    packet
}

/// A fragment behind the first one.
fn fragment(len: usize) -> Vec<u8> {
    let mut packet = datagram(1, len, 0);
    packet[6..8].copy_from_slice(&[0, 185]);
    packet
}

fn key(packet: &[u8]) -> OpaqueKey {
    OpaqueKey::of(&wire::parse(packet).unwrap(), packet, 7)
}

fn push(queues: &mut Queues, packet: &[u8], now: Instant) {
    queues.push(key(packet), Waiting::new(packet, VirtioNetHeader::default(), (1_000, 1), now), u64::MAX);
}

fn port(packet: &Waiting) -> u16 {
    u16::from_be_bytes([packet.bytes[20], packet.bytes[21]])
}

/// Ports of the packets in the order in which they leave.
fn order(queues: &mut Queues) -> Vec<u16> {
    std::iter::from_fn(|| queues.pop()).map(|packet| port(&packet)).collect()
}

#[test]
fn flows_take_turns_and_a_new_one_goes_first() {
    let mut queues = Queues::default();
    (0..6).for_each(|_| push(&mut queues, &datagram(1, 1_500, 0), at(0)));
    assert_eq!(port(&queues.pop().unwrap()), 1);
    assert_eq!(port(&queues.pop().unwrap()), 1, "14 bytes of its turn were left");
    (0..3).for_each(|_| push(&mut queues, &datagram(2, 1_500, 0), at(0)));
    push(&mut queues, &datagram(3, 100, 0), at(0));
    assert_eq!(order(&mut queues), [2, 2, 3, 1, 2, 1, 1, 1]);
    assert!(queues.is_empty());
}

#[test]
fn fragments_and_datagrams_of_two_hosts_keep_their_order() {
    let mut queues = Queues::default();
    for (index, is_fragment) in [false, true, false, true].into_iter().enumerate() {
        let mut packet = if is_fragment { fragment(1_000) } else { datagram(5, 1_000, 0) };
        packet[5] = index as u8;
        push(&mut queues, &packet, at(0));
    }
    let left: Vec<u8> = std::iter::from_fn(|| queues.pop()).map(|packet| packet.bytes[5]).collect();
    assert_eq!(left, [0, 1, 2, 3]);
}

#[test]
fn a_flood_of_flows_has_bounds() {
    let mut queues = Queues::default();
    for number in 0..60_000u32 {
        push(&mut queues, &datagram((number % 50_000) as u16, 1_000, 0), at(0));
    }
    assert!(queues.flows() <= 256, "{}", queues.flows());
    assert!(queues.bytes() <= 2 << 20, "{}", queues.bytes());
    let dropped = queues.take_losses().dropped;
    assert_eq!(dropped + order(&mut queues).len() as u64, 60_000);
}

/// The number of a packet stands in its last bytes.
#[test]
fn flows_that_share_a_queue_keep_their_order() {
    let mut queues = Queues::default();
    let mut next = 0u32;
    let mut send = |queues: &mut Queues, port| {
        let mut packet = datagram(port, 100, 0);
        packet[96..].copy_from_slice(&next.to_be_bytes());
        next += 1;
        push(queues, &packet, at(0));
    };
    (0..256).for_each(|port| send(&mut queues, port));
    (0..600).for_each(|packet| send(&mut queues, 1_000 + packet % 3));
    let mut last = std::collections::BTreeMap::new();
    for step in 0..1_200 {
        let Some(packet) = queues.pop() else { break };
        let number = u32::from_be_bytes(*packet.bytes.last_chunk().unwrap());
        assert!(last.insert(port(&packet), number).is_none_or(|before| before < number), "at {step}");
        // Each queue has something: it stays one of as many.
        send(&mut queues, port(&packet));
    }
}

#[test]
fn what_has_no_room_is_dropped_of_the_longest() {
    let mut queues = Queues::default();
    (0..5).for_each(|_| push(&mut queues, &datagram(1, 1_000, 0), at(0)));
    let (packet, all) = (datagram(2, 1_000, 0), queues.bytes());
    let waiting = || Waiting::new(&packet, VirtioNetHeader::default(), (1_000, 1), at(0));
    assert!(queues.holds(&key(&datagram(1, 60, 0))) && !queues.holds(&key(&packet)));
    queues.push(key(&packet), waiting(), all);
    queues.push(key(&packet), waiting(), all);
    assert_eq!((queues.bytes(), queues.take_losses().dropped), (all, 2));
    assert!(queues.holds(&key(&packet)));
    assert_eq!(order(&mut queues).iter().filter(|port| **port == 1).count(), 3);
}

#[test]
fn time_in_which_nobody_is_served_drops_nothing() {
    let stands = |serves: bool| {
        let mut queues = Queues::default();
        (0..200).for_each(|_| push(&mut queues, &datagram(1, 1_000, 0), at(0)));
        for step in 0..40 {
            if serves {
                queues.on_served(at(step * 30));
            }
            queues.pop();
        }
        queues.take_losses()
    };
    assert_eq!(stands(false).dropped, 0, "over a second");
    assert!(stands(true).dropped > 3);
}

#[test]
fn what_can_take_a_mark_is_not_dropped() {
    for (ecn, marks) in [(0, false), (1, true), (2, true)] {
        let mut queues = Queues::default();
        (0..200).for_each(|_| push(&mut queues, &datagram(1, 1_000, ecn), at(0)));
        let mut marked = 0;
        for step in 0..20 {
            queues.on_served(at(step * 30));
            let packet = queues.pop().unwrap();
            marked += u64::from(packet.bytes[1] & 3 == 3);
            assert!(packet.bytes[1] & 3 == ecn || marks);
        }
        let losses = queues.take_losses();
        assert_eq!((losses.marked, losses.marked > 0), (marked, marks), "ECN field {ecn}");
        assert_eq!(losses.dropped > 0, !marks, "ECN field {ecn}");
    }
}

#[test]
fn a_scalable_senders_packet_is_marked_by_a_step_and_a_classic_one_by_its_queue() {
    // Which of 30 packets that leave 10 ms apart are marked; all have come at once.
    let marked = |ecn: u8| -> Vec<usize> {
        let mut queues = Queues::default();
        (0..40).for_each(|_| push(&mut queues, &datagram(1, 1_000, ecn), at(0)));
        queues.on_served(at(0));
        let left = (0..30).map(|step| {
            queues.on_served(at(step * 10));
            queues.pop().unwrap().bytes[1] & 3
        });
        left.enumerate().filter(|(_, field)| *field == 3).map(|(n, _)| n).collect()
    };
    // Four steps of 10 ms, and the 30 ms that an idle subscriber's first evidence counts for.
    let first = marked(1)[0];
    assert!((1..=4).contains(&first), "{first}");
    assert_eq!(marked(1), (first..30).collect::<Vec<_>>(), "each from then on");
    assert_eq!(marked(2), [0; 0], "no queue of 250 ms");
    assert_eq!(marked(3).len(), 30, "they were before");
}

fn numbered(flow: u16, end: u32) -> Option<Numbered> {
    Some(Numbered { flow: key(&datagram(flow, 100, 0)), end: SeqNum::new(end) })
}

/// `(time in ms, numbered)` sent, 1,000 bytes each.
fn sent(packets: &[(u64, Option<Numbered>)]) -> UnderWay {
    let (mut under_way, mut sampler) = (UnderWay::default(), RateSampler::new());
    for flow in [1, 2] {
        under_way.on_sent(0, sampler.on_send(false, Instant::ZERO), numbered(flow, 1));
    }
    for (ms, numbered) in packets {
        under_way.on_sent(1_000, sampler.on_send(false, at(*ms)), *numbered);
    }
    under_way
}

#[test]
fn an_answer_says_that_all_before_it_has_left() {
    let mut under_way = sent(&[(0, None), (5, None), (10, None), (15, None)]);
    assert_eq!((under_way.release_until(at(10), at(60)), under_way.bytes()), (3_000, 1_000));
    assert_eq!(under_way.release_until(at(9), at(61)), 0, "an older one says nothing new");
    assert_eq!(under_way.evidence_at(), at(61));
}

/// However close packets follow each other, what was sent a while ago is told from the newest.
#[test]
fn what_follows_closely_leaves_by_and_by() {
    let (mut under_way, mut sampler) = (UnderWay::default(), RateSampler::new());
    for number in 0..200u64 {
        let now = at(0) + Duration::from_micros(500 * number);
        under_way.on_sent(1_000, sampler.on_send(false, now), None);
    }
    let released = under_way.release_until(at(50), at(120));
    assert!((99_000..=101_000).contains(&released), "{released}");
}

#[test]
fn a_passed_flow_acknowledges_what_was_sent_before_its_segments() {
    let flow = key(&datagram(1, 100, 0));
    let mut under_way =
        sent(&[(0, None), (5, numbered(1, 100)), (10, numbered(2, 50)), (15, numbered(1, 200))]);
    let answer = under_way.on_ack(flow, SeqNum::new(150), at(60)).unwrap();
    assert_eq!((answer.bytes, answer.stamp.sent_at, under_way.bytes()), (2_000, at(5), 2_000));
    assert_eq!(under_way.on_ack(flow, SeqNum::new(150), at(61)), None, "nothing new");
    assert_eq!(under_way.on_ack(flow, SeqNum::new(201), at(62)), None, "nobody has what was never sent");
    assert_eq!(under_way.on_ack(flow, SeqNum::new(200), at(62)).unwrap().bytes, 2_000);
}

#[test]
fn what_is_sent_again_is_no_answer() {
    let flow = key(&datagram(1, 100, 0));
    let mut under_way = sent(&[(0, numbered(1, 100)), (40, numbered(1, 100))]);
    assert_eq!(under_way.on_ack(flow, SeqNum::new(100), at(50)).unwrap().bytes, 1_000);
    assert_eq!(under_way.bytes(), 1_000, "the second one may still be under way");
}

#[test]
fn acknowledgements_long_after_evidence_contradict_it() {
    let flow = key(&datagram(1, 100, 0));
    let packets: Vec<_> = (0..20).map(|n| (u64::from(n) * 10, numbered(1, 100 + n))).collect();
    // Others say after 30 ms that each has left; its own acknowledgement comes after 35 or after 400 ms.
    for (own, is_contradicted) in [(35, false), (400, true)] {
        let mut under_way = sent(&packets);
        for ms in 0..700 {
            under_way.release_until(at(ms.max(30) - 30), at(ms));
            if ms >= own && (ms - own) % 10 == 0 && (ms - own) / 10 < 20 {
                under_way.on_ack(flow, SeqNum::new(100 + ((ms - own) / 10) as u32), at(ms));
            }
        }
        assert_eq!(under_way.is_contradicted(), is_contradicted, "{own} ms");
    }
}

#[test]
fn what_is_kept_has_bounds() {
    let mut under_way = sent(&[]);
    let mut sampler = RateSampler::new();
    for number in 0..20_000u32 {
        let now = Instant::ZERO + Duration::from_micros(u64::from(number) * 100);
        under_way.on_sent(1_000, sampler.on_send(false, now), numbered(1, number));
    }
    assert_eq!(under_way.bytes(), 8_192_000);
    under_way.on_sent(500, sampler.on_send(false, at(100_000)), None);
    assert_eq!(under_way.bytes(), 500, "the others are too old");
}

#[test]
fn each_flow_has_the_same_share_whatever_it_is() {
    let mut opaque = Opaque::default();
    (0..400).for_each(|_| push(&mut opaque.queues, &datagram(1, 1_500, 0), at(0)));
    (0..400).for_each(|_| push(&mut opaque.queues, &datagram(2, 1_500, 0), at(0)));
    // Three accelerated flows: three fifths.
    let mut sent = [0u32; 2];
    for _ in 0..500 {
        let class = opaque.turn(3);
        let flows = if class == Class::Own { 3 } else { opaque.queues.flows() };
        if class == Class::Opaque {
            opaque.queues.pop().unwrap();
        }
        opaque.charge(class, 1_448, flows);
        sent[usize::from(class == Class::Opaque)] += 1;
    }
    assert!((295..=305).contains(&sent[0]), "{sent:?}");
}

#[test]
fn keys_tell_flows_apart_and_find_the_answer_to_one() {
    let keys: Vec<_> = (1..2_000).map(|port| key(&datagram(port, 100, 0))).collect();
    let distinct: std::collections::BTreeSet<String> = keys.iter().map(|key| format!("{key:?}")).collect();
    assert_eq!(distinct.len(), keys.len());
    let (server, client) = ("192.0.2.1:443".parse().unwrap(), "10.0.0.7:40000".parse().unwrap());
    let mut buf = [0; wire::TcpHeaderSpec::MAX_LEN];
    let mut header = |from, to| {
        let number = SeqNum::new(1);
        let spec = wire::TcpHeaderSpec::new(from, to, number, number, wire::TcpFlags::ACK);
        let len = spec.emit(&mut buf, &[]).unwrap().len;
        buf[..len].to_vec()
    };
    let (data, reply) = (header(server, client), header(client, server));
    let parsed = wire::parse(&reply).unwrap();
    assert_eq!(key(&data), OpaqueKey::of_reply(&parsed.ip, parsed.tcp().unwrap(), 7));
    assert_eq!(parsed.ip.src, IpAddr::V4(Ipv4Addr::new(10, 0, 0, 7)));
}

#[test]
fn an_answer_is_wanted_of_what_passed_last_and_of_nothing_else() {
    let mut place = super::Place::default();
    place.on_own(1_000, 1, at(0));
    assert!(!place.wants_evidence(at(500)), "nothing has passed");
    let mut sampler = RateSampler::new();
    let mut pass = |place: &mut super::Place, ms| {
        place.make().under_way.on_sent(1_000, sampler.on_send(false, at(ms)), None);
    };
    pass(&mut place, 10);
    assert!(!place.wants_evidence(at(20)) && place.wants_evidence(at(25)));
    place.on_own(1_000, 1, at(25));
    assert!(!place.wants_evidence(at(2_000)), "what was sent last is that of an accelerated flow: an outage");
    pass(&mut place, 2_000);
    assert!(place.wants_evidence(at(2_000)));
    place.forget_unanswered(Some(Duration::from_millis(400)), at(2_399));
    assert_eq!(place.under_way(), 1_000);
    place.forget_unanswered(Some(Duration::from_millis(400)), at(2_400));
    assert_eq!(place.under_way(), 0);
}

#[test]
fn quic_is_known_by_its_port_or_its_long_header() {
    let judge = |port: u16, start: [u8; 5]| {
        let mut packet = datagram(port, 200, 0);
        packet[28..33].copy_from_slice(&start);
        let parsed = wire::parse(&packet).unwrap();
        let wire::Transport::Udp(udp) = parsed.transport else { panic!("{parsed}") };
        super::key::is_quic(&udp, &packet)
    };
    for (port, start, expected) in [
        (443, [0x40, 1, 2, 3, 4], true),
        (4_433, [0xc3, 0, 0, 0, 1], true),
        (4_433, [0xd0, 0x6b, 0x33, 0x43, 0xcf], true),
        (4_433, [0x40, 0, 0, 0, 1], false),
        (4_433, [0xc3, 0, 0, 0, 0], false),
        (53, [0x84, 0, 0, 1, 0], false),
    ] {
        assert_eq!(judge(port, start), expected, "{port} {start:?}");
    }
}
