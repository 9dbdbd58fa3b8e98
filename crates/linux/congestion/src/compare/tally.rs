//! [`Tally`]: what was measured of the connections of both groups, by client or by connection, and what it says.

use std::collections::BTreeMap;

use figures::stats::compare;
use units::Duration;

use super::layout::Measured;
use super::report::{Metric, Side};
use crate::split::{Group, Unit};

/// Connections with less data have no goodput: it would be that of TCP's beginning (docs/ab.md).
const GOODPUT_BYTES_MIN: u64 = 100_000;

/// Clients or connections that are told apart.
const UNITS_MAX: usize = 262_144;

/// Measurements so far.
#[derive(Debug)]
pub(super) struct Tally {
    by: Unit,
    /// The kernel's unit of time.
    tick: Duration,
    units: BTreeMap<Key, Sums>,
    /// By group.
    totals: [Totals; 2],
    /// Connections that had no room here.
    pub(super) lost: u64,
}

/// Of a client whether it has IPv6, and its network; of a connection its number.
type Key = (bool, u64);

/// Of a group.
#[derive(Clone, Copy, Debug, Default)]
struct Totals {
    connections: u64,
    running: u64,
    bytes: u64,
}

/// Sums over the connections of a client, or over one.
#[derive(Clone, Copy, Debug)]
struct Sums {
    group: Group,
    goodput_connections: u64,
    /// Of the goodput of each, bit/s.
    ln_goodput: f64,
    rtt_connections: u64,
    rtt_ms: f64,
    queueing_ms: f64,
    segments: u64,
    resent: u64,
}

impl Sums {
    fn of(group: Group) -> Self {
        Self {
            group,
            goodput_connections: 0,
            ln_goodput: 0.0,
            rtt_connections: 0,
            rtt_ms: 0.0,
            queueing_ms: 0.0,
            segments: 0,
            resent: 0,
        }
    }

    fn add(&mut self, one: &Measured, tick: Duration) {
        let busy_s = one.busy as f64 * tick.as_secs_f64();
        if one.acknowledged >= GOODPUT_BYTES_MIN && busy_s > 0.0 {
            self.goodput_connections += 1;
            self.ln_goodput += (one.acknowledged as f64 * 8.0 / busy_s).ln();
        }
        // A FIN has a round trip, too.
        let has_data = one.segments > 0 && one.rtt_samples > 0;
        if let Some(least) = one.rtt_min_us.filter(|_| has_data) {
            let mean = one.rtt_sum_us as f64 / one.rtt_samples as f64 / 1e3;
            self.rtt_connections += 1;
            self.rtt_ms += mean;
            self.queueing_ms += (mean - least as f64 / 1e3).max(0.0);
        }
        self.segments += one.segments;
        self.resent += one.resent;
    }
}

/// Way of comparing a metric.
struct Kind {
    name: &'static str,
    unit: &'static str,
    /// Of a client or a connection.
    value: fn(&Sums) -> Option<f64>,
    /// The values are logarithms: means are geometric ones, differences factors.
    is_logarithm: bool,
}

const KINDS: [Kind; 4] = [
    Kind {
        name: "goodput",
        unit: "bit/s",
        value: |sums| mean(sums.ln_goodput, sums.goodput_connections),
        is_logarithm: true,
    },
    Kind {
        name: "rtt",
        unit: "ms",
        value: |sums| mean(sums.rtt_ms, sums.rtt_connections),
        is_logarithm: false,
    },
    Kind {
        name: "queueing-delay",
        unit: "ms",
        value: |sums| mean(sums.queueing_ms, sums.rtt_connections),
        is_logarithm: false,
    },
    Kind {
        name: "resent",
        unit: "%",
        value: |sums| mean(sums.resent as f64 * 100.0, sums.segments),
        is_logarithm: false,
    },
];

fn mean(sum: f64, count: u64) -> Option<f64> {
    (count > 0).then(|| sum / count as f64)
}

impl Tally {
    pub(super) fn new(by: Unit, tick: Duration) -> Self {
        Self { by, tick, units: BTreeMap::new(), totals: [Totals::default(); 2], lost: 0 }
    }

    /// Takes in a connection, which has ended or is running still.
    pub(super) fn add(&mut self, one: &Measured, is_running: bool) {
        let key = match self.by {
            Unit::Client => (one.is_ipv6, one.network),
            Unit::Connection => (false, one.cookie),
        };
        let totals = &mut self.totals[one.group as usize];
        totals.connections += 1;
        totals.running += u64::from(is_running);
        totals.bytes += one.acknowledged;
        if self.units.len() >= UNITS_MAX && !self.units.contains_key(&key) {
            self.lost += 1;
            return;
        }
        self.units.entry(key).or_insert_with(|| Sums::of(one.group)).add(one, self.tick);
    }

    /// Connections that have ended so far.
    pub(super) fn ended(&self) -> u64 {
        self.totals.iter().map(|totals| totals.connections - totals.running).sum()
    }

    /// A group, by the name of its congestion control.
    pub(super) fn side(&self, group: Group, control: &str, refused: u64) -> Side {
        let totals = self.totals[group as usize];
        Side {
            control: control.to_owned(),
            units: self.units.values().filter(|sums| sums.group == group).count() as u64,
            connections: totals.connections,
            running: totals.running,
            bytes: totals.bytes,
            refused,
        }
    }

