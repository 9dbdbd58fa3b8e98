//! The report of a flow that is taken for QUIC.

use units::Duration;

use super::{QuicFlow, Way};
use crate::direction::{Direction, PerDirection};
use crate::quic::report::{
    CourseReport, FlowletReport, PauseReport, QuicDirection, QuicEvidence, QuicFlowReport, QuicHandshake,
    QuicInferred, QuicVersion, SpinReport,
};
use crate::quic::spin::SpinState;
use crate::report::summary;
use crate::samples::Samples;

impl QuicFlow {
    /// The report of a flow taken for QUIC because of `recognized_by`.
    pub(crate) fn report(&self, recognized_by: QuicEvidence) -> QuicFlowReport {
        let [first, second] = self.opened;
        QuicFlowReport {
            id: self.number,
            point: self.point,
            capture: self.capture,
            first,
            second,
            start_ns: self.start.as_nanos(),
            duration_s: self.last.saturating_since(self.start).as_secs_f64(),
            is_tunnelled: self.is_tunnelled,
            recognized_by,
            version_offered: self.offered.map(QuicVersion::of),
            version: self.version.map(QuicVersion::of),
            connection_id_bytes: PerDirection::each(|way| self.chosen[way].map(|id| id.len() as u64)),
            directions: PerDirection::each(|direction| way_report(&self.ways[direction])),
            pauses: PauseReport {
                count: self.pauses.count,
                total_ms: self.pauses.total.as_millis_f64(),
                longest_ms: self.pauses.longest.as_millis_f64(),
            },
            course: CourseReport {
                bin_ms: self.course.width().as_millis_f64(),
                bytes: Direction::BOTH.map(|direction| self.course.bytes(direction)),
            },
            inferred: inferred(self),
        }
    }
}

fn way_report(way: &Way) -> QuicDirection {
    let seconds = way.span.duration().map(Duration::as_secs_f64).filter(|seconds| *seconds > 0.0);
    QuicDirection {
        datagrams: way.datagrams,
        duplicates: way.duplicates,
        ip_bytes: way.ip_bytes,
        payload_bytes: way.payload_bytes,
        payload_max: way.payload_max,
        packets: way.packets,
        ect: way.ect,
        ce: way.ce,
        active_bps: seconds.map(|seconds| way.payload_bytes as f64 * 8.0 / seconds),
    }
}

fn inferred(flow: &QuicFlow) -> QuicInferred {
    let handshake = &flow.handshake;
    let ms = |time: Option<Duration>| time.map(Duration::as_millis_f64);
    let is_one = flow.connections <= 1;
    // IDs of another length than the handshake's look like a new one in every packet.
    let changes = |direction: Direction| {
        let is_known = flow.chosen[direction.reverse()].is_some_and(|id| id.len() > 0);
        let changes = flow.id_changes[direction];
        let is_plausible = changes <= 8 || changes * 4 <= flow.ways[direction].packets.short;
        Some(changes).filter(|_| is_known && is_plausible && is_one)
    };
    QuicInferred {
        client: flow.client,
        connections: flow.connections.max(1),
        handshake: QuicHandshake {
            to_server_ms: ms(handshake.to_server()).filter(|_| is_one),
            to_client_ms: ms(handshake.to_client()).filter(|_| is_one),
            total_ms: ms(handshake.total()).filter(|_| is_one),
            complete_ms: ms(handshake.complete()).filter(|_| is_one),
        },
        spin: is_one.then(|| spin(flow)),
        flowlets: is_one.then(|| flowlets(flow)),
        connection_id_changes: PerDirection::each(changes),
        moves: flow.moves.clone(),
        moves_left_out: flow.moves_left_out,
    }
}

fn spin(flow: &QuicFlow) -> SpinReport {
    let spin = &flow.spin;
    let state = spin.state();
    let of = |samples: &Samples<Duration>| summary(samples).filter(|_| state == SpinState::Spinning);
    SpinReport {
        state,
        packets: spin.packets(),
        edges: spin.edges(),
        refused: spin.refused(),
        rtt: of(spin.round_trips()),
        answers: PerDirection::each(|direction| of(spin.half(direction))),
    }
}

fn flowlets(flow: &QuicFlow) -> FlowletReport {
    let answers = PerDirection::each(|direction| summary(flow.pauses.answers(direction)));
    let [first, second] = answers.as_array().map(|answers| answers.map(|times| times.min_ms));
    FlowletReport { answers, rtt_min_ms: first.zip(second).map(|(first, second)| first + second) }
}
