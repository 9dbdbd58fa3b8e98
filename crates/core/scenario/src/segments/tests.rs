use super::*;
use proptest::prelude::*;
use std::net::Ipv4Addr;

fn segment(seq: u32, payload_len: u32) -> Segment {
    let end = |last| (IpAddr::V4(Ipv4Addr::new(10, 0, 0, last)), u16::from(last));
    Segment {
        at: Instant::ZERO,
        from: end(1),
        to: end(2),
        seq: SeqNum::new(seq),
        ack: SeqNum::new(0),
        window: 138,
        flags: TcpFlags::ACK,
        scale: None,
        payload_len,
    }
}

fn reversed(s: Segment) -> Segment {
    Segment { from: s.to, to: s.from, ..s }
}

#[test]
fn repeats_are_segments_without_a_new_byte() {
    let start = u32::MAX - 1500;
    let at = |offset: u32, len| segment(start.wrapping_add(offset), len);
    let all = [
        at(0, 1000),
        at(1000, 1000),
        at(0, 1000),
        at(3000, 1000),
        at(2000, 1000),
        at(2500, 1000),
        at(3500, 1000),
        at(1, 0),
    ];
    assert_eq!(repeats(&all), (7, 2));
}

#[test]
fn windows_are_scaled_only_if_both_sides_said_so() {
    let syn =
        Segment { flags: TcpFlags::SYN, scale: Some(WindowScale::new(7)), window: 65_535, ..segment(0, 0) };
    let answer = reversed(Segment { flags: TcpFlags::SYN.with(TcpFlags::ACK), ..syn });
    let acks = [syn, segment(1, 0), Segment { window: 100, ..segment(1, 0) }, segment(1, 0)];
    let figures = window(&acks, &[answer]).unwrap();
    assert_eq!((figures.max_bytes, figures.median_bytes, figures.scale), (17_664, 17_664, 7));
    let unscaled = window(&acks, &[Segment { scale: None, ..answer }]).unwrap();
    assert_eq!(unscaled.max_bytes, 138);
    assert!(window(&[], &[]).is_none());
}

proptest! {
    /// Compares with a plain set of bytes.
    #[test]
    fn repeats_match_a_byte_set(segments in proptest::collection::vec((0u32..300, 1u32..60), 0..80), start: u32) {
        let mut bytes = std::collections::BTreeSet::new();
        let mut expected = 0;
        let mut list = vec![segment(start, 1)];
        bytes.insert(0);
        for (offset, len) in segments {
            let new = (offset..offset + len).filter(|b| bytes.insert(*b)).count();
            expected += u64::from(new == 0);
            list.push(segment(start.wrapping_add(offset), len));
        }
        prop_assert_eq!(repeats(&list).1, expected);
    }
}
