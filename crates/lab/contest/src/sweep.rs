//! [`Sweep`]: a grid of parameters × traces × queues × seeds, in parallel, in shards, to be gone on with.
//!
//! ```text
//!   cells 0 … N−1 ──▶ those of shard i of n: i, i+n, i+2n, … ──▶ runs, each noted in the journal as it ends
//!                                                            ──▶ table, when all are there; the journal goes
//! ```
//!
//! The number of a cell, and so its shard, depends on the specification alone.

mod elimination;
mod journal;
mod rows;
mod spec;
mod summary;

use std::fs::File;
use std::io::BufWriter;
use std::path::{Path, PathBuf};
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, Ordering};

use parallel::{in_parallel, in_parallel_until};
use scenario::results::Interrupted;
use tables::{Format, TableReader, TableWriter, Value};

use crate::contest::{Cell, idle};
use crate::results::TraceFigures;
use crate::{ContestError, TraceSource};
pub use elimination::{Candidate, CaseCell, Eliminated, Elimination, Round, Tolerance};
use journal::Journal;
pub use spec::SweepSpec;
use spec::{Point, Prepared};

/// A part of a sweep: every `of`th cell from `index` on.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Shard {
    /// From 0 to `of` − 1.
    pub index: usize,
    /// Number of shards.
    pub of: usize,
}

impl Shard {
    /// Everything.
    pub const WHOLE: Self = Self { index: 0, of: 1 };
}

impl core::str::FromStr for Shard {
    type Err = ContestError;

    fn from_str(text: &str) -> Result<Self, ContestError> {
        let parts =
            text.split_once('/').and_then(|(i, n)| Some((i.trim().parse().ok()?, n.trim().parse().ok()?)));
        parts.filter(|(index, of)| index < of).map(|(index, of)| Self { index, of }).ok_or_else(|| {
            ContestError::setting(
                "shard",
                format!("`{text}` is none; write i/n with i from 0 to n-1, as in 0/8"),
            )
        })
    }
}

/// Progress of a sweep.
#[derive(Clone, Copy, Debug)]
pub struct Progress<'a> {
    /// Cells done, those of earlier runs included.
    pub done: usize,
    /// Cells of the shard.
    pub of: usize,
    /// Cell that was just done.
    pub cell: &'a str,
}

/// A sweep, or a shard of one, on its way into a file.
#[derive(Clone, Debug)]
pub struct Sweep {
    /// Specification of the sweep.
    pub spec: SweepSpec,
    /// Part of it to run.
    pub shard: Shard,
    /// Runs at the same time; the table does not depend on it.
    pub threads: usize,
    /// Path of the table: `.parquet`, `.csv` or `.jsonl`.
    pub out: PathBuf,
    /// Goes on with what an earlier run has left.
    pub resume: bool,
    /// Notes for the table: names and values.
    pub notes: Vec<(String, String)>,
}

