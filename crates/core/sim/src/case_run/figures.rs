//! Figures of a case from a network that has run.

use link::PacketRecord;
use scenario::figures::{mbps, pings, radio, seconds, series, udp};
use scenario::results::{Distribution, Figures, Flow, Retransmissions, Simulation, Timing, Transfer};
use scenario::{Case, Kind, Workload, segments};
use units::{Bytes, Duration, Instant};

use super::{CaseOutcome, beside};
use crate::{DatagramLog, Ending, Endpoint, MiddleboxUnderTest, Network};

/// The endpoint that gets the data, and the one that sends it.
fn roles<'a>(
    workload: &Workload,
    server: &'a Endpoint,
    client: &'a Endpoint,
) -> (&'a Endpoint, &'a Endpoint) {
    if workload.kind() == Kind::Upload { (server, client) } else { (client, server) }
}

/// Bytes that have arrived so far.
pub(super) fn received<M: MiddleboxUnderTest>(network: &Network<M>, workload: &Workload) -> u64 {
    let flows = network.servers().iter().zip(network.clients()).take(network.own_flows());
    let datagrams = network.datagrams().map_or(0, |log| log.received * workload.datagram().get());
    flows.map(|(server, client)| roles(workload, server, client).0.bytes_read()).sum::<u64>() + datagrams
}

/// Evidence of a case besides its network.
pub(super) struct Evidence<'a> {
    pub case: &'a Case,
    pub limit: Instant,
    /// The rule that was broken.
    pub broken: Option<String>,
}

