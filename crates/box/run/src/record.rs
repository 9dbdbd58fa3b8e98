//! [`Record`]: what has been set up and would stay behind, as written to disk and as undone.

use std::os::fd::OwnedFd;

use io::netlink::{Family, Netlink, Rule, Table};
use io::{IoError, NamespaceId, OwnedTable, PidFd, ProcessId, sysctl};
use serde::{Deserialize, Serialize};

/// Everything of an instance that does not vanish with its process.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Record {
    /// The network namespace: an instance elsewhere is none of our business.
    #[serde(flatten)]
    pub namespace: NamespaceId,
    pub rules: Vec<RecordedRule>,
    pub sysctls: Vec<RecordedSysctl>,
    /// The process that holds the nft table, as [`ProcessId`] writes it.
    pub nft: Option<String>,
    /// The nft table, which lives as long as somebody has its owner's socket.
    #[serde(default)]
    pub table: Option<String>,
    /// The bridge that stands by, or has taken over.
    #[serde(default)]
    pub bridge: Option<String>,
    /// It bridges the two interfaces frame by frame.
    #[serde(default)]
    pub is_inline: bool,
    /// The interface towards the servers.
    #[serde(default)]
    pub wired: String,
    /// The interface towards the clients: flows with debt pass it.
    #[serde(default)]
    pub mobile: String,
    /// The instance's name.
    #[serde(default)]
    pub name: String,
    /// Its devices: wired, mobile.
    #[serde(default)]
    pub tuns: [String; 2],
}

/// A policy rule of ours.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct RecordedRule {
    pub ipv6: bool,
    pub interface: String,
    pub priority: u32,
    pub table: u32,
    #[serde(default = "tcp")]
    pub protocol: u8,
}

/// A rule for every protocol is written down so.
const ANY_PROTOCOL: u8 = 0;

/// Protocol of rules where none was written down.
const fn tcp() -> u8 {
    wire::protocol::TCP
}

/// A kernel setting that was changed.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct RecordedSysctl {
    pub path: String,
    pub before: String,
    pub during: String,
}

impl From<&Rule> for RecordedRule {
    fn from(rule: &Rule) -> Self {
        Self {
            ipv6: rule.family == Family::V6,
            interface: rule.iif.clone().unwrap_or_default(),
            priority: rule.priority,
            table: rule.table.0,
            protocol: rule.protocol.unwrap_or(ANY_PROTOCOL),
        }
    }
}

impl From<&RecordedRule> for Rule {
    fn from(rule: &RecordedRule) -> Self {
        Self {
            family: if rule.ipv6 { Family::V6 } else { Family::V4 },
            priority: rule.priority,
            iif: Some(rule.interface.clone()),
            protocol: Some(rule.protocol).filter(|number| *number != ANY_PROTOCOL),
            table: Table(rule.table),
            is_own: true,
        }
    }
}

impl Record {
    /// Reads what an instance wrote down; `None` when it did not get that far.
    pub fn parse(text: &str) -> Option<Self> {
        serde_json::from_str(text).ok()
    }

    /// The text for [`io::Instance::record`].
    pub fn to_text(&self) -> String {
        // A struct of strings and numbers always has a JSON form.
        serde_json::to_string(self).unwrap_or_default()
    }

    /// True when `other` is what another process has written down of the same devices, or of the same bridge.
    pub fn is_of_same_devices(&self, other: &Self) -> bool {
        let key = |record: &Self| {
            let Self { namespace, is_inline, wired, mobile, tuns, .. } = record.clone();
            (namespace, is_inline, wired, mobile, tuns)
        };
        key(self) == key(other)
    }

    /// Lets TCP take the plain way again: rules and notrack go. What is gone already is fine.
    ///
    /// Everything is tried; the first failure is reported.
    pub fn undo_steering(&self, netlink: &Netlink) -> Result<(), IoError> {
        let mut result = Ok(());
        for rule in &self.rules {
            result = result.and(absent_is_fine(netlink.delete_rule(&rule.into())));
        }
        if let Some(holder) = self.nft.as_deref().and_then(|text| text.parse().ok()) {
            result = result.and(kill(holder));
        }
        result
    }

    /// The nft table by its owner's socket, if it lives by that.
    pub fn owned_table(&self, table_owner: &OwnedFd) -> Option<OwnedTable> {
        Some(OwnedTable::adopt(table_owner.try_clone().ok()?, self.table.as_ref()?))
    }

    /// True when its nft table is there, if it has one.
    pub fn is_held(&self) -> bool {
        let holder = self.nft.as_deref().and_then(|text| text.parse::<ProcessId>().ok());
        holder.is_none_or(|holder| holder.is_alive())
    }

    /// Puts `settings` back unless somebody else changed them since.
    pub fn put_back(settings: &[RecordedSysctl]) -> Result<(), IoError> {
        let mut result = Ok(());
        for setting in settings {
            if sysctl::read_here(&setting.path).is_ok_and(|now| now == setting.during) {
                result = result.and(sysctl::write_here(&setting.path, &setting.before));
            }
        }
        result
    }

