//! [EV] Its proposal, after I-TCP: a subscriber moves between base stations, and its connections with it.

use figures::stats;
use lab::moves::{FlowRun, Move, MovesResult, MovesRun};
use scenario::{MoveScheme, Moves, Traffic};

use crate::experiment::built_in;
use crate::runs::sorted;
use crate::{
    Axis, BuiltIn, Check, Context, Experiment, Facts, Figure, InLab, Mark, Outcome, Paper, Point,
    ReproduceError, Series, Source, Table,
};

pub(crate) const EXPERIMENT: Experiment = Experiment {
    name: "ev-moves",
    paper: Paper::Ev,
    part: "Proposal",
    prose: built_in!("ev/moves.md"),
    files: &[built_in!("ev/environments.toml")],
    seconds: 0,
    lab: InLab::Takes(470),
    run,
};

pub(crate) const FILE: BuiltIn = built_in!("ev/moves.toml");

/// Names of the cases.
const NEAR: &str = "20 ms";
const FAR: &str = "100 ms";
/// Base stations that forward nothing.
const LOST: &str = "20 ms, nothing forwarded";
const PLAIN: &str = "plain forwarding";
const SPLIT: &str = "split TCP";
const INDIRECT: &str = "I-TCP, state only";
const CUBIC: &str = "20 ms, CUBIC";
const CASES: [&str; 7] = [NEAR, FAR, LOST, CUBIC, PLAIN, SPLIT, INDIRECT];
/// Goodput of a client that moves over that of one that does not, at least.
const RATIOS: [(&str, f64); 2] = [(NEAR, 0.98), (FAR, 0.96)];
/// A segment to a client, KB: IPv4, timestamps.
const SEGMENT_KB: f64 = 1.448;
/// Bins of a curve.
const BIN_S: f64 = 0.5;

/// A file, checked: what is looked up is there.
pub(crate) fn read(text: &str) -> Result<Moves, ReproduceError> {
    let scenario = Moves::from_toml(FILE.path, text)?;
    let has = |name: &str| scenario.cases.iter().any(|case| case.name == name);
    match CASES.iter().find(|name| !has(name)) {
        None => Ok(scenario),
        Some(missing) => {
            let problem = format!("has no case `{missing}`, which ev-moves looks up");
            Err(ReproduceError::meaning(FILE.path, problem))
        }
    }
}

fn run(context: &mut Context<'_>) -> Result<Outcome, ReproduceError> {
    let result = context.moves()?;
    let result = result.as_ref();
    let of = |case: &str| result.and_then(|result| result.of(case));
    let facts = Facts::of([
        ("moves", count(of(NEAR), Move::has_moved).into()),
        ("moves_far", count(of(FAR), Move::has_moved).into()),
        ("broken", sum([NEAR, FAR].map(|case| broken(of(case)))).into()),
        ("gap", percentile(&gaps(of(NEAR)), 500).into()),
        ("gap_most", percentile(&gaps(of(NEAR)), 1_000).into()),
        ("gap_far", percentile(&gaps(of(FAR)), 500).into()),
        ("gap_far_most", percentile(&gaps(of(FAR)), 1_000).into()),
        ("ratio", ratio(of(NEAR), Traffic::Bulk).into()),
        ("ratio_far", ratio(of(FAR), Traffic::Bulk).into()),
        ("gap_lost", percentile(&gaps(of(LOST)), 500).into()),
        ("ratio_lost", ratio(of(LOST), Traffic::Bulk).into()),
        ("ratio_plain", ratio(of(PLAIN), Traffic::Bulk).into()),
        ("split_broken", broken(of(SPLIT)).into()),
        ("indirect_broken", broken(of(INDIRECT)).into()),
        ("movers", movers(of(SPLIT)).into()),
    ]);
    if context.simulates() {
        // The simulated network has one path: there is nothing of ours to show.
        return Ok(Outcome { facts, ..Outcome::default() });
    }
    Ok(Outcome {
        facts,
        tables: vec![costs(result), work(result), answers(result)],
        figures: figures(result),
        checks: checks(result),
        ..Outcome::default()
    })
}

