//! [`RandomRun`]: a line-up drawn from a seed, run under every rule the simulator knows.

use control::{ControllerConfig, DrwaParams, FixedParams, RateParams};
use engine::{Action, ClientEcn, EngineConfig, PassReason, Sharing, WindowPolicy};
use units::{Bytes, Duration, Instant, Rate};

use crate::{
    CheckConfig, Crash, Digest, Ending, Endpoint, LogMode, Moves, Network, NetworkConfig, Random, Restart,
    Restarting, Stop, StrangerConfig, Tolerance,
};

mod flows;
mod paths;

/// A line-up drawn from a seed.
#[derive(Clone, Debug)]
pub struct RandomRun {
    /// Seed that it was drawn from.
    pub seed: u64,
    /// The rare thing that happens in it, in a word.
    pub rare: &'static str,
    /// Hosts and links.
    pub network: NetworkConfig,
    /// The engine between them.
    pub engine: EngineConfig,
    /// Times at which the engine's process ends and begins again.
    pub restarts: Vec<Restart>,
    /// Times at which its state moves to another engine. Never, unless it is said afterwards.
    pub moves: Moves,
    /// Times at which its engine dies, and another one goes on. Never, unless it is said afterwards.
    pub crashes: Vec<Crash>,
    traits: Traits,
}

/// Traits of the line-up that its judgement depends on.
#[derive(Clone, Copy, Debug, Default)]
struct Traits {
    /// Faults change the order or number of packets.
    reorders: bool,
    /// One side aborts or refuses.
    breaks: bool,
    /// A middlebox rewrites numbers, so that SACK blocks make no sense.
    shifts: bool,
}

/// Outcome of a run that kept every rule.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RandomOutcome {
    /// Packets seen at all points together.
    pub packets: u64,
    /// [`crate::PacketLog::hash`].
    pub log_hash: u64,
    /// All packets, their times, and what the engines counted.
    pub digest: Digest,
    /// Time that passed in it.
    pub simulated: Duration,
    /// Things that the engine was asked to do.
    pub steps: u64,
    /// Flows that went on with another engine after a crash, and such as could not.
    pub recovered: [u64; 2],
    /// [`crate::PacketLog::text`].
    pub text: String,
}

/// A run that did not.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("seed {seed} ({rare}): {problem}")]
pub struct RandomFailure {
    /// Seed that it was drawn from.
    pub seed: u64,
    /// The rare thing that happened in it.
    pub rare: &'static str,
    /// The broken rule.
    pub problem: String,
    /// [`crate::PacketLog::text`].
    pub text: String,
}

/// Longest time that handshakes of the same hosts take through bad links, in all their tries.
const RUN_MAX: Duration = Duration::from_secs(3_600);

impl RandomRun {
    /// Draws the line-up that belongs to `seed`.
    #[must_use]
    pub fn draw(seed: u64, log: LogMode) -> Self {
        let mut random = Random::new(seed);
        let random = &mut random;
        let (mut network, radio) = paths::network(random, log);
        let reorders = paths::add_everyday_faults(random, &mut network);
        let mut traits = Traits { reorders, ..Traits::default() };
        let mut engine = engine_config(random, radio);
        // Small enough for a run to be short: at most two seconds of the link and 600 KB.
        let budget = radio.bytes_in(Duration::from_secs(2)).get().min(600_000);
        let is_v4 = !random.one_in(3);
        for number in 0..if random.one_in(4) { random.within(2, 4) as u16 } else { 1 } {
            let radios = network.radios.len() as u64;
            let client = random.below(radios) as u8;
            let (flow, breaks) = flows::flow(random, (number, client), budget, is_v4);
            traits.breaks |= breaks;
            network.flows.push(flow);
        }
        vary(&mut engine, seed, traits.breaks);
        let mut tolerance = Tolerance::Nothing;
        let mut restarts = Vec::new();
        let mut is_passed_by = false;
        // One rare thing at a time: two of them explain everything.
        let rare = RARE.get(random.below(DRAWS) as usize).copied().unwrap_or("nothing rare");
        match rare {
            "numbers shifted" => traits.shifts = paths::shift_numbers(random, &mut network),
            "options stripped" => paths::strip_options(random, &mut network),
            "narrow path" => tolerance = paths::narrow(random, &mut network, is_v4),
            "address changed" => tolerance = paths::rebind(random, &mut network),
            "tampering" => tolerance = paths::tamper(random, &mut network),
            "blackout" => tolerance = paths::black_out(random, &mut network),
            "drained" => restarts = draw_restarts(random, false),
            "killed" => {
                restarts = draw_restarts(random, true);
                tolerance = Tolerance::Failures;
            }
            "hung" => {
                restarts = draw_hangs(random);
                is_passed_by = true;
                // A reset that goes past overtakes what is owed.
                if traits.breaks {
                    tolerance = Tolerance::Failures;
                }
            }
            "clock" => network.starts_at = clock(random),
            _ => {}
        }
        for restart in &mut restarts {
            restart.at = network.starts_at + restart.at.saturating_since(Instant::ZERO);
        }
        flows::start_clocks(&mut network);
        network.checks = CheckConfig { is_passed_by, ..limits(&network, &engine, tolerance) };
        Self { seed, rare, network, engine, restarts, moves: Moves::Never, crashes: Vec::new(), traits }
    }

