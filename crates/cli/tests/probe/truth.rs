//! What `probe` says of emulated links, against what they did. Needs root.

use std::net::UdpSocket;

use io::{Clock, Waiter};
use lab::{Emulation, Role};
use link::{DelayModel, LinkConfig, LossModel, PacketRecord};
use serde_json::{Value, json};
use units::{Bytes, Duration, Instant, Rate};

use crate::probe::link::{Bed, DELAYS, Radio, air, document};

/// Length of the packets that measure: no other packet has it.
const PACKET: u64 = 1_400;
const HEADERS: u64 = 28;
/// Length of the small packets that come back, and of no other.
const ECHO: u64 = 72;

/// The least round trip of the path, ms.
fn least_rtt_ms() -> f64 {
    DELAYS.iter().map(|delay| delay.as_millis_f64() * 2.0).sum()
}

/// The link's log of one way, cut into the runs of a sweep by what each says it sent.
fn runs<'a>(records: &'a [PacketRecord], way: &Value) -> Vec<(&'a [PacketRecord], Value)> {
    let mut rest = records;
    let (steps, spoiled) = (way["steps"].as_array().unwrap(), way["spoiled"].as_array().unwrap());
    let mut cut = |step: &Value| {
        let (run, after) = rest.split_at(step["sent"].as_u64().unwrap() as usize);
        rest = after;
        run
    };
    let all = steps.iter().map(|step| {
        // Those of its rate that were made again came before it.
        spoiled.iter().filter(|run| run["rate_mbps"] == step["rate_mbps"]).for_each(|run| {
            cut(run);
        });
        (cut(step), step.clone())
    });
    let all = all.collect();
    assert!(rest.is_empty(), "the link saw {} packets that nobody says to have sent", rest.len());
    all
}

/// First packet and length of each run of losses.
fn bursts(run: &[PacketRecord]) -> Vec<(u64, u64)> {
    let mut bursts: Vec<(u64, u64)> = Vec::new();
    for (number, _) in run.iter().enumerate().filter(|(_, record)| record.drop.is_some()) {
        let number = number as u64;
        match bursts.last_mut() {
            Some((first, len)) if *first + *len == number => *len += 1,
            _ => bursts.push((number, 1)),
        }
    }
    assert!(run.iter().all(|record| record.delivered.is_some() != record.drop.is_some()));
    bursts
}

fn bursts_told(step: &Value) -> Vec<(u64, u64)> {
    let of = |burst: &Value| (burst["first"].as_u64().unwrap(), burst["packets"].as_u64().unwrap());
    step["bursts"].as_array().unwrap().iter().map(of).collect()
}

/// Payload per time between the first and the last delivery, as the link planned them, Mbit/s.
fn goodput_mbps(run: &[PacketRecord]) -> f64 {
    let delivered: Vec<Instant> = run.iter().filter_map(|record| record.delivered).collect();
    let time = delivered.last().unwrap().saturating_since(delivered[0]).as_secs_f64();
    (delivered.len() - 1) as f64 * (PACKET - HEADERS) as f64 * 8.0 / time / 1e6
}

/// 95th percentile of the one-way delay on the link less the least, ms.
fn variation_p95_ms(run: &[PacketRecord]) -> f64 {
    let mut delays: Vec<f64> =
        run.iter().filter_map(PacketRecord::one_way_delay).map(|delay| delay.as_millis_f64()).collect();
    delays.sort_unstable_by(f64::total_cmp);
    figures::stats::percentile(&delays, 950).unwrap() - delays[0]
}

