//! Asked before work begins: what cannot be written in the end should not cost minutes.

use std::fs::{self, OpenOptions};
use std::io::ErrorKind;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result, bail};

use crate::output::is_standard_output;

/// Makes the folder that `path` is in, and asks whether `path` can be written; `-`, standard
/// output, always can. A file that is there keeps what it has, and one that is not there is not
/// left behind.
///
/// # Errors
/// It cannot be written; why, in one line.
pub fn file(path: &Path) -> Result<()> {
    if is_standard_output(path) {
        return Ok(());
    }
    let cannot = || format!("cannot write {}", path.display());
    if path.is_dir() {
        bail!("cannot write {}: it is a folder, name a file", path.display());
    }
    let parent =
        path.parent().filter(|p| !p.as_os_str().is_empty()).map_or(PathBuf::from("."), Path::to_owned);
    fs::create_dir_all(&parent).with_context(|| format!("cannot create {}", parent.display()))?;
    // What is no plain file (a pipe, a terminal) may wait for its reader, or lose its first words.
    match fs::metadata(path) {
        Ok(found) if !found.is_file() => Ok(()),
        Ok(_) => OpenOptions::new().append(true).open(path).map(drop).with_context(cannot),
        Err(error) if error.kind() == ErrorKind::NotFound => {
            OpenOptions::new().write(true).create_new(true).open(path).with_context(cannot)?;
            fs::remove_file(path).with_context(cannot)
        }
        Err(error) => Err(error).with_context(cannot),
    }
}

/// Makes the folder `path`, and asks whether files can be made in it.
///
/// # Errors
/// They cannot; why, in one line.
pub fn folder(path: &Path) -> Result<()> {
    fs::create_dir_all(path).with_context(|| format!("cannot create {}", path.display()))?;
    let probe = path.join(format!(".cellerator-{}", std::process::id()));
    fs::write(&probe, "")
        .and_then(|()| fs::remove_file(&probe))
        .with_context(|| format!("cannot write to {}", path.display()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn files_and_folders_are_tried_and_left_as_they_are() {
        let scratch = tempfile::tempdir().unwrap();
        let root = scratch.path();
        let new = root.join("a/b/new.json");
        file(&new).unwrap();
        assert!(!new.exists() && new.parent().unwrap().is_dir());
        fs::write(&new, "kept").unwrap();
        file(&new).unwrap();
        assert_eq!(fs::read_to_string(&new).unwrap(), "kept");
        folder(&root.join("c")).unwrap();
        assert_eq!(fs::read_dir(root.join("c")).unwrap().count(), 0);
        // A file where a folder must be, and a folder where a file must be.
        assert!(file(&new.join("x.json")).unwrap_err().to_string().contains("new.json"));
        assert!(folder(&new).is_err());
        assert!(file(root).unwrap_err().to_string().contains("is a folder"));
    }

    #[test]
    fn what_is_no_plain_file_is_let_be() {
        file(Path::new("/dev/null")).unwrap();
        file(Path::new("/dev/stdout")).unwrap();
        file(Path::new("-")).unwrap();
        assert!(!Path::new("-").exists());
    }
}
