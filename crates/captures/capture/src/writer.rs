//! [`PcapngWriter`]: captures written again, with comments.

use std::io::{self, Write};

use crate::link::LinkType;
use crate::pcapng::{SECTION_HEADER, block};
use crate::reader::Record;

/// `opt_comment`.
const COMMENT: u16 = 1;

/// Writes one section of pcapng with times in nanoseconds.
#[derive(Debug)]
pub struct PcapngWriter<W> {
    out: W,
    interfaces: Vec<LinkType>,
    block: Vec<u8>,
}

impl<W: Write> PcapngWriter<W> {
    /// Writes the section header.
    ///
    /// # Errors
    /// Writing failed.
    pub fn new(out: W) -> io::Result<Self> {
        let mut writer = Self { out, interfaces: Vec::new(), block: Vec::new() };
        let mut body = Vec::new();
        body.extend(0x1a2b_3c4d_u32.to_le_bytes());
        body.extend([1, 0, 0, 0]);
        body.extend(u64::MAX.to_le_bytes());
        writer.write(SECTION_HEADER, &body)?;
        Ok(writer)
    }

    fn write(&mut self, kind: u32, body: &[u8]) -> io::Result<()> {
        let len = (12 + body.len() as u32).to_le_bytes();
        self.out.write_all(&kind.to_le_bytes())?;
        self.out.write_all(&len)?;
        self.out.write_all(body)?;
        self.out.write_all(&len)
    }

    /// Writes a packet, with `comment` if it is not empty.
    ///
    /// # Errors
    /// Writing failed.
    pub fn packet(&mut self, record: &Record<'_>, comment: &str) -> io::Result<()> {
        let interface = self.interface(record.link)?;
        let mut body = std::mem::take(&mut self.block);
        body.clear();
        let time = record.time.as_nanos();
        for word in [interface, (time >> 32) as u32, time as u32, record.bytes.len() as u32, record.wire_len]
        {
            body.extend(word.to_le_bytes());
        }
        body.extend(record.bytes);
        pad(&mut body);
        if !comment.is_empty() {
            option(&mut body, COMMENT, comment.as_bytes());
            body.extend([0; 4]);
        }
        let written = self.write(block::ENHANCED_PACKET, &body);
        self.block = body;
        written
    }

    /// The number of the interface with this link type; describes it when it is new.
    fn interface(&mut self, link: LinkType) -> io::Result<u32> {
        if let Some(index) = self.interfaces.iter().position(|known| *known == link) {
            return Ok(index as u32);
        }
        let mut body = Vec::new();
        body.extend(link.0.to_le_bytes());
        body.extend([0; 6]);
        // if_tsresol: 10^-9 s.
        option(&mut body, 9, &[9]);
        body.extend([0; 4]);
        self.write(block::INTERFACE, &body)?;
        self.interfaces.push(link);
        Ok(self.interfaces.len() as u32 - 1)
    }

    /// Writes what the capturing machine counted on the first interface: frames seen, and those dropped.
    ///
    /// # Errors
    /// Writing failed.
    pub fn statistics(
        &mut self,
        link: LinkType,
        wall_ns: u64,
        received: u64,
        dropped: u64,
    ) -> io::Result<()> {
        let interface = self.interface(link)?;
        let mut body = Vec::new();
        for word in [interface, (wall_ns >> 32) as u32, wall_ns as u32] {
            body.extend(word.to_le_bytes());
        }
        // isb_ifrecv, isb_ifdrop.
        option(&mut body, 4, &received.to_le_bytes());
        option(&mut body, 5, &dropped.to_le_bytes());
        body.extend([0; 4]);
        self.write(block::INTERFACE_STATISTICS, &body)
    }

    /// Ends the file.
    ///
    /// # Errors
    /// Writing failed.
    pub fn finish(mut self) -> io::Result<()> {
        self.out.flush()
    }
}

fn option(body: &mut Vec<u8>, code: u16, value: &[u8]) {
    body.extend(code.to_le_bytes());
    body.extend((value.len() as u16).to_le_bytes());
    body.extend(value);
    pad(body);
}

fn pad(body: &mut Vec<u8>) {
    body.resize(body.len().next_multiple_of(4), 0);
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::reader::Reader;
    use units::Instant;

    #[test]
    fn what_is_written_is_read_again() {
        let mut file = Vec::new();
        let mut writer = PcapngWriter::new(&mut file).unwrap();
        let packets = [
            (LinkType::ETHERNET, 1_700_000_000_123_456_789, &b"abcde"[..], 60, "a comment"),
            (LinkType::RAW, 1_700_000_001_000_000_000, &b"xyz1"[..], 4, ""),
            (LinkType::ETHERNET, 1_700_000_000_000_000_001, &b""[..], 9, "é"),
        ];
        for (link, ns, bytes, wire_len, comment) in packets {
            let record = Record { time: Instant::from_nanos(ns), interface: 7, link, wire_len, bytes };
            writer.packet(&record, comment).unwrap();
        }
        writer.statistics(LinkType::ETHERNET, 1_700_000_002_000_000_000, 10, 3).unwrap();
        writer.finish().unwrap();
        let mut reader = Reader::new(&file[..]).unwrap();
        for (link, ns, bytes, wire_len, _) in packets {
            assert!(reader.advance().unwrap());
            let record = reader.current().unwrap();
            assert_eq!(
                (record.link, record.time.as_nanos(), record.bytes, record.wire_len),
                (link, ns, bytes, wire_len)
            );
        }
        assert!(!reader.advance().unwrap());
        assert_eq!(reader.health().dropped, Some(3));
        assert!(file.windows(9).any(|window| window == b"a comment"));
    }
}
