//! [`Totals`]: levels of an accelerator, and rates between two samples.

use std::collections::BTreeMap;

use run::{Distribution, HalfSnapshot, Snapshot};
use serde::Serialize;

/// Figures of an accelerator as a whole.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Totals {
    /// Payload that clients acknowledged, bit/s; none with the first sample of a process, as all rates.
    pub downlink_goodput_bps: Option<u64>,
    /// Payload that servers acknowledged, bit/s; none also where the uplink is not accelerated.
    pub uplink_goodput_bps: Option<u64>,
    /// Payload sent again, both directions, bit/s.
    pub retransmitted_bps: Option<u64>,
    /// Packets that came, both sides, in a second.
    pub packets_per_s: Option<u64>,
    /// Mean of the estimates of time in queues towards clients, µs; none where there were none.
    pub queueing_us: Option<u64>,
    /// Mean round trip to clients, µs; none where there were none.
    pub round_trip_us: Option<u64>,
    /// Flows by state, both directions.
    pub flows: BTreeMap<String, u64>,
    /// Subscribers that are known.
    pub subscribers: u64,
    /// Acknowledged to senders and not by receivers, bytes.
    pub debt_bytes: u64,
    /// Memory in buffers, bytes.
    pub held_bytes: u64,
    /// Flows passed or ended since the start, by reason.
    pub passed: BTreeMap<String, u64>,
    /// Bytes that were carried since the start, by what became of them: payload of TCP that was `accelerated`; TCP that
    /// passes, by the reason; and of what took turns with accelerated flows, `QUIC` and `UDP and else`.
    pub carried_bytes: BTreeMap<String, u64>,
}

impl Totals {
    /// Levels of `now`, and what has changed since `before`, `ms` ago.
    #[must_use]
    pub fn of(now: &Snapshot, before: Option<(&Snapshot, u64)>) -> Self {
        // Another process has taken its place: its counters began anew.
        let before = before.filter(|(before, ms)| *ms > 0 && before.process == now.process);
        let rate = |value: fn(&Snapshot) -> u64, times: u64| {
            let (before, ms) = before?;
            Some(per_second(value(now).saturating_sub(value(before)).saturating_mul(times), ms))
        };
        let mean = |of: fn(&Snapshot) -> &Distribution| {
            let (before, _) = before?;
            mean_since(of(now), of(before))
        };
        let halves = || [Some(&now.downlink), now.uplink.as_ref()].into_iter().flatten();
        let mut flows = BTreeMap::new();
        for (state, count) in halves().flat_map(|half| &half.flows) {
            *flows.entry(state.clone()).or_default() += count;
        }
        Self {
            downlink_goodput_bps: rate(|it| it.downlink.counter("bytes_delivered"), 8),
            uplink_goodput_bps: now.uplink.as_ref().and_then(|_| {
                rate(|it| it.uplink.as_ref().map_or(0, |half| half.counter("bytes_delivered")), 8)
            }),
            retransmitted_bps: rate(retransmitted, 8),
            packets_per_s: rate(|it| it.sides.iter().map(|side| side.received_packets).sum(), 1),
            queueing_us: mean(|it| &it.downlink.queueing),
            round_trip_us: mean(|it| &it.downlink.round_trip),
            flows,
            subscribers: now.subscribers,
            debt_bytes: halves().map(|half| half.debt_bytes).sum(),
            held_bytes: now.shards.iter().map(|shard| shard.held_bytes).sum(),
            passed: now.passed.iter().filter(|(_, n)| **n > 0).map(|(why, n)| (why.clone(), *n)).collect(),
            carried_bytes: carried(now),
        }
    }
}

/// Bytes carried since the start, by kind; without kinds that have nothing.
fn carried(now: &Snapshot) -> BTreeMap<String, u64> {
    let of = |name| now.downlink.counter(name);
    let accelerated =
        of("bytes_delivered") + now.uplink.as_ref().map_or(0, |half| half.counter("bytes_delivered"));
    let else_ = of("opaque_bytes").saturating_sub(of("opaque_tcp_bytes") + of("opaque_quic_bytes"));
    let kinds = [("accelerated", accelerated), ("QUIC", of("opaque_quic_bytes")), ("UDP and else", else_)];
    let kinds = kinds.into_iter().map(|(kind, bytes)| (kind.to_owned(), bytes));
    let all = kinds.chain(now.passed_bytes.iter().map(|(reason, bytes)| (reason.clone(), *bytes)));
    all.filter(|(_, bytes)| *bytes > 0).collect()
}

fn retransmitted(snapshot: &Snapshot) -> u64 {
    let of = |half: &HalfSnapshot| half.counter("bytes_retransmitted");
    of(&snapshot.downlink) + snapshot.uplink.as_ref().map_or(0, of)
}

/// Converts a count in `ms` to a count per second.
pub(crate) fn per_second(count: u64, ms: u64) -> u64 {
    let per_s = u128::from(count) * 1_000 / u128::from(ms.max(1));
    u64::try_from(per_s).unwrap_or(u64::MAX)
}

/// Mean of the values that came since; none if none did.
fn mean_since(now: &Distribution, before: &Distribution) -> Option<u64> {
    let count = |of: &Distribution| of.counts.iter().sum::<u64>();
    now.sum.saturating_sub(before.sum).checked_div(count(now).saturating_sub(count(before)))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn snapshot(delivered: u64, counts: u64, sum: u64) -> Snapshot {
        let mut snapshot = Snapshot { process: 1, ..Snapshot::default() };
        snapshot.downlink.counters.insert("bytes_delivered".to_owned(), delivered);
        snapshot.downlink.queueing = Distribution { bounds: vec![1], counts: vec![0, counts], sum };
        snapshot
    }

    #[test]
    fn all_that_was_carried_has_a_kind() {
        let mut now = snapshot(7, 0, 0);
        let counters = [("opaque_bytes", 100), ("opaque_tcp_bytes", 20), ("opaque_quic_bytes", 50)];
        now.downlink.counters.extend(counters.map(|(name, bytes)| (name.to_owned(), bytes)));
        now.passed_bytes.insert("mptcp".to_owned(), 25);
        let wanted = [("accelerated", 7), ("QUIC", 50), ("UDP and else", 30), ("mptcp", 25)];
        assert_eq!(Totals::of(&now, None).carried_bytes, wanted.map(|(name, n)| (name.to_owned(), n)).into());
        assert!(Totals::of(&snapshot(0, 0, 0), None).carried_bytes.is_empty());
    }

    #[test]
    fn rates_are_between_two_samples_of_one_process() {
        let (before, mut now) = (snapshot(1_000, 2, 10), snapshot(3_000, 4, 110));
        let totals = Totals::of(&now, Some((&before, 500)));
        assert_eq!(totals.downlink_goodput_bps, Some(32_000));
        assert_eq!((totals.queueing_us, totals.round_trip_us), (Some(50), None));
        assert_eq!(totals.uplink_goodput_bps, None, "there is no uplink");
        assert_eq!(Totals::of(&now, None).downlink_goodput_bps, None);
        now.process = 2;
        assert_eq!(Totals::of(&now, Some((&before, 500))).downlink_goodput_bps, None);
    }
}
