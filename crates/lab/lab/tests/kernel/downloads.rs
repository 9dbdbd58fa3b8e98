//! Many downloads of all sizes over a lossy link, by readers of all kinds.

use std::io::{self, Read, Write};
use std::net::{Shutdown, SocketAddr, TcpStream};
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};

use ::io::Clock;
use lab::Role;
use rand::{RngExt, SeedableRng};
use rand_xoshiro::Xoshiro256PlusPlus;
use scenario::Family;
use socket2::SockAddr;
use units::Duration;

use crate::kernel::content::{Content, Print, Reading};
use crate::kernel::server::{Server, request};
use crate::kernel::testbed::{FAMILIES, PATIENCE, Radio, Testbed, patient, pause};

const DOWNLOADS: usize = 100;
const AT_ONCE: usize = 8;
const LEN_MAX: f64 = 20e6;
/// A download that takes longer hangs: all of them together take a fraction.
const TIME_LIMIT: Duration = Duration::from_secs(60);
const SLOW_READER_BUFFER: usize = 32_768;

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Reader {
    /// Reads all and closes.
    Plain,
    /// Has a small buffer, and rests every now and then, once for so long that its window is shut.
    Slow,
    /// Has no more to say once it has asked.
    HalfClosed,
}

#[derive(Clone, Copy, Debug)]
struct Job {
    content: Content,
    reader: Reader,
    family: Family,
}

fn jobs(seed: u64) -> Vec<Job> {
    let mut random = Xoshiro256PlusPlus::seed_from_u64(seed);
    let readers = [Reader::Plain, Reader::Slow, Reader::Plain, Reader::HalfClosed];
    let job = |i: usize| Job {
        // Evenly on a logarithmic scale.
        content: Content { seed: random.random(), len: LEN_MAX.powf(random.random::<f64>()).round() as u64 },
        reader: readers[i % readers.len()],
        family: FAMILIES[i / readers.len() % 2],
    };
    (0..DOWNLOADS).map(job).collect()
}

/// Downloads once: the hash of all bytes up to a clean end.
fn download(bed: &Testbed, to: SocketAddr, job: &Job) -> io::Result<(Print, SocketAddr)> {
    let give_up = Clock::now() + TIME_LIMIT;
    let socket = bed.socket(Role::Client, &to, None);
    if job.reader == Reader::Slow {
        socket.set_recv_buffer_size(SLOW_READER_BUFFER)?;
    }
    socket.connect_timeout(&SockAddr::from(to), PATIENCE)?;
    let mut stream = patient(TcpStream::from(socket));
    let own = stream.local_addr()?;
    stream.write_all(request(job.content, false).as_bytes())?;
    if job.reader == Reader::HalfClosed {
        stream.shutdown(Shutdown::Write)?;
    }
    let mut reading = Reading::default();
    let mut chunk = vec![0; SLOW_READER_BUFFER];
    for turn in 1u64.. {
        let len = stream.read(&mut chunk)?;
        if len == 0 {
            break;
        }
        reading.add(&chunk[..len]);
        if Clock::now() > give_up {
            return Err(io::Error::other("not done within the time limit"));
        }
        match job.reader {
            Reader::Slow if turn == 40 => pause(Duration::from_millis(500)),
            Reader::Slow if turn % 8 == 0 => pause(Duration::from_millis(2)),
            _ => {}
        }
    }
    Ok((reading.print(), own))
}

fn hundred_downloads(policy: &str, seed: u64) {
    println!("seed {seed}");
    let jobs = jobs(seed);
    let options = ["--window-policy", policy];
    let mut bed = Testbed::accelerated(policy, &Radio::lossy_5g(seed), &options);
    let servers = FAMILIES.map(|family| Server::start(&bed, family));
    let addresses = [servers[0].address, servers[1].address];
    let (next, failures) = (AtomicUsize::new(0), Mutex::new(Vec::new()));
    let started = Clock::now();
    std::thread::scope(|scope| {
        for _ in 0..AT_ONCE {
            scope.spawn(|| {
                while let Some(job) = jobs.get(next.fetch_add(1, Ordering::Relaxed)) {
                    let to = addresses[usize::from(job.family == Family::Ipv6)];
                    let problem = match download(&bed, to, job) {
                        Ok((print, _)) if print == job.content.print() => continue,
                        Ok((print, _)) => {
                            format!("{} bytes of {} arrived, or others", print.len, job.content.len)
                        }
                        Err(error) => error.to_string(),
                    };
                    failures.lock().unwrap().push(format!("{job:?}: {problem}"));
                }
            });
        }
    });
    let took = Clock::now().saturating_since(started);
    let failures = failures.into_inner().unwrap();
    assert!(failures.is_empty(), "seed {seed}: {failures:#?}");
    for server in &servers {
        let count =
            jobs.iter().filter(|job| (job.family == Family::Ipv6) == server.address.is_ipv6()).count();
        for (peer, end) in server.ends(count) {
            assert!(end.is_ok(), "seed {seed}: the server's side of {peer} ended with {end:?}");
        }
    }
    let said = bed.stop();
    let links = bed.emulation().links;
    let bytes: u64 = jobs.iter().map(|job| job.content.len).sum();
    println!("{DOWNLOADS} downloads, {bytes} bytes in {took}: {:#?}", said.lines);
    assert_eq!(said.accelerated_flows(), DOWNLOADS as u64);
    said.assert_no_warning();
    let lost = links[2].counters();
    println!("radio down: {lost:?}");
}

#[test]
fn h05_a_hundred_downloads_arrive_intact_with_honour() {
    hundred_downloads("honour", 1);
}

#[test]
fn h05_a_hundred_downloads_arrive_intact_with_opportunistic() {
    hundred_downloads("opportunistic", 1);
}
