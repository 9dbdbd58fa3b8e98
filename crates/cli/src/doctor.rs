//! `cellerator doctor`.

use std::process::ExitCode;

use anyhow::Result;
use run::{Diagnosis, Finding, Health};

use crate::output::Words;

/// Something that `cellerator run` needs is missing.
const LACKING: u8 = 3;

/// Arguments of `cellerator doctor`.
#[derive(clap::Args)]
pub struct Args {
    /// Interfaces to look at; of two, the first one leads to the servers
    #[arg(value_name = "INTERFACE")]
    interfaces: Vec<String>,
    /// Print JSON (schemas/doctor.schema.json)
    #[arg(long)]
    json: bool,
}

/// Runs `cellerator doctor`; an error is one clear line: what, where, what to do.
///
/// The exit code is 0 if `cellerator run` can work here, 3 if something that it needs is missing, 1 if this
/// cannot be found out, and 2 for wrong arguments.
pub fn main(args: &Args) -> Result<ExitCode> {
    let diagnosis = run::examine(&args.interfaces)?;
    let words = Words::default();
    if args.json {
        words.say(&serde_json::to_string_pretty(&diagnosis)?);
    } else {
        words.say(&text(&diagnosis));
    }
    Ok(if diagnosis.verdict == Health::Missing { ExitCode::from(LACKING) } else { ExitCode::SUCCESS })
}

/// A line for each finding; what is not good has two more: what it means, and what mends it.
fn text(diagnosis: &Diagnosis) -> String {
    let Diagnosis { version, kernel, verdict, findings, .. } = diagnosis;
    let width = findings.iter().map(|finding| finding.subject.chars().count()).max().unwrap_or(0);
    let line = |finding: &Finding| {
        let Finding { subject, health, found, means, mend } = finding;
        let mut line = format!("  {:<8} {subject:<width$}  {found}", health.name());
        if !means.is_empty() {
            line += &format!("\n{:13}{means}", "");
        }
        if !mend.is_empty() {
            line += &format!("\n{:13}mend: {mend}", "");
        }
        line
    };
    let conclusion = match verdict {
        Health::Good => "nothing is lacking",
        Health::Limited => "it works, with limits",
        Health::Missing => "something that `cellerator run` needs is missing",
        Health::Unknown => "unknown",
    };
    let lines: Vec<String> = findings.iter().map(line).collect();
    format!("cellerator {version} on Linux {kernel}: {conclusion}\n{}", lines.join("\n"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_lack_has_lines_for_what_it_means_and_what_mends_it() {
        let finding = |subject: &str, health, texts: [&str; 3]| {
            let [found, means, mend] = texts.map(str::to_owned);
            Finding { subject: subject.to_owned(), health, found, means, mend }
        };
        let diagnosis = Diagnosis {
            version: "1".to_owned(),
            kernel: "6.1".to_owned(),
            interfaces: Vec::new(),
            verdict: Health::Limited,
            findings: vec![
                finding("tcx", Health::Good, ["there", "", ""]),
                finding("MPTCP", Health::Limited, ["off", "nothing to steer", "sysctl -w x=1"]),
            ],
        };
        let wanted = "cellerator 1 on Linux 6.1: it works, with limits\n  good     tcx    there\n  \
                      limited  MPTCP  off\n             nothing to steer\n             mend: sysctl -w x=1";
        assert_eq!(text(&diagnosis), wanted);
    }
}
