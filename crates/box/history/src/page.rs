//! Pages of a [`Report`]: all of it, and one sheet of it for who decides.

use std::collections::BTreeSet;

use figures::Table;
use figures::chart::{Axis, Chart, Ink, Mark, Point, Range, Series};
use figures::page;
use maud::{Markup, html};
use run::{AbGroup, AbReport};

use crate::ab;
use crate::format::{NONE, at_most, bytes, clock, mbits, or_none, percent, span};
use crate::report::{ClassFigures, PassedFigures, Report, SlicePoint, Verdict, share};

/// Styles that the pages need beside the house's styles.
const OWN_STYLE: &str = "
.tiles { display: grid; grid-template-columns: repeat(auto-fit, minmax(max(10.5rem, 25% - .8rem), 1fr)); gap: .8rem; margin: 1rem 0; }
.tile { background: var(--card); padding: .7rem .9rem; border-radius: 4px; }
.tile b { display: block; font-size: 1.5rem; line-height: 1.25; font-variant-numeric: tabular-nums; }
.tile span { color: var(--soft); font-size: .88rem; }
";

/// One sheet of A4.
const SHEET_STYLE: &str = "
@page { size: A4; margin: 14mm 15mm; }
@media print { html { zoom: .85; } body { font-size: 9pt; line-height: 1.35; } h1 { font-size: 16pt; } h2 { margin: .9rem 0 .1rem; padding-top:
  .5rem; font-size: 11.5pt; } .tiles { grid-template-columns: repeat(4, 1fr); gap: .5rem; margin: .6rem 0; }
  .tile { padding: .4rem .6rem; } .tile b { font-size: 14pt; } th, td { padding: .2rem .5rem; }
  figure { margin: 0 0 .2rem; }
  ul { margin: .2rem 0; padding-left: 1.1rem; } p { margin: .2rem 0; max-width: none; } }
";

impl Report {
    fn title(&self) -> String {
        let asked_ms = self.to_ms.saturating_sub(self.from_ms);
        let of = &self.accelerator;
        if self.is_whole() {
            format!("{of}: {} of live traffic", span(asked_ms))
        } else {
            format!("{of}: {} of live traffic, recorded within {}", span(self.covered_ms), span(asked_ms))
        }
    }

    /// It was recorded throughout, but for less than a minute.
    fn is_whole(&self) -> bool {
        self.covered_ms + 60_000 >= self.to_ms.saturating_sub(self.from_ms)
    }

    fn passed_flows(&self) -> u64 {
        self.passed.flows.values().sum()
    }

    pub(crate) fn resent_share(&self) -> Option<f64> {
        share(self.totals.resent_packets, self.totals.data_packets)
    }

    /// In a sentence or two: what a reader takes away.
    #[must_use]
    pub fn finding(&self) -> String {
        let totals = &self.totals;
        let mut text = format!(
            "{} of {} new flows were accelerated; {} arrived at clients.",
            totals.flows_accelerated,
            totals.flows_accelerated + self.passed_flows(),
            bytes(totals.downlink_bytes)
        );
        if let Some(p95) = totals.queueing_p95_ms {
            text += &format!(" 95 % of round trips waited at most {p95:.0} ms in queues (an estimate).");
        }
        if totals.resent_packets > 0 {
            text += &format!(
                " {} packets were sent again from here, over the mobile segment alone.",
                totals.resent_packets
            );
        }
        for said in self.ab.iter().filter_map(ab::finding) {
            text = text + " " + &said;
        }
        let said = self.before.iter().flat_map(|before| &before.downloads);
        let shown: Vec<String> = said
            .filter(|verdict| ["faster", "slower"].contains(&verdict.says.as_str()))
            .map(|verdict| format!("{} are {}", verdict.size, verdict.says))
            .collect();
        if !shown.is_empty() {
            text += &format!(" Beside the earlier report, downloads {}.", shown.join(", "));
        }
        text
    }

