//! Plays every script of `tests/packet` against the engine, each as a test of its name:
//! `cargo test -p cellerator-sim --test all packet_scripts::h04` plays those that begin with `h04`.

use std::path::{Path, PathBuf};

use control::{ControllerConfig, CubicParams, FixedParams};
use engine::{ClientEcn, Engine, EngineConfig, PassReason, WindowPolicy};
use sim::Script;
use units::{Bytes, Duration, Rate};

/// The engine of a script: a fixed rate that is far above what any script sends, unless it says otherwise.
fn engine(settings: &[(String, String)]) -> Result<Engine, String> {
    let mut rate = Rate::from_mbps(1_000);
    let mut config = EngineConfig::default();
    let mut window = Bytes::MAX;
    let mut cubic = None;
    for (key, value) in settings {
        let number = value.parse::<u64>();
        let number = || number.clone().map_err(|_| format!("config {key}: `{value}` is not a number"));
        match key.as_str() {
            "ip" => {}
            "policy" if value == "opportunistic" => config.window_policy = WindowPolicy::Opportunistic,
            "policy" if value == "honour" => config.window_policy = WindowPolicy::Honour,
            "cubic_segments" => cubic = Some(number()?),
            "ecn" if value == "ect0" => config.client_ecn = ClientEcn::Ect0,
            "rate_kbps" => rate = Rate::from_kbps(number()?),
            "accelerate" => config.accelerate = value == "true",
            "window_floor" => config.window_floor = Bytes::new(number()?),
            "window_max" => config.window_max = Bytes::new(number()?),
            "waiting_target" => config.waiting_target = Some(Bytes::new(number()?)),
            "in_flight_max" => window = Bytes::new(number()?),
            "flows_max" => config.flows_max = number()? as usize,
            "subscriber_flows_max" => config.subscriber_flows_max = number()? as u32,
            "buffer_max" => config.buffer_max = Bytes::new(number()?),
            "rtt_min_ms" => config.rtt_min = Duration::from_millis(number()?),
            "rule" => config.policy.rules.push(value.parse::<engine::Rule>().map_err(|e| e.to_string())?),
            "debt_timeout_s" => config.debt_timeout = Duration::from_secs(number()?),
            _ => return Err(format!("config {key} {value}: no such setting")),
        }
    }
    config.controller = match cubic {
        Some(initial_window_segments) => {
            let mss = Bytes::new(1_000);
            ControllerConfig::Cubic(CubicParams { mss, initial_window_segments, ..CubicParams::default() })
        }
        None => ControllerConfig::Fixed(FixedParams { rate, window, ..FixedParams::default() }),
    };
    Engine::new(config).map_err(|e| e.to_string())
}

fn counter(engine: &Engine, name: &str) -> Option<u64> {
    let stats = engine.stats();
    if let Some(reason) = name.strip_prefix("passed:") {
        let reason = PassReason::ALL.into_iter().find(|r| r.name() == reason)?;
        return Some(stats.passed_for(reason));
    }
    Some(match name {
        "flows_now" => stats.flows_now,
        "half_open_now" => stats.half_open_now,
        "flows_accelerated" => stats.flows_accelerated,
        "flows_windowed" => stats.flows_windowed,
        "windows_lowered" => stats.windows_lowered,
        "bytes_acked_but_lost" => stats.bytes_acked_but_lost,
        "bad_checksums" => stats.bad_checksums,
        "paws_rejected" => stats.paws_rejected,
        "inexact_resets" => stats.inexact_resets,
        "unacceptable_acks" => stats.unacceptable_acks,
        "timeouts_undone" => stats.timeouts_undone,
        "out_of_window" => stats.out_of_window,
        "memory_refused" => stats.memory_refused,
        "fell_back_to_honour" => stats.fell_back_to_honour,
        "unknown_flow" => stats.unknown_flow,
        "fragments" => stats.fragments,
        "uplink_accelerated" => engine.uplink_stats().map_or(0, |stats| stats.flows_accelerated),
        "acks_consumed" => stats.acks_consumed,
        "flows_accurate_ecn" => stats.flows_accurate_ecn,
        "ce_packets" => stats.ce_packets,
        "debt" => engine.debt().get(),
        _ => return None,
    })
}

fn play(name: &str) {
    let path = folder().join(name).with_extension("pkt");
    let text = std::fs::read_to_string(&path).unwrap_or_else(|e| panic!("{}: {e}", path.display()));
    let script = Script::parse(&format!("{name}.pkt"), &text).unwrap_or_else(|e| panic!("{e}"));
    let engine = engine(script.settings()).unwrap_or_else(|e| panic!("{name}: {e}"));
    script.run(engine, counter).unwrap_or_else(|e| panic!("{e}"));
}

fn folder() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/packet")
}

