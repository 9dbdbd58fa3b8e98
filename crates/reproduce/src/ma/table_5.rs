//! [MA] Table 5: a download of 68 MB over LTE, at four signal strengths.

mod held_back;
mod losses;

use self::losses::Losses;
use super::mean;
use crate::experiment::scenario_file;
use crate::{
    Axis, Check, Context, Experiment, Figure, InLab, Mark, Outcome, Paper, Point, ReproduceError, Runs,
    Series, Source, Table,
};

pub(crate) const EXPERIMENT: Experiment = Experiment {
    name: "ma-table-5",
    paper: Paper::Ma,
    part: "Table 5",
    title: "68 MB over LTE at four signal strengths",
    asked: "How near does an accelerated download come to what the link can carry, with good and with weak signal?",
    found: "To 91 to 96 % of the highest UDP goodput, about twice what plain TCP gets with a window of 1024 KB.",
    files: &[
        scenario_file!("ma/table-5-64.toml"),
        scenario_file!("ma/table-5-81.toml"),
        scenario_file!("ma/table-5-90.toml"),
        scenario_file!("ma/table-5-110.toml"),
        scenario_file!("ma/table-5-fades.toml"),
        scenario_file!("ma/table-5-held-back.toml"),
        scenario_file!("ma/table-5-64-lab.toml"),
        scenario_file!("ma/table-5-110-lab.toml"),
    ],
    seconds: 240,
    lab: InLab::Takes(160),
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
const NORMAL: &str = "normal TCP, 1024 KB";
const UDP: &str = "maximum UDP";
const CASES: [(&str, Source); 4] = [
    ("accelerated, 17 KB", Source::Ours),
    ("accelerated, 1024 KB", Source::Ours),
    ("adaptive, 17 KB", Source::Adaptive),
    ("adaptive, 1024 KB", Source::Adaptive),
];
/// What the cases' names end with on links that lose by packet.
const BY_PACKET: &str = ", losses by packet";

impl Printed {
    /// Accelerated over maximum UDP.
    fn ratio(&self) -> f64 {
        self.accelerated / self.udp
    }
}

/// A column of the paper's table, and its runs.
struct Column {
    printed: &'static Printed,
    runs: Runs,
    by_time: Option<Losses>,
    by_packet: Option<Losses>,
}

/// The number of a time such as `255 ms`.
fn milliseconds(time: &str) -> f64 {
    time.trim_end_matches(" ms").parse().unwrap_or(f64::NAN)
}

fn named(case: &str, suffix: &str) -> String {
    format!("{case}{suffix}")
}

fn column(context: &mut Context<'_>, printed: &'static Printed) -> Result<Column, ReproduceError> {
    let scenario = context.scenario(printed.file)?;
    let runs = context.run(&scenario)?;
    let (by_time, by_packet) = (Losses::of(&runs, &scenario, ""), Losses::of(&runs, &scenario, BY_PACKET));
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
    if !is_lab {
        tables.extend([losses::lengths(context, &PAPER[2])?, losses::by_packet(&columns)]);
        let held_back = held_back::runs(context)?;
        tables.push(held_back::table(&held_back));
        checks.extend(held_back::checks(&held_back));
    }
    Ok(Outcome {
        we_see: we_see(&columns),
        tables,
        figures: vec![figure(&columns)],
        notes: notes(&columns, is_lab),
        checks,
    })
}

fn share(runs: &Runs, case: &str) -> f64 {
    mean(runs.goodput(case)) / mean(runs.goodput(UDP))
}

fn checks(columns: &[Column]) -> Vec<Check> {
    let mut checks = Vec::new();
    for Column { printed, runs, .. } in columns {
        for (case, _) in CASES {
            let claim = format!("{case}, over maximum UDP at {}, as in the paper", printed.signal);
            checks.push(Check::at_least(claim, share(runs, case), printed.ratio()));
        }
    }
    for Column { printed, runs, .. } in columns {
        for window in ["1024 KB", "17 KB"] {
            let claim =
                format!("adaptive's queue p95 at {}, ms, against accelerated's, {window}", printed.signal);
            let queue = |control: &str| mean(runs.queue_p95(&format!("{control}, {window}")));
            checks.push(Check::at_most(claim, queue("adaptive"), queue("accelerated")));
        }
    }
    checks
}

fn we_see(columns: &[Column]) -> String {
    let shares = |case: &'static str| {
        let list = columns.iter().map(|column| format!("{:.2}", share(&column.runs, case)));
        list.collect::<Vec<_>>().join(", ")
    };
    format!(
        "We see {} of the highest UDP goodput with a client window of 1024 KB and {} with 17 KB; `adaptive` gets {} and {} with a shorter queue.",
        shares(CASES[1].0),
        shares(CASES[0].0),
        shares(CASES[3].0),
        shares(CASES[2].0)
    )
}

