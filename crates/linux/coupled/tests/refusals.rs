//! What the kernel's verifier refuses is one line, with the whole of its log behind it. As root.

use std::path::Path;

use io::IoError;
use io::bpf::{Load, Object};

/// The program as it is shipped.
static ELF: &[u8] = include_bytes!(concat!(env!("OUT_DIR"), "/coupled.bpf.o"));
/// `exit`.
const EXIT: [u8; 8] = [0x95, 0, 0, 0, 0, 0, 0, 0];
/// `r0 = r1`.
const COPY: [u8; 8] = [0xbf, 0x10, 0, 0, 0, 0, 0, 0];

/// False, with a line that says why, where the kernel does not take such programs.
fn is_possible() -> bool {
    let needs = io::features::require(io::features::Feature::Bpf)
        .and_then(|()| io::bpf::require_congestion_control(None));
    needs.inspect_err(|error| eprintln!("left out: {error}")).is_ok()
}

fn load(elf: &[u8], btf: Option<&Path>) -> Result<Object, IoError> {
    Object::load_with(&Load {
        name: "coupled",
        elf,
        constants: &[0; 8],
        congestion_control: Some(("coupled", "c_refused")),
        btf,
        ..Load::default()
    })
}

/// The error is a line, and the log says `words`.
fn assert_told(error: &IoError, words: &str) {
    let line = error.to_string();
    assert_eq!(line.lines().count(), 1, "{line}");
    assert!(
        line.starts_with("cannot load the BPF programs 'coupled': the kernel's verifier says: "),
        "{line}"
    );
    let log = error.log().expect("the verifier's log");
    assert!(log.contains("-- BEGIN PROG LOAD LOG --") && log.contains(words), "{log}");
}

#[test]
fn a_program_that_runs_beyond_its_end_is_refused_with_the_verifiers_reason() {
    if !is_possible() {
        return;
    }
    let mut broken = ELF.to_vec();
    let instructions = broken.as_chunks_mut::<8>().0;
    let exit = instructions.iter_mut().find(|one| **one == EXIT).expect("a function ends");
    *exit = COPY;
    load(ELF, None).expect("it is taken as it is");
    let error = load(&broken, None).unwrap_err();
    assert!(error.to_string().ends_with("last insn is not an exit or jmp"), "{error}");
    assert_told(&error, "coupled_init");
}

/// A kernel in whose types a field is missing: libbpf puts a call that the verifier refuses where it is read.
#[test]
fn a_kernel_without_a_field_is_told_by_the_fields_name() {
    if !is_possible() {
        return;
    }
    let mut types = std::fs::read("/sys/kernel/btf/vmlinux").expect("the kernel's types");
    let field = b"\0snd_cwnd\0";
    let at = types.windows(field.len()).position(|one| one == field).expect("the field's name");
    types[at + 1] = b'x';
    let file = tempfile::NamedTempFile::new().unwrap().into_temp_path();
    std::fs::write(&file, &types).unwrap();
    assert_told(&load(ELF, Some(&file)).unwrap_err(), "snd_cwnd");
}