    /// True when its bridge has ports.
    pub fn is_bridging(&self, netlink: &Netlink) -> Result<bool, IoError> {
        let links = netlink.links()?;
        let bridge = links.iter().find(|link| Some(&link.name) == self.bridge.as_ref());
        Ok(bridge.is_some_and(|bridge| links.iter().any(|link| link.bridge == Some(bridge.index))))
    }

    /// Resources that nobody of `others` has set up, or needs. Rules and bridges have names that are used
    /// again: whoever is to undo a process that has died may come late, or a second time.
    pub fn without(&self, others: &[Self]) -> Self {
        let others = || others.iter().filter(|other| other.namespace.is(&self.namespace));
        let is_theirs = |setting: &RecordedSysctl| {
            others().any(|other| other.sysctls.iter().any(|theirs| theirs.path == setting.path))
        };
        let mut own = self.clone();
        own.rules.retain(|rule| !others().any(|other| other.rules.contains(rule)));
        own.sysctls.retain(|setting| !is_theirs(setting));
        own.nft = own.nft.filter(|holder| !others().any(|other| other.nft.as_ref() == Some(holder)));
        own.bridge = own.bridge.filter(|name| !others().any(|other| other.bridge.as_ref() == Some(name)));
        own
    }

    /// Undoes all of it.
    ///
    /// # Errors
    /// The first failure; everything is tried.
    pub fn undo(&self, netlink: &Netlink) -> Result<(), IoError> {
        let bridge = self.bridge.as_ref().map_or(Ok(()), |name| {
            absent_is_fine(netlink.index_of(name).and_then(|index| netlink.delete_link(index)))
        });
        self.undo_steering(netlink).and(bridge).and(Self::put_back(&self.sysctls))
    }
}

fn absent_is_fine(result: Result<(), IoError>) -> Result<(), IoError> {
    match result {
        Err(e) if e.is_not_there() => Ok(()),
        result => result,
    }
}

/// Kills a process, such as the holder of the nft table, unless its number belongs to another one by now.
pub(crate) fn kill(holder: ProcessId) -> Result<(), IoError> {
    const SIGKILL: i32 = 9;
    // The descriptor is opened first: whatever is checked afterwards is the process it means.
    let Ok(process) = PidFd::open(holder.pid()) else { return Ok(()) };
    if holder.is_alive() { absent_is_fine(process.send_signal(SIGKILL)) } else { Ok(()) }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn record() -> Record {
        let rule = RecordedRule {
            ipv6: false,
            interface: "w0".to_owned(),
            priority: 206,
            table: 20_600,
            protocol: wire::protocol::TCP,
        };
        let setting = |path: &str| RecordedSysctl {
            path: path.to_owned(),
            before: "0".to_owned(),
            during: "1".to_owned(),
        };
        Record {
            namespace: NamespaceId { inode: 7, cookie: Some(3) },
            rules: vec![rule.clone(), RecordedRule { ipv6: true, ..rule }],
            sysctls: vec![setting("a/b"), setting("a/c")],
            nft: Some("12:34".to_owned()),
            bridge: Some("cellbr0".to_owned()),
            ..Record::default()
        }
    }

    #[test]
    fn what_another_that_runs_has_is_not_undone() {
        let all = record();
        assert_eq!(all.without(&[]), all);
        let mut other = record();
        other.rules.remove(0);
        other.sysctls.remove(0);
        other.nft = Some("12:35".to_owned());
        let rest = all.without(&[Record::default(), other.clone()]);
        assert_eq!((&rest.rules[..], &rest.sysctls[..]), (&all.rules[..1], &all.sysctls[..1]));
        assert_eq!((rest.nft.as_deref(), rest.bridge), (Some("12:34"), None));
        other.namespace.inode = 8;
        assert_eq!(all.without(&[other]), all, "names of another namespace mean nothing here");
    }

    #[test]
    fn a_record_survives_the_disk() {
        let rule = Rule {
            family: Family::V6,
            priority: 206,
            iif: Some("w0".to_owned()),
            protocol: Some(6),
            table: Table(20_600),
            is_own: true,
        };
        let sysctl =
            RecordedSysctl { path: "a/b".to_owned(), before: "0".to_owned(), during: "1".to_owned() };
        let record = Record {
            namespace: NamespaceId { inode: 7, cookie: Some(3) },
            rules: vec![RecordedRule::from(&rule)],
            sysctls: vec![sysctl],
            nft: Some("12:34".to_owned()),
            table: Some("cellerator_12".to_owned()),
            bridge: Some("cellbr0".to_owned()),
            is_inline: true,
            wired: "w0".to_owned(),
            mobile: "m0".to_owned(),
            name: "w0-m0".to_owned(),
            tuns: ["cellw0", "cellm0"].map(str::to_owned),
        };
        assert_eq!(Record::parse(&record.to_text()), Some(record.clone()));
        assert_eq!(Rule::from(&record.rules[0]), rule);
        assert_eq!(Record::parse(""), None);
    }
}
