//! [`Air`]: the links of several radios in real time, in one thread that mostly sleeps.
//!
//! Unlike [`crate::Emulator`] it never spins, so that several labs can share a processor: packets are late by
//! what the kernel takes to wake a thread, which every run states.

use std::collections::BTreeMap;
use std::os::unix::net::UnixStream;

use io::{Clock, Interest, Tun, Waiter};
use link::{Link, LinkConfig};
use scenario::results::Timing;
use units::{Bytes, Duration, Instant};

use super::middlebox::Middlebox;
use crate::LabError;
use crate::air_thread::AirThread;
use crate::lateness::Lateness;
use scenario::multi_path_results::BIN_MS;

const PACKET_LEN_MAX: usize = 2_048;
const BATCH: usize = 32;
const REALTIME_PRIORITY: u8 = 20;
const STOP: u64 = u64::MAX;

/// One radio.
pub(crate) struct AirRadio {
    pub name: String,
    /// The server's device, and the client's.
    pub devices: [Tun; 2],
    /// Towards the client, and from it.
    pub links: [LinkConfig; 2],
    pub middlebox: Middlebox,
    /// Changes, in order of time.
    pub changes: Vec<(Duration, AirChange)>,
}

/// Change in the air.
#[derive(Clone, Debug)]
pub(crate) enum AirChange {
    Dies,
    Returns,
    Becomes(Box<[LinkConfig; 2]>),
    NatMoves([u8; 4]),
}

/// Observations of the run.
#[derive(Debug, Default)]
pub(crate) struct AirLog {
    /// TCP payload the way of the data by radio and the server's address, in bins.
    pub flows: BTreeMap<String, Vec<u64>>,
    /// Longest queue by radio in bins, ms.
    pub queues_ms: BTreeMap<String, Vec<u32>>,
    pub timing: Option<Timing>,
    pub stripped: u64,
}

/// A running emulator; dropping it stops it.
pub(crate) struct Air {
    thread: AirThread<AirLog>,
}

impl Air {
    /// Starts at once; time zero of all changes, and of what is noted, is `start`.
    /// `is_upload`: the data goes from the client.
    pub fn start(radios: Vec<AirRadio>, start: Instant, is_upload: bool) -> Result<Self, LabError> {
        let begin = Clock::now();
        let mut states = Vec::new();
        for radio in radios {
            let [down, up] = &radio.links;
            let links = [Link::new(down, begin)?, Link::new(up, begin)?];
            let changes = radio.changes.into_iter().rev().collect();
            states.push(State {
                name: radio.name,
                devices: radio.devices,
                links,
                middlebox: radio.middlebox,
                changes,
                is_dead: false,
            });
        }
        let (log, lateness) = (AirLog::default(), Lateness::default());
        let mover = Mover { radios: states, log, lateness, start, is_upload };
        Ok(Self { thread: AirThread::start(move |stopped| mover.run(stopped))? })
    }

    /// Stops and hands over what was seen.
    pub fn finish(self) -> Result<AirLog, LabError> {
        self.thread.finish()
    }
}

struct State {
    name: String,
    devices: [Tun; 2],
    links: [Link<Vec<u8>>; 2],
    middlebox: Middlebox,
    /// Last first.
    changes: Vec<(Duration, AirChange)>,
    is_dead: bool,
}

struct Mover {
    radios: Vec<State>,
    log: AirLog,
    lateness: Lateness,
    start: Instant,
    is_upload: bool,
}

impl Mover {
    fn run(mut self, stopped: &UnixStream) -> Result<AirLog, LabError> {
        // Refused to who may not: packets are later, and that is stated.
        let _ = io::sched::set_realtime_priority(REALTIME_PRIORITY);
        let mut waiter = Waiter::new(Duration::ZERO)?;
        for (i, radio) in (0..).zip(&self.radios) {
            waiter.add(&radio.devices[0], Interest::Read, i * 2)?;
            waiter.add(&radio.devices[1], Interest::Read, i * 2 + 1)?;
        }
        waiter.add(stopped, Interest::Read, STOP)?;
        loop {
            let start = self.start;
            let of = |radio: &State| {
                let change = radio.changes.last().map(|(at, _)| start + *at);
                let links = radio.links.iter().filter_map(Link::next_deadline).min();
                [change, links].into_iter().flatten().min()
            };
            let deadline = self.radios.iter().filter_map(of).min();
            let mut arrived = Vec::new();
            for ready in waiter.wait(deadline)? {
                if ready.token == STOP {
                    return Ok(self.finish());
                }
                arrived.push(usize::try_from(ready.token).unwrap_or(0));
            }
            self.change()?;
            self.deliver();
            for token in arrived {
                self.fetch(token / 2, token % 2)?;
            }
        }
    }