/// The notes that need no figure.
const NOTES: [&str; 3] = [
    "The paper names neither the client's window in the accelerated case nor any loss in this table. Normal TCP stays at half the link with 1024 KB, so something holds it there: we let the \
     radio lose, as often as it takes to bring CUBIC to the paper's goodput; and repair block errors in order, which varies the round trip and ends CUBIC's slow start early.",
    "How a radio loses is a matter of time: a fade or a transport block that is given up lasts as long as it lasts, whoever sends. So our links have fades, in which whatever is put on the air is lost: \
     at random times, 4 ms long in the mean, a few transport blocks. The length comes from outside the paper: pings over LTE on the move lose 0.2 to 0.7 % (the paper's Table 4 lost 0.8 % at 8 Mbit/s), and of the \
     lengths in the table below this one loses as much of the time. How often they come was fitted to CUBIC, with no look at what the accelerator makes of it.",
    "With 17 KB every loss event costs about a round trip: while the hole is open the client can hold one window behind it, and discards the rest. At λ events a second and a round trip R that leaves \
     at most 1 ÷ (1 + λR) of what UDP gets. The paper's α lets its accelerator raise the rate until the round trip is 140 ms; with 17 KB its 0.964 at {−90, 27} would then allow 0.27 loss events a \
     second. No length of fades takes CUBIC to half the link with so few of them, as the table shows: either the accelerated case had a larger window as well, or the hosts of that time suffered more from each event than ours \
     (in Fig 3 the paper's CUBIC loses 85 % of half a second to one), or it was not loss that held normal TCP.",
];

fn notes(columns: &[Column], is_lab: bool) -> Vec<String> {
    let mut notes = NOTES.map(str::to_owned).to_vec();
    let range = |of: &dyn Fn(&Column) -> Option<f64>| {
        let values: Vec<f64> = columns.iter().filter_map(of).collect();
        let least = values.iter().copied().fold(f64::INFINITY, f64::min);
        let most = values.iter().copied().fold(f64::NEG_INFINITY, f64::max);
        format!("{least:.2} to {most:.2}")
    };
    if columns.iter().any(|column| column.by_packet.is_some()) {
        notes.push(format!(
            "Losses by packet are the harder case: bursts of three, as often in ten thousand packets as takes CUBIC to the same goodput. Who sends twice as fast then meets twice the events: CUBIC at half the link \
             {} a second, who fills it {}. Fades strike {} times a second, whoever sends.",
            range(&|column| Some(column.by_packet?.under_normal)),
            range(&|column| Some(column.by_packet?.per_second)),
            range(&|column| Some(column.by_time?.per_second)),
        ));
    }
    if !is_lab {
        notes.push(held_back::NOTE.to_owned());
    }
    if is_lab {
        notes.push(
            "What is sent beyond the window must be read before as much again arrives: 17 KB at 80 Mbit/s are 1.7 ms. A client's program that the kernel lets run later than that discards, and so does \
             every program where the radio hands over at once what it held back behind a repair: 8 ms of 80 Mbit/s are 80 KB. With 17 KB about 12 Mbit/s are the most that such a link and client \
             leave to any sender (docs/engine.md, what a small window can take); the simulated client reads 50 µs after the first byte here."
                .to_owned(),
        );
    }
    notes
}

fn goodputs(columns: &[Column]) -> Table {
    let mut table =
        Table::new("Goodput of downloads", "{RSRP, SINR}").column(Source::Paper, "accelerated", "Mbit/s", 0);
    for (case, source) in CASES {
        table = table.column(source, case, "Mbit/s", 1);
    }
    table = table
        .column(Source::Paper, "normal TCP", "Mbit/s", 0)
        .column(Source::Ours, NORMAL, "Mbit/s", 1)
        .column(Source::Paper, UDP, "Mbit/s", 0)
        .column(Source::Limit, UDP, "Mbit/s", 1);
    for Column { printed, runs, .. } in columns {
        let mut values = vec![printed.accelerated.into()];
        values.extend(CASES.iter().map(|(case, _)| runs.goodput(case).into()));
        values.extend([
            printed.normal.into(),
            runs.goodput(NORMAL).into(),
            printed.udp.into(),
            runs.goodput(UDP).into(),
        ]);
        table.row(printed.signal, values);
    }
    table
}

