use std::collections::BTreeSet;

use proptest::prelude::*;

use super::*;
use crate::{EventFile, SimulationOutcome, simulate};

const TWO: &str = "0 path wifi rtt 20ms\n0 path lte rtt 50ms\n0 address wifi 10.1.0.2\n0 address lte 10.2.0.2\n\
                   0 connections 1\n0 traffic wifi on\n0 traffic lte on\n";

fn run(lines: &str) -> SimulationOutcome {
    let outcome = simulate(&EventFile::parse(&format!("{TWO}{lines}")).unwrap(), Settings::default());
    for line in &outcome.lines {
        println!("{:>10} {:<5} {}", line.at_us, line.path, line.what);
    }
    outcome
}

fn within(outcome: &SimulationOutcome, path: &str, what: &str, from: u64, within: u64) -> u64 {
    let at = outcome.first(path, what, from).unwrap_or_else(|| panic!("{path} never does `{what}`"));
    assert!(at <= from + within, "{path} does `{what}` at {at} ms, more than {within} ms after {from} ms");
    at
}

#[test]
fn a_silent_death_is_found_and_the_path_used_again_each_within_half_a_second() {
    let o = run("4 dies wifi\n14 returns wifi\n20 end\n");
    let down = within(&o, "wifi", "suspect -> down: lost", 4_000, 350);
    within(&o, "wifi", "remove endpoint 10.1.0.2", down, 0);
    within(&o, "wifi", "demote routes", down, 0);
    let up = within(&o, "wifi", "down -> up: answered", 14_000, 250);
    within(&o, "wifi", "add endpoint 10.1.0.2", up, 0);
    within(&o, "wifi", "restore routes", up, 0);
    assert!(o.first("lte", "suspect -> down", 0).is_none());
}

/// While data is due, three probes on their way speak together.
#[test]
fn a_death_while_data_is_due_is_found_sooner_and_a_short_outage_is_none() {
    let o = run("4 dies wifi\n8 end\n");
    within(&o, "wifi", "suspect -> down: lost", 4_000, 160);
    let o = run("4 dies wifi\n4.11 returns wifi\n8 end\n");
    assert!(o.first("wifi", "up -> suspect", 4_000).is_some());
    assert!(o.first("wifi", "suspect -> down", 0).is_none());
    // On a path that is idle only probes speak: three must be lost.
    let o = run("1 traffic wifi off\n4 dies wifi\n8 end\n");
    let suspect = o.first("wifi", "up -> suspect", 4_000).unwrap();
    assert!(o.first("wifi", "suspect -> down", 4_000).unwrap() >= suspect + 100);
}

#[test]
fn silence_counts_from_the_last_arrival_not_from_the_look_at_it() {
    let mut paths = Paths::new(Settings::default());
    let id = paths.add("wifi", Instant::ZERO);
    paths.handle(Event::Address(id, Some([10, 0, 0, 2].into())), Instant::ZERO);
    let mut suspect = None;
    for ms in 0..1_100 {
        let now = Instant::from_millis(ms);
        if ms % 20 == 0 {
            let arrived = u64::from(ms <= 1_000);
            let sample = PathSample {
                arrived,
                arrived_us_ago: 15_000,
                is_due: true,
                subflows: 1,
                ..PathSample::default()
            };
            paths.handle(Event::Sample(id, sample), now);
        }
        while let Some(action) = paths.poll(now) {
            if let Action::Probe(id, n) = action
                && ms < 900
            {
                paths.handle(Event::Answer(id, n, Duration::from_millis(1), None), now);
            }
        }
        while let Some(change) = paths.poll_change() {
            if change.to == State::Suspect && ms > 900 {
                suspect = suspect.or(Some(ms));
            }
        }
    }
    // 3 usual gaps of 20 ms.
    assert!(suspect.is_some_and(|ms| (1_025..=1_046).contains(&ms)), "{suspect:?}");
}

#[test]
fn an_idle_path_stays_up_and_is_found_dead_all_the_same() {
    let o = run("1 traffic wifi off\n1 traffic lte off\n30 dies wifi\n33 end\n");
    assert!(o.first("wifi", "up -> suspect", 1_100).unwrap() >= 30_000);
    within(&o, "wifi", "suspect -> down: lost", 30_000, 500);
}

