//! The pictures of what the owner of a server may expect of `cellerator congestion load`: a download against time,
//! radios and round trips, pages. Every number of their words comes from the result files.

use figures::chart::{Axis, Chart, Ink, Mark, Point, Range, Series};
use serde_json::Value;

/// A picture of a document.
pub struct Picture {
    pub name: &'static str,
    /// Its title is what is seen.
    pub chart: Chart,
    /// What stands below it.
    pub text: String,
}

/// Whether documents keep what a run had over time.
pub fn is_drawn(trace: &str, scheme: &str) -> bool {
    trace == DOWNLOAD && [CUBIC, BBR, OWN].iter().any(|control| control.scheme == scheme)
}

/// The trace whose download is drawn against time, and the bins of its results that are one point.
pub const DOWNLOAD: &str = "4g-lte";
const BINS: usize = 4;

/// A congestion control: what it is called in contests and on pages, its name, and how it looks everywhere.
struct Control {
    scheme: &'static str,
    page: &'static str,
    name: &'static str,
    ink: Ink,
}

const CUBIC: Control =
    Control { scheme: "direct:cubic", page: "cubic", name: "CUBIC", ink: Ink::Dashed(1, 1) };
const BBR: Control = Control { scheme: "direct:bbr", page: "bbr", name: "BBR", ink: Ink::Dashed(3, 2) };
const OWN: Control =
    Control { scheme: "kernel:adaptive", page: "adaptive", name: "adaptive", ink: Ink::Colour(0) };

fn array<'a>(value: &'a Value, name: &str) -> &'a [Value] {
    value[name].as_array().unwrap_or_else(|| panic!("no {name}"))
}

fn numbers(value: &Value, name: &str) -> Vec<f64> {
    array(value, name).iter().map(|number| number.as_f64().unwrap()).collect()
}

fn named<'a>(all: &'a [Value], key: &str, name: &str) -> &'a Value {
    all.iter().find(|one| one[key] == name).unwrap_or_else(|| panic!("no {key} {name}"))
}

fn made_by(document: &Value) -> String {
    document["made_by"]["command"].as_str().unwrap_or("make docs-congestion-pages").to_owned()
}

/// The only run of a trace with this control.
fn run<'a>(contest: &'a Value, trace: &str, control: &Control) -> &'a Value {
    let is_it = |run: &&Value| run["trace"] == trace && run["scheme"] == control.scheme;
    array(contest, "runs").iter().find(is_it).unwrap_or_else(|| panic!("no {} on {trace}", control.scheme))
}

fn used_percent(run: &Value) -> f64 {
    100.0 * run["utilisation"].as_f64().unwrap()
}

fn queue_p95_ms(run: &Value) -> f64 {
    run["queue_ms"]["p95"].as_f64().unwrap()
}

/// The whole round trip of the empty path.
fn round_trip_ms(contest: &Value) -> f64 {
    contest["path"]["wan_rtt_ms"].as_f64().unwrap() + contest["path"]["radio_rtt_ms"].as_f64().unwrap()
}

/// From the least to the largest, with so many decimals.
fn span(values: impl IntoIterator<Item = f64>, decimals: usize) -> String {
    let (least, largest) = ends(values);
    let [least, largest] = [least, largest].map(|value| format!("{value:.decimals$}"));
    if least == largest { least } else { format!("{least} to {largest}") }
}

fn ends(values: impl IntoIterator<Item = f64>) -> (f64, f64) {
    let ends = (f64::INFINITY, f64::NEG_INFINITY);
    values.into_iter().fold(ends, |(low, high), value| (low.min(value), high.max(value)))
}

