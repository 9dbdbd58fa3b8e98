use super::belief::{BINS, ONE};
use super::*;
use crate::shared_link::{MSS, SharedLink};
use crate::{AnyController, ControllerConfig, CubicParams};

/// \[SP\]'s model of a link: a Brownian motion of 200 packets/s/√s between two walls, packets as a Poisson
/// process of it.
struct ModelLink {
    state: u64,
    /// λ in packets per second.
    rate: i64,
}

impl ModelLink {
    /// 0 to 65,535.
    fn random(&mut self) -> i64 {
        // Knuth's MMIX generator.
        self.state =
            self.state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (self.state >> 48) as i64
    }

    /// A tick passes: twelve uniform numbers less six are nearly normal; σ·√τ is 28.3 packets/s.
    fn step(&mut self) -> i64 {
        let normal: i64 = (0..12).map(|_| self.random()).sum::<i64>() - 6 * 65_536;
        self.rate = (self.rate + 283 * normal / 655_360).clamp(50, 950);
        self.rate
    }

    /// Packets of a tick: one at most in each of 400 slots of 50 µs.
    fn packets(&mut self) -> u64 {
        (0..400).filter(|_| self.random() * 20_000 < self.rate * 65_536).count() as u64
    }
}

fn belief() -> Belief {
    Belief::new(&SproutParams::default())
}

#[test]
fn of_a_link_as_the_model_has_it_one_forecast_in_twenty_is_too_high() {
    let mut link = ModelLink { state: 7, rate: 400 };
    let mut belief = belief();
    let mut counts = Vec::new();
    let mut forecasts = Vec::new();
    for _ in 0..6_000 {
        link.step();
        let count = link.packets();
        belief.evolve();
        belief.observe(Observation::Exactly(count * 1_000));
        counts.push(count);
        forecasts.push(belief.forecast(50));
    }
    let came = |i: usize| counts[i + 1..i + 6].iter().sum::<u64>();
    let judged = 100..counts.len() - 6;
    let too_high = judged.clone().filter(|&i| came(i) < forecasts[i]).count();
    let permille = too_high * 1_000 / judged.len();
    assert!((10..=70).contains(&permille), "{permille} of 1000 forecasts were too high");
    let (promised, arrived) =
        judged.fold((0, 0), |(promised, arrived), i| (promised + forecasts[i], arrived + came(i)));
    // Caution is not silence.
    assert!(promised * 100 / arrived >= 55, "{} % of what came was forecast", promised * 100 / arrived);
}

fn sprout() -> AnyController {
    ControllerConfig::Sprout(SproutParams { mss: Bytes::new(MSS), ..SproutParams::default() }).build()
}

#[test]
fn on_a_varying_link_95_of_100_segments_wait_less_than_100_ms() {
    let mut model = ModelLink { state: 11, rate: 400 };
    // Packets of 1000 bytes: 8 kbit each.
    let rates: Vec<(u64, u64)> = (0..2_000).map(|i| (i * 20, model.step() as u64 * 8)).collect();
    let over = |controller| {
        let mut link = SharedLink::new(&rates, 20, 4_000_000).with(controller, 0);
        link.run_until(2_000);
        link.forget();
        link.run_until(40_000);
        (link.wait(950).as_millis(), link.utilisation())
    };
    let (p95_ms, utilisation) = over(sprout());
    let cubic =
        ControllerConfig::Cubic(CubicParams { mss: Bytes::new(MSS), ..CubicParams::default() }).build();
    let (cubic_ms, _) = over(cubic);
    assert!(p95_ms <= 100 && cubic_ms >= 5 * p95_ms, "{p95_ms} ms, CUBIC {cubic_ms} ms");
    assert!(utilisation >= 60, "{utilisation} %");
}

#[test]
fn a_steady_link_is_filled_from_a_belief_in_anything() {
    let mut link = SharedLink::new(&[(0, 4_000)], 40, 4_000_000).with(sprout(), 0);
    link.run_until(5_000);
    link.forget();
    link.run_until(20_000);
    assert!(link.utilisation() >= 80, "{} %", link.utilisation());
    assert!(link.wait(950).as_millis() <= 100, "{}", link.wait(950));
}

#[test]
fn an_outage_is_believed_in_and_left() {
    let mut belief = belief();
    for _ in 0..50 {
        belief.evolve();
        belief.observe(Observation::Exactly(8_000));
    }
    assert!(belief.forecast(50) >= 20, "{}", belief.forecast(50));
    for _ in 0..25 {
        belief.evolve();
        belief.observe(Observation::Exactly(0));
    }
    assert_eq!(belief.forecast(50), 0);
    for _ in 0..15 {
        belief.evolve();
        belief.observe(Observation::Exactly(8_000));
    }
    assert!(belief.forecast(50) >= 20, "{}", belief.forecast(50));
}

#[test]
fn what_was_at_least_so_much_never_speaks_against_a_faster_link() {
    let mut belief = belief();
    let before = belief.forecast(50);
    belief.observe(Observation::AtLeast(10_000));
    let after = belief.forecast(50);
    belief.observe(Observation::AtLeast(1_000));
    assert!(after > before && belief.forecast(50) >= after, "{before}, {after}, {}", belief.forecast(50));
}

#[test]
fn probabilities_add_up_after_whatever_was_seen() {
    let mut belief = belief();
    for seen in [0, 500, 20_000, 4_000_000_000, 0, 3] {
        belief.observe(Observation::Exactly(seen));
        belief.evolve();
        let total: u64 = belief.probabilities.iter().sum();
        assert!(total <= ONE && total + BINS as u64 >= ONE, "{total} after {seen}");
    }
}

#[test]
fn a_round_trip_that_is_not_over_is_no_observation_of_a_slow_link() {
    let mut controller = Sprout::new(SproutParams { mss: Bytes::new(MSS), ..SproutParams::default() });
    controller.on_round_trip(Duration::from_millis(200), Instant::ZERO);
    let sent = |ms| Sent {
        now: Instant::from_millis(ms),
        bytes: Bytes::new(MSS),
        in_flight: Bytes::ZERO,
        is_app_limited: false,
    };
    controller.on_send(&sent(0));
    // Without an observation the belief only spreads. Of the outage it is made of in the end:
    let mut unobserved = belief();
    let mut outage = |ticks| {
        (0..ticks).for_each(|_| unobserved.evolve());
        unobserved.probabilities[0]
    };
    controller.on_send(&sent(200));
    assert_eq!(controller.belief.probabilities[0], outage(10), "nothing can have come yet");
    controller.on_send(&sent(900));
    assert!(controller.belief.probabilities[0] > 2 * outage(35), "nothing came for 700 ms");
}