fn checks(result: Option<&MovesResult>) -> Vec<Check> {
    let of = |case: &str| result.and_then(|result| result.of(case));
    let mut checks = Vec::new();
    for (case, least) in RATIOS {
        let run = of(case);
        let say = |what: &str| format!("{case} between the boxes: {what}");
        let bound = result.map_or(f64::NAN, |result| bound_ms(result, case));
        checks.extend([
            Check::at_most(say("moves that a box refused"), count(run, |one| one.refused.is_some()), 0.0),
            Check::at_most(say("flows broken, or with a wrong byte"), broken(run), 0.0),
            Check::at_most(say("resets"), total(run, |flow| flow.resets), 0.0),
            Check::at_most(say("KB sent twice over the radio, not lost by it"), needless_kb(run), 0.0),
            Check::at_most(say("gap at a move, ms, p95"), percentile(&gaps(run), 950), bound),
            Check::at_most(say("gap at a move, ms, the longest"), percentile(&gaps(run), 1_000), bound),
            Check::at_least(say("downloads, moving ÷ staying"), ratio(run, Traffic::Bulk), least),
            Check::at_least(say("uploads, moving ÷ staying"), ratio(run, Traffic::Upload), least),
        ]);
    }
    let (split, lost) = (of(SPLIT), of(LOST));
    let say = |what: &str| format!("nothing forwarded: {what}");
    let bound = result.map_or(f64::NAN, |result| bound_ms(result, LOST));
    let twice_kb = needless_kb(lost) / count(lost, Move::has_moved);
    checks.extend([
        Check::at_most(say("flows broken, or with a wrong byte"), broken(lost), 0.0),
        Check::at_most(say("KB sent twice a move, not lost by the radio"), twice_kb, SEGMENT_KB),
        Check::at_most(say("gap at a move, ms, p95"), percentile(&gaps(lost), 950), bound),
    ]);
    checks.push(Check::at_most("CUBIC: flows broken, or with a wrong byte", broken(of(CUBIC)), 0.0));
    checks.push(Check::at_most(
        "plain forwarding: flows broken, or with a wrong byte",
        broken(of(PLAIN)),
        0.0,
    ));
    checks.push(Check::at_least(
        "split TCP: flows that a move breaks, of all",
        broken(split) / movers(split),
        1.0,
    ));
    checks.push(Check::at_least(
        "I-TCP, state only: downloads that a move breaks, of all",
        ratio_broken(of(INDIRECT), Traffic::Bulk),
        1.0,
    ));
    checks
}

/// Bound of a gap: the radio's hand-over, and one and a half round trips between the boxes.
fn bound_ms(result: &MovesResult, case: &str) -> f64 {
    let scenario = &result.scenario;
    let found = scenario.cases.iter().find(|one| one.name == case);
    found.map_or(f64::NAN, |case| scenario.gap.0.as_millis_f64() + 1.5 * case.between.0.as_millis_f64())
}

fn sum(values: impl IntoIterator<Item = f64>) -> f64 {
    values.into_iter().sum()
}

fn count(run: Option<&MovesRun>, is_meant: impl Fn(&Move) -> bool) -> f64 {
    run.map_or(f64::NAN, |run| run.moves.iter().filter(|one| is_meant(one)).count() as f64)
}

/// Over the flows that move.
fn total(run: Option<&MovesRun>, value: impl Fn(&FlowRun) -> u64) -> f64 {
    run.map_or(f64::NAN, |run| run.flows.iter().filter(|flow| flow.moves).map(value).sum::<u64>() as f64)
}

fn movers(run: Option<&MovesRun>) -> f64 {
    total(run, |_| 1)
}

/// It was reset, has a wrong byte, or got nothing after its last move.
fn is_broken(flow: &FlowRun) -> bool {
    flow.error.is_some() || !flow.is_intact || flow.is_stalled
}

fn broken(run: Option<&MovesRun>) -> f64 {
    total(run, |flow| u64::from(is_broken(flow)))
}

