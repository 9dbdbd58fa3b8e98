//! [`Dataset`]: what an analysis finds as Parquet tables in folders that databases know.

mod ends;
mod identity;
mod intervals;
mod schemas;

use std::io;
use std::path::{Path, PathBuf};

use analysis::{
    CaptureFile, Event, EventKind, Findings, FlowReport, MadeBy, MptcpReport, PacketView, SCHEMA, Sink,
};
use foldhash::fast::FixedState;
use hashbrown::HashMap;
use tables::{Column, ShardWriter, Shards, TableSchema, TablesError, Value, Whole};

use crate::flow_lines::failure;
use crate::flow_row::FlowRow;
use crate::variant_name::name_of;
use ends::Ends;
pub use identity::{CaptureId, capture_id, date_of, series_run};
use identity::{flow_id, partition, run_id};
use intervals::Intervals;

/// The layout's version: the first folder of a dataset.
const LAYOUT: &str = "v1";

/// Writes one analysis into a dataset: `ROOT/v1/table=T/env=E/date=D/part-RUN.parquet`.
///
/// RUN comes from the captures' contents, so that another run over the same captures replaces its parts, and
/// runs over others add theirs; or from a series' name ([`Dataset::of_series`]). The date is that of the first segment. Memory is that of one row group per
/// table.
pub struct Dataset {
    root: PathBuf,
    environment: String,
    captures: Vec<CaptureId>,
    run: String,
    made_by: MadeBy,
    /// Number of the run's first flow.
    first_flow: u64,
    /// Of the first segment.
    date: Option<String>,
    row: FlowRow,
    intervals: Intervals,
    /// Ends that rows state, by the flows in progress.
    ends: HashMap<u64, Ends, FixedState>,
    /// Events of the packet that comes next: it says whose they are.
    events: Vec<Event>,
    /// Flows of Multipath TCP and their files, by capture point, lower and higher end, and first packet.
    subflows: HashMap<(u16, String, String, u64), (i64, u16), FixedState>,
    parts: Parts,
    failed: Option<io::Error>,
}

impl std::fmt::Debug for Dataset {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Dataset").field("root", &self.root).field("run", &self.run).finish_non_exhaustive()
    }
}

/// Tables in the making.
#[derive(Default)]
struct Parts {
    open: Vec<(TableSchema, Option<ShardWriter>)>,
}

/// Tables by their place in [`Parts`].
#[derive(Clone, Copy)]
enum Table {
    Captures,
    Flows,
    Mptcp,
    Intervals,
    Events,
    Samples,
    Pairs,
}

/// All columns of a dataset, with the names of their tables.
#[must_use]
pub fn columns() -> Vec<(String, Column)> {
    let of = |schema: TableSchema| {
        let table = schema.table;
        schema.columns.into_iter().map(move |column| (table.clone(), column))
    };
    schemas::all(FlowRow::new(Vec::new()).columns()).into_iter().flat_map(of).collect()
}

impl Dataset {
    /// A dataset in the folder `root`, for captures with these identities and names, of an environment (a
    /// network, a carrier).
    pub fn new(root: &Path, environment: &str, captures: Vec<(CaptureId, String)>, made_by: &MadeBy) -> Self {
        let (captures, files): (Vec<CaptureId>, Vec<String>) = captures.into_iter().unzip();
        let row = FlowRow::new(files);
        let schemas = schemas::all(row.columns());
        Self {
            root: root.to_owned(),
            environment: environment.to_owned(),
            run: run_id(&captures),
            captures,
            made_by: made_by.clone(),
            first_flow: 0,
            date: None,
            row,
            intervals: Intervals::default(),
            ends: HashMap::default(),
            events: Vec::new(),
            subflows: HashMap::default(),
            parts: Parts { open: schemas.into_iter().map(|schema| (schema, None)).collect() },
            failed: None,
        }
    }

    /// For an analysis whose flows are numbered from `first_flow`: its flows keep their identities.
    #[must_use]
    pub fn starting_at(mut self, first_flow: u64) -> Self {
        self.first_flow = first_flow;
        self
    }

    /// As the run of a series, by its name: [`series_run`].
    #[must_use]
    pub fn of_series(mut self, name: &str) -> Self {
        self.run = series_run(&self.environment, name);
        self
    }

    fn flow_id(&self, number: u64) -> i64 {
        flow_id(&self.run, number.wrapping_sub(self.first_flow))
    }

