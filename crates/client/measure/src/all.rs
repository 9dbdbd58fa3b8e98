//! [`all`]: one measurement after the other, one document, one page.
//!
//! A part that cannot be done is told in one line, and the others go on. [`parts`] is the list of them.

use io::IoError;
use maud::{Markup, PreEscaped, html};
use probe::Direction;
use serde::Serialize;
use serde_json::Value;
use units::Duration;

use crate::document::{Document, Figures, Measured};
use crate::error::MeasureError;
use crate::hops::{self, HopsPlan};
use crate::local::LocalPeer;
use crate::maker::Maker;
use crate::middlebox::{self, MiddleboxPlan};
use crate::rtt::{self, RttPlan};
use crate::session::{Session, Watcher};
use crate::sweep::{self, SweepPlan};
use crate::tcp::{self, TcpPlan};
use crate::timeout::{self, TimeoutPlan};
use crate::verdict::digits;

/// Name and version of the document; its schema is `schemas/probe-all.schema.json`.
pub const SCHEMA: &str = "cellerator/probe-all/1";

/// Time of a run beside its data: questions, the tail, a pause.
const RUN_MORE: Duration = Duration::from_millis(1_800);
/// The same of a TCP transfer.
const TRANSFER_MORE: Duration = Duration::from_secs(2);
/// Runs of a sweep that was given no rates.
const SWEEP_RUNS: u64 = 8;
/// Time of `middlebox` beside the delays.
const MIDDLEBOX_MORE: Duration = Duration::from_secs(10);
/// Looking for the way, of `hops`.
const WAY: Duration = Duration::from_secs(3);

/// Plan of all measurements.
#[derive(Debug)]
pub struct AllPlan {
    /// Names of the parts that are wanted, of [`NAMES`].
    pub wanted: Vec<String>,
    /// Of `rtt`.
    pub rtt: RttPlan,
    /// Of `sweep`.
    pub sweep: SweepPlan,
    /// Of `tcp`.
    pub tcp: TcpPlan,
    /// Of `middlebox`.
    pub middlebox: MiddleboxPlan,
    /// Of `hops`.
    pub hops: HopsPlan,
    /// Of `timeout`.
    pub timeout: TimeoutPlan,
}

/// Names of the parts, in their order.
pub const NAMES: [&str; 6] = ["rtt", "sweep", "tcp", "middlebox", "hops", "timeout"];

/// One measurement of all.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct PartRun {
    /// Name of the command.
    pub name: &'static str,
    /// Time that it took, s.
    pub seconds: f64,
    /// In plain words; none where nothing was measured.
    pub verdict: Option<String>,
    /// Reason why there is nothing, or not all; none of a part that is whole.
    pub error: Option<String>,
    /// The document of the command, with its own schema; none where nothing was measured.
    #[cfg_attr(feature = "schema", schemars(extend("type" = ["object", "null"])))]
    pub document: Option<Value>,
    #[serde(skip)]
    page: String,
}

/// Results of all measurements.
pub type AllDocument = Document<AllFigures>;

/// Figures of all measurements.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct AllFigures {
    /// Parts that were measured, in their order.
    pub parts: Vec<PartRun>,
}

/// Result of a part.
struct Done {
    document: Value,
    verdict: String,
    page: Markup,
    failure: Option<MeasureError>,
}

type Act<'p> = Box<dyn FnOnce(&mut Session<'_>, Maker, &mut dyn Watcher) -> Result<Done, MeasureError> + 'p>;

/// A part before it is measured.
struct Entry<'p> {
    name: &'static str,
    title: &'static str,
    expected: Duration,
    act: Act<'p>,
}

impl<'p> Entry<'p> {
    /// The part `name`, which `act` measures.
    fn new<F: Figures, E: Into<MeasureError>>(
        name: &'static str,
        title: &'static str,
        expected: Duration,
        act: impl FnOnce(&mut Session<'_>, Maker, &mut dyn Watcher) -> Result<Measured<F>, E> + 'p,
    ) -> Self {
        let act = |session: &mut Session<'_>, made_by: Maker, watcher: &mut dyn Watcher| {
            let (document, failure) = act(session, made_by, watcher).map_err(Into::into)?;
            Ok(Done {
                page: F::body(&document),
                // Of a document of ours nothing is lost: its keys are text.
                document: serde_json::to_value(&document).unwrap_or_default(),
                verdict: document.verdict,
                failure,
            })
        };
        Self { name, title, expected, act: Box::new(act) }
    }
}

