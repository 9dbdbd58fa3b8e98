//! [DR]: throughput and RTT over a static receive window, and DRWA on the same links.

use figures::stats::Moments;

use super::{mean, rtt_at_server, rtt_by_queue};
use crate::case_id::case_ids;
use crate::experiment::built_in;
use crate::runs::most;
use crate::{
    Axis, CaseId, Check, Context, Experiment, Facts, Figure, InLab, Looking, Mark, Outcome, Paper, Point,
    ReproduceError, Runs, Series, Source, Table, Value,
};

pub(crate) const EXPERIMENT: Experiment = Experiment {
    name: "dr-window-sweep",
    paper: Paper::Dr,
    part: "Conclusion",
    prose: built_in!("dr/window-sweep.md"),
    files: &[built_in!("dr/window-sweep.toml"), built_in!("dr/window-sweep-lab.toml")],
    seconds: 60,
    lab: InLab::Takes(260),
    run,
};

/// Appendix B: values of `tcp_rmem_max` found on phones, bytes.
const WINDOWS: [u32; 8] = [11_680, 35_040, 110_208, 196_608, 262_144, 393_216, 484_848, 524_288];
/// The one that stands for a phone's static window here: the middle of the larger half, and Android's
/// for Wi-Fi.
const STATIC: u32 = 262_144;
case_ids! {
    /// The first half of the names in `dr/window-sweep.toml`.
    enum Link { Hspa = "HSPA+", Lte = "LTE", Far = "HSPA+, far server" }
}
case_ids! {
    /// Schemes that choose their own window.
    enum Own {
        Drwa = "DRWA",
        WithAdditions = "DRWA with additions",
        OnTheWay = "DRWA on the way",
        Adaptive = "adaptive",
    }
}

/// The other half of the names: a static window in bytes, or a scheme.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Window {
    Static(u32),
    Own(Own),
}

impl Window {
    fn all() -> impl Iterator<Item = Self> {
        WINDOWS.into_iter().map(Self::Static).chain(Own::all().into_iter().map(Self::Own))
    }

    fn label(self) -> String {
        match self {
            Self::Static(bytes) => format!("{bytes} B"),
            Self::Own(own) => own.name(),
        }
    }
}

impl CaseId for (Link, Window) {
    fn all() -> Vec<Self> {
        Link::all().into_iter().flat_map(|link| Window::all().map(move |window| (link, window))).collect()
    }
    fn name(self) -> String {
        format!("{}: {}", self.0.label(), self.1.label())
    }
}

impl Link {
    /// The propagation delay both ways, ms.
    const fn propagation_ms(self) -> f64 {
        match self {
            Self::Hspa => 60.0,
            Self::Lte => 50.0,
            Self::Far => 350.0,
        }
    }
}

type Sweep = Runs<(Link, Window)>;
/// Conclusion: least and largest reduction of the RTT, and the largest gain in throughput.
const PAPER_REDUCTION: (f64, f64) = (0.24, 0.49);
const PAPER_GAIN: f64 = 0.51;

const fn fixed(link: Link, bytes: u32) -> (Link, Window) {
    (link, Window::Static(bytes))
}

const fn own(link: Link, scheme: Own) -> (Link, Window) {
    (link, Window::Own(scheme))
}

/// RTT of a case on a link, ms.
fn rtt(runs: &Sweep, case: (Link, Window)) -> Option<Moments> {
    if case.1 == Window::Own(Own::Adaptive) {
        rtt_by_queue(runs, case, case.0.propagation_ms())
    } else {
        rtt_at_server(runs, case)
    }
}

fn run(context: &mut Context<'_>) -> Result<Outcome, ReproduceError> {
    let scenario = context.scenario("dr/window-sweep.toml")?;
    let runs: Sweep = context.watch(&scenario, Looking { flows: true, ..Looking::default() })?;
    let drwa = Own::Drwa;
    let rate = |case| mean(runs.goodput(case));
    let delay = |case| mean(rtt(&runs, case));
    let reduction = |link| 1.0 - delay(own(link, drwa)) / delay(fixed(link, STATIC));
    let gain = |link, scheme| rate(own(link, scheme)) / rate(fixed(link, STATIC)) - 1.0;
    let best = |link| most(WINDOWS.iter().map(|w| rate(fixed(link, *w))));
    let mut checks = Vec::new();
    for link in [Link::Hspa, Link::Lte] {
        checks.push(Check::at_least(
            format!("{}: throughput of DRWA ÷ the best static window", link.label()),
            rate(own(link, drwa)) / best(link),
            0.97,
        ));
    }
    let largest = |link| 1.0 - delay(own(link, drwa)) / delay(fixed(link, WINDOWS[7]));
    checks.extend([
        Check::at_least(
            "HSPA+: RTT reduced against 262,144 bytes, share (paper 0.24 to 0.49)",
            reduction(Link::Hspa),
            PAPER_REDUCTION.0,
        ),
        Check::at_least(
            "LTE: RTT reduced against 524,288 bytes, share (paper 0.24 to 0.49)",
            largest(Link::Lte),
            PAPER_REDUCTION.0,
        ),
        Check::at_least(
            "far server: throughput gained against 262,144 bytes, share (paper up to 0.51)",
            gain(Link::Far, drwa),
            0.24,
        ),
    ]);
    for link in Link::all() {
        let (adaptive, drwa) = (own(link, Own::Adaptive), own(link, drwa));
        checks.push(Check::at_least(
            format!("{}: throughput of adaptive ÷ DRWA", link.label()),
            rate(adaptive) / rate(drwa),
            0.97,
        ));
        checks.push(Check::at_most(
            format!("{}: RTT of adaptive ÷ DRWA", link.label()),
            delay(adaptive) / delay(drwa),
            1.0,
        ));
    }
    Ok(Outcome {
        facts: Facts::of([
            ("hspa_percent", (reduction(Link::Hspa) * 100.0).into()),
            ("lte_percent", (reduction(Link::Lte) * 100.0).into()),
            ("far_percent", (gain(Link::Far, drwa) * 100.0).into()),
        ]),
        tables: vec![conclusion(&runs), sweep(&runs)],
        figures: vec![figure(&runs, drwa)],
        checks,
        ..Outcome::default()
    })
}

