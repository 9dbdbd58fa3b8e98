//! [`Servers`]: what runs at the server of a run.

use std::net::SocketAddr;
use std::path::Path;
use std::process::{Command, Stdio};

use control::coupled::Scheme;
use io::{Namespace, OwnedChild};
use scenario::{MultiPath, MultiPathCase};

use super::ends::{ContentServer, PORT, Transfer};
use super::world::server_address;
use crate::LabError;

/// UDP port of `cellerator probe server`.
pub(crate) const PROBE_PORT: u16 = 7311;
/// TCP port of the server of the downloads beside the transfer.
pub(crate) const BESIDE_PORT: u16 = PORT + 1;

/// The servers of a transfer, of the downloads beside it and of probes; ended when dropped.
pub(crate) struct Servers {
    /// `cellerator probe server`.
    _probes: OwnedChild,
    _beside: Option<ContentServer>,
    content: ContentServer,
    /// The congestion control of the transfer, where it is a coupled one.
    _coupled: Option<coupled::SchemeProgram>,
}

impl Servers {
    /// Starts those that a case has, in the server's namespace.
    pub fn start(
        namespace: &Namespace,
        program: &Path,
        scenario: &MultiPath,
        case: &MultiPathCase,
    ) -> Result<Self, LabError> {
        let address = server_address(scenario.family, 0);
        let is_ipv4_only = address.is_ipv4() && scenario.further_family.is_none();
        let anywhere = if is_ipv4_only { "0.0.0.0" } else { "[::]" };
        let at = format!("{anywhere}:{PORT}").parse();
        let at: SocketAddr = at.map_err(|_| LabError::Which("no address".to_owned()))?;
        let coupled = coupled(case)?;
        let control = coupled.as_ref().map(|program| program.name().to_owned());
        let control = control.or_else(|| case.congestion_control.clone());
        let content = ContentServer::start(namespace, at, !case.server_single_path, control)?;
        let beside_at = SocketAddr::new(at.ip(), BESIDE_PORT);
        let reno = || ContentServer::start(namespace, beside_at, false, Some("reno".to_owned()));
        let beside = (scenario.beside > 0).then(reno).transpose()?;
        let mut command = Command::new(program);
        command.args(["probe", "server", "--listen", &SocketAddr::new(address, PROBE_PORT).to_string()]);
        command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
        let probes = namespace.spawn_owned(command)?;
        Ok(Self { _probes: probes, _beside: beside, content, _coupled: coupled })
    }

    /// Transfer of an upload as the server received it, with what only the client knows.
    pub fn received(&self, sent: Transfer) -> Transfer {
        let lost =
            || Transfer { error: Some("the server received nothing".to_owned()), ..Transfer::default() };
        let got = self.content.received().unwrap_or_else(lost);
        Transfer {
            connected: sent.connected,
            connected_at: sent.connected_at,
            error: sent.error.or(got.error),
            is_multi_path: sent.is_multi_path,
            ..got
        }
    }
}

/// The coupled scheme that is a case's congestion control, registered by a name of this process's own.
fn coupled(case: &MultiPathCase) -> Result<Option<coupled::SchemeProgram>, LabError> {
    let Some(scheme) = case.congestion_control.as_deref().and_then(Scheme::named) else { return Ok(None) };
    let mut program = coupled::SchemeProgram::load(&coupled::Setup::private(scheme))?;
    program.register()?;
    Ok(Some(program))
}
