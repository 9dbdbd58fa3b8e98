//! One line per packet, in the manner of tcpdump.

use core::fmt;
use core::net::IpAddr;

use crate::packet::{Packet, Transport};
use crate::tcp::{Tcp, TcpFlags};

impl fmt::Display for Packet {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (src, dst) = (self.ip.src, self.ip.dst);
        f.write_str(if src.is_ipv4() { "IP " } else { "IP6 " })?;
        match &self.transport {
            Transport::Tcp(tcp) => {
                write_ends(f, src, tcp.src_port, dst, tcp.dst_port)?;
                write_tcp(f, tcp)
            }
            Transport::Udp(udp) => {
                write_ends(f, src, udp.src_port, dst, udp.dst_port)?;
                write!(f, "UDP, length {}", udp.payload_len)
            }
            Transport::Icmp(icmp) => {
                write!(f, "{src} > {dst}: ICMP type {} code {}", icmp.icmp_type, icmp.code)?;
                if let Some(mtu) = icmp.next_hop_mtu() {
                    write!(f, ", too big, mtu {mtu}")?;
                }
                write!(f, ", length {}", icmp.len)
            }
            Transport::Fragment => write!(f, "{src} > {dst}: fragment, length {}", self.ip.transport_len()),
            Transport::Other(protocol) => {
                write!(f, "{src} > {dst}: protocol {protocol}, length {}", self.ip.transport_len())
            }
            Transport::Truncated => {
                write!(f, "{src} > {dst}: protocol {}, header does not fit", self.ip.protocol)
            }
        }
    }
}

fn write_ends(f: &mut fmt::Formatter<'_>, src: IpAddr, sport: u16, dst: IpAddr, dport: u16) -> fmt::Result {
    write!(f, "{src}.{sport} > {dst}.{dport}: ")
}

fn write_tcp(f: &mut fmt::Formatter<'_>, tcp: &Tcp) -> fmt::Result {
    write!(f, "Flags [{}], seq {}", tcp.flags, tcp.seq)?;
    if tcp.payload_len > 0 {
        write!(f, ":{}", tcp.seq + tcp.payload_len as u32)?;
    }
    if tcp.flags.contains(TcpFlags::ACK) {
        write!(f, ", ack {}", tcp.ack)?;
    }
    write!(f, ", win {}", tcp.window)?;
    if tcp.flags.contains(TcpFlags::URG) {
        write!(f, ", urg {}", tcp.urgent)?;
    }
    write_options(f, tcp)?;
    write!(f, ", length {}", tcp.payload_len)
}

fn write_options(f: &mut fmt::Formatter<'_>, tcp: &Tcp) -> fmt::Result {
    let options = &tcp.options;
    let mut separator = ", options [";
    let mut item = |f: &mut fmt::Formatter<'_>, text: fmt::Arguments<'_>| {
        f.write_str(core::mem::replace(&mut separator, ","))?;
        f.write_fmt(text)
    };
    if let Some(mss) = options.mss {
        item(f, format_args!("mss {mss}"))?;
    }
    if options.sack_permitted {
        item(f, format_args!("sackOK"))?;
    }
    if let Some(ts) = options.timestamps {
        item(f, format_args!("TS val {} ecr {}", ts.value, ts.echo))?;
    }
    if let Some(scale) = options.window_scale {
        item(f, format_args!("wscale {}", scale.shift()))?;
    }
    for block in &options.sack {
        item(f, format_args!("sack {}:{}", block.start, block.end))?;
    }
    for (is_there, name) in [
        (options.fast_open, "tfo"),
        (options.mptcp, "mptcp"),
        (options.md5, "md5"),
        (options.ao, "ao"),
        (options.accecn || options.experimental_accecn, "accecn"),
        (options.unknown, "unknown"),
        (options.malformed, "malformed"),
    ] {
        if is_there {
            item(f, format_args!("{name}"))?;
        }
    }
    f.write_str(if separator == "," { "]" } else { "" })
}
