//! The scenarios of `scenarios/multipath` against their aims: `make multipath`.

use serde_json::Value;

use super::{has_mptcp, lab, root, runs};

fn results(name: &str) -> Value {
    lab(&[root().join(format!("scenarios/multipath/{name}.toml"))], &[])
}

fn mean(results: &Value, case: &str, key: &str) -> f64 {
    let runs = runs(results, case);
    runs.iter().map(|run| run[key].as_f64().unwrap()).sum::<f64>() / runs.len() as f64
}

#[test]
#[ignore = "minutes: make multipath"]
fn a_silent_death_of_ten_seconds() {
    if !has_mptcp() {
        return;
    }
    let results = results("silent-death-10");
    let ratio = mean(&results, "daemon", "goodput_mbps") / mean(&results, "kernel", "goodput_mbps");
    assert!(ratio >= 1.2, "with the path manager {ratio:.2} times the kernel alone");
    for run in runs(&results, "daemon") {
        assert!(run["reuses"][0]["after_ms"].as_f64().unwrap() <= 500.0, "{}", run["reuses"]);
        stalls_half_a_second_and_the_queue(run);
        for connect in run["connects"].as_array().unwrap() {
            assert!(connect["up_ms"].as_f64().unwrap() <= 500.0, "{connect}");
        }
    }
}

/// A death stalls for half a second at most, and for the queue of the living radio, in which waits what is sent
/// again. It waits in the server's socket too, which is told but not allowed for.
fn stalls_half_a_second_and_the_queue(run: &Value) {
    let ms = |key: &str| run[key].as_f64().unwrap();
    let (stall, queue, unsent) = (ms("death_stall_ms"), ms("death_queue_ms"), ms("death_unsent_ms"));
    assert!(
        stall <= 500.0 + queue,
        "{stall:.0} ms; the living path's queue was {queue:.0} ms, and {unsent:.0} ms waited unsent at the server"
    );
}

/// How many times the kernel's own goodput it is with the path manager, and that each return is used at once.
fn is_better_and_used_again(name: &str) -> Value {
    let results = results(name);
    let ratio = mean(&results, "daemon", "goodput_mbps") / mean(&results, "kernel", "goodput_mbps");
    assert!(ratio >= 1.2, "{name}: with the path manager {ratio:.2} times the kernel alone");
    for run in runs(&results, "daemon") {
        assert_eq!(run["is_intact"], true);
        assert!(run["reuses"][0]["after_ms"].as_f64().unwrap() <= 500.0, "{name}: {}", run["reuses"]);
    }
    results
}

#[test]
#[ignore = "minutes: make multipath"]
fn a_silent_death_of_twenty_seconds() {
    if !has_mptcp() {
        return;
    }
    let results = is_better_and_used_again("silent-death-20");
    runs(&results, "daemon").into_iter().for_each(stalls_half_a_second_and_the_queue);
}

#[test]
#[ignore = "minutes: make multipath"]
fn a_silent_death_during_an_upload() {
    if !has_mptcp() {
        return;
    }
    is_better_and_used_again("upload-death");
}

#[test]
#[ignore = "minutes: make multipath"]
fn an_announced_death_stalls_nothing() {
    if !has_mptcp() {
        return;
    }
    for run in runs(&results("announced"), "daemon") {
        assert!(run["death_stall_ms"].as_f64().unwrap() <= 200.0, "{}", run["death_stall_ms"]);
    }
}

#[test]
#[ignore = "minutes: make multipath"]
fn flapping_is_never_worse_than_the_best_single_path() {
    if !has_mptcp() {
        return;
    }
    let results = results("flapping");
    let ratio = mean(&results, "daemon", "goodput_mbps") / mean(&results, "LTE alone", "goodput_mbps");
    assert!(ratio >= 1.0, "{ratio:.2} times LTE alone");
}

#[test]
#[ignore = "minutes: make multipath"]
fn middleboxes_other_families_and_kills() {
    if !has_mptcp() {
        return;
    }
    let without = results("without-mptcp");
    let run = runs(&without, "daemon")[0].clone();
    assert!(run["is_intact"] == true && run["is_multi_path"] == false);
    assert!(run["events"].to_string().contains("fell back to TCP"), "{}", run["events"]);
    let killed = results("killed");
    for run in runs(&killed, "killed") {
        assert!(run["is_intact"] == true && run["is_profile_restored"] == true, "{run}");
    }
    let eight = results("eight-subflows");
    assert_eq!(runs(&eight, "daemon")[0]["flows"].as_object().unwrap().len(), 8);
    assert_eq!(runs(&results("ipv6"), "daemon")[0]["is_intact"], true);
}

/// Where losses are not in step, two subflows of LIA and of BALIA take what one TCP takes; Reno's take more.
#[test]
#[ignore = "minutes: make multipath"]
fn coupled_subflows_take_one_share_of_a_bottleneck() {
    if !has_mptcp() {
        return;
    }
    let results = lab(&[root().join("scenarios/coupled/shared.toml")], &[]);
    let share = |case: &str| {
        let runs = runs(&results, case);
        let of =
            |run: &&Value| run["goodput_mbps"].as_f64().unwrap() / run["beside_mbps"][0].as_f64().unwrap();
        runs.iter().map(of).sum::<f64>() / runs.len() as f64
    };
    for case in ["lia", "balia"] {
        assert!((0.85..=1.15).contains(&share(case)), "{case}: {:.2} of a TCP", share(case));
    }
    assert!(share("reno") > 1.15, "uncoupled: {:.2} of a TCP", share("reno"));
}

/// RFC 6356's first goal, on a path that loses and one that is clean.
#[test]
#[ignore = "minutes: make multipath"]
fn balia_is_no_worse_than_the_best_single_path() {
    if !has_mptcp() {
        return;
    }
    let results = lab(&[root().join("scenarios/coupled/lossy.toml")], &[]);
    let ratio = mean(&results, "balia", "goodput_mbps") / mean(&results, "best single path", "goodput_mbps");
    assert!(ratio >= 0.95, "{ratio:.2} times the best single path");
}
