//! [`History`]: what samples say together: rates, the last minutes of the totals, and the last one of a subscriber.

use std::collections::{BTreeMap, VecDeque};
use std::net::{IpAddr, SocketAddr};

use run::{FlowLine, PassedLine, Snapshot, SubscriberLine};
use serde::Serialize;

use crate::Sample;
use crate::totals::{Totals, per_second};

/// Totals that are kept: as many as the widest sparkline shows.
const TOTALS_MAX: usize = 240;

/// Time span of a subscriber's chart, ms.
pub(crate) const CHART_MS: u64 = 60_000;

/// A subscriber with its rates.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Row {
    /// Newest line about it.
    #[serde(flatten)]
    pub line: SubscriberLine,
    /// Payload that it got in the interval, bit/s; none before it was seen twice.
    pub delivered_bps: Option<u64>,
    /// Payload sent again to it in the interval, bit/s; none before it was seen twice.
    pub retransmitted_bps: Option<u64>,
    #[serde(skip)]
    at_ms: u64,
    #[serde(skip)]
    round: u64,
}

/// Key of a subscriber.
type Key = (IpAddr, Option<u16>);

/// A moment of a subscriber.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub struct Moment {
    /// Time, on a clock of the asking process's own, ms.
    pub at_ms: u64,
    /// Payload that it got since the moment before, bit/s; none before it was seen twice.
    pub delivered_bps: Option<u64>,
    /// Its controller's rate, bit/s; none where a window alone limits it.
    pub rate_bps: Option<u64>,
    /// Its controller's window, bytes; none where a rate alone limits it.
    pub window_bytes: Option<u64>,
    /// Sent and not acknowledged, bytes.
    pub in_flight_bytes: u64,
    /// Smoothed round trip, µs.
    pub srtt_us: Option<u64>,
    /// Estimate of the time in queues, µs.
    pub queueing_us: Option<u64>,
}

/// The subscriber that is looked at.
#[derive(Clone, Debug)]
pub struct Detail {
    /// Its address, as it was asked for.
    pub client: IpAddr,
    /// It, with its rates; none while it is not known.
    pub row: Option<Row>,
    /// The last minute, oldest first.
    pub moments: VecDeque<Moment>,
    /// All flows of it have been seen.
    pub is_whole: bool,
    /// Flows of it that were passed or ended last, newest first.
    pub passed: Vec<PassedLine>,
    flows: BTreeMap<(SocketAddr, SocketAddr, String), (FlowLine, u64)>,
    round: u64,
}

/// Samples of an accelerator.
#[derive(Clone, Debug, Default)]
pub struct History {
    /// The accelerators that run.
    pub names: Vec<String>,
    /// The one that is looked at.
    pub name: Option<String>,
    /// Newest snapshot of it, and its time, ms.
    pub last: Option<(Snapshot, u64)>,
    /// Its totals, oldest first.
    pub totals: VecDeque<Totals>,
    /// The subscriber that is looked at.
    pub detail: Option<Detail>,
    /// All subscribers have been seen.
    pub is_whole: bool,
    /// Parts that could not be found out with the last sample, and why.
    pub trouble: Option<String>,
    rows: BTreeMap<Key, Row>,
    round: u64,
}

impl History {
    /// Takes a sample in.
    pub fn add(&mut self, sample: Sample) {
        if self.name != sample.name {
            *self = Self { name: sample.name.clone(), ..Self::default() };
        }
        self.names = sample.names;
        self.trouble = sample.trouble;
        let at_ms = sample.at_ms;
        if let Some(snapshot) = sample.snapshot {
            let before = self.last.as_ref().map(|(last, at)| (last, at_ms.saturating_sub(*at)));
            if self.totals.len() == TOTALS_MAX {
                self.totals.pop_front();
            }
            self.totals.push_back(Totals::of(&snapshot, before));
            self.last = Some((snapshot, at_ms));
        }
        for line in sample.subscribers {
            let key = (line.address, line.port);
            let row = Row::after(self.rows.get(&key), line, at_ms, self.round);
            self.rows.insert(key, row);
        }
        if sample.is_round_over {
            self.rows.retain(|_, row| row.round == self.round);
            self.round += 1;
            self.is_whole = true;
        }
        if self.detail.as_ref().map(|detail| detail.client) != sample.client {
            self.detail = sample.client.map(Detail::new);
        }
        if let (Some(detail), Some(view)) = (self.detail.as_mut(), sample.subscriber) {
            detail.note(view.subscriber, at_ms);
            detail.passed = view.passed;
            detail.note_flows(view.flows, sample.are_flows_over);
        }
    }

    /// The subscribers, in the order of their addresses.
    pub fn rows(&self) -> impl Iterator<Item = &Row> {
        self.rows.values()
    }
}