    fn tiles(&self) -> Markup {
        let totals = &self.totals;
        let flows = totals.flows_accelerated + self.passed_flows();
        let accelerated = percent(share(totals.flows_accelerated, flows));
        let tiles = [
            (bytes(totals.downlink_bytes), "delivered to clients".to_owned()),
            (format!("{accelerated} %"), format!("of {flows} new flows accelerated")),
            (format!("{} ms", at_most(totals.queueing_p50_ms)), "half of the times in queues".to_owned()),
            (format!("{} ms", at_most(totals.queueing_p95_ms)), "95 % of the times in queues".to_owned()),
            (format!("{} %", percent(self.resent_share())), "of data packets repaired here".to_owned()),
            (format!("{} Mbit/s", mbits(totals.downlink_max_bps)), "in the busiest slice".to_owned()),
            (totals.subscribers_max.to_string(), "subscribers at most".to_owned()),
            (bytes(totals.undelivered_bytes), "acknowledged and never delivered".to_owned()),
        ];
        html! { div class="tiles" { @for (value, name) in tiles { div class="tile" { b { (value) } span { (name) } } } } }
    }

    fn chart(&self) -> Chart {
        // Where recording has begun later than what was asked for, the picture does, too.
        let first = self.series.first().map(|point| point.at_ms.saturating_sub(point.span_ms));
        let from_ms = first.unwrap_or(self.from_ms).max(self.from_ms);
        // A slice that follows no other one begins anew: a gap is no line.
        let minutes = |ms: u64| ms.saturating_sub(from_ms) as f64 / 60_000.0;
        let of = |name: &str, colour: usize, value: &dyn Fn(&SlicePoint) -> Option<f64>| {
            let mut dots = Vec::new();
            let mut end = None;
            for point in &self.series {
                let begin = point.at_ms.saturating_sub(point.span_ms);
                if end.is_some_and(|end| begin > end + point.span_ms / 2) {
                    dots.push(Point::new(minutes(begin), f64::NAN));
                }
                end = Some(point.at_ms);
                let middle = begin + point.span_ms / 2;
                dots.push(Point::new(minutes(middle), value(point).unwrap_or(f64::NAN)));
            }
            Series::new(name, Ink::Colour(colour), Mark::Dotted, dots)
        };
        let whole = minutes(self.to_ms);
        let x = Axis::linear(&format!("minutes since {}", clock(from_ms))).over(Range::Between(0.0, whole));
        Chart::new("Goodput, time in queues, repairs", x)
            .panel(
                Axis::linear("goodput, Mbit/s"),
                vec![of("to clients", 0, &|point| Some(point.goodput_bps / 1e6))],
            )
            .panel(
                Axis::linear("time in queues, ms (estimated within classes)"),
                vec![
                    of("95 %", 1, &|point| point.queueing_p95_estimate_ms.or(point.queueing_p95_ms)),
                    of("half", 2, &|point| point.queueing_p50_estimate_ms.or(point.queueing_p50_ms)),
                ],
            )
            .panel(
                Axis::linear("sent again, %"),
                vec![of("of data packets", 3, &|point| point.resent_share.map(|share| share * 100.0))],
            )
    }

    /// Downloads that were accelerated, by size.
    #[must_use]
    pub fn downloads(&self) -> Table {
        let interval = |class: &ClassFigures| match class.rate_interval_bps {
            Some([low, high]) => format!("{} to {}", mbits(low), mbits(high)),
            None => NONE.to_owned(),
        };
        Table::of(
            &self.flows.downloads,
            &[
                ("downloads", "", &|class| class.size.clone()),
                ("flows", "", &|class| class.flows.to_string()),
                ("median rate", "Mbit/s", &|class| or_none(class.rate_median_bps, mbits)),
                ("95 % interval", "Mbit/s", &interval),
                ("sent again", "%", &|class| percent(class.resent_share)),
            ],
        )
    }

