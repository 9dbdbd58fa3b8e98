//! Compiles `bpf/drwa.bpf.c`.

fn main() {
    bpf_build::compile("drwa", &["drwa.h", "law.h"], &[]);
}
