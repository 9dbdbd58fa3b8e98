//! [`Assembler`]: BPF instructions in the order in which they are written, with labels to jump to.
//!
//! Source of the encoding: RFC 9669 (BPF Instruction Set Architecture), and Linux's
//! `include/uapi/linux/bpf.h` for helpers and maps.

use std::os::fd::{AsFd, AsRawFd};

use crate::IoError;

/// A register. A call takes its arguments in `R1` to `R5`, gives its result in `R0` and spoils all
/// six; the others stay.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
#[allow(missing_docs)] // The names say all.
pub enum Register {
    R0,
    R1,
    R2,
    R3,
    R4,
    R5,
    R6,
    R7,
    R8,
    R9,
    /// The end of the program's 512 bytes of stack; what lies there has a negative offset.
    R10,
}

/// Width of memory that an instruction reads or writes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum Width {
    /// 1 byte.
    Byte = 0x10,
    /// 2 bytes.
    Half = 0x08,
    /// 4 bytes.
    Word = 0x00,
    /// 8 bytes.
    Double = 0x18,
}

/// Operation on 64 bits.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum Operation {
    /// The sum.
    Add = 0x00,
    /// The product's lower bits.
    Multiply = 0x20,
    /// The bits that either has.
    Or = 0x40,
    /// The bits that both have.
    And = 0x50,
    /// Shifted towards the higher bits.
    ShiftLeft = 0x60,
    /// Shifted towards the lower bits, zeros in front.
    ShiftRight = 0x70,
    /// The bits that one of them has.
    ExclusiveOr = 0xa0,
    /// The second one itself.
    Set = 0xb0,
}

/// Condition of a jump, of unsigned numbers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum Condition {
    /// The first equals the second.
    Equal = 0x10,
    /// The first is above the second.
    Above = 0x20,
    /// The first is the second or above it.
    AtLeast = 0x30,
    /// They have a bit in common.
    HasAny = 0x40,
    /// They differ.
    Differs = 0x50,
    /// The first is below the second.
    Below = 0xa0,
}

/// A function of the kernel's that programs may call.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(i32)]
pub enum Helper {
    /// `R1` map, `R2` pointer to a key: pointer to its value, or 0.
    MapLookup = 1,
    /// `R1` map, `R2` pointer to a key, `R3` pointer to a value, `R4` flags: 0 when it is there.
    MapUpdate = 2,
    /// `R1` map, `R2` pointer to a key: 0 when it was there and is deleted.
    MapDelete = 3,
    /// `R1` number of an interface, `R2` flags: the verdict that sends the packet there.
    Redirect = 23,
    /// `R1` context, `R2` level, `R3` option, `R4` pointer to its value, `R5` the value's length: 0 when it is
    /// set.
    SetSocketOption = 49,
    /// `R1` context, `R2` offset, `R3` where to, `R4` length, `R5` 1 for the network header: 0 when
    /// it was copied.
    LoadBytesRelative = 68,
    /// `R1` context, `R2` `struct bpf_fib_lookup`, `R3` its length, `R4` flags: 0 when it would be forwarded.
    FibLookup = 69,
    /// `R1` context: the number of the socket's network namespace, as `SO_NETNS_COOKIE` gives it.
    NamespaceCookie = 122,
    /// Nanoseconds of `CLOCK_MONOTONIC_COARSE`, which may be a timer tick behind.
    CoarseTime = 160,
    /// `R1` pointer to a socket: pointer to the MPTCP connection whose subflow it is, or 0.
    MptcpConnection = 196,
}

/// One instruction as the kernel reads it (`struct bpf_insn`).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[repr(C)]
pub struct Instruction {
    code: u8,
    registers: u8,
    offset: i16,
    number: i32,
}

/// A place in the program.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Label(usize);

const CLASS_LOAD: u8 = 0x00;
const CLASS_LOAD_REGISTER: u8 = 0x01;
const CLASS_STORE: u8 = 0x02;
const CLASS_STORE_REGISTER: u8 = 0x03;
const CLASS_JUMP: u8 = 0x05;
const CLASS_CALCULATE: u8 = 0x07;
const MODE_IMMEDIATE_64: u8 = 0x18;
const MODE_MEMORY: u8 = 0x60;
const MODE_ATOMIC: u8 = 0xc0;
const SOURCE_REGISTER: u8 = 0x08;
const JUMP_ALWAYS: u8 = 0x00;
const JUMP_CALL: u8 = 0x80;
const JUMP_EXIT: u8 = 0x90;
/// The 64-bit number is the descriptor of a map (`BPF_PSEUDO_MAP_FD`).
const IS_MAP: u8 = 1;
/// The same, and the offset of a place in its only element (`BPF_PSEUDO_MAP_VALUE`).
const IS_MAP_VALUE: u8 = 2;

