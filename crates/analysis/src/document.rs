//! [`Document`]: the whole result, as written to JSON.

use serde::Serialize;

use crate::flow::Event;
use crate::report::FlowReport;

/// Name and version of the JSON schema.
pub const SCHEMA: &str = "cellerator/analysis/1";

/// Everything one analysis found.
#[derive(Clone, Debug, Serialize)]
pub struct Document {
    /// [`SCHEMA`].
    pub schema: &'static str,
    /// What made it.
    pub made_by: MadeBy,
    /// The captures, in the order given.
    pub captures: Vec<CaptureFile>,
    /// Flows, in the order of first packets.
    pub flows: Vec<FlowReport>,
    /// Events in the order of the segments that showed them, if asked for.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub events: Option<Vec<Event>>,
}

/// What made a result.
#[derive(Clone, Debug, Serialize)]
pub struct MadeBy {
    /// Version of the program.
    pub cellerator: String,
    /// The command.
    pub command: String,
}

/// One capture and its health.
#[derive(Clone, Debug, Serialize)]
pub struct CaptureFile {
    /// Its name.
    pub file: String,
    /// Packets read.
    pub packets: u64,
    /// Packets kept in part.
    pub clipped: u64,
    /// Steps back in time.
    pub time_steps_back: u64,
    /// Packets that the capturing machine says it lost; none if it does not say.
    pub dropped: Option<u64>,
    /// Where and why it could not be read to its end.
    pub problem: Option<String>,
    /// Packets that gave no TCP segment, by reason.
    pub skipped: Skipped,
    /// TCP segments.
    pub segments: u64,
}

/// Packets without a TCP segment, by reason.
#[derive(Clone, Copy, Debug, Default, Serialize)]
pub struct Skipped {
    /// Unknown link type.
    pub unknown_link: u64,
    /// No IP.
    pub not_ip: u64,
    /// No TCP.
    pub not_tcp: u64,
    /// Fragments.
    pub fragment: u64,
    /// Headers cut or wrong.
    pub cut: u64,
}

impl Skipped {
    /// Counts one.
    pub fn count(&mut self, skip: capture::Skip) {
        let place = match skip {
            capture::Skip::UnknownLink => &mut self.unknown_link,
            capture::Skip::NotIp => &mut self.not_ip,
            capture::Skip::NotTcp => &mut self.not_tcp,
            capture::Skip::Fragment => &mut self.fragment,
            capture::Skip::Cut => &mut self.cut,
        };
        *place += 1;
    }
}