fn ratio_broken(run: Option<&MovesRun>, traffic: Traffic) -> f64 {
    let count =
        |broken: bool| total(run, |flow| u64::from(flow.traffic == traffic && (!broken || is_broken(flow))));
    count(true) / count(false)
}

/// Of the flows that move.
fn needless_kb(run: Option<&MovesRun>) -> f64 {
    total(run, |flow| flow.needless_bytes) / 1e3
}

/// Held bytes that did not move with their flows.
fn left_kb(run: Option<&MovesRun>) -> f64 {
    run.map_or(f64::NAN, |run| run.moves.iter().map(|one| one.left_bytes).sum::<u64>() as f64 / 1e3)
}

fn gaps(run: Option<&MovesRun>) -> Vec<f64> {
    sorted(run.into_iter().flat_map(|run| &run.moves).filter_map(|one| one.gap_ms))
}

fn percentile(sorted: &[f64], per_mille: u32) -> f64 {
    stats::percentile(sorted, per_mille).unwrap_or(f64::NAN)
}

/// Mean goodput of the flows that move over that of the flow that does not.
fn ratio(run: Option<&MovesRun>, traffic: Traffic) -> f64 {
    let mean = |moves: bool| {
        let flows = run.into_iter().flat_map(|run| &run.flows);
        let own = flows.filter(|flow| flow.moves == moves && flow.traffic == traffic);
        stats::mean(own.map(|flow| flow.goodput_mbps)).unwrap_or(f64::NAN)
    };
    mean(true) / mean(false)
}

fn runs(result: Option<&MovesResult>) -> impl Iterator<Item = (&MovesResult, &MovesRun)> {
    result.into_iter().flat_map(|result| result.runs.iter().map(move |run| (result, run)))
}

/// The runs in which boxes hand over.
fn handed_over(result: Option<&MovesResult>) -> impl Iterator<Item = &MovesRun> {
    runs(result).filter_map(|(result, run)| {
        let case = result.scenario.cases.iter().find(|case| case.name == run.case)?;
        (case.scheme == MoveScheme::Handover).then_some(run)
    })
}

fn costs(result: Option<&MovesResult>) -> Table {
    let mut table = Table::new("What moving costs", "case")
        .column(Source::Ours, "moves", "", 0)
        .column(Source::Ours, "flows broken", "", 0)
        .column(Source::Ours, "resets", "", 0)
        .column(Source::Ours, "lost by the radio", "KB", 1)
        .column(Source::Ours, "sent twice", "KB", 1)
        .column(Source::Ours, "left at the old box", "KB", 1)
        .column(Source::Ours, "gap, median", "ms", 1)
        .column(Source::Ours, "gap, p95", "ms", 1)
        .column(Source::Ours, "gap, longest", "ms", 1)
        .column(Source::Limit, "gap, aim", "ms", 0)
        .column(Source::Ours, "downloads, moving ÷ staying", "", 3)
        .column(Source::Ours, "uploads, moving ÷ staying", "", 3);
    for (result, run) in runs(result) {
        let (name, run) = (run.case.as_str(), Some(run));
        let gaps = gaps(run);
        let values = vec![
            count(run, Move::has_moved).into(),
            broken(run).into(),
            total(run, |flow| flow.resets).into(),
            (total(run, |flow| flow.lost_bytes) / 1e3).into(),
            needless_kb(run).into(),
            left_kb(run).into(),
            percentile(&gaps, 500).into(),
            percentile(&gaps, 950).into(),
            percentile(&gaps, 1_000).into(),
            bound_ms(result, name).into(),
            ratio(run, Traffic::Bulk).into(),
            ratio(run, Traffic::Upload).into(),
        ];
        table.row(name, values);
    }
    table
}

