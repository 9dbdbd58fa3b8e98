//! Ethernet frames of a TCP connection, made and read.

#![allow(dead_code, reason = "each test uses a part")]

use std::net::{Ipv4Addr, Ipv6Addr, SocketAddr};

use drwa::Ends;
use units::{SeqNum, WindowScale};
use wire::{Tcp, TcpFlags, TcpHeaderSpec, Timestamps};

/// MSS in SYNs.
pub const OFFER_MSS: u16 = 1_460;
const ETHERNET_LEN: usize = 14;

/// Both ends of a connection; the local one is the client.
#[derive(Clone, Copy, Debug)]
pub struct Host {
    pub local: SocketAddr,
    pub remote: SocketAddr,
}

impl Host {
    /// Connection `n` with server `server`.
    pub fn new(n: u16, server: u16, is_ipv6: bool) -> Self {
        let (port, last) = (40_000 + n, server as u8 + 1);
        if is_ipv6 {
            let address = |net| Ipv6Addr::new(0x2001, 0xdb8, net, 0, 0, 0, 0, last.into());
            return Self { local: (address(1), port).into(), remote: (address(2), 443).into() };
        }
        Self {
            local: (Ipv4Addr::new(198, 51, 100, 9), port).into(),
            remote: (Ipv4Addr::new(192, 0, 2, last), 443).into(),
        }
    }

    pub fn ends(&self) -> Ends {
        Ends { local: (self.local.ip(), self.local.port()), remote: (self.remote.ip(), self.remote.port()) }
    }

    fn spec(
        &self,
        is_out: bool,
        seq: u32,
        ack: u32,
        flags: TcpFlags,
        ts: Option<(u32, u32)>,
    ) -> TcpHeaderSpec {
        let (src, dst) = if is_out { (self.local, self.remote) } else { (self.remote, self.local) };
        let mut spec = TcpHeaderSpec::new(src, dst, SeqNum::new(seq), SeqNum::new(ack), flags);
        spec.timestamps = ts.map(|(value, echo)| Timestamps { value, echo });
        spec
    }

    pub fn syn(&self, isn: u32, ts: Option<(u32, u32)>) -> Vec<u8> {
        frame(&offering(self.spec(true, isn, 0, TcpFlags::SYN, ts)), 0)
    }

    pub fn syn_ack(&self, isn: u32, ack: u32, ts: Option<(u32, u32)>) -> Vec<u8> {
        let flags = TcpFlags::SYN.with(TcpFlags::ACK);
        frame(&offering(self.spec(false, isn, ack + 1, flags, ts)), 0)
    }

    pub fn data(&self, seq: u32, ack: u32, len: usize, ts: Option<(u32, u32)>) -> Vec<u8> {
        frame(&self.spec(false, seq, ack, TcpFlags::ACK, ts), len)
    }

    pub fn ack(&self, seq: u32, ack: u32, window: u16, len: usize, ts: Option<(u32, u32)>) -> Vec<u8> {
        let mut spec = self.spec(true, seq, ack, TcpFlags::ACK, ts);
        spec.window = window;
        frame(&spec, len)
    }

    pub fn ending(&self, is_out: bool, flags: TcpFlags, seq: u32, ack: u32, window: u16) -> Vec<u8> {
        let mut spec = self.spec(is_out, seq, ack, flags, None);
        spec.window = window;
        frame(&spec, 0)
    }
}

fn offering(mut spec: TcpHeaderSpec) -> TcpHeaderSpec {
    spec.window = 64_240;
    spec.mss = Some(OFFER_MSS);
    spec.window_scale = Some(WindowScale::new(7));
    spec.sack_permitted = true;
    spec
}

/// An Ethernet frame with `len` bytes of payload.
pub fn frame(spec: &TcpHeaderSpec, len: usize) -> Vec<u8> {
    let payload: Vec<u8> = (0..len).map(|n| (n * 7) as u8).collect();
    let mut header = [0; TcpHeaderSpec::MAX_LEN];
    let made = spec.emit(&mut header, &[&payload]).expect("it fits");
    let ethertype: [u8; 2] = if spec.src.is_ipv4() { [0x08, 0x00] } else { [0x86, 0xdd] };
    let mut frame = vec![2, 0, 0, 0, 0, 1, 2, 0, 0, 0, 0, 2];
    frame.extend(ethertype);
    frame.extend(&header[..made.len]);
    frame.extend(payload);
    frame
}

/// Adds an option of `bytes` to the end of a SYN's options; a multiple of four.
pub fn with_option(frame: &[u8], option: &[u8]) -> Vec<u8> {
    assert_eq!(option.len() % 4, 0);
    let tcp = parse(frame);
    let at = ETHERNET_LEN + tcp.payload_offset;
    let mut new = frame[..at].to_vec();
    new.extend(option);
    new.extend(&frame[at..]);
    let data_offset = ETHERNET_LEN + tcp.offset + 12;
    new[data_offset] += (option.len() as u8 / 4) << 4;
    let total = ETHERNET_LEN + if new[ETHERNET_LEN] >> 4 == 4 { 2 } else { 4 };
    let len = u16::from_be_bytes([new[total], new[total + 1]]) + option.len() as u16;
    new[total..total + 2].copy_from_slice(&len.to_be_bytes());
    new
}

/// A SYN with another option in place of one.
pub fn with_other<const N: usize>(frame: &[u8], option: [u8; N], other: [u8; N]) -> Vec<u8> {
    let at = ETHERNET_LEN + parse(frame).offset + 20;
    let mut new = frame.to_vec();
    let found = new[at..].windows(N).position(|bytes| bytes == option).expect("the option");
    new[at + found..at + found + N].copy_from_slice(&other);
    new
}

pub fn parse(frame: &[u8]) -> Tcp {
    let packet = wire::parse_prefix(&frame[ETHERNET_LEN..]).expect("a packet");
    *packet.tcp().expect("a segment")
}

pub fn is_checksum_right(frame: &[u8]) -> bool {
    let ip = &frame[ETHERNET_LEN..];
    wire::tcp_checksum_is_valid(ip, &wire::parse(ip).expect("a packet"))
}

/// The frame with another window, and the checksum of that.
pub fn with_window(frame: &[u8], window: u16) -> Vec<u8> {
    let at = ETHERNET_LEN + parse(frame).offset;
    let mut new = frame.to_vec();
    let checksum = u16::from_be_bytes([new[at + 16], new[at + 17]]);
    let window = window.to_be_bytes();
    let checksum = wire::checksum::update_bytes(checksum, 0, &frame[at + 14..at + 16], &window);
    new[at + 14..at + 16].copy_from_slice(&window);
    new[at + 16..at + 18].copy_from_slice(&checksum.to_be_bytes());
    new
}
