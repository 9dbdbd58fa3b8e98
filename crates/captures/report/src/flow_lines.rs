//! [`FlowLines`]: one line per flow, as CSV or JSON.

use std::io::{self, Write};

use analysis::{FlowReport, SCHEMA};
use tables::{Format, TableSchema, TableWriter, TablesError};

use crate::flow_row::FlowRow;

/// Format of a line.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LineFormat {
    /// RFC 4180, with a header line; columns are those of the JSON schema, always all of them; what is not
    /// known is empty.
    Csv,
    /// One JSON object per line.
    Json,
}

/// Writes flows as lines.
#[derive(Debug)]
pub struct FlowLines<W: Write + Send> {
    out: Out<W>,
    failed: Option<io::Error>,
}

#[derive(Debug)]
enum Out<W: Write + Send> {
    Csv(TableWriter<W>, Box<FlowRow>),
    Json(W, Box<FlowRow>),
}

impl<W: Write + Send> FlowLines<W> {
    /// Writes the header, if the format has one; flows are of the captures with these names.
    ///
    /// # Errors
    /// Writing failed.
    pub fn new(out: W, format: LineFormat, files: Vec<String>) -> io::Result<Self> {
        let row = FlowRow::new(files);
        let out = match format {
            LineFormat::Json => Out::Json(out, Box::new(row)),
            LineFormat::Csv => {
                let mut schema = TableSchema::new("flows", 1);
                schema.columns = row.columns().to_vec();
                let table = TableWriter::new(out, &schema, Format::Csv, &[]).map_err(failure)?;
                Out::Csv(table, Box::new(row))
            }
        };
        Ok(Self { out, failed: None })
    }

    /// Writes one flow.
    pub fn push(&mut self, flow: &FlowReport) {
        if self.failed.is_some() {
            return;
        }
        self.failed = match &mut self.out {
            Out::Csv(table, row) => table.push(row.of(flow)).map_err(failure),
            Out::Json(out, row) => json_line(out, flow, row.file(flow.capture)),
        }
        .err();
    }

    /// Ends the lines.
    ///
    /// # Errors
    /// Writing failed, now or before.
    pub fn finish(self) -> io::Result<()> {
        if let Some(error) = self.failed {
            return Err(error);
        }
        match self.out {
            Out::Csv(table, _) => table.finish().map(drop).map_err(failure),
            Out::Json(mut out, _) => out.flush(),
        }
    }
}

fn json_line(out: &mut impl Write, flow: &FlowReport, file: Option<&str>) -> io::Result<()> {
    let mut value = serde_json::to_value(flow)?;
    value["schema"] = SCHEMA.into();
    value["file"] = file.into();
    for (end, address) in [("first", flow.first), ("second", flow.second)] {
        value[format!("{end}_address")] = address.ip().to_string().into();
        value[format!("{end}_port")] = address.port().into();
    }
    writeln!(out, "{value}")
}

/// The system's reason, if it is one.
pub(crate) fn failure(error: TablesError) -> io::Error {
    match error {
        TablesError::Io { source, .. } => source,
        error => io::Error::other(error),
    }
}
