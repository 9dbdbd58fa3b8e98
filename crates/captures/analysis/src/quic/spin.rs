//! [`Spin`]: round trips by the spin bit (RFC 9000 §17.4, RFC 9312 §3.8.2).
//!
//! The server sends back the value it got last, the client the opposite. So a path that spins goes through four states
//! (client's value, server's value), one after the other, and each change has a cause that was seen before it:
//!
//! ```text
//!   (0,0) -- client's edge --> (1,0) -- server's edge --> (1,1) -- client's --> (0,1) -- server's --> (0,0)
//! ```
//!
//! A change without its cause is no edge but a late packet, or no spinning: packet numbers are encrypted, so nothing
//! else tells. Changes that follow an edge within a quarter of a round trip are late packets, too. If more packets are
//! refused so than reordering explains, the values are random: one of sixteen paths at least must not spin, and
//! such ends should choose their values at random (RFC 9000 §17.4).
//!
//! An edge is seen with the next packet of its direction. So a round trip counts only if packets came densely in it and
//! before it; those of a sparse flow would be its pauses.

use serde::Serialize;
use units::{Duration, Instant};

use crate::direction::{Direction, PerDirection};
use crate::samples::Samples;

/// 1-RTT packets of both directions from which on something is said.
const PACKETS_MIN: u64 = 16;
/// Those of one direction with one value from which on it is called constant.
const CONSTANT_MIN: u64 = 8;
/// Number of packets with one refused change from which it is more than reordering.
const REFUSED_SHARE: u64 = 10;
/// Part of a round trip in which changes are late packets, and that may lie between two packets.
const PART: u64 = 4;
/// Round trips in which a value that spins would have changed, and the round trip taken if none is known.
const CONSTANT_TRIPS: u64 = 4;
const ROUND_TRIP: Duration = Duration::from_millis(250);
/// Round trips that make a path one that spins.
const SAMPLES_MIN: u64 = 2;

/// Nature of the spin bits of a QUIC flow.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema), schemars(inline))]
#[serde(rename_all = "snake_case")]
pub enum SpinState {
    /// They change once in a round trip, each time with a cause.
    Spinning,
    /// Not spinning: one direction has always the same value.
    Constant,
    /// Not spinning: they change without a cause, as values greased per packet do.
    Random,
    /// Too few 1-RTT packets, or too sparse ones.
    Unclear,
}

#[derive(Clone, Debug, Default)]
struct Way {
    packets: u64,
    value: Option<bool>,
    edges: u64,
    /// Changes that were no edges.
    refused: u64,
    edge: Option<Instant>,
    /// The packet before the last edge was near enough.
    was_exact: bool,
    first: Instant,
    previous: Instant,
    /// Longest time between two packets since the last edge.
    gap_max: Duration,
    round_trips: Samples<Duration>,
    /// From the other direction's edge to this one's.
    halves: Samples<Duration>,
}

/// The spin bits of a flow.
#[derive(Clone, Debug, Default)]
pub(crate) struct Spin {
    ways: PerDirection<Way>,
    /// Direction and time of the last edge.
    last: Option<(Direction, Instant)>,
    /// Edges since the last one that was not the other direction's turn.
    in_turn: u32,
    /// Shortest round trip so far, and that of the handshake.
    shortest: Option<Duration>,
    handshake: Option<Duration>,
}

