//! [`Exporter`]: records of ended flows as IPFIX messages (RFC 7011), both directions in one record (RFC 5103).
//!
//! ```text
//!   0                   1                   2                   3
//!   | version 10        | length            | export time, s                        |
//!   | sequence number: records before this message | observation domain             |
//!   | set id | length | templates or records …
//! ```
//!
//! The client is the source of a record: it has opened the connection. What the server sent is counted in the
//! elements of the reverse direction. IANA has no elements for what acceleration adds. Whoever has an enterprise
//! number (RFC 7011 §3.2) can have them as [`OWN`] elements of that.

use std::net::IpAddr;

use run::{EventDirection, FlowRecord};

/// RFC 7011 §3.1.
const VERSION: u16 = 10;

/// The set of templates, RFC 7011 §3.3.2.
const TEMPLATES: u16 = 2;

/// Our templates; numbers from 256 on are free.
const TEMPLATE_V4: u16 = 256;
const TEMPLATE_V6: u16 = 257;

/// The elements of the reverse direction, RFC 5103 §6.1.
const REVERSE: u32 = 29_305;

const HEADER_LEN: usize = 16;
const SET_HEADER_LEN: usize = 4;

/// Longest message: what fits into a packet on nearly every path, RFC 7011 §10.3.3.
pub const MESSAGE_LEN_MAX: usize = 1_400;

const PROTOCOL_TCP: u8 = 6;

/// An element: its number, its length, and whether it is of the reverse direction. IANA's registry "IPFIX
/// Information Elements" has the numbers.
type Element = (u16, u16, bool);

/// Elements at the beginning of both templates, before addresses.
const BEGIN: [Element; 2] = [
    // flowStartMilliseconds, flowEndMilliseconds
    (152, 8, false),
    (153, 8, false),
];

/// And behind them.
const REST: [Element; 8] = [
    // sourceTransportPort, destinationTransportPort, protocolIdentifier, flowEndReason
    (7, 2, false),
    (11, 2, false),
    (4, 1, false),
    (136, 1, false),
    // octetDeltaCount, packetDeltaCount
    (1, 8, false),
    (2, 8, false),
    (1, 8, true),
    (2, 8, true),
];

/// Additions by acceleration, as elements of an enterprise: their numbers and lengths. Payload sent again in
/// bytes, time-outs, least and last smoothed round trip to the receiving host in µs ([`UNKNOWN`] where there
/// is none), and the direction that was accelerated: 0 to the client, 1 from it.
pub const OWN: [(u16, u16); 5] = [(1, 8), (2, 8), (3, 8), (4, 8), (5, 1)];

/// A round trip that was not measured.
pub const UNKNOWN: u64 = u64::MAX;

/// Their length in a record.
const OWN_LEN: usize = 8 + 8 + 8 + 8 + 1;

/// sourceIPv4Address, destinationIPv4Address; sourceIPv6Address, destinationIPv6Address.
const ADDRESSES_V4: [Element; 2] = [(8, 4, false), (12, 4, false)];
const ADDRESSES_V6: [Element; 2] = [(27, 16, false), (28, 16, false)];

/// The longer one of the two records.
const RECORD_LEN_V6: usize = 16 + 32 + 6 + 32;

/// flowEndReason.
const IDLE_TIMEOUT: u8 = 1;
const END_OF_FLOW: u8 = 3;
const FORCED_END: u8 = 4;
const LACK_OF_RESOURCES: u8 = 5;

/// Makes messages of records.
#[derive(Clone, Debug)]
pub struct Exporter {
    domain: u32,
    /// Number of the enterprise whose elements tell what acceleration adds.
    enterprise: Option<u32>,
    /// Records in the messages made so far.
    sequence: u32,
    /// Records that wait for their message: IPv4, IPv6.
    waiting: [Vec<u8>; 2],
    count: u32,
}

impl Exporter {
    /// One of an observation domain, with [`OWN`] elements of `enterprise` if that is given.
    #[must_use]
    pub fn new(domain: u32, enterprise: Option<u32>) -> Self {
        Self { domain, enterprise, sequence: 0, waiting: [Vec::new(), Vec::new()], count: 0 }
    }

