//! Stakes, pauses and accounts.

use super::*;

const WINDOW: u32 = 17_000;

/// Acknowledgements of a segment each, `n` of them, with this window.
fn honour(bet: &mut Bet, n: u32, window: u32) {
    (0..n).for_each(|_| bet.on_honoured(1_024, window, 0));
}

fn lose(bet: &mut Bet) {
    let again = u64::from(bet.retransmitted_before) + u64::from(Bet::STAKE) + 1;
    assert!(bet.on_delivered(0, 0, 0, again));
    assert!(bet.is_paused());
}

/// The client has no room for `beyond` bytes; the flight begins at `una`.
fn overflow(bet: &mut Bet, una: u32, beyond: u32) {
    let [una, nxt] = [una, una + WINDOW + beyond].map(SeqNum::new);
    bet.on_overflow(Overflow { una, nxt, beyond, window: WINDOW });
}

#[test]
fn an_overflow_leaves_three_quarters_of_what_was_beyond() {
    let mut bet = Bet::default();
    assert_eq!(bet.stake(), u32::MAX);
    overflow(&mut bet, 0, 200_000);
    assert_eq!(bet.stake(), 150_000);
    overflow(&mut bet, 100_000, 180_000);
    assert_eq!(bet.stake(), 150_000, "it belongs to the same flight");
    overflow(&mut bet, 300_000, 160_000);
    assert_eq!(bet.stake(), 112_500);
    assert!(!bet.on_delivered(0, 0, 0, 0));
}

#[test]
fn a_stake_that_was_used_and_won_grows() {
    let mut bet = Bet::default();
    overflow(&mut bet, 0, 80_000);
    assert!(!bet.on_delivered(8_000, 0, 20_000, 0));
    assert_eq!(bet.stake(), 60_000, "it was not what limited");
    assert!(!bet.on_delivered(8_000, 0, 52_000, 0));
    assert_eq!(bet.stake(), 60_250);
    assert!(!bet.on_delivered(Bet::EPOCH, 0, 0, 0));
    assert!(bet.stake() > 60_250, "the accounts begin anew, the stake stands");
}

#[test]
fn a_client_without_room_for_half_a_window_has_its_window_honoured() {
    let mut bet = Bet::default();
    let mut flights = 0;
    while !bet.on_delivered(0, 0, 0, 0) {
        assert!(flights < 20);
        let beyond = bet.stake().min(200_000);
        overflow(&mut bet, flights * 1_000_000, beyond);
        flights += 1;
    }
    assert!(bet.is_paused());
    assert_eq!(bet.stake(), 0);
    honour(&mut bet, 64, WINDOW);
    assert_eq!(bet.stake(), WINDOW, "then a window is tried");
}

#[test]
fn only_a_client_that_reads_slowly_is_left_alone_for_longer_each_time() {
    for (window_in_pause, pause) in [(WINDOW, 64), (8_000, 128)] {
        let mut bet = Bet::default();
        for round in 0..2 {
            overflow(&mut bet, round * 1_000_000, 1_000);
            assert!(bet.on_delivered(0, 0, 0, 0));
            honour(&mut bet, 1, WINDOW);
            honour(&mut bet, 1, window_in_pause);
            let waited = (0..1_000).take_while(|_| {
                honour(&mut bet, 1, WINDOW);
                bet.is_paused()
            });
            let waited = waited.count() as u32;
            assert!(waited.abs_diff(if round == 0 { 64 } else { pause }) < 4, "{window_in_pause}: {waited}");
        }
    }
}

#[test]
fn a_lost_bet_is_tried_again_after_pauses_that_double() {
    let mut bet = Bet::default();
    for pause in [64, 128, 256, 512] {
        lose(&mut bet);
        honour(&mut bet, pause - 1, WINDOW);
        assert!(bet.is_paused(), "{pause}");
        honour(&mut bet, 1, WINDOW);
        assert!(!bet.is_paused(), "{pause}");
    }
    (0..20).for_each(|_| {
        lose(&mut bet);
        honour(&mut bet, 64 * 1_024, WINDOW);
    });
    assert!(!bet.is_paused(), "64 MiB at most");
}

#[test]
fn a_bet_won_halves_the_next_pause() {
    let mut bet = Bet::default();
    lose(&mut bet);
    honour(&mut bet, 64, WINDOW);
    assert!(!bet.on_delivered(Bet::EPOCH, 0, 0, 0));
    lose(&mut bet);
    honour(&mut bet, 64, WINDOW);
    assert!(!bet.is_paused());
}

#[test]
fn a_client_whose_window_falls_is_not_bet_on_again() {
    let mut bet = Bet::default();
    lose(&mut bet);
    for _ in 0..100 {
        honour(&mut bet, 50, WINDOW);
        honour(&mut bet, 1, 8_000);
    }
    assert!(bet.is_paused());
    honour(&mut bet, 64, WINDOW);
    assert!(!bet.is_paused(), "it keeps up now");
}

#[test]
fn what_was_sent_again_is_counted_from_the_last_epoch_on_beyond_four_gigabytes() {
    let mut bet = Bet::default();
    let before = u64::from(u32::MAX) - 10;
    bet.begin(0, before);
    assert!(!bet.on_delivered(0, 0, 0, before + u64::from(Bet::STAKE)));
    assert!(bet.on_delivered(0, 0, 0, before + u64::from(Bet::STAKE) + 1));
}
