//! [`Operation`]: what can be done to an engine, read from the fuzzer's bytes.

use arbitrary::{Arbitrary, Result, Unstructured};
use engine::Port;
use wire::TcpFlags;

/// One step of a session. The first byte picks it, so that a changed byte elsewhere changes only a detail.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Operation {
    /// Time passes.
    Wait { microseconds: u64 },
    /// Time passes up to the engine's next deadline.
    ToDeadline,
    /// No new flows; those there are handed back.
    Drain,
    /// A handshake, packet by packet; `upto` of its three packets get through.
    Open { flow: u8, agreed: u8, upto: u8 },
    /// The next data of a host, in order.
    Data { flow: u8, from: Port, len: u16, gso: bool },
    /// Data that the host sends and that never arrives here.
    Lose { flow: u8, from: Port, len: u16 },
    /// Data sent again, `back` bytes before the next.
    Again { flow: u8, from: Port, back: u16, len: u16 },
    /// The client acknowledges what it has seen, with its SACK blocks.
    Acknowledge { flow: u8 },
    /// The window the host says from here on.
    Window { flow: u8, from: Port, window: u16 },
    /// The radio loses the next packets towards the client.
    LoseNext { flow: u8, count: u8 },
    /// The host closes.
    Fin { flow: u8, from: Port },
    /// The host resets, off the right number by `off`.
    Reset { flow: u8, from: Port, off: i8 },
    /// Any header around the right numbers, with a change to its bytes.
    Odd(Odd),
    /// A packet of somebody who knows addresses and ports, and has guessed a number in the window.
    Stranger(Stranger),
    /// Bytes that may be no packet at all.
    Raw { from: Port, bytes: Vec<u8> },
}

/// A packet somewhat wrong.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Odd {
    pub(super) flow: u8,
    pub(super) from: Port,
    pub(super) flags: TcpFlags,
    pub(super) seq_off: i32,
    pub(super) ack_off: i32,
    pub(super) len: u16,
    pub(super) window: u16,
    pub(super) stamp_off: i8,
    /// SACK block: start behind what is acknowledged, and length, in units of 100 bytes.
    pub(super) sack: (u8, u8),
    /// Options of any kind.
    pub(super) options: Vec<u8>,
    /// A byte to change and what to change in it; nothing for zero.
    pub(super) damage: (u8, u8),
    pub(super) flow_of_virtio: u8,
}

/// A packet in a host's name with an acknowledgement that no host would believe, or none.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Stranger {
    pub(super) flow: u8,
    pub(super) from: Port,
    pub(super) flags: TcpFlags,
    /// From the next number of the host.
    pub(super) seq_off: i32,
    /// From the number that the host would acknowledge; far from it.
    pub(super) ack_off: u32,
    pub(super) len: u8,
    pub(super) window: u16,
    /// From the present, in milliseconds.
    pub(super) stamp_off: Option<u32>,
}

fn port(u: &mut Unstructured<'_>) -> Result<Port> {
    Ok(if u.arbitrary::<u8>()? & 1 == 0 { Port::Wired } else { Port::Mobile })
}

/// Mostly nothing, sometimes a little, rarely anything.
fn offset(u: &mut Unstructured<'_>) -> Result<i32> {
    let byte = u.arbitrary::<i8>()?;
    Ok(match byte {
        -100..=100 => i32::from(byte),
        101..=120 => (i32::from(byte) - 110) * 1_400,
        _ => u.arbitrary()?,
    })
}

impl<'a> Arbitrary<'a> for Odd {
    fn arbitrary(u: &mut Unstructured<'a>) -> Result<Self> {
        let (flow, from) = (u.arbitrary()?, port(u)?);
        let options_len = usize::from(u.arbitrary::<u8>()? % 48).saturating_sub(24);
        Ok(Self {
            flow,
            from,
            flags: TcpFlags::from_bits(u16::from(u.arbitrary::<u8>()?)),
            seq_off: offset(u)?,
            ack_off: offset(u)?,
            len: u.arbitrary::<u16>()? % 3_000,
            window: u.arbitrary()?,
            stamp_off: u.arbitrary()?,
            sack: u.arbitrary()?,
            options: u.bytes(options_len.min(u.len()))?.to_vec(),
            damage: u.arbitrary()?,
            flow_of_virtio: u.arbitrary()?,
        })
    }
}

impl<'a> Arbitrary<'a> for Stranger {
    fn arbitrary(u: &mut Unstructured<'a>) -> Result<Self> {
        const FAR: u32 = 1 << 28;
        let flags = TcpFlags::from_bits(u16::from(u.arbitrary::<u8>()?)).without(TcpFlags::RST);
        // A SYN alone opens a connection.
        let opens = flags.contains(TcpFlags::SYN) && !flags.contains(TcpFlags::ACK);
        Ok(Self {
            flow: u.arbitrary()?,
            from: port(u)?,
            flags: if opens { flags.without(TcpFlags::SYN) } else { flags },
            // Not the exact number: whoever has that may reset the flow.
            seq_off: match offset(u)? {
                0 => 1,
                off => off,
            },
            ack_off: FAR + u.arbitrary::<u32>()? % (u32::MAX - 2 * FAR),
            len: u.arbitrary()?,
            window: u.arbitrary()?,
            stamp_off: u.arbitrary()?,
        })
    }
}

impl<'a> Arbitrary<'a> for Operation {
    fn arbitrary(u: &mut Unstructured<'a>) -> Result<Self> {
        let flow_len = |u: &mut Unstructured<'a>| -> Result<u16> { Ok(u16::from(u.arbitrary::<u8>()?) * 37) };
        Ok(match u.arbitrary::<u8>()? % 24 {
            0 | 1 => {
                let byte = u.arbitrary::<u8>()?;
                Self::Wait { microseconds: (u64::from(byte % 16) + 1) << (byte / 16 + 4) }
            }
            2 | 3 => Self::ToDeadline,
            // Seldom: nothing new begins after it.
            4 if u.arbitrary::<u8>()? < 16 => Self::Drain,
            4 | 5 => Self::Open { flow: u.arbitrary()?, agreed: u.arbitrary()?, upto: u.arbitrary()? },
            6..=8 => {
                Self::Data { flow: u.arbitrary()?, from: port(u)?, len: flow_len(u)?, gso: u.arbitrary()? }
            }
            9 => Self::Lose { flow: u.arbitrary()?, from: port(u)?, len: flow_len(u)? },
            10 => Self::Again { flow: u.arbitrary()?, from: port(u)?, back: flow_len(u)?, len: flow_len(u)? },
            11..=13 => Self::Acknowledge { flow: u.arbitrary()? },
            14 => Self::Window { flow: u.arbitrary()?, from: port(u)?, window: u.arbitrary()? },
            15 => Self::LoseNext { flow: u.arbitrary()?, count: u.arbitrary()? },
            16 => Self::Fin { flow: u.arbitrary()?, from: port(u)? },
            17 => Self::Reset { flow: u.arbitrary()?, from: port(u)?, off: u.arbitrary()? },
            18..=21 => Self::Odd(u.arbitrary()?),
            22 => Self::Stranger(u.arbitrary()?),
            _ => {
                let (from, len) = (port(u)?, usize::from(u.arbitrary::<u8>()?));
                Self::Raw { from, bytes: u.bytes(len.min(u.len()))?.to_vec() }
            }
        })
    }
}
