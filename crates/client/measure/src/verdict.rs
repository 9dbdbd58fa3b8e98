//! What a person would say to the operator.

use probe::{BufferKind, RunFigures};
use serde_json::Value;

use crate::all::AllDocument;
use crate::compare::Comparison;
use crate::hops::{Growth, HopsDocument, HopsPhase};
use crate::middlebox::{MiddleboxDocument, Outcome};
use crate::middlebox_page::{Group, groups, question};
use crate::record::{RecordDocument, RecordedWay};
use crate::rtt::{Phase, RttDocument};
use crate::sweep::{DirectionFigures, SweepDocument};
use crate::tcp::{TcpDocument, TcpRow};
use crate::timeout::TimeoutDocument;

/// Losses below this are not spoken of, per cent.
const LOSS_TOLD: f64 = 0.1;

fn way(direction: &str) -> &'static str {
    if direction == "up" { "Upload" } else { "Download" }
}

pub(crate) fn of_sweep(document: &SweepDocument) -> String {
    let sentences: Vec<String> = document.directions.iter().map(of_direction).collect();
    let told = sentences.concat();
    match (&document.incomplete, told.trim()) {
        (Some(why), "") => format!("Nothing was measured: {why}."),
        (Some(why), told) => format!("{told} Not complete: {why}."),
        (None, "") => "Nothing was measured.".to_owned(),
        (None, told) => told.to_owned(),
    }
}

fn of_direction(figures: &DirectionFigures) -> String {
    let way = way(figures.direction);
    if let Some(longest) = figures.longest_packet_bytes {
        let packet = figures.search.iter().chain(&figures.steps).map(|step| step.figures.packet_bytes).max();
        return format!(
            "{way}: packets of {} bytes do not come through, and those of up to {longest} do: that is the path's MTU \
             (try --packet {longest}). ",
            packet.unwrap_or(0)
        );
    }
    let Some(capacity) = &figures.capacity else {
        let doubted = figures.steps.iter().chain(&figures.search).any(|step| !step.figures.is_valid);
        let why = if doubted { "no run can be trusted" } else { "no run lasted a second" };
        return format!("{way}: {why}. ");
    };
    let least = if capacity.is_least { "at least " } else { "" };
    let mut text = format!("{way}: the path carries {least}{} Mbit/s", digits(capacity.mbps));
    let first = figures.steps.first().map(|step| &step.figures);
    let worst = figures.steps.last().map(|step| &step.figures).filter(|_| !capacity.is_least);
    match (figures.knee_mbps, worst, first) {
        (Some(knee), Some(worst), _) => text += &above(knee, worst, figures.random_loss_percent),
        (None, Some(_), Some(first)) => {
            text += &format!("; already at {} Mbit/s packets wait or are lost", digits(first.rate_mbps));
        }
        _ => {}
    }
    if figures.random_loss_percent >= LOSS_TOLD {
        let most = first.and_then(|first| first.burst_lengths.keys().last().copied()).unwrap_or(0);
        text += &format!(
            ". {} % of the packets are lost at random, at whatever rate, up to {most} in a row",
            digits(figures.random_loss_percent)
        );
    }
    let moves = figures.search.iter().chain(&figures.steps).map(|step| step.figures.address_moves).max();
    text += &moved(moves.unwrap_or(0));
    let doubtful = figures.steps.iter().filter(|step| !step.figures.is_valid).count();
    if doubtful > 0 {
        text += &format!(". {doubtful} of {} runs cannot be trusted", figures.steps.len());
    }
    text + ". "
}

/// What happens to packets at rates above the knee.
fn above(knee: f64, worst: &RunFigures, random_percent: f64) -> String {
    let mut text = format!("; above {} Mbit/s packets", digits(knee));
    let delay = worst.delay_variation.map_or(0.0, |delay| delay.p95_ms);
    let waits = format!(" wait, for {} at {} Mbit/s", time(delay), digits(worst.rate_mbps));
    let lost = (worst.loss_percent.unwrap_or(0.0) - random_percent).max(0.0);
    text += &match (delay >= crate::sweep::KNEE_DELAY_MS, lost >= LOSS_TOLD) {
        (true, true) => format!("{waits}, and {} % of them are lost", digits(lost)),
        (true, false) => format!("{waits}, and none is lost"),
        (false, true) => format!(" are lost: {} % at {} Mbit/s", digits(lost), digits(worst.rate_mbps)),
        (false, false) => format!(
            " wait or are lost at some rates, and not at {} Mbit/s: what the path carries changes",
            digits(worst.rate_mbps)
        ),
    };
    text
}

