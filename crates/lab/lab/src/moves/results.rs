//! Results of runs with moving subscribers.

use scenario::{Moves, Traffic};
use serde::{Deserialize, Serialize};

/// Width of a bin of delivered data, ms.
pub const BIN_MS: u64 = 100;

/// Results of one scenario.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct MovesResult {
    /// Scenario that was run.
    pub scenario: Moves,
    /// Case by case.
    pub runs: Vec<MovesRun>,
}

impl MovesResult {
    /// The run of a case.
    #[must_use]
    pub fn of(&self, case: &str) -> Option<&MovesRun> {
        self.runs.iter().find(|run| run.case == case)
    }
}

/// One run of a case.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub struct MovesRun {
    /// Case.
    pub case: String,
    /// Seed.
    pub seed: u64,
    /// Duration of the transfers, s.
    pub seconds: f64,
    /// Of each subscriber, those that move first.
    pub flows: Vec<FlowRun>,
    /// Every move, in order of time.
    pub moves: Vec<Move>,
    /// Bytes of packets on the wire between the boxes, from either.
    pub wire_bytes: [u64; 2],
    /// The emulator's lateness, 99th percentile, µs.
    pub late_p99_us: f64,
    /// Median of the same.
    pub late_p50_us: f64,
    /// Largest of the same.
    pub late_max_us: f64,
    /// Reason why the emulator's timing was too bad to believe the figures.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub distrusted: Option<String>,
}

/// Results of one subscriber's flow.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct FlowRun {
    /// Traffic of the flow.
    pub traffic: Traffic,
    /// It moves.
    pub moves: bool,
    /// Bytes that the receiving application got.
    pub bytes: u64,
    /// The same over the whole time, Mbit/s.
    pub goodput_mbps: f64,
    /// Each byte that came is the one that was sent.
    pub is_intact: bool,
    /// Nothing new has come in order since its last move: a host that only waits hears of no reset.
    pub is_stalled: bool,
    /// Resets that the subscriber sent or got over the radio.
    pub resets: u64,
    /// Bytes of payload that were given to the radio, in either direction.
    pub sent_bytes: u64,
    /// Those of them that it lost: in its queues, or because the subscriber was not there any more.
    pub lost_bytes: u64,
    /// Those that were sent again although the radio had not lost them.
    pub needless_bytes: u64,
    /// Packets that the radio lost because the subscriber was not there any more.
    pub stranded_packets: u64,
    /// Bytes that came in order at the receiving host, in bins of [`BIN_MS`].
    pub bins: Vec<u64>,
    /// Time at which each question was put, s, and the time until its answer, ms.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub answers: Vec<(f64, f64)>,
    /// Error of the flow.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub error: Option<String>,
}

/// A subscriber's move.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Move {
    /// Number of the flow.
    pub subscriber: usize,
    /// Traffic of the flow.
    pub traffic: Traffic,
    /// Time of the beginning, from the start of the transfers, s.
    pub at_s: f64,
    /// Duration of the hand-over between the boxes, as seen by the one that ordered it, ms; zero where there is none.
    pub took_ms: f64,
    /// Durations of the phases: A asked, A copied, and nobody had the flows, ms.
    pub phases_ms: [f64; 3],
    /// Flows that moved.
    pub flows: u64,
    /// Bytes that moved with them.
    pub bytes: u64,
    /// Bytes of theirs that the old box held, and that did not move.
    #[serde(default)]
    pub left_bytes: u64,
    /// The longest time around it without new data in order at the receiving host, ms. None of what pauses by itself.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub gap_ms: Option<f64>,
    /// Bytes of payload sent over the radio again, up to the next move, although the radio had not lost them.
    pub needless_bytes: u64,
    /// Reason why the box did not hand over; the subscriber stayed then.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub refused: Option<String>,
}

impl Move {
    /// It was not refused.
    #[must_use]
    pub fn has_moved(&self) -> bool {
        self.refused.is_none()
    }
}
