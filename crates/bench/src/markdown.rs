//! The results as Markdown.

use std::fmt::Write as _;

use crate::{PathResults, Row, Spread, Way};

/// Above this the machine was busy with something else, and the figures say less.
const BUSY_SHARE: f64 = 0.1;

impl PathResults {
    /// What was measured, on what, how, and how to repeat it.
    #[must_use]
    pub fn markdown(&self) -> String {
        let mut text = format!("## The data path\n\n{}\n\n{}\n", self.made_on(), HOW);
        if let Some(warning) = self.warning() {
            let _ = writeln!(text, "\n**{warning}**");
        }
        let mut flows: Vec<usize> = self.rows.iter().map(|row| row.flows).collect();
        flows.dedup();
        for flows in flows {
            let plural = if flows == 1 { "" } else { "s" };
            let _ = write!(text, "\n### {flows} flow{plural}\n\n{HEAD}");
            for row in self.rows.iter().filter(|row| row.flows == flows) {
                text += &line(row);
            }
        }
        text += "\n### In the box\n\n";
        for way in Way::ALL {
            let command =
                self.rows.iter().find(|row| row.way == way.name()).and_then(|row| row.in_the_box.as_ref());
            let what =
                command.map_or("nothing; the kernel forwards".to_owned(), |command| format!("`{command}`"));
            let _ = writeln!(text, "- {}: {what}", way.title());
        }
        text
    }

    fn made_on(&self) -> String {
        let machine = &self.machine;
        format!(
            "Cellerator {}, Linux {}, {}, {} processors, {}. Made by `{}`: {} rounds of {} s per run, congestion \
             control of the sender {}.",
            self.cellerator,
            machine.kernel,
            machine.processor,
            machine.processors,
            date(self.ended_unix_s),
            self.command,
            self.rounds,
            self.seconds,
            self.congestion_control
        )
    }

    /// Why the figures are not to be relied on, if there is a reason.
    #[must_use]
    pub fn warning(&self) -> Option<String> {
        (self.busiest() > BUSY_SHARE).then(|| {
            format!(
                "The machine was not quiet: just before a round others used up to {:.0} % of its processor time. Repeat \
                 on a quiet machine before you rely on these figures.",
                self.busiest() * 100.0
            )
        })
    }
}

const HOW: &str = "One machine plays all parts: client, box and server are network namespaces joined by veth pairs, offloads as the \
kernel sets them. The server sends TCP flows of zeros to the client as fast as it can; what the client's program reads \
counts, after a warm-up of 0.7 s. All ways through the box are measured once in each round, in rotating order, and \
compared with the bare echo of the same round. The bare echo has the same steering, TUN devices and packet loop \
without the engine: it is the limit of this path. Server, box and client share the processors, so that a way that \
costs the box more also leaves less to the ends. *Box* is processor time of the program in the box (user and system, \
packets that the kernel forwards on its back included) per 10⁹ bytes; *machine* is that of everything.";

const HEAD: &str = "| way | Gbit/s, median (min–max) | ÷ bare echo, median (min–max) | box s/GB | machine s/GB | segments sent again |\n\
|---|---|---|---|---|---|\n";

fn line(row: &Row) -> String {
    let title = Way::ALL.into_iter().find(|way| way.name() == row.way).map_or(row.way, Way::title);
    format!(
        "| {title} | {} | {} | {} | {:.2} | {} |\n",
        spread(row.goodput_gbps),
        spread(row.ratio_to_echo),
        row.box_cpu_s_per_gb.map_or("–".to_owned(), |cpu| format!("{:.2}", cpu.median)),
        row.machine_cpu_s_per_gb.median,
        row.retransmitted_segments
    )
}

fn spread(spread: Spread) -> String {
    format!("{:.2} ({:.2}–{:.2})", spread.median, spread.min, spread.max)
}

/// The day, as `2026-01-31`, in UTC: civil date from days since 1970 (proleptic Gregorian calendar, eras of 400
/// years that begin in March).
fn date(unix_s: u64) -> String {
    let days = unix_s / 86_400 + 719_468;
    let (era, day_of_era) = (days / 146_097, days % 146_097);
    let year_of_era = (day_of_era - day_of_era / 1_460 + day_of_era / 36_524 - day_of_era / 146_096) / 365;
    let day_of_year = day_of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
    let month_from_march = (5 * day_of_year + 2) / 153;
    let day = day_of_year - (153 * month_from_march + 2) / 5 + 1;
    let month = if month_from_march < 10 { month_from_march + 3 } else { month_from_march - 9 };
    let year = era * 400 + year_of_era + u64::from(month <= 2);
    format!("{year}-{month:02}-{day:02}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn dates_are_those_of_the_calendar() {
        for (seconds, wanted) in [
            (0, "1970-01-01"),
            (951_782_400, "2000-02-29"),
            (951_868_800, "2000-03-01"),
            (1_735_689_599, "2024-12-31"),
            (4_107_542_400, "2100-03-01"),
        ] {
            assert_eq!(date(seconds), wanted);
        }
    }
}
