//! [`sentence`]: what a scenario shows, in one sentence made from its figures.

use figures::stats::{Moments, mean_interval};
use scenario::results::{CaseResult, Figures, ScenarioResult};

use crate::summary::grouped;

/// One sentence that compares the cases: throughput, then delay, then whether every byte arrived right.
///
/// The best accelerated case is compared with the fastest direct one, by their means over the seeds that both
/// have run; where it is not faster the sentence begins with that. Where only one kind was run, the best of
/// the others is compared with the first.
#[must_use]
pub fn sentence(result: &ScenarioResult) -> String {
    let groups: Vec<Group<'_>> =
        grouped(result).into_iter().map(Group::of).filter(|group| !group.runs.is_empty()).collect();
    let Some(first) = groups.first() else { return "No case was run.".to_owned() };
    let (accelerated, direct): (Vec<&Group<'_>>, Vec<&Group<'_>>) =
        groups.iter().partition(|group| group.is_accelerated);
    let others: Vec<&Group<'_>> = groups.iter().filter(|group| group.name != first.name).collect();
    let mut text = match (best(&accelerated), fastest(&direct)) {
        (Some(case), Some(base)) => compared(case, base, direct.len()),
        _ => match best(&others) {
            Some(case) => compared(case, first, 1),
            None => alone(first),
        },
    };
    text += &hashes(result);
    text
}

/// The one to beat: a shorter queue does not make up for throughput here.
fn fastest<'a, 'g>(groups: &[&'g Group<'a>]) -> Option<&'g Group<'a>> {
    let rate = |group: &Group<'_>| group.mean(|f| f.transfer.goodput_mbps);
    groups.iter().copied().max_by(|a, b| rate(a).total_cmp(&rate(b)))
}

fn best<'a, 'g>(groups: &[&'g Group<'a>]) -> Option<&'g Group<'a>> {
    groups.iter().copied().max_by(|a, b| a.merit().total_cmp(&b.merit()))
}

/// All runs of one case that have figures.
struct Group<'a> {
    name: &'a str,
    is_accelerated: bool,
    runs: Vec<(u64, &'a CaseResult, &'a Figures)>,
}

impl<'a> Group<'a> {
    fn of((name, cases): (&'a str, Vec<&'a CaseResult>)) -> Self {
        let is_accelerated =
            cases.first().is_some_and(|case| case.settings.accelerator.enabled.unwrap_or(false));
        let figures = |case: &'a CaseResult| Some((case.seed, case, case.figures.as_ref()?));
        Self { name, is_accelerated, runs: cases.into_iter().filter_map(figures).collect() }
    }

    fn mean(&self, value: impl Fn(&Figures) -> f64) -> f64 {
        self.runs.iter().map(|(_, _, f)| value(f)).sum::<f64>() / self.runs.len().max(1) as f64
    }

    /// Merit of a case: throughput first, less delay between equals.
    fn merit(&self) -> f64 {
        let delay_ms = self.mean(|f| f.radio.queue_delay_ms.p95);
        self.mean(|f| f.transfer.goodput_mbps) / (1.0 + delay_ms / 10_000.0)
    }

    /// The same case with the seeds that `other` has as well; with all of them where none is shared.
    fn shared_with(&self, other: &Self) -> Self {
        let is_shared = |seed: u64| other.runs.iter().any(|run| run.0 == seed);
        let any = self.runs.iter().any(|run| is_shared(run.0));
        let runs = self.runs.iter().filter(|run| !any || is_shared(run.0)).copied().collect();
        Self { runs, ..*self }
    }

    fn rates(&self) -> Vec<f64> {
        self.runs.iter().map(|(_, _, f)| f.transfer.goodput_mbps).collect()
    }
}

/// Relation of one throughput to another.
#[derive(Clone, Copy, PartialEq)]
enum Comparison {
    More,
    Same,
    /// Different, but not more than seeds differ by.
    Chance,
    Less,
}

/// Least share of the throughput, and factor by which the queue is shorter, from which less delay is stated
/// first.
const ABOUT_AS_MUCH: f64 = 0.95;
const SHORTER: f64 = 2.0;

/// Between these two means are called the same.
const SAME: core::ops::Range<f64> = 0.985..1.015;

fn comparison(rates: &[f64], base: &[f64], ratio: f64) -> Comparison {
    let differences: Vec<f64> = rates.iter().zip(base).map(|(a, b)| a - b).collect();
    let is_chance = mean_interval(&differences).is_some_and(|(low, high)| low <= 0.0 && high >= 0.0);
    match ratio {
        r if SAME.contains(&r) => Comparison::Same,
        _ if is_chance => Comparison::Chance,
        r if r > 1.0 => Comparison::More,
        _ => Comparison::Less,
    }
}

