//! Compiles `bpf/drwa.bpf.c`, with the feature `bpf`.

fn main() {
    #[cfg(feature = "bpf")]
    bpf_build::compile("drwa", &["drwa.h", "law.h"], &[]);
}