impl Sweep {
    /// Runs all cells of the shard that are not there yet and writes the table; returns a summary for people,
    /// and how far it came if it did not come to the end.
    ///
    /// Once `is_over` no cell begins, and what was under way is left out. The table then has what there is,
    /// with a note that says so, and the journal stays to go on with.
    ///
    /// # Errors
    /// A setting, trace or file that is not right. What was run until then stays in the journal.
    pub fn run(
        &self,
        progress: &(dyn Fn(Progress<'_>) + Sync),
        is_over: &AtomicBool,
    ) -> Result<(String, Option<Interrupted>), ContestError> {
        let format = table_format(&self.out)?;
        let prepared = self.spec.prepare()?;
        let numbers: Vec<usize> = (0..prepared.len()).skip(self.shard.index).step_by(self.shard.of).collect();
        let header = journal::Header::new(&prepared, self.shard);
        let (journal, known) = Journal::open(&self.out, &header, self.resume)?;
        let missing: Vec<usize> = numbers.iter().copied().filter(|n| !known.contains_key(n)).collect();
        let idles = prepared.idles(self.threads)?;
        let state = Mutex::new((known, journal));
        let outcomes = in_parallel_until(missing.len(), self.threads, is_over, |index| {
            let number = missing[index];
            let (row, name) = run_cell(&prepared, &idles, number, is_over)?;
            // It may have been cut short.
            if is_over.load(Ordering::Relaxed) {
                return Ok(());
            }
            let mut state = state.lock().map_err(|_| ContestError::file(&self.out, &"a thread has died"))?;
            let (known, journal) = &mut *state;
            journal.append(number, &row)?;
            known.insert(number, row);
            progress(Progress { done: known.len(), of: numbers.len(), cell: &name });
            Ok::<_, ContestError>(())
        });
        outcomes.into_iter().flatten().collect::<Result<Vec<()>, _>>()?;
        let (known, journal) =
            state.into_inner().map_err(|_| ContestError::file(&self.out, &"a thread has died"))?;
        let schema = rows::schema(&prepared.parameters());
        let rows: Vec<Vec<Value>> =
            known.into_iter().filter(|(number, _)| numbers.contains(number)).map(|(_, row)| row).collect();
        let cells = prepared.len().to_string();
        let path = prepared.path.document().to_string();
        let own = [("sweep", prepared.identity.as_str()), ("cells", cells.as_str()), ("path", path.as_str())];
        let interrupted = Interrupted { finished: rows.len(), of: numbers.len() };
        let interrupted = (rows.len() < numbers.len()).then_some(interrupted);
        let told = interrupted.map(|interrupted| interrupted.to_string());
        let told = told.as_deref().map(|told| ("interrupted", told));
        let notes = self.notes.iter().map(|(name, value)| (name.as_str(), value.as_str()));
        let notes: Vec<(&str, &str)> = own.into_iter().chain(told).chain(notes).collect();
        write_table(&self.out, format, &schema, &rows, &notes)?;
        if interrupted.is_none() {
            journal.remove()?;
        }
        Ok((summary::summary(&schema, &rows), interrupted))
    }
}

fn run_cell(
    prepared: &Prepared,
    idles: &[Vec<TraceFigures>],
    number: usize,
    is_over: &AtomicBool,
) -> Result<(Vec<Value>, String), ContestError> {
    let point = prepared.point(number);
    let Point { trace, seed_index, scheme, .. } = &point;
    let (own, source) = prepared.source(*trace, *seed_index);
    let cell = Cell {
        trace: source,
        buffer: point.buffer,
        scheme,
        seed: point.seed,
        length: prepared.length,
        path: &prepared.path,
        is_over,
    };
    let name = format!("{}, {}, seed {}: {scheme}", source.name, point.buffer, point.seed);
    let run = cell.run().map_err(|source| ContestError::Sim { run: name.clone(), source })?;
    let told = format!("{name}: {}", run.in_words());
    Ok((rows::row(number, &point, &run, &idles[*trace][own], prepared.length), told))
}

impl Prepared {
    /// The figures of each trace, as every seed has it.
    fn idles(&self, threads: usize) -> Result<Vec<Vec<TraceFigures>>, ContestError> {
        let one = |trace: &TraceSource| {
            idle(trace, self.length, 1, &self.path)
                .map_err(|source| ContestError::Sim { run: trace.name.clone(), source })
        };
        let all =
            in_parallel(self.traces.len(), threads, |index| self.traces[index].iter().map(one).collect());
        all.into_iter().collect()
    }
}

/// The format that the end of a file's name asks for.
///
/// # Errors
/// Another end.
pub fn table_format(file: &Path) -> Result<Format, ContestError> {
    match file.extension().and_then(|end| end.to_str()) {
        Some("parquet") => Ok(Format::Parquet),
        Some("csv") => Ok(Format::Csv),
        Some("jsonl") => Ok(Format::JsonLines),
        _ => Err(ContestError::file(file, &"the name must end in .parquet, .csv or .jsonl")),
    }
}

/// Writes beside the file first, so that it appears whole.
fn write_table(
    file: &Path,
    format: Format,
    schema: &tables::TableSchema,
    rows: &[Vec<Value>],
    notes: &[(&str, &str)],
) -> Result<(), ContestError> {
    let wrong = |e: &dyn std::fmt::Display| ContestError::file(file, &format!("cannot be written: {e}"));
    let mut beside = file.as_os_str().to_owned();
    beside.push(".new");
    let beside = PathBuf::from(beside);
    let out = BufWriter::new(File::create(&beside).map_err(|e| wrong(&e))?);
    let mut table = TableWriter::new(out, schema, format, notes).map_err(|e| wrong(&e))?;
    for row in rows {
        table.push(row.clone()).map_err(|e| wrong(&e))?;
    }
    let out = table.finish().map_err(|e| wrong(&e))?;
    out.into_inner().map_err(|e| wrong(&e))?.sync_all().map_err(|e| wrong(&e))?;
    std::fs::rename(&beside, file).map_err(|e| wrong(&e))
}

/// Puts the Parquet tables of a sweep's shards together, in the order of their cells; returns a summary for
/// people.
///
/// # Errors
/// A part that cannot be read, parts of different sweeps, a cell that is there twice, or one that is missing.
pub fn merge(parts: &[PathBuf], out: &Path) -> Result<String, ContestError> {
    let format = table_format(out)?;
    let mut schema = None;
    let mut sweep = None;
    let mut rows: Vec<Vec<Value>> = Vec::new();
    for part in parts {
        if !part.is_file() {
            let problem = "there is no such table; name those that the shards wrote by --out, as .parquet";
            return Err(ContestError::file(part, &problem));
        }
        let wrong = |e: tables::TablesError| ContestError::file(part, &e);
        let reader = TableReader::open(part).map_err(wrong)?;
        let notes = (reader.note("sweep").map(str::to_owned), reader.note("cells").map(str::to_owned));
        if schema.get_or_insert_with(|| reader.schema().clone()) != reader.schema()
            || sweep.get_or_insert_with(|| notes.clone()) != &notes
        {
            return Err(ContestError::file(part, &"is of another sweep than the parts before it"));
        }
        for row in reader.rows().map_err(wrong)? {
            rows.push(row.map_err(wrong)?);
        }
    }
    let (Some(schema), Some((_, cells))) = (schema, sweep) else {
        return Err(ContestError::file(out, &"there are no parts to merge"));
    };
    let number = |row: &Vec<Value>| row.first().and_then(Value::as_int).unwrap_or(-1);
    rows.sort_by_key(number);
    let twice = rows.windows(2).find(|pair| number(&pair[0]) == number(&pair[1]));
    if let Some(pair) = twice {
        let problem = format!("cell {} is in two of the parts; give each part once", number(&pair[0]));
        return Err(ContestError::file(out, &problem));
    }
    let wanted: usize = cells.as_deref().and_then(|n| n.parse().ok()).unwrap_or(rows.len());
    if rows.len() != wanted {
        let problem = format!("{} of {wanted} cells are there: a shard is missing", rows.len());
        return Err(ContestError::file(out, &problem));
    }
    write_table(out, format, &schema, &rows, &[])?;
    Ok(summary::summary(&schema, &rows))
}

#[cfg(test)]
mod tests;
