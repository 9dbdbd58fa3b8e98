use super::*;
use crate::Scenario;
use units::{Bytes, Rate};

fn plan(settings: &str, seed: u64) -> Result<LinkPlan, Error> {
    let scenario = Scenario::from_toml("t.toml", &format!("name = \"t\"\n{settings}"))?;
    scenario.resolved().swap_remove(0).links(seed, &mut |file| match file {
        "good.trace" => Ok("1\n1\n5\n".to_owned()),
        "bad.trace" => Ok("1\nx\n".to_owned()),
        _ => Err("No such file or directory".to_owned()),
    })
}

fn ms(n: u64) -> Duration {
    Duration::from_millis(n)
}

#[test]
fn every_key_reaches_the_model() {
    let plan = plan(
        r#"
wan = { delay = "5 ms", rate = "1 Gbit/s", queue = "64 KB", loss = "1 %" }
radio.up = { delay = "20 ms", jitter = "2 ms", slots = "10 ms", fades = { every = "2 s", for = "1 ms", loss = "50 %", regular = true } }
[radio.down]
steps = [{ rate = "384 kbit/s", for = "10 s" }, { rate = "38.4 kbit/s", for = "10 s" }]
queue = "20 packets"
policer = { rate = "20 Mbit/s", burst = "64 KB" }
burst_loss = { enter = "0.1 %", leave = "25 %" }
fades = { every = "900 ms", for = "4 ms" }
outages = [{ at = "3 s", for = "500 ms" }]
harq = { block_error = "10 %", retry = "8 ms" }
"#,
        7,
    )
    .unwrap();
    assert_eq!(plan.wan_down.capacity, Capacity::Constant(Rate::from_mbps(1_000)));
    assert_eq!(plan.wan_up.queue, link::QueueLimit::Bytes(Bytes::new(64_000)));
    assert_eq!(plan.wan_up.loss_after, LossModel::Bernoulli { ppm: 10_000 });
    assert_eq!(plan.wan_down.delay, DelayModel::Fixed(ms(5)));
    let down = &plan.radio_down;
    assert_eq!(down.capacity.offered_bytes(Duration::ZERO, ms(20_000)), Bytes::new(480_000 + 48_000));
    assert_eq!(down.queue, link::QueueLimit::Packets(20));
    assert_eq!(down.policer, Some(link::Policer { rate: Rate::from_mbps(20), burst: Bytes::new(64_000) }));
    let bursts = LossModel::GilbertElliott {
        to_bad_ppm: 1_000,
        to_good_ppm: 250_000,
        good_loss_ppm: 0,
        bad_loss_ppm: 1_000_000,
    };
    assert_eq!(down.loss_after, bursts);
    assert_eq!(down.fades, Some(link::Fades::random(ms(900), ms(4), 1_000_000)));
    assert_eq!(plan.radio_up.fades, Some(link::Fades::regular(ms(2_000), ms(1), 500_000)));
    assert_eq!(down.outages, OutageModel::Scheduled(vec![(ms(3_000), ms(500))]));
    assert_eq!(
        down.harq,
        Some(link::Harq { block_error_ppm: 100_000, retry_time: ms(8), tries_max: 5, per_slot: false })
    );
    assert_eq!(plan.radio_up.delay, DelayModel::Normal { mean: ms(20), deviation: ms(2) });
    assert_eq!(plan.radio_up.uplink_slots.unwrap().period, ms(10));
    assert_eq!(plan.radio_up.capacity, Capacity::Unlimited);
}

#[test]
fn a_loss_of_a_case_replaces_the_scenarios() {
    let text = r#"name = "t"
radio.down = { loss = "1 %", fades = { every = "1 s", for = "1 ms" } }
[[case]]
name = "as it is"
[[case]]
name = "bursts"
radio.down.burst_loss = { enter = "0.1 %", leave = "25 %" }
[[case]]
name = "fades"
radio.down.fades = { every = "2 s", for = "1 ms" }
"#;
    let cases = Scenario::from_toml("t.toml", text).unwrap().resolved();
    let of = |case: usize| cases[case].links(1, &mut |_| Err(String::new())).unwrap().radio_down;
    assert_eq!(of(0).loss_after, LossModel::Bernoulli { ppm: 10_000 });
    assert!(of(0).fades.is_some());
    assert!(matches!(of(1).loss_after, LossModel::GilbertElliott { .. }) && of(1).fades.is_none());
    assert_eq!(of(2).loss_after, LossModel::None);
    assert_eq!(of(2).fades, Some(link::Fades::random(ms(2_000), ms(1), 1_000_000)));
}

