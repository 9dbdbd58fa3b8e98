//! Downloads over radio links whose queue marks (CoDel, DualPI2), direct and accelerated, and beside others; and what
//! the accelerator's control would be as a scalable one (RFC 9331 §4.3). Prints the result file of `docs/engine.md`.
//!
//! `make docs-marks` runs it.

// A program for a person who reads a panic.
#![allow(clippy::unwrap_used, clippy::panic)]

mod study;

use engine::ClientEcn;
use link::{Aqm, Preset};
use study::{Figures, Hosts, Link, Run, Way, codel, dual_pi2};
use units::Duration;

/// Seeds of each line.
const SEEDS: u64 = 3;

fn mean(all: &[Figures], of: impl Fn(&Figures) -> f64) -> f64 {
    all.iter().map(of).sum::<f64>() / all.len().max(1) as f64
}

/// Runs it with each seed; a line of the result.
fn line(run: &Run, what: &[(&str, String)]) -> String {
    let runs: Vec<Run> = (1..=SEEDS).map(|seed| Run { seed, ..run.clone() }).collect();
    let all: Vec<Figures> = runs.iter().map(study::figures).collect();
    let mut fields: Vec<String> = what.iter().map(|(name, value)| format!("\"{name}\": {value}")).collect();
    let goodputs: Vec<String> =
        (0..all[0].goodput.len()).map(|n| format!("{:.3}", mean(&all, |f| f.goodput[n]))).collect();
    fields.push(format!("\"goodput_mbps\": [{}]", goodputs.join(", ")));
    for (name, value) in [
        ("queue_mean_ms", mean(&all, |f| f.queue_mean)),
        ("queue_p95_ms", mean(&all, |f| f.queue_p95)),
        ("utilisation_percent", mean(&all, |f| f.utilisation)),
        ("marked", mean(&all, |f| f.marked as f64)),
        ("dropped", mean(&all, |f| f.dropped as f64)),
        ("marks_per_round_trip", mean(&all, |f| f.marks_per_round_trip)),
    ] {
        fields.push(format!("\"{name}\": {value:.3}"));
    }
    format!("    {{ {} }}", fields.join(", "))
}

fn text(value: &str) -> String {
    format!("\"{value}\"")
}

const fn name(aqm: &Aqm) -> &'static str {
    match aqm {
        Aqm::CoDel(_) => "codel",
        Aqm::DualPi2(_) => "dualpi2",
    }
}

/// One download: the way of data to the client, and the queue.
fn alone() -> Vec<String> {
    let ways = [Way::Direct, Way::Accelerated(ClientEcn::NotEct), Way::Accelerated(ClientEcn::Ect0)];
    let links = [
        Link::Steady(5),
        Link::Steady(20),
        Link::Steady(80),
        Link::Trace(Preset::Lte4g),
        Link::Trace(Preset::Nr5g),
    ];
    let mut lines = Vec::new();
    for aqm in [codel(), dual_pi2()] {
        for link in links {
            for way in ways {
                let what =
                    [("queue", text(name(&aqm))), ("link", text(&link.name())), ("way", text(way.name()))];
                lines.push(line(&Run::new(link, aqm, way, 1), &what));
            }
        }
    }
    lines
}

/// The control as a scalable one: alone, with other round trips, and beside others, in DualPI2.
fn as_scalable() -> Vec<String> {
    let run = Run::new(Link::Steady(20), dual_pi2(), Way::Accelerated(ClientEcn::Ect1), 1);
    let mut lines = Vec::new();
    let mut add = |case: &str, run: Run| {
        let flow = if run.way == Way::Direct { "scalable" } else { run.way.name() };
        let beside = match run.beside[..] {
            [] => "",
            [Hosts::Scalable] => "scalable",
            _ => "cubic",
        };
        lines.push(line(&run, &[("case", text(case)), ("flow", text(flow)), ("beside", text(beside))]));
    };
    let scalable = Run { way: Way::Direct, hosts: Hosts::Scalable, wired: Duration::ZERO, ..run.clone() };
    let accurate = Run { hosts: Hosts::Accurate, ..run };
    for (case, link) in [
        ("20 Mbit/s", Link::Steady(20)),
        ("80 Mbit/s", Link::Steady(80)),
        ("4g-lte", Link::Trace(Preset::Lte4g)),
    ] {
        add(case, Run { link, ..scalable.clone() });
        add(case, Run { link, ..accurate.clone() });
        let ect0 = Way::Accelerated(ClientEcn::Ect0);
        add(case, Run { link, way: ect0, ..accurate.clone() });
    }
    for beside in [Hosts::Scalable, Hosts::Classic] {
        let case = "20 Mbit/s, beside";
        add(case, Run { beside: vec![beside], ..scalable.clone() });
        add(case, Run { beside: vec![beside], ..accurate.clone() });
    }
    // A bottleneck that takes ECT(1) for classic (RFC 9331 §4.3, RFC 3168): one queue for all.
    let one_queue = Run { aqm: codel(), beside: vec![Hosts::Classic], ..accurate };
    let case = "20 Mbit/s, CoDel, beside";
    add(case, Run { aqm: codel(), beside: vec![Hosts::Classic], ..scalable });
    add(case, one_queue);
    lines
}

fn main() {
    println!("{{\n  \"schema\": \"cellerator/marking-queues/1\",\n  \"seeds\": {SEEDS},");
    println!("  \"alone\": [\n{}\n  ],", alone().join(",\n"));
    println!("  \"scalable\": [\n{}\n  ]\n}}", as_scalable().join(",\n"));
}
