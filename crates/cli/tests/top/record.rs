//! Samples for the screens' tests (`crates/box/top/tests/screens.rs`), from an accelerator with traffic.

use std::fs;
use std::path::Path;

use io::{Clock, Waiter};
use top::{Focus, Local, Sample, Sampler};
use units::Duration;

use crate::network::Network;
use crate::traffic::{Traffic, add_clients, connect};

/// Takes so many samples, half a second apart, under a name that does not change.
fn record(network: &Network, focus: &Focus, count: u64) -> Vec<Sample> {
    let source = Local::new(Path::new(io::INSTANCE_DIRECTORY), vec![network.name.clone()]);
    let mut sampler = Sampler::new(source);
    let mut waiter = Waiter::new(Duration::ZERO).unwrap();
    let mut due = Clock::now();
    let mut samples = Vec::new();
    for _ in 0..count {
        while Clock::now() < due {
            waiter.wait(Some(due)).unwrap();
        }
        due += Duration::from_millis(500);
        let mut sample = sampler.sample(focus).unwrap();
        assert_eq!(sample.trouble, None);
        let name = Some("radio".to_owned());
        (sample.names, sample.name) = (vec!["radio".to_owned()], name);
        sample.snapshot.as_mut().unwrap().name = "radio".to_owned();
        samples.push(sample);
    }
    samples
}

fn write(name: &str, samples: &[Sample]) {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../box/top/tests/recorded");
    let text = serde_json::to_string(samples).unwrap();
    fs::write(folder.join(name), text + "\n").unwrap();
}

#[test]
#[ignore = "writes tests/recorded anew: make record-top"]
fn record_samples() {
    let network = Network::build("record");
    add_clients(&network, 4);
    let accelerator = network.accelerate(&["--shards", "2", "--rule", "pass port 4433"]);
    let traffic = Traffic::start(&network, &[2, 2, 3, 4, 4, 4, 5]);
    // It has had data, and is idle.
    let idle = connect(&network, 6, 0);
    drop(record(&network, &Focus::default(), 2));
    write("several.json", &record(&network, &Focus::default(), 12));
    // Passed: the policy says so.
    let passed = connect(&network, 2, 4433);
    let focus = Focus { name: None, client: Some([10, 1, 0, 2].into()) };
    write("opened.json", &record(&network, &focus, 24));
    drop((passed, idle, traffic));
    accelerator.stop();
}
