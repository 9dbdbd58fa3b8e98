//! Counters of the kernel for MPTCP: connections that fell back to TCP, joins that were refused.

use std::collections::BTreeMap;

/// The kernel's counters of MPTCP.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub(crate) struct Counters(BTreeMap<String, u64>);

impl Counters {
    /// Of this namespace; empty where the kernel has none.
    pub fn read() -> Self {
        Self::parse(&std::fs::read_to_string("/proc/thread-self/net/netstat").unwrap_or_default())
    }

    fn parse(text: &str) -> Self {
        let mut lines = text.lines().filter_map(|line| line.strip_prefix("MPTcpExt:"));
        let (names, values) = (lines.next().unwrap_or_default(), lines.next().unwrap_or_default());
        let values = values.split_whitespace().filter_map(|value| value.parse().ok());
        Self(names.split_whitespace().map(str::to_owned).zip(values).collect())
    }

    pub fn get(&self, name: &str) -> u64 {
        self.0.get(name).copied().unwrap_or(0)
    }

    /// Connections that this host opened and that fell back, ever.
    pub fn fallbacks(&self) -> u64 {
        self.get("MPCapableFallbackSYNACK") + self.get("MPCapableSYNTXDrop")
    }

    /// Events since `before`, one line each.
    pub fn news(&self, before: &Self) -> Vec<String> {
        let grown = |count: fn(&Self) -> u64| count(self).saturating_sub(count(before));
        let mut news = Vec::new();
        let fallbacks = grown(Self::fallbacks);
        if fallbacks > 0 {
            news.push(format!(
                "{fallbacks} connections fell back to TCP: their server has no MPTCP, or the path strips its options"
            ));
        }
        let later =
            grown(|c| c.get("MPFallbackTokenInit") + c.get("DSSFallback") + c.get("MPCapableDataFallback"));
        if later > 0 {
            news.push(format!(
                "{later} connections fell back to TCP after their handshake: options were stripped"
            ));
        }
        news
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fallbacks_are_found_in_the_kernels_table() {
        let table = |n| {
            format!(
                "TcpExt: A B\nTcpExt: 1 2\nMPTcpExt: MPCapableSYNTX MPCapableFallbackSYNACK\nMPTcpExt: 9 {n}\n"
            )
        };
        let (before, after) = (Counters::parse(&table(1)), Counters::parse(&table(3)));
        assert_eq!(after.get("MPCapableSYNTX"), 9);
        assert!(after.news(&before)[0].starts_with("2 connections fell back"));
        assert!(after.news(&after).is_empty() && Counters::parse("").fallbacks() == 0);
    }
}
