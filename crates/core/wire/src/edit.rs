//! Edits in place that keep checksums right.

use units::SeqNum;

use crate::accurate_ecn::EcnByteCounters;
use crate::checksum::{self, ChecksumState};
use crate::ip::IPV4_HEADER_LEN;
use crate::octets::{put, u16_at, u32_at};
use crate::options::{KIND_NOP, KIND_SACK, OptionPlace, SackBlocks, TCP_HEADER_LEN, TcpOptions};
use crate::tcp::{TCP_CHECKSUM_AT, Tcp, TcpFlags};

/// Edits the TCP header of a packet.
///
/// A complete checksum is updated with every edit (RFC 1624); a partial one covers only the pseudo-header and
/// stays as it is. A wrong checksum stays wrong by the same difference. The [`Tcp`] value it was made from is
/// not updated. If that value was read from another, longer packet, edits outside this one do nothing.
#[derive(Debug)]
pub struct TcpEditor<'a> {
    header: &'a mut [u8],
    timestamps: OptionPlace,
    sack: OptionPlace,
    accurate_ecn: OptionPlace,
    /// There may be further SACK options.
    may_have_more: bool,
    state: ChecksumState,
    /// The checksum field: kept here, edits of one editor do not wait for each other's store and load.
    checksum: u16,
}

impl<'a> TcpEditor<'a> {
    /// An editor of `packet`, from which `tcp` was read.
    #[inline]
    #[must_use]
    pub fn new(packet: &'a mut [u8], tcp: &Tcp, state: ChecksumState) -> Self {
        let header = packet.get_mut(tcp.offset..tcp.payload_offset).unwrap_or_default();
        let checksum = u16_at(header, TCP_CHECKSUM_AT);
        Self {
            header,
            timestamps: tcp.options.timestamps_place,
            sack: tcp.options.sack_place,
            accurate_ecn: tcp.options.accurate_ecn_place,
            may_have_more: tcp.options.malformed,
            state,
            checksum,
        }
    }

    /// Sets the sequence number.
    #[inline]
    pub fn set_seq(&mut self, seq: SeqNum) {
        self.replace_u32(4, seq.get());
    }
    /// Sets the acknowledgement number.
    #[inline]
    pub fn set_ack(&mut self, ack: SeqNum) {
        self.replace_u32(8, ack.get());
    }
    /// Sets the flags; the data offset and the reserved bits beside them stay.
    #[inline]
    pub fn set_flags(&mut self, flags: TcpFlags) {
        let word = (u16_at(self.header, 12) & 0xfe00) | flags.bits();
        self.replace_u16(12, word);
    }
    /// Sets the window field.
    #[inline]
    pub fn set_window(&mut self, window: u16) {
        self.replace_u16(14, window);
    }
    /// Sets the urgent pointer.
    #[inline]
    pub fn set_urgent(&mut self, urgent: u16) {
        self.replace_u16(18, urgent);
    }
    /// Sets both timestamps; false, with nothing done, when there is no such option.
    #[inline]
    pub fn set_timestamps(&mut self, value: u32, echo: u32) -> bool {
        self.set_timestamp_value(value) && self.set_timestamp_echo(echo)
    }
    /// Sets `TSval`; false, with nothing done, when there is no such option.
    #[inline]
    pub fn set_timestamp_value(&mut self, value: u32) -> bool {
        let at = self.timestamps.at;
        at != 0 && self.replace_u32(usize::from(at) + 2, value)
    }
    /// Sets `TSecr`; false, with nothing done, when there is no such option.
    #[inline]
    pub fn set_timestamp_echo(&mut self, echo: u32) -> bool {
        let at = self.timestamps.at;
        at != 0 && self.replace_u32(usize::from(at) + 6, echo)
    }
    /// Overwrites the SACK option with NOPs, and further ones that nobody should send; false when there is none.
    pub fn clear_sack(&mut self) -> bool {
        let had_one = self.set_sack(&SackBlocks::new());
        // One behind it would be the first, and be read.
        while self.may_have_more {
            let list = self.header.get(TCP_HEADER_LEN..).unwrap_or_default();
            let more = TcpOptions::parse(list).sack_place.range();
            let nops = [KIND_NOP; 2 + 8 * SackBlocks::CAPACITY];
            self.may_have_more = more.is_some_and(|more| self.replace_bytes(more.start, &nops[..more.len()]));
        }
        had_one
    }
    /// Writes `blocks` into the room of the SACK option, and NOPs into what is left.
    ///
    /// False, with nothing done, when there is no such option or the blocks do not fit into it. The
    /// room stays, so another call on this editor may use it again.
    pub fn set_sack(&mut self, blocks: &SackBlocks) -> bool {
        let Some(range) = self.sack.range() else { return false };
        let room = range.len();
        let used = if blocks.is_empty() { 0 } else { 2 + 8 * blocks.len() };
        let mut option = [KIND_NOP; 2 + 8 * SackBlocks::CAPACITY];
        if used > room || room > option.len() {
            return false;
        }
        if used > 0 {
            option[..2].copy_from_slice(&[KIND_SACK, used as u8]);
            for (place, block) in option[2..used].chunks_exact_mut(8).zip(blocks) {
                place[..4].copy_from_slice(&block.start.get().to_be_bytes());
                place[4..].copy_from_slice(&block.end.get().to_be_bytes());
            }
        }
        self.replace_bytes(range.start, &option[..room])
    }