/// That the client's address has changed, as often as it did.
fn moved(moves: u16) -> String {
    match moves {
        0 => String::new(),
        1 => ". The client's address changed once on the way: a NAT has forgotten it".to_owned(),
        _ => format!(". The client's address changed {moves} times on the way: a NAT forgets it"),
    }
}

/// Three digits, no more.
pub(crate) fn digits(value: f64) -> String {
    match value.abs() {
        0.0 => "0".to_owned(),
        v if v < 0.995 => format!("{value:.2}"),
        v if v < 99.5 => format!("{value:.1}"),
        _ => format!("{value:.0}"),
    }
}

fn time(ms: f64) -> String {
    match ms {
        0.0..9.95 => format!("{} ms", digits(ms)),
        9.95..1_000.0 => format!("{ms:.0} ms"),
        _ => format!("{:.1} s", ms / 1e3),
    }
}

pub(crate) fn of_rtt(document: &RttDocument) -> String {
    let of = |load: &str| document.phases.iter().find(|phase| phase.load == load);
    let mut text = match of("idle").and_then(|idle| idle.rtt) {
        Some(rtt) => format!("Idle, an answer takes {}", time(rtt.p50_ms)),
        None if document.phases.is_empty() => "Nothing was measured".to_owned(),
        None => "Nothing came back".to_owned(),
    };
    for (load, doing) in [("down", "downloading"), ("up", "uploading")] {
        if let Some((rtt, phase)) = of(load).and_then(|phase| phase.rtt.map(|rtt| (rtt, phase))) {
            let per_minute = phase.round_trips_per_minute.unwrap_or(0.0);
            text += &format!("; while {doing}, {} ({per_minute:.0} round trips a minute)", time(rtt.p50_ms));
        }
    }
    let idle = of("idle").and_then(|idle| idle.rtt).map_or(0.0, |rtt| rtt.p50_ms);
    let loaded = || document.phases.iter().filter(|phase| phase.load != "idle");
    let is_filled = loaded().any(Phase::is_filled);
    if let Some(worst) = loaded().filter_map(|phase| phase.rtt).map(|rtt| rtt.p50_ms).max_by(f64::total_cmp) {
        text += match worst - idle {
            extra if extra < 30.0 && !is_filled => {
                ". The load was no more than the path carries, so what a full queue does was not seen"
            }
            extra if extra < 30.0 => ". Load does not disturb calls and games",
            extra if extra < 200.0 => ". Calls and games suffer somewhat under load",
            _ => ". Calls and games are unusable while the link is busy: its buffer is too deep",
        };
    }
    text += &of_local(&document.phases);
    text += &moved(document.phases.iter().map(|phase| phase.address_moves).max().unwrap_or(0));
    if let Some(text_of) = outages(&document.phases) {
        text += &text_of;
    }
    if let Some(why) = &document.incomplete {
        text += &format!(". Not complete: {why}");
    }
    text + "."
}

pub(crate) fn of_record(document: &RecordDocument) -> String {
    let way = |way: &RecordedWay| {
        let record = &way.record;
        let queue = match record.buffer {
            Some(buffer) => match (buffer.kind, buffer.high_bytes) {
                (BufferKind::Plateau, Some(high)) => format!(
                    ", and its queue holds {} KB ({} to {})",
                    digits(buffer.bytes as f64 / 1e3),
                    digits(buffer.low_bytes as f64 / 1e3),
                    digits(high as f64 / 1e3)
                ),
                (BufferKind::Spread, Some(high)) => format!(
                    ", and drops packets when {} to {} KB wait",
                    digits(buffer.low_bytes as f64 / 1e3),
                    digits(high as f64 / 1e3)
                ),
                _ => format!(", and its queue holds more than {} KB", digits(buffer.bytes as f64 / 1e3)),
            },
            None => String::new(),
        };
        format!(
            "{}: {:.0} s recorded, in which the path carried {} Mbit/s on average{queue}. ",
            self::way(record.direction),
            record.seconds,
            digits(record.mean_mbps)
        )
    };
    let mut text: String = document.ways.iter().map(way).collect();
    let doubtful = document.ways.iter().filter(|way| !way.doubts.is_empty()).count();
    if doubtful > 0 {
        text += &format!("{doubtful} of {} ways cannot be trusted. ", document.ways.len());
    }
    if let Some(ms) = document.round_trip_ms {
        text += &format!("An answer takes at least {}. ", time(ms));
    }
    match (&document.incomplete, text.trim()) {
        (Some(why), "") => format!("Nothing was recorded: {why}."),
        (Some(why), told) => format!("{told} Not complete: {why}."),
        (None, "") => "Nothing was recorded: no packet came through.".to_owned(),
        (None, told) => told.to_owned(),
    }
}

