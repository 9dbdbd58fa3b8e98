//! [`SystemJournal`]: entries with fields for the journal of systemd (its native protocol).
//!
//! A datagram of lines `FIELD=value`. The crate `tracing-journald` does the same for programs that log by `tracing`.

use std::os::linux::fs::MetadataExt;
use std::os::unix::net::UnixDatagram;
use std::path::Path;

use crate::IoError;
use crate::error::Context;

/// Path of the socket on which the journal listens.
const SOCKET: &str = "/run/systemd/journal/socket";

/// True when standard error is the journal's: `JOURNAL_STREAM` names its device and inode (systemd.exec(5)).
#[must_use]
pub fn is_journal_standard_error() -> bool {
    let here =
        std::fs::metadata("/proc/self/fd/2").map(|data| format!("{}:{}", data.st_dev(), data.st_ino()));
    matches!((std::env::var("JOURNAL_STREAM"), here), (Ok(stream), Ok(here)) if stream == here)
}

/// The journal, open.
#[derive(Debug)]
pub struct SystemJournal(UnixDatagram);

impl SystemJournal {
    /// The one that this process's standard error goes to; none where that goes elsewhere, or where the journal
    /// cannot be reached.
    #[must_use]
    pub fn of_standard_error() -> Option<Self> {
        if is_journal_standard_error() { Self::at(Path::new(SOCKET)).ok() } else { None }
    }

    fn at(path: &Path) -> Result<Self, IoError> {
        let open = || {
            let socket = UnixDatagram::unbound()?;
            socket.connect(path)?;
            // It must not keep packets waiting.
            socket.set_nonblocking(true)?;
            Ok(Self(socket))
        };
        open().doing(|| format!("speak with the journal at {}", path.display()))
    }

    /// Writes an entry. Names of fields have capital letters, digits and `_`, and no `_` in front.
    ///
    /// # Errors
    /// When the journal takes nothing in at the moment, or the entry is too long for a datagram.
    pub fn write(&self, fields: &[(String, String)]) -> Result<(), IoError> {
        self.0.send(&datagram(fields)).map(drop).doing(|| "write to the journal".to_owned())
    }
}

/// A value of several lines has its length in front, 64 bits, little end first.
fn datagram(fields: &[(String, String)]) -> Vec<u8> {
    let mut bytes = Vec::new();
    for (name, value) in fields {
        bytes.extend(name.as_bytes());
        if value.contains('\n') {
            bytes.push(b'\n');
            bytes.extend((value.len() as u64).to_le_bytes());
        } else {
            bytes.push(b'=');
        }
        bytes.extend(value.as_bytes());
        bytes.push(b'\n');
    }
    bytes
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_entry_is_one_datagram_of_lines() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("journal");
        let listener = UnixDatagram::bind(&path).unwrap();
        let journal = SystemJournal::at(&path).unwrap();
        let fields = [("MESSAGE", "all is well"), ("PRIORITY", "6"), ("TEXT", "two\nlines")];
        journal.write(&fields.map(|(name, value)| (name.to_owned(), value.to_owned()))).unwrap();
        let mut bytes = [0; 100];
        let len = listener.recv(&mut bytes).unwrap();
        let wanted = b"MESSAGE=all is well\nPRIORITY=6\nTEXT\n\x09\0\0\0\0\0\0\0two\nlines\n";
        assert_eq!(&bytes[..len], wanted);
        std::fs::remove_file(&path).unwrap();
        assert!(SystemJournal::at(&path).is_err(), "nobody listens");
    }
}
