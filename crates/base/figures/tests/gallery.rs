//! Every kind of chart with what is hard to draw, in one page to be looked at: `target/tmp/gallery.html`.

// A helper's failure is a failed test.
#![allow(clippy::unwrap_used, clippy::panic)]

use figures::chart::{Axis, Chart, Ink, Mark, Point, Range, Series, Width};
use figures::{Table, page, stats};
use maud::html;

const MARKS: [Mark; 12] = [
    Mark::Line,
    Mark::Dotted,
    Mark::Dots,
    Mark::Named,
    Mark::Crosses,
    Mark::Stems,
    Mark::Ticks,
    Mark::Bars,
    Mark::Steps,
    Mark::Ground,
    Mark::Band,
    Mark::Spans,
];

fn wave(number: usize) -> impl Iterator<Item = Point> {
    (0..60).map(move |i| {
        let x = f64::from(i);
        let y = 20.0 + 4.0 * number as f64 + 8.0 * (x / 7.0 + number as f64).sin();
        Point::within(x, y, y - 3.0, y + 5.0)
    })
}

fn of_mark(title: &str, mark: Mark, points: Vec<Point>) -> Chart {
    let title = format!("{mark:?}: {title}");
    Chart::new(&title, Axis::exact("time, s"))
        .panel(Axis::linear("rate, Mbit/s"), vec![Series::new("series", Ink::Colour(0), mark, points)])
}

fn each_mark() -> Vec<Chart> {
    let points = |mark| match mark {
        Mark::Spans => vec![Point::new(3.0, 4.0), Point::new(20.0, 28.0), Point::new(40.0, 40.0)],
        Mark::Named => vec![Point::new(3.0, 4.0)],
        Mark::Line | Mark::Steps | Mark::Ground | Mark::Stems | Mark::Band => wave(0).collect(),
        _ => wave(0).step_by(6).collect(),
    };
    MARKS.map(|mark| of_mark("what it looks like", mark, points(mark))).into()
}

fn edge_cases() -> Vec<Chart> {
    let odd = [f64::NAN, 3.0, f64::INFINITY, 5.0, f64::NEG_INFINITY, 2.0, 4.0, f64::NAN];
    let with_gaps: Vec<Point> = odd.iter().zip(0..).map(|(y, x)| Point::new(f64::from(x), *y)).collect();
    let huge = [1e-300, 1.0, 1e300, f64::MAX].iter().zip(0..).map(|(y, x)| Point::new(f64::from(x), *y));
    let mut charts = Vec::new();
    for mark in MARKS {
        charts.push(of_mark("no data", mark, Vec::new()));
        charts.push(of_mark("one point", mark, vec![Point::new(5.0, 7.0)]));
        charts.push(of_mark("no number and infinite", mark, with_gaps.clone()));
        charts.push(of_mark("a huge range", mark, huge.clone().collect()));
    }
    charts
}

