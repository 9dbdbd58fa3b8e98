//! Files that their owner alone may read, whatever the umask says, and files with secrets that others may not.

use std::fs::{self, DirBuilder, File, OpenOptions, Permissions};
use std::io::{self, Read};
use std::os::unix::fs::{DirBuilderExt, MetadataExt, OpenOptionsExt, PermissionsExt};
use std::path::Path;

use crate::IoError;
use crate::error::Context;

/// The owner reads and writes.
const PRIVATE: u32 = 0o600;

/// The owner reads, writes and enters.
const PRIVATE_DIRECTORY: u32 = 0o700;

/// Makes an empty file that its owner alone may read, in place of one of that name: who has the old one open has
/// nothing of this one.
///
/// # Errors
/// As [`File::create_new`].
pub fn create_private(path: &Path) -> io::Result<File> {
    create_with_mode(path, PRIVATE)
}

/// The same with other permissions, which hold whatever the umask says.
pub(crate) fn create_with_mode(path: &Path, mode: u32) -> io::Result<File> {
    match fs::remove_file(path) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
        _ => {}
    }
    let file = OpenOptions::new().read(true).write(true).create_new(true).mode(PRIVATE).open(path)?;
    file.set_permissions(Permissions::from_mode(mode))?;
    Ok(file)
}

/// Makes a directory that its owner alone may enter; one that is there is closed to others.
///
/// # Errors
/// It cannot be made, or is another user's.
pub fn create_private_directory(path: &Path) -> io::Result<()> {
    match DirBuilder::new().recursive(false).mode(PRIVATE_DIRECTORY).create(path) {
        Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {}
        result => result?,
    }
    let mode = fs::metadata(path)?.permissions().mode();
    if mode & 0o7777 == PRIVATE_DIRECTORY {
        return Ok(());
    }
    fs::set_permissions(path, Permissions::from_mode(PRIVATE_DIRECTORY))
}

/// Reads a file with a key or a token.
///
/// # Errors
/// It cannot be read, or others may read or change it: one line with its permissions, and what to do. A group may read
/// root's file where this process is another user's, as a service's.
pub fn read_secret(path: &Path) -> Result<Vec<u8>, IoError> {
    let doing = || format!("read {}", path.display());
    let mut file = File::open(path).doing(doing)?;
    let data = file.metadata().doing(doing)?;
    let mode = data.mode() & 0o7777;
    // A terminal or a pipe, as of a shell's `<(…)`, is no file that others could open.
    if data.is_file() && is_open(mode, data.uid(), effective_user()) {
        let path = path.display();
        return Err(IoError::Invalid {
            what: path.to_string(),
            why: format!("others may use this secret (its mode is {mode:04o}): chmod 600 {path}"),
        });
    }
    let mut bytes = Vec::new();
    file.read_to_end(&mut bytes).doing(doing)?;
    Ok(bytes)
}

/// True when others than the owner, and than the group of a service that reads root's file, may use it.
fn is_open(mode: u32, owner: u32, reader: u32) -> bool {
    let is_roots_for_a_service = owner == 0 && reader != 0;
    let allowed = if is_roots_for_a_service { 0o740 } else { 0o700 };
    mode & 0o777 & !allowed != 0
}

/// The user whose rights this process has.
#[must_use]
pub fn effective_user() -> u32 {
    // SAFETY: geteuid takes nothing, and cannot fail.
    unsafe { libc::geteuid() }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_made_is_closed_to_others_whatever_was_there() {
        let folder = tempfile::tempdir().unwrap();
        let directory = folder.path();
        let mode = |path: &Path| fs::metadata(path).unwrap().mode() & 0o7777;
        fs::set_permissions(directory, Permissions::from_mode(0o777)).unwrap();
        create_private_directory(directory).unwrap();
        assert_eq!(mode(directory), 0o700);
        let path = directory.join("note");
        fs::write(&path, "old").unwrap();
        fs::set_permissions(&path, Permissions::from_mode(0o666)).unwrap();
        let mut open = File::open(&path).unwrap();
        io::Write::write_all(&mut create_private(&path).unwrap(), b"new").unwrap();
        assert_eq!((mode(&path), fs::read_to_string(&path).unwrap()), (0o600, "new".to_owned()));
        let mut text = String::new();
        open.read_to_string(&mut text).unwrap();
        assert_eq!(text, "old", "who had it open sees nothing of the new one");
    }

    #[test]
    fn secrets_that_others_may_read_are_refused_with_a_remedy() {
        let path = tempfile::NamedTempFile::new().unwrap().into_temp_path();
        for (mode, is_taken) in [
            (0o600, true),
            (0o400, true),
            (0o700, true),
            (0o644, false),
            (0o640, false),
            (0o604, false),
            (0o660, false),
            (0o602, false),
        ] {
            drop(fs::remove_file(&path));
            fs::write(&path, "secret").unwrap();
            fs::set_permissions(&path, Permissions::from_mode(mode)).unwrap();
            match read_secret(&path) {
                Ok(bytes) => assert!(is_taken && bytes == b"secret", "{mode:o}"),
                Err(error) => {
                    let text = error.to_string();
                    assert!(!is_taken && text.contains(&format!("{mode:04o}")), "{text}");
                    assert!(text.contains(&format!("chmod 600 {}", path.display())), "{text}");
                }
            }
        }
        assert!(!is_open(0o640, 0, 999) && is_open(0o644, 0, 999) && is_open(0o660, 0, 999), "a service");
        assert!(is_open(0o640, 999, 999) && is_open(0o640, 0, 0));
        fs::remove_file(&path).unwrap();
        assert!(read_secret(&path).unwrap_err().to_string().contains("cannot read"));
    }
}
