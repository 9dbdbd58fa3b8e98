//! [`Order`]: what a client asks for at the beginning of a TCP connection. `docs/probe.md`.

use units::Duration;

use crate::auth::TAG_LEN;
use crate::octets::{Field, Read};
use crate::{Key, SessionId};

const MAGIC: u16 = 0xce13;
const VERSION: u8 = 1;
/// Longest name of a congestion control that the kernel takes, with a zero behind it.
const NAME_LEN: usize = 16;
/// Length of an order, bytes; the last 16 are a tag, or zero without a key.
pub const ORDER_LEN: usize = 2 + 1 + 1 + 8 + 4 + 4 + 4 + NAME_LEN + TAG_LEN;

/// Service that is wanted of a connection.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum What {
    /// The server sends.
    Down = 1,
    /// The client sends.
    Up = 2,
    /// The server tells what it knows of a run that is over, as JSON.
    Report = 3,
    /// The server sends one byte when the length is over, and nothing before.
    Idle = 4,
    /// Within HTTP: the server notes what it received, and answers with a text that is known.
    Look = 16,
    /// Within HTTP: the server sends small pieces, and notes when each is acknowledged, for a client that delays
    /// its acknowledgements by the length.
    Split = 17,
    /// Within HTTP: the server sends for the length to a client that reads nothing, and notes how much is
    /// acknowledged.
    Fill = 18,
}

impl What {
    const ALL: [Self; 7] =
        [Self::Down, Self::Up, Self::Report, Self::Idle, Self::Look, Self::Split, Self::Fill];

    /// True for what stands within an HTTP request.
    #[must_use]
    pub fn is_within_http(self) -> bool {
        matches!(self, Self::Look | Self::Split | Self::Fill)
    }
}

/// The beginning of a connection.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Order {
    /// Service that is wanted.
    pub what: What,
    /// Session that it belongs to.
    pub session: SessionId,
    /// Number of the run.
    pub run: u32,
    /// Time that it lasts, whole ms.
    pub length: Duration,
    /// Largest window that the server offers, bytes; zero for the system's.
    pub window: u32,
    /// Congestion control of the server; empty for the system's.
    pub congestion_control: String,
}

/// The server's answer, one byte.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Answer {
    /// It is done.
    Yes = 1,
    /// It is not understood.
    Malformed = 2,
    /// It is not signed with the server's key.
    WrongKey = 3,
    /// There is no such session, or it is not its turn.
    NoSession = 4,
    /// The server has no such congestion control.
    NoCongestionControl = 5,
    /// There is no room for more connections.
    Busy = 6,
    /// The run would take longer than the limit.
    TooLong = 7,
    /// The client has used up what it may transfer in an hour.
    Volume = 8,
}

impl Answer {
    /// The answer that a byte is; none where it is none.
    #[must_use]
    pub fn from_byte(byte: u8) -> Option<Self> {
        use Answer::{Busy, Malformed, NoCongestionControl, NoSession, TooLong, Volume, WrongKey, Yes};
        [Yes, Malformed, WrongKey, NoSession, NoCongestionControl, Busy, TooLong, Volume]
            .into_iter()
            .find(|answer| *answer as u8 == byte)
    }

    /// Sentence that says what it means, and what to do.
    #[must_use]
    pub fn words(self, order: &Order) -> String {
        match self {
            Self::Yes => "yes".to_owned(),
            Self::Malformed => "the server does not understand: use the same version at both ends".to_owned(),
            Self::WrongKey => "wrong key".to_owned(),
            Self::NoSession => {
                "the server does not know the session, or it is not its turn: try again".to_owned()
            }
            Self::NoCongestionControl => {
                format!(
                    "the server has no congestion control '{}': load its module there",
                    order.congestion_control
                )
            }
            Self::Busy => "the server has too many TCP connections: try again in a minute".to_owned(),
            Self::Volume => {
                "what this client may transfer in an hour is used up: wait, or start the server with a larger \
                 --volume-max"
                    .to_owned()
            }
            Self::TooLong => "the server allows only shorter runs: ask for less --time".to_owned(),
        }
    }
}

impl Order {
    /// Bytes of the order, signed where there is a key.
    #[must_use]
    pub fn encode(&self, key: Option<&Key>) -> [u8; ORDER_LEN] {
        let mut fields = Vec::with_capacity(ORDER_LEN);
        MAGIC.put(&mut fields);
        fields.extend([VERSION, self.what as u8]);
        self.session.put(&mut fields);
        self.run.put(&mut fields);
        self.length.put(&mut fields);
        self.window.put(&mut fields);
        fields.extend(self.congestion_control.bytes().take(NAME_LEN - 1));
        let mut bytes = [0; ORDER_LEN];
        bytes.iter_mut().zip(fields).for_each(|(to, from)| *to = from);
        if let Some(key) = key {
            let (body, end) = bytes.split_at_mut(ORDER_LEN - TAG_LEN);
            end.copy_from_slice(&key.tag(&[body]));
        }
        bytes
    }