#[test]
fn the_last_path_is_kept_and_goes_when_another_comes() {
    let o = run("4 dies lte\n6 dies wifi\n9 returns lte\n12 end\n");
    within(&o, "wifi", "suspect: last", 6_000, 500);
    let back = within(&o, "lte", "down -> up: answered", 9_000, 400);
    assert!(o.first("wifi", "remove endpoint", 0).unwrap() >= back);
    within(&o, "wifi", "suspect -> down: lost", back, 300);
}

#[test]
fn both_die_and_return_and_those_in_back_off_are_made_anew() {
    let o = run("4 dies lte\n4 dies wifi\n9 returns lte\n9.5 returns wifi\n15 end\n");
    let last = o.lines.iter().filter(|l| l.what == "suspect: last").count();
    assert!(last >= 1, "one at least is kept");
    for path in ["wifi", "lte"] {
        within(&o, path, "add endpoint", 9_000, 2_000);
    }
    let end: Vec<_> = o.time_in_state_ms.iter().map(|t| t[&State::Up]).collect();
    assert!(end.iter().all(|up| *up > 8_500), "{end:?}");
}

#[test]
fn a_weak_radio_is_backup_before_it_dies() {
    let o = run("4 strength wifi -115\n4.4 dies wifi\n10 returns wifi\n11 strength wifi -90\n15 end\n");
    let weak = within(&o, "wifi", "up -> degraded: weak", 4_000, 0);
    within(&o, "wifi", "endpoint 10.1.0.2: backup", weak, 0);
    within(&o, "wifi", "suspect -> down: lost", 4_400, 600);
    // Removing it would have the kernel send everything again that is on its way elsewhere.
    assert!(o.first("wifi", "remove endpoint", 0).is_none());
    within(&o, "wifi", "demote routes", 4_400, 600);
    within(&o, "wifi", "down -> degraded: weak", 10_000, 300);
    let strong = within(&o, "wifi", "degraded -> up: strong", 11_000, 1_250);
    assert!(strong >= 12_000, "hysteresis");
    within(&o, "wifi", "endpoint 10.1.0.2: no longer backup", strong, 0);
}

#[test]
fn many_lost_probes_make_a_path_weak() {
    let o = run("2 traffic wifi off\n2 loses wifi 50\n12 end\n");
    assert!(o.lines.iter().any(|l| l.path == "wifi" && l.what.ends_with("degraded: weak")));
}

#[test]
fn a_new_address_replaces_the_stranded_one_at_once() {
    let o = run("4 address wifi 10.1.0.9\n8 end\n");
    within(&o, "wifi", "up -> down: readdressed", 4_000, 0);
    within(&o, "wifi", "remove endpoint 10.1.0.2", 4_000, 0);
    within(&o, "wifi", "add endpoint 10.1.0.9", 4_000, 150);
}

#[test]
fn the_only_paths_stranded_endpoint_goes_when_the_new_one_has_joined() {
    let o = run("2 address lte none\n4 address wifi 10.1.0.9\n8 end\n");
    let added = within(&o, "wifi", "add endpoint 10.1.0.9", 4_000, 150);
    let removed = within(&o, "wifi", "remove endpoint 10.1.0.2", added, 200);
    assert!(removed > added);
}

#[test]
fn a_nat_that_forgets_has_the_subflow_made_anew() {
    let o = run("0 nat wifi 203.0.113.1\n4 nat wifi 203.0.113.9\n8 end\n");
    within(&o, "wifi", "up: moved", 4_000, 500);
    assert!(o.first("wifi", "suspect -> down", 0).is_none());
    within(&o, "wifi", "add endpoint", 4_000, 500);
}

/// Until the machine was told, the endpoint of the only path stayed bound to an interface that was gone.
#[test]
fn an_interface_in_anothers_place_has_the_endpoint_made_anew() {
    let back = "4 address wifi none\n6 address wifi 10.1.0.2\n6 replaced wifi\n10 end\n";
    let alone = run(&format!("2 address lte none\n{back}"));
    let up = within(&alone, "wifi", "down -> up", 6_000, 150);
    within(&alone, "wifi", "remove endpoint 10.1.0.2", up, 0);
    within(&alone, "wifi", "add endpoint 10.1.0.2", up, 0);
    within(&alone, "wifi", "up: replaced", up, 0);
    // Beside another path it has gone with the old interface: nothing is to be made anew.
    let two = run(back);
    within(&two, "wifi", "remove endpoint 10.1.0.2", 4_000, 0);
    within(&two, "wifi", "add endpoint 10.1.0.2", 6_000, 150);
    assert!(two.first("wifi", "up: replaced", 0).is_none());
}

