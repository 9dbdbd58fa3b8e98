//! Compiles BPF programs in C with clang, for the build scripts of the crates that have some.

use std::env;
use std::path::PathBuf;
use std::process::Command;

/// Compiles `bpf/NAME.bpf.c` of the crate that is built to `NAME.bpf.o` in `OUT_DIR`, and ends the build with one
/// line where that fails. `headers` are those in `bpf/` that it includes; `options` are clang's.
///
/// The crate depends on `libbpf-sys`, for libbpf's headers.
pub fn compile(name: &str, headers: &[&str], options: &[&str]) {
    let source = format!("bpf/{name}.bpf.c");
    println!("cargo:rerun-if-changed={source}");
    for header in headers {
        println!("cargo:rerun-if-changed=bpf/{header}");
    }
    println!("cargo:rerun-if-env-changed=CLANG");
    if let Err(message) = run(name, &source, options) {
        // The only way a build script has to end with one line.
        println!("cargo::error={message}");
    }
}

fn run(name: &str, source: &str, options: &[&str]) -> Result<(), String> {
    let folder = PathBuf::from(variable("CARGO_MANIFEST_DIR")?);
    let folder = folder.file_name().unwrap_or_default().to_string_lossy().into_owned();
    let clang = env::var("CLANG").unwrap_or_else(|_| "clang".to_owned());
    let out = PathBuf::from(variable("OUT_DIR")?).join(format!("{name}.bpf.o"));
    // Of libbpf, which libbpf-sys has built.
    let helpers = variable("DEP_BPF_INCLUDE")?;
    // Where Debian keeps <asm/types.h>.
    let machine = format!("/usr/include/{}-linux-gnu", env::consts::ARCH);
    let output = Command::new(&clang)
        .args(["-target", "bpf", "-mcpu=v3", "-O2", "-g", "-Wall", "-Wextra", "-Werror"])
        .args(options)
        .args(["-I", &helpers, "-idirafter", &machine])
        .args(["-c", source, "-o"])
        .arg(&out)
        .output()
        .map_err(|error| {
            format!(
                "{clang} compiles crates/linux/{folder}/{source} and does not run: {error}; install it: apt-get install clang"
            )
        })?;
    if output.status.success() {
        return Ok(());
    }
    let said = String::from_utf8_lossy(&output.stderr);
    Err(format!(
        "{clang} does not compile crates/linux/{folder}/{source}: {}",
        said.lines().next().unwrap_or_default()
    ))
}

fn variable(name: &str) -> Result<String, String> {
    env::var(name).map_err(|_| format!("cargo does not say {name}"))
}
