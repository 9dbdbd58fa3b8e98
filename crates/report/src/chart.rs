//! SVG panels: throughput over capacity, and queueing delay, both against time.

use std::fmt::Write as _;

use scenario::results::{CaseResult, Series};

use crate::axis::{Axis, Spread, label};

pub(crate) const WIDTH: f64 = 560.0;
const HEIGHT: f64 = 168.0;
pub(crate) const LEFT: f64 = 52.0;
pub(crate) const RIGHT: f64 = 12.0;
pub(crate) const TOP: f64 = 12.0;
const BOTTOM: f64 = 34.0;

/// The scales that all panels of a scenario share, so that they can be compared by eye.
pub struct Scales {
    seconds: f64,
    rate_mbps: f64,
    delay: (f64, f64),
    delay_spread: Spread,
}

impl Scales {
    /// The scales that fit every case.
    pub fn of(cases: &[&CaseResult]) -> Self {
        let all = || cases.iter().filter_map(|c| c.figures.as_ref()).map(|f| &f.series);
        let longest = |s: &Series| s.delivered_mbps.len() as f64 * s.bin_s;
        let rates = all().flat_map(|s| s.capacity_mbps.iter().chain(&s.delivered_mbps)).copied();
        let mut means: Vec<f64> =
            all().flat_map(|s| s.queue_delay_ms.iter()).flatten().copied().filter(|d| *d > 0.0).collect();
        means.sort_by(f64::total_cmp);
        // One empty moment at the start of a transfer must not stretch a log scale.
        let smallest = means.get(means.len() / 20).map_or(0.1, |d| d.max(0.1));
        let largest = all().flat_map(|s| s.queue_delay_max_ms.iter()).flatten().copied().fold(0.0, f64::max);
        Self {
            seconds: all().map(longest).fold(0.0, f64::max),
            rate_mbps: rates.fold(0.0, f64::max),
            delay: (smallest, largest.max(smallest * 2.0)),
            delay_spread: if largest > 30.0 * smallest { Spread::Log } else { Spread::Linear },
        }
    }

    fn time(&self) -> Axis {
        Axis::linear_to(self.seconds, 8, (LEFT, WIDTH - RIGHT))
    }
    fn rate(&self) -> Axis {
        Axis::linear(self.rate_mbps, 4, (HEIGHT - BOTTOM, TOP))
    }
    fn delay(&self) -> Axis {
        let pixels = (HEIGHT - BOTTOM, TOP);
        match self.delay_spread {
            Spread::Log => Axis::log(self.delay.0, self.delay.1, pixels),
            Spread::Linear => Axis::linear(self.delay.1, 4, pixels),
        }
    }
}