#[test]
fn flapping_has_to_wait_longer_each_time() {
    let o = run("4 flaps wifi 500ms 40\n60 end\n");
    let ups: Vec<u64> = o
        .lines
        .iter()
        .filter(|l| l.path == "wifi" && l.what.starts_with("down -> up"))
        .map(|l| l.at_us / 1_000)
        .collect();
    assert!((3..=9).contains(&ups.len()), "{ups:?}");
    let gaps: Vec<u64> = ups.windows(2).map(|w| w[1] - w[0]).collect();
    assert!(gaps[gaps.len() - 1] > gaps[1], "{gaps:?}");
    assert!(*ups.last().unwrap() >= 40_000, "in use again at the end");
    // It is dead in the first half of each second from 4 s to 40 s: answers from before do not count.
    for up in ups.iter().filter(|up| (4_000..40_000).contains(*up)) {
        assert!(up % 1_000 >= 500 || up % 1_000 <= 100, "used again at {up} ms, when it was dead");
    }
}

#[test]
fn an_interface_without_internet_is_never_used() {
    let o = run("1 path cafe\n1 address cafe 192.168.0.7\n10 end\n");
    assert!(o.first("cafe", "add endpoint", 0).is_none());
    within(&o, "cafe", "demote routes", 2_000, 100);
}

#[test]
fn a_retired_path_drains_before_it_goes() {
    let o = run("4 retire wifi\n9 use wifi\n12 end\n");
    let backup = within(&o, "wifi", "endpoint 10.1.0.2: backup", 4_000, 0);
    let gone = within(&o, "wifi", "remove endpoint", backup, 1_000);
    assert!(gone > backup, "drained first");
    within(&o, "wifi", "add endpoint", 9_000, 500);
}

#[test]
fn an_endpoint_without_a_subflow_is_asked_for_again_ever_more_rarely() {
    // The second path answers probes, but nobody joins: a recording, so the kernel is not played.
    let mut paths = Paths::new(Settings::default());
    let ids = ["wifi", "lte"].map(|name| paths.add(name, Instant::ZERO));
    for (id, last) in ids.iter().zip([2, 3]) {
        paths.handle(Event::Address(*id, Some([10, 0, 0, last].into())), Instant::ZERO);
    }
    paths.handle(Event::Connections(1), Instant::ZERO);
    let mut added = Vec::new();
    for ms in 0..40_000 {
        let now = Instant::from_millis(ms);
        let sample = PathSample { subflows: 1, ..PathSample::default() };
        paths.handle(Event::Sample(ids[0], sample), now);
        while let Some(action) = paths.poll(now) {
            match action {
                Action::Probe(id, n) => {
                    paths.handle(Event::Answer(id, n, Duration::from_millis(1), None), now);
                }
                Action::AddEndpoint(id, ..) if id == ids[1] => added.push(ms),
                _ => {}
            }
        }
    }
    let gaps: Vec<u64> = added.windows(2).map(|w| (w[1] - w[0]) / 1_000).collect();
    assert_eq!(gaps, [2, 4, 8, 16], "{added:?}");
}

#[test]
fn a_pause_of_ones_own_is_not_the_paths_fault() {
    let mut paths = Paths::new(Settings::default());
    let ids = ["wifi", "lte"].map(|name| paths.add(name, Instant::ZERO));
    for (id, last) in ids.iter().zip([2, 3]) {
        paths.handle(Event::Address(*id, Some([10, 0, 0, last].into())), Instant::ZERO);
    }
    let mut now = Instant::ZERO;
    for ms in 0..2_000 {
        now = Instant::from_millis(ms);
        let sample = PathSample { subflows: 1, is_due: true, arrived: 1, ..PathSample::default() };
        ids.iter().for_each(|id| paths.handle(Event::Sample(*id, sample), now));
        while let Some(action) = paths.poll(now) {
            if let Action::Probe(id, n) = action {
                paths.handle(Event::Answer(id, n, Duration::from_millis(1), None), now);
            }
        }
    }
    now += Duration::from_secs(3);
    paths.excuse(now);
    while paths.poll(now).is_some() {}
    assert!(ids.iter().all(|id| paths.get(*id).unwrap().state() == State::Up));
}

