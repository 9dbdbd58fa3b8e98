//! From what was kept of a case to its [`Figures`].

use std::borrow::Cow;

use link::PacketRecord;
use scenario::figures::{
    Neighbour, mbps, pings, radio as radio_figures, seconds, series, udp as udp_figures,
};
use scenario::results::{Distribution, Figures, Flow, Moved, Retransmissions, Transfer};
use scenario::segments::{self, Segment};
use scenario::{Kind, Workload};
use units::{Duration, Instant};

use crate::datagrams::DatagramLog;
use crate::emulator::Emulation;
use crate::origin::Content;
use crate::transfer::Outcome;

/// Everything known of a case that has ended.
pub struct Evidence<'a> {
    /// Records of the emulator.
    pub emulation: Emulation,
    /// Outcomes of the flows.
    pub outcomes: &'a [Outcome],
    /// Observations of source and sink of datagrams; none with TCP.
    pub datagrams: Option<DatagramLog>,
    /// Workload that was asked for.
    pub workload: &'a Workload,
    /// Content that was served.
    pub content: &'a Content,
    /// SHA-256 of every upload that the server got.
    pub uploaded: Vec<String>,
    /// `Tcp RetransSegs` of the sending host.
    pub resent_by_sender: u64,
    /// Time at which each ping alongside was sent, and its round-trip time.
    pub pings: Vec<(Instant, Duration)>,
    /// Time that each page alongside took, from its SYN to its last byte.
    pub pages: Vec<Duration>,
    /// Traffic beside the workload's flows.
    pub beside: Vec<Neighbour>,
}

/// Goodput in the second half of the case.
fn late_mbps(outcome: &Outcome, began: Instant, ended: Instant) -> f64 {
    let middle = began + ended.saturating_since(began) / 2;
    let before =
        outcome.marks.iter().take_while(|(at, _)| *at <= middle).last().map_or(0, |(_, bytes)| *bytes);
    mbps(outcome.bytes.saturating_sub(before), ended.saturating_since(middle))
}

impl Evidence<'_> {
    /// The radio direction that carries the data: index into records, and into links after the two
    /// of the WAN.
    fn data(&self) -> usize {
        usize::from(self.workload.kind() == Kind::Upload)
    }

    /// Record of each packet on the radio link in the direction of the data.
    #[must_use]
    pub fn radio(&self) -> &[PacketRecord] {
        &self.emulation.records[self.data()]
    }

    /// Computes the figures.
    #[must_use]
    pub fn figures(self) -> Figures {
        let began = self.outcomes.iter().map(|o| o.started).min().unwrap_or_default();
        let ended = self.outcomes.iter().map(|o| o.ended).max().unwrap_or_default();
        let data = self.data();
        let link = &self.emulation.links[2 + data];
        let records = &self.emulation.records[data];
        let [data_segments, ack_segments] = [data, 1 - data].map(|way| self.own_segments(way));
        let (segments, over_radio) = segments::repeats(&data_segments);
        let marks: Vec<&[(Instant, u64)]> = self.outcomes.iter().map(|o| o.marks.as_slice()).collect();
        let series = series(|from, to| link.offered_bytes(from, to), records, &marks, began, ended);
        let beside = self.beside.iter().map(|one| one.figures(&marks, (began, ended), &series)).collect();
        let udp = self.datagrams.as_ref();
        let udp = udp.map(|log| udp_figures((log.sent, log.received), &log.round_trips, began, &series));
        let radio = radio_figures(|from, to| link.offered_bytes(from, to), records, began, ended);
        let mut ping_ms: Vec<f64> = self.pings.iter().map(|(_, time)| time.as_millis_f64()).collect();
        let mut page_ms: Vec<f64> = self.pages.iter().map(|time| time.as_millis_f64()).collect();
        let moved = Moved {
            path_rtt_ms: self.emulation.path_rtt.as_millis_f64(),
            seconds: ended.saturating_since(began).as_secs_f64(),
            lost: radio.dropped_full + radio.dropped_loss,
            has_round_trips: !self.pings.is_empty() || udp.as_ref().is_some_and(|udp| udp.rtt_ms.is_some()),
        };
        Figures {
            transfer: self.transfer(began, ended),
            radio,
            window: segments::window(&ack_segments, &data_segments),
            retransmissions: Retransmissions { by_sender: self.resent_by_sender, over_radio, segments },
            series,
            timing: self.emulation.timing.clone().judged(moved),
            ping_ms: Distribution::of(&mut ping_ms),
            pings: pings(&self.pings, began),
            response_ms: Distribution::of(&mut page_ms),
            udp,
            beside,
        }
    }

    /// TCP segments of the workload's flows that entered the radio link, towards the client or from it.
    fn own_segments(&self, way: usize) -> Cow<'_, [Segment]> {
        let all = &self.emulation.segments[way];
        match self.beside.as_slice() {
            [] => Cow::Borrowed(all),
            _ => Cow::Owned(segments::of_ports(all, self.workload.own_ports())),
        }
    }

    fn transfer(&self, began: Instant, ended: Instant) -> Transfer {
        let mut uploaded = self.uploaded.clone();
        let mut flows: Vec<Flow> = Vec::new();
        for outcome in self.outcomes {
            let sha256_received = match self.workload.kind() {
                Kind::Download | Kind::Request | Kind::Udp => outcome.sha256.clone(),
                // Uploads are all of the same content: each flow takes one that came out right, if
                // there is one.
                Kind::Upload => {
                    let right = uploaded.iter().position(|hash| *hash == self.content.sha256).unwrap_or(0);
                    if uploaded.is_empty() { String::new() } else { uploaded.swap_remove(right) }
                }
            };
            let time = outcome.ended.saturating_since(outcome.started);
            flows.push(Flow {
                start_s: seconds(outcome.started.saturating_since(began)),
                first_byte_s: outcome.first_byte.map(|at| seconds(at.saturating_since(began))),
                end_s: seconds(outcome.ended.saturating_since(began)),
                received_bytes: outcome.bytes,
                goodput_mbps: mbps(outcome.bytes, time),
                late_mbps: Some(late_mbps(outcome, began, ended)),
                sha256_served: self.content.sha256.clone(),
                sha256_received,
                error: outcome.error.clone(),
            });
        }
        let received_bytes = self.outcomes.iter().map(|o| o.bytes).sum();
        let time = ended.saturating_since(began);
        Transfer {
            expected_bytes: self.workload.expected().get().saturating_mul(self.outcomes.len() as u64),
            received_bytes,
            seconds: seconds(time),
            goodput_mbps: mbps(received_bytes, time),
            hashes_equal: flows.iter().all(|f| f.sha256_served == f.sha256_received && f.error.is_none()),
            cut_short: self.outcomes.iter().any(|o| o.is_cut_short),
            flows,
        }
    }
}
