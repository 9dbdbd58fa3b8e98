//! [`Note`]: what a box writes down of a hand-over, so that a process in its place knows it.
//!
//! ```text
//!   A:  Frozen ── before a flow leaves the engine ─▶ Gone (B has it) or Over (A keeps it, or nobody has it)
//!   B:  Holding ── before it is promised ─▶ Taking ── before a flow enters the engine ─▶ Taken ── A knows, or it is given up ─▶ Over
//! ```
//!
//! A box has one note of a subscriber: the newest. [`ownership_of`] says what a process that comes after it makes of the
//! flows in its journal.

use engine::FlowEnds;
use stored::{Reader, Stored, StoredError, Writer};
use units::Instant;

use crate::{ForwardingTable, Gone, Loaded, Name, Peer, Refusal};

/// The version of notes. A newer one is not read.
const NOTE_VERSION: u16 = 2;

/// The number of [`Note::Frozen`].
const FROZEN: u8 = 0;

/// State of a hand-over of a subscriber. Times are by the machine's clock.
#[derive(Clone, PartialEq, Eq, Debug, stored::Stored)]
pub enum Note {
    /// Nobody has its flows here any more; the other box may have them.
    Frozen {
        /// Name of the hand-over.
        name: Name,
        /// Box that was told to take it.
        to: Peer,
        /// Time at which the other box can have it no more.
        broken_at: Instant,
        /// Its flows, as they stood.
        flows: Vec<Loaded>,
    },
    /// It was promised to take it: its packets go to the other box.
    Holding(Claim),
    /// Its flows are being taken in: until all are, none is this box's.
    Taking(Claim),
    /// This box has it, and the other one may not know.
    Taken(Claim),
    /// It is decided.
    Over {
        /// Name of the hand-over.
        name: Name,
        /// Reason why this box has not taken it, or has given it up; none if it has it, or had.
        refused: Option<Refusal>,
        /// Place of its flows, if they went from here: packets that come here go there.
        gone: Option<Gone>,
        /// Nobody asks any more from then on.
        until: Instant,
        /// Flows that came to this box or stay here, and of which another box may send packets on.
        #[stored(since(2, None))]
        shared: Option<Gone>,
    },
}

/// A subscriber that this box takes from another one.
#[derive(Clone, PartialEq, Eq, Debug, stored::Stored)]
pub struct Claim {
    /// Name of the hand-over.
    pub name: Name,
    /// Box that had it.
    pub from: Peer,
    /// Unless it is heard by then that the other box knows, it is given up.
    pub until: Instant,
    /// Its flows.
    pub flows: Vec<FlowEnds>,
    /// Data that they bring along, or may, bytes.
    pub bytes: u64,
    /// Place that it had gone to from this box, if it comes back.
    pub gone: Option<Gone>,
}

/// The subscriber's flows are to leave.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Freeze {
    /// Name of the hand-over.
    pub name: Name,
    /// Box that it goes to.
    pub to: Peer,
    /// Time as in [`Note::Frozen`].
    pub broken_at: Instant,
}

impl Freeze {
    /// Note that is written down of it.
    #[must_use]
    pub fn note(&self, flows: Vec<Loaded>) -> Note {
        let Self { name, to, broken_at } = *self;
        Note::Frozen { name, to, broken_at, flows }
    }
}

impl Note {
    /// Name of the hand-over that it is about.
    #[must_use]
    pub fn name(&self) -> Name {
        match self {
            Self::Frozen { name, .. } | Self::Over { name, .. } => *name,
            Self::Holding(claim) | Self::Taking(claim) | Self::Taken(claim) => claim.name,
        }
    }

    /// The other boxes that are named.
    pub fn peers_mut(&mut self) -> impl Iterator<Item = &mut Peer> {
        let (one, other) = match self {
            Self::Frozen { to, .. } => (Some(to), None),
            Self::Over { gone, shared, .. } => {
                (gone.as_mut().map(|gone| &mut gone.to), shared.as_mut().map(|shared| &mut shared.to))
            }
            Self::Holding(claim) | Self::Taking(claim) | Self::Taken(claim) => {
                (Some(&mut claim.from), claim.gone.as_mut().map(|gone| &mut gone.to))
            }
        };
        one.into_iter().chain(other)
    }

