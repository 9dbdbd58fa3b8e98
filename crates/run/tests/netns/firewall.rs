//! Machines with a packet filter: what it forbids stays forbidden, and what it allows works, or nothing starts (H8, H36).

use std::net::{SocketAddr, TcpListener, TcpStream};
use std::time::Duration;

use run::{Config, SteeringChoice};
use socket2::{Domain, Socket, Type};

use crate::accelerated::verdict;
use crate::topology::{Connection, Program, SERVER, Topology};

/// A drop for one port between the two interfaces.
const BETWEEN_BOTH: &str = "add table inet fw; add chain inet fw forward { type filter hook forward priority 0; }; \
                            add rule inet fw forward iifname m0 oifname w0 tcp dport 8080 drop";

/// A server that listens at a port of its own choice.
struct Port {
    at: SocketAddr,
    _listener: TcpListener,
}

impl Port {
    fn open(topology: &Topology, number: u16) -> Self {
        let at = SocketAddr::new(SERVER[0].parse().unwrap(), number);
        let listener = topology.server.run(|| TcpListener::bind(at)).unwrap().unwrap();
        Self { at, _listener: listener }
    }

    /// True when the client reaches it: a SYN is sent twice.
    fn is_reached(&self, topology: &Topology) -> bool {
        let connect = || {
            let socket = Socket::new(Domain::IPV4, Type::STREAM, None).unwrap();
            socket
                .connect_timeout(&self.at.into(), Duration::from_millis(1_500))
                .map(|()| TcpStream::from(socket))
        };
        topology.client.run(connect).unwrap().is_ok()
    }
}

/// A download and an upload, each in a connection of its own.
fn transfer(topology: &Topology, address: &str) {
    topology.connect(&topology.server, address).download(2_000_000);
    let Connection { client, server, peer } = topology.connect(&topology.server, address);
    Connection { client: server, server: client, peer }.download(2_000_000);
}

fn refused(topology: &Topology, config: &Config) -> String {
    let (status, said) = Program::launch_with(topology, config, &["--engine"]).wait();
    assert!(!status.success(), "{said}");
    assert_eq!(topology.leftovers(), [""; 0]);
    said
}

#[test]
fn h36_a_drop_between_both_interfaces_is_never_passed_by_in_silence() {
    let topology = Topology::build("between");
    topology.exec("nft", &[BETWEEN_BOTH]);
    let port = Port::open(&topology, 8_080);
    assert!(!port.is_reached(&topology));
    for steering in [SteeringChoice::Auto, SteeringChoice::Tcx, SteeringChoice::Rules] {
        let said = refused(&topology, &Config { steering, ..topology.config() });
        let rule = "rule 'iifname \"m0\" oifname \"w0\" tcp dport 8080 drop' (nft inet fw forward, handle";
        assert!(said.contains(rule) && said.contains("would be passed by"), "{said}");
        assert!(!port.is_reached(&topology));
    }
    // It is found without nft, by its place.
    let (status, said) = Program::launch_without_nft(&topology, &topology.config()).wait();
    assert!(!status.success() && said.contains("rule (nft inet fw forward, handle"), "{said}");
    // Somebody's own choice is written down.
    let program = Program::start_engine(&topology, &Config { bypass_filters: true, ..topology.config() });
    assert!(port.is_reached(&topology));
    let said = program.stop(&topology);
    assert!(said.contains("warning: --bypass-filters: rule 'iifname"), "{said}");
}

#[test]
fn h36_a_drop_that_rules_keep_has_rules_steer() {
    let topology = Topology::build("byrules");
    let rules = "add table inet fw; add chain inet fw forward { type filter hook forward priority 0; }; \
                 add rule inet fw forward iifname m0 tcp dport 8080 drop";
    topology.exec("nft", &[rules]);
    let port = Port::open(&topology, 8_080);
    let program = Program::start_engine(&topology, &topology.config());
    let line = program.said.iter().find(|line| line.starts_with("# steering by")).unwrap();
    assert!(line.contains("by rules, not by tcx: a filter would be passed by"), "{line}");
    assert!(!port.is_reached(&topology));
    SERVER.iter().for_each(|address| transfer(&topology, address));
    assert!(topology.steered_packets() > 100);
    let said = program.stop(&topology);
    assert!(!said.contains("warning"), "{said}");
}

