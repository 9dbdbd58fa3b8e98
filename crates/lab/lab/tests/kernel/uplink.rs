//! Uplink acceleration: the client's data is acknowledged by the accelerator and delivered by it.

use std::net::{Shutdown, TcpStream};

use io::Clock;
use link::LossModel;
use scenario::Family;
use units::{Duration, Rate};

use crate::kernel::content::{Content, Print, read_to_end};
use crate::kernel::counters::assert_healthy;
use crate::kernel::testbed::{FAMILIES, Radio, Testbed, burst_loss, pause};

/// A radio link with losses both ways, and servers far behind it.
fn far_and_lossy() -> Radio {
    Radio {
        loss_down: burst_loss(1_000),
        loss_up: LossModel::Bernoulli { ppm: 3_000 },
        wan_delay: Duration::from_millis(40),
        ..Radio::steady(Rate::from_mbps(20))
    }
}

fn upload(mut client: TcpStream, mut server: TcpStream, content: Content) -> Print {
    std::thread::scope(|scope| {
        scope.spawn(move || {
            content.write_to(&mut client).unwrap();
            client.shutdown(Shutdown::Write).unwrap();
            assert_eq!(
                read_to_end(&mut client).unwrap().len,
                0,
                "the server says nothing and ends in good order"
            );
        });
        let print = read_to_end(&mut server).unwrap();
        server.shutdown(Shutdown::Write).unwrap();
        print
    })
}

#[test]
fn uploads_arrive_intact_and_each_kernel_repairs_its_own_segment() {
    let content = Content { seed: 70, len: 6_000_000 };
    for direction in ["uplink", "both"] {
        let mut bed = Testbed::build("uplink", &far_and_lossy());
        let (client, server) = bed.pair(Family::Ipv4);
        let begun = Clock::now();
        assert_eq!(upload(client, server, content), content.print());
        let direct = Clock::now().saturating_since(begun);
        bed.accelerate(&["--direction", direction]);
        for family in FAMILIES {
            let (client, server) = bed.pair(family);
            let begun = Clock::now();
            assert_eq!(upload(client, server, content), content.print());
            println!(
                "{direction} {family:?}: {} after {direct} direct",
                Clock::now().saturating_since(begun)
            );
        }
        assert_healthy(&bed);
        let said = bed.stop();
        assert_eq!(said.accelerated_uplinks(), 2);
        said.assert_no_warning();
    }
}

#[test]
fn both_directions_of_a_flow_are_accelerated_at_once() {
    let mut bed = Testbed::accelerated("uplink-both", &far_and_lossy(), &["--direction", "both"]);
    for family in FAMILIES {
        let (client, server) = bed.pair(family);
        let (down, up) = (Content { seed: 71, len: 3_000_000 }, Content { seed: 72, len: 2_500_000 });
        let send = |mut stream: &TcpStream, content: Content| {
            content.write_to(&mut stream).unwrap();
            stream.shutdown(Shutdown::Write).unwrap();
        };
        std::thread::scope(|scope| {
            scope.spawn(|| send(&server, down));
            scope.spawn(|| send(&client, up));
            let at_server = scope.spawn(|| read_to_end(&mut &server).unwrap());
            assert_eq!(read_to_end(&mut &client).unwrap(), down.print());
            assert_eq!(at_server.join().unwrap(), up.print());
        });
    }
    assert_healthy(&bed);
    let said = bed.stop();
    assert_eq!((said.accelerated_flows(), said.accelerated_uplinks()), (2, 2));
    said.assert_no_warning();
}

#[test]
fn h02_a_stop_during_uploads_loses_nothing() {
    let mut bed = Testbed::accelerated("uplink-stop", &far_and_lossy(), &["--direction", "both"]);
    let content = Content { seed: 73, len: 8_000_000 };
    let pairs: Vec<_> = (0..4).map(|i| bed.pair(FAMILIES[i % 2])).collect();
    std::thread::scope(|scope| {
        let uploads: Vec<_> = pairs
            .into_iter()
            .map(|(client, server)| scope.spawn(move || upload(client, server, content)))
            .collect();
        pause(Duration::from_millis(1_500));
        let said = bed.stop();
        assert_eq!(said.passed_flows("draining"), 4, "{:#?}", said.lines);
        said.assert_no_warning();
        for upload in uploads {
            assert_eq!(upload.join().unwrap(), content.print());
        }
    });
    assert_healthy(&bed);
}
