//! `sim run --captures`: what a tcpdump on a host would have written.

use std::fs::File;
use std::io::{self, BufWriter};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};

use anyhow::{Context, Result};
use capture::{LinkType, PcapngWriter, Record};
use clap::ValueEnum;
use sim::{CaseOutcome, LoggedPacket, Watcher};
use units::{Bytes, Duration};

use super::Job;

/// Arguments for the capture of runs.
#[derive(clap::Args)]
pub(super) struct Captured {
    /// With --captures: at which host
    #[arg(long, value_enum, default_value_t = Place::Server, requires = "captures")]
    captures_at: Place,
    /// With --captures: bytes of each packet; 128 hold every header
    #[arg(long, value_name = "BYTES", default_value_t = 128, requires = "captures",
        value_parser = clap::value_parser!(u32).range(60..=65_535))]
    snaplen: u32,
    /// With --captures: begin a new file when one has so many bytes, as `tcpdump -C`: CASE-SEED.pcapng1, …
    #[arg(long, value_name = "BYTES", requires = "captures")]
    rotate: Option<u64>,
    /// With --captures: the time at which the run of seed 0 begins, seconds since 1970 [default:
    /// 2026-01-01]. The run of seed N begins N minutes later, and has other clients
    #[arg(long, value_name = "S", default_value_t = 1_767_225_600, requires = "captures")]
    captures_begin: u64,
}

/// A capture point.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum)]
enum Place {
    /// The servers' interface
    #[default]
    Server,
    /// The clients' interfaces
    Client,
}

impl Default for Captured {
    fn default() -> Self {
        Self { captures_at: Place::Server, snaplen: 128, rotate: None, captures_begin: 0 }
    }
}

/// Minutes and clients of seeds come again after so many.
const SEEDS: u64 = 1 << 20;

/// Says where each job's capture goes, and gives it clients of its own.
pub(super) fn prepare(folder: &Path, jobs: &mut [Job]) -> Result<()> {
    std::fs::create_dir_all(folder).with_context(|| format!("cannot make {}", folder.display()))?;
    for job in jobs {
        let plain = |c: char| if c.is_ascii_alphanumeric() { c } else { '-' };
        let name: String = job.case.name.chars().map(plain).collect();
        // Two cases may differ in signs only.
        let case = if name == job.case.name { name } else { format!("{name}-{:08x}", hash(&job.case.name)) };
        job.capture = Some(folder.join(format!("{case}-{}.pcapng", job.seed)));
        let clients = u64::from(job.case.workload.clients());
        let by = (job.seed % SEEDS).wrapping_mul(clients) as u16;
        job.run = job.run.clone().with_clients_moved(by);
    }
    Ok(())
}

/// FNV-1a.
fn hash(text: &str) -> u32 {
    text.bytes().fold(0x811c_9dc5, |hash, byte| (hash ^ u32::from(byte)).wrapping_mul(0x0100_0193))
}

impl Captured {
    /// Runs a job before the eyes of a capture.
    pub(super) fn run(
        &self,
        job: &Job,
        file: &Path,
        is_over: &AtomicBool,
        tell: &mut dyn FnMut(Bytes),
    ) -> Result<CaseOutcome> {
        let failed = || format!("cannot write {}", file.display());
        let began = Duration::from_secs(self.captures_begin + job.seed % SEEDS * 60);
        let mut eyes = Eyes {
            captured: self,
            began,
            writer: open(file).with_context(failed)?,
            written: 0,
            file: file.to_owned(),
            files: 0,
            failed: None,
            is_over,
            tell,
        };
        let outcome = job.run.watch(&mut eyes);
        if let Some(error) = eyes.failed {
            return Err(error).with_context(failed);
        }
        let outcome = outcome?;
        eyes.writer.finish().with_context(failed)?;
        Ok(outcome)
    }
}

fn open(path: &Path) -> io::Result<PcapngWriter<BufWriter<File>>> {
    PcapngWriter::new(BufWriter::new(File::create(path)?))
}

/// Writes what passes.
struct Eyes<'a> {
    captured: &'a Captured,
    began: Duration,
    writer: PcapngWriter<BufWriter<File>>,
    /// Bytes of packets in the present file.
    written: u64,
    file: PathBuf,
    /// Files before this one.
    files: u32,
    failed: Option<io::Error>,
    is_over: &'a AtomicBool,
    tell: &'a mut dyn FnMut(Bytes),
}

impl Eyes<'_> {
    fn write(&mut self, packet: &LoggedPacket) -> io::Result<()> {
        if self.captured.rotate.is_some_and(|most| self.written >= most) {
            self.files += 1;
            let next = open(Path::new(&format!("{}{}", self.file.display(), self.files)))?;
            std::mem::replace(&mut self.writer, next).finish()?;
            self.written = 0;
        }
        self.written += packet.bytes.len() as u64;
        let record = Record {
            time: packet.at + self.began,
            interface: 0,
            link: LinkType::RAW,
            wire_len: packet.wire_len,
            bytes: &packet.bytes,
        };
        self.writer.packet(&record, "")
    }
}

impl Watcher for Eyes<'_> {
    fn on_progress(&mut self, received: Bytes) {
        (self.tell)(received);
    }
    fn is_over(&self) -> bool {
        self.failed.is_some() || self.is_over.load(Ordering::Relaxed)
    }
    fn wants_packets(&self) -> bool {
        true
    }
    fn packet_len(&self) -> usize {
        self.captured.snaplen as usize
    }
    fn on_packet(&mut self, packet: &LoggedPacket) {
        let is_here = packet.point.is_at_client() == (self.captured.captures_at == Place::Client);
        if is_here && self.failed.is_none() {
            self.failed = self.write(packet).err();
        }
    }
}
