//! Each firewall, with each way of steering, through the life of an accelerator: whatever the rules forbid stays
//! forbidden, and whatever they allow goes on. `make firewalls` runs it, and keeps what was found.
//!
//! ufw, firewalld and Docker are the programs themselves, with the rules that they make. They write below `/etc`,
//! `/run` and `/var/lib`: the target gives them file systems of their own.

use std::net::{SocketAddr, TcpListener, TcpStream};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use io::SpawnOptions;
use run::{Config, SteeringChoice};
use serde_json::{Value, json};
use socket2::{Domain, Socket, Type};

use crate::firewall::{BETWEEN_BOTH, add, load, steering_of, transfer};
use crate::nat::Downloads;
use crate::successor::{Late, successor};
use crate::topology::{Connection, Program, SERVER, SIGKILL, SIGTERM, Topology, is_soon, wait_until};

/// A packet filter of a router.
struct Firewall {
    name: &'static str,
    /// What it is made of.
    rules: Rules,
    /// Commands that let the accelerator work; without, nothing is to be added.
    additions: &'static str,
}

/// Where rules come from.
enum Rules {
    /// `nft` is told so.
    Nft(&'static str),
    /// An example of docs/firewalls.md, with what it says is to be added.
    Page(&'static str),
    /// Commands of a shell, with a program that has to be there.
    Shell(&'static str, &'static str),
    /// Programs that make rules by themselves, what succeeds once they have, and commands.
    Daemons(&'static [&'static str], &'static str, &'static str),
}

const BY_ONE: &str = "add table inet fw; add chain inet fw forward { type filter hook forward priority 0; }; \
                      add rule inet fw forward iifname m0 tcp dport 8080 drop";
const UNNAMED: &str = "add table inet fw; add chain inet fw forward { type filter hook forward priority 0; }; \
                       add rule inet fw forward tcp dport 8080 drop";
const MASQUERADE: &str = "add table ip router; \
                          add chain ip router post { type nat hook postrouting priority srcnat; }; \
                          add rule ip router post oifname w0 masquerade";
/// The same for both kinds of iptables: `$t` is the program.
const IPTABLES: &str = "$t -P FORWARD DROP && $t -A FORWARD -m conntrack --ctstate RELATED,ESTABLISHED -j ACCEPT && \
                        $t -A FORWARD -i m0 -p tcp --dport 8080 -j REJECT && $t -A FORWARD -i m0 -o w0 -j ACCEPT && \
                        $t -t nat -A POSTROUTING -o w0 -j MASQUERADE";
const IPTABLES_ADDED: &str = "$t -A FORWARD -i cellw0 -p tcp --dport 8080 -j REJECT && \
                              $t -A FORWARD -i cellw0 -o w0 -j ACCEPT && $t -I FORWARD -i m0 -o cellm0 -j ACCEPT && \
                              $t -I FORWARD -i cellm0 -o m0 -j ACCEPT";
const UFW: &str = "ufw --force reset && ufw --force enable && ufw default deny routed && ufw route deny in on m0 to any port 8080 proto tcp && \
                   ufw route allow in on m0 out on w0";
const UFW_ADDED: &str = "ufw route deny in on cellw0 to any port 8080 proto tcp && \
                         ufw route allow in on cellw0 out on w0 && ufw route prepend allow in on m0 out on cellm0 && \
                         ufw route prepend allow in on cellm0 out on m0";
const FIREWALLD: &str = "set -e; rm -f /etc/firewalld/zones/* /etc/firewalld/policies/*; \
                         sed -i 's/^\\(IPv6_rpfilter\\|RFC3964_IPv4\\)=.*/\\1=yes/' /etc/firewalld/firewalld.conf; \
                         cmd() { firewall-cmd --quiet --permanent \"$@\"; }; firewall-cmd --quiet --reload; \
                         cmd --new-zone lan; \
                         cmd --zone lan --add-interface m0; cmd --zone external --add-interface w0; \
                         cmd --new-policy out; cmd --policy out --add-ingress-zone lan; \
                         cmd --policy out --add-egress-zone external; cmd --policy out --set-target ACCEPT; \
                         cmd --policy out --add-rich-rule 'rule port port=8080 protocol=tcp drop'; \
                         firewall-cmd --quiet --reload";
const FIREWALLD_ADDED: &str = "set -e; cmd() { firewall-cmd --quiet --permanent \"$@\"; }; \
                               sed -i 's/^\\(IPv6_rpfilter\\|RFC3964_IPv4\\)=.*/\\1=no/' /etc/firewalld/firewalld.conf; \
                               cmd --zone lan --add-interface cellw0; cmd --zone lan --add-interface cellm0; \
                               cmd --zone lan --add-forward; firewall-cmd --quiet --complete-reload";
/// Docker sets this policy itself where nothing was forwarded before.
const DOCKER: &str = "iptables -P FORWARD DROP && \
                      iptables -I DOCKER-USER -i m0 -o w0 -j ACCEPT && \
                      iptables -I DOCKER-USER -i w0 -o m0 -m conntrack --ctstate RELATED,ESTABLISHED -j ACCEPT && \
                      iptables -I DOCKER-USER -i m0 -p tcp --dport 8080 -j DROP && \
                      iptables -t nat -A POSTROUTING -o w0 -j MASQUERADE";
const DOCKER_ADDED: &str = "iptables -I DOCKER-USER -i cellw0 -o w0 -j ACCEPT && \
                            iptables -I DOCKER-USER -i w0 -o cellw0 -m conntrack --ctstate RELATED,ESTABLISHED -j ACCEPT && \
                            iptables -I DOCKER-USER -i m0 -o cellm0 -j ACCEPT && \
                            iptables -I DOCKER-USER -i cellm0 -o m0 -j ACCEPT && \
                            iptables -I DOCKER-USER -i cellw0 -p tcp --dport 8080 -j DROP";

const FIREWALLS: [Firewall; 15] = [
    Firewall { name: "none", rules: Rules::Nft("list ruleset"), additions: "" },
    Firewall { name: "a drop that names no interface", rules: Rules::Nft(UNNAMED), additions: "" },
    Firewall { name: "a drop by one interface", rules: Rules::Nft(BY_ONE), additions: "" },
    Firewall {
        name: "a drop between both interfaces",
        rules: Rules::Nft(BETWEEN_BOTH),
        additions: "nft 'add rule inet fw forward iifname cellw0 oifname w0 tcp dport 8080 drop'",
    },
    Firewall { name: "masquerade", rules: Rules::Nft(MASQUERADE), additions: "" },
    Firewall { name: "by state and interface", rules: Rules::Page("By state and interface"), additions: "" },
    Firewall { name: "by state and address", rules: Rules::Page("By state and address"), additions: "" },
    Firewall { name: "Docker's rules", rules: Rules::Page("Docker"), additions: "" },
    Firewall { name: "ufw's rules", rules: Rules::Page("ufw"), additions: "" },
    Firewall { name: "firewalld's rules", rules: Rules::Page("firewalld"), additions: "" },
    Firewall {
        name: "iptables-legacy, masquerade",
        rules: Rules::Shell("iptables-legacy", IPTABLES),
        additions: IPTABLES_ADDED,
    },
    Firewall {
        name: "iptables-nft, masquerade",
        rules: Rules::Shell("iptables-nft", IPTABLES),
        additions: IPTABLES_ADDED,
    },
    Firewall { name: "ufw", rules: Rules::Shell("ufw", UFW), additions: UFW_ADDED },
    Firewall {
        name: "firewalld, masquerade",
        rules: Rules::Daemons(
            &["dbus-daemon --system --nofork --nopidfile", "firewalld --nofork --nopid"],
            "firewall-cmd --state",
            FIREWALLD,
        ),
        additions: FIREWALLD_ADDED,
    },
    Firewall {
        name: "Docker, masquerade",
        rules: Rules::Daemons(
            &[
                "dockerd --data-root /var/lib/docker-of-test --exec-root /run/docker-of-test --storage-driver vfs",
            ],
            "iptables -S DOCKER-USER",
            DOCKER,
        ),
        additions: DOCKER_ADDED,
    },
];

/// Programs that have made rules; they end with this.
struct Loaded<'a> {
    topology: &'a Topology,
    firewall: &'a Firewall,
    daemons: Vec<Child>,
}

