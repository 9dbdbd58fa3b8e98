//! [`Pauses`]: when both ends of a flow are silent, and the first answer after it.
//!
//! After a pause that is longer than a round trip nothing is under way. So the first packet after it begins a flowlet,
//! and the first packet of the other end answers it: the time between them is the part of the round trip behind the
//! capture point, at most (arXiv 2602.12732). It is longer by what the other end waits before it acknowledges
//! (`max_ack_delay`, 25 ms unless agreed otherwise: RFC 9000 §18.2), or works on a request. So the shortest times say
//! most.

use units::{Duration, Instant};

use crate::direction::{Direction, PerDirection};
use crate::samples::Samples;

/// Shortest silence of both ends that counts as a pause.
const PAUSE_MIN: Duration = Duration::from_millis(100);

/// The silences of a flow.
#[derive(Clone, Debug, Default)]
pub(crate) struct Pauses {
    last: Option<Instant>,
    pub(crate) count: u64,
    pub(crate) total: Duration,
    pub(crate) longest: Duration,
    /// End and time of the last pause, until the other end answers.
    unanswered: Option<(Direction, Instant)>,
    answers: PerDirection<Samples<Duration>>,
}

impl Pauses {
    /// A packet; `handshake` is the round trip of the handshake.
    pub(crate) fn on_packet(&mut self, direction: Direction, now: Instant, handshake: Option<Duration>) {
        let pause_min = PAUSE_MIN.max(handshake.unwrap_or(Duration::ZERO) * 2);
        let gap = self.last.map(|last| now.saturating_since(last)).unwrap_or(Duration::ZERO);
        // A clock that was set back makes no pause.
        self.last = self.last.max(Some(now));
        if gap >= pause_min {
            self.count += 1;
            self.total += gap;
            self.longest = self.longest.max(gap);
            self.unanswered = Some((direction, now));
            return;
        }
        if let Some((who, since)) = self.unanswered.filter(|(who, _)| *who != direction) {
            self.unanswered = None;
            let answer = now.saturating_since(since);
            // Later it is a matter of its own.
            if answer < pause_min {
                self.answers[who.reverse()].record(answer);
            }
        }
    }

    /// Times that the sender of `direction` took to answer the first packet after a pause, as seen at the
    /// capture point.
    pub(crate) fn answers(&self, direction: Direction) -> &Samples<Duration> {
        &self.answers[direction]
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use Direction::{FromFirst, FromSecond};

    fn follow(packets: &[(u64, Direction)], handshake_ms: Option<u64>) -> Pauses {
        let mut pauses = Pauses::default();
        for (ms, direction) in packets {
            let handshake = handshake_ms.map(Duration::from_millis);
            pauses.on_packet(*direction, Instant::from_millis(*ms), handshake);
        }
        pauses
    }

    #[test]
    fn the_first_answer_after_a_pause_is_half_a_round_trip() {
        let packets = [
            (0, FromFirst),
            (30, FromSecond),
            (50, FromFirst),
            (550, FromFirst),
            (551, FromFirst),
            (581, FromSecond),
            (582, FromSecond),
            (1_500, FromSecond),
            (1_507, FromFirst),
        ];
        let pauses = follow(&packets, Some(50));
        assert_eq!((pauses.count, pauses.total), (2, Duration::from_millis(500 + 918)));
        assert_eq!(pauses.longest, Duration::from_millis(918));
        assert_eq!(pauses.answers(FromSecond).max(), Some(Duration::from_millis(31)));
        assert_eq!(pauses.answers(FromFirst).max(), Some(Duration::from_millis(7)));
        assert_eq!((pauses.answers(FromSecond).count(), pauses.answers(FromFirst).count()), (1, 1));
    }

    #[test]
    fn on_a_long_path_a_pause_is_longer() {
        let packets = [(0, FromFirst), (300, FromSecond), (601, FromFirst), (901, FromSecond)];
        assert_eq!(follow(&packets, None).count, 3, "nothing is known of the path");
        let pauses = follow(&packets, Some(300));
        assert_eq!((pauses.count, pauses.answers(FromSecond).count()), (0, 0), "packets may be under way");
    }

    #[test]
    fn a_clock_that_is_set_back_makes_no_pause() {
        let packets = [(1_000, FromFirst), (200, FromSecond), (1_050, FromFirst)];
        assert_eq!(follow(&packets, None).count, 0);
    }

    #[test]
    fn what_comes_much_later_is_no_answer() {
        let mut packets = vec![(0, FromFirst), (500, FromFirst)];
        packets.extend((1..20).map(|n| (500 + n * 50, FromFirst)));
        packets.push((1_460, FromSecond));
        let pauses = follow(&packets, None);
        assert_eq!((pauses.count, pauses.answers(FromSecond).count()), (1, 0));
    }
}
