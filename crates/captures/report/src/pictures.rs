//! The pictures of the demo, made from results: each says what is seen, and where there is no gain.

use figures::stats;
use scenario::BesideKind;
use scenario::results::{
    BesideFigures, CaseResult, Figures, Picture, PictureAxis, PictureLine, PicturePanel, PictureSpread,
    ScenarioResult, rounded,
};

/// A gain of less than this is called none.
const GAIN: f64 = 1.1;
/// The loss rate that the title of the loss picture is about, in percent.
const TOLD_LOSS: f64 = 0.5;

fn axis(label: &str, spread: PictureSpread) -> PictureAxis {
    PictureAxis { label: label.to_owned(), spread }
}

/// The first run of the case called `name`.
fn figures<'a>(result: &'a ScenarioResult, name: &str) -> Option<&'a Figures> {
    result.cases.iter().find(|case| case.name == name)?.figures.as_ref()
}

/// Throughput against random loss, of a scenario whose cases are called `WHO, RATE`, with `radio.down.loss`
/// as the rate. Means over the seeds. `None` where a case of `direct CUBIC`, `direct BBR` or `accelerated` at
/// the rate that the title is about is missing.
#[must_use]
pub fn loss_picture(result: &ScenarioResult, runner: &str) -> Option<Picture> {
    let lines = loss_lines(result);
    let at = |name: &str, loss: f64| {
        let line = lines.iter().find(|line| line.name == name)?;
        line.points.iter().find(|(x, _)| *x == loss).map(|(_, y)| *y)
    };
    let [cubic, bbr, accelerated] =
        ["direct CUBIC", "direct BBR", "accelerated"].map(|name| at(name, TOLD_LOSS));
    let (cubic, bbr, accelerated) = (cubic?, bbr?, accelerated?);
    let none = |other: &str| -> String {
        let accelerated = lines.iter().find(|line| line.name == "accelerated");
        let points = accelerated.map_or(&[][..], |line| line.points.as_slice());
        let without = points.iter().filter(|(x, y)| at(other, *x).is_some_and(|base| *y < GAIN * base));
        let rates: Vec<String> = without.map(|(x, _)| format!("{x}")).collect();
        let gain = format!("{:.0} %", 100.0 * (GAIN - 1.0));
        match rates.len() {
            0 => format!("against {other}, it is {gain} or more at every rate"),
            all if all == points.len() => format!("against {other}, it is below {gain} at every rate"),
            _ => format!("against {other}, it is below {gain} at {} % of loss", rates.join(", ")),
        }
    };
    let scenario = &result.scenario;
    let rate =
        scenario.radio.down.as_ref().and_then(|down| down.rate).map_or(String::new(), |r| r.to_string());
    let measured = if runner == "sim" { "Simulated" } else { "Real kernel TCP" };
    Some(Picture {
        name: "loss".to_owned(),
        title: format!(
            "{TOLD_LOSS} % of packets lost at random on a link of {rate}: CUBIC gets {cubic:.2} Mbit/s, \
             accelerated {accelerated:.1}"
        ),
        text: format!(
            "CUBIC takes every loss for a full queue and slows down. The accelerator repairs what the radio \
             loses over the short way between itself and the client. At {TOLD_LOSS} % of loss, CUBIC gets \
             {cubic:.2} Mbit/s, BBR {bbr:.1} and the accelerator {accelerated:.1}. The gain: {}; {}. \
             {measured}: {}, {}, means of {} seeds.",
            none("direct CUBIC"),
            none("direct BBR"),
            round_trip(result),
            format_args!("{} each", scenario.time_limit),
            scenario.repetitions
        ),
        runner: runner.to_owned(),
        x: axis("random loss, % of packets (steps are not to scale)", PictureSpread::Places),
        panels: vec![PicturePanel {
            y: axis("Throughput, Mbit/s", PictureSpread::Linear),
            capacity: Vec::new(),
            lines,
        }],
    })
}

