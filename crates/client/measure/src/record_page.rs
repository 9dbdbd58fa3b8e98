//! A recording for people.

use figures::Table;
use figures::chart::{Axis, Chart, Ink, Mark, Point, Series};
use figures::stats::median;
use maud::{Markup, html};
use probe::{Buffer, BufferKind, Light, WayRecord};

use crate::document::{Document, Figures};
use crate::record::{RecordDocument, RecordFigures, RecordedWay};
use crate::verdict::{NONE, digits, known};

const MAY_GO: [&str; 4] = ["train", "sent", "wait p95", "not full"];

impl Figures for RecordFigures {
    const SCHEMA: &'static str = crate::record::SCHEMA;
    const TITLE: &'static str = "A recorded path";
    const PORT: &'static str = "UDP port";

    fn verdict(document: &Document<Self>) -> String {
        crate::record::verdict(document)
    }

    fn summary(document: &Document<Self>, columns: usize) -> String {
        let mut text = format!("\n{}", table(document).for_terminal(columns, &MAY_GO));
        for way in &document.ways {
            way.doubts.iter().for_each(|doubt| text += &format!("  ? {}: {doubt}\n", way.record.direction));
        }
        text
    }

    fn body(document: &Document<Self>) -> Markup {
        html! {
            (table(document).html(&|_| None, &|_| None))
            @for way in &document.ways {
                @for doubt in &way.doubts { p class="finding warning" { (way.record.direction) ": " (doubt) } }
            }
            @for way in &document.ways { (over_time(way).figure()) }
            (light(document))
            (method())
        }
    }
}

/// The queue in KB with its interval.
fn queue(buffer: Option<Buffer>) -> String {
    let kb = |bytes: u64| digits(bytes as f64 / 1e3);
    match buffer {
        None => NONE.to_owned(),
        Some(Buffer {
            kind: BufferKind::Plateau | BufferKind::Spread, bytes, low_bytes, high_bytes, ..
        }) => {
            format!("{} ({}–{})", kb(bytes), kb(low_bytes), kb(high_bytes.unwrap_or(bytes)))
        }
        Some(buffer) => format!("≥ {}", kb(buffer.bytes)),
    }
}

fn table(document: &RecordDocument) -> Table {
    let percent = |share: f64| digits(share * 100.0);
    let best = |of: &WayRecord| digits(of.rates_100ms_mbps.iter().copied().fold(0.0, f64::max));
    let train = |of: &WayRecord| of.light.as_ref().and_then(|light| light.spread).map(|spread| spread.p50_ms);
    Table::of(
        &document.ways,
        &[
            ("way", "", &|way| way.record.direction.to_owned()),
            ("length", "s", &|way| format!("{:.1}", way.record.seconds)),
            ("mean", "Mbit/s", &|way| digits(way.record.mean_mbps)),
            ("best 100 ms", "Mbit/s", &|way| best(&way.record)),
            ("not full", "% of time", &|way| percent(way.record.unsaturated_share)),
            ("sent", "packets", &|way| way.record.sent.to_string()),
            ("queue", "KB", &|way| queue(way.record.buffer)),
            ("wait p95", "ms", &|way| known(way.record.wait.map(|wait| wait.p95_ms), digits)),
            ("lost at random", "%", &|way| percent(way.record.loss.value())),
            ("train", "ms", &|way| known(train(&way.record), digits)),
        ],
    )
}

fn over_time(way: &RecordedWay) -> Chart {
    let rates = way.record.rates_100ms_mbps.iter().map(|rate| Some(*rate));
    let way = if way.record.direction == "up" { "Up" } else { "Down" };
    Chart::new(&format!("{way}: what the path carried"), Axis::exact("s since the begin of the trace")).panel(
        Axis::linear("in 100 ms, Mbit/s"),
        vec![Series::of_bins("carried", Ink::Colour(0), Mark::Steps, 0.1, rates)],
    )
}

/// The median of each packet of a train after its first.
fn after(light: &Light) -> Vec<Point> {
    let places = light.train_packets as usize;
    let of = |place: usize| {
        let mut all: Vec<f64> =
            light.trains.iter().filter_map(|train| train.after_ms.get(place).copied().flatten()).collect();
        all.sort_unstable_by(f64::total_cmp);
        Some(Point::new(place as f64 + 1.0, median(&all)?))
    };
    (0..places).filter_map(of).collect()
}

fn light(document: &RecordDocument) -> Markup {
    let both: Vec<(usize, &str, &Light)> = document
        .ways
        .iter()
        .enumerate()
        .filter_map(|(at, way)| Some((at, way.record.direction, way.record.light.as_ref()?)))
        .collect();
    let series =
        both.iter().map(|(at, name, light)| Series::new(name, Ink::Colour(*at), Mark::Dotted, after(light)));
    let chart = Chart::new("Trains over the idle path", Axis::exact("packet of the train"))
        .panel(Axis::linear("came after the first, median, ms"), series.collect());
    html! { @if !both.is_empty() { (chart.figure()) } }
}

fn method() -> Markup {
    html! {
        h2 { "How it was recorded" }
        p {
            "First, trains of ten packets went over the idle path, every 200 ms, and small packets both ways: the "
            "least delay up and the least delay down are the path's. Then the path was sent twice as much as came in the best "
            "50 ms of the last 10 s, so that its queue was always full, and what came is what the path could carry. "
            "For each packet that was lost it is known how many were in the queue before it: where that is always the "
            "same, the queue drops what does not fit, and that is its size. A packet that was lost before a queue "
            "shorter than half of that was lost at random. “Not full” is the share of 100 ms in which a packet waited "
            "for less than 3 ms: there the path may have carried more. “Train” is the time from the first to the last "
            "packet of a train."
        }
    }
}
