//! [`Found`]: the running instances of this machine, by what they have written down; asked through their sockets.

use std::fs;
use std::io::{BufRead, BufReader, Write};
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::time::Duration;

use io::netlink::Netlink;
use io::{Instance, IoError, NamespaceId, Running};

use crate::config::Config;
use crate::error::RunError;
use crate::event_broadcaster::Wishes;
use crate::question::{Answer, CONSOLE, LOOK, PATIENCE, Question};
use crate::record::{Record, RecordedSysctl};

/// The kind under which instances are registered.
pub(crate) const KIND: &str = "run";

/// A running instance, as others find it.
#[derive(Debug)]
pub struct Found {
    /// Its name.
    pub name: String,
    /// Its process.
    pub process: u32,
    pub(crate) directory: PathBuf,
}

/// The running instances below `state_directory`, in order of their processes.
///
/// # Errors
/// When the directory exists and cannot be read.
pub fn find(state_directory: &Path) -> Result<Vec<Found>, IoError> {
    let running = Instance::running(state_directory, KIND)?;
    let found = running.into_iter().map(|Running { owner, path }| {
        let record = fs::read_to_string(path.join("record")).ok();
        let name = record.and_then(|text| Record::parse(&text)).map(|record| record.name);
        Found { name: name.unwrap_or_default(), process: owner.pid(), directory: path }
    });
    Ok(found.collect())
}

/// The instance among `all` that `name` means: a name, or a process number.
///
/// # Errors
/// When none or more than one is meant; says which there are.
pub fn choose(all: Vec<Found>, name: Option<&str>) -> Result<Found, String> {
    let names: Vec<String> = all.iter().map(|f| format!("{} (process {})", f.name, f.process)).collect();
    let there_are = match names.as_slice() {
        [] => "no accelerator is running, or this user may not see it".to_owned(),
        names => format!("running: {}", names.join(", ")),
    };
    let is_meant =
        |found: &Found| name.is_none_or(|name| found.name == name || found.process.to_string() == name);
    let mut meant: Vec<Found> = all.into_iter().filter(is_meant).collect();
    match (meant.len(), name) {
        (1, _) => Ok(meant.remove(0)),
        (0, Some(name)) => Err(format!("no accelerator '{name}'; {there_are}")),
        (0, None) => Err(there_are),
        // Names are given by people: the same twice is possible.
        (_, _) => Err(format!("say which one, by name or process; {there_are}")),
    }
}

impl Found {
    /// Directory of its files.
    pub(crate) fn directory(&self) -> &Path {
        &self.directory
    }

    /// Record of what it has set up.
    pub(crate) fn record(&self) -> Option<Record> {
        Record::parse(&std::fs::read_to_string(self.directory.join("record")).ok()?)
    }

    /// Asks it.
    ///
    /// # Errors
    /// When it has ended, hangs, or is of a version that speaks otherwise.
    pub fn ask(&self, question: &Question) -> Result<Answer, IoError> {
        self.ask_within(question, PATIENCE + PATIENCE)
    }

    /// Asks it, and waits for the answer for `patience` at most.
    ///
    /// # Errors
    /// As [`Found::ask`].
    pub fn ask_within(&self, question: &Question, patience: Duration) -> Result<Answer, IoError> {
        let failed = |error| {
            IoError::system(format!("ask the accelerator '{}' (process {})", self.name, self.process), error)
        };
        let ask = || {
            let mut stream = self.connect(question)?;
            stream.set_read_timeout(Some(patience))?;
            stream.set_write_timeout(Some(patience))?;
            let mut text = serde_json::to_string(question)?;
            text.push('\n');
            stream.write_all(text.as_bytes())?;
            let mut line = String::new();
            BufReader::new(&stream).read_line(&mut line)?;
            Ok(serde_json::from_str(&line)?)
        };
        ask().map_err(failed)
    }