/// Each run of a sweep over a link of 20 Mbit/s with bursts of losses and a queue of 120 ms, which the last rate
/// is to overflow: what it says, and what the link's log does.
pub fn swept(what: &str, rates: &str, time: &str) -> Vec<Value> {
    let loss = LossModel::GilbertElliott {
        to_bad_ppm: 5_000,
        to_good_ppm: 300_000,
        good_loss_ppm: 0,
        bad_loss_ppm: 900_000,
    };
    let radio = Radio { rate: Rate::from_mbps(20), queue: Bytes::new(300_000), loss };
    let bed = Bed::build(what, &radio);
    let document = bed.measure(&["sweep", "10.1.0.2", "--rates", rates, "--time", time]);
    let emulation = bed.end();
    let mut rows = Vec::new();
    for way in document["directions"].as_array().unwrap() {
        let records = &emulation.records[usize::from(way["direction"] == "up")];
        let data: Vec<PacketRecord> =
            records.iter().filter(|record| record.size.get() == PACKET).copied().collect();
        for (run, step) in runs(&data, way) {
            let truth = bursts(run);
            let lost: u64 = truth.iter().map(|(_, packets)| packets).sum();
            rows.push(json!({
                "direction": step["direction"],
                "rate_mbps": step["rate_mbps"],
                "lost": {"told": step["lost"], "truth": lost},
                "same_runs": bursts_told(&step) == truth,
                "goodput_mbps": {"told": step["goodput_mbps"], "truth": goodput_mbps(run)},
                "variation_p95_ms": {"told": step["delay_variation"]["p95_ms"], "truth": variation_p95_ms(run)},
                "gap_error_p99_us": step["timer"]["gap_error_p99_us"],
            }));
        }
    }
    rows.iter().for_each(|row| eprintln!("{row}"));
    rows
}

#[test]
fn a_sweep_counts_exactly_what_the_link_lost() {
    let rows = swept("sweep", "8 Mbit/s,26 Mbit/s", "1500 ms");
    let mut lost = 0;
    for row in &rows {
        assert_eq!(row["lost"]["told"], row["lost"]["truth"], "{row}");
        assert_eq!(row["same_runs"], true, "{row}");
        lost += row["lost"]["truth"].as_u64().unwrap();
        let [told, truth] = ["told", "truth"].map(|which| row["goodput_mbps"][which].as_f64().unwrap());
        assert!((told / truth - 1.0).abs() < 0.005, "{row}");
    }
    assert!(rows.len() == 4 && lost > 100, "{lost}");
}

/// Round trips of packets of a length, ms, by the links' logs: from the time at which the client's packet is handed to
/// the radio link to that at which the answer comes out of it, less what the server took; none where the answer was
/// lost.
fn round_trips_ms(emulation: &Emulation, size: u64) -> Vec<Option<f64>> {
    let small = |records: &[PacketRecord]| -> Vec<PacketRecord> {
        records.iter().filter(|record| record.size.get() == size).copied().collect()
    };
    let [radio_down, radio_up] = [0, 1].map(|way| small(&emulation.records[way]));
    let [wan_down, wan_up] = [0, 1].map(|way| small(&emulation.wan_records[way]));
    let ms = |from: Instant, to: Instant| to.saturating_since(from).as_millis_f64();
    let all = radio_up.iter().zip(&wan_up).zip(wan_down.iter().zip(&radio_down));
    all.map(|((up, out), (back, down))| {
        Some(ms(up.arrival, down.delivered?) - ms(out.delivered.unwrap(), back.arrival))
    })
    .collect()
}

/// By how much round trips are longer than those of the links' logs, ms, in rising order.
fn longer_ms(told: impl ExactSizeIterator<Item = f64>, emulation: &Emulation, size: u64) -> Vec<f64> {
    let truth: Vec<f64> = round_trips_ms(emulation, size).into_iter().flatten().collect();
    assert_eq!(told.len(), truth.len(), "each answer came once");
    let mut bias: Vec<f64> = told.zip(truth).map(|(told, truth)| told - truth).collect();
    bias.sort_unstable_by(f64::total_cmp);
    bias
}

/// By how much the round trips of all phases are longer than those of the links' logs, ms, in rising order.
pub fn bias_ms(phases: &Value, emulation: &Emulation) -> Vec<f64> {
    let samples = phases.as_array().unwrap().iter().flat_map(|phase| phase["samples"].as_array().unwrap());
    let told: Vec<f64> = samples.map(|sample| sample[1].as_f64().unwrap()).collect();
    longer_ms(told.into_iter(), emulation, ECHO)
}

