//! [`Case`]: trouble of some kinds for some time, under load.

use std::path::{Path, PathBuf};

use io::Clock;
use rand::{RngExt, SeedableRng};
use rand_xoshiro::Xoshiro256PlusPlus;
use units::Duration;

use super::{log, variable};
use crate::chaos::accelerator::{Accelerator, Options, SIGTERM, Way};
use crate::chaos::captures::Captures;
use crate::chaos::faults::{Fault, Scene};
use crate::chaos::network::{LinkKind, Network, output};
use crate::chaos::traffic::{Amount, End, Tally, Traffic};

/// What is tried.
#[derive(Clone, Debug)]
pub struct Case {
    /// How the accelerator is attached; `None` to go without.
    pub way: Option<Way>,
    /// The box is a cable and no router.
    pub is_bridged: bool,
    pub is_both_ways: bool,
    pub link: LinkKind,
    pub faults: Vec<Fault>,
    /// Each of them once, in the order of a shuffle, and quickly; else any of them, for this time.
    pub time: Option<Duration>,
    pub host_mtu: u32,
    pub seed: u64,
}

/// What came of it.
pub struct Outcome {
    case: Case,
    tally: Tally,
    suffered: usize,
    /// What the box did that it should not.
    problems: Vec<String>,
}

impl Case {
    /// One of all there are: one time in eight without the box, one in four with all kinds mixed.
    pub fn choose(random: &mut Xoshiro256PlusPlus, time: Duration) -> Self {
        let way = Way::ALL[random.random_range(0..Way::ALL.len())];
        let fault = loop {
            let fault = Fault::ALL[random.random_range(0..Fault::ALL.len())];
            if fault.fits(way) {
                break fault;
            }
        };
        let is_without = fault.is_of_network() && random.random_ratio(3, 8);
        let is_mixed = !is_without && random.random_ratio(1, 4);
        let mixed = Fault::ALL.into_iter().filter(|fault| fault.fits(way));
        Self {
            way: (!is_without).then_some(way),
            is_bridged: way == Way::Inline,
            is_both_ways: random.random_bool(0.7),
            link: LinkKind::ALL[random.random_range(0..2)],
            faults: if is_mixed { mixed.collect() } else { vec![fault] },
            time: Some(time),
            host_mtu: if random.random_bool(0.5) { 9_000 } else { 1_500 },
            seed: random.random(),
        }
    }

    /// The case that a line of an earlier run names: `tcx both 1000M terminate mtu 1500, seed 17`.
    pub fn parse(text: &str, time: Duration) -> Option<Self> {
        let words: Vec<&str> = text.split([' ', ',']).filter(|word| !word.is_empty()).collect();
        let [way, direction, link, faults, "mtu", host_mtu, "seed", seed] = words[..] else { return None };
        let is_bridged = way == "bridge" || way == Way::Inline.name();
        let fitting = Way::ALL.into_iter().find(|each| each.name() == way);
        if fitting.is_none() && !["bridge", "forwarding"].contains(&way) {
            return None;
        }
        let faults = match (faults, fitting) {
            ("mixed", Some(way)) => Fault::ALL.into_iter().filter(|fault| fault.fits(way)).collect(),
            (name, _) => vec![Fault::from_name(name)?],
        };
        Some(Self {
            way: fitting,
            is_bridged,
            is_both_ways: direction == "both",
            link: LinkKind::ALL.into_iter().find(|each| each.name() == link)?,
            faults,
            time: Some(time),
            host_mtu: host_mtu.parse().ok()?,
            seed: seed.parse().ok()?,
        })
    }

    /// What it is, as [`Self::parse`] takes it.
    pub fn line(&self) -> String {
        format!("{}, seed {}", self.name(), self.seed)
    }

    fn name(&self) -> String {
        let way = self.way.map_or(if self.is_bridged { "bridge" } else { "forwarding" }, Way::name);
        let direction = if self.is_both_ways { "both" } else { "downlink" };
        let faults = match self.faults.as_slice() {
            [fault] => fault.name(),
            _ => "mixed",
        };
        format!("{way} {direction} {} {faults} mtu {}", self.link.name(), self.host_mtu)
    }

    fn may_reset(&self) -> bool {
        self.faults.iter().any(|fault| fault.may_reset())
    }

    fn amount(&self) -> Amount {
        let len_max = if self.link == LinkKind::Fast { 60_000_000 } else { 6_000_000 };
        Amount { downloads: 8, uploads: 6, idle: 12, keep_alive: 6, len_max }
    }

