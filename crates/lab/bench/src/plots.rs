//! Plots of parts whose cases are numbers: how cost grows.

use figures::chart::{Axis, Chart, Ink, Mark, Panel, Point, Series, Width};

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
            (name, self.chart(&title, unit).file(Width::Wide))
        };
        units.into_iter().filter(enough).map(plot).collect()
    }

    /// Values against one cause, a panel for each metric; the cause is spread by powers of ten when it
    /// covers more than two of them.
    fn chart(&self, title: &str, unit: &str) -> Chart {
        let points = |way: &str, metric: &str| {
            let of = self.rows.iter().filter(|row| row.way == way);
            let mut points: Vec<(f64, f64)> = of
                .filter_map(|row| {
                    let (number, _) = counted(&row.case).filter(|c| c.1 == unit)?;
                    Some((number, row.values.get(metric)?.median))
                })
                .collect();
            points.sort_by(|a, b| a.0.total_cmp(&b.0));
            points.into_iter().map(Point::from).collect::<Vec<_>>()
        };
        let panel = |metric: &crate::Metric| {
            let lines = self.ways.iter().enumerate().map(|(number, way)| {
                Series::new(&way.title, Ink::Colour(number), Mark::Dotted, points(&way.name, &metric.name))
            });
            let series: Vec<Series> = lines.filter(|line| !line.points.is_empty()).collect();
            (!series.is_empty()).then(|| Panel { y: Axis::linear(&metric.title), series })
        };
        let panels: Vec<Panel> = self.metrics.iter().filter_map(panel).collect();
        let xs =
            || panels.iter().flat_map(|panel| &panel.series).flat_map(|s| &s.points).map(|point| point.x);
        let (least, most) = xs().fold((f64::MAX, 0.0f64), |(least, most), x| (least.min(x), most.max(x)));
        let is_wide = least > 0.0 && most > 100.0 * least;
        let x = if is_wide { Axis::log(unit) } else { Axis::exact(unit) };
        Chart { made_by: self.command.clone(), panels, ..Chart::new(title, x) }
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
