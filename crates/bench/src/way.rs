//! [`Way`]: what carries packets through the box.

/// One way through the box.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum Way {
    /// The kernel forwards; no program takes part.
    Kernel,
    /// The path of `cellerator run` around a processor that passes everything: the limit of this path.
    Echo,
    /// The engine, passing every flow.
    Pass,
    /// The engine accelerating at a constant rate that no machine reaches.
    Fixed,
    /// The engine accelerating at a rate it finds itself.
    Rate,
}

/// Beyond what one flow reaches on any machine this runs on, so that pacing is never the limit.
const NO_LIMIT: &str = "100 Gbit/s";

impl Way {
    /// All, in the order of the first round.
    pub const ALL: [Self; 5] = [Self::Kernel, Self::Echo, Self::Pass, Self::Fixed, Self::Rate];

    /// Its name in results.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Kernel => "kernel",
            Self::Echo => "echo",
            Self::Pass => "pass",
            Self::Fixed => "accelerate-fixed",
            Self::Rate => "accelerate-rate",
        }
    }

    /// What it is, in a few words.
    #[must_use]
    pub const fn title(self) -> &'static str {
        match self {
            Self::Kernel => "kernel forwarding",
            Self::Echo => "bare TUN echo",
            Self::Pass => "engine passing",
            Self::Fixed => "engine accelerating, `fixed`",
            Self::Rate => "engine accelerating, `rate`",
        }
    }

    /// True when the engine takes flows over.
    #[must_use]
    pub const fn accelerates(self) -> bool {
        matches!(self, Self::Fixed | Self::Rate)
    }

    /// Arguments of `cellerator` for the program in the box, if there is one, to join the two interfaces.
    #[must_use]
    pub fn arguments(self, wired: &str, mobile: &str) -> Option<Vec<String>> {
        let more: &[&str] = match self {
            Self::Kernel => return None,
            Self::Echo => return Some(strings(&["bench", "echo", "--wired", wired, "--mobile", mobile])),
            Self::Pass => &["--no-accelerate"],
            Self::Fixed => &["--controller", "fixed", "--rate", NO_LIMIT],
            Self::Rate => &["--controller", "rate", "--r-cap", NO_LIMIT],
        };
        Some(strings(&[&["run", "--wired", wired, "--mobile", mobile], more].concat()))
    }
}

fn strings(words: &[&str]) -> Vec<String> {
    words.iter().map(|word| (*word).to_owned()).collect()
}