    fn change(&mut self) -> Result<(), LabError> {
        let now = Clock::now();
        for radio in &mut self.radios {
            while let Some((_, change)) = radio.changes.pop_if(|(at, _)| self.start + *at <= now) {
                match change {
                    AirChange::Dies => radio.is_dead = true,
                    AirChange::Returns => radio.is_dead = false,
                    AirChange::Becomes(links) => {
                        radio.links = [Link::new(&links[0], now)?, Link::new(&links[1], now)?];
                    }
                    AirChange::NatMoves(outer) => radio.middlebox.move_to(outer),
                }
            }
        }
        Ok(())
    }

    /// Hands over what is due; what is in the air of a dead radio is lost.
    fn deliver(&mut self) {
        for i in 0..self.radios.len() {
            for way in 0..2 {
                let now = Clock::now();
                while let Some(mut delivery) = self.radios[i].links[way].poll(now) {
                    let radio = &mut self.radios[i];
                    if radio.is_dead {
                        continue;
                    }
                    self.lateness.record(now.saturating_since(delivery.planned));
                    let passes = if way == 0 {
                        radio.middlebox.down(&mut delivery.payload)
                    } else {
                        radio.middlebox.up(&mut delivery.payload)
                    };
                    if !passes {
                        continue;
                    }
                    if (way == 1) == self.is_upload {
                        let name = radio.name.clone();
                        let waited = delivery
                            .record
                            .service_start
                            .map_or(Duration::ZERO, |at| at.saturating_since(delivery.record.arrival));
                        self.note(&name, &delivery.payload, delivery.planned, waited);
                    }
                    // A device that is down or gone loses packets like a real one.
                    let _ = self.radios[i].devices[1 - way].send(&delivery.payload);
                }
            }
        }
    }

    fn note(&mut self, radio: &str, packet: &[u8], at: Instant, waited: Duration) {
        // What comes before the transfer is not noted.
        if at < self.start {
            return;
        }
        let bin = usize::try_from(at.saturating_since(self.start).as_millis() / BIN_MS).unwrap_or(0);
        let queues = self.log.queues_ms.entry(radio.to_owned()).or_default();
        if queues.len() <= bin {
            queues.resize(bin + 1, 0);
        }
        queues[bin] = queues[bin].max(u32::try_from(waited.as_millis()).unwrap_or(u32::MAX));
        let Ok(parsed) = wire::parse(packet) else { return };
        let Some(tcp) = parsed.tcp().filter(|tcp| tcp.payload_len > 0) else { return };
        let server = if self.is_upload { parsed.ip.dst } else { parsed.ip.src };
        let number = match server {
            std::net::IpAddr::V4(v4) => v4.octets()[2],
            std::net::IpAddr::V6(v6) => v6.segments()[2] as u8,
        };
        let flow = self.log.flows.entry(format!("{radio}-{}", number + 1)).or_default();
        if flow.len() <= bin {
            flow.resize(bin + 1, 0);
        }
        flow[bin] += tcp.payload_len as u64;
    }

    fn fetch(&mut self, i: usize, device: usize) -> Result<(), LabError> {
        for _ in 0..BATCH {
            let mut buffer = vec![0; PACKET_LEN_MAX];
            let radio = &mut self.radios[i];
            let Some(len) = radio.devices[device].recv(&mut buffer)? else { break };
            if radio.is_dead {
                continue;
            }
            buffer.truncate(len);
            // What the queue does not take is lost.
            let _ = radio.links[device].enqueue(buffer, Bytes::from(len), Clock::now());
        }
        Ok(())
    }

    fn finish(mut self) -> AirLog {
        let missed = self.radios.iter().flat_map(|r| &r.devices).filter_map(|d| d.stats().ok());
        let missed = missed.map(|s| s.tx_dropped).sum();
        self.log.stripped = self.radios.iter().map(|r| r.middlebox.stripped).sum();
        self.log.timing = Some(self.lateness.report(missed));
        self.log
    }
}