    pub fn run(self) -> Outcome {
        log(&self.line());
        let folder = variable("CHAOS_OUT").map_or_else(std::env::temp_dir, PathBuf::from);
        let folder = unused(&folder.join(format!("chaos-{}-{}", std::process::id(), self.seed)));
        std::fs::create_dir_all(&folder).unwrap();
        let mut random = Xoshiro256PlusPlus::seed_from_u64(self.seed);
        let is_plain_bridge = self.is_bridged && self.way.is_none();
        let mut network = Network::build(self.link, self.is_bridged, self.host_mtu);
        if is_plain_bridge {
            network.bridge();
        }
        let way = self.way.unwrap_or(if self.is_bridged { Way::Inline } else { Way::Rules });
        let has_no_settings = random.random_bool(0.5);
        let options =
            Options { way, is_both_ways: self.is_both_ways, folder: folder.clone(), has_no_settings };
        let captures = Captures::start(&network.client, &network.server);
        let (mut accelerator, mut starts, mut problems, mut suffered) = (None, 0, Vec::new(), 0);
        let mut scene = Scene {
            network: &mut network,
            options: &options,
            accelerator: &mut accelerator,
            random: &mut random,
            starts: &mut starts,
            outage_ms_max: if self.time.is_some() { 2_000 } else { 500 },
        };
        if self.way.is_some() {
            scene.start(None).unwrap();
        }
        let traffic = Traffic::start(
            &scene.network.client,
            &scene.network.server,
            self.amount(),
            self.seed,
            captures.forgetter(),
        );
        scene.pause(1_000..1_500);
        let end = self.time.map(|time| Clock::now() + time);
        let mut each = self.faults.clone();
        while problems.is_empty() && traffic.hung() == 0 {
            let fault = match end {
                Some(end) if Clock::now() >= end => break,
                Some(_) => self.faults[scene.random.random_range(0..self.faults.len())],
                None if each.is_empty() => break,
                None => each.swap_remove(scene.random.random_range(0..each.len())),
            };
            log(&format!("fault {} {}", suffered + 1, fault.name()));
            if let Err(problem) = scene.suffer(fault) {
                problems.push(problem);
            }
            log("over");
            suffered += 1;
            scene.pause(if end.is_some() { 500..4_000 } else { 200..800 });
            let checked = match scene.accelerator.as_mut().map(Accelerator::check) {
                Some(Ok(false)) => scene.start(None),
                Some(Err(problem)) => Err(problem),
                Some(Ok(true)) | None => Ok(()),
            };
            problems.extend(checked.err());
        }
        log("waiting for the transfers");
        let may_reset = self.may_reset();
        let watched = Watched { traffic, folder: folder.clone(), may_reset };
        let tally = watched.finish(&scene, &captures);
        if let Some(running) = scene.accelerator.as_mut() {
            running.signal(SIGTERM);
            problems.extend(running.await_end().err());
        }
        if self.way.is_some() {
            problems.extend(network.leftovers());
        }
        let outcome = Outcome { case: self, tally, suffered, problems };
        if outcome.is_clean() {
            drop(std::fs::remove_dir_all(&folder));
        } else {
            log(&format!("kept in {}", folder.display()));
        }
        log(&outcome.summary());
        outcome
    }
}

/// A folder that is not there yet: a case may be had more than once.
fn unused(folder: &Path) -> PathBuf {
    let numbered = (2..).map(|number| PathBuf::from(format!("{}-{number}", folder.display())));
    std::iter::once(folder.to_owned()).chain(numbered).find(|folder| !folder.exists()).unwrap_or_default()
}

/// Traffic about to end.
struct Watched {
    traffic: Traffic,
    folder: PathBuf,
    may_reset: bool,
}

impl Watched {
    /// Waits for the end of all transfers; of those in trouble everything is kept.
    fn finish(self, scene: &Scene<'_>, captures: &Captures) -> Tally {
        let Self { traffic, folder, may_reset } = self;
        let tally = traffic.finish();
        if tally.troubled.iter().any(|(_, line)| line.ends_with("Hung")) {
            for (name, host) in [("client", &scene.network.client), ("server", &scene.network.server)] {
                let text = output(host, "ss", &["-tinmoe"]);
                drop(std::fs::write(folder.join(format!("{name}.ss")), text));
            }
            if let Some(running) = scene.accelerator.as_ref() {
                running.record_state(&scene.network.middle, &folder, "box");
            }
        }
        for (port, line) in tally.troubled.iter().filter(|(_, line)| !(may_reset && line.ends_with("Reset")))
        {
            log(line);
            captures.write(*port, &folder, "flow");
        }
        tally
    }
}

impl Outcome {
    pub fn is_clean(&self) -> bool {
        let may_reset = self.case.may_reset();
        let bad = [End::Hung, End::Short, End::Wrong].iter().map(|end| self.tally.count(end)).sum::<u64>();
        let resets = self.tally.count(&End::Reset);
        self.problems.is_empty() && (bad == 0 || self.case.way.is_none()) && (may_reset || resets == 0)
    }

    pub fn summary(&self) -> String {
        let verdict = if self.is_clean() { "clean" } else { "NOT CLEAN" };
        let Self { case, tally, suffered, problems } = self;
        format!(
            "{verdict}: {}: {suffered} faults; {}{}{}",
            case.line(),
            tally.summary(),
            if problems.is_empty() { "" } else { "; " },
            problems.join("; ")
        )
    }

    pub fn assert_clean(&self) {
        assert!(self.is_clean(), "{}", self.summary());
    }
}
