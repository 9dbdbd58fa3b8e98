//! Flags and files, and the settings that come of them.

#![allow(clippy::unwrap_used)] // A failure here is a failed test.

use control::{ControllerConfig, CubicParams, FixedParams, RateParams};
use engine::{ClientEcn, Sharing, WindowPolicy};
use units::{Bytes, Rate};

use super::*;

fn parse(line: &str) -> Result<Settings, String> {
    // Words are separated by two spaces: quantities contain one.
    let words = std::iter::once("run").chain(line.split("  "));
    Line::try_parse_from(words).map(|line| line.settings).map_err(|error| error.to_string())
}

fn engine(line: &str) -> Result<EngineConfig, String> {
    parse(&format!("--wired  w0  --mobile  m0{line}")).unwrap().engine.config()
}

#[test]
fn defaults_are_those_of_the_crates() {
    let args = parse("--wired  w0  --mobile  m0").unwrap();
    let made = EngineConfig { hash_seed: 0, ..args.engine.config().unwrap() };
    assert_eq!(made, EngineConfig::default());
    let wanted = Config { wired: "w0".to_owned(), mobile: "m0".to_owned(), ..Config::default() };
    assert_eq!(args.machine_config(), Ok(wanted));
}

#[test]
fn settings_reach_the_controller() {
    let rate = engine("  --controller  rate  --r-cap  30 Mbit/s  --in-flight-cap  none").unwrap().controller;
    let wanted = RateParams { r_cap: Rate::from_mbps(30), in_flight_cap: None, ..RateParams::default() };
    assert_eq!(rate, ControllerConfig::Rate(wanted));
    let fixed =
        engine("  --controller  fixed  --rate  8 Mbit/s  --in-flight-cap  100 ms").unwrap().controller;
    let wanted =
        FixedParams { rate: Rate::from_mbps(8), window: Bytes::new(100_000), ..FixedParams::default() };
    assert_eq!(fixed, ControllerConfig::Fixed(wanted));
    let made = engine("  --window-policy  opportunistic  --no-accelerate").unwrap();
    assert_eq!((made.window_policy, made.accelerate), (WindowPolicy::Opportunistic, false));
    assert_eq!(made.client_ecn, ClientEcn::NotEct);
    assert_eq!(engine("  --ecn  ect0").unwrap().client_ecn, ClientEcn::Ect0);
}

#[test]
fn split_tcp_takes_a_name_and_no_settings() {
    for name in ["new-reno", "cubic", "bbr"] {
        let made = engine(&format!("  --controller  {name}")).unwrap().controller;
        assert_eq!(Some(made), ControllerConfig::named(name));
        assert!(engine(&format!("  --controller  {name}  --rate  8 Mbit/s")).is_err());
    }
}

#[test]
fn split_tcp_has_a_controller_per_flow_and_cubic_any_reduction() {
    let split = engine("  --controller  cubic  --sharing  flow  --set  beta_permille=800").unwrap();
    let wanted = CubicParams { beta_permille: 800, ..CubicParams::default() };
    assert_eq!((split.controller, split.sharing), (ControllerConfig::Cubic(wanted), Sharing::Flow));
    let unknown = engine("  --controller  cubic  --set  beta=800").unwrap_err();
    assert!(unknown.contains("it has mss, initial_window_segments, beta_permille"), "{unknown}");
    assert!(engine("  --set  alpha").unwrap_err().contains("NAME=VALUE"));
    assert!(engine("  --set  alpha=7 parsecs").unwrap_err().contains("20 ms"));
}

#[test]
fn settings_of_the_other_controller_are_refused() {
    assert!(engine("  --rate  8 Mbit/s").unwrap_err().contains("--controller fixed"));
    assert!(engine("  --controller  fixed  --r-cap  8 Mbit/s").unwrap_err().contains("--rate"));
    assert!(parse("--wired  w0").err().unwrap().contains("--mobile"));
    assert!(parse("--wired  w0  --mobile  m0  --rate  8").err().unwrap().contains("Mbit/s"));
}