#[test]
fn a_connection_that_lives_on_one_path_only_keeps_it() {
    let mut paths = Paths::new(Settings::default());
    let ids = ["wifi", "lte"].map(|name| paths.add(name, Instant::ZERO));
    for (id, last) in ids.iter().zip([2, 3]) {
        paths.handle(Event::Address(*id, Some([10, 0, 0, last].into())), Instant::ZERO);
    }
    paths.handle(Event::Connections(2), Instant::ZERO);
    for ms in 0..5_000 {
        let now = Instant::from_millis(ms);
        paths.handle(
            Event::Sample(
                ids[0],
                PathSample { subflows: 2, alone: 1, is_due: true, ..PathSample::default() },
            ),
            now,
        );
        paths.handle(Event::Sample(ids[1], PathSample { subflows: 1, ..PathSample::default() }), now);
        while let Some(action) = paths.poll(now) {
            match action {
                Action::Probe(id, n) if ms < 1_000 || id == ids[1] => {
                    paths.handle(Event::Answer(id, n, Duration::from_millis(1), None), now);
                }
                Action::RemoveEndpoint(id, _) => assert_ne!(id, ids[0], "at {ms} ms"),
                _ => {}
            }
        }
    }
    assert_eq!(paths.get(ids[0]).unwrap().state(), State::Suspect);
}

/// Anything that may happen to one of three paths.
fn any_event() -> impl Strategy<Value = (u64, Event, bool)> {
    let id = (0_u16..3).prop_map(PathId);
    let ip = prop_oneof![Just(None), (1_u8..4).prop_map(|n| Some(IpAddr::from([10, 0, 0, n])))];
    let event = prop_oneof![
        (id.clone(), ip.clone()).prop_map(|(id, ip)| Event::Address(id, ip)),
        (id.clone(), 0_u64..3, any::<bool>(), 0_u32..2, 0_u32..2).prop_map(
            |(id, arrived, is_due, s, alone)| {
                Event::Sample(
                    id,
                    PathSample { arrived, is_due, subflows: s, alone: alone & s, ..PathSample::default() },
                )
            }
        ),
        (id.clone(), -125_i32..-80).prop_map(|(id, dbm)| Event::Strength(id, dbm)),
        id.clone().prop_map(Event::Replaced),
        (id, any::<bool>()).prop_map(|(id, on)| Event::Retire(id, on)),
        (0_u32..3).prop_map(Event::Connections),
    ];
    (0_u64..400, event, any::<bool>())
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(300))]

    /// Whatever happens: transitions are those of the table, what is removed was added and is not the last
    /// that carries, and the same input gives the same output.
    #[test]
    fn whatever_happens_the_rules_hold(steps in proptest::collection::vec(any_event(), 1..120)) {
        let mut logs = Vec::new();
        for _ in 0..2 {
            let mut paths = Paths::new(Settings::default());
            for name in ["a", "b", "c"] {
                paths.add(name, Instant::ZERO);
            }
            let mut there: BTreeSet<(PathId, IpAddr)> = BTreeSet::new();
            let mut log = Vec::new();
            let mut now = Instant::ZERO;
            for (ms, event, answers) in &steps {
                now += Duration::from_millis(*ms);
                paths.handle(*event, now);
                let mut turns = 0;
                while let Some(action) = paths.poll(now) {
                    turns += 1;
                    prop_assert!(turns < 200, "it comes to rest");
                    match action {
                        Action::Probe(id, n) if *answers => {
                            paths.handle(Event::Answer(id, n, Duration::from_millis(20), None), now);
                        }
                        Action::AddEndpoint(id, ip, _) => prop_assert!(there.insert((id, ip)), "twice"),
                        Action::RemoveEndpoint(id, ip) => {
                            prop_assert!(there.remove(&(id, ip)), "not there");
                        }
                        Action::SetBackup(id, ip, _) => prop_assert!(there.contains(&(id, ip))),
                        _ => {}
                    }
                    log.push(format!("{action:?}"));
                }
                while let Some(c) = paths.poll_change() {
                    prop_assert!(rules::rule(c.from, c.cause, c.to).is_some(), "{c:?}");
                    log.push(format!("{c:?}"));
                }
                // Each path that is used has its endpoint.
                for (id, path) in paths.iter() {
                    if path.state().passes() {
                        prop_assert!(there.contains(&(id, path.used.unwrap())), "{}", path.name());
                    }
                }
            }
            logs.push(log);
        }
        prop_assert_eq!(&logs[0], &logs[1]);
    }

    /// The last path that passes is never taken away: endpoints go only while another path passes.
    #[test]
    fn the_last_path_is_never_removed(deaths in proptest::collection::vec((0_usize..2, 1_u64..4000, 1_u64..4000), 1..8)) {
        let mut lines = Vec::new();
        let mut at = [2_000_u64; 2];
        for (which, wait, dead) in deaths {
            let from = at[which] + wait;
            at[which] = from + dead;
            let name = ["wifi", "lte"][which];
            lines.push((from, format!("dies {name}")));
            lines.push((from + dead, format!("returns {name}")));
        }
        lines.sort();
        let text: String = lines.iter().map(|(ms, what)| format!("{}.{:03} {what}\n", ms / 1000, ms % 1000)).collect();
        let outcome = simulate(&EventFile::parse(&format!("{TWO}{text}")).unwrap(), Settings::default());
        let mut there = BTreeSet::new();
        for line in &outcome.lines {
            if line.what.starts_with("add endpoint") {
                there.insert(line.path.clone());
            } else if line.what.starts_with("remove endpoint") {
                there.remove(&line.path);
            }
            let renews = outcome.lines.iter().any(|other| other.at_us == line.at_us && other.what.starts_with("add endpoint"));
            if line.at_us > 1_000_000 && !renews {
                prop_assert!(!there.is_empty(), "nothing is left at {} us", line.at_us);
            }
        }
    }
}

