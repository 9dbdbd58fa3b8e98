//! Cases of scenario files with something beside their flows: who gets what, and what passes.

use engine::{EngineConfig, Rule};
use scenario::results::BesideFigures;
use scenario::{Case, Scenario};
use sim::{CaseOutcome, CaseRun, LogMode};
use units::Duration;

const LIMIT: Duration = Duration::from_secs(10);

const LINK: &str = "{ rate = \"6 Mbit/s\", delay = \"10 ms\", queue = \"300 KB\" }";

fn case(link: &str, beside: &str) -> Case {
    let text = format!(
        "name = \"t\"\nwan.delay = \"10 ms\"\n\
         radio.down = {link}\n\
         radio.up = {{ rate = \"4 Mbit/s\", delay = \"10 ms\", queue = \"100 KB\" }}\n\
         workload = {{ size = \"60 MB\", ends_at_limit = true, ping = \"100 ms\", beside = [{beside}] }}\n"
    );
    Scenario::from_toml("t.toml", &text).unwrap().resolved().remove(0)
}

/// What comes of it, with the engine that the case's arguments mean.
fn outcome(beside: &str, is_accelerated: bool) -> CaseOutcome {
    outcome_over(LINK, beside, is_accelerated, (1, LIMIT))
}

/// The same over another link towards the device, with a seed and a time.
fn outcome_over(
    link: &str,
    beside: &str,
    is_accelerated: bool,
    (seed, limit): (u64, Duration),
) -> CaseOutcome {
    let case = case(link, beside);
    let mut config = EngineConfig::default();
    let arguments = case.run_arguments();
    let rules = arguments.chunks(2).map(|option| option[1].parse::<Rule>().unwrap());
    config.policy.rules.extend(rules);
    let plan = case.links(seed, &mut |_| Err("none".to_owned())).unwrap();
    let run = CaseRun::new(&case, &plan, is_accelerated.then_some(config), (seed, limit), LogMode::Hash);
    let outcome = run.run(&mut |_| ()).unwrap();
    assert_eq!(outcome.problems, Vec::<String>::new());
    outcome
}

fn shares(one: &BesideFigures) -> (f64, f64) {
    (one.own_mbps, one.goodput_mbps)
}

#[test]
fn downloads_beside_share_the_link_and_pass() {
    for beside in [
        "{ kind = \"download\", start = \"2 s\", stop = \"7 s\" }",
        "{ kind = \"download\", congestion_control = \"bbr\", start = \"2 s\", stop = \"7 s\" }",
        "{ kind = \"quic\", start = \"2 s\", stop = \"7 s\" }",
        "{ kind = \"quic\", congestion_control = \"bbr\", start = \"2 s\", stop = \"7 s\" }",
    ] {
        for is_accelerated in [false, true] {
            let outcome = outcome(beside, is_accelerated);
            let figures = &outcome.figures;
            let [one] = figures.beside.as_slice() else { panic!("{beside}: {:?}", figures.beside) };
            assert_eq!((one.start_s, one.end_s), (2.0, 7.0), "{beside}");
            let (own, other) = shares(one);
            assert!(other > 0.6 && (4.8..6.0).contains(&(own + other)), "{beside}: {own} and {other}");
            // Only the workload's flow is accelerated, also where the other one is TCP.
            assert_eq!(outcome.simulation.accelerated_flows, u64::from(is_accelerated), "{beside}");
            // When the other one has ended, all is the workload's own again.
            let bins = |from: f64, to: f64| {
                let bin = figures.series.bin_s;
                let range = (from / bin) as usize..((to / bin) as usize).min(one.goodput_series_mbps.len());
                let mean = |values: &[f64]| values[range.clone()].iter().sum::<f64>() / range.len() as f64;
                (mean(&figures.series.goodput_mbps), mean(&one.goodput_series_mbps))
            };
            let (own, other) = bins(8.5, 10.0);
            assert!(other < 0.1 && own > 4.5, "{beside}, at the end: {own} and {other}");
            assert!(bins(0.0, 1.9).1 == 0.0, "{beside}: it begins later");
            assert!(figures.ping_ms.is_some());
        }
    }
}

#[test]
fn where_the_radios_queue_is_short_a_neighbour_has_what_it_has_without_the_accelerator() {
    // About two bandwidth-delay products of a link that varies: what it loses is the neighbour's, too.
    let link = "{ preset = \"4g-lte\", delay = \"10 ms\", queue = \"130 KB\" }";
    let sum = |is_accelerated| {
        let of = |seed| {
            let beside = "{ kind = \"download\", start = \"2 s\" }";
            let run = (seed, Duration::from_secs(20));
            shares(&outcome_over(link, beside, is_accelerated, run).figures.beside[0])
        };
        (1..=4).map(of).fold((0.0, 0.0), |sum, of| (sum.0 + of.0, sum.1 + of.1))
    };
    let [direct, accelerated] = [false, true].map(sum);
    println!("{direct:?} without, {accelerated:?} with");
    assert!(accelerated.1 > 0.9 * direct.1, "{direct:?} without, {accelerated:?} with");
    assert!(accelerated.0 > 0.8 * direct.0.min(direct.1), "{direct:?} without, {accelerated:?} with");
}

