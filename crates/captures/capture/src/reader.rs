//! [`Reader`]: packets of one capture, one at a time.

use std::io::Read;

use units::Instant;

use crate::error::CaptureError;
use crate::link::LinkType;
use crate::octets::Endian;
use crate::pcap::{FILE_HEADER_LEN, Pcap, RECORD_MAX};
use crate::pcapng::{self, BlockPacket, Interface, SECTION_HEADER, block};
use crate::snoop::{MAGIC, SNOOP_HEADER_LEN, SNOOP_RECORD_HEADER_LEN, Snoop, SnoopRecord, VERSION};
use crate::window::Window;

/// Longest pcapng block that is read as a whole.
const BLOCK_MAX: usize = 64 << 20;

/// The format of a capture.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Format {
    /// pcap, in any of its variants.
    Pcap,
    /// pcapng.
    Pcapng,
    /// snoop.
    Snoop,
}

/// One captured frame, lent by [`Reader::current`].
#[derive(Clone, Copy, Debug)]
pub struct Record<'a> {
    /// Time since 1970-01-01 UTC.
    pub time: Instant,
    /// Interface, counted over all sections of the file.
    pub interface: u32,
    /// Kind of the first header.
    pub link: LinkType,
    /// Length of the frame on the wire, bytes; the capture may hold less.
    pub wire_len: u32,
    /// Bytes captured.
    pub bytes: &'a [u8],
}

/// Health of the capture by its own statements.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Health {
    /// Packets read.
    pub packets: u64,
    /// Packets of which the capture holds less than was on the wire.
    pub clipped: u64,
    /// Packets with a time before their predecessor's.
    pub time_steps_back: u64,
    /// Packets that the capturing machine says it lost (pcapng interface statistics, snoop); none if
    /// it does not say.
    pub dropped: Option<u64>,
    /// Interfaces, over all sections.
    pub interfaces: u32,
    /// Sections of a pcapng file; zero for pcap.
    pub sections: u32,
    /// Packets without a time: they get their predecessor's.
    pub without_time: u64,
    /// Packet blocks of unknown interfaces or with impossible lengths.
    pub bad_blocks: u64,
}

/// Reason why `bytes`, the first of a file, are no header of a pcap or snoop file.
fn no_file_header(bytes: &[u8]) -> CaptureError {
    let mut whole = [0; FILE_HEADER_LEN];
    let have = bytes.len().min(FILE_HEADER_LEN);
    whole[..have].copy_from_slice(&bytes[..have]);
    match have {
        0 => CaptureError::Empty,
        4..FILE_HEADER_LEN if Pcap::parse(&whole).is_some() => CaptureError::Cut {
            at: 0,
            what: "the header of the file",
            needed: FILE_HEADER_LEN as u64,
            have: have as u64,
        },
        8..FILE_HEADER_LEN if bytes.starts_with(&MAGIC) => CaptureError::Cut {
            at: 0,
            what: "the header of the file",
            needed: SNOOP_HEADER_LEN as u64,
            have: have as u64,
        },
        _ => CaptureError::NotACapture { magic: whole[..have.min(4)].to_vec() },
    }
}

/// The current frame: place in the window and facts.
#[derive(Clone, Copy, Debug)]
struct Head {
    time: Instant,
    interface: u32,
    link: LinkType,
    wire: u32,
    at: usize,
    captured: usize,
    /// Bytes to consume before the next record.
    total: usize,
}

struct Section {
    endian: Endian,
    interfaces: Vec<Interface>,
    /// Interfaces of earlier sections.
    base: u32,
}

enum State {
    Pcap(Pcap),
    Pcapng(Section),
    Snoop(Snoop),
}

/// Reads frames from a capture; see the crate's documentation.
pub struct Reader<R> {
    window: Window<R>,
    state: State,
    head: Option<Head>,
    last_time: Instant,
    health: Health,
}

impl<R: Read> Reader<R> {
    /// Starts reading; the first call of [`Reader::advance`] moves to the first frame.
    ///
    /// # Errors
    /// The first bytes are those of no capture, or cannot be read.
    pub fn new(source: R) -> Result<Self, CaptureError> {
        let mut window = Window::new(source);
        let have = window.fill(FILE_HEADER_LEN)?;
        let bytes = window.bytes();
        let mut health = Health::default();
        let state = if Endian::Big.u32_at(bytes, 0) == SECTION_HEADER && have >= 4 {
            State::Pcapng(Section { endian: Endian::Little, interfaces: Vec::new(), base: 0 })
        } else if let Some(snoop) = Snoop::parse(bytes) {
            if snoop.version != VERSION {
                let value = u64::from(snoop.version);
                return Err(CaptureError::Broken { at: 8, what: "the version of a snoop file", value });
            }
            window.consume(SNOOP_HEADER_LEN);
            health.interfaces = 1;
            State::Snoop(snoop)
        } else {
            let pcap = bytes.first_chunk().and_then(Pcap::parse).ok_or_else(|| no_file_header(bytes))?;
            window.consume(FILE_HEADER_LEN);
            health.interfaces = 1;
            State::Pcap(pcap)
        };
        Ok(Self { window, state, head: None, last_time: Instant::ZERO, health })
    }