    /// Sets those counters of accurate ECN that its option has, ECT(0), CE and ECT(1); false when there is no such
    /// option. Of each the low 24 bits count.
    pub fn set_ecn_byte_counters(&mut self, counters: [u32; 3]) -> bool {
        let Some(range) = self.accurate_ecn.range() else { return false };
        let mut option = [0; 11];
        let (Some(option), Some(old)) = (option.get_mut(..range.len()), self.header.get(range.clone()))
        else {
            return false;
        };
        option.copy_from_slice(old);
        let counters = EcnByteCounters::in_order_of(counters, option.first().copied().unwrap_or_default());
        for (field, counter) in option[2..].chunks_exact_mut(3).zip(counters) {
            field.copy_from_slice(&counter.to_be_bytes()[1..]);
        }
        self.replace_bytes(range.start, option)
    }

    /// Overwrites the option of accurate ECN with NOPs; false when there is none.
    pub fn clear_ecn_byte_counters(&mut self) -> bool {
        let nops = [KIND_NOP; 11];
        let range = self.accurate_ecn.range();
        range.is_some_and(|range| {
            range.len() <= nops.len() && self.replace_bytes(range.start, &nops[..range.len()])
        })
    }

    /// Replaces an aligned 16-bit field of the fixed header.
    #[inline]
    fn replace_u16(&mut self, at: usize, new: u16) {
        let old = u16_at(self.header, at);
        if put(self.header, at, &new.to_be_bytes()) {
            self.map_checksum(|checksum| checksum::update(checksum, old, new));
        }
    }

    /// Replaces a 32-bit field, which as part of an option may lie at an odd offset.
    #[inline]
    fn replace_u32(&mut self, at: usize, new: u32) -> bool {
        let old = u32_at(self.header, at);
        if !put(self.header, at, &new.to_be_bytes()) {
            return false;
        }
        // Moving every byte by one place swaps the bytes of each word, and a rotation by eight bits moves
        // them alike modulo 2^16 − 1.
        let turn = if at % 2 == 1 { 8 } else { 0 };
        self.map_checksum(|checksum| {
            checksum::update_u32(checksum, old.rotate_left(turn), new.rotate_left(turn))
        });
        true
    }

    fn replace_bytes(&mut self, at: usize, new: &[u8]) -> bool {
        let Some(place) = self.header.get_mut(at..at + new.len()) else { return false };
        let (old_sum, new_sum) = (checksum::sum(place), checksum::sum(new));
        place.copy_from_slice(new);
        self.map_checksum(|checksum| {
            checksum::update_bytes(checksum, at, &old_sum.to_be_bytes(), &new_sum.to_be_bytes())
        });
        true
    }

    #[inline]
    fn map_checksum(&mut self, update: impl FnOnce(u16) -> u16) {
        if self.state == ChecksumState::Complete {
            self.checksum = update(self.checksum);
            put(self.header, TCP_CHECKSUM_AT, &self.checksum.to_be_bytes());
        }
    }
}

/// Sets the time to live or hop limit; the IPv4 header checksum is kept right.
///
/// False, with nothing done, when `packet` holds no whole IP header.
#[inline]
pub fn set_hop_limit(packet: &mut [u8], hop_limit: u8) -> bool {
    match packet.first().map(|b| b >> 4) {
        Some(4) => set_ipv4_byte(packet, 8, hop_limit),
        Some(6) => put(packet, 7, &[hop_limit]),
        _ => false,
    }
}

/// Takes one from the time to live or hop limit, as a router does, and returns what is left.
///
/// None, with nothing done, when it is zero already or `packet` holds no whole IP header.
#[inline]
pub fn decrement_hop_limit(packet: &mut [u8]) -> Option<u8> {
    let at = match packet.first()? >> 4 {
        4 => 8,
        6 => 7,
        _ => return None,
    };
    let left = packet.get(at)?.checked_sub(1)?;
    set_hop_limit(packet, left).then_some(left)
}

/// Sets DSCP and ECN (the TOS byte or traffic class); the IPv4 header checksum is kept right.
///
/// False, with nothing done, when `packet` holds no whole IP header.
pub fn set_traffic_class(packet: &mut [u8], traffic_class: u8) -> bool {
    match packet.first().map(|b| b >> 4) {
        Some(4) => set_ipv4_byte(packet, 1, traffic_class),
        Some(6) => {
            let word = (u16_at(packet, 0) & 0xf00f) | (u16::from(traffic_class) << 4);
            put(packet, 0, &word.to_be_bytes())
        }
        _ => false,
    }
}

/// Changes one byte of an IPv4 header and updates its checksum.
#[inline]
fn set_ipv4_byte(packet: &mut [u8], at: usize, value: u8) -> bool {
    let Some(header) = packet.first_chunk_mut::<IPV4_HEADER_LEN>() else { return false };
    let word = at & !1;
    let old = u16_at(header, word);
    header[at] = value;
    let checksum = checksum::update(u16_at(header, 10), old, u16_at(header, word));
    put(header, 10, &checksum.to_be_bytes())
}