    /// The same with strangers beside its hosts; none where nobody could tell their packets from the hosts':
    /// somebody changes those too, or packets have gone past the engine, which believes more then.
    #[must_use]
    pub fn with_strangers(mut self) -> Self {
        let random = &mut Random::new(self.seed ^ 0x57a9_9e25);
        let is_senseless =
            self.network.checks.tolerance == Tolerance::Tampering || self.network.checks.is_passed_by;
        self.network.strangers = (!is_senseless).then(|| StrangerConfig {
            forged: random.spread(10, 300) as u32,
            repeated: random.below(60) as u32,
            pause_max: Duration::from_millis(random.spread(2, 500)),
            are_lucky: !self.traits.shifts && self.rare != "address changed",
            seed: random.word(),
            replayed: random.below(6) as u32,
        });
        self
    }

    /// The same between hosts that agree on accurate ECN, with queues that mark on the way to the middlebox, and maybe
    /// on the way to clients, of which servers must not hear; none where somebody changes segments or addresses.
    #[must_use]
    pub fn with_marks(mut self) -> Self {
        let random = &mut Random::new(self.seed ^ 0xacce_c0de);
        // Nobody can tell what was marked of a flow whose address has changed.
        if self.network.checks.tolerance == Tolerance::Tampering || self.rare == "address changed" {
            return self;
        }
        for flow in &mut self.network.flows {
            flow.server.accurate_ecn = Some(random.one_in(2));
            flow.client.accurate_ecn = Some(random.one_in(2));
        }
        self.network.wan_down.faults.mark_ppm = random.spread(100, 600_000) as u32;
        for radio in &mut self.network.radios {
            radio.up.faults.mark_ppm = random.spread(100, 600_000) as u32;
        }
        // In every other one data to the clients is ECN-capable, and queues on the way to them mark, too.
        if random.one_in(2) {
            self.engine.client_ecn = ClientEcn::Ect0;
            for radio in &mut self.network.radios {
                radio.down.faults.mark_ppm = random.spread(100, 600_000) as u32;
            }
        }
        self
    }

    /// True when a host breaks a flow off.
    #[must_use]
    pub fn has_resets(&self) -> bool {
        self.traits.breaks
    }

    /// Runs it.
    ///
    /// # Errors
    /// The rule that was broken.
    pub fn run(&self) -> Result<RandomOutcome, RandomFailure> {
        let fail = |problem: String, text: &str| RandomFailure {
            seed: self.seed,
            rare: self.rare,
            problem,
            text: text.to_owned(),
        };
        let middlebox =
            Restarting::new(&self.engine, self.restarts.clone()).map_err(|e| fail(e.to_string(), ""))?;
        let middlebox = middlebox.moving(self.moves).crashing(self.crashes.clone());
        let mut network = Network::new(&self.network, middlebox).map_err(|e| fail(e.to_string(), ""))?;
        let outcome = network.run().map_err(|e| fail(e.to_string(), network.log().text()))?;
        if let Some(error) = network.middlebox().unmoved() {
            return Err(fail(format!("the engine could not move: {error}"), network.log().text()));
        }
        self.judge(&network).map_err(|problem| fail(problem, network.log().text()))?;
        let packets = Digest::default().and_packets(outcome.log_hash, outcome.packets, outcome.ended_at);
        let counters = network.middlebox().all_stats();
        Ok(RandomOutcome {
            packets: outcome.packets,
            log_hash: outcome.log_hash,
            digest: counters.fold(packets, |digest, stats| digest.and_counters(stats)),
            simulated: outcome.ended_at.saturating_since(self.network.starts_at),
            steps: network.middlebox().steps(),
            recovered: network.middlebox().recovered(),
            text: network.log().text().to_owned(),
        })
    }

    /// Engines come and go in it.
    fn is_interrupted(&self) -> bool {
        !(self.restarts.is_empty() && self.crashes.is_empty())
    }

