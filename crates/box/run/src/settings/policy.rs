//! Flags of `cellerator run` about which flows are accelerated and how much they may take.

use core::str::FromStr;

use engine::{Action, EngineConfig, Rule};
use scenario::Quantity;
use serde::Deserialize;
use units::{Bytes, Duration};

use super::choice::{Named, OfUplink};
use super::value::{Within, Written, many};

/// Policy that decides which flows are accelerated.
#[derive(clap::Args, Deserialize)]
#[serde(default, rename_all = "kebab-case")]
#[command(next_help_heading = "Policy and limits")]
pub(super) struct PolicyArgs {
    /// Treatment of flows that no rule matches
    #[arg(long, visible_alias = "mode", default_value = "downlink", value_name = "WHAT")]
    direction: Named<Action>,
    /// A rule for flows, such as `pass port 22`, `both server 192.0.2.0/24 port 443` or `drwa client
    /// 10.0.0.9`. The first rule that matches decides. May be given several times
    #[arg(long, value_name = "RULE")]
    #[serde(deserialize_with = "many")]
    pub(super) rule: Vec<Written<Rule>>,
    /// Congestion control towards the servers, for uplink data
    #[arg(long, default_value = "cubic", value_name = "CONTROLLER")]
    uplink_controller: Named<OfUplink>,
    /// Window that `drwa` allows, in round trips of the path without a queue
    #[arg(long, value_name = "FACTOR", default_value = "3")]
    drwa_lambda: Written<Factor>,
    /// Pass flows whose receiving host answered the handshake faster than this: there is nothing to gain
    #[arg(long, value_name = "TIME", default_value = "0 ms")]
    min_rtt: Quantity<Duration>,
    /// Let servers send what the controller allows plus this, less what waits here: q20 of [WA] (8),
    /// which is 75 KB there [default: twice what the path holds, plus a floor]
    #[arg(long, value_name = "SIZE")]
    waiting_target: Option<Quantity<Bytes>>,
    /// Most flows in the table; further flows pass
    #[arg(long, value_name = "N", default_value = "100000")]
    flows_max: Written<usize>,
    /// Most flows of one subscriber; further flows pass
    #[arg(long, value_name = "N", default_value = "4096")]
    subscriber_flows_max: Written<Within<0, { u32::MAX }>>,
    /// Most memory for data that is held
    #[arg(long, value_name = "SIZE", default_value = "1 GiB")]
    memory_max: Quantity<Bytes>,
    /// The same for one subscriber
    #[arg(long, value_name = "SIZE", default_value = "128 MiB")]
    subscriber_memory_max: Quantity<Bytes>,
    /// The same for one flow
    #[arg(long, value_name = "SIZE", default_value = "64 MiB")]
    flow_memory_max: Quantity<Bytes>,
    /// Largest window offered to a server, and so the most that one flow may owe [default: what its path
    /// needs, as far as there is memory]
    #[arg(long, value_name = "SIZE")]
    window_max: Option<Quantity<Bytes>>,
    /// A client that acknowledges nothing of what it is owed for this long counts as gone: both sides are
    /// reset
    #[arg(long, value_name = "TIME", default_value = "120 s")]
    debt_timeout: Quantity<Duration>,
    /// Bits of an IPv6 address that make one subscriber
    #[arg(long, value_name = "BITS", default_value = "64")]
    ipv6_prefix: Written<Within<1, 128>>,
}

/// A factor in thousandths, from a number above 1 and up to 100.
#[derive(Clone, Copy)]
struct Factor(u32);

impl FromStr for Factor {
    type Err = &'static str;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        match text.parse::<f64>() {
            Ok(number) if number > 1.0 && number <= 100.0 => Ok(Self((number * 1_000.0).round() as u32)),
            _ => Err("a number above 1 and up to 100, such as 3 or 2.5"),
        }
    }
}

impl PolicyArgs {
    /// The prefix length that makes a subscriber.
    pub(super) fn ipv6_prefix(&self) -> u8 {
        self.ipv6_prefix.0.0 as u8
    }

    /// Puts the flags into `config`.
    pub(super) fn apply(&self, config: &mut EngineConfig) {
        config.policy.default = self.direction.0;
        config.policy.rules = self.rule.iter().map(|Written(rule)| rule.clone()).collect();
        config.uplink.controller = self.uplink_controller.0.0.config();
        config.drwa.lambda_permille = self.drwa_lambda.0.0;
        config.rtt_min = self.min_rtt.0;
        config.waiting_target = self.waiting_target.map(|Quantity(size)| size);
        config.flows_max = self.flows_max.0;
        config.subscriber_flows_max = self.subscriber_flows_max.0.0;
        config.buffer_max = self.memory_max.0;
        config.subscriber_buffer_max = self.subscriber_memory_max.0;
        config.flow_buffer_max = self.flow_memory_max.0;
        let window_max = self.window_max.map_or(Bytes::MAX, |Quantity(size)| size);
        (config.window_max, config.uplink.window_max) = (window_max, window_max);
        config.window_floor = config.window_floor.min(window_max);
        config.uplink.window_floor = config.uplink.window_floor.min(window_max);
        config.debt_timeout = self.debt_timeout.0;
        config.ipv6_prefix_len = self.ipv6_prefix();
    }
}

#[cfg(test)]
mod tests {
    use clap::Parser;
    use control::{BbrParams, ControllerConfig};

    use super::*;

    #[derive(Parser)]
    struct Line {
        #[command(flatten)]
        args: PolicyArgs,
    }

    fn parse(words: &[&str]) -> Result<EngineConfig, String> {
        let line = Line::try_parse_from(std::iter::once(&"run").chain(words)).map_err(|e| e.to_string())?;
        let mut config = EngineConfig::default();
        line.args.apply(&mut config);
        Ok(config)
    }

    #[test]
    fn without_flags_the_defaults_of_the_engine_hold() {
        assert_eq!(parse(&[]).unwrap(), EngineConfig::default());
    }

    #[test]
    fn flags_reach_the_engine_and_nonsense_is_named() {
        let config = parse(&[
            "--direction",
            "both",
            "--rule",
            "pass port 22",
            "--rule",
            "uplink client 10.0.0.9",
            "--min-rtt",
            "5 ms",
            "--memory-max",
            "2 GiB",
            "--window-max",
            "100 KB",
            "--uplink-controller",
            "bbr",
            "--drwa-lambda",
            "2.5",
            "--ipv6-prefix",
            "56",
        ])
        .unwrap();
        assert_eq!((config.policy.default, config.policy.rules.len()), (Action::Both, 2));
        assert_eq!(config.rtt_min, Duration::from_millis(5));
        assert_eq!((config.buffer_max, config.ipv6_prefix_len), (Bytes::from_mib(2_048), 56));
        assert_eq!((config.window_max, config.window_floor), (Bytes::new(100_000), Bytes::new(100_000)));
        assert_eq!(config.uplink.window_max, Bytes::new(100_000));
        assert_eq!(config.uplink.controller, ControllerConfig::Bbr(BbrParams::default()));
        assert_eq!(config.drwa.lambda_permille, 2_500);
        assert_eq!(parse(&["--mode", "drwa"]).unwrap().policy.default, Action::Drwa);
        assert!(parse(&["--drwa-lambda", "1"]).unwrap_err().contains("above 1"));
        assert!(parse(&["--rule", "pass prot 22"]).unwrap_err().contains("`prot` names nothing to match"));
        assert!(parse(&["--ipv6-prefix", "129"]).is_err());
    }
}
