use super::*;
use crate::BenchError;

/// The whole of it, short; asserts what must hold on any machine.
#[test]
fn what_fails_is_left_out_and_nothing_is_left() {
    let signals = Signals::catch(&[libc::SIGUSR2]).unwrap();
    let benchmark = Benchmark {
        rounds: Some(2),
        time: Some(Duration::from_millis(100)),
        program: PathBuf::from("/bin/false"),
        version: "0".to_owned(),
        command: String::new(),
    };
    let mut rounds = 0;
    let mut count = |progress: Progress<'_>| rounds += u32::from(matches!(progress, Progress::Round(..)));
    let part = benchmark
        .run(PartName::Datagrams, &signals, &mut count)
        .unwrap_or_else(|e| panic!("this test needs root: {e}"));
    assert_eq!((rounds, part.samples.len(), part.rows.len()), (2, 2, 1));
    assert!(part.samples.iter().all(|sample| sample.way == "kernel" && sample.values["kpps"] > 0.0));
    assert!(part.figures.is_empty(), "nothing to compare with");
    let [line] = part.missing.as_slice() else { panic!("{:?}", part.missing) };
    assert!(
        line.starts_with("accelerating is left out, it failed") && line.contains("exit status: 1"),
        "{line}"
    );
    let names = Network::names();
    assert!(!io::Namespace::list().unwrap().iter().any(|name| names.contains(name)));
}

#[test]
fn a_missing_peer_is_no_failure() {
    let missing = BenchError::Missing { what: "HAProxy".to_owned(), why: "it is not installed".to_owned() };
    assert_eq!(left_out(Way::Haproxy, &missing), "HAProxy is left out: it is not installed");
    let line = left_out(Way::Haproxy, &BenchError::Nothing("haproxy".to_owned()));
    assert!(line.starts_with("HAProxy, no splice is left out, it failed: haproxy: nothing"), "{line}");
}