pub(crate) fn of_hops(document: &HopsDocument) -> String {
    let mut text = match document.hops.len() {
        0 => String::new(),
        1 => "The server is the next hop. ".to_owned(),
        count => format!("The server is {count} hops away. "),
    };
    if document.is_filtered {
        text += "No router on the way answers: ICMP is filtered, so the place of the queue cannot be told. ";
    }
    for phase in document.phases.iter().filter(|phase| phase.load != "idle") {
        let doing = if phase.load == "up" { "uploading" } else { "downloading" };
        text += &match &phase.growth {
            Some(growth) => format!("While {doing}, {} ", of_growth(growth, phase.load)),
            None if is_known(document, phase) => format!("While {doing}, no queue grows. "),
            None => format!(
                "While {doing}, too few packets came back from the server to tell where they wait: try more --time. "
            ),
        };
    }
    match (&document.incomplete, text.trim()) {
        (Some(why), "") => format!("Nothing was measured: {why}."),
        (Some(why), told) => format!("{told} Not complete: {why}."),
        (None, told) => told.to_owned(),
    }
}

/// True where the server answered without load and under this one.
fn is_known(document: &HopsDocument, phase: &HopsPhase) -> bool {
    let has_answers = |phase: &HopsPhase| phase.hops.last().is_some_and(|hop| hop.rtt.is_some());
    document.phases.iter().any(|phase| phase.load == "idle" && has_answers(phase)) && has_answers(phase)
}

/// The queue is in front of the slow link: on the way down in the router behind it.
fn of_growth(growth: &Growth, load: &str) -> String {
    let behind = match &growth.address {
        Some(address) => format!("hop {} ({address})", growth.hop),
        None => format!("hop {} (the server)", growth.hop),
    };
    let before = match growth.after_hop {
        0 => "this machine".to_owned(),
        hop => format!("hop {hop}"),
    };
    let is_next = growth.after_hop + 1 == growth.hop;
    let place = match (is_next, load) {
        (true, "up") => format!(": {before} has the queue"),
        (true, _) => format!(": {behind} has the queue"),
        (false, _) => " (the hops between do not answer)".to_owned(),
    };
    format!("packets wait {} more between {before} and {behind}{place}.", time(growth.ms))
}

/// A verdict up to the end of its first sentence.
fn first_sentence(verdict: &str) -> String {
    verdict.split_once(". ").map_or_else(|| verdict.to_owned(), |(first, _)| format!("{first}."))
}