/// The round trip of the empty path, in words.
fn round_trip(result: &ScenarioResult) -> String {
    let ms = |delay: Option<units::Duration>| delay.map_or(0.0, |delay| delay.as_millis_f64());
    let scenario = &result.scenario;
    let radio =
        [&scenario.radio.down, &scenario.radio.up].map(|d| ms(d.as_ref().and_then(|d| d.delay).map(|q| q.0)));
    let (wired, radio) = (2.0 * ms(scenario.wan.delay.map(|q| q.0)), radio[0] + radio[1]);
    format!("a round trip of {:.0} ms, {radio:.0} ms of it over the radio link", wired + radio)
}

fn loss_lines(result: &ScenarioResult) -> Vec<PictureLine> {
    let mut lines: Vec<PictureLine> = Vec::new();
    for case in &result.cases {
        let Some((who, _)) = case.name.split_once(", ") else { continue };
        if !lines.iter().any(|line| line.name == who) {
            lines.push(PictureLine { name: who.to_owned(), points: Vec::new() });
        }
        let Some(line) = lines.iter_mut().find(|line| line.name == who) else { continue };
        let loss = loss_percent(case);
        if line.points.iter().all(|point| point.0 != loss) {
            line.points.extend(mean_rate(result, &case.name).map(|rate| (loss, rate)));
        }
    }
    lines
}

/// The mean throughput of a case over its seeds.
fn mean_rate(result: &ScenarioResult, name: &str) -> Option<f64> {
    let own = result.cases.iter().filter(|case| case.name == name).filter_map(|case| case.figures.as_ref());
    stats::mean(own.map(|f| f.transfer.goodput_mbps)).map(rounded)
}

fn loss_percent(case: &CaseResult) -> f64 {
    let loss = case.settings.radio.down.as_ref().and_then(|down| down.loss);
    rounded(loss.map_or(0.0, |loss| f64::from(loss.0.ppm()) / 1e4))
}

/// Round-trip times of the pings beside a download over a drive, and of those on the same link without a
/// download (`idle`).
#[must_use]
pub fn ping_picture(drive: &ScenarioResult, idle: &ScenarioResult, runner: &str) -> Option<Picture> {
    let alone = idle.cases.first()?.figures.as_ref()?;
    let [cubic, bbr, accelerated] =
        ["direct CUBIC", "direct BBR", "accelerated"].map(|name| figures(drive, name));
    let (cubic, bbr, accelerated) = (cubic?, bbr?, accelerated?);
    let all = [("idle", alone), ("direct CUBIC", cubic), ("direct BBR", bbr), ("accelerated", accelerated)];
    let mut told = Vec::new();
    let mut lines = Vec::new();
    for (name, f) in all {
        let ping = f.ping_ms?;
        told.push((ping.p50, ping.p95));
        lines.push(PictureLine { name: name.to_owned(), points: f.pings.clone() });
    }
    let is_shorter = told[3].0 * GAIN < told[1].0.min(told[2].0);
    let verdict =
        if is_shorter { "" } else { " Compared with the better of the others, there is no gain here." };
    let measured = if runner == "sim" { "Simulated" } else { "Real kernel TCP and ping" };
    Some(Picture {
        name: "ping".to_owned(),
        title: format!(
            "Ping during a download, driving on LTE: median {:.0} ms with CUBIC, {:.0} with BBR, {:.0} \
             accelerated, {:.0} on the idle link",
            told[1].0, told[2].0, told[3].0, told[0].0
        ),
        text: format!(
            "Everything else that the device does waits behind the download in the base station's queue. 95 \
             % of pings came back within {:.0} ms with CUBIC, {:.0} with BBR, {:.0} accelerated and {:.0} \
             on the idle link. The accelerated ping is slower than on the idle link, because a link that \
             varies needs some queue to stay busy. When the link itself stops for a while, every ping \
             waits.{verdict} {measured}: the downloads of “{}”.",
            told[1].1,
            told[2].1,
            told[3].1,
            told[0].1,
            drive.scenario.heading()
        ),
        runner: runner.to_owned(),
        x: axis("time, s", PictureSpread::Linear),
        panels: vec![PicturePanel {
            y: axis("Round trip of each ping, ms (logarithmic)", PictureSpread::Log),
            capacity: Vec::new(),
            lines,
        }],
    })
}