    /// Writes a row; the first failure is kept for the end.
    fn push(&mut self, table: Table, row: Vec<Value>) {
        if self.failed.is_none() {
            self.failed = self.try_push(table, row).map_err(failure).err();
        }
    }

    fn try_push(&mut self, table: Table, row: Vec<Value>) -> Result<(), TablesError> {
        let (schema, part) = &mut self.parts.open[table as usize];
        if part.is_none() {
            let folder = self
                .root
                .join(LAYOUT)
                .join(format!("table={}", schema.table))
                .join(format!("env={}", partition(&self.environment)))
                .join(format!("date={}", self.date.as_deref().unwrap_or("__HIVE_DEFAULT_PARTITION__")));
            let notes = [
                ("cellerator.schema", SCHEMA),
                ("cellerator.version", &self.made_by.cellerator),
                ("cellerator.command", &self.made_by.command),
            ];
            *part = Some(Shards::open(&folder, schema)?.write(&self.run, &notes)?);
        }
        part.as_mut().map_or(Ok(()), |part| part.push(row))
    }

    /// Ends the parts and gives them their names; returns their files.
    ///
    /// # Errors
    /// Writing failed, now or before; no part is left then.
    pub fn finish(self, findings: &Findings) -> io::Result<Vec<PathBuf>> {
        self.close(findings)?.into_iter().map(Whole::publish).collect()
    }

    /// Ends the parts: all of them but their names.
    ///
    /// # Errors
    /// Writing failed, now or before; no part is left then.
    pub fn close(mut self, findings: &Findings) -> io::Result<Vec<Whole>> {
        for (capture, id) in findings.captures.iter().zip(self.captures.clone()) {
            let row = self.capture_row(capture, &id);
            self.push(Table::Captures, row);
        }
        for connection in &findings.mptcp {
            self.push_connection(connection);
        }
        for pair in &findings.pairs {
            let flows = [pair.client_flow, pair.server_flow].map(|flow| self.flow_id(flow));
            let mut row = vec![self.run.as_str().into(), flows[0].into(), flows[1].into()];
            for flow in &pair.ends {
                Ends::new(self.row.file(flow.capture), [flow.first, flow.second]).append_to(&mut row);
            }
            row.extend([
                pair.clock_offset_ms.into(),
                pair.path_rtt_ms.into(),
                pair.is_translated.into(),
                pair.lost_to_server.into(),
                pair.lost_to_client.into(),
            ]);
            self.push(Table::Pairs, row);
        }
        if let Some(error) = self.failed {
            return Err(error);
        }
        let parts = self.parts.open.into_iter().filter_map(|(_, part)| part);
        parts.map(|part| part.close().map_err(failure)).collect()
    }

    fn capture_row(&self, capture: &CaptureFile, id: &CaptureId) -> Vec<Value> {
        let skipped = &capture.skipped;
        vec![
            self.run.as_str().into(),
            id.0.as_str().into(),
            capture.file.as_str().into(),
            capture.packets.into(),
            capture.segments.into(),
            capture.clipped.into(),
            capture.time_steps_back.into(),
            capture.sorted.into(),
            capture.bad_blocks.into(),
            capture.dropped.into(),
            capture.problem.as_deref().into(),
            skipped.unknown_link.into(),
            skipped.not_ip.into(),
            skipped.not_tcp.into(),
            skipped.fragment.into(),
            skipped.cut.into(),
        ]
    }

    /// One row per subflow and direction.
    fn push_connection(&mut self, connection: &MptcpReport) {
        for subflow in &connection.subflows {
            let key = subflow_key(subflow.point, subflow.client, subflow.server, subflow.start_ns);
            let flow = self.subflows.get(&key).copied();
            for (index, (direction, whole)) in
                subflow.directions.iter().zip(&connection.directions).enumerate()
            {
                let row = vec![
                    self.run.as_str().into(),
                    connection.id.into(),
                    connection.version.into(),
                    flow.map(|(id, _)| id).into(),
                    flow.and_then(|(_, capture)| self.row.file(capture)).into(),
                    subflow.client.to_string().into(),
                    subflow.client.ip().to_string().into(),
                    u64::from(subflow.client.port()).into(),
                    subflow.server.to_string().into(),
                    subflow.server.ip().to_string().into(),
                    u64::from(subflow.server.port()).into(),
                    subflow.joined.into(),
                    (index == 1).into(),
                    direction.bytes.into(),
                    direction.share.into(),
                    direction.reinjected_bytes.into(),
                    direction.repeated_bytes.into(),
                    direction.mappings.into(),
                    whole.bytes.into(),
                    whole.reinjected_bytes.into(),
                    whole.out_of_order.into(),
                    whole.out_of_order_delay.map(|delay| delay.p50_ms).into(),
                    whole.out_of_order_delay.map(|delay| delay.p95_ms).into(),
                    whole.out_of_order_delay.map(|delay| delay.max_ms).into(),
                ];
                self.push(Table::Mptcp, row);
            }
        }
    }

