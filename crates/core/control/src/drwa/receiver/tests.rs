//! The window by hand. Servers behind one queue stand in `queue_tests.rs`.

use proptest::prelude::*;

use super::*;
use crate::{Drwa, DrwaParams};

pub(super) const MSS: u32 = 1_448;
pub(super) const ISN: u32 = 0xffff_0000;

pub(super) fn agreed(server: u8) -> Agreed {
    Agreed {
        remote_isn: SeqNum::new(ISN),
        syn_window: 64_240,
        scale: WindowScale::new(7),
        mss: 1_460,
        timestamps: true,
        remote: [server; 16],
    }
}

fn at(ms: u64) -> Instant {
    Instant::ZERO + Duration::from_secs(1_000) + Duration::from_millis(ms)
}

/// Window field that the application's window would allow: 8 MB.
pub(super) const OWN: u16 = 65_535;

/// One connection, with a server that answers each acknowledgement after `rtt_ms`.
struct Steps {
    drwa: ReceiverDrwa,
    path: SharedPath,
    now_ms: u64,
    next: SeqNum,
    clock: u32,
}

impl Steps {
    fn new(params: ReceiverParams) -> Self {
        Self::agreeing(params, agreed(1))
    }

    fn agreeing(params: ReceiverParams, agreed: Agreed) -> Self {
        let mut path = SharedPath::default();
        let drwa = ReceiverDrwa::new(params, agreed, None, at(0), &mut path);
        Self { drwa, path, now_ms: 0, next: SeqNum::new(ISN) + 1, clock: 0 }
    }

    fn ack(&mut self) -> u16 {
        self.clock += 1;
        let timestamp = Some(self.clock);
        let ack = AckOut { ack: self.next, window: OWN, timestamp, has_payload: false };
        self.drwa.on_ack(&ack, at(self.now_ms), &mut self.path)
    }

    /// `bytes` come `rtt_ms` after the last acknowledgement and are acknowledged; the window then.
    fn round(&mut self, bytes: u32, rtt_ms: u64) -> u64 {
        self.now_ms += rtt_ms;
        let data = DataIn { seq: self.next, len: bytes, echo: Some(self.clock) };
        self.drwa.on_data(&data, at(self.now_ms), &mut self.path);
        self.next += bytes;
        self.ack();
        self.drwa.window.unwrap_or(0)
    }
}

proptest! {
    /// Fed the same rounds, it has the same window as the box's.
    #[test]
    fn with_the_papers_parameters_it_is_the_papers_window(
        rounds in proptest::collection::vec((1_000u32..2_000_000, 10u64..900), 1..60),
    ) {
        // Round trips that look like pauses are none of the other's.
        let mut last = 900;
        let mut ours = Steps::new(ReceiverParams::paper());
        ours.ack();
        let mut theirs = Drwa::new(DrwaParams::paper(), Bytes::from(MSS));
        theirs.on_delivered(Bytes::ZERO, at(0));
        let mut total = 0;
        for (bytes, rtt_ms) in rounds {
            let rtt_ms = rtt_ms.min(2 * last);
            last = rtt_ms;
            total += u64::from(bytes);
            theirs.on_rtt(Duration::from_millis(rtt_ms));
            let window = ours.round(bytes, rtt_ms);
            theirs.on_delivered(Bytes::new(total), at(ours.now_ms));
            prop_assert_eq!(window, theirs.window().get());
        }
    }

    /// The right edge never moves back, whatever happens, and is never beyond the kernel's.
    #[test]
    fn the_kernels_window_is_never_exceeded(
        steps in proptest::collection::vec((0u32..100_000, 1u64..3_000, any::<u16>(), any::<bool>()), 1..200),
    ) {
        let mut run = Steps::new(ReceiverParams::default());
        let mut edge = run.drwa.edge();
        for (bytes, ms, own, has_payload) in steps {
            run.now_ms += ms;
            if bytes > 0 {
                let data = DataIn { seq: run.next, len: bytes, echo: Some(run.clock) };
                run.drwa.on_data(&data, at(run.now_ms), &mut run.path);
            }
            run.next += bytes;
            run.clock += ms as u32;
            let ack = AckOut { ack: run.next, window: own, timestamp: Some(run.clock), has_payload };
            let field = run.drwa.on_ack(&ack, at(run.now_ms), &mut run.path);
            prop_assert!(field <= own);
            let told = run.next + (u32::from(field) << 7);
            // Where it falls short of what was promised, the kernel's own does.
            prop_assert!(!told.is_before(edge) || field == own);
            edge = run.drwa.edge();
        }
    }
}

