//! [`Grid`]: values that every case of a scenario is run with.

use std::collections::BTreeMap;

use serde::Deserialize;
use toml::{Table, Value};

use crate::case::Case;

/// Values of one key that every case is run with, one after the other.
#[derive(Clone, PartialEq, Eq, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Grid {
    /// The key as it stands in a case, as in `workload.write_rate`.
    key: String,
    /// Its values, which the cases are named by as well.
    values: Vec<String>,
    /// More keys, with a value for each of `values`.
    #[serde(default)]
    also: BTreeMap<String, Vec<String>>,
}

impl Grid {
    /// Every case with every value, case by case; `CASE, VALUE` is its name.
    ///
    /// # Errors
    /// A key or value that a case cannot have, or lists of different lengths, in words.
    pub(crate) fn over(&self, cases: &[Case]) -> Result<Vec<Case>, String> {
        for (key, values) in &self.also {
            if values.len() != self.values.len() {
                let (own, wanted) = (values.len(), self.values.len());
                return Err(format!(
                    "[grid] `{key}` has {own} values and `{}` {wanted}: give as many",
                    self.key
                ));
            }
        }
        let whole = [Case::default()];
        let cases = if cases.is_empty() { &whole } else { cases };
        let mut all = Vec::new();
        for case in cases {
            for (i, value) in self.values.iter().enumerate() {
                let name = [case.name.as_str(), value].into_iter().filter(|part| !part.is_empty());
                let named = Case { name: name.collect::<Vec<_>>().join(", "), ..case.clone() };
                let more = self.also.iter().filter_map(|(key, values)| Some((key, values.get(i)?)));
                all.push(with(&named, std::iter::once((&self.key, value)).chain(more))?);
            }
        }
        Ok(all)
    }
}

/// `case` with other values at some keys.
fn with<'a>(case: &Case, values: impl Iterator<Item = (&'a String, &'a String)>) -> Result<Case, String> {
    let mut table = Table::try_from(case).map_err(|error| error.to_string())?;
    let mut last = String::new();
    for (key, value) in values {
        last = format!("`{key} = {value}`");
        let mut at = &mut table;
        let mut steps: Vec<&str> = key.split('.').collect();
        let name = steps.pop().unwrap_or_default();
        for step in steps {
            let inner = at.entry(step).or_insert_with(|| Value::Table(Table::new()));
            at = inner.as_table_mut().ok_or_else(|| format!("[grid] {last}: `{step}` is no section"))?;
        }
        at.insert(name.to_owned(), Value::String(value.clone()));
    }
    Case::deserialize(table).map_err(|error| format!("[grid] {last}: {}", error.to_string().trim()))
}

#[cfg(test)]
mod tests {
    use crate::Scenario;

    fn read(grid: &str) -> Result<Scenario, String> {
        let text = format!("name = \"x\"\n[workload]\nsize = \"1 MB\"\n{grid}");
        Scenario::from_toml("x.toml", &text).map_err(|error| error.to_string())
    }

    #[test]
    fn every_case_is_run_with_every_value() {
        let scenario = read(
            "[grid]\nkey = \"radio.down.rate\"\nvalues = [\"1 Mbit/s\", \"2 Mbit/s\"]\n\
             also = { \"workload.size\" = [\"3 MB\", \"4 MB\"] }\n\
             [[case]]\nname = \"a\"\nserver.congestion_control = \"reno\"\n[[case]]\nname = \"b\"\n",
        )
        .unwrap();
        let cases = scenario.resolved();
        let names: Vec<&str> = cases.iter().map(|case| case.name.as_str()).collect();
        assert_eq!(names, ["a, 1 Mbit/s", "a, 2 Mbit/s", "b, 1 Mbit/s", "b, 2 Mbit/s"]);
        let rate = |n: usize| cases[n].radio.down.as_ref().unwrap().rate.unwrap().to_string();
        assert_eq!((rate(1).as_str(), cases[1].workload.size().get()), ("2 Mbit/s", 4_000_000));
        let controls =
            [1, 2].map(|i: usize| cases[i].server.congestion_control.map(crate::CongestionControl::name));
        assert_eq!(controls, [Some("reno"), Some("cubic")]);
        // What was read is written with all its cases, and read again the same.
        let again = Scenario::from_toml("x", &toml::to_string(&scenario).unwrap()).unwrap();
        assert_eq!(again, scenario);
    }

    #[test]
    fn without_cases_the_values_are_the_names() {
        let scenario = read("[grid]\nkey = \"wan.delay\"\nvalues = [\"1 ms\", \"2 ms\"]\n").unwrap();
        assert_eq!(scenario.resolved()[1].name, "2 ms");
    }

    #[test]
    fn wrong_keys_values_and_lengths_are_named() {
        let grid = |key: &str, values: &str, also: &str| {
            read(&format!("[grid]\nkey = \"{key}\"\nvalues = [{values}]\n{also}")).unwrap_err()
        };
        assert!(grid("wan.dealy", "\"1 ms\"", "").contains("dealy"));
        assert!(grid("wan.delay", "\"1 m\"", "").contains("`wan.delay = 1 m`"));
        let also = "also = { \"workload.size\" = [\"1 MB\", \"2 MB\"] }";
        assert!(grid("wan.delay", "\"1 ms\"", also).contains("as many"));
    }
}