    fn push_intervals(&mut self, rows: Vec<Vec<Value>>) {
        rows.into_iter().for_each(|row| self.push(Table::Intervals, row));
    }
}

fn subflow_key(
    point: u16,
    a: std::net::SocketAddr,
    b: std::net::SocketAddr,
    start_ns: u64,
) -> (u16, String, String, u64) {
    (point, a.min(b).to_string(), a.max(b).to_string(), start_ns)
}

/// Microseconds since 1970.
fn micros(ns: u64) -> Value {
    Value::from(ns / 1_000)
}

impl Sink for Dataset {
    fn on_flow(&mut self, flow: &FlowReport) {
        let id = self.flow_id(flow.id);
        let ends = self.ends.remove(&flow.id).unwrap_or_else(|| self.ends_of(flow));
        let rows = self.intervals.end(flow.id, id, &ends);
        self.push_intervals(rows);
        if flow.mptcp {
            self.subflows
                .insert(subflow_key(flow.point, flow.first, flow.second, flow.start_ns), (id, flow.capture));
        }
        let mut row = vec![id.into(), self.run.as_str().into(), micros(flow.start_ns)];
        row.extend(self.row.of(flow));
        self.push(Table::Flows, row);
    }

    fn on_event(&mut self, event: &Event) {
        self.events.push(*event);
    }

    fn wants_packets(&self) -> bool {
        true
    }

    fn on_packet(&mut self, packet: &PacketView<'_>) {
        if self.date.is_none() {
            self.date = Some(date_of(packet.time));
        }
        let id = self.flow_id(packet.flow);
        let file = self.row.file(packet.capture);
        let ends = self.ends.entry(packet.flow).or_insert_with(|| Ends::new(file, packet.ends)).clone();
        for event in std::mem::take(&mut self.events) {
            self.push_event(&event, &ends);
        }
        if packet.rtt_karn.is_some() || packet.rtt_timestamps.is_some() {
            let time = packet.time.as_nanos();
            let mut row = vec![id.into()];
            ends.append_to(&mut row);
            row.extend([
                // The sample is of the data that this packet answers.
                u8::from(packet.direction.reverse()).into(),
                micros(time),
                time.into(),
                packet.rtt_karn.map(|rtt| rtt.as_millis_f64()).into(),
                packet.rtt_timestamps.map(|rtt| rtt.as_millis_f64()).into(),
            ]);
            self.push(Table::Samples, row);
        }
        if let Some(row) = self.intervals.push(packet, id, &ends) {
            self.push(Table::Intervals, row);
        }
    }
}

impl Dataset {
    fn ends_of(&self, flow: &FlowReport) -> Ends {
        Ends::new(self.row.file(flow.capture), [flow.first, flow.second])
    }

    fn push_event(&mut self, event: &Event, ends: &Ends) {
        // The same names as in the JSON.
        let (mut cause, mut by, mut sent) = (Value::Null, Value::Null, Value::Null);
        match event.kind {
            EventKind::Retransmission { cause: why } => cause = name_of(&why).into(),
            EventKind::Spurious { cause: why, by: how, sent_ns } => {
                (cause, by, sent) = (name_of(&why).into(), name_of(&how).into(), sent_ns.into());
            }
            _ => {}
        }
        let mut row = vec![self.flow_id(event.flow).into()];
        ends.append_to(&mut row);
        row.extend([
            u8::from(event.direction).into(),
            micros(event.time_ns),
            event.time_ns.into(),
            name_of(&event.kind).into(),
            event.offset.into(),
            event.len.into(),
            cause,
            by,
            sent,
        ]);
        self.push(Table::Events, row);
    }
}
