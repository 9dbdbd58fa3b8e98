//! Outputs for the results: any number of outputs from one reading of the captures.

use std::fs::File;
use std::io::{self, BufWriter, Stdout, Write};
use std::path::{Path, PathBuf};

use analysis::{DocumentWriter, Event, Findings, FlowReport, MadeBy, PacketView, Sink};
use anyhow::{Context, Result, bail};
use report::{CaptureId, CapturePage, Dataset, FlowLines, GraphFormat, Graphs, LineFormat, PerfettoTrace};

use super::Args;
use super::annotate::Verdicts;
use super::inputs::Input;
use super::table::{Top, table};
use crate::output::Words;

/// One output.
trait Output: Sink {
    /// Writes what is left to write.
    fn finish(self: Box<Self>, findings: &Findings, made_by: &MadeBy) -> io::Result<()>;
    /// Name of the output, for messages.
    fn name(&self) -> String;
}

/// All outputs that were asked for.
pub(super) struct Outputs {
    all: Vec<Box<dyn Output>>,
    /// Those of `all` that want packets.
    of_packets: Vec<usize>,
    /// Comments for packets, and the file for them.
    verdicts: Option<(Verdicts, BufWriter<File>)>,
}

impl Outputs {
    /// Opens all files, so that one that cannot be written is said before the captures are read.
    pub(super) fn open(args: &Args, inputs: &[Input], made_by: &MadeBy) -> Result<Self> {
        check(args, inputs)?;
        let mut all: Vec<Box<dyn Output>> = Vec::new();
        let uses_stdout = [&args.csv, &args.jsonl].iter().any(|path| path.as_deref().is_some_and(is_stdout));
        if args.json {
            let out = BufWriter::new(io::stdout());
            all.push(Box::new(DocumentWriter::new(out, made_by, args.events)));
        } else if !uses_stdout {
            all.push(Box::new(Top::new(args.top)));
        }
        for (path, format) in [(&args.csv, LineFormat::Csv), (&args.jsonl, LineFormat::Json)] {
            if let Some(path) = path {
                let name = path.display().to_string();
                let files = inputs.iter().map(capture::CaptureSource::name).collect();
                let lines = FlowLines::new(create(path)?, format, files).with_context(|| name.clone())?;
                all.push(Box::new(Lines { lines, name }));
            }
        }
        if let Some(path) = &args.html {
            all.push(Box::new(Page { file: create(path)?, path: path.clone(), page: CapturePage::new() }));
        }
        if let Some(path) = &args.perfetto {
            let name = path.display().to_string();
            all.push(Box::new(Trace { trace: PerfettoTrace::new(create(path)?), name }));
        }
        if let Some(root) = &args.parquet {
            all.push(Box::new(Stored::open(root, &args.env, inputs, made_by)?));
        }
        if let Some(wanted) = args.graphs {
            let folder = args.graphs_to.clone();
            let format = if args.gnuplot { GraphFormat::Gnuplot } else { GraphFormat::Xplot };
            let name = folder.display().to_string();
            let graphs = Graphs::new(folder, wanted, format).with_context(|| name.clone())?;
            all.push(Box::new(Drawn { graphs, name }));
        }
        let verdicts = match &args.annotate {
            Some(path) => Some((Verdicts::new(args.one_point), BufWriter::new(create_file(path)?))),
            None => None,
        };
        let of_packets = (0..all.len()).filter(|index| all[*index].wants_packets()).collect();
        Ok(Self { all, of_packets, verdicts })
    }