/// What all parts together say, in one sentence: each part has its own verdict below.
pub(crate) fn of_all(document: &AllDocument) -> String {
    let of = |name: &str| {
        document.parts.iter().find(|part| part.name == name).and_then(|part| part.document.as_ref())
    };
    let mut sentences = Vec::new();
    let mut numbers = Vec::new();
    for direction in ["down", "up"] {
        let is_own = |value: &&Value| value["direction"] == direction;
        let find = |name: &str, list: &str| {
            of(name).and_then(|document| document[list].as_array()?.iter().find(is_own).cloned())
        };
        let tcp = find("tcp", "rows").and_then(|row| row["bandwidth_mbps"]["mean"].as_f64());
        let capacity = find("sweep", "directions").and_then(|row| row["capacity"]["mbps"].as_f64());
        let rates: Vec<String> = [("TCP gets", tcp), ("the path carries", capacity)]
            .into_iter()
            .filter_map(|(name, mbps)| Some(format!("{name} {} Mbit/s", digits(mbps?))))
            .collect();
        if !rates.is_empty() {
            numbers.push(format!("{direction}, {}", rates.join(" and ")));
        }
    }
    if let Some(first) = numbers.first_mut() {
        *first = first.replacen("down,", "Down,", 1).replacen("up,", "Up,", 1);
        sentences.push(format!("{}.", numbers.join("; ")));
    }
    if sentences.is_empty() {
        let first = document.parts.iter().find_map(|part| part.verdict.as_deref());
        sentences.extend(first.map(first_sentence));
    }
    let failed: Vec<&str> =
        document.parts.iter().filter(|part| part.error.is_some()).map(|part| part.name).collect();
    if !failed.is_empty() {
        sentences.push(format!("Not or not wholly measured: {}.", failed.join(", ")));
    }
    if let Some(why) = &document.incomplete {
        sentences.push(format!("Not complete: {why}."));
    }
    if sentences.is_empty() { "Nothing was measured.".to_owned() } else { sentences.join(" ") }
}

pub(crate) fn of_comparison(comparison: &Comparison) -> String {
    let joined = |parts: Vec<String>| parts.join(", ");
    let mut sentences = Vec::new();
    let idle = comparison.round_trips.iter().filter(|row| row.load == "idle");
    let trips = idle.filter_map(|row| Some(format!("{} ({})", time(row.p50_ms?), row.environment)));
    let trips: Vec<String> = trips.collect();
    if !trips.is_empty() {
        sentences.push(format!("Idle, an answer takes {}.", joined(trips)));
    }
    for direction in ["down", "up"] {
        let rows = comparison.capacities.iter().filter(|row| row.direction == direction);
        let carried =
            rows.filter_map(|row| Some(format!("{} ({})", digits(row.capacity_mbps?), row.environment)));
        let carried: Vec<String> = carried.collect();
        if !carried.is_empty() {
            sentences.push(format!("{} capacity in Mbit/s: {}.", way(direction), joined(carried)));
        }
        let rows = comparison.transfers.iter().filter(|row| row.direction == direction);
        let got = rows.filter_map(|row| {
            let settings =
                if row.settings.is_empty() { String::new() } else { format!(", {}", row.settings) };
            Some(format!("{} ({}{settings})", digits(row.bandwidth_mbps?), row.environment))
        });
        let got: Vec<String> = got.collect();
        if !got.is_empty() {
            sentences.push(format!("{} by TCP in Mbit/s: {}.", way(direction), joined(got)));
        }
    }
    if sentences.is_empty() { "There is nothing to compare.".to_owned() } else { sentences.join(" ") }
}

pub(crate) fn of_timeout(document: &TimeoutDocument) -> String {
    let mut text = String::new();
    for bindings in &document.bindings {
        let name = bindings.protocol.to_uppercase();
        let seconds = |s: f64| time(s * 1e3);
        text += &match (bindings.lived_s, bindings.died_s) {
            (Some(lived), Some(died)) => format!(
                "{name}: the path forgets an idle flow after {} to {}; send something every {}. ",
                seconds(lived),
                seconds(died),
                seconds(bindings.keep_alive_s.unwrap_or(lived))
            ),
            (Some(lived), None) => format!(
                "{name}: an idle flow still works after {}, the longest silence that was tried. ",
                seconds(lived)
            ),
            (None, Some(died)) => format!(
                "{name}: the path forgets an idle flow before {}, the shortest silence that was tried. ",
                seconds(died)
            ),
            (None, None) => format!("{name}: nothing was learned. "),
        };
    }
    if let Some(why) = &document.incomplete {
        text += &format!("Not complete: {why}.");
    }
    text.trim().to_owned()
}

/// Findings that are named; of more the table below tells.
const NAMED_MAX: usize = 3;

