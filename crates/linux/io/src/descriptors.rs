//! Open descriptors sent from one process to another, with a few bytes beside them (`SCM_RIGHTS`,
//! `unix(7)`).

use std::io::{IoSlice, Write};
use std::mem::MaybeUninit;
use std::os::fd::{AsRawFd, BorrowedFd, FromRawFd, OwnedFd, RawFd};
use std::os::unix::net::{UnixDatagram, UnixStream};

use socket2::{MaybeUninitSlice, MsgHdr, MsgHdrMut, SockRef};

use crate::IoError;
use crate::error::Context;

/// Descriptors in one message at most: what the kernel allows (`SCM_MAX_FD`).
pub const DESCRIPTORS_MAX: usize = 253;

/// Length, level, type: `struct cmsghdr`.
const CONTROL_HEADER_LEN: usize = 16;
const DESCRIPTOR_LEN: usize = size_of::<RawFd>();

/// Sends `bytes`, and with the first of them `descriptors`: one byte at least for each [`DESCRIPTORS_MAX`] of them, which
/// come in as many messages.
///
/// # Errors
/// When there are too few bytes, or nobody is at the other end.
pub fn send_with_descriptors(
    mut stream: &UnixStream,
    bytes: &[u8],
    descriptors: &[BorrowedFd<'_>],
) -> Result<(), IoError> {
    let doing = || format!("send {} open descriptors", descriptors.len());
    let messages = descriptors.len().div_ceil(DESCRIPTORS_MAX);
    if bytes.len() < messages.max(1) {
        let why = std::io::Error::from(std::io::ErrorKind::InvalidInput);
        return Err(IoError::system(doing(), why));
    }
    let mut left = bytes;
    for (number, part) in (1..).zip(descriptors.chunks(DESCRIPTORS_MAX)) {
        let control = control_message(part);
        let pieces = [IoSlice::new(if number < messages { &left[..1] } else { left })];
        let message = MsgHdr::new().with_buffers(&pieces).with_control(&control);
        // The kernel takes the descriptors with the first byte that it takes.
        let sent = SockRef::from(stream).sendmsg(&message, 0).doing(doing)?;
        left = &left[sent..];
    }
    stream.write_all(left).doing(doing)
}

/// Sends a datagram and with it `descriptor`.
pub(crate) fn send_datagram(
    socket: &UnixDatagram,
    bytes: &[u8],
    descriptor: BorrowedFd<'_>,
) -> std::io::Result<()> {
    let (control, pieces) = (control_message(&[descriptor]), [IoSlice::new(bytes)]);
    let message = MsgHdr::new().with_buffers(&pieces).with_control(&control);
    SockRef::from(socket).sendmsg(&message, 0).map(drop)
}

/// Receives bytes and the descriptors sent with them; no byte at all when the other end is closed.
///
/// Fewer descriptors come where this process may not have so many: the kernel leaves them out.
///
/// # Errors
/// As reading from a socket.
pub fn receive_with_descriptors(
    stream: &UnixStream,
    buffer: &mut [u8],
) -> Result<(usize, Vec<OwnedFd>), IoError> {
    let doing = || "receive open descriptors".to_owned();
    let mut control = [MaybeUninit::<u8>::zeroed(); CONTROL_HEADER_LEN + DESCRIPTORS_MAX * DESCRIPTOR_LEN];
    // SAFETY: bytes that are initialised may be seen as some that perhaps are not; nothing that is not
    // initialised is ever written to them, since only the kernel writes.
    let bytes = unsafe { &mut *(std::ptr::from_mut(buffer) as *mut [MaybeUninit<u8>]) };
    let mut pieces = [MaybeUninitSlice::new(bytes)];
    let mut message = MsgHdrMut::new().with_buffers(&mut pieces).with_control(&mut control);
    let len = SockRef::from(stream).recvmsg(&mut message, libc::MSG_CMSG_CLOEXEC).doing(doing)?;
    let control_len = message.control_len();
    // SAFETY: all of it was zero before the call.
    let control = control.map(|byte| unsafe { byte.assume_init() });
    let descriptors = descriptors_in(control.get(..control_len).unwrap_or_default());
    Ok((len, descriptors))
}

fn control_message(descriptors: &[BorrowedFd<'_>]) -> Vec<u8> {
    let len = CONTROL_HEADER_LEN + descriptors.len() * DESCRIPTOR_LEN;
    let mut control = Vec::with_capacity(len.next_multiple_of(8));
    control.extend_from_slice(&(len as u64).to_ne_bytes());
    control.extend_from_slice(&libc::SOL_SOCKET.to_ne_bytes());
    control.extend_from_slice(&libc::SCM_RIGHTS.to_ne_bytes());
    for descriptor in descriptors {
        control.extend_from_slice(&descriptor.as_raw_fd().to_ne_bytes());
    }
    control.resize(len.next_multiple_of(8), 0);
    control
}

/// The descriptors in the only control message there is.
fn descriptors_in(control: &[u8]) -> Vec<OwnedFd> {
    let Some((header, rest)) = control.split_at_checked(CONTROL_HEADER_LEN) else { return Vec::new() };
    let (len, kind) = header.split_at(8);
    let is_rights =
        kind[..4] == libc::SOL_SOCKET.to_ne_bytes() && kind[4..] == libc::SCM_RIGHTS.to_ne_bytes();
    let len = len.try_into().map_or(0, u64::from_ne_bytes) as usize;
    let rest = rest.get(..len.saturating_sub(CONTROL_HEADER_LEN)).unwrap_or(rest);
    if !is_rights {
        return Vec::new();
    }
    let numbers = rest.as_chunks::<DESCRIPTOR_LEN>().0.iter().map(|bytes| RawFd::from_ne_bytes(*bytes));
    // SAFETY: the kernel has just opened these for this process, and nobody else knows of them.
    numbers.map(|number| unsafe { OwnedFd::from_raw_fd(number) }).collect()
}

#[cfg(test)]
mod tests {
    use std::fs::File;
    use std::os::fd::AsFd;
    use std::os::unix::fs::FileExt;

    use super::*;
    use crate::StateFile;

    #[test]
    fn descriptors_come_with_their_bytes() {
        let (one, other) = UnixStream::pair().unwrap();
        let file = |bytes: &[u8]| {
            let mut file = StateFile::create().unwrap();
            file.append(bytes).unwrap();
            file.finish().unwrap()
        };
        let files = [&b"first"[..], b"second", b"third"].map(file);
        send_with_descriptors(&one, b"three\n", &files.each_ref().map(AsFd::as_fd)).unwrap();
        let mut buffer = [0; 100];
        let (len, descriptors) = receive_with_descriptors(&other, &mut buffer).unwrap();
        assert_eq!((&buffer[..len], descriptors.len()), (&b"three\n"[..], 3));
        let contents: Vec<Vec<u8>> = descriptors
            .into_iter()
            .map(|descriptor| {
                let file = File::from(descriptor);
                let mut content = vec![0; file.metadata().unwrap().len() as usize];
                file.read_exact_at(&mut content, 0).unwrap();
                content
            })
            .collect();
        assert_eq!(contents, [&b"first"[..], b"second", b"third"]);
    }

    #[test]
    fn more_descriptors_than_one_message_holds_come_in_several() {
        let (one, other) = UnixStream::pair().unwrap();
        let file = File::open("/dev/null").unwrap();
        for count in [DESCRIPTORS_MAX, DESCRIPTORS_MAX + 1, 2 * DESCRIPTORS_MAX + 1] {
            send_with_descriptors(&one, b"of them all\n", &vec![file.as_fd(); count]).unwrap();
            let (mut text, mut came) = (Vec::new(), 0);
            while !text.ends_with(b"\n") {
                let mut buffer = [0; 100];
                let (len, descriptors) = receive_with_descriptors(&other, &mut buffer).unwrap();
                text.extend_from_slice(&buffer[..len]);
                came += descriptors.len();
            }
            assert_eq!((text.as_slice(), came), (&b"of them all\n"[..], count));
        }
        assert!(send_with_descriptors(&one, b"x", &vec![file.as_fd(); DESCRIPTORS_MAX + 1]).is_err());
    }

    #[test]
    fn bytes_alone_and_the_end() {
        let (one, other) = UnixStream::pair().unwrap();
        send_with_descriptors(&one, b"x", &[]).unwrap();
        drop(one);
        let mut buffer = [0; 9];
        assert!(matches!(receive_with_descriptors(&other, &mut buffer), Ok((1, none)) if none.is_empty()));
        assert!(matches!(receive_with_descriptors(&other, &mut buffer), Ok((0, none)) if none.is_empty()));
        assert!(send_with_descriptors(&other, b"x", &[]).is_err(), "nobody is there");
        assert!(send_with_descriptors(&other, b"", &[]).is_err(), "nothing to send with");
    }
}
