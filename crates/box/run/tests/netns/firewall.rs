//! Machines with a packet filter: what it forbids stays forbidden, and what it allows works, or nothing starts (H8, H36).

use std::net::{SocketAddr, TcpListener, TcpStream};
use std::time::Duration;

use run::{Answer, Config, InlineFallback, Question, SteeringChoice};
use socket2::{Domain, Socket, Type};

use crate::accelerated::verdict;
use crate::inline;
use crate::nat::masquerade;
use crate::topology::{Connection, Program, SERVER, SIGKILL, Topology, wait_until};

/// A drop for one port between the two interfaces.
pub const BETWEEN_BOTH: &str = "add table inet fw; add chain inet fw forward { type filter hook forward priority 0; }; \
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
pub fn transfer(topology: &Topology, address: &str) {
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

/// The page that says what works, whose examples these are.
const PAGE: &str = include_str!("../../../../../docs/firewalls.md");

/// What is named of each when it is refused.
const EXAMPLES: [(&str, &str); 5] = [
    ("By state and interface", "(nft inet fw forward, handle"),
    ("By state and address", "accept `iifname m0 oifname cellm0` and `iifname cellm0 oifname m0`"),
    ("Docker", "(nft ip filter DOCKER-USER, handle"),
    ("ufw", "(nft ip filter ufw-user-forward, handle"),
    ("firewalld", "(nft inet firewalld mangle_PREROUTING, handle"),
];

/// The first block of a language in a text.
fn block<'a>(text: &'a str, language: &str) -> &'a str {
    let begin = format!("```{language}\n");
    let (_, rest) = text.split_once(&begin).unwrap_or_else(|| panic!("no block of {language} in {text}"));
    rest.split_once("```").unwrap().0
}

/// An example of the page.
fn example(name: &str) -> &'static str {
    PAGE.split_once(&format!("### {name}\n")).unwrap().1
}

/// Loads the rules of an example.
pub fn load(topology: &Topology, name: &str) {
    topology.exec("nft", &[block(example(name), "nft")]);
}

/// Adds what an example says.
pub fn add(topology: &Topology, name: &str) {
    for line in block(example(name), "sh").lines() {
        let command = line.strip_prefix("nft '").and_then(|line| line.strip_suffix('\''));
        topology.exec("nft", &[command.unwrap()]);
    }
}

/// A filter by state, with what has to be added, and masquerade.
pub fn by_state(topology: &Topology) {
    masquerade(topology);
    topology.exec("nft", &["delete chain inet fw forward"]);
    load(topology, "By state and interface");
    add(topology, "By state and interface");
}

#[test]
fn h08_firewalls_by_state_are_refused_until_they_have_the_rules_and_then_work() {
    let (_, page) = PAGE.split_once("## Examples").unwrap();
    let (page, _) = page.split_once("\n## ").unwrap();
    assert_eq!(page.matches("\n### ").count(), EXAMPLES.len());
    for (name, refusal) in EXAMPLES {
        println!("{name}");
        let topology = Topology::build("example");
        load(&topology, name);
        transfer(&topology, SERVER[0]);
        assert!(steering_of(&topology).is_some_and(|why| why.contains(refusal)), "{name}");
        let said = refused(&topology, &topology.config());
        assert!(said.contains(refusal) && said.contains("cellm0"), "{name}: {said}");
        // Nothing has changed for anybody.
        transfer(&topology, SERVER[0]);
        add(&topology, name);
        assert_eq!(steering_of(&topology), None, "{name}");
        let program = Program::start_both_ways(&topology);
        transfer(&topology, SERVER[0]);
        assert!(topology.steered_packets() > 100, "{name}");
        let said = program.stop(&topology);
        assert!(!said.contains("warning"), "{name}: {said}");
        assert_eq!(verdict(&said), (2, 0), "{name}: {said}");
        transfer(&topology, SERVER[0]);
    }
}

