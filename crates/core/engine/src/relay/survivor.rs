//! [`Survivor`]: a host of a flow that is broken off, as it is known then.

use units::{Instant, SeqNum};

use super::Relay;
use super::sides::IpTemplate;
use crate::direction::End;

/// A host that may not know that its flow is broken off.
#[derive(Clone, Copy, Debug, stored::Stored)]
pub(crate) struct Survivor {
    pub(crate) ip: IpTemplate,
    /// The number that it expects next, as far as known.
    pub(crate) seq: SeqNum,
    pub(crate) ack: SeqNum,
    /// TSval and TSecr, where the hosts agreed on timestamps.
    pub(crate) timestamps: Option<(u32, u32)>,
    pub(crate) tries: u8,
    /// It has answered: it is reset next.
    pub(crate) is_heard: bool,
    pub(crate) due: Instant,
}

impl Survivor {
    /// One that is asked at once.
    pub(crate) const fn new(
        ip: IpTemplate,
        seq: SeqNum,
        ack: SeqNum,
        timestamps: Option<(u32, u32)>,
    ) -> Self {
        Self { ip, seq, ack, timestamps, tries: 0, is_heard: false, due: Instant::ZERO }
    }
}

impl Relay {
    /// A host that may not hear that the flow is broken off, where it stands.
    pub(crate) fn survivor(&self, host: End) -> Survivor {
        let (ip, seq, ack, times) = match host {
            End::Source => {
                let times = (self.sink.tsval, self.receiver.ts_recent().unwrap_or(0));
                (self.sink.ip, self.source.ack, self.receiver.ack_number(), times)
            }
            End::Sink => {
                let times = (self.source.tsval, self.source.tsecr);
                (self.source.ip, self.sender.una(), self.source.ack, times)
            }
        };
        Survivor::new(ip, seq, ack, self.agreed.timestamps.then_some(times))
    }
}