/// Capacity, throughput and queueing delay of a drive over time.
#[must_use]
pub fn drive_picture(drive: &ScenarioResult, runner: &str) -> Option<Picture> {
    let names = ["direct CUBIC", "direct BBR", "accelerated"];
    let [cubic, bbr, accelerated] = names.map(|name| figures(drive, name));
    let all = [cubic?, bbr?, accelerated?];
    let queue = all.map(|f| f.radio.queue_delay_ms.p95);
    let rates = all.map(|f| f.transfer.goodput_mbps);
    let waiting = if queue[2] * GAIN < queue[0].min(queue[1]) {
        "The difference is the queue: when the link becomes slower, less data from the accelerator waits \
         there."
    } else {
        "The queue is not shorter either."
    };
    let longest =
        all.iter().max_by(|a, b| a.series.capacity_mbps.len().cmp(&b.series.capacity_mbps.len()))?;
    let rate_lines = names.iter().zip(all).map(|(name, f)| PictureLine {
        name: (*name).to_owned(),
        points: timed(f.series.bin_s, f.series.delivered_mbps.iter().copied().map(Some)),
    });
    let queue_lines = names.iter().zip(all).map(|(name, f)| PictureLine {
        name: (*name).to_owned(),
        points: timed(f.series.bin_s, f.series.queue_delay_ms.iter().copied()),
    });
    let best = rates[0].max(rates[1]);
    let verdict = if rates[2] >= GAIN * best {
        "more throughput"
    } else if rates[2] * GAIN < best {
        "less throughput"
    } else {
        "no gain in throughput"
    };
    let measured = if runner == "sim" { "Simulated" } else { "Real kernel TCP" };
    Some(Picture {
        name: "5g-drive".to_owned(),
        title: format!(
            "Driving on 5G: 95 % of packets wait at most {:.0} ms with CUBIC, {:.0} with BBR, {:.0} \
             accelerated; {verdict}",
            queue[0], queue[1], queue[2]
        ),
        text: format!(
            "Throughput: {:.0} Mbit/s with CUBIC, {:.0} with BBR, {:.0} accelerated: {verdict}. {waiting} \
             {measured}: “{}”, one run each, means over {:.2} s.",
            rates[0],
            rates[1],
            rates[2],
            drive.scenario.heading(),
            longest.series.bin_s
        ),
        runner: runner.to_owned(),
        x: axis("time, s", PictureSpread::Linear),
        panels: vec![
            PicturePanel {
                y: axis("Throughput, Mbit/s", PictureSpread::Linear),
                capacity: timed(longest.series.bin_s, longest.series.capacity_mbps.iter().copied().map(Some)),
                lines: rate_lines.collect(),
            },
            PicturePanel {
                y: axis("Queueing delay, mean, ms", PictureSpread::Linear),
                capacity: Vec::new(),
                lines: queue_lines.collect(),
            },
        ],
    })
}

