//! [`Way`]: what carries packets through the box.

use crate::listed::listed;

listed! {
    /// One way through the box.
    pub enum Way;
    /// Title of the way, in a few words.
    fn title;
    /// The kernel forwards; no program takes part.
    Kernel: "kernel", "kernel forwarding";
    /// The path of `cellerator run` around a processor that passes everything: the limit of this path.
    Echo: "echo", "bare TUN echo";
    /// The same, exchanging ordinary packets with the kernel.
    EchoPlain: "echo-no-gso", "bare TUN echo, no GSO";
    /// The same as [`Way::Echo`], never sleeping.
    EchoBusy: "echo-busy-poll", "bare TUN echo, busy polling";
    /// The engine, passing every flow.
    Pass: "pass", "engine passing";
    /// The engine accelerating at a constant rate that no machine reaches.
    Fixed: "accelerate-fixed", "accelerating, `fixed`";
    /// The engine accelerating at a rate it finds itself.
    Rate: "accelerate-rate", "accelerating, `rate`";
    /// The engine accelerating with its defaults.
    Adaptive: "accelerate", "accelerating";
    /// The same before all else that the machine computes, as it is started where nothing is said.
    AdaptiveFirst: "accelerate-first", "accelerating, niceness −10";
    /// The same, exchanging ordinary packets with the kernel.
    AdaptivePlain: "accelerate-no-gso", "accelerating, no GSO";
    /// The same as [`Way::Adaptive`], never sleeping.
    AdaptiveBusy: "accelerate-busy-poll", "accelerating, busy polling";
    /// The same as [`Way::Adaptive`], without records for a successor.
    AdaptiveAlone: "accelerate-no-successor", "accelerating, no successor";
    /// The same as [`Way::Adaptive`] with a thread for each processor.
    AdaptiveShards: "accelerate-shards", "accelerating, a shard per processor";
    /// HAProxy as transparent TCP proxy, which copies what it carries.
    Haproxy: "haproxy", "HAProxy, no splice";
    /// The same, which has the kernel move what it carries (`splice`).
    HaproxySplice: "haproxy-splice", "HAProxy, splice";
    /// The engine accelerating, policy rules lead packets to it.
    AdaptiveRules: "accelerate-rules", "accelerating, rules";
    /// The same, a BPF program at the interfaces does.
    AdaptiveTcx: "accelerate-tcx", "accelerating, tcx";
    /// The kernel forwards, filters by state, and translates.
    KernelFiltered: "kernel-filtered", "kernel forwarding, filter by state";
    /// The engine accelerating, policy rules lead packets to it, beside such a filter.
    AdaptiveFiltered: "accelerate-filtered", "accelerating, rules, filter by state";
    /// The engine passing every flow, by policy rules.
    PassRules: "pass-rules", "passing, rules";
    /// The same by a BPF program, which sends it every packet.
    PassTcxAll: "pass-tcx-no-bypass", "passing, tcx, through the engine";
    /// The same by a BPF program that leaves passed flows to the kernel.
    PassTcx: "pass-tcx", "passing, tcx, left to the kernel";
    /// A bridge of the kernel's; no program takes part.
    KernelBridge: "kernel-bridge", "kernel bridge";
    /// The engine as a bridge, accelerating.
    Inline: "inline", "inline, accelerating";
    /// The engine as a bridge, passing every flow.
    InlinePass: "inline-pass", "inline, passing";
    /// No box: the engine alone, in virtual time.
    EngineAlone: "engine", "engine alone";
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
    /// True when the engine takes flows over.
    #[must_use]
    pub const fn accelerates(self) -> bool {
        matches!(
            self,
            Self::Fixed
                | Self::Rate
                | Self::Adaptive
                | Self::AdaptiveFirst
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
            Self::AdaptiveFirst => (RUN_FIRST, &["--flows-max", "200000"]),
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
            &["--inline", wired, mobile, "--inline-fallback", "bridge"]
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
/// With the niceness of all others here.
const RUN: &[&str] = &["run", "--nice", "0"];
/// With its own.
const RUN_FIRST: &[&str] = &["run"];
