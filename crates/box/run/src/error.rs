//! [`RunError`]: why the accelerator cannot start or go on.

use io::IoError;

/// Reason why the accelerator cannot start or go on; the message is one line with what to do.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum RunError {
    /// The operating system refused something.
    #[error(transparent)]
    Io(#[from] IoError),
    /// Both sides are the same interface.
    #[error("'{0}' is given as wired and as mobile interface: they must be two")]
    SameInterface(String),
    /// An interface is switched off.
    #[error("interface '{0}' is down: switch it on with `ip link set {0} up`")]
    InterfaceDown(String),
    /// An interface cannot route.
    #[error(
        "interface '{0}' has no IPv4 or global IPv6 address: give it one with `ip address add … dev {0}`"
    )]
    NoAddress(String),
    /// Another instance has the interface.
    #[error("interface '{interface}' is steered already ({how}): is another cellerator running?")]
    AlreadySteered {
        /// The interface.
        interface: String,
        /// Kind of steering that was found.
        how: String,
    },
    /// Steering by tcx was asked for and is not possible.
    #[error("no steering by tcx: {0}; --steering rules works without")]
    NoTcx(String),
    /// A packet filter decides otherwise of steered TCP.
    #[error(
        "a filter would be passed by, or would break flows: {rule}{}; or --bypass-filters starts regardless",
        not_tcx.as_ref().map_or_else(String::new, |why| format!(" (not by tcx: {why})"))
    )]
    Filtered {
        /// Rule, and what to add to it.
        rule: String,
        /// Reason why programs do not steer, if that was looked at.
        not_tcx: Option<String>,
    },
    /// No free number was found for the routing tables.
    #[error("no free pair of routing tables and TUN names: too many instances are running")]
    NoFreeSlot,
    /// `nft` is needed and not there.
    #[error(
        "nft is missing, which connection tracking on this machine makes necessary: install nftables, or \
         use --notrack never"
    )]
    NftMissing,
    /// `nft` refused.
    #[error("nft did not accept the notrack table: {0}")]
    Nft(String),
    /// A setting makes no sense.
    #[error("{0}")]
    Settings(String),
    /// An interface vanished or was switched off while running.
    #[error("interface '{0}' is gone or down: stopped, and everything is undone")]
    InterfaceLost(String),
    /// A thread that handles packets has ended.
    #[error("a shard has ended: stopped, and everything is undone")]
    ShardLost,
    /// The running instance has not handed over.
    #[error("'{name}' goes on as before, and this start ends: {why}")]
    NotReplaced {
        /// Name that was asked for.
        name: String,
        /// Reason.
        why: String,
    },
    /// The watchdog cannot be started.
    #[error("cannot start the watchdog ({0}); --no-watchdog runs without, then a hang blocks TCP")]
    Watchdog(IoError),
}
