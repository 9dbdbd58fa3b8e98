//! [MA] Table 5: a download of 68 MB over LTE, at four signal strengths.

mod client;
mod held_back;
mod losses;

use figures::stats::Moments;

use self::losses::Losses;
use super::mean;
use crate::case_id::case_ids;
use crate::experiment::built_in;
use crate::runs::{least, most};
use crate::{
    Axis, CaseId, Check, Context, Experiment, Facts, Figure, InLab, Outcome, Paper, ReproduceError, Runs,
    Series, Source, Table,
};

pub(crate) const EXPERIMENT: Experiment = Experiment {
    name: "ma-table-5",
    paper: Paper::Ma,
    part: "Table 5",
    prose: built_in!("ma/table-5.md"),
    files: &[
        built_in!("ma/table-5-64.toml"),
        built_in!("ma/table-5-81.toml"),
        built_in!("ma/table-5-90.toml"),
        built_in!("ma/table-5-110.toml"),
        built_in!("ma/table-5-fades.toml"),
        built_in!("ma/table-5-held-back.toml"),
        built_in!("ma/table-5-client.toml"),
        built_in!("ma/table-5-64-lab.toml"),
        built_in!("ma/table-5-110-lab.toml"),
    ],
    seconds: 240,
    lab: InLab::Takes(710),
    run,
};

/// A column of the paper: its scenario, {RSRP, SINR}, and accelerated, normal TCP and maximum UDP in Mbit/s.
struct Printed {
    file: &'static str,
    signal: &'static str,
    accelerated: f64,
    normal: f64,
    udp: f64,
}

/// [MA] Table 5.
const PAPER: [Printed; 4] = [
    Printed { file: "ma/table-5-64.toml", signal: "{−64, 27}", accelerated: 74.0, normal: 34.0, udp: 81.0 },
    Printed { file: "ma/table-5-81.toml", signal: "{−81, 27}", accelerated: 73.0, normal: 36.0, udp: 80.0 },
    Printed { file: "ma/table-5-90.toml", signal: "{−90, 27}", accelerated: 53.0, normal: 30.0, udp: 55.0 },
    Printed {
        file: "ma/table-5-110.toml", signal: "{−110, 15}", accelerated: 47.0, normal: 27.0, udp: 50.0
    },
];
const LAB_FILES: [&str; 2] = ["ma/table-5-64.toml", "ma/table-5-110.toml"];
const CASES: [(Flow, Source); 4] = [
    (Flow::Accelerated17, Source::Ours),
    (Flow::Accelerated1024, Source::Ours),
    (Flow::Adaptive17, Source::Adaptive),
    (Flow::Adaptive1024, Source::Adaptive),
];

case_ids! {
    /// The cases of the four files on links that lose by time, and of `ma/table-5-fades.toml`.
    pub(super) enum Flow {
        Normal = "normal TCP, 1024 KB",
        Udp = "maximum UDP",
        Accelerated17 = "accelerated, 17 KB",
        Accelerated1024 = "accelerated, 1024 KB",
        Adaptive17 = "adaptive, 17 KB",
        Adaptive1024 = "adaptive, 1024 KB",
    }
}

/// Manner of loss on the links of the four files: by time, or by packet.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Losing {
    ByTime,
    ByPacket,
}

/// A case of the four files.
impl CaseId for (Flow, Losing) {
    fn all() -> Vec<Self> {
        Flow::all().into_iter().flat_map(|flow| [(flow, Losing::ByTime), (flow, Losing::ByPacket)]).collect()
    }
    fn name(self) -> String {
        let end = if self.1 == Losing::ByPacket { ", losses by packet" } else { "" };
        format!("{}{end}", self.0.label())
    }
}

impl Printed {
    /// Accelerated over maximum UDP.
    fn ratio(&self) -> f64 {
        self.accelerated / self.udp
    }
}

/// Runs of the four files.
type FourFiles = Runs<(Flow, Losing)>;

/// The case on a link that loses by time.
const fn by_time(flow: Flow) -> (Flow, Losing) {
    (flow, Losing::ByTime)
}

/// A column of the paper's table, and its runs.
struct Column {
    printed: &'static Printed,
    runs: FourFiles,
    by_time: Option<Losses>,
    by_packet: Option<Losses>,
}

/// The number of a time such as `255 ms`.
fn milliseconds(time: &str) -> f64 {
    time.trim_end_matches(" ms").parse().unwrap_or(f64::NAN)
}