/// Length of the packets of a plain echo, and of no others.
const PLAIN: u64 = 100;

/// Round trips of a plain echo, ms: a program that sends, one that answers, each by the clock when a call returns; less
/// what the server took.
fn plain_echo_ms(bed: &Bed, count: usize) -> Vec<f64> {
    const LEN: usize = (PLAIN - HEADERS) as usize;
    let patience = Some(std::time::Duration::from_secs(5));
    let socket = |host| {
        let socket = bed.on(host, || UdpSocket::bind("0.0.0.0:9001")).unwrap();
        socket.set_read_timeout(patience).unwrap();
        socket
    };
    let (server, client) = (socket(Role::Server), socket(Role::Client));
    client.connect("10.1.0.2:9001").unwrap();
    let answer = move || {
        let mut packet = [0; LEN];
        for _ in 0..count {
            let (_, from) = server.recv_from(&mut packet).unwrap();
            let came = Clock::now();
            packet[..8].copy_from_slice(&Clock::now().saturating_since(came).as_nanos().to_be_bytes());
            server.send_to(&packet, from).unwrap();
        }
    };
    std::thread::scope(|scope| {
        scope.spawn(answer);
        let (mut packet, mut waiter) = ([0; LEN], Waiter::new(Duration::ZERO).unwrap());
        let echo = |_| {
            waiter.wait(Some(Clock::now() + Duration::from_millis(10))).unwrap();
            let sent = Clock::now();
            client.send(&packet).unwrap();
            client.recv(&mut packet).unwrap();
            let took = u64::from_be_bytes(packet[..8].try_into().unwrap());
            (Clock::now().saturating_since(sent) - Duration::from_nanos(took)).as_millis_f64()
        };
        (0..count).map(echo).collect()
    })
}

#[test]
fn round_trips_are_no_longer_than_the_links_log_says() {
    let radio = Radio { rate: Rate::from_mbps(20), queue: Bytes::new(500_000), loss: LossModel::None };
    let bed = Bed::build("bias", &radio);
    let (document, plain) = std::thread::scope(|scope| {
        let plain = scope.spawn(|| plain_echo_ms(&bed, 75));
        let document = bed.measure(&["rtt", "10.1.0.2", "--idle", "--every", "10 ms", "--time", "3 s"]);
        (document, plain.join().unwrap())
    });
    let emulation = bed.end();
    let bias = bias_ms(&document["phases"], &emulation);
    let plain = longer_ms(plain.into_iter(), &emulation, PLAIN);
    let [bias, plain] = [bias, plain].map(|bias| {
        let at = |per_mille| figures::stats::percentile(&bias, per_mille).unwrap();
        [bias[0], at(100), at(500), at(900)]
    });
    eprintln!("longer than the link's, least, p10, median, p90, ms: {bias:.3?}; of a plain echo {plain:.3?}");
    // What is added is that threads wake up: of the client's packet and of the server's answer the emulator's. How
    // soon they do is the machine's affair, and the same for who looks at the clock when a call returns. That one's
    // own threads must wake up, too, which takes nothing on a processor that was awake for another program.
    assert!(bias[0] >= 0.0 && bias[1] <= plain[3], "{bias:.3?}, {plain:.3?} ms");
}

/// How far a server's clock is ahead of the client's, s.
const AHEAD_S: u64 = 86_400;

/// What idle round trips say of a clock that is ahead and gains so much, 45 ms down and `up` up; and what it gained
/// at most, ms.
fn another_clock(what: &str, up: DelayModel, ppm: u32) -> (Value, f64) {
    let down = DelayModel::Fixed(Duration::from_millis(40));
    let [down, up] = [(3, down), (4, up)].map(|(seed, delay)| LinkConfig { delay, ..air(seed) });
    let mut bed = Bed::of_air(what, [down, up]);
    let begin = Clock::now();
    // A time namespace sets the clock; no namespace lets it drift, so the server does that itself.
    let (ahead, drift) = (AHEAD_S.to_string(), ppm.to_string());
    let program = env!("CARGO_BIN_EXE_cellerator");
    let there = ["--time", "--monotonic", &ahead, "--kill-child", program];
    bed.serve("unshare", &[&there[..], &["probe", "server", "--clock-drift", &drift]].concat());
    let document = bed.measure(&["rtt", "10.1.0.2", "--idle", "--time", "6 s"]);
    // The server's clock gains from its start on.
    let gained_max = Clock::now().saturating_since(begin).as_millis_f64() * f64::from(ppm) / 1e6;
    drop(bed.end());
    (document, gained_max)
}

