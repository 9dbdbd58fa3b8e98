//! [`Shards`]: a folder of Parquet files that together are one table.

use std::collections::BTreeSet;
use std::fs::{self, File};
use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, Ordering};

use crate::error::TablesError;
use crate::reader::TableReader;
use crate::schema::TableSchema;
use crate::value::Value;
use crate::writer::{Format, TableWriter};

/// A folder of Parquet files, `part-NAME.parquet`, that together are one table and grows by whole files.
///
/// A part appears when it is finished, never in pieces: what a stopped program has left behind is
/// either whole or not there. Several programs may add parts of different names at the same time.
#[derive(Clone, Debug)]
pub struct Shards {
    folder: PathBuf,
    schema: TableSchema,
}

impl Shards {
    /// Opens a folder, and makes it if it is not there.
    ///
    /// # Errors
    /// It cannot be made or read, or holds parts of another table.
    pub fn open(folder: &Path, schema: &TableSchema) -> Result<Self, TablesError> {
        fs::create_dir_all(folder).map_err(TablesError::io(folder.display().to_string()))?;
        let shards = Self { folder: folder.to_owned(), schema: schema.clone() };
        // One is enough: all were written through here.
        if let Some(path) = shards.any_part()? {
            let found = TableReader::open(&path)?;
            let [expected, found] =
                [schema, found.schema()].map(|schema| format!("{} version {}", schema.table, schema.version));
            if expected != found {
                return Err(TablesError::OtherTable { path, expected, found });
            }
        }
        Ok(shards)
    }

    /// The file of one of the parts that are there.
    fn any_part(&self) -> Result<Option<PathBuf>, TablesError> {
        let files = fs::read_dir(&self.folder).and_then(Iterator::collect::<io::Result<Vec<_>>>);
        let files = files.map_err(TablesError::io(self.folder.display().to_string()))?;
        let is_part = |file: &fs::DirEntry| {
            let name = file.file_name();
            name.to_str().is_some_and(|name| name.starts_with("part-") && name.ends_with(".parquet"))
        };
        Ok(files.iter().find(|file| is_part(file)).map(fs::DirEntry::path))
    }

    /// The file of a part.
    fn path(&self, name: &str) -> PathBuf {
        self.folder.join(format!("part-{name}.parquet"))
    }

    /// Starts a part; one of the same name is replaced when this one is finished.
    ///
    /// # Errors
    /// It cannot be written.
    pub fn write(&self, name: &str, notes: &[(&str, &str)]) -> Result<ShardWriter, TablesError> {
        let (unfinished, file) = Unfinished::beside(&self.path(name))
            .map_err(TablesError::io(self.folder.display().to_string()))?;
        let writer = TableWriter::new(file, &self.schema, Format::Parquet, notes)?;
        Ok(ShardWriter { writer, unfinished, path: self.path(name) })
    }
}

/// Writes a file that is there whole or not at all; one of that name is replaced. Several writers of one
/// name, on several machines too, do not disturb each other: the last one stays.
///
/// # Errors
/// Writing failed.
pub fn write_whole(path: &Path, bytes: &[u8]) -> io::Result<()> {
    Whole::of(path, bytes)?.publish().map(drop)
}

/// A file that is on the disk, and hidden until [`Whole::publish`]; without that, nothing is left of it.
///
/// Several that belong together are written first and published then: a full disk leaves none of them.
#[derive(Debug)]
pub struct Whole {
    unfinished: Unfinished,
    path: PathBuf,
}

impl Whole {
    /// Writes a file that is to be at `path`.
    ///
    /// # Errors
    /// Writing failed.
    pub fn of(path: &Path, bytes: &[u8]) -> io::Result<Self> {
        let (unfinished, mut file) = Unfinished::beside(path)?;
        file.write_all(bytes)?;
        file.sync_all()?;
        Ok(Self { unfinished, path: path.to_owned() })
    }