/// Throughput of one case over the capacity of its link.
pub fn throughput(series: &Series, scales: &Scales, name: &str) -> String {
    let (x, y) = (scales.time(), scales.rate());
    let mut svg =
        open(&format!("Throughput of {name} over the capacity of the link, in Mbit/s against seconds"));
    frame(&mut svg, &x, &y, "Mbit/s");
    if !series.capacity_mbps.is_empty() {
        let path = stairs(&series.capacity_mbps, series.bin_s, &x, &y);
        let base = y.at(0.0);
        let end = x.at(series.capacity_mbps.len() as f64 * series.bin_s);
        let _ = write!(
            svg,
            r#"<path class="capacity" d="{path}L{end:.1} {base:.1}L{:.1} {base:.1}Z"/>"#,
            x.at(0.0)
        );
    }
    let path = stairs(&series.delivered_mbps, series.bin_s, &x, &y);
    let _ = write!(svg, r#"<path class="line" d="{path}"/></svg>"#);
    svg
}

/// Queueing delay of one case: the mean as a line, up to the longest as a band.
pub fn delay(series: &Series, scales: &Scales, name: &str) -> String {
    let (x, y) = (scales.time(), scales.delay());
    let mut svg = open(&format!("Queueing delay of {name}, in milliseconds against seconds"));
    frame(&mut svg, &x, &y, "ms");
    for run in runs(series) {
        let mut band = String::new();
        let mut line = String::new();
        for &(i, mean, _) in &run {
            let pen = if line.is_empty() { 'M' } else { 'L' };
            let px = x.at((i as f64 + 0.5) * series.bin_s);
            let _ = write!(line, "{pen}{px:.1} {:.1}", y.at(mean));
        }
        band.push_str(&line);
        for &(i, _, longest) in run.iter().rev() {
            let px = x.at((i as f64 + 0.5) * series.bin_s);
            let _ = write!(band, "L{px:.1} {:.1}", y.at(longest));
        }
        // A lone point would be invisible: give it a little width.
        if run.len() == 1 {
            line.push_str("h1.5");
        }
        let _ = write!(svg, r#"<path class="band" d="{band}Z"/><path class="line" d="{line}"/>"#);
    }
    svg.push_str("</svg>");
    svg
}

/// Consecutive bins that have packets: bin, mean, longest.
fn runs(series: &Series) -> Vec<Vec<(usize, f64, f64)>> {
    let mut runs: Vec<Vec<(usize, f64, f64)>> = Vec::new();
    let mut previous = None;
    for (i, mean) in series.queue_delay_ms.iter().enumerate() {
        let Some(mean) = *mean else { continue };
        let longest = series.queue_delay_max_ms.get(i).copied().flatten().unwrap_or(mean);
        match runs.last_mut() {
            Some(run) if previous == i.checked_sub(1) => run.push((i, mean, longest)),
            _ => runs.push(vec![(i, mean, longest)]),
        }
        previous = Some(i);
    }
    runs
}

/// A chart that says what it shows.
pub(crate) fn open(description: &str) -> String {
    format!(
        r#"<svg viewBox="0 0 {WIDTH} {HEIGHT}" role="img" aria-label="{}" xmlns="http://www.w3.org/2000/svg">"#,
        crate::html::escape(description)
    )
}

/// The lower edge of what is drawn.
pub(crate) const fn plot_bottom() -> f64 {
    HEIGHT - BOTTOM
}

/// Grid, axes, tick labels and units.
pub(crate) fn frame(svg: &mut String, x: &Axis, y: &Axis, unit: &str) {
    let (bottom, right) = (HEIGHT - BOTTOM, WIDTH - RIGHT);
    for tick in y.ticks() {
        let py = y.at(*tick);
        let _ = write!(
            svg,
            r#"<path class="grid" d="M{LEFT} {py:.1}H{right}"/><text class="tick" x="{:.1}" y="{:.1}" text-anchor="end">{}</text>"#,
            LEFT - 6.0,
            py + 3.5,
            label(*tick)
        );
    }
    for tick in x.ticks() {
        let px = x.at(*tick);
        let _ = write!(
            svg,
            r#"<path class="axis" d="M{px:.1} {bottom}v4"/><text class="tick" x="{px:.1}" y="{:.1}" text-anchor="middle">{}</text>"#,
            bottom + 15.0,
            label(*tick)
        );
    }
    let middle = (TOP + bottom) / 2.0;
    let scale = if y.spread() == Spread::Log { ", log scale" } else { "" };
    let _ = write!(
        svg,
        r#"<path class="axis" d="M{LEFT} {bottom}H{right}"/><text class="unit" transform="translate(11 {middle:.1}) rotate(-90)" text-anchor="middle">{unit}{scale}</text><text class="unit" x="{right}" y="{:.1}" text-anchor="end">seconds</text>"#,
        HEIGHT - 4.0
    );
}

/// A line of level steps, one per bin.
fn stairs(values: &[f64], bin_s: f64, x: &Axis, y: &Axis) -> String {
    let mut path = String::new();
    for (i, value) in values.iter().enumerate() {
        let (from, to) = (x.at(i as f64 * bin_s), x.at((i + 1) as f64 * bin_s));
        let py = y.at(*value);
        let pen = if i == 0 { 'M' } else { 'L' };
        let _ = write!(path, "{pen}{from:.1} {py:.1}H{to:.1}");
    }
    path
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bins_without_packets_break_the_line() {
        let delays = vec![Some(1.0), None, Some(2.0), Some(3.0), None];
        let series =
            Series { queue_delay_ms: delays.clone(), queue_delay_max_ms: delays, ..Series::default() };
        let lengths: Vec<usize> = runs(&series).iter().map(Vec::len).collect();
        assert_eq!(lengths, [1, 2]);
    }

    #[test]
    fn stairs_are_level_within_a_bin() {
        let (x, y) = (Axis::linear_to(2.0, 4, (0.0, 20.0)), Axis::linear(10.0, 2, (10.0, 0.0)));
        assert_eq!(stairs(&[10.0, 5.0], 1.0, &x, &y), "M0.0 0.0H10.0L10.0 5.0H20.0");
    }
}
