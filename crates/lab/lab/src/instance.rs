//! [`Instance`]: a lab's name and directory, and what other processes can know of it.

use std::fs;
use std::path::Path;

use io::{INSTANCE_DIRECTORY, Leftover, Namespace, ProcessId};
use serde::{Deserialize, Serialize};

use crate::LabError;
use crate::error::Context;
use crate::topology::{Network, Role};

const KIND: &str = "lab";

/// Record of a lab about itself.
#[derive(Clone, Debug, Serialize, Deserialize)]
struct Record {
    name: String,
    title: String,
    namespaces: Vec<String>,
}

/// This process's lab: at most one at a time. Its directory and record go when it is dropped.
#[derive(Debug)]
pub struct Instance {
    name: String,
    registered: io::Instance,
}

impl Instance {
    /// Takes the name `name` (by default `PID`) for a lab described by `title`, after cleaning up what killed
    /// labs left behind.
    ///
    /// # Errors
    /// When a running lab has that name, or the directory cannot be written.
    pub fn register(name: Option<&str>, title: &str) -> Result<Self, LabError> {
        io::features::require(io::features::Feature::Namespaces)?;
        io::features::require(io::features::Feature::Tun)?;
        clean()?;
        let name = name.map_or_else(|| std::process::id().to_string(), str::to_owned);
        let is_plain = |c: char| c.is_ascii_alphanumeric() || "-_.".contains(c);
        if name.is_empty() || name.len() > 40 || name.starts_with('.') || !name.chars().all(is_plain) {
            return Err(LabError::Which(format!(
                "the lab's name `{name}` must be letters, digits, `-`, `_` or `.`, at most 40"
            )));
        }
        if list()?.iter().any(|running| running.name() == name) {
            return Err(LabError::Which(format!("a lab named `{name}` is running: choose another --name")));
        }
        let registered = io::Instance::register(Path::new(INSTANCE_DIRECTORY), KIND)?;
        let further = crate::moves::HOSTS.map(|host| format!("cellab-{name}-{host}"));
        let mut namespaces = Role::ALL.map(|host| Network::namespace_name(&name, host)).to_vec();
        namespaces.extend(further);
        namespaces.sort();
        namespaces.dedup();
        let record = Record { namespaces, name: name.clone(), title: title.to_owned() };
        // Written before anything is made, so that a kill at any later moment leaves a trail.
        registered.record(&serde_json::to_string(&record).unwrap_or_default())?;
        Ok(Self { name, registered })
    }

    /// The lab's name.
    #[must_use]
    pub fn name(&self) -> &str {
        &self.name
    }

    /// A directory for files that go with the lab.
    #[must_use]
    pub fn directory(&self) -> &Path {
        self.registered.path()
    }
}

/// A lab that some process keeps running.
#[derive(Clone, Debug)]
pub struct Running {
    record: Record,
    owner: ProcessId,
}

impl Running {
    /// The lab's name.
    #[must_use]
    pub fn name(&self) -> &str {
        &self.record.name
    }

    /// Title of the scenario that it runs.
    #[must_use]
    pub fn title(&self) -> &str {
        &self.record.title
    }

    /// The number of the process that keeps it.
    #[must_use]
    pub fn pid(&self) -> u32 {
        self.owner.pid()
    }

    /// False when it has ended.
    #[must_use]
    pub fn is_running(&self) -> bool {
        self.owner.is_alive()
    }

    /// A host's namespace.
    ///
    /// # Errors
    /// When the lab has just ended.
    pub fn namespace(&self, host: Role) -> Result<Namespace, LabError> {
        Ok(Namespace::open(&Network::namespace_name(self.name(), host))?)
    }

    /// The running lab called `name`, or the only one.
    ///
    /// # Errors
    /// When there is none, or several and no name; the message lists them.
    pub fn find(name: Option<&str>) -> Result<Self, LabError> {
        let mut running = list()?;
        let names = running.iter().map(Running::name).collect::<Vec<_>>().join(", ");
        let which = |text: String| Err(LabError::Which(text));
        match name {
            _ if running.is_empty() => {
                which("no lab is running: start one with `cellerator lab up`".to_owned())
            }
            Some(name) => match running.into_iter().find(|lab| lab.name() == name) {
                Some(lab) => Ok(lab),
                None => which(format!("no lab is named `{name}`; running: {names}")),
            },
            None if running.len() > 1 => {
                which(format!("several labs are running, choose one with --name: {names}"))
            }
            None => Ok(running.remove(0)),
        }
    }
}

/// All running labs, in order of name.
///
/// # Errors
/// When the directory of instances cannot be read.
pub fn list() -> Result<Vec<Running>, LabError> {
    let base = Path::new(INSTANCE_DIRECTORY);
    if !base.exists() {
        return Ok(Vec::new());
    }
    let entries = fs::read_dir(base).doing(|| format!("list {}", base.display()))?;
    let paths = entries.flatten().map(|entry| entry.path());
    let mut running: Vec<Running> = paths.filter_map(|path| read(&path)).collect();
    running.sort_by(|a, b| a.name().cmp(b.name()));
    Ok(running)
}

/// The lab whose directory is `path`, if it is one and its process lives.
fn read(path: &Path) -> Option<Running> {
    path.file_name()?.to_str()?.strip_prefix(KIND)?.strip_prefix('-')?;
    let record = serde_json::from_str(&fs::read_to_string(path.join("record")).ok()?).ok()?;
    let owner: ProcessId = fs::read_to_string(path.join("owner")).ok()?.parse().ok()?;
    owner.is_alive().then_some(Running { record, owner })
}

/// The names of killed labs that left something behind, without removing it.
///
/// # Errors
/// When the directory of instances cannot be read.
pub fn leftovers() -> Result<Vec<String>, LabError> {
    let left = Leftover::find(Path::new(INSTANCE_DIRECTORY), KIND)?;
    let named = |leftover: &Leftover| serde_json::from_str::<Record>(&leftover.record()?).ok();
    Ok(left.iter().filter_map(named).map(|record| record.name).collect())
}

/// Removes what killed labs left behind; gives their names.
///
/// # Errors
/// When something cannot be removed.
pub fn clean() -> Result<Vec<String>, LabError> {
    let mut cleaned = Vec::new();
    for leftover in Leftover::find(Path::new(INSTANCE_DIRECTORY), KIND)? {
        let record = leftover.record().and_then(|text| serde_json::from_str::<Record>(&text).ok());
        if let Some(record) = record {
            for namespace in &record.namespaces {
                match Namespace::remove(namespace) {
                    Err(e) if !e.is_not_there() => return Err(e.into()),
                    _ => {}
                }
            }
            cleaned.push(record.name);
        }
        leftover.forget()?;
    }
    Ok(cleaned)
}
