use super::*;

/// A scenario with these keys and radios, and a case for each control.
fn scenario(keys: &str, radios: &[&str], controls: &[&str]) -> MultiPath {
    let radios: String = radios
        .iter()
        .enumerate()
        .map(|(i, links)| format!("[[radio]]\nname = 'radio{i}'\n{links}\n"))
        .collect();
    let case = |name: &&str| format!("[[case]]\nname = '{name}'\ncongestion_control = '{name}'\n");
    let cases: String = controls.iter().map(case).collect();
    let text = format!("name = 'a'\ntitle = 'A'\n{keys}\n{radios}{cases}");
    MultiPath::from_toml("a.toml", &text).unwrap()
}

fn run(scenario: &MultiPath, case: usize, repetition: u32) -> MultiPathRun {
    let no_traces = &mut |_: &str| Err("no traces".to_owned());
    let made = MultiPathCaseRun::new(scenario, &scenario.cases[case], repetition, no_traces);
    let run = made.unwrap().run().unwrap();
    assert!(run.is_intact && run.error.is_none(), "{} {:?}", run.case, run.error);
    run
}

const CLEAN: &str = "down = { rate = '10 Mbit/s', delay = '20 ms', queue = '100 KB' }\n\
                     up = { rate = '10 Mbit/s', delay = '20 ms' }";
const SLOW: &str = "down = { rate = '5 Mbit/s', delay = '60 ms', queue = '150 KB' }\n\
                    up = { rate = '2 Mbit/s', delay = '60 ms' }";

#[test]
fn two_radios_carry_together_what_both_can() {
    for (i, name) in ["reno", "cubic", "bbr", "lia"].into_iter().enumerate() {
        let scenario = scenario("time = '20 s'", &[CLEAN, SLOW], &["reno", "cubic", "bbr", "lia"]);
        let run = run(&scenario, i, 1);
        assert!((11.0..14.3).contains(&run.goodput_mbps), "{name}: {} of 15 Mbit/s", run.goodput_mbps);
        let carried = |flow: &str| run.flows[flow].iter().sum::<u64>();
        assert!(carried("radio0-1") > carried("radio1-1") && carried("radio1-1") > 5_000_000, "{name}");
    }
}

#[test]
fn a_file_arrives_whole_over_lossy_radios() {
    let lossy = SLOW
        .replace("'150 KB'", "'150 KB', loss = '2 %'")
        .replace("'2 Mbit/s', ", "'2 Mbit/s', loss = '2 %', ");
    let keys = "time = '100 s'\nsize = '3000001 B'\nserver_addresses = 2\nfamily = 'ipv6'";
    let scenario = scenario(keys, &[CLEAN, &lossy], &["balia"]);
    for repetition in 1..=5 {
        let run = run(&scenario, 0, repetition);
        assert_eq!(run.bytes, 3_000_001);
        assert_eq!(run.flows.len(), 4, "two radios to two addresses");
    }
}

#[test]
fn the_same_seed_gives_the_same_run() {
    let lossy = SLOW.replace("'150 KB'", "'150 KB', loss = '1 %'");
    let scenario = scenario("time = '5 s'\nbeside = 1", &[&lossy, CLEAN], &["lia"]);
    assert_eq!(run(&scenario, 0, 1), run(&scenario, 0, 1));
    assert_ne!(run(&scenario, 0, 1).bytes, run(&scenario, 0, 2).bytes);
}

/// The share of a TCP that a connection with two subflows takes of one queue, on the mean of `seeds` runs.
fn share(control: &str, radio: &str, seeds: u32) -> f64 {
    let scenario = scenario("time = '120 s'\nserver_addresses = 2\nbeside = 1", &[radio], &[control]);
    (1..=seeds).map(|seed| run(&scenario, 0, seed).share().unwrap()).sum::<f64>() / f64::from(seeds)
}

/// In a queue that alone loses, too, as long as a millisecond of jitter keeps the flows from always meeting it in the
/// same order.
#[test]
fn two_subflows_take_twice_a_tcp_and_coupled_ones_about_one() {
    let radio = CLEAN.replace("'20 ms'", "'20 ms', jitter = '1 ms'");
    let [reno, lia, balia] = ["reno", "lia", "balia"].map(|control| share(control, &radio, 3));
    assert!((1.8..2.6).contains(&reno), "reno: {reno:.2} of a TCP");
    assert!((0.85..1.4).contains(&lia), "lia: {lia:.2} of a TCP");
    assert!((0.85..1.4).contains(&balia), "balia: {balia:.2} of a TCP");
}
