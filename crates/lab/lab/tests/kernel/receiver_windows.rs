//! `cellerator drwa`: the client's own kernel windows are lowered, nothing else is, and nothing stays behind.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::{Shutdown, TcpStream};
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};

use ::io::{Clock, INSTANCE_DIRECTORY, PidFd, SpawnOptions, sysctl};
use lab::{RADIO, Role};
use scenario::{CongestionControl, Family, Server};
use socket2::Protocol;
use units::{Bytes, Duration, Rate};

use crate::kernel::content::{Content, read_to_end};
use crate::kernel::testbed::{
    FAMILIES, Radio, SIGKILL, SIGTERM, Testbed, as_machine_of_its_own, pause, wait_until,
};
use crate::program::program;

const RMEM: &str = "net/ipv4/tcp_rmem";
/// What the client's kernel has before: large enough to fill the queue.
const OWN_RMEM: &str = "4096\t131072\t6291456";

/// 20 Mbit/s, 40 ms there and back, and room for 1.6 s of data.
fn deep() -> Radio {
    Radio {
        delay: Duration::from_millis(10),
        wan_delay: Duration::from_millis(10),
        queue: Bytes::new(4_000_000),
        ..Radio::steady(Rate::from_mbps(20))
    }
}

fn bed(name: &str) -> Testbed {
    // Which fills the queue at once: CUBIC's start ends before that.
    let reno = Server { congestion_control: CongestionControl::named("reno"), ..Server::default() };
    let bed = Testbed::build_with(name, &deep(), &reno);
    bed.set(Role::Client, RMEM, OWN_RMEM);
    bed
}

/// A running `cellerator drwa attach`; killed when dropped.
struct Attached {
    child: Child,
    said: Vec<String>,
}

impl Attached {
    fn start(bed: &Testbed, options: &[&str]) -> Self {
        let mut command = Command::new(program());
        command.args(["drwa", "attach", RADIO]).args(options);
        command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::inherit());
        let spawn = SpawnOptions { death_signal: Some(SIGKILL), own_process_group: true };
        let mut child = bed.host(Role::Client).spawn(command, spawn).unwrap();
        let mut lines = BufReader::new(child.stdout.take().unwrap()).lines();
        let mut said = Vec::new();
        while !said.last().is_some_and(|line: &String| line.starts_with("ready")) {
            said.push(lines.next().unwrap_or_else(|| panic!("it was not ready: {said:#?}")).unwrap());
        }
        // Read to the end, so that it never blocks.
        std::thread::spawn(move || lines.for_each(drop));
        Self { child, said }
    }

    fn signal(&self, signal: i32) {
        PidFd::open(self.child.id()).unwrap().send_signal(signal).unwrap();
    }

    fn stop(mut self, signal: i32) {
        self.signal(signal);
        let status = self.child.wait().unwrap();
        assert_eq!(status.success(), signal != SIGKILL);
    }
}