    /// Has packets go where this says that they go, and come from where it says that they may.
    pub fn lead(&self, forwarding: &mut ForwardingTable) {
        let subscriber = self.name().subscriber;
        match self {
            Self::Frozen { to, flows, .. } => {
                let flows: Vec<FlowEnds> = flows.iter().map(|(flow, _)| flow.ends).collect();
                forwarding.announce(subscriber, *to, &flows);
                forwarding.give_away(subscriber, flows.into_iter(), *to);
            }
            Self::Over { refused, gone, shared, .. } => {
                match gone {
                    Some(_) if refused.is_some() => forwarding.let_stay(subscriber, gone.as_ref()),
                    Some(Gone { to, flows }) => {
                        forwarding.give_away(subscriber, flows.iter().copied(), *to);
                    }
                    None => {}
                }
                if let Some(Gone { to, flows }) = shared {
                    forwarding.announce(subscriber, *to, flows);
                }
            }
            Self::Holding(claim) | Self::Taking(claim) => {
                if let Some(gone) = &claim.gone {
                    forwarding.give_away(subscriber, gone.flows.iter().copied(), gone.to);
                }
                forwarding.lead(subscriber, claim.from, &claim.flows);
            }
            Self::Taken(claim) => forwarding.announce(subscriber, claim.from, &claim.flows),
        }
    }

    /// Bytes of the note.
    #[must_use]
    pub fn encode(&self) -> Vec<u8> {
        let mut out = Vec::new();
        // It takes all there is.
        let Ok(()) = self.encode_to(&mut |piece| {
            out.extend_from_slice(piece);
            Ok::<(), std::convert::Infallible>(())
        });
        out
    }

    /// The same bytes in pieces, one after the other: what flows hold is handed on where it lies.
    ///
    /// # Errors
    /// Those of `take`, at once.
    pub fn encode_to<E>(&self, take: &mut impl FnMut(&[u8]) -> Result<(), E>) -> Result<(), E> {
        let mut out = Writer::default();
        NOTE_VERSION.store(&mut out);
        let Self::Frozen { name, to, broken_at, flows } = self else {
            self.store(&mut out);
            return take(&out.into_bytes());
        };
        // As it is stored, but for the copy.
        (FROZEN, *name).store(&mut out);
        (*to, *broken_at).store(&mut out);
        out.len_of_list(flows.len());
        for (flow, held) in flows {
            flow.store(&mut out);
            out.len_of_list(held.len());
            take(&std::mem::take(&mut out).into_bytes())?;
            take(held)?;
        }
        take(&out.into_bytes())
    }

    /// Reads a note from bytes.
    ///
    /// # Errors
    /// They are no note, or one of another version.
    pub fn decode(bytes: &[u8]) -> Result<Self, StoredError> {
        let mut from = Reader::new(NOTE_VERSION, bytes);
        let version: u16 = from.value()?;
        if !(1..=NOTE_VERSION).contains(&version) {
            return Err(Reader::senseless(0, "a note of this version"));
        }
        let mut from = Reader::new(version, bytes.get(size_of::<u16>()..).unwrap_or_default());
        let note = from.value()?;
        from.finish()?;
        Ok(note)
    }
}

/// Part of a process in a flow from the journal of the one before.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Ownership {
    /// It goes on with it.
    Own,
    /// It has no part in it: the flow is frozen, or was never taken.
    Leave,
    /// It is given up: the other box may act on it by now. Its hosts are reset if it owes something.
    GiveUp,
}

/// Ownership of `flow`, which is in the journal, by the notes of the same box.
#[must_use]
pub fn ownership_of<'a>(
    notes: impl IntoIterator<Item = &'a Note>,
    flow: &FlowEnds,
    now: Instant,
) -> Ownership {
    let mut ownership = Ownership::Own;
    for note in notes {
        match note {
            Note::Frozen { flows, .. } if flows.iter().any(|(moved, _)| moved.ends == *flow) => {
                ownership = Ownership::Leave;
            }
            Note::Taking(claim) if claim.flows.contains(flow) => ownership = Ownership::Leave,
            Note::Taken(claim) if claim.until <= now && claim.flows.contains(flow) => {
                ownership = Ownership::GiveUp;
            }
            _ => {}
        }
    }
    ownership
}

#[cfg(test)]
mod tests {
    use engine::{FlowRecord, HandoverFlow};

    use super::*;
    use crate::NextHop;

    fn flow(port: u16) -> FlowEnds {
        FlowEnds {
            is_downlink: true,
            sink: ([10, 0, 0, 1], port).into(),
            source: "192.0.2.1:443".parse().unwrap(),
        }
    }

    fn name() -> Name {
        Name { subscriber: "10.0.0.1".parse().unwrap(), epoch: 7, nonce: 9 }
    }

