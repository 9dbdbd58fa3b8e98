//! [`PathResults`]: what was measured, and what it comes to.

use serde::Serialize;

use crate::path::{PathBenchmark, Reading};
use crate::{Machine, Way};

/// Name and version of the document; its schema is `schemas/bench-results.schema.json`.
pub const SCHEMA: &str = "cellerator/bench-results/1";

/// Everything that one benchmark of the data path found out.
#[derive(Clone, Debug, Serialize)]
pub struct PathResults {
    /// [`SCHEMA`].
    pub schema: String,
    /// What was measured: `path`.
    pub benchmark: String,
    /// Version of cellerator.
    pub cellerator: String,
    /// The command line.
    pub command: String,
    /// When it ended: seconds since 1970-01-01 UTC.
    pub ended_unix_s: u64,
    /// Where.
    pub machine: Machine,
    /// Of the sender.
    pub congestion_control: String,
    /// Time measured in each run.
    pub seconds: f64,
    /// Rounds in which every way was measured once.
    pub rounds: u32,
    /// Share of processor time that others used just before each round, 0 to 1.
    pub busy_before: Vec<f64>,
    /// One row per way and number of flows.
    pub rows: Vec<Row>,
    /// Every run, in the order made.
    pub runs: Vec<Run>,
}

/// One way through the box with one number of flows, over all rounds.
#[derive(Clone, Debug, Serialize)]
pub struct Row {
    /// [`Way::name`].
    pub way: &'static str,
    /// The command in the box, if any.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub in_the_box: Option<String>,
    /// Flows side by side.
    pub flows: usize,
    /// What the client read.
    pub goodput_gbps: Spread,
    /// Goodput divided by the bare echo's in the same round.
    pub ratio_to_echo: Spread,
    /// Processor seconds of the program in the box per 10⁹ bytes read.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub box_cpu_s_per_gb: Option<Spread>,
    /// Processor seconds of the whole machine per 10⁹ bytes read: both ends, the kernel, and whatever else ran.
    pub machine_cpu_s_per_gb: Spread,
    /// Segments the server sent again, in all rounds.
    pub retransmitted_segments: u64,
}

/// One run.
#[derive(Clone, Debug, Serialize)]
pub struct Run {
    /// [`Way::name`].
    pub way: &'static str,
    /// Flows side by side.
    pub flows: usize,
    /// Round, from 1.
    pub round: u32,
    /// What the client read.
    pub goodput_gbps: f64,
    /// Processor seconds of the program in the box per 10⁹ bytes read, if there is one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub box_cpu_s_per_gb: Option<f64>,
    /// Processor seconds of the whole machine per 10⁹ bytes read.
    pub machine_cpu_s_per_gb: f64,
    /// Segments the server sent again.
    pub retransmitted_segments: u64,
}

/// Median and extremes.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Spread {
    /// The middle value; of an even number, the mean of the middle two.
    pub median: f64,
    /// The smallest.
    pub min: f64,
    /// The largest.
    pub max: f64,
}

impl Spread {
    /// Of some values; `None` of none.
    #[must_use]
    pub fn of(values: impl IntoIterator<Item = f64>) -> Option<Self> {
        let mut values: Vec<f64> = values.into_iter().collect();
        values.sort_by(f64::total_cmp);
        let (&min, &max) = (values.first()?, values.last()?);
        let middle = values.len() / 2;
        let median = if values.len() % 2 == 1 {
            values[middle]
        } else {
            f64::midpoint(values[middle - 1], values[middle])
        };
        Some(Self { median: rounded(median), min: rounded(min), max: rounded(max) })
    }
}

/// To four digits behind the point: more would be noise.
fn rounded(value: f64) -> f64 {
    (value * 1e4).round() / 1e4
}

