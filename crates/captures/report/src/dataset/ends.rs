//! [`Ends`]: the columns that say whose a row is.

use std::net::SocketAddr;

use tables::{Column, Value};

/// File, addresses and ports of a flow.
#[derive(Clone, Debug)]
pub(super) struct Ends {
    values: [Value; COLUMNS],
}

/// Columns for them.
const COLUMNS: usize = 5;

/// The columns of the flow nearer to the server of a connection captured at both ends: their names begin so.
const NEAR_SERVER: &str = "server_flow_";

/// The columns of a connection captured at both ends: those of the flow nearer to the client, named as any
/// flow's, then those of the one nearer to the server.
pub(super) fn columns_of_both() -> Vec<Column> {
    let near_server = columns().map(|column| Column {
        name: format!("{NEAR_SERVER}{}", column.name),
        meaning: format!("{} (the flow captured nearer to the server)", column.meaning),
        ..column
    });
    let near_client = columns().map(|column| Column {
        meaning: format!("{} (the flow captured nearer to the client)", column.meaning),
        ..column
    });
    near_client.into_iter().chain(near_server).collect()
}

/// The columns, named as those of flows.
pub(super) fn columns() -> [Column; COLUMNS] {
    [
        Column::text("file").meaning("The file in which the flow's first packet lies"),
        Column::text("first_address").required().meaning("Address of the sender of the flow's first packet"),
        Column::int("first_port").required().meaning("Port of the sender of the flow's first packet"),
        Column::text("second_address").required().meaning("Address of the flow's other end"),
        Column::int("second_port").required().meaning("Port of the flow's other end"),
    ]
}

impl Ends {
    /// Of a flow in this file between these ends, the sender of the first packet first.
    pub(super) fn new(file: Option<&str>, ends: [SocketAddr; 2]) -> Self {
        let [first, second] = ends;
        let address = |end: SocketAddr| Value::from(end.ip().to_string());
        let port = |end: SocketAddr| Value::from(u64::from(end.port()));
        Self { values: [file.into(), address(first), port(first), address(second), port(second)] }
    }

    /// Appends their values to a row.
    pub(super) fn append_to(&self, row: &mut Vec<Value>) {
        row.extend_from_slice(&self.values);
    }
}