    /// Flows by what became of them: what is known of accelerated and of passed ones.
    #[must_use]
    pub fn kinds(&self) -> Table {
        let carried = bytes(self.totals.downlink_bytes + self.totals.uplink_bytes);
        let mut rows =
            vec![vec!["accelerated".to_owned(), self.totals.flows_accelerated.to_string(), carried]];
        let PassedFigures { flows, bytes: carried, .. } = &self.passed;
        // Flows that began before the process are in no count of flows.
        let reasons: BTreeSet<&String> = flows.keys().chain(carried.keys()).collect();
        rows.extend(reasons.into_iter().map(|reason| {
            let count = flows.get(reason).map_or(NONE.to_owned(), u64::to_string);
            vec![
                format!("passed, {reason}"),
                count,
                carried.get(reason).map_or(NONE.to_owned(), |n| bytes(*n)),
            ]
        }));
        Table { headings: vec![("flows", ""), ("count", ""), ("carried", "")], rows }
    }

    /// Traffic that was sent to clients through the process, by kind: what was accelerated and what took
    /// turns with it; none if nothing did.
    #[must_use]
    pub fn carried(&self) -> Option<Table> {
        let turns = &self.passed.in_turns;
        let all = self.totals.downlink_bytes + turns.bytes();
        let rows = [
            ("accelerated TCP, its payload", self.totals.downlink_bytes),
            ("TCP that passed, in turns", turns.tcp_bytes),
            ("QUIC, in turns", turns.quic_bytes),
            ("other UDP and else, in turns", turns.other_bytes),
        ];
        let table = Table::of(
            &rows,
            &[
                ("towards clients", "", &|(name, _)| (*name).to_owned()),
                ("carried", "", &|(_, count)| bytes(*count)),
                ("share", "%", &|(_, count)| percent(share(*count, all))),
            ],
        );
        (turns.bytes() > 0).then_some(table)
    }

    /// An earlier report and this one, if there is one.
    #[must_use]
    pub fn changes(&self) -> Option<Table> {
        let before = self.before.as_ref()?;
        let row = |verdict: &Verdict| {
            let [old, new] = verdict.rate_median_bps;
            let p = verdict.p_value.map_or(NONE.to_owned(), |p| {
                if p < 0.001 { "< 0.001".to_owned() } else { format!("{p:.3}") }
            });
            vec![
                format!("median rate {}, Mbit/s", verdict.size),
                format!("{} ({} flows)", or_none(old, mbits), verdict.flows[0]),
                format!("{} ({} flows)", or_none(new, mbits), verdict.flows[1]),
                p,
                verdict.says.clone(),
            ]
        };
        let mut rows: Vec<Vec<String>> = before.downloads.iter().map(row).collect();
        let plain = |name: &str, old: String, new: String| {
            vec![name.to_owned(), old, new, NONE.to_owned(), "not tested".to_owned()]
        };
        let [p50, p95] = before.queueing_ms.map(at_most);
        rows.push(plain("half of times in queues, ms", p50, at_most(self.totals.queueing_p50_ms)));
        rows.push(plain("95 % of times in queues, ms", p95, at_most(self.totals.queueing_p95_ms)));
        rows.push(plain("sent again, %", percent(before.resent_share), percent(self.resent_share())));
        Some(Table {
            headings: vec![("figure", ""), ("before", ""), ("after", ""), ("p", ""), ("what it says", "")],
            rows,
        })
    }

    /// Comparisons of A/B phases.
    fn phases(&self) -> Markup {
        html! {
            @if !self.ab.is_empty() { h2 { "Control group" } }
            @for AbReport { phase, control, accelerated, .. } in &self.ab {
                p { "An A/B phase from " (clock(phase.began_ms)) ", "
                    @if phase.is_running { "under way for " (span(phase.elapsed_ms)) ": " }
                    @else { (span(phase.elapsed_ms)) " long: " }
                    "half of the subscribers, by a hash of their addresses, were passed (" (groups(control)) "), the others \
                     accelerated (" (groups(accelerated)) "). Means over subscribers, in brackets the 95 % confidence \
                     interval. Flows of the control group are in no other figure of this page." }
            }
            @for report in &self.ab { (plain(&ab::comparison(report))) }
        }
    }