fn special() -> Vec<Chart> {
    let colour =
        |number, mark| Series::new(&format!("scheme {number}"), Ink::Colour(number), mark, wave(number));
    let sparse = |number, mark| {
        Series::new(&format!("scheme {number}"), Ink::Colour(number), mark, wave(number).step_by(12))
    };
    let twelve = |mark: fn(usize) -> Series| (0..12).map(mark).collect::<Vec<_>>();
    let long = "a name that is far too long for any legend, because somebody put a whole sentence with its reasons into it";
    let names = ["Amarillo by morning, at rest", "a/very/long/path/to/a/trace-file-2016-04-08.down", "x"];
    let places = |mark| {
        Series::new(
            "ours",
            Ink::Colour(0),
            mark,
            [1.0, 2.0, 3.0].map(|x| Point::with_deviation(x, 4.0 * x, Some(x))),
        )
    };
    let cited =
        Series::new("paper", Ink::Cited(None), Mark::Dots, [1.0, 2.0, 3.0].map(|x| Point::new(x, 4.2 * x)));
    let simulated =
        Series::new("simulated", Ink::Limit, Mark::Crosses, [1.0, 2.0, 3.0].map(|x| Point::new(x, 3.7 * x)));
    let mut sorted: Vec<f64> = wave(1).map(|point| point.y * point.y).collect();
    sorted.sort_by(f64::total_cmp);
    let cdf = (0..=100).filter_map(|percent| {
        Some(Point::new(stats::percentile(&sorted, 10 * percent)?, f64::from(percent)))
    });
    let named = |i: usize| {
        let at = Point::new(20.0 + (i % 4) as f64, 80.0 + (i / 4) as f64);
        Series::new(&format!("accel:adaptive:{i}"), Ink::Colour(i), Mark::Named, [at])
    };
    let capacity = Series::of_bins(
        "what the link can carry",
        Ink::Limit,
        Mark::Ground,
        1.0,
        (0..60).map(|i| Some(f64::from(40 + i % 9))),
    );
    vec![
        Chart::new("Twelve lines: the second six have dashes", Axis::exact("time, s")).panel(
            Axis::linear("rate, Mbit/s"),
            twelve(|n| Series::new(&format!("scheme {n}"), Ink::Colour(n), Mark::Line, wave(n))),
        ),
        Chart::new("Twelve series of dots: six shapes, six colours", Axis::exact("time, s"))
            .panel(Axis::linear("rate, Mbit/s"), (0..12).map(|n| sparse(n, Mark::Dots)).collect()),
        Chart {
            note: "A note below the title says what was measured, and may be a whole sentence.".into(),
            ..Chart::new("Capacity, two lines and outages, over a logarithmic panel", Axis::exact("time, s"))
        }
        .panel(
            Axis::linear("rate, Mbit/s"),
            vec![
                capacity,
                colour(0, Mark::Steps),
                colour(1, Mark::Line),
                Series::new("outage", Ink::Bad, Mark::Spans, [Point::new(3.0, 5.0), Point::new(33.0, 33.2)]),
            ],
        )
        .panel(
            Axis::log("queueing delay, ms"),
            vec![colour(0, Mark::Line), colour(1, Mark::Band), colour(1, Mark::Line)],
        )
        .panel(
            Axis::linear("difference, packets"),
            vec![Series::new(
                "below zero",
                Ink::Colour(2),
                Mark::Line,
                wave(0).map(|p| Point::new(p.x, p.y - 22.0)),
            )],
        ),
        Chart::new("Long names of series", Axis::exact("time, s")).panel(
            Axis::linear("rate, Mbit/s"),
            vec![
                Series::new(long, Ink::Colour(0), Mark::Line, wave(0)),
                Series::new(
                    "Donaudampfschifffahrtselektrizitätenhauptbetriebswerkbauunterbeamtengesellschaft",
                    Ink::Colour(1),
                    Mark::Line,
                    wave(1),
                ),
                colour(2, Mark::Line),
            ],
        ),
        Chart::new(
            "Places with names, what is cited, deviations",
            Axis::places("network", ["home, Wi-Fi", "train, LTE", "PC"]),
        )
        .panel(Axis::linear("rate, Mbit/s"), vec![places(Mark::Dots), simulated, cited]),
        Chart::new("Places whose names are long", Axis::places("trace", names))
            .panel(Axis::linear("rate, Mbit/s"), vec![places(Mark::Bars)]),
        Chart::new("Thirty places", Axis::places("trace", (1..=30).map(|i| format!("trace number {i}"))))
            .panel(
                Axis::linear("rate, Mbit/s"),
                vec![
                    Series::new(
                        "a",
                        Ink::Colour(0),
                        Mark::Bars,
                        wave(0).take(30).map(|p| Point::new(p.x + 1.0, p.y)),
                    ),
                    Series::new(
                        "b",
                        Ink::Colour(1),
                        Mark::Bars,
                        wave(1).take(30).map(|p| Point::new(p.x + 1.0, p.y)),
                    ),
                ],
            ),
        Chart::new("How long packets wait: 95 % at most 900 ms", Axis::log("queueing delay, ms"))
            .panel(Axis::linear("% of packets"), vec![Series::new("CUBIC", Ink::Colour(0), Mark::Line, cdf)]),
        Chart::new("Names beside dots keep apart", Axis::log("queueing delay p95, ms")).panel(
            Axis::linear("link used, %").over(Range::Between(70.0, 100.0)),
            (0..12).map(named).collect(),
        ),
        Chart::new("Beyond its range a line lies at the edge", Axis::exact("time, s")).panel(
            Axis::linear("rate, Mbit/s").over(Range::Between(15.0, 25.0)),
            vec![colour(0, Mark::Line)],
        ),
        Chart::new("Nothing at all", Axis::default()),
    ]
}

/// Every tag is closed, and nothing that is drawn is no number.
fn check(svg: &str, of: &str) {
    let mut open = Vec::new();
    for part in svg.split('<').skip(1) {
        let (tag, _) = part.split_once('>').unwrap_or_else(|| panic!("{of}: a tag is not closed"));
        match tag.strip_prefix('/') {
            Some(name) => assert_eq!(open.pop(), Some(name), "{of}"),
            None => open.push(tag.split([' ', '\n']).next().unwrap_or_default()),
        }
        let drawn =
            tag.split('"').skip(1).step_by(2).any(|value| value.contains("NaN") || value.contains("inf"));
        assert!(!drawn || tag.contains("aria-label"), "{of}: {tag}");
    }
    assert!(open.is_empty(), "{of}: {open:?}");
    let data = svg.split_once("<metadata>").and_then(|(_, rest)| rest.split_once("</metadata>"));
    if let Some((data, _)) = data {
        let plain =
            data.replace("&quot;", "\"").replace("&lt;", "<").replace("&gt;", ">").replace("&amp;", "&");
        serde_json::from_str::<serde_json::Value>(&plain).unwrap_or_else(|e| panic!("{of}: {e}"));
    }
}

#[test]
fn every_kind_of_chart_is_drawn_whatever_it_is_given() {
    let (special, marks, edges) = (special(), each_mark(), edge_cases());
    for chart in special.iter().chain(&marks).chain(&edges) {
        for width in [Width::Wide, Width::Half, Width::Narrow] {
            check(&chart.file(width), &chart.title);
        }
        check(&chart.half().into_string(), &chart.title);
    }
    let table = Table {
        headings: vec![("case", ""), ("throughput", "Mbit/s"), ("queue p95", "ms"), ("content", "")],
        rows: (0..6)
            .map(|n| vec![format!("scheme {n}"), format!("{n}.50 ±0.10"), "123".into(), "equal".into()])
            .collect(),
    };
    let colour = |row: &[String]| row.first().and_then(|name| name.split_once(' ')?.1.parse().ok());
    let body = html! {
        p.finding { "Every kind of chart, with what is hard to draw." }
        h2 { "A table" }
        (table.html(&colour, &|field| (field == "equal").then_some("equal")))
        h2 { "Over the whole width" }
        @for chart in &special { (chart.figure()) }
        h2 { "In two columns" }
        div.halves { @for chart in special.iter().chain(&marks) { (chart.half_figure()) } }
        h2 { "What is hard" }
        div.halves { @for chart in &edges { (chart.half_figure()) } }
    };
    let file = std::path::Path::new(env!("CARGO_TARGET_TMPDIR")).join("gallery.html");
    std::fs::write(&file, page::page("Gallery of charts", "", &body)).unwrap();
}
