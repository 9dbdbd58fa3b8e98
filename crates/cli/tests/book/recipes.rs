//! The networks of `docs/recipes.md`, each in namespaces.

use std::ffi::OsStr;
use std::io::{Read, Write};
use std::net::TcpListener;
use std::process::Command;
use std::thread;

use io::{Namespace, SpawnOptions};
use serde_json::Value;

use crate::network::{Network, PATIENCE, PROGRAM, Running, wait_until};

/// Runs a line of words in a namespace.
fn sh(namespace: &Namespace, line: &str) -> String {
    let mut command = Command::new("bash");
    command.args(["-euc", line]);
    command.stdout(std::process::Stdio::piped()).stderr(std::process::Stdio::piped());
    let output = namespace.spawn(command, SpawnOptions::default()).unwrap().wait_with_output().unwrap();
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{line}: {said}");
    String::from_utf8_lossy(&output.stdout).into_owned()
}

/// What a command of ours says as JSON.
fn ask(network: &Network, command: &str) -> Value {
    let line = format!("{PROGRAM} {command} {} --json", network.name);
    serde_json::from_str(&sh(&network.middle, &line)).unwrap()
}

fn accelerated(network: &Network) -> u64 {
    ask(network, "status")["counters"]["flows_accelerated"].as_u64().unwrap_or(0)
}

/// N6: the UPF is a router on the mobile side, and subscribers' addresses lie behind it.
#[test]
fn behind_a_upf_subscribers_are_known_by_their_own_addresses() {
    let network = Network::build("upf");
    sh(
        &network.client,
        "ip address add 10.60.0.5/32 dev lo; ip link set lo up; \
         ip route replace default via 10.1.0.1 src 10.60.0.5",
    );
    sh(&network.middle, "ip route add 10.60.0.0/16 via 10.1.0.2");
    let accelerator = network.accelerate(&[]);
    let (client, _) = network.download(1_000_000);
    assert_eq!(client.ip().to_string(), "10.60.0.5");
    assert_eq!(accelerated(&network), 1);
    accelerator.stop();
}

/// What a recipe says of no root: each of its networks is simulated, and every file arrives.
#[test]
fn networks_of_recipes_are_simulated_to_their_ends() {
    let folder = tempfile::tempdir().unwrap();
    let recipes = std::fs::read_dir(crate::book::root().join("scenarios/recipes")).unwrap();
    let recipes: Vec<_> = recipes.map(|entry| entry.unwrap().path()).collect();
    assert!(!recipes.is_empty());
    for recipe in recipes {
        let output = Command::new(PROGRAM)
            .args([
                OsStr::new("sim"),
                "run".as_ref(),
                recipe.as_ref(),
                "--out".as_ref(),
                folder.path().as_ref(),
            ])
            .output()
            .unwrap();
        let said = String::from_utf8_lossy(&output.stderr);
        assert!(output.status.success(), "{}: {said}", recipe.display());
    }
}

/// At the subscriber's end of a satellite link, uploads are what can be accelerated.
#[test]
fn at_a_satellite_modem_uploads_are_accelerated() {
    const LEN: usize = 2_000_000;
    let network = Network::build("modem");
    // The modem is the way to the servers: the wired side.
    let accelerator = network.accelerate(&["--direction", "uplink"]);
    let listener = network.server.run(|| TcpListener::bind(("10.2.0.2", 0))).unwrap().unwrap();
    let to = listener.local_addr().unwrap();
    let mut client =
        network.client.run(|| std::net::TcpStream::connect_timeout(&to, PATIENCE)).unwrap().unwrap();
    let (mut server, _) = listener.accept().unwrap();
    server.set_read_timeout(Some(PATIENCE)).unwrap();
    let sender = thread::spawn(move || client.write_all(&vec![7; LEN]));
    let mut got = Vec::new();
    server.read_to_end(&mut got).unwrap();
    sender.join().unwrap().unwrap();
    assert_eq!(got.len(), LEN);
    let status = ask(&network, "status");
    assert!(status["counters"].to_string().contains("uplink"), "{status}");
    accelerator.stop();
}

/// One card needs two interfaces on it.
#[test]
fn one_interface_for_both_sides_is_refused_in_one_line() {
    let network = Network::build("card");
    let line = format!("{PROGRAM} run --wired m0 --mobile m0 --dry-run 2>&1 && exit 1; true");
    let said = sh(&network.middle, &line);
    assert!(said.contains("they must be two") && said.trim().lines().count() == 1, "{said}");
}

/// Two MACVLANs on one card, to which a switch brings both sides. Each answers for both addresses unless it is told not
/// to, and then packets of clients may come in through the servers' side.
#[test]
fn two_macvlans_on_one_card_accelerate_once_each_answers_for_itself() {
    let network = Network::build("one-card");
    // The cables of the network become ports of a switch, and a third one leads to the card.
    sh(
        &network.middle,
        "ip link add switch type bridge; ip link set switch up; ip address flush dev m0; ip address flush dev w0
         ip link add eth0 type veth peer name port; ip link set port master switch up; ip link set eth0 up
         for cable in m0 w0; do ip link set $cable name $cable-cable; ip link set $cable-cable master switch up; done
         for side in 'm0 10.1.0.1/24' 'w0 10.2.0.1/24'; do set -- $side
           ip link add link eth0 name $1 type macvlan mode bridge; ip address add $2 dev $1; ip link set $1 up; done",
    );
    let arp = |network: &Network| -> Value {
        let said: Value =
            serde_json::from_str(&sh(&network.middle, &format!("{PROGRAM} doctor w0 m0 --json"))).unwrap();
        let findings = said["findings"].as_array().unwrap();
        findings.iter().find(|finding| finding["subject"] == "ARP").cloned().unwrap_or_default()
    };
    let mend = arp(&network)["mend"].as_str().unwrap().to_owned();
    sh(&network.middle, &mend);
    assert_eq!(arp(&network), Value::Null);
    for namespace in [&network.client, &network.server] {
        sh(namespace, "ip neighbour flush all");
    }
    let accelerator = network.accelerate(&[]);
    network.download(2_000_000);
    network.download(2_000_000);
    assert_eq!(accelerated(&network), 2);
    accelerator.stop();
}

