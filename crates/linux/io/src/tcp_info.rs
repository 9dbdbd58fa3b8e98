//! [`TcpInfo`]: what the kernel knows of a TCP connection (`TCP_INFO`).

use std::os::fd::{AsFd, AsRawFd};

use units::{Duration, Rate};

use crate::IoError;

/// Bytes asked for: more than any kernel has.
const LEN: usize = 512;

/// Bytes of the timestamps option with its filling.
const TIMESTAMPS_LEN: u32 = 12;

/// A part of `struct tcp_info` of `linux/tcp.h`; zero where an older kernel does not know it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct TcpInfo {
    /// Smoothed round trip.
    pub srtt: Duration,
    /// Least round trip.
    pub rtt_min: Duration,
    /// Segment size towards the peer.
    pub mss: u32,
    /// Congestion window, segments.
    pub cwnd: u32,
    /// Slow-start threshold, segments.
    pub ssthresh: u32,
    /// Segments that are not acknowledged.
    pub unacked: u32,
    /// Time since data was sent last, in steps of the kernel's tick.
    pub last_data_sent: Duration,
    /// Time since data came last, in the same steps.
    pub last_data_received: Duration,
    /// Segments sent again, ever.
    pub retransmitted: u32,
    /// Data segments sent, those sent again too.
    pub data_segments_sent: u32,
    /// Pacing.
    pub pacing_rate: Rate,
    /// Latest delivery rate.
    pub delivery_rate: Rate,
    /// Bytes acknowledged.
    pub bytes_acked: u64,
    /// Time with something to send.
    pub busy: Duration,
    /// Of that: time in which the peer's window was the limit.
    pub rwnd_limited: Duration,
    /// Of that: time in which the send buffer was the limit.
    pub sndbuf_limited: Duration,
    /// The peer's window, bytes.
    pub peer_window: u32,
    /// Segment size that this end offered.
    pub offered_mss: u32,
    /// Shift of this end's window; zero without the option.
    pub own_shift: u8,
    /// Shift of the other end's window; zero without the option.
    pub peer_shift: u8,
    /// Both ends have timestamps.
    pub has_timestamps: bool,
    /// Both ends have SACK.
    pub has_sack: bool,
    /// Both ends scale their windows.
    pub has_window_scale: bool,
    /// Both ends have ECN.
    pub has_ecn: bool,
    /// A packet has come that was marked as ECN-capable, or as having met congestion.
    pub has_seen_ecn: bool,
    /// Packets sent that the other end says came marked CE.
    pub delivered_ce: u32,
    /// Packets that came marked CE, with accurate ECN (Linux 6.18 and later).
    pub received_ce: u32,
}

impl TcpInfo {
    /// Of a connected socket.
    ///
    /// # Errors
    /// When it is no TCP socket.
    pub fn of(socket: &impl AsFd) -> Result<Self, IoError> {
        let mut bytes = [0_u8; LEN];
        let mut len = LEN as libc::socklen_t;
        // SAFETY: the kernel writes at most `len` bytes to `bytes`, which has as many, and says how many.
        let done = unsafe {
            libc::getsockopt(
                socket.as_fd().as_raw_fd(),
                libc::IPPROTO_TCP,
                libc::TCP_INFO,
                bytes.as_mut_ptr().cast(),
                &raw mut len,
            )
        };
        if done < 0 { Err(IoError::last("ask a TCP socket for its state")) } else { Ok(Self::read(&bytes)) }
    }

    /// Offsets are those of `struct tcp_info`, which only ever grows at its end.
    fn read(bytes: &[u8; LEN]) -> Self {
        let u32_at =
            |at: usize| bytes.get(at..at + 4).and_then(|b| b.try_into().ok()).map_or(0, u32::from_ne_bytes);
        let u64_at =
            |at: usize| bytes.get(at..at + 8).and_then(|b| b.try_into().ok()).map_or(0, u64::from_ne_bytes);
        let micros = |us: u64| Duration::from_micros(us);
        // `TCPI_OPT_*` of `linux/tcp.h`.
        let has = |option: u8| bytes.get(5).is_some_and(|options| options & option != 0);
        let rate = |bytes: u64| Rate::from_bps(bytes.saturating_mul(8));
        Self {
            mss: u32_at(16),
            unacked: u32_at(24),
            last_data_sent: Duration::from_millis(u32_at(44).into()),
            last_data_received: Duration::from_millis(u32_at(52).into()),
            srtt: micros(u32_at(68).into()),
            ssthresh: u32_at(76),
            cwnd: u32_at(80),
            retransmitted: u32_at(100),
            pacing_rate: rate(u64_at(104)),
            bytes_acked: u64_at(120),
            rtt_min: micros(u32_at(148).into()),
            data_segments_sent: u32_at(156),
            delivery_rate: rate(u64_at(160)),
            busy: micros(u64_at(168)),
            rwnd_limited: micros(u64_at(176)),
            sndbuf_limited: micros(u64_at(184)),
            peer_window: u32_at(228),
            // The kernel takes the room of timestamps off when both ends have them.
            offered_mss: u32_at(84) + if has(1) { TIMESTAMPS_LEN } else { 0 },
            own_shift: bytes.get(6).map_or(0, |scales| shifts(*scales)[1]),
            peer_shift: bytes.get(6).map_or(0, |scales| shifts(*scales)[0]),
            has_timestamps: has(1),
            has_sack: has(2),
            has_window_scale: has(4),
            has_ecn: has(8),
            has_seen_ecn: has(16),
            delivered_ce: u32_at(196),
            received_ce: u32_at(248),
        }
    }
}

