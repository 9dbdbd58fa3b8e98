//! The boxes: `cellerator run` at each base station, and `cellerator handover` between them.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use io::{Clock, Host, INSTANCE_DIRECTORY};
use scenario::Quantity;
use units::Duration;

use super::world::handover_address;
use crate::LabError;
use crate::accelerator::Running;
use crate::error::Context;
use crate::pause::pause;
use crate::topology::{RADIO, WAN};

/// Names by which the boxes call each other.
const NAMES: [&str; 2] = ["a", "b"];
/// Longest time that the boxes may take to hear each other.
const HEARING_MAX: Duration = Duration::from_secs(20);

/// Statement of a hand-over about itself.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct Said {
    pub flows: u64,
    pub bytes: u64,
    /// Bytes that stayed behind.
    pub left_bytes: u64,
    /// Asked, copied, nobody's, ms.
    pub phases_ms: [f64; 3],
}

/// Two boxes that know each other; killed when dropped.
pub(crate) struct Boxes {
    orders: Orders,
    // Dropped in this order.
    running: [Running; 2],
    _notes: Notes,
}

/// Notes of boxes about subscribers for their next start, which there is none of: removed when dropped.
struct Notes([String; 2]);

impl Drop for Notes {
    fn drop(&mut self) {
        let entries = fs::read_dir(INSTANCE_DIRECTORY).into_iter().flatten().flatten();
        for entry in entries {
            let directory = entry.file_name().to_string_lossy().into_owned();
            let is_own = |name: &String| directory.ends_with(&format!("-{name}"));
            if directory.starts_with("handover-") && self.0.iter().any(is_own) {
                drop(fs::remove_dir_all(entry.path()));
            }
        }
    }
}

/// Handle that gives the boxes orders: the program's other commands.
#[derive(Clone)]
pub(crate) struct Orders {
    program: PathBuf,
    names: [String; 2],
}

impl Boxes {
    /// Starts both, and waits until they hear each other.
    pub fn start(program: &Path, namespaces: &[Host; 2], directory: &Path) -> Result<Self, LabError> {
        for name in NAMES {
            certify(name, directory)?;
        }
        let file = |name: &str, end: &str| directory.join(format!("box-{name}.{end}")).display().to_string();
        let names = NAMES.map(|name| format!("moves-{}-{name}", std::process::id()));
        let start = |own: usize| {
            let (name, peer) = (NAMES[own], NAMES[1 - own]);
            let listen = handover_address(own).to_string();
            let there = format!("{peer}={},{}", handover_address(1 - own), file(peer, "pem"));
            let arguments = [
                "run",
                "--wired",
                WAN,
                "--mobile",
                RADIO,
                "--name",
                &names[own],
                "--direction",
                "both",
                "--handover-listen",
                &listen,
                "--handover-certificate",
                &file(name, "pem"),
                "--handover-key",
                &file(name, "key"),
                "--handover-peer",
                &there,
            ]
            .map(str::to_owned);
            let log = directory.join(format!("box-{name}.log"));
            Running::start("cellerator run", program, &arguments, (&namespaces[own], log))
        };
        let notes = Notes(names.clone());
        let running = [start(0)?, start(1)?];
        let orders = Orders { program: program.to_owned(), names };
        let give_up = Clock::now() + HEARING_MAX;
        for number in 0..2 {
            while orders.counter(number, "handover_peers_connected")? != Some(1) {
                if Clock::now() > give_up {
                    return Err(LabError::Which("the boxes do not hear each other".to_owned()));
                }
                pause(Duration::from_millis(200))?;
            }
        }
        Ok(Self { orders, running, _notes: notes })
    }

    /// Handle that gives them orders.
    pub fn orders(&self) -> Orders {
        self.orders.clone()
    }

    /// Refuses to go on when one has ended by itself.
    pub fn check(&mut self) -> Result<(), LabError> {
        self.running.iter_mut().try_for_each(Running::check)
    }

