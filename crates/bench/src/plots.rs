//! Plots of parts whose cases are numbers: how cost grows.

use report::{LinePanel, line_figure};

use crate::results::{Part, Results};

impl Results {
    /// Name and SVG of each plot: one for each unit that cases of a part are counted in.
    #[must_use]
    pub fn plots(&self) -> Vec<(String, String)> {
        self.parts.iter().flat_map(Part::plots).collect()
    }
}

impl Part {
    fn plots(&self) -> Vec<(String, String)> {
        let mut units: Vec<&str> =
            self.rows.iter().filter_map(|row| counted(&row.case)).map(|c| c.1).collect();
        units.sort_unstable();
        units.dedup();
        let enough = |unit: &&str| {
            let mut cases: Vec<&String> = self
                .rows
                .iter()
                .map(|row| &row.case)
                .filter(|case| counted(case).is_some_and(|c| c.1 == *unit))
                .collect();
            cases.sort_unstable();
            cases.dedup();
            cases.len() >= 2
        };
        let plot = |unit: &str| {
            let title = format!("{} against {unit}", self.title);
            let name = format!("{}-{}", self.name, unit.replace([' ', '%'], ""));
            (name, line_figure(&title, &self.command, unit, &self.panels(unit)))
        };
        units.into_iter().filter(enough).map(plot).collect()
    }

    fn panels(&self, unit: &str) -> Vec<LinePanel> {
        let points = |way: &str, metric: &str| {
            let of = self.rows.iter().filter(|row| row.way == way);
            let mut points: Vec<(f64, f64)> = of
                .filter_map(|row| {
                    let (number, _) = counted(&row.case).filter(|c| c.1 == unit)?;
                    Some((number, row.values.get(metric)?.median))
                })
                .collect();
            points.sort_by(|a, b| a.0.total_cmp(&b.0));
            points
        };
        let panel = |metric: &crate::Metric| {
            let lines: Vec<_> = self
                .ways
                .iter()
                .map(|way| (way.title.clone(), points(&way.name, &metric.name)))
                .filter(|(_, points)| !points.is_empty())
                .collect();
            (!lines.is_empty()).then(|| LinePanel { title: metric.title.clone(), lines })
        };
        self.metrics.iter().filter_map(panel).collect()
    }
}

/// A case such as `1,000 flows`: the number and what is counted, in the plural.
fn counted(case: &str) -> Option<(f64, &str)> {
    let (number, unit) = case.split_once(' ')?;
    let number = number.replace(',', "").parse().ok()?;
    let plural = match unit {
        "flow" => "flows",
        "subscriber" => "subscribers",
        "shard" => "shards",
        other => other,
    };
    Some((number, plural))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn cases_are_numbers_of_something() {
        assert_eq!(counted("1,000 flows"), Some((1_000.0, "flows")));
        assert_eq!(counted("1 flow"), Some((1.0, "flows")));
        assert_eq!(counted("0.5 % loss"), Some((0.5, "% loss")));
        assert_eq!(counted("idle"), None);
    }
}
