//! [`Sampler`]: asks, in few questions, for what is looked at.

use std::net::IpAddr;

use io::Clock;
use run::{Snapshot, SubscriberLine, SubscriberView};
use serde::{Deserialize, Serialize};

use crate::{Ask, Reply, Source, TopError};

/// Parts of the table of subscribers that one sample takes in: 256 places each. Of more subscribers than these one
/// sample after the other shows a part.
const LIST_PARTS_MAX: usize = 4;

/// Parts of the table of flows: 1,000 places each.
const FLOW_PARTS_MAX: usize = 2;

/// Subject of the look.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Focus {
    /// The accelerator; the first one if none is named.
    pub name: Option<String>,
    /// The subscriber whose flows are looked at.
    pub client: Option<IpAddr>,
}

/// State that was found at a moment.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct Sample {
    /// Time, on a clock of the view's own, ms.
    pub at_ms: u64,
    /// The accelerators that run.
    pub names: Vec<String>,
    /// The one that is looked at; none if none runs.
    pub name: Option<String>,
    /// Its counters and levels.
    pub snapshot: Option<Snapshot>,
    /// Part of its subscribers.
    pub subscribers: Vec<SubscriberLine>,
    /// The last one of the table is among them: all have been seen since this was said before.
    pub is_round_over: bool,
    /// The subscriber that is looked at, and part of its flows.
    pub subscriber: Option<SubscriberView>,
    /// Client of those flows.
    pub client: Option<IpAddr>,
    /// The same of its flows.
    pub are_flows_over: bool,
    /// Problem that left figures unknown, and its cause.
    pub trouble: Option<String>,
}

/// Takes samples.
#[derive(Debug)]
pub struct Sampler<S> {
    source: S,
    focus: Focus,
    /// Places at which the next part of the subscribers begins, and that of the flows.
    from: u64,
    flows_from: u64,
    /// Parts of the subscribers in one sample.
    parts_max: usize,
}

impl<S: Source> Sampler<S> {
    /// One that asks `source`.
    #[must_use]
    pub fn new(source: S) -> Self {
        Self { source, focus: Focus::default(), from: 0, flows_from: 0, parts_max: LIST_PARTS_MAX }
    }

    /// Takes in up to `parts_max` parts of the subscribers with each sample, for a view that is to have all.
    #[must_use]
    pub fn with_parts(self, parts_max: usize) -> Self {
        Self { parts_max, ..self }
    }

    /// Takes a sample.
    ///
    /// # Errors
    /// Nobody can be asked.
    pub fn sample(&mut self, focus: &Focus) -> Result<Sample, TopError> {
        let mut sample = Sample { client: focus.client, ..Sample::default() };
        match self.source.ask(&Ask::Names)? {
            Reply::Names(names) => sample.names = names,
            told => sample.note(&told),
        }
        let is_there = |name: &&String| sample.names.contains(name);
        let name = focus.name.as_ref().filter(is_there).or_else(|| sample.names.first()).cloned();
        let new = Focus { name: name.clone(), client: focus.client };
        if self.focus.name != new.name {
            self.from = 0;
        }
        if self.focus != new {
            self.flows_from = 0;
        }
        self.focus = new;
        if let Some(name) = name {
            self.fill(&mut sample, &name)?;
        }
        Ok(sample)
    }

    fn fill(&mut self, sample: &mut Sample, name: &str) -> Result<(), TopError> {
        sample.name = Some(name.to_owned());
        match self.source.ask(&Ask::Metrics { name: name.to_owned() })? {
            Reply::Metrics(snapshot) => {
                if !snapshot.stands_by.is_empty() {
                    sample.trouble = Some(format!("stands by: {}", snapshot.stands_by));
                }
                sample.snapshot = Some(*snapshot);
            }
            told => sample.note(&told),
        }
        sample.at_ms = Clock::now().as_millis();
        for _ in 0..self.parts_max {
            match self.source.ask(&Ask::Subscribers { name: name.to_owned(), from: self.from })? {
                Reply::Subscribers(list) => {
                    sample.subscribers.extend(list.subscribers);
                    self.from = list.next.unwrap_or(0);
                    sample.is_round_over = list.next.is_none();
                }
                told => sample.note(&told),
            }
            if sample.is_round_over || sample.trouble.is_some() {
                break;
            }
        }
        if let Some(client) = sample.client {
            self.fill_subscriber(sample, name, client)?;
        }
        Ok(())
    }

