//! [`Log`]: what happens, for whoever looks after this machine: lines on a terminal or in a file, or entries with
//! fields in the journal of systemd.
//!
//! ```text
//!   Event ─┬─ standard error is the journal's ─▶ MESSAGE, PRIORITY, CELLERATOR_EVENT, CELLERATOR_…
//!          └─ else ─▶ a line on standard output or standard error
//! ```

use std::io::{BufRead, BufReader, Write};
use std::os::unix::net::UnixStream;
use std::thread;

use io::{IoError, SystemJournal, is_journal_standard_error, say};
use serde_json::{Map, Value};

use crate::event_broadcaster::{EventBroadcaster, Wishes};
use crate::{Event, EventSink, RunError, Severity};

/// Name of this program in the journal.
const IDENTIFIER: &str = "cellerator";

/// Place to which events are written down.
#[derive(Debug)]
pub struct Log {
    journal: Option<SystemJournal>,
    /// Standard error is a stream to the journal: lines begin with their priority.
    is_stream: bool,
    instance: String,
}

impl Log {
    /// One of the instance that is called `instance`.
    #[must_use]
    pub fn open(instance: &str) -> Self {
        let is_stream = is_journal_standard_error();
        Self { journal: SystemJournal::of_standard_error(), is_stream, instance: instance.to_owned() }
    }

    /// Tells an event of a flow or a subscriber: a line of JSON.
    fn flow(&self, line: &str) {
        if let Ok(Value::Object(event)) = serde_json::from_str(line) {
            self.say(Severity::Info, &flow_text(&event), &event);
        }
    }

    fn say(&self, severity: Severity, text: &str, event: &Map<String, Value>) {
        if !self.enter(severity, text, event) {
            say(format_args!("{}cellerator: {text}", self.priority(severity)));
        }
    }

    /// Enters it into the journal; false where there is none, or it takes nothing in.
    fn enter(&self, severity: Severity, text: &str, event: &Map<String, Value>) -> bool {
        let Some(journal) = &self.journal else { return false };
        journal.write(&fields(&self.instance, severity, text, event)).is_ok()
    }

    /// Prefix of a line: as `SyslogLevelPrefix` of systemd has it (sd-daemon(3)).
    fn priority(&self, severity: Severity) -> String {
        if self.is_stream { format!("<{}>", level(severity)) } else { String::new() }
    }
}

impl EventSink for Log {
    /// Writes what was set up to standard output, and what needs attention to standard error. A reader who
    /// has gone away is no reason to stop.
    fn on_event(&mut self, event: &Event) {
        let severity = event.severity();
        if let Ok(Value::Object(object)) = serde_json::to_value(event)
            && self.enter(severity, &event.to_string(), &object)
        {
            return;
        }
        let priority = self.priority(severity);
        if severity == Severity::Info {
            drop(std::io::stdout().write_all(format!("{priority}{event}\n").as_bytes()));
        } else {
            say(format_args!("{priority}cellerator: {}", event.line()));
        }
    }
}

/// Writes down what a watchdog has to say: as a line. The journal looks up by its number whose an entry is, and this
/// process may have ended by then; a line comes by standard error, which the journal knows.
pub(crate) fn warn(text: &str) {
    let priority =
        if is_journal_standard_error() { format!("<{}>", level(Severity::Warning)) } else { String::new() };
    say(format_args!("{priority}cellerator: {text}"));
}

/// Has everything written down that happens to flows and subscribers.
///
/// # Errors
/// When there can be no thread for it.
pub(crate) fn follow_flows(broadcaster: &EventBroadcaster, instance: &str) -> Result<(), RunError> {
    let failed = |error| RunError::Io(IoError::system("start the log of flows", error));
    let (told, heard) = UnixStream::pair().map_err(failed)?;
    let log = Log::open(instance);
    let write = move || {
        for line in BufReader::new(heard).lines().map_while(Result::ok) {
            log.flow(&line);
        }
    };
    thread::Builder::new().name("flow-log".to_owned()).spawn(write).map_err(failed)?;
    broadcaster.add(told, Wishes { flows: true, ..Wishes::default() });
    Ok(())
}

/// Text of an event of a flow or a subscriber, in words.
#[must_use]
pub fn flow_text(event: &Map<String, Value>) -> String {
    let name = event.get("event").and_then(Value::as_str).unwrap_or_default().replace('-', " ");
    let fields = event.iter().filter(|(key, _)| !matches!(key.as_str(), "at_ms" | "event"));
    let fields = fields.map(|(key, value)| format!("{key} {}", plain(value)));
    format!("{name}: {}", fields.collect::<Vec<_>>().join(", "))
}

fn plain(value: &Value) -> String {
    value.as_str().map_or_else(|| value.to_string(), str::to_owned)
}

/// Priorities of syslog(3).
const fn level(severity: Severity) -> u8 {
    match severity {
        Severity::Info => 6,
        Severity::Notice => 5,
        Severity::Warning => 4,
    }
}

/// The fields of an entry of the journal.
fn fields(
    instance: &str,
    severity: Severity,
    text: &str,
    event: &Map<String, Value>,
) -> Vec<(String, String)> {
    let fixed = [
        ("MESSAGE", text.to_owned()),
        ("PRIORITY", level(severity).to_string()),
        ("SYSLOG_IDENTIFIER", IDENTIFIER.to_owned()),
        ("CELLERATOR_INSTANCE", instance.to_owned()),
    ];
    let own = event.iter().filter(|(_, value)| !value.is_null());
    let own = own.map(|(key, value)| (format!("CELLERATOR_{}", key.to_ascii_uppercase()), plain(value)));
    let fixed = fixed.into_iter().map(|(name, value)| (name.to_owned(), value));
    fixed.chain(own).filter(|(_, value)| !value.is_empty()).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_entry_has_the_event_its_fields_and_its_priority() {
        let event = Event::FlowsTakenOver { flows: 3, took_us: 250 };
        let Value::Object(object) = serde_json::to_value(&event).unwrap() else { panic!("no object") };
        let all = fields("radio", event.severity(), &event.to_string(), &object);
        let find = |name: &str| all.iter().find(|(field, _)| field == name).map(|(_, value)| value.as_str());
        assert_eq!(find("MESSAGE"), Some("took over 3 flows of it"));
        assert_eq!((find("PRIORITY"), find("SYSLOG_IDENTIFIER")), (Some("6"), Some("cellerator")));
        assert_eq!(
            (find("CELLERATOR_EVENT"), find("CELLERATOR_INSTANCE")),
            (Some("flows-taken-over"), Some("radio"))
        );
        assert_eq!((find("CELLERATOR_FLOWS"), find("CELLERATOR_TOOK_US")), (Some("3"), Some("250")));
    }

    #[test]
    fn names_of_fields_are_what_the_journal_takes() {
        let line = r#"{"at_ms":0,"event":"flow-passed","client":"10.1.0.2:5","reason":"mptcp","none":null}"#;
        let Ok(Value::Object(event)) = serde_json::from_str(line) else { panic!("no object") };
        let all = fields("radio", Severity::Info, &flow_text(&event), &event);
        let is_fine = |name: &str| {
            name.bytes().all(|byte| byte.is_ascii_uppercase() || byte == b'_') && !name.starts_with('_')
        };
        assert!(all.iter().all(|(name, value)| is_fine(name) && !value.is_empty()), "{all:?}");
        assert_eq!(all[0].1, "flow passed: client 10.1.0.2:5, none null, reason mptcp");
        assert_eq!(all.len(), 4 + 4, "what is not known is left out");
    }
}
