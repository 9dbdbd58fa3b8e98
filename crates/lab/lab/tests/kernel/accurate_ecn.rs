//! Accurate ECN between kernels that speak it (RFC 9768; Linux 6.18 and later): a host hears of each CE mark that its
//! packets have met, and so does the other one.

use std::io::Write;
use std::net::{Shutdown, TcpStream};
use std::process::{Command, Stdio};

use io::{SpawnOptions, TcpInfo};
use lab::Role;
use scenario::Family;
use units::{Duration, Rate};

use crate::kernel::content::{Content, read_to_end};
use crate::kernel::counters::assert_healthy;
use crate::kernel::testbed::{Radio, Testbed, pause, wait_until};

/// One data packet of so many is marked on its way out.
const EVERY: u32 = 40;

fn run(bed: &Testbed, host: Role, program: &str, arguments: &[&str]) -> String {
    let mut command = Command::new(program);
    command.args(arguments).stdout(Stdio::piped());
    let output = bed.host(host).spawn(command, SpawnOptions::default()).unwrap().wait_with_output().unwrap();
    assert!(output.status.success(), "{program} {arguments:?}");
    String::from_utf8_lossy(&output.stdout).into_owned()
}

/// A network whose hosts offer and accept accurate ECN; false where their kernels do not know it.
fn negotiate(bed: &Testbed) -> bool {
    let hosts = [Role::Client, Role::Server].map(|host| bed.host(host));
    hosts.into_iter().all(|host| io::sysctl::write(host, "net/ipv4/tcp_ecn", "3").is_ok())
}

/// Marks what `host` sends by IPv4, by number. (`ip6 ecn set ce` of nftables 1.0.6 marks nothing.)
fn mark(bed: &Testbed, host: Role) {
    let links = bed.host(host).netlink().unwrap().links().unwrap();
    for link in links.iter().filter(|link| link.name != "lo") {
        // Each packet is one: a super-packet would be marked as a whole.
        run(bed, host, "ip", &["link", "set", "dev", &link.name, "gso_max_segs", "1"]);
    }
    let rules = format!(
        "table inet marks {{ chain out {{ type filter hook postrouting priority 0; \
         ip ecn ect0 ip length > 600 numgen inc mod {EVERY} == 9 counter ip ecn set ce; }}; }}"
    );
    run(bed, host, "nft", &[&rules]);
}

/// How many were marked so far.
fn marked(bed: &Testbed, host: Role) -> u32 {
    let rules = run(bed, host, "nft", &["list", "table", "inet", "marks"]);
    let (_, count) = rules.split_once("counter packets ").unwrap();
    count.split(' ').next().unwrap().parse().unwrap()
}

/// Sends `content` from the one to the other and gives what both kernels say of marks: those that the sender was told
/// of, and those that the receiver has seen.
fn transfer(mut from: &TcpStream, mut to: &TcpStream, content: Content) -> (TcpInfo, TcpInfo) {
    std::thread::scope(|scope| {
        scope.spawn(move || {
            content.write_to(&mut from).unwrap();
            from.shutdown(Shutdown::Write).unwrap();
        });
        assert_eq!(read_to_end(&mut to).unwrap(), content.print());
    });
    // Something comes back, and tells of the last marks.
    to.write_all(b"all of it").unwrap();
    wait_until("all is acknowledged", || TcpInfo::of(&from).unwrap().unacked == 0);
    pause(Duration::from_millis(200));
    (TcpInfo::of(&from).unwrap(), TcpInfo::of(&to).unwrap())
}

#[test]
fn h25_marks_are_told_one_by_one() {
    let radio = Radio { wan_delay: Duration::from_millis(10), ..Radio::steady(Rate::from_mbps(30)) };
    let mut bed = Testbed::build("accecn", &radio);
    if !negotiate(&bed) {
        println!("not supported: this kernel has no accurate ECN (tcp_ecn = 3)");
        return;
    }
    mark(&bed, Role::Server);
    mark(&bed, Role::Client);
    let content = Content { seed: 25, len: 3_000_000 };
    let mut last = [0, 0];
    let mut marks_since = |bed: &Testbed, host: Role| {
        let now = marked(bed, host);
        now - std::mem::replace(&mut last[usize::from(host == Role::Client)], now)
    };
    // Without the accelerator: what the kernels say of each other counts as right.
    let (client, server) = bed.pair(Family::Ipv4);
    let (told, seen) = transfer(&server, &client, content);
    let marks = marks_since(&bed, Role::Server);
    assert!(marks > 20, "{marks}");
    assert_eq!((told.delivered_ce, seen.received_ce), (marks, marks), "direct");
    drop((client, server));

    bed.accelerate(&["--direction", "both"]);
    for (direction, sender) in [("down", Role::Server), ("up", Role::Client)] {
        let (client, server) = bed.pair(Family::Ipv4);
        marks_since(&bed, sender);
        let (from, to) = if sender == Role::Server { (&server, &client) } else { (&client, &server) };
        let (told, seen) = transfer(from, to, content);
        let marks = marks_since(&bed, sender);
        println!("{direction}: {marks} marks, told {}, passed on {}", told.delivered_ce, seen.received_ce);
        assert!(marks > 20, "{marks}");
        assert_eq!(told.delivered_ce, marks, "{direction}");
        // The last one may have come when the sender had nothing more to say.
        assert!(
            seen.received_ce <= marks && marks - seen.received_ce <= 1,
            "{direction}: {}",
            seen.received_ce
        );
    }
    assert_healthy(&bed);
    let said = bed.stop();
    assert_eq!((said.accelerated_flows(), said.passed_flows("accurate-ecn")), (2, 0));
    said.assert_no_warning();
}