/// Builds a program.
#[derive(Clone, Debug, Default)]
pub struct Assembler {
    instructions: Vec<Instruction>,
    /// Place of each label.
    places: Vec<Option<usize>>,
    /// Jumps: each instruction, and its label.
    jumps: Vec<(usize, Label)>,
}

impl Assembler {
    /// An empty program.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// A label to place later.
    pub fn label(&mut self) -> Label {
        self.places.push(None);
        Label(self.places.len() - 1)
    }

    /// Places `label` before the next instruction; the last placing counts.
    pub fn place(&mut self, label: Label) {
        if let Some(place) = self.places.get_mut(label.0) {
            *place = Some(self.instructions.len());
        }
    }

    fn push(&mut self, code: u8, (to, from): (u8, u8), offset: i16, number: i32) {
        self.instructions.push(Instruction { code, registers: from << 4 | to, offset, number });
    }

    /// `to = to OPERATION number`.
    pub fn calculate(&mut self, operation: Operation, to: Register, number: i32) {
        self.push(CLASS_CALCULATE | operation as u8, (to as u8, 0), 0, number);
    }

    /// `to = to OPERATION from`.
    pub fn calculate_with(&mut self, operation: Operation, to: Register, from: Register) {
        self.push(CLASS_CALCULATE | SOURCE_REGISTER | operation as u8, (to as u8, from as u8), 0, 0);
    }

    /// `to = number`.
    pub fn set(&mut self, to: Register, number: i32) {
        self.calculate(Operation::Set, to, number);
    }

    /// `to = from`.
    pub fn copy(&mut self, to: Register, from: Register) {
        self.calculate_with(Operation::Set, to, from);
    }

    /// `to = base + offset`, as a pointer.
    pub fn point(&mut self, to: Register, base: Register, offset: i16) {
        self.copy(to, base);
        self.calculate(Operation::Add, to, i32::from(offset));
    }

    /// `to = number`, with all its 64 bits.
    pub fn set_wide(&mut self, to: Register, number: u64) {
        self.wide(to, 0, number as u32 as i32, (number >> 32) as u32 as i32);
    }

    /// `to =` the map, for a call.
    pub fn set_map(&mut self, to: Register, map: &impl AsFd) {
        self.wide(to, IS_MAP, map.as_fd().as_raw_fd(), 0);
    }

    /// `to =` a pointer into the only element of an array, `offset` bytes from its start.
    pub fn set_map_value(&mut self, to: Register, map: &impl AsFd, offset: i32) {
        self.wide(to, IS_MAP_VALUE, map.as_fd().as_raw_fd(), offset);
    }

    fn wide(&mut self, to: Register, kind: u8, low: i32, high: i32) {
        self.push(CLASS_LOAD | MODE_IMMEDIATE_64, (to as u8, kind), 0, low);
        self.push(0, (0, 0), 0, high);
    }

    /// `to = *(base + offset)`.
    pub fn load(&mut self, width: Width, to: Register, base: Register, offset: i16) {
        self.push(CLASS_LOAD_REGISTER | MODE_MEMORY | width as u8, (to as u8, base as u8), offset, 0);
    }

    /// `*(base + offset) = from`.
    pub fn store(&mut self, width: Width, base: Register, offset: i16, from: Register) {
        self.push(CLASS_STORE_REGISTER | MODE_MEMORY | width as u8, (base as u8, from as u8), offset, 0);
    }

    /// `*(base + offset) = number`.
    pub fn store_number(&mut self, width: Width, base: Register, offset: i16, number: i32) {
        self.push(CLASS_STORE | MODE_MEMORY | width as u8, (base as u8, 0), offset, number);
    }

    /// `*(base + offset) += from`, 8 bytes, whoever else does the same at the same time.
    pub fn add_atomically(&mut self, base: Register, offset: i16, from: Register) {
        let code = CLASS_STORE_REGISTER | MODE_ATOMIC | Width::Double as u8;
        self.push(code, (base as u8, from as u8), offset, Operation::Add as i32);
    }

    /// Goes on at `label`.
    pub fn jump(&mut self, label: Label) {
        self.jumps.push((self.instructions.len(), label));
        self.push(CLASS_JUMP | JUMP_ALWAYS, (0, 0), 0, 0);
    }

    /// Goes on at `label` if `first CONDITION number`.
    pub fn jump_if(&mut self, condition: Condition, first: Register, number: i32, label: Label) {
        self.jumps.push((self.instructions.len(), label));
        self.push(CLASS_JUMP | condition as u8, (first as u8, 0), 0, number);
    }

