//! [`start`]: the links of several radios in real time, in one thread that mostly sleeps.
//!
//! Unlike [`crate::Emulator`] it never spins, so that several labs can share a processor: packets are late by
//! what the kernel takes to wake a thread, which every run states.

use std::collections::BTreeMap;
use std::os::unix::net::UnixStream;

use io::{Clock, Tun};
use link::{Link, LinkConfig};
use scenario::results::Timing;
use units::{Bytes, Duration, Instant};

use super::middlebox::Middlebox;
use crate::LabError;
use crate::air_thread::{AirThread, BATCH, STOP, fetch, missed, waiter};
use crate::lateness::Lateness;
use scenario::multi_path_results::BIN_MS;

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

/// Starts at once; time zero of all changes, and of what is noted, is `start`.
/// `is_upload`: the data goes from the client.
pub(crate) fn start(
    radios: Vec<AirRadio>,
    start: Instant,
    is_upload: bool,
) -> Result<AirThread<AirLog>, LabError> {
    let begin = Clock::now();
    let mut states = Vec::new();
    for mut radio in radios {
        let [down, up] = &radio.links;
        let links = [Link::new(down, begin)?, Link::new(up, begin)?];
        radio.changes.reverse();
        states.push(State { radio, links, is_dead: false });
    }
    let (log, lateness) = (AirLog::default(), Lateness::default());
    let mover = Mover { radios: states, log, lateness, start, is_upload };
    AirThread::start("air", move |stopped, _| mover.run(stopped))
}

struct State {
    /// Its changes that are to come, the last first.
    radio: AirRadio,
    links: [Link<Vec<u8>>; 2],
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
        let devices = self.radios.iter().flat_map(|state| &state.radio.devices);
        let mut waiter = waiter(Duration::ZERO, devices, stopped)?;
        loop {
            let start = self.start;
            let of = |state: &State| {
                let change = state.radio.changes.last().map(|(at, _)| start + *at);
                let links = state.links.iter().filter_map(Link::next_deadline).min();
                [change, links].into_iter().flatten().min()
            };
            let deadline = self.radios.iter().filter_map(of).min();
            let mut arrived = Vec::new();
            for ready in waiter.wait(deadline)? {
                if ready.token == STOP {
                    return self.finish();
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
        for State { radio, links: own, is_dead } in &mut self.radios {
            while let Some((_, change)) = radio.changes.pop_if(|(at, _)| self.start + *at <= now) {
                match change {
                    AirChange::Dies => *is_dead = true,
                    AirChange::Returns => *is_dead = false,
                    AirChange::Becomes(links) => {
                        *own = [Link::new(&links[0], now)?, Link::new(&links[1], now)?];
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
                    let State { radio, is_dead, .. } = &mut self.radios[i];
                    if *is_dead {
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
                    let _ = self.radios[i].radio.devices[1 - way].send(&delivery.payload);
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
            let state = &mut self.radios[i];
            let Some(packet) = fetch(&state.radio.devices[device])? else { break };
            if state.is_dead {
                continue;
            }
            let size = Bytes::from(packet.len());
            // What the queue does not take is lost.
            let _ = state.links[device].enqueue(packet, size, Clock::now());
        }
        Ok(())
    }

    fn finish(mut self) -> Result<AirLog, LabError> {
        let missed = missed(self.radios.iter().flat_map(|state| &state.radio.devices))?;
        self.log.stripped = self.radios.iter().map(|state| state.radio.middlebox.stripped).sum();
        self.log.timing = Some(self.lateness.report(missed));
        Ok(self.log)
    }
}
