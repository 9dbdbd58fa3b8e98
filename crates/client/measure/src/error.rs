//! [`MeasureError`]: why there is no measurement, in one line that says what to do.

use probe::{Failure, Refusal, VERSION};
use units::{Bytes, Duration, Rate};

/// Reason why there is no measurement.
#[derive(Debug, thiserror::Error)]
pub enum MeasureError {
    /// The name of the server has no address.
    #[error("cannot find {host}: {why}")]
    Name {
        /// As given.
        host: String,
        /// Message of the resolver.
        why: String,
    },
    /// The server does not answer at all.
    #[error(
        "no answer from {server} (UDP): start `cellerator probe server` there, and let the port through its \
         firewall"
    )]
    Unanswered {
        /// Name and address.
        server: String,
    },
    /// The server's host says that nobody listens.
    #[error("nothing listens at {server} (UDP): start `cellerator probe server` there, or give its --port")]
    NobodyListens {
        /// Name and address.
        server: String,
    },
    /// No way there.
    #[error("cannot reach {server}: {why}")]
    Unreachable {
        /// Name and address.
        server: String,
        /// Message of the system.
        why: String,
    },
    /// The server fell silent.
    #[error("{server} does not answer any more")]
    Gone {
        /// Name and address.
        server: String,
    },
    /// The server says no.
    #[error("{server}: {why}")]
    Refused {
        /// Name and address.
        server: String,
        /// Reason, and what to do.
        why: String,
    },
    /// A round trip is as long as the delay that was to be above it.
    #[error(
        "--delay {delay} is not above the path's round trip, which is up to {rtt}: an acknowledgement that comes \
         early could not be told from one that does not"
    )]
    Delay {
        /// As given.
        delay: Duration,
        /// The longest that was measured.
        rtt: Duration,
    },
    /// Acknowledgements were to be delayed for longer than the server watches for them.
    #[error(
        "--delay {delay} is too long for this server: at most {most}, or start it with a larger --time-max"
    )]
    LongDelay {
        /// As given.
        delay: Duration,
        /// The longest.
        most: Duration,
    },
    /// The path's MTU is below the packets of a load.
    #[error(
        "packets of {packet} bytes do not come through, though small ones do: the path's MTU is smaller \
         (`cellerator probe sweep` finds it), give a smaller --packet"
    )]
    LongPackets {
        /// Bytes of each IP packet.
        packet: u16,
    },
    /// The user has stopped it.
    #[error("interrupted")]
    Interrupted,
    /// The system refuses something.
    #[error(transparent)]
    Io(#[from] io::IoError),
}

impl MeasureError {
    /// Of a session with `server` that failed.
    pub(crate) fn of(failure: Failure, server: &str) -> Self {
        let server = server.to_owned();
        match failure {
            Failure::Unanswered => Self::Unanswered { server },
            Failure::Gone => Self::Gone { server },
            Failure::WrongKey => Self::Refused { server, why: refusal(Refusal::WrongKey, 0, VERSION) },
            Failure::Refused { reason, detail, version } => {
                Self::Refused { server, why: refusal(reason, detail, version) }
            }
        }
    }
}

/// Meaning of a refusal, and what to do about it.
#[must_use]
pub fn refusal(reason: Refusal, detail: u64, version: u8) -> String {
    match reason {
        Refusal::Version => format!(
            "the server speaks version {version} of the protocol, this program version {VERSION}: use the same \
             version of cellerator at both ends"
        ),
        Refusal::WrongKey => {
            "wrong key: give the server's key with --key-file, or none where the server has none".to_owned()
        }
        Refusal::Overloaded => {
            format!("the server is overloaded: it has all of its {detail} sessions, try again in a minute")
        }
        Refusal::TooMany => format!(
            "the server takes {detail} sessions at once from one address: end another measurement, or wait 30 s"
        ),
        Refusal::Cookie => "the server does not know the cookie it gave: try again".to_owned(),
        Refusal::NoSession => {
            "the server does not know the session any more: it was restarted, or heard nothing for 30 s"
                .to_owned()
        }
        Refusal::Rate => format!(
            "the server allows at most {} in a run: ask for less, or start it with a larger --rate-max",
            Rate::from_bps(detail)
        ),
        Refusal::Time => format!(
            "the server allows at most {} a run: ask for less, or start it with a larger --time-max",
            Duration::from_millis(detail)
        ),
        Refusal::Volume => format!(
            "the server allows {} per hour and client, which are used up: wait, or start it with a larger \
             --volume-max",
            Bytes::new(detail)
        ),
        Refusal::Senseless => "the server refuses a run with these settings".to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_failure_is_one_line_that_says_what_to_do() {
        let failures = [
            Failure::Unanswered,
            Failure::Gone,
            Failure::WrongKey,
            Failure::Refused { reason: Refusal::Version, detail: 1, version: 7 },
            Failure::Refused { reason: Refusal::Overloaded, detail: 64, version: 1 },
        ];
        let lines =
            failures.map(|failure| MeasureError::of(failure, "example (192.0.2.1 port 7311)").to_string());
        assert!(
            lines
                .iter()
                .all(|line| line.starts_with("no answer from") || line.contains("example (192.0.2.1"))
        );
        assert!(lines.iter().all(|line| !line.contains('\n')));
        assert!(lines[3].contains("version 7 of the protocol, this program version 1"), "{}", lines[3]);
        assert!(lines[4].contains("overloaded") && lines[4].contains("64"), "{}", lines[4]);
    }
}