impl Row {
    fn after(before: Option<&Self>, line: SubscriberLine, at_ms: u64, round: u64) -> Self {
        let rate = |now: u64, then: fn(&SubscriberLine) -> u64| {
            let before = before.filter(|before| before.at_ms < at_ms)?;
            // A new controller has begun to count anew.
            let count = now.checked_sub(then(&before.line)).unwrap_or(now);
            Some(per_second(count.saturating_mul(8), at_ms - before.at_ms))
        };
        Self {
            delivered_bps: rate(line.delivered_bytes, |line| line.delivered_bytes),
            retransmitted_bps: rate(line.retransmitted_bytes, |line| line.retransmitted_bytes),
            line,
            at_ms,
            round,
        }
    }
}

impl Detail {
    fn new(client: IpAddr) -> Self {
        Self {
            client,
            row: None,
            moments: VecDeque::new(),
            is_whole: false,
            passed: Vec::new(),
            flows: BTreeMap::new(),
            round: 0,
        }
    }

    fn note(&mut self, line: Option<SubscriberLine>, at_ms: u64) {
        self.row = line.map(|line| Row::after(self.row.as_ref(), line, at_ms, 0));
        if let Some(row) = &self.row {
            self.moments.push_back(Moment {
                at_ms,
                delivered_bps: row.delivered_bps,
                rate_bps: row.line.rate_bps,
                window_bytes: row.line.window_bytes,
                in_flight_bytes: row.line.in_flight_bytes,
                srtt_us: row.line.srtt_us,
                queueing_us: row.line.queueing_us,
            });
        }
        while self.moments.front().is_some_and(|moment| moment.at_ms + CHART_MS < at_ms) {
            self.moments.pop_front();
        }
    }

    fn note_flows(&mut self, flows: Vec<FlowLine>, is_over: bool) {
        for flow in flows {
            let key = (flow.client, flow.server, flow.direction.clone());
            self.flows.insert(key, (flow, self.round));
        }
        if is_over {
            self.flows.retain(|_, (_, round)| *round == self.round);
            self.round += 1;
            self.is_whole = true;
        }
    }

    /// Its flows, in the order of their addresses.
    pub fn flows(&self) -> impl Iterator<Item = &FlowLine> {
        self.flows.values().map(|(flow, _)| flow)
    }
}

#[cfg(test)]
mod tests {
    use run::SubscriberView;

    use super::*;

    pub(crate) fn line(last: u8, delivered_bytes: u64) -> SubscriberLine {
        SubscriberLine {
            address: [10, 0, 0, last].into(),
            port: None,
            flows: 1,
            idle_ms: 0,
            delivered_bytes,
            retransmitted_bytes: 0,
            in_flight_bytes: 0,
            held_bytes: 0,
            srtt_us: None,
            queueing_us: None,
            rate_bps: Some(1_000_000),
            window_bytes: None,
            opaque: None,
        }
    }

    fn sample(at_ms: u64, subscribers: Vec<SubscriberLine>, is_round_over: bool) -> Sample {
        let name = Some("radio".to_owned());
        Sample { at_ms, name, subscribers, is_round_over, ..Sample::default() }
    }

    #[test]
    fn rates_are_those_since_a_subscriber_was_seen_before_and_who_is_gone_goes() {
        let mut history = History::default();
        history.add(sample(1_000, vec![line(1, 0), line(2, 0)], true));
        assert!(history.rows().all(|row| row.delivered_bps.is_none()));
        history.add(sample(2_000, vec![line(1, 1_000)], false));
        history.add(sample(3_000, vec![line(3, 0)], true));
        let rows: Vec<_> = history.rows().map(|row| (row.line.address, row.delivered_bps)).collect();
        let address = |last: u8| IpAddr::from([10, 0, 0, last]);
        assert_eq!(rows, [(address(1), Some(8_000)), (address(3), None)], "2 was not seen in that round");
        history.add(sample(5_000, vec![line(1, 500)], true));
        let rate = history.rows().next().unwrap().delivered_bps;
        assert_eq!(rate, Some(500 * 8 / 3), "a controller that began anew");
    }

    #[test]
    fn a_subscriber_is_charted_for_a_minute_and_its_flows_are_those_of_the_last_round() {
        let mut history = History::default();
        let client = IpAddr::from([10, 0, 0, 1]);
        for second in 0..100 {
            let subscriber =
                SubscriberView { subscriber: Some(line(1, second)), ..SubscriberView::default() };
            let mut sample = sample(second * 1_000, Vec::new(), true);
            (sample.client, sample.subscriber, sample.are_flows_over) =
                (Some(client), Some(subscriber), true);
            history.add(sample);
        }
        let detail = history.detail.as_ref().unwrap();
        assert_eq!(detail.moments.len(), 61);
        assert_eq!(detail.moments[60].delivered_bps, Some(8));
        assert!(detail.is_whole && detail.flows().next().is_none());
        // Another one is charted from its beginning, and another accelerator's history is another one.
        let other = Sample { client: Some([10, 0, 0, 2].into()), ..sample(100_000, Vec::new(), true) };
        history.add(other);
        assert!(history.detail.as_ref().unwrap().moments.is_empty());
        history.add(Sample { name: Some("other".to_owned()), ..Sample::default() });
        assert!(history.totals.is_empty() && history.detail.is_none());
    }
}
