//! [`Kernel`]: MPTCP endpoints and subflows of this host.

use std::collections::BTreeMap;
use std::net::{IpAddr, SocketAddr};

use io::IoError;
use io::netlink::{PathManager, SocketDiagnosis, Subflow};
use multipath::PathSample;
use units::{Duration, Instant};

/// Data that came within this time lets more be expected.
const EXPECTED_FOR: Duration = Duration::from_millis(400);
/// Over this time rates are told.
const RATE_OVER: Duration = Duration::from_secs(1);

/// MPTCP endpoints and subflows of this host.
#[derive(Debug)]
pub(crate) struct Kernel {
    manager: PathManager,
    diagnosis: SocketDiagnosis,
    /// State of each subflow at the last look.
    before: BTreeMap<(SocketAddr, SocketAddr), Subflow>,
    /// Time of that look.
    looked: Option<Instant>,
    /// Time at which data last came, by address.
    data_came: BTreeMap<IpAddr, Instant>,
    /// Bytes received and acknowledged, by the path's first address, at past times.
    totals: BTreeMap<IpAddr, Vec<(Instant, u64, u64)>>,
    pub subflows: Vec<Subflow>,
}

impl Kernel {
    pub fn open() -> Result<Self, IoError> {
        Ok(Self {
            manager: PathManager::open()?,
            diagnosis: SocketDiagnosis::open()?,
            before: BTreeMap::new(),
            looked: None,
            data_came: BTreeMap::new(),
            totals: BTreeMap::new(),
            subflows: Vec::new(),
        })
    }

    pub fn manager(&self) -> &PathManager {
        &self.manager
    }

    /// Looks at all subflows: connections, and what those of each path did since the last look. A path has the
    /// addresses of its interface, the one in use first.
    pub fn sample(&mut self, paths: &[Vec<IpAddr>], now: Instant) -> Result<(u32, Vec<PathSample>), IoError> {
        self.subflows = self.diagnosis.subflows()?;
        let mut tokens: BTreeMap<u32, Vec<IpAddr>> = BTreeMap::new();
        for subflow in self.subflows.iter().filter(|s| s.is_established) {
            tokens.entry(subflow.token).or_default().push(subflow.local.ip());
        }
        let samples = paths.iter().map(|addresses| self.sample_of(addresses, &tokens, now)).collect();
        self.looked = Some(now);
        self.before = self.subflows.iter().map(|s| ((s.local, s.remote), *s)).collect();
        let connections = u32::try_from(tokens.len()).unwrap_or(u32::MAX);
        Ok((connections, samples))
    }

    fn sample_of(
        &mut self,
        addresses: &[IpAddr],
        tokens: &BTreeMap<u32, Vec<IpAddr>>,
        now: Instant,
    ) -> PathSample {
        let mut sample = PathSample::default();
        let Some(address) = addresses.first().copied() else { return sample };
        let (mut received, mut acked, mut new_data) = (0, 0, 0);
        let (mut unacked, mut quiet) = (false, None::<Duration>);
        for s in self.subflows.iter().filter(|s| addresses.contains(&s.local.ip()) && s.is_established) {
            let before = self.before.get(&(s.local, s.remote));
            let arrived = s.segments_in.wrapping_sub(before.map_or(0, |b| b.segments_in));
            sample.arrived += u64::from(arrived);
            if arrived > 0 {
                quiet = Some(quiet.map_or(s.quiet, |least| least.min(s.quiet)));
            }
            new_data += s.bytes_received.saturating_sub(before.map_or(0, |b| b.bytes_received));
            received += s.bytes_received;
            acked += s.bytes_acked;
            unacked |= s.unacked > 0;
            sample.subflows += 1;
            if !s.rtt_min.is_zero() {
                let us = s.rtt_min.as_micros();
                sample.rtt_min_us = Some(sample.rtt_min_us.map_or(us, |least: u64| least.min(us)));
            }
        }
        // What came out of order, the kernel's time does not count: it came since the last look.
        let since_look = self.looked.map_or(Duration::ZERO, |at| now.saturating_since(at));
        sample.arrived_us_ago = quiet.unwrap_or(Duration::ZERO).min(since_look).as_micros();
        if new_data > 0 {
            self.data_came.insert(address, now);
        }
        let came = self.data_came.get(&address);
        let is_expected = came.is_some_and(|at| now.saturating_since(*at) < EXPECTED_FOR);
        sample.is_due = sample.subflows > 0 && (unacked || is_expected);
        let alone =
            tokens.values().filter(|at| !at.is_empty() && at.iter().all(|ip| addresses.contains(ip))).count();
        sample.alone = u32::try_from(alone).unwrap_or(u32::MAX);
        let totals = self.totals.entry(address).or_default();
        totals.push((now, received, acked));
        let keep_from = totals.iter().rposition(|(at, ..)| now.saturating_since(*at) >= RATE_OVER);
        totals.drain(..keep_from.unwrap_or(0));
        sample
    }

    /// Data received and acknowledged through an address over the last second, Mbit/s.
    pub fn rates_mbps(&self, address: IpAddr) -> (f64, f64) {
        let Some(totals) = self.totals.get(&address) else { return (0.0, 0.0) };
        let (Some(first), Some(last)) = (totals.first(), totals.last()) else { return (0.0, 0.0) };
        let seconds = last.0.saturating_since(first.0).as_secs_f64();
        let mbps = |now: u64, then: u64| {
            if seconds > 0.0 { now.saturating_sub(then) as f64 * 8.0 / 1e6 / seconds } else { 0.0 }
        };
        (mbps(last.1, first.1), mbps(last.2, first.2))
    }
}