#[test]
fn h36_a_filter_that_names_no_interface_works_where_programs_steer() {
    let topology = Topology::build("unnamed");
    let rules = "add table inet fw; add chain inet fw forward { type filter hook forward priority 0; policy drop; }; \
                 add rule inet fw forward tcp dport 8080 drop; \
                 add rule inet fw forward ip saddr 10.0.0.0/8 accept; \
                 add rule inet fw forward ip6 saddr fd00::/8 accept; \
                 add rule inet fw forward iifname \"other\" drop";
    topology.exec("nft", &[rules]);
    let port = Port::open(&topology, 8_080);
    let config = Config { steering: SteeringChoice::Tcx, ..topology.config() };
    let program = Program::start_engine(&topology, &config);
    assert!(!port.is_reached(&topology));
    SERVER.iter().for_each(|address| transfer(&topology, address));
    let said = program.stop(&topology);
    assert!(!said.contains("warning"), "{said}");
}

/// A firewall as its tool writes it, and what has to be added for `run`, as commands.
struct Firewall {
    name: &'static str,
    rules: &'static str,
    /// What is named when it refuses.
    refusal: &'static str,
    added: &'static [&'static str],
}

const FIREWALLS: [Firewall; 5] = [
    Firewall {
        name: "stateful",
        rules: "table inet fw {
            chain forward {
                type filter hook forward priority filter; policy drop;
                ct state established,related accept
                iifname \"m0\" oifname \"w0\" accept
            }
        }",
        refusal: "(nft inet fw forward, handle",
        added: &[
            "add rule inet fw forward iifname cellw0 oifname w0 accept",
            "add rule inet fw forward iifname m0 oifname cellm0 accept",
            "add rule inet fw forward iifname cellm0 oifname m0 accept",
        ],
    },
    Firewall {
        name: "byaddress",
        rules: "table inet fw {
            chain forward {
                type filter hook forward priority filter; policy drop;
                ct state vmap { established : accept, related : accept, invalid : drop }
                ip saddr 10.1.0.0/24 accept
                ip6 saddr fd01::/64 accept
            }
        }",
        refusal: "accept `iifname m0 oifname cellm0` and `iifname cellm0 oifname m0`",
        added: &["insert rule inet fw forward iifname . oifname { m0 . cellm0, cellm0 . m0 } accept"],
    },
    // The chains that Docker makes, and its place for rules of others.
    Firewall {
        name: "docker",
        rules: "table ip nat {
            chain POSTROUTING {
                type nat hook postrouting priority srcnat; policy accept;
                ip saddr 172.17.0.0/16 oifname != \"docker0\" masquerade
                oifname \"w0\" masquerade
            }
        }
        table ip filter {
            chain DOCKER-USER {
                iifname \"m0\" oifname \"w0\" accept
                iifname \"w0\" oifname \"m0\" ct state related,established accept
                return
            }
            chain DOCKER { iifname != \"docker0\" oifname \"docker0\" drop; }
            chain DOCKER-FORWARD {
                oifname \"docker0\" ct state related,established accept
                oifname \"docker0\" jump DOCKER
                iifname \"docker0\" accept
            }
            chain FORWARD {
                type filter hook forward priority filter; policy drop;
                jump DOCKER-USER
                jump DOCKER-FORWARD
            }
        }",
        refusal: "(nft ip filter DOCKER-USER, handle",
        added: &[
            "insert rule ip filter DOCKER-USER iifname cellw0 oifname w0 accept",
            "insert rule ip filter DOCKER-USER iifname w0 oifname cellw0 ct state related,established accept",
            "insert rule ip filter DOCKER-USER iifname m0 oifname cellm0 accept",
            "insert rule ip filter DOCKER-USER iifname cellm0 oifname m0 accept",
        ],
    },
    // `ufw route allow in on m0 out on w0`.
    Firewall {
        name: "ufw",
        rules: "table ip filter {
            chain ufw-before-forward {
                ct state related,established accept
                icmp type echo-request accept
                jump ufw-user-forward
            }
            chain ufw-user-forward { iifname \"m0\" oifname \"w0\" accept; }
            chain ufw-reject-forward { ct state new limit rate 3/minute burst 10 packets log; }
            chain FORWARD {
                type filter hook forward priority filter; policy drop;
                jump ufw-before-forward
                jump ufw-reject-forward
            }
        }",
        refusal: "(nft ip filter ufw-user-forward, handle",
        added: &[
            "add rule ip filter ufw-user-forward iifname cellw0 oifname w0 accept",
            "add rule ip filter ufw-user-forward iifname m0 oifname cellm0 accept",
            "add rule ip filter ufw-user-forward iifname cellm0 oifname m0 accept",
        ],
    },
    // Zones as firewalld makes them, m0 in one that may go to that of w0.
    Firewall {
        name: "firewalld",
        rules: "table inet firewalld {
            chain mangle_PREROUTING {
                type filter hook prerouting priority mangle + 10; policy accept;
                meta nfproto ipv6 fib saddr . mark . iif oif missing drop
            }
            chain filter_FORWARD {
                type filter hook forward priority filter + 10; policy accept;
                ct state { established, related } accept
                ct status dnat accept
                iifname \"lo\" accept
                ct state invalid drop
                jump filter_FORWARD_POLICIES
                reject with icmpx admin-prohibited
            }
            chain filter_FORWARD_POLICIES {
                iifname \"m0\" oifname \"w0\" jump filter_FWD_lan
                iifname \"m0\" jump filter_FWD_none
                iifname \"w0\" jump filter_FWD_none
            }
            chain filter_FWD_lan { accept; }
            chain filter_FWD_none { reject with icmpx admin-prohibited; }
        }",
        refusal: "(nft inet firewalld mangle_PREROUTING, handle",
        added: &[
            "insert rule inet firewalld mangle_PREROUTING iifname { cellw0, cellm0 } accept",
            "insert rule inet firewalld filter_FORWARD_POLICIES iifname cellw0 oifname w0 jump filter_FWD_lan",
            "insert rule inet firewalld filter_FORWARD_POLICIES iifname m0 oifname cellm0 accept",
            "insert rule inet firewalld filter_FORWARD_POLICIES iifname cellm0 oifname m0 accept",
        ],
    },
];