/// Why `doctor` says that nothing would start; none if it would.
pub fn steering_of(topology: &Topology) -> Option<String> {
    let names = ["w0", "m0"].map(str::to_owned);
    let diagnosis = topology.middle.run(|| run::examine(&names)).unwrap().unwrap();
    let steering = diagnosis.findings.into_iter().find(|finding| finding.subject == "steering").unwrap();
    (steering.health == run::Health::Missing).then_some(steering.found)
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
        // It is as if it had been there at the start.
        let line = program.await_line("stands by");
        assert!(line.contains("tcp dport 8080 drop"), "{line}");
        only_waits(&topology, &program);
        connection.exchange(b"handed-2");
        topology.connect(&topology.server, SERVER[0]).download(1_000_000);
        assert!(!port.is_reached(&topology), "{steering:?}");
        topology.exec("nft", &["delete table inet fw"]);
        program.await_line("nothing is against it any more: starting again");
        program.await_line("steering TCP between");
        assert!(port.is_reached(&topology));
        connection.exchange(b"passed-3");
        topology.connect(&topology.server, SERVER[0]).download(1_000_000);
        connection.download(1_000_000);
        let said = program.stop(&topology);
        // With the one that has reached the port.
        assert!(said.contains("\naccelerated 2 flows, 0 B lost"), "{said}");
    }
}

/// Nothing of it is there but the directory in which it answers, and says why it waits.
fn only_waits(topology: &Topology, program: &Program) {
    assert_eq!(topology.leftovers(), [format!("run-{}", program.pid())]);
    let status = topology.status();
    assert_eq!((status.process, status.wired.as_str(), status.mobile.as_str()), (program.pid(), "w0", "m0"));
    assert!(!status.stands_by.is_empty(), "{status:?}");
}

#[test]
fn h36_who_stands_by_is_asked_and_ends_when_told() {
    let topology = Topology::build("asked");
    let mut program = Program::start_engine(&topology, &topology.config());
    assert_eq!(topology.status().stands_by, "");
    topology.exec("nft", &[BETWEEN_BOTH]);
    program.await_line("stands by");
    assert!(topology.status().stands_by.contains("tcp dport 8080 drop"));
    let found = run::choose(run::find(&topology.state).unwrap(), None).unwrap();
    let Answer::Metrics(snapshot) = found.ask(&Question::Metrics).unwrap() else { panic!() };
    assert!(snapshot.stands_by.contains("tcp dport 8080 drop"), "{snapshot:?}");
    assert!(
        matches!(found.ask(&Question::EndAb).unwrap(), Answer::Refused(why) if why.contains("stands by"))
    );
    // Nobody takes its place, whose flows it does not have.
    let mut other = topology.config();
    other.replace = Some(found.name.clone());
    let said = {
        let (status, said) = Program::launch_with(&topology, &other, &["--engine"]).wait();
        assert!(!status.success(), "{said}");
        said
    };
    assert!(said.contains("it stands by because of a packet filter"), "{said}");
    assert!(matches!(found.ask(&Question::Drain { time_ms_max: None }).unwrap(), Answer::Done(_)));
    let (status, said) = program.wait();
    assert!(status.success() && said.contains("Drain"), "{said}");
    assert_eq!(topology.leftovers(), [""; 0]);
}

