//! A busy box on paper: what the measured points come to at 10 million flows and 100 Gbit/s.

use std::fmt::Write as _;

use crate::Results;
use crate::markdown::grouped;

/// The box on paper.
const FLOWS: f64 = 1e7;
const GBPS: f64 = 100.0;
/// Bits of a packet that is not merged.
const PACKET_BITS: f64 = 12_000.0;
/// Duration of a flow, s, and the round trip of its radio, s.
const FLOW_S: f64 = 60.0;
const ROUND_TRIP_S: f64 = 0.05;
/// Accesses to memory for each byte: three copies with a read and a write each, and the card's two.
const ACCESSES: f64 = 8.0;

impl Results {
    /// A table of calculations, each with the measured point that it stands on; `None` where a point is missing.
    #[must_use]
    pub fn scale_markdown(&self) -> Option<String> {
        let median = |part: &str, case: &str, way: &str, metric: &str| {
            Some(self.part(part)?.row(case, way)?.values.get(metric)?.median)
        };
        let merged = median("bulk", "4 flows", "accelerate", "box_s_per_gb")?;
        let unmerged = median("packets", "4 flows", "accelerate", "box_us_per_packet")?;
        let cold = median("flows", "100,000 flows", "accelerate", "box_us")?;
        let engine = |flows| median("engine", flows, "engine", "ns_per_packet");
        let decade = engine("1,000,000 flows")? / engine("100,000 flows")?;
        let idle = median("engine", "1,000,000 flows", "engine", "bytes_per_flow")?;
        let used = median("engine", "1,000,000 flows", "engine", "bytes_per_used_flow")?;
        let opened = median("connections", "1 KB", "accelerate", "box_us")?;

        let packets = GBPS * 1e9 / PACKET_BITS;
        let gb_per_s = GBPS / 8.0;
        let per_s = FLOWS / FLOW_S;
        let processors = |seconds: f64| format!("{} processors", grouped(seconds, 1));
        let gb = |bytes: f64| format!("{} GB", grouped(bytes / 1e9, 1));
        let rows = [
            (
                "Super-packets, flows in the caches",
                format!("{} s of the box per GB", grouped(merged, 3)),
                processors(merged * gb_per_s),
            ),
            (
                "Packets of 1,500 bytes that nothing merged, flows in the caches",
                format!("{} µs of the box each", grouped(unmerged, 2)),
                processors(unmerged * packets / 1e6),
            ),
            (
                "The same, every flow out of the caches: read and written, as at 100,000 flows",
                format!("{} µs each way", grouped(cold, 2)),
                processors(2.0 * cold * packets / 1e6),
            ),
            (
                "The same at 10 million flows, if two more decades cost what one did",
                format!("engine alone, 1,000,000 ÷ 100,000 flows: {}", grouped(decade, 2)),
                processors(2.0 * cold * decade * decade * packets / 1e6),
            ),
            (
                "New flows, if one lasts a minute",
                format!("{} µs of the box each", grouped(opened, 1)),
                format!("{} per s: {}", grouped(per_s, 0), processors(opened * per_s / 1e6)),
            ),
            (
                "Memory of the flows",
                format!("{} B idle, {} B used", grouped(idle, 0), grouped(used, 0)),
                format!("{} to {}", gb(idle * FLOWS), gb(used * FLOWS)),
            ),
            (
                "Buffers: the rate times a round trip of 50 ms, and twice that with data sent again",
                "–".to_owned(),
                format!("{} to {}", gb(gb_per_s * 1e9 * ROUND_TRIP_S), gb(gb_per_s * 2e9 * ROUND_TRIP_S)),
            ),
            (
                "Traffic of the memory: three copies of every byte, each a read and a write, and the card's two",
                "–".to_owned(),
                format!("{} GB/s", grouped(gb_per_s * ACCESSES, 0)),
            ),
        ];
        let mut text = "| what | measured | 10 million flows, 100 Gbit/s |\n|---|---|---|\n".to_owned();
        for (what, measured, made) in rows {
            let _ = writeln!(text, "| {what} | {measured} | {made} |");
        }
        Some(text)
    }
}

#[cfg(test)]
mod tests {
    use crate::markdown::tests::results;
    use crate::{Part, Results, Row, Spread};

    fn part_of(name: &str, case: &str, way: &str, values: &[(&str, f64)]) -> Part {
        let spread = |median| Spread { median, min: median, max: median };
        let values = values.iter().map(|(name, median)| ((*name).to_owned(), spread(*median))).collect();
        let rows = vec![Row { case: case.to_owned(), way: way.to_owned(), values }];
        Part { name: name.to_owned(), rows, ..results().parts.remove(0) }
    }

    #[test]
    fn each_row_is_its_point_times_what_is_asked() {
        let mut results = Results::new();
        results.parts = vec![
            part_of("bulk", "4 flows", "accelerate", &[("box_s_per_gb", 0.4)]),
            part_of("packets", "4 flows", "accelerate", &[("box_us_per_packet", 3.0)]),
            part_of("flows", "100,000 flows", "accelerate", &[("box_us", 6.0)]),
            part_of("connections", "1 KB", "accelerate", &[("box_us", 60.0)]),
        ];
        assert_eq!(results.scale_markdown(), None, "the engine's part is missing");
        let mut engine = part_of("engine", "100,000 flows", "engine", &[("ns_per_packet", 500.0)]);
        let million =
            [("ns_per_packet", 1_000.0), ("bytes_per_flow", 800.0), ("bytes_per_used_flow", 1_000.0)];
        engine.rows.extend(part_of("engine", "1,000,000 flows", "engine", &million).rows);
        results.parts.push(engine);
        let text = results.scale_markdown().unwrap();
        let made: Vec<&str> = text
            .lines()
            .skip(2)
            .map(|line| line.rsplit(" | ").next().unwrap().trim_end_matches(" |"))
            .collect();
        assert_eq!(
            made,
            [
                "5.0 processors",
                "25.0 processors",
                "100.0 processors",
                "400.0 processors",
                "166,667 per s: 10.0 processors",
                "8.0 GB to 10.0 GB",
                "0.6 GB to 1.2 GB",
                "100 GB/s",
            ]
        );
    }
}
