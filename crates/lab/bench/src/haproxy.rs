//! [`Proxy`]: HAProxy as a transparent TCP proxy in the box, and the packet filter rules it needs.
//!
//! Clients' connections to any address reach it through TPROXY; it opens its own to the same server, from the
//! client's address (`usesrc clientip`), so that both ends see each other's. Everything else is as
//! Debian ships it.

use std::path::Path;
use std::process::Command;

use io::Namespace;
use io::features::find_program;

use crate::BenchError;
use crate::error::Context;
use crate::tool::{Rules, run_tool};
use crate::topology::{MOBILE, Network};

/// Port on which it listens: no client sees it.
pub(crate) const PORT: u16 = 3129;

/// Routing table of what is delivered to it.
const TABLE: &str = "3129";

/// The way to it in the box; taken down when dropped.
#[derive(Debug)]
pub(crate) struct Proxy {
    middle: Namespace,
    rules: Option<Rules>,
}

impl Proxy {
    /// Has the box deliver TCP of clients to [`PORT`].
    pub fn steer(network: &Network) -> Result<Self, BenchError> {
        let mut proxy = Self { middle: Namespace::open(network.middle.name())?, rules: None };
        proxy.ip(&["link", "set", "lo", "up"])?;
        proxy.ip(&["rule", "add", "fwmark", "1", "lookup", TABLE])?;
        proxy.ip(&["route", "add", "local", "0.0.0.0/0", "dev", "lo", "table", TABLE])?;
        let chain = format!(
            " chain in {{\n  type filter hook prerouting priority mangle;\n  \
             meta l4proto tcp socket transparent 1 meta mark set 1 accept\n  \
             iifname \"{MOBILE}\" meta l4proto tcp tproxy to :{PORT} meta mark set 1 accept\n }}\n"
        );
        proxy.rules = Some(Rules::load(&proxy.middle, "HAProxy", &chain)?);
        Ok(proxy)
    }

    fn ip(&self, arguments: &[&str]) -> Result<(), BenchError> {
        run_tool(&self.middle, "ip", arguments, "", "HAProxy")
    }
}

impl Drop for Proxy {
    fn drop(&mut self) {
        // What was not set up cannot be taken down; what matters is that later ways do not meet it.
        drop(self.rules.take());
        drop(self.ip(&["rule", "del", "fwmark", "1", "lookup", TABLE]));
        drop(self.ip(&["route", "flush", "table", TABLE]));
        drop(self.ip(&["link", "set", "lo", "down"]));
    }
}

/// The command that runs it, its configuration in `directory`.
pub(crate) fn command(splice: bool, directory: &Path) -> Result<Command, BenchError> {
    let program = find_program("haproxy").ok_or_else(|| BenchError::Missing {
        what: "HAProxy".to_owned(),
        why: "it is not installed; `apt-get install --no-install-recommends haproxy`".to_owned(),
    })?;
    let path = directory.join("haproxy.cfg");
    std::fs::write(&path, configuration(splice)).doing(|| format!("write {}", path.display()))?;
    let mut command = Command::new(program);
    command.arg("-db").arg("-f").arg(path);
    Ok(command)
}

fn configuration(splice: bool) -> String {
    let splice = if splice { "  option splice-auto\n" } else { "" };
    format!(
        "defaults\n  mode tcp\n  timeout connect 5s\n  timeout client 60s\n  timeout server 60s\n{splice}\
         frontend clients\n  bind 0.0.0.0:{PORT} transparent\n  default_backend servers\n\
         backend servers\n  source 0.0.0.0 usesrc clientip\n  option transparent\n"
    )
}

/// Its version as it says itself, such as `2.6.12-1+deb12u4`.
pub(crate) fn version() -> Option<String> {
    let output = Command::new(find_program("haproxy")?).arg("-v").output().ok()?;
    let said = String::from_utf8_lossy(&output.stdout).into_owned();
    said.split_ascii_whitespace().skip_while(|word| *word != "version").nth(1).map(str::to_owned)
}

/// True when process `pid` runs in a namespace where somebody listens at [`PORT`].
pub(crate) fn is_listening(pid: u32) -> bool {
    let sockets = std::fs::read_to_string(format!("/proc/{pid}/net/tcp")).unwrap_or_default();
    listens(&sockets, PORT)
}

/// `/proc/net/tcp` (proc_net_tcp(5)): the second column is the local address and port, the fourth
/// the state, 0A for listening.
fn listens(sockets: &str, port: u16) -> bool {
    let port = format!(":{port:04X}");
    sockets.lines().any(|line| {
        let mut columns = line.split_ascii_whitespace().skip(1);
        columns.next().is_some_and(|local| local.ends_with(&port)) && columns.nth(1) == Some("0A")
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_listening_socket_is_told_from_a_connected_one() {
        let head = "  sl  local_address rem_address   st tx_queue\n";
        let line = |state| format!("{head}   0: 00000000:0C39 00000000:0000 {state} 00000000:00000000\n");
        assert!(listens(&line("0A"), 3129));
        assert!(!listens(&line("01"), 3129) && !listens(&line("0A"), 80) && !listens(head, 3129));
    }

    #[test]
    fn splicing_is_one_line_of_the_configuration() {
        assert!(configuration(true).contains("option splice-auto"));
        assert!(!configuration(false).contains("splice"));
        assert!(configuration(false).contains("source 0.0.0.0 usesrc clientip"));
    }
}
