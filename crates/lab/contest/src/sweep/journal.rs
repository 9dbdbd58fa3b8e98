//! [`Journal`]: the cells that are done, beside the table that is to come, so that a stopped sweep can go on.

use std::collections::BTreeMap;
use std::fs::{self, File, OpenOptions};
use std::io::{Read as _, Write as _};
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};
use tables::Value;

use super::Shard;
use super::spec::Prepared;
use crate::ContestError;

/// First line of a journal: what it is about.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Header {
    schema: String,
    /// Everything the cells depend on.
    sweep: String,
    shard: (usize, usize),
}

impl Header {
    pub(super) fn new(prepared: &Prepared, shard: Shard) -> Self {
        Self {
            schema: "cellerator/sweep-journal/1".to_owned(),
            sweep: prepared.identity.clone(),
            shard: (shard.index, shard.of),
        }
    }
}

/// Rows by the number of their cell.
pub(super) type Known = BTreeMap<usize, Vec<Value>>;

/// A file of one line per cell.
pub(super) struct Journal {
    path: PathBuf,
    file: File,
}

impl Journal {
    /// The journal for a table `out`, and what an earlier run has noted there.
    pub(super) fn open(out: &Path, header: &Header, resume: bool) -> Result<(Self, Known), ContestError> {
        let mut name = out.as_os_str().to_owned();
        name.push(".journal");
        let path = PathBuf::from(name);
        let wrong = |problem: String| ContestError::file(&path, &problem);
        let cannot = |e: std::io::Error| wrong(format!("cannot be written: {e}"));
        let mut file = OpenOptions::new().create(true).read(true).append(true).open(&path).map_err(cannot)?;
        if !io::try_lock(&file).map_err(cannot)? {
            return Err(wrong(
                "another sweep is writing this table: wait for it, or choose another file".to_owned(),
            ));
        }
        let mut text = String::new();
        file.read_to_string(&mut text).map_err(|e| wrong(e.to_string()))?;
        if !text.is_empty() && !resume {
            return Err(wrong("an earlier sweep stopped here: go on with --resume, or delete it".to_owned()));
        }
        let (whole, known) = read(&text, header).map_err(wrong)?;
        // What was being written when it was stopped.
        file.set_len(whole as u64).map_err(cannot)?;
        if whole == 0 {
            let line = serde_json::to_string(header).map_err(|e| wrong(e.to_string()))?;
            file.write_all((line + "\n").as_bytes()).map_err(cannot)?;
        }
        Ok((Self { path, file }, known))
    }

    /// Notes a cell.
    pub(super) fn append(&mut self, number: usize, row: &[Value]) -> Result<(), ContestError> {
        let cells: Vec<Cell> = row.iter().map(Cell::from).collect();
        let line = serde_json::to_string(&(number, cells)).map_err(|e| ContestError::file(&self.path, &e))?;
        let written = self.file.write_all((line + "\n").as_bytes());
        written.map_err(|e| ContestError::file(&self.path, &format!("cannot be written: {e}")))
    }

    /// Its work is done.
    pub(super) fn remove(self) -> Result<(), ContestError> {
        fs::remove_file(&self.path).map_err(|e| ContestError::file(&self.path, &e))
    }
}

/// Length of the whole lines, and their rows.
fn read(text: &str, header: &Header) -> Result<(usize, Known), String> {
    let whole = text.rfind('\n').map_or(0, |end| end + 1);
    let mut lines = text[..whole].lines();
    let Some(first) = lines.next() else { return Ok((0, Known::new())) };
    let found: Header = serde_json::from_str(first).map_err(|e| format!("is no journal of a sweep: {e}"))?;
    if found != *header {
        let what = if found.shard == header.shard { "specification, trace or version" } else { "shard" };
        return Err(format!("is of another {what}; delete it, or choose another file"));
    }
    let mut known = Known::new();
    for (index, line) in lines.enumerate() {
        let wrong = |e: &dyn core::fmt::Display| format!("line {}: {e}", index + 2);
        let (number, row): (usize, Vec<Cell>) = serde_json::from_str(line).map_err(|e| wrong(&e))?;
        let row: Option<Vec<Value>> = row.into_iter().map(Cell::value).collect();
        known.insert(number, row.ok_or_else(|| wrong(&"a number cannot be read"))?);
    }
    Ok((whole, known))
}

/// A cell as the journal has it. Numbers with a point are text: JSON's readers may change their last digit.
#[derive(Serialize, Deserialize)]
enum Cell {
    Null,
    Bool(bool),
    Int(i64),
    Float(String),
    Text(String),
}

impl From<&Value> for Cell {
    fn from(value: &Value) -> Self {
        match value {
            Value::Null => Self::Null,
            Value::Bool(flag) => Self::Bool(*flag),
            Value::Int(number) => Self::Int(*number),
            Value::Float(number) => Self::Float(number.to_string()),
            Value::Text(text) => Self::Text(text.clone()),
        }
    }
}

impl Cell {
    fn value(self) -> Option<Value> {
        Some(match self {
            Self::Null => Value::Null,
            Self::Bool(flag) => Value::Bool(flag),
            Self::Int(number) => Value::Int(number),
            Self::Float(number) => Value::Float(number.parse().ok()?),
            Self::Text(text) => Value::Text(text),
        })
    }
}