impl Drop for Attached {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// What `cellerator drwa ...` says in the client's namespace, and whether it ends well.
fn drwa(bed: &Testbed, arguments: &[&str]) -> (bool, String) {
    let mut command = Command::new(program());
    command.arg("drwa").args(arguments);
    command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let child = bed.host(Role::Client).spawn(command, SpawnOptions::default()).unwrap();
    let output = child.wait_with_output().unwrap();
    let said = [output.stdout, output.stderr].concat();
    (output.status.success(), String::from_utf8_lossy(&said).into_owned())
}

fn status(bed: &Testbed) -> serde_json::Value {
    let (is_good, said) = drwa(bed, &["status", "--json", "--all"]);
    assert!(is_good, "{said}");
    let all: serde_json::Value = serde_json::from_str(&said).unwrap();
    let own = bed.host(Role::Client).id().unwrap();
    all["attached"].as_array().unwrap().iter().find(|at| at["namespace"] == own).cloned().unwrap_or_default()
}

fn rmem(bed: &Testbed) -> String {
    sysctl::read(bed.host(Role::Client), RMEM).unwrap()
}

/// BPF filters and qdiscs at the client's radio interface.
fn discipline(bed: &Testbed) -> Option<String> {
    let netlink = bed.host(Role::Client).netlink().unwrap();
    netlink.ingress_discipline(netlink.index_of(RADIO).unwrap()).unwrap()
}

const CONTENT: Content = Content { seed: 72, len: 8_000_000 };

/// A download, and the middle of five round trips beside it towards its end.
fn download(bed: &Testbed, family: Family) -> Duration {
    let (mut client, mut server) = bed.pair(family);
    let (mut asks, mut answers) = bed.pair(family);
    asks.set_nodelay(true).unwrap();
    answers.set_nodelay(true).unwrap();
    std::thread::scope(|scope| {
        scope.spawn(move || {
            as_machine_of_its_own();
            CONTENT.write_to(&mut server).unwrap();
            server.shutdown(Shutdown::Write).unwrap();
            assert_eq!(read_to_end(&mut server).unwrap().len, 0);
        });
        scope.spawn(move || {
            as_machine_of_its_own();
            let mut byte = [0];
            while answers.read(&mut byte).unwrap() > 0 {
                answers.write_all(&byte).unwrap();
            }
        });
        let pings = scope.spawn(move || {
            as_machine_of_its_own();
            pause(Duration::from_millis(2_000));
            let mut times: Vec<Duration> = (0..5).map(|_| ping(&mut asks)).collect();
            asks.shutdown(Shutdown::Write).unwrap();
            times.sort_unstable();
            times[2]
        });
        let read = scope.spawn(move || {
            as_machine_of_its_own();
            let print = read_to_end(&mut client).unwrap();
            client.shutdown(Shutdown::Write).unwrap();
            print
        });
        assert_eq!(read.join().unwrap(), CONTENT.print());
        pings.join().unwrap()
    })
}

fn ping(client: &mut TcpStream) -> Duration {
    let sent = Clock::now();
    client.write_all(&[1]).unwrap();
    client.read_exact(&mut [0]).unwrap();
    Clock::now().saturating_since(sent)
}

#[test]
fn an_unmodified_client_is_told_to_offer_less() {
    let bed = bed("rwnd");
    let without = download(&bed, Family::Ipv4);
    let attached = Attached::start(&bed, &[]);
    assert_eq!(rmem(&bed), "4096\t131072\t16777216");
    for family in FAMILIES {
        let with = download(&bed, family);
        println!("{family:?}: ping {with} with DRWA, {without} without");
    }
    let shown = status(&bed);
    assert_eq!(shown["counters"]["managed"], 4, "{shown:#}");
    assert!(shown["counters"]["windows_lowered"].as_u64().unwrap() > 100, "{shown:#}");
    assert_eq!(shown["counters"]["left_alone_late"], 0, "{shown:#}");
    let lines = shown["connections"].as_array().unwrap();
    let bulk = lines.iter().filter(|line| line["received_bytes"].as_u64().unwrap() > 8_000_000 - 1);
    for line in bulk.clone() {
        // The empty path's: the queue of the download before has left.
        let rtt_min = line["rtt_min_ms"].as_f64().unwrap();
        println!("RTT_min {rtt_min} ms");
        assert!((0.9 * 40.0..1.25 * 40.0).contains(&rtt_min), "{line:#}");
        assert!(line["rtt_ms"].as_f64().unwrap() > line["rtt_min_ms"].as_f64().unwrap(), "{line:#}");
        // Four round trips of 20 Mbit/s, where the kernel itself would allow seconds.
        assert!(line["window_bytes"].as_u64().unwrap() < 400_000, "{line:#}");
        assert!(line["told_bytes"].as_u64().unwrap() < line["own_bytes"].as_u64().unwrap() / 2, "{line:#}");
        assert_eq!(line["state"], "ended");
    }
    assert_eq!(bulk.count(), 2, "{shown:#}");
    attached.stop(SIGTERM);
    assert_eq!(rmem(&bed), OWN_RMEM);
    assert!(status(&bed).is_null());
}

#[test]
fn others_are_left_alone_and_counted() {
    let bed = bed("rwnd-others");
    let family = Family::Ipv4;
    let (mut early, mut early_server) = bed.pair(family);
    let attached = Attached::start(&bed, &["--only", ":65001-65535", "--only", "10.1.0.0/16"]);
    // First seen after its SYN.
    early_server.write_all(&[7; 1000]).unwrap();
    early.read_exact(&mut [0; 1000]).unwrap();
    // Multipath TCP, if both kernels have it.
    let listener = bed.listen_as(family, Some(Protocol::MPTCP));
    let address = listener.local_addr().unwrap();
    let socket = bed.socket(Role::Client, &address, Some(Protocol::MPTCP));
    socket.connect(&address.into()).unwrap();
    let mut multipath: TcpStream = socket.into();
    let (mut accepted, _) = listener.accept().unwrap();
    accepted.write_all(&[7; 1000]).unwrap();
    multipath.read_exact(&mut [0; 1000]).unwrap();
    // Multipath TCP at one end only is plain TCP.
    let plain = bed.listen(family);
    let address = plain.local_addr().unwrap();
    let socket = bed.socket(Role::Client, &address, Some(Protocol::MPTCP));
    socket.connect(&address.into()).unwrap();
    let mut fallen: TcpStream = socket.into();
    let (mut accepted_plain, _) = plain.accept().unwrap();
    accepted_plain.write_all(&[7; 1000]).unwrap();
    fallen.read_exact(&mut [0; 1000]).unwrap();
    let shown = status(&bed);
    assert_eq!(shown["counters"]["left_alone_late"], 1, "{shown:#}");
    assert_eq!(shown["counters"]["left_alone_multipath"], 1, "{shown:#}");
    assert_eq!(shown["counters"]["managed"], 1, "{shown:#}");
    attached.stop(SIGTERM);

    // Not chosen.
    let attached = Attached::start(&bed, &["--only", "192.0.2.0/24", "--only", ":1"]);
    drop(bed.pair(family));
    let shown = status(&bed);
    assert_eq!(shown["counters"]["left_alone_unselected"], 1, "{shown:#}");
    assert_eq!(shown["counters"]["managed"], 0, "{shown:#}");
    attached.stop(SIGTERM);
}

#[test]
fn connections_survive_its_end_however_it_comes() {
    let bed = bed("rwnd-end");
    for (hook, signal) in [("tcx", SIGTERM), ("tcx", SIGKILL), ("clsact", SIGTERM), ("clsact", SIGKILL)] {
        let attached = Attached::start(&bed, &["--hook", hook]);
        assert!(attached.said.iter().any(|line| line.contains(hook)), "{:?}", attached.said);
        let (client, mut server) = bed.pair(Family::Ipv4);
        std::thread::scope(|scope| {
            scope.spawn(move || {
                CONTENT.write_to(&mut server).unwrap();
                server.shutdown(Shutdown::Write).unwrap();
            });
            let reader = scope.spawn(move || read_to_end(&mut { client }).unwrap());
            pause(Duration::from_millis(800));
            attached.stop(signal);
            assert_eq!(reader.join().unwrap(), CONTENT.print(), "{hook}, {signal}");
        });
        if signal == SIGKILL {
            assert_ne!(rmem(&bed), OWN_RMEM, "nobody could put it back");
            assert_eq!(discipline(&bed).is_some(), hook == "clsact");
            let (is_good, said) = drwa(&bed, &["detach"]);
            assert!(is_good && said.contains("was killed"), "{said}");
        }
        assert_eq!((rmem(&bed).as_str(), discipline(&bed)), (OWN_RMEM, None), "{hook}, {signal}");
    }
}

#[test]
fn a_filter_that_decides_before_is_named() {
    let bed = bed("rwnd-behind");
    let tc = |words: &str| {
        let mut command = Command::new("tc");
        command.args(words.split(' '));
        let child = bed.host(Role::Client).spawn(command, SpawnOptions::default()).unwrap();
        assert!(child.wait_with_output().unwrap().status.success(), "tc {words}");
    };
    let warned = |attached: &Attached| {
        attached.said.iter().filter(|line| line.contains("filters stand before")).cloned().collect::<Vec<_>>()
    };
    tc(&format!("qdisc add dev {RADIO} clsact"));
    let alone = Attached::start(&bed, &["--hook", "clsact"]);
    assert!(warned(&alone).is_empty(), "{:?}", alone.said);
    alone.stop(SIGTERM);
    // Every packet that leaves is matched: the end of its way along filters.
    let mut command = Command::new("tc");
    command.args(["filter", "add", "dev", RADIO, "egress", "prio", "10", "protocol", "all", "bpf"]);
    command.args(["bytecode", "1,6 0 0 4294967295", "flowid", "1:1"]);
    let child = bed.host(Role::Client).spawn(command, SpawnOptions::default()).unwrap();
    assert!(child.wait_with_output().unwrap().status.success());
    let behind = Attached::start(&bed, &["--hook", "clsact"]);
    let lines = warned(&behind);
    assert!(lines.len() == 1 && lines[0].contains("at egress (priority 10)"), "{:?}", behind.said);
    // As it says: nothing that leaves is seen.
    drop(bed.pair(Family::Ipv4));
    assert_eq!(status(&bed)["counters"]["segments_out"], 0);
    behind.stop(SIGTERM);
    let before = Attached::start(&bed, &["--hook", "tcx"]);
    assert!(warned(&before).is_empty(), "{:?}", before.said);
    drop(bed.pair(Family::Ipv4));
    assert_ne!(status(&bed)["counters"]["segments_out"], 0);
    let (_, shown) = drwa(&bed, &["status"]);
    assert!(shown.contains("this network namespace"), "{shown}");
    before.stop(SIGTERM);
}

/// Nobody can go to a namespace that has gone, to undo what was done there: nothing of it is left but the record.
#[test]
fn a_record_goes_when_its_namespace_has_gone() {
    // Where the tests themselves are.
    let elsewhere = |command: &str| {
        let output = Command::new(program()).args(["drwa", command]).output().unwrap();
        String::from_utf8_lossy(&[output.stdout, output.stderr].concat()).into_owned()
    };
    for command in ["status", "detach"] {
        let bed = bed("rwnd-gone");
        let mut attached = Attached::start(&bed, &[]);
        let record = PathBuf::from(format!("{INSTANCE_DIRECTORY}/drwa-{}", attached.child.id()));
        attached.signal(SIGKILL);
        attached.child.wait().unwrap();
        elsewhere(command);
        assert!(record.exists(), "{command}: its namespace is there, so there is something to undo");
        drop(attached);
        drop(bed);
        let said = elsewhere(command);
        assert!(!record.exists(), "{command}: {said}");
        assert_eq!(said.contains("has gone"), command == "detach", "{said}");
    }
}

#[test]
fn there_is_one_at_a_time_and_detach_ends_it() {
    let bed = bed("rwnd-one");
    let (is_good, said) = drwa(&bed, &["detach"]);
    assert!(!is_good && said.contains("nothing is attached here"), "{said}");
    let mut attached = Attached::start(&bed, &[]);
    let (is_good, said) = drwa(&bed, &["attach", RADIO]);
    assert!(!is_good && said.contains("already") && said.contains(RADIO), "{said}");
    let (is_good, said) = drwa(&bed, &["attach", "none0"]);
    assert!(!is_good && said.contains("already"), "{said}");
    // A value that somebody else has set since stays.
    bed.set(Role::Client, RMEM, "4096 131072 3000000");
    let (is_good, said) = drwa(&bed, &["detach", RADIO]);
    assert!(is_good && said.contains(RADIO), "{said}");
    wait_until("it has ended", || attached.child.try_wait().unwrap().is_some());
    assert_eq!(rmem(&bed), "4096\t131072\t3000000");
    let (is_good, said) = drwa(&bed, &["attach", "none0"]);
    assert!(!is_good && said.contains("none0"), "{said}");
}

#[test]
fn what_the_client_sends_is_whole_too() {
    let bed = bed("rwnd-up");
    let attached = Attached::start(&bed, &[]);
    for family in FAMILIES {
        let (mut client, mut server) = bed.pair(family);
        std::thread::scope(|scope| {
            scope.spawn(move || {
                CONTENT.write_to(&mut client).unwrap();
                client.shutdown(Shutdown::Write).unwrap();
            });
            // Super-packets with unfinished checksums carry the window too.
            assert_eq!(read_to_end(&mut server).unwrap(), CONTENT.print());
        });
    }
    attached.stop(SIGTERM);
}