#[test]
fn another_clock_is_found_however_the_ways_differ() {
    const PPM: u32 = 400;
    let up = DelayModel::Fixed(Duration::from_millis(5));
    let (document, gained_max) = another_clock("clock", up, PPM);
    let clock = |name: &str| document["clock"][name].as_f64().unwrap();
    let (low, high) = (clock("offset_low_ms"), clock("offset_high_ms"));
    let truth = AHEAD_S as f64 * 1e3;
    assert!(low <= truth + gained_max && truth <= high, "{low} to {high}");
    assert!((55.0..57.0).contains(&(high - low)), "as wide as the least round trip: {low} to {high}");
    // Half of the round trip would be wrong by half of what the ways differ by.
    let middle = f64::midpoint(low, high);
    assert!((15.0..20.0 + gained_max).contains(&(middle - truth).abs()), "{middle}");
    let drift = clock("drift_ppm");
    eprintln!("offset {low:.3} to {high:.3} ms, drift {drift:.1} ppm");
    assert!((drift - f64::from(PPM)).abs() < 40.0, "{drift} ppm");
    let known = clock("drift_low_ppm")..=clock("drift_high_ppm");
    assert!(known.contains(&f64::from(PPM)), "{known:?}");
    // 6 s of it are 2.4 ms, half of them at the median, which are no delay. How late a packet is now and then is the
    // machine's affair.
    for way in ["up", "down"] {
        let median = document["phases"][0]["variation"][way]["p50_ms"].as_f64().unwrap();
        assert!(median < 0.8, "{way}: {median} ms");
    }
}

#[test]
fn a_way_that_grows_longer_is_not_taken_for_a_clock_that_gains() {
    // Up from 5 ms by 80 µs every 200 ms: what comes there looks like a clock that gains 400 ppm. It does not.
    let steps = (0..300).map(|n| (Duration::from_millis(200), Duration::from_micros(5_000 + 80 * n)));
    let (document, _) = another_clock("longer", DelayModel::Steps(steps.collect()), 0);
    let samples = document["phases"][0]["samples"].as_array().unwrap();
    let least = |samples: &[Value]| {
        samples.iter().map(|sample| sample[1].as_f64().unwrap()).fold(f64::INFINITY, f64::min)
    };
    let (first, last) = samples.split_at(samples.len() / 2);
    let grown = least(last) - least(first);
    assert!((1.0..1.5).contains(&grown), "by 1.2 ms in half of the time: {grown}");
    let clock = |name: &str| document["clock"][name].as_f64().unwrap();
    let (low, high) = (clock("offset_low_ms"), clock("offset_high_ms"));
    let truth = AHEAD_S as f64 * 1e3;
    assert!(low <= truth && truth <= high, "{low} to {high}");
    // The other way does not show it, so the clock may gain all of it, or nothing.
    let known = clock("drift_low_ppm")..=clock("drift_high_ppm");
    eprintln!("offset {low:.3} to {high:.3} ms, drift {known:?} ppm, the round trip grew by {grown:.3} ms");
    assert!(known.contains(&0.0) && known.contains(&400.0), "{known:?}");
}

