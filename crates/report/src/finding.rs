//! [`sentence`]: what a scenario shows, in one sentence made from its figures.

use scenario::results::{CaseResult, Figures, ScenarioResult};

/// One sentence that compares the cases: throughput, then delay, then whether every byte arrived right.
///
/// The first direct case is the reference; it is compared with the best accelerated case, or with the
/// other direct ones when nothing was accelerated.
#[must_use]
pub fn sentence(result: &ScenarioResult) -> String {
    let ran: Vec<(&CaseResult, &Figures)> =
        result.cases.iter().filter_map(|c| c.figures.as_ref().map(|f| (c, f))).collect();
    let Some(reference) = ran.iter().find(|(c, _)| !is_accelerated(c)).or(ran.first()) else {
        return "No case was run.".to_owned();
    };
    let others = || ran.iter().filter(|(c, _)| c.name != reference.0.name);
    let accelerated = others().filter(|(c, _)| is_accelerated(c));
    let best = accelerated.max_by(|a, b| merit(a.1).total_cmp(&merit(b.1)));
    let best = best.or_else(|| others().max_by(|a, b| merit(a.1).total_cmp(&merit(b.1))));
    let mut text = match best {
        Some(best) => compared(*best, *reference),
        None => alone(*reference),
    };
    text += &hashes(&ran);
    text
}

fn is_accelerated(case: &CaseResult) -> bool {
    case.settings.accelerator.enabled.unwrap_or(false)
}

/// What makes a case better: throughput first, less delay between equals.
fn merit(f: &Figures) -> f64 {
    f.transfer.goodput_mbps / (1.0 + f.radio.queue_delay_ms.p95 / 10_000.0)
}

fn compared((case, f): (&CaseResult, &Figures), (base_case, base): (&CaseResult, &Figures)) -> String {
    let (rate, base_rate) = (f.transfer.goodput_mbps, base.transfer.goodput_mbps);
    let ratio = if base_rate > 0.0 { rate / base_rate } else { f64::INFINITY };
    let mut text = format!("{} delivers {rate:.2} Mbit/s", capitalised(&case.name));
    text += &match ratio {
        r if (0.985..1.015).contains(&r) => format!(", as much as {} ({base_rate:.2})", base_case.name),
        r if r >= 1.5 => format!(", {r:.1} times the {base_rate:.2} Mbit/s of {}", base_case.name),
        r if r >= 1.0 => {
            format!(", {:.0} % more than {} ({base_rate:.2})", 100.0 * (r - 1.0), base_case.name)
        }
        r => format!(", {:.0} % less than {} ({base_rate:.2})", 100.0 * (1.0 - r), base_case.name),
    };
    if let (Some(used), Some(base_used)) = (f.radio.utilisation, base.radio.utilisation) {
        text += &format!(", with {:.0} % of the link used against {:.0} %", 100.0 * used, 100.0 * base_used);
    }
    let (delay, base_delay) = (f.radio.queue_delay_ms.p95, base.radio.queue_delay_ms.p95);
    text += &format!(", and queues 95 % of its packets for at most {delay:.0} ms against {base_delay:.0} ms");
    text
}

fn alone((case, f): (&CaseResult, &Figures)) -> String {
    let mut text = format!("{} delivers {:.2} Mbit/s", capitalised(&case.name), f.transfer.goodput_mbps);
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

fn hashes(ran: &[(&CaseResult, &Figures)]) -> String {
    let is_planned = |(case, figures): &(&CaseResult, &Figures)| {
        figures.transfer.cut_short && case.settings.workload.ends_at_limit == Some(true)
    };
    let wrong = ran.iter().filter(|run| !run.1.transfer.hashes_equal && !is_planned(run));
    let wrong: Vec<&str> = wrong.map(|(case, _)| case.name.as_str()).collect();
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