/// One sentence: what is blocked and splitting first, then what else was found, with its ports where not all have it.
pub(crate) fn of_middlebox(document: &MiddleboxDocument) -> String {
    let all = groups(&document.findings);
    let tested: std::collections::BTreeSet<u16> = document
        .findings
        .iter()
        .filter(|finding| !["refused-port", "reachable"].contains(&finding.test))
        .map(|finding| finding.port)
        .collect();
    let at = |group: &Group<'_>| {
        let ports = group.ports().replace(' ', ", ");
        match group.findings.len() {
            1 => format!("at port {ports}"),
            count if count == tested.len() => format!("at all {count} ports"),
            _ => format!("at ports {ports}"),
        }
    };
    let of = |test: &'static str, outcome: Outcome| {
        all.iter().filter(move |group| (group.test, group.outcome) == (test, outcome))
    };
    let mut clauses = Vec::new();
    clauses.extend(of("reachable", Outcome::Found).map(|group| {
        let (word, verb) = if group.findings.len() == 1 { ("port", "is") } else { ("ports", "are") };
        let how = group.verdict.strip_prefix("blocked").unwrap_or_default();
        format!("{word} {} {verb} blocked on the way{how}", group.ports().replace(' ', ", "))
    }));
    clauses.extend(of("split", Outcome::Found).map(|group| {
        format!(
            "connections are split {}: something in between acknowledges data before this machine does",
            at(group)
        )
    }));
    clauses.extend(of("split", Outcome::Clear).map(|group| {
        let doubt = group.verdict.strip_prefix("not split").unwrap_or_default();
        format!("connections are whole, not split, {}{doubt}", at(group))
    }));
    clauses.extend(
        of("split", Outcome::Unknown)
            .map(|group| format!("whether connections are split is not known {}", at(group))),
    );
    let is_other = |group: &&Group<'_>| !["split", "reachable"].contains(&group.test);
    let others: Vec<&Group<'_>> =
        all.iter().filter(is_other).filter(|group| group.outcome == Outcome::Found).collect();
    if !others.is_empty() {
        clauses.push(format!("changed on the way: {}", changed(&others, at)));
    } else if all.iter().filter(is_other).any(|group| group.outcome == Outcome::Clear) {
        clauses.push("nothing else that was tested is changed on the way".to_owned());
    }
    if clauses.is_empty() {
        clauses.push("nothing was learned".to_owned());
    }
    clauses.extend(document.incomplete.as_ref().map(|why| format!("not complete: {why}")));
    sentence(&clauses)
}

/// Names of what is changed, each with its ports where they differ; what exactly is in the table.
fn changed(others: &[&Group<'_>], at: impl Fn(&Group<'_>) -> String) -> String {
    let mut names: Vec<(&str, String)> = Vec::new();
    for group in others {
        let name = question(group.test).trim_end_matches('?');
        match names.iter_mut().find(|(other, _)| *other == name) {
            Some((_, places)) => *places = format!("{places} and {}", at(group)),
            None => names.push((name, at(group))),
        }
    }
    let (first, rest) = names.split_at(names.len().min(NAMED_MAX));
    let is_same = first.iter().all(|(_, place)| Some(place) == first.first().map(|(_, place)| place));
    let named: Vec<String> = first
        .iter()
        .map(|(name, place)| if is_same { (*name).to_owned() } else { format!("{name} ({place})") })
        .collect();
    let place = names.first().filter(|_| is_same).map_or(String::new(), |(_, place)| format!(" {place}"));
    match rest.len() {
        0 => format!("{}{place}", named.join(", ")),
        more => format!("{}{place}, and {more} more", named.join(", ")),
    }
}

/// Clauses as one sentence.
fn sentence(clauses: &[String]) -> String {
    let text = clauses.join("; ");
    let mut letters = text.chars();
    let first = letters.next().map(|letter| letter.to_uppercase().to_string()).unwrap_or_default();
    format!("{first}{}.", letters.as_str())
}

/// One sentence: what TCP gets each way, and what held most of the transfers back.
pub(crate) fn of_tcp(document: &TcpDocument) -> String {
    let mut clauses: Vec<String> =
        ["down", "up"].into_iter().filter_map(|direction| of_tcp_way(document, direction)).collect();
    if clauses.is_empty() {
        let why = document.incomplete.as_ref().map_or(String::new(), |why| format!(": {why}"));
        return format!("Nothing was measured{why}.");
    }
    clauses.extend(document.incomplete.as_ref().map(|why| format!("not complete: {why}")));
    sentence(&clauses)
}

