//! Runs with several radios that `cellerator lab multipath --json` has made before: hours of them need not be in one
//! go.

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;

use lab::radios::{MultiPathResult, MultiPathResults, MultiPathRun};
use scenario::MultiPath;

use crate::ReproduceError;

/// The runs of `scenario` in the result files of a folder. Each case must have as many as the scenario says.
///
/// # Errors
/// A file cannot be read, is of another scenario of this name, or runs are missing.
pub(crate) fn earlier_runs(folder: &Path, scenario: &MultiPath) -> Result<MultiPathResult, ReproduceError> {
    let failed = |file: &Path, problem: String| ReproduceError::meaning(file.display(), problem);
    let entries = fs::read_dir(folder).map_err(|error| failed(folder, error.to_string()))?;
    let mut files: Vec<_> = entries.flatten().map(|entry| entry.path()).collect();
    files.retain(|path| path.extension().is_some_and(|end| end == "json"));
    files.sort();
    let mut runs: BTreeMap<(usize, u32), MultiPathRun> = BTreeMap::new();
    for file in &files {
        let text = fs::read_to_string(file).map_err(|error| failed(file, error.to_string()))?;
        let read: MultiPathResults =
            serde_json::from_str(&text).map_err(|error| failed(file, format!("no such results: {error}")))?;
        for result in read.scenarios.into_iter().filter(|result| result.scenario.name == scenario.name) {
            // `--repetitions` is no part of what was run.
            let made_of = MultiPath { repetitions: scenario.repetitions, ..result.scenario };
            if made_of != *scenario {
                return Err(failed(file, format!("is not of the scenario `{}` as it is", scenario.name)));
            }
            for run in result.runs {
                if let Some(case) = scenario.cases.iter().position(|case| case.name == run.case) {
                    runs.insert((case, run.repetition), run);
                }
            }
        }
    }
    for (i, case) in scenario.cases.iter().enumerate() {
        let there = (1..=scenario.repetitions).filter(|n| runs.contains_key(&(i, *n))).count();
        if there < scenario.repetitions as usize {
            let problem = format!(
                "has {there} of {} runs of `{}`, case `{}`",
                scenario.repetitions, scenario.name, case.name
            );
            return Err(failed(folder, problem));
        }
    }
    runs.retain(|(_, repetition), _| *repetition <= scenario.repetitions);
    Ok(MultiPathResult { scenario: scenario.clone(), runs: runs.into_values().collect() })
}

#[cfg(test)]
mod tests {
    use super::*;

    const TEXT: &str = "name = 'a'\ntitle = 'A'\ntime = '5 s'\nrepetitions = 2\n[[radio]]\nname = 'wifi0'\n\
                        down = { rate = '10 Mbit/s' }\nup = { rate = '2 Mbit/s' }\n[[case]]\nname = 'k'\n";

    #[test]
    fn runs_of_several_files_are_put_together_and_what_is_missing_is_said() {
        let scenario = MultiPath::from_toml("a.toml", TEXT).unwrap();
        let folder = tempfile::tempdir().unwrap();
        let folder = folder.path();
        let write = |repetition: u32, scenario: &MultiPath| {
            let run = MultiPathRun { case: "k".to_owned(), repetition, ..MultiPathRun::default() };
            let result = MultiPathResult { scenario: scenario.clone(), runs: vec![run] };
            let results = MultiPathResults {
                schema: lab::radios::SCHEMA.to_owned(),
                made_by: Default::default(),
                scenarios: vec![result],
            };
            let text = serde_json::to_string(&results).unwrap();
            fs::write(folder.join(format!("{repetition}.json")), text).unwrap();
        };
        write(1, &scenario);
        let error = earlier_runs(folder, &scenario).unwrap_err().to_string();
        assert!(error.contains("1 of 2 runs"), "{error}");
        write(2, &scenario);
        let found = earlier_runs(folder, &scenario).unwrap();
        assert_eq!(found.runs.iter().map(|run| run.repetition).collect::<Vec<_>>(), [1, 2]);
        write(2, &MultiPath { seed: 9, ..scenario.clone() });
        let error = earlier_runs(folder, &scenario).unwrap_err().to_string();
        assert!(error.contains("is not of the scenario"), "{error}");
    }
}
