//! `run --replace` while a download is under way over a long wired segment.

use std::io::Write;

use lab::Role;
use units::{Bytes, Duration, Rate};

use crate::kernel::content::{Content, read_exactly};
use crate::kernel::counters::{assert_healthy, counter};
use crate::kernel::server::{Server, request};
use crate::kernel::testbed::{FAMILIES, Radio, Testbed, pause};

const UPGRADES: u32 = 3;

/// Its loss probe waits for two round trips, 100 ms: an upgrade is over before that.
#[test]
fn h34_with_50_ms_to_the_server_its_kernel_sends_nothing_again_through_upgrades() {
    let radio = Radio {
        wan_delay: Duration::from_millis(25),
        queue: Bytes::new(8_000_000),
        ..Radio::steady(Rate::from_mbps(20))
    };
    let mut bed = Testbed::accelerated("upgrade", &radio, &["--name", "number-0"]);
    let server = Server::start(&bed, FAMILIES[0]);
    let mut stream = bed.connect(server.address);
    // More than the link carries in the time of the upgrades.
    let content = Content { seed: 50, len: 20_000_000 };
    stream.write_all(request(content, true).as_bytes()).unwrap();
    std::thread::scope(|scope| {
        let reading = scope.spawn(|| read_exactly(&mut stream, content.len).unwrap());
        pause(Duration::from_secs(2));
        let before = counter(&bed, Role::Server, "Tcp.RetransSegs");
        for number in 1..=UPGRADES {
            let old = bed.accelerator.take().unwrap();
            let names = [format!("number-{number}"), format!("number-{}", number - 1)];
            bed.accelerate(&["--name", &names[0], "--replace", &names[1]]);
            let said = old.wait();
            assert!(said.status.success(), "{said:?}");
            assert!(said.lines.iter().any(|line| line.starts_with("handed over 1 flows")), "{said:?}");
            pause(Duration::from_millis(300));
        }
        assert!(!reading.is_finished(), "the download was over before the upgrades were");
        assert_eq!(counter(&bed, Role::Server, "Tcp.RetransSegs"), before, "since the first upgrade");
        assert_eq!(reading.join().unwrap(), content.print());
    });
    assert_healthy(&bed);
    let said = bed.stop();
    said.assert_no_warning();
    assert_eq!(said.accelerated_flows(), 1, "{said:?}");
}
