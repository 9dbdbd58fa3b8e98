//! `drwa`: flows stay end to end between two kernels, and the server keeps a deep radio queue short.

use std::io::{Read, Write};
use std::net::{Shutdown, TcpStream};

use io::Clock;
use scenario::{CongestionControl, Family, Server};
use units::{Bytes, Duration, Rate};

use crate::kernel::content::{Content, Print, read_to_end};
use crate::kernel::counters::assert_healthy;
use crate::kernel::testbed::{FAMILIES, Radio, Testbed, as_machine_of_its_own, pause};

/// 20 Mbit/s, 8 ms there and back, and room for 1.6 s of data.
fn deep() -> Radio {
    Radio {
        delay: Duration::from_millis(2),
        wan_delay: Duration::from_millis(2),
        queue: Bytes::new(4_000_000),
        ..Radio::steady(Rate::from_mbps(20))
    }
}

const CONTENT: Content = Content { seed: 71, len: 12_000_000 };

struct Download {
    print: Print,
    took: Duration,
    /// The middle one of the round trips of a byte on another connection, while the queue stood.
    ping: Duration,
}

fn ping(client: &mut TcpStream) -> Duration {
    let sent = Clock::now();
    client.write_all(&[1]).unwrap();
    client.read_exact(&mut [0]).unwrap();
    Clock::now().saturating_since(sent)
}

/// A download, and pings beside it towards its end.
fn download(bed: &Testbed, family: Family) -> Download {
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
            pause(Duration::from_millis(3_500));
            let mut times: Vec<Duration> = (0..5).map(|_| ping(&mut asks)).collect();
            asks.shutdown(Shutdown::Write).unwrap();
            times.sort_unstable();
            times[2]
        });
        let read = scope.spawn(move || {
            as_machine_of_its_own();
            let begun = Clock::now();
            let print = read_to_end(&mut client).unwrap();
            let took = Clock::now().saturating_since(begun);
            client.shutdown(Shutdown::Write).unwrap();
            (print, took)
        });
        let (print, took) = read.join().unwrap();
        Download { print, took, ping: pings.join().unwrap() }
    })
}

#[test]
fn an_unmodified_cubic_server_keeps_the_queue_short() {
    let cubic = Server { congestion_control: CongestionControl::named("cubic"), ..Server::default() };
    let mut bed = Testbed::build_with("drwa", &deep(), &cubic);
    let direct = download(&bed, Family::Ipv4);
    assert_eq!(direct.print, CONTENT.print());
    bed.accelerate(&["--direction", "drwa"]);
    bed.accelerator.as_ref().unwrap().be_machine_of_its_own();
    for family in FAMILIES {
        let lowered = download(&bed, family);
        println!(
            "{family:?}: {} and ping {} with lowered windows, {} and {} without",
            lowered.took, lowered.ping, direct.took, direct.ping
        );
        assert_eq!(lowered.print, CONTENT.print());
        assert!(lowered.ping < direct.ping / 2, "{} after {}", lowered.ping, direct.ping);
        assert!(lowered.took < direct.took.mul_ratio(3, 2), "{} after {}", lowered.took, direct.took);
    }
    assert_healthy(&bed);
    let said = bed.stop();
    assert_eq!((said.accelerated_flows(), said.windowed_flows()), (0, 4));
    said.assert_no_warning();
}

#[test]
fn a_rule_chooses_which_flows_keep_their_ends() {
    let mut bed = Testbed::accelerated("drwa-rule", &deep(), &["--rule", "drwa server ::/0"]);
    for family in FAMILIES {
        assert_eq!(download(&bed, family).print, CONTENT.print());
    }
    let said = bed.stop();
    assert_eq!((said.accelerated_flows(), said.windowed_flows()), (2, 2));
    said.assert_no_warning();
}
