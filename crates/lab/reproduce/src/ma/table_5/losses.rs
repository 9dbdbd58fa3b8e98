//! Cost of losses at a small window, and bound of all schemes under them.
//!
//! While a hole is open the client holds one window behind it and discards the rest. With a window that
//! is small against what is under way, a loss event costs the link about one round trip. So at λ events
//! a second and a round trip R the goodput is at most
//!
//! ```text
//! goodput ÷ UDP ≤ 1 ÷ (1 + λ·R)
//! ```

use scenario::Scenario;
use units::Duration;

use super::{CASES, Column, Flow, Losing, Printed, milliseconds, over_udp, ratio, with_others};
use crate::case_id::case_ids;
use crate::{CaseId, Context, ReproduceError, Runs, Source, Table, Value};

/// Frequency of losses of a link at full rate, and its round trip.
#[derive(Clone, Copy, Debug)]
pub(super) struct Losses {
    /// λ: loss events a second while the link is full.
    pub per_second: f64,
    /// The same under normal TCP.
    pub under_normal: f64,
    /// Round trip between accelerator and client without a queue, ms: repairs count.
    pub path_ms: f64,
    /// Mean queueing delay of both controllers at 17 KB, ms.
    pub queue_ms: [Option<f64>; 2],
}

impl Losses {
    /// The most of UDP's goodput at a window far below a round trip's data, of `round_trip_ms`.
    pub fn bound(&self, round_trip_ms: f64) -> f64 {
        1.0 / (1.0 + self.per_second * round_trip_ms / 1e3)
    }

    /// λ and the path from the flow that keeps the link full at 1024 KB; none in the lab, where no
    /// packet is recorded. `case` says which case of the file a flow is.
    pub fn of<C: CaseId>(runs: &Runs<C>, scenario: &Scenario, case: impl Fn(Flow) -> C) -> Option<Self> {
        let full = case(Flow::Accelerated1024);
        let (mut path, mut packets) = (Duration::ZERO, 0);
        for run in runs.of(full) {
            path += run.radio.beyond_queue;
            packets += run.radio.delivered;
        }
        if packets == 0 {
            return None;
        }
        let queue = |flow: Flow| Some(runs.moments(case(flow), |f| f.radio.queue_delay_ms.mean)?.mean);
        Some(Self {
            per_second: events_per_second(runs, full)?,
            under_normal: events_per_second(runs, case(Flow::Normal))?,
            path_ms: path.as_millis_f64() / packets as f64 + uplink_ms(scenario),
            queue_ms: [queue(Flow::Accelerated17), queue(Flow::Adaptive17)],
        })
    }
}

fn events_per_second<C: CaseId>(runs: &Runs<C>, case: C) -> Option<f64> {
    let (mut events, mut seconds) = (0, 0.0);
    for run in runs.of(case) {
        events += run.radio.losses.len();
        seconds += run.result.figures.as_ref()?.transfer.seconds;
    }
    (seconds > 0.0).then(|| events as f64 / seconds)
}

/// Time that an acknowledgement takes: the delay, and half a slot in the mean.
fn uplink_ms(scenario: &Scenario) -> f64 {
    let Some(up) = scenario.resolved().into_iter().find_map(|case| case.radio.up) else { return 0.0 };
    let delay = up.delay.map_or(0.0, |delay| delay.0.as_millis_f64());
    delay + up.slots.map_or(0.0, |slot| slot.0.as_millis_f64() / 2.0)
}

/// Throughput of 17 KB beside its bound, on the links that lose by time and by packet.
pub(super) fn bounds(columns: &[Column]) -> Table {
    let mut table =
        Table::new("What a window of 17 KB can reach: 1 ÷ (1 + λR) of UDP", "{RSRP, SINR}, losses")
            .column(Source::Ours, "λ, events a second", "", 2)
            .column(Source::Ours, "R without queue", "ms", 0)
            .column(Source::Limit, "bound without queue", "", 3)
            .column(Source::Paper, "÷ UDP", "", 3);
    for (flow, source) in [CASES[0], CASES[2]] {
        let name = flow.label();
        table = table
            .column(source, &format!("{name} ÷ UDP"), "", 3)
            .column(source, &format!("{name}, mean queue"), "ms", 0)
            .column(Source::Limit, &format!("bound with the queue of {name}"), "", 3);
    }
    for (process, losing) in [("by time", Losing::ByTime), ("by packet", Losing::ByPacket)] {
        for column in columns {
            let losses = if losing == Losing::ByTime { column.by_time } else { column.by_packet };
            let mut values: Vec<Value> = vec![
                losses.map(|l| l.per_second).into(),
                losses.map(|l| l.path_ms).into(),
                losses.map(|l| l.bound(l.path_ms)).into(),
                column.printed.ratio().into(),
            ];
            for (index, case) in [CASES[0].0, CASES[2].0].into_iter().enumerate() {
                let queue = losses.and_then(|l| l.queue_ms[index]);
                values.extend([
                    ratio(&column.runs, (case, losing), (Flow::Udp, losing)).into(),
                    queue.into(),
                    losses.and_then(|l| Some(l.bound(l.path_ms + queue?))).into(),
                ]);
            }
            table.row(format!("{}, {process}", column.printed.signal), values);
        }
    }
    table
}