    /// Takes in a record; false for one whose packets are in another record too, that of the downlink.
    pub fn add(&mut self, record: &FlowRecord) -> bool {
        if record.is_both && record.flow.direction == EventDirection::Uplink {
            return false;
        }
        let out = &mut self.waiting[usize::from(record.flow.client.is_ipv6())];
        out.extend(record.began_ms.unwrap_or(record.ended_ms).to_be_bytes());
        out.extend(record.ended_ms.to_be_bytes());
        for host in [record.flow.client, record.flow.server] {
            match host.ip() {
                IpAddr::V4(ip) => out.extend(ip.octets()),
                IpAddr::V6(ip) => out.extend(ip.octets()),
            }
        }
        out.extend(record.flow.client.port().to_be_bytes());
        out.extend(record.flow.server.port().to_be_bytes());
        out.push(PROTOCOL_TCP);
        out.push(end_reason(record.reason.as_deref()));
        for count in [record.client_bytes, record.client_packets, record.server_bytes, record.server_packets]
        {
            out.extend(count.to_be_bytes());
        }
        if self.enterprise.is_some() {
            let round_trips = [record.rtt_min_us, record.srtt_us].map(|rtt| rtt.unwrap_or(UNKNOWN));
            for number in [record.retransmitted_bytes, record.timeouts].into_iter().chain(round_trips) {
                out.extend(number.to_be_bytes());
            }
            out.push(u8::from(record.flow.direction == EventDirection::Uplink));
        }
        self.count += 1;
        true
    }

    /// Records that wait for a message.
    #[must_use]
    pub fn waiting(&self) -> u32 {
        self.count
    }

    /// True when another record might not fit into the next message, templates included.
    #[must_use]
    pub fn is_full(&self) -> bool {
        let waiting: usize = self.waiting.iter().map(Vec::len).sum();
        let templates = template_set(self.enterprise).len();
        let record = RECORD_LEN_V6 + self.enterprise.map_or(0, |_| OWN_LEN);
        HEADER_LEN + templates + 2 * SET_HEADER_LEN + waiting + record > MESSAGE_LEN_MAX
    }

    /// The message of all records that wait, made at `now_s` seconds since 1970; with the templates in front if it
    /// is to have them.
    pub fn message(&mut self, now_s: u32, has_templates: bool) -> Vec<u8> {
        let mut body = if has_templates { template_set(self.enterprise) } else { Vec::new() };
        for (template, records) in [TEMPLATE_V4, TEMPLATE_V6].into_iter().zip(&mut self.waiting) {
            if !records.is_empty() {
                body.extend(set(template, &std::mem::take(records)));
            }
        }
        let mut message = Vec::with_capacity(HEADER_LEN + body.len());
        message.extend(VERSION.to_be_bytes());
        message.extend(u16::try_from(HEADER_LEN + body.len()).unwrap_or(u16::MAX).to_be_bytes());
        message.extend(now_s.to_be_bytes());
        message.extend(self.sequence.to_be_bytes());
        message.extend(self.domain.to_be_bytes());
        message.extend(body);
        self.sequence = self.sequence.wrapping_add(std::mem::take(&mut self.count));
        message
    }
}

/// RFC 7011 §3.3.2. The lengths of our records are no multiple of four; padding is optional, and left out.
fn set(id: u16, content: &[u8]) -> Vec<u8> {
    let len = u16::try_from(SET_HEADER_LEN + content.len()).unwrap_or(u16::MAX);
    [&id.to_be_bytes()[..], &len.to_be_bytes(), content].concat()
}

