//! [`CaptureError`].

/// Reason why a capture cannot be read, or not further.
#[derive(Debug, thiserror::Error)]
pub enum CaptureError {
    /// The bytes start like no capture known.
    #[error(
        "not a capture: the first bytes are {magic:02x?}; pcap, pcapng, snoop, and these in gzip or zstd are read"
    )]
    NotACapture {
        /// The first bytes, fewer if there are fewer.
        magic: Vec<u8>,
    },
    /// There is not one byte.
    #[error("the file is empty: not even a capture without packets is")]
    Empty,
    /// The file ends inside a header or packet, as when the writer was killed.
    #[error(
        "the file is cut at byte {at}: {what} needs {needed} bytes and {have} are left; all before is used"
    )]
    Cut {
        /// Position at which the unfinished item starts: byte offset in the (uncompressed) file.
        at: u64,
        /// The item.
        what: &'static str,
        /// Bytes needed.
        needed: u64,
        /// Bytes there are.
        have: u64,
    },
    /// A field has a value that cannot be: the rest of the file cannot be found.
    #[error("the file is broken at byte {at}: {what} is {value}; all before is used")]
    Broken {
        /// Byte offset in the (uncompressed) file.
        at: u64,
        /// Fault in the file.
        what: &'static str,
        /// Its value.
        value: u64,
    },
    /// Reading or unpacking failed.
    #[error("reading failed at byte {at}: {error}; all before is used")]
    Io {
        /// Byte offset in the (uncompressed) file.
        at: u64,
        /// The cause.
        #[source]
        error: std::io::Error,
    },
}
