//! [`Manifest`]: which captures belong together, as a file.

use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};

use crate::error::DatasetsError;

/// `schema` of a manifest.
pub const MANIFEST_SCHEMA: &str = "cellerator/manifest/1";

/// The successive files of one capture.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CaptureSeries {
    /// Its name: once in a dataset and environment.
    pub name: String,
    /// A network, a carrier.
    pub env: String,
    /// In the order of time.
    pub files: Vec<PathBuf>,
    /// Of all files together.
    pub bytes: u64,
}

/// A list of series, as JSON.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields)]
pub struct Manifest {
    /// [`MANIFEST_SCHEMA`].
    pub schema: String,
    /// The series: the successive files of one capture.
    pub series: Vec<Listed>,
}

/// A series in a manifest.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields)]
pub struct Listed {
    /// Its name, once in an environment. Flows and files of the dataset are named by it.
    pub name: String,
    /// A network, a carrier; that of the command's `--env` where it is missing.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub env: Option<String>,
    /// Paths, from the manifest's folder on, in the order of time.
    pub files: Vec<PathBuf>,
}

impl Manifest {
    /// The manifest of `series` for a file in the folder `folder`: paths below it are written relative to it.
    #[must_use]
    pub fn of(series: &[CaptureSeries], folder: &Path) -> Self {
        let folder = folder.canonicalize().unwrap_or_else(|_| folder.to_owned());
        let placed = |file: &PathBuf| {
            let whole = file.canonicalize().unwrap_or_else(|_| file.clone());
            whole.strip_prefix(&folder).map_or_else(|_| whole.clone(), Path::to_owned)
        };
        let listed = |series: &CaptureSeries| Listed {
            name: series.name.clone(),
            env: Some(series.env.clone()),
            files: series.files.iter().map(placed).collect(),
        };
        Self { schema: MANIFEST_SCHEMA.to_owned(), series: series.iter().map(listed).collect() }
    }

    /// Reads a manifest.
    ///
    /// # Errors
    /// It cannot be read, or is none.
    pub fn read(path: &Path) -> Result<Self, DatasetsError> {
        let text = std::fs::read_to_string(path).map_err(DatasetsError::io(path))?;
        let wrong = |what: String| DatasetsError::Document { path: path.to_owned(), what };
        let manifest: Self =
            serde_json::from_str(&text).map_err(|error| wrong(format!("no manifest: {error}")))?;
        if manifest.schema != MANIFEST_SCHEMA {
            return Err(wrong(format!("its schema is {}, not {MANIFEST_SCHEMA}", manifest.schema)));
        }
        let mut names: Vec<(&Option<String>, &str)> =
            manifest.series.iter().map(|series| (&series.env, series.name.as_str())).collect();
        names.sort_unstable();
        if let Some(twice) = names.windows(2).find(|two| two[0] == two[1]) {
            return Err(wrong(format!("two series have the name {}", twice[0].1)));
        }
        if let Some(empty) = manifest.series.iter().find(|series| series.files.is_empty()) {
            return Err(wrong(format!("the series {} has no files", empty.name)));
        }
        Ok(manifest)
    }

    /// The series, with paths as seen from here and the sizes of the files; in the order of their names.
    ///
    /// # Errors
    /// A file is not there.
    pub fn series(self, folder: &Path, env: &str) -> Result<Vec<CaptureSeries>, DatasetsError> {
        let mut all = Vec::new();
        for listed in self.series {
            let files: Vec<PathBuf> = listed.files.iter().map(|file| folder.join(file)).collect();
            let bytes = total(&files)?;
            let env = listed.env.unwrap_or_else(|| env.to_owned());
            all.push(CaptureSeries { name: listed.name, env, files, bytes });
        }
        all.sort_by(|a, b| (&a.env, &a.name).cmp(&(&b.env, &b.name)));
        Ok(all)
    }
}

/// Bytes of files together.
pub(crate) fn total(files: &[PathBuf]) -> Result<u64, DatasetsError> {
    files.iter().map(|file| Ok(file.metadata().map_err(DatasetsError::io(file))?.len())).sum()
}
