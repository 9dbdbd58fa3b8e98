//! [`Gatherer`]: asks running instances, for a process that may not.

use std::io::{ErrorKind, Read, Write};
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};

use io::Clock;
use run::{Answer, Found, Question, Snapshot};
use serde::{Deserialize, Serialize};
use units::{Duration, Instant};

use crate::TelemetryError;

/// An answer is given again to whoever asks within this time: so often an accelerator is asked at most, whoever
/// asks and how often.
const FRESH_FOR: Duration = Duration::from_millis(500);

/// Longest time an instance has to answer.
const PATIENCE: std::time::Duration = std::time::Duration::from_secs(3);

/// Answer of an instance.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Answered {
    /// Its name, or what it was asked for by.
    pub name: String,
    /// Its metrics; none when it is not there, or does not answer.
    pub snapshot: Option<Snapshot>,
}

/// Asks the instances below a directory.
#[derive(Debug)]
pub struct Gatherer {
    directory: PathBuf,
    /// Those that are wanted; all that run if none is named.
    names: Vec<String>,
    last: Option<(Instant, Vec<u8>)>,
}

impl Gatherer {
    /// One for the instances that are called by `names`, or all.
    #[must_use]
    pub fn new(directory: &Path, names: Vec<String>) -> Self {
        Self { directory: directory.to_owned(), names, last: None }
    }

    /// Answers whoever is at the other end, until it has gone: a byte there, length (32 bits, big endian) and
    /// JSON back. That is all it may ask for.
    ///
    /// # Errors
    /// When the connection fails otherwise than by its end.
    pub fn answer(&mut self, mut asker: &UnixStream) -> Result<(), TelemetryError> {
        let mut question = [0];
        loop {
            match asker.read(&mut question) {
                Ok(0) => return Ok(()),
                Ok(_) => {}
                Err(error) if error.kind() == ErrorKind::Interrupted => continue,
                Err(error) => return Err(TelemetryError::doing("hear the server")(error)),
            }
            let answer = self.fresh();
            match asker.write_all(answer) {
                Err(error) if error.kind() == ErrorKind::BrokenPipe => return Ok(()),
                result => result.map_err(TelemetryError::doing("answer the server"))?,
            }
        }
    }

    /// The answer, with its length in front.
    fn fresh(&mut self) -> &[u8] {
        let now = Clock::now();
        let is_fresh = self.last.as_ref().is_some_and(|(at, _)| now.saturating_since(*at) < FRESH_FOR);
        if !is_fresh {
            let json = serde_json::to_vec(&self.ask()).unwrap_or_else(|_| b"[]".to_vec());
            let mut answer = u32::try_from(json.len()).unwrap_or(0).to_be_bytes().to_vec();
            answer.extend(json);
            self.last = Some((Clock::now(), answer));
        }
        self.last.as_ref().map_or(&[], |(_, answer)| answer)
    }

    fn wanted(&self) -> impl Iterator<Item = Found> {
        // One that cannot be seen is as one that is not there.
        let running = run::find(&self.directory).unwrap_or_default();
        let is_wanted = move |found: &Found| {
            let is_meant = |own: &String| *own == found.name || *own == found.process.to_string();
            self.names.is_empty() || self.names.iter().any(is_meant)
        };
        running.into_iter().filter(is_wanted)
    }

    /// Asks all that are wanted.
    #[must_use]
    pub fn ask(&self) -> Vec<Answered> {
        let mut answers: Vec<Answered> = Vec::new();
        let mut processes = Vec::new();
        for found in self.wanted() {
            let snapshot = match found.ask_within(&Question::Metrics, PATIENCE) {
                Ok(Answer::Metrics(snapshot)) => Some(*snapshot),
                // It hangs, is ending, or is of another version.
                _ => None,
            };
            processes.push(found.process.to_string());
            add(&mut answers, Answered { name: found.name, snapshot });
        }
        for name in &self.names {
            let is_there = processes.contains(name) || answers.iter().any(|answer| answer.name == *name);
            if !is_there {
                answers.push(Answered { name: name.clone(), snapshot: None });
            }
        }
        answers.sort_by(|a, b| a.name.cmp(&b.name));
        answers
    }
}

/// Adds an answer. While one takes another one's place two have the same name: the one that goes on counts.
fn add(answers: &mut Vec<Answered>, new: Answered) {
    let Some(old) = answers.iter_mut().find(|old| old.name == new.name) else { return answers.push(new) };
    let rank = |answer: &Answered| {
        answer.snapshot.as_ref().map(|it| (!it.is_draining, std::cmp::Reverse(it.uptime_ms)))
    };
    if rank(&new) > rank(old) {
        *old = new;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn of_two_with_one_name_the_one_counts_that_goes_on() {
        let of = |is_draining, uptime_ms| Answered {
            name: "radio".to_owned(),
            snapshot: Some(Snapshot { is_draining, uptime_ms, ..Snapshot::default() }),
        };
        let silent = Answered { name: "radio".to_owned(), snapshot: None };
        for (first, second, wanted) in [
            (of(true, 5), of(false, 9), of(false, 9)),
            (of(false, 9), of(true, 5), of(false, 9)),
            (of(false, 9), of(false, 5), of(false, 5)),
            (silent.clone(), of(true, 9), of(true, 9)),
            (of(true, 9), silent.clone(), of(true, 9)),
        ] {
            let mut answers = Vec::new();
            add(&mut answers, first);
            add(&mut answers, second);
            assert_eq!(answers, [wanted]);
        }
    }

    #[test]
    fn who_asks_often_gets_the_same_answer_and_who_goes_ends_it() {
        let directory = tempfile::tempdir().unwrap();
        let mut gatherer = Gatherer::new(directory.path(), vec!["radio".to_owned()]);
        assert_eq!(gatherer.ask(), [Answered { name: "radio".to_owned(), snapshot: None }]);
        let (mut asker, other) = UnixStream::pair().unwrap();
        let thread = std::thread::spawn(move || gatherer.answer(&other).map(|()| gatherer.last.unwrap().0));
        let began = Clock::now();
        for _ in 0..50 {
            asker.write_all(&[1]).unwrap();
            let mut len = [0; 4];
            asker.read_exact(&mut len).unwrap();
            let mut json = vec![0; u32::from_be_bytes(len) as usize];
            asker.read_exact(&mut json).unwrap();
            let answers: Vec<Answered> = serde_json::from_slice(&json).unwrap();
            assert_eq!((answers[0].name.as_str(), answers.len()), ("radio", 1));
        }
        let is_quick = Clock::now().saturating_since(began) < FRESH_FOR;
        drop(asker);
        let asked_at = thread.join().unwrap().unwrap();
        assert!(!is_quick || asked_at.saturating_since(began) < FRESH_FOR, "asked once in that time");
    }
}