/// A test for each script, of the script's name.
macro_rules! scripts {
    ($($name:ident)*) => {
        const NAMES: &[&str] = &[$(stringify!($name)),*];
        $(#[test] fn $name() { play(stringify!($name)); })*
    };
}

#[test]
fn every_script_of_the_folder_is_a_test() {
    let files = std::fs::read_dir(folder()).unwrap().map(|entry| entry.unwrap().path());
    let scripts = files.filter(|path| path.extension().is_some_and(|e| e == "pkt"));
    let mut scripts: Vec<_> = scripts.map(|path| path.file_stem().unwrap().to_owned()).collect();
    scripts.sort();
    assert_eq!(scripts, NAMES, "left: the folder; right: `scripts!` in this file, in order");
}

scripts! {
    drwa_bad_checksum
    drwa_handshake_not_seen
    drwa_mptcp
    drwa_stranger
    drwa_window_lowered
    drwa_window_scale_none
    drwa_zero_window
    engine_disabled
    engine_policy_port
    engine_uplink_ack_early
    engine_uplink_both_ways
    engine_uplink_repairs
    engine_uplink_reset_behind_debt
    h01_debt_timeout
    h01_debt_timeout_old_numbers
    h01_debt_timeout_starts_when_owed
    h01_reset_lost_with_debt
    h03_refused
    h04_reset_behind_debt
    h04_reset_behind_fin
    h05_fin_alone
    h05_half_close
    h06_mss
    h06_mss_least
    h06_mss_tiny
    h06_no_timestamps
    h06_sack_not_permitted
    h07_checksum_bad
    h07_checksum_bad_in_handshake
    h09_fast_open_data
    h09_mptcp
    h09_tcp_ao
    h09_tcp_md5
    h10_lost_third
    h10_one_direction
    h11_both_directions_elsewhere
    h11_client_has_more
    h11_download_elsewhere
    h11_download_elsewhere_behind_the_end
    h11_forged_acknowledgements
    h11_forged_behind_the_window
    h11_forged_elsewhere
    h11_forged_old_acknowledgement
    h11_unknown_mid_flow
    h12_nonsensical_sack
    h15_stretched_acknowledgement
    h16_time_out_undone
    h18_falls_back
    h18_overflow_lowers_the_allowance
    h19_window_honour
    h20_memory_full
    h20_subscriber_full
    h20_table_full
    h21_super_packet
    h22_fragment_counted
    h22_fragment_passes
    h24_keep_alive_behind_lost_fin
    h24_keep_alive_client
    h24_keep_alive_half_closed
    h24_keep_alive_server
    h25_accurate_ecn
    h25_accurate_ecn_011
    h25_accurate_ecn_100
    h25_accurate_ecn_101
    h25_accurate_ecn_110
    h25_accurate_ecn_broken
    h25_accurate_ecn_bytes
    h25_accurate_ecn_classic
    h25_accurate_ecn_declined
    h25_accurate_ecn_many_marks
    h25_accurate_ecn_of_client
    h25_accurate_ecn_of_unseen_offer
    h25_accurate_ecn_repeated_syn
    h25_accurate_ecn_repeated_syn_declined
    h25_accurate_ecn_repeated_syn_disagreed
    h25_accurate_ecn_scalable_sender
    h25_accurate_ecn_syn_of_apple
    h25_accurate_ecn_syn_of_linux
    h25_accurate_ecn_syn_of_windows
    h25_accurate_ecn_third_lost
    h25_accurate_ecn_upload
    h25_accurate_ecn_zeroed
    h25_ce_echoed
    h25_ecn_reflected
    h25_ect0_accurate
    h25_ect0_classic
    h25_ect0_not_agreed
    h25_ect0_off
    h25_ect0_retransmission
    h25_scalable_sender
    h26_first_bytes_win
    h26_handshake_forged
    h26_handshake_replayed
    h26_handshake_replayed_bare
    h26_handshake_replayed_beyond_window
    h26_handshake_replayed_blind
    h26_handshake_replayed_both
    h26_handshake_replayed_far
    h26_handshake_replayed_silent_client
    h26_late_syn
    h26_port_reuse
    h26_stray_client_timestamp
    h26_timestamps_after_long_silence
    h27_hole_never_filled
    h28_timestamps_downlink
    h28_timestamps_handshake
    h28_timestamps_of_a_client_that_never_pauses
    h28_timestamps_uplink
    h29_duplicate_acks_consumed
    h30_window_bounded
    h31_no_gain
    tcp_ack_d_sack
    tcp_ack_early
    tcp_ack_hole_sacked
    tcp_ack_of_server_from_elsewhere
    tcp_ack_of_server_rides_on_data
    tcp_ack_overtakes_third_packet
    tcp_ack_range_of_client
    tcp_ack_range_of_server
    tcp_ack_third_packet_window
    tcp_challenges_limited
    tcp_fin_server_after_client
    tcp_fin_without_data_ahead
    tcp_handshake_fast_open_cookie
    tcp_handshake_ipv6
    tcp_handshake_repeated_syn
    tcp_handshake_stranger
    tcp_handshake_unknown_option
    tcp_mss_jumbo
    tcp_mss_largest
    tcp_mss_of_server_smaller
    tcp_no_ack_dropped
    tcp_no_ack_dropped_both
    tcp_no_ack_dropped_ipv6
    tcp_paced_output
    tcp_port_reuse_server_lost
    tcp_rack_reordering
    tcp_retransmit_sack
    tcp_retransmit_three_duplicate_acks
    tcp_retransmit_timeout
    tcp_retransmit_upload_meanwhile
    tcp_rst_client_with_debt
    tcp_rst_server_beyond_window
    tcp_rst_server_inexact
    tcp_rst_server_without_debt
    tcp_rst_to_server_exact
    tcp_sack_reneging
    tcp_seq_ack_in_held_data
    tcp_seq_bare_ack_of_server
    tcp_seq_bare_ack_reordered
    tcp_seq_bare_beyond_window
    tcp_seq_within_window_of_server
    tcp_syn_of_a_stranger
    tcp_tail_loss_probe
    tcp_timestamp_ahead_of_acknowledged
    tcp_timestamp_missing
    tcp_timestamp_of_client_went_back
    tcp_timestamp_taken_out
    tcp_timestamp_taken_out_of_client
    tcp_timestamps_paws_server
    tcp_uplink_data_rewritten
    tcp_window_of_older_segment
    tcp_window_opportunistic
    tcp_window_shrinks
    tcp_window_update_only_with_news
    tcp_window_update_tiny
    tcp_window_update_when_buffer_frees
    tcp_window_zero_probed
    tcp_window_zero_suspends
    wa8_window_by_controller
}