#[test]
fn a_seed_decides_traces_and_draws() {
    let settings = "radio.down.preset = \"4g-lte\"\nradio.up.preset = \"4g-lte\"\n";
    let (one, again, two) =
        (plan(settings, 1).unwrap(), plan(settings, 1).unwrap(), plan(settings, 2).unwrap());
    assert_eq!(one.radio_down, again.radio_down);
    assert_ne!(one.radio_down.capacity, two.radio_down.capacity);
    assert_ne!(one.radio_down.capacity, one.radio_up.capacity);
    let seeds = one.named().map(|(_, config)| config.seed);
    assert!((0..4).all(|i| !seeds[..i].contains(&seeds[i])), "{seeds:?}");
    let fixed = plan("radio.down = { preset = \"4g-lte\", trace_seed = 1 }", 2).unwrap();
    assert_eq!(fixed.radio_down.capacity, one.radio_down.capacity);
}

#[test]
fn traces_are_read_and_faults_named() {
    let good = plan("radio.down.trace = \"good.trace\"", 1).unwrap();
    assert_eq!(good.radio_down.capacity.offered_bytes(Duration::ZERO, ms(6)), Bytes::new(4_500));
    let said = |settings| plan(settings, 1).unwrap_err().to_string();
    assert_eq!(said("radio.up.trace = \"no.trace\""), "trace no.trace: No such file or directory");
    assert!(said("radio.down.trace = \"bad.trace\"").contains("bad.trace:2: `x` is not a time"));
    let overlap = "radio.down.outages = [{ at = \"0 s\", for = \"2 s\" }, { at = \"1 s\", for = \"2 s\" }]";
    let fades = "radio.down.fades = { every = \"4 ms\", for = \"4 ms\" }";
    assert!(said(fades).starts_with("link radio down: link setting `fades`: "), "{}", said(fades));
    let policer = "radio.down.policer = { rate = \"1 Mbit/s\", burst = \"0 B\" }";
    assert!(said(policer).contains("`policer.burst`: must be above zero"), "{}", said(policer));
    assert!(said(overlap).starts_with("link radio down: "), "{}", said(overlap));
}

#[test]
fn management_of_a_queue_reaches_the_model_and_is_the_simulators_alone() {
    let aqm = |text: &str| plan(&format!("radio.down.aqm = {text}"), 1).map(|plan| plan.radio_down.aqm);
    let codel = link::CoDelParams { target: ms(8), ..link::CoDelParams::default() };
    assert_eq!(aqm(r#"{ law = "codel", target = "8 ms" }"#).unwrap(), Some(link::Aqm::CoDel(codel)));
    let dual = link::DualPi2Params { step: ms(2), ..link::DualPi2Params::default() };
    assert_eq!(aqm(r#"{ law = "dualpi2", step = "2 ms" }"#).unwrap(), Some(link::Aqm::DualPi2(dual)));
    for (wrong, why) in [
        (r#"{ law = "codel", step = "2 ms" }"#, "no `step`"),
        (r#"{ law = "dualpi2", interval = "2 ms" }"#, "no `interval`"),
        (r#"{ law = "red" }"#, "codel"),
        (r#"{ law = "codel", target = "0 ms" }"#, "above zero"),
    ] {
        let error = aqm(wrong).unwrap_err().to_string();
        assert!(error.contains(why), "{wrong}: {error}");
    }
    let text = "name = \"t\"\nradio.up.aqm = { law = \"codel\" }";
    let case = Scenario::from_toml("t.toml", text).unwrap().resolved().swap_remove(0);
    assert_eq!(case.simulated_only(), Some("aqm"));
}
