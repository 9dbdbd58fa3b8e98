//! Address from which a server sees this host, and how far it is: one datagram each way, without a session.

use std::net::SocketAddr;

use units::Instant;

use crate::auth::Key;
use crate::message::Message;

/// An answer to a question of this kind.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Located {
    /// The question's number.
    pub number: u64,
    /// Time at which it was sent, by the asking end's clock.
    pub sent: Instant,
    /// Address from which the server saw it come.
    pub address: SocketAddr,
}

/// Writes a question to `out`, which is emptied first.
pub fn ask_location(number: u64, sent: Instant, key: Option<&Key>, out: &mut Vec<u8>) {
    Message::Locate { number, sent }.encode(key, out);
}

/// Reads an answer; none when it is something else.
#[must_use]
pub fn read_location(bytes: &[u8], key: Option<&Key>) -> Option<Located> {
    match Message::decode(bytes, key) {
        Ok(Message::Located { number, sent, address }) => Some(Located { number, sent, address }),
        _ => None,
    }
}

/// Answers a question that came from `from`, written to `out`; false when it is something else.
///
/// The whole of a server that does nothing but this.
pub fn answer_location(bytes: &[u8], from: SocketAddr, key: Option<&Key>, out: &mut Vec<u8>) -> bool {
    let Ok(Message::Locate { number, sent }) = Message::decode(bytes, key) else { return false };
    Message::Located { number, sent, address: from }.encode(key, out);
    true
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_question_is_answered_with_where_it_came_from() {
        let (mut asked, mut told) = (Vec::new(), Vec::new());
        let (sent, from) = (Instant::from_millis(5), SocketAddr::from(([192, 0, 2, 7], 99)));
        ask_location(3, sent, None, &mut asked);
        assert!(answer_location(&asked, from, None, &mut told));
        assert_eq!(read_location(&told, None), Some(Located { number: 3, sent, address: from }));
        assert!(!answer_location(&told, from, None, &mut asked) && read_location(b"x", None).is_none());
    }
}