    /// Reads an order from bytes, which must be signed with the key if there is one.
    ///
    /// # Errors
    /// What the server answers: they are no order, or not signed so.
    pub fn decode(bytes: &[u8; ORDER_LEN], key: Option<&Key>) -> Result<Self, Answer> {
        let (body, tag) = bytes.split_at(ORDER_LEN - TAG_LEN);
        let mut read = Read(body);
        let head = (u16::take(&mut read), u8::take(&mut read), u8::take(&mut read));
        let (Some(MAGIC), Some(VERSION), Some(what)) = head else { return Err(Answer::Malformed) };
        let what = What::ALL.into_iter().find(|one| *one as u8 == what).ok_or(Answer::Malformed)?;
        let is_right = match key {
            Some(key) => key.is_tag(&[body], tag),
            None => tag == [0; TAG_LEN],
        };
        if !is_right {
            return Err(Answer::WrongKey);
        }
        let (session, run) = (Field::take(&mut read), Field::take(&mut read));
        let (length, window) = (Field::take(&mut read), Field::take(&mut read));
        let (Some(session), Some(run), Some(length), Some(window)) = (session, run, length, window) else {
            return Err(Answer::Malformed);
        };
        let name = read.0.split(|byte| *byte == 0).next().unwrap_or(&[]);
        // With a zero behind it, as the kernel has it.
        if name.len() >= NAME_LEN {
            return Err(Answer::Malformed);
        }
        let is_name = |byte: &u8| byte.is_ascii_alphanumeric() || *byte == b'_' || *byte == b'-';
        if !name.iter().all(is_name) {
            return Err(Answer::Malformed);
        }
        let congestion_control = String::from_utf8_lossy(name).into_owned();
        Ok(Self { what, session, run, length, window, congestion_control })
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn orders_are_read_as_written_and_only_with_the_key() {
        let (key, other) = (Key::new(b"key"), Key::new(b"other"));
        let all = [What::Down, What::Up, What::Report, What::Idle, What::Look, What::Split, What::Fill];
        for what in all {
            let order = Order {
                what,
                session: 0x0123_4567_89ab_cdef,
                run: 7,
                length: Duration::from_millis(5_000),
                window: 17_664,
                congestion_control: "cubic".to_owned(),
            };
            for key in [None, key.as_ref()] {
                assert_eq!(Order::decode(&order.encode(key), key), Ok(order.clone()));
            }
            assert_eq!(Order::decode(&order.encode(None), key.as_ref()), Err(Answer::WrongKey));
            assert_eq!(Order::decode(&order.encode(key.as_ref()), None), Err(Answer::WrongKey));
            assert_eq!(Order::decode(&order.encode(other.as_ref()), key.as_ref()), Err(Answer::WrongKey));
        }
        assert_eq!(Order::decode(&[0; ORDER_LEN], None), Err(Answer::Malformed));
        let strange = Order {
            what: What::Up,
            session: 1,
            run: 1,
            length: Duration::ZERO,
            window: 0,
            congestion_control: "../x".to_owned(),
        };
        assert_eq!(Order::decode(&strange.encode(None), None), Err(Answer::Malformed));
        let mut endless = Order { congestion_control: "a".repeat(NAME_LEN - 1), ..strange }.encode(None);
        assert!(Order::decode(&endless, None).is_ok());
        endless[24 + NAME_LEN - 1] = b'a';
        assert_eq!(Order::decode(&endless, None), Err(Answer::Malformed), "no zero behind it");
    }

    proptest! {
        /// Any bytes are read without harm, and what is read says the same when it is written again.
        #[test]
        fn any_bytes_are_no_order_or_one_that_is_written_the_same(
            begin in prop_oneof![Just(None), (0u8..32).prop_map(Some)],
            rest in prop::array::uniform32(any::<u8>()),
            more in prop::array::uniform24(any::<u8>()),
            has_tag: bool,
        ) {
            let mut bytes = [0; ORDER_LEN];
            bytes.iter_mut().zip(rest.into_iter().chain(more)).for_each(|(to, from)| *to = from);
            if let Some(what) = begin {
                bytes[..4].copy_from_slice(&[0xce, 0x13, VERSION, what]);
            }
            if !has_tag {
                bytes[ORDER_LEN - TAG_LEN..].fill(0);
                bytes[24..24 + NAME_LEN].fill(0);
            }
            if let Ok(order) = Order::decode(&bytes, None) {
                prop_assert_eq!(Order::decode(&order.encode(None), None), Ok(order));
            }
        }
    }

    #[test]
    fn answers_are_told_apart() {
        assert_eq!(Answer::from_byte(4), Some(Answer::NoSession));
        assert_eq!((Answer::from_byte(0), Answer::from_byte(9)), (None, None));
    }
}
