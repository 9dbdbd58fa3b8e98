//! [`for_new_subflows`], [`for_new_connections`]: a `sock_ops` program that does something with each connection of a
//! kind when it is established, and with nothing else.

use super::{Assembler, Condition, Helper, Instruction, Label, Register, Width};
use crate::IoError;

/// Offsets in `struct bpf_sock_ops`.
const OPERATION: i16 = 0;
const LOCAL_PORT: i16 = 68;
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
    assembled(namespace_cookie, |a, end| {
        is_subflow(a, Condition::Equal, end);
        each(a);
    })
}

/// Connections that [`for_new_connections`] applies to.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub struct Selection {
    /// Only those with this local port.
    pub local_port: Option<u16>,
    /// Subflows of MPTCP are left out; for a kernel that has MPTCP.
    pub leaves_subflows: bool,
}

/// The same for the connections of a selection.
///
/// # Errors
/// When `each` has written what cannot be put together.
pub fn for_new_connections(
    namespace_cookie: u64,
    selection: Selection,
    each: impl FnOnce(&mut Assembler),
) -> Result<Vec<Instruction>, IoError> {
    assembled(namespace_cookie, |a, end| {
        if let Some(port) = selection.local_port {
            a.load(Width::Word, Register::R2, Register::R6, LOCAL_PORT);
            a.jump_if(Condition::Differs, Register::R2, port.into(), end);
        }
        if selection.leaves_subflows {
            is_subflow(a, Condition::Differs, end);
        }
        each(a);
    })
}

/// Goes to `end` where the number of the MPTCP connection is zero, or is not.
fn is_subflow(a: &mut Assembler, to_end: Condition, end: Label) {
    use Register::{R0, R1, R6};
    a.load(Width::Double, R1, R6, SOCKET);
    a.jump_if(Condition::Equal, R1, 0, end);
    a.call(Helper::MptcpConnection);
    a.jump_if(to_end, R0, 0, end);
}

fn assembled(
    namespace_cookie: u64,
    rest: impl FnOnce(&mut Assembler, Label),
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
    rest(&mut a, end);
    a.place(end);
    a.set(R0, 1);
    a.exit();
    a.finish()
}
