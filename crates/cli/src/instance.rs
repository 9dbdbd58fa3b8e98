//! `cellerator status`, `flows`, `drain` and `reload`: questions to a running accelerator.

use std::collections::BTreeMap;
use std::hash::{BuildHasher as _, Hasher as _, RandomState};
use std::io::Write;
use std::net::{SocketAddr, UdpSocket};
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use anyhow::{Context, Error, Result, anyhow};
use engine::PassReason;
use io::{Clock, Waiter};
use run::{Answer, FlowLine, FlowList, Found, Question, RecoveryStatus, Status};
use scenario::Quantity;
use units::{Bytes, Duration};
use wire::{FeedbackKey, HandoverOrder};

use top::three_digits;

use crate::looking::only_look;
use crate::output::Words;

mod watch;

use watch::WatchArgs;

/// Interval at which a drain is looked at.
const POLL: Duration = Duration::from_millis(100);

/// Instance to which a command applies.
#[derive(clap::Args)]
pub struct Which {
    /// The accelerator: its --name, its interfaces as WIRED-MOBILE, or its process number. Not needed if
    /// only one runs
    #[arg(value_name = "NAME")]
    name: Option<String>,
}

/// Arguments of `cellerator status`.
#[derive(clap::Args)]
pub struct StatusArgs {
    #[command(flatten)]
    show: ShowArgs,
    #[command(flatten)]
    watch: WatchArgs,
}

/// Arguments of `cellerator flows`, and of `cellerator status` among others.
#[derive(clap::Args)]
pub struct ShowArgs {
    #[command(flatten)]
    which: Which,
    /// Print JSON
    #[arg(long)]
    json: bool,
}

/// Arguments of `cellerator drain`.
#[derive(clap::Args)]
pub struct DrainArgs {
    #[command(flatten)]
    which: Which,
    /// Longest time to deliver what is owed; then the flows are reset [default: the accelerator's
    /// --drain-time]
    #[arg(long, value_name = "TIME")]
    time: Option<Quantity<Duration>>,
}

/// Runs `cellerator status`; an error is one clear line: what, where, what to do.
pub fn status(args: &StatusArgs) -> Result<ExitCode> {
    let StatusArgs { show: args, watch } = args;
    only_look(Path::new(io::INSTANCE_DIRECTORY), &[])?;
    if watch.is_asked() {
        return watch::watch(&args.which, watch);
    }
    let found = find(&args.which)?;
    let status = ask_status(&found)?;
    if args.json {
        print_json(&status)?;
    } else {
        print(&status_lines(&status));
    }
    Ok(ExitCode::SUCCESS)
}

/// Runs `cellerator flows`.
pub fn flows(args: &ShowArgs) -> Result<ExitCode> {
    only_look(Path::new(io::INSTANCE_DIRECTORY), &[])?;
    let found = find(&args.which)?;
    let mut all = FlowList::default();
    loop {
        let part = match ask(&found, &Question::Flows { skip: all.flows.len() })? {
            Answer::Flows(part) => part,
            other => return Err(unexpected(&found, &other)),
        };
        all.passed.extend(part.passed);
        if part.flows.is_empty() {
            break;
        }
        all.flows.extend(part.flows);
    }
    if args.json {
        print_json(&all)?;
    } else {
        print(&flow_lines(&all, Words::default().columns()));
    }
    Ok(ExitCode::SUCCESS)
}

/// Runs `cellerator drain`: returns when the accelerator has ended.
pub fn drain(args: &DrainArgs) -> Result<ExitCode> {
    let found = find(&args.which)?;
    let time_ms_max = args.time.map(|Quantity(time)| time.as_millis());
    match ask(&found, &Question::Drain { time_ms_max })? {
        Answer::Done(_) => {}
        other => return Err(unexpected(&found, &other)),
    }
    let mut waiter = Waiter::new(Duration::ZERO)?;
    let mut last = None;
    while found.is_there() {
        if let Ok(Answer::Status(status)) = found.ask(&Question::Status) {
            last = Some(status);
        }
        waiter.wait(Some(Clock::now() + POLL))?;
    }
    let owed = last.map_or(0, |status| status.processor.debt_bytes);
    print(&[format!("{}: drained and ended; {} were owed when last seen", found.name, Bytes::new(owed))]);
    Ok(ExitCode::SUCCESS)
}

