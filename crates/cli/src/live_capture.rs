//! `cellerator capture`: an interface's packets into a file, and on to figures.

use std::fs::File;
use std::io::BufWriter;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use anyhow::{Context, Result, bail};
use capture::{LinkType, PcapngWriter, Record};
use io::netlink::Netlink;
use io::{CaptureRing, Clock, Interest, Signals, Waiter};
use units::{Duration, Instant};

/// Arguments of `cellerator capture`.
#[derive(clap::Args)]
pub struct Args {
    /// The interface
    interface: String,
    /// The pcapng file; it must not exist [default: capture.pcapng, or the first of capture-2.pcapng,
    /// capture-3.pcapng … that does not exist]
    #[arg(long, value_name = "FILE")]
    write: Option<PathBuf>,
    /// Stop after this many packets
    #[arg(long, value_name = "N")]
    packets: Option<u64>,
    /// Stop after this many seconds; otherwise Ctrl-C stops
    #[arg(long, value_name = "S")]
    seconds: Option<u64>,
    /// Keep this many bytes of each packet; 128 hold the headers of almost all packets
    #[arg(long, default_value_t = 262_144, value_name = "BYTES")]
    snaplen: usize,
    /// Analyze the capture and print the table
    #[arg(long)]
    analyze: bool,
    /// With --analyze, write a report as one HTML page
    #[arg(long, value_name = "FILE.html", requires = "analyze")]
    html: Option<PathBuf>,
}

/// Runs the command.
pub fn main(args: &Args) -> Result<ExitCode> {
    let netlink = Netlink::open()?;
    let index = netlink.index_of(&args.interface)?;
    let mut ring = CaptureRing::open(index)?;
    let (path, file) = create(args.write.as_deref())?;
    let name = path.display();
    let failed = || format!("{name}: writing failed");
    let mut writer = PcapngWriter::new(BufWriter::new(file)).with_context(failed)?;
    let link = if ring.has_link_header() { LinkType::ETHERNET } else { LinkType::RAW };
    let written = run(args, &mut ring, link, &mut writer).with_context(|| name.to_string())?;
    let (seen, dropped) = ring.counts()?;
    writer.statistics(link, Clock::wall_nanos(), seen, dropped).with_context(failed)?;
    writer.finish().with_context(failed)?;
    eprintln!("{name}: {written} packets of {}, {dropped} dropped for want of room", args.interface);
    if args.analyze {
        return crate::analyze::file(&path, args.html.as_deref());
    }
    Ok(ExitCode::SUCCESS)
}

/// Makes the file and gives its name: a capture that is there cannot be made again, so it is kept.
fn create(wanted: Option<&Path>) -> Result<(PathBuf, File)> {
    let unnamed = (2..).map(|number| PathBuf::from(format!("capture-{number}.pcapng")));
    let mut names: Box<dyn Iterator<Item = PathBuf>> = match wanted {
        Some(path) => Box::new(std::iter::once(path.to_owned())),
        None => Box::new(std::iter::once(PathBuf::from("capture.pcapng")).chain(unnamed)),
    };
    let is_kept = |path: &PathBuf| path.metadata().is_ok_and(|data| data.is_file());
    let Some(path) = names.find(|path| !is_kept(path)) else {
        let name = wanted.unwrap_or(Path::new("capture.pcapng")).display();
        bail!("{name} is there already: choose another name with --write, or remove it");
    };
    let file = File::create(&path).with_context(|| format!("{}: cannot be written", path.display()))?;
    Ok((path, file))
}

/// Captures until a limit or a signal; gives the number of packets written.
fn run(
    args: &Args,
    ring: &mut CaptureRing,
    link: LinkType,
    writer: &mut PcapngWriter<BufWriter<File>>,
) -> Result<u64> {
    let signals = Signals::terminating()?;
    let mut waiter = Waiter::new(Duration::ZERO)?;
    waiter.add(&*ring, Interest::Read, 0)?;
    waiter.add(&signals, Interest::Read, 1)?;
    let end = args.seconds.map(|seconds| Clock::now() + Duration::from_secs(seconds));
    let limit = args.packets.unwrap_or(u64::MAX);
    let mut written = 0;
    let mut failure = None;
    loop {
        while written < limit
            && failure.is_none()
            && ring.take(&mut |frame| {
                let bytes = &frame.bytes[..frame.bytes.len().min(args.snaplen)];
                let time = Instant::from_nanos(frame.wall_ns);
                let record = Record { time, interface: 0, link, wire_len: frame.wire_len, bytes };
                failure = writer.packet(&record, "").err();
                written += 1;
                written < limit && failure.is_none()
            })
        {}
        if let Some(error) = failure {
            return Err(error).context("writing failed");
        }
        let is_over = end.is_some_and(|end| Clock::now() >= end) || signals.take().is_some();
        if written >= limit || is_over {
            return Ok(written);
        }
        let has_failed = waiter.wait(end)?.iter().any(|ready| ready.token == 0 && ready.failed);
        if has_failed && !ring.take_error()? {
            eprintln!("  {} is gone; what was captured is kept", args.interface);
            return Ok(written);
        }
    }
}