impl<'a> Loaded<'a> {
    /// Loads the rules; none where the program is not installed.
    fn load(topology: &'a Topology, firewall: &'a Firewall) -> Option<Self> {
        let mut loaded = Self { topology, firewall, daemons: Vec::new() };
        let is_there = |command: &str| {
            let program = command.split(' ').next().unwrap_or(command);
            io::features::find_program(program).is_some()
        };
        match &firewall.rules {
            Rules::Nft(rules) => drop(topology.exec("nft", &[rules])),
            Rules::Page(name) => load(topology, name),
            Rules::Shell(program, _) if !is_there(program) => return None,
            Rules::Shell(_, commands) => loaded.shell(commands),
            Rules::Daemons(daemons, ..) if !daemons.iter().all(|daemon| is_there(daemon)) => return None,
            Rules::Daemons(daemons, is_ready, commands) => {
                for daemon in *daemons {
                    let mut command = Command::new("sh");
                    // A process of a namespace has a /sys of its own, and Docker wants control groups.
                    let groups = "mountpoint -q /sys/fs/cgroup || mount -t cgroup2 none /sys/fs/cgroup";
                    command.args(["-c", &format!("{groups}; exec {daemon}")]);
                    command.stdout(Stdio::null()).stderr(Stdio::null());
                    let options = SpawnOptions { death_signal: Some(SIGKILL), own_process_group: true };
                    loaded.daemons.push(topology.middle.spawn(command, options).unwrap());
                }
                wait_until("the firewall's program is ready", || loaded.says_yes(is_ready));
                loaded.shell(commands);
            }
        }
        Some(loaded)
    }