/// Rates and queues of one download against time.
pub fn download(contest: &Value) -> Picture {
    let of = |control: &Control| run(contest, DOWNLOAD, control);
    let trace = named(array(contest, "traces"), "trace", DOWNLOAD);
    let second = BINS as f64 * of(&OWN)["series"]["bin_ms"].as_f64().unwrap() * 1e-3;
    let mean = |values: &[f64]| values.iter().sum::<f64>() / values.len() as f64;
    let binned = |name: &str, ink, mark, values: &[f64]| {
        Series::of_bins(name, ink, mark, second, values.chunks(BINS).map(|bin| Some(mean(bin))))
    };
    let rate = |control: &Control| {
        let values = numbers(&of(control)["series"], "throughput_mbps");
        binned(control.name, control.ink, Mark::Line, &values)
    };
    // Over all that left in the time, which each bin's rate is in proportion to.
    let queue = |control: &Control| {
        let series = &of(control)["series"];
        let (rates, queues) = (numbers(series, "throughput_mbps"), numbers(series, "queue_ms"));
        let waited = rates.chunks(BINS).zip(queues.chunks(BINS)).map(|(rates, queues)| {
            let sum: f64 = rates.iter().sum();
            (sum > 0.0).then(|| rates.iter().zip(queues).map(|(rate, queue)| rate * queue).sum::<f64>() / sum)
        });
        Series::of_bins(control.name, control.ink, Mark::Line, second, waited)
    };
    let all = [&CUBIC, &BBR, &OWN];
    let capacity =
        binned("what the link can carry", Ink::Limit, Mark::Ground, &numbers(trace, "capacity_mbps"));
    let figures = |figure: fn(&Value) -> f64| [&OWN, &BBR, &CUBIC].map(|control| figure(of(control)));
    let [own, bbr, cubic] = figures(queue_p95_ms);
    let title = format!(
        "One download over LTE: 95 % of packets wait at most {own:.0} ms with adaptive, {bbr:.0} with BBR, \
         {cubic:.0} with CUBIC"
    );
    let rtt = round_trip_ms(contest);
    let [own, bbr, cubic] = figures(used_percent);
    let pings = figures(|run| run["ping_ms"]["p95"].as_f64().unwrap());
    let text = format!(
        "`adaptive` uses {own:.1} % of the link, BBR {bbr:.1} and CUBIC {cubic:.1}. Whatever else the device does waits in \
         the same queue: 95 % of its pings came back within {:.0} ms with `adaptive`, {:.0} with BBR, {:.0} with CUBIC, and \
         {:.0} on the idle link. Simulated: `{DOWNLOAD}`, a round trip of {rtt:.0} ms, a queue of {}, means over {second} s.",
        pings[0],
        pings[1],
        pings[2],
        trace["idle_ping_ms"]["p95"].as_f64().unwrap(),
        of(&OWN)["buffer"].as_str().unwrap(),
    );
    let chart = Chart {
        made_by: made_by(contest),
        is_named_at_ends: true,
        ..Chart::new(&title, Axis::exact("time, s"))
    }
    .panel(Axis::linear("Throughput, Mbit/s"), [capacity].into_iter().chain(all.map(rate)).collect())
    .panel(Axis::log("Queueing delay, ms, logarithmic"), all.map(queue).into());
    Picture { name: "vps-download", chart, text }
}

/// How far from the middle of a radio's place its shortest and longest round trip stand.
const ASIDE: f64 = 0.3;

