//! [`Limit`]: what kept a transfer from being faster, by the kernel's own clocks and counters.

use figures::stats::percentile;
use serde::Serialize;

use crate::tcp_side::{TcpSample, TcpSide};
use crate::verdict::digits;

/// A share of the busy time from which something is the limit.
const LIMIT_SHARE: f64 = 0.5;
/// Share of what window and round trip allow that counts as all of it.
const WINDOW_SHARE: f64 = 0.8;
/// A sender that paces is stopped by a full window for this share of the busy time, and uses this much of it.
const PACED_LIMIT_SHARE: f64 = 0.25;
const PACED_WINDOW_SHARE: f64 = 0.6;
/// A median round trip that is longer than this many of the shortest one has a queue in it.
const QUEUE_RATIO: f64 = 1.5;
/// Segments sent again, per cent of all, from which on they hold back a sender that takes losses for congestion.
const LOSS_PERCENT: f64 = 0.1;
/// A program that stands still for so long, and for this share of the time, is the limit.
const STILL_S: f64 = 1.0;
const STILL_SHARE: f64 = 0.2;
/// The slow-start threshold of a sender that has met no congestion, or does not use it.
const NO_THRESHOLD: u32 = 1 << 30;

/// Limit that kept a transfer from being faster.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Limit {
    /// `network`, `loss`, `receive window`, `send buffer`, `application`, or `server` for its --rate-max;
    /// `not known` where the sender's figures did not come.
    pub by: &'static str,
    /// In words, with the arithmetic.
    pub why: String,
    /// Time with something to send, of all time.
    pub busy_share: f64,
    /// Of that limited by the receiver's window.
    pub rwnd_limited_share: f64,
    /// Of that limited by the send buffer.
    pub sndbuf_limited_share: f64,
    /// Window of the receiver, median.
    pub rwnd_bytes: u32,
    /// Throughput that this window allows over the median round trip: `rwnd / RTT`.
    pub rwnd_over_rtt_mbps: Option<f64>,
    /// Longest time in which the sender's program stood still: it neither sent nor looked at its connection.
    pub stood_still_s: f64,
}

/// Figures of a sender's samples.
struct Figures {
    /// Those that are told; the limit itself is not known yet.
    told: Limit,
    /// Median round trip, ms.
    rtt_ms: Option<f64>,
    has_queue: bool,
    /// Bytes acknowledged, over the time.
    mbps: f64,
    loss_percent: f64,
    takes_loss_for_congestion: bool,
}

impl Figures {
    fn of(sender: &TcpSide, control: Option<&str>) -> Self {
        let share = |part: f64, whole: f64| if whole > 0.0 { (part / whole).min(1.0) } else { 0.0 };
        let last = sender.samples.last();
        let of = |get: fn(&TcpSample) -> f64| last.map_or(0.0, get);
        let busy = of(|sample| sample.busy_s);
        // The median: a window that was bounded late is larger at first.
        let loaded = sender.samples.iter().filter(|sample| sample.acked_bytes > 1);
        let mut windows: Vec<u32> = loaded.map(|sample| sample.rwnd_bytes).collect();
        windows.sort_unstable();
        let rwnd_bytes = percentile(&windows, 500).unwrap_or(0);
        let mut trips: Vec<f64> =
            sender.samples.iter().map(|sample| sample.srtt_ms).filter(|srtt| *srtt > 0.0).collect();
        trips.sort_unstable_by(f64::total_cmp);
        let (least, rtt_ms) = (percentile(&trips, 0), percentile(&trips, 500));
        let gaps = sender.samples.windows(2).map(|pair| pair[1].at_s - pair[0].at_s);
        let told = Limit {
            by: "",
            why: String::new(),
            busy_share: share(busy, sender.seconds),
            rwnd_limited_share: share(of(|sample| sample.rwnd_limited_s), busy),
            sndbuf_limited_share: share(of(|sample| sample.sndbuf_limited_s), busy),
            rwnd_bytes,
            rwnd_over_rtt_mbps: rtt_ms.map(|ms| f64::from(rwnd_bytes) * 8.0 / ms / 1e3),
            stood_still_s: gaps.fold(0.0, f64::max),
        };
        Self {
            told,
            rtt_ms,
            has_queue: rtt_ms.zip(least).is_some_and(|(usual, least)| usual > least * QUEUE_RATIO),
            mbps: share_of_time(sender.acknowledged(), sender.seconds),
            loss_percent: last
                .filter(|sample| sample.segments > 0)
                .map_or(0.0, |sample| f64::from(sample.retransmitted) * 100.0 / f64::from(sample.segments)),
            takes_loss_for_congestion: last.is_some_and(|sample| sample.ssthresh < NO_THRESHOLD)
                && !control.is_some_and(|name| name.starts_with("bbr")),
        }
    }

