//! The end of a program with many live flows: how long it takes, what becomes of the flows, what is left behind.

use io::Clock;
use units::Duration;

use super::count_text;
use super::flows::BUFFER;
use super::upgrade::{HELD, MEMORY, longest_ms, missing};
use crate::boxed::BoxProgram;
use crate::comparison::Comparison;
use crate::load::{Held, Pings};
use crate::results::Sample;
use crate::stage::{Measure, Plan, Stage, metric};
use crate::topology::{MOBILE, NetworkOptions, WIRED};
use crate::{BenchError, Way};

/// Flows, one of which carries the pings.
const FLOWS: u32 = 100_000;

/// Addresses of clients.
const SUBSCRIBERS: u32 = 1_000;

/// Longest time for the delivery of what is owed, and for the end together with it, as in the service.
const DRAIN: &str = "60 s";
const END_MAX: Duration = Duration::from_secs(90);

/// The same where clients read nothing.
const DEAF_DRAIN: &str = "5 s";

/// Bytes sent on every flow when the program has gone.
const LEN: usize = 100;

/// Longest time until the box owes enough of what was sent to clients that do not read: most of it is in
/// their sockets.
const FILLING: Duration = Duration::from_secs(30);
const FILLED_PERCENT: u64 = 5;

/// Interval of the looks at it.
const LOOK: Duration = Duration::from_millis(500);

/// Duration of the pings.
const PINGING: Duration = Duration::from_secs(6);

/// Kind of load of the flows.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Load {
    /// Open, and nothing is owed.
    Idle,
    /// The box holds [`HELD`] bytes, and the clients read again.
    Owed,
    /// The same, and they do not.
    Deaf,
}

impl Load {
    const ALL: [Self; 3] = [Self::Idle, Self::Owed, Self::Deaf];

    fn case(self) -> String {
        let what = match self {
            Self::Idle => "nothing owed",
            Self::Owed => "data owed",
            Self::Deaf => "data owed, clients that do not read",
        };
        format!("{}, {what}", count_text(FLOWS, "flow"))
    }
}

pub(crate) struct StopPart;

impl Measure for StopPart {
    fn plan(&self) -> Plan {
        let alone =
            |title: &str, metric, load: Load| Comparison::alone(title, metric, &load.case(), Way::Adaptive);
        let all = f64::from(FLOWS - 1);
        Plan {
            title: "The end with live flows",
            how: "These are real TCP flows of 1,000 client addresses, opened through the box. Either nothing is owed \
                  to them, or the servers have sent 1 GB, the same on each flow, to clients that do not read: the box holds what \
                  their sockets do not. Then the program gets SIGTERM. *End* is the                   time until its process has gone. *Ping* is the longest round trip of a flow that exchanges 64 bytes \
                  a thousand times a second meanwhile, and goes on through the kernel afterwards. When all that was \
                  sent has arrived, the servers send 100 bytes on every flow, which have to arrive too: *go on* is how \
                  many flows carried them. Clients that do not read leave the box owing: at the end of `--drain-time` \
                  (5 s there) their flows are reset at both ends. No device, rule or table may be left.",
            metrics: vec![
                metric("end_s", "end, s", 2),
                metric("ping_ms", "longest ping, ms", 1),
                metric("owed_mb", "owed, MB", 0),
                metric("missing_bytes", "bytes missing", 0),
                metric("go_on", "flows that go on", 0),
            ],
            ways: vec![Way::Adaptive],
            rounds: 3,
            time: PINGING,
            network: NetworkOptions { subscribers: SUBSCRIBERS, ..NetworkOptions::default() },
            comparisons: vec![
                alone("End with nothing owed", "end_s", Load::Idle).in_unit(" s", 2).at_most(10.0),
                alone("Flows that go on, nothing owed", "go_on", Load::Idle).in_unit("", 0).at_least(all),
                alone("End with data owed", "end_s", Load::Owed).in_unit(" s", 2).at_most(60.0),
                alone("Flows that go on, data owed", "go_on", Load::Owed).in_unit("", 0).at_least(all),
                // Behind the time for draining.
                alone("End with clients that do not read", "end_s", Load::Deaf)
                    .in_unit(" s", 2)
                    .at_most(30.0),
            ],
        }
    }

    fn measure(&mut self, stage: &mut Stage<'_>, way: Way, round: u32) -> Result<Vec<Sample>, BenchError> {
        Load::ALL.into_iter().map(|load| measure(stage, way, round, load)).collect()
    }
}