    /// Listens to it: lines of JSON, until it ends. A read gives up after `patience`, and may be tried again.
    ///
    /// # Errors
    /// As [`Found::ask`].
    pub fn listen(&self, wishes: Wishes, patience: Duration) -> Result<BufReader<UnixStream>, IoError> {
        let failed = |error| {
            IoError::system(
                format!("listen to the accelerator '{}' (process {})", self.name, self.process),
                error,
            )
        };
        let listen = || {
            let question = Question::Listen(wishes);
            let mut stream = self.connect(&question)?;
            stream.set_read_timeout(Some(PATIENCE))?;
            stream.set_write_timeout(Some(PATIENCE))?;
            let mut text = serde_json::to_string(&question)?;
            text.push('\n');
            stream.write_all(text.as_bytes())?;
            let mut stream = BufReader::new(stream);
            let mut line = String::new();
            stream.read_line(&mut line)?;
            match serde_json::from_str(&line)? {
                Answer::Done(_) => {}
                Answer::Refused(why) => return Err(std::io::Error::other(why)),
                _ => return Err(std::io::Error::other("it is of another version")),
            }
            stream.get_ref().set_read_timeout(Some(patience))?;
            Ok(stream)
        };
        listen().map_err(failed)
    }

    /// By the socket that gives no more rights than the question needs; an older program has but one.
    fn connect(&self, question: &Question) -> std::io::Result<UnixStream> {
        let look = question.only_looks().then(|| UnixStream::connect(self.directory.join(LOOK)));
        match look {
            Some(Ok(stream)) => Ok(stream),
            Some(Err(error)) if error.kind() == std::io::ErrorKind::PermissionDenied => Err(error),
            _ => UnixStream::connect(self.directory.join(CONSOLE)),
        }
    }

    /// True while it runs.
    #[must_use]
    pub fn is_there(&self) -> bool {
        self.directory.exists()
    }
}

/// Refuses an interface of `config` that another running instance in this namespace bridges, or steers by
/// programs: their names are not for everybody to see. With `is_alone` set also one that another steers in any
/// way: a bridge takes all frames, and of two that start at the same moment neither has rules yet. `process` is not
/// another. Who replaces one may stand behind it.
pub(crate) fn refuse_taken(
    config: &Config,
    namespace: NamespaceId,
    is_alone: bool,
    process: u32,
) -> Result<(), RunError> {
    for found in find(&config.state_directory)?.iter().filter(|found| found.process != process) {
        let Some(record) = found.record().filter(|record| record.namespace.is(&namespace)) else { continue };
        let theirs = [&record.wired, &record.mobile];
        let shared = [&config.wired, &config.mobile].into_iter().find(|name| theirs.contains(name));
        let has_programs = config.replace.is_none() && record.rules.is_empty();
        if let Some(interface) = shared.filter(|_| is_alone || record.is_inline || has_programs) {
            let how = format!("by '{}', process {}", found.name, found.process);
            return Err(RunError::AlreadySteered { interface: interface.clone(), how });
        }
    }
    Ok(())
}

/// Settings that other running instances in this namespace have changed.
pub(crate) fn changed_settings(config: &Config) -> Result<Vec<RecordedSysctl>, RunError> {
    let namespace = NamespaceId::here()?;
    let all = find(&config.state_directory)?;
    let others = all.iter().filter(|found| found.process != std::process::id()).filter_map(Found::record);
    Ok(others.filter(|record| record.namespace.is(&namespace)).flat_map(|record| record.sysctls).collect())
}

/// Undoes what `record` says and puts changed settings back unless somebody else changed them since. What another
/// instance that runs has written down too is left to it. `directory` is that of this record's instance.
pub(crate) fn undo_all(record: &Record, netlink: &Netlink, directory: &Path) -> Result<(), IoError> {
    let all = directory.parent().map(find).transpose()?.unwrap_or_default();
    let others = all.iter().filter(|found| found.directory() != directory).filter_map(Found::record);
    record.without(&others.collect::<Vec<_>>()).undo(netlink)
}
