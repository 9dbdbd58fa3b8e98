//! H18: clients that cannot hold what is sent beyond their window.

use std::io::Write;
use std::net::TcpStream;

use lab::Role;
use link::Harq;
use scenario::Family;
use socket2::SockAddr;
use units::{Duration, Rate};

use crate::kernel::content::{Content, Reading, read_exactly};
use crate::kernel::counters::counters;
use crate::kernel::server::{Server, request};
use crate::kernel::testbed::{PATIENCE, Radio, Testbed, patient, pause};

const READERS: u64 = 30;
const CONTENT: u64 = 600_000;

/// Reads 8 KB every few milliseconds into a buffer of 16 KB.
fn read_slowly(stream: &mut TcpStream, content: Content) {
    use std::io::Read;
    stream.write_all(request(content, true).as_bytes()).unwrap();
    let mut reading = Reading::default();
    let (mut chunk, mut left) = (vec![0; 8_192], content.len);
    while left > 0 {
        let len = stream.read(&mut chunk).unwrap();
        assert!(len > 0, "it ended early");
        reading.add(&chunk[..len]);
        left -= len as u64;
        pause(Duration::from_millis(3));
    }
    assert_eq!(reading.print(), content.print());
}

#[test]
fn h18_a_client_that_discards_what_lies_beyond_its_window_has_its_window_honoured() {
    let options = ["--window-policy", "opportunistic"];
    let mut bed = Testbed::accelerated("slow-readers", &Radio::steady(Rate::from_mbps(100)), &options);
    let server = Server::start(&bed, Family::Ipv4);
    let mut streams: Vec<_> = (0..READERS)
        .map(|_| {
            let socket = bed.socket(Role::Client, &server.address, None);
            socket.set_recv_buffer_size(16_384).unwrap();
            socket.connect_timeout(&SockAddr::from(server.address), PATIENCE).unwrap();
            patient(TcpStream::from(socket))
        })
        .collect();
    std::thread::scope(|scope| {
        for (seed, stream) in (0..).zip(&mut streams) {
            scope.spawn(move || read_slowly(stream, Content { seed, len: CONTENT }));
        }
    });
    drop(streams);
    let said = bed.stop();
    let line = said.lines.iter().find(|line| line.starts_with("accelerated:")).unwrap();
    println!("{line}");
    let again = said.sent_again().get();
    let delivered = READERS * CONTENT;
    assert!(again < delivered / 2, "{again} bytes sent again for {delivered}: {line}");
    assert!(
        said.lines.iter().any(|line| line.contains("discarded what lay beyond their window")),
        "{:#?}",
        said.lines
    );
}

#[test]
fn h18_a_client_that_gets_more_than_its_window_at_once_gets_all_of_its_content() {
    // What is held back behind a repair arrives all at once: more than the window, before any
    // program is awake to read.
    let radio = Radio { repairs: Some(Harq::default()), ..Radio::steady(Rate::from_mbps(80)) };
    let options = ["--window-policy", "opportunistic"];
    let mut bed = Testbed::accelerated("bursts", &radio, &options);
    let server = Server::start(&bed, Family::Ipv4);
    let socket = bed.socket(Role::Client, &server.address, None);
    socket.set_recv_buffer_size(15_200).unwrap();
    socket.connect_timeout(&SockAddr::from(server.address), PATIENCE).unwrap();
    let content = Content { seed: 1, len: 3_000_000 };
    let mut stream = patient(TcpStream::from(socket));
    stream.write_all(request(content, true).as_bytes()).unwrap();
    assert_eq!(read_exactly(&mut stream, content.len).unwrap(), content.print());
    drop(stream);
    let counted = counters(&bed, Role::Client).get("TcpExt.BeyondWindow").copied();
    let again = bed.stop().sent_again().get();
    println!("{counted:?} segments beyond the window, {again} bytes sent again");
    // Linux counts them from 6.17 on.
    assert!(counted.is_none_or(|segments| segments > 0), "nothing was beyond the window");
    // How much it discards depends on when the machine wakes its program. What bounds it anywhere is the
    // rule by which the sender honours the window again: twice of what is delivered.
    assert!(again < 2 * content.len, "{again} bytes sent again");
}
