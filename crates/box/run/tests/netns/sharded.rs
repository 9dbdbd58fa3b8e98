//! Several shards: subscribers spread over threads, and everything that is summed or told to all of them.

use io::PidFd;
use io::netlink::Cidr;
use run::{Answer, Config, Question, SteeringChoice};

use crate::accelerated::verdict;
use crate::crash::{assert_reset, fill};
use crate::successor::{Late, signal, successor};
use crate::topology::{Connection, Program, SERVER, SIGKILL, SIGTERM, Topology, wait_until};

const CLIENTS: usize = 12;

/// Client addresses: several hosts, and several IPv6 prefixes.
fn clients() -> Vec<String> {
    let v4 = (0..CLIENTS / 2).map(|n| format!("10.1.0.{}", 10 + n));
    let v6 = (0..CLIENTS / 2).map(|n| format!("fd01:0:0:{}::7", 10 + n));
    v4.chain(v6).collect()
}

fn build(what: &str) -> (Topology, Config) {
    let topology = Topology::build(what);
    let (client, middle) = (topology.client.netlink().unwrap(), topology.netlink());
    let (c0, m0) = (client.index_of("c0").unwrap(), middle.index_of("m0").unwrap());
    for address in clients() {
        let is_v6 = address.contains(':');
        let length = if is_v6 { 64 } else { 24 };
        client.add_address(c0, format!("{address}/{length}").parse::<Cidr>().unwrap()).unwrap();
        if is_v6 {
            let router = address.replace("::7", "::1");
            middle.add_address(m0, format!("{router}/64").parse::<Cidr>().unwrap()).unwrap();
        }
    }
    let config = Config { shards: 2, ..topology.config() };
    (topology, config)
}

fn connect(topology: &Topology, client: &str) -> Connection {
    let server = SERVER[usize::from(client.contains(':'))];
    topology.connect_from(client, &topology.server, server)
}

#[test]
fn downloads_of_several_clients_are_intact_and_spread() {
    let (topology, config) = build("shards");
    let program = Program::start_engine(&topology, &config);
    std::thread::scope(|scope| {
        for client in clients() {
            let connection = connect(&topology, &client);
            scope.spawn(move || connection.download(4_000_000));
        }
    });
    // The last acknowledgements are on their way when a client has read everything.
    let delivered = || topology.status().processor.counter("bytes_delivered");
    wait_until("all is acknowledged", || delivered() == 4_000_000 * CLIENTS as u64);
    let status = topology.status();
    assert_eq!(status.processor.counter("flows_accelerated"), CLIENTS as u64, "{status:?}");
    assert_eq!(status.processor.counter("unknown_flow"), 0, "both directions meet in one shard: {status:?}");
    assert_eq!(status.shards.len(), 2);
    assert!(status.shards.iter().all(|shard| shard.received_packets > 100), "{:?}", status.shards);
    let received: u64 = status.shards.iter().map(|shard| shard.received_packets).sum();
    assert_eq!(received, status.sides.iter().map(|side| side.received_packets).sum::<u64>());
    let said = program.stop(&topology);
    assert_eq!(verdict(&said), (CLIENTS as u64, 0), "{said}");
}

#[test]
fn flows_of_all_shards_are_listed_once() {
    let (topology, config) = build("shflows");
    let program = Program::start_engine(&topology, &config);
    let mut connections: Vec<Connection> =
        clients().iter().map(|client| connect(&topology, client)).collect();
    connections.iter_mut().for_each(|connection| connection.exchange(b"opening."));
    let found = run::choose(run::find(&topology.state).unwrap(), None).unwrap();
    let ask = |skip: usize| match found.ask(&Question::Flows { skip }).unwrap() {
        Answer::Flows(list) => {
            list.flows.iter().map(|flow| flow.client.ip().to_string()).collect::<Vec<String>>()
        }
        other => panic!("{other:?}"),
    };
    let mut all = ask(0);
    for skip in [1, 5, 11, 12] {
        assert_eq!(ask(skip), all[skip..], "from the {skip}th on");
    }
    all.sort();
    let mut wanted = clients();
    wanted.sort();
    assert_eq!(all, wanted);
    program.stop(&topology);
    connections.iter_mut().for_each(|connection| connection.exchange(b"plain---"));
}

