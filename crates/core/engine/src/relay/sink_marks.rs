//! [`SinkMarks`]: marks on the way to the sink, where data to it is sent ECN-capable
//! ([`crate::EngineConfig::client_ecn`]).
//!
//! ```text
//!   data, ECT(0) ─▶ queue that marks ─▶ sink ── ECE, or its counter of CE packets ─▶ the controller, once a round trip
//!   next new data, CWR ◀─────────────────────── ECE: until it has heard CWR             RFC 3168 §6.1.2, §6.1.3
//! ```
//!
//! The source hears nothing of them: they are of a loop that is not its own.

use units::SeqNum;

use crate::config::ClientEcn;

/// Marks that the sink tells of.
#[derive(Clone, Copy, Debug, stored::Stored)]
pub(crate) struct SinkMarks {
    /// ECN field of new data (RFC 3168 §5).
    ect: u8,
    /// The hosts agreed on classic ECN: the sink echoes until it hears CWR.
    is_classic: bool,
    /// A mark was told of that the controller has not heard of.
    is_pending: bool,
    /// The next new data says CWR.
    owes_cwr: bool,
    /// The end of the data that said so last, until that is acknowledged.
    cwr_end: Option<SeqNum>,
}

impl SinkMarks {
    /// Marks of a flow whose hosts agreed on classic ECN, accurate ECN, or neither; none, unless asked for.
    pub(super) fn of(setting: ClientEcn, is_classic: bool, is_accurate: bool) -> Option<Box<Self>> {
        let ect = setting.field();
        (ect != 0 && (is_classic || is_accurate)).then(|| {
            let is_classic = !is_accurate;
            Box::new(Self { ect, is_classic, is_pending: false, owes_cwr: false, cwr_end: None })
        })
    }

    /// The sink acknowledges all up to `una`, with ECE or without. What it says before it can have heard of the last
    /// CWR is of the mark before.
    #[inline]
    pub(super) fn on_flags(&mut self, has_ece: bool, una: SeqNum) {
        // Its number would lie ahead again half a circle later.
        self.cwr_end = self.cwr_end.filter(|end| una.is_before(*end));
        let is_old = self.owes_cwr || self.cwr_end.is_some();
        self.is_pending |= self.is_classic && has_ece && !is_old;
    }

    /// The sink has counted marks on what was sent to it here.
    pub(super) fn on_counted(&mut self) {
        self.is_pending = true;
    }

    /// True when the controller is to hear of a mark.
    #[inline]
    pub(super) fn take(&mut self) -> bool {
        let is_pending = std::mem::take(&mut self.is_pending);
        self.owes_cwr |= is_pending && self.is_classic;
        is_pending
    }

    /// ECN field of new data that ends at `end`, and whether it says CWR. What is sent again, and what has no data, is
    /// not ECN-capable (RFC 3168 §6.1.4, §6.1.5).
    pub(super) fn for_data(&mut self, end: SeqNum) -> (u8, bool) {
        if self.owes_cwr {
            self.cwr_end = Some(end);
        }
        (self.ect, std::mem::take(&mut self.owes_cwr))
    }

    /// True when the next new data is to leave as one segment: CWR is said once (RFC 3168 §6.1.2).
    pub(super) const fn owes_cwr(&self) -> bool {
        self.owes_cwr
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const ECT_0: u8 = 2;

    fn classic() -> SinkMarks {
        *SinkMarks::of(ClientEcn::Ect0, true, false).unwrap()
    }

    #[test]
    fn only_agreed_flows_have_it_and_only_where_it_is_asked_for() {
        for (setting, is_classic, is_accurate, has) in [
            (ClientEcn::NotEct, true, true, false),
            (ClientEcn::Ect0, false, false, false),
            (ClientEcn::Ect0, true, false, true),
            (ClientEcn::Ect0, false, true, true),
        ] {
            assert_eq!(SinkMarks::of(setting, is_classic, is_accurate).is_some(), has);
        }
    }

    #[test]
    fn an_echo_counts_once_until_cwr_is_acknowledged() {
        let mut marks = classic();
        let at = SeqNum::new;
        marks.on_flags(true, at(1_000));
        assert!(marks.take() && !marks.take() && marks.owes_cwr());
        marks.on_flags(true, at(2_000));
        assert!(!marks.take(), "CWR has not left");
        assert_eq!(marks.for_data(at(9_000)), (ECT_0, true));
        assert_eq!(marks.for_data(at(10_000)), (ECT_0, false));
        marks.on_flags(true, at(8_000));
        assert!(!marks.take(), "it has not heard");
        marks.on_flags(true, at(9_000));
        assert!(marks.take());
    }

    #[test]
    fn an_echo_counts_however_long_ago_the_last_one_was() {
        let mut marks = classic();
        let mut at = SeqNum::new(1_000);
        marks.on_flags(true, at);
        assert!(marks.take());
        marks.for_data(at + 1_000);
        // A round trip each, far beyond half of the circle.
        for _ in 0..24 {
            at += 1 << 27;
            marks.on_flags(false, at);
        }
        marks.on_flags(true, at);
        assert!(marks.take());
    }

    #[test]
    fn what_is_counted_needs_no_cwr() {
        let mut marks = *SinkMarks::of(ClientEcn::Ect0, true, true).unwrap();
        marks.on_flags(true, SeqNum::new(1));
        assert!(!marks.take(), "a bit of a number");
        marks.on_counted();
        assert!(marks.take() && !marks.owes_cwr());
        assert_eq!(marks.for_data(SeqNum::new(9)), (ECT_0, false));
    }
}
