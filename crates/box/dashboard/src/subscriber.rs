//! [`Watched`]: a subscriber that some page shows, ten times a second.
//!
//! A look asks for the subscriber alone, behind the last place of the table of flows: that takes the packet loop the
//! same time however many flows there are. Its flows are asked for twice a second, at a thousand places of the table at
//! a time.

use std::collections::VecDeque;
use std::net::IpAddr;
use std::sync::{Mutex, MutexGuard, PoisonError};

use bytes::Bytes;
use io::Clock;
use run::{FlowLine, OpaqueLine, PassedLine};
use serde::Serialize;
use tokio::sync::watch;
use top::{Ask, History, Moment, Reply, Sample, Source, TopError};
use units::{Duration, Instant};

use crate::line::Line;

/// Behind all places of any table of flows.
const NO_FLOWS: u64 = u64::MAX;

/// Time between two looks at its flows, each at a part of the table.
const FLOWS_EVERY: Duration = Duration::from_millis(500);

/// Flows that are shown.
const FLOWS_SHOWN_MAX: usize = 50;

/// A minute of looks, and some.
const POINTS_MAX: usize = 620;

/// Subscriber that is looked at: the accelerator's name, and its address.
pub(crate) type Key = (String, IpAddr);

/// Facts known beside the points.
#[derive(Clone, Debug, Serialize)]
struct Detail {
    is_known: bool,
    flow_count: usize,
    is_whole: bool,
    held_bytes: u64,
    opaque: Option<OpaqueLine>,
    flows: Vec<FlowLine>,
    passed: Vec<PassedLine>,
}

/// State of it for pages.
#[derive(Default)]
pub(crate) struct Watched {
    ring: Mutex<Ring>,
    news: watch::Sender<()>,
}

#[derive(Default)]
struct Ring {
    points: VecDeque<Moment>,
    detail: Option<serde_json::Value>,
    /// Counts up with each new detail.
    details: u64,
}

/// Newest points and details that a page has had.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Had {
    at_ms: u64,
    details: u64,
}

#[derive(Serialize)]
struct Event<'a> {
    points: Vec<Moment>,
    #[serde(skip_serializing_if = "Option::is_none")]
    detail: Option<&'a serde_json::Value>,
}

impl Watched {
    fn ring(&self) -> MutexGuard<'_, Ring> {
        self.ring.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Channel that announces that there is something new.
    pub fn news(&self) -> watch::Receiver<()> {
        let mut news = self.news.subscribe();
        news.mark_changed();
        news
    }

    /// News for a page that has `had` the rest, as JSON; the first time the last minute.
    pub fn since(&self, had: &mut Had) -> Option<Bytes> {
        let ring = self.ring();
        let points: Vec<Moment> =
            ring.points.iter().filter(|point| point.at_ms > had.at_ms).copied().collect();
        let detail = ring.detail.as_ref().filter(|_| ring.details > had.details);
        had.at_ms = points.last().map_or(had.at_ms, |point| point.at_ms);
        had.details = ring.details;
        if points.is_empty() && detail.is_none() {
            return None;
        }
        serde_json::to_vec(&Event { points, detail }).ok().map(Bytes::from)
    }
}

/// The side that asks.
#[derive(Default)]
pub(crate) struct Watching {
    history: History,
    flows_from: u64,
    next_flows: Instant,
}

impl Watching {
    /// Looks at the subscriber, and shows what is new.
    ///
    /// # Errors
    /// Nobody can be asked.
    pub fn look(&mut self, gate: &mut Line, key: &Key, shown: &Watched) -> Result<(), TopError> {
        let now = Clock::now();
        let are_flows_due = now >= self.next_flows;
        let from = if are_flows_due { self.flows_from } else { NO_FLOWS };
        let (name, client) = key.clone();
        let told = gate.ask(&Ask::Subscriber { name: name.clone(), client, from })?;
        // An accelerator that ends, or is too old: the page stands still.
        let Reply::Subscriber(view) = told else { return Ok(()) };
        let are_flows_over = are_flows_due && view.next.is_none();
        if are_flows_due {
            self.next_flows = now + FLOWS_EVERY;
            self.flows_from = view.next.unwrap_or(0);
        }
        self.history.add(Sample {
            at_ms: Clock::now().as_millis(),
            name: Some(name),
            client: Some(client),
            subscriber: Some(*view),
            are_flows_over,
            ..Sample::default()
        });
        self.note_point(shown);
        if are_flows_due {
            self.note_detail(shown);
        }
        // Nobody may be there any more.
        shown.news.send_replace(());
        Ok(())
    }

    fn note_point(&self, shown: &Watched) {
        let detail = self.history.detail.as_ref().filter(|detail| detail.row.is_some());
        let Some(moment) = detail.and_then(|detail| detail.moments.back()) else { return };
        let mut ring = shown.ring();
        if ring.points.len() >= POINTS_MAX {
            ring.points.pop_front();
        }
        ring.points.push_back(*moment);
    }

    fn note_detail(&self, shown: &Watched) {
        let Some(own) = &self.history.detail else { return };
        let line = own.row.as_ref().map(|row| &row.line);
        let detail = Detail {
            is_known: line.is_some(),
            flow_count: line.map_or(0, |line| line.flows as usize),
            is_whole: own.is_whole,
            held_bytes: line.map_or(0, |line| line.held_bytes),
            opaque: line.and_then(|line| line.opaque.clone()),
            flows: own.flows().take(FLOWS_SHOWN_MAX).cloned().collect(),
            passed: own.passed.iter().take(FLOWS_SHOWN_MAX).cloned().collect(),
        };
        let mut ring = shown.ring();
        ring.detail = serde_json::to_value(&detail).ok();
        ring.details += 1;
    }
}
