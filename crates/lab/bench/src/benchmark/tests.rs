use std::sync::{Mutex, PoisonError};

use super::*;
use crate::BenchError;

/// Namespaces are named after the process: one benchmark of it at a time.
static ALONE: Mutex<()> = Mutex::new(());

/// The whole of it, short; asserts what must hold on any machine.
#[test]
fn what_fails_is_left_out_and_nothing_is_left() {
    let _alone = ALONE.lock().unwrap_or_else(PoisonError::into_inner);
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
    // Two rounds of two cases.
    assert_eq!((rounds, part.samples.len(), part.rows.len()), (2, 4, 2));
    assert!(part.samples.iter().all(|sample| sample.way == "kernel" && sample.values["kpps"] > 0.0));
    assert!(part.figures.is_empty(), "nothing to compare with");
    let ways = [Way::Adaptive, Way::Echo, Way::Fixed];
    assert_eq!(part.missing.len(), ways.len(), "{:?}", part.missing);
    for way in ways {
        let begin = format!("{} is left out, it failed", way.title());
        let is_said = |line: &String| line.starts_with(&begin) && line.contains("exit status: 1");
        assert!(part.missing.iter().any(is_said), "{begin}: {:?}", part.missing);
    }
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

#[test]
fn ended_early_it_gives_the_rounds_that_were_finished() {
    let _alone = ALONE.lock().unwrap_or_else(PoisonError::into_inner);
    let signals = Signals::catch(&[libc::SIGUSR1]).unwrap();
    let benchmark = Benchmark {
        rounds: Some(3),
        time: Some(Duration::from_millis(100)),
        program: PathBuf::from("/bin/false"),
        version: "0".to_owned(),
        command: String::new(),
    };
    let mut end = |progress: Progress<'_>| {
        if matches!(progress, Progress::Round(2, _)) {
            let own = std::process::id().to_string();
            assert!(std::process::Command::new("kill").args(["-USR1", &own]).status().unwrap().success());
        }
    };
    let part = benchmark
        .run(PartName::Datagrams, &signals, &mut end)
        .unwrap_or_else(|e| panic!("this test needs root: {e}"));
    assert_eq!((part.rounds, part.samples.len(), part.busy_before.len()), (1, 2, 1));
    assert!(part.missing.contains(&"interrupted after 1 of 3 rounds".to_owned()), "{:?}", part.missing);
    assert_eq!(signals.taken(), Some(libc::SIGUSR1));
}