#[test]
fn a_file_gives_settings_and_flags_win() {
    let path = tempfile::NamedTempFile::new().unwrap().into_temp_path();
    let read = |text: &str, flags: &[&str]| {
        std::fs::write(&path, text).unwrap();
        let given: Vec<OsString> = flags.iter().map(OsString::from).collect();
        Settings::with_file(&path, &given)
    };
    let text =
        "wired = \"w0\"\nmobile = \"m0\"\nno-gso = true\ncontroller = \"fixed\"\nrate = \"8 Mbit/s\"\n";
    let args = read(text, &["--config", "x", "--rate", "9 Mbit/s", "--mobile", "m1"]).unwrap();
    let wanted = FixedParams { rate: Rate::from_mbps(9), ..FixedParams::default() };
    assert_eq!(args.engine.config().unwrap().controller, ControllerConfig::Fixed(wanted));
    let config = args.machine_config().unwrap();
    assert_eq!((config.wired.as_str(), config.mobile.as_str(), config.gso), ("w0", "m1", false));
    assert!(read("wired = \"w0\"", &["--config", "x"]).err().unwrap().contains("`mobile`"));
    let problem = read("no-gso = true\nrate = \"8\"", &[]).err().unwrap();
    assert!(problem.contains("Mbit/s") && problem.contains(", line 2:"), "{problem}");
    assert_eq!(problem.lines().count(), 1, "{problem}");
    // A value alone is right, and not beside a flag.
    let problem = read("name = \"x\"\nwired = \"w0\"", &["--inline", "a", "b"]).err().unwrap();
    assert!(
        problem.contains("'wired' and 'mobile' cannot be used with 'inline'")
            && problem.contains(", line 2:"),
        "{problem}"
    );
}

#[test]
fn settings_of_the_machine_wait_for_the_next_start() {
    let path = tempfile::NamedTempFile::new().unwrap().into_temp_path();
    let write = |text: &str| std::fs::write(&path, text).unwrap();
    write("wired = \"w0\"\nmobile = \"m0\"\nno-gso = true\nhang-after = \"2 s\"\n");
    let given = ["--hang-after", "3 s"].map(OsString::from).to_vec();
    let mut read = reload::reading(path.to_path_buf(), given).unwrap();
    assert!(read().unwrap().at_next_start.is_empty());
    write("wired = \"w0\"\nmobile = \"m9\"\nhang-after = \"4 s\"\ncontroller = \"cubic\"\n");
    let reread = read().unwrap();
    assert_eq!(reread.at_next_start, ["mobile = m9", "without no-gso"]);
    assert_eq!(reread.engine.controller.name(), "cubic");
}

#[test]
fn what_cannot_be_is_refused_with_the_flag_that_says_so() {
    let machine = |line: &str| parse(&format!("--wired  w0  --mobile  m0{line}")).unwrap().machine_config();
    assert!(machine("  --hang-after  0 s").unwrap_err().contains("at least 100"));
    assert!(machine("  --name  a b/c").unwrap_err().contains("'a b/c'"));
    assert!(machine("  --inline-fallback  bridge").unwrap_err().contains("belongs to --inline"));
    assert!(machine("  --name  lte-2  --hang-after  100 ms").is_ok());
    assert_eq!(engine("  --memory-max  0 B").unwrap_err(), "run: --memory-max must be greater than zero");
    let least = "run: --memory-max 10 B: with less than 1024 KiB nothing is accelerated";
    assert_eq!(engine("  --memory-max  10 B").unwrap_err(), least);
    for (flag, least) in [("subscriber-memory-max", 64), ("flow-memory-max", 64), ("window-max", 4)] {
        let problem = engine(&format!("  --{flag}  10 B")).unwrap_err();
        assert!(problem.contains(&format!("--{flag} 10 B: with less than {least} KiB")), "{problem}");
        assert!(engine(&format!("  --{flag}  {least} KiB")).is_ok());
    }
}

