//! Messages of boxes to each other. `docs/handover.md` has the formats.

use std::net::IpAddr;

use engine::{FlowEnds, HandoverFlow, HeldPiece};
use stored::{Reader, StoredError};
use units::SeqNum;

/// The version of the messages. A box refuses what has another one, or records of another
/// [`engine::RECORD_VERSION`].
pub const VERSION: u16 = 4;

/// Longest message, bytes.
pub const MESSAGE_LEN_MAX: usize = 4 << 20;

/// Name of the hand-over that a message is about.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug, stored::Stored)]
pub struct Name {
    /// An address of the subscriber.
    pub subscriber: IpAddr,
    /// Counts the boxes that had it: the one that takes it now has this number.
    pub epoch: u64,
    /// Number that the box that takes it has drawn for this transfer; 0 before it has.
    pub nonce: u64,
}

/// Reason why a box does not take a subscriber.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug, thiserror::Error, stored::Stored)]
pub enum Refusal {
    /// Messages or records of another version.
    #[error("it speaks another version")]
    Version,
    /// It had the subscriber later than that.
    #[error("it knows of a later hand-over")]
    Epoch,
    /// Another hand-over of the subscriber is under way.
    #[error("another hand-over of this subscriber is under way")]
    Busy,
    /// No memory for the data that the flows hold, or too many at once.
    #[error("it has no memory for it")]
    Memory,
    /// A flow cannot go on there.
    #[error("a flow cannot go on there")]
    Flows,
    /// It ends.
    #[error("it takes nothing new")]
    Ending,
    /// It knows nothing of this transfer: it is over, or the box has started anew since.
    #[error("it knows nothing of this transfer")]
    Unknown,
    /// It has not taken it, and never will: a process before it had promised to.
    #[error("it has started anew, and has not taken it")]
    Never,
    /// Its devices let shorter packets through than the flows send.
    #[error("its devices take shorter packets than the flows send (MTU)")]
    Mtu,
    /// Packets have other headers in front there.
    #[error("packets are encapsulated otherwise there")]
    Encapsulation,
    /// The settings do not let the box that asks give this subscriber, or the one that is asked take it.
    #[error("its settings do not take this subscriber from here")]
    Forbidden,
    /// The box that is asked has one of these flows itself.
    #[error("it has one of these flows itself")]
    Owned,
    /// The flows are not those of one subscriber, as the box that is asked counts subscribers.
    #[error("these are not the flows of one subscriber there (--ipv6-prefix)")]
    Subscriber,
}

impl Refusal {
    /// All of them, in the order of their numbers.
    pub const ALL: [Self; 13] = [
        Self::Version,
        Self::Epoch,
        Self::Busy,
        Self::Memory,
        Self::Flows,
        Self::Ending,
        Self::Unknown,
        Self::Never,
        Self::Mtu,
        Self::Encapsulation,
        Self::Forbidden,
        Self::Owned,
        Self::Subscriber,
    ];

    /// The name used in counters.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Version => "version",
            Self::Epoch => "epoch",
            Self::Busy => "busy",
            Self::Memory => "memory",
            Self::Flows => "flows",
            Self::Ending => "ending",
            Self::Unknown => "unknown",
            Self::Never => "never",
            Self::Mtu => "mtu",
            Self::Encapsulation => "encapsulation",
            Self::Forbidden => "forbidden",
            Self::Owned => "owned",
            Self::Subscriber => "subscriber",
        }
    }
}

