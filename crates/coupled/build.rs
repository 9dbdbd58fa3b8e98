//! Compiles `bpf/coupled.bpf.c` with clang.

use std::env;
use std::path::PathBuf;
use std::process::Command;

fn main() {
    let source = "bpf/coupled.bpf.c";
    for file in [source, "bpf/coupled.h"] {
        println!("cargo:rerun-if-changed={file}");
    }
    println!("cargo:rerun-if-env-changed=CLANG");
    if let Err(message) = compile(source) {
        // The only way a build script has to end with one line.
        println!("cargo::error={message}");
    }
}

fn compile(source: &str) -> Result<(), String> {
    let clang = env::var("CLANG").unwrap_or_else(|_| "clang".to_owned());
    let out = PathBuf::from(variable("OUT_DIR")?).join("coupled.bpf.o");
    // Of libbpf, which libbpf-sys has built.
    let helpers = variable("DEP_BPF_INCLUDE")?;
    // Where Debian keeps <asm/types.h>.
    let machine = format!("/usr/include/{}-linux-gnu", env::consts::ARCH);
    let output = Command::new(&clang)
        .args(["-target", "bpf", "-mcpu=v3", "-O2", "-g", "-Wall", "-Wextra", "-Wno-unused-parameter", "-Werror"])
        .args(["-I", &helpers, "-idirafter", &machine])
        .args(["-c", source, "-o"])
        .arg(&out)
        .output()
        .map_err(|error| {
            format!("{clang} compiles crates/coupled/{source} and does not run: {error}; install it: apt-get install clang")
        })?;
    if output.status.success() {
        return Ok(());
    }
    let said = String::from_utf8_lossy(&output.stderr);
    Err(format!(
        "{clang} does not compile crates/coupled/{source}: {}",
        said.lines().next().unwrap_or_default()
    ))
}

fn variable(name: &str) -> Result<String, String> {
    env::var(name).map_err(|_| format!("cargo does not say {name}"))
}
