//! [`Report::beside`]: two reports beside each other, with what is chance and what is not.

use figures::stats;

use crate::report::{ClassFigures, Compared, Report, Verdict};

/// Below this p-value a difference is called one: α of the house's other comparisons.
const ALPHA: f64 = 0.05;

impl Report {
    /// The same with an earlier report beside it.
    #[must_use]
    pub fn beside(self, earlier: &Self) -> Self {
        let before = Some(compare(earlier, &self));
        Self { before, ..self }
    }
}

/// Puts them beside each other.
fn compare(before: &Report, after: &Report) -> Compared {
    let classes = before.flows.downloads.iter().zip(&after.flows.downloads);
    let verdict = |(old, new): (&ClassFigures, &ClassFigures)| {
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
    Compared {
        from_ms: before.from_ms,
        to_ms: before.to_ms,
        accelerator: before.accelerator.clone(),
        downloads: classes.map(verdict).collect(),
        queueing_ms: [totals.queueing_p50_ms, totals.queueing_p95_ms],
        resent_share: before.resent_share(),
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
