//! [`Chooser`]: has the subflows of MPTCP, and no other connection, use a congestion control.
//!
//! The sysctl `tcp_congestion_control` would reach every connection of the network namespace, and outlive a killed
//! process. The kernel calls a `sock_ops` program when a TCP connection is established:
//!
//! ```text
//!   established, in this network namespace, a subflow of an MPTCP connection?
//!       TCP_CONGESTION = the name
//! ```
//!
//! The program ends with the process, however that ends. Subflows that it has set keep what they have.

use io::bpf::{Attachment, Helper, Instruction, Program, Register, Width, for_new_subflows, root_group};
use io::{IoError, Namespace};

/// `IPPROTO_TCP`, `TCP_CONGESTION`.
const LEVEL: i32 = 6;
const TCP_CONGESTION: i32 = 13;
/// `TCP_CA_NAME_MAX`.
const NAME_LEN: usize = 16;

/// The program at work.
#[derive(Debug)]
pub struct Chooser {
    _attachment: Attachment,
}

impl Chooser {
    /// Has subflows of this network namespace that are established from now on use the congestion control `name`.
    ///
    /// # Errors
    /// Without the privilege, or where the kernel has no BPF.
    pub fn start(name: &str) -> Result<Self, IoError> {
        io::features::require(io::features::Feature::Bpf)?;
        let program = instructions(Namespace::current()?.cookie()?, name)?;
        let program = Program::load_socket_operations("cellerator_cc", &program)?;
        Ok(Self { _attachment: program.attach_to_group(&root_group()?)? })
    }
}

fn instructions(namespace: u64, name: &str) -> Result<Vec<Instruction>, IoError> {
    use Register::{R1, R2, R3, R4, R5, R6, R10};
    let mut bytes = name.as_bytes().to_vec();
    bytes.resize(NAME_LEN, 0);
    for_new_subflows(namespace, |a| {
        for (word, offset) in bytes.chunks_exact(4).zip((-16_i16..).step_by(4)) {
            let word = i32::from_ne_bytes([word[0], word[1], word[2], word[3]]);
            a.store_number(Width::Word, R10, offset, word);
        }
        a.copy(R1, R6);
        a.set(R2, LEVEL);
        a.set(R3, TCP_CONGESTION);
        a.point(R4, R10, -16);
        a.set(R5, NAME_LEN as i32);
        // What is refused stays as it is.
        a.call(Helper::SetSocketOption);
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
        Program::load_socket_operations("cellerator_cc", &instructions(1, "fully_coupled").unwrap()).unwrap();
    }
}
