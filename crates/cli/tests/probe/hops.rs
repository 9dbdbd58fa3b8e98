//! `probe hops` through four routers. Needs root.

use std::io::{BufRead, BufReader};
use std::process::{Child, Command, Stdio};

use io::{Host, SpawnOptions, lay_cable};
use serde_json::Value;

use crate::probe::link::give_own_machine;

const SCHEMA: &str = include_str!("../../../../schemas/probe-hops.schema.json");
/// Client, four routers, server.
const HOSTS: usize = 6;

/// Hosts in a row, each in a namespace; host n has 10.80.n.1 towards the one before and 10.80.n+1.2 towards the
/// one behind it.
struct Row {
    server: Option<Child>,
    hosts: Vec<Host>,
}

impl Row {
    fn build(what: &str) -> Self {
        let name = |n| format!("cellhops-{what}-{}-{n}", std::process::id());
        let create = |n| Host::create(&name(n)).unwrap_or_else(|e| panic!("this test needs root: {e}"));
        let row = Self { server: None, hosts: (0..HOSTS).map(create).collect() };
        for (n, pair) in row.hosts.windows(2).enumerate() {
            let [own, other] = [1, 2].map(|last| format!("10.80.{n}.{last}/24"));
            lay_cable([(&pair[0], &format!("n{n}"), &[&own]), (&pair[1], &format!("f{n}"), &[&other])])
                .unwrap();
        }
        for host in 0..HOSTS {
            row.hosts[host].ip("link set lo up").unwrap();
            row.hosts[host].set("net/ipv4/ip_forward", "1").unwrap();
            // One answer in a second is a long time for a test.
            row.hosts[host].set("net/ipv4/icmp_ratelimit", "0").unwrap();
            for net in 0..HOSTS - 1 {
                let via = if net > host {
                    format!("10.80.{host}.2")
                } else if net + 1 < host {
                    format!("10.80.{}.1", host - 1)
                } else {
                    continue;
                };
                row.hosts[host].ip(&format!("route add 10.80.{net}.0/24 via {via}")).unwrap();
            }
        }
        row
    }

    fn spawn(&self, host: usize, program: &str, arguments: &[&str]) -> Child {
        let mut command = Command::new(program);
        command.args(arguments).stdout(Stdio::piped()).stderr(Stdio::piped());
        let child = self.hosts[host].spawn(command, SpawnOptions::default()).unwrap();
        give_own_machine(&child);
        child
    }

    fn run(&self, host: usize, program: &str, arguments: &[&str]) {
        let output = self.hosts[host].output(&[&[program], arguments].concat()).unwrap();
        let said = String::from_utf8_lossy(&output.stderr);
        assert!(output.status.success(), "{program} {arguments:?}: {said}");
    }

    /// 10 Mbit/s and 100 ms of queue between two routers, both ways.
    fn slow(&self, host: usize) {
        for (host, device) in [(host, format!("n{host}")), (host + 1, format!("f{host}"))] {
            let words = format!("qdisc add dev {device} root tbf rate 10mbit burst 3000 limit 125000");
            self.run(host, "tc", &words.split(' ').collect::<Vec<_>>());
        }
    }

    fn measure(&mut self, arguments: &[&str]) -> (Value, String) {
        let program = env!("CARGO_BIN_EXE_cellerator");
        let mut server = self.spawn(HOSTS - 1, program, &["probe", "server"]);
        let mut lines = BufReader::new(server.stderr.take().unwrap()).lines().map(Result::unwrap);
        self.server = Some(server);
        assert!(lines.any(|line| line.contains("listening at")));
        std::thread::spawn(move || lines.for_each(drop));
        let to = format!("10.80.{}.2", HOSTS - 2);
        let all = [&["probe", "hops", &to, "--json", "-"], arguments].concat();
        let output = self.spawn(0, program, &all).wait_with_output().unwrap();
        let said = String::from_utf8_lossy(&output.stderr).into_owned();
        (serde_json::from_slice(&output.stdout).unwrap_or_else(|e| panic!("{e}: {said}")), said)
    }
}

impl Drop for Row {
    fn drop(&mut self) {
        if let Some(server) = &mut self.server {
            let _ = server.kill();
            let _ = server.wait();
        }
    }
}

fn addresses(document: &Value) -> Vec<&str> {
    let hops = document["hops"].as_array().unwrap().iter();
    hops.map(|hop| hop["addresses"][0].as_str().unwrap_or("-")).collect()
}

#[test]
fn the_router_with_the_queue_is_named() {
    let mut row = Row::build("queue");
    row.slow(2);
    let load = ["--load", "12 Mbit/s", "--every", "50 ms", "--time", "2 s"];
    let (document, said) = row.measure(&load);
    crate::schema::check_against(&document, SCHEMA);
    assert_eq!(addresses(&document), ["10.80.0.2", "10.80.1.2", "10.80.2.2", "10.80.3.2", "-"]);
    assert_eq!(document["hops"][4]["is_server"], true);
    let phases = document["phases"].as_array().unwrap();
    let names: Vec<&str> = phases.iter().map(|phase| phase["load"].as_str().unwrap()).collect();
    assert_eq!(names, ["idle", "down", "up"]);
    assert_eq!(phases[0]["growth"], Value::Null);
    for phase in phases {
        let load = &phase["load"];
        // A load that comes in bursts, as from a busy machine, has the queue drop more of them.
        let least = if load == "idle" { 15 } else { 8 };
        for hop in phase["hops"].as_array().unwrap() {
            assert!(hop["answered"].as_u64().unwrap() >= least, "{load}: {hop}");
        }
        if load != "idle" {
            let growth = &phase["growth"];
            assert_eq!((&growth["after_hop"], &growth["hop"]), (&2.into(), &3.into()), "{load}: {growth}");
            // The queue is 100 ms.
            let ms = growth["ms"].as_f64().unwrap();
            assert!((60.0..120.0).contains(&ms), "{load}: {growth}");
        }
    }
    let verdict = document["verdict"].as_str().unwrap();
    assert!(
        verdict.contains("between hop 2 and hop 3 (10.80.2.2): hop 3 (10.80.2.2) has the queue"),
        "{verdict}"
    );
    assert!(verdict.contains("between hop 2 and hop 3 (10.80.2.2): hop 2 has the queue"), "{verdict}");
    assert!(said.contains("5 hops, idle"), "{said}");
}

#[test]
fn filtered_icmp_is_told() {
    let mut row = Row::build("filter");
    row.slow(1);
    for router in 1..HOSTS - 1 {
        let rules = "add table ip f; add chain ip f c { type filter hook output priority 0; }; \
            add rule ip f c icmp type time-exceeded drop";
        row.run(router, "nft", &[rules]);
    }
    // Of a load little above the rate the queue drops few.
    let load = ["--load", "12 Mbit/s", "--every", "50 ms", "--time", "1 s", "--ways", "up"];
    let (document, _) = row.measure(&load);
    assert_eq!(document["is_filtered"], true);
    assert_eq!(addresses(&document), ["-"; 5]);
    let verdict = document["verdict"].as_str().unwrap();
    assert!(verdict.contains("No router on the way answers: ICMP is filtered"), "{verdict}");
    assert!(verdict.contains("between this machine and hop 5 (the server)"), "{verdict}");
}
