//! [`Local`]: the accelerators of this machine.

use std::path::{Path, PathBuf};
use std::time::Duration;

use run::{Answer, Found, Question};

use crate::{Ask, Reply, Source, TopError};

/// Longest time an accelerator has to answer.
const PATIENCE: Duration = Duration::from_secs(3);

/// Asks through the control sockets below a directory.
#[derive(Debug)]
pub struct Local {
    directory: PathBuf,
    /// Those that may be asked; all if none is named.
    names: Vec<String>,
}

impl Local {
    /// One for the accelerators that are called by `names`, or all.
    #[must_use]
    pub fn new(directory: &Path, names: Vec<String>) -> Self {
        Self { directory: directory.to_owned(), names }
    }

    fn running(&self) -> Result<Vec<Found>, TopError> {
        let all = run::find(&self.directory).map_err(|error| TopError::Accelerator(error.to_string()))?;
        let is_meant = |found: &Found| {
            self.names.is_empty()
                || self.names.iter().any(|name| *name == found.name || *name == found.process.to_string())
        };
        Ok(all.into_iter().filter(is_meant).collect())
    }
}

impl Source for Local {
    fn ask(&mut self, question: &Ask) -> Result<Reply, TopError> {
        let running = self.running()?;
        let (name, question) = match question {
            Ask::Names => {
                let mut names: Vec<String> = running.into_iter().map(|found| found.name).collect();
                names.sort();
                names.dedup();
                return Ok(Reply::Names(names));
            }
            Ask::Metrics { name } => (name, Question::Metrics),
            Ask::Subscribers { name, from } => (name, Question::Subscribers { from: *from }),
            Ask::Subscriber { name, client, from } => {
                (name, Question::Subscriber { client: *client, from: *from })
            }
            Ask::Ab { name } => (name, Question::Ab),
        };
        // While one takes another one's place two have the same name: the younger one goes on.
        let Some(found) = running.iter().rfind(|found| found.name == *name) else {
            return Ok(Reply::Refused(format!("'{name}' does not run")));
        };
        Ok(match found.ask_within(&question, PATIENCE) {
            Ok(Answer::Metrics(snapshot)) => Reply::Metrics(snapshot),
            Ok(Answer::Subscribers(list)) => Reply::Subscribers(list),
            Ok(Answer::Subscriber(view)) => Reply::Subscriber(view),
            Ok(Answer::Ab(report)) => Reply::Ab(report),
            Ok(Answer::Refused(why)) if why.starts_with("the question is not understood") => {
                Reply::Refused(format!("'{name}' is of another version than this program"))
            }
            Ok(Answer::Refused(why)) => Reply::Refused(format!("'{name}': {why}")),
            Ok(_) => Reply::Refused(format!("'{name}' is of another version than this program")),
            Err(error) => Reply::Refused(error.to_string()),
        })
    }
}