    /// Path at which it is to be.
    #[must_use]
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Gives it its name, in place of a file that has it; returns the name.
    ///
    /// # Errors
    /// It cannot have that name.
    pub fn publish(self) -> io::Result<PathBuf> {
        fs::rename(&self.unfinished.0, &self.path)?;
        Ok(self.path)
    }
}

/// Removes the file unless it was renamed.
#[derive(Debug)]
struct Unfinished(PathBuf);

impl Unfinished {
    /// A new file for what is to be at `path`, hidden from readers of the folder. What programs that are no
    /// more have left in the folder is removed, at this program's first file there.
    fn beside(path: &Path) -> io::Result<(Self, File)> {
        // Folders that were looked through: looking again for each of many files would take their square.
        static SEEN: Mutex<BTreeSet<PathBuf>> = Mutex::new(BTreeSet::new());
        let parent = path.parent().filter(|folder| !folder.as_os_str().is_empty());
        let folder = parent.unwrap_or(Path::new("."));
        let name = path.file_name().map(|name| name.to_string_lossy().into_owned()).unwrap_or_default();
        let host = host();
        let is_first = SEEN.lock().is_ok_and(|mut seen| seen.insert(folder.to_owned()));
        if is_first {
            remove_abandoned(folder, &host)?;
        }
        // Threads of one process may write the same file.
        static NUMBER: AtomicU64 = AtomicU64::new(0);
        let number = NUMBER.fetch_add(1, Ordering::Relaxed);
        let own = folder.join(format!(".{name}.{host}.{}-{number}.unfinished", std::process::id()));
        let file = File::create(&own)?;
        Ok((Self(own), file))
    }
}

/// Removes unfinished files that processes of this machine have left that are no more.
fn remove_abandoned(folder: &Path, host: &str) -> io::Result<()> {
    let behind_name = format!(".{host}");
    for entry in fs::read_dir(folder)?.flatten() {
        let file = entry.file_name();
        // `.NAME.HOST.PROCESS-NUMBER.unfinished`.
        let process = file.to_str().and_then(|file| {
            let (name, numbers) = file.strip_prefix('.')?.strip_suffix(".unfinished")?.rsplit_once('.')?;
            name.strip_suffix(&behind_name)?;
            numbers.split('-').next()
        });
        if process.is_some_and(|id| !Path::new("/proc").join(id).exists()) {
            // Who else has seen it may have been faster.
            let _ = fs::remove_file(entry.path());
        }
    }
    Ok(())
}

/// The machine's name: numbers of processes are its own.
fn host() -> String {
    let name = fs::read_to_string("/proc/sys/kernel/hostname").unwrap_or_default();
    name.trim().chars().map(|c| if c.is_ascii_alphanumeric() || c == '-' { c } else { '_' }).collect()
}

impl Drop for Unfinished {
    fn drop(&mut self) {
        // It has its final name, or is not wanted: either way nothing is to be said.
        let _ = fs::remove_file(&self.0);
    }
}

/// A part in the making; without [`ShardWriter::finish`] nothing is left of it.
#[derive(Debug)]
pub struct ShardWriter {
    writer: TableWriter<File>,
    unfinished: Unfinished,
    path: PathBuf,
}

impl ShardWriter {
    /// Writes a row.
    ///
    /// # Errors
    /// As [`TableWriter::push`].
    pub fn push(&mut self, row: Vec<Value>) -> Result<(), TablesError> {
        self.writer.push(row)
    }

    /// Writes the rest to the disk and gives the part its name; returns its file.
    ///
    /// # Errors
    /// Writing failed.
    pub fn finish(self) -> Result<PathBuf, TablesError> {
        let what = self.path.display().to_string();
        self.close()?.publish().map_err(TablesError::io(what))
    }

    /// Writes the rest to the disk: all but the name.
    ///
    /// # Errors
    /// Writing failed.
    pub fn close(self) -> Result<Whole, TablesError> {
        let what = self.path.display().to_string();
        self.writer.finish()?.sync_all().map_err(TablesError::io(what))?;
        Ok(Whole { unfinished: self.unfinished, path: self.path })
    }
}
