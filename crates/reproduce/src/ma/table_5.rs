//! [MA] Table 5: a download of 68 MB over LTE, at four signal strengths.

use super::mean;
use crate::experiment::scenario_file;
use crate::{
    Axis, Check, Context, Experiment, Figure, InLab, Mark, Outcome, Paper, Point, ReproduceError, Runs,
    Series, Source, Table, Value,
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
        scenario_file!("ma/table-5-64-lab.toml"),
        scenario_file!("ma/table-5-110-lab.toml"),
    ],
    seconds: 70,
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
/// The same with a tenth of the losses.
const FEW: [&str; 3] =
    ["accelerated, 17 KB, few losses", "adaptive, 17 KB, few losses", "normal TCP, 1024 KB, few losses"];
const CASES: [(&str, Source); 4] = [
    ("accelerated, 17 KB", Source::Ours),
    ("accelerated, 1024 KB", Source::Ours),
    ("adaptive, 17 KB", Source::Adaptive),
    ("adaptive, 1024 KB", Source::Adaptive),
];

fn run(context: &mut Context<'_>) -> Result<Outcome, ReproduceError> {
    let mut columns = Vec::new();
    // In the lab, where time is real, the strongest and the weakest signal only.
    let is_chosen = |printed: &&Printed| !context.is_lab() || LAB_FILES.contains(&printed.file);
    let chosen: Vec<&'static Printed> = PAPER.iter().filter(is_chosen).collect();
    for printed in chosen {
        let scenario = context.scenario(printed.file)?;
        columns.push((printed, context.run(&scenario)?));
    }
    let share = |runs: &Runs, case: &str| mean(runs.goodput(case)) / mean(runs.goodput(UDP));
    let mut checks = Vec::new();
    for (printed, runs) in &columns {
        for (case, _) in CASES {
            let claim = format!("{case}, over maximum UDP at {}, as in the paper", printed.signal);
            checks.push(Check::at_least(claim, share(runs, case), printed.accelerated / printed.udp));
        }
    }
    for (printed, runs) in &columns {
        for case in &FEW[..2] {
            let claim = format!("{case}, over maximum UDP at {}, as in the paper", printed.signal);
            checks.push(Check::at_least(claim, share(runs, case), printed.accelerated / printed.udp));
        }
    }
    for (printed, runs) in &columns {
        let claim = format!("adaptive's queue p95 at {}, ms, against accelerated's, 1024 KB", printed.signal);
        let queue = |case: &str| mean(runs.queue_p95(case));
        checks.push(Check::at_most(claim, queue("adaptive, 1024 KB"), queue("accelerated, 1024 KB")));
    }
    let shares = |case: &'static str| {
        let list = columns.iter().map(|(_, runs)| format!("{:.2}", share(runs, case)));
        list.collect::<Vec<_>>().join(", ")
    };
    Ok(Outcome {
        we_see: format!(
            "We see {} of the highest UDP goodput with a client window of 1024 KB and {} with 17 KB; `adaptive` gets {} and {} with a shorter queue.",
            shares(CASES[1].0),
            shares(CASES[0].0),
            shares(CASES[3].0),
            shares(CASES[2].0)
        ),
        tables: vec![goodputs(&columns), ratios(&columns), with_few_losses(&columns), queues(&columns)],
        figures: vec![figure(&columns)],
        notes: notes(context.is_lab()),
        checks,
    })
}

fn notes(is_lab: bool) -> Vec<String> {
    let mut notes = vec![
        "The paper does not say how large the client's window was in the accelerated case. With 17 KB every loss costs what was under way, at 80 Mbit/s and 25 ms at \
         least 250 KB: while the hole is open the client can hold one window behind it, and discards the rest. Where losses are frequent enough to keep CUBIC at half the link, that is \
         a tenth of the link and more; with a tenth of the losses 17 KB are enough."
            .to_owned(),
        "Nor does it say why normal TCP stays at half the link with 1024 KB. We let the radio lose packets, as often as it takes to bring CUBIC there; and repair block \
         errors in order, which varies the round trip and ends CUBIC's slow start early."
            .to_owned(),
    ];
    if is_lab {
        notes.push(
            "What is sent beyond the window must be read before as much again arrives: 17 KB at 80 Mbit/s are 1.7 ms. A client's program that the kernel lets run later than that discards, and the flow \
             goes back to honouring the window. So the cases with 17 KB depend on how busy the machine is on which client, links and accelerator run together."
                .to_owned(),
        );
    }
    notes
}

type Column = (&'static Printed, Runs);

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
    for (printed, runs) in columns {
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

fn ratio(runs: &Runs, case: &str, over: &str) -> Option<f64> {
    Some(runs.goodput(case)?.mean / runs.goodput(over)?.mean)
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
    for (printed, runs) in columns {
        let mut values = vec![(printed.accelerated / printed.udp).into()];
        values.extend(CASES.iter().map(|(case, _)| ratio(runs, case, UDP).into()));
        values.extend([
            (printed.accelerated / printed.normal).into(),
            ratio(runs, CASES[1].0, NORMAL).into(),
            ratio(runs, CASES[3].0, NORMAL).into(),
        ]);
        table.row(printed.signal, values);
    }
    table
}

fn with_few_losses(columns: &[Column]) -> Table {
    let mut table = Table::new("With a tenth of the losses", "{RSRP, SINR}");
    for case in FEW {
        let source = if case.starts_with("adaptive") { Source::Adaptive } else { Source::Ours };
        table = table.column(source, case, "Mbit/s", 1);
    }
    table = table.column(Source::Paper, "÷ UDP", "", 3);
    for case in &FEW[..2] {
        table = table.column(Source::Ratio, &format!("{case} ÷ UDP"), "", 3);
    }
    for (printed, runs) in columns {
        let mut values: Vec<Value> = FEW.iter().map(|case| runs.goodput(case).into()).collect();
        values.push((printed.accelerated / printed.udp).into());
        values.extend(FEW[..2].iter().map(|case| Value::from(ratio(runs, case, UDP))));
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
    for (printed, runs) in columns {
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
        let points = places(&|i, (printed, _)| Some(Point::new(i as f64 + 1.0, value(printed))));
        Series::new(name, Source::Paper, Mark::Dots, points)
    };
    let ours = |case: &str, source| {
        let points = places(&|i, (_, runs)| Some(Point::of(i as f64 + 1.0, runs.goodput(case)?)));
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
        Axis::named("{RSRP, SINR}", columns.iter().map(|(printed, _)| printed.signal.replace(", ", ","))),
    )
    .panel(Axis::linear("1024 KB, Mbit/s"), panel(&[(CASES[1].0, Source::Ours), (CASES[3].0, Source::Adaptive)], true))
    .panel(
        Axis::linear("17 KB, Mbit/s"),
        panel(
            &[
                (CASES[0].0, Source::Ours),
                (CASES[2].0, Source::Adaptive),
                (FEW[0], Source::Ours),
                (FEW[1], Source::Adaptive),
            ],
            false,
        ),
    )
}