#[test]
fn a_line_lists_values_and_speaks_of_numbers() {
    let path = tempfile::NamedTempFile::new().unwrap().into_temp_path();
    let read = |text: &str| {
        std::fs::write(&path, format!("wired = \"w0\"\nmobile = \"m0\"\n{text}\n")).unwrap();
        Settings::with_file(&path, &[]).err().unwrap()
    };
    let listed = read("notrack = \"sometimes\"");
    assert!(
        listed.ends_with("invalid value `sometimes`, expected one of `auto`, `always`, `never`"),
        "{listed}"
    );
    let listed_too = read("sharing = \"x\"");
    assert!(listed_too.ends_with("invalid value 'x' [possible values: subscriber, flow]"), "{listed_too}");
    let number = read("shards = \"x\"");
    assert!(
        number.ends_with("setting 'shards': invalid value 'x': write a whole number, such as 2"),
        "{number}"
    );
    assert!([&listed, &number].iter().all(|text| text.lines().count() == 1 && text.contains(", line 3:")));
}

#[test]
fn lists_of_the_file_go_before_those_of_flags_and_switches_stay_on() {
    let path = tempfile::NamedTempFile::new().unwrap().into_temp_path();
    let text = "wired = \"w0\"\nmobile = \"m0\"\nno-gso = true\nrule = [\"pass port 22\"]\n\
                [handover]\nlisten = \"192.0.2.1:7320\"\ncertificate = \"c\"\nkey = \"k\"\n\
                [handover.peers.north]\naddress = \"192.0.2.7:7320\"\ntakes = [\"10.45.0.0/16\"]\n";
    std::fs::write(&path, text).unwrap();
    let given = ["--rule", "both port 80", "--hang-after", "3 s"].map(OsString::from);
    let settings = Settings::with_file(&path, &given).unwrap();
    let rules = settings.engine.config().unwrap().policy.rules;
    let wanted = ["pass port 22", "both port 80"].map(|rule| rule.parse().unwrap());
    assert_eq!(rules, wanted);
    let peer = |text: &str| value::Written(text.parse().unwrap());
    assert_eq!(settings.handover.handover_peer, [peer("north=192.0.2.7:7320")]);
    assert_eq!(settings.handover.handover_takes.len(), 1);
    let mut config = Config::default();
    settings.machine.apply(&mut config).unwrap();
    assert_eq!((config.gso, config.watchdog.hang_after_ms), (false, 3_000));
    for (text, problem) in [
        ("feedback-key-file = \"k\"", "line 1: 'feedback-key-file' needs 'feedback'"),
        ("name = \"x\"\n[handover]\nkey = \"k\"", "line 2: a hand-over needs handover-listen, handover-cert"),
        ("inline = [\"a\"]", "line 1: 'inline' is a list of two interfaces"),
    ] {
        std::fs::write(&path, text).unwrap();
        let said = Settings::with_file(&path, &[]).err().unwrap();
        assert!(said.contains(problem), "{said}");
    }
}

#[test]
fn the_watchdog_needs_no_interfaces() {
    assert_eq!(parse("--watchdog  /x/record  1000").unwrap().watchdog.unwrap(), ["/x/record", "1000"]);
}

#[test]
fn a_file_can_ask_for_a_bridge() {
    let path = tempfile::NamedTempFile::new().unwrap().into_temp_path();
    std::fs::write(&path, "inline = [\"w0\", \"m0\"]\ninline-fallback = \"bridge\"\n").unwrap();
    let given = [OsString::from("--config"), path.as_os_str().to_owned()];
    let settings = Settings::with_file(&path, &given).unwrap();
    assert_eq!(settings.inline.as_deref(), Some(&["w0".to_owned(), "m0".to_owned()][..]));
    // As flags say it.
    let words = ["run", "--inline", "w0", "m0"];
    let line = Line::try_parse_from(words).unwrap();
    assert_eq!(line.settings.inline, settings.inline);
}