/// Use and queue on all radios, over the round trips of these contests, which rise.
pub fn radios(contests: &[Value]) -> Picture {
    let mut traces: Vec<&str> =
        array(&contests[0], "traces").iter().map(|trace| trace["trace"].as_str().unwrap()).collect();
    let mbps =
        |name: &str| named(array(&contests[0], "traces"), "trace", name)["mean_mbps"].as_f64().unwrap();
    traces.sort_by(|a, b| mbps(a).total_cmp(&mbps(b)));
    let step = 2.0 * ASIDE / (contests.len() - 1) as f64;
    let line = |control: &Control, figure: fn(&Value) -> f64| {
        let points = traces.iter().enumerate().flat_map(|(place, trace)| {
            let at = move |number: usize| place as f64 + 1.0 - ASIDE + step * number as f64;
            let own = contests
                .iter()
                .enumerate()
                .map(move |(number, contest)| Point::new(at(number), figure(run(contest, trace, control))));
            // No line leads from one radio to the next.
            own.chain([Point::new(at(contests.len()), f64::NAN)])
        });
        Series::new(control.name, control.ink, Mark::Dotted, points)
    };
    let places: Vec<(&Value, &str)> =
        contests.iter().flat_map(|contest| traces.iter().map(move |trace| (contest, *trace))).collect();
    let each = |control: &'static Control, figure: fn(&Value) -> f64| {
        places.iter().map(move |(contest, trace)| figure(run(contest, trace, control)))
    };
    let over = each(&OWN, queue_p95_ms).zip(each(&BBR, queue_p95_ms)).map(|(own, other)| own / other);
    let title = format!(
        "Five radios: adaptive uses {} % of the link, BBR {}, CUBIC {}; adaptive's queue is {} times BBR's",
        span(each(&OWN, used_percent), 1),
        span(each(&BBR, used_percent), 1),
        span(each(&CUBIC, used_percent), 1),
        span(over, 2),
    );
    let where_of = |is_there: &dyn Fn(&Value, &str) -> bool| {
        let there = places.iter().filter(|(contest, trace)| is_there(contest, trace));
        let there =
            there.map(|(contest, trace)| format!("on `{trace}` over {:.0} ms", round_trip_ms(contest)));
        let there: Vec<String> = there.collect();
        if there.is_empty() { "nowhere".to_owned() } else { there.join(", ") }
    };
    let is_longer = |other: &'static Control| {
        where_of(&|contest, trace| {
            queue_p95_ms(run(contest, trace, &OWN)) >= queue_p95_ms(run(contest, trace, other))
        })
    };
    let less = |other: &'static Control| {
        let points = each(&OWN, used_percent).zip(each(other, used_percent)).map(|(own, other)| other - own);
        match points.fold(0.0, f64::max) {
            none if none < 0.05 => "nowhere".to_owned(),
            most => format!("by up to {most:.1} points"),
        }
    };
    let trips: Vec<String> =
        contests.iter().map(|contest| format!("{:.0}", round_trip_ms(contest))).collect();
    let trips = trips.join(", ");
    let trips = trips.rsplit_once(", ").map_or(trips.clone(), |(first, last)| format!("{first} and {last}"));
    let text = format!(
        "The queue of `adaptive` is as long as BBR's or longer: {}; as CUBIC's: {}. It uses less of the link than \
         BBR: {}; than CUBIC: {}. The longer the round trip, the later a server hears of the radio, and the longer \
         the queue. Simulated, one download of {} s each, from left to right over {} ms ([the figures](docs/congestion.md#what-to-expect)).",
        is_longer(&BBR),
        is_longer(&CUBIC),
        less(&BBR),
        less(&CUBIC),
        contests[0]["seconds"].as_f64().unwrap(),
        trips,
    );
    let x = Axis::places(
        &format!("radio; for each from left to right: round trips of {trips} ms"),
        traces.iter().map(|trace| radio(trace)),
    );
    let all = [&CUBIC, &BBR, &OWN];
    let (least, _) = ends(all.iter().flat_map(|control| each(control, used_percent).collect::<Vec<_>>()));
    let used = Axis::linear("Use of the link, %").over(Range::Between((least / 5.0).floor() * 5.0, 100.0));
    let chart = Chart { made_by: made_by(&contests[0]), is_named_at_ends: true, ..Chart::new(&title, x) }
        .panel(used, all.map(|control| line(control, used_percent)).into())
        .panel(
            Axis::log("95 % of packets wait at most so long, ms, logarithmic"),
            all.map(|control| line(control, queue_p95_ms)).into(),
        );
    Picture { name: "vps-radios", chart, text }
}

/// A preset's name in two lines.
fn radio(trace: &str) -> String {
    let (system, kind) = trace.rsplit_once('-').unwrap();
    let system = system.to_uppercase().replace('-', " ");
    if kind == "drive" { format!("{system}, {kind}") } else { format!("{system}, {}", kind.to_uppercase()) }
}

