//! [`Held`]: the congestion control at work; [`hold`]: until a signal comes; [`unload`]: the signal.

use io::bpf::congestion_controls;
use io::{Clock, Instance, Interest, Namespace, Recorded, ServiceManager, Signals, Waiter};
use units::Duration;

use crate::record::{KIND, Record, RunningComparison};
use crate::{Chooser, CongestionError, ControlProgram, Setup, Users};

/// Interval at which entries of old destinations are removed.
pub(crate) const SWEEP_EVERY: Duration = Duration::from_secs(30);

/// Interval of the checks whether a control group is another one: the service's first connections may come before.
const FOLLOW_EVERY: Duration = Duration::from_secs(1);

/// The congestion control, and who is to use it; all of it ends with the value, and with the process.
#[derive(Debug)]
pub struct Held {
    program: ControlProgram,
    chooser: Option<Chooser>,
    _instance: Instance,
}

impl Held {
    /// Loads and registers it as `setup` says, for `users` of this network namespace.
    ///
    /// # Errors
    /// When the privilege is missing, the kernel cannot do it, or one of that name is there. Nothing is left then.
    pub fn start(setup: Setup, users: Users) -> Result<Self, CongestionError> {
        let program = register(setup)?;
        let chooser = match &users {
            Users::New { port, group } => {
                let has_mptcp = congestion_controls(None)?.has_mptcp;
                Some(Chooser::start(program.name(), *port, group.as_deref(), has_mptcp)?)
            }
            Users::Asking => None,
        };
        let instance = enter(&program, users, None)?;
        Ok(Self { program, chooser, _instance: instance })
    }

    /// The congestion control's name in the kernel.
    #[must_use]
    pub fn name(&self) -> &str {
        self.program.name()
    }
}

/// Loads and registers it.
pub(crate) fn register(setup: Setup) -> Result<ControlProgram, CongestionError> {
    let mut program = ControlProgram::load(&setup)?;
    let others = Recorded::<Record>::all_here(KIND)?;
    if let Err(error) = program.register() {
        let owner = others.iter().find(|other| other.record.name == setup.name);
        return Err(match error.is_already_there() {
            true => {
                CongestionError::AlreadyThere { name: setup.name, owner: owner.map(|other| other.process) }
            }
            false => error.into(),
        });
    }
    Ok(program)
}

/// Writes down what is loaded, for as long as the value is there.
pub(crate) fn enter(
    program: &ControlProgram,
    users: Users,
    comparison: Option<RunningComparison>,
) -> Result<Instance, CongestionError> {
    let record = Record {
        namespace: Namespace::current()?.id()?,
        name: program.name().to_owned(),
        users,
        comparison,
        connections_map: program.connections()?.id()?,
    };
    Ok(Recorded::register(KIND, &record)?)
}

/// Holds it for `users` until `signals` says to end; `tell` gets one line about each thing of note. A service manager
/// hears when it is at work, or why it is not.
///
/// # Errors
/// As [`Held::start`].
pub fn hold(users: &Users, signals: &Signals, tell: &mut dyn FnMut(&str)) -> Result<(), CongestionError> {
    // One that cannot be spoken with waits in vain, and says so itself.
    let manager = ServiceManager::find().ok().flatten();
    let notify = |lines: &str| drop(manager.as_ref().map(|manager| manager.tell(lines)));
    let mut held =
        Held::start(Setup::usual(), users.clone()).inspect_err(|error| notify(&format!("STATUS={error}")))?;
    notify(&format!("READY=1\nSTATUS={} use '{}'", users.name(), held.name()));
    tell(&format!("loaded as congestion control '{}'", held.name()));
    tell(&match users {
        Users::New { .. } => format!(
            "ready: {} use it from now on; end with Ctrl-C or `cellerator congestion unload`",
            users.name()
        ),
        Users::Asking => {
            format!("ready: sockets can choose it with TCP_CONGESTION '{}'; end with Ctrl-C", held.name())
        }
    });
    let mut waiter = Waiter::new(Duration::ZERO)?;
    waiter.add(signals, Interest::Read, 0)?;
    let look_every = match users {
        Users::New { group: Some(_), .. } => FOLLOW_EVERY,
        _ => SWEEP_EVERY,
    };
    let mut sweep_at = Clock::now() + SWEEP_EVERY;
    while signals.take().is_none() {
        waiter.wait(Some(Clock::now() + look_every))?;
        let followed = held.chooser.as_mut().map(Chooser::follow).transpose()?.flatten();
        followed.iter().for_each(|line| tell(line));
        if Clock::now() >= sweep_at {
            held.program.sweep(Clock::now())?;
            sweep_at = Clock::now() + SWEEP_EVERY;
        }
    }
    tell("unloaded: connections that use it go on with it until they end");
    Ok(())
}

/// Ends the processes that hold it; the lines say which.
///
/// # Errors
/// When there is none, or it does not end.
pub fn unload() -> Result<Vec<String>, CongestionError> {
    let mut lines = Vec::new();
    for other in Recorded::<Record>::all_here(KIND)? {
        other.end()?;
        lines.push(format!("process {}: {} unloaded", other.process, other.record.name));
    }
    if lines.is_empty() { Err(CongestionError::NothingLoaded) } else { Ok(lines) }
}
