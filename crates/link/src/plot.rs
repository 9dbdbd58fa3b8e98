//! A trace as a self-contained SVG: rate over time, gaps and outages marked.

use std::fmt::Write as _;

use crate::{Trace, TraceStats, bin_rates_mbps, outages_ms};

const WIDTH: f64 = 1200.0;
const HEIGHT: f64 = 560.0;
/// Plot area: left, right, top, bottom.
const AREA: (f64, f64, f64, f64) = (70.0, 1180.0, 84.0, 450.0);
/// Strip of the outage marks below the plot: top and height.
const STRIP: (f64, f64) = (462.0, 14.0);

/// Colours for light and dark; an `img` element follows the reader's setting as well.
const STYLE: &str = "<style>
  svg { background: var(--paper); font: 13px system-ui, sans-serif; --paper: #fff; --ink: #1d2530; --faint: #dde2e8;
        --soft: #5b6675; --fine: #8fb8e8; --line: #1b5fb4; --out: #c8321e }
  @media (prefers-color-scheme: dark) { svg { --paper: #14181e; --ink: #e8ecf1; --faint: #2c333d; --soft: #9aa5b3;
        --fine: #2f5c90; --line: #7db7ff; --out: #ff7a66 } }
  text { fill: var(--ink) } .soft { fill: var(--soft) } .title { font-size: 18px; font-weight: 600 }
  .grid { stroke: var(--faint) } .fine { fill: var(--fine); stroke: var(--fine); stroke-width: .6 }
  .line { fill: none; stroke: var(--line); stroke-width: 1.8; stroke-linejoin: round } .out { fill: var(--out) }
  .strip { fill: var(--faint) }
</style>
";

/// Draws `trace` under `title`: rate over 100 ms as a band from the smallest to the largest value
/// of each column, over 1 s as a line, and pauses above 200 ms as marks below.
#[must_use]
pub fn plot_svg(trace: &Trace, title: &str) -> String {
    let stats = TraceStats::of(trace);
    let fine = bin_rates_mbps(trace, 100);
    let top = axis_top(fine.iter().copied().fold(0.0, f64::max));
    let seconds = stats.seconds;
    let mut svg = format!(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {WIDTH} {HEIGHT}\" role=\"img\">\n<title>{}</title>\n{STYLE}",
        escaped(title)
    );
    draw_heading(&mut svg, title, &stats);
    draw_axes(&mut svg, seconds, top);
    draw_band(&mut svg, &fine, seconds, top);
    draw_line(&mut svg, &bin_rates_mbps(trace, 1000), seconds, top);
    draw_outages(&mut svg, trace, seconds);
    svg.push_str("</svg>\n");
    svg
}

fn x(seconds_at: f64, seconds: f64) -> f64 {
    AREA.0 + (AREA.1 - AREA.0) * seconds_at / seconds
}

fn y(mbps: f64, top: f64) -> f64 {
    AREA.3 - (AREA.3 - AREA.2) * mbps / top
}

// Writing into a String cannot fail, so results of `write!` are dropped below.

fn draw_heading(svg: &mut String, title: &str, stats: &TraceStats) {
    let _ = writeln!(svg, "<text class=\"title\" x=\"{}\" y=\"30\">{}</text>", AREA.0, escaped(title));
    let _ = writeln!(
        svg,
        "<text class=\"soft\" x=\"{}\" y=\"52\">{:.1} s · mean {:.2} Mbit/s · variation over 1 s {:.2} · gap p50/p99 {}/{} ms · \
         {} outages above 200 ms, longest gap {:.2} s</text>",
        AREA.0,
        stats.seconds,
        stats.mean_mbps,
        stats.bins_1s.variation,
        stats.gap_ms_p50,
        stats.gap_ms_p99,
        stats.outages,
        stats.gap_ms_max as f64 / 1e3
    );
    let _ = writeln!(
        svg,
        "<g transform=\"translate(780 66)\"><rect class=\"fine\" width=\"22\" height=\"9\"/><text x=\"28\" y=\"9\">over 100 ms</text>\
         <path class=\"line\" d=\"M130 5h22\"/><text x=\"158\" y=\"9\">over 1 s</text>\
         <rect class=\"out\" x=\"240\" width=\"5\" height=\"10\"/><text x=\"251\" y=\"9\">outage above 200 ms</text></g>"
    );
}

fn draw_axes(svg: &mut String, seconds: f64, top: f64) {
    let step = tick_step(top, 6.0);
    for i in 0..=((top / step + 1e-9) as u32) {
        let value = f64::from(i) * step;
        let at = y(value, top);
        let _ = writeln!(
            svg,
            "<path class=\"grid\" d=\"M{} {at:.1}H{}\"/><text class=\"soft\" x=\"{}\" y=\"{:.1}\" text-anchor=\"end\">{}</text>",
            AREA.0,
            AREA.1,
            AREA.0 - 8.0,
            at + 4.0,
            tick_label(value)
        );
    }
    let step = tick_step(seconds, 12.0);
    for i in 0..=((seconds / step + 1e-9) as u32) {
        let value = f64::from(i) * step;
        let _ = writeln!(
            svg,
            "<text class=\"soft\" x=\"{:.1}\" y=\"500\" text-anchor=\"middle\">{}</text>",
            x(value, seconds),
            tick_label(value)
        );
    }
    let middle = (AREA.0 + AREA.1) / 2.0;
    let _ = writeln!(svg, "<text x=\"{middle}\" y=\"528\" text-anchor=\"middle\">time in seconds</text>");
    let middle = (AREA.2 + AREA.3) / 2.0;
    let _ = writeln!(
        svg,
        "<text transform=\"translate(20 {middle}) rotate(-90)\" text-anchor=\"middle\">rate in Mbit/s</text>"
    );
}

/// One column per pixel at most: from the smallest to the largest value that falls into it.
fn draw_band(svg: &mut String, rates: &[f64], seconds: f64, top: f64) {
    let per_column = rates.len().div_ceil((AREA.1 - AREA.0) as usize).max(1);
    let (mut upper, mut lower) = (String::new(), Vec::new());
    for (index, column) in rates.chunks(per_column).enumerate() {
        let largest = column.iter().copied().fold(0.0, f64::max);
        // With one value per column the band reaches down to the axis: an area.
        let smallest = if per_column == 1 { 0.0 } else { column.iter().copied().fold(f64::MAX, f64::min) };
        let from = x((index * per_column) as f64 / 10.0, seconds);
        let to = x((index * per_column + column.len()) as f64 / 10.0, seconds);
        let _ = write!(upper, "L{from:.1} {:.1}H{to:.1}", y(largest, top));
        lower.push(format!("L{to:.1} {:.1}H{from:.1}", y(smallest, top)));
    }
    if let Some(rest) = upper.strip_prefix('L') {
        lower.reverse();
        let _ = writeln!(svg, "<path class=\"fine\" d=\"M{rest}{}Z\"/>", lower.concat());
    }
}

fn draw_line(svg: &mut String, rates: &[f64], seconds: f64, top: f64) {
    if rates.len() < 2 {
        return;
    }
    let mut path = String::new();
    for (index, rate) in rates.iter().enumerate() {
        let command = if index == 0 { 'M' } else { 'L' };
        let _ = write!(path, "{command}{:.1} {:.1}", x(index as f64 + 0.5, seconds), y(*rate, top));
    }
    let _ = writeln!(svg, "<path class=\"line\" d=\"{path}\"/>");
}

fn draw_outages(svg: &mut String, trace: &Trace, seconds: f64) {
    let (top, height) = STRIP;
    let width = AREA.1 - AREA.0;
    let _ = writeln!(
        svg,
        "<rect class=\"strip\" x=\"{}\" y=\"{top}\" width=\"{width}\" height=\"{height}\"/>",
        AREA.0
    );
    for (begin, end) in outages_ms(trace) {
        let (from, to) = (x(begin as f64 / 1e3, seconds), x(end as f64 / 1e3, seconds));
        let _ = writeln!(
            svg,
            "<rect class=\"out\" x=\"{from:.1}\" y=\"{top}\" width=\"{:.1}\" height=\"{height}\"><title>{:.2} s without an opportunity, from {:.2} s</title></rect>",
            (to - from).max(1.2),
            (end - begin) as f64 / 1e3,
            begin as f64 / 1e3
        );
    }
}

/// A distance of 1, 2 or 5 times a power of ten that gives at most `count` ticks.
fn tick_step(span: f64, count: f64) -> f64 {
    let raw = (span / count).max(1e-6);
    let power = libm::pow(10.0, libm::floor(libm::log10(raw)));
    [1.0, 2.0, 5.0, 10.0].into_iter().map(|m| m * power).find(|step| *step >= raw).unwrap_or(raw)
}

/// The next tick at or above `largest`.
fn axis_top(largest: f64) -> f64 {
    let step = tick_step(largest.max(0.1), 6.0);
    libm::ceil(largest.max(0.1) / step) * step
}

fn tick_label(value: f64) -> String {
    let text = format!("{value:.3}");
    text.trim_end_matches('0').trim_end_matches('.').to_owned()
}

fn escaped(text: &str) -> String {
    text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;").replace('"', "&quot;")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::LinkError;

    #[test]
    fn axes_have_round_ticks() {
        assert_eq!((axis_top(33.0), tick_step(33.0, 6.0)), (40.0, 10.0));
        assert_eq!((tick_label(0.5), tick_label(40.0)), ("0.5".to_owned(), "40".to_owned()));
    }

    #[test]
    fn one_mark_per_outage_and_no_markup_from_the_title() -> Result<(), LinkError> {
        let trace = Trace::from_opportunities_ms([1, 300, 310, 1500, 2000])?;
        let svg = plot_svg(&trace, "a<b>&\"c\"");
        assert_eq!(svg.matches("without an opportunity").count(), 3);
        assert!(svg.contains("a&lt;b&gt;&amp;&quot;c&quot;") && !svg.contains("<b>"));
        assert!(svg.starts_with("<svg xmlns") && svg.ends_with("</svg>\n"));
        assert!(!svg.contains("href") && !svg.contains("NaN"));
        Ok(())
    }

    #[test]
    fn the_shortest_trace_draws() -> Result<(), LinkError> {
        assert!(!plot_svg(&Trace::from_opportunities_ms([1])?, "one").contains("NaN"));
        Ok(())
    }
}