/// A phone that downloads by TCP and by QUIC and is in a call: pings, and what both downloads get, over time.
#[must_use]
pub fn phone_picture(phone: &ScenarioResult, runner: &str) -> Option<Picture> {
    const NAMES: [&str; 2] = ["direct CUBIC", "accelerated"];
    let [direct, accelerated] = NAMES.map(|name| figures(phone, name));
    let all = [direct?, accelerated?];
    let [Some(quic), Some(calls)] = [BesideKind::Quic, BesideKind::Call].map(|kind| {
        let of = |f: &'_ Figures| f.beside.iter().find(|one| one.kind == kind).cloned();
        Some([of(all[0])?, of(all[1])?])
    }) else {
        return None;
    };
    let tcp = all.map(|f| f.transfer.goodput_mbps);
    let by_quic = [quic[0].goodput_mbps, quic[1].goodput_mbps];
    let sums = [tcp[0] + by_quic[0], tcp[1] + by_quic[1]];
    let waits = [calls[0].delay_ms?.p95, calls[1].delay_ms?.p95];
    let pings = [all[0].ping_ms?.p95, all[1].ping_ms?.p95];
    let used = all.map(|f| 100.0 * f.radio.utilisation.unwrap_or_default());
    let said = |with: f64, without: f64| match with / without {
        ratio if ratio >= GAIN => "more with it",
        ratio if ratio * GAIN < 1.0 => "less with it",
        _ => "about as much with it",
    };
    let verdict = if waits[1] * GAIN < waits[0] { "" } else { " The call gains nothing here." };
    let measured =
        if runner == "sim" { "Simulated" } else { "Real kernel TCP, a QUIC library’s CUBIC, and ping" };
    Some(Picture {
        name: "phone".to_owned(),
        title: format!(
            "A phone on LTE that downloads by TCP and by QUIC and is in a call: 95 % of the call’s packets arrive \
             within {:.0} ms without the accelerator, within {:.0} with it",
            waits[0], waits[1]
        ),
        text: format!(
            "The accelerator does not accelerate QUIC and the call. They take turns with the TCP download in a \
             queue that it keeps short, and no one of them gets more than its turn. Without it, TCP gets {:.2} \
             Mbit/s and QUIC {:.2}, together {:.2}; with it {:.2} and {:.2}, together {:.2}: TCP gets {}, QUIC {}. The \
             link is used to {:.1} % and {:.1} %. 95 % of pings come back within {:.0} and {:.0} ms.{verdict} \
             {measured}: “{}”, one run each.",
            tcp[0],
            by_quic[0],
            sums[0],
            tcp[1],
            by_quic[1],
            sums[1],
            said(tcp[1], tcp[0]),
            said(by_quic[1], by_quic[0]),
            used[0],
            used[1],
            pings[0],
            pings[1],
            phone.scenario.heading()
        ),
        runner: runner.to_owned(),
        x: axis("time, s", PictureSpread::Linear),
        panels: phone_panels(NAMES, all, &quic),
    })
}

/// Pings and the rates of both downloads over time.
fn phone_panels(names: [&str; 2], all: [&Figures; 2], quic: &[BesideFigures; 2]) -> Vec<PicturePanel> {
    let panel = |label: &str, spread, points: [Vec<(f64, f64)>; 2]| {
        let named = names.into_iter().zip(points);
        let lines = named.map(|(name, points)| PictureLine { name: name.to_owned(), points }).collect();
        PicturePanel { y: axis(label, spread), capacity: Vec::new(), lines }
    };
    let seconds = |f: &Figures, rates: &[f64]| by_second(f.series.bin_s, rates);
    let by_quic = [0, 1].map(|at| seconds(all[at], &quic[at].goodput_series_mbps));
    vec![
        panel("Round trip of each ping, ms (logarithmic)", PictureSpread::Log, all.map(|f| f.pings.clone())),
        panel("TCP download, Mbit/s", PictureSpread::Linear, all.map(|f| seconds(f, &f.series.goodput_mbps))),
        panel("QUIC download, Mbit/s", PictureSpread::Linear, by_quic),
    ]
}

/// Means over seconds of values of bins, at the seconds' middles.
fn by_second(bin_s: f64, values: &[f64]) -> Vec<(f64, f64)> {
    let bins = ((1.0 / bin_s).round() as usize).max(1);
    let means: Vec<f64> =
        values.chunks_exact(bins).map(|all| all.iter().sum::<f64>() / bins as f64).collect();
    timed(bin_s * bins as f64, means.into_iter().map(|mean| Some(rounded(mean))))
}

