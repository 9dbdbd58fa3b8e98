//! [`HistoryFile`]: slices as lines of JSON, of which the oldest go.

use std::fs::{self, OpenOptions};
use std::io::{ErrorKind, Write};
use std::path::{Path, PathBuf};

use crate::{HistoryError, Slice};

/// Number of lines after which old ones are removed, if any can go: an hour of minutes.
const LOOK_EVERY: u32 = 60;

/// A file of slices, the oldest first.
#[derive(Debug)]
pub struct HistoryFile {
    path: PathBuf,
    keep_ms: u64,
    since_look: u32,
}

impl HistoryFile {
    /// The file of the accelerator `name` in a directory, which is made if it is missing. Slices older than
    /// `keep_ms` go.
    ///
    /// # Errors
    /// The directory cannot be made.
    pub fn open(directory: &Path, name: &str, keep_ms: u64) -> Result<Self, HistoryError> {
        fs::create_dir_all(directory).map_err(HistoryError::file("make", directory))?;
        Ok(Self { path: Self::path(directory, name), keep_ms, since_look: LOOK_EVERY })
    }

    /// Path of the history of `name`. What could lead elsewhere in a name is replaced.
    #[must_use]
    pub fn path(directory: &Path, name: &str) -> PathBuf {
        let is_plain = |c: char| c.is_ascii_alphanumeric() || "-_.:@".contains(c);
        let name: String = name.chars().map(|c| if is_plain(c) { c } else { '_' }).collect();
        directory.join(format!("{name}.history.jsonl"))
    }

    /// Adds a slice; now and then the old ones go.
    ///
    /// # Errors
    /// The file cannot be written.
    pub fn add(&mut self, slice: &Slice) -> Result<(), HistoryError> {
        self.since_look += 1;
        if self.since_look >= LOOK_EVERY {
            self.since_look = 0;
            self.forget(slice.at_ms.saturating_sub(self.keep_ms))?;
        }
        let line = serde_json::to_string(slice).unwrap_or_default() + "\n";
        let file = OpenOptions::new().create(true).append(true).open(&self.path);
        let mut file = file.map_err(HistoryError::file("open", &self.path))?;
        file.write_all(line.as_bytes()).map_err(HistoryError::file("write to", &self.path))
    }

    /// Leaves slices that end at `from_ms` or later. A reader sees the old file or the new one.
    fn forget(&self, from_ms: u64) -> Result<(), HistoryError> {
        let slices = Self::read(&self.path)?;
        if slices.first().is_none_or(|first| first.at_ms >= from_ms) {
            return Ok(());
        }
        let kept = slices.iter().filter(|slice| slice.at_ms >= from_ms);
        let lines = kept.map(|slice| serde_json::to_string(slice).unwrap_or_default() + "\n");
        let new = self.path.with_extension("new");
        fs::write(&new, lines.collect::<String>()).map_err(HistoryError::file("write", &new))?;
        fs::rename(&new, &self.path).map_err(HistoryError::file("replace", &self.path))
    }

    /// The slices of a file; none if there is no such file. A line that was not written to its end is left out.
    ///
    /// # Errors
    /// It cannot be read, or has other lines than slices.
    pub fn read(path: &Path) -> Result<Vec<Slice>, HistoryError> {
        let text = match fs::read_to_string(path) {
            Err(error) if error.kind() == ErrorKind::NotFound => return Ok(Vec::new()),
            text => text.map_err(HistoryError::file("read", path))?,
        };
        let mut slices = Vec::new();
        for (number, line) in text.split_inclusive('\n').enumerate() {
            match serde_json::from_str(line) {
                Ok(slice) => slices.push(slice),
                Err(_) if !line.ends_with('\n') => {}
                Err(error) => {
                    let why = format!("line {}: {error}", number + 1);
                    return Err(HistoryError::Foreign { path: path.to_owned(), what: "history", why });
                }
            }
        }
        Ok(slices)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn slice(minute: u64) -> Slice {
        Slice { at_ms: minute * 60_000, span_ms: 60_000, flows_opened: minute, ..Slice::default() }
    }

    #[test]
    fn a_history_is_bounded_and_a_torn_line_is_left_out() {
        let folder = tempfile::tempdir().unwrap();
        let directory = folder.path();
        let mut file = HistoryFile::open(directory, "a/b", 30 * 60_000).unwrap();
        for minute in 0..200 {
            file.add(&slice(minute)).unwrap();
        }
        let path = HistoryFile::path(directory, "a/b");
        assert!(path.starts_with(directory) && path.file_name().unwrap() == "a_b.history.jsonl");
        let kept = HistoryFile::read(&path).unwrap();
        let newest = kept.last().unwrap().flows_opened;
        assert!(newest == 199 && (31..=31 + LOOK_EVERY as usize).contains(&kept.len()), "{}", kept.len());
        assert!(
            kept.windows(2).all(|pair| pair[0].at_ms + 60_000 == pair[1].at_ms),
            "none is missing between"
        );
        let whole = fs::read_to_string(&path).unwrap();
        fs::write(&path, whole.clone() + "{\"at_ms\":1").unwrap();
        assert_eq!(HistoryFile::read(&path).unwrap(), kept);
        fs::write(&path, format!("no JSON\n{whole}")).unwrap();
        let error = HistoryFile::read(&path).unwrap_err().to_string();
        assert!(error.contains("is no history: line 1"), "{error}");
        fs::remove_file(&path).unwrap();
        assert!(HistoryFile::read(&path).unwrap().is_empty());
    }
}
