//! The table of a sweep.

use tables::{Column, TableSchema, Value};
use units::Duration;

use super::spec::Point;
use crate::results::{Run, TraceFigures};

/// Columns before those of the parameters.
const FIRST: usize = 5;

/// The columns; those of the grid's parameters carry their names.
pub(super) fn schema(parameters: &[String]) -> TableSchema {
    let ms = |name: &str, meaning: &str| Column::float(name).unit("ms").meaning(meaning);
    let share = |name: &str, meaning: &str| Column::float(name).meaning(meaning);
    let mut schema = TableSchema::new("cellerator-sweep", 1)
        .with(Column::int("cell").required().meaning("Number of the cell in the grid"))
        .with(Column::text("trace").required().meaning("Capacity trace"))
        .with(Column::text("scheme").required().meaning("Scheme without the grid's parameters"))
        .with(Column::text("buffer").required().meaning("Size of the radio queue"))
        .with(Column::int("seed").required().meaning("Seed of the run"));
    for name in parameters {
        schema = schema.with(Column::text(name).meaning("Parameter of the scheme's controller"));
    }
    schema
        .with(Column::float("seconds").unit("s").meaning("Length of the run"))
        .with(share("utilisation", "Bytes delivered over bytes offered"))
        .with(
            Column::float("throughput_mbps").unit("Mbit/s").meaning("Over the radio link, headers included"),
        )
        .with(ms("queue_mean_ms", "Queueing delay of delivered packets: mean"))
        .with(ms("queue_p50_ms", "The same: median"))
        .with(ms("queue_p95_ms", "The same: 95th percentile"))
        .with(ms("queue_p99_ms", "The same: 99th percentile"))
        .with(share("loss", "Share of packets that the queue dropped"))
        .with(ms("ping_mean_ms", "Loaded ping: mean"))
        .with(ms("ping_p50_ms", "The same: median"))
        .with(ms("ping_p95_ms", "The same: 95th percentile"))
        .with(ms("idle_ping_p95_ms", "Ping alone on the trace: 95th percentile"))
        .with(ms("offset_p95_ms", "The omniscient sender's 95th percentile"))
        .with(Column::float("waiting_mean_bytes").unit("B").meaning("Data waiting in the accelerator: mean"))
        .with(Column::int("waiting_max_bytes").unit("B").meaning("The same: largest"))
        .with(Column::text("problems").meaning("What did not come out as it must"))
}

/// The row of a cell.
pub(super) fn row(
    number: usize,
    point: &Point,
    run: &Run,
    trace: &TraceFigures,
    length: Duration,
) -> Vec<Value> {
    let mut row: Vec<Value> = vec![
        number.into(),
        run.trace.as_str().into(),
        point.base.as_str().into(),
        run.buffer.as_str().into(),
        point.seed.into(),
    ];
    row.extend(point.values.iter().map(|value| Value::from(value.as_str())));
    row.extend([
        length.as_secs_f64().into(),
        run.utilisation.into(),
        run.throughput_mbps.into(),
        run.queue_ms.mean.into(),
        run.queue_ms.p50.into(),
        run.queue_ms.p95.into(),
        run.queue_ms.p99.into(),
        run.loss.into(),
        run.ping_ms.mean.into(),
        run.ping_ms.p50.into(),
        run.ping_ms.p95.into(),
        trace.idle_ping_ms.p95.into(),
        trace.offset_p95_ms.into(),
        run.waiting.map(|w| w.mean_bytes).into(),
        run.waiting.map(|w| w.max_bytes).into(),
        (!run.problems.is_empty()).then(|| run.problems.join("; ")).into(),
    ]);
    row
}

/// Text that distinguishes a row's scheme: its name and the grid's parameters.
pub(super) fn variant(schema: &TableSchema, row: &[Value]) -> String {
    let end = schema.position("seconds").unwrap_or(FIRST);
    let text = |index: usize| row.get(index).and_then(Value::as_text).unwrap_or_default();
    let parameters = (FIRST..end).map(|i| format!(" {}={}", schema.columns[i].name, text(i)));
    format!("{}{}", text(2), parameters.collect::<String>())
}