    /// The window is what allows no more: by the kernel's clock, or as it is all used while no queue waits. A sender
    /// that paces, as BBR does, is rarely stopped by a full window, which the kernel's clock needs.
    fn is_windowed(&self) -> bool {
        let uses = |share: f64| self.told.rwnd_over_rtt_mbps.is_some_and(|most| self.mbps >= most * share);
        self.told.rwnd_limited_share >= LIMIT_SHARE
            || (self.told.rwnd_limited_share >= PACED_LIMIT_SHARE && uses(PACED_WINDOW_SHARE))
            || (uses(WINDOW_SHARE) && !self.has_queue)
    }
}

fn share_of_time(bytes: u64, seconds: f64) -> f64 {
    if seconds > 0.0 { bytes as f64 * 8.0 / seconds / 1e6 } else { 0.0 }
}

impl Limit {
    /// Limit that kept the sender from sending more; `control` is the congestion control that it was asked to use.
    pub(crate) fn of(sender: &TcpSide, control: Option<&str>) -> Self {
        let figures = Figures::of(sender, control);
        let (by, why) = judge(sender, &figures);
        Self { by, why, ..figures.told }
    }
}

fn judge(sender: &TcpSide, f: &Figures) -> (&'static str, String) {
    let told = &f.told;
    let percent = |share: f64| format!("{:.0} % of the time", share * 100.0);
    if sender.samples.is_empty() {
        let why = "something that is not known, because the sender's figures did not come";
        return ("not known", why.to_owned());
    }
    if told.stood_still_s >= STILL_S && told.stood_still_s >= sender.seconds * STILL_SHARE {
        let why = format!(
            "the sender's program, which stood still for {:.1} s of {:.1} s",
            told.stood_still_s, sender.seconds
        );
        return ("application", why);
    }
    if f.is_windowed() {
        let arithmetic = f.rtt_ms.zip(told.rwnd_over_rtt_mbps).map_or(String::new(), |(ms, mbps)| {
            format!(": {} B / {ms:.1} ms = {mbps:.2} Mbit/s", told.rwnd_bytes)
        });
        let when = match told.rwnd_limited_share >= LIMIT_SHARE {
            true => format!(" for {}", percent(told.rwnd_limited_share)),
            false => ", of which it used all".to_owned(),
        };
        return ("receive window", format!("the receiver's window{when}{arithmetic}"));
    }
    if told.sndbuf_limited_share >= LIMIT_SHARE {
        return ("send buffer", format!("the sender's buffer for {}", percent(told.sndbuf_limited_share)));
    }
    if told.busy_share < LIMIT_SHARE {
        return (
            "application",
            format!("the sender, which had nothing to send for {}", percent(1.0 - told.busy_share)),
        );
    }
    let lost = match f.loss_percent >= LOSS_PERCENT {
        true => format!("{} % of the segments were sent again", digits(f.loss_percent)),
        false => String::new(),
    };
    if !lost.is_empty() && f.takes_loss_for_congestion && !f.has_queue {
        let trips =
            f.rtt_ms.map_or(String::new(), |ms| format!(", and round trips stayed at {} ms", digits(ms)));
        return ("loss", format!("lost packets: {lost}{trips}, so it was not for a long queue"));
    }
    let idle = match 1.0 - told.busy_share {
        idle if idle >= STILL_SHARE => format!("; the sender had nothing to send for {}", percent(idle)),
        _ => String::new(),
    };
    let lost = if lost.is_empty() { lost } else { format!("; {lost}") };
    let share = told.busy_share * (1.0 - told.rwnd_limited_share - told.sndbuf_limited_share);
    ("network", format!("the network for {}{lost}{idle}", percent(share)))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Five seconds of samples each 100 ms at `mbps` and this round trip, changed by `with`.
    fn sender(mbps: f64, srtt_ms: f64, with: impl Fn(&mut TcpSample)) -> TcpSide {
        let sample = |number: u32| {
            let at_s = f64::from(number) / 10.0;
            let mut sample = TcpSample {
                at_s,
                cwnd: 100,
                ssthresh: i32::MAX as u32,
                unacked: 10,
                rwnd_bytes: 1_000_000,
                srtt_ms: if number == 0 { 40.0 } else { srtt_ms },
                retransmitted: 0,
                segments: number * 100,
                pacing_mbps: None,
                delivery_mbps: mbps,
                acked_bytes: 1 + (mbps * 1e6 / 8.0 * at_s) as u64,
                busy_s: at_s,
                rwnd_limited_s: 0.0,
                sndbuf_limited_s: 0.0,
            };
            with(&mut sample);
            sample
        };
        TcpSide { seconds: 5.0, samples: (0..=50).map(sample).collect(), ..TcpSide::default() }
    }

    fn by(side: &TcpSide) -> &'static str {
        Limit::of(side, None).by
    }

    #[test]
    fn a_window_that_a_pacing_sender_uses_is_the_limit() {
        // 20 KB in 40 ms are 4 Mbit/s; the kernel's clock of full windows hardly runs.
        let small = |sample: &mut TcpSample| {
            (sample.rwnd_bytes, sample.rwnd_limited_s) = (20_000, 0.1);
        };
        let limit = Limit::of(&sender(3.8, 40.0, small), None);
        assert_eq!(limit.by, "receive window");
        assert!(limit.why.contains("20000 B / 40.0 ms = 4.00 Mbit/s"), "{}", limit.why);
        assert_eq!(by(&sender(2.0, 40.0, small)), "network", "half of it is not all");
        // As measured: the clock ran for 43 % of the time, and three quarters of the window were used.
        let paced = |sample: &mut TcpSample| {
            (sample.rwnd_bytes, sample.rwnd_limited_s) = (40_000, sample.busy_s * 0.43);
        };
        assert_eq!(by(&sender(6.0, 50.0, paced)), "receive window");
        // The queue of a slow link makes the same ratio of a large window.
        let large = |sample: &mut TcpSample| sample.rwnd_bytes = 200_000;
        assert_eq!(by(&sender(18.0, 85.0, large)), "network");
        let stopped = |sample: &mut TcpSample| sample.rwnd_limited_s = sample.busy_s * 0.8;
        assert_eq!(by(&sender(1.0, 40.0, stopped)), "receive window");
    }

    #[test]
    fn losses_without_a_queue_are_named() {
        let lossy = |threshold: u32| {
            move |sample: &mut TcpSample| {
                (sample.retransmitted, sample.ssthresh) = (sample.segments / 50, threshold);
            }
        };
        let limit = Limit::of(&sender(5.0, 42.0, lossy(12)), Some("cubic"));
        assert_eq!(limit.by, "loss");
        assert!(limit.why.contains("2.0 % of the segments"), "{}", limit.why);
        // A full queue drops, too, and BBR does not slow down for losses: the network, and both are told.
        for (side, control) in
            [(sender(5.0, 120.0, lossy(12)), "cubic"), (sender(5.0, 42.0, lossy(12)), "bbr")]
        {
            let limit = Limit::of(&side, Some(control));
            assert!(limit.by == "network" && limit.why.contains("2.0 % of the segments"), "{}", limit.why);
        }
    }

    #[test]
    fn a_program_that_stands_still_is_not_the_network() {
        let mut still = sender(5.0, 40.0, |sample| sample.busy_s *= 0.7);
        still.samples.retain(|sample| !(2.0..3.5).contains(&sample.at_s));
        let limit = Limit::of(&still, None);
        assert!(limit.by == "application" && limit.why.contains("stood still for 1.6 s"), "{}", limit.why);
        let limit = Limit::of(&sender(5.0, 40.0, |sample| sample.busy_s *= 0.7), None);
        assert!(limit.by == "network" && limit.why.contains("nothing to send for 30 %"), "{}", limit.why);
        assert_eq!(by(&sender(5.0, 40.0, |sample| sample.busy_s *= 0.4)), "application");
        assert_eq!(by(&TcpSide::default()), "not known");
    }
}