    /// Has both deliver what they owe and hand their flows back; returns when they have ended.
    pub fn stop(self) -> Result<(), LabError> {
        let Self { running: [a, b], _notes, .. } = self;
        a.stop().and(b.stop())
    }
}

impl Orders {
    /// Hands a subscriber over from a box to the other, and waits for the end.
    ///
    /// # Errors
    /// Message of the command.
    pub fn hand_over(&self, subscriber: std::net::IpAddr, from: usize) -> Result<Said, String> {
        let subscriber = subscriber.to_string();
        let said = self.ask(&["handover", &subscriber, "--to", NAMES[1 - from], &self.names[from]])?;
        parse(&said).ok_or_else(|| format!("`cellerator handover` said what nobody understands: {said}"))
    }

    /// A counter of a box, as `cellerator status --json` names it.
    pub fn counter(&self, number: usize, name: &str) -> Result<Option<u64>, LabError> {
        let said = self.ask(&["status", "--json", &self.names[number]]);
        let said =
            said.map_err(|message| LabError::Program { program: "cellerator status".to_owned(), message })?;
        let status: serde_json::Value = serde_json::from_str(&said).unwrap_or_default();
        Ok(status["counters"][name].as_u64())
    }

    fn ask(&self, arguments: &[&str]) -> Result<String, String> {
        let mut command = Command::new(&self.program);
        command.args(arguments).stdin(Stdio::null());
        let output = command.output().map_err(|error| error.to_string())?;
        let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).trim().to_owned();
        if output.status.success() { Ok(text(&output.stdout)) } else { Err(text(&output.stderr)) }
    }
}

/// A key and a certificate that this box signs itself.
fn certify(name: &str, directory: &Path) -> Result<(), LabError> {
    let of = |end: &str| directory.join(format!("box-{name}.{end}"));
    let mut command = Command::new("openssl");
    command.args(["req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes"]);
    command.args(["-days", "2", "-subj", "/CN=box", "-keyout"]).arg(of("key")).arg("-out").arg(of("pem"));
    let output = command.stdin(Stdio::null()).output().doing(|| "run openssl".to_owned())?;
    if output.status.success() && fs::metadata(of("pem")).is_ok() {
        return Ok(());
    }
    let message = String::from_utf8_lossy(&output.stderr).trim().to_owned();
    Err(LabError::Program { program: "openssl".to_owned(), message })
}

/// Reads `NAME: N flows moved, with N bytes of held data; asked for T, copied for T, nobody's for T`.
fn parse(line: &str) -> Option<Said> {
    let before = |word: &str| line.split_once(word)?.0.rsplit([' ', ':']).find(|part| !part.is_empty());
    let after = |word: &str| {
        let rest = line.split_once(word)?.1;
        let time = rest.split([',', ';', '\n']).next()?.trim().replace('µ', "u");
        time.parse::<Quantity<Duration>>().ok().map(|time| time.0.as_millis_f64())
    };
    Some(Said {
        flows: before(" flows moved")?.parse().ok()?,
        bytes: before(" bytes of held data")?.parse().ok()?,
        left_bytes: 0,
        phases_ms: [after("asked for ")?, after("copied for ")?, after("nobody's for ")?],
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_the_command_says_is_read() {
        let line = "moves-7-a: 2 flows moved, with 31000 bytes of held data; asked for 20.500 ms, copied for 900 ns, \
                    nobody's for 1.250 s";
        let said = parse(line).unwrap();
        assert_eq!((said.flows, said.bytes), (2, 31_000));
        let [asked, copied, frozen] = said.phases_ms;
        assert!(
            (asked - 20.5).abs() < 1e-9 && (copied - 0.0009).abs() < 1e-9 && (frozen - 1_250.0).abs() < 1e-9
        );
        assert!(parse("moves-7-a: stayed").is_none());
        let micro = parse(&line.replace("900 ns", "12.500 µs")).unwrap();
        assert!((micro.phases_ms[1] - 0.0125).abs() < 1e-9);
    }
}
