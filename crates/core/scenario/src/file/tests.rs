use super::*;
use crate::{CongestionControl, Controller, QueueLimit, WindowPolicy};
use units::{Bytes, Rate};

const SAMPLE: &str = r#"
name = "sample"
seed = 7
[wan]
delay = "5 ms"
[radio.down]
rate = "5.6 Mbit/s"
delay = "26 ms"
queue = "300 packets"
outages = [{ at = "10 s", for = "2 s" }]
[radio.up]
rate = "1 Mbit/s"
slots = "10 ms"
[client]
window = "17 KB"
[workload]
size = "15 MB"
[[case]]
name = "direct"
[[case]]
name = "BBR on steps"
server.congestion_control = "bbr"
radio.down.steps = [{ rate = "384 kbit/s", for = "10 s" }, { rate = "0 bit/s", for = "1 s" }]
[[case]]
name = "accelerated"
client = { tcp_rmem = "4096 30400 30400" }
accelerator = { enabled = true, controller = "fixed", rate = "5.6 Mbit/s", window_policy = "opportunistic" }
"#;

fn sample() -> Scenario {
    Scenario::from_toml("sample.toml", SAMPLE).unwrap()
}

#[test]
fn cases_change_only_what_they_name() {
    let cases = sample().resolved();
    let down: Vec<_> = cases.iter().map(|c| c.radio.down.clone().unwrap()).collect();
    assert_eq!(down[0].rate.unwrap().0, Rate::from_kbps(5_600));
    assert_eq!(down[0].queue, Some(QueueLimit::Packets(300)));
    assert!(down[1].rate.is_none(), "a capacity replaces one of another kind");
    assert_eq!(down[1].steps.as_ref().unwrap().len(), 2);
    assert_eq!(down[1].delay, down[0].delay);
    assert_eq!(cases[1].server.congestion_control, CongestionControl::named("bbr"));
    assert_eq!(cases[0].client.window.unwrap().0, Bytes::new(17_000));
    assert_eq!(cases[2].client.window, None, "one window key replaces the other");
    assert_eq!(cases[2].client.rmem().unwrap(), "4096 30400 30400");
    assert_eq!(cases[2].accelerator.controller, Controller::named("fixed"));
    assert_eq!(cases[2].accelerator.window_policy, Some(WindowPolicy::Opportunistic));
    assert_eq!(
        cases[2].accelerator.run_arguments().join(" "),
        "--controller fixed --rate 5.6 Mbit/s --window-policy opportunistic"
    );
}

#[test]
fn a_fast_path_can_be_written_down() {
    let text = r#"
name = "fast"
[wan]
rate = "10 Gbit/s"
delay = "30 ms"
queue = "1 GiB"
[radio.down]
rate = "2 Gbit/s"
queue = "4 MB"
tdd = { slot = "0.5 ms", pattern = "DDDDDDDSUU" }
harq = { block_error = "9 %", retry = "6 ms", per_slot = true }
[radio.up]
tdd = { slot = "0.5 ms", pattern = "DDDDDDDSUU" }
grants = { request = "5 ms", after = "4 ms", hold = "20 ms" }
[client]
tcp_rmem = "4096 131072 1073741824"
[server]
tcp_wmem = "4096 131072 268435456"
[accelerator]
enabled = true
window_max = "64 MB"
"#;
    let case = &Scenario::from_toml("fast.toml", text).unwrap().resolved()[0];
    let plan = case.links(1, &mut |_| Err("none".to_owned())).unwrap();
    assert_eq!(plan.wan_down.capacity, link::Capacity::Constant(Rate::from_mbps(10_000)));
    assert_eq!(plan.radio_down.capacity, link::Capacity::Constant(Rate::from_mbps(2_000)));
    assert!(plan.radio_down.harq.unwrap().per_slot && plan.radio_down.tdd != plan.radio_up.tdd);
    assert_eq!(plan.radio_up.grants.unwrap().hold.as_millis(), 20);
    let wrong = Scenario::from_toml("fast.toml", &text.replace("DDDDDDDSUU", "DDDDDDDS")).unwrap();
    let said = wrong.resolved()[0].links(1, &mut |_| Err("none".to_owned())).unwrap_err().to_string();
    assert!(said.contains("radio up") && said.contains("no slot for this direction"), "{said}");
    assert_eq!(case.server.send_buffer(), Some(Bytes::from_mib(256)));
    assert_eq!(case.accelerator.run_arguments(), ["--window-max", "64 MB"]);
}