fn column(context: &mut Context<'_>, printed: &'static Printed) -> Result<Column, ReproduceError> {
    let scenario = context.scenario(printed.file)?;
    let runs = context.run(&scenario)?;
    let [by_time, by_packet] =
        [Losing::ByTime, Losing::ByPacket].map(|losing| Losses::of(&runs, &scenario, |flow| (flow, losing)));
    Ok(Column { printed, runs, by_time, by_packet })
}

fn run(context: &mut Context<'_>) -> Result<Outcome, ReproduceError> {
    // In the lab, where time is real, the strongest and the weakest signal only.
    let is_lab = context.is_lab();
    let mut columns = Vec::new();
    for printed in PAPER.iter().filter(|printed| !is_lab || LAB_FILES.contains(&printed.file)) {
        columns.push(column(context, printed)?);
    }
    let mut tables = vec![goodputs(&columns), ratios(&columns), queues(&columns), losses::bounds(&columns)];
    let mut checks = checks(&columns);
    if is_lab {
        tables.push(client::table(context)?);
    } else {
        tables.extend([losses::lengths(context, &PAPER[2])?, losses::by_packet(&columns)]);
        let held_back = held_back::runs(context)?;
        tables.push(held_back::table(&held_back));
        checks.extend(held_back::checks(&held_back));
    }
    Ok(Outcome {
        facts: facts(&columns),
        tables,
        figures: vec![figure(&columns)],
        checks,
        ..Outcome::default()
    })
}

fn share(runs: &FourFiles, case: Flow) -> f64 {
    mean(runs.goodput(by_time(case))) / mean(runs.goodput(by_time(Flow::Udp)))
}

fn checks(columns: &[Column]) -> Vec<Check> {
    let mut checks = Vec::new();
    for Column { printed, runs, .. } in columns {
        for (case, _) in CASES {
            let claim = format!("{}, over maximum UDP at {}, as in the paper", case.label(), printed.signal);
            checks.push(Check::at_least(claim, share(runs, case), printed.ratio()));
        }
    }
    for Column { printed, runs, .. } in columns {
        let pairs = [
            ("1024 KB", Flow::Adaptive1024, Flow::Accelerated1024),
            ("17 KB", Flow::Adaptive17, Flow::Accelerated17),
        ];
        for (window, adaptive, accelerated) in pairs {
            let claim =
                format!("adaptive's queue p95 at {}, ms, against accelerated's, {window}", printed.signal);
            let queue = |flow: Flow| mean(runs.queue_p95(by_time(flow)));
            checks.push(Check::at_most(claim, queue(adaptive), queue(accelerated)));
        }
    }
    checks
}

fn facts(columns: &[Column]) -> Facts {
    let shares =
        |case: Flow| columns.iter().map(|column| share(&column.runs, case)).collect::<Vec<_>>().into();
    let range = |of: &dyn Fn(&Column) -> Option<f64>| {
        let values = || columns.iter().filter_map(of);
        (least(values()).into(), most(values()).into())
    };
    let normal = range(&|column| Some(column.by_packet?.under_normal));
    let by_packet = range(&|column| Some(column.by_packet?.per_second));
    let by_time = range(&|column| Some(column.by_time?.per_second));
    Facts::of([
        ("accelerated_large", shares(CASES[1].0)),
        ("accelerated_small", shares(CASES[0].0)),
        ("adaptive_large", shares(CASES[3].0)),
        ("adaptive_small", shares(CASES[2].0)),
        ("least_events_normal", normal.0),
        ("most_events_normal", normal.1),
        ("least_events", by_packet.0),
        ("most_events", by_packet.1),
        ("least_fades", by_time.0),
        ("most_fades", by_time.1),
    ])
}

fn goodputs(columns: &[Column]) -> Table {
    let mut table = Table::new("Goodput of downloads", "{RSRP, SINR}")
        .column(Source::Paper, "accelerated", "Mbit/s", 0)
        .columns(CASES.map(|(case, source)| (source, case.label())), "Mbit/s", 1)
        .column(Source::Paper, "normal TCP", "Mbit/s", 0)
        .column(Source::Ours, Flow::Normal.label(), "Mbit/s", 1)
        .column(Source::Paper, Flow::Udp.label(), "Mbit/s", 0)
        .column(Source::Limit, Flow::Udp.label(), "Mbit/s", 1);
    for Column { printed, runs, .. } in columns {
        let mut values = vec![printed.accelerated.into()];
        values.extend(CASES.iter().map(|(case, _)| runs.goodput(by_time(*case)).into()));
        values.extend([
            printed.normal.into(),
            runs.goodput(by_time(Flow::Normal)).into(),
            printed.udp.into(),
            runs.goodput(by_time(Flow::Udp)).into(),
        ]);
        table.row(printed.signal, values);
    }
    table
}

