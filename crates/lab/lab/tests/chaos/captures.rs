//! [`Captures`]: what both hosts sent and got, flow by flow, kept of those that are in trouble.

use std::collections::{BTreeMap, VecDeque};
use std::fs::File;
use std::io::BufWriter;
use std::net::IpAddr;
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::JoinHandle;

use capture::{LinkType, PcapngWriter, Record};
use io::{CaptureRing, Clock, Interest, Namespace, Waiter};
use units::{Duration, Instant};
use wire::Transport;

/// Bytes kept of each packet: the headers with all their options.
const SNAPLEN: usize = 134;
const ETHERNET_LEN: usize = 14;

/// Packets kept of a flow: its first, and its last.
const FIRST_MAX: usize = 500;
const LAST_MAX: usize = 30_000;

/// How long frames may lie in the ring before they are fetched.
const TURN: Duration = Duration::from_millis(20);

#[derive(Clone)]
struct Kept {
    wall_ns: u64,
    wire_len: u32,
    bytes: Box<[u8]>,
}

#[derive(Default)]
struct Flow {
    first: Vec<Kept>,
    last: VecDeque<Kept>,
}

/// By the client's port.
type Flows = Arc<Mutex<BTreeMap<u16, Flow>>>;

/// Both hosts' interfaces, captured.
pub struct Captures {
    sides: [(&'static str, Flows); 2],
    is_over: Arc<AtomicBool>,
    threads: Vec<JoinHandle<()>>,
}

impl Captures {
    pub fn start(client: &Namespace, server: &Namespace) -> Self {
        let is_over = Arc::new(AtomicBool::new(false));
        let sides = [("client", Flows::default()), ("server", Flows::default())];
        let places = [(client, "c0"), (server, "s0")];
        let threads = places.into_iter().zip(&sides).map(|((namespace, device), (_, flows))| {
            let index = namespace.netlink().unwrap().index_of(device).unwrap();
            let ring = namespace.run(|| CaptureRing::open(index)).unwrap().unwrap();
            let (flows, is_over) = (Arc::clone(flows), Arc::clone(&is_over));
            std::thread::spawn(move || fetch(ring, &flows, &is_over))
        });
        let threads = threads.collect();
        Self { sides, is_over, threads }
    }

    /// What has a transfer forgotten that ended well.
    pub fn forgetter(&self) -> impl Fn(u16) + Send + Sync + 'static {
        let sides = self.sides.each_ref().map(|(_, flows)| Arc::clone(flows));
        move |port| {
            for flows in &sides {
                flows.lock().unwrap_or_else(PoisonError::into_inner).remove(&port);
            }
        }
    }

    /// Writes what is kept of the flow from `port` into two files.
    pub fn write(&self, port: u16, folder: &Path, name: &str) {
        for (host, flows) in &self.sides {
            let flows = flows.lock().unwrap_or_else(PoisonError::into_inner);
            let Some(flow) = flows.get(&port) else { continue };
            let file = File::create(folder.join(format!("{name}-{port}.{host}.pcapng"))).unwrap();
            let mut writer = PcapngWriter::new(BufWriter::new(file)).unwrap();
            for kept in flow.first.iter().chain(&flow.last) {
                let time = Instant::from_nanos(kept.wall_ns);
                let (link, wire_len) = (LinkType::ETHERNET, kept.wire_len);
                writer
                    .packet(&Record { time, interface: 0, link, wire_len, bytes: &kept.bytes }, "")
                    .unwrap();
            }
            writer.finish().unwrap();
        }
    }
}

impl Drop for Captures {
    fn drop(&mut self) {
        self.is_over.store(true, Ordering::Relaxed);
        for thread in self.threads.drain(..) {
            drop(thread.join());
        }
    }
}

fn fetch(mut ring: CaptureRing, flows: &Flows, is_over: &AtomicBool) {
    let mut waiter = Waiter::new(Duration::ZERO).unwrap();
    waiter.add(&ring, Interest::Read, 0).unwrap();
    while !is_over.load(Ordering::Relaxed) {
        let mut flows = flows.lock().unwrap_or_else(PoisonError::into_inner);
        while ring.take(&mut |frame| {
            if let Some(port) = client_port(frame.bytes) {
                let bytes = frame.bytes[..frame.bytes.len().min(SNAPLEN)].into();
                let kept = Kept { wall_ns: frame.wall_ns, wire_len: frame.wire_len, bytes };
                let flow = flows.entry(port).or_default();
                if flow.first.len() < FIRST_MAX {
                    flow.first.push(kept);
                } else {
                    flow.last.push_back(kept);
                    if flow.last.len() > LAST_MAX {
                        flow.last.pop_front();
                    }
                }
            }
            true
        }) {}
        drop(flows);
        waiter.wait(Some(Clock::now() + TURN)).unwrap();
    }
}

/// The client's port of a TCP segment: its source where the destination is the servers' network.
fn client_port(frame: &[u8]) -> Option<u16> {
    let parsed = wire::parse_prefix(frame.get(ETHERNET_LEN..)?).ok()?;
    let Transport::Tcp(tcp) = parsed.transport else { return None };
    let is_to_server = match parsed.ip.dst {
        IpAddr::V4(address) => address.octets()[..2] == [10, 2],
        IpAddr::V6(address) => address.segments()[0] == 0xfd02,
    };
    Some(if is_to_server { tcp.src_port } else { tcp.dst_port })
}
