//! `run --replace` with live flows: how long packets wait, and what arrives.

use io::Clock;
use units::Duration;

use super::flows::BUFFER;
use crate::comparison::Comparison;
use crate::load::{Computing, Held, Ping, Pings};
use crate::results::Sample;
use crate::stage::{Measure, Plan, Stage, metric};
use crate::topology::NetworkOptions;
use crate::{BenchError, Way};

/// Flows that move, one of which carries the pings.
const FLOWS: [u32; 3] = [1_000, 10_000, 100_000];

/// Flows that move while every processor is wanted by others, too.
const LOADED: u32 = 100_000;

/// Data that all of them hold together, bytes: each as much of it as the others.
pub(super) const HELD: u32 = 1_000_000_000;

/// More than what is held needs: a flow that is refused memory keeps its server busy.
pub(super) const MEMORY: [&str; 6] =
    ["--memory-max", "8 GiB", "--subscriber-memory-max", "8 GiB", "--flow-memory-max", "64 MiB"];

/// Addresses of clients.
const SUBSCRIBERS: u32 = 1_000;

/// Flows from which on a client's socket is to hold little of what the box could hold, and its size, bytes.
const MANY: u32 = 10_000;
const SMALL_BUFFER: usize = 4 * 1024;

/// Longest time until the box has what the servers send to clients that do not read.
const FILLING: Duration = Duration::from_secs(30);

/// Pings before the new program starts.
const BEFORE: Duration = Duration::from_secs(1);

/// Within this time the new program has the flows.
const UPGRADE: Duration = Duration::from_secs(4);

/// Interval of the looks whether all that was sent has arrived.
const LOOK: Duration = Duration::from_millis(100);

/// Time without a byte after which what is missing is lost, and the longest time for all.
const STILL: Duration = Duration::from_secs(10);
const ARRIVING: Duration = Duration::from_secs(90);

/// Text of the old program when its flows are gone: before and behind the time in µs.
const HANDED_OVER: (&str, &str) = ("packets waited ", " µs");

pub(crate) struct UpgradePart;

impl Measure for UpgradePart {
    fn plan(&self) -> Plan {
        let of = |title: &str, case: &str, way, bound| {
            Comparison::alone(title, "ping_ms", case, way).in_unit(" ms", 1).at_most(bound)
        };
        let quiet = |title: &str, case: &str, bound| of(title, case, Way::Adaptive, bound);
        Plan {
            title: "Upgrade with live flows",
            how: "These are real TCP flows of 1,000 client addresses, opened through the box. The servers send \
                  to clients that do not read what the box takes, 1 GB at most, the same on each flow: of 1,000 flows it takes \
                  less, since their windows stop growing. It holds what the clients' sockets do not. Then `cellerator run --replace` takes the place of the running program, and all flows \
                  move to it. *Wait* is the time from the old program's last packet to the new one's word that \
                  it has the flows. *Ping* is the longest round trip of a flow that exchanges 64 bytes a thousand \
                  times a second meanwhile. It includes what the start of the new program costs, on the same \
                  processors. *Beside other load*, a thread for each processor computes \
                  meanwhile, and `run` has the niceness that it gives itself. Then the clients read again, and everything that was sent has to arrive. *All there* is when it \
                  had.",
            metrics: vec![
                metric("wait_ms", "wait, ms", 1),
                metric("ping_ms", "longest ping, ms", 1),
                metric("ping_before_ms", "before the upgrade, ms", 1),
                metric("held_mb", "memory of its buffers, MB", 0),
                metric("arrived_s", "all there, s", 1),
                metric("missing_bytes", "bytes missing", 0),
            ],
            ways: vec![Way::Adaptive, Way::AdaptiveFirst],
            rounds: 5,
            time: Duration::from_millis(4_000),
            network: NetworkOptions { subscribers: SUBSCRIBERS, ..NetworkOptions::default() },
            comparisons: vec![
                quiet("Longest ping while 1,000 flows move", "1,000 flows", 20.0),
                quiet("Longest ping while 10,000 flows move", "10,000 flows", 20.0),
                quiet("Longest ping while 100,000 flows move", "100,000 flows", 100.0),
                of(
                    "Longest ping while 100,000 flows move beside other load",
                    &case(LOADED, true),
                    Way::AdaptiveFirst,
                    300.0,
                ),
            ],
        }
    }

    fn measure(&mut self, stage: &mut Stage<'_>, way: Way, round: u32) -> Result<Vec<Sample>, BenchError> {
        if way == Way::AdaptiveFirst {
            return Ok(vec![measure(stage, way, round, LOADED, true)?]);
        }
        FLOWS.into_iter().map(|flows| measure(stage, way, round, flows, false)).collect()
    }
}

/// Name of a case.
fn case(flows: u32, is_loaded: bool) -> String {
    let flows = super::count_text(flows, "flow");
    if is_loaded { format!("{flows}, beside other load") } else { flows }
}

