//! [`Recorder`]: captures of a case at both ends, and what the kernels and links counted, as truth
//! about them.
//!
//! The captures are made where `tcpdump` would make them: on the hosts' own interfaces. The truth
//! is the hosts' TCP counters (`/proc/net/snmp`, `/proc/net/netstat`), which begin at zero in each
//! new network, and what each link dropped.

use std::collections::BTreeMap;
use std::fs::{self, File};
use std::io::BufWriter;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;

use capture::{LinkType, PcapngWriter, Record};
use io::{CaptureRing, Clock, Interest, Namespace, Waiter};
use serde::Serialize;
use units::{Duration, Instant};

use crate::LabError;
use crate::emulator::Emulation;
use crate::error::Context;
use crate::topology::{Network, RADIO, Role, WAN};

/// Bytes kept of each packet: the headers with all their options.
const SNAPLEN: usize = 128;
/// Longest time that frames may lie in the ring before they are handed over.
const TURN: Duration = Duration::from_millis(20);
/// Time after the end during which the ring is read: the kernel hands a block over when it is 50 ms old.
const DRAIN: Duration = Duration::from_millis(120);

/// The files of one recorded run.
#[derive(Clone, Debug)]
pub struct Recording {
    /// Captured on the server's interface.
    pub server: PathBuf,
    /// Captured on the client's interface.
    pub client: PathBuf,
    /// Path of the counts of the kernels and the links.
    pub truth: PathBuf,
}

impl Recording {
    /// The files of the run called `name` in `folder`.
    #[must_use]
    pub fn in_folder(folder: &Path, name: &str) -> Self {
        let file = |ending: &str| folder.join(format!("{name}.{ending}"));
        Self { server: file("server.pcapng"), client: file("client.pcapng"), truth: file("truth.json") }
    }
}

/// Truth about a recorded run.
#[derive(Clone, Debug, Serialize)]
pub struct Truth {
    /// Name of the scenario.
    pub scenario: String,
    /// Name of the case.
    pub case: String,
    /// Seed of its losses and traces.
    pub seed: u64,
    /// The sender of the data: `server` or `client`.
    pub sender: &'static str,
    /// Payload bytes sent, over all flows.
    pub bytes: u64,
    /// The least round-trip time there can be, milliseconds.
    pub path_rtt_ms: f64,
    /// TCP counters of the server that are not zero, by their names in `/proc/net`.
    pub server: BTreeMap<String, u64>,
    /// Those of the client.
    pub client: BTreeMap<String, u64>,
    /// Packets that each link dropped: the queue was full, or the loss model said so.
    pub dropped: Dropped,
}

/// Packets dropped, by link.
#[derive(Clone, Copy, Debug, Serialize)]
pub struct Dropped {
    /// Server to accelerator.
    pub wan_down: u64,
    /// Accelerator to server.
    pub wan_up: u64,
    /// Accelerator to client.
    pub radio_down: u64,
    /// Client to accelerator.
    pub radio_up: u64,
}

impl Dropped {
    /// Drops of the links of `emulation`.
    #[must_use]
    pub fn of(emulation: &Emulation) -> Self {
        let [wan_down, wan_up, radio_down, radio_up] =
            [0, 1, 2, 3].map(|link: usize| emulation.links[link].counters().dropped_packets());
        Self { wan_down, wan_up, radio_down, radio_up }
    }
}

/// Captures at both ends while a case runs.
#[derive(Debug)]
pub struct Recorder {
    stop: Arc<AtomicBool>,
    threads: Vec<JoinHandle<Result<(), LabError>>>,
}

impl Recorder {
    /// Starts to capture on both hosts of `network` into the files of `recording`.
    ///
    /// # Errors
    /// Without root, or when a file cannot be written.
    pub fn start(network: &Network, recording: &Recording) -> Result<Self, LabError> {
        let mut recorder = Self { stop: Arc::default(), threads: Vec::new() };
        for (host, interface, path) in
            [(Role::Server, WAN, &recording.server), (Role::Client, RADIO, &recording.client)]
        {
            let ring = open(network.namespace(host), interface)?;
            let file = File::create(path).doing(|| format!("write {}", path.display()))?;
            let (stop, path) = (Arc::clone(&recorder.stop), path.clone());
            recorder.threads.push(std::thread::spawn(move || copy(ring, file, &path, &stop)));
        }
        Ok(recorder)
    }

