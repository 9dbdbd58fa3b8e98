//! [`longest_packet`]: what comes through of a path whose MTU is below the packets of a measurement.

use io::IoError;
use probe::{DATA_LEN, Direction, Pattern, RunLog};
use units::{Bytes, Duration, Rate};

use crate::error::MeasureError;
use crate::session::{Session, Watcher};

/// Packets of each length, and for how long.
const PACKETS: u64 = 10;
const TIME: Duration = Duration::from_millis(100);

/// True when packets were sent, and none came.
pub(crate) fn is_blocked(log: &RunLog) -> bool {
    log.summary.sent > 0 && log.summary.received == 0 && log.arrivals.is_empty()
}

/// The longest IP packet that comes through, where those of `packet` bytes do not and small ones do; none where the
/// session ended before that was known.
///
/// # Errors
/// Of the system only.
pub(crate) fn longest_packet(
    session: &mut Session<'_>,
    direction: Direction,
    packet: u16,
    watcher: &mut dyn Watcher,
) -> Result<(Option<u16>, Option<MeasureError>), IoError> {
    watcher.say(&format!("{}: looking for the longest packet that comes through", direction.name()));
    let (mut passes, mut fails) = (DATA_LEN as u16 + session.overhead(), packet);
    while fails > passes + 1 {
        let middle = passes + (fails - passes) / 2;
        let rate = Rate::from_transfer(Bytes::new(u64::from(middle) * PACKETS), TIME);
        let spec = session.load_spec(direction, Pattern::Steady, rate, middle, TIME);
        let (mut logs, failure) = session.run(&[spec], watcher)?;
        if failure.is_some() {
            return Ok((None, failure));
        }
        match logs.pop().flatten() {
            Some(log) if !is_blocked(&log) => passes = middle,
            _ => fails = middle,
        }
    }
    Ok((Some(passes), None))
}