#[test]
fn round_trips_through_json_and_toml() {
    let json = serde_json::to_string(&sample()).unwrap();
    assert_eq!(serde_json::from_str::<Scenario>(&json).unwrap(), sample());
    let text = toml::to_string(&sample()).unwrap();
    assert_eq!(Scenario::from_toml("again.toml", &text).unwrap(), sample());
}

/// Each wrong file gets one message that names file, line and what is allowed: read the snapshot.
#[test]
fn a_wrong_file_gets_a_clear_message() {
    let changes = [
        ("size =", "sise ="),
        ("[wan]", "[wam]"),
        ("server.congestion_control = \"bbr\"", "server.cc = \"bbr\""),
        ("\"5.6 Mbit/s\"", "\"5.6 Mbps\""),
        ("\"300 packets\"", "300"),
        ("\"bbr\"", "\"tahoe\""),
        ("seed = 7", "seed = \"seven\""),
        ("rate = \"5.6 Mbit/s\"", "rate = \"5.6 Mbit/s\"\npreset = \"4g-lte\""),
        ("rate = \"5.6 Mbit/s\"", "preset = \"6g\""),
        ("\"4096 30400 30400\"", "\"30400\""),
        ("window = \"17 KB\"", "window = \"17 KB"),
        ("name = \"direct\"", "name = \"accelerated\""),
        ("name = \"sample\"", ""),
    ];
    let message = |(from, to): (&str, &str)| {
        assert!(SAMPLE.contains(from), "{from}");
        let error = Scenario::from_toml("sample.toml", &SAMPLE.replacen(from, to, 1)).unwrap_err();
        format!("# {from}  →  {to}\n{error}\n")
    };
    insta::assert_snapshot!(changes.map(message).join("\n"));
}

/// The reference in the documentation names every key, and each of its keys exists.
#[test]
fn the_documented_example_is_right_and_complete() {
    let doc = include_str!("../../../../../docs/scenarios.md");
    let example = doc.split("```toml\n").nth(1).and_then(|rest| rest.split("```").next()).unwrap();
    let scenario = Scenario::from_toml("docs/scenarios.md", example).unwrap();
    assert_eq!(scenario.resolved().len(), 2);
    // What is commented out excludes something else; given alone it must be right, too.
    let mut section = "";
    for line in example.lines() {
        if line.starts_with('[') {
            section = line.split(']').next().unwrap();
        }
        let Some(line) = line.strip_prefix("# ") else { continue };
        let alone = format!("name = \"t\"\n{section}]\n{line}\n");
        Scenario::from_toml("docs/scenarios.md", &alone).unwrap_or_else(|e| panic!("{e}"));
    }
    for section in ["radio.down", "workload", "accelerator"] {
        let wrong = format!("name = \"t\"\n[{section}]\nx = 1\n");
        let known = Scenario::from_toml("x", &wrong).unwrap_err().to_string();
        let keys = known.split('`').skip(3).step_by(2);
        for key in keys.filter(|key| !key.contains('\n')) {
            assert!(example.contains(&format!("{key} =")), "{key} is not documented");
        }
    }
}

#[test]
fn the_congestion_control_is_cubic_unless_said() {
    let scenario = Scenario::from_toml("t.toml", "name = \"t\"\n").unwrap();
    assert_eq!(scenario.resolved()[0].server.congestion_control, CongestionControl::named("cubic"));
}
