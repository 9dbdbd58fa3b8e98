//! [`Experiment`]: one table or figure of a paper, and the list of all.

use std::path::Path;

use crate::{Context, Outcome, Prose, ReproduceError, Where, dr, ev, ma, mp, wa};

/// A paper, by the key that `docs/references.md` gives it.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub enum Paper {
    /// Mobile Accelerator.
    Ma,
    /// TCP over HSDPA with a window adaptation proxy.
    Wa,
    /// Multi-path TCP over cellular networks.
    Mp,
    /// Mobile TCP Evaluation.
    Ev,
    /// Dynamic receive window adjustment.
    Dr,
}

impl Paper {
    /// The key, as in `[MA]`.
    #[must_use]
    pub const fn key(self) -> &'static str {
        match self {
            Self::Ma => "MA",
            Self::Wa => "WA",
            Self::Mp => "MP",
            Self::Ev => "EV",
            Self::Dr => "DR",
        }
    }

    /// Authors and title.
    #[must_use]
    pub const fn title(self) -> &'static str {
        match self {
            Self::Ma => "Liu and Lee, Mobile Accelerator",
            Self::Wa => "Ren et al., Improving TCP Throughput over HSDPA Networks",
            Self::Mp => "Chen et al., Characterizing Multi-Path TCP over Cellular Networks",
            Self::Ev => "Ayerdi et al., Mobile TCP Evaluation",
            Self::Dr => "Jiang et al., Tackling Bufferbloat in 3G/4G Networks",
        }
    }
}

/// A file of `experiments/` that is built in.
#[derive(Clone, Copy, Debug)]
pub struct BuiltIn {
    /// Path in the repository.
    pub path: &'static str,
    /// Text of the file.
    pub text: &'static str,
}

/// The [`BuiltIn`] file at this path below `experiments/`.
macro_rules! built_in {
    ($path:literal) => {
        $crate::BuiltIn {
            path: concat!("experiments/", $path),
            text: include_str!(concat!(env!("CARGO_MANIFEST_DIR"), "/../../../experiments/", $path)),
        }
    };
}
pub(crate) use built_in;

/// State of an experiment in the lab.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum InLab {
    /// Kernel TCP runs it, in this number of seconds on a machine that has Reno, CUBIC and BBR only.
    Takes(u32),
    /// It is the simulator's alone; its text says why.
    Lacks,
}

impl InLab {
    /// Duration; none where it is not there.
    #[must_use]
    pub const fn seconds(self) -> Option<u32> {
        match self {
            Self::Takes(seconds) => Some(seconds),
            Self::Lacks => None,
        }
    }
}

/// One table or figure of a paper.
#[derive(Clone, Copy, Debug)]
pub struct Experiment {
    /// Its name on the command line: the paper's key and what it is, as in `ma-table-3`.
    pub name: &'static str,
    /// The paper.
    pub paper: Paper,
    /// Part of the paper, as in `Table 3`.
    pub part: &'static str,
    /// Texts about it: [`Prose`].
    pub prose: BuiltIn,
    /// Its scenario files.
    pub files: &'static [BuiltIn],
    /// Duration in virtual time, on two processors, in seconds.
    pub seconds: u32,
    /// Duration in the lab, or what is missing there.
    pub lab: InLab,
    /// Runs it.
    pub run: fn(&mut Context<'_>) -> Result<Outcome, ReproduceError>,
}

impl Experiment {
    /// Texts about it.
    ///
    /// # Errors
    /// Its text is not written as it must be; the line says where.
    pub fn prose(&self) -> Result<Prose, ReproduceError> {
        Prose::parse(self.prose.text).map_err(|problem| self.prose_error(&problem))
    }

    /// Builds the experiment, in the lab or in virtual time, and runs nothing: its files can be read,
    /// and its text has a place for each of its facts and a fact for each place.
    ///
    /// # Errors
    /// It is not so, or a scenario file lacks a case.
    pub fn check(&'static self, folder: Option<&Path>, is_lab: bool) -> Result<(), ReproduceError> {
        let context = Context::new(self, Where::Nowhere { is_lab }, folder, &|_| {});
        let (outcome, _) = context.outcome()?;
        self.prose()?.check(&outcome).map_err(|problem| self.prose_error(&problem))
    }

    /// An error about its text.
    pub(crate) fn prose_error(&self, problem: &dyn core::fmt::Display) -> ReproduceError {
        ReproduceError::meaning(self.prose.path, problem)
    }
}

/// All experiments, paper by paper.
#[must_use]
pub fn all() -> Vec<&'static Experiment> {
    [ma::EXPERIMENTS, wa::EXPERIMENTS, mp::EXPERIMENTS, ev::EXPERIMENTS, dr::EXPERIMENTS]
        .into_iter()
        .flatten()
        .copied()
        .collect()
}

/// The experiments of these names, in their own order; a paper's key (`ma`) means all of it.
///
/// # Errors
/// There is none of that name; the message lists those there are.
pub fn chosen(names: &[String]) -> Result<Vec<&'static Experiment>, ReproduceError> {
    let all = all();
    let means = |name: &str, e: &Experiment| e.name == name || e.paper.key().eq_ignore_ascii_case(name);
    for name in names {
        if !all.iter().any(|e| means(name, e)) {
            let names = all.iter().map(|e| e.name).collect::<Vec<_>>().join(", ");
            return Err(ReproduceError::Unknown { name: name.clone(), names });
        }
    }
    Ok(all.into_iter().filter(|e| names.iter().any(|name| means(name, e))).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_unique_and_name_their_paper() {
        let all = all();
        for (i, experiment) in all.iter().enumerate() {
            let name = experiment.name;
            assert!(all[..i].iter().all(|earlier| earlier.name != name), "{name}");
            let key = experiment.paper.key().to_lowercase();
            assert!(name.starts_with(&format!("{key}-")), "{name}");
            assert!(!experiment.files.is_empty(), "{name}");
            let prose = experiment.prose().unwrap();
            assert!(prose.asked.ends_with('?') && prose.found.ends_with('.'), "{name}");
            assert_eq!(prose.not_in_lab.is_none(), experiment.lab.seconds().is_some(), "{name}");
            let path = format!("experiments/{key}/{}.md", &name[key.len() + 1..]);
            assert_eq!(experiment.prose.path, path);
        }
    }

    #[test]
    fn every_experiment_can_be_built() {
        for experiment in all() {
            experiment.check(None, false).unwrap();
            if experiment.lab.seconds().is_some() {
                experiment.check(None, true).unwrap();
            }
        }
    }

    #[test]
    fn every_scenario_file_can_be_read_and_its_links_made() {
        for file in all().iter().flat_map(|e| e.files) {
            let scenario = scenario::Scenario::from_toml(file.path, file.text).unwrap();
            for case in scenario.resolved() {
                case.links(1, &mut |name| Err(format!("{name}: no trace files here"))).unwrap();
            }
        }
    }

    #[test]
    fn an_unknown_name_is_answered_with_all_names() {
        let message = chosen(&["ma-table-99".to_owned()]).unwrap_err().to_string();
        assert!(message.contains("`ma-table-99`"), "{message}");
        assert!(all().iter().all(|e| message.contains(e.name)), "{message}");
        let ma = chosen(&["MA".to_owned()]).unwrap();
        assert!(!ma.is_empty() && ma.iter().all(|e| e.paper == Paper::Ma));
    }
}