impl Spin {
    /// A 1-RTT packet; `handshake` is the round trip of the handshake, and `client` the direction of what the client
    /// sends.
    pub(crate) fn on_packet(
        &mut self,
        direction: Direction,
        bit: bool,
        now: Instant,
        handshake: Option<Duration>,
        client: Option<Direction>,
    ) {
        let other = self.ways[direction.reverse()].value;
        self.handshake = handshake;
        let reference = self.round_trip();
        let way = &mut self.ways[direction];
        way.packets += 1;
        let gap = now.saturating_since(way.previous);
        way.previous = way.previous.max(now);
        let Some(value) = way.value else {
            (way.value, way.first) = (Some(bit), now);
            return;
        };
        way.gap_max = way.gap_max.max(gap);
        if value == bit {
            return;
        }
        let is_late = way.edge.zip(reference).is_some_and(|(edge, r)| now.saturating_since(edge) * PART < r);
        // The client turns the server's value round, the server returns the client's.
        let has_cause = match (client, other) {
            (Some(client), Some(other)) => (direction == client) != (other == bit),
            _ => true,
        };
        if is_late || !has_cause {
            way.refused += 1;
            return;
        }
        self.on_edge(direction, bit, now, gap);
    }

    /// The shortest one known.
    fn round_trip(&self) -> Option<Duration> {
        self.shortest.into_iter().chain(self.handshake).min()
    }

    fn on_edge(&mut self, direction: Direction, bit: bool, now: Instant, gap: Duration) {
        let is_one_way = self.ways[direction.reverse()].packets == 0;
        let way = &mut self.ways[direction];
        way.value = Some(bit);
        way.edges += 1;
        let interval = way.edge.replace(now).map(|edge| now.saturating_since(edge));
        let is_within = |gap: Duration| interval.is_some_and(|interval| gap * PART <= interval);
        let (is_exact, is_dense) = (is_within(gap), is_within(std::mem::take(&mut way.gap_max)));
        let was_exact = std::mem::replace(&mut way.was_exact, is_exact);
        let before = self.last.replace((direction, now));
        let is_in_turn = before.is_none_or(|(last, _)| last != direction);
        self.in_turn = if is_in_turn { self.in_turn.saturating_add(1) } else { 0 };
        if !is_dense || !(is_one_way || is_in_turn) {
            return;
        }
        if let Some((_, cause)) = before.filter(|_| !is_one_way) {
            way.halves.record(now.saturating_since(cause));
        }
        if let Some(interval) = interval.filter(|_| was_exact && (is_one_way || self.in_turn > 2)) {
            way.round_trips.record(interval);
            self.shortest = Some(self.shortest.map_or(interval, |shortest| shortest.min(interval)));
        }
    }

    /// Nature of the bits.
    pub(crate) fn state(&self) -> SpinState {
        let seen = || self.ways.iter().filter(|way| way.packets > 0);
        let sum = |of: fn(&Way) -> u64| seen().map(of).sum::<u64>();
        let packets = sum(|way| way.packets);
        if packets < PACKETS_MIN {
            return SpinState::Unclear;
        }
        let long = self.round_trip().unwrap_or(ROUND_TRIP) * CONSTANT_TRIPS;
        let is_constant = |way: &Way| {
            let lasted = way.previous.saturating_since(way.first);
            way.packets >= CONSTANT_MIN && way.edges + way.refused == 0 && lasted >= long
        };
        if seen().any(is_constant) {
            return SpinState::Constant;
        }
        if sum(|way| way.refused) * REFUSED_SHARE > packets {
            return SpinState::Random;
        }
        match sum(|way| way.round_trips.count()) >= SAMPLES_MIN {
            true => SpinState::Spinning,
            false => SpinState::Unclear,
        }
    }

    /// 1-RTT packets looked at.
    pub(crate) fn packets(&self) -> u64 {
        self.ways.iter().map(|way| way.packets).sum()
    }

    /// Edges, in both directions.
    pub(crate) fn edges(&self) -> u64 {
        self.ways.iter().map(|way| way.edges).sum()
    }

    /// Changes that were no edges.
    pub(crate) fn refused(&self) -> u64 {
        self.ways.iter().map(|way| way.refused).sum()
    }

    /// Round trips seen in the direction with more of them: both have the same ones, some time apart.
    pub(crate) fn round_trips(&self) -> &Samples<Duration> {
        let [first, second] = self.ways.as_array();
        let more = if second.round_trips.count() > first.round_trips.count() { second } else { first };
        &more.round_trips
    }

