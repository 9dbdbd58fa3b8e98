//! What a package is made of, and what `cellerator doctor` says on this machine.

use std::path::PathBuf;
use std::process::{Command, Output};
use std::sync::atomic::{AtomicU32, Ordering};

use io::{Host, lay_cable};
use serde_json::Value;

use crate::network::Running;
use crate::schema;

mod contents;

const PROGRAM: &str = env!("CARGO_BIN_EXE_cellerator");
const SCHEMA: &str = include_str!("../../../schemas/doctor.schema.json");

/// A namespace with two cables; gone with the value.
struct Place(Host);

impl Place {
    fn new() -> Self {
        static COUNT: AtomicU32 = AtomicU32::new(0);
        let number = COUNT.fetch_add(1, Ordering::SeqCst);
        let host = Host::create(&format!("ct-package-{}-{number}", std::process::id())).unwrap();
        lay_cable([(&host, "w0", &["10.9.1.1/24"]), (&host, "m0", &["10.9.2.1/24"])]).unwrap();
        Self(host)
    }

    fn output(&self, words: &[&str]) -> Output {
        self.0.output(words).unwrap()
    }

    /// What `cellerator doctor` says, checked against its schema, and its exit code.
    fn doctor(&self, program: &[&str], interfaces: &[&str]) -> (Value, i32) {
        let output = self.output(&[program, &["doctor", "--json"], interfaces].concat());
        let said = String::from_utf8_lossy(&output.stderr).into_owned();
        let document = serde_json::from_slice(&output.stdout).unwrap_or_else(|_| panic!("{said}"));
        schema::check_against(&document, SCHEMA);
        (document, output.status.code().unwrap())
    }
}

/// A copy of the program where every user may run it; gone with the value.
struct ForAll(PathBuf);

impl ForAll {
    fn new(name: &str) -> Self {
        let path = std::env::temp_dir().join(format!("ct-package-{name}-{}", std::process::id()));
        // By another process: a child that another test starts meanwhile would inherit the file, open for writing, and then
        // nobody can execute it.
        assert!(Command::new("cp").arg(PROGRAM).arg(&path).status().unwrap().success());
        Self(path)
    }

    fn path(&self) -> &str {
        self.0.to_str().unwrap()
    }
}

impl Drop for ForAll {
    fn drop(&mut self) {
        drop(std::fs::remove_file(&self.0));
    }
}

fn about<'a>(document: &'a Value, subject: &str) -> &'a Value {
    let findings = document["findings"].as_array().unwrap();
    findings.iter().find(|finding| finding["subject"] == subject).unwrap_or_else(|| panic!("{document}"))
}

#[test]
fn doctor_says_of_a_real_machine_what_it_lacks() {
    let machine = Place::new();
    let forward = |value| machine.0.set("net/ipv4/ip_forward", value).unwrap();
    forward("0");
    let (document, code) = machine.doctor(&[PROGRAM], &["w0", "m0"]);
    assert_eq!(code, 0, "{document}");
    for subject in ["TUN devices", "TUN offloads", "privileges", "w0", "m0", "AF_PACKET"] {
        assert_eq!(about(&document, subject)["health"], "good", "{subject}: {document}");
    }
    // As the kernel makes virtual cables.
    let offloads = about(&document, "w0 offloads");
    assert_eq!(
        (&offloads["found"], &offloads["mend"]),
        (&"GRO is off".into(), &"ethtool -K w0 gro on".into())
    );
    let forwarding = about(&document, "IPv4 forwarding");
    assert_eq!((&forwarding["health"], &document["verdict"]), (&"limited".into(), &"limited".into()));
    // The command mends it.
    let mend = forwarding["mend"].as_str().unwrap().split(',').next().unwrap();
    let words: Vec<&str> = mend.split(' ').collect();
    assert!(machine.output(&words).status.success(), "{mend}");
    let (document, _) = machine.doctor(&[PROGRAM], &["w0", "m0"]);
    assert_eq!(about(&document, "IPv4 forwarding")["health"], "good");
    let steering = about(&document, "steering")["found"].as_str().unwrap();
    let run = machine.output(&[PROGRAM, "run", "--wired", "w0", "--mobile", "m0", "--dry-run"]);
    let run = String::from_utf8(run.stdout).unwrap();
    assert!(run.starts_with(&format!("# steering by {steering}")), "{steering}: {run}");

    let (document, code) = machine.doctor(&[PROGRAM], &["w0", "no-such-if"]);
    assert_eq!((code, &document["verdict"]), (3, &"missing".into()));
    assert_eq!(about(&document, "no-such-if")["health"], "missing");
}

#[test]
fn a_box_at_work_lacks_nothing() {
    let machine = Place::new();
    let name = format!("ct-doctor-{}", std::process::id());
    machine.0.set("net/ipv4/ip_forward", "1").unwrap();
    let accelerator =
        Running::start(&machine.0, &["run", "--wired", "w0", "--mobile", "m0", "--name", &name]);
    accelerator.wait_for("steering TCP");
    for interfaces in [["w0", "m0"], ["m0", "w0"]] {
        let (document, code) = machine.doctor(&[PROGRAM], &interfaces);
        let steering = about(&document, "steering");
        assert_eq!((code, &steering["health"]), (0, &"good".into()), "{document}");
        let found = steering["found"].as_str().unwrap();
        assert!(found.contains(&format!("accelerator '{name}'")) && found.ends_with("w0 to m0"), "{found}");
    }
    accelerator.stop();
}

#[test]
fn doctor_changes_nothing_and_tells_an_ordinary_user_what_it_cannot_know() {
    let machine = Place::new();
    let state = || {
        let shown = ["ip -d link", "ip rule", "ip -6 rule", "sysctl -a --pattern ^net.(ipv4|ipv6).conf"];
        shown.map(|line| machine.output(&line.split(' ').collect::<Vec<_>>()).stdout)
    };
    let before = state();
    let program = ForAll::new("doctor");
    let user = ["setpriv", "--reuid=65534", "--regid=65534", "--clear-groups", "--bounding-set=-all"];
    let nobody = [&user[..], &[program.path()]].concat();
    let (document, code) = machine.doctor(&nobody, &["w0", "m0"]);
    assert_eq!(code, 0);
    assert_eq!(about(&document, "privileges")["health"], "limited");
    assert_eq!(about(&document, "m0 offloads")["found"], "GRO is off");
    let tcx = about(&document, "tcx");
    assert!(tcx["health"] == "unknown" || tcx["health"] == "limited", "{tcx}");
    assert!(document["findings"].as_array().unwrap().iter().all(|finding| finding["subject"] != "steering"));
    machine.doctor(&[PROGRAM], &["w0", "m0"]);
    assert!(before == state(), "the machine is as it was");
    let human = machine.output(&[PROGRAM, "doctor", "w0"]);
    let text = String::from_utf8(human.stdout).unwrap();
    assert!(text.starts_with("cellerator ") && text.contains("\n  good     "), "{text}");
    assert!(text.lines().all(|line| line.chars().count() <= 110), "{text}");
}