    /// What has to be added, so that the accelerator works.
    fn add(&self) {
        if let Rules::Page(name) = self.firewall.rules {
            add(self.topology, name);
        } else if !self.firewall.additions.is_empty() {
            self.shell(self.firewall.additions);
        }
    }

    fn says_yes(&self, command: &str) -> bool {
        let mut shell = Command::new("sh");
        let tool = if let Rules::Shell(program, _) = self.firewall.rules { program } else { "" };
        shell.args(["-c", command]).env("t", tool).stdout(Stdio::null()).stderr(Stdio::null());
        let mut child = self.topology.middle.spawn(shell, SpawnOptions::default()).unwrap();
        child.wait().unwrap().success()
    }

    fn shell(&self, commands: &str) {
        assert!(self.says_yes(commands), "{}: {commands}", self.firewall.name);
    }
}

impl Drop for Loaded<'_> {
    fn drop(&mut self) {
        for child in self.daemons.iter_mut().rev() {
            drop(io::PidFd::open(child.id()).and_then(|process| process.send_signal(SIGTERM)));
            // What it has made goes with the namespace.
            if !is_soon(|| !matches!(child.try_wait(), Ok(None))) {
                drop(child.kill());
                drop(child.wait());
            }
        }
    }
}

/// Ports that rules may forbid, and who reaches them.
struct Ports {
    /// Of the server: forbidden by the firewalls that forbid anything of the clients'.
    forbidden: (SocketAddr, TcpListener),
    /// Of the server: forbidden by a rule that comes later.
    later: (SocketAddr, TcpListener),
    /// Of the client: filters by state let nobody in.
    of_client: (SocketAddr, TcpListener),
}

impl Ports {
    fn open(topology: &Topology) -> Self {
        let listen = |at: &io::Namespace, address: &str, port| {
            let address = SocketAddr::new(address.parse().unwrap(), port);
            (address, at.run(|| TcpListener::bind(address)).unwrap().unwrap())
        };
        Self {
            forbidden: listen(&topology.server, SERVER[0], 8_080),
            later: listen(&topology.server, SERVER[0], 8_081),
            of_client: listen(&topology.client, "10.1.0.2", 9_000),
        }
    }

    /// Whether clients reach the first, and the server the last.
    fn reached(&self, topology: &Topology) -> [bool; 2] {
        [is_reached(&topology.client, self.forbidden.0), is_reached(&topology.server, self.of_client.0)]
    }
}

fn is_reached(from: &io::Namespace, to: SocketAddr) -> bool {
    let connect = || {
        let socket = Socket::new(Domain::IPV4, Type::STREAM, None).unwrap();
        // A SYN is sent twice.
        socket.connect_timeout(&to.into(), Duration::from_millis(1_500)).map(|()| TcpStream::from(socket))
    };
    from.run(connect).unwrap().is_ok()
}

/// What became of one firewall with one way of steering.
struct Story<'a> {
    topology: &'a Topology,
    ports: Ports,
    /// As it is without an accelerator.
    plain: [bool; 2],
    found: Vec<Value>,
    firewall: String,
    steering: &'static str,
}

