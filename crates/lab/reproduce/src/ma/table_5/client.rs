//! Throughput of a client with a window of 17 KB, whatever the sender: measured by rate, by how late its
//! program reads, and by how long a repair holds back.
//!
//! What has arrived and is not read is at most a window. So a program that reads L after the first byte takes
//! at most
//!
//! ```text
//! window ÷ L
//! ```

use super::milliseconds;
use crate::case_id::case_ids;
use crate::{CaseId as _, Context, ReproduceError, Source, Table, Value};

case_ids! {
    /// The cases of `ma/table-5-client.toml`.
    enum Client {
        Reads50Us = "reads after 50 us",
        Reads1Ms = "reads after 1 ms",
        Reads2Ms = "reads after 2 ms",
        Reads5Ms = "reads after 5 ms",
        Reads10Ms = "reads after 10 ms",
        Repairs1Ms = "repairs of 1 ms",
        Repairs2Ms = "repairs of 2 ms",
        Repairs8Ms = "repairs of 8 ms",
    }
}
case_ids! {
    /// Its grid: the link's rate. The accelerator sends at nine tenths of it.
    enum Rate {
        Mbps6 = "6 Mbit/s",
        Mbps12 = "12 Mbit/s",
        Mbps25 = "25 Mbit/s",
        Mbps50 = "50 Mbit/s",
        Mbps80 = "80 Mbit/s",
    }
}

/// The widest window that Linux advertises when it is asked for 17 KB.
const WINDOW_BYTES: f64 = 18_304.0;

/// The table.
pub(super) fn table(context: &mut Context<'_>) -> Result<Table, ReproduceError> {
    let scenario = context.scenario("ma/table-5-client.toml")?;
    let runs = context.run::<(Client, Rate)>(&scenario)?;
    let mut table = Table::new("What a client with a window of 17 KB takes, by the link's rate", "client")
        .column(Source::Limit, "window ÷ time to read", "Mbit/s", 1)
        .columns(Rate::all().into_iter().map(|rate| (Source::Ours, rate.label())), "Mbit/s", 1);
    for client in Client::all() {
        let mut values: Vec<Value> = vec![bound_mbps(client).into()];
        values.extend(Rate::all().into_iter().map(|rate| Value::from(runs.goodput((client, rate)))));
        table.row(client.label(), values);
    }
    Ok(table)
}

/// The most that a program takes which reads so late; none where the time to read is not what limits.
fn bound_mbps(client: Client) -> Option<f64> {
    let ms = milliseconds(client.label().strip_prefix("reads after ")?);
    ms.is_finite().then(|| WINDOW_BYTES * 8.0 / (ms * 1e3))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_window_each_time_it_reads() {
        assert!((bound_mbps(Client::Reads2Ms).unwrap() - 73.216).abs() < 1e-9);
        assert_eq!((bound_mbps(Client::Reads50Us), bound_mbps(Client::Repairs8Ms)), (None, None));
    }
}
