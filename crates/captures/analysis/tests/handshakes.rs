//! Handshakes of which a part was sent again: how long they took, and where the capture was made.

use crate::made::{Tape, With};
use analysis::Direction::FromFirst;
use analysis::{FlowReport, Vantage};
use wire::TcpFlags;

/// Milliseconds from SYN to SYN-ACK and from SYN-ACK to ACK.
fn halves(flow: &FlowReport) -> [Option<f64>; 2] {
    [flow.handshake.to_server_ms, flow.handshake.to_client_ms]
}

/// A tape without timestamps: end and microseconds of SYNs (end 0), SYN-ACKs (end 1), then the ACK.
fn opened(handshake: &[(usize, u64)], ack_us: u64) -> Tape {
    let mut tape = Tape::new();
    let syn = With { flags: TcpFlags::SYN, ..With::default() };
    for &(end, us) in handshake {
        tape.send(us, end, 0, end as u32, 0, &syn);
    }
    tape.send(ack_us, 0, 1, 1, 0, &With::default());
    tape
}

#[test]
fn a_syn_ack_sent_twice_is_no_long_way_to_the_server() {
    // Beside the server: its first SYN-ACK was lost, the second is answered after 40 ms.
    let tape = opened(&[(0, 0), (1, 10), (1, 1_000_010)], 1_040_010);
    let flow = tape.flow();
    assert_eq!(halves(&flow), [Some(0.01), None], "which of the two was answered is not known");
    assert_eq!((flow.handshake.total_ms, flow.vantage), (None, Some(Vantage::Second)));
    assert_eq!((flow.client, flow.handshake.syn_acks), (Some(FromFirst), 2));
    // What the client sends later does not change that.
    let mut upload = tape.clone();
    for n in 0..4 {
        upload.data(1_050_000 + u64::from(n), n);
        upload.ack(1_050_020 + u64::from(n), n + 1, &[]);
    }
    assert_eq!(upload.flow().vantage, Some(Vantage::Second));
    // The client's own SYN came again meanwhile, too.
    let both = opened(&[(0, 0), (1, 10), (0, 1_000_000), (1, 1_000_010)], 1_040_010).flow();
    assert_eq!((halves(&both), both.vantage), ([Some(0.01), None], Some(Vantage::Second)));
}

#[test]
fn a_syn_ack_again_after_the_ack_changes_nothing() {
    // Beside the client: the ACK was lost behind this point, and the server asks again.
    let mut tape = opened(&[(0, 0), (1, 40_000)], 40_010);
    let syn_ack = With { flags: TcpFlags::SYN, ..With::default() };
    tape.send(1_040_000, 1, 0, 1, 0, &syn_ack);
    tape.send(1_040_010, 0, 1, 1, 0, &With::default());
    let flow = tape.flow();
    assert_eq!((halves(&flow), flow.vantage), ([Some(40.0), Some(0.01)], Some(Vantage::First)));
}

#[test]
fn a_syn_sent_twice_hides_the_way_to_the_server_alone() {
    let flow = opened(&[(0, 0), (0, 1_000_000), (1, 1_040_000)], 1_040_010).flow();
    assert_eq!((halves(&flow), flow.vantage), ([None, Some(0.01)], Some(Vantage::First)));
    // On the way to a server 20 ms away, the way to the client may be as long as it wants.
    let middle = opened(&[(0, 0), (1, 20_000), (1, 1_020_000)], 1_040_000).flow();
    assert_eq!((halves(&middle), middle.vantage), ([Some(20.0), None], None));
}