    /// Writes everything; `again` gives the captures for a second reading.
    pub(super) fn finish(
        self,
        findings: &Findings,
        made_by: &MadeBy,
        again: impl FnOnce() -> Result<Vec<Input>>,
    ) -> Result<()> {
        for output in self.all {
            let name = output.name();
            match output.finish(findings, made_by) {
                Err(error) if error.kind() != io::ErrorKind::BrokenPipe => {
                    return Err(error).with_context(|| format!("{name}: writing the result failed"));
                }
                _ if name != STDOUT => eprintln!("wrote {name}"),
                _ => {}
            }
        }
        if let Some((verdicts, file)) = self.verdicts {
            let inputs = again()?;
            if inputs.iter().any(|input| !capture::CaptureSource::can_reopen(input)) {
                bail!(
                    "--annotate reads the captures twice, which standard input and pipes do not allow: name \
                     files"
                );
            }
            verdicts.write(file, inputs).context("writing comments failed")?;
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
        if let Some((verdicts, _)) = &mut self.verdicts {
            verdicts.on_event(event);
        }
    }
    fn wants_packets(&self) -> bool {
        !self.of_packets.is_empty() || self.verdicts.is_some()
    }
    fn on_packet(&mut self, packet: &PacketView<'_>) {
        for index in &self.of_packets {
            self.all[*index].on_packet(packet);
        }
        if let Some((verdicts, _)) = &mut self.verdicts {
            verdicts.on_packet(packet);
        }
    }
}

/// The files that are written, and the flags that name them.
fn files(args: &Args) -> impl Iterator<Item = (&'static str, &Path)> {
    let files = [
        ("--html", &args.html),
        ("--csv", &args.csv),
        ("--jsonl", &args.jsonl),
        ("--perfetto", &args.perfetto),
        ("--annotate", &args.annotate),
    ];
    files.into_iter().filter_map(|(flag, path)| Some((flag, path.as_deref()?)))
}

/// That no capture would be overwritten, and one output at most goes to standard output.
pub(super) fn check(args: &Args, inputs: &[Input]) -> Result<()> {
    for (flag, path) in files(args).filter(|(_, path)| !is_stdout(path)) {
        let name = path.display();
        if inputs.iter().any(|input| input.is_at(path)) {
            bail!("{flag} {name}: that is a capture to be read: choose another name");
        }
    }
    let mut to_stdout: Vec<&str> =
        files(args).filter(|(_, path)| is_stdout(path)).map(|(flag, _)| flag).collect();
    to_stdout.extend(args.json.then_some("--json"));
    match to_stdout[..] {
        [first, second, ..] => {
            bail!("{first} and {second} both go to standard output: name a file for one of them")
        }
        _ => Ok(()),
    }
}

/// Something to write to.
type Writer = Box<dyn Write + Send>;

/// Name of standard output in messages.
const STDOUT: &str = "standard output";

fn is_stdout(path: &Path) -> bool {
    path.as_os_str() == "-"
}

/// A file, or standard output for `-`.
fn create(path: &Path) -> Result<Writer> {
    if is_stdout(path) {
        return Ok(Box::new(BufWriter::new(io::stdout())));
    }
    Ok(Box::new(BufWriter::new(create_file(path)?)))
}

fn create_file(path: &Path) -> Result<File> {
    File::create(path).with_context(|| format!("{}: cannot be written", path.display()))
}

impl Output for DocumentWriter<BufWriter<Stdout>> {
    fn finish(self: Box<Self>, findings: &Findings, _made_by: &MadeBy) -> io::Result<()> {
        (*self).finish(findings).map(|_| ())
    }
    fn name(&self) -> String {
        STDOUT.to_owned()
    }
}

impl Output for Top {
    fn finish(mut self: Box<Self>, findings: &Findings, _made_by: &MadeBy) -> io::Result<()> {
        self.thin();
        let mut out = io::stdout().lock();
        out.write_all(table(findings, &self, Words::default().columns()).as_bytes())?;
        out.flush()
    }
    fn name(&self) -> String {
        STDOUT.to_owned()
    }
}

/// The HTML report.
struct Page {
    file: Writer,
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
    fn finish(mut self: Box<Self>, findings: &Findings, made_by: &MadeBy) -> io::Result<()> {
        self.page.write(&mut self.file, made_by, findings)?;
        self.file.flush()
    }
    fn name(&self) -> String {
        self.path.display().to_string()
    }
}

/// One line per flow.
struct Lines {
    lines: FlowLines<Writer>,
    name: String,
}

impl Sink for Lines {
    fn on_flow(&mut self, flow: &FlowReport) {
        self.lines.push(flow);
    }
}

impl Output for Lines {
    fn finish(self: Box<Self>, _findings: &Findings, _made_by: &MadeBy) -> io::Result<()> {
        self.lines.finish()
    }
    fn name(&self) -> String {
        self.name.clone()
    }
}

/// A trace for Perfetto.
struct Trace {
    trace: PerfettoTrace<Writer>,
    name: String,
}

impl Sink for Trace {
    fn on_flow(&mut self, flow: &FlowReport) {
        self.trace.on_flow(flow);
    }
    fn on_event(&mut self, event: &Event) {
        self.trace.on_event(event);
    }
    fn wants_packets(&self) -> bool {
        true
    }
    fn on_packet(&mut self, packet: &PacketView<'_>) {
        self.trace.push(packet);
    }
}

impl Output for Trace {
    fn finish(self: Box<Self>, _findings: &Findings, _made_by: &MadeBy) -> io::Result<()> {
        self.trace.finish()
    }
    fn name(&self) -> String {
        self.name.clone()
    }
}

/// Tables of a dataset.
pub(super) struct Stored {
    dataset: Dataset,
    name: String,
}

impl Stored {
    /// Opens the dataset in the folder `root`.
    pub(super) fn open(root: &Path, env: &str, inputs: &[Input], made_by: &MadeBy) -> Result<Self> {
        let name = root.display().to_string();
        std::fs::create_dir_all(root).with_context(|| format!("{name}: cannot be made"))?;
        let ids: Result<Vec<(CaptureId, String)>> =
            inputs.iter().map(|input| Ok((input.identity()?, capture::CaptureSource::name(input)))).collect();
        Ok(Self { dataset: Dataset::new(root, env, ids?, made_by), name })
    }
}

impl Sink for Stored {
    fn on_flow(&mut self, flow: &FlowReport) {
        self.dataset.on_flow(flow);
    }
    fn on_event(&mut self, event: &Event) {
        self.dataset.on_event(event);
    }
    fn wants_packets(&self) -> bool {
        self.dataset.wants_packets()
    }
    fn on_packet(&mut self, packet: &PacketView<'_>) {
        self.dataset.on_packet(packet);
    }
}

impl Output for Stored {
    fn finish(self: Box<Self>, findings: &Findings, _made_by: &MadeBy) -> io::Result<()> {
        self.dataset.finish(findings).map(|_| ())
    }
    fn name(&self) -> String {
        self.name.clone()
    }
}

/// Graphs for xplot or gnuplot.
struct Drawn {
    graphs: Graphs,
    name: String,
}

impl Sink for Drawn {
    fn on_flow(&mut self, flow: &FlowReport) {
        self.graphs.on_flow(flow);
    }
    fn wants_packets(&self) -> bool {
        true
    }
    fn on_packet(&mut self, packet: &PacketView<'_>) {
        self.graphs.push(packet);
    }
}

impl Output for Drawn {
    fn finish(self: Box<Self>, _findings: &Findings, _made_by: &MadeBy) -> io::Result<()> {
        self.graphs.finish()
    }
    fn name(&self) -> String {
        self.name.clone()
    }
}
