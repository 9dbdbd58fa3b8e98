//! `cellerator top --serve`, and a view of it from elsewhere: each a process of its own.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::process::{Command, Output, Stdio};

use io::SpawnOptions;
use tempfile::{NamedTempFile, TempPath};

use crate::network::{Network, PROGRAM, Running, wait_until};

const TOKEN: &str = "a token of many characters";

/// Closes a file with a secret to others, as its reader wants it.
fn close(path: &Path) {
    std::fs::set_permissions(path, std::fs::Permissions::from_mode(0o600)).unwrap();
}

fn file(name: &str) -> String {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../box/top/tests/tls").join(name);
    if name.ends_with(".key") {
        close(&path);
    }
    path.to_str().unwrap().to_owned()
}

/// A file with a token, gone with the value.
fn token_file(token: &str) -> TempPath {
    let path = NamedTempFile::new().unwrap().into_temp_path();
    fs::write(&path, token).unwrap();
    close(&path);
    path
}

/// What a view from the server's side of the network says.
fn look(network: &Network, at: &str, token: &Path) -> Output {
    let mut command = Command::new(PROGRAM);
    command.args(["top", "--once", "--interval", "200 ms", "--connect", at]);
    command.args(["--certificate", &file("box.pem"), "--token-file", token.to_str().unwrap()]);
    command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
    network.server.spawn(command, SpawnOptions::default()).unwrap().wait_with_output().unwrap()
}

fn children_of(process: u32) -> Vec<u32> {
    let path = format!("/proc/{process}/task/{process}/children");
    fs::read_to_string(path).unwrap().split_whitespace().map(|child| child.parse().unwrap()).collect()
}

#[test]
fn another_machine_sees_the_same_and_the_server_has_no_rights() {
    let network = Network::build("remote");
    let accelerator = network.accelerate(&[]);
    let ends = network.download(100_000);
    let (token, wrong) = (token_file(TOKEN), token_file("another token, as long as it"));
    let (certificate, key) = (file("box.pem"), file("box.key"));
    let arguments =
        ["top", &network.name, "--serve", "10.2.0.1:0", "--certificate", &certificate, "--key", &key];
    let server = Running::start(
        &network.middle,
        &[&arguments[..], &["--token-file", token.to_str().unwrap()]].concat(),
    );
    let line = server.wait_for("top --connect ");
    let at = line.trim_start_matches("top --connect ");

    let seen = look(&network, at, &token);
    let text = String::from_utf8(seen.stdout).unwrap();
    assert!(seen.status.success(), "{}", String::from_utf8_lossy(&seen.stderr));
    assert!(text.contains(&network.name) && text.contains(&ends.0.ip().to_string()), "{text}");

    let refused = look(&network, at, &wrong);
    assert!(!refused.status.success() && refused.stdout.is_empty());
    let said = String::from_utf8(refused.stderr).unwrap();
    assert_eq!(said, format!("cellerator: top: {at} refuses the token\n"));
    let nobody = look(&network, "10.2.0.1:1", &token);
    let said = String::from_utf8(nobody.stderr).unwrap();
    assert!(
        said.starts_with("cellerator: top: cannot reach 10.2.0.1:1: ") && said.lines().count() == 1,
        "{said}"
    );

    let children = children_of(server.child.id());
    let status = fs::read_to_string(format!("/proc/{}/status", children[0])).unwrap();
    let field = |name: &str| status.lines().find(|line| line.starts_with(name)).unwrap().to_owned();
    assert_eq!(field("Uid:"), "Uid:\t65534\t65534\t65534\t65534");
    assert_eq!(field("CapEff:"), "CapEff:\t0000000000000000");
    assert!(children_of(children[0]).is_empty());
    // Neither the token nor the key is seen in what processes were started with.
    for process in [server.child.id(), children[0]] {
        for what in ["cmdline", "environ"] {
            let text = fs::read(format!("/proc/{process}/{what}")).unwrap();
            assert!(!String::from_utf8_lossy(&text).contains(TOKEN));
        }
    }
    drop(server);
    wait_until("the server has ended", || !fs::exists(format!("/proc/{}", children[0])).unwrap());
    accelerator.stop();
}