/// What is fetched, the first on top; a first byte alone is told in words.
const KINDS: [&str; 4] = ["100 KB, known client", "1 MB, new client", "page, HTTP/2", "page, HTTP/1.1"];
const FIRST_BYTE: &str = "first byte, HTTP/1.1";
/// How far from the middle of its row a control stands.
const BESIDE: f64 = 0.15;
/// What is slower by less than this is as fast.
const SLOWER: f64 = 1.03;

/// Short lines have no room for them.
fn without_dashes(ink: Ink) -> Ink {
    match ink {
        Ink::Dashed(colour, _) => Ink::Colour(colour),
        other => other,
    }
}

/// Times of pages as ratios to BBR's.
pub fn pages(document: &Value) -> Picture {
    let traces = array(document, "traces");
    let ms = |trace: &Value, kind: &str, control: &Control, figure: &str| {
        named(array(trace, "kinds"), "kind", kind)["controls"][control.page][figure].as_f64().unwrap()
    };
    let ratio = |trace: &Value, kind: &str, control: &Control, other: &Control, figure: &str| {
        ms(trace, kind, control, figure) / ms(trace, kind, other, figure)
    };
    let row = |number: usize, aside: f64| number as f64 + 1.0 + aside;
    let series = |trace: &Value, control: &Control, aside: f64| {
        let at = |figure: &str| -> Vec<Point> {
            let ratio = |kind: &str| ratio(trace, kind, control, &BBR, figure);
            KINDS.iter().enumerate().map(|(n, kind)| Point::new(ratio(kind), row(n, aside))).collect()
        };
        let (median, late) = (at("p50_ms"), at("p95_ms"));
        let gap = Point::new(f64::NAN, f64::NAN);
        let lines: Vec<Point> = median.iter().zip(&late).flat_map(|(from, to)| [*from, *to, gap]).collect();
        [
            Series::new("", without_dashes(control.ink), Mark::Line, lines),
            Series::new("", control.ink, Mark::Ticks, late),
            Series::new(control.name, control.ink, Mark::Dots, median),
        ]
    };
    let all = |kind: &str, figure: &str| {
        traces.iter().map(|trace| ratio(trace, kind, &OWN, &BBR, figure)).collect::<Vec<_>>()
    };
    let title = format!(
        "With adaptive a page of nginx takes {} of BBR's time, 100 KB to a known client {}",
        span([KINDS[2], KINDS[3]].iter().flat_map(|kind| all(kind, "p50_ms")), 2),
        span(all(KINDS[0], "p50_ms"), 2),
    );
    let slower = |other: &Control| {
        let there = traces.iter().filter_map(|trace| {
            let slower = KINDS.iter().filter_map(|kind| {
                let [median, late] =
                    ["p50_ms", "p95_ms"].map(|figure| ratio(trace, kind, &OWN, other, figure));
                (median.max(late) >= SLOWER)
                    .then(|| format!("{} {median:.2} · {late:.2}", kind.replace(", ", " ")))
            });
            let slower: Vec<String> = slower.collect();
            let on = trace["trace"].as_str().unwrap();
            (!slower.is_empty()).then(|| format!("on `{on}` {}", slower.join(", ")))
        });
        let there: Vec<String> = there.collect();
        if there.is_empty() { "nowhere".to_owned() } else { there.join("; ") }
    };
    let text = format!(
        "Slower than BBR by 3 % or more, at the median · at the 95th percentile: {}. Slower than CUBIC: {}. The first byte \
         of a page comes after {} times BBR's median. Measured with real kernels over an emulated radio, a round trip of \
         40 ms, {} times each ([the times](docs/congestion.md#pages)).",
        slower(&BBR),
        slower(&CUBIC),
        span(all(FIRST_BYTE, "p50_ms"), 2),
        document["repetitions"],
    );
    let ratios = traces.iter().flat_map(|trace| {
        let kinds = KINDS.iter().flat_map(move |kind| ["p50_ms", "p95_ms"].map(|figure| (*kind, figure)));
        kinds.flat_map(move |(kind, figure)| {
            [&OWN, &CUBIC].map(|control| ratio(trace, kind, control, &BBR, figure))
        })
    });
    let (least, largest) = ends(ratios.chain([1.0]));
    let tenths = |value: f64, round: fn(f64) -> f64| round(value * 10.0) / 10.0;
    let x = Axis::linear("time ÷ BBR's at the same percentile; left of 1: faster than BBR, right: slower")
        .over(Range::Between(tenths(least, f64::floor), tenths(largest, f64::ceil)));
    let note = "Dots are medians; the line of each leads to its 95th percentile.".to_owned();
    let chart = Chart { made_by: made_by(document), note, ..Chart::new(&title, x) };
    let chart = traces.iter().fold(chart, |chart, trace| {
        let bbr = [0.5, KINDS.len() as f64 + 0.5].map(|row| Point::new(1.0, row));
        let mut all = vec![Series::new("BBR = 1", BBR.ink, Mark::Line, bbr)];
        all.extend(series(trace, &OWN, -BESIDE));
        all.extend(series(trace, &CUBIC, BESIDE));
        let name = radio(trace["trace"].as_str().unwrap()).replace(", ", " ");
        chart.panel(Axis::places(&name, KINDS), all)
    });
    Picture { name: "vps-pages", chart, text }
}

