//! [`Way`]: what carries packets through the box.

/// One way through the box.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum Way {
    /// The kernel forwards; no program takes part.
    Kernel,
    /// The path of `cellerator run` around a processor that passes everything: the limit of this path.
    Echo,
    /// The same, exchanging ordinary packets with the kernel.
    EchoPlain,
    /// The same as [`Way::Echo`], never sleeping.
    EchoBusy,
    /// The engine, passing every flow.
    Pass,
    /// The engine accelerating at a constant rate that no machine reaches.
    Fixed,
    /// The engine accelerating at a rate it finds itself.
    Rate,
    /// The engine accelerating with its defaults.
    Adaptive,
    /// The same, exchanging ordinary packets with the kernel.
    AdaptivePlain,
    /// The same as [`Way::Adaptive`], never sleeping.
    AdaptiveBusy,
    /// The same as [`Way::Adaptive`], without records for a successor.
    AdaptiveAlone,
    /// The same as [`Way::Adaptive`] with a thread for each processor.
    AdaptiveShards,
    /// HAProxy as transparent TCP proxy, which copies what it carries.
    Haproxy,
    /// The same, which has the kernel move what it carries (`splice`).
    HaproxySplice,
    /// The engine accelerating, policy rules lead packets to it.
    AdaptiveRules,
    /// The same, a BPF program at the interfaces does.
    AdaptiveTcx,
    /// The kernel forwards, filters by state, and translates.
    KernelFiltered,
    /// The engine accelerating, policy rules lead packets to it, beside such a filter.
    AdaptiveFiltered,
    /// The engine passing every flow, by policy rules.
    PassRules,
    /// The same by a BPF program, which sends it every packet.
    PassTcxAll,
    /// The same by a BPF program that leaves passed flows to the kernel.
    PassTcx,
    /// A bridge of the kernel's; no program takes part.
    KernelBridge,
    /// The engine as a bridge, accelerating.
    Inline,
    /// The engine as a bridge, passing every flow.
    InlinePass,
    /// No box: the engine alone, in virtual time.
    EngineAlone,
}

/// Program in the box.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) enum Program {
    /// `cellerator` with these arguments.
    Cellerator(Vec<String>),
    /// HAProxy.
    Haproxy {
        /// With splicing.
        splice: bool,
    },
}

/// Beyond what one flow reaches on any machine this runs on, so that pacing is never the limit.
const NO_LIMIT: &str = "100 Gbit/s";

impl Way {
    /// All.
    pub const ALL: [Self; 25] = [
        Self::Kernel,
        Self::Echo,
        Self::EchoPlain,
        Self::EchoBusy,
        Self::Pass,
        Self::Fixed,
        Self::Rate,
        Self::Adaptive,
        Self::AdaptivePlain,
        Self::AdaptiveBusy,
        Self::AdaptiveAlone,
        Self::AdaptiveShards,
        Self::Haproxy,
        Self::HaproxySplice,
        Self::AdaptiveRules,
        Self::AdaptiveTcx,
        Self::KernelFiltered,
        Self::AdaptiveFiltered,
        Self::PassRules,
        Self::PassTcxAll,
        Self::PassTcx,
        Self::KernelBridge,
        Self::Inline,
        Self::InlinePass,
        Self::EngineAlone,
    ];