#[test]
fn asked_to_stop_all_shards_deliver_what_they_owe() {
    let (topology, config) = build("shdrain");
    let program = Program::start_engine(&topology, &config);
    let connections: Vec<Connection> = clients().iter().map(|client| connect(&topology, client)).collect();
    let process = PidFd::open(program.pid()).unwrap();
    std::thread::scope(|scope| {
        for connection in connections {
            scope.spawn(move || connection.download(20_000_000));
        }
        wait_until("the downloads are under way", || topology.steered_packets() > 300);
        process.send_signal(SIGTERM).unwrap();
    });
    let (status, said) = program.wait();
    assert!(status.success(), "{said}");
    assert_eq!(verdict(&said), (CLIENTS as u64, 0), "{said}");
    assert_eq!(topology.leftovers(), [""; 0]);
}

#[test]
fn h02_after_a_crash_the_debts_of_all_shards_are_known() {
    let (topology, config) = build("shcrash");
    let program = Program::start_engine(&topology, &config);
    let clients = clients();
    let mut idle: Vec<Connection> = clients.iter().map(|client| connect(&topology, client)).collect();
    idle.iter_mut().for_each(|connection| connection.exchange(b"opening."));
    let owed: Vec<Connection> = clients
        .iter()
        .map(|client| {
            let mut connection = connect(&topology, client);
            connection.exchange(b"opening.");
            fill(&mut connection.server);
            connection
        })
        .collect();
    assert!(topology.status().shards.iter().all(|shard| shard.flows_now >= 2), "both owe something");
    program.signal(SIGKILL);
    let (_, said) = program.wait();
    owed.into_iter().for_each(assert_reset);
    assert!(said.contains(&format!("owed {CLIENTS} flows")), "{said}");
    idle.iter_mut().for_each(|connection| connection.exchange(b"survived"));
    wait_until("the watchdog has undone everything", || topology.leftovers().is_empty());
}

/// Their descriptors do not fit into one message to the watchdog.
#[test]
fn h02_another_process_goes_on_with_more_shards_than_a_message_has_room_for() {
    let (topology, mut config) = build("manyshards");
    config.shards = 60;
    config.watchdog.successor = vec!["self".to_owned()];
    config.watchdog.recover_within_ms = 10_000;
    let mut program = Program::start_ready(&topology, &config);
    let recovery = topology.status().recovery;
    assert!(recovery.is_ready, "{recovery:?}");
    let mut connections: Vec<_> = clients().iter().map(|client| connect(&topology, client)).collect();
    connections.iter_mut().for_each(|connection| connection.exchange(b"opening."));
    let Connection { client, server, .. } = connect(&topology, &clients()[0]);
    let late = Late::start(client, server, 5_000_000);
    wait_until("it owes more than it can deliver", || topology.status().processor.debt_bytes > 500_000);
    program.signal(SIGKILL);
    let last = successor(&mut program);
    connections.iter_mut().for_each(|connection| connection.exchange(b"survived"));
    late.finish();
    signal(last, SIGTERM);
    let (_, said) = program.wait();
    assert!(!said.contains("flows reset") && !said.contains("resetting"), "{said}");
    wait_until("all is undone", || topology.leftovers().is_empty());
}

#[test]
fn an_upload_reaches_the_server_through_each_shard() {
    let (topology, config) = build("shup");
    let mut program = Program::launch_with(&topology, &config, &["--both-ways", "--engine"]);
    program.await_line("steering TCP between");
    for client in clients() {
        let Connection { client, server, peer } = connect(&topology, &client);
        // The other way round it is a download.
        Connection { client: server, server: client, peer }.download(1_000_000);
    }
    let status = topology.status();
    assert_eq!(status.processor.counter("uplink_flows_accelerated"), CLIENTS as u64);
    program.stop(&topology);
}

#[test]
fn one_takes_the_place_of_another_with_other_shards() {
    let (topology, config) = build("shreplace");
    let old = Program::start_engine(&topology, &Config { name: "old".to_owned(), ..config.clone() });
    let mut connections: Vec<Connection> =
        clients().iter().map(|client| connect(&topology, client)).collect();
    connections.iter_mut().for_each(|connection| connection.exchange(b"opening."));
    let config = Config { name: "new".to_owned(), replace: Some("old".to_owned()), shards: 3, ..config };
    let mut new = Program::start_engine(&topology, &config);
    new.await_line("the replaced one has ended");
    let (status, said) = old.wait();
    assert!(status.success(), "{said}");
    for mut connection in connections {
        connection.exchange(b"survived");
        connection.download(100_000);
    }
    assert_eq!(topology.status().shards.len(), 3);
    let said = new.stop(&topology);
    assert!(said.contains("it has 2 shards, the new one 3"), "{said}");
}

