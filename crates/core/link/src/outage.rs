//! [`OutageModel`]: times at which nothing is served.

use units::Duration;

use crate::LinkError;
use crate::random::{Stage, Stream};

/// Model of the times at which the link serves nothing. Packets go on queueing; what the capacity
/// offered is lost.
#[derive(Clone, Debug, PartialEq, Eq, Default)]
pub enum OutageModel {
    /// Never.
    #[default]
    None,
    /// Outages at given times since the start: begin and length, in order, not overlapping.
    Scheduled(Vec<(Duration, Duration)>),
    /// Regularly.
    Periodic {
        /// Begin of the first one.
        first: Duration,
        /// Time from begin to begin.
        period: Duration,
        /// Length of each, shorter than `period`.
        length: Duration,
    },
    /// Outages at random: exponentially distributed gaps and lengths.
    Random {
        /// Mean time from the end of one to the begin of the next.
        gap_mean: Duration,
        /// Mean length.
        length_mean: Duration,
    },
}

impl OutageModel {
    /// # Errors
    ///
    /// [`LinkError::Setting`] for lists out of order, periods not longer than the outage, means of zero.
    pub(crate) fn check(&self, setting: &'static str) -> Result<(), LinkError> {
        let wrong = |problem: String| Err(LinkError::setting(setting, problem));
        match self {
            Self::None => Ok(()),
            Self::Scheduled(list) => {
                let mut end = Duration::ZERO;
                for (index, &(begin, length)) in list.iter().enumerate() {
                    if begin < end {
                        return wrong(format!("number {} begins before the previous one ends", index + 1));
                    }
                    end = begin + length;
                }
                Ok(())
            }
            Self::Periodic { period, length, .. } if length >= period => {
                wrong(format!("length {length} must be shorter than period {period}"))
            }
            Self::Random { gap_mean, length_mean } if gap_mean.is_zero() || length_mean.is_zero() => {
                wrong("mean gap and mean length must be above zero".to_owned())
            }
            Self::Periodic { .. } | Self::Random { .. } => Ok(()),
        }
    }
}

/// The outages of one run in order of time.
#[derive(Clone, Debug)]
struct Schedule {
    model: OutageModel,
    random: Stream,
    issued: u64,
    last_end: Duration,
}

impl Iterator for Schedule {
    type Item = (Duration, Duration);

    fn next(&mut self) -> Option<Self::Item> {
        let (begin, end) = match &self.model {
            OutageModel::None => return None,
            OutageModel::Scheduled(list) => {
                let &(begin, length) = list.get(usize::try_from(self.issued).ok()?)?;
                (begin, begin + length)
            }
            OutageModel::Periodic { first, period, length } => {
                let begin = *first + *period * self.issued;
                (begin, begin + *length)
            }
            OutageModel::Random { gap_mean, length_mean } => {
                let begin = self.last_end + scaled(*gap_mean, self.random.exponential());
                (begin, begin + scaled(*length_mean, self.random.exponential()))
            }
        };
        if begin == Duration::MAX {
            return None;
        }
        self.issued += 1;
        self.last_end = end;
        Some((begin, end))
    }
}

/// `mean · factor`, rounded down to a nanosecond.
fn scaled(mean: Duration, factor: f64) -> Duration {
    Duration::from_nanos((mean.as_nanos() as f64 * factor) as u64)
}

/// Answers where the outages are, for questions whose time never goes back.
#[derive(Clone, Debug)]
pub(crate) struct Outages {
    schedule: Schedule,
    /// The first outage that ends after the last time asked about.
    current: Option<(Duration, Duration)>,
}

impl Outages {
    pub(crate) fn new(model: &OutageModel, seed: u64, stage: Stage) -> Self {
        let random = Stream::new(seed, stage);
        let mut schedule = Schedule { model: model.clone(), random, issued: 0, last_end: Duration::ZERO };
        let current = schedule.next();
        Self { schedule, current }
    }

    /// End of the outage that `t` lies in, if it lies in one.
    pub(crate) fn end_of_outage_at(&mut self, t: Duration) -> Option<Duration> {
        self.advance(t);
        self.current.filter(|(begin, _)| *begin <= t).map(|(_, end)| end)
    }

    /// The next begin of an outage after `t`, where `t` is not in one; [`Duration::MAX`] for none.
    pub(crate) fn next_begin(&mut self, t: Duration) -> Duration {
        self.advance(t);
        self.current.map_or(Duration::MAX, |(begin, _)| begin)
    }

    fn advance(&mut self, t: Duration) {
        while self.current.is_some_and(|(_, end)| end <= t) {
            self.current = self.schedule.next();
        }
    }

    /// The parts of `[from, to)` that are outages.
    pub(crate) fn within(
        mut self,
        from: Duration,
        to: Duration,
    ) -> impl Iterator<Item = (Duration, Duration)> {
        self.advance(from);
        self.current
            .into_iter()
            .chain(self.schedule)
            .take_while(move |(begin, _)| *begin < to)
            .map(move |(begin, end)| (begin.max(from), end.min(to)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ms(n: u64) -> Duration {
        Duration::from_millis(n)
    }

    #[test]
    fn answers_in_and_between_outages() {
        let model = OutageModel::Periodic { first: ms(10), period: ms(100), length: ms(20) };
        let mut outages = Outages::new(&model, 1, Stage::Outage);
        assert_eq!(outages.end_of_outage_at(ms(9)), None);
        assert_eq!(outages.next_begin(ms(9)), ms(10));
        assert_eq!(outages.end_of_outage_at(ms(10)), Some(ms(30)));
        assert_eq!(outages.end_of_outage_at(ms(30)), None);
        assert_eq!(outages.next_begin(ms(30)), ms(110));
        let parts: Vec<_> = Outages::new(&model, 1, Stage::Outage).within(ms(20), ms(115)).collect();
        assert_eq!(parts, [(ms(20), ms(30)), (ms(110), ms(115))]);
    }

    #[test]
    fn random_outages_follow_their_means_and_their_seed() {
        let model = OutageModel::Random { gap_mean: ms(900), length_mean: ms(100) };
        let share = |seed| {
            let total: Duration = Outages::new(&model, seed, Stage::Outage)
                .within(Duration::ZERO, Duration::from_secs(10_000))
                .fold(Duration::ZERO, |sum, (begin, end)| sum + (end - begin));
            total.as_secs_f64() / 10_000.0
        };
        assert!((0.09..0.11).contains(&share(7)), "{}", share(7));
        assert_eq!(share(7).to_bits(), share(7).to_bits());
        assert_ne!(share(7).to_bits(), share(8).to_bits());
    }

    #[test]
    fn impossible_schedules_are_refused() {
        let overlap = OutageModel::Scheduled(vec![(ms(0), ms(10)), (ms(5), ms(10))]);
        assert!(overlap.check("outages").unwrap_err().to_string().contains("number 2"));
        assert!(
            OutageModel::Periodic { first: ms(0), period: ms(5), length: ms(5) }.check("outages").is_err()
        );
        assert!(OutageModel::Random { gap_mean: ms(0), length_mean: ms(5) }.check("outages").is_err());
    }
}
