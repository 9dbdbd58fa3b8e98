//! Whole transfers over a channel that loses, doubles and reorders.

use proptest::prelude::*;
use units::Bytes;

use super::*;
use crate::{Receiver, SegmentIn, StreamBuffer};

/// Fate of each packet in turn on the channel.
#[derive(Clone, Copy, Debug)]
enum Fate {
    Deliver,
    Lose,
    Double,
    Delay(u64),
}

/// Draws fates at random: a fixed pattern could fall in step with the sender and lose one segment for ever.
struct Channel {
    state: u64,
    lose_permille: u64,
    disturb_permille: u64,
}

impl Channel {
    fn next(&mut self) -> Fate {
        self.state =
            self.state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        let draw = self.state >> 40;
        match draw % 1_000 {
            p if p < self.lose_permille => Fate::Lose,
            p if p < self.lose_permille + self.disturb_permille => match draw >> 16 & 1 {
                0 => Fate::Double,
                _ => Fate::Delay((draw >> 10) % 300),
            },
            _ => Fate::Deliver,
        }
    }
}

#[derive(Clone, Debug)]
struct Ack {
    ack: SeqNum,
    window: u32,
    sack: SackBlocks,
}

/// Runs a transfer of `total` bytes; returns what the receiver's application read and when it ended.
fn transfer(
    config: SenderConfig,
    total: u32,
    channel: &mut Channel,
    window: u32,
    read_ms: u64,
) -> (Vec<u8>, Instant) {
    let stream: Vec<u8> = (0..total).map(|i| (i.wrapping_mul(2_654_435_761) >> 24) as u8).collect();
    let mut sender = Sender::new(SenderConfig { window, ..config });
    sender.set_available(at(total), true);
    let mut sampler = RateSampler::new();
    let mut receiver = Receiver::new(at(0), window, config.sack, None);
    receiver.allow_fin_ack();
    let mut buffer = StreamBuffer::new(at(0));
    let mut forward: Vec<(u64, Transmission)> = Vec::new();
    let mut back: Vec<(u64, Ack)> = Vec::new();
    let mut read = Vec::new();
    let one_way = 20;
    let mut t = 0;
    while !sender.is_fin_acked() && t < 3_000_000 {
        let now = ms(t);
        sender.on_timeout(now);
        let window_room = 20_000u32.saturating_sub(sender.in_flight());
        loop {
            let is_path_idle = sender.in_flight() == 0;
            let sampler = &mut sampler;
            let context = SendContext { now, quantum: 3 * MSS, window_room, is_path_idle, sampler };
            let Some(sent) = sender.poll(context) else { break };
            match channel.next() {
                Fate::Lose => {}
                Fate::Deliver => forward.push((t + one_way, sent)),
                Fate::Double => forward.extend([(t + one_way, sent), (t + one_way + 1, sent)]),
                Fate::Delay(more) => forward.push((t + one_way + more, sent)),
            }
            if sender.in_flight() >= 20_000 {
                break;
            }
        }
        let arrived: Vec<_> = forward.extract_if(.., |(at, _)| *at <= t).collect();
        let is_read_time = t % read_ms == 0;
        let mut must_ack = !arrived.is_empty();
        for (_, sent) in arrived {
            let start = sent.seq.distance_from(at(0)).max(0) as usize;
            let payload = &stream[start.min(stream.len())..(start + sent.len as usize).min(stream.len())];
            let segment =
                SegmentIn { seq: sent.seq, payload, fin: sent.fin, timestamp: None, moves_time: true };
            receiver.on_segment(&segment, &mut buffer);
        }
        if is_read_time {
            let ready = receiver.next().since(buffer.start()) as usize;
            let (a, b) = buffer.slices(buffer.start(), ready);
            read.extend_from_slice(a);
            read.extend_from_slice(b);
            buffer.advance_to(receiver.next());
            let free = window;
            must_ack |= receiver.window_growth(free) >= MSS.min(window / 2);
        }
        if must_ack {
            let held = receiver.next().since(buffer.start());
            let free = window.saturating_sub(held);
            let field = receiver.window_field(free, units::WindowScale::NONE);
            let ack = Ack { ack: receiver.ack(), window: u32::from(field), sack: receiver.sack_blocks(3) };
            match channel.next() {
                Fate::Lose => {}
                Fate::Deliver => back.push((t + one_way, ack)),
                Fate::Double => back.extend([(t + one_way, ack.clone()), (t + one_way, ack)]),
                Fate::Delay(more) => back.push((t + one_way + more, ack)),
            }
        }
        let acks: Vec<_> = back.extract_if(.., |(at, _)| *at <= t).collect();
        for (_, ack) in acks {
            let before = sender.una();
            let out = sender.on_ack(
                &AckIn {
                    seq: SeqNum::new(0),
                    ack: ack.ack,
                    window: ack.window,
                    sack: &ack.sack,
                    has_payload: false,
                },
                now,
            );
            assert!(!out.is_unacceptable);
            assert!(sender.una().is_at_or_after(before));
            sampler.on_delivered(Bytes::from(out.delivered), out.newest.as_ref(), None, now);
        }
        sender.board.check();
        t += 1;
    }
    assert_eq!(read.len() + buffer.len(), total as usize, "stuck at {t} ms: {sender:?}");
    let (a, b) = buffer.slices(buffer.start(), buffer.len());
    read.extend_from_slice(a);
    read.extend_from_slice(b);
    assert!(read == stream, "the stream differs");
    (read, ms(t))
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(96))]

    #[test]
    fn delivers_exactly_the_stream(
        total in 0u32..120_000,
        state: u64,
        lose_permille in 0u64..250,
        disturb_permille in 0u64..200,
        sack: bool,
        opportunistic: bool,
        window in 3_000u32..60_000,
        read_ms in 1u64..200,
    ) {
        let mut channel = Channel { state, lose_permille, disturb_permille };
        let policy = if opportunistic { WindowPolicy::Opportunistic } else { WindowPolicy::Honour };
        let config = SenderConfig { sack, policy, rto_max: Duration::from_secs(2), ..config() };
        transfer(config, total, &mut channel, window, read_ms);
    }
}

#[test]
fn a_clean_channel_needs_no_retransmission_and_no_timer() {
    let (_, end) = transfer(
        config(),
        100_000,
        &mut Channel { state: 0, lose_permille: 0, disturb_permille: 0 },
        60_000,
        1,
    );
    assert!(end <= ms(300), "{end}");
}
