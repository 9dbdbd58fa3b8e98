//! [`gather`], [`table`]: what there is at a moment, for programs and for paper.

use io::{Clock, Waiter};
use serde::Serialize;
use units::Duration;

use crate::app::Column;
use crate::history::{History, Row};
use crate::totals::Totals;
use crate::view::{bits_per_s, bytes, duration_s, micros, subscriber_figures};
use crate::{Ask, Focus, Reply, Sampler, Source, TopError};

/// Parts of the table of subscribers that are asked for: 256 places each.
const PARTS_MAX: usize = 256;

/// Running accelerators and their subscribers, with rates over an interval.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Report {
    /// Version of this program.
    pub version: String,
    /// Time that rates are of, ms.
    pub interval_ms: u64,
    /// The accelerators that run, by their names.
    pub accelerators: Vec<ReportOf>,
}

/// A running accelerator.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct ReportOf {
    /// Its name.
    pub name: String,
    /// The program's version; none when it did not answer, as with all that follows.
    pub version: Option<String>,
    /// Method by which packets are steered into the process.
    pub steering: Option<String>,
    /// Time since its start, seconds.
    pub uptime_s: Option<u64>,
    /// It was asked to stop and delivers what it owes.
    pub is_draining: Option<bool>,
    /// It steers nothing, and says why as its trouble.
    #[serde(skip)]
    pub is_standing_by: bool,
    /// Levels, and rates over the interval.
    pub totals: Option<Totals>,
    /// Its subscribers, those that get most first.
    pub subscribers: Vec<Row>,
    /// All subscribers are there: more than 65,536 places of the table are not looked at.
    pub is_whole: bool,
    /// Problem that left figures unknown, and its cause.
    pub trouble: Option<String>,
}

/// Takes two samples of each accelerator that `source` knows, an interval apart.
///
/// # Errors
/// Nobody can be asked.
pub fn gather<S: Source>(mut source: S, interval: Duration) -> Result<Report, TopError> {
    let names = match source.ask(&Ask::Names)? {
        Reply::Names(names) => names,
        Reply::Refused(why) => return Err(TopError::Accelerator(why)),
        _ => return Err(TopError::Accelerator("an answer to another question came".to_owned())),
    };
    let mut sampler = Sampler::new(source).with_parts(PARTS_MAX);
    let mut histories = vec![History::default(); names.len()];
    let mut waiter = Waiter::new(Duration::ZERO).map_err(|error| TopError::Accelerator(error.to_string()))?;
    let began = Clock::now();
    for round in 0..2 {
        let due = began + interval * round;
        while Clock::now() < due {
            waiter.wait(Some(due)).map_err(|error| TopError::Accelerator(error.to_string()))?;
        }
        for (name, history) in names.iter().zip(&mut histories) {
            let focus = Focus { name: Some(name.clone()), client: None };
            let sample = sampler.sample(&focus)?;
            // One that has ended meanwhile has others in its place.
            if sample.name.as_ref() == Some(name) {
                history.add(sample);
            }
        }
    }
    let accelerators = names.into_iter().zip(&histories).map(|(name, of)| ReportOf::of(name, of)).collect();
    let version = env!("CARGO_PKG_VERSION").to_owned();
    Ok(Report { version, interval_ms: interval.as_millis(), accelerators })
}

impl ReportOf {
    fn of(name: String, history: &History) -> Self {
        let snapshot = history.last.as_ref().map(|(snapshot, _)| snapshot);
        let mut subscribers: Vec<Row> = history.rows().cloned().collect();
        subscribers.sort_by_key(|row| std::cmp::Reverse(row.delivered_bps));
        Self {
            name,
            version: snapshot.map(|it| it.version.clone()),
            steering: snapshot.map(|it| it.steering.clone()),
            uptime_s: snapshot.map(|it| it.uptime_ms / 1_000),
            is_draining: snapshot.map(|it| it.is_draining),
            is_standing_by: snapshot.is_some_and(|it| !it.stands_by.is_empty()),
            totals: history.totals.back().cloned(),
            subscribers,
            is_whole: history.is_whole,
            trouble: history.trouble.clone(),
        }
    }
}

/// The same as text.
#[must_use]
pub fn table(report: &Report) -> Vec<String> {
    let mut lines = Vec::new();
    for of in &report.accelerators {
        let what = match of.is_draining {
            _ if of.is_standing_by => "standing by",
            Some(true) => "draining",
            _ => "running",
        };
        let uptime = of.uptime_s.map_or("-".to_owned(), duration_s);
        let totals = of.totals.clone().unwrap_or_default();
        let flows: u64 = totals.flows.values().sum();
        lines.push(format!(
            "{}: {what} for {uptime}; {flows} flows, {} subscribers; to clients {}, to servers {}, queue {}, RTT {}, \
             sent again {}, held {}",
            of.name,
            totals.subscribers,
            bits_per_s(totals.downlink_goodput_bps),
            bits_per_s(totals.uplink_goodput_bps),
            micros(totals.queueing_us),
            micros(totals.round_trip_us),
            bits_per_s(totals.retransmitted_bps),
            bytes(totals.held_bytes),
        ));
        lines.extend(of.trouble.iter().map(|why| format!("  {why}")));
        if !of.subscribers.is_empty() {
            let [address, figures @ ..] = Column::ALL.map(|column| column.name().to_owned());
            lines.push(columns(&address, &figures));
        }
        let line = |row: &Row| columns(&row.line.address.to_string(), &subscriber_figures(row));
        lines.extend(of.subscribers.iter().map(line));
    }
    lines
}

fn columns(address: &str, figures: &[String; 6]) -> String {
    let figures = figures.iter().map(|figure| format!(" {figure:>11}"));
    format!("  {address:<20}{}", figures.collect::<String>())
}