#[test]
fn h36_a_bridge_is_refused_beside_a_filter_that_it_would_pass_by() {
    let (topology, config) = inline::build("seen", InlineFallback::Bridge);
    let ingress = "add table netdev fw; \
                   add chain netdev fw in { type filter hook ingress device m0 priority 0; }; \
                   add rule netdev fw in udp dport 53 drop";
    let bridged = "add table bridge fw; add chain bridge fw forward { type filter hook forward priority 0; }; \
                   add rule bridge fw forward iifname m0 tcp dport 8080 drop";
    for (rules, table, why) in [
        (ingress, "netdev", "sees what comes in by m0, which a socket takes before it"),
        (bridged, "bridge", "sees what the kernel bridges"),
    ] {
        topology.exec("nft", &[rules]);
        let said = refused(&topology, &config);
        assert!(said.contains("dport") && said.contains(why), "{said}");
        topology.exec("nft", &[&format!("delete table {table} fw")]);
    }
    // What others are shown matters to nobody.
    topology.exec("nft", &[&bridged.replace("m0", "eth9")]);
    let mut program = inline::start(&topology, &config);
    topology.connect(&topology.server, inline::HERE[0]).download(1_000_000);
    topology.exec("nft", &[ingress]);
    let line = program.await_line("a filter has come up that this bridge passes by");
    assert!(line.contains("udp dport 53 drop"), "{line}");
    topology.exec("nft", &["delete table netdev fw"]);
    program.await_line("no filter is passed by any more");
    topology.exec("tc", &["qdisc", "add", "dev", "w0", "clsact"]);
    program.await_line("w0 has a queueing discipline for what comes in (clsact)");
    topology.connect(&topology.server, inline::HERE[0]).download(1_000_000);
    let said = program.stop(&topology);
    assert_eq!(verdict(&said), (2, 0), "{said}");
    // Who wants it so may have it.
    let program = inline::start(&topology, &Config { bypass_filters: true, ..config });
    assert!(program.stop(&topology).contains("warning: --bypass-filters: w0 has a queueing discipline"));
}

/// A BPF program at netfilter's forward hook of IPv4 that accepts all, as long as its process lives; without Python or
/// before Linux 6.4 there is none.
fn program_at_forward(topology: &Topology) -> Option<std::process::Child> {
    const LOAD: &str = "\
import ctypes, os, platform, struct, time
call = {'x86_64': 321, 'aarch64': 280}[platform.machine()]
libc = ctypes.CDLL(None, use_errno=True)
def bpf(command, attributes):
    area = ctypes.create_string_buffer(attributes.ljust(128, b'\\0'), 128)
    return libc.syscall(call, command, area, 128)
code = ctypes.create_string_buffer(struct.pack('<BBhiBBhi', 0xb7, 0, 0, 1, 0x95, 0, 0, 0))
license = ctypes.create_string_buffer(b'GPL')
load = struct.pack('<IIQQ', 32, 2, ctypes.addressof(code), ctypes.addressof(license))
program = bpf(5, load.ljust(48, b'\\0') + b'others_filter'.ljust(20, b'\\0') + struct.pack('<I', 45))
link = bpf(28, struct.pack('<IIIIIIii', program, 0, 45, 0, 2, 2, 4321, 0)) if program >= 0 else -1
print('loaded' if link >= 0 else os.strerror(ctypes.get_errno()), flush=True)
time.sleep(600)
";
    let mut command = std::process::Command::new("python3");
    command.args(["-c", LOAD]).stdout(std::process::Stdio::piped());
    let options = io::SpawnOptions { death_signal: Some(SIGKILL), own_process_group: false };
    let mut child = topology.middle.spawn(command, options).ok()?;
    let mut line = String::new();
    let output = child.stdout.take().unwrap();
    std::io::BufRead::read_line(&mut std::io::BufReader::new(output), &mut line).unwrap();
    if line.trim() == "loaded" {
        return Some(child);
    }
    println!("no BPF program of netfilter's can be loaded: {line}");
    child.kill().unwrap();
    child.wait().unwrap();
    None
}

#[test]
fn h36_a_bpf_program_of_netfilters_is_against_both() {
    let topology = Topology::build("nfbpf");
    let Some(mut others) = program_at_forward(&topology) else { return };
    // One elsewhere is nobody's business here.
    let elsewhere = Topology::build("nfbpfelse");
    let program = Program::start_engine(&elsewhere, &elsewhere.config());
    program.stop(&elsewhere);
    let why = "a BPF program of netfilter's (others_filter) is at the forward hook of ip";
    for steering in [SteeringChoice::Auto, SteeringChoice::Rules] {
        let said = refused(&topology, &Config { steering, ..topology.config() });
        assert!(said.contains(why), "{said}");
    }
    others.kill().unwrap();
    others.wait().unwrap();
    let mut program = Program::start_engine(&topology, &topology.config());
    let mut others = program_at_forward(&topology).unwrap();
    if !topology.exec("sh", &["-c", "nft list hooks 2>&1 || true"]).contains("others_filter") {
        println!(
            "this kernel does not tell of hooks (CONFIG_NETFILTER_NETLINK_HOOK): later ones are not seen"
        );
        others.kill().unwrap();
        others.wait().unwrap();
        program.stop(&topology);
        return;
    }
    assert!(program.await_line("a filter has come up").contains(why));
    program.await_line("stands by");
    transfer(&topology, SERVER[0]);
    others.kill().unwrap();
    others.wait().unwrap();
    program.await_line("steering TCP between");
    transfer(&topology, SERVER[0]);
    program.stop(&topology);
}

