//! [`Chooser`]: has connections of this network namespace use a congestion control.
//!
//! The sysctl `tcp_congestion_control` would outlive a killed process. The kernel calls a `sock_ops` program when a
//! TCP connection is established, in a control group or below it:
//!
//! ```text
//!   established, in this network namespace, of this port, no subflow of MPTCP?
//!       TCP_CONGESTION = the name
//! ```
//!
//! The program ends with the process, however that ends. Connections that it has set keep what they have.
//!
//! The control group of a service goes with the service's last process, and the next start makes another one of the
//! same name: [`Chooser::follow`] goes over to it.

use std::fs::{self, File};
use std::io::{Error, ErrorKind};
use std::os::fd::OwnedFd;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use io::bpf::{
    Attachment, Instruction, Program, Selection, choose_congestion_control, for_new_connections, root_group,
};
use io::{IoError, Namespace};
use serde::{Deserialize, Serialize};

/// Users of a congestion control that is loaded.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Users {
    /// Connections of the network namespace that are established from now on.
    New {
        /// Only those with this local port.
        port: Option<u16>,
        /// Only those of processes in this control group or below it.
        group: Option<PathBuf>,
    },
    /// Sockets that ask for it by name.
    Asking,
}

impl Users {
    /// In words, as the subject of a sentence.
    #[must_use]
    pub fn name(&self) -> String {
        match self {
            Self::New { port, group } => {
                let port = port.map_or(String::new(), |port| format!(" with local port {port}"));
                let group = group.as_deref().map(Path::display);
                let group = group.map_or(String::new(), |group| format!(" of control group {group}"));
                format!("new connections{port}{group}")
            }
            Self::Asking => "sockets that ask for it".to_owned(),
        }
    }
}

/// The program at work.
#[derive(Debug)]
pub struct Chooser {
    program: Program,
    group: Option<PathBuf>,
    /// None while there is no such control group.
    attached: Option<Attached>,
}

#[derive(Debug)]
struct Attached {
    /// Of the control group: the kernel gives no other one the same.
    number: u64,
    _attachment: Attachment,
}

impl Chooser {
    /// Has connections of this network namespace that are established from now on use the congestion control `name`:
    /// those with `port`, and of processes in `group`, where these are given. Subflows of MPTCP are left out where
    /// the kernel `has_mptcp`.
    ///
    /// # Errors
    /// Without the privilege, where the kernel has no BPF, or there is no such control group.
    pub fn start(
        name: &str,
        port: Option<u16>,
        group: Option<&Path>,
        has_mptcp: bool,
    ) -> Result<Self, IoError> {
        io::features::require(io::features::Feature::Bpf)?;
        let selection = Selection { local_port: port, leaves_subflows: has_mptcp };
        let program = instructions(Namespace::current()?.cookie()?, selection, name)?;
        let program = Program::load_socket_operations("cellerator_cong", &program)?;
        let attached = Some(attach(&program, group)?);
        Ok(Self { program, group: group.map(Path::to_owned), attached })
    }

    /// Goes over to the control group that has the name now, if that is another one than before; a line says so.
    ///
    /// # Errors
    /// When the kernel refuses.
    pub fn follow(&mut self) -> Result<Option<String>, IoError> {
        let Some(group) = &self.group else { return Ok(None) };
        let number = fs::metadata(group).ok().map(|folder| folder.ino());
        if number == self.attached.as_ref().map(|attached| attached.number) {
            return Ok(None);
        }
        self.attached = match attach(&self.program, Some(group)) {
            Err(error) if error.is_not_there() => None,
            attached => Some(attached?),
        };
        let name = group.display();
        Ok(Some(match self.attached {
            Some(_) => format!("control group {name} is a new one: its new connections use it from now on"),
            None => format!(
                "control group {name} is gone: no new connection uses it until there is one of that name"
            ),
        }))
    }
}

