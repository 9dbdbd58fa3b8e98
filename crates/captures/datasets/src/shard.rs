//! [`shard`]: which series a job of an array does.

use std::str::FromStr;

use crate::manifest::CaptureSeries;

/// One of several jobs: `2/7` is the second of seven.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Shard {
    /// From 1.
    pub number: u32,
    /// At least `number`.
    pub of: u32,
}

impl Default for Shard {
    /// All work in one job.
    fn default() -> Self {
        Self { number: 1, of: 1 }
    }
}

impl FromStr for Shard {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let parsed = || {
            let (number, of) = text.split_once('/')?;
            Some(Self { number: number.parse().ok()?, of: of.parse().ok()? })
        };
        parsed()
            .filter(|shard| (1..=shard.of).contains(&shard.number))
            .ok_or_else(|| format!("{text:?} is no shard: 2/7 is the second of seven"))
    }
}

/// Places in `series` of those that `shard` does, in their order.
///
/// Depends on the list alone: each series goes to the shard with the fewest bytes so far, the largest
/// first. Every series is in one shard of each number of shards.
#[must_use]
pub fn shard(series: &[CaptureSeries], shard: Shard) -> Vec<usize> {
    let mut order: Vec<usize> = (0..series.len()).collect();
    // A sort that keeps the order of equals.
    order.sort_by_key(|index| std::cmp::Reverse(series[*index].bytes));
    let mut loads = vec![(0_u64, 0_u64); shard.of.max(1) as usize];
    let mut own = Vec::new();
    for index in order {
        let least = loads.iter().enumerate().min_by_key(|(place, load)| (**load, *place));
        let Some(place) = least.map(|(place, _)| place) else { break };
        // Empty series are work too.
        loads[place].0 += series[index].bytes;
        loads[place].1 += 1;
        if place + 1 == shard.number as usize {
            own.push(index);
        }
    }
    own.sort_unstable();
    own
}

#[cfg(test)]
mod tests {
    use super::*;

    fn series(bytes: &[u64]) -> Vec<CaptureSeries> {
        let one = |(i, bytes): (usize, &u64)| CaptureSeries {
            name: format!("s{i}"),
            env: "none".to_owned(),
            files: Vec::new(),
            bytes: *bytes,
        };
        bytes.iter().enumerate().map(one).collect()
    }

    #[test]
    fn each_series_is_in_one_shard() {
        let all = series(&[5, 0, 9, 9, 1, 1, 1, 30, 2]);
        for of in [1, 2, 3, 7, 20] {
            let mut seen: Vec<usize> =
                (1..=of).flat_map(|number| shard(&all, Shard { number, of })).collect();
            seen.sort_unstable();
            assert_eq!(seen, (0..all.len()).collect::<Vec<_>>(), "{of} shards");
        }
        let bytes = |number| -> u64 {
            shard(&all, Shard { number, of: 2 }).iter().map(|index| all[*index].bytes).sum()
        };
        assert_eq!((bytes(1), bytes(2)), (30, 28), "loads are even");
    }

    #[test]
    fn words() {
        assert_eq!("2/7".parse(), Ok(Shard { number: 2, of: 7 }));
        for wrong in ["0/7", "8/7", "2", "a/b", "1/0", ""] {
            assert!(wrong.parse::<Shard>().is_err(), "{wrong}");
        }
    }
}
