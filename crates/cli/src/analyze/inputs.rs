//! The captures that are meant: files, folders, standard input.

use std::fs::File;
use std::io;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use analysis::{CaptureFile, Skipped};
use anyhow::{Context, Result, bail};
use capture::{CaptureSource, decompressed};
use datasets::is_capture;
use report::{CaptureId, capture_id};

/// A file, or standard input.
pub(super) enum Input {
    File(PathBuf),
    /// A file, and what it is called in the results.
    Called(PathBuf, String),
    Stdin,
}

impl CaptureSource for Input {
    fn name(&self) -> String {
        match self {
            Self::File(path) => path.display().to_string(),
            Self::Called(_, name) => name.clone(),
            Self::Stdin => "-".to_owned(),
        }
    }
    fn open(&self) -> io::Result<Box<dyn io::Read + Send>> {
        match self {
            Self::File(path) | Self::Called(path, _) => decompressed(File::open(path)?),
            Self::Stdin => decompressed(io::stdin()),
        }
    }
    fn can_reopen(&self) -> bool {
        match self {
            // A named pipe gives its bytes only once.
            Self::File(path) | Self::Called(path, _) => {
                path.metadata().is_ok_and(|metadata| metadata.is_file())
            }
            Self::Stdin => false,
        }
    }
}

impl Input {
    /// The file's name; none of standard input.
    pub(super) fn into_path(self) -> Option<PathBuf> {
        match self {
            Self::File(path) | Self::Called(path, _) => Some(path),
            Self::Stdin => None,
        }
    }

    /// True of a file that `path` names, by whatever way.
    pub(super) fn is_at(&self, path: &Path) -> bool {
        let (Self::File(own) | Self::Called(own, _)) = self else { return false };
        let identity = |path: &Path| path.metadata().map(|data| (data.dev(), data.ino()));
        matches!((identity(own), identity(path)), (Ok(own), Ok(other)) if own == other)
    }

    /// Identity of the capture, from its contents; standard input cannot be read twice and is new each time.
    pub(super) fn identity(&self) -> Result<CaptureId> {
        match self {
            Self::File(path) | Self::Called(path, _) if self.can_reopen() => {
                capture_id(path).with_context(|| path.display().to_string())
            }
            _ => Ok(CaptureId(format!("stream-{}-{}", std::process::id(), ::io::Clock::wall_nanos()))),
        }
    }

    pub(super) fn as_capture(&self) -> CaptureFile {
        CaptureFile {
            file: self.name(),
            packets: 0,
            clipped: 0,
            time_steps_back: 0,
            sorted: 0,
            bad_blocks: 0,
            dropped: None,
            problem: None,
            skipped: Skipped::default(),
            segments: 0,
            datagrams: 0,
            interfaces: Vec::new(),
        }
    }
}

/// The files meant: folders give theirs, in the order of names, without those that are hidden.
pub(super) fn inputs(paths: &[PathBuf]) -> Result<Vec<Input>> {
    let mut found = Vec::new();
    for path in paths {
        if path.as_os_str() == "-" {
            found.push(Input::Stdin);
        } else if path.is_dir() {
            found.extend(folder(path)?.into_iter().map(Input::File));
        } else if path.exists() {
            found.push(Input::File(path.clone()));
        } else {
            bail!("{}: no such file: name a capture, a folder, or -", path.display());
        }
    }
    Ok(found)
}

fn folder(path: &Path) -> Result<Vec<PathBuf>> {
    let entries = std::fs::read_dir(path).with_context(|| path.display().to_string())?;
    let mut files: Vec<PathBuf> = entries
        .filter_map(|entry| Some(entry.ok()?.path()))
        .filter(|file| {
            file.is_file() && file.file_name().is_some_and(|name| is_capture(&name.to_string_lossy()))
        })
        .collect();
    files.sort();
    if files.is_empty() {
        bail!("{}: no captures in this folder (.pcap, .pcapng, .cap, .dmp, …)", path.display());
    }
    Ok(files)
}
