//! [`Overview`]: what the dashboard shows of an accelerator.

use std::collections::BTreeMap;
use std::net::IpAddr;

use run::{AbReport, Answer, FlowLine, Found, Question, Snapshot};
use serde::{Deserialize, Serialize};

/// Flows that are looked at, and how many of a subscriber's are shown.
const FLOWS_MAX: usize = 10_000;
const FLOWS_SHOWN_MAX: usize = 20;

/// Subscribers that are shown: those with most data on its way to them.
const SUBSCRIBERS_MAX: usize = 50;

/// Longest time an instance has to answer.
const PATIENCE: std::time::Duration = std::time::Duration::from_secs(3);

/// What an accelerator does.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Overview {
    /// Its name.
    pub name: String,
    /// Its metrics; none when it does not answer.
    pub snapshot: Option<Snapshot>,
    /// The A/B phase under way, or the last one.
    pub ab: Option<AbReport>,
    /// Subscribers with flows, those with most in flight first.
    pub subscribers: Vec<Subscriber>,
}

/// A subscriber with flows: an address.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Subscriber {
    /// Its address.
    pub address: String,
    /// Its flows in the table.
    pub flows: u64,
    /// Of those, ones of a control group.
    pub control_flows: u64,
    /// Sent to it and not acknowledged, bytes.
    pub in_flight_bytes: u64,
    /// Acknowledged in its name and not by it, bytes.
    pub debt_bytes: u64,
    /// Longest smoothed round trip of its flows, µs.
    pub srtt_us: Option<u64>,
    /// What is sent to it at most, bit/s.
    pub rate_bps: Option<u64>,
    /// Some of its flows.
    pub some_flows: Vec<FlowLine>,
}

impl Overview {
    /// Asks an instance for everything.
    pub(crate) fn of(found: &Found) -> Self {
        let ask = |question| found.ask_within(&question, PATIENCE).ok();
        let snapshot = match ask(Question::Metrics) {
            Some(Answer::Metrics(snapshot)) => Some(*snapshot),
            _ => None,
        };
        let ab = match snapshot.is_some().then(|| ask(Question::Ab)).flatten() {
            Some(Answer::Ab(report)) => Some(*report),
            _ => None,
        };
        let mut flows = Vec::new();
        while snapshot.is_some() && flows.len() < FLOWS_MAX {
            match ask(Question::Flows { skip: flows.len() }) {
                Some(Answer::Flows(part)) if !part.flows.is_empty() => flows.extend(part.flows),
                _ => break,
            }
        }
        Self { name: found.name.clone(), snapshot, ab, subscribers: subscribers(flows) }
    }
}

fn subscribers(flows: Vec<FlowLine>) -> Vec<Subscriber> {
    let mut all: BTreeMap<IpAddr, Subscriber> = BTreeMap::new();
    for flow in flows {
        let own = all
            .entry(flow.client.ip())
            .or_insert_with(|| Subscriber { address: flow.client.ip().to_string(), ..Subscriber::default() });
        own.flows += 1;
        own.control_flows += u64::from(flow.state == "control");
        own.in_flight_bytes += flow.in_flight_bytes;
        own.debt_bytes += flow.debt_bytes;
        own.srtt_us = own.srtt_us.max(flow.srtt_us);
        if flow.direction == "downlink" {
            own.rate_bps = own.rate_bps.max(flow.subscriber_rate_bps.filter(|bps| *bps < u64::MAX));
        }
        if own.some_flows.len() < FLOWS_SHOWN_MAX {
            own.some_flows.push(flow);
        }
    }
    let mut all: Vec<Subscriber> = all.into_values().collect();
    all.sort_by_key(|subscriber| std::cmp::Reverse((subscriber.in_flight_bytes, subscriber.flows)));
    all.truncate(SUBSCRIBERS_MAX);
    all
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn flows_add_up_to_subscribers_and_the_busiest_come_first() {
        let flow = |client: &str, state: &str, in_flight_bytes, srtt_us| FlowLine {
            client: client.parse().unwrap(),
            server: "192.0.2.1:80".parse().unwrap(),
            direction: "downlink".to_owned(),
            state: state.to_owned(),
            debt_bytes: 10,
            held_bytes: 0,
            in_flight_bytes,
            srtt_us,
            client_window_bytes: 0,
            subscriber_rate_bps: Some(u64::MAX),
            idle_ms: 0,
        };
        let mut flows = vec![flow("10.0.0.1:1", "accelerated", 5, None)];
        flows.extend((0..30).map(|_| flow("10.0.0.2:1", "control", 1, Some(40))));
        flows.extend((3..80).map(|n| flow(&format!("10.0.0.{n}:1"), "accelerated", 0, None)));
        let all = subscribers(flows);
        assert_eq!(all.len(), SUBSCRIBERS_MAX);
        let first = &all[0];
        assert_eq!((first.address.as_str(), first.flows, first.control_flows), ("10.0.0.2", 30, 30));
        assert_eq!((first.in_flight_bytes, first.debt_bytes, first.srtt_us), (30, 300, Some(40)));
        assert_eq!((first.rate_bps, first.some_flows.len()), (None, FLOWS_SHOWN_MAX));
        assert_eq!(all[1].address, "10.0.0.1");
    }
}
