//! [`Ask`], [`Reply`]: what a view may ask for, of this machine or another one, and nothing else.

use std::io::{BufRead, ErrorKind, Read};
use std::net::IpAddr;

use run::{AbReport, Snapshot, SubscriberList, SubscriberView};
use serde::{Deserialize, Serialize};

use crate::TopError;

/// Version of what two machines say to each other; other ones do not understand it.
pub const PROTOCOL: u32 = 1;

/// A question.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Ask {
    /// Names of the accelerators that run.
    Names,
    /// Counters and levels of one.
    Metrics {
        /// Its name.
        name: String,
    },
    /// Part of its subscribers.
    Subscribers {
        /// Its name.
        name: String,
        /// 0, or where the answer before says.
        from: u64,
    },
    /// A subscriber, and part of its flows.
    Subscriber {
        /// The accelerator's name.
        name: String,
        /// The subscriber's address.
        client: IpAddr,
        /// 0, or where the answer before says.
        from: u64,
    },
    /// The comparison of its A/B phase.
    Ab {
        /// Its name.
        name: String,
    },
}

/// An answer.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Reply {
    /// To [`Ask::Names`], each once.
    Names(Vec<String>),
    /// To [`Ask::Metrics`].
    Metrics(Box<Snapshot>),
    /// To [`Ask::Subscribers`].
    Subscribers(SubscriberList),
    /// To [`Ask::Subscriber`].
    Subscriber(Box<SubscriberView>),
    /// To [`Ask::Ab`].
    Ab(Box<AbReport>),
    /// It cannot be answered: why, in one line.
    Refused(String),
}

/// Whoever answers.
pub trait Source {
    /// Answers.
    ///
    /// # Errors
    /// Nobody can be asked. What an accelerator does not answer is [`Reply::Refused`].
    fn ask(&mut self, question: &Ask) -> Result<Reply, TopError>;
}

/// First message of a view.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Hello {
    /// The protocol that it speaks.
    pub protocol: u32,
    /// The program's version.
    pub version: String,
    /// Proof that it may ask.
    pub token: String,
}

/// Reply to the first message.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Greeting {
    /// It may ask.
    Welcome,
    /// The token is another one.
    WrongToken,
    /// It speaks otherwise.
    OtherProtocol {
        /// Version of the protocol that the server speaks.
        protocol: u32,
        /// The program's version.
        version: String,
    },
}

/// Longest line of a view, bytes.
const LINE_LEN_MAX: u64 = 4_096;

/// A whole line of a view.
///
/// # Errors
/// It does not end within 4,096 bytes, or cannot be read.
pub fn read_line(stream: &mut impl BufRead) -> std::io::Result<Vec<u8>> {
    let mut line = Vec::new();
    stream.take(LINE_LEN_MAX).read_until(b'\n', &mut line)?;
    if line.ends_with(b"\n") { Ok(line) } else { Err(ErrorKind::UnexpectedEof.into()) }
}
