//! Faults under load: whatever happens to the box, no transfer hangs, and none ends short.
//!
//! `cargo test -p cellerator-lab --test all chaos::` is the short one; `make chaos SECONDS=3600 SEED=1` goes on for as long
//! as it is told. Each kind of trouble of the network's own is also had without the box, so that
//! what the network does by itself is known.

mod accelerator;
mod captures;
mod case;
mod faults;
mod network;
mod traffic;

use accelerator::Way;
use case::{Case, Outcome};
use faults::Fault;
use io::{Clock, Waiter};
use network::LinkKind;
use rand::{RngExt, SeedableRng};
use rand_xoshiro::Xoshiro256PlusPlus;
use units::Duration;

#[test]
fn a_case_can_be_had_again_by_its_line() {
    let mut random = Xoshiro256PlusPlus::seed_from_u64(1);
    for _ in 0..200 {
        let case = Case::choose(&mut random, Duration::from_secs(40));
        let again =
            Case::parse(&case.line(), Duration::from_secs(40)).unwrap_or_else(|| panic!("{}", case.line()));
        assert_eq!(format!("{again:?}"), format!("{case:?}"));
    }
    for wrong in ["", "tcx both 1000M terminate mtu 1500", "tc both 1000M stop mtu 1500, seed 1"] {
        assert!(Case::parse(wrong, Duration::from_secs(40)).is_none(), "{wrong}");
    }
}

/// A line with the time, as captures have it.
pub fn log(line: &str) {
    let wall = Clock::wall_nanos();
    eprintln!("{}.{:06} {line}", wall / 1_000_000_000 % 100_000, wall / 1_000 % 1_000_000);
}

/// Lets time pass.
pub fn pause_ms(ms: u64) {
    Waiter::new(Duration::ZERO).unwrap().wait(Some(Clock::now() + Duration::from_millis(ms))).unwrap();
}

fn variable(name: &str) -> Option<String> {
    std::env::var(name).ok().filter(|value| !value.is_empty())
}

/// Each kind of trouble once, with each way of steering, in about a minute.
#[test]
fn no_transfer_hangs_whatever_happens() {
    let mut random = Xoshiro256PlusPlus::seed_from_u64(seed());
    for way in Way::ALL {
        let faults: Vec<Fault> = Fault::ALL.into_iter().filter(|fault| fault.fits(way)).collect();
        let case = Case {
            way: Some(way),
            is_bridged: way == Way::Inline,
            is_both_ways: true,
            link: LinkKind::Fast,
            faults,
            time: None,
            host_mtu: 9_000,
            seed: random.random(),
        };
        case.run().assert_clean();
    }
}

fn seed() -> u64 {
    let seed = variable("CHAOS_SEED").and_then(|text| text.parse().ok());
    let seed = seed.unwrap_or_else(|| Clock::wall_nanos() / 1_000);
    eprintln!("CHAOS_SEED={seed}");
    seed
}

/// For as long as CHAOS_SECONDS says: each kind of trouble by itself, in all ways, and all kinds mixed.
#[test]
#[ignore = "an hour: `make chaos`"]
fn no_transfer_hangs_for_an_hour() {
    let seconds = variable("CHAOS_SECONDS").and_then(|text| text.parse().ok()).unwrap_or(3_600);
    let of_case = variable("CHAOS_CASE_SECONDS").and_then(|text| text.parse().ok()).unwrap_or(40);
    let end = Clock::now() + Duration::from_secs(seconds);
    let mut random = Xoshiro256PlusPlus::seed_from_u64(seed());
    let mut outcomes: Vec<Outcome> = Vec::new();
    while Clock::now() < end {
        let time = Duration::from_secs(of_case);
        if let Some(text) = variable("CHAOS_CASE") {
            let case = Case::parse(&text, time).unwrap_or_else(|| panic!("no case '{text}'"));
            outcomes.push(case.run());
            continue;
        }
        let mut case = Case::choose(&mut random, time);
        if let Some(names) = variable("CHAOS_FAULTS") {
            let of = |name| Fault::from_name(name).unwrap_or_else(|| panic!("no fault '{name}'"));
            case.faults = names.split(',').map(of).collect();
        }
        if let Some(name) = variable("CHAOS_WAY") {
            case.way = Way::ALL.into_iter().find(|way| way.name() == name);
            case.is_bridged = case.way == Some(Way::Inline) || name == "bridge";
        }
        if let Some(name) = variable("CHAOS_LINK") {
            case.link = LinkKind::ALL.into_iter().find(|link| link.name() == name).unwrap();
        }
        if let Some(value) = variable("CHAOS_BOTH") {
            case.is_both_ways = value == "1";
        }
        outcomes.push(case.run());
    }
    eprintln!("\nall cases:");
    outcomes.iter().for_each(|outcome| eprintln!("{}", outcome.summary()));
    let bad = outcomes.iter().filter(|outcome| !outcome.is_clean()).count();
    assert_eq!(bad, 0, "of {} cases", outcomes.len());
}
