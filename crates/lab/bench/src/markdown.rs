//! The results as Markdown.

use std::collections::BTreeSet;
use std::fmt::Write as _;

use figures::wrapped;
use report::date_of;
use units::{Duration, Instant};

use crate::results::{Aim, Figure, Metric, Part, Results, Spread};

/// Above this the machine was busy with something else, and the figures say less.
const BUSY_SHARE: f64 = 0.1;
/// Columns of a line of prose.
const COLUMNS: usize = 100;

impl Results {
    /// The table of figures with aims, then every part.
    #[must_use]
    pub fn markdown(&self) -> String {
        let mut text = self
            .interrupted
            .map_or_else(String::new, |interrupted| format!("**The last run was {interrupted}.**\n\n"));
        text += &self.summary();
        for part in &self.parts {
            text += "\n";
            text += &part.markdown();
        }
        text
    }

    /// The figures that have aims, and what is missing.
    #[must_use]
    pub fn summary(&self) -> String {
        let mut text = "## In one table\n\n".to_owned();
        text += "Medians, with the smallest and the largest pair in brackets.\n\n";
        text += "| figure | measured | aim | pairs | |\n|---|---|---|---|---|\n";
        for figure in self.parts.iter().flat_map(|part| &part.figures) {
            if let (Some(aim), Some(is_met)) = (figure.aim, figure.is_met()) {
                let verdict = if is_met { "met" } else { "**missed**" };
                let _ = writeln!(
                    text,
                    "| {} | {} | {} | {} | {verdict} |",
                    figure.title,
                    figure_value(figure),
                    aim_text(aim, figure),
                    figure.pairs
                );
            }
        }
        let missing: BTreeSet<&String> = self.parts.iter().flat_map(|part| &part.missing).collect();
        for line in missing {
            let _ = writeln!(text, "\n{}.", line.trim_end_matches('.').replace('\n', " "));
        }
        text
    }
}

impl Part {
    /// Page about the measurements, the machine, the method, and the way to repeat them.
    #[must_use]
    pub fn markdown(&self) -> String {
        let prose = |text: &str| wrapped(text, COLUMNS).join("\n");
        let mut text = format!("## {}\n\n{}\n\n{}\n", self.title, prose(&self.how), prose(&self.made_on()));
        if let Some(warning) = self.warning() {
            let _ = writeln!(text, "\n{}", prose(&format!("**{warning}**")));
        }
        for line in &self.missing {
            let _ = writeln!(text, "\n**{}.**", line.trim_end_matches('.').replace('\n', " "));
        }
        text += &self.rows_table();
        text += &self.figures_table();
        text += &self.commands();
        text
    }

    fn made_on(&self) -> String {
        let machine = &self.machine;
        let peer =
            machine.haproxy.as_ref().filter(|_| self.ways.iter().any(|way| way.name.starts_with("haproxy")));
        let peer = peer.map_or(String::new(), |version| format!(", HAProxy {version}"));
        format!(
            "Cellerator {}, Linux {}, {}, {} processors{peer}, {}. {} rounds, {:.0} s, made by `{}`.",
            self.cellerator,
            machine.kernel,
            machine.processor,
            machine.processors,
            date_of(Instant::ZERO + Duration::from_secs(self.ended_unix_s)),
            self.rounds,
            self.took_s,
            self.command,
        )
    }

    /// Reason why the figures are not to be relied on, if there is a reason.
    #[must_use]
    pub fn warning(&self) -> Option<String> {
        (self.busiest() > BUSY_SHARE).then(|| {
            format!(
                "The machine was not quiet: just before a round, others used up to {:.0} % of its processor \
                 time. Repeat on a quiet machine before you rely on these figures.",
                self.busiest() * 100.0
            )
        })
    }

    fn rows_table(&self) -> String {
        let mut text = "\n| case | way |".to_owned();
        for metric in &self.metrics {
            let _ = write!(text, " {} |", metric.title);
        }
        text += "\n|---|---|";
        text += &"---|".repeat(self.metrics.len());
        text += "\n";
        for row in &self.rows {
            let title = self.ways.iter().find(|way| way.name == row.way).map_or(&row.way, |way| &way.title);
            let _ = write!(text, "| {} | {title} |", row.case);
            for metric in &self.metrics {
                let value = row.values.get(&metric.name);
                let _ =
                    write!(text, " {} |", value.map_or("–".to_owned(), |value| in_metric(*value, metric)));
            }
            text += "\n";
        }
        text
    }

    fn figures_table(&self) -> String {
        if self.figures.is_empty() {
            return String::new();
        }
        let mut text = "\n| figure | median (min–max) | aim | pairs |\n|---|---|---|---|\n".to_owned();
        for figure in &self.figures {
            let aim = figure.aim.map_or("–".to_owned(), |aim| aim_text(aim, figure));
            let _ =
                writeln!(text, "| {} | {} | {aim} | {} |", figure.title, figure_value(figure), figure.pairs);
        }
        text
    }

    fn commands(&self) -> String {
        let mut text = "\nIn the box:\n\n".to_owned();
        for way in &self.ways {
            let _ = writeln!(text, "- {}: {}", way.title, way.in_the_box);
        }
        text
    }
}

fn aim_text(aim: Aim, figure: &Figure) -> String {
    let (sign, bound) = match aim {
        Aim::AtLeast(bound) => ('≥', bound),
        Aim::AtMost(bound) => ('≤', bound),
    };
    format!(
        "{sign} {}{}",
        grouped(bound, if bound.fract() == 0.0 && !figure.unit.is_empty() { 0 } else { figure.digits }),
        figure.unit
    )
}

fn figure_value(figure: &Figure) -> String {
    let Spread { median, min, max } = figure.value;
    let number = |value| grouped(value, figure.digits);
    format!("{}{} ({}–{})", number(median), figure.unit, number(min), number(max))
}

fn in_metric(spread: Spread, metric: &Metric) -> String {
    let number = |value| grouped(value, metric.digits);
    if number(spread.min) == number(spread.max) {
        return number(spread.median);
    }
    format!("{} ({}–{})", number(spread.median), number(spread.min), number(spread.max))
}

/// With a true minus sign, and thousands set apart.
pub(crate) fn grouped(value: f64, digits: u8) -> String {
    let text = format!("{:.*}", usize::from(digits), value.abs());
    let (whole, rest) =
        text.split_once('.').map_or((text.as_str(), String::new()), |(w, r)| (w, format!(".{r}")));
    let mut out = String::new();
    for (at, digit) in whole.chars().enumerate() {
        if at > 0 && (whole.len() - at).is_multiple_of(3) {
            out.push(',');
        }
        out.push(digit);
    }
    let is_zero = text.chars().all(|c| c == '0' || c == '.');
    let sign = if value < 0.0 && !is_zero { "−" } else { "" };
    format!("{sign}{out}{rest}")
}

#[cfg(test)]
pub(crate) mod tests;
