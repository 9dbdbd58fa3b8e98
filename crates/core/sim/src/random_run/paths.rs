//! The links of a random run and what goes wrong on them.

use link::{Capacity, DelayModel, Harq, LinkConfig, LossModel, OutageModel, QueueLimit, SlotConfig};
use units::{Bytes, Duration, Rate};

use crate::{
    FaultConfig, LogMode, Mtu, NetworkConfig, PathConfig, RadioConfig, Random, Rebinding, Span, Strips,
    Tolerance,
};

fn ms(random: &mut Random, low: u64, high: u64) -> Duration {
    Duration::from_millis(random.within(low, high))
}

fn loss(random: &mut Random, max_ppm: u64) -> LossModel {
    match random.below(6) {
        0..=2 => LossModel::None,
        3 | 4 => LossModel::Bernoulli { ppm: random.spread(100, max_ppm) as u32 },
        _ => LossModel::GilbertElliott {
            to_bad_ppm: random.spread(100, 5_000) as u32,
            // Longer bursts of a path that carries little outlast every retransmission of a host.
            to_good_ppm: random.spread(250_000, 500_000) as u32,
            good_loss_ppm: 0,
            bad_loss_ppm: 700_000,
        },
    }
}

fn path(random: &mut Random, rate: Rate, delay: Duration, max_loss_ppm: u64) -> PathConfig {
    let link = LinkConfig {
        capacity: if random.one_in(8) { Capacity::Unlimited } else { Capacity::Constant(rate) },
        // At most four seconds: a handshake that waits for longer than a minute is given up.
        queue: QueueLimit::Bytes(Bytes::new(
            random.spread(20_000, 1_000_000).min(rate.bytes_in(Duration::from_secs(4)).get().max(20_000)),
        )),
        delay: match random.below(4) {
            0 => DelayModel::Uniform { min: delay / 2, max: delay * 2 },
            _ => DelayModel::Fixed(delay),
        },
        loss_before: loss(random, max_loss_ppm),
        loss_after: loss(random, max_loss_ppm),
        seed: random.word(),
        keeps_log: false,
        ..LinkConfig::default()
    };
    PathConfig { link, faults: FaultConfig { seed: random.word(), ..FaultConfig::default() } }
}

fn add_radio_events(random: &mut Random, path: &mut PathConfig) {
    if random.one_in(4) {
        path.link.harq = Some(Harq::default());
    }
    if random.one_in(6) {
        let first = ms(random, 100, 2_000);
        let (mut period, length) = (ms(random, 3_000, 8_000), ms(random, 100, 2_500));
        while keeps_step(period, length) {
            period += Duration::from_millis(130);
        }
        path.link.outages = OutageModel::Periodic { first, period, length };
    }
}

/// True when retransmissions at the longest time-outs, the accelerator's and the hosts', would meet
/// one outage after the other: a host then gives up, and rightly so.
fn keeps_step(period: Duration, length: Duration) -> bool {
    [10, 120].into_iter().any(|seconds| {
        let rest = Duration::from_secs(seconds).as_nanos() % period.as_nanos().max(1);
        rest < length.as_nanos() || rest + length.as_nanos() > period.as_nanos()
    })
}

fn radio(random: &mut Random, rate: Rate, delay: Duration) -> RadioConfig {
    let mut radio = RadioConfig {
        down: path(random, rate, delay, 30_000),
        up: path(random, rate.mul_ratio(1, 3), delay, 30_000),
    };
    add_radio_events(random, &mut radio.down);
    add_radio_events(random, &mut radio.up);
    if random.one_in(4) {
        let period = ms(random, 5, 40);
        radio.up.link.uplink_slots = Some(SlotConfig { period, offset: Duration::ZERO });
    }
    radio
}

/// Links without flows, and the rate of the radio ones.
pub(super) fn network(random: &mut Random, log: LogMode) -> (NetworkConfig, Rate) {
    let rate = Rate::from_kbps(random.spread(300, 50_000));
    let wan = Rate::from_mbps(random.spread(2, 200));
    let (near, far) = (ms(random, 1, 60), ms(random, 3, 150));
    let radios = if random.one_in(6) { random.within(2, 3) } else { 1 };
    let network = NetworkConfig {
        wan_down: path(random, wan, near, 10_000),
        wan_up: path(random, wan, near, 10_000),
        radios: (0..radios).map(|_| radio(random, rate, far)).collect(),
        log,
        merges_arrivals: random.one_in(2),
        ..NetworkConfig::default()
    };
    (network, rate)
}

fn paths(network: &mut NetworkConfig) -> impl Iterator<Item = &mut PathConfig> {
    let wan = [&mut network.wan_down, &mut network.wan_up].into_iter();
    wan.chain(network.radios.iter_mut().flat_map(|radio| [&mut radio.down, &mut radio.up]))
}