#[test]
fn h08_firewalls_by_state_are_refused_until_they_have_the_rules_and_then_work() {
    for Firewall { name, rules, refusal, added } in FIREWALLS {
        println!("{name}");
        let topology = Topology::build(name);
        topology.exec("nft", &[rules]);
        transfer(&topology, SERVER[0]);
        let said = refused(&topology, &topology.config());
        assert!(said.contains(refusal) && said.contains("cellm0"), "{name}: {said}");
        // Nothing has changed for anybody.
        transfer(&topology, SERVER[0]);
        added.iter().for_each(|command| drop(topology.exec("nft", &[command])));
        let program = Program::start_both_ways(&topology);
        transfer(&topology, SERVER[0]);
        assert!(topology.steered_packets() > 100, "{name}");
        let said = program.stop(&topology);
        assert!(!said.contains("warning"), "{name}: {said}");
        assert_eq!(verdict(&said), (2, 0), "{name}: {said}");
        transfer(&topology, SERVER[0]);
    }
}

/// Needs both tools, which few systems have.
#[test]
fn h36_rules_of_both_kinds_of_iptables_are_read_from_the_kernel() {
    let tools = [
        ("iptables-legacy", "rule 1 of iptables -t filter web", "of iptables -t filter FORWARD"),
        ("iptables-nft", "(nft ip filter web, handle", "(nft ip filter FORWARD, handle"),
    ];
    for (tool, first, second) in tools {
        if io::features::find_program(tool).is_some() {
            iptables_are_read(tool, [first, second]);
        } else {
            println!("there is no {tool}: nothing to test");
        }
    }
}

