//! Sysctls that multi-path connections over radios need, saved and restored.

use std::collections::BTreeMap;

use io::sysctl;
use units::Duration;

/// A value to be set.
#[derive(Clone, PartialEq, Eq, Debug)]
enum Wanted {
    /// Exactly this.
    Exactly(u64),
    /// The third of three numbers at least this.
    MaxAtLeast(u64),
}

/// Buffers hold two bandwidth-delay products of several paths together: 100 Mbit/s over 300 ms.
const BUFFER_MAX: u64 = 8 << 20;
/// Keep-alives that may stay without an answer, and the time between them, s.
pub(crate) const KEEP_ALIVE_PROBES: u64 = 4;
pub(crate) const KEEP_ALIVE_INTERVAL_S: u64 = 15;
/// Longest time between retransmissions.
pub(crate) const RTO_MAX_MS: u64 = 1_000;
/// Retransmissions until a subflow is given up.
pub(crate) const RETRIES: u64 = 100;

/// Settings for the whole host, whoever's connections they are.
fn of_every_connection(keep_alive: Duration) -> [(&'static str, Wanted); 5] {
    use Wanted::Exactly;
    [
        // A path that returns is used again within a second. Alone it would give a subflow up early:
        // retransmissions are counted, so more of them are allowed.
        ("net/ipv4/tcp_rto_max_ms", Exactly(RTO_MAX_MS)),
        ("net/ipv4/tcp_retries2", Exactly(RETRIES)),
        ("net/ipv4/tcp_keepalive_time", Exactly(keep_alive.as_secs().max(1))),
        ("net/ipv4/tcp_keepalive_intvl", Exactly(KEEP_ALIVE_INTERVAL_S)),
        ("net/ipv4/tcp_keepalive_probes", Exactly(KEEP_ALIVE_PROBES)),
    ]
}

/// Settings made in any case, and why. Those that this kernel does not have are left out.
fn always() -> Vec<(&'static str, Wanted)> {
    use Wanted::{Exactly, MaxAtLeast};
    vec![
        // What one visit of a cell taught is wrong in the next ([MP] §IV-A.2).
        ("net/ipv4/tcp_no_metrics_save", Exactly(1)),
        // Answers may come through another interface than the best route's.
        ("net/ipv4/conf/all/rp_filter", Exactly(2)),
        // The peer's SYN-ACK without MPTCP does not switch it off for an hour.
        ("net/mptcp/blackhole_timeout", Exactly(60)),
        ("net/ipv4/tcp_rmem", MaxAtLeast(BUFFER_MAX)),
        ("net/ipv4/tcp_wmem", MaxAtLeast(BUFFER_MAX)),
    ]
}

/// Values to be written, and the values before, by path.
pub(crate) struct Profile {
    pub before: BTreeMap<String, String>,
    to_set: Vec<(&'static str, String)>,
}

impl Profile {
    /// Reads what there is; nothing is set yet. With `is_per_subflow`, time-outs and keep-alives are set elsewhere.
    pub fn plan(keep_alive: Duration, is_per_subflow: bool) -> Self {
        let mut profile = Self { before: BTreeMap::new(), to_set: Vec::new() };
        let of_host = of_every_connection(keep_alive).into_iter().filter(|_| !is_per_subflow);
        for (path, wanted) in always().into_iter().chain(of_host) {
            let Ok(before) = sysctl::read_here(path) else { continue };
            let Some(value) = changed(&before, &wanted) else { continue };
            profile.before.insert(path.to_owned(), before);
            profile.to_set.push((path, value));
        }
        profile
    }

    /// Sets all; what is refused, one line each.
    pub fn apply(&self) -> Vec<String> {
        let refused = |(path, value): &(&str, String)| sysctl::write_here(path, value).err();
        self.to_set.iter().filter_map(refused).map(|error| error.to_string()).collect()
    }
}

/// Restores what was before; what is refused, one line each.
pub(crate) fn restore(before: &BTreeMap<String, String>) -> Vec<String> {
    let refused = |(path, value): (&String, &String)| sysctl::write_here(path, value).err();
    before.iter().filter_map(refused).map(|error| error.to_string()).collect()
}

/// The value to be written; none when it is as wanted.
fn changed(before: &str, wanted: &Wanted) -> Option<String> {
    match wanted {
        Wanted::Exactly(value) => (before != value.to_string()).then(|| value.to_string()),
        Wanted::MaxAtLeast(least) => {
            let numbers: Vec<u64> = before.split_whitespace().filter_map(|n| n.parse().ok()).collect();
            let [min, usual, max] = *numbers.as_slice() else { return None };
            (max < *least).then(|| format!("{min}\t{usual}\t{least}"))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_what_differs_is_changed_and_buffers_only_grow() {
        assert_eq!(changed("15", &Wanted::Exactly(100)).as_deref(), Some("100"));
        assert_eq!(changed("100", &Wanted::Exactly(100)), None);
        let least = Wanted::MaxAtLeast(8_000_000);
        assert_eq!(changed("4096\t131072\t6291456", &least).as_deref(), Some("4096\t131072\t8000000"));
        assert_eq!(changed("4096\t131072\t33554432", &least), None);
        assert_eq!(changed("odd", &least), None);
    }

    #[test]
    fn the_longest_back_off_goes_together_with_more_retries() {
        let all = of_every_connection(Duration::from_secs(100));
        let of = |name: &str| all.iter().find(|(path, _)| path.ends_with(name)).map(|(_, w)| w.clone());
        let (Some(Wanted::Exactly(ms)), Some(Wanted::Exactly(retries))) =
            (of("tcp_rto_max_ms"), of("tcp_retries2"))
        else {
            panic!("both are there")
        };
        assert!(ms * retries >= 60_000, "a subflow lives through a minute");
        let names: Vec<&str> = always().into_iter().map(|(path, _)| path).collect();
        assert!(names.iter().all(|name| !name.contains("keepalive") && !name.contains("rto")), "{names:?}");
    }
}
