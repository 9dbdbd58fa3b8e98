//! [`Event`]: what happens to a running instance, for whoever writes it down or counts it.
//!
//! ```text
//!   supervisor ── Event { severity, fields } ──▶ EventSink: lines on a terminal, a log, counters, a test
//! ```
//!
//! Names and fields are stable: they are what JSON shows, and what counters are called by. The line is made
//! where it is shown.

use std::fmt;

use serde::{Serialize, Serializer};
use units::Bytes;

/// Fate of the flows.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize)]
pub struct FlowTotals {
    /// Flows whose receiving host turned out to have everything.
    pub whole: usize,
    /// Flows that were owed something.
    pub flows: usize,
    /// Ends of those, of two each, that said that they are reset.
    pub ends_reset: usize,
}

impl fmt::Display for FlowTotals {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { whole, flows, ends_reset } = self;
        write!(f, "{flows} flows reset: {ends_reset} of {} ends are gone", 2 * flows)?;
        if *whole > 0 { write!(f, "; {whole} had everything and go on") } else { Ok(()) }
    }
}

/// Degree of attention that an event asks for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Severity {
    /// All is as it should be.
    Info,
    /// Something to know before it is used.
    Notice,
    /// Something is not as it should be, and it goes on.
    Warning,
}

impl Severity {
    /// Prefix of a line of this severity.
    #[must_use]
    pub const fn prefix(self) -> &'static str {
        match self {
            Self::Info => "",
            Self::Notice => "notice: ",
            Self::Warning => "warning: ",
        }
    }
}

/// Takes events in, one after the other.
pub trait EventSink {
    /// Something has happened.
    fn on_event(&mut self, event: &Event);
}

impl<F: FnMut(&Event)> EventSink for F {
    fn on_event(&mut self, event: &Event) {
        self(event);
    }
}

