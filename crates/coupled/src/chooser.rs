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

use io::bpf::{Assembler, Attachment, Condition, Helper, Instruction, Program, Register, Width, root_group};
use io::{IoError, Namespace};

/// Offsets in `struct bpf_sock_ops`.
const OPERATION: i16 = 0;
const SOCKET: i16 = 184;
/// `BPF_SOCK_OPS_ACTIVE_ESTABLISHED_CB` and `BPF_SOCK_OPS_PASSIVE_ESTABLISHED_CB`.
const ESTABLISHED: [i32; 2] = [4, 5];
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
    use Register::{R0, R1, R2, R3, R4, R5, R6, R7, R10};
    let mut bytes = name.as_bytes().to_vec();
    bytes.resize(NAME_LEN, 0);
    let mut a = Assembler::new();
    let (is_established, end) = (a.label(), a.label());
    a.copy(R6, R1);
    a.load(Width::Word, R2, R6, OPERATION);
    for operation in ESTABLISHED {
        a.jump_if(Condition::Equal, R2, operation, is_established);
    }
    a.jump(end);
    a.place(is_established);
    // R1 is still the context.
    a.call(Helper::NamespaceCookie);
    a.set_wide(R7, namespace);
    a.jump_if_register(Condition::Differs, R0, R7, end);
    a.load(Width::Double, R1, R6, SOCKET);
    a.jump_if(Condition::Equal, R1, 0, end);
    a.call(Helper::MptcpConnection);
    a.jump_if(Condition::Equal, R0, 0, end);
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
    a.place(end);
    a.set(R0, 1);
    a.exit();
    a.finish()
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
