//! [`ClientHost`]: the client of a run: its addresses, what its modems tell, its path manager, and what happens to
//! them.

use std::collections::BTreeMap;
use std::fs;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};

use io::{OwnedChild, sysctl};
use scenario::{Family, MultiPath, MultiPathCase};
use units::{Duration, Instant};

use super::manager::{PathManagerProcess, mptcpd, start_mptcpd};
use super::servers::PROBE_PORT;
use super::world::{World, server_address};
use crate::LabError;
use crate::error::Context;
use crate::pause::pause;

/// The strength that modems tell at first, dBm.
pub(crate) const STRONG_DBM: i32 = -85;
/// Of these it is told whether they are restored after a kill.
const RESTORED: [&str; 3] =
    ["net/ipv4/tcp_rto_max_ms", "net/ipv4/tcp_retries2", "net/ipv4/tcp_no_metrics_save"];

/// Action of the runner itself at a time.
pub(crate) enum Deed {
    Readdress(String, usize),
    Strength(String, i32),
    Kill,
    Restart,
}

/// The client of a run; its path manager is ended when it is dropped.
pub(crate) struct ClientHost<'a> {
    world: &'a World,
    family: Family,
    program: &'a Path,
    /// Server that the path manager probes, and its other arguments.
    server: String,
    options: Vec<String>,
    mptcpd: Option<OwnedChild>,
    manager: Option<PathManagerProcess>,
    /// The file with what the modems tell.
    strength: PathBuf,
    strengths: BTreeMap<String, i32>,
    /// The last byte of addresses that were replaced.
    generations: BTreeMap<String, u8>,
    /// [`RESTORED`] without a path manager.
    before: Vec<Option<String>>,
    /// A killed path manager's settings were restored; none without a kill.
    pub is_profile_restored: Option<bool>,
    /// Lines of path managers that have ended.
    pub said: Vec<(Instant, String)>,
}

impl<'a> ClientHost<'a> {
    /// The client of a case, without a path manager; `strength` is the file with what modems tell.
    pub fn new(
        world: &'a World,
        program: &'a Path,
        strength: PathBuf,
        scenario: &MultiPath,
        case: &MultiPathCase,
    ) -> Result<Self, LabError> {
        let radios = scenario.radios_of(case).into_iter();
        let strengths: BTreeMap<String, i32> =
            radios.map(|(_, radio)| (radio.name.clone(), STRONG_DBM)).collect();
        write_strengths(&strength, &strengths)?;
        let mut options = case.options.clone();
        options.extend((scenario.server_addresses > 1).then(|| "--full-mesh".to_owned()));
        Ok(Self {
            world,
            family: scenario.family,
            program,
            server: SocketAddr::new(server_address(scenario.family, 0), PROBE_PORT).to_string(),
            options,
            mptcpd: None,
            manager: None,
            strength,
            strengths,
            generations: BTreeMap::new(),
            before: profile(world),
            is_profile_restored: None,
            said: Vec::new(),
        })
    }

    /// The same with what makes the paths of a case: the path manager, mptcpd, or endpoints for the kernel's own.
    pub fn with_paths(mut self, scenario: &MultiPath, case: &MultiPathCase) -> Result<Self, LabError> {
        let count = scenario.radios_of(case).len();
        if case.daemon {
            let mut started = self.start_manager()?;
            started.wait_for_paths(count)?;
            self.manager = Some(started);
        } else if let Some(program) = mptcpd().filter(|_| case.mptcpd) {
            self.mptcpd = Some(start_mptcpd(&self.world.client, program, count)?);
        } else if !case.single_path {
            self.world.add_endpoints(scenario, case)?;
        }
        Ok(self)
    }

    fn start_manager(&self) -> Result<PathManagerProcess, LabError> {
        let client = &self.world.client;
        PathManagerProcess::start(client, self.program, &self.server, &self.options, &self.strength)
    }

    /// Does it.
    pub fn perform(&mut self, deed: Deed) -> Result<(), LabError> {
        match deed {
            Deed::Readdress(radio, number) => {
                let last = self.generations.entry(radio.clone()).or_insert(2);
                self.world.readdress(&radio, number, self.family, *last)?;
                *last += 1;
            }
            Deed::Strength(radio, dbm) => {
                self.strengths.insert(radio, dbm);
                write_strengths(&self.strength, &self.strengths)?;
            }
            Deed::Kill => {
                if let Some(mut manager) = self.manager.take() {
                    manager.kill();
                    self.said.extend(manager.lines());
                }
                // The guard needs a moment, which is within what is promised.
                pause(Duration::from_millis(1_200))?;
                self.is_profile_restored = Some(self.before == profile(self.world));
            }
            Deed::Restart => self.manager = Some(self.start_manager()?),
        }
        Ok(())
    }

    /// Ends the path manager.
    pub fn end_manager(&mut self) -> Result<(), LabError> {
        if let Some(mut manager) = self.manager.take() {
            manager.end()?;
            self.said.extend(manager.lines());
        }
        Ok(())
    }
}

/// [`RESTORED`] as they are.
fn profile(world: &World) -> Vec<Option<String>> {
    RESTORED.iter().map(|name| sysctl::read(&world.client, name).ok()).collect()
}

fn write_strengths(path: &Path, strengths: &BTreeMap<String, i32>) -> Result<(), LabError> {
    let text: String = strengths.iter().map(|(name, dbm)| format!("{name} {dbm}\n")).collect();
    let new = path.with_extension("new");
    fs::write(&new, text).and_then(|()| fs::rename(&new, path)).doing(|| format!("write {}", path.display()))
}