    /// Writes what is still to come and ends the files.
    ///
    /// # Errors
    /// A file could not be written.
    pub fn finish(mut self) -> Result<(), LabError> {
        self.stop.store(true, Ordering::Relaxed);
        for thread in self.threads.drain(..) {
            let ended = thread.join();
            ended.map_err(|_| LabError::Which("a capturing thread has failed".to_owned()))??;
        }
        Ok(())
    }
}

impl Drop for Recorder {
    fn drop(&mut self) {
        self.stop.store(true, Ordering::Relaxed);
    }
}

fn open(namespace: &Namespace, interface: &str) -> Result<CaptureRing, LabError> {
    let index = namespace.netlink()?.index_of(interface)?;
    Ok(namespace.run(|| CaptureRing::open(index))??)
}

/// Copies frames from the ring to the file until told to stop.
fn copy(mut ring: CaptureRing, file: File, path: &Path, stop: &AtomicBool) -> Result<(), LabError> {
    let writing = || format!("write {}", path.display());
    let mut writer = PcapngWriter::new(BufWriter::new(file)).doing(writing)?;
    let link = if ring.has_link_header() { LinkType::ETHERNET } else { LinkType::RAW };
    let mut waiter = Waiter::new(Duration::ZERO)?;
    waiter.add(&ring, Interest::Read, 0)?;
    let mut end = None;
    loop {
        let mut failure = None;
        while failure.is_none()
            && ring.take(&mut |frame| {
                let bytes = &frame.bytes[..frame.bytes.len().min(SNAPLEN)];
                let time = Instant::from_nanos(frame.wall_ns);
                let record = Record { time, interface: 0, link, wire_len: frame.wire_len, bytes };
                failure = writer.packet(&record, "").err();
                failure.is_none()
            })
        {}
        if let Some(error) = failure {
            return Err(error).doing(writing);
        }
        let now = Clock::now();
        if stop.load(Ordering::Relaxed) && end.is_none() {
            end = Some(now + DRAIN);
        }
        if end.is_some_and(|end| now >= end) {
            break;
        }
        waiter.wait(Some(now + TURN))?;
    }
    let (seen, dropped) = ring.counts()?;
    writer.statistics(link, Clock::wall_nanos(), seen, dropped).doing(writing)?;
    writer.finish().doing(writing)
}

/// TCP counters of a host that are not zero, as `Tcp.RetransSegs` and `TcpExt.TCPLossProbes`.
///
/// # Errors
/// The kernel does not say.
pub fn counters(network: &Network, host: Role) -> Result<BTreeMap<String, u64>, LabError> {
    let mut found = BTreeMap::new();
    for file in ["/proc/thread-self/net/snmp", "/proc/thread-self/net/netstat"] {
        let read = network.namespace(host).run(|| fs::read_to_string(file))?;
        parse(&read.doing(|| format!("read {file}"))?, &mut found);
    }
    Ok(found)
}

/// Pairs of lines: `Tcp: names`, `Tcp: values`.
fn parse(text: &str, found: &mut BTreeMap<String, u64>) {
    let lines: Vec<&str> = text.lines().collect();
    for pair in lines.chunks(2) {
        let [names, values] = pair else { continue };
        let Some((group, names)) = names.split_once(": ") else { continue };
        if !group.starts_with("Tcp") {
            continue;
        }
        let values = values.split_once(": ").map_or("", |(_, values)| values);
        for (name, value) in names.split_whitespace().zip(values.split_whitespace()) {
            if let Some(value) = value.parse().ok().filter(|value| *value > 0) {
                found.insert(format!("{group}.{name}"), value);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn counters_have_names() {
        let mut found = BTreeMap::new();
        parse("Ip: A\nIp: 4\nTcp: RetransSegs MaxConn Zero\nTcp: 3 -1 0\n", &mut found);
        assert_eq!(found.into_iter().collect::<Vec<_>>(), [("Tcp.RetransSegs".to_owned(), 3)]);
    }
}
