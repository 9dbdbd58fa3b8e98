//! Uploads, small exchanges and the server's acknowledgements while there is debt.

use std::io::{Read, Write};
use std::net::{Shutdown, TcpStream};

use scenario::Family;
use units::{Duration, Rate};

use crate::kernel::content::{Content, Print, read_to_end};
use crate::kernel::testbed::{FAMILIES, Radio, Testbed, burst_loss};

const ROUNDS: u32 = 1_000;

/// Slow down, so that there is debt all the time, with losses.
fn slow() -> Radio {
    Radio { loss_down: burst_loss(1_000), ..Radio::steady(Rate::from_mbps(12)) }
}

/// Sends one content each way at once, ends both, and gives what arrived: at the client, at the server.
fn both_ways(client: &TcpStream, server: &TcpStream, down: Content, up: Content) -> [Print; 2] {
    let send = |mut stream: &TcpStream, content: Content| {
        content.write_to(&mut stream).unwrap();
        stream.shutdown(Shutdown::Write).unwrap();
    };
    std::thread::scope(|scope| {
        scope.spawn(|| send(server, down));
        scope.spawn(|| send(client, up));
        let at_server = scope.spawn(|| read_to_end(&mut &*server).unwrap());
        [read_to_end(&mut &*client).unwrap(), at_server.join().unwrap()]
    })
}

#[test]
fn both_directions_at_once_arrive_intact() {
    for policy in ["honour", "opportunistic"] {
        let options = ["--window-policy", policy];
        let mut bed = Testbed::accelerated("duplex", &slow(), &options);
        for family in FAMILIES {
            let (client, server) = bed.pair(family);
            let (down, up) = (Content { seed: 10, len: 2_000_000 }, Content { seed: 11, len: 1_900_000 });
            assert_eq!(both_ways(&client, &server, down, up), [down.print(), up.print()]);
        }
        let said = bed.stop();
        assert_eq!(said.accelerated_flows(), 2);
        said.assert_no_warning();
    }
}

#[test]
fn an_upload_alone_arrives_intact_and_is_answered() {
    let mut bed = Testbed::accelerated("upload", &slow(), &[]);
    for family in FAMILIES {
        let (client, server) = bed.pair(family);
        let (down, up) = (Content { seed: 12, len: 70 }, Content { seed: 13, len: 3_000_000 });
        assert_eq!(both_ways(&client, &server, down, up), [down.print(), up.print()]);
    }
    let said = bed.stop();
    assert_eq!(said.accelerated_flows(), 2);
    said.assert_no_warning();
}

/// Requests and answers of a few bytes, each waiting for the one before.
fn play(mut client: TcpStream, mut server: TcpStream) {
    client.set_nodelay(true).unwrap();
    server.set_nodelay(true).unwrap();
    std::thread::scope(|scope| {
        scope.spawn(|| {
            let mut number = [0; 4];
            for round in 0..ROUNDS {
                server.read_exact(&mut number).unwrap();
                assert_eq!(u32::from_be_bytes(number), round);
                server.write_all(&(!round).to_be_bytes()).unwrap();
            }
        });
        let mut number = [0; 4];
        for round in 0..ROUNDS {
            client.write_all(&round.to_be_bytes()).unwrap();
            client.read_exact(&mut number).unwrap();
            assert_eq!(u32::from_be_bytes(number), !round);
        }
    });
}

#[test]
fn a_thousand_exchanges_work_beside_a_download() {
    let short = Duration::from_millis(1);
    let radio = Radio { delay: short, wan_delay: short, ..slow() };
    let mut bed = Testbed::accelerated("ping", &radio, &[]);
    let (bulk_client, bulk_server) = bed.pair(Family::Ipv4);
    let (client, server) = bed.pair(Family::Ipv4);
    let (down, up) = (Content { seed: 14, len: 4_000_000 }, Content { seed: 15, len: 1 });
    std::thread::scope(|scope| {
        scope.spawn(|| play(client, server));
        assert_eq!(both_ways(&bulk_client, &bulk_server, down, up), [down.print(), up.print()]);
    });
    let said = bed.stop();
    assert_eq!(said.accelerated_flows(), 2);
    said.assert_no_warning();
}