    /// Its name in results.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Kernel => "kernel",
            Self::Echo => "echo",
            Self::EchoPlain => "echo-no-gso",
            Self::EchoBusy => "echo-busy-poll",
            Self::Pass => "pass",
            Self::Fixed => "accelerate-fixed",
            Self::Rate => "accelerate-rate",
            Self::Adaptive => "accelerate",
            Self::AdaptivePlain => "accelerate-no-gso",
            Self::AdaptiveBusy => "accelerate-busy-poll",
            Self::AdaptiveAlone => "accelerate-no-successor",
            Self::AdaptiveShards => "accelerate-shards",
            Self::Haproxy => "haproxy",
            Self::HaproxySplice => "haproxy-splice",
            Self::AdaptiveRules => "accelerate-rules",
            Self::AdaptiveTcx => "accelerate-tcx",
            Self::KernelFiltered => "kernel-filtered",
            Self::AdaptiveFiltered => "accelerate-filtered",
            Self::PassRules => "pass-rules",
            Self::PassTcxAll => "pass-tcx-no-bypass",
            Self::PassTcx => "pass-tcx",
            Self::KernelBridge => "kernel-bridge",
            Self::Inline => "inline",
            Self::InlinePass => "inline-pass",
            Self::EngineAlone => "engine",
        }
    }

    /// Title of the way, in a few words.
    #[must_use]
    pub const fn title(self) -> &'static str {
        match self {
            Self::Kernel => "kernel forwarding",
            Self::Echo => "bare TUN echo",
            Self::EchoPlain => "bare TUN echo, no GSO",
            Self::EchoBusy => "bare TUN echo, busy polling",
            Self::Pass => "engine passing",
            Self::Fixed => "accelerating, `fixed`",
            Self::Rate => "accelerating, `rate`",
            Self::Adaptive => "accelerating",
            Self::AdaptivePlain => "accelerating, no GSO",
            Self::AdaptiveBusy => "accelerating, busy polling",
            Self::AdaptiveAlone => "accelerating, no successor",
            Self::AdaptiveShards => "accelerating, a shard per processor",
            Self::Haproxy => "HAProxy, no splice",
            Self::HaproxySplice => "HAProxy, splice",
            Self::AdaptiveRules => "accelerating, rules",
            Self::AdaptiveTcx => "accelerating, tcx",
            Self::KernelFiltered => "kernel forwarding, filter by state",
            Self::AdaptiveFiltered => "accelerating, rules, filter by state",
            Self::PassRules => "passing, rules",
            Self::PassTcxAll => "passing, tcx, through the engine",
            Self::PassTcx => "passing, tcx, left to the kernel",
            Self::KernelBridge => "kernel bridge",
            Self::Inline => "inline, accelerating",
            Self::InlinePass => "inline, passing",
            Self::EngineAlone => "engine alone",
        }
    }

    /// True when the engine takes flows over.
    #[must_use]
    pub const fn accelerates(self) -> bool {
        matches!(
            self,
            Self::Fixed
                | Self::Rate
                | Self::Adaptive
                | Self::AdaptivePlain
                | Self::AdaptiveBusy
                | Self::AdaptiveAlone
                | Self::Inline
        )
    }

    /// True when the box has no addresses and both ends are in one segment.
    pub(crate) const fn bridges(self) -> bool {
        matches!(self, Self::KernelBridge | Self::Inline | Self::InlinePass)
    }

    /// Program in the box between the two interfaces, if anything.
    pub(crate) fn program(self, wired: &str, mobile: &str) -> Option<Program> {
        let count = io::sched::cpu_count().to_string();
        let (command, more): (&[&str], &[&str]) = match self {
            Self::Kernel | Self::KernelFiltered | Self::KernelBridge | Self::EngineAlone => return None,
            Self::Inline => (RUN, &[]),
            Self::InlinePass => (RUN, &["--no-accelerate"]),
            Self::Haproxy => return Some(Program::Haproxy { splice: false }),
            Self::HaproxySplice => return Some(Program::Haproxy { splice: true }),
            Self::Echo => (ECHO, &[]),
            Self::EchoPlain => (ECHO, &["--no-gso"]),
            Self::EchoBusy => (ECHO, &["--busy-poll"]),
            Self::Pass => (RUN, &["--no-accelerate"]),
            Self::Fixed => (RUN, &["--controller", "fixed", "--rate", NO_LIMIT]),
            Self::Rate => (RUN, &["--controller", "rate", "--r-cap", NO_LIMIT]),
            // Room for shards of unequal size with 100,000 flows, which is the default.
            Self::Adaptive => (RUN, &["--flows-max", "200000"]),
            Self::AdaptivePlain => (RUN, &["--no-gso"]),
            Self::AdaptiveBusy => (RUN, &["--busy-poll"]),
            Self::AdaptiveAlone => (RUN, &["--flows-max", "200000", "--recover-within", "0 s"]),
            Self::AdaptiveShards => (RUN, &["--shards", &count]),
            Self::AdaptiveRules | Self::AdaptiveFiltered => (RUN, &["--steering", "rules"]),
            Self::AdaptiveTcx => (RUN, &["--steering", "tcx"]),
            Self::PassRules => (RUN, &["--no-accelerate", "--steering", "rules"]),
            Self::PassTcxAll => (RUN, &["--no-accelerate", "--steering", "tcx", "--no-bypass"]),
            Self::PassTcx => (RUN, &["--no-accelerate", "--steering", "tcx"]),
        };
        let between: &[&str] = if self.bridges() {
            &["--inline", wired, mobile]
        } else {
            &["--wired", wired, "--mobile", mobile]
        };
        let words = [command, between, more].concat();
        Some(Program::Cellerator(words.into_iter().map(str::to_owned).collect()))
    }

    /// Program in the box, as Markdown; commands as a user would type them.
    pub(crate) fn in_the_box(self) -> String {
        match self.program("IF", "IF") {
            None if self == Self::EngineAlone => {
                "no box: `cellerator bench engine-cost --flows N`".to_owned()
            }
            None if self == Self::KernelBridge => "nothing; the kernel bridges".to_owned(),
            None if self == Self::KernelFiltered => {
                "nothing; the kernel forwards, filters and translates".to_owned()
            }
            None => "nothing; the kernel forwards".to_owned(),
            Some(Program::Haproxy { splice }) => {
                let option = if splice { "`option splice-auto`" } else { "no splicing" };
                format!(
                    "`haproxy -db -f FILE` with TPROXY, `usesrc clientip`, `option transparent`, {option}"
                )
            }
            Some(Program::Cellerator(words)) => {
                let quoted = words
                    .iter()
                    .map(|word| if word.contains(' ') { format!("'{word}'") } else { word.clone() });
                let words: Vec<String> = std::iter::once("cellerator".to_owned()).chain(quoted).collect();
                format!("`{}`", words.join(" "))
            }
        }
    }

    /// The way of that name.
    #[must_use]
    pub fn named(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|way| way.name() == name)
    }
}

const ECHO: &[&str] = &["bench", "echo"];
const RUN: &[&str] = &["run"];