fn iptables_are_read(tool: &str, [first, second]: [&str; 2]) {
    let topology = Topology::build(tool);
    let iptables = |rule: &str| {
        drop(topology.exec(tool, &rule.split(' ').collect::<Vec<_>>()));
    };
    iptables("-N web");
    iptables("-A web -o w0 -p tcp --dport 8080 -j DROP");
    iptables("-A FORWARD -i m0 -j web");
    let port = Port::open(&topology, 8_080);
    let said = refused(&topology, &topology.config());
    assert!(said.contains(first), "{said}");
    assert!(!port.is_reached(&topology));
    iptables("-F FORWARD");
    iptables("-P FORWARD DROP");
    iptables("-A FORWARD -m conntrack --ctstate RELATED,ESTABLISHED -j ACCEPT");
    iptables("-A FORWARD -i m+ -o w0 -j ACCEPT");
    let said = refused(&topology, &topology.config());
    assert!(said.contains(second), "{said}");
    for pair in ["-i cellw0 -o w0", "-i m0 -o cellm0", "-i cellm0 -o m0"] {
        iptables(&format!("-A FORWARD {pair} -j ACCEPT"));
    }
    let program = Program::start_both_ways(&topology);
    transfer(&topology, SERVER[0]);
    let said = program.stop(&topology);
    assert!(!said.contains("warning"), "{said}");
    assert_eq!(verdict(&said), (2, 0), "{said}");
}

#[test]
fn h36_a_drop_that_comes_up_is_noticed_and_new_flows_keep_to_it() {
    for steering in [SteeringChoice::Tcx, SteeringChoice::Rules] {
        let topology = Topology::build("comesup");
        let port = Port::open(&topology, 8_080);
        let mut program = Program::start_engine(&topology, &Config { steering, ..topology.config() });
        let mut connection = topology.connect(&topology.server, SERVER[0]);
        connection.exchange(b"steered1");
        assert!(port.is_reached(&topology));
        topology.exec("nft", &[BETWEEN_BOTH]);
        let line = program.await_line("a filter has come up");
        assert!(line.starts_with("warning: ") && line.contains("tcp dport 8080 drop"), "{line}");
        assert!(!port.is_reached(&topology), "{steering:?}");
        let (status, said) = program.wait();
        assert!(!status.success() && said.contains("start again, or with --bypass-filters"), "{said}");
        assert_eq!(topology.leftovers(), [""; 0]);
        connection.exchange(b"handed-2");
        connection.download(1_000_000);
        // It is as if it had been there at the start.
        assert!(refused(&topology, &topology.config()).contains("tcp dport 8080 drop"));
    }
}

#[test]
fn h36_what_comes_up_is_told_where_it_may_be_passed_by() {
    let topology = Topology::build("told");
    let config = Config { bypass_filters: true, ..topology.config() };
    let mut program = Program::start_engine(&topology, &config);
    topology.exec("nft", &[BETWEEN_BOTH]);
    program.await_line("warning: --bypass-filters: rule 'iifname");
    topology.exec("nft", &["delete table inet fw"]);
    program.await_line("no filter is passed by any more");
    // One that is about others is none.
    topology.exec("nft", &[&BETWEEN_BOTH.replace("m0", "eth9")]);
    topology.connect(&topology.server, SERVER[0]).download(1_000_000);
    topology.exec(
        "nft",
        &["add table ip nat; add chain ip nat post { type nat hook postrouting priority 100; }"],
    );
    program.await_line("connections are tracked or translated now");
    program.stop(&topology);
}

#[test]
fn h36_programs_of_others_that_come_up_are_noticed() {
    let topology = Topology::build("clsact");
    let config = Config { steering: SteeringChoice::Tcx, ..topology.config() };
    let mut program = Program::start_engine(&topology, &config);
    topology.exec("tc", &["qdisc", "add", "dev", "w0", "clsact"]);
    program.await_line("w0 has a queueing discipline for what comes in (clsact)");
    let (status, said) = program.wait();
    assert!(!status.success(), "{said}");
    assert_eq!(topology.leftovers(), [""; 0]);
}
