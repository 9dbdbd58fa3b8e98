//! The figures of queues that mark as Markdown.

use std::fmt::Write as _;

use serde_json::Value;

/// The tables of a result of `cargo run -p cellerator-sim --example marking_queues`.
pub fn markdown(document: &Value, view: &str) -> Option<String> {
    let seeds = document["seeds"].as_u64()?;
    match view {
        "alone" => alone(document["alone"].as_array()?, seeds),
        "scalable" => scalable(document["scalable"].as_array()?, seeds),
        _ => None,
    }
}

fn number(line: &Value, name: &str) -> Option<f64> {
    line[name].as_f64()
}

fn goodput(line: &Value, flow: usize) -> Option<f64> {
    line["goodput_mbps"][flow].as_f64()
}

fn alone(lines: &[Value], seeds: u64) -> Option<String> {
    let mut text = format!(
        "A download through a queue with CoDel (5 ms, 100 ms) or DualPI2 (15 ms), 10 + 20 ms from the server, \
         20 s behind a start of 5 s; means of {seeds} seeds. Goodput in Mbit/s, mean and p95 of the time in the queue \
         in ms.\n\n"
    );
    text += "| queue, link | direct | Not-ECT | ECT(0) | dropped, marked by ECT(0) |\n|---|---:|---:|---:|---:|\n";
    for ways in lines.chunks(3) {
        let [direct, not_ect, ect0] = ways else { return None };
        let cell = |line: &Value| {
            let (mean, p95) = (number(line, "queue_mean_ms")?, number(line, "queue_p95_ms")?);
            Some(format!("{:.2}; {mean:.0}, {p95:.0}", goodput(line, 0)?))
        };
        let name = |line: &Value, name: &str| line[name].as_str().map(str::to_owned);
        let _ = writeln!(
            text,
            "| {}, {} | {} | {} | {} | {:.0}, {:.0} |",
            name(direct, "queue")?,
            name(direct, "link")?,
            cell(direct)?,
            cell(not_ect)?,
            cell(ect0)?,
            number(not_ect, "dropped")?,
            number(ect0, "marked")?,
        );
    }
    text += "\nThe last column: packets of Not-ECT data that the queue dropped, and of ECT(0) data that it marked, in a run.\n";
    Some(text)
}

fn scalable(lines: &[Value], seeds: u64) -> Option<String> {
    let mut text = format!(
        "Means of {seeds} seeds. *Beside* is a flow past the accelerator from a server with a path of its own.\n\n"
    );
    text += "| link, queue | flow | beside it | goodput, Mbit/s | the other's | link used | marks a round trip | queue, mean and p95, ms |\n";
    text += "|---|---|---|---:|---:|---:|---:|---:|\n";
    for line in lines {
        let flow = match line["flow"].as_str()? {
            "ect1" => "`adaptive`, ECT(1)",
            "ect0" => "`adaptive`, ECT(0)",
            other => other,
        };
        let other = goodput(line, 1).map_or(String::new(), |other| format!("{other:.2}"));
        let _ = writeln!(
            text,
            "| {} | {flow} | {} | {:.2} | {other} | {:.0} % | {:.2} | {:.1}, {:.1} |",
            line["case"].as_str()?,
            line["beside"].as_str()?,
            goodput(line, 0)?,
            number(line, "utilisation_percent")?,
            number(line, "marks_per_round_trip")?,
            number(line, "queue_mean_ms")?,
            number(line, "queue_p95_ms")?,
        );
    }
    Some(text)
}
