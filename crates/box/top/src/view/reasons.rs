//! Reasons why flows are not accelerated, in words.

/// Reasons that are ends of flows which were accelerated.
const ENDS: [&str; 4] = ["closed", "reset", "idle", "client-gone"];

/// True for an end.
pub(super) fn is_end(reason: &str) -> bool {
    ENDS.contains(&reason)
}

/// Meaning of a reason.
pub(super) fn meaning(reason: &str) -> &'static str {
    match reason {
        "disabled" => "acceleration is switched off",
        "mptcp" => "Multipath TCP",
        "authenticated" => "its segments are signed (TCP-MD5, TCP-AO)",
        "syn-data" => "data in the handshake (TCP Fast Open)",
        "accurate-ecn" => "Accurate ECN disagreed on, or L4S without it",
        "malformed-options" => "options that cannot be read",
        "simultaneous-open" => "both sides opened at once",
        "table-full" => "the flow table is full",
        "half-open-full" => "too many handshakes under way",
        "memory-full" => "buffers hold as much as they may",
        "draining" => "the accelerator is to end",
        "handshake-timeout" => "the handshake did not finish in time",
        "desynchronised" => "packets went past the accelerator",
        "closed" => "ended by both sides",
        "reset" => "reset by one side",
        "idle" => "silent for too long",
        "client-gone" => "the client answers no more",
        "policy" => "a rule of the policy says so",
        "subscriber-full" => "the subscriber has too many flows",
        "no-gain" => "the path is too short for a gain",
        "one-direction" => "only one direction comes through here",
        "nonsensical-sack" => "SACK blocks that make no sense",
        "not-tcp-like" => "it does not behave like TCP",
        "tiny-segments" => "segments are too short for a gain",
        _ => "a reason of another version",
    }
}

#[cfg(test)]
mod tests {
    use engine::PassReason;

    use super::*;

    #[test]
    fn every_reason_has_a_meaning() {
        let unknown = meaning("");
        for reason in PassReason::ALL {
            assert_ne!(meaning(reason.name()), unknown, "{}", reason.name());
        }
        assert!(ENDS.iter().all(|end| PassReason::ALL.iter().any(|reason| reason.name() == *end)));
    }
}