#[test]
fn every_shard_hands_its_flows_over() {
    let (topology, config) = build("shupgrade");
    let old = Program::start_engine(&topology, &Config { name: "old".to_owned(), ..config.clone() });
    let mut connections: Vec<Connection> =
        clients().iter().map(|client| connect(&topology, client)).collect();
    connections.iter_mut().for_each(|connection| connection.exchange(b"opening."));
    let config = Config { name: "new".to_owned(), replace: Some("old".to_owned()), ..config };
    let mut new = Program::start_engine(&topology, &config);
    new.await_line("the replaced one has ended");
    let (status, said) = old.wait();
    assert!(status.success() && said.contains(&format!("handed over {CLIENTS} flows")), "{said}");
    let shards = topology.status().shards;
    assert!(shards.len() == 2 && shards.iter().all(|shard| shard.flows_now > 0), "{shards:?}");
    for mut connection in connections {
        connection.exchange(b"survived");
        connection.download(100_000);
    }
    let said = new.stop(&topology);
    assert_eq!(crate::accelerated::verdict(&said), (CLIENTS as u64, 0), "{said}");
}

/// The first client whose packets go to each shard, in their order.
fn client_of_each_shard(topology: &Topology, connections: &mut [Connection]) -> [usize; 2] {
    let mut found = [None; 2];
    for (n, connection) in connections.iter_mut().enumerate() {
        let received = || {
            let shards = topology.status().shards;
            shards.iter().map(|shard| shard.received_packets).collect::<Vec<u64>>()
        };
        let before = received();
        // More than what may still come for others.
        (0..20).for_each(|_| connection.exchange(b"where..."));
        let after = received();
        let shard = usize::from(after[1] - before[1] > after[0] - before[0]);
        found[shard].get_or_insert(n);
    }
    found.map(|n| n.expect("the clients are in both shards"))
}

/// Hangs each shard in turn, whose flows and the others' must go on.
fn hang_each_shard(what: &str, steering: SteeringChoice) {
    let (topology, config) = build(what);
    let config = Config { steering, ..config };
    let release = topology.state.join("release");
    let arguments = ["--hang-until", release.to_str().unwrap(), "--engine"];
    let mut program = Program::launch_with(&topology, &config, &arguments);
    program.await_line("steering TCP between");
    let mut connections: Vec<Connection> =
        clients().iter().map(|client| connect(&topology, client)).collect();
    for hung in client_of_each_shard(&topology, &mut connections) {
        // Its packet is lost with the shard; sent again it takes the kernel's way.
        connect(&topology, &clients()[hung]).exchange(b"hang-now");
        connections.iter_mut().for_each(|connection| connection.exchange(b"through."));
        connect(&topology, &clients()[hung]).download(1_000_000);
        program.await_line("no sign of life");
        std::fs::write(&release, []).unwrap();
        program.await_line("installed again");
        for client in clients() {
            connect(&topology, &client).download(100_000);
        }
        connections.iter_mut().for_each(|connection| connection.exchange(b"resumed."));
        std::fs::remove_file(&release).unwrap();
    }
    program.stop(&topology);
}

#[test]
fn h37_flows_of_a_hung_shard_are_left_to_the_kernel_by_programs() {
    hang_each_shard("shhangtcx", SteeringChoice::Tcx);
}

#[test]
fn h37_flows_of_a_hung_shard_are_left_to_the_kernel_without_rules() {
    hang_each_shard("shhangrule", SteeringChoice::Rules);
}

#[test]
fn h37_a_hung_shard_does_not_keep_the_others_from_ending() {
    let (topology, config) = build("shhangend");
    let release = topology.state.join("never");
    let arguments = ["--hang-until", release.to_str().unwrap(), "--engine"];
    let mut program = Program::launch_with(&topology, &Config { drain_ms_max: 100, ..config }, &arguments);
    program.await_line("steering TCP between");
    let mut connections: Vec<Connection> =
        clients().iter().map(|client| connect(&topology, client)).collect();
    let [_, of_another_thread] = client_of_each_shard(&topology, &mut connections);
    connect(&topology, &clients()[of_another_thread]).exchange(b"hang-now");
    let said = program.stop(&topology);
    assert!(said.contains("warning: cannot end a shard: it hangs"), "{said}");
    connections.iter_mut().for_each(|connection| connection.exchange(b"plain---"));
}