/// Two fields of four bits, in the order in which the C ABI lays them out.
const fn shifts(scales: u8) -> [u8; 2] {
    let (low, high) = (scales & 0x0f, scales >> 4);
    if cfg!(target_endian = "big") { [high, low] } else { [low, high] }
}

/// Has a listening socket keep the SYN of each connection, as it came (`TCP_SAVE_SYN`, Linux 4.3 and later).
///
/// # Errors
/// When it is no TCP socket.
pub fn save_syn(listener: &impl AsFd) -> Result<(), IoError> {
    let on: libc::c_int = 1;
    crate::af_packet::set(&listener.as_fd(), libc::IPPROTO_TCP, libc::TCP_SAVE_SYN, &on)
}

/// The SYN of an accepted connection from its IP header on, once (`TCP_SAVED_SYN`); none where the listener
/// did not keep it.
#[must_use]
pub fn saved_syn(socket: &impl AsFd) -> Option<Vec<u8>> {
    let mut bytes = vec![0_u8; LEN];
    let mut len = LEN as libc::socklen_t;
    // SAFETY: the kernel writes at most `len` bytes to `bytes`, which has as many, and says how many.
    let done = unsafe {
        libc::getsockopt(
            socket.as_fd().as_raw_fd(),
            libc::IPPROTO_TCP,
            libc::TCP_SAVED_SYN,
            bytes.as_mut_ptr().cast(),
            &raw mut len,
        )
    };
    bytes.truncate(len as usize);
    (done == 0 && !bytes.is_empty()).then_some(bytes)
}

/// Has a socket never offer more than `bytes` of window, from before it is connected on
/// (`TCP_WINDOW_CLAMP`).
///
/// # Errors
/// When it is no TCP socket.
pub fn set_window_clamp(socket: &impl AsFd, bytes: u32) -> Result<(), IoError> {
    let clamp = libc::c_int::try_from(bytes).unwrap_or(libc::c_int::MAX);
    crate::af_packet::set(&socket.as_fd(), libc::IPPROTO_TCP, libc::TCP_WINDOW_CLAMP, &clamp)
}

/// Has a socket send no faster than `rate` (`SO_MAX_PACING_RATE`).
///
/// # Errors
/// When the kernel refuses, which it does not for a TCP socket.
pub fn set_max_pacing_rate(socket: &impl AsFd, rate: Rate) -> Result<(), IoError> {
    let bytes = (rate.as_bps() / 8).max(1);
    crate::af_packet::set(&socket.as_fd(), libc::SOL_SOCKET, libc::SO_MAX_PACING_RATE, &bytes)
}

#[cfg(test)]
mod tests {
    use std::io::{Read, Write};
    use std::net::{TcpListener, TcpStream};

    use super::*;

    #[test]
    fn a_syn_is_kept_as_it_came_and_the_options_agree_with_it() {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        save_syn(&listener).unwrap();
        let client = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
        let (server, _) = listener.accept().unwrap();
        let syn = saved_syn(&server).unwrap();
        // IPv4, and SYN without ACK.
        assert_eq!((syn[0] >> 4, syn[33] & 0x12), (4, 2));
        assert_eq!(saved_syn(&server), None, "once");
        let (own, other) = (TcpInfo::of(&client).unwrap(), TcpInfo::of(&server).unwrap());
        assert_eq!(own.offered_mss, u32::from(u16::from_be_bytes([syn[42], syn[43]])), "{syn:?}");
        assert_eq!(own.has_sack, other.has_sack);
        let scale = syn[40..].windows(3).find(|bytes| bytes[..2] == [3, 3]);
        assert_eq!(own.has_window_scale.then_some(own.own_shift), scale.map(|bytes| bytes[2]));
    }

    #[test]
    fn what_was_sent_is_in_the_kernels_figures() {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let mut client = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
        let (mut server, _) = listener.accept().unwrap();
        client.write_all(&[7; 10_000]).unwrap();
        server.read_exact(&mut [0; 10_000]).unwrap();
        // What comes back carries the acknowledgement.
        server.write_all(b"x").unwrap();
        client.read_exact(&mut [0]).unwrap();
        let info = TcpInfo::of(&client).unwrap();
        assert!((10_000..=10_001).contains(&info.bytes_acked), "{info:?}");
        assert!(info.mss > 500 && info.cwnd >= 1 && info.data_segments_sent >= 1 && info.retransmitted == 0);
        assert!(!info.srtt.is_zero() && info.srtt < Duration::from_secs(1) && info.rtt_min <= info.srtt * 2);
        assert!(info.peer_window > 10_000, "{info:?}");
        assert!(TcpInfo::of(&std::net::UdpSocket::bind("127.0.0.1:0").unwrap()).is_err());
    }
}
