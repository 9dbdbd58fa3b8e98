//! [`examine`]: what this machine can do as an accelerator, what it lacks, what that means, and which command
//! mends it. Nothing is changed.
//!
//! ```text
//!   kernel, /proc, netlink ── machine.rs ──▶ Machine ── diagnosis.rs ──▶ Diagnosis
//! ```

use io::IoError;
use serde::{Deserialize, Serialize};

mod diagnosis;
mod interface;
mod kernel;
mod machine;

/// Findings of a diagnosis: what a machine can do as an accelerator, and what it lacks.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Diagnosis {
    /// Version of this program.
    pub version: String,
    /// Release of the running kernel.
    pub kernel: String,
    /// The interfaces that were looked at, as named.
    pub interfaces: Vec<String>,
    /// The worst of all findings, without what is not known.
    pub verdict: Health,
    /// One for each thing that was looked at.
    pub findings: Vec<Finding>,
}

/// One thing that was looked at. Texts are empty where there is nothing to say.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Finding {
    /// Subject of the look.
    pub subject: String,
    /// Verdict on it.
    pub health: Health,
    /// State that was found.
    pub found: String,
    /// Meaning of that state for the user.
    pub means: String,
    /// A command or a step that mends it.
    pub mend: String,
}

/// A finding of texts: what there is, what that means, what mends it.
fn finding(subject: &str, health: Health, [found, means, mend]: [&str; 3]) -> Finding {
    let [found, means, mend] = [found, means, mend].map(str::to_owned);
    Finding { subject: subject.to_owned(), health, found, means, mend }
}

/// Verdict on a finding, for an accelerator.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "lowercase")]
pub enum Health {
    /// Nothing is lacking.
    Good,
    /// It works, with less.
    Limited,
    /// `cellerator run` cannot work like this.
    Missing,
    /// This user cannot find out.
    Unknown,
}

impl Health {
    /// The word for it.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Good => "good",
            Self::Limited => "limited",
            Self::Missing => "missing",
            Self::Unknown => "unknown",
        }
    }
}

/// Looks at this machine and at `interfaces`, in the calling thread's network namespace. If there are two, the
/// first one leads to the servers, as `--wired`.
///
/// # Errors
/// When the kernel does not even tell its version, or does not answer.
pub fn examine(interfaces: &[String]) -> Result<Diagnosis, IoError> {
    let machine = machine::Machine::read(interfaces)?;
    Ok(diagnosis::of(&machine))
}