/// Message of one box to another.
#[derive(Clone, PartialEq, Eq, Debug, stored::Stored)]
pub enum Message {
    /// Will you take it? From who has it. Said again with flows that are new.
    Prepare {
        /// Name of the hand-over.
        name: Name,
        /// [`VERSION`] and [`engine::RECORD_VERSION`].
        versions: (u16, u32),
        /// Bytes that its flows hold.
        held: u64,
        /// Flows of it, as they are now.
        flows: Vec<FlowEnds>,
        /// Terms of the flows.
        terms: Terms,
    },
    /// Yes. The name has a nonce from here on.
    Ready {
        /// Name of the hand-over.
        name: Name,
        /// Flows of it that the box was told of.
        flows: u32,
    },
    /// No, and never by this name.
    Refused(Name, Refusal),
    /// Data that a flow holds.
    Copy(Name, HeldPiece),
    /// Data of a flow is here up to a number.
    Copied {
        /// Name of the hand-over.
        name: Name,
        /// Flow that the data belongs to.
        flow: FlowEnds,
        /// The number behind it.
        through: SeqNum,
    },
    /// It is yours, as its flows stand here; nobody has it until you take it.
    Commit(Name, Vec<HandoverFlow>),
    /// It is mine.
    Committed(Name),
    /// I know.
    Confirm(Name),
    /// Never mind: I keep it. Not after [`Message::Commit`].
    Abort(Name),
    /// I cannot take it yet: data of these flows is lacking.
    Lacking(Name, Vec<Lack>),
    /// I end: packets of these subscribers that come to me go past us both from then on.
    Leaving(Vec<IpAddr>),
    /// No flow here relies on you any more, of these subscribers.
    Left(Vec<IpAddr>),
}

/// Terms that a box needs to take a subscriber.
#[derive(Clone, PartialEq, Eq, Default, Debug, stored::Stored)]
pub struct Terms {
    /// The longest packet that the flows send, bytes with the IP header.
    pub packet: u32,
    /// Encapsulation of packets where they come from, as its settings call it.
    pub encapsulation: String,
}

/// A flow whose data is not all there.
#[derive(Clone, Copy, PartialEq, Eq, Debug, stored::Stored)]
pub struct Lack {
    /// Flow that lacks data.
    pub flow: FlowEnds,
    /// Its data is there up to this number; none where nothing is.
    pub through: Option<SeqNum>,
}

impl Message {
    /// Bytes of the message.
    #[must_use]
    pub fn encode(&self) -> Vec<u8> {
        stored::to_bytes(self)
    }

    /// Reads a message from bytes.
    ///
    /// # Errors
    /// They are no message.
    pub fn decode(bytes: &[u8]) -> Result<Self, StoredError> {
        let mut from = Reader::new(VERSION, bytes);
        if let Some((0, rest)) = bytes.split_first() {
            // Of any version, so that it can be refused: these come first in all of them.
            let mut from = Reader::new(VERSION, rest);
            let (name, versions): (Name, (u16, u32)) = (from.value()?, from.value()?);
            if versions.0 != VERSION {
                return Ok(Self::Prepare {
                    name,
                    versions,
                    held: 0,
                    flows: Vec::new(),
                    terms: Terms::default(),
                });
            }
        }
        let message = from.value()?;
        from.finish()?;
        Ok(message)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn refusals_have_names_of_their_own() {
        let names: std::collections::BTreeSet<_> = Refusal::ALL.iter().map(|why| why.name()).collect();
        assert_eq!(names.len(), Refusal::ALL.len());
    }

    #[test]
    fn what_is_no_message_is_an_error() {
        let name = Name { subscriber: "10.0.0.1".parse().unwrap(), epoch: 7, nonce: 9 };
        let bytes = Message::Refused(name, Refusal::Memory).encode();
        assert_eq!(Message::decode(&bytes), Ok(Message::Refused(name, Refusal::Memory)));
        for len in 0..bytes.len() {
            assert!(Message::decode(&bytes[..len]).is_err(), "{len} bytes");
        }
        let mut longer = bytes.clone();
        longer.push(0);
        assert!(Message::decode(&longer).is_err());
        assert!(Message::decode(&[9]).is_err());
    }

    #[test]
    fn a_question_of_another_version_is_understood_as_one() {
        let name = Name { subscriber: "10.0.0.1".parse().unwrap(), epoch: 7, nonce: 0 };
        let versions = (VERSION + 1, 1);
        let terms = Terms { packet: 1_500, encapsulation: "none".to_owned() };
        let later = Message::Prepare { name, versions, held: 5, flows: Vec::new(), terms };
        let bytes = [later.encode(), vec![1, 2, 3]].concat();
        let Ok(Message::Prepare { versions: theirs, .. }) = Message::decode(&bytes) else { panic!("none") };
        assert_eq!(theirs, versions);
    }
}
