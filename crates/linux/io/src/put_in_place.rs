//! [`put_in_place`]: replaces a file at once, and does not wait for a disk.

use std::ffi::CString;
use std::fs;
use std::io;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;

/// Gives what is written at `new` the name `path`, in one step: whoever opens that finds what was there before, or all
/// that is new.
///
/// Where there was something, both names change places and the old content is removed. Renaming over it would mean the
/// same, but ext4 begins to write the new content to the disk then (`auto_da_alloc`, ext4(5)), which takes a third of
/// a second at times: state directories are on a disk where `/run` is, as in containers.
///
/// # Errors
/// When `new` is not there, or the directory cannot be written.
pub fn put_in_place(new: &Path, path: &Path) -> io::Result<()> {
    match exchange(new, path) {
        Ok(()) => fs::remove_file(new),
        // There is nothing in its place, or the file system cannot do that.
        Err(_) => fs::rename(new, path),
    }
}

fn exchange(one: &Path, other: &Path) -> io::Result<()> {
    let c_path = |path: &Path| CString::new(path.as_os_str().as_bytes()).map_err(io::Error::from);
    let (one, other) = (c_path(one)?, c_path(other)?);
    // SAFETY: both are strings that end with zero; the kernel only reads them.
    let done = unsafe {
        libc::syscall(
            libc::SYS_renameat2,
            libc::AT_FDCWD,
            one.as_ptr(),
            libc::AT_FDCWD,
            other.as_ptr(),
            libc::RENAME_EXCHANGE,
        )
    };
    if done < 0 { Err(io::Error::last_os_error()) } else { Ok(()) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_is_replaced_whether_it_was_there_or_not() {
        let folder = tempfile::tempdir().unwrap();
        let [new, path] = ["new", "file"].map(|name| folder.path().join(name));
        for text in ["one", "two"] {
            fs::write(&new, text).unwrap();
            put_in_place(&new, &path).unwrap();
            assert_eq!((fs::read_to_string(&path).unwrap().as_str(), new.exists()), (text, false));
        }
        assert_eq!(put_in_place(&new, &path).unwrap_err().kind(), io::ErrorKind::NotFound);
        assert_eq!(fs::read_to_string(&path).unwrap(), "two", "nothing new");
    }
}
