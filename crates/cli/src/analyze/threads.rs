//! One analysis in one thread or several.
//!
//! One thread reads and decodes, others analyze the flows of a part each, and the calling thread
//! gathers what they find: outputs need not be shared. Rounds go through bounded channels, so that
//! reading waits for the slowest part and memory stays bounded.

use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::thread;

use analysis::{Analyzer, Config, Finding, FindingMerger, PARTS_MAX, Part, SegmentRecord, Sink, part_of};
use anyhow::{Result, anyhow};

use super::feed::Feed;

/// Segments read between two looks at their flows: they stay in the nearest cache.
const NEAR: usize = 128;
/// Segments of a round: many enough that handing over does not show.
const ROUND: usize = 8_192;
/// Rounds that wait between two threads at most.
const WAITING: usize = 3;

/// Analyzes all that `feed` gives in `threads` threads, or as many as there are processors.
pub(super) fn run<S: Sink>(threads: Option<u16>, config: Config, feed: Feed, sink: S) -> Result<(Feed, S)> {
    let threads = threads.map_or_else(|| thread::available_parallelism().map_or(1, usize::from), usize::from);
    match threads {
        1 => Ok(alone(config, feed, sink)),
        // Outputs of packets need all packets in their order.
        _ if sink.wants_packets() => beside_reading(config, feed, sink),
        _ => in_parts(threads.min(PARTS_MAX), config, feed, sink),
    }
}

fn alone<S: Sink>(config: Config, mut feed: Feed, sink: S) -> (Feed, S) {
    let mut analyzer = Analyzer::new(config, sink);
    let mut round = Vec::with_capacity(NEAR);
    loop {
        let has_more = feed.read(NEAR, |segment| round.push(segment));
        analyzer.handle_records(&round);
        round.clear();
        if !has_more {
            return (feed, analyzer.finish());
        }
    }
}

/// Reading in one thread, everything else in this one.
fn beside_reading<S: Sink>(config: Config, mut feed: Feed, sink: S) -> Result<(Feed, S)> {
    let (to_here, rounds) = sync_channel::<Vec<SegmentRecord>>(WAITING);
    let (give_back, empty) = sync_channel::<Vec<SegmentRecord>>(WAITING + 2);
    thread::scope(|scope| {
        let reader = spawn(scope, move || {
            loop {
                let mut round = empty.try_recv().unwrap_or_default();
                let has_more = feed.read(ROUND, |segment| round.push(segment));
                if to_here.send(round).is_err() || !has_more {
                    return feed;
                }
            }
        })?;
        let mut analyzer = Analyzer::new(config, sink);
        for mut round in rounds {
            analyzer.handle_records(&round);
            round.clear();
            // When enough wait to be filled again this one is not needed.
            let _ = give_back.try_send(round);
        }
        Ok((joined(reader), analyzer.finish()))
    })
}

/// Reading in one thread, the flows in `parts` others, outputs in this one.
fn in_parts<S: Sink>(parts: usize, config: Config, feed: Feed, sink: S) -> Result<(Feed, S)> {
    let (give_back, empty) = sync_channel::<Vec<SegmentRecord>>(parts * (WAITING + 2));
    thread::scope(|scope| {
        let (mut to_parts, mut from_parts) = (Vec::new(), Vec::new());
        for _ in 0..parts {
            let (to_part, rounds) = sync_channel(WAITING);
            let (to_here, found) = sync_channel(WAITING);
            let give_back = give_back.clone();
            spawn(scope, move || analyze(Part::new(config), &rounds, &give_back, &to_here))?;
            to_parts.push(to_part);
            from_parts.push(found);
        }
        let reader = spawn(scope, move || distribute(feed, &to_parts, &empty))?;
        let mut gather = FindingMerger::new(config, sink);
        let mut found = Vec::new();
        // Every part answers every round, and once more at its end.
        'rounds: loop {
            for part in &from_parts {
                match part.recv() {
                    Ok(more) => found.extend(more),
                    Err(_) => break 'rounds,
                }
            }
            gather.take(&mut found);
        }
        Ok((joined(reader), gather.finish()))
    })
}

/// Reads everything, a round at a time, and gives each segment to its part.
fn distribute(
    mut feed: Feed,
    to_parts: &[SyncSender<Vec<SegmentRecord>>],
    empty: &Receiver<Vec<SegmentRecord>>,
) -> Feed {
    loop {
        let mut rounds: Vec<Vec<SegmentRecord>> =
            to_parts.iter().map(|_| empty.try_recv().unwrap_or_default()).collect();
        let has_more = feed.read(ROUND, |segment| rounds[part_of(&segment, to_parts.len())].push(segment));
        for (part, round) in to_parts.iter().zip(rounds) {
            if part.send(round).is_err() {
                return feed;
            }
        }
        if !has_more {
            return feed;
        }
    }
}

/// Takes rounds until there are no more, then ends the flows.
fn analyze(
    mut part: Part,
    rounds: &Receiver<Vec<SegmentRecord>>,
    give_back: &SyncSender<Vec<SegmentRecord>>,
    to_here: &SyncSender<Vec<Finding>>,
) {
    for mut round in rounds {
        if to_here.send(part.handle(&round)).is_err() {
            return;
        }
        round.clear();
        // When enough wait to be filled again this one is not needed.
        let _ = give_back.try_send(round);
    }
    // Nobody waits for it only when the program ends.
    let _ = to_here.send(part.finish());
}

fn spawn<'scope, T: Send + 'scope>(
    scope: &'scope thread::Scope<'scope, '_>,
    work: impl FnOnce() -> T + Send + 'scope,
) -> Result<thread::ScopedJoinHandle<'scope, T>> {
    thread::Builder::new()
        .name("analyze".to_owned())
        .spawn_scoped(scope, work)
        .map_err(|error| anyhow!("a thread cannot be started: {error}: try --threads 1"))
}

/// Result of a thread; what it died of goes on here.
fn joined<T>(thread: thread::ScopedJoinHandle<'_, T>) -> T {
    thread.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic))
}