    fn fill_subscriber(&mut self, sample: &mut Sample, name: &str, client: IpAddr) -> Result<(), TopError> {
        let mut flows = Vec::new();
        for _ in 0..FLOW_PARTS_MAX {
            let question = Ask::Subscriber { name: name.to_owned(), client, from: self.flows_from };
            match self.source.ask(&question)? {
                Reply::Subscriber(mut view) => {
                    flows.append(&mut view.flows);
                    self.flows_from = view.next.unwrap_or(0);
                    sample.are_flows_over = view.next.is_none();
                    sample.subscriber = Some(*view);
                }
                told => sample.note(&told),
            }
            if sample.are_flows_over || sample.trouble.is_some() {
                break;
            }
        }
        if let Some(view) = sample.subscriber.as_mut() {
            view.flows = flows;
        }
        Ok(())
    }
}

impl Sample {
    /// An answer to another question, or none.
    fn note(&mut self, told: &Reply) {
        let why = match told {
            Reply::Refused(why) => why.clone(),
            _ => "an answer to another question came".to_owned(),
        };
        self.trouble.get_or_insert(why);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use run::SubscriberList;

    /// Answers with parts of one subscriber each, of this number.
    struct Many(u64, Vec<Ask>);

    impl Source for Many {
        fn ask(&mut self, question: &Ask) -> Result<Reply, TopError> {
            self.1.push(question.clone());
            Ok(match question {
                Ask::Names => Reply::Names(vec!["a".to_owned(), "b".to_owned()]),
                Ask::Subscribers { from, .. } => Reply::Subscribers(SubscriberList {
                    subscribers: Vec::new(),
                    next: Some(from + 1).filter(|next| *next < self.0),
                }),
                Ask::Subscriber { .. } => Reply::Subscriber(Box::default()),
                Ask::Metrics { name } if name == "a" => Reply::Metrics(Box::default()),
                Ask::Metrics { name } | Ask::Ab { name } => Reply::Refused(format!("'{name}' does not run")),
            })
        }
    }

    #[test]
    fn a_sample_is_few_questions_and_the_next_goes_on() {
        let mut sampler = Sampler::new(Many(6, Vec::new()));
        let focus = Focus::default();
        let mut over = || {
            sampler.source.1.clear();
            let sample = sampler.sample(&focus).unwrap();
            assert!(sampler.source.1.len() <= 2 + LIST_PARTS_MAX);
            (sample.is_round_over, sample.name)
        };
        let a = Some("a".to_owned());
        assert_eq!([over(), over(), over()], [(false, a.clone()), (true, a.clone()), (false, a)]);
    }

    #[test]
    fn another_accelerator_or_subscriber_is_looked_at_from_its_beginning() {
        let mut sampler = Sampler::new(Many(100, Vec::new()));
        let mut focus = Focus { name: Some("b".to_owned()), client: None };
        let sample = sampler.sample(&focus).unwrap();
        assert_eq!(sample.trouble.as_deref(), Some("'b' does not run"));
        assert_eq!(sampler.from, 1, "an accelerator in trouble is not asked further");
        focus.name = Some("gone".to_owned());
        focus.client = Some([10, 0, 0, 1].into());
        sampler.source.1.clear();
        let sample = sampler.sample(&focus).unwrap();
        assert_eq!(sample.name.as_deref(), Some("a"));
        assert!(sampler.source.1.contains(&Ask::Subscribers { name: "a".to_owned(), from: 0 }));
        assert!(sample.are_flows_over && sample.subscriber.is_some());
    }
}