fn attach(program: &Program, group: Option<&Path>) -> Result<Attached, IoError> {
    let folder = File::from(open_group(group)?);
    let number = folder.metadata().map_err(|error| IoError::system("look at a control group", error))?.ino();
    Ok(Attached { number, _attachment: program.attach_to_group(&folder)? })
}

/// A control group, by default the root of all.
pub(crate) fn open_group(group: Option<&Path>) -> Result<OwnedFd, IoError> {
    let Some(path) = group else { return root_group() };
    let what = || format!("open the control group {}", path.display());
    let opened = File::open(path).map_err(|error| IoError::system(what(), error))?;
    // What every group of cgroup2 has, and none of the older kind.
    if !path.join("cgroup.controllers").exists() {
        let why = "it is no folder in the tree of cgroup2 (mostly /sys/fs/cgroup)";
        return Err(IoError::system(what(), Error::new(ErrorKind::InvalidInput, why)));
    }
    Ok(opened.into())
}

fn instructions(namespace: u64, selection: Selection, name: &str) -> Result<Vec<Instruction>, IoError> {
    for_new_connections(namespace, selection, |a| choose_congestion_control(a, name))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_verifier_takes_the_program() {
        if io::features::require(io::features::Feature::Bpf).is_err() {
            eprintln!("left out: needs the privilege to load BPF programs");
            return;
        }
        for local_port in [None, Some(443)] {
            let selection = Selection { local_port, leaves_subflows: local_port.is_none() };
            let program = instructions(1, selection, "adaptive").unwrap();
            Program::load_socket_operations("cellerator_cong", &program).unwrap();
        }
    }

    #[test]
    fn it_goes_over_to_the_next_control_group_of_the_name() {
        let table = fs::read_to_string("/proc/self/mountinfo").unwrap();
        let mount =
            table.lines().find(|line| line.contains(" - cgroup2 ")).and_then(|line| line.split(' ').nth(4));
        let (Some(mount), Ok(())) = (mount, io::features::require(io::features::Feature::Bpf)) else {
            eprintln!("left out: needs a tree of control groups, and the privilege to load BPF programs");
            return;
        };
        let group = Path::new(mount).join(format!("cellerator-chooser-{}", std::process::id()));
        fs::create_dir(&group).unwrap();
        let mut chooser = Chooser::start("adaptive", Some(443), Some(&group), false).unwrap();
        assert_eq!(chooser.follow().unwrap(), None);
        fs::remove_dir(&group).unwrap();
        let line = chooser.follow().unwrap().unwrap();
        assert!(
            line.ends_with("is gone: no new connection uses it until there is one of that name"),
            "{line}"
        );
        assert_eq!(chooser.follow().unwrap(), None);
        fs::create_dir(&group).unwrap();
        let line = chooser.follow().unwrap().unwrap();
        assert!(line.ends_with("is a new one: its new connections use it from now on"), "{line}");
        assert_eq!(chooser.follow().unwrap(), None);
        // Made anew between two looks.
        fs::remove_dir(&group).unwrap();
        fs::create_dir(&group).unwrap();
        assert!(chooser.follow().unwrap().unwrap().contains("a new one"));
        drop(chooser);
        fs::remove_dir(&group).unwrap();
    }

    #[test]
    fn a_folder_that_is_no_control_group_is_refused() {
        for path in [env!("CARGO_MANIFEST_DIR"), concat!(env!("CARGO_MANIFEST_DIR"), "/Cargo.toml")] {
            let said = open_group(Some(Path::new(path))).unwrap_err().to_string();
            assert!(said.starts_with("cannot open the control group") && said.contains("cgroup2"), "{said}");
        }
    }

    #[test]
    fn users_are_named() {
        let new = |port, group: Option<&str>| Users::New { port, group: group.map(PathBuf::from) }.name();
        assert_eq!(new(None, None), "new connections");
        assert_eq!(new(Some(443), None), "new connections with local port 443");
        assert_eq!(new(None, Some("/x")), "new connections of control group /x");
        assert_eq!(Users::Asking.name(), "sockets that ask for it");
    }
}
