//! Allowances, pauses and accounts.

use super::*;

const WINDOW: u32 = 17_000;

/// Acknowledgements of a segment each, `n` of them, with this window.
fn honour(overcommit: &mut Overcommit, n: u32, window: u32) {
    (0..n).for_each(|_| overcommit.on_honoured(1_024, window, 0));
}

fn fail(overcommit: &mut Overcommit) {
    let again = u64::from(overcommit.retransmitted_before) + u64::from(Overcommit::TOLERATED) + 1;
    assert!(overcommit.on_delivered(0, 0, 0, again));
    assert!(overcommit.is_paused());
}

/// The client has no room for `beyond` bytes; the flight begins at `una`.
fn overflow(overcommit: &mut Overcommit, una: u32, beyond: u32) {
    let [una, nxt] = [una, una + WINDOW + beyond].map(SeqNum::new);
    overcommit.on_overflow(Overflow { una, nxt, beyond, window: WINDOW });
}

#[test]
fn an_overflow_leaves_three_quarters_of_what_was_beyond() {
    let mut overcommit = Overcommit::default();
    assert_eq!(overcommit.allowance(), u32::MAX);
    overflow(&mut overcommit, 0, 200_000);
    assert_eq!(overcommit.allowance(), 150_000);
    overflow(&mut overcommit, 100_000, 180_000);
    assert_eq!(overcommit.allowance(), 150_000, "it belongs to the same flight");
    overflow(&mut overcommit, 300_000, 160_000);
    assert_eq!(overcommit.allowance(), 112_500);
    assert!(!overcommit.on_delivered(0, 0, 0, 0));
}

#[test]
fn an_overflow_counts_however_long_ago_the_last_one_was() {
    let mut overcommit = Overcommit::default();
    overflow(&mut overcommit, 0, 200_000);
    overcommit.on_progress(SeqNum::new(217_000));
    overflow(&mut overcommit, 3_000_000_000, 180_000);
    assert_eq!(overcommit.allowance(), 112_500);
}

#[test]
fn an_allowance_that_was_used_up_grows() {
    let mut overcommit = Overcommit::default();
    overflow(&mut overcommit, 0, 80_000);
    assert!(!overcommit.on_delivered(8_000, 0, 20_000, 0));
    assert_eq!(overcommit.allowance(), 60_000, "it was not what limited");
    assert!(!overcommit.on_delivered(8_000, 0, 52_000, 0));
    assert_eq!(overcommit.allowance(), 60_250);
    assert!(!overcommit.on_delivered(Overcommit::EPOCH, 0, 0, 0));
    assert!(overcommit.allowance() > 60_250, "the accounts begin anew, the allowance stands");
}

#[test]
fn a_client_without_room_for_half_a_window_has_its_window_honoured() {
    let mut overcommit = Overcommit::default();
    let mut flights = 0;
    while !overcommit.on_delivered(0, 0, 0, 0) {
        assert!(flights < 20);
        let beyond = overcommit.allowance().min(200_000);
        overflow(&mut overcommit, flights * 1_000_000, beyond);
        flights += 1;
    }
    assert!(overcommit.is_paused());
    assert_eq!(overcommit.allowance(), 0);
    honour(&mut overcommit, 64, WINDOW);
    assert_eq!(overcommit.allowance(), WINDOW, "then a window is tried");
}

#[test]
fn only_a_client_that_reads_slowly_is_left_alone_for_longer_each_time() {
    for (window_in_pause, pause) in [(WINDOW, 64), (8_000, 128)] {
        let mut overcommit = Overcommit::default();
        for round in 0..2 {
            overflow(&mut overcommit, round * 1_000_000, 1_000);
            assert!(overcommit.on_delivered(0, 0, 0, 0));
            honour(&mut overcommit, 1, WINDOW);
            honour(&mut overcommit, 1, window_in_pause);
            let waited = (0..1_000).take_while(|_| {
                honour(&mut overcommit, 1, WINDOW);
                overcommit.is_paused()
            });
            let waited = waited.count() as u32;
            assert!(waited.abs_diff(if round == 0 { 64 } else { pause }) < 4, "{window_in_pause}: {waited}");
        }
    }
}

#[test]
fn an_allowance_is_tried_again_after_pauses_that_double() {
    let mut overcommit = Overcommit::default();
    for pause in [64, 128, 256, 512] {
        fail(&mut overcommit);
        honour(&mut overcommit, pause - 1, WINDOW);
        assert!(overcommit.is_paused(), "{pause}");
        honour(&mut overcommit, 1, WINDOW);
        assert!(!overcommit.is_paused(), "{pause}");
    }
    (0..20).for_each(|_| {
        fail(&mut overcommit);
        honour(&mut overcommit, 64 * 1_024, WINDOW);
    });
    assert!(!overcommit.is_paused(), "64 MiB at most");
}

#[test]
fn an_epoch_that_pays_halves_the_next_pause() {
    let mut overcommit = Overcommit::default();
    fail(&mut overcommit);
    honour(&mut overcommit, 64, WINDOW);
    assert!(!overcommit.on_delivered(Overcommit::EPOCH, 0, 0, 0));
    fail(&mut overcommit);
    honour(&mut overcommit, 64, WINDOW);
    assert!(!overcommit.is_paused());
}

#[test]
fn a_client_whose_window_falls_has_its_window_honoured_until_it_keeps_up() {
    let mut overcommit = Overcommit::default();
    fail(&mut overcommit);
    for _ in 0..100 {
        honour(&mut overcommit, 50, WINDOW);
        honour(&mut overcommit, 1, 8_000);
    }
    assert!(overcommit.is_paused());
    honour(&mut overcommit, 64, WINDOW);
    assert!(!overcommit.is_paused(), "it keeps up now");
}

#[test]
fn what_was_sent_again_is_counted_from_the_last_epoch_on_beyond_four_gigabytes() {
    let mut overcommit = Overcommit::default();
    let before = u64::from(u32::MAX) - 10;
    overcommit.begin(0, before);
    assert!(!overcommit.on_delivered(0, 0, 0, before + u64::from(Overcommit::TOLERATED)));
    assert!(overcommit.on_delivered(0, 0, 0, before + u64::from(Overcommit::TOLERATED) + 1));
}