fn measure(
    stage: &mut Stage<'_>,
    way: Way,
    round: u32,
    flows: u32,
    is_loaded: bool,
) -> Result<Sample, BenchError> {
    let nothing = || BenchError::Nothing(way.name().to_owned());
    let window = format!("{} B", HELD / flows);
    let arguments = [&MEMORY[..], &["--window-max", &window]].concat();
    // Of their own: others may run on this machine.
    let names = ["old", "new"].map(|which| format!("bench-{}-{which}", std::process::id()));
    let [old_name, new_name] = names.each_ref().map(String::as_str);
    let old =
        stage.start_with(way, &[&arguments[..], &["--name", old_name]].concat())?.ok_or_else(nothing)?;
    let mut pings = Pings::start(&stage.network)?;
    stage.step(&format!("opening {}", super::count_text(flows, "flow")));
    let buffer = if flows < MANY { BUFFER } else { SMALL_BUFFER };
    let mut held = Held::open(stage, flows - 1, SUBSCRIBERS.min(flows - 1), buffer)?;
    held.deafen()?;
    stage.step("filling the box");
    fill(stage, &mut held, flows)?;
    let held_bytes = old.status()?.processor.counter("buffer_bytes_now");
    stage.step("moving them to another process");
    let computing = is_loaded.then(Computing::start);
    let before = pings.run(BEFORE)?;
    let (new, during) = std::thread::scope(|scope| {
        let pinging = scope.spawn(|| pings.run(UPGRADE));
        let named = ["--name", new_name, "--replace", old_name];
        let new = stage.start_with(way, &[&arguments[..], &named].concat());
        let during =
            pinging.join().unwrap_or_else(|_| Err(BenchError::Load("pings have panicked".to_owned())));
        (new, during)
    });
    let (new, during) = (new?.ok_or_else(nothing)?, during?);
    let said = old.replaced(&mut stage.pause)?;
    drop(computing);
    held.hear()?;
    stage.step("reading all of it");
    let heard = Clock::now();
    let missing = missing(stage, &mut held)?;
    let arrived_s = Clock::now().saturating_since(heard).as_secs_f64();
    drop((held, pings));
    new.stop_after(u64::from(flows), &mut stage.pause)?;
    let values = [
        ("wait_ms", waited_us(&said).map_or(f64::NAN, |us| us as f64 / 1e3)),
        ("ping_ms", longest_ms(&during)),
        ("ping_before_ms", longest_ms(&before)),
        ("held_mb", held_bytes as f64 / 1e6),
        ("missing_bytes", missing as f64),
    ];
    let mut sample = Sample::new(case(flows, is_loaded), way, round, values);
    sample.add("arrived_s", (missing == 0).then_some(arrived_s));
    Ok(sample)
}

/// Has the servers send what the box may hold of each flow; a little of it waits in the sockets of clients that do not
/// read. If there were more, it would wait in the servers' sockets, and those of 100,000 flows would ask for room all the
/// time.
pub(super) fn fill(stage: &mut Stage<'_>, held: &mut Held, flows: u32) -> Result<(), BenchError> {
    let len = (HELD / flows) as usize;
    held.fill(len)?;
    let (all, give_up) = (u64::from(flows - 1) * len as u64, Clock::now() + FILLING);
    while held.sent()? < all && Clock::now() < give_up {
        stage.pause.wait(LOOK)?;
    }
    held.quiet()
}

/// Bytes that the servers have sent and the clients never received: nothing more has come for [`STILL`], or it takes
/// longer than [`ARRIVING`].
pub(super) fn missing(stage: &mut Stage<'_>, held: &mut Held) -> Result<u64, BenchError> {
    let begin = Clock::now();
    let (mut received, mut moved) = (held.received()?, begin);
    loop {
        let missing = held.sent()?.saturating_sub(received);
        let now = Clock::now();
        if missing == 0 || now.saturating_since(moved) >= STILL || now.saturating_since(begin) >= ARRIVING {
            return Ok(missing);
        }
        stage.pause.wait(LOOK)?;
        let before = std::mem::replace(&mut received, held.received()?);
        if received > before {
            moved = now;
        }
    }
}

pub(super) fn longest_ms(pings: &[Ping]) -> f64 {
    pings.iter().map(|ping| ping.up_ns + ping.down_ns).max().map_or(f64::NAN, |ns| ns as f64 / 1e6)
}

/// From what the old program has said.
fn waited_us(said: &str) -> Option<u64> {
    let (_, rest) = said.split_once(HANDED_OVER.0)?;
    rest.split_once(HANDED_OVER.1)?.0.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_wait_is_read_from_what_was_said() {
        let said = "ready: …\nhanded over 6 flows; packets waited 1234 µs\nfrom servers: 3 packets\n";
        assert_eq!(waited_us(said), Some(1_234));
        assert_eq!(waited_us("ready: …\n"), None);
    }
}