#[test]
fn uploads_calls_and_pages_have_figures_of_their_own() {
    let outcome = outcome(
        "{ kind = \"upload\", start = \"1 s\" }, { kind = \"call\", rate = \"500 kbit/s\" }, \
         { kind = \"pages\", size = \"120 KB\", flows = 3, every = \"2 s\" }, { kind = \"quic\", flows = 2 }",
        true,
    );
    let beside = &outcome.figures.beside;
    let names: Vec<String> = beside.iter().map(BesideFigures::name).collect();
    assert_eq!(names, ["upload", "call", "pages", "quic, cubic", "quic, cubic"]);
    let (upload, call, pages) = (&beside[0], &beside[1], &beside[2]);
    // The call has 0.5 of the uplink's 4 Mbit/s, acknowledgements a little.
    assert!((1.0..3.6).contains(&upload.goodput_mbps), "{}", upload.goodput_mbps);
    assert!((0.4..0.5).contains(&call.goodput_mbps), "{}", call.goodput_mbps);
    let (down, up) = (call.delay_ms.unwrap(), call.delay_up_ms.unwrap());
    assert!(down.min >= 20.0 && up.min >= 20.0 && down.p95 > 40.0, "{down:?} {up:?}");
    assert!((0.0..0.2).contains(&call.loss.unwrap()));
    // Five began; each has 960 kbit.
    let took = pages.response_ms.unwrap();
    assert!((2..=5).contains(&took.count) && took.min > 100.0, "{took:?}");
    assert!(pages.received_bytes >= 120_000 * took.count);
    assert!(beside[3..].iter().all(|one| one.goodput_mbps > 0.3));
    // Of the workload's flow alone: not of all that was sent.
    let own = outcome.figures.transfer.received_bytes / 1_400;
    assert!(outcome.figures.retransmissions.segments < 2 * own, "{:?}", outcome.figures.retransmissions);
}

#[test]
fn an_upload_that_fills_the_uplink_is_not_taken_for_others_in_the_downlinks_queue() {
    let upload = "{ kind = \"upload\", start = \"1 s\" }";
    let [direct, accelerated] = [false, true].map(|is_accelerated| outcome(upload, is_accelerated).figures);
    assert!(accelerated.retransmissions.over_radio <= 20, "{:?}", accelerated.retransmissions);
    assert!(direct.beside[0].own_mbps > 5.5 && accelerated.beside[0].own_mbps > 5.5);
    // Its acknowledgements do not wait behind the download any more.
    let [before, after] = [&direct, &accelerated].map(|figures| figures.beside[0].goodput_mbps);
    assert!(after > 1.3 * before, "{after} of {before}");
    let [before, after] = [&direct, &accelerated].map(|figures| figures.ping_ms.unwrap().p95);
    // The uplink's own queue is 200 ms.
    assert!(after < 260.0 && before > 400.0, "{after} of {before}");
}

#[test]
fn the_same_case_is_the_same_run_and_nothing_beside_changes_nothing() {
    let hash = |beside: &str| outcome(beside, true).simulation.log_hash;
    let quic = "{ kind = \"quic\", start = \"1 s\" }";
    assert_eq!(hash(quic), hash(quic));
    // What would begin after the end is not there.
    assert_eq!(hash(""), hash("{ kind = \"quic\", start = \"30 s\" }"));
    assert_ne!(hash(""), hash(quic));
}

/// Devices behind one address: each has its own radio all the same.
#[test]
fn devices_behind_one_address_have_radios_of_their_own() {
    let of = |more: &str| {
        let text = format!(
            "name = \"t\"\nwan.delay = \"10 ms\"\nradio.down = {LINK}\n\
             workload = {{ size = \"60 MB\", ends_at_limit = true, flows = 2, {more} }}\n"
        );
        let case = Scenario::from_toml("t.toml", &text).unwrap().resolved().remove(0);
        let plan = case.links(1, &mut |_| Err("none".to_owned())).unwrap();
        let outcome = CaseRun::new(&case, &plan, None, (1, LIMIT), LogMode::Hash).run(&mut |_| ()).unwrap();
        assert_eq!(outcome.problems, Vec::<String>::new());
        outcome.figures.transfer
    };
    let (one, three) = (of("clients = 1"), of("clients = 3, one_address = true"));
    assert_eq!((one.flows.len(), three.flows.len()), (2, 6));
    assert!(three.goodput_mbps > 2.95 * one.goodput_mbps, "{} {}", three.goodput_mbps, one.goodput_mbps);
    for pair in three.flows.chunks(2) {
        let both: f64 = pair.iter().map(|flow| flow.goodput_mbps).sum();
        assert!(both < 6.0, "two flows share a radio of 6 Mbit/s: {both}");
    }
}
