//! Names of captures, runs and flows that are the same in every run over the same files.

use std::fs::File;
use std::io::{self, Read, Seek, SeekFrom};
use std::path::Path;

use twox_hash::XxHash3_64;
use units::Instant;

/// Identity of a capture, in 16 hexadecimal digits: of what is in it, not of its name.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CaptureId(pub String);

/// Bytes read at each end of a file: a whole gigabyte would cost as much as its analysis.
const PEEK: u64 = 1 << 20;

/// The identity of a file, from its length and the first and last MiB of it.
///
/// # Errors
/// It cannot be read.
pub fn capture_id(path: &Path) -> io::Result<CaptureId> {
    let mut file = File::open(path)?;
    let len = file.metadata()?.len();
    let mut bytes = len.to_le_bytes().to_vec();
    file.by_ref().take(PEEK).read_to_end(&mut bytes)?;
    file.seek(SeekFrom::Start(len.saturating_sub(PEEK)))?;
    file.take(PEEK).read_to_end(&mut bytes)?;
    Ok(CaptureId(format!("{:016x}", XxHash3_64::oneshot(&bytes))))
}

/// A run is its captures.
pub(super) fn run_id(captures: &[CaptureId]) -> String {
    match captures {
        [one] => one.0.clone(),
        several => {
            let all: Vec<&str> = several.iter().map(|capture| capture.0.as_str()).collect();
            format!("{:016x}", XxHash3_64::oneshot(all.join("+").as_bytes()))
        }
    }
}

/// The run of a series: its name, so that a changed series replaces what it was.
#[must_use]
pub fn series_run(environment: &str, name: &str) -> String {
    format!("{:016x}", XxHash3_64::oneshot(format!("{environment}\0{name}").as_bytes()))
}

/// A flow is its number in its run; as a number, because databases join those fastest.
pub(super) fn flow_id(run: &str, number: u64) -> i64 {
    XxHash3_64::oneshot_with_seed(number, run.as_bytes()).cast_signed()
}

/// The day in UTC, `YYYY-MM-DD`, of a time since 1970.
#[must_use]
pub fn date_of(time: Instant) -> String {
    figures::date(time.as_nanos() / 1_000_000_000)
}

/// A name as part of a path: other bytes than letters, digits, `.`, `_` and `-` as `%XX`, as Hive writes
/// them.
pub(super) fn partition(name: &str) -> String {
    let is_plain = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'.' | b'_' | b'-');
    name.bytes()
        .map(|byte| if is_plain(byte) { char::from(byte).to_string() } else { format!("%{byte:02X}") })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_in_paths() {
        assert_eq!(partition("lte drive/1=a"), "lte%20drive%2F1%3Da");
        assert_eq!(partition("wifi-5_x.y"), "wifi-5_x.y");
    }

    #[test]
    fn a_run_of_one_capture_is_that_capture() {
        let [a, b] = ["00", "01"].map(|id| CaptureId(id.to_owned()));
        assert_eq!(run_id(std::slice::from_ref(&a)), "00");
        assert_ne!(run_id(&[a.clone(), b.clone()]), run_id(&[b, a]));
        assert_ne!(flow_id("00", 1), flow_id("00", 2));
        assert_ne!(flow_id("00", 1), flow_id("01", 1));
    }
}
