//! [`describe`]: the network of a scenario in one line.

use scenario::{Beside, BesideKind, RadioDirection, Scenario};

/// Names capacity, queue and delay of each link, and what is sent.
pub fn describe(scenario: &Scenario) -> String {
    let mut parts = Vec::new();
    if let Some(down) = &scenario.radio.down {
        parts.push(format!("radio down {}", direction(down)));
    }
    if let Some(up) = &scenario.radio.up {
        parts.push(format!("up {}", direction(up)));
    }
    let wan = &scenario.wan;
    let mut wired = wan.rate.map_or("unlimited".to_owned(), |q| q.to_string());
    if let Some(delay) = wan.delay {
        wired += &format!(", {delay} each way");
    }
    parts.push(format!("wired segment {wired}"));
    if let Some(rmem) = scenario.client.rmem() {
        parts.push(format!("client tcp_rmem {rmem}"));
    }
    let size = scenario::Quantity(scenario.workload.size());
    let flows = scenario.workload.flows();
    parts.push(if flows == 1 { format!("file of {size}") } else { format!("{flows} flows of {size}") });
    if !scenario.workload.beside().is_empty() {
        let beside: Vec<String> = scenario.workload.beside().iter().map(beside).collect();
        parts.push(format!("beside it {}", beside.join(" and ")));
    }
    let mut line = parts.join("; ");
    line.push('.');
    line.replace_range(..1, &line[..1].to_uppercase());
    line
}

/// Traffic beside the workload's flows, as `2 × quic, bbr`.
fn beside(entry: &Beside) -> String {
    let mut text = match entry.flows() {
        flows if flows > 1 && entry.kind != BesideKind::Pages => format!("{flows} × {}", entry.kind.name()),
        _ => entry.kind.name().to_owned(),
    };
    if entry.kind.is_download() {
        text += &format!(", {}", entry.congestion_control().name());
    }
    text
}

fn direction(d: &RadioDirection) -> String {
    let mut text = match (&d.rate, &d.preset, &d.trace, &d.steps) {
        (Some(rate), ..) => rate.to_string(),
        (_, Some(preset), ..) => format!("synthetic {}", preset.as_str()),
        (_, _, Some(trace), _) => format!("trace {trace}"),
        (_, _, _, Some(steps)) => {
            steps.iter().map(|s| format!("{} for {}", s.rate, s.lasting)).collect::<Vec<_>>().join(" then ")
        }
        _ => "unlimited".to_owned(),
    };
    if let Some(queue) = d.queue {
        text += &format!(", queue {queue}");
    }
    if let Some(delay) = d.delay {
        text += &format!(", {delay}");
    }
    if let Some(loss) = d.loss {
        text += &format!(", loss {loss}");
    }
    text
}
