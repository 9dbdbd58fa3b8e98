//! [`Overview`]: what the page shows of all accelerators, once a second.

use std::collections::BTreeMap;

use bytes::Bytes;
use engine::ControlGroup;
use run::AbReport;
use serde::Serialize;
use top::{Ask, Focus, History, Reply, Row, Sampler, Source, TopError, Totals};

use crate::line::Line;

/// Accelerators that are shown, and subscribers of each: those that get most.
const ACCELERATORS_MAX: usize = 8;
const SUBSCRIBERS_MAX: usize = 50;

/// All accelerators at a moment: an event of the page's, as JSON.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Overview {
    /// The accelerators that run, by their names.
    pub accelerators: Vec<Shown>,
}

/// One of them.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Shown {
    /// Its name.
    pub name: String,
    /// Its version; none while it does not answer.
    pub version: Option<String>,
    /// Its interfaces: towards servers, towards subscribers; none while it does not answer.
    pub interfaces: Option<[String; 2]>,
    /// Time since its start, seconds.
    pub uptime_s: Option<u64>,
    /// It was asked to stop and delivers what it owes.
    pub is_draining: bool,
    /// Levels, and rates since the overview before.
    pub totals: Option<Totals>,
    /// The A/B phase under way, or the last one.
    pub ab: Option<AbReport>,
    /// Subscribers, those that get most first.
    pub subscribers: Vec<Listed>,
    /// All subscribers have been looked at.
    pub is_whole: bool,
    /// Problem that left figures unknown, and its cause.
    pub trouble: Option<String>,
}

/// A subscriber.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Listed {
    /// It, with its rates.
    #[serde(flatten)]
    pub row: Row,
    /// It is in the control group of an A/B phase under way: its new flows pass.
    pub is_control: bool,
}

/// Takes overviews.
#[derive(Default)]
pub(crate) struct Overviews {
    all: BTreeMap<String, Known>,
}

struct Known {
    sampler: Sampler<Line>,
    history: History,
    ab: Option<AbReport>,
}

impl Overviews {
    /// The next one, as JSON.
    ///
    /// # Errors
    /// Nobody can be asked.
    pub fn take(&mut self, gate: &mut Line) -> Result<Bytes, TopError> {
        let mut names = match gate.ask(&Ask::Names)? {
            Reply::Names(names) => names,
            _ => Vec::new(),
        };
        names.truncate(ACCELERATORS_MAX);
        self.all.retain(|name, _| names.contains(name));
        for name in names {
            let new = || Known { sampler: Sampler::new(gate.clone()), history: History::default(), ab: None };
            self.all.entry(name.clone()).or_insert_with(new).look(&name, gate)?;
        }
        let accelerators = self.all.iter().map(|(name, known)| Shown::of(name, known)).collect();
        let json = serde_json::to_vec(&Overview { accelerators }).unwrap_or_else(|_| b"{}".to_vec());
        Ok(json.into())
    }
}

impl Known {
    fn look(&mut self, name: &str, gate: &mut Line) -> Result<(), TopError> {
        let focus = Focus { name: Some(name.to_owned()), client: None };
        let sample = self.sampler.sample(&focus)?;
        // One that has ended meanwhile has others in its place.
        if sample.name.as_deref() == Some(name) {
            self.history.add(sample);
        }
        self.ab = match gate.ask(&Ask::Ab { name: name.to_owned() })? {
            Reply::Ab(report) => Some(*report),
            // There was none since it started.
            _ => None,
        };
        Ok(())
    }
}

impl Shown {
    fn of(name: &str, known: &Known) -> Self {
        let Known { history, ab, .. } = known;
        let snapshot = history.last.as_ref().map(|(snapshot, _)| snapshot);
        let group = ab.as_ref().filter(|ab| ab.phase.is_running);
        let group = group.map(|ab| ControlGroup { seed: u64::from(ab.phase.seed) });
        let mut rows: Vec<&Row> = history.rows().collect();
        rows.sort_by_key(|row| std::cmp::Reverse((row.delivered_bps, row.line.flows)));
        let subscribers = rows.into_iter().take(SUBSCRIBERS_MAX).map(|row| Listed {
            is_control: group.is_some_and(|group| group.contains(row.line.address)),
            row: row.clone(),
        });
        Self {
            name: name.to_owned(),
            version: snapshot.map(|it| it.version.clone()),
            interfaces: snapshot.map(|it| it.interface_names.clone()).filter(|it| !it[0].is_empty()),
            uptime_s: snapshot.map(|it| it.uptime_ms / 1_000),
            is_draining: snapshot.is_some_and(|it| it.is_draining),
            totals: history.totals.back().cloned(),
            ab: ab.clone(),
            subscribers: subscribers.collect(),
            is_whole: history.is_whole,
            trouble: history.trouble.clone(),
        }
    }
}
