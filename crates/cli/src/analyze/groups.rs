//! `--group NAME=FILES … --compare`: environments against each other.

use std::path::{Path, PathBuf};
use std::process::ExitCode;

use analysis::{Findings, FlowReport, MadeBy, Sink};
use anyhow::{Context, Result, bail};
use report::{CapturePage, Dataset, Environment, comparison};

use super::inputs::{Input, inputs};
use super::outputs::check;
use super::{Args, command, outcome, print, read_from};

/// Counts into an environment, and into the report if there is one.
struct Counted<'a> {
    environment: &'a mut Environment,
    page: Option<&'a mut CapturePage>,
    stored: Option<Dataset>,
    flows: u64,
}

impl Sink for Counted<'_> {
    fn on_flow(&mut self, flow: &FlowReport) {
        self.flows += 1;
        self.environment.push(flow);
        if let Some(page) = &mut self.page {
            page.on_flow(flow);
        }
        if let Some(stored) = &mut self.stored {
            stored.on_flow(flow);
        }
    }
    fn on_event(&mut self, event: &analysis::Event) {
        if let Some(page) = &mut self.page {
            page.on_event(event);
        }
        if let Some(stored) = &mut self.stored {
            stored.on_event(event);
        }
    }
    fn wants_packets(&self) -> bool {
        self.page.is_some() || self.stored.is_some()
    }
    fn on_packet(&mut self, packet: &analysis::PacketView<'_>) {
        if let Some(page) = &mut self.page {
            page.on_packet(packet);
        }
        if let Some(stored) = &mut self.stored {
            stored.on_packet(packet);
        }
    }
}

/// Runs the comparison: each capture is a sample of its own.
pub(super) fn compare(args: &Args) -> Result<ExitCode> {
    let mut page = args.html.is_some().then(CapturePage::new);
    let mut all = Findings::default();
    let mut environments = Vec::new();
    let (mut first_flow, mut quic_flows) = (0, 0);
    let made_by = MadeBy { cellerator: env!("CARGO_PKG_VERSION").to_owned(), command: command() };
    for group in &args.group {
        let (name, pattern) = group
            .split_once('=')
            .with_context(|| format!("{group:?}: a group is NAME=FILES, as wifi=a*.pcap"))?;
        let mut environment = Environment::new(name.to_owned());
        if let Some(page) = &mut page {
            page.group(name);
        }
        for path in files(pattern)? {
            environment.begin(path.display().to_string());
            let input = Input::File(path);
            check(args, std::slice::from_ref(&input))?;
            let stored = match &args.parquet {
                Some(root) => {
                    let captures = vec![(input.identity()?, capture::CaptureSource::name(&input))];
                    let dataset = Dataset::new(root, name, captures, &made_by);
                    Some(dataset.starting_at(first_flow))
                }
                None => None,
            };
            let counted = Counted { environment: &mut environment, page: page.as_mut(), stored, flows: 0 };
            let (counted, findings) = read_from(args, vec![input], counted, first_flow)?;
            first_flow += counted.flows;
            if let (Some(stored), Some(root)) = (counted.stored, &args.parquet) {
                stored.finish(&findings).with_context(|| format!("{}: writing failed", root.display()))?;
            }
            quic_flows += findings.udp.quic_flows;
            all.captures.extend(findings.captures);
            all.mptcp.extend(findings.mptcp);
        }
        environments.push(environment);
    }
    let text = match args.json {
        true => as_json(&environments, &made_by, &all)?,
        false => comparison(&environments),
    };
    print(text.as_bytes())?;
    if quic_flows > 0 {
        eprintln!("cellerator: QUIC flows are not compared, but TCP alone: {quic_flows} are left out");
    }
    if let (Some(page), Some(path)) = (page, &args.html) {
        let file = std::fs::File::create(path).with_context(|| path.display().to_string())?;
        let mut out = std::io::BufWriter::new(file);
        page.write(&mut out, &made_by, &all)
            .and_then(|()| std::io::Write::flush(&mut out))
            .with_context(|| format!("{}: writing failed", path.display()))?;
    }
    Ok(outcome(&all.captures))
}

/// Every sample, run and value behind the tables.
fn as_json(environments: &[Environment], made_by: &MadeBy, all: &Findings) -> Result<String> {
    let document = serde_json::json!({
        "schema": "cellerator/comparison/1",
        "made_by": made_by,
        "captures": all.captures,
        "environments": environments,
    });
    Ok(serde_json::to_string_pretty(&document)? + "\n")
}

/// The files of a group: names, folders and patterns with `*` and `?` in the last part, separated by commas.
fn files(patterns: &str) -> Result<Vec<PathBuf>> {
    let mut found = Vec::new();
    for pattern in patterns.split(',') {
        let path = Path::new(pattern);
        let name = path.file_name().map(|name| name.to_string_lossy().into_owned()).unwrap_or_default();
        if !name.contains(['*', '?']) {
            let named = inputs(&[path.to_owned()])?;
            found.extend(named.into_iter().filter_map(Input::into_path));
            continue;
        }
        let folder = match path.parent() {
            Some(parent) if !parent.as_os_str().is_empty() => parent,
            _ => Path::new("."),
        };
        let entries = std::fs::read_dir(folder).with_context(|| folder.display().to_string())?;
        let mut fitting: Vec<PathBuf> = entries
            .filter_map(|entry| Some(entry.ok()?.path()))
            .filter(|file| file.is_file())
            .filter(|file| file.file_name().is_some_and(|n| fits(&name, &n.to_string_lossy())))
            .collect();
        if fitting.is_empty() {
            bail!("{pattern}: no file fits");
        }
        fitting.sort();
        found.extend(fitting);
    }
    Ok(found)
}

/// True when `name` fits `pattern`, in which `*` stands for anything and `?` for one character.
fn fits(pattern: &str, name: &str) -> bool {
    let mut rest = name.chars();
    match pattern.chars().next() {
        None => name.is_empty(),
        Some('*') => {
            let after = &pattern[1..];
            name.char_indices().map(|(at, _)| at).chain([name.len()]).any(|at| fits(after, &name[at..]))
        }
        Some(wanted) => {
            let found = rest.next();
            (wanted == '?' && found.is_some() || found == Some(wanted))
                && fits(&pattern[wanted.len_utf8()..], rest.as_str())
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn patterns() {
        assert!(fits("a*.pcap", "a.pcap") && fits("a*.pcap", "abc.pcap") && fits("*", ""));
        assert!(fits("a?c", "abc") && !fits("a?c", "ac"));
        assert!(!fits("a*.pcap", "b.pcap") && !fits("a*.pcap", "a.pcap.gz"));
    }
}