/// The events, each with its severity, its fields, and its text.
macro_rules! events {
    ($(
        $(#[$doc:meta])*
        $severity:ident $name:ident $({ $($(#[$field_doc:meta])* $field:ident: $kind:ty),* $(,)? })? => $text:literal;
    )*) => {
        /// Event of an instance. Its text is one line without a severity.
        #[derive(Clone, Debug, PartialEq, Eq, Serialize)]
        #[serde(tag = "event", rename_all = "kebab-case")]
        #[non_exhaustive]
        pub enum Event {
            $( $(#[$doc])* $name $({ $($(#[$field_doc])* $field: $kind),* })?, )*
        }

        impl Event {
            /// Severity: the attention it asks for.
            #[must_use]
            pub const fn severity(&self) -> Severity {
                match self {
                    $( Self::$name { .. } => Severity::$severity, )*
                }
            }
        }

        impl fmt::Display for Event {
            #[allow(unused_variables)] // Not every field is in the text.
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                match self {
                    $( Self::$name $({ $($field),* })? => write!(f, $text), )*
                }
            }
        }
    };
}

events! {
    // The start.

    /// One step of what is set up.
    Info SetUp {
        /// The equivalent command, or a comment.
        command: String,
    } => "{command}";
    /// Something of the machine's that may be in the way.
    Warning Caution {
        /// Finding, and what to do.
        advice: String,
    } => "{advice}";
    /// Leftovers of a killed instance were undone.
    Info LeftoverRemoved {
        /// Its number, or `unknown`.
        process: String,
    } => "removed what process {process} left behind";
    /// The flows that a killed instance owed something were seen to.
    Warning DebtOfKilledSettled {
        /// Fate of the flows.
        outcome: String,
    } => "a killed process owed data: {outcome}";
    /// They could not be.
    Warning DebtOfKilledLeft {
        /// Number of flows.
        flows: usize,
        /// Reason of the failure.
        error: String,
    } => "cannot reset {flows} flows that will stall: {error}";
    /// The instance whose place this one takes was told to end.
    Info Replacing {
        /// Name given in the command.
        name: String,
    } => "replacing '{name}'";
    /// Its flows are ours.
    Info FlowsTakenOver {
        /// Number of flows.
        flows: u64,
        /// Time from its answer to the end, µs.
        took_us: u64,
    } => "took over {flows} flows of it";
    /// Its devices are not: this instance stands behind it until it has ended.
    Info DevicesNotTakenOver {
        /// Reason.
        why: String,
    } => "its devices stay with it, and new ones stand behind them: {why}";
    /// They are not.
    Warning FlowsNotTakenOver {
        /// Reason.
        why: String,
    } => "its flows stay with it until nothing is owed to them: {why}";
    /// A subscriber has gone to another box with its flows, or come from one.
    Info SubscriberMoved {
        /// An address of it.
        client: String,
        /// Name of the other box.
        peer: String,
        /// `to` or `from`.
        way: &'static str,
        /// Flows that moved.
        moved: u64,
        /// Bytes of held data that were sent, or taken.
        held: u64,
        /// Bytes of the flows' records that were sent; 0 where it came.
        records: u64,
        /// Bytes of data of the flow that held most; 0 where it came.
        most: u64,
        /// Time during which nobody had it, µs; 0 where it came.
        frozen_us: u64,
    } => "subscriber {client} has moved {way} {peer}: {moved} flows, {held} bytes held, nobody's for {frozen_us} µs";
    /// A subscriber has not gone to another box, or nobody knows.
    Warning SubscriberNotMoved {
        /// An address of it.
        client: String,
        /// Name of the other box.
        peer: String,
        /// Reason.
        why: String,
    } => "subscriber {client} has not moved to or from {peer}: {why}";
    /// The flows are another instance's, and this one ends.
    Info HandedOver {
        /// Number of flows.
        flows: u64,
        /// Memory that they hold, bytes.
        held: u64,
        /// Time that packets waited, µs.
        waited_us: u64,
    } => "handed over {flows} flows; packets waited {waited_us} µs";
    /// This process goes on with the flows of one that has died.
    Info FlowsRecovered {
        /// Number of flows.
        flows: u64,
        /// Data that they hold.
        bytes: Amount,
        /// Time that it took, µs.
        took_us: u64,
        /// Flows that were owed something and cannot go on.
        lost: usize,
        /// Processes of this line that have died so far.
        deaths: u64,
        /// Time since this one died, ms, during which packets have waited.
        waited_ms: u64,
    } => "going on with {flows} flows of the process that died, {bytes} held; {lost} are lost; it took {took_us} µs";
    /// If this process dies, no other one goes on with its flows.
    Warning NoSuccessor {
        /// Reason.
        error: String,
    } => "{error}: if this process dies, its flows are reset";
    /// Another instance wanted them and has not taken them.
    Warning NotHandedOver {
        /// Reason.
        why: String,
    } => "the flows stay here: {why}";
    /// It has.
    Info ReplacedEnded => "the replaced one has ended";
    /// Reports of base stations cannot be received.
    Warning WithoutReports {
        /// Reason of the failure.
        error: String,
    } => "{error}: going on without reports of base stations";
    /// A bridge of the kernel's takes over when this process dies or hangs.
    Info BridgeStandsBy {
        /// Its name.
        bridge: String,
        /// An interface.
        wired: String,
        /// The other one.
        mobile: String,
    } => "bridge {bridge} stands by between {wired} and {mobile}";
    /// Nothing does.
    Warning NothingStandsBy => "\
        when this process ends the wire is cut; --inline-fallback bridge has the kernel take over";
    /// Technique about to be used that may be claimed by a patent.
    Notice PatentClaim => "\
        `opportunistic` together with early acknowledgements and rate control is claimed by US 9,548,936 \
        B2; read the file NOTICE before using it on a network (not legal advice)";
    /// Packets pass.
    Info Ready {
        /// Way in which packets come here.
        attachment: &'static str,
        /// Purpose of this run, in a few words.
        purpose: String,
        /// Reason why nobody would go on with the flows if this process died; none if another one would.
        no_successor: Option<String>,
    } => "ready: {purpose}";

    // Interfaces.

    /// An interface went down or vanished.
    Warning InterfaceLost {
        /// Its name.
        interface: String,
        /// `down` or `gone`.
        condition: &'static str,
    } => "interface '{interface}' is {condition}: waiting for it, and going on when it is back";
    /// The same interface is up again.
    Info InterfaceBack {
        /// Its name.
        interface: String,
    } => "interface '{interface}' is back: going on";
    /// Another interface of the same name is up.
    Info InterfaceNew {
        /// Its name.
        interface: String,
        /// Remedy that is applied.
        remedy: &'static str,
    } => "interface '{interface}' was made anew: {remedy}";
    /// It cannot be attached to for now.
    Warning NotFollowed {
        /// Reason of the failure.
        error: String,
        /// Consequence meanwhile.
        consequence: &'static str,
    } => "{error}: {consequence}, and it is tried again";
    /// An interface takes packets of another length.
    Info InterfaceMtu {
        /// Its name.
        interface: String,
        /// Longest packet, bytes.
        mtu: u32,
    } => "the MTU of {interface} is {mtu}";
    /// Routes through an interface state another length.
    Info RouteMtu {
        /// Its name.
        interface: String,
        /// Longest packet, bytes.
        mtu: u32,
    } => "the least MTU of the routes through {interface} is {mtu}";

    // While it runs.

    /// This process was silent for too long, and packets went past it.
    Warning Hung {
        /// Substitute for this process.
        by: StandIn,
        /// Action that follows.
        aftermath: &'static str,
    } => "this process had hung and {by}: {aftermath}";
    /// The watchdog has died.
    Warning WatchdogDied => "the watchdog has ended: starting another one";
    /// It cannot be started.
    Warning WatchdogMissing {
        /// Reason of the failure.
        error: String,
    } => "{error}: trying again";
    /// The kernel has refused something for the moment: told the first time.
    Warning KernelRefused {
        /// Operation and reason.
        error: String,
    } => "{error}: trying again, now and whenever it happens again (kernel_refusals in the status counts)";
    /// A table or memory is full: at most once in ten seconds.
    Warning Overloaded {
        /// New flows that were passed, and packets left to be sent again, since it was told last.
        refusals: u64,
    } => "\
        overloaded: {refusals} new flows or packets were refused, because a table or memory was full (--flows-max, \
        --memory-max)";
    /// The nft table was taken away by somebody.
    Warning NotrackVanished => "the nft table had vanished and was installed again";
    /// A packet filter has come up that decides otherwise of steered TCP.
    Warning FilterAppeared {
        /// Rule of the filter, and what to add to it.
        rule: String,
    } => "\
        a filter has come up that would be passed by, or would break flows: {rule}; new flows pass, and those that are \
        accelerated are handed back";
    /// A packet filter has come up that does not see what is bridged here.
    Warning FilterUnseen {
        /// Rule of the filter.
        rule: String,
    } => "a filter has come up that this bridge passes by: {rule}; end the accelerator, or filter elsewhere";
    /// Nothing is steered, and the process waits.
    Warning StandsBy {
        /// Obstacle to the steering.
        why: String,
    } => "stands by, and TCP is forwarded without acceleration, until nothing is against it any more: {why}";
    /// The process has waited for that.
    Info StandbyEnds => "nothing is against it any more: starting again";
    /// The same, and the settings say to go on.
    Warning FilterBypassed {
        /// Rule of the filter.
        rule: String,
    } => "--bypass-filters: {rule}";
    /// Nearly all connections are opened from the side where servers should be.
    Warning SidesSwapped {
        /// Handshakes that began there.
        by_servers: u64,
        /// All that began.
        of: u64,
    } => "\
        {by_servers} of {of} connections were opened from the wired side, so clients seem to be there: are --wired and \
        --mobile swapped?";
    /// Nothing of the kind is there any more.
    Info FilterResolved => "no filter is passed by any more";
    /// Policy rules were taken away by somebody.
    Warning RulesVanished {
        /// Number of rules.
        rules: usize,
    } => "{rules} policy rules had vanished and were installed again; does another program manage them?";
    /// A journal has no room left.
    Warning JournalFull {
        /// Reason why it cannot grow.
        why: String,
    } => "\
        the journal is full ({why}): should this process be killed, flows that are not in it stall \
        instead of being reset; make room and start anew";
    /// The directory with what is written down cannot be made anew.
    Warning DirectoryMissing {
        /// Reason of the failure.
        error: String,
    } => "\
        {error}: until that is possible nobody can ask this process anything, and if it is killed together with its \
        watchdog, what it has set up stays";
    /// Others had deleted it, or it could not be made at the start.
    Warning DirectoryRestored => "\
        the directory with what is written down was missing, and was made anew; does another program clean it up?";
    /// An A/B phase has begun: half of the subscribers are passed, for comparison.
    Info AbBegan {
        /// Seed that decides which half.
        seed: u32,
        /// Planned duration, s.
        time_s: u64,
    } => "an A/B phase of {time_s} s has begun: half of the subscribers are passed (seed {seed})";
    /// It has ended: new flows of all subscribers are accelerated.
    Info AbEnded {
        /// `time`, `request` or `upgrade`.
        why: &'static str,
    } => "the A/B phase has ended ({why})";
    /// Settings were read anew.
    Info Reloaded {
        /// Settings that hold.
        outcome: String,
    } => "reloaded: {outcome}";
    /// They could not be.
    Warning NotReloaded {
        /// Reason of the refusal.
        problem: String,
    } => "not reloaded, all is as before: {problem}";

    // The end.

    /// Time was up before all was delivered.
    Warning Undelivered {
        /// Acknowledged to one host and not delivered to the other.
        bytes: Amount,
        /// Number of flows that the bytes belong to.
        flows: usize,
    } => "{bytes} could not be delivered to {flows} flows in time: resetting them";
    /// Flows that were owed something were reset.
    Warning FlowsReset {
        /// Fate of the flows.
        outcome: FlowTotals,
    } => "{outcome}";
    /// A shard has ended by itself.
    Warning ShardFailed {
        /// Reason of the failure.
        error: String,
    } => "{error}";

    // What was counted.

    /// Traffic that came in from one side.
    Info Received {
        /// `servers` or `clients`.
        from: &'static str,
        /// Super-packets count as one.
        packets: u64,
        /// IP headers included.
        bytes: Amount,
    } => "from {from}: {packets} packets, {bytes}";
    /// Service to the flows of one direction.
    Info Delivered {
        /// `accelerated` or `uplink accelerated`.
        what: &'static str,
        /// Number of flows.
        flows: u64,
        /// To the receiving hosts.
        delivered: Amount,
        /// Sent more than once.
        again: Amount,
    } => "{what}: {flows} flows, {delivered} delivered, {again} sent again";
    /// Changes made to flows under `drwa`.
    Info WindowsLowered {
        /// Number of flows.
        flows: u64,
        /// Acknowledgements changed.
        acks: u64,
    } => "windows lowered: {flows} flows, {acks} acknowledgements";
    /// Flows that were not treated opportunistically to their end.
    Info FellBack {
        /// Number of flows.
        flows: u64,
    } => "fell back to honour: {flows} flows, whose clients discarded what lay beyond their window";
    /// Flows that were passed, or ended, for a reason.
    Info Passed {
        /// Number of flows.
        flows: u64,
        /// Reason.
        reason: String,
    } => "passed or ended: {flows} flows, {reason}";
    /// Bytes that were acknowledged in vain.
    Warning Lost {
        /// Amount.
        bytes: Amount,
        /// Hosts that the bytes were acknowledged to.
        hosts: &'static str,
        /// Host that never got the bytes.
        other: &'static str,
    } => "{bytes} were acknowledged to {hosts} and never by the {other}";
    /// Packets that were not taken.
    Warning Dropped {
        /// In full queues.
        drops: u64,
        /// By the kernel.
        refused: u64,
    } => "{drops} packets lost in full device queues, {refused} refused by the kernel";
}

impl Event {
    /// The whole line: severity and text.
    #[must_use]
    pub fn line(&self) -> String {
        format!("{}{self}", self.severity().prefix())
    }

    /// The event with its severity and its line, as one JSON object.
    #[must_use]
    pub fn with_text(&self) -> EventWithText<'_> {
        EventWithText { severity: self.severity(), text: self.to_string(), event: self }
    }
}

/// Substitute that stood in for this process.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum StandIn {
    /// Plain forwarding, after the watchdog had acted.
    Watchdog,
    /// The kernel's bridge.
    Bridge,
}

impl fmt::Display for StandIn {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Watchdog => "the watchdog took the steering away",
            Self::Bridge => "the bridge had taken over",
        })
    }
}

/// An amount of data: a number of bytes in JSON, with a unit in a line.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Amount(pub Bytes);

impl fmt::Display for Amount {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

impl Serialize for Amount {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_u64(self.0.get())
    }
}

/// An event for whoever reads JSON.
#[derive(Clone, Debug, Serialize)]
pub struct EventWithText<'a> {
    /// Severity: the attention it asks for.
    pub severity: Severity,
    /// Its line, without the severity.
    pub text: String,
    /// Its name and fields.
    #[serde(flatten)]
    pub event: &'a Event,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_has_the_severity_in_front_and_json_has_all() {
        let event = Event::InterfaceLost { interface: "m0".to_owned(), condition: "down" };
        let text = "interface 'm0' is down: waiting for it, and going on when it is back";
        assert_eq!(event.line(), format!("warning: {text}"));
        let json = serde_json::to_value(event.with_text()).unwrap();
        let wanted = serde_json::json!({
            "severity": "warning", "text": text,
            "event": "interface-lost", "interface": "m0", "condition": "down"
        });
        assert_eq!(json, wanted);
        let undelivered = Event::Undelivered { bytes: Amount(Bytes::new(1_500)), flows: 2 };
        assert!(
            undelivered.line().starts_with("warning: 1.5 KB could not be delivered to 2 flows"),
            "{undelivered}"
        );
        assert_eq!(serde_json::to_value(undelivered).unwrap()["bytes"], 1_500);
        assert_eq!(Event::ReplacedEnded.line(), "the replaced one has ended");
        assert!(Event::PatentClaim.line().starts_with("notice: `opportunistic` together"));
    }

    #[test]
    fn a_closure_is_a_sink() {
        let mut seen = Vec::new();
        let sink: &mut dyn EventSink = &mut |event: &Event| seen.push(event.severity());
        sink.on_event(&Event::WatchdogDied);
        sink.on_event(&Event::Hung { by: StandIn::Bridge, aftermath: "bridging here again" });
        assert_eq!(seen, [Severity::Warning, Severity::Warning]);
    }
}