fn conclusion(runs: &Sweep) -> Table {
    let mut table = Table::new("DRWA against a static window of 262,144 bytes", "link")
        .column(Source::Paper, "RTT reduced by", "%", 0)
        .column(Source::Ours, "RTT reduced by", "%", 1)
        .column(Source::Paper, "throughput gained", "%", 0)
        .column(Source::Ours, "throughput gained", "%", 1);
    for scheme in Own::all() {
        for link in Link::all() {
            let (ours, old) = (own(link, scheme), fixed(link, STATIC));
            let reduced = 100.0 * (1.0 - mean(rtt(runs, ours)) / mean(rtt(runs, old)));
            let gained = 100.0 * (mean(runs.goodput(ours)) / mean(runs.goodput(old)) - 1.0);
            let is_far = link == Link::Far;
            let range = format!("{:.0} to {:.0}", PAPER_REDUCTION.0 * 100.0, PAPER_REDUCTION.1 * 100.0);
            let reduction =
                if is_far || scheme != Own::Drwa { Value::default() } else { range.as_str().into() };
            let most = format!("up to {:.0}", PAPER_GAIN * 100.0);
            let gain = if is_far && scheme == Own::Drwa { most.as_str().into() } else { Value::default() };
            table.row(
                format!("{}, {}", link.label(), scheme.label()),
                vec![reduction, reduced.into(), gain, gained.into()],
            );
        }
    }
    table
}

fn sweep(runs: &Sweep) -> Table {
    let mut table = Table::new("Throughput and mean RTT", "receive window");
    for link in Link::all() {
        table = table.column(Source::Ours, link.label(), "Mbit/s", 2).column(Source::Ours, "RTT", "ms", 0);
    }
    for window in Window::all() {
        let values = Link::all().into_iter().flat_map(|link| {
            let case = (link, window);
            [runs.goodput(case).into(), rtt(runs, case).into()]
        });
        table.row(window.label(), values.collect());
    }
    table
}

/// Expectation of the paper's conclusion for DRWA, given what a static window of [`STATIC`] gets: shorter
/// round trips to near servers, and more throughput from far ones.
fn claimed(with_static: f64, is_rate: bool, is_far: bool) -> Vec<Series> {
    let at = |name: &str, point| vec![Series::new(name, Source::Paper, Mark::Dots, vec![point])];
    let x = f64::from(STATIC);
    let (least, most) = PAPER_REDUCTION;
    match (is_rate, is_far) {
        (false, false) => {
            let middle = Point::new(x, with_static * (1.0 - f64::midpoint(least, most)));
            let deviation = Some(with_static * (most - least) / 2.0);
            at("paper: 24 to 49 % below that of 262,144 B", Point { deviation, ..middle })
        }
        (true, true) => {
            at("paper: up to 51 % above that of 262,144 B", Point::new(x, with_static * (1.0 + PAPER_GAIN)))
        }
        _ => Vec::new(),
    }
}

fn figure(runs: &Sweep, drwa: Own) -> Figure {
    let mut figure = Figure::new("windows", Axis::log("receive window, bytes"));
    let (first, last) = (f64::from(WINDOWS[0]), f64::from(WINDOWS[7]));
    for link in Link::all() {
        for is_rate in [true, false] {
            let value = |case| if is_rate { runs.goodput(case) } else { rtt(runs, case) };
            let means = WINDOWS.map(|bytes| (f64::from(bytes), value(fixed(link, bytes))));
            let level = |scheme: Own, source| {
                Series::level(scheme.label(), source, (first, last), mean(value(own(link, scheme))))
            };
            let mut series = vec![
                Series::of("static", Source::Ours, Mark::Dotted, means),
                level(drwa, Source::Ours),
                level(Own::Adaptive, Source::Adaptive),
            ];
            series.extend(claimed(mean(value(fixed(link, STATIC))), is_rate, link == Link::Far));
            let short = if link == Link::Far { "far" } else { link.label() };
            let name = format!("{short}, {}", if is_rate { "Mbit/s" } else { "ms" });
            figure = figure.panel(Axis::linear(&name), series);
        }
    }
    figure
}