/// Runs `cellerator reload`.
pub fn reload(which: &Which) -> Result<ExitCode> {
    let found = find(which)?;
    match ask(&found, &Question::Reload)? {
        Answer::Done(line) => print(&[format!("{}: {line}", found.name)]),
        other => return Err(unexpected(&found, &other)),
    }
    Ok(ExitCode::SUCCESS)
}

/// Arguments of `cellerator handover`.
#[derive(clap::Args)]
pub struct HandoverArgs {
    /// An address of the subscriber
    #[arg(value_name = "SUBSCRIBER")]
    subscriber: std::net::IpAddr,
    /// The other box: what --handover-peer calls it
    #[arg(long, value_name = "PEER")]
    to: String,
    /// Send a signed order to where an accelerator listens with --feedback, as a base station does, instead of
    /// asking one on this machine. Nothing comes back: see `status` or the events there
    #[arg(long, value_name = "ADDR:PORT", requires = "key_file", conflicts_with = "name")]
    order: Option<SocketAddr>,
    /// Sign the order with the key in this file: that of --feedback-key-file
    #[arg(long, value_name = "FILE", requires = "order")]
    key_file: Option<PathBuf>,
    #[command(flatten)]
    which: Which,
}

/// Runs `cellerator handover`: returns when the other box has the subscriber.
pub fn handover(args: &HandoverArgs) -> Result<ExitCode> {
    if let (Some(at), Some(key_file)) = (args.order, &args.key_file) {
        send_order(args, at, key_file).context("handover")?;
        return Ok(ExitCode::SUCCESS);
    }
    let found = find(&args.which)?;
    let question = Question::MoveSubscriber { client: args.subscriber, to: args.to.clone() };
    match ask(&found, &question)? {
        Answer::Done(line) => print(&[format!("{}: {line}", found.name)]),
        other => return Err(unexpected(&found, &other)),
    }
    Ok(ExitCode::SUCCESS)
}

fn send_order(args: &HandoverArgs, at: SocketAddr, key_file: &Path) -> Result<()> {
    let key = FeedbackKey::new(&run::read_key(key_file).map_err(Error::msg)?).context("the key is empty")?;
    let order = HandoverOrder {
        // One order each: another sender is drawn every time.
        sender: RandomState::new().build_hasher().finish() as u32,
        sequence: 1,
        time_us: Clock::wall_nanos() / 1_000,
        subscriber: args.subscriber,
        peer: args.to.clone(),
    };
    let bytes = order
        .encode(&key)
        .with_context(|| format!("a peer has a name of 1 to {} bytes", HandoverOrder::PEER_LEN_MAX))?;
    let any = if at.is_ipv4() { "0.0.0.0:0" } else { "[::]:0" };
    let sent = UdpSocket::bind(any).and_then(|socket| socket.send_to(&bytes, at));
    sent.with_context(|| format!("no way to {at}"))?;
    print(&[format!("ordered at {at}: {} to {}", args.subscriber, args.to)]);
    Ok(())
}

pub(crate) fn find(which: &Which) -> Result<Found> {
    let all = run::find(Path::new(io::INSTANCE_DIRECTORY))?;
    run::choose(all, which.name.as_deref()).map_err(Error::msg)
}

pub(crate) fn ask(found: &Found, question: &Question) -> Result<Answer> {
    Ok(found.ask(question)?)
}

fn ask_status(found: &Found) -> Result<Status> {
    match ask(found, &Question::Status)? {
        Answer::Status(status) => Ok(*status),
        other => Err(unexpected(found, &other)),
    }
}

pub(crate) fn unexpected(found: &Found, answer: &Answer) -> Error {
    match answer {
        Answer::Refused(why) => anyhow!("{}: {why}", found.name),
        _ => anyhow!("{}: it is of another version; use the `cellerator` it was started with", found.name),
    }
}

pub(crate) fn print(lines: &[String]) {
    // A reader who has gone away is no error.
    drop(writeln!(std::io::stdout(), "{}", lines.join("\n")));
}

pub(crate) fn print_json(value: &impl serde::Serialize) -> Result<()> {
    print(&[serde_json::to_string_pretty(value).context("as JSON")?]);
    Ok(())
}

/// Remark on an interface that is not up.
fn trouble(condition: &str) -> String {
    if ["", "up"].contains(&condition) { String::new() } else { format!(" ({condition})") }
}