    /// Judges what cannot be seen in a single packet.
    fn judge(&self, network: &Network<Restarting>) -> Result<(), String> {
        let tolerance = self.network.checks.tolerance;
        if tolerance == Tolerance::Tampering {
            return Ok(());
        }
        for (flow, (server, client)) in network.servers().iter().zip(network.clients()).enumerate() {
            self.judge_host("server", server).map_err(|e| format!("flow {flow}: {e}"))?;
            self.judge_host("client", client).map_err(|e| format!("flow {flow}: {e}"))?;
            if tolerance == Tolerance::Nothing {
                self.judge_flow(network, flow, client, server)?;
            }
        }
        let lost = network.middlebox().total(|stats| stats.bytes_acked_but_lost);
        let is_peaceful = tolerance == Tolerance::Nothing && !self.traits.breaks;
        // Hosts that have ended past it tell it nothing of that.
        let is_told = !self.network.checks.is_passed_by;
        // A connection that has ended may be had once more, whole, by who sends its packets again: its hosts, which
        // have everything, take nothing of it.
        let may_owe = (!is_told && lost == 0) || self.network.strangers.is_some();
        if is_peaceful && !may_owe && (network.middlebox().debt() > Bytes::ZERO || lost > 0) {
            return Err(format!("debt is left: {} now, {lost} bytes lost", network.middlebox().debt()));
        }
        Ok(())
    }

    fn judge_host(&self, name: &str, host: &Endpoint) -> Result<(), String> {
        let stats = host.stats();
        let expect = |is_right: bool, what: &str| {
            if is_right { Ok(()) } else { Err(format!("the {name} saw {what}: {stats:?}")) }
        };
        let is_peaceful =
            self.network.checks.tolerance == Tolerance::Nothing && self.network.strangers.is_none();
        expect(stats.unacceptable_acks == 0 || !is_peaceful, "acknowledgements of what it never sent")?;
        expect(
            stats.invalid_sack_blocks == 0
                || self.traits.shifts
                || self.network.checks.is_passed_by
                || !is_peaceful,
            "senseless SACK blocks",
        )?;
        if self.traits.reorders || self.traits.shifts || !is_peaceful || self.is_interrupted() {
            return Ok(());
        }
        expect(stats.paws_rejected == 0, "timestamps that went back")?;
        let opportunistic = self.engine.window_policy == WindowPolicy::Opportunistic;
        expect(
            stats.out_of_window_segments == 0 || (opportunistic && name == "client"),
            "data outside its window",
        )
    }

    fn judge_flow(
        &self,
        network: &Network<Restarting>,
        flow: usize,
        client: &Endpoint,
        server: &Endpoint,
    ) -> Result<(), String> {
        // A lost third packet leaves a client that writes first unaccelerated: the handshake was
        // not seen whole.
        let server_is_first = self.engine.policy.default.includes_downlink()
            && client.config().app.writes.iter().all(|write| write.send == 0 || write.after_reading > 0);
        // Nor when its time was over, or the memory drawn for this run full.
        let reasons = [PassReason::HandshakeTimeout, PassReason::MemoryFull, PassReason::SubscriberFull];
        let passes = |reason: PassReason| network.middlebox().total(|stats| stats.passed_for(reason));
        let is_late = reasons.into_iter().any(|reason| passes(reason) > 0);
        let should_be = !self.traits.breaks
            && server_is_first
            && !is_late
            && !self.is_interrupted()
            && !self.traits.shifts
            && server.config().app.total() > 0;
        let has_no_luck = [server, client].iter().any(|host| host.ending() == Some(Ending::TimedOut));
        if should_be && !has_no_luck && !network.is_accelerated(flow) {
            return Err(format!("flow {flow} was not accelerated"));
        }
        Ok(())
    }
}

fn engine_config(random: &mut Random, radio: Rate) -> EngineConfig {
    let mut config = EngineConfig::default();
    let near = radio.mul_ratio(random.within(5, 20), 10);
    config.controller = if random.one_in(2) {
        ControllerConfig::Fixed(FixedParams { rate: near, ..FixedParams::default() })
    } else {
        let cap = if random.one_in(3) { None } else { RateParams::default().in_flight_cap };
        ControllerConfig::Rate(RateParams { r_cap: near, in_flight_cap: cap, ..RateParams::default() })
    };
    if random.one_in(2) {
        config.window_policy = WindowPolicy::Opportunistic;
    }
    if random.one_in(3) {
        config.window_floor = Bytes::new(random.spread(8_000, 500_000));
        config.window_max = Bytes::new(config.window_floor.get() * random.within(1, 4));
    }
    config
}