fn loaded(plan: &RttPlan) -> Duration {
    let search = if plan.load_rate.is_some() { Duration::ZERO } else { plan.search_length + RUN_MORE };
    let ways = plan.loads.len() as u64;
    (plan.length + RUN_MORE) * (1 + ways) + search * ways
}

/// Every part there is.
fn parts<'p>(plan: &'p AllPlan, local: Option<LocalPeer<'p>>) -> Vec<Entry<'p>> {
    let ways = |directions: &[Direction]| directions.len() as u64;
    let sweep_runs = if plan.sweep.rates.is_empty() { SWEEP_RUNS } else { plan.sweep.rates.len() as u64 };
    let sweep_way = plan.sweep.search_length + RUN_MORE + (plan.sweep.length + RUN_MORE) * sweep_runs;
    let transfers = ways(&plan.tcp.directions) * u64::from(plan.tcp.repetitions);
    let silence = plan.timeout.silences.iter().copied().max().unwrap_or(Duration::ZERO);
    vec![
        Entry::new(
            "rtt",
            "Round trips, idle and under load",
            loaded(&plan.rtt),
            move |session, made_by, watcher| rtt::rtt_beside(session, &plan.rtt, local, made_by, watcher),
        ),
        Entry::new(
            "sweep",
            "UDP at several rates",
            sweep_way * ways(&plan.sweep.directions),
            |session, made_by, watcher| sweep::sweep(session, &plan.sweep, made_by, watcher),
        ),
        Entry::new(
            "tcp",
            "TCP",
            (plan.tcp.length + TRANSFER_MORE) * transfers,
            |session, made_by, watcher| tcp::tcp(session, &plan.tcp, made_by, watcher),
        ),
        Entry::new(
            "middlebox",
            "What stands in between",
            plan.middlebox.delay * 2 + MIDDLEBOX_MORE,
            |session, made_by, watcher| middlebox::middlebox(session, &plan.middlebox, made_by, watcher),
        ),
        Entry::new(
            "hops",
            "Where on the way packets wait",
            WAY + loaded(&plan.hops.rtt),
            |session, made_by, watcher| hops::hops(session, &plan.hops, made_by, watcher),
        ),
        Entry::new(
            "timeout",
            "How long idle flows are kept",
            silence + RUN_MORE * 2,
            |session, made_by, watcher| timeout::timeout(session, &plan.timeout, made_by, watcher),
        ),
    ]
}

/// A time as a person would say it.
fn about(time: Duration) -> String {
    match time.as_secs() {
        seconds @ 0..90 => format!("{seconds} s"),
        seconds => format!("{} min", seconds.div_ceil(60)),
    }
}

/// Measures all parts that are wanted, one after the other. What was measured is in the document, whatever
/// happens.
///
/// # Errors
/// Of the system only.
pub fn all(
    session: &mut Session<'_>,
    plan: &AllPlan,
    local: Option<LocalPeer<'_>>,
    made_by: &Maker,
    watcher: &mut dyn Watcher,
) -> Result<Measured<AllFigures>, IoError> {
    let mut entries = parts(plan, local);
    entries.retain(|entry| plan.wanted.iter().any(|name| name == entry.name));
    let count = entries.len();
    let mut left = entries.iter().fold(Duration::ZERO, |sum, entry| sum + entry.expected);
    let server = session.peer();
    let (mut parts, mut failure) = (Vec::new(), None);
    for (number, entry) in (1..).zip(entries) {
        let (name, title) = (entry.name, entry.title);
        watcher.say(&format!(
            "{number}/{count} {name}: about {}, all that is left {}",
            about(entry.expected),
            about(left)
        ));
        left -= entry.expected;
        let begin = io::Clock::now();
        // A part may have lost the session; the next one has its own.
        if session.id().is_none()
            && let Err(error) = session.reopen()
        {
            failure = Some(error);
            break;
        }
        // What the system refuses to one part it may give to the next.
        let came = (entry.act)(session, made_by.clone(), watcher);
        let seconds = io::Clock::now().saturating_since(begin).as_secs_f64();
        let mut part =
            PartRun { name, seconds, verdict: None, error: None, document: None, page: String::new() };
        match came {
            Ok(done) => {
                part.verdict = Some(done.verdict);
                part.document = Some(done.document);
                part.error = done.failure.as_ref().map(ToString::to_string);
                part.page = section(title, &done.page);
                if matches!(done.failure, Some(MeasureError::Interrupted)) {
                    failure = done.failure;
                }
            }
            Err(error) => {
                part.error = Some(error.to_string());
                failure = Some(error).filter(|error| matches!(error, MeasureError::Interrupted));
            }
        }
        if let Some(error) = part.error.as_ref().filter(|_| failure.is_none()) {
            watcher.say(&format!("{name}: {error}; the rest goes on"));
        }
        parts.push(part);
        if failure.is_some() {
            break;
        }
    }
    Ok(Document::of(made_by.clone(), server, AllFigures { parts }, failure))
}