/// Lines with the identity of an instance and its present state.
fn heading_lines(status: &Status) -> Vec<String> {
    let what = match status {
        _ if !status.stands_by.is_empty() => "standing by",
        _ if status.is_draining => "draining",
        _ => "running",
    };
    let Status { name, process, version, wired, mobile, .. } = status;
    // Both are empty from another version.
    let steering = match status.steering.as_str() {
        "" => String::new(),
        "inline" => ", bridged".to_owned(),
        how => format!(", steered by {how}"),
    };
    if !status.stands_by.is_empty() {
        return vec![
            format!("{name}: {what} for {} s, process {process}, version {version}", status.uptime_s),
            format!(
                "TCP between {wired} and {mobile} is forwarded without acceleration: {}",
                status.stands_by
            ),
        ];
    }
    let controller =
        Some(status.processor.controller.as_str()).filter(|name| !name.is_empty()).unwrap_or("-");
    let mut lines = vec![
        format!("{name}: {what} for {} s, process {process}, version {version}", status.uptime_s),
        format!(
            "servers behind {wired}{}, clients behind {mobile}{}{steering}",
            trouble(&status.interfaces[0]),
            trouble(&status.interfaces[1])
        ),
        format!("{:<28}{controller}", "controller"),
        format!("{:<28}{}", "memory", Bytes::new(status.resident_bytes)),
        format!("{:<28}{}", "owed", Bytes::new(status.processor.debt_bytes)),
    ];
    lines.extend(recovery_lines(&status.recovery));
    lines
}

/// Groups of what is counted, in the order in which they are shown.
const GROUPS: [&str; 8] =
    ["traffic", "flows", "data", "repairs", "beside flows", "hand-over", "feedback", "refused, or unusual"];

/// The group of a counter, and the unit of its value; bytes are shown in units of their own.
fn group_and_unit(counter: &str) -> (&'static str, &'static str) {
    let name = counter.strip_prefix("uplink_").unwrap_or(counter);
    match name {
        "packets_in" | "packets_forwarded" | "packets_made" | "ce_packets" => ("traffic", "packets"),
        "acks_made" | "acks_consumed" => ("traffic", "acknowledgements"),
        "timeouts" | "timeouts_undone" => ("repairs", "time-outs"),
        "bytes_retransmitted" | "bytes_acked_but_lost" => ("repairs", "bytes"),
        "bypass_packets" => ("traffic", "packets"),
        name if name.starts_with("feedback_") => ("feedback", "reports"),
        name if name.starts_with("handover_") => match name {
            name if name.contains("_bytes_") => ("hand-over", "bytes"),
            name if name.contains("_flows_") => ("hand-over", "flows"),
            name if name.contains("_peers") => ("hand-over", "peers"),
            name if name.contains("_orders_") => ("hand-over", "orders"),
            _ => ("hand-over", "subscribers"),
        },
        name if name.starts_with("opaque") && name.ends_with("bytes") => ("beside flows", "bytes"),
        name if name.starts_with("opaque") => ("beside flows", "packets"),
        name if name.starts_with("flows_") || name.starts_with("bypass_flows") || name == "half_open_now" => {
            ("flows", "flows")
        }
        name if name.contains("bytes") => ("data", "bytes"),
        "windows_lowered" => ("data", "windows"),
        "bad_checksums" | "unparsable" | "fragments" | "not_tcp" | "unknown_flow" | "truncated" => {
            ("refused, or unusual", "packets")
        }
        "paws_rejected" | "out_of_window" | "unacceptable_acks" | "inexact_resets" => {
            ("refused, or unusual", "segments")
        }
        _ => ("refused, or unusual", "times"),
    }
}

