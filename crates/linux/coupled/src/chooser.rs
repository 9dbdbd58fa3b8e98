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

use io::bpf::{Attachment, Instruction, Program, choose_congestion_control, for_new_subflows, root_group};
use io::{IoError, Namespace};

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
    for_new_subflows(namespace, |a| choose_congestion_control(a, name))
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
