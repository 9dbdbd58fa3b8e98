//! The accelerator is killed again and again under load: no flow notices.
//!
//! `CELLERATOR_DEATHS=n` sets how often, for each of four settings (`make deaths`).

use std::net::{Shutdown, TcpStream};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use io::{Clock, PidFd};
use lab::Role;
use link::LossModel;
use rand::{RngExt, SeedableRng};
use rand_xoshiro::Xoshiro256PlusPlus;
use scenario::Family;
use units::{Duration, Rate};

use crate::kernel::content::{Content, Print, Reading};
use crate::kernel::counters::counter;
use crate::kernel::testbed::{FAMILIES, Radio, SIGKILL, Testbed, pause, wait_until};

const SIGTERM: i32 = 15;
const FLOWS: usize = 50;

/// A round trip of 40 ms.
fn radio(loss_ppm: u32) -> Radio {
    let loss = if loss_ppm == 0 { LossModel::None } else { LossModel::Bernoulli { ppm: loss_ppm } };
    Radio {
        delay: Duration::from_millis(10),
        wan_delay: Duration::from_millis(10),
        loss_down: loss,
        loss_up: loss,
        ..Radio::steady(Rate::from_mbps(50))
    }
}

/// When anything arrived last, at whichever host, and the longest time in which nothing did.
#[derive(Default)]
struct Arrivals {
    last_ns: AtomicU64,
    longest_ns: AtomicU64,
}

impl Arrivals {
    fn note(&self) {
        let now = Clock::now().as_nanos();
        let before = self.last_ns.swap(now, Ordering::Relaxed);
        self.longest_ns.fetch_max(now.saturating_sub(before), Ordering::Relaxed);
    }

    fn begin(&self) {
        self.last_ns.store(Clock::now().as_nanos(), Ordering::Relaxed);
        self.longest_ns.store(0, Ordering::Relaxed);
    }

    fn longest(&self) -> Duration {
        Duration::from_nanos(self.longest_ns.load(Ordering::Relaxed))
    }
}

fn read(from: &TcpStream, arrivals: &Arrivals) -> std::io::Result<Print> {
    let mut reading = Reading::default();
    let mut chunk = vec![0; 65_536];
    loop {
        match std::io::Read::read(&mut &*from, &mut chunk)? {
            0 => return Ok(reading.print()),
            len => reading.add(&chunk[..len]),
        }
        arrivals.note();
    }
}

/// One transfer, or one each way: what was sent must arrive.
fn transfer(bed: &Testbed, number: u64, family: Family, arrivals: &Arrivals) {
    let (client, server) = bed.pair(family);
    let content = |is_there: bool, seed| Content { seed, len: if is_there { 1_500_000 } else { 0 } };
    let (down, up) = (content(number % 4 != 3, 2 * number), content(number % 4 >= 2, 2 * number + 1));
    let send = |mut stream: &TcpStream, content: Content| {
        content.write_to(&mut stream).unwrap();
        stream.shutdown(Shutdown::Write).unwrap();
    };
    let [at_client, at_server] = std::thread::scope(|scope| {
        scope.spawn(|| send(&server, down));
        scope.spawn(|| send(&client, up));
        let at_server = scope.spawn(|| read(&server, arrivals).unwrap());
        [read(&client, arrivals).unwrap(), at_server.join().unwrap()]
    });
    assert_eq!([at_client, at_server], [down.print(), up.print()], "transfer {number}");
}

/// Kills it so often, at moments of chance; the longest time in which nothing arrived, after each.
fn stalls_of(policy: &str, loss_ppm: u32, deaths: usize) -> Vec<Duration> {
    let options = ["--direction", "both", "--window-policy", policy, "--recover-deaths", "1000"];
    let options = [&options[..], &["--recover-within", "10 s"]].concat();
    let mut bed = Testbed::accelerated("deaths", &radio(loss_ppm), &options);
    let mut accelerator = bed.accelerator.take().unwrap();
    let mut random = Xoshiro256PlusPlus::seed_from_u64(u64::from(loss_ppm));
    let (arrivals, is_over, transfers) = (Arrivals::default(), AtomicBool::new(false), AtomicU64::new(0));
    let mut stalls = Vec::new();
    let mut process = accelerator.process();
    std::thread::scope(|scope| {
        for flow in 0..FLOWS {
            let (bed, arrivals, is_over, transfers) = (&bed, &arrivals, &is_over, &transfers);
            scope.spawn(move || {
                while !is_over.load(Ordering::Relaxed) {
                    let number = transfers.fetch_add(1, Ordering::Relaxed);
                    transfer(bed, number, FAMILIES[flow % 2], arrivals);
                }
            });
        }
        pause(Duration::from_secs(2));
        for _ in 0..deaths {
            pause(Duration::from_micros(random.random_range(500_000..1_500_000)));
            arrivals.begin();
            PidFd::open(process).unwrap().send_signal(SIGKILL).unwrap();
            let line = accelerator.await_line("goes on with the flows of the one that died");
            let (_, after) = line.split_once("process ").unwrap();
            process = after.split_ascii_whitespace().next().unwrap().parse().unwrap();
            pause(Duration::from_secs(1));
            stalls.push(arrivals.longest());
        }
        is_over.store(true, Ordering::Relaxed);
    });
    for host in [Role::Client, Role::Server] {
        assert_eq!(counter(&bed, host, "Tcp.EstabResets"), 0, "{host:?}");
    }
    stalls.sort_unstable();
    let at = |permille: usize| stalls[(stalls.len() * permille / 1_000).min(stalls.len() - 1)];
    println!(
        "{policy}, {loss_ppm} ppm: {deaths} deaths, {} transfers whole, no reset; nothing arrived for {} \
         (median), {} (p99), {} (most)",
        transfers.into_inner(),
        at(500),
        at(990),
        at(1_000)
    );
    PidFd::open(process).unwrap().send_signal(SIGTERM).unwrap();
    accelerator.wait();
    wait_until("everything is undone", || bed.leftovers().is_empty());
    stalls
}

#[test]
fn h02_killed_again_and_again_under_load_no_flow_notices() {
    stalls_of("honour", 10_000, 4);
}

#[test]
#[ignore = "an hour: `make deaths`"]
fn h02_killed_a_thousand_times_under_load_no_flow_notices() {
    let deaths = std::env::var("CELLERATOR_DEATHS").ok().and_then(|text| text.parse().ok()).unwrap_or(250);
    for policy in ["honour", "opportunistic"] {
        for loss_ppm in [0, 10_000] {
            stalls_of(policy, loss_ppm, deaths);
        }
    }
}
