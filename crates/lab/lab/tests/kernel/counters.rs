//! What the kernels on both sides count: nothing rejected, nothing sent twice over a clean wired segment.

use std::collections::BTreeMap;
use std::fs;
use std::io::Write;

use lab::Role;
use units::Rate;

use crate::kernel::content::{Content, read_exactly};
use crate::kernel::server::{Server, request};
use crate::kernel::testbed::{FAMILIES, Radio, Testbed, burst_loss};

/// The TCP counters of a host: `Tcp.RetransSegs`, `TcpExt.PAWSEstab` and so on.
pub fn counters(bed: &Testbed, host: Role) -> BTreeMap<String, u64> {
    let read = || ["snmp", "netstat"].map(|file| fs::read_to_string(format!("/proc/thread-self/net/{file}")));
    let mut all = BTreeMap::new();
    for text in bed.host(host).run(read).unwrap() {
        let text = text.unwrap();
        let lines: Vec<&str> = text.lines().filter(|line| line.starts_with("Tcp")).collect();
        for pair in lines.chunks_exact(2) {
            let group = pair[0].split(':').next().unwrap();
            let fields = pair.iter().map(|line| line.split_ascii_whitespace().skip(1));
            let [names, values] = <[_; 2]>::try_from(fields.collect::<Vec<_>>()).unwrap_or_else(|_| panic!());
            for (name, value) in names.zip(values) {
                all.insert(format!("{group}.{name}"), value.parse().unwrap_or(0));
            }
        }
    }
    all
}

/// One of them.
pub fn counter(bed: &Testbed, host: Role, name: &str) -> u64 {
    *counters(bed, host).get(name).unwrap_or_else(|| panic!("the kernel does not count {name}"))
}

/// Counters that tell of a segment whose header was wrong.
const REJECTIONS: [&str; 10] = [
    "TcpExt.PAWSActive",
    "TcpExt.PAWSEstab",
    "TcpExt.PAWSOldAck",
    "TcpExt.TSEcrRejected",
    "TcpExt.TCPChallengeACK",
    "TcpExt.TCPSYNChallenge",
    "TcpExt.TCPAbortOnData",
    "TcpExt.TCPACKSkippedPAWS",
    "Tcp.InErrs",
    "Tcp.AttemptFails",
];

/// What a SYN-ACK that comes again adds to, when the client is connected already (RFC 5961 §4.2).
const SYN_CHALLENGE: [&str; 3] = ["TcpExt.TCPSYNChallenge", "TcpExt.TCPChallengeACK", "Tcp.InErrs"];

/// Fails when a kernel rejected anything.
///
/// A busy machine may keep the third packet waiting until the server sends its SYN-ACK again: the
/// client answers as many of these as there were.
pub fn assert_healthy(bed: &Testbed) {
    let repeated = counter(bed, Role::Server, "TcpExt.TCPSynRetrans");
    for host in [Role::Client, Role::Server] {
        let mut all = counters(bed, host);
        if matches!(host, Role::Client) {
            let answered = all.get(SYN_CHALLENGE[0]).copied().unwrap_or(0).min(repeated);
            for name in SYN_CHALLENGE {
                all.entry(name.to_owned()).and_modify(|count| *count -= answered.min(*count));
            }
        }
        assert!(all.contains_key("TcpExt.PAWSEstab"));
        // Older kernels count less.
        let bad: Vec<_> = REJECTIONS.iter().filter_map(|name| all.get_key_value(*name)).collect();
        let bad: Vec<_> = bad.into_iter().filter(|(_, count)| **count > 0).collect();
        assert!(bad.is_empty(), "{host:?}: {bad:?}\n{}", non_zero(&all));
    }
}

fn non_zero(all: &BTreeMap<String, u64>) -> String {
    let lines = all.iter().filter(|(_, value)| **value > 0).map(|(name, value)| format!("{name} {value}"));
    lines.collect::<Vec<_>>().join("\n")
}

/// Fails when the server had to repair anything. (Its connections are open: a FIN is acknowledged
/// only after the client has it, and may be sent again meanwhile.)
///
/// Loss probes and time-outs are a matter of time alone: a busy machine may keep all flows waiting at once.
fn assert_nothing_was_lost_on_the_wire(bed: &Testbed) {
    let all = counters(bed, Role::Server);
    for name in ["TcpExt.TCPFastRetrans", "TcpExt.TCPSackRecovery"] {
        assert_eq!(all[name], 0, "{name}:\n{}", non_zero(&all));
    }
    let for_time = all["TcpExt.TCPLossProbes"] + all["TcpExt.TCPTimeouts"];
    // A time-out takes what a probe or an earlier one has sent again for lost.
    let again_for_time = if all["TcpExt.TCPTimeouts"] > 0 { for_time } else { 0 };
    assert!(all["TcpExt.TCPLostRetransmit"] <= again_for_time, "{}", non_zero(&all));
    assert!(all["Tcp.RetransSegs"] <= for_time, "{}", non_zero(&all));
}

fn losses_stay_on_the_radio(policy: &str) {
    let radio = Radio { loss_down: burst_loss(3_000), ..Radio::steady(Rate::from_mbps(20)) };
    let options = ["--window-policy", policy];
    let mut bed = Testbed::accelerated(&format!("count-{policy}"), &radio, &options);
    for family in FAMILIES {
        let server = Server::start(&bed, family);
        let mut streams: Vec<_> = (0..3).map(|_| bed.connect(server.address)).collect();
        std::thread::scope(|scope| {
            for (seed, stream) in (40..).zip(&mut streams) {
                scope.spawn(move || {
                    let content = Content { seed, len: 2_000_000 };
                    stream.write_all(request(content, true).as_bytes()).unwrap();
                    assert_eq!(read_exactly(stream, content.len).unwrap(), content.print());
                });
            }
        });
        assert_nothing_was_lost_on_the_wire(&bed);
    }
    assert_healthy(&bed);
    for host in [Role::Client, Role::Server] {
        println!("{policy} {host:?}:\n{}", non_zero(&counters(&bed, host)));
    }
    let said = bed.stop();
    println!("{:#?}", &said.lines[said.lines.len() - 4..]);
    let lost = bed.emulation().links[2].counters().dropped_packets();
    assert!(lost > 0, "the radio link lost nothing");
    assert_eq!(said.accelerated_flows(), 6);
    said.assert_no_warning();
}

#[test]
fn losses_stay_on_the_radio_with_honour() {
    losses_stay_on_the_radio("honour");
}

#[test]
fn losses_stay_on_the_radio_with_opportunistic() {
    losses_stay_on_the_radio("opportunistic");
}