    /// Distributions of the subscribers of A/B phases.
    fn distributions(&self) -> Markup {
        html! {
            @for chart in self.ab.iter().filter_map(ab::distributions) {
                p { "How the subscribers of both groups lie: at 50 % stands what half of a group's subscribers have at \
                     most." }
                (chart.figure())
            }
        }
    }

    fn facts(&self) -> Markup {
        html! {
            p class="facts" {
                (clock(self.from_ms)) " to " (clock(self.to_ms)) ". "
                @if !self.is_whole() {
                    b { "Figures of " (span(self.covered_ms)) " of it only." }
                } @else { "Recorded throughout." }
            }
        }
    }

    fn comparison(&self) -> Markup {
        html! {
            h2 { "Before and after" }
            @if let (Some(before), Some(table)) = (&self.before, self.changes()) {
                p { "Before: " (before.accelerator) ", " (clock(before.from_ms)) " to " (clock(before.to_ms))
                    ". Two times differ by more than by what was changed between them: load, people, weather. A test \
                     (Mann-Whitney, p below 0.05) says only whether chance alone explains the difference of rates." }
                (plain(&table))
            } @else {
                p { "There is no earlier report beside this one. " code { "--before FILE" }
                    " takes the JSON of one." }
            }
        }
    }
}

/// Group sizes of each direction, as text.
fn groups(groups: &[AbGroup]) -> String {
    let of = |group: &AbGroup| {
        format!("{}: {} subscribers, {} flows", group.direction, group.subscribers, group.flows)
    };
    if groups.is_empty() {
        "no flow".to_owned()
    } else {
        groups.iter().map(of).collect::<Vec<_>>().join("; ")
    }
}

fn plain(table: &Table) -> Markup {
    table.html(&|_| None, &|_| None)
}

/// The whole report as a page of its own.
#[must_use]
pub fn html(report: &Report) -> String {
    let totals = &report.totals;
    let body = html! {
        (report.facts())
        p class="finding" { (page::with_units(&report.finding())) }
        (report.tiles())
        (report.chart().figure())
        (report.phases())
        (report.distributions())
        (report.comparison())
        h2 { "Accelerated downloads" }
        p { "Flows that have ended, " (report.flows.ended) " in all, by what they delivered." }
        (plain(&report.downloads()))
        p { "Round trips to clients: half in the class up to " (at_most(totals.round_trip_p50_ms)) " ms, 95 % up to "
            (at_most(totals.round_trip_p95_ms)) " ms, of " (totals.round_trips) ". Time-outs: " (totals.timeouts)
            ", of which " (totals.spurious_timeouts) " were found needless and taken back." }
        h2 { "Accelerated and passed flows" }
        (plain(&report.kinds()))
        @if let Some(packets) = report.passed.kernel_packets {
            p { (packets) " packets of passed flows stayed in the kernel." }
        }
        @if let Some(carried) = report.carried() {
            p { "What passed beside accelerated flows took turns with them, in one short queue. Packets dropped there: "
                (report.passed.in_turns.dropped_packets) "." }
            (plain(&carried))
        }
        h2 { "What these figures do not say" }
        ul { @for limit in &report.limits { li { (limit) } } }
        p class="facts" { "Cellerator " (report.made_by.version) ": " code { (report.made_by.command) } }
    };
    page::page(&report.title(), OWN_STYLE, &body)
}