    /// Goes on at `label` if `first CONDITION second`.
    pub fn jump_if_register(
        &mut self,
        condition: Condition,
        first: Register,
        second: Register,
        label: Label,
    ) {
        self.jumps.push((self.instructions.len(), label));
        self.push(CLASS_JUMP | SOURCE_REGISTER | condition as u8, (first as u8, second as u8), 0, 0);
    }

    /// Calls a function of the kernel's.
    pub fn call(&mut self, helper: Helper) {
        self.push(CLASS_JUMP | JUMP_CALL, (0, 0), 0, helper as i32);
    }

    /// Ends the program with `R0` as its verdict.
    pub fn exit(&mut self) {
        self.push(CLASS_JUMP | JUMP_EXIT, (0, 0), 0, 0);
    }

    /// The program, with all jumps led to their labels.
    ///
    /// # Errors
    /// When a label is not placed, or too far away.
    pub fn finish(mut self) -> Result<Vec<Instruction>, IoError> {
        for (at, label) in self.jumps {
            let place = self.places.get(label.0).copied().flatten();
            let distance = place.and_then(|place| i16::try_from(place as i64 - at as i64 - 1).ok());
            match (self.instructions.get_mut(at), distance) {
                (Some(instruction), Some(distance)) => instruction.offset = distance,
                _ => {
                    return Err(IoError::Invalid {
                        what: format!("jump at instruction {at} of a BPF program"),
                        why: "its label is not placed, or more than 32,767 instructions away".to_owned(),
                    });
                }
            }
        }
        Ok(self.instructions)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// An instruction as 8 bytes on a little-endian machine.
    fn bytes(instruction: Instruction) -> [u8; 8] {
        let ([o0, o1], [n0, n1, n2, n3]) =
            (instruction.offset.to_le_bytes(), instruction.number.to_le_bytes());
        [instruction.code, instruction.registers, o0, o1, n0, n1, n2, n3]
    }

    #[test]
    fn instructions_are_encoded_as_the_standard_says() {
        let mut a = Assembler::new();
        a.copy(Register::R6, Register::R1);
        a.set(Register::R0, -1);
        a.load(Width::Word, Register::R2, Register::R6, 16);
        a.store(Width::Double, Register::R10, -8, Register::R2);
        a.store_number(Width::Byte, Register::R10, -1, 7);
        a.add_atomically(Register::R1, 64, Register::R2);
        a.call(Helper::Redirect);
        a.exit();
        let made: Vec<[u8; 8]> = a.finish().unwrap().into_iter().map(bytes).collect();
        // As clang and llvm-objdump show them.
        assert_eq!(
            made,
            [
                [0xbf, 0x16, 0, 0, 0, 0, 0, 0],
                [0xb7, 0x00, 0, 0, 0xff, 0xff, 0xff, 0xff],
                [0x61, 0x62, 16, 0, 0, 0, 0, 0],
                [0x7b, 0x2a, 0xf8, 0xff, 0, 0, 0, 0],
                [0x72, 0x0a, 0xff, 0xff, 7, 0, 0, 0],
                [0xdb, 0x21, 64, 0, 0, 0, 0, 0],
                [0x85, 0x00, 0, 0, 23, 0, 0, 0],
                [0x95, 0x00, 0, 0, 0, 0, 0, 0],
            ]
        );
    }

    #[test]
    fn wide_numbers_take_two_instructions_and_jumps_count_both() {
        let mut a = Assembler::new();
        let (back, end) = (a.label(), a.label());
        a.place(back);
        a.jump_if(Condition::Equal, Register::R1, 5, end);
        a.set_wide(Register::R2, 0x1_0000_0002);
        a.jump_if_register(Condition::Above, Register::R2, Register::R1, back);
        a.place(end);
        a.exit();
        let made: Vec<[u8; 8]> = a.finish().unwrap().into_iter().map(bytes).collect();
        assert_eq!(made[0], [0x15, 0x01, 3, 0, 5, 0, 0, 0]);
        assert_eq!((made[1], made[2]), ([0x18, 0x02, 0, 0, 2, 0, 0, 0], [0, 0, 0, 0, 1, 0, 0, 0]));
        assert_eq!(made[3], [0x2d, 0x12, 0xfc, 0xff, 0, 0, 0, 0]);
    }

    #[test]
    fn a_label_without_a_place_is_an_error() {
        let mut a = Assembler::new();
        let nowhere = a.label();
        a.jump(nowhere);
        let said = a.finish().unwrap_err().to_string();
        assert!(said.contains("instruction 0") && said.contains("not placed"), "{said}");
    }
}
