//! [`DrwaStatus`]: what is attached, and every connection.

use std::net::{IpAddr, SocketAddr};

use io::{Clock, Namespace, Recorded};
use serde::Serialize;

use crate::layout::{Connection, Counters, flag};
use crate::record::{forget_vanished, running};
use crate::{DrwaError, Ends, View};

/// State of the DRWA programs that `cellerator drwa` has attached on this machine.
#[derive(Clone, Debug, Default, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct DrwaStatus {
    /// Of this document: `cellerator/drwa-status/1`.
    pub schema: &'static str,
    /// Interfaces with programs.
    pub attached: Vec<Interface>,
}

/// An interface with programs.
#[derive(Clone, Debug, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Interface {
    /// The process that attached them.
    pub process: u32,
    /// Inode of its network namespace.
    pub namespace: u64,
    /// Its name, where it has one that can be seen from here.
    pub namespace_name: Option<String>,
    /// It is the network namespace of who asks.
    pub is_here: bool,
    /// The interface.
    pub interface: String,
    /// `tcx` or `clsact`.
    #[cfg_attr(feature = "schema", schemars(extend("enum" = ["tcx", "clsact"])))]
    pub hook: String,
    /// The options it was started with.
    pub options: String,
    /// Counters of the interface.
    pub counters: Counted,
    /// Connections that it knows, by address and port.
    pub connections: Vec<Line>,
}

/// Counters of an interface's programs.
#[derive(Clone, Copy, Debug, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Counted {
    /// Connections managed so far.
    pub managed: u64,
    /// Connections left alone because their SYN was not seen: the window scale is unknown.
    pub left_alone_late: u64,
    /// Left alone as Multipath TCP.
    pub left_alone_multipath: u64,
    /// Left alone because --only does not mean them.
    pub left_alone_unselected: u64,
    /// Segments sent by managed connections.
    pub segments_out: u64,
    /// Those whose window was lowered.
    pub windows_lowered: u64,
    /// Payload that came for managed connections.
    pub received_bytes: u64,
    /// Rounds ended: windows computed.
    pub rounds: u64,
}

/// State of a connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "kebab-case")]
pub enum State {
    /// Its handshake is not complete.
    Opening,
    /// Its window is managed.
    Managed,
    /// Left alone: its SYN was not seen.
    Late,
    /// Left alone: Multipath TCP.
    Multipath,
    /// Left alone: not chosen.
    Unselected,
    /// Both sides have ended, or one has reset it.
    Ended,
}

/// A connection.
#[derive(Clone, Copy, Debug, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Line {
    /// This host's address and port.
    pub local: SocketAddr,
    /// The other host's address and port.
    pub remote: SocketAddr,
    /// State of the connection.
    pub state: State,
    /// Seconds since its SYN; of a late one since it was first seen.
    pub age_s: f64,
    /// RTT_est of the last round, ms.
    pub rtt_ms: Option<f64>,
    /// RTT_min, ms.
    pub rtt_min_ms: Option<f64>,
    /// RTT_min was learned anew, because nothing of the connection's own explained its round trips.
    pub is_re_baselined: bool,
    /// Round trips measured.
    pub rtt_samples: u64,
    /// cwnd_est, bytes.
    pub cwnd_est_bytes: Option<u64>,
    /// rwnd as computed, bytes; none before the first round has ended.
    pub window_bytes: Option<u64>,
    /// The window told last, bytes.
    pub told_bytes: u32,
    /// Window that the kernel itself announced then, bytes.
    pub own_bytes: u32,
    /// Payload that came.
    pub received_bytes: u64,
    /// Segments sent.
    pub segments_out: u64,
    /// Those whose window was lowered.
    pub windows_lowered: u64,
}

/// Every attached interface of this machine. Records of killed processes whose namespace has gone go too.
///
/// # Errors
/// When records or maps cannot be read: as root.
pub fn status() -> Result<DrwaStatus, DrwaError> {
    io::bpf::require_objects("look for what manages receive windows")?;
    forget_vanished()?;
    let now_us = Clock::now().as_nanos() / 1_000;
    let here = Namespace::current()?.id()?;
    let mut attached = Vec::new();
    for Recorded { process, record, .. } in running()? {
        for at in &record.attached {
            // One that has ended since is no error.
            let Ok(view) = View::by_ids(at.connections_map, at.counts_map) else { continue };
            let lines = view.connections().iter().map(|(ends, c)| line(*ends, c, now_us)).collect();
            attached.push(Interface {
                process,
                namespace: record.namespace,
                namespace_name: Namespace::name_of(record.namespace),
                is_here: record.namespace == here,
                interface: at.interface.clone(),
                hook: at.hook.clone(),
                options: record.options.clone(),
                counters: counted(&view.counters()?),
                connections: lines,
            });
        }
    }
    Ok(DrwaStatus { schema: "cellerator/drwa-status/1", attached })
}

fn counted(counters: &Counters) -> Counted {
    Counted {
        managed: counters.connections,
        left_alone_late: counters.late,
        left_alone_multipath: counters.mptcp,
        left_alone_unselected: counters.unselected,
        segments_out: counters.segments_out,
        windows_lowered: counters.windows_lowered,
        received_bytes: counters.bytes_in,
        rounds: counters.rounds,
    }
}

fn state(connection: &Connection) -> State {
    const RESET: u32 = 2;
    const FIN: u32 = 1;
    let Connection { flags, in_ended, out_ended, .. } = *connection;
    let has_ended = (in_ended | out_ended) & RESET != 0 || in_ended & out_ended & FIN != 0;
    match flags {
        _ if has_ended => State::Ended,
        flags if flags & flag::LATE != 0 => State::Late,
        flags if flags & flag::UNSELECTED != 0 => State::Unselected,
        flags if flags & flag::MPTCP != 0 => State::Multipath,
        flags if flags & flag::SHAKEN != 0 => State::Managed,
        _ => State::Opening,
    }
}

fn line(ends: Ends, connection: &Connection, now_us: u64) -> Line {
    let some = |value: u64| Some(value).filter(|value| *value > 0);
    let ms = |us: u64| some(us).map(|us| us as f64 / 1_000.0);
    let end = |(address, port): (IpAddr, u16)| SocketAddr::new(address, port);
    let c = connection;
    Line {
        local: end(ends.local),
        remote: end(ends.remote),
        state: state(c),
        age_s: now_us.saturating_sub(c.opened_us) as f64 / 1e6,
        rtt_ms: ms(c.rtt_est_us),
        rtt_min_ms: ms(c.rtt_min_us),
        is_re_baselined: c.before_us > 0,
        rtt_samples: c.samples,
        cwnd_est_bytes: some(c.cwnd_est).map(|estimate| estimate >> 8),
        window_bytes: some(c.window),
        told_bytes: c.told_window,
        own_bytes: c.own_window,
        received_bytes: c.bytes,
        segments_out: c.acks,
        windows_lowered: c.lowered,
    }
}
