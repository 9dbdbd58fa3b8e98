//! [WA] Fig 4: the trace of sequence numbers around a fall of the bandwidth.

use crate::{Axis, Figure, Mark, Point, Run, SeenPacket, Series, Source};

/// Seconds drawn: the fall at 50 s, of which the paper's text speaks, and the rise behind it.
const SHOWN: (f64, f64) = (45.0, 65.0);
/// Data of a packet of 1,500 bytes without options, as the paper counts packets.
const DATA: f64 = 1_460.0;

/// Figure of the segments that the sender of a run sends, of acknowledgements and of drops by the full queue;
/// empty without a capture.
pub(super) fn figure(run: Option<&Run>) -> Figure {
    let captured = || run.into_iter().flat_map(|run| &run.seen.packets);
    let packets = || captured().filter(|p| p.at_s >= SHOWN.0 && p.at_s <= SHOWN.1);
    let data = |packet: &&SeenPacket| packet.is_down && packet.payload > 0;
    let start = captured().find(data).map_or(0, |first| first.position);
    let number = |position: u64| position.saturating_sub(start) as f64 / DATA;
    let point = |packet: &SeenPacket| Point::new(packet.at_s, number(packet.position));
    let sent = || packets().filter(data);
    let acknowledged = packets().filter(|p| !p.is_down);
    let again = sent().filter(|p| p.is_retransmission).map(point).collect();
    let acknowledged: Vec<Point> =
        acknowledged.filter_map(|p| Some(Point::new(p.at_s, number(p.ack?)))).collect();
    let sent: Vec<Point> = sent().filter(|p| !p.is_retransmission).map(point).collect();
    let is_shown = |p: &&SeenPacket| p.at_s >= SHOWN.0 && p.at_s <= SHOWN.1;
    let lost = run.into_iter().flat_map(dropped).filter(is_shown).map(point).collect();
    let least = sent.iter().chain(&acknowledged).map(|point| point.y).fold(f64::INFINITY, f64::min);
    let series = |name, mark, points| Series::new(name, Source::Ours, mark, points);
    let floor = if least.is_finite() { (least / 50.0).floor() * 50.0 } else { 0.0 };
    Figure::new("sequence", Axis::linear_from("seconds", SHOWN.0)).panel(
        Axis::linear_from("packet number", floor),
        vec![
            series("sent", Mark::Line, sent),
            series("acknowledged", Mark::Line, acknowledged),
            series("sent again", Mark::Crosses, again),
            series("dropped", Mark::Dots, lost),
        ],
    )
}

/// The packets of a capture at the server that the radio link lost. The wired link between them keeps
/// the order and loses nothing, so that both saw the same packets one behind the other.
fn dropped(run: &Run) -> impl Iterator<Item = &SeenPacket> {
    let mut lost = run.radio.lost.iter().peekable();
    let down = (0..).zip(run.seen.packets.iter().filter(|packet| packet.is_down));
    down.filter(move |(number, _)| lost.next_if_eq(&number).is_some()).map(|(_, packet)| packet)
}
