//! Marks as xplot's commands and as columns for gnuplot.

use std::collections::BTreeMap;
use std::fmt::Write as _;

use super::{Mark, Pen};

/// The head of an `.xpl` file.
pub(super) fn header(graph: &str, flow: u64, direction: usize) -> Vec<u8> {
    let (title, axis, kind) = match graph {
        "tsg" => ("time sequence graph", "sequence number", "unsigned"),
        "tput" => ("throughput", "throughput (bytes/s)", "double"),
        "rtt" => ("round-trip time", "RTT (ms)", "double"),
        "owin" => ("outstanding data", "outstanding data (bytes)", "double"),
        _ => ("segment size", "segment size (bytes)", "double"),
    };
    let ends = if direction == 0 { "1 to 2" } else { "2 to 1" };
    format!("timeval {kind}\ntitle\nflow {flow}, {ends}: {title}\nxlabel\ntime\nylabel\n{axis}\n")
        .into_bytes()
}

/// Seconds with microseconds, as a timeval.
fn seconds(ns: u64) -> String {
    format!("{}.{:06}", ns / 1_000_000_000, ns % 1_000_000_000 / 1_000)
}

/// A place on the other axis: positions in a stream as the 32-bit sequence numbers that they are on the wire.
fn place(value: f64) -> String {
    if value.fract() == 0.0 { format!("{}", value as u64 as u32) } else { format!("{value:.3}") }
}

/// A mark as commands.
pub(super) fn mark(pen: Pen, mark: Mark) -> Vec<u8> {
    let colour = pen.colour;
    let text = match mark {
        Mark::Line(x1, y1, x2, y2) => {
            format!("{colour}\nline {} {} {} {}\n", seconds(x1), place(y1), seconds(x2), place(y2))
        }
        Mark::Shape(shape, x, y) => format!("{colour}\n{shape} {} {}\n", seconds(x), place(y)),
        Mark::Text(text, x, y) => format!("{colour}\natext {} {}\n{text}\n", seconds(x), place(y)),
        Mark::TextBelow(text, x, y) => format!("{colour}\nbtext {} {}\n{text}\n", seconds(x), place(y)),
    };
    text.into_bytes()
}

/// A mark as columns: lines are two points and a blank line, texts have a third column.
pub(super) fn columns(mark: Mark) -> Vec<u8> {
    let text = match mark {
        Mark::Line(x1, y1, x2, y2) => {
            format!("{} {}\n{} {}\n\n", seconds(x1), place(y1), seconds(x2), place(y2))
        }
        Mark::Shape(_, x, y) => format!("{} {}\n\n", seconds(x), place(y)),
        Mark::Text(text, x, y) | Mark::TextBelow(text, x, y) => {
            format!("{} {} \"{text}\"\n\n", seconds(x), place(y))
        }
    };
    text.into_bytes()
}

/// A gnuplot script that draws a graph's series: lines where there are lines, else points.
pub(super) fn script(graph: &str, ends: &str, series: &BTreeMap<Pen, bool>) -> String {
    let mut text = format!(
        "# gnuplot -p {graph}.gp\nset title \"{ends}\"\nset xlabel \"time (s)\"\nset key outside\nplot \\\n"
    );
    let lines: Vec<String> = series
        .iter()
        .map(|(pen, is_line)| {
            let colour = match pen.colour {
                "white" => "black",
                "yellow" => "goldenrod",
                other => other,
            };
            let style = if *is_line {
                "linespoints pointtype 7 pointsize 0.2"
            } else {
                "points pointtype 7 pointsize 0.4"
            };
            format!(
                "  \"{graph}_{0}.dat\" using 1:2 with {style} linecolor \"{colour}\" title \"{0}\"",
                pen.name
            )
        })
        .collect();
    let _ = writeln!(text, "{}", lines.join(", \\\n"));
    text
}
