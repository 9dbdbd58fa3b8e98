//! Compiles `bpf/congestion.bpf.c` and `bpf/compare.bpf.c`, with the feature `bpf`.

fn main() {
    #[cfg(feature = "bpf")]
    {
        bpf_build::compile("congestion", &["congestion.h", "law.h"], &["-Wno-unused-parameter"]);
        bpf_build::compile("compare", &["compare.h"], &[]);
    }
}