    /// Comparison of each metric.
    pub(super) fn metrics(&self) -> Vec<Metric> {
        let compared = |kind: &Kind| {
            let of = |group| {
                let units = self.units.values().filter(move |sums| sums.group == group);
                units.filter_map(kind.value).collect::<Vec<f64>>()
            };
            let [other, adaptive] = Group::ALL.map(of);
            Metric::of(kind.name, kind.unit, compare(other, adaptive, kind.is_logarithm))
        };
        KINDS.iter().map(compared).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::super::report::Shows;
    use super::*;

    const TICK: Duration = Duration::from_millis(4);

    /// A megabyte in two seconds, 40 ms of round trip and 100 ms of queue.
    fn measured(cookie: u64, network: u64, group: Group) -> Measured {
        Measured {
            cookie,
            network,
            is_ipv6: false,
            group,
            acknowledged: 1_000_000,
            busy: 500,
            rtt_sum_us: 10 * 140_000,
            rtt_samples: 10,
            rtt_min_us: Some(40_000),
            segments: 1_000,
            resent: 20,
        }
    }

    fn tally(by: Unit, all: &[Measured]) -> Tally {
        let mut tally = Tally::new(by, TICK);
        all.iter().for_each(|one| tally.add(one, false));
        tally
    }

    fn near(value: f64, wanted: f64) -> bool {
        (value - wanted).abs() < 1e-6 * wanted.abs().max(1.0)
    }

    #[test]
    fn a_connection_is_measured_in_the_units_of_the_metrics() {
        let metrics = tally(Unit::Connection, &[measured(1, 7, Group::Adaptive)]).metrics();
        let value = |at: usize| metrics[at].adaptive.unwrap().value;
        assert!(near(value(0), 4e6) && near(value(1), 140.0) && near(value(2), 100.0) && near(value(3), 2.0));
        assert_eq!(
            metrics.iter().map(|metric| metric.name.as_str()).collect::<Vec<_>>(),
            ["goodput", "rtt", "queueing-delay", "resent"]
        );
        assert!(metrics.iter().all(|metric| metric.other.is_none() && metric.shows.is_none()), "{metrics:?}");
    }

    #[test]
    fn a_client_counts_once_and_a_connection_too() {
        let fast = |cookie, network| Measured { busy: 250, ..measured(cookie, network, Group::Adaptive) };
        // A client with nine slow connections, and one with a fast one.
        let mut all: Vec<_> = (0..9).map(|n| measured(n, 1, Group::Adaptive)).collect();
        all.push(fast(9, 2));
        let by = |unit| {
            let tally = tally(unit, &all);
            let goodput = tally.metrics()[0].adaptive.unwrap();
            (tally.side(Group::Adaptive, "adaptive", 0).units, goodput.count, goodput.value)
        };
        let (clients, of, value) = by(Unit::Client);
        assert!((clients, of) == (2, 2) && near(value, 32f64.sqrt() * 1e6), "{value}");
        let (connections, of, value) = by(Unit::Connection);
        assert!((connections, of) == (10, 10) && near(value, 4e6 * 2f64.powf(0.1)), "{value}");
    }

    #[test]
    fn small_idle_and_silent_connections_have_no_value_and_count() {
        let odd = [
            Measured { acknowledged: 99_999, ..measured(1, 1, Group::Other) },
            Measured { busy: 0, ..measured(2, 2, Group::Other) },
            Measured { acknowledged: 1, segments: 0, resent: 0, ..measured(3, 3, Group::Other) },
            Measured { rtt_min_us: None, ..measured(4, 4, Group::Other) },
        ];
        let tally = tally(Unit::Client, &odd);
        let counts: Vec<_> =
            tally.metrics().iter().map(|metric| metric.other.map_or(0, |one| one.count)).collect();
        assert_eq!(counts, [1, 2, 2, 3]);
        let side = tally.side(Group::Other, "bbr", 5);
        assert_eq!((side.connections, side.units, side.bytes, side.refused), (4, 4, 2_100_000, 5));
    }

    #[test]
    fn a_change_is_shown_where_the_interval_says_so_and_else_not() {
        let jitter = |n: u64| 10 * (140_000 + n % 5 * 1_000);
        let mut all = Vec::new();
        for n in 0..20 {
            all.push(Measured { rtt_sum_us: jitter(n), ..measured(n, n, Group::Other) });
            let own = measured(100 + n, 100 + n, Group::Adaptive);
            // Half the time and half the queue; the same is sent again, now more and now less.
            let resent = if n % 2 == 0 { 10 } else { 30 };
            all.push(Measured { busy: 240 + n, rtt_sum_us: jitter(n) - 500_000, resent, ..own });
        }
        let metrics = tally(Unit::Client, &all).metrics();
        let shows: Vec<_> = metrics.iter().map(|metric| metric.shows).collect();
        let [higher, lower, nothing] = [Shows::Higher, Shows::Lower, Shows::NoChange].map(Some);
        assert_eq!(shows, [higher, lower, lower, nothing]);
        assert!(near(metrics[1].change.unwrap().value, -50.0), "{metrics:?}");
        assert!(metrics[0].change.unwrap().value > 1.9, "{metrics:?}");
    }

    #[test]
    fn who_has_no_room_is_counted() {
        let mut tally = Tally::new(Unit::Connection, TICK);
        let one = measured(0, 0, Group::Other);
        (0..=UNITS_MAX as u64).for_each(|cookie| tally.add(&Measured { cookie, ..one }, cookie == 0));
        assert_eq!((tally.lost, tally.ended()), (1, UNITS_MAX as u64));
        assert_eq!(tally.side(Group::Other, "bbr", 0).units, UNITS_MAX as u64);
    }
}
