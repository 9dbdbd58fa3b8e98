//! [`Patience`]: what the kernel refuses for the moment is tried again with the next heartbeat.

use crate::{Event, EventSink, RunError};

/// Requests of a heartbeat that failed and may succeed with the next one.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Patience {
    failed: u64,
}

impl Patience {
    /// The result, or none where it failed for the moment; the first time that is said.
    ///
    /// # Errors
    /// The failure, if it is permanent.
    pub fn with<T>(
        &mut self,
        result: Result<T, RunError>,
        events: &mut dyn EventSink,
    ) -> Result<Option<T>, RunError> {
        match result {
            Ok(value) => Ok(Some(value)),
            Err(RunError::Io(error)) if error.is_transient() => {
                if self.failed == 0 {
                    events.on_event(&Event::KernelRefused { error: error.to_string() });
                }
                self.failed += 1;
                Ok(None)
            }
            Err(error) => Err(error),
        }
    }

    /// Number of times that something failed for the moment.
    pub const fn failed(self) -> u64 {
        self.failed
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use io::IoError;

    fn failed(number: i32) -> Result<(), RunError> {
        Err(IoError::system("list rules", std::io::Error::from_raw_os_error(number)).into())
    }

    #[test]
    fn what_may_pass_is_counted_and_said_once_and_what_stays_ends() {
        const ENODEV: i32 = 19;
        const ENOBUFS: i32 = 105;
        let (mut patience, mut said) = (Patience::default(), Vec::new());
        let mut say = |event: &Event| said.push(event.line());
        assert_eq!(patience.with(Ok(7), &mut say).unwrap(), Some(7));
        for _ in 0..3 {
            assert_eq!(patience.with(failed(ENOBUFS), &mut say).unwrap(), None);
        }
        assert!(patience.with(failed(ENODEV), &mut say).is_err());
        let lost: Result<(), RunError> = Err(RunError::InterfaceLost("m0".to_owned()));
        assert!(patience.with(lost, &mut say).is_err());
        assert_eq!(patience.failed(), 3);
        assert!(said.len() == 1 && said[0].starts_with("warning: cannot list rules"), "{said:?}");
    }
}