/// The report as one sheet.
#[must_use]
pub fn one_page(report: &Report) -> String {
    let body = html! {
        (report.facts())
        p class="finding" { (page::with_units(&report.finding())) }
        (report.tiles())
        (report.chart().flat_figure())
        (report.phases())
        @if report.before.is_some() { (report.comparison()) }
        @else if report.ab.is_empty() { h2 { "Accelerated downloads" } (plain(&report.downloads())) }
        h2 { "What these figures do not say" }
        ul { @for limit in report.limits.iter().take(3) { li { (limit) } } }
    };
    page::page(&report.title(), &[OWN_STYLE, SHEET_STYLE].concat(), &body)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ab::tests::phase;
    use crate::report::tests::{minutes, report};

    #[test]
    fn both_pages_need_nothing_else_and_say_what_is_not_known() {
        let slow = report(&minutes(5, 10), 0, 5);
        let both = report(&minutes(8, 20), 0, 5).beside(&slow);
        for text in [html(&both), one_page(&both)] {
            assert!(!text.contains("src=") && !text.contains("url(") && !text.contains("<script"), "{text}");
            assert!(text.contains("Passed flows were not measured") && text.contains("are faster"));
            assert!(text.contains("5 min of live traffic") && text.contains("Recorded throughout"));
        }
        let lone = html(&report(&minutes(2, 10), 0, 60));
        assert!(lone.contains("2 min of live traffic, recorded within 60 min"), "{lone}");
        assert!(lone.contains("Figures of 120 s of it only") || lone.contains("Figures of 2 min of it only"));
        assert!(lone.contains("There is no earlier report"));
        assert!(lone.contains("QUIC, in turns") && lone.contains("6.00 MB"), "{lone}");
    }

    #[test]
    fn an_a_b_phase_of_the_time_is_on_both_pages() {
        let mut slices = minutes(8, 20);
        slices[4].ab = Some(Box::new(phase(1, 4, Some([2.0, 1.5, 2.5]))));
        let with = report(&slices, 0, 6);
        for text in [html(&with), one_page(&with)] {
            assert!(text.contains("Control group") && text.contains("2.00 times [1.50, 2.50]"), "{text}");
            assert!(
                text.contains("Only the A/B phase says") && text.contains("Passed flows of no control group")
            );
        }
        assert!(with.finding().contains("2.00 times the goodput of the control group"));
        let after = html(&report(&slices, 5, 8));
        assert!(!after.contains("Control group") && after.contains("Passed flows were not measured"));
    }

    #[test]
    fn a_gap_is_no_line() {
        let mut slices = minutes(6, 10);
        slices.drain(2..4);
        let chart = report(&slices, 0, 6).chart();
        let broken = chart.panels[0].series[0].points.iter().filter(|point| point.y.is_nan()).count();
        assert_eq!(broken, 1);
    }

    /// The bounds of classes are steps: ten minutes of one class would be a flat line.
    #[test]
    fn times_in_queues_are_drawn_within_their_classes() {
        let mut slices = minutes(3, 10);
        for (slice, counts) in slices.iter_mut().zip([[0, 99, 1, 0], [40, 59, 1, 0], [60, 39, 1, 0]]) {
            slice.downlink.queueing.counts = counts.to_vec();
        }
        let chart = report(&slices, 0, 3).chart();
        let drawn: Vec<f64> = chart.panels[1].series[0].points.iter().map(|point| point.y).collect();
        assert!(drawn.windows(2).all(|pair| (pair[0] - pair[1]).abs() > 0.1), "{drawn:?}");
    }

    #[test]
    fn the_sheets_picture_is_as_wide_as_the_sheet() {
        let sheet = one_page(&report(&minutes(8, 20), 0, 5));
        assert!(
            !sheet.contains("max-width: 120mm") && sheet.contains("<svg class=\"chart\" viewBox=\"0 0 860 "),
            "{sheet}"
        );
    }

    #[test]
    fn the_picture_begins_where_recording_has_begun() {
        let mut slices = minutes(6, 10);
        slices.drain(..4);
        let late = report(&slices, 0, 6).chart();
        let all = report(&slices, 4, 6).chart();
        let places =
            |chart: &Chart| chart.panels[0].series[0].points.iter().map(|point| point.x).collect::<Vec<_>>();
        assert_eq!((places(&late), late.x.clone()), (places(&all), all.x.clone()));
        assert!(places(&late)[0] < 1.0);
    }
}
