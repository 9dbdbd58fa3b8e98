//! [`LabRuns`]: the cases of a scenario with kernel TCP, one after the other.

use std::cell::RefCell;
use std::fs;
use std::path::{Path, PathBuf};

use lab::Progress;
use link::PacketRecord;
use scenario::results::CaseResult;
use scenario::{Case, Scenario};
use units::Instant;

use crate::seen::{Eyes, Looking};
use crate::{RadioLog, ReproduceError, Run, Seen};

/// Most repetitions of a run while the emulator is too late in it to be believed. What came out is no reason.
const REPEATS_MAX: u32 = 2;

impl Run {
    /// The lab's emulator was too late to believe the figures.
    fn is_late(&self) -> bool {
        self.result.figures.as_ref().is_some_and(|figures| !figures.timing.trustworthy)
    }
}

/// Means by which the cases of a scenario are run in the lab.
pub(crate) struct LabRuns<'a> {
    pub runner: &'a lab::Runner<'a>,
    /// Folder of trace files.
    pub traces: &'a Path,
    pub looking: Looking,
    /// Told of each run that has ended: how many have, of how many, and its case.
    pub tell: &'a dyn Fn(usize, usize, &str),
}

impl LabRuns<'_> {
    /// Runs what the lab has of `scenario`; the other cases are there as skipped.
    pub(crate) fn run(&self, experiment: &str, scenario: &Scenario) -> Result<Vec<Run>, ReproduceError> {
        let mut runs = Vec::new();
        let mut there = scenario.clone();
        there.cases.clear();
        for case in scenario.resolved() {
            match case.simulated_only() {
                Some(key) => {
                    runs.push(skipped(case, scenario.seed, format!("only the simulator has `{key}`")));
                }
                None => there.cases.push(case),
            }
        }
        if there.cases.is_empty() {
            return Ok(runs);
        }
        let captures = self.captures()?;
        let first = self.once(experiment, &there, captures.as_ref())?;
        for mut run in first {
            while run.is_late() && run.repeated < REPEATS_MAX {
                let mut once = there.clone();
                (once.seed, once.repetitions) = (run.result.seed, 1);
                once.cases = vec![run.result.settings.clone()];
                let Some(again) = self.once(experiment, &once, captures.as_ref())?.pop() else { break };
                let result = CaseResult { repetition: run.result.repetition, ..again.result };
                run = Run { result, repeated: run.repeated + 1, ..again };
            }
            runs.push(run);
        }
        Ok(runs)
    }

    /// Runs every case of `scenario` as often as it says.
    fn once(
        &self,
        experiment: &str,
        scenario: &Scenario,
        captures: Option<&PathBuf>,
    ) -> Result<Vec<Run>, ReproduceError> {
        let mut runs = Vec::new();
        let (traces, captures) = (self.traces.to_owned(), captures.cloned());
        let runner = lab::Runner { traces, captures: captures.clone(), ..self.runner.clone() };
        let of = scenario.cases.len() * scenario.repetitions as usize;
        let (radio, mut radios) = (RefCell::new(RadioLog::default()), Vec::new());
        let result = runner.run(scenario, None, &mut |progress| match progress {
            Progress::Radio(records) if self.looking.radio => {
                *radio.borrow_mut() = RadioLog::of(&from_start(records));
            }
            Progress::Ends(result) => {
                radios.push(radio.take());
                (self.tell)(radios.len(), of, &result.name);
            }
            _ => {}
        });
        let result = result.map_err(|error| ReproduceError::lab(experiment, &error))?;
        for (result, radio) in result.cases.into_iter().zip(radios) {
            let seen = match &captures {
                Some(folder) => self.look(folder, scenario, &result)?,
                None => Seen::default(),
            };
            runs.push(Run { result, radio, seen, repeated: 0 });
        }
        Ok(runs)
    }

    /// The folder for captures, emptied; none where nothing of them is looked at. It goes with the lab.
    fn captures(&self) -> Result<Option<PathBuf>, ReproduceError> {
        if !self.looking.flows && self.looking.packets_of.is_none() {
            return Ok(None);
        }
        let folder = self.runner.instance.directory().join("captures");
        fs::create_dir_all(&folder).map_err(|error| ReproduceError::file(&folder, error))?;
        Ok(Some(folder))
    }

    /// Observations from the captures of a run; they are removed.
    fn look(&self, folder: &Path, scenario: &Scenario, result: &CaseResult) -> Result<Seen, ReproduceError> {
        if result.figures.is_none() {
            return Ok(Seen::default());
        }
        let name = lab::run_name(scenario, &result.settings, result.repetition);
        let files = lab::Recording::in_folder(folder, &name);
        let mut eyes = Eyes::new(self.looking);
        for (path, is_at_client) in [(&files.server, false), (&files.client, true)] {
            eyes.read(path, is_at_client)?;
        }
        for path in [&files.server, &files.client, &files.truth] {
            fs::remove_file(path).map_err(|error| ReproduceError::file(path, error))?;
        }
        Ok(eyes.seen())
    }
}

/// The same packets, their times counted from the first: those of the lab count from the start of the
/// machine.
fn from_start(records: &[PacketRecord]) -> Vec<PacketRecord> {
    let first = records.iter().map(|record| record.arrival).min().unwrap_or_default();
    let moved = |at: Instant| Instant::ZERO + at.saturating_since(first);
    let record = |record: &PacketRecord| PacketRecord {
        arrival: moved(record.arrival),
        service_start: record.service_start.map(moved),
        departure: record.departure.map(moved),
        delivered: record.delivered.map(moved),
        ..*record
    };
    records.iter().map(record).collect()
}

/// A case that was not run, and why.
pub(crate) fn skipped(case: Case, seed: u64, why: String) -> Run {
    let result = CaseResult { skipped: Some(why), ..CaseResult::new(case, 1, seed) };
    Run { result, radio: RadioLog::default(), seen: Seen::default(), repeated: 0 }
}

#[cfg(test)]
mod tests {
    use super::*;
    use link::PacketId;
    use units::{Bytes, Duration};

    #[test]
    fn times_count_from_the_first_packet() {
        let record = |ms: u64| PacketRecord {
            id: PacketId(ms),
            size: Bytes::new(1_500),
            arrival: Instant::from_millis(ms),
            service_start: None,
            departure: Some(Instant::from_millis(ms) + Duration::from_millis(3)),
            delivered: None,
            failed_tries: 0,
            drop: None,
        };
        let moved = from_start(&[record(70_000), record(70_010)]);
        assert_eq!(moved[0].arrival, Instant::ZERO);
        assert_eq!(moved[1].departure, Some(Instant::from_millis(13)));
        assert!(from_start(&[]).is_empty());
    }
}