fn work(result: Option<&MovesResult>) -> Table {
    let mut table = Table::new("The boxes' work at a move", "case, traffic")
        .column(Source::Ours, "moves", "", 0)
        .column(Source::Ours, "held data, median", "KB", 1)
        .column(Source::Ours, "most", "KB", 1)
        .column(Source::Ours, "asked, median", "ms", 1)
        .column(Source::Ours, "copied, median", "ms", 1)
        .column(Source::Ours, "nobody's, median", "ms", 1)
        .column(Source::Ours, "nobody's, p95", "ms", 1)
        .column(Source::Ours, "the command, median", "ms", 1)
        .column(Source::Ours, "sent twice, median", "KB", 1)
        .column(Source::Ours, "gap, median", "ms", 1)
        .column(Source::Ours, "gap, p95", "ms", 1);
    for run in handed_over(result) {
        for traffic in [Traffic::Bulk, Traffic::Exchanges, Traffic::Upload] {
            let own = || run.moves.iter().filter(|one| one.traffic == traffic && one.has_moved());
            let of = |value: fn(&Move) -> f64| sorted(own().map(value));
            let held = of(|one| one.bytes as f64 / one.flows.max(1) as f64 / 1e3);
            let [asked, copied, frozen] =
                [of(|one| one.phases_ms[0]), of(|one| one.phases_ms[1]), of(|one| one.phases_ms[2])];
            let gaps = sorted(own().filter_map(|one| one.gap_ms));
            let values = vec![
                (own().count() as f64).into(),
                percentile(&held, 500).into(),
                percentile(&held, 1_000).into(),
                percentile(&asked, 500).into(),
                percentile(&copied, 500).into(),
                percentile(&frozen, 500).into(),
                percentile(&frozen, 950).into(),
                percentile(&of(|one| one.took_ms), 500).into(),
                percentile(&of(|one| one.needless_bytes as f64 / 1e3), 500).into(),
                percentile(&gaps, 500).into(),
                percentile(&gaps, 950).into(),
            ];
            table.row(format!("{}, {}", run.case, traffic.word()), values);
        }
    }
    table
}

fn answers(result: Option<&MovesResult>) -> Table {
    let mut table = Table::new("Answers to requests", "case, subscriber")
        .column(Source::Ours, "answers", "", 0)
        .column(Source::Ours, "median", "ms", 0)
        .column(Source::Ours, "p95", "ms", 0)
        .column(Source::Ours, "longest", "ms", 0);
    for (_, run) in runs(result) {
        for (moves, word) in [(true, "moves"), (false, "stays")] {
            let flows = run.flows.iter().filter(|flow| flow.moves == moves);
            let all = sorted(flows.flat_map(|flow| &flow.answers).map(|(_, ms)| *ms));
            let [median, p95, most] = [500, 950, 1_000].map(|part| percentile(&all, part).into());
            table.row(format!("{}, {word}", run.case), vec![(all.len() as f64).into(), median, p95, most]);
        }
    }
    table
}

fn figures(result: Option<&MovesResult>) -> Vec<Figure> {
    let of = |case: &str| result.and_then(|result| result.of(case));
    let curve = |case: &str| Series::distribution(case, &gaps(of(case)));
    let aim = |case: &str| {
        let bound = result.map_or(f64::NAN, |result| bound_ms(result, case));
        Series::new(&format!("aim, {case}"), Source::Limit, Mark::Stems, vec![Point::new(bound, 100.0)])
    };
    let gaps = Figure::new("gaps", Axis::log("gap, ms")).panel(
        Axis::linear("% of moves"),
        vec![curve(NEAR), curve(FAR), curve(LOST), curve(PLAIN), aim(NEAR), aim(FAR)],
    );
    let over_time = |case: &str, moves: bool| {
        let mut flows = of(case).into_iter().flat_map(|run| &run.flows);
        let flow = flows.find(|flow| flow.traffic == Traffic::Bulk && flow.moves == moves);
        let bins = flow.map_or(&[][..], |flow| &flow.bins[..]);
        let wide = (BIN_S * 1e3) as usize / lab::moves::BIN_MS as usize;
        let mbps = |bins: &[u64]| bins.iter().sum::<u64>() as f64 * 8.0 / 1e6 / BIN_S;
        let values: Vec<Option<f64>> = bins.chunks(wide).map(|bins| Some(mbps(bins))).collect();
        let name = if moves { case.to_owned() } else { "stays".to_owned() };
        Series::over_time(&name, Source::Ours, BIN_S, &values)
    };
    let mut one = Figure::new("one", Axis::linear("seconds"));
    for case in CASES {
        one = one.panel(Axis::linear(&format!("{case}, Mbit/s")), vec![over_time(case, true)]);
    }
    let one = one.panel(Axis::linear("stays, Mbit/s"), vec![over_time(NEAR, false)]);
    vec![gaps, one]
}