impl Story<'_> {
    /// Notes how a phase went, once it is sure that what is forbidden stays so and the rest goes on.
    fn note(&mut self, phase: &str, outcome: &str, said: &str) {
        let reached = self.ports.reached(self.topology);
        assert_eq!(reached, self.plain, "{}, {}: {phase}: forbidden or dead", self.firewall, self.steering);
        transfer(self.topology, SERVER[0]);
        println!("{}, {}: {phase}: {outcome} {said}", self.firewall, self.steering);
        self.found.push(json!({
            "firewall": self.firewall, "steering": self.steering, "phase": phase, "outcome": outcome, "said": said,
        }));
    }

    fn config(&self, steering: SteeringChoice) -> Config {
        let mut config = Config { steering, name: "first".to_owned(), ..self.topology.config() };
        config.watchdog.successor = vec!["self".to_owned()];
        config.watchdog.recover_within_ms = 10_000;
        config
    }

    /// From the start to the end, under downloads and uploads.
    fn live(&mut self, steering: SteeringChoice) {
        let topology = self.topology;
        let config = self.config(steering);
        let before = Downloads::start(topology, 4);
        let mut program = Program::launch_with(topology, &config, &["--both-ways", "--engine"]);
        if !program.is_ready() {
            let (status, said) = program.wait();
            assert!(!status.success() && topology.leftovers().is_empty(), "{said}");
            let why = said.lines().last().unwrap_or_default().to_owned();
            before.end();
            self.note("start", "refused", &why);
            return;
        }
        self.note("start", "works", "");
        let packets = topology.steered_packets();
        let begun = Downloads::start(topology, 4);
        self.note("run", "works", "");
        assert!(topology.steered_packets() > packets + 100, "{}: nothing is accelerated", self.firewall);
        // A rule comes that is against every way.
        topology.exec("nft", &[&BETWEEN_BOTH.replace(" fw", " late").replace("8080", "8081")]);
        program.await_line("a filter has come up");
        assert!(!is_reached(&topology.client, self.ports.later.0), "{}: passed by", self.firewall);
        program.await_line("stands by");
        self.note("rule added", "passes", "");
        topology.exec("nft", &["delete table inet late"]);
        program.await_line("ready: ");
        begun.end();
        before.end();
        let under_way = Downloads::start(topology, 4);
        let next = Config { name: "second".to_owned(), replace: Some("first".to_owned()), ..config.clone() };
        let mut second = Program::launch_with(topology, &next, &["--both-ways", "--engine"]);
        second.await_line("ready: ");
        let (status, said) = program.wait();
        assert!(status.success(), "{said}");
        self.note("upgrade", "works", "");
        let late: Vec<Late> = (0..4)
            .map(|n| {
                let Connection { client, server, .. } = topology.connect(&topology.server, SERVER[0]);
                let (receiver, sender) = if n < 2 { (client, server) } else { (server, client) };
                Late::start(receiver, sender, 5_000_000)
            })
            .collect();
        // Where nothing is owed nobody has to go on.
        wait_until("something is owed", || topology.status().processor.debt_bytes > 0);
        second.signal(SIGKILL);
        let last = successor(&mut second);
        late.into_iter().for_each(Late::finish);
        self.note("crash", "works", "");
        under_way.end();
        let under_way = Downloads::start(topology, 4);
        io::PidFd::open(last).unwrap().send_signal(SIGTERM).unwrap();
        second.wait();
        wait_until("all is undone", || topology.leftovers().is_empty());
        under_way.end();
        self.note("drain", "works", "");
    }
}

#[test]
#[ignore = "make firewalls"]
fn what_is_forbidden_stays_so_whatever_the_firewall() {
    let mut found = Vec::new();
    let only = std::env::var("CELLERATOR_FIREWALL").unwrap_or_default();
    for firewall in FIREWALLS.iter().filter(|firewall| firewall.name.starts_with(&only)) {
        for (steering, name) in [(SteeringChoice::Tcx, "tcx"), (SteeringChoice::Rules, "rules")] {
            for is_added in [false, true] {
                let has_more = !firewall.additions.is_empty() || matches!(firewall.rules, Rules::Page(_));
                if is_added && !has_more {
                    continue;
                }
                let topology = Topology::build("matrix");
                let Some(loaded) = Loaded::load(&topology, firewall) else {
                    println!("{}: not installed", firewall.name);
                    continue;
                };
                let ports = Ports::open(&topology);
                let plain = ports.reached(&topology);
                if is_added {
                    loaded.add();
                    assert_eq!(ports.reached(&topology), plain, "{}: additions", firewall.name);
                }
                let more = if is_added { ", with what is to be added" } else { "" };
                let firewall = format!("{}{more}", firewall.name);
                let mut story =
                    Story { topology: &topology, ports, plain, found: Vec::new(), firewall, steering: name };
                let expected = steering_of(&topology).is_some();
                story.live(steering);
                // `doctor` has said so: what neither way may steer is not steered.
                if expected {
                    assert_eq!(story.found[0]["outcome"], "refused", "{}", story.firewall);
                }
                found.append(&mut story.found);
            }
        }
    }
    let document = json!({ "schema": "cellerator/firewalls/1", "cells": found });
    if let Some(path) = std::env::var_os("CELLERATOR_FIREWALLS") {
        std::fs::write(Path::new(&path), serde_json::to_string_pretty(&document).unwrap()).unwrap();
    }
}