/// Values of bins at the bins' middles; bins without one are left out.
fn timed(bin_s: f64, values: impl Iterator<Item = Option<f64>>) -> Vec<(f64, f64)> {
    let at = |bin: usize| rounded((bin as f64 + 0.5) * bin_s);
    values.enumerate().filter_map(|(bin, value)| Some((at(bin), value?))).collect()
}

#[cfg(test)]
mod tests {
    use scenario::Scenario;
    use scenario::results::{Distribution, RadioFigures, Series, Transfer};

    use super::*;
    use crate::fixture::case_with;

    /// A scenario of cases with a throughput each, in the order of the cases; queue and ping have the delay
    /// in ms.
    fn result(text: &str, rates: &[(f64, f64)]) -> ScenarioResult {
        let scenario = Scenario::from_toml("t.toml", text).unwrap();
        let of = |(settings, (goodput_mbps, delay)): (scenario::Case, &(f64, f64))| {
            let figures = Figures {
                transfer: Transfer { goodput_mbps: *goodput_mbps, ..Transfer::default() },
                radio: RadioFigures {
                    queue_delay_ms: Distribution { p95: *delay, ..Distribution::default() },
                    ..RadioFigures::default()
                },
                ping_ms: Some(Distribution { p50: *delay, p95: *delay, ..Distribution::default() }),
                pings: vec![(0.0, *delay)],
                series: Series {
                    bin_s: 0.25,
                    capacity_mbps: vec![10.0, 10.0],
                    delivered_mbps: vec![*goodput_mbps; 2],
                    queue_delay_ms: vec![None, Some(*delay)],
                    ..Series::default()
                },
                ..Figures::default()
            };
            case_with(settings, Some(figures))
        };
        let cases = scenario.resolved().into_iter().zip(rates).map(of).collect();
        ScenarioResult { scenario, cases }
    }

    fn cases(names: &[&str]) -> String {
        let case = |name: &&str| {
            let rate = name.split_once(", ").map(|(_, rate)| rate);
            let loss = rate.map_or(String::new(), |rate| format!("radio.down.loss = \"{rate}\"\n"));
            format!("[[case]]\nname = \"{name}\"\n{loss}")
        };
        let all: String = names.iter().map(case).collect();
        format!("name = \"t\"\nradio.down.rate = \"50 Mbit/s\"\n{all}")
    }

    const WHO: [&str; 3] = ["direct CUBIC", "direct BBR", "accelerated"];

    #[test]
    fn the_loss_picture_says_where_there_is_no_gain() {
        let names: Vec<String> =
            WHO.iter().flat_map(|who| ["0 %", "0.5 %"].map(|rate| format!("{who}, {rate}"))).collect();
        let text = cases(&names.iter().map(String::as_str).collect::<Vec<_>>());
        let rates = [40.0, 2.0, 41.0, 39.0, 42.0, 38.0].map(|rate| (rate, 0.0));
        let picture = loss_picture(&result(&text, &rates), "sim").unwrap();
        assert!(picture.title.contains("CUBIC gets 2.00 Mbit/s, accelerated 38.0"), "{}", picture.title);
        let told = "against direct CUBIC, it is below 10 % at 0 % of loss; against direct BBR, it is below 10 % at \
                    every rate.";
        assert!(picture.text.contains(told), "{}", picture.text);
        let bbr = &picture.panels[0].lines[1];
        assert_eq!((bbr.name.as_str(), bbr.points.clone()), ("direct BBR", vec![(0.0, 41.0), (0.5, 39.0)]));
        // Without one of the three there is nothing to say.
        assert!(loss_picture(&result(&cases(&["direct CUBIC, 0.5 %"]), &rates), "sim").is_none());
    }

