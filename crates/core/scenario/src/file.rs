//! [`Scenario`]: a scenario file, and the cases it means.

use serde::{Deserialize, Serialize};
use units::Duration;

use crate::beside::ENTRIES_MAX;
use crate::case::Case;
use crate::endpoints::{Accelerator, Client, Workload};
use crate::error::{Error, locate};
use crate::feedback::Feedback;
use crate::grid::Grid;
use crate::quantity::Quantity;
use crate::radio::{Radio, Wan};
use crate::server::Server;

/// A scenario file as written: one network and workload, and cases that change parts of it.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Scenario {
    /// Short name, for file names and instance names.
    pub name: String,
    /// One line for headings. Default: the name.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub title: Option<String>,
    /// Description of what it models and why, in sentences.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub description: Option<String>,
    /// Seed of everything random. Default: 1.
    #[serde(default = "one_seed")]
    pub seed: u64,
    /// Number of runs of each case, each with the next seed. Default: 1.
    #[serde(default = "one_time")]
    pub repetitions: u32,
    /// A case still running after this is ended and reported as cut short. Default: 120 s.
    #[serde(default = "two_minutes")]
    pub time_limit: Quantity<Duration>,
    /// The wired segment.
    #[serde(default)]
    pub wan: Wan,
    /// The radio link.
    #[serde(default)]
    pub radio: Radio,
    /// The base station's reports.
    #[serde(default)]
    pub feedback: Feedback,
    /// The device.
    #[serde(default)]
    pub client: Client,
    /// The origin server.
    #[serde(default)]
    pub server: Server,
    /// The accelerator.
    #[serde(default)]
    pub accelerator: Accelerator,
    /// Transfers to run.
    #[serde(default)]
    pub workload: Workload,
    /// The cases; none means one case named like the scenario.
    #[serde(default, rename = "case", skip_serializing_if = "Vec::is_empty")]
    pub cases: Vec<Case>,
    /// Values that every case is run with. Spent when the file is read: the cases are all of them then.
    #[serde(default, skip_serializing)]
    grid: Option<Grid>,
}

const fn one_seed() -> u64 {
    1
}
const fn one_time() -> u32 {
    1
}
const fn two_minutes() -> Quantity<Duration> {
    Quantity(Duration::from_secs(120))
}

impl Scenario {
    /// Reads a scenario from `text`; `file` is only named in messages.
    ///
    /// # Errors
    /// [`Error::File`] with file, line, the offending text and the values allowed.
    pub fn from_toml(file: &str, text: &str) -> Result<Self, Error> {
        let mut scenario: Self = toml::from_str(text).map_err(|e| locate(file, text, &e))?;
        if let Some(grid) = scenario.grid.take() {
            let cases = grid.over(&scenario.cases);
            scenario.cases = cases.map_err(|message| Error::Meaning { file: file.to_owned(), message })?;
        }
        scenario.check(file)?;
        Ok(scenario)
    }

    /// Checks what serde cannot see: names.
    fn check(&self, file: &str) -> Result<(), Error> {
        let refuse = |message: String| Err(Error::Meaning { file: file.to_owned(), message });
        if !is_plain_name(&self.name) {
            return refuse(format!(
                "name `{}` must be letters, digits, `-`, `_` or `.`, at most 40",
                self.name
            ));
        }
        for (i, case) in self.cases.iter().enumerate() {
            if case.name.trim().is_empty() {
                return refuse(format!("case {} has an empty name", i + 1));
            }
            if self.cases[..i].iter().any(|earlier| earlier.name == case.name) {
                return refuse(format!("two cases are named `{}`: give each its own name", case.name));
            }
        }
        let sections = self.cases.iter().map(|case| &case.workload).chain([&self.workload]);
        if sections.into_iter().any(|workload| workload.beside().len() > ENTRIES_MAX) {
            return refuse(format!("`workload.beside` has at most {ENTRIES_MAX} entries"));
        }
        if self.repetitions == 0 {
            return refuse("`repetitions` must be at least 1".to_owned());
        }
        Ok(())
    }

    /// The heading: title, or name.
    #[must_use]
    pub fn heading(&self) -> &str {
        self.title.as_deref().unwrap_or(&self.name)
    }

    /// Every case with the scenario's settings filled in where it says nothing.
    #[must_use]
    pub fn resolved(&self) -> Vec<Case> {
        let whole = Case { name: self.name.clone(), ..Case::default() };
        let cases = if self.cases.is_empty() { vec![whole] } else { self.cases.clone() };
        cases.into_iter().map(|case| self.resolve(&case)).collect()
    }

    /// The (resolved) cases to run: all, or the one called `only`.
    ///
    /// # Errors
    /// There is none of that name; the message lists those there are.
    pub fn chosen(&self, only: Option<&str>) -> Result<Vec<Case>, Error> {
        let mut cases = self.resolved();
        let names: Vec<String> = cases.iter().map(|c| format!("`{}`", c.name)).collect();
        cases.retain(|case| only.is_none_or(|only| case.name == only));
        match (cases.is_empty(), only) {
            (true, Some(only)) => Err(Error::NoCase { name: only.to_owned(), names: names.join(", ") }),
            _ => Ok(cases),
        }
    }

    fn resolve(&self, case: &Case) -> Case {
        let mut server = case.server.over(&self.server);
        // Said in every case, so that lab and simulator cannot have different ones.
        server.congestion_control.get_or_insert_default();
        Case {
            name: case.name.clone(),
            wan: case.wan.over(&self.wan),
            radio: case.radio.over(&self.radio),
            feedback: case.feedback.over(&self.feedback),
            client: case.client.over(&self.client),
            server,
            accelerator: case.accelerator.over(&self.accelerator),
            workload: case.workload.over(&self.workload),
        }
    }
}

fn is_plain_name(name: &str) -> bool {
    let plain = |c: char| c.is_ascii_alphanumeric() || matches!(c, '-' | '_' | '.');
    !name.is_empty() && name.len() <= 40 && !name.starts_with(['-', '.']) && name.chars().all(plain)
}

#[cfg(test)]
mod tests;
