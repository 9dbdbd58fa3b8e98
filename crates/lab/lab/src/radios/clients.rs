//! [`Clients`]: the transfer of a run, the downloads beside it and its new connections, a thread for each.

use std::net::{IpAddr, SocketAddr};
use std::thread::{Scope, ScopedJoinHandle};

use io::{Clock, IoError, Namespace};
use scenario::MultiPath;
use scenario::multi_path_results::{CONNECT_LIMIT_S, Connect, MultiPathRun};
use units::{Duration, Instant};

use super::ends::{PORT, Transfer, download, upload};
use super::servers::BESIDE_PORT;
use crate::LabError;
use crate::pause::pause;

/// Bytes of the answer to a new connection.
const CONNECT_BYTES: u64 = 1_000;

/// Inputs of the clients of a run.
#[derive(Clone, Copy)]
pub(crate) struct Job<'a> {
    pub client: &'a Namespace,
    pub scenario: &'a MultiPath,
    pub server: IpAddr,
    pub seed: u64,
    pub is_multi_path: bool,
    pub start: Instant,
    pub end: Instant,
}

impl Job<'_> {
    /// Downloads until `end`, before the run.
    pub fn warm_up(&self, end: Instant) -> Result<(), LabError> {
        self.client.run(|| download(self.to(PORT), (self.seed, u64::MAX), end, self.is_multi_path))?;
        Ok(())
    }

    fn to(&self, port: u16) -> SocketAddr {
        SocketAddr::new(self.server, port)
    }

    fn wait_until(&self, at: Duration) {
        let _ = pause((self.start + at).saturating_since(Clock::now()));
    }

    fn transfer(&self) -> Result<Transfer, IoError> {
        let size = self.scenario.size.map_or(u64::MAX, |size| size.0.get());
        self.client.run(|| {
            self.wait_until(Duration::ZERO);
            let transfer = if self.scenario.upload { upload } else { download };
            transfer(self.to(PORT), (self.seed, size), self.end, self.is_multi_path)
        })
    }

    fn beside(&self, number: u64) -> Result<Transfer, IoError> {
        self.client.run(|| {
            self.wait_until(Duration::ZERO);
            download(self.to(BESIDE_PORT), (self.seed ^ (number << 32), u64::MAX), self.end, false)
        })
    }

    fn connect(&self, at: Duration) -> Result<Transfer, IoError> {
        self.client.run(|| {
            self.wait_until(at);
            let end = Clock::now() + Duration::from_secs(CONNECT_LIMIT_S);
            download(self.to(PORT), (self.seed ^ 1, CONNECT_BYTES), end, self.is_multi_path)
        })
    }
}

/// A client's thread.
type Client<'s> = ScopedJoinHandle<'s, Result<Transfer, IoError>>;

/// Clients under way.
pub(crate) struct Clients<'s> {
    main: Client<'s>,
    beside: Vec<Client<'s>>,
    /// With the time after the start at which each connects.
    connects: Vec<(Duration, Client<'s>)>,
}

impl<'s> Clients<'s> {
    /// Starts all clients of a run.
    pub fn start<'e>(scope: &'s Scope<'s, 'e>, job: Job<'e>) -> Self {
        let beside = 1..=u64::from(job.scenario.beside);
        let connects = job.scenario.connects.iter().map(|at| at.0);
        Self {
            main: scope.spawn(move || job.transfer()),
            beside: beside.map(|number| scope.spawn(move || job.beside(number))).collect(),
            connects: connects.map(|at| (at, scope.spawn(move || job.connect(at)))).collect(),
        }
    }

    /// True when the transfer is over.
    pub fn is_over(&self) -> bool {
        self.main.is_finished()
    }

    /// Waits for all; what became of those beside the transfer is in `run`.
    pub fn join(self, job: &Job<'_>, run: &mut MultiPathRun) -> Result<Transfer, LabError> {
        let transfer = self.main.join().map_err(|_| which("the client's thread panicked"))??;
        for download in self.beside {
            let got = download.join().map_err(|_| which("a client's thread panicked"))??;
            if let Some(error) = got.error {
                return Err(which(&format!("a TCP beside the transfer: {error}")));
            }
            let from = got.connected_at.unwrap_or(job.start);
            let seconds = got.ended.unwrap_or(job.end).saturating_since(from).as_secs_f64();
            run.beside_mbps.push(got.bytes as f64 * 8.0 / 1e6 / seconds.max(1e-9));
        }
        for (at, connect) in self.connects {
            let got = connect.join().map_err(|_| which("a client's thread panicked"))??;
            run.connects.push(Connect {
                at_s: at.as_secs_f64(),
                up_ms: got.connected.map(Duration::as_millis_f64),
                limit_s: CONNECT_LIMIT_S as f64,
                answered_ms: got.answered.filter(|_| got.bytes > 0).map(Duration::as_millis_f64),
            });
        }
        Ok(transfer)
    }
}

fn which(what: &str) -> LabError {
    LabError::Which(what.to_owned())
}