fn of_tcp_way(document: &TcpDocument, direction: &'static str) -> Option<String> {
    let name = way(direction).to_lowercase();
    let measured = document.rows.iter().filter(|row| row.settings.direction == direction);
    let measured: Vec<(&TcpRow, f64)> =
        measured.filter_map(|row| Some((row, row.bandwidth_mbps?.mean))).collect();
    let [(row, mbps)] = measured[..] else {
        let least = measured.iter().min_by(|a, b| a.1.total_cmp(&b.1))?;
        let most = measured.iter().max_by(|a, b| a.1.total_cmp(&b.1))?;
        let runs = document.runs.iter().filter(|run| run.settings.direction == direction);
        let by: std::collections::BTreeSet<&str> = runs.map(|run| run.limit.by).collect();
        return Some(format!(
            "{name}: TCP gets {} ({}) to {} Mbit/s ({}), limited by the {}",
            digits(least.1),
            with_words(least.0),
            digits(most.1),
            with_words(most.0),
            by.into_iter().collect::<Vec<_>>().join(", ")
        ));
    };
    // What limited the most of them speaks for all.
    let own = || document.runs.iter().filter(|run| run.settings == row.settings);
    let most = own().find(|run| own().filter(|other| other.limit.by == run.limit.by).count() * 2 > row.runs);
    let by = match most {
        Some(run) if ["receive window", "loss", "application"].contains(&run.limit.by) => {
            format!("held back by {}", run.limit.why)
        }
        _ => limits(&row.limited_by),
    };
    let words = row.settings.words();
    let with = if words.is_empty() { String::new() } else { format!(" with {words}") };
    Some(format!("{name}{with}: TCP gets {} Mbit/s, {by}", digits(mbps)))
}

fn with_words(row: &TcpRow) -> String {
    let words = row.settings.words();
    if words.is_empty() { "as it is".to_owned() } else { words }
}

/// What limited the transfers of a row, in words: `network 6×` as all, `network 4×, sender 2×` as some.
fn limits(by: &str) -> String {
    match by.rsplit_once(' ') {
        Some((only, _)) if !by.contains(',') => format!("limited by the {only}"),
        _ => format!("limited by: {by}"),
    }
}

/// What a local peer tells: who adds the delay.
fn of_local(phases: &[Phase]) -> String {
    /// Of what a load adds: from here on it is (nearly) all.
    const MOST: f64 = 0.7;
    let of = |phase: &Phase| Some((phase.rtt?.p50_ms, phase.local.as_ref()?.rtt?.p50_ms));
    let Some((idle, idle_local)) = phases.iter().find(|phase| phase.load == "idle").and_then(of) else {
        return String::new();
    };
    let mut text = format!(". Of the idle {}, {} are of the local network", time(idle), time(idle_local));
    let added = |phase: &Phase| of(phase).map(|(whole, local)| (whole - idle, local - idle_local));
    let worst = phases.iter().filter(|phase| phase.load != "idle").filter_map(added);
    if let Some((whole, local)) = worst.max_by(|a, b| a.0.total_cmp(&b.0)).filter(|(whole, _)| *whole >= 10.0)
    {
        let share = local / whole;
        text += &format!(", and of the {} that load adds, {}", time(whole), time(local.max(0.0)));
        text += match share {
            share if share >= MOST => ": packets wait in the local network (Wi-Fi), not at the operator",
            share if share <= 1.0 - MOST => ": packets wait beyond the local network, at the operator",
            _ => ": packets wait both in the local network and beyond it",
        };
    }
    text
}

fn outages(phases: &[Phase]) -> Option<String> {
    let idle = phases.iter().find(|phase| phase.load == "idle")?;
    let longest = idle.outages.iter().map(|outage| outage.seconds).max_by(f64::total_cmp)?;
    let count = idle.outages.len();
    Some(format!(". Idle, the path was interrupted {count} times, for up to {}", time(longest * 1e3)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_as_long_as_they_are_good() {
        let all = [0.0, 0.034, 0.5, 4.06, 23.44, 812.0].map(digits);
        assert_eq!(all, ["0", "0.03", "0.50", "4.1", "23.4", "812"]);
        assert_eq!([time(0.07), time(41.2), time(1_466.0)], ["0.07 ms", "41 ms", "1.5 s"]);
    }
}