impl Run {
    /// From the counters at its begin and end.
    pub(crate) fn between(way: Way, flows: usize, round: u32, begin: &Reading, end: &Reading) -> Self {
        let bytes = (end.received - begin.received) as f64;
        let seconds = end.at.saturating_since(begin.at).as_secs_f64();
        let gigabytes = bytes / 1e9;
        let ticks = end.machine.busy.saturating_sub(begin.machine.busy) as f64;
        let box_cpu_s = begin.box_cpu_s.zip(end.box_cpu_s).map(|(begin, end)| end - begin);
        Self {
            way: way.name(),
            flows,
            round,
            goodput_gbps: rounded(bytes * 8.0 / 1e9 / seconds),
            box_cpu_s_per_gb: box_cpu_s.map(|seconds| rounded(seconds / gigabytes)),
            machine_cpu_s_per_gb: rounded(ticks / 100.0 / gigabytes),
            retransmitted_segments: end.retransmitted.saturating_sub(begin.retransmitted),
        }
    }

    /// A line for a person who watches.
    #[must_use]
    pub fn line(&self) -> String {
        let flows = if self.flows == 1 { "1 flow ".to_owned() } else { format!("{} flows", self.flows) };
        let cpu = self.box_cpu_s_per_gb.map_or(String::new(), |cpu| format!(", {cpu:.2} s/GB in the box"));
        format!("{:<17} {flows}  {:6.2} Gbit/s{cpu}", self.way, self.goodput_gbps)
    }
}

impl PathResults {
    /// What `runs` come to.
    pub(crate) fn new(
        benchmark: &PathBenchmark,
        machine: Machine,
        congestion_control: String,
        busy_before: Vec<f64>,
        runs: Vec<Run>,
    ) -> Self {
        Self {
            schema: SCHEMA.to_owned(),
            benchmark: "path".to_owned(),
            cellerator: benchmark.version.clone(),
            command: benchmark.command.clone(),
            ended_unix_s: io::Clock::wall_nanos() / 1_000_000_000,
            machine,
            congestion_control,
            seconds: rounded(benchmark.time.as_secs_f64()),
            rounds: benchmark.rounds,
            busy_before: busy_before.into_iter().map(rounded).collect(),
            rows: rows(&runs),
            runs,
        }
    }

    /// The largest share of processor time that others used just before a round.
    #[must_use]
    pub fn busiest(&self) -> f64 {
        self.busy_before.iter().copied().fold(0.0, f64::max)
    }

    /// The row of `way` with `flows` flows.
    #[must_use]
    pub fn row(&self, way: Way, flows: usize) -> Option<&Row> {
        self.rows.iter().find(|row| row.way == way.name() && row.flows == flows)
    }
}

fn rows(runs: &[Run]) -> Vec<Row> {
    let mut flow_counts: Vec<usize> = runs.iter().map(|run| run.flows).collect();
    flow_counts.sort_unstable();
    flow_counts.dedup();
    let cases = flow_counts.iter().flat_map(|&flows| Way::ALL.map(|way| (way, flows)));
    cases.filter_map(|(way, flows)| row(runs, way, flows)).collect()
}

fn row(runs: &[Run], way: Way, flows: usize) -> Option<Row> {
    let of = |way: Way| runs.iter().filter(move |run| run.way == way.name() && run.flows == flows);
    let echo_of = |round| of(Way::Echo).find(|run| run.round == round).map(|run| run.goodput_gbps);
    let ratios = of(way).filter_map(|run| echo_of(run.round).map(|echo| run.goodput_gbps / echo));
    let command = way.arguments("IF", "IF").map(|arguments| {
        let quoted =
            arguments.iter().map(|word| if word.contains(' ') { format!("'{word}'") } else { word.clone() });
        std::iter::once("cellerator".to_owned()).chain(quoted).collect::<Vec<_>>().join(" ")
    });
    Some(Row {
        way: way.name(),
        in_the_box: command,
        flows,
        goodput_gbps: Spread::of(of(way).map(|run| run.goodput_gbps))?,
        ratio_to_echo: Spread::of(ratios)?,
        box_cpu_s_per_gb: Spread::of(of(way).filter_map(|run| run.box_cpu_s_per_gb)),
        machine_cpu_s_per_gb: Spread::of(of(way).map(|run| run.machine_cpu_s_per_gb))?,
        retransmitted_segments: of(way).map(|run| run.retransmitted_segments).sum(),
    })
}

#[cfg(test)]
#[path = "figures/tests.rs"]
mod tests;
