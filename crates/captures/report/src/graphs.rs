//! Graphs for old workflows: xplot's `.xpl` in the language of tcptrace, and data with scripts for gnuplot.

mod drawing;
mod xplot;

use std::collections::BTreeMap;
use std::fs::{self, OpenOptions};
use std::io::{self, Write};
use std::path::PathBuf;

use analysis::{FlowReport, PacketView};

use drawing::Drawing;

/// Choice of graphs: tcptrace's letters.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Wanted {
    /// `T`
    pub throughput: bool,
    /// `R`
    pub rtt: bool,
    /// `S`
    pub sequence: bool,
    /// `N`
    pub outstanding: bool,
    /// `F`
    pub segment_size: bool,
}

impl Wanted {
    /// Reads tcptrace's letters; `G` is all.
    ///
    /// # Errors
    /// A letter that is none of them.
    pub fn parse(letters: &str) -> Result<Self, String> {
        let mut wanted = Self::default();
        for letter in letters.chars() {
            let all = letter == 'G';
            match letter {
                'T' | 'R' | 'S' | 'N' | 'F' | 'G' => {}
                other => {
                    return Err(format!(
                        "{other:?} is no graph: T throughput, R round-trip time, S time-sequence, N \
                         outstanding data, F segment size, G all"
                    ));
                }
            }
            wanted.throughput |= all || letter == 'T';
            wanted.rtt |= all || letter == 'R';
            wanted.sequence |= all || letter == 'S';
            wanted.outstanding |= all || letter == 'N';
            wanted.segment_size |= all || letter == 'F';
        }
        Ok(wanted)
    }
}

/// The format of graphs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum GraphFormat {
    /// xplot's commands: one `.xpl` file per graph.
    Xplot,
    /// Columns: one `.dat` file per series, and a `.gp` script per graph.
    Gnuplot,
}

/// A pen: what is drawn with it has one meaning, and is one series for gnuplot.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Pen {
    pub(crate) name: &'static str,
    pub(crate) colour: &'static str,
}

