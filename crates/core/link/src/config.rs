//! [`LinkConfig`]: everything that describes one direction of a link.

use units::{Bytes, Duration};

use crate::{
    Aqm, Capacity, DelayModel, Fades, Grants, Harq, LinkError, LossModel, OutageModel, Policer, Tdd,
};

/// Limit of what may wait in the queue. The packet being served does not count, as in Mahimahi; a
/// packet that does not fit is dropped (drop-tail).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub enum QueueLimit {
    /// Everything.
    #[default]
    Unlimited,
    /// Limit in bytes.
    Bytes(Bytes),
    /// Limit in packets.
    Packets(u64),
}

/// Times at which an uplink may send: a served packet leaves at the next slot, which bunches ACKs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SlotConfig {
    /// Time from slot to slot, above zero.
    pub period: Duration,
    /// The first slot, since the link's start.
    pub offset: Duration,
}

impl SlotConfig {
    /// The first slot at or after `t`.
    pub(crate) fn align(&self, t: Duration) -> Duration {
        if t <= self.offset {
            return self.offset;
        }
        let since = (t - self.offset).as_nanos();
        self.offset
            + Duration::from_nanos(
                since.div_ceil(self.period.as_nanos()).saturating_mul(self.period.as_nanos()),
            )
    }
}

/// One direction of one client's link. The default passes everything at once.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LinkConfig {
    /// Capacity of the link.
    pub capacity: Capacity,
    /// Limit of what may wait.
    pub queue: QueueLimit,
    /// Management of the packets that wait. Default: not at all.
    pub aqm: Option<Aqm>,
    /// One-way delay after service.
    pub delay: DelayModel,
    /// A rate enforced ahead of the queue, by dropping.
    pub policer: Option<Policer>,
    /// Loss ahead of the queue: lost packets take no room and no capacity.
    pub loss_before: LossModel,
    /// Loss behind the queue: lost packets have taken their capacity.
    pub loss_after: LossModel,
    /// Times in which everything behind the queue is lost.
    pub fades: Option<Fades>,
    /// Times without service.
    pub outages: OutageModel,
    /// Radio block errors and their repair.
    pub harq: Option<Harq>,
    /// Times at which packets may leave.
    pub uplink_slots: Option<SlotConfig>,
    /// The direction's slots in a radio frame.
    pub tdd: Option<Tdd>,
    /// Grants by which a client comes to send.
    pub grants: Option<Grants>,
    /// Seed of every random decision.
    pub seed: u64,
    /// Whether a [`crate::PacketRecord`] is kept per packet.
    pub keeps_log: bool,
}

impl Default for LinkConfig {
    fn default() -> Self {
        Self {
            capacity: Capacity::default(),
            queue: QueueLimit::default(),
            aqm: None,
            delay: DelayModel::default(),
            policer: None,
            loss_before: LossModel::default(),
            loss_after: LossModel::default(),
            fades: None,
            outages: OutageModel::default(),
            harq: None,
            uplink_slots: None,
            tdd: None,
            grants: None,
            seed: 1,
            keeps_log: true,
        }
    }
}

impl LinkConfig {
    /// Checks every setting; [`crate::Link::new`] does so too.
    ///
    /// # Errors
    ///
    /// [`LinkError::Setting`] names the field and what is allowed.
    pub fn check(&self) -> Result<(), LinkError> {
        self.aqm.as_ref().map_or(Ok(()), Aqm::check)?;
        self.delay.check()?;
        self.policer.as_ref().map_or(Ok(()), Policer::check)?;
        self.loss_before.check("loss_before")?;
        self.loss_after.check("loss_after")?;
        self.fades.as_ref().map_or(Ok(()), Fades::check)?;
        self.outages.check("outages")?;
        self.harq.as_ref().map_or(Ok(()), Harq::check)?;
        self.grants.as_ref().map_or(Ok(()), Grants::check)?;
        if self.uplink_slots.is_some_and(|slots| slots.period.is_zero()) {
            return Err(LinkError::setting("uplink_slots.period", "must be above zero"));
        }
        Ok(())
    }
}