/// The clients' cable ends in a bridge called m0.
fn behind_a_bridge(what: &str) -> Topology {
    let topology = Topology::build(what);
    for command in [
        "link set m0 down",
        "link set m0 name port0",
        "link add m0 type bridge",
        "link set port0 master m0",
        "address flush dev port0",
        "address add 10.1.0.1/24 dev m0",
        "address add fd01::1/64 dev m0 nodad",
        "link set port0 up",
        "link set m0 up",
    ] {
        topology.exec("ip", &command.split(' ').collect::<Vec<_>>());
    }
    topology
}

/// With `br_netfilter` the hooks see what comes to a bridge before its interface does, and once only.
#[test]
fn h36_behind_a_bridge_filters_decide_as_ever() {
    let topology = behind_a_bridge("bridged");
    let port = Port::open(&topology, 8_080);
    wait_until("the bridge forwards", || port.is_reached(&topology));
    for hooks in ["1", "0"] {
        for path in ["net/bridge/bridge-nf-call-iptables", "net/bridge/bridge-nf-call-ip6tables"] {
            topology.set(path, hooks);
        }
        let program = Program::start_both_ways(&topology);
        SERVER.iter().for_each(|address| transfer(&topology, address));
        assert_eq!(verdict(&program.stop(&topology)), (4, 0));
        topology.exec("nft", &[BETWEEN_BOTH]);
        assert!(refused(&topology, &topology.config()).contains("tcp dport 8080 drop"));
        topology.exec("nft", &["delete table inet fw"]);
        // By state, translated, with the rules that the page says.
        by_state(&topology);
        topology.exec("nft", &["insert rule inet fw forward iifname m0 tcp dport 8080 drop"]);
        let program = Program::start_both_ways(&topology);
        SERVER.iter().for_each(|address| transfer(&topology, address));
        assert!(!port.is_reached(&topology));
        assert!(topology.steered_packets() > 100);
        let said = program.stop(&topology);
        assert_eq!(verdict(&said), (4, 0), "{said}");
        topology.exec("nft", &["delete table inet fw"]);
    }
}

#[test]
fn h36_who_stands_by_ends_by_a_signal() {
    let topology = Topology::build("standby");
    topology.exec("nft", &[BETWEEN_BOTH]);
    assert!(refused(&topology, &topology.config()).contains("tcp dport 8080 drop"));
    topology.exec("nft", &["delete table inet fw"]);
    let mut program = Program::start_engine(&topology, &topology.config());
    topology.exec("nft", &[BETWEEN_BOTH]);
    program.await_line("stands by");
    let said = program.stop(&topology);
    assert!(said.contains("Signal(15)"), "{said}");
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
    program.await_line("stands by");
    only_waits(&topology, &program);
    topology.exec("tc", &["qdisc", "del", "dev", "w0", "clsact"]);
    program.await_line("steering TCP between");
    program.stop(&topology);
    // Where the settings leave it open, rules steer instead.
    let mut program = Program::start_engine(&topology, &topology.config());
    topology.exec("tc", &["qdisc", "add", "dev", "w0", "clsact"]);
    program.await_line("w0 has a queueing discipline for what comes in (clsact)");
    program.await_line("nothing is against it any more: starting again");
    program.await_line("# steering by rules, not by tcx: w0 has a queueing discipline");
    program.await_line("steering TCP between");
    topology.connect(&topology.server, SERVER[0]).download(1_000_000);
    let said = program.stop(&topology);
    assert!(said.contains("\naccelerated 1 flows, 0 B lost"), "{said}");
}