/// One mark on a graph. Times are nanoseconds since 1970, the other axis is the graph's.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum Mark {
    Line(u64, f64, u64, f64),
    /// A named shape of xplot at a point.
    Shape(&'static str, u64, f64),
    /// Text above a point.
    Text(&'static str, u64, f64),
    /// Text below a point.
    TextBelow(&'static str, u64, f64),
}

/// Bytes of a file held before they are written.
const HELD_MAX: usize = 64 << 10;

/// Writes graphs of all flows into a folder while packets come.
#[derive(Debug)]
pub struct Graphs {
    folder: PathBuf,
    wanted: Wanted,
    format: GraphFormat,
    /// Drawings of flows in progress, two directions each.
    drawings: BTreeMap<u64, [Drawing; 2]>,
    files: BTreeMap<String, Vec<u8>>,
    /// Scripts for gnuplot: graph to series.
    series: BTreeMap<String, BTreeMap<Pen, bool>>,
    failed: Option<io::Error>,
}

impl Graphs {
    /// Graphs into `folder`, which is made if it is not there.
    ///
    /// # Errors
    /// It cannot be made.
    pub fn new(folder: PathBuf, wanted: Wanted, format: GraphFormat) -> io::Result<Self> {
        fs::create_dir_all(&folder)?;
        Ok(Self {
            folder,
            wanted,
            format,
            drawings: BTreeMap::new(),
            files: BTreeMap::new(),
            series: BTreeMap::new(),
            failed: None,
        })
    }

    /// Draws one packet: as data of its direction, and as an answer to the other.
    pub fn push(&mut self, packet: &PacketView<'_>) {
        let wanted = self.wanted;
        let drawings =
            self.drawings.entry(packet.flow).or_insert_with(|| [0, 1].map(|_| Drawing::new(wanted)));
        let own = usize::from(packet.direction);
        let mut marks = Vec::new();
        drawings[own].on_data(packet, &mut |graph, pen, mark| marks.push((own, graph, pen, mark)));
        drawings[1 - own].on_answer(packet, &mut |graph, pen, mark| marks.push((1 - own, graph, pen, mark)));
        for (direction, graph, pen, mark) in marks {
            self.draw(packet.flow, direction, graph, pen, mark);
        }
    }

    fn draw(&mut self, flow: u64, direction: usize, graph: &'static str, pen: Pen, mark: Mark) {
        let base = file_base(flow, direction, graph);
        let (name, bytes) = match self.format {
            GraphFormat::Xplot => (format!("{base}.xpl"), xplot::mark(pen, mark)),
            GraphFormat::Gnuplot => {
                let is_line = matches!(mark, Mark::Line(..));
                *self.series.entry(base.clone()).or_default().entry(pen).or_default() |= is_line;
                (format!("{base}_{}.dat", pen.name), xplot::columns(mark))
            }
        };
        let is_new = !self.files.contains_key(&name);
        if is_new {
            // Files of an earlier run must not be continued.
            let _ = fs::remove_file(self.folder.join(&name));
        }
        let held = self.files.entry(name.clone()).or_default();
        if is_new && self.format == GraphFormat::Xplot {
            held.extend(xplot::header(graph, flow, direction));
        }
        held.extend(bytes);
        if held.len() > HELD_MAX {
            self.write(&name);
        }
    }

    /// Appends what is held of a file.
    fn write(&mut self, name: &str) {
        let Some(held) = self.files.get_mut(name) else { return };
        let bytes = std::mem::take(held);
        if self.failed.is_none() {
            let opened = OpenOptions::new().create(true).append(true).open(self.folder.join(name));
            self.failed = opened.and_then(|mut file| file.write_all(&bytes)).err();
        }
    }

    /// The flow has ended: its files are completed.
    pub fn on_flow(&mut self, flow: &FlowReport) {
        self.drawings.remove(&flow.id);
        for direction in [0, 1] {
            let prefix = format!("{}_", direction_name(flow.id, direction));
            let names: Vec<String> =
                self.files.keys().filter(|name| name.starts_with(&prefix)).cloned().collect();
            for name in names {
                if self.format == GraphFormat::Xplot
                    && let Some(held) = self.files.get_mut(&name)
                {
                    held.extend(b"go\n");
                }
                self.write(&name);
                self.files.remove(&name);
            }
            self.write_scripts(flow, direction, &prefix);
        }
    }

    fn write_scripts(&mut self, flow: &FlowReport, direction: usize, prefix: &str) {
        let graphs: Vec<String> =
            self.series.keys().filter(|graph| graph.starts_with(prefix)).cloned().collect();
        for graph in graphs {
            let Some(series) = self.series.remove(&graph) else { continue };
            let ends = if direction == 0 { (flow.first, flow.second) } else { (flow.second, flow.first) };
            let script = xplot::script(&graph, &format!("{} to {}", ends.0, ends.1), &series);
            if self.failed.is_none() {
                self.failed = fs::write(self.folder.join(format!("{graph}.gp")), script).err();
            }
        }
    }

    /// Ends all graphs.
    ///
    /// # Errors
    /// A file could not be written.
    pub fn finish(self) -> io::Result<()> {
        self.failed.map_or(Ok(()), Err)
    }
}

/// tcptrace's names of a flow's directions: `a2b`, `b2a`, `c2d`, … and after `z` two letters.
fn direction_name(flow: u64, direction: usize) -> String {
    let ends = [letters(2 * flow), letters(2 * flow + 1)];
    format!("{}2{}", ends[direction], ends[1 - direction])
}

fn letters(mut index: u64) -> String {
    let mut name = Vec::new();
    loop {
        name.push(b'a' + (index % 26) as u8);
        index /= 26;
        if index == 0 {
            break;
        }
        index -= 1;
    }
    name.reverse();
    String::from_utf8_lossy(&name).into_owned()
}

fn file_base(flow: u64, direction: usize, graph: &str) -> String {
    format!("{}_{graph}", direction_name(flow, direction))
}

#[cfg(test)]
mod tests;