fn status_lines(status: &Status) -> Vec<String> {
    let mut groups: BTreeMap<&str, Vec<String>> = BTreeMap::new();
    let mut add = |group: &'static str, name: &str, value: String| {
        groups.entry(group).or_default().push(format!("  {name:<26}{value}"));
    };
    for (side, from) in status.sides.iter().zip(["from servers", "from clients"]) {
        let (packets, bytes) = (side.received_packets, Bytes::new(side.received_bytes));
        let lost = side.refused_packets + side.queue_drops;
        add("traffic", from, format!("{packets} packets, {bytes}, {lost} lost in queues"));
    }
    for (shard, of) in status.shards.iter().enumerate().filter(|_| status.shards.len() > 1) {
        let value = format!("{} packets, {} flows now", of.received_packets, of.flows_now);
        add("traffic", &format!("shard {shard}"), value);
    }
    for (counter, value) in status.processor.counters.iter().filter(|(_, value)| **value > 0) {
        let (group, unit) = group_and_unit(counter);
        let value = if unit == "bytes" { Bytes::new(*value).to_string() } else { format!("{value} {unit}") };
        add(group, &counter.replace('_', " "), value);
    }
    let bytes_of = |reason: &str| status.processor.passed_bytes.get(reason).copied().map(Bytes::new);
    for (reason, flows) in &status.processor.passed {
        let bytes = bytes_of(reason).map_or(String::new(), |bytes| format!(", {bytes}"));
        add("flows", &format!("{}, {reason}", became(reason)), format!("{flows} flows{bytes}"));
    }
    // Flows that passed before the process began are in no count of flows.
    for (reason, bytes) in &status.processor.passed_bytes {
        if !status.processor.passed.contains_key(reason) {
            add("flows", &format!("{}, {reason}", became(reason)), Bytes::new(*bytes).to_string());
        }
    }
    let mut lines = heading_lines(status);
    // Nothing comes here.
    let shown = if status.stands_by.is_empty() { &GROUPS[..] } else { &[] };
    for group in shown.iter().copied() {
        let Some(of_group) = groups.remove(group) else { continue };
        lines.extend([String::new(), group.to_owned()]);
        lines.extend(of_group);
    }
    lines
}

/// Lines about recovery: who goes on if the process dies, and what became of those before it.
fn recovery_lines(recovery: &RecoveryStatus) -> Vec<String> {
    let RecoveryStatus { is_ready, why_not, deaths, last_death_ms, flows_recovered, flows_lost } = recovery;
    let successor = match (is_ready, why_not.as_str()) {
        (true, _) => "ready".to_owned(),
        // It is of another version.
        (false, "") => "-".to_owned(),
        (false, why) => format!("none: {why}"),
    };
    let mut lines = vec![format!("{:<28}{successor}", "successor")];
    if let Some(ms) = last_death_ms {
        let s = ms / 1_000;
        lines.push(format!(
            "{:<28}{deaths}, the last {s} s ago; {flows_recovered} flows went on, {flows_lost} were reset",
            "deaths"
        ));
    }
    lines
}

/// Columns of the flows that a narrow terminal can do without, the least needed first.
const FLOWS_MAY_GO: [&str; 6] = ["held", "window", "state", "srtt", "owed", "data"];

fn flow_lines(list: &FlowList, columns: usize) -> Vec<String> {
    let mut lines = Vec::new();
    if !list.flows.is_empty() {
        let names = ["data", "state", "client", "server", "owed", "held", "window", "srtt", "rate limit"];
        let table = figures::Table {
            headings: names.map(|name| (name, "")).to_vec(),
            rows: list.flows.iter().map(flow_fields).collect(),
        };
        let (table, gone) = table.fitting(columns, &FLOWS_MAY_GO);
        lines.extend(table.to_string().lines().filter(|line| !line.is_empty()).map(str::to_owned));
        if !gone.is_empty() {
            lines.push(format!("  the terminal is too narrow for: {}; --json has all", gone.join(", ")));
        }
    }
    lines.extend(
        list.passed.iter().map(|flow| {
            format!("{:<8} {} {} {}", became(&flow.reason), flow.client, flow.server, flow.reason)
        }),
    );
    if lines.is_empty() {
        lines.push("no flows".to_owned());
    }
    lines
}

/// Fate of flows that left for a reason: the end of one that was accelerated is no passing.
fn became(reason: &str) -> &'static str {
    if PassReason::named(reason).is_some_and(PassReason::is_end) { "ended" } else { "passed" }
}

