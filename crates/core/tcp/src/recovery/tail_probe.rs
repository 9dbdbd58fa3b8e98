//! Whether a tail loss probe repaired a loss that nothing else shows (RFC 8985 §7.4).
//!
//! ```text
//!   last segment again ──▶ Waits ── D-SACK of it, or a duplicate acknowledgement ──▶ both copies arrived: no loss
//!                            ├───── more than was sent then is acknowledged ───────▶ the probe repaired a loss
//!                            └───── a recovery begins, or a time-out ──────────────▶ told by that
//! ```
//!
//! A probe of new data repairs nothing. DEVIATION: where the fate of one probe is open, another may
//! be sent after progress (RFC 8985 §7.3: none while `TLP.end_seq` is set), or the second of two
//! short answers would wait for the time-out; the first one is judged. Shown by
//! `a_second_tail_is_probed_while_the_first_probe_is_open`.

use super::{Episode, Recovery};
use crate::interface::AckIn;
use crate::scoreboard::Scoreboard;

impl Recovery {
    /// A tail loss probe repeats `len` bytes (RFC 8985 §7.4.1).
    pub(crate) fn on_tail_again(&mut self, board: &Scoreboard, len: u32) {
        if matches!(self.episode, Episode::None) {
            let len = u16::try_from(len).unwrap_or(u16::MAX);
            self.episode = Episode::Probed { end: board.nxt(), len };
        }
    }

    /// The bytes that a tail loss probe has repaired, once an acknowledgement shows that (RFC 8985
    /// §7.4.2): `is_duplicate` when it brings no news at all, `has_d_sack` when its first block
    /// reports what came twice.
    pub(crate) fn judge_tail_probe(&mut self, ack: &AckIn<'_>, is_duplicate: bool, has_d_sack: bool) -> u32 {
        let Episode::Probed { end, len } = self.episode else { return 0 };
        if ack.ack.is_before(end) {
            return 0;
        }
        let names_it = ack.sack.iter().next().is_some_and(|block| block.end == end);
        let is_bare = is_duplicate && ack.sack.is_empty() && ack.ack == end;
        let came_twice = (has_d_sack && names_it) || is_bare;
        let is_passed = ack.ack.is_after(end);
        if came_twice || is_passed {
            self.episode = Episode::None;
        }
        if is_passed && !came_twice { u32::from(len) } else { 0 }
    }
}
