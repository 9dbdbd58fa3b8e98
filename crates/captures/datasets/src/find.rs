//! [`find`]: captures in folders, by name and time.

use std::collections::BTreeMap;
use std::fs::File;
use std::path::{Path, PathBuf};

use capture::{Reader, decompressed};

use crate::error::DatasetsError;
use crate::manifest::{CaptureSeries, total};
use crate::names::{is_capture, series_key};

/// The series in files and folders, in the order of their names; folders give all captures below them.
///
/// A series of a folder is named `FOLDER/PATH/KEY`, from that folder's own name on, by
/// [`series_key`]; one of files given by themselves is named by its key alone. Files of a series are in
/// the order of their first packets. Paths are absolute.
///
/// # Errors
/// Something cannot be read, a folder has no captures, or two places have series of one name.
pub fn find(inputs: &[PathBuf], env: &str) -> Result<Vec<CaptureSeries>, DatasetsError> {
    let mut found: BTreeMap<String, (PathBuf, Vec<PathBuf>)> = BTreeMap::new();
    for input in inputs {
        // By one name only, however it was named.
        let whole = input.canonicalize().map_err(DatasetsError::io(input))?;
        let mut files = Vec::new();
        let prefix = match whole.is_dir() {
            true => {
                walk(&whole, &mut files)?;
                if files.is_empty() {
                    return Err(DatasetsError::NoCaptures(input.clone()));
                }
                whole.file_name().map(PathBuf::from).unwrap_or_default()
            }
            false => {
                files.push(whole.clone());
                PathBuf::new()
            }
        };
        // Files by themselves are together when they lie together.
        let place =
            if whole.is_dir() { whole } else { whole.parent().map(Path::to_owned).unwrap_or_default() };
        for file in files {
            let within = file.strip_prefix(&place).ok().and_then(Path::parent).unwrap_or(Path::new(""));
            let name = file.file_name().map(|name| name.to_string_lossy().into_owned()).unwrap_or_default();
            let key = prefix.join(within).join(series_key(&name)).to_string_lossy().into_owned();
            let (first, files) = found.entry(key.clone()).or_insert_with(|| (place.clone(), Vec::new()));
            if *first != place {
                return Err(DatasetsError::SameName { name: key, first: first.clone(), second: place });
            }
            if !files.contains(&file) {
                files.push(file);
            }
        }
    }
    let series = found.into_iter().map(|(name, (_, mut files))| {
        if files.len() > 1 {
            files.sort_by_cached_key(|file| (first_packet(file), file.clone()));
        }
        Ok(CaptureSeries { name, env: env.to_owned(), bytes: total(&files)?, files })
    });
    series.collect()
}

/// The captures below `folder`, hidden ones and hidden folders left out.
fn walk(folder: &Path, files: &mut Vec<PathBuf>) -> Result<(), DatasetsError> {
    let entries = std::fs::read_dir(folder).map_err(DatasetsError::io(folder))?;
    let mut paths = Vec::new();
    for entry in entries {
        paths.push(entry.map_err(DatasetsError::io(folder))?.path());
    }
    paths.sort();
    for path in paths {
        let name = path.file_name().map(|name| name.to_string_lossy().into_owned()).unwrap_or_default();
        if name.starts_with('.') {
            continue;
        }
        if path.is_dir() {
            walk(&path, files)?;
        } else if is_capture(&name) && path.is_file() {
            files.push(path);
        }
    }
    Ok(())
}

/// Nanoseconds since 1970; the largest number for what cannot be read, which the analysis will say.
fn first_packet(file: &Path) -> u64 {
    let read = || {
        let mut reader = Reader::new(decompressed(File::open(file).ok()?).ok()?).ok()?;
        reader.advance().ok()?.then(|| reader.current().map(|record| record.time.as_nanos()))?
    };
    read().unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A pcap file of one packet at a time in seconds.
    fn write(path: &Path, second: u32) {
        let words = [0xa1b2_c3d4, 0x0004_0002, 0, 0, 65_535, 101, second, 0, 4, 4, 0x45_u32];
        let bytes: Vec<u8> = words.iter().flat_map(|word| word.to_le_bytes()).collect();
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        std::fs::write(path, bytes).unwrap();
    }

    #[test]
    fn rotated_files_are_one_series_in_the_order_of_time() {
        let folder = tempfile::tempdir().unwrap();
        let root = folder.path();
        // The ring came round: the file without a number is the newest.
        for (name, second) in [("a/x.pcap", 30), ("a/x.pcap1", 10), ("a/x.pcap2", 20), ("b/x.pcap", 5)] {
            write(&root.join("in").join(name), second);
        }
        std::fs::write(root.join("in/notes.txt"), "no capture").unwrap();
        let found = find(&[root.join("in")], "lte").unwrap();
        let names: Vec<&str> = found.iter().map(|series| series.name.as_str()).collect();
        assert_eq!(names, ["in/a/x", "in/b/x"]);
        let files: Vec<PathBuf> = ["x.pcap1", "x.pcap2", "x.pcap"]
            .map(|f| root.canonicalize().unwrap().join("in/a").join(f))
            .into();
        assert_eq!((&found[0].files, found[0].bytes, found[0].env.as_str()), (&files, 3 * 44, "lte"));
        // The same place, named twice, is the same; another place with the same name is not.
        assert_eq!(find(&[root.join("in"), root.join("in/../in")], "lte").unwrap()[0].files.len(), 6 / 2);
        write(&root.join("other/in/a/x.pcap"), 1);
        let error = find(&[root.join("in"), root.join("other/in")], "lte").unwrap_err();
        assert!(error.to_string().contains("two series have the name in/a/x"), "{error}");
        assert!(find(&[root.join("nowhere")], "lte").is_err());
    }
}