#[test]
fn spans_and_radios_are_short() {
    assert_eq!(
        (span([0.984, 1.01, 0.99], 2), span([0.984, 0.981], 2)),
        ("0.98 to 1.01".into(), "0.98".into())
    );
    assert_eq!(["3g-hspa", "5g-nsa-drive"].map(radio), ["3G, HSPA", "5G NSA, drive"]);
}

/// A control that is worse than another is told so.
#[test]
fn what_is_not_better_is_told() {
    let times = |p50: f64, p95: f64| serde_json::json!({ "p50_ms": p50, "p95_ms": p95 });
    let kind = |kind: &str, own: f64| {
        let controls = serde_json::json!({
            "cubic": times(100.0, 200.0), "bbr": times(80.0, 160.0), "adaptive": times(own, 160.0),
        });
        serde_json::json!({ "kind": kind, "controls": controls })
    };
    let kinds = [kind(KINDS[0], 60.0), kind(KINDS[1], 82.0), kind(KINDS[2], 84.0), kind(KINDS[3], 80.0)];
    let all: Vec<Value> = kinds.into_iter().chain([kind(FIRST_BYTE, 80.0)]).collect();
    let trace = serde_json::json!({ "trace": "5g-sa-drive", "kinds": all });
    let picture = pages(&serde_json::json!({ "repetitions": 3, "traces": [trace] }));
    assert!(
        picture.chart.title.contains("takes 1.00 to 1.05 of BBR's time")
            && picture.chart.title.contains("0.75")
    );
    assert!(
        picture.text.contains(
            "95th percentile: on `5g-sa-drive` page HTTP/2 1.05 · 1.00. Slower than CUBIC: nowhere."
        )
    );

    let run = |scheme: &str, used: f64, p95: f64| {
        serde_json::json!({
            "trace": "4g-lte", "scheme": scheme, "utilisation": used, "queue_ms": { "p95": p95 },
        })
    };
    let contest = |rtt: f64, own: f64| {
        let runs = [
            run("direct:cubic", 0.99, 500.0),
            run("direct:bbr", 0.9, 200.0),
            run("kernel:adaptive", 0.98, own),
        ];
        serde_json::json!({
            "seconds": 60.0, "path": { "wan_rtt_ms": rtt - 20.0, "radio_rtt_ms": 20.0 }, "runs": runs,
            "made_by": { "command": "c" }, "traces": [{ "trace": "4g-lte", "mean_mbps": 1.0 }],
        })
    };
    let text = radios(&[contest(40.0, 100.0), contest(100.0, 200.0)]).text;
    assert!(text.starts_with(
        "The queue of `adaptive` is as long as BBR's or longer: on `4g-lte` over 100 ms; as CUBIC's: nowhere."
    ));
    assert!(
        text.contains("than BBR: nowhere; than CUBIC: by up to 1.0 points.")
            && text.contains("over 40 and 100 ms")
    );
}
