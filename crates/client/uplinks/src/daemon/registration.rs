//! [`Registration`]: what others find of this daemon, and what its end has to undo.

use io::Instance;

use super::Ended;
use crate::UplinkError;
use crate::guard::Guard;
use crate::record::Record;

/// The daemon's instance with what it has changed, and who undoes that after a kill.
pub(super) struct Registration {
    pub instance: Option<Instance>,
    pub record: Record,
    pub guard: Option<Guard>,
}

impl Registration {
    /// Writes the record down.
    pub fn write(&self) -> Result<(), UplinkError> {
        match &self.instance {
            Some(instance) => Ok(instance.record(&self.record.to_text())?),
            None => Ok(()),
        }
    }

    /// Undoes what is in the record.
    pub fn finish(mut self) -> Ended {
        let undone = self.record.undo(false);
        let (instance, guard) = (self.instance, self.guard);
        if undone.in_use.is_empty() {
            drop(instance);
            if let Some(guard) = guard {
                guard.finish();
            }
        } else if let Some(instance) = instance {
            // The guard removes them, and the directory, when their subflows have ended.
            let _ = instance.record(&self.record.to_text());
            std::mem::forget(instance);
        }
        Ended { signal: 0, in_use: undone.in_use, problems: undone.problems }
    }
}