#[test]
fn round_trips_are_the_links() {
    let radio = Radio { rate: Rate::from_mbps(20), queue: Bytes::new(500_000), loss: LossModel::None };
    let bed = Bed::build("rtt", &radio);
    let document =
        bed.measure(&["rtt", "10.1.0.2", "--load", "24 Mbit/s", "--ways", "down", "--time", "3 s"]);
    let emulation = bed.end();
    let (idle, loaded) = (&document["phases"][0], &document["phases"][1]);
    // A small packet takes its time on the air: 72 bytes at 20 Mbit/s, both ways.
    let least = least_rtt_ms() + 2.0 * 72.0 * 8.0 / 20e3;
    let min = idle["rtt"]["min_ms"].as_f64().unwrap();
    // The emulator's thread and both kernels wake up for each packet: on a busy machine that takes a while.
    assert!((0.0..=0.5).contains(&(min - least)), "{min} for {least} ms");
    assert_eq!(idle["loss_percent"], 0.0);
    // How full the queue of 500 kB becomes, 200 ms, is up to how punctual the load's sender is. The log has what it was.
    let truth = &round_trips_ms(&emulation, ECHO)[idle["samples"].as_array().unwrap().len()..];
    let longest = truth.iter().flatten().copied().fold(0.0, f64::max);
    let max = loaded["rtt"]["max_ms"].as_f64().unwrap();
    let bias = bias_ms(&document["phases"], &emulation);
    let at = |per_mille| figures::stats::percentile(&bias, per_mille).unwrap();
    eprintln!(
        "idle: {min:.3} for {least:.3} ms; loaded: {max:.1} for {longest:.1} ms; longer by {:.3} ms",
        at(500)
    );
    assert!(bias[0] >= 0.0 && at(100) <= 0.5 && at(500) <= 5.0, "{} {} {} ms", bias[0], at(100), at(500));
    assert!(longest > least + 100.0 && max >= longest, "{max} for {longest} ms");
    // The queue is the one on the way down.
    let p95 = |way: &str| loaded["variation"][way]["p95_ms"].as_f64().unwrap();
    let echoes = emulation.records[0].iter().filter(|record| record.size.get() == ECHO);
    let queued: Vec<PacketRecord> = echoes.copied().collect();
    let queue = variation_p95_ms(&queued[queued.len() - truth.len()..]);
    // A machine that stands still makes ways as much longer as it makes round trips.
    let longer = bias[bias.len() - 1];
    assert!((queue - 15.0..queue + 15.0 + longer).contains(&p95("down")), "{} for {queue} ms", p95("down"));
    assert!(p95("up") < 50.0 + longer, "{} ms up, round trips are {longer} ms longer", p95("up"));
    // Both hosts have one clock: the truth is zero, and the interval as wide as the round trip.
    let clock = |name: &str| document["clock"][name].as_f64().unwrap();
    let (low, high) = (clock("offset_low_ms"), clock("offset_high_ms"));
    assert!(low <= 0.0 && 0.0 <= high && high - low < least + 1.0, "{low} to {high}");
    assert!(clock("drift_low_ppm") <= 0.0 && 0.0 <= clock("drift_high_ppm"));
}

#[test]
fn it_works_over_ipv6_through_nat_and_with_an_address_that_changes() {
    let radio = Radio { rate: Rate::from_mbps(20), queue: Bytes::new(500_000), loss: LossModel::None };
    let bed = Bed::build("nat", &radio);
    let rates = ["--rates", "4 Mbit/s", "--time"];
    let six = bed.measure(&[&["sweep", "fd00:1::2"], &rates[..], &["500 ms"]].concat());
    assert_eq!(six["server"]["ip_version"], 6);
    for way in six["directions"].as_array().unwrap() {
        assert_eq!((&way["steps"][0]["lost"], &way["steps"][0]["packet_bytes"]), (&0.into(), &PACKET.into()));
    }
    bed.run(
        Role::Accelerator,
        "nft",
        &["add table ip t; add chain ip t c { type nat hook postrouting priority 100; }; \
        add rule ip t c oifname wan0 masquerade"],
    );
    bed.run(Role::Client, "sh", &["-c", "echo 1 > /proc/sys/net/ipv4/conf/radio0/promote_secondaries"]);
    bed.run(Role::Client, "ip", &["address", "add", "10.2.0.3/24", "dev", "radio0"]);
    let moving = [&["sweep", "10.1.0.2", "--ways", "up"], &rates[..], &["2 s", "--json", "-"]].concat();
    let client = bed.client(&moving);
    bed.run(Role::Client, "sleep", &["1"]);
    bed.run(Role::Client, "ip", &["address", "delete", "10.2.0.2/24", "dev", "radio0"]);
    let moved = document(&client.wait_with_output().unwrap());
    let step = &moved["directions"][0]["steps"][0];
    assert_eq!(
        (&step["address_moves"], &step["lost"], &moved["incomplete"]),
        (&1.into(), &0.into(), &Value::Null)
    );
    drop(bed.end());
}

