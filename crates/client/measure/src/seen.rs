//! [`Seen`]: what a server saw of one connection, and the answers whose text both ends know.

use serde::{Deserialize, Serialize};

/// Observations of a server about a connection, in JSON between server and client.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(crate) struct Seen {
    /// The port it came to.
    pub(crate) port: u16,
    /// From where, as the server has it.
    pub(crate) from: String,
    /// The SYN, from its IP header on, in hexadecimal digits.
    pub(crate) syn: Option<String>,
    /// The SYN/ACK as it left; none where the server may not read packets.
    pub(crate) syn_ack: Option<String>,
    /// The request, as far as it is text.
    pub(crate) request: String,
    /// From SYN/ACK to ACK, as the server's kernel measured it.
    pub(crate) handshake_ms: Option<f64>,
    /// Time for which the request had lain at the server when its program answered, in steps of the kernel's tick;
    /// none of servers that do not say it.
    pub(crate) waited_ms: Option<f64>,
    /// Segment size that the server offered.
    pub(crate) offered_mss: u32,
    /// Shift of the server's window.
    pub(crate) shift: Option<u8>,
    pub(crate) has_sack: bool,
    pub(crate) has_timestamps: bool,
    pub(crate) has_ecn: bool,
    /// A packet marked as ECN-capable has come.
    pub(crate) has_seen_ecn: bool,
    /// Result of the server's own sending; none where it only answered.
    pub(crate) watch: Option<Watch>,
}

/// Result of data that the server sent by itself.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub(crate) struct Watch {
    /// For how long it watched.
    pub(crate) seconds: f64,
    /// Bytes handed to the kernel.
    pub(crate) written: u64,
    /// Bytes acknowledged.
    pub(crate) acked: u64,
    /// The kernel's least round trip, the handshake's among them.
    pub(crate) rtt_min_ms: f64,
    /// Segments sent again.
    pub(crate) retransmitted: u32,
    /// Of each piece: when it was written, and how long after that it was acknowledged, ms.
    pub(crate) pieces: Vec<(f64, Option<f64>)>,
}

/// Length of the text of an answer.
const TEXT_LEN: usize = 4_000;

/// The answer to request `run` when it came for the `count`th time: its head.
pub(crate) fn head(run: u32, count: usize) -> String {
    let len = text(run, count).len();
    // A cache may keep it: that is what is to be found out.
    format!(
        "HTTP/1.1 200 OK\r\nContent-Type: text/plain\r\nContent-Length: {len}\r\nCache-Control: public, \
         max-age=600\r\nETag: \"{run:08x}\"\r\nX-Answer: {count}\r\nConnection: close\r\n\r\n"
    )
}

/// The same: its text, which begins with the count.
pub(crate) fn text(run: u32, count: usize) -> String {
    let mut text = format!("answer {count}\n");
    let mut state = run | 1;
    while text.len() < TEXT_LEN {
        // Any text will do that a proxy would not find twice: Knuth's multiplier, high bits.
        state = state.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
        text.push(if text.len() % 64 == 63 { '\n' } else { char::from(b'a' + (state >> 24) as u8 % 26) });
    }
    text
}

/// The head of an answer that is not to be kept and has no end: pieces follow.
pub(crate) const ENDLESS_HEAD: &str = "HTTP/1.1 200 OK\r\nContent-Type: application/octet-stream\r\n\
                                       Cache-Control: no-store\r\nConnection: close\r\n\r\n";

/// The answer that says no, with the number of an [`probe::order::Answer`].
pub(crate) fn refusal(number: u8) -> String {
    format!("HTTP/1.1 403 cellerator {number}\r\nContent-Length: 0\r\nConnection: close\r\n\r\n")
}

/// The number in a [`refusal`].
pub(crate) fn refusal_number(answer: &[u8]) -> Option<u8> {
    let line = answer.split(|byte| *byte == b'\r').next()?;
    std::str::from_utf8(line).ok()?.strip_prefix("HTTP/1.1 403 cellerator ")?.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn answers_differ_by_run_and_count_and_say_their_length() {
        assert_ne!(text(1, 1), text(1, 2));
        assert_ne!(text(1, 1)[20..], text(5, 1)[20..]);
        assert!(head(7, 2).contains(&format!("Content-Length: {}\r\n", text(7, 2).len())));
        assert_eq!(refusal_number(refusal(4).as_bytes()), Some(4));
        assert_eq!(refusal_number(head(1, 1).as_bytes()), None);
    }
}
