//! Survey that a box makes of the flows that could go, and the data that goes ahead of them.

use std::collections::BTreeMap;
use std::net::IpAddr;

use engine::{Engine, FlowEnds, HeldPiece};
use units::SeqNum;

/// Data in one message, bytes.
pub(crate) const PIECE: usize = 32 * 1024;

/// The flows of a subscriber that could go elsewhere, as they are now.
#[derive(Clone, PartialEq, Eq, Default, Debug)]
pub struct Survey {
    /// Flows that could go.
    pub flows: Vec<FlowEnds>,
    /// Bytes that they hold.
    pub held: u64,
    /// The longest packet that they send, bytes with the IP header; 0 without flows.
    pub packet: u32,
}

impl Survey {
    /// Survey of an engine's flows.
    #[must_use]
    pub fn of(engine: &Engine, subscriber: IpAddr) -> Self {
        let flows = engine.delivering(subscriber);
        let held = flows.iter().filter_map(|flow| engine.held_len(flow)).sum();
        let packet = flows.iter().filter_map(|flow| engine.packet_len_max(flow)).max().unwrap_or(0);
        Self { flows, held, packet }
    }
}

/// Data that flows hold and that has not gone ahead yet.
#[derive(Clone, PartialEq, Eq, Default, Debug)]
pub struct Copies {
    /// Data in pieces.
    pub pieces: Vec<HeldPiece>,
    /// True when there is no more.
    pub is_all: bool,
}

impl Copies {
    /// Copies of the flows of an engine: what lies behind the numbers in `sent`, where they have one; as
    /// much as `len_max` bytes, and up to a piece more.
    #[must_use]
    pub fn of(engine: &Engine, subscriber: IpAddr, sent: &[(FlowEnds, SeqNum)], len_max: u64) -> Self {
        let sent: BTreeMap<FlowEnds, SeqNum> = sent.iter().copied().collect();
        let (mut pieces, mut left) = (Vec::new(), len_max);
        for flow in engine.delivering(subscriber) {
            let mut from = sent.get(&flow).copied();
            while let Some(piece) = engine.held(&flow, from, PIECE).filter(|piece| !piece.bytes.is_empty()) {
                if left == 0 {
                    return Self { pieces, is_all: false };
                }
                let len = piece.bytes.len() as u32;
                (from, left) = (Some(piece.start + len), left.saturating_sub(u64::from(len)));
                pieces.push(piece);
            }
        }
        Self { pieces, is_all: true }
    }

    /// Bytes of all pieces.
    #[must_use]
    pub fn len(&self) -> u64 {
        self.pieces.iter().map(|piece| piece.bytes.len() as u64).sum()
    }

    /// True when nothing has to go.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.pieces.is_empty()
    }
}
