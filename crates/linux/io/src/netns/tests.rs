//! Each test works in a fresh network namespace of its own; they need root.

use std::process::Stdio;

use super::*;
use crate::sysctl;

#[test]
fn created_listed_entered_removed() {
    let name = format!("ct-io-life-{}", std::process::id());
    let ns = Namespace::create(&name).unwrap_or_else(|e| panic!("this test needs root: {e}"));
    assert!(Namespace::list().unwrap().contains(&name));
    assert!(Namespace::create(&name).unwrap_err().is_already_there());
    let here = Namespace::current().unwrap().id().unwrap();
    let there = ns.run(|| Namespace::current().unwrap().id().unwrap()).unwrap();
    assert_eq!(there, ns.id().unwrap());
    assert_ne!(there, here);
    assert_eq!(Namespace::current().unwrap().id().unwrap(), here, "this thread stays where it was");
    Namespace::remove(&name).unwrap();
    assert!(!Namespace::list().unwrap().contains(&name));
    assert!(matches!(Namespace::remove(&name), Err(IoError::NoNamespace { .. })));
}

#[test]
fn names_that_would_leave_the_directory_are_refused() {
    for name in ["", "../x", "a/b", ".hidden", "x y"] {
        assert!(matches!(Namespace::create(name), Err(IoError::Invalid { .. })), "{name}");
    }
}

#[test]
fn sysctls_belong_to_the_namespace() {
    let ns = test_host("sysctl");
    let path = "net/ipv4/ip_forward";
    let here = sysctl::read_here(path).unwrap();
    sysctl::write(&ns, path, "1").unwrap();
    assert_eq!(sysctl::read(&ns, path).unwrap(), "1");
    sysctl::write(&ns, path, "0").unwrap();
    assert_eq!(sysctl::read(&ns, path).unwrap(), "0");
    assert_eq!(sysctl::read_here(path).unwrap(), here);
}

#[test]
fn a_program_sees_the_namespace_and_its_sys() {
    let ns = test_host("spawn");
    let mut command = Command::new("ls");
    command.arg("/sys/class/net").stdout(Stdio::piped());
    let output = ns.spawn(command, SpawnOptions::default()).unwrap().wait_with_output().unwrap();
    assert_eq!(String::from_utf8_lossy(&output.stdout).trim(), "lo");
    let missing = ns.spawn(Command::new("/no/such/program"), SpawnOptions::default()).unwrap_err();
    assert!(missing.to_string().contains("/no/such/program"), "{missing}");
}

#[test]
fn a_program_dies_with_the_thread_that_started_it() {
    let ns = test_host("death");
    let options = SpawnOptions { death_signal: Some(libc::SIGKILL), own_process_group: true };
    let mut child = std::thread::scope(|scope| {
        scope
            .spawn(|| {
                let mut command = Command::new("sleep");
                command.arg("1000");
                ns.spawn(command, options).unwrap()
            })
            .join()
            .unwrap()
    });
    use std::os::unix::process::ExitStatusExt;
    assert_eq!(child.wait().unwrap().signal(), Some(libc::SIGKILL));
}

/// By its name alone, by a handle alone, and by a thread alone.
#[test]
fn a_namespace_is_in_use_until_nothing_holds_it() {
    let name = format!("ct-io-use-{}", std::process::id());
    let ns = Namespace::create(&name).unwrap_or_else(|e| panic!("this test needs root: {e}"));
    let id = ns.id().unwrap();
    let is_in_use = || namespaces_in_use().unwrap().contains(&id);
    assert!(is_in_use());
    drop(ns);
    assert!(is_in_use(), "its name keeps it");
    let ns = Namespace::open(&name).unwrap();
    Namespace::remove(&name).unwrap();
    assert!(is_in_use(), "the handle keeps it");
    let (enter, entered) = std::sync::mpsc::channel();
    let (leave, left) = std::sync::mpsc::channel::<()>();
    let thread = std::thread::spawn(move || {
        ns.enter().unwrap();
        drop(ns);
        enter.send(()).unwrap();
        let _ = left.recv();
    });
    entered.recv().unwrap();
    assert!(is_in_use(), "the thread keeps it");
    drop(leave);
    thread.join().unwrap();
    assert!(!is_in_use());
}
