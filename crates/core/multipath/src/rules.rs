//! [`State`], [`Cause`] and the table of transitions.

use core::fmt;

use serde::{Deserialize, Serialize};

/// Defines an enum with the names that its variants have in files and for people.
macro_rules! named {
    ($($(#[$about:meta])* $visible:vis enum $name:ident { $($(#[$meaning:meta])* $variant:ident = $text:literal,)* })*) => {$(
        $(#[$about])*
        #[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Serialize, Deserialize)]
        #[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
        $visible enum $name {
            $($(#[$meaning])* #[serde(rename = $text)] $variant,)*
        }

        impl $name {
            /// All of them.
            pub const ALL: [Self; [$($text),*].len()] = [$(Self::$variant),*];

            /// Its name.
            #[must_use]
            pub const fn name(self) -> &'static str {
                match self {
                    $(Self::$variant => $text,)*
                }
            }
        }

        impl fmt::Display for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.pad(self.name())
            }
        }
    )*};
}

named! {
    /// The state of a path.
    pub enum State {
        /// The interface has no carrier, no usable address, or no route.
        Absent = "absent",
        /// It is not used: the server does not answer through it, or has not yet.
        Down = "down",
        /// It is used.
        Up = "up",
        /// Something that is due is missing; probes decide.
        Suspect = "suspect",
        /// It carries packets but is weak: the peer is asked to use it as backup only.
        Degraded = "degraded",
    }

    /// Reason why a path changes its state, or keeps it and is acted on.
    pub enum Cause {
        /// Address and route are usable.
        Appeared = "appeared",
        /// Carrier, address or route is gone.
        Vanished = "vanished",
        /// The interface has another address.
        Readdressed = "readdressed",
        /// Enough probes in a row were answered.
        Answered = "answered",
        /// Data is due and nothing arrives.
        Quiet = "quiet",
        /// The answer to a probe is late.
        Late = "late",
        /// Something arrived.
        Arrived = "arrived",
        /// Probes were lost in a row.
        Lost = "lost",
        /// Probes were lost in a row, and no other path is usable.
        Last = "last",
        /// The radio is weak, or many probes are lost.
        Weak = "weak",
        /// The radio has been strong for a time.
        Strong = "strong",
        /// The address that the server sees has changed: a NAT on the way has forgotten its mappings.
        Moved = "moved",
        /// Another interface has the name: what is bound to the old one is stranded.
        Replaced = "replaced",
        /// The host's administrator wants the path unused.
        Retired = "retired",
        /// Its data has drained, or took too long.
        Drained = "drained",
        /// No subflow has joined in time.
        Unjoined = "unjoined",
    }
}

impl State {
    /// Packets pass, as far as is known.
    #[must_use]
    pub const fn passes(self) -> bool {
        matches!(self, Self::Up | Self::Degraded)
    }
}

/// One row of the table.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct TransitionRule {
    /// States before.
    pub from: &'static [State],
    /// Reason that the rule gives.
    pub cause: Cause,
    /// State after.
    pub to: State,
    /// Exact condition; names in backquotes are settings.
    pub when: &'static str,
    /// Action taken.
    pub done: &'static str,
}

use State::{Absent, Degraded, Down, Suspect, Up};

