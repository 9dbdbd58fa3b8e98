//! [`LocalPeer`]: a second server on the local network, pinged all the time, so that what the Wi-Fi adds and
//! what the operator adds can be told apart.

use io::Signals;
use probe::DelayFigures;
use serde::Serialize;
use units::{Duration, Instant};

use crate::MeasureError;
use crate::maker::Peer;
use crate::pinger::{Pinger, Row, RowLog};
use crate::session::{Session, SessionOptions};

/// Between two pings.
const EVERY: Duration = Duration::from_millis(20);
/// As far as a local network goes, and further.
const HOPS: u8 = 64;

/// A local server that is pinged.
pub struct LocalPeer<'a> {
    session: Session<'a>,
    pinger: Pinger,
}

impl core::fmt::Debug for LocalPeer<'_> {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        f.debug_struct("LocalPeer").field("session", &self.session).finish_non_exhaustive()
    }
}

/// Round trips to the local peer while something else was measured.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct LocalFigures {
    /// Pings sent.
    pub sent: usize,
    /// Answered.
    pub answered: usize,
    /// Round trips.
    pub rtt: Option<DelayFigures>,
}

/// Results of a local peer.
#[derive(Debug)]
pub(crate) struct LocalLog {
    pub(crate) peer: Peer,
    log: Option<RowLog>,
}

impl<'a> LocalPeer<'a> {
    /// Opens a session with it, and begins to ping.
    ///
    /// # Errors
    /// Those of [`Session::open`].
    pub fn open(options: &SessionOptions, signals: &'a Signals) -> Result<Self, MeasureError> {
        let session = Session::open(options, signals)?;
        let row = Row { hops: HOPS, every: EVERY, first: Duration::ZERO, count: None };
        let pinger = Pinger::start(session.server(), session.id().unwrap_or_default(), &[row])?;
        Ok(Self { session, pinger })
    }

    pub(crate) fn end(self) -> LocalLog {
        let peer = self.session.peer();
        let log = self.pinger.end().pop();
        // Nothing depends on its good-bye: the peer forgets a silent session.
        drop(self.session.close());
        LocalLog { peer, log }
    }
}

impl LocalLog {
    /// Of pings that left from `begin` to `end`; none where the peer never answered at all.
    pub(crate) fn between(&self, begin: Instant, end: Instant) -> Option<LocalFigures> {
        let (sent, answered, rtt) = self.log.as_ref()?.between(begin, end);
        Some(LocalFigures { sent, answered, rtt })
    }
}
