//! [`Compared`]: two reports beside each other, with what is chance and what is not.

use figures::stats;
use serde::{Deserialize, Serialize};

use crate::Report;

/// Below this p-value a difference is called one: α of the house's other comparisons.
const ALPHA: f64 = 0.05;

/// An earlier report beside a later one.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Compared {
    /// From when to when the earlier one was, ms since 1970.
    pub from_ms: u64,
    /// The second of these.
    pub to_ms: u64,
    /// The earlier one's accelerator.
    pub accelerator: String,
    /// Downloads by size.
    pub downloads: Vec<Verdict>,
    /// The time in queues, upper bounds of classes in ms: half and 95 % of it, before.
    pub queueing_ms: [Option<f64>; 2],
    /// Share of data packets sent again, before.
    pub resent_share: Option<f64>,
}

/// Flows of one size, before and after.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Verdict {
    /// The size class.
    pub size: String,
    /// Flows before and after.
    pub flows: [u64; 2],
    /// Medians of their rates, bit/s.
    pub rate_median_bps: [Option<f64>; 2],
    /// That both are one distribution (Mann-Whitney, two-sided); none with fewer than four flows.
    pub p_value: Option<f64>,
    /// What may be said: `faster`, `slower`, `no difference shown`, or `too few flows`.
    pub says: String,
}

/// Puts them beside each other.
pub(crate) fn compare(before: &Report, after: &Report) -> Compared {
    let classes = before.flows.downloads.iter().zip(&after.flows.downloads);
    let verdict = |(old, new): (&crate::ClassFigures, &crate::ClassFigures)| {
        let p_value = stats::mann_whitney(&old.rates_bps, &new.rates_bps);
        let is_more = new.rate_median_bps > old.rate_median_bps;
        let says = match p_value {
            None => "too few flows",
            Some(p) if p >= ALPHA => "no difference shown",
            Some(_) if is_more => "faster",
            Some(_) => "slower",
        };
        Verdict {
            size: new.size.clone(),
            flows: [old.flows, new.flows],
            rate_median_bps: [old.rate_median_bps, new.rate_median_bps],
            p_value,
            says: says.to_owned(),
        }
    };
    let totals = &before.totals;
    let resent_share =
        (totals.data_packets > 0).then(|| totals.resent_packets as f64 / totals.data_packets as f64);
    Compared {
        from_ms: before.from_ms,
        to_ms: before.to_ms,
        accelerator: before.accelerator.clone(),
        downloads: classes.map(verdict).collect(),
        queueing_ms: [totals.queueing_p50_ms, totals.queueing_p95_ms],
        resent_share,
    }
}

#[cfg(test)]
mod tests {
    use crate::report::tests::{minutes, report};

    #[test]
    fn a_difference_is_told_from_chance() {
        let slow = report(&minutes(5, 10), 0, 5);
        let says = |report: &crate::Report| {
            let before = report.before.clone().unwrap();
            before.downloads.into_iter().map(|verdict| verdict.says).collect::<Vec<_>>()
        };
        let faster = report(&minutes(5, 20), 0, 5).beside(&slow);
        assert_eq!(says(&faster), ["too few flows", "too few flows", "faster"]);
        assert!(faster.before.as_ref().unwrap().downloads[2].p_value.unwrap() < 1e-6);
        assert_eq!(says(&slow.clone().beside(&faster))[2], "slower");
        assert_eq!(says(&slow.clone().beside(&slow))[2], "no difference shown");
    }
}