/// Directions, limits and sharing: from a number of its own, so that older seeds keep their line-ups.
///
/// Where a host aborts, the uplink stays end to end: a client whose data was acknowledged has no
/// reason to send again, and would never learn of a reset that got lost, as with any reset that
/// meets an idle host.
fn vary(config: &mut EngineConfig, seed: u64, breaks: bool) {
    let random = &mut Random::new(seed ^ 0x5eed_0f0f_a11d);
    config.policy.default = match random.below(6) {
        0 if !breaks => Action::Uplink,
        1 | 2 if !breaks => Action::Both,
        _ => Action::Downlink,
    };
    if random.one_in(4) {
        config.uplink.window_floor = Bytes::new(random.spread(8_000, 500_000));
        config.uplink.window_max = Bytes::new(config.uplink.window_floor.get() * random.within(1, 4));
    }
    if random.one_in(4) {
        config.sharing = Sharing::Flow;
    }
    if random.one_in(4) {
        config.buffer_max = Bytes::new(random.spread(20_000, 500_000));
    }
    if random.one_in(4) {
        config.subscriber_buffer_max = Bytes::new(random.spread(20_000, 500_000));
    }
    let random = &mut Random::new(seed ^ 0xb0d9_e751_07a1);
    if random.one_in(4) {
        config.flow_buffer_max = Bytes::new(random.spread(20_000, 500_000));
    }
    lower_windows(config, seed);
}

/// Some line-ups lower windows and split nothing: from a number of its own, too.
fn lower_windows(config: &mut EngineConfig, seed: u64) {
    let random = &mut Random::new(seed ^ 0x0d2a_0f0f);
    if !random.one_in(8) {
        return;
    }
    config.policy.default = Action::Drwa;
    if random.one_in(3) {
        config.drwa = DrwaParams::paper();
    }
    config.drwa.lambda_permille = random.within(1_000, 5_000) as u32;
}

/// Events in a run besides the everyday; most runs have nothing.
const RARE: [&str; 10] = [
    "numbers shifted",
    "options stripped",
    "narrow path",
    "address changed",
    "tampering",
    "blackout",
    "drained",
    "killed",
    "clock",
    "hung",
];

/// Draws of which one is each rare thing, and the rest are none.
const DRAWS: u64 = 24;

fn draw_restarts(random: &mut Random, kills: bool) -> Vec<Restart> {
    let mut at = Instant::ZERO;
    (0..random.within(1, 3))
        .map(|_| {
            at += Duration::from_millis(random.within(20, 3_000));
            let patience = Duration::from_secs(if kills { random.within(0, 5) } else { 3_000 });
            let how = if kills && random.one_in(2) { Stop::Kill } else { Stop::Drain(patience) };
            Restart { at, how, absent: Duration::from_millis(random.below(2_000)) }
        })
        .collect()
}

/// Times at which it is stopped while packets pass.
fn draw_hangs(random: &mut Random) -> Vec<Restart> {
    let mut at = Instant::ZERO;
    (0..random.within(1, 5))
        .map(|_| {
            at += Duration::from_millis(random.within(5, 2_000));
            Restart { at, how: Stop::Hang, absent: Duration::from_millis(random.within(1, 4_000)) }
        })
        .collect()
}

/// A clock near one of its ends. Near the far one no timer may be due beyond it.
fn clock(random: &mut Random) -> Instant {
    match random.below(3) {
        0 => Instant::from_nanos(random.within(1, 1_000)),
        1 => Instant::from_nanos(random.word() >> random.within(1, 40)),
        _ => {
            let left = RUN_MAX + Duration::from_secs(random.within(0, 10_000));
            Instant::from_nanos(u64::MAX - left.as_nanos())
        }
    }
}

fn limits(network: &NetworkConfig, engine: &EngineConfig, tolerance: Tolerance) -> CheckConfig {
    // The window told in the handshake is the client's own, and one unit of the scale is rounded up.
    let hosts = network.flows.iter().flat_map(|f| [&f.client, &f.server]);
    let unit = hosts.filter_map(|host| host.window_scale).map(|scale| 1 << scale.shift()).max();
    // What is held fits into the ring, which is no longer than a flow may have.
    let window_max = engine.window_max.max(engine.uplink.window_max).min(engine.flow_buffer_max).get();
    let debt = window_max.max(65_535) + unit.unwrap_or(1);
    // A ring holds at most the next power of two, in each direction.
    let memory = (2 * debt).next_power_of_two() * 2 * network.flows.len() as u64;
    CheckConfig {
        debt_max: Bytes::new(debt),
        memory_max: Bytes::new(memory),
        ends_by: network.starts_at + RUN_MAX,
        tolerance,
        lowers_windows_only: engine.policy.default == Action::Drwa,
        ..CheckConfig::default()
    }
}