    #[test]
    fn notes_come_back_and_others_do_not() {
        let gone = Gone { to: 3, flows: vec![flow(1)] };
        let claim = Claim {
            name: name(),
            from: 2,
            until: Instant::ZERO,
            flows: vec![flow(1)],
            bytes: 3,
            gone: Some(gone),
        };
        for note in [
            Note::Holding(claim.clone()),
            Note::Taking(claim.clone()),
            Note::Taken(claim),
            Note::Over {
                name: name(),
                refused: Some(Refusal::Memory),
                gone: None,
                until: Instant::ZERO,
                shared: Some(Gone { to: 4, flows: vec![flow(2)] }),
            },
        ] {
            let bytes = note.encode();
            assert_eq!(Note::decode(&bytes), Ok(note));
            for len in 0..bytes.len() {
                assert!(Note::decode(&bytes[..len]).is_err(), "{len} bytes");
            }
            let mut newer = bytes;
            newer[0] += 1;
            assert!(Note::decode(&newer).is_err(), "another version");
        }
    }

    /// A note of the first version lacks the flows that another box may send packets of.
    #[test]
    fn a_note_of_an_older_program_is_read() {
        let mut old = Writer::default();
        (1_u16, 4_u8).store(&mut old);
        (name(), Some(Refusal::Mtu)).store(&mut old);
        (Some(Gone { to: 3, flows: vec![flow(1)] }), Instant::from_millis(8)).store(&mut old);
        let Ok(Note::Over { name: theirs, refused, gone, until, shared }) = Note::decode(&old.into_bytes())
        else {
            panic!("it is not read");
        };
        assert_eq!(
            (theirs, refused, until, shared),
            (name(), Some(Refusal::Mtu), Instant::from_millis(8), None)
        );
        assert_eq!(gone.map(|gone| (gone.to, gone.flows)), Some((3, vec![flow(1)])));
    }

    #[test]
    fn pieces_of_a_note_are_the_note() {
        let moved = |port| HandoverFlow { ends: flow(port), record: FlowRecord::default(), clock_ms: 3 };
        let flows = vec![(moved(1), vec![7; 100_000]), (moved(2), Vec::new()), (moved(3), vec![1, 2])];
        let freeze = Freeze { name: name(), to: 5, broken_at: Instant::from_millis(8) };
        for flows in [flows, Vec::new()] {
            let note = freeze.note(flows.clone());
            let mut stored = Writer::default();
            NOTE_VERSION.store(&mut stored);
            note.store(&mut stored);
            assert!(note.encode() == stored.into_bytes(), "as it is stored");
            let mut held = Vec::new();
            let all = note.encode_to(&mut |piece| {
                held.push(piece.as_ptr());
                Ok::<(), ()>(())
            });
            assert_eq!(all, Ok(()));
            assert!(flows.len() < 3 || held.len() == 7, "{}", held.len());
            let Note::Frozen { flows, .. } = &note else { unreachable!() };
            assert!(flows.iter().all(|(_, bytes)| held.contains(&bytes.as_ptr())), "no copy");
            assert_eq!(note.encode_to(&mut |_| Err("full")), Err("full"));
        }
    }

    #[test]
    fn a_flow_of_the_journal_is_this_boxs_unless_a_note_says_otherwise() {
        let now = Instant::from_millis(10);
        let moved = HandoverFlow { ends: flow(1), record: FlowRecord::default(), clock_ms: 0 };
        let frozen = Freeze { name: name(), to: 0, broken_at: now }.note(vec![(moved, Vec::new())]);
        let claim = |until| Claim {
            name: name(),
            from: 0,
            until,
            flows: vec![flow(2), flow(3)],
            bytes: 0,
            gone: None,
        };
        let ownership = |note: &Note, port| ownership_of([note], &flow(port), now);
        assert_eq!([ownership(&frozen, 1), ownership(&frozen, 2)], [Ownership::Leave, Ownership::Own]);
        assert_eq!(ownership(&Note::Taking(claim(now)), 2), Ownership::Leave, "not all were taken");
        assert_eq!(ownership(&Note::Taken(claim(now + units::Duration::from_millis(1))), 2), Ownership::Own);
        assert_eq!(ownership(&Note::Taken(claim(now)), 3), Ownership::GiveUp, "its time is over");
        let mut forwarding = ForwardingTable::new(64);
        frozen.lead(&mut forwarding);
        let ways = [1, 2].map(|port| forwarding.next_hop(flow(port).client_and_server()));
        assert_eq!(ways, [NextHop::To(0), NextHop::Past]);
        Note::Holding(claim(now)).lead(&mut forwarding);
        assert_eq!(forwarding.next_hop(flow(2).client_and_server()), NextHop::To(0));
    }
}