/// The headings of a part's page stand one step lower in the page of all.
fn section(title: &str, page: &Markup) -> String {
    let lower = page.0.replace("<h2>", "<h3>").replace("</h2>", "</h3>");
    html! { h2 { (title) } (PreEscaped(lower)) }.into_string()
}

impl Figures for AllFigures {
    const SCHEMA: &'static str = SCHEMA;
    const TITLE: &'static str = "What this path is like";
    const PORT: &'static str = "port";

    /// Verdict of all parts together, in one sentence: each part has its own verdict below.
    fn verdict(document: &Document<Self>) -> String {
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

    fn summary(document: &Document<Self>, columns: usize) -> String {
        let mut text = String::new();
        for part in &document.parts {
            let told = match (&part.verdict, &part.error) {
                (Some(verdict), _) => verdict.clone(),
                (None, Some(error)) => format!("could not be measured: {error}"),
                (None, None) => "nothing was measured".to_owned(),
            };
            text += &format!("\n  {} ({:.0} s)\n", part.name, part.seconds);
            for line in figures::wrapped(&told, columns.saturating_sub(4)) {
                text += &format!("    {line}\n");
            }
        }
        text
    }

    fn body(document: &Document<Self>) -> Markup {
        html! {
            @for part in &document.parts {
                @if part.page.is_empty() { h2 { (part.name) } }
                (PreEscaped(part_head(part)))
            }
        }
    }
}

/// Heading, verdict and figures of a part.
fn part_head(part: &PartRun) -> String {
    let verdict =
        part.verdict.as_ref().map(|verdict| html! { p class="finding" { (verdict) } }.into_string());
    let error = part
        .error
        .as_ref()
        .map(|error| html! { p class="finding warning" { "Not complete: " (error) } }.into_string());
    let told = verdict.unwrap_or_default() + &error.unwrap_or_default();
    match part.page.split_once("</h2>") {
        Some((heading, rest)) => format!("{heading}</h2>{told}{rest}"),
        None => told,
    }
}

/// A verdict up to the end of its first sentence.
fn first_sentence(verdict: &str) -> String {
    verdict.split_once(". ").map_or_else(|| verdict.to_owned(), |(first, _)| format!("{first}."))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn document() -> AllDocument {
        let part = |name, verdict: Option<&str>, error: Option<&str>| PartRun {
            name,
            seconds: 12.3,
            verdict: verdict.map(str::to_owned),
            error: error.map(str::to_owned),
            document: None,
            page: verdict.map_or_else(String::new, |_| section("Title", &html! { h2 { "Inner" } "<" })),
        };
        let parts = vec![part("rtt", Some("Fast."), None), part("tcp", None, Some("wrong key"))];
        AllDocument { verdict: "All is well.".to_owned(), ..Document::made_up(AllFigures { parts }) }
    }

    #[test]
    fn the_page_begins_with_the_verdict_and_each_part_with_its_own() {
        let page = document().page();
        let body = page.split_once("</h1>").unwrap().1;
        assert!(body.starts_with("<p class=\"finding\">All is well.</p>"), "{body}");
        assert!(body.contains("<h2>Title</h2><p class=\"finding\">Fast.</p><h3>Inner</h3>&lt;"), "{body}");
        assert!(
            body.contains("<h2>tcp</h2><p class=\"finding warning\">Not complete: wrong key</p>"),
            "{body}"
        );
    }

    #[test]
    fn the_summary_tells_what_could_not_be_measured_in_one_line() {
        let text = document().summary(60);
        assert!(text.starts_with("All is well.\n"));
        assert!(text.contains("  rtt (12 s)\n    Fast.\n"), "{text}");
        assert!(text.contains("  tcp (12 s)\n    could not be measured: wrong key\n"), "{text}");
    }
}