fn template_set(enterprise: Option<u32>) -> Vec<u8> {
    let mut content = Vec::new();
    for (id, addresses) in [(TEMPLATE_V4, ADDRESSES_V4), (TEMPLATE_V6, ADDRESSES_V6)] {
        let elements: Vec<Element> = BEGIN.into_iter().chain(addresses).chain(REST).collect();
        content.extend(id.to_be_bytes());
        let own = enterprise.into_iter().flat_map(|whose| OWN.map(|(number, len)| (number, len, whose)));
        let own: Vec<_> = own.collect();
        content.extend(u16::try_from(elements.len() + own.len()).unwrap_or(0).to_be_bytes());
        for (number, len, is_reverse) in elements {
            // The highest bit says that the number is somebody's own, RFC 7011 §3.2.
            content.extend((number | if is_reverse { 0x8000 } else { 0 }).to_be_bytes());
            content.extend(len.to_be_bytes());
            if is_reverse {
                content.extend(REVERSE.to_be_bytes());
            }
        }
        for (number, len, whose) in own {
            content.extend((number | 0x8000).to_be_bytes());
            content.extend(len.to_be_bytes());
            content.extend(whose.to_be_bytes());
        }
    }
    set(TEMPLATES, &content)
}

fn end_reason(reason: Option<&str>) -> u8 {
    match reason {
        Some("idle" | "handshake-timeout") => IDLE_TIMEOUT,
        Some("draining" | "desynchronised" | "policy" | "disabled") => FORCED_END,
        Some("table-full" | "memory-full") => LACK_OF_RESOURCES,
        _ => END_OF_FLOW,
    }
}

#[cfg(test)]
mod tests {
    use run::FlowOf;

    use super::*;

    const RECORD_LEN_V4: usize = 16 + 8 + 6 + 32;

    fn record(client: &str, server: &str) -> FlowRecord {
        let (client, server) = (client.parse().unwrap(), server.parse().unwrap());
        FlowRecord {
            flow: FlowOf { client, server, direction: EventDirection::Downlink },
            is_both: false,
            reason: Some("closed".to_owned()),
            began_ms: Some(0x0102_0304_0506),
            ended_ms: 0x0102_0304_0a0b,
            client_packets: 7,
            client_bytes: 420,
            server_packets: 9,
            server_bytes: 0x0001_0203_0405,
            taken_bytes: 0,
            delivered_bytes: 0,
            retransmitted_bytes: 0,
            timeouts: 0,
            rtt_min_us: None,
            srtt_us: None,
        }
    }

    #[test]
    fn a_record_of_ipv4_is_these_bytes() {
        let mut exporter = Exporter::new(0x0a0b_0c0d, None);
        assert!(exporter.add(&record("10.1.0.2:40000", "192.0.2.1:443")));
        let message = exporter.message(0x6000_0001, false);
        let wanted: &[&[u8]] = &[
            // Version, length, time, sequence, domain.
            &[0, 10, 0, 82, 0x60, 0, 0, 1, 0, 0, 0, 0, 0x0a, 0x0b, 0x0c, 0x0d],
            // The set: template 256, 66 bytes.
            &[1, 0, 0, 66],
            &[0, 0, 1, 2, 3, 4, 5, 6],
            &[0, 0, 1, 2, 3, 4, 0x0a, 0x0b],
            &[10, 1, 0, 2, 192, 0, 2, 1],
            &[0x9c, 0x40, 0x01, 0xbb, 6, 3],
            &[0, 0, 0, 0, 0, 0, 0x01, 0xa4],
            &[0, 0, 0, 0, 0, 0, 0, 7],
            &[0, 0, 0, 1, 2, 3, 4, 5],
            &[0, 0, 0, 0, 0, 0, 0, 9],
        ];
        assert_eq!(message, wanted.concat());
        assert_eq!(message.len() - HEADER_LEN - SET_HEADER_LEN, RECORD_LEN_V4);
        let next = exporter.message(0x6000_0002, false);
        assert_eq!(
            next,
            [&[0, 10, 0, 16, 0x60, 0, 0, 2, 0, 0, 0, 1][..], &[0x0a, 0x0b, 0x0c, 0x0d]].concat()
        );
    }