#[test]
fn the_tests_here_see_every_rule() {
    let texts = [
        "4 dies wifi\n14 returns wifi\n20 end\n",
        "4 dies lte\n6 dies wifi\n9 returns lte\n14 returns wifi\n20 end\n",
        "1 traffic wifi off\n1 traffic lte off\n30 dies wifi\n33 returns wifi\n35 end\n",
        "4 strength wifi -115\n4.4 dies wifi\n4.65 returns wifi\n6 dies wifi\n10 returns wifi\n11 strength wifi -90\n15 end\n",
        "0 nat wifi 203.0.113.1\n4 nat wifi 203.0.113.9\n6 strength wifi -120\n8 nat wifi 203.0.113.10\n12 end\n",
        "4 retire wifi\n9 use wifi\n10 address wifi 10.1.0.9\n12 address wifi none\n14 end\n",
        "4 dies wifi\n4.1 returns wifi\n6 end\n",
        "2 address lte none\n4 address wifi none\n6 address wifi 10.1.0.2\n6 replaced wifi\n8 strength wifi -120\n\
         9 address wifi none\n10 address wifi 10.1.0.2\n10 replaced wifi\n12 end\n",
        "4 dies lte\n4 dies wifi\n4.5 strength wifi -120\n9 returns lte\n9.5 returns wifi\n12 strength wifi -80\n22 end\n",
    ];
    let mut seen = BTreeSet::new();
    for text in texts {
        for line in run(text).lines {
            let of = |state: &str| State::ALL.into_iter().find(|s| s.name() == state);
            if let Some((states, cause)) = line.what.split_once(": ") {
                let (from, to) = states.split_once(" -> ").unwrap_or((states, states));
                if let (Some(from), Some(to)) = (of(from), of(to)) {
                    let i = rules::RULES
                        .iter()
                        .position(|r| r.from.contains(&from) && r.cause.name() == cause && r.to == to);
                    seen.insert(i.unwrap());
                }
            }
        }
    }
    let unseen: Vec<_> = rules::RULES.iter().enumerate().filter(|(i, _)| !seen.contains(i)).collect();
    // Those whose kernel is not played are seen in tests of their own.
    let elsewhere = [Cause::Unjoined];
    let unseen: Vec<_> = unseen.into_iter().filter(|(_, r)| !elsewhere.contains(&r.cause)).collect();
    assert!(unseen.is_empty(), "{unseen:#?}");
}