/// [`CASES`], and what they are compared with.
fn with_others() -> impl Iterator<Item = (Flow, Source)> {
    CASES.into_iter().chain([(Flow::Normal, Source::Ours), (Flow::Udp, Source::Limit)])
}

/// Heading of a goodput over that of maximum UDP.
fn over_udp(case: Flow) -> String {
    format!("{} ÷ UDP", case.label())
}

fn ratio<C: CaseId>(runs: &Runs<C>, case: C, over: C) -> Option<f64> {
    Some(runs.goodput(case)?.mean / runs.goodput(over)?.mean)
}

fn ratios(columns: &[Column]) -> Table {
    let mut table = Table::new("Over maximum UDP, and over normal TCP", "{RSRP, SINR}")
        .column(Source::Paper, "÷ UDP", "", 3)
        .columns(CASES.map(|(case, _)| (Source::Ratio, over_udp(case))), "", 3)
        .column(Source::Paper, "÷ normal", "", 2)
        .column(Source::Ratio, "accelerated, 1024 KB ÷ normal", "", 2)
        .column(Source::Ratio, "adaptive, 1024 KB ÷ normal", "", 2);
    for Column { printed, runs, .. } in columns {
        let over = |flow, of| ratio(runs, by_time(flow), by_time(of)).into();
        let mut values = vec![printed.ratio().into()];
        values.extend(CASES.iter().map(|(case, _)| over(*case, Flow::Udp)));
        values.extend([
            (printed.accelerated / printed.normal).into(),
            over(Flow::Accelerated1024, Flow::Normal),
            over(Flow::Adaptive1024, Flow::Normal),
        ]);
        table.row(printed.signal, values);
    }
    table
}

fn queues(columns: &[Column]) -> Table {
    let mut table = Table::new("Queueing delay on the radio link, 95th percentile", "{RSRP, SINR}").columns(
        with_others().map(|(case, source)| (source, case.label())),
        "ms",
        0,
    );
    for Column { printed, runs, .. } in columns {
        let queue = |(case, _)| runs.queue_p95(by_time(case)).map(|m| m.mean).into();
        table.row(printed.signal, with_others().map(queue).collect());
    }
    table
}

fn figure(columns: &[Column]) -> Figure {
    let paper = |name: &str, value: fn(&Printed) -> f64| {
        let values = columns.iter().map(|column| Moments::of([value(column.printed)]));
        Series::at_places(name, Source::Paper, values)
    };
    let ours = |case: Flow, source| {
        let means = columns.iter().map(|column| column.runs.goodput(by_time(case)));
        Series::at_places(case.label(), source, means)
    };
    let panel = |accelerated: &[(Flow, Source)], with_normal: bool| {
        let mut series = vec![
            paper("maximum UDP, paper", |p| p.udp),
            ours(Flow::Udp, Source::Ours),
            paper("accelerated, paper", |p| p.accelerated),
        ];
        let (first, others) = accelerated.split_at(accelerated.len().min(1));
        series.extend(first.iter().map(|(case, source)| ours(*case, *source)));
        if with_normal {
            series.extend([paper("normal TCP, paper", |p| p.normal), ours(Flow::Normal, Source::Ours)]);
        }
        series.extend(others.iter().map(|(case, source)| ours(*case, *source)));
        series
    };
    Figure::new(
        "goodput",
        Axis::named("{RSRP, SINR}", columns.iter().map(|column| column.printed.signal.replace(", ", ","))),
    )
    .panel(
        Axis::linear("1024 KB, Mbit/s"),
        panel(&[(CASES[1].0, Source::Ours), (CASES[3].0, Source::Adaptive)], true),
    )
    .panel(
        Axis::linear("17 KB, Mbit/s"),
        panel(&[(CASES[0].0, Source::Ours), (CASES[2].0, Source::Adaptive)], false),
    )
}