impl Evidence<'_> {
    pub(super) fn outcome<M: MiddleboxUnderTest>(self, network: &mut Network<M>) -> CaseOutcome {
        let (figures, radio) = self.figures(network);
        let outcome = network.outcome();
        let flows = 0..network.servers().len();
        let simulation = Simulation {
            simulated_s: seconds(outcome.ended_at.saturating_since(Instant::ZERO)),
            packets: outcome.packets,
            log_hash: format!("{:016x}", outcome.log_hash),
            debt_max_bytes: outcome.debt_max.get(),
            accelerated_flows: flows.filter(|flow| network.is_accelerated(*flow)).count() as u64,
        };
        let problems = self.problems(&figures);
        let (doubts, log) = (figures.doubts(self.case), network.log().text().to_owned());
        CaseOutcome { figures, simulation, problems, doubts, log, radio }
    }

    fn figures<M: MiddleboxUnderTest>(&self, network: &mut Network<M>) -> (Figures, Vec<PacketRecord>) {
        let workload = &self.case.workload;
        let data = usize::from(workload.kind() == Kind::Upload);
        let mut noted = network.take_segments();
        if !workload.beside().is_empty() {
            noted = noted.map(|segments| segments::of_ports(&segments, workload.own_ports()));
        }
        let (data_segments, ack_segments) = (&noted[data], &noted[1 - data]);
        let (segments, over_radio) = segments::repeats(data_segments);
        let mut flows = self.flows(network);
        flows.extend(network.datagrams().map(|log| self.datagram_flow(log)));
        let began = flows.iter().map(|f| f.began).min().unwrap_or_default();
        let ended = flows.iter().map(|f| f.ended).max().unwrap_or_default();
        let mut records = Vec::new();
        for index in 0..usize::from(workload.clients()) {
            let path = if data == 0 { network.radio_down(index) } else { network.radio_up(index) };
            records.extend(path.map(|path| path.link_mut().take_log()).unwrap_or_default());
        }
        let network = &*network;
        let offered = |from: Instant, to: Instant| {
            let all =
                (0..usize::from(workload.clients())).filter_map(|index| network.radio(index, data == 0));
            all.map(|path| path.link().offered_bytes(from, to)).fold(Bytes::ZERO, |sum, bytes| sum + bytes)
        };
        let hosts = || network.servers().iter().zip(network.clients()).take(network.own_flows());
        let senders = hosts().map(|(server, client)| roles(workload, server, client).1);
        let mut marks: Vec<&[(Instant, u64)]> =
            hosts().map(|(server, client)| roles(workload, server, client).0.progress().marks).collect();
        marks.extend(network.datagrams().map(|log| log.marks.as_slice()));
        let times = hosts().flat_map(|(_, client)| client.response_times());
        let series = series(offered, &records, &marks, began, ended);
        let beside = beside::neighbours(self.case, network, self.limit);
        let beside = beside.iter().map(|one| one.figures(&marks, (began, ended), &series)).collect();
        let figures = Figures {
            transfer: self.transfer(&flows, began, ended),
            radio: radio(offered, &records, began, ended),
            window: segments::window(ack_segments, data_segments),
            retransmissions: Retransmissions {
                by_sender: senders.map(|sender| sender.stats().retransmitted_segments).sum(),
                over_radio,
                segments,
            },
            ping_ms: distribution(network.round_trips().iter().map(|(_, time)| time)),
            pings: pings(network.round_trips(), began),
            response_ms: distribution(times),
            udp: network
                .datagrams()
                .map(|log| udp((log.sent, log.received), &log.round_trips, began, &series)),
            beside,
            timing: Timing { trustworthy: true, ..Timing::default() },
            series,
        };
        (figures, records)
    }

    /// Source and sink of datagrams, seen as a flow: it ends when the last one has arrived, or
    /// would have been sent.
    fn datagram_flow(&self, log: &DatagramLog) -> FlowEnd {
        let workload = &self.case.workload;
        let bytes = log.received.saturating_mul(workload.datagram().get());
        let sent_until = Instant::ZERO + workload.length();
        FlowEnd {
            began: Instant::ZERO,
            first: log.marks.first().map(|(at, _)| *at),
            ended: log.last.map_or(sent_until, |last| last.max(sent_until)),
            bytes,
            // Nobody asks for what is lost.
            is_whole: log.sent.saturating_mul(workload.datagram().get()) == workload.expected().get(),
            is_reset: false,
            error: None,
        }
    }

    fn flows<M: MiddleboxUnderTest>(&self, network: &Network<M>) -> Vec<FlowEnd> {
        let workload = &self.case.workload;
        let hosts = network.servers().iter().zip(network.clients()).take(network.own_flows());
        let one = |(server, client): (&Endpoint, &Endpoint)| {
            let (receiver, sender) = roles(workload, server, client);
            let progress = receiver.progress();
            let is_whole = receiver.bytes_read() == sender.config().app.total();
            let began = match client.config().role {
                crate::Role::Connects(at) => at,
                crate::Role::Listens | crate::Role::Refuses => Instant::ZERO,
            };
            let is_reset = [server, client].iter().any(|host| host.ending() == Some(Ending::Aborted));
            let error = match (receiver.first_wrong_offset(), receiver.ending()) {
                (Some(offset), _) => Some(format!("byte {offset} is not the one that was sent")),
                (None, Some(ending)) if !is_whole && !is_reset => {
                    Some(format!("the connection ended: {ending:?}"))
                }
                _ => None,
            };
            FlowEnd {
                began,
                first: progress.first,
                ended: progress.last.filter(|_| is_whole).unwrap_or(network.now()).max(began),
                bytes: receiver.bytes_read(),
                is_whole,
                is_reset,
                error,
            }
        };
        hosts.map(one).collect()
    }

    fn transfer(&self, flows: &[FlowEnd], began: Instant, ended: Instant) -> Transfer {
        let since = |at: Instant| seconds(at.saturating_since(began));
        let one = |flow: &FlowEnd| Flow {
            start_s: since(flow.began),
            first_byte_s: flow.first.map(since),
            end_s: since(flow.ended),
            received_bytes: flow.bytes,
            late_mbps: None,
            goodput_mbps: mbps(flow.bytes, flow.ended.saturating_since(flow.began)),
            error: flow.error.clone(),
            ..Flow::default()
        };
        let received_bytes = flows.iter().map(|flow| flow.bytes).sum();
        Transfer {
            expected_bytes: self.case.workload.expected().get().saturating_mul(flows.len() as u64),
            received_bytes,
            seconds: seconds(ended.saturating_since(began)),
            goodput_mbps: mbps(received_bytes, ended.saturating_since(began)),
            hashes_equal: flows.iter().all(|f| f.error.is_none() && (f.is_whole || f.is_reset)),
            cut_short: ended >= self.limit || flows.iter().any(FlowEnd::is_cut_short),
            flows: flows.iter().map(one).collect(),
        }
    }

    /// Results that are not as they must be, one clause each.
    fn problems(&self, figures: &Figures) -> Vec<String> {
        let mut problems: Vec<String> = self.broken.clone().into_iter().collect();
        problems.extend(figures.problems(self.case));
        problems
    }
}

/// End of one flow.
struct FlowEnd {
    began: Instant,
    first: Option<Instant>,
    ended: Instant,
    bytes: u64,
    is_whole: bool,
    /// One of its hosts aborted it, as it was told to.
    is_reset: bool,
    error: Option<String>,
}

impl FlowEnd {
    fn is_cut_short(&self) -> bool {
        !self.is_whole && !self.is_reset && self.error.is_none()
    }
}

fn distribution<'a>(times: impl Iterator<Item = &'a Duration>) -> Option<Distribution> {
    let mut values: Vec<f64> = times.map(|time| time.as_millis_f64()).collect();
    Distribution::of(&mut values)
}
