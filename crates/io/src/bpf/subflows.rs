//! [`for_new_subflows`]: a `sock_ops` program that does something with each subflow of MPTCP, and with nothing else.

use super::{Assembler, Condition, Helper, Instruction, Register, Width};
use crate::IoError;

/// Offsets in `struct bpf_sock_ops`.
const OPERATION: i16 = 0;
const SOCKET: i16 = 184;
/// `BPF_SOCK_OPS_ACTIVE_ESTABLISHED_CB` and `BPF_SOCK_OPS_PASSIVE_ESTABLISHED_CB`.
const ESTABLISHED: [i32; 2] = [4, 5];

/// Instructions for [`super::Program::load_socket_operations`]:
///
/// ```text
///   established, in the network namespace with this cookie, a subflow of an MPTCP connection?
///       what `each` writes, with the context in R6
/// ```
///
/// # Errors
/// When `each` has written what cannot be put together.
pub fn for_new_subflows(
    namespace_cookie: u64,
    each: impl FnOnce(&mut Assembler),
) -> Result<Vec<Instruction>, IoError> {
    use Register::{R0, R1, R2, R6, R7};
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
    a.set_wide(R7, namespace_cookie);
    a.jump_if_register(Condition::Differs, R0, R7, end);
    a.load(Width::Double, R1, R6, SOCKET);
    a.jump_if(Condition::Equal, R1, 0, end);
    a.call(Helper::MptcpConnection);
    a.jump_if(Condition::Equal, R0, 0, end);
    each(&mut a);
    a.place(end);
    a.set(R0, 1);
    a.exit();
    a.finish()
}
