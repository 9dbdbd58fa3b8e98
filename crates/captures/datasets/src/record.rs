//! [`Record`]: what of a dataset was made from which files.

use std::path::{Path, PathBuf};
use std::time::UNIX_EPOCH;

use report::{capture_id, series_run};
use serde::{Deserialize, Serialize};
use tables::Whole;

use crate::error::DatasetsError;
use crate::manifest::CaptureSeries;

/// `schema` of a record.
pub const RECORD_SCHEMA: &str = "cellerator/series/1";

/// Settings that change a result besides the captures.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields)]
pub struct Settings {
    /// Version of the program.
    pub cellerator: String,
    /// Seconds of silence that end a flow.
    pub idle_s: u64,
    /// Files that overlap in time are of one place.
    pub one_point: bool,
}

/// A file of a series.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields)]
pub struct RecordedFile {
    /// Path of the file.
    pub file: PathBuf,
    /// Its size.
    pub bytes: u64,
    /// Time of its last change, nanoseconds since 1970.
    pub modified_ns: u64,
    /// Digest of its length, its first and its last MiB: 16 hexadecimal digits.
    pub identity: String,
}

/// A series that is in a dataset: `ROOT/v1/series/RUN.json`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields)]
pub struct Record {
    /// [`RECORD_SCHEMA`].
    pub schema: String,
    /// Its name.
    pub name: String,
    /// Its environment.
    pub env: String,
    /// Settings that change results besides the captures.
    pub settings: Settings,
    /// Files that it was made from.
    pub files: Vec<RecordedFile>,
    /// Its flows.
    pub flows: u64,
    /// Its Parquet files, from the dataset's folder on.
    pub parts: Vec<PathBuf>,
}

impl Record {
    /// The record of `series` as its files are now, without results.
    ///
    /// # Errors
    /// A file cannot be read.
    pub fn of(series: &CaptureSeries, settings: &Settings) -> Result<Self, DatasetsError> {
        let file = |path: &PathBuf| {
            let data = path.metadata().map_err(DatasetsError::io(path))?;
            let modified = data.modified().ok().and_then(|time| time.duration_since(UNIX_EPOCH).ok());
            let identity = capture_id(path).map_err(DatasetsError::io(path))?.0;
            Ok(RecordedFile {
                file: path.canonicalize().map_err(DatasetsError::io(path))?,
                bytes: data.len(),
                modified_ns: modified.map_or(0, |time| u64::try_from(time.as_nanos()).unwrap_or(u64::MAX)),
                identity,
            })
        };
        Ok(Self {
            schema: RECORD_SCHEMA.to_owned(),
            name: series.name.clone(),
            env: series.env.clone(),
            settings: settings.clone(),
            files: series.files.iter().map(file).collect::<Result<_, DatasetsError>>()?,
            flows: 0,
            parts: Vec::new(),
        })
    }

    /// Path of the record of a series.
    #[must_use]
    pub fn path(root: &Path, series: &CaptureSeries) -> PathBuf {
        let run = series_run(&series.env, &series.name);
        root.join("v1").join("series").join(format!("{run}.json"))
    }

    /// The record of a series; none if there is none that can be read.
    #[must_use]
    pub fn read(root: &Path, series: &CaptureSeries) -> Option<Self> {
        let text = std::fs::read_to_string(Self::path(root, series)).ok()?;
        let record: Self = serde_json::from_str(&text).ok()?;
        (record.schema == RECORD_SCHEMA).then_some(record)
    }

    /// Gives a series' results their names, and writes the record of them, last. Other parts of the series are
    /// removed: those that only the record `before` has, and those that a killed program has left.
    ///
    /// # Errors
    /// Writing failed. As long as there is no room, nothing has changed.
    pub fn publish(
        mut self,
        root: &Path,
        series: &CaptureSeries,
        before: Option<&Self>,
        parts: Vec<Whole>,
    ) -> Result<(), DatasetsError> {
        let within = |part: &Whole| part.path().strip_prefix(root).unwrap_or(part.path()).to_owned();
        self.parts = parts.iter().map(within).collect();
        let path = Self::path(root, series);
        let folder = path.parent().unwrap_or(root);
        std::fs::create_dir_all(folder).map_err(DatasetsError::io(folder))?;
        let text = serde_json::to_string_pretty(&self).unwrap_or_default() + "\n";
        let record = Whole::of(&path, text.as_bytes()).map_err(DatasetsError::io(&path))?;
        for part in parts {
            let at = part.path().to_owned();
            part.publish().map_err(DatasetsError::io(at))?;
        }
        let old = before.into_iter().flat_map(|before| before.parts.iter().map(|part| root.join(part)));
        for gone in old.chain(self.left_by_others(root)).filter(|part| !self.has(root, part)) {
            match std::fs::remove_file(&gone) {
                Err(error) if error.kind() != std::io::ErrorKind::NotFound => {
                    return Err(DatasetsError::io(gone)(error));
                }
                _ => {}
            }
        }
        record.publish().map(drop).map_err(DatasetsError::io(&path))
    }

    fn has(&self, root: &Path, part: &Path) -> bool {
        part.strip_prefix(root).is_ok_and(|part| self.parts.iter().any(|own| own == part))
    }

    /// Files with the names of this series' parts, in any table and date.
    fn left_by_others(&self, root: &Path) -> Vec<PathBuf> {
        // Of `v1/table=flows/env=lte/date=2026-11-25/part-….parquet`.
        let Some((env, name)) = self
            .parts
            .first()
            .and_then(|part| Some((part.parent()?.parent()?.file_name()?, part.file_name()?)))
        else {
            return Vec::new();
        };
        let below = |folder: PathBuf| std::fs::read_dir(folder).into_iter().flatten().flatten();
        let tables = below(root.join("v1")).map(|table| table.path().join(env));
        tables.flat_map(below).map(|date| date.path().join(name)).filter(|part| part.is_file()).collect()
    }

    /// True when `self` was made from the files of `now`, unchanged, with the same settings.
    #[must_use]
    pub fn is_of(&self, now: &Self) -> bool {
        let contents = |record: &Self| -> Vec<(u64, u64, String)> {
            record.files.iter().map(|file| (file.bytes, file.modified_ns, file.identity.clone())).collect()
        };
        self.settings == now.settings && contents(self) == contents(now)
    }

    /// True when the results of `self` are those of `now`, and all parts are in the folder `root`.
    #[must_use]
    pub fn still_holds(&self, now: &Self, root: &Path) -> bool {
        self.is_of(now) && self.parts.iter().all(|part| root.join(part).is_file())
    }

    /// A file of this record that is still where it was, if none of `now` is one of its files: then two
    /// captures have one name.
    #[must_use]
    pub fn other_capture(&self, now: &Self) -> Option<&Path> {
        let is_ours = |file: &&RecordedFile| now.files.iter().any(|own| own.file == file.file);
        if self.files.iter().any(|file| is_ours(&file)) {
            return None;
        }
        self.files.iter().map(|file| file.file.as_path()).find(|file| file.exists())
    }
}