fn flow_fields(flow: &FlowLine) -> Vec<String> {
    let srtt = flow.srtt_us.map_or("-".to_owned(), |us| three_digits(us, ["µs", "ms", "s", "ks"]));
    // Older ones have no null where there is no limit.
    let rate = flow.subscriber_rate_bps.filter(|bps| *bps < u64::MAX);
    let rate = rate.map_or("-".to_owned(), |bps| three_digits(bps, ["bit/s", "kbit/s", "Mbit/s", "Gbit/s"]));
    let bytes = [flow.debt_bytes, flow.held_bytes, flow.client_window_bytes];
    let [owed, held, window] = bytes.map(|bytes| Bytes::new(bytes).to_string());
    let (client, server) = (flow.client.to_string(), flow.server.to_string());
    vec![flow.direction.clone(), flow.state.clone(), client, server, owed, held, window, srtt, rate]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn who_goes_on_and_what_became_of_deaths_is_said() {
        let mut recovery = RecoveryStatus::default();
        let said = |recovery: &RecoveryStatus| recovery_lines(recovery).join("\n");
        assert_eq!(said(&recovery), format!("{:<28}-", "successor"));
        recovery.why_not = "the watchdog has ended".to_owned();
        assert!(said(&recovery).ends_with("none: the watchdog has ended"));
        let recovery = RecoveryStatus {
            is_ready: true,
            why_not: String::new(),
            deaths: 2,
            last_death_ms: Some(34_000),
            flows_recovered: 120,
            flows_lost: 1,
        };
        let wanted = format!(
            "{:<28}ready\n{:<28}2, the last 34 s ago; 120 flows went on, 1 were reset",
            "successor", "deaths"
        );
        assert_eq!(said(&recovery), wanted);
    }

    #[test]
    fn a_status_is_in_groups_with_units() {
        let mut status = Status::default();
        let counters = [
            ("bytes_delivered", 1_500_000),
            ("flows_now", 3),
            ("uplink_timeouts", 2),
            ("fragments", 4),
            ("opaque_quic_bytes", 1_200),
            ("handover_flows_gone", 7),
            ("feedback_accepted", 9),
            ("acks_made", 0),
        ];
        status.processor.counters = counters.map(|(name, value)| (name.to_owned(), value)).into();
        status.processor.passed = [("mptcp".to_owned(), 5)].into();
        status.processor.passed_bytes = [("mptcp".to_owned(), 2_500), ("unknown".to_owned(), 70)].into();
        let lines = status_lines(&status);
        let heads = lines.iter().filter(|line| GROUPS.contains(&line.as_str()));
        assert_eq!(heads.collect::<Vec<_>>(), GROUPS.each_ref());
        let line = |name: &str, value: &str| format!("  {name:<26}{value}");
        for wanted in [
            line("bytes delivered", &Bytes::new(1_500_000).to_string()),
            line("flows now", "3 flows"),
            line("passed, mptcp", &format!("5 flows, {}", Bytes::new(2_500))),
            line("passed, unknown", &Bytes::new(70).to_string()),
            line("uplink timeouts", "2 time-outs"),
            line("fragments", "4 packets"),
            line("opaque quic bytes", &Bytes::new(1_200).to_string()),
        ] {
            assert!(lines.contains(&wanted), "{wanted} in {lines:#?}");
        }
        assert!(!lines.iter().any(|line| line.contains("acks made")), "what is zero is not shown");
    }

    #[test]
    fn an_ordinary_end_is_no_passing() {
        let [client, server] = ["10.1.0.2:5", "10.2.0.2:80"].map(|end| end.parse().unwrap());
        let line = |reason: &str| run::PassedLine { client, server, reason: reason.to_owned() };
        let list = FlowList { flows: Vec::new(), passed: ["closed", "mptcp"].map(line).to_vec() };
        let wanted = ["ended    10.1.0.2:5 10.2.0.2:80 closed", "passed   10.1.0.2:5 10.2.0.2:80 mptcp"];
        assert_eq!(flow_lines(&list, 200), wanted);
        let ended = PassReason::ALL.iter().filter(|reason| became(reason.name()) == "ended").count();
        assert_eq!((ended, became("a reason of another version")), (4, "passed"));
    }

    #[test]
    fn narrow_tables_leave_columns_out_and_no_limit_is_no_rate() {
        let mut flow = FlowLine {
            client: "10.1.0.2:5".parse().unwrap(),
            server: "10.2.0.2:80".parse().unwrap(),
            direction: "downlink".to_owned(),
            state: "accelerated".to_owned(),
            debt_bytes: 0,
            held_bytes: 0,
            in_flight_bytes: 0,
            srtt_us: None,
            client_window_bytes: 0,
            subscriber_rate_bps: Some(987_648_123),
            idle_ms: 0,
        };
        assert_eq!(flow_fields(&flow).last().unwrap(), "988 Mbit/s");
        let list = FlowList { flows: vec![flow.clone()], passed: Vec::new() };
        for (columns, has_held) in [(200, true), (80, false)] {
            let lines = flow_lines(&list, columns);
            assert!(lines.iter().all(|line| line.chars().count() <= columns), "{lines:?}");
            assert_eq!(lines[0].contains("held"), has_held, "{lines:?}");
            assert!(lines.iter().any(|line| line.contains("10.1.0.2:5") && line.contains("988 Mbit/s")));
        }
        for none in [None, Some(u64::MAX)] {
            flow.subscriber_rate_bps = none;
            assert_eq!(flow_fields(&flow).last().unwrap(), "-");
        }
    }
}