/// Every transition there is, and every action without a change of state.
pub const RULES: [TransitionRule; 21] = [
    TransitionRule {
        from: &[Absent],
        cause: Cause::Appeared,
        to: Down,
        when: "carrier, address (not tentative) and a default route are there",
        done: "probe every `probe_suspect`",
    },
    TransitionRule {
        from: &[Down],
        cause: Cause::Answered,
        to: Up,
        when: "`answers_to_up` probes in a row were answered, none is late, and the wait for flapping is over",
        done: "restore routes, add the endpoint",
    },
    TransitionRule {
        from: &[Down],
        cause: Cause::Weak,
        to: Degraded,
        when: "the same, and the radio is weak",
        done: "restore routes, add the endpoint as backup",
    },
    TransitionRule {
        from: &[Up, Degraded],
        cause: Cause::Quiet,
        to: Suspect,
        when: "data is due and nothing arrived for max(`quiet_min`, 2 RTT, 3 usual gaps)",
        done: "probe every `probe_suspect`",
    },
    TransitionRule {
        from: &[Up, Degraded],
        cause: Cause::Late,
        to: Suspect,
        when: "a probe and everything else is unanswered for max(`quiet_min`, 2 RTT, RTT + 4 deviations)",
        done: "probe every `probe_suspect`",
    },
    TransitionRule {
        from: &[Suspect],
        cause: Cause::Arrived,
        to: Up,
        when: "anything arrives: data, an acknowledgement, an answer",
        done: "nothing",
    },
    TransitionRule {
        from: &[Suspect],
        cause: Cause::Weak,
        to: Degraded,
        when: "the same, and the path is weak",
        done: "nothing",
    },
    TransitionRule {
        from: &[Suspect],
        cause: Cause::Lost,
        to: Down,
        when: "`losses_to_down` probes are lost in a row, or data is due, one is lost and as many are late; another path is usable",
        done: "remove the endpoint (the peer hears it over the other path), unless it is backup and idle; demote routes; probe every `probe_down`",
    },
    TransitionRule {
        from: &[Suspect],
        cause: Cause::Last,
        to: Suspect,
        when: "the same, and no other path is usable",
        done: "keep it: the last path is never removed",
    },
    TransitionRule {
        from: &[Up],
        cause: Cause::Weak,
        to: Degraded,
        when: "the radio is below `weak_dbm`, or `weak_losses` probes are lost",
        done: "tell the peer: backup (MP_PRIO), while it can still hear it",
    },
    TransitionRule {
        from: &[Degraded],
        cause: Cause::Strong,
        to: Up,
        when: "above `weak_dbm` + `strong_margin_db`, and few losses, for `strong_for`",
        done: "tell the peer: no longer backup",
    },
    TransitionRule {
        from: &[Up, Degraded, Suspect, Down],
        cause: Cause::Vanished,
        to: Absent,
        when: "carrier, address or route is gone",
        done: "remove the endpoint as soon as another path is usable",
    },
    TransitionRule {
        from: &[Up, Degraded, Suspect, Down],
        cause: Cause::Readdressed,
        to: Down,
        when: "the interface has another address",
        done: "remove the stranded endpoint at once, prove the new address",
    },
    TransitionRule {
        from: &[Up],
        cause: Cause::Moved,
        to: Up,
        when: "the address that the server sees has changed",
        done: "remove and add the endpoint: its subflows are stranded",
    },
    TransitionRule {
        from: &[Degraded],
        cause: Cause::Moved,
        to: Degraded,
        when: "the same",
        done: "remove and add the endpoint as backup",
    },
    TransitionRule {
        from: &[Up],
        cause: Cause::Replaced,
        to: Up,
        when: "another interface has the name, and the path has been proved again",
        done: "remove and add the endpoint, also of the last path: it is bound to what is gone",
    },
    TransitionRule {
        from: &[Degraded],
        cause: Cause::Replaced,
        to: Degraded,
        when: "the same",
        done: "remove and add the endpoint as backup",
    },
    TransitionRule {
        from: &[Up, Suspect],
        cause: Cause::Retired,
        to: Degraded,
        when: "the administrator wants the path unused",
        done: "tell the peer: backup",
    },
    TransitionRule {
        from: &[Degraded],
        cause: Cause::Drained,
        to: Down,
        when: "a retired path has been quiet for 2 RTT, or `drain_max` is over; another path is usable",
        done: "remove the endpoint, demote routes",
    },
    TransitionRule {
        from: &[Up],
        cause: Cause::Unjoined,
        to: Up,
        when: "there are connections, and no subflow has joined for `join_wait`, doubled each time",
        done: "remove and add the endpoint",
    },
    TransitionRule {
        from: &[Degraded],
        cause: Cause::Unjoined,
        to: Degraded,
        when: "the same",
        done: "remove and add the endpoint as backup",
    },
];

/// The rule for a transition; none means that the machine must not make it.
#[must_use]
pub fn rule(from: State, cause: Cause, to: State) -> Option<&'static TransitionRule> {
    RULES.iter().find(|rule| rule.from.contains(&from) && rule.cause == cause && rule.to == to)
}

/// The table as Markdown.
#[must_use]
pub fn markdown() -> String {
    let mut text = "| from | cause | to | when | what is done |\n|---|---|---|---|---|\n".to_owned();
    for rule in &RULES {
        let from: Vec<&str> = rule.from.iter().map(|state| state.name()).collect();
        let line = [&from.join(", "), rule.cause.name(), rule.to.name(), rule.when, rule.done];
        text.push_str(&format!("| {} |\n", line.join(" | ")));
    }
    text
}

/// The table as a diagram: of each state, where its causes lead.
#[must_use]
pub fn diagram() -> String {
    let mut text = String::new();
    for state in State::ALL {
        let rows: Vec<&TransitionRule> = RULES.iter().filter(|rule| rule.from.contains(&state)).collect();
        for (i, rule) in rows.iter().enumerate() {
            let name = if i == 0 { state.name() } else { "" };
            let branch = match (i, rows.len()) {
                (0, 1) => "──",
                (0, _) => "┬─",
                (i, n) if i + 1 == n => "└─",
                _ => "├─",
            };
            let to = if rule.to == state { "(stays)" } else { rule.to.name() };
            text.push_str(&format!("{name:<9}{branch} {:<12}──▶ {to}\n", rule.cause.name()));
        }
        text.push('\n');
    }
    text.trim_end().to_owned() + "\n"
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_state_and_a_cause_lead_to_one_state_unless_it_is_weak() {
        for (i, a) in RULES.iter().enumerate() {
            for b in &RULES[i + 1..] {
                let overlap = a.from.iter().any(|state| b.from.contains(state));
                assert!(!(overlap && a.cause == b.cause), "{a:?} {b:?}");
            }
        }
    }

    #[test]
    fn every_state_is_entered_and_left() {
        for state in State::ALL {
            assert!(RULES.iter().any(|rule| rule.to == state && !rule.from.contains(&state)), "{state}");
            assert!(RULES.iter().any(|rule| rule.from.contains(&state) && rule.to != state), "{state}");
        }
        assert_eq!(diagram().lines().filter(|line| line.contains("──▶")).count(), 30);
    }
}
