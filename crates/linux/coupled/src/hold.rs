//! [`Held`]: a scheme at work; [`hold`]: until a signal comes; [`unload`]: the signal.

use control::coupled::Scheme;
use io::{Instance, Interest, Namespace, Recorded, Signals, Waiter};
use units::Duration;

use crate::record::{KIND, Record};
use crate::{Chooser, CoupledError, SchemeProgram, Setup};

/// A scheme that subflows can use, or do; all of it ends with the value, and with the process.
#[derive(Debug)]
pub struct Held {
    program: SchemeProgram,
    _chooser: Option<Chooser>,
    _instance: Instance,
}

impl Held {
    /// Loads and registers `scheme`. `is_chosen`: MPTCP subflows of this network namespace that are established from
    /// now on use it; else those that ask for it by `TCP_CONGESTION`, or by the namespace's sysctl.
    ///
    /// # Errors
    /// When the privilege is missing, the kernel cannot do it, or one of that name is there. Nothing is left then.
    pub fn start(scheme: Scheme, is_chosen: bool) -> Result<Self, CoupledError> {
        let setup = Setup::new(scheme);
        let others = Recorded::<Record>::all_here(KIND)?;
        let namespace = Namespace::current()?.id()?;
        let is_chosen_here =
            |other: &Recorded<Record>| other.record.is_chosen && other.record.namespace == namespace;
        if let Some(other) = others.iter().find(|other| is_chosen && is_chosen_here(other)) {
            return Err(CoupledError::AlreadyChosen {
                scheme: other.record.scheme.clone(),
                owner: other.process,
            });
        }
        let mut program = SchemeProgram::load(&setup)?;
        if let Err(error) = program.register() {
            let owner = others.iter().find(|other| other.record.name == setup.name);
            return Err(match error.is_already_there() {
                true => {
                    CoupledError::AlreadyThere { name: setup.name, owner: owner.map(|other| other.process) }
                }
                false => error.into(),
            });
        }
        let chooser = is_chosen.then(|| Chooser::start(program.name())).transpose()?;
        let record = Record {
            namespace,
            scheme: scheme.name().to_owned(),
            name: setup.name,
            is_chosen,
            connections_map: program.connections()?.id()?,
        };
        Ok(Self { program, _chooser: chooser, _instance: Recorded::register(KIND, &record)? })
    }

    /// The congestion control's name in the kernel.
    #[must_use]
    pub fn name(&self) -> &str {
        self.program.name()
    }
}

/// Holds `scheme` until `signals` says to end; `tell` gets one line about each thing of note.
///
/// # Errors
/// As [`Held::start`].
pub fn hold(
    scheme: Scheme,
    is_chosen: bool,
    signals: &Signals,
    tell: &mut dyn FnMut(&str),
) -> Result<(), CoupledError> {
    let held = Held::start(scheme, is_chosen)?;
    let name = held.name();
    tell(&format!("{scheme}: loaded as congestion control '{name}'", scheme = scheme.name()));
    tell(&match is_chosen {
        true => {
            "ready: MPTCP subflows that this network namespace opens from now on use it; end with Ctrl-C or \
                 `cellerator multipath congestion unload`"
                .to_owned()
        }
        false => format!("ready: sockets can choose it with TCP_CONGESTION '{name}'; end with Ctrl-C"),
    });
    let mut waiter = Waiter::new(Duration::ZERO)?;
    waiter.add(signals, Interest::Read, 0)?;
    while signals.take().is_none() {
        waiter.wait(None)?;
    }
    tell("unloaded: connections that use it go on with it until they end");
    Ok(())
}

/// Ends the processes that hold `scheme`, or any; the lines say which.
///
/// # Errors
/// When there is none, or it does not end.
pub fn unload(scheme: Option<Scheme>) -> Result<Vec<String>, CoupledError> {
    let mut lines = Vec::new();
    let is_meant = |name: &str| scheme.is_none_or(|wanted| wanted.name() == name);
    for other in Recorded::<Record>::all_here(KIND)?.iter().filter(|other| is_meant(&other.record.scheme)) {
        other.end()?;
        lines.push(format!("process {}: {} unloaded", other.process, other.record.scheme));
    }
    if lines.is_empty() { Err(CoupledError::NothingLoaded) } else { Ok(lines) }
}
