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
radio.up = { delay = "20 ms", jitter = "2 ms", slots = "10 ms" }
[radio.down]
steps = [{ rate = "384 kbit/s", for = "10 s" }, { rate = "38.4 kbit/s", for = "10 s" }]
queue = "20 packets"
burst_loss = { enter = "0.1 %", leave = "25 %" }
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
    let bursts = LossModel::GilbertElliott {
        to_bad_ppm: 1_000,
        to_good_ppm: 250_000,
        good_loss_ppm: 0,
        bad_loss_ppm: 1_000_000,
    };
    assert_eq!(down.loss_after, bursts);
    assert_eq!(down.outages, OutageModel::Scheduled(vec![(ms(3_000), ms(500))]));
    assert_eq!(down.harq, Some(link::Harq { block_error_ppm: 100_000, retry_time: ms(8), tries_max: 5 }));
    assert_eq!(plan.radio_up.delay, DelayModel::Normal { mean: ms(20), deviation: ms(2) });
    assert_eq!(plan.radio_up.uplink_slots.unwrap().period, ms(10));
    assert_eq!(plan.radio_up.capacity, Capacity::Unlimited);
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
    assert!(said(overlap).starts_with("link radio down: "), "{}", said(overlap));
}