fn measure(stage: &mut Stage<'_>, way: Way, round: u32, load: Load) -> Result<Sample, BenchError> {
    let window = format!("{} B", HELD / FLOWS);
    let drain = if load == Load::Deaf { DEAF_DRAIN } else { DRAIN };
    let arguments = [&MEMORY[..], &["--window-max", &window, "--drain-time", drain]].concat();
    let boxed =
        stage.start_with(way, &arguments)?.ok_or_else(|| BenchError::Nothing(way.name().to_owned()))?;
    let mut pings = Pings::start(&stage.network)?;
    stage.step(&format!("opening {}", load.case()));
    let mut held = Held::open(stage, FLOWS - 1, SUBSCRIBERS, BUFFER)?;
    let mut owed = boxed.status()?.processor.debt_bytes;
    if load != Load::Idle {
        held.deafen()?;
        // No more than the box takes: nothing waits in the servers, which would ask for room all the time.
        held.send_once((HELD / FLOWS) as usize)?;
        let give_up = Clock::now() + FILLING;
        while owed < u64::from(HELD) * FILLED_PERCENT / 100 {
            if Clock::now() >= give_up {
                return Err(BenchError::Load(format!("the box owes clients {owed} B only")));
            }
            stage.pause.wait(LOOK)?;
            owed = boxed.status()?.processor.debt_bytes;
        }
    }
    if load == Load::Owed {
        held.hear()?;
    }
    stage.step("ending the program");
    let (end_s, ping_ms) = end(stage, boxed, &mut pings)?;
    nothing_is_left(stage)?;
    let mut sample = Sample::new(load.case(), way, round, [("end_s", end_s), ("owed_mb", owed as f64 / 1e6)]);
    sample.add("ping_ms", ping_ms);
    if load == Load::Deaf {
        held.hear()?;
    } else {
        sample.add("missing_bytes", Some(missing(stage, &mut held)? as f64));
    }
    let before = held.received()?;
    let taken = held.send_once(LEN)?;
    if load == Load::Deaf {
        // Flows that were reset take nothing; one that does is not known to arrive.
        sample.add("go_on", Some(taken as f64));
        return Ok(sample);
    }
    missing(stage, &mut held)?;
    sample.add("go_on", Some((held.received()?.saturating_sub(before) / LEN as u64).min(taken) as f64));
    Ok(sample)
}

/// Ends the program: how long that takes, and the longest ping meanwhile and afterwards.
fn end(
    stage: &mut Stage<'_>,
    boxed: BoxProgram,
    pings: &mut Pings,
) -> Result<(f64, Option<f64>), BenchError> {
    let time = stage.time;
    std::thread::scope(|scope| {
        let pinging = scope.spawn(|| pings.run(time));
        let begin = Clock::now();
        boxed.stop_within(END_MAX, &mut stage.pause)?;
        let end_s = Clock::now().saturating_since(begin).as_secs_f64();
        let pings =
            pinging.join().unwrap_or_else(|_| Err(BenchError::Load("pings have panicked".to_owned())))?;
        Ok((end_s, Some(longest_ms(&pings))))
    })
}

/// The box is as it was before: no device, no rule, no table.
fn nothing_is_left(stage: &Stage<'_>) -> Result<(), BenchError> {
    let mut left: Vec<String> = Vec::new();
    let links = stage.network.middle.netlink()?.links()?;
    let foreign = |name: &str| !["lo", WIRED, MOBILE].contains(&name);
    left.extend(links.into_iter().map(|link| link.name).filter(|name| foreign(name)));
    let shown = |words: &[&str]| -> Result<String, BenchError> {
        Ok(String::from_utf8_lossy(&stage.network.middle.output(words)?.stdout).into_owned())
    };
    // The kernel's own rules are for the tables local, main and default.
    let rules = shown(&["ip", "rule"])? + &shown(&["ip", "-6", "rule"])?;
    let is_kernels = |rule: &str| ["local", "main", "default"].iter().any(|table| rule.ends_with(table));
    left.extend(rules.lines().map(str::trim).filter(|rule| !is_kernels(rule)).map(str::to_owned));
    if io::features::find_program("nft").is_some() {
        left.extend(shown(&["nft", "list", "tables"])?.lines().map(str::to_owned));
    }
    if left.is_empty() {
        return Ok(());
    }
    Err(BenchError::Load(format!("left behind in the box: {}", left.join("; "))))
}