/// `case` against `base`, the best of `controls` direct cases.
fn compared(case: &Group<'_>, base: &Group<'_>, controls: usize) -> String {
    let (case, base) = (case.shared_with(base), base.shared_with(case));
    let (rates, base_rates) = (case.rates(), base.rates());
    let mean = |group: &Group<'_>| group.mean(|f| f.transfer.goodput_mbps);
    let (rate, base_rate) = (mean(&case), mean(&base));
    let ratio = if base_rate > 0.0 { rate / base_rate } else { f64::INFINITY };
    let comparison = comparison(&rates, &base_rates, ratio);
    let seeds = rates.len();
    let named = if controls > 1 {
        format!("{}, the best of {controls} direct cases,", base.name)
    } else {
        base.name.to_owned()
    };
    let named_last = named.trim_end_matches(',');
    let own = with_spread(&base_rates);
    let delivers = format!("{} delivers {} Mbit/s", case.name, with_spread(&rates));
    let delivers =
        if seeds > 1 { format!("{delivers} (mean of {seeds} seeds ± their deviation)") } else { delivers };
    let delays = [&case, &base].map(|group| group.mean(|f| f.radio.queue_delay_ms.p95));
    let is_shorter = ratio >= ABOUT_AS_MUCH && delays[0] * SHORTER <= delays[1];
    let mut text = match comparison {
        _ if !case.is_accelerated || base.is_accelerated || comparison == Comparison::More => {
            capitalised(&delivers)
        }
        _ if is_shorter => format!("Less delay: {}; {delivers}", queued(delays)),
        Comparison::Less => format!("Less throughput: {delivers}"),
        _ => format!("No gain in throughput: {delivers}"),
    };
    text += &match comparison {
        Comparison::More if ratio >= 1.5 => format!(", {ratio:.1} times the {own} Mbit/s of {named_last}"),
        Comparison::More => format!(", {:.0} % more than {named} with {own}", 100.0 * (ratio - 1.0)),
        Comparison::Same => format!(", as much as {named} with {own}"),
        Comparison::Chance => {
            format!(", which {seeds} seeds cannot tell from the {own} of {named_last}")
        }
        Comparison::Less => format!(", {:.0} % less than {named} with {own}", 100.0 * (1.0 - ratio)),
    };
    text += &used_of_the_link(&case, &base);
    // What it begins with is not said twice.
    if !text.starts_with("Less delay") {
        text += &format!("; {}", queued(delays));
    }
    text
}

/// Share of the link that is used.
fn used_of_the_link(case: &Group<'_>, base: &Group<'_>) -> String {
    let used = |group: &Group<'_>| {
        let all = group.runs.iter().all(|(_, _, f)| f.radio.utilisation.is_some());
        all.then(|| 100.0 * group.mean(|f| f.radio.utilisation.unwrap_or_default()))
    };
    let both = used(case).zip(used(base));
    both.map_or_else(String::new, |(used, base)| {
        format!("; {used:.0} % of the link used against {base:.0} %")
    })
}

/// Length of the queue, of a case and of what it is compared with.
fn queued([delay_ms, base_delay_ms]: [f64; 2]) -> String {
    format!("95 % of packets queued for at most {delay_ms:.0} ms against {base_delay_ms:.0} ms")
}

/// A mean, and the standard deviation where there is one.
fn with_spread(values: &[f64]) -> String {
    Moments::of(values.iter().copied()).map_or_else(|| "–".to_owned(), |moments| format!("{moments:.2}"))
}

fn alone(group: &Group<'_>) -> String {
    let mut text = format!("{} delivers {} Mbit/s", capitalised(group.name), with_spread(&group.rates()));
    let Some((_, case, f)) = group.runs.first() else { return text };
    if let Some(used) = f.radio.utilisation {
        text += &format!(", {:.0} % of what the link offers", 100.0 * used);
    }
    if let Some((window, limit_mbps, rtt_ms)) = window_limit(case, f) {
        text += &format!(
            ": a receive window of {:.1} KB over a round trip of {rtt_ms:.0} ms allows {limit_mbps:.2}",
            window as f64 / 1e3
        );
    }
    text
}

/// Window, the rate it allows and the round trip, when that is what holds the case back.
fn window_limit(case: &CaseResult, f: &Figures) -> Option<(u64, f64, f64)> {
    let radio = &case.settings.radio;
    let ms = |q: Option<scenario::Quantity<units::Duration>>| q.map_or(0.0, |q| q.0.as_millis_f64());
    let (down, up) = (radio.down.as_ref()?, radio.up.as_ref());
    let rtt_ms = 2.0 * ms(case.settings.wan.delay) + ms(down.delay) + ms(up.and_then(|u| u.delay));
    let window = f.window?.max_bytes;
    let limit_mbps = window as f64 * 8.0 / rtt_ms.max(0.1) / 1e3;
    let is_limit = (0.6..1.1).contains(&(f.transfer.goodput_mbps / limit_mbps));
    is_limit.then_some((window, limit_mbps, rtt_ms))
}

fn hashes(result: &ScenarioResult) -> String {
    let ran: Vec<(&CaseResult, &Figures)> =
        result.cases.iter().filter_map(|case| Some((case, case.figures.as_ref()?))).collect();
    let is_planned = |(case, figures): &(&CaseResult, &Figures)| {
        figures.transfer.cut_short && case.settings.workload.ends_at_limit == Some(true)
    };
    let wrong = ran.iter().filter(|run| !run.1.transfer.hashes_equal && !is_planned(run));
    let mut wrong: Vec<&str> = wrong.map(|(case, _)| case.name.as_str()).collect();
    wrong.dedup();
    match wrong.as_slice() {
        [] if ran.iter().any(is_planned) => "; the time limit ended transfers, as planned.".to_owned(),
        [] if ran.len() == 1 => "; the file arrived unchanged.".to_owned(),
        [] => "; every file arrived unchanged.".to_owned(),
        names => format!("; the file did NOT arrive whole in: {}.", names.join(", ")),
    }
}

fn capitalised(name: &str) -> String {
    let mut letters = name.chars();
    letters.next().map_or_else(String::new, |first| first.to_uppercase().chain(letters).collect())
}

#[cfg(test)]
mod tests;