/// Adds the faults that happen on any path; true when they change the order or the number of packets.
pub(super) fn add_everyday_faults(random: &mut Random, network: &mut NetworkConfig) -> bool {
    let mut reorders = false;
    for path in paths(network) {
        let faults = &mut path.faults;
        if random.one_in(3) {
            faults.corrupt_ppm = random.spread(100, 10_000) as u32;
        }
        if random.one_in(6) {
            faults.corrupt_header_ppm = random.spread(100, 5_000) as u32;
            faults.truncate_ppm = random.spread(100, 5_000) as u32;
        }
        if random.one_in(6) {
            (faults.burst_ppm, faults.burst_max) = (random.spread(100, 3_000) as u32, random.spread(2, 20));
        }
        if random.one_in(8) {
            let span =
                |random: &mut Random| Span { from: ms(random, 50, 4_000), length: ms(random, 20, 1_500) };
            faults.stalls = (0..random.within(1, 3)).map(|_| span(random)).collect();
        }
        if random.one_in(5) {
            faults.hold_back_ppm = random.spread(1_000, 100_000) as u32;
            faults.duplicate_ppm = random.spread(1_000, 50_000) as u32;
            faults.hold_back_max = Duration::from_millis(random.spread(1, 200));
            reorders = true;
        }
    }
    reorders
}

/// A middlebox on one segment that gives one direction other initial numbers, and leaves SACK
/// blocks alone (H12).
pub(super) fn shift_numbers(random: &mut Random, network: &mut NetworkConfig) -> bool {
    let shift = if random.one_in(3) { random.spread(1, 3_000_000) } else { random.word() } as u32;
    let (on_radio, of_client) = (random.one_in(2), random.one_in(2));
    let (down, up) = match network.radios.first_mut().filter(|_| on_radio) {
        Some(radio) => (&mut radio.down, &mut radio.up),
        None => (&mut network.wan_down, &mut network.wan_up),
    };
    let (there, back) = if of_client { (up, down) } else { (down, up) };
    (there.faults.seq_shift, back.faults.ack_shift) = (shift, shift.wrapping_neg());
    true
}

/// A middlebox that takes options out of SYNs. Timestamps and window scale go out of the client's
/// only: where one host believes in them and the other does not, TCP itself breaks.
pub(super) fn strip_options(random: &mut Random, network: &mut NetworkConfig) {
    let mut strips = Strips {
        mss: random.one_in(3),
        window_scale: random.one_in(3),
        sack: random.one_in(2),
        timestamps: random.one_in(2),
    };
    let (on_radio, is_up) = (random.one_in(2), random.one_in(2));
    if !is_up {
        (strips.window_scale, strips.timestamps) = (false, false);
    }
    match (on_radio, is_up) {
        (false, false) => network.wan_down.faults.strips = strips,
        (false, true) => network.wan_up.faults.strips = strips,
        (true, is_up) => {
            for radio in &mut network.radios {
                let path = if is_up { &mut radio.up } else { &mut radio.down };
                path.faults.strips = strips;
            }
        }
    }
}

/// A narrow place that only long packets see. Without ICMP flows fail. IPv6 has no MTU below 1,280
/// (RFC 8200 §5).
pub(super) fn narrow(random: &mut Random, network: &mut NetworkConfig, is_v4: bool) -> Tolerance {
    let least = if is_v4 { 600 } else { 1_280 };
    let mtu = Mtu { bytes: random.within(least, 1_499) as usize, sends_icmp: !random.one_in(3) };
    let paths: Vec<&mut PathConfig> = paths(network).collect();
    let place = random.below(paths.len() as u64) as usize;
    for (i, path) in paths.into_iter().enumerate() {
        if i == place {
            path.faults.mtu = Some(mtu);
        }
    }
    if mtu.sends_icmp { Tolerance::Nothing } else { Tolerance::Failures }
}

/// The client's NAT forgets its mapping and makes another one.
pub(super) fn rebind(random: &mut Random, network: &mut NetworkConfig) -> Tolerance {
    // New ports lie below the old ones: 40,000 becomes 20,000.
    let rebinding = Rebinding {
        at: ms(random, 200, 3_000),
        port_shift: 0u16.wrapping_sub(20_000),
        address_shift: if random.one_in(2) && network.radios.len() == 1 { 100 } else { 0 },
    };
    for radio in &mut network.radios {
        radio.up.faults.rebinds_source = Some(rebinding);
        radio.down.faults.rebinds_destination = Some(rebinding);
    }
    Tolerance::Failures
}

/// Somebody changes segments so that nobody can notice.
pub(super) fn tamper(random: &mut Random, network: &mut NetworkConfig) -> Tolerance {
    for path in paths(network) {
        if random.one_in(2) {
            path.faults.tamper_ppm = random.spread(100, 20_000) as u32;
            path.faults.tamper_header_ppm = random.spread(100, 20_000) as u32;
        }
    }
    Tolerance::Tampering
}

/// One direction is dead for seconds, or for good.
pub(super) fn black_out(random: &mut Random, network: &mut NetworkConfig) -> Tolerance {
    let is_for_good = random.one_in(3);
    let length = if is_for_good { Duration::from_secs(100_000) } else { ms(random, 500, 30_000) };
    let span = Span { from: ms(random, 100, 4_000), length };
    let paths: Vec<&mut PathConfig> = paths(network).collect();
    let place = random.below(paths.len() as u64) as usize;
    for (i, path) in paths.into_iter().enumerate() {
        if i == place {
            path.faults.blackouts.push(span);
        }
    }
    Tolerance::Failures
}
