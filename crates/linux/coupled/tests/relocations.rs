//! CO-RE: the program finds its fields in the structures of other kernels. As root.
//!
//! The files in `btf/` describe the structures that it uses, as two of Debian's kernels have them. Each was made from
//! the `.BTF` section of a kernel image:
//!
//! ```text
//!   apt-get download linux-image-6.12.107+deb13-cloud-amd64      # Debian 13; of Debian 12: linux-image-6.1.0-53-cloud-amd64
//!   objcopy --dump-section .BTF=kernel.btf vmlinux /dev/null     # vmlinux, unpacked from the image's vmlinuz
//!   bpftool gen min_core_btf kernel.btf debian-13-linux-6.12.btf coupled.bpf.o
//! ```

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use coupled::SchemeProgram;

/// The call that libbpf puts where a relocation found nothing: bad_relo.
const POISON: u32 = 0x0bad_2310;

fn described(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/btf").join(name)
}

fn relocated(btf: Option<&Path>) -> BTreeMap<String, Vec<u64>> {
    let programs = SchemeProgram::relocated(btf).expect("as root, on a kernel with BTF");
    for (name, instructions) in &programs {
        assert!(!instructions.is_empty());
        let poisoned = instructions.iter().position(|one| (one >> 32) as u32 == POISON);
        assert_eq!(poisoned, None, "{name}: an instruction could not be relocated");
    }
    programs.into_iter().collect()
}

/// False, with a line that says why, where the kernel does not take such programs: libbpf looks there too.
fn is_possible() -> bool {
    let needs = io::bpf::require_congestion_control(None);
    needs.inspect_err(|error| eprintln!("left out: {error}")).is_ok()
}

#[test]
fn it_is_relocated_for_the_kernels_of_two_debians() {
    if !is_possible() {
        return;
    }
    let running = relocated(None);
    let twelve = relocated(Some(&described("debian-12-linux-6.1.btf")));
    let thirteen = relocated(Some(&described("debian-13-linux-6.12.btf")));
    for name in
        ["coupled_init", "coupled_release", "coupled_cong_avoid", "coupled_ssthresh", "coupled_undo_cwnd"]
    {
        let all = [&running[name], &twelve[name], &thirteen[name]];
        assert!(all.iter().all(|one| one.len() == all[0].len()), "{name}: only offsets differ");
    }
    // Fields of struct tcp_sock were moved in Linux 6.8.
    assert_ne!(twelve["coupled_cong_avoid"], thirteen["coupled_cong_avoid"]);
    let differ =
        twelve["coupled_cong_avoid"].iter().zip(&thirteen["coupled_cong_avoid"]).filter(|(a, b)| a != b);
    assert!(differ.count() >= 5);
}

/// Offsets are not guessed.
#[test]
fn what_describes_no_kernel_is_refused() {
    if !is_possible() {
        return;
    }
    let error = SchemeProgram::relocated(Some(Path::new("/etc/hostname"))).unwrap_err().to_string();
    assert_eq!(error.lines().count(), 1, "{error}");
}

/// Kernels before 6.4 are told apart by their types.
#[test]
fn a_kernel_that_cannot_is_one_line() {
    let error = io::bpf::require_congestion_control(Some(&described("debian-12-linux-6.1.btf")));
    let error = error.unwrap_err().to_string();
    assert!(error.starts_with("struct_ops for congestion controls is missing: "), "{error}");
    assert_eq!(error.lines().count(), 1, "{error}");
}
