//! A comparison as table, chart and page.

use figures::chart::{Axis, Chart, Ink, Mark, Point, Range, Series};
use figures::{Table, page as page_of};
use maud::html;

use crate::effect::{DatasetComparison, Effect, SUBSCRIBERS_MIN, SUBSCRIBERS_MIN_P95, Verdict};

/// A row per measure: before, after, change with its interval, and what that says.
#[must_use]
pub fn table(comparison: &DatasetComparison) -> Table {
    let number = |value: Option<f64>| value.map_or_else(|| NONE.to_owned(), digits);
    let difference = |effect: &Effect| with_interval(effect.difference, effect.difference_interval, &signed);
    let percent = |value: f64| format!("{value:+.1}");
    let change =
        |effect: &Effect| with_interval(effect.change_percent, effect.change_interval_percent, &percent);
    Table::of(
        &comparison.effects,
        &[
            ("measure", "", &|effect| format!("{}, {}", effect.measure.name(), effect.unit)),
            ("flows", "before", &|effect| effect.flows[0].to_string()),
            ("flows", "after", &|effect| effect.flows[1].to_string()),
            ("before", "", &|effect| number(effect.before)),
            ("after", "", &|effect| number(effect.after)),
            ("difference", "95 % interval", &difference),
            ("change, %", "95 % interval", &change),
            ("verdict", "", &|effect| effect.verdict.name().to_owned()),
        ],
    )
}

/// Text where there is no value.
const NONE: &str = "-";

fn with_interval(value: Option<f64>, interval: Option<[f64; 2]>, show: &dyn Fn(f64) -> String) -> String {
    match (value.map(show), interval.map(|ends| ends.map(show))) {
        (Some(value), Some([low, high])) => format!("{value} ({low} to {high})"),
        (Some(value), None) => value,
        (None, _) => NONE.to_owned(),
    }
}

/// Three digits that matter.
fn digits(value: f64) -> String {
    match value.abs() {
        size if size >= 100.0 => format!("{value:.0}"),
        size if size >= 10.0 => format!("{value:.1}"),
        size if size >= 1.0 => format!("{value:.2}"),
        0.0 => "0".to_owned(),
        _ => format!("{value:.3}"),
    }
}

fn signed(value: f64) -> String {
    let text = digits(value);
    if value > 0.0 { format!("+{text}") } else { text }
}

/// The changes in percent with their intervals, a place per measure.
#[must_use]
pub fn chart(comparison: &DatasetComparison) -> Chart {
    let names = comparison.effects.iter().map(|effect| effect.measure.short_name());
    let of = |verdict: Verdict, ink: Ink| {
        let points = comparison.effects.iter().enumerate().filter(|(_, effect)| effect.verdict == verdict);
        let point = |(place, effect): (usize, &Effect)| {
            let (x, y) = ((place + 1) as f64, effect.change_percent?);
            Some(match effect.change_interval_percent {
                Some([low, high]) => Point::within(x, y, low, high),
                None => Point::new(x, y),
            })
        };
        Series::new(verdict.name(), ink, Mark::Dots, points.filter_map(point))
    };
    let zero = [Point::new(0.5, 0.0), Point::new(comparison.effects.len() as f64 + 0.5, 0.0)];
    let series: Vec<Series> = [
        Series::new("", Ink::Limit, Mark::Line, zero),
        of(Verdict::Better, Ink::Colour(2)),
        of(Verdict::Worse, Ink::Bad),
        of(Verdict::Unclear, Ink::Plain),
        of(Verdict::TooFew, Ink::Plain),
    ]
    .into_iter()
    .filter(|series| !series.points.is_empty())
    .collect();
    let ends = series.iter().flat_map(|series| &series.points).flat_map(|point| {
        let (low, high) = point.around.unwrap_or((point.y, point.y));
        [low, high]
    });
    let (low, high) = ends.fold((0.0_f64, 0.0_f64), |(low, high), end| (low.min(end), high.max(end)));
    let room = ((high - low) * 0.08).max(1.0);
    Chart {
        note: said(comparison),
        made_by: format!(
            "cellerator analyze --compare {} {}",
            comparison.before.dataset, comparison.after.dataset
        ),
        ..Chart::new("After against before", Axis::places("", names))
    }
    .panel(Axis::linear("Change, %").over(Range::Between(low - room, high + room)), series)
}

/// Description of the comparison, in a line.
fn said(comparison: &DatasetComparison) -> String {
    let side = |name: &str, side: &crate::effect::Side| {
        format!("{name}: {} flows of {} subscribers", side.flows, side.subscribers)
    };
    format!(
        "{} · {} · {} in both · 95\u{a0}% intervals by bootstrap over subscribers, {} samples",
        side("before", &comparison.before),
        side("after", &comparison.after),
        comparison.subscribers_in_both,
        comparison.samples
    )
}

/// Meaning of `too few`.
fn too_few() -> String {
    format!(
        "Too few: fewer than {SUBSCRIBERS_MIN} subscribers have such flows, before or after ({SUBSCRIBERS_MIN_P95} for \
         the 95th percentile of completion)."
    )
}

/// Notes for a reader of the table on a terminal, in lines.
#[must_use]
pub fn notes(comparison: &DatasetComparison) -> String {
    let parts = said(comparison).replace(" · ", "\n  ");
    let mut notes = format!("  {parts}\n");
    if comparison.effects.iter().any(|effect| effect.verdict == Verdict::TooFew) {
        notes += &format!("  {}\n", too_few());
    }
    notes
}

/// One page with the chart and the table.
#[must_use]
pub fn page(comparison: &DatasetComparison) -> String {
    let look = |field: &str| (field == "worse").then_some("bad");
    let body = html! {
        p { (comparison.before.dataset) " → " (comparison.after.dataset) }
        (chart(comparison).figure())
        (table(comparison).html(&|_| None, &look))
        p {
            "Goodput is of flows of 100 KB and more. Completion is of flows that both ends closed. Figures \
             of a flow are of the direction with more data. A verdict needs an interval of the difference \
             without zero. " (too_few())
        }
    };
    page_of::page("What the change did", "", &body)
}
