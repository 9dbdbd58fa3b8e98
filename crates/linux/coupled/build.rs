//! Compiles `bpf/coupled.bpf.c`, with the feature `bpf`.

fn main() {
    #[cfg(feature = "bpf")]
    bpf_build::compile("coupled", &["coupled.h"], &["-Wno-unused-parameter"]);
}
