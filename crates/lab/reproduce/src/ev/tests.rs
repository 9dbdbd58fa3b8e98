use crate::given::{Made, aim, fact, outcome, row};
use crate::{Seen, SeenPacket};

/// A capture of `count` packets with `payload` bytes each, at equal distances.
fn captured(count: u32, apart_s: f64, payload: u64, rtt_ms: f64) -> Made {
    let packet = |number: u32| SeenPacket {
        at_s: f64::from(number) * apart_s,
        is_down: true,
        position: u64::from(number) * payload,
        payload,
        ack: None,
        rtt_ms: None,
        rtt_by_timestamps_ms: Some(rtt_ms),
        is_retransmission: false,
    };
    let packets = (0..count).map(packet).collect();
    Made { seen: Seen { packets, ..Seen::default() }, ..Made::transfer(1.0, 100.0) }
}

#[test]
fn speeds_and_round_trips_are_those_of_the_captures() {
    let found = outcome("ev-environments", &|_, case, _| {
        Some(match case {
            // 2 KB/s, one packet every half second.
            "cellular, train" => captured(121, 0.5, 1_000, 300.0),
            // 100 KB/s, a hundred packets a second.
            "cellular" => captured(1_001, 0.01, 1_000, 100.0),
            _ => captured(5_001, 0.001, 1_000, 5.0),
        })
    });
    assert_eq!((fact(&found, "minutes", 2), fact(&found, "train_slow", 0)), ("1.00".into(), "100".into()));
    assert_eq!(fact(&found, "cell_slow", 0), "0");
    assert!(aim(&found, "packets under 10 KB/s on the train").passed);
    assert!(aim(&found, "packets under 10 KB/s in the cell").passed);
    assert_eq!(aim(&found, "median RTT on the PC").numbers(), "5.0 (at most 20.0)");
    assert_eq!(aim(&found, "highest packets/s, PC ÷ cell").measured.map(f64::round), Some(10.0));
    assert_eq!(aim(&found, "highest packets/s, cell ÷ train").measured.map(f64::round), Some(50.0));
    let train = row(&found, 2, "cellular, train");
    assert_eq!((train[0].as_str(), train[1].as_str(), train[2].as_str()), ("75", "2", "300.0"));
}

#[test]
fn the_worst_environment_decides_what_adaptive_keeps() {
    let given = |goodput: f64, queue: f64| {
        outcome("ev-environments", &move |scenario, case, _| {
            let is_worst = scenario.ends_with("-adaptive") && case == "phone Wi-Fi";
            Some(if is_worst { Made::transfer(goodput, queue) } else { Made::transfer(1.0, 100.0) })
        })
    };
    let reached = given(0.98, 104.0);
    assert!(aim(&reached, "least goodput").passed && aim(&reached, "longest queue").passed);
    let worse = given(0.96, 106.0);
    assert_eq!(aim(&worse, "least goodput").numbers(), "0.960 (at least 0.970)");
    assert_eq!(aim(&worse, "longest queue").numbers(), "1.060 (at most 1.050)");
    assert!(!aim(&worse, "least goodput").passed && !aim(&worse, "longest queue").passed);
}
