//! [`PerSubflow`]: time-outs and keep-alives of MPTCP subflows alone, set by a BPF program.
//!
//! `setsockopt` refuses these on MPTCP sockets, and sysctls reach every connection of the host. The kernel calls a
//! `sock_ops` program when a TCP connection is established; it may set them on the one socket:
//!
//! ```text
//!   established, in this network namespace, a subflow of an MPTCP connection?
//!       SO_KEEPALIVE, TCP_KEEPIDLE, TCP_KEEPINTVL, TCP_KEEPCNT     its NAT mapping stays
//!       TCP_RTO_MAX_MS, TCP_USER_TIMEOUT                           it is used again soon after a return
//! ```
//!
//! The program ends with the daemon, however that ends. Subflows that it has set keep what they have.

use io::bpf::{Attachment, Helper, Instruction, Program, Register, Width, for_new_subflows, root_group};
use io::{IoError, Namespace};
use units::Duration;

use crate::profile::{KEEP_ALIVE_INTERVAL_S, KEEP_ALIVE_PROBES, RETRIES, RTO_MAX_MS};

const SO_KEEPALIVE: i32 = 9;
const TCP_KEEPIDLE: i32 = 4;
const TCP_KEEPINTVL: i32 = 5;
const TCP_KEEPCNT: i32 = 6;
const TCP_USER_TIMEOUT: i32 = 18;
/// Linux 6.15; older kernels refuse it, and the other options are set all the same.
const TCP_RTO_MAX_MS: i32 = 44;

/// The program at work.
#[derive(Debug)]
pub(crate) struct PerSubflow {
    _attachment: Attachment,
}

impl PerSubflow {
    /// Makes the kernel set subflows of this network namespace that are established from now on.
    ///
    /// # Errors
    /// Without the privilege, or where the kernel has no BPF.
    pub fn start(keep_alive: Duration) -> Result<Self, IoError> {
        io::features::require(io::features::Feature::Bpf)?;
        let namespace = Namespace::current()?.cookie()?;
        let program =
            Program::load_socket_operations("cellerator_mp", &instructions(namespace, keep_alive)?)?;
        Ok(Self { _attachment: program.attach_to_group(&root_group()?)? })
    }
}

/// Level, option and value of each that is set.
fn options(keep_alive: Duration) -> [(i32, i32, i32); 6] {
    let number = |n: u64| i32::try_from(n).unwrap_or(i32::MAX);
    [
        (libc::SOL_SOCKET, SO_KEEPALIVE, 1),
        (libc::IPPROTO_TCP, TCP_KEEPIDLE, number(keep_alive.as_secs().max(1))),
        (libc::IPPROTO_TCP, TCP_KEEPINTVL, number(KEEP_ALIVE_INTERVAL_S)),
        (libc::IPPROTO_TCP, TCP_KEEPCNT, number(KEEP_ALIVE_PROBES)),
        (libc::IPPROTO_TCP, TCP_RTO_MAX_MS, number(RTO_MAX_MS)),
        // What as many retries take.
        (libc::IPPROTO_TCP, TCP_USER_TIMEOUT, number(RTO_MAX_MS * RETRIES)),
    ]
}

fn instructions(namespace: u64, keep_alive: Duration) -> Result<Vec<Instruction>, IoError> {
    use Register::{R1, R2, R3, R4, R5, R6, R10};
    for_new_subflows(namespace, |a| {
        for (level, option, value) in options(keep_alive) {
            a.store_number(Width::Word, R10, -4, value);
            a.copy(R1, R6);
            a.set(R2, level);
            a.set(R3, option);
            a.point(R4, R10, -4);
            a.set(R5, 4);
            // What is refused stays as it is.
            a.call(Helper::SetSocketOption);
        }
    })
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
        let program = instructions(1, Duration::from_secs(50)).unwrap();
        Program::load_socket_operations("cellerator_mp", &program).unwrap();
    }

    #[test]
    fn keep_alives_begin_before_the_carriers_time_out_and_never_at_once() {
        let idle = |time| options(time).into_iter().find(|(_, o, _)| *o == TCP_KEEPIDLE).map(|(.., v)| v);
        assert_eq!(idle(Duration::from_secs(50)), Some(50));
        assert_eq!(idle(Duration::from_millis(1)), Some(1));
    }
}
