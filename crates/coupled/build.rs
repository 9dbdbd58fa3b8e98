//! Compiles `bpf/coupled.bpf.c`.

fn main() {
    bpf_build::compile("coupled", &["coupled.h"], &["-Wno-unused-parameter"]);
}