    #[test]
    fn the_other_pictures_say_so_when_nothing_is_gained() {
        let drive =
            |accelerated: (f64, f64)| result(&cases(&WHO), &[(9.0, 300.0), (8.0, 100.0), accelerated]);
        let idle = result(&cases(&["idle"]), &[(0.0, 20.0)]);
        let better = drive_picture(&drive((9.1, 30.0)), "lab").unwrap();
        assert!(better.title.contains("30 accelerated; no gain in throughput"), "{}", better.title);
        assert!(better.text.contains("The difference is the queue"), "{}", better.text);
        assert_eq!(better.panels[1].lines[2].points, [(0.375, 30.0)]);
        assert_eq!(better.panels[0].capacity, [(0.125, 10.0), (0.375, 10.0)]);
        let worse = drive_picture(&drive((5.0, 120.0)), "lab").unwrap();
        assert!(
            worse.title.contains("less throughput") && worse.text.contains("The queue is not shorter either")
        );
        let told = |delay: f64| ping_picture(&drive((9.0, delay)), &idle, "lab").unwrap();
        assert!(told(150.0).text.contains("is no gain here") && !told(30.0).text.contains("is no gain here"));
        assert!(told(30.0).title.contains("300 ms with CUBIC, 100 with BBR, 30 accelerated, 20 on the idle"));
    }

    /// A phone's figures: what TCP and QUIC get, and what the call's packets and pings take, in ms.
    fn phone(all: [(f64, f64, f64); 2]) -> ScenarioResult {
        let one = |kind, goodput_mbps, delay: f64| BesideFigures {
            kind,
            congestion_control: None,
            start_s: 0.0,
            end_s: 2.0,
            received_bytes: 0,
            goodput_mbps,
            own_mbps: 0.0,
            response_ms: None,
            delay_ms: Some(Distribution { p95: delay, ..Distribution::default() }),
            delay_up_ms: None,
            loss: None,
            goodput_series_mbps: vec![goodput_mbps; 8],
            error: None,
        };
        let rates: Vec<(f64, f64)> = all.iter().map(|(tcp, _, delay)| (*tcp, *delay)).collect();
        let mut result = result(&cases(&["direct CUBIC", "accelerated"]), &rates);
        for (case, (tcp, quic, delay)) in result.cases.iter_mut().zip(all) {
            let figures = case.figures.as_mut().unwrap();
            figures.beside = vec![one(BesideKind::Quic, quic, 0.0), one(BesideKind::Call, 0.3, delay)];
            figures.series.goodput_mbps =
                [0.0, 2.0].into_iter().cycle().map(|part| part * tcp).take(8).collect();
        }
        result
    }

    #[test]
    fn the_phones_picture_says_who_gets_more_and_who_less() {
        let picture = phone_picture(&phone([(2.0, 6.0, 900.0), (4.0, 4.1, 90.0)]), "lab").unwrap();
        assert!(
            picture.title.contains("within 900 ms without the accelerator, within 90 with"),
            "{}",
            picture.title
        );
        for told in [
            "TCP gets 2.00 Mbit/s and QUIC 6.00, together 8.00; with it 4.00 and 4.10, together 8.10",
            "TCP gets more with it, QUIC less with it",
        ] {
            assert!(picture.text.contains(told), "{}", picture.text);
        }
        assert!(!picture.text.contains("gains nothing"));
        // Four bins of a quarter of a second are one point.
        assert_eq!(picture.panels[1].lines[1].points, [(0.5, 4.0), (1.5, 4.0)]);
        assert_eq!(picture.panels[2].lines[0].points, [(0.5, 6.0), (1.5, 6.0)]);
        let same = phone_picture(&phone([(4.0, 4.0, 90.0), (4.0, 4.0, 90.0)]), "lab").unwrap();
        assert!(same.text.contains("The call gains nothing here."), "{}", same.text);
        assert!(same.text.contains("TCP gets about as much with it"), "{}", same.text);
    }
}