#[test]
fn at_least_two_segments_are_allowed() {
    let mut run = Steps::new(ReceiverParams::paper());
    run.ack();
    for _ in 0..100 {
        run.round(1, 100);
    }
    assert_eq!(run.drwa.window, Some(2 * u64::from(MSS)));
}

#[test]
fn without_timestamps_a_window_of_data_is_a_round_trip() {
    let params = ReceiverParams { without_timestamps: true, ..ReceiverParams::paper() };
    let mut run = Steps::new(params);
    run.ack();
    // 64,240 bytes were allowed with the SYN, 65,536 since: the first byte beyond tells.
    run.round(60_000, 50);
    assert_eq!(run.drwa.rtt_est_us, None);
    run.round(10_000, 50);
    assert_eq!((run.drwa.rtt_est_us, run.drwa.samples), (Some(100_000), 1));
}

#[test]
fn a_server_that_pauses_is_not_far_away() {
    let mut run = Steps::new(ReceiverParams::default());
    run.ack();
    for _ in 0..20 {
        run.round(50_000, 60);
    }
    let window = run.drwa.window;
    run.round(50_000, 5_000);
    assert_eq!((run.drwa.rtt_est_us, run.drwa.window), (Some(60_000), window));
    run.round(50_000, 60);
    assert_eq!(run.drwa.rtt_est_us, Some(60_000));
}

#[test]
fn what_carries_data_is_no_question() {
    let mut run = Steps::new(ReceiverParams::default());
    run.clock = 7;
    let request = AckOut { ack: run.next, window: OWN, timestamp: Some(7), has_payload: true };
    run.drwa.on_ack(&request, at(0), &mut run.path);
    assert_eq!(run.drwa.mark, None);
    run.ack();
    assert_eq!(run.drwa.mark.map(|mark| mark.told), Some(8));
}

/// Estimate after a handshake of `handshake_ms` behind the queue of 80 ms that a connection has seen until
/// 1080 ms, where data came `gap_ms` before its end, at `end_ms`.
fn behind_a_queue(server: u8, handshake_ms: u64, gap_ms: u64, end_ms: u64) -> u64 {
    let mut path = SharedPath::default();
    let ms = Duration::from_millis;
    let mut first = ReceiverDrwa::new(ReceiverParams::default(), agreed(1), Some(ms(40)), at(0), &mut path);
    let mut next = SeqNum::new(ISN) + 1;
    for step in 0..10u32 {
        let now = at(u64::from(step) * 120);
        first.on_data(&DataIn { seq: next, len: 50_000, echo: Some(step) }, now, &mut path);
        next += 50_000;
        let ack = AckOut { ack: next, window: OWN, timestamp: Some(step + 1), has_payload: false };
        first.on_ack(&ack, now, &mut path);
    }
    assert_eq!((first.rtt_est_us, first.rtt_min_us), (Some(120_000), Some(40_000)));
    first.on_data(&DataIn { seq: next, len: 1_000, echo: Some(10) }, at(end_ms - gap_ms), &mut path);
    let params = ReceiverParams::default();
    let late = ReceiverDrwa::new(params, agreed(server), Some(ms(handshake_ms)), at(end_ms), &mut path);
    late.rtt_min_us.unwrap_or(0) / 1_000
}

#[test]
fn a_queue_that_is_there_is_taken_off_the_handshake() {
    assert_eq!(behind_a_queue(2, 160, 2, 1_200), 80, "the queue of 80 ms");
    assert_eq!(behind_a_queue(2, 160, 20, 1_200), 80, "a quarter of the queue");
    assert_eq!(behind_a_queue(2, 90, 2, 1_200), 30, "a third of the handshake at least");
    assert_eq!(behind_a_queue(1, 160, 2, 1_200), 40, "known of the server");
    assert_eq!(behind_a_queue(1, 160, 160, 1_240), 40, "data came when the SYN was sent");
}

#[test]
fn a_queue_that_has_left_is_not_taken_off_the_handshake() {
    assert_eq!(behind_a_queue(2, 160, 21, 1_200), 160, "nothing came before the answer to the SYN");
    assert_eq!(behind_a_queue(2, 40, 2, 1_200), 40, "the queue alone would be longer");
    assert_eq!(behind_a_queue(1, 159, 160, 1_240), 159, "what is known of the server is out of date");
    // Last told of at 1080 ms; 120 ms until it is told of again, 80 ms until it has drained.
    assert_eq!(behind_a_queue(2, 160, 2, 1_280), 80);
    assert_eq!(behind_a_queue(2, 160, 2, 1_281), 160, "nobody tells of it any more");
}
