//! Where the results go: any number of outputs from one reading of the captures.

use std::fs::File;
use std::io::{self, BufWriter, Stdout, Write};
use std::path::{Path, PathBuf};

use analysis::{CaptureFile, DocumentWriter, Event, FlowReport, MadeBy, PacketView, Sink};
use report::CapturePage;

use super::Args;
use super::table::{Top, table};

/// One output.
trait Output: Sink {
    /// Writes what is left to write.
    fn finish(self: Box<Self>, captures: &[CaptureFile], made_by: &MadeBy) -> io::Result<()>;
    /// What is written, for messages.
    fn name(&self) -> String;
}

/// All outputs that were asked for.
pub(super) struct Outputs {
    all: Vec<Box<dyn Output>>,
    /// Those of `all` that want packets.
    of_packets: Vec<usize>,
}

impl Outputs {
    /// Opens all files, so that one that cannot be written is said before the captures are read.
    pub(super) fn open(args: &Args, made_by: &MadeBy) -> Result<Self, String> {
        let mut all: Vec<Box<dyn Output>> = Vec::new();
        if args.json {
            let out = BufWriter::new(io::stdout());
            all.push(Box::new(DocumentWriter::new(out, made_by, args.events)));
        } else {
            all.push(Box::new(Top::new(args.top)));
        }
        if let Some(path) = &args.html {
            all.push(Box::new(Page { file: create(path)?, path: path.clone(), page: CapturePage::new() }));
        }
        let of_packets = (0..all.len()).filter(|index| all[*index].wants_packets()).collect();
        Ok(Self { all, of_packets })
    }

    /// Writes everything.
    pub(super) fn finish(self, captures: &[CaptureFile], made_by: &MadeBy) -> Result<(), String> {
        for output in self.all {
            let name = output.name();
            match output.finish(captures, made_by) {
                Err(error) if error.kind() != io::ErrorKind::BrokenPipe => {
                    return Err(format!("{name}: writing the result failed: {error}"));
                }
                _ => {}
            }
        }
        Ok(())
    }
}

impl Sink for Outputs {
    fn on_flow(&mut self, flow: &FlowReport) {
        self.all.iter_mut().for_each(|output| output.on_flow(flow));
    }
    fn on_event(&mut self, event: &Event) {
        self.all.iter_mut().for_each(|output| output.on_event(event));
    }
    fn wants_packets(&self) -> bool {
        !self.of_packets.is_empty()
    }
    fn on_packet(&mut self, packet: &PacketView<'_>) {
        for index in &self.of_packets {
            self.all[*index].on_packet(packet);
        }
    }
}

fn create(path: &Path) -> Result<BufWriter<File>, String> {
    File::create(path)
        .map(BufWriter::new)
        .map_err(|error| format!("{}: cannot be written: {error}", path.display()))
}

impl Output for DocumentWriter<BufWriter<Stdout>> {
    fn finish(self: Box<Self>, captures: &[CaptureFile], _made_by: &MadeBy) -> io::Result<()> {
        (*self).finish(captures).map(|_| ())
    }
    fn name(&self) -> String {
        "standard output".to_owned()
    }
}

impl Output for Top {
    fn finish(mut self: Box<Self>, captures: &[CaptureFile], _made_by: &MadeBy) -> io::Result<()> {
        self.thin();
        let mut out = io::stdout().lock();
        out.write_all(table(captures, &self.flows, self.all_flows).as_bytes())?;
        out.flush()
    }
    fn name(&self) -> String {
        "standard output".to_owned()
    }
}

/// The HTML report.
struct Page {
    file: BufWriter<File>,
    path: PathBuf,
    page: CapturePage,
}

impl Sink for Page {
    fn on_flow(&mut self, flow: &FlowReport) {
        self.page.on_flow(flow);
    }
    fn on_event(&mut self, event: &Event) {
        self.page.on_event(event);
    }
    fn wants_packets(&self) -> bool {
        true
    }
    fn on_packet(&mut self, packet: &PacketView<'_>) {
        self.page.on_packet(packet);
    }
}

impl Output for Page {
    fn finish(mut self: Box<Self>, captures: &[CaptureFile], made_by: &MadeBy) -> io::Result<()> {
        self.page.write(&mut self.file, made_by, captures)?;
        self.file.flush()
    }
    fn name(&self) -> String {
        self.path.display().to_string()
    }
}