#[test]
fn tcp_says_what_limited_it() {
    let radio = Radio { rate: Rate::from_mbps(20), queue: Bytes::new(150_000), loss: LossModel::None };
    let bed = Bed::build("tcp", &radio);
    let tcp = |more: &[&str]| {
        bed.measure(
            &[&["tcp", "10.1.0.2", "--time", "2 s", "--repetitions", "1", "--cc", "cubic"], more].concat(),
        )
    };
    for run in tcp(&[])["runs"].as_array().unwrap() {
        // 1448 of 1500 bytes are payload, and the small packets beside it take a little.
        let goodput = run["goodput_mbps"].as_f64().unwrap();
        let stood_still = run["limit"]["stood_still_s"].as_f64().unwrap() / run["seconds"].as_f64().unwrap();
        assert!((16.0 * (1.0 - stood_still)..19.4).contains(&goodput), "{run}");
        assert_eq!(run["limit"]["by"], "network", "{}", run["limit"]);
        assert!(run["handshake_ms"].as_f64().unwrap() >= least_rtt_ms());
        // The queue overflows, and holds 60 ms.
        assert!(run["retransmitted"].as_u64().unwrap() > 0);
        assert!(run["rtt_mean_ms"].as_f64().unwrap() > least_rtt_ms() + 10.0);
    }
    let windowed = tcp(&["--window", "20 KB"]);
    for run in windowed["runs"].as_array().unwrap() {
        let limit = &run["limit"];
        assert_eq!(limit["by"], "receive window", "{limit}");
        let (goodput, bound) =
            (run["goodput_mbps"].as_f64().unwrap(), limit["rwnd_over_rtt_mbps"].as_f64().unwrap());
        assert!((0.8..1.1).contains(&(goodput / bound)), "{goodput} for {bound}");
    }
    assert!(windowed["verdict"].as_str().unwrap().contains(" B / "), "{}", windowed["verdict"]);
    drop(bed.end());
}

#[test]
fn time_outs_of_connection_tracking_are_found() {
    let radio = Radio { rate: Rate::from_mbps(20), queue: Bytes::new(500_000), loss: LossModel::None };
    let bed = Bed::build("timeout", &radio);
    let rules = "add table ip t; add chain ip t c { type nat hook postrouting priority 100; }; \
        add rule ip t c oifname wan0 masquerade";
    bed.run(Role::Accelerator, "nft", &[rules]);
    let times = "cd /proc/sys/net/netfilter; echo 8 > nf_conntrack_udp_timeout; \
        echo 8 > nf_conntrack_udp_timeout_stream; echo 12 > nf_conntrack_tcp_timeout_established";
    bed.run(Role::Accelerator, "sh", &["-c", times]);
    let silences = ["--silences", "2 s,7.6 s,8.4 s,10 s,11.4 s,12.6 s"];
    let document = bed.measure(&[&["timeout", "10.1.0.2"], &silences[..]].concat());
    crate::schema::check_against(&document, include_str!("../../../../schemas/probe-timeout.schema.json"));
    let found: Vec<(&str, Option<f64>, Option<f64>)> = document["bindings"]
        .as_array()
        .unwrap()
        .iter()
        .map(|b| (b["protocol"].as_str().unwrap(), b["lived_s"].as_f64(), b["died_s"].as_f64()))
        .collect();
    // 8 s and 12 s, within 5 %.
    assert_eq!(found, [("udp", Some(7.6), Some(8.4)), ("tcp", Some(11.4), Some(12.6))], "{document}");
    drop(bed.end());
}
