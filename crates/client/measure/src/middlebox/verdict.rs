//! [`verdict`]: what all findings say together, in one sentence.

use std::collections::BTreeSet;

use super::{CheckOutcome, Finding, MiddleboxDocument};
use crate::verdict::sentence;

/// Findings that are named; of more the table below tells.
const NAMED_MAX: usize = 3;

/// Findings of one test that say the same, with their ports.
#[derive(Debug)]
pub(crate) struct Group<'a> {
    pub(crate) test: &'static str,
    pub(crate) outcome: CheckOutcome,
    pub(crate) verdict: &'a str,
    pub(crate) findings: Vec<&'a Finding>,
}

impl Group<'_> {
    /// Its ports, as a list.
    pub(crate) fn ports(&self) -> String {
        self.findings.iter().map(|finding| finding.port.to_string()).collect::<Vec<_>>().join(" ")
    }
}

/// All findings, those of a test that say the same together; in the order of the tests.
pub(crate) fn groups(findings: &[Finding]) -> Vec<Group<'_>> {
    let mut groups: Vec<Group<'_>> = Vec::new();
    for finding in findings {
        let is_same = |group: &&mut Group<'_>| {
            (group.test, group.outcome, group.verdict)
                == (finding.test, finding.outcome, finding.verdict.as_str())
        };
        match groups.iter_mut().find(is_same) {
            Some(group) => group.findings.push(finding),
            None => groups.push(Group {
                test: finding.test,
                outcome: finding.outcome,
                verdict: &finding.verdict,
                findings: vec![finding],
            }),
        }
    }
    groups
}

/// Question of a test, in words.
pub(crate) fn question(test: &str) -> &'static str {
    match test {
        "reachable" => "does the port get through?",
        "split" => "is the connection split?",
        "handshake" => "who answers the handshake?",
        "cache" => "does a cache answer?",
        "time-to-live" => "time to live of SYN/ACK and data",
        "address" => "address and port",
        "sequence-numbers" => "sequence numbers",
        "payload" => "requests and answers",
        "mss" => "option MSS",
        "window-scale" => "option window scale",
        "sack" => "option SACK permitted",
        "timestamps" => "option timestamps",
        "mp-capable" => "option MPTCP, MP_CAPABLE",
        "mp-join" => "option MPTCP, MP_JOIN",
        "fast-open" => "option Fast Open",
        "unknown-option" => "option of no meaning (200)",
        "experiment-253" => "option for experiments (253)",
        "experiment-254" => "option for experiments (254)",
        "ecn" => "ECN",
        "accecn" => "accurate ECN",
        "refused-port" => "port where nobody listens",
        _ => "?",
    }
}

/// One sentence: what is blocked and splitting first, then what else was found, with its ports where not all have it.
pub(crate) fn verdict(document: &MiddleboxDocument) -> String {
    let all = groups(&document.findings);
    let tested: BTreeSet<u16> = document
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
    let of = |test: &'static str, outcome: CheckOutcome| {
        all.iter().filter(move |group| (group.test, group.outcome) == (test, outcome))
    };
    let mut clauses = Vec::new();
    clauses.extend(of("reachable", CheckOutcome::Found).map(|group| {
        let (word, verb) = if group.findings.len() == 1 { ("port", "is") } else { ("ports", "are") };
        let how = group.verdict.strip_prefix("blocked").unwrap_or_default();
        format!("{word} {} {verb} blocked on the way{how}", group.ports().replace(' ', ", "))
    }));
    clauses.extend(of("split", CheckOutcome::Found).map(|group| {
        format!(
            "connections are split {}: something in between acknowledges data before this machine does",
            at(group)
        )
    }));
    clauses.extend(of("split", CheckOutcome::Clear).map(|group| {
        let doubt = group.verdict.strip_prefix("not split").unwrap_or_default();
        format!("connections are whole, not split, {}{doubt}", at(group))
    }));
    clauses.extend(
        of("split", CheckOutcome::Unknown)
            .map(|group| format!("whether connections are split is not known {}", at(group))),
    );
    let is_other = |group: &&Group<'_>| !["split", "reachable"].contains(&group.test);
    let others: Vec<&Group<'_>> =
        all.iter().filter(is_other).filter(|group| group.outcome == CheckOutcome::Found).collect();
    if !others.is_empty() {
        clauses.push(format!("changed on the way: {}", changed(&others, at)));
    } else if all.iter().filter(is_other).any(|group| group.outcome == CheckOutcome::Clear) {
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_says_the_same_stands_together() {
        let finding = |port, test, verdict: &str| Finding {
            port,
            test,
            outcome: CheckOutcome::Clear,
            verdict: verdict.to_owned(),
            evidence: String::new(),
        };
        let findings = [
            finding(80, "split", "split"),
            finding(443, "split", "not split"),
            finding(22, "split", "split"),
        ];
        let told: Vec<(String, String)> =
            groups(&findings).iter().map(|group| (group.verdict.to_owned(), group.ports())).collect();
        assert_eq!(
            told,
            [("split".to_owned(), "80 22".to_owned()), ("not split".to_owned(), "443".to_owned())]
        );
    }
}
