//! Connections of Multipath TCP whose mappings span several packets, each of which repeats the mapping.

use analysis::{MptcpAnalyzer, MptcpReport, SubflowDirection};
use capture::{LinkType, Mapping, MptcpOptions, Segment, decode};
use units::{Instant, SeqNum};
use wire::{TcpFlags, TcpHeaderSpec, Timestamps};

/// Payload of a packet, bytes.
const LEN: u32 = 1_000;
/// Packets of a mapping.
const PACKETS: u32 = 4;

/// A download on two subflows, packet by packet. Mappings count from zero, and take turns: the even ones are
/// the first subflow's, the odd ones the second's.
struct Download {
    analyzer: MptcpAnalyzer,
    ms: u64,
    /// Identifications of the server's packets.
    id: u16,
    hop_limit: u8,
}

impl Download {
    fn new(keeps_syns: bool) -> Self {
        let mut new = Self { analyzer: MptcpAnalyzer::default(), ms: 0, id: 1, hop_limit: 64 };
        let mut take = |subflow, from, seq, flags, options: &MptcpOptions| {
            new.analyzer.handle(0, &segment(subflow, from, seq, 0, flags, 1, 64), options, Instant::ZERO);
        };
        let none = MptcpOptions::default();
        let (syn, answer) = (TcpFlags::SYN, TcpFlags::SYN | TcpFlags::ACK);
        if keeps_syns {
            take(0, 0, 0, syn, &MptcpOptions { capable: Some(1), ..none });
            take(0, 1, 0, answer, &MptcpOptions { capable: Some(1), sender_key: Some(0), ..none });
        }
        let keys = MptcpOptions { capable: Some(1), sender_key: Some(9), receiver_key: Some(0), ..none };
        take(0, 0, 1, TcpFlags::ACK, &keys);
        // The token is that of the server's key.
        take(1, 0, 0, syn, &MptcpOptions { join_token: Some(0xaf55_70f5), ..none });
        if keeps_syns {
            take(1, 1, 0, answer, &none);
        }
        new
    }

    /// Packet `packet` of mapping `mapping`, on `subflow`, where the mapping is the `place`th.
    fn packet(&mut self, subflow: u16, place: u32, mapping: u32, packet: u32) -> Segment {
        let seq = 1 + (place * PACKETS + packet) * LEN;
        let segment = segment(subflow, 1, seq, LEN, TcpFlags::ACK, self.id, self.hop_limit);
        let mapping = Mapping {
            data_sequence: 5_000 + u64::from(mapping * PACKETS * LEN),
            is_wide: true,
            subflow_sequence: 1 + place * PACKETS * LEN,
            len: (PACKETS * LEN) as u16,
        };
        let options = MptcpOptions { mapping: Some(mapping), ..MptcpOptions::default() };
        self.analyzer.handle(0, &segment, &options, Instant::from_millis(self.ms));
        (self.ms, self.id) = (self.ms + 1, self.id + 1);
        segment
    }

    /// The figures of each subflow's data, and the whole.
    fn found(self) -> ([SubflowDirection; 2], MptcpReport) {
        let mut found = self.analyzer.finish();
        assert_eq!((found.len(), found[0].subflows.len()), (1, 2), "{found:?}");
        let report = found.remove(0);
        ([0, 1].map(|subflow: usize| report.subflows[subflow].directions[1]), report)
    }
}

fn segment(subflow: u16, from: usize, seq: u32, len: u32, flags: TcpFlags, id: u16, hops: u8) -> Segment {
    let ends = [format!("10.0.{subflow}.1:1000"), "10.0.0.9:80".to_owned()].map(|end| end.parse().unwrap());
    let number = SeqNum::new((u32::MAX - 3_000).wrapping_add(seq));
    let mut spec = TcpHeaderSpec::new(ends[from], ends[1 - from], number, SeqNum::new(1), flags);
    (spec.id, spec.hop_limit) = (id, hops);
    spec.timestamps = Some(Timestamps { value: u32::from(id), echo: 1 });
    let mut header = [0; TcpHeaderSpec::MAX_LEN];
    let emitted = spec.emit_partial(&mut header, len as usize).unwrap();
    decode(LinkType::RAW, &header[..emitted.len], emitted.total_len as u32).unwrap()
}

fn figures(way: &SubflowDirection) -> [u64; 4] {
    [way.bytes, way.reinjected_bytes, way.repeated_bytes, way.mappings]
}

#[test]
fn reinjections_count_once_for_all_packets_of_a_mapping() {
    for keeps_syns in [true, false] {
        let mut download = Download::new(keeps_syns);
        for mapping in 0..6 {
            for packet in 0..PACKETS {
                download.packet(mapping as u16 % 2, mapping / 2, mapping, packet);
            }
        }
        // Mapping 4 again, on the other subflow; then two packets of that again, and one of the original.
        (0..PACKETS).for_each(|packet| _ = download.packet(1, 3, 4, packet));
        (0..2).for_each(|packet| _ = download.packet(1, 3, 4, packet));
        download.packet(0, 2, 4, 3);
        let ([first, second], whole) = download.found();
        assert_eq!(figures(&first), [12_000, 0, 1_000, 13], "SYNs: {keeps_syns}");
        assert_eq!(figures(&second), [12_000, 4_000, 2_000, 18], "SYNs: {keeps_syns}");
        let way = whole.directions[1];
        assert_eq!((way.bytes, way.reinjected_bytes, way.repeated_bytes), (24_000, 4_000, 3_000));
        assert_eq!((first.share, second.share), (Some(0.5), Some(0.5)));
    }
}

#[test]
fn beside_the_receiver_only_what_came_counts() {
    let mut download = Download::new(true);
    // Of mapping 0 only the first packet comes; the other subflow brings the rest.
    download.packet(0, 0, 0, 0);
    (0..PACKETS).for_each(|packet| _ = download.packet(1, 0, 0, packet));
    (0..PACKETS).for_each(|packet| _ = download.packet(1, 1, 1, packet));
    let ([first, second], whole) = download.found();
    assert_eq!((figures(&first), first.share), ([1_000, 0, 0, 1], Some(0.125)));
    assert_eq!((figures(&second), second.share), ([7_000, 1_000, 0, 8], Some(0.875)));
    assert_eq!(whole.directions[1].bytes, 8_000);
}

#[test]
fn packets_without_options_go_on_with_the_mapping() {
    let mut download = Download::new(true);
    download.packet(0, 0, 0, 0);
    let plain = segment(0, 1, 1 + LEN, LEN, TcpFlags::ACK, 2, 64);
    download.analyzer.handle_plain(0, &plain, Instant::from_millis(1));
    // Nor of a connection that is none of Multipath TCP.
    let other = segment(7, 1, 1 + LEN, LEN, TcpFlags::ACK, 2, 64);
    download.analyzer.handle_plain(0, &other, Instant::from_millis(2));
    let ([first, _], _) = download.found();
    assert_eq!(figures(&first), [2_000, 0, 0, 1]);
}

#[test]
fn copies_are_nothing_sent_again() {
    let mut download = Download::new(true);
    for packet in 0..PACKETS {
        download.packet(0, 0, 0, packet);
        // The same packet behind a router, half a millisecond later.
        (download.id, download.hop_limit, download.ms) = (download.id - 1, 63, download.ms - 1);
        download.packet(0, 0, 0, packet);
        download.hop_limit = 64;
    }
    let ([first, _], _) = download.found();
    assert_eq!(figures(&first), [4_000, 0, 0, 8]);
}
