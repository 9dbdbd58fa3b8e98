//! The highest rate at which the emulator hands packets over in time, with the accelerator and all
//! kernels at work on the same processors.
//!
//! What counts is what a receiver can see: of the bytes of a bin of 100 ms, wherever it begins,
//! those that are missing at its end because they are handed over late.

use std::fmt::Write as _;
use std::fs;
use std::net::SocketAddr;

use scenario::results::{Distribution, Timing, rounded};
use scenario::{Family, Scenario};
use serde::Serialize;
use units::{Duration, Rate};

use super::Benchmark;
use crate::LabError;
use crate::accelerator::AcceleratorCommand;
use crate::emulator::Keep;
use crate::error::Context;
use crate::session::{Session, read_trace};
use crate::topology::{Role, server_address};

/// Tried in this order, until one does not hold.
const RATES_MBPS: [u64; 10] = [100, 200, 300, 400, 500, 600, 700, 800, 900, 1_000];
/// Share of a bin that may be lost.
const LATE_MAX: f64 = 0.002;
/// Share of the rate that the flow must use, or the rate was not put to the test.
const USED_MIN: f64 = 0.9;
/// The first bins, in which the flow starts.
const BINS_SKIPPED: usize = 20;
/// Some 200 bins remain: of fewer than a hundred, 99 % would be all.
const TIME: Duration = Duration::from_secs(21);
const TRACE_FILE: &str = "benchmark.trace";

/// A download through the accelerator over a trace of one rate.
#[derive(Clone, Debug, Serialize)]
pub struct RateStep {
    /// Rate that the trace offers.
    pub rate_mbps: f64,
    /// Goodput of the client.
    pub goodput_mbps: f64,
    /// Share that lateness took of the bins of 100 ms, in percent.
    pub late_percent: Distribution,
    /// 99 % of the bins lost at most 0.2 %, and the flow used the rate.
    #[serde(rename = "holds")]
    pub is_sustained: bool,
    /// The emulator's own account.
    pub timing: Timing,
}

impl Benchmark<'_> {
    /// Rates from 100 Mbit/s on, up to the first that does not hold.
    pub(super) fn highest_rate(&self, progress: &mut dyn FnMut(&str)) -> Result<Vec<RateStep>, LabError> {
        let mut steps: Vec<RateStep> = Vec::new();
        for rate_mbps in RATES_MBPS {
            progress(&format!("one accelerated TCP flow over a trace of {rate_mbps} Mbit/s"));
            steps.push(self.rate_step(Rate::from_mbps(rate_mbps))?);
            if steps.last().is_some_and(|step| !step.is_sustained) {
                break;
            }
        }
        Ok(steps)
    }

    fn rate_step(&self, rate: Rate) -> Result<RateStep, LabError> {
        let directory = self.instance.directory();
        let file = directory.join(TRACE_FILE);
        fs::write(&file, constant_trace(rate)).doing(|| format!("write {}", file.display()))?;
        let settings = format!(
            "name = \"benchmark\"\n\
             wan.delay = \"5 ms\"\n\
             radio.down = {{ trace = \"{TRACE_FILE}\", delay = \"5 ms\", queue = \"10000 packets\" }}\n\
             radio.up.delay = \"5 ms\"\n\
             client.tcp_rmem = \"4096 131072 33554432\"\n\
             server.tcp_wmem = \"4096 65536 33554432\"\n\
             accelerator.enabled = true\n"
        );
        let scenario = Scenario::from_toml("benchmark", &settings)?;
        let case = scenario.resolved().swap_remove(0);
        let plan = case.links(scenario.seed, &mut |file| read_trace(directory, file))?;
        let command = AcceleratorCommand::new(self.program, &case);
        let mut session = Session::build(self.instance, &case, Some(&command))?;
        session.begin(&plan, Keep::Nothing)?;
        let goodput = {
            let (from, to) =
                (session.network().namespace(Role::Server), session.network().namespace(Role::Client));
            self.one_flow(from, to, SocketAddr::new(server_address(Family::Ipv4), 5_003), TIME)?
        };
        let emulation = session.end()?;
        let mut late: Vec<f64> =
            emulation.late_bins.shares().skip(BINS_SKIPPED).map(|share| share * 100.0).collect();
        // The last one is cut off by the end.
        late.pop();
        let late_percent = Distribution::of(&mut late).unwrap_or_default();
        let is_used = goodput.as_bps() as f64 > rate.as_bps() as f64 * USED_MIN;
        Ok(RateStep {
            rate_mbps: rate.as_mbps_f64(),
            goodput_mbps: rounded(goodput.as_mbps_f64()),
            late_percent,
            is_sustained: late_percent.p99 <= LATE_MAX * 100.0 && is_used,
            timing: emulation.timing,
        })
    }
}

/// A second of `rate` in Mahimahi's format: opportunities of 1500 bytes, evenly spread.
fn constant_trace(rate: Rate) -> String {
    let mut text = String::new();
    let mut opportunities = 0;
    for ms in 1..=1_000 {
        let until = rate.as_bps() * ms / 1_000 / 12_000;
        // Writing into a String cannot fail.
        (opportunities..until).for_each(|_| _ = writeln!(text, "{ms}"));
        opportunities = until;
    }
    text
}

/// The steps as a Markdown table, and what they come to.
pub(super) fn markdown(steps: &[RateStep], text: &mut String) {
    text.push_str("\n| trace of, Mbit/s, one accelerated TCP flow | goodput Mbit/s | lost of a 100 ms bin, mean % | p50 % | p99 % | max % | holds |\n|---|---|---|---|---|---|---|\n");
    for step in steps {
        let late = step.late_percent;
        // Writing into a String cannot fail.
        let _ = writeln!(
            text,
            "| {:.0} | {:.0} | {:.3} | {:.3} | {:.3} | {:.3} | {} |",
            step.rate_mbps,
            step.goodput_mbps,
            late.mean,
            late.p50,
            late.p99,
            late.max,
            if step.is_sustained { "yes" } else { "no" }
        );
    }
    let highest =
        steps.iter().filter(|step| step.is_sustained).map(|step| step.rate_mbps).fold(0.0, f64::max);
    let _ = writeln!(
        text,
        "\nThe highest rate at which lateness takes at most 0.2 % of a bin of 100 ms (of 99 % of the bins), \
         accelerator and kernels on the same processors: {highest:.0} Mbit/s."
    );
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_trace_has_the_rate() {
        for mbps in RATES_MBPS {
            let trace =
                link::Trace::parse_mahimahi(&constant_trace(Rate::from_mbps(mbps)), "constant").unwrap();
            let [from, to] = [1, 1_001].map(units::Duration::from_millis);
            let offered = trace.offered_bytes(from, to);
            assert!(offered.get().abs_diff(mbps * 125_000) < 1_500, "{mbps}: {offered}");
        }
    }
}