/// A router with masquerading and 512 MB: rules steer, and memory stays within what it has.
#[test]
fn a_small_router_that_masquerades_needs_little_memory() {
    const LEN: usize = 50_000_000;
    let network = Network::build("router");
    sh(
        &network.middle,
        "nft add table ip nat; nft 'add chain ip nat post { type nat hook postrouting priority 100; }'; \
         nft add rule ip nat post oifname w0 masquerade",
    );
    let accelerator = network.accelerate(&["--memory-max", "128 MiB", "--flows-max", "20000"]);
    let group = MemoryGroup::of(&network.name, &accelerator, 512 << 20);
    network.download(LEN);
    let status = ask(&network, "status");
    assert_eq!(status["steering"].as_str(), Some("rules"), "{status}");
    assert_eq!(accelerated(&network), 1);
    let resident = status["resident_bytes"].as_u64().unwrap();
    let ticks = processor_ticks(accelerator.child.id());
    eprintln!("{LEN} bytes: {resident} bytes resident, {ticks} ticks of 10 ms, group {group:?}");
    assert!(resident < 512 << 20, "{resident}");
    accelerator.stop();
    drop(group);
}

/// Time of user and system that a process has taken, in ticks.
fn processor_ticks(process: u32) -> u64 {
    let stat = std::fs::read_to_string(format!("/proc/{process}/stat")).unwrap();
    let fields: Vec<&str> = stat.rsplit(')').next().unwrap().split_whitespace().collect();
    fields[11].parse::<u64>().unwrap() + fields[12].parse::<u64>().unwrap()
}

/// A control group with a bound on memory, where this machine lets one be made (version 1 or 2).
#[derive(Debug)]
struct MemoryGroup(Option<std::path::PathBuf>);

impl MemoryGroup {
    fn of(name: &str, running: &Running, bytes_max: u64) -> Self {
        let places = [("/sys/fs/cgroup/memory", "memory.limit_in_bytes"), ("/sys/fs/cgroup", "memory.max")];
        let made = places.iter().find_map(|(place, limit)| {
            let group = std::path::Path::new(place).join(name);
            std::fs::create_dir(&group).ok()?;
            let set = std::fs::write(group.join(limit), bytes_max.to_string())
                .and_then(|()| std::fs::write(group.join("cgroup.procs"), running.child.id().to_string()));
            if set.is_err() {
                drop(std::fs::remove_dir(&group));
                return None;
            }
            Some(group)
        });
        Self(made)
    }
}

impl Drop for MemoryGroup {
    fn drop(&mut self) {
        if let Some(group) = &self.0 {
            drop(std::fs::remove_dir(group));
        }
    }
}

/// A tunnel's interface has no Ethernet headers. WireGuard, by a program: this needs no kernel that has it.
#[test]
#[ignore = "needs Debian's packages wireguard-tools and wireguard-go: make recipes"]
fn a_wireguard_interface_is_a_mobile_side() {
    let network = Network::build("tunnel");
    let folder = tempfile::tempdir().unwrap();
    let key = |name: &str| {
        let path = folder.path().join(name).display().to_string();
        let public = sh(&network.middle, &format!("umask 077; wg genkey >{path}; wg pubkey <{path}"));
        (path, public.trim().to_owned())
    };
    let ((own, own_public), (peer, peer_public)) = (key("own"), key("peer"));
    let up = |namespace: &Namespace, name: &str, private: &str, rest: &str, address: &str| {
        let mut daemon = Command::new("wireguard-go");
        daemon.args(["--foreground", name]).env("WG_PROCESS_FOREGROUND", "1");
        let options = SpawnOptions { death_signal: Some(9), ..SpawnOptions::default() };
        let child = namespace.spawn(daemon, options).unwrap();
        wait_until("the tunnel's interface is there", || {
            namespace.netlink().unwrap().index_of(name).is_ok()
                && std::path::Path::new(&format!("/var/run/wireguard/{name}.sock")).exists()
        });
        sh(
            namespace,
            &format!(
                "wg set {name} private-key {private} {rest}; ip address add {address} dev {name}; \
                 ip link set {name} mtu 1420 up; wg show {name} >/dev/null"
            ),
        );
        child
    };
    let mut gateway = up(
        &network.middle,
        "wgb0",
        &own,
        &format!("listen-port 51820 peer {peer_public} allowed-ips 10.9.0.2/32"),
        "10.9.0.1/24",
    );
    let mut phone = up(
        &network.client,
        "wgc0",
        &peer,
        &format!("peer {own_public} endpoint 10.1.0.1:51820 allowed-ips 0.0.0.0/0"),
        "10.9.0.2/24",
    );
    sh(&network.client, "ip route replace 10.2.0.0/24 dev wgc0");
    let fixed = ["run", "--wired", "w0", "--mobile", "wgb0", "--name", &network.name];
    let running = Running::start(&network.middle, &fixed);
    running.wait_for("ready:");
    let (client, _) = network.download(5_000_000);
    assert_eq!(client.ip().to_string(), "10.9.0.2");
    assert_eq!(accelerated(&network), 1);
    running.stop();
    for daemon in [&mut gateway, &mut phone] {
        daemon.kill().unwrap();
        daemon.wait().unwrap();
    }
    std::fs::remove_dir_all(&folder).unwrap();
}
