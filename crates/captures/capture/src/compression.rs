//! [`decompressed`]: gzip and Zstandard are recognised by their first bytes.

use std::io::{self, Cursor, Read};

/// A stream of uncompressed bytes.
pub type Stream = Box<dyn Read + Send>;

const GZIP: [u8; 2] = [0x1f, 0x8b];
const ZSTD: [u8; 4] = [0x28, 0xb5, 0x2f, 0xfd];

/// Unpacks `source` if it is gzip (RFC 1952, several members too) or Zstandard (RFC 8878, several
/// frames too).
///
/// Anything else is passed as it is.
///
/// # Errors
/// The first bytes cannot be read, or a Zstandard header is broken.
pub fn decompressed(mut source: impl Read + Send + 'static) -> io::Result<Stream> {
    let mut magic = [0; 4];
    let mut have = 0;
    while have < magic.len() {
        match source.read(&mut magic[have..]) {
            Ok(0) => break,
            Ok(count) => have += count,
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return Err(error),
        }
    }
    let whole = Cursor::new(magic[..have].to_vec()).chain(source);
    if magic.starts_with(&GZIP) {
        return Ok(Box::new(flate2::read::MultiGzDecoder::new(whole)));
    }
    if have == 4 && magic == ZSTD {
        return Ok(Box::new(Frames { inner: Inner::Between(Box::new(whole)) }));
    }
    Ok(Box::new(whole))
}

/// Zstandard frames one after the other.
struct Frames {
    inner: Inner,
}

type Frame = ruzstd::decoding::StreamingDecoder<Stream, ruzstd::decoding::FrameDecoder>;

enum Inner {
    Between(Stream),
    Within(Box<Frame>),
    Ended,
}

impl Read for Frames {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        loop {
            match std::mem::replace(&mut self.inner, Inner::Ended) {
                Inner::Ended => return Ok(0),
                Inner::Between(mut stream) => {
                    let mut first = [0];
                    if stream.read(&mut first)? == 0 {
                        return Ok(0);
                    }
                    let stream: Stream = Box::new(Cursor::new(first).chain(stream));
                    let frame = ruzstd::decoding::StreamingDecoder::new(stream)
                        .map_err(|error| io::Error::new(io::ErrorKind::InvalidData, error.to_string()))?;
                    self.inner = Inner::Within(Box::new(frame));
                }
                Inner::Within(mut frame) => {
                    let count = frame.read(buffer)?;
                    if count > 0 || buffer.is_empty() {
                        self.inner = Inner::Within(frame);
                        return Ok(count);
                    }
                    self.inner = Inner::Between(frame.into_inner());
                }
            }
        }
    }
}