    #[test]
    fn templates_are_these_bytes() {
        let message = Exporter::new(1, None).message(0, true);
        let begin: &[&[u8]] = &[
            // Set 2, 124 bytes; template 256 with 12 elements.
            &[0, 2, 0, 124, 1, 0, 0, 12],
            &[0, 152, 0, 8, 0, 153, 0, 8, 0, 8, 0, 4, 0, 12, 0, 4],
            &[0, 7, 0, 2, 0, 11, 0, 2, 0, 4, 0, 1, 0, 136, 0, 1],
            &[0, 1, 0, 8, 0, 2, 0, 8],
            &[0x80, 1, 0, 8, 0, 0, 0x72, 0x79, 0x80, 2, 0, 8, 0, 0, 0x72, 0x79],
            &[1, 1, 0, 12, 0, 152, 0, 8, 0, 153, 0, 8, 0, 27, 0, 16, 0, 28, 0, 16],
        ];
        let begin = begin.concat();
        assert_eq!(message[HEADER_LEN..HEADER_LEN + begin.len()], begin);
        let of = |addresses: [Element; 2]| -> usize {
            BEGIN.into_iter().chain(addresses).chain(REST).map(|(_, len, _)| usize::from(len)).sum()
        };
        assert_eq!((of(ADDRESSES_V4), of(ADDRESSES_V6)), (RECORD_LEN_V4, RECORD_LEN_V6));
        assert_eq!(message.len(), usize::from(u16::from_be_bytes([message[2], message[3]])));
    }

    #[test]
    fn what_acceleration_adds_stands_in_elements_of_an_enterprise() {
        let mut exporter = Exporter::new(1, Some(0x0001_0203));
        let mut one = record("10.1.0.2:40000", "192.0.2.1:443");
        (one.retransmitted_bytes, one.timeouts, one.rtt_min_us) = (0x0506, 3, Some(40_000));
        assert!(exporter.add(&one));
        let message = exporter.message(0, true);
        let own: &[&[u8]] = &[
            &[0x80, 1, 0, 8, 0, 1, 2, 3, 0x80, 2, 0, 8, 0, 1, 2, 3, 0x80, 3, 0, 8, 0, 1, 2, 3],
            &[0x80, 4, 0, 8, 0, 1, 2, 3, 0x80, 5, 0, 1, 0, 1, 2, 3],
        ];
        let own = own.concat();
        // Set 2 has two templates, of 17 elements each.
        assert_eq!(message[HEADER_LEN..][..8], [0, 2, 0, 204, 1, 0, 0, 17]);
        assert_eq!(message.windows(own.len()).filter(|part| *part == own).count(), 2);
        let added: &[&[u8]] = &[
            &[0, 0, 0, 0, 0, 0, 5, 6, 0, 0, 0, 0, 0, 0, 0, 3, 0, 0, 0, 0, 0, 0, 0x9c, 0x40],
            &[0xff; 8],
            &[0],
        ];
        assert!(message.ends_with(&added.concat()), "{message:?}");
        assert_eq!(message.len(), HEADER_LEN + 204 + SET_HEADER_LEN + RECORD_LEN_V4 + OWN_LEN);
    }

    #[test]
    fn a_message_is_full_before_it_is_too_long() {
        for enterprise in [None, Some(7)] {
            let mut exporter = Exporter::new(1, enterprise);
            let mut added = 0;
            while !exporter.is_full() {
                let is_v6 = added % 2 == 0;
                let record = if is_v6 {
                    record("[2001:db8::7]:1", "[2001:db8::8]:2")
                } else {
                    record("10.0.0.1:1", "10.0.0.2:2")
                };
                assert!(exporter.add(&record));
                added += 1;
            }
            assert_eq!(exporter.waiting(), added);
            let message = exporter.message(7, true);
            assert!(
                (MESSAGE_LEN_MAX - 2 * (RECORD_LEN_V6 + OWN_LEN)..=MESSAGE_LEN_MAX).contains(&message.len()),
                "{}",
                message.len()
            );
            assert_eq!((exporter.waiting(), exporter.sequence), (0, added));
        }
    }

    #[test]
    fn a_flow_accelerated_both_ways_is_one_record_and_says_how_it_ended() {
        let mut exporter = Exporter::new(1, None);
        let mut both = record("10.1.0.2:40000", "192.0.2.1:443");
        both.is_both = true;
        assert!(exporter.add(&both));
        both.flow.direction = EventDirection::Uplink;
        assert!(!exporter.add(&both));
        let reasons = [Some("idle"), Some("draining"), Some("memory-full"), Some("reset"), None];
        assert_eq!(reasons.map(end_reason), [1, 4, 5, 3, 3]);
    }
}
