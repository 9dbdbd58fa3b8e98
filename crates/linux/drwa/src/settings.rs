//! [`AttachArgs`]: the options of `cellerator drwa attach`.

use control::receiver::ReceiverParams;
use io::bpf::Hook;
use scenario::Quantity;
use units::{Bytes, Duration};

use crate::layout::SELECTIONS_MAX;
use crate::{DrwaError, Selection};

/// Value to which `tcp_rmem`'s maximum is raised: 1 Gbit/s over 100 ms, and some.
const RMEM_DEFAULT: &str = "16 MiB";

/// Method by which round trips are measured.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
pub enum Method {
    /// By timestamps where a connection has them, else by windows
    Timestamps,
    /// The time until one window of data has come
    Windows,
}

/// Hook that holds the programs at an interface.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
pub enum HookChoice {
    /// tcx where the kernel has it (Linux 6.6), else clsact
    Any,
    /// Links, which end with the process
    Tcx,
    /// Filters of a clsact qdisc
    Clsact,
}

/// Manage the receive windows of this machine's TCP connections over INTERFACE, until interrupted.
#[derive(Clone, Debug, clap::Args)]
pub struct AttachArgs {
    /// The interfaces, as of modems and radios
    #[arg(value_name = "INTERFACE", required = true)]
    pub interfaces: Vec<String>,
    /// Only connections with servers in a network, on ports, or both: 192.0.2.0/24, [2001:db8::/32]:80-90, :443
    #[arg(long, value_name = "SERVERS")]
    pub only: Vec<Selection>,
    /// The paper's algorithm without additions
    #[arg(long)]
    pub paper: bool,
    /// λ: data that may be under way, in round trips of the empty path
    #[arg(long, value_name = "NUMBER", default_value = "3", value_parser = lambda)]
    pub lambda: u32,
    /// Method by which round trips are measured
    #[arg(long, value_enum, default_value = "timestamps")]
    pub rtt: Method,
    /// Time for which round trips must exceed what the window explains until RTT_min is learned anew; 0 s: never
    #[arg(long, value_name = "TIME")]
    pub re_baseline: Option<Quantity<Duration>>,
    /// Do not let connections share what they know
    #[arg(long)]
    pub no_sharing: bool,
    /// Raise the largest receive buffer (tcp_rmem) to so much while attached
    #[arg(long, value_name = "BYTES", default_value = RMEM_DEFAULT)]
    pub rmem: Quantity<Bytes>,
    /// Leave tcp_rmem as it is
    #[arg(long, conflicts_with = "rmem")]
    pub keep_buffers: bool,
    /// Hook that holds the programs at the interface
    #[arg(long, value_enum, default_value = "any")]
    pub hook: HookChoice,
}

/// λ in thousandths.
fn lambda(text: &str) -> Result<u32, String> {
    match text.parse::<f64>() {
        Ok(number) if (1.0..=20.0).contains(&number) => Ok((number * 1_000.0).round() as u32),
        _ => Err("a number from 1 to 20".to_owned()),
    }
}

impl AttachArgs {
    /// The algorithm's parameters.
    #[must_use]
    pub fn params(&self) -> ReceiverParams {
        let base = if self.paper { ReceiverParams::paper() } else { ReceiverParams::default() };
        let re_baseline = match self.re_baseline {
            None => base.re_baseline,
            Some(Quantity(time)) => Some(time).filter(|time| !time.is_zero()),
        };
        ReceiverParams {
            lambda_permille: self.lambda,
            without_timestamps: self.rtt == Method::Windows,
            shares: base.shares && !self.no_sharing,
            re_baseline,
            ..base
        }
    }

    pub(crate) fn hook(&self) -> Hook {
        match self.hook {
            HookChoice::Any => Hook::Any,
            HookChoice::Tcx => Hook::Link,
            HookChoice::Clsact => Hook::Filter,
        }
    }

    /// Checks conditions that the options cannot state alone.
    ///
    /// # Errors
    /// With too many selections.
    pub fn check(&self) -> Result<(), DrwaError> {
        if self.only.len() > SELECTIONS_MAX {
            return Err(DrwaError::TooManySelections(self.only.len(), SELECTIONS_MAX));
        }
        Ok(())
    }
}