fn ratio(runs: &Runs, case: &str, over: &str, suffix: &str) -> Option<f64> {
    Some(runs.goodput(&named(case, suffix))?.mean / runs.goodput(&named(over, suffix))?.mean)
}

fn ratios(columns: &[Column]) -> Table {
    let mut table = Table::new("Over maximum UDP, and over normal TCP", "{RSRP, SINR}").column(
        Source::Paper,
        "÷ UDP",
        "",
        3,
    );
    for (case, _) in CASES {
        table = table.column(Source::Ratio, &format!("{case} ÷ UDP"), "", 3);
    }
    table = table
        .column(Source::Paper, "÷ normal", "", 2)
        .column(Source::Ratio, "accelerated, 1024 KB ÷ normal", "", 2)
        .column(Source::Ratio, "adaptive, 1024 KB ÷ normal", "", 2);
    for Column { printed, runs, .. } in columns {
        let mut values = vec![printed.ratio().into()];
        values.extend(CASES.iter().map(|(case, _)| ratio(runs, case, UDP, "").into()));
        values.extend([
            (printed.accelerated / printed.normal).into(),
            ratio(runs, CASES[1].0, NORMAL, "").into(),
            ratio(runs, CASES[3].0, NORMAL, "").into(),
        ]);
        table.row(printed.signal, values);
    }
    table
}

fn queues(columns: &[Column]) -> Table {
    let mut table = Table::new("Queueing delay on the radio link, 95th percentile", "{RSRP, SINR}");
    for (case, source) in CASES {
        table = table.column(source, case, "ms", 0);
    }
    table = table.column(Source::Ours, NORMAL, "ms", 0).column(Source::Limit, UDP, "ms", 0);
    for Column { printed, runs, .. } in columns {
        let cases = CASES.iter().map(|(case, _)| *case).chain([NORMAL, UDP]);
        table.row(printed.signal, cases.map(|case| runs.queue_p95(case).map(|m| m.mean).into()).collect());
    }
    table
}

fn figure(columns: &[Column]) -> Figure {
    let places = |value: &dyn Fn(usize, &Column) -> Option<Point>| -> Vec<Point> {
        columns.iter().enumerate().filter_map(|(i, column)| value(i, column)).collect()
    };
    let paper = |name: &str, value: fn(&Printed) -> f64| {
        let points = places(&|i, column| Some(Point::new(i as f64 + 1.0, value(column.printed))));
        Series::new(name, Source::Paper, Mark::Dots, points)
    };
    let ours = |case: &str, source| {
        let points = places(&|i, column| Some(Point::of(i as f64 + 1.0, column.runs.goodput(case)?)));
        Series::new(case, source, Mark::Dots, points)
    };
    let panel = |accelerated: &[(&str, Source)], with_normal: bool| {
        let mut series = vec![
            paper("maximum UDP, paper", |p| p.udp),
            ours(UDP, Source::Ours),
            paper("accelerated, paper", |p| p.accelerated),
        ];
        let (first, others) = accelerated.split_at(accelerated.len().min(1));
        series.extend(first.iter().map(|(case, source)| ours(case, *source)));
        if with_normal {
            series.extend([paper("normal TCP, paper", |p| p.normal), ours(NORMAL, Source::Ours)]);
        }
        series.extend(others.iter().map(|(case, source)| ours(case, *source)));
        series
    };
    Figure::new(
        "Goodput against signal strength",
        "Hollow: the paper's, filled of the same colour: ours. Bars are standard deviations over the downloads. Above a client window of 1024 KB, below 17 KB.",
        Axis::named("{RSRP, SINR}", columns.iter().map(|column| column.printed.signal.replace(", ", ","))),
    )
    .panel(Axis::linear("1024 KB, Mbit/s"), panel(&[(CASES[1].0, Source::Ours), (CASES[3].0, Source::Adaptive)], true))
    .panel(
        Axis::linear("17 KB, Mbit/s"),
        panel(&[(CASES[0].0, Source::Ours), (CASES[2].0, Source::Adaptive)], false),
    )
}
