//! One connection at two places between which addresses are translated.

use crate::made::{Tape, With};
use analysis::{FlowEnds, FlowReport, PairFinder};
use wire::TcpFlags;

/// A connection of the client `client`, whose SYN passes after `shift_us` and is answered `answer_us` later.
struct Sight {
    point: u16,
    client: &'static str,
    shift_us: u64,
    answer_us: u64,
    numbers: [u32; 2],
    /// Timestamps of the SYNs, if there are any.
    stamps: Option<[u32; 2]>,
}

impl Sight {
    fn flow(&self, id: u64) -> FlowReport {
        let mut tape = Tape::new();
        tape.ends[0] = self.client.parse().unwrap();
        tape.isn = self.numbers;
        let with = |stamps: Option<(u32, u32)>, flags| With { flags, stamps, ..With::default() };
        let syn = self.stamps.map(|[own, _]| (own, 0));
        let answer = self.stamps.map(|[own, other]| (other, own));
        let shift = self.shift_us;
        tape.send(shift, 0, 0, 0, 0, &with(syn, TcpFlags::SYN));
        tape.send(shift + self.answer_us, 1, 0, 1, 0, &with(answer, TcpFlags::SYN));
        tape.send(shift + 40_020, 0, 1, 1, 0, &with(None, TcpFlags::ACK));
        for n in 0..3 - u32::from(self.point) {
            tape.data(shift + 50_000, n);
        }
        FlowReport { id, point: self.point, capture: 3 + self.point, ..tape.flow() }
    }
}

/// Beside the client behind a translator, and beside the server.
fn both() -> [Sight; 2] {
    let (numbers, stamps) = ([1_000, 77_000], Some([5, 900]));
    [
        Sight { point: 0, client: "192.168.1.7:50000", shift_us: 0, answer_us: 40_010, numbers, stamps },
        Sight { point: 1, client: "203.0.113.9:1027", shift_us: 20_000, answer_us: 10, numbers, stamps },
    ]
}

fn pairs(sights: &[Sight]) -> Vec<analysis::Pair> {
    let mut finder = PairFinder::default();
    (0..).zip(sights).for_each(|(id, sight)| finder.push(&sight.flow(id)));
    finder.finish()
}

#[test]
fn a_translated_client_is_found_by_the_numbers_of_both_syns() {
    for has_stamps in [true, false] {
        let mut sights = both();
        sights.iter_mut().for_each(|sight| sight.stamps = sight.stamps.filter(|_| has_stamps));
        let found = pairs(&sights);
        assert_eq!(found.len(), 1);
        assert_eq!((found[0].client_flow, found[0].server_flow, found[0].is_translated), (0, 1, true));
        let ends = sights.map(|sight| {
            let flow = sight.flow(0);
            FlowEnds { capture: 3 + sight.point, first: sight.client.parse().unwrap(), second: flow.second }
        });
        assert_eq!(found[0].ends, ends, "each flow's own, as it was seen there");
        assert!((found[0].path_rtt_ms - 40.0).abs() < 0.1, "{found:?}");
        assert_eq!((found[0].lost_to_server, found[0].lost_to_client), (Some(1), Some(0)));
    }
}

#[test]
fn a_firewall_that_changes_numbers_too_leaves_the_timestamps() {
    let mut sights = both();
    sights[1].numbers = [123_456, 654_321];
    assert_eq!(pairs(&sights).len(), 1);
    sights[1].stamps = None;
    assert_eq!(pairs(&sights).len(), 0, "nothing tells");
}

#[test]
fn what_is_alike_by_chance_is_no_pair() {
    let far = |change: fn(&mut Sight)| {
        let mut sights = both();
        change(&mut sights[1]);
        pairs(&sights).len()
    };
    assert_eq!(far(|sight| sight.point = 0), 0, "the same place");
    assert_eq!(far(|sight| sight.shift_us = 70_000_000), 0, "another time");
    assert_eq!(far(|sight| (sight.numbers[1], sight.stamps) = (77_001, Some([5, 901]))), 0, "another server");
    // Two of them: which it is cannot be told.
    let [a, b] = both();
    let [c, _] = both();
    let c = Sight { client: "192.168.1.8:50001", ..c };
    assert_eq!(pairs(&[a, b, c]).len(), 0);
    // The same addresses come first.
    let [a, b] = both();
    let [c, _] = both();
    let found = pairs(&[a, b, Sight { point: 2, ..c }]);
    assert_eq!(found.len(), 1);
    assert_eq!((found[0].is_translated, found[0].client_flow.max(found[0].server_flow)), (false, 2));
}
