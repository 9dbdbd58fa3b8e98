//! [`summary`]: which parameters did best.

use figures::Table;
use tables::{TableSchema, Value};

use super::rows::variant;

/// Combinations that are shown.
const SHOWN: usize = 40;

/// A combination of parameters over all its traces, queues and seeds.
struct Mean {
    name: String,
    count: f64,
    utilisation: f64,
    utilisation_min: f64,
    /// Sums of logarithms: factors count, not milliseconds of the slowest trace.
    queue_p95_log: f64,
    ping_p95_log: f64,
}

/// A table of those combinations that no other beats in both utilisation and queueing delay, best utilisation
/// first.
pub(super) fn summary(schema: &TableSchema, rows: &[Vec<Value>]) -> String {
    let means = means(schema, rows);
    let is_beaten = |one: &Mean| {
        means.iter().any(|other| {
            let (u, q) = (other.utilisation - one.utilisation, one.queue_p95_log - other.queue_p95_log);
            u >= 0.0 && q >= 0.0 && (u > 0.0 || q > 0.0)
        })
    };
    let mut front: Vec<&Mean> = means.iter().filter(|mean| !is_beaten(mean)).collect();
    front.sort_by(|a, b| b.utilisation.total_cmp(&a.utilisation));
    let mut table = Table {
        headings: vec![
            ("not beaten by any other", ""),
            ("used", "mean %"),
            ("", "min %"),
            ("queue p95", "geo. mean ms"),
            ("ping p95", "geo. mean ms"),
            ("runs", ""),
        ],
        rows: Vec::new(),
    };
    table.rows.extend(front.iter().take(SHOWN).map(|mean| {
        vec![
            mean.name.clone(),
            format!("{:.1}", mean.utilisation * 100.0),
            format!("{:.1}", mean.utilisation_min * 100.0),
            format!("{:.0}", mean.queue_p95_log.exp()),
            format!("{:.0}", mean.ping_p95_log.exp()),
            format!("{:.0}", mean.count),
        ]
    }));
    format!("\n{table}\n  {} combinations, {} of them not beaten\n", means.len(), front.len())
}

fn means(schema: &TableSchema, rows: &[Vec<Value>]) -> Vec<Mean> {
    let column = |row: &[Value], name: &str| {
        schema.position(name).and_then(|i| row.get(i)).and_then(Value::as_float).unwrap_or(0.0)
    };
    let mut means: Vec<Mean> = Vec::new();
    for row in rows {
        let name = variant(schema, row);
        let utilisation = column(row, "utilisation");
        let log = |name: &str| column(row, name).max(0.1).ln();
        let index = means.iter().position(|mean| mean.name == name).unwrap_or_else(|| {
            means.push(Mean {
                name,
                count: 0.0,
                utilisation: 0.0,
                utilisation_min: f64::INFINITY,
                queue_p95_log: 0.0,
                ping_p95_log: 0.0,
            });
            means.len() - 1
        });
        let mean = &mut means[index];
        mean.count += 1.0;
        mean.utilisation += utilisation;
        mean.utilisation_min = mean.utilisation_min.min(utilisation);
        mean.queue_p95_log += log("queue_p95_ms");
        mean.ping_p95_log += log("ping_p95_ms");
    }
    for mean in &mut means {
        mean.utilisation /= mean.count;
        mean.queue_p95_log /= mean.count;
        mean.ping_p95_log /= mean.count;
    }
    means
}