    /// Times from an edge of the other direction to that of `direction`: the part of the round trip between the capture
    /// point and this direction's sender.
    pub(crate) fn half(&self, direction: Direction) -> &Samples<Duration> {
        &self.ways[direction].halves
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const CLIENT: Direction = Direction::FromFirst;
    const SERVER: Direction = Direction::FromSecond;

    /// A small generator: values do not matter, only that they are not in step with anything.
    struct Random(u64);

    impl Random {
        fn next(&mut self) -> u64 {
            self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            self.0 >> 33
        }
    }

    /// A packet as the capture point sees it: microseconds, direction, bit.
    type Seen = (u64, Direction, bool);

    /// Two ends that each send a packet every `step_us`, 10 ms before and 20 ms behind the capture point.
    fn path(step_us: u64, total_us: u64, bit: impl Fn(Direction, bool, u64) -> bool) -> Vec<Seen> {
        let one_way = [10_000, 20_000];
        let mut seen = Vec::new();
        // What is under way to each end: when it arrives, and its bit.
        let mut coming: [std::collections::VecDeque<(u64, bool)>; 2] = Default::default();
        let mut got = [false, false];
        for now in (0..total_us).step_by(step_us as usize) {
            for end in [0, 1] {
                while let Some((_, value)) = coming[end].pop_front_if(|(at, _)| *at <= now) {
                    got[end] = value;
                }
                let direction = Direction::BOTH[end];
                let spun = if direction == CLIENT { !got[end] } else { got[end] };
                let value = bit(direction, spun, now);
                seen.push((now + one_way[end], direction, value));
                coming[1 - end].push_back((now + 30_000, value));
            }
        }
        seen.sort_by_key(|one| one.0);
        seen
    }

    fn follow(seen: &[Seen], handshake_ms: Option<u64>) -> Spin {
        let mut spin = Spin::default();
        for (us, direction, bit) in seen {
            let handshake = handshake_ms.map(Duration::from_millis);
            spin.on_packet(*direction, *bit, Instant::from_micros(*us), handshake, Some(CLIENT));
        }
        spin
    }

    fn median_ms(samples: &Samples<Duration>) -> f64 {
        samples.percentiles([50])[0].unwrap().as_millis_f64()
    }

    #[test]
    fn a_path_that_spins_shows_its_round_trip_and_both_halves() {
        let spin = follow(&path(500, 2_000_000, |_, spun, _| spun), Some(60));
        assert_eq!(spin.state(), SpinState::Spinning);
        assert!(spin.round_trips().count() > 25, "{}", spin.round_trips().count());
        assert!((median_ms(spin.round_trips()) - 60.0).abs() < 2.0);
        assert!((median_ms(spin.half(SERVER)) - 40.0).abs() < 2.0, "{}", median_ms(spin.half(SERVER)));
        assert!((median_ms(spin.half(CLIENT)) - 20.0).abs() < 2.0, "{}", median_ms(spin.half(CLIENT)));
        assert_eq!(spin.refused(), 0);
    }

    #[test]
    fn packets_out_of_order_make_no_round_trips() {
        // One in twenty is 3 ms late: every edge has packets with the old value behind it.
        let mut random = Random(7);
        let mut seen = path(500, 4_000_000, |_, spun, _| spun);
        for one in &mut seen {
            one.0 += if random.next().is_multiple_of(20) { 3_000 } else { 0 };
        }
        seen.sort_by_key(|one| one.0);
        for handshake in [Some(60), None] {
            let spin = follow(&seen, handshake);
            assert_eq!(spin.state(), SpinState::Spinning);
            let [low, high] = spin.round_trips().percentiles([1, 99]).map(|p| p.unwrap().as_millis_f64());
            assert!(low > 55.0 && high < 65.0, "{low} to {high}");
            assert!(spin.refused() > 10, "{}", spin.refused());
        }
    }

    #[test]
    fn constant_and_random_values_are_not_spinning() {
        let constant = path(500, 1_000_000, |direction, _, _| direction == CLIENT);
        assert_eq!(follow(&constant, Some(60)).state(), SpinState::Constant);
        // The client alone does not spin: the server returns what it gets.
        let client = path(500, 1_000_000, |direction, spun, _| direction == SERVER && spun);
        assert_eq!(follow(&client, Some(60)).state(), SpinState::Constant);
        let value = |now: u64, salt: u64| {
            let mut random = Random(now << 8 | salt);
            for _ in 0..3 {
                random = Random(random.next() << 17 | random.0 >> 40);
            }
            random.next() >> 9 & 1 == 1
        };
        for handshake in [Some(60), None] {
            let greased = |direction, _, now| value(now, u64::from(u8::from(direction)) + 1);
            assert_eq!(follow(&path(500, 1_000_000, greased), handshake).state(), SpinState::Random, "both");
            let server = |direction, spun, now| if direction == SERVER { value(now, 5) } else { spun };
            assert_eq!(follow(&path(500, 1_000_000, server), handshake).state(), SpinState::Random, "server");
            let client = |direction, spun, now| if direction == CLIENT { value(now, 6) } else { spun };
            assert_eq!(follow(&path(500, 1_000_000, client), handshake).state(), SpinState::Random, "client");
        }
    }

    #[test]
    fn sparse_and_few_packets_say_nothing() {
        // A packet in 400 ms: edges are as far apart as packets.
        let spin = follow(&path(400_000, 40_000_000, |_, spun, _| spun), Some(60));
        assert_eq!((spin.state(), spin.round_trips().count()), (SpinState::Unclear, 0));
        assert_eq!(follow(&path(500, 3_000, |_, spun, _| spun), Some(60)).state(), SpinState::Unclear);
    }

    #[test]
    fn one_direction_alone_shows_round_trips_without_halves() {
        let mut seen = path(500, 2_000_000, |_, spun, _| spun);
        seen.retain(|one| one.1 == SERVER);
        let spin = follow(&seen, None);
        assert_eq!(spin.state(), SpinState::Spinning);
        assert!((median_ms(spin.round_trips()) - 60.0).abs() < 2.0);
        assert_eq!(spin.half(SERVER).count() + spin.half(CLIENT).count(), 0);
    }

    #[test]
    fn a_pause_is_no_round_trip() {
        let seen = path(500, 6_000_000, |_, spun, _| spun);
        // Both ends are silent for two seconds of it.
        let seen: Vec<Seen> =
            seen.into_iter().filter(|one| !(2_000_000..4_000_000).contains(&one.0)).collect();
        let spin = follow(&seen, Some(60));
        assert_eq!(spin.state(), SpinState::Spinning);
        assert!(spin.round_trips().max().unwrap() < Duration::from_millis(65));
        // A pause that no edge follows at once: the first packets after it still have the old value.
        let late = path(500, 6_000_000, |_, spun, _| spun);
        let shifted =
            late.into_iter().map(|(us, way, bit)| (us + if us < 2_010_000 { 0 } else { 700_000 }, way, bit));
        let spin = follow(&shifted.collect::<Vec<_>>(), Some(60));
        assert_eq!(spin.state(), SpinState::Spinning);
        assert!(spin.round_trips().max().unwrap() < Duration::from_millis(65));
    }

    #[test]
    fn a_moment_is_not_constant() {
        let moment: Vec<Seen> = (0..100).map(|n| (n * 300, SERVER, true)).collect();
        assert_eq!(follow(&moment, None).state(), SpinState::Unclear);
        assert_eq!(follow(&moment, Some(60)).state(), SpinState::Unclear);
        assert_eq!(follow(&moment, Some(6)).state(), SpinState::Constant);
    }
}