#[cfg(test)]
mod tests {
    use super::*;

    fn flow(traffic: Traffic, moves: bool, mbps: f64) -> FlowRun {
        FlowRun {
            traffic,
            moves,
            bytes: 0,
            goodput_mbps: mbps,
            is_intact: true,
            is_stalled: false,
            resets: 0,
            sent_bytes: 0,
            lost_bytes: 0,
            needless_bytes: 0,
            stranded_packets: 0,
            bins: vec![25_000; 10],
            answers: Vec::new(),
            error: None,
        }
    }

    fn moved(gap_ms: f64) -> Move {
        Move {
            subscriber: 0,
            traffic: Traffic::Bulk,
            at_s: 2.5,
            took_ms: 60.0,
            phases_ms: [20.0, 1.0, 21.0],
            flows: 1,
            bytes: 30_000,
            left_bytes: 0,
            gap_ms: Some(gap_ms),
            needless_bytes: 0,
            refused: None,
        }
    }

    fn result() -> MovesResult {
        let scenario = read(FILE.text).unwrap();
        let run = |case: &str| MovesRun {
            case: case.to_owned(),
            flows: vec![
                flow(Traffic::Bulk, true, 1.97),
                flow(Traffic::Bulk, false, 2.0),
                flow(Traffic::Upload, true, 0.99),
                flow(Traffic::Upload, false, 1.0),
            ],
            moves: (1..=100).map(|n| moved(f64::from(n))).collect(),
            ..MovesRun::default()
        };
        MovesResult { scenario, runs: CASES.map(run).to_vec() }
    }

    fn check<'a>(checks: &'a [Check], claim: &str) -> &'a Check {
        checks.iter().find(|check| check.claim.starts_with(claim)).unwrap()
    }

    #[test]
    fn the_file_is_that_of_the_issue_but_for_its_length() {
        let scenario = read(FILE.text).unwrap();
        assert_eq!(scenario.bulk + scenario.exchanges + scenario.uploads, 16);
        assert_eq!(scenario.every.0.as_millis(), 5_000);
        assert!(read(&FILE.text.replace("name = \"split TCP\"", "name = \"x\"")).is_err());
    }

    #[test]
    fn aims_are_held_against_what_was_measured() {
        let given = result();
        let found = checks(Some(&given));
        assert!(check(&found, "20 ms between the boxes: downloads").passed, "1.97 of 2.00 are 0.985");
        let longest = check(&found, "20 ms between the boxes: gap at a move, ms, the longest");
        assert_eq!((longest.measured, longest.aim, longest.passed), (Some(100.0), 80.0, false));
        assert_eq!(check(&found, "100 ms between the boxes: gap at a move, ms, p95").aim, 200.0);
        assert!(!check(&found, "split TCP").passed, "nothing broke");
        assert_eq!(check(&found, "I-TCP").measured, Some(0.0));
    }

    #[test]
    fn what_breaks_or_is_sent_twice_is_counted_of_those_that_move() {
        let mut given = result();
        let run = &mut given.runs[0];
        (run.flows[0].needless_bytes, run.flows[1].needless_bytes) = (1_448, 9_999);
        run.flows[2].is_intact = false;
        run.flows[0].is_stalled = true;
        run.moves[0].refused = Some("busy".to_owned());
        let found = checks(Some(&given));
        let measured = |claim: &str| check(&found, &format!("20 ms between the boxes: {claim}")).measured;
        assert_eq!(measured("KB sent twice"), Some(1.448));
        assert_eq!((measured("flows broken"), measured("moves that a box refused")), (Some(2.0), Some(1.0)));
    }
}
