//! Short downloads of a client that is known, and of a new one.

use std::sync::atomic::Ordering;

use engine::{Engine, PassThrough};
use link::Percentiles;
use sim::{MiddleboxUnderTest, Network, NetworkConfig, SimError};
use units::{Bytes, Duration, Instant};

use crate::bound::bound;
use crate::line_up::{FlowPlan, LineUp};
use crate::results::ShortRun;

/// Sizes of the downloads.
pub(crate) const SIZES: [Bytes; 3] = [Bytes::new(16_000), Bytes::new(100_000), Bytes::new(1_000_000)];
/// Downloads of each size, spread over the trace.
const COUNT: u64 = 24;
/// Earlier download of a known client, and the time since then.
const BEFORE: (Bytes, Duration) = (Bytes::new(300_000), Duration::from_secs(10));
/// A download that takes longer counts as unfinished.
const PATIENCE: Duration = Duration::from_secs(60);

/// Downloads of `size`, each alone on the link, begun at even distances in `[0, length)`. A known client has
/// downloaded 300 KB ten seconds earlier, over another connection.
pub(crate) fn short(
    line_up: &LineUp<'_>,
    length: Duration,
    size: Bytes,
    is_known: bool,
    mut run: ShortRun,
) -> Result<ShortRun, SimError> {
    let (mut times, mut bounds) = (Vec::new(), Vec::new());
    for number in 0..COUNT {
        if line_up.is_over.load(Ordering::Relaxed) {
            break;
        }
        // Later by the time of the download before, so that both kinds meet the same piece of the trace.
        let begins = Instant::ZERO + BEFORE.1 + length.mul_ratio(2 * number + 1, 2 * COUNT);
        bounds.extend(bound(line_up, begins, size));
        let mut flows = vec![FlowPlan::download(size.get(), begins)];
        if is_known {
            let earlier = Instant::ZERO + begins.saturating_since(Instant::ZERO + BEFORE.1);
            flows.push(FlowPlan::download(BEFORE.0.get(), earlier));
        }
        let network = line_up.network(&flows);
        let time = match line_up.engine() {
            None => completion(PassThrough, &network, begins, size),
            Some(config) => completion(Engine::new(config)?, &network, begins, size),
        };
        match time {
            Ok(Some(time)) => times.push(time),
            Ok(None) => run.unfinished += 1,
            Err(SimError::Broken { at, violation }) => {
                run.problems.push(format!("a rule was broken at {at}: {violation}"));
            }
            Err(error) => return Err(error),
        }
    }
    run.completion_ms = Percentiles::of(times).into();
    run.bound_ms = Percentiles::of(bounds).into();
    run.over_bound = run.completion_ms.p50 / run.bound_ms.p50.max(1e-9);
    Ok(run)
}

/// Time from the client's SYN to the last byte; none when it takes too long.
fn completion<M: MiddleboxUnderTest>(
    middlebox: M,
    network: &NetworkConfig,
    begins: Instant,
    size: Bytes,
) -> Result<Option<Duration>, SimError> {
    let mut network = Network::new(network, middlebox)?;
    network.run_until(begins + PATIENCE)?;
    let Some(client) = network.clients().first() else { return Ok(None) };
    let is_whole = client.bytes_read() == size.get();
    Ok(client.progress().last.filter(|_| is_whole).map(|last| last.saturating_since(begins)))
}