case_ids! {
    /// The grid of `ma/table-5-fades.toml`: lengths of fades.
    enum Fade { Ms1 = "1 ms", Ms4 = "4 ms", Ms16 = "16 ms", Ms64 = "64 ms" }
}

/// Lengths of fades, as the grid of `table-5-fades.toml` has them, and the spacing that goes with each, ms.
const FADES: [(Fade, f64); 4] =
    [(Fade::Ms1, 850.0), (Fade::Ms4, 950.0), (Fade::Ms16, 1_250.0), (Fade::Ms64, 1_150.0)];

/// Fades of other lengths with which UDP and CUBIC come to the paper's goodput too, and what they leave
/// the others.
pub(super) fn lengths(context: &mut Context<'_>, printed: &Printed) -> Result<Table, ReproduceError> {
    let scenario = context.scenario("ma/table-5-fades.toml")?;
    let runs = context.run(&scenario)?;
    let title =
        format!("Fades of other lengths at {}, with the same goodput of UDP and CUBIC", printed.signal);
    let mut table = Table::new(&title, "a fade lasts")
        .column(Source::Ours, "one every", "ms", 0)
        .column(Source::Ours, "of the time", "%", 2)
        .column(Source::Limit, Flow::Udp.label(), "Mbit/s", 1)
        .column(Source::Ours, Flow::Normal.label(), "Mbit/s", 1)
        .column(Source::Ours, "λ, events a second", "", 2)
        .column(Source::Limit, "bound without queue at 17 KB", "", 3)
        .column(Source::Paper, "÷ UDP", "", 3)
        .columns(CASES.map(|(case, source)| (source, over_udp(case))), "", 3);
    for (length, every_ms) in FADES {
        let lasting_ms = milliseconds(length.label());
        let losses = Losses::of(&runs, &scenario, |flow| (flow, length));
        let mut values: Vec<Value> = vec![
            every_ms.into(),
            (lasting_ms / every_ms * 100.0).into(),
            runs.goodput((Flow::Udp, length)).into(),
            runs.goodput((Flow::Normal, length)).into(),
            losses.map(|l| l.per_second).into(),
            losses.map(|l| l.bound(l.path_ms)).into(),
            printed.ratio().into(),
        ];
        let share = |case| Value::from(ratio(&runs, (case, length), (Flow::Udp, length)));
        values.extend(CASES.map(|(case, _)| share(case)));
        table.row(length.label(), values);
    }
    Ok(table)
}

/// The links that lose by packet: as the first tables, in one.
pub(super) fn by_packet(columns: &[Column]) -> Table {
    let name = |case: Flow| (case, Losing::ByPacket);
    let mut table = Table::new("Losses by packet: the harder links", "{RSRP, SINR}")
        .columns(with_others().map(|(case, source)| (source, case.label())), "Mbit/s", 1)
        .column(Source::Paper, "÷ UDP", "", 3)
        .columns(CASES.map(|(case, _)| (Source::Ratio, over_udp(case))), "", 3);
    for Column { printed, runs, .. } in columns {
        let mut values: Vec<Value> = with_others().map(|(case, _)| runs.goodput(name(case)).into()).collect();
        values.push(printed.ratio().into());
        values.extend(CASES.map(|(case, _)| ratio(runs, name(case), name(Flow::Udp)).into()));
        table.row(printed.signal, values);
    }
    table
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_event_a_second_that_costs_a_quarter_of_a_second() {
        let losses = Losses { per_second: 1.0, under_normal: 0.5, path_ms: 30.0, queue_ms: [None; 2] };
        assert!((losses.bound(250.0) - 0.8).abs() < 1e-12);
        assert!(losses.bound(losses.path_ms) > 0.97);
    }

    /// The table's first columns say what the file does.
    #[test]
    fn spacings_are_those_of_the_file() {
        let file =
            super::super::EXPERIMENT.files.iter().find(|f| f.path.ends_with("table-5-fades.toml")).unwrap();
        let scenario = Scenario::from_toml(file.path, file.text).unwrap();
        for (length, every_ms) in FADES {
            let case = scenario.resolved().into_iter().find(|case| case.name == (Flow::Udp, length).name());
            let fades = case.unwrap().radio.down.unwrap().fades.unwrap();
            assert!((fades.every.0.as_millis_f64() - every_ms).abs() < 1e-9, "{length:?}");
        }
    }
}
