//! [`Session::ports`] and [`Session::seen`]: what the server's TCP sockets are, and what they saw.

use std::collections::BTreeMap;

use io::{Clock, IoError};
use probe::{ClientEvent, Message, Port};

use super::{MeasureError, Session};

/// Questions under way at once.
const ASKED_MAX: usize = 16;
/// Longest report that is fetched.
const REPORT_MAX: u32 = 64 << 10;

/// Reports by run, as far as they came, and why there are no more.
type Reports = (BTreeMap<u32, Vec<u8>>, Option<MeasureError>);

/// A report that is being fetched.
#[derive(Default)]
struct Report {
    len: Option<u32>,
    parts: BTreeMap<u32, Vec<u8>>,
}

impl Report {
    fn whole(&self) -> Option<Vec<u8>> {
        let bytes: Vec<u8> = self.parts.values().flatten().copied().collect();
        (self.len == u32::try_from(bytes.len()).ok()).then_some(bytes)
    }
}

impl Session<'_> {
    /// Statement of the server about its TCP ports: of `asked`, and those that it names itself.
    pub(crate) fn ports(&mut self, asked: &[u16]) -> Result<Vec<Port>, MeasureError> {
        let Some(session) = self.id() else { return Err(MeasureError::Gone { server: self.name() }) };
        self.client.ask(Message::AskPorts { session, ports: asked.to_vec() }, Clock::now());
        let mut found = None;
        while found.is_none() {
            self.turn()?;
            let failure = self.answers(&mut |answer| {
                if let Message::Ports { ports, .. } = answer {
                    found = Some(ports);
                }
            });
            if let Some(failure) = failure {
                return Err(failure);
            }
            if self.is_stopped {
                return Err(MeasureError::Interrupted);
            }
        }
        Ok(found.unwrap_or_default())
    }

    /// Asks for a word of the server, also after the user has stopped; why there is none, if so.
    ///
    /// # Errors
    /// Of the system only.
    pub(crate) fn hear(&mut self) -> Result<Option<MeasureError>, IoError> {
        let Some(session) = self.id() else { return Ok(Some(MeasureError::Gone { server: self.name() })) };
        self.client.ask(Message::AskPorts { session, ports: Vec::new() }, Clock::now());
        let (mut is_heard, mut failure) = (false, None);
        while !is_heard && failure.is_none() {
            self.turn()?;
            failure = self.answers(&mut |answer| is_heard |= matches!(answer, Message::Ports { .. }));
        }
        Ok(failure)
    }

    /// The server's reports of these TCP runs.
    ///
    /// # Errors
    /// Of the system only.
    pub(crate) fn seen(&mut self, runs: &[u32]) -> Result<Reports, IoError> {
        let Some(session) = self.id() else {
            return Ok((BTreeMap::new(), Some(MeasureError::Gone { server: self.name() })));
        };
        let mut reports: BTreeMap<u32, Report> = runs.iter().map(|run| (*run, Report::default())).collect();
        let mut waiting: Vec<(u32, u32)> = runs.iter().rev().map(|run| (*run, 0)).collect();
        let (mut asked, mut failure) = (0, None);
        while failure.is_none() && (asked > 0 || !waiting.is_empty()) {
            while asked < ASKED_MAX
                && let Some((run, from)) = waiting.pop()
            {
                self.client.ask(Message::AskSeen { session, run, from }, Clock::now());
                asked += 1;
            }
            self.turn()?;
            failure = self.answers(&mut |answer| {
                let Message::Seen { run, from, len, bytes, .. } = answer else { return };
                asked -= 1;
                let Some(report) = reports.get_mut(&run) else { return };
                let part = u32::try_from(bytes.len()).unwrap_or(0);
                if report.len.is_none() && part > 0 && len <= REPORT_MAX {
                    // The first part tells where the others begin.
                    waiting.extend((from + part..len).step_by(part as usize).map(|from| (run, from)));
                }
                report.len.get_or_insert(len);
                report.parts.insert(from, bytes);
            });
        }
        let whole = reports.into_iter().filter_map(|(run, report)| Some((run, report.whole()?)));
        Ok((whole.collect(), failure))
    }

    /// Hands over the answers that have come; why there will be none, if so.
    fn answers(&mut self, take: &mut dyn FnMut(Message)) -> Option<MeasureError> {
        let mut failure = None;
        self.lose_what_is_refused();
        while let Some(event) = self.client.poll_event() {
            match event {
                ClientEvent::Answered(answer) => take(answer),
                ClientEvent::Failed(reason) => failure = Some(MeasureError::of(reason, &self.name())),
                _ => {}
            }
        }
        failure
    }
}
