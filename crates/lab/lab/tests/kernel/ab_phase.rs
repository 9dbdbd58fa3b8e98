//! An A/B phase: the control group's packets pass bit for bit, the others are accelerated, and both are measured.

use std::io::Write;
use std::net::Shutdown;

use scenario::Family;
use serde_json::Value;
use units::{Duration, Rate};
use wire::IpVersion;

use crate::kernel::capture::Capture;
use crate::kernel::content::{Content, read_to_end};
use crate::kernel::handshake::{after_one_hop, without_ip_checksum};
use crate::kernel::operation::cellerator;
use crate::kernel::testbed::{FAMILIES, Radio, Testbed, wait_until};

/// With it the client's IPv4 address is in the control group, and its IPv6 prefix is not.
const SEED: &str = "2";

const CONTENT: Content = Content { seed: 22, len: 1_000_000 };

fn ab(bed: &Testbed, arguments: &[&str]) -> Result<Value, String> {
    let name = bed.accelerator.as_ref().unwrap().process().to_string();
    let output = cellerator(bed, &[&["ab"], arguments, &["--json", &name]].concat());
    if !output.status.success() {
        return Err(String::from_utf8(output.stderr).unwrap());
    }
    Ok(serde_json::from_slice(&output.stdout).unwrap())
}

fn download(bed: &Testbed, family: Family) {
    let (mut client, mut server) = bed.pair(family);
    std::thread::scope(|scope| {
        scope.spawn(move || {
            CONTENT.write_to(&mut server).unwrap();
            server.shutdown(Shutdown::Write).unwrap();
            assert_eq!(read_to_end(&mut server).unwrap().len, 0);
        });
        assert_eq!(read_to_end(&mut client).unwrap(), CONTENT.print());
        client.shutdown(Shutdown::Write).unwrap();
    });
}

/// What was measured of a group's downlink: flows, bytes.
fn measured(report: &Value, group: &str) -> (u64, u64) {
    let group = &report[group][0];
    (group["flows"].as_u64().unwrap(), group["delivered_bytes"].as_u64().unwrap())
}

#[test]
fn the_control_group_passes_bit_for_bit_and_both_groups_are_measured() {
    let radio = Radio { delay: Duration::from_millis(20), ..Radio::steady(Rate::from_mbps(20)) };
    // Without super-packets: each packet that comes in is one that goes out.
    let mut bed = Testbed::accelerated("ab", &radio, &["--no-gso"]);
    let refused = ab(&bed, &["status"]).unwrap_err();
    assert!(refused.contains("no A/B phase"), "{refused}");
    let begun = ab(&bed, &["start", "--for", "10 min", "--seed", SEED]).unwrap();
    assert_eq!((&begun["is_running"], &begun["planned_ms"]), (&true.into(), &600_000.into()), "{begun}");
    let refused = ab(&bed, &["start", "--for", "1 min"]).unwrap_err();
    assert!(refused.contains("under way"), "{refused}");
    let capture = Capture::start(&bed);
    download(&bed, Family::Ipv4);
    // When this one has ended, the last packet of the first one has long gone out.
    download(&bed, Family::Ipv6);
    let captured = capture.finish();
    for downward in [true, false] {
        let way = |is_outgoing: bool| {
            let captured = captured.iter().filter(|p| p.packet.ip.version == IpVersion::V4);
            captured.filter(move |p| p.is_downward() == downward && p.is_outgoing == is_outgoing)
        };
        let came: Vec<Vec<u8>> = way(false).map(after_one_hop).collect();
        let went: Vec<Vec<u8>> = way(true).map(|packet| without_ip_checksum(&packet.bytes)).collect();
        assert!(came.len() > 100, "{}", came.len());
        let first = came.iter().zip(&went).position(|(came, went)| came != went);
        assert_eq!((first, came.len()), (None, went.len()), "what went out is what came in, in its order");
    }
    // Under way at the end of the phase.
    let (mut client, mut server) = bed.pair(Family::Ipv4);
    client.write_all(b"word").unwrap();
    let wanted = |report: &Value| [measured(report, "control").0, measured(report, "accelerated").0];
    wait_until("both downloads have ended", || wanted(&ab(&bed, &["status"]).unwrap()) == [1, 1]);
    let report = ab(&bed, &["stop"]).unwrap();
    assert_eq!((&report["is_running"], &report["ended_by"]), (&false.into(), &"request".into()));
    assert_eq!(wanted(&report), [2, 1], "{report}");
    for group in ["control", "accelerated"] {
        let bytes = measured(&report, group).1;
        assert!((CONTENT.len..CONTENT.len + 10).contains(&bytes), "{report}");
    }
    for metric in report["metrics"].as_array().unwrap() {
        let [control, accelerated] = ["control", "accelerated"].map(|group| metric[group]["value"].as_f64());
        let (control, accelerated) = (control.unwrap(), accelerated.unwrap());
        // More than the link carries, or less than the path takes, would be no measurement.
        let is_sound = |value: f64| match metric["name"].as_str().unwrap() {
            "goodput" => value > 1e5 && value < 20e6,
            "rtt" => value > 20.0 && value < 10_000.0,
            "resent" => (0.0..100.0).contains(&value),
            _ => value >= 0.0,
        };
        assert!(is_sound(control) && is_sound(accelerated), "{metric}");
    }
    // The one that was passed goes on, and new ones of everybody are accelerated.
    server.write_all(b"word").unwrap();
    drop((client, server));
    FAMILIES.into_iter().for_each(|family| download(&bed, family));
    assert_eq!(ab(&bed, &["status"]).unwrap()["metrics"], report["metrics"], "nothing is measured any more");
    // One ends on time.
    ab(&bed, &["start", "--for", "1 s", "--seed", SEED]).unwrap();
    wait_until("it has ended", || ab(&bed, &["status"]).unwrap()["ended_by"] == "time");
    let said = bed.stop();
    assert_eq!(said.accelerated_flows(), 3);
    said.assert_no_warning();
}
