//! [`pause`]: a wait of a thread for nothing but time.

use io::{Clock, Waiter};
use units::Duration;

use crate::error::LabError;

/// Waits for `time`.
///
/// # Errors
/// When the system has no descriptors left.
pub fn pause(time: Duration) -> Result<(), LabError> {
    Waiter::new(Duration::ZERO)?.wait(Some(Clock::now() + time))?;
    Ok(())
}
