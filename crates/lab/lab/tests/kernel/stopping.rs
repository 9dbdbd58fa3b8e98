//! Killed or stopped, it leaves connections whole and nothing else.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpStream;

use lab::Role;
use units::Rate;

use crate::kernel::content::{Content, read_exactly, read_to_end};
use crate::kernel::counters::counter;
use crate::kernel::server::{Server, request};
use crate::kernel::testbed::{FAMILIES, Radio, SIGKILL, SIGTERM, Testbed, wait_until};

/// One request and its answer on a connection that stays.
fn ask(stream: &mut TcpStream, seed: u64) {
    let content = Content { seed, len: 40_000 };
    stream.write_all(request(content, true).as_bytes()).unwrap();
    assert_eq!(read_exactly(stream, content.len).unwrap(), content.print());
}

/// Nobody goes on with its flows.
const ALONE: [&str; 2] = ["--recover-within", "0 ms"];

#[test]
fn killed_it_leaves_idle_connections_working() {
    let mut bed = Testbed::accelerated("kill", &Radio::steady(Rate::from_mbps(20)), &ALONE);
    let servers = FAMILIES.map(|family| Server::start(&bed, family));
    let mut streams = servers.each_ref().map(|server| bed.connect(server.address));
    streams.iter_mut().for_each(|stream| ask(stream, 20));
    let accelerator = bed.accelerator.take().unwrap();
    accelerator.signal(SIGKILL);
    streams.iter_mut().for_each(|stream| ask(stream, 21));
    accelerator.wait();
    wait_until("the watchdog has undone everything", || bed.leftovers().is_empty());
    streams.iter_mut().for_each(|stream| ask(stream, 22));
    // A new one takes none of them over, and does them no harm.
    bed.accelerate(&[]);
    streams.iter_mut().for_each(|stream| ask(stream, 23));
    assert_eq!(bed.stop().accelerated_flows(), 0);
}

#[test]
fn killed_it_leaves_an_idle_http_connection_working() {
    let mut bed = Testbed::accelerated("killhttp", &Radio::steady(Rate::from_mbps(20)), &ALONE);
    let root = bed.directory().to_owned();
    std::fs::write(root.join("file"), vec![b'x'; 30_000]).unwrap();
    let nginx = Nginx::start(&bed, &root);
    let mut stream = bed.connect(nginx.address);
    get(&mut stream);
    let accelerator = bed.accelerator.take().unwrap();
    accelerator.signal(SIGKILL);
    accelerator.wait();
    get(&mut stream);
    wait_until("the watchdog has undone everything", || bed.leftovers().is_empty());
    get(&mut stream);
}

#[test]
fn stopped_in_the_middle_it_delivers_what_it_owes_and_hands_back() {
    for policy in ["honour", "opportunistic"] {
        let radio = Radio {
            loss_down: crate::kernel::testbed::burst_loss(500),
            ..Radio::steady(Rate::from_mbps(30))
        };
        let options = ["--window-policy", policy];
        let mut bed = Testbed::accelerated("stop", &radio, &options);
        let servers = FAMILIES.map(|family| Server::start(&bed, family));
        let content = Content { seed: 25, len: 12_000_000 };
        let mut streams = Vec::new();
        for server in &servers {
            for _ in 0..2 {
                let mut stream = bed.connect(server.address);
                stream.write_all(request(content, false).as_bytes()).unwrap();
                // All are under way when the signal comes.
                stream.peek(&mut [0]).unwrap();
                streams.push(stream);
            }
        }
        let accelerator = bed.accelerator.take().unwrap();
        let said = std::thread::scope(|scope| {
            let readers: Vec<_> =
                streams.iter_mut().map(|s| scope.spawn(|| read_to_end(s).unwrap())).collect();
            let stopper = scope.spawn(move || {
                accelerator.signal(SIGTERM);
                accelerator.wait()
            });
            let said = stopper.join().unwrap();
            assert!(readers.iter().all(|reader| !reader.is_finished()), "ended while all were under way");
            for reader in readers {
                assert_eq!(reader.join().unwrap(), content.print());
            }
            said
        });
        assert!(said.status.success(), "{said:?}");
        said.assert_no_warning();
        assert_eq!((said.accelerated_flows(), said.passed_flows("draining")), (4, 4), "{said:?}");
        drop(streams);
        for server in &servers {
            assert!(server.ends(2).iter().all(|(_, end)| end.is_ok()));
        }
        for host in [Role::Client, Role::Server] {
            assert_eq!(counter(&bed, host, "Tcp.EstabResets"), 0, "{host:?}");
        }
        assert_eq!(bed.leftovers(), [""; 0]);
    }
}

/// A web server with keep-alive; killed when dropped.
struct Nginx {
    child: std::process::Child,
    address: std::net::SocketAddr,
}

impl Nginx {
    fn start(bed: &Testbed, root: &std::path::Path) -> Self {
        let address = std::net::SocketAddr::new(lab::server_address(scenario::Family::Ipv4), 80);
        let root = root.display();
        let settings = format!(
            "daemon off; master_process off; pid {root}/nginx.pid; error_log {root}/nginx.log; events {{ }}\n\
             http {{ access_log off; keepalive_timeout 60; client_body_temp_path {root}/body;\n\
             proxy_temp_path {root}/proxy; fastcgi_temp_path {root}/fastcgi; uwsgi_temp_path {root}/uwsgi;\n\
             scgi_temp_path {root}/scgi; server {{ listen {address}; root {root}; }} }}"
        );
        let file = format!("{root}/nginx.conf");
        std::fs::write(&file, settings).unwrap();
        let mut command = std::process::Command::new("nginx");
        command.args(["-p", &root.to_string(), "-c", &file, "-e", &format!("{root}/nginx.log")]);
        let options = io::SpawnOptions { death_signal: Some(SIGKILL), own_process_group: true };
        let child = bed.host(Role::Server).spawn(command, options).unwrap();
        let nginx = Self { child, address };
        wait_until("nginx listens", || {
            bed.host(Role::Server).run(|| TcpStream::connect(address).is_ok()).unwrap()
        });
        nginx
    }
}

impl Drop for Nginx {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// One HTTP request and its answer on a connection that stays.
fn get(stream: &mut TcpStream) {
    stream.write_all(b"GET /file HTTP/1.1\r\nHost: test\r\n\r\n").unwrap();
    let mut reader = BufReader::new(&*stream);
    let mut status = String::new();
    reader.read_line(&mut status).unwrap();
    assert!(status.starts_with("HTTP/1.1 200"), "{status}");
    let mut line = String::new();
    while line != "\r\n" {
        line.clear();
        reader.read_line(&mut line).unwrap();
    }
    let mut body = vec![0; 30_000];
    reader.read_exact(&mut body).unwrap();
    assert!(body.iter().all(|byte| *byte == b'x') && reader.buffer().is_empty());
}