    /// The format found.
    #[must_use]
    pub fn format(&self) -> Format {
        match self.state {
            State::Pcap(_) => Format::Pcap,
            State::Pcapng(_) => Format::Pcapng,
            State::Snoop(_) => Format::Snoop,
        }
    }

    /// Counts so far.
    #[must_use]
    pub fn health(&self) -> &Health {
        &self.health
    }

    /// Uncompressed bytes consumed so far.
    #[must_use]
    pub fn position(&self) -> u64 {
        self.window.position()
    }

    /// The frame that [`Reader::advance`] moved to.
    #[inline]
    #[must_use]
    pub fn current(&self) -> Option<Record<'_>> {
        let head = self.head.as_ref()?;
        Some(Record {
            time: head.time,
            interface: head.interface,
            link: head.link,
            wire_len: head.wire,
            bytes: self.window.bytes().get(head.at..head.at + head.captured)?,
        })
    }

    /// Moves to the next frame; false at the end of the file.
    ///
    /// # Errors
    /// The file is cut or broken here. What was lent before was right, and there is nothing after.
    #[inline]
    pub fn advance(&mut self) -> Result<bool, CaptureError> {
        if let Some(head) = self.head.take() {
            self.window.consume(head.total);
        }
        let head = match &self.state {
            State::Pcap(pcap) => next_record(&mut self.window, pcap)?,
            State::Pcapng(_) => self.next_block_packet()?,
            State::Snoop(snoop) => {
                let next = next_snoop_record(&mut self.window, *snoop)?;
                next.map(|(head, dropped)| {
                    self.health.dropped = Some(dropped);
                    head
                })
            }
        };
        let Some(head) = head else { return Ok(false) };
        self.health.packets += 1;
        self.health.clipped += u64::from(head.captured < head.wire as usize);
        self.health.time_steps_back += u64::from(head.time < self.last_time);
        self.last_time = head.time;
        self.head = Some(head);
        Ok(true)
    }

    fn next_block_packet(&mut self) -> Result<Option<Head>, CaptureError> {
        while let Some((kind, len)) = self.next_block()? {
            let State::Pcapng(section) = &mut self.state else { return Ok(None) };
            let body = self.window.bytes().get(8..len - 4).unwrap_or_default();
            match kind {
                block::INTERFACE => {
                    section.interfaces.push(Interface::parse(body, section.endian));
                    self.health.interfaces += 1;
                }
                block::INTERFACE_STATISTICS => {
                    let drops: u64 = pcapng::options(body.get(12..).unwrap_or_default(), section.endian)
                        .filter(|(code, value)| matches!(code, 5 | 7) && value.len() == 8)
                        .map(|(_, value)| section.endian.u64_at(value, 0))
                        .fold(0, u64::saturating_add);
                    // Of all since the capture began: a later block has what an earlier one of the interface had.
                    let number = section.endian.u32_at(body, 0) as usize;
                    let known = section.interfaces.get_mut(number).map(|interface| &mut interface.dropped);
                    let more =
                        known.map_or(drops, |known| drops.saturating_sub(std::mem::replace(known, drops)));
                    self.health.dropped = Some(self.health.dropped.unwrap_or(0).saturating_add(more));
                }
                block::PACKET | block::SIMPLE_PACKET | block::ENHANCED_PACKET => {
                    let snap_len = section.interfaces.first().map_or(0, |i| i.snap_len);
                    let found = pcapng::packet(kind, body, section.endian, snap_len);
                    let known = found
                        .and_then(|p| section.interfaces.get(p.interface).map(|interface| (p, interface)));
                    if let Some((packet, interface)) = known {
                        let time = packet.stamp.map_or(self.last_time, |stamp| interface.time(stamp));
                        self.health.without_time += u64::from(packet.stamp.is_none());
                        return Ok(Some(head_of(&packet, interface, section.base, time, len)));
                    }
                    self.health.bad_blocks += 1;
                }
                _ => {}
            }
            self.window.consume(len);
        }
        Ok(None)
    }

    /// Brings a whole block into view: its type and total length; none at the end of the file.
    #[inline]
    fn next_block(&mut self) -> Result<Option<(u32, usize)>, CaptureError> {
        let State::Pcapng(section) = &mut self.state else { return Ok(None) };
        let have = self.window.fill(12)?;
        let at = self.window.position();
        if have == 0 {
            return Ok(None);
        }
        if have < 12 {
            return Err(CaptureError::Cut { at, what: "a block header", needed: 12, have: have as u64 });
        }
        let bytes = self.window.bytes();
        if Endian::Big.u32_at(bytes, 0) == SECTION_HEADER {
            let magic = bytes.get(8..12).unwrap_or_default();
            section.endian = pcapng::byte_order(magic).ok_or(CaptureError::Broken {
                at: at + 8,
                what: "the byte-order magic of a section",
                value: u64::from(Endian::Big.u32_at(magic, 0)),
            })?;
            section.base += section.interfaces.len() as u32;
            section.interfaces.clear();
            self.health.sections += 1;
        }
        let kind = section.endian.u32_at(bytes, 0);
        let len = section.endian.u32_at(bytes, 4) as usize;
        if !(12..=BLOCK_MAX).contains(&len) {
            return Err(CaptureError::Broken { at: at + 4, what: "a block's length", value: len as u64 });
        }
        // Lengths are multiples of four; a writer that forgot the padding in the length still padded.
        let len = len.next_multiple_of(4);
        let have = self.window.fill(len)?;
        if have < len {
            return Err(CaptureError::Cut { at, what: "a block", needed: len as u64, have: have as u64 });
        }
        Ok(Some((kind, len)))
    }
}

