//! [DR]: DRWA at the receiver against a static window, over links with deep buffers.

use super::{mean, rtt_at_server};
use crate::case_id::case_ids;
use crate::experiment::built_in;
use crate::runs::{least, most};
use crate::{
    Axis, CaseId, Check, Context, Experiment, Facts, Figure, InLab, Looking, Outcome, Paper, ReproduceError,
    Runs, Series, Source, Table,
};

pub(crate) const EXPERIMENT: Experiment = Experiment {
    name: "dr-receiver",
    paper: Paper::Dr,
    part: "Conclusion",
    prose: built_in!("dr/receiver.md"),
    files: &[built_in!("dr/receiver.toml"), built_in!("dr/receiver-lab.toml")],
    seconds: 60,
    lab: InLab::Takes(700),
    run,
};

case_ids! {
    /// The first part of the names in `dr/receiver.toml`.
    enum Path {
        Hspa = "HSPA+",
        Weak = "HSPA+, weak signal",
        Lte = "LTE",
        Moving = "LTE, on the move",
        Far = "HSPA+, far server",
    }
}
case_ids! {
    /// The second part: the congestion control of the server.
    enum Server { Cubic = "CUBIC", Bbr = "BBR" }
}
case_ids! {
    /// The third part: who chooses the window.
    enum Window { Fixed = "static", Drwa = "DRWA" }
}

/// A path with a server.
type Way = (Path, Server);

/// The far server is CUBIC's alone.
fn ways() -> Vec<Way> {
    let all = <Way>::all().into_iter();
    all.filter(|way| *way != (Path::Far, Server::Bbr)).collect()
}

/// A case of the files.
#[derive(Clone, Copy)]
struct At(Way, Window);

impl CaseId for At {
    fn all() -> Vec<Self> {
        ways()
            .into_iter()
            .flat_map(|way| Window::all().into_iter().map(move |window| Self(way, window)))
            .collect()
    }
    fn name(self) -> String {
        (self.0, self.1).name()
    }
}

/// Conclusion: least and largest reduction of the RTT, and the largest gain in throughput.
const PAPER_REDUCTION: (f64, f64) = (0.24, 0.49);
const PAPER_GAIN: f64 = 0.51;

fn run(context: &mut Context<'_>) -> Result<Outcome, ReproduceError> {
    let scenario = context.scenario("dr/receiver.toml")?;
    let runs: Runs<At> = context.watch(&scenario, Looking { flows: true, ..Looking::default() })?;
    let ratio = |way: Way| {
        let of = |window| mean(runs.goodput(At(way, window)));
        of(Window::Drwa) / of(Window::Fixed)
    };
    let reduction = |way: Way| {
        let of = |window| mean(rtt_at_server(&runs, At(way, window)));
        1.0 - of(Window::Drwa) / of(Window::Fixed)
    };
    let near =
        |server: Server| ways().into_iter().filter(move |(path, own)| *path != Path::Far && *own == server);
    let mut checks = Vec::new();
    for way in near(Server::Cubic) {
        let name = way.name();
        let claim = format!("{name}: RTT reduced, share (paper 0.24 to 0.49)");
        checks.push(Check::at_least(claim, reduction(way), PAPER_REDUCTION.0));
        checks.push(Check::at_least(format!("{name}: throughput of DRWA ÷ static"), ratio(way), 0.97));
    }
    for way in near(Server::Bbr) {
        checks.push(Check::at_least(
            format!("{}: throughput of DRWA ÷ static", way.name()),
            ratio(way),
            0.98,
        ));
    }
    let gain = ratio((Path::Far, Server::Cubic)) - 1.0;
    checks.push(Check::at_least(
        "far server: throughput gained against 110,208 bytes, share (paper up to 0.51)",
        gain,
        PAPER_GAIN,
    ));
    let reductions = || near(Server::Cubic).map(reduction);
    Ok(Outcome {
        facts: Facts::of([
            ("least_percent", (least(reductions()) * 100.0).into()),
            ("most_percent", (most(reductions()) * 100.0).into()),
            ("kept", least(near(Server::Cubic).map(ratio)).into()),
            ("bbr_kept", least(near(Server::Bbr).map(ratio)).into()),
            ("far_percent", (gain * 100.0).into()),
        ]),
        tables: vec![table(&runs, &ratio, &reduction)],
        figures: vec![figure(&runs)],
        checks,
        ..Outcome::default()
    })
}

fn table(runs: &Runs<At>, ratio: &dyn Fn(Way) -> f64, reduction: &dyn Fn(Way) -> f64) -> Table {
    let mut table = Table::new("A static window and DRWA", "link and server")
        .column(Source::Ours, "static", "Mbit/s", 2)
        .column(Source::Ours, "static, RTT", "ms", 0)
        .column(Source::Ours, "DRWA", "Mbit/s", 2)
        .column(Source::Ours, "DRWA, RTT", "ms", 0)
        .column(Source::Ratio, "throughput", "", 3)
        .column(Source::Ours, "RTT reduced by", "%", 1);
    for way in ways() {
        let [fixed, drwa] = [Window::Fixed, Window::Drwa].map(|window| At(way, window));
        table.row(
            way.name(),
            vec![
                runs.goodput(fixed).into(),
                rtt_at_server(runs, fixed).into(),
                runs.goodput(drwa).into(),
                rtt_at_server(runs, drwa).into(),
                ratio(way).into(),
                (reduction(way) * 100.0).into(),
            ],
        );
    }
    table
}

fn figure(runs: &Runs<At>) -> Figure {
    let names = ["HSPA+", "HSPA+ weak", "LTE", "LTE moving", "far server"];
    let mut figure = Figure::new("links", Axis::named("link", names));
    for is_rate in [true, false] {
        let value = |case| if is_rate { runs.goodput(case) } else { rtt_at_server(runs, case) };
        let series = [Server::Cubic, Server::Bbr].into_iter().flat_map(|server| {
            let of = |window: Window| {
                let name = format!("{}, {}", server.label(), window.label());
                let source = if window == Window::Drwa { Source::Adaptive } else { Source::Ours };
                let means = Path::all().into_iter().map(|path| value(At((path, server), window)));
                Series::at_places(&name, source, means)
            };
            [of(Window::Fixed), of(Window::Drwa)]
        });
        let axis = if is_rate { Axis::linear("Mbit/s") } else { Axis::linear("mean RTT, ms") };
        figure = figure.panel(axis, series.collect());
    }
    figure
}