/// The next record of a snoop file, and the packets lost so far.
fn next_snoop_record<R: Read>(
    window: &mut Window<R>,
    snoop: Snoop,
) -> Result<Option<(Head, u64)>, CaptureError> {
    const HEADER: usize = SNOOP_RECORD_HEADER_LEN;
    let cut = |what, at, needed: usize, have: usize| {
        Err(CaptureError::Cut { at, what, needed: needed as u64, have: have as u64 })
    };
    let have = window.fill(HEADER)?;
    let at = window.position();
    match have {
        0 => return Ok(None),
        1..HEADER => return cut("a record header", at, HEADER, have),
        _ => {}
    }
    let record = SnoopRecord::parse(window.bytes());
    let is_possible =
        (HEADER..=RECORD_MAX).contains(&record.total) && record.captured <= record.total - HEADER;
    if !is_possible {
        return Err(CaptureError::Broken {
            at: at + 8,
            what: "a record's length",
            value: record.total as u64,
        });
    }
    let have = window.fill(record.total)?;
    if have < record.total {
        return cut("a record", at, record.total, have);
    }
    let SnoopRecord { time, wire, captured, total, dropped } = record;
    Ok(Some((Head { time, interface: 0, link: snoop.link, wire, at: HEADER, captured, total }, dropped)))
}

fn head_of(packet: &BlockPacket, interface: &Interface, base: u32, time: Instant, total: usize) -> Head {
    Head {
        time,
        interface: base.saturating_add(packet.interface as u32),
        link: interface.link,
        wire: packet.wire,
        at: 8 + packet.at,
        captured: packet.captured,
        total,
    }
}

#[inline]
fn next_record<R: Read>(window: &mut Window<R>, pcap: &Pcap) -> Result<Option<Head>, CaptureError> {
    let header_len = pcap.record_header_len;
    let have = window.fill(header_len)?;
    if have < header_len {
        let at = window.position();
        return match have {
            0 => Ok(None),
            _ => Err(CaptureError::Cut {
                at,
                what: "a record header",
                needed: header_len as u64,
                have: have as u64,
            }),
        };
    }
    let record = pcap.record(window.bytes());
    if record.captured > RECORD_MAX {
        let (at, value) = (window.position() + 8, record.captured as u64);
        return Err(CaptureError::Broken { at, what: "a record's length", value });
    }
    let total = header_len + record.captured;
    let have = window.fill(total)?;
    if have < total {
        let at = window.position();
        return Err(CaptureError::Cut { at, what: "a record", needed: total as u64, have: have as u64 });
    }
    Ok(Some(Head {
        time: record.time,
        interface: 0,
        link: pcap.link,
        wire: record.wire,
        at: header_len,
        captured: record.captured,
        total,
    }))
}
